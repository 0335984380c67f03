//! A session between its transport, its service and its callers: one lock around the pure
//! [`antiphon::session::Session`], and the threads and tasks that wait for something.
//!
//! A turn is short: take the lock, tell the time, do one thing, put outcomes into the slots where
//! they are awaited, let the lock go, and wake. Nothing is read, written, woken, dropped or run
//! under the lock: values are written to JSON before it is taken. A thread or task that is woken
//! under the lock would run into it, so a turn only notes who is to be woken, and the guard wakes
//! them after it has let the lock go.
//!
//! | module | has |
//! |---|---|
//! | `state` | what the lock guards |
//! | `line` | the senders that wait for room |
//! | `wake` | threads and tasks that wait for a change |
//! | `turn` | one turn of a task |
//! | `threads` | what the threads of a connection do and wait for |
//! | `looking` | whether a reading thread has read all that arrived |
//! | `inlet`, `outlet` | threads that read and write for themselves, by the ways of `beside` |

mod direct;
mod inlet;
mod line;
mod looking;
mod outlet;
mod state;
mod threads;
mod turn;
mod wake;

use std::fmt;
use std::io;
use std::mem::take;
use std::ops::{Deref, DerefMut};
#[cfg(debug_assertions)]
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use antiphon::service::Attributes;
use antiphon::session::{Fault, Phase, RequestDetails, SessionConfig, Ticket, Wire};
use antiphon::{CallId, CloseReason, Closed, Framing, Input, Instant, SendError};

use crate::context::Context;
use crate::dispatcher::{Begins, Dispatcher, Membership, call};
use crate::options::ConnectionConfig;
use crate::runtime::{Runtime, SharedRuntime};
#[cfg(feature = "websocket")]
use antiphon_websocket::WebSocket;

pub use direct::{Came, Inlet, Outlet, Receiver};
pub(crate) use state::Conn;
pub use state::{Sleeper, State, Tag, Then, Work};
pub use turn::{Brought, Moved, Next, Sent, WorkBatch};

/// A connection that several threads or tasks share.
pub struct Session {
    state: Mutex<State>,
    /// How often the lock was taken, for tests.
    #[cfg(debug_assertions)]
    locks: AtomicUsize,
    /// Where callers may write by themselves, if the transport lets them.
    outlet: OnceLock<Box<dyn Outlet>>,
    /// Whether the conversation has ended: work that was taken together before that is not begun.
    /// Read between one piece of work and the next, where taking the lock would double the locks of
    /// a request.
    is_closed: AtomicBool,
    /// Whether a caller has woken the task because it has something to say. Read before the turn,
    /// and so without the lock.
    is_called: AtomicBool,
    options: ConnectionConfig,
    context: Arc<Context>,
    /// What is known since the connection opened, where that takes a handshake.
    learnt: OnceLock<Arc<Context>>,
    /// What interceptors have left for later requests.
    attributes: Mutex<Attributes>,
    /// How many calls have asked to hear of their progress.
    progress_tokens: AtomicU64,
    runtime: SharedRuntime,
}

impl Session {
    /// Begins a conversation over a transport of which `context` is known. The connection has the
    /// number that `context` has, or the configured one if that is 0.
    pub fn new(
        mut options: ConnectionConfig,
        mut context: Context,
        runtime: SharedRuntime,
    ) -> Arc<Self> {
        match context.connection {
            0 => context.connection = options.config.connection,
            number => options.config.connection = number,
        }
        let now = runtime.now();
        let (wire, failed) = wire(&options, now);
        let mut conn = Conn::new(session_config(&options, context.is_accepted), wire, now);
        if failed.is_some() {
            conn.abort(failed.map(Into::into));
        }
        let dispatcher = context.is_accepted.then(|| options.dispatcher.clone());
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            state: Mutex::new(State::new(
                conn,
                dispatcher.map(|dispatcher| Membership::new(dispatcher, own.clone())),
            )),
            #[cfg(debug_assertions)]
            locks: AtomicUsize::new(0),
            outlet: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            is_called: AtomicBool::new(false),
            options,
            context: Arc::new(context),
            learnt: OnceLock::new(),
            attributes: Mutex::default(),
            progress_tokens: AtomicU64::new(0),
            runtime,
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &ConnectionConfig {
        &self.options
    }

    /// What limits the requests of the server that accepted the connection, if one did.
    pub fn dispatcher(&self) -> Option<&Dispatcher> {
        self.context.is_accepted.then_some(&self.options.dispatcher)
    }

    /// What the transport knows: more after a handshake, where there is one.
    pub fn context(&self) -> &Arc<Context> {
        self.learnt.get().unwrap_or(&self.context)
    }

    /// What interceptors and handlers have left for later requests. It has a lock of its own.
    pub fn attributes(&self) -> MutexGuard<'_, Attributes> {
        let attributes = self.attributes.lock();
        attributes.unwrap_or_else(PoisonError::into_inner)
    }

