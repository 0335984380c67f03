//! HTTP and WebSocket servers: clients that hang up, pages of strangers, answers that are not there.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, McpRevision};
use antiphon_net::ConnectionConfig;
use antiphon_net::http::{Cors, Endpoint, HttpConfig};
use antiphon_net::websocket::WebSocketConfig;
use antiphon_regressions::LONG;
use antiphon_regressions::frames::{self, CLOSE, OPENING, TEXT, masked};
use antiphon_regressions::served::{EVERYWHERE, Listener, On, Served};
use antiphon_stress::Rt;

/// Much less than the default drain time of 30 s, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(10);

fn http(on: On, options: impl Into<HttpConfig>) -> Served {
    Served::start(on, Listener::Http(Box::new(options.into())))
}

fn websocket(on: On, config: Config) -> Served {
    let options = ConnectionConfig::from(config).with_websocket(WebSocketConfig::server());
    Served::start(on, Listener::Tcp(options))
}

fn connect(server: &Served) -> TcpStream {
    let stream = server.connect();
    stream.set_read_timeout(Some(LONG)).expect("a timeout");
    stream.set_write_timeout(Some(LONG)).expect("a timeout");
    stream
}

fn post(lines: &str, body: &str) -> String {
    let length = body.len();
    format!("POST / HTTP/1.1\r\n{lines}Content-Length: {length}\r\n\r\n{body}")
}

fn call(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1}}"#)
}

/// The status and the body of the answer to a request. `lines` are more headers.
fn answered(server: &Served, lines: &str, body: &str) -> (u16, String) {
    let mut stream = connect(server);
    let lines = format!("{lines}Connection: close\r\n");
    stream
        .write_all(post(&lines, body).as_bytes())
        .expect("sent");
    read_answer(&mut stream)
}

fn read_answer(stream: &mut TcpStream) -> (u16, String) {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.get(9..12).and_then(|status| status.parse().ok());
    (status.unwrap_or(0), body.to_owned())
}

fn open_websocket(server: &Served, lines: &str) -> (TcpStream, String) {
    let mut stream = connect(server);
    let opening = OPENING.replace("Host: localhost\r\n", lines);
    stream.write_all(opening.as_bytes()).expect("sent");
    let head = frames::read_head(&mut stream).expect("a head");
    (stream, head)
}

const HOST: &str = "Host: localhost\r\n";

// USE-29
#[test]
fn clients_that_hung_up_kept_their_handlers_running_for_the_drain_time() {
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        let request = post(HOST, &call("slow", "[60000]"));
        let clients: Vec<TcpStream> = (0..64)
            .map(|_| {
                let mut stream = connect(&server);
                stream.write_all(request.as_bytes()).expect("sent");
                stream
            })
            .collect();
        server.wait_running(64);
        drop(clients);
        let begun = Instant::now();
        let (status, _) = answered(&server, HOST, &call("m", "[]"));
        assert_eq!(status, 200, "{on:?}");
        assert!(begun.elapsed() < SOON, "{on:?} {:?}", begun.elapsed());
        let took = server.wait_running(0);
        assert!(took < SOON, "{on:?} {took:?}");
    }
}

// USE-29
#[test]
fn a_call_of_our_own_client_that_timed_out_ran_on_for_the_drain_time() {
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        let url = format!("http://{}/", server.address());
        let client = antiphon_blocking::connect(&url, Config::new(), ()).expect("a thread");
        let call = client.call::<u8>("slow", &[60_000]);
        let ended = call.timeout(Duration::from_millis(300)).wait();
        assert!(ended.is_err(), "{on:?}");
        let took = server.wait_running(0);
        assert!(took < SOON, "{on:?} {took:?}");
    }
}

// USE-29 USE-11
#[test]
fn a_client_that_ends_its_direction_is_answered_for_a_second() {
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        for (millis, status) in [(200, 200), (60_000, 0)] {
            let mut stream = connect(&server);
            let request = post(HOST, &call("slow", &format!("[{millis}]")));
            stream.write_all(request.as_bytes()).expect("sent");
            stream.shutdown(Shutdown::Write).expect("it is open");
            let begun = Instant::now();
            assert_eq!(read_answer(&mut stream).0, status, "{on:?} {millis}");
            let took = begun.elapsed();
            assert!(took < SOON, "{on:?} {took:?}");
            assert!(
                status == 200 || took > Duration::from_millis(900),
                "{took:?}"
            );
        }
        server.wait_running(0);
    }
}

