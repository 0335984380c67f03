//! The sockets and child processes of a runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
#[cfg(unix)]
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use antiphon_shell::{Runtime, SharedRuntime};
use socket2::SockRef;

use crate::link::child_started::StartChild;
use crate::link::{Connecting, Listen};

/// The sockets of a runtime. By default it has none of them.
pub trait Sockets: Send + Sync + 'static {
    /// Connects to a TCP server. The options of the socket are those of
    /// [`Link::tcp`](crate::Link::tcp).
    fn connect_tcp(&self, address: SocketAddr) -> Connecting {
        let _ = address;
        unsupported()
    }

    /// Listens with a TCP socket that is bound, and calls `prepare` for each accepted socket.
    ///
    /// # Errors
    /// The runtime cannot use the socket.
    fn listen_tcp(&self, listener: TcpListener, prepare: Prepare) -> io::Result<Box<dyn Listen>> {
        let _ = (listener, prepare);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Connects to a Unix socket.
    #[cfg(unix)]
    fn connect_unix(&self, path: PathBuf) -> Connecting {
        let _ = path;
        unsupported()
    }

    /// Listens with a Unix socket that is bound.
    ///
    /// # Errors
    /// The runtime cannot use the socket.
    #[cfg(unix)]
    fn listen_unix(&self, listener: UnixListener) -> io::Result<Box<dyn Listen>> {
        let _ = listener;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns a function that starts `command`, at each call, with pipes as its standard streams. Only the
    /// runtimes of this crate can start it.
    fn child_starter(&self, command: Command) -> StartChild {
        let _ = command;
        Box::new(|| Err(io::ErrorKind::Unsupported.into()))
    }
}

/// Is called for each accepted socket. If it fails, the socket is closed.
pub type Prepare = Box<dyn Fn(SockRef<'_>) -> io::Result<()> + Send + Sync>;

/// Returns the error of a runtime that has no sockets of its own.
fn unsupported() -> Connecting {
    Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
}

/// A runtime with its sockets, which is also a [`SharedRuntime`].
#[derive(Clone)]
pub struct NetRuntime {
    runtime: SharedRuntime,
    sockets: Arc<dyn Sockets>,
}

impl NetRuntime {
    /// Makes it of a runtime that has sockets.
    pub fn new(runtime: impl Runtime + Sockets) -> Self {
        let runtime = Arc::new(runtime);
        let sockets = Arc::clone(&runtime) as _;
        Self { runtime, sockets }
    }

    /// The sockets.
    pub(crate) fn sockets(&self) -> &dyn Sockets {
        &*self.sockets
    }
}

impl Deref for NetRuntime {
    type Target = SharedRuntime;

    fn deref(&self) -> &SharedRuntime {
        &self.runtime
    }
}

/// A runtime without sockets, for what needs none.
impl From<SharedRuntime> for NetRuntime {
    fn from(runtime: SharedRuntime) -> Self {
        struct None;
        impl Sockets for None {}
        let sockets = Arc::new(None);
        Self { runtime, sockets }
    }
}

impl From<NetRuntime> for SharedRuntime {
    fn from(runtime: NetRuntime) -> Self {
        runtime.runtime
    }
}
