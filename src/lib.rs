//! JSON-RPC 2.0 and 1.0 as a state machine without I/O: no socket, thread, clock or runtime inside.
//!
//! A [`Connection`] has both roles at once: it calls and is called. Received bytes go in and events
//! come out; commands (calls, answers) go in and bytes to be sent come out; the current time goes in
//! and deadlines come out. You write a loop of a few lines that reads, writes and waits: on a
//! thread, in a task, in an interrupt handler, in a test. All rules of the protocol are in this
//! crate; the crates `antiphon-net` and `antiphon-blocking` have such loops for sockets, pipes and
//! HTTP.
//!
//! # The loop
//!
//! ```
//! use antiphon::{Config, Connection, ErrorObject, Event, Input, Instant, ReadBuffer};
//! # use std::io::{Read, Write};
//! # fn serve(mut reader: impl Read, mut writer: impl Write, now: impl Fn() -> Instant) -> std::io::Result<()> {
//! let config = Config::new();
//! let mut conn: Connection = Connection::new(config);
//! let mut buffer = ReadBuffer::new(config.max_input_bytes());
//! while !conn.is_closed() {
//!     match reader.read(buffer.spare())? {
//!         0 => conn.handle_eof(),
//!         n => buffer.advance(n),
//!     }
//!     conn.handle_timeout(now());
//!     let mut input = Input::stream(buffer.filled());
//!     while let Some(event) = conn.poll_event(&mut input) {
//!         match event {
//!             Event::Request(request) if request.method == "ping" => {
//!                 let _ = conn.respond(request.token, "pong");
//!             }
//!             Event::Request(request) => {
//!                 let _ = conn.respond_err(request.token, &ErrorObject::method_not_found());
//!             }
//!             // Notifications, answers to our own calls, and everything that went wrong.
//!             _ => {}
//!         }
//!     }
//!     let consumed = input.consumed();
//!     buffer.consume(consumed);
//!     while let Some(bytes) = conn.poll_transmit() {
//!         let n = writer.write(bytes)?;
//!         conn.consume_transmit(n);
//!     }
//! }
//! # Ok(()) }
//! # let mut out = Vec::new();
//! # serve(&b"{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n"[..], &mut out, || Instant::ZERO).unwrap();
//! # assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"result\":\"pong\",\"id\":1}\n");
//! ```
//!
//! # What to read next
//!
//! | you want to | see |
//! |---|---|
//! | call, and answer calls | [`Connection::call`], [`Connection::respond`], [`Event`] |
//! | serve methods by name, with typed params and results | [`service`] |
//! | publish values under topics | [`pubsub`] |
//! | deliver stored messages until they are acknowledged | [`durable`] |
//! | speak a dialect (LSP, MCP, Ethereum, Bitcoin, …) | [`Config`] and its presets |
//! | send several calls in one batch, fetch the results by handle | [`Connection::batch`], [`Collector`] |
//! | let one side pull a stream of items from the other | [`flow`] |
//! | answer one message without a connection | [`answer`] |
//! | read a message without a connection: route it, log it, test it | [`Reader`] |
//! | know what a bad peer can do | [`Config::max_memory_bytes`], [`Malformed`], [`Refused`], [`UnmatchedResponse`] |
//! | split a stream of another protocol into messages | [`Framer`] |
//! | read and write JSON text without building a tree | [`Json`], [`OwnedJson`], [`Payload`] |
//!
//! # What is promised
//!
//! - However the input is split, events and output are the same.
//! - Every call ends exactly once. Every request with an id gets exactly one answer: from the core
//!   if it refuses the request, otherwise from your program. There is none if the connection is
//!   closed first, or if the request is cancelled and the dialect wants no answer then. The core
//!   does not notice that a program never answers: see [`ReplyToken`]. The adapters answer a request
//!   that its handler drops.
//! - Ids and JSON that pass through keep their bytes: `1.0` never becomes `1`.
//! - Memory stays below [`Config::max_memory_bytes`] whatever the peer sends.
//! - In steady state, which means after its buffers and tables have grown to the size that the
//!   traffic needs, a [`Connection`] allocates neither for a call nor for an incoming request.
//!   This is not so for owned copies of messages, which [`session`] and the adapters make.
//! - Every method of a connection may be called at any time, also after the connection's end.
//! - The same calls with the same arguments give the same events and the same bytes.
//!
//! Non-finite floats have no JSON form and are written as `null`, as serde_json does.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod admission;
mod answer;
mod batches;
mod buffer;
mod calls;
pub mod codes;
mod collector;
mod config;
mod connection;
mod deadlines;
pub mod durable;
mod encode;
mod error_object;
mod error_profile;
mod event;
pub mod flow;
mod frame;
#[cfg(feature = "arbitrary")]
pub mod generate;
pub mod http;
mod id;
mod input;
mod json;
mod keepalive;
mod lifecycle;
mod message;
mod method;
mod number;
mod origin;
mod outbox;
mod owned;
mod presets;
pub mod pubsub;
mod reader;
mod reconnect;
mod requests;
mod retry;
pub mod service;
pub mod session;
mod shared;
mod shutdown;
mod subscription;
mod target;
mod time;
pub mod websocket;

