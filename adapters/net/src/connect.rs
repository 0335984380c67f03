//! Connections on the runtime of the calling task.

use std::io;
use std::sync::Arc;

use antiphon::Closed;
use antiphon_shell::{
    Client, ClientConfig, ConnectError, ConnectionConfig, Driver, Inbox, Peer, Service,
    unless_broken,
};

use crate::client::open::{connect_on, reconnect_on};
use crate::client::target::Target;
use crate::link::{Link, drive_on};
use crate::runtime::current;
use crate::transport::child::{Child, ChildConfig};

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

/// Connects to a server, and returns once messages can be exchanged. `target` is a URL, or anything else that
/// is a [`Target`]; `options` may be a [`Config`](antiphon::Config). `service` answers the server's requests;
/// `()` has no methods.
///
/// ```
/// use antiphon::{Config, OwnedError};
/// use antiphon_net::{Router, TcpServer, connect};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let router = Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"));
/// let server = TcpServer::bind("127.0.0.1:0").await?;
/// let url = format!("tcp://{}", server.local_addr());
/// let running = server.start(Config::new(), router.into_make_service());
///
/// let client = connect(url, Config::new(), ()).await?;
/// assert_eq!(client.call::<String>("ping", ()).await?, "pong");
/// running.stop();
/// # Ok(()) }
/// ```
///
/// # Errors
/// See [`ConnectError`]. Over HTTP connections are made for calls, so that their errors are those of calls.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub async fn connect(
    target: impl Into<Target>,
    options: impl Into<ClientConfig>,
    service: impl Service,
) -> Result<Client, ConnectError> {
    let (target, options) = (target.into(), options.into());
    connect_on(target, options, Arc::new(service), &current()).await
}

/// Runs a connection over an open link in the background, and returns the handle to its other side: for
/// programs that need a [`Peer`]. Otherwise [`connect`] does it too.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub fn attach(link: Link, options: impl Into<ConnectionConfig>, service: impl Service) -> Peer {
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
/// use antiphon_net::{InboxEvent, Link, attach, inbox};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (near, far) = Link::pair();
/// let client = attach(near, Config::new(), ());
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
    (attach(link, options, service), inbox)
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
    Child::spawn(command, options, Arc::new(service), &current())
}

/// Makes a client that has connections to one server, and replaces those that are lost, as
/// [`ClientConfig::reconnect`] says. `service` answers the server's requests, on all of them. Over HTTP, where
/// each call has a connection, it makes a client that sends calls again as
/// [`with_retry`](ClientConfig::with_retry) says.
///
/// Returns once the first connection is open. If that takes longer than the
/// [`connect_timeout`](ClientConfig::connect_timeout), the client is returned nevertheless, and goes on trying.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon::Config;
/// use antiphon_net::reconnect;
///
/// let client = reconnect("tcp://127.0.0.1:7777", Config::new(), ()).await?;
/// let sum: f64 = client.call("add", &(1, 2)).idempotent().await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// A [`ConnectError`], if there will be no connection: the target or the options are not valid, or the last
/// attempt that is allowed has failed. A [`Link`] cannot be made again.
///
/// # Panics
/// There is no runtime here: see [`current`].
pub async fn reconnect(
    target: impl Into<Target>,
    options: impl Into<ClientConfig>,
    service: impl Service,
) -> Result<Client, ConnectError> {
    let (target, options, service) = (target.into(), options.into(), Arc::new(service));
    reconnect_on(target, options, move || Arc::clone(&service), &current()).await
}
