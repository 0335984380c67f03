//! The end of calls that get no answer, and of the connection itself.
//!
//! This code runs only when the input has no whole message left or nothing more is read, so that an
//! answer that was received wins over its deadline. It makes one event at a time; calls and
//! requests that are still to end stay in their tables.

use super::Connection;
use crate::calls::Calls;
use crate::config::Settings;
use crate::deadlines::NEVER;
use crate::event::{Cancelled, Closed, ConnectionError, Event, Outcome, ResponseRef};
use crate::id::CallId;
use crate::target::rare;

impl<T, S: Settings> Connection<T, S> {
    /// Returns the next event that was not caused by a message.
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
            // `check_deadlines` may have shut the connection just now. Its open requests end before
            // its calls do.
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

    /// Whether `settle_next` would return no event and change nothing, which is usual. False in
    /// case of doubt.
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

    /// Whether any deadline has passed.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let own = &self.deadlines;
        let now = self.judged.as_nanos();
        !self.calls.is_none_due(now) || own.write <= now || own.drain <= now || own.frame <= now
    }

    /// Returns the outcome of a call that was open when the connection ended.
    fn last_outcome<'a>(&self, number: u64) -> Outcome<'a> {
        if number > self.outbox.begun_call() {
            Outcome::Unsent
        } else if self.config.exchange && self.phase.ended() == Some(Closed::EndOfInput) {
            Outcome::Missing
        } else {
            Outcome::Aborted
        }
    }

    /// Ends a call with an outcome that is no answer.
    fn settle<'a>(&mut self, number: u64, outcome: Outcome<'a>) -> Option<Event<'a, T>> {
        let (call, tag) = self.end_call(number, false)?;
        Some(Event::Response(ResponseRef {
            call,
            tag,
            outcome,
            origin: None,
        }))
    }

    /// Notes that a call ends, in the lists of our batches and of cancelled calls.
    #[cold]
    #[inline(never)]
    fn end_in_parts(&mut self, number: u64, is_answered: bool) {
        if let Some(parts) = &mut self.parts {
            parts.our_batches.end_call(number);
            let was_cancelled = parts.cancelled.settle(number);
            if was_cancelled && !is_answered {
                let name = self.calls.name_of(number);
                let max_open_calls = self.config.limits.max_open_calls;
                parts.cancelled.expect_answer(number, name, max_open_calls);
            }
        }
    }

    /// Ends an open call, by an answer or without one. Returns what its last event needs besides
    /// the outcome.
    #[inline(always)]
    pub(super) fn end_call(&mut self, number: u64, is_answered: bool) -> Option<(CallId, T)> {
        // Usually no call was cancelled, and our batches are stored only if `knows_batches`.
        let parts = self.parts.as_ref();
        if parts.is_some_and(|parts| parts.knows_calls()) && self.calls.is_open(number) {
            rare();
            self.end_in_parts(number, is_answered);
        }
        let tag = self.calls.take(number)?;
        let call = CallId {
            connection: self.number.get(),
            number,
        };
        Some((call, tag))
    }

    /// Returns an open call whose message could not be sent.
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

    /// Ends one open request of a connection that was closed, without an answer.
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

    /// Acts on the deadlines of the connection itself.
    fn check_deadlines(&mut self, now: u64) {
        // While the driver does not read, the peer's bytes may wait although it sent them in time.
        if self.wants_input() && self.cutter.is_mid_frame(S::FRAMING) {
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
