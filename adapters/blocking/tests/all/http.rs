//! HTTP for threads: one thread runs hyper for the client and the server.
#![cfg(feature = "http")]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Closed, Config, ErrorObject, Json, OwnedOutcome, RequestKey};
use antiphon_blocking::http::{
    HttpError, HttpRequest, HttpResponse, HttpSend, ReplyError, with_send,
};
use antiphon_blocking::{
    Answer, CallError, ClientConfig, ConnectError, ConnectionConfig, Notification, OwnedError,
    Peer, Pool, Report, Request, Router, Service, TcpServer, connect,
};

use crate::measured::measured;

const LONG: Duration = Duration::from_secs(20);

/// Knows `echo`; `wait`, which blocks its thread until it is cancelled; `block`, which blocks it
/// while the test holds `go_on`; `push`, which tries to notify the client; `where`, which returns
/// the target and the name of the thread; and `panic`. It tells notifications and reports.
#[derive(Clone)]
struct Echo {
    told: Sender<String>,
    go_on: Arc<Mutex<()>>,
}

impl Echo {
    fn new() -> (Self, Receiver<String>) {
        let (told, hears) = channel();
        let go_on = Arc::default();
        (Self { told, go_on }, hears)
    }

    fn tell(&self, what: impl Into<String>) {
        // The test may have dropped its receiver.
        let _ = self.told.send(what.into());
    }
}

impl Service for Echo {
    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "echo" => match request.raw_params() {
                Some(params) => Ok(Answer::new(params)),
                None => Err(ErrorObject::invalid_params().into()),
            },
            "wait" => {
                self.tell("waiting");
                let is_cancelled = request.cancellation().wait(LONG);
                self.tell(format!("cancelled {is_cancelled}"));
                Err(ErrorObject::request_cancelled().into())
            }
            "block" => {
                self.tell("blocking");
                drop(self.go_on.lock());
                Ok(1.into())
            }
            "push" => Ok(format!("{:?}", peer.try_notify("news", ())).into()),
            "where" => Ok((peer.context().target.clone(), thread::current().name()).into()),
            "panic" => panic!("as asked"),
            _ => Err(request.unknown_method()),
        }
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        if notification.method() == "panic" {
            panic!("as asked");
        }
        if notification.method() != "typed" || notification.params::<[u8; 1]>().is_ok() {
            self.tell(notification.method());
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        self.tell(format!("report {report}"));
    }
}

/// As [`Echo`], and tells of every method that is called.
struct Life(Echo);

impl Service for Life {
    fn opened(&mut self, _: &Peer) {
        self.0.tell("opened");
    }

    fn batch(&mut self, _: &Peer, items: usize) {
        self.0.tell(format!("batch of {items}"));
    }

    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        self.0.tell(request.method());
        self.0.request(peer, request)
    }

    fn notification(&mut self, peer: &Peer, notification: Notification) {
        self.0.notification(peer, notification);
    }

    fn cancelled(&mut self, _: &Peer, _: RequestKey, _: Option<Json<'_>>) {
        self.0.tell("asked to cancel");
    }

    fn closed(&mut self, _: &Peer, why: Closed) {
        self.0.tell(format!("closed: {why:?}"));
    }
}

fn served(
    options: impl Into<ConnectionConfig>,
    echo: Echo,
) -> (antiphon_blocking::Running, String) {
    started(options, move || echo.clone())
}

/// Starts a server that makes a service for every method that is called. Returns it and its URL.
fn started<S: Service>(
    options: impl Into<ConnectionConfig>,
    make: impl Fn() -> S + Send + Sync + 'static,
) -> (antiphon_blocking::Running, String) {
    let server = TcpServer::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/rpc", server.local_addr().expect("an address"));
    let running = server.start_http(options.into(), move |_| make());
    (running.expect("a thread"), url)
}

/// Returns the error of HTTP that a call ended with.
fn http_error(error: CallError) -> HttpError {
    match error {
        CallError::Http(error) => error,
        other => panic!("{other:?}"),
    }
}

