//! What differs between one run and another, drawn by the seed.

use std::time::Duration;

use antiphon::durable::{AckMode, DurableSettings, Retention, SecondConsumer, Start};
use antiphon_test_support::random::Random;

/// The topics.
pub(super) const TOPICS: [&str; 2] = ["orders", "bills"];
/// The subscriptions, each with its topic.
pub(super) const NAMES: [(&str, &str); 3] = [("a", "orders"), ("b", "orders"), ("c", "bills")];

/// How a run goes.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) hubs: usize,
    pub(super) clients: usize,
    pub(super) durable: DurableSettings,
    /// Of the first topic. The second one has none.
    pub(super) retention: Retention,
    /// Of a hundred commands of the store, so many go wrong in each way.
    pub(super) faults: u64,
    /// How many unfinished messages a reader may have.
    pub(super) max_open: usize,
}

impl Settings {
    pub(super) fn draw(rng: &mut Random) -> Self {
        let millis = Duration::from_millis;
        let mut durable = DurableSettings::new();
        durable.ack_mode = rng.pick(&[AckMode::Individual, AckMode::Cumulative]);
        durable.ack_timeout = rng.chance(75).then(|| millis(rng.within(1000, 8000)));
        durable.window = rng.size(1, 10);
        durable.second_consumer = rng.pick(&[
            SecondConsumer::TakeOver,
            SecondConsumer::TakeOver,
            SecondConsumer::Reject,
        ]);
        durable.start = rng.pick(&[Start::Latest, Start::EarliestRetained]);
        durable.keep_position = rng.chance(50);
        durable.max_per_connection = rng.pick(&[1, 2, 256, 256]);
        durable.max_publishes = rng.pick(&[2, 8, 1024]);
        durable.max_read_bytes = rng.pick(&[1, 40, 1 << 16]);
        durable.store_timeout = rng.chance(80).then(|| millis(rng.within(2000, 6000)));
        durable.retry_delay = millis(rng.within(100, 1000));
        let mut retention = Retention::FOREVER;
        match rng.below(5) {
            0 => retention.max_count = Some(rng.within(1, 12)),
            1 => retention.max_bytes = Some(rng.within(20, 200)),
            2 => retention.max_age_seconds = Some(rng.within(2, 20)),
            _ => {}
        }
        // What a reader does not take must come again.
        let is_small = durable.ack_timeout.is_some() && rng.chance(30);
        let max_open = if is_small { rng.size(1, 4) } else { 1024 };
        Self {
            hubs: rng.pick(&[1, 1, 2]),
            clients: rng.size(1, 3),
            durable,
            retention,
            faults: rng.pick(&[0, 2, 5]),
            max_open,
        }
    }

    pub(super) fn retention_of(&self, topic: &str) -> Retention {
        match topic == TOPICS[0] {
            true => self.retention,
            false => Retention::FOREVER,
        }
    }
}
