//! Answers to requests: from handlers, and in place of handlers that gave none.

use alloc::boxed::Box;

use super::machine::Session;
use super::report::{Report, RequestDetails};
use super::ticket::{Method, Ticket};
use crate::connection::{AnswerMark, Connection, Rejected, SendError};
use crate::encode::Payload;
use crate::error_object::{ErrorObject, OwnedError};
use crate::event::Closed;
use crate::id::{OwnedId, ReplyToken, RequestKey};
use crate::json::DecodeError;
use crate::time::Instant;

impl<W> Session<W> {
    /// Answers a request with a result.
    ///
    /// # Errors
    /// [`SendError::Closed`] or [`SendError::NotOpen`] if no answer is awaited any more. It is no
    /// error if the peer has cancelled the request and the dialect wants no answer to it. Any other
    /// error means that the result could not be sent: the peer gets *internal error* instead, and a
    /// report has the reason.
    pub fn respond(&mut self, ticket: Ticket, result: impl Payload) -> Result<(), SendError> {
        self.answer(ticket, |conn, token| conn.respond(token, result))
    }

    /// Answers a request with an error. If its data are over `max_error_data_bytes`, the peer gets its
    /// code and message alone, and a report says so: [`Report::DataDropped`].
    ///
    /// # Errors
    /// See [`respond`](Self::respond). It is no error if the data of `error` had to be left out: see
    /// [`Report::DataDropped`].
    pub fn respond_err(
        &mut self,
        ticket: Ticket,
        error: &ErrorObject<'_>,
    ) -> Result<(), SendError> {
        let data = error.data();
        let about = data.and_then(|_| self.about(ticket.key(), &ticket.method, ticket.begun));
        let mut is_dropped = false;
        self.answer(ticket, |conn, token| {
            conn.respond_err(token, error).or_else(|rejected| {
                is_dropped = data.is_some() && rejected.error == SendError::TooLarge;
                match is_dropped {
                    true => conn.respond_err(rejected.value, &error.clone().without_data()),
                    false => Err(rejected),
                }
            })
        })?;
        is_dropped |= self.conn.poll_data_dropped();
        if let Some(about) = about.filter(|_| is_dropped) {
            self.report(Report::DataDropped(about));
        }
        Ok(())
    }

    /// Answers that the method of the request is unknown.
    ///
    /// # Errors
    /// See [`respond`](Self::respond).
    pub fn respond_unknown_method(
        &mut self,
        ticket: Ticket,
        method: &str,
    ) -> Result<(), SendError> {
        self.answer(ticket, |conn, token| {
            conn.respond_unknown_method(token, method)
        })
    }

    /// Answers that the request was cancelled, with the dialect's error.
    ///
    /// # Errors
    /// See [`respond`](Self::respond).
    pub fn respond_cancelled(&mut self, ticket: Ticket) -> Result<(), SendError> {
        self.answer(ticket, |conn, token| conn.respond_cancelled(token))
    }

    /// Answers *busy*, with the dialect's error, because the driver has no capacity for the
    /// request.
    pub fn refuse(&mut self, ticket: Ticket) {
        let about = self.about(ticket.key(), &ticket.method, ticket.begun);
        let busy = self.conn.config().dialect.error_profile.busy();
        // Answering fails only if no answer is awaited any more.
        let _ = self.respond_err(ticket, &busy);
        if let Some(about) = about {
            self.report(Report::NoCapacity(about));
        }
    }

    /// Refuses this many of the requests that wait, the newest first: see [`refuse`](Self::refuse).
    pub fn refuse_last(&mut self, requests: usize) {
        for _ in 0..requests {
            let Some(request) = self.queue.pop_last_request() else {
                return;
            };
            let (_, ticket) = self.ticket(request);
            self.refuse(ticket);
        }
    }

