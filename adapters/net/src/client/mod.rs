//! A client that has connections to one server, and replaces those that are lost.
//!
//! A call is sent again only if no byte of it was sent, if its caller said that running it twice
//! does no harm, or if the server answered with one of the error codes that the program lists in
//! [`Retry::codes`](antiphon::Retry::codes) as meaning that the call was not run. Every other call
//! that was open when its connection ended ends as [`CallError::Closed`].

pub(crate) mod roster;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use antiphon::RpcError;
use antiphon::service::Chain;
use antiphon::{
    CloseReason, Closed, Collector, ConnectionState, Instant, InvalidStrategy, Method, OwnedError,
    OwnedOutcome, Payload, SendError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::batch::{BatchBuilder, Entries};
use crate::call::{BatchCall, Begun, Call, HearCall, MakeCall};
use crate::call_error::CallError;
use crate::call_request::CallRequest;
use crate::driver::drive;
use crate::intercepted::Interception;
use crate::options::ConnectionConfig;
use crate::outgoing::OutgoingCall;
use crate::peer::Peer;
use crate::pending::{PendingBatch, PendingCall};
use crate::runtime::{Runtime, SharedRuntime, until};
use crate::service::Service;
use crate::session::State;
use crate::text::Text;
use crate::transport::link::Connecting;
use crate::wait::Wait;
use roster::{ReconnectConfig, Roster, judge_ended, lost_because};

/// Makes a connection. Any function that returns a [`Connecting`] is one.
pub trait Connect: Send + Sync + 'static {
    /// Begins an attempt.
    fn connect(&self) -> Connecting;
}

impl<F: Fn() -> Connecting + Send + Sync + 'static> Connect for F {
    fn connect(&self) -> Connecting {
        self()
    }
}

/// A client that has one or more connections. Clones are the same client; dropping the last clone
/// closes it, as [`close`](Self::close) does.
#[derive(Clone)]
pub struct ReconnectingClient {
    inner: Arc<Inner>,
}

struct Inner {
    roster: Arc<Roster>,
    /// The interceptors. They see each call once, however often it is sent.
    interceptors: Option<Chain<OutgoingCall>>,
    call_timeout: Option<Duration>,
    runtime: SharedRuntime,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.roster.close();
    }
}

impl ReconnectingClient {
    /// Begins to connect, in the background. `service` answers the server's requests, on all
    /// connections.
    ///
    /// # Errors
    /// The strategy of `client` is not valid.
    pub fn start<S: Service>(
        connect: impl Connect,
        client: ReconnectConfig,
        options: ConnectionConfig,
        service: S,
        runtime: &SharedRuntime,
    ) -> Result<Self, InvalidStrategy> {
        let (service, inside) = (Arc::new(service), Arc::clone(runtime));
        let seen = options.clone();
        let make = move |_: Arc<Roster>| -> Making {
            let (connecting, options) = (connect.connect(), options.clone());
            let (service, runtime) = (Arc::clone(&service), Arc::clone(&inside));
            Box::pin(async move {
                let mut link = connecting.await?;
                let options = options.with_token(&*runtime).await?;
                link.context.draw_number();
                let (peer, driver) = drive(link, options, service, &runtime);
                let running: Driven = Box::pin(driver);
                Ok((peer, running))
            })
        };
        Self::start_with(make, client, &seen, runtime)
    }

