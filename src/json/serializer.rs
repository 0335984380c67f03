//! A serde serializer that appends compact JSON to a `Vec<u8>`.
//!
//! serde_json's own needs `std::io` to write into a buffer that already exists; this one does not,
//! and is smaller. Rules guarded: byte for byte the output of serde_json; valid JSON or an error,
//! even if a `Serialize` breaks serde's rules; what failed leaves no trace.
//!
//! The three serializers: [`Writer`] for any value, [`KeyWriter`] for a map key, which puts quotes
//! around scalars, and [`RawWriter`] for the text inside serde_json's private struct tokens.

use alloc::vec::Vec;
use core::fmt::{self, Display};

use serde::ser::{self, Error as _, Impossible, Serialize, Serializer};

use super::encode::{EncodeError, write_escaped, write_json, write_str};
use super::number::{write_f32, write_f64, write_i64, write_i128, write_u64, write_u128};
use super::syntax::JsonKind;
use super::text::{Json, RAW_VALUE_TOKEN};

/// The name by which serde_json's serializer recognises the digits of a number.
const NUMBER_TOKEN: &str = "$serde_json::private::Number";

/// Writes one value, and takes back what it wrote unless all of it went well.
pub(super) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    len_before: usize,
    /// Some part failed. A `Serialize` may ignore that and go on; we may not, for half a value is
    /// in the buffer.
    failed: bool,
    complete: bool,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // Also when the value's own code panicked.
        if !self.complete {
            self.out.truncate(self.len_before);
        }
    }
}

impl<'o> Writer<'o> {
    pub(super) fn write<S: Serialize + ?Sized>(
        out: &'o mut Vec<u8>,
        value: &S,
    ) -> Result<(), EncodeError> {
        let len_before = out.len();
        let mut writer = Self {
            out,
            len_before,
            failed: false,
            complete: false,
        };
        value.serialize(&mut writer)?;
        if writer.failed {
            return Err(EncodeError::custom(
                "an error inside the value was passed over",
            ));
        }
        writer.complete = true;
        Ok(())
    }

    fn push(&mut self, text: &[u8]) {
        self.out.extend_from_slice(text);
    }

    /// Writes a value inside another one.
    fn inner<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        let done = value.serialize(&mut *self);
        self.failed |= done.is_err();
        done
    }

    fn key<S: Serialize + ?Sized>(&mut self, key: &S) -> Result<(), EncodeError> {
        let done = key.serialize(KeyWriter { writer: &mut *self });
        self.failed |= done.is_err();
        done
    }

    /// Opens `{"variant":`.
    fn open_variant(&mut self, variant: &str) {
        self.push(b"{");
        write_str(self.out, variant);
        self.push(b":");
    }

    fn out_of_order(&mut self) -> EncodeError {
        self.failed = true;
        EncodeError::out_of_order()
    }
}

impl<'w, 'o> Serializer for &'w mut Writer<'o> {
    type Ok = ();
    type Error = EncodeError;
    type SerializeSeq = ArrayWriter<'w, 'o>;
    type SerializeTuple = ArrayWriter<'w, 'o>;
    type SerializeTupleStruct = ArrayWriter<'w, 'o>;
    type SerializeTupleVariant = ArrayWriter<'w, 'o>;
    type SerializeMap = ObjectWriter<'w, 'o>;
    type SerializeStruct = StructWriter<'w, 'o>;
    type SerializeStructVariant = ObjectWriter<'w, 'o>;

