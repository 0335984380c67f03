//! The bytes that wait to be written, and which of our calls are among them.
//!
//! One contiguous buffer, reused, so that stream writes coalesce; the ends of its parts beside it.
//! A part is one message; in a stream only one with calls, for nobody asks where another ends. Each
//! also carries the number of the last call in it: that tells calls of which no byte has left from
//! all others.
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
use crate::target::{SMALL, rare};

/// From so many bytes on, where a text is copied to is worth a thought.
const LARGE: usize = 8192;

#[derive(Clone, Copy, Debug)]
struct Part {
    /// Where the part begins and ends, counted from the first byte ever queued.
    begin: u64,
    end: u64,
    /// The number of the last call in this part; zero, which no call has, if it carries none.
    last_call: u64,
}

impl Part {
    fn has_calls(&self) -> bool {
        self.last_call != 0
    }
}

// In this order, for the reason that `Connection` has.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Outbox<S> {
    settings: PhantomData<fn() -> S>,
    buf: Vec<u8>,
    head: usize,
    /// Where the last complete frame ends in `buf`. Beyond it stands a frame that is being written.
    committed: usize,
    /// Bytes ever taken.
    done: u64,
    /// A larger buffer than this is given back once it is empty.
    keep_bytes: u32,
    framing: Framing,
    /// Whether what was shown last was written from where it stood, and not taken with its buffer, which has nothing
    /// before its first frame.
    in_place: bool,
    parts: VecDeque<Part>,
    /// The last call of the parts that are gone.
    gone_call: u64,
    /// The last call of the parts of which a byte has been taken.
    begun_call: u64,
}

impl<S: Settings> Outbox<S> {
    pub(crate) const fn new(framing: Framing, keep_bytes: usize) -> Self {
        Self {
            framing,
            in_place: false,
            settings: PhantomData,
            buf: Vec::new(),
            head: 0,
            committed: 0,
            done: 0,
            parts: VecDeque::new(),
            gone_call: 0,
            begun_call: 0,
            keep_bytes: if keep_bytes < u32::MAX as usize {
                keep_bytes as u32
            } else {
                u32::MAX
            },
        }
    }

    /// Begins anew, in its memory if it is empty and there is room for `room_max` parts of 64 bytes at the
    /// most.
    pub(crate) fn renew(&mut self, framing: Framing, keep_bytes: usize, room_max: usize) {
        let is_empty = self.buf.is_empty() && self.parts.is_empty();
        let room = self.parts.capacity().max(self.buf.capacity() / 64);
        let (mut buf, mut parts) = (Vec::new(), VecDeque::new());
        if is_empty && room <= room_max {
            buf = mem::take(&mut self.buf);
            parts = mem::take(&mut self.parts);
        }
        *self = Self {
            buf,
            parts,
            ..Self::new(framing, keep_bytes)
        };
    }

    /// The most heap that `bytes_max` waiting bytes keep: the buffer, and the parts beside it. Twice
    /// what is in use, for vectors grow by doubling.
    pub(crate) const fn heap_bytes_max(
        framing: Framing,
        bytes_max: usize,
        calls_max: usize,
    ) -> (usize, usize) {
        // No answer is shorter than `{"result":1,"error":null,"id":1}`.
        let messages = bytes_max / 32;
        let parts = match framing {
            Framing::Messages => messages,
            // In a stream, only calls need parts of their own.
            _ if messages < calls_max.saturating_mul(2) => messages,
            _ => calls_max.saturating_mul(2),
        };
        (
            bytes_max.saturating_add(write::LINE).saturating_mul(2),
            parts.saturating_mul(2 * size_of::<Part>()),
        )
    }

    /// Writes in another framing from now on, for a stream whose framing has been detected.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// The framing written in: known when the program is built, where the settings are.
    #[inline(always)]
    fn framing(&self) -> Framing {
        match S::FRAMING {
            None | Some(Framing::Detect) => self.framing,
            Some(framing) => framing,
        }
    }

