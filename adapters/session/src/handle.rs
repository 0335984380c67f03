//! What can be done with a connection without waiting: calls, notifications, batches, the end.
//!
//! The rule guarded here: what is refused comes back, and whoever wants to wait for room is told
//! that it was room that lacked. An adapter's peer is one of these and a way to wait.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use antiphon::{
    Batch, CallId, CloseReason, Closed, Handle as Entry, Instant, OwnedOutcome, Payload, SendError,
};

use crate::call::{CallRefused, Pending, PendingBatch, wait_at};
use crate::context::Context;
use crate::places::{Place, Places};
use crate::request::Responder;
use crate::session::{Guard, Session, Signal, State, Tag, Then};

/// How long a call waits for its answer, and a notification for room, if nothing else is said.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What to do when there is no room for a new message.
#[derive(Clone, Copy, Debug)]
pub enum Room<'a> {
    /// Refuse it.
    Now,
    /// Let the thread wait for room, until this time.
    Wait(Instant),
    /// Refuse it, and wake this when there may be room.
    Watch(&'a Waker),
}

/// The other side of a connection. Clones are the same; any thread or task may use one.
#[derive(Clone)]
pub struct Handle {
    session: Arc<Session>,
    /// Only held, to be dropped.
    _owner: Option<Arc<Owner>>,
}

/// Closes the connection with its last clone.
struct Owner {
    session: Arc<Session>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.session
            .when_free(|session| session.close(CloseReason::Done));
    }
}

impl Handle {
    /// A handle that closes the connection when its last clone is dropped.
    pub fn owning(session: Arc<Session>) -> Self {
        let owner = Arc::new(Owner {
            session: Arc::clone(&session),
        });
        Self {
            session,
            _owner: Some(owner),
        }
    }

    /// A handle that does not keep the connection open.
    pub fn unowned(session: Arc<Session>) -> Self {
        Self {
            session,
            _owner: None,
        }
    }

    /// The same connection, without keeping it open.
    #[must_use]
    pub fn to_unowned(&self) -> Self {
        Self::unowned(Arc::clone(&self.session))
    }

    /// The other side of a request, without keeping the connection open.
    pub fn of(responder: &Responder) -> Self {
        Self::unowned(Arc::clone(responder.session()))
    }

    /// The connection itself.
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// What the transport knows of the other side.
    pub fn context(&self) -> &Context {
        self.session.context()
    }

