//! The answer of a handler.

use std::fmt;

use antiphon::{Payload, SendError};
use serde::Serialize;

use crate::text::Text;

/// The answer of a handler: a result, or a promise to answer later.
///
/// Any value that serde can write converts into one:
///
/// ```
/// # use antiphon_shell::{Answer, Peer, Request, Service};
/// # use antiphon::OwnedError;
/// struct Adder;
///
/// impl Service for Adder {
///     async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
///         match request.method() {
///             "add" => {
///                 let (a, b): (f64, f64) = request.params()?;
///                 Ok((a + b).into())
///             }
///             _ => Err(request.unknown_method()),
///         }
///     }
/// }
/// ```
pub struct Answer(pub(crate) Option<Result<Text, SendError>>);

impl Answer {
    /// Answers with a result: a reference to a value, JSON text, or `()` for `null`. If the value
    /// has no JSON form, the peer gets *internal error*, and the service a report.
    pub fn new(result: impl Payload) -> Self {
        Self(Some(Text::of(result)))
    }

    /// Leaves the answer to the [`Responder`](crate::Responder) of
    /// [`Request::defer`](crate::Request::defer).
    pub fn deferred() -> Self {
        Self(None)
    }
}

/// Answers with the value, as [`Answer::new`] does.
impl<T: Serialize> From<T> for Answer {
    fn from(result: T) -> Self {
        Self::new(&result)
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answer")
            .field("is_deferred", &self.0.is_none())
            .finish_non_exhaustive()
    }
}
