//! A server on a TCP port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use antiphon::LimitReached;
use socket2::SockRef;

use super::{Protocol, Running, Secure, Server};
use crate::context::Context;
use crate::options::ConnectionConfig;
use crate::runtime::{SharedRuntime, current};
use crate::service::Service;
use crate::transport::socket::OnAccept;
use crate::transport::tcp::{Address, bind, prepare};

/// The hook of a server, which is given after the listener has been handed over.
type SharedHook = Arc<OnceLock<OnAccept>>;

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
    pub async fn bind(address: impl Into<Address>) -> io::Result<Self> {
        let address = address.into();
        let named = |error: io::Error| {
            let text = format!("cannot listen on {address}: {error}");
            io::Error::new(error.kind(), text)
        };
        let addresses = address.clone().resolve().await.map_err(named)?;
        Self::from_listener(bind(&addresses).map_err(named)?)
    }

    /// Takes a listener of the standard library.
    ///
    /// # Errors
    /// It has no address.
    #[track_caller]
    pub fn from_listener(listener: TcpListener) -> io::Result<Self> {
        Self::from_listener_on(listener, current())
    }

    /// Takes a listener, to be served on a runtime.
    ///
    /// # Errors
    /// It has no address, or the runtime cannot take it.
    pub fn from_listener_on(listener: TcpListener, runtime: SharedRuntime) -> io::Result<Self> {
        let (address, on_accept) = (listener.local_addr()?, SharedHook::default());
        let hook = Arc::clone(&on_accept);
        let see = move |socket: SockRef<'_>| {
            let seen = |()| hook.get().map_or(Ok(()), |hook| hook.see(&socket));
            // A peer that is gone already is no fault of the listener's.
            let prepared = prepare(&socket).and_then(seen);
            prepared.map_err(|_| io::ErrorKind::ConnectionAborted.into())
        };
        let listener = runtime.listen_tcp(listener, Box::new(see))?;
        Ok(Self {
            address,
            server: Server::from_boxed(listener, runtime),
            on_accept,
        })
    }

    /// The address listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Sets another limit on connections at once. Further ones are closed as soon as
    /// they are made; over HTTP without TLS they are answered 503. Default 10 240.
    pub fn max_connections(self, max_connections: usize) -> Self {
        self.map(|server| server.max_connections(max_connections))
    }

    /// Sets a limit on connections at once from one address: an IPv4 address, or the
    /// network of an IPv6 one. Default none, for behind a proxy all come from one address.
    pub fn max_connections_per_address(self, max_per_address: usize) -> Self {
        self.map(|server| server.max_connections_per_address(max_per_address))
    }

    /// Calls `report` for every connection that is refused at a limit, for logs and metrics. It runs
    /// where the server accepts: briefly. Over HTTP the service has a report of it as well.
    pub fn on_refused(
        self,
        report: impl Fn(&Context, LimitReached) + Send + Sync + 'static,
    ) -> Self {
        self.map(|server| server.on_refused(report))
    }

    /// Has every connection go through a handshake first, within 10 s.
    pub fn with_secure(self, secure: impl Secure) -> Self {
        self.map(|server| server.with_secure(secure))
    }

    /// Sets another deadline for the handshake.
    pub fn handshake_timeout(self, handshake_timeout: Duration) -> Self {
        self.map(|server| server.handshake_timeout(handshake_timeout))
    }

    /// Has `hook` see each socket that is accepted, before anything is said on it: to set an option
    /// or to count. By then nothing is delayed (`TCP_NODELAY`) and TCP keep-alive is on; the hook
    /// may change that. It runs where connections are accepted, so it must not wait.
    ///
    /// # Panics
    /// It has been given one already.
    pub fn on_accept(self, hook: impl Fn(&SockRef<'_>) + Send + Sync + 'static) -> Self {
        self.with_on_accept(OnAccept::new(hook))
    }

    /// Like [`on_accept`](Self::on_accept), with a hook that others share.
    ///
    /// # Panics
    /// It has been given one already.
    pub fn with_on_accept(self, hook: OnAccept) -> Self {
        let is_first = self.on_accept.set(hook).is_ok();
        assert!(is_first, "a server has one hook");
        self
    }

    /// Serves in the background until what it gives is stopped or dropped. Every connection is
    /// served by what `make` gives for it, which may be an `Arc` of one service for all.
    pub fn start<S: Service>(
        self,
        options: impl Into<ConnectionConfig>,
        make: impl Fn(&Context) -> S + Send + Sync + 'static,
    ) -> Running {
        self.server.start(options, make)
    }

    /// Serves over HTTP: every POST is a message. One service answers all.
    #[cfg(feature = "http")]
    pub fn start_http(
        self,
        options: impl Into<crate::http::HttpConfig>,
        service: impl Service,
    ) -> Running {
        self.start_protocol(crate::http::endpoint(options, service))
    }

    /// Serves another protocol below the messages.
    pub fn start_protocol(self, protocol: impl Protocol) -> Running {
        self.server.start_protocol(protocol)
    }

    fn map(self, change: impl FnOnce(Server) -> Server) -> Self {
        let server = change(self.server);
        Self { server, ..self }
    }
}
