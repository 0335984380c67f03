//! Headers of an HTTP request or a WebSocket handshake, and whether the request runs.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::TcpStream;

use antiphon::Config;
use antiphon_net::ConnectionConfig;
use antiphon_net::http::{Cors, Endpoint, HttpConfig};
use antiphon_net::websocket::WebSocketConfig;
use antiphon_regressions::LONG;
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};
use antiphon_stress::Rt;

const CALL: &str = r#"{"jsonrpc":"2.0","method":"m","params":[7],"id":1}"#;

fn connect(server: &Served) -> TcpStream {
    let stream = server.connect();
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.set_write_timeout(Some(LONG)).expect("a timeout");
    stream
}

/// One answer, head and body, for a request of this method.
fn read_answer(stream: &mut TcpStream, method: &str) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).expect("text");
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length
        .filter(|_| method != "HEAD")
        .map_or(0, |n| n.parse().expect("a number"));
    let mut body = vec![0; length];
    stream.read_exact(&mut body).expect("a body");
    head + &String::from_utf8(body).expect("text")
}

/// Sends a request on a connection of its own, and returns the answer.
fn answered(server: &Served, request: &str) -> String {
    let mut stream = connect(server);
    stream.write_all(request.as_bytes()).expect("sent");
    read_answer(&mut stream, request.split(' ').next().unwrap_or_default())
}

fn status(answer: &str) -> u16 {
    let status = answer
        .strip_prefix("HTTP/1.1 ")
        .and_then(|rest| rest.get(..3));
    let status = status.or(answer
        .strip_prefix("HTTP/1.0 ")
        .and_then(|rest| rest.get(..3)));
    let status = status.unwrap_or_else(|| panic!("no status: {answer:?}"));
    status.parse().expect("a number")
}

fn post(headers: &str) -> String {
    format!(
        "POST / HTTP/1.1\r\n{headers}Content-Length: {}\r\n\r\n{CALL}",
        CALL.len()
    )
}

fn serve_http(on: On, options: impl Into<HttpConfig>) -> Served {
    Served::start(on, Listener::Http(Box::new(options.into())))
}

/// Sends each request, and expects its status; only a request that is answered 200 has run.
fn expect(server: &Served, cases: &[(String, u16)], what: &dyn std::fmt::Debug) {
    for (request, wanted) in cases {
        let ran = server.ran();
        let answer = answered(server, request);
        assert_eq!(status(&answer), *wanted, "{what:?}: {request}\n{answer}");
        let has_run = usize::from(*wanted == 200);
        assert_eq!(server.ran() - ran, has_run, "{what:?}: {request}\n{answer}");
    }
}

// USE-07 SEC-08
#[test]
fn a_browsers_post_without_a_type_was_answered_200_and_had_run() {
    let evil = "Host: a\r\nOrigin: http://evil.example\r\n";
    let from = |lines: &str| post(&format!("{evil}{lines}"));
    let cases = [
        (from(""), 415),
        (from("Content-Type: text/plain\r\n"), 415),
        (from("Content-Type: text/plain; application/json\r\n"), 415),
        (
            from("Content-Type: application/x-www-form-urlencoded\r\n"),
            415,
        ),
        (
            from("Content-Type: multipart/form-data; boundary=b\r\n"),
            415,
        ),
        (from("Content-Type:\r\n"), 415),
        (post("Host: a\r\nOrigin: null\r\n"), 415),
        (post("Host: a\r\nSec-Fetch-Site: cross-site\r\n"), 415),
        (from("").replace("POST", "GET"), 405),
        (from("").replace("POST", "HEAD"), 405),
        // A browser asks for this by a preflight first, which is refused here.
        (from("Content-Type: application/json\r\n"), 200),
        (
            from("Content-Type: application/json; charset=utf-8\r\n"),
            200,
        ),
        // No browser.
        (post("Host: a\r\n"), 200),
        (
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: http://evil.example\r\n\r\n".into(),
            405,
        ),
    ];
    let mut options = HttpConfig::from(Config::new());
    options.rules.origins.push("*".into());
    for on in EVERYWHERE {
        expect(&serve_http(on, options.clone()), &cases, &on);
        // By default, pages of other origins are not let in at all.
        let server = serve_http(on, Config::new());
        for (request, _) in &cases {
            let is_page = request.contains("Origin: ");
            let wanted = if is_page { 403 } else { 200 };
            if is_page || !request.contains("Sec-Fetch-Site") {
                expect(&server, &[(request.clone(), wanted)], &on);
            }
        }
    }
}

