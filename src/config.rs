//! The options of connections: limits, settings of the dialect, timeouts.
//! [`presets`](crate::presets) has the values for existing protocols.
//!
//! Memory stays below [`Config::max_memory_bytes`], whatever a peer sends.

use core::time::Duration;

use crate::codes;
use crate::error_profile::{ErrorProfile, Failures};
use crate::frame::{FrameLimits, Framer, Framing};
use crate::id::IdScheme;
use crate::subscription::ProgressStyle;

pub(crate) use settings::Settled;
pub use settings::{FixedConfig, Settings};

mod settings;

/// All options of a [`Connection`](crate::Connection).
///
/// It has no heap data and is `Copy`: use one for any number of connections. Every combination of
/// values is legal; a limit of 0 refuses everything, unless its field says otherwise. Each field of
/// the groups has a setter; fields can also be set directly.
///
/// ```
/// use antiphon::Config;
/// use core::time::Duration;
///
/// let mut config = Config::lsp()
///     .max_message_bytes(16 << 20)
///     .drain_timeout(Some(Duration::from_secs(1)));
/// config.limits.max_open_calls = 1000;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The number of this connection, which is part of its tokens and call ids. A token that is
    /// used on another connection is refused, instead of answering another request. Default 0: each
    /// connection gets a number that no other connection of the program has, from 2^31 on, see
    /// [`Connection::number`](crate::Connection::number). Numbers of your own must be smaller, and
    /// different.
    pub connection: u32,
    /// Whether invalid messages, and those over a limit, are answered. Default [`Role::Peer`].
    pub role: Role,
    /// How a stream is split into messages, and how messages are written. Default
    /// [`Framing::Newline`].
    pub framing: Framing,
    /// Whether the connection is a single exchange of request and reply, as over HTTP. Then a
    /// server cannot call or notify; for a client, calls that the reply does not answer end as
    /// [`Missing`](crate::Outcome::Missing), and an error without id ends all of them. Default off.
    pub exchange: bool,
    /// Whether the reply of an exchange may be a stream: a server may notify until it has answered. Default off.
    pub streams: bool,
    /// The number of the first call. An HTTP client continues from the exchange before, so that ids
    /// do not repeat within a session. Default 1.
    pub first_call: u64,
    /// The dialect: what is sent, and what is accepted.
    pub dialect: Dialect,
    /// The limits on sizes and numbers.
    pub limits: Limits,
    /// The timeouts.
    pub timeouts: Timeouts,
}

/// Declares a group of options: its fields with their defaults, and a setter of [`Config`] for each.
macro_rules! options {
    ($(#[$about:meta])* $group:ident in $place:ident {
        $($(#[$doc:meta])* $name:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $group {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl $group {
            const DEFAULT: Self = Self { $($name: $default,)* };
        }

        impl Config {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](", stringify!($group), "::", stringify!($name), ").")]
                #[must_use]
                pub const fn $name(mut self, $name: $type) -> Self {
                    self.$place.$name = $name;
                    self
                }
            )*
        }
    };
}

