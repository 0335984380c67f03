//! The right to answer a request later.
//!
//! Every request is answered exactly once, whatever the handler does. If a responder is dropped, in
//! a panic or by mistake, it answers *internal error*; or, if the peer has cancelled the request,
//! that the request was cancelled.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::thread;

use antiphon::session::{Report, RequestDetails, Ticket};
use antiphon::{
    DecodeError, ErrorObject, Failures, OwnedError, OwnedOutcome, Payload, RequestKey, SendError,
};

use crate::guard::contained;
use crate::lock::Lock;
use crate::peer::Peer;
use crate::serve::answer::Answer;
use crate::serve::cancellation::Cancellation;
use crate::serve::later_answer::{Given, LaterAnswer};
use crate::session::{CancelFlag, Conn, Session, State};

const CANCELLED: &str = "cancelled";
const PANICKED: &str = "panicked";

/// The right and the duty to answer one request.
///
/// It can be sent to any thread, and be kept as long as the connection lives. If it is dropped, it
/// answers *internal error*, or that the request was cancelled, if the peer has cancelled it. After
/// the connection has closed, answering returns an error. If the dialect wants no answer to
/// cancelled requests, as MCP, answering one does nothing and is no error.
#[must_use = "dropping a responder answers an internal error"]
pub struct Responder {
    session: Arc<Session>,
    key: RequestKey,
    /// `None` if the request was answered or another responder answers it, and for a notification.
    ticket: Lock<Option<Ticket>>,
    /// The observer of the answer; `None` without interceptors.
    later: Option<Arc<LaterAnswer>>,
    /// Remembers a cancel after another responder has answered; not set while there is no other.
    flag: OnceLock<CancelFlag>,
    /// Where a panic leaves the right to answer, for who catches it and knows what it says.
    rescue: Option<Rescue>,
}

/// The place of a responder, until somebody takes it.
type Rescue = Arc<Lock<Option<Responder>>>;

impl Responder {
    pub(crate) fn new(session: &Arc<Session>, ticket: Ticket) -> Self {
        Self::of(session, ticket.key(), Some(ticket))
    }

    /// Makes a responder without a right to answer, for a notification that is handled like a
    /// request.
    pub(crate) fn none(session: &Arc<Session>) -> Self {
        Self::of(session, RequestKey::NONE, None)
    }

    fn of(session: &Arc<Session>, key: RequestKey, ticket: Option<Ticket>) -> Self {
        Self {
            session: Arc::clone(session),
            key,
            ticket: Lock::new(ticket),
            later: None,
            flag: OnceLock::new(),
            rescue: None,
        }
    }

    fn with(&self, ticket: Option<Ticket>, later: Option<Arc<LaterAnswer>>) -> Self {
        let mut made = Self::of(&self.session, self.key, ticket);
        (made.later, made.flag) = (later, Arc::clone(self.flag()).into());
        made
    }

    pub(crate) fn later(&self) -> Option<Arc<LaterAnswer>> {
        self.later.clone()
    }

    fn flag(&self) -> &CancelFlag {
        self.flag
            .get_or_init(|| self.session.lock().cancel_flag(self.key))
    }

    /// Takes the right to answer out of this responder, which then answers nothing, into a new one.
    /// The answer is also reported to `later`.
    pub(crate) fn split_off(&self, later: Option<Arc<LaterAnswer>>) -> Self {
        self.with(self.ticket.lock().take(), later)
    }

    /// Reports to the service why a request failed, if the request is still open.
    pub(crate) fn report_failure(&self, error: OwnedError) {
        if let Some(ticket) = &*self.ticket.lock() {
            self.session
                .act(|state| state.conn.report_failure(ticket, error));
        }
    }

    /// Reports that the params of a request or a notification do not fit its handler.
    pub(crate) fn report_invalid_params(&self, method: &str, error: DecodeError) {
        match &*self.ticket.lock() {
            Some(ticket) => self
                .session
                .act(|state| state.conn.report_invalid_params(ticket, error)),
            None if self.key == RequestKey::NONE => {
                let about = RequestDetails::of_notification(method);
                self.session.report(Report::InvalidParams(about, error));
            }
            // Another responder answers it.
            None => {}
        }
    }

    /// Reports that nobody serves a request, if it is still open, or a notification.
    pub(crate) fn report_unserved(&self, method: &str) {
        match &*self.ticket.lock() {
            // Another responder answers it.
            None if self.key != RequestKey::NONE => {}
            ticket => self
                .session
                .act(|state| state.conn.report_unserved(method, ticket.as_ref())),
        }
    }

    /// Returns a responder for the same request that answers nothing.
    pub(crate) fn without_ticket(&self) -> Self {
        self.with(None, None)
    }

    fn take_ticket(&mut self) -> Option<Ticket> {
        self.ticket.get_mut().take()
    }

