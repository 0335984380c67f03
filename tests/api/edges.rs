//! Inputs exactly at a limit and one beyond, and commands in the middle of something else.

use antiphon::{
    CancelStyle, CloseReason, Closed, Config, Connection, ConnectionError, Event, Framing,
    FramingError, Input, Instant, MalformedCause, NullIdError, Outcome, RefusedCause, Role,
    SendError, VersionPolicy,
};

use crate::{BATCH, REQUEST, drained, id, requests, written};

/// The events that one message causes, as debug text.
fn told(conn: &mut Connection<u32>, message: &str) -> Vec<String> {
    let mut input = Input::text(message);
    let mut events = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        events.push(format!("{event:?}"));
    }
    events
}

/// How many bytes of output wait to be written.
fn waiting(conn: &Connection<u32>) -> usize {
    conn.poll_transmit().map_or(0, <[u8]>::len)
}

fn with_limits(soft: usize, hard: usize) -> Config {
    let mut config = Config::new();
    (
        config.limits.soft_max_outbox_bytes,
        config.limits.max_outbox_bytes,
    ) = (soft, hard);
    config
}

/// Sends a notification whose body has so many bytes.
fn notify(conn: &mut Connection<u32>, bytes: usize) -> Result<(), SendError> {
    let bare = r#"{"jsonrpc":"2.0","method":"m","params":[""]}"#.len();
    conn.notify("m", &["x".repeat(bytes - bare)])
}

#[test]
fn output_waits_up_to_its_soft_limit_and_a_message_goes_up_to_the_hard_one() {
    let mut conn = Connection::new(with_limits(100, 200));
    assert_eq!(notify(&mut conn, 201), Err(SendError::TooLarge));
    notify(&mut conn, 99).unwrap();
    assert_eq!(waiting(&conn), 100);
    // With its line feed the notification has 100 bytes, and so many may wait: another one still goes,
    // even one as large as the hard limit.
    notify(&mut conn, 200).unwrap();
    assert_eq!(notify(&mut conn, 50), Err(SendError::Full));
}

#[test]
fn a_batch_goes_up_to_the_hard_limit_behind_whatever_waits() {
    let entry = r#"{"jsonrpc":"2.0","method":"m"}"#.len();
    for spare in [0, 1] {
        // Two entries, two brackets and a comma, or one byte less.
        let mut conn: Connection<u32> = Connection::new(with_limits(1000, 2 * entry + 3 - spare));
        notify(&mut conn, 50).unwrap();
        let mut batch = conn.batch(None);
        batch.notify("m", ()).unwrap();
        let second = batch.notify("m", ());
        match spare {
            0 => second.unwrap(),
            _ => assert_eq!(second, Err(SendError::TooLarge)),
        }
        assert_eq!(batch.len(), 2 - spare);
        batch.send().unwrap();
    }
}

/// How many bytes the answer to the first request has.
fn answer_bytes(result: &str) -> usize {
    antiphon::encode_response(id("1"), result).unwrap().len()
}

// TRN-07 SEC-11
#[test]
fn answers_that_wait_for_others_of_their_batches_count_as_output() {
    let result = "x".repeat(100);
    let answer = answer_bytes(&result);
    for (spare, ends) in [(0, false), (1, true)] {
        let mut conn: Connection<u32> = Connection::new(with_limits(1000, 3 * answer - spare));
        for n in 1..=3 {
            assert!(!conn.is_closed() && !conn.has_ended());
            let mut tokens = requests(&mut conn, BATCH);
            conn.respond(tokens.remove(0), &result).unwrap();
            assert_eq!((waiting(&conn), conn.requests_open()), (0, n));
        }
        // The getter says so before the event does.
        assert_eq!(conn.has_ended(), ends);
        let told = drained(&mut conn);
        assert_eq!(told.iter().any(|event| event.contains("OutboxFull")), ends);
        assert_eq!(conn.requests_open(), if ends { 0 } else { 3 });
    }
}

// TRN-07 SEC-11
#[test]
fn a_batch_that_is_answered_takes_no_more_from_what_others_gather_than_it_has_added() {
    let result = "x".repeat(100);
    let answer = answer_bytes(&result);
    for (spare, ends) in [(0, false), (1, true)] {
        // Six answers are gathered in the end: the first one, and one in each of five more batches.
        let mut conn: Connection<u32> = Connection::new(with_limits(1000, 6 * answer - spare));
        let mut waits = requests(&mut conn, BATCH);
        conn.respond(waits.remove(0), &result).unwrap();
        for token in requests(&mut conn, BATCH) {
            conn.respond(token, &result).unwrap();
        }
        assert!(waiting(&conn) > 2 * answer);
        conn.consume_transmit(usize::MAX);
        for _ in 0..5 {
            assert!(!conn.has_ended());
            let mut tokens = requests(&mut conn, BATCH);
            conn.respond(tokens.remove(0), &result).unwrap();
        }
        assert_eq!(conn.has_ended(), ends);
    }
}

