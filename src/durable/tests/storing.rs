//! A store that is slow, fails, answers twice, late or never.

use alloc::format;
use alloc::vec::Vec;

use super::{Hub, NOT_ATTACHED, topic};
use crate::durable::{Command, Completion, Log, MessageData, Start, StoreError};
use crate::time::Instant;

// PER-08
#[test]
fn an_acknowledgement_is_answered_when_it_is_stored() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(4);
    hub.drain(1);
    let ack = |n| format!(r#"acknowledge.persistent ["a",{n}]"#);
    let asked = [1, 2, 1].map(|n| hub.ask(1, &ack(n)).unwrap());
    let first = hub.hold();
    // The others wait, to be stored together; a repeat is not answered before either.
    assert!(hub.topics.poll_command().is_none());
    assert_eq!(hub.answers(), []);
    hub.topics.handle_completion(first.0, first.1);
    let yes = r#"{"acknowledged":true}"#;
    assert_eq!(hub.answers(), [(asked[0], yes.into())]);
    let (id, command) = hub.command();
    let Command::Save { cursor, .. } = &command else {
        panic!("{command:?}");
    };
    assert_eq!((cursor.floor, &cursor.above[..]), (2, &[][..]));
    let stored = hub.store.execute(&command);
    hub.topics.handle_completion(id, stored);
    let answers = hub.answers();
    assert_eq!(answers, [(asked[1], yes.into()), (asked[2], yes.into())]);
    // What is above a hole is stored, too.
    hub.ask(1, &ack(4)).unwrap();
    let (_, command) = hub.command();
    let Command::Save { cursor, .. } = &command else {
        panic!("{command:?}");
    };
    assert_eq!(
        (cursor.start, cursor.floor, &cursor.above[..]),
        (0, 2, &[4][..])
    );
}

// PER-08 PER-15
#[test]
fn an_acknowledgement_that_is_not_stored_fails_and_can_be_repeated() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(3);
    hub.drain(1);
    let batch = r#"acknowledge.persistent.batch [[{"subscription_id":"a","sequence_id":1},{"subscription_id":"a","sequence_id":2}]]"#;
    for error in [StoreError::Full, StoreError::Busy, StoreError::Failed] {
        hub.ask(1, batch).unwrap();
        hub.fail(error);
        let answers = hub.answers();
        assert_eq!(answers[0].1.matches(r#""success":false"#).count(), 2);
        assert!(hub.topics.poll_command().is_none(), "it is not tried again");
    }
    // One that waits meanwhile is tried at once, and told for itself.
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    hub.ask(1, r#"acknowledge.persistent ["a",3]"#).unwrap();
    hub.fail(StoreError::Full);
    assert_eq!(hub.answers()[0].1, "-32002");
    hub.fail(StoreError::Full);
    assert_eq!(hub.answers()[0].1, "-32002");
    // It is not sent again to this consumer, which has done it, but to the next one.
    hub.wait(60_000);
    assert_eq!(hub.drain(1), "");
    assert_eq!(hub.ack(1, "a", 2), "yes");
    hub.topics.remove_connection(1);
    assert_eq!(hub.subscribe(2, "a"), "3");
}

// PER-04
#[test]
fn reading_goes_on_while_the_store_takes_nothing() {
    let mut hub = Hub::with(|settings| settings.start = Start::EarliestRetained);
    hub.publish_all(100);
    hub.subscribe(1, "a");
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.run();
    assert!(hub.topics.poll_delivery(1).is_some());
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    hub.publish();
    hub.fail(StoreError::Full);
    hub.fail(StoreError::Full);
    assert_eq!(hub.answers()[0].1, "-32002");
    assert_eq!(hub.drain(1).split(' ').count(), 99);
    // And all resumes.
    assert_eq!(hub.ack(1, "a", 1), "yes");
    hub.topics.poll_published();
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "101");
}

// PER-04
#[test]
fn a_publication_that_failed_and_was_stored_is_delivered() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish();
    let (id, stored) = hub.hold();
    assert_eq!(stored, Ok(Completion::Appended { sequence: 1 }));
    hub.topics.handle_completion(id, Err(StoreError::Failed));
    let published = hub.topics.poll_published().unwrap();
    assert_eq!(published.result, Err(StoreError::Failed));
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert_eq!(hub.drain(1), "1");
    // If it was not stored, that is found out once.
    hub.publish();
    hub.fail(StoreError::Failed);
    assert_eq!(hub.drain(1), "");
    assert!(hub.topics.poll_delivery(1).is_none());
    assert!(hub.topics.poll_command().is_none());
    // What was refused was not stored, and nothing is read.
    for error in [StoreError::Busy, StoreError::Full] {
        hub.publish();
        hub.fail(error);
        assert_eq!(hub.topics.poll_ready(), None);
    }
}

