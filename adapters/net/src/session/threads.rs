//! The methods of a connection's threads.

use std::io;
use std::task::Waker;

use antiphon::Instant;

use super::direct::Outlet;
use super::turn::Sent;
use super::{Session, Sleeper, State};

impl Session {
    /// Takes all bytes of a read.
    pub fn receive(&self, bytes: &[u8]) {
        self.receive_under(&mut self.lock(), bytes);
    }

    pub(super) fn receive_under(&self, state: &mut State, bytes: &[u8]) {
        state.conn.handle_time(self.now());
        self.note_read(state, bytes.len());
        state.conn.handle_input(bytes);
        self.end_turn(state);
    }

    /// Whether nothing more must be read: some time after the end input is of no use.
    pub fn is_input_over(&self) -> bool {
        self.lock().conn.is_input_over()
    }

    /// Blocks the thread that reads until it may read on, or `is_over`.
    pub fn wait_readable(&self, is_over: impl Fn() -> bool) {
        let mut state = self.lock();
        while !state.conn.wants_input() && !state.conn.is_input_over() && !is_over() {
            state = self.sleep(Sleeper::Reader, state, Instant::FAR_FUTURE);
        }
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

    /// Blocks the thread that writes until there is output, and puts it into `into`, which is
    /// empty. Returns false if there is none and `is_over` says that there will be no more.
    pub fn wait_output(&self, into: &mut Vec<u8>, is_over: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        loop {
            if self.take_output_of(&mut state, into) {
                return true;
            }
            if is_over() {
                return false;
            }
            drop(self.sleep(Sleeper::Writer, state, Instant::FAR_FUTURE));
            // The caller that has woken this thread may be about to write the output itself.
            if self.outlet.get().is_some() {
                std::thread::yield_now();
            }
            state = self.lock();
        }
    }

    /// Notes that all output that was taken has been written and flushed.
    pub fn output_written(&self) {
        self.output_sent(Sent::All);
    }

    /// Notes that the output could not be written, and that no more can be written.
    pub fn output_failed(&self, error: io::Error) {
        self.output_sent(Sent::Failed(error.into()));
    }

    /// Allows other threads than the writing thread to write through `outlet`. It is set once,
    /// before anything is written.
    pub fn set_outlet(&self, outlet: Box<dyn Outlet>) {
        // A second one would belong to another transport.
        let _ = self.outlet.set(outlet);
    }

    /// Lets deadlines take effect, and returns when to call this again at the latest; `waker` is woken
    /// if that becomes earlier. `None` once the session asks for no more
    /// reads and writes; one that has begun may still go on.
    pub fn pass_time(&self, waker: &Waker) -> Option<Instant> {
        let waker = waker.clone();
        let mut state = self.lock();
        let is_read = self.has_read_all(&mut state);
        let now = self.now();
        match is_read {
            true => state.conn.handle_timeout(now),
            false => state.conn.handle_time(now),
        }
        self.end_turn(&mut state);
        if state.conn.phase().is_over() {
            return None;
        }
        let wake_at = state.next_alarm(now, is_read);
        let wake_at = state.looking.wake_at(wake_at);
        state.fall_asleep(Sleeper::Timer, waker);
        Some(wake_at)
    }

    /// Wakes `waker` at the next [`nudge`](Self::nudge), if not earlier. It replaces the waker of
    /// [`pass_time`](Self::pass_time).
    pub fn watch(&self, waker: &Waker) {
        let waker = waker.clone();
        self.lock().fall_asleep(Sleeper::Timer, waker);
    }

    /// Wakes every thread and task that waits, so that it checks again.
    pub fn nudge(&self) {
        self.lock().rouse_all();
    }
}
