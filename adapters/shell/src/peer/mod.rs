//! The other side of a connection: calls, notifications, batches, and the end.
//!
//! Everything that waits has a deadline, unless its timeout is `None`. Dropping a future cancels its
//! calls. If the output is full, calls and notifications wait in a line, in which answers never wait.
//! Params are written to JSON before the session's lock is taken. Of a refused call nothing is sent.

mod adapter;
mod start;

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use antiphon::{
    CallId, CloseReason, Closed, Collector, Dialect, Instant, Method, OwnedOutcome, Payload,
    RequestKey, Retry, RpcError, SendError,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::batch::{BatchBuilder, Entries};
use crate::call::call_error::{CallError, CallRefused};
use crate::call::call_request::CallRequest;
use crate::call::intercepted::{Intercepted, Interception, outcome_of, unsent};
use crate::call::pending::{PendingBatch, PendingCall, due, send};
use crate::call::transmit::{Sending, Transmit};
use crate::call::waiting_sender::WaitingSender;
use crate::call::{BatchCall, Call};
use crate::context::Context;
use crate::runtime::{SharedRuntime, until};
use crate::session::{Session, State, Tag, Then};
use crate::slot::{Gathering, batch_name, call_slot};
use crate::text::Text;
use crate::wait::Wait;
use crate::work::seat::away_during;

/// The other side of a connection. Clones are the same peer, and can be used in any task.
///
/// When the last clone of a peer that `connect` or `drive` returned is dropped, the connection
/// closes; call [`flush`](Self::flush) before, if messages must still be sent. The peer that a
/// service gets does not keep the connection open.
#[derive(Clone)]
pub struct Peer {
    session: Arc<Session>,
    /// Closes the connection when it is dropped.
    _owner: Option<Arc<Owner>>,
}

/// Closes the connection when the last clone is dropped.
struct Owner(Arc<Session>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close(CloseReason::Done);
    }
}

impl Peer {
    /// Makes a peer of a session, which closes when the last clone is dropped.
    pub(crate) fn owning(session: Arc<Session>) -> Self {
        let _owner = Some(Arc::new(Owner(Arc::clone(&session))));
        Self { session, _owner }
    }

    /// Makes a peer of a session, which does not keep it open.
    pub(crate) fn unowned(session: Arc<Session>) -> Self {
        let _owner = None;
        Self { session, _owner }
    }

    /// A clone that does not keep the connection open.
    #[must_use]
    pub fn to_unowned(&self) -> Self {
        Self::unowned(Arc::clone(&self.session))
    }

    /// The connection itself.
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Facts that the transport knows about the other side.
    pub fn context(&self) -> &Context {
        self.session.context()
    }

    /// Whether notifications can be sent to this peer. Over HTTP that needs a client that accepts a stream
    /// of events, and then they can be sent before its request is answered; otherwise they fail as
    /// [`SendError::NoPush`]. Calls always do so over HTTP, and a method whose notifications follow its
    /// answer, such as a subscription, answers with an error there.
    pub fn can_notify(&self) -> bool {
        self.session.options().config.can_notify()
    }

