//! Streams of subscriptions, and partial results, in memory and virtual time: what is sent, and what the
//! reader is told at which place.

use std::fmt::Debug;
use std::future::{Future, IntoFuture};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_net::duplex;
use antiphon_tokio::{
    CallError, Client, ClientConfig, Config, ConnectionConfig, Link, Notification, PartialResult,
    PartialResults, Peer, ReconnectStrategy, Report, Service, StreamEnd, Style, Subscription,
    SubscriptionError, attach, reconnect,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::reconnect::{Server, again_after_a_second, target};
use crate::support::Raw;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Notes notifications and reports.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<String>>>);

impl Told {
    pub(crate) fn all(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Service for Told {
    async fn notification(&self, _: &Peer, notification: Notification) {
        self.0.lock().unwrap().push(notification.method().into());
    }

    fn report(&self, _: &Peer, report: Report) {
        self.0.lock().unwrap().push(report.to_string());
    }
}

/// A peer, its other side, and what its service is told.
pub(crate) fn node(config: impl Into<ConnectionConfig>) -> (Peer, Raw, Told) {
    let (near, far) = duplex(1 << 16);
    let told = Told::default();
    let peer = attach(Link::new(near), config, told.clone());
    (peer, Raw::new(far), told)
}

/// The call that subscribes.
fn subscribe(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"eth_subscribe","params":["newHeads"],"id":{id}}}"#)
}

/// The call that unsubscribes the stream `stream`.
fn unsubscribe(stream: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"eth_unsubscribe","params":[{stream}],"id":{id}}}"#)
}

fn answer(id: u32, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"result\":{result},\"id\":{id}}}\n")
}

/// An event of the stream `stream`.
fn event(stream: &str, result: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"eth_subscription\",\"params\":{{\"subscription\":{stream},\"result\":{result}}}}}\n"
    )
}

/// Subscribes, and answers with this id and what else is sent in the same read.
async fn followed(peer: &Peer, node: &mut Raw, id: u32, read: &str) -> Subscription<u32> {
    let serving = async {
        assert_eq!(node.line().await, subscribe(id));
        node.send(read).await.unwrap();
    };
    let subscribing = peer.subscribe(Style::ETHEREUM, &["newHeads"]);
    let (subscription, ()) = tokio::join!(subscribing.into_future(), serving);
    subscription.unwrap()
}

/// A short form of an item.
fn short<T: Debug>(item: Result<T, SubscriptionError>) -> String {
    match item {
        Ok(value) => format!("{value:?}"),
        Err(SubscriptionError::Resubscribed { old, new }) => {
            format!("{} is now {}", old.as_str(), new.as_str())
        }
        Err(SubscriptionError::Lagged(events)) => format!("-{events}"),
        Err(SubscriptionError::Decode(_)) => "?".into(),
        Err(error) => error.to_string(),
    }
}

/// The next items, of which there must be as many.
async fn next<T: DeserializeOwned + Debug>(stream: &mut Subscription<T>, n: usize) -> Vec<String> {
    let mut items = Vec::new();
    for _ in 0..n {
        let next = timeout(600 * SECOND, stream.next()).await;
        items.push(short(next.expect("an item").expect("not the end")));
    }
    items
}

/// Lets every other task run until it waits.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

// USE-15, STREAMS §5: a map of handlers that is filled after the `.await` of the subscribe call
#[tokio::test(start_paused = true)]
async fn an_answer_and_three_events_in_one_read_lose_nothing() {
    let read: String = [answer(1, "\"0xa\"")]
        .into_iter()
        .chain(["1", "2", "3"].map(|result| event("\"0xa\"", result)))
        .collect();
    for cut in 0..read.len() {
        let (peer, mut node, told) = node(Config::ethereum());
        let serving = async {
            assert_eq!(node.line().await, subscribe(1));
            let (first, second) = read.split_at(cut);
            node.send(first).await.unwrap();
            settle().await;
            node.send(second).await.unwrap();
        };
        let subscribing = peer.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]);
        let (subscription, ()) = tokio::join!(subscribing.into_future(), serving);
        let mut subscription = subscription.unwrap();
        assert_eq!(subscription.id().as_str(), "\"0xa\"");
        assert_eq!(next(&mut subscription, 3).await, ["1", "2", "3"], "{cut}");
        assert_eq!(told.all(), [""; 0]);
    }
}

