//! A `Reader` reads a text as a connection with the same configuration does: for the texts below
//! and for many that differ from them in a byte or a token, under every version policy.
//!
//! Prints how many texts of each kind were read; fails if one kind did not occur.

use std::collections::BTreeMap;

use antiphon::{
    Config, Connection, Event, InvalidReason, MalformedCause, Message, Outcome, ReadError, Reader,
    UnmatchedKind, VersionPolicy,
};

const TEXTS: [&str; 40] = [
    r#"{"jsonrpc":"2.0","method":"sum","params":[42,23],"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"sum","params":{"a":{"b":[1]}},"id":"x\u0041"}"#,
    r#"{"jsonrpc":"2.0","method":"sum","id":18446744073709551616}"#,
    r#"{"jsonrpc":"2.0","id":1.0,"method":"s\u0075m","params":[]}"#,
    r#"{"jsonrpc":"2.0","method":"sum","id":null}"#,
    r#"{"jsonrpc":"2.0","method":"sum"}"#,
    r#"{"jsonrpc":"2.0","method":"sum","params":null}"#,
    r#"{"jsonrpc":"2.0","method":"sum","params":5,"id":1}"#,
    r#"{"jsonrpc":"2.0","method":5,"id":1}"#,
    r#"{"jsonrpc":"2.0","method":"\ud800","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"a","method":"b","id":1}"#,
    r#"{"jsonrpc":"2.0","method":"a","id":true}"#,
    r#"{"jsonrpc":"2.0","method":"a","id":[1]}"#,
    r#"{"jsonrpc":"2.1","method":"a","id":1}"#,
    r#"{"jsonrpc":"1.0","method":"a","params":[],"id":1}"#,
    r#"{"method":"a","params":[],"id":1}"#,
    r#"{"method":"a","params":{"b":1},"id":1}"#,
    r#"{"method":"a","params":[],"id":null}"#,
    r#"{"method":"a","params":[]}"#,
    r#"{"jsonrpc":"2.0","result":19,"id":1}"#,
    r#"{"jsonrpc":"2.0","result":null,"id":"1"}"#,
    r#"{"result":19,"error":null,"id":1}"#,
    r#"{"result":null,"error":"broken","id":1}"#,
    r#"{"jsonrpc":"2.0","result":1,"error":null,"id":1}"#,
    r#"{"jsonrpc":"2.0","result":1}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":1}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"é","data":[1,2]},"id":"b"}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-1.5,"message":""},"id":1}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"},"id":null}"#,
    r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}"#,
    r#"{"jsonrpc":"2.0","error":"boom","id":1}"#,
    r#"{"jsonrpc":"2.0","id":1}"#,
    r#"{}"#,
    "17",
    r#""text""#,
    "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"bom\"}",
    "{\n  \"jsonrpc\": \"2.0\",\n  \"method\": \"pretty\",\n  \"params\": { \"a\": [ 1, 2 ] },\n  \"id\": 7\n}\n",
    r#"{"jsonrpc":"2.0","method":"übung","params":["次"],"id":"é"}"#,
    r#"{"extra":{"id":9},"jsonrpc":"2.0","method":"a","id":9,"more":[null,true,-1e5]}"#,
    r#"[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"b"},3,{"jsonrpc":"2.0","result":1,"id":5},{"method":"v1","params":[],"id":2}]"#,
];

/// So many texts are read at least.
const READ_MIN: usize = 60_000;

/// What one message is, by the reader or by the connection.
#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Request(String, Option<String>, String),
    Notification(String, Option<String>),
    /// A valid answer: its id and its outcome. No connection here has made a call.
    Response(Option<String>, String),
    Invalid(InvalidReason, Option<String>, usize),
    InvalidResponse(InvalidReason),
    Unreadable(String),
}

fn outcome(outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Ok(result) => format!("ok {result}"),
        Outcome::Err(error) => format!("{} {} {:?}", error.code(), error.message(), error.text()),
        other => format!("{other:?}"),
    }
}

fn by_reader(reader: &mut Reader, text: &[u8]) -> Vec<Kind> {
    let messages = match reader.read(text) {
        Ok(messages) => messages,
        Err(ReadError::Syntax(error)) => return vec![Kind::Unreadable(error.to_string())],
        Err(ReadError::EmptyBatch) => {
            return vec![Kind::Invalid(InvalidReason::EmptyBatch, None, 0)];
        }
        Err(other) => panic!("{other}"),
    };
    let kind = |message| match message {
        Message::Request { method, params, id } => {
            let params = params.map(|params| params.to_string());
            Kind::Request(method.into_owned(), params, id.to_string())
        }
        Message::Notification { method, params } => {
            Kind::Notification(method.into_owned(), params.map(|params| params.to_string()))
        }
        Message::Response {
            outcome: Outcome::Invalid(invalid),
            ..
        } => Kind::InvalidResponse(invalid.reason),
        Message::Response { id, outcome: what } => {
            Kind::Response(id.map(|id| id.to_string()), outcome(&what))
        }
        Message::Invalid { reason, id, offset } => {
            Kind::Invalid(reason, id.map(|id| id.to_string()), offset)
        }
        other => panic!("{other:?}"),
    };
    messages.map(kind).collect()
}

