//! Uses of a peer, a responder and a client that hung, failed or returned something wrong.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::collections::HashSet;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use antiphon::{Config, McpRevision, OwnedError, ReconnectStrategy, SendError};
use antiphon_net::{Answer, ClientConfig, ConnectionConfig, Request, Target};
use antiphon_regressions::{LONG, Rt};
use futures_util::FutureExt;
use serde::{Serialize, Serializer};

const RUNTIMES: [Rt; 4] = [Rt::Tokio, Rt::TokioLocal, Rt::Smol, Rt::AsyncStd];

/// Reports the number of each connection when it opens.
#[derive(Clone)]
struct Numbers(mpsc::Sender<u32>);

impl antiphon_blocking::Service for Numbers {
    fn opened(&mut self, peer: &antiphon_blocking::Peer) {
        // The test may be over.
        let _ = self.0.send(peer.context().connection);
    }
}

impl antiphon_net::Service for Numbers {
    fn opened(&self, peer: &antiphon_net::Peer) -> impl Future<Output = ()> + Send {
        // The test may be over.
        let _ = self.0.send(peer.context().connection);
        ready(())
    }
}

fn two_connections() -> ClientConfig {
    let mut client = ClientConfig::from(Config::new());
    client.connections = 2;
    client.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: 3,
    };
    client
}

/// Waits for two connections, has both cut, and waits for the two that are made then.
fn numbers(opened: &mpsc::Receiver<u32>, cut: impl FnOnce()) -> HashSet<u32> {
    let next = || opened.recv_timeout(LONG).expect("a connection opens");
    let mut numbers = HashSet::from([next(), next()]);
    cut();
    numbers.extend([next(), next()]);
    numbers
}

// USE-24
#[test]
fn two_connections_of_one_client_both_had_the_number_0_on_threads() {
    let (tell, opened) = mpsc::channel();
    let far = Arc::<Mutex<Vec<antiphon_blocking::Link>>>::default();
    let kept = Arc::clone(&far);
    let connect = move || {
        let (near, far) = antiphon_blocking::Link::pair();
        kept.lock().unwrap().push(far);
        Ok(near)
    };
    let target = antiphon_blocking::Link::target(connect);
    let service = move || Numbers(tell.clone());
    let client = antiphon_blocking::reconnect(target, two_connections(), service).unwrap();
    let numbers = numbers(&opened, || far.lock().unwrap().clear());
    assert_eq!(numbers.len(), 4, "each its own: {numbers:?}");
    assert!(!numbers.contains(&0), "{numbers:?}");
    drop(client);
}

// USE-24
#[test]
fn two_connections_of_one_client_both_had_the_number_0_in_tasks() {
    for rt in RUNTIMES {
        let (tell, opened) = mpsc::channel();
        let far = Arc::<Mutex<Vec<Box<dyn antiphon_net::Io>>>>::default();
        let (stop, stopped) = mpsc::channel::<()>();
        let kept = Arc::clone(&far);
        let running = thread::spawn(move || {
            rt.run(|runtime| async move {
                let connect = move || -> antiphon_net::Connecting {
                    let (near, far) = antiphon_net::duplex(4096);
                    kept.lock().unwrap().push(far);
                    Box::pin(ready(io::Result::Ok(antiphon_net::Link::new(near))))
                };
                let (target, options) = (Target::new(connect), two_connections());
                let client = antiphon_net::reconnect(target, options, Numbers(tell)).await;
                let client = client.unwrap();
                while stopped.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    let soon = runtime.now() + Duration::from_millis(2);
                    runtime.sleep_until(soon).await;
                }
                drop(client);
            });
        });
        let numbers = numbers(&opened, || far.lock().unwrap().clear());
        assert_eq!(numbers.len(), 4, "{rt:?}, each its own: {numbers:?}");
        assert!(!numbers.contains(&0), "{rt:?}: {numbers:?}");
        drop(stop);
        running.join().expect("it ends");
    }
}

