//! The door, as scripts: what a client sends, and the answer, byte for byte. Each request is asked as a whole and
//! split at every place.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Cors, Verdict, WebRules};
use crate::config::Config;
use crate::http::{Fields, HttpAnswer, Refusal, RequestHead, RequestScan};
use core::time::Duration;

/// The ways in.
#[derive(Clone, Copy, Debug)]
enum Way {
    Post,
    Upgrade,
    Page,
}

use Way::{Page, Post, Upgrade};

const WAYS: [Way; 3] = [Post, Upgrade, Page];

/// The lines of a request that each way lets in, without those of `Host` and `Origin`.
fn request(way: Way, lines: &str) -> String {
    match way {
        Post => format!("POST /rpc HTTP/1.1\r\ncontent-type: application/json\r\n{lines}\r\n"),
        Upgrade => format!(
            "GET /rpc HTTP/1.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
        ),
        Page => format!("GET /metrics HTTP/1.1\r\n{lines}\r\n"),
    }
}

fn shown(answer: &HttpAnswer) -> String {
    let mut text = answer.status.to_string();
    for (name, value) in &answer.headers {
        text += &format!("\n{name}: {value}");
    }
    format!("{text}\n\n{}", answer.body_text().unwrap_or_default())
}

/// What a server does with the request: `serve`, `open`, `show`, or the answer.
fn judged(rules: &WebRules, way: Way, head: &RequestHead<'_>) -> String {
    let done = match way {
        Post => match rules.judge(&Config::new(), head) {
            Verdict::Serve => Ok("serve"),
            Verdict::TooLarge(_) => Ok("too large"),
            Verdict::Answer(answer) => Err(answer),
        },
        Upgrade => rules.judge_upgrade(head).map(|_| "open"),
        Page => rules.judge_page(head).map(|()| "show"),
    };
    done.map_or_else(|answer| shown(&answer), str::to_string)
}

/// Reads a head that arrives in pieces, and judges it.
fn asked(rules: &WebRules, way: Way, pieces: &[&str]) -> String {
    let (mut scan, mut whole) = (RequestScan::new(), Vec::new());
    for piece in pieces {
        scan.take(piece.as_bytes());
        whole.extend_from_slice(piece.as_bytes());
    }
    let text = String::from_utf8_lossy(&whole);
    let mut lines = text.split("\r\n").take_while(|line| !line.is_empty());
    let first: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let mut fields = Fields::new();
    for line in lines {
        let (name, value) = line.split_once(':').expect("a header line");
        fields.line(name, value.as_bytes());
    }
    fields.compare_lengths(scan.take_lengths().unwrap_or(0));
    if first[2] == "HTTP/1.1" {
        fields.require_host();
    }
    judged(rules, way, &fields.head(first[0], first[1]))
}

/// The answer to a request, which does not depend on how it is split.
fn answered(rules: &WebRules, way: Way, request: &str) -> String {
    let whole = asked(rules, way, &[request]);
    for at in (0..request.len()).filter(|at| request.is_char_boundary(*at)) {
        let (first, second) = request.split_at(at);
        assert_eq!(asked(rules, way, &[first, second]), whole, "{at} {request}");
    }
    whole
}

fn plain(status: u16, text: &str) -> String {
    format!("{status}\ncontent-type: text/plain; charset=utf-8\n\n{text}\n")
}

fn served(way: Way) -> String {
    ["serve", "open", "show"][way as usize].into()
}

const NO_HOST: &str = "this host is not listed in `WebRules::hosts`";
const NO_ORIGIN: &str = "this origin is not listed in `WebRules::origins`";

