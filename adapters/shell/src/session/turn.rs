//! One turn of a task that moves the bytes of a session, under one lock.

use std::collections::VecDeque;
use std::mem::take;
use std::task::Waker;
use std::time::Duration;

use antiphon::pubsub::{FeedLoss, Publication};
use antiphon::session::{Fault, Report};
use antiphon::{CloseReason, Instant, SendError};

use super::{ConnFeed, Session, State, Work, is_gone};
use crate::fault::ChildExited;

/// Why a connection is closed whose feed has overflowed.
const TOO_SLOW: &str = "the peer reads too slowly what it has subscribed to";

/// How many pieces of work are taken from a session in one turn at most.
const MAX_WORK: usize = 128;

/// The input since the last turn.
#[derive(Debug)]
pub(crate) enum Brought<'t> {
    /// Nothing.
    Nothing,
    /// Bytes of the stream.
    Bytes(&'t [u8]),
    /// One message, over a transport of messages.
    Message(Vec<u8>),
    /// The end of the stream.
    End,
    /// A read that failed.
    Failed(Fault),
}

/// The result of writing the output of an earlier turn.
#[derive(Debug, Default)]
pub(crate) enum Sent {
    /// Nothing new.
    #[default]
    Nothing,
    /// Some of it has been written, or it has to wait from now on.
    Some,
    /// All of it has been written and flushed.
    All,
    /// The output could not be written, and no more can be written.
    Failed(Fault),
}

/// The results that a task passes to a turn.
#[derive(Debug)]
pub(crate) struct Moved<'t> {
    /// The time before the task read.
    pub(crate) now: Instant,
    /// The input that it has read.
    pub(crate) input: Brought<'t>,
    /// Deadlines may take effect: the task has read all that had arrived by `now`, or it reads nothing
    /// now, or its reads have brought something too often in a row.
    pub(crate) is_drained: bool,
    /// The result of writing.
    pub(crate) sent: Sent,
    /// How many requests may begin; `None` while a handler must end before anything else begins.
    pub(crate) requests: Option<usize>,
    /// Whether handlers of notifications run for which the messages after them do not wait
    /// ([`Order::Free`](antiphon::session::Order::Free)).
    pub(crate) is_serving: bool,
}

/// The work that is taken from a session together.
#[derive(Debug, Default)]
pub(crate) struct WorkBatch {
    /// The service's next work, in order.
    pub(crate) work: VecDeque<Work>,
    /// How many permits of the server's dispatcher its requests have.
    pub(crate) permits: usize,
    /// Whether one permit is enough for all of its requests, because they run one after another.
    pub(crate) is_in_turn: bool,
    /// Whether these permits are of those for peers that have ended their direction, or are gone.
    pub(crate) is_gone: bool,
}

impl WorkBatch {
    /// Adds work. Most connections have one piece at a time, so the first one takes no space for others.
    fn extend(&mut self, work: Option<Work>) {
        if self.work.capacity() == 0 && work.is_some() {
            self.work.reserve_exact(1);
        }
        self.work.extend(work);
    }
}

/// What the task has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Another turn: work or output was taken, or more work can be taken.
    Busy {
        /// Whether the task should read.
        wants_input: bool,
    },
    /// The task sleeps until its waker is woken, until there is something to read if `wants_input`,
    /// and until `wake_at`.
    Sleep {
        /// [`Instant::FAR_FUTURE`] for never.
        wake_at: Instant,
        /// Whether the task should read.
        wants_input: bool,
    },
    /// Nothing more is read or written: the task ends the stream, and drops the transport.
    Over,
}

