//! The session of a connection, as its transport, its service and its callers share it: the core's
//! [`antiphon::session::Session`] behind one lock, with the wakers of the threads and tasks that
//! wait for something.
//!
//! A turn is short: take the lock, set the time, do one thing, put outcomes into the slots of their
//! callers, release the lock, and wake. Under the lock no byte is read or written, no thread or task is
//! woken, and no code of the program runs, not even the `drop` of its values; values are written to JSON
//! before the lock is taken. A thread or task that was woken under the lock would wait for the lock, so a
//! turn only notes which are to be woken, and the guard wakes them after it has released the lock.
//!
//! | module | has |
//! |---|---|
//! | `state` | the data that the lock guards |
//! | `sender_queue` | the senders that wait for space |
//! | `topics`, `topic_readers` | the topics that the program reads |
//! | `sinks`, `peer_stream` | the subscriptions of the peer |
//! | `exchange` | the message and the reply of an HTTP exchange |
//! | `conn_feed`, `feeds` | what waits for the connection from a hub |
//! | `durable_conn`, `deliveries`, `incoming` | its part in durable topics, what it sends of them, and what comes |
//! | `flows`, `flowing`, `peer_flow` | the flows in both directions |
//! | `ends` | how it ends |
//! | `wake` | threads and tasks that wait for a change |
//! | `turn` | one turn of the task |
//! | `running` | how many handlers may run |

mod conn_feed;
mod deliveries;
mod durable_conn;
mod ends;
mod exchange;
mod feeds;
mod flowing;
mod flows;
mod incoming;
mod peer_flow;
mod peer_stream;
mod running;
mod sender_queue;
mod sinks;
mod state;
mod topic_readers;
mod topics;
mod turn;
mod wake;
mod wiring;

use std::any::Any;
use std::fmt;
use std::mem::take;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use antiphon::service::Attributes;
use antiphon::session::{Phase, RequestDetails, Ticket};
use antiphon::{CallId, Dialect, Instant, SendError};

use crate::context::{Context, Headers};
use crate::guard::{Reports, caught};
use crate::lock::Lock;
use crate::options::ConnectionConfig;
use crate::runtime::{Runtime, SharedRuntime};
use crate::work::dispatcher::{Membership, call};
use crate::work::pool::Jobs;

pub(crate) use conn_feed::{ConnFeed, FeedHub};
pub(crate) use durable_conn::{DurableConn, DurableHub};
use flows::Flows;
pub(crate) use incoming::{Came, Incoming, Task};
pub(crate) use peer_flow::PeerFlow;
pub(crate) use peer_stream::PeerStream;
pub(crate) use sinks::{SinkKey, SinkPhase};
pub use state::Then;
pub(crate) use state::{CancelFlag, Conn, State, Tag, Work};
pub(crate) use turn::{Brought, Moved, Next, Sent, WorkBatch};
pub(crate) use wiring::Carries;
use wiring::{session_config, wire};

/// A connection that several threads or tasks share.
pub(crate) struct Session {
    state: Lock<State>,
    /// How often the lock was taken, for tests.
    #[cfg(debug_assertions)]
    locks: AtomicUsize,
    /// Whether the connection has ended: then [`give_back`](Self::give_back) checks each request that was
    /// taken from the session and has not begun. It is read without the lock, because that
    /// would be one more lock for each request.
    is_closed: AtomicBool,
    /// Whether the peer has ended its direction, or is gone: then handlers run with other permits of the
    /// server. It is read without the lock, as `is_closed` is.
    is_gone: AtomicBool,
    /// Whether its handlers run with those permits already.
    has_gone_permits: AtomicBool,
    /// How many threads are dropping handlers of requests, because there are no permits for them.
    makes_way: AtomicUsize,
    /// Whether the task was woken because there is a message to send, such as a call. The task reads it
    /// before its turn, without the lock.
    is_called: AtomicBool,
    /// Shared by the connections of a server.
    options: Arc<ConnectionConfig>,
    context: Arc<Context>,
    /// The context after the handshake, if there is one.
    learnt: OnceLock<Arc<Context>>,
    /// Values that interceptors and handlers store for later requests of the connection.
    attributes: Lock<Attributes>,
    /// What the HTTP reply of an exchange is to have. A handler may add to it while it holds the attributes.
    reply_headers: Lock<Headers>,
    /// What an adapter stores for the connection. Unlike the attributes, no code of the program can lock it.
    adapter: OnceLock<Box<dyn Any + Send + Sync>>,
    /// What waits from the hub to which the connection has subscribed; not set before that.
    feed: OnceLock<Arc<ConnFeed>>,
    /// Its part in durable topics; not set before the first request about them.
    durable: OnceLock<Arc<DurableConn>>,
    /// Whether a thread was found for a notification, and whether none was found for another: see
    /// [`note_notification`](Self::note_notification).
    is_notified: AtomicBool,
    is_refused: AtomicBool,
    /// How many handlers run to their end whose answer nobody awaits any more.
    unawaited: AtomicUsize,
    /// The connection's jobs on the pool; not set before the first one.
    jobs: OnceLock<Arc<Jobs>>,
    runtime: SharedRuntime,
    /// The dialect that was set in place of the configured one.
    dialect: OnceLock<Dialect>,
}

