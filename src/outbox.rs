//! The bytes that wait to be written, and which of our calls are among them.
//!
//! The bytes are in one buffer, so that several messages are written at once. A list has the
//! positions of the buffer's parts. A part is one message; in a stream only a message with calls is
//! a part, because the positions of others are not needed. Each part has the number of its last
//! call, so that calls of which no byte was written are known.
//!
//! ```text
//!   buf   │ taken │ part │ answers … │ part │ open frame … │
//!         0       head   ▲           ▲      committed      len
//!                        begin, end, last call of each
//! ```

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem;

use crate::config::Settings;

use crate::frame::Framing;
use crate::frame::write::{self, FrameStart};
use crate::target::{KEPT, rare};

/// The most bytes of a batch that is made by joining calls: it should be below the limit of
/// servers, and few bytes have to be moved.
const MAX_JOINED_BYTES: u64 = 64 << 10;

/// The bytes of the shortest message, `{"jsonrpc":"2.0","method":"m"}`.
const MESSAGE_BYTES_MIN: usize = 30;

/// A message that waits to be written, see above.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where the part begins and ends, counted from the first byte ever queued.
    begin: u64,
    end: u64,
    /// The number of the last call in this part; zero, which is no call's number, if it has none.
    last_call: u64,
}

impl Part {
    fn has_calls(&self) -> bool {
        self.last_call != 0
    }
}

// The fields keep this order, so that the fields that every message needs are in few cache lines.
/// The output of a connection.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Outbox<S> {
    settings: PhantomData<fn() -> S>,
    buf: Vec<u8>,
    head: usize,
    /// The end of the last complete frame in `buf`. After it may be a frame that is not complete
    /// yet.
    committed: usize,
    /// The number of bytes ever taken or dropped from the front.
    done: u64,
    /// A larger buffer than this is freed when it is empty.
    keep_bytes: u32,
    framing: Framing,
    /// The number of calls of the last frame that calls may join.
    joined_calls: u16,
    parts: VecDeque<Part>,
    /// The number of the last call in the parts that have been removed.
    gone_call: u64,
    /// The number of the last call in the parts of which a byte was taken.
    begun_call: u64,
    /// The end of the last frame with calls, in bytes ever queued.
    calls_end: u64,
    /// The end of the last reply, in bytes ever queued.
    replies_end: u64,
    /// The end of the last frame that calls may join, in bytes ever queued.
    joined_end: u64,
}

impl<S: Settings> Outbox<S> {
    /// Takes the memory of an outbox that is used no longer.
    pub(crate) fn reuse(&mut self, old: Self) {
        (self.buf, self.parts) = (old.buf, old.parts);
        self.buf.clear();
        self.buf.shrink_to(self.keep_bytes as usize);
        self.parts.clear();
        self.parts.shrink_to(KEPT);
    }

    pub(crate) const fn new(framing: Framing, keep_bytes: usize) -> Self {
        Self {
            framing,
            settings: PhantomData,
            buf: Vec::new(),
            head: 0,
            committed: 0,
            done: 0,
            parts: VecDeque::new(),
            gone_call: 0,
            begun_call: 0,
            calls_end: 0,
            replies_end: 0,
            joined_end: 0,
            joined_calls: 0,
            keep_bytes: if keep_bytes < u32::MAX as usize {
                keep_bytes as u32
            } else {
                u32::MAX
            },
        }
    }

    /// The most heap that `max_bytes` waiting bytes need, if calls are queued only while no more
    /// than `soft_max_bytes` wait: the buffer, and the list of parts; twice their sizes, because
    /// vectors grow by doubling.
    pub(crate) const fn max_heap_bytes(
        framing: Framing,
        max_bytes: usize,
        soft_max_bytes: usize,
    ) -> (usize, usize) {
        let part_bytes = match framing {
            Framing::Messages => max_bytes,
            // In a stream, only messages with calls are parts. They stay until they are written,
            // also if their calls have ended, so the number of open calls does not bound them.
            _ => soft_max_bytes,
        };
        // One part may be partly written, and the last may exceed the limit.
        let parts = part_bytes / MESSAGE_BYTES_MIN + 2;
        (
            max_bytes.saturating_mul(2),
            parts.saturating_mul(2 * size_of::<Part>()),
        )
    }