    fn serialize_bool(self, value: bool) -> Result<(), EncodeError> {
        self.push(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), EncodeError> {
        self.serialize_i64(i64::from(value))
    }

    fn serialize_i16(self, value: i16) -> Result<(), EncodeError> {
        self.serialize_i64(i64::from(value))
    }

    fn serialize_i32(self, value: i32) -> Result<(), EncodeError> {
        self.serialize_i64(i64::from(value))
    }

    fn serialize_i64(self, value: i64) -> Result<(), EncodeError> {
        write_i64(self.out, value);
        Ok(())
    }

    fn serialize_i128(self, value: i128) -> Result<(), EncodeError> {
        write_i128(self.out, value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), EncodeError> {
        self.serialize_u64(u64::from(value))
    }

    fn serialize_u16(self, value: u16) -> Result<(), EncodeError> {
        self.serialize_u64(u64::from(value))
    }

    fn serialize_u32(self, value: u32) -> Result<(), EncodeError> {
        self.serialize_u64(u64::from(value))
    }

    fn serialize_u64(self, value: u64) -> Result<(), EncodeError> {
        write_u64(self.out, value);
        Ok(())
    }

    fn serialize_u128(self, value: u128) -> Result<(), EncodeError> {
        write_u128(self.out, value);
        Ok(())
    }

    /// JSON has no form for infinities and not-a-number; like serde_json we write `null`.
    fn serialize_f32(self, value: f32) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        write_f32(self.out, value);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        write_f64(self.out, value);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), EncodeError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        write_str(self.out, value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), EncodeError> {
        let mut separator: &[u8] = b"[";
        for &byte in value {
            self.push(separator);
            write_u64(self.out, u64::from(byte));
            separator = b",";
        }
        self.push(if value.is_empty() { b"[]" } else { b"]" });
        Ok(())
    }

    fn serialize_none(self) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_some<S: Serialize + ?Sized>(self, value: &S) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), EncodeError> {
        self.push(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), EncodeError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), EncodeError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<S: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &S,
    ) -> Result<(), EncodeError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<S: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &S,
    ) -> Result<(), EncodeError> {
        self.open_variant(variant);
        self.inner(value)?;
        self.push(b"}");
        Ok(())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<ArrayWriter<'w, 'o>, EncodeError> {
        Ok(ArrayWriter::open(self, b"]"))
    }

    fn serialize_tuple(self, _len: usize) -> Result<ArrayWriter<'w, 'o>, EncodeError> {
        Ok(ArrayWriter::open(self, b"]"))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<ArrayWriter<'w, 'o>, EncodeError> {
        Ok(ArrayWriter::open(self, b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<ArrayWriter<'w, 'o>, EncodeError> {
        self.open_variant(variant);
        Ok(ArrayWriter::open(self, b"]}"))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<ObjectWriter<'w, 'o>, EncodeError> {
        Ok(ObjectWriter::open(self, b"}"))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _len: usize,
    ) -> Result<StructWriter<'w, 'o>, EncodeError> {
        Ok(match name {
            RAW_VALUE_TOKEN => StructWriter::Raw {
                writer: self,
                token: name,
                written: false,
            },
            NUMBER_TOKEN => StructWriter::Raw {
                writer: self,
                token: name,
                written: false,
            },
            _ => StructWriter::Object(ObjectWriter::open(self, b"}")),
        })
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<ObjectWriter<'w, 'o>, EncodeError> {
        self.open_variant(variant);
        Ok(ObjectWriter::open(self, b"}}"))
    }

    /// Escapes what a `Display` prints while it prints it, without a string in between.
    fn collect_str<D: Display + ?Sized>(self, value: &D) -> Result<(), EncodeError> {
        struct Escaper<'e>(&'e mut Vec<u8>);
        impl fmt::Write for Escaper<'_> {
            fn write_str(&mut self, piece: &str) -> fmt::Result {
                write_escaped(self.0, piece);
                Ok(())
            }
        }
        self.push(b"\"");
        if fmt::write(&mut Escaper(self.out), format_args!("{value}")).is_err() {
            return Err(EncodeError::custom("a value could not be displayed"));
        }
        self.push(b"\"");
        Ok(())
    }
}

/// Writes the elements of an array.
pub(super) struct ArrayWriter<'w, 'o> {
    writer: &'w mut Writer<'o>,
    empty: bool,
    close: &'static [u8],
}

impl<'w, 'o> ArrayWriter<'w, 'o> {
    fn open(writer: &'w mut Writer<'o>, close: &'static [u8]) -> Self {
        writer.push(b"[");
        Self {
            writer,
            empty: true,
            close,
        }
    }

    fn element<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        if !self.empty {
            self.writer.push(b",");
        }
        self.empty = false;
        self.writer.inner(value)
    }

    fn close(self) -> Result<(), EncodeError> {
        self.writer.push(self.close);
        Ok(())
    }
}

impl ser::SerializeSeq for ArrayWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_element<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        self.element(value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

impl ser::SerializeTuple for ArrayWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_element<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        self.element(value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

impl ser::SerializeTupleStruct for ArrayWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        self.element(value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

impl ser::SerializeTupleVariant for ArrayWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        self.element(value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

/// Writes the members of an object.
pub(super) struct ObjectWriter<'w, 'o> {
    writer: &'w mut Writer<'o>,
    empty: bool,
    /// A key stands written that has no value yet.
    value_due: bool,
    close: &'static [u8],
}

impl<'w, 'o> ObjectWriter<'w, 'o> {
    fn open(writer: &'w mut Writer<'o>, close: &'static [u8]) -> Self {
        writer.push(b"{");
        Self {
            writer,
            empty: true,
            value_due: false,
            close,
        }
    }

    fn separate(&mut self) {
        if !self.empty {
            self.writer.push(b",");
        }
        self.empty = false;
    }

    fn field<S: Serialize + ?Sized>(&mut self, name: &str, value: &S) -> Result<(), EncodeError> {
        self.separate();
        write_str(self.writer.out, name);
        self.writer.push(b":");
        self.writer.inner(value)
    }

    fn close(self) -> Result<(), EncodeError> {
        if self.value_due {
            return Err(self.writer.out_of_order());
        }
        self.writer.push(self.close);
        Ok(())
    }
}

impl ser::SerializeMap for ObjectWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_key<S: Serialize + ?Sized>(&mut self, key: &S) -> Result<(), EncodeError> {
        if self.value_due {
            return Err(self.writer.out_of_order());
        }
        self.separate();
        self.writer.key(key)?;
        self.writer.push(b":");
        self.value_due = true;
        Ok(())
    }

    fn serialize_value<S: Serialize + ?Sized>(&mut self, value: &S) -> Result<(), EncodeError> {
        if !self.value_due {
            return Err(self.writer.out_of_order());
        }
        self.value_due = false;
        self.writer.inner(value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

impl ser::SerializeStructVariant for ObjectWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<S: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &S,
    ) -> Result<(), EncodeError> {
        self.field(name, value)
    }

    fn end(self) -> Result<(), EncodeError> {
        self.close()
    }
}

/// Writes the fields of a struct, or the text inside one of serde_json's private tokens.
pub(super) enum StructWriter<'w, 'o> {
    Object(ObjectWriter<'w, 'o>),
    Raw {
        writer: &'w mut Writer<'o>,
        token: &'static str,
        written: bool,
    },
}

impl ser::SerializeStruct for StructWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_field<S: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &S,
    ) -> Result<(), EncodeError> {
        match self {
            Self::Object(object) => object.field(name, value),
            Self::Raw {
                writer,
                token,
                written,
            } => {
                if *written || name != *token {
                    return Err(writer.out_of_order());
                }
                *written = true;
                let number_only = *token == NUMBER_TOKEN;
                let done = value.serialize(RawWriter {
                    writer,
                    number_only,
                });
                writer.failed |= done.is_err();
                done
            }
        }
    }

    fn end(self) -> Result<(), EncodeError> {
        match self {
            Self::Object(object) => object.close(),
            Self::Raw { written: true, .. } => Ok(()),
            Self::Raw { writer, .. } => Err(writer.out_of_order()),
        }
    }
}

/// Answers the methods named with an error: the value is not of a kind that can stand here.
macro_rules! refuse {
    ($error:expr; scalars $($method:ident($type:ty))*) => {
        $(fn $method(self, _value: $type) -> Result<(), EncodeError> { Err($error) })*
    };
    ($error:expr; compounds) => {
        type SerializeSeq = Impossible<(), EncodeError>;
        type SerializeTuple = Impossible<(), EncodeError>;
        type SerializeTupleStruct = Impossible<(), EncodeError>;
        type SerializeTupleVariant = Impossible<(), EncodeError>;
        type SerializeMap = Impossible<(), EncodeError>;
        type SerializeStruct = Impossible<(), EncodeError>;
        type SerializeStructVariant = Impossible<(), EncodeError>;

        fn serialize_bytes(self, _value: &[u8]) -> Result<(), EncodeError> {
            Err($error)
        }

        fn serialize_none(self) -> Result<(), EncodeError> {
            Err($error)
        }

        fn serialize_unit(self) -> Result<(), EncodeError> {
            Err($error)
        }

        fn serialize_unit_struct(self, _: &'static str) -> Result<(), EncodeError> {
            Err($error)
        }

        fn serialize_newtype_variant<S: Serialize + ?Sized>(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: &S,
        ) -> Result<(), EncodeError> {
            Err($error)
        }

        fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, EncodeError> {
            Err($error)
        }

        fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, EncodeError> {
            Err($error)
        }

        fn serialize_tuple_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleStruct, EncodeError> {
            Err($error)
        }

        fn serialize_tuple_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeTupleVariant, EncodeError> {
            Err($error)
        }

        fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, EncodeError> {
            Err($error)
        }

        fn serialize_struct(
            self,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStruct, EncodeError> {
            Err($error)
        }

        fn serialize_struct_variant(
            self,
            _: &'static str,
            _: u32,
            _: &'static str,
            _: usize,
        ) -> Result<Self::SerializeStructVariant, EncodeError> {
            Err($error)
        }
    };
}

/// Writes a map key: strings as they are, other scalars in quotes.
struct KeyWriter<'w, 'o> {
    writer: &'w mut Writer<'o>,
}

/// Writes scalars by the value writer, quotes around.
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

/// Inserts a text that claims to be JSON, after making sure.
struct RawWriter<'w, 'o> {
    writer: &'w mut Writer<'o>,
    number_only: bool,
}

impl Serializer for RawWriter<'_, '_> {
    type Ok = ();
    type Error = EncodeError;

    fn serialize_str(self, value: &str) -> Result<(), EncodeError> {
        let json = Json::parse_str(value).map_err(|_| EncodeError::invalid_text())?;
        if self.number_only && json.kind() != JsonKind::Number {
            return Err(EncodeError::invalid_text());
        }
        write_json(self.writer.out, json);
        Ok(())
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
