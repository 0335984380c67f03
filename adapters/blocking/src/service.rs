//! What serves: the [`Service`] that a program writes, and the [`Responder`] that it answers with.
//!
//! The rule guarded here: every request is answered exactly once, whatever the service does. A
//! responder that is dropped, in a panic or by an oversight, answers *internal error*.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use antiphon::{
    Closed, Connection, ErrorObject, Json, Malformed, MalformedCause, Origin, OwnedId,
    OwnedNotification, OwnedOutcome, Payload, Refused, RefusedCause, Rejected, ReplyToken,
    RequestKey, SendError, Stray, StrayKind,
};

use crate::peer::Peer;
use crate::shared::{Shared, Tag};

/// The most bytes of a malformed message that a report keeps.
const REPORT_TEXT_BYTES_MAX: usize = 1024;

/// What answers the peer.
///
/// The methods are called on one thread per connection, in the order in which the messages came
/// in. A method that blocks holds up the messages behind it, but neither the answers to our own
/// calls nor time nor output: a handler may call the peer and wait. Long work belongs in
/// [`Responder::spawn`].
///
/// A panic in any of them is caught: the request is answered *internal error* and the service is
/// used on. `()` is the service that knows no method.
pub trait Service: Send + 'static {
    /// The connection is there. The first call.
    fn opened(&mut self, peer: &Peer) {
        let _ = peer;
    }

    /// The peer asks something.
    fn request(&mut self, peer: &Peer, request: Request, reply: Responder) {
        let _ = peer;
        // A connection that has closed in the meantime awaits no answer.
        let _ = reply.unknown_method(request.method());
    }

    /// The peer tells something.
    fn notification(&mut self, peer: &Peer, notification: OwnedNotification) {
        let _ = (peer, notification);
    }

    /// The peer gave up a request that the service has begun; the responder's
    /// [`is_cancelled`](Responder::is_cancelled) says so too, and at once. It is still to be
    /// answered, unless it has been by now: whatever comes first decides. A request that had not
    /// begun never reaches the service.
    fn cancelled(&mut self, peer: &Peer, request: RequestKey, reason: Option<Json<'_>>) {
        let _ = (peer, request, reason);
    }

    /// Something went wrong that the peer was not, or not fully, told. Ignored unless written.
    fn report(&mut self, peer: &Peer, report: Report) {
        let _ = (peer, report);
    }

    /// The connection is over. The last call.
    fn closed(&mut self, peer: &Peer, why: Closed) {
        let _ = (peer, why);
    }
}

impl Service for () {}

/// What the peer asks: a request without the right to answer it, which the [`Responder`] has.
#[derive(Clone, Debug)]
pub struct Request {
    message: OwnedNotification,
}

impl Request {
    pub(crate) fn new(message: OwnedNotification) -> Self {
        Self { message }
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
/// *internal error*. After the connection has closed, answering does nothing and says so.
#[must_use = "dropping a responder answers an internal error"]
pub struct Responder {
    shared: Arc<Shared>,
    key: RequestKey,
    token: Option<ReplyToken>,
    is_answered: bool,
    /// How many bytes the request had.
    bytes: usize,
}

impl Responder {
    pub(crate) fn new(shared: Arc<Shared>, token: ReplyToken, bytes: usize) -> Self {
        Self {
            shared,
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
    pub fn ok(self, result: impl Payload) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond(token, result))
    }

    /// Answers with an error.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn err(self, error: &ErrorObject<'_>) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond_err(token, error))
    }

    /// Answers that nobody serves `method`.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn unknown_method(self, method: &str) -> Result<(), SendError> {
        self.answer(|conn, token| conn.respond_unknown_method(token, method))
    }

