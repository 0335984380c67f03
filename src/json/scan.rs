//! One pass over a whole text: is it JSON, and where are the members of its envelopes?
//!
//! Lives here: the spans a message is later read from. Does not live here: the grammar of tokens
//! (`cursor`), and any judgement of what the members say (floor 1).
//!
//! Rules guarded: nothing is handed out before the last byte has been validated; a name is a name
//! however it is escaped; a repeated name is noticed, and the first occurrence kept, because two
//! readers that take different occurrences are an attack.
//!
//! ```text
//!   {"jsonrpc":"2.0","method":"sum","params":[1,2],"id":7}     Single: one envelope
//!                             ^---^          ^---^      ^      spans, quotes included
//!   [ {…}, 5, {…} ]                                            Batch: one envelope per element
//! ```

use alloc::vec::Vec;
use core::ops::Range;

use super::cursor::{Cursor, Failed, StringToken};
use super::string::JsonString;
use super::syntax::{JsonKind, SyntaxError, SyntaxErrorKind};
use crate::target::SMALL;

/// A stretch of the scanned text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// `scan` refuses texts longer than `u32::MAX` before it makes any span, so nothing is cut off.
    #[inline(always)]
    fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The stretch of `text`; empty if `text` is not the one that was scanned and is too short.
    #[inline]
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }
}

/// The value of one envelope member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The whole value; the quotes of a string are part of it.
    pub span: Span,
    /// What kind of value it is.
    pub kind: JsonKind,
}

/// What the member `jsonrpc` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// There is no such member.
    Absent,
    /// The string `2.0`, however it is escaped.
    V2,
    /// The string `1.0`.
    V1,
    /// Anything else.
    Other,
}

/// The name of an envelope member; all but the last have a place among the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Id,
    Method,
    Params,
    Result,
    Error,
    Jsonrpc,
}

/// A set of envelope member names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(u8);

impl Names {
    pub(crate) const ID: Self = Self::of(Key::Id);
    #[cfg(test)]
    pub(crate) const METHOD: Self = Self::of(Key::Method);
    #[cfg(test)]
    pub(crate) const PARAMS: Self = Self::of(Key::Params);
    #[cfg(test)]
    pub(crate) const RESULT: Self = Self::of(Key::Result);
    #[cfg(test)]
    pub(crate) const ERROR: Self = Self::of(Key::Error);
    #[cfg(test)]
    pub(crate) const JSONRPC: Self = Self::of(Key::Jsonrpc);

    const fn of(key: Key) -> Self {
        Self(1 << key as u8)
    }

    pub(crate) fn contains(self, name: Self) -> bool {
        self.0 & name.0 == name.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(super) fn with(self, name: Self) -> Self {
        Self(self.0 | name.0)
    }
}

/// One top-level value, or one element of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The whole value.
    pub span: Span,
    /// What kind of value it is. Unless it is an object, the rest says nothing.
    pub kind: JsonKind,
    pub version: Version,
    /// By [`Key`].
    pub(super) members: [Option<Member>; 5],
    /// Whether `method` is a string with escapes.
    pub method_escaped: bool,
    /// The names that occur more than once; the members above hold the first occurrence.
    pub repeated: Names,
}

impl Envelope {
    fn new(kind: JsonKind) -> Self {
        Self {
            span: Span::default(),
            kind,
            version: Version::Absent,
            members: [None; 5],
            method_escaped: false,
            repeated: Names::default(),
        }
    }

    #[inline]
    pub(crate) fn id(&self) -> Option<Member> {
        self.members[Key::Id as usize]
    }

    #[inline]
    pub(crate) fn method(&self) -> Option<Member> {
        self.members[Key::Method as usize]
    }

    #[inline]
    pub(crate) fn params(&self) -> Option<Member> {
        self.members[Key::Params as usize]
    }

    #[inline]
    pub(crate) fn result(&self) -> Option<Member> {
        self.members[Key::Result as usize]
    }

    #[inline]
    pub(crate) fn error(&self) -> Option<Member> {
        self.members[Key::Error as usize]
    }
}

/// Whether a text is one value or a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Anything but an array.
    Single,
    /// An array of so many elements, counted also beyond what is stored.
    Batch { items: usize },
}

