//! Streams with the `futures-io` traits: those of smol and async-std, and streams that wrap them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncRead, AsyncWrite};
#[cfg(feature = "async-io")]
use socket2::SockRef;

use super::Link;
#[cfg(feature = "async-io")]
use super::socket::{TcpSocket, has_input, prepare};
use antiphon_shell::Io;

/// A stream with the `futures-io` traits, as an [`Io`].
pub(crate) struct FuturesIo<T> {
    stream: T,
    has_input: fn(&T) -> bool,
}

impl<T> FuturesIo<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self::asking(stream, |_| false)
    }

    /// Makes one that can answer [`Io::has_input`].
    pub(crate) fn asking(stream: T, has_input: fn(&T) -> bool) -> Self {
        Self { stream, has_input }
    }
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Io for FuturesIo<T> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_close(cx)
    }

    fn has_input(&self) -> bool {
        (self.has_input)(&self.stream)
    }
}

/// A reader and a writer with the `futures-io` traits: a child's pipes, standard streams. Ending
/// the stream drops the writer, which ends a pipe.
pub(super) struct FuturesPair<R, W> {
    pub(super) reader: R,
    pub(super) writer: Option<W>,
    /// See [`Io::awaits_end`].
    pub(super) awaits_end: bool,
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
        let n = ready!(self.write(|writer| writer.poll_write(cx, buf)))?;
        if n == 0 {
            // A writer that passes its bytes to a thread returns an error only when it is flushed.
            ready!(self.poll_flush(cx))?;
        }
        Poll::Ready(Ok(n))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(|writer| writer.poll_flush(cx))
    }

    fn awaits_end(&self) -> bool {
        self.awaits_end
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

impl Link {
    /// Makes a link of any stream with the `futures-io` traits.
    pub fn from_futures(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::new(FuturesIo::new(stream))
    }

    /// Makes a link of a reader and a writer with the `futures-io` traits.
    pub fn from_futures_pair(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::new(FuturesPair {
            reader,
            writer: Some(writer),
            awaits_end: true,
        })
    }
}

#[cfg(feature = "async-io")]
impl TcpSocket for async_net::TcpStream {
    fn into_link(self) -> io::Result<Link> {
        prepare(&SockRef::from(&self))?;
        Ok(of_tcp(self))
    }
}

/// Makes a link of a stream whose options are set.
#[cfg(feature = "async-io")]
pub(crate) fn of_tcp(stream: async_net::TcpStream) -> Link {
    let (peer, local) = (stream.peer_addr(), stream.local_addr());
    let io = FuturesIo::asking(stream, |stream| has_input(stream.into()));
    Link::new(io).with_addresses(peer, local)
}
