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
mod tests;
