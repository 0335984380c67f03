//! Many handlers of one connection: those that wait hold up nothing, and those that are spawned compute on
//! every core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use antiphon::session::Report;
use antiphon::{CancelStyle, Config, OwnedError};
use antiphon_net::{
    Answer, CallError, ConnectionConfig, Link, Notification, Peer, Request, Running, Service,
    SharedRuntime, TcpServer, attach,
};
use antiphon_stress::{LONG, Rt, on_every_runtime};

on_every_runtime! {
    six_hundred_handlers_that_wait_hold_up_no_other_method;
    a_notification_waits_until_spawned_handlers_have_begun;
    spawned_handlers_end_as_others_do;
}

/// `wait` waits for 3 s, `compute` computes for 100 ms, `read` computes a little and returns how many
/// notifications were handled, `forever` computes again and again. Counts the handlers of requests.
#[derive(Clone)]
struct Handlers {
    runtime: SharedRuntime,
    running: Arc<AtomicUsize>,
    notified: Arc<AtomicUsize>,
    reports: Arc<Mutex<Vec<String>>>,
}

/// Counts a handler until it is dropped.
struct Counted<'h>(&'h AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Computes for so many milliseconds of the clock, so that it does not matter what else the machine does.
fn compute(millis: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(millis) {
        std::hint::spin_loop();
    }
}

impl Service for Handlers {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _counted = Counted(&self.running);
        match request.method() {
            "wait" => {
                let at = self.runtime.now() + Duration::from_secs(3);
                self.runtime.sleep_until(at).await;
            }
            "compute" => compute(100),
            "read" => {
                compute(5);
                return Ok(self.notified.load(Ordering::SeqCst).into());
            }
            "forever" => loop {
                compute(5);
                ::smol::future::yield_now().await;
            },
            "panic" => panic!("as asked"),
            "close" => peer.close(antiphon::CloseReason::Done),
            _ => {}
        }
        Ok(0.into())
    }

    async fn notification(&self, _: &Peer, _: Notification) {
        self.notified.fetch_add(1, Ordering::SeqCst);
    }

    fn report(&self, _: &Peer, report: Report) {
        self.reports.lock().unwrap().push(report.to_string());
    }
}

/// A server, and the address of it.
async fn start(
    runtime: SharedRuntime,
    options: impl Into<ConnectionConfig>,
) -> (Handlers, std::net::SocketAddr, Running) {
    let handlers = Handlers {
        runtime,
        running: Arc::default(),
        notified: Arc::default(),
        reports: Arc::default(),
    };
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let (address, serves) = (server.local_addr(), handlers.clone());
    (
        handlers,
        address,
        server.start(options, move |_| serves.clone()),
    )
}

fn spawning() -> ConnectionConfig {
    let mut options = ConnectionConfig::new(Config::new());
    options.spawn_handlers = true;
    options
}

/// Waits until so many handlers run.
async fn until_running(handlers: &Handlers, count: usize) {
    while handlers.running.load(Ordering::SeqCst) != count {
        let soon = handlers.runtime.now() + Duration::from_millis(1);
        handlers.runtime.sleep_until(soon).await;
    }
}

// SRV-22
fn six_hundred_handlers_that_wait_hold_up_no_other_method(rt: Rt) {
    rt.run(|runtime| async move {
        let (handlers, address, running) = start(runtime, Config::new()).await;
        let (mut peers, mut calls) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let link = Link::tcp(address).await.unwrap();
            let peer = attach(link, Config::new(), ());
            for _ in 0..200 {
                calls.push(peer.call("wait", ()).start().await.unwrap());
            }
            peers.push(peer);
        }
        until_running(&handlers, 600).await;
        for peer in &peers {
            let mut best = LONG;
            for _ in 0..5 {
                let begin = Instant::now();
                peer.call::<u8>("other", ()).await.unwrap();
                best = best.min(begin.elapsed());
            }
            println!("{rt:?}: another method answers after {best:?}");
            assert!(best < Duration::from_millis(50), "{best:?}");
        }
        assert_eq!(handlers.running.load(Ordering::SeqCst), 600);
        for call in calls {
            call.result::<u8>().await.unwrap();
        }
        assert!(running.shutdown(LONG).await);
    });
}

