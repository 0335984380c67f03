//! Servers that listen: TCP and Unix sockets. They are those of `antiphon-net`, on the thread that reads and
//! writes, with services for threads.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
#[cfg(feature = "http")]
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

use antiphon::LimitReached;
use antiphon_net::{ConnectionConfig, Context, SockRef};
#[cfg(feature = "http")]
use blocking::unblock;

use crate::driver::in_turn;
use crate::in_turn::InTurn;
use crate::running::Running;
use crate::runtime::runtime;
use crate::serve::Service;

/// A server on a TCP port.
#[derive(Debug)]
pub struct TcpServer(antiphon_net::TcpServer);

impl TcpServer {
    /// Listens on `address`. With port 0 the system chooses a free port, which
    /// [`local_addr`](Self::local_addr) returns.
    ///
    /// # Errors
    /// The address is in use, or is not one of this machine; the error's text has the address.
    pub fn bind(address: impl ToSocketAddrs + fmt::Debug) -> io::Result<Self> {
        let named = |error: io::Error| {
            let text = format!("cannot listen on {address:?}: {error}");
            io::Error::new(error.kind(), text)
        };
        let listener = TcpListener::bind(&address).map_err(named)?;
        antiphon_net::TcpServer::from_listener_on(listener, runtime()?).map(Self)
    }

    /// Sets the limit on open connections. A further one is closed as soon as it is accepted; over
    /// HTTP without TLS it is answered 503. Default 10 240: a connection is a task and needs no thread
    /// while nothing comes.
    #[must_use]
    pub fn max_connections(self, max_connections: usize) -> Self {
        Self(self.0.max_connections(max_connections))
    }

    /// Sets a limit on open connections from one address: an IPv4 address, or the first 64 bits of
    /// an IPv6 address. Default none, because behind a proxy all connections come from one address.
    #[must_use]
    pub fn max_connections_per_address(self, max_per_address: usize) -> Self {
        Self(self.0.max_connections_per_address(max_per_address))
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It
    /// runs on the thread that reads and writes for all connections, so it must be quick. Over HTTP the
    /// service gets a report too.
    #[must_use]
    pub fn on_refused(
        self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.on_refused(report))
    }

    /// Makes every connection begin with a TLS handshake. It takes an
    /// [`Acceptor`](crate::tls::Acceptor), or only the configuration.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, acceptor: impl Into<crate::tls::Acceptor>) -> Self {
        Self(self.0.with_secure(acceptor.into()))
    }

    /// Sets the deadline for the whole TLS handshake. Default 10 s.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn handshake_timeout(self, handshake_timeout: std::time::Duration) -> Self {
        Self(self.0.handshake_timeout(handshake_timeout))
    }

    /// Calls `hook` for each accepted socket, before anything is read or written: to set an option,
    /// or to count. `TCP_NODELAY` and TCP keep-alive are on by then; the hook may change that. It
    /// runs on the thread that reads and writes for all connections, so it must not block.
    #[must_use]
    pub fn on_accept(self, hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        Self(self.0.on_accept(hook))
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// The system does not report it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.0.local_addr())
    }

    /// Serves in the background until the returned value is stopped or dropped. Every connection
    /// gets a service of its own from `make`, and all share the pool in `options`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl FnMut(&Context) -> S + Send + 'static,
    ) -> io::Result<Running> {
        Ok(Running::new(self.0.start(in_turn(options), on_pool(make))))
    }

    /// Serves a web endpoint in the background until the returned value is stopped or dropped: HTTP and WebSocket,
    /// judged for each request. Over HTTP a service is made for every method that is called, over WebSocket one for
    /// each connection. See [`http`](crate::http).
    ///
    /// # Errors
    /// The system refused a thread.
    #[cfg(feature = "http")]
    pub fn start_web<S: Service>(self, web: crate::http::Web<S>) -> io::Result<Running> {
        Ok(Running::new(self.0.start_protocol(of_web(web)?)))
    }

    /// Serves over HTTP in the background until the returned value is stopped or dropped. Every
    /// POST is a message. The methods of the service run on the pool in `options`. `make` makes a
    /// service for every method that is called. See [`http`](crate::http).
    ///
    /// # Errors
    /// The system refused a thread.
    #[cfg(feature = "http")]
    pub fn start_http<S: Service>(
        self,
        options: impl Into<crate::http::HttpConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> io::Result<Running> {
        let service = crate::http::OnPool::new(make);
        let endpoint = antiphon_net::http::Endpoint::new(options.into(), service, runtime()?);
        Ok(Running::new(self.0.start_protocol(endpoint)))
    }
}

/// A server on a Unix socket. The socket's path is removed when the server stops.
#[cfg(unix)]
#[derive(Debug)]
pub struct UnixServer(antiphon_net::Server);

#[cfg(unix)]
impl UnixServer {
    /// Listens at `path`. A socket there on which no server answers was left by a server that was
    /// killed, and is replaced. A socket on which a server answers, or another kind of file, is not
    /// replaced.
    ///
    /// # Errors
    /// The path is in use or cannot be created; the error's text has the path.
    pub fn bind(path: impl Into<std::path::PathBuf>) -> io::Result<Self> {
        antiphon_net::UnixServer::bind_on(path, runtime()?).map(Self)
    }

    /// Sets the limit on open connections. A further one is closed as soon as it is accepted.
    /// Default 10 240.
    #[must_use]
    pub fn max_connections(self, max_connections: usize) -> Self {
        Self(self.0.max_connections(max_connections))
    }

    /// Calls `report` for every connection that is refused at the limit, for logs and metrics. It
    /// runs on the thread that reads and writes for all connections, so it must be quick.
    #[must_use]
    pub fn on_refused(
        self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        Self(self.0.on_refused(report))
    }

    /// Serves a web endpoint: see [`TcpServer::start_web`].
    ///
    /// # Errors
    /// The system refused a thread.
    #[cfg(feature = "http")]
    pub fn start_web<S: Service>(self, web: crate::http::Web<S>) -> io::Result<Running> {
        Ok(Running::new(self.0.start_protocol(of_web(web)?)))
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
        let make = on_pool(move |_| make());
        Ok(Running::new(self.0.start(in_turn(options), make)))
    }
}

/// Makes the endpoint of services for threads. What the program checks may block, and so may what makes a service.
#[cfg(feature = "http")]
fn of_web<S: Service>(
    web: crate::http::Web<S>,
) -> io::Result<antiphon_net::http::Endpoint<crate::http::OnPool<S>>> {
    let exchange = Arc::new(crate::http::OnPool::new(web.make()));
    let connection = web.make();
    let web = web.check_on_threads();
    let exchange = move |_: &Context| Arc::clone(&exchange);
    let connection = move |context: Arc<Context>| {
        let make = connection.clone();
        Box::pin(unblock(move || InTurn::new(make(&context)).0)) as _
    };
    let runtime = runtime()?;
    Ok(antiphon_net::http::Endpoint::of_web(
        web, runtime, exchange, connection, in_turn,
    ))
}

/// Makes services that run on the pool, one at a time.
fn on_pool<S: Service>(
    make: impl FnMut(&Context) -> S + Send + 'static,
) -> impl Fn(&Context) -> InTurn<S> + Send + Sync + 'static {
    let make = Mutex::new(make);
    move |context| {
        // A panic in `make` ends only the connection for which it was called.
        let mut make = make.lock().unwrap_or_else(PoisonError::into_inner);
        InTurn::new(make(context)).0
    }
}
