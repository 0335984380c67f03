//! Streams that say "would block", or that a read or write took too long: both mean later.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

/// The first and the longest pause before a stream is asked again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// Whether an error says no more than that there is nothing to read, or no room to write, yet: of a
/// stream in non-blocking mode, or of a socket with a timeout. Only Windows calls the latter a
/// timeout; elsewhere that is a connection whose other side answers nothing any more.
pub fn is_later(error: &io::Error) -> bool {
    let kind = error.kind();
    kind == io::ErrorKind::WouldBlock || (cfg!(windows) && kind == io::ErrorKind::TimedOut)
}

/// The pauses between the questions to a stream that cannot be waited for.
#[derive(Debug)]
pub struct Later {
    next: Duration,
}

impl Later {
    /// Begins with the shortest.
    pub const fn new() -> Self {
        Self { next: PAUSES.0 }
    }

    /// Lets the thread wait, each time a little longer, 20 ms at most.
    pub fn pause(&mut self) {
        thread::sleep(self.next);
        self.next = (2 * self.next).min(PAUSES.1);
    }

    /// Something was moved: the next pause is short again.
    pub fn renew(&mut self) {
        self.next = PAUSES.0;
    }
}

impl Default for Later {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes and flushes all of it, however often the writer says that it would block.
///
/// # Errors
/// The writer takes nothing more.
pub fn write_out(writer: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    let mut later = Later::new();
    loop {
        let done = match bytes {
            [] => writer.flush().map(|()| true),
            _ => writer.write(bytes).map(|n| {
                bytes = &bytes[n.min(bytes.len())..];
                n == 0
            }),
        };
        match done {
            Ok(true) if bytes.is_empty() => return Ok(()),
            Ok(true) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(false) => later.renew(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_later(&error) => later.pause(),
            Err(error) => return Err(error),
        }
    }
}
