//! How much memory a connection can hold, whatever its peer sends.

use super::parts::Fate;
use crate::batches::{Batches, OurBatches};
use crate::calls::Calls;
use crate::config::{Config, NullIdError};
use crate::json::Envelope;
use crate::outbox::Outbox;
use crate::requests::Requests;

impl Config {
    /// The most heap, in bytes, that a connection of this configuration holds at any moment,
    /// moments of growth included, whatever the peer sends and however slowly it reads.
    ///
    /// Not included, because the peer has no say in them: the driver's input buffer
    /// ([`input_bytes_max`](Self::input_bytes_max)), the tags of calls
    /// ([`memory_bytes_max_for`](Self::memory_bytes_max_for) counts them), ids that callers chose,
    /// and a single result while it is found to be larger than `outbox_bytes_max`.
    ///
    /// ```
    /// let config = antiphon::Config::new();
    /// assert!(config.memory_bytes_max() < 128 << 20);
    /// ```
    pub const fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max_for::<()>()
    }

    /// The most heap, in bytes, that a connection holds at any moment if its calls carry tags of
    /// type `T`. The tags are counted, but not what they own on the heap.
    pub const fn memory_bytes_max_for<T>(&self) -> usize {
        let items_max = if self.batch_items_max > 0 {
            self.batch_items_max
        } else {
            1
        };
        // One answer more may be on its way into the output when the limit is found to be met.
        let output_max = self
            .outbox_bytes_max
            .saturating_add(self.batch_reply_bytes_max / 4);
        let batches_max = self.requests_max.saturating_add(1);
        let batch_bytes_max = self.batch_reply_bytes_max;
        let (output, parts) =
            Outbox::<Config>::heap_bytes_max(self.framing, output_max, self.calls_max);
        let our_batches = match self.null_id_error {
            NullIdError::FailSole => OurBatches::heap_bytes_max(self.calls_max),
            _ => 0,
        };
        let kept = [
            output,
            parts,
            Calls::<T>::heap_bytes_max(self.calls_max),
            Requests::heap_bytes_max(self.requests_max, self.id_bytes_max),
            Batches::heap_bytes_max(batches_max, items_max, output_max, batch_bytes_max),
            // The objects of the batch being read.
            items_max.saturating_mul(2 * (size_of::<Envelope>() + size_of::<Fate>())),
            our_batches,
            // Frames that were not delivered.
            self.calls_max.saturating_mul(2 * size_of::<(u64, u64)>()),
            // A copy of the message whose braces are being escaped.
            if self.escape_braces { output_max } else { 0 },
            // The sentences of limit errors and the like, and the boxes of state that is not
            // always needed.
            4096,
        ];
        // Everything at its largest, and half of the largest once more, because a vector that
        // doubles holds old and new while it moves.
        let (mut sum, mut largest, mut index) = (0usize, 0, 0);
        while index < kept.len() {
            sum = sum.saturating_add(kept[index]);
            largest = if kept[index] > largest {
                kept[index]
            } else {
                largest
            };
            index += 1;
        }
        sum.saturating_add(largest / 2)
    }
}
