//! How sessions end.

use super::*;

// CON-06
#[test]
fn what_came_before_the_end_of_input_is_served_before_the_end_is_told() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    line(&mut session, N);
    session.handle_eof();
    assert_eq!(session.phase(), Phase::InputEnded { since: at(0) });
    let ticket = request(&mut session);
    session.notify("still here", ()).unwrap();
    assert_eq!(work(&mut session), ["notification n"]);
    // The service has no more work, so the connection has learnt of the end; the open request may
    // still be answered.
    assert!(matches!(session.phase(), Phase::Closing { .. }));
    assert!(!session.phase().is_over());
    session.respond(ticket, &1).unwrap();
    assert!(output(&mut session).contains("still here"));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn an_end_of_input_is_told_at_once_where_a_call_waits() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 5).unwrap();
    output(&mut session);
    line(&mut session, M1);
    session.handle_eof();
    assert_eq!(outcomes(&mut session), [(5, OwnedOutcome::Aborted)]);
}

#[test]
fn an_end_inside_a_message_is_told_as_such() {
    let mut session = idle(Config::new());
    session.handle_input(br#"{"jsonrpc""#);
    session.handle_eof();
    assert_eq!(work(&mut session).len(), 0);
    let truncated = Closed::Failed(ConnectionError::Truncated);
    assert_eq!(session.phase().closed(), Some(truncated));
    // A last message without a line feed is still delivered.
    let mut session = idle(Config::new());
    session.handle_input(M1.as_bytes());
    session.handle_eof();
    assert_eq!(work(&mut session), ["request m"]);
}

#[test]
fn a_request_that_runs_on_after_the_end_is_given_up_when_the_drain_is_over() {
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(2 * SECOND);
    let mut session = idle(config);
    line(&mut session, M1);
    session.handle_eof();
    let ticket = request(&mut session);
    assert!(session.poll_work(true).is_none());
    assert_eq!(session.poll_timeout(), Some(at(2000)));
    session.handle_timeout(at(1999));
    assert!(!session.is_cancelled(ticket.key()));
    session.handle_timeout(at(2000));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
    assert!(session.is_cancelled(ticket.key()));
    assert_eq!(session.respond(ticket, &1), Err(SendError::Closed));
    assert_eq!(output(&mut session), "");
    assert_eq!(work(&mut session), ["cancelled"]);
}

#[test]
fn after_a_failed_write_the_last_words_of_the_peer_are_heard() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    session.call("c", (), None, 2).unwrap();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(session.phase(), Phase::LastWords { since: at(0) });
    line(&mut session, r#"{"jsonrpc":"2.0","result":9,"id":1}"#);
    let settled = outcomes(&mut session);
    assert!(
        matches!(&settled[..], [(1, OwnedOutcome::Ok(nine))] if nine.as_str() == "9"),
        "{settled:?}"
    );
    session.notify("nobody reads this", ()).unwrap();
    assert!(!session.take_transmit(&mut taken));
    session.handle_timeout(at(999));
    assert_eq!(outcomes(&mut session), []);
    session.handle_timeout(at(1000));
    assert_eq!(outcomes(&mut session), [(2, OwnedOutcome::Aborted)]);
    let why = Closed::Local(CloseReason::TransportFailed);
    assert_eq!(session.phase(), Phase::Over(why));
    assert_eq!(session.is_written(session.transmit_queued()), None);
    assert_eq!(work(&mut session).len(), 1, "the failure is reported");
}

#[test]
fn after_a_failed_write_the_end_of_input_ends_it() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    session.handle_eof();
    assert!(session.phase().is_over());
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
}

#[test]
fn a_drain_takes_nothing_new_and_ends_when_all_is_answered_and_written() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.drain();
    assert_eq!(session.phase(), Phase::Draining);
    line(&mut session, M2);
    assert!(output(&mut session).contains("-32002"));
    session.respond(ticket, &1).unwrap();
    assert!(!session.phase().is_over());
    output(&mut session);
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
    assert_eq!(work(&mut session).len(), 1, "the refused request is told");
}

