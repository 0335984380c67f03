//! Error codes: the specification's, antiphon's own, and the ranges that divide the rest.
//!
//! The code of a received error is only classified by [`ErrorKind`]: what −32001 means is defined
//! by the peer.

/// The text is not JSON, not UTF-8, or nested too deep. JSON-RPC 2.0 §5.1.
pub const PARSE_ERROR: i64 = -32700;
/// The text is JSON, but not a valid request or batch. JSON-RPC 2.0 §5.1.
pub const INVALID_REQUEST: i64 = -32600;
/// The method does not exist or is not available. JSON-RPC 2.0 §5.1.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Number, names, types or values of the params are wrong. JSON-RPC 2.0 §5.1.
pub const INVALID_PARAMS: i64 = -32602;
/// The server failed for a reason that it does not explain. JSON-RPC 2.0 §5.1.
pub const INTERNAL_ERROR: i64 = -32603;

/// The request was cancelled (antiphon's own).
pub const REQUEST_CANCELLED: i64 = -32001;
/// Too many requests are open (antiphon's own).
pub const SERVER_BUSY: i64 = -32002;
/// The batch has more items than the limit (antiphon's own).
pub const BATCH_TOO_LARGE: i64 = -32003;
/// The message has more bytes than the limit (antiphon's own).
pub const REQUEST_TOO_LARGE: i64 = -32004;
/// A handler did not finish in time (antiphon's own).
pub const TIMEOUT: i64 = -32005;

/// A stream has ended, because it has no more events or items: in the last notification of a subscription, in an
/// answer to a pull of a [`flow`](crate::flow), and nowhere else.
pub const STREAM_COMPLETED: i64 = -32001;
/// The flow was closed, or the pull was cancelled, before the flow had ended: the code that is no end in
/// order ([`flow`](crate::flow)).
pub const FLOW_BROKEN: i64 = -32000;

/// The server has not been initialised yet, in the Language Server Protocol. LSP 3.17.
pub const LSP_SERVER_NOT_INITIALIZED: i64 = -32002;
/// The request was cancelled, in the Language Server Protocol and ACP. LSP 3.17.
pub const LSP_REQUEST_CANCELLED: i64 = -32800;
/// The request was valid and could not be served, in the Language Server Protocol. LSP 3.17.
pub const LSP_REQUEST_FAILED: i64 = -32803;

/// The headers do not repeat what the message says, in the Model Context Protocol. Revision 2026-07-28.
pub const MCP_HEADER_MISMATCH: i64 = -32020;
/// The client has not declared a capability that the request needs, in the Model Context Protocol. Revision
/// 2026-07-28.
pub const MCP_MISSING_CAPABILITY: i64 = -32021;
/// The server does not speak the revision of the request, in the Model Context Protocol. Revision 2026-07-28.
pub const MCP_UNSUPPORTED_VERSION: i64 = -32022;

/// Recommended ranges for an application's own codes, which must be outside the reserved range.
pub mod application {
    use core::ops::RangeInclusive;

    /// Authentication and authorisation.
    pub const AUTHORIZATION: RangeInclusive<i64> = 1000..=1099;
    /// Validation.
    pub const VALIDATION: RangeInclusive<i64> = 1100..=1199;
    /// Resources that are missing or in conflict.
    pub const RESOURCE: RangeInclusive<i64> = 1200..=1299;
    /// Business rules.
    pub const BUSINESS: RangeInclusive<i64> = 1300..=1399;
    /// Rate limits.
    pub const RATE_LIMIT: RangeInclusive<i64> = 1400..=1499;
}

/// The codes of the WebSocket draft, which gives the server range meanings of its own
/// ([`ErrorProfile::WebSocketDraft`](crate::ErrorProfile::WebSocketDraft)).
pub mod websocket_draft {
    /// Unauthorized.
    pub const UNAUTHORIZED: i64 = -32001;
    /// Forbidden.
    pub const FORBIDDEN: i64 = -32002;
    /// Not found.
    pub const NOT_FOUND: i64 = -32003;
    /// Validation error.
    pub const VALIDATION_ERROR: i64 = -32004;
    /// Conflict.
    pub const CONFLICT: i64 = -32005;
    /// Rate limit exceeded.
    pub const RATE_LIMIT_EXCEEDED: i64 = -32006;
    /// Resource exhausted.
    pub const RESOURCE_EXHAUSTED: i64 = -32007;
    /// Timeout.
    pub const TIMEOUT: i64 = -32008;
    /// Service unavailable.
    pub const SERVICE_UNAVAILABLE: i64 = -32009;
}

