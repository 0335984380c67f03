//! A request in a handler's hands: what is asked, and the right to answer it.
//!
//! The rule guarded here: every request is answered exactly once, whatever the handler does. A
//! responder that is dropped, in a panic or by an oversight, answers *internal error*; after the peer
//! has given the request up it answers that, as the dialect says it.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use antiphon::{
    Connection, ErrorObject, Instant, Json, Origin, OwnedNotification, OwnedOutcome, OwnedRequest,
    Payload, Rejected, ReplyToken, RequestKey, SendError,
};

use crate::handle::Handle;
use crate::report::Report;
use crate::reported::MethodName;
use crate::session::{Session, Signal, State, Tag};
use crate::spare::Shared;

/// What the peer asks: a request without the right to answer it, which the [`Responder`] has.
#[derive(Clone, Debug)]
pub struct Request {
    message: OwnedNotification,
}

impl Request {
    /// Takes a request apart: what is asked, and the right to answer it.
    #[inline]
    pub fn split(session: &Arc<Session>, request: OwnedRequest) -> (Self, Responder) {
        let bytes = request.origin().bytes;
        let method = MethodName::new(request.method());
        let (token, message) = request.split();
        let session = Shared::of(session);
        (
            Self { message },
            Responder::new(session, token, bytes, method),
        )
    }

    /// Answers a request that was given up before it has begun: as cancelled, and the service is not told.
    #[cold]
    pub fn give_up(session: &Arc<Session>, request: OwnedRequest) {
        let (_, reply) = Self::split(session, request);
        // A connection that has closed in the meantime awaits no answer.
        let _ = reply.cancelled();
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
    session: Shared,
    key: RequestKey,
    token: Option<ReplyToken>,
    is_answered: bool,
    /// How many bytes the request had.
    bytes: usize,
    /// For a report: what was asked, and about when.
    method: MethodName,
    begun: Instant,
}

impl Responder {
    fn new(session: Shared, token: ReplyToken, bytes: usize, method: MethodName) -> Self {
        Self {
            begun: session.now_about(),
            method,
            session,
            key: token.key(),
            token: Some(token),
            is_answered: false,
            bytes,
        }
    }

    /// Answers with a result. If that is refused, because the value has no JSON form or is too
    /// large, the peer gets *internal error* instead.
    ///
    /// # Errors
    /// What was wrong with the result; [`SendError::Closed`] or [`SendError::NotOpen`] if nobody
    /// waits for it any more.
    pub fn ok(mut self, result: impl Payload) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond(token, result))
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn err(mut self, error: &ErrorObject<'_>) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond_err(token, error))
    }

    /// Answers that nobody serves `method`.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn unknown_method(mut self, method: &str) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond_unknown_method(token, method))
    }

    /// Answers that the request was cancelled, as the dialect says it.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn cancelled(mut self) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond_cancelled(token))
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
                session.report(Report::Panicked { request });
            }
        };
        if let Err(job) = session.options().pool.run(Box::new(job)) {
            if let Some(reply) = take(&slot) {
                let session = Arc::clone(&reply.session);
                let duration = session.now_about().saturating_since(reply.begun);
                let state = session.lock();
                let profile = state.conn.config().error_profile;
                let about = state.about(reply.key, reply.method.clone(), duration);
                drop(state);
                // A connection that has closed in the meantime awaits no answer.
                let _ = reply.err(&profile.busy());
                if let Some(about) = about {
                    session.report(Report::PoolFull(about));
                }
            }
            drop(job);
        }
    }

    /// Names the request, for comparing with what tells a service of a cancel.
    pub fn key(&self) -> RequestKey {
        self.key
    }

    /// The other side, to notify or call before the answer. An adapter's peer is made of it.
    pub fn handle(&self) -> Handle {
        Handle::of(self)
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
        let deadline = self.session.now() + span;
        let looked = |state: &mut State| state.is_cancelled(self.key).then_some(());
        self.session.wait_until(deadline, looked).is_some()
    }

    /// The same for a task: pending until the request is cancelled.
    pub fn poll_cancelled(&self, waker: &Waker) -> Poll<()> {
        let mut state = self.session.lock();
        if state.is_cancelled(self.key) {
            return Poll::Ready(());
        }
        state.watch(waker);
        Poll::Pending
    }

    fn answer(
        &mut self,
        write: impl FnOnce(&mut Connection<Tag>, ReplyToken) -> Result<(), Rejected<ReplyToken>>,
    ) -> Result<(), SendError> {
        let Some(token) = self.token.take() else {
            return Err(SendError::NotOpen);
        };
        // A panic in the result's `Serialize` leaves the answer to `drop`.
        let (key, bytes) = (self.key, self.bytes);
        let answered = self.session.answer(key, |state| {
            let answered = match write(&mut state.conn, token) {
                // The dialect answers a cancelled request with silence.
                Err(rejected) if rejected.error == SendError::NotOpen && state.is_silenced(key) => {
                    Ok(())
                }
                answered => answered,
            };
            if answered.is_ok() {
                state.let_go(key, bytes);
            }
            answered
        });
        self.is_answered = answered.is_ok();
        answered.map_err(|rejected| rejected.error)
    }
}

/// Work that waits for a thread. Dropped when it begins, or never will.
struct Unbegun {
    session: Arc<Session>,
}

impl Unbegun {
    fn new(session: &Arc<Session>) -> Self {
        session.lock().queue.begin_later();
        Self {
            session: Arc::clone(session),
        }
    }
}

impl Drop for Unbegun {
    fn drop(&mut self) {
        self.session.when_free(|session| {
            let mut state = session.lock();
            if state.queue.note_begun() && !state.queue.is_empty() {
                session.signal(&mut state, Signal::Work);
            }
        });
    }
}

fn take(slot: &Mutex<Option<Responder>>) -> Option<Responder> {
    let slot = slot.lock();
    slot.unwrap_or_else(PoisonError::into_inner).take()
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let (key, bytes) = (self.key, self.bytes);
        let token = self.token.take();
        let method = mem::replace(&mut self.method, MethodName::new(""));
        let (begun, is_panicking) = (self.begun, thread::panicking());
        self.session.when_free(move |session| {
            let duration = session.now_about().saturating_since(begun);
            session.answer(key, |state| {
                let is_cancelled = state.is_cancelled(key);
                if let Some(about) = state.about(key, method, duration) {
                    session.note_unanswered(state, about, is_panicking);
                }
                state.let_go(key, bytes);
                // Each is refused only where nobody waits for it any more.
                match token {
                    Some(token) if is_cancelled => drop(state.conn.respond_cancelled(token)),
                    _ => drop(state.conn.abandon(key)),
                }
            });
        });
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({:?})", self.key)
    }
}
