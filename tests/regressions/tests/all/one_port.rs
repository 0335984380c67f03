//! HTTP and WebSocket on one port: each request judged by itself, and nothing run for those that are refused.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use antiphon::Config;
use antiphon_net::Context;
use antiphon_net::http::{HttpConfig, Refusal};
use antiphon_regressions::LONG;
use antiphon_regressions::frames::{self, CLOSE, OPENING, PING, PONG, TEXT, masked};
use antiphon_regressions::served::{EVERYWHERE, Listener, On, OnePort, Served, User};

const TOKEN: &str = "Authorization: Bearer s3cret\r\n";

/// Lets in who has the token; is slow, or panics, where the token says so.
fn check(context: &Context) -> Result<User, Refusal> {
    match context.header("authorization") {
        Some("Bearer s3cret") => Ok(User("Ada".into())),
        Some("Bearer slow") => {
            thread::sleep(Duration::from_millis(1500));
            Ok(User("Sid".into()))
        }
        Some("Bearer panic") => panic!("as asked"),
        Some("Bearer busy") => {
            let busy = Refusal::new(429, "too many requests");
            Err(busy.retry_after(Duration::from_secs(7)))
        }
        _ => Err(Refusal::unauthorized("Bearer realm=\"test\"")),
    }
}

fn one_port() -> OnePort {
    OnePort::new(Config::new())
}

fn connect(server: &Served) -> TcpStream {
    let stream = server.connect();
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.set_write_timeout(Some(LONG)).expect("a timeout");
    stream
}

fn call(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":1}}"#)
}

