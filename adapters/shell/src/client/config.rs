//! Options of a client.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use antiphon::service::{BearerAuth, Interceptor};
use antiphon::websocket::WebSocketRules;
use antiphon::{ConnectionState, ReconnectStrategy, Retry};

use crate::context::Context;
use crate::http::reply::HttpReply;
use crate::io::Io;
use crate::options::ConnectionConfig;
use crate::outgoing::OutgoingCall;
use crate::peer::Peer;
use crate::runtime::SharedRuntime;

/// Options of a client: of each of its connections, of how these are made and replaced, and of HTTP and
/// WebSocket. It can be made from a [`Config`](antiphon::Config) or a [`ConnectionConfig`], with defaults for the rest.
///
/// ```
/// use antiphon::Config;
/// use antiphon_shell::ClientConfig;
/// let mut options = ClientConfig::from(Config::ethereum());
/// options.headers.push(("x-api-key".into(), "…".into()));
/// assert!(!format!("{options:?}").contains("…"));
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The protocol, and the limits of each connection. Over HTTP the protocol's `max_message_bytes` is
    /// also the size of the largest reply that is read, or of the largest event of one, and its
    /// `write_timeout` the longest time in which
    /// the server may take nothing of a request; of the limits only `call_timeout` and `retry` are used.
    pub connection: ConnectionConfig,
    /// How long one attempt to connect may take, with the handshakes of TLS and WebSocket. Default 10 s.
    pub connect_timeout: Duration,
    /// Headers of each HTTP request, and of each WebSocket handshake. They replace the client's own
    /// headers of the same name, in any case. Default none.
    pub headers: Vec<(String, String)>,
    /// TLS, for `https://` and `wss://`: roots, cryptography, the client's certificate. Default none, so
    /// that such a URL is refused.
    pub tls: Option<Arc<dyn ClientTls>>,
    /// The rules of a WebSocket: subprotocols, keep-alive, limits.
    pub websocket: WebSocketRules,
    /// Where an HTTP request or a WebSocket handshake gets its token.
    pub auth: Option<BearerAuth>,
    /// The most connections for HTTP at the same time, at least one. Each carries one call at a time, and
    /// is made only when no other is free. Further calls wait for one of them; a call whose time ends
    /// meanwhile ends as [`HttpError::Unsent`](crate::http::HttpError::Unsent). Besides the replies
    /// themselves a connection holds at most 64 KiB of a reply. Default 64: RFC 9112 clause 9.4 no longer
    /// names a number, and with the 2 of RFC 2616 slow calls made together wait for each other.
    pub max_http_connections: usize,
    /// How long an idle connection for HTTP stays open for the next request. It should be shorter than the
    /// server's own time, so that a request rarely meets a connection that the server is just closing. If
    /// the server names its time, as in `Keep-Alive: timeout=4`, a connection stays open for 1 s less than
    /// that at most. Default 4 s.
    pub idle_timeout: Duration,
    /// The longest head of an HTTP reply, in bytes. Default 16 KiB.
    pub max_header_bytes: usize,
    /// Is called with the status and the headers of every HTTP reply, before the call ends, on the task or
    /// thread that waits for it: for session ids, cookies and rate limits. It must not block. Default none.
    pub on_reply: Option<Arc<OnReply>>,
    /// The number of connections that `reconnect` makes, at least one. Each has its own ids, and calls are
    /// spread over the open ones. Default 1.
    pub connections: usize,
    /// What happens when a connection of `reconnect` is lost, or cannot be made. By default it is made
    /// again, without end: after 100 ms first, then after twice the time up to 10 s, of which up to half is
    /// subtracted at random, so that clients of a server that was away do not come back together.
    /// [`ReconnectStrategy::None`] makes no further attempt. Nor is one made, with any strategy, after a
    /// fault that lasts until somebody changes something, as long as the server has sent nothing over
    /// any connection: an error of the kind [`InvalidInput`](io::ErrorKind::InvalidInput), such as a
    /// name that does not exist or a command that cannot be found or run, or a handshake of TLS that fails
    /// because a certificate is not accepted.
    /// A program that waits for a name to exist returns an error of another kind from its own function.
    pub reconnect: ReconnectStrategy,
    /// How many new calls may wait, within their own timeout, while no connection of `reconnect` is open.
    /// Further calls fail at once as [`CallError::Unsent`](crate::CallError::Unsent). Default 0: no call
    /// waits. (A call that is being sent again may always wait.)
    pub max_waiting_calls: usize,
    /// Is called at every change of the state of a connection of `reconnect`, with the error that caused
    /// it; but with [`ConnectionState::Closing`] only when the client is closed. It runs on the thread or
    /// task that made the change, so it must not block. Default none.
    pub on_change: Option<Arc<OnChange>>,
    pub(crate) on_open: Option<Arc<OnOpen>>,
}

