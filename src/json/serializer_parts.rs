//! Serializers for places where only some values are allowed.
//!
//! [`KeyWriter`] writes map keys, and puts quotes around scalars. [`RawWriter`] writes the one
//! field of a struct with a private name of serde_json, which is JSON text. Both refuse other
//! values: a map key cannot be an array, and raw text is always a string. [`IsNone`] accepts one value
//! alone, and writes nothing.

use core::fmt::{self, Display};

use serde::ser::{self, Impossible, Serialize, Serializer};

use super::decode::has_reserved_key;
use super::encode::{EncodeError, write_json};
use super::number::{write_f32, write_f64};
use super::syntax::JsonKind;
use super::text::Json;
use super::writer::Writer;

/// Implements methods of a `Serializer` that only return `$error`: the named ones, or all those of
/// compound and empty values.
macro_rules! refuse {
    ($error:expr; scalars $($method:ident($type:ty))*) => {
        $(fn $method(self, _value: $type) -> Result<(), Self::Error> { Err($error) })*
    };
    ($error:expr; compounds) => {
        type SerializeSeq = Impossible<(), Self::Error>;
        type SerializeTuple = Impossible<(), Self::Error>;
        type SerializeTupleStruct = Impossible<(), Self::Error>;
        type SerializeTupleVariant = Impossible<(), Self::Error>;
        type SerializeMap = Impossible<(), Self::Error>;
        type SerializeStruct = Impossible<(), Self::Error>;
        type SerializeStructVariant = Impossible<(), Self::Error>;

        fn serialize_bytes(self, _value: &[u8]) -> Result<(), Self::Error> {
            Err($error)
        }

        fn serialize_unit(self) -> Result<(), Self::Error> {
            Err($error)
        }

        fn serialize_unit_struct(self, _: &'static str) -> Result<(), Self::Error> {
            Err($error)
        }

        fn serialize_newtype_variant<S: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &S,
        ) -> Result<(), Self::Error> {
            Err($error)
        }

        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Self::Error> {
            Err($error)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Self::Error> {
            Err($error)
        }

        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, Self::Error> {
            Err($error)
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, Self::Error> {
            Err($error)
        }

        fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Self::Error> {
            Err($error)
        }

        fn serialize_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStruct, Self::Error> {
            Err($error)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, Self::Error> {
            Err($error)
        }
    };
}

/// Writes a map key: strings as anywhere, other scalars in quotes.
pub(super) struct KeyWriter<'w, 'o> {
    pub(super) writer: &'w mut Writer<'o>,
}

/// Writes scalars with the value writer, in quotes.
macro_rules! quote_keys {
    ($($method:ident($type:ty))*) => {
        $(fn $method(self, value: $type) -> Result<(), EncodeError> {
            self.writer.push(b"\"");
            (&mut *self.writer).$method(value)?;
            self.writer.push(b"\"");
            Ok(())
        })*
    };
}

impl Serializer for KeyWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    quote_keys! {
        serialize_bool(bool)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_i128(i128) serialize_u128(u128)
    }

    fn serialize_f32(self, value: f32) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return Err(EncodeError::key_not_finite());
        }
        self.writer.push(b"\"");
        write_f32(self.writer.out, value);
        self.writer.push(b"\"");
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return Err(EncodeError::key_not_finite());
        }
        self.writer.push(b"\"");
        write_f64(self.writer.out, value);
        self.writer.push(b"\"");
        Ok(())
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        Err(EncodeError::key_not_string())
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.writer.serialize_char(value)
    }

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        self.writer.serialize_str(value)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.writer.serialize_str(variant)
    }

    fn serialize_some<S: Serialize + ?Sized>(self, value: &S) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<S: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &S,
    ) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn collect_str<D: Display + ?Sized>(self, value: &D) -> Result<(), EncodeError> {
        self.writer.collect_str(value)
    }

    refuse!(EncodeError::key_not_string(); compounds);
}

/// Inserts a text that should be JSON, after validating it.
pub(super) struct RawWriter<'w, 'o> {
    pub(super) writer: &'w mut Writer<'o>,
    pub(super) number_only: bool,
}

impl Serializer for RawWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        let json = Json::parse_str(value).map_err(|_| EncodeError::invalid_text())?;
        if self.number_only && json.kind() != JsonKind::Number {
            return Err(EncodeError::invalid_text());
        }
        if has_reserved_key(json) {
            return Err(EncodeError::reserved_key());
        }
        write_json(self.writer.out, json);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        Err(EncodeError::invalid_text())
    }

    fn serialize_some<S: Serialize + ?Sized>(self, _value: &S) -> Result<(), EncodeError> {
        Err(EncodeError::invalid_text())
    }

    fn serialize_newtype_struct<S: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _value: &S,
    ) -> Result<(), EncodeError> {
        Err(EncodeError::invalid_text())
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
    ) -> Result<(), EncodeError> {
        Err(EncodeError::invalid_text())
    }

    refuse! {
        EncodeError::invalid_text(); scalars
        serialize_bool(bool) serialize_char(char) serialize_f32(f32) serialize_f64(f64)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_i128(i128) serialize_u128(u128)
    }

    refuse!(EncodeError::invalid_text(); compounds);
}

/// Whether a value is `None`, which stands for an argument that is left out. (`Some(None)` is not: it is
/// written as `null`.)
pub(crate) fn is_none<S: Serialize + ?Sized>(value: &S) -> bool {
    value.serialize(IsNone).is_ok()
}

/// Accepts `None` alone.
struct IsNone;

/// A value that is not `None`. It is never shown.
#[derive(Debug)]
struct Other;

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value is not `None`")
    }
}

impl core::error::Error for Other {}

impl ser::Error for Other {
    fn custom<M: Display>(_: M) -> Self {
        Self
    }
}

impl Serializer for IsNone {
    type Ok = ();
    type Error = Other;

    fn serialize_none(self) -> Result<(), Other> {
        Ok(())
    }

    fn serialize_newtype_struct<S: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &S,
    ) -> Result<(), Other> {
        value.serialize(self)
    }

    fn serialize_some<S: Serialize + ?Sized>(self, _: &S) -> Result<(), Other> {
        Err(Other)
    }

    fn serialize_str(self, _: &str) -> Result<(), Other> {
        Err(Other)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Other> {
        Err(Other)
    }

    /// Other than the default, prints nothing.
    fn collect_str<D: Display + ?Sized>(self, _: &D) -> Result<(), Other> {
        Err(Other)
    }

    refuse! {
        Other; scalars
        serialize_bool(bool) serialize_char(char) serialize_f32(f32) serialize_f64(f64)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
        serialize_i128(i128) serialize_u128(u128)
    }

    refuse!(Other; compounds);
}
