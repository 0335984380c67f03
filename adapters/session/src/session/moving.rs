//! A session as the machine that a pump moves bytes for.

use std::io;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use antiphon::http::{Opening, opening};
use antiphon::{CloseReason, Framing, Input, Instant};

use super::ending::is_unread;
use super::judging::Arrived;
use super::{Session, Signal, State};
use crate::child_output::ChildExited;
use crate::machine::{Inlet, Machine, Outlet, ThreadMachine, Turn};
use crate::rare::rare;
use crate::report::Report;

impl Machine for Session {
    fn now(&self) -> Instant {
        Session::now(self)
    }

    fn input_bytes_max(&self) -> usize {
        self.options.config.input_bytes_max().max(1)
    }

    fn receive(&self, bytes: &[u8]) -> usize {
        self.receive_under(&mut self.lock(), bytes)
    }

    fn input_ended(&self, rest: &[u8], failed: Option<io::Error>) {
        self.act(|state| {
            state.closing = true;
            state.input_ended.get_or_insert(self.now());
            #[cfg(feature = "websocket")]
            if state.layer.is_some() {
                return self.end_frames_input(state, failed);
            }
            rest.clone_into(&mut state.input_rest);
            let exited = failed.as_ref().and_then(ChildExited::of);
            if let Some(exited) = exited {
                self.end_with_child(state, exited);
            } else if let Some(error) = failed {
                self.note_fault(state, error);
                state.is_end_told = true;
                state.conn.close(CloseReason::TransportFailed);
                self.pump(state, &mut Input::none());
            }
        });
    }

    fn take_output(&self, into: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        state.task = None;
        if state.take_left_over(into) {
            return true;
        }
        if self.is_other_writing(&state) {
            return false;
        }
        let is_taken = if state.is_taken_in_parts() {
            rare();
            // What stays behind has its time anew, by the connection.
            self.take_output_of(&mut state, into)
        } else {
            self.take_transmit_of(&mut state, into)
        };
        if is_taken {
            // The pump says so if it has to wait, and then it is time to know since when.
            state.writing_since = Some(Instant::FAR_FUTURE);
        }
        is_taken
    }

    fn output_waits(&self) {
        let now = self.now();
        self.lock().writing_since = Some(now);
    }

    fn output_written(&self) {
        self.note_written(&mut self.lock());
    }

    fn output_failed(&self, error: io::Error) {
        self.note_write_failed(&mut self.lock(), error);
    }

    fn turn(&self, waker: &Waker) -> Turn {
        self.task_turn(&mut self.lock(), Arrived::Read, waker)
    }

    fn turn_unread(&self, waker: &Waker) -> Turn {
        self.task_turn(&mut self.lock(), Arrived::Unread, waker)
    }

    fn turn_written(&self, waker: &Waker) -> Turn {
        let mut state = self.lock();
        self.note_written(&mut state);
        self.task_turn(&mut state, Arrived::Unread, waker)
    }

    fn finished(&self) {
        let mut state = self.lock();
        self.finish(&mut state);
        for signal in [Signal::Work, Signal::Writable, Signal::Turn] {
            self.signal(&mut state, signal);
        }
    }

    fn wants_input(&self) -> bool {
        !self.is_deaf.load(Ordering::Relaxed)
    }

    fn may_read(&self) -> bool {
        !self.is_paused.load(Ordering::Acquire)
    }

    fn linger(&self) -> Duration {
        let why = self.lock().closed;
        if why.is_some_and(is_unread) {
            return Duration::ZERO;
        }
        self.options.linger
    }
}

impl Session {
    /// Takes what came in, and wakes whom it concerns.
    pub(super) fn receive_under(&self, state: &mut State, bytes: &[u8]) -> usize {
        self.tell_time(state);
        self.note_read(state, bytes.len());
        state.task = None;
        let consumed = self.take_in(state, bytes);
        self.wake(state);
        consumed
    }

    #[inline]
    fn take_in(&self, state: &mut State, bytes: &[u8]) -> usize {
        #[cfg(feature = "websocket")]
        if state.layer.is_some() {
            rare();
            self.receive_frames(state, bytes);
            return bytes.len();
        }
        if self.options.config.framing == Framing::Messages {
            rare();
            self.pump(state, &mut Input::message(bytes));
            return bytes.len();
        }
        if state.is_opening {
            rare();
            return self.take_first(state, bytes);
        }
        self.take_stream(state, bytes)
    }

