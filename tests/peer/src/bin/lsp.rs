//! A tiny language server on stdio: enough of LSP 3.17 that an editor can be tried against the
//! blocking adapter.
//!
//! It marks each `TODO` of an open document, tells on hover what a word is, lists headings and
//! definitions as symbols, and asks the client for its configuration. Nothing but frames goes to
//! stdout. Exit code 0 after `shutdown`, 1 without.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use antiphon::{CloseReason, Config, ErrorObject, OwnedJson};
use antiphon_blocking::{
    Answer, Link, Notification, OwnedError, Peer, Report, Request, Service, serve,
};
use antiphon_peer::log::write_line;
use serde::{Deserialize, Serialize};

/// LSP 3.17, error codes: a request came before `initialize`.
const SERVER_NOT_INITIALIZED: i64 = -32002;
const SYMBOL_KIND_CLASS: u32 = 5;
const SYMBOL_KIND_FUNCTION: u32 = 12;
const SYMBOL_KIND_STRING: u32 = 15;
const SEVERITY_WARNING: u32 = 2;
const MESSAGE_TYPE_LOG: u32 = 4;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some() {
        write_line(format_args!(
            "usage: lsp (no arguments; an editor speaks to it over stdin and stdout)"
        ));
        return ExitCode::from(2);
    }
    let was_shut_down = Arc::new(AtomicBool::new(false));
    let server = Server {
        was_shut_down: Arc::clone(&was_shut_down),
        ..Server::default()
    };
    let served = Link::stdio().and_then(|link| serve(link, Config::lsp(), server));
    match served {
        Ok(_) if was_shut_down.load(Ordering::SeqCst) => ExitCode::SUCCESS,
        Ok(why) => {
            write_line(format_args!("lsp: ended without shutdown: {why}"));
            ExitCode::from(1)
        }
        Err(error) => {
            write_line(format_args!("lsp: {error}"));
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Server {
    documents: HashMap<String, String>,
    is_initialized: bool,
    /// The client has said that it does not answer `workspace/configuration`.
    has_no_configuration: bool,
    was_shut_down: Arc<AtomicBool>,
}

impl Service for Server {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        if self.was_shut_down.load(Ordering::SeqCst) {
            return Err(ErrorObject::invalid_request().into());
        }
        match request.method() {
            "initialize" if self.is_initialized => Err(ErrorObject::invalid_request().into()),
            "initialize" => {
                self.is_initialized = true;
                self.has_no_configuration = request
                    .raw_params()
                    .and_then(|params| params.get("capabilities")?.get("workspace"))
                    .and_then(|workspace| workspace.get("configuration"))
                    .is_some_and(|configuration| configuration.as_str() == "false");
                Ok(Initialized::default().into())
            }
            _ if !self.is_initialized => {
                let error = ErrorObject::new(SERVER_NOT_INITIALIZED, "Server not initialized");
                Err(error.into())
            }
            "shutdown" => {
                self.was_shut_down.store(true, Ordering::SeqCst);
                Ok(().into())
            }
            "textDocument/hover" => Ok(self.hover(&request.params()?).into()),
            "textDocument/documentSymbol" => Ok(self.symbols(&request.params()?).into()),
            _ => Err(request.unknown_method()),
        }
    }

    fn notification(&mut self, peer: &Peer, notification: Notification) {
        match notification.method() {
            "exit" => peer.close(CloseReason::Done),
            _ if !self.is_initialized => {}
            "initialized" => self.ask_configuration(peer),
            "textDocument/didOpen" => {
                if let Ok(open) = notification.params::<DidOpen>() {
                    self.keep(peer, open.text_document.uri, open.text_document.text);
                }
            }
            "textDocument/didChange" => {
                if let Ok(mut change) = notification.params::<DidChange>() {
                    // Full synchronisation: the last one is the document.
                    if let Some(last) = change.content_changes.pop() {
                        self.keep(peer, change.text_document.uri, last.text);
                    }
                }
            }
            "textDocument/didClose" => {
                if let Ok(close) = notification.params::<Place>() {
                    self.documents.remove(&close.text_document.uri);
                    publish(peer, &close.text_document.uri, &[]);
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        write_line(format_args!("lsp: {report}"));
    }
}

impl Server {
    fn keep(&mut self, peer: &Peer, uri: String, text: String) {
        publish(peer, &uri, &marks(&text));
        self.documents.insert(uri, text);
    }

    fn ask_configuration(&self, peer: &Peer) {
        if self.has_no_configuration {
            return;
        }
        let params = OwnedJson::parse(r#"{"items":[{"section":"antiphon"}]}"#.to_owned());
        let Ok(params) = params else { return };
        let teller = peer.clone();
        let called = peer
            .call("workspace/configuration", params.as_json())
            .then(move |outcome| {
                let message = match outcome {
                    antiphon::OwnedOutcome::Ok(result) => format!("configuration: {result}"),
                    other => format!("no configuration: {other}"),
                };
                log(&teller, &message);
            })
            .wait();
        if let Err(error) = called {
            write_line(format_args!(
                "lsp: the configuration cannot be asked for: {error}"
            ));
        }
    }

    fn hover(&self, at: &Hovering) -> Option<Hover> {
        let text = self.documents.get(&at.text_document.uri)?;
        let line = lines(text).nth(at.position.line)?;
        let (start, word) = words(line).find(|(start, word)| {
            (*start..start + utf16_len(word)).contains(&at.position.character)
        })?;
        let end = start + utf16_len(word);
        let letters = word.chars().count();
        Some(Hover {
            contents: Markup {
                kind: "plaintext",
                value: format!("{word}: {letters} letters"),
            },
            range: Range::within(at.position.line, start, end),
        })
    }

    fn symbols(&self, place: &Place) -> Vec<Symbol> {
        let Some(text) = self.documents.get(&place.text_document.uri) else {
            return Vec::new();
        };
        let numbered = lines(text).enumerate();
        numbered
            .filter_map(|(number, line)| symbol(number, line))
            .collect()
    }
}

/// Sends the diagnostics of a document.
fn publish(peer: &Peer, uri: &str, diagnostics: &[Diagnostic]) {
    let params = Publish { uri, diagnostics };
    if let Err(error) = peer
        .notify("textDocument/publishDiagnostics", &params)
        .wait()
    {
        write_line(format_args!("lsp: diagnostics were not sent: {error}"));
    }
}

fn log(peer: &Peer, message: &str) {
    let params = Log {
        kind: MESSAGE_TYPE_LOG,
        message,
    };
    // This runs on the service's thread, where nothing may wait for room in the outbox.
    if let Err(error) = peer.try_notify("window/logMessage", &params) {
        write_line(format_args!("lsp: {message} ({error})"));
    }
}

/// A diagnostic for each `TODO`.
fn marks(text: &str) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (number, line) in lines(text).enumerate() {
        let mut column = 0;
        let mut rest = line;
        while let Some(at) = rest.find("TODO") {
            let start = column + utf16_len(&rest[..at]);
            let end = start + 4;
            found.push(Diagnostic {
                range: Range::within(number, start, end),
                severity: SEVERITY_WARNING,
                source: "antiphon",
                message: "something is left to do",
            });
            column = end;
            rest = &rest[at + 4..];
        }
    }
    found
}

/// A heading (`# Title`), a class or a function.
fn symbol(number: usize, line: &str) -> Option<Symbol> {
    let indent = line.len() - line.trim_start().len();
    let (keyword, rest) = line.trim_start().split_once(' ')?;
    let (kind, name) = match keyword {
        "#" | "##" | "###" => (SYMBOL_KIND_STRING, rest.trim()),
        "class" | "struct" => (SYMBOL_KIND_CLASS, words(rest).next()?.1),
        "def" | "fn" | "function" => (SYMBOL_KIND_FUNCTION, words(rest).next()?.1),
        _ => return None,
    };
    if name.is_empty() {
        return None;
    }
    let range = Range::within(number, utf16_len(&line[..indent]), utf16_len(line));
    Some(Symbol {
        name: name.to_owned(),
        kind,
        range,
        selection_range: range,
    })
}

/// The lines of a document: LSP ends them by LF, CR LF or CR.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split('\n')
        .map(|line| line.strip_suffix('\r').unwrap_or(line))
        .flat_map(|line| line.split('\r'))
}

/// The words of a line, each with its column.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut column = 0;
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.find(is_word)?;
        column += utf16_len(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let found = (column, &rest[..end]);
        column += utf16_len(found.1);
        rest = &rest[end..];
        Some(found)
    })
}

/// LSP counts columns in UTF-16 code units.
fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidOpen {
    text_document: Document,
}

#[derive(Deserialize)]
struct Document {
    uri: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: Identifier,
    content_changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    text: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    text_document: Identifier,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hovering {
    text_document: Identifier,
    position: Position,
}

#[derive(Deserialize)]
struct Identifier {
    uri: String,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Position {
    line: usize,
    character: usize,
}

#[derive(Clone, Copy, Serialize)]
struct Range {
    start: Position,
    end: Position,
}

impl Range {
    fn within(line: usize, start: usize, end: usize) -> Self {
        let at = |character| Position { line, character };
        Self {
            start: at(start),
            end: at(end),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    capabilities: Capabilities,
    server_info: ServerInfo,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    position_encoding: &'static str,
    text_document_sync: Synchronisation,
    hover_provider: bool,
    document_symbol_provider: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Synchronisation {
    open_close: bool,
    change: u32,
}

#[derive(Serialize)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

impl Default for Initialized {
    fn default() -> Self {
        Self {
            capabilities: Capabilities {
                position_encoding: "utf-16",
                text_document_sync: Synchronisation {
                    open_close: true,
                    // Full synchronisation: each change has the whole document.
                    change: 1,
                },
                hover_provider: true,
                document_symbol_provider: true,
            },
            server_info: ServerInfo {
                name: "antiphon-lsp",
                version: env!("CARGO_PKG_VERSION"),
            },
        }
    }
}

#[derive(Serialize)]
struct Publish<'p> {
    uri: &'p str,
    diagnostics: &'p [Diagnostic],
}

#[derive(Serialize)]
struct Diagnostic {
    range: Range,
    severity: u32,
    source: &'static str,
    message: &'static str,
}

#[derive(Serialize)]
struct Log<'l> {
    #[serde(rename = "type")]
    kind: u32,
    message: &'l str,
}

#[derive(Serialize)]
struct Hover {
    contents: Markup,
    range: Range,
}

#[derive(Serialize)]
struct Markup {
    kind: &'static str,
    value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Symbol {
    name: String,
    kind: u32,
    range: Range,
    selection_range: Range,
}

#[cfg(test)]
mod tests {
    use super::{lines, marks, utf16_len, words};

    #[test]
    fn columns_count_utf16_code_units() {
        let found = marks("é😀 TODO x TODO\r\nTODO\r€TODO");
        let places: Vec<_> = found
            .iter()
            .map(|mark| {
                (
                    mark.range.start.line,
                    mark.range.start.character,
                    mark.range.end.character,
                )
            })
            .collect();
        assert_eq!(places, [(0, 4, 8), (0, 11, 15), (1, 0, 4), (2, 1, 5)]);
        assert_eq!(utf16_len("😀é"), 3);
    }

    #[test]
    fn words_and_lines_are_told_apart() {
        let found: Vec<_> = words("😀 ab_1(ü)").collect();
        assert_eq!(found, [(3, "ab_1"), (8, "ü")]);
        assert_eq!(
            lines("a\r\nb\rc\n").collect::<Vec<_>>(),
            ["a", "b", "c", ""]
        );
    }
}
