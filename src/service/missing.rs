//! What types say of parameters: the value of one that was left out, and the fields of a struct.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;

use serde::Deserialize;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Returns the value that stands for a parameter that was left out: for an `Option` its `None`, and
/// similar values for types that accept a missing value. Other types have no such value.
pub(super) fn absent<'de, T: Deserialize<'de>>() -> Option<T> {
    T::deserialize(Absent).ok()
}

/// The deserializer of a missing value.
struct Absent;

/// Returns the value that `null` stands for in a type that distinguishes it from a missing value: for
/// an `Option` of an `Option` its `Some(None)`. Other types have no such value.
pub(super) fn null<'de, T: Deserialize<'de>>() -> Option<T> {
    T::deserialize(GivenNull).ok()
}

/// The deserializer of a `null` that was given.
struct GivenNull;

impl<'de> Deserializer<'de> for Absent {
    type Error = Gap;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Gap> {
        Err(Gap(None))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Gap> {
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Gap> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for GivenNull {
    type Error = Gap;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Gap> {
        Err(Gap(None))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Gap> {
        visitor.visit_some(Absent)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Gap> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The names that a type reads from an object, as its implementation of `Deserialize` lists them;
/// empty for a type that does not read an object with fixed names.
pub(super) fn field_names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    read::<T>(None).1.names.unwrap_or_default()
}

/// Describes the fields that a type reads from an object, in their order: the name, whether it may be left out,
/// and the type in JSON Schema, or nothing. Empty as [`field_names`].
///
/// serde names the first field that is missing. It is given a made-up value then, until nothing is missing. If
/// no value can be made up, of the fields behind it only an `Option` is optional.
pub(super) fn fields<'de, T: Deserialize<'de>>() -> Vec<(&'static str, bool, &'static str)> {
    let (names, mut required) = (field_names::<T>(), Vec::new());
    let known = loop {
        match read::<T>(Some(&required)).0 {
            None => break names.len(),
            Some(Gap(Some(name))) if !required.contains(&name) => required.push(name),
            Some(_) => {
                let last = names.iter().rposition(|name| required.contains(name));
                break last.map_or(0, |last| last + 1);
            }
        }
    };
    let describe = |(place, name): (usize, &&'static str)| {
        let seen = read::<T>(Some(&[name])).1;
        let is_optional = match place < known {
            true => !required.contains(name),
            false => seen.is_option,
        };
        (*name, is_optional, seen.json_type.unwrap_or_default())
    };
    names.iter().enumerate().map(describe).collect()
}

/// Whether a type is read from `null` alone, so that there are no params.
pub(super) fn is_nothing<'de, T: Deserialize<'de>>() -> bool {
    read::<T>(None).1.json_type == Some("null")
}

/// Reads a made-up value; returns why it could not be read, and what was seen.
fn read<'de, T: Deserialize<'de>>(given: Option<&[&'static str]>) -> (Option<Gap>, Seen) {
    let seen = &Cell::default();
    let is_outer = true;
    let read = T::deserialize(MadeUp {
        given,
        is_outer,
        seen,
    });
    (read.err(), seen.get())
}

/// Why there is no value: the name of a missing field, if that is why.
#[derive(Debug)]
struct Gap(Option<&'static str>);

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl core::error::Error for Gap {}

impl Error for Gap {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(None)
    }

    fn missing_field(field: &'static str) -> Self {
        Self(Some(field))
    }
}

/// What a type asked for.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The fields of the outermost struct.
    names: Option<&'static [&'static str]>,
    is_option: bool,
    /// What was asked for first, as JSON Schema calls it; empty if it may be any.
    json_type: Option<&'static str>,
}

/// The deserializer of a made-up value, which notes what it is asked for.
#[derive(Clone, Copy)]
struct MadeUp<'c> {
    /// The fields that the outermost struct is given; without, it is not read.
    given: Option<&'c [&'static str]>,
    is_outer: bool,
    seen: &'c Cell<Seen>,
}

impl MadeUp<'_> {
    /// Notes what was asked for first. The struct around it is none of that.
    fn note(mut self, json_type: &'static str) -> Self {
        let mut seen = self.seen.get();
        seen.json_type = seen.json_type.or(Some(json_type));
        self.seen.set(seen);
        self.is_outer = false;
        self
    }
}

impl IntoDeserializer<'_, Gap> for MadeUp<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! made_up {
    ($($json_type:literal $visit:ident $value:tt: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Gap> {
            self.note($json_type);
            visitor.$visit $value
        }
    )*)*};
}

