//! Small scenes that random choices hardly ever reach; a byte of a case of `values` selects one.
//!
//! Rule: a scene has only the few steps that lead to its rare case, and checks the right result.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use antiphon::service::Arguments;
use antiphon::session::{Bound, Overflow, Routed, Session, SessionConfig, Wire};
use antiphon::{
    CallId, CancelAnswer, CancelStyle, CloseReason, Closed, Config, Connection, ConnectionError,
    Cut, ErrorObject, ErrorProfile, Event, FixedConfig, Framer, Framing, FramingError, Id,
    IdScheme, Input, Instant, Json, McpRevision, MissingResponseId, NullIdError, Outcome,
    OwnedError, OwnedJson, ProgressStyle, RefusedCause, SendError, Settings, Style,
};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn run(which: u8) {
    match which % 19 {
        0 => setters(),
        1 => draining(),
        2 => {
            huge_exponents();
            whole_floats();
        }
        3 => half_a_frame(),
        4 => shown_otherwise(),
        5 => {
            an_exchange_without_an_answer();
            an_exchange_that_streams();
        }
        6 => the_last_numbers(),
        7 => unwritable(),
        8 => another_connections(),
        9 => a_call_made_while_an_error_is_told(),
        10 => braces_that_make_a_batch_too_large(),
        11 => a_mark_cut_short(),
        12 => known_when_built(),
        13 => limits_without_end(),
        14 => large_texts_in_place(),
        15 => said_in_words(),
        16 => answers_that_name_no_call(),
        17 => raw_json_elsewhere(),
        _ => a_pause_while_a_message_comes(),
    }
}

/// Setters that are given a preset's values make the preset's settings.
fn setters() {
    let wanted = Config::lsp();
    let config = Config::new()
        .binary(wanted.dialect.binary)
        .version(wanted.dialect.version)
        .v1_null_id(wanted.dialect.v1_null_id)
        .v1_missing_id(wanted.dialect.v1_missing_id)
        .v1_in_batch(wanted.dialect.v1_in_batch)
        .v1_named_params(wanted.dialect.v1_named_params)
        .v1_other_versions(wanted.dialect.v1_other_versions)
        .null_params(wanted.dialect.null_params)
        .unknown_params(wanted.dialect.unknown_params)
        .lenient_responses(wanted.dialect.lenient_responses)
        .allow_null_id(wanted.dialect.allow_null_id)
        .null_ids(wanted.dialect.null_ids)
        .boolean_ids(wanted.dialect.boolean_ids)
        .invalid_request_id(wanted.dialect.invalid_request_id)
        .unknown_id(wanted.dialect.unknown_id)
        .duplicate_ids(wanted.dialect.duplicate_ids)
        .null_id_error(wanted.dialect.null_id_error)
        .missing_response_id(wanted.dialect.missing_response_id)
        .batches(wanted.dialect.batches)
        .batch_order(wanted.dialect.batch_order)
        .limit_errors(wanted.dialect.limit_errors)
        .error_profile(wanted.dialect.error_profile)
        .failures(wanted.dialect.failures)
        .check_app_codes(wanted.dialect.check_app_codes)
        .echo_method_names(wanted.dialect.echo_method_names)
        .system_extensions(wanted.dialect.system_extensions)
        .cancel_send(wanted.dialect.cancel_send)
        .cancel_receive(wanted.dialect.cancel_receive)
        .cancel_match(wanted.dialect.cancel_match)
        .cancel_on_timeout(wanted.dialect.cancel_on_timeout)
        .cancel_answer(wanted.dialect.cancel_answer)
        .end(wanted.dialect.end)
        .progress(wanted.dialect.progress)
        .id_scheme(wanted.dialect.id_scheme)
        .escape_braces(wanted.dialect.escape_braces)
        .max_message_bytes(wanted.limits.max_message_bytes)
        .max_header_bytes(wanted.limits.max_header_bytes)
        .max_depth(wanted.limits.max_depth)
        .max_batch_items(wanted.limits.max_batch_items)
        .max_batch_reply_bytes(wanted.limits.max_batch_reply_bytes)
        .max_batch_calls(wanted.limits.max_batch_calls)
        .max_joined_calls(wanted.limits.max_joined_calls)
        .max_id_bytes(wanted.limits.max_id_bytes)
        .max_method_bytes(wanted.limits.max_method_bytes)
        .max_error_data_bytes(wanted.limits.max_error_data_bytes)
        .max_open_calls(wanted.limits.max_open_calls)
        .max_open_requests(wanted.limits.max_open_requests)
        .max_unmatched_responses(wanted.limits.max_unmatched_responses)
        .max_malformed_messages(wanted.limits.max_malformed_messages)
        .soft_max_outbox_bytes(wanted.limits.soft_max_outbox_bytes)
        .max_outbox_bytes(wanted.limits.max_outbox_bytes)
        .message_timeout(wanted.timeouts.message_timeout)
        .write_timeout(wanted.timeouts.write_timeout)
        .drain_timeout(wanted.timeouts.drain_timeout);
    assert_eq!(config.dialect, wanted.dialect);
    assert_eq!(config.limits, wanted.limits);
    assert_eq!(config.timeouts, wanted.timeouts);
}

