//! A web endpoint as a tower service: under axum and plain hyper, with the layers of tower-http around it, and with all
//! its own rules.
#![cfg(all(feature = "http", feature = "websocket"))]

use std::convert::Infallible;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::time::Duration;

use antiphon::{Config, ConnectionLimits};
use antiphon_tokio::http::{Refusal, Web, WebBody, WebRules, WebService};
use antiphon_tokio::{Context, OwnedError, Peer, Router, connect};
use axum::extract::ConnectInfo;
use axum::http::{HeaderName, Method, Request, StatusCode, Version};
use axum::routing::get;
use futures_util::stream::poll_fn;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;
use tower::{Service, ServiceBuilder, ServiceExt};
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::support::wire::{CLOSE, PATIENCE, TEXT, Wire, get_of, masked, opened, post, upgrade};
use crate::support::{Echo, call};

/// What the layer for time limits allows.
const BRIEF: Duration = Duration::from_millis(300);

/// An endpoint, and what has been seen of its service.
struct Seen {
    made: Arc<AtomicUsize>,
    told: UnboundedReceiver<String>,
}

impl Seen {
    fn made(&self) -> usize {
        self.made.load(SeqCst)
    }

    async fn told(&mut self) -> String {
        let told = timeout(PATIENCE, self.told.recv()).await;
        told.expect("in time").expect("the service is there")
    }
}

fn endpoint() -> (Web<Echo>, Seen) {
    let (echo, told) = Echo::new();
    let made = Arc::<AtomicUsize>::default();
    let seen = Arc::clone(&made);
    let make = move |_: &Context| {
        made.fetch_add(1, SeqCst);
        echo.clone()
    };
    let mut rules = WebRules::new();
    rules.origins.push("https://app.example".into());
    let web = Web::new(Config::new(), make).rules(rules);
    (web, Seen { made: seen, told })
}

/// Serves routes with axum.
async fn on_axum(routes: axum::Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = routes.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

/// Serves a tower service with hyper alone.
async fn on_hyper<S, B>(service: S, hands_over: bool) -> SocketAddr
where
    S: Service<Request<hyper::body::Incoming>, Response = hyper::Response<B>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    B: hyper::body::Body<Data: Send, Error: Into<axum::BoxError>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            if hands_over {
                tokio::spawn(serving.with_upgrades());
            } else {
                tokio::spawn(serving);
            }
        }
    });
    address
}

const JSON: &str = "content-type: application/json\r\n";

const ECHOED: &str = r#"{"jsonrpc":"2.0","result":"nothing","id":1}"#;

/// Waits until it is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waited).await.expect(what);
}

/// The layers of tower-http that people use. The first counts the requests that it sees.
macro_rules! layers {
    ($traced:expr) => {{
        let traced = Arc::clone($traced);
        let count = move |_: &Request<_>, _: &tracing::Span| {
            traced.fetch_add(1, SeqCst);
        };
        let cors = CorsLayer::new()
            .allow_origin(tower_http::cors::Any)
            .allow_methods([Method::POST])
            .allow_headers([HeaderName::from_static("content-type")]);
        ServiceBuilder::new()
            .layer(TraceLayer::new_for_http().on_request(count))
            .layer(cors)
            .layer(CompressionLayer::new())
            .layer(TimeoutLayer::with_status_code(
                StatusCode::GATEWAY_TIMEOUT,
                BRIEF,
            ))
    }};
}

/// The ways to put layers around the service, each with the path under which it is then.
async fn everywhere(rpc: WebService<Echo>, traced: &Arc<AtomicUsize>) -> [(SocketAddr, &str); 3] {
    let nested = axum::Router::new()
        .route("/orders", get(|| async { "[]" }))
        .nest_service("/rpc", rpc.clone())
        .layer(layers!(traced));
    let around = layers!(traced).service(rpc.clone());
    let around = axum::Router::new()
        .route("/orders", get(|| async { "[]" }))
        .nest_service("/rpc", around);
    let bare = layers!(traced).service(rpc);
    [
        (on_axum(nested).await, "/rpc"),
        (on_axum(around).await, "/rpc"),
        (on_hyper(bare, true).await, "/"),
    ]
}

