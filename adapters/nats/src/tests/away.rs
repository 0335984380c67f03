//! What happens while the server is away, and what is refused.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::durable::{Command, Completion, Store, StoreError};

use super::commands::{append, attach, read};
use super::server::{Server, ask, programs};
use crate::{NatsOptions, NatsStore};

fn trim(up_to: u64) -> Command {
    Command::Trim {
        topic: "t".into(),
        up_to,
    }
}

// PER-04
#[test]
fn while_the_server_is_away_commands_fail_in_time_without_a_busy_loop_and_then_all_resumes() {
    for program in programs() {
        let mut server = Server::start(&program);
        let mut options = NatsOptions::new(server.url());
        options.timeout = Duration::from_secs(2);
        let store = NatsStore::connect(&options).unwrap();
        ask(&store, append("t", "a", None)).unwrap();
        server.kill();
        // It counts how often the store looks whether the server is back.
        let door = TcpListener::bind(("127.0.0.1", server.port)).unwrap();
        door.set_nonblocking(true).unwrap();
        let (began, is_over) = (Instant::now(), AtomicBool::new(false));
        let knocks = thread::scope(|scope| {
            let knocks = scope.spawn(|| {
                let mut knocks = 0;
                while !is_over.load(Ordering::Relaxed) {
                    match door.accept() {
                        Ok(_) => knocks += 1,
                        // Nobody is there.
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                }
                knocks
            });
            let commands = [
                append("t", "b", None),
                read("t", 0),
                attach("s", "t"),
                trim(1),
            ];
            for command in commands {
                let asked = Instant::now();
                assert_eq!(ask(&store, command), Err(StoreError::Failed));
                let span = asked.elapsed();
                assert!(span < Duration::from_secs(4), "{span:?}");
            }
            is_over.store(true, Ordering::Relaxed);
            knocks.join().unwrap()
        });
        let span = began.elapsed().as_millis();
        assert!(
            (1..=3 + span / 50).contains(&knocks),
            "{knocks} in {span} ms"
        );
        drop(door);
        server.restart();
        let stored = ask(&store, append("t", "c", None));
        assert_eq!(stored, Ok(Completion::Appended { sequence: 2 }));
        let Ok(Completion::Records { records, .. }) = ask(&store, read("t", 0)) else {
            panic!();
        };
        assert_eq!(records.len(), 2);
    }
}

// PER-04
#[test]
fn no_sequence_is_used_again_after_all_was_trimmed_and_the_server_was_killed() {
    for program in programs() {
        let mut server = Server::start(&program);
        let store = server.store();
        for count in 1..=3 {
            for _ in 0..2 {
                ask(&store, append("t", "a", None)).unwrap();
            }
            ask(&store, trim(u64::MAX - 1)).unwrap();
            server.kill();
            server.restart();
            let Ok(Completion::Records { log, records }) = ask(&store, read("t", 0)) else {
                panic!();
            };
            assert_eq!((log.first, log.last), (2 * count + 1, 2 * count));
            assert!(records.is_empty() && log.bytes == 0);
        }
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_the_servers_and_the_reason_and_no_password() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let refused = |options: &NatsOptions| NatsStore::connect(options).unwrap_err().to_string();
    let mut options = NatsOptions::new(format!("nats://user:secret@127.0.0.1:{port}"));
    let error = refused(&options);
    assert!(
        error.starts_with(&format!("nats://127.0.0.1:{port}: ")),
        "{error}"
    );
    options.prefix = "a.b".into();
    assert!(refused(&options).contains("the prefix"));
    options = NatsOptions::new("nats://");
    refused(&options);
    for program in programs() {
        let server = Server::start(&program);
        drop(server.store());
        let mut options = NatsOptions::new(server.url());
        options.replicas = 3;
        let error = refused(&options);
        assert!(
            error.contains("has 1 replicas, and 3 are wanted"),
            "{error}"
        );
    }
}

// PER-04
#[test]
fn what_was_submitted_before_the_store_is_dropped_is_done() {
    for program in programs() {
        let server = Server::start(&program);
        let store = server.store();
        let (sender, stored) = std::sync::mpsc::channel();
        for _ in 0..600 {
            let sender = sender.clone();
            let done =
                antiphon::durable::Completer::new(move |result| sender.send(result).unwrap());
            store.submit(append("t", "a", None), done);
        }
        drop((store, sender));
        assert_eq!(stored.iter().filter(Result::is_ok).count(), 600);
        // A message that is too long for the server.
        let store = server.store();
        let long = "x".repeat(2 << 20);
        assert_eq!(ask(&store, append("t", &long, None)), Err(StoreError::Full));
        thread::yield_now();
    }
}
