//! Turns messages into events: nearly always one event for each object of a frame.
//!
//! A response is never answered, and neither is a notification, unless a 1.0 dialect acknowledges
//! it. A request is answered exactly once. An object that is none of these is reported, not
//! dropped.

use super::Connection;
use super::parts::{Fate, Parts, Rest};
use crate::batches::Budget;
use crate::calls::Calls;
use crate::config::{InvalidRequestId, NullIdError, Role, Settings};
use crate::encode::{self, Style};
use crate::error_object::ErrorObject;
use crate::event::{
    Cancelled, ConnectionError, Event, InvalidReason, InvalidResponse, MalformedCause,
    NotificationRef, Origin, Outcome, Refused, RequestRef, ResponseRef, UnmatchedKind,
    UnmatchedResponse,
};
use crate::id::{Id, ReplyToken, RequestKey};
use crate::input::Input;
use crate::json::{Envelope, Json, TextFlags};
use crate::message::{self, Call, CallKind, Invalid, Message, Text};
use crate::requests::{NONE, OpenRequest};

/// The batch to which the answer of an item belongs, and the item's position in it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) batch: u32,
    pub(super) position: u32,
}

impl Place {
    /// Returns the place of an item. A position fits into 32 bits, because `scan` refuses messages
    /// of 4 GiB and more, and each item has at least one byte.
    fn at(batch: u32, position: usize) -> Self {
        let position = position as u32;
        Self { batch, position }
    }
}

/// Returns the text of an item of a batch, and its size and position.
#[inline]
pub(super) fn item_of<'a>(
    message: &'a [u8],
    envelope: &Envelope,
    flags: TextFlags,
    position: usize,
) -> (Text<'a>, Origin) {
    let origin = Origin {
        bytes: envelope.span.range().len(),
        batch_index: Some(position),
    };
    (Text::part(message, envelope, flags), origin)
}

impl<T, S: Settings> Connection<T, S> {
    /// Delivers the next part of a message that makes several events; `None` when it is finished.
    pub(super) fn read_on<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        loop {
            let parts = self.parts.as_mut()?;
            let reading = parts.reading.as_mut()?;
            let text = input.rest().get(reading.body.clone()).unwrap_or_default();
            let flags = reading.flags;
            let event = match &mut reading.rest {
                Rest::Items { next, batch } => {
                    let (position, batch) = (*next, *batch);
                    *next += 1;
                    let fate = parts.fates.get(position).copied();
                    let is_last = *next >= parts.fates.len();
                    let event = fate.and_then(|fate| {
                        self.deliver_item(text, flags, Place::at(batch, position), fate)
                    });
                    if is_last {
                        self.finish_reading(input);
                    }
                    event
                }
                Rest::Fanout { low, high } => {
                    let (from, high) = (*low, *high);
                    // The calls are found in the order of their slots, not of their numbers, so
                    // `low` cannot be raised to the number of the call that ended last.
                    let within = |number: &u64| from < *number && *number <= high;
                    let number = self.calls.oldest().filter(within);
                    let number = number.or_else(|| self.calls.open_between(from, high));
                    if number.is_none() {
                        self.finish_reading(input);
                    }
                    number.and_then(|number| self.fan_out(text, flags, number))
                }
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Consumes the message that was being read, and sends its batch's answer if that is complete.
    fn finish_reading(&mut self, input: &mut Input<'_>) {
        let Some(reading) = self.take_reading() else {
            return;
        };
        self.consume(input, reading.taken);
        if let Rest::Items { batch, .. } = reading.rest {
            self.release_batch(batch);
            self.after_reply();
        }
    }

    /// Returns the event of one item of a batch, by its fate; `None` if it has none.
    fn deliver_item<'a>(
        &mut self,
        text: &'a [u8],
        flags: TextFlags,
        place: Place,
        fate: Fate,
    ) -> Option<Event<'a, T>> {
        let position = place.position as usize;
        let envelope = *self.envelopes.get(position)?;
        let (part, origin) = item_of(text, &envelope, flags, position);
        match fate {
            Fate::Request { slot } => {
                let generation = self.requests.at(slot)?.generation();
                let (method, params, id) = message::known_call(part, &envelope);
                Some(Event::Request(RequestRef {
                    method,
                    params,
                    id,
                    token: self.token(slot, generation),
                    origin,
                }))
            }
            Fate::Notification => {
                let (method, params, _) = message::known_call(part, &envelope);
                Some(Event::Notification(NotificationRef {
                    method,
                    params,
                    origin,
                }))
            }
            Fate::Refused { cause, answered } => {
                let (method, _, id) = message::known_call(part, &envelope);
                Some(Event::Refused(Refused {
                    cause,
                    method: Some(method),
                    id: Some(id),
                    answered,
                    origin,
                }))
            }
            Fate::Done => None,
            Fate::Deliver => {
                let message = message::classify(part, &envelope, &self.config, true);
                Some(self.deliver(text, &envelope, message, origin, Some(place)))
            }
        }
    }

