//! Sixteen bytes at once, with the vector instructions that every x86-64 processor has (SSE2).
//!
//! The only file with `unsafe` in it, and the only reason for it: the vector instructions are declared unsafe where a
//! function does not name the feature, and a `str` can be made of bytes known to be ASCII without looking at them again.
//! `swar` is the twin that other targets run and that tests compare with: same names, same answers, no `unsafe`.
//!
//! Rules guarded: loads go through references to whole blocks, never through an address that was calculated; there is no
//! detection of a processor, and nothing here depends on one.
#![allow(
    unsafe_code,
    reason = "the one vector module; tests/floors.rs holds it to be the only one"
)]

use core::arch::x86_64::{
    __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128,
    _mm_set1_epi8, _mm_setzero_si128, _mm_xor_si128,
};
use core::str::Utf8Error;

use super::plain::WINDOW;
use super::utf8::{is_ascii, is_utf8};

/// Bytes judged at once.
pub(super) const WIDTH: usize = 16;

/// Bytes judged at once where a string goes on for long.
pub(super) const LONG: usize = 4 * WIDTH;

/// Which bytes of a block are a quote, a backslash or a control character: a bit each, the first byte's lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stops(u64);

impl Stops {
    #[inline(always)]
    pub(super) fn of(block: &[u8; WIDTH]) -> Self {
        // SAFETY: x86-64 has SSE2, and this file is compiled only where the target says so.
        Self(unsafe { _mm_movemask_epi8(marks(load(block))) } as u32 as u64)
    }

    /// The stops of a block of four times the width.
    #[inline(always)]
    pub(super) fn of_long(block: &[u8; LONG]) -> Self {
        let [a, b, c, d] = parts(block).map(|part| Self::of(part).0);
        Self(a | b << WIDTH | c << (2 * WIDTH) | d << (3 * WIDTH))
    }

    /// The first stop's index.
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// Without a stop at `index`, which lies in the block, and one right behind it.
    #[inline(always)]
    pub(super) fn without_two(self, index: usize) -> Self {
        Self(self.0 & !(0b11 << (index % LONG)))
    }

    /// As seen from the byte at `index`, which becomes the first; at most the width.
    #[inline(always)]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0 >> index)
    }
}

/// A text that is looked at through windows: at any place, the next so many bytes at once.
#[derive(Clone, Copy)]
pub(super) struct Windows<'t> {
    text: &'t [u8],
    /// One behind the last place that has so many bytes before it; 0 if there is none.
    end: usize,
}

impl<'t> Windows<'t> {
    #[inline(always)]
    pub(super) fn of(text: &'t [u8]) -> Self {
        Self {
            text,
            end: text.len().saturating_sub(WINDOW - 1),
        }
    }

    /// The next [`WINDOW`] bytes from `pos` on, if so many are left.
    #[inline(always)]
    pub(super) fn at(self, pos: usize) -> Option<&'t [u8; WINDOW]> {
        // SAFETY: `pos` is below the length less `WINDOW - 1`, so that `pos + WINDOW` is at most the length, and an array
        // of bytes has no alignment to keep.
        (pos < self.end).then(|| unsafe { &*self.text.as_ptr().add(pos).cast() })
    }
}

/// How many bytes, in whole blocks of four, `text` has from `pos` on without any stop.
#[inline(always)]
pub(super) fn free_of_stops(text: &[u8], pos: usize) -> usize {
    let mut rest = text.get(pos..).unwrap_or_default();
    let mut count = 0;
    while let Some((four, tail)) = rest.split_first_chunk::<{ 4 * WIDTH }>() {
        let [a, b, c, d] = parts(four);
        // SAFETY: as above.
        let found = unsafe {
            let ab = _mm_or_si128(marks(load(a)), marks(load(b)));
            let cd = _mm_or_si128(marks(load(c)), marks(load(d)));
            _mm_movemask_epi8(_mm_or_si128(ab, cd))
        };
        if found != 0 {
            break;
        }
        rest = tail;
        count += 4 * WIDTH;
    }
    count
}

