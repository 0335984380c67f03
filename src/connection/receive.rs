//! Input to messages: cut a frame, scan it whole, and open what it asks for before anything of it
//! is delivered.
//!
//! The rule guarded here: checks happen in one order — size, UTF-8 and JSON, top-level shape, then
//! each object — and a batch is checked whole first, so that a cancel in it comes before the
//! request it cancels, wherever the two stand.

use alloc::vec::Vec;
use core::ops::Range;

use super::deliver::Place;
use super::{Connection, Fate, Reading, Rest};
use crate::batches::Batches;
use crate::codes;
use crate::config::{LimitErrors, Role};
use crate::deadlines::NEVER;
use crate::encode::{self, Style};
use crate::error_object::ErrorObject;
use crate::event::{
    Closed, ConnectionError, Event, InvalidReason, Malformed, MalformedCause, Origin, Refused,
    RefusedCause,
};
use crate::frame::{Cut, Framing, FramingError};
use crate::id::Id;
use crate::input::{Input, InputKind};
use crate::json::{self, Envelope, JsonKind, OwnedJson, Shape, SyntaxError, SyntaxErrorKind};
use crate::message::{self, Call, CallKind, Message};

impl<T> Connection<T> {
    /// The next event that the input holds; none when no whole message is left.
    pub(super) fn read<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        if self.reading.is_some() && !self.is_shown_again(input) {
            return None;
        }
        loop {
            if self.reading.is_some() {
                if let Some(event) = self.read_on(input) {
                    return Some(event);
                }
            }
            if self.ended.is_some() {
                return None;
            }
            let rest = input.rest();
            let (body, taken, unterminated) = match input.kind() {
                InputKind::Message if rest.len() > self.config.message_bytes_max => {
                    input.take_message();
                    return Some(self.refuse_oversize(Some(rest.len() as u64)));
                }
                InputKind::Message => (0..rest.len(), rest.len(), false),
                InputKind::Oversize(bytes) => {
                    input.take_message();
                    return Some(self.refuse_oversize(Some(bytes)));
                }
                InputKind::Stream => match self.cut(rest) {
                    Ok(Cut::Frame {
                        body,
                        taken,
                        unterminated,
                    }) => {
                        // What comes next is another message, with a time of its own.
                        self.deadlines.frame = NEVER;
                        (body, taken, unterminated)
                    }
                    Ok(Cut::Oversize { bytes, taken }) => {
                        if !self.framer.is_inside_frame() {
                            self.deadlines.frame = NEVER;
                        }
                        input.take(taken);
                        return Some(self.refuse_oversize(bytes));
                    }
                    Ok(Cut::Incomplete { taken }) => {
                        input.take(taken);
                        if self.at_end {
                            self.fail(ConnectionError::Truncated);
                        }
                        return None;
                    }
                    Ok(Cut::End { taken }) => {
                        input.take(taken);
                        self.end(Closed::EndOfInput);
                        return None;
                    }
                    Err(error) => {
                        self.fail(match error {
                            FramingError::Truncated { .. } => ConnectionError::Truncated,
                            error => ConnectionError::Framing(error),
                        });
                        return None;
                    }
                },
            };
            if let Some(event) = self.read_frame(input, body, taken, unterminated) {
                return Some(event);
            }
        }
    }

    /// Cuts the next frame out of a stream. What the peer's framing turns out to be is written from
    /// then on, also in the answer to a frame that is too large.
    fn cut(&mut self, rest: &[u8]) -> Result<Cut, FramingError> {
        let cut = self.framer.cut(rest, self.at_end);
        if self.config.framing == Framing::Detect {
            self.outbox.set_framing(self.framer.framing());
        }
        cut
    }

    /// Reads one frame: delivers a message, or prepares a batch for delivery.
    fn read_frame<'a>(
        &mut self,
        input: &mut Input<'a>,
        body: Range<usize>,
        taken: usize,
        unterminated: bool,
    ) -> Option<Event<'a, T>> {
        let rest = input.rest();
        let text = rest.get(body.clone()).unwrap_or_default();
        let items_max = self.config.batch_items_max.max(1);
        let scanned = json::scan(text, self.config.depth_max, &mut self.envelopes, items_max);
        let scanned = match scanned {
            Ok(scanned) => scanned,
            Err(_) if unterminated => {
                self.consume(input, taken);
                self.fail(ConnectionError::Truncated);
                return None;
            }
            Err(error) => {
                self.consume(input, taken);
                return self.reject_syntax(text, error);
            }
        };
        let line_breaks = scanned.line_breaks;
        let reading = |what: Rest| Reading {
            body,
            taken,
            fingerprint: fingerprint(rest, taken),
            line_breaks,
            rest: what,
        };
        match scanned.shape {
            Shape::Single => {
                let envelope = *self.envelopes.first()?;
                if self.is_empty_reply(&envelope) {
                    self.consume(input, taken);
                    return None;
                }
                let message = message::classify(text, &envelope, line_breaks, &self.config, false);
                if let Message::Response(response) = &message {
                    if let Some(fanout) = self.null_id_fanout(response) {
                        self.reading = Some(reading(fanout));
                        return None;
                    }
                }
                self.consume(input, taken);
                let origin = Origin {
                    bytes: text.len(),
                    batch_index: None,
                };
                self.deliver_single(text, message, origin)
            }
            Shape::Batch { items } => {
                if let Some(event) = self.reject_batch(text, items, line_breaks) {
                    self.consume(input, taken);
                    return event;
                }
                let batch = self.open_batch(text, line_breaks);
                self.reading = Some(reading(Rest::Items { next: 0, batch }));
                None
            }
        }
    }

    /// Takes a whole frame or message.
    pub(super) fn consume(&mut self, input: &mut Input<'_>, taken: usize) {
        match input.kind() {
            InputKind::Stream => input.take(taken),
            _ => input.take_message(),
        }
    }

    /// Whether a blank, null or empty answer ends a client's exchange without one.
    fn is_empty_reply(&self, envelope: &Envelope) -> bool {
        self.config.exchange && self.config.role == Role::Client && envelope.kind == JsonKind::Null
    }

    fn reject_syntax<'a>(&mut self, text: &'a [u8], error: SyntaxError) -> Option<Event<'a, T>> {
        let empty_reply = self.config.exchange && self.config.role == Role::Client;
        if empty_reply && error.kind() == SyntaxErrorKind::Empty {
            return None;
        }
        let answered = self.answer_fault(Style::V2, None, &ErrorObject::parse_error());
        let origin = Origin {
            bytes: text.len(),
            batch_index: None,
        };
        Some(self.report_malformed(
            MalformedCause::Syntax(error),
            text,
            error.offset(),
            None,
            answered,
            origin,
        ))
    }

    /// A batch that is refused as a whole. `Some(None)` swallows it.
    fn reject_batch<'a>(
        &mut self,
        text: &'a [u8],
        items: usize,
        line_breaks: bool,
    ) -> Option<Option<Event<'a, T>>> {
        let reason = match items {
            0 if self.config.exchange && self.config.role == Role::Client => return Some(None),
            0 => InvalidReason::EmptyBatch,
            _ if !self.config.batches => InvalidReason::BatchesOff,
            _ if items > self.config.batch_items_max => {
                return Some(Some(self.refuse_batch(text, items, line_breaks)));
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

    /// The id of the first request among the items that were scanned.
    fn first_request_id<'a>(&self, text: &'a [u8], line_breaks: bool) -> Option<Id<'a>> {
        self.envelopes.iter().find_map(|envelope| {
            match message::classify(text, envelope, line_breaks, &self.config, true) {
                Message::Call(call) => match call.kind {
                    CallKind::Request(id) => Some(id),
                    _ => None,
                },
                _ => None,
            }
        })
    }

    fn refuse_batch<'a>(
        &mut self,
        text: &'a [u8],
        items: usize,
        line_breaks: bool,
    ) -> Event<'a, T> {
        let items_max = self.config.batch_items_max;
        // Only the first items are known. A batch of answers is never answered; any other is, for
        // somebody may wait for it.
        let is_answers = self.envelopes.iter().all(|envelope| {
            envelope.method.is_none() && (envelope.result.is_some() || envelope.error.is_some())
        });
        let sentence = alloc::format!("A batch may have at most {items_max} items");
        let standard = OwnedJson::from_value(sentence.as_str()).ok();
        let standard = || match &standard {
            Some(data) => ErrorObject::invalid_request().with_data(data.as_json()),
            None => ErrorObject::invalid_request(),
        };
        let answered = match self.config.limit_errors {
            _ if is_answers => None,
            LimitErrors::Dedicated => {
                self.answer_fault(Style::V2, None, &ErrorObject::batch_too_large(items_max))
            }
            LimitErrors::Standard => self.answer_fault(Style::V2, None, &standard()),
            LimitErrors::FirstCall if self.config.role == Role::Client => None,
            LimitErrors::FirstCall => {
                let id = self.first_request_id(text, line_breaks);
                let id = self.echoed(id).unwrap_or(Id::NULL).json().as_bytes();
                self.queue_reply(256, |out| {
                    out.push(b'[');
                    encode::failure(out, Style::V2, Some(id), &standard());
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

    fn refuse_oversize<'a>(&mut self, bytes: Option<u64>) -> Event<'a, T> {
        let bytes_max = self.config.message_bytes_max;
        let answered = match self.config.limit_errors {
            LimitErrors::Dedicated => {
                self.answer_fault(Style::V2, None, &ErrorObject::request_too_large(bytes_max))
            }
            LimitErrors::Standard | LimitErrors::FirstCall => {
                let sentence = alloc::format!("A message may have at most {bytes_max} bytes");
                match OwnedJson::from_value(sentence.as_str()) {
                    Ok(data) => {
                        let error = ErrorObject::invalid_request().with_data(data.as_json());
                        self.answer_fault(Style::V2, None, &error)
                    }
                    Err(_) => self.answer_fault(Style::V2, None, &ErrorObject::invalid_request()),
                }
            }
        };
        Event::Refused(Refused {
            cause: RefusedCause::TooLarge { bytes },
            method: None,
            id: None,
            answered,
            origin: Origin {
                bytes: bytes.map_or(bytes_max, |bytes| bytes as usize),
                batch_index: None,
            },
        })
    }

    /// Decides for every item of a batch what is to become of it, and opens its requests.
    fn open_batch(&mut self, text: &[u8], line_breaks: bool) -> u32 {
        self.fates.clear();
        let batch = self.batches.begin();
        let mut has_cancels = false;
        for position in 0..self.envelopes.len() {
            let envelope = self.envelopes[position];
            let mut fate = Fate::Deliver;
            if envelope.kind == JsonKind::Object && envelope.method.is_some() {
                let message = message::classify(text, &envelope, line_breaks, &self.config, true);
                if let Message::Call(call) = message {
                    has_cancels |= self.is_cancel(&call);
                    fate = self.open_item(&call, batch, position as u32);
                }
            }
            self.fates.push(fate);
        }
        if has_cancels {
            self.cancel_within(text, line_breaks, batch);
        }
        batch
    }

    fn open_item(&mut self, call: &Call<'_>, batch: u32, position: u32) -> Fate {
        let CallKind::Request(id) = call.kind else {
            return Fate::Deliver;
        };
        if self.is_cancel(call) {
            return Fate::Deliver;
        }
        if let Some(cause) = self.over_limit(call) {
            let error = self.limit_error(cause);
            let id = self.echoed(Some(id));
            let answered = Some(error.code());
            self.answer_item(batch, position, call.style, id, &error);
            return Fate::Refused { cause, answered };
        }
        let (slot, _) = self.requests.insert(id, call.style, batch, position);
        self.batches.retain(batch);
        Fate::Request { slot }
    }

    /// Applies the cancels of a batch to requests of the same batch, before any is delivered.
    fn cancel_within(&mut self, text: &[u8], line_breaks: bool, batch: u32) {
        for position in 0..self.envelopes.len() {
            let envelope = self.envelopes[position];
            if envelope.kind != JsonKind::Object || envelope.method.is_none() {
                continue;
            }
            let message = message::classify(text, &envelope, line_breaks, &self.config, true);
            let Message::Call(call) = message else {
                continue;
            };
            if !self.is_cancel(&call) {
                continue;
            }
            let Some(slot) = self.cancel_target(&call) else {
                continue;
            };
            let same = self
                .fates
                .iter()
                .position(|fate| *fate == Fate::Request { slot });
            let Some(target) = same else { continue };
            let error = self.config.cancel_answer.code().map(ErrorObject::of);
            self.end_item(batch, target as u32, slot, error.as_ref());
            self.fates[target] = Fate::Done;
            // The cancel has had its effect. One with an id asks for an answer besides.
            self.fates[position] = Fate::Done;
            if let CallKind::Request(id) = call.kind {
                let position = position as u32;
                self.answer_null(call.style, id, Some(Place { batch, position }));
            }
        }
    }

    /// The limit that a call meets, if any. For a notification that is only the method's length.
    pub(super) fn over_limit(&self, call: &Call<'_>) -> Option<RefusedCause> {
        let method_bytes = call.method.len().saturating_sub(2);
        if method_bytes > self.config.method_bytes_max {
            return Some(RefusedCause::MethodTooLong);
        }
        let CallKind::Request(id) = call.kind else {
            return None;
        };
        if id.text().len() > self.config.id_bytes_max {
            return Some(RefusedCause::IdTooLong);
        }
        if id.is_null() && !self.config.null_ids {
            return Some(RefusedCause::NullId);
        }
        if self.draining {
            return Some(RefusedCause::Draining);
        }
        if self.requests.open() >= self.config.requests_max {
            return Some(RefusedCause::Busy);
        }
        let rejects = self.config.duplicate_ids == crate::DuplicateIds::Reject;
        (rejects && self.requests.find(id).is_some()).then_some(RefusedCause::RepeatedId)
    }

    /// What a request over a limit is answered.
    pub(super) fn limit_error(&self, cause: RefusedCause) -> ErrorObject<'static> {
        match cause {
            RefusedCause::Busy => ErrorObject::new(self.config.error_profile.busy(), "Server busy"),
            RefusedCause::Draining => {
                ErrorObject::new(self.config.error_profile.unavailable(), "Server busy")
            }
            _ => ErrorObject::invalid_request(),
        }
    }

    /// The id to put into an error: the request's, unless it is too long to be echoed, or null
    /// where null is no id.
    pub(super) fn echoed<'i>(&self, id: Option<Id<'i>>) -> Option<Id<'i>> {
        id.filter(|id| id.text().len() <= self.config.id_bytes_max)
            .filter(|id| self.config.null_ids || !id.is_null())
    }

    /// Answers something that was no valid call, unless this side only calls. Gives the code.
    pub(super) fn answer_fault(
        &mut self,
        style: Style,
        id: Option<Id<'_>>,
        error: &ErrorObject<'_>,
    ) -> Option<i64> {
        if self.config.role == Role::Client {
            return None;
        }
        self.answer_error(style, id, error);
        Some(error.code())
    }

    /// Queues an error that the core itself answers.
    pub(super) fn answer_error(
        &mut self,
        style: Style,
        id: Option<Id<'_>>,
        error: &ErrorObject<'_>,
    ) {
        let id = self.written_id(style, id);
        self.queue_reply(128, |out| encode::failure(out, style, id, error));
    }

    /// Queues an answer that the core itself gives. It passes every limit but the output's last.
    pub(super) fn queue_reply(&mut self, hint: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let frame = self.outbox.begin(hint);
        let start = self.outbox.body().len();
        write(self.outbox.body());
        if self.config.escape_braces {
            encode::escape_braces(self.outbox.body(), start);
        }
        self.outbox.commit(frame, None);
        self.after_reply();
    }

    /// Puts an error that the core itself answers into its place in a batch.
    pub(super) fn answer_item(
        &mut self,
        batch: u32,
        position: u32,
        style: Style,
        id: Option<Id<'_>>,
        error: &ErrorObject<'_>,
    ) {
        let id = self.written_id(style, id);
        add_failure(&mut self.batches, batch, position, style, id, error);
    }

    fn written_id<'i>(&self, style: Style, id: Option<Id<'i>>) -> Option<&'i [u8]> {
        match id {
            Some(id) => Some(id.json().as_bytes()),
            None if style == Style::V2 && self.config.unknown_id == crate::UnknownId::Omit => None,
            None => Some(b"null"),
        }
    }

    /// Reports a malformed message, and counts it.
    pub(super) fn report_malformed<'a>(
        &mut self,
        cause: MalformedCause,
        text: &'a [u8],
        offset: usize,
        id: Option<Id<'a>>,
        answered: Option<i64>,
        origin: Origin,
    ) -> Event<'a, T> {
        self.malformed += 1;
        if self.malformed > self.config.malformed_max {
            self.fail(ConnectionError::TooManyMalformed);
        }
        Event::Malformed(Malformed {
            cause,
            text,
            offset,
            id,
            answered,
            origin,
        })
    }

    /// Whether reading may go on: with the message that is half delivered, if `input` shows it, or
    /// with another one, for whose sake the rest of the old one is given up. At the end of input
    /// nothing will show it again. False for a stream that shows less than the message.
    fn is_shown_again(&mut self, input: &Input<'_>) -> bool {
        let Some(reading) = &self.reading else {
            return true;
        };
        let rest = input.rest();
        let is_message = input.kind() != InputKind::Stream;
        if !is_message && rest.len() < reading.taken && !self.at_end {
            return false;
        }
        if rest.len() < reading.taken || fingerprint(rest, reading.taken) != reading.fingerprint {
            self.abandon_reading();
        }
        true
    }

    /// Gives up what is left of a half-delivered message: requests that were never delivered are
    /// answered −32603.
    pub(super) fn abandon_reading(&mut self) {
        let Some(reading) = self.reading.take() else {
            return;
        };
        let Rest::Items { next, batch } = reading.rest else {
            return;
        };
        for position in next..self.fates.len() {
            let Fate::Request { slot } = self.fates[position] else {
                continue;
            };
            let error = ErrorObject::internal_error();
            self.end_item(batch, position as u32, slot, Some(&error));
        }
        self.release_batch(batch);
        self.watch_write();
    }

    /// Ends a request of a batch that was not delivered, with an error or silently. The batch
    /// itself goes on: it is still being read.
    fn end_item(&mut self, batch: u32, position: u32, slot: u32, error: Option<&ErrorObject<'_>>) {
        let request = self.requests.get(slot, self.requests.generation(slot));
        if let (Some(request), Some(error)) = (request, error) {
            let (id, style) = (Some(request.id()), request.style);
            add_failure(&mut self.batches, batch, position, style, id, error);
        }
        self.requests.remove(slot);
        self.batches.release(batch);
    }
}

