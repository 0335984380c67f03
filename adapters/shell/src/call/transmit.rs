//! The ways to a peer: one connection, connections that are replaced, HTTP.
//!
//! What they have in common stands above them, once: interceptors see a call before it is sent, it is sent
//! again as its client's policy says ([`resend`](crate::resend)), and its time is limited ([`Call`](crate::Call)).

use std::borrow::Cow;
use std::future::{self, Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::{Collector, OwnedOutcome, Retry, SendError};

use crate::call::batch::Entries;
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::intercepted::Interception;
use crate::call::pending::{PendingBatch, PendingCall};
use crate::runtime::SharedRuntime;
use crate::text::Text;
use crate::wait::{BoxFuture, Wait};

/// Sends calls to a peer, each once.
pub(crate) trait Transmit: Send + Sync {
    /// The clock and the timers for calls.
    fn runtime(&self) -> &SharedRuntime;

    /// The interceptors for the calls; `None` if there are none.
    fn interception(&self) -> Option<Interception<'_>>;

    /// The timeout of calls that do not set one; `None` for ever.
    fn call_timeout(&self) -> Option<Duration>;

    /// Which calls are sent again; `None` for none.
    fn retry(&self) -> Option<&Retry>;

    /// Whether a call whose connection has ended can be sent again, over another one.
    fn reconnects(&self) -> bool;

    /// Sends a call.
    fn send<'c>(&'c self, call: CallRequest<'c>) -> Sending<'c, PendingCall, OwnedOutcome>;

    /// Sends a batch.
    fn send_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Sending<'_, PendingBatch, Collector>;

    /// Shows a notification to the interceptors, and sends it.
    fn notify<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), CallError>>;
}

/// A call or batch that is being sent, and then waits for its outcome.
pub(crate) enum Sending<'c, P, O> {
    /// It is waiting to be sent.
    Starting(Wait<'c, Result<P, SendError>>),
    /// It has been sent.
    Pending(P),
    /// A future of its outcome.
    Other(BoxFuture<'c, Result<O, CallError>>),
}

impl<P, O: Send + 'static> Sending<'_, P, O> {
    /// One that has ended already.
    pub(crate) fn over(ended: Result<O, CallError>) -> Self {
        Self::Other(Box::pin(future::ready(ended)))
    }
}

impl<P: Future<Output = O> + Unpin, O> Sending<'_, P, O> {
    pub(crate) async fn end(mut self) -> Result<O, CallError> {
        poll_fn(|cx| self.poll(cx)).await
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, CallError>> {
        if let Self::Starting(starting) = self {
            *self = Self::Pending(ready!(Pin::new(starting).poll(cx))?);
        }
        match self {
            Self::Pending(pending) => Pin::new(pending).poll(cx).map(Ok),
            Self::Other(other) => other.as_mut().poll(cx),
            Self::Starting(_) => Poll::Pending,
        }
    }
}
