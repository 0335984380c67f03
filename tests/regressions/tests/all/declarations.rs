//! What a declaration says, and the wire and the document of `rpc.discover` said otherwise. Most tests are named
//! after the fault, and assert that it is gone.

use antiphon::service::Naming;
use antiphon::{Config, NotificationOk, OwnedError, Params};
use antiphon_blocking::{RpcError, service};
use antiphon_regressions::{Rt, on_every_runtime};
use serde::Deserialize;
use serde_json::{Value, json};

/// Codes that JSON-RPC reserves, as other protocols define them.
#[derive(Debug, PartialEq, RpcError)]
enum Reserved {
    #[rpc(code = -32000)]
    InvalidInput,
    #[rpc(code = -32002, message = "Resource not found")]
    NoResource { uri: String },
    #[rpc(code = -32601, reserved)]
    NoMethod,
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
}

/// A word of Rust as the name of a variant.
#[derive(Debug, PartialEq, RpcError)]
#[allow(non_camel_case_types)]
enum Words {
    #[rpc(code = 1)]
    r#type,
    #[rpc(code = 2)]
    r#async { r#final: bool },
}

macro_rules! grouped {
    ($name:ident, $result:ty, $notification:ty, $param:ty, $code:expr) => {
        #[derive(Debug, RpcError)]
        enum Grouped {
            #[rpc(code = $code)]
            Wrong,
        }

        /// Its types come through a macro.
        #[service(prefix = "grouped")]
        trait $name {
            fn twice(&self, n: $param) -> $result;
            fn note(&self, n: $param) -> $notification;
            fn fail(&self) -> Result<$param, Grouped>;
        }
    };
}

grouped!(Groups, Result<u8, OwnedError>, NotificationOk, u8, -31_000);

/// A trait that is named with a word of Rust.
#[service]
trait r#Final {
    fn r#move(&self, r#in: u8) -> Result<u8, OwnedError>;
    fn fail(&self, with_field: bool) -> Result<(), Words>;
}

/// Names as Ethereum has them.
#[service(prefix = "eth", separator = "_", rename_all = "camelCase")]
trait Ethereum {
    #[allow(non_snake_case)]
    fn getBlockByHash(&self, fullTx: bool, block_hash: String) -> Result<String, OwnedError>;
}

/// Everything else.
#[service(prefix = "other")]
trait Other {
    fn fail(&self, place: u8) -> Result<u8, Reserved>;
    /// Draws a tree.
    ///
    /// - a leaf:
    ///   - green
    ///   - brown
    ///
    /// ```text
    /// if tree {
    ///     draw();
    ///
    ///     // And again.
    /// }
    /// ```
    fn tree(&self) -> Result<u8, OwnedError>;
    /**
     * Plants one.
     *
     *     dig();
     * * deep
     */
    fn plant(&self) -> Result<u8, OwnedError>;
    /// Moves by `by`, from where it is unless `from` says otherwise.
    fn shift(&self, from: Option<i64>, by: i64) -> Result<i64, OwnedError>;
    fn nameless(&self, _: (u8, u8)) -> Result<u8, OwnedError>;
}

struct Mine;

impl Groups for Mine {
    fn twice(&self, n: u8) -> Result<u8, OwnedError> {
        Ok(2 * n)
    }

    fn note(&self, _: u8) -> NotificationOk {
        NotificationOk
    }

    fn fail(&self) -> Result<u8, Grouped> {
        Err(Grouped::Wrong)
    }
}

impl r#Final for Mine {
    fn r#move(&self, r#in: u8) -> Result<u8, OwnedError> {
        Ok(r#in)
    }

    fn fail(&self, with_field: bool) -> Result<(), Words> {
        Err(match with_field {
            true => Words::r#async { r#final: true },
            false => Words::r#type,
        })
    }
}

impl Ethereum for Mine {
    fn getBlockByHash(&self, full: bool, hash: String) -> Result<String, OwnedError> {
        Ok(format!("{hash} {full}"))
    }
}

