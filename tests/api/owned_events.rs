//! Owned events have the same content as the borrowed ones, and texts for people say what happened.
//!
//! Owned events keep several texts in one piece of memory, so a mistake by one byte would give one
//! of them a part of another. They are tested with texts of several lengths, and with empty ones.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use antiphon::{
    Closed, Config, Connection, ConnectionError, ErrorObject, Event, Framing, FramingError, Id,
    IdScheme, Input, InvalidReason, Json, MethodName, Outcome, OwnedError, OwnedId, OwnedOutcome,
    OwnedRequest, SendError,
};

fn each_event(config: Config, input: &str, mut look: impl FnMut(Event<'_, ()>)) {
    let mut conn: Connection = Connection::new(config);
    let mut input = Input::stream(input.as_bytes());
    while let Some(event) = conn.poll_event(&mut input) {
        look(event);
    }
}

/// A request that is longer than those of the next test.
fn longer_request() -> OwnedRequest {
    let params = format!("{:?}", vec![7; 30]);
    let text = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"other\",\"params\":{params},\"id\":\"its own\"}}\n"
    );
    let mut owned = None;
    each_event(Config::new(), &text, |event| {
        if let Event::Request(request) = event {
            owned = Some(request.into_owned());
        }
    });
    owned.expect("it is a request")
}

#[test]
fn an_owned_request_and_an_owned_notification_say_what_came_in() {
    for method in ["m", "method", "m\u{e9}thode"] {
        for params in [None, Some("[]"), Some("[1,2]"), Some("{\"a\": [true]}")] {
            let member = params.map_or(String::new(), |params| format!(",\"params\":{params}"));
            for id in ["1", "\"text\"", "1.50", "\"\""] {
                let text = format!(
                    "{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{member},\"id\":{id}}}\n"
                );
                let mut seen = 0;
                each_event(Config::new(), &text, |event| {
                    let Event::Request(request) = event else {
                        panic!("{event:?}");
                    };
                    let origin = request.origin;
                    let owned = if method == "m" {
                        request.into_owned()
                    } else {
                        // In the place of another one, of which nothing may be left.
                        let mut place = Some(longer_request());
                        request.put_into(&mut place);
                        place.expect("it was put in")
                    };
                    assert_eq!((owned.method(), owned.id().text()), (method, id));
                    assert_eq!(owned.params().map(Json::as_str), params);
                    assert_eq!(owned.origin(), origin);
                    let shown = format!("{owned:?}");
                    assert!(shown.contains(method), "{shown}");
                    let key = owned.key();
                    let (token, told) = owned.split();
                    assert_eq!(token.key(), key);
                    assert_eq!((told.method(), told.origin()), (method, origin));
                    assert_eq!(told.params().map(Json::as_str), params);
                    seen += 1;
                });
                assert_eq!(seen, 1);
            }
            let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"{member}}}\n");
            each_event(Config::new(), &text, |event| {
                let Event::Notification(told) = event else {
                    panic!("{event:?}");
                };
                let owned = told.into_owned();
                assert_eq!(owned.method(), method);
                assert_eq!(owned.params().map(Json::as_str), params);
            });
        }
    }
}

#[test]
fn an_owned_outcome_says_what_came_in() {
    let mut conn: Connection<u8> = Connection::new(Config::new());
    for tag in 1..=3 {
        conn.call("m", (), None, tag).expect("there is room");
    }
    let text = "{\"jsonrpc\":\"2.0\",\"result\":[7],\"id\":1}\n\
        {\"jsonrpc\":\"2.0\",\"error\":{\"code\":-5,\"message\":\"no\",\"data\":{\"a\":1}},\"id\":2}\n\
        {\"jsonrpc\":\"2.0\",\"result\":1,\"error\":1,\"id\":3}\n";
    let mut input = Input::stream(text.as_bytes());
    let mut seen = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        let Event::Response(response) = event else {
            panic!("{event:?}");
        };
        seen.push((response.tag, response.outcome.is_ok()));
        match (response.tag, response.outcome.into_owned()) {
            (1, OwnedOutcome::Ok(result)) => assert_eq!(result.as_json().as_str(), "[7]"),
            (2, OwnedOutcome::Err(error)) => {
                assert_eq!((error.code(), error.message()), (-5, "no"));
                assert_eq!(error.as_error().data().map(Json::as_str), Some("{\"a\":1}"));
                assert_eq!(error.to_string(), "no (-5)");
            }
            (3, OwnedOutcome::Invalid(reason)) => assert_eq!(reason, InvalidReason::BothOutcomes),
            (tag, outcome) => panic!("{tag}: {outcome:?}"),
        }
    }
    assert_eq!(seen, [(1, true), (2, false), (3, false)]);
    assert!(!Outcome::TimedOut.is_ok());
}

