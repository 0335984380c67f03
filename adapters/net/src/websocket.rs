//! Clients of a WebSocket, for every runtime. A server needs no function of this module: it sets
//! [`ConnectionConfig::with_websocket`].
//!
//! If the other side breaks the WebSocket protocol or does not close properly, the service gets a
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

/// Opens the WebSocket of `websocket` over an existing link, and runs the connection in the
/// background. Returns after the handshake.
///
/// # Errors
/// The handshake was refused, and then the error's text has the HTTP status
/// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), or took too long; TLS has agreed on another
/// protocol than HTTP/1.1 ([`InvalidInput`](io::ErrorKind::InvalidInput)).
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
    // The driver's result is dropped: the service and the peer's `closed` and `transport_error` tell
    // how the connection ended.
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer.opened().await?;
    Ok(peer)
}

/// Connects to the WebSocket at the URL of `websocket`, and runs the connection in the background.
/// Returns after the handshake.
///
/// # Errors
/// No address answered; the handshake was refused, and then the error's text has the HTTP status
/// ([`ConnectionRefused`](io::ErrorKind::ConnectionRefused)), or took too long; the URL has the
/// scheme `wss`, which needs a link over TLS ([`Unsupported`](io::ErrorKind::Unsupported)).
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

/// Connects over TLS, to a URL with the scheme `wss`; the certificate must be for its host.
///
/// # Errors
/// As [`connect`]; a [`TlsError`](crate::tls::TlsError); the URL has the scheme `ws`
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
