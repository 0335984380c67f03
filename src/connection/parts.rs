//! A message on its way from the input to its events: how far it has been read, and what of it is
//! still to be told.
//!
//! Not here: how it is cut and scanned (`receive`), and what becomes of it (`deliver`).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use crate::batches::{Batches, OurBatches};
use crate::event::RefusedCause;
use crate::frame::{Cut, FramingError};
use crate::input::Input;
use crate::json::{Scanned, SyntaxError, TextFlags};
use crate::message::Text;

/// How far a turn has come when the short cut gives up: none of it is done again.
pub(super) enum Ready<'a> {
    Nothing,
    /// No whole message is left, and that is no end.
    Drained,
    Cut(Result<Cut, FramingError>),
    Scanned(Frame, Result<Scanned<'a>, SyntaxError>),
}

/// A frame at the front of the input.
pub(super) struct Frame {
    /// Where its text stands.
    pub(super) body: Range<usize>,
    /// How much of the input is consumed with it.
    pub(super) taken: usize,
    /// Whether the end of the input ended it.
    pub(super) unterminated: bool,
}

impl Frame {
    /// All there is.
    #[inline]
    pub(super) fn whole(len: usize) -> Self {
        Self {
            body: 0..len,
            taken: len,
            unterminated: false,
        }
    }

    /// What ends where its framing says.
    #[inline]
    pub(super) fn terminated(body: Range<usize>, taken: usize) -> Self {
        Self {
            body,
            taken,
            unterminated: false,
        }
    }

    /// A message of which `what` is still to be delivered.
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

/// A message that has more to give than one event, the batches that are not over, and room for the
/// next of both.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The message, until all of it has been delivered.
    pub(super) reading: Option<Reading>,
    /// What is to become of each item of a batch that is being read.
    pub(super) fates: Vec<Fate>,
    /// How many items the batch has that was opened last, until that is told.
    pub(super) batch_items: Option<usize>,
    pub(super) batches: Batches,
    pub(super) our_batches: OurBatches,
}

impl Parts {
    /// The parts of a connection, made when they are first needed.
    #[inline]
    pub(super) fn of(parts: &mut Option<Box<Self>>) -> &mut Self {
        parts.get_or_insert_with(Self::make)
    }

    #[cold]
    #[inline(never)]
    fn make() -> Box<Self> {
        Box::default()
    }
}

/// A message of which part has been delivered.
#[derive(Debug)]
pub(super) struct Reading {
    /// Where the message stands in the unconsumed input.
    pub(super) body: Range<usize>,
    /// How much of the input is consumed with it.
    pub(super) taken: usize,
    /// Tells this message from another that a driver might show instead.
    pub(super) fingerprint: u64,
    pub(super) flags: TextFlags,
    pub(super) rest: Rest,
}

impl Reading {
    /// The message, if it is what `input` shows.
    #[inline]
    pub(super) fn shown_by<'a>(&self, input: &mut Input<'a>) -> Option<&'a [u8]> {
        let rest = input.rest();
        let is_it = rest.len() >= self.taken && input.print_of(self.taken) == self.fingerprint;
        is_it.then(|| rest.get(self.body.clone()).unwrap_or_default())
    }
}

/// What of a message is still to be delivered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rest {
    /// The items of a batch from `next` on; `batch` gathers the answers.
    Items { next: usize, batch: u32 },
    /// An error without id, once for every open call above `low` and up to `high`.
    Fanout { low: u64, high: u64 },
}

/// What is to become of an item of a batch, decided before the first one is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is classified again and delivered.
    Deliver,
    /// It is a request that was opened in this slot.
    Request { slot: u32 },
    /// It is a notification that is no cancel and within its limits.
    Notification,
    /// It is a call over a limit, answered already.
    Refused {
        cause: RefusedCause,
        answered: Option<i64>,
    },
    /// It has had its effect before it was delivered.
    Done,
}
