//! Deadlines, in virtual time.

use std::time::Duration;

use antiphon::Instant;
use antiphon::session::{Layer as _, LayerEvent};
use antiphon::websocket::CloseCode;
use antiphon_websocket::{WebSocketConfig, WebSocketEnd};

use super::support::{
    FIN, PING, PONG, REQUEST, TEXT, answer, at, client, close, config, end, feed, frame, header,
    make, output, sent, server, text, turn,
};

// WSK-10 CON-07
#[test]
fn silence_is_pinged_and_a_missing_pong_closes() {
    for (mut websocket, is_client) in [(server(), false), (client(), true)] {
        assert_eq!(websocket.poll_timeout(), Some(at(30_000)));
        assert!(turn(&mut websocket, at(29_999)).is_empty());
        assert!(!websocket.has_transmit());
        assert!(turn(&mut websocket, at(30_000)).is_empty());
        let pinged = sent(&output(&mut websocket));
        assert_eq!(
            (pinged[0].first, pinged[0].is_masked),
            (FIN | PING, is_client)
        );
        assert_eq!(websocket.poll_timeout(), Some(at(40_000)));
        assert!(turn(&mut websocket, at(39_999)).is_empty());
        let events = turn(&mut websocket, at(40_000));
        assert_eq!(end(&events), WebSocketEnd::PingTimedOut);
        assert_eq!(sent(&output(&mut websocket))[0].code(), 1011);
        assert!(websocket.is_over());
    }
}

// WSK-10 CON-07
#[test]
fn a_pong_or_anything_else_proves_that_the_peer_lives() {
    for alive in [frame(FIN | PONG, b"", true), text("[]"), vec![0x81]] {
        let mut server = server();
        turn(&mut server, at(30_000));
        server.handle_timeout(at(39_000));
        feed(&mut server, &alive);
        assert!(turn(&mut server, at(40_000)).is_empty());
        output(&mut server);
        assert!(turn(&mut server, at(69_000)).is_empty());
        assert_eq!(sent(&output(&mut server))[0].first, FIN | PING);
    }
}

// CON-07
#[test]
fn keep_alive_can_be_switched_off() {
    let mut options = WebSocketConfig::server();
    options.rules.keep_alive.ping_interval = None;
    options.rules.keep_alive.connect_timeout = None;
    let mut server = make(options, &config());
    assert_eq!(server.poll_timeout(), None);
    feed(&mut server, REQUEST.as_bytes());
    assert_eq!(server.poll_timeout(), None);
}

// CON-07 SEC-10
#[test]
fn a_handshake_that_drips_is_given_up() {
    let mut server = make(WebSocketConfig::server(), &config());
    assert_eq!(server.poll_timeout(), Some(at(10_000)));
    for (n, byte) in REQUEST.as_bytes()[..100].iter().enumerate() {
        server.handle_timeout(at(n as u64 * 99));
        assert!(feed(&mut server, &[*byte]).is_empty());
    }
    let events = turn(&mut server, at(10_000));
    assert_eq!(end(&events), WebSocketEnd::HandshakeTimedOut);
    assert!(output(&mut server).starts_with(b"HTTP/1.1 408 "));
    assert!(server.is_over());

    let mut client = make(WebSocketConfig::client("ws://a/").unwrap(), &config());
    output(&mut client);
    let events = turn(&mut client, at(10_000));
    assert_eq!(end(&events), WebSocketEnd::HandshakeTimedOut);
    assert!(client.is_over());
}

// CON-07 SEC-10
#[test]
fn a_message_that_drips_is_given_up_though_pings_come_between() {
    for begun in [
        frame(TEXT, b"[", true),
        header(FIN | TEXT, 100, true),
        vec![0x81],
    ] {
        let mut server = server();
        feed(&mut server, &begun);
        // Only the first case is a whole frame, of 7 bytes, behind which pings can come.
        let is_between = begun.len() == 7;
        for second in 1..60 {
            server.handle_timeout(at(second * 1000));
            let drip = if is_between {
                frame(FIN | PING, b"", true)
            } else {
                vec![]
            };
            assert!(feed(&mut server, &drip).is_empty(), "{second}");
            if !is_between && second == 25 {
                // A byte of the frame comes before silence makes the server send a ping.
                assert_eq!(server.poll_timeout(), Some(at(30_000)));
                feed(&mut server, &[0x80]);
            }
            if !is_between && second == 50 {
                feed(&mut server, &[0x80]);
            }
        }
        let events = turn(&mut server, at(60_000));
        let WebSocketEnd::Broken { code, .. } = end(&events) else {
            panic!("{events:?}");
        };
        assert_eq!(code, CloseCode::POLICY);
    }
}