/// What is known of a text besides its envelopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scanned<'t> {
    /// The whole text, which is UTF-8.
    pub text: &'t str,
    pub shape: Shape,
    /// Whether any raw carriage return or line feed stands between tokens.
    pub line_breaks: bool,
}

/// Validates a whole text (RFC 8259) and finds the members of its envelopes.
///
/// `envelopes` is cleared and then holds one entry for the value, or one per element if the value
/// is an array, at most `envelopes_max`; elements beyond are validated and counted. At most
/// `depth_max` containers (read as 1 to 128) may be open at once. One leading byte-order mark is
/// skipped. After an error `envelopes` is empty.
pub(crate) fn scan<'t>(
    text: &'t [u8],
    depth_max: u8,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<Scanned<'t>, SyntaxError> {
    envelopes.clear();
    if u32::try_from(text.len()).is_err() {
        let offset = u32::MAX as usize;
        return Err(SyntaxError::new(SyntaxErrorKind::TooLong, offset));
    }
    let mut cursor = Cursor::new(text, depth_max);
    scan_text(&mut cursor, envelopes, envelopes_max).map_err(|Failed| {
        envelopes.clear();
        cursor.failure()
    })
}

#[inline]
fn scan_text<'t>(
    cursor: &mut Cursor<'t>,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<Scanned<'t>, Failed> {
    let text = cursor.utf8()?;
    let start = cursor.begin()?;
    let (end, shape) = if cursor.byte(start) == b'[' {
        scan_batch(cursor, start, envelopes, envelopes_max)?
    } else {
        let end = scan_item(cursor, start, 0, envelopes, envelopes_max)?;
        (end, Shape::Single)
    };
    cursor.finish(end)?;
    Ok(Scanned {
        text,
        shape,
        line_breaks: cursor.line_breaks(),
    })
}

/// Reads the batch whose bracket is at `start`; returns the position behind it.
fn scan_batch(
    cursor: &mut Cursor<'_>,
    start: usize,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<(usize, Shape), Failed> {
    cursor.enter(0, start)?;
    let mut items = 0;
    let mut pos = cursor.skip_blanks(start + 1);
    if cursor.byte(pos) == b']' {
        return Ok((pos + 1, Shape::Batch { items }));
    }
    loop {
        pos = scan_item(cursor, pos, 1, envelopes, envelopes_max)?;
        items += 1;
        pos = cursor.skip_blanks(pos);
        match cursor.byte(pos) {
            b',' => pos = cursor.skip_blanks(pos + 1),
            b']' => return Ok((pos + 1, Shape::Batch { items })),
            _ => return Err(cursor.unexpected(pos)),
        }
    }
}

/// Reads the value at `start`, inside `open` containers, and stores its envelope if there is room.
#[inline]
fn scan_item(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<usize, Failed> {
    let kind = match cursor.byte(start) {
        b'{' => JsonKind::Object,
        first => JsonKind::of_first_byte(first),
    };
    let Some(envelope) = next_slot(envelopes, envelopes_max, kind) else {
        return cursor.value(start, open);
    };
    let end = if kind == JsonKind::Object {
        scan_object(cursor, start, open, envelope)?
    } else {
        cursor.value(start, open)?
    };
    envelope.span = Span::new(start, end);
    Ok(end)
}

/// Makes room for one more envelope; the vector never reserves more than `envelopes_max`.
///
/// The envelope is filled in its place, as it is too large to be handed about for free.
#[inline]
fn next_slot(
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
    kind: JsonKind,
) -> Option<&mut Envelope> {
    let len = envelopes.len();
    if len >= envelopes_max {
        return None;
    }
    if len == envelopes.capacity() {
        let wanted = (len * 2).max(4).min(envelopes_max);
        envelopes.reserve_exact(wanted - len);
    }
    envelopes.push(Envelope::new(kind));
    envelopes.last_mut()
}

/// How nearly every message begins, compared at once.
const HEAD: &[u8; 16] = br#"{"jsonrpc":"2.0""#;

/// A member of an envelope up to its value: what its name says, and a position behind its colon.
type Named = (Option<Key>, usize);

/// Reads the object at `start`, member by member; returns the position behind it.
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
        let (key, byte) = cursor.token(start + 1);
        if byte == b'}' {
            return Ok(key + 1);
        }
        let named = any_key(cursor, key)?;
        pos = scan_member(cursor, named, open, envelope)?;
    }
    loop {
        let named = match plain_key(cursor.text(), pos) {
            Some((key, value)) => (Some(key), value),
            None => {
                if cursor.byte(pos) == b'}' {
                    return Ok(pos + 1);
                }
                match next_key(cursor, pos)? {
                    Ok(named) => named,
                    Err(end) => return Ok(end),
                }
            }
        };
        pos = scan_member(cursor, named, open, envelope)?;
    }
}

