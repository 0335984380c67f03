//! Batches from the peer. A batch is refused as a whole; or else it is decided for every item what
//! becomes of it, and every request is opened, before the first item is delivered.
//!
//! A cancel in a batch takes effect before the request that it cancels is delivered, in whichever
//! order they are. Each request of a batch gets an answer, even if it is refused or abandoned, or
//! cancelled in a dialect that answers cancelled requests.

use alloc::boxed::Box;
use core::mem;

use super::Connection;
use super::deliver::Place;
use super::parts::{Fate, Parts};
use crate::batches::Budget;
use crate::codes;
use crate::config::{CancelMatch, LimitErrors, Role, Settings};
use crate::encode::{self, Style};
use crate::error_object::{ErrorObject, with_number};
use crate::event::{Event, InvalidReason, MalformedCause, Origin, Refused, RefusedCause};
use crate::id::Id;
use crate::json::{JsonKind, OwnedJson};
use crate::message::{self, Call, CallKind, Message, Text};

impl<T, S: Settings> Connection<T, S> {
    /// Refuses a batch as a whole, if that is necessary. `None` accepts it; `Some(None)` drops it
    /// without an event.
    pub(super) fn reject_batch<'a>(
        &mut self,
        text: &'a [u8],
        items: usize,
        whole: Text<'a>,
    ) -> Option<Option<Event<'a, T>>> {
        let reason = match items {
            // An empty array as the reply of an exchange only says that there is no answer.
            0 if self.config.exchange && self.config.role == Role::Client => return Some(None),
            0 => InvalidReason::EmptyBatch,
            _ if !self.config.dialect.batches => InvalidReason::BatchesOff,
            _ if items > self.config.limits.max_batch_items => {
                return Some(Some(self.refuse_batch(text, items, whole)));
            }
            _ => return None,
        };
        let answered = self.answer_fault(Style::V2, None, &ErrorObject::invalid_request());
        let origin = Origin {
            bytes: text.len(),
            batch_index: None,
        };
        Some(Some(self.report_malformed(
            MalformedCause::Call(reason),
            text,
            0,
            None,
            answered,
            origin,
        )))
    }

    /// Returns the id of the first request among the items that were scanned.
    pub(super) fn first_request_id<'a>(&self, whole: Text<'a>) -> Option<Id<'a>> {
        self.envelopes.iter().find_map(|envelope| {
            match message::classify(whole, envelope, &self.config, true) {
                Message::Call(call) => match call.kind {
                    CallKind::Request(id) => Some(id),
                    _ => None,
                },
                _ => None,
            }
        })
    }

    /// Reports a batch that is too long. Answers it, unless it has only answers or this side is a
    /// client.
    pub(super) fn refuse_batch<'a>(
        &mut self,
        text: &'a [u8],
        items: usize,
        whole: Text<'a>,
    ) -> Event<'a, T> {
        let max_items = self.config.limits.max_batch_items;
        // Only the first items are known. A batch of answers is never answered; every other batch
        // is, because the peer may wait for the answer.
        let is_answers = self.envelopes.iter().all(|envelope| {
            envelope.method().is_none()
                && (envelope.result().is_some() || envelope.error().is_some())
        });
        let sentence = with_number("A batch may have at most ", max_items, " items");
        let sentence = OwnedJson::of_str(&sentence);
        let standard = || ErrorObject::invalid_request().with_data(sentence.as_json());
        let answered = match self.config.dialect.limit_errors {
            _ if is_answers => None,
            LimitErrors::Dedicated | LimitErrors::WebSocket => {
                self.answer_fault(Style::V2, None, &ErrorObject::batch_too_large(max_items))
            }
            LimitErrors::Standard => self.answer_fault(Style::V2, None, &standard()),
            LimitErrors::FirstCall if self.config.role == Role::Client => None,
            LimitErrors::FirstCall => {
                let id = self.first_request_id(whole);
                let id = self.echoed(id).unwrap_or(Id::NULL).json().as_bytes();
                let error = standard();
                let hint = "[]".len() + encode::FAILURE_BYTES + error.size_hint() + id.len();
                self.queue_reply(hint, |out| {
                    out.push(b'[');
                    encode::failure(out, Style::V2, Some(id), &error);
                    out.push(b']');
                });
                Some(codes::INVALID_REQUEST)
            }
        };
        Event::Refused(Refused {
            cause: RefusedCause::BatchTooLong { items },
            method: None,
            id: None,
            answered,
            origin: Origin {
                bytes: text.len(),
                batch_index: None,
            },
        })
    }

    /// Decides what becomes of every item of a batch, and opens its requests. Returns the number of
    /// the batch.
    pub(super) fn open_batch(&mut self, whole: Text<'_>) -> u32 {
        let parts = Parts::of(&mut self.parts);
        parts.batch_items = Some(self.envelopes.len());
        // Its answer, too, makes the output longer. So no other batch in its slot has this number while
        // somebody may ask for it.
        let batch = parts.batches.begin(self.outbox.queued() as u32);
        // The list is moved out of the connection while it is filled.
        let mut fates = mem::take(&mut parts.fates);
        fates.clear();
        let mut has_cancels = false;
        for position in 0..self.envelopes.len() {
            let envelope = self.envelopes[position];
            if let Some(fate) = self.plain_fate(whole, &envelope, batch, position as u32) {
                fates.push(fate);
                continue;
            }
            let mut fate = Fate::Deliver;
            if envelope.kind == JsonKind::Object && envelope.method().is_some() {
                let message = message::classify(whole, &envelope, &self.config, true);
                if let Message::Call(call) = message {
                    has_cancels |= self.is_cancel(&call);
                    fate = self.open_item(&call, batch, position as u32);
                }
            }
            fates.push(fate);
        }
        let is_request = |fate: &&Fate| matches!(fate, Fate::Request { .. });
        let requests = fates.iter().filter(is_request).count();
        Parts::of(&mut self.parts).batches.retain(batch, requests);
        if has_cancels {
            self.cancel_within(whole, batch, &mut fates);
        }
        Parts::of(&mut self.parts).fates = fates;
        batch
    }

    /// Decides what becomes of any call in a batch. A request within its limits is opened.
    pub(super) fn open_item(&mut self, call: &Call<'_>, batch: u32, position: u32) -> Fate {
        if self.is_cancel(call) {
            return Fate::Deliver;
        }
        let over_limit = self.over_limit(call);
        let id = match call.kind {
            CallKind::Request(id) => id,
            CallKind::Notification if over_limit.is_none() => return Fate::Notification,
            _ => return Fate::Deliver,
        };
        if let Some(cause) = over_limit {
            let error = self.limit_error(cause);
            let id = self.echoed(Some(id));
            let answered = Some(error.code());
            self.answer_item(batch, position, call.style, id, &error);
            return Fate::Refused { cause, answered };
        }
        let (slot, _) = self.requests.insert(id, call.style, batch, position);
        Fate::Request { slot }
    }

    /// Applies the cancels of a batch to requests of the same batch, before any item is delivered.
    fn cancel_within(&mut self, whole: Text<'_>, batch: u32, fates: &mut [Fate]) {
        for position in 0..self.envelopes.len() {
            let envelope = self.envelopes[position];
            if envelope.kind != JsonKind::Object || envelope.method().is_none() {
                continue;
            }
            let message = message::classify(whole, &envelope, &self.config, true);
            let Message::Call(call) = message else {
                continue;
            };
            if !self.is_cancel(&call) {
                continue;
            }
            let Some(slot) = self.cancel_target(&call) else {
                continue;
            };
            let request = self.requests.at(slot);
            let own = request.filter(|request| request.batch == batch);
            let Some(target) = own.map(|request| request.position as usize) else {
                continue;
            };
            let error = self
                .config
                .dialect
                .cancel_answer
                .code()
                .map(ErrorObject::of);
            self.end_item(batch, target as u32, slot, error.as_ref());
            fates[target] = Fate::Done;
            // The cancel has taken effect. If it has an id, it is also answered.
            fates[position] = Fate::Done;
            if let CallKind::Request(id) = call.kind {
                let position = position as u32;
                self.answer_null(call.style, id, Some(Place { batch, position }));
            }
        }
    }

    /// Adds an error of the core's own to a batch, at its position.
    pub(super) fn answer_item(
        &mut self,
        batch: u32,
        position: u32,
        style: Style,
        id: Option<Id<'_>>,
        error: &ErrorObject<'_>,
    ) {
        if !self.reads_in_parts() {
            return;
        }
        let id = self.written_id(style, id);
        add_failure(&mut self.parts, batch, position, style, id, error);
    }

    /// Ends an undelivered request of a batch, with an error or without an answer. The batch is
    /// still being read.
    pub(super) fn end_item(
        &mut self,
        batch: u32,
        position: u32,
        slot: u32,
        error: Option<&ErrorObject<'_>>,
    ) {
        let request = self.requests.at(slot);
        if let (Some(request), Some(error)) = (request, error) {
            let (id, style) = (Some(request.id()), request.style);
            add_failure(&mut self.parts, batch, position, style, id, error);
        }
        self.requests.remove(slot);
        Parts::of(&mut self.parts).batches.release(batch);
    }

    /// Whether a call is a cancel of another request.
    pub(super) fn is_cancel(&self, call: &Call<'_>) -> bool {
        let Some((method, _)) = self.config.dialect.cancel_receive.names() else {
            return false;
        };
        call.is_of(method)
    }

    /// Returns the slot of the open request that a cancel names.
    pub(super) fn cancel_target(&mut self, call: &Call<'_>) -> Option<u32> {
        let (_, member) = self.config.dialect.cancel_receive.names()?;
        let id = call
            .params
            .and_then(|params| params.get(member))
            .and_then(Id::new)?;
        self.requests
            .find_wanted(id)
            .or_else(|| match self.config.dialect.cancel_match {
                CancelMatch::Exact => None,
                CancelMatch::ExactThenText => self.requests.find_text(id),
            })
    }
}

/// Adds an error to a batch, at its position. It always fits: the limit is for results.
fn add_failure(
    parts: &mut Option<Box<Parts>>,
    batch: u32,
    position: u32,
    style: Style,
    id: Option<&[u8]>,
    error: &ErrorObject<'_>,
) {
    let batches = &mut Parts::of(parts).batches;
    let _ = batches.add(
        batch,
        position,
        128,
        Budget::NONE,
        || 0,
        |out| {
            encode::failure(out, style, id, error);
            Ok::<(), core::convert::Infallible>(())
        },
    );
}
