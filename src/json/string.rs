//! A string token: the text between two quotes of a valid JSON text, with its escapes.
//!
//! This module compares and unescapes strings; `cursor` and `walk` find them. Two strings are equal
//! when they denote the same code points, however they are escaped. A lone surrogate is a code
//! point of its own, and never silently replaced.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;

use crate::target::SMALL;

/// Borrows one string of a JSON text: a key or a value, quotes stripped, escapes still in place.
///
/// `Debug` prints the length only, because strings of a message may be secrets.
#[derive(Clone, Copy)]
pub struct JsonString<'a> {
    raw: &'a str,
}

impl<'a> JsonString<'a> {
    /// Makes a string from a whole token, including its quotes; a text shorter than two quotes is
    /// read as the empty string.
    #[inline]
    pub(super) fn of_token(token: &'a str) -> Self {
        let inside = 1..token.len().saturating_sub(1).max(1);
        Self {
            raw: token.get(inside).unwrap_or_default(),
        }
    }

    /// The text between the quotes, with its escapes.
    #[must_use]
    pub fn raw(self) -> &'a str {
        self.raw
    }

    /// Whether any character is escaped; if not, [`raw`](Self::raw) is the string itself.
    #[must_use]
    pub fn has_escapes(self) -> bool {
        let bytes = self.raw.as_bytes();
        if SMALL {
            // `contains` is faster, but its code is too large for the flash of a microcontroller.
            #[expect(clippy::manual_contains, reason = "it is the smaller code")]
            return bytes.iter().any(|&byte| byte == b'\\');
        }
        bytes.contains(&b'\\')
    }

    /// Whether the string denotes exactly `other`, after unescaping.
    #[must_use]
    pub fn eq_str(&self, other: &str) -> bool {
        if !self.has_escapes() {
            return self.raw == other;
        }
        self.code_points().eq(other.chars().map(u32::from))
    }

    /// The unescaped string, or `None` if it has a lone surrogate and hence no UTF-8 form.
    ///
    /// Allocates only if there are escapes.
    #[must_use]
    pub fn to_cow(self) -> Option<Cow<'a, str>> {
        if !self.has_escapes() {
            return Some(Cow::Borrowed(self.raw()));
        }
        let mut unescaped = String::with_capacity(self.raw.len());
        for code_point in self.code_points() {
            unescaped.push(char::from_u32(code_point)?);
        }
        Some(Cow::Owned(unescaped))
    }

    /// The unescaped string, each lone surrogate replaced by U+FFFD.
    #[must_use]
    pub fn to_cow_lossy(self) -> Cow<'a, str> {
        if !self.has_escapes() {
            return Cow::Borrowed(self.raw());
        }
        let to_char = |point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
        // An escape is longer than the character that it denotes, so the string never has to grow.
        let mut unescaped = String::with_capacity(self.raw.len());
        unescaped.extend(self.code_points().map(to_char));
        Cow::Owned(unescaped)
    }

    /// The code points of the string, including lone surrogates; for comparing and hashing.
    #[must_use]
    pub fn code_points(self) -> CodePoints<'a> {
        CodePoints {
            rest: self.raw.as_bytes(),
        }
    }
}

impl fmt::Debug for JsonString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonString({} bytes)", self.raw.len())
    }
}

/// Iterates over the code points of a [`JsonString`].
///
/// An escaped surrogate pair is one code point; a surrogate without its partner is returned as it
/// is, in the range 0xD800 to 0xDFFF, which no `char` can hold.
#[derive(Clone)]
pub struct CodePoints<'a> {
    rest: &'a [u8],
}

impl fmt::Debug for CodePoints<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CodePoints({} bytes)", self.rest.len())
    }
}

impl Iterator for CodePoints<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        match first {
            b'\\' => Some(self.escape()),
            0x00..=0x7f => Some(u32::from(first)),
            _ => Some(self.multi_byte(first)),
        }
    }
}

impl CodePoints<'_> {
    /// Decodes the escape after a backslash.
    fn escape(&mut self) -> u32 {
        let Some((&letter, rest)) = self.rest.split_first() else {
            return u32::from(b'\\');
        };
        self.rest = rest;
        match letter {
            b'b' => 0x08,
            b't' => 0x09,
            b'n' => 0x0a,
            b'f' => 0x0c,
            b'r' => 0x0d,
            b'u' => self.unicode_escape(),
            _ => u32::from(letter),
        }
    }

    /// Decodes the four digits after `\u`, and the partner if they are a leading surrogate.
    fn unicode_escape(&mut self) -> u32 {
        let unit = hex_unit(self.rest);
        self.rest = self.rest.get(4..).unwrap_or_default();
        if !(0xd800..0xdc00).contains(&unit) || !self.rest.starts_with(b"\\u") {
            return unit;
        }
        let partner = hex_unit(self.rest.get(2..).unwrap_or_default());
        if !(0xdc00..0xe000).contains(&partner) {
            return unit;
        }
        self.rest = self.rest.get(6..).unwrap_or_default();
        0x10000 + ((unit - 0xd800) << 10) + (partner - 0xdc00)
    }

    /// Decodes a character of two to four bytes, of which `first` has been taken. The text is
    /// UTF-8, so the other bytes follow.
    fn multi_byte(&mut self, first: u8) -> u32 {
        let (more, bits) = match first {
            0xf0.. => (3, first & 0x07),
            0xe0.. => (2, first & 0x0f),
            _ => (1, first & 0x1f),
        };
        let mut code_point = u32::from(bits);
        for _ in 0..more {
            let Some((&next, rest)) = self.rest.split_first() else {
                break;
            };
            self.rest = rest;
            code_point = code_point << 6 | u32::from(next & 0x3f);
        }
        code_point
    }
}

/// Reads the first four bytes as a hexadecimal number; the scanner has checked the digits.
fn hex_unit(digits: &[u8]) -> u32 {
    let digits = digits.iter().take(4);
    digits.fold(0, |unit, &digit| {
        unit << 4 | char::from(digit).to_digit(16).unwrap_or(0)
    })
}
