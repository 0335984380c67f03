//! If an HTTP server does not answer with JSON-RPC, the caller gets its status, its headers and the
//! beginning of its body.
//!
//! Most tests are named after the fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use antiphon::Config;
use antiphon_net::websocket::WebSocketEnd;
use antiphon_net::{CallError, Client, ClientConfig, ConnectError};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};

/// The status line after the version, further headers, and the body of one reply.
type Reply = (&'static str, &'static str, &'static [u8]);

/// A server that gives these replies, one a connection. Gives its URL, and the requests.
fn server(replies: &'static [Reply]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let (told, requests) = channel();
    thread::spawn(move || {
        for (status, headers, body) in replies {
            let (mut socket, _) = listener.accept().expect("a client");
            socket.set_read_timeout(Some(LONG)).expect("a socket");
            let (mut read, mut byte) = (Vec::new(), [0]);
            while !read.ends_with(b"}") {
                socket.read_exact(&mut byte).expect("a request");
                read.extend_from_slice(&byte);
            }
            let _ = told.send(String::from_utf8_lossy(&read).to_lowercase());
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            let reply = [head.as_bytes(), body].concat();
            socket.write_all(&reply).expect("a client");
        }
    });
    (url, requests)
}

/// What the hook was given: a status, and the header `Retry-After` or `X-Session`.
type Head = (u16, Option<String>);

/// How a call ended, and the heads that the hook was given.
struct Ended {
    result: Result<u64, CallError>,
    heads: Vec<Head>,
}

/// A configuration with a hook, and what the hook was given.
fn hooked(config: Config) -> (ClientConfig, Arc<Mutex<Vec<Head>>>) {
    let heads = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&heads);
    let options = ClientConfig::from(config).with_on_reply(move |reply| {
        let named = ["retry-after", "x-session"].iter();
        let header = named.filter_map(|name| reply.headers.get(name)).next();
        let mut heads = taken.lock().expect("no panic");
        heads.push((reply.status, header.map(Into::into)));
    });
    (options, heads)
}

/// Runs `test` with a client, or why there is none, on a runtime or, without one, on threads.
fn connected<T>(
    rt: Option<Rt>,
    url: &str,
    options: ClientConfig,
    test: impl AsyncFnOnce(Result<Client, ConnectError>) -> T,
) -> T {
    match rt {
        None => {
            choose_executor();
            antiphon_net::block_on(test(antiphon_blocking::connect(url, options, ())))
        }
        Some(rt) => rt.run(|_| async {
            test(match rt {
                Rt::Tokio | Rt::TokioLocal => antiphon_tokio::connect(url, options, ()).await,
                Rt::Smol | Rt::AsyncStd => antiphon_async_std::connect(url, options, ()).await,
            })
            .await
        }),
    }
}

/// Makes one call for each reply, on a runtime or, without one, on threads.
fn calls(
    rt: Option<Rt>,
    config: Config,
    replies: &'static [Reply],
) -> (Vec<Ended>, Receiver<String>) {
    let (url, requests) = server(replies);
    let ended = replies.iter().map(|_| {
        let (options, heads) = hooked(config);
        let result = connected(rt, &url, options, async |client| {
            client.expect("a client").call("m", ()).await
        });
        let heads = heads.lock().expect("no panic").clone();
        Ended { result, heads }
    });
    (ended.collect(), requests)
}

const OK: &[u8] = br#"{"jsonrpc":"2.0","result":7,"id":1}"#;

fn check_refusals(rt: Option<Rt>) {
    const REPLIES: &[Reply] = &[
        (
            "401 Unauthorized",
            "www-authenticate: Bearer\r\n",
            b"the token is stale",
        ),
        ("429 Too Many Requests", "Retry-After: 17\r\n", b"slow down"),
        ("502 Bad Gateway", "", b"<html>bad gateway</html>"),
        ("200 OK", "x-session: s1\r\n", b"a line of text"),
        ("200 OK", "", b"two\x1blines\n"),
    ];
    let (ended, _) = calls(rt, Config::new(), REPLIES);
    for (ended, (status, _, body)) in ended.iter().zip(REPLIES) {
        let failed = ended.result.as_ref().expect_err("no answer");
        let said = failed.to_string();
        let body = std::str::from_utf8(body).expect("text").trim();
        let shown = body.replace('\x1b', "\\u{1b}");
        assert!(said.contains(&shown), "{rt:?} {said}");
        assert!(!said.contains("Syntax"), "{rt:?} {said}");
        let reply = failed.reply().expect("a reply");
        assert!(status.starts_with(&reply.status.to_string()), "{reply:?}");
        assert_eq!(ended.heads[0].0, reply.status);
    }
    let header = |at: usize, name| {
        let reply = ended[at].result.as_ref().expect_err("no answer").reply();
        reply.expect("a reply").headers.get(name)
    };
    assert_eq!(header(0, "WWW-Authenticate"), Some("Bearer"));
    assert_eq!(header(1, "retry-after"), Some("17"));
    assert_eq!(ended[1].heads, [(429, Some("17".to_string()))]);
}

