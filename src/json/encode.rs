//! Appends strings, and texts that are JSON already, to a buffer as JSON; and the error of a value
//! that has no JSON form. Values of other types are in `serializer`.
//!
//! The output has no raw line breaks. Appending never fails, and allocates only if the buffer has
//! to grow.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::ser;

use super::plain::{is_plain, skip_plain};
use super::text::Json;

/// Appends a string with its quotes.
pub(crate) fn write_str(out: &mut Vec<u8>, s: &str) {
    out.push(b'"');
    write_inside(out, s);
    out.push(b'"');
}

/// Appends the inside of a string, without quotes. The source is examined, not the copy in the
/// output: the processor would have to wait until the bytes just written can be read.
#[inline]
pub(crate) fn write_inside(out: &mut Vec<u8>, s: &str) {
    if is_plain(s.as_bytes()) {
        out.extend_from_slice(s.as_bytes());
    } else {
        write_escaped(out, s);
    }
}

/// Appends the inside of a string with its escapes. Exactly the stops of `skip_plain` must be
/// escaped.
#[inline(never)]
pub(super) fn write_escaped(out: &mut Vec<u8>, s: &str) {
    let text = s.as_bytes();
    let mut start = 0;
    loop {
        let end = skip_plain(text, start);
        out.extend_from_slice(text.get(start..end).unwrap_or_default());
        let Some(&byte) = text.get(end) else { return };
        write_escape(out, byte);
        start = end + 1;
    }
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x09 => b't',
        0x0a => b'n',
        0x0c => b'f',
        0x0d => b'r',
        _ => {
            out.extend_from_slice(b"\\u00");
            out.push(hex_digit(byte >> 4));
            out.push(hex_digit(byte & 0x0f));
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' - 10 + nibble
    }
}

/// Appends a text that is JSON already.
///
/// Raw line breaks become blanks, so that the output fits on one line. A valid text has them only
/// between tokens, where every blank has the same meaning.
#[inline]
pub(crate) fn write_json(out: &mut Vec<u8>, json: Json<'_>) {
    let start = out.len();
    out.extend_from_slice(json.as_bytes());
    if json.has_line_breaks() {
        for byte in out.iter_mut().skip(start) {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

/// Says why a value has no JSON text.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodeError {
    /// One pointer, so that the result of each part of a value is returned in a register.
    why: Box<Why>,
}

#[derive(Clone, Debug, PartialEq)]
struct Why {
    kind: EncodeErrorKind,
    message: String,
}

impl EncodeError {
    #[cold]
    fn of(kind: EncodeErrorKind, message: String) -> Self {
        Self {
            why: Box::new(Why { kind, message }),
        }
    }

    pub(super) fn key_not_string() -> Self {
        Self::of(EncodeErrorKind::KeyNotString, String::new())
    }

    #[cold]
    pub(super) fn not_finite() -> Self {
        Self::of(EncodeErrorKind::NotFinite, String::new())
    }

    pub(super) fn key_not_finite() -> Self {
        Self::of(EncodeErrorKind::KeyNotFinite, String::new())
    }

    pub(super) fn reserved_key() -> Self {
        Self::of(EncodeErrorKind::ReservedKey, String::new())
    }

    pub(crate) fn invalid_text() -> Self {
        Self::of(EncodeErrorKind::InvalidText, String::new())
    }

    pub(super) fn out_of_order() -> Self {
        Self::of(EncodeErrorKind::OutOfOrder, String::new())
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> EncodeErrorKind {
        self.why.kind
    }

    /// The message of [`EncodeErrorKind::Custom`], usually from the value's own `Serialize`; empty
    /// for the other kinds.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.why.message
    }
}

impl ser::Error for EncodeError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        Self::of(EncodeErrorKind::Custom, message.to_string())
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why.kind {
            EncodeErrorKind::KeyNotString => "a map has a key that is no string",
            EncodeErrorKind::NotFinite => "the value has a number that is not finite",
            EncodeErrorKind::KeyNotFinite => "a map has a key that is no finite number",
            EncodeErrorKind::ReservedKey => "a map has a reserved key",
            EncodeErrorKind::InvalidText => "a text to be inserted is not valid JSON",
            EncodeErrorKind::OutOfOrder => "keys and values of a map do not alternate",
            EncodeErrorKind::Custom => &self.why.message,
        })
    }
}

impl core::error::Error for EncodeError {}

/// Names why a value has no JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeErrorKind {
    /// A map key is a sequence, a map, a struct, bytes, `None`, a unit, or an enum variant with
    /// content.
    KeyNotString,
    /// A number is infinite, or not a number. Choose yourself what stands for it: an `Option`, a
    /// string, the largest number.
    NotFinite,
    /// A map key is an infinite number, or not a number.
    KeyNotFinite,
    /// A key of a map, or of an object in raw JSON, begins with `$serde_json::private::`, which
    /// would make serde_json at the other end read another document.
    ReservedKey,
    /// Text to be inserted unchanged (`Json`, `RawValue`, a number of arbitrary precision) is not
    /// valid JSON.
    InvalidText,
    /// A `Serialize` wrote two keys or two values in a row, or ended a map after a key.
    OutOfOrder,
    /// A `Serialize` returned or ignored an error, or a `Display` failed; see
    /// [`EncodeError::message`].
    Custom,
}
