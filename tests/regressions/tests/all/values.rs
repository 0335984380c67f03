//! Values of params, results and errors: what is absent and what is null, numbers in another spelling,
//! numbers without a JSON form, the data of errors. Some tests are named after a fault, and assert that it
//! is gone.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use antiphon::service::{MethodInfo, ParamInfo};
use antiphon::{
    AcpVersion, Config, Json, McpRevision, NotificationOk, OwnedError, OwnedJson, Params,
    UnknownParams,
};
use antiphon_blocking::{CallError, Link, Peer};
use antiphon_net::{Answer, Request};
use antiphon_regressions::served::{EVERYWHERE, On};
use antiphon_regressions::{LONG, Rt, on_every_runtime};
use antiphon_tokio::{RpcError, service};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a server tells a test: notifications and reports.
type Told = Sender<String>;

#[service(crate = "antiphon")]
trait Numbers {
    fn whole(&self, n: u32) -> Result<u32, OwnedError>;
    fn wide(&self, n: u128, m: i128) -> Result<String, OwnedError>;
    fn noted(&self, n: i64) -> NotificationOk;
    fn not_finite(&self, place: usize) -> Result<Vec<f64>, OwnedError>;
    fn single(&self, x: f32) -> Result<f32, OwnedError>;
    fn fails(&self, how: String) -> Result<(), Failing>;
}

#[derive(Debug, RpcError)]
#[rpc(crate = "antiphon")]
enum Failing {
    #[rpc(code = 1001, message = "Large")]
    Large { text: String },
    #[rpc(code = 1002, message = "Strange")]
    Strange { limit: f64 },
    #[rpc(code = 1003, message = "Whole")]
    Whole(String),
}

#[derive(Clone)]
struct Mine(Told);

impl Numbers for Mine {
    fn whole(&self, n: u32) -> Result<u32, OwnedError> {
        Ok(n)
    }

    fn wide(&self, n: u128, m: i128) -> Result<String, OwnedError> {
        Ok(format!("{n} {m}"))
    }

    fn noted(&self, n: i64) -> NotificationOk {
        // The test may be over.
        let _ = self.0.send(format!("noted {n}"));
        NotificationOk
    }

    fn not_finite(&self, place: usize) -> Result<Vec<f64>, OwnedError> {
        let all = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX];
        Ok(vec![1.0, all[place]])
    }

    fn single(&self, x: f32) -> Result<f32, OwnedError> {
        Ok(x)
    }

    fn fails(&self, how: String) -> Result<(), Failing> {
        Err(match &*how {
            "large" => Failing::Large { text: large() },
            "whole" => Failing::Whole(large()),
            _ => Failing::Strange { limit: f64::NAN },
        })
    }
}

/// More than `max_error_data_bytes`.
fn large() -> String {
    "x".repeat(70 << 10)
}

#[derive(Debug, Deserialize, Serialize)]
struct Place {
    line: u32,
    #[serde(default)]
    column: Option<i8>,
}

#[derive(Debug, Deserialize, Serialize)]
enum Shape {
    Circle(u8),
    Rectangle { w: u8, h: u8 },
    Pair(u8, u8),
    Point,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "kind")]
