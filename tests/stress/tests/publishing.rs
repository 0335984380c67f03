//! What publishing holds and allocates: each body once, however many peers do not read.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antiphon::session::Report;
use antiphon_net::{Io, duplex};
use antiphon_test_support::heap::{Counting, allocations_of_process, held_by_process};
use antiphon_tokio::pubsub::FeedOverflow;
use antiphon_tokio::{Config, Hub, HubConfig, Link, OwnedJson, Peer, Router, attach};

#[global_allocator]
static ALLOCATOR: Counting = Counting::of_process();

const SUBSCRIBE: &[u8] =
    b"{\"jsonrpc\":\"2.0\",\"method\":\"rpc.subscribe\",\"params\":[\"news.sport\"],\"id\":1}\n";
const BODY: usize = 64 * 1024;
const BODIES: usize = 100;
const SILENT: usize = 2_000;

/// The server's ends and the clients' ends of connections in memory, all of which have subscribed.
struct Subscribed {
    peers: Vec<Peer>,
    clients: Vec<Box<dyn Io>>,
}

async fn subscribe(hub: &Hub, router: &Router, connections: usize) -> Subscribed {
    let mut all = Subscribed {
        peers: Vec::new(),
        clients: Vec::new(),
    };
    for number in 1..=connections {
        let (mut near, far) = duplex(256);
        let link = Link::new(far);
        all.peers.push(attach(link, Config::new(), router.clone()));
        let written = poll_fn(|cx| near.poll_write(cx, SUBSCRIBE)).await.unwrap();
        assert_eq!(written, SUBSCRIBE.len());
        all.clients.push(near);
        settle(|| hub.counts().subscriptions == number).await;
    }
    all
}

/// Lets all tasks run until a condition holds, and then until they have nothing more to do.
async fn settle(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn on_one_thread<F: Future>(run: impl FnOnce() -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run())
}

/// 100 bodies of 64 KiB to 2000 peers that do not read, with feeds that hold them all.
async fn bodies_are_held_once() {
    let mut config = HubConfig::new();
    config.feeds.max_bytes = 8 << 20;
    config.feeds.overflow = FeedOverflow::DropMessage;
    let hub = Hub::with(config);
    let router = Router::new().hub(&hub);
    let all = subscribe(&hub, &router, SILENT).await;
    let before = held_by_process();
    for _ in 0..BODIES {
        assert_eq!(
            hub.publish("news.sport", &"x".repeat(BODY)).unwrap(),
            SILENT
        );
    }
    settle(|| true).await;
    let held = usize::try_from(held_by_process() - before).unwrap();
    let most = BODIES * BODY + SILENT * (64 * 1024 + 2048);
    let each = (held - BODIES * BODY) / SILENT;
    println!(
        "{BODIES} bodies of {BODY} bytes to {SILENT} that do not read: {held} bytes of {most}, {each} for each connection"
    );
    assert!(held <= most, "{held} of {most}");
    // A copy for each would be 13 GB.
    assert!(held > BODIES * BODY);
    drop(all);
}

/// With the defaults each of these peers is dropped, with one report each.
async fn the_silent_are_dropped_by_default() {
    let (hub, reports) = (Hub::new(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&reports);
    let router = Router::new().hub(&hub).on_report(move |_, report| {
        let is_loss = matches!(report, Report::PublicationsDropped { .. });
        counted.fetch_add(usize::from(is_loss), Ordering::Relaxed);
    });
    let all = subscribe(&hub, &router, SILENT).await;
    let mut reached = SILENT;
    for _ in 0..BODIES {
        reached = hub.publish("news.sport", &"x".repeat(BODY)).unwrap();
        tokio::task::yield_now().await;
    }
    settle(|| reports.load(Ordering::Relaxed) == SILENT).await;
    let closing = all.peers.iter().filter(|peer| peer.is_closing()).count();
    println!("with the defaults {closing} of {SILENT} connections were closed");
    assert_eq!(
        (reached, closing, reports.load(Ordering::Relaxed)),
        (0, SILENT, SILENT)
    );
}

/// 100 bytes to 1 and to 10 000 peers: as many allocations while it is published.
async fn a_further_receiver_allocates_nothing() {
    let text = OwnedJson::from_value(&"x".repeat(98)).unwrap();
    let mut costs = Vec::new();
    for receivers in [1, 10_000] {
        let hub = Hub::new();
        let router = Router::new().hub(&hub);
        let mut all = subscribe(&hub, &router, receivers).await;
        let mut cost = 0;
        for _ in 0..3 {
            let before = allocations_of_process();
            assert_eq!(
                hub.publish("news.sport", text.as_json()).unwrap(),
                receivers
            );
            cost = allocations_of_process() - before;
            for client in &mut all.clients {
                let mut read = [0; 4096];
                poll_fn(|cx| client.poll_read(cx, &mut read)).await.unwrap();
            }
            settle(|| true).await;
        }
        costs.push(cost);
    }
    println!("publishing to 1 and to 10 000 peers: {costs:?} allocations");
    assert!(costs[0] > 0);
    assert_eq!(costs[0], costs[1]);
}

// PUB-14, STREAMS §5: a copy for each outbox
fn publishing_holds_each_body_once() {
    let within = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(300));
        eprintln!("publishing: it takes too long");
        std::process::exit(1);
    });
    on_one_thread(bodies_are_held_once);
    on_one_thread(the_silent_are_dropped_by_default);
    on_one_thread(a_further_receiver_allocates_nothing);
    drop(within);
}

fn main() {
    publishing_holds_each_body_once();
    println!("test publishing_holds_each_body_once ... ok");
}
