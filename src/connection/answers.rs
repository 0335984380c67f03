//! Answers to requests: results, errors, and the answers of whole batches.
//!
//! A request is answered once. If an answer is refused, nothing is sent and the token is returned.

use alloc::vec::Vec;

use super::Connection;
use super::commands::{ENVELOPE_HINT, Rejected, SendError};
use super::parts::{Parts, unread_items};
use crate::batches::{Budget, ERROR_BYTES};
use crate::codes;
use crate::config::Settings;
use crate::encode::{self, Payload, Style};
use crate::error_object::ErrorObject;
use crate::event::ConnectionError;
use crate::id::{Id, ReplyToken, RequestKey};
use crate::json::OwnedJson;
use crate::requests::{NONE, OpenRequest};
use crate::target::rare;

/// The longest message of an error that is sent in any case, in bytes.
const SHORT_MESSAGE: usize = 192;

/// What the answer to a request of a batch has to fit into.
#[derive(Clone, Copy)]
enum Fit {
    /// The limit of the batch.
    Result,
    /// That limit and the output's, less what the batch's other requests need for errors.
    Error,
    /// Nothing: it is short.
    Always,
}

/// A request whose answer is looked for in the output: see [`Connection::answer_mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerMark {
    request: RequestKey,
    /// The slot and the number of its batch, if it came in one.
    batch: Option<(u32, u32)>,
    style: Style,
}

impl AnswerMark {
    /// Whether it is a request of version 1.0, which has no notifications from servers.
    pub fn is_v1(self) -> bool {
        matches!(self.style, Style::V1)
    }
}

/// The result or the error that answers a request.
trait Answer {
    fn write(self, out: &mut Vec<u8>, style: Style, id: &[u8]) -> Result<(), SendError>;
}

struct Success<P>(P);

impl<P: Payload> Answer for Success<P> {
    /// Is inlined twice: into the answer to a single request, and to a request of a batch.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    fn write(self, out: &mut Vec<u8>, style: Style, id: &[u8]) -> Result<(), SendError> {
        let Self(result) = self;
        encode::success(out, style, id, result).map_err(SendError::Encode)
    }
}

impl Answer for &ErrorObject<'_> {
    fn write(self, out: &mut Vec<u8>, style: Style, id: &[u8]) -> Result<(), SendError> {
        encode::failure(out, style, Some(id), self);
        Ok(())
    }
}

impl<T, S: Settings> Connection<T, S> {
    /// Answers a request with a result.
    ///
    /// # Errors
    /// Returns the token with the reason: the value has no JSON form, the answer is too large, the
    /// request is not open here (it was cancelled and needs no answer, or the token belongs to
    /// another connection), or the connection is closed. If the request is still open, it can be
    /// answered by [`respond_err`](Self::respond_err) with the returned token.
    pub fn respond(
        &mut self,
        to: ReplyToken,
        result: impl Payload,
    ) -> Result<(), Rejected<ReplyToken>> {
        let hint = result.size_hint() + ENVELOPE_HINT;
        self.answer(to, hint, Fit::Result, Success(result))
    }

    /// Answers a request with an error. An error that was received is passed on unchanged.
    ///
    /// An error always fits: if the answer of its batch has no space for it within
    /// `max_batch_reply_bytes`, or the output none within `max_outbox_bytes`, it is sent without its
    /// data, and [`poll_data_dropped`](Self::poll_data_dropped) returns that. An error without data
    /// and with a short message is sent even if results have used up the limit of the batch.
    ///
    /// # Errors
    /// As [`respond`](Self::respond); also [`SendError::ReservedCode`] under `check_app_codes`,
    /// and [`SendError::TooLarge`] for data above `max_error_data_bytes`.
    pub fn respond_err(
        &mut self,
        to: ReplyToken,
        error: &ErrorObject<'_>,
    ) -> Result<(), Rejected<ReplyToken>> {
        let code = error.code();
        if self.config.dialect.check_app_codes
            && codes::is_reserved(code)
            && !codes::is_defined(code)
            && code != self.config.dialect.failures.error().code()
        {
            return Err(Rejected::new(to, SendError::ReservedCode));
        }
        if error
            .data()
            .is_some_and(|data| data.len() > self.config.limits.max_error_data_bytes)
        {
            return Err(Rejected::new(to, SendError::TooLarge));
        }
        if let Some(parts) = &mut self.parts {
            parts.is_data_dropped = false;
        }
        let hint = error.size_hint() + encode::FAILURE_BYTES;
        if error.data().is_some() && hint > self.free_output() {
            rare();
            return self.respond_shorter(to, error);
        }
        match self.answer(to, hint, Fit::Error, error) {
            Err(rejected) if rejected.error == SendError::TooLarge => {
                self.respond_shorter(rejected.value, error)
            }
            answered => answered,
        }
    }

