//! Calls over connections to one server that are replaced when they are lost.
//!
//! A call is sent again only if no byte of it was sent, if its caller said that running it twice
//! does no harm, or if the server answered with one of the error codes that the program lists in
//! [`Retry::codes`] as meaning that the call was not run. Every other call
//! that was open when its connection ended ends as [`CallError::Closed`].

use std::any::Any;
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use antiphon::{
    CloseReason, Closed, Collector, Instant, InvalidStrategy, OwnedError, OwnedOutcome, Retry,
    SendError,
};

use super::config::ClientConfig;
use super::roster::{Roster, lost_because};
use crate::call::batch::Entries;
use crate::call::call_error::CallError;
use crate::call::call_request::CallRequest;
use crate::call::intercepted::Interception;
use crate::call::pending::{PendingBatch, PendingCall};
use crate::call::transmit::{Sending, Transmit};
use crate::io::yield_now;
use crate::peer::Peer;
use crate::runtime::{SharedRuntime, until};
use crate::text::Text;
use crate::wait::Wait;

/// Sends calls to one server, over whichever of its connections is open.
pub(crate) struct Reconnecting {
    roster: Arc<Roster>,
    options: Arc<ClientConfig>,
    retry: Retry,
    runtime: SharedRuntime,
}

impl Drop for Reconnecting {
    fn drop(&mut self) {
        self.roster.close();
    }
}

impl Reconnecting {
    /// Begins to connect, in the background. `make` makes one connection and sets its options.
    pub(crate) fn start(
        make: impl Fn() -> Making + Send + Sync + 'static,
        options: ClientConfig,
        runtime: &SharedRuntime,
    ) -> Result<Self, InvalidStrategy> {
        let options = Arc::new(options);
        let (roster, make) = (Arc::new(Roster::new(&options)?), Arc::new(make));
        for number in 0..options.connections.max(1) {
            let member = Attempts {
                roster: Arc::clone(&roster),
                number,
                runtime: Arc::clone(runtime),
            };
            let make = Arc::clone(&make);
            runtime.spawn(Box::pin(async move { member.keep(&*make).await }));
        }
        Ok(Self {
            roster,
            retry: options.connection.retry.clone().unwrap_or_default(),
            options,
            runtime: Arc::clone(runtime),
        })
    }

    /// The client's options.
    pub(crate) fn options(&self) -> &ClientConfig {
        &self.options
    }

    /// The connections.
    pub(crate) fn roster(&self) -> &Roster {
        &self.roster
    }

    /// Waits for an open connection, until `deadline`.
    pub(crate) async fn wait_open(&self, deadline: Instant) -> Result<Peer, CallError> {
        // `true`: `max_waiting_calls` limits calls, and this is not one.
        self.acquire(true, deadline).await
    }

    fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.runtime.now() + span)
    }

    /// Returns an open connection, or waits for one until `deadline`. With `is_again` it may always
    /// wait, as for a call that was sent before; otherwise only while fewer callers wait than
    /// [`max_waiting_calls`](ClientConfig::max_waiting_calls).
    async fn acquire(&self, is_again: bool, deadline: Instant) -> Result<Peer, CallError> {
        if let Some(peer) = self.roster.pick() {
            return Ok(peer);
        }
        let waiting = self.roster.wait(is_again)?;
        let opened = until(&*self.runtime, deadline, poll_fn(|cx| waiting.poll(cx)));
        opened.await.unwrap_or_else(|| Err(waiting.timed_out()))
    }

    /// What is left of `timeout` at this moment.
    fn left(&self, timeout: Option<Duration>, deadline: Instant) -> Option<Duration> {
        timeout.map(|_| deadline.saturating_since(self.runtime.now()))
    }
}

impl Transmit for Reconnecting {
    fn runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    fn interception(&self) -> Option<Interception<'_>> {
        let interceptors = self.options.connection.interceptors.as_ref();
        Interception::of_client(interceptors, &self.runtime, None)
    }

    fn call_timeout(&self) -> Option<Duration> {
        self.options.connection.call_timeout
    }

    fn retry(&self) -> Option<&Retry> {
        Some(&self.retry)
    }

    fn reconnects(&self) -> bool {
        true
    }

    fn send<'c>(&'c self, mut call: CallRequest<'c>) -> Sending<'c, PendingCall, OwnedOutcome> {
        Sending::Other(Box::pin(async move {
            let deadline = self.deadline(call.timeout);
            let peer = self.acquire(call.is_again, deadline).await?;
            call.timeout = self.left(call.timeout, deadline);
            Ok(peer.start(Some(call)).await?.await)
        }))
    }

    fn send_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Sending<'_, PendingBatch, Collector> {
        Sending::Other(Box::pin(async move {
            let deadline = self.deadline(timeout);
            let peer = self.acquire(false, deadline).await?;
            let left = self.left(timeout, deadline);
            Ok(peer.start_batch(batch, left).await?.await)
        }))
    }

    fn notify<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), CallError>> {
        let sent = match self.roster.pick() {
            Some(peer) => peer.notify_owned(method, params),
            None => Wait::known(Err(SendError::Closed)),
        };
        sent.map(|sent| sent.map_err(CallError::Rejected))
    }
}