// USE-15
#[tokio::test(start_paused = true)]
async fn each_subscription_is_one_of_its_own_and_dropping_it_unsubscribes() {
    let (peer, mut node, told) = node(Config::ethereum());
    let mut one = followed(&peer, &mut node, 1, &answer(1, "1")).await;
    let mut two = followed(&peer, &mut node, 2, &answer(2, "2")).await;
    for (stream, result) in [("2", "20"), ("1", "10"), ("2", "21")] {
        node.send(event(stream, result)).await.unwrap();
    }
    assert_eq!(next(&mut two, 2).await, ["20", "21"]);
    assert_eq!(next(&mut one, 1).await, ["10"]);
    drop(one);
    assert_eq!(node.line().await, unsubscribe("1", 3));
    // What comes before the answer is for nobody.
    node.send(event("1", "11") + &answer(3, "true"))
        .await
        .unwrap();
    node.send(event("2", "22")).await.unwrap();
    assert_eq!(next(&mut two, 1).await, ["22"]);
    assert_eq!(told.all(), [""; 0]);
    // The stream keeps the connection open, and closes it.
    drop(peer);
    node.send(event("2", "23")).await.unwrap();
    assert_eq!(next(&mut two, 1).await, ["23"]);
    drop(two);
    assert!(node.ended().await);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_to_answer_an_unsubscribe_is_reported() {
    let (peer, mut node, told) = node(Config::ethereum());
    drop(followed(&peer, &mut node, 1, &answer(1, "7")).await);
    assert_eq!(node.line().await, unsubscribe("7", 2));
    node.send(event("7", "1") + &event("7", "2")).await.unwrap();
    sleep(29 * SECOND).await;
    assert_eq!(told.all(), [""; 0]);
    sleep(2 * SECOND).await;
    let report = "eth_unsubscribe was not answered in time, and 2 events were ignored";
    assert_eq!(told.all(), [report]);
    node.send(event("7", "3")).await.unwrap();
    settle().await;
    let unserved = "eth_subscription";
    assert_eq!(told.all(), [unserved]);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_stream_that_was_dropped_before_the_answer_is_unsubscribed_when_it_comes() {
    for is_dropped in [true, false] {
        let (peer, mut node, told) = node(Config::ethereum());
        let subscribing = peer.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]);
        match is_dropped {
            true => {
                let ended = timeout(SECOND, subscribing.into_future()).await;
                assert!(ended.is_err());
            }
            false => {
                let ended = subscribing.timeout(SECOND).await;
                assert!(matches!(ended, Err(CallError::TimedOut)));
            }
        }
        assert_eq!(node.line().await, subscribe(1));
        assert!(!node.has_line().await);
        node.send(answer(1, "\"0xb\"") + &event("\"0xb\"", "1"))
            .await
            .unwrap();
        assert_eq!(node.line().await, unsubscribe("\"0xb\"", 2));
        node.send(event("\"0xb\"", "2") + &answer(2, "true"))
            .await
            .unwrap();
        settle().await;
        assert_eq!(told.all(), [""; 0], "{is_dropped}");
    }
}

