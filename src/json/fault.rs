//! The errors of `by_value`: serde_json's with their texts, and one without.

use core::fmt;

use serde::de::Error;

/// The errors of a reader.
pub(crate) trait Fault: Error + From<serde_json::Error> {
    /// Whether it says what did not fit. Then serde_json reads all that is no array or object, because it
    /// writes that text.
    const HAS_TEXT: bool;
}

impl Fault for serde_json::Error {
    const HAS_TEXT: bool = true;
}

/// A value does not have the form that a type needs. It says no more.
#[derive(Debug)]
pub(crate) struct Misfit;

impl Fault for Misfit {
    const HAS_TEXT: bool = false;
}

impl Error for Misfit {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl From<serde_json::Error> for Misfit {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

impl core::error::Error for Misfit {}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value does not fit")
    }
}
