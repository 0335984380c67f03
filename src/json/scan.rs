//! Validates a whole text, and finds the members of its envelopes on the way.
//!
//! The result is a list of envelopes; the message is read later from the spans in them. The grammar
//! of tokens is in `cursor` and `tokens`; the meaning of the members is decided in `message`.
//!
//! No span is returned before the last byte has been validated. A name is recognised however it is
//! escaped. If a name is repeated, that is noted and its first occurrence is kept: if two readers
//! used different occurrences, an attacker could send each of them another message.
//!
//! ```text
//!   {"jsonrpc":"2.0","method":"sum","params":[1,2],"id":7}     Single: one envelope
//!                             ^---^          ^---^      ^      spans, quotes included
//!   [ {…}, 5, {…} ]                                            Batch: one envelope per element
//! ```

use alloc::vec::Vec;

use super::cursor::{Cursor, Failed};
use super::envelope::{ESCAPED_METHOD, Envelope, ErrorParts, Key, Names, Span, Version};
use super::flags::TextFlags;
use super::string::JsonString;
use super::syntax::{JsonKind, SyntaxError, SyntaxErrorKind};
use super::tokens::StringToken;
use crate::target::{SMALL, rare};

/// Whether a text is one value or a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Anything but an array.
    Single,
    /// An array of `items` elements, including those whose envelopes are not stored.
    Batch { items: usize },
}

/// The result of a scan, besides the envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'t> {
    /// The whole text, which is UTF-8.
    pub text: &'t str,
    pub shape: Shape,
    /// Other facts about the text.
    pub flags: TextFlags,
}

/// Validates a whole text (RFC 8259) and finds the members of its envelopes.
///
/// `envelopes` is cleared and then has one entry for the value, or one per element if the value is
/// an array, at most `max_envelopes`; further elements are validated and counted. At most
/// `max_depth` containers (at least 1, at most 128) may be open at once. One byte-order mark at the
/// beginning is skipped. After an error `envelopes` is empty.
#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
pub(crate) fn scan<'t>(
    text: &'t [u8],
    max_depth: u8,
    envelopes: &mut Vec<Envelope>,
    max_envelopes: usize,
) -> Result<Scanned<'t>, SyntaxError> {
    envelopes.clear();
    if u32::try_from(text.len()).is_err() {
        let offset = u32::MAX as usize;
        return Err(SyntaxError::new(SyntaxErrorKind::TooLong, offset));
    }
    let mut cursor = Cursor::new(text, max_depth);
    scan_text(&mut cursor, envelopes, max_envelopes).map_err(|Failed| {
        envelopes.clear();
        cursor.failure()
    })
}

#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
fn scan_text<'t>(
    cursor: &mut Cursor<'t>,
    envelopes: &mut Vec<Envelope>,
    max_envelopes: usize,
) -> Result<Scanned<'t>, Failed> {
    let text = cursor.utf8()?;
    let start = cursor.begin()?;
    let (end, shape) = if cursor.byte(start) == b'[' {
        rare();
        scan_batch(cursor, start, envelopes, max_envelopes)?
    } else {
        let end = scan_item(cursor, start, 0, envelopes, max_envelopes)?;
        (end, Shape::Single)
    };
    cursor.finish(end)?;
    Ok(Scanned {
        text,
        shape,
        flags: cursor.flags(),
    })
}

/// Reads the batch whose bracket is at `start`; returns the position after it.
#[inline(never)]
fn scan_batch(
    cursor: &mut Cursor<'_>,
    start: usize,
    envelopes: &mut Vec<Envelope>,
    max_envelopes: usize,
) -> Result<(usize, Shape), Failed> {
    cursor.enter(0, start)?;
    let mut items = 0;
    let mut pos = cursor.skip_blanks(start + 1);
    if cursor.byte(pos) == b']' {
        return Ok((pos + 1, Shape::Batch { items }));
    }
    loop {
        pos = scan_item(cursor, pos, 1, envelopes, max_envelopes)?;
        items += 1;
        pos = cursor.skip_blanks(pos);
        match cursor.byte(pos) {
            b',' => pos = cursor.skip_blanks(pos + 1),
            b']' => return Ok((pos + 1, Shape::Batch { items })),
            _ => return Err(cursor.unexpected(pos)),
        }
    }
}

