//! Answers of the connection itself: to messages over a limit, and to messages that are not valid.
//!
//! An error is sent only if the peer may expect an answer. It has an id only if the id was
//! readable, allowed and short enough to be echoed. Every refusal is also reported to the driver.

use alloc::vec::Vec;

use super::Connection;
use crate::config::{DuplicateIds, LimitErrors, Role, Settings, UnknownId};
use crate::encode::{self, Style};
use crate::error_object::{ErrorObject, with_number};
use crate::event::{
    ConnectionError, Event, Malformed, MalformedCause, Origin, Refused, RefusedCause,
};
use crate::id::Id;
use crate::json::OwnedJson;
use crate::message::{Call, CallKind};

impl<T, S: Settings> Connection<T, S> {
    /// Returns why a call is refused, if it is: for a limit, its id, or a drain. A notification is
    /// refused only for the length of its method.
    pub(super) fn over_limit(&mut self, call: &Call<'_>) -> Option<RefusedCause> {
        let method_bytes = call.method.len().saturating_sub(2);
        if method_bytes > self.config.limits.max_method_bytes {
            return Some(RefusedCause::MethodTooLong);
        }
        let CallKind::Request(id) = call.kind else {
            return None;
        };
        if id.text().len() > self.config.limits.max_id_bytes {
            return Some(RefusedCause::IdTooLong);
        }
        if id.is_null() && !self.config.dialect.null_ids {
            return Some(RefusedCause::NullId);
        }
        if self.phase.is_draining() {
            return Some(RefusedCause::Draining);
        }
        if self.requests.open() >= self.config.limits.max_open_requests {
            return Some(RefusedCause::Busy);
        }
        let rejects = self.config.dialect.duplicate_ids == DuplicateIds::Reject;
        (rejects && self.requests.find(id).is_some()).then_some(RefusedCause::RepeatedId)
    }

    /// Returns the error that answers a refused request.
    pub(super) fn limit_error(&self, cause: RefusedCause) -> ErrorObject<'static> {
        match cause {
            RefusedCause::Busy => self.config.dialect.error_profile.busy(),
            RefusedCause::Draining => self.config.dialect.error_profile.unavailable(),
            _ => ErrorObject::invalid_request(),
        }
    }

    /// Returns the id that an error echoes; `None` if the request's id is unknown, too long to be
    /// echoed, or null although null ids are not allowed.
    pub(super) fn echoed<'i>(&self, id: Option<Id<'i>>) -> Option<Id<'i>> {
        id.filter(|id| id.text().len() <= self.config.limits.max_id_bytes)
            .filter(|id| self.config.dialect.null_ids || !id.is_null())
    }

    /// Answers a message over the size limit, and reports it.
    pub(super) fn refuse_oversize<'a>(&mut self, bytes: Option<u64>) -> Event<'a, T> {
        let max_bytes = self.config.limits.max_message_bytes;
        let answered = match self.config.dialect.limit_errors {
            LimitErrors::Dedicated => {
                self.answer_fault(Style::V2, None, &ErrorObject::request_too_large(max_bytes))
            }
            LimitErrors::Standard | LimitErrors::FirstCall | LimitErrors::WebSocket => {
                let sentence = with_number("A message may have at most ", max_bytes, " bytes");
                let sentence = OwnedJson::of_str(&sentence);
                let error = ErrorObject::invalid_request().with_data(sentence.as_json());
                self.answer_fault(Style::V2, None, &error)
            }
        };
        Event::Refused(Refused {
            cause: RefusedCause::TooLarge { bytes, max_bytes },
            method: None,
            id: None,
            answered,
            origin: Origin {
                bytes: bytes.map_or(max_bytes, |bytes| bytes as usize),
                batch_index: None,
            },
        })
    }

    /// Answers a message that is malformed or too large, unless this side is a client. Returns the
    /// code of the error, if one was sent.
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

    /// Queues an error of the core's own.
    pub(super) fn answer_error(
        &mut self,
        style: Style,
        id: Option<Id<'_>>,
        error: &ErrorObject<'_>,
    ) {
        let id = self.written_id(style, id);
        let hint = error.size_hint() + id.map_or(0, <[u8]>::len) + encode::FAILURE_BYTES;
        self.queue_reply(hint, |out| encode::failure(out, style, id, error));
    }

    /// Queues an answer of the core's own, of about `hint` bytes. Only the hard limit of the output
    /// applies to it.
    pub(super) fn queue_reply(&mut self, hint: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let frame = self.outbox.begin(hint);
        let start = self.outbox.body().len();
        write(self.outbox.body());
        if self.config.dialect.escape_braces {
            encode::escape_braces(self.outbox.body(), start);
        }
        self.outbox.commit_reply(frame);
        self.after_reply();
    }

    /// Returns the text of an error's id: null for an unknown id; `None` if the dialect then leaves
    /// the member out.
    pub(super) fn written_id<'i>(&self, style: Style, id: Option<Id<'i>>) -> Option<&'i [u8]> {
        match id {
            Some(id) => Some(id.json().as_bytes()),
            None if style == Style::V2 && self.config.dialect.unknown_id == UnknownId::Omit => None,
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
        if self.malformed > self.config.limits.max_malformed_messages {
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