impl Session {
    /// Takes the results of the task, and calls `answer` under the lock, which sends the answers of
    /// handlers. Adds the service's work to the end of `batch`, and puts the output to be written next
    /// into `output`, if that is empty.
    pub(crate) fn turn(
        &self,
        moved: Moved<'_>,
        answer: impl FnOnce(&mut State),
        batch: &mut WorkBatch,
        output: &mut Vec<u8>,
        waker: &Waker,
    ) -> Next {
        let Moved {
            now,
            input,
            is_drained,
            sent,
            requests,
            is_serving,
        } = moved;
        // No value of the program may be dropped under the lock: `input` and `sent` are dropped after it.
        let (waker, may_take_output) = (waker.clone(), output.is_empty());
        let (mut _before, mut _feed_waker, mut _durable_waker) = (None, None, None);
        let mut state = self.lock();
        _before = state.sleeper.take();
        state.conn.handle_time(now);
        state.take_sent(&sent, now);
        answer(&mut state);
        state.take_input(&input);
        if is_drained {
            state.conn.handle_timeout(now);
        }
        let mut has_output = false;
        if let Some(feed) = self.feed.get() {
            // Other output goes first. If it stayed, it could fill the space for publications in each turn.
            has_output = may_take_output && state.conn.take_transmit(output);
            _feed_waker = state.drain_feed(feed, may_take_output, &waker);
        }
        if let Some(durable) = self.durable.get() {
            has_output = has_output || (may_take_output && state.conn.take_transmit(output));
            _durable_waker = state.drain_durable(durable, may_take_output, &waker);
        }
        state.take_work(batch, requests, is_serving);
        state.count_waiting();
        if state.flows.is_some() {
            state.move_flows(now, is_drained, self.options.call_timeout);
        }
        let may_write = has_output || (may_take_output && state.conn.take_transmit(output));
        state.end_turn();
        if state.conn.phase().is_over() {
            return Next::Over;
        }
        let may_serve =
            !batch.work.is_empty() || (requests.is_some() && state.conn.wants_service());
        let wants_input = state.conn.wants_input();
        if may_write || may_serve {
            return Next::Busy { wants_input };
        }
        let wake_at = state.next_alarm(now, is_drained);
        state.fall_asleep(waker);
        Next::Sleep {
            wake_at,
            wants_input,
        }
    }

    /// Moves the service's next work to the end of `batch`, in order: at most `requests` requests,
    /// and nothing after work that must end before anything else begins.
    pub(crate) fn take_work(&self, batch: &mut WorkBatch, requests: usize) {
        self.act(|state| state.take_work(batch, Some(requests), false));
    }
}

impl State {
    /// Takes the result of writing. The caller keeps an error until the lock is free.
    pub(super) fn take_sent(&mut self, sent: &Sent, now: Instant) {
        match sent {
            Sent::Nothing => return,
            Sent::Some => return self.conn.handle_write_progress(now),
            Sent::All => self.conn.handle_written(),
            Sent::Failed(fault) => self.conn.handle_write_failed(fault.clone()),
        }
        self.rouse_watchers();
    }

    /// Takes the input. The caller keeps an error until the lock is free.
    fn take_input(&mut self, input: &Brought<'_>) {
        let fault = match input {
            Brought::Nothing => return,
            Brought::Bytes(bytes) => return self.conn.handle_input(bytes),
            Brought::Message(message) => return self.conn.handle_input(message),
            Brought::End => return self.conn.handle_eof(),
            Brought::Failed(fault) => fault.clone(),
        };
        let error = fault.as_error().downcast_ref();
        let Some(exited) = error.and_then(ChildExited::of) else {
            return self.conn.handle_read_failed(fault);
        };
        // The exit of a child process is a fault if the child reports a failure, or if a call is open.
        let is_fault = !exited.0.success() || self.conn.calls_open() > 0;
        self.conn.handle_peer_gone(is_fault.then_some(fault));
    }

    /// Puts what waits from a hub into the output, if nothing was being written. Returns a waker that is not needed any
    /// more, to be dropped without the lock.
    fn drain_feed(&mut self, feed: &ConnFeed, may_send: bool, waker: &Waker) -> Option<Waker> {
        let mut too_large = 0;
        let send = |publication: &Publication| {
            let sent = self.conn.notify(Publication::METHOD, publication.params());
            too_large += u64::from(sent == Err(SendError::TooLarge));
            sent != Err(SendError::Full)
        };
        let drained = feed.drain(waker, may_send.then_some(send));
        if let Some(FeedLoss { dropped, limit, .. }) = drained.lost {
            self.conn.report(Report::PublicationsDropped {
                limit: limit.as_str(),
                publications: dropped,
            });
        }
        if too_large > 0 {
            self.conn.report(Report::PublicationsDropped {
                limit: "max_outbox_bytes",
                publications: too_large,
            });
        }
        if drained.has_overflowed && self.closed().is_none() {
            self.conn.close(CloseReason::Other(TOO_SLOW));
        }
        drained.before
    }

