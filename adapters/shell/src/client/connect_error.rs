//! Why a client was not made.

use std::fmt;
use std::io;

use antiphon::InvalidStrategy;

use crate::http::error::HttpError;

/// Why a client was not made.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The target cannot be connected to, whatever its server does: no URL, a scheme of a feature that is
    /// off, TLS without its options, a token or first calls where nothing would send them.
    Target(String),
    /// A strategy in the options is not valid.
    Strategy(InvalidStrategy),
    /// A URL or a header for HTTP is not valid.
    Http(HttpError),
    /// The connection was not made: nobody answered, or not in time; the server has refused the handshake of
    /// TLS or WebSocket, and then the text has its reason; the command cannot be started.
    Io(io::Error),
}

impl ConnectError {
    /// Whether the attempt took too long.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::TimedOut)
    }

    /// Whether another attempt may succeed, without a change of the options or the target.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Io(error) if !crate::fault::is_permanent(error))
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target(text) => f.write_str(text),
            Self::Strategy(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The text of the error is the text of this one already.
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ConnectError> for io::Error {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Io(error) => error,
            other => Self::new(io::ErrorKind::InvalidInput, other),
        }
    }
}
