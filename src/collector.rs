//! Outcomes of a batch, kept until they are fetched by handle.

use alloc::vec::Vec;
use core::fmt;

use serde::de::DeserializeOwned;

use crate::connection::Handle;
use crate::event::{Outcome, ResponseRef};
use crate::id::CallId;
use crate::json::DecodeError;
use crate::owned::OwnedOutcome;

/// How many places of fetched outcomes are kept, besides one for each outcome that waits.
const MAX_FETCHED_KEPT: usize = 64;

/// What stands in a place before it is filled. It is a constant: a value that was just written in
/// parts must wait for all of them before it can be copied as a whole.
const NOT_KEPT: (CallId, Option<OwnedOutcome>) = {
    let none = CallId {
        connection: 0,
        number: 0,
    };
    (none, None)
};

/// Keeps the outcomes of calls until they are fetched by their handles.
///
/// Feed it the [`Response`](crate::ResponseRef) events of a batch, in whatever order they come; fetch
/// each result once, as the type its handle names.
///
/// ```
/// use antiphon::{Collector, Config, Connection, Event, FetchError, Input};
/// let mut conn = Connection::new(Config::new());
/// let mut collector = Collector::new();
/// let mut batch = conn.batch(None);
/// let sum = batch.call::<i64>("add", &(1, 2), ())?;
/// let name = batch.call::<String>("name", (), ())?;
/// batch.send()?;
///
/// let answer = br#"[{"jsonrpc":"2.0","result":"x","id":2},{"jsonrpc":"2.0","result":3,"id":1}]"#;
/// let mut input = Input::message(answer);
/// while let Some(Event::Response(response)) = conn.poll_event(&mut input) {
///     collector.insert(response);
/// }
/// assert_eq!(collector.fetch(sum).unwrap(), 3);
/// assert_eq!(collector.fetch(name).unwrap(), "x");
/// assert!(matches!(collector.fetch(sum), Err(FetchError::Unknown)));
/// # Ok::<(), antiphon::SendError>(())
/// ```
#[derive(Debug, Default)]
pub struct Collector {
    /// The outcomes in the order in which they came, usually that of the calls. `None` for one that
    /// has been fetched.
    outcomes: Vec<(CallId, Option<OwnedOutcome>)>,
    /// How many have not been fetched.
    waiting: usize,
    /// Whether one came before that of an earlier call. They are then sorted before a lookup.
    is_mixed: bool,
    /// The place after the last one that was fetched, where the next one usually is.
    next: usize,
}

impl Collector {
    /// Makes an empty collector.
    pub const fn new() -> Self {
        Self {
            outcomes: Vec::new(),
            waiting: 0,
            is_mixed: false,
            next: 0,
        }
    }

    /// Makes an empty collector with room for the outcomes of `calls` calls.
    pub fn with_capacity(calls: usize) -> Self {
        Self {
            outcomes: Vec::with_capacity(calls),
            ..Self::new()
        }
    }

    /// Keeps the outcome of a call, and gives back the call's tag.
    pub fn insert<T>(&mut self, response: ResponseRef<'_, T>) -> T {
        self.put_copy(response.call, response.outcome);
        response.tag
    }

    /// Keeps the outcome of a call.
    pub fn put(&mut self, call: CallId, outcome: OwnedOutcome) {
        *self.place(call) = Some(outcome);
    }

    /// Keeps a copy of the outcome of a call. It is made where it stays.
    #[inline]
    pub fn put_copy(&mut self, call: CallId, outcome: Outcome<'_>) {
        outcome.put_into(self.place(call));
    }

    /// A new place for the outcome of a call.
    #[inline]
    fn place(&mut self, call: CallId) -> &mut Option<OwnedOutcome> {
        // A collector that is filled and fetched from all the time must not grow by outcomes that
        // are gone.
        if self.outcomes.len() > 2 * self.waiting + MAX_FETCHED_KEPT {
            self.outcomes.retain(|(_, outcome)| outcome.is_some());
            self.next = 0;
        }
        let last = self.outcomes.last();
        self.is_mixed |= last.is_some_and(|(last, _)| *last > call);
        if self.outcomes.capacity() == 0 {
            // Over HTTP most collectors hold one outcome.
            self.outcomes.reserve_exact(1);
        }
        self.waiting += 1;
        let at = self.outcomes.len();
        self.outcomes.push(NOT_KEPT);
        let (kept_for, outcome) = &mut self.outcomes[at];
        *kept_for = call;
        outcome
    }

