//! `OwnedJson`: one valid JSON value, as `Json` is, with its own copy of the text.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::Serialize;

use super::encode::{EncodeError, write_str};
use super::flags::TextFlags;
use super::kept::Kept;
use super::serializer::write_value;
use super::syntax::{JsonKind, SyntaxError};
use super::text::Json;

/// Holds one valid JSON value: in place up to 31 bytes, otherwise in an allocation of exactly its
/// size.
///
/// Serialise a value once into one of these to send it to any number of peers.
///
/// ```
/// use antiphon::OwnedJson;
///
/// let point = OwnedJson::from_value(&(1, 2.5))?;
/// assert_eq!(point.as_str(), "[1,2.5]");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
///
/// It can be a field, for a part of a value that your program need not understand. As with
/// [`Json`], only this crate and serde_json can read and write such a field:
///
/// ```
/// use antiphon::{Json, OwnedJson};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Deserialize, Serialize)]
/// struct Progress {
///     token: OwnedJson,
///     percent: u8,
/// }
///
/// let params = Json::parse(br#"{"token":1.50,"percent":20}"#)?;
/// let progress: Progress = params.decode()?;
/// assert_eq!(progress.token.as_str(), "1.50");
/// assert_eq!(OwnedJson::from_value(&progress)?.as_json(), params);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct OwnedJson {
    text: Kept<32>,
    /// As in [`Json`].
    flags: TextFlags,
}

impl Json<'_> {
    /// Copies the text, in one allocation at most.
    #[must_use]
    #[inline]
    pub fn to_owned_json(self) -> OwnedJson {
        OwnedJson::from(self)
    }
}

impl OwnedJson {
    /// An empty value, to be filled.
    pub(crate) const EMPTY: Self = Self {
        text: Kept::EMPTY,
        flags: TextFlags::NONE,
    };

    /// Copies a value into this one, which is [`EMPTY`](Self::EMPTY).
    #[inline]
    pub(crate) fn fill(&mut self, json: Json<'_>) {
        self.text.fill([json.as_str()]);
        self.flags = json.flags();
    }

    /// Serialises a value in compact form.
    ///
    /// # Errors
    ///
    /// The value has no JSON form; a key of a map in it begins with `$serde_json::private::`; or its
    /// own `Serialize` returned an error.
    pub fn from_value<S: Serialize + ?Sized>(value: &S) -> Result<Self, EncodeError> {
        let mut out = Vec::new();
        write_value(&mut out, value)?;
        String::from_utf8(out)
            .map(|text| Self {
                // Text that is written here has no line breaks, and maps in it have no reserved
                // keys. The names of fields and variants are the program's own.
                flags: TextFlags::WRITTEN,
                text: text.into(),
            })
            .map_err(|_| EncodeError::invalid_text())
    }

    /// Makes a value from a text that was composed of values.
    ///
    /// # Errors
    ///
    /// The text nests deeper than the limit of 128.
    #[doc(hidden)]
    pub fn of_parts(text: Vec<u8>) -> Result<Self, EncodeError> {
        let text = String::from_utf8(text).ok();
        let parsed = text.and_then(|text| Self::parse(text).ok());
        parsed.ok_or_else(EncodeError::invalid_text)
    }

    /// Makes a JSON string of `text`.
    pub(crate) fn of_str(text: &str) -> Self {
        let mut quoted = Vec::new();
        write_str(&mut quoted, text);
        Self {
            flags: TextFlags::NONE,
            // A string into which ASCII bytes were inserted is still UTF-8.
            text: String::from_utf8(quoted).unwrap_or_default().into(),
        }
    }

    /// Validates a text and keeps the value in it, without the blanks around.
    ///
    /// # Errors
    ///
    /// Returns where and why the text is not one JSON value.
    pub fn parse(text: String) -> Result<Self, SyntaxError> {
        let json = Json::parse_str(&text)?;
        if json.len() == text.len() {
            let flags = json.flags();
            return Ok(Self {
                text: text.into(),
                flags,
            });
        }
        Ok(Self::from(json))
    }

    /// Borrows the value, to read it.
    #[must_use]
    pub fn as_json(&self) -> Json<'_> {
        Json::from_scanned(self.text.as_str(), self.flags)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(&self) -> JsonKind {
        self.as_json().kind()
    }

    /// Returns the text.
    #[must_use]
    pub fn into_string(self) -> String {
        self.text.into_string()
    }
}

impl From<Json<'_>> for OwnedJson {
    #[inline]
    fn from(json: Json<'_>) -> Self {
        Self {
            text: Kept::new([json.as_str()]),
            flags: json.flags(),
        }
    }
}

impl PartialEq for OwnedJson {
    /// Compares the texts.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for OwnedJson {}

impl fmt::Debug for OwnedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "OwnedJson({}, {} bytes)",
            self.kind().as_str(),
            self.as_str().len()
        )
    }
}

impl fmt::Display for OwnedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
