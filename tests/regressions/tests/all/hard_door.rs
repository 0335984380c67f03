//! Clients that attack the door of a web endpoint: requests hidden in others, and slow heads, bodies and readers.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_net::http::HttpConfig;
use antiphon_regressions::LONG;
use antiphon_regressions::frames::OPENING;
use antiphon_regressions::served::{EVERYWHERE, Listener, OnePort, Served};

const CALL: &str = r#"{"jsonrpc":"2.0","method":"m","id":1}"#;

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.set_write_timeout(Some(LONG)).expect("a timeout");
    stream
}

fn post(lines: &str, body: &str) -> String {
    format!("POST / HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n{body}")
}

fn whole() -> String {
    post(&format!("Content-Length: {}\r\n", CALL.len()), CALL)
}

/// The statuses of all answers to these bytes, until the server ends the connection.
fn statuses(server: &Served, bytes: &str) -> Vec<u16> {
    let mut stream = connect(server.address());
    // The server may have ended the connection already.
    let _ = stream.write_all(bytes.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
    let mut answers = Vec::new();
    let _ = stream.read_to_end(&mut answers);
    let answers = String::from_utf8_lossy(&answers);
    answers
        .match_indices("HTTP/1.1 ")
        .filter_map(|(at, _)| answers.get(at + 9..at + 12)?.parse().ok())
        .collect()
}

/// Servers of every kind: our listeners, and a service in an axum application.
fn servers() -> impl Iterator<Item = (String, Served)> {
    let one = || OnePort::new(Config::new());
    let listeners = EVERYWHERE.into_iter().map(move |on| {
        let server = Served::start(on, Listener::Web(Box::new(one())));
        (format!("{on:?}"), server)
    });
    listeners.chain(std::iter::once_with(move || {
        ("axum".into(), Served::behind_axum(one()))
    }))
}

/// Requests of which two readers may find different ends, so that one of them sees a second request.
fn ambiguous() -> Vec<String> {
    let (hidden, length) = (whole(), CALL.len());
    let both = format!("0\r\n\r\n{hidden}");
    let all = both.len();
    vec![
        // Two lengths.
        post(
            &format!(
                "Content-Length: {length}\r\nContent-Length: {}\r\n",
                length + hidden.len()
            ),
            &format!("{CALL}{hidden}"),
        ),
        post(
            &format!("Content-Length: {length}, {}\r\n", length + hidden.len()),
            &format!("{CALL}{hidden}"),
        ),
        post(
            &format!("Content-Length: +{length}\r\n"),
            &format!("{CALL}{hidden}"),
        ),
        post(
            &format!("Content-Length: 0x{length:x}\r\n"),
            &format!("{CALL}{hidden}"),
        ),
        // A length and a transfer coding.
        post(
            &format!("Content-Length: {all}\r\nTransfer-Encoding: chunked\r\n"),
            &both,
        ),
        // Transfer codings that one reader understands and another does not.
        post(
            &format!("Transfer-Encoding: xchunked\r\nContent-Length: {all}\r\n"),
            &both,
        ),
        post("Transfer-Encoding: chunked, identity\r\n", &both),
        post(
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            &both,
        ),
        post("Transfer-Encoding: chunked, chunked\r\n", &both),
        post(
            &format!("Transfer-Encoding : chunked\r\nContent-Length: {all}\r\n"),
            &both,
        ),
        post(
            &format!("Transfer-Encoding:\x0bchunked\r\nContent-Length: {all}\r\n"),
            &both,
        ),
        // A line that goes on (obs-fold).
        post(
            &format!("Transfer-Encoding:\r\n chunked\r\nContent-Length: {all}\r\n"),
            &both,
        ),
        post(
            &format!("X: a\r\n Content-Length: {length}\r\nContent-Length: 0\r\n"),
            CALL,
        ),
        post(
            &format!("X: a\r\n\tTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            &format!("{CALL}{hidden}"),
        ),
        // Chunks whose sizes end in a way of their own.
        post(
            "Transfer-Encoding: chunked\r\n",
            &format!("{length:x}\n{CALL}\r\n0\r\n\r\n{hidden}"),
        ),
        post(
            "Transfer-Encoding: chunked\r\n",
            &format!("{length:x};a\nb\r\n{CALL}\r\n0\r\n\r\n{hidden}"),
        ),
        post(
            "Transfer-Encoding: chunked\r\n",
            &format!("-{length:x}\r\n{CALL}\r\n0\r\n\r\n{hidden}"),
        ),
        post(
            "Transfer-Encoding: chunked\r\n",
            &format!("1{length:016x}\r\n{CALL}\r\n0\r\n\r\n{hidden}"),
        ),
        // A carriage return alone ends no line.
        post(
            &format!("X: a\rContent-Length: {length}\r\n"),
            &format!("{CALL}{hidden}"),
        ),
        // A body after a handshake would be its first frames.
        OPENING.replace(
            "\r\n\r\n",
            &format!("\r\nContent-Length: {}\r\n\r\n{hidden}", hidden.len()),
        ),
        OPENING.replace(
            "\r\n\r\n",
            &format!("\r\nTransfer-Encoding: chunked\r\n\r\n{both}"),
        ),
    ]
}

/// Requests that a library may read in one way (RFC 9110 clause 8.6, RFC 9112 clause 6.1). Our listeners refuse them.
fn read_in_one_way() -> [String; 2] {
    let (hidden, length) = (whole(), CALL.len());
    [
        // The length says the same twice, so what follows is hidden from nobody.
        post(
            &format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"),
            &format!("{CALL}{hidden}"),
        ),
        // The coding counts, and the connection ends after the answer.
        post(
            &format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
            &format!("{length:x}\r\n{CALL}\r\n0\r\n\r\n{hidden}"),
        ),
    ]
}

// web.md §5
// USE-12 SEC-08
#[test]
fn a_request_that_was_hidden_in_another_ran() {
    for (on, server) in servers() {
        let mut requests = ambiguous();
        if on == "axum" {
            let [_, coded] = read_in_one_way();
            let ran = server.ran();
            let seen = statuses(&server, &coded);
            assert_eq!((server.ran() - ran, &seen[..]), (1, &[200][..]), "{on}");
        } else {
            requests.extend(read_in_one_way());
        }
        for request in requests {
            // Alone, and after a request that was well.
            for before in [0, 1] {
                let ran = server.ran();
                let sent = whole().repeat(before) + &request;
                let seen = statuses(&server, &sent);
                assert_eq!(server.ran() - ran, before, "{on} {request} {seen:?}");
                assert!(seen.len() <= before + 1, "{on} {request} {seen:?}");
                let refused = seen
                    .get(before)
                    .is_none_or(|status| (400..=501).contains(status));
                // hyper alone lets the coding count, and ends the connection after the answer.
                assert!(refused || on == "axum", "{on} {request} {seen:?}");
            }
        }
    }
}

// web.md §5
// USE-12 SEC-08
#[test]
fn line_feeds_alone_hid_a_request() {
    let length = CALL.len();
    let bare = |text: &str| text.replace("\r\n", "\n");
    for (on, server) in servers() {
        // A reader may take a line feed alone for the end of a line (RFC 9112 clause 2.2). Then it does so in
        // every line, and the empty line ends the head: nothing is hidden, whatever the lines end with.
        for (request, at_most) in [
            (bare(&whole()), 1),
            (
                post(&format!("X: a\nContent-Length: {length}\r\n"), CALL),
                1,
            ),
            (
                post(
                    &format!("X: a\nContent-Length: {length}\nContent-Length: 0\r\n"),
                    CALL,
                ),
                0,
            ),
            (
                post(
                    &format!("X: a\nTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
                    CALL,
                ),
                0,
            ),
            (
                bare(&post(
                    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                    "0\r\n\r\n",
                )),
                0,
            ),
        ] {
            let ran = server.ran();
            let seen = statuses(&server, &request);
            assert!(server.ran() - ran <= at_most, "{on} {request:?} {seen:?}");
            assert!(seen.len() <= 1, "{on} {request:?} {seen:?}");
        }
    }
}

const SHORT: Duration = Duration::from_millis(400);

/// Much longer than `SHORT`, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(10);

/// Sends a byte after the other until the server ends the connection, and gives what it has said.
fn drip(mut stream: TcpStream, bytes: &str) -> String {
    let begun = Instant::now();
    stream
        .set_read_timeout(Some(Duration::from_millis(40)))
        .expect("a timeout");
    let (mut said, mut buf) = (Vec::new(), [0; 1024]);
    let mut left = bytes.bytes().cycle();
    loop {
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        let byte = left.next().expect("bytes");
        let _ = stream.write_all(&[byte]);
        match stream.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => said.extend_from_slice(&buf[..n]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&said).into_owned()
}

// web.md §5
// USE-12 SEC-10
#[test]
fn slow_heads_bodies_and_readers_held_their_connections() {
    for on in EVERYWHERE {
        let mut config = HttpConfig::from(Config::new().max_message_bytes(64 << 20));
        config.rules.first_byte_timeout = SHORT;
        config.rules.header_timeout = SHORT;
        config.rules.body_timeout = SHORT;
        config.rules.idle_timeout = SHORT;
        config.connection.config.timeouts.write_timeout = Some(SHORT);
        config.connection.linger = SHORT;
        config.connection.config.limits.max_outbox_bytes = 128 << 20;
        let server = Served::start(on, Listener::Web(Box::new(OnePort::new(config.clone()))));
        config.rules.body_timeout = LONG;
        let readers = Served::start(on, Listener::Web(Box::new(OnePort::new(config))));
        std::thread::scope(|scope| {
            let (server, readers) = (server.address(), readers.address());
            for _ in 0..8 {
                scope.spawn(move || {
                    // Nothing at all.
                    let mut silent = connect(server);
                    let begun = Instant::now();
                    assert_eq!(silent.read(&mut [0]).unwrap_or(0), 0, "{on:?}");
                    assert!(begun.elapsed() < SOON, "{on:?}");
                });
                scope.spawn(move || {
                    let said = drip(
                        connect(server),
                        "POST / HTTP/1.1\r\nHost: localhost\r\nX: y",
                    );
                    assert!(!said.contains(" 200 "), "{on:?} {said}");
                });
                scope.spawn(move || {
                    let mut stream = connect(server);
                    let head = post("Content-Length: 100000\r\n", "");
                    stream.write_all(head.as_bytes()).expect("sent");
                    let said = drip(stream, " ");
                    assert!(said.starts_with("HTTP/1.1 408 "), "{on:?} {said}");
                });
            }
            for _ in 0..4 {
                scope.spawn(move || {
                    // Its answer is larger than the sockets hold, and it reads none of it.
                    let call = CALL.replace(
                        "\"id\"",
                        &format!("\"params\":[\"{}\"],\"id\"", "x".repeat(16 << 20)),
                    );
                    let request = post(&format!("Content-Length: {}\r\n", call.len()), &call);
                    // Connected last, for the first byte is due soon.
                    let mut stream = connect(readers);
                    stream.write_all(request.as_bytes()).expect("sent");
                    let begun = Instant::now();
                    let closed = |stream: &TcpStream| {
                        stream.peek(&mut [0]).is_err() || {
                            let mut stream = stream;
                            stream.write_all(b" ").is_err()
                        }
                    };
                    while !closed(&stream) {
                        assert!(begun.elapsed() < SOON, "{on:?}");
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
            }
        });
        // The server is as it was.
        assert_eq!(statuses(&server, &whole()), [200], "{on:?}");
    }
}
