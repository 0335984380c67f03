//! Clients that do their worst, all at once, against a server with nothing but defaults, on every runtime: one
//! that never answers what the server asks it, ones that hang up, ones that vanish, one that asks for large
//! errors. Other clients hardly notice, memory stays within bounds, and nobody is called to the operator.
//! Prints how long the calls of the other clients took.
//!
//! It takes 3 s a runtime; `ANTIPHON_WORST_SECONDS=30 cargo test -p antiphon-stress --test worst -- --nocapture`
//! takes 30 s.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, OwnedError};
use antiphon_net::http::HttpConfig;
use antiphon_net::{
    Answer, ConnectionConfig, Peer, Request, Responder, SharedRuntime, trace_report,
};
use antiphon_stress::{LONG, Rt};
use antiphon_test_support::heap::{Counting, held_by_process};
use antiphon_tokio::websocket::WebSocketConfig;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};

#[global_allocator]
static HEAP: Counting = Counting::of_process();

/// How long 99 of 100 calls of another client may take.
const MAX_P99: Duration = Duration::from_millis(100);

/// How many runs in a row must be too slow for the test to fail: other programs use the machine too.
const ATTEMPTS: usize = 3;

/// The most heap that the server and its clients may hold, in bytes.
const MAX_HEAP: i64 = 128 << 20;

/// How many questions one client leaves unanswered, and how many hang up each second.
const CROWD: usize = 64;

/// The bytes of the data of an error.
const LARGE: usize = 60_000;

/// How long `slow` takes if nobody stops it.
const SLOW: Duration = Duration::from_secs(60);

/// The lines at the level ERROR.
#[derive(Clone, Default)]
struct Errors(Arc<Mutex<Vec<String>>>);

impl Errors {
    /// The lines of this process.
    fn of_process() -> &'static Self {
        static ERRORS: OnceLock<Errors> = OnceLock::new();
        ERRORS.get_or_init(|| {
            let errors = Self::default();
            tracing::subscriber::set_global_default(errors.clone()).expect("there is no other");
            errors
        })
    }
}

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn large() -> Result<(), OwnedError> {
    let error = OwnedError::new(1, "Too large");
    Err(error.with_data(&"x".repeat(LARGE)).expect("a text is JSON"))
}

/// Answers a request by `work` on the pool.
fn on_pool(
    request: &Request,
    work: impl FnOnce(Responder) + Send + 'static,
) -> Result<Answer, OwnedError> {
    request.defer().spawn(work);
    Ok(Answer::deferred())
}

/// The service on threads: everything but errors runs on the pool.
fn on_threads() -> antiphon_blocking::Router {
    antiphon_blocking::Router::new()
        .raw("ping", |request| {
            on_pool(request, |reply| drop(reply.ok(())))
        })
        .raw("ask", |request| {
            on_pool(request, |reply| {
                let asked = Peer::of(&reply).call::<()>("callback", ()).wait();
                let _ = reply.ok(&asked.is_ok());
            })
        })
        .raw("slow", |request: &Request| {
            on_pool(request, |reply| {
                let begun = Instant::now();
                while !reply.is_cancelled() && begun.elapsed() < SLOW {
                    thread::sleep(Duration::from_millis(10));
                }
                let _ = reply.ok(());
            })
        })
        .method("large", [], large)
        .on_report(trace_report)
}

/// The service on tasks.
fn on_tasks(runtime: SharedRuntime) -> antiphon_net::Router {
    antiphon_net::Router::new()
        .method("ping", [], || ())
        .method("ask", [], async |peer: Peer| {
            Ok::<_, OwnedError>(peer.call::<()>("callback", ()).await.is_ok())
        })
        .method("slow", [], move || {
            let runtime = Arc::clone(&runtime);
            async move { runtime.sleep_until(runtime.now() + SLOW).await }
        })
        .method("large", [], large)
        .on_report(trace_report)
}

/// Where a server listens: for lines, for HTTP and for WebSockets.
type Addresses = [SocketAddr; 3];

