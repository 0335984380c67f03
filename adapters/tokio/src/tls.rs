//! TLS around any link, with the caller's configuration.
//!
//! A configuration names its cryptography (a `CryptoProvider`), its roots and its certificates; none
//! of these is chosen here. rustls speaks TLS 1.2 and 1.3 and nothing older. A server that asks for
//! client certificates sees the one shown as
//! [`Context::client_certificate`](antiphon_net::Context::client_certificate).
//!
//! Each end of a stream is announced, so one that is cut is told from one that has ended: without
//! the announcement a read fails with [`UnexpectedEof`](io::ErrorKind::UnexpectedEof).
//!
//! ```no_run
//! use antiphon::Config;
//! use antiphon_tokio::tls::{self, rustls};
//! use antiphon_tokio::{TcpServer, connect};
//! use std::sync::Arc;
//!
//! # async fn example(
//! #     server_config: Arc<rustls::ServerConfig>,
//! #     client_config: Arc<rustls::ClientConfig>,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let server = TcpServer::bind("0.0.0.0:7777").await?.with_secure(tls::Acceptor::new(server_config));
//! let running = server.start(Config::new(), |_| ());
//!
//! let link = tls::connect("api.example:7777", "api.example", client_config).await?;
//! let peer = connect(link, Config::new(), ());
//! # drop((peer, running));
//! # Ok(()) }
//! ```

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, ready};
use std::time::Duration;

pub use antiphon_net::tls::{OnFailure, TlsError, TlsFault, rustls};
use antiphon_net::tls::{
    TlsIo, Watched, certificate_of, explain, let_go, poll_write_below, server_name,
};
use antiphon_net::{Context, Handshake, Io, Secure, SocketIo};
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::io::TokioIo;
use crate::link::Link;

/// How long a client waits for a handshake.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// Connects to a TLS server by TCP, and checks that its certificate is for `name`, a host's name or
/// address. The connection and the handshake may each take 10 s. Small messages are not delayed
/// (`TCP_NODELAY`).
///
/// # Errors
/// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that took too long; `name` is none;
/// a [`TlsError`], which [`TlsFault::of`] reads.
pub async fn connect(
    address: impl ToSocketAddrs,
    name: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Link> {
    client(Link::tcp(address).await?, name, config).await
}

/// Is a TLS client on a link that leads to the server already. The handshake may take 10 s.
///
/// # Errors
/// As [`connect`].
pub async fn client(
    link: impl Into<Link>,
    name: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Link> {
    let name = server_name(name)?;
    let link = antiphon_net::Link::from(link.into());
    let shaken = TlsConnector::from(config).connect(name, Below(link.io));
    let stream = match tokio::time::timeout(HANDSHAKE_TIME_MAX, shaken).await {
        Ok(stream) => stream,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    };
    let stream = stream.map_err(explain)?;
    // Anything that came below TLS while it was idle may be its end.
    let io = SocketIo::new(
        TokioIo(stream),
        |stream| stream.0.get_ref().0.0.has_input(),
        |stream| stream.0.get_ref().0.0.was_reset(),
    );
    Ok(Link::from_io(TlsIo(io)).with_context(link.context))
}

/// Is the TLS server on the connections of a [`Server`](antiphon_net::Server), to be given to its
/// `with_secure`.
///
/// ALPN, client authentication and everything else are as `config` says. A connection that does not
/// get through its handshake is closed; [`on_failure`](Self::on_failure) tells of it.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    on_failure: OnFailure,
}

impl Acceptor {
    /// Serves with `config`, and tells nobody of what fails.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            config,
            on_failure: OnFailure::default(),
        }
    }

    /// The same, telling `report` of each connection that failed: of what a client sent or refused,
    /// or [`TimedOut`](io::ErrorKind::TimedOut) if it was too slow. It runs on a task of the server:
    /// briefly.
    #[must_use]
    pub fn on_failure(self, report: impl Fn(&Context, &io::Error) + Send + Sync + 'static) -> Self {
        Self {
            on_failure: OnFailure::new(report),
            ..self
        }
    }
}

impl Secure for Acceptor {
    fn accept(&self, link: antiphon_net::Link) -> Handshake {
        let watched = Watched::new(self.on_failure.clone(), link.context);
        let shaken = TlsAcceptor::from(Arc::clone(&self.config)).accept(Below(link.io));
        Box::pin(async move {
            let (shaken, left) = match shaken.into_fallible().await {
                Ok(stream) => (Ok(stream), None),
                Err((error, below)) => (Err(error), Some(below.0)),
            };
            let (stream, mut context) = match watched.done(shaken) {
                Ok(done) => done,
                Err(error) => {
                    if let Some(io) = left {
                        let_go(io).await;
                    }
                    return Err(error);
                }
            };
            context.client_certificate = certificate_of(stream.get_ref().1);
            let link = antiphon_net::Link::new(TlsIo(TokioIo(stream)));
            Ok(link.with_context(context))
        })
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}

/// What TLS is put on: the engine's stream, as tokio's traits have it.
struct Below(Box<dyn Io>);

impl AsyncRead for Below {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n = ready!(self.0.poll_read(cx, buf.initialize_unfilled()))?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Below {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll_write_below(&mut *self.0, cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }
}
