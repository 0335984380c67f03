//! A language server for plain text, on standard input and output.
//!
//! - A hover shows how often the word under the cursor occurs in its document.
//! - The editor sends changes of ranges, so they have to be applied in the order in which they come.
//! - `words.count` (`workspace/executeCommand`) takes long, reports its progress, and stops when it
//!   is cancelled.
//! - The server asks the editor for the setting `words.ignoreCase` (`workspace/configuration`).
//!
//! `cargo run -p antiphon-tokio --example lsp_server`

use std::collections::HashMap;
use std::fmt::Display;
use std::io::{Write, stderr};
use std::process::exit;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use antiphon_lsp::types::{
    ConfigurationItem, ConfigurationParams, ConfigurationRequest, Contents,
    DidChangeConfigurationNotification, DidCloseTextDocumentNotification,
    DidOpenTextDocumentNotification, ExecuteCommandOptions, ExecuteCommandParams,
    ExecuteCommandRequest, Hover, HoverParams, HoverProvider, HoverRequest, InitializeParams,
    InitializeRequest, InitializeResult, InitializedNotification, LspAny, MarkupContent,
    MarkupKind, Position, Range, Request, ServerCapabilities, ServerInfo, TextDocumentIdentifier,
    TextDocumentSyncKind, TextDocumentSyncOptions, Uri,
};
use antiphon_lsp::{LanguageServer, WorkDone};
use antiphon_tokio::{
    Config, ErrorObject, OwnedError, Params, Report, RequestContext, Router, State, serve_stdio,
};
use serde::Deserialize;

/// The params of `didChange`. A change without a range replaces the whole text; an invalid range is
/// an error.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DidChange {
    text_document: TextDocumentIdentifier,
    content_changes: Vec<Change>,
}

#[derive(Deserialize)]
struct Change {
    range: Option<Range>,
    text: String,
}

#[derive(Default)]
struct Words {
    /// Whether the editor can be asked for its settings.
    has_settings: bool,
    ignore_case: bool,
    documents: HashMap<Uri, String>,
}

type Shared = Arc<Mutex<Words>>;
type Context = RequestContext<Shared>;

fn words_of(call: &Context) -> MutexGuard<'_, Words> {
    call.state().lock().unwrap()
}

async fn initialize(said: InitializeParams, call: Context) -> Result<InitializeResult, OwnedError> {
    let workspace = said.capabilities.workspace.unwrap_or_default();
    words_of(&call).has_settings = workspace.configuration == Some(true);
    let changes = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::Incremental),
        ..Default::default()
    };
    let commands = vec!["words.count".into()];
    let capabilities = ServerCapabilities {
        text_document_sync: Some(changes.into()),
        hover_provider: Some(HoverProvider::Bool(true)),
        execute_command_provider: Some(ExecuteCommandOptions::new(commands, Default::default())),
        ..Default::default()
    };
    let server_info = Some(ServerInfo::new("lsp_server".into(), None));
    Ok(InitializeResult {
        capabilities,
        server_info,
    })
}

/// Asks the editor for its settings. Later messages wait until this notification handler has ended.
async fn configure(call: Context) -> Result<(), OwnedError> {
    if !words_of(&call).has_settings {
        return Ok(());
    }
    let item = ConfigurationItem::new(None, Some("words.ignoreCase".into()));
    let (peer, asked) = (call.peer(), ConfigurationParams::new(vec![item]));
    let method = ConfigurationRequest::METHOD.as_str();
    match peer.call::<[Option<bool>; 1]>(method, &asked).await {
        Ok([ignore]) => words_of(&call).ignore_case = ignore.unwrap_or(false),
        Err(error) => log(format_args!("no configuration: {error}")),
    }
    Ok(())
}

fn change(Params(said): Params<DidChange>, State(words): State<Shared>) {
    let documents = &mut words.lock().unwrap().documents;
    if let Some(text) = documents.get_mut(&said.text_document.uri) {
        said.content_changes
            .into_iter()
            .for_each(|change| apply(text, change));
    }
}

async fn hover(asked: HoverParams, call: Context) -> Result<Option<Hover>, OwnedError> {
    let (at, words) = (asked.text_document_position_params, words_of(&call));
    let document = words.documents.get(&at.text_document.uri);
    let found = document.and_then(|text| Some((text, word_at(text, offset(text, at.position))?)));
    Ok(found.map(|(text, word)| {
        let same = |other: &&str| match words.ignore_case {
            true => other.to_lowercase() == word.to_lowercase(),
            false => *other == word,
        };
        let value = format!("{word}: {}", words_in(text).filter(same).count());
        let contents = MarkupContent::new(MarkupKind::PlainText, value);
        Hover::new(Contents::MarkupContent(contents), None)
    }))
}

/// Counts the words of all documents, line by line, slowly.
async fn execute(asked: ExecuteCommandParams, call: Context) -> Result<Option<LspAny>, OwnedError> {
    if asked.command != "words.count" {
        return Err(ErrorObject::invalid_params().into());
    }
    let documents = words_of(&call).documents.clone();
    let lines: Vec<&str> = documents.values().flat_map(|text| text.lines()).collect();
    // The progress ends when `work` is dropped, also if the request is cancelled.
    let work = WorkDone::begin(&call, "Counting words").await;
    let mut total = 0;
    for (done, line) in lines.iter().enumerate() {
        work.report(None, u32::try_from(100 * done / lines.len()).ok());
        tokio::time::sleep(Duration::from_millis(10)).await;
        total += words_in(line).count();
    }
    Ok(Some(total.into()))
}

fn server() -> LanguageServer<Shared> {
    let router = Router::with_state(Shared::default())
        .notification("textDocument/didChange", [], change)
        .on_report(|_, report| match report {
            // `main` prints an error of the transport.
            Report::Transport(_) => {}
            report => log(report),
        });
    LanguageServer::from(router)
        .on::<InitializeRequest>(initialize)
        .on_notification::<InitializedNotification>(|_, call| configure(call))
        .on_notification::<DidChangeConfigurationNotification>(|_, call| configure(call))
        .on_notification::<DidOpenTextDocumentNotification>(|said, call| async move {
            let document = said.text_document;
            words_of(&call)
                .documents
                .insert(document.uri, document.text);
            Ok(())
        })
        .on_notification::<DidCloseTextDocumentNotification>(|said, call| async move {
            words_of(&call).documents.remove(&said.text_document.uri);
            Ok(())
        })
        .on::<HoverRequest>(hover)
        .on::<ExecuteCommandRequest>(execute)
}

fn log(line: impl Display) {
    // If the editor has closed standard error, the line is lost.
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

fn words_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

fn word_at(text: &str, offset: usize) -> Option<&str> {
    let (before, after) = text.split_at(offset);
    let start = before.trim_end_matches(char::is_alphanumeric).len();
    let end = text.len() - after.trim_start_matches(char::is_alphanumeric).len();
    Some(&text[start..end]).filter(|word| !word.is_empty())
}

/// Returns the byte offset of a position in a text. A position after the end of its line means the
/// end of the line.
fn offset(text: &str, position: Position) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(position.line as usize)
        .map(str::len)
        .sum();
    let line = text[start..].lines().next().unwrap_or("");
    let mut units = 0;
    for (at, c) in line.char_indices() {
        if units >= position.character as usize {
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
    let server = server();
    match serve_stdio(Config::lsp(), server.clone()).await {
        Ok(_) if server.exit_code() == 0 => exit(0),
        Ok(_) => log("the editor left without `shutdown`"),
        Err(error) => log(error),
    }
    exit(1);
}
