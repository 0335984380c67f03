//! The events that [`Connection::poll_event`](crate::Connection::poll_event) returns to the driver.
//!
//! Events borrow the input, never the connection: a request can be answered while its params are
//! read. `into_owned` copies an event that has to outlive its input. Every fault of the peer is
//! reported with its cause, its id and its position, whatever the peer itself is sent about it.

use alloc::borrow::Cow;
use core::fmt;

use crate::error_object::ErrorObject;
use crate::frame::FramingError;
use crate::id::{CallId, Id, ReplyToken, RequestKey};
use crate::json::{Json, SyntaxError};

/// An event of a connection.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a, T> {
    /// The peer sent a request and waits for an answer.
    Request(RequestRef<'a>),
    /// The peer sent a notification, which is not answered.
    Notification(NotificationRef<'a>),
    /// One of our calls has ended: with a result, an error, or the reason why there is neither.
    /// Every call ends exactly once.
    Response(ResponseRef<'a, T>),
    /// The peer has cancelled one of its requests, or a request has ended with the connection, see
    /// [`Closed`](Self::Closed).
    Cancelled(Cancelled<'a>),
    /// A message, or one item of a batch, was not valid. If it may have been a request, it was
    /// answered with an error, unless this side is a client. The connection goes on, up to
    /// `max_malformed_messages`.
    Malformed(Malformed<'a>),
    /// A valid request or notification was refused because of a limit, a setting or a drain, or a
    /// message or batch was too large to be read. If it may have been a request, it was answered
    /// with an error; but a client answers nothing that is too large. The connection goes on.
    Refused(Refused<'a>),
    /// A message that matches nothing that is open: a late or unknown answer, an answer without an
    /// id, or a cancel of a request that is not open. It is not answered, unless it is a cancel
    /// with an id.
    UnmatchedResponse(UnmatchedResponse<'a>),
    /// The connection accepts no more input. This event comes once, after every open call has
    /// ended. Queued output can still be written, and open requests may still be answered. But
    /// after [`close`](crate::Connection::close), or if a drain takes too long or the peer takes no
    /// output, open requests end as [`Cancelled`](Self::Cancelled), before or after this event.
    /// [`Connection::is_closed`](crate::Connection::is_closed) is true when all is done.
    Closed(Closed),
}

/// The size of a message, and its position in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The size of the message in bytes; in a batch, the size of the item. For a message over the
    /// limit that does not declare its size, it is the limit.
    pub bytes: usize,
    /// The message's position in its batch, from 0; `None` for a message that came alone.
    pub batch_index: Option<usize>,
}

/// A request from the peer.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestRef<'a> {
    /// The method, unescaped. It may be any text, even a blank one.
    pub method: Cow<'a, str>,
    /// The params, an array or an object, if there are any.
    pub params: Option<Json<'a>>,
    /// The request's id as the peer wrote it; the answer has it automatically.
    pub id: Id<'a>,
    /// The right to answer.
    pub token: ReplyToken,
    /// The size of the request, and its position in a batch.
    pub origin: Origin,
}

/// A notification from the peer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NotificationRef<'a> {
    /// The method, unescaped.
    pub method: Cow<'a, str>,
    /// The params, an array or an object, if there are any.
    pub params: Option<Json<'a>>,
    /// The size of the notification, and its position in a batch.
    pub origin: Origin,
}

/// The end of one of our calls.
#[derive(Debug)]
#[non_exhaustive]
pub struct ResponseRef<'a, T> {
    /// The call that has ended.
    pub call: CallId,
    /// The value that the caller gave with the call.
    pub tag: T,
    /// How it ended.
    pub outcome: Outcome<'a>,
    /// The size of the answer, and its position in a batch; `None` for a call that ended without
    /// an answer.
    pub origin: Option<Origin>,
}

/// How a call ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Outcome<'a> {
    /// The peer's result. `null` is a result like any other.
    Ok(Json<'a>),
    /// The peer's error object.
    Err(ErrorObject<'a>),
    /// The peer answered with our id, but the answer is not valid.
    Invalid(InvalidResponse<'a>),
    /// The deadline passed. The peer may still be working.
    TimedOut,
    /// The exchange ended without an answer to this call.
    Missing,
    /// No byte of the call was sent: the only outcome after which repeating is always safe.
    Unsent,
    /// The connection ended first. The peer may or may not have acted.
    Aborted,
}

impl Outcome<'_> {
    /// Whether this is a result.
    pub fn is_ok(&self) -> bool {
        matches!(self, Outcome::Ok(_))
    }
}

impl fmt::Display for Outcome<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok(result) => write!(f, "a result of {} bytes", result.len()),
            Self::Err(error) => write!(f, "the error {error}"),
            Self::Invalid(invalid) => write!(f, "{INVALID_ANSWER}{invalid}"),
            Self::TimedOut => f.write_str("no answer in time"),
            Self::Missing => f.write_str("left out of the answer"),
            Self::Unsent => f.write_str("not sent"),
            Self::Aborted => f.write_str("the connection ended before the answer came"),
        }
    }
}

