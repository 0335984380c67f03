//! The work that a service takes from a session at once.

use crate::session::{Work, WorkBatch};

use super::support::{Side, request};

/// The work that is taken in one go, one word for each; `requests` is how many requests may begin.
fn taken(side: &Side, requests: usize) -> Vec<&'static str> {
    let mut batch = WorkBatch::default();
    side.session.take_work(&mut batch, requests);
    let word = |work: Work| match work {
        Work::Opened => "opened",
        Work::Request(..) => "request",
        Work::Notification(_) => "notification",
        Work::Cancelled(..) => "cancelled",
        _ => "other",
    };
    batch.work.into_iter().map(word).collect()
}

// SRV-20
#[test]
fn requests_are_taken_together_and_nothing_behind_what_has_to_be_done_with_first() {
    let note = r#"{"jsonrpc":"2.0","method":"n"}"#;
    let side = Side::default();
    for line in [&request(1), &request(2), note, &request(3), &request(4)] {
        side.hear(line);
    }
    assert_eq!(taken(&side, 9), ["opened"]);
    assert_eq!(taken(&side, 1), ["request"]);
    // The notification is not taken with the request before it, because that may still be postponed.
    assert_eq!(taken(&side, 9), ["request"]);
    assert_eq!(taken(&side, 9), ["notification"]);
    assert_eq!(taken(&side, 0), [""; 0]);
    assert_eq!(taken(&side, 9), ["request", "request"]);
}
