//! The stops of a text by blocks of a fixed grid, instead of blocks that begin where a token does.
//!
//! Here: which block is at hand, and the next stop in it. Not here: what a stop means (`tokens`,
//! `cursor`). From any position, the grid gives the next stop from there.
//!
//! Why: the place where a token begins is known only once the one before has ended, and a search
//! from there waits for a load, a comparison and a count each time. A block of the grid is judged
//! before it is known where its tokens begin, so in long strings only the count is waited for.
//! Among short tokens a block at each of them is quicker.

use super::plain::{LONG, Stops};
use super::reserved::RESERVED;
use crate::target::rare;

/// Whether a [grid](Grid) pays at all: its blocks have to be long.
pub(super) const HAS_GRID: bool = LONG >= 64;

/// A text with the stops of one block at hand.
pub(super) struct Grid<'t> {
    text: &'t [u8],
    /// Where the block begins: a multiple of its length.
    start: usize,
    stops: Stops,
}

impl<'t> Grid<'t> {
    /// With the block at hand in which `pos` lies.
    #[inline]
    pub(super) fn at(text: &'t [u8], pos: usize) -> Self {
        let start = pos - pos % LONG;
        Self {
            text,
            start,
            stops: stops_of(text, start),
        }
    }

    /// The first quote, backslash or control character at or after `pos`, or the end of the text.
    #[inline]
    pub(super) fn stop_from(&mut self, pos: usize) -> usize {
        // One comparison for both sides.
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

    /// Takes the block at hand in which `pos` lies.
    #[inline]
    fn move_to(&mut self, pos: usize) {
        if pos < self.start {
            rare();
            self.start = pos - pos % LONG;
        }
        // Step by step, so that the next block does not wait for `pos`.
        while pos >= self.start + LONG {
            self.start += LONG;
        }
        self.stops = stops_of(self.text, self.start);
    }

    /// Behind a comma at `pos` and a key, as [`key`](Self::key) says.
    #[inline]
    pub(super) fn next_key(&mut self, pos: usize) -> Option<(usize, u8)> {
        if self.text.get(pos..pos + 2) != Some(b",\"") {
            return None;
        }
        self.key_behind_quote(pos + 1)
    }

    /// Behind a key whose quote is at `pos`, and its colon: where the value or a blank begins, and the byte there. Only if
    /// the key has no escapes, is too short to be one that serde_json treats in secret ways, and its colon follows at once.
    #[inline]
    pub(super) fn key(&mut self, pos: usize) -> Option<(usize, u8)> {
        if self.text.get(pos) != Some(&b'"') {
            return None;
        }
        self.key_behind_quote(pos)
    }

    /// What [`key`](Self::key) says, where the quote has been seen.
    #[inline(always)]
    fn key_behind_quote(&mut self, pos: usize) -> Option<(usize, u8)> {
        let end = self.key_end(pos + 1)?;
        match self.text.get(end..end + 3) {
            Some([b'"', b':', first]) => Some((end + 2, *first)),
            _ => None,
        }
    }

    /// The first stop of a key that begins at `pos`, if that is near enough.
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

/// The stops of the block that begins at `start`; after the end of the text there are only stops.
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
