//! Which clients are accepted, and what runs: frames of other libraries, requests of browsers.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::TcpStream;

use antiphon::{BinaryMessages, Config, Framing};
use antiphon_net::ConnectionConfig;
use antiphon_net::websocket::WebSocketConfig;
use antiphon_regressions::LONG;
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};

/// The handshake of a WebSocket, with more headers.
fn handshake(more: &str) -> String {
    format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

/// A frame with a mask of zeros, which changes nothing. A first byte of 0x81 is a text message, 0x82 a
/// binary one, 0x88 a close.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![
        first,
        0x80 | u8::try_from(payload.len()).expect("a short one"),
    ];
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}

/// Reads a frame of the server: its first byte and its payload, which is shorter than 126 bytes.
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

/// The head of the answer.
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
    let options = ConnectionConfig::from(config).with_websocket(WebSocketConfig::server());
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
        wanted.dialect.binary = BinaryMessages::AsText;
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

/// A request that a page of another origin can have a browser send to any port, whose body is a
/// message in every framing.
fn browsers_post(origin_form: &str) -> String {
    let call = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
    let body = format!("\r\n{call}\nContent-Length: {}\r\n\r\n{call}", call.len());
    format!(
        "POST {origin_form} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\
         Origin: http://evil.example\r\nContent-Type: text/plain;charset=UTF-8\r\n\r\n{body}",
        body.len()
    )
}

/// Sends bytes in pieces of `step`, and reads what comes until the end.
fn sent_and_answered(mut stream: impl Read + Write, bytes: &[u8], step: usize) -> Vec<u8> {
    for piece in bytes.chunks(step) {
        // The other side may have closed already.
        if stream.write_all(piece).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    // A reset is an end too; a timeout is none.
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    }
    answer
}

const STREAMS: [Framing; 4] = [
    Framing::Newline,
    Framing::Concatenated,
    Framing::ContentLength,
    Framing::Detect,
];

// USE-06 SEC-08
#[test]
fn a_browsers_post_to_a_plain_listener_ran_its_body_line_by_line() {
    for on in EVERYWHERE {
        for framing in STREAMS {
            let options = ConnectionConfig::from(Config::new().framing(framing));
            let server = Served::start(on, Listener::Tcp(options));
            for request in [
                browsers_post("/"),
                browsers_post("http://127.0.0.1/"),
                browsers_post("/").replace("POST", "PRI"),
                browsers_post("*").replace("POST", "OPTIONS"),
                format!("\r\n{}", browsers_post("/a b")),
            ] {
                for step in [1, 4096] {
                    let answer = sent_and_answered(connect(&server), request.as_bytes(), step);
                    assert_eq!(answer, b"", "{on:?} {framing:?} {request}");
                    let report = server.report("HTTP");
                    assert!(report.contains("nothing of it ran"), "{report}");
                }
            }
            assert_eq!(server.ran(), 0, "{on:?} {framing:?}");
        }
    }
}

// USE-06
#[cfg(unix)]
#[test]
fn an_http_request_to_a_unix_socket_ran_its_body_line_by_line() {
    for on in EVERYWHERE {
        for framing in STREAMS {
            let options = ConnectionConfig::from(Config::new().framing(framing));
            let server = Served::start(on, Listener::Unix(options));
            let stream =
                std::os::unix::net::UnixStream::connect(server.path()).expect("it listens");
            stream.set_read_timeout(Some(LONG)).expect("a timeout");
            let answer = sent_and_answered(stream, browsers_post("/").as_bytes(), 4096);
            assert_eq!(answer, b"", "{on:?} {framing:?}");
            server.report("HTTP");
            assert_eq!(server.ran(), 0, "{on:?} {framing:?}");
        }
    }
}

