//! TLS over TCP, with the caller's configuration.
//!
//! The caller's configuration selects the cryptography (a `CryptoProvider`), the roots and the
//! certificates; this crate selects none. rustls supports TLS 1.2 and 1.3 and nothing older. If a
//! server requires client certificates, the client's is
//! [`Context::client_certificate`](crate::Context::client_certificate).
//!
//! TLS announces the end of each direction, so a stream that was cut differs from one that has
//! ended: without the announcement a read fails with
//! [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
//!
//! ```no_run
//! use antiphon::Config;
//! use antiphon_blocking::tls::{self, rustls};
//! use antiphon_blocking::{TcpServer, connect};
//! use std::sync::Arc;
//!
//! # fn example(
//! #     server_config: Arc<rustls::ServerConfig>,
//! #     client_config: Arc<rustls::ClientConfig>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let server = TcpServer::bind("0.0.0.0:7777")?.with_tls(server_config);
//! let running = server.start(Config::new(), |_| ())?;
//!
//! let link = tls::connect("api.example:7777", "api.example", client_config)?;
//! let peer = connect(link, Config::new(), ())?;
//! # drop((peer, running));
//! # Ok(()) }
//! ```
//!
//! No thread reads from or writes to the socket while it holds the lock of the TLS state, so the
//! reading thread does not wait for the writing one.

mod handshake;
mod stream;

use std::fmt;
use std::future::{poll_fn, ready};
use std::io;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

pub use antiphon_net::tls::{OnFailure, TlsError, TlsFault, rustls};
use antiphon_net::tls::{Watched, alpn_of, certificate_of, explain, server_name};
use antiphon_net::tls::{spoken_by_client, spoken_by_server};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use antiphon_net::{Context, Handshake, Secure, Slot};

use crate::server::accept::Incoming;
use crate::transport::link::{Link, connect_tcp, prepare};

/// The default deadline of a handshake.
const DEFAULT_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a TLS server over TCP, and checks that its certificate is for `name`, a host name or
/// an address. Connecting may take 10 s for each address of the host, and the handshake another
/// 10 s. `TCP_NODELAY` is on.
///
/// # Errors
/// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if connecting or the handshake took
/// too long; `name` is neither a host name nor an address; a [`TlsError`], which [`TlsFault::of`]
/// reads.
///
/// HTTP/1.1 is offered in the place of HTTP/2 and HTTP/3, which are not spoken here (ALPN).
pub fn connect(
    address: impl ToSocketAddrs,
    name: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Link> {
    client(connect_tcp(address)?, name, config)
}

/// Performs the handshake as a TLS client, on a connected TCP stream. It may take 10 s.
///
/// # Errors
/// As [`connect`].
pub fn client(stream: TcpStream, name: &str, config: Arc<ClientConfig>) -> io::Result<Link> {
    let name = server_name(name)?;
    prepare(&stream)?;
    let config = spoken_by_client(config);
    let tls = ClientConnection::new(config, name).map_err(|error| explain(io::Error::other(error)));
    let mut tls = Connection::from(tls?);
    let shaken = handshake::complete(&mut tls, &stream, DEFAULT_HANDSHAKE_TIMEOUT);
    shaken.map_err(explain)?;
    let mut context = Context::new();
    context.peer_addr = stream.peer_addr().ok();
    context.alpn_protocol = alpn_of(&tls);
    stream::link(tls, stream, context)
}

/// Accepts connections over TLS: those of a [`TcpServer`](crate::TcpServer) with its
/// [`with_tls`](crate::TcpServer::with_tls), and single streams with [`accept`](Self::accept).
///
/// Client authentication, ALPN and everything else are as its configuration says, but HTTP/1.1 is offered
/// in the place of HTTP/2 and HTTP/3, which are not spoken here. A connection whose handshake fails is
/// closed; [`on_failure`](Self::on_failure) reports it.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    on_failure: OnFailure,
    handshake_timeout: Duration,
}

