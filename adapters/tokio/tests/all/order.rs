//! Which messages of a connection wait for which others, in virtual time: the clock moves only when
//! every task waits.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::Raw;
use antiphon::Config;
use antiphon_net::{Link, duplex};
use antiphon_tokio::{
    Answer, ConnectionConfig, Order, OwnedError, Peer, Report, Request, Router, State, attach,
};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(3600);

type Log = Arc<Mutex<Vec<String>>>;

fn note(log: &Log, what: impl Into<String>) {
    log.lock().unwrap().push(what.into());
}

/// Notes `+name`, and `-name` after this many milliseconds.
async fn work(log: &Log, name: &str, millis: u64) {
    note(log, format!("+{name}"));
    sleep(Duration::from_millis(millis)).await;
    note(log, format!("-{name}"));
}

/// `m` answers when its work is done, `later` after its handler has returned; `n` is a notification.
fn router(log: &Log) -> Router<Log> {
    let (began, told) = (Arc::clone(log), Arc::clone(log));
    let later = move |request: &Request| -> Result<Answer, OwnedError> {
        let (name, millis): (String, u64) = request.params()?;
        note(&began, format!("begun {name}"));
        let (log, reply) = (Arc::clone(&began), request.defer());
        tokio::spawn(async move {
            work(&log, &name, millis).await;
            reply.ok(&name).unwrap();
        });
        Ok(Answer::deferred())
    };
    Router::with_state(Arc::clone(log))
        .method(
            "m",
            ["name", "millis"],
            async |name: String, millis: u64, State(log): State<Log>| {
                work(&log, &name, millis).await;
                Ok::<_, OwnedError>(name)
            },
        )
        .notification(
            "n",
            ["name", "millis"],
            async |name: String, millis: u64, State(log): State<Log>, peer: Peer| {
                work(&log, &name, millis).await;
                assert!(name != "panics", "as asked");
                if name == "tells" {
                    peer.notify("told", ()).await.unwrap();
                }
            },
        )
        .raw("later", later)
        .on_report(move |_, report| {
            if let Report::Panicked(_) = report {
                note(&told, "panicked");
            }
        })
}

fn options(order: Order) -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.order = order;
    options
}

/// The options with handlers on the connection's task, and with handlers that are tasks of their own.
fn each(options: ConnectionConfig) -> [ConnectionConfig; 2] {
    let mut spawning = options.clone();
    spawning.spawn_handlers = true;
    [options, spawning]
}

fn request(method: &str, name: &str, millis: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":["{name}",{millis}],"id":"{name}"}}"#)
}

fn notification(name: &str, millis: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{name}",{millis}]}}"#)
}

fn result(name: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":"{name}","id":"{name}"}}"#)
}

/// A request that takes long, and messages that come after it.
fn messages() -> [String; 5] {
    [
        request("m", "a", 40),
        notification("b", 20),
        request("m", "c", 10),
        notification("d", 5),
        request("m", "e", 1),
    ]
}

/// What is noted of these messages in each order.
const EXPECTED: [(Order, &str); 3] = [
    (Order::Free, "+a +b +c +d +e -e -d -c -b -a"),
    (Order::Notifications, "+a +b -b +c +d -d +e -e -c -a"),
    (Order::Serial, "+a -a +b -b +c -c +d -d +e -e"),
];

/// Sends `said` to a server. Returns what its handlers note, and this many lines of answers; these are the
/// same if handlers are spawned.
async fn play(options: ConnectionConfig, said: &[String], answers: usize) -> (String, Vec<String>) {
    let [here, spawning] = each(options);
    let played = play_once(here, said, answers).await;
    assert_eq!(play_once(spawning, said, answers).await, played, "spawned");
    played
}

async fn play_once(
    options: ConnectionConfig,
    said: &[String],
    answers: usize,
) -> (String, Vec<String>) {
    let log = Log::default();
    let (near, far) = duplex(1 << 16);
    let mut raw = Raw::new(near);
    let _serving = attach(Link::new(far), options, router(&log));
    raw.send(said.join("\n") + "\n").await.unwrap();
    let mut lines = Vec::new();
    for _ in 0..answers {
        lines.push(timeout(PATIENCE, raw.line()).await.expect("an answer"));
    }
    // By then the notifications have been served, too.
    sleep(PATIENCE).await;
    let log = log.lock().unwrap().join(" ");
    (log, lines)
}

// SRV-22 USE-01
#[tokio::test(start_paused = true)]
async fn what_waits_for_what_is_as_the_order_says() {
    let (one, two, three) = (result("a"), result("c"), result("e"));
    for (order, expected) in EXPECTED {
        let (log, lines) = play(options(order), &messages(), 3).await;
        assert_eq!(log, expected, "{order:?}");
        match order {
            Order::Serial => assert_eq!(lines, [one.clone(), two.clone(), three.clone()]),
            _ => assert_eq!(
                lines,
                [three.clone(), two.clone(), one.clone()],
                "{order:?}"
            ),
        }
        let batch = format!("[{}]", messages().join(","));
        let (log, lines) = play(options(order), &[batch], 1).await;
        assert_eq!(log, expected, "{order:?}, a batch");
        assert_eq!(lines, [format!("[{one},{two},{three}]")]);
    }
}

