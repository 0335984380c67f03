//! `config` lines to a [`Config`]: a preset by name, then `knob=value` words.
//!
//! The table of [`KNOBS`] names every field of `Config` and, unless it is a number or a duration, every
//! value; `coverage` checks that a case shows the effect of each.

use core::time::Duration;

use antiphon::{
    AcpVersion, BatchOrder, BinaryMessages, CancelAnswer, CancelMatch, CancelNotice, CancelStyle,
    Config, DuplicateIds, ErrorProfile, Framing, IdScheme, InvalidRequestId, LimitErrors,
    McpRevision, MissingResponseId, NullIdError, NullParams, ProgressStyle, Role, UnknownId,
    UnknownParams, V1NullId, VersionPolicy,
};

/// One field of `Config`, by name.
pub(crate) struct Knob {
    pub(crate) name: &'static str,
    /// All values; empty for a number or a duration.
    pub(crate) values: &'static [&'static str],
    set: fn(&mut Config, &str) -> bool,
    pub(crate) get: fn(&Config) -> String,
}

/// The last name of a path: `max_depth` of `limits.max_depth`.
const fn last(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut at = bytes.len();
    while at > 0 && (bytes[at - 1] == b'_' || bytes[at - 1].is_ascii_alphanumeric()) {
        at -= 1;
    }
    match core::str::from_utf8(bytes.split_at(at).1) {
        Ok(name) => name,
        Err(_) => path,
    }
}

macro_rules! choice {
    ($($path:ident).+, $kind:ident, [$($value:ident),+]) => {
        Knob {
            name: last(stringify!($($path).+)),
            values: &[$(stringify!($value)),+],
            set: |config, text| {
                let value = match text {
                    $(stringify!($value) => $kind::$value,)+
                    _ => return false,
                };
                config.$($path).+ = value;
                true
            },
            get: |config| format!("{:?}", config.$($path).+),
        }
    };
}

macro_rules! switch {
    ($($path:ident).+) => {
        Knob {
            name: last(stringify!($($path).+)),
            values: &["on", "off"],
            set: |config, text| {
                config.$($path).+ = text == "on";
                text == "on" || text == "off"
            },
            get: |config| String::from(if config.$($path).+ { "on" } else { "off" }),
        }
    };
}

macro_rules! number {
    ($($path:ident).+) => {
        Knob {
            name: last(stringify!($($path).+)),
            values: &[],
            set: |config, text| match text.parse() {
                Ok(value) => {
                    config.$($path).+ = value;
                    true
                }
                Err(_) => false,
            },
            get: |config| config.$($path).+.to_string(),
        }
    };
}

macro_rules! span {
    ($($path:ident).+) => {
        Knob {
            name: last(stringify!($($path).+)),
            values: &[],
            set: |config, text| {
                config.$($path).+ = match (text, text.strip_suffix("ms")) {
                    ("never", _) => None,
                    (_, Some(millis)) => match millis.parse() {
                        Ok(millis) => Some(Duration::from_millis(millis)),
                        Err(_) => return false,
                    },
                    _ => return false,
                };
                true
            },
            get: |config| match config.$($path).+ {
                Some(span) => format!("{}ms", span.as_millis()),
                None => String::from("never"),
            },
        }
    };
}

/// What `Custom` stands for in a `config` line: a cancel that no preset has.
const CUSTOM: CancelStyle = CancelStyle::Custom(&CancelNotice {
    method: "stop",
    member: "what",
});
/// What `Uuid` stands for. With its version and its variant set, this is `a1b2c3d4-e5f6-4718-a93a`.
const UUID: IdScheme = IdScheme::Uuid([0xA1, 0xB2, 0xC3, 0xD4, 0xE5, 0xF6, 0x07, 0x18, 0x29, 0x3A]);

macro_rules! cancel_style {
    ($($path:ident).+) => {
        Knob {
            name: last(stringify!($($path).+)),
            values: &["None", "Lsp", "Mcp", "Acp", "Custom"],
            set: |config, text| {
                config.$($path).+ = match text {
                    "None" => CancelStyle::None,
                    "Lsp" => CancelStyle::Lsp,
                    "Mcp" => CancelStyle::Mcp,
                    "Acp" => CancelStyle::Acp,
                    "Custom" => CUSTOM,
                    _ => return false,
                };
                true
            },
            get: |config| match config.$($path).+ {
                CancelStyle::Custom(_) => String::from("Custom"),
                other => format!("{other:?}"),
            },
        }
    };
}

/// The fields of `Config` that routers read, and that do nothing to a connection without one:
/// `tests/api/router.rs` has their cases.
pub(crate) const OF_ROUTERS: [&str; 5] = [
    "end",
    "unhandled",
    "expose_error_detail",
    "expose_stack_trace",
    "system_extensions",
];

