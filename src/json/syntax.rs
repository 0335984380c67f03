//! The terms of the grammar: the six kinds of value, and the faults of a text.
//!
//! No parsing happens here.

use core::fmt;

/// Names the kind of a JSON value (RFC 8259, clause 3; `true` and `false` are one kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonKind {
    /// The literal `null`.
    Null,
    /// The literals `true` and `false`.
    Bool,
    /// A number of any size and form.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonKind {
    /// Returns the kind by the first byte of a value. A byte that begins no value counts as a
    /// number, which does no harm: reading the value fails.
    #[inline]
    pub(super) fn of_first_byte(byte: u8) -> Self {
        match byte {
            b'{' => Self::Object,
            b'[' => Self::Array,
            b'"' => Self::String,
            b't' | b'f' => Self::Bool,
            b'n' => Self::Null,
            _ => Self::Number,
        }
    }

    /// The kind as a noun, for messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// Where a text stops being JSON, and why.
///
/// It never quotes the text, so it is safe to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    offset: usize,
    kind: SyntaxErrorKind,
}

impl SyntaxError {
    /// A placeholder as long as there is no error.
    pub(super) const NONE: Self = Self {
        offset: 0,
        kind: SyntaxErrorKind::Empty,
    };

    #[cold]
    pub(super) fn new(kind: SyntaxErrorKind, offset: usize) -> Self {
        Self { offset, kind }
    }

    /// The position of the fault, in bytes from the start of the text (including a byte-order
    /// mark).
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The kind of the fault.
    #[must_use]
    pub fn kind(&self) -> SyntaxErrorKind {
        self.kind
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind.as_str(), self.offset)
    }
}

impl core::error::Error for SyntaxError {}

/// The kinds of faults of a text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// The text holds no value: it is empty, or blank.
    Empty,
    /// A byte that the grammar does not allow at this place.
    UnexpectedByte,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// The text is not UTF-8 (RFC 8259, clause 8.1).
    InvalidUtf8,
    /// A backslash in a string is not followed by one of the escapes of RFC 8259, clause 7.
    BadEscape,
    /// A number with a leading zero, or without a digit where one is needed (clause 6).
    BadNumber,
    /// A raw control character inside a string; clause 7 wants it escaped.
    ControlCharacter,
    /// More arrays and objects are open at once than allowed.
    TooDeep,
    /// Something other than blanks follows the value.
    TrailingData,
    /// A message is longer than 2³²−1 bytes: the positions in it are stored in 32 bits.
    TooLong,
}

impl SyntaxErrorKind {
    /// The kind in words, for messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "no value",
            Self::UnexpectedByte => "unexpected byte",
            Self::UnexpectedEnd => "unexpected end",
            Self::InvalidUtf8 => "invalid UTF-8",
            Self::BadEscape => "bad escape",
            Self::BadNumber => "bad number",
            Self::ControlCharacter => "control character in a string",
            Self::TooDeep => "nested too deeply",
            Self::TrailingData => "data after the value",
            Self::TooLong => "text too long",
        }
    }
}
