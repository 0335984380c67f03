//! A call under way.

use std::fmt;
use std::time::Duration;

use antiphon::{CallId, OwnedJson, OwnedOutcome, SendError};
use antiphon_net::{CallError, Pending};
use serde::de::DeserializeOwned;

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct PendingCall {
    pending: Pending,
}

impl PendingCall {
    pub(crate) fn new(pending: Pending) -> Self {
        Self { pending }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.pending.id()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait<R: DeserializeOwned>(mut self) -> Result<R, CallError> {
        let outcome = self.pending.wait().ok_or(CallError::Closed)?;
        CallError::decoded(outcome)
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
        self.pending.wait().unwrap_or(OwnedOutcome::Aborted)
    }

    /// Waits for the end of the call, at most `span`; the call stays open if it takes longer. The
    /// outcome is given once.
    pub fn poll_outcome(&mut self, span: Duration) -> Option<OwnedOutcome> {
        self.pending.wait_for(span)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.pending.extend(timeout)
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pending.fmt(f)
    }
}
