//! The shell of a connection, around the pure session of [`antiphon`]: a lock, calls, handlers, clients and
//! routers, on any executor with timers ([`Runtime`]) and over any stream ([`Io`]). It has no socket, and builds
//! for WebAssembly. `antiphon-net` has the sockets, and the adapters, such as `antiphon-tokio`, have both; use
//! this crate alone where there are no sockets, as in a browser.
//!
//! A session is one connection: the core's [`antiphon::session::Session`] behind a lock, with the wakers of the
//! threads and tasks that wait for it. A [`Driver`] is the task that reads and writes for it and keeps its
//! deadlines.
//!
//! ```text
//!   transport ─▶ input  ─▶ ┌─────────┐ ─▶ work (requests, notifications, …) ─▶ Service
//!                          │ Session │ ◀─ Responder (answers) ◀─────────────── Service
//!   transport ◀─ output ◀─ └─────────┘ ◀─ Peer (calls, notifications, batches) ◀─ program
//! ```
//!
//! The rooms, from the ground up; a file imports only from its own room and from those below:
//!
//! | room | has |
//! |---|---|
//! | `lock` `text` `context` `io` `fault` `guard` … | values that everybody uses |
//! | `runtime` `http` `work` | the interface to a runtime; requests of HTTP; permits and threads for work |
//! | `session` | the session of the core, shared |
//! | `call` | a call on its way: its interceptors, its attempts, its outcome |
//! | `peer` | the other side of a connection |
//! | `client` `serve` | clients; requests, their answers, and the handlers that run |
//! | `streams` | subscriptions, and partial results of a call |
//! | `durable` | durable topics and their consumers |
//! | `driver` `inbox` `router` | what a program holds |
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod call;
mod client;
mod context;
mod debug_fields;
mod driver;
mod durable;
mod entropy;
mod fault;
mod guard;
pub mod http;
mod inbox;
mod io;
mod lock;
mod options;
mod outgoing;
mod peer;
mod router;
mod runtime;
mod scratch;
mod serve;
mod session;
mod slot;
mod streams;
#[cfg(test)]
mod tests;
mod text;
mod wait;
mod work;

pub use antiphon::service::{MethodHandler, Routes};
pub use call::batch::BatchBuilder;
pub use call::call_error::{CallError, CallRefused, NoConnection};
pub use call::pending::{PendingBatch, PendingCall};
pub use call::{BatchCall, Call};
pub use client::Client;
pub use client::config::{ClientConfig, ClientTls, ConnectionChange, OnChange, OnReply, Securing};
pub use client::connect_error::ConnectError;
pub use client::reconnecting::{Made, Making};
pub use context::{Context, Headers};
#[cfg(feature = "websocket")]
pub use driver::drive_accepted;
pub use driver::{Driver, drive};
pub use durable::{
    Delivered, DeliveryError, Durable, DurableConfig, DurableItems, DurablePublishError,
    DurableStream, OpenDurable,
};
pub use fault::{child_exited, permanent, to_error, unless_broken};
pub use guard::caught;
pub use inbox::{Inbox, InboxEvent};
pub use io::{Io, MessageTransport, of_messages, yield_now};
pub use lock::Lock;
pub use options::{ConnectionConfig, DEFAULT_CALL_TIMEOUT};
pub use outgoing::OutgoingCall;
pub use peer::Peer;
pub use router::{
    CostLimit, Extension, FlowRoutes, OnThreads, RateLimit, ReplyHeaders, RequestContext, Router,
    Tasks,
};
#[cfg(feature = "tracing")]
pub use router::{TracingSpans, trace_report};
pub use runtime::threads::{block_on, epoch, threads};
pub use runtime::{Runtime, SharedRuntime, Task, Timer, until};
pub use scratch::with_scratch;
pub use serve::answer::Answer;
pub use serve::cancellation::Cancellation;
pub use serve::exchange::{Exchange, Lost, Output, exchange_peer};
pub use serve::finish::RunToEnd;
pub use serve::notification::Notification;
pub use serve::progress::{Progress, ProgressCall};
pub use serve::request::{Request, answerable};
pub use serve::responder::Responder;
pub use serve::service::{Service, Turns};
pub use session::Then;
pub use streams::flow::{Flow, FlowItems, PullError};
pub use streams::hub::{Hub, HubConfig, HubCounts};
pub use streams::partial::{PartialItems, PartialResult, PartialResults};
pub use streams::produced::FlowSink;
pub use streams::published::Published;
pub use streams::sink::SubscriptionSink;
pub use streams::subscribe::Subscribe;
pub use streams::subscription::{StreamEnd, Subscription, SubscriptionError, SubscriptionItems};
pub use wait::Wait;
pub use work::dispatcher::Dispatcher;
pub use work::pool::Pool;