/// A connection that is being made.
pub type Making = Pin<Box<dyn Future<Output = io::Result<Made>> + Send>>;

/// A connection that was made, but does not run.
pub struct Made {
    /// The handle to its other side.
    pub peer: Peer,
    /// Runs the connection until it ends.
    pub running: Pin<Box<dyn Future<Output = io::Result<Closed>> + Send>>,
    /// What is dropped when the connection is not needed any more, such as the child process at the other end.
    pub held: Option<Box<dyn Any + Send + Sync>>,
}

/// The error of an attempt that did not end in time.
pub(crate) fn too_long() -> io::Error {
    let text = "the attempt to connect took too long";
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// One of the client's connections. After it was dropped, there are no more attempts to make it.
struct Attempts {
    roster: Arc<Roster>,
    /// The index of the connection in the roster, from 0. This is not the connection's number
    /// ([`Context::connection`](crate::Context::connection)): a connection that replaces a lost one has the same index and a new
    /// number.
    number: usize,
    runtime: SharedRuntime,
}

impl Drop for Attempts {
    fn drop(&mut self) {
        self.roster.given_up(self.number);
    }
}

impl Attempts {
    /// Makes the connection, and replaces it when it is lost, until there must be no more attempts.
    async fn keep(self, make: &(dyn Fn() -> Making + Send + Sync)) {
        let Self {
            roster,
            number,
            runtime,
        } = &self;
        while roster.connecting(*number) {
            let deadline = runtime.now() + roster.options().connect_timeout;
            let making = until(&**runtime, deadline, make());
            let Some(made) = roster.unless_closed(making).await else {
                return;
            };
            let error = match made {
                Some(Ok(made)) => self.run(made, deadline).await,
                Some(Err(error)) => Some(error),
                None => Some(too_long()),
            };
            // An error is only noted, because the next attempt may succeed.
            let Some(next) = roster.lost(*number, runtime.now(), error) else {
                return;
            };
            let pause = async {
                // Without a delay, attempts that fail at once would keep this thread from other tasks.
                yield_now().await;
                runtime.sleep_until(next).await;
            };
            roster.unless_closed(pause).await;
        }
    }

    /// Runs the connection, and reports when it is open, which must be before `deadline`. Returns the error
    /// with which it ended, if any.
    async fn run(&self, made: Made, deadline: Instant) -> Option<io::Error> {
        let Made {
            peer,
            mut running,
            held: _held,
        } = made;
        let (unowned, opening) = (peer.to_unowned(), self.open(peer, deadline));
        let opening = self.roster.unless_closed(opening);
        let (mut opening, mut failed) = (Some(Box::pin(opening)), None);
        let ended = poll_fn(|cx| {
            let opened = opening.as_mut().map(|opening| opening.as_mut().poll(cx));
            if let Some(Poll::Ready(opened)) = opened {
                opening = None;
                match opened {
                    Some(opened) => failed = opened.err(),
                    None => unowned.close(CloseReason::Done),
                }
            }
            running.as_mut().poll(cx)
        })
        .await;
        failed.or_else(|| lost_because(ended))
    }

    /// Waits until the connection is open, makes its first calls, and then lets other calls use it.
    /// An error is that of the first calls, or that the handshake took too long: an error of the connection
    /// is reported at its end.
    async fn open(&self, peer: Peer, deadline: Instant) -> io::Result<()> {
        match until(&*self.runtime, deadline, peer.opened()).await {
            Some(Ok(())) => {}
            Some(Err(_)) => return Ok(()),
            None => {
                peer.close(CloseReason::Done);
                return Err(too_long());
            }
        }
        let options = self.roster.options();
        if let Some(on_open) = &options.on_open {
            let deadline = self.runtime.now() + options.connect_timeout;
            let first = until(&*self.runtime, deadline, on_open(peer.to_unowned())).await;
            if let Err(error) =
                first.unwrap_or_else(|| Err(CallError::<OwnedError>::TimedOut.into()))
            {
                peer.close(CloseReason::Done);
                let text = format!("the first call failed: {error}");
                return Err(io::Error::other(text));
            }
        }
        self.roster.opened(self.number, peer, self.runtime.now());
        Ok(())
    }
}
