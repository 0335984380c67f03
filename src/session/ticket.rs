//! The right and the duty to answer one request.

use alloc::boxed::Box;
use core::fmt;

use crate::error_profile::Failures;
use crate::id::{ReplyToken, RequestKey};
use crate::time::Instant;

/// The longest method that a ticket keeps without an allocation, in bytes.
const INLINE: usize = 30;

/// The right and the duty to answer one request: see [`Session::respond`](super::Session::respond).
///
/// Dropping a ticket answers nothing. A driver that loses a ticket, because a handler panicked or
/// dropped it, gives it to [`Session::abandon`](super::Session::abandon).
#[must_use = "the peer waits for an answer"]
pub struct Ticket {
    pub(super) token: ReplyToken,
    /// How many bytes the request had: they count against the queue's limit until it is answered.
    pub(super) bytes: usize,
    pub(super) method: Method,
    pub(super) begun: Instant,
    /// What the peer is told if serving fails.
    pub(super) failures: Failures,
}

impl Ticket {
    /// Identifies the request, to be compared with a cancel.
    pub fn key(&self) -> RequestKey {
        self.token.key()
    }

    /// What the peer is told if serving this request fails: by default what the configuration says.
    pub fn failures(&self) -> Failures {
        self.failures
    }

    /// Decides what the peer is told if serving this request fails.
    pub fn set_failures(&mut self, failures: Failures) {
        self.failures = failures;
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:?})", self.key())
    }
}

/// A method's name, kept for a report, which is seldom needed.
pub(super) enum Method {
    /// The length of the name, and the bytes that begin with it.
    Short(u8, [u8; INLINE]),
    Long(Box<str>),
}

impl Method {
    pub(super) fn new(name: &str) -> Self {
        let mut bytes = [0; INLINE];
        match bytes.get_mut(..name.len()) {
            Some(inline) => {
                inline.copy_from_slice(name.as_bytes());
                // The length is at most `INLINE`.
                Self::Short(name.len() as u8, bytes)
            }
            None => Self::Long(name.into()),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        match self {
            // The bytes are those of a `str`.
            Self::Short(len, bytes) => {
                core::str::from_utf8(&bytes[..usize::from(*len)]).unwrap_or_default()
            }
            Self::Long(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Method;
    use alloc::string::String;

    #[test]
    fn a_method_of_any_length_comes_out_as_it_was() {
        for len in 0..70 {
            let name: String = "äb".chars().cycle().take(len).collect();
            assert_eq!(Method::new(&name).as_str(), name);
        }
    }
}
