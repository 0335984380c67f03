//! The deadlines of the threads' HTTP client, which its sockets keep.
//!
//! ```text
//!   waiting ──due──▶ looking ──nothing there──▶ over
//!      ▲                │                        │ late, for the first time
//!      └────────────────┴──── granted more ◀─────┘
//! ```
//!
//! ureq looks at the clock before it reads, and would end a call whose reply came while the process was
//! stopped. So it is told a deadline that lies far ahead ([`ahead`]), and what waits for the network
//! takes that off again.

use std::io;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use antiphon_session::grace;
use ureq::unversioned::transport::NextTimeout;

/// How much later than the caller's the deadline is that ureq is told: ten years.
const AHEAD: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// For how long a server that never stops sending can postpone a deadline.
const FLOOD_TIME_MAX: Duration = Duration::from_secs(1);

/// What ureq is told of a caller's timeout.
pub(super) fn ahead(timeout: Duration) -> Duration {
    timeout.saturating_add(AHEAD)
}

/// How much of the caller's timeout is left of what ureq says; none for ever.
pub(super) fn left(timeout: NextTimeout) -> Option<Duration> {
    let is_endless = timeout.after.is_not_happening();
    (!is_endless).then(|| timeout.after.saturating_sub(AHEAD))
}

/// When a request has to be done.
#[derive(Debug, Default)]
pub(super) struct Deadline {
    due: Option<Instant>,
    /// More time, since the clock had jumped over it.
    granted: Option<Instant>,
    /// Since when it has been over, as far as this thread saw.
    over_since: Option<Instant>,
}

impl Deadline {
    /// Takes the deadline from what ureq says. What was granted stays.
    pub(super) fn set(&mut self, timeout: NextTimeout) {
        let now = Instant::now();
        let due = |after| now.checked_add(after)?.checked_sub(AHEAD);
        let is_endless = timeout.after.is_not_happening();
        self.due = (!is_endless).then(|| due(*timeout.after).unwrap_or(now));
    }

    /// Reads or writes `once`, when the socket lets it; `set` gives the socket its timeout. None if the
    /// deadline is over, which is not said before the socket was looked at.
    pub(super) fn wait(
        &mut self,
        stream: &TcpStream,
        set: fn(&TcpStream, Option<Duration>) -> io::Result<()>,
        mut once: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Option<io::Result<usize>> {
        loop {
            let now = Instant::now();
            let until = self.due.max(self.granted.filter(|_| self.due.is_some()));
            let is_over = until.is_some_and(|until| until <= now);
            let done = if is_over {
                let since = *self.over_since.get_or_insert(now);
                if now > since + FLOOD_TIME_MAX {
                    return None;
                }
                look(stream, &mut once)
            } else {
                set(stream, until.map(|until| until - now)).and_then(|()| once(stream))
            };
            match done {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_early(&error) && !is_over => {}
                Err(error) if is_early(&error) => {
                    if !self.grant(now) {
                        return None;
                    }
                }
                done => return Some(done),
            }
        }
    }

    /// Grants more time: once, if the deadline was seen so late that this thread cannot have run.
    fn grant(&mut self, now: Instant) -> bool {
        let (Some(due), Some(since)) = (self.due, self.over_since) else {
            return false;
        };
        let more = grace(since.saturating_duration_since(due));
        if self.granted.is_some() || more.is_zero() {
            return false;
        }
        (self.granted, self.over_since) = (Some(now + more), None);
        true
    }
}

/// Reads or writes without waiting.
fn look(
    stream: &TcpStream,
    once: &mut impl FnMut(&TcpStream) -> io::Result<usize>,
) -> io::Result<usize> {
    stream.set_nonblocking(true)?;
    let done = once(stream);
    stream.set_nonblocking(false)?;
    done
}

/// Whether there was nothing to read, or no room to write. A timeout of the connection itself is something
/// else, where the system tells them apart.
fn is_early(error: &io::Error) -> bool {
    let is_timeout = cfg!(windows) && error.kind() == io::ErrorKind::TimedOut;
    error.kind() == io::ErrorKind::WouldBlock || is_timeout
}
