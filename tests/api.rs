//! What scripts cannot say: types, tokens, leaks, borrows, buffers, and orders of calls.
//!
//! The rule guarded here: any order of calls is legal, nothing handed over is lost, and a refused
//! command leaves no trace.

use std::collections::{BTreeMap, HashSet};

use antiphon::{
    AcpVersion, BatchOrder, CallId, CancelStyle, CloseReason, Closed, Collector, Config,
    Connection, ErrorObject, Event, FetchError, Framing, Handle, Id, IdScheme, Incoming, Input,
    Instant, Json, McpRevision, MethodName, Outcome, OwnedError, OwnedId, OwnedOutcome, ReplyToken,
    SendError, StrayKind, answer, codes,
};
use serde::{Deserialize, Serialize, Serializer};

const REQUEST: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1],\"id\":1}\n";

fn connection(number: u32) -> Connection<u32> {
    let mut config = Config::new();
    config.connection = number;
    Connection::new(config)
}

fn written(conn: &mut Connection<u32>) -> String {
    let mut out = Vec::new();
    while conn.take_transmit(&mut out) {}
    String::from_utf8(out).unwrap()
}

/// Shows `text` and gives the tokens of the requests in it.
fn requests(conn: &mut Connection<u32>, text: &[u8]) -> Vec<ReplyToken> {
    let mut input = Input::stream(text);
    let mut tokens = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            tokens.push(request.token);
        }
    }
    tokens
}

fn request(conn: &mut Connection<u32>) -> ReplyToken {
    requests(conn, REQUEST).pop().unwrap()
}

fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).unwrap()
}

fn id(text: &str) -> Id<'_> {
    Id::new(json(text)).unwrap()
}

/// Drains the connection and gives what it said, as debug text.
fn drained(conn: &mut Connection<u32>) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = conn.poll_event(&mut Input::none()) {
        events.push(format!("{event:?}"));
        assert!(events.len() < 1000, "poll_event never comes to an end");
    }
    events
}

// ARC-18 SEC-14 D-23 SRV-26
#[test]
fn a_token_used_on_another_connection_is_refused_and_still_answers_its_own() {
    let (mut first, mut second) = (connection(1), connection(2));
    let token = request(&mut first);
    let other = request(&mut second);
    let rejected = second.respond(token, &1).unwrap_err();
    assert_eq!(rejected.error, SendError::NotOpen);
    assert_eq!(second.requests_open(), 1);
    assert_eq!(written(&mut second), "");
    first.respond(rejected.value, &1).unwrap();
    assert_eq!(
        written(&mut first),
        "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}\n"
    );
    let rejected = first.respond_err(other, &ErrorObject::internal_error());
    assert_eq!(rejected.unwrap_err().error, SendError::NotOpen);
}

// ARC-18 CAN-01
#[test]
fn a_call_id_used_on_another_connection_names_nothing() {
    let mut config = Config::lsp();
    config.connection = 1;
    let mut first: Connection<u32> = Connection::new(config);
    config.connection = 2;
    let mut second: Connection<u32> = Connection::new(config);
    let call = first.call("m", (), None, 10).unwrap();
    second.call("m", (), None, 20).unwrap();
    written(&mut second);
    assert_eq!(second.cancel(call), None);
    assert_eq!(second.ask_cancel(call), Err(SendError::NotOpen));
    assert_eq!(second.set_deadline(call, None), Err(SendError::NotOpen));
    assert_eq!(
        (second.calls_open(), written(&mut second).as_str()),
        (1, "")
    );
    assert_eq!(first.cancel(call), Some(10));
    assert_eq!(first.cancel(call), None);
}

// CAN-15 D-23 SEC-14
#[test]
fn a_cancel_on_one_connection_reaches_no_request_of_another() {
    let (mut first, mut second) = (connection(1), connection(2));
    let token = request(&mut first);
    let cancel = br#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}
"#;
    let mut input = Input::stream(cancel);
    let event = second.poll_event(&mut input);
    assert!(matches!(event, Some(Event::Stray(stray)) if matches!(stray.kind, StrayKind::Cancel)));
    let mut input = Input::stream(cancel);
    let event = first.poll_event(&mut input);
    assert!(matches!(event, Some(Event::Cancelled(cancelled)) if cancelled.key == token.key()));
}