    /// A token for the progress of a call that no other call of the connection has.
    pub(crate) fn progress_token(&self) -> String {
        let number = self.progress_tokens.fetch_add(1, Ordering::Relaxed);
        format!("antiphon-{number}")
    }

    /// The runtime that its timers and tasks are made by.
    pub fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// The runtime, for what outlives the session.
    pub(crate) fn shared_runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    /// The present, by the runtime's clock.
    pub fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Takes the lock. No foreign code may run before the guard is dropped.
    pub fn lock(&self) -> Guard<'_> {
        #[cfg(debug_assertions)]
        self.locks.fetch_add(1, Ordering::Relaxed);
        // Nothing that can panic runs under the lock.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Guard::new(self, state)
    }

    /// Whether a caller has woken the task, since it was asked last.
    pub fn take_called(&self) -> bool {
        self.is_called.swap(false, Ordering::Relaxed)
    }

    /// How often the lock was taken so far.
    #[cfg(debug_assertions)]
    #[doc(hidden)]
    pub fn locks(&self) -> usize {
        self.locks.load(Ordering::Relaxed)
    }

    /// Runs `act` under the lock as one turn, and then wakes the threads and tasks it concerns.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_time(self.now());
        act(&mut state)
    }

    /// Answers a request, and writes the answer if that can be done here.
    pub(crate) fn answer<R>(&self, answer: impl FnOnce(&mut Conn) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_time(self.now());
        let result = answer(&mut state.conn);
        // Where more is to be served, its answers may leave together.
        if !state.conn.has_work() {
            drop(self.write_out(state));
        }
        result
    }

    /// Puts outcomes where they are awaited, and notes which threads or tasks have something to do
    /// now.
    fn end_turn(&self, state: &mut State) {
        state.count_waiting();
        while let Some((call, value)) = state.conn.poll_progress() {
            state.tell(call, value);
        }
        while let Some(settled) = state.conn.poll_settled() {
            state.reading.is_call_settled = true;
            state.settle(settled);
        }
        let phase = state.conn.phase();
        if phase != state.seen {
            self.see_phase(state, phase);
        }
        let is_paused = !state.conn.may_read();
        if is_paused != state.was_paused {
            state.was_paused = is_paused;
            state.rouse(Sleeper::Reader);
        }
        if state.conn.has_cancels() {
            state.rouse_watchers();
        }
        if state.conn.has_work() {
            state.rouse(Sleeper::Service);
        }
        if state.conn.has_transmit() && state.rouse(Sleeper::Writer) {
            self.is_called.store(true, Ordering::Relaxed);
        }
        if state
            .conn
            .poll_timeout()
            .is_some_and(|due| due < state.alarm)
        {
            state.rouse(Sleeper::Timer);
        }
        if !state.line.is_empty() && !state.conn.is_full() {
            let next = state.line.call_first();
            state.wakes.extend(next);
        }
    }

    #[cold]
    fn see_phase(&self, state: &mut State, phase: Phase) {
        if state.seen == Phase::Opening && state.conn.has_opened() {
            self.learn(state);
        }
        if phase.closed().is_some() {
            self.is_closed.store(true, Ordering::Relaxed);
        }
        state.seen = phase;
        state.rouse_all();
    }

    /// Adds what a handshake has told to what is known of the transport.
    fn learn(&self, state: &mut State) {
        let handshake = state.conn.take_handshake();
        let mut context = Context::clone(&self.context);
        context.target = handshake.target;
        for (name, value) in &handshake.headers {
            context.headers.push(name, value);
        }
        context.subprotocol = handshake.subprotocol;
        // There is one handshake.
        let _ = self.learnt.set(Arc::new(context));
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

    /// The request whose handler has just panicked, if it was one: for the report of that.
    pub fn take_panicked(&self) -> Option<RequestDetails> {
        self.lock().take_panicked()
    }

    /// Puts a report among the service's work.
    pub fn report(&self, report: antiphon::session::Report) {
        self.act(|state| state.conn.report(report));
    }

    /// Gives a call up and tells the peer, if the dialect does. False if it had settled.
    pub(crate) fn cancel(&self, call: CallId) -> bool {
        // What a function holds is dropped without the lock: it may be a responder.
        let (is_open, _waiter) = self.act(|state| {
            let call = state.call(call);
            match state.conn.cancel(call) {
                Some(waiter) => (true, state.settle_cancelled(call, waiter)),
                None => (false, None),
            }
        });
        is_open
    }

    /// Moves the deadline of a call to `timeout` from now; `None` is never.
    pub(crate) fn extend(&self, call: CallId, timeout: Option<Duration>) -> Result<(), SendError> {
        let deadline = timeout.map(|span| self.now() + span);
        self.act(|state| state.conn.set_deadline(state.call(call), deadline))
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
        let fault = error.map(Fault::from);
        // The last clone is dropped without the lock.
        self.act(|state| state.conn.abort(fault.clone()));
    }

    /// Takes the message of an exchange.
    pub fn receive_message(&self, message: Input<'_>) {
        self.act(|state| state.conn.handle_message(message));
    }

    /// Takes the reply of an exchange, where there is one, and ends the exchange if all that came
    /// in has been taken and answered: says why. The service has the last word.
    pub fn end_if_answered(&self, reply: &mut Vec<u8>) -> Option<Closed> {
        let mut state = self.lock();
        // The turn before may have taken it.
        state.conn.take_transmit(reply);
        state.conn.handle_written();
        if state.conn.requests_open() > 0 || state.conn.has_work() {
            // What waits for its turn is known to the task, and does not wake it again.
            if !state.conn.has_transmit() {
                let waker = state.sleepers.take(Sleeper::Task);
                if let Some(waker) = waker {
                    state.fall_asleep(Sleeper::Task, waker);
                }
            }
            return None;
        }
        state.conn.handle_eof();
        Some(state.let_go())
    }

    /// Ends an exchange, answered or not, and lets go of what still waits for the service.
    pub fn end_exchange(&self) -> Closed {
        let mut state = self.lock();
        state.conn.handle_eof();
        let why = state.let_go();
        drop(state);
        self.let_work_go();
        why
    }

    /// Notes that the transport has been let go.
    pub fn let_go(&self) {
        self.lock().let_go();
    }

    /// Why the connection ended, once its transport has been let go, and what broke it.
    pub fn finished(&self) -> (Closed, Option<io::Error>) {
        let state = self.lock();
        let why = state.finished().unwrap_or(Closed::EndOfInput);
        (why, state.fault())
    }

    /// Whether anything waits for the service.
    pub fn has_work(&self) -> bool {
        self.lock().conn.has_work()
    }

    /// How long the other side's end of stream is awaited after ours. Nothing, if it has been given
    /// up.
    pub fn linger(&self) -> Duration {
        self.lock().conn.linger()
    }

    /// Lets go of what waits for the service. It may hold the session and so keep itself alive.
    pub fn let_work_go(&self) {
        loop {
            let work = self.lock().conn.poll_work(true);
            // It is dropped without the lock.
            if work.is_none() {
                break;
            }
        }
        // Nothing begins any more, however long others hold the session.
        let membership = self.lock().membership.take();
        drop(membership);
    }
}