    /// Sets the framing from now on, for a stream whose framing was detected.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// The framing; if the settings are known at compile time, so is the framing.
    #[inline]
    fn framing(&self) -> Framing {
        match S::FRAMING {
            None | Some(Framing::Detect) => self.framing,
            Some(framing) => framing,
        }
    }

    /// Begins a frame of about `body_hint` bytes. The message is appended to [`body`](Self::body).
    /// A frame that was begun before and never completed is removed.
    #[inline(always)]
    pub(crate) fn begin(&mut self, body_hint: usize) -> FrameStart {
        self.rollback();
        // Fewer bytes are moved than have been taken.
        if self.head > self.buf.len() / 2 {
            rare();
            self.buf.drain(..self.head);
            self.committed -= self.head;
            self.head = 0;
        }
        write::begin(self.framing(), &mut self.buf, body_hint)
    }

    /// The buffer, to append to while a frame is not complete.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Completes a frame that has calls up to number `last_call` (`None`: no call).
    #[inline(always)]
    pub(crate) fn commit(&mut self, frame: FrameStart, last_call: Option<u64>) {
        let begin = self.queued();
        write::finish(frame, self.framing(), &mut self.buf);
        self.committed = self.buf.len();
        if last_call.is_some() {
            self.calls_end = self.queued();
        }
        if last_call.is_some() || self.framing() == Framing::Messages {
            if self.parts.capacity() == 0 {
                rare();
                // Many peers make one call at a time, and then one entry is enough.
                self.parts = VecDeque::with_capacity(1);
            }
            self.parts.push_back(Part {
                begin,
                end: self.queued(),
                last_call: last_call.unwrap_or(0),
            });
        }
    }

    /// Completes a frame with a reply to the peer.
    #[inline]
    pub(crate) fn commit_reply(&mut self, frame: FrameStart) {
        self.commit(frame, None);
        self.replies_end = self.queued();
    }

    /// Joins the last frame, which has one call, and the frame before it into one batch, if the
    /// frame before has only calls that may be joined, fewer than `max_calls`, and no byte of it
    /// was taken. Returns the last call of the frame before, and the number of calls of the batch.
    #[inline(never)]
    pub(crate) fn join_last(&mut self, max_calls: usize) -> Option<(u64, u16)> {
        let last = self.parts.pop_back()?;
        let Some(before) = self.part_to_join(last, max_calls) else {
            self.parts.push_back(last);
            (self.joined_end, self.joined_calls) = (last.end, 1);
            return None;
        };
        // `… │ header {…} ␊ │ header {…} ␊` becomes `… │ header [{…},{…}] ␊`.
        let (framing, calls) = (self.framing(), self.joined_calls);
        let delimiter = write::delimiter_bytes(framing);
        let place = |at: u64| self.head + (at - self.done) as usize;
        let (start, middle) = (place(before.begin), place(last.begin));
        let entry = write::reopen(framing, &self.buf, middle).body();
        self.buf.truncate(self.committed - delimiter);
        let seam = middle - delimiter - usize::from(calls > 1);
        self.buf.splice(seam..entry, [b',']);
        let joined = write::reopen(framing, &self.buf, start);
        if calls == 1 {
            self.buf.insert(joined.body(), b'[');
        }
        self.buf.push(b']');
        write::finish(joined, framing, &mut self.buf);
        self.committed = self.buf.len();
        self.calls_end = self.queued();
        (self.joined_end, self.joined_calls) = (self.queued(), calls + 1);
        self.parts.push_back(Part {
            end: self.queued(),
            last_call: last.last_call,
            ..before
        });
        Some((before.last_call, calls + 1))
    }