/// Leaks a builder with two calls in it.
fn leak(conn: &mut Connection<u32>) -> Handle<()> {
    let mut batch = conn.batch(Some(Instant::from_millis(5)));
    let handle = batch.call("leaked", (), 1).unwrap();
    batch.call::<()>("leaked", (), 2).unwrap();
    std::mem::forget(batch);
    handle
}

// CLI-16 ARC-07
#[test]
fn a_leaked_batch_builder_is_rolled_back_by_the_next_command() {
    type Command = fn(&mut Connection<u32>, CallId);
    let commands: [(&str, Command); 9] = [
        ("call", |conn, _| {
            conn.call("m", (), None, 9).unwrap();
        }),
        ("notify", |conn, _| conn.notify("m", ()).unwrap()),
        ("cancel", |conn, call| assert_eq!(conn.cancel(call), None)),
        ("ask_cancel", |conn, call| {
            assert_eq!(conn.ask_cancel(call), Err(SendError::NotOpen));
        }),
        ("set_deadline", |conn, call| {
            assert_eq!(conn.set_deadline(call, None), Err(SendError::NotOpen));
        }),
        ("poll_event", |conn, _| {
            conn.handle_timeout(Instant::from_millis(10));
            assert!(conn.poll_event(&mut Input::none()).is_none());
        }),
        ("take_transmit", |conn, _| {
            assert!(!conn.take_transmit(&mut Vec::new()));
        }),
        ("fail_transmit", |conn, _| conn.fail_transmit()),
        ("batch", |conn, _| {
            let mut batch = conn.batch(None);
            batch.call::<()>("m", (), 7).unwrap();
            batch.send().unwrap();
        }),
    ];
    for (name, command) in commands {
        let mut conn = connection(0);
        let leaked = leak(&mut conn).call();
        assert_eq!(conn.poll_transmit(), None, "{name}: nothing of it is shown");
        command(&mut conn, leaked);
        let text = written(&mut conn);
        assert!(!text.contains("leaked"), "{name}: {text}");
        assert!(conn.calls_open() <= 1, "{name}: the leaked calls are gone");
        if let "call" | "batch" = name {
            assert!(
                text.contains("\"id\":1}"),
                "{name}: ids are not lost: {text}"
            );
        }
    }
}

// CLI-16
#[test]
fn a_dropped_batch_builder_leaves_no_trace() {
    let mut conn = connection(0);
    conn.notify("kept", ()).unwrap();
    let mut batch = conn.batch(None);
    batch.call::<()>("dropped", (), 1).unwrap();
    drop(batch);
    assert_eq!((conn.calls_open(), conn.transmit_queued()), (0, 34));
    assert_eq!(conn.call("m", (), None, 2).unwrap().number(), 1);
    assert!(!written(&mut conn).contains("dropped"));
}

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
    config.calls_max = 2;
    config.outbox_bytes_max = 500;
    config.error_data_bytes_max = 10;
    config.batch_calls_max = 1;
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

// SER-10 SER-11 SER-12 SER-15 CLI-02
#[test]
fn params_are_any_value_that_is_an_array_or_an_object() {
    let mut conn = connection(0);
    let point = Point { x: 1, y: None };
    conn.notify("m", &(1, "a")).unwrap();
    conn.notify("m", &point).unwrap();
    conn.notify("m", &BTreeMap::from([("k", 1)])).unwrap();
    conn.notify("m", &vec![f64::NAN]).unwrap();
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

// CLI-16 CLI-17 CLI-18 CLI-30
#[test]
fn outcomes_are_fetched_by_handle_each_as_its_type() {
    let mut conn = connection(0);
    let mut batch = conn.batch(None);
    let sum = batch.call::<i64>("sum", &[1, 2], 1).unwrap();
    let name = batch.call::<String>("name", (), 2).unwrap();
    let unit = batch.call::<()>("unit", (), 3).unwrap();
    let none = batch.call::<Option<i64>>("none", (), 4).unwrap();
    let error = batch.call::<i64>("error", (), 5).unwrap();
    let wrong = batch.call::<i64>("wrong", (), 6).unwrap();
    let list = batch
        .call_all::<i64, _>(["a", "b"].map(|method| (method, (), 7)))
        .unwrap();
    batch.send().unwrap();
    let mut collector = Collector::new();
    let reply = br#"[
        {"jsonrpc":"2.0","result":"text","id":6},
        {"jsonrpc":"2.0","error":{"code":7,"message":"seven"},"id":5},
        {"jsonrpc":"2.0","result":null,"id":4},
        {"jsonrpc":"2.0","result":null,"id":3},
        {"jsonrpc":"2.0","result":"Ada","id":2},
        {"jsonrpc":"2.0","result":3,"id":1},
        {"jsonrpc":"2.0","result":8,"id":8},
        {"jsonrpc":"2.0","result":9,"id":7}]"#;
    let mut input = Input::message(reply);
    while let Some(Event::Response(response)) = conn.poll_event(&mut input) {
        collector.insert(response);
    }
    assert_eq!(collector.len(), 8);
    assert_eq!(collector.fetch(sum).unwrap(), 3);
    assert_eq!(collector.fetch(name).unwrap(), "Ada");
    collector.fetch(unit).unwrap();
    assert_eq!(collector.fetch(none).unwrap(), None);
    assert!(matches!(
        collector.fetch(error),
        Err(FetchError::Outcome(OwnedOutcome::Err(error))) if error.code() == 7
    ));
    assert!(matches!(collector.fetch(wrong), Err(FetchError::Decode(_))));
    assert_eq!(collector.fetch(list[0]).unwrap(), 9);
    assert_eq!(collector.fetch(list[1]).unwrap(), 8);
    assert!(matches!(collector.fetch(sum), Err(FetchError::Unknown)));
    assert!(collector.is_empty());
}