// web.md §5
// USE-35 SEC-08
#[test]
fn a_name_that_was_rebound_is_refused_on_every_way_in_and_the_knob_is_named() {
    let rules = WebRules::new();
    let rebound = "Host: evil.example\r\nOrigin: http://evil.example\r\n";
    for way in WAYS {
        let answer = answered(&rules, way, &request(way, rebound));
        assert_eq!(answer, plain(403, NO_HOST), "{way:?}");
        let foreign = "Host: localhost\r\nOrigin: https://evil.example\r\n";
        let answer = answered(&rules, way, &request(way, foreign));
        assert_eq!(answer, plain(403, NO_ORIGIN), "{way:?}");
    }
    let mut own = WebRules::new();
    own.hosts.push("evil.example".into());
    let mut strict = WebRules::new();
    strict.origin_required = true;
    for way in WAYS {
        assert_eq!(answered(&own, way, &request(way, rebound)), served(way));
        let answer = answered(&strict, way, &request(way, "Host: localhost\r\n"));
        let why = "a request needs an origin here: `WebRules::origin_required`";
        // The programs that read a page send none.
        let wanted = if matches!(way, Page) {
            served(way)
        } else {
            plain(403, why)
        };
        assert_eq!(answer, wanted, "{way:?}");
    }
}

// web.md §2
// USE-35
#[test]
fn a_program_needs_no_origin_and_a_page_of_metrics_a_name_that_nobody_can_rebind() {
    let rules = WebRules::new();
    for (host, is_fixed) in [
        ("localhost:9090", true),
        ("x.localhost", true),
        ("127.0.0.1", true),
        ("10.1.2.3:9090", true),
        ("[2001:db8::1]:9090", true),
        ("node-7.internal", false),
        ("10.1.2.3.example", false),
        ("", false),
    ] {
        let lines = format!("Host: {host}\r\n");
        for way in [Post, Upgrade] {
            let answer = answered(&rules, way, &request(way, &lines));
            assert_eq!(answer, served(way), "{host}");
        }
        let wanted = if is_fixed {
            served(Page)
        } else {
            plain(403, NO_HOST)
        };
        assert_eq!(
            answered(&rules, Page, &request(Page, &lines)),
            wanted,
            "{host}"
        );
    }
    let old = "GET /metrics HTTP/1.0\r\n\r\n";
    assert_eq!(answered(&rules, Page, old), "show");
}

// web.md §2
// SEC-08
#[test]
fn an_origin_is_let_in_by_scheme_host_and_port_on_every_way_in() {
    let mut rules = WebRules::new();
    let known = [
        "https://app.example",
        "http://localhost:3000",
        "http://[::1]",
    ];
    rules.origins.extend(known.map(String::from));
    for (origin, is_let_in) in [
        ("https://app.example", true),
        ("HTTPS://App.Example", true),
        ("https://app.example:443", true),
        ("https://app.example:444", false),
        ("https://app.example:x", false),
        ("https://app.example:+443", false),
        ("https://app.example:", false),
        ("https://app.example:65979", false),
        ("http://app.example", false),
        ("https://app.example.evil", false),
        ("https://evil.example/https://app.example", false),
        ("https://evil@app.example", false),
        ("https://xapp.example", false),
        ("http://localhost:3000", true),
        ("http://localhost:3001", false),
        ("http://[::1]:80", true),
        ("http://[::1]:81", false),
        ("null", false),
        ("", false),
    ] {
        for way in WAYS {
            let lines = format!("Host: localhost:1\r\nOrigin: {origin}\r\n");
            let answer = answered(&rules, way, &request(way, &lines));
            let wanted = if is_let_in {
                served(way)
            } else {
                plain(403, NO_ORIGIN)
            };
            assert_eq!(answer, wanted, "{way:?} {origin}");
        }
    }
}

