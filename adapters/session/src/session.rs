//! A session between its transport, its service and its callers: one lock around the pure
//! [`antiphon::session::Session`], and who waits for what.
//!
//! A turn is short: take the lock, tell the time, do one thing, put outcomes where they are awaited,
//! and wake those it concerns once the lock is free. Nothing waits, reads or writes under the lock.
//! The only foreign code under it fills a batch or serialises what is being sent.
//!
//! | module | has |
//! |---|---|
//! | `guard` | the lock, and the wakings that wait until it is free |
//! | `signals` | who waits for what, and who is woken |
//! | `moving` | the session as a pump sees it |
//! | `looking` | whether a reading thread has read all that arrived |
//! | `lent` | user code under the lock, which may not take it again |
//! | `inlet`, `outlet` | callers that read and write for themselves |

mod guard;
mod inlet;
mod lent;
mod looking;
mod moving;
mod outlet;
mod signals;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::Waker;

use antiphon::session::{Phase, SessionConfig, Settled, Ticket, Wire};
use antiphon::{CloseReason, Closed, Framing, Input, Instant, Outcome, OwnedOutcome, RequestKey};

use crate::clock::Clock;
use crate::context::Context;
use crate::fault::to_error;
use crate::machine::Outlet;
use crate::options::{Options, WhenFull};
use crate::places::{Place, Places};
use crate::report::ReportedRequest;
#[cfg(feature = "websocket")]
use crate::websocket::Layer;

pub use antiphon::session::grace;
pub use guard::Guard;
use guard::Wakes;
use inlet::Reading;
use looking::Looking;
pub(crate) use looking::Patience;
use signals::SIGNALS;
pub use signals::Signal;

/// The pure session inside.
pub(crate) type Conn = antiphon::session::Session<Tag>;

/// One thing for the service to do.
pub type Work = antiphon::session::Work<Tag>;

/// Runs with the service's other work when a call has settled.
pub type Then = Box<dyn FnOnce(OwnedOutcome) + Send>;

/// The most work that is taken from a session at once.
const WORK_MAX: usize = 128;

/// Who waits for a call.
pub enum Tag {
    /// One caller.
    Once(Place),
    /// The caller of a batch, for all of its calls.
    Batch(Place),
    /// A function that goes on.
    Then(Then),
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Once(_) => "Once",
            Self::Batch(_) => "Batch",
            Self::Then(_) => "Then",
        })
    }
}

/// A connection that several threads or tasks share.
pub struct Session {
    state: Mutex<State>,
    /// Names the thread that runs user code under the lock; 0 for none.
    lent_to: AtomicUsize,
    /// Where callers may write by themselves, if the transport lets them.
    outlet: OnceLock<Box<dyn Outlet>>,
    /// Nothing is to be read for now, for asking without the lock.
    is_paused: AtomicBool,
    /// Nothing more is read, for asking without the lock.
    is_deaf: AtomicBool,
    /// The conversation has ended, for asking without the lock.
    is_closed: AtomicBool,
    conditions: [Condvar; SIGNALS],
    options: Options,
    context: Arc<Context>,
    /// What is known since the connection opened, where that takes a handshake.
    learnt: OnceLock<Arc<Context>>,
    clock: Arc<dyn Clock>,
}

/// What the lock of a [`Session`] guards.
pub struct State {
    /// The conversation.
    pub conn: Conn,
    /// Where callers wait.
    pub(crate) places: Places,
    /// Who reads, where others than the reading thread may.
    reading: Reading,
    /// Whether the reading thread has read all, while something is due.
    looking: Looking,
    /// What the writer is to go on with, of a write that a caller began; otherwise empty.
    left_over: Vec<u8>,
    /// The request whose handler panicked last, until that is reported.
    panicked: Option<ReportedRequest>,
    /// The phase that everybody has been woken for.
    seen: Phase,
    /// The transport has been let go.
    is_let_go: bool,
    /// When the one that keeps time wakes by itself.
    alarm: Instant,
    /// How many threads wait for each signal.
    waiting: [u32; SIGNALS],
    /// Which of those have been woken and have not come back yet.
    is_signalled: [bool; SIGNALS],
    /// Who is to be woken once the lock is free.
    wakes: Wakes,
    /// The task that moves the bytes.
    task: Option<Waker>,
    /// Tasks that wait for something to change.
    watchers: Vec<Waker>,
}

