//! An HTTP client against servers that misbehave.
#![cfg(feature = "http")]

use std::future::ready;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Echo, Memory, Raw};
use antiphon::{Config, ErrorProfile, OwnedOutcome, Retry};
use antiphon_net::{Connecting, Link, NetRuntime, SharedRuntime, connect_on, duplex};
use antiphon_tokio::http::{
    HttpError, HttpRequest, HttpResponse, HttpSend, HttpSending, ReplyError, endpoint, with_send,
};
use antiphon_tokio::{
    CallError, Client, ClientConfig, ConnectError, Target, TcpServer, connect, current,
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};

#[path = "../../../shell/src/tests/http_mock.rs"]
pub(crate) mod http_mock;
use http_mock::HttpMock;

pub(crate) const URL: &str = "http://test/rpc";

impl HttpSend for HttpMock {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        Box::pin(ready(self.exchange(request)))
    }
}

/// A connector, and the channel that gives the server's end of every connection it makes.
fn connector() -> (
    impl Fn() -> Connecting + Send + Sync,
    UnboundedReceiver<Link>,
) {
    let (made, accepted) = unbounded_channel();
    let connect = move || -> Connecting {
        let (near, far) = duplex(64 * 1024);
        let given: Result<(), _> = UnboundedSender::send(&made, Link::new(far));
        let refused = io::ErrorKind::ConnectionRefused;
        let link = given.map(|()| Link::new(near)).map_err(|_| refused.into());
        Box::pin(std::future::ready(link))
    };
    (connect, accepted)
}

/// A client, and the raw ends of its connections.
pub(crate) async fn raw_client(
    options: impl Into<ClientConfig>,
) -> (Client, UnboundedReceiver<Link>) {
    let (dial, accepted) = connector();
    let client = connect(Target::http(URL, dial), options, ()).await;
    (client.expect("a client"), accepted)
}

/// The server's end of the next connection.
pub(crate) async fn accept(accepted: &mut UnboundedReceiver<Link>) -> Raw {
    Raw::new(accepted.recv().await.expect("a connection").io)
}

pub(crate) fn response(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

/// An answer whose result is its id.
pub(crate) fn result(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{id},"id":{id}}}"#)
}

/// The error of HTTP that a call ended with.
pub(crate) fn http_error(error: CallError) -> HttpError {
    match error {
        CallError::Http(error) => error,
        other => panic!("{other:?}"),
    }
}

// HTP-05 SEC-02
#[tokio::test(start_paused = true)]
async fn a_call_is_a_post_of_json_with_the_headers_asked_for() {
    let mut options = ClientConfig::from(Config::new());
    options.headers.push(("X-Key".into(), "one".into()));
    options.headers.push(("X-Key".into(), "two".into()));
    options.headers.push(("Accept".into(), "*/*".into()));
    let (client, mut accepted) = raw_client(options).await;
    let calling = tokio::spawn(async move { client.call::<u32>("add", &(1, 2)).await });
    let mut server = accept(&mut accepted).await;
    let request = server.message().await.expect("a request");
    let body = r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#;
    assert!(
        request.head.starts_with("POST /rpc HTTP/1.1\r\n"),
        "{}",
        request.head
    );
    assert_eq!(request.body, body);
    for (name, value) in [
        ("host", "test"),
        ("content-type", "application/json"),
        ("accept", "*/*"),
        ("content-length", &*body.len().to_string()),
    ] {
        assert_eq!(request.header(name), Some(value), "{}", request.head);
    }
    let keys = request
        .head
        .lines()
        .filter(|line| line.starts_with("x-key"));
    assert_eq!(keys.collect::<Vec<_>>(), ["x-key: one", "x-key: two"]);
    server.send(response(200, "", &result(1))).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    for name in ["bad name", "x\r\ny", ""] {
        let mut options = ClientConfig::from(Config::new());
        options.headers.push((name.into(), "x".into()));
        let refused = connect(Target::http(URL, connector().0), options, ()).await;
        let Err(ConnectError::Http(HttpError::Header(_))) = refused else {
            panic!("{name:?}: {refused:?}");
        };
    }
}

