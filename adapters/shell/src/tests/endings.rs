//! However a connection ends, a waiting thread learns of it, and nothing waits without end.
//!
//! The times are the defaults: `write_timeout` 60 s, `drain_timeout` 30 s, `linger` 1 s.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use antiphon::session::Report;
use antiphon::{CloseReason, Closed, Config, Instant, OwnedOutcome, SendError};

use crate::block_on;
use crate::session::{Next, Work};

use super::hand::ByHand;
use super::support::{LONG, Side, Turn, poll_once, request, wakes};

// TRN-07 SEC-10
#[test]
fn a_write_that_stands_still_is_given_up_and_last_words_are_awaited() {
    let side = Side::default();
    let mut waiting = side.call("m");
    assert!(!side.take().is_empty());
    assert_eq!(wakes(side.wait(40_000)), Instant::from_millis(60_000));
    // A part was written, so the 60 s begin anew.
    let now = side.session.now();
    side.session
        .act(|state| state.conn.handle_write_progress(now));
    assert_eq!(wakes(side.wait(59_999)), Instant::from_millis(100_000));
    assert_eq!(side.fault(), None);
    assert_eq!(wakes(side.wait(1)), Instant::from_millis(101_000));
    assert_eq!(side.fault(), Some(io::ErrorKind::TimedOut));
    // An answer that still arrives counts.
    side.hear(r#"{"jsonrpc":"2.0","result":1,"id":1}"#);
    assert!(matches!(poll_once(&mut waiting), Some(OwnedOutcome::Ok(_))));
    let mut late = side.call("late");
    assert!(matches!(side.wait(999), Turn::Open { .. }));
    assert_eq!(side.take(), "", "nothing more is written");
    assert_eq!(side.closed(), None);
    assert_eq!(side.wait(1), Turn::Over);
    assert!(matches!(poll_once(&mut late), Some(OwnedOutcome::Aborted)));
    let why = Closed::Local(CloseReason::TransportFailed);
    assert_eq!(side.closed(), Some(why));
}

// TRN-07
#[test]
fn a_peer_that_can_be_neither_written_to_nor_read_is_not_awaited() {
    let side = Side::default();
    side.hear(r#"{"jsonrpc":"2.0","method":"n"}"#);
    assert!(side.work().is_some());
    side.notify("heard");
    side.take();
    side.session.output_failed(io::ErrorKind::BrokenPipe.into());
    assert_eq!(wakes(side.turn()), Instant::from_millis(1000));
    side.end_input();
    assert_eq!(side.turn(), Turn::Over, "though the service is at work");
    assert_eq!(side.fault(), Some(io::ErrorKind::BrokenPipe));
}

// TRN-07 CON-06
#[test]
fn output_that_is_thrown_away_ends_the_connection_at_once() {
    let mut config = Config::new();
    // So long that only the dropped output can end the connection.
    config.timeouts.drain_timeout = Some(Duration::from_secs(1_000_000));
    let side = Side::new(config);
    side.session.output_failed(io::ErrorKind::BrokenPipe.into());
    side.notify("n");
    side.peer().close(CloseReason::Done);
    assert_eq!(side.step(true), Next::Over);
}

// STD-09
#[test]
fn the_end_of_input_is_told_when_what_came_before_is_served() {
    let side = Side::default();
    side.hear(r#"{"jsonrpc":"2.0","method":"n"}"#);
    side.end_input();
    assert!(matches!(side.turn(), Turn::Open { .. }));
    assert!(matches!(side.work(), Some(Work::Notification(_))));
    assert!(matches!(side.turn(), Turn::Open { .. }), "it is at work");
    side.notify("heard");
    assert_eq!(side.closed(), None);
    assert!(side.work().is_none());
    assert!(side.written().contains("heard"));
    assert_eq!(side.turn(), Turn::Over);
    assert_eq!(side.closed(), Some(Closed::EndOfInput));
}

// STD-09 CON-06
#[test]
fn a_call_is_not_kept_waiting_for_the_service_when_the_input_has_ended() {
    let side = Side::default();
    side.hear(r#"{"jsonrpc":"2.0","method":"n"}"#);
    assert!(side.work().is_some());
    let mut waiting = side.call("m");
    side.written();
    side.end_input();
    side.turn();
    assert!(matches!(
        poll_once(&mut waiting),
        Some(OwnedOutcome::Aborted)
    ));
}

// STD-09 SEC-10
#[test]
fn a_service_that_does_not_return_keeps_the_end_for_so_long_and_no_longer() {
    let side = Side::default();
    side.hear(r#"{"jsonrpc":"2.0","method":"n"}"#);
    assert!(side.work().is_some());
    side.wait(1000);
    side.end_input();
    // Then the handler is reported, because it holds up others.
    assert_eq!(wakes(side.turn()), Instant::from_millis(5_000));
    assert_eq!(wakes(side.wait(4_000)), Instant::from_millis(31_000));
    assert!(matches!(side.wait(25_999), Turn::Open { .. }));
    assert_eq!(side.closed(), None);
    assert_eq!(side.wait(1), Turn::Over);
    assert_eq!(side.closed(), Some(Closed::EndOfInput));
}

// CON-09 SEC-10
#[test]
fn what_was_said_before_a_close_is_written_for_so_long_and_no_longer() {
    let side = Side::default();
    side.notify("last words");
    assert!(side.take().contains("last words"));
    side.peer().close(CloseReason::Done);
    assert_eq!(wakes(side.turn()), Instant::from_millis(30_000));
    assert!(matches!(side.wait(29_999), Turn::Open { .. }));
    assert_eq!(side.wait(1), Turn::Over);

    let side = Side::default();
    side.notify("last words");
    side.peer().close(CloseReason::Done);
    assert!(matches!(side.turn(), Turn::Open { .. }));
    assert!(side.written().contains("last words"));
    assert_eq!(side.turn(), Turn::Over);
}

// CON-06
#[test]
fn what_broke_a_connection_that_was_meant_to_end_is_no_fault() {
    for is_meant in [false, true] {
        let side = Side::default();
        if is_meant {
            side.peer().close(CloseReason::Done);
        }
        let reset = io::ErrorKind::ConnectionReset;
        side.session.input_ended(Some(reset.into()));
        assert_eq!(side.turn(), Turn::Over);
        assert_eq!(side.fault(), (!is_meant).then_some(reset));
    }
}

// CAN-13
#[test]
fn whoever_waits_for_a_call_is_told_when_somebody_else_gives_it_up() {
    let side = Side::default();
    let mut waiting = side.call("m");
    assert_eq!(poll_once(&mut waiting), None);
    assert!(side.peer().cancel(waiting.id()));
    assert!(!side.peer().cancel(waiting.id()), "it has settled");
    let outcome = poll_once(&mut waiting);
    assert_eq!(outcome, Some(OwnedOutcome::Aborted));
}

// CAN-13
#[test]
fn a_batch_settles_when_somebody_else_gives_one_of_its_calls_up() {
    let side = Side::default();
    let ([first, second], pending) =
        side.batch(|batch| Ok([batch.call::<u32>("a", ())?, batch.call::<u32>("b", ())?]));
    assert!(side.peer().cancel(first.call()));
    assert!(!side.peer().cancel(first.call()));
    side.hear(r#"[{"jsonrpc":"2.0","result":7,"id":2}]"#);
    let mut outcomes = poll_once(pending).expect("it has settled");
    assert_eq!(outcomes.take(first.call()), Some(OwnedOutcome::Aborted));
    assert_eq!(outcomes.fetch(second).unwrap(), 7);
}

// CAN-13 CLI-10
#[test]
fn a_batch_that_nobody_waits_for_is_given_up_and_its_place_is_anothers() {
    let side = Side::default();
    let (_, pending) = side.batch(|batch| {
        batch.call::<u32>("a", ())?;
        batch.call::<u32>("b", ())
    });
    side.hear(r#"[{"jsonrpc":"2.0","result":7,"id":1}]"#);
    drop(pending);
    assert_eq!(side.session.lock().conn.calls_open(), 0);
    let call = side.call("c");
    side.hear(r#"{"jsonrpc":"2.0","result":8,"id":2}"#);
    side.hear(r#"{"jsonrpc":"2.0","result":9,"id":3}"#);
    let Some(OwnedOutcome::Ok(result)) = poll_once(call) else {
        panic!("no result");
    };
    assert_eq!(result.as_str(), "9");
}

// CLI-10
#[test]
fn whoever_waits_for_a_batch_that_was_polled_to_its_end_gets_nothing_of_another() {
    let side = Side::default();
    let begin = || side.batch(|batch| batch.call::<u32>("a", ()));
    let (_, mut first) = begin();
    side.hear(r#"[{"jsonrpc":"2.0","result":7,"id":1}]"#);
    assert!(poll_once(&mut first).is_some());
    // The second batch uses the slot of the first.
    let (handle, second) = begin();
    side.hear(r#"[{"jsonrpc":"2.0","result":8,"id":2}]"#);
    assert!(poll_once(first).is_none());
    let mut outcomes = poll_once(second).expect("all are there");
    assert_eq!(outcomes.fetch(handle).unwrap(), 8);
}

// CON-06
#[test]
fn a_connection_that_an_answer_ends_tells_so_at_once() {
    let mut config = Config::new();
    (
        config.limits.max_outbox_bytes,
        config.limits.soft_max_outbox_bytes,
    ) = (4096, 2048);
    config.limits.max_batch_reply_bytes = 4096;
    let side = Side::new(config);
    for n in 0..4 {
        side.hear(&format!("[{},{}]", request(2 * n), request(2 * n + 1)));
    }
    let mut call = side.call("m");
    side.written();
    let (mut kept, mut held) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        kept.push(side.request().1);
        held.push(side.request().1);
    }
    // The answers wait for the other half of their batches, and exceed the output of 4096 bytes.
    let text = "x".repeat(2000);
    let answered: Vec<_> = kept
        .into_iter()
        .map(|reply| reply.ok(&text).is_ok())
        .collect();
    assert_eq!(answered.last(), Some(&false), "{answered:?}");
    // Nothing comes in and no time passes.
    assert!(matches!(
        poll_once(&mut call),
        Some(OwnedOutcome::Aborted | OwnedOutcome::Unsent)
    ));
    assert_eq!(side.turn(), Turn::Over);
}

// CAN-13 CLI-10
#[test]
fn a_call_that_nobody_waits_for_is_given_up() {
    let side = Side::new(Config::lsp());
    let waiting = side.call("m");
    side.written();
    drop(waiting);
    assert_eq!(side.session.lock().conn.calls_open(), 0);
    assert!(side.written().contains("$/cancelRequest"));
}

// SRV-26
#[test]
fn a_request_that_is_dropped_is_answered() {
    let side = Side::default();
    side.hear(&request(1));
    side.hear(&request(2));
    let (_, dropped) = side.request();
    let (_, spawned) = side.request();
    drop(dropped);
    assert!(side.written().contains(r#""code":-32603"#));
    let (told, is_told) = mpsc::channel::<()>();
    spawned.spawn(move |_| {
        let _told = told;
        panic!("as asked");
    });
    assert!(is_told.recv_timeout(LONG).is_err());
    // The panic drops `_told`, and then the responder, which answers.
    while side.session.lock().conn.requests_open() > 0 {
        thread::yield_now();
    }
    assert!(side.written().contains(r#""code":-32603"#));
}

// CON-02
#[test]
fn an_answer_after_the_end_is_refused() {
    let side = Side::default();
    side.hear(&request(1));
    let (_, reply) = side.request();
    assert!(!reply.is_cancelled());
    side.peer().close(CloseReason::Done);
    assert_eq!(side.turn(), Turn::Over);
    side.session.finished();
    assert!(reply.is_cancelled());
    assert_eq!(reply.ok(&1), Err(SendError::Closed));
    assert_eq!(side.written(), "");
}

// CON-02
#[test]
fn whoever_waits_to_be_written_is_told_that_it_never_will_be() {
    let side = Side::default();
    side.notify("n");
    let flushed = block_on(side.peer().flush(Duration::ZERO));
    assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::TimedOut);
    side.take();
    side.session
        .output_failed(io::ErrorKind::ConnectionReset.into());
    let flushed = block_on(side.peer().flush(Duration::ZERO));
    assert_eq!(flushed.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_write_that_hangs_is_given_up_whoever_notices_first() {
    for is_heard in [false, true] {
        let side = Side::default();
        let _call = side.call("m");
        assert!(!side.take().is_empty());
        side.pass(5);
        side.notify("behind it");
        side.turn();
        // No turn comes until the time limits of both writes have passed, and something else reaches the
        // connection before that turn.
        side.pass(70_000);
        if is_heard {
            side.hear(&request(1));
        } else {
            side.session.report(Report::Panicked(None));
        }
        // The clock has jumped, so the peer is granted as much time again, 10 s at most.
        assert_eq!(wakes(side.turn()), Instant::from_millis(80_005));
        side.wait(10_000);
        assert_eq!(side.fault(), Some(io::ErrorKind::TimedOut), "{is_heard}");
        assert_eq!(side.wait(1000), Turn::Over, "{is_heard}");
    }
}