options! {
    /// The dialect: what is sent and what is accepted. [`Config::lsp`] and others are the dialects
    /// of existing protocols.
    Dialect in dialect {
        /// The effect of a binary WebSocket message. Default [`BinaryMessages::Close`]. It has no
        /// effect over any other transport.
        binary: BinaryMessages = BinaryMessages::Close,
        /// Which versions are allowed. Default [`VersionPolicy::V2Only`].
        version: VersionPolicy = VersionPolicy::V2Only,
        /// How a 1.0 request with a null id is treated. Default [`V1NullId::Silent`].
        v1_null_id: V1NullId = V1NullId::Silent,
        /// Whether a 1.0 request without an id is answered, with a null id (Bitcoin Core), instead of
        /// being invalid. Default off.
        v1_missing_id: bool = false,
        /// Whether a batch may have 1.0 messages. Default on.
        v1_in_batch: bool = true,
        /// Whether 1.0 params may be an object (Bitcoin Core, Electrum). Default off.
        v1_named_params: bool = false,
        /// Whether a `jsonrpc` member other than `"2.0"` makes a message 1.0 (Bitcoin Core) instead of
        /// invalid. Needs a policy that allows 1.0. Default off.
        v1_other_versions: bool = false,
        /// How `"params": null` is treated. Default [`NullParams::Reject`].
        null_params: NullParams = NullParams::Reject,
        /// What routers do with params by names that no parameter has; a router, a service and a
        /// method may each say otherwise. Default [`UnknownParams::Reject`].
        unknown_params: UnknownParams = UnknownParams::Reject,
        /// Whether a 2.0 response may also carry the other outcome as null, and a 1.0 response may
        /// leave it out. Default off.
        lenient_responses: bool = false,
        /// Whether our calls may have a null id. Default off.
        allow_null_id: bool = false,
        /// Whether the peer's requests may have a null id, which MCP forbids. Default on.
        null_ids: bool = true,
        /// Whether `true` and `false` are ids in 2.0 as they are in 1.0 (Ethereum). Default off.
        boolean_ids: bool = false,
        /// The id of an error for an invalid request. Default
        /// [`InvalidRequestId::EchoIfReadable`].
        invalid_request_id: InvalidRequestId = InvalidRequestId::EchoIfReadable,
        /// The id of an error if the request's id could not be read. Default [`UnknownId::Null`].
        unknown_id: UnknownId = UnknownId::Null,
        /// Whether a second request with the id of an open request is accepted. Default
        /// [`DuplicateIds::Allow`].
        duplicate_ids: DuplicateIds = DuplicateIds::Allow,
        /// What an error with a null id does to our calls on a two-way connection; under
        /// [`UnknownId::Omit`] also one without the member `id`. Default [`NullIdError::Report`].
        null_id_error: NullIdError = NullIdError::Report,
        /// What a response without an `id` member does on an exchange; elsewhere it has no effect.
        /// Default [`MissingResponseId::SoleExchange`].
        missing_response_id: MissingResponseId = MissingResponseId::SoleExchange,
        /// Whether batches are accepted and may be sent. Default on.
        batches: bool = true,
        /// The order of answers within a batch. Default [`BatchOrder::Request`].
        batch_order: BatchOrder = BatchOrder::Request,
        /// Which codes are used for a message or batch over its limit. Default
        /// [`LimitErrors::Dedicated`].
        limit_errors: LimitErrors = LimitErrors::Dedicated,
        /// Which codes this side uses for its own errors. Default [`ErrorProfile::Antiphon`].
        error_profile: ErrorProfile = ErrorProfile::Antiphon,
        /// What the peer is told when serving fails: which code, and whether it gets the cause. An
        /// adapter's handler may decide otherwise for its request. Default [`Failures::new`]: −32603
        /// without a cause.
        failures: Failures = Failures::new(),
        /// Whether [`respond_err`](crate::Connection::respond_err) refuses codes of the reserved range
        /// that neither the specification nor antiphon defines. Default off.
        check_app_codes: bool = false,
        /// Whether [`respond_unknown_method`](crate::Connection::respond_unknown_method) names the
        /// method in its error's data. Default off.
        echo_method_names: bool = false,
        /// Whether a router answers `rpc.discover` and `rpc.listMethods` without having been asked to
        /// by its `discovery` or `describe`. Default on; off in the presets of LSP, MCP and ACP, whose
        /// peers know the methods.
        system_extensions: bool = true,
        /// How the peer is asked to cancel a call. Default [`CancelStyle::None`].
        cancel_send: CancelStyle = CancelStyle::None,
        /// Which cancels of the peer are accepted. Default [`CancelStyle::Lsp`].
        cancel_receive: CancelStyle = CancelStyle::Lsp,
        /// How a cancel finds its request. Default [`CancelMatch::Exact`].
        cancel_match: CancelMatch = CancelMatch::Exact,
        /// Whether a call that times out is also cancelled at the peer, as one that is given up is.
        /// Default off; on in the presets of LSP, MCP and ACP.
        cancel_on_timeout: bool = false,
        /// The answer to a cancelled request. Default [`CancelAnswer::RequestCancelled`].
        cancel_answer: CancelAnswer = CancelAnswer::RequestCancelled,
        /// By which messages the peer ends the connection. Default [`EndStyle::None`].
        end: EndStyle = EndStyle::None,
        /// How progress of a request is reported. Default [`ProgressStyle::None`].
        progress: ProgressStyle = ProgressStyle::None,
        /// How the ids of our calls are written. Default [`IdScheme::Sequential`].
        id_scheme: IdScheme = IdScheme::Sequential,
        /// Whether braces inside strings are written as `\u007b` and `\u007d`, for a reader that
        /// counts braces without knowing strings (Kodi). Default off.
        escape_braces: bool = false,
    }
}

