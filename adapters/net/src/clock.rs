//! Where a session takes the time from.

use antiphon::Instant;

/// Tells the present. It may stand still or be moved by hand in a test, but never matters to
/// correctness if it steps back.
pub trait Clock: Send + Sync + 'static {
    /// The present, since an epoch of the clock's own choice.
    fn now(&self) -> Instant;
}

/// The system's monotonic clock; its epoch is when it was made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    epoch: std::time::Instant,
}

impl SystemClock {
    /// Starts at zero.
    pub fn new() -> Self {
        Self {
            epoch: std::time::Instant::now(),
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
}
