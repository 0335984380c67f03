//! Conversion between a program's errors and JSON-RPC's error objects.

use alloc::boxed::Box;
use core::fmt;

use crate::codes;
use crate::connection::SendError;
use crate::error_object::{ErrorObject, OwnedError};
use crate::error_profile::Failures;
use crate::json::{DecodeError, EncodeError, Reason};

/// An error that is sent as an error object: a server answers with it, and a client receives it
/// again.
///
/// `#[derive(RpcError)]` writes both directions for an enum:
///
/// ```ignore
/// #[derive(Debug, RpcError)]
/// enum CalcError {
///     #[rpc(code = -32602, message = "Division by zero")]
///     DivisionByZero,
///     #[rpc(code = 1001)]
///     OutOfRange { limit: f64 },
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an error object on the wire",
    label = "derive `RpcError` for it, or use `OwnedError`",
    note = "an error that the peer need not know becomes an internal error by `.internal()?`"
)]
pub trait RpcError: Into<OwnedError> {
    /// Converts the error of a peer.
    ///
    /// # Errors
    /// Returns `error` if no value of this type stands for it.
    fn from_error(error: OwnedError) -> Result<Self, OwnedError>;
}

impl RpcError for OwnedError {
    fn from_error(error: OwnedError) -> Result<Self, OwnedError> {
        Ok(error)
    }
}

/// Why a method has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// The params are not what the method takes: the peer gets *invalid params*.
    Params(DecodeError),
    /// The method answers with an error.
    Error(OwnedError),
    /// The method is unknown: the peer gets this error, *method not found*.
    UnknownMethod(OwnedError),
    /// The result has no JSON form: the peer gets *internal error*.
    Encode(EncodeError),
    /// The answer could not be sent, because of the limit on its size or another limit: the peer
    /// gets *internal error*.
    Send(SendError),
    /// An interceptor has failed: the peer gets *internal error*; a call of ours is not sent.
    Interceptor(Box<dyn core::error::Error + Send + Sync>),
    /// A call of ours got no answer.
    NoAnswer(NoAnswer),
}

/// How a call of ours ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// No answer came in time. The peer may still be working.
    TimedOut,
    /// The connection ended first. The peer may or may not have acted.
    Closed,
    /// No byte of the call left this side.
    Unsent,
    /// The peer answered the batch without an answer to this call.
    Missing,
    /// The answer was not valid.
    Invalid,
}

impl NoAnswer {
    /// The name for logs and metrics, as `error.type` in the conventions of OpenTelemetry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Closed => "connection_closed",
            Self::Unsent => "unsent",
            Self::Missing => "missing",
            Self::Invalid => "invalid",
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "there was no answer in time",
            Self::Closed => "the connection ended before the answer came",
            Self::Unsent => "the call was not sent",
            Self::Missing => "the peer left the call out of its answer",
            Self::Invalid => "what came is no answer",
        })
    }
}

impl core::error::Error for NoAnswer {}

impl Failure {
    /// The error object that is sent to the peer, unless the configuration's
    /// [`failures`](crate::Dialect::failures) say otherwise.
    pub fn as_error(&self) -> ErrorObject<'_> {
        match self {
            Self::Params(_) => ErrorObject::invalid_params(),
            Self::Error(error) | Self::UnknownMethod(error) => error.as_error(),
            Self::Encode(_) | Self::Send(_) | Self::Interceptor(_) | Self::NoAnswer(_) => {
                ErrorObject::internal_error()
            }
        }
    }

    /// The error object that is sent to the peer under these settings.
    pub fn told(&self, failures: Failures) -> OwnedError {
        let (error, type_name) = match self {
            Self::Error(error) | Self::UnknownMethod(error) => {
                return failures.told(error.clone());
            }
            Self::Params(error) => {
                let told = ErrorObject::invalid_params();
                return failures.describe(told, "DecodeError", &Reason(error));
            }
            Self::Encode(_) => (failures.error(), "EncodeError"),
            Self::Send(_) => (failures.error(), "SendError"),
            Self::Interceptor(_) => (failures.error(), "Error"),
            Self::NoAnswer(_) => (failures.error(), "NoAnswer"),
        };
        match self.cause() {
            Some(cause) => failures.describe(error, type_name, cause),
            None => error.into_owned(),
        }
    }

    /// Whether the handler itself answers that the method is unknown. An extension that answers so
    /// leaves the request to the router's own method of that name.
    pub fn declines(&self) -> bool {
        matches!(self, Self::Error(error) if error.code() == codes::METHOD_NOT_FOUND)
    }

    /// The cause, which is not sent to the peer.
    pub fn cause(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Params(error) => Some(error),
            Self::Error(error) | Self::UnknownMethod(error) => {
                let lost = || Some(error.lost_data()? as _);
                core::error::Error::source(error).or_else(lost)
            }
            Self::Encode(error) => Some(error),
            Self::Send(error) => Some(error),
            Self::Interceptor(cause) => Some(&**cause),
            Self::NoAnswer(why) => Some(why),
        }
    }

    /// The error object that is sent to the peer.
    pub fn into_error(self) -> OwnedError {
        match self {
            Self::Params(_) => ErrorObject::invalid_params().into_owned(),
            Self::Error(error) | Self::UnknownMethod(error) => error,
            Self::Interceptor(cause) => OwnedError::internal(cause),
            Self::Encode(_) | Self::Send(_) | Self::NoAnswer(_) => {
                ErrorObject::internal_error().into_owned()
            }
        }
    }
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        Self::Params(error)
    }
}

impl From<OwnedError> for Failure {
    fn from(error: OwnedError) -> Self {
        Self::Error(error)
    }
}

/// The failure of an unknown method.
pub(super) fn unknown_method() -> Failure {
    Failure::UnknownMethod(ErrorObject::method_not_found().into_owned())
}

/// Turns any error into an *internal error*, of which the peer is not sent the cause.
pub trait Internal<T> {
    /// Answers *internal error* (−32603) if the result is an error. The cause is reported on this
    /// side, and not sent.
    ///
    /// # Errors
    /// The error for the handler to return.
    fn internal(self) -> Result<T, OwnedError>;
}

impl<T, E: Into<Box<dyn core::error::Error + Send + Sync>>> Internal<T> for Result<T, E> {
    fn internal(self) -> Result<T, OwnedError> {
        self.map_err(|error| OwnedError::internal_of(error.into(), core::any::type_name::<E>()))
    }
}
