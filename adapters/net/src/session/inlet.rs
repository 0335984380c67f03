//! A thread that waits for input reads it itself, so that the connection's reading thread need not wake
//! it.
//!
//! ```text
//!   the reading thread reads ──the input was for a thread that waits──▶ nobody reads
//!   nobody reads ──a thread is about to wait──▶ it reads for some milliseconds ──▶ nobody reads
//!   nobody reads ──for a while, or a thread waits and does not read──▶ the reading thread reads
//! ```
//!
//! One thread reads at a time. A thread that waits and does not read makes the reading thread read
//! if no other does. Input that arrives while every thread is busy is read some milliseconds later,
//! and at most 16 ms later if other threads have just been reading a lot.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::mem;
use std::time::Duration;

use antiphon::Instant;

use super::direct::{Came, Inlet, Receiver};
use super::state::Reader;
use super::{Guard, Session, Sleeper, State};
use crate::runtime::threads::{block_on_with, park_until};

impl Receiver for Session {
    fn receive(&self, bytes: &[u8]) {
        Self::receive(self, bytes);
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        Self::input_ended(self, failed);
    }
}

/// The shortest and the longest time without a reader after which the reading thread reads. To check
/// whether another thread has read costs as much as several calls, so the reading thread checks less
/// often while others read again and again.
const UNREAD_TIME_MIN: Duration = Duration::from_millis(2);
const UNREAD_TIMEOUT: Duration = Duration::from_millis(8);

/// How far ahead a deadline must be for a thread to read instead of sleeping, because a read may
/// take some milliseconds longer than its timeout.
const FAR_FOR_A_READ: Duration = Duration::from_millis(40);

impl Session {
    /// Reads once, if no thread does, instead of waiting until `deadline`. Returns true if something
    /// arrived or the read was interrupted.
    fn read_instead<'s>(&'s self, mut state: Guard<'s>, deadline: Instant) -> (Guard<'s>, bool) {
        let is_open = state.conn.phase().is_listening() && state.conn.wants_input();
        let has_time =
            || deadline == Instant::FAR_FUTURE || deadline >= self.now() + FAR_FOR_A_READ;
        if !is_open || !has_time() {
            return (state, false);
        }
        let Some(mut inlet) = state.reading.begin(Reader::Other) else {
            return (state, false);
        };
        state.reading.others += 1;
        drop(state);
        let held = Held {
            session: self,
            state: Cell::new(None),
        };
        let came = inlet.read(&held, true);
        let mut state = held.take();
        state.reading.by = Reader::Nobody(inlet);
        (state, came == Came::Something)
    }

    /// Reads once, if no thread does, on the thread of a service that has no work. Returns true if
    /// something arrived or the read was interrupted; otherwise the caller waits for work.
    pub fn read_idle<'s>(&'s self, state: Guard<'s>) -> (Guard<'s>, bool) {
        let (mut state, has_come) = self.read_instead(state, Instant::FAR_FUTURE);
        if !has_come || state.reading.callers > 0 {
            self.want_reader(&mut state);
        }
        (state, has_come)
    }

    /// Makes the reading thread read if no other does, for a thread that is about to wait.
    pub fn want_reader(&self, state: &mut State) {
        if !matches!(state.reading.by, Reader::Thread) {
            state.reading.is_thread_wanted = true;
            state.rouse(Sleeper::Reader);
        }
    }

    /// Polls `future` on this thread until it is ready. If only this thread waits, it writes for itself,
    /// and reads as long as its reads bring something. Otherwise the writing and the reading thread do
    /// it, for all threads that wait.
    pub fn wait_for<F: Future>(&self, future: F) -> F::Output {
        let state = self.lock();
        let mut is_alone = state.reading.callers == 0;
        drop(match is_alone {
            true => self.write_out(state),
            false => state,
        });
        let ready = block_on_with(future, |wake_at| {
            let mut state = self.lock();
            if is_alone {
                (_, is_alone) = self.read_instead(state, wake_at);
                // Whatever the read returned, `future` may be ready now, so it is polled again.
                return;
            }
            state.reading.callers += 1;
            self.want_reader(&mut state);
            drop(state);
            park_until(wake_at);
            self.lock().reading.callers -= 1;
        });
        let mut state = self.lock();
        if state.reading.callers > 0 {
            // This thread may have read, and others may still be waiting.
            self.want_reader(&mut state);
        }
        ready
    }

    /// Lends the inlet to the other threads if the last input was for them, and waits until the
    /// reading thread must read again: because no other thread has read for some milliseconds,
    /// because a thread waits that does not read, or because `is_over` says that only the end is
    /// awaited. Returns the inlet.
    pub fn lend_input(&self, inlet: Box<dyn Inlet>, is_over: impl Fn() -> bool) -> Box<dyn Inlet> {
        let mut state = self.lock();
        let is_for_service = state.conn.wants_service();
        let is_for_caller = mem::take(&mut state.reading.is_call_settled);
        // A thread that waits for another call may not be reading when its answer comes.
        let is_left = (is_for_service || is_for_caller)
            && state.conn.calls_open() == 0
            && state.closed().is_none();
        if !is_left {
            return inlet;
        }
        state.reading.by = Reader::Nobody(inlet);
        state.reading.others += 1;
        let (mut is_unread, mut span) = (false, UNREAD_TIME_MIN);
        loop {
            if state.reading.is_thread_wanted || is_unread || is_over() {
                if let Some(inlet) = state.reading.begin(Reader::Thread) {
                    state.reading.is_thread_wanted = false;
                    return inlet;
                }
            }
            let others = state.reading.others;
            let until = self.now() + span;
            state = self.sleep(Sleeper::Reader, state, until);
            let is_still = state.reading.others == others;
            is_unread = is_still && self.now() >= until;
            if !is_still {
                span = (2 * span).min(UNREAD_TIMEOUT);
            }
        }
    }
}

/// Feeds received bytes to the session and keeps the lock, so that the caller can check the result
/// without locking again.
struct Held<'s> {
    session: &'s Session,
    state: Cell<Option<Guard<'s>>>,
}

impl<'s> Held<'s> {
    fn take(&self) -> Guard<'s> {
        self.state.take().unwrap_or_else(|| self.session.lock())
    }
}

impl Receiver for Held<'_> {
    fn receive(&self, bytes: &[u8]) {
        let mut state = self.take();
        self.session.receive_under(&mut state, bytes);
        self.state.set(Some(state));
    }

    fn input_ended(&self, failed: Option<io::Error>) {
        drop(self.state.take());
        self.session.input_ended(failed);
    }
}
