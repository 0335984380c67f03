//! The session itself: what it holds, what can be asked of it, and what its owner can have it do.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::options::SessionConfig;
use super::phase::Phase;
use super::progress::{Extend, Progress, Watched};
use super::queue::{Next, Queue, Settled, Work};
use super::report::{Fault, Report, RequestDetails};
use super::ticket::{Method, Ticket};
use super::wire::{Handshake, Wire};
use crate::config::Config;
use crate::connection::{Batch, Connection, Rejected, SendError};
use crate::encode::Payload;
use crate::event::{CloseReason, Closed, ConnectionError};
use crate::id::{CallId, RequestKey};
use crate::json::OwnedJson;
use crate::owned::{OwnedNotification, OwnedRequest};
use crate::time::Instant;

/// A [`Connection`] with everything that a driver needs around it, whatever runs the driver.
///
/// `W` is what a driver keeps for a call until it settles: a slot, a channel, a continuation.
///
/// A session takes all input and keeps what is not a whole message yet; hands work out in the order
/// of arrival and within limits; answers for what handlers forget; and leads the conversation to its
/// end, one [`Phase`] after another. It has no lock, clock, waker or I/O in it. A driver reads, writes,
/// waits and runs handlers, and tells the session of each:
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
    pub(super) config: SessionConfig,
    pub(super) wire: Wire,
    pub(super) phase: Phase,
    /// Input that is not a whole message yet.
    pub(super) rest: Vec<u8>,
    /// The first bytes may still begin an HTTP request.
    pub(super) is_at_start: bool,
    pub(super) queue: Queue<W>,
    /// The service was given work and has not asked for more since.
    pub(super) is_serving: bool,
    pub(super) settled: VecDeque<Settled<W>>,
    /// Open calls whose end keeps its place among the service's work.
    pub(super) in_order: BTreeSet<u64>,
    /// Calls whose progress is awaited; none before the first one.
    pub(super) progress: Option<Box<Progress>>,
    /// What the handshake has told; none before messages can be exchanged.
    pub(super) handshake: Option<Handshake>,
    /// A request whose answer was lost when writing it panicked.
    pub(super) lost: Option<RequestDetails>,
    /// Requests that the service has begun and the peer has given up.
    pub(super) cancelled: Vec<RequestKey>,
    pub(super) writing: Writing,
    /// How much of the output has been taken to be written, and how much has been written, in the
    /// connection's marks.
    pub(super) taken: u64,
    pub(super) written: u64,
    /// What broke the transport.
    pub(super) fault: Option<Fault>,
    /// The latest time that was set.
    pub(super) now: Instant,
    /// Deadlines that are due end nothing before this, because the clock has jumped over them.
    pub(super) granted: Option<Instant>,
    /// Whether the peer has sent a valid message.
    pub(super) has_heard: bool,
}

/// What is under way in the direction of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Nothing: output may be taken.
    Idle,
    /// Output was taken, and the write last got on at this time.
    Busy(Instant),
    /// A write has failed. What else there is to write is dropped.
    Failed,
}

impl<W> Session<W> {
    /// Begins a conversation over `wire`. Spans begin at `now`.
    pub fn new(config: SessionConfig, wire: Wire, now: Instant) -> Self {
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
        Self {
            conn,
            is_at_start: config.refuse_http && matches!(wire, Wire::Stream),
            config,
            wire,
            phase,
            handshake,
            rest: Vec::new(),
            queue,
            is_serving: true,
            settled: VecDeque::new(),
            in_order: BTreeSet::new(),
            progress: None,
            lost: None,
            cancelled: Vec::new(),
            writing: Writing::Idle,
            taken: 0,
            written: 0,
            fault: None,
            now,
            granted: None,
            has_heard: false,
        }
    }

