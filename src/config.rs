//! What differs between one connection and another, as plain data: limits, policies, spans of
//! time. [`presets`](crate::presets) has the values that live ecosystems need.
//!
//! A dialect is a value, never a fork in the code. Memory stays below
//! [`Config::max_memory_bytes`], whatever a peer sends.

use core::ops::Deref;
use core::time::Duration;

use crate::codes;
use crate::error_profile::ErrorProfile;
use crate::frame::{FrameLimits, Framer, Framing};
use crate::id::IdScheme;
use crate::progress::ProgressStyle;

/// All options of a [`Connection`](crate::Connection).
///
/// Owns no heap data and is `Copy`: make one, set what matters, use it for any number of
/// connections. Every combination of values is legal; a limit of 0 refuses everything it limits,
/// unless its field says otherwise. There is a setter for each field of the groups; fields can also
/// be changed in place.
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
    /// The number of this connection, carried by its tokens and call ids. One that is used on
    /// another connection is then refused instead of answering another request. Default 0.
    pub connection: u32,
    /// Whether unrecognisable objects are answered. Default [`Role::Peer`].
    pub role: Role,
    /// How messages are cut out of a stream, and how they are written. Default
    /// [`Framing::Newline`].
    pub framing: Framing,
    /// Whether the connection is a single exchange of request and reply, as over HTTP. A server
    /// then cannot call or notify; a client settles what its reply leaves out as
    /// [`Missing`](crate::Outcome::Missing), and an error without id settles all its calls.
    /// Default off.
    pub exchange: bool,
    /// The number of the first call. An HTTP client goes on from the exchange before, so that ids
    /// do not repeat within a session. Default 1.
    pub first_call: u64,
    /// What is said on the wire, and what is understood.
    pub dialect: Dialect,
    /// How much of everything.
    pub limits: Limits,
    /// How long everything.
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
    /// What is said on the wire and what is understood. [`Config::lsp`] and others know the
    /// dialects of live ecosystems.
    Dialect in dialect {
        /// What a binary WebSocket message does. Default [`BinaryMessages::Close`]. A WebSocket layer
        /// reads this; over any other transport it means nothing.
        binary: BinaryMessages = BinaryMessages::Close,
        /// Which versions are spoken. Default [`VersionPolicy::V2Only`].
        version: VersionPolicy = VersionPolicy::V2Only,
        /// What a 1.0 request with a null id is. Default [`V1NullId::Silent`].
        v1_null_id: V1NullId = V1NullId::Silent,
        /// Whether a 1.0 request without an id is answered, with a null id (Bitcoin Core), instead of
        /// being invalid. Default off.
        v1_missing_id: bool = false,
        /// Whether 1.0 messages may stand in a batch. Default on.
        v1_in_batch: bool = true,
        /// Whether 1.0 params may be an object (Bitcoin Core, Electrum). Default off.
        v1_named_params: bool = false,
        /// Whether a `jsonrpc` member other than `"2.0"` makes a message 1.0 (Bitcoin Core) instead of
        /// invalid. Needs a policy that allows 1.0. Default off.
        v1_other_versions: bool = false,
        /// What `"params": null` is. Default [`NullParams::Reject`].
        null_params: NullParams = NullParams::Reject,
        /// Whether a 2.0 response may also carry the other outcome as null, and a 1.0 response may
        /// leave it out. Default off.
        lenient_responses: bool = false,
        /// Whether a call of ours may be given a null id. Default off.
        allow_null_id: bool = false,
        /// Whether the peer's requests may have a null id, which MCP forbids. Default on.
        null_ids: bool = true,
        /// Whether `true` and `false` are ids in 2.0 as they are in 1.0 (Ethereum). Default off.
        boolean_ids: bool = false,
        /// The id of an error for an invalid request. Default
        /// [`InvalidRequestId::EchoIfReadable`].
        invalid_request_id: InvalidRequestId = InvalidRequestId::EchoIfReadable,
        /// What stands for an id that could not be determined. Default [`UnknownId::Null`].
        unknown_id: UnknownId = UnknownId::Null,
        /// Whether a second request with the id of an open one is served. Default
        /// [`DuplicateIds::Allow`].
        duplicate_ids: DuplicateIds = DuplicateIds::Allow,
        /// What an error without an id does to our calls on a two-way connection. Default
        /// [`NullIdError::Report`].
        null_id_error: NullIdError = NullIdError::Report,
        /// What a response without an `id` member does on an exchange, where it can only answer the
        /// request of that exchange. Default [`MissingResponseId::SoleExchange`]. On a two-way
        /// connection this means nothing.
        missing_response_id: MissingResponseId = MissingResponseId::SoleExchange,
        /// Whether batches are accepted and may be sent. Default on.
        batches: bool = true,
        /// The order of answers within a batch. Default [`BatchOrder::Request`].
        batch_order: BatchOrder = BatchOrder::Request,
        /// Which codes tell of a message or batch over its limit. Default
        /// [`LimitErrors::Dedicated`].
        limit_errors: LimitErrors = LimitErrors::Dedicated,
        /// The meaning of the server range for errors made here. Default
        /// [`ErrorProfile::Antiphon`].
        error_profile: ErrorProfile = ErrorProfile::Antiphon,
        /// Whether [`respond_err`](crate::Connection::respond_err) refuses codes of the reserved range
        /// that neither the specification nor antiphon defines. Default off.
        check_app_codes: bool = false,
        /// Whether [`respond_unknown_method`](crate::Connection::respond_unknown_method) names the
        /// method in its error's data. Default off.
        echo_method_names: bool = false,
        /// How the peer is told of a call we gave up. Default [`CancelStyle::None`].
        cancel_send: CancelStyle = CancelStyle::None,
        /// Which cancels of the peer are understood. Default [`CancelStyle::Lsp`].
        cancel_receive: CancelStyle = CancelStyle::Lsp,
        /// How a cancel finds its request. Default [`CancelMatch::Exact`].
        cancel_match: CancelMatch = CancelMatch::Exact,
        /// Whether a call that times out is also cancelled at the peer. Default off.
        cancel_on_timeout: bool = false,
        /// What a cancelled request is answered. Default [`CancelAnswer::RequestCancelled`].
        cancel_answer: CancelAnswer = CancelAnswer::RequestCancelled,
        /// How progress of a request is told. Default [`ProgressStyle::None`].
        progress: ProgressStyle = ProgressStyle::None,
        /// How the ids of our calls are spelled. Default [`IdScheme::Sequential`].
        id_scheme: IdScheme = IdScheme::Sequential,
        /// Whether braces inside strings are written as `\u007b` and `\u007d`, for a reader that
        /// counts braces without knowing strings (Kodi). Default off.
        escape_braces: bool = false,
    }
}

