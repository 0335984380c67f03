//! Deadlines that ended what had arrived in time. The side under test is a process, which is stopped (SIGSTOP) until its
//! deadline has passed, and has what it waited for before it goes on.
#![cfg(unix)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use antiphon::{Config, KeepAliveConfig};
use antiphon_net::ConnectionConfig;
use antiphon_net::http::HttpConfig;
use antiphon_net::websocket::WebSocketConfig;
use antiphon_peer::contract::Contract;
use antiphon_peer::on_tasks::{self, Executor};
use antiphon_peer::on_threads;
use antiphon_peer::runtime::Runtime;
use antiphon_regressions::frames::{self, CLOSE, OPENING, PING, PONG, TEXT, masked};
use antiphon_regressions::program::{Program, obey, on_each_runtime};
use antiphon_regressions::raw::Raw;

/// Every deadline of the servers in [`serve_hastily`].
const DEADLINE: Duration = Duration::from_secs(2);

/// For how long it is stopped.
const STOPPED: Duration = Duration::from_secs(5);

/// The program that is stopped: `antiphon-peer`, or a server with short deadlines.
#[test]
fn as_program() {
    obey(|words| match &words[..] {
        [word, runtime, kind] if word == "hasty" => serve_hastily(runtime, kind),
        _ => antiphon_peer::run(words.into_iter()),
    });
}

/// A message must be complete within [`DEADLINE`]. The limits let large messages through.
fn hasty() -> ConnectionConfig {
    let mut config = Config::new();
    config.timeouts.message_timeout = Some(DEADLINE);
    config.limits.max_message_bytes = 32 << 20;
    config.limits.max_outbox_bytes = 64 << 20;
    let mut options = ConnectionConfig::from(config);
    options.max_queued_bytes = 256 << 20;
    options
}

/// Only writing has a short deadline.
fn hasty_writer() -> ConnectionConfig {
    let mut options = hasty();
    options.config.timeouts.message_timeout = None;
    options.config.timeouts.write_timeout = Some(DEADLINE);
    options
}

/// A WebSocket with short deadlines for messages and for pongs, and with frequent pings.
fn hasty_websocket() -> ConnectionConfig {
    let mut route = WebSocketConfig::server();
    let mut keep_alive = KeepAliveConfig::new();
    keep_alive.ping_interval = Some(DEADLINE);
    keep_alive.pong_timeout = Some(DEADLINE);
    route.rules.keep_alive = keep_alive;
    hasty().with_websocket(route)
}

fn hasty_http() -> HttpConfig {
    let mut options = HttpConfig::from(hasty());
    options.rules.first_byte_timeout = DEADLINE;
    options.rules.header_timeout = DEADLINE;
    options.rules.body_timeout = DEADLINE;
    options.rules.idle_timeout = DEADLINE;
    options
}

/// Serves the contract until the process is killed.
fn serve_hastily(runtime: &str, kind: &str) -> u8 {
    let executor = Runtime::named(runtime).expect("a runtime").start();
    let service = on_threads::router(Contract::default());
    match executor.expect("it starts") {
        None => {
            let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
            eprintln!("listening {}", server.local_addr().expect("a port"));
            let start = |options| server.start(options, move |_| service.clone());
            match kind {
                "tcp" => start(hasty()).expect("it runs").wait(),
                "writer" => start(hasty_writer()).expect("it runs").wait(),
                "ws" => start(hasty_websocket()).expect("it runs").wait(),
                // HTTP, on a second listener, whose address is printed second.
                _ => {
                    let service = on_threads::router(Contract::default());
                    let server = antiphon_blocking::TcpServer::bind("127.0.0.1:0").expect("a port");
                    eprintln!("listening {}", server.local_addr().expect("a port"));
                    let running = server.start_http(hasty_http(), move |_| service.clone());
                    running.expect("it runs").wait();
                }
            }
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
                    match kind {
                        "tcp" => server.start(hasty(), move |_| service.clone()),
                        "writer" => server.start(hasty_writer(), move |_| service.clone()),
                        "ws" => server.start(hasty_websocket(), move |_| service.clone()),
                        _ => server.start_http(hasty_http(), service),
                    }
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

/// Starts a server with short deadlines, and connects to it.
fn hasty_server(runtime: &str, kind: &str) -> (Program, Raw) {
    let program = Program::start("as_program", &["hasty", runtime, kind]);
    let address = program.logged("listening ");
    let raw = Raw::connect(address.as_str());
    (program, raw)
}

/// Stops the program, does what is done meanwhile, and lets it go on when its deadline is long over.
fn stopped(program: &Program, meanwhile: impl FnOnce()) {
    program.signal("STOP");
    meanwhile();
    thread::sleep(STOPPED);
    program.signal("CONT");
}

// USE-04
#[test]
fn a_pong_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (program, mut raw) = hasty_server(runtime, "ws");
        raw.send(OPENING);
        frames::read_head(&mut raw).expect("a head");
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!(first, PING, "{payload:?}");
        stopped(&program, || raw.send(masked(PONG, &payload)));
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!(first, PING, "{:?}", String::from_utf8_lossy(&payload));
        let call = br#"{"jsonrpc":"2.0","method":"get_data","id":1}"#;
        raw.send([masked(PONG, &payload), masked(TEXT, call)].concat());
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!((first, &payload[..8]), (TEXT, &b"{\"jsonrp"[..]));
    });
}

