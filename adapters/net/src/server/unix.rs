//! A server on a Unix socket.

use std::io;
use std::path::PathBuf;
use std::task::{Context as TaskContext, Poll};

use super::Server;
use crate::link::{Link, Listen};
use crate::runtime::current;
use crate::sockets::NetRuntime;
use crate::transport::unix::{UnixPath, bind_unix};

/// Makes servers on Unix sockets. The socket's path is removed when the server stops.
#[derive(Debug)]
pub enum UnixServer {}

impl UnixServer {
    /// Listens at `path`. A socket there on which no server answers was left by a server that was
    /// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
    /// replaced.
    ///
    /// # Errors
    /// Another server or another file has the path, or it cannot be created; the error's text has the path.
    #[track_caller]
    pub fn bind(path: impl Into<PathBuf>) -> io::Result<Server> {
        Self::bind_on(path, current())
    }

    /// Listens as [`bind`](Self::bind) does, on a runtime.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub fn bind_on(path: impl Into<PathBuf>, runtime: NetRuntime) -> io::Result<Server> {
        let (listener, path) = bind_unix(path.into())?;
        let listener = runtime.sockets().listen_unix(listener)?;
        Ok(Server::new(Removing(path, listener), runtime))
    }
}

/// A listener whose socket's path is removed when this is dropped, before the listener closes.
struct Removing(#[allow(dead_code)] UnixPath, Box<dyn Listen>);

impl Listen for Removing {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<Link>> {
        self.1.poll_accept(cx)
    }
}
