//! What a reconnecting client on threads does when its connection is lost, and when it is closed.

use std::io::Write;
use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use crate::measured::measured;
use crate::support::{ByHand, LONG, within};
use antiphon::{Config, ConnectionState, ReconnectStrategy, Retry};
use antiphon_blocking::{
    CallError, Client, ClientConfig, ConnectionConfig, Link, Target, reconnect,
};

/// A target to which a client may connect once with each `()` that is sent, and the other ends of its
/// connections. It may connect once from the beginning.
fn target() -> (Target, mpsc::Sender<()>, Receiver<ByHand>) {
    let (made, accepted) = mpsc::channel();
    let (letting, lets) = mpsc::channel::<()>();
    letting.send(()).unwrap();
    let lets = Mutex::new(lets);
    let target = Link::target(move || {
        // It fails when the test is over; then it does not matter what happens.
        let _ = lets.lock().unwrap().recv();
        let (link, hand): (Link, ByHand) = ByHand::pair(1000);
        let refused = std::io::ErrorKind::ConnectionRefused;
        made.send(hand).map(|()| link).map_err(|_| refused.into())
    });
    (target, letting, accepted)
}

/// Options with which a client connects again at once.
fn options(connection: impl Into<ConnectionConfig>, max_waiting_calls: usize) -> ClientConfig {
    let mut options = ClientConfig::new(connection);
    options.max_waiting_calls = max_waiting_calls;
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: 3,
    };
    options
}

/// A client that is connected.
fn client(max_waiting_calls: usize) -> (Client, mpsc::Sender<()>, Receiver<ByHand>) {
    let (target, letting, accepted) = target();
    let client = reconnect(target, options(Config::new(), max_waiting_calls), || ());
    (client.unwrap(), letting, accepted)
}

/// A client that has lost its first connection, and does not get another one yet.
fn lost_client(max_waiting_calls: usize) -> (Client, mpsc::Sender<()>, Receiver<ByHand>) {
    let (client, letting, accepted) = client(max_waiting_calls);
    drop(accepted.recv().unwrap());
    while client.states() != [ConnectionState::Connecting] {
        thread::yield_now();
    }
    (client, letting, accepted)
}

// CON-04 CON-06
#[test]
fn only_a_call_that_may_be_done_twice_is_sent_again() {
    within(LONG, || {
        let (client, letting, accepted) = client(0);
        (1..3).for_each(|_| letting.send(()).unwrap());
        let serving = thread::spawn(move || {
            assert!(accepted.recv().unwrap().hear().contains("once"));
            assert!(accepted.recv().unwrap().hear().contains("again"));
            let mut hand = accepted.recv().unwrap();
            assert!(hand.hear().contains("again"));
            hand.writer
                .write_all(b"{\"jsonrpc\":\"2.0\",\"result\":7,\"id\":1}\n")
                .unwrap();
            (hand, accepted)
        });
        client.wait_open(LONG).wait().unwrap();
        let once = client.call::<()>("once", ()).wait();
        assert!(matches!(once, Err(CallError::Closed)), "{once:?}");
        client.wait_open(LONG).wait().unwrap();
        assert_eq!(
            client.call::<u32>("again", ()).idempotent().wait().unwrap(),
            7
        );
        let (_hand, accepted) = serving.join().unwrap();
        assert!(accepted.try_recv().is_err());
    });
}

