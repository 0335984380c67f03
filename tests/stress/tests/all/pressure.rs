//! Faults between two running peers: too many messages, too little reading, missing answers, bad
//! handlers. On every async runtime.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use antiphon::OwnedError;
use antiphon::session::Report;
use antiphon::{CloseReason, Closed, Config};
use antiphon_net::{
    Answer, CallError, ConnectionConfig, Driver, Link, Notification, Peer, Request, Responder,
    Service, SharedRuntime, drive_on, duplex,
};
use antiphon_stress::{LONG, Rt, on_every_runtime};
use futures_util::future::{join, join_all, join3};

on_every_runtime! {
    both_write_more_than_the_pipes_hold;
    a_reader_that_stops_is_given_up;
    a_peer_that_never_answers_costs_each_call_its_timeout;
    two_hundred_handlers_may_all_call_back_at_once;
    beyond_the_limit_requests_are_refused_and_answers_still_flow;
    handlers_beyond_the_limit_wait_and_so_does_what_came_behind_them;
    a_handler_that_panics_costs_its_own_request;
    a_handler_that_never_returns_is_dropped_with_the_connection;
    an_answer_after_the_close_is_refused_and_harmless;
    a_handler_that_blocks_its_thread_stops_nobody_else;
    a_shutdown_under_load_finishes_what_has_begun;
    nothing_is_lost_before_the_service_listens;
    notifications_before_a_result_arrive_before_it;
    the_peer_is_told_of_a_dropped_call;
    a_cancel_reaches_a_handler_that_waits;
}

async fn sleep(runtime: &SharedRuntime, span: Duration) {
    runtime.sleep_until(runtime.now() + span).await;
}

/// Waits for something that must come.
async fn eventually(runtime: &SharedRuntime, mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        sleep(runtime, Duration::from_millis(1)).await;
    }
}

fn options(config: Config) -> ConnectionConfig {
    let mut options = ConnectionConfig::new(config);
    options.linger = Duration::from_millis(20);
    options
}

/// Runs both sides of a conversation in the background, over pipes in memory of `room` bytes each.
fn pair<A: Service, B: Service>(
    runtime: &SharedRuntime,
    room: usize,
    (near_options, near): (ConnectionConfig, A),
    (far_options, far): (ConnectionConfig, B),
) -> (Peer, Peer) {
    let (here, there) = duplex(room);
    let near = spawn(
        runtime,
        drive_on(Link::new(here), near_options, Arc::new(near), runtime),
    );
    let far = spawn(
        runtime,
        drive_on(Link::new(there), far_options, Arc::new(far), runtime),
    );
    (near, far)
}

fn spawn(runtime: &SharedRuntime, (peer, driver): (Peer, Driver)) -> Peer {
    runtime.spawn(Box::pin(async { drop(driver.await) }));
    peer
}

/// Has the methods that these tests call, and counts what happens.
#[derive(Default)]
struct Server {
    running: AtomicUsize,
    /// The most handlers that ran at the same time.
    most: AtomicUsize,
    /// Notifications that have arrived.
    noted: AtomicU64,
    /// Handlers of `never` that were dropped.
    dropped: Arc<AtomicU64>,
    reports: AtomicU64,
}

/// Counts its own drop.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Service for Server {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let answer = self.answer(peer, request).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        answer
    }

    async fn notification(&self, _: &Peer, _: Notification) {
        self.noted.fetch_add(1, Ordering::SeqCst);
    }

    fn report(&self, _: &Peer, _: Report) {
        self.reports.fetch_add(1, Ordering::SeqCst);
    }
}

impl Server {
    async fn answer(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        Ok(match request.method() {
            "echo" => Answer::new(request.raw_params()),
            "back" => {
                let call = peer.call("echo", request.raw_params()).timeout(LONG);
                Answer::new(call.raw().await.unwrap().as_json())
            }
            "panic" => panic!("as asked"),
            "never" => {
                let _counted = Counted(Arc::clone(&self.dropped));
                std::future::pending().await
            }
            "wait" => {
                let reply = request.defer();
                reply.cancellation().await;
                // The connection may have been closed on purpose.
                let _ = reply.cancelled();
                Answer::deferred()
            }
            "noted" => self.noted.load(Ordering::SeqCst).into(),
            "emit" => {
                for n in 0..100 {
                    peer.notify("tick", &[n]).await.unwrap();
                }
                100.into()
            }
            _ => return Err(request.unknown_method()),
        })
    }
}

