//! Answers to requests: results, errors, and the answers of whole batches.
//!
//! A request is answered once. If an answer is refused, nothing is sent and the token is returned.

use alloc::vec::Vec;

use super::Connection;
use super::commands::{ENVELOPE_HINT, Rejected, SendError};
use super::parts::Parts;
use crate::codes;
use crate::config::Settings;
use crate::encode::{self, Payload, Style};
use crate::error_object::ErrorObject;
use crate::event::ConnectionError;
use crate::id::{Id, ReplyToken, RequestKey};
use crate::json::OwnedJson;
use crate::requests::{NONE, OpenRequest};
use crate::target::rare;

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
        let budget = self.config.limits.max_batch_reply_bytes;
        self.answer(to, hint, budget, Success(result))
    }

    /// Answers a request with an error. An error that was received is passed on unchanged.
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
        // An error always fits into a batch: a request whose result was too large must still be
        // answered.
        let hint = error.size_hint() + ENVELOPE_HINT;
        self.answer(to, hint, usize::MAX, error)
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
        let is_ours = request.connection == self.config.connection;
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
        let is_ours = request.connection == self.config.connection;
        let open = is_ours.then(|| self.requests.get(request.slot, request.generation));
        open.flatten().map(OpenRequest::as_id)
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
    /// request. `hint` is about how many bytes the answer has, `batch_budget` the largest size of
    /// the whole answer of a batch.
    fn answer(
        &mut self,
        to: ReplyToken,
        hint: usize,
        batch_budget: usize,
        answer: impl Answer,
    ) -> Result<(), Rejected<ReplyToken>> {
        self.forget_builder();
        let key = to.key;
        if self.phase.is_shut() {
            rare();
            return Err(Rejected::new(to, SendError::Closed));
        }
        let is_ours = key.connection == self.config.connection;
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
            let batches = &mut Parts::of(&mut self.parts).batches;
            match batches.add(batch, position, hint, batch_budget, |out| {
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
            self.outbox.commit(frame, None);
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
            self.outbox.commit(frame, None);
        }
        batches.end(batch, self.config.limits.max_batch_reply_bytes);
    }

    /// Ends the connection if the output, with the answers that are kept for open batches, is over
    /// the hard limit.
    pub(super) fn after_reply(&mut self) {
        let gathered = match &self.parts {
            Some(parts) if self.reads_in_parts() => parts.batches.gathered(),
            _ => 0,
        };
        let waiting = self.outbox.len() + gathered;
        if waiting > self.config.limits.max_outbox_bytes {
            rare();
            self.fail(ConnectionError::OutboxFull);
        }
    }
}