    /// Answers that the request was cancelled, as the dialect says it.
    ///
    /// # Errors
    /// As [`ok`](Self::ok).
    pub fn cancelled(self) -> Result<(), SendError> {
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
    /// answered so and `work` is dropped. A panic in `work` answers *internal error*.
    pub fn spawn(self, work: impl FnOnce(Responder) + Send + 'static) {
        let shared = Arc::clone(&self.shared);
        // The responder stays where it can be reached if the pool refuses.
        let slot = Arc::new(std::sync::Mutex::new(Some(self)));
        let inside = Arc::clone(&slot);
        let job = move || {
            let Some(reply) = take(&inside) else { return };
            let shared = Arc::clone(&reply.shared);
            if reply.is_cancelled() {
                // A connection that has closed in the meantime awaits no answer.
                let _ = reply.cancelled();
                return;
            }
            if catch_unwind(AssertUnwindSafe(|| work(reply))).is_err() {
                shared.turn(|state| state.queue.push_report(Report::Panicked, 0));
                shared.work.notify_one();
            }
        };
        if let Err(job) = shared.options.pool.run(Box::new(job)) {
            if let Some(reply) = take(&slot) {
                // A connection that has closed in the meantime awaits no answer.
                let _ = reply.err(&ErrorObject::server_busy());
            }
            drop(job);
        }
    }

    /// Names the request, for comparing with [`Service::cancelled`].
    pub fn key(&self) -> RequestKey {
        self.key
    }

    /// The other side, to notify or call before the answer.
    pub fn peer(&self) -> Peer {
        Peer::unowned(Arc::clone(&self.shared))
    }

    /// Whether nobody waits for the answer any more: the peer gave the request up, or the
    /// connection has ended.
    pub fn is_cancelled(&self) -> bool {
        let state = self.shared.lock();
        state.finished.is_some() || state.cancelled.contains(&self.key)
    }

    /// Waits until the request is cancelled, at most `span`: the way to pause that a cancel ends.
    /// Says whether it is cancelled.
    pub fn wait_cancelled(&self, span: Duration) -> bool {
        let deadline = self.shared.now() + span;
        let mut state = self.shared.lock();
        loop {
            if state.finished.is_some() || state.cancelled.contains(&self.key) {
                return true;
            }
            if self.shared.now() >= deadline {
                return false;
            }
            state = self.shared.wait_changed(state, deadline);
        }
    }

    fn answer(
        mut self,
        write: impl FnOnce(&mut Connection<Tag>, ReplyToken) -> Result<(), Rejected<ReplyToken>>,
    ) -> Result<(), SendError> {
        let Some(token) = self.token.take() else {
            return Err(SendError::NotOpen);
        };
        // A panic in the result's `Serialize` leaves the answer to `drop`.
        let (key, bytes) = (self.key, self.bytes);
        let answered = self.shared.turn(|state| {
            let answered = write(&mut state.conn, token);
            if answered.is_ok() {
                state.let_go(key, bytes);
            }
            answered
        });
        self.is_answered = answered.is_ok();
        answered.map_err(|rejected| rejected.error)
    }
}

fn take(slot: &std::sync::Mutex<Option<Responder>>) -> Option<Responder> {
    let slot = slot.lock();
    slot.unwrap_or_else(std::sync::PoisonError::into_inner)
        .take()
}

impl Drop for Responder {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        let (key, bytes) = (self.key, self.bytes);
        self.shared.turn(|state| {
            state.let_go(key, bytes);
            // Refused only where nobody waits for it any more.
            state.conn.abandon(key);
        });
    }
}

impl fmt::Debug for Responder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Responder({:?})", self.key)
    }
}

