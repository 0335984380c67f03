//! Publishers and consumers of a durable topic, whose server is killed again and again: `kill -9` at any moment.
//!
//! `KILLS=200 cargo test -p antiphon-peer --test durable_kills -- --nocapture` is the long form.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon_tokio::{CallError, Client, Config, connect};
use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

/// Publishers, and consumers.
const EACH: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);
/// How many messages a consumer has before it acknowledges them.
const HELD: usize = 4;

/// A server, which ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

fn start(file: &Path, address: &str) -> (Server, String) {
    let store = format!("redb:{}", file.display());
    let mut peer = Command::new(env!("CARGO_BIN_EXE_antiphon-peer"))
        .args([
            "--runtime",
            "tokio",
            "--layers",
            "--store",
            &store,
            "server",
            address,
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(peer.stderr.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .strip_prefix("listening ")
        .expect("it listens")
        .trim()
        .to_owned();
    (Server(peer), address)
}

/// A connection to the server that runs now, or runs soon.
async fn client(address: &str) -> Client {
    let until = Instant::now() + PATIENCE;
    loop {
        match connect(address, Config::new(), ()).await {
            Ok(client) => return client,
            Err(error) if Instant::now() > until => panic!("{error}"),
            Err(_) => sleep(Duration::from_millis(5)).await,
        }
    }
}

/// What publishers were told, and what one of them never heard of.
#[derive(Default)]
struct Told {
    stored: BTreeMap<String, u64>,
    unanswered: BTreeSet<String>,
}

async fn publish(address: Arc<str>, number: usize, told: Arc<Mutex<Told>>, stop: Arc<AtomicBool>) {
    let (mut peer, mut count) = (client(&address).await, 0);
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let data = format!("{number}-{count}");
        let call = peer.call::<u64>("publish_durable", &("orders", &data));
        match call.await {
            Ok(sequence) => {
                told.lock().unwrap().stored.insert(data, sequence);
            }
            Err(error) => {
                // The disk has space and no faults: a living server stores what it is given.
                assert!(!matches!(error, CallError::Remote(_)), "{data}: {error}");
                told.lock().unwrap().unanswered.insert(data);
                peer = client(&address).await;
            }
        }
    }
}

/// What a consumer has got.
#[derive(Default)]
struct Seen {
    messages: BTreeMap<u64, String>,
    acknowledged: BTreeSet<u64>,
    deliveries: u64,
    repeats: u64,
    attachments: u64,
}

/// Consumes on one connection after another, and knows nothing of what an earlier one has brought.
async fn consume(
    address: Arc<str>,
    name: String,
    end: Arc<AtomicU64>,
    ready: Arc<AtomicU64>,
) -> Seen {
    let mut seen = Seen::default();
    loop {
        let peer = client(&address).await;
        let Ok(mut stream) = peer.durable::<String>(&name, "orders").await else {
            continue;
        };
        ready.fetch_add(u64::from(seen.attachments == 0), Ordering::Relaxed);
        seen.attachments += 1;
        let mut held = Vec::new();
        loop {
            let last = seen.messages.last_key_value().map_or(0, |(last, _)| *last);
            if last >= end.load(Ordering::Relaxed) {
                return seen;
            }
            let Ok(Some(Ok(message))) = timeout(Duration::from_secs(1), stream.next()).await else {
                // The connection is lost, or nothing is published any more: what is held is acknowledged.
                break;
            };
            let sequence = message.sequence;
            assert!(
                !seen.acknowledged.contains(&sequence),
                "{name}: {sequence} comes again"
            );
            let before = seen.messages.insert(sequence, message.data.clone());
            match before {
                None => assert_eq!(sequence, last + 1, "{name}: in order, without a hole"),
                Some(before) => assert_eq!(before, message.data),
            }
            seen.deliveries += 1;
            seen.repeats += u64::from(sequence <= last);
            held.push(message);
            if held.len() == HELD {
                let acks = held.drain(..).map(|message| async move {
                    let sequence = message.sequence;
                    message.ack().await.ok().map(|()| sequence)
                });
                let acked = join_all(acks).await;
                seen.acknowledged.extend(acked.iter().flatten());
                if acked.contains(&None) {
                    // What waits in the stream would only come again.
                    break;
                }
            }
        }
    }
}

// PER-04 PER-09 PER-14 TST-18
#[test]
fn nothing_that_was_said_to_be_stored_is_lost_when_the_server_is_killed() {
    let kills: u64 = env::var("KILLS").map_or(10, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders.redb");
    let (mut peer, address) = start(&file, "tcp://127.0.0.1:0");
    let address: Arc<str> = address.into();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (told, stop) = (Arc::default(), Arc::default());
    let (end, ready) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::default());
    let consumers: Vec<_> = (0..EACH)
        .map(|i| {
            let (end, ready) = (Arc::clone(&end), Arc::clone(&ready));
            runtime.spawn(consume(Arc::clone(&address), format!("c{i}"), end, ready))
        })
        .collect();
    let until = Instant::now() + PATIENCE;
    while ready.load(Ordering::Relaxed) < EACH as u64 {
        assert!(Instant::now() < until, "all have subscribed");
        thread::yield_now();
    }
    let publishers: Vec<_> = (0..EACH)
        .map(|i| {
            runtime.spawn(publish(
                Arc::clone(&address),
                i,
                Arc::clone(&told),
                Arc::clone(&stop),
            ))
        })
        .collect();
    let mut random = 7_u64;
    for _ in 0..kills {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        // The moment is what is tested.
        thread::sleep(Duration::from_millis(60 + (random >> 33) % 200));
        drop(peer);
        (peer, _) = start(&file, &address);
    }
    stop.store(true, Ordering::Relaxed);
    for publisher in publishers {
        runtime
            .block_on(async { timeout(PATIENCE, publisher).await })
            .unwrap()
            .unwrap();
    }
    let last = runtime.block_on(async {
        let peer = client(&address).await;
        peer.call::<u64>("publish_durable", &("orders", "the end"))
            .await
            .unwrap()
    });
    end.store(last, Ordering::Relaxed);
    let told = told.lock().unwrap();
    let (mut deliveries, mut repeats, mut kept_unanswered) = (0, 0, 0);
    // The more kills, the more there is to be caught up with.
    let patience = PATIENCE * (1 + kills as u32 / 20);
    for consumer in consumers {
        let seen = runtime
            .block_on(async { timeout(patience, consumer).await })
            .unwrap()
            .unwrap();
        assert!(seen.messages.keys().copied().eq(1..=last));
        assert!(
            seen.repeats <= HELD as u64 * seen.attachments,
            "only what was held comes again: {} times, {} attachments",
            seen.repeats,
            seen.attachments
        );
        for (data, sequence) in &told.stored {
            assert_eq!(
                seen.messages.get(sequence),
                Some(data),
                "it was said to be stored"
            );
        }
        let unanswered = seen
            .messages
            .values()
            .filter(|data| told.unanswered.contains(*data));
        kept_unanswered = unanswered.count();
        deliveries += seen.deliveries;
        repeats += seen.repeats;
    }
    drop(peer);
    println!(
        "{kills} kills, {} publishes answered, {} not, of which {kept_unanswered} were stored, {deliveries} deliveries, {repeats} repeats",
        told.stored.len(),
        told.unanswered.len(),
    );
    assert!(repeats > 0, "too gentle: nothing came again");
    assert!(
        kills < 100 || kept_unanswered > 0,
        "too gentle: no kill between a commit and its answer"
    );
}