/// The text before the rule that an invalid answer breaks.
pub(crate) const INVALID_ANSWER: &str = "an invalid answer: ";

/// An answer with the id of one of our calls that is not a valid response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InvalidResponse<'a> {
    /// The rule that the answer breaks.
    pub reason: InvalidReason,
    /// The whole object.
    pub text: Json<'a>,
}

impl fmt::Display for InvalidResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

/// A request that must not be answered normally: the peer cancelled it, or it ended with the
/// connection.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cancelled<'a> {
    /// The request.
    pub key: RequestKey,
    /// The peer's reason (MCP).
    pub reason: Option<Json<'a>>,
    /// Whether an answer is still needed. False when the dialect wants none, and at the end of the
    /// connection: then the token is of no use, and answering with it fails as
    /// [`NotOpen`](crate::SendError::NotOpen) or [`Closed`](crate::SendError::Closed).
    pub answer_owed: bool,
}

/// A message, or one item of a batch, that is not valid JSON-RPC.
///
/// `Debug` prints how many bytes the message has, not which: they may be secrets.
#[derive(Clone)]
#[non_exhaustive]
pub struct Malformed<'a> {
    /// The fault.
    pub cause: MalformedCause,
    /// The bytes of the message, or of the item.
    pub text: &'a [u8],
    /// The position of the fault in the message or item, in bytes from its start.
    pub offset: usize,
    /// The id, if it was readable and of an allowed type.
    pub id: Option<Id<'a>>,
    /// The code of the error sent to the peer; `None` if none was sent.
    pub answered: Option<i64>,
    /// The size of the message, and its position in a batch.
    pub origin: Origin,
}

impl fmt::Debug for Malformed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Malformed")
            .field("cause", &self.cause)
            .field("bytes", &self.text.len())
            .field("offset", &self.offset)
            .field("id", &self.id)
            .field("answered", &self.answered)
            .field("origin", &self.origin)
            .finish()
    }
}

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MalformedCause {
    /// Not JSON, not UTF-8, or nested too deep (−32700).
    Syntax(SyntaxError),
    /// JSON, but not a valid call (−32600).
    Call(InvalidReason),
    /// A response that is not valid and belongs to no open call. Never answered.
    Response(InvalidReason),
}

impl fmt::Display for MalformedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => error.fmt(f),
            Self::Call(reason) => write!(f, "not a valid call: {reason}"),
            Self::Response(reason) => write!(f, "not a valid response: {reason}"),
        }
    }
}

/// The rule that an object breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidReason {
    /// The value is no object.
    NotAnObject,
    /// The batch has no items.
    EmptyBatch,
    /// Batches are switched off.
    BatchesOff,
    /// A member of the envelope occurs twice. Two readers could choose differently.
    RepeatedMember,
    /// The `jsonrpc` member is missing or has a value that the version policy does not allow.
    Version,
    /// There is no `method`, no `result` and no `error`.
    Unrecognisable,
    /// `method` is not a string.
    MethodType,
    /// `method` has a lone surrogate escape, so it is not text.
    MethodText,
    /// `params` is neither an array nor an object.
    ParamsType,
    /// `params` is an object, which 1.0 does not have.
    ParamsByName,
    /// `id` has a type that is not allowed.
    IdType,
    /// `id` is missing although the version requires it.
    IdMissing,
    /// A 1.0 message in a batch, although `v1_in_batch` is off.
    V1InBatch,
    /// The response has neither `result` nor `error`.
    NoOutcome,
    /// The response has both `result` and `error`.
    BothOutcomes,
    /// `error` is no error object: an integer code and a string message are required.
    ErrorShape,
}

