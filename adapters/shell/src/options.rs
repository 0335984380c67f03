//! Options of a connection, besides the protocol's [`Config`].

use std::io;
#[cfg(feature = "websocket")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "websocket")]
use antiphon::Instant;
use antiphon::flow::FlowConfig;
use antiphon::service::{BearerAuth, Chain, Interceptor};
use antiphon::session::{Order, WhenFull};
use antiphon::{Config, Retry};

use crate::outgoing::OutgoingCall;
use crate::runtime::Runtime;
#[cfg(feature = "websocket")]
use crate::runtime::until;
use crate::work::dispatcher::Dispatcher;
use crate::work::pool::Pool;
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocketConfig;

/// The default time that a call waits for its answer, and a notification for space in the output.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The protocol's [`Config`], and the limits of the adapter around it. It can be made from a
/// `Config`, with defaults for the rest. [`ClientConfig`](crate::ClientConfig), and
/// `ChildConfig` and `HttpConfig` of `antiphon-net`, are made from it in turn, so each option is set where it
/// is, on one level:
///
/// ```
/// use antiphon::Config;
/// use antiphon_shell::{ClientConfig, ConnectionConfig};
/// let mut connection = ConnectionConfig::from(Config::lsp().max_batch_items(10));
/// connection.max_queued_messages = 10_000;
/// let options = ClientConfig::from(connection).with_header("x-api-key", "…");
/// # drop(options);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// The protocol. Its `drain_timeout` is also the time for running requests after the input has
    /// ended, and its `write_timeout` the time for one write.
    pub config: Config,
    /// The most notifications, beginnings of batches and reports that wait for the service.
    /// [`when_full`](Self::when_full) sets what happens at the limit. Default 16 384.
    pub max_queued_messages: usize,
    /// The most bytes of messages that wait for the service, and of requests that are not answered
    /// yet. One message is always accepted. [`when_full`](Self::when_full) sets what happens at the
    /// limit. Default 64 MiB.
    pub max_queued_bytes: usize,
    /// What happens at these limits. Default [`WhenFull::Pause`].
    ///
    /// While reading is paused, a cancel, the end of the stream or a reset is not noticed. The
    /// deadlines for input do not run meanwhile: no ping is sent, and neither a frame that has
    /// begun nor a pong is late.
    pub when_full: WhenFull,
    /// Which of the peer's requests and notifications wait until others have ended. Default
    /// [`Order::Notifications`]. With [`Order::Free`] at most
    /// [`max_running_requests`](Self::max_running_requests) notifications of a connection are served at the
    /// same time, besides as many requests.
    ///
    /// On threads a handler returns before the next one is called, whatever the order. There only
    /// [`Order::Serial`] makes a difference: with it, a request that is answered later, after its handler
    /// has returned, is answered before the next handler is called.
    pub order: Order,
    /// Where [`Responder::spawn`](crate::Responder::spawn) runs its work. Clones of a
    /// `ConnectionConfig` share it, and so do the connections of a server. Default: each new
    /// `ConnectionConfig` has its own, in which 64 jobs run and 1024 wait, and jobs that wait for their
    /// own peer count no place: see [`Pool`].
    pub pool: Pool,
    /// Limits how many requests of a server run at the same time, over all its connections, and how many
    /// wait. Clones of a `ConnectionConfig` share it, and so do the connections of a server;
    /// connections that we open are not counted. Default: each new `ConnectionConfig` has its own,
    /// in which 1024 requests run and 1024 wait.
    pub dispatcher: Dispatcher,
    /// The most requests of one connection that an async service handles at the same time. Further ones
    /// wait, and so do the messages after them, except cancels and the answers to our own calls.
    /// A handler that waits for its own peer, for the answer to a call or for space in the output, does not
    /// count meanwhile. Default 256. (The blocking adapter handles one request after another; work on the pool is
    /// limited by the pool.)
    pub max_running_requests: usize,
    /// The most subscriptions that the peer may have on the connection. Further ones are answered −32002. Default 256.
    pub max_subscriptions: usize,
    /// The names and limits of flows, which either side pulls from the other item by item: see
    /// [`flow`](antiphon::flow). Default `None`: flows are off, and their two methods are methods like any
    /// others. While they are on, requests to these two methods never reach the service. HTTP and JSON-RPC 1.0
    /// carry no flows. With [`Order::Serial`] a pull that waits for its item holds up the requests after it.
    pub flows: Option<FlowConfig>,
    /// Whether each handler of a request runs as a [task of its own](Runtime::spawn), so that handlers of one
    /// connection compute on several threads at the same time. Default off: they run on the connection's
    /// task, and while one computes, the connection and its other handlers wait.
    ///
    /// Set it if handlers compute for a millisecond or more without an `await`, and the runtime has several
    /// threads. It is of no use if they mostly wait. It costs each request a task that is made, woken,
    /// and wakes the connection's task, and three more turns of the connection's lock, so it slows calls whose
    /// handlers have little to do. More requests wait for a place at the same time, and those beyond the limits
    /// of the [`dispatcher`](Self::dispatcher) are answered *busy*. Work that blocks its thread belongs in
    /// [`Request::on_pool`](crate::Request::on_pool) all the same.
    ///
    /// [`order`](Self::order) is kept for notifications: the handler of one, which runs on the connection's
    /// task, begins when all before it have come to an `await` or their end. The handlers of requests are
    /// started in order, but run at the same time, so what they do, and their answers, may come in any order. A
    /// handler that computes when its request is cancelled, or its connection ends, is dropped when it
    /// next awaits; [`Service::closed`](crate::Service::closed) does not wait for that.
    ///
    /// Over HTTP each message has a session of its own, so it serves only the requests of a batch. It is of no
    /// use on threads, where services run on the [`pool`](Self::pool).
    pub spawn_handlers: bool,
    /// How long to wait for the peer's end of stream after ours, and how long to read after a write
    /// has failed, before the transport is cut. After we have closed the connection, its input is read
    /// and dropped for as long. There is no waiting on standard streams, and none for a peer that
    /// does not read. Default 1 s.
    pub linger: Duration,
    /// Whether requests and notifications that nobody serves are reported to the service: see
    /// [`Report::Unserved`](antiphon::session::Report::Unserved). Default on.
    pub report_unserved: bool,
    /// Whether a connection that our listener has accepted is closed when it begins like an HTTP
    /// request, before anything of it runs: see
    /// [`Report::HttpRequest`](antiphon::session::Report::HttpRequest). A web page can make a browser send such
    /// a request to any port, with a body that would run. It has no effect over HTTP and WebSocket.
    /// Default on.
    pub refuse_http: bool,
    /// How long a call waits for its answer, and a notification for space, unless the call's
    /// [`timeout`](crate::Call::timeout) is set. `None` waits for ever. Default 30 s.
    pub call_timeout: Option<Duration>,
    /// Which calls of this side are sent again on the same connection: those that are awaited, and that the
    /// peer answers with one of its [`codes`](Retry::codes), which say that it did nothing. The delays count
    /// against the call's timeout. When the connection ends, no call is sent again. Batches and
    /// [started](crate::Call::start) calls are never sent again. A client that reconnects, or calls over HTTP,
    /// reads more from it: see [`ClientConfig::with_retry`](crate::ClientConfig::with_retry). Default none.
    pub retry: Option<Retry>,
    /// What sees the calls that this side makes: see [`intercept`](Self::intercept).
    pub(crate) interceptors: Option<Chain<OutgoingCall>>,
    /// The WebSocket that carries the messages: see [`with_websocket`](Self::with_websocket).
    #[cfg(feature = "websocket")]
    pub(crate) websocket: Option<Arc<WebSocketConfig>>,
}

