//! TLS agreed on a protocol that nobody spoke then (ALPN, RFC 7301): HTTP/2, because the configuration of
//! the program offered it. And clients tried again after a fault that lasts: a certificate that is not
//! accepted, a name that does not exist. Most tests are named after the fault, and assert that it is gone.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::{Config, OwnedError, Retry};
use antiphon_net::http::{Endpoint, HttpError};
use antiphon_net::tls::rustls::{
    self, ClientConnection, ServerConfig, ServerConnection, StreamOwned,
};
use antiphon_net::tls::{Connector, TlsFault};
use antiphon_net::websocket::WebSocketConfig;
use antiphon_net::{
    Answer, CallError, Client, ClientConfig, ConnectError, Connecting, ConnectionConfig, Link,
    Peer, Request, Running, Service, Target, TcpServer,
};
use antiphon_regressions::{LONG, Rt, choose_executor, on_every_runtime};
use antiphon_stress::certificates::{Authority, NAME, Validity};

const H2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
const STRANGE: &[u8] = b"acme/7";

/// Answers each request with the protocol that TLS has agreed on.
struct Agreed;

impl Service for Agreed {
    async fn request(&self, peer: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(peer.context().alpn_protocol.as_deref().into())
    }
}

impl antiphon_blocking::Service for Agreed {
    fn request(&mut self, peer: &Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok(peer.context().alpn_protocol.as_deref().into())
    }
}

/// An HTTP server of ours, which offers these protocols.
enum Ours {
    Tasks(Running),
    Threads(antiphon_blocking::Running),
}

impl Ours {
    async fn start(rt: Option<Rt>, authority: &Authority, offered: &[&[u8]]) -> (Self, u16) {
        let config = authority.open_server(authority.sign(&[NAME], Validity::Now), offered);
        if rt.is_none() {
            let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
            let port = server.local_addr().expect("an address").port();
            let running = server
                .with_tls(config)
                .start_http(Config::new(), |_| Agreed);
            return (Self::Threads(running.expect("a thread")), port);
        }
        let server = TcpServer::bind("127.0.0.1:0").await.expect("a port");
        let port = server.local_addr().port();
        let endpoint = Endpoint::new(Config::new(), Agreed, antiphon_net::current());
        let secure = antiphon_net::tls::Acceptor::new(config);
        let running = server.with_secure(secure).start_protocol(endpoint);
        (Self::Tasks(running), port)
    }

    fn stop(self) {
        match self {
            Self::Tasks(running) => running.stop(),
            Self::Threads(running) => running.stop(),
        }
    }
}

/// Runs `test` against an HTTP server of ours which offers these protocols. `test` has a thread of its
/// own.
fn with_server(rt: Option<Rt>, offered: &'static [&[u8]], test: fn(u16, &Authority)) {
    let authority = Arc::new(Authority::new("a"));
    let tested = |port| {
        let (done, is_done) = channel::<()>();
        let authority = Arc::clone(&authority);
        let testing = thread::spawn(move || {
            test(port, &authority);
            drop(done);
        });
        (testing, is_done)
    };
    match rt {
        None => {
            choose_executor();
            let (server, port) = antiphon_net::block_on(Ours::start(None, &authority, offered));
            let (testing, _) = tested(port);
            testing.join().expect("the test");
            server.stop();
        }
        Some(rt) => rt.run(async |runtime| {
            let (server, port) = Ours::start(Some(rt), &authority, offered).await;
            let (testing, is_done) = tested(port);
            while is_done.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                runtime.sleep_until(runtime.now() + LONG / 10_000).await;
            }
            testing.join().expect("the test");
            server.stop();
        }),
    }
}

/// What curl, with its defaults, has to say: it offers HTTP/2 first, then HTTP/1.1.
fn ask_with_curl(port: u16, _: &Authority) {
    let asked = r#"{"jsonrpc":"2.0","method":"agreed","id":1}"#;
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--insecure", "--max-time", "20"])
        .args(["--header", "Content-Type: application/json"])
        .args(["--write-out", " over HTTP/%{http_version}"])
        .args(["--data-binary", asked, &format!("https://{NAME}:{port}/")])
        .output()
        .expect("curl");
    let (said, failed) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{said} {failed}");
    let agreed = serde_json::to_string(HTTP1).expect("numbers");
    let wanted = format!(r#"{{"jsonrpc":"2.0","result":{agreed},"id":1}} over HTTP/1.1"#);
    assert_eq!(said, wanted, "{} {failed}", output.status);
}

fn curl(rt: Option<Rt>) {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("SKIPPED: there is no curl");
        return;
    }
    with_server(rt, &[H2, HTTP1], ask_with_curl);
}

