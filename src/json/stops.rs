//! Where the vector module's search in a string stops, as a bit for each byte of a block.
//!
//! Here: what is read out of the bits. Not here: the instructions that make them (`simd`), so this
//! file has no `unsafe`. A stop is passed over only if it is part of a short escape that lies whole
//! in the block.

use super::judge::is_short_escape;
use super::simd::{
    LONG, WIDTH, WINDOW, backslashes, is_free_of_stops, low_marks, marks, masks, short_masks,
};

/// Every other bit of a long block, the first byte's among them, and the last byte's bit.
const EVEN: u64 = 0x5555_5555_5555_5555;
const LAST: u64 = 1 << (LONG - 1);

/// Which bytes of a block are a quote, a backslash or a control character: a bit each, the first byte's lowest.
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

    /// The stops of a block in which escapes are likely, without those of [short](is_short_escape) escapes that end in it.
    /// Also whether there are any at all.
    #[inline]
    pub(super) fn of_escaped(block: &[u8; LONG]) -> (Self, bool) {
        let [others, backslashes] = masks(block, |bytes| [low_marks(bytes), backslashes(bytes)]);
        let all = others | backslashes;
        // Of backslashes in a row every other one begins an escape. An addition to the first of a row carries out of it:
        // that shows which rows begin at an even place.
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

    /// The stops of a block without the first backslash and what stands right after it; and whether these two may be passed
    /// over: they are a [short](is_short_escape) escape, or stand after the first stop that is left.
    ///
    /// Whether a string has an escape cannot be predicted, so nothing here branches on it. Finding
    /// the first stop does not wait for what is escaped.
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

    /// Without a stop at `index`, which lies in the block, and one right after it.
    #[inline]
    pub(super) fn without_two(self, index: usize) -> Self {
        Self(self.0 & !(0b11 << (index % LONG)))
    }

    /// As seen from the byte at `index`, which becomes the first; at most the width.
    #[inline]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0 >> index)
    }
}

/// How many bytes the string at the front of the window has, both quotes included, if it ends in
/// the block after its quote and has one escape at the most, a short one. Nothing for any other.
#[inline]
pub(super) fn short_string(window: &[u8; WINDOW]) -> Option<usize> {
    let block = window.get(1..).and_then(<[u8]>::first_chunk);
    // A window has room for it, and the compiler leaves the other case out.
    let block = block.unwrap_or(&[0; WIDTH]);
    let (stops, is_good) = Stops::behind_one_escape(block);
    let end = stops.first()?;
    (is_good && block.get(end) == Some(&b'"')).then_some(end + 2)
}

/// How many bytes, in whole long blocks, `text` has from `pos` on without any stop.
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
