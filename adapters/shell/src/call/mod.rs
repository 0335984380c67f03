//! A call or a batch: its options, until it is sent, and then its outcome.
//!
//! Nothing is sent before the call is awaited, waited for or started. Dropping it cancels the call.

pub(crate) mod batch;
pub(crate) mod call_error;
pub(crate) mod call_request;
pub(crate) mod intercepted;
pub(crate) mod passed;
pub(crate) mod pending;
pub(crate) mod resend;
pub(crate) mod route;
pub(crate) mod transmit;
pub(crate) mod waiting_sender;

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Context, Poll};
use std::time::Duration;

use antiphon::RpcError;
use antiphon::session::Extend;
use antiphon::{Collector, OwnedError, OwnedId, OwnedJson, OwnedOutcome, Payload, SendError};

use crate::call::batch::{BatchBuilder, Entries};
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::intercepted::{Intercepted, InterceptedBatch, Shown};
use crate::call::pending::{PendingBatch, PendingCall};
use crate::call::resend::transmit;
use crate::call::route::{CallEvents, Wanted};
use crate::call::transmit::{Sending, Transmit};
use crate::debug_fields;
use crate::runtime::threads::block_on;

/// A call: await it in a task, or [`wait`](Self::wait) for it on a thread.
///
/// ```no_run
/// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
/// use std::time::Duration;
///
/// let sum: f64 = peer.call("add", &(10, 5)).await?;
/// let slow: String = peer.call("slow", ()).timeout(Duration::from_secs(300)).await?;
/// let text = peer.call("any", ()).raw().await?;
/// # Ok(()) }
/// ```
///
/// On a thread:
///
/// ```no_run
/// # fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
/// let sum: f64 = peer.call("add", &(10, 5)).wait()?;
/// let text = peer.call("any", ()).raw().wait()?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent before it is awaited, waited for or started"]
pub struct Call<'p, R, C, E = OwnedError> {
    way: &'p dyn Transmit,
    maker: &'p C,
    /// `None` after the call has begun.
    request: Option<CallRequest<'p>>,
    begun: Option<Sending<'p, PendingCall, OwnedOutcome>>,
    /// `None` without interceptors.
    intercepted: Option<Box<Intercepted>>,
    pub(crate) decode: fn(OwnedOutcome) -> Result<R, CallError<E>>,
}

impl<'p, R, C, E> Call<'p, R, C, E> {
    pub(crate) fn new(
        maker: &'p C,
        way: &'p dyn Transmit,
        method: impl Into<Cow<'p, str>>,
        params: impl Payload,
        decode: fn(OwnedOutcome) -> Result<R, CallError<E>>,
    ) -> Self {
        let (params, flows) = passed::write(params);
        let mut request = CallRequest::new(method, params, way.call_timeout());
        request.flows = flows;
        Self {
            way,
            maker,
            request: Some(request),
            begun: None,
            intercepted: None,
            decode,
        }
    }
}

impl<'p, R, C, E> Call<'p, R, C, E> {
    /// Sets the time for the answer, from the beginning of the call; `None` for ever. The default is
    /// the configuration's [`call_timeout`](crate::ConnectionConfig::call_timeout).
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        if let Some(request) = &mut self.request {
            request.timeout = timeout.into();
        }
        self
    }

    /// Sets no timeout: the call waits for ever.
    pub fn no_timeout(self) -> Self {
        self.timeout(None)
    }

    /// Says that the call may be run twice: a client that reconnects, or an HTTP client with a `retry`,
    /// sends it again if its connection ends before the answer. On a single connection this has no effect:
    /// there [`retry`](crate::ConnectionConfig::retry) sends a call again only if the peer answered that it
    /// has not run it.
    pub fn idempotent(mut self) -> Self {
        if let Some(request) = &mut self.request {
            request.is_idempotent = true;
        }
        self
    }

    /// Says that the call may not be sent a second time.
    pub(crate) fn only_once(mut self) -> Self {
        if let Some(request) = &mut self.request {
            request.is_idempotent = false;
        }
        self
    }

    /// Chooses the id of the call: a string or a number. The default is the next id of the
    /// configuration's [`id_scheme`](antiphon::Dialect::id_scheme). The call is refused as
    /// [`IdInUse`](SendError::IdInUse) if another call with this id is open on its connection.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
    /// let sum: f64 = peer.call("add", &(10, 5)).id("order-17").await?;
    /// # Ok(()) }
    /// ```
    pub fn id(mut self, id: impl Into<OwnedId>) -> Self {
        if let Some(request) = &mut self.request {
            request.id = Some(id.into());
        }
        self
    }

    /// Returns the request, for a maker that sends it in another way.
    pub(crate) fn into_parts(self) -> (&'p C, Option<CallRequest<'p>>) {
        (self.maker, self.request)
    }
}

