//! Streams of subscriptions on threads: iterators that block.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::ReconnectStrategy;
use antiphon_blocking::{
    CallError, ClientConfig, Config, Hub, Link, McpRevision, OwnedError, OwnedJson, PartialResult,
    Published, Router, Style, Subscription, SubscriptionError, SubscriptionSink, TcpServer, attach,
    connect, reconnect,
};

use crate::support::{ByHand, LONG, within};

fn subscribe(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"eth_subscribe","params":["newHeads"],"id":{id}}}"#)
}

fn answer(id: u32, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{result},"id":{id}}}"#)
}

fn event(result: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"eth_subscription","params":{{"subscription":7,"result":{result}}}}}"#
    )
}

/// Answers the subscription, and sends these events in the same write.
fn serve(node: &mut ByHand, events: impl IntoIterator<Item = u32>) {
    assert_eq!(node.hear(), subscribe(1));
    let events = events.into_iter().map(event);
    let lines: Vec<_> = [answer(1, "7")].into_iter().chain(events).collect();
    node.say(&lines.join("\n"));
}

// USE-15
#[test]
fn a_thread_follows_a_stream_and_leaves_it() {
    within(LONG, || {
        let (link, mut node) = ByHand::pair(1 << 16);
        let peer = attach(link, Config::ethereum(), ()).unwrap();
        let serving = thread::spawn(move || {
            serve(&mut node, 1..=3);
            node
        });
        let heads: Subscription<u32> = {
            let subscribing = peer.subscribe(Style::ETHEREUM, &["newHeads"]);
            subscribing.timeout(LONG).wait().unwrap()
        };
        let mut node = serving.join().unwrap();
        let mut seen = Vec::new();
        for head in heads {
            seen.push(head.unwrap());
            if seen.len() == 3 {
                break;
            }
        }
        assert_eq!(seen, [1, 2, 3]);
        // The loop has dropped the stream.
        let unsubscribe = r#"{"jsonrpc":"2.0","method":"eth_unsubscribe","params":[7],"id":2}"#;
        assert_eq!(node.hear(), unsubscribe);
    });
}

// USE-15
#[test]
fn a_thread_that_waits_for_an_event_is_woken_by_it_and_by_the_end() {
    within(LONG, || {
        let (link, mut node) = ByHand::pair(1 << 16);
        let peer = attach(link, Config::ethereum(), ()).unwrap();
        let serving = thread::spawn(move || {
            serve(&mut node, []);
            for head in 1..=20 {
                thread::sleep(Duration::from_millis(1));
                node.say(&event(head));
            }
        });
        let heads = peer.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]).wait();
        let mut items = heads.unwrap().into_iter();
        for head in 1..=20 {
            assert_eq!(items.next().unwrap().unwrap(), head);
        }
        serving.join().unwrap();
        let ended = items.next().unwrap().unwrap_err();
        assert!(matches!(ended, SubscriptionError::Ended(_)), "{ended}");
        assert!(items.next().is_none());
    });
}

// USE-15
#[test]
fn a_thread_is_told_when_its_stream_goes_on_over_another_connection() {
    within(LONG, || {
        let (made, accepted) = mpsc::channel();
        let made = Mutex::new(made);
        let target = Link::target(move || {
            let (link, node): (Link, ByHand) = ByHand::pair(1 << 16);
            let refused = std::io::ErrorKind::ConnectionRefused;
            let made = made.lock().unwrap().send(node);
            made.map(|()| link).map_err(|_| refused.into())
        });
        let mut options = ClientConfig::new(Config::ethereum());
        options.reconnect = ReconnectStrategy::Fixed {
            delay: Duration::from_millis(1),
            max_attempts: 100,
        };
        options.max_waiting_calls = 1;
        let client = reconnect(target, options, || ()).unwrap();
        let serving = thread::spawn(move || {
            let mut node: ByHand = accepted.recv().unwrap();
            serve(&mut node, 1..=2);
            drop(node);
            let mut node = accepted.recv().unwrap();
            serve(&mut node, 5..=6);
            (node, accepted)
        });
        let subscribing = client.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]);
        let heads = subscribing.resubscribe().wait().unwrap();
        let items = heads.into_iter().take(5).map(|head| match head {
            Ok(head) => head.to_string(),
            Err(error) => error.to_string(),
        });
        let gap = "the connection was lost, and events until it was replaced are missing";
        assert_eq!(items.collect::<Vec<_>>(), ["1", "2", gap, "5", "6"]);
        serving.join().unwrap();
    });
}

