//! Raw bytes to a server and back: sockets, TLS, and the pipes of a command.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use crate::target::Target;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// The most that is read over one connection: what goes on after that is cut off.
const RECEIVED_MAX: usize = 64 * 1024 * 1024;
/// The most that is kept of what a command writes to its standard error.
const STDERR_MAX: usize = 8 * 1024;

/// What a read has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// There are more bytes in the buffer.
    Bytes,
    /// The other side has ended.
    End,
    /// Nothing until the deadline.
    Nothing,
}

/// A connection of bytes.
pub(crate) struct Wire {
    kind: Kind,
    /// What was received and not taken yet.
    pub(crate) buffer: Vec<u8>,
    /// All that was received.
    pub(crate) received: Vec<u8>,
    is_ended: bool,
}

enum Kind {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(std::os::unix::net::UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Child(Process),
}

/// A command, whose pipes threads read and write.
struct Process {
    child: Child,
    /// Whether the end of its input ends it.
    speaks: bool,
    into: Option<Sender<Vec<u8>>>,
    from: Receiver<Vec<u8>>,
    stderr: Arc<Mutex<Vec<u8>>>,
}

/// What every connection needs to know.
#[derive(Clone)]
pub(crate) struct Dialler {
    pub(crate) target: Target,
    pub(crate) timeout: Duration,
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl Dialler {
    /// Connects, or starts the command.
    pub(crate) fn dial(&self) -> io::Result<Wire> {
        let kind = match &self.target {
            Target::Tcp { host, port } => Kind::Tcp(self.tcp(host, *port)?),
            #[cfg(unix)]
            Target::Unix(path) => Kind::Unix(std::os::unix::net::UnixStream::connect(path)?),
            #[cfg(not(unix))]
            Target::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
            Target::Http(web) | Target::WebSocket(web) => {
                let stream = self.tcp(&web.host, web.port)?;
                match &self.tls {
                    Some(config) if web.is_tls => {
                        let name = web.host.clone().try_into().map_err(io::Error::other)?;
                        let client = ClientConnection::new(Arc::clone(config), name)
                            .map_err(io::Error::other)?;
                        stream.set_read_timeout(Some(self.timeout))?;
                        let mut stream = StreamOwned::new(client, stream);
                        while stream.conn.is_handshaking() {
                            stream.conn.complete_io(&mut stream.sock)?;
                        }
                        Kind::Tls(Box::new(stream))
                    }
                    _ => Kind::Tcp(stream),
                }
            }
            Target::Command(words) => return Wire::start(words, true),
        };
        Ok(Wire::new(kind))
    }

    fn tcp(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, self.timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Process {
    /// Starts a command. Unless it speaks over its pipes, its output is thrown away.
    fn start(words: &[String], speaks: bool) -> io::Result<Self> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(match speaks {
                true => Stdio::piped(),
                false => Stdio::null(),
            })
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, pipes) = (
            child.stdout.take(),
            (child.stdin.take(), child.stderr.take()),
        );
        let (Some(mut stdin), Some(mut pipe)) = pipes else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (into, to_write) = channel::<Vec<u8>>();
        thread::spawn(move || {
            for bytes in to_write {
                if stdin
                    .write_all(&bytes)
                    .and_then(|()| stdin.flush())
                    .is_err()
                {
                    return;
                }
            }
        });
        // A command that writes without end has to wait.
        let (sender, from) = sync_channel(16);
        if let Some(mut stdout) = stdout {
            thread::spawn(move || {
                let mut piece = vec![0; PIECE];
                while let Ok(n @ 1..) = stdout.read(&mut piece) {
                    if sender.send(piece[..n].to_vec()).is_err() {
                        return;
                    }
                }
            });
        }
        let stderr = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&stderr);
        thread::spawn(move || {
            let mut piece = vec![0; PIECE];
            while let Ok(n @ 1..) = pipe.read(&mut piece) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                let room = STDERR_MAX.saturating_sub(kept.len());
                kept.extend_from_slice(&piece[..n.min(room)]);
            }
        });
        Ok(Self {
            child,
            speaks,
            into: Some(into),
            from,
            stderr,
        })
    }
}

