//! The handle to the other side: calls, notifications, batches, and the end.
//!
//! The rule guarded here: everything that waits has a deadline, and whoever waits holds no lock.
//! A call that finds the output full waits outside of it, so that answers never wait behind calls.

use std::fmt;
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use antiphon::{
    Batch, CallId, CloseReason, Closed, Collector, Handle, Input, Instant, OwnedJson, OwnedOutcome,
    Payload, SendError,
};
use serde::de::DeserializeOwned;

use crate::call::{CallError, CallRefused, PendingCall};
use crate::shared::{Gathering, Shared, State, Tag};

/// How long a call waits for its answer, and a notification for room, if nothing else is said.
pub const CALL_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);

/// The other side of a connection. Clones are the same peer; any thread may use one.
///
/// When the last clone of a peer given by [`connect`](crate::connect) or
/// [`drive`](crate::drive) is dropped, the connection closes; [`flush`](Self::flush) first what
/// must arrive. The peer that a service is shown does not keep the connection open.
#[derive(Clone)]
pub struct Peer {
    shared: Arc<Shared>,
    /// Only held, to be dropped.
    _owner: Option<Arc<Owner>>,
}

/// Closes the connection with its last clone.
struct Owner {
    shared: Arc<Shared>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.close(CloseReason::Done);
    }
}

impl Peer {
    pub(crate) fn owning(shared: Arc<Shared>) -> Self {
        let owner = Arc::new(Owner {
            shared: Arc::clone(&shared),
        });
        Self {
            shared,
            _owner: Some(owner),
        }
    }

