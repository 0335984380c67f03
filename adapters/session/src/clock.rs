//! Where a session takes the time from.

use std::time::Duration;

use antiphon::Instant;
#[cfg(target_os = "linux")]
use rustix::time::{ClockId, clock_gettime};

/// A span from which on it does not matter that the clock was looked at some milliseconds ago.
pub(crate) const FAR_AHEAD: Duration = Duration::from_secs(10);

/// Tells the present. It may stand still or be moved by hand in a test, but never matters to
/// correctness if it steps back.
pub trait Clock: Send + Sync + 'static {
    /// The present, since an epoch of the clock's own choice.
    fn now(&self) -> Instant;

    /// The present or a moment shortly before it, if that is cheaper to tell: for what is far away, like the
    /// deadline of most calls. A clock that knows nothing cheaper tells the present.
    fn now_about(&self) -> Instant {
        self.now()
    }
}

/// The system's monotonic clock; its epoch is when it was made. On Linux [`now_about`](Clock::now_about) is the time
/// of the kernel's last tick, some milliseconds ago at most while the machine keeps up, for a quarter of the cost.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    epoch: std::time::Instant,
    /// The epoch by the clock that ticks, or shortly after it, in nanoseconds.
    #[cfg(target_os = "linux")]
    epoch_of_ticks: u64,
}

impl SystemClock {
    /// Starts at zero.
    pub fn new() -> Self {
        Self {
            epoch: std::time::Instant::now(),
            #[cfg(target_os = "linux")]
            epoch_of_ticks: since_boot(ClockId::Monotonic),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    #[cfg(target_os = "linux")]
    fn now_about(&self) -> Instant {
        // The last tick may have been before the epoch.
        Instant::from_nanos(
            since_boot(ClockId::MonotonicCoarse).saturating_sub(self.epoch_of_ticks),
        )
    }
}

/// What a clock shows that counts nanoseconds from the start of the machine, as `std`'s does.
#[cfg(target_os = "linux")]
fn since_boot(clock: ClockId) -> u64 {
    let shown = clock_gettime(clock);
    // Neither is ever below zero, and five centuries fit.
    (shown.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(shown.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::{Clock, SystemClock};
    use std::time::Duration;

    #[test]
    fn about_now_is_not_after_now_and_not_long_before() {
        let clock = SystemClock::new();
        // Until it has ticked once, and on from there.
        let until = clock.now() + Duration::from_millis(30);
        while clock.now() < until {
            let before = clock.now();
            let about = clock.now_about();
            assert!(about <= clock.now(), "{about:?}");
            // A machine that is stopped for a while does not tick meanwhile.
            assert!(
                before.saturating_since(about) < Duration::from_secs(5),
                "{about:?}"
            );
        }
        assert!(clock.now_about() > antiphon::Instant::ZERO);
    }
}