// CAN-12
#[test]
fn a_close_gives_open_requests_up_and_is_over_once_all_is_written() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.call("c", (), None, 1).unwrap();
    session.notify("n", ()).unwrap();
    let mark = session.transmit_queued();
    let mut taken = Vec::new();
    assert!(session.take_transmit(&mut taken));
    session.close(CloseReason::GoingAway);
    assert!(session.is_cancelled(ticket.key()));
    assert_eq!(work(&mut session), ["cancelled"]);
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert_eq!(session.respond(ticket, &1), Err(SendError::Closed));
    assert_eq!(session.is_written(mark), Some(false));
    assert!(!session.phase().is_over());
    session.handle_written();
    let why = Closed::Local(CloseReason::GoingAway);
    assert_eq!(session.phase(), Phase::Over(why));
    assert_eq!(session.is_written(mark), Some(true));
    assert_eq!(session.poll_timeout(), None);
}

// USE-06
#[test]
fn a_stream_that_begins_like_http_is_closed_before_anything_runs() {
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\n\r\n{M1}\n");
    for size in [1, 3, post.len()] {
        let mut config = SessionConfig::from(Config::new());
        config.refuse_http = true;
        let mut session = idle(config);
        for piece in post.as_bytes().chunks(size) {
            session.handle_input(piece);
        }
        let seen = work(&mut session);
        assert!(
            matches!(&seen[..], [one] if one.starts_with("report: an HTTP request")),
            "{seen:?}"
        );
        let why = Closed::Local(CloseReason::PeerMisbehaved);
        assert_eq!(session.phase(), Phase::Over(why));
    }
    let mut config = SessionConfig::from(Config::new());
    config.refuse_http = true;
    let mut session = idle(config);
    line(&mut session, M1);
    assert_eq!(work(&mut session), ["request m"]);
}

#[test]
fn a_failed_read_and_a_peer_that_is_gone_end_it_at_once() {
    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    output(&mut session);
    session.handle_read_failed(io::Error::from(io::ErrorKind::ConnectionReset));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Aborted)]);
    assert!(session.phase().is_over() && session.fault().is_some());

    let mut session = idle(Config::new());
    line(&mut session, M1);
    session.handle_input(N.as_bytes());
    session.handle_peer_gone(None);
    assert!(session.phase().is_over() && session.fault().is_none());
    // The request had not begun, and its answer is no longer awaited.
    assert_eq!(work(&mut session), ["notification n"]);
}

#[test]
fn an_abort_is_over_whatever_waits() {
    let mut session = idle(Config::new());
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.notify("n", ()).unwrap();
    session.abort(Some(io::Error::from(io::ErrorKind::Other).into()));
    assert!(session.phase().is_over() && !session.has_transmit());
    // A fault after the end is not reported.
    session.abort(None);
    session.handle_read_failed(io::Error::from(io::ErrorKind::Other));
    assert_eq!(work(&mut session).len(), 1);
}

