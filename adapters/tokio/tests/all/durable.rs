//! Durable subscriptions: as a peer without any library of ours consumes them, and as a stream.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::durable::{
    Command, Completer, Detached, Durability, DurableEvent, MemoryStore, Retention, SecondConsumer,
    Start, Store, StoreError,
};
use antiphon_tokio::{
    Config, ConnectionConfig, Delivered, DeliveryError, Durable, DurableConfig,
    DurablePublishError, ErrorObject, OwnedError, Router, Running, StreamEnd, TcpServer, connect,
    reconnect,
};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::lines::Lines;

const PATIENCE: Duration = Duration::from_secs(10);

fn router(orders: &Durable) -> Router {
    let pong = || Ok::<_, OwnedError>("pong");
    Router::new().method("ping", [], pong).durable(orders)
}

async fn serve(orders: &Durable) -> (String, Running) {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", server.local_addr());
    (
        url,
        server.start(Config::new(), router(orders).into_make_service()),
    )
}

async fn ask(lines: &mut Lines, method: &str, params: &str, result: &str) {
    let method = format!("rpc.{method}");
    lines
        .say(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1}}"#
        ))
        .await;
    let member = if result.starts_with(r#"{"code""#) {
        "error"
    } else {
        "result"
    };
    lines
        .hear(&[&format!(
            r#"{{"jsonrpc":"2.0","{member}":{result},"id":1}}"#
        )])
        .await;
}

