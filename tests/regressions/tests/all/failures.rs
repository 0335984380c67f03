//! What the peer is told of each way in which serving fails.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

use antiphon::service::{CallEnd, Cx, Decision, Interceptor};
use antiphon::{
    Config, ErrorProfile, Failures, Framing, Internal, McpRevision, OwnedError, OwnedOutcome,
    Unhandled,
};
use antiphon_net::{Answer, ConnectionConfig, Pool, Request};
use antiphon_regressions::LONG;
use antiphon_regressions::board::request;
use antiphon_regressions::raw::Raw;
use antiphon_regressions::routed::Routed;
use antiphon_regressions::routers;
use antiphon_regressions::served::{EVERYWHERE, On};

/// Fails the method `interceptor`; trusts the peer that calls a method of `trusted`; and waits for ever
/// with the decision about `late`.
struct Fails;

impl Interceptor<Request> for Fails {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        match request.method() {
            "interceptor" => return Decision::Fail("no token store".into()),
            "late" => return Decision::Defer(antiphon::service::Deferred::new(pending())),
            "trusted panic" | "trusted cause" => {
                cx.set_method(&request.method()["trusted ".len()..]);
                request.set_failures(
                    Failures::new()
                        .unhandled(Unhandled::ServerError32000)
                        .expose_error_detail(true),
                );
            }
            _ => {}
        }
        Decision::Continue
    }
}

async fn pending() -> Result<(), OwnedError> {
    std::future::pending().await
}

/// A cause that tells more in its debug text, as those with a stack trace do.
#[derive(Debug)]
struct DiskFull;

impl std::fmt::Display for DiskFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the disk is full")
    }
}

impl std::error::Error for DiskFull {}

fn panics() -> Result<u8, OwnedError> {
    panic!("it was asked to")
}

