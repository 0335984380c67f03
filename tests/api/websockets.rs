//! The messages of a connection over WebSocket and how it ends, without a real WebSocket: one
//! message per frame, and the close code of each ending.

use antiphon::websocket::CloseCode;
use antiphon::{
    CloseReason, Closed, Config, Connection, ConnectionError, Event, Input, RefusedCause,
};

/// What is written for one message, and why the connection ended with it, if it did.
fn said(conn: &mut Connection<u32>, mut input: Input<'_>) -> (Vec<String>, Option<Closed>) {
    let mut closed = None;
    while let Some(event) = conn.poll_event(&mut input) {
        match event {
            Event::Closed(why) => closed = Some(why),
            Event::Request(request) => conn.respond(request.token, &1).unwrap(),
            _ => {}
        }
    }
    let mut frames = Vec::new();
    let mut frame = Vec::new();
    while conn.take_transmit(&mut frame) {
        frames.push(String::from_utf8(std::mem::take(&mut frame)).unwrap());
    }
    (frames, closed)
}

// WSK-08 SRV-15
#[test]
fn an_oversized_message_is_an_invalid_request_and_leaves_the_end_to_the_close() {
    for config in [
        Config::new(),
        Config::lsp(),
        Config::ethereum(),
        Config::bitcoin(),
    ] {
        let max_bytes = config.limits.max_message_bytes;
        let bytes = max_bytes as u64 + 1;
        let mut conn: Connection<u32> = Connection::new(config.for_websocket());
        let mut input = Input::oversize(bytes);
        let Some(Event::Refused(refused)) = conn.poll_event(&mut input) else {
            panic!("it is refused");
        };
        let bytes = Some(bytes);
        assert_eq!(refused.cause, RefusedCause::TooLarge { bytes, max_bytes });
        let (frames, closed) = said(&mut conn, input);
        assert_eq!((frames.len(), closed), (1, None));
        assert!(frames[0].contains("-32600") && frames[0].contains("\"id\":null"));
    }
    assert_eq!(CloseCode::after_oversize().0, CloseCode::TOO_BIG);
}

// WSK-04 WSK-12 WSK-13
#[test]
fn a_bad_message_is_answered_and_only_a_repeated_one_ends_the_connection() {
    let request = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
    let two = format!("{request}{request}");
    let lines = format!("{request}\n{request}");
    let mut conn: Connection<u32> = Connection::new(Config::new().for_websocket());
    for bad in ["no JSON", "{", "", &two, &lines] {
        let (frames, closed) = said(&mut conn, Input::text(bad));
        assert_eq!((frames.len(), closed), (1, None), "{bad}");
        assert!(frames[0].contains("-32700"), "{bad}: {}", frames[0]);
    }
    // Several share a frame as an array, and their answers another.
    let batch = format!("[{request},{}]", request.replace(":1", ":2"));
    let (frames, _) = said(&mut conn, Input::text(&batch));
    assert_eq!(frames.len(), 1);
    assert_eq!(frames[0].matches("\"result\":1").count(), 2);

    let mut config = Config::new().for_websocket();
    config.limits.max_malformed_messages = 2;
    let mut conn: Connection<u32> = Connection::new(config);
    let ends: Vec<_> = (0..3)
        .map(|_| said(&mut conn, Input::text("{")).1)
        .collect();
    let ended = Closed::Failed(ConnectionError::TooManyMalformed);
    assert_eq!(ends, [None, None, Some(ended)]);
    assert_eq!(CloseCode::of(ended, true).0, CloseCode::POLICY);
}

// WSK-09 CON-09
#[test]
fn the_code_follows_from_how_the_connection_ended() {
    type End = fn(&mut Connection<u32>);
    let ends: [(End, u16, u16); 4] = [
        (|conn| conn.close(CloseReason::Done), 1000, 1000),
        (|conn| conn.close(CloseReason::GoingAway), 1001, 1000),
        (|conn| conn.drain(), 1001, 1000),
        (|conn| conn.handle_eof(), 1000, 1000),
    ];
    for (end, server, client) in ends {
        let mut conn: Connection<u32> = Connection::new(Config::new().for_websocket());
        end(&mut conn);
        let (frames, closed) = said(&mut conn, Input::none());
        assert!(frames.is_empty());
        let closed = closed.expect("it ends");
        let codes = [true, false].map(|is_server| CloseCode::of(closed, is_server).0);
        assert_eq!(codes, [CloseCode(server), CloseCode(client)], "{closed:?}");
    }
}
