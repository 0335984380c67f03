//! Subscriptions and topics at their edges: requests that fail after all, slow answers, busy connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::service::{Cx, Interceptor, Prefix, Reply};
use antiphon_tokio::{
    Config, ConnectionConfig, Hub, HubConfig, OwnedError, Peer, Router, Style, SubscriptionSink,
    TcpServer,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);
const TICKS: Style = Style::named("subscribe", "tick", "unsubscribe");

fn router() -> Router {
    Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"))
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

/// Sends the numbers from 0 on without an end.
async fn flood(sink: SubscriptionSink<u32>) -> Result<(), OwnedError> {
    for i in 0.. {
        sink.send(&i).await?;
    }
    Ok(())
}

// USE-15: the request has failed, so its peer knows of no id.
#[tokio::test]
async fn a_refused_subscription_sends_nothing() {
    let (kept, mut keeps) = mpsc::channel::<SubscriptionSink<u32>>(1);
    let refuses = move |sink: SubscriptionSink<u32>| {
        kept.try_send(sink).unwrap();
        Err::<(), _>(OwnedError::new(1002, "not you"))
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], refuses)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":1002,"message":"not you"},"id":1}"#])
        .await;
    let sink = keeps.recv().await.unwrap();
    let sent = timeout(PATIENCE, sink.send(&7)).await.expect("in time");
    assert!(sent.is_err(), "there is no subscription");
    raw.hear_nothing().await;
}

// USE-15: a stream that is full of other output does not keep the publications back.
#[tokio::test]
async fn publications_come_between_the_events_of_a_flood() {
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let router = router().hub(&hub).subscription(TICKS, [], flood);
    let _running = server.start(Config::new(), router.into_make_service());
    let mut stream = TcpStream::connect(address).await.unwrap();
    let lines = [
        r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#,
        "",
    ];
    stream.write_all(lines.join("\n").as_bytes()).await.unwrap();
    while hub.counts().subscriptions == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (mut heard, mut buffer) = (String::new(), vec![0; 1 << 18]);
    for number in 0..5 {
        assert_eq!(hub.publish("t", &number).unwrap(), 1);
        let expected = publication("t", &number.to_string());
        let found = async {
            while !heard.contains(&expected) {
                let tail = heard.len().saturating_sub(200);
                heard.drain(..tail);
                let count = stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "the connection lives");
                heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        };
        timeout(PATIENCE, found)
            .await
            .expect("a publication in time");
    }
}

// PUB-03: answers to many calls do not keep the publications back.
#[tokio::test]
async fn publications_come_between_many_answers() {
    let hub = Hub::new();
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let _running = server.start(Config::new(), router().hub(&hub).into_make_service());
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    write
        .write_all(
            b"{\"jsonrpc\":\"2.0\",\"method\":\"rpc.subscribe\",\"params\":[\"t\"],\"id\":1}\n",
        )
        .await
        .unwrap();
    let calls = "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n".repeat(64);
    let calling =
        tokio::spawn(async move { while write.write_all(calls.as_bytes()).await.is_ok() {} });
    while hub.counts().subscriptions == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (mut heard, mut buffer) = (String::new(), vec![0; 1 << 16]);
    for number in 0..20 {
        assert_eq!(hub.publish("t", &number).unwrap(), 1);
        let expected = publication("t", &number.to_string());
        let found = async {
            while !heard.contains(&expected) {
                let tail = heard.len().saturating_sub(200);
                heard.drain(..tail);
                let count = read.read(&mut buffer).await.unwrap();
                assert!(count > 0, "the connection lives");
                heard.push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        };
        timeout(Duration::from_secs(3), found)
            .await
            .expect("a publication in time");
    }
    calling.abort();
}

// PUB-14: a state is kept once, however often a peer subscribes, and not beyond its subscription.
#[tokio::test]
async fn states_do_not_pile_up_behind_an_open_batch() {
    let (hub, go) = (Hub::new(), Arc::new(Notify::new()));
    hub.on_subscribe(">", |topic| Some(format!("state of {topic}")))
        .unwrap();
    let waits = Arc::clone(&go);
    let router = router().hub(&hub).method("wait", [], move || {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok::<_, OwnedError>(1)
        }
    });
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"[{"jsonrpc":"2.0","method":"rpc.subscribe","params":["a"],"id":1},{"jsonrpc":"2.0","method":"wait","id":2}]"#)
        .await;
    subscribe(&mut raw, ">").await;
    for _ in 0..10 {
        subscribe(&mut raw, "a").await;
    }
    for number in 0..10 {
        let topic = format!("b.{number}");
        subscribe(&mut raw, &topic).await;
        raw.hear(&[&publication(&topic, &format!("\"state of {topic}\""))])
            .await;
        raw.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":["b.{number}"],"id":2}}"#
        ))
        .await;
        raw.hear(&[r#"{"jsonrpc":"2.0","result":{"unsubscribed":true},"id":2}"#])
            .await;
    }
    go.notify_one();
    raw.hear(&[
        r#"[{"jsonrpc":"2.0","result":{"subscribed":true},"id":1},{"jsonrpc":"2.0","result":1,"id":2}]"#,
        &publication("a", r#""state of a""#),
    ])
    .await;
    raw.hear_nothing().await;
}

// PUB-14: a publication that no output can hold is told.
#[tokio::test]
async fn a_publication_that_is_too_large_is_reported() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let hub = Hub::new();
    let router = router()
        .hub(&hub)
        .on_report(move |_, report| seen.lock().unwrap().push(report.to_string()));
    let mut config = Config::new();
    config.limits.max_outbox_bytes = 4096;
    config.limits.soft_max_outbox_bytes = 2048;
    let mut raw = Lines::to(config, router).await;
    subscribe(&mut raw, "t").await;
    hub.publish("t", &"x".repeat(8192)).unwrap();
    hub.publish("t", &1).unwrap();
    raw.hear(&[&publication("t", "1")]).await;
    raw.hear_nothing().await;
    let reports = reports.lock().unwrap().join(" ");
    assert!(reports.contains("max_outbox_bytes"), "{reports}");
}

