//! One consumer at a time: takeover, refusal, disconnects and the end of a subscription.

use alloc::vec::Vec;

use super::{Hub, NOT_ATTACHED};
use crate::durable::{DurableEvent, SecondConsumer, StoreError};

// PER-12 PER-20
#[test]
fn a_second_consumer_takes_over_what_is_not_acknowledged() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(3);
    assert_eq!(hub.drain(1), "1 2 3");
    hub.ack(1, "a", 2);
    assert_eq!(hub.subscribe(2, "a"), "0");
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "");
    assert_eq!(hub.ack(1, "a", 3), NOT_ATTACHED);
    assert_eq!(hub.drain(2), "1 3 4");
    assert_eq!(hub.ack(2, "a", 3), "yes");
    // And back again.
    assert_eq!(hub.subscribe(1, "a"), "0");
    assert_eq!(hub.events(), ["a of 2: TakenOver"]);
    assert_eq!(hub.drain(1), "1 4");
}

// PER-12
#[test]
fn the_old_consumer_goes_on_until_the_new_one_is_attached() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.ask(2, r#"subscribe.persistent ["a","t"]"#).unwrap();
    let attach = hub.hold();
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "1");
    hub.topics.handle_completion(attach.0, attach.1);
    assert_eq!(hub.answers().len(), 1);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    assert_eq!(hub.drain(2), "1");
    // One that cannot be attached takes nothing.
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.fail(StoreError::Failed);
    assert_eq!(hub.answers()[0].1, "-32603");
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.ack(2, "a", 1), "yes");
}

