//! Progress of a request, which is reported before its answer: sent by handlers, received by
//! callers.

use std::fmt;
use std::future::{Future, IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use antiphon::{
    DecodeError, FromCall, Json, OwnedError, OwnedJson, RequestKey, RpcError, SendError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::Call;
use crate::call::call_error::CallError;
use crate::guard::contained;
use crate::peer::Peer;
use crate::serve::request::Request;
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
/// use antiphon_shell::{Progress, Router};
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
        let (Some(token), Some(style)) =
            (&self.token, self.peer.session().dialect().progress.style())
        else {
            return Ok(());
        };
        let params = style.params(token.as_json(), value);
        let params = params.map_err(SendError::Encode)?;
        self.peer
            .try_notify_about(self.request, style.method(), params.as_json())
    }

    /// Reports progress in a destructor: a panic of an interceptor is reported to the service.
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
        let token = params.and_then(|params| request.progress_style()?.token(params));
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

impl<'p, R, C, E> Call<'p, R, C, E> {
    /// Asks for the progress of the call, and calls `hear` with each value that the peer reports
    /// before its answer. The dialect must have progress, as those of LSP and MCP do, and the
    /// params must be an object or absent. If a value does not have type `T`, a report is made and
    /// the value is ignored. If more than 64 values wait for `hear`, the oldest are dropped.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
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
    ) -> ProgressCall<'p, R, C, E> {
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
pub struct ProgressCall<'p, R, C, E = OwnedError> {
    call: Call<'p, R, C, E>,
    hear: Hear<'p>,
    at_most: Option<Duration>,
}

impl<R, C, E> ProgressCall<'_, R, C, E> {
    /// Begins the call's timeout anew with each progress value that the peer reports. The call takes no
    /// longer than `at_most` in all, even if its timeout is longer.
    pub fn extend_deadline(mut self, at_most: Duration) -> Self {
        self.at_most = Some(at_most);
        self
    }
}

impl<'p, R: 'p, C: Sync, E: RpcError + 'p> ProgressCall<'p, R, C, E> {
    /// Blocks this thread until the call ends, and calls the function for progress on it.
    ///
    /// # Errors
    /// How the call ended without a result: see [`CallError`].
    pub fn wait(self) -> Result<R, CallError<E>> {
        self.into_future().wait()
    }

    async fn run(self) -> Result<R, CallError<E>> {
        let (mut call, mut hear) = (self.call, self.hear);
        let progress = call.hear_progress(self.at_most);
        let ended = poll_fn(|cx| {
            // The end is polled first: what the peer reported before it can be taken by then.
            let ended = Pin::new(&mut call).poll(cx);
            for value in progress.take_values(cx.waker()) {
                if let Err(error) = hear(value) {
                    progress.report(error);
                }
            }
            ended
        });
        ended.await
    }
}

impl<'p, R: 'p, C: Sync, E: RpcError + 'p> IntoFuture for ProgressCall<'p, R, C, E> {
    type Output = Result<R, CallError<E>>;
    type IntoFuture = Wait<'p, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Wait::on(self.run())
    }
}

impl<R, C, E> fmt::Debug for ProgressCall<'_, R, C, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressCall").field(&self.call).finish()
    }
}