    /// Answers for a handler that gave no answer: *internal error*, or, if the peer has cancelled
    /// the request, that it was cancelled. Makes a report of an *internal error*.
    pub fn abandon(&mut self, ticket: Ticket) {
        if let Some(about) = self.answer_for(ticket) {
            self.report(Report::Unanswered(about));
        }
    }

    /// Takes back a request that was cancelled before the driver could begin it. It is answered as
    /// cancelled, and the service never sees it.
    ///
    /// # Errors
    /// Returns the ticket if the request was not cancelled: then it may begin.
    pub fn give_back(&mut self, ticket: Ticket) -> Result<(), Ticket> {
        if !self.is_cancelled(ticket.key()) {
            return Err(ticket);
        }
        self.queue.remove_cancelled(ticket.key());
        // Answering fails only if no answer is awaited any more.
        let _ = self.respond_cancelled(ticket);
        Ok(())
    }

    /// Answers for a handler that panicked with this message, as [`abandon`](Self::abandon) does,
    /// and reports the panic. The ticket is `None` if the handler served no request.
    pub fn handle_panic(&mut self, ticket: Option<Ticket>, message: &str) {
        let about = ticket.and_then(|ticket| {
            let cause: Box<dyn core::error::Error> = message.into();
            let failures = ticket.failures;
            let answer = failures.describe(failures.error(), "panic", &*cause);
            self.fail(ticket, &answer)
        });
        self.report(Report::Panicked(about));
    }

    /// Takes the details of the request whose answer was lost because writing it panicked. The
    /// request has been answered *internal error*.
    pub fn take_lost(&mut self) -> Option<RequestDetails> {
        self.lost.take()
    }

    /// Writes an answer, and ends the request if that has succeeded. If it fails, answers *internal
    /// error* instead.
    fn answer(
        &mut self,
        ticket: Ticket,
        write: impl FnOnce(&mut Connection<W>, ReplyToken) -> Result<(), Rejected<ReplyToken>>,
    ) -> Result<(), SendError> {
        let Ticket {
            token,
            bytes,
            method,
            begun,
            failures,
        } = ticket;
        let key = token.key();
        let mut unwinding = Unwinding {
            session: self,
            request: Some((key, bytes, method, begun)),
        };
        let written = write(&mut unwinding.session.conn, token);
        let method = unwinding.request.take().map(|(_, _, method, _)| method);
        drop(unwinding);
        let rejected = match written {
            Ok(()) => {
                self.let_go(key, bytes);
                self.poll_end();
                return Ok(());
            }
            Err(rejected) => rejected,
        };
        let (token, error) = (rejected.value, rejected.error);
        if error == SendError::NotOpen && self.is_silenced(key) {
            // The dialect wants no answer to a cancelled request.
            self.let_go(key, bytes);
            return Ok(());
        }
        if let Some(method) = method {
            let ticket = Ticket {
                token,
                bytes,
                method,
                begun,
                failures,
            };
            self.refuse_answer(ticket, error.clone());
        }
        Err(error)
    }

    /// Answers *internal error* for a handler whose answer cannot be sent because of `error`, and
    /// reports that.
    pub fn refuse_answer(&mut self, ticket: Ticket, error: SendError) {
        let answer = ticket
            .failures
            .describe(ticket.failures.error(), "SendError", &error);
        if let Some(about) = self.fail(ticket, &answer) {
            self.report(Report::AnswerRefused(about, error));
        }
    }

    /// Reports that the params of a request are not what its handler takes.
    pub fn report_invalid_params(&mut self, ticket: &Ticket, error: DecodeError) {
        if let Some(about) = self.about(ticket.key(), &ticket.method, ticket.begun) {
            self.report(Report::InvalidParams(about, error));
        }
    }

    /// Reports that a handler failed: see [`Report::Failed`].
    pub fn report_failure(&mut self, ticket: &Ticket, error: OwnedError) {
        if let Some(about) = self.about(ticket.key(), &ticket.method, ticket.begun) {
            self.report(Report::Failed(about, error));
        }
    }

