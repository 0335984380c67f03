//! A client of a WebSocket, whatever the runtime. A server needs nothing more than its options.

use std::io;
use std::sync::Arc;

use crate::Options;
pub use antiphon_websocket::{WebSocket, WebSocketEnd, WebSocketOptions, WebSocketUrl};

use crate::driver::drive;
use crate::peer::Peer;
use crate::runtime::SharedRuntime;
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
    websocket: WebSocketOptions,
    options: Options,
    service: impl Service,
    runtime: &SharedRuntime,
) -> io::Result<Peer> {
    let options = options.with_websocket(websocket);
    let (peer, driver) = drive(link, options, Arc::new(service), runtime);
    // How it ends is told to the service, and by the peer's `closed` and `transport_error`.
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer.opened().await?;
    Ok(peer)
}
