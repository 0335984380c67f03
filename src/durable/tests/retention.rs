//! What is removed from topics, and what that means for subscriptions; and a log that has lost its end.

use alloc::vec::Vec;

use super::{Hub, topic};
use crate::durable::{
    Command, Completion, Cursor, Log, MessageData, Record, Retention, Start, StoreError, Wall,
};
use crate::time::Instant;

fn retention(change: impl FnOnce(&mut Retention)) -> Retention {
    let mut retention = Retention::FOREVER;
    change(&mut retention);
    retention
}

/// What the store has of the topic.
fn log(hub: &mut Hub) -> (u64, u64) {
    let read = Command::Read {
        topic: "t".into(),
        after: 0,
        max_records: 1,
        max_bytes: 1,
    };
    match hub.store.execute(&read) {
        Ok(Completion::Records { log, .. }) => (log.first, log.last),
        other => panic!("{other:?}"),
    }
}

// PER-13
#[test]
fn the_oldest_messages_beyond_a_count_are_removed() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_count = Some(5));
    });
    hub.publish_all(5);
    assert_eq!(log(&mut hub), (1, 5));
    hub.publish_all(95);
    assert_eq!(log(&mut hub), (96, 100));
    // Sequences are not used again, even if nothing is left.
    hub.topics
        .set_retention(&topic(), retention(|keep| keep.max_count = Some(0)));
    hub.run();
    assert_eq!(log(&mut hub), (101, 100));
    hub.publish_all(1);
    assert_eq!(log(&mut hub), (102, 101));
    assert_eq!(hub.events(), [""; 0]);
    // Nothing is left to do.
    assert_eq!(
        (hub.topics.commands_open(), hub.topics.poll_timeout()),
        (0, None)
    );
}

// PER-13
#[test]
fn the_oldest_messages_beyond_a_size_are_removed() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_bytes = Some(100));
    });
    let publish = |hub: &mut Hub, length: usize| {
        let data = MessageData::write(&"x".repeat(length - 2)).unwrap();
        hub.topics.publish(&topic(), data, None).unwrap();
        hub.run();
        log(hub)
    };
    assert_eq!(publish(&mut hub, 40), (1, 1));
    assert_eq!(publish(&mut hub, 60), (1, 2));
    assert_eq!(publish(&mut hub, 3), (2, 3));
    assert_eq!(publish(&mut hub, 37), (2, 4));
    assert_eq!(publish(&mut hub, 97), (4 + 1, 5));
    // One that is too large by itself stays until the next one comes.
    assert_eq!(publish(&mut hub, 500), (6, 6));
    assert_eq!(publish(&mut hub, 10), (7, 7));
    for _ in 0..9 {
        publish(&mut hub, 10);
    }
    assert_eq!(log(&mut hub), (7, 16));
    assert_eq!(publish(&mut hub, 10), (8, 17));
}

// PER-13
#[test]
fn messages_are_removed_when_they_are_too_old() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_age_seconds = Some(60));
    });
    hub.publish_all(2);
    hub.wait(10_000);
    hub.publish_all(40);
    assert_eq!(
        hub.topics.poll_timeout(),
        Some(Instant::from_millis(60_000))
    );
    hub.wait(49_999);
    hub.run();
    assert_eq!(log(&mut hub), (1, 42));
    hub.wait(1);
    hub.run();
    assert_eq!(log(&mut hub), (3, 42));
    assert_eq!(
        hub.topics.poll_timeout(),
        Some(Instant::from_millis(70_000))
    );
    hub.wait(10_000);
    hub.run();
    assert_eq!(log(&mut hub), (43, 42));
    assert_eq!(hub.topics.poll_timeout(), None);
    hub.publish_all(1);
    hub.wait(60_000);
    hub.run();
    assert_eq!(log(&mut hub), (44, 43));
}

// PER-13
#[test]
fn retention_begins_again_after_a_restart() {
    let mut hub = Hub::new();
    hub.publish_all(40);
    let keep = retention(|keep| keep.max_count = Some(30));
    let mut hub = hub.restart(|_| {});
    hub.topics.set_retention(&topic(), keep);
    hub.run();
    assert_eq!(log(&mut hub), (11, 40));
    // By a default it begins when the topic is used.
    let mut hub =
        hub.restart(|settings| settings.retention = retention(|keep| keep.max_count = Some(20)));
    hub.run();
    assert_eq!(log(&mut hub), (11, 40));
    hub.subscribe(1, "a");
    assert_eq!(log(&mut hub), (21, 40));
    // A topic of its own keeps more.
    hub.topics.set_retention(&topic(), Retention::FOREVER);
    hub.publish_all(10);
    assert_eq!(log(&mut hub), (21, 50));
}