fn by_connection(config: Config, text: &[u8]) -> Vec<Kind> {
    let mut conn: Connection = Connection::new(config);
    let mut input = antiphon::Input::message(text);
    let mut kinds = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        kinds.push(match event {
            Event::Request(request) => Kind::Request(
                request.method.into_owned(),
                request.params.map(|params| params.to_string()),
                request.id.to_string(),
            ),
            Event::Notification(notification) => Kind::Notification(
                notification.method.into_owned(),
                notification.params.map(|params| params.to_string()),
            ),
            Event::UnmatchedResponse(unmatched) => match &unmatched.kind {
                UnmatchedKind::Late(what)
                | UnmatchedKind::Unknown(what)
                | UnmatchedKind::NullId(what) => {
                    Kind::Response(unmatched.id.map(|id| id.to_string()), outcome(what))
                }
                other => panic!("{other:?}"),
            },
            Event::Malformed(malformed) => match malformed.cause {
                MalformedCause::Syntax(error) => Kind::Unreadable(error.to_string()),
                MalformedCause::Call(reason) => {
                    let id = malformed.id.map(|id| id.to_string());
                    // Its offset counts from the item, that of a reader from the whole text.
                    let start = malformed.text.as_ptr().addr() - text.as_ptr().addr();
                    Kind::Invalid(reason, id, start + malformed.offset)
                }
                MalformedCause::Response(reason) => Kind::InvalidResponse(reason),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
    }
    kinds
}

/// The text itself, then with one byte gone, doubled or changed, then with one token replaced
/// wherever it stands.
fn neighbours(text: &str) -> Vec<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut all = vec![bytes.to_vec()];
    for at in 0..bytes.len() {
        let mut gone = bytes.to_vec();
        gone.remove(at);
        all.push(gone);
        let mut doubled = bytes.to_vec();
        doubled.insert(at, bytes[at]);
        all.push(doubled);
        for to in [b'1', b'"', b'}', b' ', b'\\', b'm', 0xc3] {
            let mut changed = bytes.to_vec();
            changed[at] = to;
            all.push(changed);
        }
    }
    for (from, to) in [
        ("\"2.0\"", "\"1.0\""),
        ("id", "Id"),
        ("1", "null"),
        ("{", "["),
    ] {
        all.push(text.replace(from, to).into_bytes());
    }
    all
}

// MSG-07
#[test]
fn a_reader_and_a_connection_read_the_same() {
    let mut policies = Vec::new();
    for version in [
        VersionPolicy::V2Only,
        VersionPolicy::V1Only,
        VersionPolicy::V1AndV2,
    ] {
        let mut strict = Config::new();
        strict.dialect.version = version;
        // A reader knows no cancels: they are notifications like any other.
        strict.dialect.cancel_receive = antiphon::CancelStyle::None;
        let mut lenient = strict;
        lenient.dialect.lenient_responses = true;
        lenient.dialect.null_params = antiphon::NullParams::TreatAsAbsent;
        lenient.dialect.boolean_ids = true;
        lenient.dialect.v1_missing_id = true;
        lenient.limits.max_depth = 3;
        policies.extend([strict, lenient]);
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut read = 0;
    for config in policies {
        let mut reader = Reader::new(config);
        for text in TEXTS {
            for text in neighbours(text) {
                read += 1;
                let ours = by_reader(&mut reader, &text);
                let shown = String::from_utf8_lossy(&text);
                assert_eq!(ours, by_connection(config, &text), "{shown}");
                for kind in ours {
                    *counts.entry(name(&kind)).or_default() += 1;
                }
            }
        }
    }
    println!("{read} texts read: {counts:?}");
    assert!(read >= READ_MIN, "{read} texts, of at least {READ_MIN}");
    assert_eq!(counts.len(), 6, "{counts:?}");
}

fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Request(..) => "requests",
        Kind::Notification(..) => "notifications",
        Kind::Response(..) => "responses",
        Kind::Invalid(..) => "invalid",
        Kind::InvalidResponse(..) => "invalid responses",
        Kind::Unreadable(..) => "unreadable",
    }
}

#[test]
fn a_batch_that_is_none_is_an_error() {
    let mut config = Config::new();
    config.limits.max_batch_items = 2;
    let mut reader = Reader::new(config);
    assert_eq!(reader.read(b"[]").unwrap_err(), ReadError::EmptyBatch);
    let long = reader.read(b"[1,2,3]").unwrap_err();
    assert_eq!(long, ReadError::BatchTooLong { items: 3 });
    assert_eq!(long.to_string(), "the batch has 3 items, too many");
    assert_eq!(reader.read(b"[1,2]").unwrap().len(), 2);
    config.dialect.batches = false;
    let off = Reader::new(config).read(b"[1]").unwrap_err();
    assert_eq!(off, ReadError::BatchesOff);
}