    /// Returns the id of an open request, as the peer wrote it, or `None` if no answer is awaited
    /// any more.
    pub fn request_id(&self, request: RequestKey) -> Option<OwnedId> {
        self.conn.request_id(request).map(Into::into)
    }

    /// Returns a mark of an open request: see [`Connection::answer_mark`].
    pub fn answer_mark(&self, request: RequestKey) -> Option<AnswerMark> {
        self.conn.answer_mark(request)
    }

    /// Whether the answer to a request is in the output, or was: see [`Connection::is_answered`].
    pub fn is_answered(&self, mark: AnswerMark) -> bool {
        self.conn.is_answered(mark)
    }

    /// Answers for a handler that gave no answer, as [`abandon`](Self::abandon) does, but makes no
    /// report. Returns the details for a report, or `None` if the peer has cancelled the request or
    /// awaits no answer any more.
    pub fn answer_for(&mut self, ticket: Ticket) -> Option<RequestDetails> {
        let answer = ticket.failures.error().into_owned();
        self.fail(ticket, &answer)
    }

    /// Answers `error` for a handler, as [`answer_for`](Self::answer_for) says.
    fn fail(&mut self, ticket: Ticket, error: &OwnedError) -> Option<RequestDetails> {
        let about = self.about(ticket.key(), &ticket.method, ticket.begun);
        let key = ticket.key();
        let is_cancelled = self.is_cancelled(key);
        self.let_go(key, ticket.bytes);
        // Each fails only if no answer is awaited any more.
        if is_cancelled {
            let _ = self.conn.respond_cancelled(ticket.token);
        } else if let Err(rejected) = self.conn.respond_err(ticket.token, &error.as_error()) {
            // Its data are too large, or its code is one that `check_app_codes` refuses.
            self.conn.abandon(rejected.value.key());
        }
        self.poll_end();
        about
    }

    /// Returns the details of an open request for a report; `None` if it is not open or the peer
    /// has cancelled it.
    pub(super) fn about(
        &self,
        key: RequestKey,
        method: &Method,
        begun: Instant,
    ) -> Option<RequestDetails> {
        if self.is_cancelled(key) {
            return None;
        }
        let id = self.conn.request_id(key)?;
        let duration = self.now.saturating_since(begun);
        Some(RequestDetails::new(method.as_str(), id.into(), duration))
    }

    /// Forgets a request that has been answered, or that needs no answer any more.
    fn let_go(&mut self, request: RequestKey, bytes: usize) {
        let was_paused = self.is_paused();
        self.cancelled.retain(|cancelled| *cancelled != request);
        self.queue.release(bytes);
        self.lags |= self.is_unread();
        self.resume_after(was_paused);
    }

    /// Whether the peer has cancelled the request, which needs no answer then. After a close the
    /// requests that it has ended are in `cancelled` too; they do not count here.
    fn is_silenced(&self, request: RequestKey) -> bool {
        let is_answered = matches!(self.phase.closed(), None | Some(Closed::EndOfInput));
        is_answered && !self.phase.is_over() && self.cancelled.contains(&request)
    }
}

/// Answers *internal error* to a request if writing its answer panics.
struct Unwinding<'s, W> {
    session: &'s mut Session<W>,
    /// The request's key, its size, its method, and when it began; `None` after the answer was
    /// written.
    request: Option<(RequestKey, usize, Method, Instant)>,
}

impl<W> Drop for Unwinding<'_, W> {
    fn drop(&mut self) {
        let Some((key, bytes, method, begun)) = self.request.take() else {
            return;
        };
        let session = &mut *self.session;
        session.lost = session.about(key, &method, begun);
        session.let_go(key, bytes);
        // Answering fails only if no answer is awaited any more.
        session.conn.abandon(key);
        session.poll_end();
    }
}