/// The standard message of a code, if it has one.
///
/// ```
/// assert_eq!(antiphon::codes::message(-32601), Some("Method not found"));
/// assert_eq!(antiphon::codes::message(1), None);
/// ```
pub const fn message(code: i64) -> Option<&'static str> {
    Some(match code {
        PARSE_ERROR => "Parse error",
        INVALID_REQUEST => "Invalid Request",
        METHOD_NOT_FOUND => "Method not found",
        INVALID_PARAMS => "Invalid params",
        INTERNAL_ERROR => "Internal error",
        REQUEST_CANCELLED | LSP_REQUEST_CANCELLED => "Request cancelled",
        SERVER_BUSY => "Server busy",
        BATCH_TOO_LARGE => "Batch too large",
        REQUEST_TOO_LARGE => "Request too large",
        TIMEOUT => "Request timeout",
        _ => return None,
    })
}

/// Whether the specification reserves the code (−32768 to −32000). JSON-RPC 2.0 §5.1.
pub const fn is_reserved(code: i64) -> bool {
    -32768 <= code && code <= -32000
}

/// Whether the code lies in the range for implementation-defined server errors (−32099 to −32000).
pub const fn is_server_error(code: i64) -> bool {
    -32099 <= code && code <= -32000
}

/// Whether a reserved code is one that the specification or antiphon defines. Only these reserved
/// codes may be sent by an application under `check_app_codes`.
pub(crate) const fn is_defined(code: i64) -> bool {
    message(code).is_some()
}

/// The kind of failure of a code, by its number alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// −32700.
    Parse,
    /// −32600.
    InvalidRequest,
    /// −32601.
    MethodNotFound,
    /// −32602.
    InvalidParams,
    /// −32603.
    Internal,
    /// −32099 to −32000: the peer defines the meaning.
    ServerError,
    /// The rest of −32768 to −32000.
    Reserved,
    /// Everything else.
    Application,
}

impl ErrorKind {
    /// Returns the kind of a code.
    pub const fn of(code: i64) -> Self {
        match code {
            PARSE_ERROR => Self::Parse,
            INVALID_REQUEST => Self::InvalidRequest,
            METHOD_NOT_FOUND => Self::MethodNotFound,
            INVALID_PARAMS => Self::InvalidParams,
            INTERNAL_ERROR => Self::Internal,
            _ if is_server_error(code) => Self::ServerError,
            _ if is_reserved(code) => Self::Reserved,
            _ => Self::Application,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ErrorKind, is_reserved, is_server_error, message};

    // ERR-01 ERR-03
    #[test]
    fn the_ranges_end_where_the_specification_ends_them() {
        assert!(is_reserved(-32768) && is_reserved(-32000));
        assert!(!is_reserved(-32769) && !is_reserved(-31999));
        assert!(is_server_error(-32099) && is_server_error(-32000));
        assert!(!is_server_error(-32100) && !is_server_error(-31999));
    }

    // ERR-01 ERR-08 ERR-09
    #[test]
    fn kinds_are_told_by_code() {
        let table = [
            (-32700, ErrorKind::Parse, Some("Parse error")),
            (-32600, ErrorKind::InvalidRequest, Some("Invalid Request")),
            (-32601, ErrorKind::MethodNotFound, Some("Method not found")),
            (-32602, ErrorKind::InvalidParams, Some("Invalid params")),
            (-32603, ErrorKind::Internal, Some("Internal error")),
            (-32001, ErrorKind::ServerError, Some("Request cancelled")),
            (-32002, ErrorKind::ServerError, Some("Server busy")),
            (-32003, ErrorKind::ServerError, Some("Batch too large")),
            (-32004, ErrorKind::ServerError, Some("Request too large")),
            (-32005, ErrorKind::ServerError, Some("Request timeout")),
            (-32800, ErrorKind::Application, Some("Request cancelled")),
            (-32100, ErrorKind::Reserved, None),
            (-32768, ErrorKind::Reserved, None),
            (1, ErrorKind::Application, None),
            (i64::MAX, ErrorKind::Application, None),
        ];
        for (code, kind, text) in table {
            assert_eq!(ErrorKind::of(code), kind, "{code}");
            assert_eq!(message(code), text, "{code}");
        }
    }
}
