//! Open batches: the peer's, whose answers are collected until the last is there; and ours, which
//! are stored only if an error with a null id may end all calls of a batch (see `OurBatches`).
//!
//! The answers of a batch are in one buffer, in the order in which they were made, with a comma
//! after each. A list says to which position each belongs. No answer of a batch is sent before the
//! last one, and nothing is sent if no answer is needed. JSON-RPC 2.0 §6.

use alloc::vec::Vec;
use core::mem;

use crate::config::BatchOrder;
use crate::requests::NONE;

/// The most bytes of an error with a short message and without data, besides its id. (A message whose
/// characters are escaped may need some more.)
pub(crate) const ERROR_BYTES: usize = 320;

/// How many bytes the answer of a batch may have.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    /// The size of the whole array at most.
    pub(crate) max_bytes: usize,
    /// The most bytes that can be owed for the other items: less than is certain.
    pub(crate) max_owed: usize,
}

impl Budget {
    /// No limit.
    pub(crate) const NONE: Self = Self {
        max_bytes: usize::MAX,
        max_owed: 0,
    };
}

/// The answer to one item of a batch: the position of the item, and where the answer ends in the
/// batch's text.
#[derive(Clone, Copy, Debug)]
struct Reply {
    position: u32,
    end: u32,
}

/// A batch of the peer, or a free slot for one.
#[derive(Debug, Default)]
struct Batch {
    /// The number of open requests, plus one while items are still being delivered.
    waiting: usize,
    /// The answers, a comma after each.
    text: Vec<u8>,
    /// Where each answer ends in `text`, with its comma.
    replies: Vec<Reply>,
    /// The next free slot; while the batch is open, the number that tells it from the next one in its slot.
    next_free: u32,
}

impl Batch {
    /// Reserves about `room` more bytes. The text grows as vectors do, but not beyond `max_bytes`,
    /// the limit for all answers, unless `room` needs more.
    fn make_room(&mut self, room: usize, max_bytes: usize) {
        let (len, capacity) = (self.text.len(), self.text.capacity());
        let wanted = len.saturating_add(room);
        if wanted > capacity {
            let doubled = capacity.saturating_mul(2).min(max_bytes);
            self.text.reserve_exact(wanted.max(doubled) - len);
        }
    }

    /// Removes the bytes after the last whole answer, which are left if the code that writes a
    /// value has panicked.
    fn forget_unfinished(&mut self) {
        #[cfg(panic = "unwind")]
        {
            let whole = self.replies.last().map_or(0, |last| last.end as usize);
            self.text.truncate(whole);
        }
    }

    /// Removes the bytes from `start` on, and spare capacity if more than half would be unused.
    fn take_back(&mut self, start: usize) {
        self.text.truncate(start);
        if self.text.capacity() / 2 > start {
            self.text.shrink_to(start);
        }
    }

    /// Returns where the answer of each item begins and ends in `text`, in the order of the items;
    /// a missing answer has no bytes. Sorting is not needed, because each item is answered once.
    fn in_order(&self) -> Vec<(u32, u32)> {
        let last = self.replies.iter().map(|reply| reply.position).max();
        let mut parts = alloc::vec![(0, 0); last.map_or(0, |last| last as usize + 1)];
        let mut start = 0;
        for reply in &self.replies {
            parts[reply.position as usize] = (start, reply.end);
            start = reply.end;
        }
        parts
    }

    /// The bytes of heap that the batch holds.
    fn capacity(&self) -> usize {
        self.text.capacity() + self.replies.capacity() * size_of::<Reply>()
    }
}

/// The open batches of the peer.
#[derive(Debug)]
pub(crate) struct Batches {
    slots: Vec<Batch>,
    free: u32,

    /// The bytes of all answers that were not sent yet, of all batches, without commas.
    gathered: usize,
    /// The bytes of buffers that are kept for the next batches.
    kept: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            gathered: 0,
            kept: 0,
        }
    }
}

