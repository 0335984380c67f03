//! The methods: names, params, results, errors and limits.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Hub, NOT_ATTACHED, topic};
use crate::durable::{
    Delivery, DurableEntry, DurableError, DurableMethod, DurableRequest, StoreError,
};
use crate::error_profile::ErrorProfile;
use crate::json::Json;

// PER-02 PER-06 PER-16
#[test]
fn the_methods_have_their_names_params_and_results() {
    let mut hub = Hub::new();
    for (call, answer) in [
        (
            r#"subscribe.persistent {"subscription_id":"a","topic":"t"}"#,
            r#"{"subscription_id":"a","topic":"t","resumed_from_sequence":0}"#,
        ),
        (
            r#"subscribe.persistent ["\u0062","t.x"]"#,
            r#"{"subscription_id":"b","topic":"t.x","resumed_from_sequence":0}"#,
        ),
        (
            r#"subscribe.persistent.batch {"subscriptions":[{"subscription_id":"d","topic":"t"},{"topic":"u","subscription_id":"c"}]}"#,
            r#"{"subscriptions":[{"subscription_id":"d","resumed_from_sequence":0},{"subscription_id":"c","resumed_from_sequence":0}]}"#,
        ),
        (
            r#"subscribe.persistent.batch [[]]"#,
            r#"{"subscriptions":[]}"#,
        ),
        (
            r#"acknowledge.persistent.batch {"acknowledgments":[]}"#,
            r#"{"acknowledged":[]}"#,
        ),
        (
            r#"unsubscribe.persistent {"subscription_id":"b"}"#,
            r#"{"unsubscribed":true}"#,
        ),
        (
            r#"unsubscribe.persistent ["b"]"#,
            r#"{"unsubscribed":false}"#,
        ),
    ] {
        assert_eq!(hub.call(1, call), answer, "{call}");
    }
    hub.publish_all(3);
    hub.drain(1);
    for (call, answer) in [
        (
            r#"acknowledge.persistent {"subscription_id":"a","sequence_id":1}"#,
            r#"{"acknowledged":true}"#,
        ),
        (
            r#"acknowledge.persistent ["a",2.0e0]"#,
            r#"{"acknowledged":true}"#,
        ),
        (
            r#"acknowledge.persistent.batch [[{"subscription_id":"d","sequence_id":1.0},{"sequence_id":9,"subscription_id":"d"},{"subscription_id":"d","sequence_id":-1},{"subscription_id":"none","sequence_id":1},{"subscription_id":"d","sequence_id":3}]]"#,
            r#"{"acknowledged":[{"subscription_id":"d","sequence_id":1.0,"success":true},{"subscription_id":"d","sequence_id":9,"success":false},{"subscription_id":"d","sequence_id":-1,"success":false},{"subscription_id":"none","sequence_id":1,"success":false},{"subscription_id":"d","sequence_id":3,"success":true}]}"#,
        ),
    ] {
        assert_eq!(hub.call(1, call), answer, "{call}");
    }
    assert_eq!(Delivery::METHOD, "rpc.notification.persistent");
}