/// Waits on a thread of the pool until it is cancelled, and gives no answer then.
fn hold(request: &Request) -> Result<Answer, OwnedError> {
    let peer = request.peer();
    request.defer().spawn(move |reply| {
        peer.try_notify("held", ()).expect("it is there");
        while !reply.is_cancelled() {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    Ok(Answer::deferred())
}

fn explicit() -> Result<u8, OwnedError> {
    let error = OwnedError::new(-32000, "as given").with_data(&[1]);
    Err(error.internal()?)
}

/// A server whose methods fail, each in one way.
fn server(on: On, config: Config) -> Routed {
    let mut options = ConnectionConfig::from(config);
    options.pool = Pool::new(1, 0);
    let routers = routers!(router => router
        .intercept(Fails)
        .handler_timeout(Duration::from_millis(50))
        .method("explicit", [], explicit)
        .method("own internal", [], || Err::<u8, _>(OwnedError::new(-32603, "mine")))
        .method("half", ["of"], |of: u8| match of % 2 {
            0 => Ok(of / 2),
            _ => Err(OwnedError::new(-32602, "Odd")),
        })
        .raw("params", |request| request.params::<[u8; 1]>().map(|[n]| n.into()))
        .raw("unwritable", |_| Ok(Answer::new(&BTreeMap::from([((1, 2), 3)]))))
        .method("cause", [], || Err::<u8, _>(DiskFull).internal())
        .method("panic", [], panics)
        .raw("unanswered", |request| Ok({
            drop(request.defer());
            Answer::deferred()
        }))
        .raw("pool panic", |request| Ok({
            request.defer().spawn(|reply| drop(panics().map(|n| reply.ok(&n))));
            Answer::deferred()
        }))
        .method("late", [], || 1.internal_ok())
        .raw("hold", hold));
    Routed::start(on, options, routers)
}

trait Fine: Sized {
    fn internal_ok(self) -> Result<Self, OwnedError> {
        Ok(self)
    }
}

impl Fine for i32 {}

/// Asks for a method, and returns the answer without version and id.
fn ask(raw: &mut Raw, method: &str, params: &str) -> String {
    let params = match params {
        "" => String::new(),
        params => format!(r#","params":{params}"#),
    };
    raw.send_line(&format!(
        r#"{{"jsonrpc":"2.0","method":"{method}"{params},"id":1}}"#
    ));
    let line = raw.line();
    let answer = line.strip_prefix(r#"{"jsonrpc":"2.0","#);
    let answer = answer.and_then(|answer| answer.strip_suffix(r#","id":1}"#));
    answer.unwrap_or_else(|| panic!("{line}")).to_string()
}

fn error(code: i64, message: &str) -> String {
    format!(r#""error":{{"code":{code},"message":"{message}"}}"#)
}

/// The answers to a request that is cancelled while it runs (`None` if there is none), to one for which
/// there is no thread, and to one that is over its deadline.
fn cancelled_busy_late(on: On, config: Config) -> (Option<String>, String, String) {
    let server = server(on, config);
    let mut raw = server.connect();
    raw.send_line(&request("hold", 1));
    assert!(raw.line().contains("held"));
    let mut other = server.connect();
    other.send_line(&request("hold", 1));
    let busy = other.line();
    let (method, member) = match config.dialect.error_profile {
        ErrorProfile::Mcp => ("notifications/cancelled", "requestId"),
        _ => ("$/cancelRequest", "id"),
    };
    raw.send_line(&format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{member}":1}}}}"#
    ));
    let is_silent = config.dialect.cancel_answer == antiphon::CancelAnswer::Silent;
    let cancelled = (!is_silent).then(|| raw.line());
    raw.send_line(&request("late", 1));
    (cancelled, busy, raw.line())
}

// ERR-04 ERR-05 TST-13 SEC-06
#[test]
fn each_failure_has_its_code_and_nothing_is_told_besides() {
    let internal = error(-32603, "Internal error");
    let invalid = error(-32602, "Invalid params");
    for on in EVERYWHERE {
        let server = server(on, Config::new());
        let mut raw = server.connect();
        let explicit = r#""error":{"code":-32000,"message":"as given","data":[1]}"#;
        for (method, params, answer) in [
            ("explicit", "", explicit),
            ("own internal", "", &error(-32603, "mine")),
            ("half", "[4]", r#""result":2"#),
            ("half", r#"["x"]"#, &invalid),
            ("half", "[]", &invalid),
            ("half", "[1,2]", &invalid),
            ("half", r#"{"from":1}"#, &invalid),
            ("params", "[true]", &invalid),
            ("half", "[1]", &error(-32602, "Odd")),
            ("none", "", &error(-32601, "Method not found")),
            ("unwritable", "", &internal),
            ("cause", "", &internal),
            ("interceptor", "", &internal),
            ("panic", "", &internal),
            ("pool panic", "", &internal),
            ("unanswered", "", &internal),
        ] {
            assert_eq!(ask(&mut raw, method, params), answer, "{on:?} {method}");
        }
    }
}

// ERR-04 ERR-05 TST-13 CAN-10 USE-03
#[test]
fn cancelled_busy_and_late_have_the_codes_of_the_dialect() {
    let mut draft = Config::new();
    draft.dialect.error_profile = ErrorProfile::WebSocketDraft;
    let newline = antiphon::Framing::Newline;
    for (config, codes) in [
        (Config::new(), (Some(-32001), -32002, -32005)),
        (draft, (Some(-32001), -32007, -32008)),
        (
            Config::lsp().framing(newline),
            (Some(-32800), -32803, -32803),
        ),
        (
            Config::mcp(McpRevision::V2025_11_25),
            (None, -32603, -32603),
        ),
    ] {
        let said = |code: i64, message: &str| {
            format!(r#"{{"jsonrpc":"2.0",{},"id":1}}"#, error(code, message))
        };
        let expected = (
            codes.0.map(|code| said(code, "Request cancelled")),
            said(codes.1, "Server busy"),
            said(codes.2, "Request timeout"),
        );
        // The setting for failures changes none of them.
        let failures = Failures::new()
            .unhandled(Unhandled::ServerError32000)
            .expose_error_detail(true);
        for config in [config, config.failures(failures)] {
            for on in EVERYWHERE {
                assert_eq!(cancelled_busy_late(on, config), expected, "{on:?}");
            }
        }
    }
}

// ERR-04 ERR-12 USE-39
#[test]
fn one_setting_says_what_every_failure_becomes_panics_too() {
    let server_error =
        |data: &str| format!(r#""error":{{"code":-32000,"message":"Server error"{data}}}"#);
    let detail = |type_name: &str, message: &str| {
        let message = message.replace('"', "\\\"");
        format!(r#","data":{{"type":"{type_name}","message":"{message}"}}"#)
    };
    let panic = detail("panic", "it was asked to");
    let cause = detail("all::failures::DiskFull", "the disk is full");
    for on in EVERYWHERE {
        let bare = Failures::new().unhandled(Unhandled::ServerError32000);
        let served = server(on, Config::new().failures(bare));
        let mut raw = served.connect();
        let failing = [
            "unwritable",
            "cause",
            "interceptor",
            "panic",
            "pool panic",
            "unanswered",
        ];
        for method in failing {
            assert_eq!(
                ask(&mut raw, method, ""),
                server_error(""),
                "{on:?} {method}"
            );
        }
        assert_eq!(ask(&mut raw, "own internal", ""), error(-32603, "mine"));
        assert_eq!(ask(&mut raw, "half", "[]"), error(-32602, "Invalid params"));

        let shown = bare.expose_error_detail(true);
        let served = server(on, Config::new().failures(shown));
        let mut raw = served.connect();
        for (method, data) in [
            ("cause", &cause),
            ("panic", &panic),
            ("pool panic", &panic),
            ("interceptor", &detail("Error", "no token store")),
        ] {
            assert_eq!(
                ask(&mut raw, method, ""),
                server_error(data),
                "{on:?} {method}"
            );
        }
        let unwritable = ask(&mut raw, "unwritable", "");
        assert!(
            unwritable.starts_with(r#""error":{"code":-32000,"message":"Server error","data":{"type":"SendError","message":"#),
            "{unwritable}"
        );

        // The trace is a second switch, and does nothing alone.
        let alone = Failures::new().expose_stack_trace(true);
        let served = server(on, Config::new().failures(alone));
        let said = ask(&mut served.connect(), "cause", "");
        assert_eq!(said, error(-32603, "Internal error"), "{on:?}");
        let served = server(on, Config::new().failures(alone.expose_error_detail(true)));
        let said = ask(&mut served.connect(), "cause", "");
        let traced = r#""message":"the disk is full","trace":"DiskFull"}}"#;
        assert!(said.contains("-32603") && said.ends_with(traced), "{said}");

        // One request may be told more than the others.
        let served = server(on, Config::new());
        let mut raw = served.connect();
        assert_eq!(
            ask(&mut raw, "trusted panic", ""),
            server_error(&panic),
            "{on:?}"
        );
        assert_eq!(
            ask(&mut raw, "trusted cause", ""),
            server_error(&cause),
            "{on:?}"
        );
        assert_eq!(
            ask(&mut raw, "panic", ""),
            error(-32603, "Internal error"),
            "{on:?}"
        );
    }
}

// ERR-12 USE-39
#[test]
fn invalid_params_had_no_reason_behind_any_switch() {
    let shown = Failures::new().expose_error_detail(true);
    for on in EVERYWHERE {
        let served = server(on, Config::new().failures(shown));
        let mut raw = served.connect();
        for (method, params, reason) in [
            ("half", "[]", "a parameter is missing"),
            (
                "half",
                r#"["x"]"#,
                "`of`: invalid type: string, expected u8 at line 1 column 3",
            ),
            ("params", "[300]", "invalid value: integer, expected u8"),
        ] {
            let said = ask(&mut raw, method, params);
            let expected = format!(
                r#""error":{{"code":-32602,"message":"Invalid params","data":{{"type":"DecodeError","message":"{}"#,
                reason.replace('"', "\\\"")
            );
            assert!(said.starts_with(&expected), "{on:?} {said}");
        }
    }
}

/// Tells with which code each call ended that was answered after its handler had returned.
struct Codes(mpsc::Sender<Option<i64>>);

impl Interceptor<Request> for Codes {
    fn answered(&self, _: &Cx, _: &Request, end: &CallEnd) {
        // The test may be over.
        let _ = self.0.send(end.code);
    }
}

// ERR-04 USE-39
#[test]
fn interceptors_were_told_another_code_than_the_peer() {
    for (unhandled, code) in [
        (Unhandled::Internal, -32603),
        (Unhandled::ServerError32000, -32000),
    ] {
        for on in EVERYWHERE {
            let (codes, ended) = mpsc::channel();
            let routers = routers!(router => router
                .intercept(Codes(codes.clone()))
                .raw("unanswered", |request| Ok({
                    drop(request.defer());
                    Answer::deferred()
                }))
                .raw("unwritable", |request| Ok({
                    let answered = request.defer().ok(&BTreeMap::from([((1, 2), 3)]));
                    assert!(answered.is_err());
                    Answer::deferred()
                }))
                .raw("too large", |request| Ok({
                    let answered = request.defer().ok("x".repeat(20 << 20).as_str());
                    assert!(answered.is_err());
                    Answer::deferred()
                }))
                .raw("aborted", |request| Ok({
                    // The peer may be gone.
                    let _ = request.defer().outcome(&OwnedOutcome::Aborted);
                    Answer::deferred()
                }))
                .raw("forgotten", |_| Ok(Answer::deferred())));
            let config = Config::new().failures(Failures::new().unhandled(unhandled));
            let server = Routed::start(on, config, routers);
            let mut raw = server.connect();
            for method in [
                "unanswered",
                "unwritable",
                "too large",
                "aborted",
                "forgotten",
            ] {
                let answer = ask(&mut raw, method, "");
                assert!(
                    answer.contains(&code.to_string()),
                    "{on:?} {method} {answer}"
                );
                let told = ended.recv_timeout(LONG).expect("it has ended");
                assert_eq!(told, Some(code), "{on:?} {method}");
            }
        }
    }
}

// ERR-12 USE-39
#[test]
fn a_dialect_that_was_set_later_did_not_decide_what_is_told_and_served() {
    let config = Config::lsp().framing(Framing::Newline);
    for on in EVERYWHERE {
        let routers = routers!(router => router
        .raw("switch", |request| {
            let mut dialect = Config::lsp().dialect;
            dialect.failures = Failures::new().expose_error_detail(true);
            dialect.system_extensions = true;
            assert!(request.peer().set_dialect(dialect));
            Ok(().into())
        })
        .raw("params", |request| {
            // The right to answer is elsewhere when the params are read.
            let responder = request.defer();
            let error = request.params::<[u8; 1]>().expect_err("there are none");
            responder.err(&error.as_error()).expect("it is awaited");
            Ok(Answer::deferred())
        }));
        let server = Routed::start(on, config, routers);
        let mut raw = server.connect();
        assert_eq!(ask(&mut raw, "params", ""), error(-32602, "Invalid params"));
        let unknown = ask(&mut raw, "rpc.listMethods", "");
        assert!(unknown.contains("-32601"), "{on:?} {unknown}");
        assert_eq!(ask(&mut raw, "switch", ""), r#""result":null"#);
        let told = ask(&mut raw, "params", "");
        assert!(told.contains(r#""data":{"type":"#), "{on:?} {told}");
        let listed = ask(&mut raw, "rpc.listMethods", "");
        assert!(listed.contains("result"), "{on:?} {listed}");
    }
}
