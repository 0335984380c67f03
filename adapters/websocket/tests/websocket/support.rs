//! Frames made and read by hand, and both sides of a handshake.

use std::sync::Arc;

use antiphon::session::{Layer as _, LayerEnd, LayerEvent};
use antiphon::{Config, Instant};
use antiphon_websocket::{WebSocket, WebSocketConfig, WebSocketEnd};

/// The request of RFC 6455 clause 1.2, from a page of this machine, with a query and a cookie and
/// without subprotocols; and the
/// `Sec-WebSocket-Accept` that goes with its key.
pub(crate) const REQUEST: &str = "GET /chat?x=1 HTTP/1.1\r\nHost: localhost\r\n\
    Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://localhost\r\n\
    Sec-WebSocket-Version: 13\r\nCookie: a=1; session=s3cret\r\n\r\n";
pub(crate) const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;
pub(crate) const PING: u8 = 0x9;
pub(crate) const PONG: u8 = 0xa;
/// The bit of the last frame of a message.
pub(crate) const FIN: u8 = 0x80;

/// The key with which all frames are masked here.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it if `is_masked`, else as a server does. `first` is its first byte.
pub(crate) fn frame(first: u8, payload: &[u8], is_masked: bool) -> Vec<u8> {
    let mut out = header(first, payload.len() as u64, is_masked);
    let masked = payload.iter().enumerate();
    let key = |n: usize| if is_masked { MASK[n % 4] } else { 0 };
    out.extend(masked.map(|(n, byte)| byte ^ key(n)));
    out
}

/// The header of a frame, whatever follows it.
pub(crate) fn header(first: u8, len: u64, is_masked: bool) -> Vec<u8> {
    let bit = if is_masked { 0x80 } else { 0 };
    let mut out = vec![first];
    match len {
        0..=125 => out.push(bit | len as u8),
        126..=0xffff => {
            out.push(bit | 126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        _ => {
            out.push(bit | 127);
            out.extend_from_slice(&len.to_be_bytes());
        }
    }
    if is_masked {
        out.extend_from_slice(&MASK);
    }
    out
}

/// A client's whole text message.
pub(crate) fn text(payload: &str) -> Vec<u8> {
    frame(FIN | TEXT, payload.as_bytes(), true)
}

/// A client's close frame.
pub(crate) fn close(code: u16, reason: &str) -> Vec<u8> {
    let payload = [&code.to_be_bytes(), reason.as_bytes()].concat();
    frame(FIN | CLOSE, &payload, true)
}

/// A frame that was sent.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) first: u8,
    pub(crate) is_masked: bool,
    pub(crate) payload: Vec<u8>,
}

impl Sent {
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.first, FIN | TEXT);
        std::str::from_utf8(&self.payload).unwrap()
    }

    /// The code of a close frame.
    pub(crate) fn code(&self) -> u16 {
        assert_eq!(self.first, FIN | CLOSE);
        u16::from_be_bytes([self.payload[0], self.payload[1]])
    }
}

/// Reads frames by hand.
pub(crate) fn sent(mut bytes: &[u8]) -> Vec<Sent> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (first, second) = (bytes[0], bytes[1]);
        let (len, at) = match second & 0x7f {
            126 => (u16::from_be_bytes([bytes[2], bytes[3]]).into(), 4),
            127 => {
                let len: [u8; 8] = bytes[2..10].try_into().unwrap();
                (u64::from_be_bytes(len), 10)
            }
            len => (len.into(), 2),
        };
        let is_masked = second & 0x80 != 0;
        let (mask, at) = if is_masked {
            (bytes[at..at + 4].to_vec(), at + 4)
        } else {
            (vec![0; 4], at)
        };
        let end = at + len as usize;
        let payload = bytes[at..end].iter().enumerate();
        all.push(Sent {
            first,
            is_masked,
            payload: payload.map(|(n, byte)| byte ^ mask[n % 4]).collect(),
        });
        bytes = &bytes[end..];
    }
    all
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

pub(crate) fn config() -> Config {
    Config::new().for_websocket()
}