fn post(lines: &str, body: &str) -> String {
    let length = body.len();
    format!("POST / HTTP/1.1\r\nHost: localhost\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
}

fn get(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
}

/// The request for a WebSocket, with more lines.
fn upgrade(lines: &str) -> String {
    OPENING.replace(
        "Upgrade: websocket\r\n",
        &format!("Upgrade: websocket\r\n{lines}"),
    )
}

/// Sends a request, and reads the head and the body of its answer.
fn asked(stream: &mut (impl Read + Write), request: &str) -> (u16, String, String) {
    stream.write_all(request.as_bytes()).expect("sent");
    answer(stream)
}

fn answer(stream: &mut impl Read) -> (u16, String, String) {
    let head = frames::read_head(stream).expect("a head").to_lowercase();
    let status = head[9..12].parse().expect("a status");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().expect("a length"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    (status, head, String::from_utf8(body).expect("text"))
}

/// Calls over an open WebSocket.
fn called(stream: &mut (impl Read + Write), method: &str) -> String {
    stream
        .write_all(&masked(TEXT, call(method).as_bytes()))
        .expect("sent");
    let (first, message) = frames::read(stream).expect("a frame");
    assert_eq!(first, TEXT);
    String::from_utf8(message).expect("text")
}

fn result(value: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","result":{value},"id":1}}"#)
}

/// One connection, over which everything is asked for.
fn use_one_connection(on: On, server: &Served, stream: &mut (impl Read + Write)) {
    let (status, _, body) = asked(stream, &post(TOKEN, &call("who")));
    assert_eq!((status, body), (200, result(r#"["Ada"]"#)));
    let (status, _, body) = asked(stream, &get("/health", "localhost"));
    assert_eq!((status, &*body), (200, "ok\n"));
    let (status, head, body) = asked(stream, &get("/metrics?x", "127.0.0.1"));
    assert_eq!((status, &*body), (200, "up 1\n"));
    assert!(head.contains("content-type: text/plain; version=0.0.4\r\n"));
    // On threads each of the pool makes a service when it has something to do, if only with the end of the first exchange.
    let made = || (on != On::Threads).then(|| server.made());
    let before = (made(), server.ran());
    // What is refused runs nothing, and the connection goes on.
    let (status, head, _) = asked(stream, &upgrade(""));
    assert_eq!(status, 401);
    assert!(
        head.contains("www-authenticate: bearer realm=\"test\"\r\n"),
        "{head}"
    );
    let (status, head, body) = asked(stream, &upgrade("Authorization: Bearer busy\r\n"));
    assert_eq!((status, &*body), (429, "too many requests\n"));
    assert!(head.contains("retry-after: 7\r\n"), "{head}");
    let (status, _, _) = asked(
        stream,
        &upgrade(&format!("{TOKEN}Origin: https://evil.example\r\n")),
    );
    assert_eq!(status, 403);
    let (status, _, _) = asked(stream, &get("/metrics", "evil.example"));
    assert_eq!(status, 403);
    let (status, _, _) = asked(stream, &get("/", "localhost"));
    assert_eq!(status, 405);
    let (status, _, _) = asked(stream, &upgrade(TOKEN).replace("13", "8"));
    assert_eq!(status, 426);
    let (status, _, _) = asked(stream, &post("", &call("who")));
    assert_eq!(status, 401);
    assert_eq!((made(), server.ran()), before);
}

fn use_websocket(stream: &mut (impl Read + Write)) {
    let (status, head, _) = asked(stream, &upgrade(TOKEN));
    assert_eq!(status, 101, "{head}");
    assert!(
        head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"),
        "{head}"
    );
    assert_eq!(called(stream, "who"), result(r#"["Ada"]"#));
    stream.write_all(&masked(PING, b"?")).expect("sent");
    assert_eq!(
        frames::read(stream).expect("a frame"),
        (PONG, b"?".to_vec())
    );
    assert_eq!(called(stream, "who"), result(r#"["Ada"]"#));
    stream
        .write_all(&masked(CLOSE, &1000_u16.to_be_bytes()))
        .expect("sent");
    let (first, code) = frames::read(stream).expect("a frame");
    assert_eq!((first, &code[..2]), (CLOSE, &1000_u16.to_be_bytes()[..]));
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
}

// web.md §5
// USE-12 USE-13
#[test]
fn posts_pages_and_a_websocket_go_over_one_connection_that_is_kept_alive() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port().check(check))));
        let mut stream = connect(&server);
        use_one_connection(on, &server, &mut stream);
        // The next request may come together with the last.
        let twice = post(TOKEN, &call("who")).repeat(2);
        assert_eq!(asked(&mut stream, &twice).0, 200, "{on:?}");
        assert_eq!(answer(&mut stream).0, 200, "{on:?}");
        use_websocket(&mut stream);
        assert!(server.made() > 0, "{on:?}");
    }
}

// web.md §5
// USE-12
#[test]
fn a_unix_socket_serves_posts_pages_and_a_websocket_too() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::UnixWeb(Box::new(one_port().check(check))));
        let mut stream = UnixStream::connect(server.path()).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a timeout");
        use_one_connection(on, &server, &mut stream);
        use_websocket(&mut stream);
    }
}

// web.md §5
// USE-13
#[test]
fn a_refused_upgrade_made_a_service() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port().check(check))));
        let mut stream = connect(&server);
        for lines in [
            "",
            "Authorization: Bearer busy\r\n",
            "Origin: https://evil.example\r\n",
        ] {
            let (status, _, _) = asked(&mut stream, &upgrade(lines));
            assert!(matches!(status, 401 | 403 | 429), "{on:?} {status}");
        }
        drop(stream);
        assert_eq!((server.made(), server.ran()), (0, 0), "{on:?}");
    }
}

