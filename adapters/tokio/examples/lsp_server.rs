//! A language server for plain text, on standard input and output.
//!
//! - A hover says how often the word under it is in its document.
//! - Documents are changed by ranges, so each change has to be applied in its order.
//! - `words.count` (`workspace/executeCommand`) takes its time, tells its progress, and stops when
//!   it is cancelled.
//! - The editor is asked for `words.ignoreCase` (`workspace/configuration`).
//!
//! `cargo run -p antiphon-tokio --example lsp_server`

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{Write, stderr};
use std::process::exit;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use antiphon_tokio::{Answer, Config, ErrorObject, Notification, OwnedError};
use antiphon_tokio::{Peer, Report, Request, Service, serve_stdio};
use serde::Deserialize;
use serde_json::{Value, json};

const SERVER_NOT_INITIALIZED: i64 = -32002;

#[derive(Clone, Copy, Deserialize)]
struct Position {
    line: usize,
    /// In UTF-16 units.
    character: usize,
}

#[derive(Deserialize)]
struct Range {
    start: Position,
    end: Position,
}

#[derive(Deserialize)]
struct TextDocument {
    uri: String,
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct Change {
    range: Option<Range>,
    text: String,
}

/// What `didOpen`, `didChange` and `didClose` say.
#[derive(Deserialize)]
struct Synchronize {
    #[serde(rename = "textDocument")]
    document: TextDocument,
    #[serde(rename = "contentChanges", default)]
    changes: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hover {
    text_document: TextDocument,
    position: Position,
}

/// Where the server is between `initialize` and `exit`.
#[derive(Clone, Copy, Default, PartialEq)]
enum Phase {
    #[default]
    New,
    Running,
    Stopped,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// What the editor can do.
    editor: Value,
    ignore_case: bool,
    documents: HashMap<String, String>,
    tokens: u32,
}

#[derive(Default)]
struct Server(Mutex<State>);

impl Service for Server {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let phase = self.state().phase;
        match (phase, request.method()) {
            (Phase::New, "initialize") => {
                let mut params: Value = request.params()?;
                let mut state = self.state();
                state.phase = Phase::Running;
                state.editor = params["capabilities"].take();
                Ok(json!({
                    "capabilities": {
                        "textDocumentSync": {"openClose": true, "change": 2},
                        "hoverProvider": true,
                        "executeCommandProvider": {"commands": ["words.count"]},
                    },
                    "serverInfo": {"name": "lsp_server"},
                })
                .into())
            }
            (Phase::New, _) => Err(OwnedError::new(SERVER_NOT_INITIALIZED, "not initialized")),
            (Phase::Stopped, _) | (_, "initialize") => Err(ErrorObject::invalid_request().into()),
            (Phase::Running, "textDocument/hover") => Ok(self.hover(request.params()?).into()),
            (Phase::Running, "workspace/executeCommand") => {
                self.execute(peer, request.params()?).await
            }
            (Phase::Running, "shutdown") => {
                self.state().phase = Phase::Stopped;
                Ok(().into())
            }
            _ => Err(request.unknown_method()),
        }
    }

    async fn notification(&self, peer: &Peer, notification: Notification) {
        match notification.method() {
            "initialized" | "workspace/didChangeConfiguration" => self.configure(peer).await,
            "textDocument/didOpen" | "textDocument/didChange" | "textDocument/didClose" => {
                // Wrong params are in the report, and nobody is answered.
                let _ = self.synchronize(&notification);
            }
            "exit" => peer.drain(),
            _ => {}
        }
    }

    fn report(&self, _: &Peer, report: Report) {
        // A transport that fails is told by `main`.
        if !matches!(report, Report::Transport(_)) {
            log(report);
        }
    }
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn synchronize(&self, notification: &Notification) -> Result<(), OwnedError> {
        let Synchronize { document, changes } = notification.params()?;
        let documents = &mut self.state().documents;
        match (notification.method(), documents.get_mut(&document.uri)) {
            ("textDocument/didOpen", _) => {
                documents.insert(document.uri, document.text);
            }
            ("textDocument/didChange", Some(text)) => {
                for change in changes {
                    apply(text, change);
                }
            }
            _ => {
                documents.remove(&document.uri);
            }
        }
        Ok(())
    }

