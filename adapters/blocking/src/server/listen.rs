//! Servers that listen: TCP and Unix sockets.
//!
//! A server on a Unix socket removes the socket's path when it stops.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Mutex;
use std::time::Duration;

use antiphon::{ConnectionLimits, LimitReached};
use antiphon_net::{ConnectionConfig, Context, OnAccept, OnRefused, Server, SockRef, Threads};

use crate::serve::Service;
use crate::server::accept::{Accepting, Incoming, OnThreads};
use crate::server::running::Running;
use crate::transport::link::{Link, prepare};

/// How long the connection may take that wakes a listener which must stop.
const KNOCK_TIMEOUT: Duration = Duration::from_millis(50);

/// A server on a TCP port.
#[derive(Debug)]
pub struct TcpServer {
    listener: TcpSocket,
    /// `None` for the default: 256, or 10 240 over HTTP.
    max_connections: Option<usize>,
    max_per_address: usize,
    on_refused: OnRefused,
}

/// A listener, and what happens to its connections first.
#[derive(Debug)]
struct TcpSocket {
    listener: TcpListener,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Acceptor>,
    on_accept: Option<OnAccept>,
}

impl TcpServer {
    /// Listens on `address`. With port 0 the system chooses a free port, which
    /// [`local_addr`](Self::local_addr) returns.
    ///
    /// # Errors
    /// The address is in use, or is not one of this machine; the error's text has the address.
    pub fn bind(address: impl ToSocketAddrs + fmt::Debug) -> io::Result<Self> {
        let listener = TcpListener::bind(&address).map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("cannot listen on {address:?}: {error}"),
            )
        })?;
        Ok(Self {
            listener: TcpSocket {
                listener,
                #[cfg(feature = "tls")]
                tls: None,
                on_accept: None,
            },
            max_connections: None,
            max_per_address: ConnectionLimits::new().max_per_key,
            on_refused: OnRefused::default(),
        })
    }

    /// Sets the limit on open connections. A further one is closed as soon as it is accepted; over
    /// HTTP without TLS it is answered 503. Default 256, because each needs four threads; over
    /// HTTP, where a connection needs none, 10 240.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// Sets a limit on open connections from one address: an IPv4 address, or the first 64 bits of
    /// an IPv6 address. Default none, because behind a proxy all connections come from one address.
    #[must_use]
    pub fn max_connections_per_address(mut self, max_per_address: usize) -> Self {
        self.max_per_address = max_per_address;
        self
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It
    /// runs on the thread that starts the connections (over HTTP, on the thread for HTTP), so it
    /// must be quick. Over HTTP the service gets a report too.
    #[must_use]
    pub fn on_refused(
        mut self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Makes every connection begin with a TLS handshake, on a thread of its own (over HTTP, on the
    /// thread for HTTP). It takes an [`Acceptor`](crate::tls::Acceptor), or only the configuration.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, acceptor: impl Into<crate::tls::Acceptor>) -> Self {
        self.listener.tls = Some(acceptor.into());
        self
    }

    /// Calls `hook` for each accepted socket, before anything is read or written: to set an option,
    /// or to count. `TCP_NODELAY` and TCP keep-alive are on by then; the hook may change that. It
    /// runs on the thread that accepts (over HTTP, on the thread for HTTP), so it must not block.
    #[must_use]
    pub fn on_accept(mut self, hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        self.listener.on_accept = Some(OnAccept::new(hook));
        self
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.listener.local_addr()
    }

    /// Serves in the background until the returned value is stopped or dropped. Every connection
    /// gets a service of its own from `make`, and all share the pool in `options`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl FnMut(SocketAddr) -> S + Send + 'static,
    ) -> io::Result<Running> {
        let address = self.local_addr()?;
        let knock = move || {
            let known = reachable(address);
            TcpStream::connect_timeout(&known, KNOCK_TIMEOUT).is_ok()
        };
        let mut limits = ConnectionLimits::new();
        limits.max_connections = self.max_connections.unwrap_or(limits.max_connections);
        limits.max_per_key = self.max_per_address;
        #[cfg(feature = "tls")]
        let tls = self.listener.tls.clone();
        let listener = self.listener;
        let accepting = Accepting::start(move || listener.accept(), knock)?;
        let server = server(accepting, limits, self.on_refused);
        #[cfg(feature = "tls")]
        let server = match tls {
            // The acceptor has a deadline of its own for the handshake.
            Some(tls) => server.with_secure(tls).handshake_timeout(Duration::MAX),
            None => server,
        };
        let mut make = make;
        let protocol = OnThreads {
            options: options.into(),
            // The accepting thread has stored the peer's address in the context.
            make: Mutex::new(move |context: &Context| make(context.peer_addr.unwrap_or(address))),
        };
        Ok(Running::new(server.start_protocol(protocol)))
    }

    /// Serves over HTTP in the background until the returned value is stopped or dropped. Every
    /// POST is a message. Connections need no threads of their own; the methods of the service run
    /// on the pool in `options`. `make` makes a service for every method that is called.
    /// See [`http`](crate::http).
    ///
    /// # Errors
    /// The system refused a thread.
    #[cfg(feature = "http")]
    pub fn start_http<S: Service>(
        self,
        options: impl Into<crate::http::HttpConfig>,
        make: impl Fn(&antiphon_net::Context) -> S + Send + Sync + 'static,
    ) -> io::Result<Running> {
        let TcpSocket {
            listener,
            #[cfg(feature = "tls")]
            tls,
            on_accept,
        } = self.listener;
        let (max_connections, max_per_address) = (self.max_connections, self.max_per_address);
        let on_refused = self.on_refused;
        let prepare = move |mut server: antiphon_net::TcpServer| {
            if let Some(on_accept) = on_accept {
                server = server.with_on_accept(on_accept);
            }
            if let Some(max_connections) = max_connections {
                server = server.max_connections(max_connections);
            }
            server = server
                .max_connections_per_address(max_per_address)
                .on_refused(move |context, why| on_refused.tell(context, why));
            #[cfg(feature = "tls")]
            if let Some(acceptor) = tls {
                return acceptor.secure(server);
            }
            server
        };
        crate::http::start(listener, options.into(), make, prepare)
    }
}

