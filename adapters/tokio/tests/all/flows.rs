//! Flows, byte for byte as a peer without any library of ours sees them, and with both ends ours.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use antiphon_tokio::flow::{FlowConfig, FlowError, OpenFlowError};
use antiphon_tokio::{
    CallError, CancelStyle, Client, Config, ConnectionConfig, Flow, FlowRoutes, OwnedError, Peer,
    Progress, ProgressStyle, PullError, Router, TcpServer, connect,
};
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::support::lines::Lines;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn router() -> Router {
    Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"))
}

/// A connection on which flows are on.
pub(crate) fn with_flows() -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.flows = Some(FlowConfig::new());
    options
}

pub(crate) fn pull(flow: u32, id: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"kotlinx.rpc.jsonrpc.internal.nextFlowValue","params":[{flow}],"id":{id}}}"#
    )
}

pub(crate) fn cancel(flow: u32, id: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"kotlinx.rpc.jsonrpc.internal.cancelFlow","params":[{flow}],"id":{id}}}"#
    )
}

pub(crate) fn call(method: &str, params: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":{id}}}"#)
}

pub(crate) fn result(result: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#)
}

pub(crate) fn error(code: i64, message: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"{message}"}},"id":{id}}}"#)
}

pub(crate) fn completed(id: u32) -> String {
    error(-32001, "Flow completed", id)
}

/// Produces the numbers up to `to`.
pub(crate) fn count(to: u32) -> Flow<u32> {
    Flow::of(stream::iter(1..=to).map(Ok::<_, OwnedError>))
}

/// Tells when it is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Produces what comes out of a channel, and tells when the stream is dropped.
pub(crate) fn from_channel() -> (mpsc::Sender<u32>, mpsc::UnboundedReceiver<()>, Router) {
    let (sender, receiver) = mpsc::channel::<u32>(1000);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let (dropped, is_dropped) = mpsc::unbounded_channel();
    let router = router().method("watch", [], move || {
        let (receiver, dropped) = (Arc::clone(&receiver), Dropped(dropped.clone()));
        Flow::of(stream::unfold(dropped, move |dropped| {
            let receiver = Arc::clone(&receiver);
            async move {
                let next = receiver.lock().await.recv().await?;
                Some((Ok::<_, OwnedError>(next), dropped))
            }
        }))
    });
    (sender, is_dropped, router)
}

