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
use std::thread::sleep;
use std::time::Duration;

use antiphon_lsp::types::{
    ConfigurationItem, ConfigurationParams, ConfigurationRequest, Contents,
    DidChangeConfigurationNotification, DidChangeTextDocumentNotification,
    DidChangeTextDocumentParams, DidCloseTextDocumentNotification, DidOpenTextDocumentNotification,
    ExecuteCommandOptions, ExecuteCommandParams, ExecuteCommandRequest, Hover, HoverParams,
    HoverProvider, HoverRequest, InitializeParams, InitializeRequest, InitializeResult,
    InitializedNotification, LspAny, MarkupContent, MarkupKind, PositionEncodingKind, Request,
    ServerCapabilities, ServerInfo, TextDocumentSyncKind, TextDocumentSyncOptions, Uri,
};
use antiphon_lsp::{LanguageServer, WorkDone, apply_changes, offset};
use antiphon_tokio::{
    Config, ErrorObject, OwnedError, Report, RequestContext, Router, serve_stdio,
};

#[derive(Default)]
struct Words {
    /// Whether the editor can be asked for its settings.
    has_settings: bool,
    ignore_case: bool,
    documents: HashMap<Uri, String>,
}

/// What the editor counts the characters of a line in, because the server asks for nothing else.
const UTF16: &PositionEncodingKind = &PositionEncodingKind::UTF16;

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

/// How long the editor has to answer.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Asks the editor for its settings. Later messages wait until this notification handler has ended, so it
/// does not wait for long.
async fn configure(call: Context) -> Result<(), OwnedError> {
    if !words_of(&call).has_settings {
        return Ok(());
    }
    let item = ConfigurationItem::new(None, Some("words.ignoreCase".into()));
    let (peer, asked) = (call.peer(), ConfigurationParams::new(vec![item]));
    let method = ConfigurationRequest::METHOD.as_str();
    let call_editor = peer.call::<[Option<bool>; 1]>(method, &asked);
    match call_editor.timeout(MAX_WAIT).await {
        Ok([ignore]) => words_of(&call).ignore_case = ignore.unwrap_or(false),
        Err(error) => log(format_args!("no configuration: {error}")),
    }
    Ok(())
}

async fn change(said: DidChangeTextDocumentParams, call: Context) -> Result<(), OwnedError> {
    let id = said.text_document.text_document_identifier;
    match words_of(&call).documents.get_mut(&id.uri) {
        Some(text) => apply_changes(text, &said.content_changes, UTF16),
        None => Ok(()),
    }
}

async fn hover(asked: HoverParams, call: Context) -> Result<Option<Hover>, OwnedError> {
    let (at, words) = (asked.text_document_position_params, words_of(&call));
    let document = words.documents.get(&at.text_document.uri);
    let found =
        document.and_then(|text| Some((text, word_at(text, offset(text, at.position, UTF16))?)));
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
    // The progress ends when `work` is dropped, also if the request is cancelled.
    let work = WorkDone::begin(&call, "Counting words").await;
    let steps = work.steps();
    // On a thread of the pool, so that the server goes on meanwhile.
    let counted = call.on_pool(move |cancellation| {
        let lines: Vec<&str> = documents.values().flat_map(|text| text.lines()).collect();
        let mut total = 0;
        for (done, line) in lines.iter().enumerate() {
            // A cancel cannot stop a thread.
            if cancellation.is_cancelled() {
                break;
            }
            steps.report(None, u32::try_from(100 * done / lines.len()).ok());
            sleep(Duration::from_millis(10));
            total += words_in(line).count();
        }
        total
    });
    Ok(Some(counted.await?.into()))
}

fn server() -> LanguageServer<Shared> {
    let router = Router::with_state(Shared::default()).on_report(|_, report| match report {
        // `main` prints an error of the transport.
        Report::Transport(_) => {}
        report => log(report),
    });
    LanguageServer::from(router)
        .on::<InitializeRequest>(initialize)
        .on_notification::<InitializedNotification>(|_, call| configure(call))
        .on_notification::<DidChangeConfigurationNotification>(|_, call| configure(call))
        .on_notification::<DidChangeTextDocumentNotification>(change)
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
