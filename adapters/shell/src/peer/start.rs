//! Calls and batches of a peer that are started and not awaited.

use antiphon::{CallId, OwnedJson, OwnedOutcome, SendError};

use crate::call::call_error::{CallError, CallRefused};
use crate::call::intercepted::outcome_of;
use crate::call::pending::{PendingBatch, PendingCall};
use crate::call::transmit::Transmit;
use crate::call::{BatchCall, Call};
use crate::peer::{NO_CALL, Peer};
use crate::wait::Wait;

impl<'p> Call<'p, OwnedJson, Peer> {
    /// Sends the call, after waiting for space if the output is full. Returns a future of its
    /// outcome; dropping that cancels the call.
    ///
    /// # Errors
    /// The call was refused.
    pub fn start(self) -> Wait<'p, Result<PendingCall, SendError>> {
        let (peer, request) = self.into_parts();
        let Some(seen) = peer.interception() else {
            return peer.start(request);
        };
        let Some(mut call) = request else {
            return peer.start(None);
        };
        let shown = seen.call(&mut call);
        shown.then(call, move |decided| match decided {
            Ok((call, intercepted)) => {
                let started = peer.start(Some(call));
                started.map(move |started| peer.started(started, intercepted))
            }
            Err(answered) => {
                let pending = peer.settled(outcome_of(answered));
                Wait::known(Ok(pending))
            }
        })
    }

    /// Sends the call, after waiting for space if the output is full, and runs `then` when it ends,
    /// in order with the service's other work: messages that the peer sent before the answer are
    /// handled first, unless they have to wait for other handlers. So a relay needs no task for each
    /// call. [`Peer::cancel`] drops `then` without running it. If an interceptor answers the call,
    /// `then` runs at once.
    ///
    /// # Errors
    /// Returns `then` with the reason.
    pub fn then(
        self,
        then: impl FnOnce(OwnedOutcome) + Send + 'static,
    ) -> Wait<'p, Result<CallId, CallRefused>> {
        let (peer, request) = self.into_parts();
        let Some(seen) = peer.interception() else {
            return peer.start_then(request, Box::new(then));
        };
        let Some(mut call) = request else {
            return peer.start_then(None, Box::new(then));
        };
        let shown = seen.call(&mut call);
        shown.then(call, move |decided| match decided {
            Ok((call, intercepted)) => {
                let then = move |outcome| then(intercepted.end_outcome(outcome));
                peer.start_then(Some(call), Box::new(then))
            }
            Err(answered) => {
                then(outcome_of(answered));
                Wait::known(Ok(NO_CALL))
            }
        })
    }
}

impl<'p, H: Send + 'p> BatchCall<'p, H, Peer> {
    /// Sends the batch, after waiting for space if the output is full. Returns a future of the
    /// outcomes; dropping that cancels the calls that have none.
    ///
    /// # Errors
    /// The batch was refused.
    pub fn start(self) -> Wait<'p, Result<(H, PendingBatch), SendError>> {
        let (peer, built, timeout) = self.into_parts();
        Wait::on(async move {
            let (handles, mut batch) = built?;
            let Some(seen) = peer.interception() else {
                return Ok((handles, peer.start_batch(batch, timeout).await?));
            };
            let mut shown = seen.batch(&batch);
            let left = match shown.is_waiting() {
                true => shown.decide(timeout).await,
                false => timeout,
            };
            let finished = shown.finish(&mut batch);
            let intercepted = finished.map_err(|_| SendError::Interceptor)?;
            let started = match batch.is_empty() {
                true => Ok(peer.settled_batch()),
                false => peer.start_batch(batch, left).await,
            };
            match started {
                Ok(pending) => Ok((handles, pending.intercepted_by(intercepted))),
                Err(error) => {
                    // The batch is refused, whatever the interceptors make of it.
                    let _ = intercepted.end(Err(CallError::Unsent));
                    Err(error)
                }
            }
        })
    }
}
