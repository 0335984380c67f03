//! The session itself: its state, its getters and its commands.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::options::{Order, SessionConfig};
use super::phase::Phase;
use super::queue::{InOrder, Next, Queue, Settled, Work};
use super::report::{Fault, Report, RequestDetails, Unserved};
use super::routes::{CallEnd, Routes};
use super::streams::Diversion;
use super::ticket::{Method, Ticket};
use super::wire::{FramingMismatch, Handshake, Wire};
use crate::config::{Config, Dialect};
use crate::connection::{Batch, Connection, Rejected, SendError};
use crate::encode::Payload;
use crate::event::{CloseReason, Closed, ConnectionError};
use crate::frame::Framing;
use crate::id::{CallId, Id, RequestKey};
use crate::owned::{OwnedNotification, OwnedRequest};
use crate::time::Instant;

/// A [`Connection`] with everything that a driver needs around it: for threads, tasks or tests.
///
/// `W` is the value that a driver keeps for each call until it ends: a slot, a channel, a
/// continuation.
///
/// A session buffers input until a message is whole, returns the work for the service in the order
/// of arrival and within limits, answers for handlers that give no answer, and ends the connection
/// in order, one [`Phase`] after another. It has no lock, clock, waker or I/O. The driver reads,
/// writes, waits and runs handlers, and reports each to the session:
///
/// ```
/// use antiphon::session::{Session, SessionConfig, Wire, Work};
/// use antiphon::{Config, Instant};
///
/// let mut session: Session<()> = Session::new(Config::new().into(), Wire::Stream, Instant::ZERO);
/// session.handle_input(b"{\"jsonrpc\":\"2.0\",\"method\":\"add\",\"params\":[1,2],\"id\":1}\n");
/// while let Some(work) = session.poll_work(true) {
///     if let Work::Request(request, ticket) = work {
///         let [a, b]: [i32; 2] = request.params().unwrap().decode()?;
///         session.respond(ticket, &(a + b))?;
///     }
/// }
/// let mut output = Vec::new();
/// assert!(session.take_transmit(&mut output));
/// assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"result\":3,\"id\":1}\n");
/// session.handle_written();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session<W> {
    pub(super) conn: Connection<W>,
    /// How long input is read and dropped after the end.
    pub(super) linger: Duration,
    /// Which work waits until other work has ended.
    pub(super) order: Order,
    pub(super) ordered: InOrder,
    /// `None` if messages that nobody serves are not reported.
    pub(super) unserved: Option<Unserved>,
    pub(super) wire: Wire,
    pub(super) phase: Phase,
    /// Input that is not a whole message yet.
    pub(super) rest: Vec<u8>,
    /// Whether the bytes so far may still begin an HTTP request.
    pub(super) is_at_start: bool,
    pub(super) queue: Queue<W>,
    /// Whether requests may wait because the peer had to read first. They begin before more is read, or
    /// a peer that reads slowly would be told that its requests are too many.
    pub(super) lags: bool,
    /// Whether the service may be busy: the last [`poll_work`](Self::poll_work) gave it work, or
    /// left work in the queue. True before the first `poll_work`.
    pub(super) is_serving: bool,
    pub(super) settled: VecDeque<Settled<W>>,
    /// The numbers of open calls whose outcome is delivered in order with the service's work.
    pub(super) in_order: BTreeSet<u64>,
    /// The streams that are read; `None` before the first one.
    pub(super) routes: Option<Box<Routes>>,
    /// Notifications that the driver takes; `None` before the first route that it feeds.
    pub(super) diverted: Option<Box<Diversion>>,
    /// The data of the handshake; `None` before messages can be exchanged. Empty once it was taken.
    pub(super) handshake: Option<Handshake>,
    /// A request whose answer was lost when writing it panicked.
    pub(super) lost: Option<RequestDetails>,
    /// Requests that the service has begun, and that were cancelled by the peer or by a close.
    pub(super) cancelled: Vec<RequestKey>,
    pub(super) writing: Writing,
    /// How many bytes of output have been taken by the driver, and how many have been written,
    /// counted as in the connection.
    pub(super) taken: u64,
    pub(super) written: u64,
    /// The error that broke the transport.
    pub(super) fault: Option<Fault>,
    /// The latest time that was set.
    pub(super) now: Instant,
    /// Passed deadlines take no effect before this time, because the clock has jumped.
    pub(super) granted: Option<Instant>,
    /// Whether the peer has sent a message that is not malformed.
    pub(super) has_heard: bool,
}

