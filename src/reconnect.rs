//! Decides when to try again after a connection was lost. It does no I/O: the caller passes the
//! time and random numbers. Which calls may then be sent again is decided in `retry`.

use core::fmt;
use core::time::Duration;

use crate::retry::back_off;
use crate::time::Instant;

/// How often, and after how long, to try again after a connection was lost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ReconnectStrategy {
    /// Never.
    None,
    /// After a constant delay.
    Fixed {
        /// The time between two attempts.
        delay: Duration,
        /// The number of attempts.
        max_attempts: u32,
    },
    /// After growing delays: attempt n waits `min(initial_delay × multiplier^(n−1), max_delay)`.
    ExponentialBackoff {
        /// The time before the first attempt.
        initial_delay: Duration,
        /// The longest time between two attempts.
        max_delay: Duration,
        /// The number of attempts.
        max_attempts: u32,
        /// The factor from one delay to the next, at least 1. Usually 2.0.
        multiplier: f64,
        /// The largest part of each delay, from 0 to 1, that is subtracted at random. 0 for none,
        /// as in [`backoff`](ReconnectStrategy::backoff).
        jitter: f64,
    },
}

impl ReconnectStrategy {
    /// Returns exponential backoff with the usual factor of 2 and no jitter.
    pub const fn backoff(initial_delay: Duration, max_delay: Duration, max_attempts: u32) -> Self {
        Self::ExponentialBackoff {
            initial_delay,
            max_delay,
            max_attempts,
            multiplier: 2.0,
            jitter: 0.0,
        }
    }
}

/// A number in a strategy that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidStrategy {
    /// The multiplier is below 1, infinite, or not a number.
    Multiplier,
    /// The jitter is not between 0 and 1.
    Jitter,
}

impl fmt::Display for InvalidStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Multiplier => "the multiplier is not a finite number of at least 1",
            Self::Jitter => "the jitter is not between 0 and 1",
        })
    }
}

impl core::error::Error for InvalidStrategy {}

/// The shortest time that a connection must have been open to count as a success, if the last delay
/// was shorter. Without this minimum, delays of zero would allow endless attempts at a server that
/// accepts and drops connections.
const OPEN_TIME_MIN: Duration = Duration::from_millis(50);

/// Counts attempts and returns when the next one is due.
///
/// A connection that opens is not yet a success: a server may accept every connection and drop it.
/// So the count starts again only after a first [message](Self::handle_message), or after a
/// connection was open for longer than the last delay (before jitter) and longer than 50 ms.
///
/// ```
/// use antiphon::{Instant, Reconnect, ReconnectStrategy};
/// use core::time::Duration;
/// let strategy = ReconnectStrategy::backoff(Duration::from_secs(1), Duration::from_secs(60), 2);
/// let mut reconnect = Reconnect::new(strategy)?;
/// assert_eq!(reconnect.handle_lost(Instant::ZERO, 0), Some(Instant::from_millis(1000)));
/// assert_eq!(reconnect.handle_lost(Instant::from_millis(1500), 0), Some(Instant::from_millis(3500)));
/// assert_eq!(reconnect.handle_lost(Instant::from_millis(4000), 0), None); // no attempt is left
/// # Ok::<(), antiphon::InvalidStrategy>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reconnect {
    strategy: ReconnectStrategy,
    attempts: u32,
    /// The delay before the next attempt, in seconds, without jitter. Only the first one may be
    /// above `max_delay`; it is limited when it is used.
    delay: f64,
    /// The delay before the last attempt, without its jitter.
    last_delay: Duration,
    /// When the connection was opened, while it is open.
    opened_at: Option<Instant>,
}

impl Reconnect {
    /// Makes a counter for a strategy, after checking its numbers.
    ///
    /// # Errors
    /// [`InvalidStrategy`] names the number that is not valid.
    pub fn new(strategy: ReconnectStrategy) -> Result<Self, InvalidStrategy> {
        if let ReconnectStrategy::ExponentialBackoff {
            multiplier, jitter, ..
        } = strategy
        {
            if !(1.0..f64::INFINITY).contains(&multiplier) {
                return Err(InvalidStrategy::Multiplier);
            }
            if !(0.0..=1.0).contains(&jitter) {
                return Err(InvalidStrategy::Jitter);
            }
        }
        let mut reconnect = Self {
            strategy,
            attempts: 0,
            delay: 0.0,
            last_delay: Duration::ZERO,
            opened_at: None,
        };
        reconnect.handle_message();
        Ok(reconnect)
    }

