//! Deadlines, wake-ups, and commands after two ends in every order.

use std::collections::BTreeMap;

use antiphon::{
    CloseReason, Closed, Config, Connection, Event, Framing, Input, Instant, Outcome, SendError,
};
use antiphon_test_support::random::Random;

use crate::{connection, drained, request, written};

// CLI-06 ARC-04
#[test]
fn no_call_times_out_early_and_the_next_wake_up_lies_ahead() {
    let mut conn = connection(0);
    let mut open: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut random, mut now) = (Random::new(7), 0u64);
    for _ in 0..3000 {
        let mut out = Vec::new();
        while conn.take_transmit(&mut out) {}
        let at = now + 1 + random.below(500);
        let call = conn
            .call("m", (), Some(Instant::from_nanos(at)), 0)
            .unwrap();
        open.insert(call.number(), at);
        if random.below(3) == 0 {
            // Some call is answered, or the newest one gets another deadline.
            let number = *open
                .keys()
                .nth(random.below(open.len() as u64) as usize)
                .unwrap();
            let later = now + 1 + random.below(2000);
            match random.below(2) {
                0 if number == call.number() => {
                    conn.set_deadline(call, Some(Instant::from_nanos(later)))
                        .unwrap();
                    open.insert(number, later);
                }
                _ => {
                    let reply = format!("{{\"jsonrpc\":\"2.0\",\"result\":0,\"id\":{number}}}");
                    let event = conn.poll_event(&mut Input::message(reply.as_bytes()));
                    assert!(matches!(event, Some(Event::Response(_))));
                    open.remove(&number);
                }
            }
        }
        let earliest = open.values().min().map(|&at| Instant::from_nanos(at));
        match (conn.poll_timeout(), earliest) {
            (Some(wake), Some(earliest)) => assert!(wake <= earliest, "{wake:?} {earliest:?}"),
            (None, Some(earliest)) => panic!("no wake-up for {earliest:?}"),
            _ => {}
        }
        now += random.below(100);
        conn.handle_timeout(Instant::from_nanos(now));
        while let Some(event) = conn.poll_event(&mut Input::none()) {
            let Event::Response(response) = event else {
                panic!("only deadlines can have passed");
            };
            assert!(matches!(response.outcome, Outcome::TimedOut));
            let at = open.remove(&response.call.number()).unwrap();
            assert!(at <= now, "it fired {} ns early", at - now);
        }
        assert!(open.values().all(|&at| at > now), "what is due was told");
        assert!(
            conn.poll_timeout()
                .is_none_or(|wake| wake > Instant::from_nanos(now))
        );
    }
}

// ARC-07 ARC-20 CON-06
#[test]
fn every_command_is_legal_after_the_end_in_any_order() {
    let ends: [fn(&mut Connection<u32>); 4] = [
        |conn| conn.close(CloseReason::Other("test")),
        |conn| conn.handle_eof(),
        |conn| conn.drain(),
        |conn| {
            let _ = conn.poll_event(&mut Input::stream(b"{"));
            conn.handle_eof();
            let _ = conn.poll_event(&mut Input::stream(b"{"));
        },
    ];
    for (first, end) in ends.into_iter().enumerate() {
        for (second, again) in ends.into_iter().enumerate() {
            let mut conn = connection(0);
            let call = conn.call("m", (), None, 1).unwrap();
            let token = request(&mut conn);
            end(&mut conn);
            again(&mut conn);
            assert_eq!(conn.call("m", (), None, 2).unwrap_err().value, 2);
            assert_eq!(conn.batch(None).send(), Err(SendError::Closed));
            let _ = conn.notify("m", ());
            let _ = conn.ask_cancel(call);
            let _ = conn.set_deadline(call, Some(Instant::ZERO));
            let _ = conn.respond(token, &1);
            conn.fail_transmit();
            conn.handle_timeout(Instant::FAR_FUTURE);
            drained(&mut conn);
            written(&mut conn);
            drained(&mut conn);
            assert_eq!(conn.calls_open(), 0, "every call has settled");
            assert!(conn.is_closed(), "after end {first}, then end {second}");
            conn.close(CloseReason::Done);
            assert_eq!(drained(&mut conn).len(), 0, "Closed is told once");
        }
    }
}

// ARC-04 ARC-07 CLI-06
#[test]
fn the_far_future_is_a_time_like_any_other() {
    let mut conn = connection(0);
    for deadline in [None, Some(Instant::FAR_FUTURE), Some(Instant::ZERO)] {
        conn.call("m", (), deadline, 0).unwrap();
    }
    written(&mut conn);
    conn.handle_timeout(Instant::FAR_FUTURE);
    let events = drained(&mut conn);
    assert_eq!(events.len(), 1, "only the call with a deadline: {events:?}");
    assert_eq!((conn.calls_open(), conn.poll_timeout()), (2, None));
    conn.notify("still open", ()).unwrap();
    written(&mut conn);
    assert_eq!(drained(&mut conn).len(), 0);
}

// ARC-20
#[test]
fn the_first_reason_for_the_end_holds() {
    let mut conn = connection(0);
    conn.close(CloseReason::GoingAway);
    conn.close(CloseReason::Done);
    conn.handle_eof();
    let event = conn.poll_event(&mut Input::none());
    assert!(matches!(
        event,
        Some(Event::Closed(Closed::Local(CloseReason::GoingAway)))
    ));
}

// ARC-04
#[test]
fn a_clock_that_steps_back_shortens_no_span() {
    let mut conn = connection(1);
    let at = |seconds: u64| Instant::from_millis(seconds * 1000);
    let mut input = Input::text(r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    assert!(matches!(
        conn.poll_event(&mut input),
        Some(Event::Request(_))
    ));
    conn.handle_timeout(at(100));
    conn.handle_timeout(at(10));
    conn.drain();
    assert_eq!(
        conn.poll_timeout(),
        Some(at(130)),
        "30 s from the latest time told"
    );
    conn.handle_timeout(at(129));
    assert!(conn.poll_event(&mut Input::none()).is_none());
}

#[test]
fn a_message_has_its_time_from_its_first_byte_on_and_blanks_are_none() {
    for framing in [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Detect,
    ] {
        let config = Config::new().framing(framing);
        // The first byte of a message: of a header, of a byte-order mark, of an object.
        let first = match framing {
            Framing::ContentLength => &b"C"[..],
            Framing::Detect => b"\xEF",
            _ => b"{",
        };
        for (shown, is_begun) in [(&b""[..], false), (b"\r\n", false), (first, true)] {
            let mut conn: Connection<u32> = Connection::new(config);
            conn.handle_timeout(Instant::from_millis(1));
            assert!(conn.poll_event(&mut Input::stream(shown)).is_none());
            let due = is_begun.then(|| Instant::from_millis(60_001));
            assert_eq!(conn.poll_timeout(), due, "{framing:?} {shown:?}");
        }
    }
}
