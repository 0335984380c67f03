//! One session with a shell around it: reading, writing, handlers, and what is checked after each
//! thing that the session is told.

use std::io;
use std::time::Duration;

use antiphon::session::{Fault, Order, Phase, Session, WhenFull};
use antiphon::{Closed, Instant};

use super::book::{Book, Ending, Open};
use super::checks::{Broken, Check, Checked};
use super::counts::Counts;
use super::pipe::WireKind;
use super::plant::Plant;
use super::serving::{Membership, Plan, Running};
use super::settings::{MAX_READ_BYTES, NOTIFICATION_BYTES_MIN, Settings, max_memory_bytes};
use antiphon_test_support::heap::measured;
use antiphon_test_support::random::Random;

#[derive(Debug)]
pub(super) struct Side {
    pub(super) session: Session<u64>,
    pub(super) wire: WireKind,
    pub(super) book: Book,
    pub(super) running: Vec<Running>,
    /// Its part in the server of its application, if it has one.
    pub(super) membership: Option<Membership>,
    pub(super) counts: Counts,
    pub(super) plant: Option<Plant>,
    /// Calls that have settled since the world last looked.
    pub(super) settled: Vec<(u64, Ending)>,
    pub(super) when_full: WhenFull,
    pub(super) max_queued_messages: usize,
    /// The session's phase when it was last checked.
    pub(super) phase: Phase,
    /// The latest time told.
    pub(super) told: Instant,
    /// How far this side's clock is ahead, in nanoseconds.
    pub(super) ahead: u64,
    /// What this side's clock says while it stands still.
    pub(super) frozen: Option<u64>,
    /// Which work waits for the end of which.
    pub(super) order: Order,
    pub(super) cancel_is_silent: bool,
    /// How many notifications are being served.
    pub(super) serving: usize,
    /// What is being written, and how much of it has been.
    pub(super) writing: Option<(Vec<u8>, usize)>,
    /// How many bytes have been written.
    pub(super) written: u64,
    /// Up to where the output has answers, in bytes from its start: what handlers have answered for
    /// certain; and the end of all that was not a call, a notification or a cancel of this side.
    pub(super) answers_end: [u64; 2],
    pub(super) soft_max_outbox_bytes: u64,
    /// Where messages end that have not been written, in bytes from the start of the output.
    pub(super) marks: Vec<u64>,
    /// How many bytes of memory the session holds, and how many it may hold.
    pub(super) live: isize,
    pub(super) max_live: isize,
    /// A copy of output, outside of the session's memory: larger than any output, so that it never
    /// allocates while memory is measured.
    pub(super) scratch: Vec<u8>,
}