// HTP-01 HTP-03 HTP-08
#[test]
fn calls_notifications_and_batches_are_posts() {
    let (echo, told) = Echo::new();
    let (running, url) = served(Config::new(), echo);
    let client = connect(&url, Config::new(), ()).expect("a client");
    assert_eq!(
        client
            .call::<(u32, String)>("echo", &(1, "é"))
            .wait()
            .expect("an answer"),
        (1, "é".into())
    );
    let refused = client.call::<()>("echo", ()).wait().expect_err("no params");
    assert_eq!(refused.remote().map(|error| error.code()), Some(-32602));
    let panicked = client.call::<()>("panic", ()).wait().expect_err("a panic");
    assert_eq!(panicked.remote().map(|error| error.code()), Some(-32603));
    let report = told.recv_timeout(LONG).expect("a report");
    assert!(
        report.starts_with("report the service panicked: panic (id 3) after "),
        "{report}"
    );
    client.notify("log", ()).wait().expect("it is accepted");
    assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("log"));
    client.notify("panic", ()).wait().expect("it is accepted");
    assert_eq!(
        told.recv_timeout(LONG).as_deref(),
        Ok("report the service panicked")
    );
    client
        .notify("typed", &["?"])
        .wait()
        .expect("it is accepted");
    let report = told.recv_timeout(LONG).expect("a report");
    assert!(
        report.starts_with("report invalid params: ") && report.ends_with("typed (notification)"),
        "{report}"
    );
    let ((one, unknown), mut outcomes) = client
        .batch(|batch| {
            let one = batch.call::<[u32; 1]>("echo", &[1])?;
            batch.notify("log", ())?;
            Ok((one, batch.call::<()>("nobody", ())?))
        })
        .wait()
        .expect("a reply");
    assert_eq!(outcomes.fetch(one).expect("a result"), [1]);
    assert!(matches!(
        outcomes.take(unknown.call()),
        Some(OwnedOutcome::Err(_))
    ));
    let pushed: String = client.call("push", ()).wait().expect("an answer");
    // This client reads replies that are streams of events.
    assert_eq!(pushed, "Ok(())");
    let (target, thread): (String, String) = client.call("where", ()).wait().expect("an answer");
    assert_eq!((&*target, &*thread), ("/rpc", "antiphon-work"));
    let large = "x".repeat(1_000_000);
    let back: (String,) = client.call("echo", &(&*large,)).wait().expect("an answer");
    assert_eq!(back.0, large);
    assert_eq!(running.connections(), 1);
}

// HTP-10 CON-08
#[test]
fn threads_share_two_connections_and_a_closed_client_refuses() {
    let (running, url) = served(Config::new(), Echo::new().0);
    let mut options = ClientConfig::from(Config::new());
    options.max_http_connections = 2;
    let client = connect(&url, options, ()).expect("a client");
    thread::scope(|scope| {
        for n in 0..8_u32 {
            let client = &client;
            scope.spawn(move || {
                for k in 0..25 {
                    let back = client.call::<(u32, u32)>("echo", &(n, k)).wait();
                    assert_eq!(back.expect("an answer"), (n, k));
                }
            });
        }
        for _ in 0..100 {
            assert!(running.connections() <= 2);
            thread::yield_now();
        }
    });
    client.close();
    let closed = client.call::<()>("echo", ()).wait();
    let closed = closed.expect_err("the client is closed");
    assert!(closed.is_closed(), "{closed}");
    assert!(matches!(http_error(closed), HttpError::Closed));
}

#[test]
fn a_handler_that_blocks_stops_nothing_else() {
    let (echo, told) = Echo::new();
    let go_on = Arc::clone(&echo.go_on);
    let held = go_on.lock().expect("no panic");
    let mut options = ConnectionConfig::from(Config::new());
    options.pool = Pool::new(4, 0);
    let (_running, url) = served(options, echo);
    let client = || connect(&url, Config::new(), ()).expect("a client");
    thread::scope(|scope| {
        let blocked: Vec<_> = (0..3)
            .map(|_| {
                let client = client();
                scope.spawn(move || client.call::<u32>("block", ()).wait())
            })
            .collect();
        for _ in 0..3 {
            assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("blocking"));
        }
        assert_eq!(
            client()
                .call::<[u32; 1]>("echo", &[7])
                .wait()
                .expect("an answer"),
            [7]
        );
        let last = scope.spawn(|| client().call::<u32>("block", ()).wait());
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("blocking"));
        // All four threads of the pool are busy.
        let busy = client()
            .call::<()>("echo", &[7])
            .wait()
            .expect_err("no thread is free");
        assert_eq!(busy.remote().map(|error| error.code()), Some(-32002));
        drop(held);
        for blocked in blocked.into_iter().chain([last]) {
            assert_eq!(blocked.join().expect("no panic").expect("an answer"), 1);
        }
    });
}

