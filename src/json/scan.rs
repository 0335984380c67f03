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

use super::cursor::Cursor;
use super::string::JsonString;
use super::syntax::{JsonKind, SyntaxError, SyntaxErrorKind};

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
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
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

/// A set of envelope member names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(u8);

impl Names {
    pub(crate) const JSONRPC: Self = Self(1);
    pub(crate) const ID: Self = Self(2);
    pub(crate) const METHOD: Self = Self(4);
    pub(crate) const PARAMS: Self = Self(8);
    pub(crate) const RESULT: Self = Self(16);
    pub(crate) const ERROR: Self = Self(32);

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
    pub id: Option<Member>,
    pub method: Option<Member>,
    pub params: Option<Member>,
    pub result: Option<Member>,
    pub error: Option<Member>,
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
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
            method_escaped: false,
            repeated: Names::default(),
        }
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
pub(crate) struct Scanned {
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
pub(crate) fn scan(
    text: &[u8],
    depth_max: u8,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<Scanned, SyntaxError> {
    envelopes.clear();
    let scanned = scan_text(text, depth_max, envelopes, envelopes_max);
    if scanned.is_err() {
        envelopes.clear();
    }
    scanned
}

fn scan_text(
    text: &[u8],
    depth_max: u8,
    envelopes: &mut Vec<Envelope>,
    envelopes_max: usize,
) -> Result<Scanned, SyntaxError> {
    if u32::try_from(text.len()).is_err() {
        return Err(SyntaxError::new(
            SyntaxErrorKind::TooLong,
            u32::MAX as usize,
        ));
    }
    let mut cursor = Cursor::new(text, depth_max);
    let start = cursor.begin()?;
    let (end, shape) = if cursor.byte(start) == b'[' {
        scan_batch(&mut cursor, start, envelopes, envelopes_max)?
    } else {
        let end = scan_item(&mut cursor, start, 0, envelopes, envelopes_max)?;
        (end, Shape::Single)
    };
    cursor.finish(end)?;
    Ok(Scanned {
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
) -> Result<(usize, Shape), SyntaxError> {
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
) -> Result<usize, SyntaxError> {
    let kind = JsonKind::of_first_byte(cursor.byte(start));
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

/// Reads the object at `start`, member by member; returns the position behind it.
#[inline]
fn scan_object(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, SyntaxError> {
    cursor.enter(open, start)?;
    let mut pos;
    if has_head(cursor.text(), start) {
        envelope.version = Version::V2;
        pos = start + HEAD.len();
    } else {
        pos = cursor.skip_blanks(start + 1);
        if cursor.byte(pos) == b'}' {
            return Ok(pos + 1);
        }
        pos = scan_member(cursor, pos, open + 1, envelope)?;
    }
    loop {
        pos = cursor.skip_blanks(pos);
        match cursor.byte(pos) {
            b',' => {
                pos = cursor.skip_blanks(pos + 1);
                pos = scan_member(cursor, pos, open + 1, envelope)?;
            }
            b'}' => return Ok(pos + 1),
            _ => return Err(cursor.unexpected(pos)),
        }
    }
}

#[inline(always)]
fn has_head(text: &[u8], start: usize) -> bool {
    text.get(start..).and_then(|rest| rest.first_chunk()) == Some(HEAD)
}

/// Reads one member of an envelope; returns the position behind its value.
#[inline]
fn scan_member(
    cursor: &mut Cursor<'_>,
    start: usize,
    open: u32,
    envelope: &mut Envelope,
) -> Result<usize, SyntaxError> {
    if cursor.byte(start) != b'"' {
        return Err(cursor.unexpected(start));
    }
    let key = cursor.string(start)?;
    let name = name_of(cursor.text(), start, key.end, key.escaped);
    let value = cursor.colon(key.end)?;
    let first = cursor.byte(value);
    let (end, escaped) = if first == b'"' {
        let string = cursor.string(value)?;
        (string.end, string.escaped)
    } else {
        (cursor.value(value, open)?, false)
    };
    let Some(name) = name else { return Ok(end) };
    let member = Member {
        span: Span::new(value, end),
        kind: JsonKind::of_first_byte(first),
    };
    let slot = match name {
        Names::ID => &mut envelope.id,
        Names::METHOD => &mut envelope.method,
        Names::PARAMS => &mut envelope.params,
        Names::RESULT => &mut envelope.result,
        Names::ERROR => &mut envelope.error,
        _ => {
            if envelope.version == Version::Absent {
                envelope.version = version_of(cursor.text(), member, escaped);
            } else {
                envelope.repeated = envelope.repeated.with(Names::JSONRPC);
            }
            return Ok(end);
        }
    };
    if slot.is_some() {
        envelope.repeated = envelope.repeated.with(name);
        return Ok(end);
    }
    *slot = Some(member);
    if name == Names::METHOD {
        envelope.method_escaped = escaped;
    }
    Ok(end)
}

/// Which envelope member a key names; `start` and `end` enclose the quotes.
#[inline(always)]
fn name_of(text: &[u8], start: usize, end: usize, escaped: bool) -> Option<Names> {
    let token = text.get(start..end)?;
    if escaped {
        return name_of_escaped(JsonString::of_token(token));
    }
    match token {
        b"\"id\"" => Some(Names::ID),
        b"\"method\"" => Some(Names::METHOD),
        b"\"params\"" => Some(Names::PARAMS),
        b"\"result\"" => Some(Names::RESULT),
        b"\"error\"" => Some(Names::ERROR),
        b"\"jsonrpc\"" => Some(Names::JSONRPC),
        _ => None,
    }
}

#[cold]
fn name_of_escaped(key: JsonString<'_>) -> Option<Names> {
    let names = [
        ("id", Names::ID),
        ("method", Names::METHOD),
        ("params", Names::PARAMS),
        ("result", Names::RESULT),
        ("error", Names::ERROR),
        ("jsonrpc", Names::JSONRPC),
    ];
    names
        .into_iter()
        .find(|(name, _)| key.eq_str(name))
        .map(|(_, bit)| bit)
}

fn version_of(text: &[u8], member: Member, escaped: bool) -> Version {
    let token = member.span.of(text);
    if token == b"\"2.0\"" {
        return Version::V2;
    }
    if token == b"\"1.0\"" {
        return Version::V1;
    }
    if escaped {
        let string = JsonString::of_token(token);
        if string.eq_str("2.0") {
            return Version::V2;
        }
        if string.eq_str("1.0") {
            return Version::V1;
        }
    }
    Version::Other
}