fn server() -> (ConnectionConfig, Arc<Server>) {
    (options(Config::new()), Arc::default())
}

// TRN-07 CAN-12
fn both_write_more_than_the_pipes_hold(rt: Rt) {
    rt.run(|runtime| async move {
        let (near, far) = pair(&runtime, 512, server(), server());
        let text = "x".repeat(20_000);
        let talk = |peer: Peer, text: String| async move {
            let params = [text.as_str()];
            let calls = (0..50).map(|_| peer.call::<[String; 1]>("echo", &params));
            for [back] in join_all(calls).await.into_iter().map(Result::unwrap) {
                assert_eq!(back, text);
            }
        };
        let one = talk(near.clone(), text.clone());
        let two = talk(far.clone(), text);
        join(one, two).await;
    });
}

// TRN-07 SEC-10
fn a_reader_that_stops_is_given_up(rt: Rt) {
    rt.run(|runtime| async move {
        let (here, there) = duplex(64);
        let mut config = Config::new();
        config.timeouts.write_timeout = Some(Duration::from_millis(50));
        let service = Arc::<Server>::default();
        let (peer, driver) = drive_on(
            Link::new(here),
            options(config),
            Arc::clone(&service),
            &runtime,
        );
        let peer = spawn(&runtime, (peer, driver));
        let called = peer.call::<()>("m", &["x".repeat(10_000)]).await;
        assert!(matches!(called, Err(CallError::Closed)), "{called:?}");
        let why = peer.wait_closed(LONG).await;
        assert!(why.is_some());
        let error = peer.transport_error().unwrap();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        eventually(&runtime, || service.reports.load(Ordering::SeqCst) > 0).await;
        drop(there);
    });
}

// CLI-06 CLI-07
fn a_peer_that_never_answers_costs_each_call_its_timeout(rt: Rt) {
    rt.run(|runtime| async move {
        let (near, far) = pair(&runtime, 4096, server(), server());
        let span = Some(Duration::from_millis(30));
        let calls = (0..20).map(|_| near.call::<()>("never", ()).timeout(span));
        for called in join_all(calls).await {
            assert!(matches!(called, Err(CallError::TimedOut)), "{called:?}");
        }
        // Other calls are answered as before, in both directions.
        assert_eq!(near.call::<[u8; 1]>("echo", &[1]).await.unwrap(), [1]);
        assert_eq!(far.call::<[u8; 1]>("echo", &[2]).await.unwrap(), [2]);
    });
}

// SRV-22 TST-11
fn two_hundred_handlers_may_all_call_back_at_once(rt: Rt) {
    rt.run(|runtime| async move {
        let service = Arc::<Server>::default();
        let far = (options(Config::new()), Arc::clone(&service));
        let (near, _far) = pair(&runtime, 256, server(), far);
        let calls = (0..200_u64).map(|n| {
            let near = &near;
            async move { near.call::<[u64; 1]>("back", &[n]).await }
        });
        for (n, back) in join_all(calls).await.into_iter().enumerate() {
            assert_eq!(back.unwrap(), [n as u64]);
        }
        // Those that wait for their own peer do not count as running: USE-28.
        let most = service.most.load(Ordering::SeqCst);
        assert!((65..=200).contains(&most), "{most}");
    });
}

// SRV-23 SEC-10
fn beyond_the_limit_requests_are_refused_and_answers_still_flow(rt: Rt) {
    rt.run(|runtime| async move {
        let mut config = Config::new();
        config.limits.max_open_requests = 80;
        let (near, far) = pair(
            &runtime,
            4096,
            server(),
            (options(config), Arc::<Server>::default()),
        );
        let waiting: Vec<_> =
            join_all((0..80).map(|_| near.call("wait", ()).no_timeout().start())).await;
        let refused = join_all((0..500).map(|_| near.call::<()>("echo", ()))).await;
        for refused in refused {
            let Err(CallError::Remote(error)) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(error.as_error().code(), antiphon::codes::SERVER_BUSY);
        }
        // Calls in the other direction are answered as before.
        assert_eq!(far.call::<[u8; 1]>("echo", &[7]).await.unwrap(), [7]);
        drop(waiting);
        near.close(CloseReason::Done);
    });
}

