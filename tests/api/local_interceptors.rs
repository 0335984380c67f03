//! Interceptors of a router without a runtime: its answers, to the byte, however its input is cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::service::{
    AnyRequest, Bucket, CallLog, Cx, Decision, Deferred, Interceptor, LocalRateLimit, LocalRequest,
    LocalRouter, LoggedCall, Logging, Prefix, Reply,
};
use antiphon::{
    Config, Connection, ErrorObject, Event, FixedConfig, Input, Instant, NotificationOk,
    OwnedError, OwnedJson, State,
};

type Log = Arc<Mutex<Vec<String>>>;

/// The output for this input, which comes in pieces of so many bytes at the time `now`.
fn played(
    router: &mut LocalRouter,
    conn: &mut Connection,
    input: &str,
    piece: usize,
    now: Instant,
) -> String {
    let (mut shown, mut out) = (Vec::new(), Vec::new());
    conn.handle_timeout(now);
    for bytes in input.as_bytes().chunks(piece) {
        shown.extend_from_slice(bytes);
        let mut input = Input::stream(&shown);
        while let Some(event) = conn.poll_event(&mut input) {
            match event {
                Event::Request(request) => drop(router.respond(conn, request)),
                Event::Notification(told) => drop(router.handle(conn, &told)),
                _ => {}
            }
        }
        let consumed = input.consumed();
        shown.drain(..consumed);
        while conn.take_transmit(&mut out) {}
    }
    String::from_utf8(out).unwrap()
}

fn numbered(connection: u32) -> Connection {
    let mut config = Config::new();
    config.connection = connection;
    Connection::new(config)
}

/// Writes down what it sees, and decides by the method.
struct Seen(&'static str, Log);

impl Seen {
    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.1.lock().unwrap().push(format!("{}: {what}", self.0));
    }
}

impl Interceptor<LocalRequest> for Seen {
    fn request(&self, cx: &mut Cx, request: &LocalRequest) -> Decision {
        let id = request.id().map_or("-".into(), |id| id.to_string());
        let (method, known) = (request.method(), cx.is_registered());
        self.note(format_args!("{method} {id} {known}"));
        assert_eq!(request.is_notification(), request.id().is_none());
        match (self.0, method) {
            ("one", "renamed") => {
                cx.set_method("subtract");
                cx.set_params(OwnedJson::from_value(&[9, 1]).unwrap());
                Decision::Continue
            }
            ("two", "refused" | "rpc.discover") => OwnedError::new(1000, "Not allowed").into(),
            ("two", "answered") => Decision::Answer(Ok(OwnedJson::from_value(&"mine").unwrap())),
            ("two", "failed") => Decision::Fail("secret".into()),
            ("two", "later") => Decision::Defer(Deferred::new(async { Ok(()) })),
            _ => Decision::Continue,
        }
    }

    fn response(&self, _: &Cx, request: &LocalRequest, reply: &mut Reply) {
        let (result, error) = (reply.result(), reply.error().map(|error| error.code()));
        self.note(format_args!("{} {result:?} {error:?}", request.method()));
        if (self.0, request.method()) == ("one", "replaced") {
            reply.replace(Ok(OwnedJson::from_value(&2).unwrap()));
        }
    }

    fn scope(&self, _: &Cx, request: &LocalRequest, step: &mut dyn FnMut()) {
        match request.method() {
            "left out" => {}
            _ => step(),
        }
    }

    fn opened(&self, connection: u32) {
        self.note(format_args!("opened {connection}"));
    }

    fn closed(&self, connection: u32) {
        self.note(format_args!("closed {connection}"));
    }
}

fn subtract(a: i64, b: i64) -> Result<i64, OwnedError> {
    Ok(a - b)
}

fn router(log: &Log) -> LocalRouter {
    let ran = Arc::clone(log);
    LocalRouter::new()
        .method("subtract", ["a", "b"], subtract)
        .method("replaced", [], || Ok::<_, OwnedError>(1))
        .method("left out", [], || Ok::<_, OwnedError>(1))
        .method("refused", [], move || {
            ran.lock().unwrap().push("ran".into());
            Ok::<_, OwnedError>(1)
        })
        .notification("note", [], || NotificationOk)
        .intercept(Seen("one", Arc::clone(log)))
        .intercept(Seen("two", Arc::clone(log)))
}

