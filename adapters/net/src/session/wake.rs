//! The lock of a session, and who is woken when it is free.
//!
//! A thread or task that is woken under the lock would run into it. So a turn only notes who is to be woken, and
//! the guard wakes them after it has let the lock go.

use std::fmt;
use std::mem::take;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::{Poll, Waker};

use antiphon::Instant;
use smallvec::SmallVec;

use super::{Session, State};
use crate::runtime::threads::{park_until, thread_waker};

/// Those who are asleep while a connection has nothing for them to do. A connection on a task has
/// one, a connection on threads has the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleeper {
    /// The task, which does everything.
    Task,
    /// The thread that writes.
    Writer,
    /// The thread that keeps time.
    Timer,
    /// The thread that runs the service.
    Service,
    /// The thread that reads, while nothing is to be read.
    Reader,
}

/// How many kinds of sleepers there are.
const SLEEPERS: usize = 5;

/// The sleepers of one connection.
#[derive(Default)]
pub(super) struct Sleepers([Option<Waker>; SLEEPERS]);

impl Sleepers {
    pub(super) fn set(&mut self, sleeper: Sleeper, waker: Option<Waker>) -> Option<Waker> {
        std::mem::replace(&mut self.0[sleeper as usize], waker)
    }

    /// The one to wake for what `sleeper` does.
    fn take(&mut self, sleeper: Sleeper) -> Option<Waker> {
        let own = self.0[sleeper as usize].take();
        own.or_else(|| self.0[Sleeper::Task as usize].take())
    }
}

/// Those to be woken once the lock is free.
pub(super) type Wakes = SmallVec<[Waker; 2]>;

impl State {
    /// Has the sleeper woken, if it sleeps, and says whether it does.
    pub(super) fn rouse(&mut self, sleeper: Sleeper) -> bool {
        let waker = self.sleepers.take(sleeper);
        let is_asleep = waker.is_some();
        self.wakes.extend(waker);
        is_asleep
    }

    /// Has everybody woken.
    pub(super) fn rouse_all(&mut self) {
        self.wakes
            .extend(self.sleepers.0.iter_mut().filter_map(Option::take));
        self.rouse_watchers();
        self.wakes.extend(self.line.call_all());
    }

    /// Has everybody woken who waits for a change: of the phase, a cancel, or a write.
    pub(super) fn rouse_watchers(&mut self) {
        self.wakes.extend(self.watchers.drain(..));
    }

    /// Whether this waker is among those that wait for a change.
    fn is_watched_by(&self, waker: &Waker) -> bool {
        self.watchers.iter().any(|known| known.will_wake(waker))
    }
}

/// Holds the lock of a [`Session`]. Dropping it ends the turn, and wakes those it concerns.
pub struct Guard<'s> {
    session: &'s Session,
    /// None only while it is being dropped.
    state: Option<MutexGuard<'s, State>>,
}

impl<'s> Guard<'s> {
    pub(super) fn new(session: &'s Session, state: MutexGuard<'s, State>) -> Self {
        let state = Some(state);
        Self { session, state }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        // It is taken only by what drops the guard.
        self.state.as_ref().expect("the guard holds its lock")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        // As above.
        self.state.as_mut().expect("the guard holds its lock")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.release(|_| {});
    }
}

impl Guard<'_> {
    /// Ends the turn, does a last thing, lets the lock go, and wakes.
    fn release(&mut self, last: impl FnOnce(&mut State)) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        self.session.end_turn(&mut state);
        last(&mut state);
        let wakes = take(&mut state.wakes);
        drop(state);
        wakes.into_iter().for_each(Waker::wake);
    }

    /// Ends the turn, and has `waker` woken as soon as there is something to do for `sleeper`.
    /// What there is to do already does not wake it: the caller has looked.
    pub(super) fn fall_asleep(mut self, sleeper: Sleeper, waker: Waker) {
        let mut before = None;
        self.release(|state| before = state.sleepers.set(sleeper, Some(waker)));
        drop(before);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

impl Session {
    /// Lets the thread sleep as `sleeper` until it is woken or `deadline` has come, and takes the
    /// lock again.
    pub fn sleep<'s>(&'s self, sleeper: Sleeper, state: Guard<'s>, deadline: Instant) -> Guard<'s> {
        state.fall_asleep(sleeper, thread_waker());
        park_until(deadline);
        let mut state = self.lock();
        // A waker of this module: no foreign code.
        drop(state.sleepers.set(sleeper, None));
        state
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