/// Runs a server until `is_over`. Its three listeners share their limits, as they do in one program.
fn serve(rt: Option<Rt>, told: mpsc::Sender<Addresses>, is_over: Arc<AtomicBool>) {
    let options = ConnectionConfig::from(Config::new());
    let http = HttpConfig::new(options.clone());
    let websocket = options.clone().with_websocket(WebSocketConfig::server());
    let is_over = move || is_over.load(Ordering::SeqCst);
    /// Three servers of an adapter, each of which `$wait` binds.
    macro_rules! servers {
        ($adapter:ident, $made:ident => $wait:expr) => {{
            let $made = $adapter::TcpServer::bind("127.0.0.1:0");
            let one = $wait.expect("a port");
            let $made = $adapter::TcpServer::bind("127.0.0.1:0");
            let two = $wait.expect("a port");
            let $made = $adapter::TcpServer::bind("127.0.0.1:0");
            (one, two, $wait.expect("a port"))
        }};
    }
    let Some(rt) = rt else {
        let router = on_threads();
        let (one, two, three) = servers!(antiphon_blocking, made => made);
        let addresses = [&one, &two, &three].map(|server| server.local_addr().expect("a port"));
        let (lines, pages) = (router.clone(), router.clone());
        let _lines = one
            .start(options, move |_| lines.clone())
            .expect("a thread");
        let _http = two
            .start_http(http, move |_| pages.clone())
            .expect("a thread");
        let _websocket = three
            .start(websocket, move |_| router.clone())
            .expect("a thread");
        told.send(addresses).expect("somebody waits");
        while !is_over() {
            thread::sleep(Duration::from_millis(5));
        }
        return;
    };
    rt.run_for(10 * LONG, |runtime| async move {
        let router = on_tasks(Arc::clone(&runtime));
        macro_rules! run {
            ($adapter:ident) => {{
                let (one, two, three) = servers!($adapter, made => made.await);
                told.send([one.local_addr(), two.local_addr(), three.local_addr()])
                    .expect("somebody waits");
                [
                    one.start(options, router.clone().into_make_service()),
                    two.start_http(http, router.clone()),
                    three.start(websocket, router.clone().into_make_service()),
                ]
            }};
        }
        let running: [antiphon_net::Running; 3] = match rt {
            Rt::Tokio | Rt::TokioLocal => run!(antiphon_tokio),
            Rt::Smol | Rt::AsyncStd => run!(antiphon_async_std),
        };
        while !is_over() {
            runtime
                .sleep_until(runtime.now() + Duration::from_millis(5))
                .await;
        }
        for running in running {
            running.shutdown(Duration::ZERO).await;
        }
    });
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_nodelay(true).expect("a socket");
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    stream
}

fn call(method: &str, id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#)
}

fn post(method: &str) -> String {
    let body = call(method, 1);
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads whatever comes, and answers nothing.
fn drain(mut stream: TcpStream) {
    thread::spawn(move || {
        let mut buf = [0; 1 << 16];
        while matches!(stream.read(&mut buf), Ok(n) if n > 0) {}
    });
}

/// Asks so many questions that the server asks back, and answers none.
fn leave_unanswered(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address);
    for id in 0..CROWD {
        writeln!(stream, "{}", call("ask", id)).expect("it reads");
    }
    drain(stream.try_clone().expect("a socket"));
    stream
}

/// Sends a handshake and a request in one masked frame, and cuts the connection.
fn vanish(address: SocketAddr) {
    let mut stream = connect(address);
    let handshake = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(handshake.as_bytes()).expect("it reads");
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("a handshake");
    }
    let text = call("slow", 1);
    let mut frame = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    stream.write_all(&frame).expect("it reads");
    thread::sleep(Duration::from_millis(50));
}

