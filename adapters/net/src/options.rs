//! What a driver can be told beyond the protocol's [`Config`].

use std::io;
#[cfg(feature = "websocket")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "websocket")]
use antiphon::Instant;
use antiphon::service::{Chain, Interceptor};
use antiphon::session::WhenFull;
use antiphon::{Config, Retry};

use crate::call_request::DEFAULT_CALL_TIMEOUT;
use crate::dispatcher::Dispatcher;
use crate::outgoing::OutgoingCall;
use crate::pool::Pool;
use crate::runtime::Runtime;
#[cfg(feature = "websocket")]
use crate::runtime::until;
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketConfig;

/// The protocol's [`Config`] and the limits of the threads around it. Made from a `Config` alone
/// where the defaults will do.
///
/// ```
/// use antiphon::Config;
/// use antiphon_net::ConnectionConfig;
/// let mut options = ConnectionConfig::from(Config::lsp());
/// options.max_queued_messages = 10_000;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// The protocol. Its `drain_timeout` is also how long requests may run on after the input has
    /// ended, and its `write_timeout` how long one write may take.
    pub config: Config,
    /// The most notifications and reports that wait for the service before
    /// [`when_full`](Self::when_full) says what is done. Default 16 384.
    pub max_queued_messages: usize,
    /// The most bytes of messages that wait for the service, and of requests that wait for their
    /// answer, before [`when_full`](Self::when_full) says what is done. One message always fits.
    /// Default 64 MiB.
    pub max_queued_bytes: usize,
    /// What is done when more waits for the service than that. Default [`WhenFull::Pause`].
    ///
    /// While reading is paused, nothing of the other side is seen: no cancel, no end of the stream,
    /// no reset. No deadline of what is to come in runs meanwhile: no ping is sent, and neither a
    /// frame that has begun nor a pong is late.
    pub when_full: WhenFull,
    /// Where [`Responder::spawn`](crate::Responder::spawn) runs its work. Share one among the
    /// connections of a server to bound them all together. Default a pool of its own for each
    /// `ConnectionConfig` made, with 64 threads and 1024 waiting.
    pub pool: Pool,
    /// How many requests of all connections of a server run at once and wait. Clones of a
    /// `ConnectionConfig` share it, as the connections of a server do; connections that we open count
    /// for none. Default one of its own for each `ConnectionConfig` made, in which 64 requests run and
    /// 1024 wait.
    pub dispatcher: Dispatcher,
    /// The most requests of one connection that are served at once by an async service; further ones
    /// wait, and so does what is behind them, but for cancels and the answers to our own calls.
    /// Default 64. (The blocking adapter serves one after another, and bounds what is moved
    /// to the pool by the pool.)
    pub max_running_requests: usize,
    /// How long the peer's end of stream is awaited after ours, and its last words after a write
    /// has failed, before the transport is cut; for so long, too, what comes in after the
    /// connection's end is read and thrown away. Nothing is awaited on standard streams, nor of a
    /// peer that does not read. Default 1 s.
    pub linger: Duration,
    /// Whether a connection that a listener of ours has accepted is ended when it begins like an
    /// HTTP request, before anything of it runs: see
    /// [`Report::HttpRequest`](crate::Report::HttpRequest). A page in a browser can have such a
    /// request sent to any port, with a body that would run. It means nothing over HTTP and
    /// WebSocket. Default on.
    pub refuse_http: bool,
    /// How long a call waits for its answer and a notification for room, from its beginning on, unless
    /// it [says](crate::Call::timeout) otherwise. `None` waits for ever. Default 30 s.
    pub call_timeout: Option<Duration>,
    /// Which calls of this side are sent again on the same connection: those that are awaited and answered
    /// with one of its [`codes`](Retry::codes), which say that nothing was done. A delay is within the time
    /// of the call. A connection that ends ends them all; neither batches are sent again, nor what is
    /// [started](crate::Call::start). A [`ReconnectingClient`](crate::ReconnectingClient) has a
    /// [policy of its own](crate::ReconnectConfig::retry), and goes by that alone. Default none.
    pub retry: Option<Retry>,
    /// What sees the calls that this side makes: see [`intercept`](Self::intercept).
    pub(crate) interceptors: Option<Chain<OutgoingCall>>,
    /// The WebSocket below the messages: see [`with_websocket`](Self::with_websocket).
    #[cfg(feature = "websocket")]
    pub(crate) websocket: Option<Arc<WebSocketConfig>>,
}

impl ConnectionConfig {
    /// Takes the defaults around `config`.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            max_queued_messages: 16_384,
            max_queued_bytes: 64 << 20,
            when_full: WhenFull::Pause,
            pool: Pool::default(),
            dispatcher: Dispatcher::default(),
            max_running_requests: 64,
            linger: Duration::from_secs(1),
            refuse_http: true,
            call_timeout: Some(DEFAULT_CALL_TIMEOUT),
            retry: None,
            interceptors: None,
            #[cfg(feature = "websocket")]
            websocket: None,
        }
    }

    /// Has `interceptor` see every call, notification and entry of a batch that this side sends, behind
    /// those that do already, and what came of it. What the peer calls is seen by the interceptors of
    /// a [`Router`](crate::Router).
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon_net::{ConnectionConfig, Metrics};
    /// let metrics = Metrics::new();
    /// let options = ConnectionConfig::new(Config::new()).intercept(metrics.clone());
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<OutgoingCall>) -> Self {
        self.interceptors.get_or_insert_default().push(interceptor);
        self
    }

    /// Speaks over WebSocket, with the configuration's
    /// [`for_websocket`](Config::for_websocket). The transport then moves the bytes of a WebSocket,
    /// handshake and all.
    #[cfg(feature = "websocket")]
    #[must_use]
    pub fn with_websocket(mut self, websocket: WebSocketConfig) -> Self {
        self.config = self.config.for_websocket();
        self.websocket = Some(Arc::new(websocket));
        self
    }

    /// Asks for the token of the next handshake of a WebSocket, and awaits it, as long as the handshake may
    /// take. For adapters, before they make a connection.
    ///
    /// # Errors
    /// Why there is none; [`TimedOut`](io::ErrorKind::TimedOut).
    pub async fn with_token(self, runtime: &dyn Runtime) -> io::Result<Self> {
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &self.websocket {
            let timeout = websocket.rules.keep_alive.connect_timeout;
            let at = timeout.map_or(Instant::FAR_FUTURE, |span| runtime.now() + span);
            let asked = WebSocketConfig::clone(websocket).with_token();
            let websocket = match until(runtime, at, asked).await {
                Some(websocket) => Arc::new(websocket?),
                None => {
                    let text = "the token for the handshake took too long";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            };
            return Ok(Self {
                websocket: Some(websocket),
                ..self
            });
        }
        let _ = runtime;
        Ok(self)
    }
}

impl From<Config> for ConnectionConfig {
    fn from(config: Config) -> Self {
        Self::new(config)
    }
}
