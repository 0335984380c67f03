//! Ends a server in order: a state machine of timers, for one connection or for all of them.
//!
//! ```text
//!   serving ──begin──▶ draining ──idle, or grace over──▶ flushing ──flushed, or late──▶ over
//!                      Drain                             Flush                          Release
//! ```
//!
//! After the end has begun no new work is accepted. Active work may finish within a grace period.
//! Each of the three actions comes once, in this order, and nothing waits for ever.

use core::time::Duration;

use crate::time::Instant;

/// An action for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownAction {
    /// Stop accepting connections, and drain every connection:
    /// [`Connection::drain`](crate::Connection::drain).
    Drain,
    /// Stop waiting for active work, and close every connection:
    /// [`Connection::close`](crate::Connection::close) with
    /// [`GoingAway`](crate::CloseReason::GoingAway) as a server, whose WebSockets send 1001, and
    /// with [`Done`](crate::CloseReason::Done) as a client, whose WebSockets send 1000. Queued
    /// output is still written.
    Flush,
    /// Drop every transport, even if output is queued.
    Release,
}

/// Ends a server, or a client, in order.
///
/// ```
/// use antiphon::{Instant, Shutdown, ShutdownAction};
/// use core::time::Duration;
/// let mut shutdown = Shutdown::new(Duration::from_secs(1));
/// assert!(shutdown.is_accepting());
/// shutdown.begin(Instant::ZERO, Duration::from_secs(30));
/// assert_eq!(shutdown.poll_action(Instant::ZERO), Some(ShutdownAction::Drain));
/// shutdown.handle_idle(Instant::from_millis(200)); // the last request has been answered
/// assert_eq!(shutdown.poll_action(Instant::from_millis(200)), Some(ShutdownAction::Flush));
/// shutdown.handle_flushed(); // and its answer written
/// assert_eq!(shutdown.poll_action(Instant::from_millis(210)), Some(ShutdownAction::Release));
/// assert!(shutdown.is_over() && shutdown.is_clean());
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown {
    flush_timeout: Duration,
    stage: Stage,
    /// The stage whose action was returned last. The actions up to that of `stage` are still to
    /// come.
    told: Stage,
    /// The time limit of the stage.
    until: Option<Instant>,
    is_clean: bool,
}

/// The stages of a shutdown, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Serving,
    Draining,
    Flushing,
    Over,
}

impl Shutdown {
    /// Makes a shutdown that has not begun. When it flushes, writing queued output may take
    /// `flush_timeout`.
    pub const fn new(flush_timeout: Duration) -> Self {
        Self {
            flush_timeout,
            stage: Stage::Serving,
            told: Stage::Serving,
            until: None,
            is_clean: true,
        }
    }

    /// Begins the end: active work may take `grace` to finish. A later call can only shorten this
    /// time: with a `grace` of zero, active work is not waited for any more.
    pub fn begin(&mut self, now: Instant, grace: Duration) {
        let until = now + grace;
        match self.stage {
            Stage::Serving => {
                self.stage = Stage::Draining;
                self.until = Some(until);
            }
            Stage::Draining => self.until = self.until.map(|known| known.min(until)),
            Stage::Flushing | Stage::Over => {}
        }
    }

    /// Reports that there is no active work any more: every request has been answered, every call
    /// has ended. It has no effect before the end has begun.
    pub fn handle_idle(&mut self, now: Instant) {
        if self.stage == Stage::Draining {
            self.flush(now);
        }
    }

    /// Reports that all output was written, or that every connection has ended. It has no effect
    /// before the flush.
    pub fn handle_flushed(&mut self) {
        if self.stage == Stage::Flushing {
            self.stage = Stage::Over;
            self.until = None;
        }
    }

    /// Returns the next action at `now`, if there is one. Call it until it returns `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<ShutdownAction> {
        self.advance(now);
        // The actions come one at a time, so that none is left out, however late this is called.
        let (told, action) = match self.told {
            told if told == self.stage => return None,
            Stage::Serving => (Stage::Draining, ShutdownAction::Drain),
            Stage::Draining => (Stage::Flushing, ShutdownAction::Flush),
            Stage::Flushing | Stage::Over => (Stage::Over, ShutdownAction::Release),
        };
        self.told = told;
        Some(action)
    }

    /// Returns when [`poll_action`](Self::poll_action) will return an action, if nothing is
    /// reported before. It is in the past if there is an action now.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.told < self.stage {
            return Some(Instant::ZERO);
        }
        self.until
    }

    /// Whether new connections, requests and calls are accepted.
    pub fn is_accepting(&self) -> bool {
        self.stage == Stage::Serving
    }

    /// Whether [`Release`](ShutdownAction::Release) was returned, the last action.
    pub fn is_over(&self) -> bool {
        self.told == Stage::Over
    }

    /// Whether all active work was finished, and its output written, in time. Until
    /// [`is_over`](Self::is_over) this is what is known so far.
    pub const fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// Goes to the next stage if the time of this one is over.
    fn advance(&mut self, now: Instant) {
        if self.until.is_none_or(|until| until > now) {
            return;
        }
        self.is_clean = false;
        match self.stage {
            Stage::Draining => self.flush(now),
            Stage::Flushing => {
                self.stage = Stage::Over;
                self.until = None;
            }
            Stage::Serving | Stage::Over => {}
        }
    }

    /// Goes to the stage in which output is flushed.
    fn flush(&mut self, now: Instant) {
        self.stage = Stage::Flushing;
        self.until = Some(now + self.flush_timeout);
    }
}

