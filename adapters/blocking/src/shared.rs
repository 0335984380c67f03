//! The connection between its threads: one lock, and what is done under it.
//!
//! Every thread takes a short turn: tell the time, do one thing, drain the events, wake whom it
//! concerns. Nobody waits, writes or runs foreign code during a turn, but for the `Serialize` of
//! what is being sent.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use antiphon::{
    CloseReason, Closed, Collector, Connection, ErrorObject, Event, Input, Instant, OwnedOutcome,
    RequestKey, Response,
};

use crate::options::Options;
use crate::queue::Queue;
use crate::service::Report;

/// Runs on the service thread when a call has settled.
pub(crate) type Then = Box<dyn FnOnce(OwnedOutcome) + Send>;

/// Who waits for a call.
pub(crate) enum Tag {
    Once(Sender<OwnedOutcome>),
    Batch(Arc<Gathering>),
    Then(Then),
}

/// The outcomes of a batch, and how many are still to come.
#[derive(Default)]
pub(crate) struct Gathering {
    pub(crate) state: Mutex<(Collector, usize)>,
    pub(crate) complete: Condvar,
}

/// Everything that the threads of one connection share.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The writer waits here for output.
    pub(crate) writable: Condvar,
    /// The timekeeper waits here for an earlier deadline, or for an end.
    pub(crate) turn: Condvar,
    /// The service thread waits here for work.
    pub(crate) work: Condvar,
    /// Callers wait here for room, for bytes to leave, for a cancel, for the end.
    pub(crate) changed: Condvar,
    pub(crate) options: Options,
    epoch: std::time::Instant,
}

pub(crate) struct State {
    pub(crate) conn: Connection<Tag>,
    pub(crate) queue: Queue,
    /// Requests in the service's hands that were given up.
    pub(crate) cancelled: HashSet<RequestKey>,
    /// The mark in the output up to which bytes have been written and flushed.
    pub(crate) written: u64,
    /// When the write began that is under way.
    pub(crate) writing_since: Option<Instant>,
    /// When writing failed. What else is queued is thrown away.
    pub(crate) write_failed: Option<Instant>,
    /// What broke the transport, if anything did.
    fault: Option<(io::ErrorKind, String)>,
    /// When the input ended.
    pub(crate) input_ended: Option<Instant>,
    /// The service is at work, or has not begun.
    pub(crate) is_serving: bool,
    /// Something has begun to end: the timekeeper looks at every turn.
    pub(crate) closing: bool,
    /// The last event.
    pub(crate) closed: Option<Closed>,
    /// The writer is to end.
    pub(crate) stop: bool,
    pub(crate) reader_done: bool,
    pub(crate) writer_done: bool,
    pub(crate) service_done: bool,
    /// All is over but for the service, which may have a last thing to do.
    pub(crate) finished: Option<Closed>,
    /// When the timekeeper wakes by itself.
    pub(crate) alarm: Instant,
}

impl State {
    /// Whether the end of input may be told. What came in before is served first, so that the
    /// service can still speak of it; but nothing that waits for an answer is kept waiting.
    pub(crate) fn may_tell_end(&self) -> bool {
        let is_served = self.queue.is_empty() && !self.is_serving;
        is_served || self.conn.calls_open() > 0 || self.closed.is_some()
    }

    /// Forgets a request that is answered, or that nobody will answer.
    pub(crate) fn let_go(&mut self, request: RequestKey, bytes: usize) {
        self.cancelled.remove(&request);
        self.queue.release(bytes);
    }

    /// What broke the transport, if anything did.
    pub(crate) fn fault(&self) -> Option<io::Error> {
        let fault = self.fault.as_ref();
        fault.map(|(kind, text)| io::Error::new(*kind, text.clone()))
    }
}

