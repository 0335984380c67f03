//! What can be done with a connection without waiting: calls, notifications, batches, the end.
//!
//! What is refused leaves no trace. A refusal for want of room is told from every other, so that
//! the caller can wait in [line](InLine). An adapter's peer is one of these and a way to wait.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use antiphon::{CallId, CloseReason, Closed, Instant, OwnedOutcome, Payload, SendError};

use crate::batch::BatchBuilder;
use crate::call::{CallRefused, Pending, PendingBatch, wait_at};
use crate::context::Context;
use crate::line::InLine;
use crate::request::Responder;
use crate::session::{Conn, Guard, Session, State, Tag, Then, thread_waker};
use crate::slot::{CallSlot, Gathering, call_slot};
use crate::text::Text;

/// How long a call waits for its answer, and a notification for room, if nothing else is said.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// What to do when there is no room for a new message.
#[derive(Debug)]
pub enum Room<'a> {
    /// Refuse it.
    Now,
    /// Let the thread wait for room, until this time.
    Wait(Instant),
    /// Refuse it, and wake this in its turn when there is room.
    Watch(&'a Waker, &'a mut InLine),
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
        self.session.close(CloseReason::Done);
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

    /// A handle to this connection that does not keep it open.
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

    /// Writes the params of a call that settles by `deadline`. Nothing is sent yet.
    ///
    /// # Errors
    /// The params have no JSON form.
    pub fn draft_call<'d>(
        &'d self,
        method: &'d str,
        params: impl Payload,
        deadline: Instant,
    ) -> Result<CallDraft<'d>, SendError> {
        Ok(CallDraft {
            handle: self,
            method,
            params: Text::of(params)?,
            deadline,
        })
    }

    /// Writes the params of a notification. Nothing is sent yet.
    ///
    /// # Errors
    /// The params have no JSON form.
    pub fn draft_notification<'d>(
        &'d self,
        method: &'d str,
        params: impl Payload,
    ) -> Result<NotificationDraft<'d>, SendError> {
        Ok(NotificationDraft {
            handle: self,
            method,
            params: Text::of(params)?,
        })
    }

    /// Begins a call that settles by `deadline`.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn call(
        &self,
        method: &str,
        params: impl Payload,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<Pending, SendError> {
        self.draft_call(method, params, deadline)?.send(room)
    }

    /// Like [`call`](Self::call), for a thread that is about to wait for the answer: it writes the
    /// call by itself, where the transport has an [`Outlet`](crate::Outlet).
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_now(
        &self,
        method: &str,
        params: impl Payload,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<Pending, SendError> {
        let (call, slot, state) = self.begin(method, &Text::of(params)?, deadline, room)?;
        drop(self.session.write_alone(state));
        Ok(Pending::new(Arc::clone(&self.session), call, slot))
    }

    /// Makes a call, and the thread waits for its end, whatever it is.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_and_wait(
        &self,
        method: &str,
        params: impl Payload,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<OwnedOutcome, SendError> {
        let (_, slot, state) = self.begin(method, &Text::of(params)?, deadline, room)?;
        // The deadline is the connection's to keep.
        let outcome = wait_at(&self.session, state, &slot, Instant::FAR_FUTURE);
        Ok(outcome.unwrap_or(OwnedOutcome::Aborted))
    }

    fn begin(
        &self,
        method: &str,
        params: &Text,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<(CallId, CallSlot, Guard<'_>), SendError> {
        let slot = call_slot();
        let (call, state) = self.with_room(room, |conn| {
            let tag = Tag::Once(Arc::clone(&slot));
            let sent = conn.call(method, params.all(), due(deadline), tag);
            sent.map_err(|rejected| rejected.error)
        })?;
        Ok((call, slot, state))
    }

    /// Begins a call and runs `then` when it ends, with the service's other work and in its
    /// order: what the peer sent before its answer has then been served, unless that waits for
    /// others to end. [`cancel`](Self::cancel) drops `then` unrun.
    ///
    /// # Errors
    /// Gives `then` back with the reason.
    pub fn call_then(
        &self,
        method: &str,
        params: impl Payload,
        deadline: Instant,
        room: Room<'_>,
        then: Then,
    ) -> Result<CallId, CallRefused> {
        let params = match Text::of(params) {
            Ok(params) => params,
            Err(error) => return Err(CallRefused { error, then }),
        };
        let mut kept = Some(Tag::Then(then));
        let sent = self.with_room(room, |conn| {
            // It is put back whenever the call is refused.
            let Some(tag) = kept.take() else {
                return Err(SendError::NotOpen);
            };
            let sent = conn.call_in_order(method, params.all(), due(deadline), tag);
            sent.map_err(|rejected| {
                kept = Some(rejected.value);
                rejected.error
            })
        });
        match sent {
            Ok((call, _)) => Ok(call),
            Err(error) => Err(CallRefused {
                error,
                then: match kept {
                    Some(Tag::Then(then)) => then,
                    _ => Box::new(drop),
                },
            }),
        }
    }

    /// Tells the peer something.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn notify(
        &self,
        method: &str,
        params: impl Payload,
        room: Room<'_>,
    ) -> Result<(), SendError> {
        self.draft_notification(method, params)?.send(room)
    }

    /// Sends what `batch` has as one message, and gives what waits for the outcomes.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room, and then the batch can be sent again; otherwise
    /// why the connection refused it.
    pub fn send_batch(
        &self,
        batch: &BatchBuilder,
        deadline: Instant,
        room: Room<'_>,
    ) -> Result<PendingBatch, SendError> {
        let number = batch.number();
        let gathering = Gathering::new(number, batch.calls());
        let (calls, mut state) = self.with_room(room, |conn| {
            let mut sending = conn.batch(due(deadline));
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
            Ok(calls)
        })?;
        let calls: Arc<[CallId]> = calls.into();
        if !calls.is_empty() {
            state.batches.push((number, Arc::clone(&calls)));
        }
        drop(self.session.write_out(state));
        let slot = Arc::clone(gathering.all());
        Ok(PendingBatch::new(Arc::clone(&self.session), calls, slot))
    }

    /// Does `send`, and keeps the lock for what is to be done about it; if it is refused for want of
    /// room, as `room` says.
    fn with_room<R>(
        &self,
        room: Room<'_>,
        mut send: impl FnMut(&mut Conn) -> Result<R, SendError>,
    ) -> Result<(R, Guard<'_>), SendError> {
        let mut own = InLine::new(&self.session);
        let (line, waker, deadline) = match room {
            Room::Now => (&mut own, None, None),
            Room::Wait(deadline) => (&mut own, None, Some(deadline)),
            Room::Watch(waker, line) => (line, Some(waker), None),
        };
        loop {
            let mut state = self.session.lock();
            state.conn.handle_time(self.session.now());
            let may_send = state.line.is_turn_of(line.place) || state.is_closing();
            let sent = match may_send {
                true => send(&mut state.conn),
                false => Err(SendError::Full),
            };
            if !matches!(sent, Err(SendError::Full)) {
                let known = state.line.leave(&mut line.place);
                state.dismiss(known);
                return sent.map(|sent| (sent, state));
            }
            drop(state);
            match (waker, deadline) {
                (None, None) => return Err(SendError::Full),
                (Some(waker), _) => {
                    if self.stand(line, waker.clone()) {
                        return Err(SendError::Full);
                    }
                }
                (None, Some(deadline)) => {
                    if self.session.now() >= deadline {
                        return Err(SendError::Full);
                    }
                    if self.stand(line, thread_waker()) {
                        self.session.park_until(deadline);
                    }
                }
            }
        }
    }

    /// Stands in line, unless there is room by now.
    fn stand(&self, line: &mut InLine, waker: Waker) -> bool {
        let mut state = self.session.lock();
        let may_send = state.line.is_turn_of(line.place) && !state.conn.is_full();
        if may_send || state.is_closing() {
            return false;
        }
        let before = state.line.wait(&mut line.place, waker);
        drop(state);
        drop(before);
        true
    }

    /// Lets the thread wait until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub fn flush(&self, timeout: Duration) -> io::Result<()> {
        let deadline = self.session.now() + timeout;
        let mark = self.mark();
        let written = self
            .session
            .wait_until(deadline, |state| state.written_to(mark));
        written.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Like [`flush`](Self::flush), for a task: pending until it is written. Take the mark once,
    /// from [`mark`](Self::mark).
    pub fn poll_flush(&self, mark: u64, waker: &Waker) -> Poll<io::Result<()>> {
        self.session
            .poll_until(waker, |state| state.written_to(mark))
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

    /// Like [`wait_finished`](Self::wait_finished), for a task.
    pub fn poll_finished(&self, waker: &Waker) -> Poll<Closed> {
        self.session.poll_until(waker, |state| state.finished())
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

    /// Like [`wait_open`](Self::wait_open), for a task.
    ///
    /// # Errors
    /// Why it will not be.
    pub fn poll_open(&self, waker: &Waker) -> Poll<io::Result<()>> {
        self.session.poll_until(waker, State::opened)
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

    /// Moves the deadline of a call to `timeout` from now; none for never.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, call: CallId, timeout: Option<Duration>) -> Result<(), SendError> {
        self.session.extend(call, timeout)
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

/// A call that has not been sent.
#[derive(Debug)]
pub struct CallDraft<'d> {
    handle: &'d Handle,
    method: &'d str,
    params: Text,
    deadline: Instant,
}

impl CallDraft<'_> {
    /// Begins the call.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn send(&self, room: Room<'_>) -> Result<Pending, SendError> {
        let (handle, method) = (self.handle, self.method);
        let (call, slot, state) = handle.begin(method, &self.params, self.deadline, room)?;
        drop(state);
        Ok(Pending::new(Arc::clone(&handle.session), call, slot))
    }
}

/// A notification that has not been sent.
#[derive(Debug)]
pub struct NotificationDraft<'d> {
    handle: &'d Handle,
    method: &'d str,
    params: Text,
}

impl NotificationDraft<'_> {
    /// Sends it.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room; otherwise what is wrong with it.
    pub fn send(&self, room: Room<'_>) -> Result<(), SendError> {
        let send = |conn: &mut Conn| conn.notify(self.method, self.params.all());
        self.handle.with_room(room, send)?;
        Ok(())
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
