//! Commands: refused ones change nothing, values are returned, params may have any type.

use std::collections::{BTreeMap, HashSet};

use antiphon::{
    Config, Connection, ErrorObject, Event, IdScheme, Incoming, Input, Outcome, OwnedId,
    OwnedOutcome, SendError, answer,
};
use serde::{Deserialize, Serialize, Serializer};

use crate::{connection, id, json, request, written};

/// A value whose serialisation fails half way.
struct Broken;

impl Serialize for Broken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeSeq};
        let mut seq = serializer.serialize_seq(Some(2))?;
        seq.serialize_element("half of it is written")?;
        Err(S::Error::custom("no"))
    }
}

// SER-14 SER-10 MSG-23
#[test]
fn refused_commands_leave_the_same_bytes_and_the_same_next_id() {
    let mut config = Config::new();
    config.limits.max_open_calls = 2;
    config.limits.max_outbox_bytes = 500;
    config.limits.max_error_data_bytes = 10;
    config.limits.max_batch_calls = 1;
    let mut conn: Connection<u32> = Connection::new(config);
    conn.notify("first", ()).unwrap();
    let open = conn.call_with_id(id("\"mine\""), "m", (), None, 1).unwrap();
    let mut token = request(&mut conn);
    let before = (
        conn.poll_transmit().unwrap().to_vec(),
        conn.transmit_queued(),
    );
    let large = "x".repeat(600);
    let scalar = 5;
    let refusals = [
        conn.call("m", &Broken, None, 7).unwrap_err().error,
        conn.call("m", &scalar, None, 7).unwrap_err().error,
        conn.call("m", &[&large], None, 7).unwrap_err().error,
        conn.call(" ", (), None, 7).unwrap_err().error,
        conn.call_with_id(id("\"mine\""), "m", (), None, 7)
            .unwrap_err()
            .error,
        conn.call_with_id(id("null"), "m", (), None, 7)
            .unwrap_err()
            .error,
        conn.notify("m", &Broken).unwrap_err(),
        conn.notify("m", &true).unwrap_err(),
        conn.notify("m", &[&large]).unwrap_err(),
        conn.notify("", ()).unwrap_err(),
        conn.batch(None).send().unwrap_err(),
        conn.ask_cancel(open).unwrap_err(),
    ];
    assert!(matches!(refusals[0], SendError::Encode(_)));
    assert!(matches!(refusals[6], SendError::Encode(_)));
    let others: Vec<&SendError> = refusals
        .iter()
        .filter(|error| !matches!(error, SendError::Encode(_)))
        .collect();
    assert_eq!(
        others,
        [
            &SendError::ParamsScalar,
            &SendError::TooLarge,
            &SendError::BlankMethod,
            &SendError::IdInUse,
            &SendError::IdNotAllowed,
            &SendError::ParamsScalar,
            &SendError::TooLarge,
            &SendError::BlankMethod,
            &SendError::BatchEmpty,
            &SendError::NoPush,
        ]
    );
    let data = json("\"0123456789\"");
    let error = ErrorObject::new(1, "e").with_data(data);
    for refused in [
        |conn: &mut Connection<u32>, token, _: &ErrorObject<'_>| conn.respond(token, &Broken),
        |conn: &mut Connection<u32>, token, _: &ErrorObject<'_>| {
            conn.respond(token, &"x".repeat(600))
        },
        |conn: &mut Connection<u32>, token, error: &ErrorObject<'_>| conn.respond_err(token, error),
    ] {
        token = refused(&mut conn, token, &error).unwrap_err().value;
        assert_eq!(conn.requests_open(), 1);
    }
    let mut batch = conn.batch(None);
    batch.notify("m", ()).unwrap();
    assert_eq!(batch.notify("n", ()), Err(SendError::BatchTooLong));
    let rejected = batch.call::<()>("n", (), 70).unwrap_err();
    assert_eq!(
        (rejected.value, rejected.error),
        (70, SendError::BatchTooLong)
    );
    drop(batch);
    let after = (
        conn.poll_transmit().unwrap().to_vec(),
        conn.transmit_queued(),
    );
    assert_eq!(after, before);
    assert_eq!(conn.calls_open(), 1);
    assert_eq!(conn.call("m", (), None, 8).unwrap().number(), 2);
    let rejected = conn.call("m", (), None, 9).unwrap_err();
    assert_eq!(
        (rejected.value, rejected.error),
        (9, SendError::TooManyCalls)
    );
    conn.respond(token, &1).unwrap();
}

// SER-14 SRV-26
#[test]
fn a_result_without_json_form_comes_back_and_an_error_can_still_be_sent() {
    let mut conn = connection(0);
    let token = request(&mut conn);
    let rejected = conn.respond(token, &Broken).unwrap_err();
    assert!(matches!(rejected.error, SendError::Encode(_)));
    conn.respond_err(rejected.value, &ErrorObject::internal_error())
        .unwrap();
    assert_eq!(
        written(&mut conn),
        "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32603,\"message\":\"Internal error\"},\"id\":1}\n"
    );
}