// web.md §5
// USE-12 HTP-09
#[tokio::test]
async fn the_layers_of_tower_http_go_around_it_by_nest_and_by_a_service_builder() {
    let (web, mut seen) = endpoint();
    let (rpc, traced) = (web.into_service(), Arc::default());
    for (address, path) in everywhere(rpc.clone(), &traced).await {
        let (before, mut wire) = (traced.load(SeqCst), Wire::to(address).await);
        let reply = wire.ask(&post(path, JSON, &call("echo", 1))).await;
        assert_eq!((reply.status, reply.text()), (200, ECHOED), "{reply:?}");
        // Compression is the layer's, and so is the permission of an origin.
        let lines = format!("{JSON}accept-encoding: gzip\r\norigin: https://app.example\r\n");
        let reply = wire.ask(&post(path, &lines, &call("large", 1))).await;
        assert!(
            reply.head.contains("content-encoding: gzip\r\n"),
            "{reply:?}"
        );
        assert!(
            reply.head.contains("access-control-allow-origin: *\r\n"),
            "{reply:?}"
        );
        assert!(
            reply.body.len() < 10_000,
            "200 000 bytes were not compressed"
        );
        // A preflight is answered by the layer.
        let asked = format!(
            "OPTIONS {path} HTTP/1.1\r\nhost: localhost\r\norigin: https://app.example\r\naccess-control-request-method: POST\r\n\r\n"
        );
        let reply = wire.ask(&asked).await;
        assert!(
            reply
                .head
                .contains("access-control-allow-headers: content-type\r\n")
        );
        // A handler that takes longer than the layer allows is cancelled.
        let reply = wire.ask(&post(path, JSON, &call("wait", 1))).await;
        assert_eq!(reply.status, 504, "{reply:?}");
        assert_eq!(seen.told().await, "waiting");
        assert_eq!(seen.told().await, "given up");
        assert_eq!(seen.told().await, "Local(TransportFailed)");
        // The same connection becomes a WebSocket, on which that time has no meaning.
        let reply = wire.ask(&upgrade(path, "accept-encoding: gzip\r\n")).await;
        assert_eq!(reply.status, 101, "{reply:?}");
        let accepted = "sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n";
        assert!(reply.head.contains(accepted), "{reply:?}");
        assert_eq!(wire.call("echo").await, ECHOED);
        tokio::time::sleep(2 * BRIEF).await;
        assert_eq!(wire.call("echo").await, ECHOED);
        assert_eq!(rpc.connections(), 1);
        // Ping, pong, and the code with which the client closes.
        wire.send_frame(0x89, b"?").await;
        assert_eq!(wire.frame().await, (0x8a, b"?".to_vec()));
        wire.send_frame(CLOSE, &1000_u16.to_be_bytes()).await;
        let (first, code) = wire.frame().await;
        assert_eq!((first, &code[..2]), (CLOSE, &1000_u16.to_be_bytes()[..]));
        assert!(wire.is_over().await);
        drop(wire);
        until("all has ended", || rpc.connections() == 0).await;
        assert_eq!(traced.load(SeqCst) - before, 5, "{address}");
        if path == "/rpc" {
            let reply = Wire::to(address).await;
            let reply = { reply }
                .ask("GET /orders HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .await;
            assert_eq!((reply.status, reply.text()), (200, "[]"));
        }
    }
}

// web.md §5
// USE-07 USE-13 SEC-08
#[tokio::test]
async fn an_evil_page_is_refused_behind_layers_as_everywhere() {
    let (web, seen) = endpoint();
    let rpc = web.health("/health", async || true).into_service();
    for (address, path) in everywhere(rpc, &Arc::default()).await {
        let health = format!("{}/health", path.trim_end_matches('/'));
        let mut wire = Wire::to(address).await;
        let evil = "origin: https://evil.example\r\n";
        let listed = "origin: https://app.example\r\n";
        let text = "content-type: text/plain\r\n";
        for (status, request) in [
            (403, post(path, &[evil, text].concat(), &call("context", 1))),
            (403, post(path, &[evil, JSON].concat(), &call("context", 1))),
            (
                415,
                post(path, &[listed, text].concat(), &call("context", 1)),
            ),
            (
                415,
                post(path, "sec-fetch-site: same-origin\r\n", &call("context", 1)),
            ),
            (403, upgrade(path, evil)),
            (405, get_of(path, "localhost")),
            (200, get_of(&health, "localhost")),
            (403, get_of(&health, "evil.example")),
        ] {
            assert_eq!(wire.ask(&request).await.status, status, "{request}");
        }
        // A name that another site has given this machine.
        let rebound = post(path, &[evil, JSON].concat(), &call("context", 1));
        let rebound = rebound.replace("host: localhost", "host: evil.example");
        assert_eq!(wire.ask(&rebound).await.status, 403);
        assert_eq!(seen.made(), 0);
        let own = post(path, &[listed, JSON].concat(), &call("echo", 1));
        assert_eq!(wire.ask(&own).await.status, 200);
        seen.made.store(0, SeqCst);
    }
}

/// Lets in who has a token.
fn check(context: &Context) -> Result<(), Refusal> {
    match context.header("authorization") {
        Some(_) => Ok(()),
        None => Err(Refusal::unauthorized("Bearer").retry_after(Duration::from_secs(7))),
    }
}

// web.md §5
// USE-13
#[tokio::test]
async fn who_has_no_token_makes_nothing_run_and_nothing_be_read() {
    let (web, seen) = endpoint();
    let rpc = web.authorize(check).into_service();
    // Nothing of a body is asked for.
    let polled = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&polled);
    let body = StreamBody::new(poll_fn(move |_| {
        count.fetch_add(1, SeqCst);
        Poll::Ready(Some(Ok::<_, Infallible>(Frame::data(Bytes::from("{")))))
    }));
    let request = Request::post("/").header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.header("content-length", 1_000_000_000);
    let reply = rpc.clone().oneshot(request.body(body).unwrap()).await;
    assert_eq!(reply.unwrap().status(), 401);
    assert_eq!((polled.load(SeqCst), seen.made()), (0, 0));
    for (address, path) in everywhere(rpc, &Arc::default()).await {
        let mut wire = Wire::to(address).await;
        for request in [upgrade(path, ""), post(path, JSON, &call("echo", 1))] {
            let reply = wire.ask(&request).await;
            assert_eq!(reply.status, 401, "{reply:?}");
            for line in ["www-authenticate: bearer\r\n", "retry-after: 7\r\n"] {
                assert!(reply.head.contains(line), "{reply:?}");
            }
        }
        // A gigabyte is not asked for. Its 401 is the first line, so no 100 came before.
        let big = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 1000000000\r\nexpect: 100-continue\r\n\r\n"
        );
        assert_eq!(wire.ask(&big).await.status, 401);
        assert_eq!(seen.made(), 0);
        let token = "authorization: Bearer x\r\n";
        let mut wire = Wire::to(address).await;
        let lines = format!("{JSON}{token}expect: 100-continue\r\n");
        let (head, body) = (post(path, &lines, &call("echo", 1)), call("echo", 1));
        let head = head.strip_suffix(&body).unwrap();
        assert_eq!(wire.ask(head).await.status, 100);
        assert_eq!(wire.ask(&body).await.text(), ECHOED);
        assert_eq!(
            opened(address, path, token).await.call("echo").await,
            ECHOED
        );
        seen.made.store(0, SeqCst);
    }
}