// CLI-18
#[test]
fn a_handle_of_another_batch_or_connection_is_an_error() {
    let (mut first, mut second) = (connection(1), connection(2));
    let mut batch = first.batch(None);
    let mine = batch.call::<i64>("m", (), 1).unwrap();
    batch.send().unwrap();
    let mut batch = second.batch(None);
    let foreign = batch.call::<i64>("m", (), 1).unwrap();
    batch.send().unwrap();
    let mut collector = Collector::new();
    let mut input = Input::message(br#"{"jsonrpc":"2.0","result":3,"id":1}"#);
    let Some(Event::Response(response)) = first.poll_event(&mut input) else {
        panic!("the answer is there");
    };
    assert_eq!(collector.insert(response), 1);
    assert!(matches!(collector.fetch(foreign), Err(FetchError::Unknown)));
    assert_eq!(collector.fetch(mine).unwrap(), 3);
}

// CLI-18 CLI-24
#[test]
fn an_entry_that_the_exchange_left_out_is_missing() {
    let mut conn: Connection<u32> = Connection::new(Config::new().for_client_exchange());
    let mut batch = conn.batch(None);
    let answered = batch.call::<i64>("a", (), 1).unwrap();
    let skipped = batch.call::<i64>("b", (), 2).unwrap();
    batch.send().unwrap();
    written(&mut conn);
    let mut collector = Collector::new();
    let mut input = Input::message(br#"[{"jsonrpc":"2.0","result":3,"id":1}]"#);
    conn.handle_eof();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Response(response) = event {
            collector.insert(response);
        }
    }
    assert_eq!(collector.fetch(answered).unwrap(), 3);
    assert!(matches!(
        collector.fetch(skipped),
        Err(FetchError::Outcome(OwnedOutcome::Missing))
    ));
}

// CLI-06 ARC-04
#[test]
fn no_call_times_out_early_and_the_next_wake_up_lies_ahead() {
    let mut conn = connection(0);
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut seed, mut now) = (7u64, 0u64);
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..3000 {
        let mut out = Vec::new();
        while conn.take_transmit(&mut out) {}
        let at = now + 1 + random() % 500;
        let call = conn
            .call("m", (), Some(Instant::from_nanos(at)), 0)
            .unwrap();
        open.insert(call.number(), at);
        if random() % 3 == 0 {
            // Some call is answered, given up, or given more time.
            let number = *open.keys().nth(random() as usize % open.len()).unwrap();
            let later = now + 1 + random() % 2000;
            match random() % 2 {
                0 if number == call.number() => {
                    conn.set_deadline(call, Some(Instant::from_nanos(later)))
                        .unwrap();
                    open.insert(number, later);
                }
                _ => {
                    let reply = format!("{{\"jsonrpc\":\"2.0\",\"result\":0,\"id\":{number}}}");
                    let event = conn.poll_event(&mut Input::message(reply.as_bytes()));
                    assert!(matches!(event, Some(Event::Response(_))));
                    open.remove(&number);
                }
            }
        }
        let earliest = open.values().min().map(|&at| Instant::from_nanos(at));
        match (conn.poll_timeout(), earliest) {
            (Some(wake), Some(earliest)) => assert!(wake <= earliest, "{wake:?} {earliest:?}"),
            (None, Some(earliest)) => panic!("no wake-up for {earliest:?}"),
            _ => {}
        }
        now += random() % 100;
        conn.handle_timeout(Instant::from_nanos(now));
        while let Some(event) = conn.poll_event(&mut Input::none()) {
            let Event::Response(response) = event else {
                panic!("only deadlines can have passed");
            };
            assert!(matches!(response.outcome, Outcome::TimedOut));
            let at = open.remove(&response.call.number()).unwrap();
            assert!(at <= now, "it fired {} ns early", at - now);
        }
        assert!(open.values().all(|&at| at > now), "what is due was told");
        assert!(
            conn.poll_timeout()
                .is_none_or(|wake| wake > Instant::from_nanos(now))
        );
    }
}

