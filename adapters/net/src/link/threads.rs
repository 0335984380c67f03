//! A blocking reader and writer as one stream for a task: for standard streams, which runtimes
//! cannot wait for safely.
//!
//! They are read and written on threads of the crate `blocking`. A read that waits cannot be
//! interrupted: its thread ends with the stream or with the process. It does not keep the runtime
//! or the process from ending. Each direction holds one piece of data at most.

use std::io::{self, Read, Write};

use blocking::Unblock;

use super::Link;
use super::futures::FuturesPair;
use super::stdio::{stdin, stdout_unbuffered};
use super::would_block::{Pauses, Whole, is_would_block};
use antiphon_shell::{Io, caught};

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
    let pauses = Pauses::new();
    let reader = Patient { reader, pauses };
    FuturesPair {
        reader: Unblock::with_capacity(MAX_PIECE_BYTES, Caught(reader)),
        // `Unblock` loses the rest of a write that is interrupted.
        writer: Some(Unblock::with_capacity(
            MAX_PIECE_BYTES,
            Whole(Caught(writer)),
        )),
        awaits_end,
    }
}

/// A reader that may return "would block": the system cannot wake the thread when there is input, so it pauses.
struct Patient<R> {
    reader: R,
    pauses: Pauses,
}

impl<R: Read> Read for Patient<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(buf) {
            Err(error) if is_would_block(&error) => {
                self.pauses.pause();
                // Between two reads the thread looks whether it is still wanted.
                Err(io::ErrorKind::Interrupted.into())
            }
            read => {
                self.pauses.renew();
                read
            }
        }
    }
}

/// A reader or writer whose panic is an error: it would otherwise end the task that uses it.
struct Caught<T>(T);

impl<T> Caught<T> {
    fn call<R>(&mut self, call: impl FnOnce(&mut T) -> io::Result<R>) -> io::Result<R> {
        let called = caught(|| call(&mut self.0));
        called.unwrap_or_else(|| Err(io::Error::other("the transport panicked")))
    }
}

impl<R: Read> Read for Caught<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.call(|reader| reader.read(buf))
    }
}

impl<W: Write> Write for Caught<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.call(|writer| writer.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(Write::flush)
    }
}
