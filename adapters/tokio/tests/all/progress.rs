//! Progress of a request, byte for byte, as a language server and an MCP server report it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_net::{Io, duplex};
use antiphon_tokio::service::{AnyRequest, Cx, Decision, Interceptor, Reply};
use antiphon_tokio::{
    CallError, Config, ConnectionConfig, Link, McpRevision, OutgoingCall, OwnedError, OwnedJson,
    Params, Peer, Progress, Router, Running, SendError, TcpServer, attach,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(10);

/// The progress that a caller reads.
#[derive(Deserialize)]
struct Done {
    progress: f64,
}

/// The progress that a handler sends, in both dialects.
#[derive(Serialize)]
struct Step {
    progress: u32,
    total: u32,
}

/// All params of `whole`.
#[derive(Deserialize)]
struct Count {
    to: u32,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

/// Sends progress `to` times, and returns `to`.
fn tell(to: u32, progress: &Progress<Step>) -> Result<u32, OwnedError> {
    for step in 1..=to {
        progress
            .send(&Step {
                progress: step,
                total: to,
            })
            .unwrap();
    }
    Ok(to)
}

fn router() -> Router {
    Router::new()
        .method(
            "count",
            ["to"],
            async |to: u32, progress: Progress<Step>| {
                tokio::task::yield_now().await;
                tell(to, &progress)
            },
        )
        .method(
            "whole",
            [],
            |Params(count): Params<Count>, progress: Progress<Step>| {
                tell(count.to, &progress)?;
                Ok::<_, OwnedError>(count.meta)
            },
        )
        .method("nothing", [], |progress: Progress<Step>| tell(1, &progress))
        .method("wrong", [], |progress: Progress<u32>| {
            let refused = progress.send(&7);
            Ok::<_, OwnedError>(matches!(refused, Err(SendError::Encode(_))))
        })
        .method("token", [], |progress: Progress<()>| {
            Ok::<_, OwnedError>(progress.token().map(|token| token.to_owned_json()))
        })
}

/// A raw connection to a server, in the framing of its dialect.
struct Raw {
    stream: tokio::net::TcpStream,
    is_lsp: bool,
    _running: Running,
}

impl Raw {
    async fn to(config: Config) -> Self {
        let is_lsp = config == Config::lsp();
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(config, router().into_make_service());
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        Self {
            stream,
            is_lsp,
            _running: running,
        }
    }

    fn frame(&self, message: &str) -> String {
        match self.is_lsp {
            true => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
            false => format!("{message}\n"),
        }
    }

    async fn say(&mut self, message: &str) {
        let message = self.frame(message);
        self.stream.write_all(message.as_bytes()).await.unwrap();
    }

    /// Reads as many bytes as these messages have, and compares. A message too many makes the next
    /// comparison fail.
    async fn hear(&mut self, messages: &[&str]) {
        let expected: String = messages.iter().map(|message| self.frame(message)).collect();
        let mut heard = vec![0; expected.len()];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut heard)).await;
        read.expect("all in time").unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), expected);
    }
}

fn mcp() -> Config {
    Config::mcp(McpRevision::V2025_11_25)
}

// USE-21
#[tokio::test]
async fn a_language_server_tells_progress_before_the_answer() {
    let mut raw = Raw::to(Config::lsp()).await;
    raw.say(
        r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"to":2,"workDoneToken":"t\u0031"}}"#,
    )
    .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t\u0031","value":{"progress":1,"total":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t\u0031","value":{"progress":2,"total":2}}}"#,
        r#"{"jsonrpc":"2.0","result":2,"id":1}"#,
    ])
    .await;
    // The member with the token does not count as a parameter: a method without params accepts it.
    raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"nothing","params":{"workDoneToken":12345678901234567890.0}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":12345678901234567890.0,"value":{"progress":1,"total":1}}}"#,
        r#"{"jsonrpc":"2.0","result":1,"id":2}"#,
    ])
    .await;
    // In LSP any JSON may be the value.
    raw.say(r#"{"jsonrpc":"2.0","id":3,"method":"wrong","params":{"workDoneToken":0}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":0,"value":7}}"#,
        r#"{"jsonrpc":"2.0","result":false,"id":3}"#,
    ])
    .await;
}

