//! The work that a service takes from a session at once.

use antiphon_net::{Work, WorkBatch};

use super::support::{Side, request};

/// What is taken at once, by a word each.
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
    // It may yet be postponed, and what is no request waits for that.
    assert_eq!(taken(&side, 9), ["request"]);
    assert_eq!(taken(&side, 9), ["notification"]);
    assert_eq!(taken(&side, 0), [""; 0]);
    assert_eq!(taken(&side, 9), ["request", "request"]);
}
