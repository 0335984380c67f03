//! A web endpoint: who is let in, what handlers know of that, and what is left when a client has gone.
#![cfg(all(feature = "http", feature = "websocket"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Echo, Served, call, post};
use antiphon::{Config, McpRevision};
use antiphon_tokio::http::{Endpoint, Refusal, Sessions, Web, WebRules};
use antiphon_tokio::service::{Cx, Decision, Interceptor};
use antiphon_tokio::{
    ClientConfig, Context, CostLimit, Extension, OwnedError, Peer, RateLimit, ReplyHeaders,
    Request, Router, Service, TcpServer, connect, current,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, timeout};

const HOUR: Duration = Duration::from_secs(3600);

const UPGRADE: &str = "GET / HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[derive(Clone)]
struct User(String);

/// Lets in who has a token, by its name.
fn check(context: &Context) -> Result<User, Refusal> {
    let token = context.header("authorization").unwrap_or_default();
    match token.strip_prefix("Bearer ") {
        Some(name) => Ok(User(name.into())),
        None => Err(Refusal::unauthorized("Bearer")),
    }
}

fn served<S: Service>(web: Web<S>) -> Served {
    Served::new(Endpoint::of(web, current()))
}

// web.md §2
// USE-13 USE-12
#[tokio::test]
async fn what_a_check_has_found_is_an_argument_of_handlers_over_http_and_websocket() {
    let router = Router::new()
        .method("me", [], |Extension(User(name)): Extension<User>| {
            Ok::<_, OwnedError>(name)
        })
        .method("known", [], |peer: Peer| {
            Ok::<_, OwnedError>(peer.context().extension::<User>().is_some())
        });
    let web = Web::new(Config::new(), router.into_make_service()).authorize(check);
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let at = server.local_addr();
    let running = server.start_web(web);
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{at}/");
        let config = ClientConfig::new(Config::new()).with_header("authorization", "Bearer Ada");
        let client = connect(&url, config, ()).await.unwrap();
        assert_eq!(client.call::<String>("me", ()).await.unwrap(), "Ada");
        assert!(client.call::<bool>("known", ()).await.unwrap(), "{scheme}");
        let refused = match connect(&url, Config::new(), ()).await {
            Ok(client) => client
                .call::<String>("me", ())
                .await
                .unwrap_err()
                .to_string(),
            Err(error) => error.to_string(),
        };
        assert!(refused.contains("401"), "{scheme}: {refused}");
    }
    running.stop();
}