// USE-04
#[test]
fn a_pong_that_the_jump_of_the_clock_delayed_counts() {
    on_each_runtime(|runtime| {
        let (program, mut raw) = hasty_server(runtime, "ws");
        raw.send(OPENING);
        frames::read_head(&mut raw).expect("a head");
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!(first, PING);
        // As if the whole machine had slept: nothing arrives meanwhile.
        stopped(&program, || {});
        thread::sleep(DEADLINE / 5);
        raw.send(masked(PONG, &payload));
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!(first, PING, "{:?}", String::from_utf8_lossy(&payload));
    });
}

// USE-04
#[test]
fn a_peer_that_is_really_gone_is_given_up_after_the_process_was_stopped() {
    on_each_runtime(|runtime| {
        let (program, mut raw) = hasty_server(runtime, "ws");
        raw.send(OPENING);
        frames::read_head(&mut raw).expect("a head");
        assert_eq!(frames::read(&mut raw).expect("a frame").0, PING);
        stopped(&program, || {});
        let (first, payload) = frames::read(&mut raw).expect("a frame");
        assert_eq!(first, CLOSE, "{:?}", String::from_utf8_lossy(&payload));
    });
}

// USE-04
#[test]
fn the_rest_of_a_message_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (program, mut raw) = hasty_server(runtime, "tcp");
        raw.send_line(r#"{"jsonrpc":"2.0","method":"get_data","id":1}"#);
        assert!(raw.line().contains("hello"));
        raw.send(r#"{"jsonrpc":"2.0","method":"get_data","#);
        thread::sleep(DEADLINE / 4);
        stopped(&program, || raw.send_line(r#""id":2}"#));
        assert_eq!(
            raw.line(),
            r#"{"jsonrpc":"2.0","result":["hello",5],"id":2}"#
        );
    });
}

// USE-04
#[test]
fn a_message_that_found_no_room_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (program, raw) = hasty_server(runtime, "tcp");
        let mut reader = raw.into_stream();
        let mut writer = reader.try_clone().expect("a second handle");
        let sending = thread::spawn(move || {
            let text = "x".repeat(8 << 20);
            let line = format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"update\",\"params\":[\"{text}\"],\"id\":1}}\n"
            );
            let (first, rest) = line.split_at(1 << 20);
            writer.write_all(first.as_bytes()).expect("it is taken");
            thread::sleep(DEADLINE / 4);
            writer.write_all(rest.as_bytes())
        });
        thread::sleep(DEADLINE / 8);
        stopped(&program, || {});
        let mut answer = [0; 8];
        reader.read_exact(&mut answer).expect("an answer");
        assert_eq!(&answer, b"{\"jsonrp");
        sending.join().expect("it ends").expect("all is taken");
    });
}

// USE-04
#[test]
fn room_that_was_made_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (program, mut raw) = hasty_server(runtime, "writer");
        let text = "x".repeat(24 << 20);
        raw.send_line(&format!(
            r#"{{"jsonrpc":"2.0","method":"echo","params":["{text}"],"id":1}}"#
        ));
        // Its write has begun and waits.
        assert_eq!(raw.peek(), b'{');
        thread::sleep(DEADLINE / 4);
        let mut bytes = vec![0; 1 << 20];
        stopped(&program, || raw.read_exact(&mut bytes));
        assert!(raw.line().ends_with("\"],\"id\":1}"));
    });
}

/// Starts `antiphon-peer` as a client, and has it make a call with a timeout of one second.
fn calling(runtime: &str, url: &str) -> Program {
    let limit = "max_message_bytes=33554432";
    let words = ["--runtime", runtime, "--limit", limit, "client", url];
    let mut client = Program::start("as_program", &words);
    client.send("{\"op\":\"call\",\"method\":\"m\",\"timeout_ms\":1000}\n");
    client
}

// USE-04
#[test]
fn an_answer_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("tcp://{}", listener.local_addr().expect("an address"));
        let mut client = calling(runtime, &url);
        let mut raw = Raw::over(listener.accept().expect("it connects").0);
        assert!(raw.line().contains("\"m\""));
        stopped(&client, || {
            raw.send_line(r#"{"jsonrpc":"2.0","result":"in time","id":1}"#)
        });
        assert_eq!(client.object(), r#"{"result":"in time"}"#);
    });
}