impl Other for Mine {
    fn fail(&self, place: u8) -> Result<u8, Reserved> {
        Err(reserved().swap_remove(place.into()))
    }

    fn tree(&self) -> Result<u8, OwnedError> {
        Ok(0)
    }

    fn plant(&self) -> Result<u8, OwnedError> {
        Ok(0)
    }

    fn shift(&self, from: Option<i64>, by: i64) -> Result<i64, OwnedError> {
        Ok(from.unwrap_or(100) + by)
    }

    fn nameless(&self, (a, b): (u8, u8)) -> Result<u8, OwnedError> {
        Ok(a + b)
    }
}

fn reserved() -> Vec<Reserved> {
    let uri = "file:///x".into();
    vec![
        Reserved::InvalidInput,
        Reserved::NoResource { uri },
        Reserved::NoMethod,
        Reserved::DivisionByZero,
    ]
}

/// A struct that is all params of a method.
#[derive(Deserialize)]
struct Move {
    to: String,
    #[serde(default)]
    speed: u32,
    steps: Vec<i64>,
    note: Option<String>,
    #[serde(rename = "type")]
    kind: Kind,
}

#[derive(Deserialize)]
enum Kind {
    Slow,
}

fn moved(Params(to): Params<Move>) -> Result<String, OwnedError> {
    let Kind::Slow = to.kind;
    Ok(format!(
        "{} {} {:?} {:?}",
        to.to, to.speed, to.steps, to.note
    ))
}