    /// Answers with a result. If the value has no JSON form or is too large, the peer gets
    /// *internal error* instead, and the service a report.
    ///
    /// # Errors
    /// Why the result could not be sent; [`SendError::Closed`] or [`SendError::NotOpen`] if no
    /// answer is awaited any more.
    pub fn ok(self, result: impl Payload) -> Result<(), SendError> {
        // If the value's own code panics, `drop` answers.
        self.answer_with(Ok(Answer::new(result)))
    }

    /// Answers with the value that a handler returned.
    pub(crate) fn answer_with(
        mut self,
        answer: Result<Answer, OwnedError>,
    ) -> Result<(), SendError> {
        let answer = self.told(answer);
        let given = match &answer {
            Ok(Answer(Some(Ok(text)))) => Given::Result(text.len()),
            Ok(_) => Given::error(&self.failures().error()),
            Err(error) => Given::error(&error.as_error()),
        };
        self.answer(given, |conn, ticket| write(conn, ticket, &answer))
    }

    /// What the peer is told if serving the request fails.
    pub(crate) fn failures(&self) -> Failures {
        let ticket = self.ticket.lock();
        let of_all = || self.session.dialect().failures;
        ticket.as_ref().map_or_else(of_all, Ticket::failures)
    }

    /// Decides what the peer is told if serving the request fails.
    pub(crate) fn set_failures(&self, failures: Failures) {
        if let Some(ticket) = &mut *self.ticket.lock() {
            ticket.set_failures(failures);
        }
    }

    /// Replaces an error by the one that the peer is told.
    pub(crate) fn told(&self, answer: Result<Answer, OwnedError>) -> Result<Answer, OwnedError> {
        answer.map_err(|error| self.failures().told(error))
    }

    /// Answers for a handler that panicked with this payload, and reports that.
    pub(crate) fn panicked(mut self, payload: Box<dyn Any + Send>) {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        let ticket = self.take_ticket();
        if ticket.is_some() {
            self.give(Given::Instead(PANICKED));
        }
        self.session.act(|state| match ticket {
            Some(ticket) => state
                .conn
                .handle_panic(Some(ticket), text.unwrap_or("the handler panicked")),
            // The panic has dropped the responder, which has answered.
            None => {
                let request = state.take_panicked();
                state.conn.report(Report::Panicked(request));
            }
        });
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// See [`ok`](Self::ok).
    pub fn err(mut self, error: &ErrorObject<'_>) -> Result<(), SendError> {
        let given = Given::error(error);
        self.answer(given, |conn, ticket| conn.respond_err(ticket, error))
    }

    /// Answers that `method` is unknown.
    ///
    /// # Errors
    /// See [`ok`](Self::ok).
    pub fn unknown_method(mut self, method: &str) -> Result<(), SendError> {
        let given = Given::error(&ErrorObject::method_not_found());
        self.answer(given, |conn, ticket| {
            conn.respond_unknown_method(ticket, method)
        })
    }

    /// Answers that the request was cancelled, with the dialect's error.
    ///
    /// # Errors
    /// See [`ok`](Self::ok).
    pub fn cancelled(mut self) -> Result<(), SendError> {
        self.answer(Given::Instead(CANCELLED), |conn, ticket| {
            conn.respond_cancelled(ticket)
        })
    }

    /// Passes on the outcome of a call to another peer: a result and an error unchanged, any other
    /// outcome as *internal error*, with the code that [`failures`](antiphon::Dialect::failures) say.
    ///
    /// # Errors
    /// See [`ok`](Self::ok).
    pub fn outcome(self, outcome: &OwnedOutcome) -> Result<(), SendError> {
        match outcome {
            OwnedOutcome::Ok(result) => self.ok(result.as_json()),
            OwnedOutcome::Err(error) => self.err(&error.as_error()),
            _ => {
                let error = self.failures().error();
                self.err(&error)
            }
        }
    }

    /// Runs `work` on a thread of the connection's [`Pool`](crate::Pool), with this responder. If
    /// too many jobs wait there, the request is answered *busy*. If the request is cancelled while
    /// `work` waits, it is answered as cancelled, and `work` is dropped. A panic in `work` answers
    /// *internal error*. While `work` waits for a thread, notifications after the request are not
    /// handled.
    pub fn spawn(self, work: impl FnOnce(Responder) + Send + 'static) {
        let unbegun = Unbegun::new(&self.session);
        let session = Arc::clone(&self.session);
        // The responder is in a slot, so that it can be used if the pool refuses.
        let slot = Arc::new(Lock::new(Some(self)));
        let inside = Arc::clone(&slot);
        let job = move || {
            drop(unbegun);
            let Some(mut reply) = inside.lock().take() else {
                return;
            };
            let session = Arc::clone(&reply.session);
            if reply.is_cancelled() {
                // If the connection has closed meanwhile, no answer is awaited.
                let _ = reply.cancelled();
                contained(Some(&*session), || drop(work));
                return;
            }
            reply.rescue = Some(Arc::clone(&inside));
            let answered = reply.without_ticket();
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(reply))) {
                let rescued = inside.lock().take();
                rescued.unwrap_or(answered).panicked(payload);
            }
        };
        if let Err(job) = session
            .options()
            .pool
            .run_for(session.jobs(), Box::new(job))
        {
            let reply = slot.lock().take();
            if let Some(mut reply) = reply {
                if let Some(ticket) = reply.take_ticket() {
                    session.answer(|conn| conn.refuse(ticket));
                    let profile = session.dialect().error_profile;
                    reply.give(Given::error(&profile.busy()));
                }
            }
            drop(job);
        }
    }

    /// Identifies the request, to be compared with the key in
    /// [`cancelled`](crate::Service::cancelled).
    pub fn key(&self) -> RequestKey {
        self.key
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// A future that is ready when the peer cancels the request, or the connection ends.
    pub fn cancellation(&self) -> Cancellation {
        Cancellation::new(&self.session, self.key, Arc::clone(self.flag()))
    }

    /// Whether the peer has cancelled the request, or the connection has ended.
    pub fn is_cancelled(&self) -> bool {
        let flag = self.flag.get();
        flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
            || self.session.lock().is_cancelled(self.key)
    }

    fn answer(
        &mut self,
        given: Given,
        write: impl FnOnce(&mut Conn, Ticket) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        // Without the ticket another responder answers.
        let ticket = self.take_ticket().ok_or(SendError::NotOpen)?;
        let failures = ticket.failures();
        let answered = self.session.act(|state| {
            let answered = write(&mut state.conn, ticket);
            let is_result = answered.is_ok() && matches!(given, Given::Result(_));
            state.sinks.decide(self.key, is_result);
            answered
        });
        self.give(match answered {
            Err(SendError::Closed | SendError::NotOpen) => Given::Instead(CANCELLED),
            Err(_) => Given::error(&failures.error()),
            Ok(()) => given,
        });
        answered
    }

    /// Passes the answer to its observer.
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
        // The handler says that it answers later, but has not taken the right to answer.
        Ok(Answer(None)) => {
            conn.abandon(ticket);
            Ok(())
        }
        Err(error) => {
            if error.source().is_some() {
                conn.report_failure(&ticket, error.clone());
            } else if let Some(why) = error.lost_data() {
                let lost = format!("the data of the error {} was left out: {why}", error.code());
                conn.report_failure(&ticket, OwnedError::internal(lost.into()));
            }
            conn.respond_err(ticket, &error.as_error())
        }
    }
}

