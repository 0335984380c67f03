//! A subscription has one owner among the hubs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::durable::{Command, Completion, Cursor, Observer, Store, StoreError};

use super::commands::{append, attach, read};
use super::server::{PATIENCE, Server, ask, programs};
use crate::NatsStore;
use crate::hub::ROUND;

/// What a hub was told, and which subscriptions it holds.
#[derive(Default)]
struct Told {
    grown: Vec<(String, u64)>,
    taken: Vec<(String, u64)>,
    held: BTreeSet<String>,
}

struct Watching(Arc<Mutex<Told>>);

impl Observer for Watching {
    fn grown(&self, topic: &str, last: u64) {
        self.0.lock().unwrap().grown.push((topic.into(), last));
    }

    fn taken_over(&self, subscription: &str, fence: u64) {
        let mut told = self.0.lock().unwrap();
        told.held.remove(subscription);
        told.taken.push((subscription.into(), fence));
    }

    fn holds(&self, subscription: &str) -> bool {
        self.0.lock().unwrap().held.contains(subscription)
    }
}

fn hub(server: &Server) -> (NatsStore, Arc<Mutex<Told>>) {
    let (store, told) = (server.store(), Arc::default());
    store.observe(Box::new(Watching(Arc::clone(&told))));
    (store, told)
}

fn attached(
    store: &NatsStore,
    told: &Mutex<Told>,
    takes_over: bool,
) -> Result<(u64, Cursor), StoreError> {
    let mut command = attach("s", "t");
    if let Command::Attach {
        takes_over: own, ..
    } = &mut command
    {
        *own = takes_over;
    }
    match ask(store, command)? {
        Completion::Attached { fence, cursor, .. } => {
            told.lock().unwrap().held.insert("s".into());
            Ok((fence, cursor))
        }
        other => panic!("{other:?}"),
    }
}

fn save(fence: u64, floor: u64) -> Command {
    let mut cursor = Cursor::at(0);
    cursor.floor = floor;
    Command::Save {
        subscription: "s".into(),
        fence,
        cursor,
    }
}

fn delete(fence: u64) -> Command {
    Command::Delete {
        subscription: "s".into(),
        fence,
    }
}

/// Waits until something was told.
fn until(told: &Mutex<Told>, is_told: impl Fn(&Told) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_told(&told.lock().unwrap()) {
        assert!(Instant::now() < until, "it was not told");
        thread::sleep(Duration::from_millis(5));
    }
}

// PER-14
#[test]
fn the_owner_before_is_told_first_and_can_neither_acknowledge_nor_delete() {
    for program in programs() {
        let server = Server::start(&program);
        let ((one, told_one), (two, told_two)) = (hub(&server), hub(&server));
        for data in ["a", "b", "c"] {
            ask(&one, append("t", data, None)).unwrap();
        }
        let (first, _) = attached(&one, &told_one, true).unwrap();
        ask(&one, save(first, 1)).unwrap();
        let (second, cursor) = attached(&two, &told_two, true).unwrap();
        assert!(second > first && cursor.floor == 1, "{cursor:?}");
        assert_eq!(told_one.lock().unwrap().taken, [("s".into(), second)]);
        for command in [save(first, 2), delete(first), delete(0)] {
            assert_eq!(ask(&one, command), Err(StoreError::Fenced));
        }
        assert_eq!(ask(&two, save(second, 3)), Ok(Completion::Saved));
        // A consumer that only comes if there is no other.
        assert_eq!(attached(&one, &told_one, false), Err(StoreError::Held));
        told_two.lock().unwrap().held.clear();
        let (third, cursor) = attached(&one, &told_one, false).unwrap();
        assert!(third > second && cursor.floor == 3, "{cursor:?}");
        assert_eq!(ask(&two, save(second, 3)), Err(StoreError::Fenced));
        assert_eq!(ask(&one, delete(third)), Ok(Completion::Deleted));
        assert_eq!(ask(&one, save(third, 3)), Err(StoreError::Unknown));
        let (fourth, cursor) = attached(&two, &told_two, true).unwrap();
        assert!(fourth > third && cursor == Cursor::at(0), "{cursor:?}");
    }
}

