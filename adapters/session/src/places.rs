//! Where the outcomes of calls are awaited: one place a call, under the lock of the session.
//!
//! Whoever calls and whatever settles takes that lock anyway, so a place needs no lock, no counter
//! and, once a burst of calls has been, no memory of its own.
//!
//! The rules guarded here: an outcome is given once; and a place is free again only when nobody
//! waits there any more, so nobody finds the outcome of another's call.

use std::fmt;
use std::sync::{Arc, Condvar};
use std::task::Waker;

use antiphon::{OwnedJson, OwnedOutcome};

/// As many free places are kept when nobody waits: 4 KiB.
const KEPT_MAX: usize = 64;

/// Names a place. It is no [`Clone`]: one end settles, the other waits.
#[derive(Debug)]
pub struct Place(usize);

#[derive(Default)]
pub(crate) struct Places {
    places: Vec<Inside>,
    /// Those where nobody waits.
    free: Vec<usize>,
}

#[derive(Default)]
struct Inside {
    outcome: Option<Settled>,
    task: Option<Waker>,
    thread: Option<Arc<Condvar>>,
}

/// An outcome where it waits: a result takes no more room than it needs.
enum Settled {
    Ok(OwnedJson),
    Other(Box<OwnedOutcome>),
}

/// Who waited for a call when it settled. To be woken once the lock is free.
#[derive(Debug)]
pub(crate) struct Waiter {
    task: Option<Waker>,
    thread: Option<Arc<Condvar>>,
}

impl Waiter {
    /// None if nobody waits.
    pub(crate) fn of(task: Option<Waker>, thread: Option<Arc<Condvar>>) -> Option<Self> {
        let is_somebody = task.is_some() || thread.is_some();
        is_somebody.then_some(Self { task, thread })
    }

    pub(crate) fn wake(self) {
        if let Some(thread) = self.thread {
            thread.notify_all();
        }
        if let Some(task) = self.task {
            task.wake();
        }
    }
}

impl Places {
    /// The place that [`open`](Self::open) is about to give: for what settles the call.
    pub(crate) fn next(&self) -> Place {
        Place(self.free.last().copied().unwrap_or(self.places.len()))
    }

    /// The place for whoever waits.
    pub(crate) fn open(&mut self) -> Place {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Inside::default());
            self.places.len() - 1
        });
        Place(at)
    }

    /// Nobody waits there any more.
    pub(crate) fn close(&mut self, place: &Place) {
        if let Some(inside) = self.places.get_mut(place.0) {
            *inside = Inside::default();
            self.free.push(place.0);
        }
        if self.free.len() == self.places.len() && self.free.len() > KEPT_MAX {
            *self = Self::default();
        }
    }

    /// Puts an outcome where it is awaited, and says who waits there already.
    pub(crate) fn settle(&mut self, place: &Place, outcome: OwnedOutcome) -> Option<Waiter> {
        let inside = self.places.get_mut(place.0)?;
        inside.outcome = Some(match outcome {
            OwnedOutcome::Ok(result) => Settled::Ok(result),
            other => Settled::Other(Box::new(other)),
        });
        Waiter::of(inside.task.take(), inside.thread.take())
    }

    /// The outcome, if there is one; then the place is closed.
    pub(crate) fn take(&mut self, place: &Place) -> Option<OwnedOutcome> {
        let outcome = self.places.get_mut(place.0)?.outcome.take()?;
        self.close(place);
        Some(match outcome {
            Settled::Ok(result) => OwnedOutcome::Ok(result),
            Settled::Other(other) => *other,
        })
    }

    /// Has the task woken when the call settles.
    pub(crate) fn watch(&mut self, place: &Place, waker: &Waker) {
        let Some(inside) = self.places.get_mut(place.0) else {
            return;
        };
        match &mut inside.task {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// What is notified when the call settles, for a thread to wait on with the session's lock.
    pub(crate) fn condition(&mut self, place: &Place) -> Arc<Condvar> {
        match self.places.get_mut(place.0) {
            Some(inside) => Arc::clone(inside.thread.get_or_insert_with(Arc::default)),
            None => Arc::default(),
        }
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open = self.places.len() - self.free.len();
        f.debug_struct("Places")
            .field("open", &open)
            .finish_non_exhaustive()
    }
}
