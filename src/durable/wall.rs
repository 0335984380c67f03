//! The time of day, as the program passes it in. Timers use [`Instant`](crate::Instant), which never goes back.

use core::fmt;

/// A point in time in milliseconds since 1970-01-01T00:00:00 UTC, without leap seconds, as computers count.
///
/// As text it is ISO 8601 in UTC, with milliseconds and `Z`.
///
/// ```
/// use antiphon::durable::Wall;
/// assert_eq!(Wall::from_millis(1_709_210_096_789).to_string(), "2024-02-29T12:34:56.789Z");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(u64);

impl Wall {
    /// The end of the year 9999, the last that ISO 8601 writes with four digits.
    pub const LAST: Self = Self(253_402_300_799_999);

    /// The point `millis` milliseconds after the beginning of 1970, [`Wall::LAST`] at most.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        match millis < Self::LAST.0 {
            true => Self(millis),
            false => Self::LAST,
        }
    }

    /// Milliseconds since the beginning of 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The point so many milliseconds later.
    pub(super) const fn plus(self, millis: u64) -> Self {
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        let (year, month, day) = date(seconds / 86_400);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

/// Year, month and day of a day, counted from the beginning of 1970. Years begin in March here, so that the
/// leap day is the last (Howard Hinnant, *chrono-compatible low-level date algorithms*).
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = year + era * 400;
    match month < 10 {
        true => (year, month + 3, day),
        false => (year + 1, month - 9, day),
    }
}