// USE-24
#[test]
fn the_configured_number_of_a_connection_was_not_in_its_context() {
    let mut config = Config::new();
    config.connection = 5;
    let (near, _far) = antiphon_blocking::Link::pair();
    let (peer, _driver) = antiphon_blocking::drive(near, config, ());
    assert_eq!(peer.context().connection, 5);
}

// USE-46
#[test]
fn connections_that_were_driven_alone_all_had_the_number_0() {
    let on_threads = || {
        let (near, _far) = antiphon_blocking::Link::pair();
        let (peer, _driver) = antiphon_blocking::drive(near, Config::new(), ());
        peer.context().connection
    };
    let mut numbers = vec![on_threads(), on_threads()];
    for rt in RUNTIMES {
        for _ in 0..2 {
            let (tell, told) = mpsc::channel();
            rt.run(|runtime| async move {
                let (near, _far) = antiphon_net::duplex(4096);
                let link = antiphon_net::Link::new(near);
                let options = ConnectionConfig::from(Config::new());
                let (peer, _driver) = antiphon_net::drive_on(link, options, Arc::new(()), &runtime);
                tell.send(peer.context().connection)
                    .expect("the test waits");
            });
            numbers.push(told.recv_timeout(LONG).expect("a number"));
        }
    }
    let all: HashSet<u32> = numbers.iter().copied().collect();
    assert_eq!(all.len(), numbers.len(), "each its own: {numbers:?}");
    assert!(!all.contains(&0), "{numbers:?}");
}

/// Params that use the connection while they are being written into it.
struct Meddling<F>(F);

impl<F: Fn()> Serialize for Meddling<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.0)();
        serializer.serialize_unit()
    }
}

/// Runs `test` on a thread, which must come to its end.
fn within<R: Send + 'static>(what: &str, test: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(test()));
    let limit = Duration::from_secs(10);
    let ended = told.recv_timeout(limit);
    ended.unwrap_or_else(|_| panic!("{what}: it hangs, or panics where it must not"))
}

// USE-17
#[test]
fn a_peer_used_inside_its_own_batch_hung_the_thread() {
    let used = within("threads", || {
        let (near, _far) = antiphon_blocking::Link::pair();
        let peer = antiphon_blocking::attach(near, Config::new(), ()).unwrap();
        let batch = peer.batch(|batch| {
            peer.try_notify("inside", ())?;
            batch.notify("n", ())
        });
        let used = batch.wait();
        peer.try_notify("after", ()).expect("it goes on");
        used
    });
    assert!(used.is_ok(), "{used:?}");
    for rt in RUNTIMES {
        let used = within("tasks", move || {
            rt.run(|runtime| async move {
                let (near, _far) = antiphon_net::duplex(4096);
                let link = antiphon_net::Link::new(near);
                let options = ConnectionConfig::from(Config::new());
                let (peer, _driver) = antiphon_net::drive_on(link, options, Arc::new(()), &runtime);
                let batch = peer.batch(|batch| {
                    peer.try_notify("inside", ())?;
                    batch.notify("n", ())
                });
                let used = batch.await;
                peer.try_notify("after", ()).expect("it goes on");
                used
            })
        });
        assert!(used.is_ok(), "{rt:?}: {used:?}");
    }
}

// USE-17
#[test]
fn a_peer_used_while_its_own_params_are_written_hung_the_thread() {
    let (used, looks) = within("a call", || {
        let (near, _far) = antiphon_blocking::Link::pair();
        let peer = antiphon_blocking::attach(near, Config::new(), ()).unwrap();
        let looks = AtomicUsize::new(0);
        let meddling = Meddling(|| {
            assert_eq!(peer.closed(), None);
            looks.fetch_add(1, Ordering::SeqCst);
        });
        let used = peer.notify("inside", &[meddling]).wait();
        peer.try_notify("after", ()).expect("it goes on");
        (used, looks.into_inner())
    });
    assert_eq!((used, looks), (Ok(()), 1));
}

/// While a batch is built, answers (`answer`), drops its responder (`drop`), or uses the peer and then answers.
struct Entangled;

