//! The errors that this crate makes itself, with the codes that each dialect has for them.
//!
//! One code means *busy* in one protocol and *not initialized* or *not found* in another.

use crate::codes;
use crate::error_object::ErrorObject;

/// Whose codes this side uses for its own errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorProfile {
    /// antiphon's own: [`codes`].
    Antiphon,
    /// The WebSocket draft's: [`codes::websocket_draft`].
    WebSocketDraft,
    /// The Language Server Protocol's, where −32002 means that the server is not initialized: a
    /// busy server and a timeout are −32803 (request failed).
    Lsp,
    /// The Model Context Protocol's and ACP's, where −32002 means that a resource was not found: a
    /// busy server and a timeout are −32603 (internal error).
    Mcp,
}

impl ErrorProfile {
    /// The error for too many open requests.
    ///
    /// ```
    /// use antiphon::Config;
    /// assert_eq!(Config::strict().dialect.error_profile.busy().code(), -32002);
    /// assert_eq!(Config::lsp().dialect.error_profile.busy().code(), -32803);
    /// ```
    pub const fn busy(self) -> ErrorObject<'static> {
        let code = match self {
            Self::Antiphon => codes::SERVER_BUSY,
            Self::WebSocketDraft => codes::websocket_draft::RESOURCE_EXHAUSTED,
            Self::Lsp => codes::LSP_REQUEST_FAILED,
            Self::Mcp => codes::INTERNAL_ERROR,
        };
        ErrorObject::fixed(code, "Server busy")
    }

    /// The error for a call beyond a rate limit.
    pub fn rate_limited(self) -> ErrorObject<'static> {
        let code = match self {
            Self::WebSocketDraft => codes::websocket_draft::RATE_LIMIT_EXCEEDED,
            _ => self.busy().code(),
        };
        ErrorObject::fixed(code, "Rate limit exceeded")
    }

    /// The error of a server that is shutting down and accepts no new requests.
    pub const fn unavailable(self) -> ErrorObject<'static> {
        match self {
            Self::WebSocketDraft => {
                ErrorObject::fixed(codes::websocket_draft::SERVICE_UNAVAILABLE, "Server busy")
            }
            _ => self.busy(),
        }
    }

    /// The error for a request before the peer has initialised the server. In protocols that have
    /// no such error it is *invalid request*.
    ///
    /// ```
    /// use antiphon::ErrorProfile;
    /// assert_eq!(ErrorProfile::Lsp.not_initialized().code(), -32002);
    /// assert_eq!(ErrorProfile::Antiphon.not_initialized().code(), -32600);
    /// ```
    pub const fn not_initialized(self) -> ErrorObject<'static> {
        match self {
            Self::Lsp => {
                ErrorObject::fixed(codes::LSP_SERVER_NOT_INITIALIZED, "Server not initialized")
            }
            _ => ErrorObject::invalid_request(),
        }
    }

    /// The error for a request whose handler did not finish in time.
    pub const fn timeout(self) -> ErrorObject<'static> {
        let code = match self {
            Self::Antiphon => codes::TIMEOUT,
            Self::WebSocketDraft => codes::websocket_draft::TIMEOUT,
            Self::Lsp => codes::LSP_REQUEST_FAILED,
            Self::Mcp => codes::INTERNAL_ERROR,
        };
        ErrorObject::fixed(code, "Request timeout")
    }

    /// The answer to a request that this side ended as cancelled although the peer did not cancel
    /// it, under [`CancelAnswer::Silent`](crate::CancelAnswer::Silent), which has no code of its
    /// own.
    pub(crate) const fn given_up(self) -> ErrorObject<'static> {
        let code = match self {
            Self::Antiphon | Self::WebSocketDraft => codes::REQUEST_CANCELLED,
            Self::Lsp => codes::LSP_REQUEST_CANCELLED,
            Self::Mcp => codes::INTERNAL_ERROR,
        };
        ErrorObject::fixed(code, "Request cancelled")
    }
}
