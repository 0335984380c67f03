//! An error of the transport that can be returned more than once.

use std::error::Error;
use std::fmt;
use std::io;

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

/// Returns the error of a failed attempt to connect to `address`. It has the kind and the text of `error`, and
/// the address in front.
pub fn cannot_connect(address: impl fmt::Display, error: &io::Error) -> io::Error {
    let text = format!("cannot connect to {address}: {error}");
    io::Error::new(error.kind(), text)
}

/// What resolvers say of a name that does not exist: those of GNU, of macOS and the BSDs, and of musl.
const NO_SUCH_NAME: [&str; 3] = [
    "Name or service not known",
    "nodename nor servname provided, or not known",
    "Name does not resolve",
];

/// The error of Windows for a name that does not exist: `WSAHOST_NOT_FOUND`.
const HOST_NOT_FOUND: Option<i32> = Some(11_001);

/// Returns the error of a failed look-up. If the name does not exist, its kind is
/// [`InvalidInput`](io::ErrorKind::InvalidInput): the system has no kind for that, and a client does not
/// try again then.
pub fn lookup_error(error: io::Error) -> io::Error {
    let text = error.to_string();
    let is_unknown = NO_SUCH_NAME.iter().any(|known| text.contains(known));
    match is_unknown || (cfg!(windows) && error.raw_os_error() == HOST_NOT_FOUND) {
        true => io::Error::new(io::ErrorKind::InvalidInput, text),
        false => error,
    }
}

/// Whether no further attempt to connect can succeed before somebody changes something: the name of the
/// server is not valid or does not exist, or one side does not accept the other's certificate.
pub(crate) fn is_permanent(error: &io::Error) -> bool {
    #[cfg(feature = "tls")]
    if let Some(fault) = crate::tls::TlsFault::of(error) {
        return fault.is_permanent();
    }
    error.kind() == io::ErrorKind::InvalidInput
}

/// Converts a [`Fault`], as which a session reports the error of its transport, back to an
/// [`io::Error`] with the kind, the text and the causes of that error.
///
/// ```
/// use antiphon_net::{Report, to_error};
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
            None => io::Error::new(error.kind(), Told(fault.clone())),
        };
    }
    match error.downcast_ref::<ConnectionError>() {
        Some(error) => broken(*error),
        None => io::Error::other(Told(fault.clone())),
    }
}

/// An error that is returned more than once. Its source is the error of the transport.
#[derive(Debug)]
struct Told(Fault);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Told {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.as_error())
    }
}
