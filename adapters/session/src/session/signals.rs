//! Who waits for what, and who is woken for it.
//!
//! The rule guarded: a thread that waits is woken once for all that happens until it comes, and not before the lock is
//! free.

use std::sync::atomic::Ordering;
use std::sync::{Condvar, PoisonError};

use antiphon::Instant;

use super::{Guard, Patience, Session, State};
use crate::rare::rare;

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
    /// Wakes those who have something to do now.
    #[inline]
    pub fn wake(&self, state: &mut State) {
        if state.is_anybody_asleep() {
            self.wake_asleep(state);
        }
    }

    fn wake_asleep(&self, state: &mut State) {
        if state.writing_since.is_none() && state.has_output() {
            self.signal(state, Signal::Writable);
        }
        let deadline = state.poll_timeout();
        if state.closing || deadline.is_some_and(|deadline| deadline < state.alarm) {
            self.signal(state, Signal::Turn);
        }
    }

    /// Wakes whoever waits for `signal`, once the lock is free.
    pub fn signal(&self, state: &mut State, signal: Signal) {
        if signal == Signal::Work {
            self.has_work.store(true, Ordering::Relaxed);
        }
        let at = signal as usize;
        if state.waiting[at] > 0 && !state.is_signalled[at] {
            state.is_signalled[at] = true;
            state.wakes.signal(signal);
        }
        if signal == Signal::Changed {
            if !state.watchers.is_empty() {
                rare();
                state.wake_watchers();
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
