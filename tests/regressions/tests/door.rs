//! Who gets in, and what runs: frames that other libraries send, requests that browsers send.

use std::io::{Read, Write};
use std::net::TcpStream;

use antiphon::{BinaryMessages, Config};
use antiphon_async::websocket::WebSocketOptions;
use antiphon_regressions::LONG;
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};
use antiphon_session::Options;

/// The handshake of a WebSocket, with more headers.
fn handshake(more: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

/// A frame with a mask of zeros, which changes nothing.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![
        first,
        0x80 | u8::try_from(payload.len()).expect("a short one"),
    ];
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// A frame of the server's: its first byte and its payload, shorter than 126 bytes.
fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 2];
    stream.read_exact(&mut header).expect("a frame");
    let mut payload = vec![0; header[1].into()];
    stream.read_exact(&mut payload).expect("its payload");
    (header[0], payload)
}

fn connect(server: &Served) -> TcpStream {
    let stream = server.connect();
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.set_write_timeout(Some(LONG)).expect("a timeout");
    stream
}

/// The head of what is answered.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

fn serve_websocket(on: On, config: Config) -> Served {
    let options = Options::from(config).with_websocket(WebSocketOptions::server());
    Served::start(on, Listener::Tcp(options))
}

fn open_websocket(server: &Served) -> TcpStream {
    let mut stream = connect(server);
    stream.write_all(handshake("").as_bytes()).expect("sent");
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    stream
}

const CALL: &[u8] = br#"{"jsonrpc":"2.0","method":"m","params":["\u00e4"],"id":1}"#;
const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","result":["\u00e4"],"id":1}"#;

// USE-10 WSK-03
#[test]
fn json_in_a_binary_frame_was_closed_with_1003_under_ethereum_and_lsp() {
    for on in EVERYWHERE {
        let mut wanted = Config::new();
        wanted.binary = BinaryMessages::AsText;
        for config in [Config::ethereum(), Config::lsp(), wanted] {
            let server = serve_websocket(on, config);
            let mut stream = open_websocket(&server);
            stream.write_all(&frame(0x82, CALL)).expect("sent");
            let answer = read_frame(&mut stream);
            assert_eq!(answer, (0x81, ANSWER.to_vec()), "{on:?}");
        }
    }
}

// USE-10 WSK-03
#[test]
fn a_binary_frame_that_is_no_utf_8_is_closed_with_1007_and_by_default_any_with_1003() {
    for on in EVERYWHERE {
        for (config, payload, code) in [
            (Config::ethereum(), &b"[\xff]"[..], 1007_u16),
            (Config::new(), CALL, 1003),
        ] {
            let server = serve_websocket(on, config);
            let mut stream = open_websocket(&server);
            stream.write_all(&frame(0x82, payload)).expect("sent");
            let (first, payload) = read_frame(&mut stream);
            assert_eq!(
                (first, &payload[..2]),
                (0x88, &code.to_be_bytes()[..]),
                "{on:?}"
            );
            assert_eq!(server.ran(), 0, "{on:?}");
        }
    }
}