impl Batches {
    /// The most heap that batches need besides the answers, which count against the output's limit:
    /// one batch's answers once more while they move to the output, kept buffers, the lists and the
    /// slots.
    pub(crate) const fn max_heap_bytes(
        max_batches: usize,
        max_items: usize,
        max_output: usize,
        max_batch_bytes: usize,
    ) -> usize {
        // No answer is shorter than `{"result":1,"error":null,"id":1}`.
        let by_size = max_output / 32;
        let by_number = max_batches.saturating_mul(max_items);
        let replies = if by_size < by_number {
            by_size
        } else {
            by_number
        };
        let in_order = max_items.saturating_mul(size_of::<(u32, u32)>());
        let kept = max_batch_bytes;
        max_batch_bytes
            .saturating_add(kept)
            // Twice, because lists grow by doubling.
            .saturating_add(replies.saturating_mul(2 * size_of::<Reply>()))
            .saturating_add(max_batches.saturating_mul(2 * size_of::<Batch>()))
            .saturating_add(in_order)
    }

    /// Begins a batch. It stays open until [`release`](Self::release) was called once for this, and
    /// once for every request that was added by [`retain`](Self::retain). `number` tells it from the next
    /// batch in its slot.
    pub(crate) fn begin(&mut self, number: u32) -> u32 {
        if let Some(batch) = self.slots.get_mut(self.free as usize) {
            let index = mem::replace(&mut self.free, batch.next_free);
            self.kept = self.kept.saturating_sub(batch.capacity());
            (batch.waiting, batch.next_free) = (1, number);
            return index;
        }
        self.slots.push(Batch {
            waiting: 1,
            next_free: number,
            ..Batch::default()
        });
        (self.slots.len() - 1) as u32
    }

    /// Notes `requests` more open requests of the batch.
    pub(crate) fn retain(&mut self, batch: u32, requests: usize) {
        if let Some(batch) = self.slots.get_mut(batch as usize) {
            batch.waiting += requests;
        }
    }

    /// Notes that one request has ended, or that all items have been delivered. Returns true if the
    /// batch waits for nothing more; then [`write`](Self::write) or [`end`](Self::end) must follow.
    pub(crate) fn release(&mut self, batch: u32) -> bool {
        self.slots.get_mut(batch as usize).is_some_and(|batch| {
            batch.forget_unfinished();
            batch.waiting = batch.waiting.saturating_sub(1);
            batch.waiting == 0
        })
    }

    /// Whether the batch would stay open after one more `release`.
    pub(crate) fn is_waiting_for_more(&self, batch: u32) -> bool {
        let open = self.slots.get(batch as usize);
        open.is_some_and(|batch| batch.waiting > 1)
    }

    /// Adds the answer of the item at `position`, which `write` appends to the buffer, in about
    /// `room` bytes. If `write` fails or panics, or if the array of all answers would be over the
    /// budget, nothing is added. Returns false for an answer that does not fit. `owed` returns how
    /// many bytes must be left for the answers to the other items; it is asked only near the limit.
    pub(crate) fn add<E>(
        &mut self,
        batch: u32,
        position: u32,
        room: usize,
        budget: Budget,
        owed: impl FnOnce() -> usize,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Some(batch) = self.slots.get_mut(batch as usize) else {
            return Ok(false);
        };
        batch.forget_unfinished();
        let start = batch.text.len();
        // One byte for the comma.
        let max_bytes = budget.max_bytes;
        batch.make_room(room.saturating_add(1), max_bytes);
        write(&mut batch.text).inspect_err(|_| batch.take_back(start))?;
        // The array has two brackets, and the last answer has no comma.
        let answer_bytes = batch.text.len() + 2;
        let is_near = answer_bytes > max_bytes.saturating_sub(budget.max_owed);
        let is_over = is_near && answer_bytes > max_bytes.saturating_sub(owed());
        if is_over || u32::try_from(answer_bytes).is_err() {
            batch.take_back(start);
            return Ok(false);
        }
        self.gathered += batch.text.len() - start;
        batch.make_room(1, max_bytes);
        batch.text.push(b',');
        batch.replies.push(Reply {
            position,
            end: batch.text.len() as u32,
        });
        Ok(true)
    }

    /// Returns the number of an open batch: it tells it from the next one in its slot.
    pub(crate) fn number(&self, batch: u32) -> Option<u32> {
        let open = self.slots.get(batch as usize);
        open.filter(|batch| batch.waiting > 0)
            .map(|batch| batch.next_free)
    }

    /// Whether the batch has any answer.
    pub(crate) fn has_replies(&self, batch: u32) -> bool {
        self.slots
            .get(batch as usize)
            .is_some_and(|batch| !batch.replies.is_empty())
    }