// ARC-10
#[test]
fn output_is_swapped_out_when_that_is_all_there_is_and_appended_otherwise() {
    let mut conn = connection(0);
    conn.notify("a", ()).unwrap();
    let shown = conn.poll_transmit().unwrap().as_ptr();
    let mut out = Vec::new();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out.as_ptr(), shown, "the bytes did not move");
    assert!(!conn.take_transmit(&mut out));
    conn.notify("b", ()).unwrap();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(
        out,
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n"
    );
    assert_eq!(conn.transmit_done(), conn.transmit_queued());
    assert_eq!(conn.transmit_done(), out.len() as u64);
}

// TRN-07
#[test]
fn whole_messages_are_taken_one_at_a_time() {
    let mut conn: Connection<u32> = Connection::new(Config::new().with_framing(Framing::Messages));
    conn.notify("a", ()).unwrap();
    conn.notify("b", ()).unwrap();
    let mut out = Vec::new();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}");
    out.clear();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"method\":\"b\"}");
    assert!(!conn.take_transmit(&mut out));
}

// TRN-07
#[test]
fn more_bytes_than_were_shown_count_as_all_of_them() {
    let mut conn = connection(0);
    conn.consume_transmit(5);
    conn.notify("a", ()).unwrap();
    conn.consume_transmit(usize::MAX);
    assert_eq!(conn.poll_transmit(), None);
    assert_eq!(conn.transmit_done(), conn.transmit_queued());
}

const BATCH: &[u8] =
    br#"[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"b","id":2}]
"#;

// SRV-26 SRV-20
#[test]
fn a_batch_that_its_driver_abandons_half_way_is_still_answered() {
    let other_stream = [REQUEST, REQUEST].concat();
    for mut other in [Input::message(REQUEST), Input::stream(&other_stream)] {
        let mut conn = connection(0);
        let mut input = Input::stream(BATCH);
        let Some(Event::Request(first)) = conn.poll_event(&mut input) else {
            panic!("the first item is there");
        };
        assert_eq!(input.consumed(), 0, "a message is taken whole");
        // The driver shows other bytes instead.
        let Some(Event::Request(single)) = conn.poll_event(&mut other) else {
            panic!("the other message is there");
        };
        conn.respond(single.token, &0).unwrap();
        conn.respond(first.token, &1).unwrap();
        assert_eq!(
            written(&mut conn).lines().collect::<Vec<_>>(),
            [
                r#"{"jsonrpc":"2.0","result":0,"id":1}"#,
                r#"[{"jsonrpc":"2.0","result":1,"id":1},{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":2}]"#,
            ]
        );
        assert_eq!(conn.requests_open(), 0);
    }
}

// SRV-20 ARC-07
#[test]
fn a_batch_shown_again_goes_on_where_it_stopped() {
    let mut conn = connection(0);
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut input = Input::stream(BATCH);
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("an item is there");
        };
        tokens.push(request.token);
    }
    assert!(conn.poll_event(&mut Input::none()).is_none());
    for token in tokens.into_iter().rev() {
        conn.respond(token, ()).unwrap();
    }
    assert_eq!(
        written(&mut conn),
        "[{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":1},{\"jsonrpc\":\"2.0\",\"result\":null,\"id\":2}]\n"
    );
}

// CAN-12 SRV-26
#[test]
fn tokens_are_dead_after_a_close_and_come_back() {
    let mut conn = connection(0);
    let token = request(&mut conn);
    conn.close(CloseReason::Done);
    let rejected = conn.respond(token, &1).unwrap_err();
    assert_eq!(rejected.error, SendError::Closed);
    let _: ReplyToken = rejected.value;
    assert_eq!(drained(&mut conn).len(), 2);
    assert!(conn.is_closed());
}