fn curl_over_https_was_promised_http_2(rt: Rt) {
    curl(Some(rt));
}

// HTP-01
#[test]
fn curl_over_https_was_promised_http_2_on_threads() {
    curl(None);
}

/// What a client that offers these protocols agrees on with the server, and what it is then answered.
fn ask(
    port: u16,
    authority: &Authority,
    offered: &[&[u8]],
) -> Result<(Option<Vec<u8>>, String), std::io::Error> {
    let name = NAME.try_into().expect("a name");
    let session =
        ClientConnection::new(authority.offering_client(offered), name).expect("a session");
    let socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_read_timeout(Some(LONG))?;
    let mut stream = StreamOwned::new(session, socket);
    let asked = r#"{"jsonrpc":"2.0","method":"agreed","id":1}"#;
    let length = asked.len();
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json";
    write!(stream, "{head}\r\ncontent-length: {length}\r\n\r\n{asked}")?;
    let mut answer = Vec::new();
    // The server may end the connection without TLS's word for it.
    let _ = stream.read_to_end(&mut answer);
    let agreed = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
    Ok((agreed, String::from_utf8_lossy(&answer).into_owned()))
}

fn ask_in_every_way(port: u16, authority: &Authority) {
    let (agreed, answer) = ask(port, authority, &[H2, HTTP1]).expect("an answer");
    assert_eq!(agreed.as_deref(), Some(HTTP1), "{answer}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let (agreed, answer) = ask(port, authority, &[]).expect("an answer");
    assert!(
        agreed.is_none() && answer.contains(r#""result":null"#),
        "{answer}"
    );
    // This protocol is in the configuration, and nobody here speaks it.
    if let Ok((_, answer)) = ask(port, authority, &[STRANGE]) {
        assert_eq!(answer, "");
    }
    if let Ok((agreed, answer)) = ask(port, authority, &[H2]) {
        assert_eq!((agreed, &*answer), (None, ""), "no protocol in common");
    }
}

fn ask_where_only_http_2_is_offered(port: u16, authority: &Authority) {
    let (agreed, answer) = ask(port, authority, &[H2, HTTP1]).expect("an answer");
    assert_eq!(agreed.as_deref(), Some(HTTP1), "{answer}");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn a_server_agreed_on_what_it_does_not_speak(rt: Rt) {
    with_server(Some(rt), &[H2, STRANGE, HTTP1], ask_in_every_way);
    with_server(Some(rt), &[H2], ask_where_only_http_2_is_offered);
}

// HTP-01
#[test]
fn a_server_agreed_on_what_it_does_not_speak_on_threads() {
    with_server(None, &[H2, STRANGE, HTTP1], ask_in_every_way);
    with_server(None, &[H2], ask_where_only_http_2_is_offered);
}

/// A foreign server with TLS, which answers the first request of each connection over HTTP/1.1. Returns
/// its port, and what each handshake has agreed on: nothing if it failed.
fn foreign(config: Arc<ServerConfig>) -> (u16, Receiver<Option<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (agreeing, agreed) = channel();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let session = ServerConnection::new(Arc::clone(&config)).expect("a session");
            let mut stream = StreamOwned::new(session, socket);
            let _ = stream.conn.complete_io(&mut stream.sock);
            let protocol = stream.conn.alpn_protocol().map(<[u8]>::to_vec);
            let _ = agreeing.send(protocol);
            let (mut read, mut byte) = (Vec::new(), [0]);
            while !read.ends_with(b"}") && matches!(stream.read(&mut byte), Ok(1..)) {
                read.push(byte[0]);
            }
            if !read.is_empty() {
                let body = r#"{"jsonrpc":"2.0","result":7,"id":1}"#;
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length";
                let _ = write!(stream, "{head}: {}\r\n\r\n{body}", body.len());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    (port, agreed)
}

async fn client(rt: Option<Rt>, port: u16, tls: Arc<rustls::ClientConfig>) -> Client {
    let options = ClientConfig::from(Config::new()).with_tls(Connector::from(tls));
    client_of(rt, &format!("https://{NAME}:{port}/"), options).await
}

async fn client_of(rt: Option<Rt>, url: &str, options: ClientConfig) -> Client {
    match rt {
        None => antiphon_blocking::connect(url, options, ()),
        Some(Rt::Tokio | Rt::TokioLocal) => antiphon_tokio::connect(url, options, ()).await,
        Some(_) => antiphon_async_std::connect(url, options, ()).await,
    }
    .expect("a client")
}

async fn call_with_every_offer(rt: Option<Rt>) {
    let authority = Authority::new("a");
    let identity = authority.sign(&[NAME], Validity::Now);
    let (port, agreed) = foreign(authority.open_server(identity, &[H2, STRANGE, HTTP1]));
    let offers: [&[&[u8]]; 4] = [&[H2, HTTP1], &[H2], &[HTTP1], &[]];
    for offered in offers {
        let client = client(rt, port, authority.offering_client(offered)).await;
        let called = client.call::<u64>("m", ()).await;
        assert_eq!(called.expect("an answer"), 7, "{rt:?} {offered:?}");
        let agreed = agreed.recv_timeout(LONG).expect("a connection");
        let wanted = (!offered.is_empty()).then_some(HTTP1);
        assert_eq!(agreed.as_deref(), wanted, "{rt:?} {offered:?}");
    }
    let client = client(rt, port, authority.offering_client(&[STRANGE])).await;
    let refused = client.call::<u64>("m", ()).await;
    let refused = refused.expect_err("it is not HTTP/1.1 that was agreed on");
    assert!(
        matches!(&refused, CallError::Http(HttpError::Connect(error)) if error.to_string().contains("acme/7")),
        "{rt:?} {refused:?}"
    );
}

fn a_client_agreed_on_what_it_does_not_speak(rt: Rt) {
    rt.run(|_| call_with_every_offer(Some(rt)));
}

// HTP-05
#[test]
fn a_client_agreed_on_what_it_does_not_speak_on_threads() {
    choose_executor();
    antiphon_net::block_on(call_with_every_offer(None));
}

/// These offers without HTTP above: a WebSocket and lines of text begin so, too.
async fn connect_with_every_offer(rt: Option<Rt>) {
    let authority = Authority::new("a");
    let identity = authority.sign(&[NAME], Validity::Now);
    let (port, agreed) = foreign(authority.open_server(identity, &[H2, STRANGE, HTTP1]));
    for (offered, wanted) in [(H2, HTTP1), (STRANGE, STRANGE), (HTTP1, HTTP1)] {
        let (address, config) = (("127.0.0.1", port), authority.offering_client(&[offered]));
        let peer = match rt {
            None => {
                let link = antiphon_blocking::tls::connect(address, NAME, config);
                let link = link.expect("a handshake");
                antiphon_blocking::attach(link, Config::new(), ()).expect("threads")
            }
            Some(_) => {
                let link = antiphon_net::tls::connect(address, NAME, config).await;
                antiphon_net::attach(link.expect("a handshake"), Config::new(), ())
            }
        };
        let known = peer.context().alpn_protocol.clone();
        drop(peer);
        assert_eq!(known.as_deref(), Some(wanted), "{rt:?}");
        let agreed = agreed.recv_timeout(LONG).expect("a connection");
        assert_eq!(agreed.as_deref(), Some(wanted), "{rt:?}");
    }
}

/// Over a WebSocket too: either side ends a connection that has agreed on something else.
async fn open_a_websocket(rt: Option<Rt>) {
    let authority = Authority::new("a");
    let identity = authority.sign(&[NAME], Validity::Now);
    let config = authority.open_server(identity, &[STRANGE, HTTP1]);
    let server = TcpServer::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("wss://{NAME}:{}/", server.local_addr().port());
    let websocket = ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
    let server = server.with_secure(antiphon_net::tls::Acceptor::new(config));
    let running = server.start(websocket, |_| Agreed);
    for (offered, is_agreed) in [(H2, true), (HTTP1, true), (STRANGE, false)] {
        let options = ClientConfig::from(Config::new());
        let options = options.with_tls(Connector::from(authority.offering_client(&[offered])));
        match antiphon_net::connect(&url, options, ()).await {
            Ok(client) => {
                let agreed = client.call::<Option<Vec<u8>>>("agreed", ()).await;
                assert_eq!(agreed.expect("an answer").as_deref(), Some(HTTP1), "{rt:?}");
                assert!(is_agreed, "{rt:?} {offered:?}");
            }
            Err(error) => assert!(
                !is_agreed && error.to_string().contains("acme/7"),
                "{rt:?} {error}"
            ),
        }
    }
    running.stop();
}

fn a_websocket_was_opened_where_tls_had_agreed_on_something_else(rt: Rt) {
    rt.run(|_| open_a_websocket(Some(rt)));
}

fn nobody_was_told_what_tls_had_agreed_on(rt: Rt) {
    rt.run(|_| connect_with_every_offer(Some(rt)));
}

#[test]
fn nobody_was_told_what_tls_had_agreed_on_on_threads() {
    antiphon_net::block_on(connect_with_every_offer(None));
}

/// A client that tries again after 5 s, three times.
fn patient(tls: Arc<rustls::ClientConfig>) -> ClientConfig {
    let mut retry = Retry::new();
    (retry.initial_delay, retry.jitter) = (Duration::from_secs(5), 0.0);
    ClientConfig::from(Config::new())
        .with_tls(Connector::from(tls))
        .with_retry(retry)
}

/// A name that does not exist (RFC 6761, 6.4).
const NO_NAME: &str = "no-such-host.invalid";

/// Whether the resolver of this system says so. Without a network some only say "try again".
fn knows_that_there_is_no_such_name() -> bool {
    let looked_up = std::net::ToSocketAddrs::to_socket_addrs(&(NO_NAME, 80));
    let said = looked_up.map(drop).expect_err("there is none").to_string();
    let is_known = !said.contains("emporary") && !said.contains("again");
    if !is_known {
        println!("SKIPPED: {said}");
    }
    is_known
}

async fn call_in_vain(rt: Option<Rt>) {
    let (authority, stranger) = (Authority::new("a"), Authority::new("b"));
    let identity = authority.sign(&[NAME], Validity::Now);
    let (port, handshakes) = foreign(authority.open_server(identity, &[]));
    let (good, bad) = (authority.client(None), stranger.client(None));
    let unknown = (
        format!("https://{NAME}:{port}/"),
        bad,
        "nobody who is trusted",
    );
    let misnamed = (
        format!("https://127.0.0.1:{port}/"),
        good.clone(),
        "for another name",
    );
    let missing = (
        format!("https://{NO_NAME}:{port}/"),
        good,
        "cannot connect to",
    );
    for (url, config, why) in [unknown, misnamed, missing] {
        if url.contains(NO_NAME) && !knows_that_there_is_no_such_name() {
            continue;
        }
        let client = client_of(rt, &url, patient(config)).await;
        let began = Instant::now();
        let failed = client.call::<u64>("m", ()).no_timeout().idempotent().await;
        let failed = failed.expect_err("no connection").to_string();
        assert!(failed.contains(why), "{rt:?} {failed}");
        assert!(began.elapsed() < Duration::from_secs(4), "{rt:?} {failed}");
        if !url.contains(NO_NAME) {
            let handshake = handshakes.recv_timeout(LONG);
            handshake.expect("one attempt");
        }
        assert!(
            handshakes.try_recv().is_err(),
            "{rt:?} {failed}: a second attempt"
        );
    }
}

fn a_call_was_repeated_after_a_fault_that_lasts(rt: Rt) {
    rt.run(|_| call_in_vain(Some(rt)));
}

#[test]
fn a_call_was_repeated_after_a_fault_that_lasts_on_threads() {
    choose_executor();
    antiphon_net::block_on(call_in_vain(None));
}

/// A client that reconnects as it does by default: without end. Returns it, and a count of its attempts.
async fn reconnecting(
    rt: Option<Rt>,
    dial: impl Fn(u32) -> Connecting + Send + Sync + 'static,
    dial_on_threads: impl Fn(u32) -> std::io::Result<antiphon_blocking::Link> + Send + Sync + 'static,
) -> (Result<Client, ConnectError>, Arc<AtomicU32>) {
    let attempts = Arc::<AtomicU32>::default();
    let count = Arc::clone(&attempts);
    let client = match rt {
        None => {
            let dial = move || dial_on_threads(count.fetch_add(1, Ordering::SeqCst));
            let target = antiphon_blocking::Link::target(dial);
            antiphon_blocking::reconnect(target, Config::new(), || ())
        }
        Some(_) => {
            let dial = move || dial(count.fetch_add(1, Ordering::SeqCst));
            antiphon_net::reconnect(Target::new(dial), Config::new(), ()).await
        }
    };
    (client, attempts)
}

async fn reconnect_in_vain(rt: Option<Rt>) {
    let (authority, stranger) = (Authority::new("a"), Authority::new("b"));
    let identity = authority.sign(&[NAME], Validity::Now);
    let (port, _handshakes) = foreign(authority.open_server(identity, &[]));
    for name in ["127.0.0.1", NO_NAME] {
        if name == NO_NAME && !knows_that_there_is_no_such_name() {
            continue;
        }
        let config = stranger.client(None);
        let again = Arc::clone(&config);
        let made = reconnecting(
            rt,
            move |_| {
                let config = Arc::clone(&config);
                Box::pin(
                    async move { antiphon_net::tls::connect((name, port), NAME, config).await },
                )
            },
            move |_| antiphon_blocking::tls::connect((name, port), NAME, Arc::clone(&again)),
        );
        let (client, attempts) = made.await;
        let failed = client.expect_err("no connection");
        assert!(!failed.is_retryable(), "{rt:?} {failed}");
        let ConnectError::Io(error) = &failed else {
            panic!("{rt:?} {failed:?}")
        };
        let fault = (name != NO_NAME).then_some(TlsFault::UnknownIssuer);
        assert_eq!(TlsFault::of(error), fault, "{rt:?} {failed}");
        assert_eq!(attempts.load(Ordering::SeqCst), 1, "{rt:?} {failed}");
    }
}

fn a_connection_was_tried_again_after_a_fault_that_lasts(rt: Rt) {
    rt.run(|_| reconnect_in_vain(Some(rt)));
}

#[test]
fn a_connection_was_tried_again_after_a_fault_that_lasts_on_threads() {
    choose_executor();
    antiphon_net::block_on(reconnect_in_vain(None));
}

/// A client that was connected before tries again after any fault: the server's certificate, or the
/// resolver, may be repaired.
async fn reconnect_after_all(rt: Option<Rt>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (heard, is_heard) = channel();
    thread::spawn(move || {
        let line = b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n";
        // The first connection is ended, the second is kept.
        let (mut first, _) = listener.accept().expect("a client");
        first.write_all(line).expect("a client");
        thread::sleep(Duration::from_millis(100));
        drop(first);
        let (mut second, _) = listener.accept().expect("a client");
        second.write_all(line).expect("a client");
        let _ = heard.send(second);
    });
    let lasting = || std::io::Error::new(std::io::ErrorKind::InvalidInput, "a fault that lasts");
    let made = reconnecting(
        rt,
        move |attempt| match attempt {
            1 => Box::pin(std::future::ready(Err(lasting()))),
            _ => Box::pin(async move { Link::tcp(("127.0.0.1", port)).await }),
        },
        move |attempt| match attempt {
            1 => Err(lasting()),
            _ => antiphon_blocking::Link::tcp(("127.0.0.1", port)),
        },
    );
    let (client, attempts) = made.await;
    let client = client.expect("a first connection");
    let second = is_heard.recv_timeout(LONG).expect("a second connection");
    assert_eq!(attempts.load(Ordering::SeqCst), 3, "{rt:?}");
    drop((client, second));
}

fn a_client_that_was_connected_tries_again_after_any_fault(rt: Rt) {
    // With one thread the client runs only while the test does not.
    if rt != Rt::TokioLocal {
        rt.run(|_| reconnect_after_all(Some(rt)));
    }
}

#[test]
fn a_client_that_was_connected_tries_again_after_any_fault_on_threads() {
    choose_executor();
    antiphon_net::block_on(reconnect_after_all(None));
}

on_every_runtime! {
    a_websocket_was_opened_where_tls_had_agreed_on_something_else;
        a_call_was_repeated_after_a_fault_that_lasts;
        a_connection_was_tried_again_after_a_fault_that_lasts;
        a_client_that_was_connected_tries_again_after_any_fault;
    // HTP-01
    curl_over_https_was_promised_http_2;
    // HTP-01
    a_server_agreed_on_what_it_does_not_speak;
    // HTP-05
    a_client_agreed_on_what_it_does_not_speak;
    nobody_was_told_what_tls_had_agreed_on;
}
