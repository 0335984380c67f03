//! A call under way, and how calls end.
//!
//! A call that is dropped is given up; the one that waits for it is told how it ended, even if the
//! connection is dropped; and every way to end without a result is told from every other.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::session::Fault;
use antiphon::{
    CallId, Collector, DecodeError, Instant, OwnedError, OwnedInvalid, OwnedJson, OwnedOutcome,
    SendError,
};
use serde::de::DeserializeOwned;

use crate::fault::to_error;
use crate::session::{Guard, Patience, Session, thread_waker};
use crate::slot::{CallSlot, Slot, give_back};

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct Pending {
    session: Arc<Session>,
    call: CallId,
    /// None once the outcome has been given.
    slot: Option<CallSlot>,
}

impl Pending {
    pub(crate) fn new(session: Arc<Session>, call: CallId, slot: CallSlot) -> Self {
        Self {
            session,
            call,
            slot: Some(slot),
        }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Lets the thread wait for the end of the call, whatever it is. None if the outcome has been
    /// given.
    pub fn wait(&mut self) -> Option<OwnedOutcome> {
        // The deadline is the connection's to keep.
        self.wait_until(Instant::FAR_FUTURE)
    }

    /// Like [`wait`](Self::wait), for `span` at most; the call stays open if it takes longer. The
    /// outcome is given once.
    pub fn wait_for(&mut self, span: Duration) -> Option<OwnedOutcome> {
        self.wait_until(self.session.now() + span)
    }

    /// None if it takes longer, or the outcome has been given.
    fn wait_until(&mut self, deadline: Instant) -> Option<OwnedOutcome> {
        let slot = self.slot.as_ref()?;
        let outcome = wait_at(&self.session, self.session.lock(), slot, deadline);
        if outcome.is_some() {
            self.forget_slot();
        }
        outcome
    }

    /// The end of the call, for a task. The outcome is given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        let Some(slot) = &self.slot else {
            return Poll::Pending;
        };
        let polled = slot.poll(cx.waker());
        if polled.is_ready() {
            self.forget_slot();
        }
        polled
    }

    fn forget_slot(&mut self) {
        if let Some(slot) = self.slot.take() {
            give_back(slot);
        }
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.session.extend(self.call, timeout)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.session.cancel(self.call);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.call.number())
    }
}

/// A batch that waits for its answers. Dropping it cancels the calls that have none.
#[must_use = "dropping a pending batch cancels its calls"]
pub struct PendingBatch {
    session: Arc<Session>,
    calls: Arc<[CallId]>,
    /// None once the outcomes have been given.
    slot: Option<Arc<Slot<Collector>>>,
}

impl PendingBatch {
    pub(crate) fn new(
        session: Arc<Session>,
        calls: Arc<[CallId]>,
        slot: Arc<Slot<Collector>>,
    ) -> Self {
        Self {
            session,
            calls,
            slot: Some(slot),
        }
    }

    /// Lets the thread wait for all outcomes; none if [`poll`](Self::poll) has given them.
    pub fn wait(mut self) -> Collector {
        let Some(slot) = &self.slot else {
            return Collector::new();
        };
        // Every call settles by its deadline, or with the connection.
        let never = Instant::FAR_FUTURE;
        let outcomes = wait_at(&self.session, self.session.lock(), slot, never);
        self.slot = None;
        outcomes.unwrap_or_default()
    }

    /// All outcomes, for a task. They are given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Collector> {
        let Some(slot) = &self.slot else {
            return Poll::Pending;
        };
        let polled = slot.poll(cx.waker());
        if polled.is_ready() {
            self.slot = None;
        }
        polled
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        if self.slot.is_some() {
            for call in &*self.calls {
                // One that has settled is not open any more.
                self.session.cancel(*call);
            }
        }
    }
}

impl fmt::Debug for PendingBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingBatch")
            .field("is_settled", &self.slot.is_none())
            .finish_non_exhaustive()
    }
}