// HTP-03 HTP-06 HTP-07 HTP-08 ERR-13 TST-01 EXA-10
#[tokio::test(start_paused = true)]
async fn what_came_back_decides_how_a_call_ends() {
    let mock = Arc::new(HttpMock::new());
    let client = with_send(URL, Config::new(), Arc::clone(&mock)).unwrap();
    assert!(mock.is_connected());

    mock.reply(200, &result(1));
    assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 1);
    // The ids count on. A reply without an answer makes the call end as `Missing`.
    mock.no_reply();
    let missing = client.call::<u32>("a", ()).await.unwrap_err();
    assert!(matches!(missing, CallError::Missing));
    mock.reply(
        404,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"?"},"id":3}"#,
    );
    let refused = client.call::<u32>("a", ()).await.unwrap_err();
    assert_eq!(refused.remote().map(|error| error.code()), Some(-32601));
    mock.reply(503, "busy");
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert_eq!(failed.status(), Some(503));
    assert_eq!(
        failed.to_string(),
        "the server answered with status 503: busy"
    );
    mock.reply(200, "<html>");
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(
        failed,
        HttpError::Reply(ReplyError::NoAnswer(_), _)
    ));
    assert_eq!(failed.status(), Some(200));
    mock.reply(200, &result(6));
    let decode = client.call::<String>("a", ()).await.unwrap_err();
    assert!(matches!(decode, CallError::Decode(_)));

    client.notify("n", ()).await.unwrap();
    mock.reply(500, "");
    assert_eq!(
        http_error(client.notify("n", ()).await.unwrap_err()).status(),
        Some(500)
    );

    mock.set_connected(false);
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(failed, HttpError::Connect(_)) && failed.is_unsent());

    let sent = mock.sent_bodies();
    assert_eq!(sent.len(), 8);
    assert_eq!(sent[5], r#"{"jsonrpc":"2.0","method":"a","id":6}"#);
    assert_eq!(sent[6], r#"{"jsonrpc":"2.0","method":"n"}"#);
    assert_eq!(mock.sent()[0].content_type, "application/json");
}

// CLI-27
#[tokio::test(start_paused = true)]
async fn a_call_is_sent_again_as_the_client_was_told() {
    let mock = Arc::new(HttpMock::new());
    let mut options = ClientConfig::new(Config::new());
    let mut retry = Retry::new().when_busy(ErrorProfile::Antiphon);
    retry.jitter = 0.0;
    options.connection.retry = Some(retry);
    let client = with_send(URL, options, Arc::clone(&mock)).unwrap();
    let busy = |id| {
        let error = r#"{"code":-32002,"message":"Server busy"}"#;
        mock.reply(
            200,
            &format!(r#"{{"jsonrpc":"2.0","error":{error},"id":{id}}}"#),
        );
    };
    let lost = || {
        let error = HttpError::Lost(std::io::ErrorKind::ConnectionReset.into());
        mock.answer(Err(error));
    };
    let unsent = || {
        let error = HttpError::Connect(std::io::ErrorKind::ConnectionRefused.into());
        mock.answer(Err(error));
    };
    let mut began = Instant::now();
    let mut millis = || {
        let taken = began.elapsed().as_millis();
        began = Instant::now();
        taken
    };
    busy(1);
    unsent();
    mock.reply(200, &result(3));
    assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 3);
    // The delays double: 100 and 200 ms.
    assert_eq!(millis(), 300);
    let sent = mock.sent_bodies();
    assert_eq!(sent[2], r#"{"jsonrpc":"2.0","method":"a","id":3}"#);
    // A call whose connection was lost is sent again only if it is idempotent.
    lost();
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(failed, HttpError::Lost(_)));
    lost();
    mock.reply(200, &result(6));
    assert_eq!(client.call::<u32>("a", ()).idempotent().await.unwrap(), 6);
    assert_eq!(millis(), 100);
    // If it cannot be sent again, the server may still have read it, so it does not end as unsent.
    lost();
    (0..3).for_each(|_| unsent());
    let failed = http_error(client.call::<u32>("a", ()).idempotent().await.unwrap_err());
    assert!(matches!(failed, HttpError::Lost(_)), "{failed:?}");
    assert_eq!(millis(), 700);
    // A call is sent again three times at most, and never after its deadline.
    mock.set_connected(false);
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(failed, HttpError::Connect(_)));
    assert_eq!(millis(), 700);
    let brief = client
        .call::<u32>("a", ())
        .timeout(Duration::from_millis(250));
    assert!(matches!(
        brief.await,
        Err(CallError::Http(HttpError::Connect(_)))
    ));
    assert_eq!(millis(), 100);
    client.close();
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(failed, HttpError::Closed));
    assert_eq!(millis(), 0);
}