    /// Answers with an error that does not fit: without its data, and if that does not fit either,
    /// with the standard message of its code. That always fits, because a request whose answer was
    /// too large must still be answered.
    #[cold]
    fn respond_shorter(
        &mut self,
        to: ReplyToken,
        error: &ErrorObject<'_>,
    ) -> Result<(), Rejected<ReplyToken>> {
        let bare = ErrorObject::new(error.code(), error.message());
        let hint = bare.size_hint() + encode::FAILURE_BYTES;
        let fit = match error.message().len() <= SHORT_MESSAGE {
            true => Fit::Always,
            false => Fit::Error,
        };
        match self.answer(to, hint, fit, &bare) {
            Err(rejected) if rejected.error == SendError::TooLarge => {
                let answered = self.respond_shortest(rejected.value, error.code());
                Parts::of(&mut self.parts).is_data_dropped = answered.is_ok();
                answered
            }
            answered => {
                // An error that is short as it is loses nothing.
                let is_dropped = answered.is_ok() && error.data().is_some();
                Parts::of(&mut self.parts).is_data_dropped = is_dropped;
                answered
            }
        }
    }

    /// Answers with the standard message of a code.
    #[inline(never)]
    fn respond_shortest(&mut self, to: ReplyToken, code: i64) -> Result<(), Rejected<ReplyToken>> {
        let shortest = ErrorObject::of(code);
        self.answer(
            to,
            shortest.size_hint() + encode::FAILURE_BYTES,
            Fit::Always,
            &shortest,
        )
    }

    /// How many bytes the output, with the answers that are kept for open batches, has left below
    /// its hard limit.
    fn free_output(&self) -> usize {
        let waiting = self.outbox.len() + self.gathered();
        let max_bytes = self.config.limits.max_outbox_bytes;
        max_bytes.saturating_sub(waiting)
    }

    /// Answers a request for an unknown method with −32601. The error's data names the method only
    /// if `echo_method_names` is set.
    ///
    /// # Errors
    /// See [`respond`](Self::respond).
    pub fn respond_unknown_method(
        &mut self,
        to: ReplyToken,
        method: &str,
    ) -> Result<(), Rejected<ReplyToken>> {
        let error = ErrorObject::method_not_found();
        if !self.config.dialect.echo_method_names {
            return self.respond_err(to, &error);
        }
        let name = OwnedJson::of_str(method);
        self.respond_err(to, &error.with_data(name.as_json()))
    }

    /// Answers a request that was cancelled, with the code of `cancel_answer`.
    ///
    /// # Errors
    /// As [`respond`](Self::respond). If the dialect wants no answer, the request has ended
    /// already, and the error is [`SendError::NotOpen`].
    pub fn respond_cancelled(&mut self, to: ReplyToken) -> Result<(), Rejected<ReplyToken>> {
        // Without a code the peer's cancel has ended the request already; a request that is still
        // open was cancelled on this side.
        let error = match self.config.dialect.cancel_answer.code() {
            Some(code) => ErrorObject::of(code),
            None => self.config.dialect.error_profile.given_up(),
        };
        self.respond_err(to, &error)
    }

