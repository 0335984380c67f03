//! A call or a batch that is being made: what is said about it first, and then its end.
//!
//! Nothing is sent before the call is awaited, waited for or started. One that is dropped is
//! given up.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::RpcError;
use antiphon::{Collector, OwnedError, OwnedJson, OwnedOutcome, SendError};

use crate::batch::{BatchBuilder, Entries};
use crate::call_error::CallError;
use crate::pending::{PendingBatch, PendingCall};
use crate::runtime::threads::block_on;
use crate::session::Session;
use crate::text::Text;
use crate::wait::{Later, Wait};

/// How long a call waits for its answer, and a notification for room, if nothing else is said.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// What a call says.
pub(crate) struct CallRequest<'c> {
    pub(crate) method: Cow<'c, str>,
    pub(crate) params: Result<Text, SendError>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) is_idempotent: bool,
}

/// What calls are made by: a peer, or a client that has peers or sends requests.
pub(crate) trait MakeCall: Sync {
    fn begin<'c>(&'c self, call: CallRequest<'c>) -> Begun<'c, PendingCall, OwnedOutcome>;

    fn begin_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Begun<'_, PendingBatch, Collector>;

    /// The connection, where a thread that waits may read and write for itself.
    fn session(&self) -> Option<&Session> {
        None
    }
}

/// A call or batch under way, in order of its life; or one whose end is all there is to know.
pub(crate) enum Begun<'c, P, O> {
    Starting(Wait<'c, Result<P, SendError>>),
    Pending(P),
    Other(Later<'c, Result<O, CallError>>),
}

impl<P: Future<Output = O> + Unpin, O> Begun<'_, P, O> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, CallError>> {
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

/// A call: awaited by tasks, or [`wait`](Self::wait)ed for on a thread.
///
/// ```no_run
/// # async fn example(peer: antiphon_net::Peer) -> Result<(), antiphon_net::CallError> {
/// use std::time::Duration;
///
/// let sum: f64 = peer.call("add", &(10, 5)).await?;
/// let slow: String = peer.call("slow", ()).timeout(Duration::from_secs(300)).await?;
/// let text = peer.call("any", ()).raw().await?;
/// # Ok(()) }
/// ```
#[must_use = "nothing is sent before it is awaited, waited for or started"]
pub struct Call<'p, R, C, E = OwnedError> {
    maker: &'p C,
    /// `None` once it has begun.
    request: Option<CallRequest<'p>>,
    begun: Option<Begun<'p, PendingCall, OwnedOutcome>>,
    pub(crate) decode: fn(OwnedOutcome) -> Result<R, CallError<E>>,
}

impl<'p, R, C, E> Call<'p, R, C, E> {
    pub(crate) fn new(
        maker: &'p C,
        method: impl Into<Cow<'p, str>>,
        params: Result<Text, SendError>,
        decode: fn(OwnedOutcome) -> Result<R, CallError<E>>,
    ) -> Self {
        let request = CallRequest {
            method: method.into(),
            params,
            timeout: Some(DEFAULT_CALL_TIMEOUT),
            is_idempotent: false,
        };
        Self {
            maker,
            request: Some(request),
            begun: None,
            decode,
        }
    }

    /// Waits for the answer so long, from the beginning of the call on. Default 30 s.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        if let Some(request) = &mut self.request {
            request.timeout = timeout.into();
        }
        self
    }

    /// Waits for ever.
    pub fn no_timeout(self) -> Self {
        self.timeout(None)
    }

    /// Says that the call may be repeated: a client that reconnects sends it again if its
    /// connection ends before the answer. On a single connection this means nothing.
    pub fn idempotent(mut self) -> Self {
        if let Some(request) = &mut self.request {
            request.is_idempotent = true;
        }
        self
    }

    /// Whom it calls by.
    pub(crate) fn maker(&self) -> &'p C {
        self.maker
    }

    /// What is to be sent, for a maker that sends it otherwise.
    pub(crate) fn into_parts(self) -> (&'p C, Option<CallRequest<'p>>) {
        (self.maker, self.request)
    }
}