    /// Starts a frame of about `body_hint` bytes. What is appended to [`body`](Self::body) next is
    /// the message. An open frame that was never completed is gone.
    #[inline(always)]
    pub(crate) fn begin(&mut self, body_hint: usize) -> FrameStart {
        self.rollback();
        if self.head > self.buf.len() / 2 {
            rare();
            self.buf.drain(..self.head);
            self.committed -= self.head;
            self.head = 0;
        }
        write::begin(self.framing(), &mut self.buf, body_hint)
    }

    /// The same for a body that will have a copy of `text`, if there is one, behind as many other bytes as `before` says.
    /// If that is large and nothing else waits, the frame begins where the copy is quick: see [`write::begin_like`].
    #[inline(always)]
    pub(crate) fn begin_around(
        &mut self,
        body_hint: usize,
        text: Option<&[u8]>,
        before: impl FnOnce() -> usize,
    ) -> FrameStart {
        match text {
            Some(text) if !SMALL && text.len() >= LARGE && self.in_place && self.buf.is_empty() => {
                rare();
                self.begin_like(body_hint, before(), text)
            }
            _ => self.begin(body_hint),
        }
    }

    #[inline(never)]
    fn begin_like(&mut self, body_hint: usize, before: usize, text: &[u8]) -> FrameStart {
        let framing = self.framing();
        let frame = write::begin_like(framing, &mut self.buf, body_hint, before, text);
        self.head = frame.start();
        self.committed = self.head;
        frame
    }