    /// The time that lies `timeout` ahead; [`Instant::FAR_FUTURE`] for none.
    pub fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.session.now() + span)
    }

    /// Begins a call that settles by `deadline`.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn call(
        &self,
        method: &str,
        params: impl Payload + Copy,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<Pending, SendError> {
        let (call, place, mut state) = self.begin(method, params, deadline, room)?;
        self.session.wake(&mut state);
        drop(state);
        Ok(Pending::new(self.to_unowned(), call, place))
    }

    /// The same for a thread that is about to wait for the answer: it writes the call by itself,
    /// where the transport has an [`Outlet`](crate::Outlet).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_now(
        &self,
        method: &str,
        params: impl Payload + Copy,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<Pending, SendError> {
        let (call, place, state) = self.begin(method, params, deadline, room)?;
        drop(self.session.write_out(state));
        Ok(Pending::new(self.to_unowned(), call, place))
    }

    /// The same, and the thread waits for the end of the call, whatever it is, under the lock that it has.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_and_wait(
        &self,
        method: &str,
        params: impl Payload + Copy,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<OwnedOutcome, SendError> {
        let (_, place, state) = self.begin(method, params, deadline, room)?;
        let state = self.session.write_out(state);
        // The deadline is the connection's to keep.
        let outcome = wait_at(
            &self.session,
            state,
            &place,
            Instant::FAR_FUTURE,
            Places::take,
        );
        Ok(outcome.unwrap_or(OwnedOutcome::Aborted))
    }

    fn begin(
        &self,
        method: &str,
        params: impl Payload + Copy,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<(CallId, Place, Guard<'_>), SendError> {
        let sent = self.with_room(room, (), |state, ()| {
            let tag = Tag::Once(state.places.next());
            let sent = state.conn.call(method, params, due(deadline), tag);
            sent.map(|call| (call, state.places.open()))
                .map_err(|rejected| (rejected.error, Some(())))
        });
        let ((call, place), state) = sent.map_err(|(error, _)| error)?;
        Ok((call, place, state))
    }

    /// Begins a call and runs `then` when it ends, with the service's other work and in its
    /// order: what the peer sent before its answer has then been served, unless that waits for others to
    /// end.
    /// [`cancel`](Self::cancel) drops `then` unrun.
    ///
    /// # Errors
    /// Gives `then` back with the reason.
    pub fn call_then(
        &self,
        method: &str,
        params: impl Payload + Copy,
        deadline: Instant,
        room: Room<'_>,
        then: Then,
    ) -> Result<CallId, CallRefused> {
        let tag = Tag::Then(then);
        let sent = self.with_room(room, tag, |state, tag| {
            let sent = state.conn.call_in_order(method, params, due(deadline), tag);
            sent.map_err(|rejected| (rejected.error, Some(rejected.value)))
        });
        let (call, mut state) = sent.map_err(|(error, tag)| match tag {
            Some(Tag::Then(then)) => CallRefused { error, then },
            Some(Tag::Once(_) | Tag::Batch(_)) | None => CallRefused {
                error,
                then: Box::new(drop),
            },
        })?;
        self.session.wake(&mut state);
        Ok(call)
    }

    /// Tells the peer something.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn notify(
        &self,
        method: &str,
        params: impl Payload + Copy,
        room: Room<'_>,
    ) -> Result<(), SendError> {
        let sent = self.with_room(room, (), |state, ()| {
            let sent = state.conn.notify(method, params);
            sent.map_err(|error| (error, Some(())))
        });
        let ((), mut state) = sent.map_err(|(error, _)| error)?;
        self.session.wake(&mut state);
        Ok(())
    }

    /// Sends several calls and notifications as one message. `build` runs under the connection's
    /// lock and must not use the connection otherwise, which panics. Gives what `build` gave, and what
    /// waits for the outcomes.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room, and then `build` comes back unused; otherwise
    /// why `build` or the connection refused.
    pub fn batch<H, F>(
        &self,
        deadline: Instant,
        room: Room<'_>,
        build: F,
    ) -> Result<(H, PendingBatch), (SendError, Option<F>)>
    where
        F: FnOnce(&mut BatchBuilder<'_, '_>) -> Result<H, SendError>,
    {
        let ((handles, place), state) = self.with_room(room, build, |state, build| {
            if state.conn.is_full() {
                return Err((SendError::Full, Some(build)));
            }
            let (place, mut calls) = (state.places.next(), Vec::new());
            let mut batch = state.conn.batch(due(deadline));
            let mut builder = BatchBuilder::new(&mut batch, place, &mut calls);
            let handles = build(&mut builder).map_err(|error| (error, None))?;
            batch.send().map_err(|error| (error, None))?;
            Ok((handles, state.places.open_batch(calls)))
        })?;
        drop(self.session.write_out(state));
        Ok((handles, PendingBatch::new(self.to_unowned(), place)))
    }

    /// Does `send`, and keeps the lock for what is to be done about it; if it is refused for want of
    /// capacity, as `room` says.
    fn with_room<V, R>(
        &self,
        room: Room<'_>,
        mut value: V,
        mut send: impl FnMut(&mut State, V) -> Result<R, (SendError, Option<V>)>,
    ) -> Result<(R, Guard<'_>), (SendError, Option<V>)> {
        let mut state = self.session.lock();
        loop {
            state.conn.handle_time(self.session.now());
            let sent = self.session.lend(|| send(&mut state, value));
            let (error, back) = match sent {
                Ok(done) => return Ok((done, state)),
                Err(refused) => refused,
            };
            match (room, back) {
                (Room::Wait(deadline), Some(back))
                    if error == SendError::Full && self.session.now() < deadline =>
                {
                    value = back;
                    state = self.session.wait(Signal::Changed, state, deadline);
                }
                (Room::Watch(waker), back) if error == SendError::Full => {
                    state.watch(waker);
                    return Err((error, back));
                }
                (_, back) => return Err((error, back)),
            }
        }
    }

    /// Lets the thread wait until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub fn flush(&self, timeout: Duration) -> io::Result<()> {
        let deadline = self.session.now() + timeout;
        let mark = self.session.lock().conn.transmit_queued();
        let written = self
            .session
            .wait_until(deadline, |state| match state.is_written(mark) {
                Ok(false) => None,
                settled => Some(settled.map(drop)),
            });
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The same for a task: pending until it is written. Take the mark once, from
    /// [`mark`](Self::mark).
    pub fn poll_flush(&self, mark: u64, waker: &Waker) -> Poll<io::Result<()>> {
        let mut state = self.session.lock();
        match state.is_written(mark) {
            Ok(false) => {
                state.watch(waker);
                Poll::Pending
            }
            settled => Poll::Ready(settled.map(drop)),
        }
    }

    /// How many bytes were ever queued to be written.
    pub fn mark(&self) -> u64 {
        self.session.lock().conn.transmit_queued()
    }

    /// Lets the thread wait until the connection is over and its transport let go. `None` if that
    /// takes longer than `timeout`.
    pub fn wait_finished(&self, timeout: Duration) -> Option<Closed> {
        let deadline = self.session.now() + timeout;
        self.session.wait_until(deadline, |state| state.finished())
    }

    /// The same for a task.
    pub fn poll_finished(&self, waker: &Waker) -> Poll<Closed> {
        let mut state = self.session.lock();
        match state.finished() {
            Some(why) => Poll::Ready(why),
            None => {
                state.watch(waker);
                Poll::Pending
            }
        }
    }

    /// Lets the thread wait until messages can be exchanged: at once on a plain stream, after the
    /// handshake of a WebSocket.
    ///
    /// # Errors
    /// Why that will not be; [`TimedOut`](io::ErrorKind::TimedOut) if it takes longer than
    /// `timeout`.
    pub fn wait_open(&self, timeout: Duration) -> io::Result<()> {
        let deadline = self.session.now() + timeout;
        let opened = self.session.wait_until(deadline, State::opened);
        opened.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// The same for a task.
    ///
    /// # Errors
    /// Why it will not be.
    pub fn poll_open(&self, waker: &Waker) -> Poll<io::Result<()>> {
        let mut state = self.session.lock();
        match state.opened() {
            Some(opened) => Poll::Ready(opened),
            None => {
                state.watch(waker);
                Poll::Pending
            }
        }
    }

    /// Tells the peer that a call is no longer wanted, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if it has settled; [`SendError::NoPush`] if the dialect has no way
    /// to say it.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.session.act(|state| state.conn.ask_cancel(call))
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub fn cancel(&self, call: CallId) -> bool {
        // What a function holds is dropped without the lock: it may be a responder.
        let (is_open, _then) = self.session.act(|state| match state.conn.cancel(call) {
            Some(tag) => (true, state.settle_cancelled(call, tag)),
            None => (false, None),
        });
        is_open
    }

    /// The same for a call that nobody waits for any more.
    pub(crate) fn give_up(&self, call: CallId, place: Place) {
        self.session.when_free(move |session| {
            session.act(|state| {
                // Whoever waited was the one who gives up.
                let _ = state.conn.cancel(call);
                state.places.close(&place);
            });
        });
    }

    /// The same for the calls of a batch.
    pub(crate) fn give_up_batch(&self, place: Place) {
        self.session.when_free(move |session| {
            session.act(|state| {
                for call in state.places.take_calls(&place) {
                    // As above. One that has settled is not open any more.
                    let _ = state.conn.cancel(call);
                }
                state.places.close(&place);
            });
        });
    }

    /// Moves the deadline of a call to `timeout` from now; none for never.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, call: CallId, timeout: Option<Duration>) -> Result<(), SendError> {
        let deadline = timeout.map(|span| self.session.now() + span);
        self.session
            .act(|state| state.conn.set_deadline(call, deadline))
    }

    /// Ends the conversation in good order: nothing new is taken from either side, and the
    /// connection closes once all is answered and written, or when the configuration's
    /// `drain_time_max` has passed.
    pub fn drain(&self) {
        self.session.drain();
    }

    /// Ends the conversation at once. What is queued is still written; open calls settle as
    /// closed, open requests are given up.
    pub fn close(&self, reason: CloseReason) {
        self.session.close(reason);
    }

    /// Why the connection takes nothing more in; none while it does.
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
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.session.fmt(f)
    }
}

