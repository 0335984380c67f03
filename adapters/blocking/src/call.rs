//! A call under way.

use std::sync::Arc;
use std::time::Duration;

use antiphon::{CallId, OwnedJson, OwnedOutcome, SendError};
use antiphon_net::{CallError, within};
use serde::de::DeserializeOwned;

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
#[derive(Debug)]
pub struct PendingCall(pub(crate) antiphon_net::PendingCall);

impl PendingCall {
    /// Names the call.
    pub fn id(&self) -> CallId {
        self.0.id()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait<R: DeserializeOwned>(self) -> Result<R, CallError> {
        CallError::decoded(self.wait_outcome())
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
        if self.0.is_over() {
            return OwnedOutcome::Aborted;
        }
        // The deadline is the connection's to keep.
        let session = Arc::clone(self.0.session());
        session.wait_for(&mut self.0)
    }

    /// Waits for the end of the call, at most `span`; the call stays open if it takes longer. The
    /// outcome is given once.
    pub fn poll_outcome(&mut self, span: Duration) -> Option<OwnedOutcome> {
        if self.0.is_over() {
            return None;
        }
        let session = Arc::clone(self.0.session());
        session.wait_for(within(span, &mut self.0))
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.0.extend(timeout)
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}
