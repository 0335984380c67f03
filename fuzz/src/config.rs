//! Makes a configuration from a case's bytes: a preset, small limits, and any settings.
//!
//! Rule: every combination of values is legal, so every one must be possible.

use std::time::Duration;

use antiphon::{
    AcpVersion, BatchOrder, CancelAnswer, CancelMatch, CancelNotice, CancelStyle, Config,
    DuplicateIds, ErrorProfile, Framing, IdScheme, InvalidRequestId, LimitErrors, McpRevision,
    MissingResponseId, NullIdError, NullParams, Role, UnknownId, V1NullId, VersionPolicy,
};

use crate::bytes::Bytes;

pub(crate) const STREAMS: [Framing; 4] = [
    Framing::Newline,
    Framing::ContentLength,
    Framing::Concatenated,
    Framing::Detect,
];

/// Limits so small that short inputs reach them.
pub(crate) fn config(bytes: &mut Bytes<'_>) -> Config {
    let mut config = preset(bytes.byte());
    config.framing = *bytes.one(&STREAMS);
    config.limits.max_message_bytes = 4096;
    config.limits.max_header_bytes = 100;
    config.limits.max_batch_items = 5;
    config.limits.max_batch_calls = 5;
    config.limits.max_open_requests = 4;
    config.limits.max_open_calls = 6;
    config.limits.max_batch_reply_bytes = 300;
    config.limits.soft_max_outbox_bytes = 1000;
    config.limits.max_outbox_bytes = 4000;
    config.limits.max_id_bytes = 30;
    config.limits.max_method_bytes = 30;
    config.limits.max_error_data_bytes = 60;
    for _ in 0..bytes.byte() % 16 {
        knob(&mut config, bytes.byte(), bytes.byte());
    }
    config
}

fn preset(which: u8) -> Config {
    match which % 16 {
        0 => Config::strict(),
        1 => Config::v1(),
        2 => Config::mixed(),
        3 => Config::lsp(),
        4 => Config::mcp(McpRevision::V2025_03_26),
        5 => Config::mcp(McpRevision::V2025_06_18),
        6 => Config::acp(AcpVersion::V1),
        7 => Config::acp(AcpVersion::V2),
        8 => Config::ethereum(),
        9 => Config::bitcoin(),
        10 => Config::bitcoin_legacy(),
        11 => Config::electrum(),
        12 => Config::kodi(),
        13 => Config::mcp(McpRevision::V2024_11_05),
        14 => Config::mcp(McpRevision::V2025_11_25),
        _ => Config::mcp(McpRevision::V2026_07_28),
    }
}