impl<R, C, E> Call<'_, R, C, E> {
    /// Asks for the progress of the call. With `at_most`, each value begins the timeout anew, up to this time
    /// from now.
    pub(crate) fn hear_progress(&mut self, at_most: Option<Duration>) -> Arc<CallEvents> {
        let timeout = self.request.as_ref().and_then(|request| request.timeout);
        let extend = timeout.zip(at_most).map(|(timeout, at_most)| Extend {
            timeout,
            until: self.way.runtime().now() + at_most,
        });
        if let Some(request) = &mut self.request {
            request.timeout = timeout.into_iter().chain(at_most).min();
        }
        self.read_events(Wanted::Progress, extend)
    }

    /// Asks for events of the call, each of which moves its deadline as `extend` says.
    pub(crate) fn read_events(
        &mut self,
        wanted: Wanted,
        extend: Option<Extend>,
    ) -> Arc<CallEvents> {
        let events = CallEvents::new(wanted, extend);
        if let Some(request) = &mut self.request {
            request.events = Some(Arc::clone(&events));
        }
        events
    }
}

impl<C> Call<'_, OwnedJson, C> {
    /// Returns the result as the peer wrote it, without decoding it.
    pub fn raw(mut self) -> Self {
        self.decode = CallError::of;
        self
    }
}

impl<R, C, E: RpcError> Call<'_, R, C, E> {
    /// Blocks this thread until the call ends.
    ///
    /// # Errors
    /// How the call ended without a result: see [`CallError`].
    pub fn wait(self) -> Result<R, CallError<E>> {
        block_on(self)
    }
}

/// Shows a call to the interceptors, if there are any, and begins it unless they have answered it.
fn begin<'c>(
    way: &'c dyn Transmit,
    mut call: CallRequest<'c>,
) -> (
    Sending<'c, PendingCall, OwnedOutcome>,
    Option<Box<Intercepted>>,
) {
    let Some(interception) = way.interception() else {
        return (transmit(way, call), None);
    };
    match interception.call(&mut call) {
        Shown::Passed(intercepted) => (transmit(way, call), Some(Box::new(intercepted))),
        Shown::Answered(answered) => (Sending::over(answered), None),
        Shown::Waiting(undecided) => {
            let decided = async move {
                let intercepted = match undecided.decide(&mut call).await {
                    Ok(intercepted) => intercepted,
                    Err(answered) => return answered,
                };
                intercepted.end(transmit(way, call).end().await)
            };
            (Sending::Other(Box::pin(decided)), None)
        }
    }
}

/// None of its fields has to be pinned.
impl<R, C, E> Unpin for Call<'_, R, C, E> {}

impl<R, C, E: RpcError> Future for Call<'_, R, C, E> {
    type Output = Result<R, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(request) = this.request.take() {
            let (begun, intercepted) = begin(this.way, request);
            (this.begun, this.intercepted) = (Some(begun), intercepted);
        }
        match &mut this.begun {
            Some(begun) => {
                let mut outcome = task::ready!(begun.poll(cx));
                this.begun = None;
                if let Some(intercepted) = this.intercepted.take() {
                    outcome = intercepted.end(outcome);
                }
                Poll::Ready(match outcome {
                    Ok(outcome) => (this.decode)(outcome),
                    Err(error) => Err(CallError::of_untyped(error)),
                })
            }
            None => Poll::Pending,
        }
    }
}

impl<R, C, E> fmt::Debug for Call<'_, R, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.request.as_ref().map(|request| &*request.method);
        f.debug_tuple("Call").field(&method).finish_non_exhaustive()
    }
}