    #[inline]
    fn take_stream(&self, state: &mut State, bytes: &[u8]) -> usize {
        let mut input = Input::stream(bytes);
        self.pump(state, &mut input);
        input.consumed()
    }

    /// Takes the first bytes of a connection that a listener has accepted, unless they begin an HTTP
    /// request: then the connection is ended.
    #[cold]
    fn take_first(&self, state: &mut State, bytes: &[u8]) -> usize {
        match opening(bytes) {
            // A full buffer can wait for nothing.
            Opening::Undecided(safe) if bytes.len() < self.input_bytes_max() => {
                return self.take_stream(state, &bytes[..safe]);
            }
            Opening::Undecided(_) | Opening::Other => {
                state.is_opening = false;
                return self.take_stream(state, bytes);
            }
            Opening::Http => state.is_opening = false,
        }
        state.queue.push_report(Report::HttpRequest, 0);
        self.signal(state, Signal::Work);
        self.close_state(state, CloseReason::PeerMisbehaved);
        bytes.len()
    }

    /// The turn of a task, which does by itself what there is to do.
    fn task_turn(&self, state: &mut State, arrived: Arrived, waker: &Waker) -> Turn {
        // It is awake. Work that waits for a place would have it wake itself for ever.
        state.task = None;
        let turn = match self.quiet_until(state) {
            Some(wake_at) => Turn::Open { wake_at },
            None => self.turn_as(state, arrived),
        };
        if matches!(turn, Turn::Open { .. }) {
            let may_begin = state.writing_since.is_none() && state.has_output();
            let may_write = may_begin || state.has_left_over();
            let may_serve = !state.is_serving && !state.queue.is_empty();
            if may_write || may_serve {
                return Turn::Busy;
            }
            state.task = Some(waker.clone());
        }
        turn
    }
}

impl ThreadMachine for Session {
    fn set_outlet(&self, outlet: Box<dyn Outlet>) {
        // A second one would be of another transport.
        let _ = self.outlet.set(outlet);
    }

    fn lend_input(&self, inlet: Box<dyn Inlet>, is_over: &dyn Fn() -> bool) -> Box<dyn Inlet> {
        self.lend_reading(inlet, is_over)
    }

    fn wait_readable(&self, is_over: &dyn Fn() -> bool) {
        if Machine::may_read(self) {
            return;
        }
        rare();
        let mut state = self.lock();
        while state.is_to_pause() && !is_over() {
            state = self.wait(Signal::Readable, state, Instant::FAR_FUTURE);
        }
    }

    fn wait_output(&self, into: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if state.take_left_over(into) {
                return true;
            }
            if !self.is_other_writing(&state) && self.take_output_of(&mut state, into) {
                // A deadline now depends on this write. Mostly it is later than another.
                if self.write_due(&state) < state.alarm {
                    self.signal(&mut state, Signal::Turn);
                }
                return true;
            }
            if is_over() {
                return false;
            }
            drop(self.wait(Signal::Writable, state, Instant::FAR_FUTURE));
            // Whoever has woken this thread may have more to say, and may then write it himself.
            if self.outlet.get().is_some() {
                std::thread::yield_now();
            }
            state = self.lock();
        }
    }

    fn wait_turn(&self) -> Turn {
        let mut state = self.lock();
        let arrived = self.look_at_reader(&mut state);
        let turn = self.turn_as(&mut state, arrived);
        if let Turn::Open { wake_at } = turn {
            let wake_at = state.judging.look_again(wake_at);
            drop(self.wait(Signal::Turn, state, wake_at));
        }
        turn
    }

    fn wait_nudge(&self, deadline: Instant) {
        drop(self.wait(Signal::Turn, self.lock(), deadline));
    }

    fn nudge(&self) {
        let mut state = self.lock();
        for signal in [
            Signal::Writable,
            Signal::Turn,
            Signal::Changed,
            Signal::Readable,
        ] {
            self.signal(&mut state, signal);
        }
    }

    fn abort(&self, error: Option<io::Error>) {
        Session::abort(self, error);
    }
}
