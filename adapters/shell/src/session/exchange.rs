//! The message and the reply of an HTTP exchange.

use std::mem;

use antiphon::{Closed, Input};

use super::Session;

impl Session {
    /// Takes the message of an HTTP exchange.
    pub(crate) fn receive_message(&self, message: Input<'_>) {
        self.act(|state| state.conn.handle_message(message));
    }

    /// Takes the reply of an HTTP exchange, if there is one, and ends the exchange if the service has
    /// taken and answered all its messages. Then returns why it ended, for the caller to tell the
    /// service; otherwise `None`.
    pub(crate) fn end_if_answered(&self, reply: &mut Vec<u8>) -> Option<Closed> {
        let mut state = self.lock();
        // The turn before may have taken the reply already.
        state.conn.take_transmit(reply);
        state.conn.handle_written();
        // An event that was taken just now may stand before the reply.
        if state.conn.requests_open() > 0 || state.conn.has_work() || state.conn.has_transmit() {
            // The task knows of the work that waits. Its waker is set again after the end of this turn,
            // so that this work does not wake it.
            if !state.conn.has_transmit() {
                let waker = state.sleeper.take();
                if let Some(waker) = waker {
                    state.fall_asleep(waker);
                }
            }
            return None;
        }
        state.conn.handle_eof();
        Some(state.let_go())
    }

    /// Notes that the task is awake: what changes the session before its next turn does not wake it.
    pub(crate) fn stay_awake(&self) {
        let _sleeper = self.state.lock().sleeper.take();
    }

    /// Ends the waits of handlers that are parked.
    pub(crate) fn end_parked(&self) {
        let mut state = self.lock();
        if !mem::replace(&mut state.ends_parked, true) {
            state.rouse_watchers();
        }
    }

    /// Ends an HTTP exchange, answered or not, and drops the messages that still wait for the service.
    pub(crate) fn end_exchange(&self) -> Closed {
        let mut state = self.lock();
        state.conn.handle_eof();
        let why = state.let_go();
        drop(state);
        self.let_work_go();
        why
    }
}
