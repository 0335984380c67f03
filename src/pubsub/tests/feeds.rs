//! What waits for a connection, and what happens to more.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::topics;
use crate::pubsub::{Feed, FeedLimit, FeedLimits, FeedOverflow, Hold, Pattern, Publication};

fn feed(max_messages: usize, max_bytes: usize, overflow: FeedOverflow) -> Feed {
    let mut limits = FeedLimits::new();
    limits.max_messages = max_messages;
    limits.max_bytes = max_bytes;
    limits.overflow = overflow;
    Feed::new(limits)
}

fn push(feed: &mut Feed, topic: &str) -> bool {
    feed.push(&Arc::new(Publication::new(topic, topic).unwrap()))
}

fn push_all(feed: &mut Feed, topics: &str) {
    for topic in topics.split(' ') {
        push(feed, topic);
    }
}

/// The bytes of a publication with a topic of one letter.
const ONE: usize = r#"{"topic":"a","data":"a"}"#.len();

// PUB-14
#[test]
fn too_many_publications_drop_the_connection_once_with_one_report() {
    let mut feed = feed(3, usize::MAX, FeedOverflow::DropConnection);
    let woken = ["a", "b", "c", "d", "e"].map(|topic| push(&mut feed, topic));
    // Woken for the first, and to be closed.
    assert_eq!(woken, [true, false, false, true, false]);
    assert!(feed.has_overflowed() && feed.is_empty());
    assert_eq!(
        (feed.bytes(), topics(&mut feed, usize::MAX)),
        (0, String::new())
    );
    let lost = feed.poll_report().unwrap();
    assert_eq!((lost.dropped, lost.limit), (4, FeedLimit::Messages));
    assert_eq!((feed.poll_report(), feed.close()), (None, None));
    assert!(!push(&mut feed, "f") && feed.is_empty() && !feed.has_overflowed());
}

// PUB-14
#[test]
fn the_default_is_1024_publications_or_a_mebibyte() {
    let mut feed = Feed::new(FeedLimits::default());
    for _ in 0..1024 {
        push(&mut feed, "a");
    }
    assert!(!feed.has_overflowed());
    assert!(push(&mut feed, "a") && feed.has_overflowed());
    let mut feed = Feed::new(FeedLimits::new());
    let large = Arc::new(Publication::new("a", &"x".repeat(1 << 19)).unwrap());
    feed.push(&large);
    assert!(!feed.has_overflowed());
    assert!(feed.push(&large) && feed.has_overflowed());
    assert_eq!(feed.poll_report().unwrap().limit, FeedLimit::Bytes);
    assert_eq!(Arc::strong_count(&large), 1);
}

// PUB-14
#[test]
fn the_oldest_publications_are_dropped_and_reported_once_an_episode() {
    let mut feed = feed(2, usize::MAX, FeedOverflow::DropMessage);
    push_all(&mut feed, "a b c d e");
    assert_eq!((feed.len(), feed.poll_report()), (2, None));
    assert_eq!(topics(&mut feed, 1), "d");
    // It is the same episode until nothing waits.
    push_all(&mut feed, "f g");
    assert_eq!(feed.poll_report(), None);
    assert_eq!(topics(&mut feed, usize::MAX), "f g");
    let lost = feed.poll_report().unwrap();
    assert_eq!((lost.dropped, lost.limit), (4, FeedLimit::Messages));
    assert_eq!(lost.limit.as_str(), "max_messages");
    assert_eq!(feed.poll_report(), None);
    // The end of the connection ends an episode, too.
    push_all(&mut feed, "h i j");
    assert_eq!(feed.close().unwrap().dropped, 1);
    assert_eq!((feed.close(), feed.len(), feed.bytes()), (None, 0, 0));
}

// PUB-14
#[test]
fn bytes_are_bounded_and_one_publication_is_always_accepted() {
    let mut feed = feed(100, 2 * ONE, FeedOverflow::DropMessage);
    push_all(&mut feed, "a b c");
    assert_eq!((feed.bytes(), feed.len()), (2 * ONE, 2));
    // A longer one needs as much as both.
    push(&mut feed, "dddd");
    assert_eq!(topics(&mut feed, usize::MAX), "dddd");
    let lost = feed.poll_report().unwrap();
    assert_eq!((lost.dropped, lost.limit.as_str()), (3, "max_bytes"));
    let long = "x".repeat(200);
    push_all(&mut feed, &format!("a {long}"));
    assert_eq!(topics(&mut feed, usize::MAX), long);
    assert_eq!(feed.bytes(), 0);
    // A limit of nothing counts as one.
    let mut feed = self::feed(0, 0, FeedOverflow::DropMessage);
    push_all(&mut feed, "a b");
    assert_eq!(topics(&mut feed, usize::MAX), "b");
}

