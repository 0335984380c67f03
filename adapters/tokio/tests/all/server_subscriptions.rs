//! Subscriptions that a server serves, byte for byte as a peer without any library of ours sees them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::{
    Config, ConnectionConfig, OwnedError, Peer, Router, SendError, StreamEnd, Style,
    SubscriptionError, SubscriptionSink, TcpServer, connect,
};
use futures_util::stream::{self, Stream, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);
const TICKS: Style = Style::named("subscribe", "tick", "unsubscribe");

fn router() -> Router {
    Router::new().method("ping", [], || Ok::<_, OwnedError>("pong"))
}

/// Sends the numbers from 0 to `n`.
async fn count(n: u32, sink: SubscriptionSink<u32>) -> Result<(), OwnedError> {
    for i in 0..n {
        sink.send(&i).await?;
    }
    Ok(())
}

/// Sends what comes out of a channel, until that is closed.
fn from_channel() -> (mpsc::Sender<u32>, Router) {
    let (sender, receiver) = mpsc::channel::<u32>(8);
    let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
    let router = router().subscription(TICKS, [], move |sink: SubscriptionSink<u32>| {
        let receiver = Arc::clone(&receiver);
        async move {
            let mut receiver = receiver.lock().await;
            while let Some(next) = receiver.recv().await {
                sink.send(&next).await?;
            }
            Ok::<_, OwnedError>(())
        }
    });
    (sender, router)
}

const END: &str = r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","error":{"code":-32001,"message":"Stream completed"}}}"#;

// USE-15: the answer, then the events, then the end.
#[tokio::test]
async fn events_follow_the_answer_and_the_end_follows_them() {
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, ["n"], count)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","params":[2],"id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":0}}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":1}}"#,
        END,
    ])
    .await;
    raw.hear_nothing().await;
}

// USE-15, STREAMS §5: a spawned task for each subscription, answered later, would send into the middle of the batch.
#[tokio::test]
async fn a_subscribe_in_a_batch_whose_other_member_waits() {
    let go = Arc::new(Notify::new());
    let waits = Arc::clone(&go);
    let router = router()
        .subscription(TICKS, ["n"], count)
        .method("wait", [], move || {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok::<_, OwnedError>("waited")
            }
        });
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"[{"jsonrpc":"2.0","method":"subscribe","params":[1],"id":1},{"jsonrpc":"2.0","method":"wait","id":2}]"#)
        .await;
    raw.hear_nothing().await;
    go.notify_one();
    raw.hear(&[
        r#"[{"jsonrpc":"2.0","result":"0x1","id":1},{"jsonrpc":"2.0","result":"waited","id":2}]"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":0}}"#,
        END,
    ])
    .await;
}