// CAN-03
#[test]
fn a_cancel_is_said_up_to_the_hard_limit_and_left_out_beyond() {
    for (more, is_said) in [(0, true), (1, false)] {
        let mut config = with_limits(1000, 200);
        config.dialect.cancel_send = CancelStyle::Lsp;
        let mut conn: Connection<u32> = Connection::new(config);
        let call = conn.call("m", (), None, 7).unwrap();
        // With their line feeds, two notifications fill the output up to 200 bytes, or to 201.
        let rest = 200 - waiting(&conn);
        notify(&mut conn, rest - 51 + more).unwrap();
        notify(&mut conn, 49).unwrap();
        assert_eq!(waiting(&conn), 200 + more);
        assert_eq!(conn.ask_cancel(call).is_ok(), is_said);
        assert_eq!(conn.cancel(call), Some(7));
        assert_eq!(written(&mut conn).contains("$/cancelRequest"), is_said);
    }
}

#[test]
fn a_call_that_is_not_plain_is_served_up_to_every_limit() {
    // A call of 1.0 is never plain: it is not read in the quick way.
    let mut config = Config::new();
    config.dialect.version = VersionPolicy::V1AndV2;
    (config.limits.max_method_bytes, config.limits.max_id_bytes) = (4, 6);
    let asked = |method: &str, id: &str| {
        let mut conn: Connection<u32> = Connection::new(config);
        let message = format!("{{\"method\":\"{method}\",\"params\":[],\"id\":{id}}}");
        told(&mut conn, &message).remove(0)
    };
    assert!(asked("four", "\"four\"").starts_with("Request"));
    let cause = |cause: RefusedCause| format!("cause: {cause:?}");
    assert!(asked("five5", "1").contains(&cause(RefusedCause::MethodTooLong)));
    assert!(asked("m", "\"five5\"").contains(&cause(RefusedCause::IdTooLong)));
    // An error echoes an id that is short enough, and null instead of a longer one.
    let mut conn: Connection<u32> = Connection::new(config);
    told(&mut conn, r#"{"jsonrpc":"2.0","method":1,"id":"four"}"#);
    assert!(written(&mut conn).ends_with(",\"id\":\"four\"}\n"));
    told(&mut conn, r#"{"jsonrpc":"2.0","method":1,"id":"five5"}"#);
    assert!(written(&mut conn).ends_with(",\"id\":null}\n"));
}

#[test]
fn after_the_end_only_an_orderly_one_lets_a_handler_still_tell() {
    let asked = || {
        let mut conn: Connection<u32> = Connection::new(Config::new());
        told(&mut conn, r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
        assert_eq!(conn.requests_open(), 1);
        conn
    };
    let mut conn = asked();
    conn.handle_eof();
    assert_eq!(conn.notify("m", ()), Ok(()));

    let mut conn = asked();
    conn.handle_eof();
    conn.drain();
    // In a drain a handler may still say what belongs to its answer.
    assert_eq!(conn.notify("m", ()), Ok(()));

    let mut conn = asked();
    conn.handle_eof();
    let mut input = Input::stream(b"");
    while conn.poll_event(&mut input).is_some() {}
    conn.close(CloseReason::Done);
    assert_eq!(conn.requests_open(), 1);
    assert_eq!(conn.notify("m", ()), Err(SendError::Closed));

    let mut conn = asked();
    conn.handle_eof();
    let mut input = Input::stream(b"{\"half\"");
    let end = conn.poll_event(&mut input);
    let truncated = Closed::Failed(ConnectionError::Truncated);
    assert!(matches!(end, Some(Event::Closed(why)) if why == truncated));
    assert_eq!(conn.requests_open(), 1);
    assert_eq!(conn.notify("m", ()), Err(SendError::Closed));
}

// CLI-04
#[test]
fn a_chosen_id_does_not_use_up_the_number_that_another_is_spelled_like() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let first = conn.call_with_id(id("2"), "m", (), None, 1).unwrap();
    // The number 2 is passed over only where it would be spelled as an id; this call has an id.
    let second = conn.call_with_id(id("\"x\""), "m", (), None, 2).unwrap();
    let third = conn.call("m", (), None, 3).unwrap();
    assert_eq!([first, second, third].map(|call| call.number()), [1, 2, 3]);
    // Here it would be spelled like the chosen id.
    let mut conn: Connection<u32> = Connection::new(Config::new());
    conn.call_with_id(id("2"), "m", (), None, 1).unwrap();
    assert_eq!(conn.call("m", (), None, 2).unwrap().number(), 3);
}

#[test]
fn a_call_made_while_an_error_for_all_is_told_is_not_settled_by_it() {
    let error = r#"{"jsonrpc":"2.0","error":{"code":1,"message":"m"},"id":null}"#;
    let mut config = Config::new();
    config.dialect.null_id_error = NullIdError::FailAll;
    for before in [1, 2, 5, 30] {
        let mut conn: Connection<u32> = Connection::new(config);
        for tag in 0..before {
            conn.call("m", (), None, tag).unwrap();
        }
        let mut settled = Vec::new();
        let mut input = Input::text(error);
        while let Some(event) = conn.poll_event(&mut input) {
            let Event::Response(response) = event else {
                panic!("{event:?}");
            };
            assert!(matches!(response.outcome, Outcome::Err(_)));
            settled.push(response.tag);
            conn.call("m", (), None, 100).unwrap();
        }
        settled.sort_unstable();
        assert_eq!(settled, (0..before).collect::<Vec<_>>());
        assert_eq!(conn.calls_open(), before as usize);
    }
}

// CAN-09
#[test]
fn two_cancels_in_a_batch_reach_two_requests_of_that_batch() {
    let request = |id| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":{id}}}");
    let cancel = |id| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancelRequest\",\"params\":{{\"id\":{id}}}}}")
    };
    let entries = [request(1), cancel(1), request(2), cancel(2)];
    for count in [2, 4] {
        let mut conn: Connection<u32> = Connection::new(Config::new());
        let events = told(&mut conn, &format!("[{}]", entries[..count].join(",")));
        assert!(events.is_empty(), "{events:?}");
        assert_eq!(conn.requests_open(), 0);
    }
}