/// A deadline as the conversation takes it.
fn due(deadline: Instant) -> Option<Instant> {
    (deadline != Instant::FAR_FUTURE).then_some(deadline)
}

/// Builds one batch. Made by [`Handle::batch`], for the function that fills it.
pub struct BatchBuilder<'b, 'c> {
    batch: &'b mut Batch<'c, Tag>,
    /// Where the outcomes are awaited.
    place: Place,
    calls: &'b mut Vec<CallId>,
}

impl<'b, 'c> BatchBuilder<'b, 'c> {
    pub(crate) fn new(
        batch: &'b mut Batch<'c, Tag>,
        place: Place,
        calls: &'b mut Vec<CallId>,
    ) -> Self {
        Self {
            batch,
            place,
            calls,
        }
    }

    /// Adds a call whose result is to be decoded into `R`.
    ///
    /// # Errors
    /// Why it was refused. The entries before it stay.
    pub fn call<R>(&mut self, method: &str, params: impl Payload) -> Result<Entry<R>, SendError> {
        let tag = Tag::Batch(self.place.again());
        let handle = self.batch.call(method, params, tag);
        let handle = handle.map_err(|rejected| rejected.error)?;
        self.calls.push(handle.call());
        Ok(handle)
    }

    /// Adds a notification.
    ///
    /// # Errors
    /// Why it was refused. The entries before it stay.
    pub fn notify(&mut self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.batch.notify(method, params)
    }
}

impl fmt::Debug for BatchBuilder<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.batch.fmt(f)
    }
}