options! {
    /// The limits of a connection, with what the peer sees at each.
    Limits in limits {
        /// The largest accepted message, in bytes. A larger one is skipped without being stored,
        /// and answered with a null id and −32004, or as `limit_errors` says. Needs that much input
        /// buffer. Default 1 MiB (1 048 576).
        max_message_bytes: usize = 1 << 20,
        /// The longest accepted header block (Content-Length), in bytes. A longer one breaks the
        /// connection. Default 8 KiB, as in common HTTP servers.
        max_header_bytes: usize = 8 << 10,
        /// How deep arrays and objects may nest, 1 to 128; 0 counts as 1, more as 128. A deeper
        /// message is answered −32700. Default 128, as in serde_json.
        max_depth: u8 = 128,
        /// The most items of a peer's batch. A longer one is answered −32003, or as `limit_errors`
        /// says, and no request of it runs. Needs about 140 bytes per item. Default 100.
        max_batch_items: usize = 100,
        /// The largest answer to one batch, in bytes. A result that would exceed it fails as
        /// [`TooLarge`](crate::SendError::TooLarge); errors always fit. Default 4 MiB.
        max_batch_reply_bytes: usize = 4 << 20,
        /// The most items of our batches. Default 100.
        max_batch_calls: usize = 100,
        /// The most of our calls that are joined into one batch while they wait for the driver. A
        /// batch also ends at a notification, 64 KiB or `max_batch_calls`. Default 1: none.
        max_joined_calls: usize = 1,
        /// The longest accepted id, in bytes with its quotes. A longer one is answered −32600 with
        /// a null id. Needs that much per open request. Default 2048.
        max_id_bytes: usize = 2048,
        /// The longest accepted method, in bytes as written, without quotes. A longer one is
        /// answered −32600. Default 2048, as in Ethereum nodes.
        max_method_bytes: usize = 2048,
        /// The largest `data` of our errors, in bytes. A larger one fails as
        /// [`TooLarge`](crate::SendError::TooLarge); sessions and routers then send code and message
        /// alone, and report it. Default 64 KiB.
        max_error_data_bytes: usize = 64 << 10,
        /// The most open calls of ours. Further ones fail as
        /// [`TooManyCalls`](crate::SendError::TooManyCalls). Needs 16 bytes and the tag per call.
        /// Default 65 536.
        max_open_calls: usize = 65_536,
        /// The most open requests of the peer. Further ones are answered with the busy error of
        /// `error_profile` (−32002 by default). Reading goes on, because open ones may wait for
        /// answers. Default 1280: 256 running and 1024 waiting.
        max_open_requests: usize = 256 + 1024,
        /// The most unmatched responses; one more breaks the connection. Default `u64::MAX`.
        max_unmatched_responses: u64 = u64::MAX,
        /// The most malformed messages; one more breaks the connection. Default `u64::MAX`.
        max_malformed_messages: u64 = u64::MAX,
        /// If more output than this many bytes waits, new calls and notifications fail as
        /// [`Full`](crate::SendError::Full); answers are still sent. Default 1 MiB.
        soft_max_outbox_bytes: usize = 1 << 20,
        /// If more output than this many bytes waits, the connection breaks, because the peer does
        /// not read. A single larger message fails as [`TooLarge`](crate::SendError::TooLarge).
        /// Default 16 MiB.
        max_outbox_bytes: usize = 16 << 20,
    }
}

options! {
    /// The timeouts of a connection. `None` waits for ever. Calls have their own deadlines, see
    /// [`Connection::call`](crate::Connection::call).
    Timeouts in timeouts {
        /// How long a message may take from its first byte to its last. Default 60 s.
        message_timeout: Option<Duration> = Some(Duration::from_secs(60)),
        /// How long output may wait while none of it is written. Default 60 s.
        write_timeout: Option<Duration> = Some(Duration::from_secs(60)),
        /// How long a drain may take; a close does not wait. Default 30 s.
        drain_timeout: Option<Duration> = Some(Duration::from_secs(30)),
    }
}

/// Whether this side answers what is not valid and what is over a size limit: text that is not JSON,
/// objects that are neither a valid request nor a response, messages and batches over their limit.
/// All of it is reported. Valid requests of the peer are delivered, and answered, in every role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Calls and is called: they are answered with an error.
    Peer,
    /// Calls: they are never answered, because a server awaits no answers.
    Client,
    /// Is called: they are answered with an error.
    Server,
}

