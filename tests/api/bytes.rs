//! Input and output as bytes: buffers, swaps, separate messages, two equal runs.

use antiphon::{BatchOrder, CancelStyle, Config, Connection, Event, Framing, Input};

use crate::{BATCH, connection, requests};

// ARC-10
#[test]
fn output_is_swapped_out_when_that_is_all_there_is_and_appended_otherwise() {
    let mut conn = connection(0);
    conn.notify("a", ()).unwrap();
    let shown = conn.poll_transmit().unwrap().as_ptr();
    let mut out = Vec::new();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out.as_ptr(), shown, "the bytes did not move");
    assert!(!conn.take_transmit(&mut out));
    conn.notify("b", ()).unwrap();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(
        out,
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n"
    );
    assert_eq!(conn.transmit_done(), conn.transmit_queued());
    assert_eq!(conn.transmit_done(), out.len() as u64);
}

// TRN-07
#[test]
fn whole_messages_are_taken_one_at_a_time() {
    let mut conn: Connection<u32> = Connection::new(Config::new().framing(Framing::Messages));
    conn.notify("a", ()).unwrap();
    conn.notify("b", ()).unwrap();
    let mut out = Vec::new();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"}");
    out.clear();
    assert!(conn.take_transmit(&mut out));
    assert_eq!(out, b"{\"jsonrpc\":\"2.0\",\"method\":\"b\"}");
    assert!(!conn.take_transmit(&mut out));
}

// TRN-07
#[test]
fn more_bytes_than_were_shown_count_as_all_of_them() {
    let mut conn = connection(0);
    conn.consume_transmit(5);
    conn.notify("a", ()).unwrap();
    conn.consume_transmit(usize::MAX);
    assert_eq!(conn.poll_transmit(), None);
    assert_eq!(conn.transmit_done(), conn.transmit_queued());
}

// STD-08
#[test]
fn a_buffer_of_input_bytes_max_is_never_full_without_progress() {
    let body = r#"{"jsonrpc":"2.0","method":"m","params":["0123456789"]}"#;
    let too_long = format!("[\"{}\"]", "x".repeat(500));
    let headed = |text: &str| format!("Content-Length: {}\r\n\r\n{text}", text.len());
    for (framing, stream) in [
        (Framing::Newline, format!("{body}\n{too_long}\r\n{body}\n")),
        (Framing::Concatenated, format!("{body}{too_long}{body}")),
        (
            Framing::ContentLength,
            [headed(body), headed(&too_long), headed(body)].concat(),
        ),
        (Framing::Detect, format!("{body}\n{too_long}\n{body}\n")),
    ] {
        let mut config = Config::new().framing(framing);
        config.limits.max_message_bytes = body.len();
        config.limits.max_header_bytes = 64;
        let mut conn: Connection<u32> = Connection::new(config);
        let mut buffer = vec![0; config.max_input_bytes()];
        let (mut filled, mut notifications, mut refused) = (0, 0, 0);
        let mut stream = stream.as_bytes();
        while !stream.is_empty() {
            let room = (buffer.len() - filled).min(stream.len());
            assert!(
                room > 0,
                "{framing:?}: the buffer is full and nothing moves"
            );
            buffer[filled..filled + room].copy_from_slice(&stream[..room]);
            stream = &stream[room..];
            filled += room;
            let mut input = Input::stream(&buffer[..filled]);
            while let Some(event) = conn.poll_event(&mut input) {
                match event {
                    Event::Notification(_) => notifications += 1,
                    Event::Refused(_) => refused += 1,
                    other => panic!("{framing:?}: {other:?}"),
                }
            }
            let consumed = input.consumed();
            buffer.copy_within(consumed..filled, 0);
            filled -= consumed;
        }
        assert_eq!((notifications, refused, filled), (2, 1, 0), "{framing:?}");
    }
}

// ARC-06
#[test]
fn two_runs_with_the_same_input_write_the_same_bytes() {
    let run = || {
        let mut config = Config::mixed();
        config.dialect.batch_order = BatchOrder::Completion;
        config.dialect.cancel_send = CancelStyle::Mcp;
        let mut conn: Connection<u32> = Connection::new(config);
        let mut out = Vec::new();
        for round in 0..50u32 {
            let call = conn.call("m", &[round], None, round).unwrap();
            let mut tokens = requests(&mut conn, BATCH);
            while let Some(token) = tokens.pop() {
                conn.respond(token, &round).unwrap();
            }
            if round % 3 == 0 {
                conn.cancel(call);
            }
            conn.take_transmit(&mut out);
        }
        out
    };
    assert_eq!(run(), run());
}