// USE-15: nothing follows the answer to an unsubscribe, and the handler is dropped.
#[tokio::test]
async fn unsubscribing_ends_the_events() {
    let (events, router) = from_channel();
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#])
        .await;
    events.send(7).await.unwrap();
    raw.hear(&[r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":7}}"#])
        .await;
    for (id, result) in [
        (r#"["0x01"]"#, "false"),
        (r#"["0x2"]"#, "false"),
        ("[1]", "false"),
        (r#"{"subscription":"0x1"}"#, "true"),
        (r#"["0x1"]"#, "false"),
    ] {
        let params = format!(r#"{{"jsonrpc":"2.0","method":"unsubscribe","params":{id},"id":2}}"#);
        raw.say(&params).await;
        raw.hear(&[&format!(r#"{{"jsonrpc":"2.0","result":{result},"id":2}}"#)])
            .await;
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"unsubscribe","id":3}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":3}"#])
        .await;
    raw.hear_nothing().await;
    // The next subscription gets the channel, because the first handler was dropped.
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":4}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x2","id":4}"#])
        .await;
    events.send(8).await.unwrap();
    raw.hear(&[r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x2","result":8}}"#])
        .await;
}

// USE-15, PUB-12, SEC-09, TST-12: the 257th subscription of a connection.
#[tokio::test]
async fn the_257th_subscription_is_refused() {
    let (_events, router) = from_channel();
    let mut raw = Lines::to(Config::new(), router).await;
    for number in 1..=256 {
        raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
            .await;
        raw.hear(&[&format!(
            r#"{{"jsonrpc":"2.0","result":"{number:#x}","id":1}}"#
        )])
        .await;
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","error":{"code":-32002,"message":"Too many subscriptions"},"id":1}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"unsubscribe","params":["0x7"],"id":2}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":2}"#])
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x101","id":1}"#])
        .await;
}

// USE-15, STREAMS §5: a spawned task for each subscription. A hundred hold no place of a request, and no shutdown.
#[tokio::test]
async fn open_subscriptions_hold_up_neither_calls_nor_a_shutdown() {
    let (_events, router) = from_channel();
    let mut options = ConnectionConfig::from(Config::new());
    options.max_running_requests = 1;
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start(options, router.into_make_service());
    let stream = TcpStream::connect(address).await.unwrap();
    let mut raw = Lines::on(stream);
    for number in 1..=100 {
        raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
            .await;
        raw.hear(&[&format!(
            r#"{{"jsonrpc":"2.0","result":"{number:#x}","id":1}}"#
        )])
        .await;
    }
    raw.hear_nothing().await;
    let shutdown = running.shutdown(Duration::from_secs(5));
    timeout(Duration::from_secs(2), shutdown)
        .await
        .expect("at once");
}

// USE-15: a handler that fails, one that panics, one that refuses.
#[tokio::test]
async fn the_peer_is_told_why_a_subscription_has_ended() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let fails = async |n: u32, sink: SubscriptionSink<u32>| {
        sink.send(&n).await?;
        match n {
            0 => Err::<(), _>(OwnedError::new(1001, "no more")),
            _ => panic!("as told"),
        }
    };
    let refuses = |sink: SubscriptionSink<u32>| {
        drop(sink);
        Err::<(), _>(OwnedError::new(1002, "not you"))
    };
    let router = router()
        .subscription(TICKS, ["n"], fails)
        .subscription(Style::named("refuse", "never", "unsubscribe"), [], refuses)
        .on_report(move |_, report| seen.lock().unwrap().push(format!("{report:?}")));
    let mut raw = Lines::to(Config::new(), router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","params":[0],"id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":0}}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","error":{"code":1001,"message":"no more"}}}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","params":[1],"id":2}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x2","id":2}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x2","result":1}}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x2","error":{"code":-32603,"message":"Internal error"}}}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"refuse","id":3}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":1002,"message":"not you"},"id":3}"#])
        .await;
    raw.hear_nothing().await;
    let reports = reports.lock().unwrap().join(" ");
    assert!(
        reports.contains("no more") && reports.contains("panicked"),
        "{reports}"
    );
}

// USE-15: the sink of a handler that returns at once is used by a thread.
#[tokio::test]
async fn a_thread_sends_and_learns_of_the_end() {
    let (ended, mut has_ended) = mpsc::channel::<(Result<(), SendError>, bool)>(1);
    let given = move |sink: SubscriptionSink<u32>| {
        let ended = ended.clone();
        std::thread::spawn(move || {
            // It waits until the answer was sent.
            sink.send(&1).wait().unwrap();
            sink.closed().wait();
            let _ = ended.blocking_send((sink.send(&2).wait(), sink.is_closed()));
        });
        Ok::<_, OwnedError>(())
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], given)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x1","result":1}}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"unsubscribe","params":["0x1"],"id":2}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":2}"#])
        .await;
    assert_eq!(
        has_ended.recv().await,
        Some((Err(SendError::NotOpen), true))
    );
    // A closed connection ends the sink as well.
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":3}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x2","id":3}"#,
        r#"{"jsonrpc":"2.0","method":"tick","params":{"subscription":"0x2","result":1}}"#,
    ])
    .await;
    drop(raw);
    let ended = timeout(PATIENCE, has_ended.recv()).await.expect("in time");
    assert_eq!(ended, Some((Err(SendError::Closed), true)));
}