// USE-04
#[test]
fn a_long_answer_that_found_no_room_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("tcp://{}", listener.local_addr().expect("an address"));
        let mut client = calling(runtime, &url);
        let mut raw = Raw::over(listener.accept().expect("it connects").0);
        assert!(raw.line().contains("\"m\""));
        // More than the buffers of two sockets hold.
        let text = "x".repeat(8 << 20);
        let answer = format!(r#"{{"jsonrpc":"2.0","result":"{text}","id":1}}"#);
        let answer = Raw::sending_line(raw, answer);
        stopped(&client, || {});
        assert!(client.object().starts_with(r#"{"result":"xxx"#));
        answer.join().expect("all is taken");
    });
}

fn http_reply(result: &str) -> String {
    let body = format!(r#"{{"jsonrpc":"2.0","result":"{result}","id":1}}"#);
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A program that calls over HTTP, and the connection on which its request has come.
fn calling_over_http(runtime: &str) -> (Program, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let client = calling(runtime, &url);
    // The program first connects only to see whether a server listens.
    drop(listener.accept().expect("it connects"));
    let mut stream = listener.accept().expect("it connects").0;
    frames::read_head(&mut stream).expect("a head");
    (client, stream)
}

// USE-04
#[test]
fn a_reply_of_http_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (mut client, mut stream) = calling_over_http(runtime);
        stopped(&client, || {
            let reply = http_reply("in time");
            stream.write_all(reply.as_bytes()).expect("it is taken");
        });
        assert_eq!(client.object(), r#"{"result":"in time"}"#);
    });
}

// USE-04
#[test]
fn a_long_reply_of_http_that_found_no_room_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (mut client, mut stream) = calling_over_http(runtime);
        // More than the buffers of two sockets hold.
        let reply = http_reply(&"x".repeat(8 << 20));
        let sending = thread::spawn(move || {
            let sent = stream.write_all(reply.as_bytes());
            // Not closed: as the body of the request is unread, that would be a reset.
            sent.map(|()| stream)
        });
        stopped(&client, || {});
        let said = client.object();
        assert!(said.starts_with(r#"{"result":"xxx"#), "{runtime}: {said}");
        let sent = sending.join().expect("it ends");
        drop(sent.expect("all is taken"));
    });
}

// USE-04
#[test]
fn a_reply_of_http_that_the_jump_of_the_clock_delayed_counts() {
    on_each_runtime(|runtime| {
        let (mut client, mut stream) = calling_over_http(runtime);
        // As if the whole machine had slept: nothing arrives meanwhile.
        stopped(&client, || {});
        thread::sleep(DEADLINE / 5);
        // The head and the body in two parts.
        let reply = http_reply("in time");
        let (head, body) = reply.split_at(reply.find("{").expect("a body"));
        stream.write_all(head.as_bytes()).expect("it is taken");
        thread::sleep(DEADLINE / 5);
        stream.write_all(body.as_bytes()).expect("it is taken");
        assert_eq!(client.object(), r#"{"result":"in time"}"#);
    });
}

// USE-04
#[test]
fn a_reply_of_http_that_never_comes_is_given_up_after_the_process_was_stopped() {
    on_each_runtime(|runtime| {
        let (mut client, _stream) = calling_over_http(runtime);
        stopped(&client, || {});
        assert_eq!(client.object(), r#"{"timeout":true}"#);
    });
}

// USE-04
#[test]
fn the_body_of_a_request_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let (program, raw) = hasty_server(runtime, "http");
        // On threads, HTTP is served by the second listener.
        let address = if runtime == "blocking" {
            program.logged("listening ")
        } else {
            raw.peer()
        };
        drop(raw);
        for head_ends in [true, false] {
            let mut raw = Raw::connect(address.as_str());
            let body = r#"{"jsonrpc":"2.0","method":"get_data","id":1}"#;
            let head = format!(
                "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
                body.len()
            );
            raw.send(&head);
            if head_ends {
                raw.send("\r\n{");
            }
            thread::sleep(DEADLINE / 4);
            let rest = if head_ends {
                &body[1..]
            } else {
                &format!("\r\n{body}")[..]
            };
            stopped(&program, || raw.send(rest));
            assert_eq!(raw.line(), "HTTP/1.1 200 OK", "{head_ends}");
        }
    });
}

// USE-04
#[test]
fn a_handshake_that_arrived_while_the_process_was_stopped_counts() {
    on_each_runtime(|runtime| {
        let program = Program::start(
            "as_program",
            &["--runtime", runtime, "server", "ws://127.0.0.1:0/"],
        );
        let url = program.logged("listening ws://");
        let mut raw = Raw::connect(url.trim_end_matches('/'));
        // The handshake may take ten seconds, which end while the process is stopped.
        let (first, rest) = OPENING.split_at(40);
        raw.send(first);
        thread::sleep(Duration::from_millis(8500));
        stopped(&program, || raw.send(rest));
        assert!(
            frames::read_head(&mut raw)
                .expect("a head")
                .starts_with("HTTP/1.1 101")
        );
    });
}