// USE-06
#[test]
fn json_is_read_at_once_and_http_is_let_in_where_the_knob_is_off() {
    for on in EVERYWHERE {
        for (framing, call) in [
            (
                Framing::Newline,
                " {\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}\n",
            ),
            (
                Framing::Concatenated,
                "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}",
            ),
            (
                Framing::ContentLength,
                "Content-Length: 37\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"id\":1}",
            ),
        ] {
            let options = ConnectionConfig::from(Config::new().framing(framing));
            let server = Served::start(on, Listener::Tcp(options));
            for step in [1, 4096] {
                let mut stream = connect(&server);
                for piece in call.as_bytes().chunks(step) {
                    stream.write_all(piece).expect("sent");
                }
                let mut answer = [0; 12];
                stream.read_exact(&mut answer).expect("an answer");
            }
            assert_eq!(server.ran(), 2, "{on:?} {framing:?}");
        }
        // Garbage that is no request line is answered as ever.
        let mut options = ConnectionConfig::from(Config::new());
        let server = Served::start(on, Listener::Tcp(options.clone()));
        let mut stream = connect(&server);
        stream.write_all(b"POST is no JSON\n").expect("sent");
        let mut answer = [0; 36];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(
            &answer, br#"{"jsonrpc":"2.0","error":{"code":-32"#,
            "{on:?}"
        );
        // Where HTTP is not refused, a request line is garbage like any other.
        options.refuse_http = false;
        let server = Served::start(on, Listener::Tcp(options));
        let mut stream = connect(&server);
        stream.write_all(b"POST / HTTP/1.1\n").expect("sent");
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(
            &answer, br#"{"jsonrpc":"2.0","error":{"code":-32"#,
            "{on:?}"
        );
    }
}

fn call_over_http(stream: &mut TcpStream) -> String {
    let call = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{call}",
        call.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    read_head(stream)
}

// USE-17 SEC-10
#[test]
fn connection_257_of_the_threads_http_server_was_reset_without_a_word() {
    let server = Served::start(On::Threads, Listener::Http(Box::new(Config::new().into())));
    // Two more than the limit of 256. Each has made a call, and keeps its connection open.
    let idle: Vec<TcpStream> = (0..258)
        .map(|_| {
            let mut stream = connect(&server);
            let head = call_over_http(&mut stream);
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            stream
        })
        .collect();
    assert_eq!(server.ran(), idle.len());
}

// USE-17 SEC-10
#[test]
fn a_connection_beyond_the_limit_of_an_http_server_was_reset_without_a_word() {
    for on in EVERYWHERE {
        let http = Listener::Http(Box::new(Config::new().into()));
        let server = Served::start_with(on, http, Some(1));
        let mut first = connect(&server);
        let head = call_over_http(&mut first);
        assert!(head.starts_with("HTTP/1.1 200 "), "{on:?} {head}");
        let mut second = connect(&server);
        let head = call_over_http(&mut second);
        assert!(head.starts_with("HTTP/1.1 503 "), "{on:?} {head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{on:?} {head}");
        server.report("the server refused Some(127.0.0.1): too many connections are open");
        let report = server.report("refused");
        assert_eq!(
            report, "a connection refused: too many connections are open",
            "{on:?}"
        );
        // The accepted connection is served as before.
        drop(second);
        let head = call_over_http(&mut first);
        assert!(head.contains("HTTP/1.1 200 "), "{on:?} {head}");
        assert_eq!(server.ran(), 2, "{on:?}");
    }
}

// USE-17 SEC-10
#[test]
fn a_connection_beyond_any_other_limit_was_closed_and_nobody_was_told() {
    for on in EVERYWHERE {
        let options = ConnectionConfig::from(Config::new());
        let websocket = options.clone().with_websocket(WebSocketConfig::server());
        for listener in [
            Listener::Tcp(options.clone()),
            Listener::Tcp(websocket),
            Listener::Unix(options),
        ] {
            let server = Served::start_with(on, listener.clone(), Some(0));
            match listener {
                Listener::Unix(_) => {
                    let stream = std::os::unix::net::UnixStream::connect(server.path());
                    let stream = stream.expect("it listens");
                    stream.set_read_timeout(Some(LONG)).expect("a timeout");
                    assert_eq!(sent_and_answered(stream, b"", 1), b"", "{on:?}");
                }
                _ => assert_eq!(sent_and_answered(connect(&server), b"", 1), b"", "{on:?}"),
            }
            server.report("the server refused");
        }
    }
}
