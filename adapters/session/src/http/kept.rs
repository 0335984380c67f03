//! Whether a request that found no reply on a kept connection may go over another one.
//!
//! ```text
//!   begin ──▶ sent ──▶ first byte of the reply ──▶ begin
//!     │        │                  └ the connection ends: lost
//!     │        ├ it is reset, or soon after its end: unprocessed
//!     │        └ it ends otherwise: lost
//!     └ there is something to be read already: unprocessed
//! ```
//!
//! A server may end an idle connection at the very moment at which a request is sent over it. A call
//! may do anything, so it is sent again only where the server cannot have read all of it. A system
//! resets a connection that a program has closed before it read everything, or when more is sent to
//! it after that. A program that has read a request and then closes or crashes ends the connection
//! without a reset, and that call is lost. On a new connection nothing speaks for a server that was
//! done with it, so a reset proves nothing there.
//!
//! A connection that is closed while a request is on its way ends first, and is reset when the request
//! gets there: the reset comes behind the end, by as long as the way there and back takes. So an end
//! is not judged at once.

use std::fmt;
use std::io;
use std::time::Duration;

/// For how long a reset is awaited behind an end ([`Kept::may_be_reset`]).
pub const RESET_TIME_MAX: Duration = Duration::from_millis(200);

/// How often to look whether it has come: a socket that has ended tells nobody.
pub const RESET_LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// How much earlier than the server a connection is given up of which it said how long it keeps it: a
/// request sent later might meet its end.
const KEPT_SHORTER: Duration = Duration::from_secs(1);

/// For how long a connection may be idle after a reply with a header `Keep-Alive: timeout=5, max=100`: a
/// second less than the server says, so not at all if that is one. None if it does not say.
pub fn idle_time_said(keep_alive: &str) -> Option<Duration> {
    let seconds = keep_alive.split(',').find_map(|param| {
        let (name, value) = param.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("timeout");
        is_it.then(|| value.trim().parse().ok()).flatten()
    })?;
    Some(Duration::from_secs(seconds).saturating_sub(KEPT_SHORTER))
}

/// What a client's connection knows of the request that it carries.
#[derive(Debug, Default)]
pub struct Kept {
    /// It carried another request before, whose reply came.
    is_kept: bool,
    has_sent: bool,
    has_received: bool,
}

impl Kept {
    /// Another request is handed over. Gives whether the connection has been kept from an earlier one:
    /// then it must be looked at before anything is sent.
    pub fn begin(&mut self) -> bool {
        *self = Self {
            is_kept: self.is_kept || self.has_received,
            ..Self::default()
        };
        self.is_kept
    }

    /// Something of the request was written, or could not be.
    ///
    /// # Errors
    /// The same error, as one that [`is_unprocessed`] knows if the server cannot have read the whole
    /// request.
    pub fn written<T>(&mut self, written: io::Result<T>) -> io::Result<T> {
        self.has_sent |= written.is_ok();
        // What could not be written has not arrived.
        written.map_err(|error| match is_reset(&error) && self.has_no_reply() {
            true => unprocessed(error),
            false => error,
        })
    }

    /// Whether what was read is an end behind which a reset may come and say that the server did not
    /// read the request. Then it is awaited for [`RESET_TIME_MAX`], before [`read`](Self::read) is told.
    pub fn may_be_reset(&self, read: &io::Result<usize>) -> bool {
        let is_end = match read {
            Ok(n) => *n == 0,
            Err(error) => error.kind() == io::ErrorKind::UnexpectedEof,
        };
        is_end && self.has_sent && self.has_no_reply()
    }

    /// Something was read, the end (0 bytes) included, or could not be. `was_reset` tells whether the
    /// system knows of a reset that came with an end or behind it.
    ///
    /// # Errors
    /// As [`written`](Self::written), for an end, too.
    pub fn read(
        &mut self,
        read: io::Result<usize>,
        was_reset: impl FnOnce() -> bool,
    ) -> io::Result<usize> {
        if let Ok(1..) = read {
            self.has_received = true;
            return read;
        }
        let has_no_reply = self.has_sent && self.has_no_reply();
        let is_reset = read.as_ref().is_err_and(is_reset);
        if has_no_reply && (is_reset || was_reset()) {
            let ended = || io::ErrorKind::UnexpectedEof.into();
            return Err(unprocessed(read.err().unwrap_or_else(ended)));
        }
        read
    }

