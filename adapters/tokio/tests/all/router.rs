//! What a router answers, byte for byte, over TCP.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::raw::{INTERNAL, INVALID_PARAMS, Log, NOT_FOUND, Raw};
use antiphon_tokio::service::{Failure, MethodInfo, Naming, Prefix};
use antiphon_tokio::{
    Answer, Cancellation, Internal, Method, OwnedError, OwnedId, Params, Peer, Router, State,
    service,
};
use serde::Deserialize;

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
    // When this is answered, all notifications have been handled, and none of them was answered.
    assert_eq!(raw.ask("nothing", "").await, r#""result":null"#);
    let log = log.lock().unwrap();
    let expected = [
        "told",
        "invalid params: `line`: invalid type: integer, expected a string at line 1 column 1: log (notification)",
        "a handler failed: told to nobody (7): fail (notification)",
        "a handler failed: Division by zero (-32602): refuse (notification)",
        "nobody serves it: none (notification)",
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
    let _router = router
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
    // It fails with *method not found*, so the built-in method answers, which takes no params.
    assert_eq!(raw.ask("rpc.discover", "[true]").await, INVALID_PARAMS);
    // A notification of an extension is not answered.
    raw.say(r#"{"jsonrpc":"2.0","method":"rpc.listMethods"}"#)
        .await;
    let off = Router::new()
        .without_extensions()
        .method("rpc.own", [], || ());
    assert_eq!(raw.ask("rpc.own", "").await, NOT_FOUND);
    let mut raw = Raw::to(&off).await;
    assert_eq!(raw.ask("rpc.own", "").await, r#""result":null"#);
    assert_eq!(raw.ask("rpc.listMethods", "").await, NOT_FOUND);
}

// EXT-10 SRV-12
#[test]
#[should_panic(expected = "`describe` does not begin with `rpc.`")]
fn an_extension_has_the_name_of_one() {
    let router: Router = Router::new();
    drop(router.extension("describe", [], || ()));
}

// SRV-34
#[tokio::test]
async fn methods_come_and_go_while_connections_are_open() {
    let router = Router::new().method("n", [], || Ok::<_, OwnedError>(1));
    let mut raw = Raw::to(&router).await;
    assert_eq!(raw.ask("n", "").await, r#""result":1"#);
    let n = MethodInfo::request("n", &[]);
    router
        .replace(n.clone(), [], || Ok::<_, OwnedError>(2))
        .unwrap();
    assert_eq!(raw.ask("n", "").await, r#""result":2"#);
    assert!(router.remove("n") && !router.remove("n"));
    assert_eq!(raw.ask("n", "").await, NOT_FOUND);
    router
        .try_method(n, [], async || Ok::<_, OwnedError>(3))
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
        .service(
            Counting::default()
                .into_service()
                .prefix(Prefix::separated("third", "_")),
        )
        .naming(Naming::FullyQualified)
        .service(Counting::default().into_service());
    let taken = router
        .try_service(Counting::default().into_service())
        .unwrap_err();
    assert!(taken.to_string().contains("`Counter.count`"), "{taken}");
    let mut raw = Raw::to(&router).await;
    let names = r#""result":["Counter.count","Counter.count/by","count","count/by","second.count","second.count/by","third_count","third_count/by"]"#;
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

/// The message of the panic with which `register` is refused.
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
    let _router = router.map_failures(|failure, request| match failure {
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
    let log = log.lock().unwrap();
    let starts = [
        "a handler failed: Request timeout (-32005): slow (id 1) after",
        "a handler failed: No such file",
        "a handler failed: Request timeout (-32005): slow (notification)",
        "a handler failed: No such file",
        "invalid params: a parameter is missing: `n`: n (id 1)",
        "a handler failed: ",
        "nobody serves it: none (id 1) after",
    ];
    for (said, start) in log.iter().zip(starts) {
        assert!(said.starts_with(start), "{log:?}");
    }
    assert_eq!(log.len(), starts.len(), "{log:?}");
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

/// `log`, which a type describes. It has no result.
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