pub use admission::{ConnectionLimiter, ConnectionLimits, LimitReached, Permit, address_key};
pub use answer::{Incoming, answer};
pub use buffer::ReadBuffer;
pub use collector::{Collector, FetchError};
pub use config::{
    BatchOrder, BinaryMessages, CancelAnswer, CancelMatch, CancelNotice, CancelStyle, Config,
    Dialect, DuplicateIds, EndStyle, FixedConfig, InvalidRequestId, LimitErrors, Limits,
    MissingResponseId, NullIdError, NullParams, Role, Settings, Timeouts, UnknownId, UnknownParams,
    V1NullId, VersionPolicy,
};
pub use connection::{AnswerMark, Batch, Connection, Handle, Rejected, SendError};
pub use encode::{Encoded, Payload, encode_error, encode_parse_error, encode_response};
pub use error_object::{ErrorObject, OwnedError};
pub use error_profile::{ErrorProfile, Failures, Unhandled};
pub use event::{
    Cancelled, CloseReason, Closed, ConnectionError, Event, InvalidReason, InvalidResponse,
    Malformed, MalformedCause, NotificationRef, Origin, Outcome, Refused, RefusedCause, RequestRef,
    ResponseRef, UnmatchedKind, UnmatchedResponse,
};
pub use frame::{Cut, Framer, Framing, FramingError};
pub use id::{CallId, Id, IdScheme, OwnedId, ReplyToken, RequestKey};
pub use input::Input;
pub use json::{
    CodePoints, DecodeError, DecodeErrorKind, Elements, EncodeError, EncodeErrorKind, Json,
    JsonKind, JsonString, Members, OwnedJson, SyntaxError, SyntaxErrorKind,
};
pub use keepalive::{KeepAlive, KeepAliveAction, KeepAliveConfig};
pub use lifecycle::{ConnectionState, Lifecycle, Sending};
pub use message::MethodName;
pub use method::Method;
pub use owned::{OwnedInvalid, OwnedNotification, OwnedOutcome, OwnedRequest};
pub use presets::{AcpVersion, McpRevision};
pub use reader::{Message, Messages, ReadError, Reader};
pub use reconnect::{InvalidStrategy, Reconnect, ReconnectStrategy};
pub use retry::{DEFAULT_MAX_RESENDS, Resend, Resends, Retries, Retry};
pub use service::errors::{Internal, RpcError};
pub use service::handler::{FromCall, NotificationOk, State};
pub use service::params::Params;
pub use shared::Arc;
pub use shutdown::{Shutdown, ShutdownAction};
pub use subscription::{ProgressStyle, Style};
pub use time::Instant;
