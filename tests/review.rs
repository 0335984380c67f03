//! Corners found by reading the core line by line: each test once failed.

use core::time::Duration;

use antiphon::{
    Closed, Config, Connection, ConnectionError, Event, Framing, Id, Input, Instant, Json,
    LimitErrors, Outcome,
};

const CALL: &str = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
const TELL: &str = r#"{"jsonrpc":"2.0","method":"m"}"#;

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
    // One that does stall is found out, counted from its own first bytes.
    conn.handle_timeout(Instant::from_millis(199_000 + 59_999));
    assert!(drain(&mut conn, &mut Input::stream(received.as_bytes())).is_empty());
    conn.handle_timeout(Instant::from_millis(199_000 + 60_000));
    let events = drain(&mut conn, &mut Input::stream(received.as_bytes()));
    assert!(events[0].contains("FrameTimedOut"), "{events:?}");
}

#[test]
fn an_oversize_first_message_is_answered_in_the_framing_it_shows() {
    let mut config = Config::new().with_framing(Framing::Detect);
    config.message_bytes_max = 10;
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
    config.write_time_max = None;
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
    for input in [
        Input::message(batch.as_bytes()),
        Input::stream(batch.as_bytes()),
    ] {
        let mut conn = Connection::new(Config::new());
        conn.call("m", (), None, "ours").unwrap();
        sent(&mut conn);
        let mut input = input;
        if let Some(Event::Request(_)) = conn.poll_event(&mut input) {}
        conn.handle_eof();
        let _ = conn.poll_event(&mut input);
        drop(input);
        let events = drain(&mut conn, &mut Input::none());
        let last = events.last().expect("the end is told");
        assert!(last.starts_with("Closed"), "{events:?}");
        assert_eq!(conn.calls_open(), 0);
    }
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
    config.limit_errors = LimitErrors::FirstCall;
    config.batch_items_max = 2;
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
    config.escape_braces = true;
    config.batch_items_max = 1;
    config.limit_errors = LimitErrors::FirstCall;
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
    let mut config = Config::new().with_framing(Framing::Messages);
    config.calls_max = 200_000;
    config.requests_max = 200_000;
    config.outbox_bytes_soft = usize::MAX;
    config.outbox_bytes_max = usize::MAX;
    let mut conn = Connection::new(config);
    for tag in 0..200_000 {
        conn.call("m", (), None, tag).unwrap();
        // Every other message arrives, so that the failed ones are no one range.
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