    /// The next thing for the service to do, in the order of arrival; a request only if
    /// `may_begin_request`. Not to be called while a notification is being served. When it gives
    /// `None`, the service is taken to have nothing to do: until then the end of the input is kept
    /// from the connection, so that the service can still call and notify.
    pub fn poll_work(&mut self, may_begin_request: bool) -> Option<Work<W>> {
        let was_paused = self.is_paused();
        let next = match self.phase {
            // Nothing waits for anything any more.
            Phase::Over(_) => self.queue.pop(),
            // The service is told that the session is open before anything else.
            Phase::Opening => None,
            _ => self.queue.pop_in_order(may_begin_request),
        };
        self.is_serving = !self.queue.is_empty() || next.is_some();
        self.resume_after(was_paused);
        match next {
            Some(Next::Request(request)) => {
                let (message, ticket) = self.ticket(request);
                Some(Work::Request(message, ticket))
            }
            Some(Next::Work(work)) => Some(work),
            None => {
                self.advance();
                None
            }
        }
    }

    /// The next cancel, past everything else that waits. For a service that is at work on a
    /// notification, when [`poll_work`](Self::poll_work) is not to be called.
    pub fn poll_cancelled(&mut self) -> Option<Work<W>> {
        match self.queue.pop_cancelled()? {
            Next::Work(work) => Some(work),
            // Only cancels are looked for.
            Next::Request(_) => None,
        }
    }

    /// Whether anything waits for the service.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// How many requests wait for the service.
    pub fn requests_waiting(&self) -> usize {
        self.queue.requests()
    }

    /// Whether a request is what the service does next, if it may begin one.
    pub fn is_request_next(&self) -> bool {
        let is_open = !matches!(self.phase, Phase::Opening | Phase::Over(_));
        is_open && self.queue.is_request_next()
    }

    /// Whether anything waits for a service that has asked for work and was given none.
    pub fn wants_service(&self) -> bool {
        self.has_work() && !self.is_serving
    }

    /// Whether a cancel waits for the service.
    pub fn has_cancels(&self) -> bool {
        self.queue.has_cancels()
    }

    /// Whether messages could be exchanged, now or before the end.
    pub fn has_opened(&self) -> bool {
        self.handshake.is_some()
    }

    /// What the handshake has told; empty where there is none, before [`Work::Opened`] and when it
    /// has been taken.
    pub fn take_handshake(&mut self) -> Handshake {
        let told = self.handshake.as_mut();
        told.map(core::mem::take).unwrap_or_default()
    }

    pub(super) fn ticket(&self, request: OwnedRequest) -> (OwnedNotification, Ticket) {
        let bytes = request.origin().bytes;
        let method = Method::new(request.method());
        let (token, message) = request.split();
        let ticket = Ticket {
            token,
            bytes,
            method,
            begun: self.now,
        };
        (message, ticket)
    }

    /// The next call that has settled.
    pub fn poll_settled(&mut self) -> Option<Settled<W>> {
        self.settled.pop_front()
    }

    /// Calls a method: see [`Connection::call`].
    ///
    /// # Errors
    /// As [`Connection::call`]; the waiter comes back.
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

