//! Concatenated framing: JSON values one after another, with white space between them or none.
//!
//! This module finds the end of a value by counting brackets outside strings. It does not check
//! that the value is valid, and does not compare kinds of brackets: `[}` is a frame, which the
//! validator then refuses.
//!
//! Bytes that `cut` has examined are not examined again. Noise between values becomes a frame,
//! which the validator refuses, and does not end the stream.
//!
//! ```text
//!                   ┌────────────┐  { [                  ┌────────┐  "   ┌──────┐  \   ┌────────┐
//!   ┌─────────┐ ───▶│ (a value   │ ────────────────────▶ │ Nested │ ───▶ │ Text │ ───▶ │ Escape │
//!   │ Between │     │  begins)   │  "    (depth 0)       │ depth  │ ◀─── │      │ ◀─── │        │
//!   └─────────┘ ┌──▶│            │ ───────────▶ Text     └────────┘  "   └──────┘ any  └────────┘
//!        │ 0xEF │   └────────────┘
//!        ▼      │         │ │ digit - t f n   ┌──────┐
//!     ┌──────┐  │         │ └───────────────▶ │ Word │
//!     │ Mark │ ─┘         │ any other         ├──────┤
//!     └──────┘            └─────────────────▶ │ Noise│
//!                                             └──────┘
//! ```
//!
//! A byte order mark begins with the byte 0xEF. A frame ends:
//!
//! * in `Nested`, after the `}` or `]` with which the depth is 0 again
//! * in `Text`, after the closing quote, if the string is at top level
//! * in `Word`, before a blank, `{`, `[` or a quote
//! * in `Noise`, before a line feed, `{` or `[`
//! * in `Mark`, `Word` or `Noise`, with the stream
//!
//! Numbers and words at top level are not messages of JSON-RPC, but each is a frame of its own.
//! Noise ends with the line, or where a message may begin. So a stray bracket, or a
//! line of log, gets one error, and the value after it is read. A value that never closes cannot
//! be repaired: when it is over the limit it is reported, and skipped until its brackets balance.

use core::ops::Range;

use super::cut::{Cut, FrameLimits, FramingError, Unread};
use super::find;

/// How many bytes [`guess`](Concatenated::guess) looks ahead.
pub(super) const MAX_GUESS_BYTES: usize = 1024;

/// How far the current value was examined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Concatenated {
    /// Bytes of the value examined so far.
    scanned: usize,
    state: State,
    /// The number of open brackets. No stream is so long that it exceeds a `u64`.
    depth: u64,
    /// Where an over-long value, now being skipped, began in the stream.
    skipping: Option<u64>,
}

/// The state of the scanner: see the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No value has begun.
    Between,
    /// So many bytes of a byte order mark have begun a frame; blanks may follow the third, then a
    /// value begins.
    Mark(u8),
    /// Inside brackets, outside strings.
    Nested,
    /// Inside a string.
    Text,
    /// Inside a string, after a backslash.
    Escape,
    /// A top-level number or literal.
    Word,
    /// Bytes that begin no value.
    Noise,
}

impl Concatenated {
    pub(super) const fn new() -> Self {
        Self {
            scanned: 0,
            state: State::Between,
            depth: 0,
            skipping: None,
        }
    }

    /// Guesses the position of a value that is one line: an object that begins here, perhaps after
    /// a line feed, and ends before the next line feed or with the last byte received. Only a
    /// validator can say whether that line is one value. Returns `None` if a part of the value was
    /// examined before, and looks only a short way ahead, so that the total time stays linear.
    pub(super) fn guess(&self, unread: &[u8], limits: FrameLimits) -> Option<Range<usize>> {
        let start = usize::from(unread.first() == Some(&b'\n'));
        let value = unread.get(start..).unwrap_or_default();
        let is_fresh = self.scanned == 0 && self.skipping.is_none() && self.state == State::Between;
        if !is_fresh || value.first() != Some(&b'{') {
            return None;
        }
        let near = value.get(..=MAX_GUESS_BYTES).unwrap_or(value);
        let len = find::line_feed(near).unwrap_or(value.len());
        let last = value.get(..len).and_then(<[u8]>::last);
        let is_near = len <= limits.max_frame_bytes.min(MAX_GUESS_BYTES);
        (is_near && last == Some(&b'}')).then_some(start..start + len)
    }

    /// See [`Cutter::goes_on`](super::Cutter::goes_on).
    #[inline(never)]
    pub(super) fn goes_on(&mut self, unread: &[u8], limits: FrameLimits) -> bool {
        let mut next = *self;
        let goes_on = self.scanned > 0
            && self.skipping.is_none()
            && unread.len() <= limits.max_frame_bytes
            && find::few_new(unread, self.scanned).is_some_and(|new| next.scan(new).is_none());
        if goes_on {
            next.scanned = unread.len();
            *self = next;
        }
        goes_on
    }

