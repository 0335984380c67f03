//! A fast path for the most common messages, from the scanned text to the event in one step.
//!
//! These are: a request or notification of version 2.0, alone or in a batch, that repeats no
//! member, has no escapes in its method, is not a cancel and is within its limits; and a valid
//! answer to an open call. Any other message is left unchanged to `classify` and `deliver`.
//!
//! It makes no decision of its own: if it returns an event, the general code returns the same event
//! (the tests compare them), and in case of doubt it returns none.
//!
//! Forced inlining, here and in `receive`, `settle`, `message`, `id::scheme`, `requests` and
//! `calls`, makes one function of this path, which builds the event in its caller's memory. Without
//! it a small request takes 17 % more instructions and a small answer 20 %
//! (`benches/instructions/run.py`: `receive 01` and `receive 04`).

use super::Connection;
use super::deliver::item_of;
use super::parts::{Fate, Frame, Parts, Ready, Rest};
use crate::config::{DuplicateIds, Settings};
use crate::deadlines::NEVER;
use crate::encode::Style;
use crate::event::{Event, NotificationRef, Origin, Outcome, RequestRef, ResponseRef};
use crate::frame::Cut;
use crate::id::Id;
use crate::input::{Input, InputKind};
use crate::json::{Envelope, Scanned, Shape};
use crate::message::{PlainCall, Text, is_plain, plain_answer_id, plain_error, plain_result};
use crate::requests::NONE;
use crate::target::rare;

