//! Classifies a scanned value as a request, a notification, a response, or as invalid with the rule
//! that it breaks.
//!
//! Each object is classified once, by which members it has, not by their values. An object with
//! `method` is a call, any other with `result` or `error` is a response, and the rest is neither.
//! This module does not know which calls and requests are open.

use alloc::borrow::Cow;

use crate::config::{
    Config, MissingResponseId, NullParams, Role, UnknownId, V1NullId, VersionPolicy,
};
use crate::encode::Style;
use crate::error_object::ErrorObject;
use crate::event::{InvalidReason, InvalidResponse, Outcome};
use crate::id::Id;
use crate::json::{
    Envelope, Json, JsonKind, Member, Names, Span, TextFlags, Version, inside_of, text_of, value_of,
};
use crate::target::rare;

/// A method name that may be called: any text that is not blank.
///
/// ```
/// use antiphon::MethodName;
/// assert!(MethodName::new(" ").is_none());
/// assert!(MethodName::new("rpc.discover").unwrap().is_system());
/// assert!(!MethodName::new("rpcDiscover").unwrap().is_system());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MethodName<'a>(&'a str);

impl<'a> MethodName<'a> {
    /// Checks a name; `None` if it is empty or blank.
    pub fn new(name: &'a str) -> Option<Self> {
        is_named(name).then_some(Self(name))
    }

    /// The name.
    pub fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether the name is reserved for extensions: it begins with `rpc.`, in lower case and with
    /// the dot. JSON-RPC 2.0 §8.
    pub fn is_system(self) -> bool {
        self.0.starts_with("rpc.")
    }
}

/// Whether a method has more than blanks.
#[inline]
pub(crate) fn is_named(method: &str) -> bool {
    // Nearly every name begins with a letter, and then no more has to be checked.
    method.as_bytes().first().is_some_and(u8::is_ascii_graphic) || !is_blank(method)
}

#[cold]
fn is_blank(method: &str) -> bool {
    method.trim().is_empty()
}

/// A classified object.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Call(Call<'a>),
    Response(ResponseRef<'a>),
    Invalid(Invalid<'a>),
}

/// A valid request or notification.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) style: Style,
    /// The string as written, quotes included.
    pub(crate) method: Json<'a>,
    /// Whether there are escapes in the method.
    pub(crate) method_escaped: bool,
    pub(crate) params: Option<Json<'a>>,
    pub(crate) kind: CallKind<'a>,
}

impl<'a> Call<'a> {
    /// The method, unescaped.
    #[inline]
    pub(crate) fn method_text(&self) -> Cow<'a, str> {
        method_text(self.method, self.method_escaped)
    }

    /// Whether the method is this one.
    #[inline]
    pub(crate) fn is_of(&self, method: &str) -> bool {
        let quoted = self.method.as_bytes();
        match quoted.get(1..quoted.len().saturating_sub(1)) {
            Some(text) if !self.method_escaped => text == method.as_bytes(),
            _ => unescaped(self.method) == method,
        }
    }
}

#[inline]
fn method_text(method: Json<'_>, escaped: bool) -> Cow<'_, str> {
    let quoted = method.as_str();
    match quoted.get(1..quoted.len().saturating_sub(1)) {
        Some(text) if !escaped => Cow::Borrowed(text),
        _ => unescaped(method),
    }
}

/// The text of a method with escapes, which was found to have no lone surrogate.
#[cold]
#[inline(never)]
fn unescaped(method: Json<'_>) -> Cow<'_, str> {
    let string = method.as_string();
    string.map_or(Cow::Borrowed(""), |string| string.to_cow_lossy())
}

/// The kind of a call: with an id, without one, or to be acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallKind<'a> {
    Request(Id<'a>),
    Notification,
    /// A 1.0 notification that is answered by `{"result":null,"error":null,"id":null}`.
    Acknowledged,
}

/// A response, valid or not. It is never answered.
#[derive(Debug)]
pub(crate) struct ResponseRef<'a> {
    /// `None` when it is missing or not a valid id.
    pub(crate) id: Option<Id<'a>>,
    pub(crate) outcome: Outcome<'a>,
}

/// A value that is neither a response nor a valid call.
#[derive(Debug)]
pub(crate) struct Invalid<'a> {
    pub(crate) reason: InvalidReason,
    /// The id, if it was readable and of an allowed type.
    pub(crate) id: Option<Id<'a>>,
    /// The position of the fault in the message, in bytes.
    pub(crate) offset: usize,
    /// The version in which it is answered.
    pub(crate) style: Style,
}

/// A message that was scanned, or the part of it that has the object being read.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    text: &'a str,
    /// Where `text` begins in the message: spans are counted from the message's start.
    start: u32,
    flags: TextFlags,
}

