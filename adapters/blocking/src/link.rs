//! An open transport with two directions. Dropping the writing half ends the stream for the peer,
//! as closing a pipe does. Hanging up ends a read that waits, if the transport supports it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use antiphon_net::{Connecting, Context, Io, MessageTransport, Target, lookup_error};
use blocking::unblock;

use crate::duplex::Duplex;
use crate::messages::Messages;

/// How long connecting to one address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An open transport (a socket, a pipe, a child process, a channel of whole messages).
///
/// Any pair `(reader, writer)` converts into a link by `From`: each half has a thread while it reads or
/// writes. When the connection ends, the function of [`with_hang_up`](Self::with_hang_up) is called, and
/// both halves are dropped. A socket needs no thread.
pub struct Link(pub(crate) antiphon_net::Link);

impl Link {
    /// Makes a link of two streams. Without [`with_hang_up`](Self::with_hang_up) a read that waits
    /// in `reader` cannot be interrupted: its thread ends with the stream, or with the process.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self(antiphon_net::Link::from_blocking(reader, writer))
    }

    /// Makes a link of a transport of whole messages, such as a message queue: `receive` waits for
    /// the next message and returns `None` at the end; `send` sends one, and is dropped with the
    /// connection. The framing is [`Framing::Messages`](antiphon::Framing::Messages), even if the
    /// options have another.
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon_blocking::{Link, attach};
    /// use std::sync::mpsc::sync_channel;
    ///
    /// let (requests, received) = sync_channel::<Vec<u8>>(16);
    /// let (responses, answers) = sync_channel::<Vec<u8>>(16);
    /// std::thread::spawn(move || {
    ///     for request in received {
    ///         let double = |call: antiphon::Incoming<'_>| match call.params {
    ///             Some(params) => params.decode::<[i64; 1]>().map(|[n]| 2 * n).map_err(|_| antiphon::ErrorObject::invalid_params()),
    ///             None => Err(antiphon::ErrorObject::invalid_params()),
    ///         };
    ///         if let Some(response) = antiphon::answer(Config::new(), &request, double) {
    ///             responses.send(response).unwrap();
    ///         }
    ///     }
    /// });
    /// let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
    /// let receive = move || Ok(answers.recv().ok());
    /// let send = move |message: &[u8]| requests.send(message.to_vec()).map_err(gone);
    /// let peer = attach(Link::messages(receive, send), Config::new(), ())?;
    /// assert_eq!(peer.call::<i64>("double", &[21]).wait()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn messages(
        receive: impl FnMut() -> io::Result<Option<Vec<u8>>> + Send + 'static,
        send: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self(antiphon_net::Link::messages(Messages::new(receive, send)))
    }

    /// Adds a function that ends a read that waits. It is called once, when the connection ends.
    pub fn with_hang_up(mut self, hang_up: impl FnOnce() + Send + 'static) -> Self {
        let io = HangsUp {
            io: self.0.io,
            hang_up: Some(Box::new(hang_up)),
        };
        self.0.io = Box::new(io);
        self
    }

    /// Adds the facts that the transport knows about the other side, for handlers.
    pub fn with_context(self, context: Context) -> Self {
        Self(self.0.with_context(context))
    }

    /// Makes a link of this process's own standard input and output. Nothing else may write to
    /// standard output from now on; write logs to standard error.
    ///
    /// Output is not buffered by lines, and a closed standard output is an error here instead of
    /// being ignored. If this side ends the connection, it does not wait until the other side has
    /// ended its stream too. The thread that reads standard input goes on waiting, but the process
    /// still ends when `main` returns.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn stdio() -> io::Result<Self> {
        antiphon_net::Link::stdio().map(Self)
    }

    /// Makes two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = antiphon_net::Link::pair();
        (Self(near), Self(far))
    }

    /// Connects to a TCP server, within 10 s for each address of the name. `TCP_NODELAY` is on, and
    /// so is TCP keep-alive: after 60 s of silence the system probes the other side, so that the
    /// loss of its power or network is noticed.
    ///
    /// # Errors
    /// No address answered. The error's text has the address that was tried last.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::from_tcp(connect_tcp(address)?)
    }

    /// Makes a link of a connected TCP stream. It sets `TCP_NODELAY` and [keep-alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        let stream: async_net::TcpStream = stream.try_into()?;
        antiphon_net::Link::from_tcp(stream).map(Self)
    }

    /// What `connect` connects to, which is called on a thread for each attempt.
    ///
    /// ```
    /// use antiphon_blocking::Link;
    /// let target = Link::target(|| Link::tcp("127.0.0.1:7777"));
    /// # drop(target);
    /// ```
    pub fn target(connect: impl Fn() -> io::Result<Self> + Send + Sync + 'static) -> Target {
        let connect = Arc::new(connect);
        Target::new(move || -> Connecting {
            let connect = Arc::clone(&connect);
            Box::pin(unblock(move || connect().map(|link| link.0)))
        })
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// No server listens at `path`.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        Self::from_unix(std::os::unix::net::UnixStream::connect(path)?)
    }

    /// Makes a link of a connected Unix stream.
    ///
    /// # Errors
    /// The stream is broken.
    #[cfg(unix)]
    pub fn from_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let stream: async_net::unix::UnixStream = stream.try_into()?;
        Ok(Self(antiphon_net::Link::from_futures(stream)))
    }
}

impl From<antiphon_net::Link> for Link {
    fn from(link: antiphon_net::Link) -> Self {
        Self(link)
    }
}

impl From<Link> for Target {
    fn from(link: Link) -> Self {
        link.0.into()
    }
}

impl From<Link> for antiphon_net::Link {
    fn from(link: Link) -> Self {
        link.0
    }
}

impl From<Duplex> for Link {
    fn from(end: Duplex) -> Self {
        let hang_up = end.hang_up();
        let (reader, writer) = end.split();
        Self::new(reader, writer).with_hang_up(hang_up)
    }
}

impl<R: Read + Send + 'static, W: Write + Send + 'static> From<(R, W)> for Link {
    fn from((reader, writer): (R, W)) -> Self {
        Self::new(reader, writer)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Connects to the first address that answers, within 10 s for each.
fn connect_tcp(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let mut failed = None;
    for address in address.to_socket_addrs().map_err(lookup_error)? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let text = format!("cannot connect to {address}: {error}");
                failed = Some(io::Error::new(error.kind(), text));
            }
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")))
}

/// A transport, and the function that ends a read that waits.
struct HangsUp {
    io: Box<dyn Io>,
    /// `None` only while this is dropped.
    hang_up: Option<Box<dyn FnOnce() + Send>>,
}

impl Io for HangsUp {
    fn poll_read(&mut self, cx: &mut TaskContext<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.io.poll_read(cx, buf)
    }

    fn poll_write(&mut self, cx: &mut TaskContext<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll_write(cx, buf)
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.io.poll_flush(cx)
    }

    fn poll_close(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.io.poll_close(cx)
    }

    fn awaits_end(&self) -> bool {
        self.io.awaits_end()
    }

    fn has_input(&self) -> bool {
        self.io.has_input()
    }

    fn as_messages(&mut self) -> Option<&mut dyn MessageTransport> {
        self.io.as_messages()
    }
}

impl Drop for HangsUp {
    fn drop(&mut self) {
        if let Some(hang_up) = self.hang_up.take() {
            hang_up();
        }
    }
}
