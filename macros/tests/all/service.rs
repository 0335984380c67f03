//! What `#[service]` makes of a trait: its dispatch, its client, its description.

#![allow(unreachable_pub)] // The macro keeps what is public.

use std::borrow::Cow;
use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use antiphon::service::{AsyncMethods, Caller, Failure, LocalRouter, Methods, Prefix, ServiceInfo};
use antiphon::{
    Encoded, FromCall, Json, NotificationOk, OwnedError, Payload, RpcError, UnknownParams,
};
use antiphon_macros::{RpcError, service};
use serde::de::DeserializeOwned;

/// The caller's name and the state, in one text: an argument that is not made from params.
#[derive(Debug, PartialEq)]
pub struct Who(String);

impl FromCall<str, u8> for Who {
    fn from_call(request: &str, state: &u8) -> Result<Self, OwnedError> {
        match request {
            "" => Err(OwnedError::new(1000, "Who are you?")),
            who => Ok(Self(format!("{who}{state}"))),
        }
    }
}

/// Arithmetic.
///
/// And more.
#[service(rename_all = "camelCase", prefix = "calc")]
pub trait Calculator {
    /// Adds two numbers.
    ///
    /// Of any size.
    fn add_all(&self, first_number: f64, second_number: Option<f64>) -> Result<f64, OwnedError>;
    /// Says who asks.
    #[rpc(name = "who/am i")]
    fn who(
        &self,
        #[rpc(context)] who: Who,
        #[rpc(name = "a-b")] suffix: String,
    ) -> Result<String, OwnedError>;
    /// Nothing comes back.
    fn note(&self, line: String) -> NotificationOk;
    /// Nothing goes in or comes out.
    fn r#loop(&self);
    /// Has no name for its parameter.
    fn pair(&self, _: (u8, u8)) -> Result<u8, OwnedError>;
}

struct Mine;

impl Calculator for Mine {
    fn add_all(&self, first: f64, second: Option<f64>) -> Result<f64, OwnedError> {
        Ok(first + second.unwrap_or(1.0))
    }

    fn who(&self, who: Who, suffix: String) -> Result<String, OwnedError> {
        Ok(who.0 + &suffix)
    }

    fn note(&self, _: String) -> NotificationOk {
        NotificationOk
    }

    fn r#loop(&self) {}

    fn pair(&self, (a, b): (u8, u8)) -> Result<u8, OwnedError> {
        Ok(a + b)
    }
}

/// Calls a method by its index, in the name of `who` and with the state 5. Returns the text of the result
/// or the code of the error.
fn called<X: Methods<str, u8>>(
    service: &X,
    method: usize,
    params: &str,
    who: &str,
) -> Result<String, i64> {
    let params = Json::parse_str(params).ok();
    let mut result = Vec::new();
    let called = service.call(method, params, who, &5, &mut result);
    called.map_err(|failure| failure.as_error().code())?;
    Ok(String::from_utf8(result).unwrap())
}

