//! The answers of a language server, byte for byte, in virtual time.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon::{Closed, Config, OwnedError};
use antiphon_lsp::types::{
    DidChangeTextDocumentNotification, DidCloseTextDocumentNotification, ExecuteCommandParams,
    ExecuteCommandRequest, HoverRequest, InitializeParams, InitializeRequest, InitializeResult,
    LogMessageNotification, LogMessageParams, MessageType, Range, ServerCapabilities,
    ShowDocumentParams, ShowDocumentRequest, ShutdownRequest, TextDocumentContentChangeEvent,
    WorkDoneProgressParams,
};
use antiphon_lsp::{LanguageServer, LspPeer, Trace, WorkDone, WorkDoneStep};
use antiphon_net::{Io, Link, Router, attach, duplex, serve};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::measured::measured;

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// An editor whose messages are written by hand, and the server that it has started.
struct Editor {
    io: Box<dyn Io>,
    rest: Vec<u8>,
    served: JoinHandle<std::io::Result<Closed>>,
}

impl Editor {
    /// Starts `server` for this editor.
    fn of<S: Clone + Send + Sync + 'static>(server: &LanguageServer<S>) -> Self {
        let (near, far) = duplex(1 << 16);
        Self {
            io: near,
            rest: Vec::new(),
            served: tokio::spawn(serve(Link::new(far), Config::lsp(), server.clone())),
        }
    }

    /// Sends a message that has these members and the version.
    async fn say(&mut self, members: &str) {
        let body = format!(r#"{{"jsonrpc":"2.0",{members}}}"#);
        let message = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let mut left = message.as_bytes();
        while !left.is_empty() {
            let n = poll_fn(|cx| self.io.poll_write(cx, left)).await.unwrap();
            left = &left[n..];
        }
    }

    /// The next message, without its braces and its version; `None` at the end.
    async fn hear(&mut self) -> Option<String> {
        loop {
            let text = String::from_utf8(self.rest.clone()).unwrap();
            if let Some((head, rest)) = text.split_once("\r\n\r\n") {
                let length: usize = head
                    .strip_prefix("Content-Length: ")
                    .unwrap()
                    .parse()
                    .unwrap();
                if let Some(body) = rest.get(..length) {
                    self.rest = rest[length..].into();
                    let inside = body.strip_prefix(r#"{"jsonrpc":"2.0","#);
                    return Some(inside.unwrap().strip_suffix('}').unwrap().into());
                }
            }
            let mut buf = [0; 4096];
            let read = poll_fn(|cx| self.io.poll_read(cx, &mut buf));
            match timeout(LONG, read).await.expect("in time").unwrap() {
                0 => return None,
                n => self.rest.extend_from_slice(&buf[..n]),
            }
        }
    }

    async fn expect(&mut self, message: &str) {
        assert_eq!(self.hear().await.as_deref(), Some(message));
    }

    /// Sends `initialize` with these params, and expects the answer.
    async fn initialize(&mut self, params: &str) {
        self.say(&format!(
            r#""id":0,"method":"initialize","params":{params}"#
        ))
        .await;
        self.expect(INITIALIZED).await;
    }
}

const INITIALIZED: &str = r#""result":{"capabilities":{}},"id":0"#;
const NOT_INITIALIZED: &str = r#""error":{"code":-32002,"message":"Server not initialized"}"#;
const INVALID_REQUEST: &str = r#""error":{"code":-32600,"message":"Invalid Request"}"#;
/// Params of `initialize` from an editor without capabilities.
const CAN_NOTHING: &str = r#"{"processId":null,"rootUri":null,"capabilities":{}}"#;

/// A result of `initialize` without capabilities.
fn nothing() -> InitializeResult {
    InitializeResult {
        capabilities: ServerCapabilities::default(),
        server_info: None,
    }
}

type Log = Arc<Mutex<Vec<String>>>;

/// Knows `initialize`, a hover whose result is `null`, and `didClose`, whose URI it puts into the log.
fn server(log: &Log) -> LanguageServer<Log> {
    LanguageServer::with_state(Arc::clone(log))
        .on::<InitializeRequest>(|_, _| async { Ok(nothing()) })
        .on::<HoverRequest>(|_, _| async { Ok(None) })
        .on_notification::<DidCloseTextDocumentNotification>(|closed, call| async move {
            call.state()
                .lock()
                .unwrap()
                .push(closed.text_document.uri.0);
            Ok(())
        })
}

const HOVER: &str = r#""id":1,"method":"textDocument/hover","params":{"textDocument":{"uri":"a"},"position":{"line":0,"character":0}}"#;
const CLOSE: &str = r#""method":"textDocument/didClose","params":{"textDocument":{"uri":"a"}}"#;

#[tokio::test(start_paused = true)]
async fn nothing_is_served_before_initialize_and_after_shutdown() {
    let log = Log::default();
    let mut editor = Editor::of(&server(&log));
    editor.say(CLOSE).await;
    editor.say(r#""method":"initialized","params":{}"#).await;
    editor.say(HOVER).await;
    editor.expect(&format!(r#"{NOT_INITIALIZED},"id":1"#)).await;
    editor.say(r#""id":2,"method":"shutdown""#).await;
    editor.expect(&format!(r#"{NOT_INITIALIZED},"id":2"#)).await;
    assert_eq!(*log.lock().unwrap(), [""; 0]);

    editor.initialize(CAN_NOTHING).await;
    editor
        .say(r#""id":3,"method":"initialize","params":{}"#)
        .await;
    editor.expect(&format!(r#"{INVALID_REQUEST},"id":3"#)).await;
    editor.say(CLOSE).await;
    editor.say(HOVER).await;
    editor.expect(r#""result":null,"id":1"#).await;
    editor.say(r#""id":4,"method":"made up""#).await;
    editor
        .expect(r#""error":{"code":-32601,"message":"Method not found"},"id":4"#)
        .await;
    assert_eq!(*log.lock().unwrap(), ["a"]);

    editor
        .say(r#""id":5,"method":"shutdown","params":null"#)
        .await;
    editor.expect(r#""result":null,"id":5"#).await;
    editor.say(CLOSE).await;
    for method in ["textDocument/hover", "shutdown", "initialize", "made up"] {
        editor.say(&format!(r#""id":6,"method":"{method}""#)).await;
        editor.expect(&format!(r#"{INVALID_REQUEST},"id":6"#)).await;
    }
    assert_eq!(*log.lock().unwrap(), ["a"]);
    editor.say(r#""method":"exit""#).await;
    assert_eq!(editor.hear().await, None);
}

/// The ranges of a change of a document, or that all of it changed.
fn shown(change: TextDocumentContentChangeEvent) -> String {
    match change {
        TextDocumentContentChangeEvent::TextDocumentContentChangePartial(part) => {
            let Range { start, end } = part.range;
            let places = [start.line, start.character, end.line, end.character];
            format!("{places:?} {}", part.text)
        }
        other => format!("{other:?}"),
    }
}

// USE-34
#[tokio::test(start_paused = true)]
async fn a_position_that_is_written_with_a_fraction_was_refused_and_a_change_replaced_all() {
    let log = Log::default();
    let server = server(&log).on_notification::<DidChangeTextDocumentNotification>(
        |changed, call| async move {
            let changes = changed.content_changes.into_iter().map(shown);
            call.state().lock().unwrap().extend(changes);
            Ok(())
        },
    );
    let mut editor = Editor::of(&server);
    editor.initialize(CAN_NOTHING).await;
    let change = r#"{"range":{"start":{"line":0.0,"character":1e0},"end":{"line":2,"character":3.0}},"text":"1.0"}"#;
    editor
        .say(&format!(
            r#""method":"textDocument/didChange","params":{{"textDocument":{{"uri":"a","version":2.0}},"contentChanges":[{change}]}}"#
        ))
        .await;
    editor
        .say(&HOVER.replace("\"line\":0", "\"line\":0.0"))
        .await;
    editor.expect(r#""result":null,"id":1"#).await;
    assert_eq!(*log.lock().unwrap(), ["[0, 1, 2, 3] 1.0"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_with_0_only_after_shutdown() {
    let initialize = r#""id":0,"method":"initialize","params":{"capabilities":{}}"#;
    let (shutdown, exit) = (r#""id":1,"method":"shutdown""#, r#""method":"exit""#);
    for (messages, code) in [
        (&[initialize, shutdown, exit][..], 0),
        (&[initialize, shutdown], 0),
        (&[initialize, exit], 1),
        (&[initialize], 1),
        (&[exit], 1),
        (&[shutdown, exit], 1),
        (&[], 1),
    ] {
        let server = server(&Log::default());
        assert_eq!(server.exit_code(), 1);
        let mut editor = Editor::of(&server);
        for message in messages {
            editor.say(message).await;
        }
        if !messages.contains(&exit) {
            poll_fn(|cx| editor.io.poll_close(cx)).await.unwrap();
        }
        let mut answers = 0;
        while editor.hear().await.is_some() {
            answers += 1;
        }
        // No answer is lost, although `exit` or the end of input follows at once.
        let asked = messages
            .iter()
            .filter(|message| message.contains("\"id\""))
            .count();
        assert_eq!(answers, asked, "{messages:?}");
        editor.served.await.unwrap().unwrap();
        assert_eq!(server.exit_code(), code, "{messages:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_has_begun_is_not_cancelled() {
    let log = Log::default();
    let server = LanguageServer::with_state(Arc::clone(&log))
        .on::<InitializeRequest>(|_, call| async move {
            sleep(SECOND).await;
            call.state().lock().unwrap().push("initialized".into());
            Ok(nothing())
        })
        .on::<ShutdownRequest>(|(), call| async move {
            call.state().lock().unwrap().push("shut down".into());
            Ok(())
        });
    let initialize = r#""id":0,"method":"initialize","params":{"capabilities":{}}"#;
    let cancel = r#""method":"$/cancelRequest","params":{"id":0}"#;
    let mut editor = Editor::of(&server);
    // An `initialize` that is cancelled before it has begun never begins.
    editor.say(initialize).await;
    editor.say(cancel).await;
    editor
        .expect(r#""error":{"code":-32800,"message":"Request cancelled"},"id":0"#)
        .await;
    assert_eq!(*log.lock().unwrap(), [""; 0]);
    editor.say(initialize).await;
    sleep(SECOND / 2).await;
    editor.say(cancel).await;
    editor.expect(INITIALIZED).await;
    editor.say(r#""id":1,"method":"shutdown""#).await;
    editor.expect(r#""result":null,"id":1"#).await;
    assert_eq!(*log.lock().unwrap(), ["initialized", "shut down"]);
}

#[tokio::test(start_paused = true)]
async fn an_initialize_that_fails_may_come_again() {
    let tries = Arc::new(AtomicU32::new(0));
    let server = LanguageServer::with_state(tries).on::<InitializeRequest>(|_, call| async move {
        match call.state().fetch_add(1, Ordering::Relaxed) {
            0 => Err(OwnedError::new(1, "no licence")),
            1 => panic!("as asked"),
            _ => Ok(nothing()),
        }
    });
    let mut editor = Editor::of(&server);
    editor
        .say(r#""id":1,"method":"initialize","params":{"capabilities":{}}"#)
        .await;
    editor
        .expect(r#""error":{"code":1,"message":"no licence"},"id":1"#)
        .await;
    editor.say(HOVER).await;
    editor.expect(&format!(r#"{NOT_INITIALIZED},"id":1"#)).await;
    editor
        .say(r#""id":3,"method":"initialize","params":{"capabilities":{}}"#)
        .await;
    editor
        .expect(r#""error":{"code":-32603,"message":"Internal error"},"id":3"#)
        .await;
    // Params of another form fail too.
    editor
        .say(r#""id":2,"method":"initialize","params":[7]"#)
        .await;
    editor
        .expect(r#""error":{"code":-32602,"message":"Invalid params"},"id":2"#)
        .await;
    editor.initialize(CAN_NOTHING).await;
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_server_ends_with_the_process_of_its_editor() {
    let mut process = std::process::Command::new("sleep")
        .arg("600")
        .spawn()
        .unwrap();
    let mut editor = Editor::of(&server(&Log::default()));
    let named = format!(r#"{{"processId":{},"capabilities":{{}}}}"#, process.id());
    editor.initialize(&named).await;
    sleep(10 * SECOND).await;
    editor.say(HOVER).await;
    editor.expect(r#""result":null,"id":1"#).await;
    process.kill().unwrap();
    process.wait().unwrap();
    // The server looks every 3 s.
    assert_eq!(
        timeout(4 * SECOND, editor.hear()).await.expect("soon"),
        None
    );

    // An id that is not valid, or of no process on this machine, does not end the connection.
    for id in ["null", "0", "-1", "1.5", "\"1\"", &process.id().to_string()] {
        let mut editor = Editor::of(&server(&Log::default()));
        let params = format!(r#"{{"processId":{id},"capabilities":{{}}}}"#);
        editor
            .say(&format!(
                r#""id":0,"method":"initialize","params":{params}"#
            ))
            .await;
        editor.hear().await.expect("an answer");
        sleep(10 * SECOND).await;
        editor.say(r#""id":1,"method":"made up""#).await;
        assert!(editor.hear().await.is_some(), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_trace_is_told_as_much_as_the_editor_wants() {
    let server = LanguageServer::new()
        .on::<InitializeRequest>(|_, _| async { Ok(nothing()) })
        .on::<HoverRequest>(|_, call| async move {
            let trace: Trace = call.extract()?;
            trace.log("a hover", || Some("at 0".into()));
            Ok(None)
        });
    let mut editor = Editor::of(&server);
    editor
        .initialize(r#"{"processId":null,"rootUri":null,"capabilities":{},"trace":"messages"}"#)
        .await;
    let messages = r#""method":"$/logTrace","params":{"message":"a hover"}"#;
    let verbose = r#""method":"$/logTrace","params":{"message":"a hover","verbose":"at 0"}"#;
    for (set, told) in [
        (None, Some(messages)),
        (Some(r#"{"value":"verbose"}"#), Some(verbose)),
        (Some(r#"{"value":"made up"}"#), Some(verbose)),
        (Some(r#"{"value":7}"#), Some(verbose)),
        (Some(r#"[]"#), Some(verbose)),
        (Some(r#"{"value":"off"}"#), None),
        (Some(r#"{"value":"messages"}"#), Some(messages)),
    ] {
        if let Some(params) = set {
            editor
                .say(&format!(r#""method":"$/setTrace","params":{params}"#))
                .await;
        }
        editor.say(HOVER).await;
        if let Some(told) = told {
            editor.expect(told).await;
        }
        editor.expect(r#""result":null,"id":1"#).await;
    }
}

/// A server whose command reports two steps. If the command is `count for ever`, the second comes only long
/// after a cancel.
fn counting() -> LanguageServer {
    LanguageServer::new()
        .on::<InitializeRequest>(|_, _| async { Ok(nothing()) })
        .on::<ExecuteCommandRequest>(|params, call| async move {
            let work = WorkDone::begin(&call, "Counting").await;
            work.report(Some("one".into()), Some(50));
            if params.command == "count for ever" {
                call.cancellation().await;
                sleep(LONG).await;
            }
            work.report(None, None);
            drop(work);
            Ok(None)
        })
}

fn progress(token: &str, value: &str) -> String {
    format!(r#""method":"$/progress","params":{{"token":{token},"value":{value}}}"#)
}

const BEGIN: &str = r#"{"kind":"begin","title":"Counting","percentage":0}"#;
const HALF: &str = r#"{"kind":"report","message":"one","percentage":50}"#;

// USE-21
#[tokio::test(start_paused = true)]
async fn work_is_told_under_the_token_of_its_request() {
    let mut editor = Editor::of(&counting());
    editor.initialize(CAN_NOTHING).await;
    editor
        .say(r#""id":1,"method":"workspace/executeCommand","params":{"command":"count","workDoneToken":"\u0061"}"#)
        .await;
    let token = r#""\u0061""#;
    for value in [BEGIN, HALF, r#"{"kind":"report"}"#, r#"{"kind":"end"}"#] {
        editor.expect(&progress(token, value)).await;
    }
    editor.expect(r#""result":null,"id":1"#).await;

    // The progress ends too if the request is cancelled.
    editor
        .say(r#""id":2,"method":"workspace/executeCommand","params":{"command":"count for ever","workDoneToken":7}"#)
        .await;
    editor.expect(&progress("7", BEGIN)).await;
    editor.expect(&progress("7", HALF)).await;
    editor
        .say(r#""method":"$/cancelRequest","params":{"id":2}"#)
        .await;
    editor.expect(&progress("7", r#"{"kind":"end"}"#)).await;
    editor
        .expect(r#""error":{"code":-32800,"message":"Request cancelled"},"id":2"#)
        .await;

    // Without a token nothing is sent, because this editor shows no progress.
    editor
        .say(r#""id":3,"method":"workspace/executeCommand","params":{"command":"count"}"#)
        .await;
    editor.expect(r#""result":null,"id":3"#).await;
}

// USE-21
#[tokio::test(start_paused = true)]
async fn work_is_told_under_a_token_that_the_editor_agrees_to() {
    let mut editor = Editor::of(&counting());
    editor
        .initialize(r#"{"processId":null,"rootUri":null,"capabilities":{"window":{"workDoneProgress":true}}}"#)
        .await;
    let count = r#""id":"c","method":"workspace/executeCommand","params":{"command":"count"}"#;
    let create = |number| {
        format!(
            r#""method":"window/workDoneProgress/create","params":{{"token":"server-{number}"}},"id":{number}"#
        )
    };
    editor.say(count).await;
    editor.expect(&create(1)).await;
    editor.say(r#""id":1,"result":null"#).await;
    for value in [BEGIN, HALF, r#"{"kind":"report"}"#, r#"{"kind":"end"}"#] {
        editor.expect(&progress(r#""server-1""#, value)).await;
    }
    editor.expect(r#""result":null,"id":"c""#).await;

    // An editor that does not agree is told nothing.
    editor.say(count).await;
    editor.expect(&create(2)).await;
    editor
        .say(r#""id":2,"error":{"code":1,"message":"no"}"#)
        .await;
    editor.expect(r#""result":null,"id":"c""#).await;
}

// USE-21
#[tokio::test(start_paused = true)]
async fn an_editor_hears_of_the_work_that_it_has_asked_for() {
    let (near, far) = Link::pair();
    let _server = attach(far, Config::lsp(), counting());
    let editor = attach(near, Config::lsp(), ());
    let initialized = editor.request::<InitializeRequest>(&InitializeParams::default());
    initialized.await.unwrap();
    let mut heard = Vec::new();
    let params = ExecuteCommandParams::new("count".into(), None, WorkDoneProgressParams::default());
    let call = editor.request::<ExecuteCommandRequest>(&params);
    call.progress(|step: WorkDoneStep| heard.push(step))
        .await
        .unwrap();
    let report = |message: Option<&str>, percentage| WorkDoneStep::Report {
        message: message.map(Into::into),
        percentage,
    };
    let begin = WorkDoneStep::Begin {
        title: "Counting".into(),
        message: None,
        percentage: Some(0),
    };
    let end = WorkDoneStep::End { message: None };
    assert_eq!(
        heard,
        [
            begin,
            report(Some("one"), Some(50)),
            report(None, None),
            end
        ]
    );
}

// USE-20
#[tokio::test(start_paused = true)]
async fn both_sides_call_by_the_types_of_the_protocol() {
    let server = LanguageServer::new()
        .on::<InitializeRequest>(|_, _| async { Ok(nothing()) })
        .on::<HoverRequest>(|params, call| async move {
            let uri = params.text_document_position_params.text_document.uri;
            let show = ShowDocumentParams {
                uri,
                external: None,
                take_focus: Some(true),
                selection: None,
            };
            let shown = call.peer().request::<ShowDocumentRequest>(&show).await;
            let message = format!("{}", shown.is_ok_and(|shown| shown.success));
            let params = LogMessageParams {
                kind: MessageType::Info,
                message,
            };
            let _ = call.peer().notification::<LogMessageNotification>(&params);
            Ok(None)
        });
    let mut editor = Editor::of(&server);
    editor.initialize(CAN_NOTHING).await;
    editor.say(HOVER).await;
    editor
        .expect(r#""method":"window/showDocument","params":{"uri":"a","takeFocus":true},"id":1"#)
        .await;
    editor.say(r#""id":1,"result":{"success":true}"#).await;
    editor
        .expect(r#""method":"window/logMessage","params":{"type":3,"message":"true"}"#)
        .await;
    editor.expect(r#""result":null,"id":1"#).await;

    // An editor calls such a server by the same types.
    let (near, far) = Link::pair();
    let _server = attach(far, Config::lsp(), server);
    let peer = attach(near, Config::lsp(), ());
    let params = InitializeParams::default();
    let answer = peer.request::<InitializeRequest>(&params).await.unwrap();
    assert_eq!(answer, nothing());
}

// INT-05
#[tokio::test(start_paused = true)]
async fn batches_are_counted_where_the_configuration_allows_them() {
    let (metrics, shown) = measured();
    let server = LanguageServer::from(Router::new().intercept(metrics));
    let mut config = Config::lsp();
    config.dialect.batches = true;
    let (near, far) = Link::pair();
    let _server = attach(far, config, server);
    let peer = attach(near, config, ());
    let (call, mut outcomes) = peer
        .batch(|batch| {
            batch.notify("initialized", ())?;
            batch.call::<()>("textDocument/hover", ())
        })
        .await
        .unwrap();
    assert!(outcomes.fetch(call).is_err());
    let sum = "antiphon_server_batch_size_sum{rpc_system_name=\"jsonrpc\"} 2\n";
    assert!(shown.render().contains(sum), "{}", shown.render());
}
