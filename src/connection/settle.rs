//! Endings: calls that get no answer, and the connection itself.
//!
//! Reached only when the input has no whole message left, so that an answer already received wins
//! over its deadline. One event at a time; what is due waits in its own table until it is told.

use super::Connection;
use crate::calls::Calls;
use crate::config::Settings;
use crate::deadlines::NEVER;
use crate::event::{Cancelled, Closed, ConnectionError, Event, Outcome, ResponseRef};
use crate::id::CallId;
use crate::target::rare;

impl<T, S: Settings> Connection<T, S> {
    /// The next thing to tell that no message said.
    pub(super) fn settle_next<'a>(&mut self) -> Option<Event<'a, T>> {
        if let Some(number) = self.next_undelivered() {
            return self.settle(number, Outcome::Unsent);
        }
        let now = self.judged.as_nanos();
        if !self.phase.has_ended() {
            if let Some(number) = self.calls.due(now) {
                if self.config.dialect.cancel_on_timeout {
                    self.send_cancel(number, None);
                }
                return self.settle(number, Outcome::TimedOut);
            }
        }
        self.check_deadlines(now);
        let why = self.phase.ended()?;
        if self.phase.is_shut() {
            // A close that has just been decided here gives open requests up first, like any other.
            if let Some(event) = self.cancel_next() {
                return Some(event);
            }
        }
        if let Some(number) = self.calls.oldest() {
            return self.settle(number, self.last_outcome(number));
        }
        if self.phase.is_told() {
            return None;
        }
        self.phase.tell();
        Some(Event::Closed(why))
    }

    /// Whether `settle_next` would find nothing to tell and nothing to change, as it usually does.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        let has_ended = self.failed.is_some() || !self.phase.is_steady();
        let has_begun = self.deadlines.frame != NEVER;
        if has_ended || self.is_due() || has_begun != self.cutter.is_mid_frame(S::FRAMING) {
            rare();
            return false;
        }
        true
    }

    /// Whether any deadline is due.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let own = &self.deadlines;
        let now = self.judged.as_nanos();
        !self.calls.is_none_due(now) || own.write <= now || own.drain <= now || own.frame <= now
    }

    /// How a call ends that was open when the connection did.
    fn last_outcome<'a>(&self, number: u64) -> Outcome<'a> {
        if number > self.outbox.begun_call() {
            Outcome::Unsent
        } else if self.config.exchange && self.phase.ended() == Some(Closed::EndOfInput) {
            Outcome::Missing
        } else {
            Outcome::Aborted
        }
    }

    fn settle<'a>(&mut self, number: u64, outcome: Outcome<'a>) -> Option<Event<'a, T>> {
        let (call, tag) = self.end_call(number)?;
        Some(Event::Response(ResponseRef {
            call,
            tag,
            outcome,
            origin: None,
        }))
    }

    #[cold]
    #[inline(never)]
    fn end_in_batch(&mut self, number: u64) {
        if let Some(parts) = &mut self.parts {
            parts.our_batches.end_call(number);
        }
    }

    /// Ends an open call: what its last event needs besides the outcome.
    #[inline(always)]
    pub(super) fn end_call(&mut self, number: u64) -> Option<(CallId, T)> {
        let tag = self.calls.take(number)?;
        // They are kept only where errors without id ask for them.
        if self
            .parts
            .as_ref()
            .is_some_and(|parts| !parts.our_batches.is_empty())
        {
            rare();
            self.end_in_batch(number);
        }
        let call = CallId {
            connection: self.config.connection,
            number,
        };
        Some((call, tag))
    }

    /// An open call whose frame was not delivered.
    fn next_undelivered(&mut self) -> Option<u64> {
        if !Calls::<T>::POSSIBLE {
            return None;
        }
        let failed = self.failed.as_mut()?;
        while let Some(&(low, high)) = failed.0.front() {
            if let Some(number) = self.calls.open_between(low, high) {
                return Some(number);
            }
            failed.0.pop_front();
        }
        self.failed = None;
        None
    }

    /// Gives up one open request of a connection that was closed under it.
    pub(super) fn cancel_next<'a>(&mut self) -> Option<Event<'a, T>> {
        let slot = self.requests.any()?;
        let key = self.key(slot);
        self.forget_request(key);
        Some(Event::Cancelled(Cancelled {
            key,
            reason: None,
            answer_owed: false,
        }))
    }

    /// Acts on the deadlines that are not of calls.
    fn check_deadlines(&mut self, now: u64) {
        if !self.phase.has_ended() && self.cutter.is_mid_frame(S::FRAMING) {
            if self.deadlines.frame == NEVER {
                self.deadlines.frame = self.after(self.config.timeouts.message_timeout);
            }
        } else {
            self.deadlines.frame = NEVER;
        }
        if self.phase.has_ended() && self.is_idle() {
            self.deadlines.drain = NEVER;
        }
        if self.deadlines.write <= now {
            self.fail(ConnectionError::WriteTimedOut);
        } else if self.deadlines.frame <= now {
            self.fail(ConnectionError::MessageTimedOut);
        } else if self.deadlines.drain <= now {
            self.fail(ConnectionError::DrainTimedOut);
        }
    }

    /// Whether nothing is open in either direction and nothing waits to be written.
    pub(super) fn is_idle(&self) -> bool {
        self.calls.open() == 0 && self.requests.open() == 0 && self.outbox.len() == 0
    }
}
