//! The examples that show how short a program can be: their length, and how they begin and end.
//!
//! The answers of the language server are tested in `tests/interop`, with clients of other
//! projects, and those of the MCP server both there and here.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use antiphon_tokio::{Answer, Config, OwnedError, Peer, Request, Service, TcpServer};
use serde_json::json;

use crate::programs::example;

/// Only a test that fails waits as long as this.
const LONG: Duration = Duration::from_secs(60);

/// How many lines of code each example may have: lines that are neither blank nor a comment.
const MAX_CODE_LINES: [(&str, usize, &str); 8] = [
    (
        "block_follower",
        40,
        include_str!("../../examples/block_follower.rs"),
    ),
    ("health", 70, include_str!("../../examples/health.rs")),
    (
        "lsp_server",
        190,
        include_str!("../../examples/lsp_server.rs"),
    ),
    (
        "mcp_tools",
        200,
        include_str!("../../examples/mcp_tools.rs"),
    ),
    (
        "number_flows",
        65,
        include_str!("../../examples/number_flows.rs"),
    ),
    (
        "stock_prices",
        60,
        include_str!("../../examples/stock_prices.rs"),
    ),
    ("tcp_echo", 20, include_str!("../../examples/tcp_echo.rs")),
    (
        "websocket_reconnect",
        40,
        include_str!("../../examples/websocket_reconnect.rs"),
    ),
];

#[test]
fn short_examples_stay_short() {
    for (name, most, text) in MAX_CODE_LINES {
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let code: Vec<_> = text.lines().filter(is_code).collect();
        let count = code.len();
        println!("{name}: {count} lines of code of {most}");
        assert!(
            count <= most,
            "{name} has {count} lines of code, over {most}"
        );
        // The number of lines means something only in a formatted file. `cargo fmt --check` checks
        // that it is formatted, unless a `rustfmt` attribute excepts a part of it.
        assert!(code.iter().all(|line| line.len() <= 100), "{name}");
        assert!(!text.contains("rustfmt"), "{name}");
    }
}

/// A running program, which is killed when this is dropped.
struct Program(Child);

impl Program {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = example(name);
        command.args(arguments).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(command.spawn().expect("it starts"))
    }

    fn stdin(&mut self) -> ChildStdin {
        self.0.stdin.take().expect("a pipe")
    }

    fn stdout(&mut self) -> mpsc::Receiver<String> {
        lines(BufReader::new(self.0.stdout.take().expect("a pipe")))
    }

    fn stderr(&mut self) -> mpsc::Receiver<String> {
        lines(BufReader::new(self.0.stderr.take().expect("a pipe")))
    }

    /// Waits until it ends. Returns its exit code, and the one line that it wrote to standard error.
    fn end(mut self) -> (i32, String) {
        let (said, status) = (
            self.0.stderr.take().map(BufReader::new).map(lines),
            self.wait(),
        );
        let said: Vec<String> = said.into_iter().flatten().collect();
        assert_eq!(said.len(), 1, "{said:?}");
        (status, said[0].clone())
    }

    fn wait(&mut self) -> i32 {
        let until = std::time::Instant::now() + LONG;
        while std::time::Instant::now() < until {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status.code().expect("an exit code");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("it does not end");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines that come, read on a thread so that waiting for one has a deadline.
fn lines(from: impl BufRead + Send + 'static) -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        from.lines()
            .map_while(Result::ok)
            .try_for_each(|line| send.send(line))
    });
    receive
}

#[test]
fn tcp_echo_echoes_and_says_that_its_port_is_in_use() {
    let mut echo = Program::start("tcp_echo", &["127.0.0.1:0"]);
    let ready = echo.stderr().recv_timeout(LONG).expect("where it listens");
    let address = ready.strip_prefix("listening ").expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("a deadline");
    let request = r#"{"jsonrpc":"2.0","method":"any","params":[1,"ä"],"id":"a"}"#;
    stream
        .write_all(format!("{request}\n").as_bytes())
        .expect("it reads");
    let answer = BufReader::new(stream).lines().next().expect("an answer");
    assert_eq!(
        answer.expect("text"),
        r#"{"jsonrpc":"2.0","result":[1,"ä"],"id":"a"}"#
    );

    for (wrong, why) in [(address, "in use"), ("--help", "usage: tcp_echo")] {
        let (code, said) = Program::start("tcp_echo", &[wrong]).end();
        assert_eq!(code, 2);
        assert!(said.contains(why) || cfg!(windows), "{said}");
    }
}

