//! WebSocket clients. A server is a [`TcpServer`](crate::TcpServer) with
//! [`ConnectionConfig::with_websocket`].
//!
//! ```
//! use antiphon::{Config, OwnedError};
//! use antiphon_blocking::websocket::{WebSocketConfig, connect};
//! use antiphon_blocking::{Answer, ConnectionConfig, Peer, Request, Service, TcpServer};
//!
//! struct Who;
//!
//! impl Service for Who {
//!     fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
//!         match request.method() {
//!             "who" => Ok(peer.context().cookie("name").into()),
//!             _ => Err(request.unknown_method()),
//!         }
//!     }
//! }
//!
//! // The server's side of the WebSocket: it accepts handshakes at this path only.
//! let mut route = WebSocketConfig::server();
//! route.rules.paths.push("/rpc".into());
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let url = format!("ws://{}/rpc", server.local_addr()?);
//! let running = server.start(ConnectionConfig::from(Config::new()).with_websocket(route), |_| Who)?;
//!
//! // The client's side: a URL, and one more header for the handshake's request.
//! let there = WebSocketConfig::client(&url)?.with_header("cookie", "name=Ada")?;
//! let peer = connect(there, Config::new(), ())?;
//! let name: String = peer.call("who", ()).wait()?;
//! assert_eq!(name, "Ada");
//! # running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;

pub use antiphon_net::websocket::{WebSocketConfig, WebSocketEnd, WebSocketUrl};
use antiphon_net::{ConnectionConfig, Peer};
use async_io::block_on;

use crate::driver::connect as connect_link;
use crate::link::Link;
use crate::runtime::clock;
use crate::serve::Service;

/// Connects to the WebSocket at the URL of `websocket`, and runs the connection in the background.
/// Returns after the handshake.
///
/// # Errors
/// No address answered; the handshake was refused, and then the error's text has the HTTP status
/// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), or took too long; the URL has the
/// scheme `wss`, which needs a link over TLS ([`Unsupported`](io::ErrorKind::Unsupported)).
pub fn connect(
    websocket: WebSocketConfig,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.plain_url()?;
    let link = Link::tcp((url.host(), url.port()))?;
    open(link, websocket, options, service)
}

/// Connects over TLS to the WebSocket at a URL with the scheme `wss`, and runs the connection in
/// the background. The certificate must be for the URL's host.
///
/// # Errors
/// As [`connect`]; a [`TlsError`](crate::tls::TlsError); the URL has the scheme `ws`
/// ([`Unsupported`](io::ErrorKind::Unsupported)).
#[cfg(feature = "tls")]
pub fn connect_tls(
    websocket: WebSocketConfig,
    config: std::sync::Arc<crate::tls::rustls::ClientConfig>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.tls_url()?;
    let link = crate::tls::connect((url.host(), url.port()), url.host(), config)?;
    open(link, websocket, options, service)
}

/// Opens a WebSocket over an existing link, such as one over TLS, and runs the connection in the
/// background. Returns after the handshake.
///
/// # Errors
/// The handshake was refused or took too long; TLS has agreed on another protocol than HTTP/1.1
/// ([`InvalidInput`](io::ErrorKind::InvalidInput)).
pub fn open(
    link: impl Into<Link>,
    websocket: WebSocketConfig,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let options = options.into().with_websocket(websocket);
    let options = block_on(options.with_token(&*clock()))?;
    let peer = connect_link(link, options, service)?;
    // The handshake has a deadline of its own.
    peer.opened().wait()?;
    Ok(peer)
}
