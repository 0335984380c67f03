//! The other side of a connection: calls, notifications, batches, and the end.
//!
//! Everything that waits has a deadline; a future that is dropped gives its calls up; and a call
//! that finds the output full waits outside of it, so that answers never wait behind calls. Params
//! are written to JSON before the lock is taken. What is refused leaves no trace.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use antiphon::{
    CallId, CloseReason, Closed, Collector, Instant, OwnedJson, OwnedOutcome, Payload, SendError,
};
use serde::de::DeserializeOwned;

use crate::batch::BatchBuilder;
use crate::call::{CallError, CallRefused, PendingBatch, PendingCall};
use crate::context::Context;
use crate::line::InLine;
use crate::request::Responder;
use crate::runtime::until;
use crate::session::{Session, State, Tag};
use crate::slot::{Gathering, call_slot};
use crate::text::Text;

/// How long a call waits for its answer, and a notification for room, if nothing else is said.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The other side of a connection. Clones are the same peer; any task may use one.
///
/// When the last clone of a peer given by `connect` or `drive` is dropped, the connection closes;
/// [`flush`](Self::flush) first what must arrive. The peer that a service is shown does not keep
/// the connection open.
#[derive(Clone)]
pub struct Peer {
    session: Arc<Session>,
    /// Held only so that its drop closes the connection.
    _owner: Option<Arc<Owner>>,
}

/// Closes the connection with its last clone.
struct Owner(Arc<Session>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.close(CloseReason::Done);
    }
}

impl Peer {
    /// The peer of a session: the last clone that is dropped closes it.
    pub fn owning(session: Arc<Session>) -> Self {
        let owner = Arc::new(Owner(Arc::clone(&session)));
        Self {
            session,
            _owner: Some(owner),
        }
    }

    /// The peer of a session, without keeping it open.
    pub fn unowned(session: Arc<Session>) -> Self {
        Self {
            session,
            _owner: None,
        }
    }

    /// The other side of a request, to notify or call before the answer. It does not keep the
    /// connection open.
    pub fn of(reply: &Responder) -> Self {
        Self::unowned(Arc::clone(reply.session()))
    }

    /// A clone that does not keep the connection open.
    #[must_use]
    pub fn to_unowned(&self) -> Self {
        Self::unowned(Arc::clone(&self.session))
    }

    /// The connection itself.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What the transport knows of the other side.
    pub fn context(&self) -> &Context {
        self.session.context()
    }

