//! The value of a parameter that was left out.

use alloc::string::String;
use core::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
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

/// The error for a type that has no such value. It is never shown.
#[derive(Debug)]
pub(super) struct Required;

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the parameter is missing")
    }
}

impl core::error::Error for Required {}

impl Error for Required {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'de> Deserializer<'de> for Absent {
    type Error = Required;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Required> {
        Err(Required)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Required> {
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Required> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> Deserializer<'de> for GivenNull {
    type Error = Required;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Required> {
        Err(Required)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Required> {
        visitor.visit_some(Absent)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Required> {
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
    match T::deserialize(Names) {
        Err(Found(names)) => names,
        Ok(_) => &[],
    }
}

/// The deserializer that fails with the names of the fields it is asked for.
struct Names;

/// Carries the names out of the deserialisation, as its error.
#[derive(Debug)]
struct Found(&'static [&'static str]);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: String = self.0.join(", ");
        f.write_str(&names)
    }
}

impl core::error::Error for Found {}

impl Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Names {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(Found(fields))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map option enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use alloc::vec::Vec;

    use serde::Deserialize;

    use super::{absent, field_names};

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
    }
}