impl Drop for Process {
    /// Ends the command: by the end of its input, and if it goes on, by force.
    fn drop(&mut self) {
        self.into = None;
        let deadline = Instant::now() + Duration::from_millis(100);
        while self.speaks && Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Wire {
    fn new(kind: Kind) -> Self {
        Self {
            kind,
            buffer: Vec::new(),
            received: Vec::new(),
            is_ended: false,
        }
    }

    /// A connection that a client has made.
    pub(crate) fn accepted(stream: TcpStream, timeout: Duration) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self::new(Kind::Tcp(stream)))
    }

    /// Starts a command. Unless it speaks over its pipes, its output is thrown away.
    pub(crate) fn start(words: &[String], speaks: bool) -> io::Result<Self> {
        Ok(Self::new(Kind::Child(Process::start(words, speaks)?)))
    }

    /// Whether a command has ended.
    pub(crate) fn has_exited(&mut self) -> bool {
        match &mut self.kind {
            Kind::Child(process) => !matches!(process.child.try_wait(), Ok(None)),
            _ => self.is_ended,
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.kind {
            Kind::Tcp(stream) => stream.write_all(bytes),
            #[cfg(unix)]
            Kind::Unix(stream) => stream.write_all(bytes),
            Kind::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
            Kind::Child(process) => {
                let sent = process.into.as_ref().map(|into| into.send(bytes.to_vec()));
                sent.and_then(Result::ok)
                    .ok_or_else(|| io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// Ends our direction; the other one stays open.
    pub(crate) fn end_output(&mut self) {
        match &mut self.kind {
            Kind::Tcp(stream) => drop(stream.shutdown(std::net::Shutdown::Write)),
            #[cfg(unix)]
            Kind::Unix(stream) => drop(stream.shutdown(std::net::Shutdown::Write)),
            Kind::Tls(stream) => {
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
            Kind::Child(process) => process.into = None,
        }
    }

    /// Reads once, and adds what comes to the buffer.
    pub(crate) fn read(&mut self, deadline: Instant) -> Got {
        if self.is_ended || self.received.len() > RECEIVED_MAX {
            self.is_ended = true;
            return Got::End;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // A socket takes no timeout of zero.
        let wait = left.max(Duration::from_millis(1));
        let mut piece = vec![0; PIECE];
        let got = match &mut self.kind {
            Kind::Child(process) => match process.from.recv_timeout(wait) {
                Ok(bytes) => {
                    piece = bytes;
                    Ok(piece.len())
                }
                Err(RecvTimeoutError::Timeout) => Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => Ok(0),
            },
            Kind::Tcp(stream) => {
                let _ = stream.set_read_timeout(Some(wait));
                stream.read(&mut piece)
            }
            #[cfg(unix)]
            Kind::Unix(stream) => {
                let _ = stream.set_read_timeout(Some(wait));
                stream.read(&mut piece)
            }
            Kind::Tls(stream) => {
                let _ = stream.sock.set_read_timeout(Some(wait));
                stream.read(&mut piece)
            }
        };
        match got {
            Ok(n @ 1..) => {
                self.buffer.extend_from_slice(&piece[..n]);
                self.received.extend_from_slice(&piece[..n]);
                Got::Bytes
            }
            Err(error) if is_timeout(&error) => {
                match left.is_zero() || Instant::now() >= deadline {
                    true => Got::Nothing,
                    false => self.read(deadline),
                }
            }
            Ok(_) | Err(_) => {
                self.is_ended = true;
                Got::End
            }
        }
    }

    /// Whether the other side has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// What a command has written to its standard error, at most its first bytes.
    pub(crate) fn stderr(&self) -> Vec<u8> {
        match &self.kind {
            Kind::Child(process) => process
                .stderr
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            _ => Vec::new(),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}

/// Trusts what this system trusts, and the certificates of the file.
pub(crate) fn tls(ca: Option<&std::path::Path>) -> Result<Arc<rustls::ClientConfig>, String> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca {
        let fault = |why: &dyn std::fmt::Display| format!("--ca {}: {why}", path.display());
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fault(&error))? {
            let certificate = certificate.map_err(|error| fault(&error))?;
            roots.add(certificate).map_err(|error| fault(&error))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(
        config.with_root_certificates(roots).with_no_client_auth(),
    ))
}
