//! A request in a handler's hands: what is asked, and the right to answer it.
//!
//! Every request is answered exactly once, whatever the handler does. A responder that is dropped,
//! in a panic or by an oversight, answers *internal error*; after the peer has given the request up
//! it answers that, as the dialect says it.

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use antiphon::session::{self, Ticket};
use antiphon::{
    ErrorObject, Json, Origin, OwnedNotification, OwnedOutcome, Payload, RequestKey, SendError,
};

use crate::runtime::threads::{block_on, within};
use crate::session::{Conn, Session};
use crate::text::Text;

/// What the peer asks: a request without the right to answer it, which the [`Responder`] has.
#[derive(Clone, Debug)]
pub struct Request {
    message: OwnedNotification,
}

impl Request {
    /// Makes the request, and the right to answer it, from a session's work.
    pub fn new(
        session: &Arc<Session>,
        message: OwnedNotification,
        ticket: Ticket,
    ) -> (Self, Responder) {
        let reply = Responder {
            session: Arc::clone(session),
            key: ticket.key(),
            ticket: Some(ticket),
        };
        (Self { message }, reply)
    }

    /// The method asked for.
    pub fn method(&self) -> &str {
        self.message.method()
    }

    /// The params, an array or an object, if any were given.
    pub fn params(&self) -> Option<Json<'_>> {
        self.message.params()
    }

    /// Where the request stood.
    pub fn origin(&self) -> Origin {
        self.message.origin()
    }
}

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
    /// `None` once the request is answered.
    ticket: Option<Ticket>,
}

impl Responder {
    /// Answers with a result. If that is refused, because the value has no JSON form or is too
    /// large, the peer gets *internal error* instead.
    ///
    /// # Errors
    /// What was wrong with the result; [`SendError::Closed`] or [`SendError::NotOpen`] if nobody
    /// waits for it any more.
    pub fn ok(mut self, result: impl Payload) -> Result<(), SendError> {
        // If the value's own code panics, `drop` answers.
        match Text::of(result) {
            Ok(text) => self.answer(|conn, ticket| conn.respond(ticket, text.all())),
            Err(error) => {
                self.answer(|conn, ticket| {
                    conn.abandon(ticket);
                    Ok(())
                })?;
                Err(error)
            }
        }
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn err(mut self, error: &ErrorObject<'_>) -> Result<(), SendError> {
        self.answer(|conn, ticket| conn.respond_err(ticket, error))
    }

    /// Answers that nobody serves `method`.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn unknown_method(mut self, method: &str) -> Result<(), SendError> {
        self.answer(|conn, ticket| conn.respond_unknown_method(ticket, method))
    }

    /// Answers that the request was cancelled, as the dialect says it.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn cancelled(mut self) -> Result<(), SendError> {
        self.answer(|conn, ticket| conn.respond_cancelled(ticket))
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
                session.report(session::Report::Panicked(request));
            }
        };
        if let Err(job) = session.options().pool.run(Box::new(job)) {
            let reply = take(&slot);
            if let Some(ticket) = reply.and_then(|mut reply| reply.ticket.take()) {
                session.answer(|conn| conn.refuse(ticket));
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

    /// Whether nobody waits for the answer any more: the peer gave the request up, or the
    /// connection has ended.
    pub fn is_cancelled(&self) -> bool {
        self.session.lock().is_cancelled(self.key)
    }

    /// Lets the thread wait until the request is cancelled, at most `span`: the way to pause that
    /// a cancel ends. Says whether it is cancelled.
    pub fn wait_cancelled(&self, span: Duration) -> bool {
        let cancelled = poll_fn(|cx| self.poll_cancelled(cx.waker()));
        block_on(within(span, cancelled)).is_some()
    }

    /// Polls for the cancel of the request: pending until it comes, which wakes `waker`.
    pub fn poll_cancelled(&self, waker: &Waker) -> Poll<()> {
        self.session
            .poll_until(waker, |state| state.is_cancelled(self.key).then_some(()))
    }

    fn answer(
        &mut self,
        write: impl FnOnce(&mut Conn, Ticket) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        let ticket = &mut self.ticket;
        self.session.answer(|conn| match ticket.take() {
            Some(ticket) => write(conn, ticket),
            None => Err(SendError::NotOpen),
        })
    }
}

/// Work that waits for a thread. Dropped when it begins, or never will.
struct Unbegun {
    session: Arc<Session>,
}

impl Unbegun {
    fn new(session: &Arc<Session>) -> Self {
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
        let Some(ticket) = self.ticket.take() else {
            return;
        };
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

/// Ready when a request that has begun is cancelled by the peer, or its connection has ended: for
/// a handler to stop at.
///
/// ```no_run
/// # async fn example(reply: antiphon_net::Responder) {
/// antiphon_net::cancelled(&reply).await;
/// // The peer awaits an answer all the same; the dialect says which.
/// let _ = reply.cancelled();
/// # }
/// ```
pub async fn cancelled(reply: &Responder) {
    poll_fn(|cx| reply.poll_cancelled(cx.waker())).await;
}
