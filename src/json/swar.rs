//! Examines blocks of eight bytes in an ordinary register: the portable version of the vector code.
//!
//! Every target but x86-64 and bare metal uses it. On x86-64 tests compare `simd` and `stops` with
//! it. It has what `plain` uses of `simd` and `stops`; see there. Every mark is exact, so all
//! stops of a word can be used, not only the first.

use core::str::Utf8Error;

use super::judge::{BESIDE, marks};

/// The bytes of a block, which is examined in one word.
pub(super) const WIDTH: usize = 8;

/// How many bytes a [window](Windows) has.
pub(super) const WINDOW: usize = WIDTH + BESIDE;

/// The bytes of a block in a long string.
pub(super) const LONG: usize = WIDTH;

/// Which bytes of a block are a quote, a backslash or a control character: the high bit of each,
/// the first byte's lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stops(u64);

impl Stops {
    #[inline]
    pub(super) fn of(block: &[u8; WIDTH]) -> Self {
        Self(marks(u64::from_le_bytes(*block)))
    }

    /// The stops of a long block.
    #[inline]
    pub(super) fn of_long(block: &[u8; LONG]) -> Self {
        Self::of(block)
    }

    /// Returns all stops of a long block in which escapes are likely, and whether there are any.
    #[inline]
    pub(super) fn of_escaped(block: &[u8; LONG]) -> (Self, bool) {
        let stops = Self::of(block);
        (stops, stops.first().is_some())
    }

    /// The first stop's index.
    #[inline]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 8) as usize)
    }

    /// The first stop's index, if it is one of the first `N`.
    #[inline]
    pub(super) fn first_of<const N: usize>(self) -> Option<usize> {
        self.first().filter(|&index| index < N)
    }

    /// Returns the stops without one at `index`, which is in the block, and without one directly
    /// after it.
    #[inline]
    pub(super) fn without_two(self, index: usize) -> Self {
        Self(self.0 & !(0xffff << (8 * (index % LONG))))
    }

    /// Returns the stops from `index` on, with indices counted from there; `index` is at most the
    /// width.
    #[inline]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0.checked_shr(8 * index as u32).unwrap_or(0))
    }
}

/// Returns no length: without `simd` this search takes longer than the general code.
#[inline]
pub(super) fn short_string(_: &[u8; WINDOW]) -> Option<usize> {
    None
}

/// A text that is read through windows: references to the [`WINDOW`] bytes at a position.
#[derive(Clone, Copy)]
pub(super) struct Windows<'t> {
    text: &'t [u8],
}

impl<'t> Windows<'t> {
    #[inline]
    pub(super) fn of(text: &'t [u8]) -> Self {
        Self { text }
    }

    /// Returns the next [`WINDOW`] bytes from `pos` on, if that many are left.
    #[inline]
    pub(super) fn at(self, pos: usize) -> Option<&'t [u8; WINDOW]> {
        self.text.get(pos..)?.first_chunk()
    }
}

/// Whether the compiler may use vector instructions of the target for loops over bytes.
const VECTORS: bool = cfg!(any(
    target_feature = "sse2",
    target_feature = "neon",
    target_feature = "simd128"
));

/// Whether neither of two words has any stop.
#[inline]
pub(super) fn are_plain([first, last]: [u64; 2]) -> bool {
    marks(first) | marks(last) == 0
}

/// Counts the bytes of `text` from `pos` on, in steps of four blocks, up to the first four that
/// have a stop or are incomplete.
#[inline]
pub(super) fn free_of_stops(text: &[u8], pos: usize) -> usize {
    let mut rest = text.get(pos..).unwrap_or_default();
    let mut count = 0;
    while let Some((block, tail)) = rest.split_first_chunk() {
        let has_stops = if VECTORS {
            has_stops_by_bytes(block)
        } else {
            has_stops_by_words(block)
        };
        if has_stops {
            break;
        }
        rest = tail;
        count += 4 * WIDTH;
    }
    count
}

/// Whether four blocks have a stop, for targets with vector instructions. All bytes are examined
/// without a branch, so the compiler can use these instructions.
#[inline]
pub(super) fn has_stops_by_bytes(blocks: &[u8; 4 * WIDTH]) -> bool {
    let is_stop = |byte: u8| u8::from((byte ^ 0x02) < 0x21) | u8::from(byte == b'\\');
    blocks.iter().fold(0, |found, &byte| found | is_stop(byte)) != 0
}

/// Whether four blocks have a stop, a word at a time, for targets without vector instructions.
#[inline]
pub(super) fn has_stops_by_words(blocks: &[u8; 4 * WIDTH]) -> bool {
    let words = blocks.chunks_exact(WIDTH).filter_map(<[u8]>::first_chunk);
    words.fold(0, |found, word| found | Stops::of(word).0) != 0
}

/// Returns a part of a text, if it begins and ends with an ASCII character, as every JSON value
/// does.
#[inline]
pub(crate) fn value_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let is_ascii = |value: &str| {
        value
            .as_bytes()
            .first()
            .zip(value.as_bytes().last())
            .is_some_and(|(first, last)| (first | last).is_ascii())
    };
    text.get(start..end).filter(|value| is_ascii(value))
}

/// Returns a part of a text without its first and last character: a string without its quotes.
#[inline]
pub(crate) fn inside_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let string = value_of(text, start, end)?;
    string.get(1..string.len().checked_sub(1)?)
}

/// The text, if it is UTF-8.
#[inline]
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Utf8Error> {
    core::str::from_utf8(bytes)
}
