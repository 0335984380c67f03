//! A rate limit: a bucket of tokens that fills with time.

use core::time::Duration;

use crate::time::Instant;

/// Tokens that are added at a steady rate: each call takes one, and is refused while there is none.
///
/// ```
/// use core::time::Duration;
/// use antiphon::Instant;
/// use antiphon::service::Bucket;
/// let mut bucket = Bucket::per_second(2, 3);
/// let mut now = Instant::ZERO;
/// assert!([true, true, true, false].iter().all(|expected| bucket.take(now) == *expected));
/// now = now + Duration::from_millis(500);
/// assert!(bucket.take(now) && !bucket.take(now));
/// ```
#[derive(Clone, Debug)]
pub struct Bucket {
    /// The time in which one token is added.
    interval: Duration,
    /// The time in which an empty bucket becomes full.
    whole: Duration,
    /// When the bucket will be full again.
    full_at: Instant,
}

impl Bucket {
    /// Lets `rate` calls per second pass, and `burst` at once after a pause. Both are at least one.
    pub fn per_second(rate: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / rate.max(1);
        Self {
            interval,
            whole: interval * burst.max(1),
            full_at: Instant::ZERO,
        }
    }

    /// Takes a token. Returns false if there is none.
    pub fn take(&mut self, now: Instant) -> bool {
        let from = self.full_at.max(now);
        let full_at = from + self.interval;
        if full_at.saturating_since(now) > self.whole {
            return false;
        }
        self.full_at = full_at;
        true
    }

    /// How long until there is a token again; zero if there is one.
    pub fn wait(&self, now: Instant) -> Duration {
        let next = self.full_at.max(now) + self.interval;
        next.saturating_since(now).saturating_sub(self.whole)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::Bucket;
    use crate::time::Instant;

    // INT-09 SEC-09
    #[test]
    fn no_more_than_the_rate_passes_in_the_long_run() {
        let mut bucket = Bucket::per_second(10, 5);
        let (mut now, mut passed) = (Instant::ZERO, 0);
        for _ in 0..10_000 {
            passed += u32::from(bucket.take(now));
            now += Duration::from_millis(1);
        }
        // Ten seconds at ten a second, and the burst.
        assert_eq!(passed, 104);
        assert!(bucket.wait(now) <= Duration::from_millis(100));
        // A clock that steps back gives nothing away.
        assert!(!bucket.take(Instant::ZERO));
        assert_eq!(bucket.wait(now + Duration::from_secs(1)), Duration::ZERO);
    }
}
