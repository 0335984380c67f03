//! A call under way, and how calls end.
//!
//! The rules guarded here: a call that nobody waits for any more is given up; whoever waits is
//! told, even if the connection is dropped; and every way to end without a result is told from
//! every other.

use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use antiphon::{
    CallId, Collector, DecodeError, Instant, OwnedError, OwnedInvalid, OwnedJson, OwnedOutcome,
    SendError,
};
use serde::de::DeserializeOwned;

use crate::handle::Handle;
use crate::places::{Place, Places};
use crate::roster::NoConnection;
use crate::session::{Guard, Patience, Session};

/// A call that waits for its answer. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct Pending {
    handle: Handle,
    call: CallId,
    /// None once the outcome has been given.
    place: Option<Place>,
}

impl Pending {
    pub(crate) fn new(handle: Handle, call: CallId, place: Place) -> Self {
        Self {
            handle,
            call,
            place: Some(place),
        }
    }

    /// Names the call.
    pub fn id(&self) -> CallId {
        self.call
    }

    /// Lets the thread wait for the end of the call, whatever it is. None if the outcome has been given.
    pub fn wait(&mut self) -> Option<OwnedOutcome> {
        // The deadline is the connection's to keep.
        self.wait_until(Instant::FAR_FUTURE)
    }

    /// The same for `span` at most; the call stays open if it takes longer. The outcome is given
    /// once.
    pub fn wait_for(&mut self, span: Duration) -> Option<OwnedOutcome> {
        self.wait_until(self.handle.deadline(Some(span)))
    }

    /// None if it takes longer, or the outcome has been given.
    fn wait_until(&mut self, deadline: Instant) -> Option<OwnedOutcome> {
        let place = self.place.as_ref()?;
        let session = self.handle.session();
        let outcome = wait_at(session, session.lock(), place, deadline, Places::take);
        if outcome.is_some() {
            self.place = None;
        }
        outcome
    }

    /// The same for a task. The outcome is given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        let Some(place) = &self.place else {
            return Poll::Pending;
        };
        let polled = poll_at(self.handle.session(), place, cx, Places::take);
        if polled.is_ready() {
            self.place = None;
        }
        polled
    }

    /// Moves the deadline to `timeout` from now, for a peer that reports progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has settled.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.handle.extend(self.call, timeout)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.handle.give_up(self.call, place);
        }
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({})", self.call.number())
    }
}

/// A batch that waits for its answers. Dropping it cancels the calls that have none.
#[must_use = "dropping a pending batch cancels its calls"]
pub struct PendingBatch {
    handle: Handle,
    place: Place,
    is_settled: bool,
}

impl PendingBatch {
    pub(crate) fn new(handle: Handle, place: Place) -> Self {
        Self {
            handle,
            place,
            is_settled: false,
        }
    }

    /// Lets the thread wait for all outcomes; none if [`poll`](Self::poll) has given them.
    pub fn wait(mut self) -> Collector {
        if self.is_settled {
            return Collector::new();
        }
        // Every call settles by its deadline, or with the connection.
        let never = Instant::FAR_FUTURE;
        let session = self.handle.session();
        let outcomes = wait_at(
            session,
            session.lock(),
            &self.place,
            never,
            Places::take_batch,
        );
        self.is_settled = true;
        outcomes.unwrap_or_default()
    }

    /// The same for a task. The outcomes are given once.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Collector> {
        if self.is_settled {
            return Poll::Pending;
        }
        let polled = poll_at(self.handle.session(), &self.place, cx, Places::take_batch);
        self.is_settled = polled.is_ready();
        polled
    }
}

impl Drop for PendingBatch {
    fn drop(&mut self) {
        if !self.is_settled {
            self.handle.give_up_batch(self.place.again());
        }
    }
}

impl fmt::Debug for PendingBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingBatch")
            .field("is_settled", &self.is_settled)
            .finish_non_exhaustive()
    }
}

