//! A stream of the server that records its writes: up to which byte of the stream each reached, and when it was done.
//!
//! Rule: a write that the socket takes in part is one write, however many calls the rest of it needs.

use std::io::{self, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

/// One write, with the rest of it that the socket did not take at first.
#[derive(Debug)]
struct Begun {
    /// Where it ends: the number of bytes of the stream up to its last.
    end: u64,
    done: Option<Instant>,
}

/// The writes of one connection.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    all: Vec<Begun>,
    written: u64,
}

impl Writes {
    fn begin(&mut self, len: usize) {
        let end = self.written + len as u64;
        match self.all.last_mut() {
            Some(last) if last.done.is_none() => last.end = end.max(last.end),
            _ => self.all.push(Begun { end, done: None }),
        }
    }

    fn wrote(&mut self, len: usize) {
        self.written += len as u64;
        if let Some(last) = self.all.last_mut()
            && last.end == self.written
        {
            last.done = Some(Instant::now());
        }
    }

    /// How many writes were not done when the answer was given at `given`, and came before the one that has the byte
    /// before `end` in it.
    pub(crate) fn before(&self, given: Instant, end: u64) -> usize {
        let carried = self.all.partition_point(|write| write.end < end);
        let is_done = |write: &Begun| write.done.is_some_and(|done| done <= given);
        carried.saturating_sub(self.all.partition_point(is_done))
    }
}

/// A stream whose writes are recorded.
pub(crate) struct Recorder<S> {
    stream: S,
    writes: Arc<Mutex<Writes>>,
}

impl<S> Recorder<S> {
    pub(crate) fn new(stream: S, writes: Arc<Mutex<Writes>>) -> Self {
        Self { stream, writes }
    }

    /// Lets `write` try to write `len` bytes, and records how many it wrote.
    fn write_with<R>(
        &mut self,
        len: usize,
        write: impl FnOnce(&mut S) -> R,
        count: fn(&R) -> usize,
    ) -> R {
        let lock = || self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        lock().begin(len);
        let done = write(&mut self.stream);
        lock().wrote(count(&done));
        done
    }
}

fn polled(done: &Poll<io::Result<usize>>) -> usize {
    match done {
        Poll::Ready(Ok(n)) => *n,
        _ => 0,
    }
}

impl Write for Recorder<TcpStream> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let write = |stream: &mut TcpStream| stream.write(buf);
        self.write_with(buf.len(), write, |done| *done.as_ref().unwrap_or(&0))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl tokio::io::AsyncRead for Recorder<tokio::net::TcpStream> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl tokio::io::AsyncWrite for Recorder<tokio::net::TcpStream> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(
            buf.len(),
            |stream| Pin::new(stream).poll_write(cx, buf),
            polled,
        )
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

type Socket = async_io::Async<TcpStream>;

impl futures_util::AsyncRead for Recorder<Socket> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl futures_util::AsyncWrite for Recorder<Socket> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write_with(
            buf.len(),
            |stream| Pin::new(stream).poll_write(cx, buf),
            polled,
        )
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }
}