/// Every other field of `Config`.
pub(crate) static KNOBS: &[Knob] = &[
    number!(connection),
    choice!(role, Role, [Peer, Client, Server]),
    choice!(
        framing,
        Framing,
        [Newline, ContentLength, Concatenated, Messages, Detect]
    ),
    switch!(exchange),
    switch!(streams),
    choice!(dialect.binary, BinaryMessages, [Close, AsText, Ignore]),
    choice!(dialect.version, VersionPolicy, [V2Only, V1AndV2, V1Only]),
    choice!(dialect.v1_null_id, V1NullId, [Silent, AckAllNull, Answer]),
    switch!(dialect.v1_missing_id),
    switch!(dialect.v1_in_batch),
    switch!(dialect.v1_named_params),
    switch!(dialect.v1_other_versions),
    choice!(dialect.null_params, NullParams, [Reject, TreatAsAbsent]),
    choice!(dialect.unknown_params, UnknownParams, [Reject, Ignore]),
    switch!(dialect.lenient_responses),
    switch!(dialect.allow_null_id),
    switch!(dialect.null_ids),
    switch!(dialect.boolean_ids),
    choice!(
        dialect.invalid_request_id,
        InvalidRequestId,
        [EchoIfReadable, AlwaysNull]
    ),
    choice!(dialect.unknown_id, UnknownId, [Null, Omit]),
    choice!(dialect.duplicate_ids, DuplicateIds, [Allow, Reject]),
    choice!(
        dialect.null_id_error,
        NullIdError,
        [Report, FailSole, FailAll]
    ),
    choice!(
        dialect.missing_response_id,
        MissingResponseId,
        [SoleExchange, Invalid]
    ),
    switch!(dialect.batches),
    choice!(dialect.batch_order, BatchOrder, [Request, Completion]),
    choice!(
        dialect.limit_errors,
        LimitErrors,
        [Dedicated, Standard, FirstCall, WebSocket]
    ),
    choice!(
        dialect.error_profile,
        ErrorProfile,
        [Antiphon, WebSocketDraft, Lsp, Mcp]
    ),
    switch!(dialect.check_app_codes),
    switch!(dialect.echo_method_names),
    cancel_style!(dialect.cancel_send),
    cancel_style!(dialect.cancel_receive),
    choice!(dialect.cancel_match, CancelMatch, [Exact, ExactThenText]),
    switch!(dialect.cancel_on_timeout),
    choice!(
        dialect.cancel_answer,
        CancelAnswer,
        [RequestCancelled, Lsp, Silent]
    ),
    choice!(dialect.progress, ProgressStyle, [None, Lsp, Mcp]),
    Knob {
        name: "id_scheme",
        values: &["Sequential", "Prefixed", "Uuid", "Custom"],
        set: |config, text| {
            config.dialect.id_scheme = match text {
                "Sequential" => IdScheme::Sequential,
                "Prefixed" => IdScheme::Prefixed("srv-"),
                "Uuid" => UUID,
                "Custom" => IdScheme::Custom(|number| format!("web/{number}").into()),
                _ => return false,
            };
            true
        },
        get: |config| match config.dialect.id_scheme {
            IdScheme::Prefixed(_) => String::from("Prefixed"),
            IdScheme::Uuid(_) => String::from("Uuid"),
            IdScheme::Custom(_) => String::from("Custom"),
            other => format!("{other:?}"),
        },
    },
    number!(first_call),
    switch!(dialect.escape_braces),
    number!(limits.max_message_bytes),
    number!(limits.max_header_bytes),
    number!(limits.max_depth),
    number!(limits.max_batch_items),
    number!(limits.max_batch_reply_bytes),
    number!(limits.max_batch_calls),
    number!(limits.max_joined_calls),
    number!(limits.max_id_bytes),
    number!(limits.max_method_bytes),
    number!(limits.max_error_data_bytes),
    number!(limits.max_open_calls),
    number!(limits.max_open_requests),
    number!(limits.soft_max_outbox_bytes),
    number!(limits.max_outbox_bytes),
    number!(limits.max_unmatched_responses),
    number!(limits.max_malformed_messages),
    span!(timeouts.message_timeout),
    span!(timeouts.write_timeout),
    span!(timeouts.drain_timeout),
];

/// A configuration, and whether its framing is fixed: by `framing=`, or by a preset or an exchange.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) framing_is_fixed: bool,
}

/// Reads the words of a `config` line.
pub(crate) fn setup(words: &[String]) -> Result<Setup, String> {
    let mut setup = Setup {
        config: Config::strict(),
        framing_is_fixed: false,
    };
    for word in words {
        let config = &mut setup.config;
        if let Some((name, value)) = word.split_once('=') {
            let knob = KNOBS.iter().find(|knob| knob.name == name);
            let knob = knob.ok_or_else(|| format!("no such setting: {word}"))?;
            if !(knob.set)(config, value) {
                let (now, values) = ((knob.get)(config), knob.values);
                return Err(format!("{word}: it is {now}, and may be {values:?}"));
            }
            setup.framing_is_fixed |= name == "framing";
            continue;
        }
        *config = match word.as_str() {
            "strict" => Config::strict(),
            "v1" => Config::v1(),
            "mixed" => Config::mixed(),
            "lsp" => Config::lsp(),
            "mcp-2024-11-05" => Config::mcp(McpRevision::V2024_11_05),
            "mcp-2025-03-26" => Config::mcp(McpRevision::V2025_03_26),
            "mcp-2025-06-18" => Config::mcp(McpRevision::V2025_06_18),
            "mcp-2025-11-25" => Config::mcp(McpRevision::V2025_11_25),
            "mcp-2026-07-28" => Config::mcp(McpRevision::V2026_07_28),
            "acp" => Config::acp(AcpVersion::V1),
            "acp-v2" => Config::acp(AcpVersion::V2),
            "ethereum" => Config::ethereum(),
            "bitcoin" => Config::bitcoin(),
            "bitcoin-legacy" => Config::bitcoin_legacy(),
            "electrum" => Config::electrum(),
            "kodi" => Config::kodi(),
            "client-exchange" => config.for_client_exchange(),
            "server-exchange" => config.for_server_exchange(),
            _ => return Err(format!("no such preset: {word}")),
        };
        setup.framing_is_fixed = !matches!(word.as_str(), "strict" | "v1" | "mixed");
    }
    Ok(setup)
}
