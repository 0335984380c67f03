//! What to talk over: sockets, standard streams, pipes, or any stream of tokio's traits.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use antiphon_net::{Context, Io, Messages, SocketIo, duplex, is_input, stdio};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs};

use crate::io::{TokioIo, TokioPair};

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
        Self::from_io(TokioIo(stream))
    }

    /// A reader and a writer.
    pub fn from_pair(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self::from_io(TokioPair::new(reader, writer))
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
    /// behind when the connection ends, and keeps neither the runtime nor the process.
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
    pub async fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let connected = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address));
        match connected.await {
            Ok(stream) => Self::from_tcp(stream?),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
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
        let has_input = |stream: &TokioIo<TcpStream>| {
            let peeked = SockRef::from(&stream.0).peek(&mut [MaybeUninit::uninit()]);
            is_input(&peeked)
        };
        let was_reset = |stream: &TokioIo<TcpStream>| {
            matches!(SockRef::from(&stream.0).take_error(), Ok(Some(_)))
        };
        let io = SocketIo::new(TokioIo(stream), has_input, was_reset);
        Self::from_io(io).with_context(context)
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens at `path`.
    #[cfg(unix)]
    pub async fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        let stream = tokio::net::UnixStream::connect(path).await?;
        Ok(Self::from_io(TokioIo(stream)))
    }
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