    /// Whether the answer to an open request will be kept, because its batch has other open
    /// requests or items that are not delivered yet. Such an answer makes no output, so the caller
    /// need not set the time before it, nor write after it. False for a request that is not open
    /// here.
    ///
    /// ```
    /// # use antiphon::{Config, Connection, Event, Input};
    /// # let mut conn: Connection = Connection::new(Config::new());
    /// let both = br#"[{"jsonrpc":"2.0","method":"m","id":1},{"jsonrpc":"2.0","method":"m","id":2}]"#;
    /// let line = [both, &b"\n"[..]].concat();
    /// let mut input = Input::stream(&line);
    /// let mut tokens = Vec::new();
    /// while let Some(event) = conn.poll_event(&mut input) {
    ///     if let Event::Request(request) = event {
    ///         tokens.push(request.token);
    ///     }
    /// }
    /// let [first, second] = [tokens.remove(0), tokens.remove(0)];
    /// assert!(conn.is_answer_kept(first.key()));
    /// conn.respond(first, ())?;
    /// // Now the second request is the only open one of the batch.
    /// assert!(!conn.is_answer_kept(second.key()));
    /// # Ok::<(), antiphon::SendError>(())
    /// ```
    pub fn is_answer_kept(&self, request: RequestKey) -> bool {
        let is_ours = request.connection == self.number.get();
        let open = is_ours
            .then(|| self.requests.get(request.slot, request.generation))
            .flatten();
        let Some((open, parts)) = open.zip(self.parts.as_ref()) else {
            return false;
        };
        parts.batches.is_waiting_for_more(self.batch_of(open))
    }

