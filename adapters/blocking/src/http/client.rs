//! Clients over HTTP: calls, notifications and batches, each one request for which the calling
//! thread waits.

use std::fmt;
use std::time::Duration;

use antiphon::{Collector, OwnedJson, Payload, SendError};
use antiphon_net::BatchBuilder;
use antiphon_net::http::{HttpCallError, HttpClientConfig, HttpError};
use antiphon_net::{Executor, Futures, block_on};

use serde::de::DeserializeOwned;

use super::send::{AtOnce, HttpSend};

/// A client of one server over HTTP. Clones are the same client; any thread may use one.
///
/// Every call is a request of its own, so nothing that the server says by itself can arrive; a
/// batch is one request. What is not answered in its reply never will be:
/// [`CallError::Missing`](crate::CallError::Missing).
#[derive(Clone)]
pub struct Client(pub(super) antiphon_net::http::Client);

impl Client {
    /// Makes a client that sends with `send` instead of connections of its own.
    ///
    /// # Errors
    /// [`HttpError::Url`] for a URL that cannot be used.
    pub fn with_send(
        url: &str,
        options: impl Into<HttpClientConfig>,
        send: impl HttpSend,
    ) -> Result<Self, HttpError> {
        // The client starts no task, so an executor that drops every task will do.
        let clock = Futures::on(Executor::Other(drop));
        let client = antiphon_net::http::Client::with_send(url, options, AtOnce(send), clock);
        client.map(Self)
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
        block_on(self.0.call(method, params))
    }

    /// Calls a method with another timeout, from now to the last byte of the reply; `None` waits
    /// for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, HttpCallError> {
        block_on(self.0.call_timeout(method, params, timeout))
    }

    /// Calls a method, and gives the result as the peer wrote it.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_raw(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, HttpCallError> {
        block_on(self.0.call_raw(method, params, timeout))
    }

    /// Tells the server something, and waits at most 30 s until it has taken it.
    ///
    /// # Errors
    /// What was wrong with it, or with the transport.
    pub fn notify(&self, method: &str, params: impl Payload) -> Result<(), HttpCallError> {
        block_on(self.0.notify(method, params))
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched.
    ///
    /// # Errors
    /// [`CallError::Rejected`](crate::CallError::Rejected) if `build` was refused; otherwise what
    /// was wrong with the transport. How each call ended is told by the [`Collector`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        block_on(self.0.batch(build))
    }

    /// Sends a batch with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), HttpCallError> {
        block_on(self.0.batch_timeout(timeout, build))
    }

    /// Lets no further call begin: every one ends as [`HttpError::Closed`]. Those under way come
    /// to their end, then the client's own connections close. What was handed in to send with is
    /// not closed.
    pub fn close(&self) {
        self.0.close();
    }

    /// Whether the client has been closed.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