/// The effect of a binary WebSocket message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinaryMessages {
    /// It closes the connection with 1003 (RFC 6455 clause 7.4.1).
    Close,
    /// It is read as a text message. If it is not UTF-8, it closes the connection with 1007. Text
    /// is still sent. For peers that send JSON in binary messages, as web3.py and pygls do.
    AsText,
    /// It is skipped without being stored.
    Ignore,
}

/// Which versions of JSON-RPC are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionPolicy {
    /// 2.0 only. A message without a version is invalid.
    V2Only,
    /// Both are accepted, and each is answered in its own version. Our own calls are 2.0.
    V1AndV2,
    /// 1.0 only, in both directions.
    V1Only,
}

impl VersionPolicy {
    pub(crate) fn allows_v1(self) -> bool {
        self != Self::V2Only
    }

    pub(crate) fn allows_v2(self) -> bool {
        self != Self::V1Only
    }
}

/// How a 1.0 request with a null id is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum V1NullId {
    /// A notification; nothing is sent.
    Silent,
    /// A notification that is acknowledged with result, error and id all null.
    AckAllNull,
    /// As any other request: answered with a null id (Bitcoin Core).
    Answer,
}

/// How `"params": null` is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullParams {
    /// As invalid (−32600), as in the specification.
    Reject,
    /// As absent params: some editors and nodes send it.
    TreatAsAbsent,
}

/// What happens to params by names that no parameter of the method has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownParams {
    /// The request is answered −32602, because a misspelt name of an optional parameter would
    /// otherwise go unnoticed.
    Reject,
    /// They are ignored, so that a peer of a later version of the protocol may send more.
    Ignore,
}

/// The id of an error for an invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidRequestId {
    /// The request's id, if it was readable and of an allowed type; else null.
    EchoIfReadable,
    /// Always null.
    AlwaysNull,
}

/// The id of an error that we send, if the request's id could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownId {
    /// `"id": null`, as in the specification.
    Null,
    /// No `id` member (MCP since 2025-11-25).
    Omit,
}

/// Whether a request with the id of an open request is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DuplicateIds {
    /// Both are served; the peer must distinguish the answers.
    Allow,
    /// The second is answered −32600.
    Reject,
}

/// The effect of an error with a null id on our calls, on a two-way connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullIdError {
    /// It is reported as unmatched. But an error about a size limit (−32004, or −32600 with the
    /// limit in bytes in its message or data) ends the one open call, or the calls that were joined
    /// into one batch if no others are open, if no other message was sent since.
    Report,
    /// It ends the one open call, or the calls of the one open batch; if there are more, it is
    /// reported.
    FailSole,
    /// It ends every open call.
    FailAll,
}

/// The effect of a response without an `id` member on an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingResponseId {
    /// It ends the exchange: an error ends every call, a result the only call, if there is just
    /// one. Gateways in front of a server refuse requests in this way.
    SoleExchange,
    /// It is malformed, as in the specification.
    Invalid,
}

/// The order of answers within a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOrder {
    /// The order of the requests.
    Request,
    /// The order in which they were answered.
    Completion,
}

/// How a message or batch over its limit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitErrors {
    /// −32004 for a message, −32003 for a batch, with a null id and the limit in the error message.
    Dedicated,
    /// −32600 with a null id and a sentence in `data` with the limit.
    Standard,
    /// As `Standard`, but a batch gets an array of one error with its first call's id (Ethereum).
    FirstCall,
    /// A message as in `Standard`, a batch as in `Dedicated`:
    /// [`for_websocket`](Config::for_websocket) sets it in place of `Dedicated`.
    WebSocket,
}

/// A dialect's notification that cancels a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelStyle {
    /// There is none.
    None,
    /// `$/cancelRequest` with `id` (LSP).
    Lsp,
    /// `notifications/cancelled` with `requestId` and an optional `reason` (MCP).
    Mcp,
    /// `$/cancel_request` with `requestId` (ACP).
    Acp,
    /// Any other. This is a reference so that each connection holds 48 bytes less.
    Custom(&'static CancelNotice),
}

/// A notification that cancels a request, for [`CancelStyle::Custom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelNotice {
    /// The method of the notification.
    pub method: &'static str,
    /// The member of its params with the id.
    pub member: &'static str,
}

