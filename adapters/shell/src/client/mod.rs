//! Clients: one type, whatever the way to the server is.
//!
//! ```text
//!   Target ────────▶ connect ─────▶ a connection, or HTTP ─┐
//!            └──────▶ reconnect ───▶ connections, replaced ─┴▶ Client ─▶ Call
//! ```

pub(crate) mod config;
pub(crate) mod connect_error;
pub(crate) mod http_caller;
mod listening;
mod over_http;
pub(crate) mod reconnecting;
pub(crate) mod roster;
mod typed;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use antiphon::{Config, ConnectionState, Method, Payload, RpcError, SendError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::batch::BatchBuilder;
use crate::call::call_error::{CallError, NoConnection};
use crate::call::transmit::Transmit;
use crate::call::{BatchCall, Call};
use crate::http::send::HttpSend;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, until};
use crate::text::Text;
use crate::wait::Wait;
use config::ClientConfig;
use connect_error::ConnectError;
use over_http::OverHttp;
use reconnecting::{Made, Making, Reconnecting, too_long};

/// A client of one server, over a connection, over connections that are replaced when they are lost, or over
/// HTTP: made by `connect` or `reconnect`. Clones are the same client, and can be used in any task or thread.
///
/// Dropping the last clone [closes](Self::close) it, and kills the child process if it has one.
///
/// Over HTTP every call is a request of its own, so the server cannot send messages of its own; a batch is one
/// request. A call that is not answered in the reply is never answered: [`CallError::Missing`].
#[derive(Clone)]
pub struct Client(Arc<Way>);

/// The way to the server.
enum Way {
    Connection {
        peer: Peer,
        /// What is dropped with the client, such as the child process at the other end.
        _held: Option<Box<dyn Any + Send + Sync>>,
    },
    Reconnecting(Reconnecting),
    Http(Box<OverHttp>),
}