    pub(crate) fn unowned(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            _owner: None,
        }
    }

    /// Calls a method and waits for its result, at most 30 s.
    ///
    /// `params` is anything that antiphon takes as a payload: a reference to a value, JSON text,
    /// or `()` for none.
    ///
    /// # Errors
    /// How the call ended instead: see [`CallError`].
    pub fn call<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload + Copy,
    ) -> Result<R, CallError> {
        self.call_timeout(method, params, Some(CALL_TIMEOUT_DEFAULT))
    }

    /// The same with another timeout; `None` waits for ever.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_timeout<R: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Option<Duration>,
    ) -> Result<R, CallError> {
        self.start_call(method, params, timeout)?.wait()
    }

    /// The same with the result as the peer wrote it.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn call_raw(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Option<Duration>,
    ) -> Result<OwnedJson, CallError> {
        self.start_call(method, params, timeout)?.wait_raw()
    }

    /// Begins a call and does not wait for its result. Dropping what it gives cancels the call.
    ///
    /// # Errors
    /// [`CallError::Rejected`] if the call was refused, after waiting for room if the output was
    /// full.
    pub fn start_call(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Option<Duration>,
    ) -> Result<PendingCall, CallError> {
        let (waiter, outcome) = mpsc::channel();
        let tag = Tag::Once(waiter);
        let call = self.send_call(method, params, timeout, tag);
        let call = call.map_err(|(error, _)| CallError::Rejected(error))?;
        let peer = Self::unowned(Arc::clone(&self.shared));
        Ok(PendingCall::new(peer, call, outcome))
    }

    /// Begins a call and runs `then` when it ends, on the service's thread and in its order: what
    /// the peer sent before its answer has then been served. For relays, which keep no thread for
    /// a call. [`cancel`](Self::cancel) drops `then` unrun.
    ///
    /// # Errors
    /// Gives `then` back with the reason.
    pub fn call_then(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Option<Duration>,
        then: impl FnOnce(OwnedOutcome) + Send + 'static,
    ) -> Result<CallId, CallRefused> {
        let sent = self.send_call(method, params, timeout, Tag::Then(Box::new(then)));
        sent.map_err(|(error, tag)| match tag {
            Tag::Then(then) => CallRefused { error, then },
            Tag::Once(_) | Tag::Batch(_) => CallRefused {
                error,
                then: Box::new(drop),
            },
        })
    }

    /// Tells the peer something. If the output is full it waits for room, at most 30 s.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is no room by then; otherwise what is wrong with it.
    pub fn notify(&self, method: &str, params: impl Payload + Copy) -> Result<(), SendError> {
        let deadline = self.shared.now() + CALL_TIMEOUT_DEFAULT;
        self.with_room(deadline, (), |state, ()| {
            let sent = state.conn.notify(method, params);
            sent.map_err(|error| (error, ()))
        })
        .map_err(|(error, _)| error)
    }

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`notify`](Self::notify).
    pub fn try_notify(&self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.shared.turn(|state| state.conn.notify(method, params))
    }

    /// Sends several calls and notifications as one message, and waits at most 30 s for all their
    /// outcomes. `build` gives back the handles by which the outcomes are fetched.
    ///
    /// ```no_run
    /// # fn example(peer: antiphon_blocking::Peer) -> Result<(), antiphon_blocking::CallError> {
    /// let ((sum, name), mut outcomes) = peer.batch(|batch| {
    ///     batch.notify("log", &["adding"])?;
    ///     Ok((batch.call::<i64>("add", &(1, 2))?, batch.call::<String>("name", ())?))
    /// })?;
    /// let sum = outcomes.fetch(sum);
    /// let name = outcomes.fetch(name);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CallError::Rejected`] if `build` or the connection refused. How each call ended is told
    /// by the [`Collector`].
    pub fn batch<H>(
        &self,
        build: impl FnOnce(&mut BatchBuilder<'_, '_>) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        self.batch_timeout(Some(CALL_TIMEOUT_DEFAULT), build)
    }

    /// The same with another timeout; `None` waits for ever.
    ///
    /// `build` runs under the connection's lock: it must not use the peer.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_timeout<H>(
        &self,
        timeout: Option<Duration>,
        build: impl FnOnce(&mut BatchBuilder<'_, '_>) -> Result<H, SendError>,
    ) -> Result<(H, Collector), CallError> {
        let deadline = self.deadline(timeout);
        let gathering = Arc::new(Gathering::default());
        let built = self.with_room(deadline, build, |state, build| {
            if is_full(state) {
                return Err((SendError::Full, Some(build)));
            }
            let mut calls = 0;
            let due = (deadline != Instant::FAR_FUTURE).then_some(deadline);
            let mut batch = state.conn.batch(due);
            let mut builder = BatchBuilder {
                batch: &mut batch,
                gathering: &gathering,
                calls: &mut calls,
            };
            let handles = build(&mut builder).map_err(|error| (error, None))?;
            batch.send().map_err(|error| (error, None))?;
            // The lock on the connection is held: no outcome can have come yet.
            let mut gathered = lock(&gathering);
            gathered.1 = calls;
            Ok(handles)
        });
        let handles = built.map_err(|(error, _)| CallError::Rejected(error))?;
        let mut gathered = lock(&gathering);
        while gathered.1 > 0 {
            // Every call settles by its deadline, or with the connection.
            let waited = gathering.complete.wait(gathered);
            gathered = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok((handles, std::mem::take(&mut gathered.0)))
    }

    /// Tells the peer that a call is no longer wanted, and goes on waiting for its answer.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if it has settled; [`SendError::NoPush`] if the dialect has no way
    /// to say it.
    pub fn ask_cancel(&self, call: CallId) -> Result<(), SendError> {
        self.shared.turn(|state| state.conn.ask_cancel(call))
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub fn cancel(&self, call: CallId) -> bool {
        // What the tag holds is dropped without the lock: it may be a responder.
        let tag = self.shared.turn(|state| state.conn.cancel(call));
        tag.is_some()
    }

    /// Waits until all that was sent so far has been written.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut) if that takes longer than `timeout`;
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) if it will never be.
    pub fn flush(&self, timeout: Duration) -> io::Result<()> {
        let deadline = self.shared.now() + timeout;
        let mut state = self.shared.lock();
        let mark = state.conn.transmit_queued();
        loop {
            if state.written >= mark {
                return Ok(());
            }
            if state.write_failed.is_some() || state.writer_done {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.shared.now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            state = self.shared.wait_changed(state, deadline);
        }
    }

    /// Ends the conversation in good order: nothing new is taken from either side, and the
    /// connection closes once all is answered and written, or when the configuration's
    /// `drain_time_max` has passed.
    pub fn drain(&self) {
        self.shared.turn(|state| {
            state.closing = true;
            state.conn.drain();
            self.shared.pump(state, &mut Input::none());
        });
    }

    /// Ends the conversation at once. What is queued is still written; open calls settle as
    /// [`CallError::Closed`], open requests are given up.
    pub fn close(&self, reason: CloseReason) {
        self.shared.close(reason);
    }

    /// Waits until the connection is over and its transport let go. `None` if that takes longer
    /// than `timeout`.
    pub fn wait_closed(&self, timeout: Duration) -> Option<Closed> {
        let deadline = self.shared.now() + timeout;
        let mut state = self.shared.lock();
        while state.finished.is_none() && self.shared.now() < deadline {
            state = self.shared.wait_changed(state, deadline);
        }
        state.finished
    }

    /// Why the connection takes nothing more in; none while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.shared.lock().closed
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn transport_error(&self) -> Option<io::Error> {
        self.shared.lock().fault()
    }

    /// The same peer, without keeping the connection open.
    pub(crate) fn unowned_clone(&self) -> Self {
        Self::unowned(Arc::clone(&self.shared))
    }

    pub(crate) fn extend(&self, call: CallId, timeout: Option<Duration>) -> Result<(), SendError> {
        let deadline = timeout.map(|span| self.shared.now() + span);
        let moved = |state: &mut State| state.conn.set_deadline(call, deadline);
        self.shared.turn(moved)
    }

    fn deadline(&self, timeout: Option<Duration>) -> Instant {
        timeout.map_or(Instant::FAR_FUTURE, |span| self.shared.now() + span)
    }

    fn send_call(
        &self,
        method: &str,
        params: impl Payload + Copy,
        timeout: Option<Duration>,
        tag: Tag,
    ) -> Result<CallId, (SendError, Tag)> {
        let deadline = self.deadline(timeout);
        let due = (deadline != Instant::FAR_FUTURE).then_some(deadline);
        let sent = self.with_room(deadline, tag, |state, tag| {
            let sent = state.conn.call(method, params, due, tag);
            sent.map_err(|rejected| (rejected.error, Some(rejected.value)))
        });
        sent.map_err(|(error, tag)| (error, tag.unwrap_or(Tag::Then(Box::new(drop)))))
    }

    /// Does `send` as soon as it is not refused for want of room, at `deadline` at the latest.
    fn with_room<V, R, B: Into<Option<V>>>(
        &self,
        deadline: Instant,
        value: V,
        mut send: impl FnMut(&mut State, V) -> Result<R, (SendError, B)>,
    ) -> Result<R, (SendError, Option<V>)> {
        let mut value = value;
        let mut state = self.shared.lock();
        loop {
            let now = self.shared.now();
            state.conn.handle_timeout(now);
            let (error, back) = match send(&mut state, value) {
                Ok(sent) => {
                    self.shared.wake(&state);
                    return Ok(sent);
                }
                Err((error, back)) => (error, back.into()),
            };
            value = match back {
                Some(back) if error == SendError::Full && now < deadline => back,
                back => return Err((error, back)),
            };
            state = self.shared.wait_changed(state, deadline);
        }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Peer")
            .field("conn", &state.conn)
            .finish_non_exhaustive()
    }
}

/// Whether new output would be refused for want of room.
fn is_full(state: &State) -> bool {
    let waiting = state.conn.transmit_queued() - state.conn.transmit_done();
    waiting > state.conn.config().outbox_bytes_soft as u64
}

fn lock(gathering: &Gathering) -> std::sync::MutexGuard<'_, (Collector, usize)> {
    let state = gathering.state.lock();
    state.unwrap_or_else(PoisonError::into_inner)
}

