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
    CallId, Collector, DecodeError, Instant, InvalidReason, OwnedError, OwnedJson, OwnedOutcome,
    SendError,
};

use crate::handle::Handle;
use crate::places::{Place, Waiter};

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct Pending {
    handle: Handle,
    call: CallId,
    place: Place,
    is_settled: bool,
}

impl Pending {
    pub(crate) fn new(handle: Handle, call: CallId, place: Place) -> Self {
        Self {
            handle,
            call,
            place,
            is_settled: false,
        }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Lets the thread wait for the end of the call, whatever it is.
    pub fn wait(mut self) -> OwnedOutcome {
        // The deadline is the connection's to keep.
        self.wait_until(Instant::FAR_FUTURE)
            .unwrap_or(OwnedOutcome::Aborted)
    }

    /// The same for `span` at most; the call stays open if it takes longer. The outcome is given
    /// once.
    pub fn wait_for(&mut self, span: Duration) -> Option<OwnedOutcome> {
        self.wait_until(self.handle.deadline(Some(span)))
    }

    /// None if it takes longer, or the outcome has been given.
    fn wait_until(&mut self, deadline: Instant) -> Option<OwnedOutcome> {
        if self.is_settled {
            return None;
        }
        let session = self.handle.session();
        let mut state = session.write_first(session.lock());
        let mut is_reading = true;
        loop {
            if let Some(outcome) = state.places.take(&self.place) {
                self.is_settled = true;
                session.leave_waiting(&mut state);
                return Some(outcome);
            }
            if deadline != Instant::FAR_FUTURE && session.now() >= deadline {
                session.leave_waiting(&mut state);
                return None;
            }
            if is_reading {
                (state, is_reading) = session.read_instead(state, deadline);
                // Whether anything came in or not, the call may have settled.
                continue;
            }
            session.begin_waiting(&mut state);
            let condition = state.places.condition(&self.place);
            state = session.wait_on(&condition, state, deadline);
            session.end_waiting(&mut state);
        }
    }

    /// The same for a task. The outcome is given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        if self.is_settled {
            return Poll::Pending;
        }
        let mut state = self.handle.session().lock();
        let Some(outcome) = state.places.take(&self.place) else {
            state.places.watch(&self.place, cx.waker());
            return Poll::Pending;
        };
        drop(state);
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
            self.handle.give_up(self.call, &self.place);
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
    complete: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct Gathered {
    collector: Collector,
    calls: Vec<CallId>,
    open: usize,
    waker: Option<Waker>,
    is_thread_waiting: bool,
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

    /// Keeps an outcome, and says who waits if it was the last.
    pub(crate) fn insert(&self, call: CallId, outcome: OwnedOutcome) -> Option<Waiter> {
        let mut inside = self.lock();
        inside.collector.put(call, outcome);
        inside.open -= 1;
        if inside.open > 0 {
            return None;
        }
        let thread = inside.is_thread_waiting.then(|| Arc::clone(&self.complete));
        Waiter::of(inside.waker.take(), thread)
    }

    /// Whether all outcomes are there.
    pub(crate) fn is_complete(&self) -> bool {
        self.lock().open == 0
    }

    /// Lets the thread wait for all outcomes.
    pub fn wait(&self) -> Collector {
        let mut inside = self.lock();
        inside.is_thread_waiting = true;
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
