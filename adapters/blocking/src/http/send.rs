//! What sends a client's requests: the connections of the engine for tasks, or anything that a
//! program has already.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use antiphon::Instant;
use antiphon_async::http::{Connections, HttpSend as _};
use antiphon_async::{Connecting, SharedRuntime, until};
use antiphon_session::http::{
    HttpClientOptions, HttpError, HttpMock, HttpRequest, HttpResponse, HttpScheme, HttpUrl,
};
use async_io::block_on;

use super::client::Client;
use super::tasks::runtime;

/// A client of the server at `url`, which begins with `http://`. Connections are made when they
/// are first needed.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for what cannot be used; [`HttpError::Connect`] if
/// the system refused a thread. For `https://` use `connect_tls` (feature `tls`).
pub fn connect(url: &str, options: impl Into<HttpClientOptions>) -> Result<Client, HttpError> {
    let why = "https needs something that sends with TLS";
    client(url, options.into(), HttpScheme::Http, why, |server| {
        let address = (server.host().to_string(), server.port());
        Box::pin(async {
            let link = antiphon_async_std::Link::tcp(address).await;
            link.map(Into::into)
        })
    })
}

/// A client of the server at `url`, which begins with `https://`, with TLS as `config` says.
///
/// # Errors
/// As [`connect`].
#[cfg(feature = "tls")]
pub fn connect_tls(
    url: &str,
    options: impl Into<HttpClientOptions>,
    config: Arc<antiphon_session::tls::rustls::ClientConfig>,
) -> Result<Client, HttpError> {
    let (https, why) = (HttpScheme::Https, "http is without TLS");
    client(url, options.into(), https, why, move |server| {
        let (host, port) = (server.host().to_string(), server.port());
        let config = Arc::clone(&config);
        Box::pin(async move {
            let address = (&*host, port);
            let link = antiphon_async_std::tls::connect(address, &host, config).await;
            link.map(Into::into)
        })
    })
}

fn client(
    url: &str,
    options: HttpClientOptions,
    scheme: HttpScheme,
    why: &'static str,
    connect: impl Fn(&HttpUrl) -> Connecting + Send + Sync + 'static,
) -> Result<Client, HttpError> {
    let server: HttpUrl = url.parse()?;
    if server.scheme() != scheme {
        return Err(HttpError::Url(why));
    }
    let runtime = runtime().map_err(HttpError::Connect)?;
    let connect = move || connect(&server);
    let send = OnThread {
        connections: Connections::new(&options, connect, Arc::clone(&runtime))?,
        runtime,
    };
    Client::with_send(url, options, send)
}

/// What sends requests: the connections of [`connect`], or any HTTP client that a program has
/// already. A dozen lines with most of them: post `request.body` to `request.url` with
/// `request.content_type` and `request.headers`, follow no redirect, take any status, and refuse a
/// body of more than `request.reply_bytes_max` bytes.
pub trait HttpSend: Send + Sync + 'static {
    /// Sends one request and reads its reply, within `timeout` from now; none waits for ever.
    ///
    /// # Errors
    /// How the transport failed.
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError>;
}

/// What is shared is not closed with one of its clients.
impl<T: HttpSend + ?Sized> HttpSend for Arc<T> {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        (**self).send(request, timeout)
    }
}

impl HttpSend for HttpMock {
    fn send(&self, request: &HttpRequest, _: Option<Duration>) -> Result<HttpResponse, HttpError> {
        self.exchange(request)
    }
}

/// Sends from the thread that calls; the connections run on their own.
struct OnThread {
    connections: Connections,
    runtime: SharedRuntime,
}

impl HttpSend for OnThread {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        let due = timeout.map_or(Instant::FAR_FUTURE, |span| self.runtime.now() + span);
        let sending = self.connections.send(request);
        let sent = block_on(until(&*self.runtime, due, sending));
        sent.unwrap_or(Err(HttpError::TimedOut))
    }
}

impl fmt::Debug for OnThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connections.fmt(f)
    }
}
