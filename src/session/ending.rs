//! How a session ends, and when a deadline may end something.
//!
//! ```text
//!   due ──late by STALL_MIN or more──▶ extra time as long as it was late ──▶ it ends
//!    └───────────────────────────────────────────────────────────────────────▲
//! ```
//!
//! Input that has arrived is read before a deadline ends anything: a driver calls
//! [`handle_timeout`](Session::handle_timeout) only after it has read. If the clock has jumped, the
//! process may have been stopped, and the peer with it, so each deadline is extended once.

use core::time::Duration;

use super::machine::{Session, Writing, is_lost};
use super::phase::Phase;
use super::report::{Fault, Report};
use super::wire::Wire;
use crate::event::{CloseReason, Closed, ConnectionError};
use crate::input::Input;
use crate::time::Instant;

/// A deadline that is noticed this late shows that the process did not run. An ordinary timer is
/// late by a few milliseconds.
const STALL_MIN: Duration = Duration::from_millis(100);

/// The most extra time after the clock has jumped.
const MAX_GRACE: Duration = Duration::from_secs(10);

/// Returns the extra time, granted once, for a deadline that is noticed `late` after it has passed.
/// If it is 100 ms or more, the clock is assumed to have jumped: the extra time is `late`, but 10 s
/// at most. Otherwise it is zero.
pub fn grace(late: Duration) -> Duration {
    if late < STALL_MIN {
        return Duration::ZERO;
    }
    late.min(MAX_GRACE)
}