// SRV-14 SEC-10
#[tokio::test]
async fn a_body_that_is_large_or_slow_is_not_waited_for() {
    let (web, seen) = endpoint();
    let mut rules = WebRules::new();
    rules.body_timeout = BRIEF;
    let rpc = web.rules(rules).into_service();
    let address = on_axum(axum::Router::new().nest_service("/rpc", rpc.clone())).await;
    let head = |lines: &str| format!("POST /rpc HTTP/1.1\r\nhost: localhost\r\n{JSON}{lines}\r\n");
    let mut wire = Wire::to(address).await;
    let reply = wire.ask(&head("content-length: 2000000000\r\n")).await;
    assert_eq!(reply.status, 413, "{reply:?}");
    assert!(reply.text().contains("-32004"), "{reply:?}");
    assert!(wire.is_over().await);
    let mut wire = Wire::to(address).await;
    wire.send(head("transfer-encoding: chunked\r\n")).await;
    let chunk = format!("{:x}\r\n{}\r\n", 60_000, "x".repeat(60_000));
    let sending = async {
        for _ in 0..20 {
            // The server may have closed.
            let _ = wire.0.write_all(chunk.as_bytes()).await;
        }
    };
    timeout(PATIENCE, sending)
        .await
        .expect("it reads or closes");
    assert_eq!(wire.reply().await.status, 413);
    seen.made.store(0, SeqCst);
    let mut wire = Wire::to(address).await;
    let begun = [&head("content-length: 100\r\n"), "{"].concat();
    let reply = wire.ask(&begun).await;
    assert_eq!(reply.status, 408, "{reply:?}");
    assert!(reply.head.contains("connection: close\r\n"), "{reply:?}");
    assert!(wire.is_over().await);
    assert_eq!((seen.made(), rpc.connections()), (0, 0));
}

