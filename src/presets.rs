//! The dialects of existing protocols. Each is a [`Config`] that differs from the strict default
//! only in the fields that its function sets.
//!
//! Where a preset is lenient, the protocol's own documents or its most used programs require it.

use core::time::Duration;

use crate::config::{
    BinaryMessages, CancelAnswer, CancelStyle, Config, DuplicateIds, EndStyle, LimitErrors,
    NullParams, UnknownId, UnknownParams, V1NullId, VersionPolicy,
};
use crate::error_profile::ErrorProfile;
use crate::frame::Framing;
use crate::subscription::ProgressStyle;

/// The time limit of a drain if the other side is an editor or an MCP host. VS Code and the SDKs of MCP kill
/// a server that still runs 2 s after its end, so it has to be over before.
const EDITOR_DRAIN_TIMEOUT: Duration = Duration::from_millis(1500);

/// A published revision of the Model Context Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum McpRevision {
    /// 2024-11-05: no batches.
    V2024_11_05,
    /// 2025-03-26: the one revision with batches.
    V2025_03_26,
    /// 2025-06-18: batches removed again; the preset is that of 2024-11-05.
    V2025_06_18,
    /// 2025-11-25: an error for an unknown id leaves `id` out.
    V2025_11_25,
    /// 2026-07-28: stateless; the preset is that of 2025-11-25.
    V2026_07_28,
}

impl McpRevision {
    /// All of them, the oldest first.
    pub const ALL: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The revision with this `protocolVersion`; `None` if it is unknown here.
    ///
    /// ```
    /// use antiphon::McpRevision;
    /// assert_eq!(McpRevision::of("2025-03-26"), Some(McpRevision::V2025_03_26));
    /// assert_eq!(McpRevision::of("1999-12-31"), None);
    /// ```
    pub fn of(version: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|revision| revision.as_str() == version)
    }

    /// The `protocolVersion` in the params and the result of `initialize`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }
}

/// A version of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AcpVersion {
    /// Version 1: no batches.
    V1,
    /// Version 2: batches.
    V2,
}

impl Config {
    /// Strict JSON-RPC 2.0: the same as [`Config::new`].
    pub const fn strict() -> Self {
        Self::new()
    }

    /// JSON-RPC 1.0 only, newline framing.
    pub const fn v1() -> Self {
        let mut config = Self::new();
        config.dialect.version = VersionPolicy::V1Only;
        config.dialect.batches = false;
        config
    }

    /// JSON-RPC 1.0 and 2.0, each request answered in its own version; our own calls are 2.0.
    pub const fn mixed() -> Self {
        let mut config = Self::new();
        config.dialect.version = VersionPolicy::V1AndV2;
        config
    }

    /// Language Server Protocol 3.17: Content-Length framing, `$/cancelRequest` both ways, also for a
    /// call of ours that times out, a cancelled request answered −32800, a busy server −32803, no
    /// batches, progress by `$/progress`, and [`EndStyle::Lsp`], so that a slow handler does not hold up
    /// `shutdown` and `exit`. `params: null` is read as absent, because editors send it with `shutdown`.
    /// Names of params that a method does not know are ignored, because later versions add some.
    /// Messages up to 64 MiB, because editors send whole documents. A binary WebSocket message is
    /// read as text, because pygls sends such messages. A drain lasts 1.5 s at most, because the
    /// editor may have ended, and kills a server that runs on for 2 s. `rpc.discover` and `rpc.listMethods` are off unless a router asks for
    /// them.
    pub const fn lsp() -> Self {
        let mut config = Self::new();
        config.framing = Framing::ContentLength;
        config.dialect.binary = BinaryMessages::AsText;
        config.dialect.cancel_send = CancelStyle::Lsp;
        config.dialect.cancel_receive = CancelStyle::Lsp;
        config.dialect.cancel_on_timeout = true;
        config.dialect.cancel_answer = CancelAnswer::Lsp;
        config.dialect.end = EndStyle::Lsp;
        config.dialect.progress = ProgressStyle::Lsp;
        config.dialect.error_profile = ErrorProfile::Lsp;
        config.dialect.system_extensions = false;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.unknown_params = UnknownParams::Ignore;
        config.dialect.batches = false;
        config.timeouts.drain_timeout = Some(EDITOR_DRAIN_TIMEOUT);
        config.limits.max_message_bytes = 64 << 20;
        config.limits.soft_max_outbox_bytes = 64 << 20;
        config.limits.max_outbox_bytes = 128 << 20;
        config
    }

    /// Model Context Protocol over stdio: newline framing, `notifications/cancelled` both ways, also for
    /// a call of ours that times out, no answer to a cancelled request, a busy server answers −32603, ids
    /// never null and never shared by two open requests, progress by `notifications/progress`. Messages up to 16 MiB, because
    /// tool results carry files. `params: null` is read as absent. Names of params that a method does
    /// not know are ignored, because every revision adds some. A drain lasts 1.5 s at most,
    /// because the host may have ended, and kills a server that runs on for 2 s.
    pub const fn mcp(revision: McpRevision) -> Self {
        let mut config = Self::new();
        config.dialect.cancel_send = CancelStyle::Mcp;
        config.dialect.cancel_receive = CancelStyle::Mcp;
        config.dialect.cancel_on_timeout = true;
        config.dialect.cancel_answer = CancelAnswer::Silent;
        config.dialect.progress = ProgressStyle::Mcp;
        config.dialect.error_profile = ErrorProfile::Mcp;
        config.dialect.system_extensions = false;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.unknown_params = UnknownParams::Ignore;
        config.dialect.null_ids = false;
        config.dialect.duplicate_ids = DuplicateIds::Reject;
        config.dialect.batches = matches!(revision, McpRevision::V2025_03_26);
        config.dialect.unknown_id = match revision {
            McpRevision::V2024_11_05 | McpRevision::V2025_03_26 | McpRevision::V2025_06_18 => {
                UnknownId::Null
            }
            McpRevision::V2025_11_25 | McpRevision::V2026_07_28 => UnknownId::Omit,
        };
        config.timeouts.drain_timeout = Some(EDITOR_DRAIN_TIMEOUT);
        config.limits.max_message_bytes = 16 << 20;
        config.limits.soft_max_outbox_bytes = 16 << 20;
        config.limits.max_outbox_bytes = 64 << 20;
        config
    }

