//! Clients with connections of their own, which run on the thread of HTTP.

#[cfg(feature = "tls")]
use std::sync::Arc;

use antiphon_net::Connecting;
use antiphon_net::http::{HttpClientConfig, HttpError, HttpScheme, HttpUrl};

use super::client::Client;
use super::tasks::runtime;

/// A client of the server at `url`, which begins with `http://`. Connections are made when they
/// are first needed.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for what cannot be used; [`HttpError::Connect`] if
/// the system refused a thread. For `https://` use `connect_tls` (feature `tls`).
pub fn connect(url: &str, options: impl Into<HttpClientConfig>) -> Result<Client, HttpError> {
    client(url, options, HttpScheme::Http, |server| {
        let address = (server.host().to_string(), server.port());
        Box::pin(antiphon_net::Link::tcp(address))
    })
}

/// A client of the server at `url`, which begins with `https://`, with TLS as `config` says.
///
/// # Errors
/// As [`connect`].
#[cfg(feature = "tls")]
pub fn connect_tls(
    url: &str,
    options: impl Into<HttpClientConfig>,
    config: Arc<antiphon_net::tls::rustls::ClientConfig>,
) -> Result<Client, HttpError> {
    client(url, options, HttpScheme::Https, move |server| {
        let (host, port) = (server.host().to_string(), server.port());
        let config = Arc::clone(&config);
        Box::pin(async move {
            let address = (&*host, port);
            antiphon_net::tls::connect(address, &host, config).await
        })
    })
}

fn client(
    url: &str,
    options: impl Into<HttpClientConfig>,
    scheme: HttpScheme,
    connect: impl Fn(&HttpUrl) -> Connecting + Send + Sync + 'static,
) -> Result<Client, HttpError> {
    let runtime = runtime().map_err(HttpError::Connect)?;
    antiphon_net::http::Client::dial(url, options, scheme, connect, runtime).map(Client)
}