/// The state of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// No write is under way: output may be taken.
    Idle,
    /// A write is under way; it made its last progress at this time.
    Busy(Instant),
    /// A write has failed. The rest of the output is dropped.
    Failed,
}

impl<W> Session<W> {
    /// Begins a session over `wire`. Timeouts are counted from `now`.
    ///
    /// The framing follows the wire: over [`Wire::Messages`] and [`Wire::Layered`] it is
    /// [`Framing::Messages`], whatever the configuration says. A [`Wire::Stream`] needs another framing;
    /// with this one messages could not be told apart, so the session is over at once, and
    /// [`fault`](Self::fault) and a report have the reason.
    #[inline]
    pub fn new(mut config: SessionConfig, wire: Wire, now: Instant) -> Self {
        let is_contradiction =
            matches!(wire, Wire::Stream) && config.config.framing == Framing::Messages;
        if !matches!(wire, Wire::Stream) {
            config.config.framing = Framing::Messages;
        }
        let mut conn = Connection::new(config.config);
        conn.handle_time(now);
        let mut queue = Queue::new(&config);
        let (phase, handshake) = match wire {
            Wire::Layered(_) => (Phase::Opening, None),
            Wire::Stream | Wire::Messages => {
                queue.push_opened();
                (Phase::Open, Some(Handshake::new()))
            }
        };
        let mut session = Self {
            conn,
            is_at_start: config.refuse_http && matches!(wire, Wire::Stream),
            linger: config.linger,
            order: config.order,
            lags: false,
            ordered: InOrder::default(),
            unserved: config.report_unserved.then(Unserved::default),
            wire,
            phase,
            handshake,
            rest: Vec::new(),
            queue,
            is_serving: true,
            settled: VecDeque::new(),
            in_order: BTreeSet::new(),
            routes: None,
            diverted: None,
            lost: None,
            cancelled: Vec::new(),
            writing: Writing::Idle,
            taken: 0,
            written: 0,
            fault: None,
            now,
            granted: None,
            has_heard: false,
        };
        if is_contradiction {
            session.abort(Some(FramingMismatch.into()));
        }
        session
    }

    /// Returns the service's next work, in the order of arrival; a request only if `may_begin_request`,
    /// and not while the peer has to read first (see [`wants_input`](Self::wants_input)).
    /// It must not be called while a notification is being served; under [`Order::Free`] it may be
    /// called then if work [waits](Self::has_work). If it returns `None` and no work waits, the service
    /// counts as idle. Until then the connection does not learn that the input has ended, unless a call
    /// of ours is open or `drain_timeout` has passed, so the service can still call and notify.
    pub fn poll_work(&mut self, may_begin_request: bool) -> Option<Work<W>> {
        if let Some(work) = self.poll_overdue() {
            return Some(work);
        }
        if !self.is_held() {
            self.note_free();
        }
        let was_paused = self.is_paused();
        let next = match self.phase {
            // After the end no work has to wait for other work.
            Phase::Over(_) => self.queue.pop(),
            // `Work::Opened` comes first, after the handshake.
            Phase::Opening => None,
            _ => {
                let may_begin = may_begin_request && !self.is_unread();
                self.queue.pop_in_order(may_begin, self.is_held())
            }
        };
        self.is_serving = !self.queue.is_empty() || next.is_some();
        self.lags = self.lags && self.queue.requests() > 0;
        self.resume_after(was_paused);
        let work = match next {
            Some(Next::Request(request)) => {
                let (message, ticket) = self.ticket(request);
                Work::Request(message, ticket)
            }
            Some(Next::Work(work)) => work,
            None => {
                self.queue.shrink();
                self.advance();
                return self.take_unserved().map(Work::Report);
            }
        };
        self.note_held(&work);
        Some(work)
    }

