//! What sends a client's requests: the connections of the engine for tasks, or anything that a
//! program has already.

use std::sync::Arc;
use std::time::Duration;

use antiphon_async::Connecting;
use antiphon_async::http::Sending;
use antiphon_session::http::{
    HttpClientOptions, HttpError, HttpMock, HttpRequest, HttpResponse, HttpScheme, HttpUrl,
};

use super::client::Client;
use super::tasks::runtime;

/// A client of the server at `url`, which begins with `http://`. Connections are made when they
/// are first needed.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for what cannot be used; [`HttpError::Connect`] if
/// the system refused a thread. For `https://` use `connect_tls` (feature `tls`).
pub fn connect(url: &str, options: impl Into<HttpClientOptions>) -> Result<Client, HttpError> {
    client(url, options, HttpScheme::Http, |server| {
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
    client(url, options, HttpScheme::Https, move |server| {
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
    options: impl Into<HttpClientOptions>,
    scheme: HttpScheme,
    connect: impl Fn(&HttpUrl) -> Connecting + Send + Sync + 'static,
) -> Result<Client, HttpError> {
    let runtime = runtime().map_err(HttpError::Connect)?;
    antiphon_async::http::Client::dial(url, options, scheme, connect, runtime).map(Client)
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

/// Sends for the engine, in one go.
pub(super) struct AtOnce<T>(pub(super) T);

impl<T: HttpSend> antiphon_async::http::HttpSend for AtOnce<T> {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> Sending<'a> {
        Box::pin(async move {
            match request.timeout {
                Some(Duration::ZERO) => Err(HttpError::TimedOut),
                timeout => self.0.send(request, timeout),
            }
        })
    }
}