    /// Returns the id of an open request as the peer wrote it, or `None` for one that is not open.
    /// For reports about a request whose token is lost.
    pub fn request_id(&self, request: RequestKey) -> Option<Id<'_>> {
        let is_ours = request.connection == self.number.get();
        let open = is_ours.then(|| self.requests.get(request.slot, request.generation));
        open.flatten().map(OpenRequest::as_id)
    }

    /// Returns a mark of an open request, by which [`is_answered`](Self::is_answered) finds out later whether its
    /// answer is in the output; `None` if it is not open. For what must follow an answer: the events of a
    /// subscription, for example.
    pub fn answer_mark(&self, request: RequestKey) -> Option<AnswerMark> {
        let is_ours = request.connection == self.number.get();
        let open = is_ours.then(|| self.requests.get(request.slot, request.generation));
        let open = open.flatten()?;
        let batch = self.batch_of(open);
        let parts = self.parts.as_ref().filter(|_| batch != NONE);
        let number = parts.and_then(|parts| parts.batches.number(batch));
        Some(AnswerMark {
            request,
            batch: number.map(|number| (batch, number)),
            style: open.style,
        })
    }

    /// Whether the answer to a request is in the output, or was; or, if the request is over without one, the
    /// answers to the rest of its batch. The answer to a request of a batch is there with the last one of the
    /// batch.
    pub fn is_answered(&self, mark: AnswerMark) -> bool {
        let number = |slot| self.parts.as_ref()?.batches.number(slot);
        match mark.batch {
            Some((slot, of_batch)) => number(slot) != Some(of_batch),
            None => self.request_id(mark.request).is_none(),
        }
    }

    /// Answers −32603, or what [`failures`](crate::Dialect::failures) say, to a request whose token
    /// was lost, for example by a panic while its result was written. Returns false if it cannot be
    /// answered, as when it is not open. For drivers, such as a
    /// [`Session`](crate::session::Session); handlers never need it.
    pub fn abandon(&mut self, request: RequestKey) -> bool {
        let token = ReplyToken { key: request };
        let error = self.config.dialect.failures.error();
        self.respond_err(token, &error).is_ok()
    }

    /// Writes the answer of an open request, into its batch or into the output, and ends the
    /// request. `hint` is about how many bytes the answer has; `fit` says what it has to fit into.
    fn answer(
        &mut self,
        to: ReplyToken,
        hint: usize,
        fit: Fit,
        answer: impl Answer,
    ) -> Result<(), Rejected<ReplyToken>> {
        self.forget_builder();
        let key = to.key;
        if self.phase.is_shut() {
            rare();
            return Err(Rejected::new(to, SendError::Closed));
        }
        let is_ours = key.connection == self.number.get();
        let request = is_ours
            .then(|| self.requests.get(key.slot, key.generation))
            .flatten();
        let Some(request) = request else {
            rare();
            return Err(Rejected::new(to, SendError::NotOpen));
        };
        let (batch, position, style) = (self.batch_of(request), request.position, request.style);
        if batch != NONE {
            let id = request.id();
            let (limits, free) = (&self.config.limits, self.free_output());
            let (requests, envelopes) = (&self.requests, &self.envelopes);
            let Parts {
                batches,
                reading,
                fates,
                ..
            } = Parts::of(&mut self.parts);
            let max_bytes = limits.max_batch_reply_bytes;
            let budget = match fit {
                Fit::Always => Budget::NONE,
                Fit::Result => Budget {
                    max_bytes,
                    max_owed: 0,
                },
                // All answers count against the limit of the output, too.
                Fit::Error => Budget {
                    max_bytes: max_bytes.min(batches.reply_bytes(batch).saturating_add(free)),
                    max_owed: limits
                        .max_batch_items
                        .saturating_mul(limits.max_id_bytes.saturating_add(ERROR_BYTES)),
                },
            };
            // The bytes of an error for each of the other items, which may all need an answer.
            let owed = || {
                let ids = requests.ids_of_batch(batch).map(<[u8]>::len);
                let unread = unread_items(reading.as_ref(), fates, batch);
                let unread = unread.filter_map(|position| envelopes.get(position));
                let unread = unread.map(|item| item.span.range().len().min(limits.max_id_bytes));
                let all: usize = ids.chain(unread).map(|id| id + ERROR_BYTES).sum();
                all.saturating_sub(id.len() + ERROR_BYTES)
            };
            match batches.add(batch, position, hint, budget, owed, |out| {
                answer.write(out, style, id)
            }) {
                Ok(true) => {}
                Ok(false) => {
                    rare();
                    return Err(Rejected::new(to, SendError::TooLarge));
                }
                Err(error) => {
                    rare();
                    return Err(Rejected::new(to, error));
                }
            }
        } else {
            let body_hint = hint + request.id().len();
            let frame = self.outbox.begin(body_hint);
            let start = self.outbox.body().len();
            if let Err(error) = answer.write(self.outbox.body(), style, request.id()) {
                rare();
                self.outbox.rollback();
                return Err(Rejected::new(to, error));
            }
            if let Err(error) = self.finish_body(start) {
                rare();
                return Err(Rejected::new(to, error));
            }
            self.outbox.commit_reply(frame);
        }
        self.requests.remove(key.slot);
        if batch != NONE {
            self.release_batch(batch);
        }
        self.after_reply();
        Ok(())
    }

    /// Returns the batch in which a request came; [`NONE`] if it came alone.
    pub(super) fn batch_of(&self, request: &OpenRequest) -> u32 {
        if S::BATCHES { request.batch } else { NONE }
    }

    /// Notes that one more request of a batch has ended, or that all items have been delivered.
    /// Sends the batch's answer if it waits for nothing more.
    pub(super) fn release_batch(&mut self, batch: u32) {
        let Some(parts) = &mut self.parts else {
            return;
        };
        let batches = &mut parts.batches;
        if !batches.release(batch) {
            return;
        }
        if batches.has_replies(batch) && !self.phase.is_shut() {
            let frame = self.outbox.begin(batches.reply_bytes(batch));
            let start = self.outbox.body().len();
            batches.write(batch, self.config.dialect.batch_order, self.outbox.body());
            if self.config.dialect.escape_braces {
                encode::escape_braces(self.outbox.body(), start);
            }
            self.outbox.commit_reply(frame);
        }
        batches.end(batch, self.config.limits.max_batch_reply_bytes);
    }

    /// Ends the connection if the output, with the answers that are kept for open batches, is over
    /// the hard limit.
    pub(super) fn after_reply(&mut self) {
        let waiting = self.outbox.len() + self.gathered();
        if waiting > self.config.limits.max_outbox_bytes {
            rare();
            self.fail(ConnectionError::OutboxFull);
        }
    }

    /// How many bytes of answers are kept for open batches.
    fn gathered(&self) -> usize {
        match &self.parts {
            Some(parts) if self.reads_in_parts() => parts.batches.gathered(),
            _ => 0,
        }
    }
}
