//! A place in the line of those who wait until there is room to send.

use std::fmt;
use std::sync::Arc;

use crate::session::Session;

/// A place in the line of a session, for a task that polls. Dropping it leaves the line.
pub struct InLine {
    session: Arc<Session>,
    pub(crate) place: Option<u64>,
}

impl InLine {
    /// Not in line yet.
    pub fn new(session: &Arc<Session>) -> Self {
        let session = Arc::clone(session);
        Self {
            session,
            place: None,
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        if self.place.is_none() {
            return;
        }
        let mut state = self.session.lock();
        let waker = state.line.leave(&mut self.place);
        drop(state);
        drop(waker);
    }
}

impl fmt::Debug for InLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InLine").field(&self.place).finish()
    }
}