// SRV-25 TST-11
fn handlers_beyond_the_limit_wait_and_so_does_what_came_behind_them(rt: Rt) {
    rt.run(|runtime| async move {
        let mut far = options(Config::lsp());
        far.max_running_requests = 2;
        let service = Arc::<Server>::default();
        let near = (options(Config::lsp()), ());
        let (near, _far) = pair(&runtime, 4096, near, (far, Arc::clone(&service)));
        let mut waiting = Vec::new();
        for _ in 0..5 {
            waiting.push(near.call("wait", ()).no_timeout().start().await.unwrap());
        }
        near.notify("note", ()).await.unwrap();
        eventually(&runtime, || service.most.load(Ordering::SeqCst) == 2).await;
        assert_eq!(service.noted.load(Ordering::SeqCst), 0);
        // The last three have not begun and never run; the first two are running and end.
        for call in waiting.iter().rev() {
            near.ask_cancel(call.id()).unwrap();
        }
        for call in waiting {
            let called = CallError::of(call.await);
            assert!(matches!(called, Err(CallError::Remote(_))), "{called:?}");
        }
        assert_eq!(near.call::<u64>("noted", ()).await.unwrap(), 1);
        assert!(service.most.load(Ordering::SeqCst) <= 2);
    });
}

// SRV-26
fn a_handler_that_panics_costs_its_own_request(rt: Rt) {
    rt.run(|runtime| async move {
        let service = Arc::<Server>::default();
        let far = (options(Config::new()), Arc::clone(&service));
        let (near, _far) = pair(&runtime, 4096, server(), far);
        let (one, two, three) = join3(
            near.call::<[u8; 1]>("back", &[1]),
            near.call::<()>("panic", ()),
            near.call::<[u8; 1]>("back", &[3]),
        )
        .await;
        assert_eq!((one.unwrap(), three.unwrap()), ([1], [3]));
        let Err(CallError::Remote(error)) = two else {
            panic!("{two:?}");
        };
        assert_eq!(error.as_error().code(), antiphon::codes::INTERNAL_ERROR);
        eventually(&runtime, || service.reports.load(Ordering::SeqCst) == 1).await;
    });
}

// CON-10 SRV-26
fn a_handler_that_never_returns_is_dropped_with_the_connection(rt: Rt) {
    rt.run(|runtime| async move {
        let service = Arc::<Server>::default();
        let dropped = Arc::clone(&service.dropped);
        let far = (options(Config::new()), Arc::clone(&service));
        let (near, far) = pair(&runtime, 4096, server(), far);
        let calls = join_all((0..10).map(|_| near.call("never", ()).no_timeout().start())).await;
        eventually(&runtime, || service.running.load(Ordering::SeqCst) == 10).await;
        far.close(CloseReason::GoingAway);
        for call in calls {
            assert!(matches!(
                CallError::of(call.unwrap().await),
                Err(CallError::Closed)
            ));
        }
        eventually(&runtime, || dropped.load(Ordering::SeqCst) == 10).await;
    });
}

/// Keeps its responder for the test.
struct Hands(std::sync::Mutex<Option<Responder>>);

impl Service for Hands {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        *self.0.lock().unwrap() = Some(request.defer());
        Ok(Answer::deferred())
    }
}

// SRV-26 CON-02
fn an_answer_after_the_close_is_refused_and_harmless(rt: Rt) {
    rt.run(|runtime| async move {
        let hands = Arc::new(Hands(Default::default()));
        let mut config = Config::new();
        config.timeouts.drain_timeout = Some(Duration::from_millis(50));
        let far = (options(config), Arc::clone(&hands));
        let (near, far) = pair(&runtime, 4096, server(), far);
        let call = near.call("m", ()).no_timeout().start().await.unwrap();
        eventually(&runtime, || hands.0.lock().unwrap().is_some()).await;
        near.close(CloseReason::Done);
        assert!(matches!(CallError::of(call.await), Err(CallError::Closed)));
        assert!(far.wait_closed(LONG).await.is_some());
        let reply = hands.0.lock().unwrap().take().unwrap();
        assert!(reply.is_cancelled());
        assert!(reply.ok(&1).is_err());
    });
}

