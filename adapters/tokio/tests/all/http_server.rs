//! An HTTP server against clients that misbehave, in virtual time: the clock moves only when every
//! task waits.
#![cfg(feature = "http")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Echo, Raw, Served, call, post};
use antiphon::{Config, McpRevision, http::WebRules};
use antiphon_tokio::http::{Cors, HttpConfig, endpoint};
use antiphon_tokio::{Answer, ConnectionConfig, OwnedError, Peer, Service};
use hyper::body::Bytes;
use hyper::{Request, Version};
use tokio::time::{Instant, sleep, timeout};

fn options() -> HttpConfig {
    HttpConfig::from(Config::new())
}

fn serve(options: HttpConfig) -> Served {
    Served::new(endpoint(options, Echo::new().0))
}

/// How long it takes until the server ends the connection.
async fn cut_after(raw: &mut Raw) -> Duration {
    let start = Instant::now();
    timeout(Duration::from_secs(3600), raw.end())
        .await
        .expect("the connection ends");
    start.elapsed()
}

// HTP-01 HTP-02 HTP-03
#[tokio::test(start_paused = true)]
async fn a_post_is_answered_with_its_reply_or_with_no_content() {
    let (echo, mut told) = Echo::new();
    let served = Served::new(endpoint(options(), echo));
    let mut raw = served.connect(4096);
    let reply = raw
        .post(r#"{"jsonrpc":"2.0","method":"echo","params":["é",1.0],"id":"a"}"#)
        .await;
    assert_eq!(
        (reply.status, reply.header("content-type")),
        (200, Some("application/json"))
    );
    assert_eq!(
        reply.body,
        r#"{"jsonrpc":"2.0","result":["é",1.0],"id":"a"}"#
    );
    for (body, code) in [
        ("{", "-32700"),
        ("[]", "-32600"),
        (r#"{"a":1}"#, "-32600"),
        ("", "-32700"),
    ] {
        let reply = raw.post(body).await;
        assert_eq!(reply.status, 200, "{body}");
        assert!(reply.body.contains(code), "{body}: {}", reply.body);
    }
    let unknown = raw.post(&call("nobody", 1)).await;
    assert!(unknown.status == 200 && unknown.body.contains("-32601"));
    for body in [
        r#"{"jsonrpc":"2.0","method":"log"}"#,
        r#"[{"jsonrpc":"2.0","method":"log"},{"jsonrpc":"2.0","method":"log"}]"#,
    ] {
        let reply = raw.post(body).await;
        assert_eq!(
            (reply.status, reply.header("content-type"), &*reply.body),
            (204, None, "")
        );
        assert_eq!(told.recv().await.as_deref(), Some("log"));
    }
    let reply = raw
        .post(&format!(
            r#"[{},{{"jsonrpc":"2.0","method":"log"}},{},5]"#,
            call("echo", 1),
            call("panic", 2)
        ))
        .await;
    assert_eq!(
        reply.body,
        concat!(
            r#"[{"jsonrpc":"2.0","result":"nothing","id":1},"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":2},"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}]"#
        )
    );
    // All of it went over one connection.
    assert_eq!(served.running.connections(), 1);
}

/// Answers with the `x-a` and `x-b` headers and the target of the request, and keeps the peer and
/// the request of a `keep`.
#[derive(Default)]
struct Keeper(Mutex<Vec<(Peer, antiphon_tokio::Request)>>);

impl Service for Keeper {
    async fn request(
        &self,
        peer: &Peer,
        request: &antiphon_tokio::Request,
    ) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let own: Vec<_> = ["x-a", "x-b"]
            .into_iter()
            .filter_map(|name| peer.context().header(name))
            .collect();
        let target = peer.context().target.as_deref();
        reply.ok(&(own, target)).unwrap();
        if request.method() == "keep" {
            self.0.lock().unwrap().push((peer.clone(), request.clone()));
        }
        Ok(Answer::deferred())
    }
}

// HTP-08 SRV-33
#[tokio::test(start_paused = true)]
async fn an_exchange_knows_nothing_of_the_one_before_it() {
    let keeper = Arc::new(Keeper::default());
    let served = Served::new(endpoint(options(), Arc::clone(&keeper)));
    let mut raw = served.connect(4096);
    let asked = [
        ("/1", "x-a: 1\r\n", "forget", r#"[["1"],"/1"]"#),
        ("/2", "", "keep", r#"[[],"/2"]"#),
        ("/3", "x-b: 3\r\nx-a: 4\r\n", "keep", r#"[["4","3"],"/3"]"#),
        ("/4?q", "x-b: 5\r\n", "forget", r#"[["5"],"/4?q"]"#),
        ("/", "", "forget", r#"[[],"/"]"#),
    ];
    for (target, headers, method, wanted) in asked {
        let body = call(method, 1);
        let head = format!(
            "POST {target} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        raw.send(head + &body).await.unwrap();
        let reply = raw.reply().await.unwrap();
        assert_eq!(
            reply.body,
            format!(r#"{{"jsonrpc":"2.0","result":{wanted},"id":1}}"#)
        );
    }
    // What a handler has kept still shows its own exchange, which has ended.
    let kept = keeper.0.lock().unwrap();
    let targets = kept.iter().map(|(peer, request)| {
        assert!(peer.closed().is_some());
        assert!(peer.try_notify("late", ()).is_err());
        assert_eq!(request.method(), "keep");
        peer.context().target.as_deref()
    });
    assert_eq!(targets.collect::<Vec<_>>(), [Some("/2"), Some("/3")]);
}

// HTP-02
#[tokio::test(start_paused = true)]
async fn statuses_follow_the_rules() {
    let served = serve(options().with_rules(WebRules::mcp(McpRevision::V2025_11_25)));
    let reply = served
        .connect(4096)
        .post(r#"{"jsonrpc":"2.0","method":"log"}"#)
        .await;
    assert_eq!(reply.status, 202);
    let served =
        serve(HttpConfig::from(Config::bitcoin_legacy()).with_rules(WebRules::bitcoin_legacy()));
    let mut raw = served.connect(4096);
    for (body, status) in [
        (r#"{"method":"nobody","params":[],"id":1}"#, 404),
        (
            r#"{"jsonrpc":"2.0","method":"nobody","params":[],"id":1}"#,
            200,
        ),
        (r#"{"method":5,"params":[],"id":1}"#, 400),
        (r#"{"method":"panic","params":[],"id":1}"#, 500),
        (r#"{"method":"echo","params":[],"id":1}"#, 200),
    ] {
        assert_eq!(raw.post(body).await.status, status, "{body}");
    }
}

// HTP-04 SEC-08
#[tokio::test(start_paused = true)]
async fn what_is_no_message_is_refused_by_its_head() {
    let mut rules = WebRules::new();
    rules.paths.push("/rpc".into());
    rules.origins.push("https://app.example".into());
    rules.cors = Some(Cors::new());
    let served = serve(options().with_rules(rules));
    let body = call("echo", 1);
    let with = |headers: &str| post("/rpc", headers, &body);
    let typed = |content_type: &str| with("").replace("application/json", content_type);
    let mut raw = served.connect(4096);
    for (request, status, header) in [
        (with(""), 200, ("content-type", "application/json")),
        (post("/rpc?v=2", "", &body), 200, ("vary", "origin")),
        (
            "GET /rpc HTTP/1.1\r\nhost: x\r\n\r\n".into(),
            405,
            ("allow", "POST, OPTIONS"),
        ),
        (
            "HEAD /rpc HTTP/1.1\r\nhost: x\r\n\r\n".into(),
            405,
            ("allow", "POST, OPTIONS"),
        ),
        (
            with("").replace("POST", "PUT"),
            405,
            ("allow", "POST, OPTIONS"),
        ),
        (
            post("/other", "", &body),
            404,
            ("content-type", "text/plain; charset=utf-8"),
        ),
        (
            typed("text/plain"),
            415,
            ("content-type", "text/plain; charset=utf-8"),
        ),
        (
            typed("application/json; charset=latin1"),
            415,
            ("vary", "origin"),
        ),
        (typed("application/json-rpc"), 200, ("vary", "origin")),
        (
            with("content-type: text/plain\r\n"),
            400,
            ("connection", "close"),
        ),
        (
            with("origin: https://evil.example\r\n"),
            403,
            ("content-type", "text/plain; charset=utf-8"),
        ),
        (
            with("origin: https://app.example\r\norigin: https://app.example\r\n"),
            400,
            ("content-type", "text/plain; charset=utf-8"),
        ),
        (
            with("origin: https://app.example\r\n"),
            200,
            ("access-control-allow-origin", "https://app.example"),
        ),
        (
            "OPTIONS /rpc HTTP/1.1\r\nhost: x\r\norigin: https://app.example\r\n\
             access-control-request-method: POST\r\n\r\n"
                .into(),
            204,
            ("access-control-allow-headers", "content-type"),
        ),
    ] {
        raw.send(&request).await.unwrap();
        let reply = match request.starts_with("HEAD") {
            // The reply to HEAD may have the length of a body that does not come, so it gets a
            // connection of its own.
            true => {
                let mut other = served.connect(4096);
                other
                    .send(request.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n"))
                    .await
                    .unwrap();
                raw = served.connect(4096);
                other.reply().await
            }
            false => raw.reply().await,
        };
        let reply = reply.expect("a reply");
        assert_eq!(reply.status, status, "{request}");
        assert_eq!(
            reply.header(header.0),
            Some(header.1),
            "{request}\n{}",
            reply.head
        );
        if status == 400 {
            raw = served.connect(4096);
        }
    }
}

// HTP-04 SRV-15 SEC-10
#[tokio::test(start_paused = true)]
async fn a_body_over_the_limit_is_answered_and_cut_off() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 10_000;
    let served = serve(config.into());

    let at_limit = format!(
        "{}{}",
        call("echo", 1),
        " ".repeat(10_000 - call("echo", 1).len())
    );
    assert_eq!(served.connect(512).post(&at_limit).await.status, 200);

    // Declared: not a byte of the body is waited for.
    let mut raw = served.connect(512);
    raw.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10001\r\n\r\n")
        .await
        .unwrap();
    let reply = raw.reply().await.unwrap();
    assert_eq!(reply.status, 413);
    assert!(
        reply.body.contains("-32004") && reply.body.contains(r#""id":null"#),
        "{}",
        reply.body
    );
    assert_eq!(reply.header("connection"), Some("close"));
    raw.end().await;

    // A client that asks first is spared the body.
    let mut raw = served.connect(512);
    raw.send("POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 99999\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(raw.reply().await.unwrap().status, 413);

    // Not declared: the server stops reading above the limit, and still answers.
    let mut raw = served.connect(512);
    raw.send("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    for _ in 0..20 {
        if raw.send(&chunk).await.is_err() {
            break;
        }
    }
    let reply = raw.reply().await.expect("a reply");
    assert!(
        reply.status == 413 && reply.body.contains("-32004"),
        "{reply:?}"
    );
    raw.end().await;
}

// HTP-04 SEC-10
#[tokio::test(start_paused = true)]
async fn a_head_over_its_limits_is_answered_431() {
    let mut rules = WebRules::new();
    rules.max_header_bytes = 2000;
    rules.max_headers = 10;
    let served = serve(options().with_rules(rules));
    let body = call("echo", 1);
    let long = |bytes: usize| post("/", &format!("x-long: {}\r\n", "x".repeat(bytes)), &body);
    assert_eq!(served.connect(9999).post(&body).await.status, 200);
    for (request, status) in [
        (long(1500), 200),
        (long(3000), 431),
        // The server does not wait for the end of the head.
        (long(100_000).split_at(5000).0.into(), 431),
        // `host`, `content-type` and `content-length` count, too: ten headers, then eleven.
        (post("/", &"x-many: 1\r\n".repeat(7), &body), 200),
        (post("/", &"x-many: 1\r\n".repeat(8), &body), 431),
        ("nonsense\r\n\r\n".into(), 400),
        ("POST / HTTP/1.1\r\nbad header\r\n\r\n".into(), 400),
    ] {
        let mut raw = served.connect(9999);
        raw.send(&request).await.unwrap();
        let reply = raw.reply().await.unwrap();
        assert_eq!(reply.status, status, "{request}");
        if status != 200 {
            assert!(cut_after(&mut raw).await <= Duration::from_secs(1));
        }
    }
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_client_that_is_slow_is_cut_after_the_stated_time() {
    let served = serve(options());
    let second = Duration::from_secs(1);

    // Not a byte.
    assert_eq!(cut_after(&mut served.connect(512)).await, 10 * second);

    // A byte of the head a second.
    let mut raw = served.connect(512);
    let start = Instant::now();
    let request = post("/", &format!("x-long: {}\r\n", "x".repeat(200)), "");
    for byte in request.bytes() {
        sleep(second).await;
        if raw.send([byte]).await.is_err() {
            break;
        }
    }
    // The head began after 1 s and was cut off 10 s later. The byte after that, at 12 s, fails.
    assert_eq!(start.elapsed(), 12 * second);

    // A byte of the body a second.
    let mut raw = served.connect(512);
    raw.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        .await
        .unwrap();
    let start = Instant::now();
    let dripping = async {
        loop {
            sleep(second).await;
            if raw.send("x").await.is_err() {
                break;
            }
        }
        raw.reply().await
    };
    let reply = dripping.await.expect("a reply");
    assert_eq!(
        (reply.status, reply.header("connection")),
        (408, Some("close"))
    );
    // The body may take 30 s.
    assert!(start.elapsed() <= 32 * second, "{:?}", start.elapsed());

    // Idle after a request.
    let mut raw = served.connect(512);
    assert_eq!(raw.post(&call("echo", 1)).await.status, 200);
    sleep(59 * second).await;
    assert_eq!(raw.post(&call("echo", 1)).await.status, 200);
    assert_eq!(cut_after(&mut raw).await, 60 * second);

    // A request begun just before, and never finished.
    let mut raw = served.connect(512);
    raw.post(&call("echo", 1)).await;
    sleep(59 * second).await;
    raw.send("POST /").await.unwrap();
    assert_eq!(cut_after(&mut raw).await, 10 * second);
    assert_eq!(served.running.connections(), 0);
}

/// Waits for as many seconds as its parameter says, and answers with 10 000 bytes.
struct Slow;

impl Service for Slow {
    async fn request(
        &self,
        _: &Peer,
        request: &antiphon_tokio::Request,
    ) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let seconds: (u64,) = request.raw_params().unwrap().decode().unwrap();
        sleep(Duration::from_secs(seconds.0)).await;
        reply.ok(&"x".repeat(10_000)).unwrap();
        Ok(Answer::deferred())
    }
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_client_that_is_served_slowly_is_idle_no_longer_than_another() {
    let second = Duration::from_secs(1);
    // Times within and beyond the 10 s of a head and the 60 s of idling, and pipes that hold less
    // and more than an answer.
    for (seconds, pipe) in [(0, 512), (3, 100_000), (11, 100_000), (11, 512), (80, 512)] {
        let served = Served::new(endpoint(options(), Slow));
        let mut raw = served.connect(pipe);
        let ask = format!(r#"{{"jsonrpc":"2.0","method":"m","params":[{seconds}],"id":1}}"#);
        // The result, and 36 bytes around it.
        for _ in 0..2 {
            assert_eq!(raw.post(&ask).await.body.len(), 10_036);
        }
        assert_eq!(cut_after(&mut raw).await, 60 * second, "{seconds} {pipe}");
    }
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_client_that_stops_reading_is_dropped() {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(Duration::from_secs(20));
    let served = serve(config.into());
    let mut raw = served.connect(512);
    raw.send(post("/", "", &call("large", 1))).await.unwrap();
    let start = Instant::now();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(served.running.connections(), 1);
    while served.running.connections() > 0 {
        sleep(Duration::from_millis(100)).await;
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "it is not dropped"
        );
    }
    let took = start.elapsed();
    assert!(
        took >= Duration::from_secs(20) && took < Duration::from_secs(21),
        "{took:?}"
    );

    // One that reads slowly but steadily is served, though it takes longer.
    let mut raw = served.connect(40_000);
    raw.send(post("/", "", &call("large", 1))).await.unwrap();
    for _ in 0..4 {
        sleep(Duration::from_secs(15)).await;
        assert_eq!(served.running.connections(), 1);
        raw.io_read(40_000).await;
    }
    raw.end().await;
}

// CAN-13
#[tokio::test(start_paused = true)]
async fn a_client_that_is_gone_takes_its_handlers_with_it() {
    let (echo, mut told) = Echo::new();
    let served = Served::new(endpoint(options(), echo));
    let mut raw = served.connect(512);
    raw.send(post("/", "", &call("wait", 1))).await.unwrap();
    assert_eq!(told.recv().await.as_deref(), Some("waiting"));
    drop(raw);
    assert_eq!(told.recv().await.as_deref(), Some("given up"));
    let why = timeout(Duration::from_secs(60), told.recv()).await;
    assert_eq!(
        why.expect("it is told").as_deref(),
        Some("Local(TransportFailed)")
    );
    // A handler may take longer than any deadline of the connection, if the client waits.
    let mut raw = served.connect(512);
    raw.send(post("/", "", &call("wait", 1))).await.unwrap();
    assert_eq!(told.recv().await.as_deref(), Some("waiting"));
    sleep(Duration::from_secs(1000)).await;
    assert!(told.try_recv().is_err());
    assert_eq!(served.running.connections(), 1);
}

// HTP-08
#[tokio::test(start_paused = true)]
async fn a_handler_cannot_call_the_client() {
    let served = serve(options());
    let reply = served.connect(512).post(&call("push", 1)).await;
    assert!(reply.body.contains("NoPush"), "{}", reply.body);
    assert_eq!(reply.body.matches("NoPush").count(), 2, "{}", reply.body);
}

// SRV-33 SEC-02
#[tokio::test(start_paused = true)]
async fn handlers_see_what_the_transport_knows() {
    let served = serve(options());
    let mut raw = served.connect(512);
    raw.send(post(
        "/a?b=c",
        "x-key: s3cret\r\ncookie: a=b; session=7\r\n",
        &call("context", 1),
    ))
    .await
    .unwrap();
    let reply = raw.reply().await.unwrap();
    // The number of the connection comes first. It counts all that the program has made.
    let wanted = r#","/a?b=c","s3cret","7",null,null],"id":1}"#;
    assert!(reply.body.contains(wanted), "{}", reply.body);
}

#[tokio::test(start_paused = true)]
async fn requests_sent_ahead_are_answered_in_order() {
    let served = serve(options());
    let mut raw = served.connect(64 * 1024);
    let many: String = (0..100)
        .map(|id| post("/", "", &call("echo", id)))
        .collect();
    raw.send(many).await.unwrap();
    for id in 0..100 {
        let reply = raw.reply().await.unwrap();
        assert!(
            reply.body.ends_with(&format!(r#""id":{id}}}"#)),
            "{}",
            reply.body
        );
    }
}

// CON-09
#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_finishes_what_it_has_begun() {
    let (echo, mut told) = Echo::new();
    let served = Served::new(endpoint(options(), echo));
    let (mut silent, mut idle, mut busy) = (
        served.connect(512),
        served.connect(512),
        served.connect(512),
    );
    idle.post(&call("echo", 1)).await;
    busy.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 40\r\n\r\n")
        .await
        .unwrap();
    tokio::task::yield_now().await;
    let finishing = async {
        silent.end().await;
        idle.end().await;
        sleep(Duration::from_secs(5)).await;
        let body = call("echo", 7);
        busy.send(format!("{body}{}", " ".repeat(40 - body.len())))
            .await
            .unwrap();
        let reply = busy.reply().await.unwrap();
        busy.end().await;
        reply
    };
    let Served { running, .. } = served;
    let (is_done, reply) = tokio::join!(running.shutdown(Duration::from_secs(30)), finishing);
    assert!(is_done && reply.status == 200, "{reply:?}");

    let (echo, mut hears) = Echo::new();
    let served = Served::new(endpoint(options(), echo));
    let mut waiting = served.connect(512);
    waiting.send(post("/", "", &call("wait", 1))).await.unwrap();
    assert_eq!(hears.recv().await.as_deref(), Some("waiting"));
    assert!(!served.running.shutdown(Duration::from_secs(3)).await);
    let heard = timeout(Duration::from_secs(3600), hears.recv()).await;
    assert_eq!(heard.expect("the end").as_deref(), Some("given up"));
    assert!(told.try_recv().is_err());
}

// SEC-10
#[tokio::test(start_paused = true)]
async fn a_connection_over_the_limit_is_answered_503_or_closed_soon() {
    let protocol = endpoint(options(), Echo::new().0);
    let served = Served::with(protocol, |server| server.max_connections(2));
    let (mut first, mut second) = (served.connect(512), served.connect(512));
    first.post(&call("echo", 1)).await;
    second.post(&call("echo", 1)).await;
    let mut refused = served.connect(512);
    let reply = refused.post(&call("echo", 1)).await;
    assert_eq!(
        (reply.status, reply.header("connection")),
        (503, Some("close"))
    );
    // A refused connection that sends nothing is closed after a while. At most 64 of them are
    // answered at the same time, and further ones are closed at once.
    let mut silent: Vec<_> = (0..70).map(|_| served.connect(512)).collect();
    let told = cut_after(&mut silent[0]).await;
    assert!(
        told > Duration::ZERO && told <= Duration::from_secs(2),
        "{told:?}"
    );
    let mut crowd: Vec<_> = (0..70).map(|_| served.connect(512)).collect();
    assert_eq!(cut_after(&mut crowd[69]).await, Duration::ZERO);
    drop(first);
    second.post(&call("echo", 1)).await;
    let mut third = served.connect(512);
    assert_eq!(third.post(&call("echo", 1)).await.status, 200);
}

// HTP-09 TRN-05
#[tokio::test(start_paused = true)]
async fn an_endpoint_answers_bodies_that_somebody_else_has_read() {
    let mut config = Config::new();
    config.limits.max_message_bytes = 100;
    let (echo, mut told) = Echo::new();
    let endpoint = endpoint(ConnectionConfig::from(config), echo);
    let post = |target: &str, body: &str| {
        let request = Request::post(target).header("host", "x");
        let request = request.header("content-type", "application/json");
        request.body(body.to_owned().into()).unwrap()
    };
    let answer = endpoint.answer_whole(post("/x", &call("context", 1))).await;
    let kind = answer.headers().get("content-type").unwrap();
    assert_eq!(
        (answer.status().as_u16(), kind.as_bytes()),
        (200, &b"application/json"[..])
    );
    let text = String::from_utf8_lossy(answer.body());
    assert!(text.contains(r#","/x",null,null,null,null]"#), "{text}");
    assert!(!text.contains("[0,"), "{text}");
    for (body, status) in [
        ("", 200),
        (r#"{"jsonrpc":"2.0","method":"log"}"#, 204),
        (&*" ".repeat(101), 413),
    ] {
        let answer = endpoint.answer_whole(post("/", body)).await;
        let is_empty = answer.body().is_empty();
        assert_eq!(
            (answer.status().as_u16(), is_empty),
            (status, status == 204)
        );
    }
    // In HTTP/2 the authority is the host, which the page's origin is compared with.
    for (origin, status) in [("http://localhost", 200), ("http://evil.example", 403)] {
        let mut request = post("http://localhost/x", &call("echo", 1));
        *request.version_mut() = Version::HTTP_2;
        request.headers_mut().remove("host");
        request
            .headers_mut()
            .insert("origin", origin.parse().unwrap());
        assert_eq!(endpoint.answer_whole(request).await.status(), status);
    }
    // A WebSocket cannot be opened here.
    let request = Request::get("/")
        .header("host", "x")
        .header("upgrade", "websocket");
    let request = request
        .header("connection", "upgrade")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(endpoint.answer_whole(request).await.status(), 405);
    assert_eq!(told.recv().await.as_deref(), Some("log"));
    // When the future is dropped, its handlers are dropped, too.
    let waiting = endpoint.answer_whole(post("/", &call("wait", 1)));
    assert!(timeout(Duration::from_secs(5), waiting).await.is_err());
    assert_eq!(told.recv().await.as_deref(), Some("waiting"));
    assert_eq!(told.recv().await.as_deref(), Some("given up"));
}

/// Only to see that a service can be shared.
#[tokio::test(start_paused = true)]
async fn a_service_may_be_shared() {
    fn assert_service<S: Service>(_: &S) {}
    let shared = std::sync::Arc::new(Echo::new().0);
    assert_service(&shared);
    let served = Served::new(endpoint(options(), shared));
    assert_eq!(served.connect(512).post(&call("echo", 1)).await.status, 200);
}