/// Reads the value at `start`, inside `open` containers, and stores its envelope if there is space.
#[inline]
fn scan_item(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
    envelopes: &mut Vec<Envelope>,
    max_envelopes: usize,
) -> Result<usize, Failed> {
    let kind = match cursor.byte(start) {
        b'{' => JsonKind::Object,
        first => {
            rare();
            JsonKind::of_first_byte(first)
        }
    };
    let Some(envelope) = next_slot(envelopes, max_envelopes, kind) else {
        rare();
        return cursor.value(start, open);
    };
    let end = if kind == JsonKind::Object {
        scan_object(cursor, start, open, envelope)?
    } else {
        rare();
        cursor.value(start, open)?
    };
    envelope.span = Span::new(start, end);
    Ok(end)
}

/// Adds an empty envelope and returns it; `None` if there are `max_envelopes` already. The vector
/// never reserves more.
///
/// The envelope is filled in place, because it is too large to be moved for free.
#[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
fn next_slot(
    envelopes: &mut Vec<Envelope>,
    max_envelopes: usize,
    kind: JsonKind,
) -> Option<&mut Envelope> {
    let len = envelopes.len();
    if len >= max_envelopes {
        return None;
    }
    if len == envelopes.capacity() {
        rare();
        let wanted = (len * 2).max(1).min(max_envelopes);
        envelopes.reserve_exact(wanted - len);
    }
    envelopes.push(Envelope::new(kind));
    envelopes.last_mut()
}

/// The beginning of nearly every message, which is recognised by one comparison.
const HEAD: &[u8; 16] = br#"{"jsonrpc":"2.0""#;

/// The name of an envelope's member, if it is known, and a position after its colon.
type Named = (Option<Key>, usize);

/// Reads the object at `start`, member by member; returns the position after it.
#[inline]
fn scan_object(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    cursor.enter(open, start)?;
    let open = open + 1;
    let mut pos = start + HEAD.len();
    if has_head(cursor.text(), start) {
        envelope.version = Version::V2;
    } else {
        rare();
        let (key, byte) = cursor.token(start + 1);
        if byte == b'}' {
            return Ok(key + 1);
        }
        let named = any_key(cursor, key)?;
        pos = scan_member(cursor, named, open, envelope)?;
    }
    loop {
        pos = match plain_key(cursor.text(), pos) {
            Some((Key::Id, value)) => scan_id(cursor, value, open, envelope)?,
            Some((Key::Method, value)) => scan_method(cursor, value, open, envelope)?,
            Some((key @ (Key::Params | Key::Result), value)) => {
                scan_body(cursor, key, value, open, envelope)?
            }
            // `plain_key` returns only one more name: `error`.
            Some((_, value)) => match scan_error(cursor, value, open, envelope)? {
                Some(end) => end,
                None => scan_member(cursor, (Some(Key::Error), value), open, envelope)?,
            },
            None => {
                if cursor.byte(pos) == b'}' {
                    return Ok(pos + 1);
                }
                rare();
                match next_key(cursor, pos)? {
                    Ok(named) => scan_member(cursor, named, open, envelope)?,
                    Err(end) => return Ok(end),
                }
            }
        };
    }
}

#[inline]
fn has_head(text: &[u8], start: usize) -> bool {
    !SMALL && text.get(start..).and_then(|rest| rest.first_chunk()) == Some(HEAD)
}

/// Reads a method, usually a string, at `value`; returns the position after it.
#[inline]
fn scan_method(
    cursor: &mut Cursor<'_>,
    value: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    if cursor.byte(value) != b'"' {
        rare();
        return scan_member(cursor, (Some(Key::Method), value), open, envelope);
    }
    let StringToken { end, escaped } = cursor.string(value)?;
    if envelope.keep(Key::Method, value, end, JsonKind::String) && escaped {
        rare();
        envelope.note(ESCAPED_METHOD);
    }
    Ok(end)
}

/// Reads an id, usually a number, at `value`; returns the position after it.
#[inline]
fn scan_id(
    cursor: &mut Cursor<'_>,
    value: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    let (end, kind) = match cursor.byte(value) {
        first @ b'0'..=b'9' => (cursor.number(value, first)?, JsonKind::Number),
        b'"' => (cursor.string(value)?.end, JsonKind::String),
        _ => {
            rare();
            return scan_member(cursor, (Some(Key::Id), value), open, envelope);
        }
    };
    envelope.keep(Key::Id, value, end, kind);
    Ok(end)
}

