//! The configuration by names: presets, and settings as numbers.

use core::time::Duration;

use antiphon::{AcpVersion, Config, Framing, Limits, McpRevision, Timeouts};

use crate::code::antiphon_code as Code;

/// A configuration, to make connections of.
#[allow(non_camel_case_types)]
#[derive(Debug)]
pub struct antiphon_config(pub(crate) Config);

/// Stands for no time at all: in timeouts and deadlines.
pub const ANTIPHON_NEVER: u64 = u64::MAX;

/// A message a line.
pub const ANTIPHON_NEWLINE: u64 = 0;
/// Headers before each message, as language servers have them.
pub const ANTIPHON_CONTENT_LENGTH: u64 = 1;
/// Values one after another.
pub const ANTIPHON_CONCATENATED: u64 = 2;
/// A transport that keeps messages apart: use `antiphon_message`.
pub const ANTIPHON_MESSAGES: u64 = 3;
/// As the peer's first bytes show.
pub const ANTIPHON_DETECT: u64 = 4;

impl antiphon_config {
    pub(crate) fn of(preset: &str) -> Result<Self, Code> {
        let revision = preset.strip_prefix("mcp-").and_then(McpRevision::of);
        Ok(Self(match preset {
            "strict" => Config::strict(),
            "v1" => Config::v1(),
            "mixed" => Config::mixed(),
            "lsp" => Config::lsp(),
            "acp" => Config::acp(AcpVersion::V1),
            "acp-v2" => Config::acp(AcpVersion::V2),
            "ethereum" => Config::ethereum(),
            "bitcoin" => Config::bitcoin(),
            "bitcoin-legacy" => Config::bitcoin_legacy(),
            "electrum" => Config::electrum(),
            "kodi" => Config::kodi(),
            _ => revision.map(Config::mcp).ok_or(Code::ANTIPHON_NO_PRESET)?,
        }))
    }

    pub(crate) fn set(&mut self, name: &str, value: u64) -> Result<(), Code> {
        let config = &mut self.0;
        match name {
            "framing" => {
                config.framing = match value {
                    ANTIPHON_NEWLINE => Framing::Newline,
                    ANTIPHON_CONTENT_LENGTH => Framing::ContentLength,
                    ANTIPHON_CONCATENATED => Framing::Concatenated,
                    ANTIPHON_MESSAGES => Framing::Messages,
                    ANTIPHON_DETECT => Framing::Detect,
                    _ => return Err(Code::ANTIPHON_BAD_VALUE),
                };
            }
            "batches" | "cancel_on_timeout" if value > 1 => return Err(Code::ANTIPHON_BAD_VALUE),
            "batches" => config.dialect.batches = value == 1,
            "cancel_on_timeout" => config.dialect.cancel_on_timeout = value == 1,
            _ => return set_limit(&mut config.limits, &mut config.timeouts, name, value),
        }
        Ok(())
    }
}

/// Numbers of any kind that a limit has.
fn number<N: TryFrom<u64>>(value: u64) -> Result<N, Code> {
    N::try_from(value).map_err(|_| Code::ANTIPHON_BAD_VALUE)
}

macro_rules! by_name {
    ($limits:ident: $($limit:ident)*; $timeouts:ident: $($timeout:ident)*) => {
        fn set_limit($limits: &mut Limits, $timeouts: &mut Timeouts, name: &str, value: u64) -> Result<(), Code> {
            match name {
                $(stringify!($limit) => $limits.$limit = number(value)?,)*
                $(stringify!($timeout) => {
                    $timeouts.$timeout = (value != ANTIPHON_NEVER).then(|| Duration::from_nanos(value));
                })*
                _ => return Err(Code::ANTIPHON_NO_SETTING),
            }
            Ok(())
        }
    };
}

by_name! {
    limits: max_message_bytes max_header_bytes max_depth max_batch_items max_batch_reply_bytes max_batch_calls max_joined_calls
        max_id_bytes max_method_bytes max_error_data_bytes max_open_calls max_open_requests max_unmatched_responses
        max_malformed_messages soft_max_outbox_bytes max_outbox_bytes;
    timeouts: message_timeout write_timeout drain_timeout
}

#[cfg(test)]
mod tests {
    use std::format;

    use super::antiphon_config;
    use antiphon::Config;

    // USE-48
    #[test]
    fn every_limit_and_timeout_of_the_core_is_a_setting() {
        let mut config = antiphon_config::of("strict").unwrap();
        let core = format!("{:#?} {:#?}", Config::new().limits, Config::new().timeouts);
        let mut names = 0;
        for line in core.lines() {
            let Some((name, _)) = line.split_once(": ") else {
                continue;
            };
            assert_eq!(config.set(name.trim(), 100), Ok(()), "{name}");
            names += 1;
        }
        assert!(names >= 19, "{names}");
        assert_eq!(config.0.limits.max_open_calls, 100);
    }
}