/// Progress as each dialect writes it is read back.
fn progress() {
    fn json(text: &[u8]) -> Json<'_> {
        Json::parse(text).expect("JSON")
    }
    let told = [ProgressStyle::None, ProgressStyle::Lsp, ProgressStyle::Mcp];
    let told = told.into_iter().filter_map(ProgressStyle::style);
    for style in told.chain([Style::ETHEREUM, Style::MCP_LISTEN]) {
        let is_asked = style.ask((), "mine").is_ok();
        assert_eq!(style.has_token(), is_asked);
        let written = OwnedJson::from_value(&style.event(json(b"1"), &2));
        assert_eq!(written.ok(), style.params(json(b"1"), &2).ok());
        for params in [
            &b"{}"[..],
            b"[1]",
            br#"{"a":1,"workDoneToken":"t","_meta":{"b":2,"progressToken":7}}"#,
            br#"{"workDoneToken":[],"_meta":{"progressToken":null}}"#,
            br#"{"_meta":3}"#,
        ] {
            let params = json(params);
            if let Some(token) = style.token(params) {
                let rest = style.without_token(params).expect("it has one");
                assert_eq!(style.token(rest.as_json()), None);
                let told = style
                    .params(token, &json(br#"{"progress":1}"#))
                    .expect("JSON");
                let (again, value) = style.read(told.as_json()).expect("progress");
                assert_eq!(again, token);
                assert!(value.get("progress").is_some());
            }
            if let Ok(asked) = style.ask(params, "mine") {
                let token = style.token(asked.as_json());
                assert_eq!(token.map(Json::as_str), Some("\"mine\""));
            }
            let _ = (style.without_token(params), style.read(params));
            let _ = style.read(json(br#"{"token":1}"#));
            let _ = style.params(json(b"1"), &json(b"2"));
        }
        let _ = (
            style.ask((), "mine"),
            style.ask(&Refusing, "mine"),
            style.method(),
        );
        let _ = style.params(json(b"1"), &Refusing);
        let deep = [b"[".repeat(128), b"]".repeat(128)].concat();
        assert!(style.params(json(b"1"), &json(&deep)).is_err());
        let why = ErrorObject::new(-32000, "gone");
        let ended = style.end_params(json(b"1"), &why).expect("JSON");
        assert_eq!(
            style.read(ended.as_json()).is_some(),
            style == Style::MCP_PROGRESS
        );
        if style.subscribe_method().is_some() {
            let (id, why) = style.read_end(ended.as_json()).expect("an end");
            assert!(!Style::is_completed(why) && !Style::is_completed(id));
            assert_eq!(ErrorObject::stream_completed().code(), -32001);
            assert!(Style::is_completed(json(br#"{"code":-32001}"#)));
            assert_eq!((id.as_str(), why.get("code").is_some()), ("1", true));
        }
        let both = br#"{"subscription":1,"result":2,"error":3}"#;
        assert_eq!(style.read_end(json(both)), None);
        assert_eq!(style.read_end(json(b"{}")), None);
        assert!(
            style
                .end_params(json(b"1"), &why.with_data(json(&deep)))
                .is_err()
        );
    }
    subscriptions();
    assert_eq!(CallId::new(7, 8).connection(), 7);
    for profile in [ErrorProfile::Antiphon, ErrorProfile::Lsp] {
        assert!(profile.not_initialized().code() < 0);
    }
}

/// A style says how a stream begins, and which events are its.
fn subscriptions() {
    let all = [
        Style::SUBSTRATE_NEW_HEADS,
        Style::SUBSTRATE_FINALIZED_HEADS,
        Style::SOLANA_ACCOUNT,
        Style::SOLANA_LOGS,
        Style::SOLANA_SLOT,
        Style::named("a", "b", "c"),
    ];
    for style in all {
        assert!(style.subscribe_method() != style.unsubscribe_method());
        assert!(style.ask((), "mine").is_err());
    }
    assert_eq!(Style::LSP_PARTIAL_RESULTS.subscribe_method(), None);
    assert_eq!(Style::LSP_PARTIAL_RESULTS.unsubscribe_method(), None);
    for profile in [
        ErrorProfile::Antiphon,
        ErrorProfile::WebSocketDraft,
        ErrorProfile::Lsp,
        ErrorProfile::Mcp,
    ] {
        assert_eq!(
            profile.too_many_subscriptions().code(),
            profile.busy().code()
        );
    }
    // Alone, and in a batch of two, of which the first answer waits for the second.
    let one = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
    let two = format!("[{one},{}]", one.replace("1}", "2}"));
    for (text, marked) in [(one, [true, true]), (&two, [false, true])] {
        let mut conn: Connection = Connection::new(Config::new());
        let text = format!("{text}\n");
        let mut input = Input::stream(text.as_bytes());
        let (mut tokens, mut marks) = (Vec::new(), Vec::new());
        while let Some(Event::Request(request)) = conn.poll_event(&mut input) {
            marks.extend(conn.answer_mark(request.token.key()));
            tokens.push(request.token);
        }
        let key = tokens[0].key();
        assert!(!conn.is_answered(marks[0]) && !marks[0].is_v1());
        for (token, is_answered) in tokens.into_iter().zip(marked) {
            assert!(conn.respond(token, ()).is_ok());
            assert_eq!(conn.is_answered(marks[0]), is_answered);
        }
        assert_eq!(conn.answer_mark(key), None);
        let other: Connection = Connection::new(Config::new());
        assert_eq!(other.answer_mark(key), None);
        assert!(other.is_answered(marks[0]));
    }
    listening();
    let error: OwnedError = SendError::Full.into();
    assert_eq!(error.code(), -32603);
}

/// A call that listens gets the notifications that have its own id, generated or chosen.
fn listening() {
    const BOUND: Bound = Bound {
        max_events: 2,
        overflow: Overflow::DropOldest,
    };
    let config = SessionConfig::new(Config::new());
    let mut session: Session<u8> = Session::new(config, Wire::Stream, Instant::from_millis(0));
    let chosen = OwnedJson::from_value("a\"b").expect("JSON");
    for (id, is_chosen) in [
        (OwnedJson::from_value(&1).expect("JSON"), false),
        (chosen, true),
    ] {
        let route = session
            .open_route(Style::MCP_LISTEN, BOUND)
            .expect("a place");
        let call = match Id::new(id.as_json()).filter(|_| is_chosen) {
            Some(id) => session.call_with_id(id, "subscriptions/listen", (), None, 1),
            None => session.call("subscriptions/listen", (), None, 1),
        };
        session.attach_route(route, call.map_err(SendError::from).expect("room"), None);
        let meta = format!(
            r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{}}}}}"#,
            id.as_str()
        );
        let line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{meta}}}\n");
        session.handle_input(line.as_bytes());
        match session.poll_route(route) {
            Some(Routed::Event(event)) => assert!(event.as_str().contains("\"method\":\"n\"")),
            other => panic!("{other:?}"),
        }
    }
    let refused = session.call("m", &Refusing, None, 1);
    assert!(matches!(
        refused.map_err(SendError::from),
        Err(SendError::Encode(_))
    ));
}