/// Lets the thread wait for what is put into `slot`, until `deadline`. It reads and writes for
/// itself where it can.
pub(crate) fn wait_at<'s, R>(
    session: &'s Session,
    state: Guard<'s>,
    slot: &Slot<R>,
    deadline: Instant,
) -> Option<R> {
    let waker = thread_waker();
    let mut state = session.write_alone(state);
    let mut is_reading = session.waits_alone(&state);
    let mut waiting = Patience::until(deadline);
    loop {
        let is_over = waiting.is_over(session);
        match slot.poll(&waker) {
            Poll::Ready(found) => {
                session.leave_waiting(&mut state);
                return Some(found);
            }
            Poll::Pending if is_over => {
                session.leave_waiting(&mut state);
                return None;
            }
            Poll::Pending => {}
        }
        let deadline = waiting.deadline();
        if is_reading {
            (state, is_reading) = session.read_instead(state, deadline);
            // Whether anything came in or not, it may be there now.
            continue;
        }
        session.begin_waiting(&mut state);
        drop(state);
        session.park_until(deadline);
        state = session.lock();
        session.end_waiting(&mut state);
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
    /// The peer's answer breaks the rules. It holds the first bytes of what the peer said.
    Invalid(OwnedInvalid),
    /// The result is not of the type asked for.
    Decode(DecodeError),
    /// The call was refused here: a limit, a closed connection, params without a JSON form.
    Rejected(SendError),
    /// A client that keeps its connections has none, and none opened while the call waited. No byte
    /// of the call left this side.
    NoConnection(NoConnection),
}

impl CallError {
    /// A result, or how the call ended instead.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        match outcome {
            OwnedOutcome::Ok(result) => Ok(result),
            other => Err(Self::instead(other)),
        }
    }

    /// The same with the result decoded, where it lies: to move it costs as much as to read it.
    ///
    /// # Errors
    /// How the call ended instead, or [`Decode`](Self::Decode).
    #[inline]
    pub fn decoded<R: DeserializeOwned>(outcome: OwnedOutcome) -> Result<R, Self> {
        match &outcome {
            OwnedOutcome::Ok(result) => result.as_json().decode().map_err(Self::Decode),
            _ => Err(Self::instead(outcome)),
        }
    }

    /// What stands for an outcome that is no result.
    #[cold]
    fn instead(outcome: OwnedOutcome) -> Self {
        match outcome {
            OwnedOutcome::Err(error) => Self::Remote(error),
            OwnedOutcome::Invalid(invalid) => Self::Invalid(invalid),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // What a later core may add is an end without an answer, too.
            _ => Self::Closed,
        }
    }

    /// Whether there is no connection any more.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::Unsent | Self::Rejected(SendError::Closed) | Self::NoConnection(_)
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
            Self::Invalid(invalid) => write!(f, "the answer is not valid: {invalid}"),
            Self::Decode(error) => write!(f, "the result is not what was expected: {error}"),
            Self::Rejected(error) => error.fmt(f),
            Self::NoConnection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Its text is this one's already.
            Self::NoConnection(error) => error.source(),
            _ => None,
        }
    }
}

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

/// No connection is open, and a call or a caller of `wait_open` has waited in vain. Nothing of a
/// call has left this side.
#[derive(Clone, Debug)]
pub struct NoConnection {
    pub(crate) is_final: bool,
    pub(crate) last_error: Option<Fault>,
}

impl NoConnection {
    /// Whether no attempt will follow: the strategy has given up. If not, the time to wait was over.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Why the last connection, or the last attempt at one, failed. None while the first attempt is
    /// still under way. For a refused WebSocket handshake the text names the HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        self.last_error.as_ref().map(to_error)
    }
}

impl fmt::Display for NoConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_final {
            true => "there is no connection, and no further attempt at one",
            false => "no connection was open in time",
        })?;
        match &self.last_error {
            Some(error) => write!(f, "; the last error: {error}"),
            None => Ok(()),
        }
    }
}

/// Its source is the last error.
impl std::error::Error for NoConnection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_ref().map(|error| error.as_error() as _)
    }
}