    /// The buffer, to append to while a frame is open.
    pub(crate) fn body(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Completes a frame that carries calls up to number `last_call` (`None`: no call).
    #[inline(always)]
    pub(crate) fn commit(&mut self, frame: FrameStart, last_call: Option<u64>) {
        let begin = self.queued();
        write::finish(frame, self.framing(), &mut self.buf);
        self.committed = self.buf.len();
        if last_call.is_some() || self.framing() == Framing::Messages {
            if self.parts.capacity() == 0 {
                rare();
                // Many peers call one thing at a time, and then one is enough.
                self.parts = VecDeque::with_capacity(1);
            }
            self.parts.push_back(Part {
                begin,
                end: self.queued(),
                last_call: last_call.unwrap_or(0),
            });
        }
    }

    /// Takes the open frame back as if it had never been begun.
    #[inline]
    pub(crate) fn rollback(&mut self) {
        if self.buf.len() != self.committed {
            rare();
            self.drop_open_frame();
        }
    }

    #[inline(never)]
    fn drop_open_frame(&mut self) {
        if self.len() == 0 {
            (self.head, self.committed) = (0, 0);
        }
        self.buf.truncate(self.committed);
        // A message that was found too large does not leave its room behind.
        let keep_bytes = self.committed.max(self.keep_bytes as usize);
        if self.buf.capacity() / 2 > keep_bytes {
            self.buf.shrink_to(keep_bytes);
        }
    }

    /// What to write next: everything in a stream, one frame for whole messages.
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

    /// Notes that `n` bytes of [`peek`](Self::peek) were written; more than were shown counts as
    /// all of them. False if there was nothing to note.
    pub(crate) fn consume(&mut self, n: usize) -> bool {
        let n = n.min(self.shown());
        if n > 0 {
            self.in_place = true;
            self.advance(n);
        }
        n > 0
    }

    /// How many bytes [`peek`](Self::peek) shows.
    fn shown(&self) -> usize {
        match self.framing() {
            Framing::Messages => self.peek().map_or(0, <[u8]>::len),
            _ => self.len(),
        }
    }

    /// Gives all that waits for `into`, which is empty, if that is what [`peek`](Self::peek) shows. Otherwise
    /// nothing is done.
    #[inline(always)]
    pub(crate) fn swap(&mut self, into: &mut Vec<u8>) -> bool {
        self.in_place = false;
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

    /// Moves what [`peek`](Self::peek) shows behind what is in `into`. False if there is nothing.
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

    /// Drops the frame that [`peek`](Self::peek) shows as undelivered. Gives the numbers of its
    /// calls: above the first, up to the second.
    pub(crate) fn fail(&mut self) -> Option<(u64, u64)> {
        let front = *self.parts.front()?;
        let before = self.gone_call;
        self.advance(usize::try_from(front.end - self.done).ok()?);
        front.has_calls().then_some((before, front.last_call))
    }

    /// Drops everything that waits.
    pub(crate) fn clear(&mut self) {
        self.rollback();
        // What is dropped has not left.
        let begun = self.begun_call;
        self.advance(self.len());
        self.begun_call = begun;
    }

    /// Drops every call of which no byte has left; the rest stays in order.
    pub(crate) fn drop_unsent_calls(&mut self) {
        self.rollback();
        let begun_call = self.begun_call;
        let unsent = |part: &Part| part.has_calls() && part.last_call > begun_call;
        if !self.parts.iter().any(unsent) {
            return;
        }
        let mut kept = Vec::new();
        let mut from = self.head;
        let mut dropped = 0;
        let (head, done) = (self.head, self.done);
        let place = |at: u64| head + at.saturating_sub(done) as usize;
        self.parts.retain_mut(|part| {
            if unsent(part) {
                kept.extend_from_slice(&self.buf[from..place(part.begin)]);
                from = place(part.end);
                dropped += part.end - part.begin;
                return false;
            }
            part.begin -= dropped;
            part.end -= dropped;
            true
        });
        kept.extend_from_slice(&self.buf[from..self.committed]);
        self.buf = kept;
        self.head = 0;
        self.committed = self.buf.len();
    }

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

    /// Notes that `n` bytes have left, which are before `head` or not here any more.
    fn advance_marks(&mut self, n: usize) {
        self.done += n as u64;
        let Some(&last) = self.parts.back() else {
            return;
        };
        // Mostly all have, and with them every part.
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

    /// All parts have left, up to this one.
    #[inline(always)]
    fn forget_parts(&mut self, last: Part) {
        if last.has_calls() {
            (self.begun_call, self.gone_call) = (last.last_call, last.last_call);
        }
        self.parts.clear();
    }

    /// Bytes waiting.
    pub(crate) fn len(&self) -> usize {
        self.committed - self.head
    }

    /// Bytes ever taken.
    pub(crate) fn done(&self) -> u64 {
        self.done
    }

    /// Bytes ever queued.
    pub(crate) fn queued(&self) -> u64 {
        self.done + self.len() as u64
    }

    /// The number of the last call of whose frame a byte has left.
    pub(crate) fn begun_call(&self) -> u64 {
        self.begun_call
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGE, Outbox, Part};
    use crate::config::Config;
    use crate::frame::{Framing, write};
    use crate::target::SMALL;
    use alloc::vec;
    use alloc::vec::Vec;

    fn put(outbox: &mut Outbox<Config>, body: &[u8], last_call: Option<u64>) {
        let frame = outbox.begin(body.len());
        outbox.body().extend_from_slice(body);
        outbox.commit(frame, last_call);
    }

    // TRN-07
    #[test]
    fn a_stream_shows_everything_and_takes_partial_writes() {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        put(&mut outbox, b"one", Some(1));
        put(&mut outbox, b"two", None);
        assert_eq!(outbox.peek(), Some(&b"one\ntwo\n"[..]));
        assert_eq!(
            (outbox.queued(), outbox.done(), outbox.begun_call()),
            (8, 0, 0)
        );
        assert!(outbox.consume(1));
        assert_eq!(
            (outbox.queued(), outbox.done(), outbox.begun_call()),
            (8, 1, 1)
        );
        assert!(outbox.consume(100));
        assert_eq!((outbox.len(), outbox.done()), (0, 8));
        assert_eq!(outbox.peek(), None);
        assert!(!outbox.consume(1));
    }

    #[test]
    fn whole_messages_are_shown_one_by_one() {
        let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
        put(&mut outbox, b"one", Some(1));
        put(&mut outbox, b"two", None);
        put(&mut outbox, b"three", Some(3));
        outbox.consume(3);
        assert_eq!(outbox.begun_call(), 1);
        assert_eq!(outbox.peek(), Some(&b"two"[..]));
        assert_eq!(outbox.fail(), None);
        assert_eq!(outbox.peek(), Some(&b"three"[..]));
        assert_eq!(outbox.fail(), Some((1, 3)));
        assert_eq!(outbox.fail(), None);
    }

    #[test]
    fn calls_behind_a_frame_boundary_have_not_begun() {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        put(&mut outbox, b"one", Some(1));
        put(&mut outbox, b"two", Some(2));
        outbox.consume(4);
        assert_eq!(outbox.begun_call(), 1);
        outbox.consume(1);
        assert_eq!(outbox.begun_call(), 2);
    }

    #[test]
    fn taking_swaps_the_buffers_when_nothing_else_waits() {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        let mut into = Vec::with_capacity(99);
        put(&mut outbox, b"one", Some(1));
        assert!(outbox.swap(&mut into));
        assert_eq!(into, b"one\n");
        assert_eq!(
            (outbox.len(), outbox.done(), outbox.begun_call()),
            (0, 4, 1)
        );
        assert!(outbox.buf.capacity() >= 99);
        assert!(!outbox.take(&mut into));
        put(&mut outbox, b"two", Some(2));
        assert!(!outbox.swap(&mut into), "that is not empty");
        assert!(outbox.take(&mut into));
        assert_eq!(into, b"one\ntwo\n");
    }

    #[test]
    fn a_frame_not_completed_is_neither_shown_nor_kept() {
        let mut outbox = Outbox::<Config>::new(Framing::ContentLength, 1024);
        put(&mut outbox, b"one", Some(1));
        let before = outbox.peek().unwrap().to_vec();
        let _ = outbox.begin(10);
        outbox.body().extend_from_slice(b"half");
        assert_eq!(outbox.peek().unwrap(), before);
        outbox.rollback();
        put(&mut outbox, b"two", None);
        assert_eq!(
            outbox.peek().unwrap(),
            [&before[..], b"Content-Length: 3\r\n\r\ntwo"].concat()
        );
    }

    #[test]
    fn unsent_calls_can_be_dropped_from_between_answers() {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        for (body, call) in [
            (b"a1", Some(1)),
            (b"r1", None),
            (b"r2", None),
            (b"a2", Some(2)),
            (b"r3", None),
        ] {
            put(&mut outbox, body, call);
        }
        outbox.consume(1);
        outbox.drop_unsent_calls();
        assert_eq!(outbox.peek(), Some(&b"1\nr1\nr2\nr3\n"[..]));
        assert_eq!(outbox.begun_call(), 1);
        outbox.consume(100);
        assert_eq!((outbox.len(), outbox.done()), (0, 12));
    }

    #[test]
    fn what_was_dropped_does_not_fail_with_a_later_frame() {
        let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
        put(&mut outbox, b"one", Some(1));
        put(&mut outbox, b"two", None);
        outbox.clear();
        assert_eq!((outbox.len(), outbox.begun_call()), (0, 0));
        put(&mut outbox, b"three", Some(2));
        assert_eq!(outbox.fail(), Some((1, 2)));
    }

    #[test]
    fn an_output_begins_anew_in_its_room_once_nothing_waits_there() {
        for (is_empty, room, kept) in [
            (true, 99, 99),
            (true, 128, 128),
            (true, 192, 0),
            (false, 99, 0),
        ] {
            let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
            outbox.buf = Vec::with_capacity(room);
            put(&mut outbox, b"one", None);
            if is_empty {
                outbox.consume(4);
            }
            outbox.renew(Framing::Newline, 1024, 2);
            assert_eq!(outbox.buf.capacity(), kept);
            assert_eq!((outbox.queued(), outbox.peek()), (0, None));
        }
        let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
        outbox.parts = alloc::collections::VecDeque::with_capacity(2);
        outbox.renew(Framing::Messages, 1024, 2);
        assert_eq!(outbox.parts.capacity(), 2);
    }

    // ARC-11
    #[test]
    fn an_empty_buffer_is_kept_up_to_its_limit_and_given_back_beyond() {
        for (room, kept) in [(1000, 1000), (1024, 1024), (1025, 0), (5000, 0)] {
            let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
            outbox.buf = Vec::with_capacity(room);
            put(&mut outbox, b"one", None);
            outbox.consume(3);
            assert_eq!(outbox.buf.capacity(), room);
            outbox.consume(1);
            assert_eq!((outbox.buf.capacity(), outbox.buf.len()), (kept, 0));
            assert_eq!(outbox.head, 0);
        }
    }

    // ARC-11
    #[test]
    fn room_for_a_frame_that_was_taken_back_is_kept_up_to_twice_the_limit() {
        for (room, kept) in [(199, 199), (200, 200), (202, 100), (5000, 100)] {
            let mut outbox = Outbox::<Config>::new(Framing::Newline, 100);
            outbox.buf = Vec::with_capacity(room);
            let _ = outbox.begin(10);
            outbox.body().push(b'x');
            outbox.rollback();
            assert_eq!((outbox.buf.capacity(), outbox.buf.len()), (kept, 0));
        }
        // What waits needs its room, whatever the limit.
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 100);
        outbox.buf = Vec::with_capacity(5000);
        put(&mut outbox, &[b'x'; 999], None);
        let _ = outbox.begin(10);
        outbox.body().push(b'x');
        outbox.rollback();
        assert_eq!(outbox.buf.capacity(), 1000);
    }

    #[test]
    fn what_waits_moves_up_once_more_than_half_has_left() {
        for (taken, head) in [(1, 1), (505, 505), (506, 0), (1009, 0)] {
            let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
            put(&mut outbox, &[b'x'; 1009], None);
            outbox.consume(taken);
            put(&mut outbox, b"behind", None);
            assert_eq!(outbox.head, head, "{taken}");
            assert_eq!(outbox.len(), 1010 - taken + 7);
            assert!(outbox.peek().unwrap().ends_with(b"x\nbehind\n") || taken == 1009);
        }
    }

    fn put_text(outbox: &mut Outbox<Config>, before: &[u8], text: &[u8]) {
        let frame = outbox.begin_around(before.len() + text.len(), Some(text), || before.len());
        outbox.body().extend_from_slice(before);
        outbox.body().extend_from_slice(text);
        outbox.commit(frame, None);
    }

    fn place(bytes: &[u8]) -> usize {
        bytes.as_ptr().addr() % write::LINE
    }

    /// An outbox whose output is written from where it stands.
    fn in_place() -> Outbox<Config> {
        let mut outbox = Outbox::<Config>::new(Framing::ContentLength, 1 << 20);
        put(&mut outbox, b"first", None);
        assert!(outbox.consume(100));
        outbox
    }

    #[test]
    fn a_large_text_lies_in_lines_of_the_cache_as_its_copy_will() {
        let bytes: Vec<u8> = (0..LARGE + 200).map(|n| b'a' + (n % 26) as u8).collect();
        for offset in 0..write::LINE {
            let text = &bytes[offset..offset + LARGE];
            let mut outbox = in_place();
            put_text(&mut outbox, b"before", text);
            let shown = outbox.peek().unwrap();
            assert!(shown.starts_with(b"Content-Length: 8198\r\n\r\nbefore"));
            let (_, copy) = shown.split_at(shown.len() - LARGE);
            assert_eq!(copy, text);
            assert!(SMALL || place(copy) == place(text));
            assert_eq!(outbox.len(), 24 + 6 + LARGE);
            // What comes behind it comes behind it.
            put_text(&mut outbox, b"", text);
            assert_eq!(outbox.len(), 24 + 6 + LARGE + 24 + LARGE);
            assert!(outbox.peek().unwrap().ends_with(text));
            assert!(outbox.consume(24 + 6 + LARGE + 24));
            assert_eq!(outbox.peek(), Some(text));
            assert!(outbox.consume(LARGE));
            assert_eq!((outbox.len(), outbox.head, outbox.buf.len()), (0, 0, 0));
        }
    }

    #[test]
    fn an_output_that_is_taken_with_its_buffer_has_nothing_before_its_first_frame() {
        let text = vec![b'x'; LARGE + write::LINE];
        for offset in 0..write::LINE {
            let text = &text[offset..offset + LARGE];
            // Nobody has taken anything, or the last was taken whole.
            let mut outbox = Outbox::<Config>::new(Framing::Newline, 1 << 20);
            for _ in 0..2 {
                put_text(&mut outbox, b"", text);
                assert_eq!(outbox.head, 0);
                let mut into = Vec::new();
                assert!(outbox.swap(&mut into), "no copy is made");
                assert_eq!(into.len(), LARGE + 1);
                put(&mut outbox, b"small", None);
                outbox.consume(6);
                put(&mut outbox, b"small", None);
                into.clear();
                assert!(outbox.swap(&mut into));
            }
            // A driver that changes its mind gets the same bytes, by a copy.
            put(&mut outbox, b"small", None);
            outbox.consume(6);
            put_text(&mut outbox, b"", text);
            let mut into = Vec::new();
            assert!(outbox.swap(&mut into) || outbox.take(&mut into));
            assert!(into.len() == LARGE + 1 && into.starts_with(text));
        }
    }

    #[test]
    fn a_text_just_too_small_begins_where_the_buffer_does() {
        let text = vec![b'x'; LARGE + write::LINE];
        for offset in 0..write::LINE {
            let mut outbox = in_place();
            put_text(&mut outbox, b"", &text[offset..offset + LARGE - 1]);
            assert_eq!(outbox.head, 0);
        }
    }

    #[test]
    fn a_large_frame_taken_back_leaves_nothing_before_the_next() {
        let text = vec![b'x'; LARGE + write::LINE];
        for offset in 0..write::LINE {
            let mut outbox = in_place();
            let text = &text[offset..offset + LARGE];
            let _ = outbox.begin_around(LARGE, Some(text), || 0);
            outbox.body().extend_from_slice(text);
            outbox.rollback();
            assert_eq!((outbox.len(), outbox.head, outbox.buf.len()), (0, 0, 0));
            assert_eq!(outbox.peek(), None);
            // Nor does one that was begun and forgotten.
            let _ = outbox.begin_around(LARGE, Some(text), || 0);
            put(&mut outbox, b"behind", None);
            assert_eq!(outbox.peek(), Some(&b"Content-Length: 6\r\n\r\nbehind"[..]));
        }
    }

    #[test]
    fn parts_are_bounded_by_their_bytes_and_in_a_stream_by_calls() {
        let parts = |framing, bytes, calls| {
            let (buffer, parts) = Outbox::<Config>::heap_bytes_max(framing, bytes, calls);
            assert_eq!(buffer, 2 * (bytes + write::LINE));
            parts / (2 * size_of::<Part>())
        };
        // Every message of 32 bytes at least is a part, whatever is called.
        assert_eq!(parts(Framing::Messages, 3200, 10), 100);
        assert_eq!(parts(Framing::Messages, 320, 10), 10);
        for framing in [Framing::Newline, Framing::ContentLength, Framing::Detect] {
            assert_eq!(parts(framing, 3200, 10), 20);
            assert_eq!(parts(framing, 320, 10), 10);
            assert_eq!(parts(framing, 672, 10), 20);
        }
    }
}