impl InvalidReason {
    /// The rule in one sentence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAnObject => "the value is no object",
            Self::EmptyBatch => "the batch is empty",
            Self::BatchesOff => "batches are not accepted",
            Self::RepeatedMember => "a member of the envelope is repeated",
            Self::Version => "the version is missing or not accepted",
            Self::Unrecognisable => "there is no method, result or error",
            Self::MethodType => "the method is not a string",
            Self::MethodText => "the method holds a lone surrogate",
            Self::ParamsType => "the params are neither array nor object",
            Self::ParamsByName => "version 1.0 has no params by name",
            Self::IdType => "the id has a type that is not allowed",
            Self::IdMissing => "the id is missing",
            Self::V1InBatch => "version 1.0 has no batches",
            Self::NoOutcome => "there is neither result nor error",
            Self::BothOutcomes => "there are both result and error",
            Self::ErrorShape => "the error is no error object",
        }
    }
}

impl fmt::Display for InvalidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message that is refused because of a limit, a setting or a drain, not because it is invalid.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Refused<'a> {
    /// The reason.
    pub cause: RefusedCause,
    /// The method, if there is one.
    pub method: Option<Cow<'a, str>>,
    /// The id as the peer wrote it, if there is one.
    pub id: Option<Id<'a>>,
    /// The code of the error sent to the peer; `None` if none was sent.
    pub answered: Option<i64>,
    /// The size of the message, and its position in a batch.
    pub origin: Origin,
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusedCause {
    /// `max_open_requests` requests are open.
    Busy,
    /// The connection is draining and accepts no new requests.
    Draining,
    /// The message is larger than `max_message_bytes`; `bytes` is its declared size, if it
    /// declared one.
    TooLarge {
        /// The declared size in bytes.
        bytes: Option<u64>,
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// The batch has more than `max_batch_items` items; `items` is their number.
    BatchTooLong {
        /// The number of items.
        items: usize,
    },
    /// The id is longer than `max_id_bytes`. It is not echoed.
    IdTooLong,
    /// The method is longer than `max_method_bytes`.
    MethodTooLong,
    /// A request with the same id is open, and `duplicate_ids` is `Reject`.
    RepeatedId,
    /// The id is null, and `null_ids` is off.
    NullId,
}

impl fmt::Display for RefusedCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("too many requests are open"),
            Self::Draining => f.write_str("the connection is draining and takes nothing new"),
            Self::TooLarge {
                bytes,
                max_bytes: max,
            } => match bytes {
                Some(bytes) => write!(f, "the message has {bytes} bytes, over the limit of {max}"),
                None => write!(f, "the message is larger than the limit of {max} bytes"),
            },
            Self::BatchTooLong { items } => {
                write!(f, "the batch has {items} items, over the limit")
            }
            Self::IdTooLong => f.write_str("the id is longer than the limit"),
            Self::MethodTooLong => f.write_str("the method is longer than the limit"),
            Self::RepeatedId => f.write_str("a request with the same id is open"),
            Self::NullId => f.write_str("the id is null"),
        }
    }
}

/// A message that matches nothing that is open on this connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnmatchedResponse<'a> {
    /// Why the message matches nothing.
    pub kind: UnmatchedKind<'a>,
    /// The id of the answer, or of the request to be cancelled, if there is one.
    pub id: Option<Id<'a>>,
    /// The size of the message, and its position in a batch.
    pub origin: Origin,
}