/// TLS on the streams of a client.
pub trait ClientTls: Send + Sync + 'static {
    /// Performs the handshake with the server that has this name, over a new stream, and returns the secured
    /// one, with what is known of the server. It may take `timeout`.
    fn secure(
        &self,
        io: Box<dyn Io>,
        context: Context,
        server: String,
        timeout: Duration,
        runtime: SharedRuntime,
    ) -> Securing;
}

/// A running handshake of TLS.
pub type Securing = Pin<Box<dyn Future<Output = io::Result<(Box<dyn Io>, Context)>> + Send>>;

/// Makes the first calls of a connection: see [`ClientConfig::with_on_open`].
pub(crate) type OnOpen = dyn Fn(Peer) -> OnOpening + Send + Sync;

/// The future of the first calls of a connection, with an error of any type.
type OnOpening = Pin<Box<dyn Future<Output = Result<(), Box<dyn Error + Send + Sync>>> + Send>>;

/// Is called with the head of each reply: see [`ClientConfig::on_reply`].
pub type OnReply = dyn Fn(&HttpReply) + Send + Sync;

/// Is called at changes: see [`ClientConfig::on_change`].
pub type OnChange = dyn Fn(&ConnectionChange) + Send + Sync;

/// A change of the state of one of a client's connections.
#[derive(Debug)]
#[non_exhaustive]
pub struct ConnectionChange {
    /// The index of the connection among the client's [`connections`](ClientConfig::connections),
    /// from 0. A connection that replaces a lost one has the same index. This is not the number in
    /// [`Context::connection`](crate::Context::connection), which counts all connections that were made.
    pub connection: usize,
    /// The connection's new state.
    pub state: ConnectionState,
    /// Why the connection, or the attempt at one, failed. Set with [`ConnectionState::Closed`],
    /// unless the client was closed, or this side drained the connection or closed it as
    /// [`CloseReason::Done`](antiphon::CloseReason::Done) or
    /// [`CloseReason::GoingAway`](antiphon::CloseReason::GoingAway). For a refused WebSocket handshake the
    /// text has the HTTP status.
    pub error: Option<io::Error>,
}

impl ClientConfig {
    /// Returns the default options with `connection`.
    pub fn new(connection: impl Into<ConnectionConfig>) -> Self {
        Self {
            connection: connection.into(),
            connect_timeout: Duration::from_secs(10),
            headers: Vec::new(),
            tls: None,
            websocket: WebSocketRules::new(),
            auth: None,
            max_http_connections: 64,
            idle_timeout: Duration::from_secs(4),
            max_header_bytes: 16 << 10,
            on_reply: None,
            connections: 1,
            reconnect: ReconnectStrategy::ExponentialBackoff {
                initial_delay: Duration::from_millis(100),
                max_delay: Duration::from_secs(10),
                max_attempts: u32::MAX,
                multiplier: 2.0,
                jitter: 0.5,
            },
            max_waiting_calls: 0,
            on_change: None,
            on_open: None,
        }
    }

