//! What the threads of a connection do, and what they wait for.

use std::io;

use antiphon::Instant;

use super::turn::Sent;
use super::{Session, Sleeper, State};
use crate::machine::{Inlet, Machine, Outlet, Turn};

impl Machine for Session {
    fn now(&self) -> Instant {
        Session::now(self)
    }

    fn receive(&self, bytes: &[u8]) {
        self.receive_under(&mut self.lock(), bytes);
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        Session::input_ended(self, failed);
    }

    fn output_written(&self) {
        self.output_sent(Sent::All);
    }

    fn output_failed(&self, error: io::Error) {
        self.output_sent(Sent::Failed(error.into()));
    }

    fn wants_input(&self) -> bool {
        self.lock().conn.wants_input()
    }

    fn finished(&self) {
        self.let_go();
    }

    fn linger(&self) -> std::time::Duration {
        Session::linger(self)
    }

    fn set_outlet(&self, outlet: Box<dyn Outlet>) {
        // A second one would be of another transport.
        let _ = self.outlet.set(outlet);
    }

    fn lend_input(&self, inlet: Box<dyn Inlet>, is_over: &dyn Fn() -> bool) -> Box<dyn Inlet> {
        self.lend_reading(inlet, is_over)
    }

    fn wait_readable(&self, is_over: &dyn Fn() -> bool) {
        let mut state = self.lock();
        while !state.conn.may_read() && !is_over() {
            state = self.sleep(Sleeper::Reader, state, Instant::FAR_FUTURE);
        }
    }

    fn wait_output(&self, into: &mut Vec<u8>, is_over: &dyn Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if self.take_output_of(&mut state, into) {
                return true;
            }
            if is_over() {
                return false;
            }
            drop(self.sleep(Sleeper::Writer, state, Instant::FAR_FUTURE));
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
        let now = self.now();
        match is_read {
            true => state.conn.handle_timeout(now),
            false => state.conn.handle_time(now),
        }
        self.end_turn(&mut state);
        if state.conn.phase().is_over() {
            return Turn::Over;
        }
        let wake_at = state.next_alarm(now, is_read);
        let wake_at = state.looking.wake_at(wake_at);
        drop(self.sleep(Sleeper::Timer, state, wake_at));
        Turn::Open { wake_at }
    }

    fn wait_nudge(&self, deadline: Instant) {
        drop(self.sleep(Sleeper::Timer, self.lock(), deadline));
    }

    fn nudge(&self) {
        self.lock().rouse_all();
    }

    fn abort(&self, error: Option<io::Error>) {
        Session::abort(self, error);
    }
}

impl Session {
    /// Takes what came in.
    pub(super) fn receive_under(&self, state: &mut State, bytes: &[u8]) {
        state.conn.handle_time(self.now());
        self.note_read(state, bytes.len());
        state.conn.handle_input(bytes);
        self.end_turn(state);
    }

    /// Takes the output to be written next. False if there is none.
    pub fn take_output(&self, into: &mut Vec<u8>) -> bool {
        self.take_output_of(&mut self.lock(), into)
    }

    fn take_output_of(&self, state: &mut State, into: &mut Vec<u8>) -> bool {
        if !state.left_over.is_empty() {
            std::mem::swap(&mut state.left_over, into);
            return true;
        }
        state.conn.handle_time(self.now());
        state.conn.take_transmit(into)
    }
}
