//! Reads whole numbers as integers, however they are spelled: `1.0`, `1e2`, `-0`.
//!
//! serde_json reads such numbers as floats, which no integer type accepts. So a text that has such a number
//! is read by [`ByValue`], which goes through arrays and objects itself, converts these numbers exactly, and
//! passes all other values to serde_json. An array or object with such a number is read so at once, because
//! serde_json might find another form that its type accepts: of a change in LSP, whose position it does not
//! accept, it reads a change of the whole document. The scan notes whether there may be such numbers, so
//! other texts pay nothing. A part that is kept as raw JSON keeps its text.

use core::any::type_name;

use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Error;

use super::decimal::Decimal;
use super::reserved::RAW_VALUE_TOKEN;
use super::text::Json;
use super::walk::{skip_separators, string_end, value_end};

/// Whether a text has a whole number in a spelling that serde_json reads as a float.
#[cold]
pub(crate) fn has_whole_float(json: Json<'_>) -> bool {
    let text = json.as_bytes();
    let mut pos = 0;
    while let Some(byte) = text.get(pos) {
        pos = match byte {
            b'"' => string_end(text, pos),
            b'-' | b'0'..=b'9' => {
                let end = value_end(text, pos);
                let number = text.get(pos..end).unwrap_or_default();
                let is_float = number == b"-0" || number.iter().any(|byte| b".eE".contains(byte));
                if is_float && Decimal::read(number).whole().is_some() {
                    return true;
                }
                end
            }
            _ => pos + 1,
        };
    }
    false
}

/// Reads a text from its start.
pub(crate) struct ByValue<'de> {
    text: &'de str,
    pos: usize,
}

impl<'de> ByValue<'de> {
    pub(crate) fn of(json: Json<'de>) -> Self {
        let text = json.as_str();
        Self { text, pos: 0 }
    }

    /// Returns the first byte of the next value, or the bracket that ends the array or object.
    fn peek(&mut self) -> Option<u8> {
        self.pos = skip_separators(self.text.as_bytes(), self.pos);
        self.text.as_bytes().get(self.pos).copied()
    }

    fn is_at_end(&mut self) -> bool {
        matches!(self.peek(), None | Some(b']' | b'}'))
    }

    /// Returns the text of the next value, and goes on behind it.
    fn token(&mut self) -> &'de str {
        self.peek();
        let start = self.pos;
        self.pos = value_end(self.text.as_bytes(), start);
        self.text.get(start..self.pos).unwrap_or_default()
    }

    /// Goes on behind the bracket that ends an array or object, after its visitor has read it.
    fn close<T>(&mut self, read: T) -> Result<T, Error> {
        if !self.is_at_end() {
            return Err(Error::custom("invalid length of an array or object"));
        }
        self.pos += 1;
        Ok(read)
    }
}

/// Reads a value by serde_json.
fn plain(text: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(text)
}

/// The value of a whole number: whether it has a minus, and its size without it.
fn whole(token: &str) -> Option<(bool, u128)> {
    let is_number = token.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    is_number
        .then(|| Decimal::read(token.as_bytes()).whole())
        .flatten()
}

fn visit<'de, V: Visitor<'de>>(whole: (bool, u128), visitor: V) -> Result<V::Value, Error> {
    match whole {
        (true, size) if size > 0 => match 0_i128.checked_sub_unsigned(size) {
            Some(number) => match i64::try_from(number) {
                Ok(number) => visitor.visit_i64(number),
                Err(_) => visitor.visit_i128(number),
            },
            None => Err(Error::custom("number out of range")),
        },
        (_, size) => match u64::try_from(size) {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => visitor.visit_u128(size),
        },
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let token = self.token();
            match whole(token) {
                Some(number) => visit(number, visitor),
                None => plain(token).$method(visitor),
            }
        }
    )*};
}

macro_rules! by_serde_json {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            plain(self.token()).$method(visitor)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut ByValue<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.peek() {
            Some(b'[') => {
                self.pos += 1;
                let read = visitor.visit_seq(&mut *self)?;
                self.close(read)
            }
            Some(b'{') => {
                self.pos += 1;
                let read = visitor.visit_map(&mut *self)?;
                self.close(read)
            }
            _ => {
                // A type that takes whatever comes gets a number as it is spelled, except what serde
                // sets aside before it knows the type: flattened fields, and the contents of enums
                // with a tag or without one. The name of serde's visitor for that is not public.
                let token = self.token();
                match whole(token).filter(|_| type_name::<V>().contains("ContentVisitor")) {
                    Some(number) => visit(number, visitor),
                    None => plain(token).deserialize_any(visitor),
                }
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.peek() != Some(b'n') {
            return visitor.visit_some(self);
        }
        self.token();
        visitor.visit_none()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name {
            RAW_VALUE_TOKEN => plain(self.token()).deserialize_newtype_struct(name, visitor),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.peek() != Some(b'{') {
            return plain(self.token()).deserialize_enum(name, variants, visitor);
        }
        self.pos += 1;
        let read = visitor.visit_enum(&mut *self)?;
        self.close(read)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        // The scan has checked the text.
        self.token();
        visitor.visit_unit()
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
    }

    by_serde_json! {
        deserialize_bool deserialize_f32 deserialize_f64 deserialize_char deserialize_str
        deserialize_string deserialize_bytes deserialize_byte_buf deserialize_unit
        deserialize_identifier
    }

    forward_to_deserialize_any!(unit_struct seq tuple tuple_struct map struct);
}

impl<'de> SeqAccess<'de> for &mut ByValue<'de> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Error> {
        if self.is_at_end() {
            return Ok(None);
        }
        seed.deserialize(&mut **self).map(Some)
    }
}

impl<'de> MapAccess<'de> for &mut ByValue<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        if self.is_at_end() {
            return Ok(None);
        }
        seed.deserialize(&mut plain(self.token())).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut **self)
    }
}

impl<'de> EnumAccess<'de> for &mut ByValue<'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        let variant = seed.deserialize(&mut plain(self.token()))?;
        Ok((variant, self))
    }
}

impl<'de> VariantAccess<'de> for &mut ByValue<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
}