    fn hover(&self, hover: Hover) -> Option<Value> {
        let state = self.state();
        let text = state.documents.get(&hover.text_document.uri)?;
        let word = word_at(text, offset(text, hover.position))?;
        let same = |other: &&str| match state.ignore_case {
            true => other.to_lowercase() == word.to_lowercase(),
            false => *other == word,
        };
        let count = words(text).filter(same).count();
        Some(json!({"contents": {"kind": "plaintext", "value": format!("{word}: {count}")}}))
    }

    /// Asks the editor for its settings. What came behind waits until they are known.
    async fn configure(&self, peer: &Peer) {
        if self.state().editor["workspace"]["configuration"] != true {
            return;
        }
        let asked = json!({"items": [{"section": "words.ignoreCase"}]});
        let settings = peer.call::<[Option<bool>; 1]>("workspace/configuration", &asked);
        match settings.await {
            Ok([ignore]) => self.state().ignore_case = ignore.unwrap_or(false),
            Err(error) => log(format_args!("no configuration: {error}")),
        }
    }

    /// Counts the words of all documents, line by line, slowly.
    async fn execute(&self, peer: &Peer, params: Value) -> Result<Answer, OwnedError> {
        if params["command"] != "words.count" {
            return Err(ErrorObject::invalid_params().into());
        }
        let documents = self.state().documents.clone();
        let lines: Vec<&str> = documents.values().flat_map(|text| text.lines()).collect();
        let progress = self.progress(peer, params.get("workDoneToken")).await;
        let mut total = 0;
        for (done, line) in lines.iter().enumerate() {
            let percentage = 100 * done / lines.len();
            progress.tell(json!({"kind": "report", "percentage": percentage}));
            tokio::time::sleep(Duration::from_millis(10)).await;
            total += words(line).count();
        }
        Ok(total.into())
    }

    /// Progress under the editor's token, or under one that it agrees to.
    async fn progress(&self, peer: &Peer, given: Option<&Value>) -> Progress {
        let mut token = given.cloned();
        if token.is_none() && self.state().editor["window"]["workDoneProgress"] == true {
            self.state().tokens += 1;
            let ours = json!({"token": format!("words-{}", self.state().tokens)});
            let created = peer.call::<()>("window/workDoneProgress/create", &ours);
            token = created.await.is_ok().then(|| ours["token"].clone());
        }
        let peer = peer.clone();
        let progress = Progress { peer, token };
        progress.tell(json!({"kind": "begin", "title": "Counting words", "percentage": 0}));
        progress
    }
}

/// Work-done progress. It ends when this is dropped, so also when the request is cancelled.
struct Progress {
    peer: Peer,
    token: Option<Value>,
}

impl Progress {
    fn tell(&self, value: Value) {
        if let Some(token) = &self.token {
            // An editor that does not read misses a report.
            let params = json!({"token": token, "value": value});
            drop(self.peer.try_notify("$/progress", &params));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.tell(json!({"kind": "end"}));
    }
}

fn log(line: impl Display) {
    // An editor that has closed it loses the line.
    drop(writeln!(stderr(), "lsp_server: {line}"));
}

fn apply(text: &mut String, change: Change) {
    let whole = 0..text.len();
    let range = change.range.map_or(whole, |Range { start, end }| {
        let start = offset(text, start);
        start..offset(text, end).max(start)
    });
    text.replace_range(range, &change.text);
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn word_at(text: &str, offset: usize) -> Option<&str> {
    let (before, after) = text.split_at(offset);
    let start = before.trim_end_matches(char::is_alphanumeric).len();
    let end = text.len() - after.trim_start_matches(char::is_alphanumeric).len();
    Some(&text[start..end]).filter(|word| !word.is_empty())
}

/// Where a position is in a text, in bytes. One past the end of its line is the end of the line.
fn offset(text: &str, position: Position) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(position.line)
        .map(str::len)
        .sum();
    let line = text[start..].lines().next().unwrap_or("");
    let mut units = 0;
    for (at, c) in line.char_indices() {
        if units >= position.character {
            return start + at;
        }
        units += c.len_utf16();
    }
    start + line.len()
}

#[tokio::main]
async fn main() {
    if std::env::args().len() > 1 {
        log("usage: lsp_server (on standard input and output)");
        exit(2);
    }
    let server = Arc::new(Server::default());
    match serve_stdio(Config::lsp(), server.clone()).await {
        Ok(_) if server.state().phase == Phase::Stopped => exit(0),
        Ok(_) => log("the editor left without `shutdown`"),
        Err(error) => log(error),
    }
    exit(1);
}