/// Reads params or a result at `value`; returns the position after it. Usually they are an array or
/// an object, and a result is often a string or a number.
#[inline]
fn scan_body(
    cursor: &mut Cursor<'_>,
    key: Key,
    value: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    let first = cursor.byte(value);
    let (end, kind) = match first {
        b'[' if !SMALL => (cursor.plain_array(value, open)?, JsonKind::Array),
        b'{' | b'[' => {
            let end = cursor.container(value, first, open)?;
            (end, JsonKind::of_first_byte(first))
        }
        b'"' if key == Key::Result => (cursor.string(value)?.end, JsonKind::String),
        b'0'..=b'9' if key == Key::Result => (cursor.number(value, first)?, JsonKind::Number),
        _ => {
            rare();
            return scan_member(cursor, (Some(key), value), open, envelope);
        }
    };
    envelope.keep(key, value, end, kind);
    Ok(end)
}

/// Reads an error object at `start` in its most common form: `{"code":…,"message":"…"}`, the code
/// with at most nine digits, the message without escapes, perhaps with `"data"` as the last member,
/// and at most one blank after each comma and colon. Returns `None` for any other form, which the
/// general code reads.
#[inline]
fn error_parts(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
) -> Result<Option<(usize, ErrorParts)>, Failed> {
    let text = cursor.text();
    let behind = |pos: usize, word: &[u8]| {
        let begins = text.get(pos..).is_some_and(|rest| rest.starts_with(word));
        let end = pos + word.len();
        begins.then(|| end + usize::from(text.get(end) == Some(&b' ')))
    };
    let Some(code) = behind(start, b"{\"code\":").filter(|_| !SMALL) else {
        return Ok(None);
    };
    cursor.enter(open, start)?;
    let Some((code, code_end)) = short_number(text, code) else {
        return Ok(None);
    };
    let message = behind(code_end, b",").and_then(|pos| behind(pos, b"\"message\":"));
    let Some(message) = message.filter(|&pos| text.get(pos) == Some(&b'"')) else {
        return Ok(None);
    };
    let StringToken { mut end, escaped } = cursor.string(message)?;
    let mut parts = ErrorParts {
        code,
        message: Span::new(message, end),
        data: 0,
    };
    if let Some(data) = behind(end, b",").and_then(|pos| behind(pos, b"\"data\":")) {
        parts.data = data as u32;
        end = cursor.value(data, open + 1)?;
    }
    let is_whole = !escaped && text.get(end) == Some(&b'}');
    Ok(is_whole.then_some((end + 1, parts)))
}

/// Reads a whole number of at most nine digits, which cannot overflow. Returns it and its end;
/// `None` if there is none.
#[inline]
fn short_number(text: &[u8], start: usize) -> Option<(i32, usize)> {
    let negative = text.get(start) == Some(&b'-');
    let first = start + usize::from(negative);
    let (mut pos, mut number) = (first, 0);
    while let Some(digit @ b'0'..=b'9') = text.get(pos) {
        if pos - first == 9 {
            return None;
        }
        number = number * 10 + i32::from(digit - b'0');
        pos += 1;
    }
    // A number has at least one digit, and no zero before others.
    let digits = pos - first;
    if digits == 0 || (digits > 1 && text.get(first) == Some(&b'0')) {
        return None;
    }
    Some((if negative { -number } else { number }, pos))
}