/// Something that went wrong, for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum Report {
    /// A message was not valid. See [`antiphon::Malformed`].
    Malformed {
        /// What was wrong.
        cause: MalformedCause,
        /// The message, or its first 1024 bytes.
        text: Vec<u8>,
        /// Where in the message the cause was found, in bytes from its start.
        offset: usize,
        /// The id, where one was readable.
        id: Option<OwnedId>,
        /// The code of the error sent to the peer, if one was.
        answered: Option<i64>,
    },
    /// A valid message was over a limit. See [`antiphon::Refused`].
    Refused {
        /// The limit.
        cause: RefusedCause,
        /// The method, where there was one.
        method: Option<String>,
        /// The id, where there was one.
        id: Option<OwnedId>,
        /// The code of the error sent to the peer, if one was.
        answered: Option<i64>,
    },
    /// A message fitted nothing open. See [`antiphon::Stray`].
    Stray {
        /// Why it fitted nothing, and what it said.
        kind: StrayReport,
        /// Its id, where it had one.
        id: Option<OwnedId>,
    },
    /// A request was answered *busy*, because too many bytes wait for the service.
    QueueFull,
    /// The service was too slow: this many notifications and reports were dropped here.
    Dropped {
        /// How many.
        messages: u64,
    },
    /// The transport failed. A failure after the connection was meant to end is not reported.
    Io(io::Error),
    /// The service panicked. The request, if it was one, has been answered *internal error*.
    Panicked,
}

/// [`antiphon::StrayKind`] with its own parts.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StrayReport {
    /// An answer to a call that had settled.
    Late(OwnedOutcome),
    /// An answer with an id that was never sent.
    Unknown(OwnedOutcome),
    /// An answer without an id.
    NullId(OwnedOutcome),
    /// A cancel for nothing.
    Cancel,
}

impl Report {
    /// The report, and how many of the peer's bytes it holds.
    pub(crate) fn malformed(malformed: Malformed<'_>) -> (Self, usize) {
        let bytes = malformed.text.len().min(REPORT_TEXT_BYTES_MAX);
        let report = Self::Malformed {
            cause: malformed.cause,
            text: malformed.text[..bytes].to_vec(),
            offset: malformed.offset,
            id: malformed.id.map(Into::into),
            answered: malformed.answered,
        };
        (
            report,
            malformed.origin.bytes.min(2 * REPORT_TEXT_BYTES_MAX),
        )
    }

    /// The report, and how many of the peer's bytes it holds.
    pub(crate) fn refused(refused: Refused<'_>) -> (Self, usize) {
        let method = refused.method.as_ref().map_or(0, |method| method.len());
        let id = refused.id.map_or(0, |id| id.text().len());
        let report = Self::Refused {
            cause: refused.cause,
            method: refused.method.map(|method| method.into_owned()),
            id: refused.id.map(Into::into),
            answered: refused.answered,
        };
        (report, method + id)
    }

    /// The report, and how many of the peer's bytes it holds.
    pub(crate) fn stray(stray: Stray<'_>) -> (Self, usize) {
        let kind = match stray.kind {
            StrayKind::Late(outcome) => StrayReport::Late(outcome.into_owned()),
            StrayKind::Unknown(outcome) => StrayReport::Unknown(outcome.into_owned()),
            StrayKind::NullId(outcome) => StrayReport::NullId(outcome.into_owned()),
            _ => StrayReport::Cancel,
        };
        let report = Self::Stray {
            kind,
            id: stray.id.map(Into::into),
        };
        (report, stray.origin.bytes)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { cause, offset, .. } => {
                write!(f, "a malformed message: {cause:?}, at byte {offset}")
            }
            Self::Refused { cause, method, .. } => {
                write!(f, "a refused message: {cause:?}")?;
                match method {
                    Some(method) => write!(f, " ({method})"),
                    None => Ok(()),
                }
            }
            Self::Stray { kind, id } => {
                write!(f, "a stray message: {kind:?}")?;
                match id {
                    Some(id) => write!(f, " (id {id})"),
                    None => Ok(()),
                }
            }
            Self::QueueFull => f.write_str("a request refused: too many bytes wait"),
            Self::Dropped { messages } => write!(f, "{messages} messages dropped"),
            Self::Io(error) => write!(f, "the transport failed: {error}"),
            Self::Panicked => f.write_str("the service panicked"),
        }
    }
}