impl<'a> Text<'a> {
    /// The whole message.
    pub(crate) fn whole(text: &'a str, flags: TextFlags) -> Self {
        Self {
            text,
            start: 0,
            flags,
        }
    }

    /// Makes the text of one object of a message that the driver has passed again. The driver may
    /// have passed other bytes, so the text is checked again; if it is not UTF-8, it is empty.
    pub(crate) fn part(message: &'a [u8], envelope: &Envelope, flags: TextFlags) -> Self {
        let part = message.get(envelope.span.range()).unwrap_or_default();
        Self {
            text: text_of(part).unwrap_or_default(),
            start: envelope.span.start,
            flags,
        }
    }

    /// Returns the text between the quotes of a string.
    #[inline]
    pub(crate) fn inside(&self, span: Span) -> Option<&'a str> {
        inside_of(self.text, self.place(span.start), self.place(span.end))
    }

    /// Converts a position in the message to a position in `text`. If it is not in this part,
    /// returns a position outside.
    #[inline]
    fn place(&self, place: u32) -> usize {
        place.wrapping_sub(self.start) as usize
    }

    /// The flags that the scan has set for the message.
    pub(crate) fn flags(&self) -> TextFlags {
        self.flags
    }

    #[inline]
    pub(crate) fn json(&self, span: Span) -> Json<'a> {
        self.value(span).unwrap_or(Json::NULL)
    }

    /// Returns the value at `span`; `None` if this text is another one than was scanned, and has
    /// nothing at `span` that could be a value.
    #[inline]
    fn value(&self, span: Span) -> Option<Json<'a>> {
        let value = value_of(self.text, self.place(span.start), self.place(span.end))?;
        Some(Json::from_scanned(value, self.flags))
    }
}

/// Reads the values of one envelope.
struct Object<'a, 'e> {
    text: Text<'a>,
    envelope: &'e Envelope,
    config: &'e Config,
}

/// Returns the parts of a call that was classified before and found valid: method, params and id.
/// If the message was changed since then, returns what is there now.
#[inline]
pub(crate) fn known_call<'a>(
    text: Text<'a>,
    envelope: &Envelope,
) -> (Cow<'a, str>, Option<Json<'a>>, Id<'a>) {
    let json = |member: Member| text.json(member.span);
    let method = method_text(
        envelope.method().map_or(Json::NULL, json),
        envelope.has_escaped_method(),
    );
    // A null that was accepted counts as absent.
    let params = envelope
        .params()
        .filter(|params| params.kind != JsonKind::Null);
    let id = envelope.id().and_then(|id| Id::new(json(id)));
    (method, params.map(json), id.unwrap_or(Id::NULL))
}

/// A call of version 2.0 that is obviously valid: without escapes in its method, and without an id
/// or with an id that is a number or a string.
///
/// Made by a fast path: what [`read`](Self::read) returns, `classify` would return too. In case of
/// doubt `read` returns `None`.
pub(crate) struct PlainCall<'a> {
    pub(crate) method: &'a str,
    pub(crate) params: Option<Json<'a>>,
    pub(crate) id: Option<Id<'a>>,
}

impl<'a> PlainCall<'a> {
    /// Reads an object that [is plain](is_plain).
    #[inline(always)]
    pub(crate) fn read(text: Text<'a>, envelope: &Envelope) -> Option<Self> {
        let method = envelope.method()?;
        if method.kind != JsonKind::String {
            rare();
            return None;
        }
        let method = text.inside(method.span)?;
        let params = match envelope.params() {
            None => None,
            Some(params) if matches!(params.kind, JsonKind::Array | JsonKind::Object) => {
                text.value(params.span)
            }
            Some(_) => {
                rare();
                return None;
            }
        };
        let id = match envelope.id() {
            None => None,
            Some(id) if matches!(id.kind, JsonKind::Number | JsonKind::String) => {
                text.value(id.span).map(Id::of_scalar)
            }
            Some(_) => {
                rare();
                return None;
            }
        };
        Some(Self { method, params, id })
    }
}

/// Returns the id of an answer, if it is a number or a string. This function and one of the two
/// following ones read an answer that [is plain](is_plain), as [`PlainCall`] reads a call.
#[inline(always)]
pub(crate) fn plain_answer_id<'a>(text: Text<'a>, envelope: &Envelope) -> Option<Id<'a>> {
    let id = envelope.id()?;
    if envelope.method().is_some() || !matches!(id.kind, JsonKind::Number | JsonKind::String) {
        rare();
        return None;
    }
    text.value(id.span).map(Id::of_scalar)
}

/// Returns the result, if there is no error.
#[inline(always)]
pub(crate) fn plain_result<'a>(text: Text<'a>, envelope: &Envelope) -> Option<Json<'a>> {
    let result = envelope.result()?;
    match envelope.error() {
        None => text.value(result.span),
        Some(_) => {
            rare();
            None
        }
    }
}

