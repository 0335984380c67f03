//! What clients do at their worst, all at once: afterwards nothing runs, nothing waits, and interceptors
//! have seen the end of all that began.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::service::{AnyRequest, CallEnd, Cx, Decision, Interceptor, Reply};
use antiphon::{Config, OwnedError, State};
use antiphon_net::{Answer, ConnectionConfig, Context, Dispatcher, Request, Router, SharedRuntime};
use antiphon_regressions::raw::Raw;
use antiphon_stress::{LONG, Rt};
use antiphon_test_support::random::Random;

/// How long the clients of one storm go on.
const STORM: Duration = Duration::from_millis(1200);
/// How many clients there are in a storm.
const CLIENTS: u64 = 12;
/// How many requests a server may run at once, and how many may wait.
const LIMITS: (usize, usize) = (4, 16);

/// Counts what has begun and not ended: connections, calls, and handlers of `wait`; the most such handlers at once; and
/// all calls that have begun.
#[derive(Clone, Debug, Default)]
struct Balance {
    connections: Arc<AtomicI64>,
    calls: Arc<AtomicI64>,
    handlers: Arc<AtomicI64>,
    most: Arc<AtomicI64>,
    begun: Arc<AtomicU64>,
}

impl<R: AnyRequest + ?Sized> Interceptor<R> for Balance {
    fn opened(&self, _: u32) {
        self.connections.fetch_add(1, Ordering::SeqCst);
    }

    fn closed(&self, _: u32) {
        self.connections.fetch_sub(1, Ordering::SeqCst);
    }

    fn request(&self, _: &mut Cx, _: &R) -> Decision {
        self.begun.fetch_add(1, Ordering::SeqCst);
        self.calls.fetch_add(1, Ordering::SeqCst);
        Decision::Continue
    }

    fn response(&self, _: &Cx, _: &R, reply: &mut Reply) {
        let ended = i64::from(!reply.is_deferred());
        self.calls.fetch_sub(ended, Ordering::SeqCst);
    }

    fn answered(&self, _: &Cx, _: &R, _: &CallEnd) {
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }

    fn given_up(&self, _: &Cx, _: &R) {
        self.calls.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A handler that runs.
struct Running(Arc<AtomicI64>);

impl Running {
    fn new(balance: &Balance) -> Self {
        let running = balance.handlers.fetch_add(1, Ordering::SeqCst) + 1;
        balance.most.fetch_max(running, Ordering::SeqCst);
        Self(Arc::clone(&balance.handlers))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Shared {
    runtime: SharedRuntime,
    balance: Balance,
}

impl Shared {
    async fn sleep(&self, micros: u64) {
        let until = self.runtime.now() + Duration::from_micros(micros);
        self.runtime.sleep_until(until).await;
    }
}

fn panics() -> Result<u64, OwnedError> {
    panic!("it was asked to")
}

fn router(shared: &Shared) -> Router<Shared> {
    let (checking, number) = (shared.clone(), AtomicU64::new(0));
    Router::with_state(shared.clone())
        .intercept(shared.balance.clone())
        // A check that sometimes waits, refuses or panics.
        .check_async(move |_| {
            let number = number.fetch_add(1, Ordering::SeqCst);
            let checking = checking.clone();
            async move {
                if number % 3 == 0 {
                    checking.sleep(number % 7 * 700).await;
                }
                match number % 55 {
                    7 | 18 | 29 => Err(OwnedError::new(1, "no")),
                    40 => panics().map(drop),
                    _ => Ok(()),
                }
            }
        })
        .method(
            "wait",
            ["us"],
            async |us: u64, State(shared): State<Shared>| {
                let _running = Running::new(&shared.balance);
                shared.sleep(us).await;
                Ok::<_, OwnedError>(us)
            },
        )
        .method("panics", [], async || panics())
        .raw("forgets", |request: &Request| {
            drop(request.defer());
            Ok(Answer::deferred())
        })
        .raw("spawns", |request: &Request| {
            request.defer().spawn(|reply| drop(reply.ok(&1)));
            Ok(Answer::deferred())
        })
        .notification("tell", [], async |State(shared): State<Shared>| {
            shared.sleep(300).await;
        })
        .handler_timeout(Duration::from_millis(20))
}

/// Makes the router for threads, without the handlers that wait on a task.
fn router_on_threads(balance: &Balance) -> antiphon_blocking::Router {
    let inside = balance.clone();
    antiphon_blocking::Router::new()
        .intercept(balance.clone())
        .method("wait", ["us"], move |us: u64| {
            let _running = Running::new(&inside);
            // Handlers on threads have no timeout.
            thread::sleep(Duration::from_micros(us.min(5000)));
            Ok::<_, OwnedError>(us)
        })
        .method("panics", [], panics)
        .raw("forgets", |request: &Request| {
            drop(request.defer());
            Ok(Answer::deferred())
        })
        .raw("spawns", |request: &Request| {
            request.defer().spawn(|reply| drop(reply.ok(&1)));
            Ok(Answer::deferred())
        })
}

/// A random message: most are calls of `wait`. The others call a method that does not exist, panics, drops
/// its responder, or answers on a thread, or are notifications.
fn call(rng: &mut Random, id: u64) -> String {
    let (method, us) = match rng.below(12) {
        0..6 => ("wait", rng.below(4000)),
        // Longer than the handler's timeout.
        6 => ("wait", 100_000),
        7 => ("nothing", 0),
        8 => ("panics", 0),
        9 => ("forgets", 0),
        10 => ("spawns", 0),
        _ => return r#"{"jsonrpc":"2.0","method":"tell"}"#.into(),
    };
    let params = if us > 0 {
        format!("[{us}]")
    } else {
        "[]".into()
    };
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":{id}}}"#)
}

fn cancel(id: u64) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"$/cancelRequest","params":{{"id":{id}}}}}"#)
}

/// What one client says on one connection, line by line; not all of it is JSON.
fn speech(rng: &mut Random) -> Vec<String> {
    let (mut lines, mut id) = (Vec::new(), 0);
    for _ in 0..rng.within(1, 6) {
        let mut said = Vec::new();
        for _ in 0..rng.within(1, 30) {
            id += 1;
            said.push(call(rng, id));
            if rng.chance(40) {
                said.push(cancel(rng.within(1, id)));
            }
        }
        match rng.below(6) {
            0 => lines.extend((1..=id).map(cancel)),
            1 => lines.push("?".into()),
            2 => lines.push(format!("[{}]", said.join(","))),
            _ => lines.append(&mut said),
        }
    }
    lines
}

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
}