/// Blocks a thread of the pool until it is told to go on.
struct Blocks(Arc<(std::sync::Mutex<bool>, std::sync::Condvar)>);

impl Service for Blocks {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        if request.method() == "echo" {
            return Ok(Answer::new(request.raw_params()));
        }
        let gate = Arc::clone(&self.0);
        request.defer().spawn(move |reply| {
            let (open, changed) = &*gate;
            let open = open.lock().unwrap();
            drop(changed.wait_timeout_while(open, LONG, |open| !*open));
            // Nobody waits for it if the test has failed.
            let _ = reply.ok("done");
        });
        Ok(Answer::deferred())
    }
}

// SRV-22 SRV-30
fn a_handler_that_blocks_its_thread_stops_nobody_else(rt: Rt) {
    rt.run(|runtime| async move {
        let gate = Arc::<(std::sync::Mutex<bool>, std::sync::Condvar)>::default();
        let service = Arc::new(Blocks(Arc::clone(&gate)));
        let far = (options(Config::new()), Arc::clone(&service));
        let (near, back) = pair(&runtime, 4096, server(), far);
        let other = (options(Config::new()), service);
        let (other, _other_back) = pair(&runtime, 4096, server(), other);
        let blocked = near.call("block", ()).no_timeout().start().await.unwrap();
        let late = near
            .call::<()>("block", ())
            .timeout(Duration::from_millis(20));
        assert!(matches!(late.await, Err(CallError::TimedOut)));
        assert_eq!(near.call::<[u8; 1]>("echo", &[1]).await.unwrap(), [1]);
        assert_eq!(back.call::<[u8; 1]>("echo", &[2]).await.unwrap(), [2]);
        assert_eq!(other.call::<[u8; 1]>("echo", &[3]).await.unwrap(), [3]);
        *gate.0.lock().unwrap() = true;
        gate.1.notify_all();
        assert_eq!(blocked.result::<String>().await.unwrap(), "done");
    });
}

/// Takes a moment over each request.
struct Slow(SharedRuntime, Arc<AtomicU64>);

impl Service for Slow {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        sleep(&self.0, Duration::from_millis(20)).await;
        self.1.fetch_add(1, Ordering::SeqCst);
        Ok(Answer::new(request.raw_params()))
    }
}

