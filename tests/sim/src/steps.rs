//! The safety phase: which action is taken next, by chance, some of them switched off for the whole
//! run, so that runs differ in kind and not only in order.

use crate::checks::{Check, Checked};
use crate::plant::Plant;
use crate::world::{MILLI, World};

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// An end writes a part of its output.
    Write,
    /// An end's output is taken all at once.
    Take,
    /// Bytes that have arrived are read.
    Deliver,
    /// The clock goes on a little.
    Tick,
    /// The clock goes on to the next thing that happens.
    Skip,
    /// An end is told the time and takes its events, but reads nothing new.
    Poll,
    /// A call.
    Call,
    /// A call with a chosen id.
    CallNamed,
    /// A notification.
    Notify,
    /// A batch.
    Batch,
    /// A call is cancelled.
    Cancel,
    /// The peer is asked to cancel a call.
    AskCancel,
    /// A deadline is moved.
    SetDeadline,
    /// A kept request is answered.
    Answer,
    /// A command that has to be refused.
    Misuse,
    /// A hostile peer says something.
    Hostile,
    /// A direction stalls.
    Stall,
    /// Both directions of a link go on.
    Unstall,
    /// A message is reported as undelivered.
    FailWrite,
    /// One side writes no more.
    HalfClose,
    /// The link breaks.
    Cut,
    /// An end takes nothing new.
    Drain,
    /// An end closes.
    Close,
    /// A burst of calls and notifications without a write.
    Burst,
}

/// The actions and their weights: how often each is taken, relative to the others.
const ACTIONS: [(Action, u64); 24] = [
    (Action::Write, 150),
    (Action::Take, 60),
    (Action::Deliver, 280),
    (Action::Tick, 60),
    (Action::Skip, 40),
    (Action::Poll, 30),
    (Action::Call, 80),
    (Action::CallNamed, 15),
    (Action::Notify, 25),
    (Action::Batch, 30),
    (Action::Cancel, 10),
    (Action::AskCancel, 6),
    (Action::SetDeadline, 10),
    (Action::Answer, 60),
    (Action::Misuse, 12),
    (Action::Hostile, 120),
    (Action::Stall, 4),
    (Action::Unstall, 16),
    (Action::FailWrite, 4),
    (Action::HalfClose, 3),
    (Action::Cut, 2),
    (Action::Drain, 3),
    (Action::Close, 3),
    (Action::Burst, 6),
];

impl World {
    /// Which actions this run takes, as bits: the needed ones, and each of the others in 85 of 100 runs;
    /// none that the options leave out.
    pub fn swarm(&mut self) -> u64 {
        let mut on = u64::MAX;
        for (bit, (action, _)) in ACTIONS.iter().enumerate() {
            let needed = matches!(
                action,
                Action::Write | Action::Deliver | Action::Tick | Action::Call
            );
            if !needed && self.rng.chance(15) {
                on &= !(1 << bit);
            }
        }
        on & !self.options.without
    }

    /// The safety phase.
    ///
    /// # Errors
    /// The invariant that broke.
    pub fn safety(&mut self) -> Checked {
        let on = self.swarm();
        let usual = self.rng.within(300, 420);
        let steps = self.options.steps.unwrap_or(usual);
        let sum: u64 = ACTIONS.iter().map(|(_, weight)| weight).sum();
        for _ in 0..steps {
            let mut at = self.rng.below(sum);
            let chosen = ACTIONS.iter().position(|(_, weight)| {
                let hit = at < *weight;
                at = at.saturating_sub(*weight);
                hit
            });
            let bit = chosen.unwrap_or_default();
            let e = self.rng.below(self.nodes.len() as u64) as usize;
            let e = if self.is_real(e) { e } else { e & !1 };
            self.steps += 1;
            crate::run::at_step(self.steps);
            if on & (1 << bit) == 0 {
                // In place of an action that is off, up to 64 bytes of input are delivered.
                self.deliver(e, 64)?;
            } else {
                self.step(ACTIONS[bit].0, e)?;
            }
            self.tidy(e / 2)?;
            self.check()?;
        }
        Ok(())
    }

