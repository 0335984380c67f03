//! What the client of the contract needs from an adapter: a few ways to call, and a way to close.

use std::io;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::{Closed, Collector, Handle, Json, OwnedJson, OwnedOutcome, SendError, Style};
use antiphon_net::{BatchBuilder, CallError, Subscription, Then};

use crate::items::Item;

/// How long the last bytes may take to leave at the end.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the connection may take to end after that.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(2);

/// An adapter's way to the peer. Everything waits on the thread that asks.
pub trait Caller {
    /// Calls, and waits for the end. After `cancel_after` the peer is told that the call is no
    /// longer wanted; with `is_silent` its dialect answers nothing then, and the end is
    /// [`Called::GivenUp`]. Over HTTP the exchange is ended then, and the end is
    /// [`Called::GivenUp`] in either case.
    ///
    /// # Errors
    /// It was not sent.
    fn call(
        &self,
        method: &str,
        params: Option<Json<'_>>,
        timeout: Duration,
        cancel_after: Option<Duration>,
        is_silent: bool,
    ) -> Result<Called, Refusal>;

    /// Sends each item as a message of its own, all of them before the first answer is awaited.
    ///
    /// # Errors
    /// One was not sent.
    fn calls(&self, items: &[Item<'_>], timeout: Duration) -> Result<Sides, Refusal>;

    /// Sends the peer a notification.
    ///
    /// # Errors
    /// It was not sent.
    fn notify(&self, method: &str, params: Option<Json<'_>>) -> Result<(), Refusal>;

    /// Sends all items as one message, and gives the outcomes of those that are calls.
    ///
    /// # Errors
    /// It was not sent.
    fn batch(&self, items: &[Item<'_>], timeout: Duration) -> Result<Vec<OwnedOutcome>, Refusal>;

    /// Subscribes to a stream of events, and waits until the peer has answered.
    ///
    /// # Errors
    /// There is no stream.
    fn subscribe(
        &self,
        style: Style,
        params: Option<Json<'_>>,
        timeout: Duration,
    ) -> Result<Subscription<OwnedJson>, CallError>;

    /// Why there is no connection any more.
    fn why_closed(&self) -> String;

    /// Ends the conversation once all that was sent has left.
    fn close(&self);
}

/// How a call ended.
#[derive(Debug)]
pub enum Called {
    /// With an outcome.
    Ended(OwnedOutcome),
    /// It was cancelled, and nothing more comes.
    GivenUp,
    /// Only the HTTP exchange of this call failed; others may succeed.
    Failed(String),
}

/// Why an operation has no outcome.
#[derive(Debug)]
pub enum Refusal {
    /// It was refused here, or there is no connection any more.
    Unsent(SendError),
    /// Only the HTTP exchange of this operation failed; others may succeed.
    Failed(String),
}

impl From<SendError> for Refusal {
    fn from(error: SendError) -> Self {
        Self::Unsent(error)
    }
}

impl From<CallError> for Refusal {
    fn from(error: CallError) -> Self {
        Self::Unsent(match error {
            CallError::Rejected(error) => error,
            _ => SendError::Closed,
        })
    }
}

/// The ends of calls made side by side, and their places in the order in which they came.
#[derive(Debug)]
pub struct Sides {
    /// The ends, in the order of the calls.
    pub ends: Vec<Called>,
    /// The places of the calls, in the order of their ends.
    pub order: Vec<usize>,
}

impl Sides {
    /// For this many calls. Until a call has ended, its end is `Aborted`.
    pub fn new(calls: usize) -> Self {
        Self {
            ends: (0..calls)
                .map(|_| Called::Ended(OwnedOutcome::Aborted))
                .collect(),
            order: Vec::with_capacity(calls),
        }
    }

    /// The call at `place` has ended.
    pub fn put(&mut self, place: usize, end: Called) {
        self.ends[place] = end;
        self.order.push(place);
    }
}

/// Why a connection has ended, in words.
pub(crate) fn why(fault: Option<io::Error>, closed: Option<Closed>) -> String {
    match (fault, closed) {
        (Some(error), _) => error.to_string(),
        (None, Some(Closed::Failed(error))) => error.to_string(),
        (None, Some(Closed::Local(reason))) => reason.to_string(),
        (None, _) => "the peer ended the connection".to_owned(),
    }
}

/// Begins every call with `start`, which runs what it is given when the call ends, and waits for
/// all of them.
pub(crate) fn side_by_side(
    items: &[Item<'_>],
    mut start: impl FnMut(&Item<'_>, Then) -> Result<(), SendError>,
) -> Result<Sides, Refusal> {
    let (done, ends) = mpsc::channel();
    for (place, item) in items.iter().enumerate() {
        let done = done.clone();
        let then = move |end| {
            // Received below, unless a later item was refused.
            drop(done.send((place, end)));
        };
        start(item, Box::new(then))?;
    }
    drop(done);
    let mut sides = Sides::new(items.len());
    ends.into_iter()
        .for_each(|(place, end)| sides.put(place, Called::Ended(end)));
    Ok(sides)
}

/// Puts the items into a batch, and gives the handles of those that are calls.
pub(crate) fn fill(batch: &BatchBuilder, items: &[Item<'_>]) -> Result<Vec<Handle<()>>, SendError> {
    let mut handles = Vec::new();
    for item in items {
        if item.is_notification {
            batch.notify(&item.method, item.params)?;
        } else {
            handles.push(batch.call(&item.method, item.params)?);
        }
    }
    Ok(handles)
}

/// Takes the outcomes of a batch's calls out of the collector, in the order of the calls.
pub(crate) fn outcomes_of(
    (handles, mut outcomes): (Vec<Handle<()>>, Collector),
) -> Vec<OwnedOutcome> {
    let take = |handle: Handle<()>| outcomes.take(handle.call());
    let taken = handles.into_iter().map(take);
    taken
        .map(|end| end.unwrap_or(OwnedOutcome::Aborted))
        .collect()
}