    fn take_work(&mut self, batch: &mut WorkBatch, requests: Option<usize>, is_serving: bool) {
        if self.flows.is_some() {
            self.serve_flows();
        }
        // These wait neither for a handler nor for a permit of the dispatcher.
        while let Some(overdue) = self.conn.poll_overdue() {
            batch.extend(self.for_service(overdue));
        }
        let Some(mut requests) = requests else {
            // A handler must end before anything else begins; only cancels overtake it.
            while let Some(cancelled) = self.conn.poll_cancelled() {
                self.rouse_watchers();
                batch.extend(self.for_service(cancelled));
            }
            return;
        };
        if is_gone(self.seen) {
            self.go();
        }
        batch.is_gone = self.permits.is_gone;
        let (mut permits, mut has_asked) = (0, false);
        while batch.work.len() < MAX_WORK {
            if is_serving && !self.conn.has_work() {
                // If it were asked for work now, the session would take the service for idle.
                break;
            }
            // Messages that are not requests wait until the requests before them have begun: one of these
            // may be postponed, and then notifications after it wait.
            let is_behind = matches!(batch.work.back(), Some(Work::Request(..)));
            if is_behind && !self.conn.is_request_next() {
                break;
            }
            if permits == 0 && !has_asked && requests > 0 && self.conn.is_request_next() {
                has_asked = true;
                permits = self.ask(if batch.is_in_turn { 1 } else { requests });
            }
            let is_shared = batch.is_in_turn && batch.permits > 0;
            let may_begin = requests > 0 && (permits > 0 || is_shared);
            let Some(next) = self.conn.poll_work(may_begin) else {
                break;
            };
            let Some(next) = self.for_service(next) else {
                continue;
            };
            let is_ordered = matches!(next, Work::Opened | Work::Notification(_));
            if matches!(next, Work::Request(..)) {
                // A request that is taken after the end of the connection needs no permit.
                let permit = if is_shared { 0 } else { permits.min(1) };
                (requests, permits) = (requests.saturating_sub(1), permits - permit);
                batch.permits += permit;
            }
            if matches!(next, Work::Cancelled(..)) {
                self.rouse_watchers();
            }
            batch.extend(Some(next));
            if is_ordered {
                break;
            }
        }
        self.give_back(permits, has_asked);
    }

    /// Asks the server's dispatcher for permits. A connection that was not accepted by a server
    /// needs none. If there is none, the connection stands in line when the lock is free.
    fn ask(&mut self, requests: usize) -> usize {
        let wanted = self.conn.requests_waiting().min(requests);
        let Some(membership) = &self.membership else {
            return wanted;
        };
        let permits = match take(&mut self.permits.granted) {
            0 => membership.try_begin(wanted).unwrap_or(0),
            granted => granted,
        };
        self.permits.wanted = if permits == 0 { wanted } else { 0 };
        permits
    }

    /// Gives unused permits back to the dispatcher, and leaves its line if `has_asked` is false.
    fn give_back(&mut self, mut permits: usize, has_asked: bool) {
        let Some(membership) = &self.membership else {
            return;
        };
        if !has_asked {
            self.permits.wanted = 0;
            permits += take(&mut self.permits.granted);
        }
        if permits > 0 && !membership.try_end(permits) {
            self.permits.returned.add(permits, self.permits.is_gone);
        }
    }

    /// Reports to the server's dispatcher how many requests wait, and refuses those beyond the
    /// limit.
    pub(super) fn count_waiting(&mut self) {
        let waiting = self.conn.requests_waiting();
        let Some(membership) = self.membership.as_ref() else {
            return;
        };
        if waiting == self.permits.waiting {
            return;
        }
        self.permits.waiting = membership.set_waiting(self.permits.waiting, waiting);
        let surplus = waiting - self.permits.waiting;
        if surplus > 0 {
            self.conn.refuse_last(surplus);
        }
    }

    /// Returns when the next deadline of the connection passes; [`Instant::FAR_FUTURE`] for never.
    pub(super) fn due(&self) -> Instant {
        self.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Returns the time at which the task must check deadlines again, if it is not woken earlier.
    pub(super) fn next_alarm(&mut self, now: Instant, is_drained: bool) -> Instant {
        let mut wake_at = self.due();
        wake_at = self.flows_due().map_or(wake_at, |due| due.min(wake_at));
        if is_drained {
            // `poll_timeout` may return a time at which no deadline passes. If it does so again and again,
            // this limits the cost to one check per millisecond.
            wake_at = wake_at.max(now + Duration::from_millis(1));
        }
        // A timer that is set stays set: one needless wake-up costs less than setting it for each
        // call.
        if now < self.alarm {
            wake_at = wake_at.min(self.alarm);
        }
        self.alarm = wake_at;
        wake_at
    }
}
