//! A pair of byte streams, whatever they are made of.
//!
//! The rule guarded here: dropping the writing half ends the stream for the peer, as closing a
//! pipe does; hanging up ends a read that waits, where the transport can do that.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::Duration;

use antiphon_session::Context;

use crate::duplex::{Duplex, duplex};

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);

/// What a [`Link`] is made of: what is read from, what is written to, and what ends a read that
/// waits.
pub type Parts = (
    Box<dyn Read + Send>,
    Box<dyn Write + Send>,
    Option<Box<dyn FnOnce() + Send>>,
);
/// How many bytes each direction of a pair in memory holds.
const PAIR_BYTES: usize = 64 * 1024;

/// The two directions of a connection, and how to cut it.
///
/// Made from any pair `(reader, writer)` by `From`. What was only lent stays open: the halves
/// given here are dropped when the connection ends, and nothing else is closed.
pub struct Link {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) hang_up: Option<Box<dyn FnOnce() + Send>>,
    pub(crate) context: Context,
    /// Instead of the streams, where whole messages are moved.
    pub(crate) messages: Option<(Receive, Sending)>,
}

/// What is read from.
pub(crate) enum Reader {
    /// A read may wait as long as it likes.
    Any(Box<dyn Read + Send>),
    /// It can be told how long a read may wait.
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "made where sockets can be told to wait")
    )]
    Socket(Box<dyn SocketReader>),
}

/// A socket, to read from.
pub(crate) trait SocketReader: Read + Send {
    /// Says how long a read may wait, before it fails as [`WouldBlock`](io::ErrorKind::WouldBlock);
    /// for ever, if nothing is said.
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;
}

impl SocketReader for TcpStream {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience)
    }
}

#[cfg(unix)]
impl SocketReader for std::os::unix::net::UnixStream {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(patience)
    }
}

/// What is written to.
pub(crate) enum Writer {
    /// A write may wait as long as it likes.
    Any(Box<dyn Write + Send>),
    /// It can be told how long a write may wait.
    #[cfg_attr(
        not(unix),
        expect(dead_code, reason = "made where sockets can be told to wait")
    )]
    Socket(Box<dyn Socket>),
}

/// A socket's writing half.
pub(crate) trait Socket: Write + Send {
    /// Says how long a write may wait for room, before it fails as
    /// [`WouldBlock`](io::ErrorKind::WouldBlock); for ever, if nothing is said.
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()>;
}

/// Gives the next message; none at the end.
pub(crate) type Receive = Box<dyn FnMut() -> io::Result<Option<Vec<u8>>> + Send>;

/// Sends a message.
pub(crate) type Sending = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