    /// Reports that a connection was opened at `now`. This alone does not start the count of
    /// attempts again.
    pub fn handle_open(&mut self, now: Instant) {
        self.opened_at = Some(now);
    }

    /// Reports that the peer has sent a message over the open connection: counting begins again.
    pub fn handle_message(&mut self) {
        self.attempts = 0;
        self.last_delay = Duration::ZERO;
        self.delay = match self.strategy {
            ReconnectStrategy::ExponentialBackoff { initial_delay, .. } => {
                initial_delay.as_secs_f64()
            }
            _ => 0.0,
        };
    }

    /// Reports that the connection, or an attempt at one, was lost at `now`. Returns the time of
    /// the next attempt; `None` if no attempt is left. That is final, unless a connection that was
    /// made in another way is a success, as described [above](Self). `entropy` is a random number
    /// from the driver, used for jitter only.
    pub fn handle_lost(&mut self, now: Instant, entropy: u64) -> Option<Instant> {
        if let Some(opened_at) = self.opened_at.take() {
            if now.saturating_since(opened_at) > self.last_delay.max(OPEN_TIME_MIN) {
                self.handle_message();
            }
        }
        let (delay, unjittered, max_attempts) = match self.strategy {
            ReconnectStrategy::None => return None,
            ReconnectStrategy::Fixed {
                delay,
                max_attempts,
            } => (delay, delay, max_attempts),
            ReconnectStrategy::ExponentialBackoff {
                max_delay,
                max_attempts,
                jitter,
                ..
            } => {
                let delay = back_off(self.delay, max_delay, jitter, entropy);
                let unjittered = back_off(self.delay, max_delay, 0.0, entropy);
                (delay, unjittered, max_attempts)
            }
        };
        if self.attempts >= max_attempts {
            return None;
        }
        self.attempts += 1;
        self.last_delay = unjittered;
        if let ReconnectStrategy::ExponentialBackoff {
            multiplier,
            max_delay,
            ..
        } = self.strategy
        {
            // The delay is limited here, so that it never becomes infinite.
            self.delay = (self.delay * multiplier).min(max_delay.as_secs_f64());
        }
        Some(now + delay)
    }

    /// The number of attempts since the count last started again.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidStrategy, Reconnect, ReconnectStrategy};
    use crate::time::Instant;
    use alloc::vec::Vec;
    use core::time::Duration;

    /// Returns the delay in milliseconds after each of this many losses, all at time zero.
    fn delays(strategy: ReconnectStrategy, losses: u32) -> Vec<Option<u64>> {
        let mut reconnect = Reconnect::new(strategy).unwrap();
        let lost = |_| {
            reconnect
                .handle_lost(Instant::ZERO, 0)
                .map(|at| at.as_nanos() / 1_000_000)
        };
        (0..losses).map(lost).collect()
    }

    // CON-04
    #[test]
    fn each_strategy_has_its_delays_and_its_end() {
        assert_eq!(delays(ReconnectStrategy::None, 2), [None, None]);
        let fixed = ReconnectStrategy::Fixed {
            delay: Duration::from_millis(7),
            max_attempts: 2,
        };
        assert_eq!(delays(fixed, 3), [Some(7), Some(7), None]);
        let backoff =
            ReconnectStrategy::backoff(Duration::from_millis(100), Duration::from_millis(350), 4);
        assert_eq!(
            delays(backoff, 5),
            [Some(100), Some(200), Some(350), Some(350), None]
        );
    }

    // CON-05 USE-24
    #[test]
    fn the_count_begins_anew_after_a_first_message() {
        let backoff = ReconnectStrategy::backoff(Duration::from_secs(1), Duration::from_secs(9), 2);
        let mut reconnect = Reconnect::new(backoff).unwrap();
        reconnect.handle_lost(Instant::ZERO, 0);
        reconnect.handle_lost(Instant::ZERO, 0);
        assert_eq!(reconnect.handle_lost(Instant::ZERO, 0), None);
        reconnect.handle_open(Instant::ZERO);
        reconnect.handle_message();
        assert_eq!(
            reconnect.handle_lost(Instant::ZERO, 0),
            Some(Instant::from_millis(1000))
        );
        assert_eq!(reconnect.attempts(), 1);
    }