// web.md §2
// WSK-09 USE-12
#[tokio::test]
async fn a_shutdown_lets_requests_finish_and_tells_websockets_that_the_server_leaves() {
    let (web, mut seen) = endpoint();
    let rpc = web.into_service();
    let address = on_axum(axum::Router::new().nest_service("/rpc", rpc.clone())).await;
    let mut idle = opened(address, "/rpc", "").await;
    let mut busy = opened(address, "/rpc", "").await;
    busy.send_frame(TEXT, call("wait", 1).as_bytes()).await;
    assert_eq!(seen.told().await, "waiting");
    let mut late = Wire::to(address).await;
    late.send(post("/rpc", JSON, &call("wait", 1))).await;
    assert_eq!(seen.told().await, "waiting");
    until("three are there", || rpc.connections() == 3).await;
    let (ending, grace) = (rpc.clone(), Duration::from_millis(700));
    let ended = tokio::spawn(async move { ending.shutdown(grace).await });
    let told = |frame: (u8, Vec<u8>)| (frame.0, frame.1[..2].to_vec());
    let leaves = (CLOSE, 1001_u16.to_be_bytes().to_vec());
    assert_eq!(told(idle.frame().await), leaves);
    // From now on nothing begins.
    for request in [post("/rpc", JSON, &call("echo", 1)), upgrade("/rpc", "")] {
        let mut wire = Wire::to(address).await;
        let reply = wire.ask(&request).await;
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(wire.is_over().await);
    }
    // What is still running after the grace is cut.
    assert_eq!(late.reply().await.status, 503);
    let mut last = busy.frame().await;
    if last.0 == TEXT {
        last = busy.frame().await;
    }
    assert_eq!(told(last), leaves);
    assert!(!ended.await.unwrap(), "two were cut");
    assert_eq!(rpc.connections(), 0);
    assert!(rpc.shutdown(grace).await, "nothing was left");
}