    /// Like [`start`](Self::start), for an adapter that makes the connections itself. `make` makes one
    /// connection and sets its options. It is passed the client's [`Roster`]. Of `options` only the interceptors and the
    /// `call_timeout` are used, for the client's calls.
    ///
    /// # Errors
    /// The strategy of `client` is not valid.
    pub fn start_with(
        make: impl Fn(Arc<Roster>) -> Making + Send + Sync + 'static,
        client: ReconnectConfig,
        options: &ConnectionConfig,
        runtime: &SharedRuntime,
    ) -> Result<Self, InvalidStrategy> {
        let connections = client.connections.max(1);
        let (roster, make) = (Arc::new(Roster::new(client)?), Arc::new(make));
        for number in 0..connections {
            let member = Member {
                roster: Arc::clone(&roster),
                number,
                runtime: Arc::clone(runtime),
            };
            let make = Arc::clone(&make);
            runtime.spawn(Box::pin(async move { member.keep(&*make).await }));
        }
        let runtime = Arc::clone(runtime);
        let interceptors = options.interceptors.clone();
        let inner = Arc::new(Inner {
            roster,
            interceptors,
            call_timeout: options.call_timeout,
            runtime,
        });
        Ok(Self { inner })
    }

    /// The state of each connection.
    pub fn states(&self) -> Vec<ConnectionState> {
        self.inner.roster.states()
    }

    /// Why the last connection, or the last attempt at one, failed. For a refused WebSocket
    /// handshake the text has the HTTP status.
    pub fn last_error(&self) -> Option<io::Error> {
        self.inner.roster.last_error()
    }

    /// Returns one of the open connections, for batches and other uses of a single connection; `None` if
    /// none is open.
    pub fn peer(&self) -> Option<Peer> {
        self.inner.roster.pick()
    }

