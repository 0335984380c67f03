//! Servers that listen: TCP and Unix sockets.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

use antiphon::NoRoom;
use antiphon_net::{
    Context, Listen, OnAccept, Options, Protocol, Running, Secure, Server, Service, SharedRuntime,
};
use async_net::{AsyncToSocketAddrs, TcpListener};

use crate::link::{Link, prepare};
use crate::runtime::Futures;

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
        let on_accept = SharedHook::default();
        let address = listener.local_addr()?;
        Ok(Self {
            address,
            server: Server::new(Tcp(accept_tcp(listener, Arc::clone(&on_accept))), runtime),
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
    pub fn on_accept(self, hook: impl Fn(&std::net::TcpStream) + Send + Sync + 'static) -> Self {
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

/// Accepting as a future that is kept from poll to poll.
type Accepting<L> = Pin<Box<dyn Future<Output = (L, io::Result<antiphon_net::Link>)> + Send>>;

/// A listener, and the hook of its server, which is given after the listener has been handed over.
type Hooked = (TcpListener, SharedHook);

type SharedHook = Arc<OnceLock<OnAccept<std::net::TcpStream>>>;

struct Tcp(Accepting<Hooked>);

fn accept_tcp(listener: TcpListener, hook: SharedHook) -> Accepting<Hooked> {
    Box::pin(async move {
        let accepted = listener.accept().await;
        let link = accepted.and_then(|(stream, _)| {
            let seen = |()| {
                let inner: Arc<async_io::Async<std::net::TcpStream>> = stream.clone().into();
                hook.get()
                    .map_or(Ok(()), |hook| hook.see((*inner).get_ref()))
            };
            // Who is gone already is no fault of the listener's.
            let prepared = prepare(&stream).and_then(seen);
            prepared.map_err(|_| io::ErrorKind::ConnectionAborted)?;
            Ok(Link::from_prepared(stream))
        });
        ((listener, hook), link.map(Into::into))
    })
}

impl Listen for Tcp {
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_net::Link>> {
        let ((listener, hook), link) = ready!(self.0.as_mut().poll(cx));
        self.0 = accept_tcp(listener, hook);
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
        let (listener, path) = antiphon_net::bind_unix(path.into())?;
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
    #[allow(dead_code)] antiphon_net::UnixPath,
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
    fn poll_accept(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<antiphon_net::Link>> {
        let (listener, link) = ready!(self.0.as_mut().poll(cx));
        self.0 = accept_unix(listener);
        Poll::Ready(link)
    }
}