macro_rules! router {
    ($adapter:ident) => {
        $adapter::Router::new()
            .naming(Naming::FullyQualified)
            .service(r#Final::into_service(Mine))
            .service(Groups::into_service(Mine))
            .service(Ethereum::into_service(Mine))
            .service(Other::into_service(Mine))
            .method("move", [], moved)
            .method("later", ["a", "b"], |a: Option<u8>, b: u8| {
                Ok::<_, OwnedError>(a.unwrap_or(1) + b)
            })
    };
}

/// What is called, and its params.
type Asked = (&'static str, Value);

/// The result of a call; or the code, the message and the data of its error.
fn answer(called: Result<Value, antiphon_net::CallError>) -> Value {
    match called {
        Ok(result) => result,
        Err(antiphon_net::CallError::Remote(error)) => {
            let error = error.as_error();
            let data = error
                .data()
                .map(|data| data.decode::<Value>().expect("data"));
            json!([error.code(), error.message(), data])
        }
        Err(other) => panic!("{other}"),
    }
}

fn ask_on_threads(asked: &[Asked]) -> Vec<Value> {
    use antiphon_blocking::{Link, attach};
    let (near, far) = Link::pair();
    let router = router!(antiphon_blocking);
    let _server = attach(far, Config::new(), router).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    let asked = asked.iter();
    let answers = asked.map(|(method, params)| answer(peer.call(method, params).wait()));
    answers.collect()
}

fn typed_on_threads() -> Vec<Reserved> {
    use antiphon_blocking::{Link, attach};
    let (near, far) = Link::pair();
    let router = router!(antiphon_blocking);
    let _server = attach(far, Config::new(), router).expect("a thread");
    let peer = attach(near, Config::new(), ()).expect("a thread");
    let client = OtherClient::new(&peer);
    let failed = (0..4).map(|place| match client.fail(place).wait() {
        Err(antiphon_net::CallError::Remote(error)) => error,
        other => panic!("{other:?}"),
    });
    failed.collect()
}

macro_rules! on_tasks {
    ($ask:ident, $typed:ident, $adapter:ident) => {
        async fn $ask(asked: &[Asked]) -> Vec<Value> {
            use $adapter::{Link, attach};
            let (near, far) = Link::pair();
            let _server = attach(far, Config::new(), router!($adapter));
            let peer = attach(near, Config::new(), ());
            let mut answers = Vec::new();
            for (method, params) in asked {
                answers.push(answer(peer.call(*method, params).await));
            }
            answers
        }

        async fn $typed() -> Vec<Reserved> {
            use $adapter::{Link, attach};
            let (near, far) = Link::pair();
            let _server = attach(far, Config::new(), router!($adapter));
            let peer = attach(near, Config::new(), ());
            let client = OtherClient::new(&peer);
            let mut failed = Vec::new();
            for place in 0..4 {
                match client.fail(place).await {
                    Err(antiphon_net::CallError::Remote(error)) => failed.push(error),
                    other => panic!("{other:?}"),
                }
            }
            failed
        }
    };
}

on_tasks!(ask_on_tokio, typed_on_tokio, antiphon_tokio);
on_tasks!(ask_on_futures, typed_on_futures, antiphon_async_std);

/// Asks on threads and on a runtime, and compares each answer with what is right.
fn all_answer(rt: Rt, cases: &[(&'static str, Value, Value)]) {
    let asked: Vec<Asked> = cases
        .iter()
        .map(|(method, params, _)| (*method, params.clone()))
        .collect();
    let on_tasks = rt.run(|_| async {
        match rt {
            Rt::Tokio | Rt::TokioLocal => ask_on_tokio(&asked).await,
            Rt::Smol | Rt::AsyncStd => ask_on_futures(&asked).await,
        }
    });
    for answers in [on_tasks, ask_on_threads(&asked)] {
        for ((method, params, right), answer) in cases.iter().zip(answers) {
            assert_eq!(answer, *right, "{method} {params}");
        }
    }
}

/// The description of a method, on threads and on a runtime.
fn described(rt: Rt, method: &str) -> Value {
    let asked: [Asked; 1] = [("rpc.discover", Value::Null)];
    let on_tasks = rt.run(|_| async {
        match rt {
            Rt::Tokio | Rt::TokioLocal => ask_on_tokio(&asked).await,
            Rt::Smol | Rt::AsyncStd => ask_on_futures(&asked).await,
        }
    });
    assert_eq!(on_tasks, ask_on_threads(&asked));
    let methods = on_tasks[0]["methods"].as_array().expect("methods");
    let mut found = methods.iter().filter(|info| info["name"] == method);
    found
        .next()
        .unwrap_or_else(|| panic!("no {method}: {methods:?}"))
        .clone()
}

/// The names of a method's parameters, and whether they must be given.
fn params(described: &Value) -> Value {
    let params = described["params"].as_array().expect("params").iter();
    params
        .map(|param| json!([param["name"], param["required"]]))
        .collect()
}

on_every_runtime! {
    a_reserved_code_did_not_compile_and_no_client_got_it_typed;
    a_type_from_a_macro_was_no_result;
    a_word_of_rust_had_its_prefix_on_the_wire;
    the_indentation_of_documentation_was_lost;
    an_optional_parameter_before_a_required_one_was_described_as_if_order_counted;
    the_fields_of_params_were_all_optional;
    a_parameter_without_a_name_was_called_otherwise_than_the_catalogue_says;
    names_of_ethereum_could_not_be_declared;
}

// USE-36
fn a_reserved_code_did_not_compile_and_no_client_got_it_typed(rt: Rt) {
    let typed = rt.run(|_| async {
        match rt {
            Rt::Tokio | Rt::TokioLocal => typed_on_tokio().await,
            Rt::Smol | Rt::AsyncStd => typed_on_futures().await,
        }
    });
    assert_eq!(typed, reserved());
    assert_eq!(typed_on_threads(), reserved());
    let uri = json!({"uri": "file:///x"});
    all_answer(
        rt,
        &[
            (
                "other.fail",
                json!([0]),
                json!([-32000, "Invalid input", null]),
            ),
            (
                "other.fail",
                json!([1]),
                json!([-32002, "Resource not found", uri]),
            ),
            ("other.fail", json!([2]), json!([-32601, "No method", null])),
        ],
    );
}

// USE-36
fn a_type_from_a_macro_was_no_result(rt: Rt) {
    all_answer(
        rt,
        &[
            ("grouped.twice", json!([4]), json!(8)),
            ("grouped.fail", Value::Null, json!([-31000, "Wrong", null])),
        ],
    );
    // A notification has no result.
    assert_eq!(
        described(rt, "grouped.note")["result"]["schema"],
        json!({"type": "null"})
    );
}

// USE-36
fn a_word_of_rust_had_its_prefix_on_the_wire(rt: Rt) {
    all_answer(
        rt,
        &[
            ("Final.move", json!({"in": 3}), json!(3)),
            ("Final.fail", json!([false]), json!([1, "type", null])),
            (
                "Final.fail",
                json!([true]),
                json!([2, "async", {"final": true}]),
            ),
        ],
    );
    assert_eq!(params(&described(rt, "Final.move")), json!([["in", true]]));
}

// USE-36
fn the_indentation_of_documentation_was_lost(rt: Rt) {
    let tree = described(rt, "other.tree");
    assert_eq!(tree["summary"], "Draws a tree.");
    let text = "- a leaf:\n  - green\n  - brown\n\n```text\nif tree {\n    draw();\n\n    // And again.\n}\n```";
    assert_eq!(tree["description"], text);
    let plant = described(rt, "other.plant");
    assert_eq!(plant["summary"], "Plants one.");
    assert_eq!(plant["description"], "    dig();\n* deep");
}

// USE-36
fn an_optional_parameter_before_a_required_one_was_described_as_if_order_counted(rt: Rt) {
    for (method, right) in [
        ("other.shift", json!([["by", true], ["from", false]])),
        ("later", json!([["b", true], ["a", false]])),
    ] {
        let info = described(rt, method);
        assert_eq!(
            params(&info),
            right,
            "OpenRPC wants required parameters first"
        );
        assert_eq!(
            info["paramStructure"], "by-name",
            "positions are other than the list's"
        );
    }
    assert!(described(rt, "Final.move").get("paramStructure").is_none());
    all_answer(
        rt,
        &[
            ("other.shift", json!({"by": 2}), json!(102)),
            ("other.shift", json!([null, 2]), json!(102)),
            ("other.shift", json!([1, 2]), json!(3)),
        ],
    );
}

// USE-36
fn the_fields_of_params_were_all_optional(rt: Rt) {
    let right = json!([
        ["to", true],
        ["steps", true],
        ["type", true],
        ["speed", false],
        ["note", false]
    ]);
    assert_eq!(params(&described(rt, "move")), right);
    all_answer(
        rt,
        &[(
            "move",
            json!({"to": "x", "steps": [], "type": "Slow"}),
            json!("x 0 [] None"),
        )],
    );
}

// GEN-11
fn a_parameter_without_a_name_was_called_otherwise_than_the_catalogue_says(rt: Rt) {
    let refused = json!([-32602, "Invalid params", null]);
    all_answer(
        rt,
        &[
            ("other.nameless", json!({"<context0>": [1, 2]}), json!(3)),
            ("other.nameless", json!({"arg0": [1, 2]}), json!(3)),
            ("other.nameless", json!([[1, 2]]), json!(3)),
            (
                "other.nameless",
                json!({"<param0>": [1, 2]}),
                refused.clone(),
            ),
            ("other.nameless", json!({"arg1": [1, 2]}), refused),
        ],
    );
    assert_eq!(
        params(&described(rt, "other.nameless")),
        json!([["arg0", true]])
    );
}

// USE-42
fn names_of_ethereum_could_not_be_declared(rt: Rt) {
    let params = json!({"fullTx": true, "blockHash": "0x1"});
    all_answer(rt, &[("eth_getBlockByHash", params, json!("0x1 true"))]);
}
