//! A server on a TCP port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use antiphon::LimitReached;
use socket2::SockRef;

use super::{Protocol, Running, Secure, Server};
use crate::link::socket::prepare;
use crate::runtime::current;
use crate::sockets::NetRuntime;
use crate::transport::tcp::{Address, bind};
#[cfg(feature = "http")]
use antiphon_shell::SharedRuntime;
use antiphon_shell::{ConnectionConfig, Context, Service, caught, debug_fields};

/// The hook of a server, which may be set after the listener was made.
#[derive(Default)]
struct Hook(OnceLock<Box<OnAccept>>);

type OnAccept = dyn Fn(&SockRef<'_>) + Send + Sync;

debug_fields!(impl[] Hook as "Hook" {});

/// A server on a TCP port.
#[derive(Debug)]
#[must_use = "nothing is served before it is started"]
pub struct TcpServer {
    address: SocketAddr,
    server: Server,
    on_accept: Arc<Hook>,
}

impl TcpServer {
    /// Listens. With port 0 the system chooses a free port, which [`local_addr`](Self::local_addr) returns.
    ///
    /// # Errors
    /// Another program uses the address, or it is not one of this machine; the error's text has the
    /// address.
    pub async fn bind(address: impl Into<Address>) -> io::Result<Self> {
        let address = address.into();
        let named = |error: io::Error| {
            let text = format!("cannot listen on {address}: {error}");
            io::Error::new(error.kind(), text)
        };
        let addresses = address.clone().resolve().await.map_err(named)?;
        Self::from_listener(bind(&addresses).map_err(named)?)
    }

    /// Uses a listener of the standard library.
    ///
    /// # Errors
    /// The listener has no address.
    #[track_caller]
    pub fn from_listener(listener: TcpListener) -> io::Result<Self> {
        Self::from_listener_on(listener, current())
    }

    /// Uses a listener, on a runtime.
    ///
    /// # Errors
    /// The listener has no address, or the runtime cannot use it.
    pub fn from_listener_on(listener: TcpListener, runtime: NetRuntime) -> io::Result<Self> {
        let (address, on_accept) = (listener.local_addr()?, Arc::<Hook>::default());
        let hook = Arc::clone(&on_accept);
        let see = move |socket: SockRef<'_>| {
            // If the peer has already disconnected, or the hook panics, only this connection ends.
            let prepared = prepare(&socket).ok();
            let seen = prepared.and_then(|()| caught(|| hook.0.get().map(|hook| hook(&socket))));
            seen.map(drop)
                .ok_or(io::ErrorKind::ConnectionAborted.into())
        };
        let listener = runtime.sockets().listen_tcp(listener, Box::new(see))?;
        Ok(Self {
            address,
            server: Server::from_boxed(listener, runtime.into()),
            on_accept,
        })
    }

    /// The address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Sets how many connections may be open at the same time. Further ones are closed as soon as they
    /// are accepted; over HTTP without TLS they are answered 503. Default 10 240.
    pub fn max_connections(self, max_connections: usize) -> Self {
        self.map(|server| server.max_connections(max_connections))
    }

    /// Sets how many connections from one address may be open at the same time: from an IPv4 address,
    /// or from the /64 network of an IPv6 one. Default no limit, because behind a proxy all connections
    /// come from one address.
    pub fn max_connections_per_address(self, max_per_address: usize) -> Self {
        self.map(|server| server.max_connections_per_address(max_per_address))
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It
    /// runs in the task that accepts, so it must be quick. Over HTTP the service gets a report too.
    pub fn on_refused(
        self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.map(|server| server.on_refused(report))
    }

    /// Makes every connection begin with a handshake, within
    /// [`handshake_timeout`](Self::handshake_timeout).
    pub fn with_secure(self, secure: impl Secure) -> Self {
        self.map(|server| server.with_secure(secure))
    }

    /// Sets how long the handshake may take. Default 10 s.
    pub fn handshake_timeout(self, handshake_timeout: Duration) -> Self {
        self.map(|server| server.handshake_timeout(handshake_timeout))
    }

    /// Calls `hook` for each accepted socket, before anything is read or written: to set an option,
    /// or to count. `TCP_NODELAY` and TCP keep-alive are on by then; the hook may change that. It
    /// runs in the task that accepts, so it must not block.
    ///
    /// # Panics
    /// There is a hook already.
    pub fn on_accept(self, hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        let is_first = self.on_accept.0.set(Box::new(hook)).is_ok();
        assert!(is_first, "a server has one hook");
        self
    }

    /// Serves in the background until the returned value is stopped or dropped. `make` returns the
    /// service of each connection, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.server.start(options, make)
    }

    #[cfg(feature = "http")]
    pub(crate) fn runtime(&self) -> &SharedRuntime {
        self.server.runtime()
    }

    /// Starts the server with another protocol than plain messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        self.server.start_protocol(protocol)
    }

    fn map(self, change: impl FnOnce(Server) -> Server) -> Self {
        let server = change(self.server);
        Self { server, ..self }
    }
}