// USE-15
#[test]
fn a_thread_takes_the_parts_of_a_result_until_the_answer() {
    within(LONG, || {
        let (link, mut server) = ByHand::pair(1 << 16);
        let mut config = Config::lsp();
        config.framing = Config::new().framing;
        let peer = attach(link, config, ()).unwrap();
        let serving = thread::spawn(move || {
            assert!(
                server
                    .hear()
                    .contains(r#"{"partialResultToken":"antiphon-0"}"#)
            );
            let part = |value| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":"antiphon-0","value":{value}}}}}"#
                )
            };
            server.say(&[part(1), part(2), answer(1, "null")].join("\n"));
            server
        });
        let call = peer.call::<()>("symbols", ());
        let items: Result<Vec<_>, SubscriptionError> =
            call.partial_results::<u32>().into_iter().collect();
        let expected = [
            PartialResult::Part(1),
            PartialResult::Part(2),
            PartialResult::Result(()),
        ];
        assert_eq!(items.unwrap(), expected);
        serving.join().unwrap();
    });
}

// USE-15
#[test]
fn a_thread_listens_until_the_answer() {
    within(LONG, || {
        let (link, mut server) = ByHand::pair(1 << 16);
        let peer = attach(link, Config::mcp(McpRevision::V2026_07_28), ()).unwrap();
        let serving = thread::spawn(move || {
            let asked = r#"{"jsonrpc":"2.0","method":"subscriptions/listen","params":{},"id":1}"#;
            assert_eq!(server.hear().trim_end(), asked);
            let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
            server.say(&[told, &answer(1, "null")].join("\n"));
            server
        });
        let filter = BTreeMap::<String, ()>::new();
        let call = peer.call::<()>("subscriptions/listen", &filter);
        let items: Result<Vec<_>, SubscriptionError> =
            call.listen::<OwnedJson>().into_iter().collect();
        let told = r#"{"method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}"#;
        let part = PartialResult::Part(OwnedJson::parse(told.into()).unwrap());
        assert_eq!(items.unwrap(), [part, PartialResult::Result(())]);
        serving.join().unwrap();
    });
}

// USE-15
#[test]
fn a_subscription_that_is_refused_says_so() {
    within(LONG, || {
        let (link, mut node) = ByHand::pair(1 << 16);
        let peer = attach(link, Config::ethereum(), ()).unwrap();
        let serving = thread::spawn(move || {
            node.hear();
            node.say(r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"},"id":1}"#);
            node
        });
        let heads = peer.subscribe::<u32>(Style::ETHEREUM, &["newHeads"]).wait();
        assert!(matches!(heads, Err(CallError::Remote(_))));
        serving.join().unwrap();
    });
}

// USE-15, USE-36, PUB-03: a server on threads sends from a thread of its own, and publishes.
#[test]
fn a_server_on_threads_sends_events_and_publishes() {
    within(LONG, || {
        let ticks = Style::named("subscribe", "tick", "unsubscribe");
        let hub = Hub::new();
        let counts = |n: u32, sink: SubscriptionSink<u32>| {
            thread::spawn(move || (0..n).try_for_each(|i| sink.send(&i).wait()));
            Ok::<_, OwnedError>(())
        };
        let router = Router::new().subscription(ticks, ["n"], counts).hub(&hub);
        let server = TcpServer::bind("127.0.0.1:0").unwrap();
        let target = format!("tcp://{}", server.local_addr().unwrap());
        let _running = server.start(Config::new(), move |_| router.clone());
        let client = connect(&*target, Config::new(), ()).unwrap();
        let seen = client.subscribe::<u32>(ticks, &[3]).wait().unwrap();
        let seen: Result<Vec<u32>, _> = seen.into_iter().collect();
        assert_eq!(seen.unwrap(), [0, 1, 2]);
        let mut news = client.topic::<u32>("news.*").wait().unwrap().into_iter();
        let publishing = hub.clone();
        let published = thread::spawn(move || publishing.publish("news.sport", &7).unwrap());
        let Published { topic, data } = news.next().unwrap().unwrap();
        assert_eq!((topic.as_str(), data), ("news.sport", 7));
        assert_eq!(published.join().unwrap(), 1);
    });
}
