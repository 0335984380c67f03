//! Servers that are killed under load: nothing that was said to be stored is lost.
//!
//! `KILLS=20 cargo test -p antiphon-nats kills -- --nocapture` is the long form.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::durable::{Durability, DurableSettings, Start, Store};
use antiphon_tokio::{Config, Durable, DurableConfig, Router, TcpServer, connect};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::commands::append;
use super::server::{PATIENCE, Server, ask, programs};
use crate::{NatsOptions, NatsStore};

const PUBLISHERS: usize = 8;
const CONSUMERS: usize = 3;
/// How many messages a consumer has before it acknowledges them.
const HELD: usize = 4;

/// What publishers were told, and what one of them never heard of.
#[derive(Default)]
struct Told {
    stored: BTreeMap<String, u64>,
    unanswered: BTreeSet<String>,
}

#[derive(Default)]
struct Seen {
    messages: BTreeMap<u64, String>,
    repeats: u64,
    attachments: u64,
    acknowledged: BTreeSet<u64>,
}

fn hub(options: &NatsOptions) -> Durable {
    let store = NatsStore::connect(options).unwrap();
    let mut config = DurableConfig::new();
    config.settings = DurableSettings::new();
    config.settings.start = Start::EarliestRetained;
    config.settings.ack_timeout = None;
    config.settings.retry_delay = Duration::from_millis(100);
    Durable::with(store, config)
}

