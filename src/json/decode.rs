//! Reads a validated text into a caller's type, by serde_json; where flash is scarce, by `by_value`.
//!
//! The type must read the same document that the scanner validated. With its feature `raw_value`,
//! which this crate needs, and with `arbitrary_precision`, which any crate of a program can switch
//! on for all, serde_json replaces an object with one of its private keys, such as
//! `{"$serde_json::private::RawValue":"…"}`, by the document inside the string. Then a check of the
//! text would see another document than the handler after it. And a few nested levels of this
//! overflow the stack, because each starts a new count of the depth. So such keys are refused
//! before serde_json reads them. The scan notes them, so decoding need not search for them.

use alloc::boxed::Box;
use alloc::format;
use core::fmt;
use core::marker::PhantomData;

use super::by_value::{ByValue, has_whole_float};
use super::fault::Misfit;
use super::mismatch;
use super::reserved::is_reserved;
use super::string::JsonString;
use super::syntax::JsonKind;
use super::text::Json;
use super::walk::string_end;
use crate::target::SMALL;

impl<'a> Json<'a> {
    /// Decodes the value into a type of the caller's.
    ///
    /// Strings without escapes may be borrowed from the text. A number whose exact value is an integer
    /// is one for integer types, however it is spelled: `1.0` and `1e2` are read into a `u32`. A part
    /// that is kept as [`Json`] or [`OwnedJson`](super::OwnedJson) keeps its text.
    ///
    /// # Errors
    ///
    /// The value does not have the form that the type needs; or an object in it, at any depth, has
    /// a key that begins with `$serde_json::private::`, which would make serde_json read another
    /// document than the one validated.
    pub fn decode<D: serde::Deserialize<'a>>(self) -> Result<D, DecodeError> {
        decode(self)
    }
}

pub(super) fn decode<'a, D: serde::Deserialize<'a>>(json: Json<'a>) -> Result<D, DecodeError> {
    if SMALL {
        return decode_seed(json, PhantomData, true);
    }
    if json.flags().needs_care() {
        return decode_with_care(json);
    }
    decode_plain(json)
}

#[inline]
fn decode_plain<'a, D: serde::Deserialize<'a>>(json: Json<'a>) -> Result<D, DecodeError> {
    match serde_json::from_str(json.as_str()) {
        Ok(value) => Ok(value),
        Err(error) => decode_again(json, &error),
    }
}

/// Decodes a value that may have a reserved key, or a whole number in the spelling of a float.
#[cold]
#[inline(never)]
fn decode_with_care<'a, D: serde::Deserialize<'a>>(json: Json<'a>) -> Result<D, DecodeError> {
    if has_reserved_key(json) {
        return Err(DecodeError::about(DecodeErrorKind::ReservedKey, ""));
    }
    let is_container = matches!(json.kind(), JsonKind::Array | JsonKind::Object);
    if is_container && json.flags().has_whole_float() && has_whole_float(json) {
        if let Ok(value) = D::deserialize(&mut ByValue::<serde_json::Error>::of(json)) {
            return Ok(value);
        }
    }
    decode_plain(json)
}

/// Decodes a value that serde_json has refused, if it may be for the spelling of its integers.
#[cold]
#[inline(never)]
fn decode_again<'a, D: serde::Deserialize<'a>>(
    json: Json<'a>,
    error: &serde_json::Error,
) -> Result<D, DecodeError> {
    match has_whole_float(json) {
        true => {
            let read = D::deserialize(&mut ByValue::of(json));
            read.map_err(|error: serde_json::Error| DecodeError::part(&error))
        }
        false => Err(DecodeError::mismatch(error)),
    }
}

/// Decodes a value with a serde seed, such as serde passes for each field of a struct; `by_value` reads
/// whole numbers as integers, whatever their spelling.
pub(crate) fn decode_seed<'a, S: serde::de::DeserializeSeed<'a>>(
    json: Json<'a>,
    seed: S,
    by_value: bool,
) -> Result<S::Value, DecodeError> {
    if has_reserved_key(json) {
        return Err(DecodeError::about(DecodeErrorKind::ReservedKey, ""));
    }
    if SMALL {
        let mut text = ByValue::of(json);
        let read = seed.deserialize(&mut text);
        return read.map_err(|Misfit| DecodeError {
            offset: text.offset(),
            ..DecodeError::about(DecodeErrorKind::Mismatch, "")
        });
    }
    // The text is exactly one value, so no text follows it.
    if !by_value {
        let mut text = serde_json::Deserializer::from_str(json.as_str());
        return seed
            .deserialize(&mut text)
            .map_err(|error| DecodeError::mismatch(&error));
    }
    let read = seed.deserialize(&mut ByValue::of(json));
    read.map_err(|error: serde_json::Error| DecodeError::part(&error))
}

/// Whether a value has a reserved key. The scan has noted whether the text has one. Only then this
/// value is searched, because it may be a part of that text.
#[inline]
pub(super) fn has_reserved_key(json: Json<'_>) -> bool {
    json.flags().has_reserved_key() && finds_reserved_key(json)
}

