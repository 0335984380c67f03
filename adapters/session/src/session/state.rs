//! What the lock guards: how it begins, begins anew, and what can be asked of it.
//!
//! The rule guarded: nothing here wakes, waits or writes; who is to be woken is noted.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::task::Waker;
use std::time::Duration;

use antiphon::{CallId, Closed, Connection, Framing, Instant, Outcome, RequestKey};

use super::guard::Wakes;
use super::inlet::Reading;
use super::judging::Judging;
use super::signals::{SIGNALS, Signal};
use super::{State, Tag};
use crate::fault::Fault;
use crate::options::Options;
use crate::places::{Place, Places};
use crate::queue::{Queue, Work};
use crate::rare::rare;
use crate::reported::{MethodName, ReportedRequest};
#[cfg(feature = "websocket")]
use crate::websocket::Layer;

/// For how many cancels and tasks that watch a session keeps its memory for another.
const KEPT_MAX: usize = 16;

impl State {
    pub(super) fn new(
        conn: Connection<Tag>,
        options: &Options,
        is_accepted: bool,
        #[cfg(feature = "websocket")] layer: Option<Box<Layer>>,
    ) -> Self {
        Self {
            is_opening: is_accepted && options.refuse_http,
            is_paused: false,
            is_overflown: false,
            conn,
            #[cfg(feature = "websocket")]
            layer,
            places: Places::default(),
            queue: Queue::new(options),
            cancelled: HashSet::new(),
            taken: 0,
            written: 0,
            reading: Reading::default(),
            judging: Judging::default(),
            writing_since: None,
            left_over: Vec::new(),
            write_failed: None,
            fault: None,
            input_ended: None,
            is_end_told: false,
            input_rest: Vec::new(),
            is_serving: true,
            panicked: None,
            has_heard: false,
            closing: false,
            closed: None,
            ending_since: None,
            is_writer_gone: false,
            finished: None,
            alarm: Instant::FAR_FUTURE,
            present: None,
            is_told: false,
            waiting: [0; SIGNALS],
            is_signalled: [false; SIGNALS],
            wakes: Wakes::default(),
            task: None,
            watchers: Vec::new(),
        }
    }

    /// Begins another conversation in the memory of this one, not over a WebSocket. Every field is
    /// named, so that none is forgotten.
    pub(super) fn renew(&mut self, options: &Options) {
        let Self {
            is_opening,
            is_paused,
            is_overflown,
            conn,
            #[cfg(feature = "websocket")]
            layer,
            places,
            queue,
            cancelled,
            taken,
            written,
            reading,
            judging,
            writing_since,
            left_over,
            write_failed,
            fault,
            input_ended,
            is_end_told,
            input_rest,
            is_serving,
            panicked,
            has_heard,
            closing,
            closed,
            ending_since,
            is_writer_gone,
            finished,
            alarm,
            present,
            is_told,
            waiting,
            is_signalled,
            wakes,
            task,
            watchers,
        } = self;
        // What is renewed reads no stream.
        *is_opening = false;
        (*is_paused, *is_overflown) = (false, false);
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
        *judging = Judging::default();
        (*writing_since, *write_failed, *fault) = (None, None, None);
        left_over.clear();
        (*input_ended, *is_end_told) = (None, false);
        input_rest.clear();
        (*is_serving, *is_writer_gone) = (true, false);
        *panicked = None;
        *has_heard = false;
        (*closing, *closed, *ending_since, *finished) = (false, None, None, None);
        (*alarm, *present, *is_told) = (Instant::FAR_FUTURE, None, false);
        *waiting = [0; SIGNALS];
        *is_signalled = [false; SIGNALS];
        *wakes = Wakes::default();
        *task = None;
        watchers.clear();
        watchers.shrink_to(KEPT_MAX);
    }

