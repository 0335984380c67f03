//! Reads a text that the scan has checked into the caller's types, token by token.
//!
//! Whole numbers are integers, however they are spelled: `1.0`, `1e2`, `-0`. serde_json reads such numbers as
//! floats, which no integer type accepts. So a text that has such a number is read by [`ByValue`]. An array or
//! object with such a number is read so at once, because serde_json might find another form that its type
//! accepts: of a change in LSP, whose position it does not accept, it reads a change of the whole document. The
//! scan notes whether there may be such numbers, so other texts pay nothing. A part that is kept as raw JSON
//! keeps its text.
//!
//! Where flash is scarce all texts are read so, with [`Misfit`] as the error. Then nothing of serde_json's reader
//! is in the program, unless its types have floats, raw JSON, bytes, or values of any type.

use alloc::borrow::Cow;
use core::any::type_name;
use core::marker::PhantomData;

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::decimal::{Decimal, whole_number};
use super::fault::Fault;
use super::reserved::RAW_VALUE_TOKEN;
use super::string::JsonString;
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
pub(crate) struct ByValue<'de, E> {
    text: &'de str,
    pos: usize,
    error: PhantomData<E>,
}

impl<'de, E: Fault> ByValue<'de, E> {
    pub(crate) fn of(json: Json<'de>) -> Self {
        Self {
            text: json.as_str(),
            pos: 0,
            error: PhantomData,
        }
    }

    /// How many bytes have been read.
    pub(crate) fn offset(&self) -> u32 {
        self.pos.try_into().unwrap_or(u32::MAX)
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

    /// Returns the next value if it is a string.
    fn string(&mut self) -> Result<JsonString<'de>, E> {
        match self.peek() {
            Some(b'"') => Ok(JsonString::of_token(self.token())),
            _ => Err(misfit()),
        }
    }

    /// Reads an array or object if it begins with one of the brackets.
    fn container<V: Visitor<'de>>(&mut self, brackets: &[u8], visitor: V) -> Result<V::Value, E> {
        let first = self.peek().filter(|first| brackets.contains(first));
        if first.is_none() {
            return match E::HAS_TEXT {
                true => self.deserialize_any(visitor),
                false => Err(misfit()),
            };
        }
        self.pos += 1;
        let read = match first {
            Some(b'[') => visitor.visit_seq(&mut *self)?,
            _ => visitor.visit_map(&mut *self)?,
        };
        self.close(read)
    }

    /// Goes on behind the bracket that ends an array or object, after its visitor has read it.
    fn close<T>(&mut self, read: T) -> Result<T, E> {
        if !self.is_at_end() {
            return Err(E::custom("invalid length of an array or object"));
        }
        self.pos += 1;
        Ok(read)
    }
}

/// The error of a reader without texts.
fn misfit<E: Fault>() -> E {
    E::custom("")
}

/// Reads a value by serde_json.
fn plain(text: &str) -> serde_json::Deserializer<serde_json::de::StrRead<'_>> {
    serde_json::Deserializer::from_str(text)
}