// PER-04
#[test]
fn a_command_without_completion_counts_as_failed() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    hub.publish();
    let append = hub.hold();
    hub.wait(1000);
    let ack = hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    let save = hub.hold();
    let subscribe = hub.ask(2, r#"subscribe.persistent ["b","t"]"#).unwrap();
    let attach = hub.hold();
    assert_eq!(hub.topics.commands_open(), 3);
    assert_eq!(
        hub.topics.poll_timeout(),
        Some(Instant::from_millis(30_000))
    );
    hub.wait(28_999);
    assert!(hub.topics.poll_published().is_none());
    hub.wait(1);
    assert_eq!(
        hub.topics.poll_published().unwrap().result,
        Err(StoreError::Failed)
    );
    assert_eq!(hub.answers(), []);
    hub.wait(1000);
    let failed = [(ack, "-32603".into()), (subscribe, "-32603".into())];
    assert_eq!(hub.answers(), failed);
    assert_eq!(hub.topics.commands_open(), 0);
    // What comes late changes nothing that was said, but the message is delivered.
    for (id, result) in [save, attach] {
        hub.topics.handle_completion(id, result);
    }
    assert_eq!(hub.answers(), []);
    assert_eq!(hub.topics.subscriptions(), 1);
    while hub.topics.poll_ready().is_some() {}
    assert!(hub.topics.poll_delivery(1).is_none());
    let (id, _) = hub.command();
    let log = Log {
        first: 1,
        last: 1,
        bytes: 9,
    };
    let nothing = Completion::Records {
        log,
        records: Vec::new(),
    };
    hub.topics.handle_completion(id, Ok(nothing));
    assert_eq!(hub.topics.poll_ready(), None);
    hub.topics.handle_completion(append.0, append.1);
    assert!(hub.topics.poll_published().is_none());
    assert_eq!(hub.drain(1), "2");
    assert_eq!(hub.ack(1, "a", 1), "yes");
    assert_eq!(hub.events(), [""; 0]);
}

// PER-04
#[test]
fn commands_may_wait_for_ever_if_so_set() {
    let mut hub = Hub::with(|settings| settings.store_timeout = None);
    hub.publish();
    assert_eq!(hub.topics.poll_timeout(), None);
    hub.wait(1 << 40);
    assert!(hub.topics.poll_published().is_none());
}

#[test]
fn only_so_many_overdue_appends_are_remembered() {
    let mut hub = Hub::with(|settings| settings.max_publishes = 2);
    hub.subscribe(1, "a");
    let mut held = Vec::new();
    for _ in 0..3 {
        hub.publish();
        held.push(hub.hold());
        hub.wait(30_000);
    }
    hub.drain(1);
    hub.drain(1);
    assert_eq!(hub.topics.commands_open(), 0);
    hub.topics
        .handle_completion(held[0].0, Ok(Completion::Appended { sequence: 90 }));
    assert_eq!(hub.topics.poll_ready(), None);
    hub.topics
        .handle_completion(held[1].0, Err(StoreError::Failed));
    hub.topics
        .handle_completion(held[1].0, Ok(Completion::Appended { sequence: 90 }));
    assert_eq!(hub.topics.poll_ready(), None);
    hub.topics
        .handle_completion(held[2].0, Ok(Completion::Appended { sequence: 90 }));
    assert_eq!(hub.topics.poll_ready(), Some(1));
}

