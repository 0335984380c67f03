//! Servers that listen: TCP and Unix sockets.
//!
//! What a server has made, it removes again.

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
    /// None for the default, which is another over HTTP.
    max_connections: Option<usize>,
    max_per_address: usize,
    on_refused: OnRefused,
}

/// A listener, and what its connections go through first.
#[derive(Debug)]
struct TcpSocket {
    listener: TcpListener,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Acceptor>,
    on_accept: Option<OnAccept>,
}

impl TcpServer {
    /// Listens. Port 0 takes any that is free; [`local_addr`](Self::local_addr) tells which.
    ///
    /// # Errors
    /// The address is taken or not this machine's; the error names it.
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

    /// Sets another limit on connections at once. Further ones are closed as soon as they are made;
    /// over HTTP without TLS they are answered 503. Default 256, for each costs four threads; over
    /// HTTP, where a connection costs none, 10 240.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.max_connections = Some(max_connections);
        self
    }

    /// Sets a limit on connections at once from one address: an IPv4 address, or the network of an
    /// IPv6 one. Default none, for behind a proxy all come from one address.
    #[must_use]
    pub fn max_connections_per_address(mut self, max_per_address: usize) -> Self {
        self.max_per_address = max_per_address;
        self
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It runs
    /// where the server accepts: briefly. Over HTTP the service has a report of it as well.
    #[must_use]
    pub fn on_refused(
        mut self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Has every connection go through a TLS handshake first, on its own thread. It takes an
    /// [`Acceptor`](crate::tls::Acceptor), or the configuration alone.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(mut self, acceptor: impl Into<crate::tls::Acceptor>) -> Self {
        self.listener.tls = Some(acceptor.into());
        self
    }

    /// Has `hook` see each socket that is accepted, before anything is said on it: to set an option
    /// or to count. By then nothing is delayed (`TCP_NODELAY`) and TCP keep-alive is on; the hook
    /// may change that. It runs where connections are accepted, so it must not wait.
    #[must_use]
    pub fn on_accept(mut self, hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        self.listener.on_accept = Some(OnAccept::new(hook));
        self
    }

    /// The address listened on.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.listener.local_addr()
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection gets a
    /// service of its own from `make`, and all share the pool in `options`.
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
            // It has a deadline of its own.
            Some(tls) => server.with_secure(tls).handshake_timeout(Duration::MAX),
            None => server,
        };
        let mut make = make;
        let protocol = OnThreads {
            options: options.into(),
            // The accepting thread has put the peer's address there.
            make: Mutex::new(move |context: &Context| make(context.peer_addr.unwrap_or(address))),
        };
        Ok(Running::new(server.start_protocol(protocol)))
    }

    /// Serves over HTTP in the background until what it gives is stopped or dropped. Every POST is
    /// a message. Connections cost no threads of their own; the methods of the service run on the
    /// pool in `options`. See [`http`](crate::http).
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
        // A peer that is gone already is no fault of the listener's.
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

/// Returns the address by which this machine reaches a listener of its own.
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

/// A listener that removes its path.
#[cfg(unix)]
#[derive(Debug)]
struct UnixSocket {
    listener: std::os::unix::net::UnixListener,
    path: antiphon_net::UnixPath,
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
        Ok(Self {
            listener: UnixSocket { listener, path },
            limits: ConnectionLimits::new(),
            on_refused: OnRefused::default(),
        })
    }

    /// Sets another limit on connections at once. Further ones are closed as soon as they are made.
    /// Default 256; each costs four threads.
    #[must_use]
    pub fn max_connections(mut self, max_connections: usize) -> Self {
        self.limits.max_connections = max_connections;
        self
    }

    /// Calls `report` for every connection that is refused at the limit, for logs and metrics. It
    /// runs where the server accepts: briefly.
    #[must_use]
    pub fn on_refused(
        mut self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.on_refused = OnRefused::new(report);
        self
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection gets a
    /// service of its own from `make`, and all share the pool in `options`.
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
        // A peer that is gone already is no fault of the listener's.
        let link = Link::from_unix(stream).map_err(|_| io::ErrorKind::ConnectionAborted);
        Ok(Incoming::Open(link?))
    }
}