/// Puts an error into its place in a batch. It always fits: the budget is for results.
fn add_failure(
    batches: &mut Batches,
    batch: u32,
    position: u32,
    style: Style,
    id: Option<&[u8]>,
    error: &ErrorObject<'_>,
) {
    let _ = batches.add(batch, position, usize::MAX, |out| {
        encode::failure(out, style, id, error);
        Ok::<(), core::convert::Infallible>(())
    });
}

/// Tells one message from another by its length and its first and last bytes.
fn fingerprint(rest: &[u8], taken: usize) -> u64 {
    const SAMPLE: usize = 64;
    let text = rest.get(..taken).unwrap_or(rest);
    let head = text.iter().take(SAMPLE);
    let tail = text.iter().rev().take(SAMPLE);
    let seed = 0xcbf2_9ce4_8422_2325 ^ taken as u64;
    head.chain(tail).fold(seed, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

impl<T> Connection<T> {
    /// Whether a call gives another request up.
    pub(super) fn is_cancel(&self, call: &Call<'_>) -> bool {
        let Some((method, _)) = self.config.cancel_receive.names() else {
            return false;
        };
        call.method
            .as_string()
            .is_some_and(|name| name.eq_str(method))
    }

    /// The slot of the open request that a cancel is for.
    pub(super) fn cancel_target(&self, call: &Call<'_>) -> Option<u32> {
        let (_, member) = self.config.cancel_receive.names()?;
        let id = call
            .params
            .and_then(|params| params.get(member))
            .and_then(Id::new)?;
        self.requests
            .find_wanted(id)
            .or_else(|| match self.config.cancel_match {
                crate::CancelMatch::Exact => None,
                crate::CancelMatch::ExactThenText => self.requests.find_text(id),
            })
    }
}
