//! A small language server with a main loop of its own, on standard input and output.
//!
//! It sends a diagnostic for every document that is opened or changed, answers with a hover, one
//! completion and no definitions, and formats with `rustfmt`. The loop receives each message from an
//! inbox and answers requests; one that takes long could be sent to another thread and be answered
//! there.
//!
//! `cargo run -p antiphon-blocking --example minimal_lsp`

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Display;
use std::io::{Write, stderr};
use std::process::{Command, Stdio, exit};

use antiphon_blocking::{
    Answer, Config, ErrorObject, InboxEvent, Internal, Link, Notification, OwnedError, Peer,
    Request, inbox,
};
use antiphon_lsp::LspPeer;
use antiphon_lsp::types::{
    CompletionItem, CompletionItemKind, CompletionList, CompletionOptions, CompletionRequest,
    Contents, DefinitionProvider, DefinitionRequest, Diagnostic, DiagnosticSeverity,
    DidChangeTextDocumentNotification, DidChangeTextDocumentParams,
    DidOpenTextDocumentNotification, DidOpenTextDocumentParams, DocumentFormattingParams,
    DocumentFormattingProvider, DocumentFormattingRequest, ExitNotification, Hover, HoverProvider,
    HoverRequest, InitializeRequest, InitializeResult, LspNotificationMethod, LspRequestMethod,
    MarkupContent, MarkupKind, Notification as _, Position, PublishDiagnosticsNotification,
    PublishDiagnosticsParams, Range, Request as _, ServerCapabilities, ShutdownRequest,
    TextDocumentContentChangeEvent, TextDocumentSync, TextDocumentSyncKind, TextEdit, Uri,
};

/// Where the server is between `initialize` and `exit`.
#[derive(Clone, Copy, PartialEq)]
enum Phase {
    New,
    Running,
    Stopped,
}

struct Server {
    peer: Peer,
    phase: Phase,
    documents: HashMap<Uri, String>,
}

impl Server {
    fn answer(&mut self, request: &Request) -> Result<Answer, OwnedError> {
        match (self.phase, LspRequestMethod::from(request.method())) {
            (Phase::New, InitializeRequest::METHOD) => {
                self.phase = Phase::Running;
                Ok(initialized().into())
            }
            (Phase::New, _) => Err(Config::lsp().dialect.error_profile.not_initialized().into()),
            (Phase::Stopped, _) | (_, InitializeRequest::METHOD) => {
                Err(ErrorObject::invalid_request().into())
            }
            (_, ShutdownRequest::METHOD) => {
                self.phase = Phase::Stopped;
                Ok(().into())
            }
            (_, DefinitionRequest::METHOD) => Ok([(); 0].into()),
            (_, CompletionRequest::METHOD) => Ok(completion().into()),
            (_, HoverRequest::METHOD) => {
                let value = "Hello from *minimal_lsp*".into();
                let contents = MarkupContent::new(MarkupKind::Markdown, value);
                Ok(Hover::new(Contents::MarkupContent(contents), None).into())
            }
            (_, DocumentFormattingRequest::METHOD) => {
                let asked: DocumentFormattingParams = request.params()?;
                let known = self.documents.get(&asked.text_document.uri);
                let text = known.ok_or("the document is not open").internal()?;
                let formatted = rustfmt(text).internal()?;
                Ok(vec![TextEdit::new(whole(text), formatted)].into())
            }
            _ => Err(request.unknown_method()),
        }
    }

    fn take(&mut self, told: &Notification) -> Result<(), OwnedError> {
        match LspNotificationMethod::from(told.method()) {
            ExitNotification::METHOD => self.peer.drain(),
            _ if self.phase != Phase::Running => {}
            DidOpenTextDocumentNotification::METHOD => {
                let opened: DidOpenTextDocumentParams = told.params()?;
                self.keep(opened.text_document.uri, opened.text_document.text);
            }
            DidChangeTextDocumentNotification::METHOD => {
                let changed: DidChangeTextDocumentParams = told.params()?;
                let uri = changed.text_document.text_document_identifier.uri;
                match changed.content_changes.into_iter().next() {
                    // It is not expected: the capabilities ask for whole documents.
                    Some(TextDocumentContentChangeEvent::TextDocumentContentChangePartial(
                        part,
                    )) => {
                        self.keep(uri, part.text);
                    }
                    Some(
                        TextDocumentContentChangeEvent::TextDocumentContentChangeWholeDocument(
                            whole,
                        ),
                    ) => self.keep(uri, whole.text),
                    None => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Stores a document, and sends a diagnostic for it.
    fn keep(&mut self, uri: Uri, text: String) {
        self.documents.insert(uri.clone(), text);
        let diagnostic = Diagnostic {
            range: Range::new(Position::new(0, 0), Position::new(0, 1)),
            severity: Some(DiagnosticSeverity::Information),
            source: Some("minimal_lsp".into()),
            message: "dummy diagnostic".into(),
            ..Default::default()
        };
        let params = PublishDiagnosticsParams::new(uri, None, vec![diagnostic]);
        if let Err(error) = self
            .peer
            .notification::<PublishDiagnosticsNotification>(&params)
        {
            log(error);
        }
    }
}

fn initialized() -> InitializeResult {
    let capabilities = ServerCapabilities {
        text_document_sync: Some(TextDocumentSync::Kind(TextDocumentSyncKind::Full)),
        completion_provider: Some(CompletionOptions::default()),
        definition_provider: Some(DefinitionProvider::Bool(true)),
        hover_provider: Some(HoverProvider::Bool(true)),
        document_formatting_provider: Some(DocumentFormattingProvider::Bool(true)),
        ..Default::default()
    };
    InitializeResult {
        capabilities,
        server_info: None,
    }
}

fn completion() -> CompletionList {
    let item = CompletionItem {
        label: "HelloFromLSP".into(),
        kind: Some(CompletionItemKind::Function),
        detail: Some("dummy completion".into()),
        ..Default::default()
    };
    CompletionList {
        items: vec![item],
        ..Default::default()
    }
}

fn rustfmt(text: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut command = Command::new("rustfmt");
    command
        .args(["--emit", "stdout"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    // The pipe is closed at the end of this statement, and with it the child's input ends.
    child
        .stdin
        .take()
        .ok_or("there is no input")?
        .write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

/// Returns the range of a whole text.
fn whole(text: &str) -> Range {
    let (lines, last) = (
        text.lines().count(),
        text.lines().last().unwrap_or_default(),
    );
    let (line, end) = (
        lines.saturating_sub(1) as u32,
        last.encode_utf16().count() as u32,
    );
    Range::new(Position::new(0, 0), Position::new(line, end))
}

fn log(line: impl Display) {
    // If the editor has closed standard error, the line is lost.
    drop(writeln!(stderr(), "minimal_lsp: {line}"));
}

fn main() -> Result<(), Box<dyn Error>> {
    let (peer, mut inbox) = inbox(Link::stdio()?, Config::lsp())?;
    let mut server = Server {
        peer,
        phase: Phase::New,
        documents: HashMap::new(),
    };
    while let Some(event) = inbox.recv().wait() {
        match event {
            InboxEvent::Request(request) => {
                let answer = server.answer(&request);
                if let Err(error) = request.answer(answer) {
                    log(error);
                }
            }
            InboxEvent::Notification(told) => {
                // If the params are wrong, a report of it comes from the inbox too.
                let _ = server.take(&told);
            }
            InboxEvent::Report(report) => log(report),
            _ => break,
        }
    }
    exit(i32::from(server.phase != Phase::Stopped));
}