/// Connects, sends, and disconnects in a random way, again and again until it is to stop.
fn client(address: SocketAddr, seed: u64, is_http: bool, stop: &AtomicBool) {
    let mut rng = Random::for_purpose(seed, 1);
    while !stop.load(Ordering::SeqCst) {
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        let lines = speech(&mut rng).into_iter();
        let mut text: String = match is_http {
            true => lines.map(|line| post(&line)).collect(),
            false => lines.map(|line| line + "\n").collect(),
        };
        if rng.chance(25) {
            text.truncate(rng.size(0, text.len()));
        }
        let patience = Duration::from_millis(rng.within(1, 30));
        let set = stream.set_write_timeout(Some(10 * patience));
        set.and_then(|()| stream.set_read_timeout(Some(patience)))
            .expect("a timeout");
        // The server may have ended the connection at any time.
        let _ = stream.write_all(text.as_bytes());
        if rng.chance(40) {
            let _ = stream.shutdown(Shutdown::Write);
        }
        match rng.below(3) {
            0 => {}
            1 => drop(stream.read(&mut [0; 4096])),
            _ => drop(stream.read_to_end(&mut Vec::new())),
        }
    }
}

/// Lets clients storm a server, and waits until all that began has ended. No more than `max_running` handlers run
/// at once.
fn storm(
    address: SocketAddr,
    is_http: bool,
    max_running: i64,
    dispatcher: &Dispatcher,
    balance: &Balance,
) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..CLIENTS {
            let stop = &stop;
            scope.spawn(move || client(address, seed, is_http, stop));
        }
        thread::sleep(STORM);
        stop.store(true, Ordering::SeqCst);
    });
    let due = Instant::now() + LONG;
    let open = || {
        let counts = [&balance.connections, &balance.calls, &balance.handlers];
        let is_even = counts.iter().all(|count| count.load(Ordering::SeqCst) == 0);
        !is_even || dispatcher.running() + dispatcher.waiting() > 0
    };
    while open() {
        assert!(Instant::now() < due, "{dispatcher:?} {balance:?}");
        thread::sleep(Duration::from_millis(2));
    }
    let most = balance.most.load(Ordering::SeqCst);
    assert!((1..=max_running).contains(&most), "{most}");
    assert!(balance.begun.load(Ordering::SeqCst) > 100);
}

fn options() -> ConnectionConfig {
    let mut options = ConnectionConfig::from(Config::new());
    options.config.timeouts.drain_timeout = Some(Duration::from_millis(300));
    options.config.limits.max_batch_items = 1000;
    options.config.limits.max_open_requests = 2000;
    options.dispatcher = Dispatcher::new(LIMITS.0, LIMITS.1);
    options
}