#[test]
fn a_phase_that_is_late_takes_the_next_with_it() {
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(2 * SECOND);
    let mut session = session(config);
    line(&mut session, M1);
    session.handle_time(at(5));
    session.handle_eof();
    assert_eq!(session.phase(), Phase::InputEnded { since: at(5) });
    assert_eq!(session.poll_timeout(), Some(at(2005)));
    // The service has not asked for work, so only the timeout ends the session.
    session.handle_timeout(at(2005));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn an_end_counts_from_when_the_input_ended() {
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(2 * SECOND);
    let mut session = session(config);
    line(&mut session, M1);
    session.handle_time(at(5));
    session.handle_eof();
    session.handle_time(at(9));
    assert_eq!(work(&mut session), ["opened", "request m"]);
    let (why, since) = (Closed::EndOfInput, at(5));
    assert_eq!(session.phase(), Phase::Closing { why, since });
    assert_eq!(session.poll_timeout(), Some(at(2005)));
}

#[test]
fn a_drain_with_nothing_open_is_over_at_once() {
    let mut session = idle(Config::new());
    session.drain();
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
    session.drain();
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
}

#[test]
fn a_drain_is_over_when_its_last_call_is_given_up() {
    let mut session = idle(Config::new());
    let call = session.call("c", (), None, 1).unwrap();
    output(&mut session);
    session.drain();
    assert_eq!(session.phase(), Phase::Draining);
    assert_eq!(session.cancel(call), Some(1));
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
}

#[test]
fn the_end_of_input_waits_while_a_notification_is_served() {
    let mut session = idle(Config::new());
    line(&mut session, N);
    assert!(session.poll_work(true).is_some());
    session.handle_eof();
    assert_eq!(session.phase(), Phase::InputEnded { since: at(0) });
    // Input after the end of the input is ignored.
    line(&mut session, N);
    session.notify("last words", ()).unwrap();
    assert_eq!(work(&mut session), [""; 0]);
    assert!(output(&mut session).contains("last words"));
    assert_eq!(session.phase(), Phase::Over(Closed::EndOfInput));
}

#[test]
fn nothing_waits_for_a_request_without_a_thread_once_it_is_over() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.postpone();
    line(&mut session, N);
    assert!(session.poll_work(true).is_none());
    session.abort(None);
    assert_eq!(work(&mut session), ["notification n", "cancelled"]);
    assert_eq!(session.respond(ticket, &1), Err(SendError::Closed));
}

#[test]
fn what_was_not_written_when_writing_failed_never_will_be() {
    let mut session = idle(Config::new());
    session.notify("n", ()).unwrap();
    let mark = session.transmit_queued();
    output(&mut session);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(session.phase(), Phase::LastWords { since: at(0) });
    assert_eq!(session.is_written(mark), Some(true));
    assert_eq!(session.is_written(2 * mark), None);
    // A second failed write changes nothing.
    session.handle_write_failed(io::Error::from(io::ErrorKind::BrokenPipe));
    assert_eq!(session.phase(), Phase::LastWords { since: at(0) });

    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(SECOND);
    let mut session = idle(config);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.close(CloseReason::Done);
    session.handle_timeout(at(1000));
    assert!(session.phase().is_over());
    assert_eq!(session.is_written(mark), None);
}

#[test]
fn a_stream_that_may_begin_like_http_is_read_where_that_is_no_matter() {
    let mut session = idle(Config::new());
    line(&mut session, "POST / HTTP/1.1");
    assert_eq!(session.phase(), Phase::Open);
    let seen = work(&mut session);
    assert!(
        seen[0].starts_with("report: a malformed message"),
        "{seen:?}"
    );
}

#[test]
fn a_first_frame_that_says_too_little_is_not_waited_for_for_ever() {
    let mut config = SessionConfig::from(Config::new());
    config.refuse_http = true;
    config.config.limits.max_message_bytes = 30;
    config.config.limits.max_header_bytes = 10;
    let max = config.config.max_input_bytes();
    // Blanks may come before an HTTP request, so they leave it undecided whether this is one.
    let blanks = |len: usize| " ".repeat(len);
    let mut session = idle(config.clone());
    session.handle_input(blanks(max - 1).as_bytes());
    assert!(session.is_at_start);
    let mut session = idle(config);
    session.handle_input(blanks(max).as_bytes());
    assert!(!session.is_at_start);
}

#[test]
fn a_drained_session_ends_when_its_last_answer_is_told_to_be_written() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.drain();
    session.respond(ticket, &1).unwrap();
    let mut output = Vec::new();
    assert!(session.take_transmit(&mut output));
    assert_eq!(session.phase(), Phase::Draining);
    session.handle_written();
    assert_eq!(session.phase(), Phase::Over(Closed::Drained));
}