// PER-13
#[test]
fn every_message_that_is_removed_unacknowledged_is_reported() {
    let mut hub = Hub::with(|settings| settings.window = 8);
    hub.subscribe(1, "a");
    hub.subscribe(2, "b");
    hub.publish_all(10);
    assert_eq!(hub.drain(1), "1 2 3 4 5 6 7 8");
    for sequence in [3, 4, 7] {
        hub.ack(1, "a", sequence);
    }
    let keep = retention(|keep| keep.max_count = Some(1));
    hub.topics.set_retention(&topic(), keep);
    hub.run();
    let events = ["a lost 1-2", "a lost 5-6", "a lost 8-9", "b lost 1-9"];
    assert_eq!(hub.events(), events);
    // Both go on behind them.
    assert_eq!((hub.drain(1), hub.drain(2)), ("10".into(), "10".into()));
    assert_eq!(
        hub.ack(1, "a", 9),
        "yes",
        "there is nothing left to acknowledge"
    );
    assert_eq!(hub.ack(1, "a", 10), "yes");
    assert_eq!(hub.topics.lag("a"), Some(0));
}

// PER-06 PER-13
#[test]
fn what_was_removed_while_nobody_was_attached_is_reported_when_somebody_is() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(5);
    hub.drain(1);
    hub.ack(1, "a", 1);
    hub.ack(1, "a", 3);
    hub.topics.remove_connection(1);
    let keep = retention(|keep| keep.max_count = Some(1));
    hub.topics.set_retention(&topic(), keep);
    hub.run();
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.subscribe(2, "a"), "1", "what was acknowledged");
    assert_eq!(hub.events(), ["a lost 2-2", "a lost 4-4"]);
    assert_eq!(hub.drain(2), "5");
}

// PER-13
#[test]
fn a_trim_that_fails_is_tried_again_without_haste() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_count = Some(1));
    });
    for fails_at in [0, 1] {
        hub.publish();
        hub.publish();
        hub.store_appends();
        for _ in 0..fails_at {
            let (id, result) = hub.hold();
            hub.topics.handle_completion(id, result);
        }
        hub.fail(StoreError::Failed);
        assert_eq!(hub.events(), ["Failed"]);
        assert!(hub.topics.poll_command().is_none());
        hub.wait(999);
        assert!(hub.topics.poll_command().is_none());
        hub.wait(1);
        hub.run();
        let (first, last) = log(&mut hub);
        assert_eq!(first, last);
    }
    // A read that brings nothing is one that failed.
    hub.publish();
    hub.store_appends();
    let (id, _) = hub.command();
    let nothing = Completion::Records {
        log: Log {
            first: 4,
            last: 5,
            bytes: 18,
        },
        records: Vec::new(),
    };
    hub.topics.handle_completion(id, Ok(nothing));
    assert_eq!(hub.events(), ["Failed"]);
}

impl Hub {
    /// Has the store do the appends that wait, and nothing more.
    fn store_appends(&mut self) {
        for _ in 0..self.topics.commands_open() {
            let (id, result) = self.hold();
            self.topics.handle_completion(id, result);
        }
    }
}

// PER-13
#[test]
fn a_trim_whose_completion_never_came_is_noticed_by_a_read() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(4);
    let trim = Command::Trim {
        topic: "t".into(),
        up_to: 2,
    };
    hub.store.execute(&trim).unwrap();
    hub.subscribe(2, "b");
    assert_eq!(hub.events(), ["a lost 1-2"]);
    assert_eq!(hub.drain(1), "3 4");
}

// PER-10 PER-13
#[test]
fn a_clock_that_is_set_back_breaks_neither_order_nor_retention() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_age_seconds = Some(1800));
    });
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.wait(60_000);
    hub.wall -= 3_600_000;
    hub.tell_time();
    hub.publish_all(2);
    assert_eq!(hub.drain(1), "1 2 3");
    // Half an hour later, the first is over its time by one clock, and the others by the other: all are gone.
    hub.wait(1_799_999);
    hub.run();
    assert_eq!(log(&mut hub), (1, 3));
    hub.wait(1);
    hub.run();
    assert_eq!(log(&mut hub), (4, 3));
    // Redelivery goes by the even clock.
    hub.publish_all(1);
    hub.drain(1);
    hub.wall -= 3_600_000;
    hub.tell_time();
    assert_eq!(hub.drain(1), "");
    hub.wait(30_000);
    assert_eq!(hub.drain(1), "4");
}

