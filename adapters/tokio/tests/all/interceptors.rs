//! What interceptors see and do, over TCP.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::raw::{INTERNAL, Log, NOT_FOUND, Raw};
use antiphon_tokio::service::{
    CallLog, Cx, Decision, Interceptor, LoggedCall, Logging, Prefix, Reply,
};
use antiphon_tokio::{
    Answer, Config, ErrorObject, Extension, Internal, Link, OwnedError, OwnedJson, RateLimit,
    Request, Router, State, attach,
};

#[derive(Clone)]
struct User(String);

thread_local! {
    static SPAN: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Sets `SPAN` to 7 while a step of a handler runs.
struct Spans;

impl Interceptor<Request> for Spans {
    fn scope(&self, _: &Cx, _: &Request, step: &mut dyn FnMut()) {
        SPAN.set(7);
        step();
        SPAN.set(0);
    }
}

/// Changes methods, params and errors, answers `cached` itself, and panics at `broken`.
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

/// A router whose calls are refused until `login` was called on their connection.
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
    // Another connection is not logged in.
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
    // If a call is cancelled while its check waits, its handler never begins.
    raw.say(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#)
        .await;
    assert_eq!(
        raw.hear().await,
        r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Request cancelled"},"id":2}"#
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
    // One call a second: slower than the test, so that no call is allowed again meanwhile.
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

// INT-09 USE-42
#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn a_rate_per_connection_was_useless_over_http() {
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(RateLimit::per_connection(1, 2));
    let endpoint = antiphon_tokio::http::endpoint(Config::new(), router);
    let served = crate::support::Served::new(endpoint);
    let mut conns = [served.connect(4096), served.connect(4096)];
    for is_served in [true, true, false] {
        for raw in &mut conns {
            let answer = raw.post(&crate::support::call("n", 1)).await;
            assert_eq!(answer.body.contains("result"), is_served, "{answer:?}");
        }
    }
    // A second later there is one more for each.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let answer = conns[0].post(&crate::support::call("n", 1)).await;
    assert!(answer.body.contains("result"), "{answer:?}");
}

// INT-09 USE-42
#[cfg(feature = "http")]
#[tokio::test(start_paused = true)]
async fn a_rate_per_address_holds_over_http_whatever_the_connection() {
    use antiphon_tokio::http::{Endpoint, Web};
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(RateLimit::per_address(1, 2));
    // A proxy names the client.
    let web = Web::new(Config::new(), router.into_make_service());
    let web = web.context_from(|parts, context| {
        let client = parts
            .headers
            .get("x-client")
            .and_then(|client| client.to_str().ok());
        context.peer_addr = client.and_then(|client| client.parse().ok());
    });
    let served = crate::support::Served::new(Endpoint::of(web, antiphon_tokio::current()));
    for (client, is_served) in [
        ("10.0.0.1:1", true),
        ("10.0.0.1:2", true),
        ("10.0.0.1:3", false),
        ("[2001:db8::1]:1", true),
        ("[2001:db8::2]:1", true),
        ("[2001:db8::3]:1", false),
        ("[2001:db8:0:1::1]:1", true),
    ] {
        let mut raw = served.connect(4096);
        let lines = format!(
            "x-client: {client}
"
        );
        let request = crate::support::post("/", &lines, &crate::support::call("n", 1));
        raw.send(request).await.unwrap();
        let answer = raw.reply().await.unwrap();
        assert_eq!(
            answer.body.contains("result"),
            is_served,
            "{client} {answer:?}"
        );
    }
}

// INT-09
#[cfg(feature = "http")]
#[tokio::test]
async fn a_rate_per_connection_was_useless_in_a_framework_without_a_word() {
    let said = Log::default();
    let log = Arc::clone(&said);
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .intercept(RateLimit::per_connection(1, 1))
        .on_report(move |_, report| log.lock().unwrap().push(report.to_string()));
    let endpoint = antiphon_tokio::http::endpoint(Config::new(), router);
    for _ in 0..3 {
        let body = crate::support::call("n", 1);
        let request = hyper::Request::post("/").header("host", "x");
        let answer = endpoint.answer_whole(request.body(body.into()).unwrap());
        assert!(answer.await.body().ends_with(br#""result":1,"id":1}"#));
    }
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("use `per_server` there"), "{said:?}");
}

// INT-06
#[tokio::test]
async fn the_cause_for_which_a_notification_was_not_served_was_lost() {
    struct Broken;

    impl Interceptor<Request> for Broken {
        fn request(&self, _: &mut Cx, request: &Request) -> Decision {
            match request.method() {
                "log" => Decision::Fail("the disk is full".into()),
                _ => Decision::Continue,
            }
        }
    }

    let said = Log::default();
    let log = Arc::clone(&said);
    let router = Router::new()
        .method("n", [], || Ok::<_, OwnedError>(1))
        .notification("log", [], || ())
        .intercept(Broken)
        .on_report(move |_, report| log.lock().unwrap().push(report.to_string()));
    let (near, far) = Link::pair();
    let _serving = attach(far, Config::new(), router);
    let peer = attach(near, Config::new(), ());
    peer.notify("log", ()).await.unwrap();
    assert_eq!(peer.call::<u8>("n", ()).await.unwrap(), 1);
    let expected = "a handler failed: the disk is full: log (notification)";
    assert_eq!(*said.lock().unwrap(), [expected]);
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
        serving.push(attach(far, Config::new(), router.clone()));
        attach(near, Config::new(), ())
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
    let _serving = attach(far, Config::new(), router);
    let peer = attach(near, Config::new(), ());
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
    let _serving = attach(far, Config::new(), router);
    let peer = attach(near, Config::new(), ());
    let began = tokio::time::Instant::now();
    let ended = peer.call::<u8>("n", ()).await.unwrap_err();
    assert!(ended.to_string().contains("Request timeout"), "{ended}");
    assert_eq!(began.elapsed().as_secs(), 5);
}

/// Notes each call, its answer and its error as lines.
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

/// Notes how each call ended, with its id and the time that it took.
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
    let _server = attach(far, Config::new(), router);
    let peer = attach(near, Config::new(), ());
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

// INT-01 INT-04 EXT-03 SEC-03
#[tokio::test]
async fn a_part_of_a_router_has_interceptors_of_its_own() {
    let admin = Router::with_state(7_u8)
        .check_async(|request| {
            let is_asked = request.raw_params().is_some();
            async move {
                match is_asked {
                    true => Ok(User("root".into())),
                    false => Err(OwnedError::new(1001, "Log in")),
                }
            }
        })
        .check(|_, request| match request.method() {
            "admin_hidden" => Err(OwnedError::new(1002, "Hidden")),
            _ => Ok(()),
        })
        .method("hidden", [], || Ok::<_, OwnedError>(1))
        .method(
            "stop",
            ["how"],
            |how: String, Extension(user): Extension<User>, State(n): State<u8>| {
                Ok::<_, OwnedError>(format!("{how} {} {n}", user.0))
            },
        );
    let router = Router::new()
        .method("add", ["a", "b"], |a: u8, b: u8| Ok::<_, OwnedError>(a + b))
        .nest(Prefix::separated("admin", "_"), admin);
    let mut raw = Raw::to(&router).await;
    assert_eq!(raw.ask("add", r#"[1,2]"#).await, r#""result":3"#);
    assert!(raw.ask("admin_stop", "").await.contains("1001"));
    let stopped = raw.ask("admin_stop", r#"["now"]"#).await;
    assert_eq!(stopped, r#""result":"now root 7""#);
    assert!(raw.ask("admin_hidden", r#"[]"#).await.contains("1002"));
    let names = r#""result":["add","admin_stop"]"#;
    assert_eq!(raw.ask("rpc.listMethods", "").await, names);
}

// INT-09 SEC-09
#[tokio::test]
async fn a_rate_is_limited_by_a_key_of_the_programs() {
    let key = |request: &Request| request.raw_params().map(|params| params.to_string());
    let router = Router::new()
        .method("any", ["key"], |key: String| Ok::<_, OwnedError>(key))
        .method("none", [], || Ok::<_, OwnedError>(0))
        .intercept(RateLimit::per_key(1, 1, key));
    let (mut one, mut other) = (Raw::to(&router).await, Raw::to(&router).await);
    assert_eq!(one.ask("any", r#"["a"]"#).await, r#""result":"a""#);
    // All connections share the key's bucket, and another key has its own.
    assert!(other.ask("any", r#"["a"]"#).await.contains("error"));
    assert_eq!(other.ask("any", r#"["b"]"#).await, r#""result":"b""#);
    for _ in 0..3 {
        assert_eq!(other.ask("none", "").await, r#""result":0"#);
    }
}
