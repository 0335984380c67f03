//! Tokens, call ids and keys: each identifies one call or request on one connection, once.

use antiphon::{
    CloseReason, Config, Connection, ErrorObject, Event, Input, OwnedError, ReplyToken, SendError,
    UnmatchedKind,
};

use crate::{connection, drained, request, written};

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
    assert!(
        matches!(event, Some(Event::UnmatchedResponse(unmatched)) if matches!(unmatched.kind, UnmatchedKind::Cancel))
    );
    let mut input = Input::stream(cancel);
    let event = first.poll_event(&mut input);
    assert!(matches!(event, Some(Event::Cancelled(cancelled)) if cancelled.key == token.key()));
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
    // The request is cancelled, and the end is told.
    assert_eq!(drained(&mut conn).len(), 2);
    assert!(conn.is_closed());
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