    pub(super) fn cut(
        &mut self,
        unread: Unread<'_>,
        limits: FrameLimits,
    ) -> Result<Cut, FramingError> {
        let mut start = 0;
        if let Some(offset) = self.skipping {
            let Some(end) = self.scan(unread.bytes) else {
                return match unread.at_end && !self.may_end_here() {
                    true => Err(FramingError::Truncated { offset }),
                    false => Ok(unread.exhausted()),
                };
            };
            *self = Self::new();
            start = end;
        }
        if self.state == State::Between {
            start += find::blanks(unread.bytes.get(start..).unwrap_or_default());
            if start == unread.bytes.len() {
                return Ok(unread.exhausted());
            }
        }
        // One byte beyond the limit shows whether a word ends at the limit.
        let value = unread.bytes.get(start..).unwrap_or_default();
        let window = value.len().min(Self::max_input_bytes(limits));
        let Some(unseen) = value.get(self.scanned..window) else {
            // The caller passed fewer bytes than before.
            return unread.incomplete(start);
        };
        let end = self.scan(unseen).map(|n| self.scanned + n);
        if end.unwrap_or(window) > limits.max_frame_bytes {
            let state = *self;
            *self = Self::new();
            if end.is_none() {
                *self = state;
                self.skipping = Some(unread.offset(start));
            }
            return Ok(Cut::Oversize {
                bytes: None,
                taken: start + end.unwrap_or(window),
            });
        }
        let unterminated = end.is_none();
        if unterminated && !(unread.at_end && self.may_end_here()) {
            self.scanned = window;
            return unread.incomplete(start);
        }
        *self = Self::new();
        let end = start + end.unwrap_or(window);
        Ok(Cut::Frame {
            body: start..end,
            taken: end,
            unterminated,
        })
    }

    pub(super) const fn is_mid_frame(&self) -> bool {
        self.scanned > 0 || self.skipping.is_some()
    }

    /// Returns the size of the longest body with the byte that delimits it.
    pub(super) const fn max_input_bytes(limits: FrameLimits) -> usize {
        limits.max_frame_bytes.saturating_add(1)
    }

    /// Whether the end of the stream ends the value as well: not inside brackets or a string.
    const fn may_end_here(&self) -> bool {
        match self.state {
            State::Between | State::Mark(_) | State::Word | State::Noise => true,
            State::Nested | State::Text | State::Escape => false,
        }
    }

    /// Examines `bytes`, which follow the bytes examined before. If the value ends in them, returns
    /// how many of them belong to it.
    fn scan(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        let end = loop {
            if self.state == State::Text {
                at += find::plain_text(bytes.get(at..).unwrap_or_default());
            }
            let Some(&byte) = bytes.get(at) else {
                break None;
            };
            match self.state {
                State::Between => self.begin(byte),
                State::Mark(seen) => {
                    if !self.pass_mark(seen, byte) {
                        self.state = State::Noise;
                        continue;
                    }
                }
                State::Nested => match byte {
                    b'"' => self.state = State::Text,
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' if self.depth == 1 => break Some(at + 1),
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                },
                State::Text => match byte {
                    b'\\' => self.state = State::Escape,
                    b'"' if self.depth == 0 => break Some(at + 1),
                    b'"' => self.state = State::Nested,
                    _ => {}
                },
                State::Escape => self.state = State::Text,
                State::Word if find::is_blank(byte) || matches!(byte, b'{' | b'[' | b'"') => {
                    break Some(at);
                }
                State::Noise if matches!(byte, b'\n' | b'{' | b'[') => break Some(at),
                State::Word | State::Noise => {}
            }
            at += 1;
        };
        find::note_examined(end.unwrap_or(at));
        end
    }

    /// Decides the kind of a value by its first byte.
    fn begin(&mut self, byte: u8) {
        self.state = match byte {
            b'{' | b'[' => {
                self.depth = 1;
                State::Nested
            }
            b'"' => State::Text,
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => State::Word,
            0xEF => State::Mark(1),
            _ => State::Noise,
        };
    }

    /// Takes one more byte of a byte order mark of which `seen` bytes were read. Returns whether
    /// `byte` fits; if not, the bytes are noise.
    fn pass_mark(&mut self, seen: u8, byte: u8) -> bool {
        match (seen, byte) {
            (1, 0xBB) => self.state = State::Mark(2),
            (2, 0xBF) => self.state = State::Mark(3),
            (1 | 2, _) | (_, 0xEF) => return false,
            (_, byte) if find::is_blank(byte) => {}
            (_, byte) => self.begin(byte),
        }
        true
    }
}
