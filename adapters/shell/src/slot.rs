//! Slots for the outcome of one call or one batch, outside of the session's lock.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::task::{Poll, Waker};

use antiphon::{CallId, Collector, OwnedOutcome};
use futures_util::task::AtomicWaker;

use crate::lock::Lock;

/// Holds one value for one waiter. The value is put in once and taken once.
pub(crate) struct Slot<T> {
    value: Lock<Option<T>>,
    waker: AtomicWaker,
}

impl<T> Slot<T> {
    /// An empty slot.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::empty())
    }

    fn empty() -> Self {
        Self {
            value: Lock::new(None),
            waker: AtomicWaker::new(),
        }
    }

    /// Puts the value in, and returns the waker that is to be woken.
    #[must_use]
    pub(crate) fn put(&self, value: T) -> Option<Waker> {
        *self.value.lock() = Some(value);
        self.waker.take()
    }

    /// Takes the value, or has `waker` woken when it is there.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<T> {
        let mut value = self.value.lock().take();
        if value.is_none() {
            self.waker.register(waker);
            // The value may have been put in before the waker was registered.
            value = self.value.lock().take();
        }
        value.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_full = self.value.lock().is_some();
        f.debug_struct("Slot").field("is_full", &is_full).finish()
    }
}

/// The slot of one call.
pub(crate) type CallSlot = Arc<Slot<OwnedOutcome>>;

/// How many free slots a thread keeps for later calls; they take 7 KiB.
const MAX_SPARE: usize = 64;

thread_local! {
    static SPARE: Cell<Vec<CallSlot>> = const { Cell::new(Vec::new()) };
}

/// Returns a slot for a call. Using one that was [given back](give_back) saves one of four
/// allocations per call.
pub(crate) fn call_slot() -> CallSlot {
    with_spare(Vec::pop).unwrap_or_else(Slot::new)
}

/// Takes back a slot whose value has been taken, for another call.
pub(crate) fn give_back(mut slot: CallSlot) {
    // Another owner may still have it.
    let Some(own) = Arc::get_mut(&mut slot) else {
        return;
    };
    *own = Slot::empty();
    with_spare(|spare| {
        if spare.len() < MAX_SPARE {
            spare.push(slot);
        }
        None
    });
}

fn with_spare(act: impl FnOnce(&mut Vec<CallSlot>) -> Option<CallSlot>) -> Option<CallSlot> {
    // A thread that ends keeps no slots.
    let with = |kept: &Cell<Vec<CallSlot>>| {
        let mut spare = kept.take();
        let found = act(&mut spare);
        kept.set(spare);
        found
    };
    SPARE.try_with(with).ok().flatten()
}

/// If a [`CallId`] has this bit in its number, it is the name of a call in a batch, by which the outcome
/// is fetched. The id of a call that was sent never has it.
pub(crate) const NAMES: u64 = 1 << 63;

/// Returns the number of the batch, and the index of the call among the calls of the batch, if `name`
/// identifies a call of a batch.
pub(crate) fn batch_name(name: CallId) -> Option<(u32, usize)> {
    let place = name.number() & !NAMES;
    let place = usize::try_from(place).ok()?;
    (name.number() & NAMES != 0).then_some((name.connection(), place))
}

/// Collects the outcomes of a batch until all are there.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// The number of the batch.
    number: u32,
    state: Lock<Gathered>,
    all: Arc<Slot<Collector>>,
}

#[derive(Debug)]
struct Gathered {
    outcomes: Collector,
    open: usize,
}

impl Gathering {
    /// Makes one for the outcomes of `calls` calls, of the batch with this number.
    pub(crate) fn new(number: u32, calls: usize) -> Arc<Self> {
        let state = Lock::new(Gathered {
            outcomes: Collector::with_capacity(calls),
            open: calls,
        });
        let all = Slot::new();
        if calls == 0 {
            // There is no waiter yet.
            let _ = all.put(Collector::new());
        }
        Arc::new(Self { number, state, all })
    }

    /// The number of the batch.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Adds the outcome of one call. After the last one it returns true, and the waker that is to
    /// be woken.
    #[must_use]
    pub(crate) fn put(&self, call: CallId, outcome: OwnedOutcome) -> (bool, Option<Waker>) {
        let mut state = self.state.lock();
        state.outcomes.put(call, outcome);
        state.open = state.open.saturating_sub(1);
        if state.open > 0 {
            return (false, None);
        }
        (true, self.all.put(std::mem::take(&mut state.outcomes)))
    }

    /// The slot for all outcomes together.
    pub(crate) fn all(&self) -> &Arc<Slot<Collector>> {
        &self.all
    }
}
