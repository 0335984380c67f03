//! The pulls of one flow, in the order in which they were sent: answers may come in any order, and their
//! items leave in this one.
//!
//! ```text
//!   first                            first + slots.len()
//!   ▼                                ▼
//!   │ Item │ Open │ Item │ Open │ End │          a pull: one more Open, while there is no End
//!     ▲ next for the reader
//! ```

use alloc::collections::VecDeque;
use core::fmt;

use crate::codes;
use crate::error_object::OwnedError;
use crate::json::OwnedJson;
use crate::owned::OwnedInvalid;

/// Why a flow has ended before its producer had no more items.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FlowError {
    /// The peer has answered a pull with this error: its producer failed, or it does not know the flow.
    Failed(OwnedError),
    /// No answer came in time. The flow was cancelled.
    TimedOut,
    /// The answer to a pull was not valid. The flow was cancelled.
    Invalid(OwnedInvalid),
    /// The connection ended, or a pull could not be sent.
    Disconnected,
}

impl fmt::Display for FlowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "the flow failed: {error}"),
            Self::TimedOut => f.write_str("no item of the flow came in time"),
            Self::Invalid(invalid) => write!(f, "the answer to a pull is not valid: {invalid}"),
            Self::Disconnected => f.write_str("the connection ended before the flow"),
        }
    }
}

impl core::error::Error for FlowError {}

/// The pulls whose items the reader has not received.
#[derive(Debug)]
pub(super) struct Window {
    /// The most slots.
    pub(super) size: usize,
    /// The number of the pull in the first slot.
    first: u64,
    /// At most the last one is an end.
    slots: VecDeque<Slot>,
    /// How many pulls are not answered, also those behind an end.
    open: usize,
}

/// What has come of one pull.
#[derive(Debug)]
pub(super) enum Slot {
    /// Nothing.
    Open,
    Item(OwnedJson),
    /// The flow ends here, in order or with an error.
    End(Result<(), FlowError>),
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            size: 1,
            first: 0,
            slots: VecDeque::new(),
            open: 0,
        }
    }

    /// How many pulls are not answered.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Whether it is known where the flow ends.
    pub(super) fn has_end(&self) -> bool {
        matches!(self.slots.back(), Some(Slot::End(_)))
    }

    /// Whether the reader needs a further answer to get to the end of the window.
    pub(super) fn awaits(&self) -> bool {
        self.slots.iter().any(|slot| matches!(slot, Slot::Open))
    }

    /// Adds a pull and returns its number, unless the window is full or the flow has ended.
    pub(super) fn pull(&mut self) -> Option<u64> {
        if self.has_end() || self.slots.len() >= self.size.max(1) {
            return None;
        }
        let number = self.first + self.slots.len() as u64;
        self.slots.push_back(Slot::Open);
        self.open += 1;
        Some(number)
    }

    /// Fills the slot of a pull that was answered. Nothing follows an end. Returns false if the flow has
    /// ended before this pull.
    pub(super) fn answer(&mut self, number: u64, mut slot: Slot) -> bool {
        self.open = self.open.saturating_sub(1);
        let at = number.checked_sub(self.first);
        let Some(at) = at.and_then(|at| usize::try_from(at).ok()) else {
            return false;
        };
        let last = self.slots.back();
        let is_cancelled = matches!(last, Some(Slot::End(end)) if !is_over_at_peer(end));
        let Some(Slot::Open) = self.slots.get(at) else {
            return false;
        };
        // This end has cancelled the flow because of a later pull. By that the peer answers the pulls that wait
        // as completed, although items are missing.
        if is_cancelled && matches!(slot, Slot::End(Ok(()))) {
            slot = self.slots.pop_back().unwrap_or(slot);
        }
        let open = &mut self.slots[at];
        *open = slot;
        if matches!(open, Slot::End(_)) {
            self.slots.truncate(at + 1);
        }
        true
    }

    /// Ends the flow behind the items that the reader can have without a further answer.
    pub(super) fn break_off(&mut self, error: FlowError) {
        let gap = self
            .slots
            .iter()
            .position(|slot| matches!(slot, Slot::Open));
        self.slots.truncate(gap.unwrap_or(self.slots.len()));
        if !self.has_end() {
            self.slots.push_back(Slot::End(Err(error)));
        }
    }

    /// Notes that so many pulls will not be sent.
    pub(super) fn take_back(&mut self, pulls: usize) {
        self.open = self.open.saturating_sub(pulls);
    }

    /// Whether [`pop`](Self::pop) returns something.
    pub(super) fn is_readable(&self) -> bool {
        !matches!(self.slots.front(), None | Some(Slot::Open))
    }

    /// Returns the next item, or the end.
    pub(super) fn pop(&mut self) -> Option<Slot> {
        if !self.is_readable() {
            return None;
        }
        self.first += 1;
        self.slots.pop_front()
    }
}

/// Whether the flow is over at the peer too, so that there is nothing to cancel. A peer that is too busy
/// to take a pull still has the flow.
pub(super) fn is_over_at_peer(end: &Result<(), FlowError>) -> bool {
    match end {
        Ok(()) => true,
        Err(FlowError::Failed(error)) => error.code() != codes::SERVER_BUSY,
        Err(_) => false,
    }
}
