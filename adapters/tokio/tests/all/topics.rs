//! Topics, as a peer without any library of ours subscribes to them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::pubsub::{FeedLimits, FeedOverflow, TopicSettings};
use antiphon_tokio::{
    CallError, Config, Hub, HubConfig, OwnedError, Published, Router, Style, SubscriptionError,
    SubscriptionSink, TcpServer, connect, reconnect,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);

fn router(hub: &Hub) -> Router {
    Router::new()
        .method("ping", [], || Ok::<_, OwnedError>("pong"))
        .hub(hub)
}

/// Subscribes a connection, and checks the answer.
async fn subscribe(lines: &mut Lines, topic: &str) {
    lines
        .say(&format!(
            r#"{{"jsonrpc":"2.0","method":"rpc.subscribe","params":{{"topic":"{topic}"}},"id":1}}"#
        ))
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","result":{"subscribed":true},"id":1}"#])
        .await;
}

fn publication(topic: &str, data: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"rpc.notification","params":{{"topic":"{topic}","data":{data}}}}}"#
    )
}

// EXA-06, PUB-02, PUB-03, PUB-05, PUB-07, PUB-09, PUB-11, EXT-11, TST-18
#[tokio::test]
async fn the_run_of_the_example() {
    let hub = Hub::new();
    let mut lines = Lines::to(Config::new(), router(&hub)).await;
    subscribe(&mut lines, "stock.prices.AAPL").await;
    let quote = json!({"price": 150.25, "symbol": "AAPL", "timestamp": "2026-01-15T10:30:00Z"});
    assert_eq!(hub.publish("stock.prices.AAPL", &quote).unwrap(), 1);
    assert_eq!(hub.publish("stock.prices.MSFT", &quote).unwrap(), 0);
    lines
        .hear(&[&publication("stock.prices.AAPL", &quote.to_string())])
        .await;
    // Twice is once.
    subscribe(&mut lines, "stock.prices.AAPL").await;
    subscribe(&mut lines, "stock.*.AAPL").await;
    assert_eq!(hub.publish("stock.prices.AAPL", &1).unwrap(), 1);
    lines.hear(&[&publication("stock.prices.AAPL", "1")]).await;
    assert_eq!(
        (hub.counts().connections, hub.counts().subscriptions),
        (1, 2)
    );
    for (topic, result) in [
        ("stock.prices.AAPL", true),
        ("stock.prices.AAPL", false),
        ("stock.*.AAPL", true),
    ] {
        lines
            .say(&format!(
                r#"{{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":["{topic}"],"id":2}}"#
            ))
            .await;
        lines
            .hear(&[&format!(
                r#"{{"jsonrpc":"2.0","result":{{"unsubscribed":{result}}},"id":2}}"#
            )])
            .await;
    }
    assert_eq!(hub.publish("stock.prices.AAPL", &2).unwrap(), 0);
    // All of a batch, or nothing.
    lines
        .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe.batch","params":{"topics":["a.>","b..c"]},"id":3}"#)
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params","data":"topics[1]: a token of the topic is empty"},"id":3}"#])
        .await;
    assert_eq!(hub.publish("a.b", &3).unwrap(), 0);
    lines
        .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe.batch","params":{"topics":["a.>","b.c"]},"id":4}"#)
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","result":{"subscribed":["a.>","b.c"]},"id":4}"#])
        .await;
    assert_eq!(hub.publish("a.b.c", &4).unwrap(), 1);
    assert_eq!(hub.publish("b.c", ()).unwrap(), 1);
    lines
        .hear(&[&publication("a.b.c", "4"), &publication("b.c", "null")])
        .await;
    assert!(
        hub.publish("a.*", &5).is_err(),
        "PUB-06: a pattern is no topic"
    );
    drop(lines);
    let is_gone = async {
        while hub.counts().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, is_gone)
        .await
        .expect("subscriptions end with their connection");
    assert_eq!(hub.publish("a.b.c", &6).unwrap(), 0);
}

// PUB-03, STREAMS §5: an event before the answer would name a topic that the peer does not know of yet.
#[tokio::test]
async fn a_topic_in_a_batch_whose_other_member_waits() {
    let (hub, go) = (Hub::new(), Arc::new(Notify::new()));
    let waits = Arc::clone(&go);
    let router = router(&hub).method("wait", [], move || {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok::<_, OwnedError>(1)
        }
    });
    let mut lines = Lines::to(Config::new(), router).await;
    lines
        .say(r#"[{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1},{"jsonrpc":"2.0","method":"wait","id":2}]"#)
        .await;
    while hub.publish("t", &1).unwrap() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    lines.hear_nothing().await;
    go.notify_one();
    lines
        .hear(&[
            r#"[{"jsonrpc":"2.0","result":{"subscribed":true},"id":1},{"jsonrpc":"2.0","result":1,"id":2}]"#,
            &publication("t", "1"),
        ])
        .await;
}

