//! Calls that are sent again on the same connection, because the peer answered that it has not done
//! them.

use antiphon::{OwnedOutcome, Retries, Retry};

use crate::call_error::CallError;
use crate::call_request::CallRequest;
use crate::client::wait_to_resend;
use crate::entropy::Entropy;
use crate::peer::Peer;
use crate::text::Text;

impl Peer {
    /// Makes a call, and sends it again as long as it is answered with one of the codes of `retry`,
    /// `retry` allows another attempt, and the call's timeout has not passed.
    pub(crate) async fn call_again(
        &self,
        call: CallRequest<'_>,
        retry: &Retry,
    ) -> Result<OwnedOutcome, CallError> {
        let (params, runtime) = (call.params?, self.session().runtime());
        let deadline = self.deadline(call.timeout);
        let (mut retries, entropy) = (Retries::new(retry), Entropy::new(retry.seed));
        loop {
            let left = call
                .timeout
                .map(|_| deadline.saturating_since(runtime.now()));
            let mut attempt = CallRequest::new(&*call.method, Text::of(params.all()), left);
            attempt.id.clone_from(&call.id);
            attempt.progress.clone_from(&call.progress);
            let outcome = self.start(Some(attempt)).await?.await;
            let delay = match &outcome {
                OwnedOutcome::Err(_) => retries.judge(&outcome, false, entropy.next()),
                // It has a result, or no answer that says that the peer has not done it.
                _ => None,
            };
            if !wait_to_resend(runtime, delay, deadline).await {
                return Ok(outcome);
            }
        }
    }
}
