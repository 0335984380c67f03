//! `OwnedJson`: the same as `Json`, with its own copy of the text.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::ser::{Serialize, Serializer};

use super::encode::EncodeError;
use super::serializer::write_value;
use super::syntax::{JsonKind, SyntaxError};
use super::text::Json;

/// Holds one valid JSON value in an allocation of exactly its size.
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
#[derive(Clone, PartialEq, Eq)]
pub struct OwnedJson(Box<str>);

impl Json<'_> {
    /// Copies the text, in one allocation.
    #[must_use]
    pub fn to_owned_json(self) -> OwnedJson {
        OwnedJson::from(self)
    }
}

impl OwnedJson {
    /// Serialises a value, compactly.
    ///
    /// # Errors
    ///
    /// The value has no JSON form, or its own `Serialize` refused.
    pub fn from_value<S: Serialize + ?Sized>(value: &S) -> Result<Self, EncodeError> {
        let mut out = Vec::new();
        write_value(&mut out, value)?;
        String::from_utf8(out)
            .map(|text| Self(text.into_boxed_str()))
            .map_err(|_| EncodeError::invalid_text())
    }

    /// Validates a text and keeps the value in it, without the blanks around.
    ///
    /// # Errors
    ///
    /// Says where and why the text is not one JSON value.
    pub fn parse(text: String) -> Result<Self, SyntaxError> {
        let json = Json::parse_str(&text)?;
        if json.len() == text.len() {
            return Ok(Self(text.into_boxed_str()));
        }
        Ok(Self::from(json))
    }

    /// The value, to look into.
    #[must_use]
    pub fn as_json(&self) -> Json<'_> {
        let bytes = self.0.as_bytes();
        // In a valid text, a raw line break anywhere is one between tokens.
        let line_breaks = bytes.contains(&b'\n') || bytes.contains(&b'\r');
        Json::from_scanned(bytes, line_breaks)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(&self) -> JsonKind {
        Json::from_scanned(self.0.as_bytes(), true).kind()
    }

    /// Gives the text away.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0.into_string()
    }
}

impl From<Json<'_>> for OwnedJson {
    fn from(json: Json<'_>) -> Self {
        Self(json.as_str().to_owned().into_boxed_str())
    }
}

impl fmt::Debug for OwnedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "OwnedJson({}, {} bytes)",
            self.kind().as_str(),
            self.0.len()
        )
    }
}

impl fmt::Display for OwnedJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for OwnedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_json().serialize(serializer)
    }
}
