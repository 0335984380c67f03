//! Servers that listen: TCP and Unix sockets.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use antiphon::NoRoom;
use antiphon_net::{
    Context, Listen, OnAccept, Options, Protocol, Running, Secure, Server, Service,
};
use tokio::net::{TcpListener, TcpStream, ToSocketAddrs};

use crate::link::{Link, prepare};
use crate::runtime::Tokio;

/// A server on a TCP port.
#[derive(Debug)]
#[must_use = "nothing is served before it is started"]
pub struct TcpServer {
    address: SocketAddr,
    server: Server,
    on_accept: SharedHook,
}

impl TcpServer {
    /// Listens. Port 0 takes any that is free; [`local_addr`](Self::local_addr) tells which.
    ///
    /// # Errors
    /// The address is taken or not this machine's; the error names it.
    pub async fn bind(address: impl ToSocketAddrs + fmt::Debug) -> io::Result<Self> {
        let listener = TcpListener::bind(&address).await.map_err(|error| {
            let text = format!("cannot listen on {address:?}: {error}");
            io::Error::new(error.kind(), text)
        })?;
        Self::from_listener(listener)
    }

    /// Takes a listener.
    ///
    /// # Errors
    /// It has no address.
    pub fn from_listener(listener: TcpListener) -> io::Result<Self> {
        let on_accept = SharedHook::default();
        Ok(Self {
            address: listener.local_addr()?,
            server: Server::new(Tcp(listener, Arc::clone(&on_accept)), Tokio::current()),
            on_accept,
        })
    }

    /// The address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The same with another limit on connections at once. Further ones are closed as soon as
    /// they are made; over HTTP without TLS they are answered 503. Default 10 240.
    pub fn with_connections_max(self, connections_max: usize) -> Self {
        Self {
            server: self.server.with_connections_max(connections_max),
            ..self
        }
    }

    /// The same with a limit on connections at once from one address: an IPv4 address, or the
    /// network of an IPv6 one. Default none, for behind a proxy all come from one address.
    pub fn with_connections_per_address_max(self, per_address_max: usize) -> Self {
        let server = self
            .server
            .with_connections_per_address_max(per_address_max);
        Self { server, ..self }
    }

    /// Tells `report` of every connection that is refused at a limit, for logs and counts. It runs
    /// where the server accepts: briefly. Over HTTP the service has a report of it as well.
    pub fn on_refused(self, report: impl Fn(&Context, NoRoom) + Send + Sync + 'static) -> Self {
        Self {
            server: self.server.on_refused(report),
            ..self
        }
    }

    /// Has every connection go through a handshake first, within 10 s.
    pub fn with_secure(self, secure: impl Secure) -> Self {
        Self {
            server: self.server.with_secure(secure),
            ..self
        }
    }

    /// The same with another deadline for the handshake.
    pub fn with_handshake_time_max(self, handshake_time_max: Duration) -> Self {
        Self {
            server: self.server.with_handshake_time_max(handshake_time_max),
            ..self
        }
    }

    /// Has `hook` see each socket that is accepted, before anything is said on it: to set an option or
    /// to count. By then nothing is delayed (`TCP_NODELAY`) and TCP keep-alive is on; the hook may
    /// change that. It runs where connections are accepted, so it must not wait.
    ///
    /// # Panics
    /// It has been given one already.
    pub fn on_accept(self, hook: impl Fn(&TcpStream) + Send + Sync + 'static) -> Self {
        let is_first = self.on_accept.set(OnAccept::new(hook)).is_ok();
        assert!(is_first, "a server has one hook");
        self
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection is
    /// served by what `make` gives for it, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<Options>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.server.start(options, make)
    }

    /// The same over HTTP: every POST is a message. One service answers all.
    #[cfg(feature = "http")]
    pub fn start_http(
        self,
        options: impl Into<crate::http::HttpOptions>,
        service: impl Service,
    ) -> Running {
        self.start_protocol(crate::http::endpoint(options, service))
    }

    /// The same with another protocol below the messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        self.server.start_protocol(protocol)
    }
}

/// The hook of a server, which is given after the listener has been handed over.
type SharedHook = Arc<OnceLock<OnAccept<TcpStream>>>;

struct Tcp(TcpListener, SharedHook);

impl Listen for Tcp {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_net::Link>> {
        let (stream, _) = ready!(self.0.poll_accept(cx))?;
        let seen = |()| self.1.get().map_or(Ok(()), |hook| hook.see(&stream));
        // Who is gone already is no fault of the listener's.
        let prepared = prepare(&stream).and_then(seen);
        prepared.map_err(|_| io::ErrorKind::ConnectionAborted)?;
        Poll::Ready(Ok(Link::from_prepared(stream).into()))
    }
}

/// A server on a Unix socket. The socket's path is removed when the server stops.
#[cfg(unix)]
#[derive(Debug)]
#[must_use = "nothing is served before it is started"]
pub struct UnixServer {
    server: Server,
}

#[cfg(unix)]
impl UnixServer {
    /// Listens at `path`. A socket there that nobody answers on is left from a server that was
    /// killed, and is replaced; one that is answered, or anything that is no socket, is not.
    ///
    /// # Errors
    /// The path is taken or cannot be made; the error names it.
    pub fn bind(path: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        let (listener, path) = antiphon_net::bind_unix(path.into())?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        let server = Server::new(Unix(listener, path), Tokio::current());
        Ok(Self { server })
    }

    /// The same with another limit on connections at once. Further ones are closed as soon as
    /// they are made. Default 10 240.
    pub fn with_connections_max(self, connections_max: usize) -> Self {
        Self {
            server: self.server.with_connections_max(connections_max),
        }
    }

    /// Tells `report` of every connection that is refused at the limit, for logs and counts. It
    /// runs where the server accepts: briefly.
    pub fn on_refused(self, report: impl Fn(&Context, NoRoom) + Send + Sync + 'static) -> Self {
        Self {
            server: self.server.on_refused(report),
        }
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection is
    /// served by what `make` gives for it, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<Options>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.server.start(options, make)
    }

    /// The same with another protocol below the messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        self.server.start_protocol(protocol)
    }
}

/// The path is removed with it.
#[cfg(unix)]
struct Unix(
    tokio::net::UnixListener,
    #[allow(dead_code)] antiphon_net::UnixPath,
);

#[cfg(unix)]
impl Listen for Unix {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_net::Link>> {
        let (stream, _) = ready!(self.0.poll_accept(cx))?;
        Poll::Ready(Ok(Link::new(stream).into()))
    }
}
