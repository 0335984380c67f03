//! The current time by both clocks, and what is to be done later.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::wall::Wall;
use crate::shared::Arc;
use crate::time::Instant;

/// How far the clock on the wall may run ahead of the other one between two readings.
const TOLERANCE_MILLIS: u64 = 60_000;
/// How long messages do not age after it ran ahead further.
const DISTRUST: Duration = Duration::from_secs(3600);

/// Both clocks, and until when the one on the wall is not believed.
#[derive(Debug, Default)]
pub(super) struct Clock {
    pub(super) now: Instant,
    pub(super) wall: Wall,
    is_set: bool,
    /// Until then no message is too old.
    pub(super) distrusted_until: Instant,
}

impl Clock {
    /// Takes the time. Returns whether the clock on the wall has jumped ahead.
    pub(super) fn set(&mut self, now: Instant, wall: Wall) -> bool {
        let now = now.max(self.now);
        let elapsed = now.saturating_since(self.now).as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let latest = self.wall.plus(elapsed).plus(TOLERANCE_MILLIS);
        let jumped = self.is_set && wall > latest;
        if jumped {
            self.distrusted_until = now + DISTRUST;
        }
        (self.now, self.wall, self.is_set) = (now, wall, true);
        jumped
    }
}

/// What has a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Subscription(Arc<str>),
    Topic(Arc<str>),
}

/// The times of subscriptions and topics, one for each.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    /// Sets a time, unless it is never, or an earlier one is set in `slot`, where the owner has it.
    pub(super) fn arm(&mut self, slot: &mut Option<Instant>, timer: Timer, at: Instant) {
        if at == Instant::FAR_FUTURE || slot.is_some_and(|set| set <= at) {
            return;
        }
        self.disarm(slot, timer.clone());
        *slot = Some(at);
        self.0.insert((at, timer));
    }

    pub(super) fn disarm(&mut self, slot: &mut Option<Instant>, timer: Timer) {
        if let Some(at) = slot.take() {
            self.0.remove(&(at, timer));
        }
    }

    /// Returns what is due. Its owner then has no time any more.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Timer> {
        self.next().filter(|at| *at <= now)?;
        self.0.pop_first().map(|(_, timer)| timer)
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }
}
