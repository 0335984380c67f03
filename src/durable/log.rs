//! What is known of a topic's messages, and which of them its retention removes.
//!
//! The store has the messages. Here are the bounds of the log. Whether its oldest messages are to be removed is seen
//! when they are read: a few at a time, when there are too many or too much, or when the oldest is too old.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::clock::Clock;
use super::settings::Retention;
use super::store::{Log, Record};
use crate::shared::Arc;
use crate::time::Instant;

/// How many of the oldest messages are read and removed at once.
pub(super) const SLICE: u32 = 16;

#[derive(Debug)]
pub(super) struct TopicLog {
    pub(super) log: Log,
    pub(super) subscribers: BTreeSet<Arc<str>>,
    /// How many appends are open.
    pub(super) appending: usize,
    /// Whether the oldest messages are being read or removed.
    pub(super) is_busy: bool,
    /// Whether messages have come whose bytes are not counted, since the oldest were last read.
    pub(super) has_unknown: bool,
    /// The bytes of the messages that are being removed.
    pub(super) freed: u64,
    /// When a message may be too old.
    pub(super) check_at: Instant,
    /// Nothing is tried before this time, because something has failed.
    pub(super) retry_at: Instant,
    pub(super) timer: Option<Instant>,
}

impl TopicLog {
    pub(super) const fn new() -> Self {
        Self {
            log: Log::EMPTY,
            subscribers: BTreeSet::new(),
            appending: 0,
            is_busy: false,
            has_unknown: false,
            freed: 0,
            check_at: Instant::ZERO,
            retry_at: Instant::ZERO,
            timer: None,
        }
    }

    /// When the oldest messages are to be looked at.
    pub(super) fn check_at(&self, retention: Retention) -> Instant {
        let Log { first, last, bytes } = self.log;
        let is_beyond = retention
            .max_count
            .is_some_and(|max| last + 1 - first > max)
            || last > first
                && retention
                    .max_bytes
                    .is_some_and(|max| bytes > max || self.has_unknown);
        let at = if is_beyond {
            Instant::ZERO
        } else {
            self.check_at
        };
        at.max(self.retry_at)
    }

    /// Returns the last of the oldest messages that is to be removed, 0 if none is.
    ///
    /// What stands before a message that is too old is older, whatever its time says: the clock was ahead then.
    pub(super) fn check(
        &mut self,
        retention: Retention,
        log: Log,
        records: &[Record],
        clock: &Clock,
    ) -> u64 {
        let max_age = retention
            .max_age_seconds
            .map(|age| age.saturating_mul(1000));
        let is_trusted = clock.now >= clock.distrusted_until;
        let (mut up_to, mut bytes, mut freed) = (0, log.bytes, 0);
        for record in records {
            let (sequence, size) = (record.sequence, record.data.bytes() as u64);
            let is_beyond = retention
                .max_count
                .is_some_and(|max| log.last - sequence >= max)
                || retention
                    .max_bytes
                    .is_some_and(|max| bytes > max && sequence < log.last)
                || max_age.is_some_and(|max| is_trusted && record.at.plus(max) <= clock.wall);
            bytes = bytes.saturating_sub(size);
            freed += size;
            if is_beyond {
                (up_to, self.freed) = (sequence, freed);
            }
        }
        let rest = records.iter().filter(|record| record.sequence > up_to);
        let oldest = rest.map(|record| record.at).min();
        self.check_at = match (oldest, max_age) {
            // There may be more to remove behind these.
            (None, _) if records.last().is_some_and(|last| log.last > last.sequence) => {
                Instant::ZERO
            }
            (Some(oldest), Some(max)) => {
                let wait = oldest
                    .plus(max)
                    .as_millis()
                    .saturating_sub(clock.wall.as_millis());
                let due_at = clock.now + Duration::from_millis(wait.max(1));
                due_at.max(clock.distrusted_until)
            }
            _ => Instant::FAR_FUTURE,
        };
        up_to
    }
}