/// A stretch of a text that begins and ends with an ASCII character, as every JSON value does.
#[inline(always)]
pub(crate) fn value_of(text: &str, start: usize, end: usize) -> Option<&str> {
    if start >= end {
        return None;
    }
    let value = text.as_bytes().get(start..end)?;
    let is_cut_well = (value.first()? | value.last()?).is_ascii();
    // SAFETY: an ASCII character is one byte, so that characters end before the first byte and behind the last.
    is_cut_well.then(|| unsafe { core::str::from_utf8_unchecked(value) })
}

/// The same without its first and last character: a string without its quotes.
#[inline(always)]
pub(crate) fn inside_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let [first, inside @ .., last] = value_of(text, start, end)?.as_bytes() else {
        return None;
    };
    let is_cut_well = (first | last).is_ascii();
    // SAFETY: an ASCII character is one byte, so that characters begin behind the first byte and end before the last.
    is_cut_well.then(|| unsafe { core::str::from_utf8_unchecked(inside) })
}

/// The text, if it is UTF-8; what is wrong with any other the library says. All ASCII is read at the speed of memory.
#[inline]
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if is_ascii(bytes) || is_utf8(bytes) {
        // SAFETY: ASCII is UTF-8, and `is_utf8` has looked at the rest.
        return Ok(unsafe { core::str::from_utf8_unchecked(bytes) });
    }
    core::str::from_utf8(bytes)
}

/// Which bytes of a long block are beyond ASCII: a bit each, the first byte's lowest.
#[inline(always)]
pub(super) fn beyond_ascii(block: &[u8; LONG]) -> u64 {
    // SAFETY: as above.
    let beyond = |part: &_| u64::from(unsafe { _mm_movemask_epi8(load(part)) } as u32);
    let [a, b, c, d] = parts(block).map(beyond);
    a | b << WIDTH | c << (2 * WIDTH) | d << (3 * WIDTH)
}

/// Whether so many blocks behind each other are ASCII.
#[inline(always)]
pub(super) fn are_ascii<const N: usize, const BLOCKS: usize>(blocks: &[u8; N]) -> bool {
    let parts: [_; BLOCKS] = parts(blocks);
    // SAFETY: as above.
    unsafe {
        let none = _mm_setzero_si128();
        let all = parts
            .into_iter()
            .fold(none, |all, part| _mm_or_si128(all, load(part)));
        _mm_movemask_epi8(all) == 0
    }
}

/// The blocks behind each other in a longer one.
#[inline(always)]
fn parts<const N: usize, const BLOCKS: usize>(long: &[u8; N]) -> [&[u8; WIDTH]; BLOCKS] {
    core::array::from_fn(|n| {
        let part = long.get(n * WIDTH..).and_then(<[u8]>::first_chunk);
        // The sizes fit wherever this is used, and the compiler leaves the other case out.
        part.unwrap_or(&[0; WIDTH])
    })
}

#[inline(always)]
fn load(block: &[u8; WIDTH]) -> __m128i {
    // SAFETY: the load has no alignment to keep and reads the sixteen bytes that the reference is to.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// All ones in the place of every stop.
///
/// Flipping bit 1 maps `"` (0x22) to 0x20 and keeps the control characters below it, while space and `!` move up to
/// 0x22 and 0x23: one comparison covers quote and control characters.
#[inline(always)]
fn marks(bytes: __m128i) -> __m128i {
    // SAFETY: as above.
    unsafe {
        let flipped = _mm_xor_si128(bytes, _mm_set1_epi8(0x02));
        let low = _mm_cmpeq_epi8(_mm_min_epu8(flipped, _mm_set1_epi8(0x20)), flipped);
        let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        _mm_or_si128(low, backslash)
    }
}