    fn has_no_reply(&self) -> bool {
        self.is_kept && !self.has_received
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

/// The end of a kept connection before the server can have read the request.
pub fn unprocessed(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unprocessed(error))
}

/// Whether a connection ended so that the server cannot have read the request that was sent over it.
pub fn is_unprocessed(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<Unprocessed>())
}

#[derive(Debug)]
struct Unprocessed(io::Error);

impl fmt::Display for Unprocessed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server had closed the connection: {}", self.0)
    }
}

impl std::error::Error for Unprocessed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use std::time::Duration;

    use super::{Kept, idle_time_said, is_unprocessed};

    const RESET: io::ErrorKind = io::ErrorKind::ConnectionReset;

    fn is_to_be_sent_again(read: io::Result<usize>) -> bool {
        read.is_err_and(|error| is_unprocessed(&error))
    }

    #[test]
    fn a_connection_is_kept_a_second_shorter_than_the_server_says() {
        let seconds = |text| idle_time_said(text).map(|span| span.as_secs());
        assert_eq!(seconds(" timeout=5, max=100"), Some(4));
        assert_eq!(seconds("max=100,TIMEOUT = 2"), Some(1));
        assert_eq!(seconds("timeout=1"), Some(0));
        assert_eq!(idle_time_said("timeout=0"), Some(Duration::ZERO));
        for nothing in [
            "",
            "max=100",
            "timeout",
            "timeout=",
            "timeout=-1",
            "timeout=soon",
        ] {
            assert_eq!(seconds(nothing), None, "{nothing}");
        }
    }

    // CON-06
    #[test]
    fn a_call_is_sent_again_only_if_the_server_cannot_have_read_it() {
        let mut kept = Kept::default();
        // On a new connection nothing speaks for an end while it was idle.
        assert!(!kept.begin());
        kept.written(Ok(())).unwrap();
        assert!(!is_to_be_sent_again(kept.read(Err(RESET.into()), || true)));
        assert!(!is_to_be_sent_again(kept.read(Ok(0), || true)));
        assert_eq!(kept.read(Ok(1), || true).unwrap(), 1);
        assert!(!kept.may_be_reset(&Ok(0)));
        // On a kept one it is a reset that counts.
        assert!(kept.begin());
        assert!(!kept.may_be_reset(&Ok(0)));
        kept.written(Ok(())).unwrap();
        assert!(kept.may_be_reset(&Ok(0)));
        assert!(kept.may_be_reset(&Err(io::ErrorKind::UnexpectedEof.into())));
        assert!(!kept.may_be_reset(&Err(RESET.into())));
        assert!(!kept.may_be_reset(&Ok(1)));
        assert!(is_to_be_sent_again(kept.read(Err(RESET.into()), || false)));
        assert!(is_to_be_sent_again(kept.read(Ok(0), || true)));
        assert!(!is_to_be_sent_again(kept.read(Ok(0), || false)));
        let cut = io::ErrorKind::UnexpectedEof;
        assert!(!is_to_be_sent_again(kept.read(Err(cut.into()), || false)));
        let broken = kept.written(Err::<(), _>(io::ErrorKind::BrokenPipe.into()));
        assert!(is_unprocessed(&broken.unwrap_err()));
        // Once a reply has begun the call is lost with it.
        assert_eq!(kept.read(Ok(1), || true).unwrap(), 1);
        assert!(!is_to_be_sent_again(kept.read(Err(RESET.into()), || true)));
        let broken = kept.written(Err::<(), _>(io::ErrorKind::BrokenPipe.into()));
        assert!(!is_unprocessed(&broken.unwrap_err()));
    }
}