// PER-13
#[test]
fn a_clock_that_is_ahead_for_a_while_removes_nothing() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_age_seconds = Some(1800));
    });
    hub.publish_all(3);
    let year = 365 * 86_400_000;
    hub.wall += year;
    hub.tell_time();
    hub.run();
    hub.publish_all(1);
    hub.wait(3_599_999);
    hub.run();
    assert_eq!(log(&mut hub), (1, 4));
    hub.wall -= year;
    hub.tell_time();
    hub.publish_all(1);
    // What was stored before is too old now, and is removed when the time is over in which nothing is.
    hub.wait(1);
    hub.run();
    assert_eq!(log(&mut hub), (4, 5));
    // The fourth has a time of next year, and goes with the fifth.
    hub.wait(1_800_000);
    hub.run();
    assert_eq!(log(&mut hub), (6, 5));
    // A clock that stays ahead is believed after an hour; a minute is nothing.
    hub.publish_all(1);
    hub.wall += year;
    hub.tell_time();
    hub.run();
    hub.wait(3_599_999);
    hub.run();
    assert_eq!(log(&mut hub), (6, 6));
    hub.wait(1);
    hub.run();
    assert_eq!(log(&mut hub), (7, 6));
    hub.publish_all(1);
    hub.wait(1_740_000);
    hub.wall += 60_000;
    hub.tell_time();
    hub.wait(60_000);
    hub.run();
    assert_eq!(log(&mut hub), (8, 7));
}

/// Lets the store forget a topic, and has it store so many messages.
fn lose(hub: &mut Hub, stored: usize) {
    let mut store = crate::durable::MemoryStore::new(1 << 20);
    let attach = Command::Attach {
        subscription: "a".into(),
        topic: "t".into(),
        start: Start::Latest,
        takes_over: true,
    };
    let mut cursor = Cursor::default();
    if let Ok(Completion::Attached { cursor: known, .. }) = hub.store.execute(&attach) {
        cursor = known;
    }
    for _ in 0..10 {
        store.execute(&attach).unwrap();
    }
    store
        .execute(&Command::Save {
            subscription: "a".into(),
            fence: 10,
            cursor,
        })
        .unwrap();
    let append = Command::Append {
        topic: "t".into(),
        at: Wall::from_millis(1),
        data: MessageData::write("new").unwrap(),
        dedupe: None,
    };
    for _ in 0..stored {
        store.execute(&append).unwrap();
    }
    hub.store = store;
}

// PER-06
#[test]
fn a_position_ahead_of_its_topic_is_reported_and_nothing_is_skipped() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(5);
    hub.drain(1);
    for sequence in [1, 2, 3, 5] {
        hub.ack(1, "a", sequence);
    }
    hub.topics.remove_connection(1);
    lose(&mut hub, 4);
    let mut hub = hub.restart(|_| {});
    assert_eq!(hub.subscribe(1, "a"), "0");
    assert_eq!(hub.events(), ["a at 5, topic at 4"]);
    assert_eq!(hub.drain(1), "1 2 3 4");
    assert_eq!(hub.ack(1, "a", 1), "yes");
    // It is as it was from now on.
    assert_eq!(hub.subscribe(2, "a"), "1");
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
}

// PER-06
#[test]
fn a_topic_that_loses_its_end_under_a_consumer_is_noticed() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.subscribe(2, "b");
    hub.publish_all(5);
    assert_eq!(hub.drain(1), "1 2 3 4 5");
    for sequence in 1..=5 {
        hub.ack(1, "a", sequence);
    }
    lose(&mut hub, 2);
    hub.publish_all(1);
    hub.drain(1);
    assert_eq!(hub.events(), ["a of 1: AheadOfLog"]);
    assert_eq!(hub.drain(2), "1 2 3");
    assert_eq!(hub.subscribe(1, "a"), "0");
    assert_eq!(hub.events(), ["a at 5, topic at 3"]);
    assert_eq!(hub.drain(1), "1 2 3");
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "4");
}

#[test]
fn a_read_from_before_a_trim_is_no_loss() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "1");
    // A failed append makes it look for more.
    hub.publish();
    hub.fail(StoreError::Failed);
    assert!(hub.topics.poll_delivery(1).is_none());
    let early = hub.hold();
    hub.publish_all_unread(3);
    hub.topics
        .set_retention(&topic(), retention(|keep| keep.max_count = Some(1)));
    hub.run();
    assert_eq!(hub.events(), ["a lost 1-3"]);
    hub.topics.handle_completion(early.0, early.1);
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.drain(1), "4");
}

