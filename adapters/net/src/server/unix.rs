//! A server on a Unix socket.

use std::io;
use std::path::PathBuf;
use std::task::{Context as TaskContext, Poll};

use antiphon::LimitReached;

use super::{Protocol, Running, Server};
use crate::link::{Link, Listen};
use crate::runtime::current;
use crate::sockets::NetRuntime;
use crate::transport::unix::{UnixPath, bind_unix};
use antiphon_shell::{ConnectionConfig, Context, Service};

/// A server on a Unix socket. The socket's path is removed when the server stops.
#[derive(Debug)]
#[must_use = "nothing is served before it is started"]
pub struct UnixServer(Server);

impl UnixServer {
    /// Listens at `path`. A socket there on which no server answers was left by a server that was
    /// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
    /// replaced.
    ///
    /// # Errors
    /// Another server or another file has the path, or it cannot be created; the error's text has the path.
    #[track_caller]
    pub fn bind(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::bind_on(path, current())
    }

    /// Listens as [`bind`](Self::bind) does, on a runtime.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_on(path: impl Into<PathBuf>, runtime: NetRuntime) -> io::Result<Self> {
        let (listener, path) = bind_unix(path.into())?;
        let listener = runtime.sockets().listen_unix(listener)?;
        Ok(Self(Server::new(Removing(path, listener), runtime)))
    }

    /// Sets how many connections may be open at the same time. Further ones are closed as soon as they
    /// are accepted. Default 10 240.
    pub fn max_connections(self, max_connections: usize) -> Self {
        Self(self.0.max_connections(max_connections))
    }

    /// Calls `report` for every connection that is refused at the limit, for logs and metrics. It
    /// runs in the task that accepts, so it must be quick.
    pub fn on_refused(
        self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.on_refused(report))
    }

    /// Serves in the background until the returned value is stopped or dropped. `make` returns the
    /// service of each connection, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.0.start(options, make)
    }

    /// Starts the server with another protocol than plain messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        self.0.start_protocol(protocol)
    }
}

/// A listener whose socket's path is removed when this is dropped, before the listener closes.
struct Removing(#[allow(dead_code)] UnixPath, Box<dyn Listen>);

impl Listen for Removing {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<Link>> {
        self.1.poll_accept(cx)
    }
}