/// Sends `body` in an HTTP request to a server at `url`, and returns the stream, from which the reply
/// can be read.
fn post(url: &str, body: &str) -> TcpStream {
    let address = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split('/').next());
    let mut stream = TcpStream::connect(address.expect("an address")).expect("a server");
    let head = "POST /rpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                connection: close\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("it is sent");
    stream
}

// OBS-02
#[test]
fn all_methods_of_a_service_are_called_in_order() {
    let (echo, told) = Echo::new();
    let (_running, url) = started(Config::new(), move || Life(echo.clone()));
    let next = || told.recv_timeout(LONG).expect("a call of a method");
    // Entries of a batch run at the same time, so there is only one.
    let mut stream = post(
        &url,
        r#"[{"jsonrpc":"2.0","method":"echo","params":[1],"id":1}]"#,
    );
    stream.read_to_end(&mut Vec::new()).expect("a reply");
    for method in ["opened", "batch of 1", "echo", "closed: EndOfInput"] {
        assert_eq!(next(), method);
    }

    // A cancel in a batch cancels a request of this batch before it reaches the service.
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#;
    let wait = r#"{"jsonrpc":"2.0","method":"wait","id":1}"#;
    let note = r#"{"jsonrpc":"2.0","method":"note"}"#;
    let mut stream = post(&url, &format!("[{wait},{note},{cancel}]"));
    stream.read_to_end(&mut Vec::new()).expect("a reply");
    for method in ["opened", "batch of 3", "note", "closed: EndOfInput"] {
        assert_eq!(next(), method);
    }
}

/// Knows `hold`, which holds the attributes of its exchange until `free` was called, and answers whether it
/// was. A notification returns when they are held.
#[derive(Clone)]
struct Holder {
    free: Sender<()>,
    freed: Arc<Mutex<Receiver<()>>>,
    hold: Sender<()>,
    held: Arc<Mutex<Receiver<()>>>,
}

impl Service for Holder {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        if request.method() == "free" {
            self.free.send(()).expect("the other handler waits");
            return Ok(true.into());
        }
        let _held = request.connection_attributes();
        self.hold.send(()).expect("the notification waits");
        let freed = self.freed.lock().expect("no panic");
        Ok(freed.recv_timeout(Duration::from_secs(2)).is_ok().into())
    }

    fn notification(&mut self, _: &Peer, _: Notification) {
        let held = self.held.lock().expect("no panic");
        held.recv_timeout(LONG).expect("the attributes are held");
    }
}