impl Shared {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            state: Mutex::new(State {
                conn: Connection::new(options.config),
                queue: Queue::new(&options),
                cancelled: HashSet::new(),
                written: 0,
                writing_since: None,
                write_failed: None,
                fault: None,
                input_ended: None,
                is_serving: true,
                closing: false,
                closed: None,
                stop: false,
                reader_done: false,
                writer_done: false,
                service_done: false,
                finished: None,
                alarm: Instant::FAR_FUTURE,
            }),
            writable: Condvar::new(),
            turn: Condvar::new(),
            work: Condvar::new(),
            changed: Condvar::new(),
            options,
            epoch: std::time::Instant::now(),
        }
    }

    /// The time since the connection was made.
    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    /// The time left until `deadline`; none for never.
    pub(crate) fn until(&self, deadline: Instant) -> Option<Duration> {
        (deadline != Instant::FAR_FUTURE).then(|| deadline.saturating_since(self.now()))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // Foreign code under the lock is a `Serialize` at most, and the connection takes back
        // what it had written by then.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one thing with the state, and wakes whom it concerns.
    pub(crate) fn turn<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.lock();
        state.conn.handle_timeout(self.now());
        let result = act(&mut state);
        self.wake(&state);
        result
    }

    /// Wakes the threads that have something to do now.
    pub(crate) fn wake(&self, state: &State) {
        if state.writing_since.is_none() && state.conn.poll_transmit().is_some() {
            self.writable.notify_one();
        }
        if state.input_ended.is_some() {
            self.changed.notify_all();
        }
        let deadline = state.conn.poll_timeout();
        if state.closing || deadline.is_some_and(|deadline| deadline < state.alarm) {
            self.turn.notify_one();
        }
    }

    /// Waits on `changed` until `deadline`, and takes the lock again.
    pub(crate) fn wait_changed<'s>(
        &'s self,
        state: MutexGuard<'s, State>,
        deadline: Instant,
    ) -> MutexGuard<'s, State> {
        self.wait_on(&self.changed, state, deadline)
    }

    pub(crate) fn wait_on<'s>(
        &'s self,
        condition: &Condvar,
        state: MutexGuard<'s, State>,
        deadline: Instant,
    ) -> MutexGuard<'s, State> {
        match self.until(deadline) {
            None => condition
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
            Some(span) => {
                let waited = condition.wait_timeout(state, span);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Takes every event that `input` and the time hold: answers settle their calls here, all
    /// else goes to the service. Nothing is begun before this is through, so a cancel finds its
    /// request still waiting if both came in one read.
    pub(crate) fn pump(&self, state: &mut State, input: &mut Input<'_>) {
        while let Some(event) = state.conn.poll_event(input) {
            self.take(state, event);
        }
        self.work.notify_one();
    }

    fn take(&self, state: &mut State, event: Event<'_, Tag>) {
        let queue = &mut state.queue;
        match event {
            Event::Request(request) => {
                if let Err(request) = queue.push_request(request.into_owned()) {
                    let busy = ErrorObject::server_busy();
                    // It can only be refused where nobody waits for it any more.
                    let _ = state.conn.respond_err(request.into_token(), &busy);
                    queue.push_report(Report::QueueFull, 0);
                }
            }
            Event::Notification(notification) => {
                queue.push_notification(notification.into_owned());
            }
            Event::Response(response) => settle(queue, response),
            Event::Cancelled(cancelled) => {
                if let Some(request) = queue.remove_request(cancelled.key) {
                    if cancelled.answer_owed {
                        // It can only be refused where nobody waits for it any more.
                        let _ = state.conn.respond_cancelled(request.into_token());
                    }
                } else if state.cancelled.insert(cancelled.key) {
                    let reason = cancelled.reason.map(|reason| reason.to_owned_json());
                    queue.push_cancelled(cancelled.key, reason);
                    self.changed.notify_all();
                }
            }
            Event::Malformed(malformed) => {
                let (report, bytes) = Report::malformed(malformed);
                queue.push_report(report, bytes);
            }
            Event::Refused(refused) => {
                let (report, bytes) = Report::refused(refused);
                queue.push_report(report, bytes);
            }
            Event::Stray(stray) => {
                let (report, bytes) = Report::stray(stray);
                queue.push_report(report, bytes);
            }
            Event::Closed(why) => {
                state.closed = Some(why);
                state.closing = true;
                self.turn.notify_one();
                self.changed.notify_all();
            }
            // Events that a later core may have are none that this adapter promises.
            _ => {}
        }
    }

    /// Ends the connection at once.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.turn(|state| self.close_state(state, reason));
    }

    pub(crate) fn close_state(&self, state: &mut State, reason: CloseReason) {
        state.closing = true;
        state.conn.close(reason);
        self.pump(state, &mut Input::none());
    }

    /// Remembers what broke the transport, unless this side meant to end the connection.
    pub(crate) fn note_fault(&self, state: &mut State, error: io::Error) {
        let is_meant = matches!(state.closed, Some(Closed::Local(_) | Closed::Drained));
        if !is_meant && state.fault.is_none() {
            state.fault = Some((error.kind(), error.to_string()));
            state.queue.push_report(Report::Io(error), 0);
            self.work.notify_one();
        }
    }
}

fn settle(queue: &mut Queue, response: Response<'_, Tag>) {
    if let Tag::Batch(gathering) = &response.tag {
        let gathering = Arc::clone(gathering);
        let mut state = gathering
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.0.insert(response);
        state.1 -= 1;
        if state.1 == 0 {
            gathering.complete.notify_all();
        }
        return;
    }
    match response.tag {
        // Whoever stopped waiting does not need the outcome.
        Tag::Once(waiter) => drop(waiter.send(response.outcome.into_owned())),
        Tag::Then(then) => queue.push_settled(then, response.outcome.into_owned()),
        Tag::Batch(_) => {}
    }
}
