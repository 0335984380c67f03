//! How a call has ended, for spans and metrics.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use core::time::Duration;

/// How a call has ended, for spans and metrics. It has nothing of the answer but the code of an
/// error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallEnd {
    /// How long the call took.
    pub duration: Duration,
    /// The code of the error object, if there was one.
    pub code: Option<i64>,
    /// Set if there was no answer: `cancelled` or `panicked`; for a call of this side also the
    /// names of [`NoAnswer::as_str`](super::NoAnswer::as_str).
    pub instead: Option<&'static str>,
    /// How many bytes of JSON the result or the error object has; 0 if there is no answer. If the
    /// router replaces the error afterwards, this is the size of the error before.
    pub answer_bytes: usize,
}

impl CallEnd {
    /// Makes the end of a call, with 0 as the size of the answer.
    pub const fn new(duration: Duration, code: Option<i64>, instead: Option<&'static str>) -> Self {
        Self {
            duration,
            code,
            instead,
            answer_bytes: 0,
        }
    }

    /// Why the call failed, as `error.type` in the conventions of OpenTelemetry; `None` if it did
    /// not fail.
    pub fn error_type(&self) -> Option<String> {
        let code = self.code.map(|code| code.to_string());
        code.or_else(|| self.instead.map(str::to_owned))
    }
}
