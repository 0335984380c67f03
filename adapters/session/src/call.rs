//! A call under way, and how calls end.
//!
//! The rules guarded here: a call that nobody waits for any more is given up; whoever waits is
//! told, even if the connection is dropped; and every way to end without a result is told from
//! every other.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::{
    CallId, Collector, DecodeError, InvalidReason, OwnedError, OwnedJson, OwnedOutcome, Response,
    SendError,
};

use crate::handle::Handle;
use crate::session::Tag;

/// Where one outcome is awaited, by a thread or by a task.
#[derive(Debug, Default)]
pub struct Slot {
    inside: Mutex<Inside>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    outcome: Option<OwnedOutcome>,
    waker: Option<Waker>,
    threads: u32,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the outcome where it is awaited. Whoever waits there already is still to be woken.
    fn put(self: Arc<Self>, outcome: OwnedOutcome) -> Option<Waiter> {
        let mut inside = self.lock();
        inside.outcome = Some(outcome);
        let (threads, task) = (inside.threads, inside.waker.take());
        drop(inside);
        let slot = (threads > 0).then_some(self);
        (slot.is_some() || task.is_some()).then_some(Waiter { slot, task })
    }
}

/// Who waited for a call when it settled.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Where threads wait.
    slot: Option<Arc<Slot>>,
    task: Option<Waker>,
}

impl Waiter {
    pub(crate) fn wake(self) {
        if let Some(slot) = self.slot {
            slot.ready.notify_all();
        }
        if let Some(task) = self.task {
            task.wake();
        }
    }
}

/// Settles one call, at the latest when it is dropped.
#[derive(Debug)]
pub struct Settle {
    slot: Option<Arc<Slot>>,
}

impl Settle {
    /// One end settles, the other waits.
    pub fn new() -> (Self, Arc<Slot>) {
        let slot = Arc::new(Slot::default());
        let settle = Self {
            slot: Some(Arc::clone(&slot)),
        };
        (settle, slot)
    }

    /// Puts the outcome where it is awaited. Whoever waits there already is still to be woken.
    pub(crate) fn settle(mut self, outcome: OwnedOutcome) -> Option<Waiter> {
        self.slot.take()?.put(outcome)
    }
}

impl Drop for Settle {
    fn drop(&mut self) {
        let slot = self.slot.take();
        if let Some(waiter) = slot.and_then(|slot| slot.put(OwnedOutcome::Aborted)) {
            waiter.wake();
        }
    }
}

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct Pending {
    handle: Handle,
    call: CallId,
    slot: Arc<Slot>,
    is_settled: bool,
}

impl Pending {
    pub(crate) fn new(handle: Handle, call: CallId, slot: Arc<Slot>) -> Self {
        Self {
            handle,
            call,
            slot,
            is_settled: false,
        }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Lets the thread wait for the end of the call, whatever it is.
    pub fn wait(mut self) -> OwnedOutcome {
        let mut inside = self.slot.lock();
        let outcome = loop {
            if let Some(outcome) = inside.outcome.take() {
                break outcome;
            }
            // The deadline is the connection's to keep.
            inside.threads += 1;
            let waited = self.slot.ready.wait(inside);
            inside = waited.unwrap_or_else(PoisonError::into_inner);
            inside.threads -= 1;
        };
        drop(inside);
        self.is_settled = true;
        outcome
    }

    /// The same for `span` at most; the call stays open if it takes longer. The outcome is given
    /// once.
    pub fn wait_for(&mut self, span: Duration) -> Option<OwnedOutcome> {
        let mut inside = self.slot.lock();
        if inside.outcome.is_none() {
            inside.threads += 1;
            let wanted = |inside: &mut Inside| inside.outcome.is_none();
            let waited = self.slot.ready.wait_timeout_while(inside, span, wanted);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
            inside.threads -= 1;
        }
        let outcome = inside.outcome.take();
        drop(inside);
        self.is_settled |= outcome.is_some();
        outcome
    }

    /// The same for a task. The outcome is given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        let mut inside = self.slot.lock();
        let Some(outcome) = inside.outcome.take() else {
            inside.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        drop(inside);
        self.is_settled = true;
        Poll::Ready(outcome)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.handle.extend(self.call, timeout)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.is_settled {
            self.handle.cancel(self.call);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.call.number())
    }
}

/// The outcomes of a batch, and how many are still to come.
#[derive(Debug, Default)]
pub struct Gathering {
    inside: Mutex<Gathered>,
    complete: Condvar,
}

#[derive(Debug, Default)]
struct Gathered {
    collector: Collector,
    calls: Vec<CallId>,
    open: usize,
    waker: Option<Waker>,
}

impl Gathering {
    fn lock(&self) -> MutexGuard<'_, Gathered> {
        // Nothing that can panic runs under the lock.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn expect(&self, calls: Vec<CallId>) {
        let mut inside = self.lock();
        inside.open = calls.len();
        inside.calls = calls;
    }

