//! Makes clients: with connections of their own, which run on one background thread for HTTP, or
//! with a sender of the program.

#[cfg(feature = "tls")]
use std::sync::Arc;

use antiphon_net::Connecting;
use antiphon_net::http::{HttpClient, HttpClientConfig, HttpError, HttpScheme, HttpUrl};

use super::send::{AtOnce, HttpSend};
use crate::runtime::{clock, runtime};

/// Makes a client of the server at `url`, which begins with `http://`. Connections are made when
/// they are first needed.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for a URL or a header that is not valid;
/// [`HttpError::Connect`] if the background thread could not be started. For `https://` use
/// `connect_tls` (feature `tls`).
pub fn connect(url: &str, options: impl Into<HttpClientConfig>) -> Result<HttpClient, HttpError> {
    client(url, options, HttpScheme::Http, |server| {
        let address = (server.host().to_string(), server.port());
        Box::pin(antiphon_net::Link::tcp(address))
    })
}

/// Makes a client of the server at `url`, which begins with `https://`, with TLS configured by
/// `config`.
///
/// # Errors
/// As [`connect`].
#[cfg(feature = "tls")]
pub fn connect_tls(
    url: &str,
    options: impl Into<HttpClientConfig>,
    config: Arc<antiphon_net::tls::rustls::ClientConfig>,
) -> Result<HttpClient, HttpError> {
    client(url, options, HttpScheme::Https, move |server| {
        let (host, port) = (server.host().to_string(), server.port());
        let config = Arc::clone(&config);
        Box::pin(async move {
            let address = (&*host, port);
            antiphon_net::tls::connect(address, &host, config).await
        })
    })
}

/// Makes a client of the server at `url` that sends with `send`, and not over connections of its
/// own.
///
/// # Errors
/// [`HttpError::Url`] for a URL that is not valid.
pub fn with_send(
    url: &str,
    options: impl Into<HttpClientConfig>,
    send: impl HttpSend,
) -> Result<HttpClient, HttpError> {
    // Only its clock and timers are used: nothing is spawned on it.
    HttpClient::with_send(url, options, AtOnce(send), clock())
}

fn client(
    url: &str,
    options: impl Into<HttpClientConfig>,
    scheme: HttpScheme,
    connect: impl Fn(&HttpUrl) -> Connecting + Send + Sync + 'static,
) -> Result<HttpClient, HttpError> {
    let runtime = runtime().map_err(HttpError::Connect)?;
    HttpClient::dial(url, options, scheme, connect, runtime)
}
