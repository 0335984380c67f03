//! Flows as arguments of calls: byte for byte at either end, and with both ends ours.

use std::time::Duration;

use antiphon_tokio::flow::FlowError;
use antiphon_tokio::service::{AnyRequest, Cx, Decision, Interceptor};
use antiphon_tokio::{
    CallError, Client, Config, ConnectionConfig, Flow, Internal, NotificationOk, OwnedError,
    OwnedJson, OwnedOutcome, Peer, PullError, Router, SendError, connect, reconnect, service,
};
use futures_util::stream::{self, Stream, StreamExt};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::flows::{
    PATIENCE, by_hand, call, cancel, client_of, completed, count, error, pull, result, router,
    with_flows,
};
use crate::reconnect::{again_after_a_second, target};
use crate::support::lines::Lines;

type Called = Result<u32, CallError>;

/// Makes a call in a task.
fn calling(
    client: &Client,
    method: &'static str,
    params: impl Serialize + Send + 'static,
    limit: Option<Duration>,
) -> JoinHandle<Called> {
    let client = client.clone();
    tokio::spawn(async move { client.call(method, &params).timeout(limit).await })
}

fn sum(client: &Client, numbers: Flow<u32>) -> JoinHandle<Called> {
    calling(client, "sum", [numbers], None)
}

/// Tells when its stream is dropped, in which nothing comes after these items.
fn endless(first: u32) -> (Flow<u32>, mpsc::Receiver<()>) {
    let (tells, is_dropped) = mpsc::channel(1);
    let rest = stream::pending().map(move |item| {
        let _ = &tells;
        item
    });
    let items = stream::iter(1..=first).map(Ok::<_, OwnedError>);
    (Flow::of(items.chain(rest)), is_dropped)
}

async fn is_over(mut is_dropped: mpsc::Receiver<()>) {
    assert_eq!(timeout(PATIENCE, is_dropped.recv()).await, Ok(None));
}

fn closed(id: u32) -> String {
    error(-32000, "Flow closed", id)
}

fn unknown(id: u32) -> String {
    error(-32602, "Unknown flow", id)
}

