//! Progress of a request, which is reported before its answer: sent by handlers, received by
//! callers.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use antiphon::session::{Extend, Report, RequestDetails};
use antiphon::{
    DecodeError, FromCall, Json, OwnedError, OwnedJson, OwnedOutcome, RequestKey, RpcError,
    SendError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{Call, MakeCall};
use crate::call_error::CallError;
use crate::call_request::CallRequest;
use crate::guard::contained;
use crate::peer::Peer;
use crate::pending::{PendingCall, due, send};
use crate::request::Request;
use crate::session::{State, Tag};
use crate::slot::{Told, call_slot};
use crate::wait::Wait;

/// Reports the progress of a request to the peer, if the request asks for it: with `$/progress` in
/// the dialect of LSP, with `notifications/progress` in that of MCP. `T` is the type of the
/// reported values: in MCP an object with `progress` and perhaps `total` and `message`.
///
/// It is an argument of a handler. If the request has no progress token, or the dialect has no
/// progress, [`send`](Self::send) does nothing. The member of the params with the token is not a
/// parameter of the method; only a handler that takes all params as one argument sees it.
///
/// ```
/// use antiphon::OwnedError;
/// use antiphon_net::{Progress, Router};
///
/// #[derive(serde::Serialize)]
/// struct Step { progress: u32, total: u32 }
///
/// let router = Router::new().method("count", ["to"], async |to: u32, done: Progress<Step>| {
///     for progress in 0..to {
///         // A peer that does not read misses a step.
///         let _ = done.send(&Step { progress, total: to });
///     }
///     Ok::<_, OwnedError>(to)
/// });
/// # let _: Router = router;
/// ```
pub struct Progress<T> {
    peer: Peer,
    token: Option<OwnedJson>,
    /// The request, after whose answer nothing is sent; `None` if the token is of no request.
    request: Option<RequestKey>,
    told: PhantomData<fn(&T)>,
}

impl<T: Serialize> Progress<T> {
    /// Makes one that reports under a token that was agreed on before. With `None` it reports nothing.
    pub fn new(peer: Peer, token: Option<OwnedJson>) -> Self {
        let (peer, told) = (peer.to_unowned(), PhantomData);
        let request = None;
        Self {
            peer,
            token,
            request,
            told,
        }
    }

    /// Reports progress, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no space now; [`SendError::NotOpen`] if the request has been
    /// answered, or was cancelled and needs no answer; otherwise the value has no JSON form, or the
    /// connection has ended.
    pub fn send(&self, value: &T) -> Result<(), SendError> {
        let style = self.peer.session().dialect().progress;
        let (Some(token), Some(method)) = (&self.token, style.method()) else {
            return Ok(());
        };
        let params = style.params(token.as_json(), value);
        let params = params.map_err(SendError::Encode)?;
        self.peer
            .try_notify_about(self.request, method, params.as_json())
    }
}

impl<T: Serialize> Progress<T> {
    /// Reports progress in a destructor: a panic of an interceptor is reported to the service.
    #[doc(hidden)]
    pub fn send_at_drop(&self, value: &T) {
        contained(Some(&**self.peer.session()), || {
            // If the peer does not read, the value is dropped.
            let _ = self.send(value);
        });
    }
}

impl<T> Progress<T> {
    /// The token as the peer wrote it, if it asks for progress.
    pub fn token(&self) -> Option<Json<'_>> {
        self.token.as_ref().map(OwnedJson::as_json)
    }
}

impl<S, T: Serialize> FromCall<Request, S> for Progress<T> {
    fn from_call(request: &Request, _: &S) -> Result<Self, OwnedError> {
        let params = request.raw_params();
        let token = params.and_then(|params| request.progress_style().token(params));
        let progress = Self::new(request.peer(), token.map(Json::to_owned_json));
        let is_answered = !request.is_notification();
        Ok(Self {
            request: is_answered.then(|| request.key()),
            ..progress
        })
    }
}

/// Several tasks may report the progress of one request.
impl<T> Clone for Progress<T> {
    fn clone(&self) -> Self {
        Self {
            peer: self.peer.clone(),
            token: self.token.clone(),
            request: self.request,
            told: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Progress<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress")
            .field("is_wanted", &self.token.is_some())
            .finish_non_exhaustive()
    }
}

/// The caller's function for each progress value.
type Hear<'p> = Box<dyn FnMut(OwnedJson) -> Result<(), DecodeError> + Send + 'p>;

impl<'p, R, E> Call<'p, R, Peer, E> {
    /// Asks for the progress of the call, and calls `hear` with each value that the peer reports
    /// before its answer. The dialect must have progress, as those of LSP and MCP do, and the
    /// params must be an object or absent. If a value does not have type `T`, a report is made and
    /// the value is ignored. If more than 64 values wait for `hear`, the oldest are dropped.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_net::Peer) -> Result<(), antiphon_net::CallError> {
    /// use std::time::Duration;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Step { progress: f64, total: Option<f64> }
    ///
    /// let call = peer.call("tools/call", ()).timeout(Duration::from_secs(10));
    /// let mut last = 0.0;
    /// let call = call.progress(|step: Step| last = step.progress);
    /// // 10 s from one step to the next, and an hour in all.
    /// let result: String = call.extend_deadline(Duration::from_secs(3600)).await?;
    /// # let _ = result;
    /// # Ok(()) }
    /// ```
    pub fn progress<T: DeserializeOwned>(
        self,
        mut hear: impl FnMut(T) + Send + 'p,
    ) -> ProgressCall<'p, R, E> {
        ProgressCall {
            call: self,
            hear: Box::new(move |value| value.as_json().decode().map(&mut hear)),
            at_most: None,
        }
    }
}