    /// Calls a method, like [`call`](Self::call). The end of the call comes out of
    /// [`poll_work`](Self::poll_work) as [`Work::Settled`], in its place among what the peer has
    /// sent before and after it.
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
        self.in_order.insert(call.number());
        Ok(call)
    }

    /// Has the progress that the peer reports of an open call come out of
    /// [`poll_progress`](Self::poll_progress), until the call settles or is cancelled. The call's params ask for
    /// it under `token`: see [`ProgressStyle::ask`](crate::ProgressStyle::ask). What is told under other
    /// tokens, or later, is a notification like any other.
    ///
    /// ```
    /// use antiphon::session::{Session, Wire};
    /// use antiphon::{Config, Instant};
    ///
    /// let config = Config::new().progress(antiphon::ProgressStyle::Lsp);
    /// let mut session: Session<()> = Session::new(config.into(), Wire::Messages, Instant::ZERO);
    /// let params = config.dialect.progress.ask((), "p1")?;
    /// let call = session.call("index", params.as_json(), None, ()).unwrap();
    /// session.watch_progress(call, "p1", None);
    /// session.handle_input(
    ///     br#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"p1","value":50}}"#,
    /// );
    /// assert_eq!(session.poll_progress().unwrap().1.as_str(), "50");
    /// # Ok::<(), antiphon::EncodeError>(())
    /// ```
    pub fn watch_progress(
        &mut self,
        call: CallId,
        token: impl Into<String>,
        extend: Option<Extend>,
    ) {
        let token = token.into();
        let progress = self.progress.get_or_insert_default();
        progress.watch(Watched {
            call,
            token,
            extend,
        });
    }

    /// What the peer has told of the progress of a call, in order.
    pub fn poll_progress(&mut self) -> Option<(CallId, OwnedJson)> {
        self.progress.as_mut()?.pop()
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

    /// Gives a call up, and tells the peer where the dialect does: see [`Connection::cancel`].
    pub fn cancel(&mut self, call: CallId) -> Option<W> {
        self.in_order.remove(&call.number());
        if let Some(progress) = &mut self.progress {
            progress.end(call);
        }
        let waiter = self.conn.cancel(call);
        self.advance();
        waiter
    }

    /// Tells the peer that a call is no longer wanted; its answer still settles the call: see
    /// [`Connection::ask_cancel`].
    ///
    /// # Errors
    /// As [`Connection::ask_cancel`].
    pub fn ask_cancel(&mut self, call: CallId) -> Result<(), SendError> {
        self.conn.ask_cancel(call)
    }

    /// Reports that a request which the driver has taken waits for a thread: notifications after it
    /// are kept back until it [begins](Self::handle_begun).
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

    /// Whether the answer to a request is no longer awaited.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.phase.is_over() || self.cancelled.contains(&request)
    }

    /// Where the session is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether more should be read now. False while too much waits for the service.
    pub fn may_read(&self) -> bool {
        !self.is_paused()
    }

    /// Whether reading is still of use. For a while after the end it is: what comes in is thrown
    /// away, so that a peer that is still writing sees the end.
    pub fn wants_input(&self) -> bool {
        match self.phase {
            Phase::InputEnded { .. } | Phase::Over(_) => false,
            Phase::Closing { why, since } => {
                let is_lingering = self.now < since + self.config.linger;
                let is_layered = matches!(self.wire, Wire::Layered(_));
                !is_unread(why) && (is_layered || is_lingering)
            }
            _ => true,
        }
    }

    /// How long the peer's end of the stream is awaited after ours. Zero if the peer does not read.
    pub fn linger(&self) -> Duration {
        match self.phase.closed() {
            Some(why) if is_unread(why) => Duration::ZERO,
            _ => self.config.linger,
        }
    }

    /// What broke the transport, if anything did before the session was meant to end.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }

    /// Whether the peer has sent a valid message.
    pub fn has_heard(&self) -> bool {
        self.has_heard
    }

    /// Whether new output would be refused for want of room.
    pub fn is_full(&self) -> bool {
        let waiting = self.conn.transmit_queued() - self.conn.transmit_done();
        waiting > self.config.config.limits.soft_max_outbox_bytes as u64
    }

    /// Bytes ever queued: a mark for [`is_written`](Self::is_written).
    pub fn transmit_queued(&self) -> u64 {
        self.conn.transmit_queued()
    }

    /// Whether all that was queued up to `mark` has been written; none if it never will be.
    pub fn is_written(&self, mark: u64) -> Option<bool> {
        match self.writing {
            _ if self.written >= mark => Some(true),
            Writing::Failed => None,
            _ if self.phase.is_over() => None,
            _ => Some(false),
        }
    }

    /// How many calls of ours wait for an answer.
    pub fn calls_open(&self) -> usize {
        self.conn.calls_open()
    }

    /// How many requests of the peer's wait for ours.
    pub fn requests_open(&self) -> usize {
        self.conn.requests_open()
    }

    /// The protocol's configuration.
    pub fn config(&self) -> &Config {
        self.conn.config()
    }

    /// Ends the conversation in good order: takes nothing new from either side, answers what is
    /// open, and closes.
    pub fn drain(&mut self) {
        if matches!(self.phase, Phase::Opening | Phase::Open) {
            self.phase = Phase::Draining;
        }
        self.conn.drain();
        self.poll_end();
    }

    /// Ends the conversation at once. What is queued is still written.
    pub fn close(&mut self, reason: CloseReason) {
        self.close_now(reason);
        self.advance();
    }
}

/// Whether the session ended because the peer does not read. Nothing more can be said to it, and
/// nothing it says is of use.
pub(super) fn is_unread(why: Closed) -> bool {
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
