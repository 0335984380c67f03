//! The right to answer a request later.
//!
//! Every request is answered exactly once, whatever the handler does. A responder that is dropped,
//! in a panic or by an oversight, answers *internal error*; after the peer has given the request up
//! it answers that, as the dialect says it.

use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use antiphon::session::{Report, RequestDetails, Ticket};
use antiphon::{
    DecodeError, ErrorObject, OwnedError, OwnedOutcome, Payload, RequestKey, SendError,
};

use crate::answer::Answer;
use crate::cancellation::Cancellation;
use crate::later::{Given, LaterAnswer};
use crate::session::{Conn, Session};

const CANCELLED: &str = "cancelled";
const PANICKED: &str = "panicked";

/// The right and the duty to answer one request.
///
/// It can be sent to any thread, and be kept as long as the connection lives. Dropped, it answers
/// *internal error*, or that the request was cancelled if the peer has given it up. After the
/// connection has closed, answering does nothing and says so. Where the dialect is silent about
/// cancelled requests, as MCP is, answering one does nothing and is no error.
#[must_use = "dropping a responder answers an internal error"]
pub struct Responder {
    session: Arc<Session>,
    key: RequestKey,
    /// `None` once the request is answered, or another responder answers it.
    ticket: Mutex<Option<Ticket>>,
    /// Who wants to know what is answered; nobody where there are no interceptors.
    later: Option<Arc<LaterAnswer>>,
}

impl Responder {
    pub(crate) fn new(session: &Arc<Session>, ticket: Ticket) -> Self {
        Self {
            session: Arc::clone(session),
            key: ticket.key(),
            ticket: Mutex::new(Some(ticket)),
            later: None,
        }
    }

    /// A responder without a right to answer: of a notification that is served like a request.
    pub(crate) fn none(session: &Arc<Session>) -> Self {
        Self {
            session: Arc::clone(session),
            key: RequestKey::NONE,
            ticket: Mutex::new(None),
            later: None,
        }
    }

    fn with(&self, ticket: Option<Ticket>, later: Option<Arc<LaterAnswer>>) -> Self {
        Self {
            session: Arc::clone(&self.session),
            key: self.key,
            ticket: Mutex::new(ticket),
            later,
        }
    }

    /// Takes the right to answer out of this responder, which answers nothing any more. `later` learns
    /// what is answered.
    pub(crate) fn split_off(&self, later: Option<Arc<LaterAnswer>>) -> Self {
        self.with(self.lock_ticket().take(), later)
    }

    /// Reports why a request failed, where the peer is not told.
    pub(crate) fn report_failure(&self, error: OwnedError) {
        if let Some(ticket) = &*self.lock_ticket() {
            self.session
                .act(|state| state.conn.report_failure(ticket, error));
        }
    }

    /// Reports that the params of a request or a notification are not what its handler takes.
    pub(crate) fn report_invalid_params(&self, method: &str, error: DecodeError) {
        match &*self.lock_ticket() {
            Some(ticket) => self
                .session
                .act(|state| state.conn.report_invalid_params(ticket, error)),
            None if self.key == RequestKey::NONE => {
                let about = RequestDetails::of_notification(method);
                self.session.report(Report::InvalidParams(about, error));
            }
            // Somebody else answers it.
            None => {}
        }
    }

    fn lock_ticket(&self) -> MutexGuard<'_, Option<Ticket>> {
        self.ticket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names the same request, and answers nothing.
    pub(crate) fn without_ticket(&self) -> Self {
        self.with(None, None)
    }

    fn take_ticket(&mut self) -> Option<Ticket> {
        let ticket = self.ticket.get_mut();
        ticket.unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Answers with a result. If that is refused, because the value has no JSON form or is too
    /// large, the peer gets *internal error* instead, and the service a report.
    ///
    /// # Errors
    /// What was wrong with the result; [`SendError::Closed`] or [`SendError::NotOpen`] if nobody
    /// waits for it any more.
    pub fn ok(self, result: impl Payload) -> Result<(), SendError> {
        // If the value's own code panics, `drop` answers.
        self.answer_with(Ok(Answer::new(result)))
    }

    /// Answers with what a handler returned.
    pub(crate) fn answer_with(
        mut self,
        answer: Result<Answer, OwnedError>,
    ) -> Result<(), SendError> {
        let given = match &answer {
            Ok(Answer(Some(Ok(_)))) => Given::Result,
            Ok(_) => Given::Error(ErrorObject::internal_error().code()),
            Err(error) => Given::Error(error.code()),
        };
        self.answer(given, |conn, ticket| write(conn, ticket, &answer))
    }

    /// Answers for a handler that panicked, and reports that.
    pub(crate) fn panicked(mut self) {
        let ticket = self.take_ticket();
        if ticket.is_some() {
            self.give(Given::Instead(PANICKED));
        }
        self.session.act(|state| match ticket {
            Some(ticket) => state.conn.handle_panic(Some(ticket)),
            // The panic has dropped its responder, which has answered.
            None => {
                let request = state.take_panicked();
                state.conn.report(Report::Panicked(request));
            }
        });
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn err(mut self, error: &ErrorObject<'_>) -> Result<(), SendError> {
        let given = Given::Error(error.code());
        self.answer(given, |conn, ticket| conn.respond_err(ticket, error))
    }

    /// Answers that nobody serves `method`.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn unknown_method(mut self, method: &str) -> Result<(), SendError> {
        let given = Given::Error(ErrorObject::method_not_found().code());
        self.answer(given, |conn, ticket| {
            conn.respond_unknown_method(ticket, method)
        })
    }

    /// Answers that the request was cancelled, as the dialect says it.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn cancelled(mut self) -> Result<(), SendError> {
        self.answer(Given::Instead(CANCELLED), |conn, ticket| {
            conn.respond_cancelled(ticket)
        })
    }