    /// Waits for an open connection, `timeout` at most.
    ///
    /// # Errors
    /// [`CallError::NoConnection`], with the last error, if there will be no connection, or none in
    /// time; [`CallError::Unsent`] after the client was closed.
    pub fn wait_open(&self, timeout: Duration) -> Wait<'_, Result<Peer, CallError>> {
        let deadline = self.inner.runtime.now() + timeout;
        // `true`: `max_waiting_calls` limits calls, and this is not one.
        Wait::on(self.acquire(true, deadline))
    }

    /// Calls a method over an open connection, or waits for a connection. If no byte of the call was sent
    /// before its connection ended, or if it is [idempotent](Call::idempotent), it is sent again over
    /// the next connection, as [`retry`](ReconnectConfig::retry) says. So is any call that the server
    /// answered with one of the error [`codes`](antiphon::Retry::codes) listed there, over any open
    /// connection. All of this takes at most the call's [`timeout`](Call::timeout); without one, the
    /// [`call_timeout`](ConnectionConfig::call_timeout) of the client's options.
    pub fn call<'c, R: DeserializeOwned>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Call<'c, R, Self> {
        Call::new(self, method, Text::of(params), CallError::read)
    }

    /// Calls a method that is described by a type, as [`Peer::send`](crate::Peer::send).
    pub fn send<M>(&self, params: &M::Params) -> Call<'_, M::Result, Self, M::Error>
    where
        M: Method<Params: Serialize, Result: DeserializeOwned, Error: RpcError>,
    {
        Call::new(self, M::NAME, Text::of(params), CallError::read)
    }

    /// Sends a notification, over an open connection: at once if its output has space, even if nobody
    /// awaits it. Otherwise it waits for space, for the [`call_timeout`](ConnectionConfig::call_timeout) at
    /// most; if it is dropped before, nothing is sent.
    ///
    /// # Errors
    /// [`SendError::Closed`] if no connection is open; otherwise why it cannot be sent.
    pub fn notify<'c>(
        &'c self,
        method: &'c str,
        params: impl Payload,
    ) -> Wait<'c, Result<(), SendError>> {
        self.notify_owned(Cow::Borrowed(method), Text::of(params))
    }

    pub(crate) fn notify_owned<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), SendError>> {
        Wait::begun(async move {
            let peer = self.peer().ok_or(SendError::Closed)?;
            peer.notify_owned(method, params).await
        })
    }

    /// Sends several calls and notifications as one message, over an open connection, or waits for
    /// such a connection. The batch is not sent again if the connection ends. See [`Peer::batch`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> BatchCall<'_, H, Self> {
        BatchCall::new(self, build)
    }

    /// Closes the client: no more attempts are made, and the connections drain.
    pub fn close(&self) {
        self.inner.roster.close();
    }

    /// Makes a call, and sends it again if its connection ends and it may be sent again.
    async fn call_again(&self, call: CallRequest<'_>) -> Result<OwnedOutcome, CallError> {
        let (params, runtime) = (call.params?, &self.inner.runtime);
        let deadline = self.deadline(call.timeout);
        let mut is_again = false;
        let roster = &self.inner.roster;
        let mut retries = roster.retries();
        // How the call ended the last time that bytes of it were sent: once it is in doubt whether the
        // peer has run it, it stays so.
        let mut sent = None;
        loop {
            let peer = match self.acquire(is_again, deadline).await {
                Ok(peer) => peer,
                Err(error) => return self.settled(sent, Err(error), deadline),
            };
            let left = call
                .timeout
                .map(|_| deadline.saturating_since(runtime.now()));
            let mut attempt = CallRequest::new(&*call.method, Text::of(params.all()), left);
            attempt.id.clone_from(&call.id);
            attempt.progress.clone_from(&call.progress);
            let ended = match peer.start(Some(attempt)).await {
                Ok(call) => Ok(call.await),
                Err(error) => Err(error.into()),
            };
            let (is_idempotent, entropy) = (call.is_idempotent, roster.entropy());
            let delay = judge_ended(&mut retries, &ended, is_idempotent, entropy);
            if !wait_to_resend(&**runtime, delay, deadline).await {
                return self.settled(sent, ended, deadline);
            }
            is_again = true;
            if !is_unsent(&ended) && !matches!(sent, Some(OwnedOutcome::Aborted)) {
                sent = ended.ok();
            }
        }
    }

    /// Returns how a call ends whose last attempt has `ended`. If that attempt was not sent, but an
    /// earlier one was, the peer may have run the call, so it must not end as one that was never sent.
    fn settled(
        &self,
        sent: Option<OwnedOutcome>,
        ended: Result<OwnedOutcome, CallError>,
        deadline: Instant,
    ) -> Result<OwnedOutcome, CallError> {
        match sent {
            Some(_) if !is_unsent(&ended) => ended,
            Some(OwnedOutcome::Aborted) if self.inner.runtime.now() >= deadline => {
                Ok(OwnedOutcome::TimedOut)
            }
            Some(earlier) => Ok(earlier),
            None => ended,
        }
    }

    fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.inner.runtime.now() + span)
    }

    /// Returns an open connection, or waits for one until `deadline`. With `is_again` it may always
    /// wait, as for a call that was sent before; otherwise only while fewer callers wait than
    /// [`max_waiting_calls`](ReconnectConfig::max_waiting_calls).
    async fn acquire(&self, is_again: bool, deadline: Instant) -> Result<Peer, CallError> {
        if let Some(peer) = self.peer() {
            return Ok(peer);
        }
        let runtime = &self.inner.runtime;
        let waiting = self.inner.roster.wait(is_again)?;
        let opened = until(&**runtime, deadline, poll_fn(|cx| waiting.poll(cx)));
        opened.await.unwrap_or_else(|| Err(waiting.timed_out()))
    }
}

/// Whether no byte of a call was sent that has `ended` so.
fn is_unsent(ended: &Result<OwnedOutcome, CallError>) -> bool {
    matches!(ended, Ok(OwnedOutcome::Unsent) | Err(_))
}

impl MakeCall for ReconnectingClient {
    fn call_timeout(&self) -> Option<Duration> {
        self.inner.call_timeout
    }

    fn interception(&self) -> Option<Interception<'_>> {
        let inner = &*self.inner;
        Interception::of_client(inner.interceptors.as_ref(), &inner.runtime, None)
    }

    fn begin<'c>(&'c self, call: CallRequest<'c>) -> Begun<'c, PendingCall, OwnedOutcome> {
        Begun::Other(Box::pin(self.call_again(call)))
    }

    fn begin_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Begun<'_, PendingBatch, Collector> {
        Begun::Other(Box::pin(async move {
            let deadline = self.deadline(timeout);
            let peer = self.acquire(false, deadline).await?;
            let left = timeout.map(|_| deadline.saturating_since(self.inner.runtime.now()));
            Ok(peer.start_batch(batch, left).await?.await)
        }))
    }
}

