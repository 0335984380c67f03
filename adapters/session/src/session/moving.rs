//! A session as the machine that a pump moves bytes for.

use std::io;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use antiphon::Instant;

use super::{Session, Signal, State};
use crate::child_output::ChildExited;
use crate::machine::{Inlet, Machine, Outlet, ThreadMachine, Turn};

impl Machine for Session {
    fn now(&self) -> Instant {
        Session::now(self)
    }

    fn receive(&self, bytes: &[u8]) {
        self.receive_under(&mut self.lock(), bytes);
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        self.act(|state| {
            let Some(error) = failed else {
                return state.conn.handle_eof();
            };
            let Some(exited) = ChildExited::of(&error) else {
                return state.conn.handle_read_failed(error);
            };
            // A child may leave as it likes once nothing is asked of it.
            let is_fault = !exited.status().success() || state.conn.calls_open() > 0;
            let fault = is_fault.then(|| error.into());
            state.conn.handle_peer_gone(fault);
        });
    }

    fn take_output(&self, into: &mut Vec<u8>) -> bool {
        self.take_output_of(&mut self.lock(), into)
    }

    fn output_waits(&self) {
        self.lock().conn.handle_write_progress(self.now());
    }

    fn output_written(&self) {
        self.note_written(&mut self.lock());
    }

    fn output_failed(&self, error: io::Error) {
        self.note_write_failed(&mut self.lock(), error);
    }

    fn turn(&self, waker: &Waker) -> Turn {
        self.task_turn(&mut self.lock(), true, waker)
    }

    fn turn_unread(&self, waker: &Waker) -> Turn {
        self.task_turn(&mut self.lock(), false, waker)
    }

    fn turn_written(&self, waker: &Waker) -> Turn {
        let mut state = self.lock();
        state.conn.handle_written();
        self.signal(&mut state, Signal::Changed);
        self.task_turn(&mut state, false, waker)
    }

    fn wants_input(&self) -> bool {
        !self.is_deaf.load(Ordering::Relaxed)
    }

    fn may_read(&self) -> bool {
        !self.is_paused.load(Ordering::Acquire)
    }

    fn finished(&self) {
        let mut state = self.lock();
        self.let_go(&mut state);
        for signal in [Signal::Work, Signal::Writable, Signal::Turn] {
            self.signal(&mut state, signal);
        }
    }

    fn linger(&self) -> Duration {
        self.lock().conn.linger()
    }
}

impl Session {
    /// Takes what came in, and wakes those it concerns.
    pub(super) fn receive_under(&self, state: &mut State, bytes: &[u8]) {
        state.conn.handle_time(self.now());
        self.note_read(state, bytes.len());
        state.task = None;
        state.conn.handle_input(bytes);
        self.wake(state);
    }

    /// Takes the output to be written next.
    pub fn take_output_of(&self, state: &mut State, into: &mut Vec<u8>) -> bool {
        state.task = None;
        if !state.left_over.is_empty() {
            std::mem::swap(&mut state.left_over, into);
            return true;
        }
        state.conn.handle_time(self.now());
        state.conn.take_transmit(into)
    }

    /// Lets time pass, and says how long the session has still something to say or to write. What
    /// is due ends if all that had arrived `is_read`.
    pub fn turn_of(&self, state: &mut State, is_read: bool) -> Turn {
        let now = self.now();
        match is_read {
            true => state.conn.handle_timeout(now),
            false => state.conn.handle_time(now),
        }
        self.wake(state);
        if state.conn.phase().is_over() {
            return Turn::Over;
        }
        let mut wake_at = state.conn.poll_timeout().unwrap_or(Instant::FAR_FUTURE);
        if is_read {
            // A bound that should prove stale again and again costs a look a millisecond, no more.
            wake_at = wake_at.max(now + Duration::from_millis(1));
        }
        // What is set stays set: to look once for nothing costs less than to set it for each call.
        if now < state.alarm {
            wake_at = wake_at.min(state.alarm);
        }
        state.alarm = wake_at;
        Turn::Open { wake_at }
    }

    /// The turn of a task, which does by itself what there is to do.
    fn task_turn(&self, state: &mut State, is_read: bool, waker: &Waker) -> Turn {
        // It is awake. Work that waits for a place would have it wake itself for ever.
        state.task = None;
        let turn = self.turn_of(state, is_read);
        if matches!(turn, Turn::Open { .. }) {
            let may_write = state.conn.has_transmit() || !state.left_over.is_empty();
            if may_write || state.conn.wants_service() {
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
        let mut state = self.lock();
        while !state.conn.may_read() && !is_over() {
            state = self.wait(Signal::Readable, state, Instant::FAR_FUTURE);
        }
    }

    fn wait_output(&self, into: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if self.take_output_of(&mut state, into) {
                // A deadline now depends on this write.
                self.wake(&mut state);
                return true;
            }
            if is_over() {
                return false;
            }
            drop(self.wait(Signal::Writable, state, Instant::FAR_FUTURE));
            // The caller that has woken this thread may have more to say, and may then write it.
            if self.outlet.get().is_some() {
                std::thread::yield_now();
            }
            state = self.lock();
        }
    }

    fn wait_turn(&self) -> Turn {
        let mut state = self.lock();
        let is_read = self.has_read_all(&mut state);
        let turn = self.turn_of(&mut state, is_read);
        if let Turn::Open { wake_at } = turn {
            let wake_at = state.looking.wake_at(wake_at);
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
