//! Clients over HTTP: calls, notifications and batches, each in one request. Everything that waits
//! has a deadline, unless its timeout is `None`. A sender passed to `with_send` is never closed by
//! the client.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use antiphon::RpcError;
use antiphon::service::Chain;
use antiphon::{
    Collector, Config, Method, OwnedId, OwnedOutcome, Payload, Retries, Retry, SendError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::caller::{HttpCaller, HttpClientConfig, Started};
use super::connections::Connections;
use super::error::HttpError;
use super::io::after;
use super::send::HttpSend;
use super::url::{HttpScheme, HttpUrl};
use crate::batch::{BatchBuilder, Entries};
use crate::call::{BatchCall, Begun, Call, MakeCall};
use crate::call_error::CallError;
use crate::call_request::CallRequest;
use crate::client::{Connect, wait_to_resend};
use crate::entropy::Entropy;
use crate::fault::is_permanent;
use crate::intercepted::Interception;
use crate::lock::Lock;
use crate::outgoing::OutgoingCall;
use crate::pending::{PendingBatch, PendingCall};
use crate::runtime::{SharedRuntime, until};
use crate::text::Text;
use crate::transport::link::Connecting;
use crate::wait::Wait;

/// A client of one server over HTTP. Clones are the same client, and can be used in any task.
///
/// Every call is a request of its own, so the server cannot send messages of its own; a batch is
/// one request. A call that is not answered in the reply is never answered: [`CallError::Missing`].
#[derive(Clone)]
pub struct HttpClient {
    inner: Arc<Inner>,
}

struct Inner {
    caller: HttpCaller,
    interceptors: Option<Chain<OutgoingCall>>,
    retry: Option<(Retry, Entropy)>,
    call_timeout: Option<Duration>,
    /// `None` after the client was closed.
    send: Lock<Option<Arc<dyn HttpSend>>>,
    runtime: SharedRuntime,
}

impl HttpClient {
    /// Makes a client with connections of its own to the server at `url`. `connect` makes them when
    /// they are first needed.
    ///
    /// # Errors
    /// [`HttpError::Url`] or [`HttpError::Header`] for a URL or a header that is not valid.
    pub fn new(
        url: &str,
        options: impl Into<HttpClientConfig>,
        connect: impl Connect,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        let options = options.into();
        let url: HttpUrl = url.parse()?;
        let send = Connections::new(&options, connect, Arc::clone(&runtime))?;
        Ok(Self::from_parts(url, &options, send, runtime))
    }

    /// Makes a client as [`new`](Self::new) does, but refuses a `url` whose scheme is not `scheme`,
    /// and passes the parsed URL to `connect`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`HttpError::Url`] for another scheme.
    pub fn dial(
        url: &str,
        options: impl Into<HttpClientConfig>,
        scheme: HttpScheme,
        connect: impl Fn(&HttpUrl) -> Connecting + Send + Sync + 'static,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        let server: HttpUrl = url.parse()?;
        if server.scheme() != scheme {
            return Err(HttpError::Url(match scheme {
                HttpScheme::Http => {
                    "its scheme is https, and `connect` has no TLS: use `connect_tls`"
                }
                HttpScheme::Https => "its scheme is http, and `connect_tls` has TLS: use `connect`",
            }));
        }
        Self::new(url, options, move || connect(&server), runtime)
    }

    /// Makes a client that sends its requests with `send`, and not over connections of its own.
    ///
    /// # Errors
    /// [`HttpError::Url`] for a URL that is not valid.
    pub fn with_send(
        url: &str,
        options: impl Into<HttpClientConfig>,
        send: impl HttpSend,
        runtime: SharedRuntime,
    ) -> Result<Self, HttpError> {
        Ok(Self::from_parts(
            url.parse()?,
            &options.into(),
            send,
            runtime,
        ))
    }

    fn from_parts(
        url: HttpUrl,
        options: &HttpClientConfig,
        send: impl HttpSend,
        runtime: SharedRuntime,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                caller: HttpCaller::new(url, options),
                interceptors: options.interceptors.clone(),
                call_timeout: options.call_timeout,
                retry: options.retry.clone().map(|retry| {
                    let entropy = Entropy::new(retry.seed);
                    (retry, entropy)
                }),
                send: Lock::new(Some(Arc::new(send))),
                runtime,
            }),
        }
    }

    /// Calls a method: one request, and its reply. A call of which a byte was sent is
    /// [lost](HttpError::Lost) when its connection ends, and is sent again only if the caller has said
    /// that it is [idempotent](Call::idempotent) and the client's [`retry`](HttpClientConfig::retry)
    /// allows it, or if the server's answer has one of the codes of `retry`. It is also sent again after
    /// a redirect (307 or 308, to the same origin), a few times at most. The call waits for the last byte of the reply, as
    /// long as its [`timeout`](Call::timeout) allows; without one, as the client's
    /// [`call_timeout`](HttpClientConfig::call_timeout) does.
    ///
    /// Dropping it cancels the call: no more of the request is sent, and its connection is closed. (A
    /// sender passed to [`with_send`](Self::with_send) cancels in its own way.) The server sees only
    /// the end of the connection, and may still run the call.
    ///
    /// `params` is any payload: a reference to a value, JSON text, or `()` for no params.
    pub fn call<'c, R: DeserializeOwned>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Call<'c, R, Self> {
        Call::new(self, method, Text::of(params), CallError::read)
    }

    /// Calls a method that is described by a type, as [`Peer::send`](crate::Peer::send).
    pub fn send<M>(&self, params: &M::Params) -> Call<'_, M::Result, Self, M::Error>
    where
        M: Method<Params: Serialize, Result: DeserializeOwned, Error: RpcError>,
    {
        Call::new(self, M::NAME, Text::of(params), CallError::read)
    }

    /// Sends a notification, and waits for the server to accept it, for the
    /// [`call_timeout`](HttpClientConfig::call_timeout) at most.
    ///
    /// # Errors
    /// Why it was not sent, or not accepted.
    pub fn notify<'c>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Wait<'c, Result<(), CallError>> {
        self.notify_owned(Cow::Borrowed(method), Text::of(params))
    }

    /// The configuration of its exchanges.
    pub(crate) fn config(&self) -> &Config {
        self.inner.caller.config()
    }

    pub(crate) fn notify_owned<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), CallError>> {
        let mut call = CallRequest::new(method, params, self.call_timeout());
        Wait::on(async move {
            let Some(interception) = self.interception() else {
                return self.tell_once(call).await;
            };
            let shown = interception.notification(&mut call);
            match shown.decided(&mut call).await {
                Ok(intercepted) => {
                    let told = self.tell_once(call).await;
                    intercepted.end_notification(told.is_ok());
                    told
                }
                Err(Err(error)) => Err(error),
                // An interceptor has answered in place of the server, so nothing is sent; and a
                // notification has no use for an outcome.
                Err(Ok(_)) => Ok(()),
            }
        })
    }

    async fn tell_once(&self, call: CallRequest<'_>) -> Result<(), CallError> {
        let (params, caller) = (call.params?, &self.inner.caller);
        let mut started = caller.notify(&call.method, params.all())?;
        started.add_headers(&call.headers);
        self.exchange(started, call.timeout).await?;
        Ok(())
    }

    /// Sends several calls and notifications as one message. `build` returns the handles by which
    /// the outcomes are fetched.
    ///
    /// ```no_run
    /// # async fn example(client: antiphon_net::http::HttpClient) -> Result<(), antiphon_net::CallError> {
    /// let ((sum, name), mut outcomes) = client.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// }).await?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> BatchCall<'_, H, Self> {
        BatchCall::new(self, build)
    }

    /// Closes the client: later calls end as [`HttpError::Closed`]. Running calls finish, then the
    /// client's own connections close. A sender passed to [`with_send`](Self::with_send) is not
    /// closed, only dropped.
    pub fn close(&self) {
        let send = self.inner.send.lock().take();
        drop(send);
    }

    /// Whether the client has been closed.
    pub fn is_closed(&self) -> bool {
        self.inner.send.lock().is_none()
    }

    fn sender(&self) -> Result<Arc<dyn HttpSend>, HttpError> {
        self.inner.send.lock().clone().ok_or(HttpError::Closed)
    }

    /// Makes a call, and sends it again as the client's [`retry`](HttpClientConfig::retry) says, all
    /// within the call's timeout.
    async fn call_again(&self, call: CallRequest<'_>) -> Result<OwnedOutcome, CallError> {
        let params = call.params?;
        let id = call.id.as_ref();
        let once = |left| self.call_once(id, &call.method, &params, &call.headers, left);
        let Some((retry, entropy)) = &self.inner.retry else {
            return once(call.timeout).await;
        };
        let (runtime, mut retries) = (&*self.inner.runtime, Retries::new(retry));
        let deadline = after(runtime.now(), call.timeout);
        let mut lost = None;
        loop {
            let left = deadline.saturating_since(runtime.now());
            let ended = once(call.timeout.map(|_| left)).await;
            let delay = judge(&mut retries, &ended, call.is_idempotent, entropy);
            let is_unsent = matches!(&ended, Err(CallError::Http(error)) if error.is_unsent());
            if !wait_to_resend(runtime, delay, deadline).await {
                return match lost {
                    // The server may have read the request of an earlier attempt.
                    Some(lost) if is_unsent => Err(lost),
                    _ => ended,
                };
            }
            if !is_unsent {
                lost = ended.err().or(lost);
            }
        }
    }

    async fn call_once(
        &self,
        id: Option<&OwnedId>,
        method: &str,
        params: &Text,
        headers: &[(String, String)],
        timeout: Option<Duration>,
    ) -> Result<OwnedOutcome, CallError> {
        let (id, mut started) = self.inner.caller.call(id, method, params.all())?;
        started.add_headers(headers);
        let mut outcomes = self.exchange(started, timeout).await?;
        // The request had only this call. Without an outcome the reply has not answered it.
        outcomes.take(id).ok_or(CallError::Missing)
    }

    /// Sends a request, follows redirects, and returns the outcomes in the reply.
    async fn exchange(
        &self,
        mut started: Started,
        timeout: Option<Duration>,
    ) -> Result<Collector, HttpError> {
        let send = self.sender()?;
        let runtime = &*self.inner.runtime;
        let due = after(runtime.now(), timeout);
        let exchanged = async {
            loop {
                let left = due.saturating_since(runtime.now());
                started.request.timeout = timeout.map(|_| left);
                let response = send.send(&started.request).await?;
                // `None` is a redirect: `started.request` now has the new URL, and is sent again.
                if let Some(outcomes) = started.receive(&response)? {
                    return Ok(outcomes);
                }
            }
        };
        match until(runtime, due, exchanged).await {
            Some(exchanged) => exchanged,
            None if started.is_unsent() => {
                let why = "there was no connection in time";
                let error = io::Error::new(io::ErrorKind::TimedOut, why);
                Err(HttpError::Unsent(error))
            }
            None => Err(HttpError::TimedOut),
        }
    }
}