/// Returns the error, if there is no result, and if the scanner has found the error's members.
#[inline(always)]
pub(crate) fn plain_error<'a>(text: Text<'a>, envelope: &Envelope) -> Option<ErrorObject<'a>> {
    let (error, parts) = (envelope.error()?, envelope.error_parts()?);
    if envelope.result().is_some() {
        return None;
    }
    let (message, json) = text.inside(parts.message).zip(text.value(error.span))?;
    let data = parts.data(error.span).map(|data| text.json(data));
    Some(ErrorObject::of_parts(
        parts.code.into(),
        message,
        data,
        json,
    ))
}

/// Whether an object claims version 2.0, and is allowed to, has every member only once, and has no
/// escapes in its method.
#[inline]
pub(crate) fn is_plain(envelope: &Envelope, config: &Config) -> bool {
    envelope.version == Version::V2
        && envelope.is_plain()
        && config.dialect.version != VersionPolicy::V1Only
}

/// Classifies one value, in a batch or alone. Only an object can be valid.
pub(crate) fn classify<'a>(
    text: Text<'a>,
    envelope: &Envelope,
    config: &Config,
    in_batch: bool,
) -> Message<'a> {
    let object = Object {
        text,
        envelope,
        config,
    };
    if envelope.kind != JsonKind::Object {
        return Message::Invalid(object.invalid(InvalidReason::NotAnObject, None, Style::V2));
    }
    if envelope.method().is_some() {
        return match object.call(in_batch) {
            Ok(call) => Message::Call(call),
            Err(invalid) => Message::Invalid(invalid),
        };
    }
    if envelope.result().is_some() || envelope.error().is_some() {
        let id = object.response_id();
        return Message::Response(ResponseRef {
            id,
            outcome: object.outcome(in_batch),
        });
    }
    Message::Invalid(object.invalid(InvalidReason::Unrecognisable, None, Style::V2))
}

/// Whether a response without id answers the one request of an exchange.
pub(crate) fn settles_without_id(config: &Config) -> bool {
    config.exchange
        && config.role == Role::Client
        && config.dialect.missing_response_id == MissingResponseId::SoleExchange
}