    /// How many outcomes wait to be fetched.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Takes the outcome of a call as it is; none if it has not settled, was fetched before, or is
    /// of another batch.
    pub fn take(&mut self, call: CallId) -> Option<OwnedOutcome> {
        let at = self.find(call)?;
        let outcome = self.outcomes[at].1.take()?;
        self.note_taken(at);
        Some(outcome)
    }

    fn note_taken(&mut self, at: usize) {
        self.next = at + 1;
        self.waiting -= 1;
    }

    fn find(&mut self, call: CallId) -> Option<usize> {
        let next = self.outcomes.get(self.next);
        if next.is_some_and(|(found, _)| *found == call) {
            return Some(self.next);
        }
        if self.is_mixed {
            self.outcomes.sort_by_key(|(call, _)| *call);
            self.is_mixed = false;
        }
        let found = self.outcomes.binary_search_by_key(&call, |(call, _)| *call);
        found.ok()
    }

    /// Takes the result of a call, decoded.
    ///
    /// # Errors
    /// [`FetchError::Unknown`] for a handle of another batch, a second fetch, or a call that is
    /// still open; otherwise what the call ended with instead of a result of that type.
    pub fn fetch<R: DeserializeOwned>(&mut self, handle: Handle<R>) -> Result<R, FetchError> {
        let at = self.find(handle.call()).ok_or(FetchError::Unknown)?;
        let outcome = &mut self.outcomes[at].1;
        // A result is decoded where it stands.
        let fetched = match outcome {
            Some(OwnedOutcome::Ok(result)) => {
                let decoded = result.as_json().decode().map_err(FetchError::Decode);
                *outcome = None;
                decoded
            }
            _ => Err(outcome
                .take()
                .map_or(FetchError::Unknown, FetchError::Outcome)),
        };
        if !matches!(fetched, Err(FetchError::Unknown)) {
            self.note_taken(at);
        }
        fetched
    }
}

/// Why a batch has no result for a handle.
#[derive(Debug)]
#[non_exhaustive]
pub enum FetchError {
    /// The handle names no outcome that is kept here.
    Unknown,
    /// The call ended without a result.
    Outcome(OwnedOutcome),
    /// The result is not of the type that the handle names.
    Decode(DecodeError),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("the handle names no outcome that is kept here"),
            Self::Outcome(OwnedOutcome::Err(error)) => error.fmt(f),
            Self::Outcome(_) => f.write_str("the call ended without a result"),
            Self::Decode(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for FetchError {}

#[cfg(test)]
mod tests {
    use super::Collector;
    use crate::id::CallId;
    use crate::owned::OwnedOutcome;

    fn call(number: u64) -> CallId {
        CallId {
            connection: 0,
            number,
        }
    }

    #[test]
    fn outcomes_are_found_in_whatever_order_they_came_and_are_fetched() {
        // Steps that reach every number below 101.
        for (put, take) in [(1, 1), (1, 100), (100, 1), (7, 30), (30, 7)] {
            let mut collector = Collector::new();
            for number in 0..101 {
                collector.put(call(number * put % 101), OwnedOutcome::TimedOut);
            }
            for number in 0..101 {
                assert_eq!(collector.len(), 101 - number as usize);
                let taken = call(number * take % 101);
                assert_eq!(collector.take(taken), Some(OwnedOutcome::TimedOut));
                assert_eq!(collector.take(taken), None);
            }
            assert!(collector.is_empty());
        }
    }

    #[test]
    fn one_that_is_never_empty_does_not_grow() {
        let mut collector = Collector::new();
        collector.put(call(0), OwnedOutcome::Missing);
        for number in 1..10_000 {
            collector.put(call(number), OwnedOutcome::TimedOut);
            assert!(collector.take(call(number)).is_some());
        }
        assert!(collector.outcomes.len() < 100);
        assert_eq!(collector.take(call(0)), Some(OwnedOutcome::Missing));
    }
}
