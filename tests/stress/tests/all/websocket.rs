//! WebSocket on real sockets, over every adapter: a peer that breaks the rules in frames made by
//! hand, and clients and servers of all adapters with each other.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use antiphon::{Config, ConnectionState, OwnedError, ReconnectStrategy};
use antiphon_net::websocket::WebSocketConfig;
use antiphon_net::{
    Answer, Client, ClientConfig, ConnectError, ConnectionConfig, Context, Request,
};
use antiphon_stress::{LONG, Rt};

/// What runs the side under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Threads,
    Tasks(Rt),
}

const ALL: [On; 5] = [
    On::Threads,
    On::Tasks(Rt::Tokio),
    On::Tasks(Rt::TokioLocal),
    On::Tasks(Rt::Smol),
    On::Tasks(Rt::AsyncStd),
];

/// `who` answers with the target of the handshake and a cookie, `echo` with the params.
struct Who;

fn who(context: &Context, request: &Request) -> Result<Answer, OwnedError> {
    match request.method() {
        "who" => Ok((context.target.as_deref(), context.cookie("name")).into()),
        "echo" => Ok(Answer::new(request.raw_params())),
        _ => Err(request.unknown_method()),
    }
}

impl antiphon_blocking::Service for Who {
    fn request(
        &mut self,
        peer: &antiphon_blocking::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        who(peer.context(), request)
    }
}

impl antiphon_net::Service for Who {
    async fn request(
        &self,
        peer: &antiphon_net::Peer,
        request: &Request,
    ) -> Result<Answer, OwnedError> {
        who(peer.context(), request)
    }
}

/// A server that runs until it is dropped.
struct Running {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Starts a server on a thread of its own.
fn start(on: On, route: WebSocketConfig) -> Running {
    let options = ConnectionConfig::from(Config::new()).with_websocket(route);
    let stop = Arc::<AtomicBool>::default();
    let (inside, (told, address)) = (Arc::clone(&stop), mpsc::channel());
    let thread = thread::spawn(move || match on {
        On::Threads => {
            let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").unwrap();
            told.send(server.local_addr().unwrap()).unwrap();
            let running = server.start(options, |_| Who).unwrap();
            while !inside.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(2));
            }
            running.stop();
        }
        On::Tasks(rt) => rt.run_for(2 * LONG, |runtime| async move {
            let running = match rt {
                Rt::Tokio | Rt::TokioLocal => {
                    let server = antiphon_tokio::TcpServer::bind("127.0.0.1:0")
                        .await
                        .unwrap();
                    told.send(server.local_addr()).unwrap();
                    server.start(options, |_| Who)
                }
                Rt::Smol | Rt::AsyncStd => {
                    let server = antiphon_async_std::TcpServer::bind("127.0.0.1:0").await;
                    let server = server.unwrap();
                    told.send(server.local_addr()).unwrap();
                    server.start(options, |_| Who)
                }
            };
            while !inside.load(Ordering::SeqCst) {
                runtime
                    .sleep_until(runtime.now() + Duration::from_millis(2))
                    .await;
            }
            assert!(running.shutdown(LONG).await);
        }),
    });
    Running {
        address: address.recv_timeout(LONG).unwrap(),
        stop,
        thread: Some(thread),
    }
}

/// The masking key of the examples in RFC 6455.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it. A first byte of 0x81 is a text message, 0x82 a binary one, 0x88 a close, 0x89
/// a ping, 0x8a a pong. The bit 0x80 marks the last frame of a message; frames after its first have the code 0.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = header(first, payload.len() as u64);
    let masked = payload.iter().zip(MASK.iter().cycle());
    out.extend(masked.map(|(byte, key)| byte ^ key));
    out
}

/// The head of a masked frame whose payload has this length.
fn header(first: u8, len: u64) -> Vec<u8> {
    let mut out = vec![first];
    match len {
        0..=125 => out.push(0x80 | len as u8),
        126..=0xffff => {
            out.push(0x80 | 126);
            out.extend((len as u16).to_be_bytes());
        }
        _ => {
            out.push(0x80 | 127);
            out.extend(len.to_be_bytes());
        }
    }
    out.extend(MASK);
    out
}

/// A peer of bare bytes.
struct Raw {
    stream: TcpStream,
}

