//! One byte at a time: the twin of the vector module for machines where flash is dearer than time.
//!
//! Bare-metal targets run it, and any target with `--cfg antiphon_small`, by which it is measured
//! and tested. It has the names of the other twins and gives the answers that they give; see there.
//! A block is one byte, so every search ends where it should without a case for what is shorter
//! than a block.

use core::marker::PhantomData;
use core::str::Utf8Error;

use super::judge::{BESIDE, is_stop, marks};

/// Bytes judged at once.
pub(super) const WIDTH: usize = 1;

/// Bytes seen at once through a [window](Windows).
pub(super) const WINDOW: usize = WIDTH + BESIDE;

/// Bytes judged at once where a string goes on for long.
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

    /// The stops of a long block in which escapes are likely, all of them; also whether there are any.
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

    /// Without a stop at `index`, which lies in the block, and one right after it: without any.
    #[inline]
    pub(super) fn without_two(self, _: usize) -> Self {
        Self(false)
    }

    /// As seen from the byte at `index`, which becomes the first; at most the width.
    #[inline]
    pub(super) fn behind(self, index: usize) -> Self {
        Self(self.0 && index == 0)
    }
}

/// Gives no length: a search would be more code.
#[inline]
pub(super) fn short_string(_: &[u8; WINDOW]) -> Option<usize> {
    None
}

/// A text without windows: the long way finds whatever a window would show.
#[derive(Clone, Copy)]
pub(super) struct Windows<'t>(PhantomData<&'t ()>);

impl<'t> Windows<'t> {
    #[inline]
    pub(super) fn of(_: &'t [u8]) -> Self {
        Self(PhantomData)
    }

    /// Never a window.
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

/// How many bytes can be passed over faster than by blocks: none.
#[inline]
pub(super) fn free_of_stops(_: &[u8], _: usize) -> usize {
    0
}

/// A stretch of a text that begins and ends with an ASCII character, as every JSON value does.
#[inline]
pub(crate) fn value_of(text: &str, start: usize, end: usize) -> Option<&str> {
    let value = text.get(start..end)?;
    match value.as_bytes() {
        [first, .., last] if (first | last).is_ascii() => Some(value),
        [only] if only.is_ascii() => Some(value),
        _ => None,
    }
}

/// A stretch of a text without its first and last character: a string without its quotes.
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