// CON-07
#[test]
fn each_message_has_its_own_time() {
    let mut server = server();
    // Each message takes 20 s of its 60 s, all together take longer. A step ends one, except the
    // first, and begins the next.
    for step in 0..10 {
        server.handle_timeout(at(step * 20_000));
        let mut bytes = if step > 0 {
            frame(FIN, b"]", true)
        } else {
            vec![]
        };
        bytes.extend(frame(TEXT, b"[", true));
        assert_eq!(feed(&mut server, &bytes).len(), usize::from(step > 0));
    }
}

// CON-07
#[test]
fn messages_that_are_ignored_have_their_own_time_too() {
    let mut config = config();
    config.dialect.binary = antiphon::BinaryMessages::Ignore;
    let mut server = super::support::open_server(WebSocketConfig::server(), &config);
    for step in 0..10 {
        server.handle_timeout(at(step * 20_000));
        let mut bytes = if step > 0 {
            frame(FIN, b"", true)
        } else {
            vec![]
        };
        bytes.extend(frame(super::support::BINARY, b"", true));
        assert!(feed(&mut server, &bytes).is_empty());
    }
}

// WSK-09 CON-02
#[test]
fn a_close_that_is_not_answered_is_given_up() {
    let mut client = client();
    client.handle_timeout(at(1000));
    client.close_with(CloseCode::NORMAL, "");
    output(&mut client);
    assert_eq!(client.poll_timeout(), Some(at(6000)));
    assert!(turn(&mut client, at(5999)).is_empty());
    assert_eq!(end(&turn(&mut client, at(6000))), WebSocketEnd::Local);
    assert!(client.is_over());
    assert_eq!(client.poll_timeout(), None);
}

// CON-01 CON-10
#[test]
fn every_state_ends_once_and_holds_no_deadline_after() {
    let connecting = || make(WebSocketConfig::server(), &config());
    let closing = || {
        let mut server = server();
        server.close_with(CloseCode::NORMAL, "");
        server
    };
    for (mut websocket, lost) in [
        (connecting(), WebSocketEnd::Lost { was_open: false }),
        (server(), WebSocketEnd::Lost { was_open: true }),
        (closing(), WebSocketEnd::Local),
    ] {
        websocket.handle_eof();
        assert_eq!(end(&feed(&mut websocket, &[])), lost);
        websocket.handle_eof();
        websocket.close_with(CloseCode::NORMAL, "");
        assert!(feed(&mut websocket, &close(1000, "")).is_empty());
        assert!(turn(&mut websocket, Instant::FAR_FUTURE).is_empty());
        assert_eq!(websocket.poll_timeout(), None);
        output(&mut websocket);
        assert!(websocket.is_over());
    }
    let mut connecting = connecting();
    connecting.close_with(CloseCode::NORMAL, "");
    assert_eq!(end(&feed(&mut connecting, &[])), WebSocketEnd::Local);
    assert!(connecting.is_over() && !connecting.has_transmit());
}

// WSK-11
#[test]
fn a_heartbeat_without_a_span_is_sent_once_a_turn() {
    let mut options = WebSocketConfig::client("ws://a/").unwrap();
    options.rules.heartbeat = Some(Duration::ZERO);
    let mut client = make(options, &config());
    let request = String::from_utf8(output(&mut client)).unwrap();
    let opened = client.poll_event(&mut answer(&request, "").as_bytes());
    assert!(matches!(opened, Some(LayerEvent::Opened(_))));
    for turn in 1..4 {
        client.handle_timeout(at(turn * 5));
        let mut input = &[][..];
        let events: Vec<_> = (0..10)
            .map_while(|_| client.poll_event(&mut input))
            .collect();
        assert!(
            matches!(events[..], [LayerEvent::Notify("ping")]),
            "{events:?}"
        );
    }
}