// PER-20
#[test]
fn a_takeover_while_acknowledgements_are_in_flight_answers_what_was_stored() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(3);
    hub.drain(1);
    let ack = |n| alloc::format!(r#"acknowledge.persistent ["a",{n}]"#);
    let asked = [1, 2].map(|n| hub.ask(1, &ack(n)).unwrap());
    let first = hub.hold();
    hub.ask(2, r#"subscribe.persistent ["a","t"]"#).unwrap();
    let attach = hub.hold();
    hub.topics.handle_completion(attach.0, attach.1);
    assert_eq!(hub.answers()[0].1.matches(r#"from_sequence":1"#).count(), 1);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    // The first was stored before the takeover, and the second comes too late.
    hub.topics.handle_completion(first.0, first.1);
    assert_eq!(
        hub.answers(),
        [(asked[0], r#"{"acknowledged":true}"#.into())]
    );
    hub.run();
    assert_eq!(hub.answers(), [(asked[1], NOT_ATTACHED.into())]);
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.drain(2), "2 3");
}

// PER-12
#[test]
fn a_second_consumer_is_refused_if_so_set() {
    let mut hub = Hub::with(|settings| settings.second_consumer = SecondConsumer::Reject);
    let in_use = "-32602 another connection is attached to the subscription";
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    assert_eq!(hub.subscribe(2, "a"), in_use);
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.ack(1, "a", 1), "yes");
    // Its own consumer may begin again.
    assert_eq!(hub.subscribe(1, "a"), "1");
    assert_eq!(hub.events(), [""; 0]);
    hub.topics.remove_connection(1);
    assert_eq!(hub.subscribe(2, "a"), "1");
    // Of two at once, the first gets it.
    hub.topics.remove_connection(2);
    hub.topics.add_connection(4);
    let call = r#"subscribe.persistent ["a","t"]"#;
    let (first, second) = (hub.ask(3, call).unwrap(), hub.ask(4, call).unwrap());
    assert_eq!(hub.answers(), [(second, in_use.into())]);
    hub.run();
    assert_eq!(hub.answers()[0].0, first);
    // Another hub may have it.
    hub.ask(4, r#"subscribe.persistent ["b","t"]"#).unwrap();
    hub.fail(StoreError::Held);
    assert_eq!(hub.answers()[0].1, in_use);
}

// PER-12
#[test]
fn of_two_that_attach_at_once_the_store_decides() {
    let mut hub = Hub::new();
    let call = r#"subscribe.persistent ["a","t"]"#;
    let asked = [1, 2].map(|connection| hub.ask(connection, call).unwrap());
    let (first, second) = (hub.hold(), hub.hold());
    hub.topics.handle_completion(second.0, second.1);
    assert_eq!(hub.answers()[0].0, asked[1]);
    hub.topics.handle_completion(first.0, first.1);
    assert_eq!(hub.answers(), [(asked[0], NOT_ATTACHED.into())]);
    hub.publish_all(1);
    assert_eq!((hub.drain(1), hub.drain(2)), ("".into(), "1".into()));
    assert_eq!(hub.ack(2, "a", 1), "yes");
}

// PER-09 PER-12
#[test]
fn a_consumer_that_attaches_again_begins_behind_what_is_acknowledged() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(2);
    assert_eq!(hub.drain(1), "1 2");
    hub.ack(1, "a", 1);
    assert_eq!(hub.subscribe(1, "a"), "1");
    assert_eq!(hub.events(), [""; 0]);
    assert_eq!(hub.drain(1), "2");
    assert_eq!(hub.topics.subscriptions(), 1);
}

// PER-12
#[test]
fn another_hub_takes_over() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(1);
    hub.drain(1);
    hub.topics.handle_takeover("a", 1);
    hub.topics.handle_takeover("b", 9);
    assert_eq!(hub.events(), [""; 0]);
    hub.topics.handle_takeover("a", 2);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    assert_eq!(hub.ack(1, "a", 1), NOT_ATTACHED);
    // If nobody tells, the store does, with the next acknowledgement.
    hub.subscribe(1, "a");
    hub.drain(1);
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    hub.fail(StoreError::Fenced);
    assert_eq!(hub.answers()[0].1, NOT_ATTACHED);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    hub.publish_all(1);
    assert_eq!(hub.drain(1), "");
}

// PER-14
#[test]
fn a_disconnect_keeps_position_and_messages() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(2);
    hub.drain(1);
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    hub.ask(1, r#"acknowledge.persistent ["a",2]"#).unwrap();
    // Both were sent before the connection ended, and one save was on its way.
    hub.topics.remove_connection(1);
    assert_eq!(hub.topics.subscriptions(), 0);
    hub.run();
    assert_eq!(hub.answers().len(), 2);
    hub.publish_all(2);
    assert_eq!(hub.subscribe(2, "a"), "2");
    assert_eq!(hub.drain(2), "3 4");
}

// PER-14
#[test]
fn a_connection_that_ends_while_it_attaches_gets_nothing() {
    let mut hub = Hub::new();
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.topics.remove_connection(1);
    hub.run();
    assert_eq!(hub.answers()[0].1, "-32603");
    assert_eq!(hub.topics.subscriptions(), 0);
    assert_eq!(hub.subscribe(2, "a"), "0");
}

// PER-14
#[test]
fn unsubscribing_deletes_the_position() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.publish_all(3);
    hub.drain(1);
    hub.ack(1, "a", 1);
    let call = r#"unsubscribe.persistent ["a"]"#;
    let asked = hub.ask(1, call).unwrap();
    // Nothing is sent while the store is asked.
    hub.publish();
    let delete = hub.hold();
    hub.run();
    assert_eq!(hub.drain(1), "");
    hub.topics.handle_completion(delete.0, delete.1);
    assert_eq!(hub.answers(), [(asked, r#"{"unsubscribed":true}"#.into())]);
    assert_eq!(hub.subscribe(1, "a"), "4", "it is a new one");
    assert_eq!(hub.events(), [""; 0]);
    // One that nobody is attached to can be deleted, and one of another connection, if the hook allows it.
    hub.topics.remove_connection(1);
    assert_eq!(hub.call(2, call), r#"{"unsubscribed":true}"#);
    assert_eq!(hub.call(2, call), r#"{"unsubscribed":false}"#);
    hub.subscribe(2, "a");
    assert_eq!(hub.call(3, call), r#"{"unsubscribed":true}"#);
    assert_eq!(hub.events(), ["a of 2: Deleted"]);
    assert_eq!(hub.topics.subscriptions(), 0);
}

// PER-14
#[test]
fn what_attaches_while_it_is_deleted_ends_with_it() {
    let deleted = r#"{"unsubscribed":true}"#;
    for (by, attached_first) in [(1, true), (1, false), (2, true), (2, false)] {
        let mut hub = Hub::new();
        let subscribe = r#"subscribe.persistent ["a","t"]"#;
        let first = hub.ask(1, subscribe).unwrap();
        let asked = hub.ask(by, r#"unsubscribe.persistent ["a"]"#).unwrap();
        let [attach, delete] = [hub.hold(), hub.hold()];
        if attached_first {
            hub.topics.handle_completion(attach.0, attach.1);
            assert_eq!(hub.answers()[0].0, first);
            hub.topics.handle_completion(delete.0, delete.1);
            assert_eq!(hub.answers(), [(asked, deleted.into())]);
            let told = ["a of 1: Deleted"].into_iter().filter(|_| by == 2);
            assert_eq!(hub.events(), told.collect::<Vec<_>>());
        } else {
            hub.topics.handle_completion(delete.0, delete.1);
            let answers = [(first, NOT_ATTACHED.into()), (asked, deleted.into())];
            assert_eq!(hub.answers(), answers);
            hub.topics.handle_completion(attach.0, attach.1);
            assert_eq!((hub.answers(), hub.events()), ([].into(), [].into()));
        }
        assert!(!hub.topics.holds("a"), "{by} {attached_first}");
        hub.publish_all(1);
        assert_eq!(hub.drain(1), "", "{by} {attached_first}");
        // One that attaches after it is a new one, whatever is told first.
        hub.ask(by, r#"unsubscribe.persistent ["a"]"#).unwrap();
        hub.ask(1, subscribe).unwrap();
        let [delete, attach] = [hub.hold(), hub.hold()];
        hub.topics.handle_completion(attach.0, attach.1);
        hub.topics.handle_completion(delete.0, delete.1);
        assert_eq!(hub.answers().len(), 2);
        hub.publish_all(1);
        assert_eq!(hub.drain(1), "2", "{by} {attached_first}");
    }
}

// PER-12
#[test]
fn a_takeover_counts_until_the_last_attach_is_told() {
    // Of two attaches of one connection, the first is told, and then another hub has the subscription.
    let mut hub = Hub::new();
    let subscribe = r#"subscribe.persistent ["a","t"]"#;
    hub.ask(1, subscribe).unwrap();
    let asked = hub.ask(1, subscribe).unwrap();
    let [first, second] = [hub.hold(), hub.hold()];
    hub.topics.handle_completion(first.0, first.1);
    assert_eq!(hub.answers().len(), 1);
    hub.topics.handle_takeover("a", 3);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    assert!(hub.topics.holds("a"));
    hub.topics.handle_completion(second.0, second.1);
    assert_eq!(hub.answers(), [(asked, NOT_ATTACHED.into())]);
    assert!(!hub.topics.holds("a"));
    // The later of two has come and gone when the earlier is told: it is no longer the owner.
    let mut hub = Hub::new();
    let asked = hub.ask(1, subscribe).unwrap();
    hub.ask(2, subscribe).unwrap();
    let [first, second] = [hub.hold(), hub.hold()];
    hub.topics.handle_completion(second.0, second.1);
    assert_eq!(hub.answers().len(), 1);
    hub.topics.remove_connection(2);
    hub.topics.handle_completion(first.0, first.1);
    assert_eq!(hub.answers(), [(asked, NOT_ATTACHED.into())]);
    assert!(!hub.topics.holds("a"));
}

// PER-14
#[test]
fn a_subscription_that_cannot_be_deleted_goes_on() {
    let mut hub = Hub::new();
    hub.subscribe(1, "a");
    hub.ask(1, r#"unsubscribe.persistent ["a"]"#).unwrap();
    hub.publish();
    hub.fail(StoreError::Full);
    assert_eq!(hub.answers()[0].1, "-32002");
    hub.run();
    assert_eq!(hub.drain(1), "1");
    // One that another hub has taken is lost.
    hub.ask(1, r#"unsubscribe.persistent ["a"]"#).unwrap();
    hub.fail(StoreError::Fenced);
    assert_eq!(hub.answers()[0].1, NOT_ATTACHED);
    assert_eq!(hub.events(), ["a of 1: TakenOver"]);
    // One that was deleted elsewhere is gone.
    hub.subscribe(1, "a");
    hub.ask(1, r#"unsubscribe.persistent ["a"]"#).unwrap();
    hub.fail(StoreError::Unknown);
    assert_eq!(hub.answers()[0].1, r#"{"unsubscribed":false}"#);
    assert_eq!(hub.topics.subscriptions(), 0);
    hub.subscribe(1, "a");
    hub.drain(1);
    hub.ask(1, r#"acknowledge.persistent ["a",1]"#).unwrap();
    hub.fail(StoreError::Unknown);
    assert_eq!(hub.answers()[0].1, NOT_ATTACHED);
    assert_eq!(hub.events(), ["a of 1: Deleted"]);
}

#[test]
fn a_subscription_that_is_deleted_before_its_answer_is_sent_stays_closed() {
    let mut hub = Hub::new();
    hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    hub.run();
    let answer = hub.topics.poll_answer().unwrap();
    hub.ask(1, r#"unsubscribe.persistent ["a"]"#).unwrap();
    hub.publish();
    hub.fail(StoreError::Full);
    hub.run();
    assert!(hub.topics.poll_delivery(1).is_none());
    hub.topics.release(answer.opens.unwrap());
    assert_eq!(hub.drain(1), "1");
}

// PER-14
#[test]
fn unsubscribing_may_keep_the_position() {
    let mut hub = Hub::with(|settings| settings.keep_position = true);
    hub.subscribe(1, "a");
    hub.publish_all(2);
    hub.drain(1);
    hub.ack(1, "a", 1);
    let call = r#"unsubscribe.persistent ["a"]"#;
    assert_eq!(hub.call(2, call), r#"{"unsubscribed":false}"#);
    assert_eq!(hub.call(1, call), r#"{"unsubscribed":true}"#);
    assert_eq!(hub.call(1, call), r#"{"unsubscribed":false}"#);
    assert_eq!(hub.drain(1), "");
    assert_eq!(hub.subscribe(2, "a"), "1");
    assert_eq!(hub.drain(2), "2");
}

// PER-09
#[test]
fn a_thousand_consumers_that_come_back_at_once_all_go_on() {
    let mut hub = Hub::new();
    for connection in 10..1010 {
        hub.topics.add_connection(connection);
        hub.subscribe(connection, &alloc::format!("s{connection}"));
    }
    hub.publish_all(3);
    for connection in 10..1010 {
        assert_eq!(hub.drain(connection), "1 2 3");
        let name = alloc::format!("s{connection}");
        assert_eq!(hub.ack(connection, &name, 2), "yes");
        hub.topics.remove_connection(connection);
    }
    for connection in 2010..3010 {
        hub.topics.add_connection(connection);
        let call = alloc::format!(r#"subscribe.persistent ["s{}","t"]"#, connection - 2000);
        hub.ask(connection, &call).unwrap();
    }
    hub.run();
    assert_eq!(hub.answers().len(), 1000);
    for connection in 2010..3010 {
        assert_eq!(hub.drain(connection), "1 3");
    }
    assert!(!matches!(
        hub.topics.poll_event(),
        Some(DurableEvent::Detached { .. })
    ));
}

// PER-09
#[test]
fn a_hub_that_attaches_and_is_overtaken_by_another_does_not_get_the_subscription() {
    let mut hub = Hub::new();
    let asked = hub.ask(1, r#"subscribe.persistent ["a","t"]"#).unwrap();
    let (id, result) = hub.hold();
    hub.topics.handle_takeover("a", 2);
    hub.topics.handle_takeover("a", 1);
    hub.topics.handle_completion(id, result);
    assert_eq!(hub.answers(), [(asked, NOT_ATTACHED.into())]);
    assert!(!hub.topics.holds("a"));
    assert_eq!(hub.subscribe(1, "a"), "0");
    assert!(hub.topics.holds("a"));
}
