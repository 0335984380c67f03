//! The result of scanning one object of a message: which members it has, their positions and kinds,
//! and what is unusual about them.
//!
//! A message is later read from these positions. They are found in `scan`; the meaning of the
//! members is decided in `message`. The first occurrence of a repeated name is kept, and the
//! repetition is noted.

use core::ops::Range;

use super::syntax::JsonKind;
use crate::target::rare;

/// A part of the scanned text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Makes a span. Its positions fit into 32 bits, because `scan` refuses longer texts before it
    /// makes any span.
    #[inline]
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self {
            start: start as u32,
            end: end as u32,
        }
    }

    #[inline]
    pub(crate) fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns this part of `text`; empty if `text` is another, shorter text than the one that was
    /// scanned.
    #[inline]
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.range()).unwrap_or_default()
    }
}

/// The value of one member of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The whole value, including the quotes of a string.
    pub span: Span,
    /// What kind of value it is.
    pub kind: JsonKind,
}

/// The value of the member `jsonrpc`.
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

/// The name of an envelope member. All but the last have an index in `spans`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Id,
    Method,
    Params,
    Result,
    Error,
    Jsonrpc,
}

/// A set of names of envelope members.
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

    pub(super) const fn of(key: Key) -> Self {
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

/// The envelope of one top-level value, or of one element of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The whole value.
    pub span: Span,
    /// The positions of the members' values, by [`Key`].
    pub(super) spans: [Span; 5],
    /// The kinds of the members' values, by [`Key`]; `None` if there is no such member.
    pub(super) kinds: [Option<JsonKind>; 5],
    /// The kind of the whole value. If it is no object, only `kind` and `span` are set.
    pub kind: JsonKind,
    pub version: Version,
    /// The names that occur more than once; and [`ESCAPED_METHOD`].
    pub(super) odd: Names,
    pub(super) error_parts: ErrorParts,
}

/// A flag in the set of repeated names, so that both are checked together: `method` is a string
/// with escapes.
pub(super) const ESCAPED_METHOD: Names = Names(1 << 7);

/// The positions of the parts of an error object that has the most common form; see `error_parts`
/// in `scan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ErrorParts {
    pub code: i32,
    /// The message, including its quotes. Its start is 0 if the error has another form, or if there
    /// is none.
    pub message: Span,
    /// Where the data begin, which go on to the closing brace; 0 if there are none.
    pub(super) data: u32,
}

impl ErrorParts {
    /// Returns the data of the error at `error`.
    pub(crate) fn data(&self, error: Span) -> Option<Span> {
        let (start, end) = (self.data, error.end.saturating_sub(1));
        (start != 0).then_some(Span { start, end })
    }
}

impl Envelope {
    pub(super) fn new(kind: JsonKind) -> Self {
        Self {
            span: Span::default(),
            spans: [Span::default(); 5],
            kinds: [None; 5],
            kind,
            version: Version::Absent,
            odd: Names::default(),
            error_parts: ErrorParts::default(),
        }
    }

    #[inline]
    fn member(&self, key: Key) -> Option<Member> {
        let (span, kind) = (self.spans[key as usize], self.kinds[key as usize]?);
        Some(Member { span, kind })
    }

    #[inline]
    pub(crate) fn id(&self) -> Option<Member> {
        self.member(Key::Id)
    }

    #[inline]
    pub(crate) fn method(&self) -> Option<Member> {
        self.member(Key::Method)
    }

    #[inline]
    pub(crate) fn params(&self) -> Option<Member> {
        self.member(Key::Params)
    }

    #[inline]
    pub(crate) fn result(&self) -> Option<Member> {
        self.member(Key::Result)
    }

    #[inline]
    pub(crate) fn error(&self) -> Option<Member> {
        self.member(Key::Error)
    }

    /// Returns the positions of the error's parts, if it has the most common form.
    #[inline]
    pub(crate) fn error_parts(&self) -> Option<&ErrorParts> {
        (self.error_parts.message.start != 0).then_some(&self.error_parts)
    }

    /// Returns the names that occur more than once. Their spans are the spans of the first
    /// occurrences.
    pub(crate) fn repeated(&self) -> Names {
        Names(self.odd.0 & !ESCAPED_METHOD.0)
    }

    /// Whether `method` is a string with escapes.
    pub(crate) fn has_escaped_method(&self) -> bool {
        self.odd.contains(ESCAPED_METHOD)
    }

    /// Whether no name occurs twice and the method has no escapes.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.odd.is_empty()
    }

    /// Notes something unusual.
    #[inline]
    pub(super) fn note(&mut self, odd: Names) {
        self.odd = self.odd.with(odd);
    }

    /// Stores a member, unless there is one of its name. Returns whether there was none.
    #[inline]
    pub(super) fn keep(&mut self, key: Key, start: usize, end: usize, kind: JsonKind) -> bool {
        let slot = self.kinds.get_mut(key as usize);
        let (Some(slot @ None), Some(span)) = (slot, self.spans.get_mut(key as usize)) else {
            rare();
            self.note(Names::of(key));
            return false;
        };
        *slot = Some(kind);
        *span = Span::new(start, end);
        true
    }
}
