//! Runs the HTTP examples except `metrics` as programs, and checks their answers and output.
#![cfg(feature = "http")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::programs::example;

/// Longer than any answer takes.
const LONG: Duration = Duration::from_secs(60);

/// A server among the examples, on a port that was free.
struct Server {
    child: Child,
    url: String,
    /// The lines that it has written to its log.
    log: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = example(name);
        command
            .args(arguments)
            .stderr(Stdio::piped())
            .stdin(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let first = lines
            .next()
            .expect("it says where it listens")
            .expect("text");
        let (_, url) = first.split_once("listening on ").expect("where it listens");
        let url = url.to_string();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let inside = Arc::clone(&log);
        // Its log is read to the end, because a full pipe would block it.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                inside.lock().expect("no panic").push(line);
            }
        });
        Self { child, url, log }
    }

    /// Waits until its log has a line that begins so.
    fn wait_logged(&self, start: &str) {
        let due = Instant::now() + LONG;
        let is_there = || {
            let log = self.log.lock().expect("no panic");
            log.iter().any(|line| line.starts_with(start))
        };
        while !is_there() {
            assert!(Instant::now() < due, "no {start:?} in {:?}", self.log);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Posts a body. Returns the status, the content type and the body of the reply.
    fn post(&self, body: &str) -> (u16, Option<String>, String) {
        self.send("POST", "application/json", body)
    }

    fn send(&self, method: &str, content_type: &str, body: &str) -> (u16, Option<String>, String) {
        let rest = self.url.strip_prefix("http://").expect("an http URL");
        let (address, path) = rest.split_once('/').expect("a path");
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a deadline");
        let length = body.len();
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let content_type = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let content_type = content_type.map(|(_, value)| value.to_string());
        (status.expect("a status"), content_type, body.to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It runs for ever otherwise; if it has ended already there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

// EXA-02 EXA-03 HTP-01 D-36 TST-19
#[test]
fn d_36_the_calculator_is_served_and_called() {
    let server = Server::start("calculator_server", &["0"]);
    let mut client = example("calculator_client");
    client.arg(&server.url);
    let wanted = "10 + 5 = 15\n\
                  1 / 0: -32602 Division by zero\n\
                  1 + 2 = 3\n\
                  multiply(3, 4): -32601 Method not found\n\
                  getServerName(): -32601 Method not found\n";
    assert_eq!(run(client), wanted);

    let (status, content_type, body) =
        server.post(r#"{"jsonrpc":"2.0","method":"subtract","params":{"b":5,"a":10},"id":1}"#);
    assert_eq!(
        (status, content_type.as_deref()),
        (200, Some("application/json"))
    );
    assert_eq!(body, r#"{"jsonrpc":"2.0","result":5.0,"id":1}"#);
    let log = r#"{"jsonrpc":"2.0","method":"logCalculation","params":["add",15]}"#;
    assert_eq!(server.post(log), (204, None, String::new()));

    // Each call is logged.
    server.wait_logged("calculator: add took ");
    server.wait_logged("calculator: divide failed: Division by zero (-32602)");
    server.wait_logged("calculator: logCalculation took ");

    // Its limits: 50 items, 1 048 576 bytes; and it accepts only a POST of JSON.
    let items = |count: usize| {
        let item = r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#;
        format!("[{}]", vec![item; count].join(","))
    };
    assert_eq!(server.post(&items(50)).2.matches("3.0").count(), 50);
    assert!(server.post(&items(51)).2.contains("-32003"));
    let long = |bytes: usize| {
        let call = r#"{"jsonrpc":"2.0","method":"add","params":[1,2],"id":1}"#;
        format!("{call}{}", " ".repeat(bytes - call.len()))
    };
    assert_eq!(server.post(&long(1_048_576)).0, 200);
    let (status, _, body) = server.post(&long(1_048_577));
    assert!(status == 413 && body.contains("-32004"), "{status} {body}");
    assert_eq!(server.send("GET", "application/json", "").0, 405);
    assert_eq!(server.send("POST", "text/plain", "{}").0, 415);
}

// EXA-02
#[test]
fn the_calculator_listens_on_port_8080_unless_told_otherwise() {
    let mut command = example("calculator_server");
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    let mut log = BufReader::new(child.stderr.take().expect("a pipe"));
    log.read_line(&mut line).expect("it says where it listens");
    // It has ended already if another program has the port.
    let _ = child.kill();
    let _ = child.wait();
    let listens = line.contains("listening on http://127.0.0.1:8080/rpc");
    assert!(
        listens || line.contains("cannot listen on port 8080"),
        "{line}"
    );
}

#[path = "../../examples/calculator_server.rs"]
#[allow(dead_code, reason = "its options are what is tested here")]
mod calculator_server;

// EXA-02 SRV-14
#[test]
fn a_hundred_requests_to_the_calculator_run_at_once_and_the_next_waits() {
    let options = calculator_server::options();
    let dispatcher = options.connection.dispatcher.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let server = antiphon_tokio::TcpServer::bind(("127.0.0.1", 0))
            .await
            .expect("a port");
        let url = format!("http://{}/rpc", server.local_addr());
        let hold = async || {
            std::future::pending::<()>().await;
            Ok::<_, antiphon_tokio::OwnedError>(())
        };
        let router = antiphon_tokio::Router::new().method("hold", [], hold);
        let running = server.start_http(options, router);
        let mut config = antiphon_tokio::ClientConfig::from(antiphon_tokio::Config::new());
        config.max_http_connections = 101;
        let client = antiphon_tokio::connect(&url, config, ())
            .await
            .expect("a client");
        for _ in 0..101 {
            let client = client.clone();
            tokio::spawn(async move { client.call::<()>("hold", ()).await });
        }
        let due = Instant::now() + LONG;
        while dispatcher.running() + dispatcher.waiting() < 101 {
            assert!(Instant::now() < due, "{dispatcher:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!((dispatcher.running(), dispatcher.waiting()), (100, 1));
        running.shutdown(Duration::ZERO).await;
    });
}

/// A decoded answer. The outer option is `None` for a missing member, the inner one for null.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, bound(deserialize = "R: Deserialize<'de>"))]
struct Answer<R> {
    jsonrpc: Option<String>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Option<R>>,
    #[serde(default, deserialize_with = "present")]
    error: Option<Option<Fault>>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Option<Id>>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Fault {
    code: i64,
    message: String,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

/// Decodes a member that is present as `Some`, even if it is null.
fn present<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(deserializer).map(Some)
}

fn decoded<'de, T: Deserialize<'de>>(text: &'de str) -> T {
    let json =
        antiphon::Json::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    json.decode()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

// EXA-05 ONE-05 HTP-01 HTP-02 HTP-03
#[test]
fn the_endpoint_of_two_versions_answers_each_in_kind() {
    let server = Server::start("dual_version", &["0"]);
    assert!(server.url.ends_with("/jsonrpc"), "{}", server.url);
    let ask = |body: &str| {
        let (status, content_type, answer) = server.post(body);
        assert_eq!(
            (status, content_type.as_deref()),
            (200, Some("application/json")),
            "{body}"
        );
        answer
    };
    let text = |body: &str| decoded::<Answer<String>>(&ask(body)).result.flatten();
    let v2 = |text: &str| format!(r#"{{"jsonrpc":"2.0",{text}}}"#);

    // By position and by name, ids echoed.
    let echoed = ask(&v2(r#""method":"echo","params":["Grüße"],"id":"e1""#));
    assert_eq!(echoed, r#"{"jsonrpc":"2.0","result":"Grüße","id":"e1"}"#);
    let sum = ask(&v2(r#""method":"add","params":[10,5],"id":2"#));
    assert_eq!(sum, r#"{"jsonrpc":"2.0","result":15,"id":2}"#);
    let difference = v2(r#""method":"subtract","params":{"subtrahend":25,"minuend":100},"id":3"#);
    assert_eq!(ask(&difference), r#"{"jsonrpc":"2.0","result":75,"id":3}"#);
    let time = text(&v2(r#""method":"get_server_time","id":4"#));
    assert!(time.is_some_and(|time| !time.is_empty()));

    // An error of the application is sent as it was made, and without a result.
    let error = |body: &str| {
        let answer: Answer<i64> = decoded(&ask(body));
        assert!(answer.result.is_none(), "{answer:?}");
        (
            answer.error.flatten().expect("an error"),
            answer.id.expect("an id"),
        )
    };
    let (fault, id) = error(&v2(
        r#""method":"trigger_error","params":["a text"],"id":5"#,
    ));
    let wanted = Fault {
        code: -32000,
        message: "a text".into(),
    };
    assert_eq!((fault, id), (wanted, Some(Id::Number(5))));
    let (fault, _) = error(&v2(r#""method":"trigger_error","id":5"#));
    assert_eq!(
        fault.message,
        "Default server error message from trigger_error method"
    );
    let (fault, id) = error(&v2(r#""method":"non_existent_method","id":6"#));
    assert_eq!((fault.code, id), (-32601, Some(Id::Number(6))));

    // A notification method, without an id and with one.
    let log = v2(r#""method":"notify_log","params":{"message":"hello"}"#);
    assert_eq!(server.post(&log), (204, None, String::new()));
    let log = ask(&v2(
        r#""method":"notify_log","params":["hello","me"],"id":7"#,
    ));
    assert_eq!(log, r#"{"jsonrpc":"2.0","result":null,"id":7}"#);

    // A batch: entries without an id are not answered.
    let batch = format!(
        "[{},{},{},{},{}]",
        v2(r#""method":"echo","params":["text"],"id":"b1""#),
        v2(r#""method":"notify_log","params":["hello"]"#),
        v2(r#""method":"add","params":[99,1],"id":"b2""#),
        v2(r#""method":"unknown","id":"b3""#),
        v2(r#""method":"unknown""#),
    );
    let answer = ask(&batch);
    let wanted = [
        r#"{"jsonrpc":"2.0","result":"text","id":"b1"}"#,
        r#"{"jsonrpc":"2.0","result":100,"id":"b2"}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"},"id":"b3"}"#,
    ];
    assert_eq!(answer, format!("[{}]", wanted.join(",")));

    // Invalid messages. If they have no usable id, the answer has the id null.
    let (fault, id) = error("this is not JSON");
    assert_eq!((fault.code, id), (-32700, None));
    let (fault, id) = error(r#"{"jsonrpc":"2.1","method":"echo","params":["x"],"id":8}"#);
    assert_eq!((fault.code, id), (-32600, Some(Id::Number(8))));
    let (fault, id) = error(r#"{"method":"echo","params":["x"]}"#);
    assert_eq!((fault.code, id), (-32600, None));
    let (fault, id) = error("[]");
    assert_eq!((fault.code, id), (-32600, None));

    // Version 1.0.
    let sum = ask(r#"{"method":"add","params":[5,3],"id":"one"}"#);
    assert_eq!(sum, r#"{"result":8,"error":null,"id":"one"}"#);
    let unknown: Answer<i64> = decoded(&ask(r#"{"method":"unknown","params":[],"id":"two"}"#));
    assert_eq!(unknown.jsonrpc, None);
    assert_eq!(unknown.result, Some(None));
    assert_eq!(
        unknown.error.flatten().map(|fault| fault.code),
        Some(-32601)
    );
    assert_eq!(unknown.id, Some(Some(Id::Text("two".into()))));
    let notification = r#"{"method":"notify_log","params":["hello"],"id":null}"#;
    assert_eq!(server.post(notification), (204, None, String::new()));

    let acknowledging = Server::start("dual_version", &["0", "ack-all-null"]);
    let (status, _, answer) = acknowledging.post(notification);
    assert_eq!(
        (status, &*answer),
        (200, r#"{"result":null,"error":null,"id":null}"#)
    );
}

// EXA-05
#[test]
fn the_client_of_two_versions_gets_every_reply_that_it_expects() {
    let run_with = |arguments: &[&str], url: &str| {
        let mut client = example("dual_version_client");
        client.arg(url).args(arguments);
        run(client)
    };
    for arguments in [&[][..], &["ack-all-null"]] {
        let server = Server::start("dual_version", &[&["0"], arguments].concat());
        let lines = run_with(arguments, &server.url);
        assert_eq!(lines.lines().count(), 17, "{lines}");
        assert!(
            lines.lines().all(|line| line.ends_with(": as expected")),
            "{lines}"
        );
    }
    // It notices a server that answers otherwise.
    let other = Server::start("calculator_server", &["0"]);
    let mut client = example("dual_version_client");
    let output = client.arg(&other.url).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
}

// HTP-09 EXA-10
#[test]
fn a_framework_needs_a_few_lines() {
    for name in ["http_axum", "http_hyper"] {
        let server = Server::start(name, &["0"]);
        let (status, content_type, body) =
            server.post(r#"{"jsonrpc":"2.0","method":"ping","id":1}"#);
        assert_eq!(
            (status, content_type.as_deref()),
            (200, Some("application/json")),
            "{name}"
        );
        assert_eq!(body, r#"{"jsonrpc":"2.0","result":"pong","id":1}"#);
        let told = server.post(r#"{"jsonrpc":"2.0","method":"ping"}"#);
        assert_eq!(told, (204, None, String::new()), "{name}");
        assert!(server.post("{").2.contains("-32700"), "{name}");
        // The rules for HTTP requests hold here, too.
        assert_eq!(server.send("POST", "text/plain", "{}").0, 415, "{name}");
        assert_eq!(server.send("GET", "application/json", "").0, 405, "{name}");
        let (status, _) = opened(&server);
        assert_eq!(status, 101, "{name}");
    }
    // The application's own routes are beside it.
    let mut server = Server::start("http_axum", &["0"]);
    server.url = server.url.replace("/rpc", "/orders");
    assert_eq!(server.send("GET", "text/plain", "").2, "[]");
}

// EXA-10 HTP-09
#[test]
fn a_serverless_function_needs_a_few_lines() {
    let mut function = example("http_function");
    function.arg(r#"{"jsonrpc":"2.0","method":"ping","id":1}"#);
    let answer = "200 OK\n{\"jsonrpc\":\"2.0\",\"result\":\"pong\",\"id\":1}";
    assert_eq!(run(function), answer);
    for name in ["http_axum", "http_hyper", "http_function"] {
        let path = format!("{}/examples/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("an example");
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let lines = text.lines().filter(is_code).count();
        assert!(lines <= 40, "{name} has {lines} lines");
    }
    // A client of the program's own.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/http_reqwest.rs");
    let text = std::fs::read_to_string(path).expect("an example");
    let lines = text
        .lines()
        .skip_while(|line| !line.starts_with("impl HttpSend"));
    let lines = lines.take_while(|line| *line != "}").count() + 1;
    assert!((2..=25).contains(&lines), "it has {lines} lines");
}

// USE-12 WSK-09
#[cfg(unix)]
#[test]
fn an_application_that_is_stopped_tells_its_websockets_that_it_leaves() {
    let mut server = Server::start("http_axum", &["0"]);
    let (_, mut websocket) = opened(&server);
    let id = server.child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &id]).status();
    assert!(sent.expect("kill").success());
    let mut frame = [0; 4];
    websocket.read_exact(&mut frame).expect("a close frame");
    // A close frame with the code 1001.
    assert_eq!((frame[0], &frame[2..]), (0x88, &1001_u16.to_be_bytes()[..]));
    drop(websocket);
    assert!(server.child.wait().expect("it ends").success());
}

/// Asks for a WebSocket. Returns the status and the stream.
fn opened(server: &Server) -> (u16, TcpStream) {
    let rest = server.url.strip_prefix("http://").expect("an http URL");
    let (address, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a deadline");
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .expect("it reads");
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    (head[9..12].parse().expect("a status"), stream)
}

// HTP-09
#[test]
fn a_handler_behind_axum_did_not_know_the_address_of_its_client() {
    let server = Server::start("http_axum", &["0"]);
    let (_, _, answer) = server.post(r#"{"jsonrpc":"2.0","method":"whoami","id":1}"#);
    assert_eq!(answer, r#"{"jsonrpc":"2.0","result":"127.0.0.1","id":1}"#);
}

// USE-14 HTP-05
#[test]
fn the_programs_own_client_takes_events_as_they_come() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let mut client = example("http_reqwest");
    client
        .args([&url, "work"])
        .stderr(Stdio::piped())
        .stdout(Stdio::piped());
    let mut client = client.spawn().expect("it starts");
    let (mut stream, _) = listener.accept().expect("a connection");
    stream.set_read_timeout(Some(LONG)).expect("a socket");
    let mut asked = String::new();
    let mut lines = BufReader::new(stream.try_clone().expect("a socket"));
    while !asked.ends_with('}') {
        let mut byte = [0];
        lines.read_exact(&mut byte).expect("a request");
        asked.push(byte[0].into());
    }
    assert!(
        asked.contains("accept: application/json, text/event-stream"),
        "{asked}"
    );
    let (_, token) = asked
        .split_once("\"progressToken\":")
        .expect("it asks for progress");
    let token = token.split(['}', ',']).next().expect("a token");
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let params = format!(r#"{{"progressToken":{token},"progress":7}}"#);
    let step =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#);
    write!(stream, "{head}data: {step}\n\n").expect("the client reads");
    // The answer is sent only when the step was heard.
    let mut told = BufReader::new(client.stderr.take().expect("a pipe")).lines();
    let told = told.next().expect("a line").expect("text");
    assert!(
        told.starts_with("progress {") && told.contains(":7"),
        "{told}"
    );
    write!(
        stream,
        "data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":42}}\n\n"
    )
    .expect("the client reads");
    let output = client.wait_with_output().expect("it ends");
    assert!(
        output.status.success() && output.stdout == b"42\n",
        "{output:?}"
    );
}