impl<C> Call<'_, OwnedJson, C> {
    /// Gives the result as the peer wrote it, without decoding it.
    pub fn raw(mut self) -> Self {
        self.decode = CallError::of;
        self
    }
}

#[expect(private_bounds, reason = "there are no other makers of calls")]
impl<R, C: MakeCall, E: RpcError> Call<'_, R, C, E> {
    /// Lets this thread wait for the end of the call.
    ///
    /// # Errors
    /// How the call ended instead: see [`CallError`].
    pub fn wait(self) -> Result<R, CallError<E>> {
        match self.maker.session() {
            Some(session) => session.wait_for(self),
            None => block_on(self),
        }
    }
}

/// Nothing in it is pinned in place.
impl<R, C, E> Unpin for Call<'_, R, C, E> {}

impl<R, C: MakeCall, E: RpcError> Future for Call<'_, R, C, E> {
    type Output = Result<R, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(request) = this.request.take() {
            this.begun = Some(this.maker.begin(request));
        }
        match &mut this.begun {
            Some(begun) => {
                let outcome = ready!(begun.poll(cx));
                this.begun = None;
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

/// Several calls and notifications that are sent as one message: awaited by tasks, or
/// [`wait`](Self::wait)ed for on a thread. Gives the handles that its builder gave, and the
/// outcomes that they fetch.
#[must_use = "nothing is sent before it is awaited, waited for or started"]
pub struct BatchCall<'p, H, C> {
    maker: &'p C,
    /// `None` once it has begun.
    built: Option<Result<(H, Entries), SendError>>,
    timeout: Option<Duration>,
    begun: Option<(H, Begun<'p, PendingBatch, Collector>)>,
}

impl<'p, H, C> BatchCall<'p, H, C> {
    pub(crate) fn new(
        maker: &'p C,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> Self {
        Self {
            maker,
            built: Some(BatchBuilder::build(build)),
            timeout: Some(DEFAULT_CALL_TIMEOUT),
            begun: None,
        }
    }

    /// Waits for ever.
    pub fn no_timeout(self) -> Self {
        self.timeout(None)
    }

    /// What is to be sent, for a maker that sends it otherwise.
    pub(crate) fn into_parts(self) -> BatchParts<'p, H, C> {
        let built = self.built.unwrap_or(Err(SendError::NotOpen));
        (self.maker, built, self.timeout)
    }

    /// Waits for all answers so long. Default 30 s.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }
}

#[expect(private_bounds, reason = "there are no other makers of calls")]
impl<H, C: MakeCall> BatchCall<'_, H, C> {
    /// Lets this thread wait for all outcomes.
    ///
    /// # Errors
    /// The batch was refused. How each of its calls ended is told by the [`Collector`].
    pub fn wait(self) -> Result<(H, Collector), CallError> {
        match self.maker.session() {
            Some(session) => session.wait_for(self),
            None => block_on(self),
        }
    }
}

/// Nothing in it is pinned in place.
impl<H, C> Unpin for BatchCall<'_, H, C> {}

impl<H, C: MakeCall> Future for BatchCall<'_, H, C> {
    type Output = Result<(H, Collector), CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(built) = this.built.take() {
            let (handles, batch) = built?;
            let begun = this.maker.begin_batch(batch, this.timeout);
            this.begun = Some((handles, begun));
        }
        let Some((_, begun)) = &mut this.begun else {
            return Poll::Pending;
        };
        let outcomes = ready!(begun.poll(cx));
        let handles = this.begun.take().map(|(handles, _)| handles);
        match (outcomes, handles) {
            (Ok(outcomes), Some(handles)) => Poll::Ready(Ok((handles, outcomes))),
            (Err(error), _) => Poll::Ready(Err(error)),
            (_, None) => Poll::Pending,
        }
    }
}

impl<H, C> fmt::Debug for BatchCall<'_, H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCall").finish_non_exhaustive()
    }
}
