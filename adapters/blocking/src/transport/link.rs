//! An open transport with two directions. Dropping the writing half ends the stream for the peer,
//! as closing a pipe does. Hanging up ends a read that waits, if the transport supports it.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use antiphon_net::{Arrived, Context, SockRef, cannot_connect, lookup_error};

use crate::transport::duplex::{Duplex, duplex};

/// How long connecting to one address may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts of a [`Link`]: the reader, the writer, and a function that ends a read that waits.
pub type Parts = (Box<dyn Read + Send>, Box<dyn Write + Send>, Option<HangUp>);

/// Ends a read that waits: that of a socket shuts down both directions.
pub type HangUp = Box<dyn FnOnce() + Send>;

/// How many bytes each direction of a [`Link::pair`] holds.
const PAIR_BYTES: usize = 64 * 1024;

/// An open transport (a socket, a pipe, a child process, a channel of whole messages), with the
/// function that ends a read that waits, if there is one.
///
/// Any pair `(reader, writer)` converts into a link by `From`. When the connection ends, the
/// function of [`with_hang_up`](Self::with_hang_up) is called, and both halves are dropped.
pub struct Link {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) hang_up: Option<HangUp>,
    /// Whether to wait for the other side's end of stream after ours. A socket that is closed
    /// before that may discard its last output; a standard stream does not.
    pub(crate) awaits_end: bool,
    pub(crate) context: Context,
    /// The functions that move whole messages; `None` for a byte stream.
    pub(crate) messages: Option<(Receive, Sending)>,
}

/// The reading half of a link.
pub(crate) enum Reader {
    /// A reader without a timeout: a read may wait for ever, so only the reading thread reads.
    Any(Box<dyn Read + Send>),
    /// A socket, which has a timeout for reads, so other threads may read from it too.
    Socket(Arc<dyn Socket>),
}

/// The writing half of a link.
pub(crate) enum Writer {
    /// A writer without a timeout: a write may wait for ever, so only the writing thread writes.
    Any(Box<dyn Write + Send>),
    /// A socket, which has a timeout for writes, so other threads may write to it too.
    Socket(Arc<dyn Socket>),
}

/// A socket, which one thread reads from and one writes to at a time. A read or write that takes
/// longer than the timeout fails as [`WouldBlock`](io::ErrorKind::WouldBlock). Without a timeout it
/// may take for ever.
pub(crate) trait Socket: Send + Sync + 'static {
    /// As [`Read::read`].
    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// As [`Write::write`].
    fn write(&self, buf: &[u8]) -> io::Result<usize>;

    /// Sets how long a read may wait for bytes.
    fn set_read_patience(&self, patience: Option<Duration>) -> io::Result<()>;

    /// Sets how long a write may wait for space.
    fn set_write_patience(&self, patience: Option<Duration>) -> io::Result<()>;

    /// Ends one direction, or both.
    fn end(&self, how: Shutdown);
}

impl<S: Send + Sync + 'static> Socket for S
where
    for<'s> &'s S: Read + Write,
    for<'s> SockRef<'s>: From<&'s S>,
{
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Read::read(&mut &*self, buf)
    }

    fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, buf)
    }

    fn set_read_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_read_timeout(patience)
    }

    fn set_write_patience(&self, patience: Option<Duration>) -> io::Result<()> {
        SockRef::from(self).set_write_timeout(patience)
    }

    fn end(&self, how: Shutdown) {
        // If it is closed already, that is fine.
        let _ = SockRef::from(self).shutdown(how);
    }
}

/// A socket, for reading.
pub(crate) struct SocketReader(pub(crate) Arc<dyn Socket>);

impl Read for SocketReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

/// A socket, for writing. Dropping it ends the stream for the peer, as closing a pipe does.
pub(crate) struct SocketWriter(pub(crate) Arc<dyn Socket>);

impl Write for SocketWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        self.0.end(Shutdown::Write);
    }
}

/// Waits for the next message; returns `None` at the end.
pub(crate) type Receive = Box<dyn FnMut() -> io::Result<Option<Vec<u8>>> + Send>;

/// Sends a message.
pub(crate) type Sending = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

impl Arrived for Link {
    fn context_mut(&mut self) -> &mut Context {
        &mut self.context
    }
}

impl Link {
    /// Makes a link of two streams. Without [`with_hang_up`](Self::with_hang_up) a read that waits
    /// in `reader` cannot be interrupted: its thread ends with the stream, or with the process.
    pub fn new(reader: impl Read + Send + 'static, writer: impl Write + Send + 'static) -> Self {
        Self::of(Reader::Any(Box::new(reader)), Writer::Any(Box::new(writer)))
    }

