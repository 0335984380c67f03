//! A client of a WebSocket, whatever the runtime. A server needs nothing more than its options.
//!
//! One that ends otherwise than it should, by the other side's doing, is told of as
//! [`Report::Layer`](crate::Report::Layer), with the [`WebSocketEnd`] as its error.

use std::io;
use std::sync::Arc;

pub use antiphon_websocket::{WebSocket, WebSocketConfig, WebSocketEnd, WebSocketUrl};

use crate::driver::drive;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::SharedRuntime;
#[cfg(any(feature = "tokio", feature = "async-io"))]
use crate::runtime::current;
use crate::service::Service;
use crate::transport::link::Link;

/// Opens the WebSocket that `websocket` asks for over a link that leads there, and runs the
/// connection in the background. The handshake is done when it returns.
///
/// # Errors
/// The handshake was refused, and then the error names the HTTP status
/// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), or took too long.
pub async fn open(
    link: Link,
    websocket: WebSocketConfig,
    options: ConnectionConfig,
    service: impl Service,
    runtime: &SharedRuntime,
) -> io::Result<Peer> {
    let options = options.with_websocket(websocket);
    let options = options.with_token(&**runtime).await?;
    let (peer, driver) = drive(link, options, Arc::new(service), runtime);
    // How it ends is told to the service, and by the peer's `closed` and `transport_error`.
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer.opened().await?;
    Ok(peer)
}

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
/// There is no runtime here: see [`current`].
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub async fn connect(
    websocket: WebSocketConfig,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.plain_url()?;
    let link = Link::tcp((url.host(), url.port())).await?;
    open(link, websocket, options.into(), service, &current()).await
}

/// Connects by TLS, to a URL of scheme `wss`: the certificate is checked against its host.
///
/// # Errors
/// As [`connect`]; a [`TlsError`](crate::tls::TlsError); the URL is of scheme `ws`
/// ([`Unsupported`](io::ErrorKind::Unsupported)).
///
/// # Panics
/// There is no runtime here: see [`current`].
#[cfg(all(feature = "tls", any(feature = "tokio", feature = "async-io")))]
pub async fn connect_tls(
    websocket: WebSocketConfig,
    config: std::sync::Arc<crate::tls::rustls::ClientConfig>,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Peer> {
    let url = websocket.tls_url()?;
    let link = crate::tls::connect((url.host(), url.port()), url.host(), config).await?;
    open(link, websocket, options.into(), service, &current()).await
}