impl Side {
    pub(super) fn new(
        settings: &Settings,
        order: Order,
        rng: &mut Random,
        plant: Option<Plant>,
    ) -> Self {
        let mut config = settings.config(rng);
        config.order = match plant {
            Some(Plant::OrderLooser) => Order::Notifications,
            Some(Plant::OrderStricter) => Order::Serial,
            _ => order,
        };
        let (when_full, max_queued_messages) = (config.when_full, config.max_queued_messages);
        let soft_max_outbox_bytes = config.config.limits.soft_max_outbox_bytes as u64;
        if plant == Some(Plant::UnreadIgnored) {
            config.config.limits.soft_max_outbox_bytes = config.config.limits.max_outbox_bytes;
        }
        let mut max_live = max_memory_bytes(&config);
        if plant == Some(Plant::LimitsLess) {
            max_live = 3000;
        }
        let (session, used) = measured(|| settings.session(config, Instant::ZERO));
        let phase = session.phase();
        let may_drop = when_full == WhenFull::Drop;
        let mut counts = Counts::default();
        counts.add(match settings.wire {
            WireKind::Stream(_) => "wire: stream",
            WireKind::Messages => "wire: messages",
            WireKind::Layered => "wire: layered",
        });
        counts.add(name_of(phase));
        counts.add(match order {
            Order::Free => "order: free",
            Order::Serial => "order: serial",
            _ => "order: notifications",
        });
        Self {
            order,
            cancel_is_silent: settings.cancel_is_silent(),
            session,
            wire: settings.wire,
            book: Book::new(settings.wire, may_drop, settings.cancel_is_silent()),
            running: Vec::new(),
            membership: None,
            counts,
            plant,
            settled: Vec::new(),
            when_full,
            max_queued_messages,
            phase,
            told: Instant::ZERO,
            ahead: 0,
            frozen: None,
            serving: 0,
            writing: None,
            written: 0,
            answers_end: [0; 2],
            soft_max_outbox_bytes,
            marks: Vec::new(),
            live: used.left,
            max_live,
            scratch: Vec::with_capacity(128 * 1024),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn is_over(&self) -> bool {
        self.phase.is_over()
    }

    /// What a failed run says of this side.
    pub(super) fn summary(&self) -> String {
        let running: Vec<Plan> = self.running.iter().map(|running| running.plan).collect();
        let calls: Vec<&u64> = self.book.open.keys().collect();
        let (writing, requests) = (self.writing.is_some(), self.session.requests_open());
        format!(
            "{:?}, told {:?}, calls {calls:?}, {requests} requests, serving {running:?}, writing {writing}",
            self.session, self.told
        )
    }

    pub(super) fn wants_input(&self) -> bool {
        !self.session.is_input_over()
    }

    /// Whether reading is not paused.
    pub(super) fn may_read(&self) -> bool {
        self.session.wants_input() || self.session.is_input_over()
    }

    /// Whether nothing is going on here, and nothing is left to do.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_over()
            || (self.book.open.is_empty()
                && self.running.is_empty()
                && self.writing.is_none()
                && self.session.requests_open() == 0
                && !self.session.has_transmit())
    }

    // Telling the session

    /// Tells the session something, and checks what holds after everything. Output that this makes may
    /// be answers.
    pub(super) fn tell<R>(
        &mut self,
        act: impl FnOnce(&mut Session<u64>) -> R,
    ) -> Result<R, Broken> {
        let before = self.session.transmit_queued();
        let result = self.ask(act);
        let after = self.session.transmit_queued();
        if after != before {
            self.answers_end[1] = after;
        }
        self.check()?;
        Ok(result)
    }

    /// Answers a request by telling the session so.
    pub(super) fn tell_answer<R>(
        &mut self,
        act: impl FnOnce(&mut Session<u64>) -> R,
    ) -> Result<R, Broken> {
        let before = self.session.transmit_queued();
        let result = self.tell(act)?;
        let after = self.session.transmit_queued();
        if after != before {
            self.answers_end[0] = after;
        }
        Ok(result)
    }

    /// Whether the peer has to read before a request may begin: for certain, and perhaps.
    pub(super) fn is_unread(&self) -> [bool; 2] {
        let queued = self.session.transmit_queued();
        // After a failed write nothing waits any more.
        let may_wait = self.book.open.is_empty() && self.session.is_written(queued).is_some();
        let is_unread = |end: u64| {
            let waiting = end.min(queued).saturating_sub(self.book.taken());
            may_wait && waiting > self.soft_max_outbox_bytes
        };
        let [certain, perhaps] = self.answers_end.map(is_unread);
        // At the end, calls that were not sent are taken out of the output, perhaps from before answers.
        [certain && self.phase.closed().is_none(), perhaps]
    }

    /// Tells the session something without checks: the caller updates the book first. Output that this
    /// makes is no answer.
    pub(super) fn ask<R>(&mut self, act: impl FnOnce(&mut Session<u64>) -> R) -> R {
        let session = &mut self.session;
        let (result, used) = measured(|| act(session));
        self.live += used.left;
        result
    }

    pub(super) fn check(&mut self) -> Checked {
        while let Some((number, how)) = self.poll_settled() {
            self.counts.add(match how {
                Ending::Ok(_) => "outcome: ok",
                Ending::Err | Ending::Other => "outcome: error",
                Ending::TimedOut => "outcome: timed out",
                Ending::Unsent => "outcome: unsent",
                Ending::Aborted => "outcome: aborted",
            });
            self.book.settle(number, how, self.told)?;
            if self.plant == Some(Plant::SettledTwice) {
                self.book.settle(number, how, self.told)?;
            }
            self.settled.push((number, how));
        }
        self.check_phase()?;
        self.check_drain()?;
        self.check_queue()?;
        let (live, most) = (self.live, self.max_live);
        Check::MemoryBounded.that(live <= most, || format!("{live} bytes, not {most}"))?;
        let may_read = self.may_read() && !self.is_planted_pause();
        if !may_read {
            // What waited because the peer had to read begins before more is read.
            let is_behind = self.session.is_full() || self.session.requests_waiting() > 0;
            let is_right = self.session.calls_open() == 0
                && (self.when_full == WhenFull::Pause || is_behind)
                && matches!(self.phase, Phase::Opening | Phase::Open | Phase::Draining);
            let calls = self.session.calls_open();
            Check::PausesRightly.that(is_right, || format!("{calls} calls in {:?}", self.phase))?;
        }
        self.check_marks()
    }

    /// A drain ends when nothing is open any more, and does not wait for its deadline.
    fn check_drain(&self) -> Checked {
        let is_done = self.phase == Phase::Draining
            && self.session.calls_open() == 0
            && self.session.requests_open() == 0
            && self.writing.is_none()
            && !self.session.has_transmit()
            && self.session.is_written(self.session.transmit_queued()) == Some(true);
        Check::EndsInTime.that(!is_done, || "nothing is open, and it still drains".into())
    }

    /// While more may come in, no more notifications wait than the limit says; with a call open, and in
    /// `LastWords`, no more than twice as many and what one read has brought.
    fn check_queue(&self) -> Checked {
        let is_last = matches!(self.phase, Phase::LastWords { .. });
        let is_listening =
            is_last || matches!(self.phase, Phase::Opening | Phase::Open | Phase::Draining);
        if !is_listening || !self.may_read() {
            return Ok(());
        }
        let most = match self.session.calls_open() > 0 || is_last {
            true => 2 * self.max_queued_messages + MAX_READ_BYTES / NOTIFICATION_BYTES_MIN,
            // The queue has fewer, or reading would pause; the book still counts one that was just handed
            // out.
            false => self.max_queued_messages,
        };
        let waiting = self.book.waiting();
        Check::MemoryBounded.that(waiting <= most, || {
            let summary = self.summary();
            format!(
                "{waiting} notifications wait, and more is read: the limit is {most}; {summary}"
            )
        })
    }

    fn is_planted_pause(&self) -> bool {
        self.plant == Some(Plant::PausedWaiting) && self.session.calls_open() > 2
    }

    fn poll_settled(&mut self) -> Option<(u64, Ending)> {
        let session = &mut self.session;
        let poll = || {
            let settled = session.poll_settled()?;
            Some((settled.waiter, Ending::from(&settled.outcome)))
        };
        let (settled, used) = measured(poll);
        self.live += used.left;
        settled
    }

    fn check_phase(&mut self) -> Checked {
        let before = self.phase;
        let mut phase = self.session.phase();
        if self.plant == Some(Plant::LifeRegained) && matches!(before, Phase::Closing { .. }) {
            phase = Phase::Open;
        }
        if phase != before {
            self.counts.add(name_of(phase));
            let is_right = may_follow(before, phase);
            Check::PhaseForward.that(is_right, || format!("{before:?} to {phase:?}"))?;
            self.phase = phase;
        }
        if !phase.is_over() {
            return Ok(());
        }
        if !before.is_over() {
            self.counts.add(match phase.closed() {
                Some(Closed::EndOfInput) => "closed: end of input",
                Some(Closed::Drained) => "closed: drained",
                Some(Closed::Local(_)) => "closed: here",
                _ => "closed: failed",
            });
            if self.plant == Some(Plant::CallLeft) {
                self.book.open.insert(
                    0,
                    Open {
                        call: None,
                        deadline: None,
                        is_unwanted: false,
                    },
                );
            }
        }
        let is_empty = self.book.open.is_empty() && self.session.calls_open() == 0;
        let is_quiet = !self.session.has_transmit() && self.session.poll_timeout().is_none();
        Check::OverIsOver.that(is_empty && is_quiet && self.session.is_input_over(), || {
            format!("{:?} are open, quiet: {is_quiet}", self.book.open)
        })
    }

    /// A stream's marks are the offsets of its bytes.
    fn check_marks(&mut self) -> Checked {
        let WireKind::Stream(_) = self.wire else {
            return Ok(());
        };
        for mark in &self.marks {
            // `None`: the session knows that it never will be.
            let is_true = match self.session.is_written(*mark) {
                Some(is_written) => is_written == (*mark <= self.written),
                None => true,
            };
            Check::MarksTrue.that(is_true, || {
                format!("{mark}, and {} are written", self.written)
            })?;
        }
        self.marks.retain(|mark| *mark > self.written);
        Ok(())
    }

    // Time

    pub(super) fn clock(&self, now: u64) -> u64 {
        self.frozen.unwrap_or(now + self.ahead)
    }

    /// Tells the session the present, so that what is due ends, and checks its next wake-up.
    pub(super) fn handle_timeout(&mut self, now: u64) -> Checked {
        let clock = Instant::from_nanos(self.clock(now));
        self.told = self.told.max(clock);
        if self.plant == Some(Plant::TimeNotTold) {
            return self.check_wake_up();
        }
        let clock = match self.plant {
            Some(Plant::ClockAhead) => clock + Duration::from_secs(60),
            _ => clock,
        };
        self.tell(|session| session.handle_timeout(clock))?;
        if self.plant == Some(Plant::ClockAhead) {
            return Ok(());
        }
        self.check_wake_up()
    }

    fn check_wake_up(&self) -> Checked {
        let due = self.session.poll_timeout();
        let is_future = due.is_none_or(|due| due > self.told);
        Check::NextWakeUp.that(is_future, || format!("{due:?}, and it is {:?}", self.told))
    }

    /// When the session wants to be told the time, in the world's time.
    pub(super) fn wake_up_at(&self) -> Option<u64> {
        let due = self.session.poll_timeout()?;
        (due != Instant::FAR_FUTURE).then(|| due.as_nanos().saturating_sub(self.ahead))
    }

    pub(super) fn disturb_clock(&mut self, now: u64, rng: &mut Random) -> Checked {
        match rng.below(4) {
            0 | 1 => {
                self.counts.add("fault: clock stands still");
                self.frozen = match self.frozen {
                    None => Some(self.clock(now)),
                    // It goes on, and shows the present at once.
                    Some(_) => None,
                };
            }
            2 => {
                self.counts.add("fault: clock steps back");
                let back = Duration::from_millis(rng.within(1, 5000));
                let clock = self.clock(now).saturating_sub(back.as_nanos() as u64);
                let clock = Instant::from_nanos(clock);
                self.told = self.told.max(clock);
                self.tell(|session| match clock.as_nanos() % 2 {
                    0 => session.handle_time(clock),
                    _ => session.handle_timeout(clock),
                })?;
            }
            _ => {
                self.counts.add("fault: clock jumps");
                self.ahead += rng.within(100, 15_000) * 1_000_000;
            }
        }
        Ok(())
    }

    pub(super) fn repair_clock(&mut self) {
        self.frozen = None;
    }

    /// Tells the session the present, without ending what is due.
    pub(super) fn present(&mut self, now: u64) -> Checked {
        let clock = Instant::from_nanos(self.clock(now));
        self.told = self.told.max(clock);
        self.tell(|session| session.handle_time(clock))
    }

    // Ends

    pub(super) fn drain(&mut self) -> Checked {
        self.book.is_draining = true;
        self.counts.add("end: drain");
        self.tell(Session::drain)
    }

    pub(super) fn close(&mut self) -> Checked {
        self.counts.add("end: close");
        self.tell(|session| session.close(antiphon::CloseReason::Done))
    }

    pub(super) fn abort(&mut self, fault: Option<Fault>) -> Checked {
        self.counts.add("end: abort");
        self.writing = None;
        self.tell(|session| session.abort(fault))
    }

    pub(super) fn lose_peer(&mut self, fault: Option<Fault>) -> Checked {
        self.counts.add("end: peer gone");
        self.tell(|session| session.handle_peer_gone(fault))
    }

    /// Stops writing for good: the session is over.
    pub(super) fn let_go(&mut self) {
        self.writing = None;
    }
}

pub(super) fn reset() -> io::Error {
    io::Error::from(io::ErrorKind::ConnectionReset)
}

fn name_of(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening => "phase: opening",
        Phase::Open => "phase: open",
        Phase::Draining => "phase: draining",
        Phase::InputEnded { .. } => "phase: input ended",
        Phase::LastWords { .. } => "phase: last words",
        Phase::Closing { .. } => "phase: closing",
        _ => "phase: over",
    }
}

/// Whether the picture in `phase.rs` leads from one state to the other, and what both say of the
/// end is the same.
fn may_follow(before: Phase, after: Phase) -> bool {
    let is_on_the_way = match before {
        Phase::Opening => after != Phase::Opening,
        Phase::Open => !matches!(after, Phase::Opening | Phase::Open),
        Phase::Draining => !matches!(after, Phase::Opening | Phase::Open | Phase::Draining),
        Phase::InputEnded { .. } | Phase::LastWords { .. } => after.closed().is_some(),
        Phase::Closing { .. } => after.is_over(),
        _ => false,
    };
    let since = |phase| match phase {
        Phase::InputEnded { since } | Phase::LastWords { since } => Some(since),
        Phase::Closing { since, .. } => Some(since),
        _ => None,
    };
    let is_same =
        |one: Option<Instant>, two: Option<Instant>| one.is_none() || two.is_none() || one == two;
    let is_why_same = before.closed().is_none() || before.closed() == after.closed();
    is_on_the_way && is_same(since(before), since(after)) && is_why_same
}