// USE-08 WSK-01 WSK-14
#[test]
fn what_is_no_proper_request_is_refused_byte_for_byte() {
    let mut rules = WebRules::new();
    rules.paths.push("/rpc".into());
    let host = "Host: localhost\r\n";
    for way in WAYS {
        let fault = |lines: &str| answered(&rules, way, &request(way, lines));
        let close = |text: &str| {
            let answer = HttpAnswer::text(400, text);
            shown(&answer.with_header("connection", "close"))
        };
        assert_eq!(fault(""), close("no header names the host\n"));
        let twice = format!("{host}{host}");
        assert_eq!(fault(&twice), close("the host is named twice\n"));
        let both = format!("{host}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n");
        let why = "a length and a transfer coding contradict each other\n";
        assert_eq!(fault(&both), close(why), "{way:?}");
    }
    let good = request(Upgrade, host);
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        answered(&rules, Upgrade, &good.replace(from, to))
    };
    let upgrade = "connection: upgrade\nupgrade: websocket\nsec-websocket-version: 13";
    let needed =
        |text: &str| format!("426\ncontent-type: text/plain; charset=utf-8\n{upgrade}\n\n{text}\n");
    assert_eq!(with("/rpc", "/rpc?token=x"), "open");
    assert_eq!(with("WebSocket\r\n", "h2c, websocket\r\n"), "open");
    assert_eq!(
        with("/rpc", "/rpc/"),
        plain(404, "nothing is served at this path")
    );
    assert_eq!(
        with("HTTP/1.1", "HTTP/1.0"),
        plain(400, "HTTP/1.1 is needed")
    );
    let none = needed("only a WebSocket is served here");
    assert_eq!(with("Upgrade: WebSocket\r\n", ""), none);
    assert_eq!(with("Upgrade: WebSocket", "Upgrade: h2c"), none);
    assert_eq!(with("keep-alive, Upgrade", "keep-alive"), none);
    let version = needed("WebSocket version 13 is needed");
    assert_eq!(with("Version: 13", "Version: 8"), version);
    assert_eq!(with("Sec-WebSocket-Version: 13\r\n", ""), version);
    let key = plain(400, "no valid WebSocket key");
    for wrong in [
        "short",
        "dGhlIHNhbXBsZSBub25jZQ=!",
        "dGhlIHNhbXBsZSBub25jZR==",
        "=",
        "==",
    ] {
        assert_eq!(with("dGhlIHNhbXBsZSBub25jZQ==", wrong), key, "{wrong}");
    }
    let body = HttpAnswer::text(400, "a handshake has no body\n");
    let body = shown(&body.with_header("connection", "close"));
    assert_eq!(with("Host", "Content-Length: 2\r\nHost"), body);
    assert_eq!(with("Host", "Transfer-Encoding: chunked\r\nHost"), body);
    let allow = |allowed: &str, text: &str| {
        let plain = plain(405, text);
        plain.replacen("\n\n", &format!("\nallow: {allowed}\n\n"), 1)
    };
    assert_eq!(
        with("GET", "POST"),
        allow("GET", "only GET opens a WebSocket")
    );
    let page = request(Page, host).replace("GET", "POST");
    let wanted = allow("GET, HEAD", "this page is read by GET");
    assert_eq!(answered(&rules, Page, &page), wanted);
    let wanted = allow("POST", "messages are sent by POST");
    assert_eq!(answered(&rules, Post, &good), wanted);
}

// USE-13
#[test]
fn a_refusal_of_the_program_says_what_to_do_and_may_be_read_by_an_accepted_page() {
    let mut rules = WebRules::new();
    rules.origins.push("https://app.example".into());
    rules.cors = Some(Cors::new());
    let mut head = RequestHead::new("POST", "/");
    head.origins = &["https://app.example"];
    let refusal = Refusal::unauthorized("Bearer").retry_after(Duration::from_millis(1500));
    let refusal = refusal.with_body("application/json", r#"{"login":"/login"}"#);
    let wanted = "401\nwww-authenticate: Bearer\nretry-after: 2\ncontent-type: application/json\n\
                  vary: origin\naccess-control-allow-origin: https://app.example\n\n{\"login\":\"/login\"}";
    assert_eq!(shown(&rules.refused(&head, refusal)), wanted);
}

// USE-14
#[test]
fn a_stream_is_accepted_only_by_its_name_and_with_a_weight() {
    for (accept, wanted) in [
        ("text/event-stream", true),
        ("application/json, Text/Event-Stream;q=0.5", true),
        ("text/event-stream; q=0.0", false),
        ("text/event-stream;q=0", false),
        ("*/*", false),
        ("text/*", false),
        ("application/json", false),
    ] {
        let mut fields = Fields::new();
        fields.line("Accept", accept.as_bytes());
        assert_eq!(fields.head("POST", "/").accepts_events, wanted, "{accept}");
    }
    let head = WebRules::new().stream(&RequestHead::new("POST", "/"));
    let headers = ["content-type", "cache-control", "x-accel-buffering"];
    let values = headers.map(|name| head.header(name));
    let expected = ["text/event-stream", "no-store", "no"].map(Some);
    assert_eq!((head.status, values), (200, expected));
}