/// Of four calls that wait, three leave joined in one batch, under any framing.
fn joined() {
    for framing in [Framing::ContentLength, Framing::Newline, Framing::Messages] {
        let mut config = Config::new().max_joined_calls(3);
        config.framing = framing;
        let mut conn: Connection<u8> = Connection::new(config);
        for number in 0..4 {
            conn.call("m", (), None, number).expect("there is room");
        }
        let mut sent = Vec::new();
        while conn.take_transmit(&mut sent) {}
        let text = String::from_utf8(sent).expect("text");
        assert_eq!(text.matches("\"id\"").count(), 4);
        assert_eq!(text.matches('[').count(), 1);
    }
}

/// A value without a JSON form.
struct Refusing;

impl Serialize for Refusing {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("it has no JSON form"))
    }
}

/// Each event that has a text says something, and an owned outcome says what the lent one says.
pub(crate) fn in_words<T>(event: &Event<'_, T>) {
    let said = match event {
        Event::Response(response) => {
            let (lent, owned) = (&response.outcome, response.outcome.clone().into_owned());
            assert_eq!(owned, owned.clone());
            match owned.as_outcome() {
                Ok(outcome) => assert_eq!(outcome.to_string(), lent.to_string()),
                Err(invalid) => {
                    assert!(*invalid == invalid.reason() && invalid.text().len() <= 260);
                    assert!(!format!("{invalid:?}").is_empty());
                }
            }
            assert!(owned.to_string().starts_with(&lent.to_string()));
            owned.to_string()
        }
        Event::Malformed(malformed) => malformed.cause.to_string(),
        Event::Refused(refused) => refused.cause.to_string(),
        Event::UnmatchedResponse(unmatched) => {
            if let antiphon::UnmatchedKind::NullId(Outcome::Err(error)) = &unmatched.kind {
                let _ = error.is_over_limit();
            }
            unmatched.kind.to_string()
        }
        Event::Closed(why) => why.to_string(),
        _ => return,
    };
    assert!(!said.is_empty());
}

/// Reasons, ends and errors are said in words, and each dialect has its codes.
fn said_in_words() {
    progress();
    joined();
    let causes = [
        RefusedCause::Busy,
        RefusedCause::Draining,
        RefusedCause::TooLarge {
            bytes: None,
            max_bytes: 5,
        },
        RefusedCause::TooLarge {
            bytes: Some(7),
            max_bytes: 5,
        },
        RefusedCause::BatchTooLong { items: 7 },
        RefusedCause::IdTooLong,
        RefusedCause::MethodTooLong,
        RefusedCause::RepeatedId,
        RefusedCause::NullId,
    ];
    let ends = [
        ConnectionError::Framing(FramingError::LengthMissing { offset: 0 }),
        ConnectionError::Truncated,
        ConnectionError::MessageTimedOut,
        ConnectionError::WriteTimedOut,
        ConnectionError::DrainTimedOut,
        ConnectionError::OutboxFull,
        ConnectionError::TooManyUnmatched,
        ConnectionError::TooManyMalformed,
    ];
    let reasons = [
        CloseReason::Done,
        CloseReason::GoingAway,
        CloseReason::PeerMisbehaved,
        CloseReason::TransportFailed,
        CloseReason::Other("as it is said"),
    ];
    let closed = [Closed::EndOfInput, Closed::Drained].into_iter();
    let closed = closed
        .chain(ends.map(Closed::Failed))
        .chain(reasons.map(Closed::Local));
    let said = causes.map(|cause| cause.to_string()).into_iter();
    let here = [
        SendError::Interceptor,
        SendError::FlowsOff,
        SendError::TooManyFlows,
    ];
    let said = said.chain(here.iter().map(SendError::to_string));
    for said in said.chain(closed.map(|why| why.to_string())) {
        assert!(said.contains(' ') && !said.contains("::"), "{said}");
    }
    for outcome in [
        Outcome::TimedOut,
        Outcome::Missing,
        Outcome::Unsent,
        Outcome::Aborted,
    ] {
        let words = outcome.to_string();
        assert_eq!(outcome.into_owned().to_string(), words);
    }
    for profile in [
        ErrorProfile::Antiphon,
        ErrorProfile::WebSocketDraft,
        ErrorProfile::Lsp,
        ErrorProfile::Mcp,
    ] {
        let codes = [
            profile.busy(),
            profile.unavailable(),
            profile.timeout(),
            profile.rate_limited(),
        ];
        let codes = codes.map(|error| error.code());
        assert!(codes.into_iter().all(|code| code < 0), "{codes:?}");
    }
    for (error, is_over) in [
        (ErrorObject::new(-32004, "Message too large"), true),
        (ErrorObject::new(-32600, "at most 7 bytes"), true),
        (ErrorObject::new(-32600, "Invalid Request"), false),
        (ErrorObject::new(7, "at most 7 bytes"), false),
        (with_data("\"at most 7 bytes\""), true),
        (with_data("\"at most 7\""), false),
        (with_data("7"), false),
    ] {
        assert_eq!(error.is_over_limit(), is_over, "{error}");
    }
    // The cause of an error is known on this side, and no error object tells it.
    let cause = "the disk is full";
    let error = OwnedError::internal(cause.into());
    assert_eq!(error.as_error(), ErrorObject::internal_error());
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!(source.as_deref(), Some(cause));
    assert_eq!(error, error.clone());
    // Each way in which params do not fit a method.
    let [missing, surplus, unknown, repeated, wrong] = [
        r#"{"a":1}"#,
        "[1,2,3]",
        r#"{"c":1}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":"one"}"#,
    ]
    .map(|params| {
        let params = Json::parse_str(params).expect("it is JSON");
        let arguments = Arguments::of(Some(params), &["a", "b"]);
        arguments.and_then(|arguments| Ok((arguments.get::<u8>(0)?, arguments.get::<u8>(1)?)))
    })
    .map(|read| read.expect_err("it does not fit").to_string());
    let said = [missing, surplus, unknown, repeated, wrong];
    assert!(said.iter().all(|said| said.contains(' ')), "{said:?}");
    // A request that its handler cancels and its peer has not is answered with a code of the profile.
    for (profile, code) in [
        (ErrorProfile::Antiphon, -32001),
        (ErrorProfile::WebSocketDraft, -32001),
        (ErrorProfile::Lsp, -32800),
        (ErrorProfile::Mcp, -32603),
    ] {
        let mut config = Config::new();
        (config.dialect.error_profile, config.dialect.cancel_answer) =
            (profile, CancelAnswer::Silent);
        let mut conn: Connection<u64> = Connection::new(config);
        let mut asked = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        let Some(Event::Request(request)) = conn.poll_event(&mut asked) else {
            panic!("it is a request");
        };
        assert!(conn.respond_cancelled(request.token).is_ok());
        let sent = String::from_utf8_lossy(conn.poll_transmit().expect("it is sent"));
        assert!(sent.contains(&format!("{{\"code\":{code},")), "{sent}");
    }
}