// CLI-08 CLI-18 CLI-24
#[tokio::test(start_paused = true)]
async fn a_batch_is_one_request_and_its_handles_stay_good() {
    let mock = Arc::new(HttpMock::new());
    let client = with_send(URL, Config::new(), Arc::clone(&mock)).unwrap();
    let two = result(2);
    mock.reply(
        200,
        &format!(r#"[{{"jsonrpc":"2.0","error":{{"code":7,"message":"x"}},"id":3}},{two}]"#),
    );
    let ((missing, two, error), mut outcomes) = client
        .batch(|batch| {
            batch.notify("n", ())?;
            let missing = batch.call::<u32>("a", ())?;
            Ok((
                missing,
                batch.call::<u32>("b", ())?,
                batch.call::<u32>("c", ())?,
            ))
        })
        .await
        .unwrap();
    assert_eq!(outcomes.fetch(two).unwrap(), 2);
    assert!(matches!(
        outcomes.take(missing.call()),
        Some(OwnedOutcome::Missing)
    ));
    assert!(matches!(
        outcomes.take(error.call()),
        Some(OwnedOutcome::Err(_))
    ));
    assert_eq!(mock.sent().len(), 1);
    mock.reply(200, &result(4));
    assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 4);
}

// HTP-10 TRN-08 D-34
#[tokio::test(start_paused = true)]
async fn a_closed_client_sends_nothing_and_closes_nothing_that_was_lent() {
    let mock = Arc::new(HttpMock::new());
    let client = with_send(URL, Config::new(), Arc::clone(&mock)).unwrap();
    let other = with_send(URL, Config::new(), Arc::clone(&mock)).unwrap();
    client.close();
    assert!(client.is_closed() && client.clone().is_closed());
    let batch = client.batch(|batch| batch.notify("a", ())).await;
    for error in [
        client.call::<()>("a", ()).await.unwrap_err(),
        client.notify("a", ()).await.unwrap_err(),
        batch.unwrap_err(),
    ] {
        assert!(error.is_closed(), "{error}");
        assert!(matches!(http_error(error), HttpError::Closed));
    }
    assert!(mock.sent().is_empty() && mock.is_connected());
    mock.reply(200, &result(1));
    assert_eq!(other.call::<u32>("a", ()).await.unwrap(), 1);

    // The client's own connections end with it.
    let (client, mut accepted) = raw_client(Config::new()).await;
    let calling = client.clone();
    let calling = tokio::spawn(async move { calling.call::<u32>("a", ()).await });
    let mut server = accept(&mut accepted).await;
    server.message().await.unwrap();
    client.close();
    server.send(response(200, "", &result(1))).await.unwrap();
    assert_eq!(calling.await.unwrap().unwrap(), 1);
    server.end().await;
}

/// Any other HTTP client, as a program would plug it in.
struct Foreign(AtomicUsize);

impl HttpSend for Foreign {
    fn send<'a>(&'a self, request: &'a HttpRequest) -> HttpSending<'a> {
        Box::pin(async move {
            // A client has calls like: post(url).header(…).body(…).send().await
            let (url, body) = (request.url.to_string(), &**request.body);
            assert_eq!((&*url, request.headers.len()), ("http://test/rpc", 1));
            self.0.fetch_add(body.len(), Ordering::SeqCst);
            sleep(Duration::from_secs(20)).await;
            Ok(HttpResponse::new(200, result(1)))
        })
    }
}

// HTP-05 CLI-06
#[tokio::test(start_paused = true)]
async fn any_client_can_be_plugged_in_and_has_to_keep_the_deadline() {
    let foreign = Arc::new(Foreign(AtomicUsize::new(0)));
    let mut options = ClientConfig::from(Config::new());
    options.headers.push(("x".into(), "y".into()));
    let client = with_send(URL, options, Arc::clone(&foreign)).unwrap();
    assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 1);
    let start = Instant::now();
    let short = Some(Duration::from_secs(5));
    let late = client
        .call::<u32>("a", ())
        .timeout(short)
        .await
        .unwrap_err();
    assert!(matches!(late, CallError::TimedOut));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    let batch = client
        .batch(|batch| batch.call::<u32>("a", ()))
        .timeout(short)
        .await;
    let late = batch.map(drop).unwrap_err();
    assert!(matches!(late, CallError::TimedOut) && !late.is_closed());
    // Three calls were sent, the last in a batch of one.
    assert_eq!(
        foreign.0.load(Ordering::SeqCst),
        3 * r#"{"jsonrpc":"2.0","method":"a","id":1}"#.len() + "[]".len()
    );
}

