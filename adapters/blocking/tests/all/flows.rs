//! Flows on threads: iterators that block, and streams that a thread of their own polls.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use antiphon_blocking::flow::{FlowConfig, FlowError};
use antiphon_blocking::{Config, ConnectionConfig, Flow, OwnedError, PullError, Router, attach};

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

/// Tells when it is dropped.
struct Tells(mpsc::Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}