// USE-21
#[tokio::test]
async fn a_server_of_tools_tells_progress_before_the_answer() {
    let mut raw = Raw::to(mcp()).await;
    raw.say(r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"_meta":{"progressToken":1.0},"to":2}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":1,"total":2}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":2,"total":2}}"#,
        r#"{"jsonrpc":"2.0","result":2,"id":1}"#,
    ])
    .await;
    // A handler that takes all params sees the member with the token.
    raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"whole","params":{"to":1,"_meta":{"progressToken":"a","x":1}}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":1,"total":1}}"#,
        r#"{"jsonrpc":"2.0","result":{"progressToken":"a","x":1},"id":2}"#,
    ])
    .await;
    // In MCP the members of the value stand beside the token, so the value has to be an object.
    raw.say(r#"{"jsonrpc":"2.0","id":3,"method":"wrong","params":{"_meta":{"progressToken":0}}}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":3}"#])
        .await;
}

// USE-21
#[tokio::test]
async fn who_does_not_ask_for_progress_hears_none() {
    for (config, params) in [
        (Config::lsp(), r#"{"to":3}"#),
        (Config::lsp(), r#"[3]"#),
        (Config::lsp(), r#"{"to":3,"workDoneToken":null}"#),
        (mcp(), r#"{"to":3,"_meta":{}}"#),
        (mcp(), r#"{"to":3,"_meta":{"progressToken":[1]}}"#),
        (Config::new(), r#"{"to":3}"#),
    ] {
        let mut raw = Raw::to(config).await;
        raw.say(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"count","params":{params}}}"#
        ))
        .await;
        raw.hear(&[r#"{"jsonrpc":"2.0","result":3,"id":1}"#]).await;
        raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"token"}"#)
            .await;
        raw.hear(&[r#"{"jsonrpc":"2.0","result":null,"id":2}"#])
            .await;
    }
    // In a dialect without progress, `workDoneToken` is a parameter like any other.
    let mut raw = Raw::to(Config::new()).await;
    raw.say(r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"to":1,"workDoneToken":1}}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":1}"#])
        .await;
}

/// The other side of a caller, in memory, which the test reads and writes line by line.
struct Hand {
    io: Box<dyn Io>,
    rest: Vec<u8>,
}

impl Hand {
    fn of(config: impl Into<ConnectionConfig>) -> (Peer, Self) {
        let (near, far) = duplex(1 << 16);
        let peer = attach(Link::new(near), config, ());
        let rest = Vec::new();
        (peer, Self { io: far, rest })
    }

    async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        let mut left = line.as_bytes();
        while !left.is_empty() {
            let n = poll_fn(|cx| self.io.poll_write(cx, left)).await.unwrap();
            left = &left[n..];
        }
    }

    async fn hear(&mut self) -> String {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line = self.rest.drain(..=end).collect();
                return String::from_utf8(line).unwrap().trim_end().into();
            }
            let mut buf = [0; 4096];
            let n = poll_fn(|cx| self.io.poll_read(cx, &mut buf)).await.unwrap();
            assert!(n > 0, "the caller has left");
            self.rest.extend_from_slice(&buf[..n]);
        }
    }

    /// Sends progress under the token of the caller's call with this number, counted from 0.
    async fn tell(&mut self, token: u32, value: &str) {
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"antiphon-{token}",{value}}}}}"#
        ))
        .await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