// USE-15
#[tokio::test(start_paused = true)]
async fn an_event_of_another_type_is_told_at_its_place() {
    let (peer, mut node, _) = node(Config::ethereum());
    let read = ["1", "\"x\"", "3"].map(|result| event("7", result));
    let read = answer(1, "7") + &read.concat();
    let mut stream = followed(&peer, &mut node, 1, &read).await;
    assert_eq!(next(&mut stream, 3).await, ["1", "?", "3"]);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_reader_that_is_slow_is_told_where_events_are_missing() {
    let (peer, mut node, _) = node(Config::ethereum());
    let mut stream = followed(&peer, &mut node, 1, &(answer(1, "7") + &event("7", "0"))).await;
    assert_eq!(next(&mut stream, 1).await, ["0"]);
    for result in 1..=1034 {
        node.send(event("7", &result.to_string())).await.unwrap();
    }
    settle().await;
    assert_eq!(next(&mut stream, 2).await, ["-10", "11"]);
    node.send(event("7", "1035") + &event("7", "1036"))
        .await
        .unwrap();
    settle().await;
    // One more than was taken: the oldest that is left was dropped.
    assert_eq!(next(&mut stream, 2).await, ["-1", "13"]);
    let rest: Vec<_> = (14..=1036).map(|result| result.to_string()).collect();
    assert_eq!(next(&mut stream, rest.len()).await, rest);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn what_cannot_be_a_stream_is_refused() {
    let (peer, mut node, _) = node(Config::ethereum());
    let refused = peer.subscribe::<()>(Style::LSP_PROGRESS, ()).await;
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "the style has no method that subscribes");
    assert!(!node.has_line().await);
    for (id, result) in [(1, "{}"), (2, "true"), (3, "null")] {
        let serving = async {
            assert_eq!(node.line().await, subscribe(id));
            node.send(answer(id, result)).await.unwrap();
        };
        let subscribing = peer.subscribe::<()>(Style::ETHEREUM, &["newHeads"]);
        let (refused, ()) = tokio::join!(subscribing.into_future(), serving);
        assert!(matches!(refused, Err(CallError::Decode(_))), "{result}");
    }
    let serving = async {
        node.line().await;
        node.send(
            "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32601,\"message\":\"no\"},\"id\":4}\n",
        )
        .await
        .unwrap();
    };
    let subscribing = peer.subscribe::<()>(Style::ETHEREUM, &["newHeads"]);
    let (refused, ()) = tokio::join!(subscribing.into_future(), serving);
    assert!(matches!(refused, Err(CallError::Remote(_))));
    // Nothing is left to unsubscribe.
    assert!(!node.has_line().await);
}

// USE-15
#[cfg(feature = "http")]
#[tokio::test]
async fn over_http_there_are_no_streams_and_nothing_is_sent() {
    let client = antiphon_tokio::connect("http://127.0.0.1:1/", Config::ethereum(), ());
    let client = client.await.unwrap();
    let refused = client
        .subscribe::<u32>(Style::ETHEREUM, &["newHeads"])
        .await;
    assert!(matches!(
        refused,
        Err(CallError::Rejected(antiphon_tokio::SendError::NoPush))
    ));
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_connection_and_says_why() {
    let (peer, mut node_side, _) = node(Config::ethereum());
    let read = answer(1, "7") + &event("7", "1");
    let mut stream = followed(&peer, &mut node_side, 1, &read).await;
    drop(node_side);
    let ended = "the stream has ended: the server ended the connection";
    assert_eq!(next(&mut stream, 2).await, ["1", ended]);
    assert!(stream.next().await.is_none());

    let (peer, mut node_side, _) = node(Config::ethereum());
    let mut stream = followed(&peer, &mut node_side, 1, &read).await;
    peer.drain();
    let ended = "the stream has ended: this side has ended the connection";
    assert_eq!(next(&mut stream, 2).await, ["1", ended]);
    assert!(stream.next().await.is_none());

    let (peer, mut node_side, _) = node(Config::ethereum());
    let read = read.clone() + &event("7", "\"slow\"").replace("result", "error");
    let mut stream = followed(&peer, &mut node_side, 1, &read).await;
    let ended = "the stream has ended: the peer has given it up: \"slow\"";
    assert_eq!(next(&mut stream, 2).await, ["1", ended]);
    assert!(stream.next().await.is_none());
    drop(stream);
    assert!(!node_side.has_line().await);

    // The peer gives the id to another stream.
    let read = answer(1, "7") + &event("7", "1");
    let (peer, mut node_side, _) = node(Config::ethereum());
    let mut stream = followed(&peer, &mut node_side, 1, &read).await;
    let mut other = followed(&peer, &mut node_side, 2, &answer(2, "7")).await;
    node_side.send(event("7", "2")).await.unwrap();
    let ended = "the stream has ended: the peer has given its id to another stream";
    assert_eq!(next(&mut stream, 2).await, ["1", ended]);
    assert_eq!(next(&mut other, 1).await, ["2"]);
}

/// A client that connects again after a second.
async fn client() -> (Client, Server) {
    let (target, server) = target();
    let mut options: ClientConfig = again_after_a_second(Config::ethereum());
    options.reconnect = ReconnectStrategy::Fixed {
        delay: SECOND,
        max_attempts: u32::MAX,
    };
    let client = reconnect(target, options, ()).await.unwrap();
    (client, server)
}

/// Subscribes on the first connection of a client, whose node answers with this id.
async fn first(client: &Client, node: &mut Raw, call: u32, id: &str) -> Subscription<u32> {
    let serving = async {
        assert_eq!(node.line().await, subscribe(call));
        node.send(answer(call, id)).await.unwrap();
    };
    let subscribing = client.subscribe(Style::ETHEREUM, &["newHeads"]);
    let subscribing = subscribing.resubscribe().into_future();
    let (stream, ()) = tokio::join!(subscribing, serving);
    stream.unwrap()
}

// USE-15
#[tokio::test(start_paused = true)]
async fn an_id_that_is_used_again_after_a_reconnect_belongs_to_the_stream_that_has_it_now() {
    let (client, mut server) = client().await;
    let mut node = server.accept().await;
    let mut one = first(&client, &mut node, 1, "\"a\"").await;
    let mut two = first(&client, &mut node, 2, "\"b\"").await;
    node.send(event("\"a\"", "1") + &event("\"b\"", "2"))
        .await
        .unwrap();
    drop(node);
    let mut node = server.accept().await;
    let serving = async {
        // The ids are swapped, and the first events come with the answers.
        for (call, id, result) in [(1, "\"b\"", "10"), (2, "\"a\"", "20")] {
            assert_eq!(node.line().await, subscribe(call));
            let read = answer(call, id) + &event(id, result);
            node.send(read).await.unwrap();
        }
        node
    };
    let reading = async {
        assert_eq!(next(&mut one, 3).await, ["1", "\"a\" is now \"b\"", "10"]);
        assert_eq!(one.id().as_str(), "\"b\"");
        assert_eq!(next(&mut two, 3).await, ["2", "\"b\" is now \"a\"", "20"]);
    };
    let (mut node, ()) = tokio::join!(serving, reading);
    drop(one);
    assert_eq!(node.line().await, unsubscribe("\"b\"", 3));
    node.send(event("\"a\"", "21")).await.unwrap();
    assert_eq!(next(&mut two, 1).await, ["21"]);
}

// USE-15, STREAMS §5: resubscribing everything, silently
#[tokio::test(start_paused = true)]
async fn a_stream_that_did_not_opt_in_ends_with_its_connection() {
    let (client, mut server) = client().await;
    let mut node = server.accept().await;
    let serving = async {
        node.line().await;
        let read = answer(1, "7") + &event("7", "1");
        node.send(read).await.unwrap();
        node
    };
    let subscribing = client.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]);
    let (stream, node) = tokio::join!(subscribing.into_future(), serving);
    let mut stream = stream.unwrap();
    drop(node);
    let ended = "the stream has ended: the server ended the connection";
    assert_eq!(next(&mut stream, 2).await, ["1", ended]);
    assert!(stream.next().await.is_none());
    // Nothing is sent over the next connection.
    let mut node = server.accept().await;
    assert!(!node.has_line().await);
}