    /// Agent Client Protocol over stdio: newline framing, `$/cancel_request` both ways, also for a call
    /// of ours that times out, a cancelled request answered −32800, a busy server −32603, because in ACP −32002 means that a resource
    /// was not found. `params: null` is read as absent. Messages up to 16 MiB. `rpc.discover` and
    /// `rpc.listMethods` are off unless a router asks for them.
    pub const fn acp(version: AcpVersion) -> Self {
        let mut config = Self::new();
        config.dialect.cancel_send = CancelStyle::Acp;
        config.dialect.cancel_receive = CancelStyle::Acp;
        config.dialect.cancel_on_timeout = true;
        config.dialect.cancel_answer = CancelAnswer::Lsp;
        config.dialect.error_profile = ErrorProfile::Mcp;
        config.dialect.system_extensions = false;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.batches = matches!(version, AcpVersion::V2);
        config.limits.max_message_bytes = 16 << 20;
        config.limits.soft_max_outbox_bytes = 16 << 20;
        config.limits.max_outbox_bytes = 64 << 20;
        config
    }

    /// Ethereum nodes over IPC: JSON values without a separator, any scalar as id, `params: null`
    /// read as absent, no cancelling, 1000 items and 25 MB of answers per batch, messages up to 5
    /// MiB, and a batch over its limit answered with an array of one error for its first call. A
    /// binary WebSocket message is read as text, because web3.py sends such messages. For HTTP add
    /// [`for_client_exchange`](Config::for_client_exchange) or
    /// [`for_server_exchange`](Config::for_server_exchange).
    pub const fn ethereum() -> Self {
        let mut config = Self::new();
        config.framing = Framing::Concatenated;
        config.dialect.binary = BinaryMessages::AsText;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.boolean_ids = true;
        config.dialect.cancel_receive = CancelStyle::None;
        config.dialect.limit_errors = LimitErrors::FirstCall;
        config.limits.max_message_bytes = 5 << 20;
        config.limits.max_batch_items = 1000;
        config.limits.max_batch_calls = 1000;
        config.limits.max_batch_reply_bytes = 25_000_000;
        config.limits.max_outbox_bytes = 64 << 20;
        config
    }

    /// Bitcoin Core since version 28, with JSON-RPC 2.0: whole messages over HTTP, any scalar as
    /// id, `params: null` read as absent, no cancelling, messages up to 32 MiB. Add
    /// [`for_client_exchange`](Config::for_client_exchange) or
    /// [`for_server_exchange`](Config::for_server_exchange).
    pub const fn bitcoin() -> Self {
        let mut config = Self::new();
        config.framing = Framing::Messages;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.boolean_ids = true;
        config.dialect.cancel_receive = CancelStyle::None;
        config.dialect.limit_errors = LimitErrors::Standard;
        config.limits.max_message_bytes = 32 << 20;
        config.limits.max_batch_items = 1000;
        config.limits.max_batch_calls = 1000;
        config.limits.max_batch_reply_bytes = 32 << 20;
        config.limits.max_outbox_bytes = 64 << 20;
        config
    }

    /// Bitcoin Core's mixture of 1.1 and 2.0: a request without `"jsonrpc": "2.0"` may have params
    /// by name, is answered with both `result` and `error`, and is answered also if its id is null
    /// or missing. Received answers may have both members, if one of them is null.
    pub const fn bitcoin_legacy() -> Self {
        let mut config = Self::bitcoin();
        config.dialect.version = VersionPolicy::V1AndV2;
        config.dialect.v1_other_versions = true;
        config.dialect.v1_named_params = true;
        config.dialect.v1_missing_id = true;
        config.dialect.v1_null_id = V1NullId::Answer;
        config.dialect.lenient_responses = true;
        config
    }

    /// Electrum servers: newline framing, a version that is often left out, params by name even
    /// then, answers that may leave `error` out. A request that claims 2.0 is read as 2.0: without
    /// an id it is a notification.
    pub const fn electrum() -> Self {
        let mut config = Self::new();
        config.dialect.version = VersionPolicy::V1AndV2;
        config.dialect.v1_named_params = true;
        config.dialect.v1_null_id = V1NullId::Answer;
        config.dialect.lenient_responses = true;
        config.dialect.boolean_ids = true;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.cancel_receive = CancelStyle::None;
        config.limits.max_message_bytes = 4 << 20;
        config.limits.max_batch_items = 345;
        config.limits.max_batch_calls = 345;
        config
    }

    /// Kodi over TCP: JSON objects without a separator, braces in strings written as escapes
    /// because Kodi counts braces, `params: null` read as absent, no cancelling.
    pub const fn kodi() -> Self {
        let mut config = Self::new();
        config.framing = Framing::Concatenated;
        config.dialect.escape_braces = true;
        config.dialect.null_params = NullParams::TreatAsAbsent;
        config.dialect.cancel_receive = CancelStyle::None;
        config
    }
}
