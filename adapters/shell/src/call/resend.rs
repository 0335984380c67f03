//! Calls that are sent again, within their timeout: because no byte of them was sent, because their caller
//! said that running them twice does no harm, or because the peer answered that it has not run them.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use antiphon::http::ReplyError;
use antiphon::{Instant, OwnedOutcome, Retries, Retry, SendError};

use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::pending::PendingCall;
use crate::call::transmit::{Sending, Transmit};
use crate::entropy::Entropy;
use crate::fault::is_permanent;
use crate::http::error::HttpError;
use crate::http::reply::Advice;
use crate::lock::Lock;
use crate::runtime::Runtime;
use crate::text::Text;

/// How one attempt at a call has ended.
type Ended = Result<OwnedOutcome, CallError>;

/// Sends a call, and sends it again as the client's policy says.
pub(crate) fn transmit<'c>(
    way: &'c dyn Transmit,
    call: CallRequest<'c>,
) -> Sending<'c, PendingCall, OwnedOutcome> {
    // A flow is produced once, so a call that has one is sent once.
    match way.retry().filter(|_| call.flows.is_empty()) {
        None => way.send(call),
        Some(retry) => Sending::Other(Box::pin(send_again(way, call, retry))),
    }
}

/// Makes a call, and sends it again as long as `retry` allows another attempt and the call's timeout has not
/// passed.
async fn send_again(way: &dyn Transmit, call: CallRequest<'_>, retry: &Retry) -> Ended {
    let (params, runtime) = (call.params?, &**way.runtime());
    let started = runtime.now();
    let deadline = call
        .timeout
        .map_or(Instant::FAR_FUTURE, |span| started + span);
    let (mut retries, entropy) = (Retries::new(retry), Entropy::new(retry.seed));
    let mut is_again = false;
    let told = Arc::new(Lock::new(Advice::default()));
    // How the last attempt ended of which bytes were sent. Once it is in doubt whether the peer has run the
    // call, it stays so.
    let mut sent: Option<Ended> = None;
    loop {
        let left = call
            .timeout
            .map(|_| deadline.saturating_since(runtime.now()));
        let mut attempt = CallRequest::new(&*call.method, Text::of(params.all()), left);
        attempt.id.clone_from(&call.id);
        attempt.events.clone_from(&call.events);
        attempt.headers.clone_from(&call.headers);
        attempt.is_again = is_again;
        attempt.advice = Some(Arc::clone(&told));
        let ended = way.send(attempt).end().await;
        let advice = mem::take(&mut *told.lock());
        let is_idempotent = call.is_idempotent;
        let delay = match way.reconnects() || is_answered(&ended) {
            true => judge(&mut retries, &ended, advice, is_idempotent, entropy.next()),
            false => None,
        };
        if !wait_to_resend(runtime, delay, deadline).await {
            let is_late = || runtime.now() >= deadline;
            return match sent {
                Some(_) if !is_unsent(&ended) => ended,
                Some(Ok(OwnedOutcome::Aborted)) if is_late() => Ok(OwnedOutcome::TimedOut),
                // It was not sent now, but before: the peer may have run it.
                Some(earlier) => earlier,
                None => ended,
            };
        }
        is_again = true;
        if !is_unsent(&ended) && !sent.as_ref().is_some_and(is_lost) {
            sent = Some(ended);
        }
    }
}