    /// Removes the part before `last` and returns it, if the two may be joined.
    fn part_to_join(&mut self, last: Part, max_calls: usize) -> Option<Part> {
        let (end, calls) = (self.joined_end, self.joined_calls);
        let before = *self.parts.back().filter(|part| part.end == end)?;
        let is_next = before.end == last.begin && before.begin >= self.done;
        let is_short = last.end - before.begin <= MAX_JOINED_BYTES;
        if !is_next || !is_short || usize::from(calls) >= max_calls.min(usize::from(u16::MAX)) {
            return None;
        }
        self.parts.pop_back()
    }

    /// Removes the frame that is not complete.
    #[inline]
    pub(crate) fn rollback(&mut self) {
        if self.buf.len() != self.committed {
            rare();
            self.drop_open_frame();
        }
    }

    /// Removes the frame that is not complete, and capacity that only this frame needed.
    #[inline(never)]
    fn drop_open_frame(&mut self) {
        if self.len() == 0 {
            (self.head, self.committed) = (0, 0);
        }
        self.buf.truncate(self.committed);
        // The capacity for a message that was too large is not kept.
        let keep_bytes = self.committed.max(self.keep_bytes as usize);
        if self.buf.capacity() / 2 > keep_bytes {
            self.buf.shrink_to(keep_bytes);
        }
    }

    /// Returns the bytes to be written next: all waiting bytes, or one frame under `Messages`.
    pub(crate) fn peek(&self) -> Option<&[u8]> {
        let waiting = self
            .buf
            .get(self.head..self.committed)
            .filter(|waiting| !waiting.is_empty())?;
        Some(match (self.framing(), self.parts.front()) {
            (Framing::Messages, Some(part)) => {
                let len = usize::try_from(part.end - self.done).unwrap_or(waiting.len());
                waiting.get(..len).unwrap_or(waiting)
            }
            _ => waiting,
        })
    }

    /// Notes that `n` bytes of [`peek`](Self::peek) were written; a larger `n` counts as all of
    /// them. Returns false if there were none.
    pub(crate) fn consume(&mut self, n: usize) -> bool {
        let n = n.min(self.shown());
        if n > 0 {
            self.advance(n);
        }
        n > 0
    }

    /// The number of bytes that [`peek`](Self::peek) returns.
    fn shown(&self) -> usize {
        match self.framing() {
            Framing::Messages => self.peek().map_or(0, <[u8]>::len),
            _ => self.len(),
        }
    }

    /// Swaps the waiting bytes with `into`, if `into` is empty and [`peek`](Self::peek) would
    /// return all of them. Otherwise does nothing and returns false.
    #[inline]
    pub(crate) fn swap(&mut self, into: &mut Vec<u8>) -> bool {
        let waiting = self.committed;
        let is_all = waiting != 0 && waiting == self.buf.len() && self.head == 0;
        let parts = self.parts.len();
        if !is_all || !into.is_empty() || (parts > 1 && self.framing() == Framing::Messages) {
            return false;
        }
        mem::swap(&mut self.buf, into);
        self.committed = 0;
        self.done += waiting as u64;
        if let Some(&last) = self.parts.back() {
            self.forget_parts(last);
        }
        true
    }

