//! What a consumer gets, when, and how often.

use alloc::string::ToString;

use super::{Hub, START, seconds, topic};
use crate::durable::{
    AckMode, Command, Completion, Delivery, DurableMessage, MessageData, Start, StoreError, Wall,
};

// PER-02 PER-05 PER-10
#[test]
fn a_message_has_its_number_and_the_time_of_the_wall() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.wait(1234);
    let data = MessageData::write(&["x", "y"]).unwrap();
    hub.topics.publish(&topic(), data, None).unwrap();
    hub.run();
    let delivery = hub.topics.poll_delivery(1).unwrap();
    let params = delivery.params();
    assert_eq!(
        params.as_str(),
        r#"{"subscription_id":"a","topic":"t","sequence_id":1,"timestamp":"2023-11-14T22:13:21.234Z","data":["x","y"]}"#
    );
    let read = DurableMessage::read(params.as_json()).unwrap();
    assert_eq!((&*read.subscription, &*read.topic), ("a", "t"));
    assert_eq!(read.timestamp, Wall::from_millis(START + 1234).to_string());
    assert_eq!((read.sequence, read.data.as_str()), (1, r#"["x","y"]"#));
}

// PER-04
#[test]
fn nothing_is_delivered_before_it_is_stored() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    assert_eq!(hub.drain(1), "");
    let command = hub.publish();
    let (id, stored) = hub.hold();
    assert_eq!(id, command);
    assert_eq!(hub.topics.poll_ready(), None);
    assert_eq!(hub.drain(1), "");
    hub.topics.handle_completion(id, stored);
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert_eq!(hub.drain(1), "1");
    let published = hub.topics.poll_published().unwrap();
    assert_eq!((published.command, published.result), (command, Ok(1)));
    // One that was refused is delivered to nobody.
    hub.publish();
    hub.fail(StoreError::Full);
    assert_eq!(
        hub.topics.poll_published().unwrap().result,
        Err(StoreError::Full)
    );
    assert_eq!(hub.topics.poll_ready(), None);
    assert_eq!(hub.drain(1), "");
}

// PER-04
#[test]
fn a_message_that_was_just_stored_is_not_read_again() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.subscribe(2, "b");
    hub.publish_all(3);
    for connection in [1, 2] {
        for sequence in 1..=3 {
            let delivery = hub.topics.poll_delivery(connection).unwrap();
            assert_eq!(delivery.record.sequence, sequence);
        }
        assert!(hub.topics.poll_delivery(connection).is_none());
    }
    assert!(hub.topics.poll_command().is_none());
}

// PER-06 PER-07
#[test]
fn a_subscription_begins_where_the_setting_says() {
    for (start, position, sent) in [
        (Start::Latest, "3", "4"),
        (Start::EarliestRetained, "0", "1 2 3 4"),
    ] {
        let mut hub = Hub::with(|settings| settings.start = start);
        hub.publish_all(3);
        assert_eq!(hub.subscribe(1, "a"), position);
        hub.publish_all(1);
        assert_eq!(hub.drain(1), sent);
        // A fresh topic begins at 0 either way.
        let fresh = hub.call(1, r#"subscribe.persistent ["b","fresh"]"#);
        assert!(fresh.contains(r#""resumed_from_sequence":0"#), "{fresh}");
    }
}

// PER-03 PER-17
#[test]
fn delivery_pauses_at_the_window_and_goes_on_in_order() {
    let mut hub = Hub::with(|settings| settings.window = 3);
    hub.subscribe(1, "a");
    hub.publish_all(7);
    assert_eq!(hub.drain(1), "1 2 3");
    assert_eq!(hub.drain(1), "");
    // One in the middle makes no space: the window begins behind what is acknowledged without a hole.
    hub.ack(1, "a", 2);
    assert_eq!(hub.drain(1), "");
    hub.ack(1, "a", 1);
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert_eq!(hub.drain(1), "4 5");
    hub.ack(1, "a", 3);
    assert_eq!(hub.drain(1), "6");
    assert_eq!(hub.topics.lag("a"), Some(4));
    assert_eq!(hub.topics.lag("b"), None);
}

// PER-17
#[test]
fn the_default_window_is_256_messages() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(300);
    let sent = hub.drain(1);
    assert!(sent.starts_with("1 2 3 ") && sent.ends_with(" 256"));
    assert_eq!(sent.split(' ').count(), 256);
}

// PER-17
#[test]
fn one_message_that_is_never_acknowledged_lets_the_window_through() {
    let mut hub = Hub::with(|settings| {
        (settings.window, settings.ack_timeout) = (4, None);
    });
    hub.subscribe(1, "a");
    hub.publish_all(6);
    assert_eq!(hub.drain(1), "1 2 3 4");
    for sequence in [4, 2, 3] {
        assert_eq!(hub.ack(1, "a", sequence), "yes");
    }
    assert_eq!(hub.drain(1), "");
    assert_eq!(hub.topics.lag("a"), Some(3));
    hub.wait(3_600_000);
    assert_eq!(hub.drain(1), "", "it is not sent again without a timeout");
    assert_eq!(hub.topics.poll_timeout(), None);
    hub.ack(1, "a", 1);
    assert_eq!(hub.drain(1), "5 6");
}

// PER-11
#[test]
fn what_is_not_acknowledged_in_time_is_sent_again_in_order() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(2);
    assert_eq!(hub.drain(1), "1 2");
    hub.wait(10_000);
    hub.publish_all(2);
    assert_eq!(hub.drain(1), "3 4");
    hub.ack(1, "a", 2);
    hub.wait(19_999);
    assert_eq!(hub.drain(1), "");
    assert_eq!(
        hub.topics.poll_timeout(),
        Some(crate::Instant::from_millis(30_000))
    );
    hub.wait(1);
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert_eq!(hub.drain(1), "1");
    hub.wait(10_000);
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "3 4 5", "repeats before what is new");
    // Late is not too late.
    hub.wait(20_000);
    assert_eq!(hub.ack(1, "a", 1), "yes");
    assert_eq!(hub.drain(1), "");
}