/// Whether a key at any depth is reserved.
///
/// In a valid text a string is a key exactly if a colon follows it, so nesting does not matter.
#[cold]
fn finds_reserved_key(json: Json<'_>) -> bool {
    let text = json.as_bytes();
    let mut pos = 0;
    while let Some(&byte) = text.get(pos) {
        if byte != b'"' {
            pos += 1;
            continue;
        }
        let end = string_end(text, pos);
        let token = json.as_str().get(pos..end).unwrap_or_default();
        if is_followed_by_colon(text, end) && is_reserved(JsonString::of_token(token)) {
            return true;
        }
        pos = end;
    }
    false
}

fn is_followed_by_colon(text: &[u8], end: usize) -> bool {
    let mut behind = text.get(end..).unwrap_or_default().iter();
    behind.find(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) == Some(&b':')
}

/// Says why a value could not be read into a type, without the value, which may be a secret.
///
/// `Display` is safe to send to a peer: it names no types or fields of the program.
/// [`detail`](Self::detail), and debug output, which includes the detail, are for local logs.
#[derive(Clone)]
pub struct DecodeError {
    kind: DecodeErrorKind,
    detail: Box<str>,
    /// `u32::MAX` if it is not known.
    offset: u32,
}

impl DecodeError {
    fn new(kind: DecodeErrorKind, detail: Box<str>) -> Self {
        Self {
            kind,
            detail,
            offset: u32::MAX,
        }
    }

    /// Makes an error about a parameter; `parameter` is empty if it has no name, or if the error is
    /// not about one.
    #[cold]
    pub(crate) fn about(kind: DecodeErrorKind, parameter: &str) -> Self {
        let detail = match parameter {
            "" => Box::default(),
            name => format!("`{name}`").into_boxed_str(),
        };
        Self::new(kind, detail)
    }

    /// Makes an error from serde_json's.
    #[cold]
    fn mismatch(error: &serde_json::Error) -> Self {
        let detail = mismatch::describe(error).into_boxed_str();
        Self::new(DecodeErrorKind::Mismatch, detail)
    }

    /// Makes an error from serde_json's about a part of the value, without its position, which counts
    /// from the start of the part.
    #[cold]
    fn part(error: &serde_json::Error) -> Self {
        let detail = mismatch::describe(error);
        let end = detail.find(" at line ").unwrap_or(detail.len());
        let detail = detail.get(..end).unwrap_or_default().into();
        Self::new(DecodeErrorKind::Mismatch, detail)
    }

    /// Makes an error from serde's message about the fields of a struct.
    #[cold]
    pub(crate) fn of_fields(message: &str) -> Self {
        let detail = mismatch::without_value(message).unwrap_or_default();
        Self::new(DecodeErrorKind::Mismatch, detail.into_boxed_str())
    }

    /// Sets the name of the parameter that the error is about.
    #[cold]
    pub(crate) fn of_parameter(mut self, name: &str) -> Self {
        self.detail = format!("`{name}`: {}", self.detail).into_boxed_str();
        self
    }

    /// The kind of the failure.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// What was expected and which kind of value was found, with names of types and fields of the
    /// program: log it, do not send it. It never quotes the value. A message that a type's own
    /// `Deserialize` has written may quote it, so such a message is left out. Empty if there is
    /// nothing to add to the kind.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Where the reader stood when a part did not fit: how many bytes of the value it had read, that part often
    /// included. Only known where flash is scarce, in place of a [`detail`](Self::detail).
    #[must_use]
    pub fn offset(&self) -> Option<u32> {
        match self.offset {
            u32::MAX => None,
            offset => Some(offset),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            DecodeErrorKind::ReservedKey => "the value has a reserved key",
            DecodeErrorKind::Mismatch => "the value does not have the expected form",
            DecodeErrorKind::Missing => "a parameter is missing",
            DecodeErrorKind::Surplus => "there are more params than parameters",
            DecodeErrorKind::Unknown => "a parameter of this name is not known",
            DecodeErrorKind::Repeated => "a parameter is given twice",
        })
    }
}

impl fmt::Debug for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("DecodeError");
        shown.field("kind", &self.kind);
        shown.field("detail", &self.detail);
        if let Some(offset) = self.offset() {
            shown.field("offset", &offset);
        }
        shown.finish()
    }
}

impl core::error::Error for DecodeError {}

/// A [`DecodeError`] with all that it knows: what did not fit where, which may be the peer's text.
#[derive(Debug)]
pub(crate) struct Reason<'e>(pub(crate) &'e DecodeError);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(error) = self;
        match (error.kind(), error.detail()) {
            (_, "") => write!(f, "{error}"),
            (DecodeErrorKind::Mismatch, detail) => f.write_str(detail),
            (_, parameter) => write!(f, "{error}: {parameter}"),
        }
    }
}

impl core::error::Error for Reason<'_> {}

/// Names why a value could not be read into a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// A key begins with `$serde_json::private::`.
    ReservedKey,
    /// The type needs another form.
    Mismatch,
    /// A parameter that is not optional was left out.
    Missing,
    /// There are more values than parameters.
    Surplus,
    /// No parameter has this name.
    Unknown,
    /// A parameter is given twice.
    Repeated,
}
