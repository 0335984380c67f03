//! All params of a request as one type.

use alloc::string::ToString;
use core::fmt;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::forward_to_deserialize_any;

use super::missing::field_names;
use crate::json::{
    DecodeError, DecodeErrorKind, Elements, Json, JsonKind, decode_seed, has_whole_float,
};

/// All params of a request as one argument of a handler: a struct, whose fields are the parameters.
///
/// Names, order, defaults and the refusal of unknown names are those of serde. An array is read
/// like an object whose names are the fields in their order; types other than structs read the
/// params unchanged. A struct whose fields have an `alias` can be read by name only, because serde
/// does not distinguish an alias from a name.
///
/// ```
/// use antiphon::Json;
/// use antiphon::Params;
/// #[derive(serde::Deserialize)]
/// struct Move { x: i32, y: i32, #[serde(default)] speed: u32 }
///
/// let Params(by_name): Params<Move> = Params::decode(Json::parse_str(r#"{"y": 2, "x": 1}"#).ok())?;
/// let Params(by_position): Params<Move> = Params::decode(Json::parse_str("[1, 2]").ok())?;
/// assert_eq!((by_name.x, by_name.speed), (by_position.x, by_position.speed));
/// # Ok::<(), antiphon::DecodeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params<T>(pub T);

impl<T> Params<T> {
    /// Decodes the params of a request. Absent params are read as `null`; a struct reads `null` as an
    /// empty array.
    ///
    /// # Errors
    /// Why they do not fit the type.
    pub fn decode<'de>(params: Option<Json<'de>>) -> Result<Self, DecodeError>
    where
        T: Deserialize<'de>,
    {
        let params = params.unwrap_or(Json::NULL);
        let names = match params.kind() {
            JsonKind::Array | JsonKind::Null => field_names::<T>(),
            _ => &[],
        };
        if names.is_empty() {
            return params.decode().map(Self);
        }
        let read = |by_value| {
            let mut fields = Fields {
                names: names.iter(),
                elements: params.elements(),
                field: None,
                by_value,
            };
            let value = T::deserialize(&mut fields).map_err(|Failed(error)| error)?;
            match fields.elements.next() {
                None => Ok(Self(value)),
                Some(_) => Err(DecodeError::about(DecodeErrorKind::Surplus, "")),
            }
        };
        // As `Json::decode` does.
        if params.flags().has_whole_float() && has_whole_float(params) {
            return read(true).or_else(|_| read(false));
        }
        read(false).or_else(|error| match has_whole_float(params) {
            true => read(true),
            false => Err(error),
        })
    }

    /// The names of the fields; empty for a type that is not a struct.
    pub fn names<'de>() -> &'static [&'static str]
    where
        T: Deserialize<'de>,
    {
        field_names::<T>()
    }
}

/// The elements of an array, each with the name of its field.
struct Fields<'de> {
    names: core::slice::Iter<'static, &'static str>,
    elements: Elements<'de>,
    /// The field whose name was read, and whose value was not.
    field: Option<(&'static str, Json<'de>)>,
    by_value: bool,
}

impl<'de> Deserializer<'de> for &mut Fields<'de> {
    type Error = Failed;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failed> {
        visitor.visit_map(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failed> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct option seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> MapAccess<'de> for &mut Fields<'de> {
    type Error = Failed;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Failed> {
        // `decode` checks whether there are more elements than fields.
        let Some(name) = self.names.next() else {
            return Ok(None);
        };
        let Some(value) = self.elements.next() else {
            return Ok(None);
        };
        self.field = Some((name, value));
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Failed> {
        let (name, value) = self.field.take().unwrap_or(("", Json::NULL));
        decode_seed(value, seed, self.by_value).map_err(|error| Failed(error.of_parameter(name)))
    }
}

/// Why a field or the whole could not be read.
#[derive(Debug)]
struct Failed(DecodeError);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl core::error::Error for Failed {}

impl Error for Failed {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(DecodeError::of_fields(&message.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::Params;
    use crate::json::{DecodeError, DecodeErrorKind, Json};

    #[derive(Deserialize, PartialEq, Debug)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    struct Move {
        to_x: i32,
        y: Option<i32>,
        #[serde(default)]
        speed: u32,
    }

    fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, DecodeErrorKind> {
        let params = (!text.is_empty()).then(|| Json::parse_str(text).unwrap());
        let decoded = Params::decode(params);
        decoded
            .map(|Params(value)| value)
            .map_err(|error: DecodeError| error.kind())
    }

    // SRV-05 SRV-06 SRV-07 SRV-08 SRV-09
    #[test]
    fn a_struct_is_read_by_name_and_by_position() {
        use DecodeErrorKind::{Mismatch, Surplus};
        let whole = Move {
            to_x: 1,
            y: Some(2),
            speed: 3,
        };
        let least = Move {
            to_x: 1,
            y: None,
            speed: 0,
        };
        assert_eq!(read(r#"{"toX":1,"y":2,"speed":3}"#), Ok(whole));
        assert_eq!(read("[1]"), Ok(least));
        assert_eq!(read::<Move>("[1,null]").unwrap().y, None);
        assert_eq!(read::<Move>("[1,2,3,4]"), Err(Surplus));
        for text in [
            "",
            "[]",
            "{}",
            r#"["1"]"#,
            r#"{"to_x":1}"#,
            r#"{"toX":1,"z":1}"#,
        ] {
            assert_eq!(read::<Move>(text), Err(Mismatch), "{text}");
        }
        assert_eq!(read("[1,2]"), Ok((1, 2)));
        assert_eq!(read(""), Ok(None::<i32>));
    }
}