#[cfg(test)]
mod tests {
    use super::{Shutdown, ShutdownAction};
    use crate::time::Instant;
    use ShutdownAction::{Drain, Flush, Release};
    use alloc::vec::Vec;
    use core::time::Duration;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    fn begun() -> Shutdown {
        let mut shutdown = Shutdown::new(Duration::from_secs(1));
        shutdown.begin(at(0), Duration::from_secs(30));
        shutdown
    }

    fn actions(shutdown: &mut Shutdown, now: Instant) -> Vec<ShutdownAction> {
        core::iter::from_fn(|| shutdown.poll_action(now)).collect()
    }

    // CON-09
    #[test]
    fn nothing_happens_before_the_end_has_begun() {
        let mut shutdown = Shutdown::new(Duration::ZERO);
        shutdown.handle_idle(at(1));
        shutdown.handle_flushed();
        assert_eq!(shutdown.poll_timeout(), None);
        assert_eq!(shutdown.poll_action(Instant::FAR_FUTURE), None);
        assert!(shutdown.is_accepting() && !shutdown.is_over());
    }

    // CON-09
    #[test]
    fn what_finishes_in_time_ends_clean() {
        let mut shutdown = begun();
        assert!(!shutdown.is_accepting());
        assert_eq!(actions(&mut shutdown, at(0)), [Drain]);
        assert_eq!(shutdown.poll_timeout(), Some(at(30)));
        assert_eq!(actions(&mut shutdown, at(29)), []);
        shutdown.handle_flushed(); // not yet: something is active
        assert_eq!(actions(&mut shutdown, at(29)), []);
        shutdown.handle_idle(at(29));
        assert_eq!(actions(&mut shutdown, at(29)), [Flush]);
        assert_eq!(shutdown.poll_timeout(), Some(at(30)));
        shutdown.handle_flushed();
        assert!(!shutdown.is_over());
        assert_eq!(actions(&mut shutdown, at(29)), [Release]);
        assert!(shutdown.is_over() && shutdown.is_clean());
        assert_eq!(shutdown.poll_timeout(), None);
        assert_eq!(actions(&mut shutdown, Instant::FAR_FUTURE), []);
    }

    // CON-09
    #[test]
    fn neither_a_handler_nor_a_reader_holds_up_the_end() {
        let mut shutdown = begun();
        assert_eq!(actions(&mut shutdown, at(0)), [Drain]);
        assert_eq!(actions(&mut shutdown, at(30)), [Flush]);
        assert!(!shutdown.is_clean());
        assert_eq!(shutdown.poll_timeout(), Some(at(31)));
        assert_eq!(actions(&mut shutdown, at(31)), [Release]);
        assert!(shutdown.is_over() && !shutdown.is_clean());

        let mut shutdown = begun();
        shutdown.handle_idle(at(3));
        assert_eq!(actions(&mut shutdown, at(3)), [Drain, Flush]);
        assert!(shutdown.is_clean());
        assert_eq!(actions(&mut shutdown, at(4)), [Release]);
        assert!(!shutdown.is_clean(), "something was not written");
    }

    // CON-09
    #[test]
    fn no_action_is_left_out_or_told_twice_however_late_it_is_asked_for() {
        let mut shutdown = begun();
        shutdown.handle_idle(at(1));
        shutdown.handle_flushed();
        assert_eq!(shutdown.poll_timeout(), Some(Instant::ZERO));
        assert_eq!(actions(&mut shutdown, at(1)), [Drain, Flush, Release]);
        // If the first call is late, the flush still has its whole time.
        let mut shutdown = begun();
        assert_eq!(actions(&mut shutdown, at(100)), [Drain, Flush]);
        assert_eq!(actions(&mut shutdown, at(100)), []);
        assert_eq!(actions(&mut shutdown, at(101)), [Release]);
    }

    // CON-09
    #[test]
    fn a_second_wish_to_stop_only_hurries() {
        let mut shutdown = begun();
        assert_eq!(actions(&mut shutdown, at(0)), [Drain]);
        shutdown.begin(at(1), Duration::from_secs(1000));
        assert_eq!(shutdown.poll_timeout(), Some(at(30)));
        shutdown.begin(at(2), Duration::ZERO);
        assert_eq!(actions(&mut shutdown, at(2)), [Flush]);
        shutdown.begin(at(2), Duration::from_secs(1000));
        assert_eq!(shutdown.poll_timeout(), Some(at(3)));
        assert_eq!(actions(&mut shutdown, at(3)), [Release]);
        shutdown.begin(at(4), Duration::ZERO);
        shutdown.handle_idle(at(4));
        shutdown.handle_flushed();
        assert_eq!(actions(&mut shutdown, Instant::FAR_FUTURE), []);
        assert!(shutdown.is_over());
    }

    // CON-09
    #[test]
    fn without_grace_and_without_time_to_flush_it_ends_at_once() {
        let mut shutdown = Shutdown::new(Duration::ZERO);
        shutdown.begin(at(5), Duration::ZERO);
        assert_eq!(actions(&mut shutdown, at(5)), [Drain, Flush, Release]);
    }
}