#[test]
fn an_owned_id_equals_and_hashes_as_the_id_does() {
    let ids = [
        "1",
        "1.0",
        "10e-1",
        "\"1\"",
        "\"\\u0031\"",
        "2",
        "null",
        "\"\"",
        "\"é\"",
    ];
    let class = |text: &str| match text {
        "1" | "1.0" | "10e-1" => "one",
        "\"1\"" | "\"\\u0031\"" => "text one",
        _ => "alone",
    };
    let hashes = RandomState::new();
    let id =
        |text: &'static str| Id::new(Json::parse(text.as_bytes()).expect("JSON")).expect("an id");
    for ours in ids {
        assert_eq!(id(ours).to_string(), ours);
        assert_eq!(id(ours).into_owned().to_string(), ours);
        assert_eq!(
            format!("{:?}", id(ours)),
            format!("{:?}", id(ours).into_owned())
        );
        assert!(format!("{:?}", id(ours)).contains(ours));
        for theirs in ids {
            let is_same = ours == theirs || class(ours) == class(theirs) && class(ours) != "alone";
            assert_eq!(id(ours) == id(theirs), is_same, "{ours} {theirs}");
            let owned = (id(ours).into_owned(), id(theirs).into_owned());
            assert_eq!(owned.0 == owned.1, is_same, "{ours} {theirs}");
            if is_same {
                assert_eq!(
                    hashes.hash_one(id(ours)),
                    hashes.hash_one(&owned.1),
                    "{ours} {theirs}"
                );
            }
        }
    }
    // A hash that tells nothing apart would make every map a list.
    let apart: BTreeSet<u64> = (0..100u64)
        .map(|number| hashes.hash_one(OwnedId::from(number)))
        .collect();
    assert!(apart.len() > 90, "{}", apart.len());
    assert_eq!(OwnedId::from("a\"b").as_id().text(), "\"a\\\"b\"");
    assert_eq!(OwnedId::from(u64::MAX).as_id().as_u64(), Some(u64::MAX));
    assert_eq!(id("\"\\u0031é\"").as_text().as_deref(), Some("1é"));
    assert_eq!(id("\"\\ud800\"").as_text(), None);
    assert_eq!(id("1").as_text(), None);
}

#[test]
fn errors_say_in_words_what_happened_each_in_its_own() {
    let mut words = BTreeSet::new();
    let mut add = |text: String| {
        assert!(text.len() > 8 && !text.ends_with('.'), "{text}");
        assert!(words.insert(text.clone()), "twice: {text}");
    };
    let send = [
        SendError::Closed,
        SendError::Full,
        SendError::TooManyCalls,
        SendError::TooLarge,
        SendError::IdsUsedUp,
        SendError::IdInUse,
        SendError::IdNotAllowed,
        SendError::BlankMethod,
        SendError::ParamsScalar,
        SendError::NotOpen,
        SendError::NoPush,
        SendError::BatchesOff,
        SendError::BatchTooLong,
        SendError::BatchEmpty,
        SendError::ReservedCode,
        SendError::Interceptor,
    ];
    send.iter().for_each(|error| add(error.to_string()));
    let connection = [
        ConnectionError::Truncated,
        ConnectionError::MessageTimedOut,
        ConnectionError::WriteTimedOut,
        ConnectionError::DrainTimedOut,
        ConnectionError::OutboxFull,
        ConnectionError::TooManyUnmatched,
        ConnectionError::TooManyMalformed,
    ];
    connection.iter().for_each(|error| add(error.to_string()));
    let reasons = [
        InvalidReason::NotAnObject,
        InvalidReason::EmptyBatch,
        InvalidReason::BatchesOff,
        InvalidReason::RepeatedMember,
        InvalidReason::Version,
        InvalidReason::Unrecognisable,
        InvalidReason::MethodType,
        InvalidReason::MethodText,
        InvalidReason::ParamsType,
        InvalidReason::ParamsByName,
        InvalidReason::IdType,
        InvalidReason::IdMissing,
        InvalidReason::V1InBatch,
        InvalidReason::NoOutcome,
        InvalidReason::BothOutcomes,
        InvalidReason::ErrorShape,
    ];
    for reason in reasons {
        assert_eq!(reason.to_string(), reason.as_str());
        add(reason.to_string());
    }
    let error = ErrorObject::new(7, "seven");
    assert_eq!(error.to_string(), "seven (7)");
    assert_eq!(OwnedError::new(7, "seven").to_string(), "seven (7)");
    assert_eq!(
        (
            OwnedError::new(7, "seven").code(),
            OwnedError::new(7, "seven").message()
        ),
        (7, "seven")
    );
}