// CON-09 SEC-10
fn a_shutdown_under_load_finishes_what_has_begun(rt: Rt) {
    rt.run(|runtime| async move {
        let done = Arc::<AtomicU64>::default();
        let slow = Arc::new(Slow(Arc::clone(&runtime), Arc::clone(&done)));
        let config = options(Config::new());
        type Connected = (antiphon_net::Running, Vec<Peer>);
        let (running, peers): Connected = match rt {
            Rt::Tokio | Rt::TokioLocal => {
                let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0")
                    .await
                    .unwrap();
                let address = server.local_addr();
                let running = server.start(config, move |_| Arc::clone(&slow));
                let mut peers = Vec::new();
                for _ in 0..20 {
                    let link = antiphon_tokio::Link::tcp(address).await.unwrap();
                    peers.push(antiphon_tokio::attach(link, Config::new(), ()));
                }
                (running, peers)
            }
            Rt::Smol | Rt::AsyncStd => {
                let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0")
                    .await
                    .unwrap();
                let address = server.local_addr();
                let running = server.start(config, move |_| Arc::clone(&slow));
                let mut peers = Vec::new();
                for _ in 0..20 {
                    let link = antiphon_async_std::Link::tcp(address).await.unwrap();
                    peers.push(antiphon_async_std::attach(link, Config::new(), ()));
                }
                (running, peers)
            }
        };
        let mut calls = Vec::new();
        for peer in &peers {
            for n in 0..50_u64 {
                calls.push(peer.call("m", &[n]).timeout(LONG).start().await.unwrap());
            }
        }
        // The shutdown begins when some calls are done and all requests have been sent.
        eventually(&runtime, || done.load(Ordering::SeqCst) >= 20).await;
        let all_arrived = async {
            for peer in &peers {
                peer.flush(LONG).await.unwrap();
            }
        };
        all_arrived.await;
        assert!(running.shutdown(LONG).await, "all ended by themselves");
        let mut answered = 0;
        for call in calls {
            match CallError::of(call.await) {
                Ok(_) => answered += 1,
                // What arrived after the shutdown had begun was refused.
                Err(CallError::Closed | CallError::Remote(_) | CallError::Unsent) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(
            answered,
            done.load(Ordering::SeqCst),
            "what was done was answered"
        );
        for peer in peers {
            assert!(peer.wait_closed(LONG).await.is_some());
        }
    });
}

// TRN-06 D-18
fn nothing_is_lost_before_the_service_listens(rt: Rt) {
    // Takes 30 ms to open, and then expects notifications with the numbers 0, 1, 2, ….
    struct Late(SharedRuntime, AtomicU64);
    impl Service for Late {
        async fn opened(&self, _: &Peer) {
            sleep(&self.0, Duration::from_millis(30)).await;
        }
        async fn notification(&self, _: &Peer, notification: Notification) {
            let [n]: [u64; 1] = notification.params().unwrap();
            assert_eq!(n, self.1.fetch_add(1, Ordering::SeqCst));
        }
    }
    rt.run(|runtime| async move {
        let late = Arc::new(Late(Arc::clone(&runtime), AtomicU64::new(0)));
        let near = (options(Config::new()), ());
        let far = (options(Config::new()), Arc::clone(&late));
        let (near, _far) = pair(&runtime, 4096, near, far);
        for n in 0..1000_u64 {
            near.notify("n", &[n]).await.unwrap();
        }
        eventually(&runtime, || late.1.load(Ordering::SeqCst) == 1000).await;
    });
}

// TRN-07
fn notifications_before_a_result_arrive_before_it(rt: Rt) {
    rt.run(|runtime| async move {
        let near = Arc::<Server>::default();
        let here = (options(Config::new()), Arc::clone(&near));
        let (peer, _far) = pair(&runtime, 128, here, server());
        let settled = Arc::<AtomicU64>::default();
        // `then` runs in order with the notifications that the service gets.
        let (inside, seen) = (Arc::clone(&settled), Arc::clone(&near));
        let then = move |_| inside.store(seen.noted.load(Ordering::SeqCst), Ordering::SeqCst);
        let called = peer.call("emit", ()).timeout(LONG).then(then).await;
        called.unwrap();
        eventually(&runtime, || settled.load(Ordering::SeqCst) == 100).await;
    });
}

// CAN-13 CLI-10
fn the_peer_is_told_of_a_dropped_call(rt: Rt) {
    rt.run(|runtime| async move {
        let near = (options(Config::lsp()), ());
        let service = Arc::<Server>::default();
        let far = (options(Config::lsp()), Arc::clone(&service));
        let (near, _far) = pair(&runtime, 4096, near, far);
        {
            let mut call = std::pin::pin!(near.call::<()>("wait", ()));
            let begun = eventually(&runtime, || service.running.load(Ordering::SeqCst) == 1);
            let mut begun = std::pin::pin!(begun);
            std::future::poll_fn(|cx| {
                assert!(call.as_mut().poll(cx).is_pending(), "nobody answers it");
                begun.as_mut().poll(cx)
            })
            .await;
        }
        eventually(&runtime, || service.running.load(Ordering::SeqCst) == 0).await;
        assert_eq!(service.most.load(Ordering::SeqCst), 1);
        assert_eq!(near.calls_open(), 0);
    });
}

// CAN-02 CAN-04
fn a_cancel_reaches_a_handler_that_waits(rt: Rt) {
    rt.run(|runtime| async move {
        let near = (options(Config::lsp()), ());
        let far = (options(Config::lsp()), Arc::<Server>::default());
        let (near, far) = pair(&runtime, 4096, near, far);
        let call = near.call("wait", ()).no_timeout().start().await.unwrap();
        near.ask_cancel(call.id()).unwrap();
        let Err(CallError::Remote(error)) = CallError::of(call.await) else {
            panic!("it is answered");
        };
        assert_eq!(
            error.as_error().code(),
            antiphon::codes::LSP_REQUEST_CANCELLED
        );
        near.drain();
        assert_eq!(near.wait_closed(LONG).await, Some(Closed::Drained));
        assert!(far.wait_closed(LONG).await.is_some());
    });
}