// USE-15: a sink that is dropped is not silent, even if it is dropped before the answer was sent.
#[tokio::test]
async fn the_last_clone_of_a_sink_ends_the_subscription() {
    let mut raw = Lines::to(
        Config::new(),
        router().subscription(TICKS, [], |sink: SubscriptionSink<u32>| {
            drop(sink.clone());
            assert_eq!(
                sink.try_send(&1),
                Err(SendError::Full),
                "the answer was not sent yet"
            );
            assert_eq!(sink.id().as_str(), "\"0x1\"");
            Ok::<_, OwnedError>(())
        }),
    )
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#, END])
        .await;
    raw.hear_nothing().await;
}

// USE-15: a peer that stops reading makes the sink wait, and others go on.
#[tokio::test]
async fn a_peer_that_does_not_read_makes_its_own_sink_wait() {
    let sent = Arc::new(Mutex::new(0_u32));
    let counts = Arc::clone(&sent);
    let floods = move |sink: SubscriptionSink<str>| {
        let counts = Arc::clone(&counts);
        async move {
            let event = "x".repeat(64 * 1024);
            loop {
                sink.send(&event).await?;
                *counts.lock().unwrap() += 1;
            }
            #[expect(unreachable_code, reason = "the type of the handler's result")]
            Ok::<_, OwnedError>(())
        }
    };
    let router = router().subscription(TICKS, [], floods);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let _running = server.start(Config::new(), router.into_make_service());
    let mut silent = TcpStream::connect(address).await.unwrap();
    silent
        .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"subscribe\",\"id\":1}\n")
        .await
        .unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let mut raw = Lines::on(stream);
    // The flood stands still once the buffers of the system and the output are full.
    let mut before = u32::MAX;
    while std::mem::replace(&mut before, *sent.lock().unwrap()) != before || before == 0 {
        raw.hear_nothing().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(before < 1000, "{before} events of 64 KiB were taken");
    raw.hear_nothing().await;
}

// USE-15, CON-06: the handler is dropped with its connection.
#[tokio::test]
async fn a_handler_ends_with_its_connection() {
    struct Tells(mpsc::Sender<()>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.try_send(());
        }
    }
    let (dropped, mut was_dropped) = mpsc::channel(4);
    let waits = move |sink: SubscriptionSink<u32>, peer: Peer| {
        let tells = Tells(dropped.clone());
        async move {
            let _tells = tells;
            assert!(peer.can_notify());
            sink.closed().await;
            Ok::<_, OwnedError>(())
        }
    };
    let mut raw = Lines::to(Config::new(), router().subscription(TICKS, [], waits)).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribe","id":1}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#])
        .await;
    drop(raw);
    timeout(PATIENCE, was_dropped.recv())
        .await
        .expect("in time")
        .unwrap();
}

