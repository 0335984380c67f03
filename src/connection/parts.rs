//! A message that has been read and is not completely delivered: how far it has been read, and
//! which events are still to come.
//!
//! `receive` splits and scans messages, `deliver` makes the events.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::batches::{Batches, OurBatches};
use crate::calls::CancelledCalls;
use crate::event::RefusedCause;
use crate::frame::{Cut, FramingError};
use crate::input::Input;
use crate::json::{Scanned, SyntaxError, TextFlags};
use crate::message::Text;

/// The work that the fast path has done when it returns no event, so that it is not done twice.
pub(super) enum Ready<'a> {
    /// No work was done.
    Nothing,
    /// No whole message is left, and the input has not ended.
    Drained,
    /// The next frame was looked for, with this result.
    Cut(Result<Cut, FramingError>),
    /// The next frame was found and its text scanned.
    Scanned(Frame, Result<Scanned<'a>, SyntaxError>),
}

/// A frame at the beginning of the input.
pub(super) struct Frame {
    /// The position of its text.
    pub(super) body: Range<usize>,
    /// How many bytes of the input belong to it.
    pub(super) taken: usize,
    /// Whether the end of the input ended it.
    pub(super) unterminated: bool,
}

impl Frame {
    /// A frame of all the input.
    #[inline]
    pub(super) fn whole(len: usize) -> Self {
        Self {
            body: 0..len,
            taken: len,
            unterminated: false,
        }
    }

    /// A frame that has its end as the framing defines it.
    #[inline]
    pub(super) fn terminated(body: Range<usize>, taken: usize) -> Self {
        Self {
            body,
            taken,
            unterminated: false,
        }
    }

    /// Returns a message of which `what` is still to be delivered.
    pub(super) fn reading(self, input: &mut Input<'_>, whole: Text<'_>, what: Rest) -> Reading {
        Reading {
            fingerprint: input.print_of(self.taken),
            body: self.body,
            taken: self.taken,
            flags: whole.flags(),
            rest: what,
        }
    }
}

/// The message that is being delivered in parts, and the open batches of both sides.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The message, until all of it has been delivered.
    pub(super) reading: Option<Reading>,
    /// What becomes of each item of the batch that is being read.
    pub(super) fates: Vec<Fate>,
    /// The number of items of the batch that was opened last, until `poll_batch_items` returns it.
    pub(super) batch_items: Option<usize>,
    pub(super) batches: Batches,
    pub(super) our_batches: OurBatches,
    /// Whether the last error was sent without its data, until `poll_data_dropped` returns it.
    pub(super) is_data_dropped: bool,
    /// The calls whose cancel was sent, and that are open or may still be answered.
    pub(super) cancelled: CancelledCalls,
}

impl Parts {
    /// Returns the parts of a connection, which are made when they are first needed.
    #[inline]
    pub(super) fn of(parts: &mut Option<Box<Self>>) -> &mut Self {
        parts.get_or_insert_with(Self::make)
    }

    /// Whether any open call of ours may be in a list.
    pub(super) fn knows_calls(&self) -> bool {
        !self.our_batches.is_empty() || self.cancelled.has_open()
    }

    #[cold]
    #[inline(never)]
    fn make() -> Box<Self> {
        Box::default()
    }
}

/// Returns the positions of those items of a batch that are not delivered yet and are no valid
/// requests: it is not known yet whether they are answered.
pub(super) fn unread_items(
    reading: Option<&Reading>,
    fates: &[Fate],
    batch: u32,
) -> impl Iterator<Item = usize> {
    let next = match reading.map(|reading| reading.rest) {
        Some(Rest::Items { next, batch: read }) if read == batch => next,
        _ => fates.len(),
    };
    let unread = fates.iter().enumerate().skip(next);
    unread
        .filter(|(_, fate)| **fate == Fate::Deliver)
        .map(|(position, _)| position)
}

/// A message that has been delivered in part.
#[derive(Debug)]
pub(super) struct Reading {
    /// The position of the message in the unconsumed input.
    pub(super) body: Range<usize>,
    /// How many bytes of the input belong to it.
    pub(super) taken: usize,
    /// Distinguishes this message from another that the driver might pass instead.
    pub(super) fingerprint: u64,
    pub(super) flags: TextFlags,
    pub(super) rest: Rest,
}

impl Reading {
    /// Returns the message, if `input` still has it.
    #[inline]
    pub(super) fn shown_by<'a>(&self, input: &mut Input<'a>) -> Option<&'a [u8]> {
        let rest = input.rest();
        let is_it = rest.len() >= self.taken && input.print_of(self.taken) == self.fingerprint;
        is_it.then(|| rest.get(self.body.clone()).unwrap_or_default())
    }
}

/// The part of a message that is still to be delivered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    /// The items of a batch from `next` on; `batch` collects the answers.
    Items { next: usize, batch: u32 },
    /// A response without id, once for every open call above `low` and up to `high`.
    Fanout { low: u64, high: u64 },
}

/// What becomes of an item of a batch, decided before the first one is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is classified again and delivered.
    Deliver,
    /// It is a request that was opened in this slot.
    Request { slot: u32 },
    /// It is a notification within its limits, and not a cancel.
    Notification,
    /// It is a request over a limit, which has been answered already.
    Refused {
        cause: RefusedCause,
        answered: Option<i64>,
    },
    /// It is a cancel of a request of this batch, or the request that was cancelled. The request
    /// ended before the first item was delivered, so neither makes an event.
    Done,
}