fn with_data(data: &str) -> ErrorObject<'_> {
    ErrorObject::invalid_request().with_data(Json::parse_str(data).expect("JSON"))
}

/// An error over a limit without an id fails the one call that can be meant; a reply without an id
/// settles its exchange, if the configuration lets it.
fn answers_that_name_no_call() {
    let over = r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"at most 9 bytes"},"id":null}"#;
    for calls in [1, 2] {
        let mut conn: Connection<u64> = Connection::new(Config::new());
        for call in 0..calls {
            conn.call("m", (), None, call).expect("there is room");
        }
        conn.consume_transmit(usize::MAX);
        let mut input = Input::text(over);
        let event = conn.poll_event(&mut input).expect("it is told");
        in_words(&event);
        assert_eq!(matches!(event, Event::Response(_)), calls == 1);
    }
    for reply in [
        r#"{"jsonrpc":"2.0","error":{"code":429,"message":"limit"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-4.29e2,"message":"limit"}}"#,
        r#"{"jsonrpc":"2.0","error":"limit"}"#,
        r#"{"jsonrpc":"2.0","result":7}"#,
    ] {
        for meaning in [MissingResponseId::SoleExchange, MissingResponseId::Invalid] {
            let mut config = Config::new().for_client_exchange();
            config.dialect.missing_response_id = meaning;
            let mut conn: Connection<u64> = Connection::new(config);
            conn.call("m", (), None, 0).expect("there is room");
            conn.consume_transmit(usize::MAX);
            let mut input = Input::text(reply);
            let event = conn.poll_event(&mut input).expect("it is told");
            in_words(&event);
            let is_settled = meaning == MissingResponseId::SoleExchange;
            assert_eq!(matches!(event, Event::Response(_)), is_settled, "{reply}");
        }
    }
    // What was said is kept, on one line and cut between two characters, wherever they fall.
    for blanks in 0..6 {
        let mut conn: Connection<u64> = Connection::new(Config::new());
        let number = conn.call("m", (), None, 0).expect("there is room").number();
        let long = "\u{20ac}\u{e4} ".repeat(200);
        let between = format!("\n{}", " ".repeat(blanks));
        let text = format!("{{\"jsonrpc\":\"2.0\",{between}\"id\":{number},\"error\":\"{long}\"}}");
        let mut input = Input::text(&text);
        in_words(&conn.poll_event(&mut input).expect("it is told"));
    }
    let bare = antiphon::OwnedInvalid::from(antiphon::InvalidReason::NoOutcome);
    assert!(bare.text().is_empty() && !bare.to_string().is_empty());
}

