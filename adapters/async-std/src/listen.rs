//! Servers that listen: TCP and Unix sockets.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use antiphon::NoRoom;
use antiphon_async::{
    Context, Listen, Options, Protocol, Running, Secure, Server, Service, SharedRuntime,
};
use async_net::{AsyncToSocketAddrs, TcpListener};

use crate::link::Link;
use crate::runtime::Futures;

/// A server on a TCP port.
#[derive(Debug)]
#[must_use = "nothing is served before it is started"]
pub struct TcpServer {
    address: SocketAddr,
    server: Server,
}

impl TcpServer {
    /// Listens. Port 0 takes any that is free; [`local_addr`](Self::local_addr) tells which.
    ///
    /// # Errors
    /// The address is taken or not this machine's; the error names it.
    pub async fn bind(address: impl AsyncToSocketAddrs + fmt::Debug) -> io::Result<Self> {
        let shown = format!("{address:?}");
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let text = format!("cannot listen on {shown}: {error}");
            io::Error::new(error.kind(), text)
        })?;
        Self::from_listener(listener)
    }

    /// Takes a listener.
    ///
    /// # Errors
    /// It has no address.
    pub fn from_listener(listener: TcpListener) -> io::Result<Self> {
        Self::from_listener_on(listener, Futures::current())
    }

    /// The same with its tasks on another runtime than the program's.
    ///
    /// # Errors
    /// It has no address.
    pub fn from_listener_on(listener: TcpListener, runtime: SharedRuntime) -> io::Result<Self> {
        Ok(Self {
            address: listener.local_addr()?,
            server: Server::new(Tcp::new(listener), runtime),
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

/// Accepting as a future that is kept from poll to poll.
type Accepting<L> = Pin<Box<dyn Future<Output = (L, io::Result<antiphon_async::Link>)> + Send>>;

struct Tcp(Accepting<TcpListener>);

impl Tcp {
    fn new(listener: TcpListener) -> Self {
        Self(Box::pin(async move {
            let accepted = listener.accept().await;
            let link = accepted.and_then(|(stream, _)| {
                // Who is gone already is no fault of the listener's.
                Link::from_tcp(stream).map_err(|_| io::ErrorKind::ConnectionAborted.into())
            });
            (listener, link.map(Into::into))
        }))
    }
}

impl Listen for Tcp {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_async::Link>> {
        let (listener, link) = ready!(self.0.as_mut().poll(cx));
        *self = Self::new(listener);
        Poll::Ready(link)
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
        let (listener, path) = antiphon_async::bind_unix(path.into())?;
        let listener = async_io::Async::new(listener)?.into();
        let server = Server::new(Unix(accept_unix(listener), path), Futures::current());
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
    Accepting<async_net::unix::UnixListener>,
    #[allow(dead_code)] antiphon_async::UnixPath,
);

#[cfg(unix)]
fn accept_unix(
    listener: async_net::unix::UnixListener,
) -> Accepting<async_net::unix::UnixListener> {
    Box::pin(async move {
        let accepted = listener.accept().await;
        let link = accepted.map(|(stream, _)| Link::new(stream).into());
        (listener, link)
    })
}

#[cfg(unix)]
impl Listen for Unix {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_async::Link>> {
        let (listener, link) = ready!(self.0.as_mut().poll(cx));
        self.0 = accept_unix(listener);
        Poll::Ready(link)
    }
}