impl<'de> Deserializer<'de> for MadeUp<'_> {
    type Error = Gap;

    made_up! {
        "" visit_unit(): deserialize_any;
        "null" visit_unit(): deserialize_unit;
        "boolean" visit_bool(false): deserialize_bool;
        "integer" visit_u8(1): deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128;
        "number" visit_u8(1): deserialize_f32 deserialize_f64;
        "string" visit_str("1"): deserialize_char deserialize_str deserialize_string;
        "array" visit_seq(SeqDeserializer::new(core::iter::empty::<Self>())): deserialize_seq;
        "object" visit_map(MapDeserializer::new(core::iter::empty::<(&str, Self)>())): deserialize_map;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Gap> {
        let mut seen = self.seen.get();
        // Deeper in the value nothing is noted, and types may contain themselves.
        if seen.json_type.is_some() || seen.is_option {
            return visitor.visit_none();
        }
        seen.is_option = true;
        self.seen.set(seen);
        visitor.visit_some(Self {
            is_outer: false,
            ..self
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Gap> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Gap> {
        let inner = self.note("array");
        visitor.visit_seq(SeqDeserializer::new((0..len).map(|_| inner)))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Gap> {
        if !self.is_outer {
            let inner = self.note("object");
            let all = fields.iter().map(|name| (*name, inner));
            return visitor.visit_map(MapDeserializer::new(all));
        }
        let (is_outer, mut seen) = (false, self.seen.get());
        seen.names = Some(fields);
        self.seen.set(seen);
        let given = self.given.ok_or(Gap(None))?.iter();
        let given = given.map(|name| (*name, Self { is_outer, ..self }));
        visitor.visit_map(MapDeserializer::new(given))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Gap> {
        self.note("");
        visitor.visit_enum(StrDeserializer::new(variants.first().unwrap_or(&"")))
    }

    forward_to_deserialize_any! {
        bytes byte_buf unit_struct tuple_struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::Deserialize;

    use super::{absent, field_names, fields, is_nothing};
    #[cfg(feature = "openrpc")]
    use crate::service::SchemaOf;

    #[derive(Deserialize, PartialEq, Debug)]
    struct Wrapped(Option<u8>);

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Move {
        #[expect(dead_code, reason = "only its name is read")]
        to_left: u8,
        #[expect(dead_code, reason = "only its name is read")]
        y: u8,
    }

    // SRV-07
    #[test]
    fn only_an_optional_value_may_be_left_out() {
        assert_eq!(absent::<Option<u8>>(), Some(None));
        assert_eq!(absent::<Wrapped>(), Some(Wrapped(None)));
        assert_eq!(absent::<u8>(), None);
        assert_eq!(absent::<()>(), None);
        assert_eq!(absent::<String>(), None);
        assert_eq!(absent::<Vec<u8>>(), None);
    }

    #[test]
    fn names_come_from_serde() {
        assert_eq!(field_names::<Move>(), ["toLeft", "y"]);
        assert!(field_names::<(u8, u8)>().is_empty());
        assert!(field_names::<Option<u8>>().is_empty());
        assert!(field_names::<Option<Move>>().is_empty());
    }

    #[derive(Deserialize)]
    enum Kind {
        Slow,
    }

    /// A link of a chain that has no end.
    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its description is read")]
    struct Link {
        next: Option<alloc::boxed::Box<Link>>,
        all: Vec<Link>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    #[expect(dead_code, reason = "only its description is read")]
    struct Wide {
        first_name: String,
        #[serde(default)]
        speed: u32,
        link: Link,
        at: (u8, f32),
        kind: Kind,
        note: Option<String>,
        letter: char,
        wrapped: Wrapped,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its description is read")]
    struct Fussy {
        a: u8,
        address: core::net::IpAddr,
        b: Option<u8>,
        c: u8,
    }

    fn optional<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
        let fields = fields::<T>().into_iter();
        fields
            .filter(|(_, is_optional, _)| *is_optional)
            .map(|(name, _, _)| name)
            .collect()
    }

    // USE-36
    #[test]
    fn every_field_but_those_that_may_be_left_out_is_required() {
        assert_eq!(optional::<Wide>(), ["speed", "note"]);
        assert_eq!(optional::<Link>(), ["next"]);
        assert_eq!(optional::<Fussy>(), ["b"], "no address is made up");
        assert!(optional::<(u8, Option<u8>)>().is_empty());
        let _ = Kind::Slow;
        assert!(is_nothing::<()>() && !is_nothing::<u8>());
    }

    // USE-36 EXT-08
    #[cfg(feature = "openrpc")]
    #[test]
    fn a_field_has_the_type_that_it_is_read_as() {
        let fields = fields::<Wide>().into_iter();
        let schemas = fields.map(|(_, _, json_type)| SchemaOf::json_type(json_type));
        let schemas = schemas.map(|schema| String::from(schema.to_json().unwrap().as_str()));
        let types = [
            "string", "integer", "object", "array", "", "string", "string", "integer",
        ];
        let right = types.map(|name| match name {
            "" => String::from("{}"),
            _ => alloc::format!(r#"{{"type":"{name}"}}"#),
        });
        assert_eq!(schemas.collect::<Vec<_>>(), right);
    }
}