impl<'a> Object<'a, '_> {
    #[inline]
    fn json(&self, member: Member) -> Json<'a> {
        self.text.json(member.span)
    }

    fn whole(&self) -> Json<'a> {
        self.text.json(self.envelope.span)
    }

    /// Returns the version that the object claims; `None` if the configuration does not allow it.
    fn style(&self) -> Option<Style> {
        let policy = self.config.dialect.version;
        match self.envelope.version {
            Version::V2 => policy.allows_v2().then_some(Style::V2),
            Version::Absent | Version::V1 => policy.allows_v1().then_some(Style::V1),
            Version::Other => {
                (policy.allows_v1() && self.config.dialect.v1_other_versions).then_some(Style::V1)
            }
        }
    }

    /// Returns the member `id` as an id, if this version allows its type.
    fn id(&self, style: Style) -> Option<Id<'a>> {
        if self.envelope.repeated().contains(Names::ID) {
            return None;
        }
        let member = self.envelope.id()?;
        match member.kind {
            JsonKind::Bool if style == Style::V2 && !self.config.dialect.boolean_ids => None,
            _ => Id::new(self.json(member)),
        }
    }

    #[cold]
    #[inline(never)]
    fn invalid(&self, reason: InvalidReason, at: Option<Member>, style: Style) -> Invalid<'a> {
        let start = at.map_or(self.envelope.span, |member| member.span).start;
        let id = match self.envelope.kind {
            JsonKind::Object => self.id(style),
            _ => None,
        };
        Invalid {
            reason,
            id,
            offset: start as usize,
            style,
        }
    }

    /// Reads an object with `method`.
    fn call(&self, in_batch: bool) -> Result<Call<'a>, Invalid<'a>> {
        let envelope = self.envelope;
        let Some(style) = self.style() else {
            return Err(self.invalid(InvalidReason::Version, None, Style::V2));
        };
        if !envelope.repeated().is_empty() {
            return Err(self.invalid(InvalidReason::RepeatedMember, None, style));
        }
        if style == Style::V1 && in_batch && !self.config.dialect.v1_in_batch {
            return Err(self.invalid(InvalidReason::V1InBatch, None, style));
        }
        let Some(method) = envelope
            .method()
            .filter(|method| method.kind == JsonKind::String)
        else {
            return Err(self.invalid(InvalidReason::MethodType, envelope.method(), style));
        };
        if envelope.has_escaped_method()
            && self
                .json(method)
                .as_string()
                .is_none_or(|s| s.to_cow().is_none())
        {
            return Err(self.invalid(InvalidReason::MethodText, Some(method), style));
        }
        let params = match envelope.params() {
            None => None,
            Some(params) => match (params.kind, style) {
                (JsonKind::Array, _) => Some(params),
                (JsonKind::Object, Style::V2) => Some(params),
                (JsonKind::Object, Style::V1) if self.config.dialect.v1_named_params => {
                    Some(params)
                }
                (JsonKind::Object, Style::V1) => {
                    return Err(self.invalid(InvalidReason::ParamsByName, Some(params), style));
                }
                (JsonKind::Null, _)
                    if self.config.dialect.null_params == NullParams::TreatAsAbsent =>
                {
                    None
                }
                _ => return Err(self.invalid(InvalidReason::ParamsType, Some(params), style)),
            },
        };
        let kind = match (envelope.id(), style) {
            (None, Style::V2) => CallKind::Notification,
            (None, Style::V1) if self.config.dialect.v1_missing_id => CallKind::Request(Id::NULL),
            (None, Style::V1) => {
                return Err(self.invalid(InvalidReason::IdMissing, None, Style::V2));
            }
            (Some(id), Style::V1) if id.kind == JsonKind::Null => {
                match self.config.dialect.v1_null_id {
                    V1NullId::Silent => CallKind::Notification,
                    V1NullId::AckAllNull => CallKind::Acknowledged,
                    V1NullId::Answer => CallKind::Request(Id::NULL),
                }
            }
            (Some(id), _) => match self.id(style) {
                Some(id) => CallKind::Request(id),
                None => return Err(self.invalid(InvalidReason::IdType, Some(id), style)),
            },
        };
        let (method, params) = (self.json(method), params.map(|params| self.json(params)));
        Ok(Call {
            style,
            method,
            method_escaped: envelope.has_escaped_method(),
            params,
            kind,
        })
    }

    /// Returns the id by which a response finds its call, even if the response is invalid.
    fn response_id(&self) -> Option<Id<'a>> {
        let style = match self.envelope.version {
            Version::V2 => Style::V2,
            _ => Style::V1,
        };
        self.id(style)
    }

    /// Returns the outcome of an object with `result` or `error`, and without `method`.
    fn outcome(&self, in_batch: bool) -> Outcome<'a> {
        match self.valid_outcome(in_batch) {
            Ok(outcome) => outcome,
            Err(reason) => Outcome::Invalid(InvalidResponse {
                reason,
                text: self.whole(),
            }),
        }
    }

    /// Returns the outcome of a valid response, or the rule that the response breaks.
    fn valid_outcome(&self, in_batch: bool) -> Result<Outcome<'a>, InvalidReason> {
        let envelope = self.envelope;
        let style = self.style().ok_or(InvalidReason::Version)?;
        if !envelope.repeated().is_empty() {
            return Err(InvalidReason::RepeatedMember);
        }
        match envelope.id() {
            Some(_) if self.id(style).is_some() => {}
            Some(_) => return Err(InvalidReason::IdType),
            // Some dialects leave the id out of an error, if they could not read the request's.
            None if self.config.dialect.unknown_id == UnknownId::Omit
                && envelope.error().is_some() => {}
            None if !in_batch && settles_without_id(self.config) => {}
            None => return Err(InvalidReason::IdMissing),
        }
        let lenient = self.config.dialect.lenient_responses;
        // 1.0 has both members, and the unused one is null; 2.0 has exactly one.
        let used = |member: Member| member.kind != JsonKind::Null;
        match (style, envelope.result(), envelope.error()) {
            (Style::V2, Some(result), None) => Ok(Outcome::Ok(self.json(result))),
            (Style::V2, None, Some(error)) => self.error(error, style),
            (Style::V2, Some(result), Some(error)) if lenient && !used(error) => {
                Ok(Outcome::Ok(self.json(result)))
            }
            (Style::V2, Some(result), Some(error)) if lenient && !used(result) => {
                self.error(error, style)
            }
            (Style::V1, Some(result), Some(error)) if !used(error) => {
                Ok(Outcome::Ok(self.json(result)))
            }
            (Style::V1, Some(result), Some(error)) if !used(result) => self.error(error, style),
            (Style::V1, Some(result), None) if lenient => Ok(Outcome::Ok(self.json(result))),
            (Style::V1, None, Some(error)) if lenient && used(error) => self.error(error, style),
            (_, Some(_), Some(_)) => Err(InvalidReason::BothOutcomes),
            _ => Err(InvalidReason::NoOutcome),
        }
    }

    fn error(&self, error: Member, style: Style) -> Result<Outcome<'a>, InvalidReason> {
        let plain = plain_error(self.text, self.envelope);
        let read = match style {
            Style::V2 => plain.or_else(|| ErrorObject::read(self.json(error))),
            Style::V1 => plain.or_else(|| Some(ErrorObject::read_v1(self.json(error)))),
        };
        read.map(Outcome::Err).ok_or(InvalidReason::ErrorShape)
    }
}
