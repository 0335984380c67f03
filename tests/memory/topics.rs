//! What a subscription holds, and what a further receiver of a publication costs.

use std::collections::hash_map::RandomState;
use std::sync::Arc;

use antiphon::pubsub::{Feed, FeedLimits, Pattern, Publication, TopicSettings, Topics};
use antiphon_test_support::heap::{allocations, measured};

const SUBSCRIPTIONS: usize = 50_000;
/// How many of them a connection has.
const EACH: usize = 50;

/// The bytes that a subscription holds, with the text of its topic.
fn held(topic: impl Fn(usize) -> String) -> usize {
    let pattern = |n| Pattern::parse(&topic(n)).unwrap();
    let patterns: Vec<Pattern> = (0..SUBSCRIPTIONS).map(pattern).collect();
    let (topics, used) = measured(|| {
        let mut topics = Topics::new(TopicSettings::new(), RandomState::new());
        for (connection, patterns) in (0..).zip(patterns.chunks(EACH)) {
            topics.add_connection(connection);
            topics.subscribe(connection, patterns, 0).unwrap();
        }
        topics
    });
    assert_eq!(topics.subscriptions(), SUBSCRIPTIONS);
    usize::try_from(used.left).unwrap() / SUBSCRIPTIONS
}

// PUB-12
#[test]
fn a_subscription_holds_at_most_256_bytes() {
    let shared = held(|n| format!("stock.prices.T{n}"));
    let own = held(|n| format!("u{n}.inbox.>"));
    let same = held(|n| format!("room.{}", n % EACH));
    let figures = format!("{shared} {own} {same}");
    assert!(shared.max(own).max(same) <= 256, "{figures}");
    // More is counted when there is more.
    assert!(own > shared && shared > same && same > 0, "{figures}");
}

// PUB-14
#[test]
fn a_further_receiver_of_a_publication_allocates_nothing() {
    let mut topics = Topics::new(TopicSettings::new(), RandomState::new());
    let mut feeds: Vec<Feed> = Vec::new();
    let publish = |topics: &mut Topics<RandomState>, feeds: &mut [Feed]| {
        let before = allocations();
        let publication = Arc::new(Publication::new("a.b", &"x".repeat(100)).unwrap());
        for &connection in topics.receivers(&publication) {
            feeds[connection as usize].push(&publication);
        }
        for feed in feeds {
            feed.drain(64 << 10, |_| true);
        }
        allocations() - before
    };
    let costs = [1, 10_000].map(|receivers| {
        for connection in feeds.len()..receivers {
            topics.add_connection(connection as u64);
            let patterns = ["a.b", "a.*"].map(|text| Pattern::parse(text).unwrap());
            topics.subscribe(connection as u64, &patterns, 0).unwrap();
            feeds.push(Feed::new(FeedLimits::new()));
        }
        publish(&mut topics, &mut feeds);
        publish(&mut topics, &mut feeds)
    });
    assert!(costs[0] > 0);
    assert_eq!(costs[0], costs[1]);
}
