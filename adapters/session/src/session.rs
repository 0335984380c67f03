//! A connection between its transport, its service and its callers: one lock, and what is done
//! under it.
//!
//! Everybody takes a short turn: tell the time, do one thing, drain the events, wake whom it
//! concerns. Nobody waits, writes or runs foreign code during a turn, but for the `Serialize` of
//! what is being sent.
//!
//! The rules of an ending, for every adapter: what came in before the end of input is served
//! before the end is told; what was answered is written, for as long as the configuration's
//! `drain_time_max`; a write that hangs is given up after `write_time_max`; after a failed write
//! the other side's last words are awaited for `linger`.

mod guard;
mod inlet;
mod moving;
mod outlet;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use antiphon::{
    CallId, CloseReason, Closed, Connection, ErrorObject, Event, Framing, Input, Instant, Outcome,
    OwnedOutcome, RequestKey, Response,
};

use crate::clock::Clock;
use crate::context::Context;
use crate::fault::Fault;
use crate::machine::{Inlet, Outlet, Turn};
use crate::options::Options;
use crate::places::{Place, Places};
use crate::queue::{Queue, Work};
use crate::rare::rare;
use crate::report::Report;
#[cfg(feature = "websocket")]
use crate::websocket::Layer;

pub use guard::Guard;
use guard::Wakes;
use inlet::Reading;

/// Runs with the service's other work when a call has settled.
pub type Then = Box<dyn FnOnce(OwnedOutcome) + Send>;

/// Who waits for a call.
pub enum Tag {
    /// One caller.
    Once(Place),
    /// Whoever waits for a whole batch.
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

/// What somebody may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Whoever writes: there is output.
    Writable,
    /// Whoever keeps time: an earlier deadline, or an end.
    Turn,
    /// Whoever runs the service: there is work.
    Work,
    /// Callers: room, bytes that left, a cancel, the end.
    Changed,
    /// Whoever reads, where others do so, too: nobody does.
    Readable,
}

impl Signal {
    const ALL: [Self; SIGNALS] = [
        Self::Writable,
        Self::Turn,
        Self::Work,
        Self::Changed,
        Self::Readable,
    ];
}

/// For how many cancels and tasks that watch a session keeps its memory for another.
const KEPT_MAX: usize = 16;

/// How many signals there are.
const SIGNALS: usize = 5;

