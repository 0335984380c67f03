//! Publishing to ten receivers, among few and among very many other subscriptions.
//!
//! Rule: a publication is written, its receivers are found, and each one's feed gets it. The other subscriptions have topics
//! and patterns of every kind, next to those that match at each level of the tree.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::hint::black_box;
use std::sync::Arc;

use antiphon::pubsub::{Feed, FeedLimits, Pattern, Publication, TopicSettings, Topics};

use crate::operations::Operation;

/// How often a run publishes.
const RUN: u64 = 32;
const RECEIVERS: [&str; 10] = [
    "stock.prices.ACME",
    "stock.prices.ACME",
    "stock.prices.ACME",
    "stock.prices.ACME",
    "stock.prices.ACME",
    "stock.prices.ACME",
    "stock.prices.*",
    "*.prices.ACME",
    "stock.>",
    "stock.>",
];

pub struct Publish {
    topics: Topics<BuildHasherDefault<DefaultHasher>>,
    feeds: Vec<Feed>,
}

impl Publish {
    pub fn new(subscriptions: usize) -> Self {
        let mut settings = TopicSettings::new();
        settings.max_subscriptions = usize::MAX;
        let mut topics = Topics::new(settings, BuildHasherDefault::default());
        let mut subscribe = |connection: usize, text: &str| {
            let pattern = Pattern::parse(text).expect("it is valid");
            topics.add_connection(connection as u64);
            let subscribed = topics.subscribe(connection as u64, &[pattern], 0);
            subscribed.expect("there is room");
        };
        // The receivers are among the others, as connections that came and went leave them.
        let (first, apart) = (subscriptions / 40, subscriptions / 10 / 200);
        let receiver = |n: usize| first + n * apart.max(1);
        for (n, text) in RECEIVERS.into_iter().enumerate() {
            subscribe(receiver(n), text);
        }
        for n in RECEIVERS.len()..subscriptions {
            let text = match n % 5 {
                0 => format!("stock.prices.T{n}"),
                1 => format!("stock.p{n}.ACME"),
                2 => format!("s{n}.prices.*"),
                3 => format!("*.prices.T{n}"),
                _ => format!("stock.*.T{n}"),
            };
            subscribe(n / 200, &text);
        }
        let mut feeds: Vec<Feed> = Vec::new();
        feeds.resize_with(receiver(RECEIVERS.len()), || Feed::new(FeedLimits::new()));
        Self { topics, feeds }
    }
}

impl Operation for Publish {
    fn run(&mut self) {
        for price in 0..RUN {
            let publication = Publication::new(black_box("stock.prices.ACME"), &price);
            let publication = Arc::new(publication.expect("it is valid"));
            for &connection in self.topics.receivers(&publication) {
                black_box(self.feeds[connection as usize].push(&publication));
            }
        }
    }

    fn between(&mut self) {
        let mut received = 0;
        for feed in &mut self.feeds {
            feed.drain(usize::MAX, |_| {
                received += 1;
                true
            });
        }
        assert_eq!(received, RUN * RECEIVERS.len() as u64);
    }

    fn count(&self) -> u64 {
        RUN
    }
}