    /// Passes on how a call to somebody else ended: a result and an error as they stood, anything
    /// else as *internal error*.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn outcome(self, outcome: &OwnedOutcome) -> Result<(), SendError> {
        match outcome {
            OwnedOutcome::Ok(result) => self.ok(result.as_json()),
            OwnedOutcome::Err(error) => self.err(&error.as_error()),
            _ => self.err(&ErrorObject::internal_error()),
        }
    }

    /// Goes on with the request on a thread of the connection's [`Pool`](crate::Pool). If too much
    /// waits there the request is answered *busy*; if it is cancelled while it waits, it is
    /// answered so and `work` is dropped. A panic in `work` answers *internal error*. While `work`
    /// waits, no notification that came in behind the request is served.
    pub fn spawn(self, work: impl FnOnce(Responder) + Send + 'static) {
        let unbegun = Unbegun::new(&self.session);
        let session = Arc::clone(&self.session);
        // The responder stays where it can be reached if the pool refuses.
        let slot = Arc::new(Mutex::new(Some(self)));
        let inside = Arc::clone(&slot);
        let job = move || {
            drop(unbegun);
            let Some(reply) = take(&inside) else { return };
            let session = Arc::clone(&reply.session);
            if reply.is_cancelled() {
                // A connection that has closed in the meantime awaits no answer.
                let _ = reply.cancelled();
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| work(reply))).is_err() {
                let request = session.take_panicked();
                session.report(Report::Panicked(request));
            }
        };
        if let Err(job) = session.options().pool.run(Box::new(job)) {
            let reply = take(&slot);
            if let Some(mut reply) = reply {
                if let Some(ticket) = reply.take_ticket() {
                    session.answer(|conn| conn.refuse(ticket));
                    let profile = session.options().config.dialect.error_profile;
                    reply.give(Given::Error(profile.busy().code()));
                }
            }
            drop(job);
        }
    }

    /// Names the request, for comparing with what tells a service of a cancel.
    pub fn key(&self) -> RequestKey {
        self.key
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Ready when the peer gives the request up, or the connection ends.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::new(&self.session, self.key)
    }

    /// Whether nobody waits for the answer any more: the peer gave the request up, or the
    /// connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.session.lock().is_cancelled(self.key)
    }

    fn answer(
        &mut self,
        given: Given,
        write: impl FnOnce(&mut Conn, Ticket) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        // Without it somebody else answers.
        let ticket = self.take_ticket().ok_or(SendError::NotOpen)?;
        let answered = self.session.answer(|conn| write(conn, ticket));
        self.give(match answered {
            Err(SendError::Closed | SendError::NotOpen) => Given::Instead(CANCELLED),
            Err(_) => Given::Error(ErrorObject::internal_error().code()),
            Ok(()) => given,
        });
        answered
    }

    /// Tells who wants to know what was answered.
    fn give(&mut self, given: Given) {
        if let Some(later) = self.later.take() {
            later.give(given);
        }
    }
}

fn write(
    conn: &mut Conn,
    ticket: Ticket,
    answer: &Result<Answer, OwnedError>,
) -> Result<(), SendError> {
    match answer {
        Ok(Answer(Some(Ok(text)))) => conn.respond(ticket, text.all()),
        Ok(Answer(Some(Err(error)))) => {
            conn.refuse_answer(ticket, error.clone());
            Err(error.clone())
        }
        Ok(Answer(None)) => {
            conn.abandon(ticket);
            Ok(())
        }
        Err(error) => {
            if error.source().is_some() {
                conn.report_failure(&ticket, error.clone());
            }
            conn.respond_err(ticket, &error.as_error())
        }
    }
}

/// What a handler has returned, until the connection's next turn sends it.
pub(crate) struct Answered {
    pub(crate) responder: Responder,
    pub(crate) answer: Result<Answer, OwnedError>,
}

impl Answered {
    /// Sends it. Nothing of the program's runs meanwhile.
    pub(crate) fn send(mut self, conn: &mut Conn) {
        if let Some(ticket) = self.responder.take_ticket() {
            // A connection that has closed in the meantime awaits no answer.
            let _ = write(conn, ticket, &self.answer);
        }
    }
}

/// Work that waits for a thread, or for the decision whether it may begin. Dropped when it begins, or
/// never will. No notification behind it is served before.
pub(crate) struct Unbegun {
    session: Arc<Session>,
}

impl Unbegun {
    pub(crate) fn new(session: &Arc<Session>) -> Self {
        session.act(|state| state.conn.postpone());
        Self {
            session: Arc::clone(session),
        }
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        self.session.act(|state| state.conn.handle_begun());
    }
}

fn take(slot: &Mutex<Option<Responder>>) -> Option<Responder> {
    let slot = slot.lock();
    slot.unwrap_or_else(PoisonError::into_inner).take()
}

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(ticket) = self.take_ticket() else {
            return;
        };
        let is_cancelled = self.later.is_some() && self.is_cancelled();
        self.give(match (thread::panicking(), is_cancelled) {
            (true, _) => Given::Instead(PANICKED),
            (false, true) => Given::Instead(CANCELLED),
            (false, false) => Given::Error(ErrorObject::internal_error().code()),
        });
        if thread::panicking() {
            self.session.act(|state| {
                let request = state.conn.answer_for(ticket);
                state.note_panicked(request);
            });
        } else {
            self.session.answer(|conn| conn.abandon(ticket));
        }
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({:?})", self.key)
    }
}
