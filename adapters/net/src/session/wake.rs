//! Threads and tasks that wait for a change.

use std::task::{Poll, Waker};

use antiphon::Instant;

use super::{Guard, Session, Sleeper, State};
use crate::runtime::threads::{park_until, thread_waker};

impl Session {
    /// Makes the thread sleep as `sleeper` until it is woken or `deadline` has come, and takes the
    /// lock again.
    pub fn sleep<'s>(&'s self, sleeper: Sleeper, state: Guard<'s>, deadline: Instant) -> Guard<'s> {
        state.fall_asleep(sleeper, thread_waker());
        park_until(deadline);
        let mut state = self.lock();
        // The waker is one of this crate, so dropping it runs no code of the program.
        drop(state.sleepers.set(sleeper, None));
        state
    }

    /// Returns the value of `look`, or has `waker` woken at the next change.
    pub fn poll_until<R>(
        &self,
        waker: &Waker,
        look: impl FnOnce(&mut State) -> Option<R>,
    ) -> Poll<R> {
        // The waker is cloned without the lock, and dropped without it if it is not needed.
        let mut cloned = Some(waker.clone());
        let mut state = self.lock();
        if let Some(found) = look(&mut state) {
            return Poll::Ready(found);
        }
        if !state.is_watched_by(waker) {
            state.watchers.extend(cloned.take());
        }
        Poll::Pending
    }
}
