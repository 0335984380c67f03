//! The queue of senders that wait for space: first come, first served.

use std::collections::VecDeque;
use std::task::Waker;

/// The queue of one session.
#[derive(Default)]
pub(crate) struct SenderQueue {
    /// The number of each waiting sender, and its waker; `None` if the sender was woken and has not tried
    /// to send since.
    waiting: VecDeque<(u64, Option<Waker>)>,
    /// The number for the next sender.
    next: u64,
}

impl SenderQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the sender with this number may send: it is the first in the queue, or the queue is empty.
    /// `None` is a sender that is not in the queue.
    pub(crate) fn is_turn_of(&self, place: Option<u64>) -> bool {
        let first = self.waiting.front();
        first.is_none_or(|(number, _)| place == Some(*number))
    }

    /// Makes the sender with this number wait; if it is new, at the end of the queue. Returns the
    /// waker that it had before.
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

    /// Removes the sender with this number from the line, and returns its waker.
    pub(crate) fn leave(&mut self, place: &mut Option<u64>) -> Option<Waker> {
        let place = place.take()?;
        let at = self
            .waiting
            .iter()
            .position(|(number, _)| *number == place)?;
        self.waiting.remove(at)?.1
    }

    /// Takes the waker of the first sender, whose turn it is.
    pub(crate) fn call_first(&mut self) -> Option<Waker> {
        self.waiting.front_mut()?.1.take()
    }

    /// Takes the wakers of all senders.
    pub(crate) fn call_all(&mut self) -> impl Iterator<Item = Waker> {
        self.waiting
            .iter_mut()
            .filter_map(|(_, waker)| waker.take())
    }
}