    /// Returns the length of the batch's answer in bytes, if it has any replies.
    pub(crate) fn reply_bytes(&self, batch: u32) -> usize {
        self.slots
            .get(batch as usize)
            .map_or(0, |batch| batch.text.len() + 1)
    }

    /// Writes the answers as one array.
    pub(crate) fn write(&mut self, batch: u32, order: BatchOrder, out: &mut Vec<u8>) {
        let Some(batch) = self.slots.get_mut(batch as usize) else {
            return;
        };
        let in_order = batch
            .replies
            .windows(2)
            .all(|pair| pair[0].position < pair[1].position);
        out.push(b'[');
        if in_order || order == BatchOrder::Completion {
            out.extend_from_slice(&batch.text);
        } else {
            for (start, end) in batch.in_order() {
                out.extend_from_slice(&batch.text[start as usize..end as usize]);
            }
        }
        out.pop();
        out.push(b']');
    }

    /// Removes the batch; its slot and buffer can be used again. Buffers of at most `keep_bytes` in
    /// all are kept for the next batches.
    pub(crate) fn end(&mut self, index: u32, keep_bytes: usize) {
        let Some(batch) = self.slots.get_mut(index as usize) else {
            return;
        };
        let answers = batch.text.len() - batch.replies.len();
        self.gathered = self.gathered.saturating_sub(answers);
        batch.text.clear();
        batch.replies.clear();
        if self.kept + batch.capacity() > keep_bytes {
            batch.text = Vec::new();
            batch.replies = Vec::new();
        }
        self.kept += batch.capacity();
        batch.waiting = 0;
        batch.next_free = self.free;
        self.free = index;
    }

    /// The bytes of all answers that were not sent yet, of all batches.
    pub(crate) fn gathered(&self) -> usize {
        self.gathered
    }
}

/// The call numbers of our batches that may still have open calls.
///
/// Batches are stored only under [`NullIdError::FailSole`](crate::NullIdError::FailSole), or if
/// calls may be joined into batches (`max_joined_calls`): then an error without id may end all
/// calls of one message, so calls of one message must be distinguished from calls of several.
#[derive(Debug, Default)]
pub(crate) struct OurBatches {
    /// In the order of their numbers.
    batches: Vec<OurBatch>,
    /// How many batches had open calls when batches without open calls were last removed.
    kept: usize,
}

/// A batch of ours: its first and last call, and how many of them are open.
#[derive(Clone, Copy, Debug)]
struct OurBatch {
    first: u64,
    last: u64,
    open: usize,
}

impl OurBatches {
    /// The most heap that `max_open_calls` calls in batches need.
    pub(crate) const fn max_heap_bytes(max_open_calls: usize) -> usize {
        // Batches without open calls stay until they are more than the batches with open calls.
        max_open_calls
            .saturating_mul(2)
            .saturating_add(2)
            .saturating_mul(2 * size_of::<OurBatch>())
    }

    /// Adds a batch with its first and last call, and the number of its calls.
    pub(crate) fn push(&mut self, first: u64, last: u64, open: usize) {
        if self.batches.len() > 2 * self.kept {
            self.batches.retain(|batch| batch.open > 0);
            self.kept = self.batches.len();
        }
        self.batches.push(OurBatch { first, last, open });
    }

    /// Whether no batch is stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Notes that a call has joined the last batch.
    pub(crate) fn join(&mut self, number: u64) {
        if let Some(batch) = self.batches.last_mut() {
            batch.last = number;
            batch.open += 1;
        }
    }

    /// Notes that a call has ended.
    pub(crate) fn end_call(&mut self, number: u64) {
        if let Some(index) = self.index_of(number) {
            let batch = &mut self.batches[index];
            batch.open = batch.open.saturating_sub(1);
        }
    }

    /// Returns the batch of call `number`, or the call alone: first, last, and how many of its
    /// calls are open.
    pub(crate) fn around(&self, number: u64) -> (u64, u64, usize) {
        match self.index_of(number) {
            Some(index) => {
                let batch = self.batches[index];
                (batch.first, batch.last, batch.open)
            }
            None => (number, number, 1),
        }
    }

    /// Returns the index of the batch with call `number`.
    fn index_of(&self, number: u64) -> Option<usize> {
        let behind = self.batches.partition_point(|batch| batch.first <= number);
        let index = behind.checked_sub(1)?;
        (number <= self.batches[index].last).then_some(index)
    }
}

#[cfg(test)]
mod tests;
