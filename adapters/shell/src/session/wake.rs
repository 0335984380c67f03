//! Tasks that wait for a change.

use std::task::{Poll, Waker};

use super::{Session, State};

impl Session {
    /// Returns the value of `look`, or has `waker` woken at the next change.
    pub(crate) fn poll_until<R>(
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
