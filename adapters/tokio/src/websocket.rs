//! A client of a WebSocket. A server needs nothing more than its options.
//!
//! ```
//! use antiphon::Config;
//! use antiphon_tokio::websocket::{WebSocketOptions, connect};
//! use antiphon_tokio::{Options, Peer, Request, Responder, Service, TcpServer};
//!
//! struct Who;
//!
//! impl Service for Who {
//!     async fn request(&self, peer: &Peer, request: Request, reply: Responder) {
//!         // A connection that has closed in the meantime awaits no answer.
//!         let _ = match request.method() {
//!             "who" => reply.ok(&peer.context().cookie("name")),
//!             other => reply.unknown_method(other),
//!         };
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The server's route: what is let in, and what serves it.
//! let mut route = WebSocketOptions::server();
//! route.rules.paths.push("/rpc".into());
//! let server = TcpServer::bind("127.0.0.1:0").await?;
//! let url = format!("ws://{}/rpc", server.local_addr());
//! let running = server.start(Options::from(Config::new()).with_websocket(route), |_| Who);
//!
//! // The client: a URL, and what else its request is to have.
//! let there = WebSocketOptions::client(&url)?.with_header("cookie", "name=Ada")?;
//! let peer = connect(there, Config::new(), ()).await?;
//! let name: String = peer.call("who", ()).await?;
//! assert_eq!(name, "Ada");
//! running.stop();
//! # Ok(()) }
//! ```

use std::io;

use antiphon_net::Options;
pub use antiphon_net::websocket::{WebSocketEnd, WebSocketOptions, WebSocketUrl};
use antiphon_net::{Peer, Service};

use crate::link::Link;
use crate::runtime::Tokio;

/// Connects to the WebSocket at the URL of `websocket`, and runs the connection in the background.
/// The handshake is done when it returns.
///
/// # Errors
/// No address answered; the handshake was refused, and then the error names the HTTP status
/// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), or took too long; the URL is of
/// scheme `wss`, which needs a link over TLS
/// ([`Unsupported`](io::ErrorKind::Unsupported)).
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn connect(
    websocket: WebSocketOptions,
    options: impl Into<Options>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.plain_url()?;
    let link = Link::tcp((url.host(), url.port())).await?;
    open(link, websocket, options, service).await
}

/// The same by TLS, at a URL of scheme `wss`: the certificate is checked against its host.
///
/// # Errors
/// As [`connect`]; a [`TlsError`](crate::tls::TlsError); the URL is of scheme `ws`
/// ([`Unsupported`](io::ErrorKind::Unsupported)).
///
/// # Panics
/// Outside of a tokio runtime.
#[cfg(feature = "tls")]
pub async fn connect_tls(
    websocket: WebSocketOptions,
    config: std::sync::Arc<crate::tls::rustls::ClientConfig>,
    options: impl Into<Options>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.tls_url()?;
    let link = crate::tls::connect((url.host(), url.port()), url.host(), config).await?;
    open(link, websocket, options, service).await
}

/// The same over a link that leads there already, such as one over TLS.
///
/// # Errors
/// The handshake was refused or took too long.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn open(
    link: impl Into<Link>,
    websocket: WebSocketOptions,
    options: impl Into<Options>,
    service: impl Service,
) -> io::Result<Peer> {
    let (link, options) = (link.into().into(), options.into());
    antiphon_net::websocket::open(link, websocket, options, service, &Tokio::current()).await
}