/// Returns after how long a call that has `ended` is sent again; `None` for never.
fn judge(
    retries: &mut Retries<'_>,
    ended: &Ended,
    advice: Advice,
    is_idempotent: bool,
    entropy: u64,
) -> Option<Duration> {
    let delay = match ended {
        // The code is looked at first, then the status of the reply.
        Ok(outcome @ OwnedOutcome::Err(_)) => retries
            .judge(outcome, is_idempotent, entropy)
            .or_else(|| retries.judge_status(advice.status, is_idempotent, entropy)),
        Err(CallError::Http(HttpError::Reply(ReplyError::Status { status, .. }, _))) => {
            retries.judge_status(*status, is_idempotent, entropy)
        }
        Ok(outcome) => retries.judge(outcome, is_idempotent, entropy),
        // The connection ended after it had been chosen and before the call was sent.
        Err(CallError::Rejected(SendError::Closed)) => Some(Duration::ZERO),
        Err(CallError::Http(HttpError::Connect(error))) if is_permanent(error) => None,
        // Over HTTP nothing waits for the next connection, so each attempt is counted, and has its delay,
        // as that of a call that was lost and may be sent again: hence `true`.
        Err(CallError::Http(HttpError::Connect(_) | HttpError::Unsent(_))) => retries
            .judge(&OwnedOutcome::Aborted, true, entropy)
            .map(|_| retries.next_delay(entropy)),
        Err(CallError::Http(HttpError::Lost(_))) => retries
            .judge(&OwnedOutcome::Aborted, is_idempotent, entropy)
            .map(|_| retries.next_delay(entropy)),
        Err(_) => None,
    };
    retries.delay_after(delay?, advice.retry_after)
}

fn is_answered(ended: &Ended) -> bool {
    matches!(ended, Ok(OwnedOutcome::Err(_)))
}

/// Whether no byte of a call was sent that has `ended` so.
fn is_unsent(ended: &Ended) -> bool {
    match ended {
        Ok(outcome) => matches!(outcome, OwnedOutcome::Unsent),
        Err(error) => error.is_unsent(),
    }
}

/// Whether it is in doubt if the peer has run a call that has `ended` so.
fn is_lost(ended: &Ended) -> bool {
    match ended {
        Ok(outcome) => matches!(outcome, OwnedOutcome::Aborted),
        Err(error) => !error.is_unsent(),
    }
}

/// Waits for `delay`, after which a call is sent again, and returns true. Returns false at once if
/// `delay` is `None` or does not end before `deadline`: the call is not sent again.
async fn wait_to_resend(runtime: &dyn Runtime, delay: Option<Duration>, deadline: Instant) -> bool {
    let at = delay.map(|delay| runtime.now() + delay);
    let Some(at) = at.filter(|at| *at < deadline) else {
        return false;
    };
    if delay != Some(Duration::ZERO) {
        runtime.sleep_until(at).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use antiphon::{OwnedOutcome, Retries, Retry, SendError};

    use super::judge;
    use crate::call::call_error::CallError;
    use crate::http::reply::Advice;

    // CON-04
    #[test]
    fn a_call_is_sent_again_only_if_that_does_no_harm() {
        for (ended, plain, idempotent) in [
            (Ok(OwnedOutcome::Unsent), true, true),
            (Ok(OwnedOutcome::Aborted), false, true),
            (Ok(OwnedOutcome::TimedOut), false, false),
            (Err(CallError::Rejected(SendError::Closed)), true, true),
            (Err(CallError::Rejected(SendError::Full)), false, false),
        ] {
            let retry = Retry::new();
            let mut retries = Retries::new(&retry);
            let mut is_again = |is_idempotent| {
                judge(&mut retries, &ended, Advice::default(), is_idempotent, 0).is_some()
            };
            assert_eq!(is_again(false), plain, "{ended:?}");
            assert_eq!(is_again(true), idempotent, "{ended:?}");
        }
        // A call that ends every connection over which it is sent is not sent for ever.
        let mut retry = Retry::new();
        retry.max_resends = 2;
        let mut retries = Retries::new(&retry);
        let mut is_again =
            |outcome| judge(&mut retries, &Ok(outcome), Advice::default(), true, 0).is_some();
        let again = [(); 4].map(|()| is_again(OwnedOutcome::Aborted));
        assert_eq!(again, [true, true, false, false]);
        assert!(is_again(OwnedOutcome::Unsent), "it was not sent");
    }
}