type BatchParts<'p, H, C> = (&'p C, Result<(H, Entries), SendError>, Option<Duration>);

/// Several calls and notifications in one message: await it in a task, or [`wait`](Self::wait) for
/// it on a thread. The result has the handles that the function which built the batch returned, and
/// the outcomes, which are fetched by handle.
#[must_use = "nothing is sent before it is awaited, waited for or started"]
pub struct BatchCall<'p, H, C> {
    way: &'p dyn Transmit,
    maker: &'p C,
    /// `None` after the batch has begun.
    built: Option<Result<(H, Entries), SendError>>,
    timeout: Option<Duration>,
    begun: Option<(H, Sending<'p, PendingBatch, Collector>)>,
    /// `None` without interceptors.
    intercepted: Option<InterceptedBatch>,
}

impl<'p, H, C> BatchCall<'p, H, C> {
    pub(crate) fn new(
        maker: &'p C,
        way: &'p dyn Transmit,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> Self {
        Self {
            way,
            maker,
            built: Some(BatchBuilder::build(build)),
            timeout: way.call_timeout(),
            begun: None,
            intercepted: None,
        }
    }
}

impl<'p, H, C> BatchCall<'p, H, C> {
    /// Sets no timeout: the batch waits for ever.
    pub fn no_timeout(self) -> Self {
        self.timeout(None)
    }

    /// Returns the batch, for a maker that sends it in another way.
    pub(crate) fn into_parts(self) -> BatchParts<'p, H, C> {
        let built = self.built.unwrap_or(Err(SendError::NotOpen));
        (self.maker, built, self.timeout)
    }

    /// Sets the time for all answers; `None` for ever. The default is the configuration's
    /// [`call_timeout`](crate::ConnectionConfig::call_timeout).
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

impl<H, C> BatchCall<'_, H, C> {
    /// Blocks this thread until all outcomes are there.
    ///
    /// # Errors
    /// The batch was not sent, or its exchange over HTTP failed. Otherwise the [`Collector`] has how each
    /// of its calls ended.
    pub fn wait(self) -> Result<(H, Collector), CallError> {
        block_on(self)
    }
}

/// Sends the entries of a batch that interceptors have not answered.
fn send(
    way: &dyn Transmit,
    batch: Entries,
    timeout: Option<Duration>,
) -> Sending<'_, PendingBatch, Collector> {
    match batch.is_empty() {
        true => Sending::over(Ok(Collector::new())),
        false => way.send_batch(batch, timeout),
    }
}

/// None of its fields has to be pinned.
impl<H, C> Unpin for BatchCall<'_, H, C> {}

impl<H, C> Future for BatchCall<'_, H, C> {
    type Output = Result<(H, Collector), CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(built) = this.built.take() {
            let (handles, mut batch) = built?;
            let (way, timeout) = (this.way, this.timeout);
            let begun = match way.interception().map(|seen| seen.batch(&batch)) {
                None => way.send_batch(batch, timeout),
                Some(mut shown) if shown.is_waiting() => Sending::Other(Box::pin(async move {
                    let left = shown.decide(timeout).await;
                    let intercepted = shown.finish(&mut batch)?;
                    intercepted.end(send(way, batch, left).end().await)
                })),
                Some(shown) => {
                    this.intercepted = Some(shown.finish(&mut batch)?);
                    send(way, batch, timeout)
                }
            };
            this.begun = Some((handles, begun));
        }
        let Some((_, begun)) = &mut this.begun else {
            return Poll::Pending;
        };
        let mut outcomes = task::ready!(begun.poll(cx));
        if let Some(intercepted) = this.intercepted.take() {
            outcomes = intercepted.end(outcomes);
        }
        let handles = this.begun.take().map(|(handles, _)| handles);
        match (outcomes, handles) {
            (Ok(outcomes), Some(handles)) => Poll::Ready(Ok((handles, outcomes))),
            (Err(error), _) => Poll::Ready(Err(error)),
            (_, None) => Poll::Pending,
        }
    }
}

debug_fields!(impl[H, C] BatchCall<'_, H, C> as "BatchCall" {});
