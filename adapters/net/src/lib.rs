//! One shell for every async runtime: JSON-RPC connections as tasks, over any byte stream ([`Io`])
//! and any executor with timers ([`Runtime`]).
//!
//! Programs use an adapter for their runtime, such as `antiphon-tokio` or `antiphon-async-std`,
//! which adds sockets, processes and timers, and shows everything here again. `antiphon-blocking`
//! moves the bytes of the same [`Session`] on threads.
//!
//! ```text
//!   transport ─▶ input  ─▶ ┌─────────┐ ─▶ Work  ─▶ service ─▶ Responder ─┐
//!                          │ Session │                                   │
//!   transport ◀─ output ◀─ └─────────┘ ◀─ Handle (call, notify, batch) ◀─┘
//! ```
#![forbid(unsafe_code)]

mod batch;
mod call;
mod client;
mod clock;
#[cfg(any(feature = "tokio", feature = "async-io"))]
mod connect;
mod context;
mod driver;
mod fault;
mod handle;
mod handlers;
#[cfg(feature = "http")]
pub mod http;
mod line;
mod machine;
mod options;
mod peer;
mod pool;
mod report;
mod request;
mod runtime;
mod server;
mod service;
mod session;
mod slot;
mod text;
#[cfg(feature = "tls")]
pub mod tls;
mod transport;
#[cfg(feature = "websocket")]
pub mod websocket;

pub use batch::BatchBuilder;
pub use call::{CallError, CallRefused, Pending, PendingBatch};
pub use client::roster::{
    ClientOptions, ConnectionChange, NoConnection, OnChange, Roster, Waiting, is_sent_again,
    lost_because,
};
pub use client::{Client, Connect};
pub use clock::{Clock, SystemClock};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use connect::{connect, drive, keep, serve, serve_stdio, spawn};
pub use context::{Context, Headers};
pub use driver::{Driver, drive as drive_on, drive_session};
pub use fault::unless_broken;
pub use handle::{CALL_TIMEOUT_DEFAULT, Handle, Room};
pub use line::InLine;
pub use machine::{Came, Inlet, Machine, Outlet, Receiver, Turn};
pub use options::{Options, WhenFull};
pub use peer::{Peer, PendingCall, cancelled};
pub use pool::{Job, Pool};
pub use report::{Report, ReportedRequest, StrayReport};
pub use request::{Request, Responder};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use runtime::current;
#[cfg(feature = "async-io")]
pub use runtime::futures::{Executor, Futures, set_executor};
#[cfg(feature = "tokio")]
pub use runtime::tokio::Tokio;
pub use runtime::{Prepare, Runtime, SharedRuntime, Task, Timer, sleep_until, until};
pub use server::refused::OnRefused;
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use server::tcp::TcpServer;
#[cfg(all(unix, any(feature = "tokio", feature = "async-io")))]
pub use server::unix::UnixServer;
pub use server::{End, Ending, Handshake, Protocol, Running, Secure, Server};
pub use service::Service;
pub use session::{
    Brought, Guard, Moved, Next, Sent, Session, Sleeper, State, Tag, Then, Work, grace,
};
pub use slot::{CallSlot, Gathering, Slot};
/// A socket of any kind, to set its options: what a hook of a server is shown.
pub use socket2::SockRef;
pub use transport::child::Child;
pub use transport::child_output::{ChildExited, ChildOutput};
pub use transport::duplex::{Duplex, duplex};
pub use transport::io::{Io, Messages};
pub use transport::later::{Later, is_later, write_out};
pub use transport::link::{Connecting, Link, Listen};
pub use transport::messages::{MessageIo, Queue, QueueTransport};
pub use transport::process::{ChildOptions, Process};
pub use transport::socket::{OnAccept, keep_alive};
pub use transport::stdio::{Stdin, stdin, stdout_unbuffered};
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub use transport::tcp::{Address, TcpSocket};
#[cfg(unix)]
pub use transport::unix::{UnixPath, bind_unix};
