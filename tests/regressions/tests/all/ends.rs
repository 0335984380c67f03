//! Ends: of one direction, of a peer that does not read, of standard streams.
#![cfg(unix)]

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use antiphon::OwnedError;
use antiphon::{CloseReason, Config, Framing};
use antiphon_net::{Answer, ConnectionConfig, Notification, Request};
use antiphon_net::{Link, Queue, QueueTransport, SharedRuntime, drive_on};
use antiphon_peer::contract::Contract;
use antiphon_peer::on_tasks::{self, Executor};
use antiphon_peer::on_threads;
use antiphon_peer::runtime::Runtime;
use antiphon_regressions::board::{Board, request};
use antiphon_regressions::frames::{self, CLOSE, OPENING, TEXT, masked};
use antiphon_regressions::program::{Program, obey, on_each_runtime};
use antiphon_regressions::raw::Raw;
use antiphon_regressions::{LONG, Rt, on_every_runtime};

/// The program under test: `antiphon-peer`, a server on standard streams that ends on `exit`, or a server with small
/// limits on unsent output.
#[test]
fn as_program() {
    obey(|words| match &words[..] {
        [word, runtime] if word == "exits" => serve_until_exit(runtime),
        [word, runtime] if word == "small" => serve_small(runtime, Framing::Newline),
        [word, runtime] if word == "framed" => serve_small(runtime, Framing::ContentLength),
        _ => antiphon_peer::run(words.into_iter()),
    });
}

/// Closes the connection on `exit`.
struct Exits;

impl antiphon_blocking::Service for Exits {
    fn request(&mut self, _: &antiphon_blocking::Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok("ready".into())
    }

    fn notification(&mut self, peer: &antiphon_blocking::Peer, notification: Notification) {
        if notification.method() == "exit" {
            peer.close(CloseReason::Done);
        }
    }
}

impl antiphon_net::Service for Exits {
    async fn request(&self, _: &antiphon_net::Peer, _: &Request) -> Result<Answer, OwnedError> {
        Ok("ready".into())
    }

    async fn notification(&self, peer: &antiphon_net::Peer, notification: Notification) {
        if notification.method() == "exit" {
            peer.close(CloseReason::Done);
        }
    }
}

fn serve_until_exit(runtime: &str) -> u8 {
    let mut options = ConnectionConfig::from(Config::lsp());
    // If the server waited for its client, it would exit too late.
    options.linger = 2 * LONG;
    let executor = Runtime::named(runtime).expect("a runtime").start();
    let ended = match executor.expect("it starts") {
        None => antiphon_blocking::serve_stdio(options, Exits),
        Some(executor) => executor.block_on(async {
            match &executor {
                Executor::Tokio(_) => antiphon_tokio::serve_stdio(options, Arc::new(Exits)).await,
                Executor::AsyncIo => {
                    antiphon_async_std::serve_stdio(options, Arc::new(Exits)).await
                }
            }
        }),
    };
    u8::from(ended.is_err())
}

fn framed(body: &str) -> String {
    format!("Content-Length: {}\r\n\r\n{body}", body.len())
}