/// Does everything that is done each second, until `is_over`.
fn attack([lines, http, websocket]: Addresses, is_over: &AtomicBool) {
    let _asking = leave_unanswered(lines);
    let mut greedy = connect(lines);
    drain(greedy.try_clone().expect("a socket"));
    let batch: Vec<_> = (0..100).map(|id| call("large", id)).collect();
    let batch = format!("[{}]", batch.join(","));
    while !is_over.load(Ordering::SeqCst) {
        let begun = Instant::now();
        let crowd: Vec<_> = (0..CROWD)
            .map(|_| {
                let mut stream = connect(http);
                stream.write_all(post("slow").as_bytes()).expect("it reads");
                stream
            })
            .collect();
        writeln!(greedy, "{batch}").expect("it reads");
        vanish(websocket);
        thread::sleep(Duration::from_millis(300).saturating_sub(begun.elapsed()));
        drop(crowd);
        thread::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed()));
    }
}

/// Calls `ping` again and again for so long, and returns how long each call took, and the most heap that
/// was held.
fn call_on(address: SocketAddr, message: &str, end: &str, span: Duration) -> (Vec<Duration>, i64) {
    let mut stream = connect(address);
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (begun, mut times, mut heap) = (Instant::now(), Vec::new(), 0);
    while begun.elapsed() < span {
        let asked = Instant::now();
        stream.write_all(message.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        while !answer.ends_with(end.as_bytes()) {
            let come = reader.read_until(b'}', &mut answer).expect("an answer");
            assert!(come > 0, "{}", String::from_utf8_lossy(&answer));
        }
        times.push(asked.elapsed());
        heap = heap.max(held_by_process());
        thread::sleep(Duration::from_millis(5));
    }
    (times, heap)
}

/// Returns the time within which 99 of 100 calls of the other clients were answered.
fn p99_of_others(rt: Option<Rt>, span: Duration) -> Duration {
    let is_over = Arc::<AtomicBool>::default();
    let (told, addresses) = mpsc::channel();
    let server = {
        let is_over = Arc::clone(&is_over);
        thread::spawn(move || serve(rt, told, is_over))
    };
    let addresses = addresses.recv_timeout(LONG).expect("it listens");
    let attacked = Arc::<AtomicBool>::default();
    let attacker = {
        let attacked = Arc::clone(&attacked);
        thread::spawn(move || attack(addresses, &attacked))
    };
    let before = held_by_process();
    let line = format!("{}\n", call("ping", 1));
    let over_http = thread::spawn(move || call_on(addresses[1], &post("ping"), r#""id":1}"#, span));
    let over_lines = call_on(addresses[0], &line, r#""id":1}"#, span);
    let over_http = over_http.join().expect("it is answered");
    attacked.store(true, Ordering::SeqCst);
    attacker.join().expect("it goes on to the end");
    is_over.store(true, Ordering::SeqCst);
    server.join().expect("it goes on to the end");
    let heap = over_lines.1.max(over_http.1) - before;
    let of = |mut times: Vec<Duration>| {
        times.sort();
        (times[times.len() * 99 / 100], times.len())
    };
    let (lines, http) = (of(over_lines.0), of(over_http.0));
    let name = rt.map_or("threads".into(), |rt| format!("{rt:?}"));
    println!(
        "{name}: p99 {:?} of {} calls in lines, {:?} of {} over HTTP; {} KiB of heap",
        lines.0,
        lines.1,
        http.0,
        http.1,
        heap >> 10
    );
    assert!(heap < MAX_HEAP, "{name}: {heap} bytes");
    lines.0.max(http.0)
}

// USE-28 USE-30 TST-11
#[test]
fn clients_that_do_their_worst_hold_up_no_other() {
    let errors = Errors::of_process();
    let seconds = std::env::var("ANTIPHON_WORST_SECONDS").ok();
    let seconds = seconds.map_or(3, |seconds| seconds.parse().expect("a number"));
    for rt in [None, Some(Rt::Tokio), Some(Rt::Smol), Some(Rt::AsyncStd)] {
        let mut took = Vec::new();
        while !took.iter().any(|took| *took <= MAX_P99) {
            assert!(took.len() < ATTEMPTS, "{rt:?}: {took:?}");
            took.push(p99_of_others(rt, Duration::from_secs(seconds)));
        }
        assert_eq!(errors.0.lock().unwrap().first(), None, "{rt:?}");
    }
}
