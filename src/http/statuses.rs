//! The status of a reply by the code of its error.
//!
//! A status says no more than the code does. Results and batches have 200.

use alloc::vec::Vec;

use crate::codes;
use crate::error_object::ErrorObject;
use crate::json::{Json, JsonKind, Shape, Version, scan};
use crate::presets::McpRevision;

/// The statuses of error replies.
///
/// ```
/// use antiphon::http::Statuses;
/// let unknown = br#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#;
/// assert_eq!(Statuses::always_ok().of(unknown), 200);
/// assert_eq!(Statuses::by_code().of(unknown), 404);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statuses {
    /// Codes with a status of their own. The first match counts.
    pub codes: Vec<(i64, u16)>,
    /// The status of every other error.
    pub other: u16,
    /// The replies that have these statuses.
    pub scope: StatusScope,
}

/// Which replies have statuses other than 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatusScope {
    /// Every error.
    All,
    /// Errors in replies of JSON-RPC 1.0 or 1.1. Replies of 2.0 have 200 (Bitcoin Core since
    /// version 28).
    Version1,
}

impl Statuses {
    /// Always 200: the default.
    pub const fn always_ok() -> Self {
        Self {
            codes: Vec::new(),
            other: 200,
            scope: StatusScope::All,
        }
    }

    /// 400 for an invalid request, 404 for an unknown method, 500 for every other error.
    pub fn by_code() -> Self {
        Self {
            codes: [
                (codes::INVALID_REQUEST, 400),
                (codes::METHOD_NOT_FOUND, 404),
            ]
            .into(),
            other: 500,
            scope: StatusScope::All,
        }
    }

    /// As [`by_code`](Self::by_code), for replies that are not of version 2.0: Bitcoin Core.
    pub fn bitcoin() -> Self {
        Self {
            scope: StatusScope::Version1,
            ..Self::by_code()
        }
    }

    /// The Model Context Protocol. Since 2026-07-28: 404 for an unknown method, 400 for what is wrong with a
    /// request, and 200 for every other error. Earlier revisions: always 200.
    pub fn mcp(revision: McpRevision) -> Self {
        if revision < McpRevision::V2026_07_28 {
            return Self::always_ok();
        }
        let bad = [
            codes::PARSE_ERROR,
            codes::INVALID_REQUEST,
            codes::INVALID_PARAMS,
            codes::MCP_HEADER_MISMATCH,
            codes::MCP_MISSING_CAPABILITY,
            codes::MCP_UNSUPPORTED_VERSION,
        ];
        let unknown = (codes::METHOD_NOT_FOUND, 404);
        Self {
            codes: bad
                .map(|code| (code, 400))
                .into_iter()
                .chain([unknown])
                .collect(),
            ..Self::always_ok()
        }
    }

    /// Returns the status of a reply that this side has written.
    pub fn of(&self, reply: &[u8]) -> u16 {
        if self.codes.is_empty() && self.other == 200 {
            return 200;
        }
        match error_of(reply) {
            Some((Version::V2, _)) if self.scope == StatusScope::Version1 => 200,
            Some((_, code)) => {
                let own = self.codes.iter().find(|(known, _)| *known == code);
                own.map_or(self.other, |(_, status)| *status)
            }
            None => 200,
        }
    }
}

impl Default for Statuses {
    fn default() -> Self {
        Self::always_ok()
    }
}

/// Whether a reply that this side has written is a result, or a batch.
pub fn is_result(reply: &[u8]) -> bool {
    !reply.is_empty() && error_of(reply).is_none()
}

/// Returns the version and the code of a single error.
fn error_of(reply: &[u8]) -> Option<(Version, i64)> {
    let mut envelopes = Vec::new();
    // 128 levels are the most that a message has.
    let scanned = scan(reply, 128, &mut envelopes, 1).ok()?;
    if scanned.shape != Shape::Single {
        return None;
    }
    let envelope = envelopes.first()?;
    let error = envelope
        .error()
        .filter(|error| error.kind == JsonKind::Object)?;
    let json = Json::from_scanned(error.span.of(scanned.text), scanned.flags);
    let code = match envelope.version {
        Version::V2 => ErrorObject::read(json)?.code(),
        _ => ErrorObject::read_v1(json).code(),
    };
    Some((envelope.version, code))
}