// USE-22
#[test]
fn a_server_on_standard_streams_leaves_at_once_while_its_client_keeps_its_end_open() {
    on_each_runtime(|runtime| {
        let mut server = Program::start("ends::as_program", &["exits", runtime]);
        server.send(framed(r#"{"jsonrpc":"2.0","method":"m","id":1}"#));
        server.heard("ready");
        server.send(framed(r#"{"jsonrpc":"2.0","method":"exit"}"#));
        let status = server.exited_within(LONG).expect("an exit");
        assert_eq!(status.code(), Some(0));
    });
}

/// Small limits on output that the client does not read.
fn small(framing: Framing) -> ConnectionConfig {
    let mut config = Config::new();
    config.framing = framing;
    // Under Content-Length reading goes on below 4 MiB, so that a malformed header is still read.
    config.limits.soft_max_outbox_bytes = match framing {
        Framing::Newline => 1 << 20,
        _ => 4 << 20,
    };
    config.limits.max_outbox_bytes = 4 << 20;
    config.timeouts.write_timeout = Some(Duration::from_secs(2));
    let mut options = ConnectionConfig::from(config);
    options.linger = Duration::from_millis(500);
    options
}

/// Serves until the process is killed.
fn serve_small(runtime: &str, framing: Framing) -> u8 {
    let executor = Runtime::named(runtime).expect("a runtime").start();
    match executor.expect("it starts") {
        None => {
            let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
            eprintln!("listening {}", server.local_addr().expect("a port"));
            let service = on_threads::router(Contract::default());
            let running = server.start(small(framing), move |_| service.clone());
            running.expect("it runs").wait();
        }
        Some(executor) => executor.block_on(async {
            let runtime = antiphon_net::current().into();
            let service = on_tasks::router(Contract::default(), runtime);
            macro_rules! serve {
                ($adapter:ident) => {{
                    let server = $adapter::TcpServer::bind("127.0.0.1:0")
                        .await
                        .expect("a port");
                    eprintln!("listening {}", server.local_addr());
                    server.start(small(framing), move |_| service.clone())
                }};
            }
            let running = match &executor {
                Executor::Tokio(_) => serve!(antiphon_tokio),
                Executor::AsyncIo => serve!(antiphon_async_std),
            };
            running.wait().await;
        }),
    }
    0
}

/// Writes until the other side resets the connection, takes nothing for too long, or has taken `max_bytes`. Returns how
/// much was taken within the first second, and the error.
fn flood(stream: &mut TcpStream, piece: &[u8], max_bytes: u64) -> (u64, io::Result<()>) {
    let (began, mut taken, mut early) = (Instant::now(), 0, 0);
    while taken < max_bytes {
        match stream.write(piece) {
            Ok(n) => taken += n as u64,
            Err(error) => return (early, Err(error)),
        }
        if began.elapsed() < Duration::from_secs(1) {
            early = taken;
        }
    }
    (early, Ok(()))
}

// USE-02 USE-04 USE-45
#[test]
fn a_peer_that_asks_and_never_reads_is_not_read_on_and_ended_by_the_write_timeout() {
    on_each_runtime(|runtime| {
        let server = Program::start("ends::as_program", &["small", runtime]);
        let address = server.logged("listening ");
        let mut stream = TcpStream::connect(address.as_str()).expect("it listens");
        stream.set_write_timeout(Some(LONG)).expect("a timeout");
        let text = "x".repeat(500_000);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"{text}\"],\"id\":1}}\n"
        );
        let began = Instant::now();
        let (taken, ended) = flood(&mut stream, line.as_bytes(), 8 << 30);
        let error = ended.expect_err("it swallows everything");
        let is_cut = matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        );
        assert!(
            is_cut,
            "{error} after {taken} bytes and {:?}",
            began.elapsed()
        );
        // The write timeout is 2 s, and the linger half a second.
        assert!(
            began.elapsed() >= Duration::from_secs(2),
            "{:?}",
            began.elapsed()
        );
        // Much more than the limits and the buffers of the sockets, much less than a second of reading takes. (After the
        // write timeout everything is read and discarded for the time of the linger.)
        assert!(taken < 100 << 20, "{taken} bytes");
    });
}

// USE-02
#[test]
fn a_peer_that_breaks_the_framing_and_writes_on_is_not_read_for_longer_than_the_linger() {
    on_each_runtime(|runtime| {
        let server = Program::start("ends::as_program", &["framed", runtime]);
        let address = server.logged("listening ");
        let mut stream = TcpStream::connect(address.as_str()).expect("it listens");
        stream.set_write_timeout(Some(LONG)).expect("a timeout");
        // Answers that nobody reads, below the hard limit of 4 MiB, and then a malformed header.
        let text = "x".repeat(700_000);
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"echo\",\"params\":[\"{text}\"],\"id\":1}}\n"
        );
        for _ in 0..4 {
            stream
                .write_all(framed(&line).as_bytes())
                .expect("it is taken");
        }
        stream
            .write_all(b"Content-Length: many\r\n\r\n")
            .expect("it is taken");
        let began = Instant::now();
        let piece = vec![b'x'; 1 << 20];
        loop {
            if stream.write_all(&piece).is_err() {
                break;
            }
            let span = began.elapsed();
            assert!(span < LONG / 3, "it still reads after {span:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

const SLEEP: &str = r#"{"jsonrpc":"2.0","method":"sleep","params":[150],"id":1}"#;
const SLEPT: &str = r#"{"jsonrpc":"2.0","result":"slept","id":1}"#;

fn post() -> String {
    format!(
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{SLEEP}",
        SLEEP.len()
    )
}

/// Starts `antiphon-peer` as a server, and returns it with its address.
fn serve(runtime: &str, scheme: &str) -> (Program, String) {
    let target = format!("{scheme}://127.0.0.1:0/");
    let server = Program::start(
        "ends::as_program",
        &["--runtime", runtime, "server", &target],
    );
    let url = server.logged(&format!("listening {scheme}://"));
    let address = url.trim_end_matches('/').to_owned();
    (server, address)
}

// USE-11
#[test]
fn a_request_over_http_is_answered_though_its_client_has_ended_its_direction() {
    on_each_runtime(|runtime| {
        let (_server, address) = serve(runtime, "http");
        let mut raw = Raw::connect(address.as_str());
        raw.send(post());
        raw.end();
        let reply = String::from_utf8(raw.rest()).expect("text");
        assert!(
            reply.starts_with("HTTP/1.1 200") && reply.ends_with(SLEPT),
            "{reply:?}"
        );
    });
}

/// A server over TLS with a certificate of its own, and a connected client that trusts it.
fn secure(runtime: &str, scheme: &str) -> (Program, rustls_stream::Stream) {
    let folder = std::env::temp_dir().join(format!(
        "antiphon-ends-{}-{runtime}-{scheme}",
        std::process::id()
    ));
    let file = folder.to_str().expect("a path").to_owned();
    let target = format!("{scheme}://127.0.0.1:0/");
    let server = Program::start(
        "ends::as_program",
        &["--runtime", runtime, "--ca", &file, "server", &target],
    );
    let url = server.logged(&format!("listening {scheme}://"));
    let roots = std::fs::read(&file).expect("a certificate");
    // The file has been read.
    let _ = std::fs::remove_file(&file);
    let stream = rustls_stream::connect(url.trim_end_matches('/'), roots);
    (server, stream)
}

// USE-11
#[test]
fn a_request_over_tls_is_answered_though_its_client_has_said_close_notify() {
    on_each_runtime(|runtime| {
        for cuts in [false, true] {
            let (_server, mut stream) = secure(runtime, "https");
            stream.write_all(post().as_bytes()).expect("it is taken");
            stream.end(cuts);
            let mut reply = String::new();
            stream
                .read_to_string(&mut reply)
                .expect("a reply and an end");
            assert!(
                reply.starts_with("HTTP/1.1 200") && reply.ends_with(SLEPT),
                "{reply:?}"
            );
            // A WebSocket that ends without a close is over, and so is its request.
            let (_server, mut stream) = secure(runtime, "wss");
            stream.write_all(OPENING.as_bytes()).expect("it is taken");
            frames::read_head(&mut stream).expect("a head");
            stream
                .write_all(&masked(TEXT, SLEEP.as_bytes()))
                .expect("it is taken");
            stream.end(cuts);
            let mut rest = Vec::new();
            // The end may come without a word of TLS.
            let _ = stream.read_to_end(&mut rest);
            assert!(rest.first().is_none_or(|first| *first == CLOSE), "{rest:?}");
        }
    });
}

mod rustls_stream {
    use super::{LONG, Read, Shutdown, TcpStream, Write, io};
    use antiphon_peer::tls::Tls;

    pub(super) struct Stream(rustls::StreamOwned<rustls::ClientConnection, TcpStream>);

    pub(super) fn connect(address: &str, roots: Vec<u8>) -> Stream {
        let tls = Tls {
            roots: Some(roots),
            ..Tls::default()
        };
        let name = "localhost".try_into().expect("a name");
        let conn = rustls::ClientConnection::new(tls.client().expect("a client"), name);
        let tcp = TcpStream::connect(address).expect("it listens");
        tcp.set_read_timeout(Some(LONG)).expect("a timeout");
        tcp.set_write_timeout(Some(LONG)).expect("a timeout");
        Stream(rustls::StreamOwned::new(conn.expect("a connection"), tcp))
    }

    impl Stream {
        /// Sends close_notify, and with `cuts` also ends this direction of the TCP connection.
        pub(super) fn end(&mut self, cuts: bool) {
            self.0.conn.send_close_notify();
            self.0.flush().expect("it is taken");
            if cuts {
                self.0.sock.shutdown(Shutdown::Write).expect("it is open");
            }
        }
    }

    impl Read for Stream {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }
    }

    impl Write for Stream {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0.write(buf)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
}

on_every_runtime! {
    a_request_in_memory_is_answered_though_its_client_has_ended_its_direction;
    a_request_in_a_queue_is_answered_though_its_client_has_ended_its_direction;
}

const SLOW: &str = r#"{"jsonrpc":"2.0","result":["slow"],"id":1}"#;

/// How long a server has for seeing the end of its input before its handler goes on.
const A_WHILE: Duration = Duration::from_millis(20);

/// Serves the board over a link in the background.
fn serve_board(link: Link, board: &Board, runtime: &SharedRuntime) {
    let service = Arc::new(board.clone());
    let (peer, driver) = drive_on(
        link,
        ConnectionConfig::from(Config::new()),
        service,
        runtime,
    );
    runtime.spawn(Box::pin(async {
        drop(driver.await);
        drop(peer);
    }));
}

/// Lets the handler go on, once it runs and the server has had time to see the end of its input.
async fn open_behind_the_end(board: &Board, runtime: &SharedRuntime) {
    while !board.notes().iter().any(|note| note == "slow") {
        runtime
            .sleep_until(runtime.now() + Duration::from_millis(1))
            .await;
    }
    runtime.sleep_until(runtime.now() + A_WHILE).await;
    board.open();
}

// USE-11
fn a_request_in_memory_is_answered_though_its_client_has_ended_its_direction(rt: Rt) {
    rt.run(|runtime| async move {
        let (board, (near, mut far)) = (Board::default(), antiphon_net::duplex(1000));
        serve_board(Link::new(near), &board, &runtime);
        let line = request("slow", 1) + "\n";
        let mut far = Pin::new(&mut far);
        let written = poll_fn(|cx| far.poll_write(cx, line.as_bytes())).await;
        assert_eq!(written.expect("it reads"), line.len());
        poll_fn(|cx| far.poll_close(cx)).await.expect("an end");
        open_behind_the_end(&board, &runtime).await;
        let (mut heard, mut buf) = (Vec::new(), [0; 100]);
        loop {
            let n = poll_fn(|cx| far.poll_read(cx, &mut buf)).await;
            match n.expect("it writes") {
                0 => break,
                n => heard.extend_from_slice(&buf[..n]),
            }
        }
        assert_eq!(String::from_utf8_lossy(&heard), format!("{SLOW}\n"));
    });
}

// USE-11
fn a_request_in_a_queue_is_answered_though_its_client_has_ended_its_direction(rt: Rt) {
    rt.run(|runtime| async move {
        let (requests, responses) = (Queue::new(4), Queue::new(4));
        let transport = QueueTransport::new(requests.clone(), responses.clone()).owning();
        let board = Board::default();
        serve_board(Link::messages(transport), &board, &runtime);
        let asked = request("slow", 1);
        let put = requests.put(asked.into_bytes()).await;
        put.expect("there is room");
        requests.end();
        open_behind_the_end(&board, &runtime).await;
        let answer = responses.take().await;
        let answer = answer.expect("an answer before the end");
        assert_eq!(String::from_utf8_lossy(&answer), SLOW);
        assert_eq!(responses.take().await, None);
    });
}

// USE-11
#[test]
fn threads_answer_a_request_in_memory_though_its_client_has_ended_its_direction() {
    let (near, far) = antiphon_blocking::duplex(1000);
    let board = Board::default();
    let service = board.clone();
    let serving = thread::spawn(|| antiphon_blocking::serve(near, Config::new(), service));
    let (mut reader, mut writer) = far.split();
    let line = request("slow", 1) + "\n";
    writer.write_all(line.as_bytes()).expect("it reads");
    drop(writer);
    board.wait_note("slow", 1);
    thread::sleep(A_WHILE);
    board.open();
    let mut heard = String::new();
    reader.read_to_string(&mut heard).expect("it writes");
    assert_eq!(heard, format!("{SLOW}\n"));
    assert!(serving.join().expect("no panic").is_ok());
}

// USE-11
#[test]
fn threads_answer_a_message_though_its_client_has_ended_its_direction() {
    let (requests, received) = mpsc::channel::<Vec<u8>>();
    let (responses, answers) = mpsc::channel();
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let link = antiphon_blocking::Link::messages(
        move || Ok(received.recv().ok()),
        move |message| responses.send(message.to_vec()).map_err(gone),
    );
    let board = Board::default();
    let service = board.clone();
    let serving = thread::spawn(|| antiphon_blocking::serve(link, Config::new(), service));
    requests
        .send(request("slow", 1).into_bytes())
        .expect("it reads");
    drop(requests);
    board.wait_note("slow", 1);
    thread::sleep(A_WHILE);
    board.open();
    let answer = answers
        .recv_timeout(LONG)
        .expect("an answer before the end");
    assert_eq!(String::from_utf8_lossy(&answer), SLOW);
    let end = answers.recv_timeout(LONG);
    assert_eq!(end, Err(mpsc::RecvTimeoutError::Disconnected));
    assert!(serving.join().expect("no panic").is_ok());
}
