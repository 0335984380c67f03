//! JSON-RPC on tokio: [`antiphon`] over TCP, Unix sockets, standard streams and child processes.
//!
//! Everything that JSON-RPC prescribes is in antiphon; here are only sockets, processes and
//! timers. A [`Link`] is something to talk over. [`serve`] runs a [`Service`] on it until it ends;
//! [`connect`] does so in the background and gives a [`Peer`] to call the other side with. Both
//! sides of a connection are equal: a client may serve, and a server may call.
//!
//! ```
//! use antiphon::{Config, ErrorObject};
//! use antiphon_tokio::{Link, Peer, Request, Responder, Service, TcpServer, connect};
//!
//! struct Adder;
//!
//! impl Service for Adder {
//!     async fn request(&self, _: &Peer, request: Request, reply: Responder) {
//!         let numbers = request.params().map(|params| params.decode::<(f64, f64)>());
//!         let answered = match (request.method(), numbers) {
//!             ("add", Some(Ok((a, b)))) => reply.ok(&(a + b)),
//!             ("add", _) => reply.err(&ErrorObject::invalid_params()),
//!             (other, _) => reply.unknown_method(other),
//!         };
//!         // A connection that has closed meanwhile takes no answer.
//!         drop(answered);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TcpServer::bind("127.0.0.1:0").await?;
//! let address = server.local_addr();
//! let running = server.start(Config::new(), |_| Adder);
//!
//! let peer = connect(Link::tcp(address).await?, Config::new(), ());
//! let sum: f64 = peer.call("add", &(10, 5)).await?;
//! assert_eq!(sum, 15.0);
//! running.stop();
//! # Ok(()) }
//! ```
//!
//! # Tasks
//!
//! A connection is one task: it reads, writes, keeps time and runs the handlers, and none of these
//! waits for another. See [`Service`] for what that means to a handler that blocks or computes.
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod http;
mod io;
mod link;
mod listen;
mod runtime;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "websocket")]
pub mod websocket;

use std::io::Result;
use std::sync::Arc;

use antiphon::Closed;
pub use antiphon_net::{
    BatchBuilder, CALL_TIMEOUT_DEFAULT, CallError, Child, ChildOptions, Client, ClientOptions,
    Connect, Connecting, ConnectionChange, Context, Driver, Listen, Messages, NoConnection,
    Options, Peer, PendingCall, Pool, Protocol, Report, Request, Responder, Running, Secure,
    Server, Service, StrayReport, WhenFull, cancelled,
};
pub use io::{TokioIo, TokioPair};
pub use link::Link;
pub use listen::TcpServer;
#[cfg(unix)]
pub use listen::UnixServer;
pub use runtime::Tokio;

/// Prepares a connection: the handle to its other side, and the driver that runs it wherever it is
/// awaited. `link` may be a pair `(reader, writer)`; `options` may be a
/// [`Config`](antiphon::Config).
///
/// # Panics
/// Outside of a tokio runtime.
pub fn drive(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> (Peer, Driver) {
    let (link, options) = (link.into().into(), options.into());
    antiphon_net::drive(link, options, Arc::new(service), &Tokio::current())
}

/// Serves until the connection ends, and says why it ended.
///
/// At the end of input, what came before it is served, the open requests are finished and their
/// answers written, for as long as the configuration's `drain_time_max`.
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer reset it, or closed the
/// pipe that the answers go into.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn serve(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> Result<Closed> {
    let (peer, driver) = drive(link, options, service);
    let ended = driver.await;
    drop(peer);
    ended
}

/// Serves on this process's standard input and output: see [`Link::stdio`] and [`serve`].
///
/// # Errors
/// As [`serve`]; a standard output that is closed; and what broke the connection, such as input that
/// can no longer be cut into messages, with the [`ConnectionError`](antiphon::ConnectionError) inside.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn serve_stdio(options: impl Into<Options>, service: impl Service) -> Result<Closed> {
    antiphon_net::unless_broken(serve(Link::stdio()?, options, service).await)
}

/// Runs a connection in the background, and gives the handle to its other side. `()` serves where
/// the peer is not expected to ask anything.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn connect(link: impl Into<Link>, options: impl Into<Options>, service: impl Service) -> Peer {
    let (peer, driver) = drive(link, options, service);
    // How it ends is told to the service, and by the peer's `closed` and `transport_error`.
    tokio::spawn(async { drop(driver.await) });
    peer
}

/// Starts `command` and speaks to it over its standard input and output. `service` answers what it
/// asks.
///
/// # Errors
/// The command cannot be started; the error names it.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn spawn(
    command: std::process::Command,
    options: impl Into<ChildOptions>,
    service: impl Service,
) -> Result<Child> {
    Child::spawn(command, options, service, &Tokio::current())
}

/// A client that keeps connections to one server, and makes them anew when they are lost.
/// `connect` makes one; `service` answers what the server asks, on all of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon::{Config, ReconnectStrategy};
/// use antiphon_tokio::{ClientOptions, Link, keep};
/// use std::time::Duration;
///
/// let mut client = ClientOptions::default();
/// client.reconnect = ReconnectStrategy::backoff(Duration::from_millis(100), Duration::from_secs(10), u32::MAX);
/// let connect = || -> antiphon_tokio::Connecting {
///     Box::pin(async { Ok(Link::tcp("127.0.0.1:7777").await?.into()) })
/// };
/// let client = keep(connect, client, Config::new(), ())?;
/// client.wait_open(Duration::from_secs(5)).await?;
/// let sum: f64 = client.call_idempotent("add", &(1, 2)).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// The strategy of `client` makes no sense.
///
/// # Panics
/// Outside of a tokio runtime.
pub fn keep(
    connect: impl Connect,
    client: ClientOptions,
    options: impl Into<Options>,
    service: impl Service,
) -> std::result::Result<Client, antiphon::InvalidStrategy> {
    Client::start(connect, client, options.into(), service, &Tokio::current())
}