/// A connection that several threads or tasks share.
pub struct Session {
    state: Mutex<State>,
    /// Where whoever has something to say may write it, where that is possible.
    outlet: OnceLock<Box<dyn Outlet>>,
    /// Where whoever waits may read, where that is possible.
    inlet: OnceLock<Box<dyn Inlet>>,
    /// False only while nothing waits for the service, for asking without the lock.
    has_work: AtomicBool,
    /// How many requests the service has taken and not begun yet.
    taken: AtomicUsize,
    /// False only while no request in the service's hands was given up, for asking without the lock.
    has_cancelled: AtomicBool,
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
    pub conn: Connection<Tag>,
    /// What is between the messages and the bytes, if anything is.
    #[cfg(feature = "websocket")]
    pub(crate) layer: Option<Box<Layer>>,
    /// Where callers wait.
    pub(crate) places: Places,
    /// What waits for the service.
    pub queue: Queue,
    /// Requests in the service's hands that were given up.
    cancelled: HashSet<RequestKey>,
    /// The mark in the output up to which bytes were taken to be written, and the one up to which
    /// they have been written and flushed.
    pub(crate) taken: u64,
    written: u64,
    /// Who reads, where others than the reading thread may.
    reading: Reading,
    /// When the write began, or last got on, that is under way. One writes at a time.
    pub(crate) writing_since: Option<Instant>,
    /// What the writer is to go on with, of a write that somebody else began; otherwise empty.
    left_over: Vec<u8>,
    /// When writing failed. What else is queued is thrown away.
    write_failed: Option<Instant>,
    /// What broke the transport, if anything did.
    fault: Option<Fault>,
    /// When the input ended, and whether the connection has been told.
    input_ended: Option<Instant>,
    pub(crate) is_end_told: bool,
    /// What was left over then.
    input_rest: Vec<u8>,
    /// The service is at work, or has not begun.
    pub is_serving: bool,
    /// Something has begun to end: time is looked at in every turn.
    closing: bool,
    /// The last event, and since when it is being waited for the rest.
    closed: Option<Closed>,
    ending_since: Option<Instant>,
    /// Nobody writes any more.
    pub is_writer_gone: bool,
    /// All is over but for the service, which may have a last thing to do.
    finished: Option<Closed>,
    /// When whoever keeps time wakes by himself.
    alarm: Instant,
    /// The present, if whoever has the lock has asked for it.
    pub(crate) present: Option<Instant>,
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

impl State {
    fn new(
        conn: Connection<Tag>,
        options: &Options,
        #[cfg(feature = "websocket")] layer: Option<Box<Layer>>,
    ) -> Self {
        Self {
            conn,
            #[cfg(feature = "websocket")]
            layer,
            places: Places::default(),
            queue: Queue::new(options),
            cancelled: HashSet::new(),
            taken: 0,
            written: 0,
            reading: Reading::default(),
            writing_since: None,
            left_over: Vec::new(),
            write_failed: None,
            fault: None,
            input_ended: None,
            is_end_told: false,
            input_rest: Vec::new(),
            is_serving: true,
            closing: false,
            closed: None,
            ending_since: None,
            is_writer_gone: false,
            finished: None,
            alarm: Instant::FAR_FUTURE,
            present: None,
            waiting: [0; SIGNALS],
            is_signalled: [false; SIGNALS],
            wakes: Wakes::default(),
            task: None,
            watchers: Vec::new(),
        }
    }

    /// Begins another conversation in the memory of this one, not over a WebSocket. Every field is
    /// named, so that none is forgotten.
    fn renew(&mut self, options: &Options) {
        let Self {
            conn,
            #[cfg(feature = "websocket")]
            layer,
            places,
            queue,
            cancelled,
            taken,
            written,
            reading,
            writing_since,
            left_over,
            write_failed,
            fault,
            input_ended,
            is_end_told,
            input_rest,
            is_serving,
            closing,
            closed,
            ending_since,
            is_writer_gone,
            finished,
            alarm,
            present,
            waiting,
            is_signalled,
            wakes,
            task,
            watchers,
        } = self;
        conn.renew(options.config.connection, options.config.first_call);
        #[cfg(feature = "websocket")]
        {
            *layer = None;
        }
        *places = Places::default();
        queue.renew();
        cancelled.clear();
        cancelled.shrink_to(KEPT_MAX);
        (*taken, *written) = (0, 0);
        *reading = Reading::default();
        (*writing_since, *write_failed, *fault) = (None, None, None);
        left_over.clear();
        (*input_ended, *is_end_told) = (None, false);
        input_rest.clear();
        (*is_serving, *is_writer_gone) = (true, false);
        (*closing, *closed, *ending_since, *finished) = (false, None, None, None);
        (*alarm, *present) = (Instant::FAR_FUTURE, None);
        *waiting = [0; SIGNALS];
        *is_signalled = [false; SIGNALS];
        *wakes = Wakes::default();
        *task = None;
        watchers.clear();
        watchers.shrink_to(KEPT_MAX);
    }

    /// Whether the end of input may be told. What came in before is served first, so that the
    /// service can still speak of it; but nothing that waits for an answer is kept waiting.
    fn may_tell_end(&self) -> bool {
        let is_served = self.queue.is_empty() && !self.is_serving;
        is_served || self.conn.calls_open() > 0 || self.closed.is_some()
    }

    /// Forgets a request that is answered, or that nobody will answer.
    pub(crate) fn let_go(&mut self, request: RequestKey, bytes: usize) {
        // Mostly nothing is cancelled, and the set is not worth its hash.
        if !self.cancelled.is_empty() {
            rare();
            self.cancelled.remove(&request);
        }
        self.queue.release(bytes);
    }