/// The answer of a handler, until the connection's next turn sends it.
pub(crate) struct Answered {
    pub(crate) responder: Responder,
    pub(crate) answer: Result<Answer, OwnedError>,
}

impl Answered {
    /// Sends the answer. It runs under the session's lock, and runs no code of the program.
    pub(crate) fn send(mut self, state: &mut State) {
        if let Some(ticket) = self.responder.take_ticket() {
            let sent = write(&mut state.conn, ticket, &self.answer);
            // If the connection has closed meanwhile, no answer is awaited.
            let is_result = sent.is_ok() && matches!(self.answer, Ok(Answer(Some(Ok(_)))));
            state.sinks.decide(self.responder.key, is_result);
        }
    }
}

/// Marks a request that waits for a thread of the pool, for the decision of an interceptor, or for its
/// turn in an inbox. It is dropped when the request begins or never can; until then no notification
/// after the request is served.
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

impl Drop for Responder {
    fn drop(&mut self) {
        let Some(ticket) = self.take_ticket() else {
            return;
        };
        if let Some(slot) = self.rescue.take().filter(|_| thread::panicking()) {
            let rescued = self.with(Some(ticket), self.later.clone());
            *slot.lock() = Some(rescued);
            return;
        }
        let is_cancelled = self.later.is_some() && self.is_cancelled();
        let busy = self.session.dialect().error_profile.busy();
        let makes_way = self.session.makes_way();
        self.give(match (thread::panicking(), is_cancelled) {
            (true, _) => Given::Instead(PANICKED),
            (false, true) => Given::Instead(CANCELLED),
            (false, false) if makes_way => Given::error(&busy),
            (false, false) => Given::error(&ticket.failures().error()),
        });
        if thread::panicking() {
            self.session.act(|state| {
                let request = state.conn.answer_for(ticket);
                state.note_panicked(request);
            });
        } else if makes_way {
            self.session.answer(|conn| conn.refuse(ticket));
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

impl Peer {
    /// Returns the other side of a request, to notify or call it before the answer. It does not
    /// keep the connection open.
    pub fn of(reply: &Responder) -> Self {
        Self::unowned(Arc::clone(reply.session()))
    }
}
