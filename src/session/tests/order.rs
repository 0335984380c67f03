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

fn lsp() -> Config {
    Config::lsp().framing(crate::Framing::Newline)
}

const SHUTDOWN: &str = r#"{"jsonrpc":"2.0","method":"shutdown","id":9}"#;
const EXIT: &str = r#"{"jsonrpc":"2.0","method":"exit"}"#;

// USE-37
#[test]
fn a_shutdown_overtakes_the_handler_of_a_notification_after_a_second() {
    for exits in [false, true] {
        let mut session = idle(lsp());
        line(&mut session, N);
        let taken = session.poll_work(true).map(|work| describe(work).0);
        assert_eq!(taken.as_deref(), Some("notification n"));
        line(&mut session, M1);
        line(&mut session, SHUTDOWN);
        if exits {
            line(&mut session, EXIT);
        }
        assert!(session.poll_overdue().is_none());
        assert_eq!(session.poll_timeout(), Some(at(1000)));
        session.handle_timeout(at(999));
        assert!(session.poll_overdue().is_none());
        session.handle_timeout(at(1000));
        let (word, ticket) = describe(session.poll_overdue().expect("it is late"));
        assert_eq!(word, "request shutdown");
        session.respond(ticket.expect("a request"), ()).unwrap();
        assert!(session.poll_overdue().is_none());
        assert!(output(&mut session).contains(r#""id":9"#));
        // The handler has ended, and the rest goes on in order.
        let mut rest = Vec::from(["request m"]);
        rest.extend(exits.then_some("notification exit"));
        assert_eq!(work(&mut session), rest);
    }
}

// USE-37
#[test]
fn an_exit_waits_for_no_handler_and_ends_our_calls() {
    let mut session = idle(lsp());
    line(&mut session, N);
    assert!(session.poll_work(true).is_some());
    session.call("configuration", (), None, 7).unwrap();
    assert!(!output(&mut session).is_empty());
    assert!(!session.has_exited());
    line(&mut session, EXIT);
    assert!(session.has_exited());
    assert_eq!(
        session.poll_settled().map(|settled| settled.waiter),
        Some(7)
    );
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
    // It means nothing in other dialects, and neither does `shutdown`.
    let mut session = idle(Config::new());
    line(&mut session, SHUTDOWN);
    line(&mut session, EXIT);
    assert_eq!(session.poll_timeout(), None);
    assert_eq!(session.phase(), Phase::Open);
}

// USE-37
#[test]
fn a_handler_that_holds_up_others_for_five_seconds_is_reported_once() {
    let held = "report: a handler holds up the messages after it for 5000 ms: n";
    let mut session = idle(Config::new());
    line(&mut session, N);
    assert!(session.poll_work(true).is_some());
    assert_eq!(session.poll_timeout(), Some(at(5000)));
    session.handle_timeout(at(5000));
    let late = session.poll_overdue().map(|work| describe(work).0);
    assert_eq!(late.as_deref(), Some(held));
    session.handle_timeout(at(20_000));
    assert!(session.poll_overdue().is_none() && session.poll_timeout().is_none());
    // One that has ended is not reported.
    line(&mut session, N);
    assert_eq!(work(&mut session), ["notification n"]);
    session.handle_timeout(at(40_000));
    assert!(session.poll_overdue().is_none());
    // In serial order a request holds up others until it is answered.
    let mut config = SessionConfig::from(Config::new());
    config.order = Order::Serial;
    let mut session = idle(config);
    line(&mut session, M1);
    let ticket = request(&mut session);
    assert!(session.poll_work(true).is_none());
    session.handle_timeout(at(5000));
    let late = session.poll_overdue().map(|work| describe(work).0);
    assert_eq!(late, Some(held.replace(": n", ": m")));
    session.respond(ticket, &1).unwrap();
}

// USE-37 SRV-27 USE-17
#[test]
fn sixteen_names_that_nobody_serves_are_reported_and_then_a_count() {
    for reports in [true, false] {
        let mut config = SessionConfig::from(Config::new());
        config.report_unserved = reports;
        let mut session = idle(config);
        for name in 0..20 {
            session.report_unserved(&format!("name {name}"), None);
            session.report_unserved("name 0", None);
        }
        let seen = work(&mut session);
        session.report_unserved("late", None);
        session.handle_eof();
        let last = work(&mut session);
        if !reports {
            assert!(seen.is_empty() && last.is_empty(), "{seen:?} {last:?}");
            continue;
        }
        assert_eq!(seen.len(), 16);
        assert_eq!(seen[15], "report: nobody serves it: name 15 (notification)");
        assert_eq!(last, ["report: 25 more messages that nobody serves"]);
    }
    // A name may be as long as a peer likes.
    let mut session = idle(Config::new());
    session.report_unserved(&"\u{e4}".repeat(1000), None);
    let seen = work(&mut session);
    assert!(seen[0].len() < 330, "{seen:?}");
}

#[test]
fn another_dialect_counts_from_the_next_message_on() {
    let mut session = idle(Config::mcp(crate::McpRevision::V2025_11_25));
    let batch = format!("[{M1}]");
    line(&mut session, &batch);
    assert!(output(&mut session).contains("-32600"));
    session.set_dialect(Config::mcp(crate::McpRevision::V2025_03_26).dialect);
    line(&mut session, &batch);
    let seen = work(&mut session);
    assert!(
        seen.ends_with(&["batch of 1".into(), "request m".into()]),
        "{seen:?}"
    );
}

// FLO-09 FLO-12 USE-01
#[test]
fn requests_that_need_no_handler_overtake_what_waits_for_one() {
    let mut session = idle(SessionConfig::new(Config::new()));
    session.let_overtake(["first".into()].into());
    let first = r#"{"jsonrpc":"2.0","method":"first","id":9}"#;
    for text in [N, M1, first, M2] {
        line(&mut session, text);
    }
    // Its bytes count until it is answered, and it is no request that waits for the service.
    assert_eq!(session.requests_waiting(), 2);
    let (message, ticket) = session.poll_overtaking().unwrap();
    assert_eq!(message.method(), "first");
    assert!(session.poll_overtaking().is_none());
    session.respond(ticket, &1).unwrap();
    let answer = r#"{"jsonrpc":"2.0","result":1,"id":9}"#;
    assert_eq!(output(&mut session).trim_end(), answer);
    assert_eq!(
        work(&mut session),
        ["notification n", "request m", "request m"]
    );
}