#[inline(always)]
fn has_head(text: &[u8], start: usize) -> bool {
    !SMALL && text.get(start..).and_then(|rest| rest.first_chunk()) == Some(HEAD)
}

/// Reads the value of a member of an envelope; returns the position behind it.
#[inline(always)]
fn scan_member(
    cursor: &mut Cursor<'_>,
    (key, behind): Named,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, Failed> {
    let (value, first) = cursor.token(behind);
    let mut escaped = false;
    let (end, kind) = match first {
        b'"' => {
            let string = cursor.string(value)?;
            escaped = string.escaped;
            (string.end, JsonKind::String)
        }
        b'0'..=b'9' => (cursor.number(value, first)?, JsonKind::Number),
        b'{' => (cursor.value(value, open)?, JsonKind::Object),
        b'[' => (cursor.value(value, open)?, JsonKind::Array),
        _ => (cursor.value(value, open)?, JsonKind::of_first_byte(first)),
    };
    let Some(key) = key else { return Ok(end) };
    let span = Span::new(value, end);
    let member = Member { span, kind };
    match envelope.members.get_mut(key as usize) {
        Some(slot @ None) => {
            *slot = Some(member);
            envelope.method_escaped |= escaped & (key == Key::Method);
        }
        None if envelope.version == Version::Absent => {
            envelope.version = version_of(cursor.text(), member, escaped);
        }
        _ => envelope.repeated = envelope.repeated.with(Names::of(key)),
    }
    Ok(end)
}

/// Names a key behind a comma at `pos`, if all is written plainly: eight bytes from the comma on say
/// which of five it is. Also gives the position behind its colon.
#[inline(always)]
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
    let key = match word {
        METHOD => Key::Method,
        PARAMS => Key::Params,
        RESULT => Key::Result,
        ERROR => return (rest.get(8) == Some(&b':')).then_some((Key::Error, pos + 9)),
        _ => return None,
    };
    let &[.., quote, colon] = rest.first_chunk::<10>()?;
    (quote == b'"' && colon == b':').then_some((key, pos + 10))
}

/// Finds what stands behind a member at `pos`: the next one's key, or the end of the object.
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

/// Names any key, and gives a position behind its colon.
#[inline(never)]
fn any_key(cursor: &mut Cursor<'_>, start: usize) -> Result<Named, Failed> {
    if cursor.byte(start) != b'"' {
        return Err(cursor.unexpected(start));
    }
    let StringToken { end, escaped } = cursor.string(start)?;
    let key = key_of(cursor.text(), start, end, escaped);
    Ok((key, cursor.colon(end)?.0))
}

/// Which envelope member a key names; `start` and `end` enclose the quotes.
fn key_of(text: &[u8], start: usize, end: usize, escaped: bool) -> Option<Key> {
    let token = text.get(start..end)?;
    if escaped || SMALL {
        return key_of_escaped(escaped_string(token));
    }
    match token {
        b"\"id\"" => Some(Key::Id),
        b"\"method\"" => Some(Key::Method),
        b"\"params\"" => Some(Key::Params),
        b"\"result\"" => Some(Key::Result),
        b"\"error\"" => Some(Key::Error),
        b"\"jsonrpc\"" => Some(Key::Jsonrpc),
        _ => None,
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

/// A token with escapes, read as the string that it is.
fn escaped_string(token: &[u8]) -> JsonString<'_> {
    // It is cut from a text that is UTF-8, at quotes.
    JsonString::of_token(core::str::from_utf8(token).unwrap_or_default())
}

fn version_of(text: &[u8], member: Member, escaped: bool) -> Version {
    let token = text.get(member.span.range()).unwrap_or_default();
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
