//! Examines blocks of sixteen bytes with vector instructions (SSE2, in every x86-64 processor).
//!
//! This is the only file with `unsafe`, for three reasons. The vector instructions are unsafe in a
//! function that does not name the feature. This file makes a `str` of bytes that are known to be
//! UTF-8 without checking them again. And [`Windows::at`] computes an address; all other loads go
//! through references. Other targets use `swar` or `bytes`, which have no `unsafe`; tests compare
//! the results with those of `swar`. `stops` uses this file; it looks for no newer instructions.
#![allow(
    unsafe_code,
    reason = "the one vector module; tests/repository/floors.rs holds it to be the only one"
)]

use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
    _mm_set_epi64x, _mm_set1_epi8, _mm_setzero_si128, _mm_xor_si128,
};
use core::str::Utf8Error;

use super::judge::BESIDE;
use super::utf8::{is_ascii, is_utf8};

/// The bytes of a block, which fits a vector register.
pub(super) const WIDTH: usize = 16;

/// How many bytes a [window](Windows) has.
pub(super) const WINDOW: usize = WIDTH + BESIDE;

/// The bytes of a block in a long string.
pub(super) const LONG: usize = 4 * WIDTH;

/// A text that is read through windows: references to the [`WINDOW`] bytes at a position.
#[derive(Clone, Copy)]
pub(super) struct Windows<'t> {
    text: &'t [u8],
    /// One after the last position of a window; 0 if there is none.
    end: usize,
}

impl<'t> Windows<'t> {
    #[inline]
    pub(super) fn of(text: &'t [u8]) -> Self {
        let end = text.len().saturating_sub(WINDOW - 1);
        Self { text, end }
    }

    /// Returns the next [`WINDOW`] bytes from `pos` on, if that many are left.
    #[inline]
    pub(super) fn at(self, pos: usize) -> Option<&'t [u8; WINDOW]> {
        // SAFETY: `pos` is below the length less `WINDOW - 1`, so that `pos + WINDOW` is at most
        // the length, and an array of bytes may be at any address.
        (pos < self.end).then(|| unsafe { &*self.text.as_ptr().add(pos).cast() })
    }
}

/// Whether neither of two words has any stop.
#[inline]
pub(super) fn are_plain(words: [u64; 2]) -> bool {
    let [first, last] = words.map(|word| word as i64);
    // SAFETY: x86-64 has SSE2, and this file is compiled only where the target says so.
    unsafe { _mm_movemask_epi8(marks(_mm_set_epi64x(last, first))) == 0 }
}

/// Whether a long block has no stop.
#[inline]
pub(super) fn is_free_of_stops(block: &[u8; LONG]) -> bool {
    let [a, b, c, d] = parts(block);
    // SAFETY: as in `are_plain`.
    unsafe {
        let ab = _mm_or_si128(marks(load(a)), marks(load(b)));
        let cd = _mm_or_si128(marks(load(c)), marks(load(d)));
        _mm_movemask_epi8(_mm_or_si128(ab, cd)) == 0
    }
}

/// Returns a part of a text, if it begins and ends with an ASCII character, as every JSON value
/// does.
#[inline]
pub(crate) fn value_of(text: &str, start: usize, end: usize) -> Option<&str> {
    if start >= end {
        return None;
    }
    let value = text.as_bytes().get(start..end)?;
    let is_cut_well = (value.first()? | value.last()?).is_ascii();
    // SAFETY: an ASCII character is one byte: characters end before the first and after the last.
    is_cut_well.then(|| unsafe { core::str::from_utf8_unchecked(value) })
}

/// Returns a part of a text without its first and last character: a string without its quotes.
#[inline(always)]
pub(crate) fn inside_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let [first, inside @ .., last] = value_of(text, start, end)?.as_bytes() else {
        return None;
    };
    let is_cut_well = (first | last).is_ascii();
    // SAFETY: an ASCII character is one byte: characters begin after the first, end before the last.
    is_cut_well.then(|| unsafe { core::str::from_utf8_unchecked(inside) })
}