#[test]
fn what_is_passed_on_out_of_a_batch_has_no_line_breaks_either() {
    let batch = "[\n{\"jsonrpc\":\"2.0\",\n\"method\":\"m\",\"params\":[\n1,\r\n2],\"id\":1}\n]";
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let mut input = Input::text(batch);
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Request(request) = event {
            conn.respond(request.token, request.params).unwrap();
        }
    }
    let out = written(&mut conn);
    assert!(out.ends_with("2],\"id\":1}]\n"), "{out}");
    assert_eq!(out.find(['\r', '\n']), Some(out.len() - 1), "{out}");
}

#[test]
fn unmatched_responses_and_malformed_messages_are_borne_up_to_their_limits() {
    let mut config = Config::new();
    (
        config.limits.max_unmatched_responses,
        config.limits.max_malformed_messages,
    ) = (2, 2);
    let unmatched = r#"{"jsonrpc":"2.0","result":1,"id":99}"#;
    for (message, error) in [
        (unmatched, ConnectionError::TooManyUnmatched),
        ("{}", ConnectionError::TooManyMalformed),
    ] {
        let mut conn: Connection<u32> = Connection::new(config);
        for _ in 0..2 {
            assert_eq!(told(&mut conn, message).len(), 1);
        }
        let end = told(&mut conn, message);
        let failed = format!("{:?}", Event::<u32>::Closed(Closed::Failed(error)));
        assert_eq!(end.last(), Some(&failed));
    }
}

