//! The roster of a client's connections, without real connections.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use antiphon::{CloseReason, Config, ConnectionState, Instant, ReconnectStrategy};

use super::Roster;
use crate::call::call_error::CallError;
use crate::call::pending::PendingCall;
use crate::client::config::ClientConfig;
use crate::context::Context as Facts;
use crate::options::ConnectionConfig;
use crate::peer::Peer;
use crate::runtime::threads::{block_on, threads};
use crate::session::{Carries, Session};

/// One side of a connection that nobody runs.
struct Side(Arc<Session>);

impl Default for Side {
    fn default() -> Self {
        let options = ConnectionConfig::new(Config::new());
        Self(Session::new(
            options,
            Carries::Bytes,
            Facts::new(),
            threads(),
        ))
    }
}

impl Side {
    fn peer(&self) -> Peer {
        Peer::unowned(Arc::clone(&self.0))
    }

    fn call(&self) -> PendingCall {
        block_on(self.peer().call("m", ()).no_timeout().start()).unwrap()
    }
}

/// A roster with the default options, which `change` may change.
fn roster(change: impl FnOnce(&mut ClientConfig)) -> Arc<Roster> {
    let mut options = ClientConfig::new(Config::new());
    change(&mut options);
    Arc::new(Roster::new(&Arc::new(options)).unwrap())
}

/// Whether the picked connection is that of `side`.
fn is(picked: Option<Peer>, side: &Side) -> bool {
    picked.is_some_and(|handle| Arc::ptr_eq(handle.session(), &side.0))
}

// CON-08
#[test]
fn a_call_goes_to_an_open_connection_with_the_fewest_calls() {
    let roster = roster(|options| options.connections = 3);
    assert!(roster.pick().is_none());
    let (busy, free, closed) = (Side::default(), Side::default(), Side::default());
    let _open = [busy.call(), busy.call(), free.call()];
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
    assert!(early.peer().closed().is_some());
    assert!(!roster.opened(1, late.peer(), Instant::ZERO));
    assert!(late.peer().closed().is_some());
    assert!(!roster.connecting(1));
    assert_eq!(roster.lost(1, Instant::ZERO, None), None);
}

/// A task that notes nothing.
struct Task;

impl std::task::Wake for Task {
    fn wake(self: Arc<Self>) {}
}

// CON-08 SEC-10
#[test]
fn a_caller_that_has_waited_in_vain_leaves_nothing() {
    let roster = roster(|_| {});
    let task = Arc::new(Task);
    for _ in 0..3 {
        let waiting = roster.wait(true).unwrap();
        let waker = Waker::from(Arc::clone(&task));
        assert!(waiting.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&task), 1);
}