/// Returns the text, if it is UTF-8; otherwise the standard library's error.
#[inline]
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if is_ascii(
        bytes,
        are_ascii::<64, 4>,
        are_ascii::<32, 2>,
        are_ascii::<16, 1>,
    ) || is_utf8(bytes, beyond_ascii)
    {
        // SAFETY: ASCII is UTF-8, and `is_utf8` has checked any other text.
        return Ok(unsafe { core::str::from_utf8_unchecked(bytes) });
    }
    core::str::from_utf8(bytes)
}

/// Returns which bytes of a long block are beyond ASCII.
#[inline]
fn beyond_ascii(block: &[u8; LONG]) -> u64 {
    let [beyond] = masks(block, |bytes| [bytes]);
    beyond
}

/// Whether `BLOCKS` blocks one after another are ASCII.
#[inline]
fn are_ascii<const N: usize, const BLOCKS: usize>(blocks: &[u8; N]) -> bool {
    let parts: [_; BLOCKS] = parts(blocks);
    // SAFETY: as in `are_plain`.
    unsafe {
        let none = _mm_setzero_si128();
        let parts = parts.map(load).into_iter();
        let all = parts.fold(none, |all, part| _mm_or_si128(all, part));
        _mm_movemask_epi8(all) == 0
    }
}

/// Splits a long block into blocks.
#[inline]
fn parts<const N: usize, const BLOCKS: usize>(long: &[u8; N]) -> [&[u8; WIDTH]; BLOCKS] {
    core::array::from_fn(|n| {
        let part = long.get(n * WIDTH..).and_then(<[u8]>::first_chunk);
        // `N` is `BLOCKS * WIDTH` in every use, so the compiler removes the default.
        part.unwrap_or(&[0; WIDTH])
    })
}

/// Returns a word for each vector that `judge` makes of a block: a bit for each byte of the long
/// block, the first byte's lowest. A bit is set if the byte's high bit is.
#[inline]
pub(super) fn masks<const N: usize>(
    block: &[u8; LONG],
    judge: impl Fn(__m128i) -> [__m128i; N],
) -> [u64; N] {
    let mut masks = [0; N];
    for (n, part) in parts::<LONG, 4>(block).into_iter().enumerate() {
        for (all, mask) in masks.iter_mut().zip(short_masks(part, &judge)) {
            *all |= mask << (n * WIDTH);
        }
    }
    masks
}

/// Returns what [`masks`] returns, for a block of sixteen bytes.
#[inline]
pub(super) fn short_masks<const N: usize>(
    block: &[u8; WIDTH],
    judge: impl Fn(__m128i) -> [__m128i; N],
) -> [u64; N] {
    // SAFETY: as in `are_plain`.
    judge(load(block)).map(|marked| u64::from(unsafe { _mm_movemask_epi8(marked) } as u32))
}

#[inline]
fn load(block: &[u8; WIDTH]) -> __m128i {
    // SAFETY: the load allows any address, and reads the sixteen bytes of the reference.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// Sets all bits of every byte that is a stop.
#[inline]
pub(super) fn marks(bytes: __m128i) -> __m128i {
    // SAFETY: as in `are_plain`.
    unsafe { _mm_or_si128(low_marks(bytes), backslashes(bytes)) }
}

/// Sets all bits of every byte that is a backslash.
#[inline]
pub(super) fn backslashes(bytes: __m128i) -> __m128i {
    // SAFETY: as in `are_plain`.
    unsafe { _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8)) }
}

/// Sets all bits of every byte that is a quote or a control character, found as in `judge::marks`.
#[inline]
pub(super) fn low_marks(bytes: __m128i) -> __m128i {
    // SAFETY: as in `are_plain`.
    unsafe {
        let flipped = _mm_xor_si128(bytes, _mm_set1_epi8(0x02));
        _mm_cmpeq_epi8(_mm_min_epu8(flipped, _mm_set1_epi8(0x20)), flipped)
    }
}
