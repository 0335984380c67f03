//! Who waits for what, and who is woken for it.
//!
//! A thread that waits is woken once for all that happens until it comes, and not before the lock
//! is free.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, PoisonError};

use antiphon::Instant;
use antiphon::session::Phase;

use super::{Guard, Patience, Session, State};
use crate::context::Context;

/// What somebody may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Whoever writes: there is output.
    Writable,
    /// Whoever keeps time: an earlier deadline, or an end.
    Turn,
    /// Whoever runs the service: there is work.
    Work,
    /// Callers: room, bytes that left, a cancel, the end.
    Changed,
    /// Whoever reads, where others do so, too: nobody does.
    Readable,
}

impl Signal {
    pub(super) const ALL: [Self; SIGNALS] = [
        Self::Writable,
        Self::Turn,
        Self::Work,
        Self::Changed,
        Self::Readable,
    ];
}

/// How many signals there are.
pub(super) const SIGNALS: usize = 5;

impl Session {
    /// Puts outcomes where they are awaited, and wakes those who have something to do now. Ends
    /// every turn.
    pub fn wake(&self, state: &mut State) {
        while let Some(settled) = state.conn.poll_settled() {
            state.reading.is_call_settled = true;
            state.settle(settled);
        }
        let is_paused = !state.conn.may_read();
        if self.is_paused.load(Ordering::Relaxed) != is_paused {
            self.is_paused.store(is_paused, Ordering::Release);
            self.signal(state, Signal::Readable);
        }
        let phase = state.conn.phase();
        if phase != state.seen {
            self.see_phase(state, phase);
        }
        if phase.closed().is_some() {
            self.is_closed.store(true, Ordering::Relaxed);
            self.is_deaf
                .store(!state.conn.wants_input(), Ordering::Relaxed);
        }
        if state.conn.has_cancels() {
            self.signal(state, Signal::Changed);
        }
        if state.conn.has_work() {
            self.signal(state, Signal::Work);
        }
        if state.is_anybody_asleep() {
            self.wake_asleep(state);
        }
    }

    #[cold]
    fn see_phase(&self, state: &mut State, phase: Phase) {
        if state.seen == Phase::Opening {
            self.learn(state);
        }
        state.seen = phase;
        for signal in [
            Signal::Turn,
            Signal::Changed,
            Signal::Work,
            Signal::Readable,
        ] {
            self.signal(state, signal);
        }
    }

    /// Adds what a handshake has told to what is known of the transport.
    fn learn(&self, state: &mut State) {
        if !state.conn.has_opened() {
            return;
        }
        let handshake = state.conn.take_handshake();
        let mut context = Context::clone(&self.context);
        context.target = handshake.target;
        for (name, value) in &handshake.headers {
            context.headers.push(name, value);
        }
        context.subprotocol = handshake.subprotocol;
        // There is one handshake.
        let _ = self.learnt.set(Arc::new(context));
    }

    fn wake_asleep(&self, state: &mut State) {
        if state.conn.has_transmit() {
            self.signal(state, Signal::Writable);
        }
        let deadline = state.conn.poll_timeout();
        if deadline.is_some_and(|deadline| deadline < state.alarm) {
            self.signal(state, Signal::Turn);
        }
    }

    /// Wakes those who wait for `signal`, once the lock is free.
    pub fn signal(&self, state: &mut State, signal: Signal) {
        let at = signal as usize;
        if state.waiting[at] > 0 && !state.is_signalled[at] {
            state.is_signalled[at] = true;
            state.wakes.signal(signal);
        }
        if signal == Signal::Changed {
            if !state.watchers.is_empty() {
                state.wakes.watchers(&mut state.watchers);
            }
        } else if let Some(task) = state.task.take() {
            state.wakes.task(task);
        }
    }

    /// Lets the thread wait for `signal` until `deadline`, and takes the lock again. One thread
    /// waits for a signal at a time, but for [`Signal::Changed`].
    pub fn wait<'s>(
        &'s self,
        signal: Signal,
        mut state: Guard<'s>,
        deadline: Instant,
    ) -> Guard<'s> {
        let at = signal as usize;
        state.waiting[at] += 1;
        // Who has been woken before was another.
        state.is_signalled[at] = false;
        let mut state = self.wait_on(&self.conditions[at], state, deadline);
        state.waiting[at] -= 1;
        state.is_signalled[at] = false;
        state
    }

    /// Lets the thread wait for `condition` until `deadline`, and takes the lock again.
    pub(crate) fn wait_on<'s>(
        &'s self,
        condition: &Condvar,
        state: Guard<'s>,
        deadline: Instant,
    ) -> Guard<'s> {
        let Some(state) = state.into_inner() else {
            return self.lock();
        };
        let state = if deadline == Instant::FAR_FUTURE {
            let waited = condition.wait(state);
            waited.unwrap_or_else(PoisonError::into_inner)
        } else {
            let span = deadline.saturating_since(self.now());
            let waited = condition.wait_timeout(state, span);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        Guard::new(self, state)
    }

    /// Lets the thread wait for changes until `look` finds what it looks for, or `deadline`.
    pub fn wait_until<R>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut state = self.lock();
        let mut waiting = Patience::until(deadline);
        loop {
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            if waiting.is_over(self) {
                return None;
            }
            self.want_reader(&mut state);
            state = self.wait(Signal::Changed, state, waiting.deadline());
        }
    }
}

impl State {
    /// Whether the one that writes or keeps time waits, and has not been woken yet.
    fn is_anybody_asleep(&self) -> bool {
        let waits = |signal: Signal| {
            let at = signal as usize;
            self.waiting[at] > 0 && !self.is_signalled[at]
        };
        self.task.is_some() || waits(Signal::Writable) || waits(Signal::Turn)
    }
}