// FLO-04, FLO-06, FLO-07, EXA-09: an item for each pull, and then the end.
#[tokio::test]
async fn a_flow_is_pulled_item_by_item_and_completes() {
    let router = router().method("count", ["to"], count);
    let mut raw = Lines::to(with_flows(), router).await;
    raw.say(&call("count", "[2]", 1)).await;
    raw.hear(&[&result("1", 1)]).await;
    raw.hear_nothing().await;
    for (id, item) in [(2, "1"), (3, "2")] {
        raw.say(&pull(1, id)).await;
        raw.hear(&[&result(item, id)]).await;
    }
    raw.say(&pull(1, 4)).await;
    raw.hear(&[&completed(4)]).await;
    // A pull that was on its way is told the same.
    raw.say(&pull(1, 5)).await;
    raw.hear(&[&completed(5)]).await;
    raw.say(&call("count", r#"{"to":1}"#, 6)).await;
    raw.hear(&[&result("2", 6)]).await;
    raw.say(&pull(9, 7)).await;
    raw.hear(&[&error(-32602, "Unknown flow", 7)]).await;
}

// FLO-08, FLO-12, EXA-09: the stream is polled only while a pull waits, and dropped by a cancel.
#[tokio::test]
async fn a_cancel_answers_the_pulls_and_drops_the_stream() {
    let (items, mut is_dropped, router) = from_channel();
    let mut raw = Lines::to(with_flows(), router).await;
    items.send(7).await.unwrap();
    items.send(8).await.unwrap();
    raw.say(&call("watch", "[]", 1)).await;
    raw.hear(&[&result("1", 1)]).await;
    raw.say(&pull(1, 2)).await;
    raw.hear(&[&result("7", 2)]).await;
    raw.hear_nothing().await;
    assert_eq!(items.capacity(), 999, "nobody has pulled the second item");
    raw.say(&pull(1, 3)).await;
    raw.hear(&[&result("8", 3)]).await;
    raw.say(&pull(1, 4)).await;
    raw.say(&pull(1, 5)).await;
    raw.say(&cancel(1, 6)).await;
    raw.hear(&[&completed(4), &completed(5), &result("null", 6)])
        .await;
    timeout(PATIENCE, is_dropped.recv()).await.unwrap();
    raw.say(&cancel(1, 7)).await;
    raw.hear(&[&result("null", 7)]).await;
}

// FLO-07: the error of the producer, also if it comes first, and a panic.
#[tokio::test]
async fn a_producer_that_fails_tells_why() {
    let fails = || {
        let items = [Ok(1), Err(OwnedError::new(1001, "no more")), Ok(2)];
        Flow::of(stream::iter(items))
    };
    let panics = || {
        Flow::of(stream::once(async {
            match std::hint::black_box(true) {
                true => panic!("as told"),
                false => Ok::<u32, OwnedError>(1),
            }
        }))
    };
    let router = router()
        .method("fail", [], fails)
        .method("panic", [], panics);
    let mut raw = Lines::to(with_flows(), router).await;
    raw.say(&call("fail", "[]", 1)).await;
    raw.hear(&[&result("1", 1)]).await;
    raw.say(&pull(1, 2)).await;
    raw.say(&pull(1, 3)).await;
    raw.hear(&[&result("1", 2), &error(1001, "no more", 3)])
        .await;
    raw.say(&pull(1, 4)).await;
    raw.hear(&[&error(-32602, "Unknown flow", 4)]).await;
    raw.say(&call("panic", "[]", 5)).await;
    raw.hear(&[&result("2", 5)]).await;
    raw.say(&pull(2, 6)).await;
    raw.hear(&[&error(-32603, "Internal error", 6)]).await;
    raw.hear_nothing().await;
}

// FLO-12, STREAMS §5: pulls as ordinary requests. The peer may have 64 flows.
#[tokio::test]
async fn waiting_pulls_hold_up_neither_calls_nor_a_shutdown() {
    let (_items, mut is_dropped, router) = from_channel();
    let mut options = with_flows();
    options.max_running_requests = 1;
    // The test does not end its direction.
    options.linger = Duration::from_millis(20);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start(options, router.into_make_service());
    let mut raw = Lines::on(TcpStream::connect(address).await.unwrap());
    for flow in 1..=64 {
        raw.say(&call("watch", "[]", flow)).await;
        raw.hear(&[&result(&flow.to_string(), flow)]).await;
    }
    let pulls: Vec<String> = (1..=64).map(|flow| pull(flow, 100 + flow)).collect();
    raw.say(&pulls.join("\n")).await;
    raw.say(&call("watch", "[]", 65)).await;
    let refused = raw.hear_line().await;
    assert!(
        refused.contains(r#""id":65"#) && refused.contains("error"),
        "{refused}"
    );
    raw.hear_nothing().await;
    let shutdown = tokio::spawn(running.shutdown(Duration::from_secs(5)));
    for flow in 1..=64 {
        raw.hear(&[&error(-32000, "Flow closed", 100 + flow)]).await;
    }
    timeout(Duration::from_secs(1), shutdown)
        .await
        .expect("at once")
        .unwrap();
    for _ in 0..64 {
        timeout(PATIENCE, is_dropped.recv()).await.unwrap();
    }
}

// FLO-01: without the option the methods are like any others.
#[tokio::test]
async fn flows_are_off_by_default() {
    let router = router().method("count", ["to"], count);
    let mut raw = Lines::to(Config::new(), router).await;
    for method in ["count", "kotlinx.rpc.jsonrpc.internal.nextFlowValue"] {
        raw.say(&call(method, "[1]", 1)).await;
        raw.hear(&[&error(-32601, "Method not found", 1)]).await;
    }
    let client = client_of(&raw, Config::new()).await;
    let mut flow = client.flow::<u32>("count", &[1]);
    assert!(matches!(flow.next().await, Some(Err(PullError::Off))));
    assert!(flow.next().await.is_none());
}

/// A client of the server of another connection.
pub(crate) async fn client_of(raw: &Lines, options: impl Into<ConnectionConfig>) -> Client {
    let url = format!("tcp://{}", raw.address());
    connect(url, options.into(), ()).await.unwrap()
}

/// A server by hand, and a client of it.
pub(crate) async fn by_hand(options: ConnectionConfig) -> (Lines, Client) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(connect(url, options, ()), listener.accept());
    (Lines::on(accepted.unwrap().0), client.unwrap())
}

// FLO-05, FLO-06, FLO-10: nothing is sent before the first poll; a window of pulls; their order is kept.
#[tokio::test]
async fn a_consumer_pulls_a_window_and_keeps_the_order() {
    let (mut raw, client) = by_hand(with_flows()).await;
    let mut flow = client.flow::<u32>("count", &[9]).window(2);
    assert!(flow.next().now_or_never().is_none());
    raw.hear(&[&call("count", "[9]", 1)]).await;
    raw.say(&result("7", 1)).await;
    let reading = tokio::spawn(async move {
        let items = [flow.next().await.unwrap(), flow.next().await.unwrap()];
        (items.map(Result::unwrap), flow)
    });
    raw.hear(&[&pull(7, 2), &pull(7, 3)]).await;
    raw.say(&result("20", 3)).await;
    raw.say(&result("10", 2)).await;
    let (items, mut flow) = reading.await.unwrap();
    assert_eq!(items, [10, 20]);
    // The first item was read, and so was the second: two pulls more are on their way, or will be.
    let ending = tokio::spawn(async move { flow.next().await.is_none() });
    raw.hear(&[&pull(7, 4), &pull(7, 5)]).await;
    raw.say(&completed(4)).await;
    raw.say(&completed(5)).await;
    assert!(ending.await.unwrap());
}

// FLO-08, FLO-11: a flow that is dropped in mid-window, and one whose peer never answers.
#[tokio::test]
async fn a_dropped_flow_is_cancelled_and_a_late_one_is_given_up() {
    let (mut raw, client) = by_hand(with_flows()).await;
    let mut flow = client.flow::<u32>("watch", ()).window(3);
    let first = tokio::spawn(async move {
        let first = flow.next().await.unwrap().unwrap();
        assert_eq!(first, 5);
    });
    let watch = |id| format!(r#"{{"jsonrpc":"2.0","method":"watch","id":{id}}}"#);
    raw.hear(&[&watch(1)]).await;
    raw.say(&result("1", 1)).await;
    raw.hear(&[&pull(1, 2), &pull(1, 3), &pull(1, 4)]).await;
    raw.say(&result("5", 2)).await;
    first.await.unwrap();
    raw.hear(&[&cancel(1, 5)]).await;
    // The pulls stay open until they are answered.
    raw.say(&completed(3)).await;
    raw.say(&completed(4)).await;
    raw.say(&result("null", 5)).await;
    // A flow whose id comes after it was dropped.
    let mut flow = client.flow::<u32>("watch", ());
    assert!(flow.next().now_or_never().is_none());
    raw.hear(&[&watch(6)]).await;
    drop(flow);
    raw.say(&result("2", 6)).await;
    raw.hear(&[&cancel(2, 7)]).await;
    raw.say(&result("null", 7)).await;
    let mut flow = client
        .flow::<u32>("watch", ())
        .pull_timeout(Duration::from_millis(50));
    let late = tokio::spawn(async move { flow.next().await });
    raw.hear(&[&watch(8)]).await;
    raw.say(&result("3", 8)).await;
    raw.hear(&[&pull(3, 9), &cancel(3, 10)]).await;
    let late = late.await.unwrap().unwrap();
    assert!(matches!(late, Err(PullError::Ended(FlowError::TimedOut))));
}

// FLO-13: the end of the connection, a result that is no flow, an item of another type, too many flows.
#[tokio::test]
async fn the_ways_in_which_a_flow_ends_or_does_not_begin() {
    let mut options = with_flows();
    options.flows.as_mut().unwrap().max_flows = 1;
    let (mut raw, client) = by_hand(options).await;
    let mut flow = client.flow::<u32>("count", &[1]);
    let reading = tokio::spawn(async move { (flow.next().await, flow) });
    raw.hear(&[&call("count", "[1]", 1)]).await;
    raw.say(&result(r#""x""#, 1)).await;
    let (refused, _) = reading.await.unwrap();
    let no_id = PullError::NotOpened(OpenFlowError::NoFlowId);
    assert_eq!(format!("{refused:?}"), format!("Some(Err({no_id:?}))"));
    let mut flow = client.flow::<u32>("count", &[1]);
    let reading = tokio::spawn(async move { (flow.next().await, flow) });
    raw.hear(&[&call("count", "[1]", 2)]).await;
    raw.say(&result("1", 2)).await;
    raw.hear(&[&pull(1, 3)]).await;
    raw.say(&result("null", 3)).await;
    let (item, mut first) = reading.await.unwrap();
    assert!(matches!(item, Some(Err(PullError::Decode(_)))));
    let mut second = client.flow::<u32>("count", &[1]);
    let reading = tokio::spawn(async move { second.next().await });
    raw.hear(&[&call("count", "[1]", 4)]).await;
    raw.say(&result("2", 4)).await;
    let refused = reading.await.unwrap();
    let too_many = PullError::NotOpened(OpenFlowError::TooManyFlows);
    assert_eq!(format!("{refused:?}"), format!("Some(Err({too_many:?}))"));
    raw.hear(&[&cancel(2, 5)]).await;
    let reading = tokio::spawn(async move { (first.next().await, first.next().await) });
    raw.hear(&[&pull(1, 6)]).await;
    drop(raw);
    let (end, after) = reading.await.unwrap();
    assert!(matches!(
        end,
        Some(Err(PullError::Ended(FlowError::Disconnected)))
    ));
    assert!(after.is_none());
}

// EXA-09: both ends ours.
#[tokio::test]
async fn a_client_reads_a_flow_of_a_server() {
    let (items, mut is_dropped, router) = from_channel();
    let router = router.method("count", ["to"], count);
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    for window in [1, 5, 100] {
        let flow = client.flow::<u32>("count", &[30]).window(window);
        let all: Vec<u32> = flow.map(Result::unwrap).collect().await;
        assert_eq!(all, (1..=30).collect::<Vec<_>>());
    }
    let mut watching = client.flow::<u32>("watch", ());
    items.send(3).await.unwrap();
    assert_eq!(watching.next().await.unwrap().unwrap(), 3);
    assert!(watching.next().now_or_never().is_none());
    drop(watching);
    timeout(PATIENCE, is_dropped.recv()).await.unwrap();
    let mut unknown = client.flow::<u32>("nothing", ());
    let refused = unknown.next().await.unwrap();
    assert!(matches!(
        refused,
        Err(PullError::Call(CallError::Remote(_)))
    ));
    // Our own drain does not wait for a pull that waits.
    let mut watching = client.flow::<u32>("watch", ());
    assert!(watching.next().now_or_never().is_none());
    let reading = tokio::spawn(async move { watching.next().await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.close();
    let end = timeout(PATIENCE, reading).await.unwrap().unwrap();
    assert!(matches!(
        end,
        Some(Err(PullError::Ended(FlowError::Disconnected)))
    ));
}

// FLO-09: the client produces, and the server consumes, on the same connection.
#[tokio::test]
async fn a_server_reads_a_flow_of_a_client() {
    let router = router().method("sum", [], async |peer: Peer| {
        let mut flow = peer.flow::<u32>("count", &[4]).window(3);
        let mut sum = 0;
        while let Some(item) = flow.next().await {
            sum += item?;
        }
        Ok::<_, OwnedError>(sum)
    });
    let raw = Lines::to(with_flows(), router).await;
    let url = format!("tcp://{}", raw.address());
    let own = Router::new().method("count", ["to"], count);
    let client = connect(url, with_flows(), own).await.unwrap();
    let sum: u32 = client.call("sum", ()).await.unwrap();
    assert_eq!(sum, 10);
}

#[antiphon_tokio::service(prefix = "clock", rename_all = "camelCase")]
trait Clock {
    /// The steps that are in the state, from a number on.
    #[rpc(flow)]
    fn steps_from(&self, from: u64) -> impl Stream<Item = Result<u64, OwnedError>> + Send;

    async fn now(&self) -> Result<u64, OwnedError>;
}

struct Counter {
    steps: Vec<u64>,
}

impl Clock for Counter {
    fn steps_from(&self, from: u64) -> impl Stream<Item = Result<u64, OwnedError>> + Send {
        // It borrows the state.
        stream::iter(self.steps.iter().map(move |step| Ok(from + step)))
    }

    async fn now(&self) -> Result<u64, OwnedError> {
        Ok(7)
    }
}

// GEN-10: a method of a trait that returns a flow, and its client.
#[tokio::test]
async fn a_method_of_a_service_returns_a_flow() {
    let steps = vec![1, 2, 4];
    let router = router().service(Counter { steps }.into_service());
    let mut raw = Lines::to(with_flows(), router).await;
    raw.say(&call("clock.stepsFrom", r#"{"from":10}"#, 1)).await;
    raw.hear(&[&result("1", 1)]).await;
    for (id, item) in [(2, "11"), (3, "12"), (4, "14")] {
        raw.say(&pull(1, id)).await;
        raw.hear(&[&result(item, id)]).await;
    }
    raw.say(&pull(1, 5)).await;
    raw.hear(&[&completed(5)]).await;
    // Params that do not fit open no flow.
    raw.say(&call("clock.stepsFrom", r#"["x"]"#, 6)).await;
    let refused = raw.hear_line().await;
    assert!(refused.contains("-32602"), "{refused}");
    let client = client_of(&raw, with_flows()).await;
    let clock = ClockClient::new(client);
    assert_eq!(clock.now().await.unwrap(), 7);
    let steps = clock.steps_from(20).window(32);
    let all: Vec<u64> = steps.map(Result::unwrap).collect().await;
    assert_eq!(all, [21, 22, 24]);
}

// FLO-04: a function that returns a stream, with a panic of the router for a wrong name.
#[tokio::test]
async fn a_router_serves_streams_as_flows() {
    let router = router().flow("evens", ["from"], |from: u64| {
        stream::iter((from..).step_by(2)).map(Ok::<_, OwnedError>)
    });
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    let evens = client.flow::<u64>("evens", &[4]).window(2);
    let first: Vec<u64> = evens.take(3).map(Result::unwrap).collect().await;
    assert_eq!(first, [4, 6, 8]);
}

// FLO-08: where all calls that may be open are, a cancel waits and is not forgotten.
#[tokio::test]
async fn a_cancel_waits_while_too_many_calls_are_open() {
    let mut options = with_flows();
    options.config.limits.max_open_calls = 1;
    let (mut raw, client) = by_hand(options).await;
    let mut flow = client.flow::<u32>("count", &[9]);
    assert!(flow.next().now_or_never().is_none());
    raw.hear(&[&call("count", "[9]", 1)]).await;
    raw.say(&result("7", 1)).await;
    let reading = tokio::spawn(async move { (flow.next().await.unwrap().unwrap(), flow) });
    raw.hear(&[&pull(7, 2)]).await;
    raw.say(&result("10", 2)).await;
    let (item, flow) = timeout(PATIENCE, reading).await.unwrap().unwrap();
    assert_eq!(item, 10);
    let calling = tokio::spawn(async move { client.call::<u32>("slow", &[0]).await });
    raw.hear(&[&call("slow", "[0]", 3)]).await;
    drop(flow);
    raw.say(&result("1", 3)).await;
    raw.hear(&[&cancel(7, 4)]).await;
    assert_eq!(calling.await.unwrap().unwrap(), 1);
}

// FLO-16: operators of streams buffer at both ends, on top of the window.
#[tokio::test]
async fn producers_and_consumers_buffer_as_streams_do() {
    let router = router().method("squares", ["to"], |to: u32| {
        let squares = stream::iter(1..=to).map(async |n| Ok::<_, OwnedError>(n * n));
        Flow::of(squares.buffered(2))
    });
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    let squares = client.flow::<u32>("squares", &[5]).window(2);
    let halves = squares.map(|square| async move { square.unwrap() / 2 });
    let pairs: Vec<_> = halves.buffered(3).chunks(2).collect().await;
    assert_eq!(pairs, [vec![0, 2], vec![4, 8], vec![12]]);
}

// FLO-15: progress of the call that opens a flow comes before its id, and is no item.
#[tokio::test]
async fn a_call_that_opens_a_flow_may_tell_progress() {
    let router = router().method("count", ["to"], |to: u32, progress: Progress<&str>| {
        progress.send(&"ready").unwrap();
        count(to)
    });
    let mut options = with_flows();
    options.config.dialect.progress = ProgressStyle::Lsp;
    let mut raw = Lines::to(options, router).await;
    raw.say(&call("count", r#"{"to":1,"workDoneToken":"t"}"#, 1))
        .await;
    let progress =
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t","value":"ready"}}"#;
    raw.hear(&[progress, &result("1", 1)]).await;
    raw.say(&pull(1, 2)).await;
    raw.hear(&[&result("1", 2)]).await;
    raw.say(&pull(1, 3)).await;
    raw.hear(&[&completed(3)]).await;
}

// FLO-12, TST-12: both ends at their limit: a flow that has ended makes room for another one.
#[tokio::test]
async fn both_ends_may_have_64_flows() {
    let (_items, _is_dropped, router) = from_channel();
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    let mut flows: Vec<Flow<u32>> = (0..65).map(|_| client.flow("watch", ())).collect();
    // The answer to this call comes after those to the calls before.
    for flow in &mut flows[..64] {
        assert!(flow.next().now_or_never().is_none());
    }
    let _: String = client.call("ping", ()).await.unwrap();
    let refused = flows[64].next().await.unwrap();
    assert!(matches!(
        refused,
        Err(PullError::Call(CallError::Remote(_)))
    ));
    assert!(flows[64].next().await.is_none());
    let mut waiting = flows.remove(0);
    drop(flows);
    let mut again = client.flow::<u32>("watch", ());
    assert!(again.next().now_or_never().is_none());
    let _: String = client.call("ping", ()).await.unwrap();
    assert!(waiting.next().now_or_never().is_none());
    assert!(again.next().now_or_never().is_none());
}

// FLO-13: what produces a flow is dropped with its connection.
#[tokio::test]
async fn a_stream_is_dropped_with_its_connection() {
    let (_items, mut is_dropped, router) = from_channel();
    let mut raw = Lines::to(with_flows(), router).await;
    for (flow, id) in [(1, 1), (2, 2)] {
        raw.say(&call("watch", "[]", id)).await;
        raw.hear(&[&result(&flow.to_string(), id)]).await;
    }
    // One of them waits for an item, the other one for a pull.
    raw.say(&pull(1, 3)).await;
    raw.hear_nothing().await;
    drop(raw);
    for _ in 0..2 {
        timeout(PATIENCE, is_dropped.recv()).await.unwrap();
    }
}

// FLO-12: a peer that pulls and does not read makes the producer wait, and others go on.
#[tokio::test]
async fn a_peer_that_does_not_read_makes_the_producer_wait() {
    let made = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&made);
    let router = router().flow("flood", [], move || {
        let counts = Arc::clone(&counts);
        stream::repeat_with(move || {
            counts.fetch_add(1, Ordering::Relaxed);
            Ok::<_, OwnedError>("x".repeat(128 * 1024))
        })
    });
    let mut raw = Lines::to(with_flows(), router).await;
    let silent = TcpStream::connect(raw.address()).await.unwrap();
    let (reader, mut writer) = silent.into_split();
    let mut lines = BufReader::new(reader).lines();
    let open = format!("{}\n", call("flood", "[]", 1));
    writer.write_all(open.as_bytes()).await.unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), result("1", 1));
    let pulls: String = (2..514).map(|id| pull(1, id) + "\n").collect();
    writer.write_all(pulls.as_bytes()).await.unwrap();
    // It stands still once the buffers of the system and the output are full.
    let mut before = usize::MAX;
    while std::mem::replace(&mut before, made.load(Ordering::Relaxed)) != before || before == 0 {
        raw.hear_nothing().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(before < 400, "{before} items of 128 KiB were made");
    // It goes on when the peer reads.
    for id in 2..514 {
        let line = timeout(PATIENCE, lines.next_line()).await.unwrap();
        let line = line.unwrap().unwrap();
        assert!(line.ends_with(&format!(r#"","id":{id}}}"#)));
    }
    assert_eq!(made.load(Ordering::Relaxed), 512);
}

// FLO-11: a pull that the peer cancels as a request loses no item.
#[tokio::test]
async fn a_pull_that_is_cancelled_as_a_request_loses_no_item() {
    let (items, _is_dropped, router) = from_channel();
    let mut options = with_flows();
    options.config = Config::new().cancel_receive(CancelStyle::Lsp);
    let mut raw = Lines::to(options, router).await;
    raw.say(&call("watch", "[]", 1)).await;
    raw.hear(&[&result("1", 1)]).await;
    raw.say(&pull(1, 2)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#)
        .await;
    let cancelled = raw.hear_line().await;
    assert!(
        cancelled.contains(r#""id":2"#) && cancelled.contains("error"),
        "{cancelled}"
    );
    assert!(!cancelled.contains("-32001"), "{cancelled}");
    items.send(5).await.unwrap();
    raw.say(&pull(1, 3)).await;
    raw.hear(&[&result("5", 3)]).await;
}

// FLO-09: HTTP carries no flows.
#[cfg(feature = "http")]
#[tokio::test]
async fn over_http_a_flow_says_why_there_is_none() {
    let client = connect("http://127.0.0.1:9/", with_flows(), ())
        .await
        .unwrap();
    let mut flow = client.flow::<u32>("count", &[1]);
    let refused = flow.next().await.unwrap();
    let no_push: CallError = CallError::Rejected(antiphon_tokio::SendError::NoPush);
    assert_eq!(format!("{refused:?}"), format!("Err(Call({no_push:?}))"));
    assert!(flow.next().await.is_none());
}
