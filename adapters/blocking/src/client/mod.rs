//! A client that keeps connections to one server, and makes them anew when they are lost.
//!
//! The rule guarded here: a call is sent again only if no byte of it had left, or if its caller
//! said that doing it twice does no harm; every other one that was under way ends as
//! [`CallError::Closed`].

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use antiphon::{Instant, LinkState, OwnedJson, Payload, SendError};
use antiphon_net::{
    CALL_TIMEOUT_DEFAULT, CallError, ClientOptions, Clock, Handle, Options, Roster, SystemClock,
    is_sent_again, lost_because,
};
use serde::de::DeserializeOwned;

use crate::driver::{Driver, drive};
use crate::peer::Peer;
use crate::service::Service;
use crate::transport::link::Link;

/// How long a pause lasts before it is looked whether the client has been closed.
const PAUSE: Duration = Duration::from_millis(100);

/// A client that keeps one or more connections. Clones are the same client; the last one that is
/// dropped closes it, as [`close`](Self::close) does.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    roster: Arc<Roster>,
    clock: SystemClock,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.roster.close();
    }
}

impl Client {
    /// Begins to connect, in the background, each connection on a thread of its own. `connect`
    /// makes one, within the options' `connect_time_max`, which it has to keep itself; `make`
    /// gives what serves on it.
    ///
    /// # Errors
    /// The strategy of `client` makes no sense, or the system refused a thread.
    pub fn start<S: Service>(
        connect: impl Fn() -> io::Result<Link> + Send + Sync + 'static,
        client: ClientOptions,
        options: impl Into<Options>,
        make: impl Fn() -> S + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let connections = client.connections.max(1);
        let roster = Roster::new(client)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let (roster, clock) = (Arc::new(roster), SystemClock::new());
        let inner = Arc::new(Inner {
            roster: Arc::clone(&roster),
            clock,
        });
        let (connect, make, options) = (Arc::new(connect), Arc::new(make), options.into());
        for number in 0..connections {
            let options = options.clone();
            let (roster, connect) = (Arc::clone(&roster), Arc::clone(&connect));
            let make = Arc::clone(&make);
            thread::Builder::new()
                .name("antiphon-keep".into())
                .spawn(move || keep(number, &roster, &*connect, &options, &*make, clock))?;
        }
        Ok(Self { inner })
    }

    /// The state of each connection.
    pub fn states(&self) -> Vec<LinkState> {
        self.inner.roster.states()
    }

    /// Why a connection, or an attempt at one, failed last. For a refused WebSocket handshake the
    /// text names the HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        self.inner.roster.last_error()
    }

    /// One of the connections that are open, for batches and whatever else is done on one.
    pub fn peer(&self) -> Option<Peer> {
        self.inner.roster.pick().map(Peer::new)
    }

    /// Waits for an open connection, `timeout` at most.
    ///
    /// # Errors
    /// [`CallError::NoConnection`], with the last error, if there will be none, or none in time;
    /// [`CallError::Unsent`] once the client is closed.
    pub fn wait_open(&self, timeout: Duration) -> Result<Peer, CallError> {
        self.acquire(true, self.inner.clock.now() + timeout)
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
        let raw = self.call_raw(method, params, CALL_TIMEOUT_DEFAULT, false)?;
        raw.as_json().decode().map_err(CallError::Decode)
    }

    /// The same for a call that may be done twice without harm: it is sent again when a connection
    /// is lost under it, [`resends_max`](ClientOptions::resends_max) times.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn call_idempotent<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload + Copy,
    ) -> Result<R, CallError> {
        let raw = self.call_raw(method, params, CALL_TIMEOUT_DEFAULT, true)?;
        raw.as_json().decode().map_err(CallError::Decode)
    }

    /// The same with another timeout, for all attempts together, and with the result as the peer
    /// wrote it.
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
        let clock = self.inner.clock;
        let deadline = clock.now() + timeout;
        let mut is_again = false;
        let mut resends = self.inner.roster.resends();
        loop {
            let peer = self.acquire(is_again, deadline)?;
            let left = deadline.saturating_since(clock.now());
            let call = peer.begin_call(method, params, Some(left));
            let ended = call.map(crate::call::PendingCall::wait_outcome);
            is_again = is_sent_again(&mut resends, &ended, is_idempotent);
            if !is_again || clock.now() >= deadline {
                return CallError::of(ended?);
            }
        }
    }

    /// Tells the server something, on an open connection.
    ///
    /// # Errors
    /// [`SendError::Closed`] if none is open; otherwise what is wrong with it.
    pub fn notify(&self, method: &str, params: impl Payload + Copy) -> Result<(), SendError> {
        let peer = self.peer().ok_or(SendError::Closed)?;
        peer.notify(method, params)
    }

    /// Ends the client in good order: no attempt is made any more, and the connections drain.
    pub fn close(&self) {
        self.inner.roster.close();
    }

    fn acquire(&self, is_again: bool, deadline: Instant) -> Result<Peer, CallError> {
        if let Some(peer) = self.peer() {
            return Ok(peer);
        }
        let waiting = self.inner.roster.wait(is_again)?;
        let left = deadline.saturating_since(self.inner.clock.now());
        waiting.wait(left).map(Peer::new)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("roster", &self.inner.roster)
            .finish_non_exhaustive()
    }
}

/// Runs a connection, and tells when it is open. Gives the error that it ended with, if any.
fn run(driver: Driver, handle: Handle, opened: impl FnOnce(Handle) + Send) -> Option<io::Error> {
    if handle.session().lock().is_open() {
        opened(handle);
        return lost_because(driver.run());
    }
    thread::scope(|scope| {
        let wait = move || {
            // Why it did not open is told by its end.
            if handle.wait_open(Duration::MAX).is_ok() {
                opened(handle);
            }
        };
        let builder = thread::Builder::new().name("antiphon-open".into());
        // Without a thread the handle is dropped, which closes the connection.
        let waiting = builder.spawn_scoped(scope, wait);
        let ended = driver.run();
        // It must not open behind its end.
        drop(waiting.map(thread::ScopedJoinHandle::join));
        lost_because(ended)
    })
}

/// Keeps one connection, until there is to be none any more.
fn keep<S: Service>(
    number: usize,
    roster: &Roster,
    connect: &(impl Fn() -> io::Result<Link> + ?Sized),
    options: &Options,
    make: &(impl Fn() -> S + ?Sized),
    clock: SystemClock,
) {
    while roster.connecting(number) {
        let error = match connect() {
            Ok(mut link) => {
                let mut options = options.clone();
                link.context.connection = roster.next_number();
                options.config.connection = link.context.connection;
                let (peer, driver) = drive(link, options, make());
                run(driver, peer.into_handle(), |handle| {
                    roster.opened(number, handle, clock.now());
                })
            }
            Err(error) => Some(error),
        };
        // The next attempt may do better.
        let Some(next) = roster.lost(number, clock.now(), error) else {
            return;
        };
        while !roster.is_closed() {
            let left = next.saturating_since(clock.now());
            if left.is_zero() {
                break;
            }
            roster.wait_changed(left.min(PAUSE));
        }
    }
    roster.lost(number, clock.now(), None);
}
