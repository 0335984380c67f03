//! The answers of a router, byte for byte, over TCP.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::service::{
    AnyRequest, CallLog, Cx, Decision, Failure, Interceptor, LoggedCall, Logging, MethodInfo,
    Naming, Reply,
};
use antiphon_tokio::{
    Answer, Cancellation, Config, ConnectionConfig, ErrorObject, Extension, Internal, Link, Method,
    Metrics, OwnedError, OwnedId, OwnedJson, Params, Peer, RateLimit, Request, Router, State,
    TcpServer, connect, service,
};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

/// A raw connection to a server.
struct Raw {
    stream: BufReader<TcpStream>,
    /// `None` if another connection keeps the server.
    _running: Option<antiphon_tokio::Running>,
}

impl Raw {
    async fn to<S: Send + Sync + 'static>(router: &Router<S>) -> Self {
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(Config::new(), router.clone().into_make_service());
        let stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        Self {
            stream,
            _running: Some(running),
        }
    }

    /// Another connection to the same server.
    async fn another(&self) -> Self {
        let address = self.stream.get_ref().peer_addr().unwrap();
        Self {
            stream: BufReader::new(TcpStream::connect(address).await.unwrap()),
            _running: None,
        }
    }

    async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    async fn hear(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.stream.read_line(&mut line)).await;
        read.expect("an answer in time").unwrap();
        line.trim_end().to_owned()
    }

    /// Asks, and gives what stands behind the version and before the id.
    async fn ask(&mut self, method: &str, params: &str) -> String {
        let params = match params {
            "" => String::new(),
            params => format!(r#","params":{params}"#),
        };
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}"{params},"id":1}}"#
        ))
        .await;
        let answer = self.hear().await;
        let answer = answer
            .strip_prefix(r#"{"jsonrpc":"2.0","#)
            .and_then(|rest| rest.strip_suffix(r#","id":1}"#));
        answer.expect("an answer").to_owned()
    }
}

const INVALID_PARAMS: &str = r#""error":{"code":-32602,"message":"Invalid params"}"#;
const NOT_FOUND: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;
const INTERNAL: &str = r#""error":{"code":-32603,"message":"Internal error"}"#;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    x: i32,
    y: i32,
    #[serde(default)]
    speed: Option<u32>,
}

