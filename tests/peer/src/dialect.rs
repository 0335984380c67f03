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
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// The longest batch the contract asks for, in items.
const BATCH_ITEMS_MAX: usize = 2000;

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
        "depth_max" => {
            config.depth_max = number.parse().map_err(wrong)?;
            return Ok(());
        }
        "strays_max" | "malformed_max" => {
            let count = number.parse().map_err(wrong)?;
            match name {
                "strays_max" => config.strays_max = count,
                _ => config.malformed_max = count,
            }
            return Ok(());
        }
        _ => {}
    }
    let limit = match name {
        "message_bytes_max" => &mut config.message_bytes_max,
        "header_bytes_max" => &mut config.header_bytes_max,
        "batch_items_max" => &mut config.batch_items_max,
        "batch_calls_max" => &mut config.batch_calls_max,
        "batch_reply_bytes_max" => &mut config.batch_reply_bytes_max,
        "id_bytes_max" => &mut config.id_bytes_max,
        "method_bytes_max" => &mut config.method_bytes_max,
        "error_data_bytes_max" => &mut config.error_data_bytes_max,
        "calls_max" => &mut config.calls_max,
        "requests_max" => &mut config.requests_max,
        "outbox_bytes_soft" => &mut config.outbox_bytes_soft,
        "outbox_bytes_max" => &mut config.outbox_bytes_max,
        _ => return Err("no such limit"),
    };
    *limit = number.parse().map_err(wrong)?;
    Ok(())
}

/// What the contract asks for unless told otherwise.
pub fn of_contract() -> Config {
    let mut config = Config::strict();
    config.null_params = NullParams::TreatAsAbsent;
    config.binary = BinaryMessages::AsText;
    config
}

/// Gives a preset the limits of the contract; a preset's own are kept where they are higher.
pub fn raise_limits(config: &mut Config) {
    config.message_bytes_max = config.message_bytes_max.max(MESSAGE_BYTES_MAX);
    config.batch_items_max = config.batch_items_max.max(BATCH_ITEMS_MAX);
    config.batch_calls_max = config.batch_calls_max.max(BATCH_ITEMS_MAX + 1);
    // A whole batch may be open at once, and another one behind it.
    config.requests_max = config.requests_max.max(2 * BATCH_ITEMS_MAX + 1088);
    // `fail` sends any data that came in one message back.
    config.error_data_bytes_max = config.error_data_bytes_max.max(MESSAGE_BYTES_MAX);
    config.batch_reply_bytes_max = config.batch_reply_bytes_max.max(4 * MESSAGE_BYTES_MAX);
    config.outbox_bytes_soft = config.outbox_bytes_soft.max(2 * MESSAGE_BYTES_MAX);
    config.outbox_bytes_max = config.outbox_bytes_max.max(64 << 20);
}
