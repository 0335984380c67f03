//! A blocking reader and writer as one stream for a task: for standard streams and the pipes of a
//! child, which no runtime can wait for without risk.
//!
//! They are read and written on threads of the `blocking` crate. A read that waits cannot be
//! interrupted: its thread ends with the stream or with the process, and keeps neither a runtime
//! nor the process from ending. Each direction holds one piece at most, so neither side runs ahead.

use std::io::{self, Read, Write};

use blocking::Unblock;

use super::futures::FuturesPair;
use super::io::Io;
use super::later::Whole;
use super::link::Link;
use super::stdio::{stdin, stdout_unbuffered};

/// How much is read or taken to be written at once.
const MAX_PIECE_BYTES: usize = 64 * 1024;

impl Link {
    /// A reader and a writer that block, on threads of the `blocking` crate: it has 500, unless the
    /// environment variable `BLOCKING_MAX_THREADS` says otherwise, and each reader that waits takes
    /// one. A write that would block is tried again.
    pub fn from_blocking(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        Self::new(on_threads(reader, writer, true))
    }

    /// This process's own standard input and output. Nothing else may print to standard output
    /// from now on; logs belong on standard error. A thread that waits on standard input stays
    /// behind when the connection ends, and keeps neither the runtime nor the process. The other
    /// side's end is not awaited after ours: there is no `linger`.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn stdio() -> io::Result<Self> {
        let output = stdout_unbuffered()?;
        Ok(Self::new(on_threads(stdin(), output, false)))
    }
}

fn on_threads(
    reader: impl Read + Send + 'static,
    writer: impl Write + Send + 'static,
    awaits_end: bool,
) -> impl Io {
    FuturesPair {
        reader: Unblock::with_capacity(MAX_PIECE_BYTES, reader),
        // What a write leaves when it is interrupted is lost in `Unblock`.
        writer: Some(Unblock::with_capacity(MAX_PIECE_BYTES, Whole(writer))),
        awaits_end,
    }
}