// PUB-14: with the defaults a peer that does not read is dropped, with one report, and keeps nobody up.
#[tokio::test]
async fn a_slow_subscriber_is_dropped_among_fast_ones() {
    let (hub, reports) = (Hub::new(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&reports);
    let router =
        router(&hub).on_report(move |_, report| seen.lock().unwrap().push(report.to_string()));
    let mut fast = Lines::to(Config::new(), router).await;
    let mut slow = fast.another().await;
    subscribe(&mut fast, "news").await;
    subscribe(&mut slow, "news").await;
    let text = "x".repeat(64 * 1024);
    let expected = publication("news", &format!("\"{text}\""));
    let mut reached = 2;
    for _ in 0..400 {
        reached = hub.publish("news", &text).unwrap();
        fast.hear(&[&expected]).await;
    }
    assert_eq!(reached, 1, "the slow one is gone");
    fast.hear_nothing().await;
    let reports = reports.lock().unwrap().clone();
    let dropped: Vec<_> = reports
        .iter()
        .filter(|report| report.contains("publications were dropped"))
        .collect();
    assert_eq!(dropped.len(), 1, "{reports:?}");
    assert!(dropped[0].contains("max_bytes"), "{dropped:?}");
}

// PUB-14: the oldest are dropped, and the report says how many.
#[tokio::test]
async fn the_oldest_messages_are_dropped_instead() {
    let mut config = HubConfig::new();
    config.feeds.overflow = FeedOverflow::DropMessage;
    config.feeds.max_messages = 8;
    let (hub, reports) = (Hub::with(config), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&reports);
    let router =
        router(&hub).on_report(move |_, report| seen.lock().unwrap().push(report.to_string()));
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let _running = server.start(Config::new(), router.into_make_service());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"rpc.subscribe\",\"params\":[\"n\"],\"id\":1}\n";
    stream.write_all(line).await.unwrap();
    while hub.counts().subscriptions == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let text = "x".repeat(64 * 1024);
    for number in 0..400 {
        hub.publish("n", &json!([number, text])).unwrap();
        tokio::task::yield_now().await;
    }
    // It reads at last: the newest is among what it gets.
    let (mut read, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    while !read.windows(5).any(|part| part == b"[399,") {
        let count = timeout(PATIENCE, stream.read(&mut buffer))
            .await
            .expect("in time")
            .unwrap();
        assert!(count > 0, "the connection lives");
        read.extend_from_slice(&buffer[..count]);
    }
    let dropped = async {
        loop {
            let known = reports.lock().unwrap().clone();
            if let Some(report) = known.iter().find(|report| report.contains("max_messages")) {
                return report.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, dropped).await.expect("a report");
}

// PUB-15: a hook at once or later, before any change.
#[tokio::test]
async fn a_check_refuses_before_anything_changes() {
    let refuses = |topic: &str| match topic.starts_with("secret") {
        true => Err(OwnedError::new(1003, "not for you")),
        false => Ok(()),
    };
    let at_once = Hub::with(HubConfig::new().check(move |_, topic| refuses(topic)));
    let later = Hub::with(HubConfig::new().check_async(move |request, topic| {
        let (decided, _peer) = (refuses(topic), request.peer());
        async move {
            tokio::task::yield_now().await;
            decided
        }
    }));
    for hub in [at_once, later] {
        let mut lines = Lines::to(Config::new(), router(&hub)).await;
        lines
            .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe.batch","params":[["open","secret.x"]],"id":1}"#)
            .await;
        lines
            .hear(&[r#"{"jsonrpc":"2.0","error":{"code":1003,"message":"not for you"},"id":1}"#])
            .await;
        assert_eq!(hub.counts().subscriptions, 0);
        subscribe(&mut lines, "open").await;
        assert_eq!(hub.publish("open", &1).unwrap(), 1);
        lines.hear(&[&publication("open", "1")]).await;
    }
}

// A snapshot comes first, and nothing is missed after it.
#[tokio::test]
async fn the_state_of_a_topic_comes_first() {
    let hub = Hub::new();
    let again = hub.clone();
    hub.on_subscribe("state.*", move |topic| {
        // A publication while the snapshot is made is not lost.
        again.publish(topic, "later").unwrap();
        Some(format!("state of {topic}"))
    })
    .unwrap();
    let mut lines = Lines::to(Config::new(), router(&hub)).await;
    subscribe(&mut lines, "state.a").await;
    lines
        .hear(&[
            &publication("state.a", r#""state of state.a""#),
            &publication("state.a", r#""later""#),
        ])
        .await;
    subscribe(&mut lines, "other").await;
    subscribe(&mut lines, "state.>").await;
    lines.hear_nothing().await;
}

// PUB-12, SEC-09, TST-12: the 257th, of topics and other subscriptions together.
#[tokio::test]
async fn topics_and_subscriptions_have_one_limit() {
    let hub = Hub::new();
    let router = router(&hub).subscription(
        Style::named("subscribe", "tick", "unsubscribe"),
        [],
        async |sink: SubscriptionSink<u8>| {
            sink.closed().await;
            Ok::<_, OwnedError>(())
        },
    );
    let mut lines = Lines::to(Config::new(), router).await;
    for number in 0..255 {
        subscribe(&mut lines, &format!("t.{number}")).await;
    }
    lines
        .say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#])
        .await;
    let refused =
        r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"Too many subscriptions"},"id":1}"#;
    for request in [r#""subscribe""#, r#""rpc.subscribe","params":["one.more"]"#] {
        lines
            .say(&format!(r#"{{"jsonrpc":"2.0","method":{request},"id":1}}"#))
            .await;
        lines.hear(&[refused]).await;
    }
    let mut small = HubConfig::new();
    small.topics.max_subscriptions = 1;
    let hub = Hub::with(small);
    let mut first = Lines::to(Config::new(), self::router(&hub)).await;
    let mut second = first.another().await;
    subscribe(&mut first, "a").await;
    second
        .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["a"],"id":1}"#)
        .await;
    second.hear(&[refused]).await;
}

// PUB-16, PUB-04: 1.0 has no topics; hostile topics are refused and change nothing.
#[tokio::test]
async fn hostile_topics_are_refused() {
    let hub = Hub::new();
    let mut old = Lines::to(Config::v1(), router(&hub)).await;
    old.say(r#"{"method":"rpc.subscribe","params":["a"],"id":1}"#)
        .await;
    old.hear(&[r#"{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":1}"#])
        .await;
    let mut lines = Lines::to(Config::new(), router(&hub)).await;
    let long = "x".repeat(1 << 19);
    let deep = ["t"; 17].join(".");
    for topic in ["a.>.b", "a..b", "", " ", "a\\u0000b", &long, &deep] {
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
    assert_eq!(hub.counts().subscriptions, 0);
    let mut plain = HubConfig::new();
    plain.topics = TopicSettings::new();
    plain.topics.wildcards = false;
    let hub = Hub::with(plain);
    let mut lines = Lines::to(Config::new(), router(&hub)).await;
    lines
        .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["a.*"],"id":1}"#)
        .await;
    assert!(lines.hear_line().await.contains("-32602"));
}

// All connections of a hub get publications in one order, also from several publishers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_subscribers_see_one_order() {
    let mut config = HubConfig::new();
    config.feeds = FeedLimits::new();
    config.feeds.max_messages = 10_000;
    let hub = Hub::with(config);
    let mut first = Lines::to(Config::new(), router(&hub)).await;
    let mut second = first.another().await;
    subscribe(&mut first, "n.>").await;
    subscribe(&mut second, "n.>").await;
    let publishers = [0, 1].map(|of| {
        let hub = hub.clone();
        std::thread::spawn(move || {
            for number in 0..500 {
                hub.publish(&format!("n.{of}"), &number).unwrap();
            }
        })
    });
    let (mut seen, mut next) = (Vec::new(), [0, 0]);
    for _ in 0..1000 {
        let line = first.hear_line().await;
        let of = usize::from(line.contains(r#""n.1""#));
        assert_eq!(line, publication(&format!("n.{of}"), &next[of].to_string()));
        next[of] += 1;
        seen.push(line);
    }
    let seen: Vec<&str> = seen.iter().map(String::as_str).collect();
    second.hear(&seen).await;
    for publisher in publishers {
        publisher.join().unwrap();
    }
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

// PUB-13, PUB-05, USE-15: a client reads topics as streams, and the last one that is dropped unsubscribes.
#[tokio::test]
async fn a_client_reads_topics_as_streams() {
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp://{}", server.local_addr());
    let _running = server.start(Config::new(), router(&hub).into_make_service());
    let client = connect(&*target, Config::new(), ()).await.unwrap();
    let mut first = client.topic::<u32>("stock.prices.*").await.unwrap();
    let mut second = client
        .peer()
        .unwrap()
        .topic::<u32>("stock.prices.*")
        .await
        .unwrap();
    let mut all = client.topic::<Option<u32>>("stock.>").await.unwrap();
    assert_eq!(
        (hub.counts().connections, hub.counts().subscriptions),
        (1, 2)
    );
    hub.publish("stock.prices.ACME", &7).unwrap();
    hub.publish("stock", &8).unwrap();
    hub.publish("stock.news", ()).unwrap();
    let acme = Published {
        topic: "stock.prices.ACME".to_owned(),
        data: 7,
    };
    assert_eq!(first.next().await.unwrap().unwrap(), acme);
    assert_eq!(second.next().await.unwrap().unwrap(), acme);
    assert_eq!(all.next().await.unwrap().unwrap().data, Some(7));
    let news = Published {
        topic: "stock.news".to_owned(),
        data: None,
    };
    assert_eq!(all.next().await.unwrap().unwrap(), news);
    drop(first);
    client.call::<String>("ping", ()).await.unwrap();
    assert_eq!(
        hub.counts().subscriptions,
        2,
        "another stream has the pattern"
    );
    drop(second);
    until(|| hub.counts().subscriptions == 1).await;
    drop(all);
    until(|| hub.counts().subscriptions == 0).await;
    let refused = client.topic::<u32>("a.>.b").await;
    assert!(
        matches!(refused, Err(CallError::Rejected(_))),
        "{refused:?}"
    );
    client.call::<String>("ping", ()).await.unwrap();
}

// USE-15, STREAMS §5: a map of handlers that is filled after the `.await`. What has another type is told in its place.
#[tokio::test]
async fn publications_in_the_read_of_the_answer_arrive() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp://{}", listener.local_addr().unwrap());
    let serves = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = Lines::on(stream);
        lines
            .hear(&[
                r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":{"topic":"t.*"},"id":1}"#,
            ])
            .await;
        let said = [
            r#"{"jsonrpc":"2.0","result":{"subscribed":true},"id":1}"#.to_owned(),
            publication("t.a", "1"),
            publication("t.b", r#""x""#),
            publication("u", "9"),
            r#"{"jsonrpc":"2.0","method":"rpc.notification","params":["t.c",3]}"#.to_owned(),
        ];
        lines.say(&said.join("\n")).await;
        lines
            .hear(&[
                r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":{"topic":"t.*"},"id":2}"#,
            ])
            .await;
    };
    let reads = async {
        let client = connect(&*target, Config::new(), ()).await.unwrap();
        let mut topics = client.topic::<u32>("t.*").await.unwrap();
        assert_eq!(topics.next().await.unwrap().unwrap().data, 1);
        let other = topics.next().await.unwrap();
        assert!(
            matches!(other, Err(SubscriptionError::Decode(_))),
            "{other:?}"
        );
        let last = Published {
            topic: "t.c".to_owned(),
            data: 3,
        };
        assert_eq!(topics.next().await.unwrap().unwrap(), last);
        drop(topics);
        client
    };
    let (client, ()) = tokio::join!(reads, serves);
    drop(client);
}

// PUB-17, PUB-07: a stream that opted in goes on after a reconnect, and says so; another one ends.
#[tokio::test]
async fn topics_are_subscribed_again_on_request() {
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start(Config::new(), router(&hub).into_make_service());
    let client = reconnect(&*format!("tcp://{address}"), Config::new(), ())
        .await
        .unwrap();
    let mut stays = client.topic::<u32>("t").resubscribe().await.unwrap();
    let mut ends = client.topic::<u32>("t").await.unwrap();
    hub.publish("t", &1).unwrap();
    assert_eq!(stays.next().await.unwrap().unwrap().data, 1);
    assert_eq!(ends.next().await.unwrap().unwrap().data, 1);
    running.shutdown(Duration::ZERO).await;
    let server = TcpServer::bind(address).await.unwrap();
    let _running = server.start(Config::new(), router(&hub).into_make_service());
    let ended = ends.next().await.unwrap();
    assert!(
        matches!(ended, Err(SubscriptionError::Ended(_))),
        "{ended:?}"
    );
    let again = timeout(PATIENCE, stays.next())
        .await
        .expect("in time")
        .unwrap();
    assert!(
        matches!(again, Err(SubscriptionError::Resubscribed { .. })),
        "{again:?}"
    );
    until(|| hub.publish("t", &2).unwrap() == 1).await;
    assert_eq!(stays.next().await.unwrap().unwrap().data, 2);
}

// PUB-01, ARC-17: without a hub there are no such methods.
#[tokio::test]
async fn a_router_without_a_hub_has_no_topics() {
    let router = Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"));
    let mut lines = Lines::to(Config::new(), router).await;
    for method in [
        "rpc.subscribe",
        "rpc.unsubscribe",
        "rpc.subscribe.batch",
        "rpc.unsubscribe.batch",
    ] {
        lines
            .say(&format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","params":["t"],"id":1}}"#
            ))
            .await;
        let refused =
            r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#;
        lines.hear(&[refused]).await;
    }
}
