//! Rare cases that were found by reading the core line by line: several ends at once, limits of
//! zero, timeouts, and the cost of ending much at once.

use core::time::Duration;

use antiphon::{
    Closed, Config, Connection, Event, Framing, Id, Input, Instant, Json, LimitErrors, Outcome,
};

const CALL: &str = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
const TELL: &str = r#"{"jsonrpc":"2.0","method":"m"}"#;

/// Takes all events, as debug text.
fn drain<T>(conn: &mut Connection<T>, input: &mut Input<'_>) -> Vec<String>
where
    T: core::fmt::Debug,
{
    let mut events = Vec::new();
    while let Some(event) = conn.poll_event(input) {
        events.push(format!("{event:?}"));
    }
    events
}

/// Takes all output.
fn sent<T>(conn: &mut Connection<T>) -> String {
    let (mut all, mut part) = (String::new(), Vec::new());
    while conn.take_transmit(&mut part) {
        all.push_str(core::str::from_utf8(&part).unwrap());
        part.clear();
    }
    all
}

#[test]
fn a_busy_stream_whose_reads_end_inside_messages_is_not_a_stalled_one() {
    let mut conn: Connection = Connection::new(Config::new());
    let line = format!("{TELL}\n");
    let (head, tail) = line.split_at(10);
    conn.handle_timeout(Instant::ZERO);
    drain(&mut conn, &mut Input::stream(head.as_bytes()));
    // Every read ends one message and begins the next; none takes longer than a second.
    let mut received = head.to_owned();
    for second in 1..200 {
        received.push_str(tail);
        received.push_str(head);
        conn.handle_timeout(Instant::from_millis(second * 1000));
        let mut input = Input::stream(received.as_bytes());
        let events = drain(&mut conn, &mut input);
        let consumed = input.consumed();
        assert_eq!(events.len(), 1, "second {second}: {events:?}");
        received.drain(..consumed);
    }
    // One that does stall times out 60 s after its own first bytes, which came at second 199.
    conn.handle_timeout(Instant::from_millis(199_000 + 59_999));
    assert!(drain(&mut conn, &mut Input::stream(received.as_bytes())).is_empty());
    conn.handle_timeout(Instant::from_millis(199_000 + 60_000));
    let events = drain(&mut conn, &mut Input::stream(received.as_bytes()));
    assert!(events[0].contains("MessageTimedOut"), "{events:?}");
}

#[test]
fn an_oversize_first_message_is_answered_in_the_framing_it_shows() {
    let mut config = Config::new().framing(Framing::Detect);
    config.limits.max_message_bytes = 10;
    let mut conn: Connection = Connection::new(config);
    drain(
        &mut conn,
        &mut Input::stream(b"Content-Length: 1000\r\n\r\n"),
    );
    assert!(sent(&mut conn).starts_with("Content-Length: "));
}

#[test]
fn the_end_of_time_ends_only_what_has_a_deadline() {
    let mut config = Config::new();
    config.timeouts.write_timeout = None;
    let mut conn = Connection::new(config);
    conn.call("m", (), None, "patient").unwrap();
    conn.call("m", (), Some(Instant::from_nanos(5)), "hasty")
        .unwrap();
    conn.handle_timeout(Instant::FAR_FUTURE);
    let events = drain(&mut conn, &mut Input::none());
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("hasty"));
    assert_eq!(conn.calls_open(), 1);
    assert_eq!(conn.poll_timeout(), None);
}

#[test]
fn a_batch_left_half_read_does_not_keep_the_end_of_input_from_settling_calls() {
    let batch = format!("[{CALL},{CALL}]");
    let mut conn = Connection::new(Config::new());
    conn.call("m", (), None, "ours").unwrap();
    sent(&mut conn);
    let first = conn.poll_event(&mut Input::message(batch.as_bytes()));
    assert!(matches!(first, Some(Event::Request(_))));
    drop(first);
    conn.handle_eof();
    let events = drain(&mut conn, &mut Input::none());
    assert!(events[0].contains("Aborted"), "{events:?}");
    assert!(events[1].starts_with("Closed(EndOfInput"), "{events:?}");
    assert_eq!(conn.requests_open(), 1);
}