    fn step(&mut self, action: Action, e: usize) -> Checked {
        self.trace.mix(action as u64 * 64 + e as u64);
        self.trace.mix(self.now);
        let (steps, now) = (self.steps, self.now);
        self.trace.say(|| {
            format!(
                "{steps} at {}.{:06} ms: {action:?} {e}",
                now / MILLI,
                now % MILLI
            )
        });
        match action {
            Action::Write => {
                let most = match self.rng.below(3) {
                    0 => self.rng.size(1, 40),
                    _ => usize::MAX,
                };
                if most != usize::MAX {
                    self.counts.add("fault: write split");
                }
                self.write(e, most, false)
            }
            Action::Take => self.write(e, usize::MAX, true),
            Action::Deliver => {
                let most = match self.rng.below(3) {
                    0 => self.rng.size(1, 60),
                    _ => usize::MAX,
                };
                let others = self.overtaken(e);
                if others {
                    self.counts.add("fault: overtaken");
                }
                self.deliver(e, most)
            }
            Action::Tick => {
                self.now += self.rng.within(1, 30) * MILLI / 2;
                Ok(())
            }
            Action::Skip => {
                let next = self.next_moment(e);
                self.now = self.now.max(next.unwrap_or(self.now + 100 * MILLI));
                self.poll(e, usize::MAX)
            }
            Action::Poll => self.poll(e, usize::MAX),
            Action::Call => self.call_anything(e),
            Action::CallNamed => self.call_named(e),
            Action::Notify => {
                let size = self.rng.size(0, 100);
                self.notify(e, size)
            }
            Action::Batch => self.batch(e),
            Action::Cancel => self.touch_call(e, 0),
            Action::AskCancel => self.touch_call(e, 1),
            Action::SetDeadline => self.touch_call(e, 2),
            Action::Answer => self.answer_held(e),
            Action::Misuse => self.misuse(e),
            Action::Burst => {
                for _ in 0..self.rng.within(3, 25) {
                    self.call_anything(e)?;
                    self.notify(e, 30)?;
                }
                Ok(())
            }
            Action::Hostile => self.hostile_says(e / 2),
            _ => self.trouble(action, e),
        }
    }

    /// What goes wrong with a link.
    fn trouble(&mut self, action: Action, e: usize) -> Checked {
        let (link, side) = (e / 2, e % 2);
        let whole = self.end(e).config.framing == antiphon::Framing::Messages;
        match action {
            Action::Stall => {
                self.counts.add("fault: stall");
                self.links[link].wires[side].stalled = true;
            }
            Action::Unstall => {
                self.links[link].wires[0].stalled = false;
                self.links[link].wires[1].stalled = false;
            }
            Action::FailWrite if whole => return self.fail_write(e),
            Action::HalfClose => {
                self.counts.add("fault: half-close");
                self.links[link].wires[side].shut = true;
            }
            Action::Cut => {
                self.counts.add("fault: cut");
                for side in 0..2 {
                    let wire = &mut self.links[link].wires[side];
                    let (all, chunks) = (wire.waiting(), wire.chunks());
                    let keep = self.rng.size(0, all);
                    if keep < all {
                        self.counts.add("fault: cut loses bytes");
                    }
                    match whole {
                        true => wire.cut_messages(self.rng.size(0, chunks)),
                        false => wire.cut(keep),
                    }
                }
            }
            Action::Drain => self.end(e).run(|conn| conn.drain()),
            Action::Close => self.close(e),
            _ => {}
        }
        Ok(())
    }

    /// Has the hostile peer of a link say something, if the link has one.
    fn hostile_says(&mut self, l: usize) -> Checked {
        let mark = self.mark();
        let link = &mut self.links[l];
        let (config, now) = (link.ends[0].config, self.now);
        let Some(hostile) = &mut link.hostile else {
            return Ok(());
        };
        // It waits while this much is unread, so that what it says does not pile up.
        if link.wires[1].waiting() > 20_000 {
            return Ok(());
        }
        let saying = hostile.says(&mut self.rng, &config, mark);
        if !saying.what.is_empty() {
            self.counts.add(saying.what);
        }
        link.ends[0].book.excused += saying.excused;
        let at = now + self.rng.below(link.latency);
        link.wires[1].send(saying.bytes, at);
        Ok(())
    }

    /// Whether what this end reads next overtakes something: elsewhere something still waits that
    /// arrived earlier.
    fn overtaken(&self, e: usize) -> bool {
        let mine = self.links[e / 2].wires[1 - e % 2].next_at();
        mine.is_some_and(|mine| {
            self.links.iter().flat_map(|link| &link.wires).any(|wire| {
                wire.next_at()
                    .is_some_and(|at| at > 0 && at < mine && at <= self.now)
            })
        })
    }

    /// The next moment at which something happens to an end.
    fn next_moment(&self, e: usize) -> Option<u64> {
        let end = &self.links[e / 2].ends[e % 2];
        let wire = &self.links[e / 2].wires[1 - e % 2];
        let timer = end.conn.poll_timeout().map(antiphon::Instant::as_nanos);
        let timer = timer.filter(|_| end.plant != Some(Plant::ClockAhead));
        let arrival = wire.next_at().filter(|at| *at > self.now);
        timer.into_iter().chain(arrival).min()
    }

    /// Counts a step of the liveness phase, and checks what is checked after every step.
    ///
    /// # Errors
    /// The invariant that broke.
    pub fn counted(&mut self, l: usize) -> Checked {
        self.steps += 1;
        crate::run::at_step(self.steps);
        Check::NoPanic.that(self.steps < 100_000, || "steps without end".into())?;
        self.tidy(l)?;
        self.check()
    }
}