impl ConnectionConfig {
    /// Returns the default options with `config`.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            max_queued_messages: 16_384,
            max_queued_bytes: 64 << 20,
            when_full: WhenFull::Pause,
            order: Order::Notifications,
            pool: Pool::default(),
            dispatcher: Dispatcher::default(),
            max_running_requests: 256,
            max_subscriptions: 256,
            flows: None,
            spawn_handlers: false,
            linger: Duration::from_secs(1),
            report_unserved: true,
            refuse_http: true,
            call_timeout: Some(DEFAULT_CALL_TIMEOUT),
            retry: None,
            interceptors: None,
            #[cfg(feature = "websocket")]
            websocket: None,
        }
    }

    /// Adds an interceptor, after those that were added before. It sees every call, notification
    /// and entry of a batch that this side sends, and its outcome. Requests of the peer are seen by
    /// the interceptors of a [`Router`](crate::Router).
    ///
    /// ```
    /// use antiphon::Config;
    /// use antiphon::service::BearerAuth;
    /// use antiphon_shell::ConnectionConfig;
    /// let auth = BearerAuth::new(|| Ok(Some("s3cret".into())));
    /// let options = ConnectionConfig::new(Config::new()).intercept(auth);
    /// # drop(options);
    /// ```
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor<OutgoingCall>) -> Self {
        self.interceptors.get_or_insert_default().push(interceptor);
        self
    }

    /// Uses a WebSocket, with the configuration's [`for_websocket`](Config::for_websocket). The
    /// transport then carries the bytes of the WebSocket, including its handshake.
    #[cfg(feature = "websocket")]
    #[must_use]
    pub fn with_websocket(mut self, websocket: WebSocketConfig) -> Self {
        self.config = self.config.for_websocket();
        self.websocket = Some(Arc::new(websocket));
        self
    }

    /// Takes the WebSocket out, if there is one: for adapters that open it themselves.
    #[cfg(feature = "websocket")]
    pub fn take_websocket(&mut self) -> Option<Arc<WebSocketConfig>> {
        self.websocket.take()
    }

    /// Has the handshake of the WebSocket get its token from `auth`. Returns false if there is no WebSocket.
    pub fn authorize(&mut self, auth: &BearerAuth) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(websocket) = &mut self.websocket {
            let authorized = WebSocketConfig::clone(websocket).with_auth(auth.clone());
            *websocket = Arc::new(authorized);
            return true;
        }
        let _ = auth;
        false
    }

    /// Gets the token for the next WebSocket handshake, if the options have a WebSocket with a source of
    /// tokens. It may take as long as the handshake. For adapters, before they make a connection.
    ///
    /// # Errors
    /// Why the source gave no token; [`TimedOut`](io::ErrorKind::TimedOut) if it took too long.
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