// CLI-06
#[tokio::test(start_paused = true)]
async fn everything_that_waits_has_a_deadline() {
    // Nobody answers an attempt to connect.
    let dial = || -> Connecting { Box::pin(std::future::pending()) };
    let client = connect(Target::http(URL, dial), Config::new(), ())
        .await
        .unwrap();
    let start = Instant::now();
    let failed = http_error(client.call::<()>("a", ()).await.unwrap_err());
    let HttpError::Connect(error) = failed else {
        panic!("{failed:?}")
    };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(start.elapsed(), Duration::from_secs(10));

    // The server never answers, or sends a head and then one byte a second.
    for head in ["", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"] {
        let (client, mut accepted) = raw_client(Config::new()).await;
        let start = Instant::now();
        let serving = async {
            let mut server = accept(&mut accepted).await;
            server.message().await.unwrap();
            server.send(head).await.unwrap();
            while server
                .send(if head.is_empty() { "" } else { " " })
                .await
                .is_ok()
                && start.elapsed() < Duration::from_secs(60)
            {
                sleep(Duration::from_secs(1)).await;
            }
            server.end().await;
        };
        let (called, ()) = tokio::join!(client.call::<()>("a", ()), serving);
        assert!(matches!(called, Err(CallError::TimedOut)));
    }
}

// HTP-06
#[tokio::test(start_paused = true)]
async fn a_reply_over_the_limit_is_not_read() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 1000;
    for answer in [
        // Declared, and none of it sent.
        "HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n".to_string(),
        // A chunk of 0x3e9 = 1001 bytes.
        format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n{}",
            " ".repeat(1001)
        ),
        format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(1001)),
    ] {
        let (client, mut accepted) = raw_client(config).await;
        let serving = async {
            let mut server = accept(&mut accepted).await;
            server.message().await.unwrap();
            server.send(&answer).await.unwrap();
            server
        };
        let (called, mut server) = tokio::join!(client.call::<()>("a", ()), serving);
        let failed = http_error(called.unwrap_err());
        let too_large = matches!(
            failed,
            HttpError::Reply(ReplyError::TooLarge { max_bytes: 1000 }, _)
        );
        assert!(too_large, "{failed:?}");
        // The rest of it is not read either.
        server.end().await;
    }
}

