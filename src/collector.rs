//! The outcomes of a batch, stored until they are fetched by handle.

use alloc::vec::Vec;
use core::fmt;

use serde::de::DeserializeOwned;

use crate::connection::Handle;
use crate::event::{Outcome, ResponseRef};
use crate::id::CallId;
use crate::json::DecodeError;
use crate::owned::OwnedOutcome;

/// How many fetched outcomes may still be in the list, besides as many as wait to be fetched.
const MAX_FETCHED_KEPT: usize = 64;

/// An entry before it is filled. It is a constant, because a copy of a value that was just written
/// in parts would have to wait for all of them.
const NOT_KEPT: (CallId, Option<OwnedOutcome>) = {
    let none = CallId {
        connection: 0,
        number: 0,
    };
    (none, None)
};

/// Stores the outcomes of calls until they are fetched by their handles.
///
/// Pass it the [`Response`](crate::ResponseRef) events of a batch, in any order, and fetch each
/// result once, with the type of its handle.
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
    /// The outcomes in the order in which they came, which usually is the order of the calls, or
    /// sorted by call. `None` after an outcome was fetched.
    outcomes: Vec<(CallId, Option<OwnedOutcome>)>,
    /// How many outcomes were not fetched yet.
    waiting: usize,
    /// Whether an outcome came before the outcome of an earlier call. Then the list is sorted
    /// before a lookup.
    is_mixed: bool,
    /// The position after the last one that was fetched, where the next one usually is.
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

    /// Makes an empty collector with capacity for the outcomes of `calls` calls.
    pub fn with_capacity(calls: usize) -> Self {
        Self {
            outcomes: Vec::with_capacity(calls),
            ..Self::new()
        }
    }

    /// Stores the outcome of a call, and returns the call's tag.
    pub fn insert<T>(&mut self, response: ResponseRef<'_, T>) -> T {
        self.put_copy(response.call, response.outcome);
        response.tag
    }

    /// Stores the outcome of a call.
    pub fn put(&mut self, call: CallId, outcome: OwnedOutcome) {
        *self.place(call) = Some(outcome);
    }

    /// Stores a copy of the outcome of a call. The copy is made in place.
    #[inline]
    pub fn put_copy(&mut self, call: CallId, outcome: Outcome<'_>) {
        outcome.put_into(self.place(call));
    }

    /// Adds an entry for the outcome of a call.
    #[inline]
    fn place(&mut self, call: CallId) -> &mut Option<OwnedOutcome> {
        // A collector that is filled and fetched from again and again must not grow by fetched
        // outcomes.
        if self.outcomes.len() > 2 * self.waiting + MAX_FETCHED_KEPT {
            self.outcomes.retain(|(_, outcome)| outcome.is_some());
            self.next = 0;
        }
        let last = self.outcomes.last();
        self.is_mixed |= last.is_some_and(|(last, _)| *last > call);
        if self.outcomes.capacity() == 0 {
            // Over HTTP most collectors have one outcome.
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

    /// Whether no outcome waits to be fetched.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Takes the outcome of a call; `None` if it was not stored here, or was fetched before.
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

    /// Returns the position of a call's entry in the list.
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
    /// still open; otherwise the reason why there is no result of that type.
    pub fn fetch<R: DeserializeOwned>(&mut self, handle: Handle<R>) -> Result<R, FetchError> {
        let at = self.find(handle.call()).ok_or(FetchError::Unknown)?;
        let outcome = &mut self.outcomes[at].1;
        // A result is decoded in place.
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
    /// There is no outcome for the handle.
    Unknown,
    /// The call ended without a result.
    Outcome(OwnedOutcome),
    /// The result does not have the handle's type.
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
        // Orders in which the numbers below 101 are put and taken: each in steps of this size.
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
        // At most 64 fetched outcomes are kept, and a few more.
        assert!(collector.outcomes.len() < 100);
        assert_eq!(collector.take(call(0)), Some(OwnedOutcome::Missing));
    }
}
