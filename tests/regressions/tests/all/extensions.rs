//! Extensions: who answers a name that begins with `rpc.`, and what a caller is shown; and what
//! interceptors know of a call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use antiphon::service::{
    AnyRequest, Cx, Decision, Discovery, Interceptor, MethodInfo, RegisterError, Reply,
    ReservedNames,
};
use antiphon::{AcpVersion, Config, ErrorObject, Framing, McpRevision, OwnedError};
use antiphon_net::{Extension, Request};
use antiphon_regressions::raw::Raw;
use antiphon_regressions::routed::Routed;
use antiphon_regressions::routers;
use antiphon_regressions::served::EVERYWHERE;
use antiphon_tokio::service;

/// Asks for a method, and returns the answer without version and id.
fn ask(raw: &mut Raw, method: &str) -> String {
    raw.send_line(&format!(
        r#"{{"jsonrpc":"2.0","method":"{method}","id":1}}"#
    ));
    let line = raw.line();
    let answer = line.strip_prefix(r#"{"jsonrpc":"2.0","#);
    let answer = answer.and_then(|answer| answer.strip_suffix(r#","id":1}"#));
    answer.unwrap_or_else(|| panic!("{line}")).to_string()
}

fn ok(text: &'static str) -> Result<&'static str, OwnedError> {
    Ok(text)
}

fn declines() -> Result<&'static str, OwnedError> {
    Err(ErrorObject::method_not_found().into())
}

const NOT_FOUND: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;

/// That somebody is an administrator: for the connection, and for one of its calls.
#[derive(Clone, Copy)]
struct Admin;

/// Lets only administrators call what begins with `admin.`.
fn authorise(cx: &mut Cx, request: &Request) -> Result<(), OwnedError> {
    match request.method().starts_with("admin.") && cx.attributes().get::<Admin>().is_none() {
        true => Err(OwnedError::new(1003, "Not for you")),
        false => Ok(()),
    }
}

/// Finds out who calls.
fn authenticate(cx: &mut Cx, request: &Request) -> Result<(), OwnedError> {
    let admin = request.connection_attributes().get::<Admin>().copied();
    if let Some(admin) = admin {
        cx.attributes_mut().insert(admin);
    }
    Ok(())
}

// EXT-12 SEC-03
#[test]
fn what_a_caller_may_not_call_was_listed_to_it() {
    for on in EVERYWHERE {
        let routers = routers!(router => router
            .check(authenticate)
            .check(authorise)
            .raw("login", |request| {
                request.connection_attributes().insert(Admin);
                Ok(().into())
            })
            .method("add", [], || ok("added"))
            .method("admin.stop", [], || ok("stopped")));
        let server = Routed::start(on, Config::new(), routers);
        let mut raw = server.connect();
        assert!(ask(&mut raw, "admin.stop").contains("1003"));
        let listed = ask(&mut raw, "rpc.listMethods");
        assert_eq!(listed, r#""result":["add","login"]"#, "{on:?}");
        let document = ask(&mut raw, "rpc.discover");
        assert!(
            document.contains("\"add\"") && !document.contains("admin"),
            "{document}"
        );
        ask(&mut raw, "login");
        assert_eq!(ask(&mut raw, "admin.stop"), r#""result":"stopped""#);
        let listed = ask(&mut raw, "rpc.listMethods");
        assert_eq!(listed, r#""result":["add","admin.stop","login"]"#, "{on:?}");
        assert!(
            ask(&mut raw, "rpc.discover").contains("admin.stop"),
            "{on:?}"
        );
    }
}

// EXT-04
#[test]
fn language_and_tool_servers_answered_rpc_methods_unasked() {
    let dialects = [
        Config::lsp().framing(Framing::Newline),
        Config::mcp(McpRevision::V2025_11_25),
        Config::acp(AcpVersion::V1),
    ];
    let listed = r#""result":["add"]"#;
    for config in dialects {
        for on in EVERYWHERE {
            let plain = routers!(router => router
                .extension("rpc.mine", [], || ok("mine"))
                .method("add", [], || ok("added")));
            let server = Routed::start(on, config, plain.clone());
            let mut raw = server.connect();
            for method in ["rpc.listMethods", "rpc.discover"] {
                assert_eq!(ask(&mut raw, method), NOT_FOUND, "{on:?}");
            }
            // An extension of the program's own was asked for.
            assert_eq!(ask(&mut raw, "rpc.mine"), r#""result":"mine""#, "{on:?}");

            let asked = routers!(router => router
                .describe("Adder", "1")
                .method("add", [], || ok("added")));
            let server = Routed::start(on, config, asked);
            assert_eq!(
                ask(&mut server.connect(), "rpc.listMethods"),
                listed,
                "{on:?}"
            );
            let server = Routed::start(on, config.system_extensions(true), plain);
            assert_eq!(
                ask(&mut server.connect(), "rpc.listMethods"),
                listed,
                "{on:?}"
            );
        }
    }
}

#[service]
trait About {
    fn describe(&self) -> Result<String, OwnedError>;
    fn capabilities(&self) -> Result<String, OwnedError>;
    fn discover(&self) -> Result<String, OwnedError>;
}

/// Answers `rpc.describe` alone, or everything.
struct Provider {
    name: &'static str,
    answers_all: bool,
}

impl Provider {
    fn answer(&self, method: &str) -> Result<String, OwnedError> {
        match self.answers_all || method == "describe" {
            true => Ok(format!("{} by {}", method, self.name)),
            false => Err(ErrorObject::method_not_found().into()),
        }
    }
}

impl About for Provider {
    fn describe(&self) -> Result<String, OwnedError> {
        self.answer("describe")
    }

    fn capabilities(&self) -> Result<String, OwnedError> {
        self.answer("capabilities")
    }

    fn discover(&self) -> Result<String, OwnedError> {
        self.answer("discover")
    }
}

fn provider(name: &'static str, answers_all: bool) -> Provider {
    Provider { name, answers_all }
}

// EXT-01 EXT-02 EXT-03 USE-41
#[test]
fn only_one_provider_could_serve_a_name() {
    for on in EVERYWHERE {
        let two = routers!(router => router
            .provider(provider("the first", false).into_service().prefix("rpc"))
            .extension("rpc.describe", [], || ok("never asked"))
            .provider(provider("the last", true).into_service().prefix("rpc"))
            .method("add", [], || ok("added")));
        let server = Routed::start(on, Config::new(), two);
        let mut raw = server.connect();
        for (method, answer) in [
            ("rpc.describe", r#""result":"describe by the first""#),
            ("rpc.capabilities", r#""result":"capabilities by the last""#),
            ("rpc.discover", r#""result":"discover by the last""#),
            ("rpc.listMethods", r#""result":["add"]"#),
            ("rpc.other", NOT_FOUND),
        ] {
            assert_eq!(ask(&mut raw, method), answer, "{on:?} {method}");
        }
        // When all decline, the built-in method answers, and after it nobody.
        let declining = routers!(router => router
            .provider(provider("the first", false).into_service().prefix("rpc"))
            .extension("rpc.discover", [], declines));
        let server = Routed::start(on, Config::new(), declining);
        let mut raw = server.connect();
        assert!(ask(&mut raw, "rpc.discover").contains("openrpc"), "{on:?}");
        assert_eq!(ask(&mut raw, "rpc.capabilities"), NOT_FOUND, "{on:?}");
    }
}

// EXT-04 USE-41
#[test]
fn one_built_in_method_could_not_be_switched_off() {
    for on in EVERYWHERE {
        for (off, still) in [
            (Discovery::DISCOVER, Discovery::LIST_METHODS),
            (Discovery::LIST_METHODS, Discovery::DISCOVER),
        ] {
            let one = routers!(router => router.discovery(Discovery::default().without(off)));
            let server = Routed::start(on, Config::new(), one);
            let mut raw = server.connect();
            assert_eq!(ask(&mut raw, off), NOT_FOUND, "{on:?}");
            assert!(ask(&mut raw, still).starts_with(r#""result""#), "{on:?}");
        }
    }
}

// SRV-12 EXT-02
#[test]
fn a_method_could_not_have_a_reserved_name_beside_the_extensions() {
    let denied = antiphon_net::Router::new();
    let info = || MethodInfo::request("rpc.own", &[]);
    let refused = denied.try_method(info(), &[], || ok("own"));
    assert_eq!(refused, Err(RegisterError::Reserved("rpc.own".into())));
    for on in EVERYWHERE {
        let allowed = routers!(router => router
            .reserved_names(ReservedNames::Allow)
            .extension("rpc.own", [], declines)
            .extension("rpc.both", [], || ok("the extension"))
            .method("rpc.own", [], || ok("the method"))
            .method("rpc.both", [], || ok("never asked"))
            .method("rpc.discover", [], || ok("never asked")));
        let server = Routed::start(on, Config::new(), allowed);
        let mut raw = server.connect();
        assert_eq!(
            ask(&mut raw, "rpc.own"),
            r#""result":"the method""#,
            "{on:?}"
        );
        assert_eq!(
            ask(&mut raw, "rpc.both"),
            r#""result":"the extension""#,
            "{on:?}"
        );
        assert!(ask(&mut raw, "rpc.discover").contains("openrpc"), "{on:?}");
        assert_eq!(ask(&mut raw, "rpc.none"), NOT_FOUND, "{on:?}");
        // It can be forbidden again.
        let router = antiphon_net::Router::new().reserved_names(ReservedNames::Allow);
        let router = router.reserved_names(ReservedNames::Deny);
        assert!(router.try_method(info(), &[], || ok("own")).is_err());
    }
}

/// What an interceptor sees of a listing is the caller's own request, under another name.
#[test]
fn a_check_is_asked_with_the_callers_request() {
    for on in EVERYWHERE {
        let seen = |_: &mut Cx, request: &Request| {
            assert_eq!(
                AnyRequest::id(request).map(|id| id.to_string()),
                Some("1".into())
            );
            assert!(!request.is_notification() && request.peer().context().peer_addr.is_some());
            Ok(())
        };
        let routers = routers!(router => router.check(seen).method("add", [], || ok("added")));
        let server = Routed::start(on, Config::new(), routers);
        assert_eq!(
            ask(&mut server.connect(), "rpc.listMethods"),
            r#""result":["add"]"#
        );
    }
}

#[derive(Clone, Debug, PartialEq)]
struct User(String);

/// Finds the user in a header, and notes what it knows of a call when it is answered.
#[derive(Clone, Default)]
struct Knows(Arc<Mutex<Vec<String>>>);

impl Interceptor<Request> for Knows {
    fn request(&self, cx: &mut Cx, request: &Request) -> Decision {
        let name = AnyRequest::header(request, "X-User").unwrap_or("nobody");
        cx.attributes_mut().insert(User(name.into()));
        Decision::Continue
    }

    fn response(&self, cx: &Cx, request: &Request, _: &mut Reply) {
        let user = cx.attributes().get::<User>();
        let peer = request
            .peer_addr()
            .map(|address| address.ip().is_loopback());
        let connection = AnyRequest::connection(request);
        assert_eq!(connection, request.peer().context().connection);
        // An attribute has a type; there is none of another one.
        assert!(cx.attributes().get::<String>().is_none());
        let noted = format!("{user:?} from loopback {peer:?}");
        self.0.lock().expect("no panic").push(noted);
    }
}

// INT-04
#[test]
fn the_context_of_an_interceptor_has_attributes_headers_and_the_peer() {
    let expected = [
        r#"Some(User("Ann")) from loopback Some(true)"#,
        r#"Some(User("nobody")) from loopback Some(true)"#,
    ];
    for on in EVERYWHERE {
        let knows = Knows::default();
        let routers = routers!(router => router
            .intercept(knows.clone())
            .method("me", [], |Extension(user): Extension<User>| Ok::<_, OwnedError>(user.0)));
        let server = Routed::start_http(on, Config::new(), routers);
        for (header, answer) in [("x-user: Ann\r\n", "\"Ann\""), ("", "\"nobody\"")] {
            let body = r#"{"jsonrpc":"2.0","method":"me","id":1}"#;
            let mut stream = TcpStream::connect(server.address()).expect("it listens");
            write!(
                stream,
                "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\
                 content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("it reads");
            let mut reply = String::new();
            stream.read_to_string(&mut reply).expect("it answers");
            assert!(
                reply.contains(&format!(r#""result":{answer}"#)),
                "{on:?} {reply}"
            );
        }
        assert_eq!(*knows.0.lock().expect("no panic"), expected, "{on:?}");
    }
}