enum Tagged {
    Step { percent: u8 },
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Token {
    Number(i32),
    Text(String),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum Change {
    Part { range: Place, text: String },
    Whole { text: String },
}

#[derive(Debug, Deserialize, Serialize)]
struct Flat {
    #[serde(flatten)]
    place: Place,
}

#[derive(Debug, Deserialize, Serialize)]
struct Exact {
    n: u32,
    raw: OwnedJson,
    tree: Value,
}

const A: &[ParamInfo] = &[ParamInfo::of::<u8>("a")];

fn lenient() -> MethodInfo {
    MethodInfo::request("lenient", A).with_unknown_params(UnknownParams::Ignore)
}

fn strict() -> MethodInfo {
    MethodInfo::request("strict", A).with_unknown_params(UnknownParams::Reject)
}

/// A router with the methods of these tests; their handlers are plain functions on every runtime.
macro_rules! router {
    ($adapter:ident, $told:expr) => {{
        let (told, noted) = ($told.clone(), $told.clone());
        $adapter::Router::new()
            .service(Mine(noted.clone()).into_service())
            .service(
                Mine($told)
                    .into_service()
                    .prefix("open")
                    .unknown_params(UnknownParams::Ignore),
            )
            .method("plain", ["n"], |n: u64| Ok::<_, OwnedError>(n))
            .method("place", [], |Params(place): Params<Place>| {
                Ok::<_, OwnedError>(place)
            })
            .method("shapes", ["all"], |all: Vec<Shape>| {
                Ok::<_, OwnedError>(all)
            })
            .method("tagged", ["a", "b"], |a: Tagged, b: Token| {
                Ok::<_, OwnedError>((a, b))
            })
            .method("change", ["change"], |change: Change| {
                Ok::<_, OwnedError>(change)
            })
            .method("flat", ["flat"], |flat: Flat| Ok::<_, OwnedError>(flat))
            .method("keyed", ["map"], |map: HashMap<String, i16>| {
                Ok::<_, OwnedError>(map)
            })
            .method("exact", ["all"], |all: Exact| Ok::<_, OwnedError>(all))
            .method("tools/list", [], || Ok::<_, OwnedError>("none"))
            .method("first", ["a"], |a: u8| Ok::<_, OwnedError>(a))
            .method_with(lenient(), |a: u8| Ok::<_, OwnedError>(a))
            .method_with(strict(), |a: u8| Ok::<_, OwnedError>(a))
            .method("real", ["x"], |x: f64| Ok::<_, OwnedError>(x))
            .method("large", [], || {
                let error = OwnedError::new(1004, "Plain").with_data(&large());
                Err::<(), _>(error.expect("JSON"))
            })
            .raw("raw", |request: &Request| {
                let (n, m): (u8, i64) = request.params()?;
                Ok(Answer::new(&[i64::from(n), m]))
            })
            .notification("plain/noted", ["n"], move |n: u8| {
                // The test may be over.
                let _ = noted.send(format!("plain noted {n}"));
            })
            .on_report(move |_, report| {
                // The test may be over.
                let _ = told.send(report.to_string());
            })
    }};
}

/// A server over TCP, with nothing but defaults, and a client of it.
struct Served {
    peer: Option<Peer>,
    told: Receiver<String>,
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    fn start(on: On) -> Self {
        Self::start_as(on, Config::new(), None)
    }

    fn start_as(on: On, config: Config, unknown: Option<UnknownParams>) -> Self {
        let (tell, told) = channel();
        let (ready, address) = channel::<SocketAddr>();
        let (stop, stopped) = channel::<()>();
        let thread = thread::spawn(move || match on {
            On::Threads => {
                let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
                ready
                    .send(server.local_addr().expect("an address"))
                    .expect("a test");
                let mut router = router!(antiphon_blocking, tell);
                if let Some(unknown) = unknown {
                    router = router.unknown_params(unknown);
                }
                let _running = server
                    .start(config, router.into_make_service())
                    .expect("a thread");
                // The end of the test drops the other end.
                let _ = stopped.recv();
            }
            On::Tasks(rt) => rt.run_for(4 * LONG, |runtime| async move {
                let mut router = router!(antiphon_net, tell);
                if let Some(unknown) = unknown {
                    router = router.unknown_params(unknown);
                }
                let running = match rt {
                    Rt::Tokio | Rt::TokioLocal => {
                        let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        ready.send(server.local_addr()).expect("a test");
                        server.start(config, router.into_make_service())
                    }
                    Rt::Smol | Rt::AsyncStd => {
                        let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                        let server = server.expect("a port");
                        ready.send(server.local_addr()).expect("a test");
                        server.start(config, router.into_make_service())
                    }
                };
                let step = Duration::from_millis(2);
                while matches!(
                    stopped.try_recv(),
                    Err(std::sync::mpsc::TryRecvError::Empty)
                ) {
                    runtime.sleep_until(runtime.now() + step).await;
                }
                drop(running);
            }),
        });
        let link = Link::tcp(address.recv_timeout(LONG).expect("it listens")).expect("a link");
        let peer = antiphon_blocking::attach(link, config, ()).expect("a thread");
        Self {
            peer: Some(peer),
            told,
            stop,
            thread: Some(thread),
        }
    }

    /// Calls a method with params as they stand; returns the text of the result, or the error's code.
    fn call(&self, method: &str, params: &str) -> Result<String, i64> {
        match self.try_call(method, params) {
            Ok(result) => Ok(result),
            Err(error) => Err(error.code()),
        }
    }

    fn try_call(&self, method: &str, params: &str) -> Result<String, OwnedError> {
        let params = Json::parse_str(params).expect("JSON");
        let peer = self.peer.as_ref().expect("it runs");
        match peer.call(method, params).raw().wait() {
            Ok(result) => Ok(result.as_str().to_owned()),
            Err(CallError::Remote(error)) => Err(error),
            Err(other) => panic!("{method}: {other}"),
        }
    }

    /// Waits until the server has told something that contains `part`.
    fn wait_told(&self, part: &str) -> String {
        loop {
            let told = self.told.recv_timeout(LONG);
            let told = told.unwrap_or_else(|_| panic!("nothing says {part:?}"));
            if told.contains(part) {
                return told;
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.peer.take());
        // The thread ends of it; if it has panicked, that was printed.
        let _ = self.stop.send(());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

const INVALID: Result<&str, i64> = Err(-32602);

// USE-34
#[test]
fn a_whole_number_with_a_fraction_or_an_exponent_was_no_integer() {
    let cases = [
        ("whole", "[1.0]", Ok("1")),
        ("whole", "[1e2]", Ok("100")),
        ("whole", r#"{"n":4294967295.000}"#, Ok("4294967295")),
        ("whole", "[10E-1]", Ok("1")),
        ("whole", "[-0]", Ok("0")),
        ("whole", "[0.0e99]", Ok("0")),
        ("whole", "[1.5]", INVALID),
        ("whole", "[-1.0]", INVALID),
        ("whole", "[4294967296.0]", INVALID),
        ("whole", "[1e400]", INVALID),
        ("whole", "[1.0000000000000000001]", INVALID),
        ("whole", r#"["1.0"]"#, INVALID),
        ("plain", "[1e18]", Ok("1000000000000000000")),
        (
            "plain",
            "[18446744073709551615.0]",
            Ok("18446744073709551615"),
        ),
        ("plain", "[18446744073709551616.0]", INVALID),
        (
            "plain",
            r#"{"n":9007199254740993.0}"#,
            Ok("9007199254740993"),
        ),
        (
            "wide",
            "[1e30,-1.5e1]",
            Ok(r#""1000000000000000000000000000000 -15""#),
        ),
        (
            "wide",
            "[3.40282366920938463463374607431768211455e38,-170141183460469231731687303715884105728.0]",
            Ok(
                r#""340282366920938463463374607431768211455 -170141183460469231731687303715884105728""#,
            ),
        ),
        ("wide", "[1e39,0]", INVALID),
        (
            "place",
            r#"{"line":0.0}"#,
            Ok(r#"{"line":0,"column":null}"#),
        ),
        ("place", "[3.0,-1e1]", Ok(r#"{"line":3,"column":-10}"#)),
        ("place", "[3.0,-1e1,1]", INVALID),
        ("place", "[3.0,0.5]", INVALID),
        (
            "shapes",
            r#"[[{"Circle":1.0},{"Rectangle":{"w":2e0,"h":3}},{"Pair":[4.0,5]},"Point",{"Point":null}]]"#,
            Ok(r#"[{"Circle":1},{"Rectangle":{"w":2,"h":3}},{"Pair":[4,5]},"Point","Point"]"#),
        ),
        ("shapes", r#"[[{"Pair":[4.0,5,6]}]]"#, INVALID),
        ("shapes", r#"[[{"Circle":1.0,"Point":null}]]"#, INVALID),
        (
            "tagged",
            r#"[{"kind":"Step","percent":50.0},7.0]"#,
            Ok(r#"[{"kind":"Step","percent":50},7]"#),
        ),
        ("tagged", r#"[{"kind":"Step","percent":50.5},7]"#, INVALID),
        (
            "flat",
            r#"[{"line":2.0}]"#,
            Ok(r#"{"line":2,"column":null}"#),
        ),
        ("keyed", r#"[{"a":-2.0}]"#, Ok(r#"{"a":-2}"#)),
        (
            "exact",
            r#"[{"n":1.0,"raw":[1.0, 2e0],"tree":{"x":1.0}}]"#,
            Ok(r#"{"n":1,"raw":[1.0, 2e0],"tree":{"x":1.0}}"#),
        ),
        ("raw", "[1.0,1e3]", Ok("[1,1000]")),
        ("real", "[1.0]", Ok("1.0")),
    ];
    for on in EVERYWHERE {
        let server = Served::start(on);
        for (method, params, expected) in cases {
            let came = server.call(method, params);
            assert_eq!(
                came.as_deref(),
                expected.as_ref().map(|text| *text),
                "{on:?} {method} {params}"
            );
        }
        let peer = server.peer.as_ref().expect("it runs");
        let json = |text| Json::parse_str(text).expect("JSON");
        peer.notify("noted", json("[-7.0]")).wait().expect("sent");
        server.wait_told("noted -7");
        peer.notify("plain/noted", json(r#"{"n":2e0}"#))
            .wait()
            .expect("sent");
        server.wait_told("plain noted 2");
    }
}

// USE-34
#[test]
fn whole_numbers_in_another_spelling_are_integers_in_every_dialect() {
    for config in [Config::lsp(), Config::acp(AcpVersion::V1)] {
        let server = Served::start_as(On::Tasks(Rt::Tokio), config, None);
        assert_eq!(
            server.call("place", r#"{"line":0.0}"#).as_deref(),
            Ok(r#"{"line":0,"column":null}"#)
        );
    }
}

// USE-38 SRV-08
#[test]
fn a_param_that_a_later_revision_added_was_refused() {
    let mcp = Config::mcp(McpRevision::V2025_11_25);
    let all = [
        (Config::new(), None, false),
        (Config::new(), Some(UnknownParams::Ignore), true),
        (Config::lsp(), None, true),
        (mcp, None, true),
        (mcp, Some(UnknownParams::Reject), false),
    ];
    for on in EVERYWHERE {
        for (config, of_router, ignores) in all {
            let server = Served::start_as(on, config, of_router);
            let check = |method: &str, params: &str, expected: Result<&str, i64>| {
                let came = server.call(method, params);
                assert_eq!(
                    came.as_deref(),
                    expected.as_ref().map(|text| *text),
                    "{on:?} {method} {params}"
                );
            };
            let if_ignored = |result| if ignores { Ok(result) } else { INVALID };
            check("tools/list", r#"{"cursor":"1"}"#, if_ignored(r#""none""#));
            check(
                "first",
                r#"{"b":[{"a":2}],"a":1.0,"c":null}"#,
                if_ignored("1"),
            );
            check("whole", r#"{"N":2,"n":1}"#, if_ignored("1"));
            check("open.whole", r#"{"N":2,"n":1}"#, Ok("1"));
            check("lenient", r#"{"a":1,"b":2}"#, Ok("1"));
            check("strict", r#"{"a":1,"b":2}"#, INVALID);
            // What is missing, surplus or given twice is refused everywhere.
            check("lenient", r#"{"b":2}"#, INVALID);
            check("lenient", r#"{"a":1,"a":1,"b":2}"#, INVALID);
            check("lenient", "[1,2]", INVALID);
            // A struct follows its own attributes.
            check(
                "place",
                r#"{"line":1,"x":2}"#,
                Ok(r#"{"line":1,"column":null}"#),
            );
        }
    }
}

// SER-15 SER-14
#[test]
fn a_number_without_a_json_form_was_answered_null() {
    for on in EVERYWHERE {
        let server = Served::start(on);
        for params in ["[0]", "[1]", "[2]"] {
            assert_eq!(
                server.call("not_finite", params),
                Err(-32603),
                "{on:?} {params}"
            );
            server.wait_told("not_finite");
        }
        assert_eq!(
            server.call("not_finite", "[3]").as_deref(),
            Ok("[1.0,1.7976931348623157e+308]")
        );
        // Too large for an `f32`, to which serde converts it as infinite.
        assert_eq!(server.call("single", "[1e39]"), Err(-32603), "{on:?}");
    }
}

// USE-31
#[test]
fn an_error_lost_its_code_for_the_size_of_its_data() {
    for on in EVERYWHERE {
        let server = Served::start(on);
        for (method, params, code, message) in [
            ("fails", r#"["large"]"#, 1001, "Large"),
            ("fails", r#"["whole"]"#, 1003, "Whole"),
            ("large", "[]", 1004, "Plain"),
        ] {
            let error = server.try_call(method, params).expect_err("an error");
            assert_eq!((error.code(), error.message()), (code, message), "{on:?}");
            assert_eq!(error.as_error().data(), None, "{on:?}");
            let told = server.wait_told(method);
            assert!(told.contains("data"), "{on:?} {told}");
        }
    }
}

// SER-14
#[test]
fn an_error_lost_its_data_without_a_word() {
    for on in EVERYWHERE {
        let server = Served::start(on);
        let error = server
            .try_call("fails", r#"["strange"]"#)
            .expect_err("an error");
        assert_eq!((error.code(), error.message()), (1002, "Strange"), "{on:?}");
        assert_eq!(error.as_error().data(), None, "{on:?}");
        let told = server.wait_told("fails");
        assert!(told.contains("finite"), "{on:?} {told}");
    }
}

/// The methods of the typed client.
#[service(crate = "antiphon", server = false)]
trait Listing {
    fn list(&self, cursor: Option<String>, size: Option<u32>) -> Result<u32, OwnedError>;
    fn set(
        &self,
        a: u8,
        b: Option<u8>,
        c: Option<Option<u8>>,
        d: Option<u8>,
    ) -> Result<Option<i8>, OwnedError>;
    fn log(&self, line: Option<f64>) -> NotificationOk;
}

macro_rules! at_once {
    ($future:expr) => {
        $future.wait()
    };
}

macro_rules! awaited {
    ($future:expr) => {
        $future.await
    };
}

macro_rules! plain {
    ($peer:expr) => {
        $peer
    };
}

macro_rules! thread {
    ($peer:expr) => {
        $peer.expect("a thread")
    };
}

/// Calls the methods of [`Listing`] with a typed client; the server writes down what comes.
macro_rules! conversation {
    ($name:ident, $adapter:ident, $get:ident, $peer:ident $(, $is_async:tt)?) => {
        $($is_async)? fn $name() {
            use $adapter::{Link, Router, attach};
            let (told, heard) = channel();
            let answers = move |text: &'static str| {
                let told: Sender<String> = told.clone();
                move |request: &Request| {
                    let params = request.raw_params().map(|params| params.to_string());
                    // The test may be over.
                    let _ = told.send(params.unwrap_or_default());
                    Ok(Answer::new(Json::parse_str(text).expect("JSON")))
                }
            };
            let router = Router::new()
                .raw("list", answers("3.0"))
                .raw("set", answers("-1e1"))
                .raw("log", answers("null"));
            let (near, far) = Link::pair();
            let _server = $peer!(attach(far, Config::new(), router));
            let peer = $peer!(attach(near, Config::new(), ()));
            let next = || heard.recv_timeout(LONG).expect("told");
            let named = ListingClient::new(peer.clone());
            let in_order = ListingClient::new(peer.clone()).by_position();
            assert_eq!($get!(named.list(None, None)).expect("a result"), 3);
            assert_eq!(next(), "{}");
            $get!(named.list(None, Some(5))).expect("a result");
            assert_eq!(next(), r#"{"size":5}"#);
            $get!(in_order.list(None, None)).expect("a result");
            assert_eq!(next(), "[]");
            $get!(in_order.list(None, Some(5))).expect("a result");
            assert_eq!(next(), "[null,5]");
            assert_eq!($get!(named.set(1, None, Some(None), None)).expect("a result"), Some(-10));
            assert_eq!(next(), r#"{"a":1,"c":null}"#);
            $get!(named.set(1, Some(2), None, None)).expect("a result");
            assert_eq!(next(), r#"{"a":1,"b":2}"#);
            $get!(in_order.set(1, None, Some(None), None)).expect("a result");
            assert_eq!(next(), "[1,null,null]");
            $get!(in_order.set(1, None, None, None)).expect("a result");
            assert_eq!(next(), "[1]");
            // It was sent at once, though nobody awaits it.
            drop(named.log(Some(1.5)));
            $get!(in_order.log(None)).expect("sent");
            $get!(named.list(None, None)).expect("a result");
            assert_eq!([next(), next(), next()], [r#"{"line":1.5}"#, "[]", "{}"]);
            let refused = $get!(named.log(Some(f64::NAN))).expect_err("no JSON");
            assert!(refused.to_string().contains("finite"), "{refused}");
            let sum: u8 = $get!(peer.call("list", ())).expect("a whole number");
            assert_eq!((next(), sum), (String::new(), 3));
            // A number without a JSON form is refused here, and nothing is sent.
            let refused = $get!(peer.call::<u8>("list", &[f64::NAN])).expect_err("no JSON");
            assert!(refused.to_string().contains("finite"), "{refused}");
            let refused = $get!(peer.notify("log", &[f32::INFINITY])).expect_err("no JSON");
            assert!(refused.to_string().contains("finite"), "{refused}");
            assert!(heard.try_recv().is_err());
        }
    };
}

conversation!(on_threads, antiphon_blocking, at_once, thread);
conversation!(on_tokio, antiphon_tokio, awaited, plain, async);
conversation!(on_futures, antiphon_async_std, awaited, plain, async);

// USE-33 USE-34
#[test]
fn a_typed_client_wrote_null_for_what_was_left_out_on_threads() {
    on_threads();
}

on_every_runtime! {
    a_typed_client_wrote_null_for_what_was_left_out;
    notifications_of_a_typed_client_were_refused_instead_of_waiting;
}

// USE-33 USE-34
fn a_typed_client_wrote_null_for_what_was_left_out(rt: Rt) {
    rt.run(|_| async move {
        match rt {
            Rt::Tokio | Rt::TokioLocal => on_tokio().await,
            Rt::Smol | Rt::AsyncStd => on_futures().await,
        }
    });
}

/// More notifications than an output holds.
const MANY: usize = 20_000;

/// The address of a peer that begins to read late, and answers the first request with the number of
/// lines before it.
fn late_reader() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        thread::sleep(Duration::from_millis(300));
        let lines = BufReader::new(stream.try_clone().expect("a socket")).lines();
        let lines = lines.map_while(Result::ok);
        let read = lines.take_while(|line| !line.contains(r#""id":"#)).count();
        writeln!(stream, r#"{{"jsonrpc":"2.0","result":{read},"id":1}}"#).expect("it reads");
    });
    address
}

#[service(crate = "antiphon", server = false)]
trait Log {
    fn line(&self, text: String) -> NotificationOk;
}

/// Tells a late reader more than an output holds.
macro_rules! flood {
    ($name:ident, $adapter:ident, $get:ident, $link:ident, $peer:ident $(, $is_async:tt)?) => {
        $($is_async)? fn $name() {
            use $adapter::{Link, attach};
            let link = $link!(Link::tcp(late_reader())).expect("a link");
            let peer = $peer!(attach(link, Config::new(), ()));
            let log = LogClient::new(peer.clone());
            let text = "x".repeat(1000);
            for _ in 0..MANY {
                $get!(log.line(text.clone())).expect("there was space in the end");
            }
            let read: usize = $get!(peer.call("count", ())).expect("an answer");
            assert_eq!(read, MANY);
        }
    };
}

flood!(flood_threads, antiphon_blocking, at_once, plain, thread);
flood!(flood_tokio, antiphon_tokio, awaited, awaited, plain, async);
flood!(
    flood_futures,
    antiphon_async_std,
    awaited,
    awaited,
    plain,
    async
);

#[test]
fn notifications_of_a_typed_client_were_refused_instead_of_waiting_on_threads() {
    flood_threads();
}

fn notifications_of_a_typed_client_were_refused_instead_of_waiting(rt: Rt) {
    rt.run(|_| async move {
        match rt {
            Rt::Tokio | Rt::TokioLocal => flood_tokio().await,
            Rt::Smol | Rt::AsyncStd => flood_futures().await,
        }
    });
}

// USE-33
#[test]
fn a_server_could_not_tell_null_from_a_param_that_was_left_out() {
    let router = antiphon::service::LocalRouter::new().method(
        "set",
        ["value"],
        |value: Option<Option<u8>>| Ok::<_, OwnedError>(format!("{value:?}")),
    );
    let told = |params: &str| {
        let mut result = Vec::new();
        let params = Json::parse_str(params).expect("JSON");
        router
            .run("set", Some(params), &mut result)
            .expect("a result");
        String::from_utf8(result).expect("text")
    };
    assert_eq!(told("{}"), r#""None""#);
    assert_eq!(told("[]"), r#""None""#);
    assert_eq!(told(r#"{"value":null}"#), r#""Some(None)""#);
    assert_eq!(told("[null]"), r#""Some(None)""#);
    assert_eq!(told("[7]"), r#""Some(Some(7))""#);
}