#[test]
fn the_end_of_a_connection_passes_on_the_words_of_its_framing() {
    let mut config = Config::new();
    config.framing = Framing::ContentLength;
    let mut said = Vec::new();
    each_event(config, "Content-Length: x\r\n\r\n", |event| {
        if let Event::Closed(Closed::Failed(error)) = event {
            said.push(error.to_string());
        }
    });
    let error = FramingError::LengthInvalid { offset: 0 };
    assert_eq!(said, [error.to_string()]);
    let error = FramingError::HeaderTooLong { offset: 7 };
    assert_eq!(
        ConnectionError::Framing(error).to_string(),
        error.to_string()
    );
}

#[test]
fn a_refused_call_says_why_and_shows_no_tag() {
    struct Secret;
    let mut conn: Connection<Secret> = Connection::new(Config::new());
    let rejected = conn
        .call(" ", (), None, Secret)
        .expect_err("the method is blank");
    assert_eq!(rejected.to_string(), SendError::BlankMethod.to_string());
    assert_eq!(format!("{rejected:?}"), "Rejected(BlankMethod)");
}

#[test]
fn a_batch_counts_its_entries_and_sends_what_was_added() {
    let mut conn: Connection<u8> = Connection::new(Config::new());
    let mut batch = conn.batch(None);
    assert!(batch.is_empty());
    batch.notify("told", ()).expect("there is room");
    assert!(!batch.is_empty());
    assert_eq!(batch.len(), 1);
    let handles = batch
        .call_all::<u8, _>([("a", &[1], 1), ("b", &[2], 2)])
        .expect("there is room");
    assert_eq!(batch.len(), 3);
    assert!(format!("{batch:?}").contains('3'));
    batch.send().expect("it is not empty");
    let numbers: Vec<u64> = handles
        .iter()
        .map(|handle| handle.call().number())
        .collect();
    assert_eq!(numbers, [1, 2]);
    assert_eq!(format!("{:?}", handles[1]), "Handle(2)");
    let mut sent = Vec::new();
    while let Some(bytes) = conn.poll_transmit() {
        sent.extend_from_slice(bytes);
        let taken = bytes.len();
        conn.consume_transmit(taken);
    }
    let expected = "[{\"jsonrpc\":\"2.0\",\"method\":\"told\"},\
        {\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[1],\"id\":1},\
        {\"jsonrpc\":\"2.0\",\"method\":\"b\",\"params\":[2],\"id\":2}]\n";
    assert_eq!(String::from_utf8(sent).expect("text"), expected);
}

#[test]
fn a_method_name_keeps_its_text_and_knows_the_system_s() {
    for (name, is_system) in [
        ("rpc.discover", true),
        ("rpc.", true),
        ("rpc", false),
        ("Rpc.x", false),
        (" a", false),
    ] {
        let checked = MethodName::new(name).expect("it is not blank");
        assert_eq!((checked.as_str(), checked.is_system()), (name, is_system));
    }
    assert_eq!(["", " ", "\t\n"].map(MethodName::new), [None; 3]);
}

#[test]
fn a_long_prefix_of_ids_is_cut_at_64_bytes_between_two_characters() {
    const LETTERS: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef++";
    const SPLIT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd\u{20ac}++";
    for (prefix, used) in [(LETTERS, 64), (SPLIT, 62)] {
        let mut config = Config::new();
        config.dialect.id_scheme = IdScheme::Prefixed(prefix);
        let mut conn: Connection<u8> = Connection::new(config);
        conn.call("m", (), None, 1).expect("there is room");
        let sent =
            String::from_utf8(conn.poll_transmit().expect("the call").to_vec()).expect("text");
        let id = format!("\"{}1\"", &prefix[..used]);
        assert!(sent.contains(&format!("\"id\":{id}")), "{sent}");
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":{id}}}\n");
        let mut input = Input::stream(answer.as_bytes());
        let event = conn.poll_event(&mut input);
        assert!(
            matches!(&event, Some(Event::Response(response)) if response.tag == 1),
            "{event:?}"
        );
    }
}

#[test]
fn ids_that_hold_different_lone_surrogates_are_different_ids() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    for unit in (0xd800..0xe000_u32).step_by(5) {
        let text = format!("\"a\\u{unit:04x}\"");
        let id = Id::new(Json::parse(text.as_bytes()).expect("JSON")).expect("an id");
        let made = conn.call_with_id(id, "m", (), None, unit);
        made.unwrap_or_else(|rejected| panic!("{text}: {rejected}"));
        while let Some(bytes) = conn.poll_transmit() {
            let taken = bytes.len();
            conn.consume_transmit(taken);
        }
    }
    for unit in (0xd800..0xe000_u32).step_by(5) {
        // The same id in another spelling.
        let answer =
            format!("{{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":\"\\u0061\\u{unit:04X}\"}}\n");
        let mut input = Input::stream(answer.as_bytes());
        let event = conn.poll_event(&mut input);
        assert!(
            matches!(&event, Some(Event::Response(response)) if response.tag == unit),
            "{event:?}"
        );
    }
}

