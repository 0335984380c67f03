//! What is acknowledged of a subscription, and what was sent and is not.
//!
//! ```text
//!     everything acknowledged │ Acked? Sent Due Acked Sent │ not sent yet
//!   start … ─────────────── floor ─────── slots ──────────┴── at most `window` above the floor
//! ```
//!
//! The first slot is never `Acked`: then the floor moves on.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::settings::AckMode;
use super::store::Cursor;
use crate::time::Instant;

/// The most slots.
pub(super) const MAX_WINDOW: usize = 65_536;

/// The messages that are not acknowledged, as far as they were sent.
#[derive(Debug)]
pub(super) struct Window {
    start: u64,
    floor: u64,
    /// The messages from `floor + 1` on.
    slots: VecDeque<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// It is to be sent again.
    Due,
    /// It was sent, and is due again at this time.
    Sent(Instant),
    Acked,
}

impl Window {
    /// Goes on from a stored position. Everything before an acknowledged message was sent once.
    pub(super) fn of(cursor: &Cursor) -> Self {
        let floor = cursor.floor;
        let end = cursor.end() - floor;
        let end = usize::try_from(end).map_or(MAX_WINDOW, |end| end.min(MAX_WINDOW));
        let mut slots: VecDeque<Slot> = (0..end).map(|_| Slot::Due).collect();
        for sequence in &cursor.above {
            let index = Self::index_above(floor, *sequence);
            if let Some(slot) = index.and_then(|index| slots.get_mut(index)) {
                *slot = Slot::Acked;
            }
        }
        #[cfg(test)]
        if super::tests::plant::passes_the_first() && slots.is_empty() {
            slots.push_back(Slot::Sent(Instant::ZERO));
        }
        let start = cursor.start.min(floor);
        let mut window = Self {
            start,
            floor,
            slots,
        };
        window.raise_floor();
        window
    }

    /// What is acknowledged.
    pub(super) fn cursor(&self) -> Cursor {
        let slots = (self.floor + 1..).zip(&self.slots);
        let acked = slots.filter(|(_, slot)| **slot == Slot::Acked);
        Cursor {
            start: self.start,
            floor: self.floor,
            above: acked.map(|(sequence, _)| sequence).collect(),
        }
    }

    /// Everything up to this sequence is acknowledged.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The highest sequence that was sent, acknowledged or passed.
    pub(super) fn sent(&self) -> u64 {
        self.floor + self.slots.len() as u64
    }

    /// The next sequence to send, if the topic has messages up to `last` and the window has `size` slots.
    pub(super) fn wanted(&self, last: u64, size: usize) -> Option<u64> {
        let due = self.slots.iter().position(|slot| *slot == Slot::Due);
        let index = due.unwrap_or(self.slots.len());
        let next = self.floor + 1 + index as u64;
        (due.is_some() || index < size && next <= last).then_some(next)
    }

    /// Notes that a message is sent. Returns false if it must not be: it was acknowledged or is on its way
    /// already, others come before it, or the window is full.
    pub(super) fn send(&mut self, sequence: u64, size: usize, due_at: Instant) -> bool {
        let Some(index) = Self::index_above(self.floor, sequence) else {
            return false;
        };
        let len = self.slots.len();
        match self.slots.get_mut(index) {
            Some(slot @ Slot::Due) => *slot = Slot::Sent(due_at),
            None if index == len && index < size => {
                self.slots.push_back(Slot::Sent(due_at));
            }
            _ => return false,
        }
        true
    }

    /// Acknowledges a message that was sent. Returns whether that changes anything; `None` if it was never sent.
    pub(super) fn ack(&mut self, sequence: u64, mode: AckMode) -> Option<bool> {
        if sequence <= self.start || sequence > self.sent() {
            return None;
        }
        let Some(index) = Self::index_above(self.floor, sequence) else {
            return Some(false);
        };
        let first = match mode {
            AckMode::Individual => index,
            AckMode::Cumulative => 0,
        };
        let mut changes = false;
        for slot in self.slots.range_mut(first..=index) {
            changes |= *slot != Slot::Acked;
            *slot = Slot::Acked;
        }
        self.raise_floor();
        Some(changes)
    }

    /// Makes what was sent and not acknowledged in time due again. Returns when that is next to be done.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut next = None;
        for slot in &mut self.slots {
            match slot {
                Slot::Sent(due_at) if *due_at <= now => *slot = Slot::Due,
                Slot::Sent(due_at) => next = Some(next.unwrap_or(*due_at).min(*due_at)),
                _ => {}
            }
        }
        next
    }

    /// Passes messages that the topic no longer has. Returns the runs of those that were not acknowledged.
    pub(super) fn pass(&mut self, up_to: u64) -> Vec<(u64, u64)> {
        let mut lost: Vec<(u64, u64)> = Vec::new();
        while self.floor < up_to {
            let first = self.floor + 1;
            let last = match self.slots.pop_front() {
                None => up_to,
                Some(Slot::Acked) => {
                    self.floor = first;
                    continue;
                }
                Some(_) => first,
            };
            self.floor = last;
            match lost.last_mut() {
                Some(run) if run.1 + 1 == first => run.1 = last,
                _ => lost.push((first, last)),
            }
        }
        self.raise_floor();
        lost
    }

    fn raise_floor(&mut self) {
        while self.slots.front() == Some(&Slot::Acked) {
            self.slots.pop_front();
            self.floor += 1;
        }
        // An idle subscription holds no memory of a window that was full once.
        if self.slots.is_empty() && self.slots.capacity() > 16 {
            self.slots = VecDeque::new();
        }
    }

    fn index_above(floor: u64, sequence: u64) -> Option<usize> {
        let above = sequence.checked_sub(floor)?.checked_sub(1)?;
        usize::try_from(above).ok()
    }
}