impl Session {
    /// Begins a conversation over a transport of which `context` is known. The connection has the
    /// number that `context` has, or the configured one if that is 0.
    pub fn new(mut options: Options, mut context: Context, clock: Arc<dyn Clock>) -> Self {
        match context.connection {
            0 => context.connection = options.config.connection,
            number => options.config.connection = number,
        }
        let now = clock.now();
        let (wire, failed) = wire(&options, now);
        let mut conn = Conn::new(session_config(&options, context.is_accepted), wire, now);
        if failed.is_some() {
            conn.abort(failed.map(Into::into));
        }
        Self {
            state: Mutex::new(State::new(conn)),
            lent_to: AtomicUsize::new(0),
            outlet: OnceLock::new(),
            is_paused: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            conditions: Default::default(),
            options,
            context: Arc::new(context),
            learnt: OnceLock::new(),
            clock,
        }
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What the transport knows: more after a handshake, where there is one.
    pub fn context(&self) -> &Arc<Context> {
        self.learnt.get().unwrap_or(&self.context)
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// User code that runs under it on this thread has asked for it: a batch being filled, or params
    /// and results being written.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        Guard::new(self, self.take_lock())
    }

    /// Does one thing with the conversation, and wakes those it concerns.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_time(self.now());
        let result = act(&mut state);
        self.wake(&mut state);
        result
    }

    /// Answers a request, and writes the answer if that can be done here.
    pub(crate) fn answer<R>(&self, answer: impl FnOnce(&mut Conn) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_time(self.now());
        let result = self.lend(|| answer(&mut state.conn));
        // Where more is to be served, its answers may leave together.
        match state.conn.has_work() {
            true => self.wake(&mut state),
            false => drop(self.write_out(state)),
        }
        result
    }

    /// Moves what the service may do next to the end of `work`, in order: at most `requests` of
    /// them, and nothing behind what has to be done with before anything else begins.
    pub fn take_work(&self, work: &mut VecDeque<Work>, mut requests: usize) {
        let mut state = self.lock();
        // It is awake. Work that waits for a place would have it wake itself for ever.
        state.task = None;
        state.conn.handle_time(self.now());
        while work.len() < WORK_MAX {
            let Some(next) = state.conn.poll_work(requests > 0) else {
                break;
            };
            let is_ordered = matches!(next, Work::Opened | Work::Notification(_));
            requests -= usize::from(matches!(next, Work::Request(..)));
            work.push_back(next);
            if is_ordered {
                break;
            }
        }
        self.wake(&mut state);
    }

    /// Gives a request back that was taken and that the end of the conversation has cancelled.
    ///
    /// # Errors
    /// It may begin.
    pub fn give_back(&self, ticket: Ticket) -> Result<(), Ticket> {
        if !self.is_closed.load(Ordering::Relaxed) {
            return Err(ticket);
        }
        self.act(|state| state.conn.give_back(ticket))
    }

    /// The next cancel, for a service that is at work on a notification.
    pub fn take_cancelled(&self) -> Option<Work> {
        self.lock().conn.poll_cancelled()
    }

    /// The request whose handler has just panicked, if it was one: for the report of that.
    pub fn take_panicked(&self) -> Option<ReportedRequest> {
        self.lock().panicked.take()
    }

    /// Puts a report among the service's work.
    pub fn report(&self, report: antiphon::session::Report) {
        self.act(|state| state.conn.report(report));
    }

    /// Ends the conversation at once.
    pub fn close(&self, reason: CloseReason) {
        self.act(|state| state.conn.close(reason));
    }

    /// Ends the conversation in good order.
    pub fn drain(&self) {
        self.act(|state| state.conn.drain());
    }

    /// Ends a connection that never got a transport, or lost it with the panic of one.
    #[cold]
    pub fn abort(&self, error: Option<io::Error>) {
        self.act(|state| state.conn.abort(error.map(Into::into)));
    }

    /// Takes the message of an exchange.
    pub fn receive_message(&self, message: Input<'_>) {
        self.act(|state| state.conn.handle_message(message));
    }

    /// Takes the reply of an exchange, where there is one, and ends the exchange if all that came in has
    /// been taken and answered: says why. The service has the last word.
    pub fn end_if_answered(&self, reply: &mut Vec<u8>) -> Option<Closed> {
        let mut state = self.lock();
        if state.conn.take_transmit(reply) {
            state.conn.handle_written();
        }
        if state.conn.requests_open() > 0 || state.conn.has_work() {
            return None;
        }
        state.conn.handle_eof();
        Some(self.let_go(&mut state))
    }

    /// Ends an exchange, answered or not, and lets go of what still waits for the service.
    pub fn end_exchange(&self) -> Closed {
        let mut state = self.lock();
        state.conn.handle_eof();
        let why = self.let_go(&mut state);
        drop(state);
        self.let_work_go();
        why
    }

    /// Notes that the transport has been let go, and says why the connection ended.
    fn let_go(&self, state: &mut State) -> Closed {
        if !state.conn.phase().is_over() {
            state.conn.abort(None);
        }
        state.is_let_go = true;
        self.wake(state);
        self.signal(state, Signal::Changed);
        state.finished().unwrap_or(Closed::EndOfInput)
    }