// USE-29
#[test]
fn the_time_after_the_end_of_input_is_settable() {
    for on in EVERYWHERE {
        let short = Duration::from_millis(300);
        for (half_close, drain, is_answered) in [
            (Some(Duration::ZERO), LONG, false),
            (Some(2 * LONG), short, true),
            (None, LONG, true),
            (None, short, false),
        ] {
            let mut config = Config::new();
            config.timeouts.drain_timeout = Some(drain);
            let mut options = HttpConfig::from(config);
            options.rules.half_close_timeout = half_close;
            let server = http(on, options);
            let mut stream = connect(&server);
            let request = post(HOST, &call("slow", "[1500]"));
            stream.write_all(request.as_bytes()).expect("sent");
            stream.shutdown(Shutdown::Write).expect("it is open");
            let (status, _) = read_answer(&mut stream);
            assert_eq!(
                status == 200,
                is_answered,
                "{on:?} {half_close:?} {drain:?}"
            );
        }
    }
}

// USE-29
#[test]
fn a_client_that_had_sent_more_than_its_request_was_not_seen_to_hang_up() {
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        let slow = post(HOST, &call("slow", "[60000]"));
        for more in [
            "\r\n".to_owned(),
            "x".to_owned(),
            slow.clone(),
            slow.repeat(40),
        ] {
            let mut stream = connect(&server);
            stream.write_all(slow.as_bytes()).expect("sent");
            server.wait_running(1);
            stream.write_all(more.as_bytes()).expect("sent");
            thread::sleep(Duration::from_millis(50));
            drop(stream);
            let took = server.wait_running(0);
            assert!(took < SOON, "{on:?} {took:?} {}", more.len());
        }
    }
}

// USE-29
#[test]
fn a_websocket_that_ended_without_a_close_was_served_for_the_drain_time() {
    for on in EVERYWHERE {
        let server = websocket(on, Config::new());
        let slow = masked(TEXT, call("slow", "[60000]").as_bytes());
        for (is_half, more) in [(false, &b""[..]), (true, b""), (false, &slow[..9])] {
            let (mut stream, _) = open_websocket(&server, HOST);
            stream.write_all(&slow).expect("sent");
            server.wait_running(1);
            stream.write_all(more).expect("sent");
            let half_closed = if is_half {
                stream.shutdown(Shutdown::Write).expect("it is open");
                Some(stream)
            } else {
                drop(stream);
                None
            };
            let took = server.wait_running(0);
            assert!(took < Duration::from_secs(5), "{on:?} {took:?}");
            if let Some(mut stream) = half_closed {
                let mut rest = Vec::new();
                stream.read_to_end(&mut rest).expect("an end");
                assert!(rest.first().is_none_or(|first| *first == CLOSE), "{rest:?}");
            }
        }
    }
}

// USE-32
#[test]
fn a_request_that_was_not_answered_was_told_as_success() {
    let internal =
        r#"{"jsonrpc":"2.0","error":{"code":-32603,"message":"Internal error"},"id":null}"#;
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        let leave = call("leave", "[]");
        let told = leave.replace(r#","id":1"#, "");
        for (body, status, answer) in [
            (leave.clone(), 500, internal),
            (format!("[{leave},{leave}]"), 500, internal),
            (told.clone(), 204, ""),
            (format!("[{told}]"), 204, ""),
        ] {
            let wanted = (status, answer.to_owned());
            assert_eq!(answered(&server, HOST, &body), wanted, "{on:?} {body}");
        }
    }
}

// USE-32
#[test]
fn a_batch_whose_errors_were_too_large_was_told_as_success() {
    let calls = vec![call("fail", "[60000]"); 100].join(",");
    let mut config = Config::new();
    config.limits.max_batch_items = 400;
    config.limits.max_batch_calls = 400;
    for on in EVERYWHERE {
        for (body, config) in [
            (format!("[{calls}]"), Config::new()),
            (format!("[{calls},{calls},{calls},{calls}]"), config),
        ] {
            let server = http(on, config);
            let (status, answer) = answered(&server, HOST, &body);
            assert!(matches!(status, 200 | 500), "{on:?} {status}");
            assert!(answer.contains("\"error\""), "{on:?} {}", answer.len());
        }
    }
}