    /// Appends the bytes of [`peek`](Self::peek) to `into`. Returns false if there are none.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> bool {
        self.rollback();
        let Some(shown) = self.peek() else {
            return false;
        };
        let n = shown.len();
        into.extend_from_slice(shown);
        self.advance(n);
        true
    }

    /// Drops the frame of [`peek`](Self::peek), because it could not be sent. Returns the range of
    /// its call numbers: above the first value, up to the second; `None` if it has no calls.
    pub(crate) fn fail(&mut self) -> Option<(u64, u64)> {
        let front = *self.parts.front()?;
        let before = self.gone_call;
        // Dropped bytes were not written.
        let begun = self.begun_call;
        self.advance(usize::try_from(front.end - self.done).ok()?);
        self.begun_call = begun;
        front.has_calls().then_some((before, front.last_call))
    }

    /// Drops all waiting bytes.
    pub(crate) fn clear(&mut self) {
        self.rollback();
        // Dropped bytes were not written.
        let begun = self.begun_call;
        self.advance(self.len());
        self.begun_call = begun;
    }

    /// Drops every call of which no byte was written; the rest stays in order.
    pub(crate) fn drop_unsent_calls(&mut self) {
        self.rollback();
        let begun_call = self.begun_call;
        let unsent = |part: &Part| part.has_calls() && part.last_call > begun_call;
        if !self.parts.iter().any(unsent) {
            return;
        }
        (self.joined_end, self.joined_calls) = (0, 0);
        let mut kept = Vec::new();
        let mut from = self.head;
        let mut dropped = 0;
        let mut dropped_before_replies = 0;
        let (mut calls_end, replies_end) = (0, self.replies_end);
        let (head, done) = (self.head, self.done);
        let place = |at: u64| head + at.saturating_sub(done) as usize;
        self.parts.retain_mut(|part| {
            if unsent(part) {
                kept.extend_from_slice(&self.buf[from..place(part.begin)]);
                from = place(part.end);
                dropped += part.end - part.begin;
                if part.end <= replies_end {
                    dropped_before_replies = dropped;
                }
                return false;
            }
            part.begin -= dropped;
            part.end -= dropped;
            if part.has_calls() {
                calls_end = part.end;
            }
            true
        });
        self.calls_end = calls_end;
        self.replies_end -= dropped_before_replies;
        kept.extend_from_slice(&self.buf[from..self.committed]);
        self.buf = kept;
        self.head = 0;
        self.committed = self.buf.len();
    }

    /// Removes the first `n` waiting bytes.
    fn advance(&mut self, n: usize) {
        self.head += n;
        self.advance_marks(n);
        if self.head >= self.buf.len() {
            self.head = 0;
            self.committed = 0;
            self.buf.clear();
            if self.buf.capacity() > self.keep_bytes as usize {
                self.buf = Vec::new();
            }
        }
    }

    /// Notes that `n` bytes were written, which are before `head` or have been removed.
    fn advance_marks(&mut self, n: usize) {
        self.done += n as u64;
        let Some(&last) = self.parts.back() else {
            return;
        };
        // Usually all bytes have been written, and with them every part.
        if last.end <= self.done && (last.has_calls() || self.parts.len() == 1) {
            return self.forget_parts(last);
        }
        while let Some(part) = self.parts.front().filter(|part| part.begin < self.done) {
            if part.has_calls() {
                self.begun_call = part.last_call;
            }
            if part.end > self.done {
                break;
            }
            self.gone_call = self.begun_call;
            self.parts.pop_front();
        }
    }

    /// Removes all parts up to this one, because they have been written.
    #[inline]
    fn forget_parts(&mut self, last: Part) {
        if last.has_calls() {
            (self.begun_call, self.gone_call) = (last.last_call, last.last_call);
        }
        self.parts.clear();
    }

    /// The number of waiting bytes.
    pub(crate) fn len(&self) -> usize {
        self.committed - self.head
    }

    /// The number of waiting bytes up to the last reply.
    pub(crate) fn waiting_for_replies(&self) -> u64 {
        self.replies_end.saturating_sub(self.done)
    }

    /// Whether there was a reply, and none waits.
    pub(crate) fn has_replied(&self) -> bool {
        self.replies_end > 0 && self.replies_end <= self.done
    }

    /// The number of bytes ever taken or dropped from the front.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// The number of bytes ever queued.
    pub(crate) fn queued(&self) -> u64 {
        self.done + self.len() as u64
    }

    /// Whether the last frame ever queued has calls. True, too, before anything was queued.
    pub(crate) fn ends_in_calls(&self) -> bool {
        self.calls_end == self.queued()
    }

    /// The number of the last call of whose frame a byte was written.
    pub(crate) fn begun_call(&self) -> u64 {
        self.begun_call
    }
}

#[cfg(test)]
mod tests;
