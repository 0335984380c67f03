//! Replies that are streams of events: what is sent when, and what ends when the client has gone.
#![cfg(feature = "http")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Raw, Served, call, post};
use antiphon::http::{OnClose, WebRules};
use antiphon::{Config, McpRevision};
use antiphon_tokio::http::{HttpConfig, endpoint};
use antiphon_tokio::{ConnectionConfig, Dispatcher, OwnedError, Peer, Progress, Router};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout};

const EVENTS: &str = "accept: application/json, text/event-stream\r\n";
const HOUR: Duration = Duration::from_secs(3600);

/// What a test holds while handlers run.
struct Stage {
    /// A handler takes a step for each permit.
    steps: Arc<Semaphore>,
    /// Ends all listens.
    change: Arc<Notify>,
    told: UnboundedReceiver<&'static str>,
    /// How many handlers there are.
    running: Arc<AtomicUsize>,
}

/// Counts a handler until it is dropped, and tells that.
struct Running(Arc<AtomicUsize>, UnboundedSender<&'static str>);

impl Running {
    fn new(count: &Arc<AtomicUsize>, tell: &UnboundedSender<&'static str>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count), tell.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        let _ = self.1.send("dropped");
    }
}

/// Methods that notify: `steps` before each of two steps, `late` only waits, `flood` as fast as it can,
/// `listen` until the server drains, `ticks` ten times a second for ever, and `plain` never.
fn stage() -> (Router<()>, Stage) {
    let (tell, told) = unbounded_channel();
    let (steps, change) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
    let running = Arc::<AtomicUsize>::default();
    let (own, count, said) = (Arc::clone(&steps), Arc::clone(&running), tell.clone());
    let router = Router::new().method("steps", [], move |peer: Peer| {
        let (steps, running) = (Arc::clone(&own), Running::new(&count, &said));
        async move {
            let _running = running;
            for step in 1..=2 {
                let told = peer.notify("step", &[step]).await;
                told.map_err(|error| OwnedError::new(1, error.to_string()))?;
                steps.acquire().await.unwrap().forget();
            }
            Ok::<_, OwnedError>("done")
        }
    });
    let (own, count, said) = (Arc::clone(&steps), Arc::clone(&running), tell.clone());
    let router = router.method("late", [], move || {
        let (steps, running) = (Arc::clone(&own), Running::new(&count, &said));
        async move {
            let _ = running.1.send("waiting");
            steps.acquire().await.unwrap().forget();
            drop(running);
            Ok::<_, OwnedError>("late")
        }
    });
    let (own, count, said) = (Arc::clone(&change), Arc::clone(&running), tell.clone());
    let router = router.method("listen", [], move |peer: Peer| {
        let (change, running) = (Arc::clone(&own), Running::new(&count, &said));
        async move {
            let _running = running;
            peer.notify("listening", ()).await.unwrap();
            while peer.park(change.notified()).await.is_some() {
                peer.notify("changed", ()).await.unwrap();
            }
            Ok::<_, OwnedError>("over")
        }
    });
    let (count, said) = (Arc::clone(&running), tell.clone());
    let sent = Arc::clone(&steps);
    let router = router.method("flood", [], move |peer: Peer| {
        let (sent, running) = (Arc::clone(&sent), Running::new(&count, &said));
        async move {
            let _running = running;
            let text = "x".repeat(1000);
            for _ in 0..100_000 {
                peer.notify("more", &[&text]).await.unwrap();
                sent.add_permits(1);
            }
            Ok::<_, OwnedError>(())
        }
    });
    let (count, said) = (Arc::clone(&running), tell.clone());
    let router = router.method("ticks", [], move |peer: Peer| {
        let running = Running::new(&count, &said);
        async move {
            let _running = running;
            loop {
                if peer.notify("tick", ()).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(100)).await;
            }
            Ok::<_, OwnedError>(())
        }
    });
    let router = router.method("plain", [], |peer: Peer| {
        Ok::<_, OwnedError>(peer.can_notify())
    });
    let stage = Stage {
        steps,
        change,
        told,
        running,
    };
    (router, stage)
}

