//! Small things that conversations do not show.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use std::sync::Mutex;

use super::{Hub, topic};
use crate::durable::store::MAX_SEQUENCE;
use crate::durable::window::Window;
use crate::durable::{
    Command, Completer, Completion, Cursor, DurableError, Log, MemoryStore, MessageData, Retention,
    SecondConsumer, StoreError,
};
use crate::time::Instant;

#[test]
fn an_owner_is_told_whether_there_is_something_to_take() {
    let mut hub = Hub::new();
    assert!(!hub.topics.has_output());
    hub.publish();
    assert!(hub.topics.has_output(), "a command");
    let (id, result) = hub.hold();
    assert!(!hub.topics.has_output());
    hub.topics.handle_completion(id, result);
    assert!(hub.topics.has_output(), "a publication");
    hub.topics.poll_published();
    assert!(!hub.topics.has_output());
    hub.ask(9, r#"subscribe.persistent ["a","t"]"#).unwrap();
    assert!(hub.topics.has_output(), "an answer");
    hub.topics.poll_answer();
    assert!(!hub.topics.has_output());
    for connection in [1, 2] {
        hub.subscribe(connection, "a");
        while hub.topics.poll_ready().is_some() {}
    }
    assert!(hub.topics.has_output(), "an event");
    hub.topics.poll_event();
    assert!(!hub.topics.has_output());
}

// PER-04
#[test]
fn a_completion_is_passed_on_and_one_that_is_dropped_is_a_failure() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let completer = || {
        let told = Arc::clone(&told);
        Completer::new(move |result| told.lock().unwrap().push(result))
    };
    completer().complete(Ok(Completion::Saved));
    drop(completer());
    assert_eq!(std::format!("{:?}", completer()), "Completer");
    let failed = || Err(StoreError::Failed);
    let expected = [Ok(Completion::Saved), failed(), failed()];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(std::format!("{}", StoreError::Full), "the store is full");
    let error = std::format!("{}", DurableError::NotAttached);
    assert_eq!(error, "this connection is not attached to the subscription");
}

#[test]
fn a_subscription_whose_answer_was_replaced_is_forgotten() {
    let mut hub = Hub::new();
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.run();
    let opens = hub.topics.poll_answer().unwrap().opens.unwrap();
    assert_eq!(hub.topics.subscriptions(), 1);
    hub.topics.refuse(opens);
    assert_eq!(hub.topics.subscriptions(), 0);
    // Only a subscribe that was done opens something.
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    assert!(hub.topics.poll_answer().unwrap().opens.is_none());
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.fail(StoreError::Full);
    assert!(hub.topics.poll_answer().unwrap().opens.is_none());
}

#[test]
fn a_topic_that_nobody_needs_and_a_timer_of_nobody_are_forgotten() {
    let mut hub = Hub::new();
    hub.publish_all(2);
    assert!(hub.topics.topics.is_empty());
    hub.subscribe(1, "a");
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "3");
    assert!(hub.topics.poll_timeout().is_some());
    hub.topics.remove_connection(1);
    hub.run();
    assert_eq!(hub.topics.poll_timeout(), None);
    assert!(hub.topics.topics.is_empty());
}

#[test]
fn a_window_has_at_least_one_message_and_sends_in_order() {
    let size = |window| {
        let hub = Hub::with(|settings| settings.window = window);
        hub.topics.settings().window
    };
    assert_eq!((size(0), size(7), size(usize::MAX)), (1, 7, 65_536));
    let (mut window, at) = (Window::of(&Cursor::at(0)), Instant::from_millis(9));
    assert!(!window.send(2, 8, at), "1 comes first");
    assert!(window.send(1, 1, at));
    assert!(!window.send(2, 1, at), "the window is full");
    assert!(!window.send(1, 8, at), "it is on its way");
    assert!(window.send(2, 8, at));
}

#[test]
fn what_was_sent_makes_space_for_what_is_just_stored() {
    // Two messages of 9 bytes.
    let mut hub = Hub::with(|settings| settings.max_read_bytes = 18);
    hub.subscribe(1, "a");
    for _ in 0..3 {
        hub.publish_all(2);
        for _ in 0..2 {
            assert!(hub.topics.poll_delivery(1).is_some());
        }
        assert!(hub.topics.poll_delivery(1).is_none());
        assert!(hub.topics.poll_command().is_none(), "nothing is read");
    }
}

// PER-08 PER-12
#[test]
fn the_store_is_asked_for_what_the_settings_say_and_not_twice() {
    for second in [SecondConsumer::TakeOver, SecondConsumer::Reject] {
        let mut hub = Hub::with(|settings| settings.second_consumer = second);
        hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
        let Command::Attach { takes_over, .. } = hub.command().1 else {
            panic!();
        };
        assert_eq!(takes_over, second == SecondConsumer::TakeOver);
    }
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(1);
    assert_eq!((&*hub.drain(1), &*hub.ack(1, "a", 1)), ("1", "yes"));
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    assert_eq!(hub.answers().len(), 1, "at once");
    assert!(hub.topics.poll_command().is_none());
}

// PER-13
#[test]
fn what_is_removed_is_no_longer_counted() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(5);
    let mut two = Retention::FOREVER;
    two.max_count = Some(2);
    hub.topics.set_retention(&topic(), two);
    hub.run();
    let log = hub.topics.topics["t"].log;
    assert_eq!((log.first, log.last, log.bytes), (4, 5, 18));
}

#[test]
fn a_store_says_numbers_within_bounds_and_reads_as_much_as_fits() {
    let log = Log {
        first: 1,
        last: u64::MAX,
        bytes: 7,
    };
    assert_eq!(log.bounded().last, MAX_SEQUENCE);
    let mut store = MemoryStore::new(1 << 10);
    for text in ["\"1\"", "\"2\"", "\"3\""] {
        let append = Command::Append {
            topic: "t".into(),
            at: crate::durable::Wall::from_millis(0),
            data: MessageData::parse(text).unwrap(),
            dedupe: None,
        };
        store.execute(&append).unwrap();
    }
    let mut counts = vec![];
    for max_bytes in [5, 6, 8, 9] {
        let read = Command::Read {
            topic: "t".into(),
            after: 0,
            max_records: 9,
            max_bytes,
        };
        if let Ok(Completion::Records { records, .. }) = store.execute(&read) {
            counts.push(records.len());
        }
    }
    assert_eq!(counts, [1, 2, 2, 3]);
}
