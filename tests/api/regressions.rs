//! One small test for each bug of the core that fuzzing, simulation or reading has found, named after what broke.

use std::time::Duration;

use antiphon::{
    CloseReason, Config, Connection, Event, Framing, Id, Input, Instant, Json, NullIdError,
    Outcome, UnmatchedKind,
};

/// The calls that this input settles: the number of each, and how it ended.
fn parts(conn: &mut Connection<u64>, input: &[u8]) -> Vec<(u64, String)> {
    let mut input = Input::stream(input);
    let mut settled = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Response(response) = event {
            let outcome = match response.outcome {
                Outcome::Err(error) => format!("error {}", error.code()),
                outcome => format!("{outcome:?}"),
            };
            settled.push((response.call.number(), outcome));
        }
    }
    settled
}

// ARC-04
#[test]
fn a_call_that_is_over_leaves_no_wake_up_behind() {
    let mut conn: Connection<u64> = Connection::new(Config::new());
    conn.call("ask", (), Some(Instant::from_millis(5)), 0)
        .unwrap();
    conn.handle_timeout(Instant::from_millis(10));
    conn.close(CloseReason::Done);
    parts(&mut conn, b"");
    assert_eq!(conn.poll_timeout(), None);
}

// CLI-28
#[test]
fn an_error_reply_that_outlives_dropped_calls_does_not_make_them_sent() {
    let mut conn: Connection<u64> = Connection::new(Config::new());
    conn.call("ask", (), None, 0).unwrap();
    let answered = parts(&mut conn, b"[]\n");
    assert!(answered.is_empty());
    conn.close(CloseReason::Done);
    conn.consume_transmit(1);
    assert_eq!(parts(&mut conn, b""), [(1, "Unsent".to_string())]);
}

// SRV-26
#[test]
fn dropped_calls_take_their_write_deadline_along() {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(Duration::from_secs(1));
    let mut conn: Connection<u64> = Connection::new(config);
    let mut input = Input::stream(b"{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":1}\n");
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("a request is delivered");
    };
    conn.call("ask", (), None, 0).unwrap();
    conn.handle_eof();
    parts(&mut conn, b"");
    assert_eq!(conn.poll_transmit(), None);
    assert_eq!(conn.poll_timeout(), None);
    conn.handle_timeout(Instant::from_millis(60_000));
    parts(&mut conn, b"");
    // A server finishes its work after the end of input, however long it takes.
    conn.respond(request.token, &1).unwrap();
    assert!(conn.poll_transmit().is_some());
}

// SRV-16
#[test]
fn a_long_batch_is_answered_wherever_its_calls_stand() {
    let mut config = Config::new();
    config.limits.max_batch_items = 1;
    let mut conn: Connection<u64> = Connection::new(config);
    parts(
        &mut conn,
        b"[7,{\"jsonrpc\":\"2.0\",\"method\":\"ask\",\"id\":1}]\n",
    );
    let reply = std::str::from_utf8(conn.poll_transmit().unwrap()).unwrap();
    assert!(reply.contains("-32003"), "{reply}");
}

// MSG-20
#[test]
fn a_long_batch_of_answers_is_not_answered() {
    let mut config = Config::new();
    config.limits.max_batch_items = 1;
    let mut conn: Connection<u64> = Connection::new(config);
    let answer = "{\"jsonrpc\":\"2.0\",\"result\":1,\"id\":1}";
    parts(&mut conn, format!("[{answer},{answer}]\n").as_bytes());
    assert_eq!(conn.poll_transmit(), None);
}

// CLI-11
#[test]
fn an_error_for_all_settles_all_however_old_they_are() {
    let mut config = Config::new().framing(Framing::Messages);
    config.dialect.null_id_error = NullIdError::FailAll;
    let mut conn: Connection<u64> = Connection::new(config);
    // Calls are kept in a ring of eight slots: calls 5, 12 and 19 are in slots 5, 4 and 3, so that the
    // ring has the newest first.
    while conn.calls_open() < 3 {
        let call = conn.call("ask", (), None, 0).unwrap();
        if ![5, 12, 19].contains(&call.number()) {
            conn.cancel(call);
        }
    }
    let error = br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"},"id":null}"#;
    let mut settled = Vec::new();
    let mut input = Input::message(error);
    loop {
        let (done, event) = (input.consumed() == error.len(), conn.poll_event(&mut input));
        match event {
            Some(Event::Response(response)) => settled.push(response.call.number()),
            Some(event) => panic!("{event:?}"),
            None if done => break,
            None => {}
        }
    }
    settled.sort_unstable();
    assert_eq!(settled, [5, 12, 19]);
}