#[test]
fn a_malformed_item_shows_its_own_text() {
    let mut conn: Connection<u32> = Connection::new(Config::new());
    let mut input = Input::text(r#"[{"jsonrpc":"2.0","method":"m"}, {"a":1} ,7]"#);
    let mut texts = Vec::new();
    while let Some(event) = conn.poll_event(&mut input) {
        if let Event::Malformed(malformed) = event {
            assert!(matches!(malformed.cause, MalformedCause::Call(_)));
            texts.push(malformed.text);
        }
    }
    assert_eq!(texts, [&br#"{"a":1}"#[..], b"7"]);
}

#[test]
fn answers_wait_up_to_the_hard_limit_and_one_byte_more_breaks_the_connection() {
    let answer = r#"{"jsonrpc":"2.0","result":"","id":1}"#.len() + 1;
    for (bytes, breaks) in [(200, false), (201, true), (202, true)] {
        let mut conn: Connection<u32> = Connection::new(with_limits(1000, 200));
        for token in requests(&mut conn, &[REQUEST, REQUEST].concat()) {
            // The first result is 60 bytes long, the second fills the output up to `bytes`.
            let rest = bytes - waiting(&conn);
            let len = if rest == bytes { 60 } else { rest - answer };
            conn.respond(token, "x".repeat(len).as_str()).unwrap();
        }
        let end = drained(&mut conn);
        assert_eq!(!end.is_empty(), breaks, "{bytes}: {end:?}");
        assert_eq!(waiting(&conn), if breaks { 0 } else { bytes });
    }
}

// SRV-16
#[test]
fn a_client_answers_no_batch_that_is_too_long_whatever_the_dialect() {
    let batch = format!("[{0},{0}]", r#"{"jsonrpc":"2.0","method":"m","id":1}"#);
    for (role, is_answered) in [(Role::Client, false), (Role::Peer, true)] {
        let mut config = Config::ethereum();
        (config.role, config.limits.max_batch_items) = (role, 1);
        let mut conn: Connection<u32> = Connection::new(config);
        assert_eq!(told(&mut conn, &batch).len(), 1);
        assert_eq!(conn.poll_transmit().is_some(), is_answered);
    }
}

#[test]
fn null_in_place_of_a_message_ends_only_a_client_s_exchange() {
    let with = |role, exchange| {
        let mut config = Config::new();
        (config.role, config.exchange) = (role, exchange);
        told(&mut Connection::new(config), "null").len()
    };
    assert_eq!(with(Role::Client, true), 0);
    assert_eq!(with(Role::Client, false), 1);
    assert_eq!(with(Role::Server, true), 1);
    assert_eq!(with(Role::Peer, false), 1);
}

#[test]
fn only_a_1_0_message_in_a_batch_is_kept_out_of_batches() {
    let v1 = r#"{"method":"m","params":[],"id":1}"#;
    let v2 = r#"{"jsonrpc":"2.0","method":"\u006d","params":[],"id":1}"#;
    let mut config = Config::mixed();
    config.dialect.v1_in_batch = false;
    let is_served = |message: &str| {
        let events = told(&mut Connection::new(config), message);
        events[0].starts_with("Request")
    };
    assert!(is_served(v1) && is_served(v2));
    assert!(is_served(&format!("[{v2}]")));
    assert!(!is_served(&format!("[{v1}]")));
}

#[test]
fn a_message_too_large_has_its_time_from_its_first_byte_and_the_next_one_its_own() {
    let config = || {
        let mut config = Config::new();
        config.limits.max_message_bytes = 10;
        config
    };
    let due_after = |later: &[u8]| {
        let mut conn: Connection<u32> = Connection::new(config());
        let mut received = b"[1,2,".to_vec();
        for (second, more) in [(0, &b""[..]), (50, later)] {
            received.extend_from_slice(more);
            conn.handle_timeout(Instant::from_millis(second * 1000));
            let mut input = Input::stream(&received);
            while conn.poll_event(&mut input).is_some() {}
            let consumed = input.consumed();
            received.drain(..consumed);
            while conn.take_transmit(&mut Vec::new()) {}
        }
        conn.poll_timeout()
    };
    // A message has 60 s, from second 0 or, for the next one, from second 50.
    let at = |second: u64| Some(Instant::from_millis(second * 1000));
    assert_eq!(due_after(b"3,4"), at(60));
    assert_eq!(due_after(b"3,4,5,6,7,8"), at(60));
    assert_eq!(due_after(b"3,4,5,6,7,8]\n"), None);
    assert_eq!(due_after(b"3,456]\n["), at(110));
}

#[test]
fn what_is_wrong_with_a_stream_is_told_by_its_place_in_all_of_it() {
    let body = r#"{"jsonrpc":"2.0","method":"m"}"#;
    let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let stream = format!("{frame}{frame}no header\r\n\r\n");
    let config = Config::new().framing(Framing::ContentLength);
    let mut conn: Connection<u32> = Connection::new(config);
    let mut input = Input::stream(stream.as_bytes());
    for _ in 0..2 {
        let event = conn.poll_event(&mut input);
        assert!(matches!(event, Some(Event::Notification(_))), "{event:?}");
    }
    let offset = 2 * frame.len() as u64;
    let error = FramingError::NotAHeader { offset };
    let event = conn.poll_event(&mut input);
    let why = Closed::Failed(ConnectionError::Framing(error));
    assert!(matches!(event, Some(Event::Closed(closed)) if closed == why));
}

#[test]
fn a_first_line_tells_the_framing_however_short_it_is() {
    let config = Config::new().framing(Framing::Detect);
    let mut conn: Connection<u32> = Connection::new(config);
    let event = conn.poll_event(&mut Input::stream(b"7\n"));
    assert!(matches!(event, Some(Event::Malformed(_))), "{event:?}");
}