// USE-07 SEC-08
#[test]
fn an_allowed_origin_works_preflight_included_and_no_other_does() {
    let mut options = HttpConfig::from(Config::new());
    options.rules.origins.push("http://app.example".into());
    options.rules.cors = Some(Cors::new());
    let from = |origin: &str, lines: &str| post(&format!("Host: a\r\nOrigin: {origin}\r\n{lines}"));
    let json = "Content-Type: application/json\r\n";
    let preflight = |origin: &str| {
        format!(
            "OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: {origin}\r\n\
             Access-Control-Request-Method: POST\r\n\
             Access-Control-Request-Headers: content-type\r\n\r\n"
        )
    };
    for on in EVERYWHERE {
        let server = serve_http(on, options.clone());
        let cases = [
            (from("http://app.example", json), 200),
            (from("http://app.example", ""), 415),
            (from("http://evil.example", json), 403),
            (from("http://evil.example", ""), 403),
            (preflight("http://evil.example"), 403),
            (preflight("http://app.example"), 204),
        ];
        expect(&server, &cases, &on);
        for request in [
            preflight("http://app.example"),
            from("http://app.example", json),
        ] {
            let answer = answered(&server, &request);
            assert!(
                answer.contains("access-control-allow-origin: http://app.example\r\n"),
                "{answer}"
            );
        }
        let answer = answered(&server, &preflight("http://app.example"));
        assert!(
            answer.contains("access-control-allow-headers: content-type\r\n"),
            "{answer}"
        );
    }
}

// USE-07
#[test]
fn an_endpoint_in_a_framework_answered_an_evil_origin_without_asking_its_rules() {
    let mut options = HttpConfig::from(Config::new());
    options.rules.origins.push("http://app.example".into());
    options.rules.cors = Some(Cors::new());
    for rt in [Rt::Tokio, Rt::TokioLocal, Rt::Smol, Rt::AsyncStd] {
        let options = options.clone();
        rt.run(|runtime| async move {
            let endpoint = Endpoint::new(options, (), runtime);
            let asked = |lines: &[(&str, &str)]| {
                let mut request = http::Request::post("/").header("host", "a");
                for (name, value) in lines {
                    request = request.header(*name, *value);
                }
                request.body(CALL.into()).expect("a request")
            };
            let json = ("Content-Type", "application/json");
            for (lines, wanted) in [
                (
                    &[
                        ("Origin", "http://evil.example"),
                        ("content-type", "text/plain"),
                    ][..],
                    403,
                ),
                (&[("Origin", "http://evil.example"), json], 403),
                (
                    &[
                        ("Origin", "http://app.example"),
                        ("content-type", "text/plain"),
                    ],
                    415,
                ),
                (&[("Origin", "http://app.example")], 415),
                (&[("sec-fetch-site", "cross-site")], 415),
                (&[("origin", "http://app.example"), json], 200),
                (&[("origin", "http://app.example"), json, json], 400),
                (&[json, ("content-encoding", "gzip")], 415),
                (&[json], 200),
                (&[], 200),
            ] {
                let answer = endpoint.answer_whole(asked(lines)).await;
                assert_eq!(answer.status(), wanted, "{rt:?} {lines:?}");
            }
        });
    }
}

// USE-08
#[test]
fn headers_that_may_stand_once_stood_twice_or_were_missing_and_the_call_ran() {
    let json = "Content-Type: application/json\r\n";
    let with = |lines: &str| post(&format!("Host: a\r\n{json}{lines}"));
    let (length, chunked) = (CALL.len(), "Transfer-Encoding: chunked\r\n");
    let in_chunks = |lines: &str| {
        format!("POST / HTTP/1.1\r\nHost: a\r\n{json}{lines}\r\n{length:x}\r\n{CALL}\r\n0\r\n\r\n")
    };
    let cases = [
        (post(json), 400),
        (post(&format!("Host: a\r\nHost: a\r\n{json}")), 400),
        (post(&format!("Host: a b/c\r\n{json}")), 400),
        (post(&format!("Host: user@a\r\n{json}")), 400),
        (post(&format!("Host: a, b\r\n{json}")), 400),
        (post(&format!("Host: [::1]:80\r\n{json}")), 200),
        (post(&format!("Host: a:80\r\n{json}")), 200),
        (with(json), 400),
        (with("Content-Type: text/plain\r\n"), 400),
        (with(&format!("Content-Length: {length}\r\n")), 400),
        (with("Content-Length: 2\r\n"), 400),
        (with(chunked), 400),
        (
            in_chunks(&format!("{chunked}Content-Length: {length}\r\n")),
            400,
        ),
        (
            in_chunks(&format!("Content-Length: {length}\r\n{chunked}")),
            400,
        ),
        (in_chunks(chunked), 200),
        (in_chunks(&format!("{chunked}{chunked}")), 400),
        (in_chunks("Transfer-Encoding: gzip, chunked\r\n"), 501),
        (with("Origin: http://a\r\nOrigin: http://a\r\n"), 400),
        (
            with("Authorization: Basic eDp5\r\nAuthorization: Basic eDp5\r\n"),
            400,
        ),
        (with("User-Agent: a\r\nUser-Agent: b\r\n"), 400),
        (
            with("Sec-Fetch-Site: none\r\nSec-Fetch-Site: none\r\n"),
            400,
        ),
        (with("Cookie: a=1\r\nCookie: b=2\r\n"), 200),
        (with("Via: 1.1 a\r\nVia: 1.1 b\r\n"), 200),
        (with("Bad Name: x\r\n"), 400),
        (with("").replace("Host:", "Host :"), 400),
        // RFC 9112 clause 3.2.2: the target may be absolute.
        (with("").replace("POST /", "POST http://a/"), 200),
        // Clause 3.2: before HTTP/1.1 a request may leave the host out, but not name two.
        (post(json).replace("HTTP/1.1", "HTTP/1.0"), 200),
        (
            post(&format!("Host: a\r\nHost: a\r\n{json}")).replace("HTTP/1.1", "HTTP/1.0"),
            400,
        ),
    ];
    for on in EVERYWHERE {
        expect(&serve_http(on, Config::new()), &cases, &on);
    }
}