// HTP-05
#[tokio::test(start_paused = true)]
async fn a_post_follows_redirects_within_its_origin_only() {
    let (client, mut accepted) = raw_client(Config::new()).await;
    let serving = async {
        let mut server = accept(&mut accepted).await;
        let mut asked = Vec::new();
        for location in ["/a", "http://test:80/b?c", "//test/d"] {
            let request = server.message().await.unwrap();
            assert!(request.body.contains(r#""method":"add""#), "{request:?}");
            asked.push(request.head.lines().next().unwrap().to_string());
            let headers = format!("location: {location}\r\n");
            server.send(response(307, &headers, "")).await.unwrap();
        }
        let request = server.message().await.unwrap();
        asked.push(request.head.lines().next().unwrap().to_string());
        server.send(response(200, "", &result(1))).await.unwrap();
        let foreign = server.message().await.unwrap();
        assert!(foreign.head.starts_with("POST /rpc "));
        server
            .send(response(308, "location: http://evil/rpc\r\n", ""))
            .await
            .unwrap();
        // At most five redirects are followed, so this one is asked for six times.
        for _ in 0..=5 {
            server.message().await.unwrap();
            server
                .send(response(308, "location: /again\r\n", ""))
                .await
                .unwrap();
        }
        asked
    };
    let calling = async {
        let sum = client.call::<u32>("add", &(1, 2)).await.unwrap();
        let foreign = http_error(client.call::<u32>("add", ()).await.unwrap_err());
        let again = http_error(client.call::<u32>("add", ()).await.unwrap_err());
        (sum, foreign, again)
    };
    let (asked, (sum, foreign, again)) = tokio::join!(serving, calling);
    assert_eq!(sum, 1);
    let lines = ["/rpc", "/a", "/b?c", "/d"].map(|path| format!("POST {path} HTTP/1.1"));
    assert_eq!(asked, lines);
    for failed in [foreign, again] {
        assert!(matches!(
            failed,
            HttpError::Reply(ReplyError::Redirect { status: 308, .. }, _)
        ));
    }
}

// CON-08
#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_until_it_has_been_idle_for_too_long() {
    let (client, mut accepted) = raw_client(Config::new()).await;
    let serving = async {
        let mut server = accept(&mut accepted).await;
        for id in 1..=3 {
            server.message().await.unwrap();
            server.send(response(200, "", &result(id))).await.unwrap();
        }
        // An idle connection is closed after 4 s.
        let start = Instant::now();
        server.end().await;
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        let mut server = accept(&mut accepted).await;
        server.message().await.unwrap();
        server.send(response(200, "", &result(4))).await.unwrap();
        server.end().await;
    };
    let calling = async {
        for id in 1..=3 {
            assert_eq!(client.call::<u32>("a", ()).await.unwrap(), id);
            if id < 3 {
                sleep(Duration::from_secs(3)).await;
            }
        }
        sleep(Duration::from_secs(10)).await;
        assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 4);
    };
    tokio::join!(serving, calling);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sent_again_only_if_it_was_not_sent() {
    let (client, mut accepted) = raw_client(Config::new()).await;
    // The server closes between two calls: nothing was sent on the old connection.
    let serving = async {
        let mut server = accept(&mut accepted).await;
        server.message().await.unwrap();
        server.send(response(200, "", &result(1))).await.unwrap();
        drop(server);
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""id":2"#));
        server.send(response(200, "", &result(2))).await.unwrap();
        // It reads the third call and goes away without an answer.
        assert!(server.message().await.unwrap().body.contains(r#""id":3"#));
        drop(server);
        // It goes away in the middle of the fourth answer.
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""id":4"#));
        server
            .send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
            .await
            .unwrap();
        drop(server);
        assert!(accepted.try_recv().is_err());
    };
    let calling = async {
        assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 1);
        sleep(Duration::from_secs(1)).await;
        assert_eq!(client.call::<u32>("a", ()).await.unwrap(), 2);
        for _ in 0..2 {
            let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
            assert!(
                matches!(failed, HttpError::Lost(_)) && !failed.is_unsent(),
                "{failed:?}"
            );
        }
    };
    tokio::join!(serving, calling);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_frees_its_connection_for_the_next_in_line() {
    let mut options = ClientConfig::from(Config::new());
    options.max_http_connections = 1;
    let (dial, mut accepted) = connector();
    let client = connect(Target::http(URL, dial), options, ()).await.unwrap();
    let short = Some(Duration::from_secs(1));
    let first = client.call::<u32>("a", ()).timeout(short);
    // The other two wait in line. The first of them times out there.
    let second = client
        .call::<u32>("b", ())
        .timeout(Duration::from_millis(500));
    let third = client.call::<u32>("c", ());
    let serving = async {
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""a""#));
        server.end().await;
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""c""#));
        assert!(accepted.try_recv().is_err(), "one connection at a time");
        server.send(response(200, "", &result(3))).await.unwrap();
        server.end().await;
    };
    let (first, second, third, ()) = tokio::join!(first, second, third, serving);
    assert!(matches!(first, Err(CallError::TimedOut)));
    let second = http_error(second.unwrap_err());
    assert!(second.is_unsent(), "{second:?}");
    let expected = "the request was not sent: there was no connection in time";
    assert_eq!(second.to_string(), expected);
    assert_eq!(third.unwrap(), 3);
}

/// A runtime whose tasks the test can abort, or one that runs no tasks.
struct Holding {
    inner: SharedRuntime,
    /// The tasks; `None` if none is run.
    tasks: Option<Mutex<Vec<tokio::task::AbortHandle>>>,
}

impl antiphon_net::Runtime for Holding {
    fn now(&self) -> antiphon::Instant {
        self.inner.now()
    }

    fn spawn(&self, task: antiphon_net::Task) {
        if let Some(tasks) = &self.tasks {
            tasks
                .lock()
                .unwrap()
                .push(tokio::spawn(task).abort_handle());
        }
    }

    fn timer(&self) -> Box<dyn antiphon_net::Timer> {
        self.inner.timer()
    }
}

// CLI-06
#[tokio::test(start_paused = true)]
async fn a_task_that_is_dropped_leaves_no_call_waiting() {
    let held = Arc::new(Holding {
        inner: current().into(),
        tasks: Some(Mutex::default()),
    });
    let mut options = ClientConfig::from(Config::new());
    options.max_http_connections = 1;
    let (dial, mut accepted) = connector();
    let (target, runtime) = (Target::http(URL, dial), Arc::clone(&held));
    let runtime = NetRuntime::from(runtime as SharedRuntime);
    let client = connect_on(target, options.clone(), Arc::new(()), &runtime)
        .await
        .unwrap();
    // The server has read the first call; the second waits in line, and goes over a new connection.
    let serving = async {
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""a""#));
        sleep(Duration::from_secs(1)).await;
        let tasks = held.tasks.as_ref().unwrap();
        tasks.lock().unwrap().pop().unwrap().abort();
        server.end().await;
        let mut server = accept(&mut accepted).await;
        assert!(server.message().await.unwrap().body.contains(r#""b""#));
        server.send(response(200, "", &result(2))).await.unwrap();
    };
    let first = client.call::<u32>("a", ());
    let second = client.call::<u32>("b", ());
    let (first, second, ()) = tokio::join!(first, second, serving);
    let failed = http_error(first.unwrap_err());
    assert!(matches!(failed, HttpError::Lost(_)), "{failed:?}");
    assert_eq!(second.unwrap(), 2);

    // If no task runs, nothing is sent, and the client gives up after two attempts.
    let nothing = Arc::new(Holding {
        inner: current().into(),
        tasks: None,
    });
    let (dial, mut accepted) = connector();
    let (target, nothing) = (
        Target::http(URL, dial),
        NetRuntime::from(nothing as SharedRuntime),
    );
    let client = connect_on(target, options, Arc::new(()), &nothing)
        .await
        .unwrap();
    let failed = http_error(client.call::<u32>("a", ()).await.unwrap_err());
    assert!(matches!(failed, HttpError::Unsent(_)) && failed.is_unsent());
    let attempts = std::iter::from_fn(|| accepted.try_recv().ok()).count();
    assert_eq!(attempts, 2);
}

/// Counts the connections of a server.
struct Counted {
    memory: Memory,
    count: Arc<AtomicUsize>,
}

impl antiphon_net::Listen for Counted {
    fn poll_accept(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<io::Result<Link>> {
        let accepted = self.memory.poll_accept(cx);
        if accepted.is_ready() {
            self.count.fetch_add(1, Ordering::SeqCst);
        }
        accepted
    }
}

// HTP-08 CON-08
#[tokio::test(start_paused = true)]
async fn a_thousand_calls_at_once_go_over_64_connections() {
    let (dial, accepted) = connector();
    let count = Arc::new(AtomicUsize::new(0));
    let listener = Counted {
        memory: Memory(accepted),
        count: Arc::clone(&count),
    };
    let server = antiphon_net::Server::new(listener, current());
    let _running = server.start_protocol(endpoint(Config::new(), Echo::new().0));
    let client = connect(Target::http(URL, dial), Config::new(), ())
        .await
        .unwrap();
    let calls: Vec<_> = (0..1000_u32)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<(u32,)>("echo", &(n,)).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().0 as usize, n);
    }
    assert_eq!(count.load(Ordering::SeqCst), 64);
}

// HTP-01 HTP-05 CON-08
#[tokio::test]
async fn client_and_server_talk_over_real_sockets() {
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr();
    let running = server.start_http(Config::new(), Echo::new().0);
    let mut options = ClientConfig::new(Config::new());
    options.max_http_connections = 2;
    let client = connect(format!("http://{address}/x"), options, ())
        .await
        .unwrap();
    for n in 0..500_u32 {
        assert_eq!(client.call::<(u32,)>("echo", &(n,)).await.unwrap().0, n);
    }
    assert_eq!(running.connections(), 1);
    let calls: Vec<_> = (0..500_u32)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { client.call::<(u32,)>("echo", &(n,)).await })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap().unwrap().0 as usize, n);
    }
    assert!(running.connections() <= 2);
    // The connection's number, and the client's address.
    let text: (u32, String) = {
        let all: (u32, String, (), (), String, ()) = client.call("context", ()).await.unwrap();
        (all.0, all.4)
    };
    assert!(text.0 >= 1 && text.1 == "127.0.0.1", "{text:?}");
    let large: (String,) = client.call("echo", &("é".repeat(500_000),)).await.unwrap();
    assert_eq!(large.0.len(), 1_000_000);
    running.stop();
    let failed = client.call::<()>("echo", ()).await.unwrap_err();
    assert!(matches!(failed, CallError::Http(_)), "{failed:?}");
    let refused = connect("https://localhost/", Config::new(), ()).await;
    assert!(
        matches!(refused, Err(ConnectError::Target(_))),
        "{refused:?}"
    );
}