    /// Awaits, in a handler, what may come at any time, such as the next change to tell a client that listens.
    /// Meanwhile the handler gives its place among the running requests back, as one does that waits for its
    /// peer. Returns `None` when the server drains, or the connection closes: then the handler should answer,
    /// because the server waits for that. (Over HTTP without a stream of events, too.)
    ///
    /// ```
    /// use antiphon::OwnedError;
    /// use antiphon_shell::{Peer, Router};
    /// use std::sync::Arc;
    ///
    /// let changes = Arc::new(async_channel::unbounded::<String>().1);
    /// let router = Router::new().method("listen", [], move |peer: Peer| {
    ///     let changes = Arc::clone(&changes);
    ///     async move {
    ///         while let Some(Ok(uri)) = peer.park(changes.recv()).await {
    ///             peer.notify("changed", &[uri]).await?;
    ///         }
    ///         Ok::<_, OwnedError>(())
    ///     }
    /// });
    /// # let _: Router = router;
    /// ```
    pub fn park<'p, F>(&'p self, event: F) -> Wait<'p, Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'p,
    {
        let session = &self.session;
        let parked = async move {
            let mut event = pin!(event);
            poll_fn(|cx| match event.as_mut().poll(cx) {
                Poll::Ready(come) => Poll::Ready(Some(come)),
                Poll::Pending => {
                    let look = |state: &mut State| state.ends_parked().then_some(());
                    session.poll_until(cx.waker(), look).map(|()| None)
                }
            })
            .await
        };
        Wait::on(away_during(session.address(), parked))
    }

    /// Calls a method: await the result, or [`wait`](Call::wait) for it on a thread. The call takes at
    /// most its [`timeout`](Call::timeout); without one, the configuration's
    /// [`call_timeout`](crate::ConnectionConfig::call_timeout). Dropping it cancels the call.
    ///
    /// `params` is any payload: a reference to a value, JSON text, or `()` for no params.
    pub fn call<'p, R: DeserializeOwned>(
        &'p self,
        method: &'p str,
        params: impl Payload,
    ) -> Call<'p, R, Self> {
        Call::new(self, self, method, params, CallError::read)
    }

    /// Calls a method that is described by a type.
    ///
    /// ```no_run
    /// use antiphon::Method;
    ///
    /// enum Add {}
    ///
    /// impl Method for Add {
    ///     const NAME: &str = "add";
    ///     type Params = (f64, f64);
    ///     type Result = f64;
    ///     type Error = antiphon::OwnedError;
    /// }
    ///
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
    /// assert_eq!(peer.send::<Add>(&(10.0, 5.0)).await?, 15.0);
    /// # Ok(()) }
    /// ```
    pub fn send<M>(&self, params: &M::Params) -> Call<'_, M::Result, Self, M::Error>
    where
        M: Method<Params: Serialize, Result: DeserializeOwned, Error: RpcError>,
    {
        Call::new(self, self, M::NAME, params, CallError::read)
    }

    /// Sends a notification: at once if the output has space, even if nobody awaits it. Otherwise it waits
    /// for space, for the [`call_timeout`](crate::ConnectionConfig::call_timeout) at most; if it is dropped
    /// before, nothing is sent.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no space by then; otherwise why it cannot be sent. If an
    /// interceptor answers it, it is not sent, and that is no error.
    pub fn notify<'p>(
        &'p self,
        method: &'p str,
        params: impl Payload,
    ) -> Wait<'p, Result<(), SendError>> {
        self.notify_owned(Cow::Borrowed(method), Text::of(params))
    }

    /// Sends a notification, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no space now, or if others are waiting for space already;
    /// otherwise why it cannot be sent: an interceptor that decides later has failed here.
    pub fn try_notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.try_notify_about(None, method, params)
    }

    /// Sends a notification as [`try_notify`](Self::try_notify) does, unless it is about a request of the
    /// peer that is not open any more.
    pub(crate) fn try_notify_about(
        &self,
        request: Option<RequestKey>,
        method: &str,
        params: impl Payload,
    ) -> Result<(), SendError> {
        let mut call = CallRequest::new(method, Text::of(params), self.call_timeout());
        let seen = self.interception();
        let shown = seen.map(|seen| seen.notification(&mut call).at_once());
        let intercepted = match shown {
            None => None,
            Some(Ok(intercepted)) => Some(intercepted),
            Some(Err(answered)) => return unsent(answered),
        };
        let sent = call.params.and_then(|params| {
            let mut place = WaitingSender::new(&self.session);
            let mut send = |state: &mut State| {
                let is_over = |request| state.conn.request_id(request).is_none();
                match request.is_some_and(is_over) {
                    true => Err(SendError::NotOpen),
                    false => state.conn.notify(&call.method, params.all()),
                }
            };
            place.try_send(&mut send)
        });
        match intercepted {
            None => sent,
            Some(intercepted) => intercepted.end_sent(sent),
        }
    }

    /// Sends several calls and notifications as one message: await the result, or
    /// [`wait`](BatchCall::wait) for it on a thread. `build` returns the handles by which the
    /// outcomes are fetched; no lock is held while it runs. Dropping the batch cancels the calls
    /// that are still open.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_shell::Peer) -> Result<(), antiphon_shell::CallError> {
    /// let ((sum, name), mut outcomes) = peer.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// }).await?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&BatchBuilder) -> Result<H, SendError>,
    ) -> BatchCall<'_, H, Self> {
        BatchCall::new(self, self, build)
    }

    /// Sends a call, after the senders that wait for space already.
    pub(crate) fn start<'p>(
        &'p self,
        call: Option<CallRequest<'p>>,
    ) -> Wait<'p, Result<PendingCall, SendError>> {
        let refused = |error| Wait::known(Err(error));
        let Some(call) = call else {
            return refused(SendError::NotOpen);
        };
        let opened = call.params.and_then(|params| {
            let (params, flows) = call.flows.open(&self.session, &call.method, params)?;
            let (params, route) = match &call.events {
                None => (params, None),
                Some(events) => events.ask(&self.session, params)?,
            };
            Ok((params, flows, route))
        });
        let (params, flows, route) = match opened {
            Ok(opened) => opened,
            Err(error) => return refused(error),
        };
        let (deadline, slot) = (self.deadline(call.timeout), call_slot());
        let attach = flows.attach();
        let sending = self.in_turn(deadline, move |state| {
            let (what, tag) = ((&*call.method, &call.id), Tag::Once(Arc::clone(&slot)));
            let sent = send(&mut state.conn, what, params.all(), due(deadline), tag);
            let sent = sent.map_err(|rejected| rejected.error)?;
            attach(state, sent);
            if let Some((route, events)) = route.zip(call.events.as_ref()) {
                state.attach(route, sent, events.extend());
            }
            let (session, slot) = (Arc::clone(&self.session), Arc::clone(&slot));
            Ok(PendingCall::new(session, sent, slot))
        });
        flows.start_after(&self.session, sending)
    }

    /// Sends a call, after the senders that wait for space already, and has `then` run at its end.
    pub(crate) fn start_then<'p>(
        &'p self,
        call: Option<CallRequest<'p>>,
        then: Then,
    ) -> Wait<'p, Result<CallId, CallRefused>> {
        Wait::on(async move {
            let mut then = Some(Tag::Then(then));
            let sent = async {
                let call = call.ok_or(SendError::NotOpen)?;
                let deadline = self.deadline(call.timeout);
                let opening = call.flows;
                let (params, flows) = opening.open(&self.session, &call.method, call.params?)?;
                let attach = flows.attach();
                let sending = |state: &mut State| {
                    // `then` is put back whenever the call is refused.
                    let tag = then.take().ok_or(SendError::NotOpen)?;
                    let (conn, what) = (&mut state.conn, (&*call.method, &call.id));
                    let sent = send(conn, what, params.all(), due(deadline), tag);
                    let sent = sent.inspect(|sent| conn.settle_in_order(*sent));
                    let sent = sent.map_err(|rejected| {
                        then = Some(rejected.value);
                        rejected.error
                    })?;
                    attach(state, sent);
                    Ok(sent)
                };
                let sent = with_room(Arc::clone(&self.session), deadline, sending).await?;
                flows.start(&self.session);
                Ok(sent)
            };
            let sent = sent.await;
            sent.map_err(|error| CallRefused {
                error,
                then: match then {
                    Some(Tag::Then(then)) => then,
                    _ => Box::new(drop),
                },
            })
        })
    }

    /// Sends a batch, after the senders that wait for space already.
    pub(crate) fn start_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Wait<'_, Result<PendingBatch, SendError>> {
        let deadline = self.deadline(timeout);
        let number = batch.number();
        let gathering = Gathering::new(number, batch.calls());
        self.in_turn(deadline, move |state| {
            let mut sending = state.conn.batch(due(deadline));
            let mut calls = Vec::new();
            for item in batch.items() {
                match item.name {
                    Some(name) => {
                        // `NO_CALL` stands for each call that interceptors have answered.
                        calls.resize(batch_name(name).map_or(0, |(_, place)| place), NO_CALL);
                        let tag = Tag::Batch(Arc::clone(&gathering), name);
                        calls.push(item.add_to(&mut sending, tag)?);
                    }
                    None => sending.notify(item.method, item.params)?,
                }
            }
            sending.send()?;
            let calls: Arc<[CallId]> = calls.into();
            if !calls.is_empty() {
                state.batches.push((number, Arc::clone(&calls)));
            }
            let (session, slot) = (Arc::clone(&self.session), Arc::clone(gathering.all()));
            Ok(PendingBatch::new(session, calls, slot))
        })
    }

    /// Returns a call that was not sent, because its outcome is known.
    pub(crate) fn settled(&self, outcome: OwnedOutcome) -> PendingCall {
        let slot = call_slot();
        // No caller waits yet.
        let _ = slot.put(outcome);
        PendingCall::new(Arc::clone(&self.session), NO_CALL, slot)
    }

    /// Returns a call that interceptors have seen and that was then started or refused. If it was
    /// refused, they may have replaced the error by an outcome.
    pub(crate) fn started(
        &self,
        started: Result<PendingCall, SendError>,
        intercepted: Intercepted,
    ) -> Result<PendingCall, SendError> {
        match started {
            Ok(pending) => Ok(pending.intercepted_by(intercepted)),
            Err(error) => match intercepted.end(Err(error.into())) {
                Err(CallError::Rejected(error)) => Err(error),
                answered => Ok(self.settled(outcome_of(answered))),
            },
        }
    }

    /// Returns a batch of which nothing was sent, because interceptors have answered every entry.
    pub(crate) fn settled_batch(&self) -> PendingBatch {
        let slot = Arc::clone(Gathering::new(0, 0).all());
        PendingBatch::new(Arc::clone(&self.session), Arc::new([]), slot)
    }

    /// Waits until messages can be exchanged: no time on a plain stream, until the end of the
    /// handshake on a WebSocket, which has a deadline. Messages that are sent before are written after
    /// the handshake.
    ///
    /// # Errors
    /// Why messages can never be exchanged.
    pub fn opened(&self) -> Wait<'_, io::Result<()>> {
        Wait::on(self.until(State::opened))
    }

    /// Asks the peer to cancel a call, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has ended; [`SendError::NoPush`] if the dialect has no cancel.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.session
            .act(|state| state.conn.ask_cancel(state.call(call)))
    }

    /// Cancels a call, also at the peer if the dialect has a cancel. Returns false if the call had
    /// ended.
    pub fn cancel(&self, call: CallId) -> bool {
        self.session.cancel(call)
    }

    /// Waits until all output so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it can never be written.
    pub fn flush(&self, timeout: Duration) -> Wait<'_, io::Result<()>> {
        let deadline = self.deadline(Some(timeout));
        let mark = self.session.lock().conn.transmit_queued();
        Wait::on(async move {
            let written = self.until(move |state| state.written_to(mark));
            let written = away_during(self.session.address(), written);
            let written = until(self.session.runtime(), deadline, written).await;
            written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
        })
    }

    /// Sets the dialect of the connection, in place of the configured one, for all messages from now on: once
    /// `initialize` has shown which revision of MCP both sides speak, for example. A server calls this in
    /// the handler of `initialize`, because the client awaits its answer; a client when it has the answer.
    /// Ids of our calls, and how a WebSocket takes binary messages, stay as they are configured. Only the
    /// first call has an effect: returns false if the dialect was set before.
    ///
    /// ```
    /// # use antiphon_shell::Peer;
    /// use antiphon::{Config, McpRevision};
    ///
    /// # fn example(peer: &Peer, protocol_version: &str) {
    /// let revision = McpRevision::of(protocol_version).unwrap_or(McpRevision::V2025_11_25);
    /// peer.set_dialect(Config::mcp(revision).dialect);
    /// # }
    /// ```
    pub fn set_dialect(&self, dialect: Dialect) -> bool {
        self.session.set_dialect(dialect)
    }

    /// Begins a drain: unsubscribes the streams and topics that this side follows, accepts no new requests and calls,
    /// and closes the connection once everything is answered and written, or when the configuration's
    /// `drain_timeout` has passed.
    pub fn drain(&self) {
        self.session.drain();
    }

    /// Closes the connection at once. Queued output is still written. Open calls end as
    /// [`CallError::Closed`], open requests are not answered.
    pub fn close(&self, reason: CloseReason) {
        self.session.close(reason);
    }

    /// Waits until the connection has ended and its transport was dropped. Returns `None` if that
    /// takes longer than `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> Wait<'_, Option<Closed>> {
        let deadline = self.deadline(Some(timeout));
        let finished = self.until(|state| state.finished());
        let ended = until(self.session.runtime(), deadline, finished);
        Wait::on(ended)
    }

    /// Why the connection ended; `None` while it goes on.
    pub fn closed(&self) -> Option<Closed> {
        self.session.lock().closed()
    }

    /// Whether new calls are of no use: the connection drains or has ended, its input has ended, or
    /// a write has failed.
    pub fn is_closing(&self) -> bool {
        self.session.lock().is_closing()
    }

    /// The error that broke the transport before the connection was meant to end, if there was one.
    pub fn transport_error(&self) -> Option<io::Error> {
        self.session.lock().fault()
    }

    /// Returns the time `timeout` from now; [`Instant::FAR_FUTURE`] for `None`.
    pub(crate) fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.session.now() + span)
    }

    /// Waits until `look` finds something, and returns it.
    async fn until<R>(&self, look: impl Fn(&mut State) -> Option<R>) -> R {
        poll_fn(|cx| self.session.poll_until(cx.waker(), &look)).await
    }

    /// Runs `send` at once, or as soon as there is space in the output: see [`with_room`].
    pub(crate) fn in_turn<'s, R: Send + 's>(
        &self,
        deadline: Instant,
        mut send: impl FnMut(&mut State) -> Result<R, SendError> + Send + 's,
    ) -> Wait<'s, Result<R, SendError>> {
        match WaitingSender::new(&self.session).try_send(&mut send) {
            Err(SendError::Full) => Wait::on(with_room(Arc::clone(&self.session), deadline, send)),
            sent => Wait::known(sent),
        }
    }
}