fn check_headers(rt: Option<Rt>) {
    const REPLIES: &[Reply] = &[("200 OK", "X-Session: s2\r\nset-cookie: a=1\r\n", OK)];
    let (ended, _) = calls(rt, Config::new(), REPLIES);
    assert_eq!(*ended[0].result.as_ref().expect("an answer"), 7);
    assert_eq!(ended[0].heads, [(200, Some("s2".to_string()))]);
}

fn check_codings(rt: Option<Rt>) {
    const REPLIES: &[Reply] = &[
        ("200 OK", "content-encoding: gzip\r\n", b"\x1f\x8b\x08"),
        ("200 OK", "Content-Encoding: br\r\n", b"\x8b\x03\x80"),
        ("200 OK", "content-encoding: identity, x-own\r\n", OK),
        (
            "200 OK",
            "content-encoding: identity\r\ncontent-encoding: zstd\r\n",
            OK,
        ),
        ("503 Busy", "content-encoding: deflate\r\n", b"\x78"),
        ("200 OK", "content-encoding: Identity\r\n", OK),
        (
            "200 OK",
            "content-encoding: identity\r\ncontent-encoding: \r\n",
            OK,
        ),
    ];
    let (ended, requests) = calls(rt, Config::new(), REPLIES);
    for (ended, coding) in ended.iter().zip(["gzip", "br", "x-own", "zstd", "deflate"]) {
        let failed = ended.result.as_ref().expect_err("it cannot be read");
        let said = failed.to_string();
        assert!(
            said.contains(&format!("coding \"{coding}\"")),
            "{rt:?} {said}"
        );
        assert!(failed.reply().is_some());
    }
    for ended in &ended[5..] {
        assert_eq!(*ended.result.as_ref().expect("an answer"), 7, "{rt:?}");
    }
    let asked = requests.recv_timeout(LONG).expect("a request");
    assert!(
        asked.contains("\r\naccept-encoding: identity\r\n"),
        "{asked}"
    );
}

/// Makes of each check a test on every runtime, and one on threads.
macro_rules! checks {
    ($($(#[$meta:meta])* $case:ident = $check:ident;)*) => {
        $(fn $case(rt: Rt) { $check(Some(rt)); })*
        on_every_runtime! { $($(#[$meta])* $case;)* }
        mod threads { $($(#[$meta])* #[test] fn $case() { super::$check(None); })* }
    };
}

checks! {
    // USE-18
    what_a_server_said_instead_of_an_answer_was_lost = check_refusals;
    // USE-18
    the_headers_of_a_reply_could_not_be_seen = check_headers;
    // USE-09
    a_content_coding_was_told_as_a_syntax_error = check_codings;
    // USE-18
    what_a_server_said_to_a_websocket_handshake_was_lost = check_handshakes;
}

/// How connecting to a WebSocket fails at a server that gives this reply.
fn refused(rt: Option<Rt>, reply: &'static [u8]) -> std::io::Error {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("ws://{}/", listener.local_addr().expect("an address"));
    let serving = thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        socket.set_read_timeout(Some(LONG)).expect("a socket");
        let (mut read, mut byte) = (Vec::new(), [0]);
        while !read.ends_with(b"\r\n\r\n") {
            socket.read_exact(&mut byte).expect("a request");
            read.extend_from_slice(&byte);
        }
        // In parts, as a proxy may send it.
        for part in reply.chunks(reply.len() - 4) {
            socket.write_all(part).expect("a client");
        }
        // The client sees the end of the body by itself, and closes the connection. If it waited for
        // more, it would do so for the 10 s that a handshake may take.
        let soon = Some(Duration::from_secs(5));
        socket.set_read_timeout(soon).expect("a socket");
        let ended = socket.read_to_end(&mut Vec::new());
        ended.expect("the client does not wait for an end");
    });
    let options = ClientConfig::from(Config::new());
    let error = connected(rt, &url, options, async |client| {
        client.expect_err("it is refused").into()
    });
    serving.join().expect("the server has seen the end");
    error
}

fn check_handshakes(rt: Option<Rt>) {
    for reply in [
        &b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 5\r\n\r\nstale"[..],
        b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ntransfer-encoding: chunked\r\n\r\n2\r\nst\r\n3\r\nale\r\n0\r\n\r\n",
    ] {
        let error = refused(rt, reply);
        assert_eq!(
            error.to_string(),
            "the WebSocket handshake was refused: 401 Unauthorized: stale",
            "{rt:?}"
        );
        let Some(WebSocketEnd::Refused { status, headers, text, .. }) = WebSocketEnd::of(&error) else {
            panic!("{rt:?} {error:?}");
        };
        assert_eq!((*status, &**text), (Some(401), "stale"));
        assert_eq!(headers.get("www-authenticate").unwrap(), "Bearer");
    }
}