fn serve(options: impl Into<HttpConfig>) -> (Served, Stage) {
    let (router, stage) = stage();
    (Served::new(endpoint(options, router)), stage)
}

async fn ask(served: &Served, headers: &str, method: &str) -> Raw {
    let mut raw = served.connect(4096);
    let request = post("/", headers, &call(method, 1));
    raw.send(request).await.expect("the server reads");
    raw
}

impl Raw {
    /// Reads the data of the next event, and nothing after it; `None` at the end of the stream.
    async fn event(&mut self) -> Option<Value> {
        let mut data = String::new();
        while let Some(line) = timeout(HOUR, self.line_or_end()).await.expect("a line") {
            let line = line.trim_end();
            if let Some(more) = line.strip_prefix("data: ") {
                data.push_str(more);
            } else if line.is_empty() && !data.is_empty() {
                return Some(serde_json::from_str(&data).expect("an event is JSON"));
            } else if line == "0" {
                return None;
            }
        }
        None
    }

    async fn head(&mut self) -> String {
        self.reply().await.expect("a head").head
    }
}

// web.md §5
// USE-14 HTP-08
#[tokio::test(start_paused = true)]
async fn the_first_event_arrives_before_the_second_step_begins() {
    let (served, stage) = serve(Config::new());
    let mut raw = ask(&served, EVENTS, "steps").await;
    let head = raw.head().await.to_lowercase();
    for line in [
        "http/1.1 200 ok\r\n",
        "content-type: text/event-stream\r\n",
        "cache-control: no-store\r\n",
        "x-accel-buffering: no\r\n",
        "transfer-encoding: chunked\r\n",
    ] {
        assert!(head.contains(line), "{head}");
    }
    for step in 1..=2 {
        let told = json!({"jsonrpc": "2.0", "method": "step", "params": [step]});
        assert_eq!(raw.event().await, Some(told));
        assert!(!raw.has_event().await, "the next step has not begun");
        stage.steps.add_permits(1);
    }
    let answer = json!({"jsonrpc": "2.0", "result": "done", "id": 1});
    assert_eq!(raw.event().await, Some(answer));
    assert_eq!(raw.event().await, None);
    // The connection is kept, and the next request on it is an ordinary one.
    raw.line().await;
    let plain = raw.post(&call("plain", 2)).await;
    assert_eq!(plain.body, r#"{"jsonrpc":"2.0","result":false,"id":2}"#);
}

impl Raw {
    /// Whether another event comes while every other task waits.
    async fn has_event(&mut self) -> bool {
        timeout(Duration::from_millis(1), self.event())
            .await
            .is_ok()
    }
}

// USE-14 HTP-08
#[tokio::test(start_paused = true)]
async fn a_client_that_reads_no_events_gets_json_and_a_handler_is_told_so() {
    let (served, _stage) = serve(Config::new());
    for accept in ["", "accept: */*\r\n", "accept: text/event-stream;q=0\r\n"] {
        let mut raw = ask(&served, accept, "steps").await;
        let reply = raw.reply().await.unwrap();
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert!(reply.body.contains("cannot carry"), "{}", reply.body);
    }
    // One that reads them gets JSON, too, if nothing comes before the answer.
    let reply = ask(&served, EVENTS, "plain").await.reply().await.unwrap();
    assert_eq!(reply.body, r#"{"jsonrpc":"2.0","result":true,"id":1}"#);
    let mut raw = served.connect(4096);
    let notification = r#"{"jsonrpc":"2.0","method":"steps"}"#;
    raw.send(post("/", EVENTS, notification)).await.unwrap();
    assert_eq!(raw.reply().await.unwrap().status, 204);
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_batch_streams_and_its_replies_are_the_last_event() {
    let (served, stage) = serve(Config::new());
    stage.steps.add_permits(100);
    let mut raw = served.connect(4096);
    let batch = format!("[{},{}]", call("steps", 1), call("steps", 2));
    raw.send(post("/", EVENTS, &batch)).await.unwrap();
    raw.head().await;
    for _ in 0..4 {
        assert_eq!(raw.event().await.unwrap()["method"], "step");
    }
    let answers = raw.event().await.unwrap();
    assert_eq!(answers.as_array().unwrap().len(), 2, "{answers}");
    assert_eq!(raw.event().await, None);
}

// USE-14 USE-21
#[tokio::test(start_paused = true)]
async fn progress_is_reported_before_the_answer() {
    let router = Router::new().method("count", ["to"], async |to: u32, done: Progress<Value>| {
        for progress in 1..=to {
            done.send(&json!({"progress": progress})).unwrap();
        }
        Ok::<_, OwnedError>(to)
    });
    let served = Served::new(endpoint(Config::mcp(McpRevision::V2025_11_25), router));
    let mut raw = served.connect(4096);
    let body = r#"{"jsonrpc":"2.0","method":"count","params":{"to":2,"_meta":{"progressToken":"t"}},"id":1}"#;
    raw.send(post("/", EVENTS, body)).await.unwrap();
    raw.head().await;
    for progress in 1..=2 {
        let event = raw.event().await.unwrap();
        assert_eq!(event["method"], "notifications/progress");
        assert_eq!(event["params"]["progress"], progress);
    }
    assert_eq!(raw.event().await.unwrap()["result"], 2);
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_silent_exchange_becomes_a_stream_that_comments_keep_alive() {
    let mut options = HttpConfig::new(Config::new());
    options.rules.silence = Some(Duration::from_secs(7));
    let (served, stage) = serve(options);
    let begun = Instant::now();
    let mut raw = ask(&served, EVENTS, "late").await;
    assert!(raw.head().await.contains("text/event-stream"));
    for round in 1..=3 {
        while raw.line().await.trim_end() != ":" {}
        assert_eq!(begun.elapsed().as_secs(), round * 7);
    }
    stage.steps.add_permits(1);
    assert_eq!(raw.event().await.unwrap()["result"], "late");
    // A client that reads no events waits in silence.
    let mut raw = ask(&served, "", "late").await;
    sleep(Duration::from_secs(100)).await;
    stage.steps.add_permits(1);
    let reply = raw.reply().await.unwrap();
    assert_eq!(reply.header("content-type"), Some("application/json"));
}

/// How long it takes until the handler is dropped.
async fn dropped_after(stage: &mut Stage) -> Duration {
    let begun = Instant::now();
    while timeout(HOUR, stage.told.recv()).await.expect("it ends") != Some("dropped") {}
    begun.elapsed()
}

// web.md §5
// USE-14 CAN-13
#[tokio::test(start_paused = true)]
async fn a_client_that_closes_ends_its_handlers_soon() {
    let (served, mut stage) = serve(Config::new());
    // Before any head.
    let raw = ask(&served, EVENTS, "late").await;
    assert_eq!(stage.told.recv().await, Some("waiting"));
    drop(raw);
    let after = dropped_after(&mut stage).await;
    assert!(after <= Duration::from_millis(1500), "{after:?}");
    // On a stream that is silent.
    let mut raw = ask(&served, EVENTS, "steps").await;
    raw.head().await;
    assert!(raw.event().await.is_some());
    drop(raw);
    let after = dropped_after(&mut stage).await;
    assert!(after <= Duration::from_millis(10), "{after:?}");
    sleep(Duration::from_secs(10)).await;
    assert_eq!(served.running.connections(), 0);
}

// USE-14
#[tokio::test(start_paused = true)]
async fn handlers_go_on_after_a_close_where_the_rules_say_so() {
    let mut options = HttpConfig::new(Config::new());
    let at_most = Duration::from_secs(100);
    options.rules.on_close = OnClose::GoOn { at_most };
    for takes_too_long in [false, true] {
        let (served, mut stage) = serve(options.clone());
        let mut raw = ask(&served, EVENTS, "steps").await;
        raw.head().await;
        assert!(raw.event().await.is_some());
        drop(raw);
        sleep(Duration::from_secs(90)).await;
        assert_eq!(stage.running.load(Ordering::SeqCst), 1);
        if takes_too_long {
            let after = dropped_after(&mut stage).await;
            assert_eq!(after.as_secs(), 10);
            continue;
        }
        // It takes both steps, and ends.
        stage.steps.add_permits(2);
        assert!(dropped_after(&mut stage).await < Duration::from_secs(1));
        assert_eq!(stage.steps.available_permits(), 0);
        // A server that closes at once ends its handlers all the same.
        let mut raw = ask(&served, EVENTS, "steps").await;
        raw.head().await;
        served.running.stop();
        let after = dropped_after(&mut stage).await;
        assert!(after < Duration::from_secs(10), "{after:?}");
    }
}

// web.md §5
// USE-14 HTP-01
#[tokio::test(start_paused = true)]
async fn the_same_cut_cancels_in_2026_07_28_and_not_in_2025_11_25() {
    let (new, old) = (McpRevision::V2026_07_28, McpRevision::V2025_11_25);
    for first in [new, old] {
        let mut options = HttpConfig::new(Config::mcp(first)).with_rules(WebRules::mcp(first));
        options.rules.mcp.as_mut().unwrap().revisions = vec![new, old];
        let (served, mut stage) = serve(options);
        for revision in [new, old] {
            let lines = format!(
                "{EVENTS}mcp-protocol-version: {}\r\nmcp-method: steps\r\n",
                revision.as_str()
            );
            let mut raw = ask(&served, &lines, "steps").await;
            raw.head().await;
            assert!(raw.event().await.is_some());
            drop(raw);
            if revision == old {
                sleep(Duration::from_secs(50)).await;
                assert_eq!(stage.running.load(Ordering::SeqCst), 1);
                stage.steps.add_permits(2);
            }
            assert!(dropped_after(&mut stage).await <= Duration::from_secs(1));
        }
        // Only the earlier one has taken its steps to the end.
        assert_eq!(stage.steps.available_permits(), 0);
    }
}

// USE-14
#[tokio::test(start_paused = true)]
async fn what_goes_on_counts_is_bounded_in_time_and_ends_with_its_server() {
    let mut options = HttpConfig::new(Config::new());
    let at_most = Duration::from_secs(100);
    options.rules.on_close = OnClose::GoOn { at_most };
    let (served, mut stage) = serve(options);
    // A listen ends its wait, for nobody listens any more.
    let mut raw = ask(&served, EVENTS, "listen").await;
    raw.head().await;
    assert!(raw.event().await.is_some());
    drop(raw);
    assert!(dropped_after(&mut stage).await < Duration::from_secs(1));
    // A handler that always has something to send leaves room for others while it goes on, and ends in time.
    let mut raw = ask(&served, EVENTS, "ticks").await;
    raw.head().await;
    drop(raw);
    let after = dropped_after(&mut stage).await;
    assert!((99..=101).contains(&after.as_secs()), "{after:?}");
    // A shutdown waits for it as long as for all others, and then ends it.
    let mut raw = ask(&served, EVENTS, "steps").await;
    raw.head().await;
    drop(raw);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(served.running.connections(), 1, "it counts");
    let grace = Duration::from_secs(5);
    assert!(!served.running.shutdown(grace).await);
    assert!(dropped_after(&mut stage).await < Duration::from_secs(1));
}

// USE-14
#[tokio::test(start_paused = true)]
async fn a_message_that_asks_nothing_is_no_stream_however_long_it_takes() {
    let (served, mut stage) = serve(Config::new());
    let mut raw = served.connect(4096);
    let told = r#"{"jsonrpc":"2.0","method":"late"}"#;
    raw.send(post("/", EVENTS, told)).await.unwrap();
    assert_eq!(stage.told.recv().await, Some("waiting"));
    sleep(Duration::from_secs(40)).await;
    stage.steps.add_permits(1);
    let head = raw.head().await;
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
}

// USE-14 SEC-10
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_stops_production_and_is_cut() {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(Duration::from_secs(20));
    let limits = config.limits;
    let (served, mut stage) = serve(config);
    let mut raw = ask(&served, EVENTS, "flood").await;
    raw.head().await;
    sleep(Duration::from_secs(10)).await;
    let sent = stage.steps.available_permits() * 1000;
    let bound = limits.soft_max_outbox_bytes + (256 << 10);
    assert!(sent > 10_000 && sent < bound, "{sent}");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(stage.steps.available_permits() * 1000, sent);
    let after = dropped_after(&mut stage).await;
    assert!(after <= Duration::from_secs(10), "{after:?}");
}

// web.md §5
// USE-14
#[tokio::test(start_paused = true)]
async fn two_hundred_listens_leave_room_for_a_call() {
    let mut config = ConnectionConfig::from(Config::new());
    config.dispatcher = Dispatcher::new(2, 10);
    let dispatcher = config.dispatcher.clone();
    let (served, stage) = serve(config);
    let mut listens = Vec::new();
    for _ in 0..200 {
        let mut raw = ask(&served, EVENTS, "listen").await;
        raw.head().await;
        assert_eq!(raw.event().await.unwrap()["method"], "listening");
        listens.push(raw);
    }
    assert_eq!(stage.running.load(Ordering::SeqCst), 200);
    assert_eq!(dispatcher.running(), 0);
    let (mut called, plain) = (served.connect(4096), call("plain", 1));
    let answered = timeout(Duration::from_millis(50), called.post(&plain));
    answered.await.expect("an answer in time");
    stage.change.notify_waiters();
    for raw in &mut listens {
        assert_eq!(raw.event().await.unwrap()["method"], "changed");
    }
    // Each is closed in the middle: no place and no handler is left.
    drop(listens);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(stage.running.load(Ordering::SeqCst), 0);
    assert_eq!((dispatcher.running(), dispatcher.waiting()), (0, 0));
    assert_eq!(served.running.connections(), 1);
}

// USE-14 CON-09
#[tokio::test(start_paused = true)]
async fn a_drain_answers_listens_and_then_waits_for_work() {
    let (served, stage) = serve(Config::new());
    let mut listen = ask(&served, EVENTS, "listen").await;
    listen.head().await;
    assert!(listen.event().await.is_some());
    let mut work = ask(&served, EVENTS, "steps").await;
    work.head().await;
    assert!(work.event().await.is_some());
    let begun = Instant::now();
    let steps = Arc::clone(&stage.steps);
    let draining = tokio::spawn(async move { served.running.shutdown(HOUR).await });
    assert_eq!(listen.event().await.unwrap()["result"], "over");
    assert!(begun.elapsed() < Duration::from_millis(50));
    sleep(Duration::from_secs(10)).await;
    assert!(!draining.is_finished());
    steps.add_permits(2);
    assert_eq!(work.event().await.unwrap()["method"], "step");
    assert_eq!(work.event().await.unwrap()["result"], "done");
    assert!(draining.await.unwrap(), "all had ended in time");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

// USE-14
#[tokio::test(start_paused = true)]
async fn what_follows_an_answer_is_refused_over_http_as_ever() {
    let style = antiphon::Style::ETHEREUM;
    let router = Router::new().subscription(
        style,
        [],
        async |_: antiphon_tokio::SubscriptionSink<u32>| Ok::<_, OwnedError>(()),
    );
    let served = Served::new(endpoint(Config::new(), router));
    let mut raw = ask(&served, EVENTS, "eth_subscribe").await;
    let reply = raw.reply().await.unwrap();
    assert!(reply.body.contains("-32601"), "{}", reply.body);
}