// PER-08 PER-11
#[test]
fn what_is_acknowledged_while_it_waits_to_be_sent_again_is_not_sent() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(2);
    hub.drain(1);
    hub.wait(30_000);
    assert!(hub.topics.poll_delivery(1).is_none(), "it is read first");
    hub.run();
    assert_eq!(hub.ack(1, "a", 1), "yes");
    assert_eq!(hub.drain(1), "2");
}

// PER-08
#[test]
fn an_acknowledgement_is_for_one_message_or_for_all_before_it() {
    for (mode, again) in [(AckMode::Individual, "1 2"), (AckMode::Cumulative, "")] {
        let mut hub = Hub::with(|settings| settings.ack_mode = mode);
        hub.subscribe(1, "a");
        hub.publish_all(3);
        hub.drain(1);
        assert_eq!(hub.ack(1, "a", 3), "yes");
        assert_eq!(hub.ack(1, "a", 3), "yes");
        hub.wait(30_000);
        assert_eq!(hub.drain(1), again, "{mode:?}");
    }
}

// PER-09
#[test]
fn a_new_connection_gets_what_is_not_acknowledged_first_and_in_order() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(5);
    assert_eq!(hub.drain(1), "1 2 3 4 5");
    for sequence in [1, 4, 3] {
        hub.ack(1, "a", sequence);
    }
    hub.topics.remove_connection(1);
    hub.publish_all(1);
    assert_eq!(hub.subscribe(2, "a"), "1");
    assert_eq!(hub.drain(2), "2 5 6");
    // It is so after a restart, too.
    let mut hub = hub.restart(|_| {});
    assert_eq!(hub.subscribe(3, "a"), "1");
    // What was never sent by this process is known to have been sent: a later one is acknowledged.
    assert_eq!(hub.ack(3, "a", 2), "yes");
    assert_eq!(hub.drain(3), "5 6");
}

// PER-03
#[test]
fn messages_of_several_subscriptions_take_turns() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.subscribe(1, "b");
    hub.publish_all(2);
    let mut sent = alloc::vec::Vec::new();
    while let Some(delivery) = hub.topics.poll_delivery(1) {
        sent.push((delivery.subscription.to_string(), delivery.record.sequence));
    }
    let sent: alloc::vec::Vec<(&str, u64)> = sent.iter().map(|(a, b)| (&**a, *b)).collect();
    assert_eq!(sent, [("a", 1), ("b", 1), ("a", 2), ("b", 2)]);
}

#[test]
fn nothing_is_delivered_before_the_answer_to_the_subscribe_is_sent() {
    let mut hub = Hub::with(|settings| settings.start = Start::EarliestRetained);
    hub.publish_all(1);
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.run();
    let answer = hub.topics.poll_answer().unwrap();
    hub.publish_all(1);
    assert_eq!(hub.topics.poll_ready(), None);
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.topics.release(answer.opens.unwrap());
    assert_eq!(hub.drain(1), "1 2");
}

