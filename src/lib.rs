//! JSON-RPC as a pure state machine.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod answer;
mod batches;
mod buffer;
mod calls;
pub mod codes;
mod collector;
mod config;
mod connection;
mod deadlines;
mod encode;
mod error_object;
mod event;
mod frame;
mod id;
mod input;
mod json;
mod message;
mod outbox;
mod presets;
mod requests;
mod time;

pub use answer::{Incoming, answer};
pub use buffer::ReadBuffer;
pub use collector::{Collector, FetchError};
pub use config::{
    BatchOrder, CancelAnswer, CancelMatch, CancelStyle, Config, DuplicateIds, ErrorProfile,
    InvalidRequestId, LimitErrors, NullIdError, NullParams, Role, UnknownId, V1NullId,
    VersionPolicy,
};
pub use connection::{Batch, Connection, Handle, Rejected, SendError};
pub use encode::{Payload, encode_error, encode_parse_error, encode_response};
pub use error_object::{ErrorObject, OwnedError};
pub use event::{
    Cancelled, CloseReason, Closed, ConnectionError, Event, InvalidReason, InvalidResponse,
    Malformed, MalformedCause, Notification, Origin, Outcome, OwnedNotification, OwnedOutcome,
    OwnedRequest, Refused, RefusedCause, Request, Response, Stray, StrayKind,
};
pub use frame::{Cut, Framer, Framing, FramingError};
pub use id::{CallId, Id, IdScheme, OwnedId, ReplyToken, RequestKey};
pub use input::Input;
pub use json::{
    CodePoints, DecodeError, DecodeErrorKind, Elements, EncodeError, EncodeErrorKind, Json,
    JsonKind, JsonString, Members, OwnedJson, SyntaxError, SyntaxErrorKind,
};
pub use message::MethodName;
pub use presets::{AcpVersion, McpRevision};
pub use time::Instant;