// SRV-22
#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn entries_of_a_batch_over_http_keep_the_order() {
    use antiphon_tokio::http::{HttpConfig, endpoint};

    for (order, expected) in EXPECTED {
        for options in each(options(order)) {
            let (log, spawns) = (Log::default(), options.spawn_handlers);
            let http = HttpConfig::from(options);
            let served = crate::support::Served::new(endpoint(http, router(&log)));
            let mut raw = served.connect(4096);
            let reply = raw.post(&format!("[{}]", messages().join(","))).await;
            let results = [result("a"), result("c"), result("e")].join(",");
            assert_eq!(reply.body, format!("[{results}]"), "{order:?}");
            // The reply comes after the notifications have been served, too.
            assert_eq!(
                log.lock().unwrap().join(" "),
                expected,
                "{order:?} {spawns}"
            );
            raw.post(&notification("f", 7)).await;
            // After the ten notes of the batch.
            assert_eq!(log.lock().unwrap()[10..], ["+f", "-f"], "{order:?}");
        }
    }
}

// SRV-22
#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn a_batch_over_http_that_waited_for_a_place_kept_its_thread_busy() {
    use antiphon_tokio::http::{HttpConfig, endpoint};

    let mut options = options(Order::Free);
    options.max_running_requests = 1;
    for options in each(options) {
        let log = Log::default();
        let served = crate::support::Served::new(endpoint(HttpConfig::from(options), router(&log)));
        let batch = format!("[{},{}]", request("m", "a", 40), request("m", "b", 1));
        // With the bug that this test is named after, this never ended, because the clock moves only
        // when every task waits.
        let reply = served.connect(4096).post(&batch).await;
        assert_eq!(reply.body, format!("[{},{}]", result("a"), result("b")));
        assert_eq!(log.lock().unwrap().join(" "), "+a -a +b -b");
    }
}

// SRV-22 CAN-09
#[tokio::test(start_paused = true)]
async fn in_serial_order_a_request_is_over_when_it_is_answered_or_given_up() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":"c"}}"#;
    let said = [
        request("later", "a", 30),
        request("m", "b", 1),
        request("m", "c", 1_000_000),
        notification("d", 1),
        cancel.to_owned(),
        request("m", "e", 1),
    ];
    let (log, lines) = play(options(Order::Serial), &said[..4], 2).await;
    assert_eq!(log, "begun a +a -a +b -b +c -c +d -d");
    assert_eq!(lines, [result("a"), result("b")]);
    // A cancel is handled at once, before the messages that wait.
    let (log, lines) = play(options(Order::Serial), &said, 4).await;
    assert_eq!(log, "begun a +a -a +b -b +d -d +e -e");
    assert!(lines[0].contains("-32001"), "{lines:?}");
    assert_eq!(lines[1..], [result("a"), result("b"), result("e")]);
}

// SRV-22
#[tokio::test(start_paused = true)]
async fn in_free_order_so_many_notifications_are_served_at_once_as_requests() {
    let mut options = options(Order::Free);
    options.max_running_requests = 2;
    let said: Vec<_> = ["a", "panics", "c", "d"]
        .map(|name| notification(name, 10))
        .into_iter()
        .chain([request("m", "e", 1)])
        .collect();
    let (log, lines) = play(options, &said, 1).await;
    assert_eq!(lines, [result("e")]);
    let expected = "+a +panics -a -panics panicked +c +d -c -d +e -e";
    assert_eq!(log, expected);
}

// SRV-22
#[tokio::test(start_paused = true)]
async fn in_every_order_the_end_of_input_waits_for_notifications() {
    for (order, _) in EXPECTED {
        let log = Log::default();
        let (mut near, far) = duplex(1 << 16);
        let _serving = attach(Link::new(far), options(order), router(&log));
        let said = format!("{}\n", notification("tells", 10));
        let written = poll_fn(|cx| near.poll_write(cx, said.as_bytes())).await;
        assert_eq!(written.unwrap(), said.len());
        poll_fn(|cx| near.poll_close(cx)).await.unwrap();
        let mut raw = Raw::new(near);
        // The handler may still send the peer a notification.
        let told = timeout(PATIENCE, raw.line_or_end()).await.unwrap();
        let expected = r#"{"jsonrpc":"2.0","method":"told"}"#;
        assert_eq!(told.as_deref(), Some(expected), "{order:?}");
        assert!(timeout(PATIENCE, raw.ended()).await.unwrap(), "{order:?}");
    }
}