/// Lets the thread wait for what `take` finds at a place, until `deadline`.
pub(crate) fn wait_at<'s, R>(
    session: &'s Session,
    mut state: Guard<'s>,
    place: &Place,
    deadline: Instant,
    take: fn(&mut Places, &Place) -> Option<R>,
) -> Option<R> {
    if state.conn.has_transmit() {
        state = session.write_out(state);
    }
    let mut is_reading = true;
    let mut waiting = Patience::until(deadline);
    loop {
        if let Some(found) = take(&mut state.places, place) {
            session.leave_waiting(&mut state);
            return Some(found);
        }
        if waiting.is_over(session) {
            session.leave_waiting(&mut state);
            return None;
        }
        let deadline = waiting.deadline();
        if is_reading {
            (state, is_reading) = session.read_instead(state, deadline);
            // Whether anything came in or not, it may be there now.
            continue;
        }
        session.begin_waiting(&mut state);
        let condition = state.places.condition(place);
        state = session.wait_on(&condition, state, deadline);
        session.end_waiting(&mut state);
    }
}

/// The same for a task.
fn poll_at<R>(
    session: &Session,
    place: &Place,
    cx: &mut Context<'_>,
    take: fn(&mut Places, &Place) -> Option<R>,
) -> Poll<R> {
    let mut state = session.lock();
    let found = take(&mut state.places, place);
    if found.is_none() {
        state.places.watch(place, cx.waker());
    }
    found.map_or(Poll::Pending, Poll::Ready)
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
    /// The peer's answer breaks the rules. It holds the first bytes of what the peer said.
    Invalid(OwnedInvalid),
    /// The result is not of the type asked for.
    Decode(DecodeError),
    /// The call was refused here: a limit, a closed connection, params without a JSON form.
    Rejected(SendError),
    /// A client that keeps its connections has none, and none opened while the call waited. No byte
    /// of the call left this side.
    NoConnection(NoConnection),
}

impl CallError {
    /// A result, or how the call ended instead.
    ///
    /// # Errors
    /// How the call ended instead.
    pub fn of(outcome: OwnedOutcome) -> Result<OwnedJson, Self> {
        match outcome {
            OwnedOutcome::Ok(result) => Ok(result),
            other => Err(Self::instead(other)),
        }
    }

    /// The same with the result decoded, where it lies: to move it costs as much as to read it.
    ///
    /// # Errors
    /// How the call ended instead, or [`Decode`](Self::Decode).
    #[inline]
    pub fn decoded<R: DeserializeOwned>(outcome: OwnedOutcome) -> Result<R, Self> {
        match &outcome {
            OwnedOutcome::Ok(result) => result.as_json().decode().map_err(Self::Decode),
            _ => Err(Self::instead(outcome)),
        }
    }

    /// What stands for an outcome that is no result.
    #[cold]
    fn instead(outcome: OwnedOutcome) -> Self {
        match outcome {
            OwnedOutcome::Err(error) => Self::Remote(error),
            OwnedOutcome::Invalid(invalid) => Self::Invalid(invalid),
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Missing => Self::Missing,
            OwnedOutcome::Unsent => Self::Unsent,
            // What a later core may add is an end without an answer, too.
            _ => Self::Closed,
        }
    }

    /// Whether there is no connection any more.
    pub fn is_closed(&self) -> bool {
        matches!(
            self,
            Self::Closed | Self::Unsent | Self::Rejected(SendError::Closed) | Self::NoConnection(_)
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
            Self::Invalid(invalid) => write!(f, "the answer is not valid: {invalid}"),
            Self::Decode(error) => write!(f, "the result is not what was expected: {error}"),
            Self::Rejected(error) => error.fmt(f),
            Self::NoConnection(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Its text is this one's already.
            Self::NoConnection(error) => error.source(),
            _ => None,
        }
    }
}

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