// ARC-07 ARC-20 CON-06
#[test]
fn every_command_is_legal_after_the_end_in_any_order() {
    let ends: [fn(&mut Connection<u32>); 4] = [
        |conn| conn.close(CloseReason::Other("test")),
        |conn| conn.handle_eof(),
        |conn| conn.drain(),
        |conn| {
            let _ = conn.poll_event(&mut Input::stream(b"{"));
            conn.handle_eof();
            let _ = conn.poll_event(&mut Input::stream(b"{"));
        },
    ];
    for (first, end) in ends.into_iter().enumerate() {
        for (second, again) in ends.into_iter().enumerate() {
            let mut conn = connection(0);
            let call = conn.call("m", (), None, 1).unwrap();
            let token = request(&mut conn);
            end(&mut conn);
            again(&mut conn);
            assert_eq!(conn.call("m", (), None, 2).unwrap_err().value, 2);
            assert_eq!(conn.batch(None).send(), Err(SendError::Closed));
            let _ = conn.notify("m", ());
            let _ = conn.ask_cancel(call);
            let _ = conn.set_deadline(call, Some(Instant::ZERO));
            let _ = conn.respond(token, &1);
            conn.fail_transmit();
            conn.handle_timeout(Instant::FAR_FUTURE);
            drained(&mut conn);
            written(&mut conn);
            drained(&mut conn);
            assert_eq!(conn.calls_open(), 0, "every call has settled");
            assert!(conn.is_closed(), "after end {first}, then end {second}");
            conn.close(CloseReason::Done);
            assert_eq!(drained(&mut conn).len(), 0, "Closed is told once");
        }
    }
}

// ARC-04 ARC-07 CLI-06
#[test]
fn the_far_future_is_a_time_like_any_other() {
    let mut conn = connection(0);
    for deadline in [None, Some(Instant::FAR_FUTURE), Some(Instant::ZERO)] {
        conn.call("m", (), deadline, 0).unwrap();
    }
    written(&mut conn);
    conn.handle_timeout(Instant::FAR_FUTURE);
    let events = drained(&mut conn);
    assert_eq!(events.len(), 1, "only the call with a deadline: {events:?}");
    assert_eq!((conn.calls_open(), conn.poll_timeout()), (2, None));
    conn.notify("still open", ()).unwrap();
    written(&mut conn);
    assert_eq!(drained(&mut conn).len(), 0);
}

// ARC-20
#[test]
fn the_first_reason_for_the_end_holds() {
    let mut conn = connection(0);
    conn.close(CloseReason::GoingAway);
    conn.close(CloseReason::Done);
    conn.handle_eof();
    let event = conn.poll_event(&mut Input::none());
    assert!(matches!(
        event,
        Some(Event::Closed(Closed::Local(CloseReason::GoingAway)))
    ));
}

// STD-08
#[test]
fn a_buffer_of_input_bytes_max_is_never_full_without_progress() {
    let body = r#"{"jsonrpc":"2.0","method":"m","params":["0123456789"]}"#;
    let too_long = format!("[\"{}\"]", "x".repeat(500));
    let headed = |text: &str| format!("Content-Length: {}\r\n\r\n{text}", text.len());
    for (framing, stream) in [
        (Framing::Newline, format!("{body}\n{too_long}\r\n{body}\n")),
        (Framing::Concatenated, format!("{body}{too_long}{body}")),
        (
            Framing::ContentLength,
            [headed(body), headed(&too_long), headed(body)].concat(),
        ),
        (Framing::Detect, format!("{body}\n{too_long}\n{body}\n")),
    ] {
        let mut config = Config::new().with_framing(framing);
        config.message_bytes_max = body.len();
        config.header_bytes_max = 64;
        let mut conn: Connection<u32> = Connection::new(config);
        let mut buffer = vec![0; config.input_bytes_max()];
        let (mut filled, mut notifications, mut refused) = (0, 0, 0);
        let mut stream = stream.as_bytes();
        while !stream.is_empty() {
            let room = (buffer.len() - filled).min(stream.len());
            assert!(
                room > 0,
                "{framing:?}: the buffer is full and nothing moves"
            );
            buffer[filled..filled + room].copy_from_slice(&stream[..room]);
            stream = &stream[room..];
            filled += room;
            let mut input = Input::stream(&buffer[..filled]);
            while let Some(event) = conn.poll_event(&mut input) {
                match event {
                    Event::Notification(_) => notifications += 1,
                    Event::Refused(_) => refused += 1,
                    other => panic!("{framing:?}: {other:?}"),
                }
            }
            let consumed = input.consumed();
            buffer.copy_within(consumed..filled, 0);
            filled -= consumed;
        }
        assert_eq!((notifications, refused, filled), (2, 1, 0), "{framing:?}");
    }
}