#[test]
fn a_handler_that_holds_the_attributes_stops_nothing_else() {
    let ((free, freed), (hold, held)) = (channel(), channel());
    let [freed, held] = [freed, held].map(|receiver| Arc::new(Mutex::new(receiver)));
    let holder = Holder {
        free,
        freed,
        hold,
        held,
    };
    let (_running, url) = started(Config::new(), move || holder.clone());
    let call = |method| format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":"{method}"}}"#);
    let note = r#"{"jsonrpc":"2.0","method":"note"}"#;
    // `free` begins when the notification was served, so while the attributes are held.
    let mut stream = post(&url, &format!("[{},{note},{}]", call("hold"), call("free")));
    let mut reply = String::new();
    stream.read_to_string(&mut reply).expect("a reply");
    assert_eq!(reply.matches(r#""result":true"#).count(), 2, "{reply}");
}

// OBS-02 INT-05
#[test]
fn metrics_count_connections_and_batches() {
    let (metrics, shown) = measured();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(metrics);
    let (_running, url) = started(Config::new(), move || router.clone());
    let one = r#"{"jsonrpc":"2.0","method":"n","id":1}"#;
    for body in [
        one.to_owned(),
        format!("[7,{one}]"),
        "[7,8,9]".to_owned(),
        "?".to_owned(),
    ] {
        post(&url, &body)
            .read_to_end(&mut Vec::new())
            .expect("a reply");
    }
    let lines = [
        "antiphon_server_connections_total 4\n",
        "antiphon_server_connections_open 0\n",
        "antiphon_server_batch_size_sum{rpc_system_name=\"jsonrpc\"} 5\n",
        "antiphon_server_batch_size_count{rpc_system_name=\"jsonrpc\"} 2\n",
    ];
    // The ends of exchanges are counted after their replies.
    let until = Instant::now() + LONG;
    while !lines.iter().all(|line| shown.render().contains(line)) {
        assert!(Instant::now() < until, "{}", shown.render());
        thread::yield_now();
    }
}

#[test]
fn a_full_pool_loses_no_end_of_an_exchange_that_has_begun() {
    let (echo, told) = Echo::new();
    let go_on = Arc::clone(&echo.go_on);
    let held = go_on.lock().expect("no panic");
    let mut options = ConnectionConfig::from(Config::new());
    options.pool = Pool::new(1, 0);
    let (running, url) = started(options, move || Life(echo.clone()));
    let block = r#"{"jsonrpc":"2.0","method":"block","id":1}"#;
    let begun = post(&url, block);
    for method in ["opened", "block", "blocking"] {
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok(method));
    }
    // All of this one is refused, so no method is called.
    post(&url, block)
        .read_to_end(&mut Vec::new())
        .expect("a reply");
    // The first one ends while its handler still occupies the pool.
    assert!(!running.shutdown(Duration::ZERO));
    drop((begun, held));
    let end = told.recv_timeout(LONG).expect("the end");
    assert!(end.starts_with("closed: "), "{end}");
    assert!(told.try_recv().is_err());
}

// USE-32
#[test]
fn a_notification_for_which_there_was_no_thread_was_answered_with_204() {
    let (echo, told) = Echo::new();
    let go_on = Arc::clone(&echo.go_on);
    let held = go_on.lock().expect("no panic");
    let mut options = ConnectionConfig::from(Config::new());
    options.pool = Pool::new(1, 0);
    let (_running, url) = started(options, move || Life(echo.clone()));
    let reply = |body: &str| {
        let mut reply = String::new();
        let mut stream = post(&url, body);
        stream.read_to_string(&mut reply).expect("a reply");
        reply
    };
    let begun = post(&url, r#"{"jsonrpc":"2.0","method":"block","id":1}"#);
    for method in ["opened", "block", "blocking"] {
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok(method));
    }
    let log = r#"{"jsonrpc":"2.0","method":"log"}"#;
    for body in [log.to_string(), format!("[{log},{log}]")] {
        let reply = reply(&body);
        assert!(reply.starts_with("HTTP/1.1 503 "), "{reply}");
        assert!(reply.ends_with("\r\n\r\ntoo much work waits\n"), "{reply}");
    }
    // A batch with a request has its answer.
    let call = r#"{"jsonrpc":"2.0","method":"echo","id":1}"#;
    let busy = reply(&format!("[{log},{call}]"));
    assert!(busy.starts_with("HTTP/1.1 200 "), "{busy}");
    assert!(busy.contains("-32002"), "{busy}");
    drop((held, begun));
    // Once there is a thread, it is taken.
    let until = Instant::now() + LONG;
    while !reply(log).starts_with("HTTP/1.1 204 ") {
        assert!(Instant::now() < until);
        thread::yield_now();
    }
}

// CLI-06 CAN-13
#[test]
fn a_call_that_times_out_is_cancelled_at_the_server() {
    let (echo, told) = Echo::new();
    // A client that has ended its stream may still read, so the server goes on with its request for
    // this long.
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(Duration::from_millis(50));
    let (_running, url) = served(config, echo);
    let client = connect(&url, Config::new(), ()).expect("a client");
    let short = Some(Duration::from_millis(100));
    let late = client
        .call::<()>("wait", ())
        .timeout(short)
        .wait()
        .expect_err("nobody answers");
    assert!(matches!(late, CallError::TimedOut));
    assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("waiting"));
    assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("cancelled true"));
}