    /// Lets requests for these methods overtake all other work: those that need no handler, such as the pulls of
    /// [flows](crate::flow). Only [`poll_overtaking`](Self::poll_overtaking) returns them.
    pub fn let_overtake(&mut self, methods: Vec<String>) {
        self.queue.let_overtake(methods);
    }

    /// Returns the next request that [overtakes](Self::let_overtake) other work, whatever that waits for; none while
    /// the peer has to read first. To be called after each input and each write until it returns `None`.
    pub fn poll_overtaking(&mut self) -> Option<(OwnedNotification, Ticket)> {
        let was_paused = self.is_paused();
        let is_first = !self.is_unread() && self.phase != Phase::Opening;
        let request = is_first.then(|| self.queue.pop_first_request()).flatten()?;
        self.resume_after(was_paused);
        Some(self.ticket(request))
    }

    /// Returns the next cancel, even if other work comes before it. For use while a notification is
    /// being handled, when [`poll_work`](Self::poll_work) must not be called.
    pub fn poll_cancelled(&mut self) -> Option<Work<W>> {
        match self.queue.pop_cancelled()? {
            Next::Work(work) => Some(work),
            // `pop_cancelled` returns no requests.
            Next::Request(_) => None,
        }
    }

    /// Whether any work waits for the service.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many requests wait for the service. None while the peer has to read first: then they wait
    /// for the peer.
    pub fn requests_waiting(&self) -> usize {
        match self.is_unread() {
            true => 0,
            false => self.queue.requests(),
        }
    }

    /// Whether the next work is a request that may begin.
    pub fn is_request_next(&self) -> bool {
        let is_open = !matches!(self.phase, Phase::Opening | Phase::Over(_));
        is_open && self.queue.is_request_next() && !self.is_held() && !self.is_unread()
    }

    /// Whether no request or notification may begin, because under [`Order::Serial`] it waits until a
    /// request that has begun has ended. A cancel that the service has not seen holds them up too,
    /// because the handler of the cancelled request may still run.
    fn is_held(&self) -> bool {
        self.order == Order::Serial
            && (self.conn.requests_open() > self.queue.requests() || self.queue.has_cancels())
    }

    /// Whether work waits, and the service has asked for work and was given none.
    pub fn wants_service(&self) -> bool {
        self.has_work() && !self.is_serving
    }

    /// Whether a cancel waits for the service.
    pub fn has_cancels(&self) -> bool {
        self.queue.has_cancels()
    }

    /// Whether messages can be exchanged, or could be before the end: there is no handshake, or it
    /// has succeeded.
    pub fn has_opened(&self) -> bool {
        self.handshake.is_some()
    }

    /// Takes the data of the handshake. Empty if there was no handshake, before [`Work::Opened`],
    /// and after it was taken.
    pub fn take_handshake(&mut self) -> Handshake {
        let told = self.handshake.as_mut();
        told.map(core::mem::take).unwrap_or_default()
    }

    /// Splits a request into its message and the ticket to answer it, and notes that it begins now.
    pub(super) fn ticket(&self, request: OwnedRequest) -> (OwnedNotification, Ticket) {
        let bytes = request.origin().bytes;
        let method = Method::new(request.method());
        let (token, message) = request.split();
        let ticket = Ticket {
            token,
            bytes,
            method,
            begun: self.now,
            failures: self.conn.config().dialect.failures,
        };
        (message, ticket)
    }

    /// Returns the next call that has ended.
    pub fn poll_settled(&mut self) -> Option<Settled<W>> {
        self.settled.pop_front()
    }

