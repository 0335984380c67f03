//! Raw JSON as a part of other values: serde for `Json` and `OwnedJson`.
//!
//! This module uses the private protocol of serde_json's `RawValue`, by which a text is inserted
//! unchanged. Any other format is refused, because it would silently write a struct with a strange
//! name.

use core::any::type_name;

use alloc::boxed::Box;
use alloc::string::String;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Error as _, Serialize, SerializeStruct, Serializer};
use serde_json::value::RawValue;

use super::decode::has_reserved_key;
use super::encode::EncodeError;
use super::owned::OwnedJson;
use super::reserved::RAW_VALUE_TOKEN;
use super::text::Json;

impl Serialize for Json<'_> {
    /// Inserts the text unchanged; in messages its raw line breaks become blanks.
    ///
    /// # Errors
    ///
    /// The format is neither serde_json's nor this crate's.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !knows_raw_json::<S>() {
            let why = "raw JSON can only be serialized by serde_json or antiphon";
            return Err(S::Error::custom(why));
        }
        let mut raw = serializer.serialize_struct(RAW_VALUE_TOKEN, 1)?;
        raw.serialize_field(RAW_VALUE_TOKEN, self.as_str())?;
        raw.end()
    }
}

/// Whether a serializer inserts raw JSON unchanged. Those that do are recognised by their error
/// types, even if another serializer is wrapped around them.
fn knows_raw_json<S: Serializer>() -> bool {
    let error = type_name::<S::Error>();
    error == type_name::<serde_json::Error>() || error == type_name::<EncodeError>()
}

impl Serialize for OwnedJson {
    /// Inserts the text, as [`Json`] does.
    ///
    /// # Errors
    ///
    /// The format is neither serde_json's nor this crate's.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    /// Borrows the text unchanged. The input must be borrowed itself; from a reader or a
    /// `serde_json::Value` only [`OwnedJson`] can be made.
    ///
    /// # Errors
    ///
    /// The format is not serde_json's; the text cannot be borrowed; more than 128 arrays and
    /// objects in it are open at once; or an object in it, at any depth, has a key that begins with
    /// `$serde_json::private::`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: &RawValue = Deserialize::deserialize(deserializer)?;
        let json = Json::parse_str(raw.get()).map_err(D::Error::custom)?;
        without_reserved_key(json)
    }
}

impl<'de> Deserialize<'de> for OwnedJson {
    /// Copies the text unchanged.
    ///
    /// # Errors
    ///
    /// The format is not serde_json's; more than 128 arrays and objects in the text are open at
    /// once; or an object in it, at any depth, has a key that begins with `$serde_json::private::`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw: Box<RawValue> = Deserialize::deserialize(deserializer)?;
        let text = String::from(Box::<str>::from(raw));
        let json = OwnedJson::parse(text).map_err(D::Error::custom)?;
        without_reserved_key(json.as_json())?;
        Ok(json)
    }
}

fn without_reserved_key<E: serde::de::Error>(json: Json<'_>) -> Result<Json<'_>, E> {
    if has_reserved_key(json) {
        return Err(E::custom("the value has a reserved key"));
    }
    Ok(json)
}