options! {
    /// The limits of a connection. What the peer sees at each is told with it.
    Limits in limits {
        /// The largest message accepted, in bytes. Larger ones are skipped without being held, and
        /// answered −32004 with a null id. Costs that much input buffer. Default 1 MiB (1 048 576).
        max_message_bytes: usize = 1 << 20,
        /// The longest header block accepted before a message (Content-Length), in bytes. A longer one
        /// breaks the connection. Default 8 KiB, as common HTTP servers have it.
        max_header_bytes: usize = 8 << 10,
        /// How deep arrays and objects may nest, 1 to 128; 0 is read as 1, more as 128. A deeper
        /// message is answered −32700. Default 128, as serde_json has it.
        max_depth: u8 = 128,
        /// The most items in a batch of the peer's. A longer one is answered −32003, and nothing in it
        /// runs. Costs about 140 bytes an item. Default 100.
        max_batch_items: usize = 100,
        /// The largest answer to one batch, in bytes. A result that would pass it is refused to the
        /// caller as [`TooLarge`](crate::SendError::TooLarge); errors always fit. Default 4 MiB.
        max_batch_reply_bytes: usize = 4 << 20,
        /// The most items in a batch of ours. Default 100.
        max_batch_calls: usize = 100,
        /// The most calls of ours that leave as one batch if they wait for the driver together; a
        /// notification between, 64 KiB and `max_batch_calls` end it. Default 1: none.
        max_joined_calls: usize = 1,
        /// The longest id accepted, in bytes with its quotes. A longer one is answered −32600 with a
        /// null id. Costs that much an open request. Default 2048.
        max_id_bytes: usize = 2048,
        /// The longest method accepted, in bytes as written, quotes left out. A longer one is answered
        /// −32600. Default 2048, as Ethereum nodes have it.
        max_method_bytes: usize = 2048,
        /// The largest `data` of an error we send, in bytes. A larger one is refused to the caller as
        /// [`TooLarge`](crate::SendError::TooLarge). Default 64 KiB.
        max_error_data_bytes: usize = 64 << 10,
        /// The most calls of ours that wait for an answer. Further ones are refused to the caller as
        /// [`TooManyCalls`](crate::SendError::TooManyCalls). Costs 16 bytes and the tag a call.
        /// Default 65 536.
        max_open_calls: usize = 65_536,
        /// The most requests of the peer's that are open. Further ones are answered with the busy
        /// error of `error_profile` (−32002 by default). Reading goes on, because the open ones may
        /// wait for answers. Default 1088: 64 running and 1024 waiting.
        max_open_requests: usize = 64 + 1024,
        /// The most unmatched responses before the connection is broken. Default `u64::MAX`: never.
        max_unmatched_responses: u64 = u64::MAX,
        /// The most malformed messages before the connection is broken. Default `u64::MAX`: never.
        max_malformed_messages: u64 = u64::MAX,
        /// Output waiting above this many bytes makes new calls and notifications
        /// [`Full`](crate::SendError::Full); answers still go. Default 1 MiB.
        soft_max_outbox_bytes: usize = 1 << 20,
        /// Output waiting above this many bytes breaks the connection: the peer asks but does not
        /// read. A single larger message is refused as [`TooLarge`](crate::SendError::TooLarge).
        /// Default 16 MiB.
        max_outbox_bytes: usize = 16 << 20,
    }
}

