//! An error of the transport that can be returned more than once.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitStatus;

use antiphon::session::Fault;
use antiphon::{Closed, ConnectionError};

/// Returns how a connection ended, or an error if the peer or the stream broke it: the stream
/// cannot be split into messages any more, or a limit was reached that ends the connection. The
/// error's [`io::Error::get_ref`] is the [`ConnectionError`].
///
/// # Errors
/// The peer or the stream broke the connection; or `ended` is an error.
pub fn unless_broken(ended: io::Result<Closed>) -> io::Result<Closed> {
    match ended? {
        Closed::Failed(error) => Err(broken(error)),
        why => Ok(why),
    }
}

/// Converts the error by which the peer or the stream broke a connection.
pub(crate) fn broken(error: ConnectionError) -> io::Error {
    let kind = match error {
        ConnectionError::Truncated => io::ErrorKind::UnexpectedEof,
        ConnectionError::MessageTimedOut
        | ConnectionError::WriteTimedOut
        | ConnectionError::DrainTimedOut => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::InvalidData,
    };
    io::Error::new(kind, error)
}

/// Marks the cause of an error as one after which another attempt at a connection ends in the same way, until
/// somebody changes something. A transport puts this among the [sources](Error::source) of its error, and clients
/// make no other attempt then. Its own source is `cause`.
pub fn permanent(cause: impl Into<Box<dyn Error + Send + Sync>>) -> impl Error + Send + Sync {
    Permanent(cause.into())
}

#[derive(Debug)]
struct Permanent(Box<dyn Error + Send + Sync>);

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another attempt would end in the same way")
    }
}

impl Error for Permanent {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

/// Whether no further attempt to connect can succeed before somebody changes something: the name of the
/// server is not valid or does not exist, or the transport says so by [`permanent`].
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::InvalidInput {
        return true;
    }
    let mut cause = error.get_ref().map(|error| error as &(dyn Error + 'static));
    while let Some(error) = cause {
        let inner = error.downcast_ref::<io::Error>();
        if error.is::<Permanent>() || inner.is_some_and(is_permanent) {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Converts a [`Fault`], as which a session reports the error of its transport, back to an
/// [`io::Error`] with the kind, the text and the causes of that error.
///
/// ```
/// use antiphon::session::Report;
/// use antiphon_shell::{to_error};
/// fn has_timed_out(report: &Report) -> bool {
///     let Report::Transport(fault) = report else { return false };
///     to_error(fault).kind() == std::io::ErrorKind::TimedOut
/// }
/// ```
pub fn to_error(fault: &Fault) -> io::Error {
    let error = fault.as_error();
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return match error.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None => io::Error::new(error.kind(), SharedFault(fault.clone())),
        };
    }
    match error.downcast_ref::<ConnectionError>() {
        Some(error) => broken(*error),
        None => io::Error::other(SharedFault(fault.clone())),
    }
}

/// An error that is returned more than once. Its source is the error of the transport.
#[derive(Debug)]
struct SharedFault(Fault);

impl fmt::Display for SharedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for SharedFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_error())
    }
}

/// Returns the error of a read from a child process that has exited with this status. A connection whose child
/// has exited with success, while none of our calls was open, ends without a fault then.
pub fn child_exited(status: ExitStatus) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, ChildExited(status))
}

/// The child has exited, with this status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChildExited(pub(crate) ExitStatus);

impl ChildExited {
    /// Returns the exit that the error contains, if it contains one.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for ChildExited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the child has exited: {}", self.0)
    }
}

impl Error for ChildExited {}