// ARC-07
#[test]
fn a_drain_that_a_stalled_write_overtook_leaves_no_deadline_behind() {
    let mut config = Config::new();
    config.timeouts.write_timeout = Some(Duration::from_secs(1));
    config.timeouts.drain_timeout = Some(Duration::from_secs(1));
    let mut conn: Connection<u64> = Connection::new(config);
    conn.notify("n", ()).unwrap();
    conn.handle_eof();
    conn.drain();
    while conn.poll_event(&mut Input::none()).is_some() {}
    conn.handle_timeout(Instant::from_millis(1000));
    while conn.poll_event(&mut Input::none()).is_some() {}
    assert_eq!(conn.poll_timeout(), None);
    assert!(conn.is_closed());
}

// CLI-08
#[test]
fn a_refused_call_does_not_use_up_the_number_that_it_passed_over() {
    for in_batch in [false, true] {
        let mut conn: Connection<u64> = Connection::new(Config::new());
        let two = Id::new(Json::parse_str("2").unwrap()).unwrap();
        conn.call_with_id(two, "ask", (), None, 0).unwrap();
        // The number 2 is passed over, because it is spelled like the chosen id; then the params are
        // refused.
        if in_batch {
            let mut batch = conn.batch(None);
            assert!(batch.call::<()>("ask", &7, 1).is_err());
        } else {
            assert!(conn.call("ask", &7, None, 1).is_err());
        }
        let answer = br#"{"jsonrpc":"2.0","result":1,"id":2}"#;
        assert_eq!(parts(&mut conn, &[answer, &b"\n"[..]].concat()).len(), 1);
        let mut again = Input::message(answer);
        let Some(Event::UnmatchedResponse(unmatched)) = conn.poll_event(&mut again) else {
            panic!("it answers nothing any more");
        };
        assert!(
            matches!(unmatched.kind, UnmatchedKind::Unknown(_)),
            "{unmatched:?}"
        );
    }
}

// ARC-06
#[test]
fn a_deadline_of_a_call_that_has_settled_does_not_hide_the_next_calls() {
    let mut conn: Connection<u64> = Connection::new(Config::new());
    let first = conn.call("ask", (), Some(Instant::from_millis(10)), 0);
    assert!(first.is_ok());
    let answer = br#"{"jsonrpc":"2.0","result":1,"id":1}"#;
    assert_eq!(parts(&mut conn, &[answer, &b"\n"[..]].concat()).len(), 1);
    // The time of the settled call passes while nothing is open.
    conn.handle_timeout(Instant::from_millis(20));
    assert!(conn.poll_event(&mut Input::stream(b"")).is_none());
    let later = Instant::from_millis(50);
    conn.call("ask", (), Some(later), 1).unwrap();
    conn.consume_transmit(usize::MAX);
    assert_eq!(conn.poll_timeout(), Some(later));
}

#[test]
fn a_message_behind_one_that_was_skipped_has_a_time_of_its_own() {
    for (framing, end) in [
        (Framing::Newline, &b"3,4,5,6,7,8]\n["[..]),
        (Framing::Concatenated, b"3,4,5,6,7,8]["),
        (Framing::ContentLength, b"3,4,5,6,7,8]Content-Le"),
    ] {
        let begin = match framing {
            Framing::ContentLength => &b"Content-Length: 17\r\n\r\n[1,2,"[..],
            _ => b"[1,2,",
        };
        let mut config = Config::new().framing(framing);
        config.limits.max_message_bytes = 10;
        config.timeouts.write_timeout = None;
        let mut conn: Connection<u64> = Connection::new(config);
        let mut buffer = begin.to_vec();
        let mut show = |conn: &mut Connection<u64>, more: &[u8], seconds: u64| {
            buffer.extend_from_slice(more);
            conn.handle_timeout(Instant::from_millis(seconds * 1000));
            let mut input = Input::stream(&buffer);
            while conn.poll_event(&mut input).is_some() {}
            let taken = input.consumed();
            buffer.drain(..taken);
            conn.handle_timeout(Instant::from_millis(seconds * 1000));
            conn.poll_timeout()
        };
        let first = Some(Instant::from_millis(60_000));
        assert_eq!(show(&mut conn, b"", 0), first, "{framing:?}");
        let second = Some(Instant::from_millis(110_000));
        assert_eq!(show(&mut conn, end, 50), second, "{framing:?}");
    }
}

// CLI-28 USE-25: its peer has not seen the call, so the error is about another message
#[test]
fn an_error_over_a_limit_does_not_settle_a_call_that_was_not_delivered() {
    let mut conn: Connection<u64> = Connection::new(Config::new().framing(Framing::Messages));
    conn.call("m", (), None, 7).expect("there is room");
    conn.fail_transmit();
    let error =
        r#"{"jsonrpc":"2.0","error":{"code":-32004,"message":"Request too large"},"id":null}"#;
    let mut input = Input::text(error);
    let event = conn.poll_event(&mut input);
    assert!(
        matches!(event, Some(Event::UnmatchedResponse(_))),
        "{event:?}"
    );
    let Some(Event::Response(settled)) = conn.poll_event(&mut input) else {
        panic!("the call is over");
    };
    assert!(matches!(settled.outcome, Outcome::Unsent), "{settled:?}");
}