    /// Whether nobody waits for the answer to a request any more.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.finished.is_some() || self.cancelled.contains(&request)
    }

    /// What broke the transport, if anything did before the connection was meant to end.
    pub fn fault(&self) -> Option<io::Error> {
        self.fault.as_ref().map(Fault::to_error)
    }

    /// Why the connection takes nothing more in; none while it does.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Whether nothing new is sent: it drains, is closed, or takes nothing more in.
    pub fn is_closing(&self) -> bool {
        self.closing || self.closed.is_some()
    }

    /// Why the connection ended, once its transport has been let go.
    pub fn finished(&self) -> Option<Closed> {
        self.finished
    }

    /// Whether all that was sent up to `mark` has been written; an error if it never will be.
    pub fn is_written(&self, mark: u64) -> io::Result<bool> {
        if self.written >= mark {
            return Ok(true);
        }
        if self.write_failed.is_some() || self.is_writer_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(false)
    }

    /// Whether writing has failed.
    pub fn has_write_failed(&self) -> bool {
        self.write_failed.is_some()
    }

    /// Whether new output would be refused for want of room.
    pub(crate) fn is_full(&self) -> bool {
        let waiting = self.conn.transmit_queued() - self.conn.transmit_done();
        waiting > self.conn.config().outbox_bytes_soft as u64
    }

    /// Whether messages can be exchanged: false until a handshake is done, where there is one. The
    /// service is not told of a connection before.
    pub fn is_open(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            return layer.is_open();
        }
        true
    }

    /// Whether messages can be exchanged, or why they never will be; none while that is open.
    pub(crate) fn opened(&mut self) -> Option<io::Result<()>> {
        if self.is_open() {
            return Some(Ok(()));
        }
        self.closed?;
        let error = self.fault();
        Some(Err(error.unwrap_or(io::ErrorKind::NotConnected.into())))
    }

    /// Whether there is something to write.
    fn has_output(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            rare();
            return self.has_frames(layer);
        }
        self.conn.poll_transmit().is_some()
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) -> bool {
        #[cfg(feature = "websocket")]
        if self.layer.is_some() {
            rare();
            return self.take_frames(into);
        }
        let is_taken = if self.conn.config().framing == Framing::Messages {
            rare();
            self.take_message(into)
        } else {
            self.conn.take_transmit(into)
        };
        self.taken = self.conn.transmit_done();
        is_taken
    }

    /// Takes one message, where messages are not written one behind another.
    fn take_message(&mut self, into: &mut Vec<u8>) -> bool {
        let Some(message) = self.conn.poll_transmit() else {
            return false;
        };
        into.extend_from_slice(message);
        self.conn.consume_transmit(into.len());
        true
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.conn.poll_timeout();
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            rare();
            return due.into_iter().chain(layer.poll_timeout()).min();
        }
        due
    }

    /// Whether all is said that is said below the messages.
    fn is_layer_over(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            return layer.is_over() || self.write_failed.is_some();
        }
        true
    }

    /// Whether whoever writes or keeps time waits, and has not been woken yet.
    #[inline]
    fn is_anybody_asleep(&self) -> bool {
        let waits = |signal: Signal| {
            let at = signal as usize;
            self.waiting[at] > 0 && !self.is_signalled[at]
        };
        self.task.is_some() || waits(Signal::Writable) || waits(Signal::Turn)
    }

    /// Puts an outcome where it is awaited.
    #[inline]
    pub(crate) fn settle(&mut self, place: &Place, outcome: Outcome<'_>) {
        if let Some(waiter) = self.places.settle(place, outcome) {
            self.wakes.settled(waiter);
        }
    }

    /// The same for one call of a batch.
    pub(crate) fn gather(&mut self, place: &Place, call: CallId, outcome: Outcome<'_>) {
        if let Some(waiter) = self.places.gather(place, call, outcome) {
            self.wakes.settled(waiter);
        }
    }

    /// Has a task woken at the next change; it looks again then.
    pub fn watch(&mut self, waker: &Waker) {
        if !self.watchers.iter().any(|known| known.will_wake(waker)) {
            self.watchers.push(waker.clone());
        }
    }
}

