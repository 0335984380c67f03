//! A call under way, and how calls end.
//!
//! The rule guarded here: a call that nobody waits for any more is given up, and every way to end
//! without a result is told from every other.

use std::fmt;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use antiphon::{
    CallId, DecodeError, InvalidReason, OwnedError, OwnedJson, OwnedOutcome, SendError,
};
use serde::de::DeserializeOwned;

use crate::peer::Peer;

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct PendingCall {
    peer: Peer,
    call: CallId,
    outcome: Receiver<OwnedOutcome>,
    is_settled: bool,
}

impl PendingCall {
    pub(crate) fn new(peer: Peer, call: CallId, outcome: Receiver<OwnedOutcome>) -> Self {
        Self {
            peer,
            call,
            outcome,
            is_settled: false,
        }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait<R: DeserializeOwned>(self) -> Result<R, CallError> {
        let result = self.wait_raw()?;
        result.as_json().decode().map_err(CallError::Decode)
    }

    /// Waits for the result as the peer wrote it.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait_raw(self) -> Result<OwnedJson, CallError> {
        CallError::of(self.wait_outcome())
    }

    /// Waits for the end of the call, whatever it is.
    pub fn wait_outcome(mut self) -> OwnedOutcome {
        // The deadline is the connection's to keep; without a sender nothing will ever come.
        let outcome = self.outcome.recv().unwrap_or(OwnedOutcome::Aborted);
        self.is_settled = true;
        outcome
    }

    /// Waits for the end of the call, at most `span`; the call stays open if it takes longer. The
    /// outcome is given once.
    pub fn poll_outcome(&mut self, span: Duration) -> Option<OwnedOutcome> {
        let outcome = self.outcome.recv_timeout(span).ok()?;
        self.is_settled = true;
        Some(outcome)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.peer.extend(self.call, timeout)
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if !self.is_settled {
            self.peer.cancel(self.call);
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({})", self.call.number())
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
