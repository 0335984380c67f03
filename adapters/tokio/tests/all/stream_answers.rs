//! Subscriptions whose answers come late, are too large or are replaced by errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_tokio::service::{Cx, Interceptor, Reply};
use antiphon_tokio::{
    CancelStyle, Config, Hub, HubConfig, OwnedError, Request, Router, Style, SubscriptionSink,
    connect,
};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);
const TICKS: Style = Style::named("subscribe", "tick", "unsubscribe");

fn router() -> Router {
    Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"))
}

/// A router with a method that waits until it is told to go on.
fn waiting(hub: &Hub) -> (Router, Arc<Notify>) {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let router = router().hub(hub).method("wait", [], move || {
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok::<_, OwnedError>(1)
        }
    });
    (router, go)
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
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("in time");
}

// PUB-03, PUB-14: other topics go on, and their publications do not close the connection.
#[tokio::test]
async fn a_subscribe_in_an_open_batch_holds_only_its_own_topic() {
    let hub = Hub::new();
    let (router, go) = waiting(&hub);
    let mut lines = Lines::to(Config::new(), router).await;
    subscribe(&mut lines, "open").await;
    lines
        .say(r#"[{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1},{"jsonrpc":"2.0","method":"rpc.subscribe","params":["open"],"id":2},{"jsonrpc":"2.0","method":"wait","id":3}]"#)
        .await;
    until(|| hub.counts().subscriptions == 2).await;
    hub.publish("t", &0).unwrap();
    for number in 0..3000 {
        assert_eq!(hub.publish("open", &number).unwrap(), 1);
        lines
            .hear(&[&publication("open", &number.to_string())])
            .await;
    }
    hub.publish("t", &1).unwrap();
    lines.hear_nothing().await;
    go.notify_one();
    lines
        .hear(&[
            r#"[{"jsonrpc":"2.0","result":{"subscribed":true},"id":1},{"jsonrpc":"2.0","result":{"subscribed":true},"id":2},{"jsonrpc":"2.0","result":1,"id":3}]"#,
            &publication("t", "0"),
            &publication("t", "1"),
        ])
        .await;
}

// PUB-14: what is held is bounded like all that waits.
#[tokio::test]
async fn the_topic_of_an_open_batch_has_a_limit() {
    let hub = Hub::new();
    let (router, _go) = waiting(&hub);
    let (closed, mut has_closed) = mpsc::channel(1);
    let router = router.on_closed(move |_, why| {
        let _ = closed.try_send(format!("{why:?}"));
    });
    let mut lines = Lines::to(Config::new(), router).await;
    lines
        .say(r#"[{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1},{"jsonrpc":"2.0","method":"wait","id":2}]"#)
        .await;
    until(|| hub.counts().subscriptions == 1).await;
    let reached = (0..1025).filter(|_| hub.publish("t", &1).unwrap() == 1);
    assert_eq!(reached.count(), 1024);
    let why = timeout(PATIENCE, has_closed.recv()).await.expect("in time");
    assert!(why.unwrap().contains("too slowly"));
}

/// A batch whose first answer leaves no space for the id of a subscription.
fn full_batch(subscribe: &str) -> (Config, Router, String, String) {
    let mut config = Config::new();
    config.limits.max_batch_reply_bytes = 390;
    let router = router().method("large", [], || Ok::<_, OwnedError>("x".repeat(320)));
    let batch = format!(
        r#"[{{"jsonrpc":"2.0","method":"large","id":1}},{{"jsonrpc":"2.0","method":{subscribe},"id":2}}]"#
    );
    let answer = format!(
        r#"[{{"jsonrpc":"2.0","result":"{}","id":1}},{{"jsonrpc":"2.0","error":{{"code":-32603,"message":"Internal error"}},"id":2}}]"#,
        "x".repeat(320)
    );
    (config, router, batch, answer)
}

// USE-15: a peer that was not told the id has no stream.
#[tokio::test]
async fn an_id_that_does_not_fit_into_its_batch_ends_the_stream() {
    let (sinks, mut given) = mpsc::channel::<SubscriptionSink<u32>>(1);
    let keeps = move |sink: SubscriptionSink<u32>| {
        sinks.try_send(sink).unwrap();
        Ok::<_, OwnedError>(())
    };
    let (config, router, batch, answer) = full_batch(r#""subscribe""#);
    let mut lines = Lines::to(config, router.subscription(TICKS, [], keeps)).await;
    lines.say(&batch).await;
    lines.hear(&[&answer]).await;
    let sink = given.recv().await.unwrap();
    let sent = timeout(PATIENCE, sink.send(&7)).await.expect("in time");
    assert!(
        sent.is_err() && sink.is_closed(),
        "there is no subscription"
    );
    lines.hear_nothing().await;
}

// PUB-07
#[tokio::test]
async fn a_topic_whose_answer_does_not_fit_into_its_batch_is_not_subscribed() {
    let hub = Hub::new();
    let (config, router, batch, answer) = full_batch(r#""rpc.subscribe","params":["t"]"#);
    let mut lines = Lines::to(config, router.hub(&hub)).await;
    lines.say(&batch).await;
    lines.hear(&[&answer]).await;
    assert_eq!(hub.publish("t", &1).unwrap(), 0);
    assert_eq!(hub.counts().subscriptions, 0);
    lines.hear_nothing().await;
}

/// Answers a method with an error, or panics, after it was served.
struct Refuses(&'static str);

impl Interceptor<Request> for Refuses {
    fn response(&self, _: &Cx, request: &Request, reply: &mut Reply) {
        if request.method().starts_with("rpc.subscribe") {
            assert!(self.0 != "panics", "as told");
            reply.replace(Err(OwnedError::new(1002, "not you")));
        }
    }
}

// PUB-07: only what the request has begun is undone.
#[tokio::test]
async fn a_subscribe_whose_answer_an_interceptor_replaces_is_undone() {
    for (how, error) in [
        ("refuses", r#"{"code":1002,"message":"not you"}"#),
        ("panics", r#"{"code":-32603,"message":"Internal error"}"#),
    ] {
        let at_once = Hub::new();
        let later = Hub::with(HubConfig::new().check_async(|_, _| async {
            tokio::task::yield_now().await;
            Ok(())
        }));
        for hub in [at_once, later] {
            hub.on_subscribe(">", |topic| Some(format!("state of {topic}")))
                .unwrap();
            let router = router().hub(&hub).intercept(Refuses(how));
            let mut lines = Lines::to(Config::new(), router).await;
            for request in [
                r#""rpc.subscribe","params":["t"]"#,
                r#""rpc.subscribe.batch","params":[["a","b.*"]]"#,
            ] {
                lines
                    .say(&format!(r#"{{"jsonrpc":"2.0","method":{request},"id":1}}"#))
                    .await;
                lines
                    .hear(&[&format!(r#"{{"jsonrpc":"2.0","error":{error},"id":1}}"#)])
                    .await;
                assert_eq!(hub.counts().subscriptions, 0, "{how}");
                lines.hear_nothing().await;
            }
            assert_eq!(hub.publish("t", &1).unwrap(), 0);
        }
    }
}

// A router has one hub: the second one would never be asked.
#[test]
fn a_second_hub_is_refused() {
    let build = || {
        let _: Router = Router::new().hub(&Hub::new()).hub(&Hub::new());
    };
    let panicked = catch_unwind(AssertUnwindSafe(build)).unwrap_err();
    let said = panicked.downcast_ref::<String>().cloned();
    assert_eq!(
        said.as_deref(),
        Some("the router has a hub already: it serves the topics of one")
    );
}

/// Counts what lives.
struct Lives(Arc<AtomicUsize>);

impl Lives {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// PUB-15: a check has the limit of handlers, and what it has taken is given back.
#[tokio::test]
async fn a_check_that_never_ends_is_given_up_in_time() {
    let alive = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&alive);
    let hub = Hub::with(HubConfig::new().check_async(move |_, _| {
        let lives = Lives::new(&counts);
        async move {
            let _lives = lives;
            std::future::pending().await
        }
    }));
    let router = router()
        .hub(&hub)
        .handler_timeout(Duration::from_millis(20));
    let mut config = antiphon_tokio::ConnectionConfig::from(Config::new());
    config.max_running_requests = 2;
    let mut lines = Lines::to(config, router).await;
    for _ in 0..5 {
        lines
            .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#)
            .await;
    }
    for _ in 0..5 {
        let answer = lines.hear_line().await;
        assert_eq!(
            answer,
            r#"{"jsonrpc":"2.0","error":{"code":-32005,"message":"Request timeout"},"id":1}"#
        );
    }
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    assert_eq!(hub.counts().subscriptions, 0);
    lines.hear_nothing().await;
}

// PUB-15: a request that is cancelled takes its check with it.
#[tokio::test]
async fn a_check_ends_with_its_request() {
    let alive = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&alive);
    let hub = Hub::with(HubConfig::new().check_async(move |_, _| {
        let lives = Lives::new(&counts);
        async move {
            let _lives = lives;
            std::future::pending().await
        }
    }));
    let mut lines = Lines::to(Config::new(), router().hub(&hub)).await;
    lines
        .say(r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":["t"],"id":1}"#)
        .await;
    until(|| alive.load(Ordering::Relaxed) == 1).await;
    lines
        .say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#)
        .await;
    let answer = lines.hear_line().await;
    assert!(answer.contains(r#""error""#), "{answer}");
    until(|| alive.load(Ordering::Relaxed) == 0).await;
    assert_eq!(hub.counts().subscriptions, 0);
    lines.hear_nothing().await;
}

// PUB-08: the peer may not have begun with the subscribe, and would find nothing to unsubscribe.
#[tokio::test]
async fn a_topic_left_early_is_unsubscribed_after_its_answer() {
    for times_out in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = format!("tcp://{}", listener.local_addr().unwrap());
        let mut config = Config::new();
        config.dialect.cancel_send = CancelStyle::None;
        let client = connect(&*target, config, router()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let mut lines = Lines::on(stream);
        let asking = client.topic::<u32>("t");
        let asking = match times_out {
            true => asking.timeout(Duration::from_millis(20)),
            false => asking,
        };
        let asked = async {
            lines
                .hear(&[
                    r#"{"jsonrpc":"2.0","method":"rpc.subscribe","params":{"topic":"t"},"id":1}"#,
                ])
                .await;
            until(|| !times_out).await;
        };
        // A timeout ends the call; else dropping it does.
        tokio::select! {
            ended = asking.into_future() => assert!(times_out && ended.is_err()),
            () = asked => {}
        }
        lines.hear_nothing().await;
        lines
            .say(r#"{"jsonrpc":"2.0","result":{"subscribed":true},"id":1}"#)
            .await;
        lines
            .hear(&[
                r#"{"jsonrpc":"2.0","method":"rpc.unsubscribe","params":{"topic":"t"},"id":2}"#,
            ])
            .await;
    }
}

// PUB-08, PUB-15: also where a check holds the subscribe back, and whether or not the peer is told to cancel it.
#[tokio::test]
async fn a_topic_left_while_it_is_checked_stays_with_nobody() {
    for cancel in [CancelStyle::None, CancelStyle::Lsp] {
        let (go, alive) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let (waits, counts) = (Arc::clone(&go), Arc::clone(&alive));
        let hub = Hub::with(HubConfig::new().check_async(move |_, _| {
            let (waits, lives) = (Arc::clone(&waits), Lives::new(&counts));
            async move {
                waits.notified().await;
                drop(lives);
                Ok(())
            }
        }));
        let lines = Lines::to(Config::new(), router().hub(&hub)).await;
        let mut config = Config::new();
        config.dialect.cancel_send = cancel;
        let target = format!("tcp://{}", lines.address());
        let client = connect(&*target, config, ()).await.unwrap();
        tokio::select! {
            ended = client.topic::<u32>("t").into_future() => panic!("{:?}", ended.err()),
            () = until(|| alive.load(Ordering::Relaxed) == 1) => {}
        }
        // What the client has sent by now is served before this.
        assert_eq!(client.call::<String>("ping", ()).await.unwrap(), "pong");
        go.notify_one();
        until(|| alive.load(Ordering::Relaxed) == 0).await;
        until(|| hub.counts().subscriptions == 0).await;
    }
}