fn is_number(token: &str) -> bool {
    token.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// The value of a whole number that is an `u64` or an `i64`: whether it has a minus, and its size without it.
fn whole(token: &str) -> Option<(bool, u64)> {
    let whole = is_number(token).then(|| whole_number(token.as_bytes()));
    whole
        .flatten()
        .filter(|&(is_negative, size)| !is_negative || size <= 1 << 63)
}

fn visit<'de, V: Visitor<'de>, E: Error>(
    (is_negative, size): (bool, u64),
    visitor: V,
) -> Result<V::Value, E> {
    match is_negative && size > 0 {
        true => visitor.visit_i64((size as i64).wrapping_neg()),
        false => visitor.visit_u64(size),
    }
}

fn visit_small<'de, V: Visitor<'de>, E: Fault>(token: &str, visitor: V) -> Result<V::Value, E> {
    visit(whole(token).ok_or_else(misfit)?, visitor)
}

/// Visits a whole number of up to 128 bits. Apart from `visit`, because serde says of such numbers what they
/// are if they do not fit, which takes 3 KB of flash.
fn visit_large<'de, V: Visitor<'de>, E: Fault>(token: &str, visitor: V) -> Result<V::Value, E> {
    let whole = is_number(token).then(|| Decimal::read(token.as_bytes()).whole());
    match whole.flatten() {
        Some((true, size)) if size > 0 => match 0_i128.checked_sub_unsigned(size) {
            Some(number) => visitor.visit_i128(number),
            None => Err(misfit()),
        },
        Some((_, size)) => visitor.visit_u128(size),
        None => Err(misfit()),
    }
}

fn visit_string<'de, V: Visitor<'de>, E: Fault>(
    string: JsonString<'de>,
    visitor: V,
) -> Result<V::Value, E> {
    match string.to_cow() {
        Some(Cow::Borrowed(string)) => visitor.visit_borrowed_str(string),
        Some(Cow::Owned(string)) => visitor.visit_str(&string),
        None => Err(misfit()),
    }
}

/// Reads a variant without contents.
fn visit_variant<'de, V: Visitor<'de>, E: Fault>(
    name: JsonString<'de>,
    visitor: V,
) -> Result<V::Value, E> {
    match name.to_cow() {
        Some(Cow::Borrowed(name)) => visitor.visit_enum(BorrowedStrDeserializer::new(name)),
        Some(Cow::Owned(name)) => visitor.visit_enum(StrDeserializer::new(&name)),
        None => Err(misfit()),
    }
}

macro_rules! integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            let token = self.token();
            match whole(token) {
                Some(number) => visit(number, visitor),
                None if E::HAS_TEXT => Ok(plain(token).$method(visitor)?),
                None => Err(misfit()),
            }
        }
    )*};
}

macro_rules! large_integers {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            match self.peek() {
                Some(b'-' | b'0'..=b'9') => visit_large(self.token(), visitor),
                _ if E::HAS_TEXT => Ok(plain(self.token()).$method(visitor)?),
                _ => Err(misfit()),
            }
        }
    )*};
}

macro_rules! strings {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            match E::HAS_TEXT {
                true => Ok(plain(self.token()).$method(visitor)?),
                false => visit_string(self.string()?, visitor),
            }
        }
    )*};
}

macro_rules! by_serde_json {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            Ok(plain(self.token()).$method(visitor)?)
        }
    )*};
}