#[test]
fn a_connection_says_how_much_it_has_borne_and_whether_it_wants_more() {
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 100;
    let mut conn: Connection<u8> = Connection::new(config);
    assert!(conn.wants_input());
    let mut feed = |text: &str| {
        let mut input = Input::stream(text.as_bytes());
        while conn.poll_event(&mut input).is_some() {}
        (
            conn.unmatched_responses(),
            conn.malformed(),
            conn.wants_input(),
        )
    };
    assert_eq!(
        feed("{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":7}\n"),
        (1, 0, true)
    );
    assert_eq!(
        feed("{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":8}\n"),
        (2, 0, true)
    );
    // Each is answered with some 80 bytes that nobody takes: after two, more than 100 bytes wait.
    assert_eq!(feed("x\n"), (2, 1, true));
    assert_eq!(feed("y\n"), (2, 2, false));
    // While a call is open, input is wanted all the same: it may be the answer.
    let mut conn: Connection<u8> = Connection::new(config);
    conn.call("m", (), None, 1).expect("there is room");
    let mut input = Input::stream(b"x\ny\nz\n");
    while conn.poll_event(&mut input).is_some() {}
    assert!(conn.wants_input());
    conn.handle_eof();
    while conn.poll_event(&mut input).is_some() {}
    assert!(!conn.wants_input());
}

#[test]
fn equal_texts_hash_alike_however_they_are_spelled_and_however_long() {
    let hashes = RandomState::new();
    for length in 0..40_usize {
        for first_escaped in 0..=length {
            let plain: String = (0..length)
                .map(|at| char::from(b'a' + (at % 26) as u8))
                .collect();
            let escape = |(at, char): (usize, char)| match at < first_escaped {
                true => char.to_string(),
                false => format!("\\u{:04x}", u32::from(char)),
            };
            let escaped: String = plain.chars().enumerate().map(escape).collect();
            let texts = [format!("\"{plain}\""), format!("\"{escaped}\"")];
            let [ours, theirs] = texts
                .each_ref()
                .map(|text| Id::new(Json::parse_str(text).expect("JSON")).expect("an id"));
            assert_eq!(ours, theirs);
            assert_eq!(hashes.hash_one(ours), hashes.hash_one(theirs), "{escaped}");
        }
    }
}

#[test]
fn a_member_between_code_and_message_is_not_taken_for_part_of_the_code() {
    for (error, code) in [
        ("{\"code\":1,\"a\":234,\"message\":\"m\"}", 1),
        ("{\"code\":9,\"a\":\"x\",\"message\":\"m\"}", 9),
        ("{\"code\":-19,\"\":123,\"message\":\"m\"}", -19),
        ("{\"code\":123456789,\"message\":\"m\"}", 123_456_789),
        ("{\"code\":1234567890,\"message\":\"m\"}", 1_234_567_890),
    ] {
        let mut conn: Connection<u8> = Connection::new(Config::new());
        conn.call("m", (), None, 1).expect("there is room");
        let text = format!("{{\"jsonrpc\":\"2.0\",\"error\":{error},\"id\":1}}\n");
        let mut input = Input::stream(text.as_bytes());
        match conn.poll_event(&mut input) {
            Some(Event::Response(response)) => match response.outcome {
                Outcome::Err(error) => assert_eq!((error.code(), error.message()), (code, "m")),
                outcome => panic!("{error}: {outcome:?}"),
            },
            event => panic!("{error}: {event:?}"),
        }
    }
}

#[test]
fn a_request_with_the_longest_id_is_answered_with_the_shortest_answers() {
    // 2048 bytes with its quotes, the limit by default.
    let id = format!("\"{}\"", "i".repeat(2046));
    for is_error in [false, true] {
        let mut conn: Connection<u8> = Connection::new(Config::new());
        let text = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{id}}}\n");
        let mut input = Input::stream(text.as_bytes());
        let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
            panic!("it is a request");
        };
        let answered = match is_error {
            true => conn.respond_err(request.token, &ErrorObject::new(1, "")),
            false => conn.respond(request.token, &1),
        };
        answered.expect("it is open");
        let sent = conn.poll_transmit().expect("the answer").to_vec();
        assert!(
            String::from_utf8(sent)
                .expect("text")
                .ends_with(&format!("\"id\":{id}}}\n"))
        );
    }
}
