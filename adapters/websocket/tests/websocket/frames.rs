//! Messages and control frames, whole and split at every byte.

use antiphon::BinaryMessages;
use antiphon::session::{Layer as _, LayerEvent};
use antiphon_websocket::{WebSocketConfig, WebSocketEnd};

use super::support::{
    BINARY, CLOSE, FIN, PING, PONG, TEXT, answer, client, close, config, end, expect_fault, feed,
    frame, make, messages, open_server, output, sent, server, text,
};

// WSK-02
#[test]
fn a_message_is_one_unfragmented_text_frame_and_only_clients_mask() {
    for (mut websocket, is_masked) in [(server(), false), (client(), true)] {
        for len in [0, 1, 125, 126, 65_535, 65_536, 200_000] {
            let message = "é".repeat(len / 2) + &"x".repeat(len % 2);
            let mut out = Vec::new();
            assert!(websocket.send(message.as_bytes(), &mut out));
            let sent = sent(&out);
            assert_eq!(sent.len(), 1);
            assert_eq!(sent[0].text(), message);
            assert_eq!(sent[0].is_masked, is_masked);
        }
    }
}

// WSK-02
#[test]
fn a_client_masks_every_frame_with_another_key() {
    let mut client = client();
    let mut keys = std::collections::HashSet::new();
    for _ in 0..64 {
        let mut out = Vec::new();
        assert!(client.send(b"x", &mut out));
        keys.insert(out[2..6].to_vec());
    }
    // Two equal keys among 64 of 2^32 occur once in two million runs, and are allowed.
    assert!(keys.len() >= 63, "{} keys", keys.len());
}

/// The bytes that a client sends, and the messages in them.
fn conversation() -> (Vec<u8>, Vec<String>) {
    let long = "ab€".repeat(700);
    let mut bytes = text("[1]");
    bytes.extend(frame(TEXT, "é".as_bytes().split_at(1).0, true));
    bytes.extend(frame(FIN | PING, b"between", true));
    bytes.extend(frame(0, "é".as_bytes().split_at(1).1, true));
    bytes.extend(frame(0, b"", true));
    bytes.extend(frame(FIN, b"!", true));
    bytes.extend(text(""));
    bytes.extend(frame(FIN | PONG, b"unasked", true));
    bytes.extend(text(&long));
    bytes.extend(frame(TEXT, &long.as_bytes()[..2501], true));
    bytes.extend(frame(FIN, &long.as_bytes()[2501..], true));
    let messages = ["[1]", "é!", "", &long, &long];
    (bytes, messages.map(str::to_owned).to_vec())
}

// WSK-02 WSK-03 WSK-07
#[test]
fn fragments_and_control_frames_between_them_give_whole_messages() {
    let (bytes, wanted) = conversation();
    let mut server = server();
    assert_eq!(messages(&feed(&mut server, &bytes)), wanted);
    let pong = &sent(&output(&mut server))[0];
    assert_eq!(
        (pong.first, &pong.payload[..]),
        (FIN | PONG, &b"between"[..])
    );
}

// WSK-02 TST-05
#[test]
fn every_split_gives_the_same_messages() {
    let (bytes, wanted) = conversation();
    for split in 0..=bytes.len() {
        let mut server = server();
        let mut events = feed(&mut server, &bytes[..split]);
        events.extend(feed(&mut server, &bytes[split..]));
        assert_eq!(messages(&events), wanted, "{split}");
    }
    let mut server = server();
    let mut events = Vec::new();
    for byte in &bytes {
        events.extend(feed(&mut server, std::slice::from_ref(byte)));
    }
    assert_eq!(messages(&events), wanted);
}

// WSK-04
#[test]
fn text_that_is_not_utf_8_closes_with_1007() {
    for payload in [
        &b"\xff"[..],
        b"a\xc3",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\x80",
    ] {
        expect_fault(server(), &frame(FIN | TEXT, payload, true), 1007);
        expect_fault(client(), &frame(FIN | TEXT, payload, false), 1007);
        let (first, second) = payload.split_at(1);
        let mut bytes = frame(TEXT, first, true);
        bytes.extend(frame(FIN, second, true));
        expect_fault(server(), &bytes, 1007);
    }
}

// WSK-03
#[test]
fn a_binary_message_closes_with_1003_before_any_of_it_is_read() {
    expect_fault(server(), &frame(FIN | BINARY, b"[]", true), 1003);
    expect_fault(server(), &frame(FIN | BINARY, b"", true), 1003);
    expect_fault(
        server(),
        &super::support::header(BINARY, 1 << 40, true),
        1003,
    );
}