/// Returns after how long a call that ended in this way is sent again; `None` for never.
fn judge(
    retries: &mut Retries<'_>,
    ended: &Result<OwnedOutcome, CallError>,
    is_idempotent: bool,
    entropy: &Entropy,
) -> Option<Duration> {
    let lost = OwnedOutcome::Aborted;
    let random = entropy.next();
    match ended {
        Ok(outcome) => retries.judge(outcome, is_idempotent, random),
        // The request was not sent, so it may be sent again even if it is not idempotent: hence
        // `true`. A `ReconnectingClient` sends a call that ended as `Unsent` again without a delay
        // and without counting it as one of `Retry::max_resends`, because it waits for the next
        // connection first. Here nothing else limits the attempts; judged as `Aborted`, each is
        // counted, and has its delay.
        Err(CallError::Http(HttpError::Connect(error))) if is_permanent(error) => None,
        Err(CallError::Http(HttpError::Connect(_) | HttpError::Unsent(_))) => retries
            .judge(&lost, true, random)
            .map(|_| retries.next_delay(random)),
        Err(CallError::Http(HttpError::Lost(_))) => retries
            .judge(&lost, is_idempotent, random)
            .map(|_| retries.next_delay(random)),
        Err(_) => None,
    }
}

impl MakeCall for HttpClient {
    fn call_timeout(&self) -> Option<Duration> {
        self.inner.call_timeout
    }

    fn interception(&self) -> Option<Interception<'_>> {
        let (inner, server) = (&*self.inner, self.inner.caller.server());
        Interception::of_client(inner.interceptors.as_ref(), &inner.runtime, Some(server))
    }

    fn begin<'c>(&'c self, call: CallRequest<'c>) -> Begun<'c, PendingCall, OwnedOutcome> {
        Begun::Other(Box::pin(self.call_again(call)))
    }

    fn begin_batch(
        &self,
        mut batch: Entries,
        timeout: Option<Duration>,
    ) -> Begun<'_, PendingBatch, Collector> {
        Begun::Other(Box::pin(async move {
            let mut started = self.inner.caller.batch(&batch)?;
            started.add_headers(&batch.take_headers());
            Ok(self.exchange(started, timeout).await?)
        }))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.caller.fmt(f)
    }
}
