//! Input to messages: cut a frame, scan it whole, and see that all of it is delivered or given up.
//!
//! The rule guarded here: checks happen in one order — size, UTF-8 and JSON, top-level shape, then
//! each object — and a message is scanned whole before anything of it is delivered.

use core::ops::Range;

use super::{Connection, Fate, Reading, Rest};
use crate::config::Role;
use crate::deadlines::NEVER;
use crate::encode::Style;
use crate::error_object::ErrorObject;
use crate::event::{Closed, ConnectionError, Event, MalformedCause, Origin};
use crate::frame::{Cut, Framing, FramingError};
use crate::input::{Input, InputKind};
use crate::json::{self, Envelope, JsonKind, Shape, SyntaxError, SyntaxErrorKind};
use crate::message::{self, Message};

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
