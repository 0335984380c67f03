//! Outcomes of a batch, kept until they are fetched by handle.

use alloc::collections::BTreeMap;
use core::fmt;

use serde::de::DeserializeOwned;

use crate::connection::Handle;
use crate::event::{OwnedOutcome, Response};
use crate::id::CallId;
use crate::json::DecodeError;

/// Keeps the outcomes of calls until they are fetched by their handles.
///
/// Feed it the [`Response`](crate::Response) events of a batch, in whatever order they come; fetch
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
    outcomes: BTreeMap<CallId, OwnedOutcome>,
}

impl Collector {
    /// Makes an empty one.
    pub const fn new() -> Self {
        Self {
            outcomes: BTreeMap::new(),
        }
    }

    /// Keeps the outcome of a call, and gives back the call's tag.
    pub fn insert<T>(&mut self, response: Response<'_, T>) -> T {
        self.outcomes
            .insert(response.call, response.outcome.into_owned());
        response.tag
    }

    /// How many outcomes wait to be fetched.
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Takes the outcome of a call as it is; none if it has not settled, was fetched before, or is
    /// of another batch.
    pub fn take(&mut self, call: CallId) -> Option<OwnedOutcome> {
        self.outcomes.remove(&call)
    }

    /// Takes the result of a call, decoded.
    ///
    /// # Errors
    /// [`FetchError::Unknown`] for a handle of another batch, a second fetch, or a call that is
    /// still open; otherwise what the call ended with instead of a result of that type.
    pub fn fetch<R: DeserializeOwned>(&mut self, handle: Handle<R>) -> Result<R, FetchError> {
        match self.take(handle.call()).ok_or(FetchError::Unknown)? {
            OwnedOutcome::Ok(result) => result.as_json().decode().map_err(FetchError::Decode),
            outcome => Err(FetchError::Outcome(outcome)),
        }
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