// PER-17
#[test]
fn a_consumer_that_is_far_behind_is_read_for_in_pieces() {
    let mut hub = Hub::with(|settings| {
        settings.start = Start::EarliestRetained;
        settings.max_read_bytes = 40;
    });
    hub.publish_all(200);
    hub.subscribe(1, "a");
    assert!(hub.topics.poll_delivery(1).is_none());
    let (id, command) = hub.command();
    let Command::Read {
        after,
        max_records,
        max_bytes,
        ..
    } = &command
    else {
        panic!("{command:?}");
    };
    assert_eq!((*after, *max_records, *max_bytes), (0, 64, 40));
    assert!(hub.topics.poll_delivery(1).is_none());
    assert!(hub.topics.poll_command().is_none(), "one at a time");
    let found = hub.store.execute(&command);
    let Ok(Completion::Records { records, .. }) = &found else {
        panic!("{found:?}");
    };
    assert_eq!(records.len(), 4);
    hub.topics.handle_completion(id, found);
    let sent = hub.drain(1);
    assert_eq!(sent.split(' ').count(), 200);
    // What is near the end of the window is not read beyond it.
    for sequence in 1..=10 {
        hub.ack(1, "a", sequence);
    }
    hub.publish_all(100);
    assert!(hub.drain(1).ends_with(" 266"));
    hub.ack(1, "a", 11);
    assert!(hub.topics.poll_delivery(1).is_none());
    let (id, command) = hub.command();
    assert!(
        matches!(
            &command,
            Command::Read {
                after: 266,
                max_records: 1,
                ..
            }
        ),
        "{command:?}"
    );
    let found = hub.store.execute(&command);
    hub.topics.handle_completion(id, found);
    assert_eq!(hub.drain(1), "267");
}

#[test]
fn what_was_just_stored_waits_within_the_bounds() {
    let mut hub = Hub::with(|settings| settings.max_read_bytes = 40);
    hub.subscribe(1, "a");
    // The others are read when these are sent.
    hub.publish_all(100);
    for _ in 0..4 {
        assert!(hub.topics.poll_delivery(1).is_some());
    }
    assert!(hub.topics.poll_delivery(1).is_none());
    assert!(matches!(
        hub.topics.poll_command().unwrap().1,
        Command::Read { after: 4, .. }
    ));
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(100);
    for _ in 0..64 {
        assert!(hub.topics.poll_delivery(1).is_some());
    }
    assert!(hub.topics.poll_delivery(1).is_none());
    assert_eq!(hub.drain(1).split(' ').count(), 36);
    // And within the window.
    let mut hub = Hub::with(|settings| settings.window = 2);
    hub.subscribe(1, "a");
    hub.publish_all(3);
    for sequence in [1, 2] {
        let sent = hub.topics.poll_delivery(1).unwrap();
        assert_eq!(sent.record.sequence, sequence);
    }
    assert!(hub.topics.poll_delivery(1).is_none());
    assert!(hub.topics.poll_command().is_none());
    assert_eq!(hub.topics.settings().window, 2);
}

// PER-11
#[test]
fn the_ack_timeout_can_be_changed() {
    let mut hub = Hub::with(|settings| settings.ack_timeout = Some(seconds(2)));
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    hub.wait(1999);
    assert_eq!(hub.drain(1), "");
    hub.wait(1);
    assert_eq!(hub.drain(1), "1");
}

#[test]
fn params_of_another_form_are_no_message() {
    let read = |text| DurableMessage::read(crate::Json::parse_str(text).unwrap()).is_some();
    assert!(read(r#"["a","t",1,"2024-01-01T00:00:00Z",null]"#));
    for text in [
        r#"["a","t",1,"2024-01-01T00:00:00Z"]"#,
        r#"["a","t",-1,"",1]"#,
        r#"[1,"t",1,"",1]"#,
        r#"{"subscription_id":"a","topic":"t","sequence_id":1,"data":1}"#,
        "{}",
        "7",
    ] {
        assert!(!read(text), "{text}");
    }
    assert_eq!(Delivery::METHOD, "rpc.notification.persistent");
}

// PER-04
#[test]
fn a_name_that_was_stored_unseen_brings_what_was_stored() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    assert_eq!(hub.drain(1), "");
    for data in ["first", "second"] {
        let data = MessageData::write(data).unwrap();
        hub.topics.publish(&topic(), data, Some("name")).unwrap();
    }
    let (first, _) = hub.hold();
    let (second, named) = hub.hold();
    hub.topics.handle_completion(second, named);
    hub.topics.handle_completion(first, Err(StoreError::Failed));
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.run();
    let delivery = hub.topics.poll_delivery(1).unwrap();
    assert_eq!(delivery.record.data.as_json().as_str(), r#""first""#);
    assert!(hub.topics.poll_delivery(1).is_none());
}
