//! Connections on the runtime of the calling task.

use std::io;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use antiphon::Closed;

use crate::client::roster::ReconnectConfig;
use crate::client::{Connect, ReconnectingClient};
use crate::driver::{Driver, drive as drive_on};
use crate::fault::unless_broken;
use crate::inbox::Inbox;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::{current, until};
use crate::service::Service;
use crate::transport::child::Child;
use crate::transport::link::Link;
use crate::transport::process::ChildConfig;
use crate::transport::tcp::Address;

/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Link {
    /// Connects to a TCP server, within 10 s. Small messages are not delayed (`TCP_NODELAY`). TCP
    /// keep-alive is on: after 60 s of silence the system probes the other side, so that one that
    /// lost its power or network is noticed.
    ///
    /// # Errors
    /// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that took too long.
    pub async fn tcp(address: impl Into<Address>) -> io::Result<Self> {
        let (runtime, address) = (current(), address.into());
        let connecting = async {
            let mut failed = io::ErrorKind::InvalidInput.into();
            for address in address.resolve().await? {
                match runtime.connect_tcp(address).await {
                    Ok(link) => return Ok(link),
                    Err(error) => failed = error,
                }
            }
            Err(failed)
        };
        let until_at = runtime.now() + CONNECT_TIMEOUT;
        let connected = until(&*runtime, until_at, connecting).await;
        connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens at `path`.
    #[cfg(unix)]
    pub async fn unix(path: impl AsRef<Path>) -> io::Result<Self> {
        current().connect_unix(path.as_ref().to_path_buf()).await
    }
}

/// Prepares a connection on the runtime of the calling task: the handle to its other side, and the
/// driver that runs it wherever it is awaited. `options` may be a [`Config`](antiphon::Config).
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn drive(
    link: Link,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> (Peer, Driver) {
    drive_on(
        link,
        Arc::new(options.into()),
        Arc::new(service),
        &current(),
    )
}

/// Serves until the connection ends, and says why it ended.
///
/// At the end of input, what came before it is served, the open requests are finished and their
/// answers written, for as long as the configuration's `drain_timeout`.
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer reset it, or closed the
/// pipe that the answers go into.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub async fn serve(
    link: Link,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    let (peer, driver) = drive(link, options, service);
    let ended = driver.await;
    drop(peer);
    ended
}

/// Serves on this process's standard input and output: see [`Link::stdio`] and [`serve`].
///
/// # Errors
/// As [`serve`]; a standard output that is closed; and what broke the connection, such as input
/// that can no longer be cut into messages, with the [`ConnectionError`](antiphon::ConnectionError)
/// inside.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub async fn serve_stdio(
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    unless_broken(serve(Link::stdio()?, options, service).await)
}

/// Runs a connection in the background, and gives the handle to its other side. `()` serves where
/// the peer is not expected to ask anything.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn connect(link: Link, options: impl Into<ConnectionConfig>, service: impl Service) -> Peer {
    let (peer, driver) = drive(link, options, service);
    // How it ends is told to the service, and by the peer's `closed` and `transport_error`.
    current().spawn(Box::pin(async { drop(driver.await) }));
    peer
}

/// Runs a connection in the background whose messages the program pulls: for a main loop of its
/// own, beside a [`Service`] that is called.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::{InboxEvent, Link, connect, inbox};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = Link::pair();
/// let client = connect(near, Config::new(), ());
/// let (_peer, mut inbox) = inbox(far, Config::new());
/// let call = client.call("ping", ()).start().await?;
/// while let Some(event) = inbox.recv().await {
///     match event {
///         InboxEvent::Request(request) => {
///             request.answer(Ok("pong".into()))?;
///             break;
///         }
///         // A notification, a report or the end.
///         _ => {}
///     }
/// }
/// assert_eq!(call.result::<String>().await?, "pong");
/// # Ok(()) }
/// ```
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn inbox(link: Link, options: impl Into<ConnectionConfig>) -> (Peer, Inbox) {
    let (service, inbox) = Inbox::new();
    let mut options = options.into();
    // One after the other, in order.
    options.max_running_requests = 1;
    (connect(link, options, service), inbox)
}

/// Starts `command` and speaks to it over its standard input and output. `service` answers what it
/// asks.
///
/// # Errors
/// The command cannot be started; the error names it.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn spawn(
    command: std::process::Command,
    options: impl Into<ChildConfig>,
    service: impl Service,
) -> io::Result<Child> {
    Child::spawn(command, options, service, &current())
}

/// A client that keeps connections to one server, and makes them anew when they are lost.
/// `connect` makes one; `service` answers what the server asks, on all of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon::{Config, ReconnectStrategy};
/// use antiphon_net::{ReconnectConfig, Link, reconnect};
/// use std::time::Duration;
///
/// let mut client = ReconnectConfig::default();
/// client.reconnect = ReconnectStrategy::backoff(Duration::from_millis(100), Duration::from_secs(10), u32::MAX);
/// let connect = || -> antiphon_net::Connecting {
///     Box::pin(async { Ok(Link::tcp("127.0.0.1:7777").await?) })
/// };
/// let client = reconnect(connect, client, Config::new(), ())?;
/// client.wait_open(Duration::from_secs(5)).await?;
/// let sum: f64 = client.call("add", &(1, 2)).idempotent().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The strategy of `client` makes no sense.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn reconnect(
    connect: impl Connect,
    client: ReconnectConfig,
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> Result<ReconnectingClient, antiphon::InvalidStrategy> {
    ReconnectingClient::start(connect, client, options.into(), service, &current())
}