fn knob(config: &mut Config, which: u8, value: u8) {
    let (on, size) = (value & 1 == 1, usize::from(value));
    let of = |n: usize| size % n;
    let span = || (value > 0).then(|| Duration::from_millis(u64::from(value)));
    match which % 48 {
        0 => config.role = [Role::Peer, Role::Client, Role::Server][of(3)],
        1 => {
            config.exchange = on;
            config.dialect.missing_response_id =
                [MissingResponseId::SoleExchange, MissingResponseId::Invalid][of(4) / 2];
        }
        2 => {
            config.dialect.version = [
                VersionPolicy::V2Only,
                VersionPolicy::V1AndV2,
                VersionPolicy::V1Only,
            ][of(3)];
        }
        3 => {
            config.dialect.v1_null_id =
                [V1NullId::Silent, V1NullId::AckAllNull, V1NullId::Answer][of(3)];
        }
        4 => config.dialect.v1_missing_id = on,
        5 => config.dialect.v1_in_batch = on,
        6 => config.dialect.v1_named_params = on,
        7 => config.dialect.v1_other_versions = on,
        8 => config.dialect.null_params = [NullParams::Reject, NullParams::TreatAsAbsent][of(2)],
        9 => config.dialect.lenient_responses = on,
        10 => config.dialect.allow_null_id = on,
        11 => config.dialect.null_ids = on,
        12 => config.dialect.boolean_ids = on,
        13 => {
            config.dialect.invalid_request_id = [
                InvalidRequestId::EchoIfReadable,
                InvalidRequestId::AlwaysNull,
            ][of(2)];
        }
        14 => config.dialect.unknown_id = [UnknownId::Null, UnknownId::Omit][of(2)],
        15 => config.dialect.duplicate_ids = [DuplicateIds::Allow, DuplicateIds::Reject][of(2)],
        16 => {
            config.dialect.null_id_error = [
                NullIdError::Report,
                NullIdError::FailSole,
                NullIdError::FailAll,
            ][of(3)];
        }
        17 => config.dialect.batches = on,
        18 => config.dialect.batch_order = [BatchOrder::Request, BatchOrder::Completion][of(2)],
        19 => {
            config.dialect.limit_errors = [
                LimitErrors::Dedicated,
                LimitErrors::Standard,
                LimitErrors::FirstCall,
            ][of(3)];
        }
        20 => {
            config.dialect.error_profile = [
                ErrorProfile::Antiphon,
                ErrorProfile::WebSocketDraft,
                ErrorProfile::Lsp,
                ErrorProfile::Mcp,
            ][of(4)];
        }
        21 => config.dialect.check_app_codes = on,
        22 => config.dialect.echo_method_names = on,
        23 => config.dialect.cancel_send = cancel_style(value),
        24 => config.dialect.cancel_receive = cancel_style(value),
        25 => {
            config.dialect.cancel_match = [CancelMatch::Exact, CancelMatch::ExactThenText][of(2)];
        }
        26 => config.dialect.cancel_on_timeout = on,
        27 => {
            config.dialect.cancel_answer = [
                CancelAnswer::RequestCancelled,
                CancelAnswer::Lsp,
                CancelAnswer::Silent,
            ][of(3)];
        }
        28 => {
            config.dialect.id_scheme = [
                IdScheme::Sequential,
                IdScheme::Prefixed("srv-"),
                IdScheme::Prefixed("\"\u{e9}\\"),
                IdScheme::Uuid([7, 0, 255, 128, 64, 9, 1, 200, 33, 90]),
            ][of(4)];
        }
        29 => config.first_call = [0, 1, 7, (1 << 53) - 3, (1 << 53) - 1, u64::MAX][of(6)],
        30 => config.dialect.escape_braces = on,
        31 => config.limits.max_message_bytes = size * 2,
        32 => config.limits.max_header_bytes = size,
        33 => config.limits.max_depth = value,
        34 => config.limits.max_batch_items = of(8),
        35 => config.limits.max_batch_reply_bytes = size * 4,
        36 => {
            config.limits.max_batch_calls = of(8);
            config.limits.max_joined_calls = size / 32;
        }
        37 => config.limits.max_id_bytes = size,
        38 => config.limits.max_method_bytes = size,
        39 => config.limits.max_error_data_bytes = size,
        40 => config.limits.max_open_calls = of(200),
        41 => config.limits.max_open_requests = of(70),
        42 => config.limits.soft_max_outbox_bytes = size * 8,
        43 => config.limits.max_outbox_bytes = size * 16,
        44 => config.limits.max_unmatched_responses = u64::from(value % 4),
        45 => config.limits.max_malformed_messages = u64::from(value % 4),
        46 => config.timeouts.message_timeout = span(),
        _ => (config.timeouts.write_timeout, config.timeouts.drain_timeout) = (span(), span()),
    }
}

fn cancel_style(which: u8) -> CancelStyle {
    [
        CancelStyle::None,
        CancelStyle::Lsp,
        CancelStyle::Mcp,
        CancelStyle::Acp,
        CancelStyle::Custom(&CancelNotice {
            method: "stop",
            member: "which",
        }),
    ][usize::from(which) % 5]
}