// GEN-02 GEN-04 GEN-05 GEN-06 GEN-07 GEN-11
#[test]
fn methods_take_params_by_name_and_by_position() {
    let (service, _) = Calculator::into_service(Mine).into_parts();
    let call = |method, params| called(&service, method, params, "Ann");
    assert_eq!(call(0, "[1,2]"), Ok("3.0".into()));
    assert_eq!(call(0, "[1]"), Ok("2.0".into()));
    assert_eq!(
        call(0, r#"{"secondNumber":2,"firstNumber":1}"#),
        Ok("3.0".into())
    );
    assert_eq!(
        call(0, r#"{"second_number":2,"firstNumber":1}"#),
        Err(-32602)
    );
    assert_eq!(call(0, "[1,2,3]"), Err(-32602));
    assert_eq!(call(1, r#"{"a-b":"!"}"#), Ok(r#""Ann5!""#.into()));
    assert_eq!(call(1, r#"["!"]"#), Ok(r#""Ann5!""#.into()));
    assert_eq!(called(&service, 1, r#"["!"]"#, ""), Err(1000));
    assert_eq!(call(2, r#"["x"]"#), Ok("null".into()));
    assert_eq!(call(3, "[]"), Ok("null".into()));
    assert_eq!(call(3, "[1]"), Err(-32602));
    assert_eq!(call(4, "[[1,2]]"), Ok("3".into()));
    assert_eq!(call(4, r#"{"<context0>":[1,2]}"#), Ok("3".into()));
    assert_eq!(call(4, r#"{"arg0":[1,2]}"#), Ok("3".into()));
    assert_eq!(call(5, ""), Err(-32601));
}

/// Has as many parameters as a method may have, and takes something from the request.
#[service]
pub trait Wide {
    /// Adds ten numbers, and says who asked.
    #[allow(clippy::too_many_arguments)]
    fn sum(
        &self,
        #[rpc(context)] who: Who,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
    ) -> Result<String, OwnedError>;
}

impl Wide for Mine {
    fn sum(
        &self,
        who: Who,
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: u8,
        i: u8,
        j: u8,
    ) -> Result<String, OwnedError> {
        let sum: u8 = [a, b, c, d, e, f, g, h, i, j].into_iter().sum();
        Ok(format!("{}{sum}", who.0))
    }
}

// GEN-05
#[test]
fn what_is_taken_from_the_request_is_not_one_of_ten_parameters() {
    let (service, _) = Wide::into_service(Mine).into_parts();
    let sum = called(&service, 0, "[1,2,3,4,5,6,7,8,9,10]", "Ann");
    assert_eq!(sum, Ok(r#""Ann555""#.into()));
}

// GEN-12 EXT-08
#[test]
fn a_service_describes_itself() {
    let (service, prefix) = Calculator::into_service(Mine).into_parts();
    let about = Methods::<str, u8>::info(&service);
    assert_eq!(
        (about.name, about.prefix, prefix),
        ("Calculator", "calc", None)
    );
    assert_eq!(about.doc, "Arithmetic.\n\nAnd more.");
    let names: Vec<&str> = about.methods.iter().map(|info| info.name()).collect();
    assert_eq!(names, ["addAll", "who/am i", "note", "loop", "pair"]);
    let add = &about.methods[0];
    assert_eq!(add.doc(), "Adds two numbers.\n\nOf any size.");
    let params: Vec<_> = add
        .params()
        .iter()
        .map(|param| (param.name(), param.is_optional()))
        .collect();
    assert_eq!(params, [("firstNumber", false), ("secondNumber", true)]);
    let told: Vec<bool> = about
        .methods
        .iter()
        .map(|info| info.is_notification())
        .collect();
    assert_eq!(told, [false, false, true, false, false]);
    let context: Vec<_> = about.methods[1]
        .params()
        .iter()
        .map(|param| param.name())
        .collect();
    assert_eq!(context, ["a-b"]);
}

#[service]
trait Waits {
    async fn twice(&self, n: u32) -> Result<u32, OwnedError>;
    fn once(&self, n: u32) -> Result<u32, OwnedError>;
    async fn given(&self) -> Result<u32, OwnedError> {
        self.twice(4).await
    }
}

impl Waits for Mine {
    async fn twice(&self, n: u32) -> Result<u32, OwnedError> {
        std::future::ready(()).await;
        Ok(n * 2)
    }

    fn once(&self, n: u32) -> Result<u32, OwnedError> {
        Ok(n)
    }
}

/// The output of a future that is ready at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

// GEN-08
#[test]
fn methods_may_wait_beside_others_that_do_not() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (service, _) = Waits::into_service(Mine).into_parts();
    for (method, params, expected) in [(0, "[3]", "6"), (1, "[3]", "3"), (2, "[]", "8")] {
        let mut result = Vec::new();
        let params = Json::parse_str(params).ok();
        let call = AsyncMethods::<(), ()>::call(&service, method, params, &(), &(), &mut result);
        now(is_send(call)).unwrap();
        assert_eq!(result, expected.as_bytes());
    }
}

#[service]
trait Lenient {
    #[rpc(unknown_params = "ignore")]
    fn ignores(&self, n: u32) -> Result<u32, OwnedError>;
    #[rpc(name = "refuses", unknown_params = "reject")]
    fn rejects(&self, n: u32) -> Result<u32, OwnedError>;
    fn follows(&self, n: u32) -> Result<u32, OwnedError>;
}

impl Lenient for Mine {
    fn ignores(&self, n: u32) -> Result<u32, OwnedError> {
        Ok(n)
    }

    fn rejects(&self, n: u32) -> Result<u32, OwnedError> {
        Ok(n)
    }

    fn follows(&self, n: u32) -> Result<u32, OwnedError> {
        Ok(n)
    }
}

// USE-38
#[test]
fn a_method_of_a_trait_could_not_say_what_happens_to_unknown_params() {
    let said = [
        Some(UnknownParams::Ignore),
        Some(UnknownParams::Reject),
        None,
    ];
    let (service, _) = Lenient::into_service(Mine).into_parts();
    let infos = Methods::<str, u8>::info(&service).methods;
    assert!(infos.iter().map(|info| info.unknown_params()).eq(said));
    // What a method says holds whatever its router says; another follows the router.
    for (of_router, follows) in [
        (UnknownParams::Reject, false),
        (UnknownParams::Ignore, true),
    ] {
        let router = LocalRouter::new()
            .unknown_params(of_router)
            .service(Lenient::into_service(Mine));
        let is_taken = |method| {
            let params = Json::parse_str(r#"{"n":1,"more":2}"#).ok();
            router.run(method, params, &mut Vec::new()).is_ok()
        };
        let taken = ["ignores", "refuses", "follows"].map(is_taken);
        assert_eq!(taken, [true, false, follows]);
    }
}

/// Writes down what is sent.
#[derive(Default)]
struct Sent(RefCell<Vec<String>>);

impl Sent {
    fn note(&self, what: &str, method: &str, params: impl Payload) {
        let mut text = Vec::new();
        Encoded::write(params, &mut text).unwrap();
        let params = String::from_utf8(text).unwrap();
        self.0
            .borrow_mut()
            .push(format!("{what} {method} {params}"));
    }
}

impl Caller for Sent {
    type Call<'c, R, E>
        = Option<Result<R, E>>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c;
    type Notified<'c> = ();

    fn start<'c, R, E>(&'c self, method: Cow<'c, str>, params: impl Payload) -> Option<Result<R, E>>
    where
        R: DeserializeOwned + 'c,
        E: RpcError + 'c,
    {
        self.note("call", &method, params);
        None
    }

    fn tell(&self, method: Cow<'_, str>, params: impl Payload) {
        self.note("tell", &method, params);
    }
}

// GEN-02 GEN-03 GEN-05 GEN-09 CLI-26
#[test]
fn a_client_sends_by_name_or_by_position() {
    let sent = Sent::default();
    let client = CalculatorClient::new(&sent);
    let sum: Option<Result<f64, OwnedError>> = client.add_all(1.0, None);
    assert!(sum.is_none());
    let _ = client.who("!".into());
    client.note("x".into());
    let _: Option<Result<(), OwnedError>> = client.r#loop();
    let client = client.by_position().with_prefix("other");
    let _ = client.add_all(1.0, Some(2.0));
    let client = client.with_prefix(Prefix::separated("other", "/"));
    let _ = client.pair((1, 2));
    let _ = client.with_prefix("").pair((1, 2));
    let _ = CalculatorClient::new(&sent).pair((1, 2));
    let expected = [
        r#"call calc.addAll {"firstNumber":1.0}"#,
        r#"call calc.who/am i {"a-b":"!"}"#,
        r#"tell calc.note {"line":"x"}"#,
        "call calc.loop ",
        "call other.addAll [1.0,2.0]",
        "call other/pair [[1,2]]",
        "call pair [[1,2]]",
        r#"call calc.pair {"<context0>":[1,2]}"#,
    ];
    assert_eq!(*sent.0.borrow(), expected);
}

/// An alias with a name that the generated code could use for a type parameter.
type S = u8;
/// An alias of `Result`, whose types the macro cannot see.
type PairResult<A, B> = Result<(A, B), OwnedError>;

#[service]
trait Named {
    fn pair(&self, a: S, b: S) -> PairResult<S, S>;
    fn cow(&self, a: Cow<'_, str>) -> Result<String, OwnedError>;
}

impl Named for Mine {
    fn pair(&self, a: S, b: S) -> PairResult<S, S> {
        Ok((a, b))
    }

    fn cow(&self, a: Cow<'_, str>) -> Result<String, OwnedError> {
        Ok(a.into())
    }
}

#[test]
fn an_alias_of_result_is_what_it_stands_for() {
    let sent = Sent::default();
    let client = NamedClient::new(&sent);
    let _: Option<Result<(u8, u8), OwnedError>> = client.pair(1, 2);
    let router = LocalRouter::new().service(Named::into_service(Mine));
    let (mut result, params) = (Vec::new(), Json::parse_str("[1,2]").ok());
    router.run("pair", params, &mut result).unwrap();
    assert_eq!(result, b"[1,2]");
}

#[service(client = false)]
trait Local {
    fn local(&self) -> std::result::Result<u8, OwnedError>;
}

impl Local for Mine {
    fn local(&self) -> Result<u8, OwnedError> {
        Ok(7)
    }
}

#[test]
fn a_router_without_a_runtime_serves_it() {
    let router = LocalRouter::new().service(Local::into_service(Mine).prefix("my"));
    let mut result = Vec::new();
    router.run("my.local", None, &mut result).unwrap();
    assert_eq!(result, b"7");
    let unknown = router.run("local", None, &mut result);
    assert!(matches!(unknown, Err(Failure::UnknownMethod(_))));
}

/// Every kind of variant but `#[rpc(other)]`, which `Open` has.
#[derive(Debug, PartialEq, RpcError)]
enum Wrong {
    #[rpc(code = -32602, message = "Division by zero")]
    DivisionByZero,
    #[rpc(code = -32602, message = "Too many")]
    TooMany,
    #[rpc(code = 1001)]
    OutOfRange {
        limit: f64,
        #[rpc(name = "isUpper")]
        is_upper: Option<bool>,
    },
    #[rpc(code = 1002, message = "Busy")]
    Busy(u32),
    #[rpc(code = -31_999)]
    HTTPError,
    #[rpc(code = -32_002)]
    NotFound,
    #[rpc(code = -32_601, reserved)]
    NoMethod,
    #[rpc(code = -32_601, message = "No such method in this version")]
    Later,
}

#[derive(Debug, PartialEq, RpcError)]
#[rpc(display = false)]
enum Open {
    #[rpc(code = 1)]
    One,
    #[rpc(other)]
    Other(OwnedError),
}

/// The code, the message and the data of an error.
fn wire(error: impl Into<OwnedError>) -> String {
    let error = error.into();
    let error = error.as_error();
    let data = error
        .data()
        .map_or(String::new(), |data| format!(" {data}"));
    format!("{} {}{data}", error.code(), error.message())
}

// GEN-09 ERR-03 ERR-08 ERR-09 USE-36
#[test]
fn an_error_goes_over_the_wire_and_comes_back() {
    let limit = || Wrong::OutOfRange {
        limit: 1.5,
        is_upper: Some(true),
    };
    type Case = (fn() -> Wrong, &'static str);
    let all: [Case; 8] = [
        (|| Wrong::DivisionByZero, "-32602 Division by zero"),
        (|| Wrong::TooMany, "-32602 Too many"),
        (limit, r#"1001 Out of range {"limit":1.5,"isUpper":true}"#),
        (|| Wrong::Busy(3), "1002 Busy 3"),
        (|| Wrong::HTTPError, "-31999 HTTP error"),
        (|| Wrong::NotFound, "-32002 Not found"),
        (|| Wrong::NoMethod, "-32601 No method"),
        (|| Wrong::Later, "-32601 No such method in this version"),
    ];
    for (error, expected) in all {
        assert_eq!(wire(error()), expected);
        let sent = OwnedError::from(error());
        assert_eq!(Wrong::from_error(sent).unwrap(), error());
        assert!(expected.contains(&error().to_string()));
    }
    // Another server says it in other words.
    let elsewhere = OwnedError::new(-32002, "Resource not found");
    assert_eq!(Wrong::from_error(elsewhere), Ok(Wrong::NotFound));
    let elsewhere = OwnedError::new(-32601, "Method not found");
    assert_eq!(Wrong::from_error(elsewhere), Ok(Wrong::NoMethod));
    let others = [
        OwnedError::new(-32602, "Invalid params"),
        OwnedError::new(-32002, "Server busy"),
        OwnedError::new(1001, "Out of range"),
        OwnedError::new(1001, "Out of range")
            .with_data(&["no object"])
            .unwrap(),
        // The fields by position, and a member that params may have.
        OwnedError::new(1001, "Out of range")
            .with_data(&(1.5, true))
            .unwrap(),
        OwnedError::new(1001, "Out of range")
            .with_data(&Json::parse_str(r#"{"limit":1.5,"_meta":{}}"#).unwrap())
            .unwrap(),
        OwnedError::new(1002, "Busy")
            .with_data("no number")
            .unwrap(),
        OwnedError::new(7, "Plain"),
    ];
    for other in others {
        assert_eq!(Wrong::from_error(other.clone()).unwrap_err(), other);
        let kept = Open::from_error(other.clone()).unwrap();
        assert_eq!(kept, Open::Other(other.clone()));
        assert_eq!(OwnedError::from(kept), other);
    }
    assert_eq!(
        Open::from_error(OwnedError::new(1, "whatever it says")),
        Ok(Open::One)
    );
}

#[service(run_to_end)]
trait Whole {
    async fn pay(&self) -> Result<u8, OwnedError>;
    async fn tell(&self) -> NotificationOk;
}

#[service]
trait Part {
    #[rpc(name = "pay", run_to_end)]
    async fn pay_all(&self) -> Result<u8, OwnedError>;
    async fn look(&self) -> Result<u8, OwnedError>;
}

/// On threads a handler always runs to its end, so `run_to_end` is allowed and changes nothing.
#[antiphon_macros::service_blocking(crate = "antiphon", run_to_end, client = false)]
trait OnThreads {
    #[rpc(run_to_end)]
    fn pay(&self) -> Result<u8, OwnedError>;
}

struct Bank;

impl Whole for Bank {
    async fn pay(&self) -> Result<u8, OwnedError> {
        Ok(1)
    }

    async fn tell(&self) -> NotificationOk {
        NotificationOk
    }
}

impl Part for Bank {
    async fn pay_all(&self) -> Result<u8, OwnedError> {
        Ok(1)
    }

    async fn look(&self) -> Result<u8, OwnedError> {
        Ok(2)
    }
}

impl OnThreads for Bank {
    fn pay(&self) -> Result<u8, OwnedError> {
        Ok(1)
    }
}

// USE-22
#[test]
fn a_service_or_a_method_of_it_says_that_it_runs_to_its_end() {
    let finishes = |info: &'static ServiceInfo| -> Vec<(&str, bool)> {
        let methods = info.methods.iter();
        methods
            .map(|info| (info.name(), info.runs_to_end()))
            .collect()
    };
    let (whole, _) = Whole::into_service(Bank).into_parts();
    let info = AsyncMethods::<(), ()>::info(&whole);
    assert_eq!(finishes(info), [("pay", true), ("tell", true)]);
    let (part, _) = Part::into_service(Bank).into_parts();
    let info = AsyncMethods::<(), ()>::info(&part);
    assert_eq!(finishes(info), [("pay", true), ("look", false)]);
    let (threads, _) = OnThreads::into_service(Bank).into_parts();
    assert_eq!(finishes(Methods::<(), ()>::info(&threads)), [("pay", true)]);
}

macro_rules! grouped {
    ($name:ident, $method:ident, $param:ty, $result:ty, $doc:expr, $code:literal) => {
        #[derive(Debug, PartialEq, RpcError)]
        enum Grouped {
            #[rpc(code = $code)]
            Wrong,
        }

        #[doc = $doc]
        #[service]
        trait $name {
            /// Its text is
            #[doc = concat!("made ", "up.")]
            fn $method(&self, n: $param) -> $result;
        }
    };
}

grouped!(
    Groups,
    r#try,
    Option<u8>,
    Result<Option<u8>, Grouped>,
    "Grouped.",
    -31_000
);

impl Groups for Mine {
    fn r#try(&self, n: Option<u8>) -> Result<Option<u8>, Grouped> {
        n.map(Some).ok_or(Grouped::Wrong)
    }
}

/// A service whose name is a word of Rust.
#[service(
    prefix = "eth",
    separator = "_",
    rename_all = "camelCase",
    server = false
)]
trait r#Final {
    #[allow(non_snake_case)]
    fn getBlock_byHash(&self, _hash: u8, full_tx: Option<bool>) -> Result<u8, OwnedError>;
    #[rpc(name = "as is")]
    fn r#move(&self);
}

#[derive(Debug, PartialEq, RpcError)]
#[allow(non_camel_case_types)]
enum Words {
    #[rpc(code = 1)]
    r#type,
}

// USE-36 USE-42
#[test]
fn names_and_texts_are_those_that_the_author_wrote() {
    let (groups, _) = Groups::into_service(Mine).into_parts();
    let about = Methods::<(), ()>::info(&groups);
    assert_eq!((about.name, about.doc), ("Groups", "Grouped."));
    assert_eq!(about.methods[0].name(), "try");
    assert_eq!(about.methods[0].doc(), "Its text is\nmade up.\n");
    assert!(about.methods[0].params()[0].is_optional());
    assert_eq!(called(&groups, 0, "[1]", "Ann"), Ok("1".into()));
    assert_eq!(called(&groups, 0, "[]", "Ann"), Err(-31_000));
    assert_eq!(wire(Words::r#type), "1 type");

    let sent = Sent::default();
    let client = FinalClient::new(&sent);
    let _ = client.getBlock_byHash(1, Some(true));
    let _ = client.with_prefix("").r#move();
    let expected = [
        r#"call eth_getBlockByHash {"hash":1,"fullTx":true}"#,
        "call as is ",
    ];
    assert_eq!(*sent.0.borrow(), expected);
}
