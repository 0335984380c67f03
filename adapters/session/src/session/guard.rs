//! The lock of a session, and who is to be woken once it is free.
//!
//! A thread or task that was woken under the lock would run into it, and wait once more.

use std::fmt;
use std::mem::take;
use std::ops::{Deref, DerefMut};
use std::sync::MutexGuard;
use std::task::Waker;

use super::{SIGNALS, Session, Signal, State};
use crate::places::Waiter;

/// Who is to be woken.
#[derive(Default)]
pub(crate) struct Wakes {
    /// Whether there is anybody: mostly not, and then nothing more is looked at.
    is_some: bool,
    signals: [bool; SIGNALS],
    task: Option<Waker>,
    settled: Option<Waiter>,
    /// Tasks that wait for something to change.
    watchers: Vec<Waker>,
}

impl Wakes {
    pub(crate) fn signal(&mut self, signal: Signal) {
        self.is_some = true;
        self.signals[signal as usize] = true;
    }

    pub(crate) fn task(&mut self, task: Waker) {
        self.is_some = true;
        self.task = Some(task);
    }

    /// Takes tasks that wait for something to change.
    pub(crate) fn watchers(&mut self, watchers: &mut Vec<Waker>) {
        self.is_some = true;
        if self.watchers.is_empty() {
            std::mem::swap(&mut self.watchers, watchers);
        } else {
            self.watchers.append(watchers);
        }
    }

    /// Takes one that waits for a call. Of several the last is kept for later.
    pub(crate) fn settled(&mut self, waiter: Waiter) {
        self.is_some = true;
        if let Some(before) = self.settled.replace(waiter) {
            before.wake();
        }
    }

    fn run(self, session: &Session) {
        for signal in Signal::ALL {
            if !self.signals[signal as usize] {
                continue;
            }
            let condition = &session.conditions[signal as usize];
            match signal {
                Signal::Changed => condition.notify_all(),
                _ => condition.notify_one(),
            }
        }
        if let Some(task) = self.task {
            task.wake();
        }
        if let Some(waiter) = self.settled {
            waiter.wake();
        }
        self.watchers.into_iter().for_each(Waker::wake);
    }
}

/// Holds the lock of a [`Session`]. Whoever was signalled under it is woken when it is dropped.
pub struct Guard<'s> {
    session: &'s Session,
    /// None only while it is being dropped or waited with.
    state: Option<MutexGuard<'s, State>>,
}

impl<'s> Guard<'s> {
    #[inline]
    pub(crate) fn new(session: &'s Session, state: MutexGuard<'s, State>) -> Self {
        let state = Some(state);
        Self { session, state }
    }

    /// The lock itself, for waiting. Wakes first, since nobody would while it is waited.
    pub(crate) fn into_inner(mut self) -> Option<MutexGuard<'s, State>> {
        let mut state = self.state.take()?;
        if state.wakes.is_some {
            take(&mut state.wakes).run(self.session);
        }
        Some(state)
    }
}

/// Lets the lock go, and wakes then.
#[inline(never)]
fn wake_after(session: &Session, mut state: MutexGuard<'_, State>) {
    let wakes = take(&mut state.wakes);
    drop(state);
    wakes.run(session);
}

impl Deref for Guard<'_> {
    type Target = State;

    #[inline]
    fn deref(&self) -> &State {
        // It is taken only by what takes or ends the guard itself.
        self.state.as_ref().expect("the guard holds its lock")
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        // As above.
        self.state.as_mut().expect("the guard holds its lock")
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(state) = self.state.take() else {
            return;
        };
        if state.wakes.is_some {
            wake_after(self.session, state);
        }
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}