// HTP-01
#[test]
fn a_preset_over_http_did_not_choose_its_statuses() {
    for on in EVERYWHERE {
        let server = http(on, Config::mcp(McpRevision::V2025_11_25));
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert_eq!(
            answered(&server, HOST, note),
            (202, String::new()),
            "{on:?}"
        );
        let server = http(on, Config::bitcoin_legacy());
        let fail = r#"{"method":"fail","params":[1],"id":1}"#;
        assert_eq!(answered(&server, HOST, fail).0, 500, "{on:?}");
        // Rules that the program has chosen stay.
        let mcp = HttpConfig::new(Config::mcp(McpRevision::V2025_11_25));
        let server = http(on, mcp.with_rules(antiphon::http::WebRules::new()));
        assert_eq!(answered(&server, HOST, note).0, 204, "{on:?}");
    }
}

// SRV-16
#[test]
fn a_batch_over_its_limit_had_two_codes() {
    let batch = format!("[{}]", vec![call("m", "[]"); 101].join(","));
    let wanted = r#"{"jsonrpc":"2.0","error":{"code":-32003,"message":"Batch too large, limit: 100"},"id":null}"#;
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        assert_eq!(
            answered(&server, HOST, &batch),
            (200, wanted.into()),
            "{on:?}"
        );
        let server = websocket(on, Config::new());
        let (mut stream, _) = open_websocket(&server, HOST);
        stream
            .write_all(&masked(TEXT, batch.as_bytes()))
            .expect("sent");
        let (_, answer) = frames::read(&mut stream).expect("a frame");
        assert_eq!(String::from_utf8_lossy(&answer), wanted, "{on:?}");
    }
}