    /// Whether the end of input may be told. What came in before is served first, so that the
    /// service can still speak of it; but nothing that waits for an answer is kept waiting.
    pub(super) fn may_tell_end(&self) -> bool {
        let is_served = self.queue.is_empty() && !self.is_serving;
        is_served || self.conn.calls_open() > 0 || self.closed.is_some()
    }

    /// Whether the other side has asked something that is not answered, or the answer is not written.
    #[cfg(feature = "websocket")]
    pub(crate) fn is_asked(&self) -> bool {
        let is_taken = self.writing_since.is_none() && self.conn.poll_transmit().is_none();
        self.closed.is_none() && (self.conn.requests_open() > 0 || !is_taken)
    }

    /// The next thing to do, for a service that begins requests only if `may_begin`. Once all is over,
    /// nothing waits for anything.
    pub fn next_in_order(&mut self, may_begin: bool) -> Option<Work> {
        if self.finished.is_some() {
            rare();
            return self.queue.pop();
        }
        self.queue.pop_in_order(may_begin)
    }

    /// Whether nothing is to be read: too much waits for the service, and no answer is awaited.
    pub(super) fn is_to_pause(&self) -> bool {
        let is_open = self.closed.is_none() && self.input_ended.is_none();
        is_open && self.queue.is_full() && self.conn.calls_open() == 0
    }

    /// Takes what the clock has shown just before the lock was taken, if it was looked at.
    pub(crate) fn set_present(&mut self, present: Option<Instant>) {
        self.present = present;
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

    /// What a report says of an open request: none if nobody waits for its answer any more.
    pub(crate) fn about(
        &self,
        request: RequestKey,
        method: MethodName,
        duration: Duration,
    ) -> Option<ReportedRequest> {
        if self.is_cancelled(request) {
            return None;
        }
        let id = self.conn.request_id(request)?.into();
        let method = method.into_string();
        Some(ReportedRequest {
            method,
            id,
            duration,
        })
    }

    /// Whether nobody waits for the answer to a request any more.
    pub fn is_cancelled(&self, request: RequestKey) -> bool {
        self.finished.is_some() || self.cancelled.contains(&request)
    }

    /// Whether the peer has given a request up, and is right to hear nothing more of it.
    pub(crate) fn is_silenced(&self, request: RequestKey) -> bool {
        let is_ours = matches!(self.closed, None | Some(Closed::EndOfInput));
        is_ours && self.finished.is_none() && self.cancelled.contains(&request)
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

    /// Whether the peer has sent a message that is one.
    pub fn has_heard(&self) -> bool {
        self.has_heard
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
    pub(super) fn has_output(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            rare();
            return self.has_frames(layer);
        }
        self.conn.poll_transmit().is_some()
    }

    /// Whether a part may stay behind when output is taken.
    pub(super) fn is_taken_in_parts(&self) -> bool {
        self.has_layer() || self.conn.config().framing == Framing::Messages
    }

    pub(super) fn take_transmit(&mut self, into: &mut Vec<u8>) -> bool {
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

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.conn.poll_timeout();
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            rare();
            return due.into_iter().chain(layer.poll_timeout()).min();
        }
        due
    }

    /// Whether there is anything between the messages and the bytes.
    pub(super) fn has_layer(&self) -> bool {
        #[cfg(feature = "websocket")]
        return self.layer.is_some();
        #[cfg(not(feature = "websocket"))]
        false
    }

    /// Whether all is said that is said below the messages.
    pub(super) fn is_layer_over(&self) -> bool {
        #[cfg(feature = "websocket")]
        if let Some(layer) = &self.layer {
            return layer.is_over() || self.write_failed.is_some();
        }
        true
    }

    /// Whether whoever writes or keeps time waits, and has not been woken yet.
    #[inline]
    pub(super) fn is_anybody_asleep(&self) -> bool {
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

    /// Has the tasks woken that wait for a change.
    pub(super) fn wake_watchers(&mut self) {
        self.wakes.watchers(&mut self.watchers);
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
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