/// A format that knows nothing of raw JSON refuses it, and no key is raw JSON. The names that
/// serde_json uses for itself are refused as keys, at any depth, and allowed as values.
fn raw_json_elsewhere() {
    struct Printed<'a>(Json<'a>);
    impl fmt::Display for Printed<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }
    struct Keyed<K>(K);
    impl<K: Serialize> Serialize for Keyed<K> {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_map([(&self.0, 1)])
        }
    }
    use fmt::Write as _;
    assert!(write!(String::new(), "{}", Printed(Json::NULL)).is_err());
    assert!(serde_json::to_string(&Keyed(Json::NULL)).is_err());
    let key = "$serde_json::private::Number";
    let refused = OwnedJson::from_value(&Keyed(key)).expect_err("it is a secret key");
    assert!(refused.to_string().contains("reserved key"), "{refused}");
    let text = format!("{{\"a\":{{\"{key}\":\"1\"}},\"b\":{{\"b\":\"{key}\"}}}}");
    let json = Json::parse_str(&text).expect("it is JSON");
    for (member, is_secret) in [("a", true), ("b", false)] {
        let value = json.get(member).expect("it is there");
        let decoded = value.decode::<std::collections::BTreeMap<String, String>>();
        assert_eq!(decoded.is_err(), is_secret, "{value}");
        let kept = serde_json::from_str::<OwnedJson>(value.as_str());
        assert_eq!(kept.is_err(), is_secret, "{value}");
        let passed_on = value.decode::<OwnedJson>();
        assert_eq!(passed_on.is_err(), is_secret, "{value}");
    }
    assert!(serde_json::from_str::<OwnedJson>("[1,").is_err());
    let deep = ["[".repeat(200), "]".repeat(200)].concat();
    assert!(serde_json::from_str::<OwnedJson>(&deep).is_err());
    let tree = serde_json::json!({"b": [1.5]});
    let kept = serde_json::from_value::<OwnedJson>(tree).expect("a tree is JSON");
    assert_eq!(kept.as_json().as_str(), r#"{"b":[1.5]}"#);
    values_that_do_not_fit();
    frames_cut_short();
}

/// Whatever part of a frame stands at the end of the input, the connection tells that it has closed.
fn frames_cut_short() {
    let framings = [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Detect,
    ];
    for framing in framings {
        for text in [
            &b"{"[..],
            b"Content-Length: 9\r\n\r\n{",
            b"Content-Length",
            b"\xef",
        ] {
            let mut conn: Connection<u64> = Connection::new(Config::new().framing(framing));
            let mut input = Input::stream(text);
            let mut is_told = false;
            for _ in 0..2 {
                while let Some(event) = conn.poll_event(&mut input) {
                    is_told |= matches!(event, Event::Closed(_));
                }
                conn.handle_eof();
            }
            while let Some(event) = conn.poll_event(&mut input) {
                is_told |= matches!(event, Event::Closed(_));
            }
            assert!(is_told, "{framing:?}");
            assert_eq!(conn.poll_batch_items(), None);
        }
    }
    // A connection whose tag has no values cannot call. It drains and closes all the same.
    let mut mute: Connection<Infallible> = Connection::new(Config::new());
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n");
    let Some(Event::Request(request)) = mute.poll_event(&mut input) else {
        panic!("it is a request");
    };
    let token = request.token;
    mute.drain();
    assert!(mute.poll_event(&mut input).is_none());
    mute.respond(token, ()).expect("it is open");
    mute.consume_transmit(usize::MAX);
    let told = mute.poll_event(&mut input);
    assert!(matches!(told, Some(Event::Closed(_))), "{told:?}");
}

/// What is said of a value that does not fit its type does not quote the value.
fn values_that_do_not_fit() {
    /// Refuses each text, with the text.
    struct Refused;
    impl<'de> Deserialize<'de> for Refused {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            Err(D::Error::custom(String::deserialize(from)?))
        }
    }
    /// Has a field `a`, and refuses it.
    #[derive(Debug)]
    struct Fielded;
    impl<'de> Deserialize<'de> for Fielded {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            struct Fields;
            impl<'de> Visitor<'de> for Fields {
                type Value = Fielded;
                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a field")
                }
                fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<Fielded, A::Error> {
                    Err(A::Error::custom("unknown field `secret`, expected `a`"))
                }
            }
            from.deserialize_struct("Fielded", &["a"], Fields)
        }
    }
    for message in [
        "secret",
        "invalid type: secret, expected f64",
        "invalid type: string \"secret",
        "invalid value: string \"sec\\\"ret\", expected f64",
        "invalid value: integer `secret",
        "invalid value: integer `secret`, expected u8",
        "unknown field `secret`, expected `a` or `b`",
        "unknown variant `secret`, there are no variants",
        "missing field `a`",
    ] {
        let text = OwnedJson::from_value(message).expect("a text is JSON");
        let error = text.as_json().decode::<Refused>().err();
        let error = error.expect("every text is refused");
        assert!(!error.detail().contains("secret"), "{}", error.detail());
    }
    let params = Json::parse_str("[1]").expect("it is JSON");
    let error = antiphon::Params::<Fielded>::decode(Some(params)).expect_err("it is refused");
    assert!(!error.detail().contains("secret"), "{}", error.detail());
}

/// After `restart_frame_time` a message that is half read has its whole time again.
fn a_pause_while_a_message_comes() {
    let mut config = Config::new();
    config.timeouts.message_timeout = Some(Duration::from_millis(5));
    let mut conn: Connection<u64> = Connection::new(config);
    assert!(conn.poll_event(&mut Input::stream(b"{")).is_none());
    conn.handle_time(Instant::from_millis(9));
    conn.restart_frame_time();
    for (now, is_over) in [(9, false), (13, false), (14, true)] {
        conn.handle_timeout(Instant::from_millis(now));
        let event = conn.poll_event(&mut Input::stream(b"{"));
        let why = Closed::Failed(ConnectionError::MessageTimedOut);
        assert_eq!(event.is_some(), is_over, "at {now}");
        assert!(event.is_none_or(|event| matches!(event, Event::Closed(closed) if closed == why)));
    }
}

fn id(text: &str) -> Id<'_> {
    Id::new(Json::parse_str(text).expect("JSON")).expect("a scalar")
}

/// A connection that drains refuses requests with the code of its profile.
fn draining() {
    let mut config = Config::new();
    config.dialect.error_profile = ErrorProfile::WebSocketDraft;
    let mut conn: Connection<u64> = Connection::new(config);
    conn.call("m", (), None, 0).expect("it is the first");
    conn.drain();
    let mut asked = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    let Some(Event::Refused(refused)) = conn.poll_event(&mut asked) else {
        panic!("it is refused");
    };
    assert_eq!(refused.cause, RefusedCause::Draining);
    assert_eq!(
        refused.answered,
        Some(antiphon::codes::websocket_draft::SERVICE_UNAVAILABLE)
    );
}

