//! The messages that wait for the service, and when reading pauses for them.

use super::*;

// USE-02
#[test]
fn reading_pauses_while_too_much_waits_and_nothing_is_lost() {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_messages = 2;
    let mut session = idle(config);
    for _ in 0..3 {
        line(&mut session, N);
    }
    assert!(!session.wants_input());
    assert_eq!(work(&mut session), ["notification n"; 3]);
    assert!(session.wants_input());
}

// USE-02
#[test]
fn with_a_call_open_reading_goes_on_until_far_too_much_waits() {
    let mut config = SessionConfig::from(Config::new());
    config.max_queued_messages = 2;
    let mut session = idle(config);
    session.call("c", (), None, 1).unwrap();
    for _ in 0..3 {
        line(&mut session, N);
    }
    assert!(session.wants_input());
    line(&mut session, N);
    assert_eq!(outcomes(&mut session).len(), 1);
    let seen = work(&mut session);
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen[4].starts_with("report: too much waits"), "{seen:?}");
    assert!(session.phase().closed().is_some());
}

#[test]
fn what_is_dropped_is_counted_and_a_request_is_answered_busy() {
    let mut config = SessionConfig::from(Config::new());
    config.when_full = WhenFull::Drop;
    // Two of the four notifications fit, with 30 bytes each, and the request of 37 does not.
    config.max_queued_bytes = 70;
    let mut session = idle(config);
    for _ in 0..4 {
        line(&mut session, N);
    }
    line(&mut session, M1);
    assert!(session.wants_input());
    assert!(output(&mut session).contains("-32002"));
    let seen = work(&mut session);
    assert_eq!(seen[..2], ["notification n"; 2]);
    assert_eq!(seen[2], "report: 2 messages dropped");
    assert!(seen[3].ends_with("too many bytes wait: m (id 1) after 0 ms"));
    assert_eq!(seen.len(), 4);
}