// MSG-06 MSG-29
#[test]
fn ids_convert_compare_hash_and_print() {
    assert_eq!(OwnedId::from(7).as_id(), id("7.0"));
    assert_eq!(OwnedId::from("a\"b").as_id(), id(r#""\u0061\"b""#));
    assert_eq!(OwnedId::from(String::from("x")).to_string(), "\"x\"");
    assert_eq!(
        (Id::NULL.to_string(), Id::NULL.is_null()),
        ("null".into(), true)
    );
    assert_ne!(id("1"), id("\"1\""));
    assert_ne!(id("1.9"), id("1.1"));
    assert_ne!(id("null"), id("0"));
    assert_eq!(id("-0"), id("0"));
    assert_eq!(id("1e400").text(), "1e400");
    assert_ne!(id("1e400"), id("1e401"));
    assert_eq!(id("100e398"), id("1e400"));
    assert_eq!(id("18446744073709551615").as_u64(), Some(u64::MAX));
    assert_eq!(id("18446744073709551616").as_u64(), None);
    assert_eq!(id("1.5").as_u64(), None);
    assert_eq!(id("\"\\u00e9\"").as_text().as_deref(), Some("é"));
    assert_eq!(id("\"\\ud800\"").as_text(), None);
    let ids = ["1", "1.0", "1e0", "10e-1", "\"1\"", "\"\\u0031\"", "null"];
    let set: HashSet<OwnedId> = ids.iter().map(|text| id(text).into_owned()).collect();
    assert_eq!(set.len(), 3);
    assert!(Id::new(json("[1]")).is_none() && Id::new(json("{}")).is_none());
}

// MSG-06 SEC-11
#[test]
fn comparing_ids_with_huge_exponents_costs_nothing() {
    let digits = "9".repeat(1000);
    for (left, right, same) in [
        (
            "1e999999999999".to_owned(),
            "1e999999999998".to_owned(),
            false,
        ),
        (
            "1e999999999999".to_owned(),
            "10e999999999998".to_owned(),
            true,
        ),
        (format!("1e{digits}"), format!("1e{digits}"), true),
        (format!("1e{digits}"), format!("1e-{digits}"), false),
        (format!("0e{digits}"), "0".to_owned(), true),
    ] {
        assert_eq!(id(&left) == id(&right), same, "{left} {right}");
    }
}

// MSG-09 MSG-10 MSG-29
#[test]
fn method_names_are_checked_and_know_the_system_ones() {
    assert!(MethodName::new("").is_none() && MethodName::new(" \t").is_none());
    let system = |name| MethodName::new(name).unwrap().is_system();
    assert!(system("rpc.discover") && system("rpc."));
    assert!(!system("rpc") && !system("RPC.discover") && !system("rpcdiscover"));
}

// MSG-15 MSG-16 ERR-01
#[test]
fn errors_have_constructors_and_outcomes_a_success_query() {
    let table = [
        (ErrorObject::parse_error(), -32700, "Parse error"),
        (ErrorObject::invalid_request(), -32600, "Invalid Request"),
        (ErrorObject::method_not_found(), -32601, "Method not found"),
        (ErrorObject::invalid_params(), -32602, "Invalid params"),
        (ErrorObject::internal_error(), -32603, "Internal error"),
        (
            ErrorObject::request_cancelled(),
            -32001,
            "Request cancelled",
        ),
        (ErrorObject::server_busy(), -32002, "Server busy"),
        (
            ErrorObject::batch_too_large(100),
            -32003,
            "Batch too large, limit: 100",
        ),
        (
            ErrorObject::request_too_large(9),
            -32004,
            "Request too large, limit: 9",
        ),
        (ErrorObject::timeout(), -32005, "Request timeout"),
    ];
    for (error, code, message) in table {
        assert_eq!((error.code(), error.message()), (code, message));
        assert!(error.data().is_none());
    }
    assert!(Outcome::Ok(Json::NULL).is_ok());
    assert!(!Outcome::TimedOut.is_ok());
    assert!(codes::is_reserved(-32500) && codes::is_server_error(-32050));
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
    config.id_scheme = IdScheme::Prefixed("a-");
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

// ARC-06
#[test]
fn two_runs_with_the_same_input_write_the_same_bytes() {
    let run = || {
        let mut config = Config::mixed();
        config.batch_order = BatchOrder::Completion;
        config.cancel_send = CancelStyle::Mcp;
        let mut conn: Connection<u32> = Connection::new(config);
        let mut out = Vec::new();
        for round in 0..50u32 {
            let call = conn.call("m", &[round], None, round).unwrap();
            let mut tokens = requests(&mut conn, BATCH);
            while let Some(token) = tokens.pop() {
                conn.respond(token, &round).unwrap();
            }
            if round % 3 == 0 {
                conn.cancel(call);
            }
            conn.take_transmit(&mut out);
        }
        out
    };
    assert_eq!(run(), run());
}

// ARC-08
#[test]
fn a_connection_is_send_when_its_tags_are() {
    fn is_send<T: Send>() {}
    is_send::<Connection<()>>();
    is_send::<Connection<Box<dyn Fn() + Send>>>();
    is_send::<ReplyToken>();
    is_send::<OwnedError>();
}

// STD-06
#[test]
fn presets_differ_where_their_protocols_do_and_nowhere_else() {
    use McpRevision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28};
    assert_eq!(Config::strict(), Config::new());
    assert_eq!(Config::default(), Config::new());
    assert_eq!(Config::mcp(V2024_11_05), Config::mcp(V2025_06_18));
    assert_eq!(Config::mcp(V2025_11_25), Config::mcp(V2026_07_28));
    let mut with_batches = Config::mcp(V2025_06_18);
    with_batches.batches = true;
    assert_eq!(with_batches, Config::mcp(V2025_03_26));
    let mut acp = Config::acp(AcpVersion::V1);
    acp.batches = true;
    assert_eq!(acp, Config::acp(AcpVersion::V2));
    let framings = [
        (Config::lsp(), Framing::ContentLength),
        (Config::mcp(V2025_06_18), Framing::Newline),
        (Config::acp(AcpVersion::V1), Framing::Newline),
        (Config::ethereum(), Framing::Concatenated),
        (Config::bitcoin(), Framing::Messages),
        (Config::bitcoin_legacy(), Framing::Messages),
        (Config::electrum(), Framing::Newline),
        (Config::kodi(), Framing::Concatenated),
        (Config::v1(), Framing::Newline),
        (Config::mixed(), Framing::Newline),
    ];
    for (config, framing) in framings {
        assert_eq!(config.framing, framing);
        assert!(config.outbox_bytes_soft <= config.outbox_bytes_max);
        assert!(config.memory_bytes_max() < usize::MAX);
    }
}

// CLI-28 CLI-21
#[test]
fn an_undelivered_message_settles_its_calls_with_their_own_tags() {
    let mut conn: Connection<u32> = Connection::new(Config::new().with_framing(Framing::Messages));
    conn.call("kept", (), None, 1).unwrap();
    let mut batch = conn.batch(None);
    batch.call::<()>("lost", (), 2).unwrap();
    batch.call::<()>("lost", (), 3).unwrap();
    batch.send().unwrap();
    let shown = conn.poll_transmit().unwrap().len();
    conn.consume_transmit(shown);
    conn.fail_transmit();
    conn.fail_transmit();
    let mut tags = Vec::new();
    while let Some(Event::Response(response)) = conn.poll_event(&mut Input::none()) {
        assert!(matches!(response.outcome, Outcome::Unsent));
        tags.push(response.tag);
    }
    assert_eq!((tags, conn.calls_open()), (vec![2, 3], 1));
}

// SRV-15
#[test]
fn an_event_knows_its_size_and_its_place() {
    let mut conn = connection(0);
    let mut input = Input::stream(BATCH);
    let mut places = Vec::new();
    while let Some(Event::Request(request)) = conn.poll_event(&mut input) {
        places.push((request.origin.bytes, request.origin.batch_index));
    }
    assert_eq!(places, [(37, Some(0)), (37, Some(1))]);
    assert_eq!(input.consumed(), BATCH.len());
}