#[test]
fn a_batch_over_its_limit_echoes_only_what_is_an_id_of_a_call() {
    let mut config = Config::new();
    config.dialect.limit_errors = LimitErrors::FirstCall;
    config.limits.max_batch_items = 2;
    let mut conn: Connection = Connection::new(config);
    let bad = r#"{"jsonrpc":"2.0","method":"m","id":{"a":
        1}}"#;
    let batch = format!("[{bad},{},{TELL}]", CALL.replace(":1}", ":7}"));
    drain(&mut conn, &mut Input::message(batch.as_bytes()));
    let sent = sent(&mut conn);
    assert_eq!(sent.matches('\n').count(), 1, "{sent}");
    assert!(sent.contains(r#""id":7}"#), "{sent}");
}

#[test]
fn braces_are_escaped_in_every_kind_of_answer() {
    let mut config = Config::new();
    config.dialect.escape_braces = true;
    config.limits.max_batch_items = 1;
    config.dialect.limit_errors = LimitErrors::FirstCall;
    let call = r#"{"jsonrpc":"2.0","method":"m","id":"{"}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1},"id":"{"}"#;
    for message in [cancel.to_owned(), format!("[{call},{call}]")] {
        let mut conn: Connection = Connection::new(config);
        drain(&mut conn, &mut Input::message(message.as_bytes()));
        let sent = sent(&mut conn);
        assert!(sent.contains(r#""id":"\u007b""#), "{sent}");
    }
}

#[test]
fn a_drain_that_takes_too_long_ends_open_work_after_the_end_of_input_too() {
    let mut conn: Connection = Connection::new(Config::new());
    let line = format!("{CALL}\n");
    let request = conn.poll_event(&mut Input::stream(line.as_bytes()));
    assert!(matches!(request, Some(Event::Request(_))));
    drop(request);
    conn.drain();
    conn.handle_eof();
    let events = drain(&mut conn, &mut Input::none());
    assert!(events[0].starts_with("Closed(EndOfInput"), "{events:?}");
    let wake_up = conn.poll_timeout().expect("a drain has an end");
    conn.handle_timeout(wake_up);
    let events = drain(&mut conn, &mut Input::none());
    assert!(events[0].starts_with("Cancelled"), "{events:?}");
    assert!(conn.is_closed());
    assert_eq!(conn.poll_timeout(), None);
}

#[test]
fn failing_and_closing_cost_no_more_than_there_is_to_settle() {
    // Were either quadratic, this would take minutes.
    let mut config = Config::new().framing(Framing::Messages);
    config.limits.max_open_calls = 200_000;
    config.limits.max_open_requests = 200_000;
    config.limits.soft_max_outbox_bytes = usize::MAX;
    config.limits.max_outbox_bytes = usize::MAX;
    let mut conn = Connection::new(config);
    for tag in 0..200_000 {
        conn.call("m", (), None, tag).unwrap();
        // Every other message is written, so that the failed ones are not one range of numbers.
        if tag % 2 == 0 {
            conn.fail_transmit();
        } else {
            conn.consume_transmit(usize::MAX);
        }
    }
    let mut unsent = 0;
    while let Some(Event::Response(response)) = conn.poll_event(&mut Input::none()) {
        assert!(matches!(response.outcome, Outcome::Unsent));
        unsent += 1;
    }
    assert_eq!(unsent, 100_000);
    for _ in 0..200_000 {
        conn.poll_event(&mut Input::message(CALL.as_bytes()));
    }
    conn.close(antiphon::CloseReason::Done);
    let (mut cancelled, mut settled) = (0, 0);
    while let Some(event) = conn.poll_event(&mut Input::none()) {
        match event {
            Event::Cancelled(_) => cancelled += 1,
            Event::Response(_) => settled += 1,
            _ => {}
        }
    }
    assert_eq!((cancelled, settled), (200_000, 100_000));
}

#[test]
fn limits_of_zero_refuse_and_never_panic() {
    let batch = format!("[{CALL}]\n");
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 12] = [
        ("max_open_calls", |c| c.limits.max_open_calls = 0),
        ("max_open_requests", |c| c.limits.max_open_requests = 0),
        ("max_batch_items", |c| c.limits.max_batch_items = 0),
        ("max_batch_calls", |c| c.limits.max_batch_calls = 0),
        ("max_batch_reply_bytes", |c| {
            c.limits.max_batch_reply_bytes = 0
        }),
        ("max_message_bytes", |c| c.limits.max_message_bytes = 0),
        ("max_header_bytes", |c| c.limits.max_header_bytes = 0),
        ("max_depth", |c| c.limits.max_depth = 0),
        ("max_id_bytes", |c| c.limits.max_id_bytes = 0),
        ("max_method_bytes", |c| c.limits.max_method_bytes = 0),
        ("outbox", |c| {
            (c.limits.soft_max_outbox_bytes, c.limits.max_outbox_bytes) = (0, 0)
        }),
        ("times", |c| {
            (c.timeouts.message_timeout, c.timeouts.write_timeout) =
                (Some(Duration::ZERO), Some(Duration::ZERO));
        }),
    ];
    for framing in [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Messages,
        Framing::Detect,
    ] {
        for (name, change) in changes {
            let mut config = Config::new().framing(framing);
            change(&mut config);
            let _ = config.max_memory_bytes();
            let mut conn = Connection::new(config);
            let _ = conn.call("m", (), Some(Instant::ZERO), 1);
            let mut ours = conn.batch(None);
            let _ = ours.call::<()>("m", (), 2);
            let _ = ours.send();
            for text in [&batch[..], CALL, "{", ""] {
                let mut input = Input::message(text.as_bytes());
                let mut requests = 0;
                while let Some(event) = conn.poll_event(&mut input) {
                    if let Event::Request(request) = event {
                        requests += 1;
                        let _ = conn.respond(request.token, &1);
                    }
                }
                // With these at 0 no request is delivered; `max_batch_items` is only about batches.
                let refuses = [
                    "max_open_requests",
                    "max_batch_items",
                    "max_message_bytes",
                    "max_id_bytes",
                    "max_method_bytes",
                ];
                let is_batch = text.starts_with('[');
                if refuses.contains(&name) && (is_batch || name != "max_batch_items") {
                    assert_eq!(requests, 0, "{name} {framing:?} {text}");
                }
            }
            conn.handle_eof();
            drain(&mut conn, &mut Input::none());
            assert_eq!(conn.calls_open(), 0, "{name}");
        }
    }
}

#[test]
fn line_breaks_never_break_lines() {
    let mut conn = Connection::new(Config::new());
    let broken = Json::parse_str("[1,\n2,\r\n{\"a\":\n\n3}]").unwrap();
    let id = Json::parse_str("\n \"x\"\n").unwrap();
    conn.call_with_id(Id::new(id).unwrap(), "a\nb", broken, None, ())
        .unwrap();
    conn.notify("n", broken).unwrap();
    let request = "{\"jsonrpc\":\"2.0\",\n\"method\":\"m\",\n\"params\":[\n1],\"id\":\n1\n}";
    let error = "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":\n1,\n\"message\":\"m\",\"data\":[\n],\n\"x\":\n1},\"id\":\"x\"}";
    let mut input = Input::message(request.as_bytes());
    let Some(Event::Request(request)) = conn.poll_event(&mut input) else {
        panic!("a request");
    };
    let owned = request.into_owned();
    conn.notify("p", owned.params()).unwrap();
    let mut input = Input::message(error.as_bytes());
    let Some(Event::Response(response)) = conn.poll_event(&mut input) else {
        panic!("a response");
    };
    let Outcome::Err(error) = response.outcome else {
        panic!("an error");
    };
    conn.notify("d", error.data().map(|data| [data]).as_ref().map(|d| d[0]))
        .unwrap();
    let error = error.into_owned();
    conn.respond_err(owned.into_token(), &error.as_error())
        .unwrap();
    let sent = sent(&mut conn);
    assert_eq!(sent.lines().count(), 5, "{sent}");
    for line in sent.lines() {
        assert!(Json::parse_str(line).is_ok(), "{line}");
    }
}

#[test]
fn each_way_to_spell_ids_is_used_up_to_its_last_number() {
    let uuid = antiphon::IdScheme::Uuid([7; 10]);
    for (scheme, last) in [
        (antiphon::IdScheme::Sequential, (1 << 53) - 1),
        (uuid, (1 << 48) - 1),
    ] {
        let mut config = Config::new();
        config.first_call = last - 299;
        config.dialect.id_scheme = scheme;
        let mut conn = Connection::new(config);
        let (mut calls, mut made) = (Vec::new(), 0);
        let refused = loop {
            match conn.call("m", (), None, 0) {
                Ok(call) => calls.push(call),
                Err(refused) => break refused.error,
            }
            made += 1;
            assert_eq!(
                calls.last().map(antiphon::CallId::number),
                Some(last - 300 + made)
            );
            conn.cancel(calls.swap_remove(calls.len() / 2));
        };
        assert_eq!((made, refused), (300, antiphon::SendError::IdsUsedUp));
    }
}

#[test]
fn ids_end_before_numbers_lose_their_exactness() {
    for first in [(1 << 53) - 1, 1 << 53, u64::MAX] {
        let mut config = Config::new();
        config.first_call = first;
        let mut conn = Connection::new(config);
        let made = conn.call("m", (), None, 1);
        assert_eq!(made.is_ok(), first < 1 << 53);
        let refused = conn.call("m", (), None, 2).unwrap_err();
        assert_eq!(refused.error, antiphon::SendError::IdsUsedUp);
        let null = r#"{"jsonrpc":"2.0","error":{"code":1,"message":""},"id":null}"#;
        drain(&mut conn, &mut Input::message(null.as_bytes()));
        conn.close(antiphon::CloseReason::Done);
        drain(&mut conn, &mut Input::none());
        assert_eq!(conn.calls_open(), 0);
    }
}

#[test]
fn the_first_reason_holds_when_several_ends_meet() {
    let mut conn: Connection = Connection::new(Config::new());
    // The end of input ends the connection only once all input has been read: the close is first.
    conn.handle_eof();
    conn.drain();
    conn.close(antiphon::CloseReason::Done);
    conn.drain();
    let Some(Event::Closed(why)) = conn.poll_event(&mut Input::stream(b"{")) else {
        panic!("an end");
    };
    assert_eq!(why, Closed::Local(antiphon::CloseReason::Done));
    assert!(conn.is_closed());
}
