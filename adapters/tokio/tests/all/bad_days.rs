//! Streams on bad days: peers that are slow, silent or gone, a thousand at once, and ends in mid-delivery.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_tokio::flow::FlowConfig;
use antiphon_tokio::{
    ClientConfig, Config, ConnectionConfig, Flow, Hub, OwnedError, ReconnectStrategy, Router,
    Style, SubscriptionError, SubscriptionSink, TcpServer, reconnect,
};
use futures_util::stream;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(30);
const TICKS: Style = Style::named("subscribe", "tick", "unsubscribe");

fn router(hub: &Hub) -> Router {
    Router::new()
        .method("ping", [], || Ok::<_, OwnedError>("pong"))
        .hub(hub)
}

fn publication(topic: &str, data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"rpc.notification","params":{{"topic":"{topic}","data":{data}}}}}"#
    )
}

async fn subscribe(lines: &mut Lines, topic: &str) {
    lines
        .say(&format!(
            r#"{{"jsonrpc":"2.0","method":"rpc.subscribe","params":["{topic}"],"id":1}}"#
        ))
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","result":{"subscribed":true},"id":1}"#])
        .await;
}

/// Waits until a condition holds.
async fn until(mut holds: impl FnMut() -> bool) {
    let waits = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("in time");
}

// PUB-14, PUB-07: only the slow one loses its connection, and the vanished one leaves the hub.
#[tokio::test]
async fn slow_silent_and_vanished_subscribers_among_fast_ones() {
    let hub = Hub::new();
    let mut fast = Lines::to(Config::new(), router(&hub)).await;
    let mut second = fast.another().await;
    let mut slow = fast.another().await;
    let mut silent = fast.another().await;
    let mut vanishes = fast.another().await;
    for lines in [&mut fast, &mut second, &mut slow, &mut vanishes] {
        subscribe(lines, "news").await;
    }
    subscribe(&mut silent, "other").await;
    vanishes.vanish();
    until(|| hub.counts().connections == 4).await;
    let text = "x".repeat(64 * 1024);
    let expected = publication("news", &format!("\"{text}\""));
    let mut reached = 3;
    for _ in 0..400 {
        reached = hub.publish("news", &text).unwrap();
        fast.hear(&[&expected]).await;
        second.hear(&[&expected]).await;
    }
    assert_eq!(reached, 2, "the slow one is gone");
    for lines in [&mut fast, &mut second, &mut silent] {
        lines.hear_nothing().await;
    }
    assert_eq!(hub.publish("other", &1).unwrap(), 1);
    silent.hear(&[&publication("other", "1")]).await;
}

// PUB-09, PUB-03: nothing of a topic follows the answer, though a thread publishes all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsubscribe_during_delivery_is_the_last_of_its_topic() {
    let hub = Hub::new();
    let mut lines = Lines::to(Config::new(), router(&hub)).await;
    let (again, stops) = (hub.clone(), Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stops);
    let publishing = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            again.publish("t", &1).unwrap();
            std::thread::sleep(Duration::from_micros(20));
        }
    });
    let event = publication("t", "1");
    for _ in 0..50 {
        subscribe(&mut lines, "t").await;
        lines.hear(&[&event, &event]).await;
        lines
            .say(r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":["t"],"id":2}"#)
            .await;
        let mut line = event.clone();
        while line == event {
            line = lines.hear_line().await;
        }
        assert_eq!(
            line,
            r#"{"jsonrpc":"2.0","result":{"unsubscribed":true},"id":2}"#
        );
        lines.hear_nothing().await;
    }
    stops.store(true, Ordering::Relaxed);
    publishing.join().unwrap();
}