impl Begins for Session {
    fn may_begin(&self) {
        self.lock().rouse(Sleeper::Service);
    }
}

/// Holds the lock of a [`Session`]. Dropping it ends the turn, and wakes those it concerns.
pub struct Guard<'s> {
    session: &'s Session,
    /// `None` only while the guard is being dropped.
    state: Option<MutexGuard<'s, State>>,
}

impl<'s> Guard<'s> {
    fn new(session: &'s Session, state: MutexGuard<'s, State>) -> Self {
        let state = Some(state);
        Self { session, state }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        // It is taken only by what drops the guard.
        self.state.as_ref().expect("the guard holds its lock")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        // As above.
        self.state.as_mut().expect("the guard holds its lock")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.release(|_| {});
    }
}

impl Guard<'_> {
    /// Ends the turn, does a last thing, lets the lock go, and wakes.
    fn release(&mut self, last: impl FnOnce(&mut State)) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        self.session.end_turn(&mut state);
        last(&mut state);
        let (wakes, called) = (take(&mut state.wakes), take(&mut state.called));
        drop(state);
        wakes.into_iter().for_each(Waker::wake);
        call(&called);
    }

    /// Ends the turn, and has `waker` woken as soon as there is something to do for `sleeper`.
    /// What there is to do already does not wake it: the caller has looked.
    fn fall_asleep(mut self, sleeper: Sleeper, waker: Waker) {
        let mut before = None;
        self.release(|state| before = state.sleepers.set(sleeper, Some(waker)));
        drop(before);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

/// What carries the messages, or why it cannot.
fn wire(options: &ConnectionConfig, now: Instant) -> (Wire, Option<io::Error>) {
    #[cfg(feature = "websocket")]
    if let Some(websocket) = &options.websocket {
        return match WebSocket::new(Arc::clone(websocket), &options.config, now) {
            Ok(websocket) => (Wire::Layered(Box::new(websocket)), None),
            Err(error) => (Wire::Messages, Some(error)),
        };
    }
    let _ = now;
    match options.config.framing {
        Framing::Messages => (Wire::Messages, None),
        _ => (Wire::Stream, None),
    }
}

fn session_config(options: &ConnectionConfig, is_accepted: bool) -> SessionConfig {
    let mut config = SessionConfig::new(options.config);
    config.max_queued_messages = options.max_queued_messages;
    config.max_queued_bytes = options.max_queued_bytes;
    config.when_full = options.when_full;
    config.order = options.order;
    config.linger = options.linger;
    config.refuse_http = is_accepted && options.refuse_http;
    config
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = self.lock().conn.phase();
        f.debug_struct("Session")
            .field("phase", &phase)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}