// INT-01 SEC-02 CLI-27
#[test]
fn threads_have_interceptors_first_calls_and_retries_too() {
    within(LONG, || {
        let (metrics, shown) = measured();
        let connection = ConnectionConfig::new(Config::new()).intercept(metrics);
        let mut retry = Retry::new();
        retry.codes.push(7);
        retry.initial_delay = Duration::from_millis(1);
        let options = options(connection, 1)
            .with_on_open(|peer| async move { peer.call::<()>("login", ()).await })
            .with_retry(retry);
        let (target, _letting, accepted) = target();
        let serving = thread::spawn(move || {
            let mut hand = accepted.recv().unwrap();
            for (method, answer) in [
                ("login", r#""result":null"#),
                ("m", r#""error":{"code":7,"message":"later"}"#),
                ("m", r#""result":7"#),
                ("n", r#""result":8"#),
            ] {
                let asked = hand.hear();
                assert!(asked.contains(method), "{asked}");
                // The id, and the `}` after it, which ends the answer too.
                let id = asked.trim_end().rsplit(':').next().unwrap();
                let line = format!("{{\"jsonrpc\":\"2.0\",{answer},\"id\":{id}\n");
                hand.writer.write_all(line.as_bytes()).unwrap();
            }
            hand
        });
        let client = reconnect(target, options, || ()).unwrap();
        assert_eq!(client.call::<u32>("m", ()).wait().unwrap(), 7);
        let peer = client.peer().unwrap();
        let pending = peer.call("n", ()).start().wait().unwrap();
        assert_eq!(pending.wait::<u32>().unwrap(), 8);
        // A call that was sent twice counts as one.
        let text = shown.render();
        for method in ["login", "m", "n"] {
            let name = "rpc_client_call_duration_seconds_count";
            let line = format!("{name}{{rpc_system_name=\"jsonrpc\",rpc_method=\"{method}\"}} 1");
            assert!(
                text.lines().any(|found| found == line),
                "{method} in {text}"
            );
        }
        drop(serving.join().unwrap());
    });
}

#[test]
fn a_batch_waits_for_a_connection_and_is_sent_once() {
    within(LONG, || {
        let (client, letting, accepted) = lost_client(1);
        let serving = thread::spawn(move || {
            let mut hand = accepted.recv().unwrap();
            let asked = hand.hear();
            assert!(asked.starts_with('[') && asked.contains("sum"), "{asked}");
            hand.writer
                .write_all(b"[{\"jsonrpc\":\"2.0\",\"result\":3,\"id\":1}]\n")
                .unwrap();
            // The second batch gets no answer before its connection ends.
            assert!(hand.hear().contains("lost"));
            drop(hand);
            accepted
        });
        let batch = client.batch(|batch| batch.call::<u32>("sum", &(1, 2)));
        letting.send(()).unwrap();
        let (sum, mut outcomes) = batch.timeout(LONG).wait().unwrap();
        assert_eq!(outcomes.fetch(sum).unwrap(), 3);
        let batch = client.batch(|batch| batch.call::<()>("lost", ()));
        let (lost, mut outcomes) = batch.timeout(LONG).wait().unwrap();
        assert!(outcomes.fetch(lost).is_err());
        let accepted = serving.join().unwrap();
        assert!(accepted.try_recv().is_err());
    });
}

// CON-08 SEC-10
#[test]
fn calls_beyond_those_that_may_wait_for_a_connection_fail_at_once() {
    within(LONG, || {
        let (client, letting, accepted) = lost_client(0);
        let refused = client.call::<()>("m", ()).wait();
        assert!(matches!(refused, Err(CallError::Unsent)), "{refused:?}");
        letting.send(()).unwrap();
        let hand = accepted.recv().unwrap();
        assert!(client.wait_open(LONG).wait().is_ok());
        drop(hand);
    });
}

// CON-02 CON-06
#[test]
fn a_call_after_the_close_fails_at_once_though_another_is_still_awaited() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = reconnect(format!("tcp://{address}"), Config::new(), || ()).unwrap();
    // The server accepts the connection, and never answers.
    let _silent = listener.accept().unwrap();
    let peer = client.peer().unwrap();
    let _awaited = peer.call("m", ()).no_timeout().start().wait().unwrap();
    client.close();
    let (told, tell) = mpsc::channel();
    thread::spawn(move || {
        let hour = Duration::from_secs(3600);
        // If this test has failed by then, the receiver is gone.
        let _ = told.send(client.call("late", ()).timeout(hour).raw().wait().map(drop));
    });
    let ended = tell.recv_timeout(LONG).expect("the call fails at once");
    let ended = ended.unwrap_err();
    assert!(matches!(ended, CallError::NoConnection(_)), "{ended:?}");
}
