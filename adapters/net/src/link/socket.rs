//! Options of every TCP socket.

use std::io;
#[cfg(any(feature = "tokio", feature = "async-io"))]
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::Link;
use antiphon_shell::{caught, debug_fields};

/// After how much silence the system probes the other side.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(60);

/// How often it probes, on systems where that can be set.
#[cfg(any(
    target_os = "android",
    target_os = "freebsd",
    target_os = "ios",
    target_os = "linux",
    target_os = "macos",
    target_os = "windows"
))]
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Turns TCP keep-alive on: after 60 s of silence the system probes the other side, every 15 s, and
/// ends the connection if there is no answer (after nine probes on Linux). Without it the loss of
/// the peer's power or network is never noticed while nothing is written. If keep-alive is on
/// already, the socket is not changed.
pub fn keep_alive<'s, S>(socket: &'s S)
where
    SockRef<'s>: From<&'s S>,
{
    probe(&SockRef::from(socket));
}

pub(crate) fn probe(socket: &SockRef<'_>) {
    if !socket.keepalive().unwrap_or(false) {
        let wanted = TcpKeepalive::new().with_time(KEEP_ALIVE_TIME);
        #[cfg(any(
            target_os = "android",
            target_os = "freebsd",
            target_os = "ios",
            target_os = "linux",
            target_os = "macos",
            target_os = "windows"
        ))]
        let wanted = wanted.with_interval(KEEP_ALIVE_INTERVAL);
        // If the socket is broken, reading from it reports that.
        let _ = socket.set_tcp_keepalive(&wanted);
    }
}

/// A function that is called for each socket that a server accepts, before anything is read or
/// written.
#[derive(Clone)]
pub struct OnAccept(Arc<dyn Fn(&SockRef<'_>) + Send + Sync>);

impl OnAccept {
    /// Sets the function.
    pub fn new(hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Calls the function for a socket.
    ///
    /// # Errors
    /// The function panicked; only this connection is closed
    /// ([`ConnectionAborted`](io::ErrorKind::ConnectionAborted)).
    pub fn see(&self, socket: &SockRef<'_>) -> io::Result<()> {
        caught(|| (self.0)(socket)).ok_or(io::ErrorKind::ConnectionAborted.into())
    }
}

debug_fields!(impl[] OnAccept as "OnAccept" {});

/// A connected TCP stream of a runtime.
pub trait TcpSocket {
    /// Returns the system's socket.
    fn socket(&self) -> SockRef<'_>;

    /// Makes a link of it, without setting options.
    fn into_link(self) -> Link;
}

impl Link {
    /// Makes a link of a connected TCP stream. It sets `TCP_NODELAY` and [keep-alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken.
    pub fn from_tcp(stream: impl TcpSocket) -> io::Result<Self> {
        prepare(&stream.socket())?;
        Ok(stream.into_link())
    }
}

/// Sets `TCP_NODELAY` and keep-alive on a TCP socket.
pub(crate) fn prepare(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    probe(socket);
    Ok(())
}

/// Whether there is something to be read: bytes, the end, or an error.
#[cfg(any(feature = "tokio", feature = "async-io"))]
pub(crate) fn has_input(socket: SockRef<'_>) -> bool {
    match socket.peek(&mut [MaybeUninit::uninit()]) {
        // Zero bytes are the end, which can be read too.
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
