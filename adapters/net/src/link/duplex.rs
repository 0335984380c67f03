//! A stream in memory: one end reads what the other writes. Each direction is a pipe of the crate
//! piper, which holds a limited number of bytes, so it can be full as a socket can.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::AsyncWrite;
use piper::{Reader, Writer, pipe};

use antiphon_shell::Io;

/// One end of a stream in memory.
struct Duplex {
    reader: Reader,
    writer: Writer,
}

/// Makes two ends of a stream in memory. Each direction holds `max_bytes` bytes (at least one). Dropping an
/// end ends the stream for the other one.
pub fn duplex(max_bytes: usize) -> (Box<dyn Io>, Box<dyn Io>) {
    let (near_reader, far_writer) = pipe(max_bytes.max(1));
    let (far_reader, near_writer) = pipe(max_bytes.max(1));
    let end = |reader, writer| Box::new(Duplex { reader, writer });
    (end(near_reader, near_writer), end(far_reader, far_writer))
}

impl Io for Duplex {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // piper's own `poll_read` is pending now and then, at random, although there are bytes.
        ready!(self.reader.poll(cx));
        Poll::Ready(Ok(self.reader.try_drain(buf)))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.writer.poll(cx));
        Poll::Ready(match self.writer.try_fill(buf) {
            // The other end does not read any more, or this end was closed.
            0 => Err(io::ErrorKind::BrokenPipe.into()),
            n => Ok(n),
        })
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_close(cx)
    }
}
