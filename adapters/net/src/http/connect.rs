//! Clients and endpoints on the runtime of the calling task.

use super::caller::HttpClientConfig;
use super::client::HttpClient;
use super::endpoint::Endpoint;
use super::error::HttpError;
use super::options::HttpConfig;
use super::url::{HttpScheme, HttpUrl};
use crate::runtime::current;
use crate::service::Service;
use crate::transport::link::{Connecting, Link};

/// Makes an endpoint, which serves `service` over HTTP: for
/// [`TcpServer::start_protocol`](crate::TcpServer::start_protocol), or for a route of a web
/// framework.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn endpoint<S: Service>(options: impl Into<HttpConfig>, service: S) -> Endpoint<S> {
    Endpoint::new(options, service, current())
}

/// Makes a client of the server at `url`, which begins with `http://`. Connections are made when
/// they are first needed. Each attempt to connect may take as long as
/// [`connect_timeout`](HttpClientConfig::connect_timeout) says, by default 10 s.
///
/// ```
/// use antiphon::Config;
/// use antiphon::OwnedError;
/// use antiphon_net::{Answer, Peer, Request, Service, TcpServer, http};
///
/// struct Ping;
///
/// impl Service for Ping {
///     async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
///         match request.method() {
///             "ping" => Ok("pong".into()),
///             _ => Err(request.unknown_method()),
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = TcpServer::bind("127.0.0.1:0").await?;
/// let url = format!("http://{}/", server.local_addr());
/// let running = server.start_http(Config::new(), Ping);
///
/// let client = http::connect(&url, Config::new())?;
/// assert_eq!(client.call::<String>("ping", ()).await?, "pong");
/// running.stop();
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for a URL or a header that is not valid. For
/// `https://` use [`HttpClient::new`] with a function that connects with TLS, or `connect_tls`
/// (feature `tls`).
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn connect(url: &str, options: impl Into<HttpClientConfig>) -> Result<HttpClient, HttpError> {
    let connect = |server: &HttpUrl| -> Connecting {
        let address = (server.host().to_string(), server.port());
        Box::pin(async { Link::tcp(address).await })
    };
    HttpClient::dial(url, options, HttpScheme::Http, connect, current())
}

/// Makes a client with TLS, configured by `config`, for a `url` that begins with `https://`.
///
/// # Errors
/// [`HttpError::Url`] or [`HttpError::Header`] for a URL or a header that is not valid.
///
/// # Panics
/// There is no runtime here: see [`current`].
#[cfg(feature = "tls")]
pub fn connect_tls(
    url: &str,
    options: impl Into<HttpClientConfig>,
    config: std::sync::Arc<crate::tls::rustls::ClientConfig>,
) -> Result<HttpClient, HttpError> {
    let connect = move |server: &HttpUrl| -> Connecting {
        let (host, port) = (server.host().to_string(), server.port());
        let config = std::sync::Arc::clone(&config);
        Box::pin(async move { crate::tls::connect((&*host, port), &host, config).await })
    };
    HttpClient::dial(url, options, HttpScheme::Https, connect, current())
}