impl Client {
    /// Makes a client of one connection, and returns once messages can be exchanged, within the
    /// `connect_timeout`. `make` makes the connection: what an adapter's `connect` does.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connecting(
        make: impl FnOnce() -> Making,
        options: &ClientConfig,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let deadline = runtime.now() + options.connect_timeout;
        let opening = async {
            refuse_first_calls(options)?;
            let Made {
                peer,
                running,
                held: _held,
            } = make().await?;
            // The driver's result is dropped: the service and the peer's `closed` and `transport_error` tell
            // how the connection ended.
            runtime.spawn(Box::pin(async { drop(running.await) }));
            peer.opened().await?;
            Ok(Self(Arc::new(Way::Connection { peer, _held })))
        };
        let opened = until(&**runtime, deadline, opening).await;
        opened.unwrap_or_else(|| Err(too_long().into()))
    }

    /// Makes a client whose connections `make` makes, and makes again when they are lost. Returns once the
    /// first connection is open, or after the `connect_timeout` without one.
    ///
    /// # Errors
    /// See [`ConnectError`]. An attempt that failed is none, if there will be another one.
    pub async fn reconnecting(
        make: impl Fn() -> Making + Send + Sync + 'static,
        options: ClientConfig,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        let deadline = runtime.now() + options.connect_timeout;
        let reconnecting =
            Reconnecting::start(make, options, runtime).map_err(ConnectError::Strategy)?;
        match reconnecting.wait_open(deadline).await {
            Err(CallError::NoConnection(error)) if error.is_final() => {
                let last = error.last_error();
                Err(last
                    .unwrap_or_else(|| io::ErrorKind::NotConnected.into())
                    .into())
            }
            _ => Ok(Self(Arc::new(Way::Reconnecting(reconnecting)))),
        }
    }

    /// Makes a client that sends its HTTP requests with `send`, on `runtime`: what an adapter's
    /// `http::with_send` does.
    ///
    /// # Errors
    /// [`ConnectError::Http`] for a URL that is not valid; [`ConnectError::Target`] for options with first calls.
    pub fn with_send_on(
        url: &str,
        options: &ClientConfig,
        send: impl HttpSend,
        runtime: &SharedRuntime,
    ) -> Result<Self, ConnectError> {
        refuse_first_calls(options)?;
        let url = url.parse().map_err(ConnectError::Http)?;
        let http = OverHttp::new(url, options, send, SharedRuntime::clone(runtime));
        Ok(Self(Arc::new(Way::Http(Box::new(http)))))
    }

    /// Calls a method: await the result, or [`wait`](Call::wait) for it on a thread. All of it takes at
    /// most the call's [`timeout`](Call::timeout); without one, the options'
    /// [`call_timeout`](crate::ConnectionConfig::call_timeout). Dropping it cancels the call.
    ///
    /// A client that reconnects uses an open connection, or waits for one. If no byte of the call was sent
    /// before its connection ended, or if it is [idempotent](Call::idempotent), it is sent again over the next
    /// one, as [`retry`](ClientConfig::with_retry) says. So is any call that the server answered with one of the
    /// error [`codes`](antiphon::Retry::codes) listed there.
    ///
    /// Over HTTP a call of which a byte was sent is [lost](crate::CallError) when its connection ends, and is
    /// sent again under the same conditions, if there is a `retry`. It is also sent again after a redirect
    /// (307 or 308, to the same origin), a few times at most. Dropping it closes its connection: the server
    /// may still run the call.
    ///
    /// `params` is any payload: a reference to a value, JSON text, or `()` for no params.
    pub fn call<'c, R: DeserializeOwned>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Call<'c, R, Self> {
        Call::new(self, self.way(), method, params, CallError::read)
    }

    /// Calls a method that is described by a type, as [`Peer::send`].
    pub fn send<M>(&self, params: &M::Params) -> Call<'_, M::Result, Self, M::Error>
    where
        M: Method<Params: Serialize, Result: DeserializeOwned, Error: RpcError>,
    {
        Call::new(self, self.way(), M::NAME, params, CallError::read)
    }

    /// Sends a notification. Over an open connection: at once if its output has space, even if nobody awaits
    /// it; otherwise it waits for space, for the [`call_timeout`](crate::ConnectionConfig::call_timeout) at most,
    /// and if it is dropped before, nothing is sent. Over HTTP: nothing is sent before it is awaited, and it
    /// waits for the server to accept it.
    ///
    /// # Errors
    /// [`SendError::Closed`] if no connection is open; otherwise why it was not sent, or not accepted.
    pub fn notify<'c>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Wait<'c, Result<(), CallError>> {
        self.way().notify(Cow::Borrowed(method), Text::of(params))
    }

    /// Sends several calls and notifications as one message, once. `build` returns the handles by which the
    /// outcomes are fetched: see [`Peer::batch`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> BatchCall<'_, H, Self> {
        BatchCall::new(self, self.way(), build)
    }

    /// An open connection, for what only a connection has: its context, a call that is started and not
    /// awaited. It does not keep the connection open: the client does. `None` over HTTP, and if a client that
    /// reconnects has none open.
    pub fn peer(&self) -> Option<Peer> {
        match &*self.0 {
            Way::Connection { peer, .. } => Some(peer.to_unowned()),
            Way::Reconnecting(reconnecting) => reconnecting.roster().pick(),
            Way::Http(_) => None,
        }
    }

    /// Waits until messages can be exchanged, `timeout` at most; no time over HTTP, where connections are made
    /// for calls.
    ///
    /// # Errors
    /// [`CallError::NoConnection`], with the last error, if there will be no connection, as after
    /// [`close`](Self::close), or none in time; [`CallError::Closed`] if the client does not reconnect and
    /// has been closed.
    pub fn wait_open(&self, timeout: Duration) -> Wait<'_, Result<(), CallError>> {
        match &*self.0 {
            Way::Reconnecting(reconnecting) => {
                let deadline = reconnecting.runtime().now() + timeout;
                Wait::on(async move { reconnecting.wait_open(deadline).await.map(drop) })
            }
            _ if self.is_closed() => Wait::known(Err(CallError::Closed)),
            Way::Connection { peer, .. } => {
                let deadline = peer.deadline(Some(timeout));
                Wait::on(async move {
                    let opened = until(peer.session().runtime(), deadline, peer.opened()).await;
                    let (is_final, last_error) = match opened {
                        Some(Ok(())) => return Ok(()),
                        Some(Err(error)) => (true, Some(error.into())),
                        None => (false, None),
                    };
                    Err(CallError::NoConnection(NoConnection {
                        is_final,
                        last_error,
                    }))
                })
            }
            Way::Http(_) => Wait::known(Ok(())),
        }
    }

    /// The state of each connection; none over HTTP.
    pub fn states(&self) -> Vec<ConnectionState> {
        match &*self.0 {
            Way::Connection { peer, .. } => vec![state_of(peer)],
            Way::Reconnecting(reconnecting) => reconnecting.roster().states(),
            Way::Http(_) => Vec::new(),
        }
    }

    /// Why the last connection, or the last attempt at one, failed; none over HTTP, where calls say it. For a
    /// refused WebSocket handshake the text has the HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        match &*self.0 {
            Way::Connection { peer, .. } => peer.transport_error(),
            Way::Reconnecting(reconnecting) => reconnecting.roster().last_error(),
            Way::Http(_) => None,
        }
    }

    /// Closes the client: its connections are drained, no more are made, and later calls fail. Over HTTP the
    /// calls that run are finished first. A child process sees the end of its input.
    pub fn close(&self) {
        match &*self.0 {
            Way::Connection { peer, .. } => peer.drain(),
            Way::Reconnecting(reconnecting) => reconnecting.roster().close(),
            Way::Http(http) => http.close(),
        }
    }

    /// Whether the client has been closed, or its only connection has ended.
    pub fn is_closed(&self) -> bool {
        match &*self.0 {
            Way::Connection { peer, .. } => peer.is_closing(),
            Way::Reconnecting(reconnecting) => reconnecting.roster().is_closed(),
            Way::Http(http) => http.is_closed(),
        }
    }

    /// The protocol's configuration.
    pub(crate) fn config(&self) -> &Config {
        match &*self.0 {
            Way::Connection { peer, .. } => &peer.session().options().config,
            Way::Reconnecting(reconnecting) => &reconnecting.options().connection.config,
            Way::Http(http) => http.config(),
        }
    }

    /// How its calls are sent.
    pub(crate) fn way(&self) -> &dyn Transmit {
        match &*self.0 {
            Way::Connection { peer, .. } => peer,
            Way::Reconnecting(reconnecting) => reconnecting,
            Way::Http(http) => &**http,
        }
    }
}

/// Refuses options with first calls, where none are made.
fn refuse_first_calls(options: &ClientConfig) -> Result<(), ConnectError> {
    match options.on_open {
        None => Ok(()),
        Some(_) => Err(ConnectError::Target(
            "`with_on_open` is for connections of `reconnect`: nothing here makes first calls"
                .into(),
        )),
    }
}

fn state_of(peer: &Peer) -> ConnectionState {
    let state = peer.session().lock();
    match state.closed() {
        Some(_) => ConnectionState::Closed,
        None if state.is_closing() => ConnectionState::Closing,
        None if state.is_open() => ConnectionState::Open,
        None => ConnectionState::Connecting,
    }
}

/// The client keeps the connection open, as the peer does.
impl From<Peer> for Client {
    fn from(peer: Peer) -> Self {
        Self(Arc::new(Way::Connection { peer, _held: None }))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("states", &self.states())
            .finish_non_exhaustive()
    }
}
