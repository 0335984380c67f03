//! A connection that is used by what it runs under its own lock: a function that builds a batch, or
//! the `Serialize` of what is being sent.
//!
//! The rule guarded here: that is a panic which says so, and not a thread that waits for itself.

use std::cell::Cell;
use std::ptr;

use super::Session;

thread_local! {
    /// The session for which this thread runs foreign code under the lock; null for none.
    static INSIDE: Cell<*const Session> = const { Cell::new(ptr::null()) };
}

/// Foreign code runs under the lock of a session for as long as this lives.
pub(crate) struct Foreign {
    before: *const Session,
}

impl Foreign {
    pub(crate) fn begin(session: &Session) -> Self {
        Self {
            before: INSIDE.replace(session),
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Somebody has the lock that is wanted.
///
/// # Panics
/// It is this thread.
#[cold]
pub(super) fn check(session: &Session) {
    assert!(
        !ptr::eq(INSIDE.get(), session),
        "a connection was used by what it runs under its lock, which would wait for ever: a function that builds a \
         batch, or a `Serialize`, must not use the peer"
    );
}