// USE-15, PUB-16: 1.0 has no subscriptions.
#[tokio::test]
async fn version_1_has_no_subscriptions() {
    let mut raw = Lines::to(Config::v1(), router().subscription(TICKS, ["n"], count)).await;
    raw.say(r#"{"method":"subscribe","params":[2],"id":1}"#)
        .await;
    raw.hear(&[r#"{"result":null,"error":{"code":-32601,"message":"Method not found"},"id":1}"#])
        .await;
}

// USE-15, EXT-05: the description names the notification.
#[test]
fn the_document_describes_a_subscription() {
    let router = router().subscription(TICKS, ["n"], count);
    let document = router.document().unwrap();
    assert!(
        document
            .contains(r#""x-subscription":{"notification":"tick","unsubscribe":"unsubscribe"}"#),
        "{document}"
    );
}

#[antiphon_tokio::service(rename_all = "camelCase")]
trait Clock {
    /// Ticks from a number on.
    #[rpc(subscription)]
    fn ticks(&self, from: u64) -> impl Stream<Item = u64> + Send;

    #[rpc(subscription("eth_subscribe", "eth_subscription", "eth_unsubscribe"))]
    fn heads(&self, kind: String) -> impl Stream<Item = String> + Send;

    async fn now(&self) -> Result<u64, OwnedError>;
}

struct Counter {
    steps: Vec<u64>,
}

impl Clock for Counter {
    fn ticks(&self, from: u64) -> impl Stream<Item = u64> + Send {
        stream::iter(self.steps.iter().map(move |step| from + step))
    }

    fn heads(&self, kind: String) -> impl Stream<Item = String> + Send {
        stream::iter(vec![format!("{kind} 1")]).chain(stream::pending())
    }

    async fn now(&self) -> Result<u64, OwnedError> {
        Ok(7)
    }
}

// USE-15: a method of a service that returns a stream, which borrows the service.
#[tokio::test]
async fn a_service_declares_subscriptions() {
    let service = Counter { steps: vec![1, 2] };
    let mut raw = Lines::to(Config::new(), router().service(service.into_service())).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribeTicks","params":{"from":5},"id":1}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x1","id":1}"#,
        r#"{"jsonrpc":"2.0","method":"ticks","params":{"subscription":"0x1","result":6}}"#,
        r#"{"jsonrpc":"2.0","method":"ticks","params":{"subscription":"0x1","result":7}}"#,
        &END.replace("tick", "ticks"),
    ])
    .await;
    // Params that do not fit are the answer, and no subscription is left.
    raw.say(r#"{"jsonrpc":"2.0","method":"subscribeTicks","params":["x"],"id":2}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":2}"#])
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"eth_subscribe","params":["newHeads"],"id":3}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","result":"0x3","id":3}"#,
        r#"{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"0x3","result":"newHeads 1"}}"#,
    ])
    .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"unsubscribeTicks","params":["0x3"],"id":4}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":false,"id":4}"#])
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"eth_unsubscribe","params":["0x3"],"id":5}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":5}"#])
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"now","id":6}"#).await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":7,"id":6}"#]).await;
}

// USE-15: the client that is made of the same trait.
#[tokio::test]
async fn a_typed_client_subscribes() {
    let router = router().service(Counter { steps: vec![1, 2] }.into_service());
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp://{}", server.local_addr());
    let _running = server.start(Config::new(), router.into_make_service());
    let client = connect(&*target, Config::new(), ()).await.unwrap();
    let clock = ClockClient::new(&client);
    let mut ticks = clock.ticks(5).await.unwrap();
    assert_eq!(ticks.next().await.unwrap().unwrap(), 6);
    assert_eq!(ticks.next().await.unwrap().unwrap(), 7);
    let by_position = ClockClient::new(client.peer().unwrap()).by_position();
    let mut heads = by_position
        .heads("newHeads".into())
        .timeout(PATIENCE)
        .await
        .unwrap();
    assert_eq!(heads.next().await.unwrap().unwrap(), "newHeads 1");
    assert_eq!(clock.now().await.unwrap(), 7);
}

// USE-15: both sides are ours. A failure is the last item.
#[tokio::test]
async fn a_client_of_ours_reads_to_the_end() {
    let fails = async |sink: SubscriptionSink<u32>| {
        sink.send(&1).await?;
        Err::<(), _>(OwnedError::new(1001, "no more"))
    };
    let fail = Style::named("fail", "failed", "unfail");
    let router = router()
        .subscription(TICKS, ["n"], count)
        .subscription(fail, [], fails);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let target = format!("tcp://{}", server.local_addr());
    let _running = server.start(Config::new(), router.into_make_service());
    let client = connect(&*target, Config::new(), ()).await.unwrap();
    let mut ticks = client.subscribe::<u32>(TICKS, &[3]).await.unwrap();
    for expected in 0..3 {
        assert_eq!(ticks.next().await.unwrap().unwrap(), expected);
    }
    assert!(ticks.next().await.is_none(), "an end in order is the end");
    let mut failing = client.subscribe::<u32>(fail, ()).await.unwrap();
    assert_eq!(failing.next().await.unwrap().unwrap(), 1);
    let ended = failing.next().await.unwrap();
    let Err(SubscriptionError::Ended(StreamEnd::GivenUp(why))) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(why.as_str(), r#"{"code":1001,"message":"no more"}"#);
    assert!(failing.next().await.is_none());
}
