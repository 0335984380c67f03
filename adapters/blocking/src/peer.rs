//! The handle to the other side: calls, notifications, batches, and the end.
//!
//! The rule guarded here: everything that waits has a deadline, and whoever waits holds no lock.
//! A call that finds the output full waits outside of it, so that answers never wait behind calls.

use std::fmt;
use std::io;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use antiphon::{
    Batch, CallId, CloseReason, Closed, Collector, DecodeError, Handle, Input, Instant,
    InvalidReason, OwnedError, OwnedJson, OwnedOutcome, Payload, SendError,
};
use serde::de::DeserializeOwned;

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
        Ok(PendingCall {
            peer: Self::unowned(Arc::clone(&self.shared)),
            call,
            outcome,
            is_settled: false,
        })
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
    /// # fn main() -> Result<(), antiphon_blocking::CallError> {
    /// # let peer: antiphon_blocking::Peer = unimplemented!();
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

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct PendingCall {
    peer: Peer,
    call: CallId,
    outcome: Receiver<OwnedOutcome>,
    is_settled: bool,
}

impl PendingCall {
    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait<R: DeserializeOwned>(self) -> Result<R, CallError> {
        let result = self.wait_raw()?;
        result.as_json().decode().map_err(CallError::Decode)
    }

    /// Waits for the result as the peer wrote it.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn wait_raw(self) -> Result<OwnedJson, CallError> {
        CallError::of(self.wait_outcome())
    }

    /// Waits for the end of the call, whatever it is.
    pub fn wait_outcome(mut self) -> OwnedOutcome {
        // The deadline is the connection's to keep; without a sender nothing will ever come.
        let outcome = self.outcome.recv().unwrap_or(OwnedOutcome::Aborted);
        self.is_settled = true;
        outcome
    }

    /// Waits for the end of the call, at most `span`; the call stays open if it takes longer. The
    /// outcome is given once.
    pub fn poll_outcome(&mut self, span: Duration) -> Option<OwnedOutcome> {
        let outcome = self.outcome.recv_timeout(span).ok()?;
        self.is_settled = true;
        Some(outcome)
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        let shared = &self.peer.shared;
        let deadline = timeout.map(|span| shared.now() + span);
        shared.turn(|state| state.conn.set_deadline(self.call, deadline))
    }

    /// Gives the call up and tells the peer, if the dialect does. The same as dropping it.
    pub fn cancel(self) {}
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        if !self.is_settled {
            self.peer.cancel(self.call);
        }
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({})", self.call.number())
    }
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

/// How a call ended without a result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The peer answered with an error object; [`OwnedError::as_error`] tells its kind.
    Remote(OwnedError),
    /// There was no answer in time. The peer may still be working.
    TimedOut,
    /// The connection ended first. The peer may or may not have acted.
    Closed,
    /// No byte of the call left this side: repeating it is safe.
    Unsent,
    /// The peer left this call out of its answer.
    Missing,
    /// The peer's answer breaks the rules.
    Invalid(InvalidReason),
    /// The result is not of the type asked for.
    Decode(DecodeError),
    /// The call was refused here: a limit, a closed connection, params without a JSON form.
    Rejected(SendError),
}

impl CallError {
    /// A result, or how the call ended instead.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        Err(match outcome {
            OwnedOutcome::Ok(result) => return Ok(result),
            OwnedOutcome::Err(error) => Self::Remote(error),
            OwnedOutcome::Invalid(reason) => Self::Invalid(reason),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // What a later core may add is an end without an answer, too.
            _ => Self::Closed,
        })
    }

    /// Whether there is no connection any more.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::Unsent | Self::Rejected(SendError::Closed)
        )
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote(error) => error.fmt(f),
            Self::TimedOut => f.write_str("there was no answer in time"),
            Self::Closed => f.write_str("the connection ended before the answer came"),
            Self::Unsent => f.write_str("the connection ended before the call was sent"),
            Self::Missing => f.write_str("the peer left the call out of its answer"),
            Self::Invalid(reason) => write!(f, "the answer is not valid: {reason}"),
            Self::Decode(error) => write!(f, "the result is not what was expected: {error}"),
            Self::Rejected(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<SendError> for CallError {
    fn from(error: SendError) -> Self {
        Self::Rejected(error)
    }
}

/// A call that was refused, with what was to run at its end.
pub struct CallRefused {
    /// Why it was refused.
    pub error: SendError,
    /// What was handed over, not run.
    pub then: Box<dyn FnOnce(OwnedOutcome) + Send>,
}

impl fmt::Debug for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallRefused({:?})", self.error)
    }
}

impl fmt::Display for CallRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for CallRefused {}

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