impl Raw {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        Self { stream }
    }

    /// Connects, and goes through the handshake with the key of RFC 6455's example, whose answer is known.
    fn open(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address);
        raw.stream
            .write_all(request("/rpc", "").as_bytes())
            .unwrap();
        let head = raw.head();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        raw
    }

    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    /// The next frame: its first byte and its payload.
    fn frame(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut two = [0; 2];
        self.stream.read_exact(&mut two)?;
        assert!(two[1] & 0x80 == 0, "a server masks nothing");
        let len = match two[1] {
            126 => {
                let mut len = [0; 2];
                self.stream.read_exact(&mut len)?;
                u16::from_be_bytes(len).into()
            }
            127 => {
                let mut len = [0; 8];
                self.stream.read_exact(&mut len)?;
                u64::from_be_bytes(len) as usize
            }
            len => len.into(),
        };
        let mut payload = vec![0; len];
        self.stream.read_exact(&mut payload)?;
        Ok((two[0], payload))
    }

    /// Expects a close with `code` next, and the end of the stream after it.
    fn expect_close(&mut self, code: u16, what: &str) {
        let (first, payload) = self
            .frame()
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(first, 0x88, "{what}");
        assert_eq!(payload[..2], code.to_be_bytes(), "{what}");
        self.expect_end(what);
    }

    fn expect_end(&mut self, what: &str) {
        let rest = self.stream.read(&mut [0; 16]);
        assert!(matches!(rest, Ok(0)), "{what}: {rest:?}");
    }
}

fn request(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{more}\r\n"
    )
}

/// A server with one path, for pages of one origin.
fn route() -> WebSocketConfig {
    let mut route = WebSocketConfig::server();
    route.web.paths.push("/rpc".into());
    route.web.origins.push("https://app.example".into());
    route
}

/// Sends `first`, and then `again` so many times, or until the other side accepts no more.
fn flood(raw: &mut Raw, first: &[u8], again: &[u8], times: usize) {
    raw.stream.write_all(first).unwrap();
    let block = again.repeat(1000);
    for _ in 0..times / 1000 {
        // The other side may close in the middle; it reads and discards the rest for a while.
        if raw.stream.write_all(&block).is_err() {
            break;
        }
    }
}

// WSK-02 WSK-03 WSK-04 WSK-08 WSK-09 WSK-12 WSK-15 SEC-10 TST-20
#[test]
fn every_broken_rule_shows_as_its_close_code_on_the_wire() {
    for on in ALL {
        let server = start(on, route());
        let unmasked = [&[0x81, 2][..], b"[]"].concat();
        let in_parts = [frame(0x01, &[b' '; 60_000]), header(0x80, 1 << 20)].concat();
        for (what, bytes, wanted) in [
            ("a ping over 125 bytes", frame(0x89, &[0; 126]), 1002),
            ("an unmasked frame", unmasked, 1002),
            ("a reserved bit", frame(0xc1, b"[]"), 1002),
            ("a fragmented ping", frame(0x09, b""), 1002),
            ("a continuation of nothing", frame(0x80, b"[]"), 1002),
            ("bad UTF-8", frame(0x81, b"\"\xff\""), 1007),
            (
                "bad UTF-8 in parts",
                [frame(0x01, b"\xc3"), frame(0x80, b"(")].concat(),
                1007,
            ),
            ("binary", frame(0x82, b"[]"), 1003),
        ] {
            let mut raw = Raw::open(server.address);
            raw.stream.write_all(&bytes).unwrap();
            raw.expect_close(wanted, &format!("{on:?}: {what}"));
        }
        for (what, bytes) in [
            ("one frame", header(0x81, (1 << 20) + 1)),
            ("the largest length", header(0x81, u64::MAX)),
            ("fragments", in_parts),
        ] {
            let what = format!("{on:?}: oversize: {what}");
            let mut raw = Raw::open(server.address);
            raw.stream.write_all(&bytes).unwrap();
            let (first, answer) = raw.frame().unwrap();
            let answer = String::from_utf8(answer).unwrap();
            assert_eq!(first, 0x81, "{what}");
            assert!(
                answer.contains("-32600") && answer.contains("\"id\":null"),
                "{answer}"
            );
            raw.expect_close(1009, &what);
        }
    }
}