impl<T, S: Settings> Connection<T, S> {
    /// Returns the next event, if it comes from a plain message; otherwise the work that
    /// [`read`](Self::read) need not do again.
    #[inline(always)]
    pub(super) fn poll_plain<'a>(
        &mut self,
        input: &mut Input<'a>,
    ) -> Result<Event<'a, T>, Ready<'a>> {
        if self.building.is_some() || !self.phase.is_steady() {
            rare();
            return Err(Ready::Nothing);
        }
        if self.is_reading() {
            return self.plain_item(input).ok_or(Ready::Nothing);
        }
        let rest = input.rest();
        let guess = match input.kind() {
            InputKind::Stream if self.cutter.may_guess(S::FRAMING) => self.scan_guess(rest),
            _ => None,
        };
        let (frame, scanned) = match guess {
            Some(guessed) => guessed,
            None => {
                let frame = match input.kind() {
                    InputKind::Message if rest.len() <= self.config.limits.max_message_bytes => {
                        Frame::whole(rest.len())
                    }
                    InputKind::Stream if rest.is_empty() && !self.phase.is_at_end() => {
                        return Err(Ready::Drained);
                    }
                    InputKind::Stream => match self.whole_frame(rest) {
                        Some(frame) => frame,
                        None => match self.cut(rest) {
                            Ok(Cut::Frame {
                                body,
                                taken,
                                unterminated: false,
                            }) => {
                                self.deadlines.frame = NEVER;
                                Frame::terminated(body, taken)
                            }
                            Ok(Cut::Incomplete { taken }) if !self.phase.is_at_end() => {
                                self.await_more(input, taken);
                                return Err(Ready::Drained);
                            }
                            other => {
                                rare();
                                return Err(Ready::Cut(other));
                            }
                        },
                    },
                    _ => {
                        rare();
                        return Err(Ready::Nothing);
                    }
                };
                let text = rest.get(frame.body.clone()).unwrap_or_default();
                match self.scan(text) {
                    Ok(scanned) if scanned.shape == Shape::Single => (frame, scanned),
                    other => {
                        rare();
                        return Err(Ready::Scanned(frame, other));
                    }
                }
            }
        };
        let whole = Text::whole(scanned.text, scanned.flags);
        let origin = Origin {
            bytes: frame.body.len(),
            batch_index: None,
        };
        let is_call = match self.envelopes.first() {
            Some(envelope) if is_plain(envelope, &self.config) => envelope.method().is_some(),
            _ => {
                rare();
                return Err(Ready::Scanned(frame, Ok(scanned)));
            }
        };
        if is_call {
            if let Some(PlainCall { method, params, id }) = self.plain_call(whole) {
                let method = method.into();
                self.consume(input, frame.taken);
                let Some(id) = id else {
                    return Ok(Event::Notification(NotificationRef {
                        method,
                        params,
                        origin,
                    }));
                };
                let (slot, generation) = self.requests.insert(id, Style::V2, NONE, 0);
                return Ok(Event::Request(RequestRef {
                    method,
                    params,
                    id,
                    token: self.token(slot, generation),
                    origin,
                }));
            }
        } else if let Some((number, outcome)) = self.plain_response(whole, 0) {
            if let Some((call, tag)) = self.end_call(number, true) {
                self.consume(input, frame.taken);
                return Ok(Event::Response(ResponseRef {
                    call,
                    tag,
                    outcome,
                    origin: Some(origin),
                }));
            }
        }
        rare();
        Err(Ready::Scanned(frame, Ok(scanned)))
    }

    /// Returns the next item of the batch that is being read, if it is plain. The last item is left
    /// to the general code, because delivering it also ends the batch.
    #[inline]
    fn plain_item<'a>(&mut self, input: &mut Input<'a>) -> Option<Event<'a, T>> {
        let Parts { reading, fates, .. } = self.parts.as_deref_mut()?;
        let reading = reading.as_mut()?;
        let message = reading.shown_by(input)?;
        let flags = reading.flags;
        let Rest::Items { next, .. } = &mut reading.rest else {
            return None;
        };
        let (position, after) = (*next, *next + 1);
        let fate = *fates.get(position)?;
        let envelope = self.envelopes.get(position)?;
        if after >= fates.len() || !is_plain(envelope, &self.config) {
            return None;
        }
        let (text, origin) = item_of(message, envelope, flags, position);
        match fate {
            Fate::Request { slot } => {
                let generation = self.requests.at(slot)?.generation();
                let PlainCall { method, params, id } = PlainCall::read(text, envelope)?;
                let id = id?;
                *next = after;
                Some(Event::Request(RequestRef {
                    method: method.into(),
                    params,
                    id,
                    token: self.token(slot, generation),
                    origin,
                }))
            }
            Fate::Notification => {
                let PlainCall { method, params, .. } = PlainCall::read(text, envelope)?;
                *next = after;
                Some(Event::Notification(NotificationRef {
                    method: method.into(),
                    params,
                    origin,
                }))
            }
            Fate::Deliver if envelope.method().is_none() => {
                let (number, outcome) = self.plain_response(text, position)?;
                let (call, tag) = self.end_call(number, true)?;
                self.pass_item();
                Some(Event::Response(ResponseRef {
                    call,
                    tag,
                    outcome,
                    origin: Some(origin),
                }))
            }
            _ => None,
        }
    }

    /// Returns the frame at the beginning of a stream, if it is complete and in the most common
    /// form.
    #[inline]
    fn whole_frame(&mut self, rest: &[u8]) -> Option<Frame> {
        let limits = self.config.frame_limits();
        let (body, taken) = self.cutter.whole(S::FRAMING, limits, rest)?;
        self.deadlines.frame = NEVER;
        Some(Frame::terminated(body, taken))
    }

    /// Returns the message that the framing guesses, if it is a whole value.
    #[inline]
    fn scan_guess<'a>(&mut self, rest: &'a [u8]) -> Option<(Frame, Scanned<'a>)> {
        let body = self.cutter.guess(self.config.frame_limits(), rest)?;
        let text = rest.get(body.clone()).unwrap_or_default();
        let scanned = self.scan_apart(text).ok()?;
        // The line feed after it would only be skipped before the next message.
        let taken = body.end + usize::from(rest.get(body.end) == Some(&b'\n'));
        self.cutter.pass(taken);
        self.deadlines.frame = NEVER;
        Some((Frame::terminated(body, taken), scanned))
    }

    /// Returns a plain call that exceeds no limit.
    #[inline]
    fn plain_call<'a>(&self, text: Text<'a>) -> Option<PlainCall<'a>> {
        let call = PlainCall::read(text, self.envelopes.first()?)?;
        let has_room = call.id.is_none_or(|id| self.has_room_for(id));
        if !has_room || !self.is_plain_method(call.method) {
            rare();
            return None;
        }
        Some(call)
    }

    /// Decides what becomes of a plain call in a batch. A request is opened.
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
        let call = PlainCall::read(text, envelope)?;
        if !self.is_plain_method(call.method) {
            return None;
        }
        let Some(id) = call.id else {
            return Some(Fate::Notification);
        };
        if !self.has_room_for(id) {
            return None;
        }
        let (slot, _) = self.requests.insert(id, Style::V2, batch, position);
        Some(Fate::Request { slot })
    }

    /// Whether a method is within its limit and not the method of a cancel.
    #[inline]
    fn is_plain_method(&self, method: &str) -> bool {
        let is_cancel = match self.config.dialect.cancel_receive.names() {
            Some((cancel, _)) => method == cancel,
            None => false,
        };
        !is_cancel && method.len() <= self.config.limits.max_method_bytes
    }

    /// Whether a request with this id may be opened: it exceeds no limit, and the connection does
    /// not drain. False, too, if the id would have to be compared with those of open requests.
    #[inline]
    fn has_room_for(&self, id: Id<'_>) -> bool {
        id.text().len() <= self.config.limits.max_id_bytes
            && !self.phase.is_draining()
            && self.requests.open() < self.config.limits.max_open_requests
            && self.config.dialect.duplicate_ids == DuplicateIds::Allow
    }

    /// Returns a valid answer, and the number of its call, which may have ended.
    #[inline(always)]
    fn plain_response<'a>(&self, text: Text<'a>, position: usize) -> Option<(u64, Outcome<'a>)> {
        let envelope = self.envelopes.get(position)?;
        let id = plain_answer_id(text, envelope)?;
        let number = match self.calls.has_names() {
            true => {
                rare();
                self.find_call(id)?
            }
            false => self.config.dialect.id_scheme.read(id.json())?,
        };
        let outcome = match plain_result(text, envelope) {
            Some(result) => Outcome::Ok(result),
            None => Outcome::Err(plain_error(text, envelope)?),
        };
        Some((number, outcome))
    }
}