pub(crate) fn make(options: WebSocketConfig, config: &Config) -> WebSocket {
    WebSocket::new(Arc::new(options), config, Instant::ZERO).unwrap()
}

/// A server after its handshake.
pub(crate) fn open_server(options: WebSocketConfig, config: &Config) -> WebSocket {
    let mut server = make(options, config);
    let events = feed(&mut server, REQUEST.as_bytes());
    assert!(matches!(&events[..], [LayerEvent::Opened(_)]));
    assert!(output(&mut server).starts_with(b"HTTP/1.1 101 "));
    server
}

pub(crate) fn server() -> WebSocket {
    open_server(WebSocketConfig::server(), &config())
}

/// A client after its handshake.
pub(crate) fn client() -> WebSocket {
    let mut client = make(WebSocketConfig::client("ws://a/").unwrap(), &config());
    let request = String::from_utf8(output(&mut client)).unwrap();
    let events = feed(&mut client, answer(&request, "").as_bytes());
    assert!(matches!(&events[..], [LayerEvent::Opened(_)]));
    client
}

/// The right answer to a client's request, with more headers.
pub(crate) fn answer(request: &str, more: &str) -> String {
    let key = value(request, "Sec-WebSocket-Key").unwrap();
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n{more}\r\n",
        tungstenite::handshake::derive_accept_key(key.as_bytes())
    )
}

/// A header's value.
pub(crate) fn value<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// The events that `bytes` give.
pub(crate) fn feed(websocket: &mut WebSocket, mut bytes: &[u8]) -> Vec<LayerEvent> {
    let mut events = Vec::new();
    while let Some(event) = websocket.poll_event(&mut bytes) {
        events.push(event);
    }
    assert!(bytes.is_empty(), "something was left over");
    events
}

/// The events that are due at the time `now`.
pub(crate) fn turn(websocket: &mut WebSocket, now: Instant) -> Vec<LayerEvent> {
    websocket.handle_timeout(now);
    feed(websocket, &[])
}

/// Takes the output.
pub(crate) fn output(websocket: &mut WebSocket) -> Vec<u8> {
    let mut into = Vec::new();
    let had = websocket.has_transmit();
    websocket.take_transmit(&mut into);
    assert_eq!(had, !into.is_empty());
    into
}

/// The messages among events that are only messages.
pub(crate) fn messages(events: &[LayerEvent]) -> Vec<String> {
    let message = |event: &LayerEvent| match event {
        LayerEvent::Message(text) => text.as_str().to_owned(),
        other => panic!("no message but {other:?}"),
    };
    events.iter().map(message).collect()
}

/// The end among events that have only that.
pub(crate) fn end(events: &[LayerEvent]) -> WebSocketEnd {
    match events {
        [LayerEvent::Ended(end)] => ended_as(end),
        other => panic!("no end but {other:?}"),
    }
}

/// The end of the WebSocket, read from the end that a session gets. If the peer's close is no failure, its
/// code and reason are not in there.
pub(crate) fn ended_as(end: &LayerEnd) -> WebSocketEnd {
    let fault = match end {
        LayerEnd::Local => return WebSocketEnd::Local,
        LayerEnd::Peer(None) => {
            let (code, reason) = (None, String::new());
            return WebSocketEnd::Peer { code, reason };
        }
        LayerEnd::Peer(Some(fault)) | LayerEnd::Misbehaved(fault) | LayerEnd::Lost(fault) => fault,
    };
    let error = fault.as_error();
    let end = error.downcast_ref();
    end.or_else(|| WebSocketEnd::of(error.downcast_ref()?))
        .unwrap()
        .clone()
}

/// Expects that `bytes` close the connection with `code`, told on the wire and as the event, and
/// that nothing is read after it.
pub(crate) fn expect_fault(mut websocket: WebSocket, bytes: &[u8], wanted: u16) {
    let events = feed(&mut websocket, bytes);
    let WebSocketEnd::Broken { code, .. } = end(&events) else {
        panic!("{events:?}");
    };
    assert_eq!(code.0, wanted);
    let sent = sent(&output(&mut websocket));
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].code(), wanted);
    assert!(websocket.is_over());
    assert!(feed(&mut websocket, &text("[]")).is_empty());
}