/// Tells when it is dropped.
struct Gone(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

// web.md §5
// USE-13
#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_ends_the_check_that_it_waits_for() {
    let (gone, mut went) = unbounded_channel();
    let web = Web::new(Config::new(), |_| Echo::new().0).authorize_async(move |_| {
        let gone = Gone(gone.clone());
        async move {
            tokio::time::sleep(HOUR).await;
            drop(gone);
            Ok(())
        }
    });
    let served = served(web);
    for request in [post("/", "", &call("echo", 1)), format!("{UPGRADE}\r\n")] {
        let mut raw = served.connect(4096);
        raw.send(&request).await.unwrap();
        let begun = Instant::now();
        drop(raw);
        timeout(HOUR / 2, went.recv()).await.expect("it ends");
        assert!(
            begun.elapsed() <= Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
}

// web.md §5
// USE-13 SEC-10
#[tokio::test(start_paused = true)]
async fn a_gigabyte_was_read_while_the_verdict_was_awaited() {
    let verdict = Arc::new(Notify::new());
    let judged = Arc::clone(&verdict);
    let config = Config::new().max_message_bytes(2_000_000_000);
    let web = Web::new(config, |_| Echo::new().0).authorize_async(move |_| {
        let judged = Arc::clone(&judged);
        async move {
            judged.notified().await;
            Err::<User, _>(Refusal::unauthorized("Bearer"))
        }
    });
    let served = served(web);
    for expect in ["expect: 100-continue\r\n", ""] {
        // A direction holds 512 bytes. 16 KiB are read ahead, to notice the end of a client that goes away.
        let mut raw = served.connect(512);
        let head = "content-type: application/json\r\ncontent-length: 1000000000\r\n";
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\n{head}{expect}\r\n");
        raw.send(head).await.unwrap();
        // The client does not wait for a `100 Continue`.
        let mut sent = 0;
        while let Ok(Ok(())) = timeout(Duration::from_secs(1), raw.send([b' '; 64])).await {
            sent += 64;
            assert!(sent < 20_000, "{expect}");
        }
        verdict.notify_one();
        let reply = raw.reply().await.expect("an answer");
        assert_eq!(reply.status, 401, "the first line, so no 100 came before");
    }
}

/// Counts how many of it there are.
#[derive(Debug)]
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Counted {}

// web.md §5
// USE-12 SEC-10
#[tokio::test(start_paused = true)]
async fn a_thousand_upgrades_at_once_leave_nothing_behind() {
    let (count, made) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (own, ours) = (Arc::clone(&count), Arc::clone(&made));
    let web = Web::new(Config::new(), move |_| {
        ours.fetch_add(1, Ordering::SeqCst);
        Counted::new(&own)
    });
    let served = served(web.authorize(check));
    let mut open = Vec::new();
    for n in 0..1000 {
        let token = if n % 2 == 0 {
            ""
        } else {
            "authorization: Bearer Ada\r\n"
        };
        let mut raw = served.connect(4096);
        raw.send(format!("{UPGRADE}{token}\r\n")).await.unwrap();
        open.push((raw, if n % 2 == 0 { 401 } else { 101 }));
    }
    for (raw, wanted) in &mut open {
        assert_eq!(raw.reply().await.expect("an answer").status, *wanted);
    }
    assert_eq!(served.running.connections(), 1000);
    assert_eq!(made.load(Ordering::SeqCst), 500);
    assert_eq!(count.load(Ordering::SeqCst), 500);
    drop(open);
    let ended = async {
        while served.running.connections() > 0 || count.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(60), ended)
        .await
        .expect("all end");
}

/// Counts the connections that begin and that end, by their numbers.
#[derive(Clone, Debug, Default)]
struct Connections(Arc<Mutex<(Vec<u32>, Vec<u32>)>>);

impl Interceptor<Request> for Connections {
    fn opened(&self, connection: u32) {
        self.0.lock().unwrap().0.push(connection);
    }

    fn closed(&self, connection: u32) {
        self.0.lock().unwrap().1.push(connection);
    }
}

impl Connections {
    /// How many have begun and ended.
    fn counts(&self) -> (usize, usize) {
        let all = self.0.lock().unwrap();
        (all.0.len(), all.1.len())
    }

    async fn reaches(&self, wanted: (usize, usize)) {
        let reached = async {
            while self.counts() != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let reached = timeout(Duration::from_secs(60), reached).await;
        assert!(reached.is_ok(), "{:?}, not {wanted:?}", self.counts());
    }
}

fn adding() -> Router {
    Router::new().method("n", [], || Ok::<_, OwnedError>(1))
}

// web.md §2
// USE-42 OBS-03
#[tokio::test(start_paused = true)]
async fn a_connection_is_counted_once_whatever_goes_over_it() {
    let seen = Connections::default();
    let router = adding().intercept(seen.clone());
    let served = served(Web::new(Config::new(), router.into_make_service()));
    let (mut one, mut other) = (served.connect(4096), served.connect(4096));
    assert_eq!(seen.counts(), (0, 0));
    for _ in 0..3 {
        assert_eq!(one.post(&call("n", 1)).await.status, 200);
        assert_eq!(seen.counts(), (1, 0));
    }
    assert_eq!(other.post(&call("n", 1)).await.status, 200);
    assert_eq!(seen.counts(), (2, 0));
    // A WebSocket on it is the connection that it was.
    other.send(format!("{UPGRADE}\r\n")).await.unwrap();
    assert_eq!(other.reply().await.unwrap().status, 101);
    assert_eq!(seen.counts(), (2, 0));
    drop(one);
    seen.reaches((2, 1)).await;
    drop(other);
    seen.reaches((2, 2)).await;
    let all = seen.0.lock().unwrap().clone();
    assert_ne!(all.0[0], all.0[1]);
    assert_eq!(all.0, all.1);
    // One that only opens a WebSocket is counted, too.
    let mut raw = served.connect(4096);
    raw.send(format!("{UPGRADE}\r\n")).await.unwrap();
    assert_eq!(raw.reply().await.unwrap().status, 101);
    seen.reaches((3, 2)).await;
    drop(raw);
    seen.reaches((3, 3)).await;
}

// web.md §2
// USE-42 SEC-10
#[tokio::test(start_paused = true)]
async fn a_router_for_each_request_leaves_nothing_on_its_connection() {
    let seen = Connections::default();
    let own = seen.clone();
    let web = Web::new(Config::new(), move |_| adding().intercept(own.clone()));
    let served = served(web);
    let mut raw = served.connect(4096);
    for n in 1..=20 {
        assert_eq!(raw.post(&call("n", 1)).await.status, 200);
        let (begun, ended) = seen.counts();
        assert!(begun == n && begun - ended <= 2, "{:?}", (begun, ended));
    }
    drop(raw);
    seen.reaches((20, 20)).await;
}

/// An interceptor that panics when a connection ends, after it has told of it.
#[derive(Clone)]
struct Panics(Connections);

impl Interceptor<Request> for Panics {
    fn closed(&self, connection: u32) {
        Interceptor::<Request>::closed(&self.0, connection);
        panic!("as asked");
    }
}

// USE-30
#[tokio::test(start_paused = true)]
async fn interceptors_that_panic_at_the_end_brought_the_process_down() {
    let seen = Connections::default();
    let panics = Panics(seen.clone());
    // Two routers, for the exchanges of one connection, each with two interceptors.
    let routers = [(); 2].map(|()| adding().intercept(panics.clone()).intercept(panics.clone()));
    let turn = AtomicUsize::new(0);
    let web = Web::new(Config::new(), move |_| {
        routers[turn.fetch_add(1, Ordering::SeqCst) % 2].clone()
    });
    let served = served(web);
    let mut raw = served.connect(4096);
    for _ in 0..4 {
        assert_eq!(raw.post(&call("n", 1)).await.status, 200);
    }
    drop(raw);
    seen.reaches((0, 4)).await;
    let mut other = served.connect(4096);
    assert_eq!(other.post(&call("n", 1)).await.status, 200);
}

const LIMITED: &str = "Rate limit exceeded";

// web.md §2
// USE-42 SEC-09 SEC-10
#[tokio::test(start_paused = true)]
async fn rates_and_budgets_of_a_key_hold_over_http_and_websocket() {
    let user = |request: &Request| request.attribute().map(|User(name)| name.clone());
    let mut prices = antiphon_tokio::service::Prices::new();
    (
        prices.per_byte_in,
        prices.per_byte_out,
        prices.per_millisecond,
    ) = (0, 1, 0);
    for router in [
        adding().intercept(RateLimit::per_key(1, 2, user)),
        // The answer `1` has one byte.
        adding().intercept(CostLimit::per_key(1, 2, user).with_prices(prices)),
    ] {
        let web = Web::new(Config::new(), router.into_make_service()).authorize(check);
        let served = served(web);
        let ask = async |name: &str| {
            let mut raw = served.connect(4096);
            let token = format!("authorization: Bearer {name}\r\n");
            raw.send(post("/", &token, &call("n", 1))).await.unwrap();
            raw.reply().await.unwrap().body
        };
        for _ in 0..2 {
            assert!(ask("Ada").await.contains("\"result\":1"));
        }
        assert!(ask("Ada").await.contains(LIMITED));
        assert!(ask("Bob").await.contains("\"result\":1"));
        tokio::time::sleep(Duration::from_millis(1001)).await;
        assert!(ask("Ada").await.contains("\"result\":1"));
        assert!(ask("Ada").await.contains(LIMITED));
    }
}

// USE-42
#[tokio::test]
async fn a_budget_of_an_address_holds_for_all_its_connections() {
    let mut prices = antiphon_tokio::service::Prices::new();
    (
        prices.per_byte_in,
        prices.per_byte_out,
        prices.per_millisecond,
    ) = (0, 1, 0);
    let limit = CostLimit::per_address(1, 2).with_prices(prices);
    let web = Web::new(Config::new(), adding().intercept(limit).into_make_service());
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let at = server.local_addr();
    let running = server.start_web(web);
    let mut seen = Vec::new();
    for scheme in ["http", "ws", "http"] {
        let client = connect(&format!("{scheme}://{at}/"), Config::new(), ())
            .await
            .unwrap();
        seen.push(client.call::<u8>("n", ()).await.is_ok());
    }
    assert_eq!(seen, [true, true, false]);
    running.stop();
}

// web.md §2
// USE-13
#[tokio::test(start_paused = true)]
async fn a_check_that_hangs_is_answered_503_in_time() {
    for (rules, wanted) in [(10, 10), (2, 2)] {
        let (gone, mut went) = unbounded_channel();
        let mut limits = WebRules::new();
        limits.check_timeout = Duration::from_secs(rules);
        let web = Web::new(Config::new(), |_| Echo::new().0)
            .rules(limits)
            .authorize_async(move |_| {
                let gone = Gone(gone.clone());
                async move {
                    let _gone = gone;
                    std::future::pending::<Result<(), Refusal>>().await
                }
            });
        let served = served(web);
        for request in [post("/", "", &call("echo", 1)), format!("{UPGRADE}\r\n")] {
            let (mut raw, begun) = (served.connect(4096), Instant::now());
            raw.send(&request).await.unwrap();
            let reply = timeout(HOUR, raw.reply()).await.expect("in time").unwrap();
            assert_eq!(
                (reply.status, &*reply.body),
                (503, "the check takes too long\n")
            );
            assert_eq!(begun.elapsed().as_secs(), wanted);
            went.try_recv().expect("its future is dropped");
        }
    }
}

// web.md §2
// USE-13
#[tokio::test(start_paused = true)]
async fn handlers_add_headers_to_their_reply() {
    let router = Router::new()
        .method("login", [], |headers: ReplyHeaders| {
            headers.push("Set-Cookie", b"a=1; HttpOnly");
            headers.push("Set-Cookie", b"b=2\r\nevil: 1");
            headers.push("Content-Length", b"7");
            headers.push("transfer-encoding", b"chunked");
            headers.push("Trailer", b"x");
            headers.push("keep-alive", b"max=1");
            Ok::<_, OwnedError>(1)
        })
        .method("n", [], || Ok::<_, OwnedError>(2));
    let served = served(Web::new(Config::new(), router.into_make_service()));
    let mut raw = served.connect(4096);
    let reply = raw.post(&call("login", 1)).await;
    let cookies: Vec<_> = reply
        .head
        .lines()
        .filter(|line| line.to_lowercase().starts_with("set-cookie:"))
        .collect();
    assert_eq!(
        cookies,
        ["set-cookie: a=1; HttpOnly", "set-cookie: b=2??evil: 1"]
    );
    assert_eq!(
        (reply.header("trailer"), reply.header("keep-alive")),
        (None, None)
    );
    assert_eq!(reply.body, r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    assert_eq!(raw.post(&call("n", 1)).await.header("set-cookie"), None);
    // Both calls of a batch have one reply.
    let both = format!("[{},{}]", call("n", 1), call("login", 2));
    assert!(raw.post(&both).await.header("set-cookie").is_some());
}

/// Adds a header while it holds the connection's attributes.
struct Holds;

impl Interceptor<Request> for Holds {
    fn request(&self, _: &mut Cx, request: &Request) -> Decision {
        let attributes = request.connection_attributes();
        let headers = ReplyHeaders::of(request);
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            headers.push("x-held", b"1");
            let _ = done.send(());
        });
        let added = is_done.recv_timeout(Duration::from_secs(5));
        drop(attributes);
        added.expect("it needs no attributes");
        Decision::Continue
    }
}

// web.md §2
// USE-13
#[tokio::test]
async fn headers_are_kept_for_http_replies_only_and_need_no_attributes() {
    let count = |headers: ReplyHeaders, peer: Peer| {
        headers.push("x-one", b"1");
        Ok::<_, OwnedError>(ReplyHeaders::take(&peer).iter().count())
    };
    let router = Router::new().method("count", [], count).intercept(Holds);
    let web = Web::new(Config::new(), router.into_make_service());
    let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
    let at = server.local_addr();
    let running = server.start_web(web);
    for (scheme, kept) in [("http", 2), ("ws", 0)] {
        let url = format!("{scheme}://{at}/");
        let client = connect(&url, Config::new(), ()).await.unwrap();
        assert_eq!(client.call::<usize>("count", ()).await.unwrap(), kept);
    }
    running.stop();
}

/// Sessions `one`, … of clients by the name in their token.
#[derive(Default)]
struct Store(Mutex<Vec<(String, String)>>);

impl Store {
    fn key(id: &str, context: &Context) -> (String, String) {
        let User(name) = context.extension().expect("the check has let them in");
        (id.into(), name.clone())
    }
}

impl Sessions for Store {
    fn begin(&self, context: &Context) -> Option<String> {
        let mut all = self.0.lock().unwrap();
        let id = format!("s-{}", all.len());
        all.push(Self::key(&id, context));
        Some(id)
    }

    fn is_open(&self, id: &str, context: &Context) -> bool {
        self.0.lock().unwrap().contains(&Self::key(id, context))
    }

    fn end(&self, id: &str, context: &Context) {
        self.0
            .lock()
            .unwrap()
            .retain(|known| *known != Self::key(id, context));
    }
}

// web.md §3
// HTP-01 USE-12
#[tokio::test(start_paused = true)]
async fn sessions_of_mcp_begin_with_initialize_and_end_with_delete() {
    let router = adding().method("initialize", [], || Ok::<_, OwnedError>("hello"));
    let revision = McpRevision::V2025_11_25;
    let web = Web::new(Config::mcp(revision), router.into_make_service())
        .rules(WebRules::mcp(revision))
        .authorize(check)
        .sessions(Store::default());
    let served = served(web);
    let mut raw = served.connect(4096);
    let mut ask = async |name: &str, session: &str, method: &str| {
        let mut lines = format!("authorization: Bearer {name}\r\n");
        if !session.is_empty() {
            lines += &format!("mcp-session-id: {session}\r\n");
        }
        let request = match method {
            "DELETE" => format!("DELETE / HTTP/1.1\r\nhost: x\r\n{lines}\r\n"),
            _ => post("/", &lines, &call(method, 1)),
        };
        raw.send(request).await.unwrap();
        let reply = raw.reply().await.unwrap();
        let session = reply.header("mcp-session-id").map(String::from);
        (reply.status, session)
    };
    assert_eq!(ask("Ada", "", "n").await, (400, None));
    assert_eq!(
        ask("Ada", "", "initialize").await,
        (200, Some("s-0".into()))
    );
    assert_eq!(ask("Ada", "s-0", "n").await, (200, None));
    assert_eq!(ask("Ada", "s-1", "n").await, (404, None));
    // It is of one client.
    assert_eq!(ask("Bob", "s-0", "n").await, (404, None));
    assert_eq!(ask("Bob", "s-0", "DELETE").await, (404, None));
    assert_eq!(ask("Ada", "", "DELETE").await, (400, None));
    assert_eq!(ask("Ada", "s-0", "DELETE").await, (202, None));
    assert_eq!(ask("Ada", "s-0", "n").await, (404, None));
}

// web.md §5
// HTP-01 USE-12
#[tokio::test(start_paused = true)]
async fn a_resume_on_another_stream_is_refused_with_404() {
    let old = McpRevision::V2025_11_25;
    let mut rules = WebRules::mcp(McpRevision::V2026_07_28);
    rules.mcp.as_mut().unwrap().revisions.push(old);
    let store = Store::default();
    store.0.lock().unwrap().push(("s-0".into(), "Ada".into()));
    let web = Web::new(Config::mcp(old), adding().into_make_service())
        .rules(rules)
        .authorize(check)
        .sessions(store);
    let served = served(web);
    let mut raw = served.connect(4096);
    let session = |id: &str| format!("mcp-session-id: {id}\r\n");
    let resume = |id: &str| format!("{}last-event-id: 7\r\n", session(id));
    for (name, lines, revision, status) in [
        (
            "a stream of another session, or none",
            resume("s-0"),
            old,
            404,
        ),
        ("a session that is gone", resume("s-1"), old, 404),
        ("no session", "last-event-id: 7\r\n".into(), old, 400),
        ("no resume", session("s-0"), old, 405),
        ("no sessions", resume("s-0"), McpRevision::V2026_07_28, 405),
    ] {
        let request = format!(
            "GET / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer Ada\r\naccept: text/event-stream\r\n\
             mcp-protocol-version: {}\r\n{lines}\r\n",
            revision.as_str()
        );
        raw.send(request).await.unwrap();
        assert_eq!(raw.reply().await.unwrap().status, status, "{name}");
    }
    // Of another client, and of one that is not let in.
    for (name, status) in [("Bearer Bob", 404), ("?", 401)] {
        let lines = resume("s-0");
        let head = format!("GET / HTTP/1.1\r\nhost: x\r\nauthorization: {name}\r\n{lines}\r\n");
        raw.send(head).await.unwrap();
        assert_eq!(raw.reply().await.unwrap().status, status, "{name}");
    }
}

// web.md §3
// HTP-01
#[tokio::test(start_paused = true)]
async fn a_session_ends_in_the_revisions_that_have_sessions() {
    let mut rules = WebRules::mcp(McpRevision::V2026_07_28);
    let old = McpRevision::V2025_11_25;
    rules.mcp.as_mut().unwrap().revisions.push(old);
    let web = Web::new(Config::mcp(old), adding().into_make_service())
        .rules(rules)
        .authorize(check)
        .sessions(Store::default());
    let served = served(web);
    let mut raw = served.connect(4096);
    for (revision, status) in [("2026-07-28", 405), ("2025-11-25", 404)] {
        let request = format!(
            "DELETE / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer Ada\r\n\
             mcp-protocol-version: {revision}\r\nmcp-session-id: s\r\n\r\n"
        );
        raw.send(request).await.unwrap();
        assert_eq!(raw.reply().await.unwrap().status, status, "{revision}");
    }
}

// web.md §3
// HTP-01
#[tokio::test(start_paused = true)]
async fn a_server_of_2026_07_28_refuses_headers_that_do_not_repeat_the_message() {
    let revision = McpRevision::V2026_07_28;
    let web = Web::new(Config::mcp(revision), adding().into_make_service())
        .rules(WebRules::mcp(revision));
    let served = served(web);
    let mut raw = served.connect(4096);
    let version = "mcp-protocol-version: 2026-07-28\r\n";
    for (method, asked, status, code) in [
        ("n", "n", 200, "\"result\":1"),
        ("n", "m", 400, "-32020"),
        ("m", "m", 404, "-32601"),
    ] {
        let lines = format!("{version}Mcp-Method: {method}\r\n");
        raw.send(post("/", &lines, &call(asked, 1))).await.unwrap();
        let reply = raw.reply().await.unwrap();
        assert_eq!(reply.status, status, "{reply:?}");
        assert!(reply.body.contains(code), "{reply:?}");
    }
    let twice = format!("{version}mcp-method: n\r\nmcp-method: n\r\n");
    raw.send(post("/", &twice, &call("n", 1))).await.unwrap();
    assert_eq!(raw.reply().await.unwrap().status, 400);
}
