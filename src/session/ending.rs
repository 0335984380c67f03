//! How a session ends, and when a deadline may end something.
//!
//! ```text
//!   due ──late by STALL_MIN──▶ granted as much time again ──▶ it ends
//!    └──────────────────────────────────────────────────────▲
//! ```
//!
//! What has arrived is read before a deadline ends anything: a driver says
//! [`handle_timeout`](Session::handle_timeout) only when it has. A clock that has jumped proves
//! nothing, since the process may have been stopped, and its peer with it.

use core::time::Duration;

use super::machine::{Session, Writing, is_unread};
use super::phase::Phase;
use super::report::{Fault, Report};
use super::wire::Wire;
use crate::event::{CloseReason, Closed, ConnectionError};
use crate::input::Input;
use crate::time::Instant;

/// How late a deadline is seen if the process did not run. An ordinary timer is late by a few
/// milliseconds.
const STALL_MIN: Duration = Duration::from_millis(100);

/// The most time that is granted after the clock has jumped.
const MAX_GRACE: Duration = Duration::from_secs(10);

/// How much more time is granted, once, if a deadline is noticed `late` after it has passed. From
/// 100 ms on the clock is taken to have jumped: this is then `late` again, 10 s at the most. Below
/// that it is zero.
pub fn grace(late: Duration) -> Duration {
    if late < STALL_MIN {
        return Duration::ZERO;
    }
    late.min(MAX_GRACE)
}

impl<W> Session<W> {
    /// Sets the current time, and ends nothing: there may be more to read. Spans that begin are counted
    /// from it.
    pub fn handle_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.conn.handle_time(now);
    }

    /// Sets the current time, and says that all input which has arrived was given to
    /// [`handle_input`](Self::handle_input): what is due ends.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        if self.is_paused() {
            // The peer is not listened to.
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
        // One end may be the beginning of another that is due as well.
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

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next; none for never. A
    /// wake-up may find nothing due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase.is_over() {
            return None;
        }
        let due = self.earliest();
        let due = self.granted.map_or(due, |granted| due.max(granted));
        (due != Instant::FAR_FUTURE).then_some(due)
    }

    /// Reports that the input has ended: the peer has ended its direction.
    pub fn handle_eof(&mut self) {
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining => self.end_input(),
            // Its last words have been heard.
            Phase::LastWords { .. } => self.close_now(CloseReason::TransportFailed),
            Phase::Closing { .. } => self.end_layer_input(),
            Phase::InputEnded { .. } | Phase::Over(_) => {}
        }
        self.advance();
    }

    fn end_input(&mut self) {
        let is_asked = self.conn.requests_open() > 0
            || self.writing != Writing::Idle
            || self.conn.poll_transmit().is_some();
        if let Wire::Layered(layer) = &mut self.wire {
            let half_closed = is_asked.then(|| layer.handle_half_close()).flatten();
            let Some(fault) = half_closed else {
                return self.end_layer_input();
            };
            // It ended without a close, but what it asked is answered.
            self.note_fault(fault);
        }
        self.phase = Phase::InputEnded { since: self.now };
    }

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

    /// Reports that the peer itself is gone, such as a child that has exited: it awaits no answer and
    /// gives none. Everything that it had sent must have been handed in before. The fault, if there
    /// is one, is reported.
    pub fn handle_peer_gone(&mut self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.note_fault(fault);
        }
        self.tell_end();
        self.close_now(CloseReason::TransportFailed);
        self.advance();
    }

    /// Ends the session at once, without a word to the peer: it never got a transport, or lost it.
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

    /// Brings the session as far towards its end as it may come now.
    pub(super) fn advance(&mut self) {
        if self.writing == Writing::Failed {
            self.throw_output_away();
        }
        if self.phase == Phase::Draining {
            // What was open to the last may just have been answered, written or given up.
            self.pump(&mut Input::none());
        }
        if let Phase::InputEnded { .. } = self.phase {
            // What came in is served first, so that the service can still speak of it; but what
            // waits for an answer of the peer's is not kept waiting.
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

    /// Tells the connection that the input has ended.
    fn tell_end(&mut self) {
        self.conn.handle_eof();
        let rest = self.take_rest();
        self.pump(&mut Input::stream(&rest));
    }

    /// Ends the conversation, if it has not ended.
    pub(super) fn close_now(&mut self, reason: CloseReason) {
        self.conn.close(reason);
        self.pump(&mut Input::none());
    }

    /// Takes the end of the conversation.
    pub(super) fn note_closed(&mut self, why: Closed) {
        let since = self.phase.ended_at().unwrap_or(self.now);
        self.phase = Phase::Closing { why, since };
        if is_unread(why) {
            // What is being written will never be taken.
            self.writing = Writing::Failed;
        }
    }

    /// Takes an end that a command has brought about: nothing comes in that would show it.
    pub(super) fn poll_end(&mut self) {
        if self.conn.has_ended() && self.phase.closed().is_none() {
            self.pump(&mut Input::none());
        }
        self.advance();
    }

    /// Remembers what broke the transport, unless this side meant to end the conversation.
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

    /// The time up to which deadlines may end something: the current time, unless the clock has just
    /// jumped over one.
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
        // What is due later is judged anew.
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

    /// When a write that hangs is given up. After the end, the end's own time bounds it.
    fn write_due(&self) -> Instant {
        match (self.phase.closed(), self.writing) {
            (None, Writing::Busy(since)) => after(since, self.config.config.timeouts.write_timeout),
            _ => Instant::FAR_FUTURE,
        }
    }

    /// When the present phase ends by itself.
    fn phase_due(&self) -> Instant {
        let drain_time = self.config.config.timeouts.drain_timeout;
        match self.phase {
            Phase::Opening | Phase::Open | Phase::Draining | Phase::Over(_) => Instant::FAR_FUTURE,
            Phase::InputEnded { since } | Phase::Closing { since, .. } => after(since, drain_time),
            Phase::LastWords { since } => since + self.config.linger,
        }
    }

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

fn after(start: Instant, span: Option<Duration>) -> Instant {
    span.map_or(Instant::FAR_FUTURE, |span| start + span)
}
