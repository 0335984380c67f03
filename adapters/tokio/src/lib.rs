//! JSON-RPC on tokio.
//!
//! This crate re-exports all of [`antiphon`] and what a program needs of [`antiphon_net`]. A
//! [`Link`] is an open transport: a socket, a pipe, a child process, a WebSocket or a channel of
//! whole messages. [`serve`] runs a [`Service`], such as a [`Router`], on a link until the
//! connection ends; [`connect`] opens one by its URL and returns a [`Client`], to call the other
//! side. Both sides of a connection are equal: a client may serve requests, and a server may call.
//!
//! ```
//! use antiphon_tokio::{Config, OwnedError, Router, TcpServer, connect};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let router = Router::new()
//!     .method("add", ["a", "b"], |a: f64, b: f64| Ok::<_, OwnedError>(a + b));
//! let server = TcpServer::bind("127.0.0.1:0").await?;
//! let url = format!("tcp://{}", server.local_addr());
//! let running = server.start(Config::new(), router.into_make_service());
//!
//! let client = connect(url, Config::new(), ()).await?;
//! let sum: f64 = client.call("add", &(10, 5)).await?;
//! assert_eq!(sum, 15.0);
//! running.stop();
//! # Ok(()) }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use antiphon::service::BearerAuth;
pub use antiphon::session::{Order, Report, UnmatchedDetails, WhenFull};
pub use antiphon::*;
#[cfg(feature = "macros")]
pub use antiphon_macros::{RpcErrorTokio as RpcError, service_tokio as service};
#[cfg(unix)]
pub use antiphon_net::UnixServer;
#[cfg(feature = "http")]
pub use antiphon_net::http;
#[cfg(feature = "tls")]
pub use antiphon_net::tls;
#[cfg(feature = "websocket")]
pub use antiphon_net::websocket;
pub use antiphon_net::{
    Answer, BatchBuilder, BatchCall, Call, CallError, CallRefused, Cancellation, Child,
    ChildConfig, Client, ClientConfig, Connect, ConnectError, Connecting, ConnectionChange,
    ConnectionConfig, Context, CostLimit, DEFAULT_CALL_TIMEOUT, Delivered, DeliveryError,
    Dispatcher, Driver, Durable, DurableConfig, DurableItems, DurablePublishError, DurableStream,
    Extension, Flow, FlowItems, FlowRoutes, FlowSink, Headers, Hub, HubConfig, HubCounts, Inbox,
    InboxEvent, Link, Listen, MessageTransport, MethodHandler, NoConnection, Notification,
    OpenDurable, OutgoingCall, PartialItems, PartialResult, PartialResults, Peer, PendingBatch,
    PendingCall, Pool, Progress, ProgressCall, Protocol, Published, PullError, Queue,
    QueueTransport, RateLimit, ReplyHeaders, Request, RequestContext, Responder, Router, Routes,
    RunToEnd, Running, Secure, Server, Service, StreamEnd, Subscribe, Subscription,
    SubscriptionError, SubscriptionItems, SubscriptionSink, Target, TcpServer, Wait, attach,
    connect, current, drive, inbox, reconnect, serve, serve_stdio, spawn, to_error,
};
#[cfg(feature = "tracing")]
pub use antiphon_net::{TracingSpans, trace_report};
