//! Threads around [`antiphon::Connection`]: JSON-RPC over pipes, sockets and child processes,
//! without an async runtime.
//!
//! Everything that JSON-RPC prescribes is in antiphon; here are only threads, clocks and sockets.
//! A [`Link`] is a pair of byte streams. [`serve`] runs a [`Service`] on it until it ends;
//! [`connect`] does so in the background and gives a [`Peer`] to call the other side with. Both
//! sides of a connection are equal: a client may serve, and a server may call.
//!
//! ```
//! use antiphon_blocking::{Config, ErrorObject, Link, Peer, Request, Responder, Service, TcpServer};
//!
//! struct Adder;
//!
//! impl Service for Adder {
//!     fn request(&mut self, _: &Peer, request: Request, reply: Responder) {
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
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let address = server.local_addr()?;
//! let running = server.start(Config::new(), |_| Adder)?;
//!
//! let peer = antiphon_blocking::connect(Link::tcp(address)?, Config::new(), ())?;
//! let sum: f64 = peer.call("add", &(10, 5))?;
//! assert_eq!(sum, 15.0);
//! running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//!
//! A connection has four: one reads, one writes, one keeps time, one runs the service. Reading
//! never waits for writing or for the service, so two peers that both write more than their pipes
//! hold do not block each other, and an answer settles its call even while the service is busy.
//! The service is called in the order of arrival; [`Responder::spawn`] moves long work to a
//! bounded [`Pool`].
#![forbid(unsafe_code)]

mod call;
mod client;
mod driver;
#[cfg(feature = "http")]
pub mod http;
mod peer;
mod server;
mod service;
mod threads;
#[cfg(feature = "tls")]
pub mod tls;
mod transport;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use antiphon::*;
pub use antiphon_net::{
    BatchBuilder, CallError, CallRefused, ChildConfig, ConnectionChange, ConnectionConfig, Context,
    DEFAULT_CALL_TIMEOUT, NoConnection, Pool, ReconnectConfig, Report, Request, Responder,
    UnmatchedDetails, WhenFull, to_error,
};
pub use call::PendingCall;
pub use client::Client;
pub use driver::{Driver, connect, drive, serve, serve_stdio};
pub use peer::Peer;
pub use server::listen::TcpServer;
#[cfg(unix)]
pub use server::listen::UnixServer;
pub use server::running::Running;
pub use service::Service;
pub use transport::child::Child;
pub use transport::duplex::{Duplex, MemoryReader, MemoryWriter, duplex};
pub use transport::link::{HangUp, Link, Parts};
