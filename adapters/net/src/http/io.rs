//! A stream as hyper polls it, and the deadlines that a connection's task enforces.
//!
//! hyper uses a connection's stream through an observer that notes how far a request is. The task
//! that polls hyper reads the notes, and ends what takes too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::Instant;
use antiphon::session::grace;
use hyper::rt::{Read, ReadBufCursor, Write};

use antiphon_shell::{Io, SharedRuntime, Timer, debug_fields, with_scratch};

/// Observes a connection's bytes in both directions.
pub(super) trait Watch: Unpin {
    /// Reads from `io`. An observer may do something else instead: return a byte that was read
    /// before, return the end of input, or hold back an end that `io` has reported.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>>;

    /// Writes to `io`.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut dyn Io,
        buf: &[u8],
    ) -> Poll<io::Result<usize>>;

    /// Notes whether the transport took the output (`is_done`), or makes it wait for space.
    fn flushed(&mut self, is_done: bool);

    /// Looks at `io` while hyper does not. It is called whenever hyper has done what it can.
    fn look(&mut self, _: &mut Context<'_>, _: &mut dyn Io) {}
}

/// A stream for hyper.
pub(super) struct HyperIo<W> {
    pub(super) io: Box<dyn Io>,
    /// Dropped after the stream.
    pub(super) watch: W,
}

impl<W: Watch> HyperIo<W> {
    pub(super) fn new(io: Box<dyn Io>, watch: W) -> Self {
        Self { io, watch }
    }
}

impl<W: Watch> Read for HyperIo<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, watch } = &mut *self;
        with_scratch(|chunk| {
            let capacity = buf.remaining().min(chunk.len());
            if capacity > 0 {
                let n = ready!(watch.poll_read(cx, &mut **io, &mut chunk[..capacity]))?;
                buf.put_slice(&chunk[..n]);
            }
            Poll::Ready(Ok(()))
        })
    }
}

impl<W: Watch> Write for HyperIo<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { io, watch } = &mut *self;
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let written = watch.poll_write(cx, &mut **io, buf);
        watch.flushed(written.is_ready());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { io, watch } = &mut *self;
        let flushed = io.poll_flush(cx);
        watch.flushed(flushed.is_ready());
        watch.look(cx, &mut **io);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_close(cx)
    }
}

debug_fields!(impl[W] HyperIo<W> as "HyperIo" {});

/// A stream of which the first bytes have been read.
pub(super) struct Ahead {
    io: Box<dyn Io>,
    bytes: Vec<u8>,
}

impl Ahead {
    /// Puts `bytes` before those of `io`.
    pub(super) fn of(io: Box<dyn Io>, bytes: Vec<u8>) -> Box<dyn Io> {
        match bytes.is_empty() {
            true => io,
            false => Box::new(Self { io, bytes }),
        }
    }
}

impl Io for Ahead {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let n = self.bytes.len().min(buf.len());
        if n == 0 {
            return self.io.poll_read(cx, buf);
        }
        buf[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes.drain(..n);
        if self.bytes.is_empty() {
            self.bytes = Vec::new();
        }
        Poll::Ready(Ok(n))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_close(cx)
    }

    fn awaits_end(&self) -> bool {
        self.io.awaits_end()
    }

    fn has_input(&self) -> bool {
        !self.bytes.is_empty() || self.io.has_input()
    }
}

/// Waits for the deadlines of one connection.
pub(super) struct Alarm {
    runtime: SharedRuntime,
    timer: Box<dyn Timer>,
    /// A deadline past which the clock has jumped, and when the extra time for it ends.
    granted: Option<(Instant, Instant)>,
}

impl Alarm {
    pub(super) fn new(runtime: &SharedRuntime) -> Self {
        Self {
            runtime: runtime.clone(),
            timer: runtime.timer(),
            granted: None,
        }
    }

    /// Ready once `due` has passed. If the clock has jumped past `due`, as it does when the process
    /// was stopped, there is extra time once: see [`grace`].
    pub(super) fn poll_over(&mut self, due: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let granted = self.granted.filter(|(of, _)| *of == due);
        let until = granted.map_or(due, |(_, until)| until);
        ready!(self.timer.poll_until(until, cx));
        let now = self.runtime.now();
        let more = grace(now.saturating_since(until));
        if granted.is_some() || more == Duration::ZERO {
            return Poll::Ready(());
        }
        self.granted = Some((due, now + more));
        self.timer.poll_until(now + more, cx)
    }
}

/// Returns the end of `span` from `start`; `None` never ends.
pub(super) fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}
