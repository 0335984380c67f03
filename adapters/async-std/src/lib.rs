//! JSON-RPC on async-std, which is discontinued upstream (RUSTSEC-2025-0052, which names smol as
//! its successor): for programs that are on it already.
//!
//! This crate is [`antiphon_net`] with one runtime, and [`antiphon`] itself. A [`Link`] is
//! something to talk over. [`serve`] runs a [`Service`] on it until it ends; [`connect`] does so in
//! the background and gives a [`Peer`] to call the other side with. Both sides of a connection are
//! equal: a client may serve, and a server may call.
//!
//! ```
//! use antiphon_async_std::{Config, ErrorObject, Link, Peer, Request, Responder, Service, TcpServer, connect};
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
//! # async_std::task::block_on(async {
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
#![forbid(unsafe_code)]

pub use antiphon::*;
#[cfg(unix)]
pub use antiphon_net::UnixServer;
#[cfg(feature = "http")]
pub use antiphon_net::http;
#[cfg(feature = "tls")]
pub use antiphon_net::tls;
#[cfg(feature = "websocket")]
pub use antiphon_net::websocket;
pub use antiphon_net::{
    BatchBuilder, CallError, Child, ChildConfig, Client, Connect, Connecting, ConnectionChange,
    ConnectionConfig, Context, DEFAULT_CALL_TIMEOUT, Driver, Link, Listen, Messages, NoConnection,
    Peer, PendingCall, Pool, Protocol, Queue, QueueTransport, ReconnectConfig, Report, Request,
    Responder, Running, Secure, Server, Service, TcpServer, UnmatchedDetails, WhenFull, cancelled,
    connect, drive, keep, serve, serve_stdio, spawn, to_error,
};
pub use antiphon_net::{Executor, Futures, set_executor};