async fn subscribe(lines: &mut Lines, from: u64) {
    ask(
        lines,
        "subscribe.persistent",
        r#"{"subscription_id":"order-processor-1","topic":"orders"}"#,
        &format!(r#"{{"subscription_id":"order-processor-1","topic":"orders","resumed_from_sequence":{from}}}"#),
    )
    .await;
}

/// Compares the next message; its time is that of the machine.
async fn hear_message(lines: &mut Lines, sequence: u64, data: &str) {
    let start = format!(
        r#"{{"jsonrpc":"2.0","method":"rpc.notification.persistent","params":{{"subscription_id":"order-processor-1","topic":"orders","sequence_id":{sequence},"timestamp":""#
    );
    let line = lines.hear_line().await;
    let (time, rest) = line.strip_prefix(&start).unwrap_or(&line).split_at(24);
    assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{line}");
    assert_eq!(rest, format!(r#"","data":{data}}}}}"#), "{line}");
}

const NOT_ATTACHED: &str = r#"{"code":-32602,"message":"Invalid params","data":"this connection is not attached to the subscription"}"#;

async fn next<T>(
    stream: &mut antiphon_tokio::DurableStream<T>,
) -> Result<Delivered<T>, DeliveryError>
where
    T: serde::de::DeserializeOwned,
{
    let next = timeout(PATIENCE, stream.next()).await;
    next.expect("in time").expect("not the end")
}

// EXA-07 PER-01 PER-02 PER-05 PER-06 PER-07 PER-09 PER-10 PER-14 PER-15 PER-16 EXT-11 TST-18
#[tokio::test]
async fn the_run_of_the_example() {
    let orders = Durable::in_memory(1 << 20);
    let (url, _running) = serve(&orders).await;
    let mut lines = Lines::on(TcpStream::connect(&url["tcp://".len()..]).await.unwrap());
    subscribe(&mut lines, 0).await;
    for (sequence, order) in ["ORD-1", "ORD-2", "ORD-3"].iter().enumerate() {
        let stored = orders.publish("orders", order).await.unwrap();
        assert_eq!(stored, sequence as u64 + 1);
    }
    hear_message(&mut lines, 1, r#""ORD-1""#).await;
    hear_message(&mut lines, 2, r#""ORD-2""#).await;
    hear_message(&mut lines, 3, r#""ORD-3""#).await;
    let (one, three) = (r#"["order-processor-1",1]"#, r#"["order-processor-1",3]"#);
    ask(
        &mut lines,
        "acknowledge.persistent",
        one,
        r#"{"acknowledged":true}"#,
    )
    .await;
    ask(
        &mut lines,
        "acknowledge.persistent",
        three,
        r#"{"acknowledged":true}"#,
    )
    .await;

    // It is gone without a word, and what it has not acknowledged comes again.
    let mut again = lines.another().await;
    lines.vanish();
    subscribe(&mut again, 1).await;
    hear_message(&mut again, 2, r#""ORD-2""#).await;
    ask(
        &mut again,
        "subscribe.persistent.batch",
        r#"{"subscriptions":[{"subscription_id":"order-processor-1","topic":"orders"},{"subscription_id":"b","topic":"shipments"}]}"#,
        r#"{"subscriptions":[{"subscription_id":"order-processor-1","resumed_from_sequence":1},{"subscription_id":"b","resumed_from_sequence":0}]}"#,
    )
    .await;
    hear_message(&mut again, 2, r#""ORD-2""#).await;
    ask(
        &mut again,
        "acknowledge.persistent.batch",
        r#"{"acknowledgments":[{"subscription_id":"order-processor-1","sequence_id":2},{"subscription_id":"b","sequence_id":7},{"subscription_id":"c","sequence_id":1}]}"#,
        r#"{"acknowledged":[{"subscription_id":"order-processor-1","sequence_id":2,"success":true},{"subscription_id":"b","sequence_id":7,"success":false},{"subscription_id":"c","sequence_id":1,"success":false}]}"#,
    )
    .await;
    let (c, own) = (r#"["c",1]"#, r#"["order-processor-1"]"#);
    ask(&mut again, "acknowledge.persistent", c, NOT_ATTACHED).await;
    ask(
        &mut again,
        "unsubscribe.persistent",
        own,
        r#"{"unsubscribed":true}"#,
    )
    .await;
    ask(
        &mut again,
        "unsubscribe.persistent",
        own,
        r#"{"unsubscribed":false}"#,
    )
    .await;
    // The topic stays, and a new subscription begins at its end.
    subscribe(&mut again, 3).await;
}

// PER-12 PER-20 SEC-14
#[tokio::test]
async fn a_takeover_is_told_to_the_stream_and_to_the_program() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let config = DurableConfig::new().on_event(move |event| sink.lock().unwrap().push(event));
    let orders = Durable::with(Memory::default(), config);
    let (url, _running) = serve(&orders).await;
    let first = connect(&url, Config::new(), ()).await.unwrap();
    let second = connect(&url, Config::new(), ()).await.unwrap();
    let mut old = first.durable::<u32>("a", "orders").await.unwrap();
    for i in 1..=3 {
        orders.publish("orders", &i).await.unwrap();
    }
    let one = next(&mut old).await.unwrap();
    let mut new = second.durable::<u32>("a", "orders").await.unwrap();
    assert!(one.ack().await.is_err());
    for i in 1..=3 {
        let message = next(&mut new).await.unwrap();
        assert_eq!((message.data, message.sequence), (i, u64::from(i)));
        message.ack().await.unwrap();
    }
    let told = loop {
        match next(&mut old).await {
            Ok(_) => {}
            Err(told) => break told,
        }
    };
    assert!(
        matches!(told, DeliveryError::Ended(StreamEnd::TakenOver)),
        "{told}"
    );
    assert!(timeout(PATIENCE, old.next()).await.unwrap().is_none());
    assert_eq!(orders.lag("a"), Some(0));
    let events = events.lock().unwrap();
    assert!(
        matches!(
            &events[..],
            [DurableEvent::Detached {
                why: Detached::TakenOver,
                ..
            }]
        ),
        "{events:?}"
    );
}

// PER-03 PER-09 CLI-20
#[tokio::test]
async fn a_stream_goes_on_over_the_next_connection_and_returns_nothing_twice() {
    let orders = Durable::in_memory(1 << 20);
    let (url, running) = serve(&orders).await;
    let address: std::net::SocketAddr = url["tcp://".len()..].parse().unwrap();
    let client = reconnect(&url, Config::new(), ()).await.unwrap();
    let mut stream = client.durable::<u32>("a", "orders").await.unwrap();
    for i in 1..=4 {
        orders.publish("orders", &i).await.unwrap();
    }
    next(&mut stream).await.unwrap().ack().await.unwrap();
    let two = next(&mut stream).await.unwrap();
    let three = next(&mut stream).await.unwrap();
    running.close().await;
    // It is finished while there is no connection, and acknowledged over the next one.
    drop(two.ack().await);
    let server = TcpServer::bind(address).await.unwrap();
    let _running = server.start(Config::new(), router(&orders).into_make_service());
    orders.publish("orders", &5).await.unwrap();
    let four = next(&mut stream).await.unwrap();
    let five = next(&mut stream).await.unwrap();
    assert_eq!((three.data, four.data, five.data), (3, 4, 5));
    four.ack().await.unwrap();
    // What the program has finished meanwhile is acknowledged by the stream; what it has stays its own.
    let all_but_two = async {
        while orders.lag("a") != Some(2) {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, all_but_two).await.unwrap();
    assert_eq!(stream.position(), 2);
    three.ack().await.unwrap();
    assert_eq!(stream.position(), 4);
    assert_eq!(orders.lag("a"), Some(1));
}

// PER-13
#[tokio::test]
async fn what_retention_removed_is_told_at_its_place() {
    let mut config = DurableConfig::new();
    config.settings.start = Start::EarliestRetained;
    let orders = Durable::with(Memory::default(), config);
    let mut two = Retention::FOREVER;
    two.max_count = Some(2);
    orders.set_retention("orders", two).unwrap();
    let (url, _running) = serve(&orders).await;
    let client = connect(&url, Config::new(), ()).await.unwrap();
    drop(client.durable::<u32>("a", "orders").await.unwrap());
    for i in 1..=5 {
        orders.publish("orders", &i).await.unwrap();
    }
    let mut stream = client.durable::<String>("a", "orders").await.unwrap();
    let missed = next(&mut stream).await.unwrap_err();
    assert!(matches!(missed, DeliveryError::Missed(3)), "{missed}");
    // A number is no text; the message can be acknowledged.
    let DeliveryError::Decode(_, four) = next(&mut stream).await.unwrap_err() else {
        panic!("it was decoded");
    };
    assert_eq!((four.data.as_str(), four.sequence), ("4", 4));
    four.ack().await.unwrap();
}

// PER-18 SEC-14
#[tokio::test]
async fn the_check_decides_over_each_subscription_and_its_error_is_the_answer() {
    let config = DurableConfig::new().check(|request, entry| {
        assert!(request.method().starts_with("rpc."));
        let is_own = entry.subscription() == "mine";
        async move {
            tokio::task::yield_now().await;
            let refused = OwnedError::from(ErrorObject::new(-32003, "Not yours"));
            if is_own { Ok(()) } else { Err(refused) }
        }
    });
    let orders = Durable::with(Memory::default(), config);
    let mut lines = Lines::to(Config::new(), router(&orders)).await;
    let refused = r#"{"code":-32003,"message":"Not yours"}"#;
    let other = r#"{"subscription_id":"other","topic":"orders"}"#;
    ask(&mut lines, "subscribe.persistent", other, refused).await;
    ask(
        &mut lines,
        "acknowledge.persistent",
        r#"["other",1]"#,
        refused,
    )
    .await;
    ask(
        &mut lines,
        "unsubscribe.persistent",
        r#"["other"]"#,
        refused,
    )
    .await;
    let both = r#"[[{"subscription_id":"mine","topic":"orders"},{"subscription_id":"other","topic":"orders"}]]"#;
    ask(&mut lines, "subscribe.persistent.batch", both, refused).await;
    ask(
        &mut lines,
        "unsubscribe.persistent",
        r#"["mine"]"#,
        r#"{"unsubscribed":false}"#,
    )
    .await;
}

// PER-04
#[tokio::test]
async fn a_store_that_is_silent_holds_up_nothing_else_and_nothing_unstored_is_delivered() {
    let store = Memory::default();
    let silent = Arc::clone(&store.silent);
    let mut config = DurableConfig::new();
    config.settings.store_timeout = Some(Duration::from_millis(300));
    let orders = Durable::with(store, config);
    let mut lines = Lines::to(Config::new(), router(&orders)).await;
    subscribe(&mut lines, 0).await;
    *silent.lock().unwrap() = Some(Vec::new());
    let publishing = orders.publish("orders", &1);
    let attach =
        r#"{"jsonrpc":"2.0","method":"rpc.subscribe.persistent","params":["b","orders"],"id":2}"#;
    lines.say(attach).await;
    lines
        .say(r#"{"jsonrpc":"2.0","method":"ping","id":3}"#)
        .await;
    lines
        .hear(&[r#"{"jsonrpc":"2.0","result":"pong","id":3}"#])
        .await;
    // The one that never answers fails in its time, and the answer that comes later delivers the message.
    lines
        .hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":2}"#])
        .await;
    let failed = publishing.await.unwrap_err();
    assert!(
        matches!(failed, DurablePublishError::Store(StoreError::Failed)),
        "{failed}"
    );
    let waiting = silent.lock().unwrap().take().unwrap();
    for (command, done) in waiting {
        match command {
            Command::Append { .. } => done.complete(orders_append(&command)),
            _ => drop(done),
        }
    }
    ask(
        &mut lines,
        "unsubscribe.persistent",
        r#"["c"]"#,
        r#"{"unsubscribed":false}"#,
    )
    .await;
}

/// What the store says that has stored a first message.
fn orders_append(append: &Command) -> Result<antiphon_tokio::durable::Completion, StoreError> {
    MemoryStore::new(1 << 20).execute(append)
}

// PER-12
#[tokio::test]
async fn a_second_consumer_is_refused_where_that_is_set_and_the_answer_may_fail_after_all() {
    let mut config = DurableConfig::new();
    config.settings.second_consumer = SecondConsumer::Reject;
    let orders = Durable::with(Memory::default(), config);
    let mut small = ConnectionConfig::from(Config::new());
    // The answer to the subscribe does not fit, so the subscription does not begin, and the name is free.
    small.config.limits.max_outbox_bytes = 120;
    let mut lines = Lines::to(small, router(&orders)).await;
    let long = format!(r#"["{}","orders"]"#, "n".repeat(90));
    ask(
        &mut lines,
        "subscribe.persistent",
        &long,
        r#"{"code":-32603,"message":"Internal error"}"#,
    )
    .await;
    let (url, _running) = serve(&orders).await;
    let client = connect(&url, Config::new(), ()).await.unwrap();
    let mut held = client
        .durable::<u32>(&"n".repeat(90), "orders")
        .await
        .unwrap();
    let other = connect(&url, Config::new(), ()).await.unwrap();
    let refused = other.durable::<u32>(&"n".repeat(90), "orders").await;
    assert!(refused.unwrap_err().to_string().contains("-32602"));
    orders.publish("orders", &7).await.unwrap();
    assert_eq!(next(&mut held).await.unwrap().data, 7);
}

type Silent = Arc<Mutex<Option<Vec<(Command, Completer)>>>>;

/// A store in memory, which may be told to be silent.
struct Memory {
    store: Mutex<MemoryStore>,
    silent: Silent,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            store: Mutex::new(MemoryStore::new(1 << 20)),
            silent: Silent::default(),
        }
    }
}

impl Store for Memory {
    fn durability(&self) -> Durability {
        Durability::Memory
    }

    fn submit(&self, command: Command, done: Completer) {
        if let Some(waiting) = &mut *self.silent.lock().unwrap() {
            return waiting.push((command, done));
        }
        let result = self.store.lock().unwrap().execute(&command);
        done.complete(result);
    }
}
