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
use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use crate::session::Session;

thread_local! {
    /// The place of this thread, while it has one.
    static PLACE: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Where a reference may lie.
#[derive(Debug)]
struct Place {
    /// The session to which it may be. It lives as long as the place; also, what points is of one thread.
    session: *const Session,
    left: Option<Arc<Session>>,
}

/// While it lives, its thread has a place for one reference to a session.
#[derive(Debug)]
#[must_use = "nothing is kept once it is dropped"]
pub struct Spare {
    /// The place of whoever serves around this.
    around: Option<Place>,
}

impl Spare {
    /// Makes a place, which is empty, for whoever serves `session`. Several are dropped in the opposite order.
    pub fn keep(session: &Arc<Session>) -> Self {
        let place = Place {
            session: Arc::as_ptr(session),
            left: None,
        };
        Self {
            around: PLACE.replace(Some(place)),
        }
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        let around = self.around.take();
        // What lay there is let go of behind this, when the thread's place is in order again. A thread
        // that ends has none.
        let _left = PLACE.try_with(|place| place.replace(around));
    }
}

/// A reference that is left to the next request.
pub(crate) struct Shared(Option<Arc<Session>>);

impl Shared {
    pub(crate) fn of(session: &Arc<Session>) -> Self {
        let left = with_place(Arc::as_ptr(session), |place| place.left.take());
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
        let _before = with_place(whose, |place| mem::replace(&mut place.left, self.0.take()));
    }
}

/// Does something with the place of this thread, if it has one for that session.
#[inline]
fn with_place<R>(session: *const Session, act: impl FnOnce(&mut Place) -> Option<R>) -> Option<R> {
    let act = |cell: &Cell<Option<Place>>| {
        let mut place = cell.take()?;
        let done = if place.session == session {
            act(&mut place)
        } else {
            None
        };
        cell.set(Some(place));
        done
    };
    PLACE.try_with(act).ok().flatten()
}
