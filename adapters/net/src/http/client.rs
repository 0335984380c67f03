//! Clients over HTTP: calls, notifications and batches, each one request. Everything that waits has
//! a deadline, and what was handed in to send with is used, never closed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::http::{
    HttpCallError, HttpCaller, HttpClientConfig, HttpError, HttpScheme, HttpUrl, Started, result_of,
};
use crate::{BatchBuilder, CallError, DEFAULT_CALL_TIMEOUT};
use antiphon::{Collector, OwnedJson, Payload, SendError};
use serde::de::DeserializeOwned;

use super::connections::Connections;
use super::send::HttpSend;
use crate::client::Connect;
use crate::runtime::{SharedRuntime, until};
use crate::transport::link::Connecting;

/// A client of one server over HTTP. Clones are the same client; any task may use one.
///
/// Every call is a request of its own, so nothing that the server says by itself can arrive; a
/// batch is one request. What is not answered in its reply never will be:
/// [`CallError::Missing`].
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    caller: HttpCaller,
    /// `None` once the client has been closed.
    send: Mutex<Option<Arc<dyn HttpSend>>>,
    runtime: SharedRuntime,
}

impl Client {
    /// A client that keeps connections of its own to the server at `url`, made by `connect` when
    /// they are first needed.
    ///
    /// # Errors
    /// [`HttpError::Url`] or [`HttpError::Header`] for what cannot be used.
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

    /// A client of the server at `url`, which is with or without TLS as `scheme` says, and to which
    /// `connect` connects.
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
                HttpScheme::Http => "https needs something that connects with TLS",
                HttpScheme::Https => "http is without TLS",
            }));
        }
        Self::new(url, options, move || connect(&server), runtime)
    }

    /// Makes a client that sends with `send` instead of connections of its own.
    ///
    /// # Errors
    /// [`HttpError::Url`] for a URL that cannot be used.
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
                send: Mutex::new(Some(Arc::new(send))),
                runtime,
            }),
        }
    }

    /// Calls a method and waits for its result, at most 30 s.
    ///
    /// `params` is anything that antiphon takes as a payload: a reference to a value, JSON text,
    /// or `()` for none. Dropping the future gives the call up.
    ///
    /// # Errors
    /// How the call ended instead.
    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
    ) -> Result<R, HttpCallError> {
        self.call_timeout(method, params, Some(DEFAULT_CALL_TIMEOUT))
            .await
    }

    /// Calls a method with another timeout, from now to the last byte of the reply; `None` waits
    /// for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, HttpCallError> {
        let result = self.call_raw(method, params, timeout).await?;
        Ok(result.as_json().decode().map_err(CallError::Decode)?)
    }

    /// Calls a method, and gives the result as the peer wrote it.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_raw(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, HttpCallError> {
        let send = self.sender()?;
        let (call, started) = self.inner.caller.call(method, params)?;
        let outcomes = self.exchange(send, started, timeout).await?;
        result_of(outcomes, call)
    }

    /// Tells the server something, and waits at most 30 s until it has taken it.
    ///
    /// # Errors
    /// What was wrong with it, or with the transport.
    pub async fn notify(&self, method: &str, params: impl Payload) -> Result<(), HttpCallError> {
        let send = self.sender()?;
        let started = self.inner.caller.notify(method, params)?;
        let timeout = Some(DEFAULT_CALL_TIMEOUT);
        self.exchange(send, started, timeout).await?;
        Ok(())
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched.
    ///
    /// ```no_run
    /// # async fn example(client: antiphon_net::http::Client) -> Result<(), antiphon_net::http::HttpCallError> {
    /// let ((sum, name), mut outcomes) = client.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// }).await?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Rejected`] if `build` was refused; otherwise what was wrong with the
    /// transport. How each call ended is told by the [`Collector`].
    pub async fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        self.batch_timeout(Some(DEFAULT_CALL_TIMEOUT), build).await
    }

    /// Sends a batch with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub async fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        let send = self.sender()?;
        let (handles, started) = self.inner.caller.batch(build)?;
        let outcomes = self.exchange(send, started, timeout).await?;
        Ok((handles, outcomes))
    }

    /// Lets no further call begin: every one ends as [`HttpError::Closed`]. Those under way come
    /// to their end, then the client's own connections close. What was handed in to send with is
    /// not closed.
    pub fn close(&self) {
        let send = self.lock_send().take();
        drop(send);
    }

    /// Whether the client has been closed.
    pub fn is_closed(&self) -> bool {
        self.lock_send().is_none()
    }

    fn lock_send(&self) -> MutexGuard<'_, Option<Arc<dyn HttpSend>>> {
        // Nothing that can panic runs under the lock.
        self.inner
            .send
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn sender(&self) -> Result<Arc<dyn HttpSend>, HttpError> {
        self.lock_send().clone().ok_or(HttpError::Closed)
    }

    async fn exchange(
        &self,
        send: Arc<dyn HttpSend>,
        mut started: Started,
        timeout: Option<Duration>,
    ) -> Result<Collector, HttpError> {
        let runtime = &*self.inner.runtime;
        let due = super::io::after(runtime.now(), timeout);
        let exchanged = async {
            loop {
                let left = due.saturating_since(runtime.now());
                started.request.timeout = timeout.map(|_| left);
                let response = send.send(&started.request).await?;
                if let Some(outcomes) = started.receive(&response)? {
                    return Ok(outcomes);
                }
            }
        };
        let exchanged = until(runtime, due, exchanged).await;
        exchanged.unwrap_or(Err(HttpError::TimedOut))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.caller.fmt(f)
    }
}
