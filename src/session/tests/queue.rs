//! What waits for the service, and when reading pauses for it.

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
    assert!(!session.may_read());
    assert_eq!(work(&mut session), ["notification n"; 3]);
    assert!(session.may_read());
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
    assert!(session.may_read());
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
    config.max_queued_bytes = 70;
    let mut session = idle(config);
    for _ in 0..4 {
        line(&mut session, N);
    }
    line(&mut session, M1);
    assert!(session.may_read());
    assert!(output(&mut session).contains("-32002"));
    let seen = work(&mut session);
    assert_eq!(seen[..2], ["notification n"; 2]);
    assert_eq!(seen[2], "report: 2 messages dropped");
    assert!(seen[3].ends_with("too many bytes wait: m (id 1) after 0 ms"));
    assert_eq!(seen.len(), 4);
}