/// Integers of every size in the spelling of a float, and arrays of them that do not fit.
fn whole_floats() {
    let json = |text| Json::parse_str(text).expect("it is JSON");
    assert_eq!(json("[-1.0]").decode::<(i64,)>().ok(), Some((-1,)));
    let large = 10_i128.pow(30);
    assert_eq!(json("[-1e30]").decode::<(i128,)>().ok(), Some((-large,)));
    let large = 10_u128.pow(30);
    assert_eq!(json("[1e30]").decode::<(u128,)>().ok(), Some((large,)));
    assert!(json("[-3e38]").decode::<(i128,)>().is_err());
    assert!(json("[1.0,2]").decode::<(u8,)>().is_err());
}

/// Numbers too large to be worked out are the same when they are written the same.
fn huge_exponents() {
    // The last digit of the second exponent makes it larger than any number of 64 bits with a sign.
    for exponent in ["9".repeat(45).as_str(), "9223372036854775808"] {
        let [one, other] = ["1", "2"].map(|digit| format!("{digit}e{exponent}"));
        assert_eq!(id(&one), id(&one.clone()));
        assert_ne!(id(&one), id(&other));
        assert_ne!(id(&one), id("1"));
    }
    // The last digit makes it larger than any number of 64 bits.
    let [largest, over] = ["18446744073709551615", "18446744073709551616"];
    assert_ne!(id(largest), id(over));
    let error = format!(r#"{{"jsonrpc":"2.0","error":{{"code":{over},"message":""}},"id":1}}"#);
    let mut conn = Connection::new(Config::new());
    assert!(conn.call("any", (), None, ()).is_ok());
    let event = conn.poll_event(&mut Input::message(error.as_bytes()));
    assert!(matches!(event, Some(Event::Response(_))), "{event:?}");
}

/// A frame that is begun and not finished ends the connection in time.
fn half_a_frame() {
    let mut config = Config::new();
    config.timeouts.message_timeout = Some(Duration::from_millis(5));
    let mut conn: Connection<u64> = Connection::new(config);
    assert!(conn.poll_event(&mut Input::stream(b"{")).is_none());
    conn.handle_timeout(Instant::from_millis(5));
    let event = conn.poll_event(&mut Input::stream(b"{"));
    let why = Closed::Failed(ConnectionError::MessageTimedOut);
    assert!(matches!(event, Some(Event::Closed(closed)) if closed == why));
}

/// An input with less of a batch than was shown before gives no event. Another message in the place
/// of one that was half told ends that one.
fn shown_otherwise() {
    let mut config = Config::new();
    config.dialect.null_id_error = NullIdError::FailAll;
    let mut conn: Connection<u64> = Connection::new(config);
    let batch = br#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]
"#;
    assert!(conn.poll_event(&mut Input::stream(batch)).is_some());
    assert!(conn.poll_event(&mut Input::stream(&batch[..9])).is_none());
    assert!(conn.poll_event(&mut Input::stream(batch)).is_some());
    for tag in 0..3 {
        conn.call("m", (), None, tag).expect("there is room");
        assert!(conn.poll_transmit().is_some());
    }
    let error = br#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}
"#;
    let event = conn.poll_event(&mut Input::stream(error));
    assert!(matches!(event, Some(Event::Response(_))));
    let other = format!(
        "{}\n",
        r#"{"jsonrpc":"2.0","method":"c","params":["longer than the error before it"]}"#
    );
    let event = conn.poll_event(&mut Input::stream(other.as_bytes()));
    assert!(matches!(event, Some(Event::Notification(told)) if told.method == "c"));
    assert_eq!(conn.calls_open(), 2);
}

/// An exchange that ends without its answer says that it is missing.
/// The server of an exchange that streams tells something until it has answered, and its version has a name.
fn an_exchange_that_streams() {
    for version in ["2025-11-25", "2026-07-28"] {
        let revision = McpRevision::of(version).expect("a revision");
        assert_eq!(revision.as_str(), version);
    }
    assert_eq!(McpRevision::of("1999-01-01"), None);
    let mut conn: Connection = Connection::new(Config::strict().for_streaming_exchange());
    assert_eq!(conn.notify("n", ()), Err(SendError::NoPush));
    let mut input = Input::message(br#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    let asked = match conn.poll_event(&mut input) {
        Some(Event::Request(request)) => request.token,
        other => panic!("{other:?}"),
    };
    conn.notify("n", ()).expect("it streams");
    conn.respond(asked, &true).expect("an answer");
    assert_eq!(conn.notify("n", ()), Err(SendError::NoPush));
}

fn an_exchange_without_an_answer() {
    let config = Config::new().for_client_exchange();
    assert_eq!(
        Framer::new(config.framing, 10, 10).framing(),
        Framing::Messages
    );
    assert!(config.max_memory_bytes() > 0);
    let mut conn: Connection<u64> = Connection::new(config);
    conn.call("m", (), None, 0).expect("it is the first");
    assert!(conn.take_transmit(&mut Vec::new()));
    conn.handle_eof();
    let Some(Event::Response(settled)) = conn.poll_event(&mut Input::none()) else {
        panic!("it settles");
    };
    let owned = settled.outcome.clone().into_owned();
    assert!(matches!(settled.outcome, Outcome::Missing), "{owned:?}");
}

/// Call numbers run out, and are spelled in full at every length; a prefix of ids is cut to at most
/// 64 bytes, between two characters.
fn the_last_numbers() {
    let mut config = Config::new();
    config.first_call = (1 << 53) - 2;
    let mut conn: Connection<u64> = Connection::new(config);
    let last = id("9007199254740991");
    let named = conn
        .call_with_id(last, "m", (), None, 0)
        .expect("it is free");
    let refused = conn.call("m", (), None, 1).expect_err("no number is left");
    assert_eq!(refused.error, SendError::IdsUsedUp);
    conn.cancel(named);
    let refused = conn.set_deadline(named, None).expect_err("it is over");
    assert!(format!("{refused}").contains("not open"));
    // From the last number before ids are written in another way, to the first two after it.
    for most in [9, 9_999_999, 99_999_999, 9_999_999_999_999] {
        config.first_call = most;
        let mut conn: Connection<u64> = Connection::new(config);
        for number in most..most + 3 {
            conn.call("m", &[1], None, 0).expect("numbers are left");
            let sent = conn.poll_transmit().expect("it is sent").to_vec();
            let expected = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":[1],\"id\":{number}}}\n"
            );
            assert_eq!(String::from_utf8_lossy(&sent), expected);
            conn.consume_transmit(sent.len());
        }
    }
    let digits = "012345678901234567890123456789012345678901234567890123456789";
    let cut: [(&'static str, &str); 2] = [
        (
            "012345678901234567890123456789012345678901234567890123456789abcd\u{e9}",
            "abcd1\"",
        ),
        (
            "012345678901234567890123456789012345678901234567890123456789abc\u{e9}",
            "abc1\"",
        ),
    ];
    for (prefix, end) in cut {
        config.first_call = 1;
        config.dialect.id_scheme = IdScheme::Prefixed(prefix);
        let mut conn: Connection<u64> = Connection::new(config);
        conn.call("m", (), None, 0).expect("it is the first");
        let sent = conn.poll_transmit().expect("it is sent");
        let sent = std::str::from_utf8(sent).expect("text");
        assert!(sent.contains(&format!("{digits}{end}")), "{sent}");
    }
}

/// What has no JSON form is refused wherever it is given, and a connection sends nothing of it.
fn unwritable() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no room"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let no_key = std::collections::BTreeMap::from([((), ())]);
    assert!(antiphon::encode_response(id("1"), &no_key).is_err());
    assert!(
        antiphon::OwnedError::new(1, "m")
            .with_data(&no_key)
            .is_err()
    );
    assert_eq!(ErrorObject::of(7).message(), "Error");
    let json = Json::parse_str("[1]").expect("JSON");
    assert!(serde_json::to_writer(Full, &json).is_err());
    let mut room = [0; 2];
    assert!(serde_json::to_writer(&mut room[..], &(7, json)).is_err());
    assert_eq!(room, *b"[7", "it failed within the value");
    struct Unshown;
    impl fmt::Display for Unshown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("half of it")?;
            Err(fmt::Error)
        }
    }
    impl Serialize for Unshown {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_str(self)
        }
    }
    let mut conn: Connection<u64> = Connection::new(Config::new());
    let refused = conn.notify("m", &[Unshown]);
    assert!(matches!(refused, Err(SendError::Encode(_))));
    assert_eq!(conn.poll_transmit(), None);
    assert!(serde_json::to_string(&std::collections::BTreeMap::from([(1, json)])).is_ok());
}

