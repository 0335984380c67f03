//! A reference to a session that one request leaves to the next, on the thread that serves them.
//!
//! To count a reference and to count it off again costs as much as to take the session's lock. A
//! request that is answered on the thread where it began leaves its reference in a place there, and
//! the next one takes it. Answered elsewhere, it counts it off as usual.
//!
//! The rule guarded here: there is a place only while a [`Spare`] lives, and only for the session whose
//! work is done there, so that no thread keeps a session with which it has nothing to do: a handler may
//! answer what another session has asked.

use std::cell::Cell;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;

use crate::session::Session;

thread_local! {
    /// The place of this thread, while it has one.
    static PLACE: Place = const {
        Place {
            session: Cell::new(ptr::null()),
            left: Cell::new(None),
        }
    };
}

/// Where a reference may lie.
struct Place {
    /// The session to which it may be; null while there is no place. It lives as long as the place.
    session: Cell<*const Session>,
    left: Cell<Option<Arc<Session>>>,
}

/// While it lives, its thread has a place for one reference to a session.
#[derive(Debug)]
#[must_use = "nothing is kept once it is dropped"]
pub struct Spare {
    /// The place of whoever serves around this. Also, what points is of one thread.
    session_around: *const Session,
    left_around: Option<Arc<Session>>,
}

impl Spare {
    /// Makes a place, which is empty, for whoever serves `session`. Several are dropped in the opposite order.
    pub fn keep(session: &Arc<Session>) -> Self {
        PLACE.with(|place| Self {
            session_around: place.session.replace(Arc::as_ptr(session)),
            left_around: place.left.take(),
        })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        // What lay there is let go of behind this, when the thread's place is in order again. A thread
        // that ends has none.
        let _left = PLACE.try_with(|place| {
            place.session.set(self.session_around);
            place.left.replace(self.left_around.take())
        });
    }
}

/// A reference that is left to the next request.
pub(crate) struct Shared(Option<Arc<Session>>);

impl Shared {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        let left = with_place(Arc::as_ptr(session), Cell::take);
        Self(left.or_else(|| Some(Arc::clone(session))))
    }
}

impl Deref for Shared {
    type Target = Arc<Session>;

    fn deref(&self) -> &Arc<Session> {
        // It is taken only by `drop`.
        self.0
            .as_ref()
            .expect("a reference lasts until it is dropped")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let whose = Arc::as_ptr(&**self);
        // What lay there before is let go of behind this, with its own drop.
        let _before = with_place(whose, |left| left.replace(self.0.take()));
    }
}

/// Does something with what lies in the place of this thread, if it has one for that session.
#[inline]
fn with_place(
    session: *const Session,
    act: impl FnOnce(&Cell<Option<Arc<Session>>>) -> Option<Arc<Session>>,
) -> Option<Arc<Session>> {
    let act = |place: &Place| {
        if place.session.get() == session {
            act(&place.left)
        } else {
            None
        }
    };
    PLACE.try_with(act).ok().flatten()
}
