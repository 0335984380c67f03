//! A call under way, and how calls end.
//!
//! A call that is dropped is given up. A caller that waits is told how its call ended, even if the
//! connection is dropped. Every way to end without a result is told from every other.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::session::Fault;
use antiphon::{
    CallId, Collector, DecodeError, OwnedError, OwnedInvalid, OwnedJson, OwnedOutcome, SendError,
};
use serde::de::DeserializeOwned;

use crate::fault::to_error;
use crate::session::{Session, Then};
use crate::slot::{CallSlot, Slot, give_back};

/// A call that waits for its answer: a future of its outcome. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct PendingCall {
    session: Arc<Session>,
    call: CallId,
    /// `None` once the outcome has been given.
    slot: Option<CallSlot>,
}

impl PendingCall {
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

    /// The connection that it goes over.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Whether the outcome has been given.
    pub fn is_over(&self) -> bool {
        self.slot.is_none()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub async fn result<R: DeserializeOwned>(self) -> Result<R, CallError> {
        CallError::decoded(self.await)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.session.extend(self.call, timeout)
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}

/// The end of the call, whatever it is. It is given once.
impl Future for PendingCall {
    type Output = OwnedOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        let Some(slot) = &self.slot else {
            return Poll::Pending;
        };
        let outcome = ready!(slot.poll(cx.waker()));
        if let Some(slot) = self.slot.take() {
            give_back(slot);
        }
        Poll::Ready(outcome)
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if self.slot.is_some() {
            self.session.cancel(self.call);
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({})", self.call.number())
    }
}

/// A batch that waits for its answers: a future of all outcomes. Dropping it cancels the calls that
/// have none.
#[must_use = "dropping a pending batch cancels its calls"]
pub struct PendingBatch {
    session: Arc<Session>,
    calls: Arc<[CallId]>,
    /// `None` once the outcomes have been given.
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
}

/// All outcomes. They are given once.
impl Future for PendingBatch {
    type Output = Collector;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Collector> {
        let Some(slot) = &self.slot else {
            return Poll::Pending;
        };
        let outcomes = ready!(slot.poll(cx.waker()));
        self.slot = None;
        Poll::Ready(outcomes)
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
    /// Gives the result, or how the call ended instead.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        match outcome {
            OwnedOutcome::Ok(result) => Ok(result),
            other => Err(Self::instead(other)),
        }
    }

    /// Decodes a result, or gives how the call ended instead. Reads the result where it lies, for
    /// to move it costs as much as to read it.
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

    /// Gives the error that stands for an outcome that is no result.
    #[cold]
    fn instead(outcome: OwnedOutcome) -> Self {
        match outcome {
            OwnedOutcome::Err(error) => Self::Remote(error),
            OwnedOutcome::Invalid(invalid) => Self::Invalid(invalid),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // A later core may add other outcomes; they are ends without an answer, too.
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
    /// The function that was handed over, not run.
    pub then: Then,
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
    /// Whether no attempt will follow: the strategy has given up. If not, the time to wait was
    /// over.
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