impl antiphon_blocking::Service for Entangled {
    fn request(
        &mut self,
        peer: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        match request.method() {
            "answer" => drop(peer.batch(move |_| reply.ok(())).wait()),
            "drop" => drop(
                peer.batch(move |_| {
                    drop(reply);
                    Ok::<(), SendError>(())
                })
                .wait(),
            ),
            _ => drop(
                peer.batch(move |_| {
                    let held = reply;
                    peer.try_notify("inside", ())?;
                    held.ok(())
                })
                .wait(),
            ),
        }
        Ok(Answer::deferred())
    }
}

// USE-17
#[test]
fn a_request_whose_responder_was_lost_inside_a_batch_hung_the_service() {
    let [answer, dropped, hold] = within("a service", || {
        let (near, far) = antiphon_blocking::Link::pair();
        thread::spawn(move || antiphon_blocking::serve(far, Config::new(), Entangled));
        let peer = antiphon_blocking::attach(near, Config::new(), ()).unwrap();
        ["answer", "drop", "hold"].map(|method| {
            peer.call::<()>(method, ())
                .wait()
                .map_err(|error| error.to_string())
        })
    });
    assert_eq!((answer, hold), (Ok(()), Ok(())));
    assert!(dropped.is_err_and(|code| code.contains("-32603")));
}

/// Reports that `slow` has begun, answers it after its cancel, and reports how that went.
#[derive(Clone)]
struct Late(mpsc::Sender<Option<Result<(), SendError>>>);

impl Late {
    fn serve(&self, request: &Request) -> Answer {
        if request.method() != "slow" {
            return ().into();
        }
        let tell = self.0.clone();
        request.defer().spawn(move |reply| {
            // The test may be over.
            let _ = tell.send(None);
            reply.cancellation().wait(LONG);
            // The test may be over.
            let _ = tell.send(Some(reply.ok(())));
        });
        Answer::deferred()
    }
}

impl antiphon_blocking::Service for Late {
    fn request(
        &mut self,
        _: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(self.serve(request))
    }
}

impl antiphon_net::Service for Late {
    async fn request(
        &self,
        _: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        Ok(self.serve(request))
    }
}

const SLOW: &str = concat!(r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#, "\n");
const CANCEL: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    "\n",
);

// USE-17
#[test]
fn an_answer_after_a_silent_cancel_was_not_open_on_threads() {
    let (tell, answered) = mpsc::channel();
    let (near, far) = antiphon_blocking::duplex(4096);
    let (_reader, mut writer) = near.split();
    thread::spawn(move || {
        antiphon_blocking::serve(far, Config::mcp(McpRevision::V2025_06_18), Late(tell))
    });
    io::Write::write_all(&mut writer, SLOW.as_bytes()).unwrap();
    assert_eq!(answered.recv_timeout(LONG), Ok(None), "it begins");
    io::Write::write_all(&mut writer, CANCEL.as_bytes()).unwrap();
    assert_eq!(answered.recv_timeout(LONG), Ok(Some(Ok(()))));
}

// USE-17
#[test]
fn an_answer_after_a_silent_cancel_was_not_open_in_tasks() {
    for rt in RUNTIMES {
        let (tell, answered) = mpsc::channel();
        rt.run(|runtime| async move {
            let (mut near, far) = antiphon_net::duplex(4096);
            let link = antiphon_net::Link::new(far);
            let options = ConnectionConfig::from(Config::mcp(McpRevision::V2025_06_18));
            let service = Arc::new(Late(tell));
            let (_peer, driver) = antiphon_net::drive_on(link, options, service, &runtime);
            runtime.spawn(Box::pin(driver.map(drop)));
            for (line, told) in [(SLOW, None), (CANCEL, Some(Ok(())))] {
                let wrote = poll_fn(|cx| near.poll_write(cx, line.as_bytes())).await;
                assert_eq!(wrote.unwrap(), line.len());
                let told_by_it = loop {
                    if let Ok(told) = answered.try_recv() {
                        break told;
                    }
                    let soon = runtime.now() + Duration::from_millis(2);
                    runtime.sleep_until(soon).await;
                };
                assert_eq!(told_by_it, told, "{rt:?}");
            }
        });
    }
}
