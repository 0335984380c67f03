//! The most memory that a connection can hold, whatever its peer sends.

use super::parts::Fate;
use crate::batches::{Batches, OurBatches};
use crate::calls::{Calls, CancelledCalls};
use crate::config::{CancelStyle, Config, NullIdError};
use crate::json::Envelope;
use crate::outbox::Outbox;
use crate::requests::Requests;

impl Config {
    /// The most heap, in bytes, that a connection of this configuration holds at any moment, also
    /// while a buffer grows, whatever the peer sends and however slowly it reads.
    ///
    /// Not included, because they do not depend on the peer: the driver's input buffer
    /// ([`max_input_bytes`](Self::max_input_bytes)), the tags of calls
    /// ([`memory_bytes_max_for`](Self::memory_bytes_max_for) counts them), ids that callers chose,
    /// and what an answer of more than a quarter of `max_batch_reply_bytes` needs beyond that: the
    /// program decides how large its answers are, and the output may grow to hold several of them.
    ///
    /// ```
    /// let config = antiphon::Config::new();
    /// assert!(config.max_memory_bytes() < 128 << 20);
    /// ```
    pub const fn max_memory_bytes(&self) -> usize {
        self.memory_bytes_max_for::<()>()
    }

    /// The most heap, in bytes, that a connection holds at any moment if the tags of its calls have
    /// type `T`. Counts the tags, but not the heap memory that they own.
    pub const fn memory_bytes_max_for<T>(&self) -> usize {
        let max_items = larger(self.limits.max_batch_items, 1);
        // Calls are refused only at the soft limit, which may be the larger one.
        let max_waiting = larger(
            self.limits.soft_max_outbox_bytes,
            self.limits.max_outbox_bytes,
        );
        // The limit is checked after an answer was written, so that answer may exceed it. A quarter
        // of `max_batch_reply_bytes` is added for that.
        let max_output = max_waiting.saturating_add(self.limits.max_batch_reply_bytes / 4);
        let max_batches = self.limits.max_open_requests.saturating_add(1);
        let max_batch_bytes = self.limits.max_batch_reply_bytes;
        let (output, parts) = Outbox::<Config>::max_heap_bytes(
            self.framing,
            max_output,
            self.limits.soft_max_outbox_bytes,
        );
        let our_batches = match self.dialect.null_id_error {
            NullIdError::Report | NullIdError::FailAll if self.limits.max_joined_calls <= 1 => 0,
            _ => OurBatches::max_heap_bytes(self.limits.max_open_calls),
        };
        let cancelled = match self.dialect.cancel_send {
            CancelStyle::None => 0,
            _ => CancelledCalls::max_heap_bytes(self.limits.max_open_calls),
        };
        let kept = [
            output,
            parts,
            Calls::<T>::max_heap_bytes(self.limits.max_open_calls),
            Requests::max_heap_bytes(self.limits.max_open_requests, self.limits.max_id_bytes),
            Batches::max_heap_bytes(max_batches, max_items, max_output, max_batch_bytes),
            // The envelopes of the batch that is being read.
            max_items.saturating_mul(2 * (size_of::<Envelope>() + size_of::<Fate>())),
            our_batches,
            cancelled,
            // Ranges of calls whose messages could not be sent.
            self.limits
                .max_open_calls
                .saturating_mul(2 * size_of::<(u64, u64)>()),
            // A copy of the message whose braces are being escaped.
            if self.dialect.escape_braces {
                max_output
            } else {
                0
            },
            // The texts of limit errors, and the boxes of state that is allocated only when needed.
            4096,
        ];
        // Every part at its largest, and half of the largest part once more, because a vector that
        // doubles holds the old and the new memory while it moves.
        let (mut sum, mut largest, mut index) = (0usize, 0, 0);
        while index < kept.len() {
            sum = sum.saturating_add(kept[index]);
            largest = larger(largest, kept[index]);
            index += 1;
        }
        sum.saturating_add(largest / 2)
    }
}

const fn larger(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}