// web.md §2
// SEC-10 SRV-14
#[tokio::test]
async fn requests_and_websockets_are_counted_for_an_address_that_a_proxy_names() {
    let (web, _seen) = endpoint();
    let mut limits = ConnectionLimits::new();
    (limits.max_connections, limits.max_per_key) = (3, 2);
    let web = web.context_from(|parts, context| {
        let named = parts.headers.get("x-forwarded-for");
        let named = named.and_then(|value| value.to_str().ok()?.parse::<IpAddr>().ok());
        context.peer_addr = named.map(|ip| SocketAddr::new(ip, 0));
        // The program's own numbers for its connections need not differ.
        context.connection = 7;
    });
    let rpc = web.into_service().limits(limits);
    let address = on_axum(axum::Router::new().nest_service("/rpc", rpc.clone())).await;
    let [one, two, three] =
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|from| format!("x-forwarded-for: {from}\r\n"));
    let first = opened(address, "/rpc", &one).await;
    let mut second = opened(address, "/rpc", &one).await;
    let asks = async |lines: &str| {
        let request = post("/rpc", &[JSON, lines].concat(), &call("context", 1));
        Wire::to(address).await.ask(&request).await
    };
    assert_eq!(asks(&one).await.status, 503, "the third of one address");
    let reply = asks(&two).await;
    assert!(reply.text().contains(r#""10.0.0.2""#), "{reply:?}");
    assert!(second.call("context").await.contains(r#""10.0.0.1""#));
    let _third = opened(address, "/rpc", &two).await;
    let refused = asks(&three).await;
    assert_eq!(refused.status, 503, "the fourth in all");
    assert!(refused.head.contains("connection: close\r\n"));
    let mut wire = Wire::to(address).await;
    assert_eq!(wire.ask(&upgrade("/rpc", &three)).await.status, 503);
    drop(first);
    until("one has gone", || rpc.connections() == 2).await;
    assert_eq!(asks(&one).await.status, 200);
}

// web.md §2
// USE-12
#[tokio::test]
async fn a_handler_knows_the_address_that_axum_tells() {
    let known = |peer: Peer| {
        let context = peer.context();
        let from = context.peer_addr.map(|address| address.ip());
        let (number, is_accepted) = (context.connection, context.is_accepted);
        Ok::<_, OwnedError>((number, context.target.clone(), from, is_accepted))
    };
    let methods = Router::new().method("known", [], known);
    let web = Web::new(Config::new(), methods.into_make_service());
    let rpc = web.context_from(|parts, context| {
        let client = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        context.peer_addr = client.map(|ConnectInfo(address)| *address);
    });
    let routes = axum::Router::new().nest_service("/rpc", rpc.into_service());
    let address = on_axum(routes).await;
    let mut numbers = Vec::new();
    for scheme in ["http", "http", "ws", "ws"] {
        let url = format!("{scheme}://{address}/rpc");
        let client = connect(&url, Config::new(), ()).await.unwrap();
        type Known = (u32, String, String, bool);
        let (number, target, from, is_accepted) = client.call::<Known>("known", ()).await.unwrap();
        // The path is what is left behind the one under which it is nested.
        assert_eq!((&*target, &*from, is_accepted), ("/", "127.0.0.1", true));
        numbers.push(number);
    }
    numbers.dedup();
    assert!(numbers.len() == 4 && !numbers.contains(&0), "{numbers:?}");
}

// web.md §5
// USE-13
#[tokio::test]
async fn a_websocket_whose_answer_was_never_sent_made_a_service() {
    let (web, seen) = endpoint();
    let slow = web
        .clone()
        .authorize_async(|_| std::future::pending::<Result<(), _>>());
    let rpc = web.into_service();
    let slow = slow.into_service();
    // A server that hands no stream over, and a layer that gives up before our answer.
    let waits = ServiceBuilder::new()
        .layer(TimeoutLayer::with_status_code(
            StatusCode::GATEWAY_TIMEOUT,
            BRIEF,
        ))
        .service(slow.clone());
    for (address, rpc, status) in [
        (on_hyper(rpc.clone(), false).await, rpc, 101),
        (on_hyper(waits, true).await, slow, 504),
    ] {
        let mut wire = Wire::to(address).await;
        assert_eq!(wire.ask(&upgrade("/", "")).await.status, status);
        let _ = wire
            .0
            .write_all(&[TEXT, 0x82, 0, 0, 0, 0, b'{', b'}'])
            .await;
        until("it is given up", || rpc.connections() == 0).await;
    }
    assert_eq!(seen.made(), 0);
}

/// Asks without a server.
async fn asked<B>(rpc: &WebService<Echo>, request: Request<B>) -> (StatusCode, String)
where
    B: hyper::body::Body<Data = hyper::body::Bytes, Error: Debug> + Send + 'static,
{
    let answer = rpc.clone().oneshot(request).await.unwrap();
    let (parts, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, String::from_utf8(body.to_vec()).unwrap())
}

// USE-12 USE-35
#[tokio::test]
async fn a_request_of_another_server_and_of_http_2_is_judged_by_its_authority() {
    let (web, seen) = endpoint();
    let rpc = web.into_service();
    for (origin, status) in [
        ("https://localhost", StatusCode::OK),
        ("https://evil.example", StatusCode::FORBIDDEN),
    ] {
        let request = Request::post("https://localhost/x")
            .version(Version::HTTP_2)
            .header("origin", origin)
            .header("content-type", "application/json");
        let request = request.body(call("echo", 1)).unwrap();
        assert_eq!(asked(&rpc, request).await.0, status);
    }
    assert_eq!(seen.made(), 1);
    // A server that hands no stream over has no WebSockets.
    let mut request = Request::get("/").version(Version::HTTP_11);
    for line in upgrade("/", "").lines().skip(1) {
        if let Some((name, value)) = line.split_once(": ") {
            request = request.header(name, value);
        }
    }
    let (status, why) = asked(&rpc, request.body(String::new()).unwrap()).await;
    assert_eq!(status, StatusCode::NOT_IMPLEMENTED, "{why}");
    assert_eq!((seen.made(), rpc.connections()), (1, 0));
}

// USE-12
#[tokio::test]
async fn it_nests_in_the_router_of_tonic() {
    let (web, _seen) = endpoint();
    let grpc = tonic::service::Routes::default().into_axum_router();
    let address = on_axum(grpc.nest_service("/rpc", web.into_service())).await;
    let mut wire = Wire::to(address).await;
    let grpc = post(
        "/a.Service/Method",
        "content-type: application/grpc\r\n",
        "",
    );
    let reply = wire.ask(&grpc).await;
    assert!(
        reply.head.contains("grpc-status: 12\r\n"),
        "not implemented"
    );
    let reply = wire.ask(&post("/rpc", JSON, &call("echo", 1))).await;
    assert_eq!((reply.status, reply.text()), (200, ECHOED));
    assert_eq!(opened(address, "/rpc", "").await.call("echo").await, ECHOED);
    // A frame may come with the handshake.
    let mut wire = Wire::to(address).await;
    let frame = masked(TEXT, call("echo", 1).as_bytes());
    wire.send([upgrade("/rpc", "").as_bytes(), &frame].concat())
        .await;
    assert_eq!(wire.reply().await.status, 101);
    assert_eq!(wire.frame().await, (TEXT, ECHOED.into()));
}

// web.md §5
// USE-13
#[tokio::test]
async fn a_client_that_goes_away_ends_its_handler_behind_a_framework() {
    let (web, mut seen) = endpoint();
    let rpc = web.into_service();
    let address = on_axum(axum::Router::new().nest_service("/rpc", rpc.clone())).await;
    let mut posted = Wire::to(address).await;
    posted.send(post("/rpc", JSON, &call("wait", 1))).await;
    assert_eq!(seen.told().await, "waiting");
    drop(posted);
    assert_eq!(seen.told().await, "given up");
    assert_eq!(seen.told().await, "Local(TransportFailed)");
    let mut open = opened(address, "/rpc", "").await;
    open.send_frame(TEXT, call("wait", 1).as_bytes()).await;
    assert_eq!(seen.told().await, "waiting");
    drop(open);
    assert_eq!(seen.told().await, "given up");
    until("all has ended", || rpc.connections() == 0).await;
}

/// A request for `steps`, of a client that reads events.
fn steps() -> Request<Full<Bytes>> {
    let request = Request::post("/").header("host", "localhost");
    let request = request.header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream");
    request.body(call("steps", 1).into()).unwrap()
}

/// The next event of a body; `None` at its end.
async fn event(body: &mut WebBody) -> Option<String> {
    let frame = timeout(PATIENCE, body.frame()).await.expect("in time")?;
    let data = frame.unwrap().into_data().expect("data");
    Some(String::from_utf8(data.into()).unwrap())
}

// USE-13 USE-14
#[tokio::test]
async fn a_stream_of_events_counts_to_its_end_and_a_shutdown_ends_it() {
    let go_on = Arc::new(Notify::new());
    let step = Arc::clone(&go_on);
    let methods = Router::new().method("steps", [], move |peer: Peer| {
        let step = Arc::clone(&step);
        async move {
            peer.notify("step", &[1]).await.unwrap();
            step.notified().await;
            Ok::<_, OwnedError>("done")
        }
    });
    let service = Web::new(Config::new(), methods.into_make_service()).into_service();
    let told = "data: {\"jsonrpc\":\"2.0\",\"method\":\"step\",\"params\":[1]}\n\n";

    let mut answer = service.clone().oneshot(steps()).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    assert_eq!(event(answer.body_mut()).await.as_deref(), Some(told));
    assert_eq!(service.connections(), 1, "it counts while it is read");
    go_on.notify_one();
    let last = event(answer.body_mut()).await;
    let done = "data: {\"jsonrpc\":\"2.0\",\"result\":\"done\",\"id\":1}\n\n";
    assert_eq!(last.as_deref(), Some(done));
    assert_eq!(event(answer.body_mut()).await, None);
    drop(answer);
    assert_eq!(service.connections(), 0);

    // A client that goes away, and a server that waits no longer than its grace.
    let mut left = service.clone().oneshot(steps()).await.unwrap();
    assert_eq!(event(left.body_mut()).await.as_deref(), Some(told));
    drop(left);
    assert_eq!(service.connections(), 0);
    let mut cut = service.clone().oneshot(steps()).await.unwrap();
    assert_eq!(event(cut.body_mut()).await.as_deref(), Some(told));
    let ending = service.clone();
    let ending = tokio::spawn(async move { ending.shutdown(BRIEF).await });
    assert_eq!(event(cut.body_mut()).await, None, "no answer comes");
    drop(cut);
    assert!(!ending.await.unwrap(), "it has not ended by itself");
}