// PER-02 PER-19
#[test]
fn params_that_do_not_fit_are_refused_with_the_reason() {
    let mut hub = Hub::new();
    let long = "x".repeat(257);
    let name = "`subscription_id` is a string of 1 to 256 bytes";
    let both = "the params are `subscription_id` and `topic`";
    let ack = "the params are `subscription_id` and `sequence_id`";
    for (call, reason) in [
        ("subscribe.persistent", both),
        (r#"subscribe.persistent ["a"]"#, both),
        (r#"subscribe.persistent ["a","t",1]"#, both),
        (r#"subscribe.persistent {"subscription_id":"a"}"#, both),
        (r#"subscribe.persistent ["","t"]"#, name),
        (r#"subscribe.persistent [1,"t"]"#, name),
        (r#"subscribe.persistent ["\ud800","t"]"#, name),
        (&format!(r#"subscribe.persistent ["{long}","t"]"#), name),
        (
            r#"subscribe.persistent ["a","t.*"]"#,
            "wildcards are switched off",
        ),
        (
            r#"subscribe.persistent ["a",">"]"#,
            "wildcards are switched off",
        ),
        (
            r#"subscribe.persistent ["a",1]"#,
            "a topic is a string of valid Unicode",
        ),
        (
            r#"subscribe.persistent ["a","t..x"]"#,
            "a token of the topic is empty",
        ),
        (r#"acknowledge.persistent ["a"]"#, ack),
        (
            r#"acknowledge.persistent ["a","1"]"#,
            "`sequence_id` is an integer",
        ),
        (
            r#"acknowledge.persistent ["a",1.5]"#,
            "`sequence_id` is an integer",
        ),
        (
            "unsubscribe.persistent {}",
            "the params are `subscription_id`",
        ),
        (
            "subscribe.persistent.batch",
            "the only param is the array `subscriptions`",
        ),
        (
            r#"subscribe.persistent.batch [{"subscription_id":"a","topic":"t"}]"#,
            "the only param is the array `subscriptions`",
        ),
        (
            r#"subscribe.persistent.batch [[{"subscription_id":"a","topic":"t"},["b","t"]]]"#,
            "subscriptions[1]: the params are `subscription_id` and `topic`",
        ),
        (
            r#"subscribe.persistent.batch [[{"subscription_id":"a","topic":"t"},{"subscription_id":"b","topic":"*"}]]"#,
            "subscriptions[1]: wildcards are switched off",
        ),
        (
            r#"subscribe.persistent.batch [[{"subscription_id":"a","topic":"t"},{"subscription_id":"a","topic":"t"}]]"#,
            "a subscription is there twice",
        ),
        (
            r#"acknowledge.persistent.batch [[{"subscription_id":"a"}]]"#,
            "acknowledgments[0]: the params are `subscription_id` and `sequence_id`",
        ),
    ] {
        assert_eq!(hub.call(1, call), format!("-32602 {reason}"), "{call}");
    }
    assert_eq!(hub.topics.commands_open(), 0);
}

#[test]
fn a_name_and_a_batch_may_be_as_long_as_the_bounds_say() {
    let mut hub = Hub::with(|settings| settings.max_per_connection = 2000);
    assert_eq!(hub.subscribe(1, &"x".repeat(256)), "0");
    let batch = |count: usize| {
        let entry = |n| format!(r#"{{"subscription_id":"{n}","sequence_id":1}}"#);
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!("acknowledge.persistent.batch [[{}]]", entries.join(","))
    };
    let answer = hub.call(1, &batch(1024));
    assert_eq!(answer.matches(r#""success":false"#).count(), 1024);
    let answer = hub.call(1, &batch(1025));
    assert_eq!(answer, "-32602 a batch has at most 1024 entries");
}

// PER-02
#[test]
fn a_client_writes_params_that_a_server_reads() {
    let entries = [
        DurableEntry::subscribe("a\"b", &topic()),
        DurableEntry::subscribe("c", &topic()),
    ];
    let acks = [
        DurableEntry::acknowledge("a", 1),
        DurableEntry::acknowledge("b", u64::MAX),
    ];
    let leaves = [DurableEntry::unsubscribe("a")];
    for (method, entries) in [
        (DurableMethod::SubscribeBatch, &entries[..]),
        (DurableMethod::Subscribe, &entries[..1]),
        (DurableMethod::AcknowledgeBatch, &acks),
        (DurableMethod::Acknowledge, &acks[1..]),
        (DurableMethod::Unsubscribe, &leaves),
    ] {
        let params = method.write(entries);
        let request = DurableRequest::parse(method, Some(params.as_json())).unwrap();
        assert_eq!((request.method(), request.entries()), (method, entries));
    }
    assert_eq!(entries[0].subscription(), "a\"b");
    assert_eq!((entries[0].topic(), acks[0].topic()), (Some("t"), None));
    assert_eq!(
        DurableMethod::Subscribe.write(&[]),
        Json::NULL.to_owned_json()
    );
}

// PER-12
#[test]
fn a_name_with_another_topic_is_refused() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    let other = r#"subscribe.persistent ["a","u"]"#;
    let reason = "-32602 the subscription has another topic";
    // It is refused before the store is asked.
    hub.ask(2, other).unwrap();
    assert!(hub.topics.poll_command().is_none());
    assert_eq!(hub.answers()[0].1, reason);
    // It is the store that knows of it when nobody is attached.
    hub.topics.remove_connection(1);
    assert_eq!(hub.call(2, other), reason);
    assert_eq!(hub.subscribe(2, "a"), "0");
}

// PER-16
#[test]
fn a_batch_that_cannot_be_done_as_a_whole_attaches_nothing() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.topics.remove_connection(1);
    let batch = r#"subscribe.persistent.batch [[{"subscription_id":"b","topic":"t"},{"subscription_id":"a","topic":"u"},{"subscription_id":"c","topic":"t"}]]"#;
    let answer = hub.call(2, batch);
    assert_eq!(answer, "-32602 the subscription has another topic");
    assert_eq!(hub.topics.subscriptions(), 0);
    hub.publish_all(1);
    assert_eq!(hub.drain(2), "");
    assert_eq!(hub.events(), [""; 0]);
}

// PER-15 PER-16
#[test]
fn subscriptions_are_resumed_in_the_order_of_the_request() {
    let mut hub = Hub::new();
    hub.subscribe(1, "b");
    hub.publish_all(2);
    hub.drain(1);
    hub.ack(1, "b", 1);
    let batch = r#"subscribe.persistent.batch [[{"subscription_id":"b","topic":"t"},{"subscription_id":"a","topic":"t"}]]"#;
    let asked = hub.ask(2, batch).unwrap();
    let (first, second) = (hub.hold(), hub.hold());
    hub.topics.handle_completion(second.0, second.1);
    assert_eq!(hub.answers(), []);
    hub.topics.handle_completion(first.0, first.1);
    let answer = r#"{"subscriptions":[{"subscription_id":"b","resumed_from_sequence":1},{"subscription_id":"a","resumed_from_sequence":2}]}"#;
    assert_eq!(hub.answers(), [(asked, answer.into())]);
}

#[test]
fn limits_on_subscriptions_are_kept() {
    let mut hub = Hub::with(|settings| {
        (settings.max_per_connection, settings.max_subscriptions) = (2, 3);
    });
    let two = |a, b| {
        format!(
            r#"subscribe.persistent.batch [[{{"subscription_id":"{a}","topic":"t"}},{{"subscription_id":"{b}","topic":"t"}}]]"#
        )
    };
    hub.subscribe(1, "a");
    assert_eq!(hub.call(1, &two("b", "c")), "-32002");
    // One that it has already is not counted again.
    assert!(hub.call(1, &two("a", "b")).starts_with('{'));
    assert_eq!(hub.subscribe(1, "c"), "-32002");
    assert_eq!(hub.call(2, &two("c", "d")), "-32002");
    assert_eq!(hub.subscribe(2, "c"), "0");
    assert_eq!(hub.subscribe(3, "d"), "-32002");
    // What is being attached counts, and what failed does not.
    hub.topics.remove_connection(2);
    hub.ask(3, r#"subscribe.persistent ["e","t"]"#).unwrap();
    hub.ask(3, r#"subscribe.persistent ["f","t"]"#).unwrap();
    assert_eq!(hub.answers()[0].1, "-32002");
    hub.fail(StoreError::Busy);
    assert_eq!(hub.answers()[0].1, "-32002");
    assert_eq!(hub.subscribe(3, "f"), "0");
    hub.topics.remove_connection(1);
    hub.subscribe(3, "g");
    hub.topics.remove_connection(3);
    hub.topics.add_connection(4);
    for name in ["h", "i"] {
        let call = format!(r#"subscribe.persistent ["{name}","t"]"#);
        hub.ask(4, &call).unwrap();
    }
    hub.ask(4, r#"subscribe.persistent ["j","t"]"#).unwrap();
    assert_eq!(hub.answers()[0].1, "-32002");
}

#[test]
fn a_connection_that_has_ended_is_told_so() {
    let mut hub = Hub::new();
    hub.topics.remove_connection(1);
    assert_eq!(hub.subscribe(1, "a"), "-32603");
    assert!(hub.topics.poll_delivery(1).is_none());
}

// PER-18
#[test]
fn a_request_changes_nothing_until_the_owner_has_allowed_it() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    let parse = |method, params| DurableRequest::parse(method, Json::parse_str(params).ok());
    let requests = [
        (DurableMethod::Acknowledge, r#"["a",1]"#),
        (DurableMethod::Subscribe, r#"["a","t"]"#),
        (DurableMethod::Unsubscribe, r#"["a"]"#),
    ];
    let requests = requests.map(|(method, params)| parse(method, params).unwrap());
    // The hook sees the name; what it refuses is dropped.
    assert!(
        requests
            .iter()
            .all(|one| one.entries()[0].subscription() == "a")
    );
    assert_eq!(
        (hub.topics.commands_open(), hub.topics.lag("a")),
        (0, Some(1))
    );
    let [ack, subscribe, unsubscribe] = requests;
    drop((subscribe, unsubscribe));
    // What it allows later is done then.
    hub.topics.handle_request(1, ack, 99);
    hub.run();
    assert_eq!(hub.answers(), [(99, r#"{"acknowledged":true}"#.into())]);
    assert_eq!(
        (hub.topics.subscriptions(), hub.topics.lag("a")),
        (1, Some(0))
    );
}

// PER-15 PER-20
#[test]
fn an_acknowledgement_needs_the_attached_connection_and_a_delivered_message() {
    let mut hub = Hub::new();
    let never = "-32602 the message was never delivered";
    hub.publish_all(5);
    hub.subscribe(1, "a");
    hub.subscribe(2, "b");
    hub.publish_all(2);
    assert_eq!(hub.ack(1, "a", 6), never);
    assert_eq!(hub.drain(1), "6 7");
    for (connection, name, sequence, answer) in [
        // Of another connection, of nobody, before the beginning, in the future.
        (2, "a", 6, NOT_ATTACHED),
        (1, "b", 6, NOT_ATTACHED),
        (1, "c", 6, NOT_ATTACHED),
        (1, "a", 0, never),
        (1, "a", 5, never),
        (1, "a", 8, never),
        (1, "a", u64::MAX, never),
        (1, "a", 7, "yes"),
        (1, "a", 7, "yes"),
        (1, "a", 6, "yes"),
        (1, "a", 6, "yes"),
    ] {
        assert_eq!(
            hub.ack(connection, name, sequence),
            answer,
            "{name} {sequence}"
        );
    }
    // One that was deleted is as unknown as one that never was.
    hub.call(1, r#"unsubscribe.persistent ["a"]"#);
    assert_eq!(hub.ack(1, "a", 6), NOT_ATTACHED);
}

#[test]
fn errors_have_the_codes_of_the_dialect() {
    for (error, code) in [
        (DurableError::TooMany, -32803),
        (DurableError::Store(StoreError::Busy), -32803),
        (DurableError::Store(StoreError::Full), -32803),
        (DurableError::Store(StoreError::Failed), -32603),
        (DurableError::NotConnected, -32603),
        (DurableError::InUse, -32602),
    ] {
        assert_eq!(error.error(ErrorProfile::Lsp).code(), code, "{error}");
    }
    for (error, turned) in [
        (StoreError::Fenced, DurableError::NotAttached),
        (StoreError::Unknown, DurableError::NotAttached),
        (StoreError::OtherTopic, DurableError::OtherTopic),
        (StoreError::Held, DurableError::InUse),
        (StoreError::Full, DurableError::Store(StoreError::Full)),
    ] {
        assert_eq!(DurableError::from(error), turned, "{error}");
    }
}