// PER-04
#[test]
fn a_completion_that_comes_twice_counts_once() {
    let mut hub = Hub::new();
    let asked = hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    let twice = |hub: &mut Hub| {
        let (id, result) = hub.hold();
        hub.topics.handle_completion(id, result.clone());
        hub.topics.handle_completion(id, result);
    };
    twice(&mut hub);
    assert_eq!(hub.answers()[0].0, asked);
    hub.publish();
    twice(&mut hub);
    assert!(hub.topics.poll_published().is_some());
    assert!(hub.topics.poll_published().is_none());
    assert_eq!(hub.drain(1), "1");
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    twice(&mut hub);
    hub.ask(1, r#"unsubscribe.persistent ["a"]"#).unwrap();
    twice(&mut hub);
    assert_eq!(hub.answers().len(), 2);
    assert_eq!(hub.events(), [""; 0]);
}

#[test]
fn a_completion_of_another_command_is_a_failure() {
    let mut hub = Hub::new();
    hub.publish();
    let (id, _) = hub.command();
    hub.topics.handle_completion(id, Ok(Completion::Saved));
    let failed = Err(StoreError::Failed);
    assert_eq!(hub.topics.poll_published().unwrap().result, failed);
    // No message has the number 0.
    hub.publish();
    let (id, _) = hub.command();
    hub.topics
        .handle_completion(id, Ok(Completion::Appended { sequence: 0 }));
    assert_eq!(hub.topics.poll_published().unwrap().result, failed);
    for call in [
        r#"subscribe.persistent ["a","t"]"#,
        r#"unsubscribe.persistent ["a"]"#,
    ] {
        hub.ask(1, call).unwrap();
        let (id, _) = hub.command();
        hub.topics.handle_completion(id, Ok(Completion::Trimmed));
        assert_eq!(hub.answers()[0].1, "-32603", "{call}");
    }
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    let (id, _) = hub.command();
    hub.topics.handle_completion(id, Ok(Completion::Deleted));
    assert_eq!(hub.answers()[0].1, "-32603");
}

// PER-04
#[test]
fn a_read_that_fails_is_tried_again_without_haste() {
    let mut hub = Hub::with(|settings| settings.start = Start::EarliestRetained);
    hub.publish_all(3);
    hub.subscribe(1, "a");
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.fail(StoreError::Busy);
    assert_eq!(hub.events(), ["Busy"]);
    assert!(hub.topics.poll_ready().is_none() || hub.topics.poll_delivery(1).is_none());
    assert!(hub.topics.poll_command().is_none());
    assert_eq!(hub.topics.poll_timeout(), Some(Instant::from_millis(1000)));
    hub.publish();
    hub.run();
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.wait(999);
    assert!(hub.topics.poll_delivery(1).is_none());
    assert!(hub.topics.poll_command().is_none());
    hub.wait(1);
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert!(hub.topics.poll_delivery(1).is_none());
    // Nothing where something must be is a failure, too; it is told once.
    let (id, _) = hub.command();
    let log = Log {
        first: 1,
        last: 4,
        bytes: 36,
    };
    let nothing = Completion::Records {
        log,
        records: Vec::new(),
    };
    hub.topics.handle_completion(id, Ok(nothing));
    assert_eq!(hub.events(), [""; 0]);
    hub.wait(1000);
    assert!(hub.topics.poll_delivery(1).is_none());
    // What is behind a hole is not taken.
    let (id, command) = hub.command();
    let Ok(Completion::Records { log, mut records }) = hub.store.execute(&command) else {
        panic!("{command:?}");
    };
    records.remove(1);
    hub.topics
        .handle_completion(id, Ok(Completion::Records { log, records }));
    assert_eq!(hub.topics.poll_delivery(1).unwrap().record.sequence, 1);
    assert_eq!(hub.drain(1), "2 3 4");
    // It has succeeded, so the next failure is told.
    hub.topics.remove_connection(1);
    hub.subscribe(2, "a");
    assert!(hub.topics.poll_delivery(2).is_none());
    hub.fail(StoreError::Failed);
    assert_eq!(hub.events(), ["Failed"]);
}

#[test]
fn a_read_for_an_earlier_consumer_changes_nothing() {
    let mut hub = Hub::with(|settings| settings.start = Start::EarliestRetained);
    hub.publish_all(2);
    hub.subscribe(1, "a");
    assert!(hub.topics.poll_delivery(1).is_none());
    let early = hub.hold();
    hub.subscribe(2, "a");
    assert!(hub.topics.poll_delivery(2).is_none());
    let late = hub.hold();
    hub.topics.handle_completion(early.0, early.1);
    assert!(hub.topics.poll_delivery(2).is_none());
    hub.topics.handle_completion(late.0, late.1);
    assert_eq!(hub.drain(2), "1 2");
}

// PER-05
#[test]
fn appends_that_complete_in_another_order_are_delivered_in_that_of_their_sequences() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    for _ in 0..3 {
        hub.publish();
    }
    let held = [hub.hold(), hub.hold(), hub.hold()];
    let mut numbers = Vec::new();
    for (id, result) in held.into_iter().rev() {
        hub.topics.handle_completion(id, result);
        numbers.push(hub.topics.poll_published().unwrap().result.unwrap());
    }
    assert_eq!(numbers, [3, 2, 1]);
    assert_eq!(hub.drain(1), "1 2 3");
}

