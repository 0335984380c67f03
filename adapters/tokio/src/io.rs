//! tokio's streams, as the engine wants them.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use antiphon_net::Io;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Any stream of tokio's traits. It is asked for input whenever its task runs, which costs no system call with tokio's own
/// streams.
#[derive(Debug)]
pub struct TokioIo<T>(pub T);

fn poll_read<R: AsyncRead + Unpin>(
    reader: &mut R,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut buf = ReadBuf::new(buf);
    ready!(Pin::new(reader).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for TokioIo<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        poll_read(&mut self.0, cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A reader and a writer of tokio's traits: a child's pipes. Ending the stream drops the writer,
/// which is what ends a pipe.
pub struct TokioPair<R, W> {
    reader: R,
    writer: Option<W>,
}

impl<R, W> TokioPair<R, W> {
    /// Joins two streams.
    pub fn new(reader: R, writer: W) -> Self {
        Self {
            reader,
            writer: Some(writer),
        }
    }
}

impl<R, W: AsyncWrite + Unpin> TokioPair<R, W> {
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

impl<R, W> Io for TokioPair<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        poll_read(&mut self.reader, cx, buf)
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
        let closed = self.write(|writer| writer.poll_shutdown(cx));
        if closed.is_ready() {
            self.writer = None;
        }
        closed
    }
}

impl<R, W> fmt::Debug for TokioPair<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokioPair")
            .field("is_ended", &self.writer.is_none())
            .finish_non_exhaustive()
    }
}
