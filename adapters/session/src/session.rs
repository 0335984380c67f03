//! A connection between its transport, its service and its callers: one lock, and what is done
//! under it.
//!
//! Everybody takes a short turn: tell the time, do one thing, drain the events, wake whom it
//! concerns. Nobody waits, writes or runs foreign code during a turn, but for the filling of a batch
//! and the `Serialize` of what is being sent.
//!
//! | module | has |
//! |---|---|
//! | `state` | what the lock guards, and what can be asked of it |
//! | `guard` | the lock, and the wakings that wait until it is free |
//! | `signals` | who waits for what, and who is woken |
//! | `events` | what comes in, on its way to callers and service |
//! | `ending` | ends and faults, and how long each step of an end may take |
//! | `judging` | when a deadline may end something |
//! | `moving` | the session as what a pump moves bytes for |
//! | `lent` | user code under the lock, which may not take it again |
//! | `inlet`, `outlet` | threads that read and write for themselves |

mod ending;
mod events;
mod guard;
mod inlet;
mod judging;
mod lent;
mod moving;
mod outlet;
mod signals;
mod state;

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use antiphon::{CloseReason, Closed, Connection, Input, Instant, OwnedOutcome, RequestKey};

use crate::clock::{Clock, FAR_AHEAD};
use crate::context::Context;
use crate::fault::Fault;
use crate::machine::{Outlet, Turn};
use crate::options::Options;
use crate::places::{Place, Places};
use crate::queue::{Queue, Taken, Work};
use crate::rare::rare;
use crate::report::Report;
use crate::reported::ReportedRequest;
#[cfg(feature = "websocket")]
use crate::websocket::Layer;

use ending::after;
pub use guard::Guard;
use guard::Wakes;
use inlet::Reading;
pub(crate) use judging::Patience;
pub use judging::grace;
use judging::{Arrived, Judging};
use signals::SIGNALS;
pub use signals::Signal;

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

/// A connection that several threads or tasks share.
pub struct Session {
    state: Mutex<State>,
    /// Names the thread that runs user code under the lock; 0 for none.
    lent_to: AtomicUsize,
    /// Where whoever has something to say may write it, where that is possible.
    outlet: OnceLock<Box<dyn Outlet>>,
    /// False only while nothing waits for the service, for asking without the lock.
    has_work: AtomicBool,
    /// How many requests the service has taken and not begun yet.
    taken: AtomicUsize,
    /// Nothing is to be read for now, for asking without the lock.
    is_paused: AtomicBool,
    /// False only while no request in the service's hands was given up, for asking without the lock.
    has_cancelled: AtomicBool,
    /// Nothing more is read: it is over, and has been for a while.
    is_deaf: AtomicBool,
    conditions: [Condvar; SIGNALS],
    options: Options,
    context: Arc<Context>,
    /// What is known since the connection opened, where that takes a handshake.
    learnt: OnceLock<Arc<Context>>,
    clock: Arc<dyn Clock>,
    /// All spans that begin with what comes in or is written are so long that they may end some milliseconds early.
    is_patient: bool,
}