impl Hub {
    fn publish_all_unread(&mut self, count: usize) {
        while self.topics.poll_published().is_some() {}
        self.publish_all(count);
    }
}

#[test]
fn whatever_numbers_a_store_says_nothing_overflows() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| {
            (keep.max_age_seconds, keep.max_count) = (Some(u64::MAX), Some(u64::MAX));
            keep.max_bytes = Some(0);
        });
    });
    let most = u64::MAX;
    let log = Log {
        first: 0,
        last: most,
        bytes: most,
    };
    let record = Record {
        sequence: most,
        at: Wall::LAST,
        data: MessageData::write(()).unwrap(),
    };
    for (first, last, floor, above) in [
        (0, 0, most, [most].to_vec()),
        (most, 0, 0, [most].to_vec()),
        (0, most, most - 1, [0, most].to_vec()),
        (1, most, 0, [3, most - 1].to_vec()),
        (most, most, 1 << 61, [1 << 62].to_vec()),
    ] {
        for connection in [1, 2] {
            let call = r#"subscribe.persistent ["a","t"]"#;
            hub.ask(connection, call).unwrap();
            let cursor = Cursor {
                start: most,
                floor,
                above: above.clone(),
            };
            hub.publish();
            for step in 0..12 {
                let Some((id, command)) = hub.topics.poll_command() else {
                    break;
                };
                let completion = match command {
                    Command::Append { .. } => Completion::Appended {
                        sequence: most >> step,
                    },
                    Command::Attach { .. } => Completion::Attached {
                        fence: most,
                        cursor: cursor.clone(),
                        log: Log { first, last, ..log },
                    },
                    Command::Read { .. } => Completion::Records {
                        log,
                        records: [record.clone(), record.clone()].to_vec(),
                    },
                    Command::Trim { .. } => Completion::Trimmed,
                    _ => Completion::Saved,
                };
                hub.topics.handle_completion(id, Ok(completion));
                hub.answers();
                while hub.topics.poll_delivery(connection).is_some() {}
                hub.ask(
                    connection,
                    r#"acknowledge.persistent ["a",18446744073709551615]"#,
                )
                .unwrap();
                hub.wait(40_000);
            }
            hub.topics.remove_connection(connection);
            hub.topics.add_connection(connection);
        }
    }
    hub.topics.handle_grown(&topic(), most);
    hub.now = most;
    hub.wall = most;
    hub.tell_time();
}

// PER-13
#[test]
fn bytes_that_were_not_counted_are_read() {
    for told_by_another in [false, true] {
        let mut hub = Hub::with(|settings| {
            settings.retention = retention(|keep| keep.max_bytes = Some(34));
        });
        hub.publish_all(1);
        // A message has 9 bytes. The second one is told first, or the first is another hub's.
        hub.publish();
        hub.publish();
        let [first, second] = [hub.hold(), hub.hold()];
        if told_by_another {
            for last in [2, 3] {
                hub.topics.handle_grown(&topic(), last);
            }
        } else {
            hub.topics.handle_completion(second.0, second.1);
            hub.topics.handle_completion(first.0, first.1);
        }
        hub.run();
        assert_eq!(log(&mut hub), (1, 3), "{told_by_another}");
        hub.publish();
        hub.run();
        assert_eq!(log(&mut hub), (2, 4), "{told_by_another}");
    }
}

// PER-13
#[test]
fn a_message_that_comes_while_the_oldest_are_read_makes_them_read_again() {
    let mut hub = Hub::with(|settings| {
        settings.retention = retention(|keep| keep.max_bytes = Some(34));
    });
    hub.publish_all(1);
    hub.publish();
    hub.publish();
    let [first, second] = [hub.hold(), hub.hold()];
    hub.topics.handle_completion(second.0, second.1);
    hub.topics.handle_completion(first.0, first.1);
    // The bytes of three are read, and those of a fourth are told before that.
    let read = hub.hold();
    hub.publish();
    let fourth = hub.hold();
    hub.topics.handle_completion(fourth.0, fourth.1);
    hub.topics.handle_completion(read.0, read.1);
    hub.run();
    assert_eq!(log(&mut hub), (2, 4));
    assert_eq!(
        (hub.topics.commands_open(), hub.topics.poll_timeout()),
        (0, None)
    );
}