// web.md §5
// USE-13
#[test]
fn a_gigabyte_was_asked_for_before_the_verdict() {
    let big = "Content-Length: 1000000000\r\nExpect: 100-continue\r\n";
    for on in EVERYWHERE {
        let options = Config::new().max_message_bytes(2_000_000_000);
        let options = OnePort::new(HttpConfig::from(options)).check(check);
        let server = Served::start(on, Listener::Web(Box::new(options)));
        let mut stream = connect(&server);
        let head = format!("POST / HTTP/1.1\r\nHost: localhost\r\n{big}\r\n");
        let (status, _, _) = asked(&mut stream, &head);
        assert_eq!(status, 401, "{on:?}: the first line, so no 100 came before");
        // What is sent all the same is not read as a request, and the connection ends.
        let _ = stream.write_all(post(TOKEN, &call("who")).as_bytes());
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{on:?}");
        assert_eq!((server.made(), server.ran()), (0, 0), "{on:?}");
        // With a token the body is asked for, and read.
        let mut stream = connect(&server);
        let body = call("who");
        let head = post(&format!("{TOKEN}Expect: 100-continue\r\n"), &body);
        let (status, _, _) = asked(&mut stream, head.strip_suffix(&body).expect("its body"));
        assert_eq!(status, 100, "{on:?}");
        let (status, _, body) = asked(&mut stream, &body);
        assert_eq!((status, body), (200, result(r#"["Ada"]"#)), "{on:?}");
    }
}

// web.md §2
// USE-12
#[test]
fn frames_that_come_with_the_handshake_or_before_its_answer_are_read() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port().check(check))));
        let first = [
            upgrade(TOKEN).as_bytes(),
            &masked(TEXT, call("who").as_bytes()),
        ]
        .concat();
        // The check takes a while, so the frames are there before the answer.
        let slow = upgrade("Authorization: Bearer slow\r\n");
        let late = [slow.as_bytes(), &masked(TEXT, call("who").as_bytes())].concat();
        for (bytes, at, user) in [
            (&first, first.len(), "Ada"),
            (&first, first.len() - 9, "Ada"),
            (&first, 20, "Ada"),
            (&late, slow.len(), "Sid"),
        ] {
            let mut stream = connect(&server);
            stream.write_all(&bytes[..at]).expect("sent");
            thread::sleep(Duration::from_millis(20));
            stream.write_all(&bytes[at..]).expect("sent");
            assert_eq!(answer(&mut stream).0, 101, "{on:?} {at}");
            let (first, message) = frames::read(&mut stream).expect("a frame");
            let message = String::from_utf8(message).expect("text");
            assert_eq!(
                (first, message),
                (TEXT, result(&format!(r#"["{user}"]"#))),
                "{on:?}"
            );
        }
    }
}

// USE-13
#[test]
fn a_check_that_panics_lets_nobody_in_and_ends_no_server() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port().check(check))));
        let mut stream = connect(&server);
        for request in [
            post("Authorization: Bearer panic\r\n", &call("who")),
            upgrade("Authorization: Bearer panic\r\n"),
        ] {
            let mut stream = connect(&server);
            assert_eq!(asked(&mut stream, &request).0, 500, "{on:?}");
        }
        assert_eq!(server.ran(), 0, "{on:?}");
        assert_eq!(
            asked(&mut stream, &post(TOKEN, &call("who"))).0,
            200,
            "{on:?}"
        );
    }
}

// USE-13
#[test]
fn a_check_that_blocks_held_up_all_connections_of_threads() {
    let on = antiphon_regressions::served::On::Threads;
    let server = Served::start(on, Listener::Web(Box::new(one_port().check(check))));
    let mut slow = connect(&server);
    let request = post("Authorization: Bearer slow\r\n", &call("who"));
    slow.write_all(request.as_bytes()).expect("sent");
    let (mut quick, begun) = (connect(&server), Instant::now());
    assert_eq!(asked(&mut quick, &post(TOKEN, &call("who"))).0, 200);
    assert!(
        begun.elapsed() < Duration::from_millis(1000),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(answer(&mut slow).2, result(r#"["Sid"]"#));
}

// web.md §2
// USE-35
#[test]
fn a_name_that_was_rebound_is_refused_whatever_is_asked_for_on_the_port() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port())));
        let mut stream = connect(&server);
        let origin = "Origin: http://evil.example\r\nContent-Type: application/json\r\n";
        for request in [
            post(origin, &call("m")),
            upgrade(origin),
            get("/metrics", "evil.example"),
            get("/health", "evil.example:80"),
        ] {
            let request = request.replace("Host: localhost", "Host: evil.example");
            let mut stream = connect(&server);
            let (status, _, body) = asked(&mut stream, &request);
            let knob = "this host is not listed in `WebRules::hosts`\n";
            assert_eq!((status, &*body), (403, knob), "{on:?} {request}");
        }
        assert_eq!((server.made(), server.ran()), (0, 0), "{on:?}");
        let own = origin.replace("evil.example", "localhost");
        assert_eq!(asked(&mut stream, &post(&own, &call("m"))).0, 200, "{on:?}");
    }
}

// web.md §2
// WSK-09
#[test]
fn a_websocket_on_the_port_is_told_that_the_server_leaves() {
    for on in EVERYWHERE {
        let server = Served::start(on, Listener::Web(Box::new(one_port())));
        let mut stream = connect(&server);
        assert_eq!(asked(&mut stream, &upgrade("")).0, 101, "{on:?}");
        assert_eq!(called(&mut stream, "who"), result("[null]"), "{on:?}");
        drop(server);
        let (first, code) = frames::read(&mut stream).expect("a frame");
        assert_eq!(
            (first, &code[..2]),
            (CLOSE, &1001_u16.to_be_bytes()[..]),
            "{on:?}"
        );
    }
}