/// What the lock of a [`Session`] guards.
pub struct State {
    /// The conversation.
    pub conn: Connection<Tag>,
    /// What is between the messages and the bytes, if anything is.
    #[cfg(feature = "websocket")]
    pub(crate) layer: Option<Box<Layer>>,
    /// The first bytes may begin an HTTP request, which is refused.
    is_opening: bool,
    /// Nothing is to be read until there is room in the queue, or a call is open.
    pub(crate) is_paused: bool,
    /// The connection was ended because the queue ran over.
    is_overflown: bool,
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
    /// Whether deadlines may end something.
    judging: Judging,
    /// When the write began, or last got on, that is under way; the far future while it has not had to wait. One writes
    /// at a time.
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
    /// The service has not begun, or is at work; not, in a task, with requests that were all there was.
    pub is_serving: bool,
    /// The request whose handler panicked last, until that is reported.
    panicked: Option<ReportedRequest>,
    /// The peer has sent a message that is one.
    has_heard: bool,
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
    present: Option<Instant>,
    /// The connection was told the time since the last turn, in which case little can have become due.
    is_told: bool,
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
        #[cfg(feature = "websocket")]
        let (layer, failed) = match Layer::of(&options, &*clock) {
            Ok(layer) => (layer, None),
            Err(error) => (None, Some(error)),
        };
        let is_long = |span: Option<Duration>| span.is_none_or(|span| span >= FAR_AHEAD);
        let config = &options.config;
        let is_patient = is_long(config.frame_time_max) && is_long(config.write_time_max);
        let session = Self {
            state: Mutex::new(State::new(
                Connection::new(options.config),
                &options,
                context.is_accepted,
                #[cfg(feature = "websocket")]
                layer,
            )),
            lent_to: AtomicUsize::new(0),
            outlet: OnceLock::new(),
            has_work: AtomicBool::new(true),
            taken: AtomicUsize::new(0),
            is_paused: AtomicBool::new(false),
            has_cancelled: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
            conditions: Default::default(),
            options,
            context: Arc::new(context),
            learnt: OnceLock::new(),
            clock,
            is_patient,
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
        *self.is_paused.get_mut() = false;
        *self.is_deaf.get_mut() = false;
        self.learnt = OnceLock::new();
        self.outlet = OnceLock::new();
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

    /// Whether a tick of the clock makes no difference to how long a write or a frame may take.
    pub(crate) fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Tells the connection the time, without letting a deadline end anything: there may be more to read. Under the lock nothing takes long: the clock is read once.
    fn tell_time(&self, state: &mut State) -> Instant {
        let now = match state.present {
            Some(now) => now,
            None if self.is_patient => self.now_about(),
            None => self.now(),
        };
        (state.present, state.is_told) = (Some(now), true);
        state.conn.handle_time(now);
        now
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

    /// Whether something may wait for the service, without the lock. What was added by somebody else
    /// meanwhile may go unseen; the next [`turn`](crate::Machine::turn) sees it.
    pub fn has_work(&self) -> bool {
        self.has_work.load(Ordering::Relaxed)
    }

    /// The next thing for the service to do, which begins requests only if `may_begin`. Tells the session
    /// whether it is at work: it is while what is next waits for something.
    pub fn next_work(&self, state: &mut State, may_begin: bool) -> Option<Work> {
        let was_serving = std::mem::replace(&mut state.is_serving, true);
        let work = state.next_in_order(may_begin);
        if work.is_none() {
            self.has_work.store(false, Ordering::Relaxed);
            if state.queue.is_empty() {
                state.is_serving = false;
                if was_serving {
                    self.wake(state);
                }
            }
        }
        work
    }

    /// Takes the requests that are next, as [`pop_requests`](crate::Queue::pop_requests) does, for a service that asks for
    /// more only when it has begun them. If that was all, it is told so without the lock.
    pub fn next_requests(&self, state: &mut State, taken: &mut Taken, requests_max: usize) -> bool {
        if requests_max == 0 {
            return false;
        }
        let is_any = state.queue.pop_requests(taken, requests_max);
        if is_any {
            // What many have taken is given back, and that takes the lock.
            let is_all = state.queue.is_empty() && taken.is_small();
            state.is_serving = !is_all;
            self.has_work.store(!is_all, Ordering::Relaxed);
        }
        is_any
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
        self.tell_time(&mut state);
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
        let result = self.lend(|| answer(&mut state));
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
            drop(self.write_out(state));
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
            self.tell_time(state);
        }
    }

    /// The request whose handler has just panicked, if it was one: for the report of that.
    pub fn take_panicked(&self) -> Option<ReportedRequest> {
        self.lock().panicked.take()
    }

    /// Remembers what a panic has taken along, or reports an answer that was forgotten.
    pub(crate) fn note_unanswered(
        &self,
        state: &mut State,
        about: ReportedRequest,
        is_panicking: bool,
    ) {
        if is_panicking {
            state.panicked = Some(about);
            return;
        }
        state.queue.push_report(Report::Unanswered(about), 0);
        self.signal(state, Signal::Work);
    }

    /// Puts a report among the service's work.
    pub fn report(&self, report: Report) {
        self.act(|state| {
            state.queue.push_report(report, 0);
            self.signal(state, Signal::Work);
        });
    }

    /// Takes the output to be written next, and says that it is being written from now on: for whoever may have to wait
    /// in it, and does not say when.
    pub fn take_output_of(&self, state: &mut State, into: &mut Vec<u8>) -> bool {
        // To tell the time costs more than to look.
        if !state.has_output() {
            return false;
        }
        let now = self.tell_time(state);
        let is_taken = self.take_transmit_of(state, into);
        if is_taken {
            state.writing_since = Some(now);
        }
        is_taken
    }

    /// The same without saying since when it is being written.
    fn take_transmit_of(&self, state: &mut State, into: &mut Vec<u8>) -> bool {
        while state.take_transmit(into) {
            if state.write_failed.is_none() {
                return true;
            }
            rare();
            into.clear();
            // Whoever keeps time may have waited for nothing but this.
            self.signal(state, Signal::Turn);
        }
        false
    }

    /// When the next turn is wanted, if this one has nothing to do: it is open, nothing is to be written, and what had
    /// become due when the time was told last has been seen to. What has become due since then is for the next turn, which
    /// is at once in that case.
    fn quiet_until(&self, state: &mut State) -> Option<Instant> {
        if !std::mem::take(&mut state.is_told) {
            return None;
        }
        // Before the core, as in any other turn.
        if state.has_layer() || state.closing || state.writing_since.is_some() {
            rare();
            return None;
        }
        self.pump(state, &mut Input::none());
        if state.closing || state.has_output() {
            rare();
            return None;
        }
        // What is set stays set: to look once for nothing costs less than to set it for each call.
        let wanted = state.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        state.alarm = state.alarm.min(wanted);
        Some(state.alarm)
    }

    /// Lets deadlines come true, and says how long the connection has still something to say or to write. All that had
    /// arrived has been read.
    pub fn turn_of(&self, state: &mut State) -> Turn {
        self.turn_as(state, Arrived::Read)
    }

    /// The turn of a driver that may have more to read, or has read all.
    fn turn_as(&self, state: &mut State, arrived: Arrived) -> Turn {
        let present = self.now();
        state.present = Some(present);
        state.conn.handle_time(present);
        // What is due ends only by this time.
        let now = self.judge(state, present, arrived);
        state.conn.handle_timeout(now);
        // Before the core, which keeps the same span for what is queued behind.
        let may_give_up = state.closed.is_none() || state.write_failed.is_none();
        if may_give_up && self.write_due(state) <= now {
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
            self.stop_reading(state, why, ending_since, now);
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
        if now < present {
            let wake_at = state.judging.wake_at(present);
            state.alarm = wake_at;
            return Turn::Open { wake_at };
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