impl Session {
    /// Begins a conversation over a transport of which `context` is known.
    pub fn new(options: Options, context: Context, clock: Arc<dyn Clock>) -> Self {
        #[cfg(feature = "websocket")]
        let (layer, failed) = match Layer::of(&options, &*clock) {
            Ok(layer) => (layer, None),
            Err(error) => (None, Some(error)),
        };
        let session = Self {
            state: Mutex::new(State::new(
                Connection::new(options.config),
                &options,
                #[cfg(feature = "websocket")]
                layer,
            )),
            outlet: OnceLock::new(),
            inlet: OnceLock::new(),
            has_work: AtomicBool::new(true),
            taken: AtomicUsize::new(0),
            has_cancelled: AtomicBool::new(false),
            conditions: Default::default(),
            options,
            context: Arc::new(context),
            learnt: OnceLock::new(),
            clock,
        };
        #[cfg(feature = "websocket")]
        if failed.is_some() {
            session.abort(failed);
        }
        session
    }

    /// Begins another conversation in the memory of this one, which is over, with the same options.
    /// `know` changes what is known of the transport. Not over a WebSocket.
    pub fn renew(&mut self, know: impl FnOnce(&mut Context)) {
        let context = Arc::make_mut(&mut self.context);
        know(context);
        self.options.config.connection = context.connection;
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        state.renew(&self.options);
        *self.has_work.get_mut() = true;
        *self.taken.get_mut() = 0;
        *self.has_cancelled.get_mut() = false;
        self.learnt = OnceLock::new();
        (self.outlet, self.inlet) = (OnceLock::new(), OnceLock::new());
    }

    /// Takes the reply of an exchange, where there is one, and ends the exchange if all that came in has
    /// been taken and answered: says why. The service has the last word.
    pub fn end_if_answered(&self, reply: &mut Vec<u8>) -> Option<Closed> {
        let mut state = self.lock();
        state.conn.take_transmit(reply);
        if state.conn.requests_open() > 0 || !state.queue.is_empty() {
            return None;
        }
        // There is nothing to tell but the end.
        state.conn.handle_eof();
        if let Some(Event::Closed(why)) = state.conn.poll_event(&mut Input::none()) {
            (state.closed, state.closing) = (Some(why), true);
        }
        Some(self.finish(&mut state))
    }

    /// Ends an exchange, answered or not, and lets go of what still waits for the service.
    pub fn end_exchange(&self) -> Closed {
        let mut state = self.lock();
        state.conn.handle_eof();
        self.pump(&mut state, &mut Input::none());
        let why = self.finish(&mut state);
        drop(state);
        self.let_work_go();
        why
    }

    /// Notes that all is over but for the service.
    fn finish(&self, state: &mut State) -> Closed {
        if state.closed.is_none() {
            self.close_state(state, CloseReason::TransportFailed);
        }
        let why = state.closed.unwrap_or(Closed::EndOfInput);
        state.is_writer_gone = true;
        state.finished = Some(why);
        self.signal(state, Signal::Changed);
        why
    }

