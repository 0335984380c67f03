//! An error of the transport, for as many as ask for it.
//!
//! The rule guarded here: whoever asks gets what the transport said, with its kind, its text and its
//! causes.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use antiphon::{Closed, ConnectionError};

/// How a connection ended, with an error if the peer or the stream broke it: then the stream can no
/// longer be cut into messages, or a limit was reached that ends the connection. The
/// [`ConnectionError`] is inside.
///
/// # Errors
/// See above.
pub fn unless_broken(ended: io::Result<Closed>) -> io::Result<Closed> {
    match ended? {
        Closed::Failed(error) => Err(broken(error)),
        why => Ok(why),
    }
}

pub(crate) fn broken(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::Truncated => io::ErrorKind::UnexpectedEof,
        ConnectionError::FrameTimedOut
        | ConnectionError::WriteTimedOut
        | ConnectionError::DrainTimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}

/// An error that is told more than once.
#[derive(Clone, Debug)]
pub(crate) struct Fault(Arc<io::Error>);

impl Fault {
    pub(crate) fn new(error: io::Error) -> Self {
        Self(Arc::new(error))
    }

    /// The error once more.
    pub(crate) fn to_error(&self) -> io::Error {
        match self.0.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(self.0.kind(), self.clone()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Its source is the error that the transport gave.
impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}
