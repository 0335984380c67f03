//! JSON-RPC on threads, over pipes, sockets and child processes, without an async runtime.
//!
//! The rules of JSON-RPC are in antiphon; this crate adds threads, clocks and sockets. A [`Link`]
//! is an open transport: a socket, a pipe, a child process, a WebSocket or a channel of whole
//! messages. [`serve`] runs a [`Service`], such as a [`Router`], on a link until the connection
//! ends; [`connect`] opens one by its URL and returns a [`Client`], to call the other side. Both
//! sides of a connection are equal: a client may serve requests, and a server may call.
//!
//! ```
//! use antiphon_blocking::{Config, OwnedError, Router, TcpServer, connect};
//!
//! let router = Router::new()
//!     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b));
//! let server = TcpServer::bind("127.0.0.1:0")?;
//! let url = format!("tcp://{}", server.local_addr()?);
//! let running = server.start(Config::new(), router.into_make_service())?;
//!
//! let client = connect(url, Config::new(), ())?;
//! let sum: f64 = client.call("add", &(10, 5)).wait()?;
//! assert_eq!(sum, 15.0);
//! running.stop();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Threads
//!
//! One thread, `antiphon-io`, reads and writes for all connections of the program; [`serve`] and
//! [`Driver::run`] do it on the calling thread. So a connection costs no thread, and a peer that does not
//! read or does not answer blocks nobody else. The methods of a [`Service`] run on the threads of a
//! [`Pool`], one after another for each connection, in the order of arrival; [`Responder::spawn`] moves long
//! work to a thread of its own there. A thread that makes a call sleeps until the answer is there. A
//! [`Link`] of two blocking streams has a thread for each while it reads or writes.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod child;
mod client;
mod driver;
mod duplex;
#[cfg(feature = "http")]
pub mod http;
mod in_turn;
mod link;
mod messages;
mod running;
mod runtime;
mod serve;
mod server;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use antiphon::service::BearerAuth;
pub use antiphon::session::{Order, Report, Severity, UnmatchedDetails, WhenFull};
pub use antiphon::*;
#[cfg(feature = "macros")]
pub use antiphon_macros::{RpcErrorBlocking as RpcError, service_blocking as service};
pub use antiphon_net::{
    Answer, BatchBuilder, BatchCall, Call, CallError, CallRefused, Cancellation, ChildConfig,
    Client, ClientConfig, ConnectError, ConnectionChange, ConnectionConfig, Context, CostLimit,
    DEFAULT_CALL_TIMEOUT, Delivered, DeliveryError, Dispatcher, Durable, DurableConfig,
    DurableItems, DurablePublishError, DurableStream, Extension, Flow, FlowItems, FlowRoutes,
    FlowSink, Headers, Hub, HubConfig, HubCounts, Inbox, InboxEvent, NoConnection, Notification,
    OpenDurable, OutgoingCall, PartialItems, PartialResult, PartialResults, Peer, PendingBatch,
    PendingCall, Pool, Progress, ProgressCall, Published, PullError, RateLimit, ReplyHeaders,
    Request, Responder, Routes, StreamEnd, Subscribe, Subscription, SubscriptionError,
    SubscriptionItems, SubscriptionSink, Target, Wait, block_on, to_error,
};
#[cfg(feature = "tracing")]
pub use antiphon_net::{TracingSpans, trace_report};
pub use client::{connect, reconnect};
pub use driver::{Driver, attach, drive, inbox, serve, serve_stdio};
pub use running::Running;
pub use serve::Service;
pub use server::TcpServer;
#[cfg(unix)]
pub use server::UnixServer;
/// Serves methods by name, on threads: [`antiphon_net::Routes`] whose handlers are plain functions,
/// not `async` ones.
pub type Router<S = ()> = antiphon_net::Routes<S, antiphon_net::OnThreads>;

pub use child::Child;
pub use duplex::{Duplex, MemoryReader, MemoryWriter, duplex};
pub use link::Link;