    /// Calls a method: see [`Connection::call`].
    ///
    /// # Errors
    /// As [`Connection::call`]; the waiter is returned.
    pub fn call(
        &mut self,
        method: &str,
        params: impl Payload,
        deadline: Option<Instant>,
        waiter: W,
    ) -> Result<CallId, Rejected<W>> {
        let was_paused = self.is_paused();
        let called = self.conn.call(method, params, deadline, waiter);
        self.resume_after(was_paused);
        called
    }

    /// Calls a method with an id that the caller chose: see [`Connection::call_with_id`].
    ///
    /// # Errors
    /// As [`Connection::call_with_id`]; the waiter is returned.
    pub fn call_with_id(
        &mut self,
        id: Id<'_>,
        method: &str,
        params: impl Payload,
        deadline: Option<Instant>,
        waiter: W,
    ) -> Result<CallId, Rejected<W>> {
        let was_paused = self.is_paused();
        let called = self.conn.call_with_id(id, method, params, deadline, waiter);
        self.resume_after(was_paused);
        called
    }

    /// Calls a method, like [`call`](Self::call). The call's outcome is returned by
    /// [`poll_work`](Self::poll_work) as [`Work::Settled`], in order with the messages that the
    /// peer sent before and after the answer.
    ///
    /// # Errors
    /// See [`call`](Self::call).
    pub fn call_in_order(
        &mut self,
        method: &str,
        params: impl Payload,
        deadline: Option<Instant>,
        waiter: W,
    ) -> Result<CallId, Rejected<W>> {
        let call = self.call(method, params, deadline, waiter)?;
        self.settle_in_order(call);
        Ok(call)
    }

    /// Makes the outcome of a call that was just made come in order, as
    /// [`call_in_order`](Self::call_in_order) does.
    pub fn settle_in_order(&mut self, call: CallId) {
        self.in_order.insert(call.number());
    }

    /// Sends a notification: see [`Connection::notify`].
    ///
    /// # Errors
    /// As [`Connection::notify`].
    pub fn notify(&mut self, method: &str, params: impl Payload) -> Result<(), SendError> {
        self.conn.notify(method, params)
    }