/// Reads an error at `value`, if it has the most common form; returns the position after it.
/// Returns `None` for any other form.
#[inline(never)]
fn scan_error(
    cursor: &mut Cursor<'_>,
    value: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<Option<usize>, Failed> {
    let Some((end, parts)) = error_parts(cursor, value, open)? else {
        return Ok(None);
    };
    if envelope.keep(Key::Error, value, end, JsonKind::Object) {
        envelope.error_parts = parts;
    }
    Ok(Some(end))
}

/// Reads the value of any member of an envelope; returns the position after it.
#[inline(never)]
fn scan_member(
    cursor: &mut Cursor<'_>,
    (key, behind): Named,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    let (value, first) = cursor.token(behind);
    if key == Some(Key::Error) {
        if let Some(end) = scan_error(cursor, value, open, envelope)? {
            return Ok(end);
        }
    }
    let (end, escaped) = match first {
        b'"' => {
            let string = cursor.string(value)?;
            (string.end, string.escaped)
        }
        _ => (cursor.value(value, open)?, false),
    };
    let Some(key) = key else { return Ok(end) };
    let kind = JsonKind::of_first_byte(first);
    if key == Key::Jsonrpc {
        match envelope.version {
            Version::Absent => {
                envelope.version = version_of(cursor.text(), value, end, escaped);
            }
            _ => envelope.note(Names::of(key)),
        }
    } else if envelope.keep(key, value, end, kind) && escaped && key == Key::Method {
        envelope.note(ESCAPED_METHOD);
    }
    Ok(end)
}

/// Reads a key after a comma at `pos`, if it has no escapes or blanks: the eight bytes from the
/// comma on show which of five names it is. Also returns the position after its colon.
#[inline]
fn plain_key(text: &[u8], pos: usize) -> Option<(Key, usize)> {
    const METHOD: u64 = u64::from_le_bytes(*b",\"method");
    const PARAMS: u64 = u64::from_le_bytes(*b",\"params");
    const RESULT: u64 = u64::from_le_bytes(*b",\"result");
    const ERROR: u64 = u64::from_le_bytes(*b",\"error\"");
    const ID: u64 = u64::from_le_bytes(*b",\"id\":\0\0");
    if SMALL {
        return None;
    }
    let rest = text.get(pos..)?;
    let word = u64::from_le_bytes(*rest.first_chunk()?);
    if word << 16 == ID << 16 {
        return Some((Key::Id, pos + 6));
    }
    let has_end = || matches!(rest.first_chunk::<10>(), Some([.., b'"', b':']));
    match word {
        METHOD if has_end() => Some((Key::Method, pos + 10)),
        PARAMS if has_end() => Some((Key::Params, pos + 10)),
        RESULT if has_end() => Some((Key::Result, pos + 10)),
        ERROR if rest.get(8) == Some(&b':') => Some((Key::Error, pos + 9)),
        _ => None,
    }
}

/// Reads what follows a member at `pos`: returns the next key, or as the inner `Err` the position
/// after the object.
#[inline(never)]
fn next_key(cursor: &mut Cursor<'_>, pos: usize) -> Result<Result<Named, usize>, Failed> {
    let (pos, byte) = cursor.token(pos);
    match byte {
        b',' => {
            let pos = cursor.skip_blanks(pos + 1);
            any_key(cursor, pos).map(Ok)
        }
        b'}' => Ok(Err(pos + 1)),
        _ => Err(cursor.unexpected(pos)),
    }
}

/// Reads any key, and returns a position after its colon.
#[inline(never)]
fn any_key(cursor: &mut Cursor<'_>, start: usize) -> Result<Named, Failed> {
    if cursor.byte(start) != b'"' {
        return Err(cursor.unexpected(start));
    }
    let StringToken { end, escaped } = cursor.string(start)?;
    let key = key_of(cursor, start, end, escaped);
    Ok((key, cursor.colon(end)?.0))
}

/// Returns which envelope member a key names; `start` and `end` enclose the quotes.
fn key_of(cursor: &mut Cursor<'_>, start: usize, end: usize, escaped: bool) -> Option<Key> {
    let token = cursor.text().get(start..end)?;
    if escaped || SMALL {
        cursor.note_key(start, end);
        return key_of_escaped(escaped_string(token));
    }
    match token {
        b"\"id\"" => Some(Key::Id),
        b"\"method\"" => Some(Key::Method),
        b"\"params\"" => Some(Key::Params),
        b"\"result\"" => Some(Key::Result),
        b"\"error\"" => Some(Key::Error),
        b"\"jsonrpc\"" => Some(Key::Jsonrpc),
        _ => {
            cursor.note_key(start, end);
            None
        }
    }
}

#[cold]
fn key_of_escaped(name: JsonString<'_>) -> Option<Key> {
    let names = [
        ("id", Key::Id),
        ("method", Key::Method),
        ("params", Key::Params),
        ("result", Key::Result),
        ("error", Key::Error),
        ("jsonrpc", Key::Jsonrpc),
    ];
    names
        .into_iter()
        .find(|(wanted, _)| name.eq_str(wanted))
        .map(|(_, key)| key)
}

/// Reads a token as a string, which may have escapes.
fn escaped_string(token: &[u8]) -> JsonString<'_> {
    // The token was cut at quotes from a text that is UTF-8.
    JsonString::of_token(core::str::from_utf8(token).unwrap_or_default())
}

fn version_of(text: &[u8], start: usize, end: usize, escaped: bool) -> Version {
    let token = text.get(start..end).unwrap_or_default();
    if !SMALL && token == b"\"2.0\"" {
        return Version::V2;
    }
    if !SMALL && token == b"\"1.0\"" {
        return Version::V1;
    }
    if escaped || SMALL {
        let string = escaped_string(token);
        if string.eq_str("2.0") {
            return Version::V2;
        }
        if string.eq_str("1.0") {
            return Version::V1;
        }
    }
    Version::Other
}
