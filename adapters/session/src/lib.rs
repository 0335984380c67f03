//! What every adapter of antiphon shares: one connection between a transport that moves bytes, a
//! service that answers, and callers who wait.
//!
//! Nothing here reads, writes, starts a thread or knows a runtime. A [`Session`] is one lock around
//! an [`antiphon::session::Session`]; the code that moves the bytes takes short turns with it, on
//! threads (`antiphon-blocking`) or on a task (`antiphon-async` and the adapters over it). Programs
//! use those crates; what they need from here is shown again there.
//!
//! ```text
//!   transport ─▶ receive ─▶ ┌─────────┐ ─▶ Work  ─▶ service ─▶ Responder ─┐
//!                           │ Session │                                   │
//!   transport ◀─ output  ◀─ └─────────┘ ◀─ Handle (call, notify, batch) ◀─┘
//! ```
#![forbid(unsafe_code)]

mod batch;
mod call;
mod child_output;
mod clock;
mod context;
mod fault;
mod handle;
pub mod http;
mod later;
mod line;
mod machine;
mod options;
mod pool;
mod process;
mod refused;
mod report;
mod request;
mod roster;
mod session;
mod slot;
mod socket;
mod stdio;
mod text;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(unix)]
mod unix;
mod words;

#[cfg(feature = "websocket")]
pub use antiphon_websocket as websocket;
pub use batch::BatchBuilder;
pub use call::{CallError, CallRefused, Pending, PendingBatch};
pub use child_output::{ChildExited, ChildOutput};
pub use clock::{Clock, SystemClock};
pub use context::{Context, Headers};
pub use fault::unless_broken;
pub use handle::{CALL_TIMEOUT_DEFAULT, Handle, Room};
pub use later::{Later, is_later, write_out};
pub use line::InLine;
pub use machine::{Came, Inlet, Machine, Outlet, Receiver, Turn};
pub use options::{Options, WhenFull};
pub use pool::{Job, Pool};
pub use process::{ChildOptions, Process};
pub use refused::OnRefused;
pub use report::{Report, ReportedRequest, StrayReport};
pub use request::{Request, Responder};
pub use roster::{
    ClientOptions, ConnectionChange, NoConnection, OnChange, Roster, Waiting, is_sent_again,
    lost_because,
};
pub use session::{
    Brought, Guard, Moved, Next, Sent, Session, Sleeper, State, Tag, Then, Work, grace,
};
pub use slot::{CallSlot, Gathering, Slot};
pub use socket::{OnAccept, keep_alive};
pub use stdio::{Stdin, Stdout, stdin, stdout_unbuffered};
#[cfg(unix)]
pub use unix::{UnixPath, bind_unix};