// USE-01
fn a_notification_waits_until_spawned_handlers_have_begun(rt: Rt) {
    rt.run(|runtime| async move {
        let (_, address, _running) = start(runtime, spawning()).await;
        let link = Link::tcp(address).await.unwrap();
        let peer = attach(link, Config::new(), ());
        let mut calls = Vec::new();
        for notified in 0..5 {
            for _ in 0..3 {
                calls.push((notified, peer.call("read", ()).start().await.unwrap()));
            }
            peer.notify("change", ()).await.unwrap();
        }
        for (notified, call) in calls {
            assert_eq!(call.result::<usize>().await.unwrap(), notified);
        }
    });
}

// SRV-26 CAN-09
fn spawned_handlers_end_as_others_do(rt: Rt) {
    rt.run(|runtime| async move {
        let (handlers, address, running) = start(runtime, spawning()).await;
        let link = Link::tcp(address).await.unwrap();
        let peer = attach(link, Config::new().cancel_send(CancelStyle::Lsp), ());
        let code = |called| match CallError::of(called) {
            Err(CallError::Remote(error)) => error.code(),
            other => panic!("{other:?}"),
        };
        // A panic.
        let call = peer.call("panic", ()).start().await.unwrap();
        assert_eq!(code(call.await), antiphon::codes::INTERNAL_ERROR);
        let first = "the service panicked: panic (id 1)";
        while !handlers
            .reports
            .lock()
            .unwrap()
            .iter()
            .any(|one| one.starts_with(first))
        {
            until_running(&handlers, 0).await;
            ::smol::future::yield_now().await;
        }
        // A cancel, of handlers that compute and wait.
        for method in ["forever", "wait"] {
            let call = peer.call(method, ()).start().await.unwrap();
            until_running(&handlers, 1).await;
            peer.ask_cancel(call.id()).unwrap();
            assert_eq!(code(call.await), antiphon::codes::REQUEST_CANCELLED);
            until_running(&handlers, 0).await;
        }
        // The end of the connection, which the server closes.
        let _calls = [
            peer.call("forever", ()).start().await.unwrap(),
            peer.call("wait", ()).start().await.unwrap(),
        ];
        until_running(&handlers, 2).await;
        peer.call::<u8>("close", ()).await.unwrap_err();
        until_running(&handlers, 0).await;
        assert!(running.shutdown(LONG).await);
    });
}

// SRV-22
#[test]
fn eight_handlers_that_compute_share_the_cores() {
    if available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        return;
    }
    Rt::Tokio.run(|runtime| async move {
        let mut ratios = Vec::new();
        // The machine may do other things at the same time.
        for _ in 0..10 {
            let mut times = Vec::new();
            for options in [ConnectionConfig::new(Config::new()), spawning()] {
                let (_, address, running) = start(runtime.clone(), options).await;
                let link = Link::tcp(address).await.unwrap();
                let peer = attach(link, Config::new(), ());
                let begin = Instant::now();
                let eight = peer.batch(|batch| {
                    let calls = (0..8).map(|_| batch.call::<u8>("compute", ()));
                    calls.collect::<Result<Vec<_>, _>>()
                });
                let (calls, mut outcomes) = eight.await.unwrap();
                for call in calls {
                    assert_eq!(outcomes.fetch(call).unwrap(), 0);
                }
                times.push(begin.elapsed().as_secs_f64());
                running.stop();
            }
            ratios.push(times[1] / times[0]);
            println!("on one task {:.3} s, spawned {:.3} s", times[0], times[1]);
            if times[1] <= 0.6 * times[0] {
                return;
            }
        }
        panic!("spawned handlers take these parts of the time: {ratios:.2?}");
    });
}
