//! The handshake from both sides.

use std::sync::Mutex;

use antiphon::Instant;
use antiphon::service::BearerAuth;
use antiphon::session::{Handshake, Layer as _, LayerEvent};
use antiphon::websocket::Subprotocol;
use antiphon_websocket::{WebSocket, WebSocketConfig, WebSocketEnd};

use super::support::{
    ACCEPT, REQUEST, answer, config, end, feed, make, messages, output, sent, text, value,
};

fn opened(events: &[LayerEvent]) -> &Handshake {
    match events {
        [LayerEvent::Opened(opened)] => opened,
        other => panic!("not opened but {other:?}"),
    }
}

/// A server's status line and headers for `request`.
fn answered(options: WebSocketConfig, request: &str) -> (u16, String) {
    let mut server = make(options, &config());
    let events = feed(&mut server, request.as_bytes());
    let out = String::from_utf8(output(&mut server)).unwrap();
    let status: u16 = out[9..12].parse().unwrap();
    if status == 101 {
        assert!(server.may_send());
        opened(&events);
    } else {
        let WebSocketEnd::Refused { status: told, .. } = end(&events) else {
            panic!("{events:?}");
        };
        assert_eq!(told, Some(status));
        assert!(server.is_over(), "and nothing more is read");
        let body = out.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(
            value(&out, "content-length"),
            Some(&*body.len().to_string())
        );
    }
    (status, out)
}

fn server() -> WebSocketConfig {
    WebSocketConfig::server()
}

// WSK-01
#[test]
fn the_request_of_the_standard_is_accepted_with_the_key_of_the_standard() {
    let (status, out) = answered(server(), REQUEST);
    assert_eq!(status, 101);
    assert_eq!(value(&out, "sec-websocket-accept"), Some(ACCEPT));
    assert_eq!(value(&out, "upgrade"), Some("websocket"));
    assert_eq!(value(&out, "connection"), Some("Upgrade"));
    assert_eq!(value(&out, "sec-websocket-protocol"), None);
    assert_eq!(value(&out, "sec-websocket-extensions"), None);
}

// WSK-01 SRV-33
#[test]
fn every_split_of_a_request_opens_and_what_follows_is_read() {
    let bytes = [REQUEST.as_bytes(), &text("[]")].concat();
    for split in 0..=bytes.len() {
        let mut server = make(server(), &config());
        let mut events = feed(&mut server, &bytes[..split]);
        events.extend(feed(&mut server, &bytes[split..]));
        assert_eq!(messages(&events.split_off(1)), ["[]"], "{split}");
        let opened = opened(&events);
        assert_eq!(opened.target.as_deref(), Some("/chat?x=1"));
        let cookie = ("cookie".into(), b"a=1; session=s3cret".into());
        assert!(opened.headers.contains(&cookie));
        assert!(!format!("{opened:?}").contains("s3cret"));
    }
    let mut server = make(server(), &config());
    for byte in &REQUEST.as_bytes()[..REQUEST.len() - 1] {
        assert!(feed(&mut server, &[*byte]).is_empty());
    }
    opened(&feed(&mut server, b"\n"));
}