async fn divide(a: f64, b: f64) -> Result<f64, OwnedError> {
    match b {
        0.0 => Err(OwnedError::new(-32602, "Division by zero")),
        _ => Ok(a / b),
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn router(log: &Log) -> Router<Log> {
    let told = Arc::clone(log);
    Router::with_state(Arc::clone(log))
        .method("add", ["a", "b"], |a: f64, b: f64| {
            Ok::<_, OwnedError>(a + b)
        })
        .method("divide", ["a", "b"], divide)
        .method(
            "move",
            [],
            async |Params(to): Params<Move>, State(_): State<Log>, peer: Peer| {
                peer.try_notify("moved", &[to.x, to.y]).internal()?;
                Ok::<_, OwnedError>(to.speed)
            },
        )
        .method(
            "greet",
            ["name", "greeting"],
            |name: String, greeting: Option<String>| {
                Ok::<_, OwnedError>(format!("{} {name}", greeting.as_deref().unwrap_or("Hello")))
            },
        )
        .method("nothing", [], || ())
        .method("id", [], |id: OwnedId| Ok::<_, OwnedError>(id.to_string()))
        .method("cancelled", [], async |stop: Cancellation| {
            Ok::<_, OwnedError>(stop.is_cancelled())
        })
        .method("file", [], || {
            std::fs::read("/no such file")
                .internal()
                .map(|bytes| bytes.len())
        })
        .method("panic", [], async || -> Result<(), OwnedError> {
            panic!("as asked")
        })
        .raw("echo", |request| Ok(Answer::new(request.raw_params())))
        .notification("log", ["line"], |line: String, State(log): State<Log>| {
            log.lock().unwrap().push(line);
        })
        .notification("refuse", [], || {
            Err::<(), _>(OwnedError::new(-32602, "Division by zero"))
        })
        .notification("fail", [], || {
            Err::<(), _>(OwnedError::new(7, "told to nobody"))
        })
        .on_report(move |_, report| told.lock().unwrap().push(report.to_string()))
}

// GEN-01 SRV-01 SRV-02 SRV-03 SRV-05 SRV-06 SRV-07 SRV-08 SRV-09 SRV-28 SRV-33
#[tokio::test]
async fn methods_are_called_by_name_and_by_position() {
    let log = Log::default();
    let mut raw = Raw::to(&router(&log)).await;
    for (method, params, expected) in [
        ("add", "[10,5]", r#""result":15.0"#),
        ("add", r#"{"b":5,"a":10}"#, r#""result":15.0"#),
        ("add", "[10]", INVALID_PARAMS),
        ("add", "[10,5,1]", INVALID_PARAMS),
        ("add", r#"{"a":10}"#, INVALID_PARAMS),
        ("add", r#"{"a":10,"b":5,"c":1}"#, INVALID_PARAMS),
        ("add", r#"{"a":10,"b":5,"a":1}"#, INVALID_PARAMS),
        ("add", r#"["10",5]"#, INVALID_PARAMS),
        ("add", "", INVALID_PARAMS),
        ("divide", "[1,4]", r#""result":0.25"#),
        (
            "divide",
            "[1,0]",
            r#""error":{"code":-32602,"message":"Division by zero"}"#,
        ),
        ("greet", r#"["Ann"]"#, r#""result":"Hello Ann""#),
        (
            "greet",
            r#"{"name":"Ann","greeting":null}"#,
            r#""result":"Hello Ann""#,
        ),
        ("greet", r#"["Ann","Dear"]"#, r#""result":"Dear Ann""#),
        ("nothing", "", r#""result":null"#),
        ("nothing", "[]", r#""result":null"#),
        ("nothing", "[1]", INVALID_PARAMS),
        ("id", "", r#""result":"1""#),
        ("cancelled", "", r#""result":false"#),
        ("echo", "[1.50, 1e400]", r#""result":[1.50, 1e400]"#),
        ("echo", "", r#""result":null"#),
        ("log", r#"["asked"]"#, r#""result":null"#),
        ("none", "", NOT_FOUND),
        ("file", "", INTERNAL),
        ("panic", "", INTERNAL),
        ("rpc.none", "", NOT_FOUND),
    ] {
        assert_eq!(raw.ask(method, params).await, expected, "{method} {params}");
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"move","params":[1,2,3],"id":1}"#)
        .await;
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","method":"moved","params":[1,2]}"#
    );
    assert_eq!(raw.hear().await, r#"{"jsonrpc":"2.0","result":3,"id":1}"#);
    assert_eq!(
        raw.ask("move", r#"{"x":1,"y":2,"z":3}"#).await,
        INVALID_PARAMS
    );
}

// SRV-13 SRV-27 USE-17 ERR-10
#[tokio::test]
async fn what_a_notification_comes_to_is_reported_and_never_answered() {
    let log = Log::default();
    let mut raw = Raw::to(&router(&log)).await;
    for line in [
        r#"{"jsonrpc":"2.0","method":"log","params":["told"]}"#,
        r#"{"jsonrpc":"2.0","method":"log","params":[1]}"#,
        r#"{"jsonrpc":"2.0","method":"fail"}"#,
        r#"{"jsonrpc":"2.0","method":"refuse"}"#,
        r#"{"jsonrpc":"2.0","method":"none"}"#,
        r#"{"jsonrpc":"2.0","method":"file"}"#,
        r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#,
    ] {
        raw.say(line).await;
    }
    // All of it has been served when this is, and nothing was answered before.
    assert_eq!(raw.ask("nothing", "").await, r#""result":null"#);
    let log = log.lock().unwrap();
    let expected = [
        "told",
        "invalid params: `line`: invalid type: integer, expected a string at line 1 column 1: log (notification)",
        "a handler failed: told to nobody (7): fail (notification)",
        "a handler failed: Division by zero (-32602): refuse (notification)",
        "a handler failed: No such file or directory (os error 2): file (notification)",
    ];
    assert_eq!(*log, expected);
}

// USE-17 SEC-06
#[tokio::test]
async fn what_the_peer_is_not_told_is_reported_with_its_cause() {
    let log = Log::default();
    let mut raw = Raw::to(&router(&log)).await;
    raw.ask("file", "").await;
    raw.ask("add", r#"{"a":"secret","b":1}"#).await;
    raw.ask("nothing", "").await;
    let log = log.lock().unwrap();
    assert!(
        log[0].starts_with(
            "a handler failed: No such file or directory (os error 2): file (id 1) after"
        ),
        "{log:?}"
    );
    assert!(
        log[1].starts_with("invalid params: `a`: invalid type: string, expected f64 at"),
        "{log:?}"
    );
    assert_eq!(log.len(), 2);
}

// EXT-10 EXT-01 EXT-02 EXT-03 EXT-04 EXT-05 EXT-06 EXT-07 EXT-09 EXT-12 SRV-12
#[tokio::test]
async fn extensions_come_before_what_is_built_in() {
    let router = Router::new()
        .method("b", [], || ())
        .method("a", ["x"], |_: u8| Ok::<_, OwnedError>(()))
        .method("hidden", [], || ())
        .visible(|_, info| info.name() != "hidden")
        .describe("T", "1");
    let mut raw = Raw::to(&router).await;
    assert_eq!(
        raw.ask("rpc.listMethods", "").await,
        r#""result":["a","b"]"#
    );
    assert_eq!(raw.ask("rpc.listMethods", "[1]").await, INVALID_PARAMS);
    let said = raw.ask("rpc.discover", "").await;
    assert!(said.starts_with(r#""result":{"openrpc":"1.0.0","info":{"title":"T","version":"1"},"methods":[{"name":"a","params":[{"name":"x","required":true,"#), "{said}");
    assert!(!said.contains("hidden"));
    let router = router
        .extension("rpc.describe", ["what"], |what: String| {
            Ok::<_, OwnedError>(what)
        })
        .extension(
            "rpc.discover",
            ["declines"],
            |declines: Option<bool>| match declines {
                Some(true) => Err(OwnedError::from(
                    antiphon_tokio::ErrorObject::method_not_found(),
                )),
                _ => Ok("mine"),
            },
        );
    assert_eq!(
        raw.ask("rpc.describe", r#"["it"]"#).await,
        r#""result":"it""#
    );
    assert_eq!(raw.ask("rpc.discover", "").await, r#""result":"mine""#);
    assert_eq!(raw.ask("rpc.discover", "[true]").await, INVALID_PARAMS);
    // An extension asked without an id is answered nothing.
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.listMethods"}"#)
        .await;
    let off = Router::new()
        .without_extensions()
        .method("rpc.own", [], || ());
    assert_eq!(raw.ask("rpc.own", "").await, NOT_FOUND);
    let mut raw = Raw::to(&off).await;
    assert_eq!(raw.ask("rpc.own", "").await, r#""result":null"#);
    assert_eq!(raw.ask("rpc.listMethods", "").await, NOT_FOUND);
    drop(router);
}

// SRV-34
#[tokio::test]
async fn methods_come_and_go_while_connections_are_open() {
    let router = Router::new().method("n", [], || Ok::<_, OwnedError>(1));
    let mut raw = Raw::to(&router).await;
    assert_eq!(raw.ask("n", "").await, r#""result":1"#);
    let n = MethodInfo::request("n", &[]);
    router
        .replace(n.clone(), &[], || Ok::<_, OwnedError>(2))
        .unwrap();
    assert_eq!(raw.ask("n", "").await, r#""result":2"#);
    assert!(router.remove("n") && !router.remove("n"));
    assert_eq!(raw.ask("n", "").await, NOT_FOUND);
    router
        .try_method(n, &[], async || Ok::<_, OwnedError>(3))
        .unwrap();
    assert_eq!(raw.ask("n", "").await, r#""result":3"#);
}

#[service]
trait Counter {
    fn count(&self) -> Result<u32, OwnedError>;
    #[rpc(name = "count/by")]
    fn count_by(&self, #[rpc(context)] peer: Peer, n: u32) -> Result<u32, OwnedError>;
}

#[derive(Default)]
struct Counting(AtomicU32);

impl Counter for Counting {
    fn count(&self) -> Result<u32, OwnedError> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn count_by(&self, peer: Peer, n: u32) -> Result<u32, OwnedError> {
        peer.try_notify("counting", &[n]).internal()?;
        Ok(self.0.fetch_add(n, Ordering::Relaxed))
    }
}

// SRV-10 SRV-11 SRV-35 GEN-03
#[tokio::test]
async fn several_services_share_a_router_under_prefixes() {
    let router = Router::new()
        .service(Counting::default().into_service())
        .service(Counting::default().into_service().prefix("second"))
        .naming(Naming::FullyQualified)
        .service(Counting::default().into_service());
    let taken = router
        .try_service(Counting::default().into_service())
        .unwrap_err();
    assert!(taken.to_string().contains("`Counter.count`"), "{taken}");
    let mut raw = Raw::to(&router).await;
    let names = r#""result":["Counter.count","Counter.count/by","count","count/by","second.count","second.count/by"]"#;
    assert_eq!(raw.ask("rpc.listMethods", "").await, names);
    for method in ["count", "second.count", "Counter.count"] {
        assert_eq!(raw.ask(method, "").await, r#""result":0"#);
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"second.count/by","params":{"n":5},"id":2}"#)
        .await;
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","method":"counting","params":[5]}"#
    );
    assert_eq!(raw.hear().await, r#"{"jsonrpc":"2.0","result":1,"id":2}"#);
}

fn refusal(register: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let refused = std::panic::catch_unwind(register).unwrap_err();
    refused
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_default()
}

// SRV-04 SRV-11 SRV-12 GEN-13
#[test]
fn names_that_cannot_be_used_are_refused_at_registration() {
    let one = |_: u8| Ok::<_, OwnedError>(());
    let add = || Router::new().method("add", ["x"], one);
    assert!(
        refusal(move || drop(add().method("add", ["x"], one)))
            .contains("`add` is registered already")
    );
    assert!(refusal(move || drop(Router::new().method(" ", ["x"], one))).contains("needs a name"));
    assert!(refusal(move || drop(Router::new().method("rpc.x", ["x"], one))).contains("reserved"));
    assert!(
        refusal(move || drop(Router::new().method("m", [""], one)))
            .contains("parameter of `m` needs a name")
    );
    assert!(
        refusal(move || drop(Router::new().method("m", ["x", "y"], one)))
            .contains("takes 1 parameters, and 2 are named")
    );
    let two = |_: u8, _: u8| Ok::<_, OwnedError>(());
    assert!(
        refusal(move || drop(Router::new().method("m", ["x", "x"], two)))
            .contains("have the name `x`")
    );
    let whole = |_: Params<u8>, _: u8| Ok::<_, OwnedError>(());
    assert!(
        refusal(move || drop(Router::new().method("m", ["x"], whole))).contains("takes all params")
    );
}

#[derive(Clone)]
struct User(String);

thread_local! {
    static SPAN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Counts steps of handlers, and shows them a number while they run.
struct Spans;

impl Interceptor<Request> for Spans {
    fn scope(&self, _: &Cx, _: &Request, step: &mut dyn FnMut()) {
        SPAN.set(7);
        step();
        SPAN.set(0);
    }
}

/// Turns what was asked into something else.
struct Rewrites;

impl Interceptor<Request> for Rewrites {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        match request.method() {
            "old" => cx.set_method("greet"),
            "greet" => cx.set_params(OwnedJson::from_value(&["Bob"]).unwrap()),
            "cached" => return Decision::Answer(Ok(OwnedJson::from_value(&"kept").unwrap())),
            "broken" => panic!("as asked"),
            _ => {}
        }
        Decision::Continue
    }

    fn response(&self, _: &Cx, request: &Request, reply: &mut Reply) {
        if request.method() == "hidden error" {
            assert_eq!(reply.error().map(|error| error.code()), Some(-32601));
            reply.replace(Err(OwnedError::new(1200, "Nothing here")));
        }
    }
}

fn guarded() -> Router {
    Router::new()
        .check(|cx, request| match request.method() {
            "login" => Ok(()),
            _ => {
                let user = request.connection_attributes().get::<User>().cloned();
                let user = user.ok_or_else(|| OwnedError::new(1000, "Who are you?"))?;
                cx.attributes_mut().insert(user);
                Ok(())
            }
        })
        .raw("login", |request| {
            let [name]: [String; 1] = request.params()?;
            request.connection_attributes().insert(User(name));
            Ok(().into())
        })
        .method("me", [], |Extension(user): Extension<User>| {
            Ok::<_, OwnedError>(user.0)
        })
        .notification("tell", [], || ())
}

// INT-01 INT-04 INT-05 INT-06 INT-11 INT-12 SEC-03 SEC-14
#[tokio::test]
async fn a_check_covers_every_call_of_a_connection() {
    const WHO: &str = r#""error":{"code":1000,"message":"Who are you?"}"#;
    let router = guarded();
    let mut raw = Raw::to(&router).await;
    for method in ["me", "rpc.listMethods", "none", "tell"] {
        assert_eq!(raw.ask(method, "").await, WHO, "{method}");
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"tell"}"#).await;
    raw.say(r#"[{"jsonrpc":"2.0","method":"me","id":1},{"jsonrpc":"2.0","method":"login","params":["Ann"],"id":2}]"#).await;
    assert_eq!(
        raw.hear().await,
        format!(r#"[{{"jsonrpc":"2.0",{WHO},"id":1}},{{"jsonrpc":"2.0","result":null,"id":2}}]"#)
    );
    assert_eq!(raw.ask("me", "").await, r#""result":"Ann""#);
    // Another connection knows nothing of it.
    let mut other = Raw::to(&router).await;
    assert_eq!(other.ask("me", "").await, WHO);
}

// INT-01 INT-12 SEC-03 CAN-11
#[tokio::test]
async fn a_check_that_waits_decides_for_its_call_and_holds_up_no_other() {
    let gate = Arc::new(tokio::sync::Notify::new());
    let inside = Arc::clone(&gate);
    let router = Router::new()
        .check_async(move |request| {
            let (method, gate) = (request.method().to_owned(), Arc::clone(&inside));
            async move {
                match &*method {
                    "slow" => gate.notified().await,
                    "never" => std::future::pending().await,
                    "refused" => return Err(OwnedError::new(1001, "Not you")),
                    _ => tokio::task::yield_now().await,
                }
                Ok(User(method))
            }
        })
        .handler_timeout(std::time::Duration::from_secs(60))
        .method("slow", [], |Extension(user): Extension<User>| {
            Ok::<_, OwnedError>(user.0)
        })
        .method("quick", [], |Extension(user): Extension<User>| {
            Ok::<_, OwnedError>(user.0)
        })
        .method("never", [], || Err::<(), _>(OwnedError::new(1, "it began")));
    let mut raw = Raw::to(&router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"slow","id":1}"#).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"never","id":2}"#)
        .await;
    assert_eq!(raw.ask("quick", "").await, r#""result":"quick""#);
    let refused = r#""error":{"code":1001,"message":"Not you"}"#;
    assert_eq!(raw.ask("refused", "").await, refused);
    // Given up while it waits, its handler never begins.
    raw.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#)
        .await;
    let cancelled = raw.hear().await;
    assert!(
        cancelled.contains("-32001") && cancelled.ends_with(r#""id":2}"#),
        "{cancelled}"
    );
    gate.notify_one();
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","result":"slow","id":1}"#
    );
}

// INT-01 INT-11 SRV-18
#[tokio::test]
async fn interceptors_change_answer_and_surround_calls() {
    let router = Router::new()
        .method("greet", ["name"], |name: String| {
            Ok::<_, OwnedError>(format!("Hello {name}"))
        })
        .method("span", [], async || {
            let before = SPAN.get();
            tokio::task::yield_now().await;
            Ok::<_, OwnedError>((before, SPAN.get()))
        })
        .method("span at once", [], || Ok::<_, OwnedError>(SPAN.get()))
        .intercept(Spans)
        .intercept(Rewrites);
    let mut raw = Raw::to(&router).await;
    for (method, params, expected) in [
        ("old", r#"["Ann"]"#, r#""result":"Hello Ann""#),
        ("greet", r#"["Ann"]"#, r#""result":"Hello Bob""#),
        ("cached", "", r#""result":"kept""#),
        ("broken", "", INTERNAL),
        (
            "hidden error",
            "",
            r#""error":{"code":1200,"message":"Nothing here"}"#,
        ),
        ("none", "", NOT_FOUND),
        ("span", "", r#""result":[7,7]"#),
        ("span at once", "", r#""result":7"#),
    ] {
        assert_eq!(raw.ask(method, params).await, expected, "{method}");
    }
    assert_eq!(SPAN.get(), 0);
}

// INT-09 SEC-09 INT-06
#[tokio::test]
async fn calls_beyond_a_rate_are_refused() {
    const LIMITED: &str = r#""error":{"code":-32002,"message":"Rate limit exceeded"}"#;
    const DONE: &str = r#""result":null"#;
    // So slow that no token comes back while the test runs.
    let own = || RateLimit::per_connection(1, 2);
    let router = Router::new().method("n", [], || ()).intercept(own());
    let (mut one, mut two) = (Raw::to(&router).await, Raw::to(&router).await);
    for raw in [&mut one, &mut two] {
        raw.say(r#"{"jsonrpc":"2.0","method":"n"}"#).await;
        assert_eq!(raw.ask("n", "").await, DONE);
        assert_eq!(raw.ask("n", "").await, LIMITED);
        raw.say(r#"{"jsonrpc":"2.0","method":"n"}"#).await;
        assert_eq!(raw.ask("n", "").await, LIMITED);
    }
    let router = Router::new()
        .method("n", [], || ())
        .intercept(RateLimit::per_server(1, 3));
    let mut one = Raw::to(&router).await;
    let mut two = one.another().await;
    for (raw, expected) in [(&mut one, [DONE, DONE]), (&mut two, [DONE, LIMITED])] {
        for expected in expected {
            assert_eq!(raw.ask("n", "").await, expected);
        }
    }
}

// INT-09
#[tokio::test(start_paused = true)]
async fn servers_that_began_at_different_times_share_a_rate() {
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(RateLimit::per_server(1, 3));
    let mut serving = Vec::new();
    let mut server = || {
        let (near, far) = Link::pair();
        serving.push(connect(far, Config::new(), router.clone()));
        connect(near, Config::new(), ())
    };
    let one = server();
    tokio::time::advance(Duration::from_secs(3600)).await;
    let other = server();
    assert_eq!(one.call::<u8>("n", ()).await.unwrap(), 1);
    assert_eq!(other.call::<u8>("n", ()).await.unwrap(), 1);
    assert_eq!(one.call::<u8>("n", ()).await.unwrap(), 1);
    assert!(other.call::<u8>("n", ()).await.is_err());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(other.call::<u8>("n", ()).await.unwrap(), 1);
}

// INT-09
#[tokio::test(start_paused = true)]
async fn each_limit_of_a_connection_counts_for_itself() {
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(RateLimit::per_connection(1, 3))
        .intercept(RateLimit::per_connection(1, 5));
    let (near, far) = Link::pair();
    let _serving = connect(far, Config::new(), router);
    let peer = connect(near, Config::new(), ());
    for _ in 0..3 {
        assert_eq!(peer.call::<u8>("n", ()).await.unwrap(), 1);
    }
    assert!(peer.call::<u8>("n", ()).await.is_err());
}

// SRV-30 SEC-03
#[tokio::test(start_paused = true)]
async fn a_check_that_waits_too_long_ends_its_call() {
    let router = Router::new()
        .check_async(|_| std::future::pending::<Result<(), OwnedError>>())
        .handler_timeout(Duration::from_secs(5))
        .method("n", [], || Ok::<_, OwnedError>(1));
    let (near, far) = Link::pair();
    let _serving = connect(far, Config::new(), router);
    let peer = connect(near, Config::new(), ());
    let began = tokio::time::Instant::now();
    let ended = peer.call::<u8>("n", ()).await.unwrap_err();
    assert!(ended.to_string().contains("Request timeout"), "{ended}");
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[derive(Clone, Default)]
struct Lines(Log);

impl CallLog for Lines {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        let id = call.id.as_ref().map(ToString::to_string);
        self.0
            .lock()
            .unwrap()
            .push(format!("> {} {id:?} {params:?}", call.method));
    }

    fn response(&self, call: &LoggedCall<'_>, _: Duration, result: Option<&str>) {
        self.0
            .lock()
            .unwrap()
            .push(format!("< {} {result:?}", call.method));
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        _: Duration,
        error: &ErrorObject<'_>,
        cause: Option<&dyn Error>,
    ) {
        let cause = cause.map(ToString::to_string);
        self.0
            .lock()
            .unwrap()
            .push(format!("! {} {error} {cause:?}", call.method));
    }
}

// INT-07 OBS-01 OBS-05 OBS-09 SEC-15
#[tokio::test]
async fn a_log_has_payloads_only_if_they_are_wanted_and_as_they_are_redacted() {
    let login = |name: String, _password: String| match name.as_str() {
        "nobody" => std::fs::read("/no such file").internal().map(|_| name),
        _ => Ok(name),
    };
    let plain = Lines::default();
    let router = Router::new()
        .method("login", ["name", "password"], login)
        .intercept(Logging::new(plain.clone()));
    let mut raw = Raw::to(&router).await;
    raw.ask("login", r#"["Ann","s3cret"]"#).await;
    raw.ask("login", r#"["nobody","s3cret"]"#).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"none"}"#).await;
    raw.ask("login", "").await;
    assert_eq!(
        *plain.0.lock().unwrap(),
        [
            "> login Some(\"1\") None",
            "< login None",
            "> login Some(\"1\") None",
            "! login Internal error (-32603) Some(\"No such file or directory (os error 2)\")",
            "> none None None",
            "! none Method not found (-32601) None",
            "> login Some(\"1\") None",
            "! login Invalid params (-32602) Some(\"a parameter is missing\")",
        ]
    );
    let redacted = Lines::default();
    let logging = Logging::new(redacted.clone())
        .with_payloads(|_, payload| Some(payload.replace("s3cret", "…")));
    let router = Router::new()
        .method("login", ["name", "password"], login)
        .intercept(logging);
    let mut raw = Raw::to(&router).await;
    raw.ask("login", r#"["Ann","s3cret"]"#).await;
    assert_eq!(
        *redacted.0.lock().unwrap(),
        [
            r#"> login Some("1") Some("[\"Ann\",\"…\"]")"#,
            r#"< login Some("\"Ann\"")"#,
        ]
    );
}

/// Tells of ends with the id and the time.
#[derive(Clone, Default)]
struct Ends(Log);

impl Ends {
    fn say(&self, word: &str, call: &LoggedCall<'_>, rest: &str) {
        let id = call.id.as_ref().map(ToString::to_string);
        let line = format!("{word} {} {id:?} {rest}", call.method);
        self.0.lock().unwrap().push(line);
    }
}

impl CallLog for Ends {
    fn response(&self, call: &LoggedCall<'_>, took: Duration, _: Option<&str>) {
        self.say("<", call, &format!("{took:?}"));
    }

    fn given_up(&self, call: &LoggedCall<'_>) {
        self.say("x", call, "");
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        took: Duration,
        error: &ErrorObject<'_>,
        _: Option<&dyn Error>,
    ) {
        self.say("!", call, &format!("{took:?} {}", error.code()));
    }
}

// OBS-01 OBS-05 INT-03
#[tokio::test(start_paused = true)]
async fn a_log_has_an_answer_that_comes_later_when_it_comes() {
    let kept = Arc::<Mutex<Vec<antiphon_tokio::Responder>>>::default();
    let keep = Arc::clone(&kept);
    let ends = Ends::default();
    let router = Router::new()
        .raw("later", move |request| {
            keep.lock().unwrap().push(request.defer());
            Ok(Answer::deferred())
        })
        .intercept(Logging::new(ends.clone()));
    let (near, far) = Link::pair();
    let _server = connect(far, Config::new(), router);
    let peer = connect(near, Config::new(), ());
    let call = async || peer.call("later", ()).start().await.unwrap();
    let calls = [call().await, call().await, call().await];
    while kept.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*ends.0.lock().unwrap(), [""; 0]);
    tokio::time::advance(Duration::from_secs(2)).await;
    let mut open = kept.lock().unwrap().drain(..).collect::<Vec<_>>();
    let last = open.pop().unwrap();
    open.pop()
        .unwrap()
        .err(&ErrorObject::new(1001, "no"))
        .unwrap();
    open.pop().unwrap().ok(&7).unwrap();
    let [one, other, third] = calls;
    assert_eq!(one.result::<u8>().await.unwrap(), 7);
    assert!(other.result::<u8>().await.is_err());
    drop((third, peer));
    last.cancellation().await;
    drop(last);
    let expected = [
        "! later Some(\"2\") 2s 1001",
        "< later Some(\"1\") 2s",
        "x later Some(\"3\") ",
    ];
    assert_eq!(*ends.0.lock().unwrap(), expected);
}

// SRV-30 ERR-04 ERR-05 ERR-06 ERR-12
#[tokio::test]
async fn a_handler_has_a_deadline_and_failures_may_be_said_otherwise() {
    let log = Log::default();
    let told = Arc::clone(&log);
    let router = Router::new()
        .method("slow", [], async || {
            std::future::pending::<()>().await;
            Ok::<_, OwnedError>(())
        })
        .method("file", [], || {
            std::fs::read("/no such file")
                .internal()
                .map(|bytes| bytes.len())
        })
        .method("n", ["n"], |n: u8| Ok::<_, OwnedError>(n))
        .raw("map", |_| {
            let no_text = std::collections::BTreeMap::from([((1, 2), 3)]);
            Ok(Answer::new(&no_text))
        })
        .handler_timeout(Duration::from_millis(50))
        .on_report(move |_, report| told.lock().unwrap().push(report.to_string()));
    let mut raw = Raw::to(&router).await;
    assert_eq!(
        raw.ask("slow", "").await,
        r#""error":{"code":-32005,"message":"Request timeout"}"#
    );
    assert_eq!(raw.ask("file", "").await, INTERNAL);
    raw.say(r#"{"jsonrpc":"2.0","method":"slow"}"#).await;
    assert_eq!(raw.ask("n", "[1]").await, r#""result":1"#);
    let router = router.map_failures(|failure, request| match failure {
        Failure::Params(error) => Some(OwnedError::new(
            -32602,
            format!("{}: {error}", request.method()),
        )),
        Failure::Encode(_) => Some(OwnedError::new(-32001, "No text")),
        _ => failure
            .cause()
            .map(|_| OwnedError::new(-32000, "Try later")),
    });
    assert_eq!(
        raw.ask("file", "").await,
        r#""error":{"code":-32000,"message":"Try later"}"#
    );
    let said = r#""error":{"code":-32602,"message":"n: a parameter is missing"}"#;
    assert_eq!(raw.ask("n", "").await, said);
    assert_eq!(
        raw.ask("map", "").await,
        r#""error":{"code":-32001,"message":"No text"}"#
    );
    assert_eq!(raw.ask("none", "").await, NOT_FOUND);
    drop(router);
    let log = log.lock().unwrap();
    let starts = [
        "a handler failed: Request timeout (-32005): slow (id 1) after",
        "a handler failed: No such file",
        "a handler failed: Request timeout (-32005): slow (notification)",
        "a handler failed: No such file",
        "invalid params: a parameter is missing: `n`: n (id 1)",
        "a handler failed: ",
    ];
    for (said, start) in log.iter().zip(starts) {
        assert!(said.starts_with(start), "{log:?}");
    }
    assert_eq!(log.len(), starts.len(), "{log:?}");
}

// OBS-02 OBS-03 OBS-07 OBS-08 INT-10
#[tokio::test]
async fn calls_are_counted_by_method_and_error_and_unknown_names_are_one() {
    let metrics = Metrics::new();
    let router = Router::new()
        .method("n", ["n"], |n: u8| Ok::<_, OwnedError>(n))
        .method("odd \"name\"", [], || ())
        .method("slow", [], async || {
            std::future::pending::<()>().await;
            Ok::<_, OwnedError>(())
        })
        .intercept(metrics.clone());
    let mut raw = Raw::to(&router).await;
    raw.ask("n", "[1]").await;
    raw.ask("n", "[2]").await;
    raw.ask("n", "").await;
    raw.say(r#"{"jsonrpc":"2.0","method":"odd \"name\""}"#)
        .await;
    for n in 0..100 {
        raw.ask(&format!("none{n}"), "").await;
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"slow","id":1}"#).await;
    raw.ask("n", "[3]").await;
    let count = |labels: &str| {
        let text = metrics.to_string();
        let start = format!(
            "rpc_server_call_duration_seconds_count{{rpc_system_name=\"jsonrpc\",rpc_method={labels}}} "
        );
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&start).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {start} in {text}"))
    };
    assert_eq!(count(r#""n""#), "3");
    assert_eq!(count(r#""n",error_type="-32602""#), "1");
    assert_eq!(count(r#""odd \"name\"""#), "1");
    assert_eq!(count(r#""_OTHER",error_type="-32601""#), "100");
    assert!(
        metrics
            .to_string()
            .contains("antiphon_server_calls_running 1\n")
    );
    drop(raw);
    // The handler is dropped with its connection.
    let ended = async {
        while !metrics
            .to_string()
            .contains("antiphon_server_calls_running 0\n")
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended)
        .await
        .expect("the handler is given up");
    assert_eq!(count(r#""slow",error_type="cancelled""#), "1");
}

// INT-05 OBS-02
#[tokio::test]
async fn the_size_of_a_batch_is_counted_once_on_each_side() {
    let (served, called) = (Metrics::new(), Metrics::new());
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .notification("told", [], || ())
        .intercept(served.clone());
    let mut raw = Raw::to(&router).await;
    for batch in [
        // One that begins with what is no call, one that is told only, and one of nothing valid.
        r#"[7,{"jsonrpc":"2.0","method":"n","id":1},{"jsonrpc":"2.0","method":"n","id":2}]"#,
        r#"[{"jsonrpc":"2.0","method":"told"},{"jsonrpc":"2.0","method":"n","id":1}]"#,
        "[7,8]",
        // Neither is a batch that is taken.
        "[]",
        r#"{"jsonrpc":"2.0","method":"n","id":1}"#,
    ] {
        raw.say(batch).await;
        raw.hear().await;
    }

    let (near, far) = Link::pair();
    let options = ConnectionConfig::from(Config::new())
        .intercept(called.clone())
        .intercept(ReadOnly);
    let _server = connect(far, Config::new(), router);
    let peer = connect(near, options, Router::new().intercept(served.clone()));
    let (handles, mut came) = peer
        .batch(|batch| {
            batch.notify("told", ())?;
            let first = batch.call::<i32>("n", ())?;
            Ok((first, batch.call::<i32>("write", ())?))
        })
        .await
        .unwrap();
    assert_eq!(came.fetch(handles.0).unwrap(), 1);
    // Nothing of this one is sent.
    let (_, started) = peer
        .batch(|batch| batch.call::<i32>("write", ()))
        .start()
        .await
        .unwrap();
    started.await;

    let sizes = |metrics: &Metrics, side: &str| -> Vec<String> {
        let start = format!("antiphon_{side}_batch_size_");
        let text = metrics.to_string();
        let lines = text.lines().filter_map(|line| line.strip_prefix(&start));
        let lines = lines.map(|line| line.replace("{rpc_system_name=\"jsonrpc\"", "{"));
        lines.collect()
    };
    let expected = |up_to_two: u32, up_to_five: u32, sum: u32| -> Vec<String> {
        let mut lines = vec![
            "bucket{,le=\"1\"} 0".to_owned(),
            format!("bucket{{,le=\"2\"}} {up_to_two}"),
        ];
        for bound in ["5", "10", "20", "50", "100", "1000", "10000", "+Inf"] {
            lines.push(format!("bucket{{,le=\"{bound}\"}} {up_to_five}"));
        }
        lines.push(format!("sum{{}} {sum}"));
        lines.push(format!("count{{}} {up_to_five}"));
        lines
    };
    // Three of the raw connection and one of the peer; what answers is none.
    assert_eq!(sizes(&served, "server"), expected(3, 4, 9), "{served}");
    assert_eq!(sizes(&called, "client"), expected(1, 1, 2), "{called}");
    for (metrics, side) in [(&served, "client"), (&called, "server")] {
        assert_eq!(sizes(metrics, side), [""; 0]);
    }
}

/// Answers what would write.
struct ReadOnly;

impl<R: AnyRequest + ?Sized> Interceptor<R> for ReadOnly {
    fn request(&self, _: &mut Cx, request: &R) -> Decision {
        match request.method() {
            "write" => OwnedError::new(1001, "Read only").into(),
            _ => Decision::Continue,
        }
    }
}

// INT-03 OBS-02
#[tokio::test]
async fn a_call_that_is_answered_later_ends_with_its_answer() {
    let metrics = Metrics::new();
    let kept = Arc::<Mutex<Vec<antiphon_tokio::Responder>>>::default();
    let (keep, threads) = (Arc::clone(&kept), std::thread::spawn);
    let router = Router::new()
        .raw("at once", |request| {
            drop(request.defer().ok("before the handler returns"));
            Ok(Answer::deferred())
        })
        .raw("on a thread", move |request| {
            let responder = request.defer();
            // A second one answers nothing, and is not the end.
            drop(request.defer().ok(&2).unwrap_err());
            drop(threads(move || responder.ok("later")));
            Ok(Answer::deferred())
        })
        .raw("on the pool", |request| Ok(request.spawn(|_| Ok(1.into()))))
        .raw("on a task", |request| {
            Ok(request.run_to_end(async { Err(OwnedError::new(1001, "no")) }))
        })
        .raw(
            "panics",
            |request| Ok(request.spawn(|_| panic!("as asked"))),
        )
        .raw("dropped", |request| {
            drop(request.defer());
            Ok(Answer::deferred())
        })
        .raw("forgotten", |_| Ok(Answer::deferred()))
        .raw("kept", move |request| {
            keep.lock().unwrap().push(request.defer());
            Ok(Answer::deferred())
        })
        .intercept(metrics.clone());
    let mut raw = Raw::to(&router).await;
    let mut answers = Vec::new();
    for method in [
        "at once",
        "on a thread",
        "on the pool",
        "on a task",
        "panics",
        "dropped",
        "forgotten",
    ] {
        answers.push(raw.ask(method, "").await);
    }
    raw.say(r#"{"jsonrpc":"2.0","method":"forgotten"}"#).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"kept","id":2}"#).await;
    // A thread that answers tells of it behind the answer.
    let begun = async {
        while kept.lock().unwrap().is_empty() || !metrics.to_string().contains("_running 1\n") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, begun).await.expect("one is open");
    let still_open = kept.lock().unwrap().pop().unwrap();
    drop(raw);
    timeout(PATIENCE, still_open.cancellation())
        .await
        .expect("it is given up");
    still_open.ok("too late").unwrap_err();
    assert!(
        metrics.to_string().contains("_calls_running 0\n"),
        "{metrics}"
    );
    let text = metrics.to_string();
    let counts: Vec<_> = text
        .lines()
        .filter_map(|line| {
            line.split_once("_count{rpc_system_name=\"jsonrpc\",rpc_method=")?
                .1
                .into()
        })
        .collect();
    let expected = [
        r#""at once"} 1"#,
        r#""dropped",error_type="-32603"} 1"#,
        r#""forgotten"} 1"#,
        r#""forgotten",error_type="-32603"} 1"#,
        r#""kept",error_type="cancelled"} 1"#,
        r#""on a task",error_type="1001"} 1"#,
        r#""on a thread"} 1"#,
        r#""on the pool"} 1"#,
        r#""panics",error_type="panicked"} 1"#,
    ];
    assert_eq!(counts, expected);
    assert_eq!(answers[0], r#""result":"before the handler returns""#);
    assert_eq!(answers[6], INTERNAL);
}

// OBS-03
#[tokio::test]
async fn connections_are_counted_while_they_are_open_and_ever() {
    let metrics = Metrics::new();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(metrics.clone());
    let mut one = Raw::to(&router).await;
    let mut other = one.another().await;
    one.ask("n", "").await;
    other.ask("n", "").await;
    let shows = |open: u32, total: u32| {
        let text = metrics.to_string();
        text.contains(&format!("\nantiphon_server_connections_open {open}\n"))
            && text.contains(&format!("\nantiphon_server_connections_total {total}\n"))
    };
    assert!(shows(2, 2), "{metrics}");
    drop(other);
    let ended = async {
        while !shows(1, 2) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, ended)
        .await
        .expect("its end is counted, its beginning stays");
}

/// Panics in `request`, in `response`, or does its step twice.
struct Broken;

impl Interceptor<Request> for Broken {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        match request.method() {
            "list" => cx.set_method("rpc.listMethods"),
            "ask" => panic!("as asked"),
            _ => {}
        }
        Decision::Continue
    }

    fn response(&self, _: &Cx, request: &Request, _: &mut Reply) {
        assert_ne!(request.method(), "answer", "as asked");
    }

    fn scope(&self, _: &Cx, _: &Request, step: &mut dyn FnMut()) {
        step();
        step();
    }
}

// INT-11 USE-17
#[tokio::test]
async fn an_interceptor_that_fails_leaves_no_other_in_the_dark() {
    let metrics = Metrics::new();
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .method("answer", [], || ())
        .intercept(metrics.clone())
        .intercept(Broken);
    let mut raw = Raw::to(&router).await;
    assert_eq!(raw.ask("n", "").await, r#""result":1"#);
    assert_eq!(raw.ask("list", "").await, r#""result":["answer","n"]"#);
    assert_eq!(raw.ask("ask", "").await, INTERNAL);
    assert_eq!(raw.ask("answer", "").await, INTERNAL);
    let text = metrics.to_string();
    assert!(text.contains("antiphon_server_calls_running 0\n"), "{text}");
    for series in [
        r#""_OTHER",error_type="panicked""#,
        r#""answer",error_type="panicked""#,
    ] {
        let line = format!("_count{{rpc_system_name=\"jsonrpc\",rpc_method={series}}} 1\n");
        assert!(text.contains(&line), "{text}");
    }
}

/// `add`, which a type describes.
enum Add {}

impl Method for Add {
    const NAME: &str = "add";
    type Params = Terms;
    type Result = f64;
    type Error = OwnedError;
}

#[derive(Deserialize)]
struct Terms {
    a: f64,
    b: f64,
}

/// `log`, which a type describes, and of which nothing comes back.
enum Line {}

impl Method for Line {
    const NAME: &str = "log";
    type Params = [String; 1];
    type Result = ();
    type Error = OwnedError;
}

// USE-20
#[tokio::test]
async fn a_method_that_is_a_type_is_served_by_it() {
    let log = Log::default();
    let told = Arc::clone(&log);
    let router = Router::with_state(Arc::clone(&log))
        .on::<Add>(|terms, call| async move {
            let id: OwnedId = call.extract()?;
            call.peer()
                .try_notify("adding", &[id.to_string()])
                .internal()?;
            tokio::task::yield_now().await;
            match call.cancellation().is_cancelled() {
                false => Ok(terms.a + terms.b),
                true => Err(OwnedError::new(1, "cancelled")),
            }
        })
        .on_notification::<Line>(|[line], call| async move {
            call.state().lock().unwrap().push(line);
            Ok(())
        })
        .on_report(move |_, report| told.lock().unwrap().push(report.to_string()));
    let mut raw = Raw::to(&router).await;
    raw.say(r#"{"jsonrpc":"2.0","method":"log","params":["one"]}"#)
        .await;
    raw.say(r#"{"jsonrpc":"2.0","method":"add","params":{"b":2,"a":1},"id":1.0}"#)
        .await;
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","method":"adding","params":["1.0"]}"#
    );
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","result":3.0,"id":1.0}"#
    );
    assert_eq!(raw.ask("add", r#"{"a":1}"#).await, INVALID_PARAMS);
    assert_eq!(raw.ask("log", r#"["two"]"#).await, r#""result":null"#);
    let log = log.lock().unwrap();
    assert_eq!(log.first().unwrap(), "one");
    assert!(log[1].contains("missing field `b`"), "{log:?}");
    assert_eq!(log.last().unwrap(), "two");
}
