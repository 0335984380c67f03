//! How much memory a peer can make a WebSocket use.

use antiphon::BinaryMessages;
use antiphon::Config;
use antiphon::session::{Layer as _, LayerEvent};
use antiphon_websocket::{WebSocket, WebSocketConfig};

use super::support::{
    BINARY, FIN, PING, PONG, TEXT, close, config, end, expect_fault, feed, frame, header, messages,
    open_server, output, sent, server, text,
};

/// A server with this limit on messages.
fn small(max_message_bytes: usize) -> WebSocket {
    let mut config = config();
    config.limits.max_message_bytes = max_message_bytes;
    open_server(WebSocketConfig::server(), &config)
}

// WSK-05
#[test]
fn a_message_of_the_default_limit_is_taken() {
    assert_eq!(Config::new().limits.max_message_bytes, 1_048_576);
    let message = "x".repeat(1_048_576);
    let mut server = server();
    assert_eq!(messages(&feed(&mut server, &text(&message))), [message]);
}

// WSK-05 WSK-08 WSK-15
#[test]
fn a_message_over_the_limit_is_told_before_it_is_read_and_closed_after_an_answer() {
    let fragments = [frame(TEXT, &[b'x'; 60], true), header(0, 41, true)].concat();
    for bytes in [
        text(&"x".repeat(101)),
        header(FIN | TEXT, 101, true),
        header(TEXT, 101, true),
        fragments,
    ] {
        let mut server = small(100);
        let events = feed(&mut server, &bytes);
        assert!(
            matches!(events[..], [LayerEvent::Oversize(101)]),
            "{events:?}"
        );
        // It may be answered, and nothing more is read.
        assert!(feed(&mut server, &text("[]")).is_empty());
        let mut out = Vec::new();
        assert!(server.send(b"too large", &mut out));
        assert_eq!(sent(&out)[0].text(), "too large");
        let (code, reason) = antiphon::websocket::CloseCode::after_oversize();
        server.close_with(code, reason);
        assert_eq!(sent(&output(&mut server))[0].code(), 1009);
        assert!(server.is_over(), "the other side's close is not awaited");
    }
    assert_eq!(
        messages(&feed(&mut small(100), &text(&"x".repeat(100)))).len(),
        1
    );
    assert_eq!(messages(&feed(&mut small(0), &text(""))).len(), 1);
    let events = feed(&mut server(), &header(FIN | TEXT, u64::MAX, true));
    assert!(matches!(events[..], [LayerEvent::Oversize(u64::MAX)]));
}

// WSK-15
#[test]
fn an_ignored_message_has_the_same_limit() {
    let mut config = config();
    config.dialect.binary = BinaryMessages::Ignore;
    let mut server = open_server(WebSocketConfig::server(), &config);
    let events = feed(&mut server, &header(FIN | BINARY, 1_048_577, true));
    assert!(matches!(events[..], [LayerEvent::Oversize(1_048_577)]));
}

/// Feeds `again` until the connection is closed, and returns how often it was taken before.
fn flood(server: &mut WebSocket, first: &[u8], again: &[u8]) -> Option<usize> {
    assert!(feed(server, first).is_empty());
    (0..1_000_000).find(|_| !feed(server, again).is_empty())
}

// WSK-15 SEC-10
#[test]
fn empty_continuation_frames_do_not_go_on_for_ever() {
    let mut server = server();
    let empty = frame(0, b"", true);
    let taken = flood(&mut server, &frame(TEXT, b"", true), &empty);
    assert_eq!(
        taken,
        Some(1023),
        "the 1025th frame of a message without bytes"
    );
    assert_eq!(sent(&output(&mut server))[0].code(), 1008);
}

// WSK-15 SEC-10
#[test]
fn tiny_fragments_do_not_go_on_for_ever() {
    let mut server = server();
    let taken = flood(&mut server, &frame(TEXT, b"", true), &frame(0, b"x", true));
    // Each 16 bytes allow one fragment more than 1024, so the end comes after some 1092.
    assert!(taken.is_some_and(|taken| taken < 1100), "{taken:?}");
}

// WSK-02
#[test]
fn a_large_message_in_honest_fragments_is_taken() {
    let mut server = server();
    assert!(feed(&mut server, &frame(TEXT, b"[", true)).is_empty());
    for _ in 0..16_000 {
        assert!(feed(&mut server, &frame(0, &[b' '; 64], true)).is_empty());
    }
    let events = feed(&mut server, &frame(FIN, b"]", true));
    assert_eq!(messages(&events)[0].len(), 2 + 16_000 * 64);
}

// WSK-10 SEC-10
#[test]
fn however_much_is_pinged_one_pong_waits() {
    let mut server = server();
    for n in 0..100_000_u32 {
        assert!(feed(&mut server, &frame(FIN | PING, &n.to_be_bytes(), true)).is_empty());
        assert!(feed(&mut server, &frame(FIN | PONG, &n.to_be_bytes(), true)).is_empty());
    }
    let sent = sent(&output(&mut server));
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload, 99_999_u32.to_be_bytes());
}

// WSK-15
#[test]
fn a_text_beyond_its_first_bad_byte_is_not_held() {
    // The frame has announced a megabyte. Its text is checked in steps of 2048 bytes, and the first is bad.
    let mut bytes = header(FIN | TEXT, 1 << 20, true);
    bytes.extend([0xff; 2048]);
    expect_fault(server(), &bytes, 1007);
}

// WSK-09
#[test]
fn data_after_our_close_is_thrown_away_until_theirs_comes() {
    let mut server = server();
    server.close_with(antiphon::websocket::CloseCode::GOING_AWAY, "shutting down");
    assert_eq!(sent(&output(&mut server))[0].code(), 1001);
    assert!(!server.may_send() && !server.is_over());
    assert!(feed(&mut server, &text("late")).is_empty());
    assert!(feed(&mut server, &frame(FIN | PING, b"late", true)).is_empty());
    assert!(!server.has_transmit());
    let events = feed(&mut server, &close(1001, ""));
    assert_eq!(end(&events), antiphon_websocket::WebSocketEnd::Local);
    assert!(server.is_over() && !server.has_transmit());
}

// WSK-09
#[test]
fn a_long_reason_is_cut_at_a_character() {
    let mut server = server();
    server.close_with(antiphon::websocket::CloseCode::NORMAL, &"€".repeat(50));
    let sent = sent(&output(&mut server));
    assert_eq!(sent[0].payload.len(), 2 + 41 * 3);
    assert_eq!(&sent[0].payload[2..], "€".repeat(41).as_bytes());
}
