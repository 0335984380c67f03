//! The ways in which calls end without a result.

use std::fmt;
use std::io;

use antiphon::RpcError;
use antiphon::session::Fault;
use antiphon::{
    DecodeError, ErrorObject, OwnedError, OwnedInvalid, OwnedJson, OwnedOutcome, SendError,
};
use serde::de::DeserializeOwned;

use crate::fault::is_permanent;
use crate::fault::to_error;
use crate::http::error::HttpError;
use crate::http::reply::HttpReply;
use crate::session::Then;

/// How a call ended without a result. `E` is the type of the peer's errors: the error object,
/// unless a [`Method`](antiphon::Method) or a typed client sets another.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError<E = OwnedError> {
    /// The peer answered with an error object. If it is an [`OwnedError`], `as_error` returns it with
    /// its code, message and data.
    Remote(E),
    /// The peer answered with an error object that does not convert into `E`.
    Unexpected(OwnedError),
    /// No answer came in time. The peer may still be working.
    TimedOut,
    /// The connection ended first. The peer may or may not have acted. An
    /// [idempotent](crate::Call::idempotent) call that was sent ends so too if a client that reconnects
    /// gets no connection to send it again.
    Closed,
    /// No byte of the call was sent: repeating the call is safe.
    Unsent,
    /// The peer answered a batch, or an HTTP request, without an answer to this call.
    Missing,
    /// The peer's answer is not valid. The error has the first bytes of it.
    Invalid(OwnedInvalid),
    /// The result does not have the expected type. The text says what was expected and which kind of
    /// value was found; it never quotes the value.
    Decode(DecodeError),
    /// The call was not sent: a limit, a closed connection, params without a JSON form.
    Rejected(SendError),
    /// A client that reconnects has no connection, and none opened while the call waited. No byte
    /// of the call was sent.
    NoConnection(NoConnection),
    /// An interceptor of this side has failed, for example because it could not get a token.
    /// Nothing was sent.
    Interceptor(Box<dyn std::error::Error + Send + Sync>),
    /// The exchange over HTTP failed. If it takes too long, the error is
    /// [`TimedOut`](Self::TimedOut).
    Http(HttpError),
}

impl<E: RpcError> CallError<E> {
    /// Converts the error of a call whose remote errors are error objects to one whose remote errors
    /// have the type `E`.
    pub(crate) fn of_untyped(error: CallError) -> Self {
        match error {
            CallError::Remote(error) | CallError::Unexpected(error) => Self::remote_of(error),
            CallError::TimedOut => Self::TimedOut,
            CallError::Closed => Self::Closed,
            CallError::Unsent => Self::Unsent,
            CallError::Missing => Self::Missing,
            CallError::Invalid(invalid) => Self::Invalid(invalid),
            CallError::Decode(error) => Self::Decode(error),
            CallError::Rejected(error) => Self::Rejected(error),
            CallError::NoConnection(error) => Self::NoConnection(error),
            CallError::Interceptor(cause) => Self::Interceptor(cause),
            CallError::Http(error) => Self::Http(error),
        }
    }

    fn remote_of(error: OwnedError) -> Self {
        E::from_error(error).map_or_else(Self::Unexpected, Self::Remote)
    }

    /// Decodes a result, or returns how the call ended without one. The result is decoded in place,
    /// because moving it costs as much as decoding it.
    #[inline]
    pub(crate) fn read<R: DeserializeOwned>(outcome: OwnedOutcome) -> Result<R, Self> {
        match &outcome {
            OwnedOutcome::Ok(result) => result.as_json().decode().map_err(Self::Decode),
            _ => Err(Self::instead(outcome)),
        }
    }

    /// Returns the error for an outcome that is no result.
    #[cold]
    fn instead(outcome: OwnedOutcome) -> Self {
        match outcome {
            OwnedOutcome::Err(error) => Self::remote_of(error),
            OwnedOutcome::Invalid(invalid) => Self::Invalid(invalid),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // A later version of the core may have other outcomes; these are ends without an answer
            // too.
            _ => Self::Closed,
        }
    }
}

impl CallError {
    /// Returns the result, or how the call ended without one.
    ///
    /// # Errors
    /// How the call ended without a result.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        match outcome {
            OwnedOutcome::Ok(result) => Ok(result),
            other => Err(Self::instead(other)),
        }
    }

    /// Decodes a result, or returns how the call ended without one.
    ///
    /// # Errors
    /// How the call ended without a result, or [`Decode`](Self::Decode).
    pub fn decoded<R: DeserializeOwned>(outcome: OwnedOutcome) -> Result<R, Self> {
        Self::read(outcome)
    }

    /// The peer's error object, if it answered with one.
    pub fn remote(&self) -> Option<ErrorObject<'_>> {
        match self {
            Self::Remote(error) | Self::Unexpected(error) => Some(error.as_error()),
            _ => None,
        }
    }
}

