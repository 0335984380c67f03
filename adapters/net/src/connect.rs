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
use crate::fault::{cannot_connect, unless_broken};
use crate::inbox::Inbox;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::{current, until};
use crate::service::Service;
use crate::transport::child::{Child, ChildConfig};
use crate::transport::link::Link;
use crate::transport::tcp::Address;

/// How long an attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl Link {
    /// Connects to a TCP server, within 10 s. Small messages are not delayed (`TCP_NODELAY`). TCP
    /// keep-alive is on: after 60 s of silence the system probes the other side, so that the loss
    /// of its power or network is noticed.
    ///
    /// # Errors
    /// The name has no address, or no address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that
    /// took too long. The error's text has the address.
    pub async fn tcp(address: impl Into<Address>) -> io::Result<Self> {
        let (runtime, address) = (current(), address.into());
        let named = address.to_string();
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
        let connected = connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| cannot_connect(named, &error))
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

/// Prepares a connection on the runtime of the calling task. Returns the handle to its other side,
/// and the driver, which must be awaited to run it. `options` may be a
/// [`Config`](antiphon::Config).
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

/// Serves until the connection ends, and returns why it ended.
///
/// At the end of input, the messages before it are handled, and open requests are answered, within
/// the configuration's `drain_timeout`.
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer has reset it, or has
/// closed the pipe for the answers.
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
/// As [`serve`]; a standard output that is closed; and the reason why the connection broke, such as
/// input that cannot be split into messages. Its [`io::Error::get_ref`] is then the
/// [`ConnectionError`](antiphon::ConnectionError).
///
/// # Panics
/// There is no runtime here: see [`current`].
pub async fn serve_stdio(
    options: impl Into<ConnectionConfig>,
    service: impl Service,
) -> io::Result<Closed> {
    unless_broken(serve(Link::stdio()?, options, service).await)
}

/// Runs a connection in the background, and returns the handle to its other side. Use `()` as the
/// service if the peer is not expected to send requests.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn connect(link: Link, options: impl Into<ConnectionConfig>, service: impl Service) -> Peer {
    let (peer, driver) = drive(link, options, service);
    // The driver's result is dropped: the service and the peer's `closed` and `transport_error` tell
    // how the connection ended.
    current().spawn(Box::pin(async { drop(driver.await) }));
    peer
}

/// Runs a connection in the background, whose messages the program receives in a loop of its own,
/// instead of in a [`Service`].
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
    // The handler of a request waits for its turn in the inbox. If several ran, a later one could be
    // first.
    options.max_running_requests = 1;
    (connect(link, options, service), inbox)
}

/// Starts `command` and connects to its standard input and output. `service` answers its requests.
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

/// Makes a client that has connections to one server, and replaces those that are lost, as
/// [`ReconnectConfig::reconnect`] says. `connect` makes a connection; `service` answers the server's requests, on all of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon::Config;
/// use antiphon_net::{ReconnectConfig, Link, reconnect};
/// use std::time::Duration;
///
/// let connect = || -> antiphon_net::Connecting {
///     Box::pin(async { Ok(Link::tcp("127.0.0.1:7777").await?) })
/// };
/// let client = reconnect(connect, ReconnectConfig::default(), Config::new(), ())?;
/// client.wait_open(Duration::from_secs(5)).await?;
/// let sum: f64 = client.call("add", &(1, 2)).idempotent().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The strategy of `client` is not valid.
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
