//! `Json`: a slice that is known to be one valid JSON value.
//!
//! This module makes such slices, and returns their text and kind. Texts are checked in `scan` and
//! `cursor`, read in `walk` and `decode`, and copied into output in `encode`. The text is never
//! changed, and `Debug` never prints it.

use core::fmt;

use super::cursor::{Cursor, Failed, MAX_DEPTH};
use super::flags::TextFlags;
use super::string::JsonString;
use super::syntax::{JsonKind, SyntaxError};

/// Borrows one valid JSON value (RFC 8259), exactly as it was received or written.
///
/// It is two words and two flags: copy it freely. Numbers keep their digits, strings their escapes,
/// objects their order and repetitions. In a message that is written, only raw line breaks between
/// tokens become blanks. Values are compared by their bytes: `1` and `1.0` differ.
///
/// `Debug` prints kind and length only, because messages carry secrets; `Display` prints the text.
///
/// ```
/// use antiphon::Json;
///
/// let json = Json::parse(br#" {"price": 1.10, "tags": ["a", "b"]} "#)?;
/// assert_eq!(json.get("price").map(Json::as_str), Some("1.10"));
/// let tags: Vec<&str> = json.get("tags").unwrap_or(Json::NULL).decode()?;
/// assert_eq!(tags, ["a", "b"]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// # As a part of other values
///
/// `Json` implements [`Serialize`](serde::Serialize) and [`Deserialize`](serde::Deserialize), so it
/// can be a field. In your own types, in `serde_json::json!` and in a `serde_json::Value` it is
/// written as the JSON that it holds. [`OwnedJson`](super::OwnedJson) has an example.
///
/// Only this crate and serde_json can read and write it. With any other format serializing and
/// deserializing return an error that says so. When it deserializes untagged enums and flattened
/// fields, serde buffers their contents in a form of its own, so these cannot have raw JSON.
#[derive(Clone, Copy)]
pub struct Json<'a> {
    /// One value, no blanks around it.
    text: &'a str,
    flags: TextFlags,
}

impl<'a> Json<'a> {
    /// The value `null`.
    pub const NULL: Json<'static> = Json {
        text: "null",
        flags: TextFlags::NONE,
    };

    /// Validates a text and borrows the value in it, without the blanks around.
    ///
    /// At most 128 arrays and objects may be open at once. One leading byte-order mark is skipped.
    ///
    /// # Errors
    ///
    /// Returns where and why the text is not one JSON value in UTF-8.
    pub fn parse(text: &'a [u8]) -> Result<Self, SyntaxError> {
        let mut cursor = Cursor::new(text, MAX_DEPTH);
        Self::read(&mut cursor).map_err(|Failed| cursor.failure())
    }

    fn read(cursor: &mut Cursor<'a>) -> Result<Self, Failed> {
        let text = cursor.utf8()?;
        let start = cursor.begin()?;
        cursor.forget_flags();
        let end = cursor.value(start, 0)?;
        let flags = cursor.flags();
        cursor.finish(end)?;
        // The cursor only moves forward inside the text, so the range is valid.
        let text = text.get(start..end).unwrap_or_default();
        Ok(Self { text, flags })
    }

    /// Validates a string and borrows the value in it, like [`parse`](Self::parse).
    ///
    /// # Errors
    ///
    /// Returns where and why the text is not one JSON value.
    pub fn parse_str(text: &'a str) -> Result<Self, SyntaxError> {
        Self::parse(text.as_bytes())
    }

    /// Makes a value from a part of a text that `scan` accepted, with the flags of that text.
    #[inline]
    pub(crate) fn from_scanned(text: &'a str, flags: TextFlags) -> Self {
        Self { text, flags }
    }

    /// Facts about the text, from the scan.
    #[inline]
    pub(crate) fn flags(self) -> TextFlags {
        self.flags
    }

    /// The text.
    #[must_use]
    #[inline]
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// The text as bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The length of the text in bytes; never 0, as every value has a text.
    #[must_use]
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a value is never empty text")]
    pub fn len(self) -> usize {
        self.text.len()
    }

    /// The kind of the value.
    #[must_use]
    #[inline]
    pub fn kind(self) -> JsonKind {
        JsonKind::of_first_byte(self.as_bytes().first().copied().unwrap_or_default())
    }

    /// Whether the value is `null`.
    #[must_use]
    #[inline]
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Whether there may be a raw carriage return or line feed between tokens.
    ///
    /// True may be wrong for a value that was cut from a larger text; false is always right.
    #[must_use]
    #[inline]
    pub fn has_line_breaks(self) -> bool {
        self.flags.has_line_breaks()
    }

    /// The value as a string token, if it is a string.
    #[must_use]
    pub fn as_string(self) -> Option<JsonString<'a>> {
        (self.kind() == JsonKind::String).then(|| JsonString::of_token(self.text))
    }
}

impl PartialEq for Json<'_> {
    /// Compares the texts.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Json<'_> {}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({}, {} bytes)", self.kind().as_str(), self.len())
    }
}

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
