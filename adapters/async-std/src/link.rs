//! What to talk over: sockets, standard streams, pipes, or any stream of the `futures-io` traits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use antiphon_net::{
    Context, FuturesIo, FuturesPair, Io, Messages, SocketIo, duplex, is_input, stdio, until,
};
use async_io::Async;
use async_net::{AsyncToSocketAddrs, TcpStream};
use futures_io::{AsyncRead, AsyncWrite};

use crate::runtime::Futures;

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// How many bytes each direction of a pair in memory holds.
const PAIR_BYTES: usize = 64 * 1024;

/// A stream to talk over, and what its transport knows of the other side.
///
/// What was only lent stays open: a stream given here is dropped when the connection ends, and
/// nothing else is closed.
#[derive(Debug)]
pub struct Link {
    inner: antiphon_net::Link,
}

impl Link {
    /// Any stream.
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::from_io(FuturesIo(stream))
    }

    /// A reader and a writer.
    pub fn from_pair(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::from_io(FuturesPair::new(reader, writer))
    }

    /// Any stream of the engine's own trait.
    pub fn from_io(io: impl Io) -> Self {
        antiphon_net::Link::new(io).into()
    }

    /// Any transport of whole messages, such as a message queue.
    pub fn messages(messages: impl Messages) -> Self {
        antiphon_net::Link::messages(messages).into()
    }

    /// The same with what the transport knows, for the handlers to see.
    #[must_use]
    pub fn with_context(self, context: Context) -> Self {
        self.inner.with_context(context).into()
    }

    /// This process's own standard input and output. Nothing else may print to standard output
    /// from now on; logs belong on standard error. A thread that waits on standard input stays
    /// behind when the connection ends, and does not keep the process.
    ///
    /// # Errors
    /// Standard output is closed, or the system refused a thread.
    pub fn stdio() -> io::Result<Self> {
        stdio().map(Self::from_io)
    }

    /// Two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = duplex(PAIR_BYTES);
        (Self::from_io(near), Self::from_io(far))
    }

    /// Connects to a TCP server, within 10 s. Small messages are not delayed (`TCP_NODELAY`). TCP
    /// keep-alive is on: after 60 s of silence the system probes the other side, so that one that
    /// lost its power or network is noticed.
    ///
    /// # Errors
    /// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that took too long.
    pub async fn tcp(address: impl AsyncToSocketAddrs) -> io::Result<Self> {
        let runtime = Futures::current();
        let until_at = runtime.now() + CONNECT_TIME_MAX;
        match until(&*runtime, until_at, TcpStream::connect(address)).await {
            Some(stream) => Self::from_tcp(stream?),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Takes a connected TCP stream. It is set to delay nothing and to [keep alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken already.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        prepare(&stream)?;
        Ok(Self::from_prepared(stream))
    }

    /// Takes a TCP stream that is set as it is to be.
    pub(crate) fn from_prepared(stream: TcpStream) -> Self {
        let mut context = Context::new();
        // A peer that is gone already has no address any more.
        context.peer_addr = stream.peer_addr().ok();
        let has_input =
            |stream: &FuturesIo<TcpStream>| is_input(&socket(stream).get_ref().peek(&mut [0]));
        let was_reset = |stream: &FuturesIo<TcpStream>| {
            matches!(socket(stream).get_ref().take_error(), Ok(Some(_)))
        };
        let io = SocketIo::new(FuturesIo(stream), has_input, was_reset);
        Self::from_io(io).with_context(context)
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens at `path`.
    #[cfg(unix)]
    pub async fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        let stream = async_net::unix::UnixStream::connect(path).await?;
        Ok(Self::from_io(FuturesIo(stream)))
    }
}

fn socket(stream: &FuturesIo<TcpStream>) -> Arc<Async<std::net::TcpStream>> {
    stream.0.clone().into()
}

/// Sets a TCP stream: nothing is delayed, and the other side is probed.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    antiphon_net::keep_alive(stream);
    Ok(())
}

impl From<antiphon_net::Link> for Link {
    fn from(inner: antiphon_net::Link) -> Self {
        Self { inner }
    }
}

impl From<Link> for antiphon_net::Link {
    fn from(link: Link) -> Self {
        link.inner
    }
}

/// A reader and a writer.
impl<R, W> From<(R, W)> for Link
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    fn from((reader, writer): (R, W)) -> Self {
        Self::from_pair(reader, writer)
    }
}
