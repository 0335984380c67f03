//! Examines one byte at a time: for machines on which flash is scarcer than time.
//!
//! Bare-metal targets use it, and any target with `--cfg antiphon_small`, so that it can be
//! measured and tested. It has what `plain` uses of `simd` and `stops`; see there. The fast paths
//! find nothing here (no short strings, no windows, no bytes to skip), so the general code does
//! their work. A block is one byte, so only the empty text is shorter than a block.

use core::marker::PhantomData;
use core::str::Utf8Error;

use super::judge::{BESIDE, is_stop, marks};

/// The bytes of a block.
pub(super) const WIDTH: usize = 1;

/// How many bytes a [window](Windows) has.
pub(super) const WINDOW: usize = WIDTH + BESIDE;

/// The bytes of a block in a long string.
pub(super) const LONG: usize = WIDTH;

/// Whether the byte of a block is a quote, a backslash or a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stops(bool);

impl Stops {
    #[inline]
    pub(super) fn of(&[byte]: &[u8; WIDTH]) -> Self {
        Self(is_stop(byte))
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
        self.0.then_some(0)
    }

    /// The first stop's index, if it is one of the first `N`.
    #[inline]
    pub(super) fn first_of<const N: usize>(self) -> Option<usize> {
        self.first().filter(|&index| index < N)
    }

    /// Returns the stops without those at `index` and after it: none are left in a block of one
    /// byte.
    #[inline]
    pub(super) fn without_two(self, _: usize) -> Self {
        Self(false)
    }

    /// Returns the stops from `index` on, with indices counted from there; `index` is at most the
    /// width.
    #[inline]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0 && index == 0)
    }
}

/// Returns no length: a search would be more code.
#[inline]
pub(super) fn short_string(_: &[u8; WINDOW]) -> Option<usize> {
    None
}

/// A text without windows: the general code reads it.
#[derive(Clone, Copy)]
pub(super) struct Windows<'t>(PhantomData<&'t ()>);

impl<'t> Windows<'t> {
    #[inline]
    pub(super) fn of(_: &'t [u8]) -> Self {
        Self(PhantomData)
    }

    /// Returns no window.
    #[inline]
    pub(super) fn at(self, _: usize) -> Option<&'t [u8; WINDOW]> {
        None
    }
}

/// Whether neither of two words has any stop.
#[inline]
pub(super) fn are_plain([first, last]: [u64; 2]) -> bool {
    marks(first) | marks(last) == 0
}

/// Returns how many bytes can be skipped faster than by blocks: none.
#[inline]
pub(super) fn free_of_stops(_: &[u8], _: usize) -> usize {
    0
}

/// Returns a part of a text, if it begins and ends with an ASCII character, as every JSON value
/// does.
#[inline]
pub(crate) fn value_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let value = text.get(start..end)?;
    match value.as_bytes() {
        [first, .., last] if (first | last).is_ascii() => Some(value),
        [only] if only.is_ascii() => Some(value),
        _ => None,
    }
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