options! {
    /// How long things may take. `None` waits for ever.
    Timeouts in timeouts {
        /// How long a message may take from its first byte to its last. Default 60 s.
        message_timeout: Option<Duration> = Some(Duration::from_secs(60)),
        /// How long waiting output may go without any of it being taken. Default 60 s.
        write_timeout: Option<Duration> = Some(Duration::from_secs(60)),
        /// How long a drain may take before open work is given up; a close ends at once. Default 30 s.
        drain_timeout: Option<Duration> = Some(Duration::from_secs(30)),
    }
}

/// What a [`Connection`](crate::Connection) keeps to: a [`Config`] that it holds, or a type with a
/// [`FixedConfig`]. There are no others.
pub trait Settings {
    /// The framing, where it is known when the program is built.
    const FRAMING: Option<Framing>;

    /// Whether there may be batches: not, where it is known when the program is built that they are
    /// switched off.
    const BATCHES: bool;

    /// The configuration, always the same.
    fn config(&self) -> &Config;
}

impl Settings for Config {
    const FRAMING: Option<Framing> = None;
    const BATCHES: bool = true;

    #[inline]
    fn config(&self) -> &Config {
        self
    }
}

/// A configuration that is known when the program is built, for small devices: a connection does
/// not hold it, and what it switches off is left out of the program.
///
/// ```
/// use antiphon::{CancelStyle, Config, Connection, FixedConfig};
///
/// struct Thermostat;
///
/// impl FixedConfig for Thermostat {
///     const CONFIG: Config = Config::new()
///         .max_message_bytes(1024)
///         .batches(false)
///         .cancel_receive(CancelStyle::None);
/// }
///
/// let conn: Connection<(), Thermostat> = Connection::fixed(Thermostat);
/// assert_eq!(conn.config().limits.max_message_bytes, 1024);
/// assert!(size_of_val(&conn) <= size_of::<Connection>() - size_of::<Config>());
/// ```
pub trait FixedConfig {
    /// The configuration.
    const CONFIG: Config;
}

impl<F: FixedConfig> Settings for F {
    const FRAMING: Option<Framing> = Some(F::CONFIG.framing);
    const BATCHES: bool = F::CONFIG.dialect.batches;

    #[inline]
    fn config(&self) -> &Config {
        const { &F::CONFIG }
    }
}

/// Settings, read as the configuration that they have.
pub(crate) struct Settled<S>(pub(crate) S);

impl<S: Settings> Deref for Settled<S> {
    type Target = Config;

    #[inline]
    fn deref(&self) -> &Config {
        self.0.config()
    }
}

/// Whether an object that is neither call nor response is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Calls and is called: answered −32600.
    Peer,
    /// Calls only: reported, never answered.
    Client,
    /// Is called only: answered −32600.
    Server,
}

/// What a binary WebSocket message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BinaryMessages {
    /// It closes the connection with 1003 (RFC 6455 clause 7.4.1).
    Close,
    /// It is read as a text message. One that is not UTF-8 closes the connection with 1007. What
    /// is sent stays text. For peers that send their JSON in binary messages, as web3.py and pygls
    /// do.
    AsText,
    /// It is skipped without being held.
    Ignore,
}

/// Which versions of JSON-RPC are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionPolicy {
    /// 2.0 only. A message without a version is invalid.
    V2Only,
    /// Both are understood, each answered in kind. Our own calls are 2.0.
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

/// What a 1.0 request with a null id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum V1NullId {
    /// A notification; nothing is sent.
    Silent,
    /// A notification that is acknowledged with result, error and id all null.
    AckAllNull,
    /// A request like any other, answered with a null id (Bitcoin Core).
    Answer,
}

/// What `"params": null` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullParams {
    /// Invalid (−32600), as the specification has it.
    Reject,
    /// Absent params: some editors and nodes send it.
    TreatAsAbsent,
}