/// Why a message matches nothing that is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum UnmatchedKind<'a> {
    /// An answer to a call of ours that has already ended: timed out, given up, or answered
    /// before. An id that the sequence of our ids has skipped counts as such a call's.
    Late(Outcome<'a>),
    /// The answer to a call whose cancel was sent: the answer may have been under way, or be the
    /// dialect's answer to a cancelled request. It is expected, and not counted as unmatched.
    Cancelled(Outcome<'a>),
    /// An answer with an id that this connection did not generate. A late answer to a call whose id
    /// the caller chose is also reported so.
    Unknown(Outcome<'a>),
    /// An answer with a null id, or with none: the peer did not know what it answers.
    NullId(Outcome<'a>),
    /// A cancel of a request that is not open, or one that cannot be read.
    Cancel,
}

impl fmt::Display for UnmatchedKind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(outcome) => write!(f, "{LATE}{outcome}"),
            Self::Cancelled(outcome) => write!(f, "{CANCELLED}{outcome}"),
            Self::Unknown(outcome) => write!(f, "{UNKNOWN}{outcome}"),
            Self::NullId(outcome) => {
                let over = match outcome {
                    Outcome::Err(error) if error.is_over_limit() => OVER_LIMIT,
                    _ => "",
                };
                write!(f, "{NULL_ID}{outcome}{over}")
            }
            Self::Cancel => f.write_str(UNMATCHED_CANCEL),
        }
    }
}

/// The text for each kind of unmatched response, before its outcome.
pub(crate) const LATE: &str = "an answer to a call that is over: ";
pub(crate) const CANCELLED: &str = "the answer to a call that was cancelled: ";
pub(crate) const UNKNOWN: &str = "an answer with an id that was never sent: ";
pub(crate) const NULL_ID: &str = "an answer without an id: ";
pub(crate) const UNMATCHED_CANCEL: &str = "a cancel for a request that is not open";

/// The text for an error without an id about a limit, which may concern a call of ours.
pub(crate) const OVER_LIMIT: &str = "; the peer skipped a message of ours as too large, and if \
    that was a call, the call will time out";

/// Why the connection accepts no more input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Closed {
    /// The driver reported the end of input, which was between two messages.
    EndOfInput,
    /// [`Connection::close`](crate::Connection::close) was called.
    Local(CloseReason),
    /// [`Connection::drain`](crate::Connection::drain) was called, and everything is answered and
    /// written.
    Drained,
    /// A fault of the peer or of the stream, or a timeout, broke the connection.
    Failed(ConnectionError),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndOfInput => f.write_str("the peer ended the connection"),
            Self::Local(reason) => write!(f, "closed here: {reason}"),
            Self::Drained => f.write_str("the connection was drained"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

/// Why a driver closes a connection. The core does not send it; transports with close codes do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The connection is not needed any more.
    Done,
    /// This side is shutting down.
    GoingAway,
    /// The peer broke too many rules.
    PeerMisbehaved,
    /// The transport failed.
    TransportFailed,
    /// Any other reason, as text.
    Other(&'static str),
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "the conversation is over",
            Self::GoingAway => "this side is shutting down",
            Self::PeerMisbehaved => "the peer broke the rules once too often",
            Self::TransportFailed => "the transport failed",
            Self::Other(why) => why,
        })
    }
}

/// The fault that broke a connection. Nothing more is read. Queued output can still be written,
/// except after `WriteTimedOut` and `OutboxFull`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The stream cannot be split into messages any more.
    Framing(FramingError),
    /// The input ended inside a message.
    Truncated,
    /// A message was not complete within `message_timeout` after its beginning.
    MessageTimedOut,
    /// None of the waiting output was written within `write_timeout`.
    WriteTimedOut,
    /// The drain did not end within `drain_timeout`.
    DrainTimedOut,
    /// The output is over `max_outbox_bytes`: larger answers were given than the peer has read, or
    /// it does not read at all while a call of this side is open.
    OutboxFull,
    /// More than `max_unmatched_responses` answers matched no call.
    TooManyUnmatched,
    /// More than `max_malformed_messages` messages were malformed.
    TooManyMalformed,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Framing(error) => error.fmt(f),
            Self::Truncated => f.write_str("the input ended inside a message"),
            Self::MessageTimedOut => f.write_str("a message was begun and not finished in time"),
            Self::WriteTimedOut => f.write_str("the peer took no output in time"),
            Self::DrainTimedOut => f.write_str("the drain did not finish in time"),
            Self::OutboxFull => f.write_str("the output queue is over its limit"),
            Self::TooManyUnmatched => f.write_str("too many answers fitted no call"),
            Self::TooManyMalformed => f.write_str("too many messages were malformed"),
        }
    }
}

impl core::error::Error for ConnectionError {}
