//! Errors of a program that are error objects on the wire, and back.

use alloc::boxed::Box;

use crate::codes;
use crate::connection::SendError;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{DecodeError, EncodeError};

/// An error that is an error object on the wire: a server answers with it, a client gets it back.
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
    /// Reads the error of a peer.
    ///
    /// # Errors
    /// The error itself, if it is none of these.
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
    /// Nobody serves the method: the peer gets this error, *method not found*.
    UnknownMethod(OwnedError),
    /// The result has no JSON form: the peer gets *internal error*.
    Encode(EncodeError),
    /// The answer could not be sent, because it is larger than the output may be or for another limit: the
    /// peer gets *internal error*.
    Send(SendError),
}

impl Failure {
    /// What the peer is told.
    pub fn as_error(&self) -> ErrorObject<'_> {
        match self {
            Self::Params(_) => ErrorObject::invalid_params(),
            Self::Error(error) | Self::UnknownMethod(error) => error.as_error(),
            Self::Encode(_) | Self::Send(_) => ErrorObject::internal_error(),
        }
    }

    /// Whether the method itself says that it is not known: an extension leaves the request to the next so.
    pub fn declines(&self) -> bool {
        matches!(self, Self::Error(error) if error.code() == codes::METHOD_NOT_FOUND)
    }

    /// What led to it, which the peer is not told.
    pub fn cause(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Params(error) => Some(error),
            Self::Error(error) | Self::UnknownMethod(error) => core::error::Error::source(error),
            Self::Encode(error) => Some(error),
            Self::Send(error) => Some(error),
        }
    }

    /// What the peer is told.
    pub fn into_error(self) -> OwnedError {
        match self {
            Self::Params(_) => ErrorObject::invalid_params().into_owned(),
            Self::Error(error) | Self::UnknownMethod(error) => error,
            Self::Encode(_) | Self::Send(_) => ErrorObject::internal_error().into_owned(),
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

/// Why a method that nobody serves has no result.
pub(super) fn unknown_method() -> Failure {
    Failure::UnknownMethod(ErrorObject::method_not_found().into_owned())
}

/// Any error as an *internal error*, of which the peer learns nothing.
pub trait Internal<T> {
    /// Answers *internal error* (−32603) if this failed. The cause is reported here, and not sent.
    ///
    /// # Errors
    /// The error to return.
    fn internal(self) -> Result<T, OwnedError>;
}

impl<T, E: Into<Box<dyn core::error::Error + Send + Sync>>> Internal<T> for Result<T, E> {
    fn internal(self) -> Result<T, OwnedError> {
        self.map_err(|error| OwnedError::internal(error.into()))
    }
}
