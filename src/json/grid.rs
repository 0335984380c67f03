//! Finds the stops of a text. A *stop* is a byte at which a string may end or break a rule: a
//! quote, a backslash or a control character.
//!
//! A grid reads the text in blocks of a fixed size at fixed places, and keeps the stops of one
//! block. From any position, it returns the next stop. What a stop means is decided in `tokens` and
//! `cursor`.
//!
//! Other code searches from the beginning of each token. But the beginning of a token is known only
//! after the token before it has ended, so each search waits for a load, a comparison and a count.
//! The blocks of a grid do not depend on tokens, so the processor can prepare the next block in
//! advance. For long strings that is faster, for short tokens it is slower.

use super::plain::{LONG, Stops};
use super::reserved::RESERVED;
use crate::target::rare;

/// Whether a [grid](Grid) is faster at all: only if its blocks are long.
pub(super) const HAS_GRID: bool = LONG >= 64;

/// A text, and the stops of the block that was read last.
pub(super) struct Grid<'t> {
    text: &'t [u8],
    /// Where the block begins: a multiple of its length.
    start: usize,
    stops: Stops,
}

impl<'t> Grid<'t> {
    /// Begins with the block in which `pos` lies.
    #[inline]
    pub(super) fn at(text: &'t [u8], pos: usize) -> Self {
        let start = pos - pos % LONG;
        Self {
            text,
            start,
            stops: stops_of(text, start),
        }
    }

    /// Returns the first stop at or after `pos`, or the end of the text.
    #[inline]
    pub(super) fn stop_from(&mut self, pos: usize) -> usize {
        // One comparison checks both ends of the block.
        if pos.wrapping_sub(self.start) >= LONG {
            self.move_to(pos);
        }
        if let Some(n) = self.stops.behind(pos % LONG).first() {
            return pos + n;
        }
        loop {
            self.start += LONG;
            self.stops = stops_of(self.text, self.start);
            if let Some(n) = self.stops.first() {
                return self.start + n;
            }
        }
    }

    /// Reads the block in which `pos` lies.
    #[inline]
    fn move_to(&mut self, pos: usize) {
        if pos < self.start {
            rare();
            self.start = pos - pos % LONG;
        }
        // The loop goes block by block, so that the next block does not have to wait for `pos`.
        while pos >= self.start + LONG {
            self.start += LONG;
        }
        self.stops = stops_of(self.text, self.start);
    }

    /// Skips a comma at `pos` and the key after it, as [`key`](Self::key) does.
    #[inline]
    pub(super) fn next_key(&mut self, pos: usize) -> Option<(usize, u8)> {
        if self.text.get(pos..pos + 2) != Some(b",\"") {
            return None;
        }
        self.key_behind_quote(pos + 1)
    }

    /// Skips a key whose quote is at `pos`, and its colon. Returns the position of the value, or of
    /// a blank before it, and the byte there. Returns `None` if there is no quote at `pos`, if the
    /// key has escapes, if it is not directly followed by a colon, if the text ends there, or if
    /// the key is so long that it could begin with serde_json's private key prefix ([`RESERVED`]).
    #[inline]
    pub(super) fn key(&mut self, pos: usize) -> Option<(usize, u8)> {
        if self.text.get(pos) != Some(&b'"') {
            return None;
        }
        self.key_behind_quote(pos)
    }

    /// Skips a key as [`key`](Self::key) does, after its quote has been checked.
    #[inline(always)]
    fn key_behind_quote(&mut self, pos: usize) -> Option<(usize, u8)> {
        let end = self.key_end(pos + 1)?;
        match self.text.get(end..end + 3) {
            Some([b'"', b':', first]) => Some((end + 2, *first)),
            _ => None,
        }
    }

    /// Returns the first stop of a key that begins at `pos`, if at most `MAX_LEN` bytes are before
    /// it.
    #[inline]
    fn key_end(&mut self, pos: usize) -> Option<usize> {
        const MAX_LEN: usize = RESERVED.len() - 1;
        if pos.wrapping_sub(self.start) < LONG {
            if let Some(n) = self.stops.behind(pos % LONG).first_of::<{ MAX_LEN + 1 }>() {
                return Some(pos + n);
            }
        }
        let end = self.stop_from(pos);
        (end - pos <= MAX_LEN).then_some(end)
    }
}

/// Returns the stops of the block that begins at `start`. Positions after the end of the text count
/// as stops.
#[inline]
fn stops_of(text: &[u8], start: usize) -> Stops {
    let rest = text.get(start..).unwrap_or_default();
    match rest.first_chunk() {
        Some(block) => Stops::of_long(block),
        None => stops_at_end(rest),
    }
}

#[cold]
#[inline(never)]
fn stops_at_end(rest: &[u8]) -> Stops {
    let mut block = [0; LONG];
    for (place, byte) in block.iter_mut().zip(rest) {
        *place = *byte;
    }
    Stops::of_long(&block)
}
