//! A serde serializer that appends compact JSON to a `Vec<u8>`.
//!
//! serde_json's own serializer needs `std::io` to append to an existing buffer; this one does not,
//! and is smaller. The output is valid JSON, or an error is returned, even if a `Serialize` breaks
//! serde's rules. If a value fails, nothing of it stays in the buffer. A number that is infinite or no
//! number at all fails, where serde_json would write `null`.
//!
//! Map keys, and text that is JSON already, are in `serializer_parts`.

use alloc::vec::Vec;
use core::fmt::{self, Display};

use serde::ser::{self, Error as _, Serialize, Serializer};

use super::encode::{EncodeError, write_escaped, write_str};
use super::number::{write_f32, write_f64, write_i64, write_i128, write_u64, write_u128};
use super::reserved::{NUMBER_TOKEN, RAW_VALUE_TOKEN, RESERVED};
use super::serializer_parts::{KeyWriter, RawWriter};
use super::writer::Writer;

/// Appends a value in compact form, with the same bytes that serde_json would write, but for raw
/// JSON and numbers that are not finite.
///
/// Raw JSON (serde_json's `RawValue`) is validated, and its line breaks become blanks, because a
/// message may have to fit on one line. After an error, or a panic in the value's own code, `out`
/// has its former length. The depth of the value is not limited here: serde recurses into it.
pub(crate) fn write_value<S: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    value: &S,
) -> Result<(), EncodeError> {
    Writer::write(out, value)
}

impl Writer<'_> {
    /// Writes the key of a map.
    fn key<S: Serialize + ?Sized>(&mut self, key: &S) -> Result<(), EncodeError> {
        let start = self.out.len();
        let done = key.serialize(KeyWriter { writer: &mut *self });
        let done = done.and_then(|()| self.judge_key(start));
        self.failed |= done.is_err();
        done
    }

    /// Refuses the key that was just written at `start`, if serde_json would treat it as one of its
    /// private keys and so read another document. None of the bytes of such a key is ever escaped.
    fn judge_key(&self, start: usize) -> Result<(), EncodeError> {
        let written = self.out.get(start + 1..).unwrap_or_default();
        if written.first() == Some(&b'$') && written.starts_with(RESERVED.as_bytes()) {
            return Err(EncodeError::reserved_key());
        }
        Ok(())
    }

    /// Writes `{"variant":`; the caller writes the brace after the content.
    fn open_variant(&mut self, variant: &str) {
        self.push(b"{");
        write_str(self.out, variant);
        self.push(b":");
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

    /// JSON has no form for infinities and not-a-number, and `null` would tell the peer something else,
    /// so such a number is an error.
    fn serialize_f32(self, value: f32) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return Err(EncodeError::not_finite());
        }
        write_f32(self.out, value);
        Ok(())
    }

    fn serialize_f64(self, value: f64) -> Result<(), EncodeError> {
        if !value.is_finite() {
            return Err(EncodeError::not_finite());
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
            RAW_VALUE_TOKEN | NUMBER_TOKEN => StructWriter::Raw {
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

    /// Escapes the output of a `Display` while it is printed, without a temporary string.
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
    /// A key has been written and its value has not.
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

/// Writes the fields of a struct, or the text in a struct with a private name of serde_json.
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