// PUB-04: a topic of 1 MiB is refused as others are, if the message may be so long.
#[tokio::test]
async fn a_topic_of_a_mebibyte_is_refused_in_a_short_answer() {
    let hub = Hub::new();
    let mut config = Config::new();
    config.limits.max_message_bytes = 4 << 20;
    let mut lines = Lines::to(config, router(&hub)).await;
    for topic in [&*"x".repeat(1 << 20), "$SYS.>", "$SYS"] {
        lines
            .say(&format!(
                r#"{{"jsonrpc":"2.0","method":"rpc.subscribe","params":["{topic}"],"id":1}}"#
            ))
            .await;
        let answer = lines.hear_line().await;
        assert!(
            answer.contains(r#""code":-32602"#) && answer.len() < 300,
            "{answer}"
        );
    }
    lines.hear_nothing().await;
    assert_eq!(hub.counts().subscriptions, 0);
}

// PUB-17, CON-12: a server that comes back is found by a thousand clients, and each is told of the gap.
#[tokio::test]
async fn a_thousand_clients_reconnect_at_once() {
    const CLIENTS: usize = 1000;
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start(Config::new(), router(&hub).into_make_service());
    let (mut clients, heard) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..CLIENTS {
        let heard = Arc::clone(&heard);
        clients.spawn(async move {
            let mut config = ClientConfig::from(Config::new());
            config.reconnect = ReconnectStrategy::Fixed {
                delay: Duration::from_millis(200),
                max_attempts: 1000,
            };
            let client = reconnect(&*format!("tcp://{address}"), config, ())
                .await
                .unwrap();
            let mut topic = client.topic::<u32>("t").resubscribe().await.unwrap();
            assert_eq!(topic.next().await.unwrap().unwrap().data, 1);
            heard.fetch_add(1, Ordering::Relaxed);
            let gap = topic.next().await.unwrap();
            assert!(
                matches!(gap, Err(SubscriptionError::Resubscribed { .. })),
                "{gap:?}"
            );
            assert_eq!(topic.next().await.unwrap().unwrap().data, 2);
        });
    }
    until(|| hub.counts().subscriptions == CLIENTS).await;
    assert_eq!(hub.publish("t", &1).unwrap(), CLIENTS);
    until(|| heard.load(Ordering::Relaxed) == CLIENTS).await;
    running.shutdown(Duration::from_secs(5)).await;
    until(|| hub.counts().subscriptions == 0).await;
    let server = TcpServer::bind(address).await.unwrap();
    let _running = server.start(Config::new(), router(&hub).into_make_service());
    until(|| hub.counts().subscriptions == CLIENTS).await;
    assert_eq!(hub.publish("t", &2).unwrap(), CLIENTS);
    let all = async {
        while let Some(client) = clients.join_next().await {
            client.unwrap();
        }
    };
    timeout(PATIENCE, all).await.expect("in time");
}

// FLO-12, USE-15: layers end them first, so a shutdown with a thousand of each waits for none.
#[tokio::test]
async fn a_shutdown_with_a_thousand_subscriptions_and_pulls_is_immediate() {
    const CONNECTIONS: usize = 5;
    let hub = Hub::new();
    let waits = async |sink: SubscriptionSink<u32>| {
        sink.closed().await;
        Ok::<_, OwnedError>(())
    };
    let router = router(&hub)
        .subscription(TICKS, [], waits)
        .method("watch", [], || {
            Flow::of(stream::pending::<Result<u32, OwnedError>>())
        });
    let mut options = ConnectionConfig::from(Config::new());
    options.flows = Some(FlowConfig::new());
    options.max_running_requests = 1;
    options.linger = Duration::from_millis(20);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start(options, router.into_make_service());
    let mut all = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut lines = Lines::on(TcpStream::connect(address).await.unwrap());
        for number in 1..=100 {
            subscribe(&mut lines, &format!("t.{number}")).await;
            lines
                .say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
                .await;
            let answer = format!(r#"{{"jsonrpc":"2.0","result":"{number:#x}","id":1}}"#);
            lines.hear(&[&answer]).await;
        }
        lines
            .say(r#"{"jsonrpc":"2.0","method":"watch","id":1}"#)
            .await;
        lines
            .hear(&[r#"{"jsonrpc":"2.0","result":1,"id":1}"#])
            .await;
        let pull = r#"{"jsonrpc":"2.0","method":"kotlinx.rpc.jsonrpc.internal.nextFlowValue","params":[1],"id":9}"#;
        lines.say(&[pull; 200].join("\n")).await;
        lines.hear_nothing().await;
        all.push(lines);
    }
    assert_eq!(hub.counts().subscriptions, CONNECTIONS * 100);
    let shutdown = tokio::spawn(running.shutdown(Duration::from_secs(60)));
    let closed = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Flow closed"},"id":9}"#;
    for lines in &mut all {
        let rest = lines.hear_rest().await;
        let pulls = rest.lines().filter(|line| *line == closed).count();
        assert_eq!(pulls, 200, "{rest}");
    }
    timeout(Duration::from_secs(5), shutdown)
        .await
        .expect("at once")
        .unwrap();
    until(|| hub.counts().connections == 0).await;
}