#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct Point {
    x: i64,
    y: Option<f64>,
}

// SER-10 SER-11 SER-12 SER-15
#[test]
fn params_are_any_value_that_is_an_array_or_an_object() {
    let mut conn = connection(0);
    let point = Point { x: 1, y: None };
    conn.notify("m", &(1, "a")).unwrap();
    conn.notify("m", &point).unwrap();
    conn.notify("m", &BTreeMap::from([("k", 1)])).unwrap();
    conn.notify("m", &vec![None::<u8>]).unwrap();
    conn.notify("m", &None::<Point>).unwrap();
    conn.notify("m", ()).unwrap();
    conn.notify("m", json("[ 1 ]")).unwrap();
    conn.notify("m", Some(json("{}"))).unwrap();
    let params: Vec<String> = written(&mut conn)
        .lines()
        .map(|line| line.replace("{\"jsonrpc\":\"2.0\",\"method\":\"m\"", ""))
        .collect();
    assert_eq!(
        params,
        [
            ",\"params\":[1,\"a\"]}",
            ",\"params\":{\"x\":1,\"y\":null}}",
            ",\"params\":{\"k\":1}}",
            ",\"params\":[null]}",
            "}",
            "}",
            ",\"params\":[ 1 ]}",
            ",\"params\":{}}",
        ]
    );
    let not_finite = conn.notify("m", &vec![f64::NAN]).unwrap_err();
    assert!(
        not_finite.to_string().contains("not finite"),
        "{not_finite}"
    );
    for refused in [
        conn.notify("m", &1.5),
        conn.notify("m", &String::from("text")),
        conn.notify("m", &Some(false)),
        conn.notify("m", json("7")),
    ] {
        assert_eq!(refused, Err(SendError::ParamsScalar));
    }
}

// SER-08 MSG-25 SER-12 SER-13
#[test]
fn params_are_read_as_a_type_only_when_asked() {
    let mut conn = connection(0);
    let text = br#"{"jsonrpc":"2.0","method":"m","params":{"x":1,"y":2.5,"unknown":[]},"id":1}
"#;
    let mut input = Input::stream(text);
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("a request is there");
    };
    let params = request.params.unwrap();
    assert_eq!(params.as_str(), r#"{"x":1,"y":2.5,"unknown":[]}"#);
    assert!(params.decode::<(i64, i64)>().is_err());
    let point: Point = params.decode().unwrap();
    assert_eq!(point, Point { x: 1, y: Some(2.5) });
    // Answering while the params are still in use.
    conn.respond(request.token, params).unwrap();
    assert!(written(&mut conn).contains(params.as_str()));
}

// MSG-16 ERR-12
#[test]
fn an_error_that_is_passed_on_keeps_its_own_text() {
    let mut conn = connection(0);
    conn.call("m", (), None, 1).unwrap();
    written(&mut conn);
    let token = request(&mut conn);
    let text = br#"{"jsonrpc":"2.0","id":1,"error":{"message":"\u0065","code":-1,"stack":["a"],"data":1.0}}"#;
    let mut input = Input::message(text);
    let Some(Event::Response(response)) = conn.poll_event(&mut input) else {
        panic!("the answer is there");
    };
    let Outcome::Err(error) = response.outcome.clone() else {
        panic!("it is an error");
    };
    assert_eq!((error.code(), error.message()), (-1, "e"));
    // The owned twin says the same.
    let OwnedOutcome::Err(owned) = response.outcome.into_owned() else {
        panic!("it is an error");
    };
    conn.respond_err(token, &owned.as_error()).unwrap();
    assert_eq!(
        written(&mut conn),
        "{\"jsonrpc\":\"2.0\",\"error\":{\"message\":\"\\u0065\",\"code\":-1,\"stack\":[\"a\"],\"data\":1.0},\"id\":1}\n"
    );
}

// ARC-10
#[test]
fn an_owned_request_says_what_the_borrowed_one_said() {
    let mut conn = connection(0);
    let owned = {
        let text = br#"{"jsonrpc":"2.0","method":"\u006d","params":[1.0],"id":"\u0069"}"#.to_vec();
        let mut input = Input::message(&text);
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("a request is there");
        };
        assert_eq!(request.origin.bytes, text.len());
        request.into_owned()
    };
    assert_eq!((owned.method(), owned.id().text()), ("m", "\"\\u0069\""));
    assert_eq!(owned.params().unwrap().as_str(), "[1.0]");
    let key = owned.key();
    let (token, message) = owned.split();
    assert_eq!((token.key(), message.method()), (key, "m"));
    conn.respond(token, &true).unwrap();
    assert!(written(&mut conn).ends_with("\"id\":\"\\u0069\"}\n"));
}

