//! What every TCP socket is set to.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// After how much silence the system asks whether the other side is still there.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(60);

/// How often it asks then, where the system lets that be chosen.
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
/// ends the connection if nothing comes back (after nine probes on Linux). Without it a peer that
/// lost its power or its network is never noticed while nothing is written. A socket that has
/// keep-alive on already stays as it is.
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
        // A socket that is broken already says so by itself.
        let _ = socket.set_tcp_keepalive(&wanted);
    }
}

/// Sees each socket that a server accepts, before anything is said on it.
#[derive(Clone)]
pub struct OnAccept(Arc<dyn Fn(&SockRef<'_>) + Send + Sync>);

impl OnAccept {
    /// Has `hook` see them.
    pub fn new(hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Shows a socket to the hook.
    ///
    /// # Errors
    /// The hook panicked, which costs this one connection
    /// ([`ConnectionAborted`](io::ErrorKind::ConnectionAborted)).
    pub fn see(&self, socket: &SockRef<'_>) -> io::Result<()> {
        let seen = catch_unwind(AssertUnwindSafe(|| (self.0)(socket)));
        seen.map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }
}

impl fmt::Debug for OnAccept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnAccept")
    }
}