    /// Calls a method and waits for its result, at most 30 s.
    ///
    /// `params` is anything that antiphon takes as a payload: a reference to a value, JSON text,
    /// or `()` for none. Dropping the future cancels the call.
    ///
    /// # Errors
    /// How the call ended instead: see [`CallError`].
    pub async fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
    ) -> Result<R, CallError> {
        self.call_timeout(method, params, Some(DEFAULT_CALL_TIMEOUT))
            .await
    }

    /// Calls a method and waits for its result until `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, CallError> {
        let call = self.start_call(method, params, timeout).await?;
        call.result().await
    }

    /// Calls a method and gives its result as the peer wrote it, without decoding it. Waits until
    /// `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_raw(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, CallError> {
        let call = self.start_call(method, params, timeout).await?;
        CallError::of(call.await)
    }

    /// Begins a call and does not wait for its result. Dropping what it gives cancels the call.
    ///
    /// # Errors
    /// [`CallError::Rejected`] if the call was refused, after waiting for room if the output was
    /// full.
    pub async fn start_call(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<PendingCall, CallError> {
        let (params, deadline) = (Text::of(params)?, self.deadline(timeout));
        let slot = call_slot();
        let send = |state: &mut State| {
            let tag = Tag::Once(Arc::clone(&slot));
            let sent = state.conn.call(method, params.all(), due(deadline), tag);
            sent.map_err(|rejected| rejected.error)
        };
        let call = self.with_room(deadline, send).await?;
        Ok(PendingCall::new(Arc::clone(&self.session), call, slot))
    }

    /// Begins a call and runs `then` when it ends, with the service's other work and in its order:
    /// what the peer sent before its answer has then been served, unless that waits for others to
    /// end. For relays, which keep no task for a call. [`cancel`](Self::cancel) drops `then` unrun.
    ///
    /// # Errors
    /// Gives `then` back with the reason.
    pub async fn call_then(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
        then: impl FnOnce(OwnedOutcome) + Send + 'static,
    ) -> Result<CallId, CallRefused> {
        let mut then: Option<Tag> = Some(Tag::Then(Box::new(then)));
        let sent = async {
            let (params, deadline) = (Text::of(params)?, self.deadline(timeout));
            let send = |state: &mut State| {
                // It is put back whenever the call is refused.
                let tag = then.take().ok_or(SendError::NotOpen)?;
                let conn = &mut state.conn;
                let sent = conn.call_in_order(method, params.all(), due(deadline), tag);
                sent.map_err(|rejected| {
                    then = Some(rejected.value);
                    rejected.error
                })
            };
            self.with_room(deadline, send).await
        };
        let sent = sent.await;
        sent.map_err(|error| CallRefused {
            error,
            then: match then {
                Some(Tag::Then(then)) => then,
                _ => Box::new(drop),
            },
        })
    }

    /// Tells the peer something. If the output is full it waits for room, at most 30 s.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room by then; otherwise what is wrong with it.
    pub async fn notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let params = Text::of(params)?;
        let deadline = self.deadline(Some(DEFAULT_CALL_TIMEOUT));
        self.with_room(deadline, |state| state.conn.notify(method, params.all()))
            .await
    }

    /// Tells the peer something, and fails instead of waiting if the output is full.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room now, or if others wait for room already; otherwise
    /// what is wrong with it.
    pub fn try_notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let params = Text::of(params)?;
        let mut place = InLine::new(&self.session);
        place.try_send(&mut |state| state.conn.notify(method, params.all()))
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched. Dropping the
    /// future cancels the calls that are still open.
    ///
    /// ```no_run
    /// # async fn example(peer: antiphon_net::Peer) -> Result<(), antiphon_net::CallError> {
    /// let ((sum, name), mut outcomes) = peer.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// }).await?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Rejected`] if `build` or the connection refused. How each call ended is told
    /// by the [`Collector`].
    pub async fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        self.batch_timeout(Some(DEFAULT_CALL_TIMEOUT), build).await
    }

    /// Sends several calls and notifications as one message, and waits for all their outcomes until
    /// `timeout` has passed; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub async fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        let (handles, pending) = self.start_batch(timeout, build).await?;
        Ok((handles, pending.await))
    }

    /// Sends a batch, and gives what waits for the outcomes. Dropping that cancels the calls that
    /// are still open.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub async fn start_batch<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, PendingBatch), CallError> {
        let deadline = self.deadline(timeout);
        let (handles, batch) = BatchBuilder::build(build)?;
        let number = batch.number();
        let gathering = Gathering::new(number, batch.calls());
        let send = |state: &mut State| {
            let mut sending = state.conn.batch(due(deadline));
            let mut calls = Vec::new();
            for item in batch.items() {
                match item.name {
                    Some(name) => {
                        let tag = Tag::Batch(Arc::clone(&gathering), name);
                        let call = sending.call::<()>(item.method, item.params, tag);
                        calls.push(call.map_err(|rejected| rejected.error)?.call());
                    }
                    None => sending.notify(item.method, item.params)?,
                }
            }
            sending.send()?;
            let calls: Arc<[CallId]> = calls.into();
            if !calls.is_empty() {
                state.batches.push((number, Arc::clone(&calls)));
            }
            Ok(calls)
        };
        let calls = self.with_room(deadline, send).await?;
        let slot = Arc::clone(gathering.all());
        let session = Arc::clone(&self.session);
        Ok((handles, PendingBatch::new(session, calls, slot)))
    }

    /// Waits until messages can be exchanged: at once on a plain stream, after the handshake of a
    /// WebSocket, which has a deadline of its own. What is sent before waits.
    ///
    /// # Errors
    /// Why that will not be.
    pub async fn opened(&self) -> io::Result<()> {
        self.wait(State::opened).await
    }

    /// Tells the peer that a call is no longer wanted, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if it has settled; [`SendError::NoPush`] if the dialect has no way
    /// to say it.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.session
            .act(|state| state.conn.ask_cancel(state.call(call)))
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub fn cancel(&self, call: CallId) -> bool {
        self.session.cancel(call)
    }

    /// Waits until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub async fn flush(&self, timeout: Duration) -> io::Result<()> {
        let deadline = self.deadline(Some(timeout));
        let mark = self.session.lock().conn.transmit_queued();
        let written = self.wait(|state| state.written_to(mark));
        let written = until(self.session.runtime(), deadline, written).await;
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ends the conversation in good order: nothing new is taken from either side, and the
    /// connection closes once all is answered and written, or when the configuration's
    /// `drain_timeout` has passed.
    pub fn drain(&self) {
        self.session.drain();
    }

    /// Ends the conversation at once. What is queued is still written; open calls settle as
    /// [`CallError::Closed`], open requests are given up.
    pub fn close(&self, reason: CloseReason) {
        self.session.close(reason);
    }

    /// Waits until the connection is over and its transport let go. `None` if that takes longer
    /// than `timeout`.
    pub async fn wait_closed(&self, timeout: Duration) -> Option<Closed> {
        let deadline = self.deadline(Some(timeout));
        let finished = self.wait(|state| state.finished());
        until(self.session.runtime(), deadline, finished).await
    }

    /// Why the connection takes nothing more in; `None` while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.session.lock().closed()
    }

    /// Whether nothing new is sent: it drains, is closed, or takes nothing more in.
    pub fn is_closing(&self) -> bool {
        self.session.lock().is_closing()
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn transport_error(&self) -> Option<io::Error> {
        self.session.lock().fault()
    }

    /// The time that lies `timeout` ahead; [`Instant::FAR_FUTURE`] for none.
    fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.session.now() + span)
    }

    /// Waits until `look` finds something, and gives that.
    async fn wait<R>(&self, look: impl Fn(&mut State) -> Option<R>) -> R {
        poll_fn(|cx| self.session.poll_until(cx.waker(), &look)).await
    }

    /// Does `send` as soon as it is not refused for want of room, at `deadline` at the latest.
    async fn with_room<R>(
        &self,
        deadline: Instant,
        mut send: impl FnMut(&mut State) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        let mut place = InLine::new(&self.session);
        let sent = poll_fn(|cx| place.poll_send(cx.waker(), &mut send));
        let sent = until(self.session.runtime(), deadline, sent).await;
        sent.unwrap_or(Err(SendError::Full))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// A deadline as the conversation takes it.
fn due(deadline: Instant) -> Option<Instant> {
    (deadline != Instant::FAR_FUTURE).then_some(deadline)
}