#[test]
fn programs_on_standard_streams_say_how_they_are_used() {
    for name in ["lsp_server", "mcp_tools"] {
        let (code, said) = Program::start(name, &["--port", "1"]).end();
        assert_eq!(
            (code, said.contains(&format!("usage: {name}"))),
            (2, true),
            "{said}"
        );
    }
}

/// A message as LSP frames it.
fn lsp(message: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes()
}

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#;
const SHUTDOWN: &str = r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#;
const EXIT: &str = r#"{"jsonrpc":"2.0","method":"exit"}"#;

#[test]
fn the_language_server_ends_with_0_only_after_shutdown() {
    for (messages, closes, code) in [
        (&[INITIALIZE, SHUTDOWN, EXIT][..], false, 0),
        (&[INITIALIZE, SHUTDOWN], true, 0),
        (&[INITIALIZE, EXIT], false, 1),
        (&[INITIALIZE], true, 1),
        (&[], true, 1),
    ] {
        let mut server = Program::start("lsp_server", &[]);
        let mut stdin = server.stdin();
        stdin
            .write_all(
                &messages
                    .iter()
                    .flat_map(|message| lsp(message))
                    .collect::<Vec<_>>(),
            )
            .expect("it reads");
        // An editor may leave the pipe open after `exit`.
        let stdin = Some(stdin).filter(|_| !closes);
        let answers = server.stdout();
        assert_eq!(server.wait(), code, "{messages:?}");
        // Even `exit` in the same read does not lose the answer to `shutdown`.
        let answered = answers
            .iter()
            .filter(|line| line.contains(r#""result":null"#))
            .count();
        assert_eq!(
            answered,
            usize::from(messages.contains(&SHUTDOWN)),
            "{messages:?}"
        );
        if code == 1 {
            assert!(
                server.end().1.contains("without `shutdown`"),
                "{messages:?}"
            );
        }
        drop(stdin);
    }
}

// EXA-04 SEC-13 USE-21
#[test]
fn the_server_of_tools_negotiates_describes_tells_progress_and_keeps_a_log() {
    let initialized = |revision: &str| {
        format!(
            r#""result":{{"capabilities":{{"tools":{{}}}},"protocolVersion":"{revision}","serverInfo":{{"name":"mcp_tools","version":"1.0.0"}}}},"id":0"#
        )
    };
    let step = |done: u32| {
        format!(
            r#""method":"notifications/progress","params":{{"progressToken":1.0,"progress":{done},"total":10,"message":"{done} ms of 10"}}"#
        )
    };
    let mut waited: Vec<String> = (0..10).map(step).collect();
    waited.push(text("waited 10 ms", false, "\"w\""));
    let conversation = [
        (
            r#""id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}"#,
            vec![initialized("2025-06-18")],
        ),
        (
            r#""id":0,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{}}"#,
            vec![initialized("2025-11-25")],
        ),
        (r#""method":"notifications/initialized""#, vec![]),
        (
            r#""id":1,"method":"ping""#,
            vec![r#""result":{},"id":1"#.into()],
        ),
        (
            r#""id":2,"method":"tools/list","params":{}"#,
            vec![TOOLS.into()],
        ),
        (
            &tool("3", r#""name":"add","arguments":{"a":2,"b":0.5}"#),
            vec![text("2.5", false, "3")],
        ),
        (
            &tool("4", r#""name":"add","arguments":{"a":2,"b":"secret"}"#),
            vec![text(
                "wrong arguments: invalid type: string, expected f64 at line 1 column 19",
                true,
                "4",
            )],
        ),
        (
            &tool("5", r#""name":"add""#),
            vec![text(
                "wrong arguments: invalid type: null, expected struct Add at line 1 column 4",
                true,
                "5",
            )],
        ),
        (
            &tool("6", r#""name":"rm","arguments":{"path":"/"}"#),
            vec![r#""error":{"code":-32602,"message":"unknown tool"},"id":6"#.into()],
        ),
        (
            &tool(
                "\"w\"",
                r#""name":"wait","arguments":{"milliseconds":10},"_meta":{"progressToken":1.0}"#,
            ),
            waited,
        ),
        // This call is cancelled below, and never answered.
        (
            &tool("7", r#""name":"wait","arguments":{"milliseconds":60000}"#),
            vec![],
        ),
        (
            r#""id":8,"method":"ping""#,
            vec![r#""result":{},"id":8"#.into()],
        ),
        (
            r#""method":"notifications/cancelled","params":{"requestId":7}"#,
            vec![],
        ),
        (
            r#""id":9,"method":"no/such""#,
            vec![r#""error":{"code":-32601,"message":"Method not found"},"id":9"#.into()],
        ),
    ];
    let mut server = Program::start("mcp_tools", &[]);
    let (mut stdin, said, log) = (server.stdin(), server.stdout(), server.stderr());
    for (message, answers) in conversation {
        writeln!(stdin, r#"{{"jsonrpc":"2.0",{message}}}"#).expect("it reads");
        for answer in answers {
            let line = said.recv_timeout(LONG).expect("an answer");
            assert_eq!(
                line,
                format!(r#"{{"jsonrpc":"2.0",{answer}}}"#),
                "{message}"
            );
        }
    }
    drop(stdin);
    assert_eq!(server.wait(), 0);
    assert_eq!(said.iter().next(), None);
    // The arguments' bytes; a call without arguments has `null`.
    let expected = [
        ("add", 15, "is done"),
        ("add", 20, "has failed"),
        ("add", 4, "has failed"),
        ("rm", 12, "is unknown"),
        ("wait", 19, "is done"),
        ("wait", 22, "was given up"),
    ];
    let expected = expected.map(|(tool, bytes, end)| {
        format!("mcp_tools: \"{tool}\" with {bytes} bytes\nmcp_tools: \"{tool}\" {end}")
    });
    let mut log: Vec<String> = log.iter().collect();
    let last = log.pop().expect("a report");
    assert!(
        last.starts_with("mcp_tools: nobody serves it: no/such (id 9)"),
        "{last}"
    );
    assert_eq!(log.join("\n"), expected.join("\n"));
}

fn tool(id: &str, call: &str) -> String {
    format!(r#""id":{id},"method":"tools/call","params":{{{call}}}"#)
}

fn text(text: &str, is_error: bool, id: &str) -> String {
    format!(
        r#""result":{{"content":[{{"text":"{text}","type":"text"}}],"isError":{is_error}}},"id":{id}"#
    )
}

const TOOLS: &str = r#""result":{"tools":[{"description":"Adds two numbers","inputSchema":{"additionalProperties":false,"properties":{"a":{"description":"One number.","type":"number"},"b":{"description":"The other.","type":"number"}},"required":["a","b"],"type":"object"},"name":"add"},{"description":"Counts the words of a text","inputSchema":{"additionalProperties":false,"properties":{"text":{"description":"Words are separated by blanks.","type":"string"}},"required":["text"],"type":"object"},"name":"count_words"},{"description":"Waits","inputSchema":{"additionalProperties":false,"properties":{"milliseconds":{"description":"How long.","minimum":0,"type":"integer"}},"required":["milliseconds"],"type":"object"},"name":"wait"}]},"id":2"#;

#[test]
fn programs_on_standard_streams_leave_when_nobody_reads() {
    for (name, message) in [
        ("lsp_server", lsp(INITIALIZE)),
        (
            "mcp_tools",
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n".to_vec(),
        ),
    ] {
        let mut server = Program::start(name, &[]);
        drop(server.0.stdout.take());
        let mut stdin = server.stdin();
        stdin.write_all(&message).expect("it reads");
        // It ends although its input is still open.
        let (code, said) = server.end();
        assert_eq!((code, said.starts_with(name)), (1, true), "{said}");
    }
}

/// A node that makes a block every 5 ms, from the height that it is given.
struct Node(Arc<AtomicU64>);

impl Service for Node {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let (height, peer) = (Arc::clone(&self.0), peer.clone());
        match request.method() {
            "eth_subscribe" => {
                tokio::spawn(async move {
                    while peer.closed().is_none() {
                        let number = height.fetch_add(1, Ordering::Relaxed);
                        let event = json!({"subscription": "0x1", "result": block(number)});
                        let _ = peer.try_notify("eth_subscription", &event);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                });
                Ok("0x1".into())
            }
            "eth_getBlockByNumber" => {
                let (number, _): (String, bool) = request.params()?;
                let number = u64::from_str_radix(&number[2..], 16);
                Ok(block(number.expect("a number")).into())
            }
            _ => Err(request.unknown_method()),
        }
    }
}

/// A block whose hash is its number.
fn block(number: u64) -> serde_json::Value {
    let (number, parent) = (format!("{number:#x}"), format!("{:#x}", number - 1));
    json!({"number": number, "hash": number, "parentHash": parent})
}

// USE-15
#[tokio::test(flavor = "multi_thread")]
async fn the_follower_of_blocks_misses_none_while_its_node_restarts() {
    let height = Arc::new(AtomicU64::new(1));
    let mut address = "127.0.0.1:0".to_owned();
    let mut follower = None;
    let mut expected = 1;
    for restart in 0..3 {
        let server = TcpServer::bind(&*address).await.expect("a free port");
        address = server.local_addr().to_string();
        let node = Arc::clone(&height);
        let running = server.start(Config::ethereum(), move |_| Node(Arc::clone(&node)));
        let (_, printed, _) = follower.get_or_insert_with(|| {
            let mut program = Program::start("block_follower", &[&format!("tcp://{address}")]);
            let (printed, told) = (program.stdout(), program.stderr());
            (program, printed, told)
        });
        for _ in 0..20 + restart {
            let line: String = printed.recv_timeout(LONG).expect("a block");
            assert_eq!(line, format!("{expected:#x}"));
            expected += 1;
        }
        running.shutdown(Duration::ZERO).await;
        // Blocks that are made while nobody follows.
        height.fetch_add(10, Ordering::Relaxed);
    }
    let (program, _, told) = follower.expect("it runs");
    let gap =
        "block_follower: the connection was lost, and events until it was replaced are missing";
    for _ in 1..3 {
        assert_eq!(told.recv_timeout(LONG).expect("a report"), gap);
    }
    drop(program);
}

// EXA-06
#[test]
fn the_prices_reach_who_has_subscribed() {
    let ran = example("stock_prices").output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let price = r#"stock.prices.AAPL: 150.25 at "2026-01-15T10:30:00Z""#;
    let expected = [
        "1 connection gets the price",
        price,
        price,
        r#"rpc.subscribe.batch: {"subscribed":["stock.prices.AAPL","news.>"]}"#,
        r#"rpc.unsubscribe: {"unsubscribed":true}"#,
        r#"rpc.unsubscribe.batch: {"unsubscribed":["news.>"]}"#,
        "0 connections get the news",
    ];
    let printed = String::from_utf8(ran.stdout).expect("text");
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

// EXA-09
#[test]
fn numbers_are_pulled_in_both_directions() {
    let ran = example("number_flows").output().expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    let expected = [
        "  the server makes 1",
        "pulled 1",
        "  the server makes 2",
        "pulled 2",
        "the flow is complete",
        "  the server makes 1",
        "pulled 1 of a million, and left",
        "the sum of 1 to 10 is 55",
    ];
    let printed = String::from_utf8(ran.stdout).expect("text");
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[cfg(feature = "websocket")]
mod websocket {
    use antiphon_tokio::websocket::WebSocketConfig;
    use antiphon_tokio::{ConnectionConfig, Running};

    use super::*;

    struct Echo;

    impl Service for Echo {
        async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
            Ok(request.raw_params().into())
        }
    }

    /// A server on a port, which may have been in use a moment ago.
    async fn serve(address: &str) -> (Running, String) {
        let config =
            ConnectionConfig::from(Config::new()).with_websocket(WebSocketConfig::server());
        let server = TcpServer::bind(address).await.expect("a free port");
        let address = server.local_addr().to_string();
        (server.start(config, |_| Echo), address)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_websocket_client_goes_on_when_its_server_is_back() {
        let (server, address) = serve("127.0.0.1:0").await;
        let url = format!("ws://{address}/");
        let mut client = Program::start("websocket_reconnect", &[&url]);
        let printed = client.stdout();
        let next = || printed.recv_timeout(LONG).expect("an echo");
        assert_eq!((next(), next()), ("1".to_string(), "2".to_string()));
        server.shutdown(Duration::ZERO).await;
        // It asks once a second, so it asks while nobody is there.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let (_server, _) = serve(&address).await;
        // Not one is missing: calls wait until the server is back.
        assert_eq!((next(), next()), ("3".to_string(), "4".to_string()));
    }

    #[test]
    fn the_websocket_client_says_that_there_is_no_server() {
        let (code, said) = Program::start("websocket_reconnect", &[]).end();
        assert_eq!((code, said.contains("usage")), (1, true), "{said}");
        let (code, said) = Program::start("websocket_reconnect", &["http://127.0.0.1:1/"]).end();
        assert_eq!((code, said.contains("ws")), (1, true), "{said}");
        let free = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("an address");
        let url = format!("ws://{free}/");
        let (code, said) = Program::start("websocket_reconnect", &[&url]).end();
        assert_eq!((code, said.contains("no connection")), (1, true), "{said}");
    }
}