    /// Names the calls of the batch.
    pub fn calls(&self) -> Vec<CallId> {
        self.lock().calls.clone()
    }

    pub(crate) fn insert(&self, response: Response<'_, Tag>) {
        let mut inside = self.lock();
        let tag = inside.collector.insert(response);
        inside.open -= 1;
        let waker = if inside.open == 0 {
            self.complete.notify_all();
            inside.waker.take()
        } else {
            None
        };
        drop(inside);
        // The tag may be the last that holds this.
        drop(tag);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Lets the thread wait for all outcomes.
    pub fn wait(&self) -> Collector {
        let inside = self.lock();
        // Every call settles by its deadline, or with the connection.
        let waited = self
            .complete
            .wait_while(inside, |inside| inside.open > 0)
            .unwrap_or_else(PoisonError::into_inner);
        let mut inside = waited;
        std::mem::take(&mut inside.collector)
    }

    /// The same for a task.
    pub fn poll(&self, cx: &mut Context<'_>) -> Poll<Collector> {
        let mut inside = self.lock();
        if inside.open > 0 {
            inside.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut inside.collector))
    }
}

/// How a call ended without a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error object; [`OwnedError::as_error`] tells its kind.
    Remote(OwnedError),
    /// There was no answer in time. The peer may still be working.
    TimedOut,
    /// The connection ended first. The peer may or may not have acted.
    Closed,
    /// No byte of the call left this side: repeating it is safe.
    Unsent,
    /// The peer left this call out of its answer.
    Missing,
    /// The peer's answer breaks the rules.
    Invalid(InvalidReason),
    /// The result is not of the type asked for.
    Decode(DecodeError),
    /// The call was refused here: a limit, a closed connection, params without a JSON form.
    Rejected(SendError),
}

impl CallError {
    /// A result, or how the call ended instead.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        Err(match outcome {
            OwnedOutcome::Ok(result) => return Ok(result),
            OwnedOutcome::Err(error) => Self::Remote(error),
            OwnedOutcome::Invalid(reason) => Self::Invalid(reason),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // What a later core may add is an end without an answer, too.
            _ => Self::Closed,
        })
    }

    /// Whether there is no connection any more.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::Unsent | Self::Rejected(SendError::Closed)
        )
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(error) => error.fmt(f),
            Self::TimedOut => f.write_str("there was no answer in time"),
            Self::Closed => f.write_str("the connection ended before the answer came"),
            Self::Unsent => f.write_str("the connection ended before the call was sent"),
            Self::Missing => f.write_str("the peer left the call out of its answer"),
            Self::Invalid(reason) => write!(f, "the answer is not valid: {reason}"),
            Self::Decode(error) => write!(f, "the result is not what was expected: {error}"),
            Self::Rejected(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<SendError> for CallError {
    fn from(error: SendError) -> Self {
        Self::Rejected(error)
    }
}

/// A call that was refused, with what was to run at its end.
pub struct CallRefused {
    /// Why it was refused.
    pub error: SendError,
    /// What was handed over, not run.
    pub then: Box<dyn FnOnce(OwnedOutcome) + Send>,
}

impl fmt::Debug for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallRefused({:?})", self.error)
    }
}

impl fmt::Display for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CallRefused {}