// PUB-14
#[test]
fn of_each_topic_the_latest_publication_waits() {
    let mut feed = feed(3, usize::MAX, FeedOverflow::KeepLatest);
    let publish = |feed: &mut Feed, topic: &str, n: u32| {
        feed.push(&Arc::new(Publication::new(topic, &n).unwrap()));
    };
    let drain = |feed: &mut Feed| {
        let mut texts = Vec::new();
        feed.drain(usize::MAX, |publication| {
            let data = publication.params().get("data").unwrap();
            texts.push(format!("{}{}", publication.topic(), data.as_str()));
            true
        });
        texts.join(" ")
    };
    publish(&mut feed, "b", 0);
    for n in 0..1000 {
        publish(&mut feed, "a", n);
    }
    publish(&mut feed, "c", 0);
    assert_eq!((feed.len(), feed.replaced()), (3, 999));
    publish(&mut feed, "b", 1);
    // They leave in the order in which they were published, and nothing counts as lost.
    assert_eq!(drain(&mut feed), "a999 c0 b1");
    assert_eq!((feed.poll_report(), feed.bytes()), (None, 0));
    // Only if there are more topics than publications may wait is the oldest dropped.
    for (n, topic) in (0..).zip(["a", "b", "c", "d", "b"]) {
        publish(&mut feed, topic, n);
    }
    assert_eq!(drain(&mut feed), "c2 d3 b4");
    assert_eq!(feed.poll_report().unwrap().dropped, 1);
    assert_eq!(feed.replaced(), 1001);
}

// PUB-14
#[test]
fn a_feed_is_drained_in_pieces_and_nothing_that_was_refused_is_lost() {
    let mut feed = feed(100, usize::MAX, FeedOverflow::DropConnection);
    push_all(&mut feed, "a b c d");
    assert_eq!(topics(&mut feed, 2 * ONE), "a b");
    assert_eq!(topics(&mut feed, 0), "c");
    let mut asked = 0;
    feed.drain(usize::MAX, |_| {
        asked += 1;
        false
    });
    assert_eq!((asked, feed.len()), (1, 1));
    assert_eq!(topics(&mut feed, usize::MAX), "d");
    assert!(push(&mut feed, "e"));
}

fn hold(feed: &mut Feed, patterns: &str) -> Hold {
    let parse = |text: &str| Pattern::parse(text).unwrap();
    feed.hold(patterns.split(' ').map(parse).collect())
}

// PUB-03
#[test]
fn a_feed_wakes_its_connection_for_what_is_not_held() {
    let mut feed = feed(100, usize::MAX, FeedOverflow::DropConnection);
    let [first, second] = ["a b", "b.*"].map(|patterns| hold(&mut feed, patterns));
    assert!(!push(&mut feed, "a") && !push(&mut feed, "b.c"));
    assert!(push(&mut feed, "x") && !push(&mut feed, "y"));
    assert_eq!(topics(&mut feed, usize::MAX), "x y");
    assert!(push(&mut feed, "z"));
    assert_eq!(topics(&mut feed, usize::MAX), "z");
    assert!(feed.release(second));
    assert_eq!(
        (topics(&mut feed, usize::MAX), feed.len()),
        ("b.c".into(), 1)
    );
    assert!(feed.release(first));
    assert_eq!(topics(&mut feed, usize::MAX), "a");
    // Without anything waiting there is nothing to wake for, nor is a second release harmful.
    let third = hold(&mut feed, "c");
    assert!(!feed.release(third) && !feed.release(third) && !feed.release(first));
    assert!(push(&mut feed, "c"));
}

// PUB-03
#[test]
fn the_state_of_a_topic_comes_once_and_before_all_that_waits() {
    let mut feed = feed(1, usize::MAX, FeedOverflow::DropConnection);
    let first = |feed: &mut Feed, topic: &str| {
        feed.push_first(&Arc::new(Publication::new(topic, topic).unwrap()));
    };
    push(&mut feed, "a");
    for topic in ["b", "a"] {
        first(&mut feed, topic);
    }
    assert_eq!((feed.len(), feed.bytes()), (3, 3 * ONE));
    assert!(!feed.is_empty() && !feed.has_overflowed());
    // What was published stays, and so do the states of other topics.
    feed.remove_first("a");
    feed.remove_first("c");
    assert_eq!((feed.len(), feed.bytes()), (2, 2 * ONE));
    assert_eq!(topics(&mut feed, usize::MAX), "b a");
    assert_eq!(feed.bytes(), 0);
    feed.close();
    first(&mut feed, "a");
    assert_eq!((feed.len(), feed.bytes()), (0, 0));
}

// PUB-14
#[test]
fn what_is_held_counts_against_the_limits() {
    let mut feed = self::feed(2, usize::MAX, FeedOverflow::DropMessage);
    let held = hold(&mut feed, "a");
    push_all(&mut feed, "a a a x y");
    assert_eq!(topics(&mut feed, usize::MAX), "x y");
    push_all(&mut feed, "a a a");
    assert_eq!(feed.len(), 2);
    assert!(feed.release(held));
    assert_eq!(topics(&mut feed, usize::MAX), "a a");
    assert_eq!(feed.poll_report().unwrap().dropped, 4);
}

// PUB-14
#[test]
fn ten_thousand_feeds_have_one_publication_between_them() {
    let publication = Arc::new(Publication::new("a", &"x".repeat(64 << 10)).unwrap());
    let mut feeds: Vec<Feed> = (0..10_000).map(|_| Feed::new(FeedLimits::new())).collect();
    for feed in &mut feeds {
        feed.push(&publication);
    }
    assert_eq!(Arc::strong_count(&publication), 10_001);
    for feed in &mut feeds {
        feed.retain(|_| 0);
        assert_eq!((feed.len(), feed.bytes(), feed.poll_report()), (0, 0, None));
    }
    assert_eq!(Arc::strong_count(&publication), 1);
}