fn serve(config: Config, message: &str) -> Option<String> {
    let handler = |call: Incoming<'_>| match (call.method, call.params) {
        ("add", Some(params)) => {
            let (a, b): (i64, i64) = params.decode().map_err(|_| ErrorObject::invalid_params())?;
            Ok(a + b)
        }
        _ => Err(ErrorObject::method_not_found()),
    };
    answer(config, message.as_bytes(), handler).map(|reply| String::from_utf8(reply).unwrap())
}

// SRV-29 SRV-20 SRV-27
#[test]
fn one_message_goes_in_and_at_most_one_comes_out() {
    let config = Config::new();
    let add = r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#;
    let note = r#"{"jsonrpc":"2.0","method":"add","params":[1,2]}"#;
    let sum = r#"{"jsonrpc":"2.0","result":3,"id":1}"#;
    assert_eq!(serve(config, add).as_deref(), Some(sum));
    assert_eq!(serve(config, note), None);
    assert_eq!(serve(config, &format!("[{note},{note}]")), None);
    let batch = serve(config, &format!("[{add},{note},{add}]"));
    assert_eq!(batch, Some(format!("[{sum},{sum}]")));
    let invalid =
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"Invalid Request"},"id":null}"#;
    assert_eq!(serve(config, "[]").as_deref(), Some(invalid));
    let parse = r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    assert_eq!(serve(config, "").as_deref(), Some(parse));
    assert_eq!(serve(config, "{").as_deref(), Some(parse));
    let params = add.replace("[1,2]", "[1]");
    let wrong = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":1}"#;
    assert_eq!(serve(config, &params).as_deref(), Some(wrong));
    let v1 = r#"{"method":"add","params":[1,2],"id":1}"#;
    let sum = r#"{"result":3,"error":null,"id":1}"#;
    assert_eq!(serve(Config::mixed(), v1).as_deref(), Some(sum));
}

// CLI-04 CLI-05
#[test]
fn a_generated_id_is_never_one_that_a_caller_chose() {
    let mut config = Config::new();
    config.dialect.id_scheme = IdScheme::Prefixed("a-");
    let mut conn: Connection<u32> = Connection::new(config);
    for number in [2, 3, 5] {
        let chosen = OwnedId::from(format!("a-{number}"));
        conn.call_with_id(chosen.as_id(), "m", (), None, number)
            .unwrap();
    }
    for _ in 0..5 {
        conn.call("m", (), None, 0).unwrap();
    }
    let text = written(&mut conn);
    let ids: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.split("\"id\":").nth(1))
        .collect();
    assert_eq!(ids.len(), 8, "{text}");
}

// USE-14
#[test]
fn an_exchange_that_streams_notifies_while_a_request_is_open_and_never_calls() {
    let mut conn: Connection<()> = Connection::new(Config::new().for_streaming_exchange());
    assert!(conn.config().can_notify() && !conn.config().can_call());
    let (refused, called) = (conn.notify("m", ()), conn.call("m", (), None, ()));
    assert_eq!(refused, Err(SendError::NoPush));
    assert_eq!(
        called.map_err(|refused| refused.error),
        Err(SendError::NoPush)
    );
    assert!(conn.batch(None).notify("m", ()).is_err());
    let mut input = Input::message(br#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("a request");
    };
    let token = request.token;
    conn.notify("told", &[1]).unwrap();
    let called = conn.call("m", (), None, ());
    assert_eq!(
        called.map_err(|refused| refused.error),
        Err(SendError::NoPush)
    );
    conn.respond(token, &2).unwrap();
    assert_eq!(conn.notify("late", ()), Err(SendError::NoPush));
    let mut output = Vec::new();
    while conn.take_transmit(&mut output) {
        output.push(b'\n');
    }
    let expected = "{\"jsonrpc\":\"2.0\",\"method\":\"told\",\"params\":[1]}\n{\"jsonrpc\":\"2.0\",\"result\":2,\"id\":1}\n";
    assert_eq!(String::from_utf8(output).unwrap(), expected);
}

// A setting of ours, which no peer may change.
#[test]
fn another_dialect_leaves_the_ids_of_our_calls_as_they_are() {
    let mut config = Config::new();
    config.dialect.id_scheme = IdScheme::Prefixed("a-");
    let mut conn: Connection = Connection::new(config);
    let mut ids = Vec::new();
    for _ in 0..2 {
        conn.call("m", (), None, ()).expect("there is room");
        let mut sent = Vec::new();
        conn.take_transmit(&mut sent);
        ids.push(String::from_utf8(sent).expect("text"));
        conn.set_dialect(Config::lsp().dialect);
    }
    for (number, sent) in ids.iter().enumerate() {
        let id = format!("\"id\":\"a-{}\"", number + 1);
        assert!(sent.contains(&id), "{sent}");
    }
}