    // CON-05 USE-24
    #[test]
    fn a_connection_counts_once_it_was_open_for_longer_than_the_last_delay() {
        let ms = Duration::from_millis;
        // The strategy, how many milliseconds each connection is open, and how many attempts follow
        // the first connection, 999 at most.
        let backoff = ReconnectStrategy::backoff(ms(100), ms(400), 5);
        let fixed = |delay| ReconnectStrategy::Fixed {
            delay: ms(delay),
            max_attempts: 5,
        };
        for (strategy, open, attempts) in [
            (backoff, 0, 5),
            // Longer than 50 ms, but not longer than the first delay of 100 ms.
            (backoff, 100, 5),
            (backoff, 101, 999),
            (fixed(200), 200, 5),
            (fixed(200), 201, 999),
            (fixed(0), 0, 5),
            (fixed(0), 50, 5),
            (fixed(0), 51, 999),
            (ReconnectStrategy::None, 1000, 0),
        ] {
            let mut reconnect = Reconnect::new(strategy).unwrap();
            let mut now = Instant::ZERO;
            let again = (0..999).take_while(|_| {
                reconnect.handle_open(now);
                now += ms(open);
                let next = reconnect.handle_lost(now, 0);
                now = next.unwrap_or(now);
                next.is_some()
            });
            assert_eq!(again.count(), attempts, "{strategy:?} open for {open} ms");
        }
        // Jitter makes a delay shorter, but not the time that a connection must be open.
        let jitter = ReconnectStrategy::ExponentialBackoff {
            initial_delay: ms(100),
            max_delay: ms(100),
            max_attempts: 1,
            multiplier: 1.0,
            jitter: 1.0,
        };
        let mut reconnect = Reconnect::new(jitter).unwrap();
        assert_eq!(
            reconnect.handle_lost(Instant::ZERO, u64::MAX),
            Some(Instant::ZERO)
        );
        reconnect.handle_open(Instant::ZERO);
        assert_eq!(reconnect.handle_lost(Instant::from_millis(100), 0), None);
    }

    // CON-05
    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        let with = |multiplier, jitter| {
            Reconnect::new(ReconnectStrategy::ExponentialBackoff {
                initial_delay: Duration::from_secs(1),
                max_delay: Duration::from_secs(2),
                max_attempts: 1,
                multiplier,
                jitter,
            })
            .map(drop)
        };
        for multiplier in [0.99, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                with(multiplier, 0.0),
                Err(InvalidStrategy::Multiplier),
                "{multiplier}"
            );
        }
        for jitter in [-0.1, 1.1, f64::NAN] {
            assert_eq!(with(2.0, jitter), Err(InvalidStrategy::Jitter), "{jitter}");
        }
        assert_eq!(with(1.0, 1.0), Ok(()));
    }

    // CON-05
    #[test]
    fn nothing_overflows_and_jitter_only_shortens() {
        let endless = ReconnectStrategy::ExponentialBackoff {
            initial_delay: Duration::MAX,
            max_delay: Duration::MAX,
            max_attempts: u32::MAX,
            multiplier: f64::MAX,
            jitter: 0.5,
        };
        let mut reconnect = Reconnect::new(endless).unwrap();
        for entropy in [0, 1, u64::MAX] {
            assert_eq!(
                reconnect.handle_lost(Instant::ZERO, entropy),
                Some(Instant::FAR_FUTURE)
            );
        }
        let half = ReconnectStrategy::ExponentialBackoff {
            initial_delay: Duration::from_secs(8),
            max_delay: Duration::from_secs(8),
            max_attempts: 9,
            multiplier: 1.0,
            jitter: 0.5,
        };
        let mut reconnect = Reconnect::new(half).unwrap();
        assert_eq!(
            reconnect.handle_lost(Instant::ZERO, 0),
            Some(Instant::from_millis(8000))
        );
        assert_eq!(
            reconnect.handle_lost(Instant::ZERO, u64::MAX),
            Some(Instant::from_millis(4000))
        );
    }

    // CON-05 TST-10
    #[test]
    fn the_end_of_all_attempts_is_final() {
        for strategy in [
            ReconnectStrategy::None,
            ReconnectStrategy::Fixed {
                delay: Duration::ZERO,
                max_attempts: 0,
            },
            ReconnectStrategy::backoff(Duration::ZERO, Duration::ZERO, 0),
        ] {
            assert_eq!(delays(strategy, 1000), [None; 1000], "{strategy:?}");
        }
        let fixed = ReconnectStrategy::Fixed {
            delay: Duration::from_secs(1),
            max_attempts: 3,
        };
        let told = delays(fixed, 1000);
        assert_eq!(told[..3], [Some(1000); 3]);
        assert!(told[3..].iter().all(Option::is_none));
    }
}