/// A call with progress: await it in a task, or [`wait`](Self::wait) for it on a thread. Made by
/// [`Call::progress`].
#[must_use = "nothing is sent before it is awaited or waited for"]
pub struct ProgressCall<'p, R, E = OwnedError> {
    call: Call<'p, R, Peer, E>,
    hear: Hear<'p>,
    at_most: Option<Duration>,
}

impl<'p, R, E> ProgressCall<'p, R, E> {
    /// Begins the call's timeout anew with each progress value that the peer reports. The call takes no
    /// longer than `at_most` in all, even if its timeout is longer.
    pub fn extend_deadline(mut self, at_most: Duration) -> Self {
        self.at_most = Some(at_most);
        self
    }
}

impl<'p, R: 'p, E: RpcError + 'p> ProgressCall<'p, R, E> {
    /// Blocks this thread until the call ends, and calls the function for progress on it.
    ///
    /// # Errors
    /// How the call ended without a result: see [`CallError`].
    pub fn wait(self) -> Result<R, CallError<E>> {
        self.into_future().wait()
    }

    async fn run(self) -> Result<R, CallError<E>> {
        let (decode, hear, at_most) = (self.call.decode, self.hear, self.at_most);
        let (peer, request) = self.call.into_parts();
        match intercepted(peer, request, hear, at_most).await {
            Ok(outcome) => decode(outcome),
            Err(error) => Err(CallError::of_untyped(error)),
        }
    }
}

impl<'p, R: 'p, E: RpcError + 'p> IntoFuture for ProgressCall<'p, R, E> {
    type Output = Result<R, CallError<E>>;
    type IntoFuture = Wait<'p, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Wait::on(self.run())
    }
}

/// Shows a call to the interceptors, if there are any, and makes it unless they have answered it.
async fn intercepted(
    peer: &Peer,
    request: Option<CallRequest<'_>>,
    hear: Hear<'_>,
    at_most: Option<Duration>,
) -> Result<OwnedOutcome, CallError> {
    let mut request = request.ok_or(SendError::NotOpen)?;
    let Some(seen) = peer.interception() else {
        return Ok(outcome(peer, request, hear, at_most).await?);
    };
    let shown = seen.call(&mut request);
    let intercepted = match shown.decided(&mut request).await {
        Ok(intercepted) => intercepted,
        Err(answered) => return answered,
    };
    let ended = outcome(peer, request, hear, at_most).await;
    intercepted.end(ended.map_err(CallError::from))
}

/// Makes a call, and calls `hear` with each progress value until the call ends.
async fn outcome(
    peer: &Peer,
    request: CallRequest<'_>,
    mut hear: Hear<'_>,
    at_most: Option<Duration>,
) -> Result<OwnedOutcome, SendError> {
    let told = Arc::<Told>::default();
    let mut pending = start(peer, request, &told, at_most).await?;
    let ended = poll_fn(|cx| {
        told.register(cx.waker());
        // The end is polled first: the progress that the peer reported before it is in `told` by then.
        let ended = Pin::new(&mut pending).poll(cx);
        while let Some(value) = told.take() {
            if let Err(error) = hear(value) {
                let style = peer.session().dialect().progress;
                let about = RequestDetails::of_notification(style.method().unwrap_or_default());
                peer.session().report(Report::InvalidParams(about, error));
            }
        }
        ended
    });
    Ok(ended.await)
}

/// Sends a call, with a token in its params, and has progress under this token put into `told`.
async fn start(
    peer: &Peer,
    request: CallRequest<'_>,
    told: &Arc<Told>,
    at_most: Option<Duration>,
) -> Result<PendingCall, SendError> {
    let session = peer.session();
    let (token, style) = (session.progress_token(), session.dialect().progress);
    let params = style.ask(request.params?.all(), &token);
    let params = params.map_err(SendError::Encode)?;
    let first = request.timeout.into_iter().chain(at_most).min();
    let (deadline, slot) = (peer.deadline(first), call_slot());
    let extend = request
        .timeout
        .zip(at_most)
        .map(|(timeout, at_most)| Extend {
            timeout,
            until: peer.deadline(Some(at_most)),
        });
    let sending = |state: &mut State| {
        let tag = Tag::Once(Arc::clone(&slot));
        let (conn, params) = (&mut state.conn, params.as_json());
        let sent = send(
            conn,
            (&request.method, &request.id),
            params,
            due(deadline),
            tag,
        );
        let call = sent.map_err(|rejected| rejected.error)?;
        conn.watch_progress(call, &*token, extend);
        state.progress.push((call, Arc::clone(told)));
        Ok(PendingCall::new(
            Arc::clone(session),
            call,
            Arc::clone(&slot),
        ))
    };
    peer.in_turn(deadline, sending).await
}

impl<R, E> fmt::Debug for ProgressCall<'_, R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressCall").field(&self.call).finish()
    }
}
