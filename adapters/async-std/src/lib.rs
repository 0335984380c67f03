//! JSON-RPC on smol, on async-std, or on any executor: [`antiphon`] over `futures-io` streams,
//! TCP, Unix sockets, standard streams and child processes.
//!
//! Everything that JSON-RPC prescribes is in antiphon; here are only sockets, processes and
//! timers. A [`Link`] is something to talk over. [`serve`] runs a [`Service`] on it until it ends;
//! [`connect`] does so in the background and gives a [`Peer`] to call the other side with. Both
//! sides of a connection are equal: a client may serve, and a server may call.
//!
//! ```
//! use antiphon::{Config, ErrorObject};
//! use antiphon_async_std::{Link, Peer, Request, Responder, Service, TcpServer, connect};
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
//! # smol::block_on(async {
//! let server = TcpServer::bind("127.0.0.1:0").await?;
//! let address = server.local_addr();
//! let running = server.start(Config::new(), |_| Adder);
//!
//! let peer = connect(Link::tcp(address).await?, Config::new(), ());
//! let sum: f64 = peer.call("add", &(10, 5)).await?;
//! assert_eq!(sum, 15.0);
//! running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```
//!
//! # Tasks
//!
//! A connection is one task: it reads, writes, keeps time and runs the handlers, and none of these
//! waits for another. See [`Service`] for what that means to a handler that blocks or computes.
//!
//! # Executors
//!
//! Sockets and timers are async-io's, the reactor below smol and async-std. Tasks run on smol's
//! global executor unless [`set_executor`] says otherwise. async-std is discontinued upstream
//! (RUSTSEC-2025-0052, which names smol as its successor); with the feature `async-std` programs
//! that are on it can use this crate until they move.
#![forbid(unsafe_code)]

#[cfg(feature = "http")]
pub mod http;
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
    Connect, Connecting, ConnectionChange, Context, Driver, FuturesIo, FuturesPair, Listen,
    Messages, NoConnection, Options, Peer, PendingCall, Pool, Protocol, Queue, QueueTransport,
    Report, Request, Responder, Running, Secure, Server, Service, StrayReport, WhenFull, cancelled,
};
pub use link::Link;
pub use listen::TcpServer;
#[cfg(unix)]
pub use listen::UnixServer;
pub use runtime::{Executor, Futures, set_executor};

/// Prepares a connection: the handle to its other side, and the driver that runs it wherever it is
/// awaited. `link` may be a pair `(reader, writer)`; `options` may be a
/// [`Config`](antiphon::Config).
pub fn drive(
    link: impl Into<Link>,
    options: impl Into<Options>,
    service: impl Service,
) -> (Peer, Driver) {
    let (link, options) = (link.into().into(), options.into());
    antiphon_net::drive(link, options, Arc::new(service), &Futures::current())
}

/// Serves until the connection ends, and says why it ended.
///
/// At the end of input, what came before it is served, the open requests are finished and their
/// answers written, for as long as the configuration's `drain_time_max`.
///
/// # Errors
/// The transport failed before the connection was meant to end: the peer reset it, or closed the
/// pipe that the answers go into.
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
pub async fn serve_stdio(options: impl Into<Options>, service: impl Service) -> Result<Closed> {
    antiphon_net::unless_broken(serve(Link::stdio()?, options, service).await)
}

/// Runs a connection in the background, and gives the handle to its other side. `()` serves where
/// the peer is not expected to ask anything.
pub fn connect(link: impl Into<Link>, options: impl Into<Options>, service: impl Service) -> Peer {
    let (peer, driver) = drive(link, options, service);
    // How it ends is told to the service, and by the peer's `closed` and `transport_error`.
    let run = Box::pin(async { drop(driver.await) });
    Futures::current().spawn(run);
    peer
}

/// Starts `command` and speaks to it over its standard input and output. `service` answers what it
/// asks.
///
/// # Errors
/// The command cannot be started; the error names it.
pub fn spawn(
    command: std::process::Command,
    options: impl Into<ChildOptions>,
    service: impl Service,
) -> Result<Child> {
    Child::spawn(command, options, service, &Futures::current())
}

/// A client that keeps connections to one server, and makes them anew when they are lost.
/// `connect` makes one; `service` answers what the server asks, on all of them.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use antiphon::{Config, ReconnectStrategy};
/// use antiphon_async_std::{ClientOptions, Link, keep};
/// use std::time::Duration;
///
/// let mut client = ClientOptions::default();
/// client.reconnect = ReconnectStrategy::backoff(Duration::from_millis(100), Duration::from_secs(10), u32::MAX);
/// let connect = || -> antiphon_async_std::Connecting {
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
pub fn keep(
    connect: impl Connect,
    client: ClientOptions,
    options: impl Into<Options>,
    service: impl Service,
) -> std::result::Result<Client, antiphon::InvalidStrategy> {
    Client::start(
        connect,
        client,
        options.into(),
        service,
        &Futures::current(),
    )
}
