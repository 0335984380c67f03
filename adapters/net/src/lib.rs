//! The network of antiphon's adapters: runtimes with their sockets, transports, TLS, HTTP, servers and child
//! processes, around the connections of [`antiphon_shell`], which is re-exported here.
//!
//! Programs use the adapter for their runtime, such as `antiphon-tokio`, which re-exports what they
//! need from here. Use this crate to write another adapter, or code that works with every runtime.
//!
//! The rooms, from the ground up; a file imports only from its own room and from those below:
//!
//! | room | has |
//! |---|---|
//! | `link` | an open transport, and what it is made of |
//! | `sockets` | the interface to the sockets of a runtime |
//! | `runtime` | tokio's, async-io's |
//! | `transport` | connects and listens: TCP, Unix sockets, child processes |
//! | `server` | accepts connections and ends them |
//! | `tls` `http` | what is spoken over a stream |
//! | `client` `connect` | targets, and what they are connected to |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod client;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod connect;
#[cfg(feature = "http")]
pub mod http;
mod link;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod runtime;
mod server;
mod sockets;
#[cfg(feature = "tls")]
pub mod tls;
mod transport;

pub use antiphon_shell::*;
/// WebSocket, for every runtime. A client connects to a URL with `ws://` or `wss://`; a server sets
/// [`ConnectionConfig::with_websocket`].
///
/// If the other side breaks the WebSocket protocol or does not close properly, the service gets a
/// [`Report::Layer`](antiphon::session::Report::Layer), with the [`WebSocketEnd`](websocket::WebSocketEnd) as its
/// error.
#[cfg(feature = "websocket")]
pub use antiphon_websocket as websocket;
pub use client::open::{connect_on, reconnect_on};
pub use client::target::Target;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use connect::{attach, connect, drive, inbox, reconnect, serve, serve_stdio, spawn};
pub use link::duplex::duplex;
pub use link::messages::{Queue, QueueTransport};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use link::socket::TcpSocket;
pub use link::stdio::{stdin, stdout_unbuffered};
pub use link::would_block::write_out;
pub use link::{Connect, Connecting, Link, Listen, drive_on};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use runtime::current;
#[cfg(feature = "async-io")]
pub use runtime::futures::{Executor, set_executor};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use server::tcp::TcpServer;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub use server::unix::UnixServer;
pub use server::{Ending, Handshake, Protocol, Running, Secure, Server};
/// A socket of any kind, to set its options: what a server's accept hook receives.
pub use socket2::SockRef;
pub use sockets::{NetRuntime, Prepare, Sockets};
pub use transport::child::{Child, ChildConfig};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use transport::tcp::{Address, lookup_error};
