//! A client that keeps a connection, and what it does when it is lost.

mod support;

use std::io::Write;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::{Config, ConnectionState, ReconnectStrategy};
use antiphon_blocking::{CallError, Link, ReconnectConfig, ReconnectingClient, reconnect};
use support::{ByHand, LONG, within};

/// A client, and the other ends of its connections. It connects as often as it is let.
fn client(max_waiting_calls: usize) -> (ReconnectingClient, mpsc::Sender<()>, Receiver<ByHand>) {
    let (made, accepted) = mpsc::channel();
    let (letting, lets) = mpsc::channel::<()>();
    let lets = Mutex::new(lets);
    let connect = move || {
        // Nobody lets it any more once the test is over.
        let _ = lets.lock().unwrap().recv();
        let (link, hand): (Link, ByHand) = ByHand::pair(1000);
        let refused = std::io::ErrorKind::ConnectionRefused;
        made.send(hand).map(|()| link).map_err(|_| refused.into())
    };
    let mut options = ReconnectConfig::default();
    options.max_waiting_calls = max_waiting_calls;
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: 3,
    };
    let client = reconnect(connect, options, Config::new(), || ()).unwrap();
    (client, letting, accepted)
}

// CON-04 CON-06
#[test]
fn only_a_call_that_may_be_done_twice_is_sent_again() {
    within(LONG, || {
        let (client, letting, accepted) = client(0);
        (0..3).for_each(|_| letting.send(()).unwrap());
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

#[test]
fn a_batch_waits_for_a_connection_and_is_sent_once() {
    within(LONG, || {
        let (client, letting, accepted) = client(1);
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
        letting.send(()).unwrap();
        let batch = client.batch(|batch| batch.call::<u32>("sum", &(1, 2)));
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
        let (client, letting, accepted) = client(0);
        let refused = client.call::<()>("m", ()).wait();
        assert!(matches!(refused, Err(CallError::Unsent)), "{refused:?}");
        assert_eq!(client.states(), [ConnectionState::Connecting]);
        letting.send(()).unwrap();
        let hand = Arc::new(Mutex::new(accepted.recv().unwrap()));
        assert!(client.wait_open(LONG).wait().is_ok());
        drop(hand);
    });
}
