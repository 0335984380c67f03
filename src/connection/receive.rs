//! Turns input into messages: cuts a frame, scans all of it, and ensures that all of it is
//! delivered or abandoned.
//!
//! The checks have one order: size, UTF-8 and JSON, top-level form, then each object. A whole
//! message is scanned before any of it is delivered.

use core::mem;

use super::Connection;
use super::parts::{Fate, Frame, Parts, Reading, Ready, Rest};
use crate::calls::Calls;
use crate::config::{Role, Settings};
use crate::deadlines::NEVER;
use crate::encode::Style;
use crate::error_object::ErrorObject;
use crate::event::{Closed, ConnectionError, Event, MalformedCause, Origin};
use crate::frame::{Cut, Framing, FramingError};
use crate::input::{Input, InputKind};
use crate::json::{self, Envelope, JsonKind, Scanned, Shape, SyntaxError, SyntaxErrorKind};
use crate::message::{self, Message, Text};

impl<T, S: Settings> Connection<T, S> {
    /// Returns the next event of the input; `None` when no whole message is left. `ready` is the
    /// work that the fast path has done already.
    pub(super) fn read<'a>(
        &mut self,
        input: &mut Input<'a>,
        mut ready: Ready<'a>,
    ) -> Option<Event<'a, T>> {
        let in_parts = self.reads_in_parts();
        if in_parts && !self.is_shown_again(input) {
            return None;
        }
        loop {
            if in_parts {
                let event = self.read_on(input);
                if event.is_some() {
                    return event;
                }
            }
            if !self.phase.is_steady() && self.ends_here() {
                return None;
            }
            let (frame, scanned) = match mem::replace(&mut ready, Ready::Nothing) {
                Ready::Scanned(frame, scanned) => (frame, scanned),
                other => {
                    let frame = match self.next_frame(input, other) {
                        Ok(frame) => frame,
                        Err(event) => return event,
                    };
                    let text = input.rest().get(frame.body.clone()).unwrap_or_default();
                    (frame, self.scan_apart(text))
                }
            };
            let event = self.read_frame(input, frame, scanned);
            if event.is_some() {
                return event;
            }
        }
    }

    /// Whether nothing more is read. A drain is completed only here, between two messages, so that
    /// it ends after the same message however the input was split.
    #[cold]
    #[inline(never)]
    fn ends_here(&mut self) -> bool {
        if self.phase.is_draining() && self.is_idle() {
            self.end(Closed::Drained);
        }
        self.phase.has_ended()
    }

    /// Validates a message, and stores the envelopes of its objects.
    #[inline(always)]
    pub(super) fn scan<'a>(&mut self, text: &'a [u8]) -> Result<Scanned<'a>, SyntaxError> {
        let max_items = self.config.limits.max_batch_items.max(1);
        json::scan(
            text,
            self.config.limits.max_depth,
            &mut self.envelopes,
            max_items,
        )
    }

    /// Scans a text as [`scan`](Self::scan) does, but is never inlined.
    #[inline(never)]
    pub(super) fn scan_apart<'a>(&mut self, text: &'a [u8]) -> Result<Scanned<'a>, SyntaxError> {
        self.scan(text)
    }

    /// Returns the next frame of the input; or, if there is none, the event to return instead.
    #[expect(
        clippy::result_large_err,
        reason = "an event is large; the caller only returns it"
    )]
    fn next_frame<'a>(
        &mut self,
        input: &mut Input<'a>,
        ready: Ready<'a>,
    ) -> Result<Frame, Option<Event<'a, T>>> {
        let rest = input.rest();
        let cut = match (input.kind(), ready) {
            (InputKind::Message, _) if rest.len() > self.config.limits.max_message_bytes => {
                input.take_message();
                return Err(Some(self.refuse_oversize(Some(rest.len() as u64))));
            }
            (InputKind::Message, _) => return Ok(Frame::whole(rest.len())),
            (InputKind::Oversize(bytes), _) => {
                input.take_message();
                return Err(Some(self.refuse_oversize(Some(bytes))));
            }
            (InputKind::Stream, Ready::Cut(cut)) => cut,
            (InputKind::Stream, _) => self.cut(rest),
        };
        match cut {
            Ok(Cut::Frame {
                body,
                taken,
                unterminated,
            }) => {
                // The next frame is another message, with its own time limit.
                self.deadlines.frame = NEVER;
                Ok(Frame {
                    body,
                    taken,
                    unterminated,
                })
            }
            Ok(Cut::Oversize { bytes, taken }) => {
                if !self.cutter.is_mid_frame(S::FRAMING) {
                    self.deadlines.frame = NEVER;
                }
                input.take(taken);
                Err(Some(self.refuse_oversize(bytes)))
            }
            Ok(Cut::Incomplete { taken }) => {
                self.await_more(input, taken);
                if self.phase.is_at_end() {
                    self.fail(ConnectionError::Truncated);
                }
                Err(None)
            }
            Ok(Cut::End { taken }) => {
                input.take(taken);
                self.end(Closed::EndOfInput);
                Err(None)
            }
            Err(error) => {
                self.fail(match error {
                    FramingError::Truncated { .. } => ConnectionError::Truncated,
                    error => ConnectionError::Framing(error),
                });
                Err(None)
            }
        }
    }

    /// Takes the bytes before an unfinished frame: blanks, or the end of a skipped frame. A frame
    /// after them has just begun, with its own time limit.
    #[inline]
    pub(super) fn await_more(&mut self, input: &mut Input<'_>, taken: usize) {
        if taken > 0 && taken < input.rest().len() {
            self.deadlines.frame = NEVER;
        }
        input.take(taken);
    }

    /// Cuts the next frame out of a stream. If the peer's framing has just been detected, output is
    /// written in it from now on, even the answer to a frame that is too large.
    #[inline]
    pub(super) fn cut(&mut self, rest: &[u8]) -> Result<Cut, FramingError> {
        let limits = self.config.frame_limits();
        let cut = self
            .cutter
            .cut(S::FRAMING, limits, rest, self.phase.is_at_end());
        if self.config.framing == Framing::Detect {
            self.outbox.set_framing(self.cutter.framing());
        }
        cut
    }

    /// Reads one frame: delivers a message, or prepares a batch for delivery.
    fn read_frame<'a>(
        &mut self,
        input: &mut Input<'a>,
        frame: Frame,
        scanned: Result<Scanned<'a>, SyntaxError>,
    ) -> Option<Event<'a, T>> {
        let text = input.rest().get(frame.body.clone()).unwrap_or_default();
        let scanned = match scanned {
            Ok(scanned) => scanned,
            Err(error) => return self.reject_text(input, text, error, frame),
        };
        let whole = Text::whole(scanned.text, scanned.flags);
        match scanned.shape {
            Shape::Single => self.read_single(input, text, whole, frame),
            Shape::Batch { items } => self.read_batch(input, text, items, whole, frame),
        }
    }

    /// Reads a message that is not a batch.
    fn read_single<'a>(
        &mut self,
        input: &mut Input<'a>,
        text: &'a [u8],
        whole: Text<'a>,
        frame: Frame,
    ) -> Option<Event<'a, T>> {
        let envelope = *self.envelopes.first()?;
        if self.is_empty_reply(&envelope) {
            self.consume(input, frame.taken);
            return None;
        }
        let origin = Origin {
            bytes: text.len(),
            batch_index: None,
        };
        let message = message::classify(whole, &envelope, &self.config, false);
        if let Message::Response(response) = &message {
            if let Some(fanout) = self.null_id_fanout(response) {
                self.read_in_parts(frame.reading(input, whole, fanout));
                return None;
            }
        }
        self.consume(input, frame.taken);
        Some(self.deliver(text, &envelope, message, origin, None))
    }

    /// Prepares a batch for delivery, or refuses it as a whole.
    #[inline(never)]
    fn read_batch<'a>(
        &mut self,
        input: &mut Input<'a>,
        text: &'a [u8],
        items: usize,
        whole: Text<'a>,
        frame: Frame,
    ) -> Option<Event<'a, T>> {
        if let Some(event) = self.reject_batch(text, items, whole) {
            self.consume(input, frame.taken);
            return event;
        }
        let batch = self.open_batch(whole);
        let items = Rest::Items { next: 0, batch };
        self.read_in_parts(frame.reading(input, whole, items));
        None
    }

    /// Answers a text that is not JSON, or ends the connection if the end of the input has cut the
    /// text short.
    #[cold]
    #[inline(never)]
    fn reject_text<'a>(
        &mut self,
        input: &mut Input<'a>,
        text: &'a [u8],
        error: SyntaxError,
        frame: Frame,
    ) -> Option<Event<'a, T>> {
        self.consume(input, frame.taken);
        if frame.unterminated {
            self.fail(ConnectionError::Truncated);
            return None;
        }
        self.reject_syntax(text, error)
    }

    /// Consumes a whole frame or message.
    pub(super) fn consume(&mut self, input: &mut Input<'_>, taken: usize) {
        match input.kind() {
            InputKind::Stream => input.take(taken),
            _ => input.take_message(),
        }
    }

    /// Whether a message is `null` and comes to the client of an exchange, for which it means that
    /// there is no answer.
    fn is_empty_reply(&self, envelope: &Envelope) -> bool {
        self.config.exchange && self.config.role == Role::Client && envelope.kind == JsonKind::Null
    }

    /// Answers a text that is not JSON, and reports it. Blank text is no fault if it comes to the
    /// client of an exchange.
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

    /// Whether reading may go on. It may not if a message is partly delivered, and a stream that
    /// has not ended is shorter than that message: the driver has to pass all of it again. If
    /// `input` has another message instead, or is shorter and has ended, the rest of the old
    /// message is abandoned, and reading goes on.
    fn is_shown_again(&mut self, input: &mut Input<'_>) -> bool {
        let reading = self.parts.as_ref().and_then(|parts| parts.reading.as_ref());
        let Some(reading) = reading else {
            return true;
        };
        let is_message = input.kind() != InputKind::Stream;
        if !is_message && input.rest().len() < reading.taken && !self.phase.is_at_end() {
            return false;
        }
        if reading.shown_by(input).is_none() {
            self.abandon_reading();
        }
        true
    }

    /// Goes on after an item that has been delivered.
    pub(super) fn pass_item(&mut self) {
        let parts = self.parts.as_mut();
        let reading = parts.and_then(|parts| parts.reading.as_mut());
        if let Some(Reading {
            rest: Rest::Items { next, .. },
            ..
        }) = reading
        {
            *next += 1;
        }
    }

    /// Begins to deliver a message that makes more than one event.
    fn read_in_parts(&mut self, reading: Reading) {
        Parts::of(&mut self.parts).reading = Some(reading);
    }

    /// Whether part of a message is still to be delivered.
    #[inline]
    pub(super) fn is_reading(&self) -> bool {
        match &self.parts {
            Some(parts) => self.reads_in_parts() && parts.reading.is_some(),
            None => false,
        }
    }

    /// Ends the delivery of a message in parts.
    pub(super) fn take_reading(&mut self) -> Option<Reading> {
        self.parts.as_mut()?.reading.take()
    }

    /// Whether a message may make more than one event: a batch, or an error that ends several
    /// calls. If neither is possible, the compiler leaves out the code for it.
    #[inline]
    pub(super) fn reads_in_parts(&self) -> bool {
        S::BATCHES || Calls::<T>::POSSIBLE
    }

    /// Drops the rest of a partly delivered message. Its requests that were not delivered are
    /// answered −32603, or what `failures` say.
    pub(super) fn abandon_reading(&mut self) {
        if !self.reads_in_parts() {
            return;
        }
        let Some(reading) = self.take_reading() else {
            return;
        };
        let Rest::Items { next, batch } = reading.rest else {
            return;
        };
        for position in next.. {
            let fates = self.parts.as_ref().map(|parts| &parts.fates);
            let slot = match fates.and_then(|fates| fates.get(position)) {
                Some(&Fate::Request { slot }) => slot,
                Some(_) => continue,
                None => break,
            };
            let error = self.config.dialect.failures.error();
            self.end_item(batch, position as u32, slot, Some(&error));
        }
        self.release_batch(batch);
    }
}