// USE-15, STREAMS §5: resubscribing everything, silently
#[tokio::test(start_paused = true)]
async fn a_follower_of_a_node_that_restarts_ten_times_is_told_each_gap() {
    let (client, mut server) = client().await;
    let mut node = server.accept().await;
    let mut stream = first(&client, &mut node, 1, "\"0\"").await;
    let serving = async move {
        let mut sent = Vec::new();
        let mut height = 0;
        for restart in 0..=10 {
            if restart > 0 {
                drop(node);
                // It makes blocks while nobody is connected.
                height += restart % 3;
                node = server.accept().await;
                assert_eq!(node.line().await, subscribe(1));
                let read = answer(1, &format!("\"{restart}\""));
                node.send(read).await.unwrap();
            }
            for _ in 0..5 {
                height += 1;
                sent.push(height);
                let told = event(&format!("\"{restart}\""), &height.to_string());
                node.send(told).await.unwrap();
            }
            settle().await;
        }
        (sent, node)
    };
    let reading = async {
        let (mut seen, mut gaps, mut is_told) = (Vec::new(), 0, false);
        while seen.len() < 55 {
            match stream.next().await.expect("it goes on") {
                Ok(height) => {
                    let last = seen.last().copied().unwrap_or(0);
                    assert!(height == last + 1 || is_told && height > last);
                    is_told = false;
                    seen.push(height);
                }
                Err(SubscriptionError::Resubscribed { old, new }) => {
                    assert_eq!(old.as_str(), format!("\"{gaps}\""));
                    gaps += 1;
                    assert_eq!(new.as_str(), format!("\"{gaps}\""));
                    is_told = true;
                }
                Err(error) => panic!("{error}"),
            }
        }
        (seen, gaps)
    };
    let ((sent, _node), (seen, gaps)) = tokio::join!(serving, reading);
    assert_eq!((seen, gaps), (sent, 10));
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_stream_that_cannot_be_subscribed_again_says_why() {
    // The connection is lost again before the answer; then the server refuses.
    let (client, mut server) = client().await;
    let mut node = server.accept().await;
    let mut stream = first(&client, &mut node, 1, "7").await;
    drop(node);
    let serving = async {
        let mut node = server.accept().await;
        assert_eq!(node.line().await, subscribe(1));
        drop(node);
        let mut node = server.accept().await;
        assert_eq!(node.line().await, subscribe(1));
        sleep(20 * SECOND).await;
        let refusal = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"no\"},\"id\":1}\n";
        node.send(refusal).await.unwrap();
    };
    let (items, ()) = tokio::join!(next(&mut stream, 1), serving);
    assert_eq!(items, ["the stream has ended: no (1)"]);
    assert!(stream.next().await.is_none());

    let mut node = server.accept().await;
    let mut stream = first(&client, &mut node, 1, "7").await;
    client.close();
    match stream.next().await {
        Some(Err(SubscriptionError::Ended(StreamEnd::Call(CallError::NoConnection(error))))) => {
            assert!(error.is_final());
        }
        other => panic!("{other:?}"),
    }
    assert!(stream.next().await.is_none());
}

/// The items of a call's partial results until the end.
pub(crate) async fn parts<T, R, C>(mut results: PartialResults<'_, T, R, C>) -> Vec<String>
where
    T: DeserializeOwned + Debug,
    R: Debug,
{
    let mut items = Vec::new();
    while let Some(item) = results.next().await {
        items.push(match item {
            Ok(PartialResult::Part(part)) => format!("{part:?}"),
            Ok(PartialResult::Result(result)) => format!("= {result:?}"),
            error => short(error),
        });
    }
    items
}

/// Calls with partial results, and returns them. `serve` is the other side.
async fn asked<F: Future<Output = ()>>(serve: impl FnOnce(Raw) -> F) -> Vec<String> {
    let mut config = Config::lsp();
    config.framing = Config::new().framing;
    let (peer, mut node, _) = node(config);
    let params = json!({"query": "a"});
    let call = peer.call::<Option<u32>>("symbols", &params);
    let call = parts(call.partial_results::<u32>());
    let serving = async {
        let asked = r#"{"jsonrpc":"2.0","method":"symbols","params":{"partialResultToken":"antiphon-0","query":"a"},"id":1}"#;
        assert_eq!(node.line().await, asked);
        serve(node).await;
    };
    tokio::join!(call, serving).0
}

fn part(value: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"$/progress\",\"params\":{{\"token\":\"antiphon-0\",\"value\":{value}}}}}\n"
    )
}

// USE-15
#[tokio::test(start_paused = true)]
async fn partial_results_end_with_the_answer_after_the_last_part() {
    let items = asked(async |mut node: Raw| {
        node.send(part("1")).await.unwrap();
        settle().await;
        let read = [part("2"), part("\"x\""), part("4"), answer(1, "null")];
        node.send(read.concat()).await.unwrap();
        // The answer is the end.
        node.send(part("5")).await.unwrap();
    });
    assert_eq!(items.await, ["1", "2", "?", "4", "= None"]);
    let items = asked(async |mut node: Raw| node.send(answer(1, "7")).await.unwrap());
    assert_eq!(items.await, ["= Some(7)"]);
    let items = asked(async |mut node: Raw| {
        let refusal = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"no\"},\"id\":1}\n";
        node.send(part("1") + refusal).await.unwrap();
    });
    assert_eq!(items.await, ["1", "the stream has ended: no (1)"]);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn a_reader_of_partial_results_that_is_slow_is_told_where_parts_are_missing() {
    let (peer, mut node, _) = node(Config::ethereum());
    let call = peer.call::<Option<u32>>("symbols", ());
    let mut results = call.partial_results::<u32>();
    assert!(timeout(SECOND, results.next()).await.is_err());
    node.line().await;
    for value in 0..1030 {
        node.send(part(&value.to_string())).await.unwrap();
    }
    node.send(answer(1, "null")).await.unwrap();
    settle().await;
    let mut expected = vec!["-6".to_owned()];
    expected.extend((6..1030).map(|value| value.to_string()));
    expected.push("= None".into());
    assert_eq!(parts(results).await, expected);
}

// USE-15
#[tokio::test(start_paused = true)]
async fn partial_results_need_params_with_a_place_for_the_token() {
    let (peer, _node, _) = node(Config::lsp());
    let call = peer.call::<u32>("symbols", &[1]);
    let items = parts(call.partial_results::<u32>()).await;
    let why = "the stream has ended: params in an array have no place for a progress token";
    assert_eq!(items, [why]);
    assert_eq!(peer.transmit_queued(), 0);
}
