//! A blocking reader and writer as one stream for a task: for standard streams, which runtimes
//! cannot wait for safely.
//!
//! They are read and written on threads of the crate `blocking`. A read that waits cannot be
//! interrupted: its thread ends with the stream or with the process. It does not keep the runtime
//! or the process from ending. Each direction holds one piece of data at most.

use std::io::{self, Read, Write};

use blocking::Unblock;

use super::futures::FuturesPair;
use super::io::Io;
use super::later::Whole;
use super::link::Link;
use super::stdio::{stdin, stdout_unbuffered};

/// How many bytes are read, or taken to be written, in one piece.
const MAX_PIECE_BYTES: usize = 64 * 1024;

impl Link {
    /// Makes a link of a blocking reader and writer, on threads of the crate `blocking`. The crate has at
    /// most 500 threads, unless the environment variable `BLOCKING_MAX_THREADS` sets another number, and
    /// each reader that waits uses one. A write that would block is tried again.
    pub fn from_blocking(
        reader: impl Read + Send + 'static,
        writer: impl Write + Send + 'static,
    ) -> Self {
        Self::new(on_threads(reader, writer, true))
    }

    /// Makes a link of this process's own standard input and output. Nothing else may write to
    /// standard output from now on; write logs to standard error. A thread that waits on standard
    /// input remains when the connection ends, but does not keep the runtime or the process from
    /// ending. After its own end the connection does not wait for the other side's end: the option
    /// `linger` has no effect.
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
        // `Unblock` loses the rest of a write that is interrupted.
        writer: Some(Unblock::with_capacity(MAX_PIECE_BYTES, Whole(writer))),
        awaits_end,
    }
}