    /// Returns the key of the open request in a slot.
    pub(super) fn key(&self, slot: u32) -> RequestKey {
        let request = self.requests.at(slot);
        RequestKey {
            connection: self.number.get(),
            slot,
            generation: request.map_or(0, OpenRequest::generation),
        }
    }

    #[inline]
    pub(super) fn token(&self, slot: u32, generation: u32) -> ReplyToken {
        let key = RequestKey {
            connection: self.number.get(),
            slot,
            generation,
        };
        ReplyToken { key }
    }

    /// Carries out one message, and returns its event. `place` is set for an item of a batch.
    #[inline]
    pub(super) fn deliver<'a>(
        &mut self,
        text: &'a [u8],
        envelope: &Envelope,
        message: Message<'a>,
        origin: Origin,
        place: Option<Place>,
    ) -> Event<'a, T> {
        match message {
            Message::Call(call) => self.deliver_call(call, origin, place),
            Message::Response(response) => {
                let text = item_text(text, envelope);
                self.deliver_response(response.id, response.outcome, text, origin)
            }
            Message::Invalid(invalid) => {
                self.deliver_invalid(text, envelope, invalid, origin, place)
            }
        }
    }

    fn deliver_call<'a>(
        &mut self,
        call: Call<'a>,
        origin: Origin,
        place: Option<Place>,
    ) -> Event<'a, T> {
        if self.is_cancel(&call) {
            return self.deliver_cancel(&call, origin, place);
        }
        let over_limit = self.over_limit(&call);
        match (call.kind, over_limit) {
            (CallKind::Request(id), Some(cause)) => {
                let error = self.limit_error(cause);
                let echoed = self.echoed(Some(id));
                self.answer_error(call.style, echoed, &error);
                let (method, answered) = (Some(call.method_text()), Some(error.code()));
                Event::Refused(Refused {
                    cause,
                    method,
                    id: Some(id),
                    answered,
                    origin,
                })
            }
            (CallKind::Request(id), None) => {
                let (slot, generation) = self.requests.insert(id, call.style, NONE, 0);
                self.request_event(&call, id, slot, generation, origin)
            }
            (_, Some(cause)) => {
                // A notification is never answered, whatever is wrong with it. JSON-RPC 2.0 §4.1.
                let method = Some(call.method_text());
                Event::Refused(Refused {
                    cause,
                    method,
                    id: None,
                    answered: None,
                    origin,
                })
            }
            (kind, None) => {
                let acknowledged = matches!(kind, CallKind::Acknowledged);
                if acknowledged && self.config.dialect.version.allows_v1() {
                    self.answer_null(Style::V1, Id::NULL, place);
                }
                let (method, params) = (call.method_text(), call.params);
                Event::Notification(NotificationRef {
                    method,
                    params,
                    origin,
                })
            }
        }
    }

    fn request_event<'a>(
        &mut self,
        call: &Call<'a>,
        id: Id<'a>,
        slot: u32,
        generation: u32,
        origin: Origin,
    ) -> Event<'a, T> {
        let (method, params) = (call.method_text(), call.params);
        Event::Request(RequestRef {
            method,
            params,
            id,
            token: self.token(slot, generation),
            origin,
        })
    }

    /// Carries out a cancel. If the cancel has an id, it is a request, and is answered with null.
    fn deliver_cancel<'a>(
        &mut self,
        call: &Call<'a>,
        origin: Origin,
        place: Option<Place>,
    ) -> Event<'a, T> {
        let target = self.cancel_target(call);
        let event = match target {
            Some(slot) => {
                let key = self.key(slot);
                let answer_owed = self.config.dialect.cancel_answer.code().is_some();
                if answer_owed {
                    self.requests.set_cancelled(slot);
                } else {
                    self.forget_request(key);
                }
                Event::Cancelled(Cancelled {
                    key,
                    reason: cancel_reason(call.params),
                    answer_owed,
                })
            }
            None => {
                let style = self.config.dialect.cancel_receive;
                let (_, member) = style.names().unwrap_or_default();
                let id = call
                    .params
                    .and_then(|params| params.get(member))
                    .and_then(Id::new);
                Event::UnmatchedResponse(UnmatchedResponse {
                    kind: UnmatchedKind::Cancel,
                    id,
                    origin,
                })
            }
        };
        if let CallKind::Request(id) = call.kind {
            self.answer_null(call.style, id, place);
        }
        event
    }

    /// Ends an open request without an answer.
    pub(super) fn forget_request(&mut self, key: RequestKey) {
        let batch = self
            .requests
            .get(key.slot, key.generation)
            .map_or(NONE, |request| self.batch_of(request));
        self.requests.remove(key.slot);
        if batch != NONE {
            self.release_batch(batch);
            self.after_reply();
        }
    }

    /// Answers a call with the result null, which has fewer than 64 bytes besides the id.
    pub(super) fn answer_null(&mut self, style: Style, id: Id<'_>, place: Option<Place>) {
        let id = self.echoed(Some(id)).unwrap_or(Id::NULL).json().as_bytes();
        // Writing null cannot fail, and its few bytes need not count against the limit.
        match place {
            Some(place) if self.reads_in_parts() => {
                let write = |out: &mut _| encode::success(out, style, id, ());
                let batches = &mut Parts::of(&mut self.parts).batches;
                let room = id.len() + 64;
                let _ = batches.add(place.batch, place.position, room, Budget::NONE, || 0, write);
            }
            _ => self.queue_reply(id.len() + 64, |out| {
                let _ = encode::success(out, style, id, ());
            }),
        }
    }

    /// Ends the call to which a response belongs, or reports that there is no such call.
    fn deliver_response<'a>(
        &mut self,
        id: Option<Id<'a>>,
        outcome: Outcome<'a>,
        text: &'a [u8],
        origin: Origin,
    ) -> Event<'a, T> {
        let number = id.and_then(|id| self.find_call(id));
        if let Some((call, tag)) = number.and_then(|number| self.end_call(number, true)) {
            return Event::Response(ResponseRef {
                call,
                tag,
                outcome,
                origin: Some(origin),
            });
        }
        let broken = match &outcome {
            Outcome::Invalid(invalid) => Some(invalid.reason),
            // Without an id a result can only answer the call of an exchange with exactly one call,
            // and `null_id_fanout` has already looked for that.
            Outcome::Ok(_) if id.is_none() => Some(InvalidReason::IdMissing),
            _ => None,
        };
        if let Some(reason) = broken {
            let cause = MalformedCause::Response(reason);
            return self.report_malformed(cause, text, 0, id, None, origin);
        }
        // A 1.0 peer may acknowledge a notification by a null result with a null id, which is not
        // counted as a fault.
        let is_acknowledgement = self.config.dialect.version.allows_v1()
            && id.is_some_and(|id| id.is_null())
            && matches!(outcome, Outcome::Ok(result) if result.is_null());
        let id_of_call = id.filter(|id| !id.is_null());
        if id_of_call.is_some_and(|id| self.was_cancelled(id)) {
            let kind = UnmatchedKind::Cancelled(outcome);
            return Event::UnmatchedResponse(UnmatchedResponse { kind, id, origin });
        }
        let kind = match id_of_call {
            None => UnmatchedKind::NullId(outcome),
            Some(id) if self.was_ours(id) => UnmatchedKind::Late(outcome),
            Some(_) => UnmatchedKind::Unknown(outcome),
        };
        self.unmatched_responses += u64::from(!is_acknowledgement);
        if self.unmatched_responses > self.config.limits.max_unmatched_responses {
            self.fail(ConnectionError::TooManyUnmatched);
        }
        Event::UnmatchedResponse(UnmatchedResponse { kind, id, origin })
    }

    /// Whether this is the id of a call whose cancel was sent. True once for each call.
    fn was_cancelled(&mut self, id: Id<'_>) -> bool {
        let Some(parts) = self.parts.as_mut().filter(|_| Calls::<T>::POSSIBLE) else {
            return false;
        };
        let number = self.config.dialect.id_scheme.read(id.json());
        parts.cancelled.remove(number, id.json().as_bytes())
    }

    /// Whether this id was generated for a call of ours, or would have been for a number that was
    /// used in another way: skipped, or given to a call whose caller chose the id.
    fn was_ours(&self, id: Id<'_>) -> bool {
        let number = || self.config.dialect.id_scheme.read(id.json());
        Calls::<T>::POSSIBLE
            && number().is_some_and(|number| self.calls.was_used(number, self.config.first_call))
    }

    /// Returns the calls that a response without id ends, if it ends any: an error, or on an
    /// exchange with one call also a result.
    pub(super) fn null_id_fanout(&mut self, response: &message::ResponseRef<'_>) -> Option<Rest> {
        if !Calls::<T>::POSSIBLE {
            return None;
        }
        let has_id = response
            .id
            .is_some_and(|id| !id.is_null() || self.calls.named(id).is_some());
        if has_id {
            return None;
        }
        let oldest = self.calls.oldest()?;
        let one = Rest::Fanout {
            low: oldest - 1,
            high: oldest,
        };
        let error = match &response.outcome {
            Outcome::Err(error) => error,
            // On an exchange with one open call, a result or a malformed error without an id can
            // only be the answer to that call.
            outcome if response.id.is_none() && self.is_meant_without_id(outcome) => {
                return Some(one);
            }
            _ => return None,
        };
        let all = Rest::Fanout {
            low: 0,
            high: self.calls.next() - 1,
        };
        if self.config.exchange && self.config.role == Role::Client {
            return Some(all);
        }
        match self.config.dialect.null_id_error {
            NullIdError::FailAll => Some(all),
            NullIdError::FailSole => self.sole_message(oldest),
            // An error about a size limit has no id, because the peer did not read that far. It is
            // about the last message, so it ends the calls of that, if no other calls are open.
            NullIdError::Report => self
                .sole_message(oldest)
                .filter(|_| error.is_over_limit())
                .filter(
                    |sole| matches!(sole, Rest::Fanout { high, .. } if self.is_last_sent(*high)),
                ),
        }
    }

    /// Returns the calls of the message in which all open calls were sent; `None` if they were sent
    /// in several messages.
    fn sole_message(&self, oldest: u64) -> Option<Rest> {
        let parts = self.parts.as_ref();
        let around = parts.map(|parts| parts.our_batches.around(oldest));
        let (first, last, inside) = around.unwrap_or((oldest, oldest, 1));
        (inside == self.calls.open()).then_some(Rest::Fanout {
            low: first - 1,
            high: last,
        })
    }

    /// Whether an outcome without id can only be the answer to the one call of this exchange.
    fn is_meant_without_id(&self, outcome: &Outcome<'_>) -> bool {
        let could_answer = match outcome {
            Outcome::Invalid(invalid) => invalid.reason == InvalidReason::ErrorShape,
            _ => true,
        };
        could_answer && self.calls.open() == 1 && message::settles_without_id(&self.config)
    }

    /// Whether this call was made last, part of it has been written, and no message was queued
    /// after it.
    fn is_last_sent(&self, number: u64) -> bool {
        number == self.calls.next() - 1
            && number <= self.outbox.begun_call()
            && self.outbox.ends_in_calls()
    }

    /// Ends one of the calls to which an error without id belongs.
    fn fan_out<'a>(
        &mut self,
        text: &'a [u8],
        flags: TextFlags,
        number: u64,
    ) -> Option<Event<'a, T>> {
        let envelope = *self.envelopes.first()?;
        let part = Text::part(text, &envelope, flags);
        let message = message::classify(part, &envelope, &self.config, false);
        let Message::Response(response) = message else {
            return None;
        };
        let (call, tag) = self.end_call(number, true)?;
        let origin = Some(Origin {
            bytes: text.len(),
            batch_index: None,
        });
        Some(Event::Response(ResponseRef {
            call,
            tag,
            outcome: response.outcome,
            origin,
        }))
    }

    #[cold]
    #[inline(never)]
    fn deliver_invalid<'a>(
        &mut self,
        text: &'a [u8],
        envelope: &Envelope,
        invalid: Invalid<'a>,
        origin: Origin,
        place: Option<Place>,
    ) -> Event<'a, T> {
        let item = item_text(text, envelope);
        // An object with the id of one of our calls is a malformed answer, not a malformed request.
        if invalid.reason == InvalidReason::Unrecognisable {
            let number = invalid.id.and_then(|id| self.find_call(id));
            if let Some((call, tag)) = number.and_then(|number| self.end_call(number, true)) {
                let broken = InvalidResponse {
                    reason: invalid.reason,
                    text: Text::part(text, envelope, TextFlags::UNKNOWN).json(envelope.span),
                };
                let outcome = Outcome::Invalid(broken);
                return Event::Response(ResponseRef {
                    call,
                    tag,
                    outcome,
                    origin: Some(origin),
                });
            }
        }
        let id = self.echoed(invalid.id);
        let echo = match self.config.dialect.invalid_request_id {
            InvalidRequestId::EchoIfReadable => id,
            InvalidRequestId::AlwaysNull => None,
        };
        let error = ErrorObject::invalid_request();
        let answered = match place {
            _ if self.config.role == Role::Client => None,
            Some(place) => {
                self.answer_item(place.batch, place.position, invalid.style, echo, &error);
                Some(error.code())
            }
            None => self.answer_fault(invalid.style, echo, &error),
        };
        let offset = invalid.offset.saturating_sub(envelope.span.range().start);
        let cause = MalformedCause::Call(invalid.reason);
        self.report_malformed(cause, item, offset, id, answered, origin)
    }
}

/// Returns the whole text of one item.
fn item_text<'a>(text: &'a [u8], envelope: &Envelope) -> &'a [u8] {
    text.get(envelope.span.range()).unwrap_or_default()
}

/// Returns the params member with the reason of a cancel (MCP).
fn cancel_reason<'a>(params: Option<Json<'a>>) -> Option<Json<'a>> {
    params.and_then(|params| params.get("reason"))
}