// USE-08
#[test]
fn requests_one_behind_the_other_are_judged_each_by_its_own_headers() {
    let json = "Content-Type: application/json\r\n";
    let plain = post(&format!("Host: a\r\n{json}"));
    let in_chunks = format!(
        "POST / HTTP/1.1\r\nHost: a\r\n{json}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{CALL}\r\n0\r\n\r\n",
        CALL.len()
    );
    for on in EVERYWHERE {
        let server = serve_http(on, Config::new());
        // At once, and one after the answer to the other.
        let requests = [&plain, &in_chunks, &plain, &in_chunks];
        let mut stream = connect(&server);
        let at_once = requests.map(|request| request.as_bytes()).concat();
        stream.write_all(&at_once).expect("sent");
        for _ in requests {
            assert_eq!(status(&read_answer(&mut stream, "POST")), 200, "{on:?}");
        }
        let mut stream = connect(&server);
        for request in requests {
            stream.write_all(request.as_bytes()).expect("sent");
            assert_eq!(status(&read_answer(&mut stream, "POST")), 200, "{on:?}");
        }
        assert_eq!(server.ran(), 8, "{on:?}");
    }
}

// USE-08 WSK-01
#[test]
fn a_handshake_with_a_header_twice_or_with_a_body_was_accepted() {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    let ask = |lines: &str| {
        format!(
            "GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}{version}{lines}\r\n"
        )
    };
    let with = |lines: &str| ask(&format!("Host: a\r\n{lines}"));
    let cases = [
        (with(""), 101),
        (ask(""), 400),
        (ask("Host: a\r\nHost: a\r\n"), 400),
        (ask("Host: a b/c\r\n"), 400),
        (with(key), 400),
        (with(version), 400),
        (with("Origin: http://a\r\nOrigin: http://a\r\n"), 400),
        (with("Authorization: a\r\nAuthorization: b\r\n"), 400),
        (with("Content-Length: 2\r\n"), 400),
        (with("Content-Length: 0\r\n"), 101),
        (with("Content-Length: 0\r\nContent-Length: 0\r\n"), 400),
        (with("Transfer-Encoding: chunked\r\n"), 400),
        (
            with("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n"),
            400,
        ),
        (
            with("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: jsonrpc\r\n"),
            101,
        ),
        (with("").replace("HTTP/1.1", "HTTP/1.0"), 400),
        (with("").replace("GET /", "GET http://a/"), 101),
        (with("").replace("GET", "POST"), 405),
        (
            post("Host: a\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"),
            405,
        ),
    ];
    for on in EVERYWHERE {
        let options =
            ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
        let server = Served::start(on, Listener::Tcp(options));
        expect(&server, &cases, &on);
        assert_eq!(server.ran(), 0);
    }
}

// USE-09
#[test]
fn a_body_in_gzip_was_answered_200_with_a_parse_error() {
    let with = |lines: &str| {
        post(&format!(
            "Host: a\r\nContent-Type: application/json\r\n{lines}"
        ))
    };
    let cases = [
        (with("Content-Encoding: gzip\r\n"), 415),
        (with("Content-Encoding: br\r\n"), 415),
        (with("Content-Encoding: identity, x-own\r\n"), 415),
        (with("Content-Encoding: identity\r\n"), 200),
    ];
    for on in EVERYWHERE {
        let server = serve_http(on, Config::new());
        expect(&server, &cases, &on);
        let answer = answered(&server, &cases[0].0);
        assert!(
            answer.contains("\r\naccept-encoding: identity\r\n"),
            "{answer}"
        );
    }
}