impl HearCall for ReconnectingClient {
    fn now(&self) -> Instant {
        self.inner.runtime.now()
    }
}

impl fmt::Debug for ReconnectingClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconnectingClient")
            .field("roster", &self.inner.roster)
            .finish_non_exhaustive()
    }
}

/// Waits for `delay`, after which a call is sent again, and returns true. Returns false at once if
/// `delay` is `None` or does not end before `deadline`: the call is not sent again.
pub(crate) async fn wait_to_resend(
    runtime: &dyn Runtime,
    delay: Option<Duration>,
    deadline: Instant,
) -> bool {
    let at = delay.map(|delay| runtime.now() + delay);
    let Some(at) = at.filter(|at| *at < deadline) else {
        return false;
    };
    if delay != Some(Duration::ZERO) {
        runtime.sleep_until(at).await;
    }
    true
}

/// A connection that is being made: its peer, and its driver.
pub type Making = Pin<Box<dyn Future<Output = io::Result<(Peer, Driven)>> + Send>>;

/// Runs a connection until it ends.
pub type Driven = Pin<Box<dyn Future<Output = io::Result<Closed>> + Send>>;

/// One of the client's connections. After it was dropped, there are no more attempts to make it.
struct Member {
    roster: Arc<Roster>,
    /// The index of the connection in the roster, from 0. This is not the connection's number
    /// ([`Context::connection`](crate::Context::connection)): a connection that replaces a lost one has the same index and a new
    /// number.
    number: usize,
    runtime: SharedRuntime,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.roster.given_up(self.number);
    }
}

impl Member {
    /// Makes the connection, and replaces it when it is lost, until there must be no more attempts.
    async fn keep(self, make: &(dyn Fn(Arc<Roster>) -> Making + Send + Sync)) {
        let Self {
            roster,
            number,
            runtime,
        } = &self;
        while roster.connecting(*number) {
            let deadline = runtime.now() + roster.options().connect_timeout;
            let error = match until(&**runtime, deadline, make(Arc::clone(roster))).await {
                Some(Ok((peer, running))) => self.run(peer, running).await,
                Some(Err(error)) => Some(error),
                None => {
                    let text = "the attempt to connect took too long";
                    Some(io::Error::new(io::ErrorKind::TimedOut, text))
                }
            };
            // An error is only noted, because the next attempt may succeed.
            let Some(next) = roster.lost(*number, runtime.now(), error) else {
                return;
            };
            let mut timer = runtime.timer();
            poll_fn(|cx| {
                roster.watch(cx.waker());
                if roster.is_closed() {
                    return Poll::Ready(());
                }
                timer.poll_until(next, cx)
            })
            .await;
        }
    }

    /// Runs the connection, and reports when it is open. Returns the error with which it ended, if
    /// any.
    async fn run(&self, peer: Peer, mut running: Driven) -> Option<io::Error> {
        let (mut opening, mut failed) = (Some(Box::pin(self.open(peer))), None);
        let ended = poll_fn(|cx| {
            let opened = opening.as_mut().map(|opening| opening.as_mut().poll(cx));
            if let Some(Poll::Ready(opened)) = opened {
                (opening, failed) = (None, opened.err());
            }
            running.as_mut().poll(cx)
        })
        .await;
        failed.or_else(|| lost_because(ended))
    }

    /// Waits until the connection is open, makes its first calls, and then lets other calls use it.
    /// An error is that of the first calls: an error of the connection is reported at its end.
    async fn open(&self, peer: Peer) -> io::Result<()> {
        let session = peer.session();
        if poll_fn(|cx| session.poll_until(cx.waker(), State::opened))
            .await
            .is_err()
        {
            return Ok(());
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
