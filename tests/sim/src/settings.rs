//! The options of the two ends of a link, equal or different, chosen at random: dialects, framings,
//! roles, limits.

use std::time::Duration;

use antiphon::{
    AcpVersion, BatchOrder, CancelAnswer, CancelMatch, CancelStyle, Config, DuplicateIds,
    ErrorProfile, Framing, IdScheme, InvalidRequestId, LimitErrors, McpRevision, NullIdError, Role,
    UnknownId, V1NullId, VersionPolicy,
};

use antiphon_test_support::random::Random;

/// How a link is set up.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Each end's own.
    pub ends: [Config; 2],
    /// The second end is played by a hostile peer.
    pub hostile: bool,
}

/// Sets up a link.
pub fn pair(rng: &mut Random, connection: u32) -> Pair {
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
    // A hostile peer plays the second end: so the first is a server as often as a client.
    if rng.chance(50) {
        ends.swap(0, 1);
    }
    // Sometimes they do not agree on the version.
    if rng.chance(6) {
        ends[1].dialect.version = rng.pick(&[
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

fn dialect(rng: &mut Random) -> Config {
    match rng.below(14) {
        0 => Config::strict(),
        1 => Config::strict().framing(Framing::ContentLength),
        2 => Config::strict().framing(Framing::Concatenated),
        3 => Config::strict().framing(Framing::Messages),
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

fn limits(rng: &mut Random) -> Limits {
    Limits {
        message: rng.pick(&[400, 1000, 4000]),
        items: rng.size(1, 8),
    }
}

/// Small limits, so that they are met often.
fn limit(rng: &mut Random, config: &mut Config, limits: Limits) {
    config.limits.max_message_bytes = limits.message;
    config.limits.max_header_bytes = rng.pick(&[48, 64, 200]);
    config.limits.max_depth = rng.pick(&[4, 16, 128]);
    config.limits.max_batch_items = limits.items;
    config.limits.max_batch_calls = limits.items + usize::from(rng.chance(20));
    config.limits.max_joined_calls = rng.pick(&[0, 1, 2, 3, 100]);
    config.limits.max_batch_reply_bytes = rng.pick(&[200, 600, 2000]);
    config.limits.max_id_bytes = rng.pick(&[12, 64]);
    config.limits.max_method_bytes = rng.pick(&[24, 200]);
    config.limits.max_error_data_bytes = rng.pick(&[16, 300]);
    config.limits.max_open_calls = rng.pick(&[1, 2, 4, 16, 100]);
    config.limits.max_open_requests = rng.pick(&[1, 2, 4, 16]);
    config.limits.soft_max_outbox_bytes = rng.pick(&[0, 200, 1000, 3000]);
    config.limits.max_outbox_bytes =
        config.limits.soft_max_outbox_bytes + rng.pick(&[600, 2000, 8000]);
    if rng.chance(10) {
        config.limits.max_unmatched_responses = rng.below(3);
    }
    if rng.chance(10) {
        config.limits.max_malformed_messages = rng.below(3);
    }
    let span = |rng: &mut Random| {
        let millis = rng.pick(&[100, 500, 2000, 10_000]);
        (!rng.chance(20)).then(|| Duration::from_millis(millis))
    };
    config.timeouts.message_timeout = span(rng);
    config.timeouts.write_timeout = span(rng);
    config.timeouts.drain_timeout = span(rng);
}

/// Options that each end draws for itself.
fn knobs(rng: &mut Random, config: &mut Config) {
    if rng.chance(30) {
        config.dialect.duplicate_ids = DuplicateIds::Reject;
    }
    if rng.chance(20) {
        config.dialect.null_ids = false;
    }
    if rng.chance(20) {
        config.dialect.invalid_request_id = InvalidRequestId::AlwaysNull;
    }
    if rng.chance(20) {
        config.dialect.unknown_id = UnknownId::Omit;
    }
    config.dialect.null_id_error = rng.pick(&[
        NullIdError::Report,
        NullIdError::Report,
        NullIdError::FailSole,
        NullIdError::FailAll,
    ]);
    if rng.chance(30) {
        config.dialect.batch_order = BatchOrder::Completion;
    }
    if rng.chance(30) {
        config.dialect.limit_errors = rng.pick(&[LimitErrors::Standard, LimitErrors::FirstCall]);
    }
    if rng.chance(20) {
        config.dialect.error_profile = ErrorProfile::WebSocketDraft;
    }
    if rng.chance(20) {
        config.dialect.check_app_codes = true;
    }
    config.dialect.echo_method_names = rng.chance(30);
    config.dialect.allow_null_id = rng.chance(20);
    if rng.chance(40) && config.dialect.cancel_send == CancelStyle::None {
        config.dialect.cancel_send = CancelStyle::Lsp;
    }
    if rng.chance(30) {
        config.dialect.cancel_answer = rng.pick(&[
            CancelAnswer::RequestCancelled,
            CancelAnswer::Lsp,
            CancelAnswer::Silent,
        ]);
    }
    config.dialect.cancel_on_timeout = rng.chance(30);
    if rng.chance(10) {
        config.dialect.cancel_match = CancelMatch::ExactThenText;
    }
    config.dialect.id_scheme = match rng.below(6) {
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
        config.dialect.escape_braces = true;
    }
    if rng.chance(15) {
        config.dialect.v1_in_batch = false;
    }
    if config.dialect.version != VersionPolicy::V2Only && rng.chance(30) {
        config.dialect.v1_null_id = rng.pick(&[V1NullId::AckAllNull, V1NullId::Silent]);
    }
}