#[test]
fn only_so_many_publications_wait_for_the_store() {
    let mut hub = Hub::with(|settings| {
        (settings.max_publishes, settings.max_publish_bytes) = (3, 100);
    });
    let data = |length: usize| MessageData::write(&"x".repeat(length - 2)).unwrap();
    let publish = |hub: &mut Hub, length| {
        let published = hub.topics.publish(&topic(), data(length), None);
        published.map(|_| ()).is_ok()
    };
    // The first is always accepted.
    assert!(publish(&mut hub, 1000));
    assert!(!publish(&mut hub, 10));
    hub.run();
    assert!(publish(&mut hub, 50) && publish(&mut hub, 50));
    assert!(!publish(&mut hub, 3));
    hub.run();
    assert!((0..3).all(|_| publish(&mut hub, 10)));
    assert!(!publish(&mut hub, 10));
    assert_eq!(
        hub.topics.publish(&topic(), data(10), None),
        Err(StoreError::Busy)
    );
    hub.fail(StoreError::Failed);
    assert!(publish(&mut hub, 10));
}

#[test]
fn a_name_of_a_message_is_stored_once() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    let mut publish = |name| {
        let data = MessageData::write(()).unwrap();
        hub.topics.publish(&topic(), data, name).unwrap();
        hub.run();
        hub.topics.poll_published().unwrap().result
    };
    let numbers = [Some("x"), None, Some("x"), Some("y"), Some("x")].map(&mut publish);
    assert_eq!(numbers, [1, 2, 1, 3, 1].map(Ok));
    assert_eq!(hub.drain(1), "1 2 3");
}

// PER-03
#[test]
fn what_another_hub_has_published_is_delivered() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    assert_eq!(hub.drain(1), "");
    let append = Command::Append {
        topic: "t".into(),
        at: crate::durable::Wall::from_millis(1),
        data: MessageData::write(&1).unwrap(),
        dedupe: None,
    };
    hub.store.execute(&append).unwrap();
    assert_eq!(hub.drain(1), "");
    hub.topics.handle_grown(&topic(), 1);
    assert_eq!(hub.topics.poll_ready(), Some(1));
    assert_eq!(hub.drain(1), "1");
    assert_eq!(hub.ack(2, "a", 1), NOT_ATTACHED);
}
