//! Retries for a stream that returns "would block".

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// The first and the longest pause between two attempts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Whether an error only means that there is nothing to read, or no space to write, yet. A stream
/// in non-blocking mode returns it, and a socket whose read or write timeout has passed. Windows
/// then returns `TimedOut`; on other systems `TimedOut` means that the other side is gone.
pub(crate) fn is_would_block(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::WouldBlock || (cfg!(windows) && kind == io::ErrorKind::TimedOut)
}

/// The pauses between attempts to read from a stream, or to write to it, when the system cannot
/// wake the thread.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    last: Duration,
}

impl Pauses {
    /// Begins with the shortest pause.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Returns how long to wait now: each time twice as long, 20 ms at most.
    pub(crate) fn longer(&mut self) -> Duration {
        self.last = (2 * self.last).clamp(PAUSES.0, PAUSES.1);
        self.last
    }

    /// Makes the thread wait, each time twice as long, 20 ms at most.
    pub(crate) fn pause(&mut self) {
        thread::sleep(self.longer());
    }

    /// Makes the next pause short again, because bytes were read or written.
    pub(crate) fn renew(&mut self) {
        *self = Self::new();
    }
}

/// Writes and flushes all bytes, however often the writer returns "would block".
///
/// # Errors
/// The writer accepts no more bytes.
pub fn write_out(writer: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let mut pauses = Pauses::new();
    loop {
        let moved = match bytes {
            [] => writer.flush().map(|()| 0),
            _ => writer.write(bytes),
        };
        match moved {
            Ok(_) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                pauses.renew();
                bytes = &bytes[n.min(bytes.len())..];
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_would_block(&error) => pauses.pause(),
            Err(error) => return Err(error),
        }
    }
}

/// A writer that writes all bytes that it is given: see [`write_out`].
#[derive(Debug)]
pub(crate) struct Whole<W>(pub(crate) W);

impl<W: Write> Write for Whole<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        write_out(&mut self.0, buf).map(|()| buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
