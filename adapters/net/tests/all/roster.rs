//! The roster of a client's connections, without real connections.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::{
    CloseReason, ConnectionState, Instant, OwnedOutcome, ReconnectStrategy, Retries, Retry,
    SendError,
};
use antiphon_net::{CallError, Peer, ReconnectConfig, Roster, judge_ended};

use super::support::Side;

/// A roster with the default options, which `change` may change.
fn roster(change: impl FnOnce(&mut ReconnectConfig)) -> Arc<Roster> {
    let mut options = ReconnectConfig::default();
    change(&mut options);
    Arc::new(Roster::new(options).unwrap())
}

/// Whether the picked connection is that of `side`.
fn is(picked: Option<Peer>, side: &Side) -> bool {
    picked.is_some_and(|handle| Arc::ptr_eq(handle.session(), &side.session))
}

// CON-08
#[test]
fn a_call_goes_to_an_open_connection_with_the_fewest_calls() {
    let roster = roster(|options| options.connections = 3);
    assert!(roster.pick().is_none());
    let (busy, free, closed) = (Side::default(), Side::default(), Side::default());
    let _open = [busy.call("m"), busy.call("m"), free.call("m")];
    for (number, side) in [&busy, &free, &closed].into_iter().enumerate() {
        assert!(roster.opened(number, side.peer(), Instant::ZERO));
    }
    assert!((0..5).all(|_| is(roster.pick(), &closed)));
    closed.peer().close(CloseReason::Done);
    assert_eq!(roster.states()[2], ConnectionState::Closing);
    assert!((0..5).all(|_| is(roster.pick(), &free)));
}

// CON-08 SEC-10
#[test]
fn only_so_many_new_calls_wait_for_a_connection_and_repeated_ones_always() {
    // `false` is a new call, `true` one that is repeated. By default no new call waits.
    let none = roster(|_| {});
    assert!(none.wait(false).is_err());
    assert!(none.wait(true).is_ok());
    let two = roster(|options| options.max_waiting_calls = 2);
    let (one, again) = (two.wait(false), two.wait(true));
    assert!(one.is_ok() && again.is_ok());
    assert!(two.wait(false).is_err());
    drop(again);
    assert!(two.wait(false).is_ok());
}

// CON-05 CON-08
#[test]
fn nobody_waits_any_more_when_the_last_attempt_has_failed() {
    let roster = roster(|options| {
        options.connections = 2;
        options.reconnect = ReconnectStrategy::Fixed {
            delay: Duration::from_secs(1),
            max_attempts: 1,
        };
    });
    let waiting = roster.wait(true).unwrap();
    let none = |ended| matches!(ended, Err(CallError::NoConnection(_)));
    let mut cx = Context::from_waker(Waker::noop());
    for number in 0..2 {
        let next = roster.lost(number, Instant::ZERO, None);
        assert_eq!(next, Some(Instant::from_millis(1000)));
    }
    assert!(waiting.poll(&mut cx).is_pending());
    assert!(none(Err(waiting.timed_out())), "none in time");
    assert_eq!(roster.lost(0, Instant::from_millis(1000), None), None);
    assert!(
        waiting.poll(&mut cx).is_pending(),
        "the other one may still open"
    );
    assert_eq!(roster.lost(1, Instant::from_millis(1000), None), None);
    let Poll::Ready(ended) = waiting.poll(&mut cx) else {
        panic!("nothing more will come");
    };
    assert!(none(ended));
}

// CON-05 CON-09
#[test]
fn a_client_that_is_closed_makes_no_connection_and_keeps_none() {
    let roster = roster(|options| options.connections = 2);
    let (early, late) = (Side::default(), Side::default());
    assert!(roster.opened(0, early.peer(), Instant::ZERO));
    roster.close();
    assert!(early.closed().is_some());
    assert!(!roster.opened(1, late.peer(), Instant::ZERO));
    assert!(late.closed().is_some());
    assert!(!roster.connecting(1));
    assert_eq!(roster.lost(1, Instant::ZERO, None), None);
}

// CON-04
#[test]
fn a_call_is_sent_again_only_if_that_does_no_harm() {
    for (ended, plain, idempotent) in [
        (Ok(OwnedOutcome::Unsent), true, true),
        (Ok(OwnedOutcome::Aborted), false, true),
        (Ok(OwnedOutcome::TimedOut), false, false),
        (Err(CallError::Rejected(SendError::Closed)), true, true),
        (Err(CallError::Rejected(SendError::Full)), false, false),
    ] {
        let retry = Retry::new();
        let mut retries = Retries::new(&retry);
        let mut is_again =
            |is_idempotent| judge_ended(&mut retries, &ended, is_idempotent, 0).is_some();
        assert_eq!(is_again(false), plain, "{ended:?}");
        assert_eq!(is_again(true), idempotent, "{ended:?}");
    }
    // A call that ends every connection over which it is sent is not sent for ever.
    let mut options = ReconnectConfig::default();
    options.retry.max_resends = 2;
    let roster = Roster::new(options).unwrap();
    let mut retries = roster.retries();
    let mut is_again = |outcome| judge_ended(&mut retries, &Ok(outcome), true, 0).is_some();
    let again = [(); 4].map(|()| is_again(OwnedOutcome::Aborted));
    assert_eq!(again, [true, true, false, false]);
    assert!(is_again(OwnedOutcome::Unsent), "it was not sent");
}