impl Session {
    /// Begins a connection over a transport that knows the facts in `context`. The connection has the
    /// number of `context`; if that is 0, the number of the configuration; and if that is 0 too, one of
    /// its own. If the transport carries messages, the framing is whole messages, whatever the options say.
    /// Over a stream it must not be whole messages: then the connection ends at once.
    pub(crate) fn new(
        options: impl Into<Arc<ConnectionConfig>>,
        carries: Carries,
        mut context: Context,
        runtime: SharedRuntime,
    ) -> Arc<Self> {
        let options = options.into();
        let mut config = session_config(&options, context.is_accepted);
        if context.connection == 0 {
            context.connection = options.config.connection;
        }
        if context.connection == 0 {
            context.draw_number();
        }
        config.config.connection = context.connection;
        let now = runtime.now();
        let (wire, failed) = wire(&options, &context, carries, now);
        let mut conn = Conn::new(config, wire, now);
        if failed.is_some() {
            conn.abort(failed.map(Into::into));
        }
        let dispatcher = context.is_accepted.then(|| options.dispatcher.clone());
        let join = |own: &Weak<Self>| {
            let join = |dispatcher| Arc::new(Membership::new(dispatcher, own.clone()));
            dispatcher.as_ref().map(join)
        };
        Arc::new_cyclic(|own: &Weak<Self>| Self {
            state: Lock::new(State::new(conn, join(own), Flows::of(&options))),
            #[cfg(debug_assertions)]
            locks: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            has_gone_permits: AtomicBool::new(false),
            makes_way: AtomicUsize::new(0),
            is_called: AtomicBool::new(false),
            options,
            context: Arc::new(context),
            learnt: OnceLock::new(),
            attributes: Lock::default(),
            reply_headers: Lock::default(),
            adapter: OnceLock::new(),
            feed: OnceLock::new(),
            durable: OnceLock::new(),
            is_notified: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            unawaited: AtomicUsize::new(0),
            jobs: OnceLock::new(),
            runtime,
            dialect: OnceLock::new(),
        })
    }

    /// The connection's options.
    pub(crate) fn options(&self) -> &ConnectionConfig {
        &self.options
    }

    /// The dialect: the configured one, or that which was set since.
    pub(crate) fn dialect(&self) -> &Dialect {
        self.dialect.get().unwrap_or(&self.options.config.dialect)
    }

    /// Sets the dialect, unless that was done before: see [`Peer::set_dialect`](crate::Peer::set_dialect).
    pub(crate) fn set_dialect(&self, dialect: Dialect) -> bool {
        let is_first = self.dialect.set(dialect).is_ok();
        if is_first {
            self.act(|state| state.conn.set_dialect(dialect));
        }
        is_first
    }

    /// Facts that the transport knows: more after a handshake, if there is one.
    pub(crate) fn context(&self) -> &Arc<Context> {
        self.learnt.get().unwrap_or(&self.context)
    }