// PER-14
#[test]
fn the_subscription_of_a_hub_that_is_gone_can_be_had_within_five_seconds() {
    for program in programs() {
        let server = Server::start(&program);
        let ((one, told_one), (two, told_two)) = (hub(&server), hub(&server));
        attached(&one, &told_one, true).unwrap();
        assert_eq!(attached(&two, &told_two, false), Err(StoreError::Held));
        drop(one);
        let began = Instant::now();
        while attached(&two, &told_two, false).is_err() {
            assert!(began.elapsed() < Duration::from_secs(5));
        }
    }
}

// PER-04
#[test]
fn a_hub_is_told_of_what_another_publishes_also_what_came_while_it_had_no_connection() {
    for program in programs() {
        let mut server = Server::start(&program);
        let ((one, told_one), (two, told_two)) = (hub(&server), hub(&server));
        attached(&two, &told_two, true).unwrap();
        let began = Instant::now();
        for sequence in 1..=3 {
            ask(&one, append("t", "a", None)).unwrap();
            until(&told_two, |told| {
                told.grown.contains(&("t".into(), sequence))
            });
        }
        let span = began.elapsed();
        assert!(span < 2 * ROUND, "the round did not bring it: {span:?}");
        assert!(
            told_one.lock().unwrap().grown.is_empty(),
            "it has no consumer"
        );
        server.kill();
        server.restart();
        let stored = loop {
            match ask(&one, append("t", "b", None)) {
                Ok(Completion::Appended { sequence }) => break sequence,
                other => assert_eq!(other, Err(StoreError::Failed)),
            }
        };
        until(&told_two, |told| told.grown.contains(&("t".into(), stored)));
    }
}

// PER-14
#[test]
fn an_owner_that_was_not_told_finds_out_by_itself() {
    for program in programs() {
        let server = Server::start(&program);
        let (one, told) = hub(&server);
        attached(&one, &told, true).unwrap();
        let (hub, runtime) = (Arc::clone(&one.lanes.hub), one.runtime.as_ref().unwrap());
        runtime.handle.spawn(async move {
            let (revision, _) = hub.link.get("s").await.unwrap();
            let other = "99 other t 0 0".into();
            hub.link.put("s", other, revision).await.unwrap();
        });
        until(&told, |told| told.taken == [("s".into(), 99)]);
    }
}

// PER-04 PER-05
#[test]
fn two_hubs_that_publish_at_once_get_all_sequences_once_and_each_its_own_in_order() {
    for program in programs() {
        let server = Server::start(&program);
        let stores = [server.store(), server.store()];
        let publish = |store: &NatsStore| {
            let (sender, stored) = std::sync::mpsc::channel();
            for number in 0..1000 {
                let sender = sender.clone();
                let done =
                    antiphon::durable::Completer::new(move |result| sender.send(result).unwrap());
                store.submit(append("t", &number.to_string(), None), done);
            }
            drop(sender);
            let sequence = |result| match result {
                Ok(Completion::Appended { sequence }) => sequence,
                other => panic!("{other:?}"),
            };
            stored.iter().map(sequence).collect::<Vec<u64>>()
        };
        let all = thread::scope(|scope| {
            let both = stores
                .each_ref()
                .map(|store| scope.spawn(move || publish(store)));
            both.map(|one| one.join().unwrap())
        });
        assert!(all.iter().all(|one| one.is_sorted()), "in order");
        let mut all = all.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=2000), "once");
        let Ok(Completion::Records { log, records }) = ask(&stores[0], read("t", 0)) else {
            panic!();
        };
        assert!((log.first, log.last, records.len()) == (1, 2000, 2000));
    }
}