impl CancelStyle {
    /// The method and the member with the id; `None` for [`CancelStyle::None`].
    pub(crate) const fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::None => None,
            Self::Lsp => Some(("$/cancelRequest", "id")),
            Self::Mcp => Some(("notifications/cancelled", "requestId")),
            Self::Acp => Some(("$/cancel_request", "requestId")),
            Self::Custom(notice) => Some((notice.method, notice.member)),
        }
    }
}

/// How a cancel finds its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelMatch {
    /// By type and value of the id.
    Exact,
    /// If no id is equal, by the text: `"7"` cancels 7 if exactly one open request matches. For
    /// peers that turn ids into strings; a late cancel could match another request.
    ExactThenText,
}

/// The answer to a cancelled request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelAnswer {
    /// −32001 (antiphon's own).
    RequestCancelled,
    /// −32800 (LSP, ACP).
    Lsp,
    /// No answer: the request ends when it is cancelled (MCP).
    Silent,
}

impl CancelAnswer {
    /// The code of the answer; `None` if there is no answer.
    pub(crate) fn code(self) -> Option<i64> {
        match self {
            Self::RequestCancelled => Some(codes::REQUEST_CANCELLED),
            Self::Lsp => Some(codes::LSP_REQUEST_CANCELLED),
            Self::Silent => None,
        }
    }
}

/// The messages by which the peer ends the connection, and how long they may be held up by handlers.
/// It has an effect on a [`Session`](crate::session::Session) and in the adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndStyle {
    /// There are none: only the end of the stream ends the connection.
    None,
    /// The request `shutdown` and the notification `exit` (LSP). A `shutdown` begins 1 s after it
    /// has come at the latest, even if the handler of a notification before it still runs. With `exit`
    /// a drain begins at once: our open calls end, requests that came before are answered if they are
    /// done within `drain_timeout`, and no handler of a notification is awaited.
    Lsp,
}

impl Config {
    /// Strict JSON-RPC 2.0 between peers, newline framing, every default as documented.
    pub const fn new() -> Self {
        Self {
            connection: 0,
            role: Role::Peer,
            framing: Framing::Newline,
            exchange: false,
            streams: false,
            first_call: 1,
            dialect: Dialect::DEFAULT,
            limits: Limits::DEFAULT,
            timeouts: Timeouts::DEFAULT,
        }
    }

    /// Sets the framing.
    pub const fn framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Sets the role.
    pub const fn role(mut self, role: Role) -> Self {
        self.role = role;
        self
    }

    /// Configures the client's side of one exchange, as over HTTP: whole messages, client role.
    pub const fn for_client_exchange(mut self) -> Self {
        self.exchange = true;
        self.role = Role::Client;
        self.framing = Framing::Messages;
        self
    }

    /// Configures the server's side of one exchange, as over HTTP. Calls and notifications fail.
    pub const fn for_server_exchange(mut self) -> Self {
        self.exchange = true;
        self.role = Role::Server;
        self.framing = Framing::Messages;
        self
    }

    /// As [`for_server_exchange`](Self::for_server_exchange), but it may notify before it answers.
    pub const fn for_streaming_exchange(mut self) -> Self {
        self.streams = true;
        self.for_server_exchange()
    }

    /// Configures the connection for WebSocket: whole messages. A message over the limit is answered
    /// −32600 before the connection closes with 1009. A batch over its limit is answered as over any
    /// other transport.
    pub const fn for_websocket(mut self) -> Self {
        self.framing = Framing::Messages;
        if matches!(self.dialect.limit_errors, LimitErrors::Dedicated) {
            self.dialect.limit_errors = LimitErrors::WebSocket;
        }
        self
    }

    /// Whether this side can call: not as the server of an HTTP exchange.
    pub const fn can_call(&self) -> bool {
        !(self.exchange && matches!(self.role, Role::Server))
    }

    /// Whether this side can notify: as such a server only until its answer, in a [stream](Self::streams).
    pub const fn can_notify(&self) -> bool {
        self.streams || self.can_call()
    }

    /// The most bytes that the connection leaves unconsumed. An input buffer of this size always
    /// has space for the rest of a message.
    pub const fn max_input_bytes(&self) -> usize {
        Framer::new(
            self.framing,
            self.limits.max_message_bytes,
            self.limits.max_header_bytes,
        )
        .max_input_bytes()
    }

    pub(crate) const fn frame_limits(&self) -> FrameLimits {
        FrameLimits {
            max_frame_bytes: self.limits.max_message_bytes,
            max_header_bytes: self.limits.max_header_bytes,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
