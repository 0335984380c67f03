//! The getters for drivers: how many requests wait, whether one is next, which id a request has.

use super::*;
use crate::{Input, Json, OwnedError};

const M3: &str = r#"{"jsonrpc":"2.0","method":"m","id":3}"#;

/// How many requests wait, whether one is next, and whether the service is wanted.
fn waiting(session: &Session<u32>) -> (usize, bool, bool) {
    (
        session.requests_waiting(),
        session.is_request_next(),
        session.wants_service(),
    )
}

// SRV-24
#[test]
fn requests_that_wait_are_counted_and_told_from_the_rest() {
    let mut session = idle(Config::new());
    assert!(session.has_opened());
    assert_eq!(waiting(&session), (0, false, false));
    line(&mut session, M1);
    assert_eq!(waiting(&session), (1, true, true));
    line(&mut session, M2);
    line(&mut session, N);
    line(&mut session, M3);
    assert_eq!(waiting(&session), (3, true, true));
    let ticket = request(&mut session);
    // A service that was given work will ask for more, so it need not be woken.
    assert_eq!(waiting(&session), (2, true, false));
    drop(request(&mut session));
    assert_eq!(waiting(&session), (1, false, false));
    let next = session.poll_work(true).map(describe).unwrap();
    assert_eq!(next.0, "notification n");
    assert_eq!(waiting(&session), (1, true, false));
    drop(request(&mut session));
    assert!(session.poll_work(true).is_none());
    session.respond(ticket, &1).unwrap();
    line(&mut session, N);
    assert_eq!(waiting(&session), (0, false, true));
}

// SRV-24
#[test]
fn those_that_came_last_are_refused_first() {
    let mut session = idle(Config::new());
    for text in [M1, M2, N, M3] {
        line(&mut session, text);
    }
    session.refuse_last(2);
    let busy = |id: u8| {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"error\":{{\"code\":-32002,\"message\":\"Server busy\"}},\"id\":{id}}}\n"
        )
    };
    assert_eq!(output(&mut session), busy(3) + &busy(2));
    assert_eq!(waiting(&session), (1, true, true));
    session.refuse_last(9);
    assert_eq!(output(&mut session), busy(1));
    assert_eq!(waiting(&session), (0, false, true));
    let seen = work(&mut session);
    assert_eq!(seen[0], "notification n");
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen[3].ends_with("no capacity: m (id 1) after 0 ms"));
}

// USE-17
#[test]
fn a_shell_reports_what_its_handler_made_of_an_open_request() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    let key = ticket.key();
    let id = session.request_id(key).unwrap();
    assert_eq!(id.to_string(), "1");
    let wrong = Json::parse_str("[]").unwrap().decode::<u8>().unwrap_err();
    session.report_invalid_params(&ticket, wrong);
    session.report_failure(&ticket, OwnedError::new(7, "no"));
    let seen = work(&mut session);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[0].starts_with("report: invalid params: "), "{seen:?}");
    assert!(seen[0].ends_with("m (id 1) after 0 ms"), "{seen:?}");
    let failed = "report: a handler failed: no (7): m (id 1) after 0 ms";
    assert_eq!(seen[1], failed);
    session.respond(ticket, &1).unwrap();
    assert_eq!(session.request_id(key), None);
}

#[test]
fn messages_come_whole_until_nothing_is_read_any_more() {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    let mut session: Session<u32> = Session::new(config.into(), Wire::Messages, at(0));
    assert_eq!(work(&mut session), ["opened"]);
    session.handle_message(Input::message(N.as_bytes()));
    assert_eq!(work(&mut session), ["notification n"]);
    session.handle_message(Input::oversize(1 << 40));
    let refused = r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"Request too large, limit: 1048576"},"id":null}"#;
    assert_eq!(output(&mut session), refused);
    work(&mut session);
    session.close(CloseReason::Done);
    session.handle_message(Input::message(N.as_bytes()));
    assert!(work(&mut session).is_empty());
}

// SEC-15
#[test]
fn what_a_layer_says_is_shown_without_its_text() {
    let mut handshake = Handshake::new();
    handshake.target = Some("/?token=secret".into());
    handshake.headers = Vec::from([("authorization".into(), b"secret".to_vec())]);
    handshake.subprotocol = Some("jsonrpc".into());
    let shown = r#"Handshake { headers: 1, subprotocol: Some("jsonrpc"), .. }"#;
    assert_eq!(format!("{handshake:?}"), shown);
    let opened = format!("Opened({shown})");
    for (event, shown) in [
        (LayerEvent::Opened(handshake), &*opened),
        (LayerEvent::Message("secret".into()), "Message(6 bytes)"),
        (LayerEvent::Oversize(9), "Oversize(9)"),
        (LayerEvent::Notify("pong"), "Notify(\"pong\")"),
        (LayerEvent::Ended(LayerEnd::Local), "Ended(Local)"),
    ] {
        assert_eq!(format!("{event:?}"), shown);
    }
}

// USE-02: only a peer that has to read first is kept from sending more.
#[test]
fn requests_that_wait_for_a_place_do_not_keep_the_peer_from_sending() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, M2);
    assert!(session.poll_work(false).is_none());
    assert!(session.wants_input());
    let _ticket = request(&mut session);
    assert!(session.wants_input());
}