/// Runs `send` as soon as there is space in the output and no other sender waits before; fails as
/// [`SendError::Full`] at `deadline`. The sender joins the line when the future is first polled.
async fn with_room<R>(
    session: Arc<Session>,
    deadline: Instant,
    mut send: impl FnMut(&mut State) -> Result<R, SendError>,
) -> Result<R, SendError> {
    let mut place = WaitingSender::new(&session);
    let sent = poll_fn(|cx| place.poll_send(cx.waker(), &mut send));
    let sent = until(session.runtime(), deadline, sent).await;
    sent.unwrap_or(Err(SendError::Full))
}

impl Transmit for Peer {
    fn runtime(&self) -> &SharedRuntime {
        self.session.shared_runtime()
    }

    fn interception(&self) -> Option<Interception<'_>> {
        let options = self.session.options();
        Some(Interception {
            chain: options.interceptors.as_ref()?,
            session: Some(&self.session),
            runtime: self.session.shared_runtime(),
            connection: self.context().connection,
            peer_addr: self.context().peer_addr,
            server: None,
        })
    }

    fn call_timeout(&self) -> Option<Duration> {
        self.session.options().call_timeout
    }

    fn retry(&self) -> Option<&Retry> {
        self.session.options().retry.as_ref()
    }

    fn reconnects(&self) -> bool {
        false
    }

    fn send<'c>(&'c self, call: CallRequest<'c>) -> Sending<'c, PendingCall, OwnedOutcome> {
        Sending::Starting(self.start(Some(call)))
    }

    fn send_batch(
        &self,
        batch: Entries,
        timeout: Option<Duration>,
    ) -> Sending<'_, PendingBatch, Collector> {
        Sending::Starting(self.start_batch(batch, timeout))
    }

    fn notify<'c>(
        &'c self,
        method: Cow<'c, str>,
        params: Result<Text, SendError>,
    ) -> Wait<'c, Result<(), CallError>> {
        let sent = self.notify_owned(method, params);
        sent.map(|sent| sent.map_err(CallError::Rejected))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// The id of no call: no call has number 0.
pub(crate) const NO_CALL: CallId = CallId::new(0, 0);
