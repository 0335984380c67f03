//! The line of senders that wait for space in the output.

use std::sync::Arc;
use std::task::{Poll, Waker};

use antiphon::SendError;

use crate::session::{Session, State};
use crate::work::seat::Away;

/// A sender in the line of a session. Dropping it leaves the line.
pub(crate) struct WaitingSender {
    session: Arc<Session>,
    /// The sender's number in the line; `None` if it does not wait there.
    place: Option<u64>,
    away: Option<Away>,
}

impl WaitingSender {
    /// Makes a sender that is not in the line yet.
    pub(crate) fn new(session: &Arc<Session>) -> Self {
        let session = Arc::clone(session);
        Self {
            session,
            place: None,
            away: None,
        }
    }

    /// Sends now. Fails as [`SendError::Full`] if there is no space, or if others were waiting for
    /// space before.
    pub(crate) fn try_send<R>(
        &mut self,
        send: &mut impl FnMut(&mut State) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        let mut state = self.session.lock();
        state.conn.handle_time(self.session.now());
        let may_send = state.senders.is_turn_of(self.place) || state.is_closing();
        let sent = match may_send {
            true => send(&mut state),
            false => Err(SendError::Full),
        };
        if !matches!(sent, Err(SendError::Full)) {
            let known = state.senders.leave(&mut self.place);
            state.dismiss(known);
        }
        sent
    }

    /// Sends in its turn, as soon as there is space.
    pub(crate) fn poll_send<R>(
        &mut self,
        waker: &Waker,
        send: &mut impl FnMut(&mut State) -> Result<R, SendError>,
    ) -> Poll<Result<R, SendError>> {
        let polled = self.poll_turn(waker, send);
        Away::track(&mut self.away, self.session.address(), polled)
    }

    fn poll_turn<R>(
        &mut self,
        waker: &Waker,
        send: &mut impl FnMut(&mut State) -> Result<R, SendError>,
    ) -> Poll<Result<R, SendError>> {
        loop {
            match self.try_send(send) {
                Err(SendError::Full) if self.stand(waker.clone()) => return Poll::Pending,
                Err(SendError::Full) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    /// Joins the line, unless the sender may try again now. Returns whether it did.
    fn stand(&mut self, waker: Waker) -> bool {
        let mut state = self.session.lock();
        let may_send = state.senders.is_turn_of(self.place) && !state.conn.is_full();
        if may_send || state.is_closing() {
            return false;
        }
        let before = state.senders.wait(&mut self.place, waker);
        drop(state);
        drop(before);
        true
    }
}

impl Drop for WaitingSender {
    fn drop(&mut self) {
        if self.place.is_none() {
            return;
        }
        let mut state = self.session.lock();
        let waker = state.senders.leave(&mut self.place);
        drop(state);
        drop(waker);
    }
}