/// A call can be cancelled, and a request answered, only on the connection that it belongs to: not
/// even on another one with the same number.
fn another_connections() {
    let mut config = Config::new();
    let mut made: Connection<u64> = Connection::new(config);
    let mut mute: Connection<Infallible> = Connection::new(config);
    let call = made.call("m", (), None, 7).expect("it is the first");
    assert_eq!(mute.ask_cancel(call), Err(SendError::NotOpen));
    let mut asked = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    let Some(Event::Request(request)) = made.poll_event(&mut asked) else {
        panic!("it is a request");
    };
    let back = mute.respond(request.token, ()).expect_err("it is not here");
    assert_eq!(back.error, SendError::NotOpen);
    assert!(made.respond(back.value, ()).is_ok());
    config.connection = 1;
    let mut other: Connection<u64> = Connection::new(config);
    other.call("m", (), None, 8).expect("it is the first");
    assert_eq!(other.cancel(call), None);
    assert_eq!((other.calls_open(), made.cancel(call)), (1, Some(7)));
}

/// An error for all calls ends those that were open when it came, and no later one.
fn a_call_made_while_an_error_is_told() {
    let mut config = Config::new();
    config.dialect.null_id_error = NullIdError::FailAll;
    let mut conn: Connection<u64> = Connection::new(config);
    for tag in 0..40 {
        let call = conn.call("m", (), None, tag).expect("there is room");
        assert!(conn.take_transmit(&mut Vec::new()));
        if tag < 39 {
            assert_eq!(conn.cancel(call), Some(tag));
        }
    }
    let error = br#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}
"#;
    let mut input = Input::stream(error);
    let event = conn.poll_event(&mut input);
    assert!(matches!(event, Some(Event::Response(told)) if told.tag == 39));
    conn.call("m", (), None, 40).expect("there is room");
    assert!(conn.poll_event(&mut input).is_none());
    assert_eq!((input.consumed(), conn.calls_open()), (error.len(), 1));
}

/// Braces that are escaped make a batch too large only when it is sent. Nothing of it is left.
fn braces_that_make_a_batch_too_large() {
    let mut config = Config::new();
    (config.dialect.escape_braces, config.limits.max_outbox_bytes) = (true, 100);
    let mut conn: Connection<u64> = Connection::new(config);
    let mut batch = conn.batch(None);
    batch
        .call::<u8>("m", &["{{{{{{{{{{"], 0)
        .expect("there is room");
    assert_eq!(batch.send(), Err(SendError::TooLarge));
    assert_eq!((conn.calls_open(), conn.poll_transmit()), (0, None));
    let call = conn.call("m", (), None, 0).expect("there is room");
    assert_eq!(call.number(), 1);
}

