//! Received messages are handled in order, and output is written piece by piece.

use super::*;

#[test]
fn however_the_input_is_split_work_and_output_are_the_same() {
    let input = format!("{M1}\n{N}\ngarbage\n[{M1},{N},{M2}]\n{CANCEL_1}\n{M2}\n");
    let play = |cuts: &[usize]| {
        let mut session = session(lsp_cancels());
        let (mut seen, mut start) = (Vec::new(), 0);
        for &cut in cuts {
            session.handle_input(&input.as_bytes()[start..cut]);
            start = cut;
        }
        session.handle_input(&input.as_bytes()[start..]);
        session.handle_eof();
        while let Some(work) = session.poll_work(true) {
            let (word, ticket) = describe(work);
            seen.push(word);
            if let Some(ticket) = ticket {
                session.respond(ticket, &7).unwrap();
            }
        }
        let written = output(&mut session);
        assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput), "{cuts:?}");
        (seen, written)
    };
    let whole = play(&[]);
    assert!(whole.0.len() > 5 && whole.1.len() > 100, "{whole:?}");
    let bytewise: Vec<_> = (1..input.len()).collect();
    assert_eq!(play(&bytewise), whole);
    for cut in 1..input.len() {
        assert_eq!(play(&[cut]), whole, "cut at {cut}");
    }
}

// USE-01
#[test]
fn what_waits_behind_a_request_without_a_slot_keeps_its_order() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, N);
    assert!(session.poll_work(false).is_none());
    let ticket = request(&mut session);
    // While the first request waits for a thread, the notification after it waits, and so does the
    // second request after that.
    session.postpone();
    line(&mut session, M2);
    assert!(session.poll_work(true).is_none());
    session.handle_begun();
    assert_eq!(work(&mut session), ["notification n", "request m"]);
    session.respond(ticket, &1).unwrap();
}