    /// Values that interceptors and handlers store for later requests of the connection. They have a
    /// lock of their own, which is held until the guard is dropped.
    pub(crate) fn attributes(&self) -> MutexGuard<'_, Attributes> {
        self.attributes.lock()
    }

    /// The headers of the HTTP reply to an exchange.
    pub(crate) fn reply_headers(&self) -> MutexGuard<'_, Headers> {
        self.reply_headers.lock()
    }

    /// Stores a value of an adapter for the connection, unless there is one.
    pub(crate) fn set_adapter_value(&self, value: impl Any + Send + Sync) {
        // The first one stays.
        let _ = self.adapter.set(Box::new(value));
    }

    /// The value that an adapter has stored, if it has this type.
    pub(crate) fn adapter_value<T: Any>(&self) -> Option<&T> {
        self.adapter.get()?.downcast_ref()
    }

    /// The runtime that makes the timers and tasks of the connection.
    pub(crate) fn runtime(&self) -> &dyn Runtime {
        &*self.runtime
    }

    /// The runtime, for objects that outlive the session.
    pub(crate) fn shared_runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    /// The current time, by the runtime's clock.
    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Takes the lock. No code of the program may run before the guard is dropped.
    pub(crate) fn lock(&self) -> Guard<'_> {
        #[cfg(debug_assertions)]
        self.locks.fetch_add(1, Ordering::Relaxed);
        // No code that can panic runs under the lock.
        Guard::new(self, self.state.lock())
    }

    /// Whether the task was woken, since the last call of this function, because there is a message to
    /// send.
    pub(crate) fn take_called(&self) -> bool {
        self.is_called.swap(false, Ordering::Relaxed)
    }

    /// How often the lock was taken so far.
    #[cfg(debug_assertions)]
    pub(crate) fn locks(&self) -> usize {
        self.locks.load(Ordering::Relaxed)
    }

    /// Runs `act` under the lock as one turn, and then wakes the threads and tasks that have
    /// something to do.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_time(self.now());
        act(&mut state)
    }

    /// Answers a request.
    pub(crate) fn answer<R>(&self, answer: impl FnOnce(&mut Conn) -> R) -> R {
        self.act(|state| answer(&mut state.conn))
    }

    /// Puts outcomes into the slots of their callers, and notes which threads or tasks have
    /// something to do now.
    fn end_turn(&self, state: &mut State) {
        state.count_waiting();
        if state.topics.is_some() {
            let timeout = self.options.call_timeout;
            state.turn_topics(timeout.map(|timeout| self.now() + timeout));
        }
        while let Some(route) = state.conn.poll_ready_route() {
            let reader = state.readers.remove(&route);
            state.wakes.extend(reader);
        }
        while let Some(settled) = state.conn.poll_settled() {
            state.settle(settled);
        }
        if state.sinks.has_changes() {
            state.change_sinks();
        }
        let timeout = self.options.call_timeout;
        state.conn.unsubscribe(timeout, || Tag::Unsubscribe);
        let phase = state.conn.phase();
        if phase != state.seen {
            self.see_phase(state, phase);
        }
        let is_paused = !state.conn.wants_input();
        if is_paused != state.was_paused {
            state.was_paused = is_paused;
            state.rouse();
        }
        if state.conn.has_cancels() {
            state.rouse_watchers();
        }
        if state.conn.has_work() {
            state.rouse();
        }
        if state.conn.has_transmit() && state.rouse() {
            // Beside a single call there is nothing to wait for.
            let is_alone = state.conn.calls_open() == 1 && state.conn.requests_open() == 0;
            self.is_called.store(!is_alone, Ordering::Relaxed);
        }
        // A task that does not sleep looks for the next deadline itself.
        if state.sleeper.is_some() && state.due() < state.alarm {
            state.rouse();
        }
        if !state.senders.is_empty() && !state.conn.is_full() {
            let next = state.senders.call_first();
            state.wakes.extend(next);
        }
    }

    #[cold]
    fn see_phase(&self, state: &mut State, phase: Phase) {
        if state.seen == Phase::Opening && state.conn.has_opened() {
            // There is only one handshake.
            let learnt = self.context.after(state.conn.take_handshake());
            let _ = self.learnt.set(Arc::new(learnt));
        }
        if is_gone(phase) {
            self.is_gone.store(true, Ordering::Relaxed);
        }
        if phase.closed().is_some() {
            self.is_closed.store(true, Ordering::Relaxed);
            state.sinks.end_all(&mut state.wakes);
        }
        state.end_flows(phase);
        state.seen = phase;
        state.rouse_all();
    }

    /// Takes back a request that was taken from the session, if the connection has ended since and the
    /// answer is not awaited any more. (After an end of input the peer may still await answers.)
    ///
    /// # Errors
    /// Returns the ticket if the request may begin.
    pub(crate) fn give_back(&self, ticket: Ticket) -> Result<(), Ticket> {
        if !self.is_closed.load(Ordering::Relaxed) {
            return Err(ticket);
        }
        self.act(|state| state.conn.give_back(ticket))
    }

    /// Takes the details of the request whose handler has just panicked, for a report. `None` if the
    /// handler served no request.
    pub(crate) fn take_panicked(&self) -> Option<RequestDetails> {
        self.lock().take_panicked()
    }

    /// Adds a report to the service's work.
    pub(crate) fn report(&self, report: antiphon::session::Report) {
        self.act(|state| state.conn.report(report));
    }

    /// Cancels a call, also at the peer if the dialect has a cancel. Returns false if the call had
    /// ended.
    pub(crate) fn cancel(&self, call: CallId) -> bool {
        // If the waiter is a function, the values that it captured are dropped without the lock: one
        // may be a responder, which takes the lock.
        let (is_open, _waiter) = self.act(|state| {
            let call = state.call(call);
            match state.conn.cancel(call) {
                Some(waiter) => (true, state.settle_cancelled(call, waiter)),
                None => (false, None),
            }
        });
        is_open
    }

    /// Sets the deadline of a call to `timeout` from now; `None` is never.
    pub(crate) fn extend(&self, call: CallId, timeout: Option<Duration>) -> Result<(), SendError> {
        let deadline = timeout.map(|span| self.now() + span);
        self.act(|state| state.conn.set_deadline(state.call(call), deadline))
    }
}