    /// Begins a batch: see [`Connection::batch`].
    pub fn batch(&mut self, deadline: Option<Instant>) -> Batch<'_, W> {
        self.conn.batch(deadline)
    }

    /// Moves the deadline of an open call: see [`Connection::set_deadline`].
    ///
    /// # Errors
    /// As [`Connection::set_deadline`].
    pub fn set_deadline(
        &mut self,
        call: CallId,
        deadline: Option<Instant>,
    ) -> Result<(), SendError> {
        self.conn.set_deadline(call, deadline)
    }

    /// Ends a call without waiting for its answer, and sends a cancel if the dialect has one: see
    /// [`Connection::cancel`].
    pub fn cancel(&mut self, call: CallId) -> Option<W> {
        self.in_order.remove(&call.number());
        let waiter = self.conn.cancel(call);
        self.settle_route(call, CallEnd::GivenUp);
        self.advance();
        waiter
    }

    /// Sends a cancel for a call, and still waits for its answer: see [`Connection::ask_cancel`].
    ///
    /// # Errors
    /// As [`Connection::ask_cancel`].
    pub fn ask_cancel(&mut self, call: CallId) -> Result<(), SendError> {
        self.conn.ask_cancel(call)
    }

    /// Reports that a request which the driver has taken waits for a thread. Notifications after it
    /// are held back until it [begins](Self::handle_begun).
    pub fn postpone(&mut self) {
        self.queue.postpone();
    }

    /// Reports that a request which had to wait has begun, or never will.
    pub fn handle_begun(&mut self) {
        self.queue.begin_postponed();
    }

    /// Adds a report of the driver to the service's work.
    pub fn report(&mut self, report: Report) {
        self.queue.push_report((report, 0));
    }

    /// Whether the peer has cancelled the request, a close has ended it, or the session is over. A cancel is
    /// forgotten when the request has been answered.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.phase.is_over() || self.cancelled.contains(&request)
    }

    /// The current phase of the session.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the driver should read now. False if no call of ours is open, and too much waits for the
    /// service, or the answers that wait to be written, with what waits before them, have more than
    /// `soft_max_outbox_bytes` bytes: then the peer has to read first. (Notifications that wait are no
    /// reason: their sender stops at that limit by itself.) Meanwhile none of the peer's time limits
    /// runs. False, too, once [`is_input_over`](Self::is_input_over).
    pub fn wants_input(&self) -> bool {
        !self.is_paused() && !self.is_input_over()
    }

    /// Whether input is of no use any more, so that the driver stops reading for good. For a while after
    /// the end, which [`SessionConfig::linger`] sets, input is read and dropped, so that a peer that is
    /// still writing notices the end. Through a layer it is read for as long as the peer's close is
    /// awaited.
    pub fn is_input_over(&self) -> bool {
        match self.phase {
            Phase::InputEnded { .. } | Phase::Over(_) => true,
            Phase::Closing { why, since } => {
                let is_lingering = self.now < since + self.linger;
                let is_layered = matches!(self.wire, Wire::Layered(_));
                is_lost(why) || !(is_layered || is_lingering)
            }
            _ => false,
        }
    }

    /// How long to wait for the peer to end its stream after ours has ended. Zero if the peer does
    /// not read.
    pub fn linger(&self) -> Duration {
        match self.phase.closed() {
            Some(why) if is_lost(why) => Duration::ZERO,
            _ => self.linger,
        }
    }

    /// The first error of the transport, unless this side had closed or drained the session before.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Whether the peer has sent a message that is not malformed. An answer to a call of ours counts
    /// even if it is invalid.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Whether new calls and notifications would be refused because the output is full.
    pub fn is_full(&self) -> bool {
        let waiting = self.conn.transmit_queued() - self.conn.transmit_done();
        waiting > self.conn.config().limits.soft_max_outbox_bytes as u64
    }

    /// How many bytes were ever queued: a mark for [`is_written`](Self::is_written).
    pub fn transmit_queued(&self) -> u64 {
        self.conn.transmit_queued()
    }

    /// Whether all output up to `mark` has been written; `None` if it never will be.
    pub fn is_written(&self, mark: u64) -> Option<bool> {
        match self.writing {
            _ if self.written >= mark => Some(true),
            Writing::Failed => None,
            _ if self.phase.is_over() => None,
            _ => Some(false),
        }
    }

    /// Whether a reply to the peer has been taken or written, and none waits. Then the message that was
    /// taken last from the session of an exchange is its reply; before that, a notification.
    pub fn has_replied(&self) -> bool {
        self.conn.has_replied()
    }

    /// How many of our calls are open.
    pub fn calls_open(&self) -> usize {
        self.conn.calls_open()
    }

    /// How many of the peer's requests are open.
    pub fn requests_open(&self) -> usize {
        self.conn.requests_open()
    }

    /// The protocol's configuration.
    pub fn config(&self) -> &Config {
        self.conn.config()
    }

    /// Changes the dialect: see [`Connection::set_dialect`].
    pub fn set_dialect(&mut self, dialect: Dialect) {
        self.conn.set_dialect(dialect);
    }

    /// Begins a drain: takes no new requests and calls, answers what is open, and closes.
    pub fn drain(&mut self) {
        if matches!(self.phase, Phase::Opening | Phase::Open) {
            self.phase = Phase::Draining;
        }
        self.conn.drain();
        self.poll_end();
    }

    /// Closes the session without a drain: open calls end, and open requests end without an answer.
    /// Queued output is still written.
    pub fn close(&mut self, reason: CloseReason) {
        self.close_now(reason);
        self.advance();
    }
}

/// Whether the session ended because output could not be written. Then nothing more can be sent, and the
/// peer's input is of no use.
pub(super) fn is_lost(why: Closed) -> bool {
    matches!(
        why,
        Closed::Failed(ConnectionError::OutboxFull | ConnectionError::WriteTimedOut)
    )
}

impl<W> fmt::Debug for Session<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("phase", &self.phase)
            .field("queue", &self.queue)
            .field("wire", &self.wire)
            .finish_non_exhaustive()
    }
}