// More waiters than there is space for do not wake each other for ever.
#[tokio::test]
async fn many_wait_for_one_end() {
    let polls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&polls);
    let waits = move |sink: SubscriptionSink<u32>| {
        for _ in 0..100 {
            let (sink, counts) = (sink.clone(), Arc::clone(&counts));
            tokio::spawn(async move {
                let mut closed = std::pin::pin!(sink.closed());
                std::future::poll_fn(|cx| {
                    counts.fetch_add(1, Ordering::Relaxed);
                    closed.as_mut().poll(cx)
                })
                .await;
            });
        }
        Ok::<_, OwnedError>(())
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], waits)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#])
        .await;
    for _ in 0..200 {
        raw.hear_nothing().await;
    }
    let polls = polls.load(Ordering::Relaxed);
    assert!(polls < 1000, "{polls} polls of 100 futures");
}

// PUB-14: the transport of a peer that does not read is given up, too.
#[tokio::test]
async fn a_peer_that_never_reads_loses_its_connection() {
    let hub = Hub::new();
    let (closed, mut has_closed) = mpsc::channel(1);
    let router = router().hub(&hub).on_closed(move |_, why| {
        let _ = closed.try_send(format!("{why:?}"));
    });
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(Duration::from_millis(200));
    let mut raw = Lines::to(config, router).await;
    subscribe(&mut raw, "t").await;
    let text = "x".repeat(64 * 1024);
    while hub.publish("t", &text).unwrap() == 1 {
        tokio::task::yield_now().await;
    }
    let why = timeout(PATIENCE, has_closed.recv()).await.expect("in time");
    assert!(
        why.as_deref().unwrap_or_default().contains("too slowly"),
        "{why:?}"
    );
    let gone = async {
        while hub.counts().connections > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("it leaves the hub");
}

// A flood neither holds up a shutdown, nor the end of a peer that has ended its direction.
#[tokio::test]
async fn a_flood_holds_up_no_end() {
    for is_shutdown in [true, false] {
        let hub = Hub::new();
        let again = hub.clone();
        let publishing = tokio::spawn(async move {
            loop {
                again.publish("t", &1).unwrap();
                tokio::task::yield_now().await;
            }
        });
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let router = router().hub(&hub).subscription(TICKS, [], flood);
        let running = server.start(Config::new(), router.into_make_service());
        let (mut read, mut write) = TcpStream::connect(address).await.unwrap().into_split();
        let lines = [
            r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#,
            r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#,
            "",
        ];
        write.write_all(lines.join("\n").as_bytes()).await.unwrap();
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..50 {
            assert!(read.read(&mut buffer).await.unwrap() > 0);
        }
        let ends = async { while read.read(&mut buffer).await.unwrap_or(0) > 0 {} };
        let reading = timeout(Duration::from_secs(5), ends);
        if is_shutdown {
            let shutdown = running.shutdown(Duration::from_secs(30));
            let (ended, shut) = tokio::join!(reading, timeout(Duration::from_secs(5), shutdown));
            ended.expect("the end of the stream");
            shut.expect("at once");
        } else {
            write.shutdown().await.unwrap();
            reading.await.expect("the end of the stream");
        }
        publishing.abort();
    }
}

// PUB-15: a check that never decides ends with its connection.
#[tokio::test]
async fn a_check_that_never_decides_ends_with_its_connection() {
    struct Tells(mpsc::Sender<()>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.try_send(());
        }
    }
    let (dropped, mut was_dropped) = mpsc::channel(4);
    let hub = Hub::with(HubConfig::new().check_async(move |_, _| {
        let tells = Tells(dropped.clone());
        async move {
            let _tells = tells;
            std::future::pending().await
        }
    }));
    let mut raw = Lines::to(Config::new(), router().hub(&hub)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#)
        .await;
    raw.hear_nothing().await;
    drop(raw);
    timeout(PATIENCE, was_dropped.recv())
        .await
        .expect("in time")
        .unwrap();
}

// PUB-15: a check that panics is answered and reported.
#[tokio::test]
async fn a_check_that_panics_is_answered() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let hub = Hub::with(HubConfig::new().check_async(|_, _| async {
        tokio::task::yield_now().await;
        panic!("as told")
    }));
    let router = router()
        .hub(&hub)
        .on_report(move |_, report| seen.lock().unwrap().push(report.to_string()));
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":1}"#])
        .await;
    raw.hear_nothing().await;
    let reports = reports.lock().unwrap().join(" ");
    assert!(reports.contains("panic"), "{reports}");
}

