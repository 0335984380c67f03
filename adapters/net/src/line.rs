//! Those who wait until there is room to send: first come, first served.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Poll, Waker};

use antiphon::SendError;

use crate::session::{Session, State};

/// The line, in a session.
#[derive(Default)]
pub(crate) struct Line {
    /// None for one that has been called and has not come back yet.
    waiting: VecDeque<(u64, Option<Waker>)>,
    /// The number that the next one gets.
    next: u64,
}

impl Line {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether it is the turn of this one. None for one that has just come.
    pub(crate) fn is_turn_of(&self, place: Option<u64>) -> bool {
        let first = self.waiting.front();
        first.is_none_or(|(number, _)| place == Some(*number))
    }

    /// Has this one wait, at the end of the line if it has just come. The waker it had before comes
    /// back.
    pub(crate) fn wait(&mut self, place: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let known = place.and_then(|place| {
            let mut waiting = self.waiting.iter_mut();
            waiting.find(|(number, _)| *number == place)
        });
        if let Some((_, before)) = known {
            return before.replace(waker);
        }
        *place = Some(self.next);
        self.waiting.push_back((self.next, Some(waker)));
        self.next += 1;
        None
    }

    /// Lets this one go. Its waker comes back.
    pub(crate) fn leave(&mut self, place: &mut Option<u64>) -> Option<Waker> {
        let place = place.take()?;
        let at = self
            .waiting
            .iter()
            .position(|(number, _)| *number == place)?;
        self.waiting.remove(at)?.1
    }

    /// Takes the waker of the first, whose turn it is.
    pub(crate) fn call_first(&mut self) -> Option<Waker> {
        self.waiting.front_mut()?.1.take()
    }

    /// Takes the wakers of all.
    pub(crate) fn call_all(&mut self) -> impl Iterator<Item = Waker> {
        self.waiting
            .iter_mut()
            .filter_map(|(_, waker)| waker.take())
    }
}

/// A place in the line of a session. Dropping it leaves the line.
pub(crate) struct InLine {
    session: Arc<Session>,
    place: Option<u64>,
}

impl InLine {
    /// Not in line yet.
    pub(crate) fn new(session: &Arc<Session>) -> Self {
        let session = Arc::clone(session);
        Self {
            session,
            place: None,
        }
    }

    /// Sends; refused for want of room too where others wait for it already.
    pub(crate) fn try_send<R>(
        &mut self,
        send: &mut impl FnMut(&mut State) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        let mut state = self.session.lock();
        state.conn.handle_time(self.session.now());
        let may_send = state.line.is_turn_of(self.place) || state.is_closing();
        let sent = match may_send {
            true => send(&mut state),
            false => Err(SendError::Full),
        };
        if !matches!(sent, Err(SendError::Full)) {
            let known = state.line.leave(&mut self.place);
            state.dismiss(known);
        }
        sent
    }

    /// Sends in its turn, as soon as there is room.
    pub(crate) fn poll_send<R>(
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

    /// Stands in line, unless there is room by now.
    fn stand(&mut self, waker: Waker) -> bool {
        let mut state = self.session.lock();
        let may_send = state.line.is_turn_of(self.place) && !state.conn.is_full();
        if may_send || state.is_closing() {
            return false;
        }
        let before = state.line.wait(&mut self.place, waker);
        drop(state);
        drop(before);
        true
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
