//! Progress of our calls, in virtual time.

use super::*;
use crate::ProgressStyle;

/// A configuration whose dialect has progress.
fn telling() -> Config {
    Config::new().progress(ProgressStyle::Lsp)
}

/// The peer's notification of progress.
fn told(token: &str, value: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"$/progress","params":{{"token":{token},"value":{value}}}}}"#
    )
}

/// Takes all progress: the number of each call, and the value.
fn progress(session: &mut Session<u32>) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some((call, value)) = session.poll_progress() {
        all.push((call.number(), value.as_str().to_string()));
    }
    all
}

// USE-21
#[test]
fn progress_comes_to_its_call_and_no_other() {
    let mut session = idle(telling());
    let one = session.call("c", (), None, 1).unwrap();
    let two = session.call("c", (), None, 2).unwrap();
    session.watch_progress(one, "a", None);
    session.watch_progress(two, "b", None);
    for (token, value) in [("\"b\"", "1.0"), ("\"\\u0061\"", "[2]"), ("\"b\"", "{}")] {
        line(&mut session, &told(token, value));
    }
    assert_eq!(work(&mut session), [""; 0]);
    let (a, b) = (one.number(), two.number());
    let expected = [(b, "1.0"), (a, "[2]"), (b, "{}")].map(|(call, value)| (call, value.into()));
    assert_eq!(progress(&mut session), expected);
    // Progress under a token that no call has, or of another form, is passed to the service.
    let others = [
        told("\"c\"", "1"),
        told("7", "1"),
        told("[\"a\"]", "1"),
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"a"}}"#.into(),
        r#"{"jsonrpc":"2.0","method":"$/progress","params":["a",1]}"#.into(),
        r#"{"jsonrpc":"2.0","method":"$/progress"}"#.into(),
    ];
    for other in &others {
        line(&mut session, other);
    }
    assert_eq!(work(&mut session), ["notification $/progress"; 6]);
    assert_eq!(progress(&mut session), []);
}

// USE-21
#[test]
fn progress_of_a_call_that_has_ended_is_a_notification_like_others() {
    let mut session = idle(telling());
    let one = session.call("c", (), None, 1).unwrap();
    let two = session.call("c", (), None, 2).unwrap();
    let three = session.call("c", (), Some(at(1000)), 3).unwrap();
    for (call, token) in [(one, "a"), (two, "b"), (three, "c")] {
        session.watch_progress(call, token, None);
    }
    output(&mut session);
    line(&mut session, &told("\"a\"", "1"));
    line(&mut session, r#"{"jsonrpc":"2.0","result":null,"id":1}"#);
    line(&mut session, &told("\"a\"", "2"));
    assert_eq!(session.cancel(two), Some(2));
    line(&mut session, &told("\"b\"", "3"));
    session.handle_timeout(at(1000));
    line(&mut session, &told("\"c\"", "4"));
    // Progress that came before the answer can still be taken.
    assert_eq!(progress(&mut session), [(one.number(), "1".into())]);
    assert_eq!(work(&mut session), ["notification $/progress"; 3]);
}

// USE-21
#[test]
fn progress_moves_the_deadline_of_its_call_as_far_as_it_may() {
    let mut session = idle(telling());
    let call = session.call("c", (), Some(at(1000)), 1).unwrap();
    let (timeout, until) = (SECOND, at(2500));
    session.watch_progress(call, "a", Some(Extend { timeout, until }));
    let other = session.call("c", (), Some(at(2000)), 2).unwrap();
    session.watch_progress(other, "b", None);
    output(&mut session);
    for (now, token) in [(900, "\"a\""), (1100, "\"b\""), (1800, "\"a\"")] {
        session.handle_time(at(now));
        line(&mut session, &told(token, "1"));
        session.handle_timeout(at(now));
        assert_eq!(outcomes(&mut session), []);
    }
    // Progress does not extend call 2, and extends call 1 only up to its latest deadline.
    session.handle_timeout(at(2000));
    assert_eq!(outcomes(&mut session), [(2, OwnedOutcome::TimedOut)]);
    assert_eq!(session.poll_timeout(), Some(at(2500)));
    session.handle_timeout(at(2500));
    assert_eq!(outcomes(&mut session), [(1, OwnedOutcome::TimedOut)]);
}

// USE-21
#[test]
fn without_progress_in_the_dialect_all_notifications_are_for_the_service() {
    let mut session = idle(Config::new());
    let call = session.call("c", (), None, 1).unwrap();
    session.watch_progress(call, "a", None);
    line(&mut session, &told("\"a\"", "1"));
    assert_eq!(work(&mut session), ["notification $/progress"]);
}

// USE-21
#[test]
fn progress_that_nobody_takes_is_bounded_and_the_oldest_is_dropped() {
    let told_to = |max_messages: usize, max_bytes: usize, values: &[&str]| {
        let mut config = SessionConfig::from(telling());
        (config.max_queued_messages, config.max_queued_bytes) = (max_messages, max_bytes);
        let mut session = idle(config);
        let call = session.call("c", (), None, 1).unwrap();
        session.watch_progress(call, "a", None);
        for value in values {
            line(&mut session, &told("\"a\"", value));
        }
        let all = progress(&mut session).into_iter();
        all.map(|(_, value)| value).collect::<Vec<_>>()
    };
    assert_eq!(told_to(3, 100, &["1", "2", "3"]), ["1", "2", "3"]);
    assert_eq!(told_to(2, 100, &["1", "2", "3"]), ["2", "3"]);
    assert_eq!(told_to(9, 6, &["11", "22", "33"]), ["11", "22", "33"]);
    assert_eq!(told_to(9, 5, &["11", "22", "33"]), ["22", "33"]);
    // The newest is always kept.
    assert_eq!(told_to(0, 0, &["11", "22"]), ["22"]);
    // What was taken does not count any more.
    let mut config = SessionConfig::from(telling());
    (config.max_queued_messages, config.max_queued_bytes) = (1, 2);
    let mut session = idle(config);
    let call = session.call("c", (), None, 1).unwrap();
    session.watch_progress(call, "a", None);
    for value in ["11", "22", "33"] {
        line(&mut session, &told("\"a\"", value));
        assert_eq!(progress(&mut session), [(call.number(), value.into())]);
    }
}