    fn of(reader: Reader, writer: Writer) -> Self {
        Self {
            reader,
            writer,
            hang_up: None,
            awaits_end: true,
            context: Context::new(),
            messages: None,
        }
    }

    /// Makes a link of a transport of whole messages, such as a message queue: `receive` waits for
    /// the next message and returns `None` at the end; `send` sends one, and is dropped with the
    /// connection. The framing is [`Framing::Messages`](antiphon::Framing::Messages), even if the
    /// options have another.
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
    /// assert_eq!(peer.call::<i64>("double", &[21]).wait()?, 42);
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

    /// Makes a link of a socket's two directions.
    fn of_socket(socket: impl Socket) -> Self {
        let socket: Arc<dyn Socket> = Arc::new(socket);
        let (reader, writer) = (Arc::clone(&socket), Arc::clone(&socket));
        let link = match cfg!(unix) {
            true => Self::of(Reader::Socket(reader), Writer::Socket(writer)),
            // Windows rounds a read timeout up to half a second, and a thread other than the
            // reading one may wait for 2 ms only (`READ_TIMEOUT`). So there only the reading and
            // the writing thread use the socket.
            false => Self::new(SocketReader(reader), SocketWriter(writer)),
        };
        link.with_hang_up(move || socket.end(Shutdown::Both))
    }

    /// Adds a function that ends a read that waits. It is called once, when the connection ends.
    pub fn with_hang_up(mut self, hang_up: impl FnOnce() + Send + 'static) -> Self {
        self.hang_up = Some(Box::new(hang_up));
        self
    }

    /// Adds the facts that the transport knows about the other side, for handlers.
    pub fn with_context(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// Returns the parts: the reader, the writer, and the function that ends a read that waits.
    pub fn into_parts(self) -> Parts {
        let reader = match self.reader {
            Reader::Any(reader) => reader,
            Reader::Socket(socket) => Box::new(SocketReader(socket)),
        };
        let writer = match self.writer {
            Writer::Any(writer) => writer,
            Writer::Socket(socket) => Box::new(SocketWriter(socket)),
        };
        (reader, writer, self.hang_up)
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
        let output = antiphon_net::stdout_unbuffered()?;
        let mut link = Self::new(antiphon_net::stdin(), output);
        link.awaits_end = false;
        Ok(link)
    }

    /// Makes two ends of a stream in memory, for a client and a server in one process.
    pub fn pair() -> (Self, Self) {
        let (near, far) = duplex(PAIR_BYTES);
        (near.into(), far.into())
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

    /// Makes a link of a connected TCP stream. It removes the timeouts, and sets `TCP_NODELAY` and
    /// [keep-alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken.
    pub fn from_tcp(stream: TcpStream) -> io::Result<Self> {
        prepare(&stream)?;
        Ok(Self::from_prepared(stream))
    }

    /// Makes a link of a TCP stream whose options are set already.
    pub(crate) fn from_prepared(stream: TcpStream) -> Self {
        let mut context = Context::new();
        // If the peer has disconnected, it has no address any more.
        context.peer_addr = stream.peer_addr().ok();
        context.local_addr = stream.local_addr().ok();
        Self::of_socket(stream).with_context(context)
    }

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// No server listens at `path`.
    #[cfg(unix)]
    pub fn unix(path: impl AsRef<std::path::Path>) -> io::Result<Self> {
        Self::from_unix(std::os::unix::net::UnixStream::connect(path)?)
    }

    /// Makes a link of a connected Unix stream. It removes the timeouts.
    ///
    /// # Errors
    /// The stream is broken.
    #[cfg(unix)]
    pub fn from_unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        wait_for_ever(&SockRef::from(&stream))?;
        Ok(Self::of_socket(stream))
    }
}

impl From<Duplex> for Link {
    fn from(end: Duplex) -> Self {
        let hang_up = end.hang_up();
        let (reader, writer) = end.split();
        Self::new(reader, writer).with_hang_up(hang_up)
    }
}

/// Sets the options of a TCP stream: blocking, `TCP_NODELAY`, keep-alive.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    wait_for_ever(&stream.into())?;
    stream.set_nodelay(true)?;
    antiphon_net::keep_alive(stream);
    Ok(())
}

/// Makes reads and writes of a socket wait for ever: blocking, and without timeouts.
fn wait_for_ever(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_nonblocking(false)?;
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)
}

/// Connects to the first address that answers, within 10 s for each.
pub(crate) fn connect_tcp(address: impl ToSocketAddrs) -> io::Result<TcpStream> {
    let mut failed = None;
    for address in address.to_socket_addrs().map_err(lookup_error)? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = Some(cannot_connect(address, &error)),
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