impl<E> CallError<E> {
    pub(crate) fn of_http(error: HttpError) -> Self {
        match error {
            HttpError::TimedOut => Self::TimedOut,
            other => Self::Http(other),
        }
    }

    /// The status and headers of an HTTP reply, if the reply was not a valid answer.
    pub fn reply(&self) -> Option<&HttpReply> {
        match self {
            Self::Http(error) => error.reply(),
            _ => None,
        }
    }

    /// Whether no byte of the call was sent, so that the peer has not run it.
    pub fn is_unsent(&self) -> bool {
        match self {
            Self::Unsent | Self::Rejected(_) | Self::NoConnection(_) | Self::Interceptor(_) => true,
            Self::Http(error) => error.is_unsent(),
            _ => false,
        }
    }

    /// Whether no answer came in time. The peer may have run the call.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut | Self::Http(HttpError::TimedOut))
    }

    /// Whether the same call may succeed later, and cannot run twice then: no byte of it was sent, and what
    /// was missing may come (a connection, space in the output). An error that the peer answered with is not
    /// judged: what its code means is the program's to know, as in [`Retry::codes`](antiphon::Retry::codes).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unsent | Self::Rejected(SendError::Full) => true,
            Self::NoConnection(error) => !error.is_final(),
            Self::Http(HttpError::Connect(error)) => !is_permanent(error),
            Self::Http(error) => matches!(error, HttpError::Unsent(_)),
            _ => false,
        }
    }

    /// Whether the call failed because no connection was open or the connection ended. Over HTTP: only
    /// whether the client has been closed.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::Unsent
                | Self::Rejected(SendError::Closed)
                | Self::NoConnection(_)
                | Self::Http(HttpError::Closed)
        )
    }
}

impl<E: fmt::Display> fmt::Display for CallError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(error) => error.fmt(f),
            Self::Unexpected(error) => error.fmt(f),
            Self::TimedOut => f.write_str("there was no answer in time"),
            Self::Closed => f.write_str("the connection ended before the answer came"),
            Self::Unsent => {
                f.write_str("the call was not sent: there was no connection, or it ended before")
            }
            Self::Missing => f.write_str("the peer left the call out of its answer"),
            Self::Invalid(invalid) => write!(f, "the answer is not valid: {invalid}"),
            Self::Decode(error) => {
                write!(f, "the result is not what was expected: {error}")?;
                match error.detail() {
                    "" => Ok(()),
                    detail => write!(f, ": {detail}"),
                }
            }
            Self::Rejected(error) => error.fmt(f),
            Self::NoConnection(error) => error.fmt(f),
            Self::Interceptor(cause) => write!(f, "the call was kept back: {cause}"),
            Self::Http(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for CallError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text of the wrapped error is the text of this one already.
            Self::NoConnection(error) => error.source(),
            Self::Interceptor(cause) => cause.source(),
            Self::Http(error) => error.source(),
            _ => None,
        }
    }
}

impl<E> From<SendError> for CallError<E> {
    fn from(error: SendError) -> Self {
        Self::Rejected(error)
    }
}

/// A call that was refused, with the function that was to run at the end of the call.
pub struct CallRefused {
    /// Why it was refused.
    pub error: SendError,
    /// The function that was passed; it was not run.
    pub then: Then,
}

impl fmt::Debug for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallRefused({:?})", self.error)
    }
}

impl fmt::Display for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CallRefused {}

/// A call, or a caller of `wait_open`, has waited for a connection in vain. Nothing of the call was
/// sent.
#[derive(Clone, Debug)]
pub struct NoConnection {
    pub(crate) is_final: bool,
    pub(crate) last_error: Option<Fault>,
}

impl NoConnection {
    /// Whether there will be no more attempts to connect, as the
    /// [strategy](crate::ClientConfig::reconnect) says. If false, the time to wait was over.
    pub fn is_final(&self) -> bool {
        self.is_final
    }

    /// Why the last connection, or the last attempt at one, failed. `None` if none has failed, as
    /// while the first attempt is still under way. For a refused WebSocket handshake the text has the
    /// HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        self.last_error.as_ref().map(to_error)
    }
}

impl fmt::Display for NoConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.is_final {
            true => "there is no connection, and no further attempt at one",
            false => "no connection was open in time",
        })?;
        match &self.last_error {
            Some(error) => write!(f, "; the last error: {error}"),
            None => Ok(()),
        }
    }
}

/// Its source is the source of the last error, whose text is part of its own.
impl std::error::Error for NoConnection {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.last_error.as_ref()?.as_error().source()
    }
}
