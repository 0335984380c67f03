//! The stops that the vector code has found, as a bit for each byte of a block.
//!
//! This file reads the bits, and has no `unsafe`. The instructions that make them are in `simd`.

use super::judge::is_short_escape;
use super::simd::{
    LONG, WIDTH, WINDOW, backslashes, is_free_of_stops, low_marks, marks, masks, short_masks,
};

/// The bits of the bytes at even positions of a long block.
const EVEN: u64 = 0x5555_5555_5555_5555;

/// The bit of the last byte of a long block.
const LAST: u64 = 1 << (LONG - 1);

/// Which bytes of a block are a quote, a backslash or a control character: one bit each, the first
/// byte's lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stops(u64);

impl Stops {
    #[inline]
    pub(super) fn of(block: &[u8; WIDTH]) -> Self {
        let [stops] = short_masks(block, |bytes| [marks(bytes)]);
        Self(stops)
    }

    /// The stops of a block of four times the width.
    #[inline]
    pub(super) fn of_long(block: &[u8; LONG]) -> Self {
        let [stops] = masks(block, |bytes| [marks(bytes)]);
        Self(stops)
    }

    /// Returns the stops of a block in which escapes are likely, without those of
    /// [short](is_short_escape) escapes that end in it. Also returns whether there are any stops at
    /// all.
    #[inline]
    pub(super) fn of_escaped(block: &[u8; LONG]) -> (Self, bool) {
        let [others, backslashes] = masks(block, |bytes| [low_marks(bytes), backslashes(bytes)]);
        let all = others | backslashes;
        // In a row of backslashes the first, third, fifth… begin an escape. Adding to the first bit
        // of a row carries out of the row, which shows the rows that begin at an even position.
        let firsts = backslashes & !(backslashes << 1);
        let even_rows = backslashes & !backslashes.wrapping_add(firsts & EVEN);
        let escapes = (even_rows & EVEN) | (backslashes & !even_rows & !EVEN);
        let (mut rest, mut short) = (escapes & !LAST, 0);
        while rest != 0 {
            let at = rest.trailing_zeros();
            let letter = block[(at as usize + 1) % LONG];
            short |= u64::from(is_short_escape(letter)) << at;
            rest &= rest - 1;
        }
        (Self(all & !(short | short << 1)), all != 0)
    }

    /// Returns the stops of a block without the first backslash and the byte after it. Also returns
    /// whether these two may be skipped: because they are a [short](is_short_escape) escape,
    /// because they come after the first stop that is left, or because there is no backslash.
    ///
    /// Whether a string has an escape cannot be predicted, so this code has no branch on it.
    /// Finding the first stop does not wait for the escaped byte.
    #[inline]
    pub(super) fn behind_one_escape(block: &[u8; WIDTH]) -> (Self, bool) {
        let [others, backslashes] =
            short_masks(block, |bytes| [low_marks(bytes), backslashes(bytes)]);
        let escape = backslashes & backslashes.wrapping_neg();
        let rest = (others | backslashes) & !(escape | escape << 1);
        let letter = block[(backslashes.trailing_zeros() as usize + 1) % WIDTH];
        let is_before = escape & (rest ^ rest.wrapping_sub(1)) != 0;
        (Self(rest), !is_before | is_short_escape(letter))
    }

    /// The first stop's index.
    #[inline]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The first stop's index, if it is one of the first `N`.
    #[inline]
    pub(super) fn first_of<const N: usize>(self) -> Option<usize> {
        let near = self.0 & ((1 << N) - 1);
        (near != 0).then(|| near.trailing_zeros() as usize)
    }

    /// Returns the stops without one at `index`, which is in the block, and without one directly
    /// after it.
    #[inline]
    pub(super) fn without_two(self, index: usize) -> Self {
        Self(self.0 & !(0b11 << (index % LONG)))
    }

    /// Returns the stops from `index` on, with indices counted from there; `index` is in the block,
    /// or one after a block of [`WIDTH`] bytes.
    #[inline]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0 >> index)
    }
}

/// Returns the length of the string at the beginning of the window, including both quotes, if it
/// ends in the block after its quote and has at most one escape, a short one. Returns `None` for
/// any other.
#[inline]
pub(super) fn short_string(window: &[u8; WINDOW]) -> Option<usize> {
    let block = window.get(1..).and_then(<[u8]>::first_chunk);
    // A window is large enough for it, and the compiler removes the other case.
    let block = block.unwrap_or(&[0; WIDTH]);
    let (stops, is_good) = Stops::behind_one_escape(block);
    let end = stops.first()?;
    (is_good && block.get(end) == Some(&b'"')).then_some(end + 2)
}

/// Counts the bytes of `text` from `pos` on, in steps of a long block, up to the first block that
/// has a stop or is incomplete.
#[inline]
pub(super) fn free_of_stops(text: &[u8], pos: usize) -> usize {
    let mut rest = text.get(pos..).unwrap_or_default();
    let mut count = 0;
    while let Some((block, tail)) = rest.split_first_chunk() {
        if !is_free_of_stops(block) {
            break;
        }
        rest = tail;
        count += LONG;
    }
    count
}