/// Runs a server on tasks for as long as `test` takes.
fn on_tasks(
    rt: Rt,
    is_http: bool,
    options: ConnectionConfig,
    test: impl FnOnce(SocketAddr, &Dispatcher, &Balance),
) {
    let (dispatcher, balance) = (options.dispatcher.clone(), Balance::default());
    let (over, inside) = (Arc::<AtomicBool>::default(), balance.clone());
    let (is_over, (told, address)) = (Arc::clone(&over), mpsc::channel());
    let server = thread::spawn(move || {
        rt.run_for(4 * LONG, |runtime| async move {
            let shared = Shared {
                runtime,
                balance: inside,
            };
            let router = router(&shared);
            let running = match rt {
                Rt::Tokio | Rt::TokioLocal => {
                    let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0").await;
                    let server = server.expect("a port");
                    told.send(server.local_addr()).expect("somebody waits");
                    match is_http {
                        true => server.start_http(options, router),
                        false => server.start(options, router.into_make_service()),
                    }
                }
                Rt::Smol | Rt::AsyncStd => {
                    let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                    let server = server.expect("a port");
                    told.send(server.local_addr()).expect("somebody waits");
                    match is_http {
                        true => server.start_http(options, router),
                        false => server.start(options, router.into_make_service()),
                    }
                }
            };
            while !is_over.load(Ordering::SeqCst) {
                shared.sleep(2000).await;
            }
            running.shutdown(Duration::ZERO).await;
        });
    });
    let address = address.recv_timeout(LONG).expect("it listens");
    test(address, &dispatcher, &balance);
    over.store(true, Ordering::SeqCst);
    server.join().expect("no panic");
}

// SRV-22 SRV-23 SRV-30 INT-01 SEC-14 TST-11
#[test]
fn after_a_storm_on_tasks_nothing_runs_and_nothing_waits() {
    for rt in [Rt::Tokio, Rt::TokioLocal, Rt::Smol] {
        // The handlers of clients that have ended their direction run with permits of their own: USE-28.
        for (is_http, max_running) in [(false, 2 * LIMITS.0 as i64), (true, LIMITS.0 as i64)] {
            on_tasks(rt, is_http, options(), |address, dispatcher, balance| {
                storm(address, is_http, max_running, dispatcher, balance);
            });
        }
    }
}

// SRV-22 SRV-23 INT-01 SEC-14 TST-11
#[test]
fn after_a_storm_on_threads_nothing_runs_and_nothing_waits() {
    // As on tasks.
    for (is_http, max_running) in [(false, 2 * LIMITS.0 as i64), (true, LIMITS.0 as i64)] {
        let (options, balance) = (options(), Balance::default());
        let (dispatcher, router) = (options.dispatcher.clone(), router_on_threads(&balance));
        let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
        let address = server.local_addr().expect("an address");
        let running = match is_http {
            true => server.start_http(options, move |_: &Context| router.clone()),
            false => server.start(options, router.into_make_service()),
        };
        let _running = running.expect("a thread");
        storm(address, is_http, max_running, &dispatcher, &balance);
    }
}

// SRV-24 CAN-11
#[test]
fn of_a_thousand_in_a_batch_half_are_cancelled_and_each_is_answered_once() {
    const ITEMS: u64 = 1000;
    let mut options = options();
    options.dispatcher = Dispatcher::default();
    on_tasks(Rt::Tokio, false, options, |address, dispatcher, _| {
        thread::scope(|scope| {
            for seed in 0..4 {
                scope.spawn(move || {
                    let mut rng = Random::for_purpose(seed, 2);
                    let mut raw = Raw::connect(address);
                    let calls: Vec<_> = (0..ITEMS)
                        .map(|id| {
                            let us = rng.below(3000);
                            format!(
                                r#"{{"jsonrpc":"2.0","method":"wait","params":[{us}],"id":{id}}}"#
                            )
                        })
                        .collect();
                    raw.send_line(&format!("[{}]", calls.join(",")));
                    let cancels: Vec<_> = (0..ITEMS).step_by(2).map(cancel).collect();
                    raw.send_line(&cancels.join("\n"));
                    let replies: Vec<serde_json::Value> =
                        serde_json::from_str(&raw.line()).expect("an array");
                    let ids = replies.iter().map(|reply| reply["id"].as_u64());
                    assert!(ids.eq((0..ITEMS).map(Some)));
                    // Cancelled are only those that were; the check has refused some, and has panicked
                    // at some, and some were late or found no place.
                    for (id, reply) in replies.iter().enumerate() {
                        let is_right = match reply["error"]["code"].as_i64() {
                            None => reply["result"].is_u64(),
                            Some(-32001) => id % 2 == 0,
                            Some(code) => [1, -32603, -32002, -32005].contains(&code),
                        };
                        assert!(is_right, "{reply}");
                    }
                });
            }
        });
        let due = Instant::now() + LONG;
        while dispatcher.running() + dispatcher.waiting() > 0 {
            assert!(Instant::now() < due, "{dispatcher:?}");
            thread::sleep(Duration::from_millis(2));
        }
    });
}
