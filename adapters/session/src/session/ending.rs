//! How a conversation ends.
//!
//! The rules guarded, for every adapter: what came in before the end of input is served before the end is told; what
//! was answered is written, for as long as the configuration's `drain_time_max`; a write that hangs is given up after
//! `write_time_max`; after a failed write the other side's last words are awaited for `linger`. What comes in after the end is read for
//! `linger` at the most, and not at all from a peer that does not read.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use antiphon::{CloseReason, Closed, ConnectionError, Event, Input, Instant};

use super::{Session, Signal, State};
use crate::child_output::ChildExited;
use crate::fault::Fault;
use crate::machine::Turn;
use crate::rare::rare;
use crate::report::Report;

impl Session {
    /// Ends the conversation at once.
    pub fn close(&self, reason: CloseReason) {
        self.act(|state| self.close_state(state, reason));
    }

    /// Ends the conversation in good order.
    pub fn drain(&self) {
        self.act(|state| {
            state.closing = true;
            // Its span may be short.
            state.conn.handle_time(self.now());
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
    pub(super) fn finish(&self, state: &mut State) -> Closed {
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

    /// Ends the conversation with a child that has exited: nobody waits for answers any more, and it gives none.
    #[cold]
    pub(super) fn end_with_child(&self, state: &mut State, exited: ChildExited) {
        // A child may leave as it likes once nothing is asked of it.
        if !exited.status().success() || state.conn.calls_open() > 0 {
            self.note_fault(state, exited.into());
        }
        state.is_end_told = true;
        state.conn.handle_eof();
        let rest = std::mem::take(&mut state.input_rest);
        self.pump(state, &mut Input::stream(&rest));
        self.close_state(state, CloseReason::TransportFailed);
    }

    #[cold]
    pub(super) fn fail_write(&self, state: &mut State, error: io::Error) {
        self.note_fault(state, error);
        let now = self.now();
        state.write_failed.get_or_insert(now);
        state.closing = true;
    }

    /// Stops reading some time after the end: a peer that is still writing may need that long to see the end. A WebSocket
    /// reads until the other side's close has come.
    #[cold]
    pub(super) fn stop_reading(
        &self,
        state: &mut State,
        why: Closed,
        since: Instant,
        now: Instant,
    ) {
        if is_unread(why) {
            // What is being written will never be taken.
            state.write_failed.get_or_insert(now);
        } else if state.has_layer() || now < since + self.options.linger {
            return;
        }
        self.is_deaf.store(true, Ordering::Relaxed);
    }

    #[cold]
    pub(super) fn over(&self, state: &mut State, why: Closed) -> Turn {
        // It is the end that was told, even if a close came after it.
        state.closed = Some(why);
        Turn::Over
    }

    /// Tells the end of input once it may be told. Says when it will be at the latest.
    pub(super) fn tell_end(&self, state: &mut State, now: Instant) -> Instant {
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
    pub(super) fn give_up_writing(&self, state: &mut State) {
        if state.write_failed.is_some() {
            self.close_state(state, CloseReason::TransportFailed);
        } else {
            let error = io::Error::new(io::ErrorKind::TimedOut, "the peer takes no output");
            self.fail_write(state, error);
        }
    }
}

/// Whether it ended since the peer does not read: nothing more can be said to it, and nothing it says is of use.
pub(super) fn is_unread(why: Closed) -> bool {
    matches!(
        why,
        Closed::Failed(ConnectionError::OutboxFull | ConnectionError::WriteTimedOut)
    )
}

pub(super) fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}