// FLO-03 FLO-06 FLO-07 FLO-09
#[tokio::test]
async fn a_flow_in_the_params_is_pulled_by_its_id() {
    #[derive(Serialize)]
    struct Merge {
        left: Flow<u32>,
        factor: u32,
        right: Flow<&'static str>,
    }
    let (mut raw, client) = by_hand(with_flows()).await;
    let merge = Merge {
        left: count(2),
        factor: 1,
        right: Flow::of(stream::iter(["a"]).map(Ok::<_, OwnedError>)),
    };
    let merged = calling(&client, "merge", merge, None);
    raw.hear(&[&call("merge", r#"{"left":1,"factor":1,"right":2}"#, 1)])
        .await;
    for (flow, id, item) in [(2, 9, r#""a""#), (1, 10, "1"), (1, 11, "2")] {
        raw.say(&pull(flow, id)).await;
        raw.hear(&[&result(item, id)]).await;
    }
    for (flow, id) in [(1, 12), (2, 13), (1, 14)] {
        raw.say(&pull(flow, id)).await;
        raw.hear(&[&completed(id)]).await;
    }
    raw.say(&result("3", 1)).await;
    assert_eq!(merged.await.unwrap().unwrap(), 3);
    // The next call has another flow.
    let summed = sum(&client, count(0));
    raw.hear(&[&call("sum", "[3]", 2)]).await;
    raw.say(&result("0", 2)).await;
    assert_eq!(summed.await.unwrap().unwrap(), 0);
}

// FLO-08 FLO-09 FLO-13
#[tokio::test]
async fn a_flow_ends_when_its_call_is_answered_or_fails() {
    let (mut raw, client) = by_hand(with_flows()).await;
    for (flow, answer) in [
        (1, result("1", 1)),
        (2, error(1001, "no", 2)),
        (3, result(r#""x""#, 3)),
    ] {
        let (numbers, is_dropped) = endless(1);
        let summed = sum(&client, numbers);
        raw.hear(&[&call("sum", &format!("[{flow}]"), flow)]).await;
        raw.say(&pull(flow, 10)).await;
        raw.hear(&[&result("1", 10)]).await;
        raw.say(&pull(flow, 11)).await;
        // The answer comes early, and a pull with it.
        raw.say(&format!("{answer}\n{}", pull(flow, 12))).await;
        raw.hear(&[&closed(11), &unknown(12)]).await;
        assert_eq!(summed.await.unwrap().is_ok(), flow == 1);
        is_over(is_dropped).await;
        raw.say(&format!("{}\n{}", pull(flow, 13), cancel(flow, 14)))
            .await;
        raw.hear(&[&unknown(13), &result("null", 14)]).await;
    }
}

// FLO-09 FLO-11
#[tokio::test]
async fn a_flow_ends_when_its_call_has_timed_out_or_is_dropped() {
    let (mut raw, client) = by_hand(with_flows()).await;
    let (numbers, is_dropped) = endless(0);
    let late = calling(&client, "sum", [numbers], Some(Duration::from_millis(100)));
    raw.hear(&[&call("sum", "[1]", 1)]).await;
    raw.say(&pull(1, 10)).await;
    raw.hear(&[&closed(10)]).await;
    assert!(matches!(late.await.unwrap(), Err(CallError::TimedOut)));
    is_over(is_dropped).await;
    let (numbers, is_dropped) = endless(0);
    let dropped = sum(&client, numbers);
    raw.hear(&[&call("sum", "[2]", 2)]).await;
    raw.say(&format!("{}\n{}", pull(2, 11), call("none", "[]", 90)))
        .await;
    raw.hear(&[&error(-32601, "Method not found", 90)]).await;
    dropped.abort();
    raw.hear(&[&closed(11)]).await;
    is_over(is_dropped).await;
    raw.say(&pull(2, 12)).await;
    raw.hear(&[&unknown(12)]).await;
}

// FLO-09
#[tokio::test]
async fn a_call_that_is_started_and_not_awaited_has_flows_too() {
    let (mut raw, client) = by_hand(with_flows()).await;
    let peer = client.peer().unwrap();
    let (numbers, is_dropped) = endless(0);
    let pending = peer.call::<OwnedJson>("sum", &[numbers]).start();
    let pending = pending.await.unwrap();
    raw.hear(&[&call("sum", "[1]", 1)]).await;
    drop(pending);
    is_over(is_dropped).await;
    // The end comes to `then` as work of the service: by an answer, in time, and by a cancel.
    for flow in 2..5 {
        let (numbers, is_dropped) = endless(0);
        let (tells, mut ended) = mpsc::unbounded_channel();
        let called = peer.call::<OwnedJson>("sum", &[numbers]);
        let called = called
            .timeout((flow == 3).then_some(Duration::from_millis(50)))
            .then(move |outcome| drop(tells.send(outcome)));
        let called = called.await.unwrap();
        raw.hear(&[&call("sum", &format!("[{flow}]"), flow)]).await;
        raw.say(&format!("{}\n{}", pull(flow, 10), call("none", "[]", 90)))
            .await;
        raw.hear(&[&error(-32601, "Method not found", 90)]).await;
        match flow {
            2 => raw.say(&result("1", 2)).await,
            3 => {}
            _ => assert!(peer.cancel(called)),
        }
        raw.hear(&[&closed(10)]).await;
        is_over(is_dropped).await;
        let outcome = timeout(PATIENCE, ended.recv()).await.unwrap();
        assert_eq!(outcome.is_some(), flow != 4);
        assert_eq!(matches!(outcome, Some(OwnedOutcome::Ok(_))), flow == 2);
    }
}

// FLO-09: a failure and a panic of the producer, in the middle.
#[tokio::test]
async fn a_producer_that_fails_in_the_middle_tells_why() {
    let (mut raw, client) = by_hand(with_flows()).await;
    let items = [Ok(1), Err(OwnedError::new(1001, "no more"))];
    let failing = Flow::of(stream::iter(items));
    let _summed = sum(&client, failing);
    raw.hear(&[&call("sum", "[1]", 1)]).await;
    raw.say(&format!("{}\n{}", pull(1, 10), pull(1, 11))).await;
    raw.hear(&[&result("1", 10), &error(1001, "no more", 11)])
        .await;
    let panics = stream::iter(0..1).map(|item| match std::hint::black_box(true) {
        true => panic!("as told"),
        false => Ok::<u32, OwnedError>(item),
    });
    let _summed = sum(&client, Flow::of(panics));
    raw.hear(&[&call("sum", "[2]", 2)]).await;
    raw.say(&pull(2, 12)).await;
    raw.hear(&[&error(-32603, "Internal error", 12)]).await;
}

fn rejected(called: Called) -> SendError {
    match called {
        Err(CallError::Rejected(why)) => why,
        other => panic!("{other:?}"),
    }
}

// FLO-01 FLO-09 FLO-12
#[tokio::test]
async fn a_flow_that_cannot_be_sent_is_refused_here() {
    let (mut raw, client) = by_hand(ConnectionConfig::from(Config::new())).await;
    let (numbers, is_dropped) = endless(0);
    let off = sum(&client, numbers).await.unwrap();
    assert_eq!(rejected(off), SendError::FlowsOff);
    is_over(is_dropped).await;
    client.notify("first", ()).await.unwrap();
    raw.hear(&[r#"{"jsonrpc":"2.0","method":"first"}"#]).await;

    let (mut raw, client) = by_hand(with_flows()).await;
    let open: Vec<_> = (0..64).map(|_| sum(&client, endless(0).0)).collect();
    for _ in 0..64 {
        raw.hear_line().await;
    }
    let beyond = sum(&client, count(1)).await.unwrap();
    assert_eq!(rejected(beyond), SendError::TooManyFlows);
    // A call with two of them takes none.
    open[0].abort();
    while !open[0].is_finished() {
        tokio::task::yield_now().await;
    }
    let two = calling(&client, "merge", [count(1), count(1)], None);
    assert_eq!(rejected(two.await.unwrap()), SendError::TooManyFlows);
    let _again = sum(&client, count(1));
    let sent = raw.hear_line().await;
    assert!(sent.contains(r#""method":"sum","params":[66]"#), "{sent}");

    // What has no call of its own has no flows, and a flow is passed on once.
    let peer = client.peer().unwrap();
    assert!(matches!(
        peer.notify("sum", &[count(1)]).await,
        Err(SendError::Encode(_))
    ));
    let batch = peer.batch(|batch| batch.call::<u32>("sum", &[count(1)]));
    let refused = batch.await.unwrap_err();
    assert!(
        refused.to_string().contains("a call of its own"),
        "{refused}"
    );
    let numbers = count(1);
    drop(client.call::<u32>("sum", &[&numbers]));
    let refused = client.call::<u32>("sum", &[numbers]).await.unwrap_err();
    assert!(refused.to_string().contains("before"), "{refused}");
    let theirs = client.flow::<u32>("count", ());
    let refused = client.call::<u32>("sum", &[theirs]).await.unwrap_err();
    assert!(refused.to_string().contains("`Flow::of`"), "{refused}");
    assert!(serde_json::to_string(&count(1)).is_err());
}

// FLO-09
#[cfg(feature = "http")]
#[tokio::test]
async fn over_http_no_call_has_a_flow() {
    let url = "http://127.0.0.1:9/";
    let client = connect(url, with_flows(), ()).await.unwrap();
    let refused = sum(&client, count(1)).await.unwrap();
    assert_eq!(rejected(refused), SendError::NoPush);
}

/// Sends other params than the caller's: of a member `numbers` only the name is left if `keeps` is false.
struct Changes {
    keeps: bool,
}

impl<R: AnyRequest> Interceptor<R> for Changes {
    fn request(&self, cx: &mut Cx, request: &R) -> Decision {
        let given = request.params().unwrap();
        let numbers = given.elements().next().unwrap();
        let numbers = if self.keeps { numbers.as_str() } else { "1" };
        let changed = format!(r#"{{"_meta":{{"x":1}},"numbers":{numbers}}}"#);
        cx.set_params(OwnedJson::parse(changed).unwrap());
        Decision::Continue
    }
}

// FLO-09: an interceptor sees a number where the id will stand, and may put it elsewhere.
#[tokio::test]
async fn interceptors_may_change_the_params_around_a_flow() {
    for keeps in [true, false] {
        let options = with_flows().intercept(Changes { keeps });
        let (mut raw, client) = by_hand(options).await;
        let (numbers, is_dropped) = endless(0);
        let summed = sum(&client, numbers);
        if keeps {
            let changed = call("sum", r#"{"_meta":{"x":1},"numbers":1}"#, 1);
            raw.hear(&[&changed]).await;
            raw.say(&result("5", 1)).await;
            assert_eq!(summed.await.unwrap().unwrap(), 5);
        } else {
            let refused = summed.await.unwrap().unwrap_err();
            assert!(refused.to_string().contains("interceptor"), "{refused}");
        }
        is_over(is_dropped).await;
    }
}

// FLO-09 FLO-13: a flow's id holds on its connection, and what was produced cannot be produced again.
#[tokio::test(start_paused = true)]
async fn a_call_with_a_flow_is_not_sent_again_over_the_next_connection() {
    let (target, mut server) = target();
    let options = again_after_a_second(with_flows());
    let client = reconnect(target, options, ()).await.unwrap();
    let mut raw = server.accept().await;
    let calling = |client: &Client, params| {
        let client = client.clone();
        tokio::spawn(async move { client.call::<u32>("sum", &[params]).idempotent().await })
    };
    let (numbers, is_dropped) = endless(0);
    let lost = calling(&client, numbers);
    assert_eq!(raw.line().await, call("sum", "[1]", 1));
    drop(raw);
    assert!(matches!(lost.await.unwrap(), Err(CallError::Closed)));
    is_over(is_dropped).await;
    // The next call waits for the next connection, on which ids begin anew.
    let next = calling(&client, count(1));
    let mut raw = server.accept().await;
    assert_eq!(raw.line().await, call("sum", "[1]", 1));
    let answer = result("1", 1) + "\n";
    raw.send(answer).await.unwrap();
    assert_eq!(next.await.unwrap().unwrap(), 1);
}

/// Serves `sum`, with a window of three, and `first`, which reads one item of the same; tells how they end.
fn summing() -> (Router, mpsc::UnboundedReceiver<String>) {
    let (tells, told) = mpsc::unbounded_channel();
    let sum = move |numbers: Flow<u32>| {
        let (tells, mut numbers) = (tells.clone(), numbers.window(3));
        async move {
            let mut total = 0;
            while let Some(number) = numbers.next().await {
                total += number.inspect_err(|error| drop(tells.send(error.to_string())))?;
            }
            Ok::<_, OwnedError>(total)
        }
    };
    let first = async |factor: u32, numbers: Flow<u32>| {
        let mut numbers = numbers.window(3);
        match numbers.next().await {
            Some(number) => Ok::<_, OwnedError>(factor * number?),
            None => Ok(0),
        }
    };
    let router =
        router()
            .method("sum", ["numbers"], sum)
            .method("first", ["factor", "numbers"], first);
    (router, told)
}

// FLO-06 FLO-07 FLO-09 FLO-10
#[tokio::test]
async fn a_handler_reads_a_flow_of_its_caller() {
    let mut raw = Lines::to(with_flows(), summing().0).await;
    raw.say(&call("sum", "[7]", 1)).await;
    raw.hear(&[&pull(7, 1), &pull(7, 2), &pull(7, 3)]).await;
    raw.say(&format!("{}\n{}", result("20", 2), result("10", 1)))
        .await;
    raw.hear(&[&pull(7, 4), &pull(7, 5)]).await;
    for id in 3..6 {
        raw.say(&completed(id)).await;
    }
    raw.hear(&[&result("30", 1)]).await;
    // By name, beside another parameter, and the id as it was written.
    raw.say(&call("first", r#"{"numbers":1e2,"factor":2}"#, 2))
        .await;
    let pulls = [6, 7, 8].map(|id| pull(0, id).replace("[0]", "[1e2]"));
    raw.hear(&pulls.each_ref().map(String::as_str)).await;
    // The handler returns in mid-window: it wants no more.
    raw.say(&result("4", 6)).await;
    let mut end = [raw.hear_line().await, raw.hear_line().await];
    end.sort();
    let cancelled = cancel(0, 9).replace("[0]", "[1e2]");
    assert_eq!(end, [cancelled, result("8", 2)]);
}

// FLO-01 FLO-09
#[tokio::test]
async fn a_param_that_is_no_flow_is_refused() {
    let mut raw = Lines::to(with_flows(), summing().0).await;
    let invalid = |id| error(-32602, "Invalid params", id);
    for params in [
        r#"["7"]"#,
        "[1.5]",
        "[null]",
        "[[7]]",
        "[]",
        "{}",
        r#"{"a":1}"#,
        "[1,2]",
    ] {
        raw.say(&call("sum", params, 1)).await;
        raw.hear(&[&invalid(1)]).await;
    }
    // A flow has one reader.
    raw.say(&call("sum", "[7]", 2)).await;
    raw.hear(&[&pull(7, 1), &pull(7, 2), &pull(7, 3)]).await;
    raw.say(&call("sum", "[7.0]", 3)).await;
    raw.hear(&[&invalid(3)]).await;
    // The flow is left if another argument does not fit.
    raw.say(&call("first", r#"["x",8]"#, 4)).await;
    raw.hear(&[&invalid(4)]).await;
    // Without flows there is no such method.
    let mut raw = Lines::to(Config::new(), summing().0).await;
    raw.say(&call("sum", "[7]", 1)).await;
    raw.hear(&[&error(-32601, "Method not found", 1)]).await;
}

// FLO-09 FLO-12: the caller's flow is cancelled, and the call told that this end is busy.
#[tokio::test]
async fn a_flow_beyond_the_limit_is_cancelled_and_its_call_is_busy() {
    let mut options = with_flows();
    options.flows.as_mut().unwrap().max_flows = 1;
    let mut raw = Lines::to(options, summing().0).await;
    raw.say(&call("sum", "[1]", 1)).await;
    raw.hear(&[&pull(1, 1), &pull(1, 2), &pull(1, 3)]).await;
    raw.say(&call("sum", "[2]", 2)).await;
    let mut end = [raw.hear_line().await, raw.hear_line().await];
    end.sort_by_key(|line| line.contains("error"));
    assert_eq!(end[0], cancel(2, 4));
    assert!(
        end[1].contains("-32002") && end[1].ends_with(r#""id":2}"#),
        "{}",
        end[1]
    );
}

// FLO-09 FLO-13
#[tokio::test]
async fn a_handler_is_told_that_the_producer_or_the_connection_has_failed() {
    let (router, mut told) = summing();
    let mut raw = Lines::to(with_flows(), router).await;
    raw.say(&call("sum", "[1]", 1)).await;
    raw.hear(&[&pull(1, 1), &pull(1, 2), &pull(1, 3)]).await;
    raw.say(&result("5", 1)).await;
    raw.hear(&[&pull(1, 4)]).await;
    raw.say(&error(1001, "no more", 2)).await;
    raw.hear(&[&error(1001, "no more", 1)]).await;
    assert!(told.recv().await.unwrap().contains("no more"));
    raw.say(&call("sum", "[2]", 2)).await;
    raw.hear(&[&pull(2, 5), &pull(2, 6), &pull(2, 7)]).await;
    drop(raw);
    // The end of the connection drops the handler, whose flow tells nobody then.
    let end = timeout(PATIENCE, told.recv()).await.unwrap();
    assert!(
        end.is_none_or(|end| end == FlowError::Disconnected.to_string()),
        "it has ended"
    );
}

/// The methods of EXA-09, as a trait.
#[service(rename_all = "camelCase")]
trait Numbers {
    #[rpc(flow)]
    fn count_to(&self, end: u32) -> impl Stream<Item = Result<u32, OwnedError>> + Send;

    /// Adds numbers up.
    async fn sum(&self, numbers: Flow<u32>, window: usize) -> Result<u32, OwnedError>;

    /// Reads one number and leaves the others.
    async fn first(&self, numbers: Flow<u32>) -> Result<Option<u32>, OwnedError>;
}

struct Adder;

impl Numbers for Adder {
    fn count_to(&self, end: u32) -> impl Stream<Item = Result<u32, OwnedError>> + Send {
        stream::iter((1..=end).map(Ok))
    }

    async fn sum(&self, numbers: Flow<u32>, window: usize) -> Result<u32, OwnedError> {
        let mut numbers = numbers.window(window);
        let mut total = 0;
        while let Some(number) = numbers.next().await {
            total += number?;
        }
        Ok(total)
    }

    async fn first(&self, mut numbers: Flow<u32>) -> Result<Option<u32>, OwnedError> {
        Ok(numbers.next().await.transpose()?)
    }
}

// FLO-09 FLO-10 FLO-12 GEN-10 EXA-09
#[tokio::test]
async fn a_typed_client_passes_flows_to_a_service() {
    let raw = Lines::to(with_flows(), router().service(Adder.into_service())).await;
    let numbers = NumbersClient::new(client_of(&raw, with_flows()).await);
    for window in [1, 7, 100] {
        assert_eq!(numbers.sum(count(10), window).await.unwrap(), 55);
    }
    // Left in mid-flow, and a flow of the peer passed back to it.
    let (endless, is_dropped) = endless(2);
    assert_eq!(numbers.first(endless).await.unwrap(), Some(1));
    is_over(is_dropped).await;
    let theirs = numbers.count_to(4).window(2);
    assert_eq!(numbers.sum(Flow::of(theirs), 3).await.unwrap(), 10);
    let failing = stream::iter([Ok(1), Err(OwnedError::new(1001, "no more"))]);
    let failed = numbers.sum(Flow::of(failing), 2).await.unwrap_err();
    let CallError::Remote(failed) = failed else {
        panic!("{failed:?}");
    };
    assert_eq!((failed.code(), failed.message()), (1001, "no more"));
    // Both ends at their limit, twice: each call has a flow, and no pull waits for another call.
    for _ in 0..2 {
        let calls = (0..64).map(|_| numbers.sum(count(20), 8));
        let sums = futures_util::future::join_all(calls).await;
        assert!(sums.into_iter().all(|sum| sum.unwrap() == 210));
    }
    let numbers = numbers.by_position();
    assert_eq!(numbers.sum(count(3), 1).await.unwrap(), 6);
}

// FLO-09 FLO-11: nothing comes, so the call times out, and the handler is told.
#[tokio::test]
async fn a_handler_whose_caller_has_given_up_is_told() {
    let (router, mut told) = summing();
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    let (numbers, is_dropped) = endless(3);
    let late = calling(&client, "sum", [numbers], Some(Duration::from_millis(100)));
    assert!(matches!(late.await.unwrap(), Err(CallError::TimedOut)));
    is_over(is_dropped).await;
    let end = timeout(PATIENCE, told.recv()).await.unwrap().unwrap();
    assert!(end.contains("Flow closed"), "{end}");
}

// FLO-09: both ends have one place for a request, and each reads what the other one reads on.
#[tokio::test]
async fn a_handler_that_reads_from_its_caller_holds_up_nothing() {
    let mut options = with_flows();
    options.max_running_requests = 1;
    let relay = async |peer: Peer, numbers: Flow<u32>| {
        let doubled = numbers.map(|number: Result<u32, PullError>| number.map(|n| 2 * n));
        let total: u32 = peer.call("sum", &[Flow::of(doubled)]).await.internal()?;
        Ok::<_, OwnedError>(total)
    };
    let server = router().method("relay", ["numbers"], relay);
    let raw = Lines::to(options.clone(), server).await;
    let url = format!("tcp://{}", raw.address());
    let client = connect(url, options, summing().0).await.unwrap();
    let total = calling(&client, "relay", [count(100)], None);
    let total = timeout(PATIENCE, total).await.expect("no deadlock");
    assert_eq!(total.unwrap().unwrap(), 10_100);
}

// FLO-09 FLO-12: a handler of a notification holds up the messages behind it, but no pull.
#[tokio::test]
async fn a_handler_of_a_notification_may_pass_a_flow() {
    let (tells, mut told) = mpsc::unbounded_channel();
    let server = router().notification("go", [], move |peer: Peer| {
        let tells = tells.clone();
        async move {
            let total: Called = peer.call("sum", &[count(4)]).await;
            drop(tells.send(total));
            NotificationOk
        }
    });
    let raw = Lines::to(with_flows(), server).await;
    let url = format!("tcp://{}", raw.address());
    let client = connect(url, with_flows(), summing().0).await.unwrap();
    client.notify("go", ()).await.unwrap();
    let total = timeout(PATIENCE, told.recv()).await.expect("no deadlock");
    assert_eq!(total.unwrap().unwrap(), 10);
}

// GEN-10 EXT-06
#[tokio::test]
async fn a_flow_is_described_as_the_integer_that_it_is() {
    let router = router().service(Adder.into_service()).method(
        "plain",
        ["numbers"],
        async |_: Flow<u32>| Ok::<_, OwnedError>(()),
    );
    let raw = Lines::to(with_flows(), router).await;
    let client = client_of(&raw, with_flows()).await;
    let document: OwnedJson = client.call("rpc.discover", ()).raw().await.unwrap();
    for part in [
        r#"{"name":"numbers","required":true,"schema":{"type":"integer"},"x-flow":{"#,
        r#""result":{"name":"result","schema":{"type":"integer"},"x-flow":{"#,
        r#"{"name":"plain","params":[{"name":"numbers","required":true,"schema":{"type":"integer"},"x-flow":{}}]"#,
    ] {
        assert!(document.as_str().contains(part), "{part}\n{document:?}");
    }
}