/// Builds one batch. Made by [`Peer::batch`].
pub struct BatchBuilder<'b, 'c> {
    batch: &'b mut Batch<'c, Tag>,
    gathering: &'b Arc<Gathering>,
    calls: &'b mut usize,
}

impl BatchBuilder<'_, '_> {
    /// Adds a call whose result is to be decoded into `R`.
    ///
    /// # Errors
    /// Why it was refused. The entries before it stay.
    pub fn call<R>(&mut self, method: &str, params: impl Payload) -> Result<Handle<R>, SendError> {
        let tag = Tag::Batch(Arc::clone(self.gathering));
        let handle = self.batch.call(method, params, tag);
        let handle = handle.map_err(|rejected| rejected.error)?;
        *self.calls += 1;
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

#[cfg(test)]
mod tests {
    use super::{CALL_TIMEOUT_DEFAULT, CallError};
    use crate::driver::drive;
    use antiphon::Config;
    use std::io;
    use std::thread;
    use std::time::Duration;

    // CLI-06
    #[test]
    fn a_call_without_a_timeout_has_one_of_thirty_seconds_and_none_only_on_request() {
        let mut config = Config::new();
        config.write_time_max = None;
        let (peer, _driver) = drive((io::empty(), io::sink()), config, ());
        let unlimited = peer.start_call("m", (), None);
        let timeout = |peer: &super::Peer| peer.shared.lock().conn.poll_timeout();
        assert_eq!(timeout(&peer), None);
        let before = peer.shared.now();
        let calling = {
            let peer = peer.clone();
            thread::spawn(move || peer.call::<()>("m", ()))
        };
        let deadline = loop {
            match timeout(&peer) {
                Some(deadline) => break deadline,
                None => thread::yield_now(),
            }
        };
        assert_eq!(CALL_TIMEOUT_DEFAULT, Duration::from_secs(30));
        // The connection keeps a bound that is never later than the deadline and not much earlier.
        assert!(deadline >= before + Duration::from_secs(29), "{deadline:?}");
        assert!(deadline <= peer.shared.now() + Duration::from_secs(30));
        drop(unlimited);
        peer.close(antiphon::CloseReason::Done);
        assert!(matches!(calling.join(), Ok(Err(CallError::Unsent))));
    }
}
