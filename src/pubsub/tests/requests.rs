//! The methods, their limits, and what each connection gets.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Hash, Hub, topics};
use crate::error_profile::ErrorProfile;
use crate::pubsub::{
    FeedLimits, Pattern, Publication, SubscribeError, TopicMethod, TopicSettings, TopicStreams,
};

fn patterns(texts: &[&str]) -> Vec<Pattern> {
    let parsed = texts.iter().map(|text| Pattern::parse(text).unwrap());
    parsed.collect()
}

fn settings(change: impl FnOnce(&mut TopicSettings)) -> Hub {
    let mut settings = TopicSettings::new();
    change(&mut settings);
    Hub::with(settings, FeedLimits::new())
}

// PUB-02
#[test]
fn the_methods_have_their_names_params_and_results() {
    let mut hub = Hub::new();
    for (call, answer) in [
        (r#"rpc.subscribe {"topic":"a.b"}"#, r#"{"subscribed":true}"#),
        (r#"rpc.subscribe ["a.c"]"#, r#"{"subscribed":true}"#),
        (
            r#"rpc.unsubscribe {"topic":"a.b"}"#,
            r#"{"unsubscribed":true}"#,
        ),
        (r#"rpc.unsubscribe ["a.c"]"#, r#"{"unsubscribed":true}"#),
        (
            r#"rpc.subscribe.batch {"topics":["b","a.*"]}"#,
            r#"{"subscribed":["b","a.*"]}"#,
        ),
        (
            r#"rpc.unsubscribe.batch [["a.*","b"]]"#,
            r#"{"unsubscribed":["a.*","b"]}"#,
        ),
        ("rpc.subscribe.batch [[]]", r#"{"subscribed":[]}"#),
        (r#"rpc.subscribe ["\u0061\".b"]"#, r#"{"subscribed":true}"#),
        (
            r#"rpc.unsubscribe.batch [["a\".\u0062"]]"#,
            r#"{"unsubscribed":["a\".b"]}"#,
        ),
    ] {
        assert_eq!(hub.call(1, call), answer, "{call}");
    }
    assert_eq!(hub.topics.subscriptions(), 0);
    let two = patterns(&["a", "b.>"]);
    let written = TopicMethod::ALL.map(|method| method.params(&two).into_string());
    let (one, all) = (r#"{"topic":"a"}"#, r#"{"topics":["a","b.>"]}"#);
    assert_eq!(written, [one, one, all, all]);
}

// PUB-02 PUB-04
#[test]
fn params_that_do_not_fit_are_refused_with_the_reason() {
    let mut hub = Hub::new();
    for (call, reason) in [
        ("rpc.subscribe", "`topic` is the only param"),
        ("rpc.subscribe {}", "`topic` is the only param"),
        (r#"rpc.subscribe ["a","b"]"#, "`topic` is the only param"),
        (
            r#"rpc.subscribe {"topics":["a"]}"#,
            "`topic` is the only param",
        ),
        ("rpc.subscribe [1]", "a topic is a string of valid Unicode"),
        (
            r#"rpc.subscribe ["\ud800"]"#,
            "a topic is a string of valid Unicode",
        ),
        (r#"rpc.subscribe ["a..b"]"#, "a token of the topic is empty"),
        (r#"rpc.unsubscribe [">.a"]"#, "`>` is the last token"),
        (
            r#"rpc.subscribe ["a\u0000"]"#,
            "a topic has no white space and no control characters",
        ),
        (r#"rpc.subscribe.batch ["a"]"#, "`topics` is an array"),
        (r#"rpc.subscribe.batch [{"a":1}]"#, "`topics` is an array"),
        (
            r#"rpc.subscribe.batch [["a","b",1]]"#,
            "topics[2]: a topic is a string of valid Unicode",
        ),
    ] {
        assert_eq!(hub.call(1, call), format!("-32602 \"{reason}\""), "{call}");
    }
    assert_eq!(hub.topics.subscriptions(), 0);
}

// PUB-03 PUB-10 SEC-14
#[test]
fn every_connection_with_a_matching_subscription_gets_a_publication_once() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe.batch [["a.b","a.*",">"]]"#);
    hub.call(2, r#"rpc.subscribe ["a.*"]"#);
    assert_eq!(hub.publish("a.b"), 2);
    assert_eq!(hub.publish("a.b.c"), 1);
    assert_eq!(hub.publish("b"), 1);
    assert_eq!(hub.drain(1), "a.b a.b.c b");
    assert_eq!(hub.drain(2), "a.b");
    // One connection cannot end what another has subscribed to.
    hub.call(2, r#"rpc.unsubscribe.batch [["a.b",">","a.*"]]"#);
    assert_eq!(hub.publish("a.b"), 1);
    assert_eq!(hub.drain(1), "a.b");
}

// PUB-10
#[test]
fn a_setting_brings_a_publication_once_per_subscription() {
    let mut hub = settings(|settings| settings.once_per_subscription = true);
    hub.call(1, r#"rpc.subscribe.batch [["a.b","a.*",">"]]"#);
    hub.call(2, r#"rpc.subscribe ["a.*"]"#);
    assert_eq!(hub.publish("a.b"), 4);
    assert_eq!(hub.drain(2), "a.b");
    hub.publish("c");
    // Of three copies two are left, and then none.
    hub.call(1, r#"rpc.unsubscribe ["a.*"]"#);
    assert_eq!(hub.feeds[&1].len(), 3);
    assert_eq!(hub.drain(1), "a.b a.b c");
}

// PUB-05
#[test]
fn wildcards_can_be_switched_off() {
    let mut hub = settings(|settings| settings.wildcards = false);
    for pattern in ["*", "a.>"] {
        let refused = "-32602 \"wildcards are switched off\"";
        assert_eq!(
            hub.call(1, &format!("rpc.subscribe [\"{pattern}\"]")),
            refused
        );
    }
    let answer = hub.call(1, r#"rpc.subscribe.batch [["a","*"]]"#);
    assert_eq!(answer, "-32602 \"topics[1]: wildcards are switched off\"");
    assert_eq!(hub.topics.subscriptions(), 0);
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["a"]"#),
        r#"{"subscribed":true}"#
    );
}

// PUB-07 CON-06 ARC-18
#[test]
fn subscriptions_end_with_their_connection() {
    let mut hub = Hub::new();
    let waiting = hub.parse(r#"rpc.subscribe ["c"]"#).unwrap();
    hub.call(1, r#"rpc.subscribe.batch [["a","b.>"]]"#);
    hub.call(2, r#"rpc.subscribe ["a"]"#);
    assert_eq!(
        (hub.topics.connections(), hub.topics.subscriptions_of(1)),
        (2, 2)
    );
    assert_eq!(hub.topics.remove_connection(1), 2);
    assert_eq!(hub.topics.remove_connection(1), 0);
    assert_eq!(
        (hub.topics.connections(), hub.topics.subscriptions_of(1)),
        (1, 0)
    );
    assert_eq!((hub.publish("a"), hub.publish("b.c")), (1, 0));
    // A request that was allowed only after the end leaves nothing behind.
    assert_eq!(hub.accept(1, waiting).unwrap_err().code(), -32603);
    assert_eq!((hub.publish("c"), hub.topics.subscriptions()), (0, 1));
    let ended = SubscribeError::NotConnected;
    assert_eq!(hub.topics.subscribe(1, &patterns(&["a"]), 0), Err(ended));
    // The number may be used again.
    hub.topics.add_connection(1);
    hub.call(1, r#"rpc.subscribe ["c"]"#);
    assert_eq!((hub.publish("c"), hub.publish("b.c")), (1, 0));
}

// PUB-09
#[test]
fn subscribing_twice_changes_nothing_and_unsubscribing_says_whether_it_was_there() {
    let mut hub = Hub::new();
    for _ in 0..2 {
        assert_eq!(
            hub.call(1, r#"rpc.subscribe ["a"]"#),
            r#"{"subscribed":true}"#
        );
    }
    let batch = hub.call(1, r#"rpc.subscribe.batch [["a","b","a"]]"#);
    assert_eq!(batch, r#"{"subscribed":["a","b","a"]}"#);
    assert_eq!((hub.topics.subscriptions_of(1), hub.publish("a")), (2, 1));
    for answer in [r#"{"unsubscribed":true}"#, r#"{"unsubscribed":false}"#] {
        assert_eq!(hub.call(1, r#"rpc.unsubscribe ["a"]"#), answer);
    }
    // The pattern is what was subscribed to, not what it matches.
    assert_eq!(
        hub.call(1, r#"rpc.unsubscribe ["*"]"#),
        r#"{"unsubscribed":false}"#
    );
    let batch = hub.call(1, r#"rpc.unsubscribe.batch [["a","b","b"]]"#);
    assert_eq!(batch, r#"{"unsubscribed":["b"]}"#);
    assert_eq!(hub.topics.subscriptions(), 0);
}

// PUB-11
#[test]
fn a_batch_with_one_bad_topic_changes_nothing() {
    let mut hub = Hub::new();
    let answer = hub.call(1, r#"rpc.subscribe.batch [["a","b","c..d"]]"#);
    assert_eq!(
        answer,
        "-32602 \"topics[2]: a token of the topic is empty\""
    );
    assert_eq!(hub.topics.subscriptions(), 0);
    hub.call(1, r#"rpc.subscribe.batch [["a","b"]]"#);
    let answer = hub.call(1, r#"rpc.unsubscribe.batch [["a","b",">.c"]]"#);
    assert_eq!(answer, "-32602 \"topics[2]: `>` is the last token\"");
    assert_eq!(hub.topics.subscriptions(), 2);
}

fn numbered(from: usize, to: usize) -> String {
    let topics: Vec<String> = (from..to).map(|n| format!("\"n.{n}\"")).collect();
    format!("rpc.subscribe.batch [[{}]]", topics.join(","))
}

// PUB-12
#[test]
fn the_257th_subscription_of_a_connection_is_refused() {
    let mut hub = Hub::new();
    assert_eq!(hub.call(1, &numbered(0, 257)), "-32002");
    assert_eq!(hub.topics.subscriptions(), 0);
    assert!(
        hub.call(1, &numbered(0, 255))
            .starts_with("{\"subscribed\":")
    );
    assert_eq!(hub.call(1, r#"rpc.subscribe.batch [["a","b"]]"#), "-32002");
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["a"]"#),
        r#"{"subscribed":true}"#
    );
    assert_eq!(hub.call(1, r#"rpc.subscribe ["b"]"#), "-32002");
    // What is there already needs no more, another connection has a limit of its own, and an ended
    // subscription no longer counts.
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["a"]"#),
        r#"{"subscribed":true}"#
    );
    assert_eq!(
        hub.call(2, r#"rpc.subscribe ["b"]"#),
        r#"{"subscribed":true}"#
    );
    hub.call(1, r#"rpc.unsubscribe ["n.7"]"#);
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["b"]"#),
        r#"{"subscribed":true}"#
    );
    assert_eq!(hub.topics.subscriptions_of(1), 256);
    // Many topics in one request take no memory beyond the limit, whatever they are.
    let same = format!("rpc.subscribe.batch [[{}\"a\"]]", "\"a\",".repeat(100_000));
    assert_eq!(hub.parse(&same).unwrap().topics().len(), 257);
    assert_eq!(hub.call(1, &same), "-32002");
    // As many as there may be can come in one request.
    let mut full = settings(|settings| settings.max_per_connection = 2);
    let two = r#"rpc.subscribe.batch [["a","b"]]"#;
    assert_eq!(full.call(1, two), r#"{"subscribed":["a","b"]}"#);
    // Subscriptions of other kinds count, too.
    let limit = SubscribeError::ConnectionLimit;
    let (one, two) = (patterns(&["x"]), patterns(&["x", "y"]));
    assert_eq!(hub.topics.subscribe(2, &two, 254), Err(limit));
    assert_eq!(hub.topics.subscribe(2, &one, 255), Err(limit));
    assert_eq!(hub.topics.subscribe(2, &one, 254), Ok(one.to_vec()));
}

// PUB-12
#[test]
fn a_hub_has_no_more_subscriptions_than_can_be_numbered() {
    let hub = settings(|settings| settings.max_subscriptions = usize::MAX);
    let max = hub.topics.settings().max_subscriptions;
    assert_eq!(max, (1 << 28) - 1);
}

// PUB-13 SEC-14
#[test]
fn a_topic_of_wildcards_costs_a_client_no_more_than_another() {
    let mut streams = TopicStreams::new(Hash::default());
    let stars = ["*"; Pattern::MAX_TOKENS].join(".");
    streams.open(1, Pattern::parse(&stars).unwrap());
    // If each level were visited twice, this would take minutes.
    for _ in 0..2000 {
        assert_eq!(streams.receivers(&stars), [1]);
    }
}

// PUB-12
#[test]
fn a_hub_has_a_limit_of_its_own() {
    let mut hub = settings(|settings| settings.max_subscriptions = 3);
    hub.call(1, r#"rpc.subscribe.batch [["a","b"]]"#);
    assert_eq!(hub.call(2, r#"rpc.subscribe.batch [["a","b"]]"#), "-32002");
    assert_eq!(
        hub.call(2, r#"rpc.subscribe ["a"]"#),
        r#"{"subscribed":true}"#
    );
    assert_eq!(hub.call(1, r#"rpc.subscribe ["c"]"#), "-32002");
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["a"]"#),
        r#"{"subscribed":true}"#
    );
    hub.topics.remove_connection(2);
    assert_eq!(
        hub.call(1, r#"rpc.subscribe ["c"]"#),
        r#"{"subscribed":true}"#
    );
    let codes = [
        ErrorProfile::Antiphon,
        ErrorProfile::WebSocketDraft,
        ErrorProfile::Lsp,
        ErrorProfile::Mcp,
    ]
    .map(|profile| SubscribeError::HubLimit.error(profile).code());
    assert_eq!(codes, [-32002, -32007, -32803, -32603]);
    for error in [SubscribeError::ConnectionLimit, SubscribeError::HubLimit] {
        let told = error.error(ErrorProfile::Antiphon);
        assert_eq!(told.message(), "Too many subscriptions");
        assert!(error.to_string().contains("too many subscriptions"));
    }
}

// PUB-15
#[test]
fn a_request_changes_nothing_until_it_is_accepted() {
    let mut hub = Hub::new();
    let request = hub.parse(r#"rpc.subscribe.batch [["a","b.*"]]"#).unwrap();
    assert!(request.is_subscribe());
    let asked: Vec<&str> = request.topics().iter().map(Pattern::as_str).collect();
    assert_eq!(asked, ["a", "b.*"]);
    assert_eq!((hub.publish("a"), hub.topics.subscriptions()), (0, 0));
    // Refused: it is dropped.
    drop(request);
    assert_eq!(hub.publish("a"), 0);
    // Deferred: accepted later, after other things have happened.
    let request = hub.parse(r#"rpc.subscribe ["a"]"#).unwrap();
    hub.call(2, r#"rpc.subscribe ["a"]"#);
    assert_eq!(hub.accept(1, request).unwrap(), r#"{"subscribed":true}"#);
    assert_eq!(hub.publish("a"), 2);
    assert!(
        !hub.parse(r#"rpc.unsubscribe ["a"]"#)
            .unwrap()
            .is_subscribe()
    );
}

// PUB-03
#[test]
fn nothing_of_a_topic_leaves_before_the_answer_to_its_subscribe() {
    let mut hub = Hub::new();
    let request = hub.parse(r#"rpc.subscribe ["a"]"#).unwrap();
    let feed = hub.feeds.get_mut(&1).unwrap();
    let (_, hold) = request.accept(&mut hub.topics, 1, 0, feed).unwrap();
    hub.publish("a");
    // The answer is not sent yet: it may be in a batch whose other member is running.
    assert_eq!(hub.drain(1), "");
    assert!(hub.feeds.get_mut(&1).unwrap().release(hold.unwrap()));
    assert_eq!(hub.drain(1), "a");
}

// PUB-03 PUB-14
#[test]
fn only_what_new_subscriptions_bring_waits_for_the_answer() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe.batch [["open","b.c"]]"#);
    let begin = |hub: &mut Hub, call: &str| {
        let request = hub.parse(call).unwrap();
        let feed = hub.feeds.get_mut(&1).unwrap();
        request.accept(&mut hub.topics, 1, 0, feed).unwrap().1
    };
    // It was subscribed to already, so its events need not wait.
    assert_eq!(begin(&mut hub, r#"rpc.subscribe ["open"]"#), None);
    let first = begin(&mut hub, r#"rpc.subscribe.batch [["open","b.*"]]"#).unwrap();
    let second = begin(&mut hub, r#"rpc.subscribe.batch [["a","b.>"]]"#).unwrap();
    for topic in ["a", "open", "b.x", "open", "b.c"] {
        hub.publish(topic);
    }
    assert_eq!(hub.drain(1), "open open");
    let feed = hub.feeds.get_mut(&1).unwrap();
    assert_eq!(feed.len(), 3);
    // `b.x` belongs to both.
    assert!(!feed.release(first));
    assert_eq!(topics(feed, usize::MAX), "");
    assert!(feed.release(second) && !feed.is_empty());
    assert_eq!(topics(feed, usize::MAX), "a b.x b.c");
    assert!(!feed.release(second) && feed.bytes() == 0);
}

// PUB-09
#[test]
fn an_unsubscribe_before_the_answer_to_the_subscribe_lets_other_subscriptions_go_on() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe [">"]"#);
    let request = hub.parse(r#"rpc.subscribe.batch [["a","b"]]"#).unwrap();
    let feed = hub.feeds.get_mut(&1).unwrap();
    let (_, hold) = request.accept(&mut hub.topics, 1, 0, feed).unwrap();
    hub.publish("a");
    hub.publish("b");
    hub.call(1, r#"rpc.unsubscribe ["a"]"#);
    assert_eq!(hub.drain(1), "a");
    // Subscribed again, and answered: the first answer, which comes later, changes nothing.
    hub.call(1, r#"rpc.subscribe ["a"]"#);
    hub.publish("a");
    assert_eq!(hub.drain(1), "a");
    let feed = hub.feeds.get_mut(&1).unwrap();
    hub.topics.refuse(1, hold.unwrap(), feed);
    assert_eq!((hub.topics.subscriptions_of(1), hub.publish("a")), (2, 1));
    assert_eq!(hub.drain(1), "b a");
}

// PUB-09
#[test]
fn what_an_ended_subscription_has_brought_waits_for_the_answer_to_another_one() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe ["a.x"]"#);
    hub.publish("a.x");
    let request = hub.parse(r#"rpc.subscribe ["a.*"]"#).unwrap();
    let feed = hub.feeds.get_mut(&1).unwrap();
    let (_, hold) = request.accept(&mut hub.topics, 1, 0, feed).unwrap();
    hub.call(1, r#"rpc.unsubscribe ["a.x"]"#);
    // The peer knows of no subscription that matches it.
    assert_eq!(hub.drain(1), "");
    assert!(hub.feeds.get_mut(&1).unwrap().release(hold.unwrap()));
    assert_eq!(hub.drain(1), "a.x");
}

// PUB-07
#[test]
fn a_subscribe_that_is_answered_by_an_error_after_all_is_undone() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe ["old"]"#);
    let request = hub.parse(r#"rpc.subscribe.batch [["old","a","b.*"]]"#);
    let feed = hub.feeds.get_mut(&1).unwrap();
    let (_, hold) = request
        .unwrap()
        .accept(&mut hub.topics, 1, 0, feed)
        .unwrap();
    feed.push_first(&Arc::new(Publication::new("a", "a").unwrap()));
    for topic in ["a", "old", "b.c"] {
        hub.publish(topic);
    }
    let feed = hub.feeds.get_mut(&1).unwrap();
    hub.topics.refuse(1, hold.unwrap(), feed);
    assert_eq!((hub.topics.subscriptions(), hub.publish("a")), (1, 0));
    assert_eq!(hub.drain(1), "old");
    assert_eq!(hub.feeds[&1].bytes(), 0);
}

// PUB-09
#[test]
fn nothing_of_a_topic_leaves_after_the_answer_to_its_unsubscribe() {
    let mut hub = Hub::new();
    hub.call(1, r#"rpc.subscribe.batch [["a.*","a.b","c"]]"#);
    for topic in ["a.x", "c", "a.b", "a.y"] {
        hub.publish(topic);
    }
    // `a.b` is still matched by another subscription.
    hub.call(1, r#"rpc.unsubscribe ["a.*"]"#);
    assert_eq!(
        hub.feeds[&1].bytes(),
        r#"{"topic":"c","data":"c"}{"topic":"a.b","data":"a.b"}"#.len()
    );
    assert_eq!(hub.drain(1), "c a.b");
    for topic in ["a.b", "c"] {
        hub.publish(topic);
    }
    hub.call(1, r#"rpc.unsubscribe.batch [["a.b","c"]]"#);
    assert_eq!((hub.drain(1), hub.feeds[&1].bytes()), (String::new(), 0));
}

// PUB-13
#[test]
fn the_streams_of_a_client_share_one_subscription_for_each_pattern() {
    let mut streams = TopicStreams::new(Hash::default());
    let [one, all] = ["a.*", ">"].map(|text| Pattern::parse(text).unwrap());
    assert!(streams.is_empty());
    assert!(streams.open(7, one.clone()));
    assert!(!streams.open(8, one.clone()));
    assert!(streams.open(9, all.clone()));
    // A number that is open stays what it is.
    assert!(!streams.open(9, one.clone()));
    assert_eq!((streams.len(), streams.is_empty()), (3, false));
    assert_eq!(streams.receivers("a.b"), [7, 8, 9]);
    assert_eq!(streams.receivers("b"), [9]);
    // What a server sends is not trusted to be a topic.
    for topic in ["a.*", "a.>", "*.*", ">.>"] {
        let found = streams.receivers(topic);
        assert!(found.is_sorted_by(|a, b| a < b), "{topic}: {found:?}");
    }
    assert_eq!(streams.receivers(&"a.".repeat(100_000)), [9]);
    assert_eq!(streams.receivers(""), [9]);
    assert_eq!(streams.streams_of(&one).collect::<Vec<_>>(), [7, 8]);
    // After a reconnect, and before a clean close.
    assert_eq!(streams.patterns(), [all.clone(), one.clone()]);
    assert_eq!(streams.close(7), None);
    assert_eq!(streams.close(7), None);
    assert_eq!(streams.close(9), Some(all));
    assert_eq!(streams.receivers("b"), [0; 0]);
    assert_eq!(streams.close(8), Some(one));
    assert_eq!((streams.len(), streams.patterns()), (0, Vec::new()));
}
