//! Where the outcomes of calls are awaited: one place a call or batch, under the lock of the session.
//!
//! Whoever calls and whatever settles takes that lock anyway, so a place needs no lock, no counter
//! and, once a burst of calls has been, no memory of its own.
//!
//! The rules guarded here: an outcome is given once; and a place is free again only when nobody
//! waits there any more, so nobody finds the outcome of another's call.

use std::fmt;
use std::sync::{Arc, Condvar};
use std::task::Waker;

use antiphon::{CallId, Collector, OwnedOutcome};

/// As many free places are kept when nobody waits: 5 KiB.
const KEPT_MAX: usize = 64;

/// Names a place. It is no [`Clone`]: one end settles, the other waits. Each call of a batch has such
/// an end.
#[derive(Debug)]
pub struct Place(usize);

impl Place {
    /// Another end: of one more call of a batch, or to be closed by.
    pub(crate) fn again(&self) -> Self {
        Self(self.0)
    }
}

#[derive(Default)]
pub(crate) struct Places {
    places: Vec<Inside>,
    /// Those where nobody waits.
    free: Vec<usize>,
}

#[derive(Default)]
struct Inside {
    /// Of a call.
    outcome: Option<OwnedOutcome>,
    /// Of a batch, none for a call.
    batch: Option<Box<Gathering>>,
    task: Option<Waker>,
    thread: Option<Arc<Condvar>>,
}

/// The outcomes of a batch.
struct Gathering {
    outcomes: Collector,
    calls: Vec<CallId>,
    /// How many calls have not settled.
    open: usize,
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

    /// The place for whoever waits for all of these calls, none of which can have settled yet.
    pub(crate) fn open_batch(&mut self, calls: Vec<CallId>) -> Place {
        let place = self.open();
        if let Some(inside) = self.places.get_mut(place.0) {
            inside.batch = Some(Box::new(Gathering {
                outcomes: Collector::with_capacity(calls.len()),
                open: calls.len(),
                calls,
            }));
        }
        place
    }

    /// The calls of a batch, whose place is about to be closed.
    pub(crate) fn take_calls(&mut self, place: &Place) -> Vec<CallId> {
        let inside = self.places.get_mut(place.0);
        let batch = inside.and_then(|inside| inside.batch.as_mut());
        batch
            .map(|batch| std::mem::take(&mut batch.calls))
            .unwrap_or_default()
    }

    /// Nobody waits there any more.
    pub(crate) fn close(&mut self, place: &Place) {
        if let Some(inside) = self.places.get_mut(place.0) {
            *inside = Inside::default();
            self.free.push(place.0);
            if self.is_to_shrink() {
                *self = Self::default();
            }
        }
    }

    /// Nobody waits, and there are more places than are kept.
    fn is_to_shrink(&self) -> bool {
        self.free.len() == self.places.len() && self.free.len() > KEPT_MAX
    }

    /// Puts an outcome where it is awaited, and says who waits there already.
    pub(crate) fn settle(&mut self, place: &Place, outcome: OwnedOutcome) -> Option<Waiter> {
        let inside = self.places.get_mut(place.0)?;
        inside.outcome = Some(outcome);
        Waiter::of(inside.task.take(), inside.thread.take())
    }

    /// Puts the outcome of one call of a batch where they are awaited, and says who waits there if it
    /// was the last.
    pub(crate) fn gather(
        &mut self,
        place: &Place,
        call: CallId,
        outcome: OwnedOutcome,
    ) -> Option<Waiter> {
        let inside = self.places.get_mut(place.0)?;
        let batch = inside.batch.as_mut()?;
        batch.outcomes.put(call, outcome);
        batch.open -= 1;
        if batch.open > 0 {
            return None;
        }
        Waiter::of(inside.task.take(), inside.thread.take())
    }

    /// The outcome, if there is one; then the place is closed.
    pub(crate) fn take(&mut self, place: &Place) -> Option<OwnedOutcome> {
        let inside = self.places.get_mut(place.0)?;
        inside.outcome.as_ref()?;
        (inside.task, inside.thread) = (None, None);
        self.free.push(place.0);
        if self.is_to_shrink() {
            return std::mem::take(self).places.get_mut(place.0)?.outcome.take();
        }
        // Last, so that it is moved once.
        self.places.get_mut(place.0)?.outcome.take()
    }

    /// The outcomes of a batch, if all are there; then the place is closed.
    pub(crate) fn take_batch(&mut self, place: &Place) -> Option<Collector> {
        let batch = self.places.get_mut(place.0)?.batch.as_mut()?;
        if batch.open > 0 {
            return None;
        }
        let outcomes = std::mem::take(&mut batch.outcomes);
        self.close(place);
        Some(outcomes)
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
