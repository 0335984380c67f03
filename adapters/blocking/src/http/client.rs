//! Clients over HTTP: calls, notifications and batches, each one request on the calling thread.
//!
//! The rules guarded here: everything that waits has a deadline; and what was handed in to send
//! with is used, never closed.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use antiphon::{Collector, OwnedJson, Payload, SendError};
use antiphon_session::http::{
    HttpCallError, HttpCaller, HttpClientOptions, HttpError, Started, result_of,
};
use antiphon_session::{BatchBuilder, CALL_TIMEOUT_DEFAULT, CallError};
use serde::de::DeserializeOwned;

use super::send::HttpSend;

/// A client of one server over HTTP. Clones are the same client; any thread may use one.
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
    /// None once the client has been closed.
    send: Mutex<Option<Arc<dyn HttpSend>>>,
}

impl Client {
    /// A client that sends with something else than connections of its own.
    ///
    /// # Errors
    /// [`HttpError::Url`] for a URL that cannot be used.
    pub fn with_send(
        url: &str,
        options: impl Into<HttpClientOptions>,
        send: impl HttpSend,
    ) -> Result<Self, HttpError> {
        Ok(Self {
            inner: Arc::new(Inner {
                caller: HttpCaller::new(url.parse()?, &options.into()),
                send: Mutex::new(Some(Arc::new(send))),
            }),
        })
    }

    /// Calls a method and waits for its result, at most 30 s.
    ///
    /// `params` is anything that antiphon takes as a payload: a reference to a value, JSON text,
    /// or `()` for none.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
    ) -> Result<R, HttpCallError> {
        self.call_timeout(method, params, Some(CALL_TIMEOUT_DEFAULT))
    }

    /// The same with another timeout, from now to the last byte of the reply; `None` waits for
    /// ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, HttpCallError> {
        let result = self.call_raw(method, params, timeout)?;
        Ok(result.as_json().decode().map_err(CallError::Decode)?)
    }

    /// The same with the result as the peer wrote it.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_raw(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, HttpCallError> {
        let (call, started) = self.inner.caller.call(method, params)?;
        result_of(self.exchange(started, timeout)?, call)
    }

    /// Tells the server something, and waits at most 30 s until it has taken it.
    ///
    /// # Errors
    /// What was wrong with it, or with the transport.
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<(), HttpCallError> {
        let started = self.inner.caller.notify(method, params)?;
        self.exchange(started, Some(CALL_TIMEOUT_DEFAULT))?;
        Ok(())
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched.
    ///
    /// # Errors
    /// [`CallError::Rejected`] if `build` was refused; otherwise what was wrong with the
    /// transport. How each call ended is told by the [`Collector`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        self.batch_timeout(Some(CALL_TIMEOUT_DEFAULT), build)
    }

    /// The same with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        let (handles, started) = self.inner.caller.batch(build)?;
        let outcomes = self.exchange(started, timeout)?;
        Ok((handles, outcomes))
    }

    /// Lets no further call begin: every one ends as [`HttpError::Closed`]. Those under way come
    /// to their end, then the client's own connections close. What was handed in to send with is
    /// not closed.
    pub fn close(&self) {
        self.inner.caller.close();
        let send = self.lock_send().take();
        drop(send);
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.inner.caller.is_closed()
    }

    fn lock_send(&self) -> MutexGuard<'_, Option<Arc<dyn HttpSend>>> {
        // Nothing that can panic runs under the lock.
        self.inner
            .send
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn exchange(
        &self,
        mut started: Started,
        timeout: Option<Duration>,
    ) -> Result<Collector, HttpError> {
        let send = self.lock_send().clone().ok_or(HttpError::Closed)?;
        let deadline = timeout.map(|span| Instant::now() + span);
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(HttpError::TimedOut);
            }
            let response = send.send(&started.request, left)?;
            if let Some(outcomes) = started.receive(&response)? {
                return Ok(outcomes);
            }
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.caller.fmt(f)
    }
}
