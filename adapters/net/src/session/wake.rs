//! Threads and tasks that wait for a change.

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

use antiphon::Instant;

use super::{Guard, Patience, Session, Sleeper, State};

/// Wakes a parked thread.
struct Parked(Thread);

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What wakes this thread while it is parked.
pub(crate) fn thread_waker() -> Waker {
    Waker::from(Arc::new(Parked(thread::current())))
}

impl Session {
    /// Lets the thread sleep as `sleeper` until it is woken or `deadline` has come, and takes the
    /// lock again.
    pub fn sleep<'s>(&'s self, sleeper: Sleeper, state: Guard<'s>, deadline: Instant) -> Guard<'s> {
        state.fall_asleep(sleeper, thread_waker());
        self.park_until(deadline);
        let mut state = self.lock();
        // A waker of this module: no foreign code.
        drop(state.sleepers.set(sleeper, None));
        state
    }

    /// Lets the thread wait until it is woken or `deadline` has come.
    pub(crate) fn park_until(&self, deadline: Instant) {
        match deadline {
            Instant::FAR_FUTURE => thread::park(),
            _ => thread::park_timeout(deadline.saturating_since(self.now())),
        }
    }

    /// Lets the thread wait for changes until `look` finds what it looks for, or `deadline`.
    pub fn wait_until<R>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let (mut waiting, waker) = (Patience::until(deadline), thread_waker());
        loop {
            let mut state = self.lock();
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            if waiting.is_over(self) {
                return None;
            }
            self.want_reader(&mut state);
            if !state.is_watched_by(&waker) {
                state.watchers.push(waker.clone());
            }
            drop(state);
            self.park_until(waiting.deadline());
        }
    }

    /// Gives what `look` finds, or has `waker` woken at the next change.
    pub fn poll_until<R>(
        &self,
        waker: &Waker,
        look: impl FnOnce(&mut State) -> Option<R>,
    ) -> Poll<R> {
        // Cloned, and dropped if it is of no use, without the lock.
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