// CON-09
#[test]
fn a_server_ends_in_good_order_or_at_once() {
    let (echo, told) = Echo::new();
    let go_on = Arc::clone(&echo.go_on);
    let held = go_on.lock().expect("no panic");
    let (running, url) = served(Config::new(), echo);
    let client = connect(&url, Config::new(), ()).expect("a client");
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.call::<u32>("block", ()).wait());
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("blocking"));
        let ending = scope.spawn(|| running.shutdown(LONG));
        drop(held);
        assert_eq!(calling.join().expect("no panic").expect("an answer"), 1);
        assert!(ending.join().expect("no panic"));
    });
    let refused = http_error(
        client
            .call::<()>("echo", ())
            .wait()
            .expect_err("nobody listens"),
    );
    assert!(matches!(refused, HttpError::Connect(_)), "{refused:?}");
    assert!(refused.is_unsent());

    let (echo, told) = Echo::new();
    let (running, url) = served(Config::new(), echo);
    let client = connect(&url, Config::new(), ()).expect("a client");
    thread::scope(|scope| {
        let calling = scope.spawn(|| client.call::<u32>("wait", ()).wait());
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("waiting"));
        running.stop();
        let lost = http_error(
            calling
                .join()
                .expect("no panic")
                .expect_err("it is stopped"),
        );
        assert!(matches!(lost, HttpError::Lost(_)), "{lost:?}");
        assert_eq!(told.recv_timeout(LONG).as_deref(), Ok("cancelled true"));
    });
}

/// Answers requests with these texts, one after another over all connections, and counts the
/// connections.
fn scripted(replies: &'static [&'static str]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        let mut replies = replies.iter();
        while let Ok((mut stream, _)) = listener.accept() {
            counted.fetch_add(1, Ordering::SeqCst);
            while read_request(&mut stream) {
                let Some(reply) = replies.next() else { return };
                if stream.write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (url, count)
}

/// Reads a request to the `}` that ends its body. False if the stream ends before it.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"}") {
        match stream.read(&mut byte) {
            Ok(1..) => read.push(byte[0]),
            _ => return false,
        }
    }
    true
}