// USE-21
#[tokio::test(start_paused = true)]
async fn a_caller_hears_of_progress_before_the_answer() {
    let (peer, mut hand) = Hand::of(mcp());
    let heard = Mutex::new(Vec::new());
    let calls = async {
        let hear = |step: Done| heard.lock().unwrap().push(step.progress);
        let params = json!({"name": "wait", "_meta": {"trace": 1}});
        let first = peer.call::<String>("tools/call", &params).progress(hear);
        assert_eq!(first.await.unwrap(), "done");
        assert_eq!(*heard.lock().unwrap(), [1.0, 2.5]);
        let second = peer.call::<()>("ping", ()).progress(hear);
        assert!(matches!(second.await, Err(CallError::Remote(_))));
    };
    let other_side = async {
        assert_eq!(
            hand.hear().await,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"_meta":{"progressToken":"antiphon-0","trace":1},"name":"wait"},"id":1}"#
        );
        hand.tell(0, r#""progress":1"#).await;
        // Progress of another call, and a value of another form: neither is heard.
        hand.tell(7, r#""progress":6"#).await;
        hand.tell(0, r#""progress":"much""#).await;
        hand.tell(0, r#""progress":2.5,"total":4"#).await;
        hand.say(r#"{"jsonrpc":"2.0","result":"done","id":1}"#)
            .await;
        hand.tell(0, r#""progress":4"#).await;
        assert_eq!(
            hand.hear().await,
            r#"{"jsonrpc":"2.0","method":"ping","params":{"_meta":{"progressToken":"antiphon-1"}},"id":2}"#
        );
        hand.tell(0, r#""progress":5"#).await;
        hand.say(r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"},"id":2}"#)
            .await;
    };
    tokio::join!(calls, other_side);
    assert_eq!(*heard.lock().unwrap(), [1.0, 2.5]);
}

// USE-21
#[tokio::test(start_paused = true)]
async fn progress_lets_the_timeout_begin_anew_where_that_is_wanted() {
    for (extends, in_all, ended_after, outcome) in [
        (false, 60, 10, "timed out"),
        (true, 60, 24, "done"),
        (true, 15, 15, "timed out"),
    ] {
        let (peer, mut hand) = Hand::of(mcp());
        let began = Instant::now();
        let call = async {
            let call = peer.call::<String>("slow", ()).timeout(10 * SECOND);
            let call = call.progress(|_: Done| {});
            let ended = match extends {
                true => call.extend_deadline(in_all * SECOND).await,
                false => call.await,
            };
            let ended = match ended {
                Ok(result) => result,
                Err(CallError::TimedOut) => "timed out".into(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!((&*ended, began.elapsed().as_secs()), (outcome, ended_after));
        };
        let other_side = async {
            hand.hear().await;
            for step in [1, 2] {
                sleep(8 * SECOND).await;
                hand.tell(0, &format!("\"progress\":{step}")).await;
            }
            sleep(8 * SECOND).await;
            hand.say(r#"{"jsonrpc":"2.0","result":"done","id":1}"#)
                .await;
        };
        tokio::join!(call, other_side);
    }
}

// USE-21
#[tokio::test(start_paused = true)]
async fn a_call_waits_no_longer_in_all_than_it_says_with_progress_or_without() {
    for (timeout, told) in [
        (Some(10 * SECOND), false),
        (Some(10 * SECOND), true),
        (None, false),
        (None, true),
    ] {
        let (peer, mut hand) = Hand::of(mcp());
        let began = Instant::now();
        let call = async {
            let call = peer.call::<String>("slow", ()).timeout(timeout);
            let call = call.progress(|_: Done| {});
            let ended = call.extend_deadline(5 * SECOND).await;
            assert!(matches!(ended, Err(CallError::TimedOut)));
            assert_eq!(began.elapsed().as_secs(), 5, "{timeout:?} {told}");
        };
        let other_side = async {
            hand.hear().await;
            sleep(SECOND).await;
            if told {
                hand.tell(0, r#""progress":1"#).await;
            }
        };
        let ended = tokio::time::timeout(60 * SECOND, async { tokio::join!(call, other_side) });
        ended.await.expect("it ends");
    }
}

/// Notes what it sees, answers `known` itself, sets the params of other calls, and replaces a result
/// of 2 with 3.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<String>>>);

impl Interceptor<OutgoingCall> for Noting {
    fn request(&self, cx: &mut Cx, call: &OutgoingCall) -> Decision {
        self.0.lock().unwrap().push(call.method().into());
        match call.method() {
            "known" => OwnedError::new(7, "known").into(),
            _ => {
                cx.set_params(OwnedJson::from_value(&json!({"a": 1})).unwrap());
                Decision::Continue
            }
        }
    }

    fn response(&self, _: &Cx, _: &OutgoingCall, reply: &mut Reply) {
        self.0.lock().unwrap().push(format!("{:?}", reply.result()));
        if reply.result() == Some("2") {
            reply.replace(Ok(OwnedJson::from_value(&3).unwrap()));
        }
    }

    fn given_up(&self, _: &Cx, _: &OutgoingCall) {
        self.0.lock().unwrap().push("given up".into());
    }
}

// INT-01 USE-21
#[tokio::test(start_paused = true)]
async fn interceptors_see_a_call_whose_progress_is_heard() {
    let noted = Noting::default();
    let (peer, mut hand) = Hand::of(ConnectionConfig::new(mcp()).intercept(noted.clone()));
    let heard = Mutex::new(Vec::new());
    let hear = |step: Done| heard.lock().unwrap().push(step.progress);
    let known = peer.call::<u32>("known", ()).progress(hear).await;
    assert!(matches!(known, Err(CallError::Remote(error)) if error.code() == 7));
    let calls = async {
        let sum = peer.call::<u32>("sum", ()).progress(hear).await;
        assert_eq!(sum.unwrap(), 3);
        let late = peer.call::<u32>("late", ()).progress(hear);
        assert!(timeout(SECOND, late).await.is_err());
    };
    let other_side = async {
        assert_eq!(
            hand.hear().await,
            r#"{"jsonrpc":"2.0","method":"sum","params":{"_meta":{"progressToken":"antiphon-0"},"a":1},"id":1}"#
        );
        hand.tell(0, r#""progress":1"#).await;
        hand.say(r#"{"jsonrpc":"2.0","result":2,"id":1}"#).await;
        hand.hear().await;
    };
    tokio::join!(calls, other_side);
    assert_eq!(*heard.lock().unwrap(), [1.0]);
    let expected = ["known", "None", "sum", "Some(\"2\")", "late", "given up"];
    assert_eq!(*noted.0.lock().unwrap(), expected);
}

// USE-21
#[tokio::test(start_paused = true)]
async fn what_cannot_ask_for_progress_is_refused_and_sends_nothing() {
    let refused = |config: Config, params: Value| async move {
        let (peer, _hand) = Hand::of(config);
        let call = peer.call::<()>("m", &params).progress(|(): ()| {});
        let refused = call.await;
        assert_eq!(peer.transmit_queued(), 0);
        match refused {
            Err(CallError::Rejected(SendError::Encode(error))) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        refused(Config::new(), json!({})).await,
        "the dialect has no progress"
    );
    assert_eq!(
        refused(mcp(), json!([1])).await,
        "params in an array have no place for a progress token"
    );
}

// USE-21
#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_hears_nothing_more() {
    let (peer, mut hand) = Hand::of(mcp());
    let heard = Mutex::new(0);
    let call = peer.call::<()>("slow", ());
    let call = call.progress(|_: Done| *heard.lock().unwrap() += 1);
    let asked = async {
        hand.hear().await;
        hand.tell(0, r#""progress":1"#).await;
        sleep(SECOND).await;
    };
    tokio::select! {
        _ = call => panic!("nobody has answered"),
        () = asked => {}
    }
    assert_eq!(*heard.lock().unwrap(), 1);
    hand.tell(0, r#""progress":2"#).await;
    assert_eq!(
        hand.hear().await,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#
    );
    assert_eq!(*heard.lock().unwrap(), 1);
    assert!(peer.closed().is_none());
}

// USE-21
#[tokio::test(start_paused = true)]
async fn of_much_progress_the_newest_is_heard() {
    let (peer, mut hand) = Hand::of(mcp());
    let mut heard = Vec::new();
    let call = peer.call::<()>("fast", ());
    let call = call.progress(|step: Done| heard.push(step.progress));
    let other_side = async {
        hand.hear().await;
        let steps: Vec<String> = (0..100)
            .map(|step| format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"antiphon-0","progress":{step}}}}}"#))
            .collect();
        // All in one read, before the caller has had a turn.
        let answer = r#"{"jsonrpc":"2.0","result":null,"id":1}"#;
        hand.say(&format!("{}\n{answer}", steps.join("\n"))).await;
    };
    let (ended, ()) = tokio::join!(call, other_side);
    ended.unwrap();
    // The last 64 of 100, because at most 64 values wait.
    let newest: Vec<f64> = (36..100).map(f64::from).collect();
    assert_eq!(heard, newest);
}

// USE-21
#[tokio::test(start_paused = true)]
async fn a_handlers_progress_is_what_its_caller_hears() {
    for config in [Config::lsp(), mcp()] {
        let (near, far) = Link::pair();
        let _far = attach(far, config, router());
        let near = attach(near, config, ());
        let mut heard = Vec::new();
        let call = near.call::<u32>("count", &json!({"to": 3}));
        let call = call.progress(|step: Done| heard.push(step.progress));
        assert_eq!(call.await.unwrap(), 3);
        assert_eq!(heard, [1.0, 2.0, 3.0]);
    }
}