// WSK-01
#[test]
fn what_is_no_proper_handshake_is_refused_with_its_status() {
    let without = |line: &str| {
        assert!(REQUEST.contains(line));
        REQUEST.replace(line, "")
    };
    let with = |from: &str, to: &str| {
        assert!(REQUEST.contains(from));
        REQUEST.replace(from, to)
    };
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    for (request, wanted) in [
        (with("GET", "POST"), 405),
        (with("HTTP/1.1", "HTTP/1.0"), 400),
        (with("GET /chat?x=1 HTTP/1.1", "hello"), 400),
        (with("/chat?x=1", "/chat x"), 400),
        (without("Host: localhost\r\n"), 400),
        (with("Host: ", "Host: a\r\nHost: "), 400),
        (with("localhost", "a b/c"), 400),
        (with("Origin: ", "Origin: a\r\nOrigin: "), 400),
        (
            with(
                "Sec-WebSocket-Key: ",
                &format!("Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Key: "),
            ),
            400,
        ),
        (
            with(
                "Sec-WebSocket-Version: ",
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Version: ",
            ),
            400,
        ),
        (with("Cookie", "Content-Length: 2\r\nCookie"), 400),
        (with("Cookie", "Content-Length: x\r\nCookie"), 400),
        (with("Cookie", "Transfer-Encoding: chunked\r\nCookie"), 400),
        (
            with("Cookie", "Authorization: a\r\nAuthorization: b\r\nCookie"),
            400,
        ),
        (
            with(
                "Cookie",
                "Sec-WebSocket-Protocol: a, b\r\nSec-WebSocket-Protocol: a\r\nCookie",
            ),
            400,
        ),
        (without("Upgrade: websocket\r\n"), 426),
        (with("Upgrade: websocket", "Upgrade: h2c"), 426),
        (with("keep-alive, Upgrade", "keep-alive"), 426),
        (with("Version: 13", "Version: 8"), 426),
        (without("Sec-WebSocket-Version: 13\r\n"), 426),
        (with(key, "short"), 400),
        (with(key, "dGhlIHNhbXBsZSBub25jZQ=!"), 400),
        (
            without("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
            400,
        ),
        (with("Cookie", "Bad Name"), 400),
        (
            with("\r\n\r\n", &("\r\nx: y".repeat(200) + "\r\n\r\n")),
            431,
        ),
        ("\r\n\r\n".into(), 400),
        ("\x16\x03\x01\r\n\r\n".into(), 400),
    ] {
        let (status, out) = answered(server(), &request);
        assert_eq!(status, wanted, "{request}");
        assert_eq!(value(&out, "allow").is_some(), wanted == 405);
        assert_eq!(
            value(&out, "sec-websocket-version"),
            (wanted == 426).then_some("13")
        );
        assert!(value(&out, "connection").unwrap().ends_with("close"));
    }
}

// WSK-15 SEC-10
#[test]
fn a_request_beyond_the_header_limit_is_refused_while_it_comes() {
    let mut server = make(server(), &config());
    let mut fed = 0;
    let events = loop {
        let events = feed(&mut server, b"x: 0123456789\r\n");
        fed += 15;
        if !events.is_empty() {
            break events;
        }
        assert!(fed < 9000, "it goes on and on");
    };
    assert!(fed > 8192);
    assert!(matches!(
        end(&events),
        WebSocketEnd::Refused {
            status: Some(431),
            ..
        }
    ));
    assert!(output(&mut server).starts_with(b"HTTP/1.1 431 "));
}

// SEC-08
#[test]
fn a_foreign_origin_is_refused_with_403() {
    let mut options = server();
    options.web.origins.push("http://localhost".into());
    assert_eq!(answered(options.clone(), REQUEST).0, 101);
    let foreign = REQUEST.replace("http://localhost", "http://evil.example");
    assert_eq!(answered(options.clone(), &foreign).0, 403);
    let twice = REQUEST.replace("Origin", "Origin: http://localhost\r\nOrigin");
    assert_eq!(
        answered(options.clone(), &twice).0,
        400,
        "it may stand once"
    );
    let none = REQUEST.replace("Origin: http://localhost\r\n", "");
    assert_eq!(answered(options.clone(), &none).0, 101);
    options.web.origin_required = true;
    assert_eq!(answered(options.clone(), &none).0, 403);
    let binary = REQUEST.replace("http://localhost", "http://\u{e9}xample.com");
    assert_eq!(answered(options, &binary).0, 403);
}

// WSK-14
#[test]
fn another_path_is_refused_with_404() {
    let mut options = server();
    options.web.paths.push("/chat".into());
    assert_eq!(answered(options.clone(), REQUEST).0, 101);
    assert_eq!(
        answered(options, &REQUEST.replace("/chat", "/admin")).0,
        404
    );
}

// WSK-06
#[test]
fn the_subprotocol_is_selected_only_if_offered() {
    let offering = |offer: &str| {
        REQUEST.replace(
            "Origin",
            &format!("Sec-WebSocket-Protocol: {offer}\r\nOrigin"),
        )
    };
    for (offer, selected) in [
        ("jsonrpc", Some("jsonrpc")),
        ("mqtt, jsonrpc", Some("jsonrpc")),
        ("mqtt\r\nSec-WebSocket-Protocol: jsonrpc", Some("jsonrpc")),
        ("mqtt", None),
        ("jsonrpc2", None),
    ] {
        let (status, out) = answered(server(), &offering(offer));
        assert_eq!(
            (status, value(&out, "sec-websocket-protocol")),
            (101, selected)
        );
    }
    let mut options = server();
    options.rules.subprotocol = Subprotocol::Require;
    assert_eq!(answered(options.clone(), REQUEST).0, 400);
    assert_eq!(answered(options, &offering("jsonrpc")).0, 101);
}

/// A client, and the request that it sends.
fn client(subprotocol: Subprotocol) -> (WebSocket, String) {
    let mut options = WebSocketConfig::client("ws://a.example:81/rpc?v=2").unwrap();
    options.rules.subprotocol = subprotocol;
    let options = options
        .with_header("authorization", "Bearer s3cret")
        .unwrap();
    let mut client = make(options, &config());
    let request = String::from_utf8(output(&mut client)).unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
    (client, request)
}

// WSK-01 WSK-14
#[test]
fn a_client_asks_as_the_standard_says_with_its_own_headers() {
    let (client, request) = client(Subprotocol::Accept);
    assert!(
        request.starts_with("GET /rpc?v=2 HTTP/1.1\r\n"),
        "{request}"
    );
    assert!(request.ends_with("\r\n\r\n"));
    for (name, wanted) in [
        ("host", Some("a.example:81")),
        ("upgrade", Some("websocket")),
        ("connection", Some("Upgrade")),
        ("sec-websocket-version", Some("13")),
        ("authorization", Some("Bearer s3cret")),
        ("sec-websocket-protocol", None),
        ("sec-websocket-extensions", None),
        ("origin", None),
    ] {
        assert_eq!(value(&request, name), wanted);
    }
    assert_eq!(value(&request, "sec-websocket-key").unwrap().len(), 24);
    assert!(!client.may_send(), "nothing is sent before the answer");
    // And the server's side takes it.
    assert_eq!(answered(server(), &request).0, 101);
}

// WSK-14
#[test]
fn headers_that_cannot_be_sent_are_refused() {
    let client = || WebSocketConfig::client("ws://a/").unwrap();
    for (name, value) in [
        ("x y", "v"),
        ("", "v"),
        ("x", "a\r\nb: c"),
        ("Upgrade", "h2c"),
        ("Sec-WebSocket-Key", "k"),
        ("sec-websocket-extensions", "permessage-deflate"),
    ] {
        let error = client().with_header(name, value).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{name}");
    }
    let options = client().with_header("Host", "b.example").unwrap();
    let mut websocket = make(options, &config());
    let request = String::from_utf8(output(&mut websocket)).unwrap();
    assert_eq!(value(&request, "host"), Some("b.example"));
    assert_eq!(request.to_lowercase().matches("\r\nhost:").count(), 1);
}

// INT-08 SEC-02 SEC-15
#[test]
fn a_token_is_asked_for_at_each_handshake() {
    let left = Mutex::new(vec![
        Err("the vault is shut".into()),
        Ok(None),
        Ok(Some("s3cret2".to_owned())),
        Ok(Some("s3cret1".to_owned())),
    ]);
    let auth = BearerAuth::new(move || left.lock().unwrap().pop().unwrap());
    let options = WebSocketConfig::client("ws://a/")
        .unwrap()
        .with_header("Authorization", "Basic x")
        .unwrap()
        .with_auth(auth);
    assert!(!format!("{options:?}").contains("s3cret"));
    for wanted in ["Bearer s3cret1", "Bearer s3cret2", "Basic x"] {
        let mut websocket = make(options.clone(), &config());
        let request = String::from_utf8(output(&mut websocket)).unwrap();
        assert_eq!(value(&request, "authorization"), Some(wanted));
        assert_eq!(
            request.to_lowercase().matches("\r\nauthorization:").count(),
            1
        );
        assert!(!format!("{websocket:?}").contains("s3cret"));
    }
    let failed = WebSocket::new(options.into(), &config(), Instant::ZERO);
    assert_eq!(failed.unwrap_err().to_string(), "the vault is shut");
    // A server asks for nothing.
    let auth = BearerAuth::new(|| panic!("it is not asked"));
    make(WebSocketConfig::server().with_auth(auth), &config());
}

// WSK-01 WSK-06
#[test]
fn an_answer_opens_only_if_all_of_it_fits() {
    let cases: [(&str, &str, bool); 15] = [
        ("", "", true),
        ("Upgrade: WebSocket", "Upgrade: h2c", false),
        ("Upgrade: WebSocket\r\n", "", false),
        (
            "Connection: Upgrade",
            "Connection: keep-alive, upgrade",
            true,
        ),
        ("Connection: Upgrade", "Connection: close", false),
        ("Sec-WebSocket-Accept: ", "Sec-WebSocket-Accept: x", false),
        ("Sec-WebSocket-Accept", "X-Accept", false),
        (
            "Sec-WebSocket-Accept",
            "Sec-WebSocket-Accept: x\r\nSec-WebSocket-Accept",
            false,
        ),
        ("Upgrade: WebSocket", "Upgrade: WebSocket, h2c", false),
        ("Upgrade: W", "Upgrade: h2c\r\nUpgrade: W", false),
        (
            "Upgrade: W",
            "Sec-WebSocket-Extensions: permessage-deflate\r\nUpgrade: W",
            false,
        ),
        (
            "Upgrade: W",
            "Sec-WebSocket-Protocol: jsonrpc\r\nUpgrade: W",
            false,
        ),
        ("HTTP/1.1", "HTTP/1.0", false),
        ("HTTP/1.1 101", "HTTP/1.1 200", false),
        ("HTTP/1.1 101", "SSH-2.0 101", false),
    ];
    for (from, to, does_open) in cases {
        let (mut websocket, request) = client(Subprotocol::Accept);
        let answer = answer(&request, "").replacen(from, to, 1);
        let events = feed(&mut websocket, answer.as_bytes());
        assert_eq!(websocket.may_send(), does_open, "{answer}");
        if does_open {
            assert_eq!(opened(&events).target.as_deref(), Some("/rpc?v=2"));
        } else {
            assert!(matches!(end(&events), WebSocketEnd::Refused { .. }));
            assert!(websocket.is_over(), "nothing is said to such a server");
        }
    }
}

// WSK-06
#[test]
fn a_client_may_offer_or_require_the_subprotocol() {
    let chosen = "Sec-WebSocket-Protocol: jsonrpc\r\n";
    for (subprotocol, more, does_open) in [
        (Subprotocol::Offer, "", true),
        (Subprotocol::Offer, chosen, true),
        (
            Subprotocol::Offer,
            "Sec-WebSocket-Protocol: mqtt\r\n",
            false,
        ),
        (Subprotocol::Require, "", false),
        (Subprotocol::Require, chosen, true),
    ] {
        let (mut websocket, request) = client(subprotocol);
        assert_eq!(value(&request, "sec-websocket-protocol"), Some("jsonrpc"));
        let events = feed(&mut websocket, answer(&request, more).as_bytes());
        assert_eq!(websocket.may_send(), does_open, "{subprotocol:?} {more}");
        if does_open {
            let wanted = (!more.is_empty()).then_some("jsonrpc");
            assert_eq!(opened(&events).subprotocol.as_deref(), wanted);
        }
    }
}

// ERR-13
#[test]
fn a_refused_client_is_told_the_status() {
    let (mut websocket, _) = client(Subprotocol::Accept);
    let refused = "HTTP/1.1 403 Nope\r\ncontent-length: 3\r\n\r\nno!";
    let events = feed(&mut websocket, refused.as_bytes());
    let end = end(&events);
    assert!(matches!(
        end,
        WebSocketEnd::Refused {
            status: Some(403),
            ..
        }
    ));
    assert_eq!(
        end.to_string(),
        "the WebSocket handshake was refused: 403 Forbidden: no!"
    );
}

// SEC-02
#[test]
fn the_headers_of_a_refusal_are_told_and_not_shown() {
    let (mut websocket, _) = client(Subprotocol::Accept);
    let refused = "HTTP/1.1 401 No\r\nSet-Cookie: s3cret\r\nContent-Length: 0\r\n\r\n";
    let end = end(&feed(&mut websocket, refused.as_bytes()));
    assert!(!format!("{end:?}").contains("s3cret"), "{end:?}");
    let WebSocketEnd::Refused { headers, .. } = end else {
        panic!("{end:?}");
    };
    assert_eq!(headers.get("set-cookie").unwrap(), "s3cret");
}

// WSK-01 WSK-07
#[test]
fn frames_right_behind_the_answer_are_read_however_it_is_split() {
    let frame = super::support::frame(0x81, b"[]", false);
    let len = {
        let (_, request) = client(Subprotocol::Accept);
        answer(&request, "").len() + frame.len()
    };
    for split in 0..=len {
        let (mut websocket, request) = client(Subprotocol::Accept);
        let bytes = [answer(&request, "").as_bytes(), &frame].concat();
        let mut events = feed(&mut websocket, &bytes[..split]);
        events.extend(feed(&mut websocket, &bytes[split..]));
        assert_eq!(messages(&events[1..]), ["[]"], "{split}");
    }
}

// CON-02 WSK-07
#[test]
fn nothing_is_sent_before_the_handshake_is_done() {
    let (mut client, _) = client(Subprotocol::Accept);
    let mut server = make(server(), &config());
    for websocket in [&mut client, &mut server] {
        let mut out = Vec::new();
        assert!(!websocket.send(b"[]", &mut out) && out.is_empty());
        assert!(!websocket.has_transmit() && !websocket.is_closed());
    }
    feed(&mut server, REQUEST.as_bytes());
    let mut out = Vec::new();
    server.take_transmit(&mut out);
    let handshake = out.len();
    assert!(server.send(b"[]", &mut out));
    assert_eq!(sent(&out[handshake..])[0].text(), "[]");
}