/// The id of an error for an invalid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidRequestId {
    /// The request's id, if one of legal type could be read; else null.
    EchoIfReadable,
    /// Always null.
    AlwaysNull,
}

/// What stands for an id that could not be determined, in an error we send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownId {
    /// `"id": null`, as the specification has it.
    Null,
    /// No `id` member (MCP since 2025-11-25).
    Omit,
}

/// Whether a request with the id of an open one is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DuplicateIds {
    /// Both are served; the peer must tell the answers apart.
    Allow,
    /// The second is answered −32600.
    Reject,
}

/// What an error with a null id does to our calls on a two-way connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NullIdError {
    /// It is reported as unmatched. An error that names a size limit (−32004, or −32600 with the
    /// limit in bytes in its message or data) fails the calls of the one message that all are in, if
    /// nothing else was sent since.
    Report,
    /// It settles the one call, or the one batch, that is open; reported if there are more.
    FailSole,
    /// It settles every open call.
    FailAll,
}

/// What a response without an `id` member does on an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingResponseId {
    /// It settles the exchange: an error ends every call of it, a result the call if there is one.
    /// Gateways in front of a server refuse requests this way.
    SoleExchange,
    /// It is malformed, as the specification has it.
    Invalid,
}

/// The order of answers within a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOrder {
    /// As asked.
    Request,
    /// As answered.
    Completion,
}

/// How a message or batch over its limit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitErrors {
    /// −32004 for a message, −32003 for a batch, with a null id and the limit in the message.
    Dedicated,
    /// −32600 with a null id and a sentence in `data` that names the limit.
    Standard,
    /// As `Standard`, but for a batch an array of one error with the id of its first call
    /// (Ethereum nodes).
    FirstCall,
}

/// A dialect's notification for giving up a request.
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
    /// Any other.
    Custom {
        /// The notification's method.
        method: &'static str,
        /// The member of its params that holds the id.
        member: &'static str,
    },
}

impl CancelStyle {
    /// The method and the member with the id; none for [`CancelStyle::None`].
    pub(crate) const fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::None => None,
            Self::Lsp => Some(("$/cancelRequest", "id")),
            Self::Mcp => Some(("notifications/cancelled", "requestId")),
            Self::Acp => Some(("$/cancel_request", "requestId")),
            Self::Custom { method, member } => Some((method, member)),
        }
    }
}

/// How a cancel finds its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelMatch {
    /// By type and value of the id.
    Exact,
    /// Failing that, by the text: `"7"` cancels 7 if exactly one open request fits. For peers that
    /// turn ids into strings; a stale cancel could hit another request.
    ExactThenText,
}

/// What a cancelled request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelAnswer {
    /// −32001 (antiphon's own).
    RequestCancelled,
    /// −32800 (LSP, ACP).
    Lsp,
    /// Nothing: the request is forgotten at once (MCP).
    Silent,
}

impl CancelAnswer {
    /// The code to answer with; none when nothing is to be sent.
    pub(crate) fn code(self) -> Option<i64> {
        match self {
            Self::RequestCancelled => Some(codes::REQUEST_CANCELLED),
            Self::Lsp => Some(codes::LSP_REQUEST_CANCELLED),
            Self::Silent => None,
        }
    }
}

impl Config {
    /// Strict JSON-RPC 2.0 between peers, newline framing, every default as documented.
    pub const fn new() -> Self {
        Self {
            connection: 0,
            role: Role::Peer,
            framing: Framing::Newline,
            exchange: false,
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

    /// Configures the client's side of one request and its reply, as over HTTP: whole messages,
    /// client role.
    pub const fn for_client_exchange(mut self) -> Self {
        self.exchange = true;
        self.role = Role::Client;
        self.framing = Framing::Messages;
        self
    }

    /// Configures the server's side of one request and its reply, as over HTTP: whole messages,
    /// server role. Calls and notifications are refused, because nothing can carry them.
    pub const fn for_server_exchange(mut self) -> Self {
        self.exchange = true;
        self.role = Role::Server;
        self.framing = Framing::Messages;
        self
    }

    /// Configures the connection for WebSocket: whole messages, and an over-limit one is answered
    /// −32600 instead of −32004, before the connection closes with 1009.
    pub const fn for_websocket(mut self) -> Self {
        self.framing = Framing::Messages;
        if matches!(self.dialect.limit_errors, LimitErrors::Dedicated) {
            self.dialect.limit_errors = LimitErrors::Standard;
        }
        self
    }

    /// The most bytes that the connection leaves unconsumed. An input buffer of this size is never
    /// full without progress.
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
