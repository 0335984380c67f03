//! A clock that never begins again, made from a timer of 32 bits that does.

const TICKS_PER_MILLISECOND: u32 = 25_000;

/// Counts milliseconds. It must be asked more often than the timer begins again, which is every 171 s.
#[derive(Default)]
pub(crate) struct Clock {
    millis: u64,
    /// What the timer had counted at `millis`.
    ticks: u32,
}

impl Clock {
    /// The milliseconds since the start, when the timer has counted `ticks`.
    pub(crate) fn millis(&mut self, ticks: u32) -> u64 {
        // The difference is right even if the timer has begun again in between.
        let passed = ticks.wrapping_sub(self.ticks) / TICKS_PER_MILLISECOND;
        self.ticks = self.ticks.wrapping_add(passed * TICKS_PER_MILLISECOND);
        self.millis += u64::from(passed);
        self.millis
    }
}