// HTP-05 HTP-06 HTP-07 ERR-13
#[test]
fn what_came_back_decides_how_a_call_ends() {
    let (url, count) = scripted(&[
        "HTTP/1.1 404 X\r\ncontent-length: 66\r\n\r\n\
         {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32601,\"message\":\"?????\"},\"id\":1}",
        "HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\nbusy",
        "HTTP/1.1 204 X\r\n\r\n",
        "HTTP/1.1 307 X\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 X\r\ncontent-length: 37\r\n\r\n{\"jsonrpc\":\"2.0\",\"result\":4,\"id\":4}  ",
        "HTTP/1.1 302 X\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 308 X\r\nlocation: http://evil.invalid/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 X\r\ncontent-length: 2000\r\n\r\n",
    ]);
    let mut config = Config::new();
    config.limits.max_message_bytes = 1000;
    let client = connect(&url, config, ()).expect("a client");
    let call = || client.call::<u32>("m", ()).wait();
    let refused = call().expect_err("an error");
    assert_eq!(
        refused.remote().map(|error| error.code()),
        Some(-32601),
        "{refused:?}"
    );
    assert_eq!(
        http_error(call().expect_err("a status")).status(),
        Some(503)
    );
    let missing = call().expect_err("no reply");
    assert!(matches!(missing, CallError::Missing), "{missing:?}");
    assert_eq!(call().expect("it is redirected"), 4);
    for status in [302, 308] {
        assert_eq!(
            http_error(call().expect_err("a redirect")).status(),
            Some(status)
        );
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
    let large = http_error(call().expect_err("too large"));
    assert!(
        matches!(
            large,
            HttpError::Reply(ReplyError::TooLarge { max_bytes: 1000 }, _)
        ),
        "{large:?}"
    );
    assert_eq!(large.status(), Some(200));
}

// HTP-06 SEC-10
#[test]
fn a_reply_of_unknown_length_is_cut_off_at_the_limit() {
    let reply = |bytes: usize| {
        let answer = r#"{"jsonrpc":"2.0","result":4,"id":1}"#;
        let spaces = " ".repeat(bytes - answer.len());
        let head = "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n";
        format!("{head}{bytes:x}\r\n{answer}{spaces}\r\n0\r\n\r\n")
    };
    let mut config = Config::new();
    config.limits.max_message_bytes = 1000;
    for (bytes, is_taken) in [(1000, true), (1001, false)] {
        let reply: &'static str = Box::leak(reply(bytes).into_boxed_str());
        let (url, _) = scripted(Box::leak(Box::new([reply])));
        let called = connect(&url, config, ())
            .expect("a client")
            .call::<u32>("m", ())
            .wait();
        match called {
            Ok(four) => assert!(is_taken && four == 4),
            Err(CallError::Http(HttpError::Reply(ReplyError::TooLarge { .. }, _))) => {
                assert!(!is_taken);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

// CLI-06
#[test]
fn everything_that_waits_has_a_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let mut options = ClientConfig::from(Config::new());
    options.max_http_connections = 1;
    let client = connect(&url, options, ()).expect("a client");
    let start = Instant::now();
    thread::scope(|scope| {
        // One is not answered, the others wait for its connection.
        let calls: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    client
                        .call::<()>("m", ())
                        .timeout(Duration::from_millis(200))
                        .wait()
                })
            })
            .collect();
        for call in calls {
            let late = call.join().expect("no panic").expect_err("nobody answers");
            match late {
                CallError::TimedOut => {}
                CallError::Http(waiting) if waiting.is_unsent() => {}
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(start.elapsed() >= Duration::from_millis(200));
}

/// Any other HTTP client, as a program would plug it in.
struct Foreign;

impl HttpSend for Foreign {
    fn send(
        &self,
        request: &HttpRequest,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse, HttpError> {
        assert!(timeout.is_some_and(|timeout| timeout <= Duration::from_secs(30)));
        assert_eq!(request.url.to_string(), "https://test/rpc");
        Ok(HttpResponse::new(
            200,
            &br#"{"jsonrpc":"2.0","result":1,"id":1}"#[..],
        ))
    }
}

/// Records what is sent, and answers nothing.
#[derive(Default)]
struct Recorder(Mutex<Vec<Vec<u8>>>);

impl HttpSend for Recorder {
    fn send(&self, request: &HttpRequest, _: Option<Duration>) -> Result<HttpResponse, HttpError> {
        self.0.lock().unwrap().push(request.body.to_vec());
        Ok(HttpResponse::new(204, ""))
    }
}

// HTP-05 TRN-08 D-34 TST-19
#[test]
fn d_34_any_client_can_be_plugged_in_and_is_not_closed() {
    let client = with_send("https://test/rpc", Config::new(), Foreign).expect("a client");
    assert_eq!(client.call::<u32>("m", ()).wait().expect("an answer"), 1);
    let sender = Arc::new(Recorder::default());
    let client = with_send("http://test/", Config::new(), Arc::clone(&sender)).expect("a client");
    client.notify("n", ()).wait().expect("it is accepted");
    client.close();
    assert!(client.notify("n", ()).wait().is_err() && client.is_closed());
    let sent = sender.0.lock().unwrap().clone();
    assert_eq!(sent, [br#"{"jsonrpc":"2.0","method":"n"}"#]);
    assert!(matches!(
        connect("https://test/", Config::new(), ()),
        Err(ConnectError::Target(_))
    ));
    let mut options = ClientConfig::from(Config::new());
    options.headers.push(("bad name".into(), "x".into()));
    let refused = connect("http://test/", options, ());
    assert!(matches!(
        refused,
        Err(ConnectError::Http(HttpError::Header(_)))
    ));
}