// WSK-03
#[test]
fn binary_messages_can_be_ignored() {
    let mut config = config();
    config.dialect.binary = BinaryMessages::Ignore;
    let mut bytes = frame(FIN | BINARY, b"\xff\xfe", true);
    bytes.extend(frame(BINARY, &[0xff; 5000], true));
    bytes.extend(frame(FIN | PING, b"p", true));
    bytes.extend(frame(0, b"", true));
    bytes.extend(frame(FIN, &[0xff; 5000], true));
    bytes.extend(text("[1]"));
    for split in 0..=bytes.len() {
        let mut server = open_server(WebSocketConfig::server(), &config);
        let mut events = feed(&mut server, &bytes[..split]);
        events.extend(feed(&mut server, &bytes[split..]));
        assert_eq!(messages(&events), ["[1]"], "{split}");
        assert_eq!(sent(&output(&mut server))[0].payload, b"p");
    }
}

// USE-10 WSK-03
#[test]
fn binary_messages_can_be_taken_as_text() {
    let mut config = config();
    config.dialect.binary = BinaryMessages::AsText;
    let mut bytes = frame(FIN | BINARY, "[\"ä\"]".as_bytes(), true);
    bytes.extend(frame(BINARY, b"[\"\xc3", true));
    bytes.extend(frame(FIN | PING, b"p", true));
    bytes.extend(frame(FIN, b"\xa4\"]", true));
    bytes.extend(text("[1]"));
    for split in 0..=bytes.len() {
        let mut server = open_server(WebSocketConfig::server(), &config);
        let mut events = feed(&mut server, &bytes[..split]);
        events.extend(feed(&mut server, &bytes[split..]));
        assert_eq!(messages(&events), ["[\"ä\"]", "[\"ä\"]", "[1]"], "{split}");
    }
    let mut server = open_server(WebSocketConfig::server(), &config);
    let mut answer = Vec::new();
    assert!(server.send(b"[]", &mut answer));
    assert_eq!(sent(&answer)[0].text(), "[]");
}

// USE-10 WSK-03
#[test]
fn a_client_takes_binary_messages_as_text_too() {
    let mut config = config();
    config.dialect.binary = BinaryMessages::AsText;
    let mut client = make(WebSocketConfig::client("ws://a/").unwrap(), &config);
    let request = String::from_utf8(output(&mut client)).unwrap();
    feed(&mut client, answer(&request, "").as_bytes());
    let events = feed(&mut client, &frame(FIN | BINARY, b"[1]", false));
    assert_eq!(messages(&events), ["[1]"]);
    expect_fault(client, &frame(FIN | BINARY, b"\xff", false), 1007);
}

// USE-10 WSK-03
#[test]
fn a_binary_message_taken_as_text_must_be_utf_8() {
    let mut config = config();
    config.dialect.binary = BinaryMessages::AsText;
    let open = || open_server(WebSocketConfig::server(), &config);
    expect_fault(open(), &frame(FIN | BINARY, b"[\xff]", true), 1007);
    let mut bytes = frame(BINARY, b"[\xc3", true);
    bytes.extend(frame(FIN, b"]", true));
    expect_fault(open(), &bytes, 1007);
}

// WSK-09 WSK-12 WSK-15
#[test]
fn broken_frames_close_with_1002() {
    let cases = [
        ("no mask", frame(FIN | TEXT, b"[]", false)),
        ("a reserved bit", frame(FIN | 0x40 | TEXT, b"[]", true)),
        ("a reserved bit", frame(FIN | 0x20 | TEXT, b"[]", true)),
        ("a reserved bit", frame(FIN | 0x10 | PING, b"", true)),
        ("an unknown kind", frame(FIN | 0x3, b"", true)),
        ("an unknown control frame", frame(FIN | 0xb, b"", true)),
        ("a long ping", frame(FIN | PING, &[b'x'; 126], true)),
        ("a long pong", frame(FIN | PONG, &[b'x'; 126], true)),
        ("a long close", frame(FIN | CLOSE, &[b'x'; 126], true)),
        ("a ping in parts", frame(PING, b"", true)),
        ("a continuation of nothing", frame(FIN, b"", true)),
        ("half a code", frame(FIN | CLOSE, b"\x03", true)),
        (
            "a message in a message",
            [frame(TEXT, b"[", true), text("]")].concat(),
        ),
    ];
    for (what, bytes) in cases {
        println!("{what}");
        expect_fault(server(), &bytes, 1002);
    }
    expect_fault(client(), &frame(FIN | TEXT, b"[]", true), 1002);
}

