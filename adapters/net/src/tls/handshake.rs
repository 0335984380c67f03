//! Handshakes of both sides, and the streams after them. An error of TLS has a text that explains
//! it, whenever it occurs.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use futures_rustls::{TlsAcceptor, TlsConnector};
use rustls::{ClientConfig, ServerConfig};

use super::{OnFailure, WatchedHandshake, alpn_of, certificate_of, explain, server_name};
use super::{spoken_by_client, spoken_by_server};
use crate::link::Link;
use crate::link::futures::FuturesIo;
use crate::runtime::current;
use crate::server::{Handshake, Secure};
use crate::transport::tcp::Address;
use antiphon_shell::{ClientTls, Context, Io, Securing, SharedRuntime, debug_fields, until};

/// How long a client's handshake may take, if no options say it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How many bytes are read, and dropped, at most after a failed handshake.
const MAX_LEFT_BYTES: usize = 256 * 1024;

/// Connects to a TLS server over TCP, and checks that its certificate is for `name`, a host name or
/// an address. The connection and the handshake may each take 10 s. `TCP_NODELAY` is on.
///
/// # Errors
/// No address answered; [`TimedOut`](io::ErrorKind::TimedOut) if that took too long; `name` is
/// neither a host name nor an address; a [`TlsError`](super::TlsError), which
/// [`TlsFault::of`](super::TlsFault::of) reads.
///
/// HTTP/1.1 is offered in the place of HTTP/2 and HTTP/3, which are not spoken here (ALPN).
pub async fn connect(
    address: impl Into<Address>,
    name: &str,
    config: Arc<ClientConfig>,
) -> io::Result<Link> {
    client(Link::tcp(address).await?, name, config).await
}

/// Performs the handshake as a TLS client, on an existing link. It may take 10 s.
///
/// # Errors
/// [`TimedOut`](io::ErrorKind::TimedOut) if that took too long; an error of the link; otherwise as
/// [`connect`].
pub async fn client(link: Link, name: &str, config: Arc<ClientConfig>) -> io::Result<Link> {
    client_on(link, name, config, HANDSHAKE_TIMEOUT, &current()).await
}

/// Performs the handshake of [`client`] within `timeout`, with the timers of `runtime`.
async fn client_on(
    link: Link,
    name: &str,
    config: Arc<ClientConfig>,
    timeout: Duration,
    runtime: &SharedRuntime,
) -> io::Result<Link> {
    let name = server_name(name)?;
    let config = spoken_by_client(config);
    let shaken = TlsConnector::from(config).connect(name, Below(link.io));
    let stream = until(&**runtime, runtime.now() + timeout, shaken).await;
    let stream = stream.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
    let stream = stream.map_err(explain)?;
    let alpn_protocol = alpn_of(stream.get_ref().1);
    // Bytes that arrive below TLS while the connection is idle may be the end of the TLS stream.
    let io = FuturesIo::asking(stream, |stream| stream.get_ref().0.0.has_input());
    let mut context = link.context;
    context.alpn_protocol = alpn_protocol;
    Ok(Link::new(TlsIo(io)).with_context(context))
}

/// TLS of a client, for `https://` and `wss://`: [`with_tls`](crate::ClientConfig::with_tls) takes it.
#[derive(Clone, Debug)]
pub struct Connector(Arc<ClientConfig>);

impl<C: Into<Arc<ClientConfig>>> From<C> for Connector {
    fn from(config: C) -> Self {
        Self(config.into())
    }
}

impl ClientTls for Connector {
    fn secure(
        &self,
        io: Box<dyn Io>,
        context: Context,
        server: String,
        timeout: Duration,
        runtime: SharedRuntime,
    ) -> Securing {
        let config = Arc::clone(&self.0);
        Box::pin(async move {
            let link = client_on(Link { io, context }, &server, config, timeout, &runtime).await?;
            Ok((link.io, link.context))
        })
    }
}

/// Accepts the connections of a [`Server`](crate::Server) over TLS. Pass it to the server's
/// `with_secure`.
///
/// Client authentication, ALPN and everything else are as `config` says, but HTTP/1.1 is offered in the
/// place of HTTP/2 and HTTP/3, which are not spoken here. A connection whose handshake fails is closed;
/// [`on_failure`](Self::on_failure) reports it.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    on_failure: OnFailure,
}

impl Acceptor {
    /// Uses `config`, and reports no failures.
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            config: spoken_by_server(config),
            on_failure: OnFailure::default(),
        }
    }

    /// Calls `report` for each connection whose handshake failed, with the error: a
    /// [`TlsError`](super::TlsError), an error of the stream, or
    /// [`TimedOut`](io::ErrorKind::TimedOut) if the client was too slow. It runs on a task of the
    /// server, so it must be quick.
    #[must_use]
    pub fn on_failure(self, report: impl Fn(&Context, &io::Error) + Send + Sync + 'static) -> Self {
        Self {
            on_failure: OnFailure::new(report),
            ..self
        }
    }
}

impl From<Arc<ServerConfig>> for Acceptor {
    fn from(config: Arc<ServerConfig>) -> Self {
        Self::new(config)
    }
}

impl Secure for Acceptor {
    fn accept(&self, link: Link) -> Handshake {
        let watched = WatchedHandshake::new(self.on_failure.clone(), link.context);
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
            context.alpn_protocol = alpn_of(stream.get_ref().1);
            let link = Link::new(TlsIo(FuturesIo::new(stream)));
            Ok(link.with_context(context))
        })
    }
}

debug_fields!(impl[] Acceptor as "Acceptor" { on_failure });

/// The stream below TLS, with the `futures-io` traits.
struct Below(Box<dyn Io>);

impl AsyncRead for Below {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf)
    }
}

impl AsyncWrite for Below {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut TaskContext<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.0.poll_write(cx, buf) {
            // A stream that takes no bytes without an error would be written to for ever.
            Poll::Ready(Ok(0)) if !buf.is_empty() => {
                Poll::Ready(Err(io::ErrorKind::WriteZero.into()))
            }
            written => written,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx)
    }
}

/// A TLS stream of a client or a server, whose errors of TLS are [`TlsError`](super::TlsError)s.
struct TlsIo<T>(T);

impl<T: Io> Io for TlsIo<T> {
    fn poll_read(&mut self, cx: &mut TaskContext<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, buf).map_err(explain)
    }

    fn poll_write(&mut self, cx: &mut TaskContext<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(cx, buf).map_err(explain)
    }

    fn poll_flush(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_flush(cx).map_err(explain)
    }

    fn poll_close(&mut self, cx: &mut TaskContext<'_>) -> Poll<io::Result<()>> {
        self.0.poll_close(cx).map_err(explain)
    }

    fn has_input(&self) -> bool {
        self.0.has_input()
    }
}

/// Closes a stream whose handshake has failed, so that the other side can read the reason: a socket
/// that is closed with unread input discards its last output. It waits for the other side's end, so
/// the caller needs a deadline.
async fn let_go(mut io: Box<dyn Io>) {
    // If this fails, nothing more can be sent to the other side.
    let _ = poll_fn(|cx| io.poll_close(cx)).await;
    let (mut ignored, mut left) = ([0; 1024], MAX_LEFT_BYTES);
    while let Ok(n @ 1..) = poll_fn(|cx| io.poll_read(cx, &mut ignored)).await {
        left = left.saturating_sub(n);
        if left == 0 {
            break;
        }
    }
}