// PUB-07: a connection that has ended while its check ran does not stay in the hub.
#[tokio::test]
async fn a_connection_that_has_ended_does_not_join_a_hub() {
    let (go, peers) = (
        Arc::new(Notify::new()),
        Arc::new(Mutex::new(Vec::<Peer>::new())),
    );
    let (waits, keeps) = (Arc::clone(&go), Arc::clone(&peers));
    let (decided, mut has_decided) = mpsc::channel(1);
    let hub = Hub::with(HubConfig::new().check_async(move |request, _| {
        keeps.lock().unwrap().push(request.peer());
        let (waits, decided) = (Arc::clone(&waits), decided.clone());
        async move {
            waits.notified().await;
            let _ = decided.try_send(());
            Ok(())
        }
    }));
    let (closed, mut has_closed) = mpsc::channel(1);
    let router = router().hub(&hub).on_closed(move |_, _| {
        let _ = closed.try_send(());
    });
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#)
        .await;
    raw.hear_nothing().await;
    drop(raw);
    has_closed.recv().await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    go.notify_one();
    let _ = timeout(Duration::from_secs(1), has_decided.recv()).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(hub.counts().connections, 0);
    assert_eq!(peers.lock().unwrap().len(), 1);
}

// A request that was cancelled without an answer has brought no id.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_cancelled_while_it_subscribes() {
    let (sinks, mut given) = mpsc::channel::<SubscriptionSink<u32>>(1);
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let mut options = ConnectionConfig::from(Config::new());
    options.config.dialect.cancel_answer = antiphon_tokio::CancelAnswer::Silent;
    options.spawn_handlers = true;
    let slow = move |sink: SubscriptionSink<u32>| {
        sinks.try_send(sink).unwrap();
        let _ = goes.lock().unwrap().recv_timeout(PATIENCE);
        Ok::<_, OwnedError>(())
    };
    let mut raw = Lines::to(options, router().subscription(TICKS, [], slow)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    let sink = given.recv().await.unwrap();
    raw.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#)
        .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    go.send(()).unwrap();
    let sent = timeout(PATIENCE, sink.send(&7)).await.expect("in time");
    assert!(sent.is_err(), "there is no subscription");
    raw.hear_nothing().await;
}