impl<'de, E: Fault> Deserializer<'de> for &mut ByValue<'de, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        if let Some(b'[' | b'{') = self.peek() {
            return self.container(b"[{", visitor);
        }
        // A type that takes whatever comes gets a number as it is spelled, except what serde
        // sets aside before it knows the type: flattened fields, and the contents of enums
        // with a tag or without one. The name of serde's visitor for that is not public.
        let token = self.token();
        let is_set_aside = type_name::<V>().contains("ContentVisitor");
        match whole(token).filter(|_| is_set_aside) {
            Some(number) => visit(number, visitor),
            None => Ok(plain(token).deserialize_any(visitor)?),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.token() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            token if E::HAS_TEXT => Ok(plain(token).deserialize_bool(visitor)?),
            _ => Err(misfit()),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.token() {
            "null" => visitor.visit_unit(),
            token if E::HAS_TEXT => Ok(plain(token).deserialize_unit(visitor)?),
            _ => Err(misfit()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
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
    ) -> Result<V::Value, E> {
        match name {
            RAW_VALUE_TOKEN => Ok(plain(self.token()).deserialize_newtype_struct(name, visitor)?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        if self.peek() != Some(b'{') {
            return match E::HAS_TEXT {
                true => Ok(plain(self.token()).deserialize_enum(name, variants, visitor)?),
                false => visit_variant(self.string()?, visitor),
            };
        }
        self.pos += 1;
        let read = visitor.visit_enum(&mut *self)?;
        self.close(read)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        // The scan has checked the text.
        self.token();
        visitor.visit_unit()
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.container(b"[", visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.container(b"{", visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        self.container(b"[{", visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, E> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, E> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.peek() {
            Some(b'[') => self.container(b"[", visitor),
            _ => Ok(plain(self.token()).deserialize_bytes(visitor)?),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.deserialize_bytes(visitor)
    }

    integers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    large_integers! { deserialize_i128 deserialize_u128 }

    strings! { deserialize_char deserialize_str deserialize_string deserialize_identifier }

    by_serde_json! { deserialize_f32 deserialize_f64 }
}

impl<'de, E: Fault> SeqAccess<'de> for &mut ByValue<'de, E> {
    type Error = E;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, E> {
        if self.is_at_end() {
            return Ok(None);
        }
        seed.deserialize(&mut **self).map(Some)
    }
}

impl<'de, E: Fault> MapAccess<'de> for &mut ByValue<'de, E> {
    type Error = E;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, E> {
        if self.is_at_end() {
            return Ok(None);
        }
        let token = self.token();
        match E::HAS_TEXT {
            true => Ok(Some(seed.deserialize(&mut plain(token))?)),
            false => seed
                .deserialize(Key {
                    token,
                    error: self.error,
                })
                .map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, E> {
        seed.deserialize(&mut **self)
    }
}

impl<'de, E: Fault> EnumAccess<'de> for &mut ByValue<'de, E> {
    type Error = E;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), E> {
        // Without a name it is the bracket at the end, which is no string.
        let variant = seed.deserialize(&mut *self)?;
        Ok((variant, self))
    }
}

impl<'de, E: Fault> VariantAccess<'de> for &mut ByValue<'de, E> {
    type Error = E;

    fn unit_variant(self) -> Result<(), E> {
        Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, E> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, E> {
        self.container(b"[", visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        self.container(b"[{", visitor)
    }
}

/// Reads the name of a member, in which a number or a truth value may stand.
struct Key<'de, E> {
    token: &'de str,
    error: PhantomData<E>,
}

impl<'de, E: Fault> Key<'de, E> {
    fn name(&self) -> JsonString<'de> {
        JsonString::of_token(self.token)
    }

    /// Reads a float, or another number, by serde_json.
    fn float<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        let number = self.name().raw();
        if !is_number(number) || number.ends_with(' ') {
            return Err(misfit());
        }
        let mut reader = plain(number);
        let read = reader.deserialize_f64(visitor)?;
        reader.end()?;
        Ok(read)
    }
}

/// Whether it is an integer as JSON spells it, except `-0`, which is a float for serde_json.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text).as_bytes();
    let is_number = matches!(digits, [b'0'] | [b'1'..=b'9', ..]);
    is_number && digits.iter().all(u8::is_ascii_digit) && text != "-0"
}

macro_rules! integers_in_keys {
    ($visit:ident $($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
            match self.name().raw() {
                text if is_integer(text) => $visit(text, visitor),
                _ => Err(misfit()),
            }
        }
    )*};
}

impl<'de, E: Fault> Deserializer<'de> for Key<'de, E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visit_string(self.name(), visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.token {
            "\"true\"" => visitor.visit_bool(true),
            "\"false\"" => visitor.visit_bool(false),
            _ => Err(misfit()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        match name {
            RAW_VALUE_TOKEN => Ok(plain(self.token).deserialize_newtype_struct(name, visitor)?),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        visit_variant(self.name(), visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        Ok(plain(self.token).deserialize_bytes(visitor)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.float(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        self.float(visitor)
    }

    integers_in_keys! {
        visit_small deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    integers_in_keys! { visit_large deserialize_i128 deserialize_u128 }

    forward_to_deserialize_any! {
        char str string unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