impl<W> Session<W> {
    /// Sets the current time, and ends nothing, because there may be more to read. New timeouts are
    /// counted from this time.
    pub fn handle_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.conn.handle_time(now);
    }

    /// Sets the current time, and lets deadlines take effect. All input that has arrived must have
    /// been given to [`handle_input`](Self::handle_input) before.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        if self.is_paused() {
            // Reading is paused, so the peer's deadlines do not run.
            self.restart_times();
        }
        let now = self.judge();
        self.conn.handle_timeout(now);
        if self.write_due() <= now {
            self.handle_write_failed(ConnectionError::WriteTimedOut);
        }
        if let Wire::Layered(layer) = &mut self.wire {
            layer.handle_timeout(now);
            self.handle_layer(&[]);
        }
        // When a phase ends, the next one may have a deadline that has passed too.
        while self.phase_due() <= now {
            let before = self.phase;
            self.end_phase();
            if self.phase == before {
                break;
            }
        }
        self.pump(&mut Input::none());
        self.advance();
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) has to be called next; `None` for
    /// never. It may then find that no deadline has passed.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase.is_over() {
            return None;
        }
        let due = self.earliest();
        let due = self.granted.map_or(due, |granted| due.max(granted));
        let due = self.overdue_at().map_or(due, |overdue| due.min(overdue));
        (due != Instant::FAR_FUTURE).then_some(due)
    }

    /// Reports that the peer has ended its stream.
    pub fn handle_eof(&mut self) {
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining => self.end_input(),
            // Everything that the peer sent before has been read.
            Phase::LastWords { .. } => self.close_now(CloseReason::TransportFailed),
            Phase::Closing { .. } => self.end_layer_input(),
            Phase::InputEnded { .. } | Phase::Over(_) => {}
        }
        self.advance();
    }

    /// Handles the end of the input while the session is open.
    fn end_input(&mut self) {
        if matches!(self.wire, Wire::Layered(_)) {
            return self.end_layer_input();
        }
        self.phase = Phase::InputEnded { since: self.now };
    }

    /// Tells the layer, if there is one, that its input has ended.
    fn end_layer_input(&mut self) {
        if let Wire::Layered(layer) = &mut self.wire {
            layer.handle_eof();
            self.handle_layer(&[]);
        }
    }

    /// Reports that reading has failed.
    pub fn handle_read_failed(&mut self, fault: impl Into<Fault>) {
        let is_closed = matches!(&self.wire, Wire::Layered(layer) if layer.is_closed());
        if !is_closed {
            self.note_fault(fault.into());
        }
        match &self.wire {
            Wire::Layered(_) => self.end_layer_input(),
            Wire::Stream | Wire::Messages => self.close_now(CloseReason::TransportFailed),
        }
        self.advance();
    }

    /// Reports that the peer itself has ended, such as a child process that has exited: it awaits
    /// no answers and gives none. All of its input must have been given to the session before. The
    /// fault, if there is one, is reported.
    pub fn handle_peer_gone(&mut self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.note_fault(fault);
        }
        self.tell_end();
        self.close_now(CloseReason::TransportFailed);
        self.advance();
    }

    /// Ends the session at once and sends nothing: the transport could not be opened, or was lost.
    pub fn abort(&mut self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.note_fault(fault);
        }
        self.writing = Writing::Failed;
        self.close_now(CloseReason::TransportFailed);
        self.throw_output_away();
        if let Some(why) = self.phase.closed() {
            self.phase = Phase::Over(why);
        }
    }

    /// Moves the session to its next phases, as far as that is possible now.
    pub(super) fn advance(&mut self) {
        if self.writing == Writing::Failed {
            self.throw_output_away();
        }
        if self.phase == Phase::Draining {
            // An answer, a cancel or a finished write may have been what the drain was waiting for.
            self.pump(&mut Input::none());
        }
        if let Phase::InputEnded { .. } = self.phase {
            // Input that arrived before is handled first, so that its handlers can still send. If a
            // call of ours is open, the handlers may be waiting for the peer's answer, which will
            // not come; so they are not waited for.
            let is_served = self.queue.is_empty() && !self.is_serving;
            if is_served || self.conn.calls_open() > 0 {
                self.tell_end();
            }
        }
        let Phase::Closing { why, .. } = self.phase else {
            return;
        };
        if !self.conn.is_closed() {
            return;
        }
        let is_failed = self.writing == Writing::Failed;
        let is_layer_over = match &mut self.wire {
            Wire::Layered(layer) => {
                layer.close(why);
                layer.is_over() || is_failed
            }
            Wire::Stream | Wire::Messages => true,
        };
        if is_layer_over && (is_failed || self.writing == Writing::Idle) {
            self.phase = Phase::Over(why);
        }
    }

    /// Reports the end of the input to the connection.
    fn tell_end(&mut self) {
        self.conn.handle_eof();
        let rest = self.take_rest();
        self.pump(&mut Input::stream(&rest));
    }

    /// Closes the connection, if it is not closed.
    pub(super) fn close_now(&mut self, reason: CloseReason) {
        self.conn.close(reason);
        self.pump(&mut Input::none());
    }

    /// Moves to [`Phase::Closing`], because the connection has ended.
    pub(super) fn note_closed(&mut self, why: Closed) {
        let since = self.phase.ended_at().unwrap_or(self.now);
        self.phase = Phase::Closing { why, since };
        if let Some(routes) = &mut self.routes {
            routes.end_all();
        }
        if is_lost(why) {
            // The peer will never take the bytes that are being written.
            self.writing = Writing::Failed;
        }
    }

    /// Moves on if a command, such as an answer, has ended the connection. Without this, only the
    /// next input would show that end.
    pub(super) fn poll_end(&mut self) {
        if self.conn.has_ended() && self.phase.closed().is_none() {
            self.pump(&mut Input::none());
        }
        self.advance();
    }

    /// Stores and reports the first error of the transport, unless this side was already closing.
    pub(super) fn note_fault(&mut self, fault: Fault) {
        let is_meant = matches!(
            self.phase.closed(),
            Some(Closed::Local(_) | Closed::Drained)
        );
        if !is_meant && self.fault.is_none() {
            self.fault = Some(fault.clone());
            self.report(Report::Transport(fault));
        }
    }

    /// Returns the time up to which deadlines may end something: the current time; but the time
    /// just before the earliest deadline, while this one has extra time because the clock has
    /// jumped.
    fn judge(&mut self) -> Instant {
        let (due, now) = (self.earliest(), self.now);
        if due > now {
            self.granted = None;
            return now;
        }
        let late = now.saturating_since(due);
        let granted = *self.granted.get_or_insert(now + grace(late));
        if now < granted {
            return Instant::from_nanos(due.as_nanos().saturating_sub(1));
        }
        // A later deadline gets extra time of its own.
        self.granted = None;
        now
    }

    /// The earliest deadline of any kind.
    fn earliest(&self) -> Instant {
        let layer = match &self.wire {
            Wire::Layered(layer) => layer.poll_timeout(),
            Wire::Stream | Wire::Messages => None,
        };
        let due = self.conn.poll_timeout().into_iter().chain(layer);
        due.fold(self.write_due().min(self.phase_due()), Instant::min)
    }

    /// Returns when a write that makes no progress counts as failed. After the end of the
    /// connection, the deadline of the end counts instead.
    fn write_due(&self) -> Instant {
        match (self.phase.closed(), self.writing) {
            (None, Writing::Busy(since)) => after(since, self.conn.config().timeouts.write_timeout),
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Returns when the current phase ends without an event.
    fn phase_due(&self) -> Instant {
        let drain_time = self.conn.config().timeouts.drain_timeout;
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining | Phase::Over(_) => Instant::FAR_FUTURE,
            Phase::InputEnded { since } | Phase::Closing { since, .. } => after(since, drain_time),
            Phase::LastWords { since } => since + self.linger,
        }
    }

    /// Ends the current phase, whose deadline has passed.
    fn end_phase(&mut self) {
        match self.phase {
            Phase::InputEnded { .. } => self.tell_end(),
            Phase::LastWords { .. } => self.close_now(CloseReason::TransportFailed),
            Phase::Closing { why, .. } => {
                self.close_now(CloseReason::GoingAway);
                self.throw_output_away();
                self.phase = Phase::Over(why);
            }
            _ => {}
        }
    }
}

/// Returns the time `span` after `start`; the far future without a span.
fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}