    /// Lets go of what waits for the service. It may hold the session and so keep itself alive.
    pub fn let_work_go(&self) {
        loop {
            let work = self.lock().queue.pop();
            if work.is_none() {
                return;
            }
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

    /// Adds what a handshake has told. Once.
    #[cfg(feature = "websocket")]
    pub(crate) fn learn(&self, add: impl FnOnce(&mut Context)) {
        let mut context = Context::clone(&self.context);
        add(&mut context);
        // There is one handshake.
        let _ = self.learnt.set(Arc::new(context));
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The present or a moment shortly before it.
    pub(crate) fn now_about(&self) -> Instant {
        self.clock.now_about()
    }

    /// The present under the lock, where nothing takes long: the clock is read once.
    pub(crate) fn present(&self, state: &mut State) -> Instant {
        *state.present.get_or_insert_with(|| self.now())
    }

    /// Takes the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        // Foreign code under the lock is a `Serialize` at most, and the connection takes back
        // what it had written by then.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        Guard::new(self, state)
    }

    /// Whether something may wait for the service, without the lock. What was added by somebody else
    /// meanwhile may go unseen; the next [`turn`](crate::Machine::turn) sees it.
    pub fn has_work(&self) -> bool {
        self.has_work.load(Ordering::Relaxed)
    }

    /// The next thing for the service to do. Tells the session whether it is at work.
    pub fn next_work(&self, state: &mut State) -> Option<Work> {
        let was_serving = std::mem::replace(&mut state.is_serving, true);
        let work = state.queue.pop();
        if work.is_none() {
            state.is_serving = false;
            self.has_work.store(false, Ordering::Relaxed);
            if was_serving {
                self.wake(state);
            }
        }
        work
    }

    /// Says how many requests the service has taken from the queue together and not begun yet: until
    /// there are none, answers may leave together.
    pub fn set_taken(&self, requests: usize) {
        self.taken.store(requests, Ordering::Relaxed);
    }

    /// Whether a request may begin that the service has taken from the queue together with others. False
    /// if it was given up meanwhile: it is to be [given up](crate::Request::give_up).
    #[inline]
    pub fn may_begin(&self, request: RequestKey) -> bool {
        // Whoever gives one up from now on finds it begun.
        !self.has_cancelled.load(Ordering::Acquire) || !self.was_given_up(request)
    }

    #[cold]
    fn was_given_up(&self, request: RequestKey) -> bool {
        let mut state = self.lock();
        let is_given_up = state.cancelled.contains(&request);
        if is_given_up {
            state.queue.remove_cancelled(request);
        } else {
            let is_any = !state.cancelled.is_empty();
            self.has_cancelled.store(is_any, Ordering::Release);
        }
        is_given_up
    }

    /// Does one thing with the state, and wakes whom it concerns.
    pub fn act<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let now = self.present(&mut state);
        state.conn.handle_timeout(now);
        let result = act(&mut state);
        self.wake(&mut state);
        result
    }

    /// Answers a request, and wakes whom it concerns: nobody, while the answer is kept for the rest of
    /// its batch. The time is told only where it matters, for that costs as much as writing a message:
    /// what is queued behind other output has its deadline with it.
    pub(crate) fn answer<R>(&self, request: RequestKey, answer: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        let is_kept = state.conn.is_answer_kept(request);
        let is_behind_other = state.conn.poll_transmit().is_some();
        if !is_kept {
            self.tell_time_to_output(&mut state);
        }
        let result = answer(&mut state);
        if state.conn.has_ended() && state.closed.is_none() {
            rare();
            // The answer found the output full: nothing comes in that would show it.
            self.pump(&mut state, &mut Input::none());
        } else if is_kept {
            return result;
        }
        // Where more is to be served, its answers may leave together.
        let outlet = self.outlet.get();
        let is_last = state.queue.is_empty() && self.taken.load(Ordering::Relaxed) == 0;
        if is_last && outlet.is_some_and(|outlet| outlet.takes_answers()) {
            self.write_out(state);
        } else if !is_behind_other || state.closing {
            // Otherwise whoever writes has been woken for what is before it.
            self.wake(&mut state);
        }
        result
    }

    /// Tells the time, if that is when the next output begins to wait, and it may not for ever.
    pub(crate) fn tell_time_to_output(&self, state: &mut State) {
        let is_timed = self.options.config.write_time_max.is_some();
        if is_timed && state.conn.poll_transmit().is_none() {
            let now = self.present(state);
            state.conn.handle_timeout(now);
        }
    }

    /// Wakes those who have something to do now.
    #[inline]
    pub fn wake(&self, state: &mut State) {
        if state.is_anybody_asleep() {
            self.wake_asleep(state);
        }
    }

    /// The same with the lock, which is then free.
    pub(crate) fn wake_for(&self, mut state: Guard<'_>) {
        self.wake(&mut state);
    }

    fn wake_asleep(&self, state: &mut State) {
        if state.writing_since.is_none() && state.has_output() {
            self.signal(state, Signal::Writable);
        }
        let deadline = state.poll_timeout();
        if state.closing || deadline.is_some_and(|deadline| deadline < state.alarm) {
            self.signal(state, Signal::Turn);
        }
    }

    /// Wakes whoever waits for `signal`, once the lock is free.
    pub fn signal(&self, state: &mut State, signal: Signal) {
        if signal == Signal::Work {
            self.has_work.store(true, Ordering::Relaxed);
        }
        let at = signal as usize;
        if state.waiting[at] > 0 && !state.is_signalled[at] {
            state.is_signalled[at] = true;
            state.wakes.signal(signal);
        }
        if signal == Signal::Changed {
            if !state.watchers.is_empty() {
                rare();
                state.watchers.drain(..).for_each(Waker::wake);
            }
        } else if let Some(task) = state.task.take() {
            state.wakes.task(task);
        }
    }

    /// Lets the thread wait for `signal` until `deadline`, and takes the lock again. One thread
    /// waits for a signal at a time, but for [`Signal::Changed`].
    pub fn wait<'s>(
        &'s self,
        signal: Signal,
        mut state: Guard<'s>,
        deadline: Instant,
    ) -> Guard<'s> {
        let at = signal as usize;
        state.waiting[at] += 1;
        // Who has been woken before was another.
        state.is_signalled[at] = false;
        let mut state = self.wait_on(&self.conditions[at], state, deadline);
        state.waiting[at] -= 1;
        state.is_signalled[at] = false;
        state
    }

    /// Lets the thread wait for `condition` until `deadline`, and takes the lock again.
    pub(crate) fn wait_on<'s>(
        &'s self,
        condition: &Condvar,
        state: Guard<'s>,
        deadline: Instant,
    ) -> Guard<'s> {
        let Some(state) = state.into_inner() else {
            return self.lock();
        };
        let state = if deadline == Instant::FAR_FUTURE {
            let waited = condition.wait(state);
            waited.unwrap_or_else(PoisonError::into_inner)
        } else {
            let span = deadline.saturating_since(self.now());
            let waited = condition.wait_timeout(state, span);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        Guard::new(self, state)
    }

    /// Lets the thread wait for changes until `look` finds what it looks for, or `deadline`.
    pub fn wait_until<R>(
        &self,
        deadline: Instant,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            if self.now() >= deadline {
                return None;
            }
            self.want_reader(&mut state);
            state = self.wait(Signal::Changed, state, deadline);
        }
    }

    /// Takes every event that `input` and the time hold: answers settle their calls here, all
    /// else goes to the service. Nothing is begun before this is through, so a cancel finds its
    /// request still waiting if both came in one read.
    pub fn pump(&self, state: &mut State, input: &mut Input<'_>) {
        while let Some(event) = state.conn.poll_event(input) {
            self.take(state, event);
        }
        if !state.queue.is_empty() {
            self.signal(state, Signal::Work);
        }
    }

    fn take(&self, state: &mut State, event: Event<'_, Tag>) {
        #[cfg(feature = "websocket")]
        if let Event::Notification(notification) = &event {
            if self.is_heartbeat(state, &notification.method) {
                return;
            }
        }
        let queue = &mut state.queue;
        match event {
            Event::Request(request) => {
                if let Err(token) = queue.push_request(request) {
                    rare();
                    let busy = ErrorObject::server_busy();
                    // It can only be refused where nobody waits for it any more.
                    let _ = state.conn.respond_err(token, &busy);
                    queue.push_report(Report::QueueFull, 0);
                }
            }
            Event::Notification(notification) => {
                queue.push_notification(notification);
            }
            Event::Response(Response {
                call, tag, outcome, ..
            }) => {
                state.reading.is_call_settled = true;
                match tag {
                    Tag::Once(place) => state.settle(&place, outcome),
                    Tag::Batch(place) => state.gather(&place, call, outcome),
                    Tag::Then(then) => queue.push_settled(then, outcome.into_owned()),
                }
            }
            Event::Cancelled(cancelled) => {
                rare();
                if let Some(request) = queue.remove_request(cancelled.key) {
                    if cancelled.answer_owed {
                        // It can only be refused where nobody waits for it any more.
                        let _ = state.conn.respond_cancelled(request.into_token());
                    }
                } else if state.cancelled.insert(cancelled.key) {
                    self.has_cancelled.store(true, Ordering::Release);
                    let reason = cancelled.reason.map(|reason| reason.to_owned_json());
                    queue.push_cancelled(cancelled.key, reason);
                    self.signal(state, Signal::Changed);
                }
            }
            Event::Malformed(malformed) => {
                rare();
                let (report, bytes) = Report::malformed(malformed);
                queue.push_report(report, bytes);
            }
            Event::Refused(refused) => {
                rare();
                let (report, bytes) = Report::refused(refused);
                queue.push_report(report, bytes);
            }
            Event::Stray(stray) => {
                rare();
                let (report, bytes) = Report::stray(stray);
                queue.push_report(report, bytes);
            }
            Event::Closed(why) => {
                rare();
                state.closed = Some(why);
                state.closing = true;
                self.signal(state, Signal::Turn);
                self.signal(state, Signal::Changed);
            }
            // Events that a later core may have are none that an adapter promises.
            _ => {}
        }
    }

    /// Ends the conversation at once.
    pub fn close(&self, reason: CloseReason) {
        self.act(|state| self.close_state(state, reason));
    }

    /// Ends the conversation in good order.
    pub fn drain(&self) {
        self.act(|state| {
            state.closing = true;
            state.conn.drain();
            self.pump(state, &mut Input::none());
        });
    }

    #[cold]
    pub(crate) fn close_state(&self, state: &mut State, reason: CloseReason) {
        state.closing = true;
        state.conn.close(reason);
        self.pump(state, &mut Input::none());
    }

    /// Ends a connection that never got a transport, or lost it with the panic of one.
    #[cold]
    pub fn abort(&self, error: Option<io::Error>) {
        self.act(|state| {
            if let Some(error) = error {
                self.note_fault(state, error);
            }
            self.close_state(state, CloseReason::TransportFailed);
            state.is_writer_gone = true;
        });
    }

    /// Puts a report among the service's work.
    pub fn report(&self, report: Report) {
        self.act(|state| {
            state.queue.push_report(report, 0);
            self.signal(state, Signal::Work);
        });
    }

    /// Remembers what broke the transport, unless this side meant to end the connection.
    #[cold]
    pub(crate) fn note_fault(&self, state: &mut State, error: io::Error) {
        let is_meant = matches!(state.closed, Some(Closed::Local(_) | Closed::Drained));
        if !is_meant && state.fault.is_none() {
            let fault = Fault::new(error);
            let report = Report::Io(fault.to_error());
            state.fault = Some(fault);
            state.queue.push_report(report, 0);
            self.signal(state, Signal::Work);
        }
    }

    #[cold]
    fn fail_write(&self, state: &mut State, error: io::Error) {
        self.note_fault(state, error);
        let now = self.now();
        state.write_failed.get_or_insert(now);
        state.closing = true;
    }

    /// Takes the output to be written next, as [`Machine::take_output`](crate::Machine::take_output) does, under the lock.
    pub fn take_output_of(&self, state: &mut State, into: &mut Vec<u8>) -> bool {
        // To tell the time costs more than to look.
        if !state.has_output() {
            return false;
        }
        let now = self.present(state);
        state.conn.handle_timeout(now);
        loop {
            if !state.take_transmit(into) {
                return false;
            }
            if state.write_failed.is_none() {
                state.writing_since = Some(now);
                return true;
            }
            rare();
            into.clear();
            // Whoever keeps time may have waited for nothing but this.
            self.signal(state, Signal::Turn);
        }
    }

    /// Lets deadlines come true, and says how long the connection has still something to say or
    /// to write.
    pub fn turn_of(&self, state: &mut State) -> Turn {
        let now = self.present(state);
        state.conn.handle_timeout(now);
        // Before the core, which keeps the same span for what is queued behind.
        if state.closed.is_none() && self.write_due(state) <= now {
            self.give_up_writing(state);
        }
        #[cfg(feature = "websocket")]
        self.turn_frames(state, now);
        let told_by = self.tell_end(state, now);
        self.pump(state, &mut Input::none());
        let mut due = self.write_due(state).min(told_by);
        if let Some(why) = state.closed {
            rare();
            let ended_at = state.input_ended.unwrap_or(now);
            let ending_since = *state.ending_since.get_or_insert(ended_at);
            due = after(ending_since, self.options.config.drain_time_max);
            if due <= now {
                self.close_state(state, CloseReason::GoingAway);
                return self.over(state, why);
            }
            #[cfg(feature = "websocket")]
            self.close_frames(state, why);
            let is_written = state.writing_since.is_none() || state.write_failed.is_some();
            // The writer is gone before it was told to only if it panicked.
            let is_said = state.conn.is_closed() && state.is_layer_over();
            if (is_said && is_written) || state.is_writer_gone {
                return self.over(state, why);
            }
        }
        // What time has made be said: nobody else comes by to wake the writer.
        if state.writing_since.is_none() && state.has_output() {
            self.signal(state, Signal::Writable);
        }
        let wanted = state.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        // A bound that should prove stale again and again costs a look a millisecond, no more.
        let mut wake_at = wanted.min(due).max(now + Duration::from_millis(1));
        // What is set stays set: to look once for nothing costs less than to set it for each call.
        if now < state.alarm {
            wake_at = wake_at.min(state.alarm);
        }
        state.alarm = wake_at;
        Turn::Open { wake_at }
    }

    #[cold]
    fn over(&self, state: &mut State, why: Closed) -> Turn {
        // It is the end that was told, even if a close came after it.
        state.closed = Some(why);
        Turn::Over
    }

    /// Tells the end of input once it may be told. Says when it will be at the latest.
    fn tell_end(&self, state: &mut State, now: Instant) -> Instant {
        let Some(ended_at) = state.input_ended.filter(|_| !state.is_end_told) else {
            return Instant::FAR_FUTURE;
        };
        rare();
        let deadline = after(ended_at, self.options.config.drain_time_max);
        if !state.may_tell_end() && now < deadline {
            return deadline;
        }
        state.is_end_told = true;
        state.conn.handle_eof();
        let rest = std::mem::take(&mut state.input_rest);
        self.pump(state, &mut Input::stream(&rest));
        Instant::FAR_FUTURE
    }

    /// When the writer is to be given up a step further: a write that hangs, or the last words of
    /// a peer that can no longer be written to.
    pub(crate) fn write_due(&self, state: &State) -> Instant {
        match (state.write_failed, state.writing_since) {
            (Some(failed_at), _) if state.input_ended.is_some() => failed_at,
            (Some(failed_at), _) => failed_at + self.options.linger,
            (None, Some(since)) => after(since, self.options.config.write_time_max),
            (None, None) => Instant::FAR_FUTURE,
        }
    }

    #[cold]
    fn give_up_writing(&self, state: &mut State) {
        if state.write_failed.is_some() {
            self.close_state(state, CloseReason::TransportFailed);
        } else {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the peer takes no output");
            self.fail_write(state, error);
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("conn", &self.conn)
            .field("queue", &self.queue)
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

fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}