// INT-05
#[test]
fn the_size_of_a_batch_comes_before_its_items_and_counts_as_a_message() {
    let mut session = idle(Config::new());
    line(&mut session, &format!("[7,{M1},{N}]"));
    line(&mut session, M2);
    let seen = work(&mut session);
    assert_eq!(seen[0], "batch of 3");
    assert!(
        seen[1].starts_with("report: a malformed message"),
        "{seen:?}"
    );
    assert_eq!(seen[2..], ["request m", "notification n", "request m"]);
    // A batch of responses is not reported as a batch, and does not hide the batch after it.
    let mut batch = session.batch(None);
    batch.call::<()>("c", (), 1).unwrap();
    batch.send().unwrap();
    line(&mut session, r#"[{"jsonrpc":"2.0","result":1,"id":1}]"#);
    assert_eq!(work(&mut session), [""; 0]);
    line(&mut session, &format!("[{N}]"));
    assert_eq!(work(&mut session), ["batch of 1", "notification n"]);

    // The batch of a refused request is reported as well.
    let mut session = idle(Config::new());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.drain();
    line(&mut session, &format!("[{M2},{N}]"));
    let seen = work(&mut session);
    assert_eq!(seen[0], "batch of 2", "{seen:?}");
    assert!(seen[1].starts_with("report: a refused message"), "{seen:?}");
    assert_eq!(seen[2..], ["notification n"]);
    session.respond(ticket, &1).unwrap();

    let mut config = SessionConfig::from(Config::new());
    config.max_queued_messages = 1;
    let mut session = idle(config);
    line(&mut session, M1);
    assert!(session.wants_input());
    line(&mut session, &format!("[{M2}]"));
    assert!(!session.wants_input());
    assert_eq!(work(&mut session), ["request m", "batch of 1", "request m"]);
    assert!(session.wants_input());
}

/// A session whose queue has these limits; `when_full` sets whether it pauses reading or drops.
fn limited(when_full: WhenFull, messages: usize, bytes: usize) -> Session<u32> {
    let mut config = SessionConfig::from(Config::mcp(McpRevision::V2025_06_18));
    config.when_full = when_full;
    config.max_queued_messages = messages;
    config.max_queued_bytes = bytes;
    idle(config)
}

#[test]
fn reading_pauses_on_the_limit_of_bytes_and_not_before() {
    let mut session = limited(WhenFull::Pause, 100, N.len());
    line(&mut session, N);
    assert!(!session.wants_input());
    let mut session = limited(WhenFull::Pause, 100, N.len() + 1);
    for _ in 0..3 {
        line(&mut session, N);
        assert!(session.wants_input());
        assert_eq!(work(&mut session), ["notification n"]);
    }
}

#[test]
fn the_bytes_of_a_request_count_until_it_is_answered() {
    let mut session = limited(WhenFull::Pause, 100, M1.len());
    line(&mut session, M1);
    // The second request is over the limit, but was read already, so it is kept.
    line(&mut session, M2);
    let (one, two) = (request(&mut session), request(&mut session));
    assert!(!session.wants_input());
    session.respond(one, &1).unwrap();
    assert!(!session.wants_input());
    session.respond(two, &1).unwrap();
    assert!(session.wants_input());
    line(&mut session, M1);
    let ticket = request(&mut session);
    session.abandon(ticket);
    work(&mut session);
    assert!(session.wants_input());
}

#[test]
fn the_bytes_of_reports_count_until_they_are_taken() {
    // The report of a malformed message counts with 2048 bytes at most.
    let long = "x".repeat(5000);
    let mut session = limited(WhenFull::Pause, 100, 2048);
    for _ in 0..3 {
        line(&mut session, &long);
        assert!(!session.wants_input());
        assert_eq!(work(&mut session).len(), 1);
        assert!(session.wants_input());
    }
    let mut session = limited(WhenFull::Pause, 100, 2049);
    line(&mut session, &long);
    assert!(session.wants_input());
    // A report counts as a message until it is taken.
    let mut session = limited(WhenFull::Pause, 2, 10_000);
    for _ in 0..3 {
        line(&mut session, "x");
        assert!(session.wants_input());
        line(&mut session, "x");
        assert!(!session.wants_input());
        assert_eq!(work(&mut session).len(), 2);
    }
}

#[test]
fn a_refused_request_counts_with_its_method_and_its_id() {
    // The method has 20 bytes and the id 10. Reading pauses when the limit is reached.
    let refused = |bytes: usize| {
        let mut config = SessionConfig::from(Config::new());
        config.config.limits.max_open_requests = 0;
        config.max_queued_bytes = bytes;
        let mut session = idle(config);
        line(
            &mut session,
            r#"{"jsonrpc":"2.0","method":"twenty letters long.","id":1234567890}"#,
        );
        session.wants_input()
    };
    assert_eq!((refused(30), refused(31)), (false, true));
}

#[test]
fn the_reason_of_a_cancel_counts_and_a_cancel_that_waits_is_found_once() {
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"no more"}}"#;
    let reason = r#""no more""#.len();
    for (more, wants_input) in [(0, false), (1, true)] {
        let mut session = limited(WhenFull::Pause, 100, M1.len() + reason + more);
        line(&mut session, M1);
        let ticket = request(&mut session);
        line(&mut session, cancel);
        assert_eq!(session.wants_input(), wants_input);
        let work = session.poll_work(true);
        let Some(Work::Cancelled(key, Some(text))) = work else {
            panic!("{work:?}");
        };
        assert_eq!((key, text.as_str()), (ticket.key(), r#""no more""#));
        assert!(session.wants_input());
        // The cancel was taken, so nothing overtakes the waiting request.
        line(&mut session, M2);
        line(&mut session, N);
        assert!(session.poll_work(false).is_none());
        session.respond(ticket, &1).unwrap();
    }
    // If the reason of a cancel is over the limit, it is left out, and the cancel is kept.
    let mut session = limited(WhenFull::Pause, 100, M1.len() + reason - 1);
    line(&mut session, M1);
    let _ticket = request(&mut session);
    line(&mut session, cancel);
    let work = session.poll_work(true);
    assert!(matches!(work, Some(Work::Cancelled(_, None))), "{work:?}");
}

#[test]
fn what_fits_exactly_is_not_dropped() {
    let mut session = limited(WhenFull::Drop, 100, 2 * N.len());
    for _ in 0..3 {
        line(&mut session, N);
    }
    let wanted = [
        "notification n",
        "notification n",
        "report: 1 messages dropped",
    ];
    assert_eq!(work(&mut session), wanted);
    let mut session = limited(WhenFull::Drop, 2, 10_000);
    for _ in 0..3 {
        line(&mut session, N);
    }
    assert_eq!(work(&mut session), wanted);
    // After a report the count of dropped messages starts again.
    for _ in 0..4 {
        line(&mut session, N);
    }
    assert_eq!(work(&mut session)[2], "report: 2 messages dropped");
}
