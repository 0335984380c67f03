//! Dialects by name, and the limits of the contract.

use antiphon::{AcpVersion, BinaryMessages, Config, McpRevision, NullParams};

/// The names that `--preset` takes.
const PRESETS: [(&str, Config); 17] = [
    ("strict", Config::strict()),
    ("v1", Config::v1()),
    ("mixed", Config::mixed()),
    ("lsp", Config::lsp()),
    ("mcp", Config::mcp(McpRevision::V2025_11_25)),
    ("mcp-2024-11-05", Config::mcp(McpRevision::V2024_11_05)),
    ("mcp-2025-03-26", Config::mcp(McpRevision::V2025_03_26)),
    ("mcp-2025-06-18", Config::mcp(McpRevision::V2025_06_18)),
    ("mcp-2025-11-25", Config::mcp(McpRevision::V2025_11_25)),
    ("mcp-2026-07-28", Config::mcp(McpRevision::V2026_07_28)),
    ("acp", Config::acp(AcpVersion::V1)),
    ("acp-v2", Config::acp(AcpVersion::V2)),
    ("ethereum", Config::ethereum()),
    ("bitcoin", Config::bitcoin()),
    ("bitcoin-legacy", Config::bitcoin_legacy()),
    ("electrum", Config::electrum()),
    ("kodi", Config::kodi()),
];

/// The largest message the contract asks for, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// The longest batch the contract asks for, in items.
const MAX_BATCH_ITEMS: usize = 2000;

/// The names that there are.
pub fn names() -> impl Iterator<Item = &'static str> {
    PRESETS.iter().map(|(name, _)| *name)
}

/// The preset of that name.
pub fn named(name: &str) -> Option<Config> {
    let found = PRESETS.iter().find(|(preset, _)| *preset == name);
    found.map(|(_, config)| *config)
}

/// Sets one limit of a configuration, `NAME=NUMBER`.
///
/// # Errors
/// There is no such limit, or it is no number.
pub fn set_limit(config: &mut Config, text: &str) -> Result<(), &'static str> {
    let (name, number) = text.split_once('=').ok_or("must be NAME=NUMBER")?;
    let wrong = |_| "must be a number";
    match name {
        "max_depth" => {
            config.limits.max_depth = number.parse().map_err(wrong)?;
            return Ok(());
        }
        "max_unmatched_responses" | "max_malformed_messages" => {
            let count = number.parse().map_err(wrong)?;
            match name {
                "max_unmatched_responses" => config.limits.max_unmatched_responses = count,
                _ => config.limits.max_malformed_messages = count,
            }
            return Ok(());
        }
        _ => {}
    }
    let limit = match name {
        "max_message_bytes" => &mut config.limits.max_message_bytes,
        "max_header_bytes" => &mut config.limits.max_header_bytes,
        "max_batch_items" => &mut config.limits.max_batch_items,
        "max_batch_calls" => &mut config.limits.max_batch_calls,
        "max_joined_calls" => &mut config.limits.max_joined_calls,
        "max_batch_reply_bytes" => &mut config.limits.max_batch_reply_bytes,
        "max_id_bytes" => &mut config.limits.max_id_bytes,
        "max_method_bytes" => &mut config.limits.max_method_bytes,
        "max_error_data_bytes" => &mut config.limits.max_error_data_bytes,
        "max_open_calls" => &mut config.limits.max_open_calls,
        "max_open_requests" => &mut config.limits.max_open_requests,
        "soft_max_outbox_bytes" => &mut config.limits.soft_max_outbox_bytes,
        "max_outbox_bytes" => &mut config.limits.max_outbox_bytes,
        _ => return Err("no such limit"),
    };
    *limit = number.parse().map_err(wrong)?;
    Ok(())
}

/// What the contract asks for unless told otherwise.
pub fn of_contract() -> Config {
    let mut config = Config::strict();
    config.dialect.null_params = NullParams::TreatAsAbsent;
    config.dialect.binary = BinaryMessages::AsText;
    config
}

/// Gives a preset the limits of the contract; a preset's own are kept where they are higher.
pub fn raise_limits(config: &mut Config) {
    config.limits.max_message_bytes = config.limits.max_message_bytes.max(MAX_MESSAGE_BYTES);
    config.limits.max_batch_items = config.limits.max_batch_items.max(MAX_BATCH_ITEMS);
    // One more than a batch may hold, so that a client can send one that is too long.
    config.limits.max_batch_calls = config.limits.max_batch_calls.max(MAX_BATCH_ITEMS + 1);
    // Two whole batches may be open at once, and 1,088 requests (the core's default) more.
    config.limits.max_open_requests = config
        .limits
        .max_open_requests
        .max(2 * MAX_BATCH_ITEMS + 1280);
    // `fail` sends any data that came in one message back.
    config.limits.max_error_data_bytes = config.limits.max_error_data_bytes.max(MAX_MESSAGE_BYTES);
    config.limits.max_batch_reply_bytes = config
        .limits
        .max_batch_reply_bytes
        .max(4 * MAX_MESSAGE_BYTES);
    config.limits.soft_max_outbox_bytes = config
        .limits
        .soft_max_outbox_bytes
        .max(2 * MAX_MESSAGE_BYTES);
    config.limits.max_outbox_bytes = config.limits.max_outbox_bytes.max(64 << 20);
}
