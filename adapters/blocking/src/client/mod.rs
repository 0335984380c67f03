//! A client that keeps connections to one server: [`antiphon_net::Client`], with threads.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use antiphon::{ConnectionState, OwnedJson, Payload, SendError};
use antiphon_net::{
    CallError, ConnectionConfig, Driven, Making, ReconnectConfig, Roster, Threads, block_on,
};
use serde::de::DeserializeOwned;

use crate::driver::drive;
use crate::peer::Peer;
use crate::service::Service;
use crate::transport::link::Link;

/// A client that keeps one or more connections. Clones are the same client; the last one that is
/// dropped closes it, as [`close`](Self::close) does.
#[derive(Clone, Debug)]
pub struct Client(antiphon_net::Client);

impl Client {
    /// Begins to connect, in the background, each connection on a thread of its own. `connect`
    /// makes one, within the options' `connect_timeout`, which it has to keep itself; `make`
    /// gives what serves on it.
    ///
    /// # Errors
    /// The strategy of `client` makes no sense.
    pub fn start<S: Service>(
        connect: impl Fn() -> io::Result<Link> + Send + Sync + 'static,
        client: ReconnectConfig,
        options: impl Into<ConnectionConfig>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (options, parts) = (options.into(), Arc::new((connect, make)));
        let make = move |roster: Arc<Roster>| -> Making {
            let (parts, options) = (Arc::clone(&parts), options.clone());
            Box::pin(async move {
                let (connect, make) = &*parts;
                let mut link = connect()?;
                link.context.connection = roster.next_number();
                let (peer, driver) = drive(link, options, make());
                let driver: Driven = Box::pin(driver);
                Ok((peer.0, driver))
            })
        };
        let client = antiphon_net::Client::keep(make, client, &Threads::shared());
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        client.map(Self).map_err(wrong)
    }

    /// The state of each connection.
    pub fn states(&self) -> Vec<ConnectionState> {
        self.0.states()
    }

    /// Why a connection, or an attempt at one, failed last. For a refused WebSocket handshake the
    /// text names the HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        self.0.last_error()
    }

    /// One of the connections that are open, for batches and whatever else is done on one.
    pub fn peer(&self) -> Option<Peer> {
        self.0.peer().map(Peer)
    }

    /// Waits for an open connection, `timeout` at most.
    ///
    /// # Errors
    /// [`CallError::NoConnection`], with the last error, if there will be none, or none in time;
    /// [`CallError::Unsent`] once the client is closed.
    pub fn wait_open(&self, timeout: Duration) -> Result<Peer, CallError> {
        block_on(self.0.wait_open(timeout)).map(Peer)
    }

    /// Calls a method and waits for its result, at most 30 s. It is sent again on another
    /// connection only if no byte of it had left.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload + Copy,
    ) -> Result<R, CallError> {
        block_on(self.0.call(method, params))
    }

    /// Calls a method that the server may run twice without harm, and waits for its result, at most
    /// 30 s. The call is sent again when its connection is lost, at most
    /// [`max_resends`](ReconnectConfig::max_resends) times.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn call_idempotent<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload + Copy,
    ) -> Result<R, CallError> {
        block_on(self.0.call_idempotent(method, params))
    }

    /// Calls a method and gives its result as the peer wrote it, without decoding it. `timeout` is
    /// for all attempts together.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn call_raw(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Duration,
        is_idempotent: bool,
    ) -> Result<OwnedJson, CallError> {
        block_on(self.0.call_raw(method, params, timeout, is_idempotent))
    }

    /// Tells the server something, on an open connection.
    ///
    /// # Errors
    /// [`SendError::Closed`] if none is open; otherwise what is wrong with it.
    pub fn notify(&self, method: &str, params: impl Payload + Copy) -> Result<(), SendError> {
        block_on(self.0.notify(method, params))
    }

    /// Ends the client in good order: no attempt is made any more, and the connections drain.
    pub fn close(&self) {
        self.0.close();
    }
}
