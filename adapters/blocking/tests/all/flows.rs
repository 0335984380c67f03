//! Flows on threads: iterators that block, and streams that a thread of their own polls.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use antiphon_blocking::flow::{FlowConfig, FlowError};
use antiphon_blocking::{
    CallError, Config, ConnectionConfig, Flow, Internal, OwnedError, Peer, Pool, PullError, Router,
    SendError, attach, service,
};

use crate::support::{LONG, duplex, within};

fn with_flows() -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.flows = Some(FlowConfig::new());
    options.linger = Duration::from_millis(20);
    options
}

// FLO-05, FLO-09, EXA-09
#[test]
fn a_thread_reads_a_flow_and_leaves_another_one() {
    within(LONG, || {
        let (left, right) = duplex(1 << 16);
        let (dropped, is_dropped) = mpsc::channel();
        let (_sender, items) = mpsc::channel();
        let items = Arc::new(Mutex::new(items));
        let router = Router::new()
            .method("count", ["to"], |to: u32| {
                Flow::of_iter((1..=to).map(Ok::<_, OwnedError>))
            })
            .method("endless", [], move || {
                let tells = Tells(dropped.clone());
                Flow::of_iter((1_u32..).map(move |item| {
                    let _ = &tells;
                    Ok::<_, OwnedError>(item)
                }))
            })
            .method("watch", [], move || {
                let items = Arc::clone(&items);
                Flow::of_iter(std::iter::from_fn(move || {
                    let next = items.lock().unwrap().recv();
                    next.ok().map(Ok::<u32, OwnedError>)
                }))
            });
        let _server = attach(left, with_flows(), router).unwrap();
        let peer = attach(right, with_flows(), ()).unwrap();
        for window in [1, 4] {
            let flow: Flow<u32> = peer.flow("count", &[20]).window(window);
            let all: Result<Vec<u32>, PullError> = flow.into_iter().collect();
            assert_eq!(all.unwrap(), (1..=20).collect::<Vec<_>>());
        }
        let endless: Flow<u32> = peer.flow("endless", ());
        let first: Vec<u32> = endless.into_iter().take(3).map(Result::unwrap).collect();
        assert_eq!(first, [1, 2, 3]);
        is_dropped.recv().unwrap();
        // A thread that waits is woken by the end.
        let mut watching = peer.flow::<u32>("watch", ()).into_iter();
        let waiting = thread::spawn(move || watching.next());
        thread::sleep(Duration::from_millis(20));
        peer.drain();
        let end = waiting.join().unwrap();
        assert!(matches!(
            end,
            Some(Err(
                PullError::Ended(FlowError::Disconnected) | PullError::Call(_)
            ))
        ));
    });
}

/// A service on threads.
#[service]
trait Adder {
    fn sum(&self, numbers: Flow<u32>) -> Result<u32, OwnedError>;
}

struct Adds;

impl Adder for Adds {
    fn sum(&self, numbers: Flow<u32>) -> Result<u32, OwnedError> {
        let mut total = 0;
        for number in numbers.window(3) {
            total += number?;
        }
        Ok(total)
    }
}

fn count(to: u32) -> Flow<u32> {
    Flow::of_iter((1..=to).map(Ok::<_, OwnedError>))
}

// FLO-09 FLO-12 GEN-10: one thread at each end for handlers, and each handler reads what the other one reads on.
#[test]
fn handlers_on_threads_read_flows_of_their_callers() {
    within(LONG, || {
        let options = |max_running| {
            let mut options = with_flows();
            options.pool = Pool::new(1, 8);
            options.max_running_requests = max_running;
            options
        };
        let (left, right) = duplex(1 << 16);
        let router = Router::new()
            .service(Adds.into_service())
            .method("relay", ["numbers"], |peer: Peer, numbers: Flow<u32>| {
                let doubled = numbers.into_iter().map(|number| number.map(|n| 2 * n));
                let doubled = Flow::of_iter(doubled);
                peer.call::<u32>("sum", &[doubled]).wait().internal()
            })
            .method("first", ["numbers"], |numbers: Flow<u32>| {
                let first = numbers.into_iter().next().transpose()?;
                Ok::<_, OwnedError>(first)
            });
        let _server = attach(left, options(1), router).unwrap();
        let own = Router::new().service(Adds.into_service());
        let peer = attach(right, options(1), own).unwrap();
        let client = AdderClient::new(&peer);
        assert_eq!(client.sum(count(100)).wait().unwrap(), 5050);
        let relayed: u32 = peer.call("relay", &[count(20)]).wait().unwrap();
        assert_eq!(relayed, 420);
        // The handler leaves an endless one.
        let (tells, is_dropped) = mpsc::channel();
        let tells = Tells(tells);
        let endless = Flow::of_iter((1_u32..).map(move |item| {
            let _ = &tells;
            Ok::<_, OwnedError>(item)
        }));
        let first: u32 = peer.call("first", &[endless]).wait().unwrap();
        assert_eq!(first, 1);
        is_dropped.recv().unwrap();
        // Nothing comes: the call ends in time.
        let (_sender, items) = mpsc::channel::<u32>();
        let silent = Flow::of_iter(items.into_iter().map(Ok::<_, OwnedError>));
        let late = client.sum(silent).timeout(Duration::from_millis(50)).wait();
        assert!(matches!(late, Err(CallError::TimedOut)), "{late:?}");
        let failing = [Ok(1), Err(OwnedError::new(1001, "no more"))];
        let failed = client.sum(Flow::of_iter(failing)).wait();
        assert!(matches!(failed, Err(CallError::Remote(error)) if error.code() == 1001));
    });
}

// FLO-01 FLO-09
#[test]
fn on_threads_a_flow_is_refused_where_flows_are_off() {
    within(LONG, || {
        let (left, right) = duplex(1 << 16);
        let router = Router::new().service(Adds.into_service());
        let _server = attach(left, with_flows(), router).unwrap();
        let peer = attach(right, Config::new(), ()).unwrap();
        let off = AdderClient::new(&peer).sum(count(1)).wait();
        assert!(matches!(off, Err(CallError::Rejected(SendError::FlowsOff))));
    });
}

/// Tells when it is dropped.
struct Tells(mpsc::Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