const NOT_ALLOWED: &str = r#""error":{"code":1000,"message":"Not allowed"}"#;
const INTERNAL: &str = r#""error":{"code":-32603,"message":"Internal error"}"#;
const UNKNOWN: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;

// INT-01 INT-05 INT-06 INT-11 INT-12 SEC-03
#[test]
fn interceptors_of_a_local_router_answer_to_the_byte() {
    let cases = [
        (r#""subtract","params":[42,23]"#, r#""result":19"#),
        (r#""renamed","params":[42,23]"#, r#""result":8"#),
        (r#""replaced""#, r#""result":2"#),
        (r#""refused""#, NOT_ALLOWED),
        (r#""answered""#, r#""result":"mine""#),
        (r#""failed""#, INTERNAL),
        // This router cannot wait for a decision.
        (r#""later""#, INTERNAL),
        (r#""left out""#, INTERNAL),
        (r#""unknown""#, UNKNOWN),
        (r#""note""#, r#""result":null"#),
        (r#""rpc.discover""#, NOT_ALLOWED),
        (
            r#""rpc.listMethods""#,
            r#""result":["left out","note","refused","replaced","subtract"]"#,
        ),
    ];
    let (mut input, mut expected) = (String::new(), String::new());
    let (mut batch, mut answers) = (Vec::new(), Vec::new());
    for (id, (call, answer)) in cases.iter().enumerate() {
        let request = format!("{{\"jsonrpc\":\"2.0\",\"method\":{call},\"id\":{id}}}");
        // As a notification it is not answered, whatever is decided.
        let told = format!("{{\"jsonrpc\":\"2.0\",\"method\":{call}}}");
        let answer = format!("{{\"jsonrpc\":\"2.0\",{answer},\"id\":{id}}}");
        input += &format!("{request}\n{told}\n");
        expected += &format!("{answer}\n");
        batch.extend([request, told]);
        answers.push(answer);
    }
    input += &format!("[{}]\n", batch.join(","));
    expected += &format!("[{}]\n", answers.join(","));
    for piece in [usize::MAX, 1, 7] {
        let log = Log::default();
        let mut conn = numbered(0);
        let answered = played(&mut router(&log), &mut conn, &input, piece, Instant::ZERO);
        assert_eq!(answered, expected, "in pieces of {piece}");
        assert!(!log.lock().unwrap().contains(&"ran".to_owned()));
    }
}

// INT-02 INT-03
#[test]
fn interceptors_of_a_local_router_see_calls_in_order_and_answers_in_reverse() {
    let log = Log::default();
    let (mut router, mut conn) = (router(&log), numbered(7));
    router.opened(&conn);
    let input = concat!(
        "[{\"jsonrpc\":\"2.0\",\"method\":\"subtract\",\"params\":[3,1],\"id\":\"a\"},",
        "{\"jsonrpc\":\"2.0\",\"method\":\"refused\"}]\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"unknown\",\"id\":1}\n",
    );
    played(&mut router, &mut conn, input, usize::MAX, Instant::ZERO);
    router.closed(&conn);
    let expected = [
        "one: opened 7",
        "two: opened 7",
        "one: subtract \"a\" true",
        "two: subtract \"a\" true",
        "two: subtract Some(\"2\") None",
        "one: subtract Some(\"2\") None",
        "one: refused - true",
        "two: refused - true",
        "two: refused None Some(1000)",
        "one: refused None Some(1000)",
        "one: unknown 1 false",
        "two: unknown 1 false",
        "two: unknown None Some(-32601)",
        "one: unknown None Some(-32601)",
        "two: closed 7",
        "one: closed 7",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

const PING: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":1}\n";
const PONG: &str = "{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":1}\n";

// INT-09 SEC-09
#[test]
fn a_local_router_has_a_rate_for_each_connection_and_one_for_all() {
    // The last of the three limits is never reached: two for each connection work side by side.
    let mut router = LocalRouter::new()
        .method("ping", [], || ())
        .intercept(LocalRateLimit::per_router(Bucket::per_second(1, 5)))
        .intercept(LocalRateLimit::per_connection(Bucket::per_second(1, 2)))
        .intercept(LocalRateLimit::per_connection(Bucket::per_second(1, 9)));
    let error = Config::new().dialect.error_profile.rate_limited();
    let (code, message) = (error.code(), error.message().to_owned());
    let busy = format!(
        "{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":{code},\"message\":\"{message}\"}},\"id\":1}}\n"
    );
    assert!(busy.contains("-32002"), "{busy}");
    let (mut one, mut other) = (numbered(1), numbered(2));
    let start = Instant::ZERO + Duration::from_secs(1000);
    let ask =
        |router: &mut LocalRouter, conn: &mut Connection, now| played(router, conn, PING, 1, now);
    // Its own rate.
    for expected in [PONG, PONG, &busy] {
        assert_eq!(ask(&mut router, &mut one, start), expected);
    }
    // Another connection's own rate.
    for expected in [PONG, PONG, &busy] {
        assert_eq!(ask(&mut router, &mut other, start), expected);
    }
    // A notification takes a token too, and gets no answer.
    let later = start + Duration::from_secs(1);
    let told = "{\"jsonrpc\":\"2.0\",\"method\":\"ping\"}\n";
    assert_eq!(played(&mut router, &mut one, told, 1, later), "");
    assert_eq!(ask(&mut router, &mut one, later), busy);
    // A connection that has ended keeps no bucket: the next one of its number has a full one, at a time at which the
    // old one would have a single token.
    let (a_while, second) = (Duration::from_secs(4), Duration::from_secs(1));
    for expected in [PONG, PONG, &busy] {
        assert_eq!(ask(&mut router, &mut one, later + a_while), expected);
    }
    router.closed(&one);
    for expected in [PONG, PONG, &busy] {
        assert_eq!(
            ask(&mut router, &mut one, later + a_while + second),
            expected
        );
    }
}

// INT-09 SEC-09
#[test]
fn a_rate_for_all_counts_the_calls_of_every_connection() {
    let mut router = LocalRouter::new()
        .method("ping", [], || ())
        .intercept(LocalRateLimit::per_router(Bucket::per_second(1, 3)));
    let mut conns = [numbered(1), numbered(2)];
    let start = Instant::ZERO + Duration::from_secs(1000);
    let mut ask = |conn: usize, now| {
        let answer = played(&mut router, &mut conns[conn], PING, 1, now);
        router.closed(&conns[conn]);
        answer == PONG
    };
    let passed = [0, 1, 0, 1, 0].map(|conn| ask(conn, start));
    assert_eq!(passed, [true, true, true, false, false]);
    let later = start + Duration::from_secs(1);
    assert_eq!([1, 0].map(|conn| ask(conn, later)), [true, false]);
}

/// What the clock of the router below says, in nanoseconds; the method `slow` moves it on.
static NOW: AtomicU64 = AtomicU64::new(5);

/// What a log is told of, in a line each.
struct Lines(Log);

impl CallLog for Lines {
    fn request(&self, call: &LoggedCall<'_>, params: Option<&str>) {
        let line = format!("{} {} {params:?}", call.connection, call.method);
        self.0.lock().unwrap().push(line);
    }

    fn response(&self, call: &LoggedCall<'_>, duration: Duration, result: Option<&str>) {
        let line = format!("{} {duration:?} {result:?}", call.method);
        self.0.lock().unwrap().push(line);
    }

    fn error(
        &self,
        call: &LoggedCall<'_>,
        duration: Duration,
        error: &ErrorObject<'_>,
        _: Option<&dyn std::error::Error>,
    ) {
        let line = format!("{} {duration:?} {}", call.method, error.code());
        self.0.lock().unwrap().push(line);
    }
}

// INT-07
#[test]
fn a_local_router_logs_by_the_clock_that_it_is_given() {
    let log = Log::default();
    let mut router = LocalRouter::new()
        .method("slow", ["n"], |n: u64| {
            NOW.fetch_add(n, Ordering::Relaxed);
            Ok::<_, OwnedError>(n)
        })
        .clock(|| Instant::from_nanos(NOW.load(Ordering::Relaxed)))
        .intercept(
            Logging::new(Lines(Arc::clone(&log))).with_payloads(|_, text| Some(text.into())),
        );
    let input = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"slow\",\"params\":[7],\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"slow\",\"params\":[\"7\"],\"id\":1}\n",
    );
    played(
        &mut router,
        &mut numbered(3),
        input,
        usize::MAX,
        Instant::ZERO,
    );
    let expected = [
        "3 slow Some(\"[7]\")",
        "slow 7ns Some(\"7\")",
        "3 slow Some(\"[\\\"7\\\"]\")",
        "slow 0ns -32602",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Writes down the error that the peer is told.
struct Errors(Log);

impl Interceptor<LocalRequest> for Errors {
    fn response(&self, _: &Cx, _: &LocalRequest, reply: &mut Reply) {
        let error = reply.error().unwrap();
        let data = error.data().map(|data| data.to_string());
        let line = format!("{} {data:?}", error.code());
        self.0.lock().unwrap().push(line);
    }
}

// INT-03 SEC-07
#[test]
fn an_interceptor_sees_the_error_as_the_peer_does() {
    let log = Log::default();
    let mut router = LocalRouter::new().intercept(Errors(Arc::clone(&log)));
    for echoes in [false, true] {
        let mut conn = Connection::new(Config::new().echo_method_names(echoes));
        let input = "{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}\n";
        played(&mut router, &mut conn, input, 1, Instant::ZERO);
    }
    let expected = ["-32601 None", "-32601 Some(\"\\\"x\\\"\")"];
    assert_eq!(*log.lock().unwrap(), expected);
}

struct Small;

impl FixedConfig for Small {
    const CONFIG: Config = Config::new().echo_method_names(true);
}

// SEC-07
#[test]
fn a_connection_with_a_fixed_configuration_is_served_too() {
    let mut conn: Connection<(), Small> = Connection::fixed(Small);
    let mut router = LocalRouter::new().intercept(Seen("one", Log::default()));
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("it is a request");
    };
    router.respond(&mut conn, request).unwrap_err();
    let answer = String::from_utf8_lossy(conn.poll_transmit().unwrap());
    assert!(answer.contains(r#""data":"x""#), "{answer}");
}

// INT-01
#[test]
fn what_decides_later_fails_where_nothing_can_wait_for_it() {
    let mut router = LocalRouter::new().intercept(Seen("two", Log::default()));
    let mut conn: Connection = Connection::new(Config::new());
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"later\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("it is a request");
    };
    let failure = router.respond(&mut conn, request).unwrap_err();
    let cause = failure.cause().expect("it has one").to_string();
    let expected = "an interceptor decides later, where nothing can wait for it";
    assert_eq!(cause, expected);
}

// SEC-07
#[test]
fn a_local_router_names_an_unknown_method_only_where_it_may() {
    let input = "{\"jsonrpc\":\"2.0\",\"method\":\"x\\\"y\",\"id\":1}\n";
    for (echoes, data) in [(false, ""), (true, r#","data":"x\"y""#)] {
        let expected = format!(
            "{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":-32601,\"message\":\"Method not found\"{data}}},\"id\":1}}\n"
        );
        let seen = LocalRouter::new().intercept(Seen("one", Log::default()));
        for mut router in [LocalRouter::new(), seen] {
            let config = Config::new().echo_method_names(echoes);
            let mut conn = Connection::new(config);
            let answered = played(&mut router, &mut conn, input, 1, Instant::ZERO);
            assert_eq!(answered, expected);
        }
    }
}

/// Writes down all that a call says of itself.
struct Told(Log);

impl Interceptor<LocalRequest> for Told {
    fn request(&self, _: &mut Cx, request: &LocalRequest) -> Decision {
        let (origin, params) = (request.origin(), request.params().map(|it| it.to_string()));
        let line = format!(
            "{request:?} {} {:?} {} {:?} {params:?} {:?} {}",
            origin.bytes,
            origin.batch_index,
            request.connection(),
            request.version(),
            request.now().saturating_since(Instant::ZERO),
            request.config().limits.max_batch_items,
        );
        self.0.lock().unwrap().push(line);
        Decision::Continue
    }
}

// INT-01
#[test]
fn a_call_of_a_local_router_says_where_it_stood_and_when_it_came() {
    let log = Log::default();
    let mut router = LocalRouter::new().intercept(Told(Arc::clone(&log)));
    let mut config = Config::new();
    (config.connection, config.limits.max_batch_items) = (9, 4);
    let mut conn = Connection::new(config);
    let input = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[1],\"id\":1}\n",
        "[1,{\"jsonrpc\":\"2.0\",\"method\":\"b\"}]\n",
    );
    let now = Instant::ZERO + Duration::from_secs(3);
    played(&mut router, &mut conn, input, usize::MAX, now);
    let expected = [
        "LocalRequest(\"a\") 50 None 9 Some(\"2.0\") Some(\"[1]\") 3s 4",
        "LocalRequest(\"b\") 30 Some(1) 9 Some(\"2.0\") None 3s 4",
    ];
    assert_eq!(*log.lock().unwrap(), expected);
}

/// Replaces the method of every call.
struct Leads(&'static str);

impl Interceptor<LocalRequest> for Leads {
    fn request(&self, cx: &mut Cx, _: &LocalRequest) -> Decision {
        cx.set_method(self.0);
        Decision::Continue
    }
}

// INT-01 INT-06
#[test]
fn a_nested_router_brings_its_state_and_interceptors() {
    let log = Log::default();
    let inmost = LocalRouter::with_state(5)
        .method("five", [], |State(five): State<u32>| {
            Ok::<_, OwnedError>(five)
        })
        .method("refused", [], || Ok::<_, OwnedError>(1))
        .intercept(Seen("two", Arc::clone(&log)));
    let inner = LocalRouter::new()
        .nest("deep", inmost)
        .method("own", [], || Ok::<_, OwnedError>(1))
        .intercept(Seen("one", Arc::clone(&log)));
    let mut router = LocalRouter::new()
        .method("free", [], || Ok::<_, OwnedError>(0))
        .nest(Prefix::separated("part", "/"), inner);
    let mut conn = numbered(1);
    router.opened(&conn);
    let mut ask = |method: &str| {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"id\":1}}\n");
        let answer = played(&mut router, &mut conn, &line, 7, Instant::ZERO);
        (answer, std::mem::take(&mut *log.lock().unwrap()))
    };
    let opened = ["one: opened 1", "two: opened 1"].map(String::from);
    let (answer, seen) = ask("free");
    assert!(answer.contains(r#""result":0"#), "{answer}");
    assert_eq!(seen, opened);
    let (answer, seen) = ask("part/own");
    assert!(answer.contains(r#""result":1"#), "{answer}");
    assert_eq!(seen.len(), 2);
    let (answer, seen) = ask("part/deep.five");
    assert!(answer.contains(r#""result":5"#), "{answer}");
    let expected = [
        "one: part/deep.five 1 true",
        "two: part/deep.five 1 true",
        r#"two: part/deep.five Some("5") None"#,
        r#"one: part/deep.five Some("5") None"#,
    ];
    assert_eq!(seen, expected);
    let names = r#""result":["free","part/deep.five","part/deep.refused","part/own"]"#;
    let (answer, seen) = ask("rpc.listMethods");
    assert!(answer.contains(names) && seen.is_empty(), "{answer}");
}

// INT-06 SEC-03
#[test]
fn no_interceptor_leads_around_those_of_a_group() {
    let guarded = |interceptor| {
        let inner = LocalRouter::new().method("stop", [], || Ok::<_, OwnedError>("stopped"));
        LocalRouter::new().nest("admin", inner.intercept(interceptor))
    };
    let mut conn = numbered(1);
    let mut ask = |router: LocalRouter, method: &str| {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"id\":1}}\n");
        played(&mut { router }, &mut conn, &line, 100, Instant::ZERO)
    };
    // The router's interceptor replaces the method; the group's interceptors see the call.
    let limit = || LocalRateLimit::per_router(Bucket::per_second(1, 1));
    let answer = ask(guarded(limit()).intercept(Leads("admin.stop")), "anything");
    assert!(answer.contains("stopped"), "{answer}");
    let used = LocalRouter::new().nest("outer", guarded(limit()).intercept(Leads("admin.stop")));
    // Interceptors of a nested router see and replace the whole names.
    assert!(ask(used, "outer.admin.stop").contains(INTERNAL));
    // A group's interceptor cannot lead into another group, nor out of its own.
    for other in ["admin.stop", "free"] {
        let inner = LocalRouter::new().method("go", [], || Ok::<_, OwnedError>(1));
        let router = guarded(limit())
            .method("free", [], || Ok::<_, OwnedError>(1))
            .nest("open", inner.intercept(Leads(other)));
        assert!(ask(router, "open.go").contains(INTERNAL));
    }
}
