//! One engine for every async runtime: connections as tasks, over any byte stream ([`Io`]) and any
//! executor with timers ([`Runtime`]).
//!
//! Programs use an adapter for their runtime, such as `antiphon-tokio` or `antiphon-async-std`,
//! which adds sockets, processes and timers, and shows everything here again.
#![forbid(unsafe_code)]

mod child;
mod client;
mod driver;
mod duplex;
mod handlers;
#[cfg(feature = "http")]
pub mod http;
mod io;
mod link;
mod messages;
mod peer;
mod runtime;
mod server;
mod service;
mod threads;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use antiphon_session::{
    BatchBuilder, CALL_TIMEOUT_DEFAULT, CallError, ChildOptions, ClientOptions, Clock,
    ConnectionChange, Context, Handle, NoConnection, Options, Pool, Report, Request, Responder,
    StrayReport, SystemClock, WhenFull,
};
pub use antiphon_session::{OnAccept, keep_alive, unless_broken};
#[cfg(unix)]
pub use antiphon_session::{UnixPath, bind_unix};
pub use child::Child;
pub use client::{Client, Connect, Connecting};
pub use driver::{Driver, drive, drive_session};
pub use duplex::{Duplex, duplex};
pub use io::{FuturesIo, FuturesPair, Io, SocketIo, is_input};
pub use link::Link;
pub use messages::{MessageIo, Messages, Queue, QueueTransport};
pub use peer::{Peer, PendingCall, cancelled};
pub use runtime::{Runtime, SharedRuntime, Task, Timer, sleep_until, until};
pub use server::{End, Ending, Handshake, Listen, Protocol, Running, Secure, Server};
pub use service::Service;
pub use threads::{ThreadIo, stdio, threads};
