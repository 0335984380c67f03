//! Deadlines in virtual time.

use super::*;

#[test]
fn a_write_that_hangs_is_given_up_and_keeps_its_fault() {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(SECOND);
    let mut session = idle(config);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    session.handle_write_progress(at(500));
    session.handle_timeout(at(1499));
    assert_eq!(session.phase(), Phase::Open);
    session.handle_timeout(at(1500));
    assert!(matches!(session.phase(), Phase::LastWords { .. }));
    let fault = session.fault().expect("a fault").as_error();
    assert_eq!(
        fault.downcast_ref::<ConnectionError>(),
        Some(&ConnectionError::WriteTimedOut)
    );
}

#[test]
fn a_frame_is_not_late_by_the_time_for_which_nothing_was_read() {
    let mut config = SessionConfig::from(Config::new());
    config.config.timeouts.message_timeout = Some(SECOND);
    config.max_queued_messages = 1;
    let mut session = idle(config);
    line(&mut session, N);
    session.handle_input(b"{");
    assert!(!session.wants_input());
    for second in 1..10 {
        session.handle_timeout(at(1000 * second));
    }
    assert_eq!(session.phase(), Phase::Open);
    assert_eq!(work(&mut session).len(), 1);
    session.handle_timeout(at(9900));
    assert_eq!(session.phase(), Phase::Open);
    // Reading went on at 9 s, so the time limit ends at 10 s. That is noticed 1 ms late, which is
    // no jump of the clock.
    session.handle_timeout(at(10_001));
    assert!(session.phase().closed().is_some());
}

// USE-04
#[test]
fn what_has_arrived_wins_over_its_deadline() {
    let mut session = idle(Config::new());
    session.call("c", (), Some(at(1000)), 1).unwrap();
    output(&mut session);
    session.handle_time(at(5000));
    line(&mut session, r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    session.handle_timeout(at(5000));
    assert!(matches!(
        outcomes(&mut session)[..],
        [(1, OwnedOutcome::Ok(_))]
    ));
}

// USE-04
#[test]
fn a_clock_that_has_jumped_over_a_deadline_grants_as_much_again_once() {
    let mut session = idle(Config::new());
    session.call("c", (), Some(at(1000)), 1).unwrap();
    output(&mut session);
    session.handle_timeout(at(4000));
    assert_eq!(outcomes(&mut session), []);
    assert_eq!(session.poll_timeout(), Some(at(7000)));
    session.handle_timeout(at(6999));
    assert_eq!(outcomes(&mut session), []);
    session.handle_timeout(at(7000));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::TimedOut)]);
    // Less than 100 ms late is no jump, and the extra time is 10 s at most.
    assert_eq!(grace(Duration::from_millis(99)), Duration::ZERO);
    assert_eq!(grace(100 * SECOND), 10 * SECOND);
}

#[test]
fn a_frame_has_its_time_anew_when_reading_goes_on() {
    let mut config = SessionConfig::from(Config::new());
    config.config.timeouts.message_timeout = Some(SECOND);
    config.max_queued_messages = 1;
    let mut session = idle(config);
    line(&mut session, N);
    session.handle_input(b"{");
    assert!(!session.wants_input());
    session.handle_time(at(9900));
    assert_eq!(work(&mut session).len(), 1);
    assert_eq!(session.poll_timeout(), Some(at(10_900)));
    // Reading was paused and resumed once, so the time limit restarted once; asking for work again
    // does not restart it.
    session.handle_time(at(10_400));
    assert_eq!(work(&mut session).len(), 0);
    session.call("c", (), None, 1).unwrap();
    assert_eq!(session.poll_timeout(), Some(at(10_900)));
}

#[test]
fn a_grace_that_was_not_needed_is_not_used_up() {
    assert_eq!(
        grace(Duration::from_millis(100)),
        Duration::from_millis(100)
    );
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(SECOND);
    let mut session = idle(config);
    session.notify("n", ()).unwrap();
    session.take_transmit(&mut Vec::new());
    // The write was due at 1 s. That is noticed 3 s late, so it gets 3 s more.
    session.handle_timeout(at(4000));
    assert_eq!(session.poll_timeout(), Some(at(7000)));
    // Progress moves the deadline to 5.5 s, so the extra time was not needed. When this deadline is
    // noticed 200 ms late, it gets extra time of its own.
    session.handle_write_progress(at(4500));
    session.handle_timeout(at(5000));
    assert_eq!(session.poll_timeout(), Some(at(5500)));
    session.handle_timeout(at(5700));
    assert_eq!(session.phase(), Phase::Open);
    assert_eq!(session.poll_timeout(), Some(at(5900)));
    session.handle_timeout(at(5900));
    assert!(matches!(session.phase(), Phase::LastWords { .. }));
}