// HTP-08
#[test]
fn a_handler_over_http_could_not_see_that_its_peer_cannot_be_notified() {
    for on in EVERYWHERE {
        let server = http(on, Config::new());
        let (status, answer) = answered(&server, HOST, &call("tell", "[]"));
        assert_eq!(status, 200);
        assert!(
            answer.contains(r#"[false,"Err(NoPush)"]"#),
            "{on:?} {answer}"
        );
        let server = websocket(on, Config::new());
        let (mut stream, _) = open_websocket(&server, HOST);
        let tell = call("tell", "[]");
        stream
            .write_all(&masked(TEXT, tell.as_bytes()))
            .expect("sent");
        let (_, told) = frames::read(&mut stream).expect("a frame");
        assert!(String::from_utf8_lossy(&told).contains("told"), "{on:?}");
        let (_, answer) = frames::read(&mut stream).expect("a frame");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.contains(r#"[true,"Ok(())"]"#), "{on:?} {answer}");
    }
}

/// `Host` and `Origin` of a browser's request, and whether it is let in by default.
const PAGES: [(&str, &str, bool); 22] = [
    ("evil.example", "http://evil.example", false),
    ("evil.example", "https://evil.example", false),
    ("evil.example:8080", "http://evil.example:8080", false),
    ("localhost", "http://evil.example", false),
    ("127.0.0.1:8080", "http://evil.example:8080", false),
    (
        "localhost.evil.example",
        "http://localhost.evil.example",
        false,
    ),
    (
        "127.0.0.1.evil.example",
        "http://127.0.0.1.evil.example",
        false,
    ),
    ("192.168.0.7", "http://192.168.0.7", false),
    ("0.0.0.0", "http://0.0.0.0", false),
    ("localhost", "null", false),
    ("localhost:8080", "http://localhost:8081", false),
    ("localhost:8080", "http://localhost", false),
    ("localhost:8080", "http://127.0.0.1:8080", false),
    ("localhost", "http://localhost@evil.example", false),
    ("", "http://", false),
    ("localhost", "http://localhost", true),
    ("LOCALHOST", "https://localhost:443", true),
    ("localhost:8080", "http://LocalHost:8080", true),
    ("app.localhost:8080", "http://app.localhost:8080", true),
    ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
    ("127.8.9.1", "http://127.8.9.1:80", true),
    ("[::1]:8080", "http://[::1]:8080", true),
];

// USE-35 SEC-08
#[test]
fn a_page_whose_name_was_rebound_to_this_machine_was_served() {
    for on in EVERYWHERE {
        let (web, socket) = (http(on, Config::new()), websocket(on, Config::new()));
        for (host, origin, is_let_in) in PAGES {
            let lines = format!("Host: {host}\r\nOrigin: {origin}\r\n");
            let json = format!("{lines}Content-Type: application/json\r\n");
            let ran = web.ran();
            let (status, _) = answered(&web, &json, &call("m", "[]"));
            assert_eq!(status, if is_let_in { 200 } else { 403 }, "{on:?} {lines}");
            assert_eq!(web.ran() - ran, usize::from(is_let_in), "{on:?} {lines}");
            let (_, head) = open_websocket(&socket, &lines);
            let wanted = if is_let_in { " 101 " } else { " 403 " };
            assert!(head.contains(wanted), "{on:?} {lines}{head}");
        }
        // Programs send no origin, whatever the host is called.
        for host in ["evil.example", "10.0.0.1:8080", ""] {
            let lines = format!("Host: {host}\r\n");
            let (status, _) = answered(&web, &lines, &call("m", "[]"));
            assert_eq!(status, 200, "{on:?} {lines}");
            let (_, head) = open_websocket(&socket, &lines);
            assert!(head.contains(" 101 "), "{on:?} {lines}{head}");
        }
    }
}

// USE-35 USE-07
#[test]
fn hosts_that_are_listed_let_in_pages_of_the_servers_own() {
    let mut options = HttpConfig::from(Config::new());
    options.rules.hosts.push("app.example".into());
    options.rules.cors = Some(Cors::new());
    let mut route = WebSocketConfig::server();
    route.web.hosts.push("app.example".into());
    for on in EVERYWHERE {
        let web = http(on, options.clone());
        let plain = ConnectionConfig::from(Config::new());
        let socket = Served::start(on, Listener::Tcp(plain.with_websocket(route.clone())));
        for (host, origin, is_let_in) in [
            ("app.example:8080", "http://app.example:8080", true),
            ("app.example", "https://app.example", true),
            ("app.example", "https://evil.example", false),
            ("evil.example", "https://app.example", false),
            ("evil.example", "https://evil.example", false),
        ] {
            let lines = format!("Host: {host}\r\nOrigin: {origin}\r\n");
            let json = format!("{lines}Content-Type: application/json\r\n");
            let (status, _) = answered(&web, &json, &call("m", "[]"));
            assert_eq!(status, if is_let_in { 200 } else { 403 }, "{on:?} {lines}");
            // The browser asks first: OPTIONS.
            let mut stream = connect(&web);
            let preflight = format!("OPTIONS / HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
            stream.write_all(preflight.as_bytes()).expect("sent");
            let (status, _) = read_answer(&mut stream);
            assert_eq!(status, if is_let_in { 204 } else { 403 }, "{on:?} {lines}");
            let (_, head) = open_websocket(&socket, &lines);
            let wanted = if is_let_in { " 101 " } else { " 403 " };
            assert!(head.contains(wanted), "{on:?} {lines}{head}");
        }
    }
}

// USE-35
#[test]
fn an_endpoint_in_a_framework_served_a_page_whose_name_was_rebound() {
    for rt in [Rt::Tokio, Rt::TokioLocal, Rt::Smol, Rt::AsyncStd] {
        rt.run(|runtime| async move {
            let endpoint = Endpoint::new(Config::new(), (), runtime);
            for (host, origin, is_let_in) in PAGES {
                let request = http::Request::post("/")
                    .header("host", host)
                    .header("origin", origin)
                    .header("content-type", "application/json");
                let request = request.body(call("m", "[]").into()).expect("a request");
                let status = endpoint.answer_whole(request).await.status().as_u16();
                let wanted = if is_let_in { 200 } else { 403 };
                assert_eq!(status, wanted, "{rt:?} {host} {origin}");
            }
        });
    }
}
