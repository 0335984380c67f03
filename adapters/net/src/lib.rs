//! The common code of the adapters: JSON-RPC connections as tasks, over any byte stream ([`Io`])
//! and any executor with timers ([`Runtime`]).
//!
//! Programs use the adapter for their runtime, such as `antiphon-tokio`, which re-exports what they
//! need from here. Use this crate to write another adapter, or code that works with every runtime.
//!
//! A [`Session`] is one connection: the core's [`antiphon::session::Session`] behind a lock, with
//! the wakers of the threads and tasks that wait for it. A [`Driver`] is the task that reads and
//! writes for it and keeps its deadlines; in `antiphon-blocking` threads do that. The session
//! returns the work for the service as [`Work`]:
//!
//! ```text
//!   transport ─▶ input  ─▶ ┌─────────┐ ─▶ Work (requests, notifications, …) ─▶ service
//!                          │ Session │ ◀─ Responder (answers) ◀─────────────── service
//!   transport ◀─ output ◀─ └─────────┘ ◀─ Peer (calls, notifications, batches) ◀─ program
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod answer;
mod batch;
mod call;
mod call_error;
mod call_request;
mod cancellation;
mod client;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod connect;
mod context;
mod debug;
mod dispatcher;
mod driver;
mod entropy;
mod fault;
mod finish;
mod guard;
mod handlers;
#[cfg(feature = "http")]
pub mod http;
mod inbox;
mod intercepted;
mod later;
mod line;
mod lock;
mod notification;
mod on_pool;
mod options;
mod outgoing;
mod peer;
mod pending;
mod pool;
mod progress;
mod request;
mod resend;
mod responder;
mod route;
mod router;
mod runtime;
mod scratch;
mod seat;
mod server;
mod service;
mod session;
mod slot;
mod spawned;
mod start;
mod text;
#[cfg(feature = "tls")]
pub mod tls;
mod transmit;
mod transport;
mod typed;
mod wait;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use answer::Answer;
pub use antiphon::session::{Order, Report, RequestDetails, Severity, UnmatchedDetails, WhenFull};
pub use batch::BatchBuilder;
pub use call::{BatchCall, Call};
pub use call_error::{CallError, CallRefused, NoConnection};
pub use cancellation::Cancellation;
pub use client::Client;
#[cfg(feature = "http")]
pub use client::config::OnReply;
pub use client::config::{ClientConfig, ConnectionChange, OnChange};
pub use client::connect_error::ConnectError;
pub use client::target::{Connect, Target};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use connect::{attach, connect, drive, inbox, reconnect, serve, serve_stdio, spawn};
pub use context::{Context, Headers};
pub use dispatcher::{Dispatcher, Permits};
pub use driver::{Driver, drive as drive_on, drive_session};
pub use fault::{cannot_connect, lookup_error, to_error, unless_broken};
pub use finish::RunToEnd;
pub use guard::caught;
pub use inbox::{Inbox, InboxEvent, ToInbox};
pub use notification::Notification;
pub use options::{ConnectionConfig, DEFAULT_CALL_TIMEOUT};
pub use outgoing::OutgoingCall;
pub use peer::Peer;
pub use pending::{PendingBatch, PendingCall};
pub use pool::{Job, Jobs, Pool};
pub use progress::{Progress, ProgressCall};
pub use request::{Request, answerable};
pub use responder::Responder;
pub use router::{
    Answering, Answers, CostLimit, Extension, MethodHandler, OnThreads, RateLimit, RequestContext,
    Router, Routes, ServiceMethods, Starting, Tasks, marker,
};
#[cfg(feature = "tracing")]
pub use router::{TracingSpans, trace_report};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use runtime::current;
#[cfg(feature = "async-io")]
pub use runtime::futures::{Executor, Futures, set_executor};
pub use runtime::threads::{Threads, block_on, within};
#[cfg(feature = "tokio")]
pub use runtime::tokio::Tokio;
pub use runtime::{Prepare, Runtime, SharedRuntime, Task, Timer, sleep_until, until};
pub use server::refused::OnRefused;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use server::tcp::TcpServer;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub use server::unix::UnixServer;
pub use server::{End, Ending, Handshake, Protocol, Running, Secure, Server, serve_until};
pub use service::Service;
pub use session::{Brought, Guard, Moved, Next, Sent, Session, State, Tag, Then, Work, WorkBatch};
pub use slot::{CallSlot, Gathering, Slot};
/// A socket of any kind, to set its options: what a server's accept hook receives.
pub use socket2::SockRef;
pub use transport::child::{Child, ChildConfig, STDERR_TIMEOUT};
pub use transport::child_output::ChildExited;
pub use transport::duplex::{Duplex, duplex};
pub use transport::io::{Io, MessageTransport};
pub use transport::later::write_out;

pub use transport::link::{Arrived, Connecting, Link, Listen};
pub use transport::messages::{MessageIo, Queue, QueueTransport};
pub use transport::socket::{OnAccept, keep_alive};
pub use transport::stdio::{Stdin, stdin, stdout_unbuffered};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use transport::tcp::{Address, TcpSocket};
#[cfg(unix)]
pub use transport::unix::{UnixPath, bind_unix};
pub use wait::Wait;
