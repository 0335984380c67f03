//! What the core answers by itself: messages that are not valid, and valid ones beyond a limit.
//!
//! The rule guarded here: whoever may wait for an answer gets one, a response never does, and
//! everything that is answered or swallowed here is told locally.

use alloc::vec::Vec;

use super::Connection;
use super::receive::add_failure;
use crate::codes;
use crate::config::{LimitErrors, Role};
use crate::encode::{self, Style};
use crate::error_object::ErrorObject;
use crate::event::{
    ConnectionError, Event, InvalidReason, Malformed, MalformedCause, Origin, Refused, RefusedCause,
};
use crate::id::Id;
use crate::json::{OwnedJson, SyntaxError, SyntaxErrorKind};
use crate::message::{self, Call, CallKind, Message};

impl<T> Connection<T> {
    pub(super) fn reject_syntax<'a>(
        &mut self,
        text: &'a [u8],
        error: SyntaxError,
    ) -> Option<Event<'a, T>> {
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
    pub(super) fn reject_batch<'a>(
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

    pub(super) fn refuse_oversize<'a>(&mut self, bytes: Option<u64>) -> Event<'a, T> {
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
}