// WSK-15 SEC-10
#[test]
fn floods_are_cut_off() {
    for on in ALL {
        let server = start(on, route());
        let mut raw = Raw::open(server.address);
        // A message may have 1024 empty fragments.
        flood(&mut raw, &frame(0x01, b""), &frame(0x00, b""), 1_000_000);
        raw.expect_floods_end(&format!("{on:?}: empty continuation frames"));

        // Any number of pings is allowed, and at least one pong comes back.
        let mut raw = Raw::open(server.address);
        flood(&mut raw, b"", &frame(0x89, b"p"), 100_000);
        raw.stream
            .write_all(&frame(0x81, br#"{"jsonrpc":"2.0","method":"who","id":1}"#))
            .unwrap();
        let mut pongs = 0;
        loop {
            match raw.frame().unwrap() {
                (0x8a, payload) => {
                    assert_eq!(payload, b"p");
                    pongs += 1;
                }
                (first, _) => {
                    assert_eq!(first, 0x81);
                    break;
                }
            }
        }
        assert!((1..=100_000).contains(&pongs));

        // 15 kB of head, of which 8 KiB are allowed.
        let mut raw = Raw::connect(server.address);
        flood(
            &mut raw,
            b"GET /rpc HTTP/1.1\r\n",
            b"x: 0123456789\r\n",
            1000,
        );
        let head = raw.head();
        assert!(head.starts_with("HTTP/1.1 431 "), "{on:?}: {head}");
    }
}

impl Raw {
    /// Expects a close with 1008, or a reset, because a peer that floods may not see the close.
    fn expect_floods_end(&mut self, what: &str) {
        match self.frame() {
            Ok((first, payload)) => {
                assert_eq!(
                    (first, &payload[..2]),
                    (0x88, &1008_u16.to_be_bytes()[..]),
                    "{what}"
                );
            }
            Err(error) => {
                let gone = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
                assert!(gone.contains(&error.kind()), "{what}: {error}");
            }
        }
    }
}

// WSK-01 WSK-14 SEC-08
#[test]
fn bad_handshakes_are_answered_with_their_status() {
    for on in ALL {
        let server = start(on, route());
        let good = request("/rpc", "Origin: https://app.example\r\n");
        for (what, request, wanted) in [
            ("good", good.clone(), 101),
            (
                "a foreign origin",
                request("/rpc", "Origin: https://evil.example\r\n"),
                403,
            ),
            ("another path", request("/admin", ""), 404),
            ("another method", good.replace("GET", "PUT"), 405),
            (
                "no upgrade",
                good.replace("Upgrade: websocket\r\n", ""),
                426,
            ),
            (
                "an old version",
                good.replace("Version: 13", "Version: 0"),
                426,
            ),
            ("no key", good.replace("Sec-WebSocket-Key", "X-Key"), 400),
            ("no HTTP", "hello\r\n\r\n".into(), 400),
        ] {
            let what = format!("{on:?}: {what}");
            let mut raw = Raw::connect(server.address);
            raw.stream.write_all(request.as_bytes()).unwrap();
            let head = raw.head();
            assert!(
                head.starts_with(&format!("HTTP/1.1 {wanted} ")),
                "{what}: {head}"
            );
            if wanted != 101 {
                let mut body = String::new();
                raw.stream.read_to_string(&mut body).unwrap();
                assert!(!body.is_empty(), "{what}");
            }
        }
    }
}

// WSK-10 CON-07
#[test]
fn a_peer_that_answers_no_ping_or_never_shakes_hands_is_let_go() {
    for on in ALL {
        let mut route = route();
        route.rules.keep_alive.ping_interval = Some(Duration::from_millis(50));
        route.rules.keep_alive.pong_timeout = Some(Duration::from_millis(50));
        route.rules.keep_alive.connect_timeout = Some(Duration::from_millis(50));
        let server = start(on, route);
        let mut raw = Raw::connect(server.address);
        raw.stream.write_all(b"GET /rpc HTTP/1.1\r\n").unwrap();
        assert!(raw.head().starts_with("HTTP/1.1 408 "), "{on:?}");
        let mut raw = Raw::open(server.address);
        let (first, payload) = raw.frame().unwrap();
        assert_eq!((first, &payload[..]), (0x89, &b""[..]));
        raw.expect_close(1011, &format!("{on:?}"));
    }
}

// WSK-10 CON-07
#[test]
fn a_peer_that_answers_pings_stays() {
    for on in ALL {
        let mut route = route();
        route.rules.keep_alive.ping_interval = Some(Duration::from_millis(5));
        route.rules.keep_alive.pong_timeout = Some(LONG);
        let server = start(on, route);
        let mut raw = Raw::open(server.address);
        for _ in 0..10 {
            assert_eq!(raw.frame().unwrap().0, 0x89);
            raw.stream.write_all(&frame(0x8a, b"")).unwrap();
        }
    }
}

// WSK-03 WSK-09 CON-01
#[test]
fn a_close_is_answered_and_the_server_ends_the_stream_first() {
    for on in ALL {
        let server = start(on, route());
        let mut raw = Raw::open(server.address);
        raw.stream
            .write_all(&frame(0x88, &1000_u16.to_be_bytes()))
            .unwrap();
        raw.expect_close(1000, &format!("{on:?}"));
        // A server that stops tells every peer so, with 1001.
        let mut raw = Raw::open(server.address);
        server.stop.store(true, Ordering::SeqCst);
        let (first, payload) = raw.frame().unwrap();
        assert_eq!((first, &payload[..2]), (0x88, &1001_u16.to_be_bytes()[..]));
        raw.stream.write_all(&frame(0x88, &payload[..2])).unwrap();
        raw.expect_end(&format!("{on:?}: stopped"));
    }
}

// ERR-13 CON-06
#[test]
fn a_peer_that_vanishes_leaves_the_server_as_it_was() {
    for on in ALL {
        let server = start(on, route());
        for _ in 0..20 {
            let mut raw = Raw::open(server.address);
            raw.stream.write_all(&frame(0x01, b"[")).unwrap();
            raw.stream.shutdown(Shutdown::Both).unwrap();
        }
        let mut raw = Raw::open(server.address);
        raw.stream.write_all(&frame(0x81, b"[]")).unwrap();
        assert!(
            String::from_utf8(raw.frame().unwrap().1)
                .unwrap()
                .contains("-32600")
        );
    }
}

/// Checks what a client sees: what it has sent in its handshake, a long text that comes back, and
/// the errors for a path that is not served and for `wss` without roots.
fn client(on: On, address: SocketAddr) {
    let options = || ClientConfig::from(Config::new()).with_header("cookie", "name=Ada");
    let there = format!("ws://{address}/rpc?v=2");
    let refused = format!("ws://{address}/admin");
    let secure = "wss://localhost/".to_owned();
    let test = async |connect: &dyn Fn(String) -> Connected| {
        let client = connect(there).await.unwrap();
        let long = "añ€𝄞".repeat(50_000);
        let who: (Option<String>, Option<String>) = client.call("who", ()).await.unwrap();
        assert_eq!(who, (Some("/rpc?v=2".into()), Some("Ada".into())));
        let back: (String,) = client.call("echo", &(&long,)).await.unwrap();
        assert_eq!(back.0, long);
        let peer = client.peer().unwrap();
        peer.close(antiphon::CloseReason::Done);
        peer.wait_closed(LONG).await.unwrap();
        assert!(client.last_error().is_none());
        let ConnectError::Io(error) = connect(refused).await.unwrap_err() else {
            panic!("{on:?}: it was not asked");
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{on:?}");
        assert!(error.to_string().contains("404"), "{on:?}: {error}");
        let error = connect(secure).await.unwrap_err();
        assert!(matches!(error, ConnectError::Target(_)), "{on:?}: {error}");
        assert!(error.to_string().contains("TLS"), "{on:?}: {error}");
    };
    match on {
        On::Threads => antiphon_net::block_on(test(&|url| {
            let connected = antiphon_blocking::connect(url, options(), ());
            Box::pin(std::future::ready(connected))
        })),
        On::Tasks(rt) => rt.run(|_| async move {
            let connect = |url| -> Connected {
                match rt {
                    Rt::Tokio | Rt::TokioLocal => {
                        Box::pin(antiphon_tokio::connect(url, options(), ()))
                    }
                    Rt::Smol | Rt::AsyncStd => {
                        Box::pin(antiphon_async_std::connect(url, options(), ()))
                    }
                }
            };
            test(&connect).await;
        }),
    }
}

/// A client that is being connected.
type Connected = Pin<Box<dyn Future<Output = Result<Client, ConnectError>> + Send>>;

// WSK-14 SRV-33 ERR-13
#[test]
fn clients_and_servers_of_all_adapters_understand_each_other() {
    for near in ALL {
        let server = start(near, route());
        for far in ALL {
            println!("{far:?} at {near:?}");
            client(far, server.address);
        }
    }
}

// CON-05 CON-07 ERR-13
#[test]
fn a_client_that_reconnects_is_open_only_after_a_handshake() {
    // The server accepts connections, and refuses the handshake.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let refusing = thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LONG)).unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 503 Busy\r\n\r\n").unwrap();
        }
    });
    let mut options = ClientConfig::from(Config::new());
    options.reconnect = ReconnectStrategy::Fixed {
        delay: Duration::from_millis(1),
        max_attempts: 1,
    };
    let seen = Arc::<Mutex<Vec<ConnectionState>>>::default();
    let states = Arc::clone(&seen);
    options.on_change = Some(Arc::new(move |change| {
        states.lock().unwrap().push(change.state);
    }));
    let client = antiphon_blocking::reconnect(format!("ws://{address}/"), options, || ());
    let error = client.expect_err("it gives up after one more attempt");
    assert!(error.to_string().contains("503"), "{error}");
    refusing.join().unwrap();
    let seen = seen.lock().unwrap();
    assert!(!seen.contains(&ConnectionState::Open), "{seen:?}");
}
