//! Options of every TCP socket.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

use super::Link;

/// After how much silence the system probes the other side.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(60);

/// Turns TCP keep-alive on: after 60 s of silence the system probes the other side, every 15 s, and
/// ends the connection if there is no answer (after nine probes on Linux). Without it the loss of
/// the peer's power or network is never noticed while nothing is written. If keep-alive is on
/// already, the socket is not changed.
fn keep_alive(socket: &SockRef<'_>) {
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
        let wanted = wanted.with_interval(Duration::from_secs(15));
        // If the socket is broken, reading from it reports that.
        let _ = socket.set_tcp_keepalive(&wanted);
    }
}

/// A connected TCP stream of a runtime.
pub trait TcpSocket {
    /// Makes a link of it: see [`Link::from_tcp`].
    ///
    /// # Errors
    /// The stream is broken.
    fn into_link(self) -> io::Result<Link>;
}

impl Link {
    /// Makes a link of a connected TCP stream. It sets `TCP_NODELAY` and [keep-alive](Self::tcp).
    ///
    /// # Errors
    /// The stream is broken.
    pub fn from_tcp(stream: impl TcpSocket) -> io::Result<Self> {
        stream.into_link()
    }
}

/// Sets `TCP_NODELAY` and keep-alive on a TCP socket.
pub(crate) fn prepare(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_nodelay(true)?;
    keep_alive(socket);
    Ok(())
}

/// Whether there is something to be read: bytes, the end, or an error.
pub(crate) fn has_input(socket: SockRef<'_>) -> bool {
    match socket.peek(&mut [MaybeUninit::uninit()]) {
        // Zero bytes are the end, which can be read too.
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}