impl Link {
    /// Joins two streams. A read that waits in `reader` cannot be interrupted: its thread ends
    /// with the stream, or with the process.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self {
            reader: Reader::Any(Box::new(reader)),
            writer: Writer::Any(Box::new(writer)),
            hang_up: None,
            context: Context::new(),
            messages: None,
        }
    }

    /// A transport of whole messages, such as a message queue: `receive` waits for the next one
    /// and gives none at the end; `send` sends one, and is dropped with the connection. The
    /// framing is that of messages, whatever the options say.
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon_blocking::{Link, connect};
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
    /// let peer = connect(Link::messages(receive, send), Config::new(), ())?;
    /// assert_eq!(peer.call::<i64>("double", &[21])?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn messages(
        receive: impl FnMut() -> io::Result<Option<Vec<u8>>> + Send + 'static,
        send: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let mut link = Self::new(io::empty(), io::sink());
        link.messages = Some((Box::new(receive), Box::new(send)));
        link
    }

    /// The same over a socket.
    #[cfg(unix)]
    fn of_socket(reader: impl SocketReader + 'static, writer: impl Socket + 'static) -> Self {
        let mut link = Self::new(io::empty(), io::sink());
        link.reader = Reader::Socket(Box::new(reader));
        link.writer = Writer::Socket(Box::new(writer));
        link
    }

    /// The same over a socket that waits as long as it likes: elsewhere half a second is the shortest
    /// that it can be told to wait.
    #[cfg(not(unix))]
    fn of_socket(reader: impl Read + Send + 'static, writer: impl Socket + 'static) -> Self {
        Self::new(reader, writer)
    }

    /// The same with a way to end a read that waits. It is called once, when the connection ends.
    pub fn with_hang_up(mut self, hang_up: impl FnOnce() + Send + 'static) -> Self {
        self.hang_up = Some(Box::new(hang_up));
        self
    }

    /// The same with what the transport knows of the other side, for the handlers to see.
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The parts: what is read from, what is written to, and what ends a read that waits.
    pub fn into_parts(self) -> Parts {
        let reader = match self.reader {
            Reader::Any(reader) => reader,
            Reader::Socket(socket) => Box::new(socket),
        };
        let writer = match self.writer {
            Writer::Any(writer) => writer,
            Writer::Socket(socket) => Box::new(socket),
        };
        (reader, writer, self.hang_up)
    }

    /// This process's own standard input and output. Nothing else may print to standard output
    /// from now on; logs belong on standard error.
    ///
    /// Output is not buffered by lines, and a closed standard output is an error here instead of
    /// being ignored. If this side ends the connection, the thread that waits on standard input
    /// stays behind; it does not keep the process, which ends when `main` returns.
    ///
    /// # Errors
    /// Standard output is closed.
    pub fn stdio() -> io::Result<Self> {
        Ok(Self::new(
            io::stdin(),
            antiphon_session::stdout_unbuffered()?,
        ))
    }

    /// Two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = duplex(PAIR_BYTES);
        (near.into(), far.into())
    }

    /// Connects to a TCP server, within 10 s for each address that the name stands for. Small
    /// messages are not delayed (`TCP_NODELAY`).
    ///
    /// # Errors
    /// No address answered.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        Self::from_tcp(connect_tcp(address)?)
    }

    /// Takes a connected TCP stream.
    ///
    /// # Errors
    /// The stream cannot be shared between two threads, or is broken already.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let mut context = Context::new();
        // A peer that is gone already has no address any more.
        context.peer_addr = stream.peer_addr().ok();
        let (writer, control) = (stream.try_clone()?, stream.try_clone()?);
        let writer = HalfClose {
            inner: writer,
            close: |stream| stream.shutdown(Shutdown::Write),
            set_patience: TcpStream::set_write_timeout,
        };
        let link = Self::of_socket(stream, writer).with_context(context);
        Ok(link.with_hang_up(move || {
            // A stream that is closed already is what is wanted.
            let _ = control.shutdown(Shutdown::Both);
        }))
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Nobody listens at `path`.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        Self::from_unix(std::os::unix::net::UnixStream::connect(path)?)
    }

    /// Takes a connected Unix stream.
    ///
    /// # Errors
    /// The stream cannot be shared between two threads.
    #[cfg(unix)]
    pub fn from_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let (writer, control) = (stream.try_clone()?, stream.try_clone()?);
        let writer = HalfClose {
            inner: writer,
            close: |stream| stream.shutdown(Shutdown::Write),
            set_patience: std::os::unix::net::UnixStream::set_write_timeout,
        };
        Ok(Self::of_socket(stream, writer).with_hang_up(move || {
            // A stream that is closed already is what is wanted.
            let _ = control.shutdown(Shutdown::Both);
        }))
    }
}

impl From<Duplex> for Link {
    fn from(end: Duplex) -> Self {
        let hang_up = end.hang_up();
        let (reader, writer) = end.split();
        Self::new(reader, writer).with_hang_up(hang_up)
    }
}

/// Connects to the first address that answers, within 10 s for each.
pub(crate) fn connect_tcp(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let mut failed = None;
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")))
}

impl<R: Read + Send + 'static, W: Write + Send + 'static> From<(R, W)> for Link {
    fn from((reader, writer): (R, W)) -> Self {
        Self::new(reader, writer)
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("can_hang_up", &self.hang_up.is_some())
            .finish_non_exhaustive()
    }
}

/// A socket's writing half: ends the stream when it is dropped, as a pipe does by itself.
struct HalfClose<S> {
    inner: S,
    close: fn(&S) -> io::Result<()>,
    set_patience: fn(&S, Option<Duration>) -> io::Result<()>,
}

impl<S: Write> Write for HalfClose<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.inner.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<S: Write + Send> Socket for HalfClose<S> {
    fn set_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        (self.set_patience)(&self.inner, patience)
    }
}

impl<S> Drop for HalfClose<S> {
    fn drop(&mut self) {
        // A stream that is closed already is what is wanted.
        let _ = (self.close)(&self.inner);
    }
}