/// A stream that ends within a byte-order mark was cut short, even if its last input is empty.
fn a_mark_cut_short() {
    let mut framer = Framer::new(Framing::Detect, 10, 10);
    let begun = framer.cut(b"\xEF\xBB", false);
    assert_eq!(begun, Ok(Cut::Incomplete { taken: 0 }));
    let ended = framer.cut(&[], true);
    assert_eq!(ended, Err(FramingError::Truncated { offset: 0 }));
}

/// Settings known when the program is built, and a tag without values, leave code out and change nothing.
fn known_when_built() {
    struct Lines;
    impl FixedConfig for Lines {
        const CONFIG: Config = few(Framing::Newline);
    }
    struct Head;
    impl FixedConfig for Head {
        const CONFIG: Config = few(Framing::ContentLength);
    }
    struct Any;
    impl FixedConfig for Any {
        const CONFIG: Config = few(Framing::Detect);
    }
    const fn few(framing: Framing) -> Config {
        let mut config = Config::new();
        (config.framing, config.dialect.batches) = (framing, false);
        // Two connections that are compared have one number.
        config.connection = 1;
        config.dialect.cancel_receive = CancelStyle::None;
        config
    }
    let messages = [
        r#"{"jsonrpc":"2.0","method":"m","params":[1.0],"id":1}"#,
        r#"{"jsonrpc":"2.0","method":"m"}"#,
        r#"[{"jsonrpc":"2.0","method":"m","id":2}]"#,
        r#"{"jsonrpc":"2.0","result":1,"id":1}"#,
        r#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}"#,
        r#"{"jsonrpc":"2.0","method":7,"id":3}"#,
        "nope",
    ];
    let lines = messages.map(|message| format!("{message}\n")).concat();
    let head = |message: &str| format!("Content-Length: {}\r\n\r\n{message}", message.len());
    let heads = messages.map(head).concat();
    same(Lines, &lines);
    same(Head, &heads);
    same(Any, &lines);
    same(Any, &heads);
}

fn same<F: FixedConfig>(fixed: F, stream: &str) {
    let free = heard::<(), _>(Connection::new(F::CONFIG), stream);
    assert_eq!(
        heard::<Infallible, _>(Connection::fixed(fixed), stream),
        free
    );
    assert_eq!(free.0.len(), 8, "seven messages and the end");
}

/// What is told of a stream and its end, and what is written.
fn heard<T: fmt::Debug, S: Settings>(
    mut conn: Connection<T, S>,
    stream: &str,
) -> (Vec<String>, Vec<u8>) {
    let (mut told, mut written) = (Vec::new(), Vec::new());
    let mut input = Input::stream(stream.as_bytes());
    conn.handle_timeout(Instant::from_millis(1));
    while let Some(event) = conn.poll_event(&mut input) {
        told.push(format!("{event:?}"));
        if let Event::Request(request) = event {
            let given = conn.respond(request.token, request.params);
            assert!(given.is_ok(), "{given:?}");
        }
    }
    while conn.take_transmit(&mut written) {}
    conn.drain();
    while let Some(event) = conn.poll_event(&mut Input::none()) {
        told.push(format!("{event:?}"));
    }
    assert_eq!((conn.calls_open(), conn.is_closed()), (0, true));
    (told, written)
}

/// Limits may be as large as numbers are. The announced bound is then the largest number.
fn limits_without_end() {
    let mut config = Config::new();
    config.limits.max_open_calls = usize::MAX;
    config.limits.max_id_bytes = usize::MAX;
    config.limits.soft_max_outbox_bytes = usize::MAX;
    config.limits.max_outbox_bytes = usize::MAX;
    assert_eq!(config.max_memory_bytes(), usize::MAX);
    let mut conn: Connection<u64> = Connection::new(config);
    conn.call("m", (), None, 7).expect("it is the first");
    assert!(conn.take_transmit(&mut Vec::new()));
    let mut answer = Input::text(r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    let event = conn.poll_event(&mut answer);
    assert!(matches!(event, Some(Event::Response(told)) if told.tag == 7));
}

/// A large text is the same bytes whether `poll_transmit` shows it or `take_transmit` takes it.
fn large_texts_in_place() {
    let request = r#"{"jsonrpc":"2.0","method":"m","params":[],"id":1}"#;
    let request_v1 = r#"{"method":"m","params":[],"id":1}"#;
    let text = format!("[\"{}\"]", "x".repeat(9000));
    let text = Json::parse_str(&text).expect("it is JSON");
    for (config, request) in [(Config::lsp(), request), (Config::v1(), request_v1)] {
        let mut conns = [Connection::<u64>::new(config), Connection::new(config)];
        let mut written = [Vec::new(), Vec::new()];
        for step in 0..4 {
            for conn in &mut conns {
                let is_sent = match step {
                    0 => conn.notify("small", ()).is_ok(),
                    1 => conn.notify("m", text).is_ok(),
                    2 => conn.call("m", Some(text), None, 0).is_ok(),
                    _ => match conn.poll_event(&mut Input::text(request)) {
                        Some(Event::Request(asked)) => conn.respond(asked.token, text).is_ok(),
                        other => panic!("{other:?} is no request"),
                    },
                };
                assert!(is_sent);
            }
            let [in_place, taken] = &mut conns;
            written[0].extend_from_slice(in_place.poll_transmit().expect("it is there"));
            in_place.consume_transmit(usize::MAX);
            assert!(taken.take_transmit(&mut written[1]));
        }
        assert_eq!(written[0], written[1]);
    }
}
