//! The messages that nearly all messages are, from spans to event in one step.
//!
//! A request or notification of version 2.0 that repeats no member, escapes nothing in its method, is no cancel and is
//! within its limits; and an answer, valid and to a call that is open. Whatever is not plainly one of these is left to
//! `classify` and `deliver`, untouched.
//!
//! The rule guarded here: this is a fast path and nothing else. It makes no decision of its own: where it gives an event,
//! the long way gives the same one (the tests run both), and where anything is in doubt it gives none.

use super::{Connection, Fate};
use crate::config::{Config, DuplicateIds, VersionPolicy};
use crate::encode::Style;
use crate::error_object::ErrorObject;
use crate::event::{Event, Notification, Origin, Outcome, Request, Response};
use crate::id::Id;
use crate::json::{Envelope, Json, JsonKind, Version};
use crate::message::Text;
use crate::requests::NONE;

/// A call that is plainly valid.
struct PlainCall<'a> {
    method: &'a str,
    params: Option<Json<'a>>,
    id: Option<Id<'a>>,
}

impl<'a> PlainCall<'a> {
    #[inline(always)]
    fn read(text: Text<'a>, envelope: &Envelope, config: &Config) -> Option<Self> {
        let method = envelope.method()?;
        if method.kind != JsonKind::String || envelope.method_escaped {
            return None;
        }
        let method = text.inside(method.span)?;
        let params = match envelope.params() {
            None => None,
            Some(params) if matches!(params.kind, JsonKind::Array | JsonKind::Object) => {
                Some(text.json(params.span))
            }
            Some(_) => return None,
        };
        let id = match envelope.id() {
            None => None,
            Some(id) if matches!(id.kind, JsonKind::Number | JsonKind::String) => {
                Id::new(text.json(id.span))
            }
            Some(_) => return None,
        };
        if let Some((cancel, _)) = config.cancel_receive.names() {
            if method == cancel {
                return None;
            }
        }
        let is_long = method.len() > config.method_bytes_max;
        (!is_long).then_some(Self { method, params, id })
    }
}

/// Whether an object claims version 2.0, is allowed to, and has every member once.
#[inline(always)]
fn is_plain(envelope: &Envelope, config: &Config) -> bool {
    envelope.version == Version::V2
        && envelope.repeated.is_empty()
        && config.version != VersionPolicy::V1Only
}

impl<T> Connection<T> {
    /// The event of a message that came alone, if it is a plain one.
    #[inline(always)]
    pub(super) fn deliver_plain<'a>(
        &mut self,
        text: Text<'a>,
        origin: Origin,
    ) -> Option<Event<'a, T>> {
        let envelope = self.envelopes.first()?;
        if !is_plain(envelope, &self.config) {
            return None;
        }
        if envelope.method().is_none() {
            return self.plain_response(text, origin);
        }
        let PlainCall { method, params, id } = PlainCall::read(text, envelope, &self.config)?;
        let method = method.into();
        let Some(id) = id else {
            return Some(Event::Notification(Notification {
                method,
                params,
                origin,
            }));
        };
        if !self.has_room_for(id) {
            return None;
        }
        let (slot, generation) = self.requests.insert(id, Style::V2, NONE, 0);
        Some(Event::Request(Request {
            method,
            params,
            id,
            token: self.token(slot, generation),
            origin,
        }))
    }

    /// What is to become of a plain call in a batch. A request is opened.
    #[inline]
    pub(super) fn plain_fate(
        &mut self,
        text: Text<'_>,
        envelope: &Envelope,
        batch: u32,
        position: u32,
    ) -> Option<Fate> {
        if !is_plain(envelope, &self.config) {
            return None;
        }
        let Some(id) = PlainCall::read(text, envelope, &self.config)?.id else {
            return Some(Fate::Notification);
        };
        if !self.has_room_for(id) {
            return None;
        }
        let (slot, _) = self.requests.insert(id, Style::V2, batch, position);
        self.batches.retain(batch);
        Some(Fate::Request { slot })
    }

    /// Whether a request with this id meets no limit.
    #[inline(always)]
    fn has_room_for(&self, id: Id<'_>) -> bool {
        id.text().len() <= self.config.id_bytes_max
            && !self.draining
            && self.requests.open() < self.config.requests_max
            && self.config.duplicate_ids == DuplicateIds::Allow
    }

    /// A valid answer to an open call settles it.
    #[inline(always)]
    fn plain_response<'a>(&mut self, text: Text<'a>, origin: Origin) -> Option<Event<'a, T>> {
        let envelope = self.envelopes.first()?;
        let id = envelope.id()?;
        if !matches!(id.kind, JsonKind::Number | JsonKind::String) {
            return None;
        }
        let id = Id::new(text.json(id.span))?;
        let outcome = match (envelope.result(), envelope.error()) {
            (Some(result), None) => Outcome::Ok(text.json(result.span)),
            (None, Some(error)) => Outcome::Err(ErrorObject::read(text.json(error.span))?),
            _ => return None,
        };
        let number = self.find_call(id)?;
        let (call, tag) = self.end_call(number)?;
        Some(Event::Response(Response {
            call,
            tag,
            outcome,
            origin: Some(origin),
        }))
    }
}