    /// Lets go of what waits for the service. It may hold the session and so keep itself alive.
    pub fn let_work_go(&self) {
        loop {
            let work = self.lock().conn.poll_work(true);
            if work.is_none() {
                return;
            }
        }
    }
}

/// What carries the messages, or why it cannot.
fn wire(options: &Options, now: Instant) -> (Wire, Option<io::Error>) {
    #[cfg(feature = "websocket")]
    if let Some(websocket) = &options.websocket {
        return match Layer::new(Arc::clone(websocket), &options.config, now) {
            Ok(layer) => (Wire::Layered(Box::new(layer)), None),
            Err(error) => (Wire::Messages, Some(error)),
        };
    }
    let _ = now;
    match options.config.framing {
        Framing::Messages => (Wire::Messages, None),
        _ => (Wire::Stream, None),
    }
}

fn session_config(options: &Options, is_accepted: bool) -> SessionConfig {
    let mut config = SessionConfig::new(options.config);
    config.max_queued_messages = options.queue_messages_max;
    config.max_queued_bytes = options.queue_bytes_max;
    config.when_full = match options.when_full {
        WhenFull::Pause => antiphon::session::WhenFull::Pause,
        WhenFull::Drop => antiphon::session::WhenFull::Drop,
    };
    config.linger = options.linger;
    config.refuse_http = is_accepted && options.refuse_http;
    config
}

impl State {
    fn new(conn: Conn) -> Self {
        Self {
            seen: conn.phase(),
            conn,
            places: Places::default(),
            reading: Reading::default(),
            looking: Looking::default(),
            left_over: Vec::new(),
            panicked: None,
            is_let_go: false,
            alarm: Instant::FAR_FUTURE,
            waiting: [0; SIGNALS],
            is_signalled: [false; SIGNALS],
            wakes: Wakes::default(),
            task: None,
            watchers: Vec::new(),
        }
    }

    /// Whether nobody waits for the answer to a request any more.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.conn.is_cancelled(request)
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn fault(&self) -> Option<io::Error> {
        self.conn.fault().map(to_error)
    }

    /// Why the connection takes nothing more in; none while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.conn.phase().closed()
    }

    /// Whether nothing new is sent: it drains, is closed, or takes nothing more in.
    pub fn is_closing(&self) -> bool {
        !matches!(self.conn.phase(), Phase::Opening | Phase::Open)
    }

    /// Why the connection ended, once its transport has been let go.
    pub fn finished(&self) -> Option<Closed> {
        self.closed().filter(|_| self.is_let_go)
    }

    /// Whether all that was sent up to `mark` has been written; an error if it never will be.
    pub fn is_written(&self, mark: u64) -> io::Result<bool> {
        let written = self.conn.is_written(mark);
        written.ok_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Whether messages can be exchanged: false until a handshake is done, where there is one. The
    /// service is not told of a connection before.
    pub fn is_open(&self) -> bool {
        self.conn.has_opened()
    }

    /// Whether messages can be exchanged, or why they never will be; none while that is open.
    pub(crate) fn opened(&mut self) -> Option<io::Result<()>> {
        if self.is_open() {
            return Some(Ok(()));
        }
        self.closed()?;
        let error = self.fault();
        Some(Err(error.unwrap_or(io::ErrorKind::NotConnected.into())))
    }

    /// Remembers what a panic has taken along, until it is reported.
    pub(crate) fn note_panicked(&mut self, request: Option<ReportedRequest>) {
        self.panicked = request;
    }

    /// Puts an outcome where it is awaited.
    fn settle(&mut self, settled: Settled<Tag>) {
        let waiter = match settled.waiter {
            Tag::Once(place) => self.places.settle(&place, settled.outcome),
            Tag::Batch(place) => self.places.gather(&place, settled.call, settled.outcome),
            // It comes in order, as the service's work.
            Tag::Then(_) => None,
        };
        if let Some(waiter) = waiter {
            self.wakes.settled(waiter);
        }
    }

    /// Settles a call that was given up. A function that was to go on is given back.
    pub(crate) fn settle_cancelled(&mut self, call: antiphon::CallId, tag: Tag) -> Option<Then> {
        if let Tag::Then(then) = tag {
            return Some(then);
        }
        let (waiter, outcome) = (tag, Outcome::Aborted.into_owned());
        self.settle(Settled {
            call,
            waiter,
            outcome,
        });
        None
    }

    /// Has a task woken at the next change; it looks again then.
    pub fn watch(&mut self, waker: &Waker) {
        if !self.watchers.iter().any(|known| known.will_wake(waker)) {
            self.watchers.push(waker.clone());
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("conn", &self.conn)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Session")
            .field("conn", &state.conn)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
