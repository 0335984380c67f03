//! The getters of a session.

use super::*;

#[test]
fn a_session_knows_what_is_open_and_what_it_was_told() {
    let mut config = Config::new();
    config.limits.max_open_calls = 7;
    let mut session = idle(config);
    assert_eq!((session.calls_open(), session.requests_open()), (0, 0));
    session.call("c", (), None, 1).unwrap();
    session.call("c", (), None, 2).unwrap();
    for id in 1..=3 {
        line(&mut session, &M1.replace("1}", &format!("{id}}}")));
    }
    assert_eq!((session.calls_open(), session.requests_open()), (2, 3));
    assert_eq!(session.config().limits.max_open_calls, 7);
    assert!(session.fault().is_none());
}

#[test]
fn a_peer_is_heard_once_a_message_of_its_was_one() {
    let mut config = Config::new();
    config.timeouts.drain_timeout = Some(SECOND);
    let mut session = idle(config);
    assert!(!session.has_heard());
    line(&mut session, "garbage");
    assert!(!session.has_heard());
    // A call that times out does not show that the peer has sent anything.
    session.call("c", (), Some(at(10)), 1).unwrap();
    output(&mut session);
    session.handle_timeout(at(10));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::TimedOut)]);
    assert!(!session.has_heard());
    session.call("c", (), None, 2).unwrap();
    output(&mut session);
    line(&mut session, r#"{"jsonrpc":"2.0","result":1,"id":2}"#);
    assert!(session.has_heard());
    for text in [N, "garbage", N] {
        line(&mut session, text);
        assert!(session.has_heard());
    }

    let mut session = idle(Config::new());
    session.call("c", (), None, 1).unwrap();
    session.handle_eof();
    assert_eq!(outcomes(&mut session).len(), 1);
    assert!(!session.has_heard());

    // A call that an exchange leaves without an answer shows as little.
    let config = Config::new().for_client_exchange();
    let mut session = Session::new(config.into(), Wire::Messages, at(0));
    assert_eq!(work(&mut session), ["opened"]);
    session.call("c", (), None, 1).unwrap();
    output(&mut session);
    session.handle_eof();
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::Missing)]);
    assert!(!session.has_heard());
}

#[test]
fn output_is_full_above_its_soft_limit_and_not_on_it() {
    let len = br#"{"jsonrpc":"2.0","method":"n"}"#.len() + 1;
    let mut config = Config::new();
    config.limits.soft_max_outbox_bytes = 2 * len;
    let mut session = idle(config);
    for _ in 0..2 {
        session.notify("n", ()).unwrap();
        assert!(!session.is_full());
    }
    session.notify("n", ()).unwrap();
    assert!(session.is_full());
    assert_eq!(session.transmit_queued(), 3 * len as u64);
    assert_eq!(session.is_written(session.transmit_queued()), Some(false));
    // Output that was written does not count against the limit.
    output(&mut session);
    assert!(!session.is_full());
    assert_eq!(session.is_written(session.transmit_queued()), Some(true));
    session.notify("n", ()).unwrap();
    assert!(!session.is_full());
    session.notify("n", ()).unwrap();
    session.notify("n", ()).unwrap();
    assert!(session.is_full());
}

#[test]
fn reading_is_of_use_until_the_end_has_been_seen_for_long_enough() {
    let mut config = SessionConfig::from(Config::new());
    config.linger = Duration::from_millis(300);
    let mut session = self::session(config);
    assert!(session.wants_input());
    assert_eq!(session.linger(), Duration::from_millis(300));
    session.handle_eof();
    assert_eq!(session.phase(), Phase::InputEnded { since: at(0) });
    assert!(!session.wants_input());

    let mut config = SessionConfig::from(Config::new());
    config.linger = Duration::from_millis(300);
    let mut session = idle(config);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_time(at(1000));
    session.close(CloseReason::Done);
    let ended = Closed::Local(CloseReason::Done);
    let (why, since) = (ended, at(1000));
    assert_eq!(session.phase(), Phase::Closing { why, since });
    for (millis, wants) in [(1000, true), (1299, true), (1300, false), (1301, false)] {
        session.handle_time(at(millis));
        assert_eq!(session.wants_input(), wants, "{millis}");
    }
    session.handle_written();
    assert_eq!(session.phase(), Phase::Over(ended));
    assert!(!session.wants_input());
    assert_eq!(session.linger(), Duration::from_millis(300));
}

#[test]
fn a_peer_that_does_not_read_is_not_read_either() {
    let mut config = Config::new();
    config.limits.max_outbox_bytes = 100;
    let mut session = idle(config);
    for _ in 0..3 {
        line(&mut session, M1);
    }
    let tickets = [
        request(&mut session),
        request(&mut session),
        request(&mut session),
    ];
    session.notify("n", ()).unwrap();
    assert!(session.take_transmit(&mut Vec::new()));
    // Each answer has 57 bytes. The second exceeds the limit of 100 and ends the session, so only
    // the third can be refused.
    let mut refused = 0;
    for ticket in tickets {
        refused += usize::from(session.respond(ticket, &"x".repeat(20)).is_err());
    }
    // The session shows the end although no input follows.
    let full = Closed::Failed(ConnectionError::OutboxFull);
    assert_eq!(
        session.phase(),
        Phase::Over(full),
        "the unfinished write is not waited for"
    );
    assert!(refused <= 1);
    assert_eq!(session.linger(), Duration::ZERO);
    assert!(!session.wants_input() && !session.has_transmit());
    assert!(!session.take_transmit(&mut Vec::new()));
}

#[test]
fn debug_output_names_what_matters() {
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let shown = format!("{session:?}");
    assert!(shown.contains("phase: Open"), "{shown}");
    assert!(shown.contains("items: 1, bytes: 37"), "{shown}");
    let ticket = request(&mut session);
    assert!(format!("{ticket:?}").starts_with("Ticket(RequestKey"));
    let fault = Fault::from(io::Error::other("too bad"));
    assert!(format!("{fault:?}").contains("too bad"));
    assert_eq!(fault.to_string(), "too bad");
}