// WSK-15
#[test]
fn a_frame_is_judged_by_its_header_alone() {
    for (bytes, code) in [
        (super::support::header(FIN | PING, 126, true), 1002),
        (super::support::header(FIN | CLOSE, u64::MAX, true), 1002),
        (super::support::header(FIN | TEXT, 100, false), 1002),
        (super::support::header(FIN, 100, true), 1002),
        (super::support::header(PING, 5, true), 1002),
        (super::support::header(FIN | 0x40 | TEXT, 100, true), 1002),
        (super::support::header(FIN | 0x3, 100, true), 1002),
    ] {
        expect_fault(server(), &bytes, code);
    }
}

// WSK-03 WSK-10
#[test]
fn pings_are_answered_with_their_payload_by_both_sides() {
    for (mut websocket, is_client) in [(server(), false), (client(), true)] {
        for payload in [&b""[..], b"x", &[7; 125]] {
            assert!(feed(&mut websocket, &frame(FIN | PING, payload, !is_client)).is_empty());
            let sent = sent(&output(&mut websocket));
            assert_eq!(sent.len(), 1);
            assert_eq!((sent[0].first, &sent[0].payload[..]), (FIN | PONG, payload));
            assert_eq!(sent[0].is_masked, is_client);
        }
    }
}

// WSK-03 WSK-09
#[test]
fn a_close_is_answered_with_its_code_and_nothing_follows() {
    for (payload, wanted) in [
        (close(1000, "bye"), &[0x03, 0xe8][..]),
        (close(1001, ""), &[0x03, 0xe9]),
        (close(4999, ""), &[0x13, 0x87]),
        (frame(FIN | CLOSE, b"", true), &[]),
        // Codes that a frame must not have are answered 1002, as a broken rule.
        (close(1005, ""), &[0x03, 0xea]),
        (close(999, ""), &[0x03, 0xea]),
    ] {
        let mut server = server();
        let mut bytes = frame(FIN | PING, b"before", true);
        bytes.extend(&payload);
        bytes.extend(text("after"));
        let events = feed(&mut server, &bytes);
        assert!(matches!(end(&events), WebSocketEnd::Peer { .. }));
        let Some(WebSocketEnd::Peer { code, reason }) = server.end() else {
            panic!("{:?}", server.end());
        };
        let code = code.map_or(vec![], |code| code.0.to_be_bytes().to_vec());
        assert_eq!(code, wanted);
        // The frame of the first case, the only one with a reason, is longer than 8 bytes.
        assert_eq!(reason, if payload.len() > 8 { "bye" } else { "" });
        let sent = sent(&output(&mut server));
        assert_eq!(sent.len(), 1, "nothing but the close: {sent:?}");
        assert_eq!(
            (sent[0].first, &sent[0].payload[..2.min(wanted.len())]),
            (FIN | CLOSE, wanted)
        );
        assert!(server.is_over() && !server.may_send());
        let mut out = Vec::new();
        assert!(!server.send(b"late", &mut out) && out.is_empty());
    }
}

// WSK-04
#[test]
fn a_close_with_a_reason_that_is_not_utf_8_is_answered_with_1007() {
    expect_fault(server(), &frame(FIN | CLOSE, b"\x03\xe8\xff", true), 1007);
}

// WSK-13
#[test]
fn one_frame_is_one_message_whatever_stands_in_it() {
    let mut server = server();
    let both = "{\"a\":1}\n{\"b\":2}";
    assert_eq!(messages(&feed(&mut server, &text(both))), [both]);
}

// WSK-02
// Debug output of a message, of a fault and of the WebSocket does not show the text.
#[test]
fn what_is_refused_shows_nothing_of_what_was_said() {
    let mut server = server();
    let events = feed(&mut server, &text("s3cret"));
    assert!(!format!("{events:?}{server:?}").contains("s3cret"));
    assert!(matches!(events[..], [LayerEvent::Message(_)]));
    // Refused, because it is not UTF-8.
    let events = feed(&mut server, &frame(FIN | TEXT, b"s3cret\xff", true));
    let end = end(&events);
    assert!(matches!(end, WebSocketEnd::Broken { .. }), "{end:?}");
    assert!(!format!("{events:?}{end:?}{server:?}").contains("s3cret"));
}