impl TcpSocket {
    fn accept(&self) -> io::Result<Incoming> {
        let (stream, address) = self.listener.accept()?;
        // If the peer has already disconnected, that is not an error of the listener.
        let hook = self.on_accept.as_ref();
        let see = |()| hook.map_or(Ok(()), |hook| hook.see(&SockRef::from(&stream)));
        let prepared = prepare(&stream).and_then(see);
        prepared.map_err(|_| io::ErrorKind::ConnectionAborted)?;
        let mut context = Context::new();
        context.peer_addr = Some(address);
        context.local_addr = stream.local_addr().ok();
        #[cfg(feature = "tls")]
        if self.tls.is_some() {
            return Ok(Incoming::Secret(stream, context));
        }
        Ok(Incoming::Open(
            Link::from_prepared(stream).with_context(context),
        ))
    }
}

fn server(
    accepting: Accepting,
    limits: ConnectionLimits,
    on_refused: OnRefused,
) -> Server<Incoming> {
    Server::new(accepting, Threads::shared())
        .max_connections(limits.max_connections)
        .max_connections_per_address(limits.max_per_key)
        .on_refused(move |context, why| on_refused.tell(context, why))
}

/// Returns the address by which this machine reaches its own listener.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// A server on a Unix socket. The socket's path is removed when the server stops.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnixServer {
    listener: UnixSocket,
    limits: ConnectionLimits,
    on_refused: OnRefused,
}

/// A listener that removes its path before it closes.
#[cfg(unix)]
#[derive(Debug)]
struct UnixSocket {
    path: antiphon_net::UnixPath,
    listener: std::os::unix::net::UnixListener,
}

#[cfg(unix)]
impl UnixServer {
    /// Listens at `path`. A socket there on which no server answers was left by a server that was
    /// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
    /// replaced.
    ///
    /// # Errors
    /// The path is in use or cannot be created; the error's text has the path.
    pub fn bind(path: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        let (listener, path) = antiphon_net::bind_unix(path.into())?;
        Ok(Self {
            listener: UnixSocket { listener, path },
            limits: ConnectionLimits::new(),
            on_refused: OnRefused::default(),
        })
    }

    /// Sets the limit on open connections. A further one is closed as soon as it is accepted.
    /// Default 256; each needs four threads.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.limits.max_connections = max_connections;
        self
    }

    /// Calls `report` for every connection that is refused at the limit, for logs and metrics. It
    /// runs on the thread that starts the connections, so it must be quick.
    #[must_use]
    pub fn on_refused(
        mut self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Serves in the background until the returned value is stopped or dropped. Every connection
    /// gets a service of its own from `make`, and all share the pool in `options`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        mut make: impl FnMut() -> S + Send + 'static,
    ) -> io::Result<Running> {
        let path = self.listener.path.as_path().to_owned();
        let knock = move || std::os::unix::net::UnixStream::connect(&path).is_ok();
        let listener = self.listener;
        let accepting = Accepting::start(move || listener.accept(), knock)?;
        let protocol = OnThreads {
            options: options.into(),
            make: Mutex::new(move |_: &Context| make()),
        };
        let server = server(accepting, self.limits, self.on_refused);
        Ok(Running::new(server.start_protocol(protocol)))
    }
}

#[cfg(unix)]
impl UnixSocket {
    fn accept(&self) -> io::Result<Incoming> {
        let (stream, _) = self.listener.accept()?;
        // If the peer has already disconnected, that is not an error of the listener.
        let link = Link::from_unix(stream).map_err(|_| io::ErrorKind::ConnectionAborted);
        Ok(Incoming::Open(link?))
    }
}
