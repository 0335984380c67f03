//! Answers by handlers, in place of handlers, and after a cancel.

use super::*;

#[test]
fn a_silent_cancel_makes_an_answer_right_and_unsaid() {
    let mut session = idle(Config::mcp(McpRevision::V2025_06_18));
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    assert_eq!(work(&mut session), ["cancelled"]);
    assert_eq!(session.respond(ticket, &1), Ok(()));
    assert_eq!(output(&mut session), "");
}

// USE-17 SRV-26
#[test]
fn a_handler_that_gives_no_answer_is_answered_for_and_reported() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.handle_time(at(1500));
    session.abandon(ticket);
    assert!(output(&mut session).contains("-32603"));
    assert_eq!(
        work(&mut session),
        ["report: a handler gave no answer: m (id 1) after 1500 ms"]
    );
    line(&mut session, M2);
    let ticket = request(&mut session);
    session.handle_panic(Some(ticket), "");
    session.handle_panic(None, "");
    assert!(output(&mut session).contains("-32603"));
    assert_eq!(
        work(&mut session),
        [
            "report: the service panicked: m (id 2) after 0 ms",
            "report: the service panicked"
        ]
    );
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.refuse(ticket);
    assert!(output(&mut session).contains("-32002"));
    let seen = work(&mut session);
    assert!(
        seen[0].ends_with("no capacity: m (id 1) after 0 ms"),
        "{seen:?}"
    );
}

#[test]
fn a_result_that_is_refused_is_answered_internal_error() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    // A map whose keys are pairs has no JSON form.
    let keys = alloc::collections::BTreeMap::from([((1, 2), 3)]);
    let refused = session.respond(ticket, &keys);
    assert!(matches!(refused, Err(SendError::Encode(_))), "{refused:?}");
    assert!(output(&mut session).contains("-32603"));
    assert!(work(&mut session)[0].starts_with("report: an answer could not be sent"));
}

#[test]
fn an_answer_of_an_error_and_one_of_no_such_method() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, M2);
    let (one, two) = (request(&mut session), request(&mut session));
    let error = ErrorObject::invalid_params();
    session.respond_err(one, &error).unwrap();
    session.respond_unknown_method(two, "m").unwrap();
    let written = output(&mut session);
    assert!(written.contains("-32602") && written.contains("-32601"));
}

#[test]
fn a_key_is_forgotten_once_its_request_is_answered() {
    let mut session = idle(lsp_cancels());
    for _ in 0..3 {
        line(&mut session, M1);
        let ticket = request(&mut session);
        let key: RequestKey = ticket.key();
        line(&mut session, CANCEL_1);
        assert!(session.is_cancelled(key));
        session.respond(ticket, &1).unwrap();
        assert!(!session.is_cancelled(key));
        assert!(session.cancelled.is_empty());
    }
    // `request` has passed over the first two cancels.
    assert_eq!(work(&mut session), ["cancelled"]);
}

#[test]
fn an_answer_that_came_too_late_is_an_error_and_one_that_is_unwanted_is_none() {
    let mut session = idle(Config::mcp(McpRevision::V2025_06_18));
    line(&mut session, M1);
    line(&mut session, M2);
    let (one, two) = (request(&mut session), request(&mut session));
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    // A write that has not ended keeps the session from being over.
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.close(CloseReason::Done);
    // After a close no answer can be sent, so even one that the dialect would not send is an error.
    assert_eq!(session.respond(one, &1), Err(SendError::Closed));
    assert_eq!(session.respond(two, &1), Err(SendError::Closed));
    assert!(!session.phase().is_over());

    // A result without a JSON form is an error, even if the peer has cancelled the request.
    let mut session = idle(lsp_cancels());
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, CANCEL_1);
    let keys = alloc::collections::BTreeMap::from([((1, 2), 3)]);
    let refused = session.respond(ticket, &keys);
    assert!(matches!(refused, Err(SendError::Encode(_))), "{refused:?}");
}

#[test]
fn a_ticket_says_what_the_peer_is_told_of_a_failure() {
    let configured = Failures::new().expose_error_detail(true);
    let mut session = idle(Config::new().failures(configured));
    line(&mut session, M1);
    let mut ticket = request(&mut session);
    assert_eq!(ticket.failures(), configured);
    ticket.set_failures(Failures::new());
    assert_eq!(ticket.failures(), Failures::new());
}

#[test]
fn calls_can_be_moved_given_up_and_asked_to_be_given_up() {
    let mut session = idle(lsp_cancels());
    let one = session.call("c", (), None, 7).unwrap();
    let two = session.call("c", (), None, 8).unwrap();
    output(&mut session);
    session.set_deadline(one, Some(at(500))).unwrap();
    assert_eq!(session.poll_timeout(), Some(at(500)));
    session.ask_cancel(two).unwrap();
    assert!(output(&mut session).contains("cancelRequest"));
    assert_eq!(session.calls_open(), 2);
    assert_eq!(session.cancel(one), Some(7));
    assert!(output(&mut session).contains("cancelRequest"));
    assert_eq!(session.cancel(one), None);
    assert_eq!(session.ask_cancel(one), Err(SendError::NotOpen));
    assert_eq!(session.set_deadline(one, None), Err(SendError::NotOpen));
    assert_eq!(session.calls_open(), 1);
}

#[test]
fn a_ticket_of_another_session_answers_nothing() {
    let mut config = Config::new();
    config.connection = 1;
    let (mut one, mut two) = (idle(config), idle(Config::new()));
    line(&mut one, M1);
    line(&mut two, M1);
    let (ticket, _own) = (request(&mut one), request(&mut two));
    assert_eq!(two.respond(ticket, &1), Err(SendError::NotOpen));
    assert_eq!(two.requests_open(), 1);
    assert_eq!(output(&mut two), "");
}

#[test]
fn an_answer_that_panics_while_it_is_written_is_an_internal_error() {
    struct Panics;
    impl serde::Serialize for Panics {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("as the test wants it")
        }
    }
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    let answer = std::panic::AssertUnwindSafe(|| session.respond(ticket, &Panics));
    assert!(std::panic::catch_unwind(answer).is_err());
    assert_eq!(
        session.take_lost().map(|lost| lost.method).as_deref(),
        Some("m")
    );
    assert_eq!(session.take_lost(), None);
    assert!(output(&mut session).contains("-32603"));
    assert_eq!(session.requests_open(), 0);
}

#[test]
fn a_request_that_was_taken_and_never_begun_is_given_back_unseen() {
    let mut session = idle(lsp_cancels());
    line(&mut session, M1);
    let ticket = request(&mut session);
    let ticket = session.give_back(ticket).unwrap_err();
    line(&mut session, CANCEL_1);
    session.give_back(ticket).unwrap();
    assert!(output(&mut session).contains("error"));
    assert_eq!(work(&mut session), [""; 0]);
}
