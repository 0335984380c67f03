//! The handle to the other side: calls, notifications, batches, and the end.
//!
//! The rules guarded here: everything that waits has a deadline; a future that is dropped gives
//! its calls up; and a call that finds the output full waits outside of it, so that answers never
//! wait behind calls.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use crate::{
    BatchBuilder, CALL_TIMEOUT_DEFAULT, CallError, Context, Handle, InLine, Pending, Responder,
    Room,
};
use antiphon::{
    CallId, CloseReason, Closed, Collector, Instant, OwnedJson, OwnedOutcome, Payload, SendError,
};
use serde::de::DeserializeOwned;

use crate::runtime::{SharedRuntime, until};

/// The other side of a connection. Clones are the same peer; any task may use one.
///
/// When the last clone of a peer given by `connect` or `drive` is dropped, the connection closes;
/// [`flush`](Self::flush) first what must arrive. The peer that a service is shown does not keep
/// the connection open.
#[derive(Clone)]
pub struct Peer {
    handle: Handle,
    runtime: SharedRuntime,
}

impl Peer {
    pub(crate) fn new(handle: Handle, runtime: SharedRuntime) -> Self {
        Self { handle, runtime }
    }

    /// What the transport knows of the other side.
    pub fn context(&self) -> &Context {
        self.handle.context()
    }

    /// The connection without waiting, for what is shared with other adapters.
    pub fn handle(&self) -> &Handle {
        &self.handle
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
        self.call_timeout(method, params, Some(CALL_TIMEOUT_DEFAULT))
            .await
    }

    /// The same with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub async fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload,
        timeout: Option<Duration>,
    ) -> Result<R, CallError> {
        let result = self.call_raw(method, params, timeout).await?;
        result.as_json().decode().map_err(CallError::Decode)
    }

    /// The same with the result as the peer wrote it.
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
        let deadline = self.handle.deadline(timeout);
        let call = self.handle.draft_call(method, params, deadline)?;
        let pending = self.with_room(deadline, |room| call.send(room)).await?;
        Ok(PendingCall { pending })
    }

    /// Tells the peer something. If the output is full it waits for room, at most 30 s.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room by then; otherwise what is wrong with it.
    pub async fn notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        let deadline = self.handle.deadline(Some(CALL_TIMEOUT_DEFAULT));
        let draft = self.handle.draft_notification(method, params)?;
        self.with_room(deadline, |room| draft.send(room)).await
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn try_notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.handle.notify(method, params, Room::Now)
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
        self.batch_timeout(Some(CALL_TIMEOUT_DEFAULT), build).await
    }

    /// The same with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub async fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        let deadline = self.handle.deadline(timeout);
        let (handles, batch) = BatchBuilder::build(build)?;
        let send = |room: Room<'_>| self.handle.send_batch(&batch, deadline, room);
        let mut pending = self.with_room(deadline, send).await?;
        Ok((handles, poll_fn(|cx| pending.poll(cx)).await))
    }

    /// Waits until messages can be exchanged: at once on a plain stream, after the handshake of a
    /// WebSocket, which has a deadline of its own. What is sent before waits.
    ///
    /// # Errors
    /// Why that will not be.
    pub async fn opened(&self) -> io::Result<()> {
        poll_fn(|cx| self.handle.poll_open(cx.waker())).await
    }

    /// Tells the peer that a call is no longer wanted, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if it has settled; [`SendError::NoPush`] if the dialect has no way
    /// to say it.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.handle.ask_cancel(call)
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub fn cancel(&self, call: CallId) -> bool {
        self.handle.cancel(call)
    }

    /// Waits until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub async fn flush(&self, timeout: Duration) -> io::Result<()> {
        let (mark, deadline) = (self.handle.mark(), self.handle.deadline(Some(timeout)));
        let written = poll_fn(|cx| self.handle.poll_flush(mark, cx.waker()));
        let written = until(&*self.runtime, deadline, written).await;
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Ends the conversation in good order: nothing new is taken from either side, and the
    /// connection closes once all is answered and written, or when the configuration's
    /// `drain_time_max` has passed.
    pub fn drain(&self) {
        self.handle.drain();
    }

    /// Ends the conversation at once. What is queued is still written; open calls settle as
    /// [`CallError::Closed`], open requests are given up.
    pub fn close(&self, reason: CloseReason) {
        self.handle.close(reason);
    }

    /// Waits until the connection is over and its transport let go. `None` if that takes longer
    /// than `timeout`.
    pub async fn wait_closed(&self, timeout: Duration) -> Option<Closed> {
        let deadline = self.handle.deadline(Some(timeout));
        let finished = poll_fn(|cx| self.handle.poll_finished(cx.waker()));
        until(&*self.runtime, deadline, finished).await
    }

    /// Why the connection takes nothing more in; none while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.handle.closed()
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn transport_error(&self) -> Option<io::Error> {
        self.handle.transport_error()
    }

    /// The same peer, without keeping the connection open.
    #[must_use]
    pub fn to_unowned(&self) -> Self {
        Self::new(self.handle.to_unowned(), self.runtime.clone())
    }

    /// Does `send` as soon as it is not refused for want of room, at `deadline` at the latest.
    async fn with_room<R>(
        &self,
        deadline: Instant,
        mut send: impl FnMut(Room<'_>) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        let mut line = InLine::new(self.handle.session());
        let sent = poll_fn(|cx| match send(Room::Watch(cx.waker(), &mut line)) {
            Err(SendError::Full) => Poll::Pending,
            sent => Poll::Ready(sent),
        });
        let sent = until(&*self.runtime, deadline, sent).await;
        sent.unwrap_or(Err(SendError::Full))
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// A call that waits for its answer: a future of its outcome. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
#[derive(Debug)]
pub struct PendingCall {
    pending: Pending,
}

impl PendingCall {
    /// Names the call.
    pub fn id(&self) -> CallId {
        self.pending.id()
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub async fn result<R: DeserializeOwned>(self) -> Result<R, CallError> {
        CallError::decoded(self.await)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.pending.extend(timeout)
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}

/// The end of the call, whatever it is.
impl Future for PendingCall {
    type Output = OwnedOutcome;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<OwnedOutcome> {
        self.get_mut().pending.poll(cx)
    }
}

/// Ready when a request that has begun is cancelled by the peer, or its connection has ended: for
/// a handler to stop at.
///
/// ```no_run
/// # async fn example(reply: antiphon_net::Responder) {
/// antiphon_net::cancelled(&reply).await;
/// // The peer awaits an answer all the same; the dialect says which.
/// let _ = reply.cancelled();
/// # }
/// ```
pub async fn cancelled(reply: &Responder) {
    poll_fn(|cx| reply.poll_cancelled(cx.waker())).await;
}