    /// Adds a header to each HTTP request and WebSocket handshake.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Gets a token from `auth` for each call over HTTP, after the other interceptors, and for each WebSocket
    /// handshake, also after a reconnect. If the source fails, the call or the attempt to connect fails. A
    /// target that has neither is refused: there make a [first call](Self::with_on_open).
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon::service::BearerAuth;
    /// use antiphon_shell::ClientConfig;
    /// let token = BearerAuth::new(|| Ok(std::env::var("API_TOKEN").ok()));
    /// let options = ClientConfig::new(Config::new()).with_auth(token);
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn with_auth(mut self, auth: BearerAuth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// Sets what TLS trusts and uses: for `https://` and `wss://`.
    #[must_use]
    pub fn with_tls(mut self, tls: impl ClientTls) -> Self {
        self.tls = Some(Arc::new(tls));
        self
    }

    /// Sets which calls are sent again, and after how long. Over one connection: calls whose error has one
    /// of its [`codes`](Retry::codes). Over HTTP, too: calls of which no byte was sent; calls whose reply has
    /// status 429, or one of its [`statuses`](Retry::statuses); and [idempotent](crate::Call::idempotent) calls
    /// that were lost, or whose reply has status 503. They wait for as long as a `Retry-After` says. But not
    /// after a fault that lasts, such as
    /// a name that does not exist. So does `reconnect`, by default with [`Retry::new`]. Notifications and
    /// batches are not sent again.
    #[must_use]
    pub fn with_retry(mut self, retry: Retry) -> Self {
        self.connection.retry = Some(retry);
        self
    }

    /// Adds an interceptor, after those that were added before. It sees every call, notification
    /// and entry of a batch that the client sends, and its outcome, once, however often the call is sent.
    /// If it adds [`Authorization`](antiphon::service::Authorization) or [`Headers`](crate::Headers) to the
    /// attributes of a call, these are sent as headers with the call's HTTP request; they replace headers
    /// of the client of the same names.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<OutgoingCall>) -> Self {
        self.connection = self.connection.intercept(interceptor);
        self
    }

    /// Calls `take` with the status and the headers of every HTTP reply, before the call ends, on the task
    /// or thread that waits for it: for session ids, cookies and rate limits. It must not block.
    #[must_use]
    pub fn with_on_reply(mut self, take: impl Fn(&HttpReply) + Send + Sync + 'static) -> Self {
        self.on_reply = Some(Arc::new(take));
        self
    }

    /// Sets a function that makes the first calls of each connection of `reconnect`, such as one that logs
    /// in. `connect`, and any client over HTTP, refuses it. Until it has finished, other calls do not use the connection. If no other connection is open,
    /// they wait, or fail as [`CallError::Unsent`](crate::CallError::Unsent): see
    /// [`max_waiting_calls`](Self::max_waiting_calls). The function may take another
    /// [`connect_timeout`](Self::connect_timeout). If it fails, the attempt fails: the connection is closed,
    /// and [`reconnect`](Self::reconnect) decides whether another attempt is made. Its error may have any
    /// type, such as the [`CallError`](crate::CallError) of a peer or of a typed client; the client's
    /// [`last_error`](crate::Client::last_error) has its text.
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon_shell::{ClientConfig, Peer};
    /// # fn token() -> String { String::new() }
    /// let options = ClientConfig::new(Config::new()).with_on_open(|peer: Peer| {
    ///     async move { peer.call::<()>("login", &[token()]).await }
    /// });
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn with_on_open<F, E>(mut self, on_open: impl Fn(Peer) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.on_open = Some(Arc::new(move |peer| {
            let opening = on_open(peer);
            Box::pin(async { opening.await.map_err(Into::into) })
        }));
        self
    }
}

impl<C: Into<ConnectionConfig>> From<C> for ClientConfig {
    fn from(connection: C) -> Self {
        Self::new(connection)
    }
}

/// Prints only the names of the headers, because their values may be secrets.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("ClientConfig")
            .field("connection", &self.connection)
            .field("connect_timeout", &self.connect_timeout)
            .field("headers", &headers)
            .field("connections", &self.connections)
            .field("reconnect", &self.reconnect)
            .field("max_waiting_calls", &self.max_waiting_calls)
            .finish_non_exhaustive()
    }
}
