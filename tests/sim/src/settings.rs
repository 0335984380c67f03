//! What the two ends of a link agree on, and where they differ: dialects, framings, roles, limits,
//! all by chance.

use std::time::Duration;

use antiphon::{
    AcpVersion, BatchOrder, CancelAnswer, CancelMatch, CancelStyle, Config, DuplicateIds,
    ErrorProfile, Framing, IdScheme, InvalidRequestId, LimitErrors, McpRevision, NullIdError, Role,
    UnknownId, V1NullId, VersionPolicy,
};

use crate::rng::Rng;

/// How a link is set up.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Each end's own.
    pub ends: [Config; 2],
    /// The second end is played by a program that keeps no rules.
    pub hostile: bool,
}

/// Sets up a link.
pub fn pair(rng: &mut Rng, connection: u32) -> Pair {
    let hostile = rng.chance(40);
    let dialect = dialect(rng);
    let mut ends = [dialect, dialect];
    match rng.below(10) {
        // Over HTTP.
        0 => ends = [dialect.for_client_exchange(), dialect.for_server_exchange()],
        1 => {
            ends[0].role = Role::Client;
            ends[1].role = Role::Server;
        }
        2 => ends = [dialect.for_websocket(), dialect.for_websocket()],
        3 if dialect.framing == Framing::Newline => ends[1].framing = Framing::Detect,
        _ => {}
    }
    // The side that a hostile peer faces is the first; it is a server as often as a client.
    if rng.chance(50) {
        ends.swap(0, 1);
    }
    // Sometimes they do not quite agree.
    if rng.chance(6) {
        ends[1].version = rng.pick(&[
            VersionPolicy::V2Only,
            VersionPolicy::V1AndV2,
            VersionPolicy::V1Only,
        ]);
    }
    let limits = limits(rng);
    for (side, config) in ends.iter_mut().enumerate() {
        config.connection = connection * 2 + side as u32;
        limit(rng, config, limits);
        knobs(rng, config);
    }
    Pair { ends, hostile }
}

fn dialect(rng: &mut Rng) -> Config {
    match rng.below(14) {
        0 => Config::strict(),
        1 => Config::strict().with_framing(Framing::ContentLength),
        2 => Config::strict().with_framing(Framing::Concatenated),
        3 => Config::strict().with_framing(Framing::Messages),
        4 => Config::v1(),
        5 => Config::mixed(),
        6 => Config::lsp(),
        7 => Config::mcp(rng.pick(&[
            McpRevision::V2024_11_05,
            McpRevision::V2025_03_26,
            McpRevision::V2025_11_25,
        ])),
        8 => Config::acp(rng.pick(&[AcpVersion::V1, AcpVersion::V2])),
        9 => Config::ethereum(),
        10 => Config::bitcoin_legacy(),
        11 => Config::electrum(),
        12 => Config::kodi(),
        _ => Config::bitcoin(),
    }
}

/// Limits that both ends of a link share, so that an honest peer can keep them.
#[derive(Clone, Copy)]
struct Limits {
    message: usize,
    items: usize,
}

fn limits(rng: &mut Rng) -> Limits {
    Limits {
        message: rng.pick(&[400, 1000, 4000]),
        items: rng.size(1, 8),
    }
}

/// Small limits, so that they are met often.
fn limit(rng: &mut Rng, config: &mut Config, limits: Limits) {
    config.message_bytes_max = limits.message;
    config.header_bytes_max = rng.pick(&[48, 64, 200]);
    config.depth_max = rng.pick(&[4, 16, 128]);
    config.batch_items_max = limits.items;
    config.batch_calls_max = limits.items + usize::from(rng.chance(20));
    config.batch_reply_bytes_max = rng.pick(&[200, 600, 2000]);
    config.id_bytes_max = rng.pick(&[12, 64]);
    config.method_bytes_max = rng.pick(&[24, 200]);
    config.error_data_bytes_max = rng.pick(&[16, 300]);
    config.calls_max = rng.pick(&[1, 2, 4, 16, 100]);
    config.requests_max = rng.pick(&[1, 2, 4, 16]);
    config.outbox_bytes_soft = rng.pick(&[0, 200, 1000, 3000]);
    config.outbox_bytes_max = config.outbox_bytes_soft + rng.pick(&[600, 2000, 8000]);
    if rng.chance(10) {
        config.strays_max = rng.below(3);
    }
    if rng.chance(10) {
        config.malformed_max = rng.below(3);
    }
    let span = |rng: &mut Rng| {
        let millis = rng.pick(&[100, 500, 2000, 10_000]);
        (!rng.chance(20)).then(|| Duration::from_millis(millis))
    };
    config.frame_time_max = span(rng);
    config.write_time_max = span(rng);
    config.drain_time_max = span(rng);
}

/// Everything else that an end may have its own opinion about.
fn knobs(rng: &mut Rng, config: &mut Config) {
    if rng.chance(30) {
        config.duplicate_ids = DuplicateIds::Reject;
    }
    if rng.chance(20) {
        config.null_ids = false;
    }
    if rng.chance(20) {
        config.invalid_request_id = InvalidRequestId::AlwaysNull;
    }
    if rng.chance(20) {
        config.unknown_id = UnknownId::Omit;
    }
    config.null_id_error = rng.pick(&[
        NullIdError::Report,
        NullIdError::Report,
        NullIdError::FailSole,
        NullIdError::FailAll,
    ]);
    if rng.chance(30) {
        config.batch_order = BatchOrder::Completion;
    }
    if rng.chance(30) {
        config.limit_errors = rng.pick(&[LimitErrors::Standard, LimitErrors::FirstCall]);
    }
    if rng.chance(20) {
        config.error_profile = ErrorProfile::WebSocketDraft;
    }
    if rng.chance(20) {
        config.check_app_codes = true;
    }
    config.echo_method_names = rng.chance(30);
    config.allow_null_id = rng.chance(20);
    if rng.chance(40) && config.cancel_send == CancelStyle::None {
        config.cancel_send = CancelStyle::Lsp;
    }
    if rng.chance(30) {
        config.cancel_answer = rng.pick(&[
            CancelAnswer::RequestCancelled,
            CancelAnswer::Lsp,
            CancelAnswer::Silent,
        ]);
    }
    config.cancel_on_timeout = rng.chance(30);
    if rng.chance(10) {
        config.cancel_match = CancelMatch::ExactThenText;
    }
    config.id_scheme = match rng.below(6) {
        0 => IdScheme::Prefixed("srv-"),
        1 => IdScheme::Uuid(*b"0123456789"),
        _ => IdScheme::Sequential,
    };
    config.first_call = match rng.below(12) {
        0 => (1 << 53) - 1 - rng.below(6),
        1 => rng.within(1, 100_000),
        _ => 1,
    };
    if rng.chance(20) {
        config.escape_braces = true;
    }
    if rng.chance(15) {
        config.v1_in_batch = false;
    }
    if config.version != VersionPolicy::V2Only && rng.chance(30) {
        config.v1_null_id = rng.pick(&[V1NullId::AckAllNull, V1NullId::Silent]);
    }
}
