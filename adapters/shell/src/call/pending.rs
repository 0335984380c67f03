//! Calls and batches that have been sent and wait for their answers.
//!
//! Dropping one cancels it. The caller gets an outcome even if the connection is dropped.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use antiphon::{CallId, Collector, Instant, OwnedId, OwnedOutcome, Payload, Rejected, SendError};
use serde::de::DeserializeOwned;

use crate::call::call_error::CallError;
use crate::call::intercepted::{Intercepted, InterceptedBatch};
use crate::runtime::threads::{block_on, within};
use crate::session::{Conn, Session, Tag};
use crate::slot::{CallSlot, Slot, give_back};
use crate::work::seat::Away;

/// A call that waits for its answer: a future of its outcome. Dropping it cancels the call.
#[must_use = "dropping a pending call cancels it"]
pub struct PendingCall {
    open: Open<[CallId; 1], CallSlot>,
    away: Option<Away>,
    /// `None` without interceptors.
    intercepted: Option<Box<Intercepted>>,
}

impl PendingCall {
    pub(crate) fn new(session: Arc<Session>, call: CallId, slot: CallSlot) -> Self {
        Self {
            open: Open {
                session,
                calls: [call],
                slot: Some(slot),
            },
            away: None,
            intercepted: None,
        }
    }

    pub(crate) fn intercepted_by(mut self, intercepted: Intercepted) -> Self {
        self.intercepted = Some(Box::new(intercepted));
        self
    }

    /// The call's id.
    pub fn id(&self) -> CallId {
        self.open.calls[0]
    }

    /// Waits for the result.
    ///
    /// # Errors
    /// How the call ended without a result.
    pub async fn result<R: DeserializeOwned>(self) -> Result<R, CallError> {
        CallError::decoded(self.await)
    }

    /// Blocks this thread until the result is there.
    ///
    /// # Errors
    /// How the call ended without a result.
    pub fn wait<R: DeserializeOwned>(self) -> Result<R, CallError> {
        CallError::decoded(self.wait_outcome())
    }

    /// Blocks this thread until the call ends, and returns its outcome.
    pub fn wait_outcome(mut self) -> OwnedOutcome {
        // The outcome is returned only once.
        match self.open.slot {
            Some(_) => block_on(&mut self),
            None => OwnedOutcome::Aborted,
        }
    }

    /// Blocks this thread until the call ends, for `span` at most. Returns `None` if the call has not
    /// ended by then, or if its outcome was returned before.
    pub fn poll_outcome(&mut self, span: Duration) -> Option<OwnedOutcome> {
        self.open.slot.as_ref()?;
        block_on(within(span, self))
    }

    /// Moves the call's deadline to `timeout` from now (`None`: never), for example when the peer has
    /// reported progress.
    ///
    /// # Errors
    /// [`SendError::NotOpen`] if the call has ended.
    pub fn extend(&self, timeout: Option<Duration>) -> Result<(), SendError> {
        self.open.session.extend(self.open.calls[0], timeout)
    }

    /// Cancels the call, also at the peer if the dialect has a cancel. Dropping it does the same.
    pub fn cancel(self) {}
}

/// The output is the outcome of the call. It is returned only once.
impl Future for PendingCall {
    type Output = OwnedOutcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<OwnedOutcome> {
        let this = &mut *self;
        let Some(slot) = &this.open.slot else {
            return Poll::Pending;
        };
        let (polled, address) = (slot.poll(cx.waker()), this.open.session.address());
        let outcome = ready!(Away::track(&mut this.away, address, polled));
        if let Some(slot) = self.open.slot.take() {
            give_back(slot);
        }
        Poll::Ready(match self.intercepted.take() {
            None => outcome,
            Some(intercepted) => intercepted.end_outcome(outcome),
        })
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingCall({})", self.open.calls[0].number())
    }
}

/// A batch that waits for its answers: a future of all outcomes. Dropping it cancels the calls that
/// have none.
#[must_use = "dropping a pending batch cancels its calls"]
pub struct PendingBatch {
    open: Open<Arc<[CallId]>, Arc<Slot<Collector>>>,
    away: Option<Away>,
    /// `None` without interceptors.
    intercepted: Option<InterceptedBatch>,
}

impl PendingBatch {
    pub(crate) fn new(
        session: Arc<Session>,
        calls: Arc<[CallId]>,
        slot: Arc<Slot<Collector>>,
    ) -> Self {
        Self {
            open: Open {
                session,
                calls,
                slot: Some(slot),
            },
            away: None,
            intercepted: None,
        }
    }

    pub(crate) fn intercepted_by(mut self, intercepted: InterceptedBatch) -> Self {
        self.intercepted = Some(intercepted);
        self
    }
}

/// The output is all outcomes. They are returned only once.
impl Future for PendingBatch {
    type Output = Collector;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Collector> {
        let this = &mut *self;
        let Some(slot) = &this.open.slot else {
            return Poll::Pending;
        };
        let (polled, address) = (slot.poll(cx.waker()), this.open.session.address());
        let outcomes = ready!(Away::track(&mut this.away, address, polled));
        self.open.slot = None;
        Poll::Ready(match self.intercepted.take() {
            None => outcomes,
            Some(intercepted) => intercepted.end(Ok(outcomes)).unwrap_or_default(),
        })
    }
}

/// Calls whose outcome was not returned yet. Dropping it cancels them.
struct Open<C: AsRef<[CallId]>, S> {
    session: Arc<Session>,
    calls: C,
    /// `None` after the outcome was returned.
    slot: Option<S>,
}

impl<C: AsRef<[CallId]>, S> Drop for Open<C, S> {
    fn drop(&mut self) {
        if self.slot.is_some() {
            for call in self.calls.as_ref() {
                // If it has ended, this does nothing.
                self.session.cancel(*call);
            }
        }
    }
}

impl fmt::Debug for PendingBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingBatch")
            .field("is_settled", &self.open.slot.is_none())
            .finish_non_exhaustive()
    }
}

/// Converts a deadline for the core.
pub(crate) fn due(deadline: Instant) -> Option<Instant> {
    (deadline != Instant::FAR_FUTURE).then_some(deadline)
}

/// Sends a call, with the id that its caller chose if there is one.
pub(crate) fn send(
    conn: &mut Conn,
    (method, id): (&str, &Option<OwnedId>),
    params: impl Payload,
    deadline: Option<Instant>,
    tag: Tag,
) -> Result<CallId, Rejected<Tag>> {
    match id {
        None => conn.call(method, params, deadline, tag),
        Some(id) => conn.call_with_id(id.as_id(), method, params, deadline, tag),
    }
}