// USE-01
#[test]
fn a_cancel_goes_past_what_waits_and_a_request_that_waits_never_begins() {
    let mut session = idle(lsp_cancels());
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, M2);
    line(&mut session, CANCEL_1);
    assert!(!matches!(session.poll_work(false), Some(Work::Request(..))));
    assert!(session.is_cancelled(ticket.key()));
    session.respond_cancelled(ticket).unwrap();
    assert!(output(&mut session).contains("-32001"));
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#,
    );
    assert_eq!(work(&mut session), [""; 0]);
    assert!(output(&mut session).contains(r#""id":2"#));
}

#[test]
fn nothing_new_is_taken_before_the_last_is_written() {
    let mut session = idle(Config::new());
    session.notify("a", ()).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.notify("b", ()).unwrap();
    assert!(!session.has_transmit() && !session.take_transmit(&mut taken));
    session.handle_written();
    assert!(session.has_transmit() && session.take_transmit(&mut taken));
    assert_eq!(taken.iter().filter(|byte| **byte == b'\n').count(), 2);
}

#[test]
fn one_message_at_a_time_where_the_transport_has_messages() {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    let mut session: Session<u32> = Session::new(config.into(), Wire::Messages, at(0));
    session.handle_input(M1.as_bytes());
    session.handle_input(M2.as_bytes());
    let (one, two) = (request(&mut session), request(&mut session));
    session.respond(one, &1).unwrap();
    session.respond(two, &2).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    assert_eq!(taken, br#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    session.handle_written();
    taken.clear();
    assert!(session.take_transmit(&mut taken));
    assert_eq!(taken, br#"{"jsonrpc":"2.0","result":2,"id":2}"#);
    session.handle_eof();
    session.handle_written();
    assert_eq!(work(&mut session).len(), 0);
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn large_input_leaves_no_large_buffer_behind() {
    let mut session = idle(Config::new());
    let large = format!(
        r#"{{"jsonrpc":"2.0","method":"n","params":["{}"]}}"#,
        "x".repeat(200_000)
    );
    for piece in large.as_bytes().chunks(1000) {
        session.handle_input(piece);
    }
    assert!(session.rest.capacity() >= large.len());
    session.handle_input(b"\n");
    assert_eq!(work(&mut session), ["notification n"]);
    assert_eq!(session.rest.capacity(), 0);
}

#[test]
fn an_empty_message_is_a_message_and_nothing_in_a_stream() {
    let mut config = Config::new();
    config.framing = Framing::Messages;
    let mut session: Session<u32> = Session::new(config.into(), Wire::Messages, at(0));
    session.handle_input(b"");
    // `Opened`, and a report of the malformed message.
    assert_eq!(work(&mut session).len(), 2);
    let mut session = idle(Config::new());
    session.handle_input(b"");
    assert_eq!(work(&mut session).len(), 0);
}

#[test]
fn a_call_in_order_ends_in_its_place_and_goes_past_what_waits() {
    let mut session = idle(Config::new());
    session.call_in_order("c", (), None, 7).unwrap();
    session.call("c", (), None, 8).unwrap();
    line(&mut session, N);
    line(&mut session, r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    line(&mut session, r#"{"jsonrpc":"2.0","id":2,"result":2}"#);
    line(&mut session, N);
    assert_eq!(outcomes(&mut session).len(), 1);
    let expected = ["notification n", "settled 7", "notification n"];
    assert_eq!(work(&mut session), expected);

    session.call_in_order("c", (), None, 9).unwrap();
    line(&mut session, M1);
    line(&mut session, r#"{"jsonrpc":"2.0","id":3,"result":1}"#);
    let next = session.poll_work(false).map(|work| describe(work).0);
    assert_eq!(next.as_deref(), Some("settled 9"));
    assert!(session.poll_work(false).is_none());
    assert!(session.has_work() && !session.has_cancels());
}

#[test]
fn a_cancel_is_found_past_what_waits_for_a_notification() {
    let mut session = idle(lsp_cancels());
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, N);
    line(&mut session, CANCEL_1);
    assert!(session.has_cancels());
    let cancelled = session.poll_cancelled().map(|work| describe(work).0);
    assert_eq!(cancelled.as_deref(), Some("cancelled"));
    assert!(session.poll_cancelled().is_none() && !session.has_cancels());
    assert!(session.is_cancelled(ticket.key()));
    assert_eq!(work(&mut session), ["notification n"]);
    assert!(!session.wants_service());
}

fn serial(config: Config) -> SessionConfig {
    let mut config = SessionConfig::from(config);
    config.order = Order::Serial;
    config
}

// SRV-22
#[test]
fn in_serial_order_a_request_that_is_not_answered_holds_all_behind_it() {
    let mut session = idle(serial(Config::new()));
    session.call_in_order("c", (), None, 7).unwrap();
    session.call("c", (), None, 8).unwrap();
    line(&mut session, &format!("[{M1},{N},{M2}]"));
    let first = request(&mut session);
    assert!(session.has_work() && !session.is_request_next());
    assert_eq!(work(&mut session), [""; 0]);
    // The outcomes of both calls overtake the waiting work, whether a call was made in order or
    // not.
    line(&mut session, r#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    line(&mut session, r#"{"jsonrpc":"2.0","id":2,"result":2}"#);
    assert_eq!(outcomes(&mut session).len(), 1);
    assert_eq!(work(&mut session), ["settled 7"]);
    session.respond(first, &1).unwrap();
    assert_eq!(
        session.poll_work(true).map(|work| describe(work).0),
        Some("notification n".into())
    );
    assert!(session.is_request_next());
    let second = request(&mut session);
    line(&mut session, M1);
    assert!(session.poll_work(true).is_none());
    // A request that is abandoned or refused also lets the next begin.
    session.abandon(second);
    let third = request(&mut session);
    session.refuse(third);
    let reports = work(&mut session);
    assert_eq!(reports.len(), 2, "{reports:?}");
    assert!(output(&mut session).contains("-32603"));
}

// SRV-22
#[test]
fn in_serial_order_a_request_that_is_given_up_holds_until_its_handler_knows() {
    // In this dialect a cancelled request is answered. Its handler gets the cancel, and the
    // notification waits for the answer.
    let mut session = idle(serial(lsp_cancels()));
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, N);
    line(&mut session, CANCEL_1);
    assert_eq!(work(&mut session), ["cancelled"]);
    session.respond_cancelled(ticket).unwrap();
    assert_eq!(work(&mut session), ["notification n"]);
    // In this dialect a cancelled request is not answered. Once its handler has got the cancel, the
    // next request may begin.
    let config = Config::mcp(McpRevision::V2025_06_18);
    let mut session = idle(serial(config));
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, M2);
    line(
        &mut session,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
    );
    let next = session.poll_work(true).map(|work| describe(work).0);
    assert_eq!(next.as_deref(), Some("cancelled"));
    let second = request(&mut session);
    session.respond(second, &2).unwrap();
    // The answer to the first request is not sent.
    session.respond(ticket, &1).unwrap();
    assert!(!output(&mut session).contains(r#""id":1"#));
}

// SRV-22 USE-01
#[test]
fn in_serial_order_the_end_lets_everything_go() {
    let mut session = idle(serial(Config::new()));
    line(&mut session, M1);
    let ticket = request(&mut session);
    line(&mut session, M2);
    line(&mut session, N);
    session.handle_eof();
    assert_eq!(work(&mut session), [""; 0]);
    session.respond(ticket, &1).unwrap();
    let ticket = request(&mut session);
    session.close(CloseReason::Done);
    drop(ticket);
    assert!(work(&mut session).contains(&"notification n".into()));
}

// USE-01
#[test]
fn under_other_orders_requests_hold_nothing() {
    for order in [Order::Free, Order::Notifications] {
        let mut config = SessionConfig::from(lsp_cancels());
        config.order = order;
        let mut session = idle(config);
        for text in [M1, N, M2] {
            line(&mut session, text);
        }
        let expected = ["request m", "notification n", "request m"];
        assert_eq!(work(&mut session), expected, "{order:?}");
    }
}