// Two versions on one connection: 1.0 has no subscriptions.
#[tokio::test]
async fn version_1_beside_version_2() {
    let mut config = Config::new();
    config.dialect.version = antiphon_tokio::VersionPolicy::V1AndV2;
    let hub = Hub::new();
    let router = router().hub(&hub).subscription(TICKS, [], flood);
    let mut raw = Lines::to(config, router).await;
    for (method, params) in [("subscribe", ""), ("rpc.subscribe", r#""t""#)] {
        raw.say(&format!(
            r#"{{"method":"{method}","params":[{params}],"id":1}}"#
        ))
        .await;
        let answer = raw.hear_line().await;
        assert!(answer.contains("-32601"), "{answer}");
    }
}

// A notification is no request, so nothing begins.
#[tokio::test]
async fn a_notification_subscribes_to_nothing() {
    let hub = Hub::new();
    let router = router().hub(&hub).subscription(TICKS, [], flood);
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"]}"#)
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe"}"#).await;
    raw.hear_nothing().await;
    assert_eq!(hub.counts().subscriptions, 0);
}

// An interceptor that replaces the answer.
#[tokio::test]
async fn an_interceptor_refuses_after_the_handler() {
    struct Refuses;
    impl Interceptor<antiphon_tokio::Request> for Refuses {
        fn response(&self, _: &Cx, request: &antiphon_tokio::Request, reply: &mut Reply) {
            if request.method() == "subscribe" {
                reply.replace(Err(OwnedError::new(1002, "not you")));
            }
        }
    }
    let (sinks, mut given) = mpsc::channel::<SubscriptionSink<u32>>(1);
    let keeps = move |sink: SubscriptionSink<u32>| {
        sinks.try_send(sink).unwrap();
        Ok::<_, OwnedError>(())
    };
    let router = router().subscription(TICKS, [], keeps).intercept(Refuses);
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":1002,"message":"not you"},"id":1}"#])
        .await;
    let sink = given.recv().await.unwrap();
    let sent = timeout(PATIENCE, sink.send(&7)).await.expect("in time");
    assert!(sent.is_err(), "there is no subscription");
}

// USE-15: a handler that fails while its answer is made is told as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_beside_the_answer_is_told() {
    let fails = async |_sink: SubscriptionSink<u32>| {
        let mut is_second = false;
        std::future::poll_fn(move |_| match std::mem::replace(&mut is_second, true) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        })
        .await;
        Err::<(), _>(OwnedError::new(1001, "no more"))
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], fails)).await;
    for number in 1..1000 {
        raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
            .await;
        raw.hear(&[
            &format!(r#"{{"jsonrpc":"2.0","result":"{number:#x}","id":1}}"#),
            &format!(
                r#"{{"jsonrpc":"2.0","method":"tick","params":{{"subscription":"{number:#x}","error":{{"code":1001,"message":"no more"}}}}}}"#
            ),
        ])
        .await;
    }
}

// A nested router has its interceptors, and a limit of time is not one for subscriptions.
#[tokio::test]
async fn a_subscription_in_a_nested_router() {
    let waits = async |sink: SubscriptionSink<u32>| {
        tokio::time::sleep(Duration::from_millis(60)).await;
        sink.send(&1).await?;
        Ok::<_, OwnedError>(())
    };
    let clock = Router::new()
        .subscription(TICKS, [], waits)
        .check(|_, request| match request.method() {
            "clock.refused" => Err(OwnedError::new(1002, "not you")),
            _ => Ok(()),
        });
    let router = router()
        .nest(Prefix::separated("clock", "."), clock)
        .handler_timeout(Duration::from_millis(20));
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"clock.subscribe","id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":1}}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","error":{"code":-32001,"message":"Stream completed"}}}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"clock.subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x2","id":1}"#])
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"clock.unsubscribe","params":["0x2"],"id":2}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":2}"#])
        .await;
    raw.hear_nothing().await;
}

#[tokio::test]
async fn odd_ids_unsubscribe_nothing() {
    let (sinks, _given) = mpsc::channel::<SubscriptionSink<u32>>(1);
    let keeps = move |sink: SubscriptionSink<u32>| {
        sinks.try_send(sink).unwrap();
        Ok::<_, OwnedError>(())
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], keeps)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#])
        .await;
    for id in [
        r#""0x0""#,
        r#""0xFFFFFFFFFFFFFFFFFF""#,
        r#""0x+1""#,
        "1",
        "1e400",
        r#""0X1""#,
        r#""\u0000""#,
        r#""0x１""#,
        r#""""#,
        r#""0x1 ""#,
        r#""\ud800""#,
    ] {
        raw.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"unsubscribe","params":[{id}],"id":2}}"#
        ))
        .await;
        let answer = raw.hear_line().await;
        assert!(!answer.contains("true"), "{id}: {answer}");
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"unsubscribe","params":["\u0030x1"],"id":2}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":2}"#])
        .await;
}