async fn publish(hub: Durable, number: usize, told: Arc<Mutex<Told>>, stop: Arc<AtomicBool>) {
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        count += 1;
        let data = format!("{number}-{count}");
        match hub.publish("orders", &data).await {
            Ok(sequence) => {
                told.lock().unwrap().stored.insert(data, sequence);
            }
            Err(_) => {
                told.lock().unwrap().unanswered.insert(data);
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Consumes on one connection after another, and knows nothing of what an earlier one has brought.
async fn consume(address: Arc<str>, name: String, end: Arc<AtomicU64>) -> Seen {
    let mut seen = Seen::default();
    loop {
        let peer = connect(&*address, Config::new(), ()).await.unwrap();
        let Ok(mut stream) = peer.durable::<String>(&name, "orders").await else {
            sleep(Duration::from_millis(20)).await;
            continue;
        };
        seen.attachments += 1;
        let mut held = Vec::new();
        'attached: loop {
            let last = seen.messages.last_key_value().map_or(0, |(last, _)| *last);
            if last >= end.load(Ordering::Relaxed) {
                return seen;
            }
            let Ok(Some(Ok(message))) = timeout(Duration::from_secs(1), stream.next()).await else {
                break;
            };
            let sequence = message.sequence;
            assert!(
                !seen.acknowledged.contains(&sequence),
                "{name}: {sequence} comes again"
            );
            match seen.messages.insert(sequence, message.data.clone()) {
                None => assert_eq!(sequence, last + 1, "{name}: in order, without a hole"),
                Some(before) => assert_eq!(before, message.data),
            }
            seen.repeats += u64::from(sequence <= last);
            held.push(message);
            if held.len() == HELD {
                for message in held.drain(..) {
                    let sequence = message.sequence;
                    if message.ack().await.is_err() {
                        // The answer may be lost: then the message comes again, or does not.
                        break 'attached;
                    }
                    seen.acknowledged.insert(sequence);
                }
            }
        }
    }
}

/// A hub under load, over servers of which some are killed meanwhile.
struct Load {
    runtime: Runtime,
    hub: Durable,
    told: Arc<Mutex<Told>>,
    stop: Arc<AtomicBool>,
    end: Arc<AtomicU64>,
    publishers: Vec<tokio::task::JoinHandle<()>>,
    consumers: Vec<tokio::task::JoinHandle<Seen>>,
}

impl Load {
    fn start(options: &NatsOptions) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let hub = hub(options);
        let router = Router::new().durable(&hub);
        let server = runtime.block_on(TcpServer::bind("127.0.0.1:0")).unwrap();
        let address: Arc<str> = format!("tcp://{}", server.local_addr()).into();
        let running =
            runtime.block_on(async { server.start(Config::new(), router.into_make_service()) });
        std::mem::forget(running);
        let (told, stop, end) = (
            Arc::default(),
            Arc::default(),
            Arc::new(AtomicU64::new(u64::MAX)),
        );
        let consumers = (0..CONSUMERS)
            .map(|i| {
                runtime.spawn(consume(
                    Arc::clone(&address),
                    format!("c{i}"),
                    Arc::clone(&end),
                ))
            })
            .collect();
        let publishers = (0..PUBLISHERS)
            .map(|i| {
                runtime.spawn(publish(
                    hub.clone(),
                    i,
                    Arc::clone(&told),
                    Arc::clone(&stop),
                ))
            })
            .collect();
        Self {
            runtime,
            hub,
            told,
            stop,
            end,
            publishers,
            consumers,
        }
    }

    fn stored(&self) -> usize {
        self.told.lock().unwrap().stored.len()
    }

    /// Waits until so many more were stored.
    fn wait(&self, more: usize) -> Duration {
        let (began, before) = (Instant::now(), self.stored());
        while self.stored() < before + more {
            assert!(began.elapsed() < PATIENCE, "publishing does not resume");
            thread::sleep(Duration::from_millis(5));
        }
        began.elapsed()
    }

    /// Ends, compares, and returns how many messages were stored and not answered.
    fn finish(self, what: &str) -> usize {
        let wait = |future| {
            self.runtime
                .block_on(async { timeout(PATIENCE, future).await })
        };
        self.stop.store(true, Ordering::Relaxed);
        for publisher in self.publishers {
            wait(publisher).unwrap().unwrap();
        }
        let last = loop {
            let last = self
                .runtime
                .block_on(async { self.hub.publish("orders", "the end").await });
            if let Ok(last) = last {
                break last;
            }
        };
        self.end.store(last, Ordering::Relaxed);
        let told = self.told.lock().unwrap();
        let (mut repeats, mut kept) = (0, 0);
        for consumer in self.consumers {
            let seen = self
                .runtime
                .block_on(async { timeout(PATIENCE, consumer).await })
                .unwrap()
                .unwrap();
            assert!(seen.messages.keys().copied().eq(1..=last));
            for (data, sequence) in &told.stored {
                assert_eq!(
                    seen.messages.get(sequence),
                    Some(data),
                    "it was said to be stored"
                );
            }
            kept = seen
                .messages
                .values()
                .filter(|data| told.unanswered.contains(*data))
                .count();
            repeats += seen.repeats;
        }
        let (stored, unanswered) = (told.stored.len(), told.unanswered.len());
        eprintln!(
            "{what}, {stored} publishes answered, {unanswered} not, of which {kept} were stored, {repeats} repeats"
        );
        kept
    }
}

// PER-04 PER-09 TST-18
#[test]
fn nothing_that_was_said_to_be_stored_is_lost_when_the_server_is_killed() {
    let kills: u64 = env::var("KILLS").map_or(3, |kills| kills.parse().unwrap());
    for program in programs() {
        let mut server = Server::start(&program);
        let load = Load::start(&NatsOptions::new(server.url()));
        assert_eq!(load.hub.durability(), Durability::Process);
        let mut random = super::commands::Random(7);
        for _ in 0..kills {
            load.wait(50);
            // The moment is what is tested.
            thread::sleep(Duration::from_millis(random.below(100)));
            server.kill();
            server.restart();
        }
        let kept = load.finish(&format!("{kills} kills"));
        assert!(
            kills < 20 || kept > 0,
            "too gentle: no kill between a message and its answer"
        );
    }
}

// PER-04 TST-18
#[test]
fn three_servers_lose_nothing_when_one_is_killed_and_publishing_resumes_within_ten_seconds() {
    // How long the two others need to elect a leader is theirs: 4 to 9 s, on a machine that does nothing else.
    let (is_long, all) = (env::var("KILLS").is_ok(), programs());
    let (skipped, most) = match is_long {
        true => (0, Duration::from_secs(10)),
        false => (all.len().saturating_sub(1), Duration::from_secs(30)),
    };
    for program in all.into_iter().skip(skipped) {
        let mut servers = Server::cluster(&program, 3);
        let all: Vec<_> = servers.iter().map(Server::url).collect();
        let mut options = NatsOptions::new(all.join(","));
        options.replicas = 3;
        // They need a while to find each other.
        let until = Instant::now() + PATIENCE;
        while let Err(error) = NatsStore::connect(&options) {
            assert!(Instant::now() < until, "{error}");
            thread::sleep(Duration::from_millis(100));
        }
        let probe = NatsStore::connect(&options).unwrap();
        assert_eq!(probe.durability(), Durability::Replicated);
        ask(&probe, append("orders", "first", None)).unwrap();
        // The worst one: it leads the stream, and nobody sees at once that it is gone.
        let leader = probe.leader("orders").expect("a stream has a leader");
        let index: usize = leader.trim_start_matches('s').parse().unwrap();
        let mut others = all.clone();
        others.remove(index);
        options.servers = others.join(",");
        options.timeout = Duration::from_secs(3);
        let load = Load::start(&options);
        load.wait(100);
        servers[index].kill();
        // More than were answered already.
        let span = load.wait(2 * PUBLISHERS);
        assert!(span < most, "{span:?}");
        load.wait(100);
        servers[index].restart();
        load.wait(100);
        load.finish(&format!(
            "1 of 3 killed, resumed after {} ms",
            span.as_millis()
        ));
    }
}

impl NatsStore {
    /// The server that leads the stream of a topic.
    fn leader(&self, topic: &str) -> Option<String> {
        let (hub, runtime) = (Arc::clone(&self.lanes.hub), self.runtime.as_ref()?);
        let (sender, leader) = std::sync::mpsc::channel();
        let name = hub.link.names.log_stream(topic);
        runtime.handle.spawn(async move {
            let stream = hub.link.jetstream.get_stream(name).await.unwrap();
            sender.send(stream.cached_info().cluster.clone()).unwrap();
        });
        leader.recv_timeout(PATIENCE).unwrap()?.leader
    }
}