/// Drops the values of the program, which may panic.
impl Drop for Session {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        if let Some(membership) = state.membership.take() {
            let permits = &mut state.permits;
            membership.leave(permits.take_all(), permits.waiting);
        }
        if let Some(feed) = self.feed.take() {
            feed.end();
        }
        if let Some(durable) = self.durable.take() {
            durable.end();
        }
        let (attributes, adapter) = (take(self.attributes.get_mut()), self.adapter.take());
        caught(|| drop(attributes));
        caught(|| drop(adapter));
    }
}

impl Reports for Session {
    fn report_panic(&self) {
        let request = self.take_panicked();
        self.report(antiphon::session::Report::Panicked(request));
    }
}

/// Holds the lock of a [`Session`]. Dropping it ends the turn, and wakes threads and tasks.
pub(crate) struct Guard<'s> {
    session: &'s Session,
    /// `None` only while the guard is being dropped.
    state: Option<MutexGuard<'s, State>>,
    /// Whether the turn has ended, and nothing was changed since.
    has_ended: bool,
}

impl<'s> Guard<'s> {
    fn new(session: &'s Session, state: MutexGuard<'s, State>) -> Self {
        Self {
            session,
            state: Some(state),
            has_ended: false,
        }
    }
}

impl Deref for Guard<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        // Only dropping the guard takes the state out.
        self.state.as_ref().expect("the guard holds its lock")
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        // Only dropping the guard takes the state out.
        self.state.as_mut().expect("the guard holds its lock")
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.release(|_| {});
    }
}

impl Guard<'_> {
    /// Ends the turn. Nothing may be changed afterwards that it looks at.
    fn end_turn(&mut self) {
        self.session
            .end_turn(self.state.as_mut().expect("the guard holds its lock"));
        self.has_ended = true;
    }

    /// Ends the turn, runs `last`, releases the lock, and wakes.
    fn release(&mut self, last: impl FnOnce(&mut State)) {
        let Some(mut state) = self.state.take() else {
            return;
        };
        if !self.has_ended {
            self.session.end_turn(&mut state);
        }
        last(&mut state);
        let wakes = take(&mut state.wakes);
        let returned = take(&mut state.permits.returned);
        let wanted = state.permits.wanted;
        let must_ask =
            |membership: &Arc<Membership>| membership.set_wanted(wanted) || !returned.is_empty();
        let asks = state
            .membership
            .as_ref()
            .filter(|one| must_ask(one))
            .cloned();
        drop(state);
        for waker in wakes {
            caught(|| waker.wake());
        }
        if let Some(membership) = asks {
            call(self.session.ask_dispatcher(&membership, returned));
        }
    }

    /// Ends the turn, and has `waker` woken as soon as there is something new to do for the task. The
    /// caller has checked that there is nothing to do now.
    fn fall_asleep(mut self, waker: Waker) {
        let mut before = None;
        self.release(|state| before = state.sleeper.replace(waker));
        drop(before);
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

/// Whether the peer has ended its direction, or is gone.
fn is_gone(phase: Phase) -> bool {
    !matches!(phase, Phase::Opening | Phase::Open | Phase::Draining)
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
