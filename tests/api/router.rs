//! The answers of a router without a runtime, byte for byte, however its input is split.

use std::sync::{Arc, Mutex};

use antiphon::service::{
    Discovery, Failure, Handler, Implementation, LocalRouter, MethodInfo, Methods, ParamInfo,
    RegisterError, Registry, ResultText, ServiceInfo, described, write_result,
};
use antiphon::{
    Config, Connection, Event, FromCall, Input, Internal, Json, NotificationOk, OwnedError, Params,
    State, method_info,
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Move {
    x: i32,
    y: i32,
    #[serde(default)]
    speed: u8,
}

/// An argument that takes nothing from a request, and refuses it if the state is 0.
struct Allowed;

impl FromCall<(), u32> for Allowed {
    fn from_call((): &(), state: &u32) -> Result<Self, OwnedError> {
        match state {
            0 => Err(OwnedError::new(1000, "Not allowed")),
            _ => Ok(Self),
        }
    }
}

fn router(state: u32) -> LocalRouter<u32> {
    LocalRouter::with_state(state)
        .method("subtract", ["a", "b"], |a: i64, b: i64| {
            Ok::<_, OwnedError>(a - b)
        })
        .method(
            "greet",
            ["name", "title"],
            |name: String, title: Option<String>| {
                Ok::<_, OwnedError>(title.unwrap_or_default() + &name)
            },
        )
        .method("move", [], |Params(to): Params<Move>| {
            Ok::<_, OwnedError>((to.x, to.y, to.speed))
        })
        .method("state", [], |State(state): State<u32>| {
            Ok::<_, OwnedError>(state)
        })
        .method(
            "guarded",
            ["n"],
            |_: Allowed, n: u8, State(state): State<u32>| Ok::<_, OwnedError>(u32::from(n) + state),
        )
        .method("nothing", [], || ())
        .method("fails", [], || {
            Err::<(), _>(OwnedError::new(7, "no").with_data(&[1]).internal()?)
        })
        .method("breaks", [], || {
            Err::<u8, _>(std::io::Error::other("secret")).internal()
        })
        .method("unserialisable", [], || {
            Ok::<_, OwnedError>(std::collections::BTreeMap::from([((1, 2), 3)]))
        })
        .notification("note", ["line"], |_: String| NotificationOk)
        .service(Implementation::new(Pair).prefix("pair"))
}

/// A service written without the macro.
struct Pair;

static PAIR: ServiceInfo = ServiceInfo {
    name: "Pair",
    doc: "",
    prefix: "",
    methods: &[
        MethodInfo::request("first", &[]),
        MethodInfo::notification("second", &[]),
    ],
};

impl Methods<(), u32> for Pair {
    fn info(&self) -> &'static ServiceInfo {
        &PAIR
    }

    fn call(
        &self,
        method: usize,
        params: Option<Json<'_>>,
        (): &(),
        _: &u32,
        result: &mut ResultText,
    ) -> Result<(), Failure> {
        write_result(Ok::<_, OwnedError>((method, params)), result)
    }
}

/// The output for this input, which comes in pieces of so many bytes.
fn played(router: &mut LocalRouter<u32>, input: &str, piece: usize) -> String {
    let mut conn: Connection = Connection::new(Config::new());
    let (mut shown, mut out) = (Vec::new(), Vec::new());
    for bytes in input.as_bytes().chunks(piece) {
        shown.extend_from_slice(bytes);
        let mut input = Input::stream(&shown);
        while let Some(event) = conn.poll_event(&mut input) {
            match event {
                Event::Request(request) => drop(router.respond(&mut conn, request)),
                Event::Notification(notification) => drop(router.handle(&conn, &notification)),
                _ => {}
            }
        }
        let consumed = input.consumed();
        shown.drain(..consumed);
        while conn.take_transmit(&mut out) {}
    }
    String::from_utf8(out).unwrap()
}

const INVALID: &str = r#""error":{"code":-32602,"message":"Invalid params"}"#;
const INTERNAL: &str = r#""error":{"code":-32603,"message":"Internal error"}"#;
const UNKNOWN: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;