impl Acceptor {
    /// Uses `config`, with 10 s for a handshake, and reports no failures.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            config: spoken_by_server(config),
            on_failure: OnFailure::default(),
            handshake_timeout: DEFAULT_HANDSHAKE_TIMEOUT,
        }
    }

    /// Calls `report` for each connection whose handshake failed, with the error: a [`TlsError`],
    /// for example, or [`TimedOut`](io::ErrorKind::TimedOut) if the client was too slow.
    #[must_use]
    pub fn on_failure(self, report: impl Fn(&Context, &io::Error) + Send + Sync + 'static) -> Self {
        Self {
            on_failure: OnFailure::new(report),
            ..self
        }
    }

    /// Sets the deadline for the whole handshake. Default 10 s.
    #[must_use]
    pub fn handshake_timeout(self, handshake_timeout: Duration) -> Self {
        Self {
            handshake_timeout,
            ..self
        }
    }

    /// Performs the handshake on a stream that was accepted elsewhere.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut); a [`TlsError`]; the stream broke.
    pub fn accept(&self, stream: TcpStream) -> io::Result<Link> {
        prepare(&stream)?;
        let mut context = Context::new();
        context.peer_addr = stream.peer_addr().ok();
        self.accept_prepared(stream, context)
    }

    /// Performs the handshake over a stream whose options are already set.
    fn accept_prepared(&self, stream: TcpStream, context: Context) -> io::Result<Link> {
        let watched = Watched::new(self.on_failure.clone(), context);
        let (tls, mut context) = watched.done(self.shake(&stream))?;
        context.client_certificate = certificate_of(&tls);
        context.alpn_protocol = alpn_of(&tls);
        stream::link(tls, stream, context)
    }

    /// Adds TLS with this acceptor to a server over HTTP, whose connections are tasks instead of
    /// threads.
    #[cfg(feature = "http")]
    pub(crate) fn secure(self, server: antiphon_net::TcpServer) -> antiphon_net::TcpServer {
        let on_failure = self.on_failure;
        let acceptor = antiphon_net::tls::Acceptor::new(self.config)
            .on_failure(move |context, error| on_failure.tell(context, error));
        server
            .with_secure(acceptor)
            .handshake_timeout(self.handshake_timeout)
    }

    fn shake(&self, stream: &TcpStream) -> io::Result<Connection> {
        let tls = ServerConnection::new(Arc::clone(&self.config)).map_err(io::Error::other)?;
        let mut tls = Connection::from(tls);
        handshake::complete(&mut tls, stream, self.handshake_timeout)?;
        Ok(tls)
    }
}

/// Runs each handshake on a thread of its own. If the handshake is not awaited any more, its stream
/// is cut.
impl Secure<Incoming> for Acceptor {
    fn accept(&self, incoming: Incoming) -> Handshake<Incoming> {
        let Incoming::Secret(stream, context) = incoming else {
            return Box::pin(ready(Ok(incoming)));
        };
        let (slot, acceptor) = (Slot::new(), self.clone());
        let inside = Arc::clone(&slot);
        let control = stream.try_clone().map(|control| Cut(Some(control)));
        let shake = move || {
            let shaken = acceptor.accept_prepared(stream, context);
            if let Some(waiter) = inside.put(shaken) {
                waiter.wake();
            }
        };
        let thread = thread::Builder::new().name("antiphon-tls".into());
        let started = control.and_then(|control| thread.spawn(shake).map(|_| control));
        Box::pin(async move {
            let mut control = started?;
            let link = poll_fn(|cx| slot.poll(cx.waker())).await;
            control.0 = None;
            link.map(Incoming::Open)
        })
    }
}

/// Cuts a stream when it is dropped.
struct Cut(Option<TcpStream>);

impl Drop for Cut {
    fn drop(&mut self) {
        if let Some(stream) = &self.0 {
            // If it is closed already, that is fine.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl From<Arc<ServerConfig>> for Acceptor {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self::new(config)
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("on_failure", &self.on_failure)
            .field("handshake_timeout", &self.handshake_timeout)
            .finish_non_exhaustive()
    }
}
