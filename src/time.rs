//! The current time, as a number that the driver passes in.
//!
//! This module has [`Instant`] and its saturating arithmetic, but no clock. The crate never reads a
//! clock, so the same input gives the same output on every run, and tests move time by adding to a
//! number.
//!
//! No arithmetic on time can overflow, panic or wrap into the past, whatever a caller adds.

use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point in time, in nanoseconds since an epoch that the driver picks.
///
/// The epoch usually is the start of the process or the connection. All instants passed to one
/// connection must have the same epoch. A `u64` of nanoseconds lasts 584 years; later points become
/// [`Instant::FAR_FUTURE`].
///
/// ```
/// use antiphon::Instant;
/// use core::time::Duration;
///
/// let start = Instant::from_millis(5);
/// let deadline = start + Duration::from_secs(30);
/// assert_eq!(deadline.saturating_since(start), Duration::from_secs(30));
/// assert_eq!(start.saturating_since(deadline), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);

    /// The last point in time: later than any deadline in practice. Additions stop there.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the epoch, [`Instant::FAR_FUTURE`] at most.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`, or zero if `earlier` is later, as after a step back of
    /// the clock.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Adds a span; the sum stops at [`Instant::FAR_FUTURE`].
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        // A `Duration` may be longer than 2^64 nanoseconds, so the conversion saturates too.
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

/// Adds a span in place; the sum stops at [`Instant::FAR_FUTURE`].
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

#[cfg(test)]
mod tests {
    use super::Instant;
    use core::time::Duration;

    #[test]
    fn sums_stop_at_the_far_future() {
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::FAR_FUTURE);
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_nanos(1),
            Instant::FAR_FUTURE
        );
        assert_eq!(Instant::from_millis(u64::MAX), Instant::FAR_FUTURE);
        let mut now = Instant::from_nanos(u64::MAX - 1);
        now += Duration::from_secs(1);
        assert_eq!(now, Instant::FAR_FUTURE);
    }

    #[test]
    fn a_clock_that_steps_back_gives_a_span_of_zero() {
        let early = Instant::from_millis(1);
        let late = early + Duration::from_millis(2);
        assert_eq!(late.saturating_since(early), Duration::from_millis(2));
        assert_eq!(early.saturating_since(late), Duration::ZERO);
        assert_eq!(late.as_nanos(), 3_000_000);
    }

    #[test]
    fn instants_order_by_time() {
        assert!(Instant::ZERO < Instant::from_nanos(1));
        assert!(Instant::from_nanos(1) < Instant::FAR_FUTURE);
        assert_eq!(Instant::default(), Instant::ZERO);
    }
}
