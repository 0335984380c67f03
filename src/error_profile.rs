//! The errors that this crate makes itself, with the codes that each dialect has for them, and what
//! the peer is told of failures here.
//!
//! One code means *busy* in one protocol and *not initialized* or *not found* in another.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::error::Error;

use crate::codes;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{self, OwnedJson};

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

    /// The error for a subscription beyond the limit of its connection or of the server.
    ///
    /// ```
    /// use antiphon::ErrorProfile;
    /// assert_eq!(ErrorProfile::Antiphon.too_many_subscriptions().code(), -32002);
    /// assert_eq!(ErrorProfile::WebSocketDraft.too_many_subscriptions().code(), -32007);
    /// ```
    pub fn too_many_subscriptions(self) -> ErrorObject<'static> {
        ErrorObject::fixed(self.busy().code(), "Too many subscriptions")
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

/// What the peer is told of failures while a request is served. It covers every failure for which
/// the handler has not made an error object itself: an error turned into an *internal error*, a
/// result without a JSON form or over a limit, an interceptor that failed, a panic, a request
/// without an answer.
///
/// By default the peer is told nothing but *internal error* (−32603), and *invalid params* (−32602)
/// without the reason. Busy, cancelled and timeout have the codes of [`ErrorProfile`].
///
/// ```
/// use antiphon::{Config, Failures, Unhandled};
/// let config = Config::new().failures(
///     Failures::new()
///         .unhandled(Unhandled::ServerError32000)
///         .expose_error_detail(true),
/// );
/// assert_eq!(config.dialect.failures.error().code(), -32000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failures {
    /// The error object for such failures. Default [`Unhandled::Internal`].
    pub unhandled: Unhandled,
    /// Whether the error's `data` has the cause, as `{"type": …, "message": …}`, also for *invalid
    /// params*. The text may have file names and values of your program in it, so switch it on only
    /// for peers that you trust. Default off.
    pub expose_error_detail: bool,
    /// Whether the cause in `data` also has a `trace`: its `Debug` text, where libraries such as
    /// anyhow and eyre print a stack trace. Only with `expose_error_detail`. Default off.
    pub expose_stack_trace: bool,
}

/// The error object for a failure that a handler did not describe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unhandled {
    /// *Internal error* (−32603).
    #[default]
    Internal,
    /// *Server error* (−32000), as some servers answer.
    ServerError32000,
}

impl Failures {
    /// Tells the peer *internal error*, and no cause.
    pub const fn new() -> Self {
        Self {
            unhandled: Unhandled::Internal,
            expose_error_detail: false,
            expose_stack_trace: false,
        }
    }

    /// Sets [`unhandled`](Self::unhandled).
    #[must_use]
    pub const fn unhandled(mut self, unhandled: Unhandled) -> Self {
        self.unhandled = unhandled;
        self
    }

    /// Sets [`expose_error_detail`](Self::expose_error_detail).
    #[must_use]
    pub const fn expose_error_detail(mut self, expose: bool) -> Self {
        self.expose_error_detail = expose;
        self
    }

    /// Sets [`expose_stack_trace`](Self::expose_stack_trace).
    #[must_use]
    pub const fn expose_stack_trace(mut self, expose: bool) -> Self {
        self.expose_stack_trace = expose;
        self
    }

    /// The error for a failure without a cause.
    pub const fn error(self) -> ErrorObject<'static> {
        match self.unhandled {
            Unhandled::Internal => ErrorObject::internal_error(),
            Unhandled::ServerError32000 => ErrorObject::fixed(-32000, "Server error"),
        }
    }

    /// Returns `error` with `cause` in its data, if that is to be shown. `type_name` is the name of
    /// the cause's type.
    pub fn describe(
        self,
        error: ErrorObject<'_>,
        type_name: &str,
        cause: &dyn Error,
    ) -> OwnedError {
        if !self.expose_error_detail {
            return error.into_owned();
        }
        let mut data = Vec::new();
        let mut member = |name: &[u8], text: &str| {
            data.extend_from_slice(name);
            json::write_str(&mut data, text);
        };
        member(b"{\"type\":", type_name);
        member(b",\"message\":", &cause.to_string());
        if self.expose_stack_trace {
            member(b",\"trace\":", &format!("{cause:?}"));
        }
        data.push(b'}');
        match OwnedJson::of_parts(data) {
            Ok(data) => error.with_data(data.as_json()).into_owned(),
            Err(_) => error.into_owned(),
        }
    }

    /// Returns the error with which a peer is answered in place of `error`: the same, unless it is
    /// an *internal error* that has a cause. The cause stays with it.
    pub fn told(self, error: OwnedError) -> OwnedError {
        let Some(cause) = error.source() else {
            return error;
        };
        let told = match error.as_error().data() {
            Some(data) => self.error().with_data(data).into_owned(),
            None => self.describe(self.error(), error.cause_type(), cause),
        };
        told.with_cause_of(error)
    }
}