// SRV-01 SRV-02 SRV-05 SRV-06 SRV-07 SRV-08 SRV-09 SRV-13 SRV-28 SEC-06
#[test]
fn a_router_answers_to_the_byte() {
    let cases = [
        (r#""subtract","params":[42,23]"#, r#""result":19"#),
        (r#""subtract","params":{"b":23,"a":42}"#, r#""result":19"#),
        (r#""subtract","params":[42]"#, INVALID),
        (r#""subtract","params":[42,23,1]"#, INVALID),
        (r#""subtract","params":[42,"23"]"#, INVALID),
        (r#""subtract","params":[42,null]"#, INVALID),
        (r#""subtract","params":[42,2.5]"#, INVALID),
        (r#""subtract","params":{"a":42}"#, INVALID),
        (r#""subtract","params":{"a":42,"b":23,"c":1}"#, INVALID),
        (r#""subtract","params":{"a":42,"b":23,"a":42}"#, INVALID),
        (r#""subtract","params":{"A":42,"b":23}"#, INVALID),
        (r#""subtract","params":{"a":42,"b":[]}"#, INVALID),
        (r#""subtract""#, INVALID),
        (r#""greet","params":["x"]"#, r#""result":"x""#),
        (r#""greet","params":["x",null]"#, r#""result":"x""#),
        (
            r#""greet","params":{"title":"Dr ","name":"x"}"#,
            r#""result":"Dr x""#,
        ),
        (r#""greet","params":{"title":"Dr "}"#, INVALID),
        (r#""move","params":[1,2]"#, r#""result":[1,2,0]"#),
        (r#""move","params":[1,2,3]"#, r#""result":[1,2,3]"#),
        (r#""move","params":{"y":2,"x":1}"#, r#""result":[1,2,0]"#),
        (r#""move","params":{"y":2,"x":1,"z":1}"#, INVALID),
        (r#""move","params":[1,2,3,4]"#, INVALID),
        (r#""move","params":[1,2,300]"#, INVALID),
        (r#""move""#, INVALID),
        (r#""state""#, r#""result":5"#),
        (r#""state","params":[]"#, r#""result":5"#),
        (r#""state","params":{}"#, r#""result":5"#),
        (r#""state","params":[1]"#, INVALID),
        (r#""guarded","params":[1]"#, r#""result":6"#),
        (r#""nothing""#, r#""result":null"#),
        (
            r#""fails""#,
            r#""error":{"code":7,"message":"no","data":[1]}"#,
        ),
        (r#""breaks""#, INTERNAL),
        (r#""unserialisable""#, INTERNAL),
        (r#""note","params":["x"]"#, r#""result":null"#),
        (r#""note","params":[1]"#, INVALID),
        (r#""pair.first","params":[1]"#, r#""result":[0,[1]]"#),
        (r#""pair.second","params":[1]"#, r#""result":null"#),
        (r#""first""#, UNKNOWN),
        (r#""Subtract""#, UNKNOWN),
        (r#""""#, UNKNOWN),
        (r#""rpc.x""#, UNKNOWN),
        (
            r#""rpc.listMethods""#,
            r#""result":["breaks","fails","greet","guarded","move","note","nothing","pair.first","pair.second","state","subtract","unserialisable"]"#,
        ),
        (r#""rpc.listMethods","params":[1]"#, INVALID),
        (r#""rpc.discover","params":{"a":1}"#, INVALID),
    ];
    let (mut input, mut expected) = (String::new(), String::new());
    for (id, (call, answer)) in cases.iter().enumerate() {
        input += &format!("{{\"jsonrpc\":\"2.0\",\"method\":{call},\"id\":{id}}}\n");
        // As a notification it is not answered, whatever happens.
        input += &format!("{{\"jsonrpc\":\"2.0\",\"method\":{call}}}\n");
        expected += &format!("{{\"jsonrpc\":\"2.0\",{answer},\"id\":{id}}}\n");
    }
    for piece in [usize::MAX, 1, 7] {
        let answers = played(&mut router(5), &input, piece);
        for (answer, expected) in answers.lines().zip(expected.lines()) {
            assert_eq!(answer, expected);
        }
        assert_eq!(answers.len(), expected.len(), "in pieces of {piece}");
    }
}

// INT-12
#[test]
fn what_an_argument_refuses_is_the_answer() {
    let mut refusing = router(0);
    let request = "{\"jsonrpc\":\"2.0\",\"method\":\"guarded\",\"params\":[1],\"id\":1}\n";
    let refused =
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1000,\"message\":\"Not allowed\"},\"id\":1}\n";
    assert_eq!(played(&mut refusing, request, usize::MAX), refused);
}

// SRV-34
#[test]
fn failures_are_told_apart_here() {
    let router = router(5);
    let failure = |method: &str, params: &str| {
        let mut result = Vec::new();
        let params = (!params.is_empty()).then(|| Json::parse_str(params).unwrap());
        let failure = router.run(method, params, &mut result).unwrap_err();
        assert_eq!(failure.as_error(), failure.as_error());
        let cause = failure.cause().map(ToString::to_string);
        let declines = failure.declines();
        let code = failure.as_error().code();
        assert_eq!(failure.into_error().code(), code);
        (code, cause, declines)
    };
    assert_eq!(failure("x", ""), (-32601, None, false));
    assert_eq!(failure("fails", ""), (7, None, false));
    assert_eq!(
        failure("breaks", ""),
        (-32603, Some("secret".into()), false)
    );
    let (code, cause, _) = failure("subtract", "[1]");
    assert_eq!(
        (code, cause.as_deref()),
        (-32602, Some("a parameter is missing"))
    );
    let (code, cause, _) = failure("unserialisable", "");
    assert!(code == -32603 && cause.is_some(), "{cause:?}");
    let mut kept = b"kept".to_vec();
    router.run("state", None, &mut kept).unwrap();
    router
        .run("note", Json::parse_str("[\"\"]").ok(), &mut kept)
        .unwrap();
    assert_eq!(kept, b"kept5null");
    let declined = Failure::from(OwnedError::new(-32601, "x"));
    assert!(declined.declines());
}

// SRV-10 SRV-11 SRV-12 SRV-35
#[test]
fn names_that_cannot_be_used_are_refused() {
    let ok = |_: u8| Ok::<_, OwnedError>(0);
    let named = |name: &'static str| {
        let router = LocalRouter::new().method("taken", [], || ());
        let refused = router.try_method(MethodInfo::request(name, &[]), ["a"], ok);
        refused.map(drop)
    };
    assert_eq!(named("x"), Ok(()));
    let one = LocalRouter::new().method("taken", [], || ());
    assert!(one.serves("taken") && !one.serves("free"));
    one.replace(MethodInfo::request("free", &[]), ["a"], ok)
        .unwrap();
    assert!(one.serves("free"));
    let named_twice = one.replace(
        MethodInfo::request("free", &[]),
        ["a", "a"],
        |_: u8, _: u8| (),
    );
    assert_eq!(
        named_twice,
        Err(RegisterError::RepeatedParam("free".into(), "a"))
    );
    assert!(one.remove("taken") && !one.serves("taken"));
    assert_eq!(named(""), Err(RegisterError::BlankName));
    assert_eq!(named(" "), Err(RegisterError::BlankName));
    assert_eq!(named("rpc.x"), Err(RegisterError::Reserved("rpc.x".into())));
    assert_eq!(named("taken"), Err(RegisterError::Taken("taken".into())));
    let with = |names: [&'static str; 2]| {
        let two = |_: u8, _: u8| Ok::<_, OwnedError>(0);
        let router = LocalRouter::new();
        router
            .try_method(MethodInfo::request("m", &[]), names, two)
            .map(drop)
    };
    assert_eq!(
        with(["a", "a"]),
        Err(RegisterError::RepeatedParam("m".into(), "a"))
    );
    assert_eq!(with(["a", " "]), Err(RegisterError::BlankParam("m".into())));
    let wrong = LocalRouter::new().try_method(MethodInfo::request("m", &[]), ["a", "b"], ok);
    assert_eq!(
        wrong,
        Err(RegisterError::WrongNumberOfNames("m".into(), 1, 2))
    );
    let both = |_: Params<Move>, _: u8| Ok::<_, OwnedError>(0);
    let wrong = LocalRouter::new().try_method(MethodInfo::request("m", &[]), ["a"], both);
    assert_eq!(wrong, Err(RegisterError::WholeAndParts("m".into())));
    let described =
        |info: MethodInfo| LocalRouter::new().try_method(info, ["a", "b"], |_: u8, _: u8| ());
    assert_eq!(described(method_info!("m"("a": u8, "b": u8) -> ())), Ok(()));
    let other = Err(RegisterError::OtherParams("m".into()));
    assert_eq!(described(method_info!("m"("b": u8, "a": u8) -> ())), other);
    assert_eq!(described(method_info!("m"("a": u8) -> ())), other);
    let twice = router(5).try_service(Implementation::new(Pair).prefix("pair"));
    assert_eq!(twice, Err(RegisterError::Taken("pair.first".into())));
    let blank = router(5).try_service(Implementation::new(Pair).prefix(" "));
    assert_eq!(blank, Err(RegisterError::BlankPrefix));
    let texts = [
        (RegisterError::BlankName, "a method needs a name"),
        (RegisterError::BlankPrefix, "a prefix needs text"),
        (
            RegisterError::Taken("name".into()),
            "a method `name` is registered already: give its service a prefix, or use qualified names",
        ),
        (
            RegisterError::Reserved("rpc.x".into()),
            "`rpc.x` begins with `rpc.`, which is reserved; allow reserved names or switch the extensions off to use it",
        ),
        (
            RegisterError::NotReserved("x".into()),
            "`x` does not begin with `rpc.`, as the names of extensions do",
        ),
        (
            RegisterError::BlankParam("name".into()),
            "a parameter of `name` needs a name",
        ),
        (
            RegisterError::RepeatedParam("name".into(), "param"),
            "two parameters of `name` have the name `param`",
        ),
        (
            RegisterError::WrongNumberOfNames("name".into(), 1, 2),
            "the handler of `name` takes 1 parameters, and 2 are named",
        ),
        (
            RegisterError::WholeAndParts("name".into()),
            "the handler of `name` takes all params as `Params`, and others beside them",
        ),
        (
            RegisterError::OtherParams("name".into()),
            "`name` is described with other parameters than its handler takes",
        ),
    ];
    for (error, text) in texts {
        assert_eq!(error.to_string(), text);
    }
    // A name of any length is a name.
    let long: &'static str = String::leak("x".repeat(1 << 20));
    assert_eq!(named(long), Ok(()));
}

// SRV-11 SRV-12
#[test]
fn a_set_of_methods_is_registered_whole_or_not_at_all() {
    let mut registry = Registry::new();
    let info = |name: &'static str| (MethodInfo::request(name, &[]), name);
    assert_eq!(registry.insert_all(vec![info("a"), info("b")]), Ok(()));
    let reserved = registry.insert_all(vec![info("c"), info("rpc.x")]);
    assert_eq!(reserved, Err(RegisterError::Reserved("rpc.x".into())));
    let blank = registry.insert_all(vec![info("c"), info("")]);
    assert_eq!(blank, Err(RegisterError::BlankName));
    let taken = registry.insert_all(vec![info("c"), info("b")]);
    assert_eq!(taken, Err(RegisterError::Taken("b".into())));
    let twice = registry.insert_all(vec![info("c"), info("c")]);
    assert_eq!(twice, Err(RegisterError::Taken("c".into())));
    // A method that cannot be registered replaces none either.
    let reserved = registry.replace(MethodInfo::request("rpc.x", &[]), "x");
    assert_eq!(reserved, Err(RegisterError::Reserved("rpc.x".into())));
    let names: Vec<&str> = registry.infos().map(MethodInfo::name).collect();
    assert_eq!(names, ["a", "b"]);
}

// SRV-13 USE-17
#[test]
fn what_is_told_is_served_and_what_went_wrong_is_known_here() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&lines);
    let mut router = LocalRouter::new()
        .notification("note", ["line"], move |line: String| {
            kept.lock().unwrap().push(line);
        })
        .notification("fails", [], || Err::<(), _>(OwnedError::new(7, "no")));
    let mut told = |call: &str| {
        let mut conn: Connection = Connection::new(Config::new());
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":{call}}}\n");
        let mut input = Input::stream(text.as_bytes());
        let Some(Event::Notification(notification)) = conn.poll_event(&mut input) else {
            panic!("it is a notification");
        };
        let served = router.handle(&conn, &notification);
        assert_eq!(conn.poll_transmit(), None);
        served.map_err(|failure| failure.as_error().code())
    };
    assert_eq!(told(r#""note","params":["x"]"#), Ok(()));
    assert_eq!(told(r#""note","params":[1]"#), Err(-32602));
    assert_eq!(told(r#""fails""#), Err(7));
    assert_eq!(told(r#""none""#), Err(-32601));
    assert_eq!(*lines.lock().unwrap(), ["x"]);
}

// EXT-08 USE-36
#[test]
fn a_document_has_the_fields_of_what_takes_all_params() {
    let document = Discovery::default().document([&describe_move()].into_iter());
    let integer = match cfg!(feature = "openrpc") {
        true => r#"{"type":"integer"}"#,
        false => "{}",
    };
    let expected = format!(
        "{{\"name\":\"move\",\"params\":[\
        {{\"name\":\"x\",\"required\":true,\"schema\":{integer}}},\
        {{\"name\":\"y\",\"required\":true,\"schema\":{integer}}},\
        {{\"name\":\"speed\",\"required\":false,\"schema\":{integer}}}]"
    );
    let document = document.unwrap();
    assert!(document.contains(&expected), "{document}");
}

/// What is known of a method that takes a [`Move`].
fn describe_move() -> MethodInfo {
    let handler = |Params(to): Params<Move>| Ok::<_, OwnedError>(to.x);
    fn describe<M, H: Handler<(), (), M>>(_: H) -> MethodInfo {
        described::<(), (), M, H>(MethodInfo::request("move", &[]), &[]).unwrap()
    }
    describe(handler)
}

/// A type that refers to itself.
#[cfg(feature = "openrpc")]
struct Tree;

#[cfg(feature = "openrpc")]
impl schemars::JsonSchema for Tree {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Tree".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"items": generator.subschema_for::<Tree>()})
    }
}

// EXT-08
#[test]
fn a_document_says_what_a_program_says_when_it_runs() {
    // A text that is only known when the program runs.
    let doc = String::leak(String::from("Adds.\n\nNumbers of any size. "));
    let add = MethodInfo::request("add", &[]).with_doc(doc);
    let document = Discovery::default().document([&add].into_iter()).unwrap();
    let expected = r#"{"name":"add","summary":"Adds.","description":"Numbers of any size.","params":[],"result""#;
    assert!(document.contains(expected), "{document}");
}

// EXT-08
#[cfg(feature = "openrpc")]
#[test]
fn a_document_brings_the_types_that_refer_to_themselves() {
    use antiphon::service::SchemaOf;

    let tree = ParamInfo::optional("tree").with_schema(antiphon::schema_of!(Tree));
    let grow = MethodInfo::request("grow", &[])
        .with_params(vec![tree])
        .with_result(SchemaOf::of::<bool>());
    let document = Discovery::new("T", "1").document([&grow].into_iter());
    let expected = "{\"openrpc\":\"1.0.0\",\"info\":{\"title\":\"T\",\"version\":\"1\"},\"methods\":[\
        {\"name\":\"grow\",\"params\":[{\"name\":\"tree\",\"required\":false,\
        \"schema\":{\"items\":{\"$ref\":\"#/components/schemas/Tree\"}}}],\
        \"result\":{\"name\":\"result\",\"schema\":{\"type\":\"boolean\"}}}],\
        \"components\":{\"schemas\":{\"Tree\":{\"items\":{\"$ref\":\"#/components/schemas/Tree\"}}}}}";
    assert_eq!(document.unwrap(), expected);
    // A type without a schema may be anything, and `Debug` shows nothing of a schema.
    let unknown = antiphon::schema_of!(Move);
    assert_eq!(unknown.to_json().unwrap().as_str(), "{}");
    let known = antiphon::schema_of!(u8).to_json().unwrap();
    assert_eq!(
        known.as_str(),
        r#"{"type":"integer","maximum":255,"minimum":0}"#
    );
    assert_eq!(format!("{unknown:?}"), "SchemaOf");
}

// EXT-01 EXT-05 EXT-06
#[test]
fn discovery_says_what_it_is_told_or_nothing() {
    const ADD: MethodInfo = MethodInfo::request("add", &[ParamInfo::of::<u8>("a")]);
    let served = |router: LocalRouter| {
        let ask = |method| {
            let mut result = Vec::new();
            let done = router.run(method, None, &mut result);
            done.map(|()| String::from_utf8(result).unwrap())
                .map_err(|failure| failure.as_error().code())
        };
        (ask(Discovery::DISCOVER), ask(Discovery::LIST_METHODS))
    };
    let add = |a: u8| Ok::<_, OwnedError>(a);
    let router = || {
        let router = LocalRouter::new();
        router.try_method(ADD, ["a"], add).unwrap();
        router
    };
    let (document, names) =
        served(router().discovery(Discovery::new("T", "2").with_openrpc("1.3.2")));
    let document = document.unwrap();
    assert!(
        document.starts_with(
            r#"{"openrpc":"1.3.2","info":{"title":"T","version":"2"},"methods":[{"name":"add""#
        ),
        "{document}"
    );
    assert_eq!(names.as_deref(), Ok(r#"["add"]"#));
    assert_eq!(served(router().discovery(None)), (Err(-32601), Err(-32601)));
    // Without extensions their names are free.
    let own = router()
        .discovery(None)
        .method("rpc.discover", [], || Ok::<_, OwnedError>(1));
    assert_eq!(served(own), (Ok("1".into()), Err(-32601)));
    let infos = [ADD];
    let whole = Discovery::default().document(infos.iter()).unwrap();
    assert!(
        whole.starts_with(
            r#"{"openrpc":"1.0.0","info":{"title":"JSON-RPC server","version":"0.0.0"}"#
        ),
        "{whole}"
    );
    assert_eq!(format!("{:?}", router()), r#"{"add"}"#);
    let discovery = Discovery::default();
    assert!(discovery.answers("rpc.discover") && !discovery.answers("rpc.x"));
}

/// The answer to a request without params.
fn asked(router: &mut LocalRouter, config: Config, method: &str) -> String {
    let mut conn: Connection = Connection::new(config.framing(antiphon::Framing::Newline));
    let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"id\":1}}\n");
    let mut input = Input::stream(line.as_bytes());
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            drop(router.respond(&mut conn, request));
        }
    }
    String::from_utf8(conn.poll_transmit().unwrap().to_vec()).unwrap()
}

// EXT-02 EXT-04 SRV-12 EXT-12
#[test]
fn a_local_router_serves_the_extensions_that_it_should() {
    use antiphon::service::{AnyRequest, Cx, Interceptor, LocalRequest, ReservedNames};

    let add = || LocalRouter::new().method("add", [], || Ok::<_, OwnedError>(1));
    let listed = r#""result":["add"]"#;
    let ask =
        |router: LocalRouter, config: Config, method: &str| asked(&mut { router }, config, method);
    let plain = Config::new();
    assert!(ask(add(), plain, "rpc.listMethods").contains(listed));
    for config in [Config::lsp(), plain.system_extensions(false)] {
        assert!(ask(add(), config, "rpc.listMethods").contains("-32601"));
        let wanted = add().discovery(Discovery::default());
        assert!(ask(wanted, config, "rpc.listMethods").contains(listed));
    }
    let one = || add().discovery(Discovery::default().without("rpc.discover"));
    assert!(ask(one(), plain, "rpc.discover").contains("-32601"));
    assert!(ask(one(), plain, "rpc.listMethods").contains(listed));
    let both = || {
        add()
            .reserved_names(ReservedNames::Allow)
            .method("rpc.own", [], || Ok::<_, OwnedError>("own"))
            .method("rpc.discover", [], || Ok::<_, OwnedError>("own"))
    };
    assert!(ask(both(), plain, "rpc.own").contains("own"));
    assert!(ask(both(), plain, "rpc.discover").contains("openrpc"));

    struct Hides;

    impl Interceptor<LocalRequest> for Hides {
        fn shows(&self, cx: &mut Cx, request: &LocalRequest, info: &MethodInfo) -> bool {
            cx.method().is_none() && !request.is_notification() && info.name() != "hidden"
        }
    }

    let hiding = || add().method("hidden", [], || ()).intercept(Hides);
    assert!(ask(hiding(), plain, "rpc.listMethods").contains(listed));
    assert!(!ask(hiding(), plain, "rpc.discover").contains("hidden"));
    assert!(ask(hiding(), plain, "hidden").contains("null"));
}

// ERR-04 ERR-12 USE-39
#[test]
fn a_local_router_tells_of_failures_what_the_configuration_says() {
    use antiphon::{Failures, Unhandled};

    let failures = Failures::new()
        .unhandled(Unhandled::ServerError32000)
        .expose_error_detail(true);
    let config = Config::new().failures(failures);
    let router = || {
        LocalRouter::new()
            .method("breaks", [], || {
                Err::<u8, _>(std::io::Error::other("secret")).internal()
            })
            .method("needs", ["n"], |n: u8| Ok::<_, OwnedError>(n))
            .method("own", [], || Err::<u8, _>(OwnedError::new(7, "no")))
    };
    let broken = asked(&mut router(), config, "breaks");
    let data = r#""data":{"type":"std::io::error::Error","message":"secret"}"#;
    assert!(
        broken.contains("-32000") && broken.contains(data),
        "{broken}"
    );
    let invalid = asked(&mut router(), config, "needs");
    let data = r#""message":"Invalid params","data":{"type":"DecodeError","message":"a parameter is missing: `n`"}"#;
    assert!(
        invalid.contains("-32602") && invalid.contains(data),
        "{invalid}"
    );
    assert!(asked(&mut router(), config, "own").contains(r#"{"code":7,"message":"no"}"#));
    let silent = asked(&mut router(), Config::new(), "breaks");
    assert!(
        silent.contains(r#"{"code":-32603,"message":"Internal error"}"#),
        "{silent}"
    );
}

// GEN-01 SRV-05 SRV-06
#[test]
fn a_method_is_served_as_it_is_described() {
    let about = method_info!("move"("x": i32, "y": i32, "speed": Option<u8>) -> ());
    let mut router = LocalRouter::with_state(5)
        .method_with(
            method_info!("sub"("a": i64, "b": i64) -> i64).with_doc("Takes away."),
            |a: i64, b: i64| Ok::<_, OwnedError>(a - b),
        )
        .method_with(method_info!("tell"("line": String)), |_: String| {
            NotificationOk
        })
        .method_with(about, |Params(to): Params<Move>| {
            Ok::<_, OwnedError>(to.x + to.y + i32::from(to.speed))
        });
    let input = concat!(
        "{\"jsonrpc\":\"2.0\",\"method\":\"sub\",\"params\":{\"b\":1,\"a\":3},\"id\":1}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"tell\",\"params\":[\"x\"],\"id\":2}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"move\",\"params\":{\"y\":1,\"x\":3},\"id\":3}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"rpc.discover\",\"id\":4}\n",
    );
    let (integer, text) = match cfg!(feature = "openrpc") {
        true => (r#"{"type":"integer"}"#, r#"{"type":"string"}"#),
        false => ("{}", "{}"),
    };
    let answers = played(&mut router, input, 1);
    let (answers, document) =
        answers.split_at(answers.find("{\"jsonrpc\":\"2.0\",\"result\":{").unwrap());
    assert_eq!(
        answers,
        concat!(
            "{\"jsonrpc\":\"2.0\",\"result\":2,\"id\":1}\n",
            "{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":2}\n",
            "{\"jsonrpc\":\"2.0\",\"result\":4,\"id\":3}\n",
        )
    );
    for part in [
        format!(
            r#"{{"name":"sub","summary":"Takes away.","params":[{{"name":"a","required":true,"schema":{integer}}},{{"name":"b","required":true,"schema":{integer}}}],"result":{{"name":"result","schema":{integer}}}}}"#
        ),
        format!(r#"{{"name":"line","required":true,"schema":{text}}}"#),
        format!(r#"{{"name":"x","required":true,"schema":{integer}}}"#),
        r#"{"name":"speed","required":false,"schema":"#.to_owned(),
    ] {
        assert!(document.contains(&part), "{part} in {document}");
    }
}

// SRV-05 GEN-01
#[test]
fn a_description_says_what_it_was_told() {
    let plain = method_info!("m"("a": u8, "b": Option<u8>) -> u8);
    assert!(!plain.is_notification() && !plain.runs_to_end());
    assert_eq!((plain.name(), plain.doc()), ("m", ""));
    let said = plain.with_name("n").with_doc("Text.").run_to_end();
    assert!(said.runs_to_end());
    assert_eq!((said.name(), said.doc()), ("n", "Text."));
    assert_eq!(
        format!("{:?}", said.params()),
        r#"[ParamInfo { name: "a", is_optional: false, .. }, ParamInfo { name: "b", is_optional: true, .. }]"#
    );
    let integer = match cfg!(feature = "openrpc") {
        true => r#"{"type":"integer","maximum":255,"minimum":0}"#,
        false => "{}",
    };
    for schema in [said.result(), said.params()[0].schema()] {
        assert_eq!(schema.to_json().unwrap().as_str(), integer);
    }
}
