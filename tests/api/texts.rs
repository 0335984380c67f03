//! What the core says in words: texts for logs, which quote nothing of the peer unless they say so.

use antiphon::{
    CallId, CloseReason, Closed, Config, Connection, ConnectionError, ErrorObject, ErrorProfile,
    Event, Input, InvalidReason, MalformedCause, Outcome, OwnedInvalid, OwnedOutcome, RefusedCause,
};

use crate::json;

/// How a call ends whose answer has this member.
fn answered(member: &str) -> OwnedOutcome {
    let mut conn: Connection = Connection::new(Config::new());
    conn.call("m", (), None, ()).unwrap();
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1{member}}}\n");
    let mut input = Input::stream(text.as_bytes());
    match conn.poll_event(&mut input) {
        Some(Event::Response(response)) => {
            if let Outcome::Invalid(invalid) = &response.outcome {
                assert_eq!(invalid.to_string(), invalid.reason.to_string());
            }
            response.outcome.into_owned()
        }
        event => panic!("{event:?}"),
    }
}

/// Returns why an answer with this member breaks the rules.
fn invalid(member: &str) -> OwnedInvalid {
    match answered(member) {
        OwnedOutcome::Invalid(invalid) => invalid,
        other => panic!("{other:?}"),
    }
}

// USE-17
#[test]
fn every_end_of_a_call_has_a_text() {
    let error = ErrorObject::internal_error();
    for (outcome, text) in [
        (Outcome::Ok(json("[1]")), "a result of 3 bytes"),
        (Outcome::Err(error), "the error Internal error (-32603)"),
        (Outcome::TimedOut, "no answer in time"),
        (Outcome::Missing, "left out of the answer"),
        (Outcome::Unsent, "not sent"),
        (
            Outcome::Aborted,
            "the connection ended before the answer came",
        ),
    ] {
        assert_eq!(outcome.to_string(), text);
    }
}

// USE-17
#[test]
fn causes_have_texts() {
    let both = InvalidReason::NotAnObject;
    for (cause, text) in [
        (
            MalformedCause::Call(both),
            format!("not a valid call: {both}"),
        ),
        (
            MalformedCause::Response(both),
            format!("not a valid response: {both}"),
        ),
    ] {
        assert_eq!(cause.to_string(), text);
    }
    for (cause, text) in [
        (RefusedCause::Busy, "too many requests are open"),
        (
            RefusedCause::Draining,
            "the connection is draining and takes nothing new",
        ),
        (
            RefusedCause::TooLarge {
                bytes: Some(9),
                max_bytes: 5,
            },
            "the message has 9 bytes, over the limit of 5",
        ),
        (
            RefusedCause::TooLarge {
                bytes: None,
                max_bytes: 5,
            },
            "the message is larger than the limit of 5 bytes",
        ),
        (
            RefusedCause::BatchTooLong { items: 3 },
            "the batch has 3 items, over the limit",
        ),
        (RefusedCause::IdTooLong, "the id is longer than the limit"),
        (
            RefusedCause::MethodTooLong,
            "the method is longer than the limit",
        ),
        (
            RefusedCause::RepeatedId,
            "a request with the same id is open",
        ),
        (RefusedCause::NullId, "the id is null"),
    ] {
        assert_eq!(cause.to_string(), text);
    }
}

#[test]
fn every_end_of_a_connection_has_a_text() {
    for (reason, text) in [
        (CloseReason::Done, "the conversation is over"),
        (CloseReason::GoingAway, "this side is shutting down"),
        (
            CloseReason::PeerMisbehaved,
            "the peer broke the rules once too often",
        ),
        (CloseReason::TransportFailed, "the transport failed"),
        (CloseReason::Other("tired"), "tired"),
    ] {
        assert_eq!(reason.to_string(), text);
        let closed = Closed::Local(reason);
        assert_eq!(closed.to_string(), format!("closed here: {text}"));
    }
    let broken = ConnectionError::OutboxFull;
    assert_eq!(Closed::Failed(broken).to_string(), broken.to_string());
    assert_eq!(
        Closed::EndOfInput.to_string(),
        "the peer ended the connection"
    );
    assert_eq!(Closed::Drained.to_string(), "the connection was drained");
}

// SEC-15
#[test]
fn an_answer_that_breaks_the_rules_is_kept_in_part_and_not_shown_by_debug() {
    let broken = invalid("");
    let reason = broken.reason();
    assert_eq!(broken.text(), r#"{"jsonrpc":"2.0","id":1}"#);
    assert_eq!(broken.to_string(), format!("{reason}: {}", broken.text()));
    let shown = format!("OwnedInvalid {{ reason: {reason:?}, bytes: 24 }}");
    assert_eq!(format!("{broken:?}"), shown);
    assert!(broken == reason && broken != InvalidReason::NotAnObject);
    let bare = OwnedInvalid::from(reason);
    assert_eq!((bare.text(), bare.to_string()), ("", reason.to_string()));
    // It is cut after 256 bytes, or after 255 if a letter of two bytes would be cut in two.
    for before in 0..2 {
        let letters = "\u{e9}".repeat(300);
        let long = invalid(&format!(",\"x\":\"{}{letters}\"", "y".repeat(before)));
        let len = long.text().len();
        assert_eq!(len, 255 + usize::from(len == 256), "{}", long.text());
        assert!(long.text().ends_with('\u{e9}'), "{}", long.text());
    }
}

#[test]
fn codes_are_read_however_they_are_written() {
    for (text, code) in [
        ("9", Some(9)),
        ("-0", Some(0)),
        ("9e1", Some(90)),
        ("99.0", Some(99)),
        ("9.9", None),
        ("9223372036854775807", Some(i64::MAX)),
        ("-9223372036854775808", Some(i64::MIN)),
        ("9999999999999999999", None),
        ("99999999999999999999", None),
    ] {
        let outcome = answered(&format!(",\"error\":{{\"code\":{text},\"message\":\"\"}}"));
        let read = match &outcome {
            OwnedOutcome::Err(error) => Some(error.as_error().code()),
            _ => None,
        };
        assert_eq!(read, code, "{text}");
    }
}

#[test]
fn small_parts_do_what_they_say() {
    let name = CallId::new(7, 5);
    assert_eq!((name.connection(), name.number()), (7, 5));
    let lsp = ErrorProfile::Lsp.not_initialized();
    assert_eq!(
        (lsp.code(), lsp.message()),
        (-32002, "Server not initialized")
    );
    assert_eq!(ErrorProfile::Mcp.not_initialized().code(), -32600);
}
