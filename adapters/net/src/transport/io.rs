//! A byte stream both ways, as a task polls it, whatever runtime it is of.
//!
//! The rule guarded here: a poll moves what it moved or nothing, so a task that is dropped between
//! two polls has lost no byte.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::transport::messages::Messages;

/// A byte stream both ways. Reading and writing are independent of each other; dropping it lets
/// the transport go.
pub trait Io: Send + Unpin + 'static {
    /// Reads what is there into `buf`, which is not empty; 0 bytes are the end.
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes a part of `buf`, which is not empty.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;

    /// Sees what was written on its way.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the stream towards the other side, which may go on sending.
    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether the other side's end of stream is to be awaited after ours, for the linger at most. A socket that is closed
    /// before takes back what it has sent last; standard streams do not.
    fn awaits_end(&self) -> bool {
        true
    }

    /// Whether the system holds something to be read now: bytes, the end, or an error. It is asked by a
    /// call of its own, since a runtime may know only what it saw when it last looked. False where
    /// that cannot be told. Nothing is taken.
    fn has_input(&self) -> bool {
        false
    }

    /// Whether the system knows of an error that reading does not show: once the other side has ended
    /// its direction, a reset reads as that end. False where that cannot be told.
    fn was_reset(&self) -> bool {
        false
    }

    /// The transport of whole messages that this is, if it is none of bytes. Each write is one
    /// message then, and is taken whole or not at all.
    fn as_messages(&mut self) -> Option<&mut dyn Messages> {
        None
    }
}

impl Io for Box<dyn Io> {
    fn has_input(&self) -> bool {
        (**self).has_input()
    }

    fn was_reset(&self) -> bool {
        (**self).was_reset()
    }

    fn awaits_end(&self) -> bool {
        (**self).awaits_end()
    }

    fn as_messages(&mut self) -> Option<&mut dyn Messages> {
        (**self).as_messages()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        (**self).poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        (**self).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        (**self).poll_close(cx)
    }
}

/// Any stream of the `futures-io` traits: those of smol and async-std, and what is layered on
/// them.
#[derive(Debug)]
pub struct FuturesIo<T>(pub T);

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for FuturesIo<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

/// A stream whose socket can be asked what it knows.
pub struct SocketIo<T> {
    io: T,
    has_input: fn(&T) -> bool,
    was_reset: fn(&T) -> bool,
}

impl<T> SocketIo<T> {
    /// Answers [`has_input`](Io::has_input) and [`was_reset`](Io::was_reset) by these.
    pub fn new(io: T, has_input: fn(&T) -> bool, was_reset: fn(&T) -> bool) -> Self {
        Self {
            io,
            has_input,
            was_reset,
        }
    }
}

/// What a peek at a socket that does not wait has shown: whether there is something to be read.
pub fn is_input<T>(peeked: &io::Result<T>) -> bool {
    match peeked {
        // The end is one, too.
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

impl<T: Io> Io for SocketIo<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll_read(cx, buf)
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

    fn has_input(&self) -> bool {
        (self.has_input)(&self.io)
    }

    fn was_reset(&self) -> bool {
        (self.was_reset)(&self.io)
    }
}

impl<T: fmt::Debug> fmt::Debug for SocketIo<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.io.fmt(f)
    }
}

/// A reader and a writer of the `futures-io` traits: a child's pipes, standard streams. Ending the
/// stream drops the writer, which is what ends a pipe.
pub struct FuturesPair<R, W> {
    reader: R,
    writer: Option<W>,
}

impl<R, W> FuturesPair<R, W> {
    /// Joins two streams.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer: Some(writer),
        }
    }
}

impl<R, W: AsyncWrite + Unpin> FuturesPair<R, W> {
    fn write<T>(
        &mut self,
        act: impl FnOnce(Pin<&mut W>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match &mut self.writer {
            Some(writer) => act(Pin::new(writer)),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

impl<R, W> Io for FuturesPair<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.reader).poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(|writer| writer.poll_write(cx, buf))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|writer| writer.poll_flush(cx))
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.writer.is_none() {
            return Poll::Ready(Ok(()));
        }
        let closed = self.write(|writer| writer.poll_close(cx));
        if closed.is_ready() {
            self.writer = None;
        }
        closed
    }
}

impl<R, W> fmt::Debug for FuturesPair<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuturesPair")
            .field("is_ended", &self.writer.is_none())
            .finish_non_exhaustive()
    }
}
