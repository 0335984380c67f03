//! The handshake on a blocking socket, with a deadline.
//!
//! The deadline is for the whole handshake, so a peer that sends slowly gains no time.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use antiphon::session::grace;
use rustls::Connection;

use super::rustls;

/// The most bytes that are read and dropped after a failed handshake.
const MAX_LEFT_BYTES: usize = 256 * 1024;

/// How often to read after the deadline, and how long each of these reads waits: 16 ms in all, for
/// input that has arrived and was not read yet.
const MAX_LATE_READS: u32 = 16;
const LATE_READ_TIME: Duration = Duration::from_millis(1);

/// Performs the handshake. The socket has no timeouts afterwards.
pub(super) fn complete(
    tls: &mut Connection,
    stream: &TcpStream,
    timeout: Duration,
) -> io::Result<()> {
    let mut timed = Timed {
        stream,
        due: Instant::now() + timeout,
        is_granted: false,
        late_reads: MAX_LATE_READS,
    };
    while tls.is_handshaking() {
        if let Err(error) = tls.complete_io(&mut timed) {
            if error.kind() != io::ErrorKind::TimedOut {
                let_go(&mut timed);
            }
            return Err(error);
        }
    }
    stream.set_read_timeout(None)?;
    stream.set_write_timeout(None)
}

/// Waits for the other side's end, so that it can read why it was refused: a socket that is closed
/// with unread input discards its last output.
fn let_go(timed: &mut Timed<'_>) {
    // If it is closed already, that is fine.
    let _ = timed.stream.shutdown(Shutdown::Write);
    let (mut ignored, mut left) = ([0; 1024], MAX_LEFT_BYTES);
    while let Ok(n @ 1..) = timed.read(&mut ignored) {
        left = left.saturating_sub(n);
        if left == 0 {
            break;
        }
    }
}

/// A socket whose writes fail after the deadline, and whose reads fail after [`MAX_LATE_READS`] more.
struct Timed<'a> {
    stream: &'a TcpStream,
    due: Instant,
    /// Whether the extra time after a jump of the clock was granted.
    is_granted: bool,
    /// How many more reads are allowed after the deadline.
    late_reads: u32,
}

impl Timed<'_> {
    /// Returns the time that is left; `None` after the deadline.
    fn left(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let more = grace(now.saturating_duration_since(self.due));
        if !more.is_zero() && !self.is_granted {
            (self.due, self.is_granted) = (now + more, true);
        }
        let left = self.due.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = match self.left() {
            Some(left) => left,
            // Input that has arrived is read before the deadline counts.
            None if self.late_reads > 0 => {
                self.late_reads -= 1;
                LATE_READ_TIME
            }
            None => return Err(too_late()),
        };
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buf).map_err(late)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let left = self.left().ok_or_else(too_late)?;
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write(buf).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Returns the error of the handshake's timeout for that of a socket, which differs between
/// systems.
fn late(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => too_late(),
        _ => error,
    }
}

fn too_late() -> io::Error {
    let text = "the TLS handshake was not finished in time";
    io::Error::new(io::ErrorKind::TimedOut, text)
}
