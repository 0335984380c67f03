//! A conversation with a language server that is not built on antiphon.
//!
//! ```sh
//! pip install ruff==0.17.5
//! cargo run -q --example lsp_client                   # `ruff server`
//! cargo run -q --example lsp_client -- pylsp          # or any other for Python
//! ```
//!
//! It starts the server, opens a document with an error, waits for the server to find it, asks for
//! a hover, answers the server's own requests, and ends the session in order. Every message is
//! printed with its sender. The exit code is 0 if all of that worked, 1 if the server did something
//! else, and 2 if it could not be started.

use std::fmt::{self, Display};
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;

use antiphon::{Config, Json, OwnedJson};
use antiphon_blocking::{Answer, Child, Notification, OwnedError, Peer, Report, Request, Service};
use serde::Serialize;
use serde_json::json;

/// How long the server may take for anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// `os` is imported and not used, `missing` is not defined, and there is a directive to hover over.
const DOCUMENT: &str = "import os\n\nprint(missing, \"größer\")  # noqa: E501\n";
/// Places to hover over: the directive, which linters explain, and `print`, which others do.
const PLACES: [(u32, u32); 2] = [(2, 37), (2, 2)];

/// The editor's side: answers the server's requests and prints its messages.
struct Editor {
    diagnostics: Sender<OwnedJson>,
}

impl Service for Editor {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let method = request.method();
        said("server", "asks", method, shown(request.raw_params()));
        let answer = match method {
            "workspace/configuration" => {
                let items = request.raw_params().and_then(|params| params.get("items"));
                let nothing = vec![(); items.map_or(0, |items| items.elements().count())];
                Ok(nothing.into())
            }
            "client/registerCapability"
            | "client/unregisterCapability"
            | "window/workDoneProgress/create"
            | "workspace/diagnostic/refresh" => Ok(().into()),
            _ => Err(request.unknown_method()),
        };
        said("client", "answers", method, "");
        answer
    }

    fn notification(&mut self, _: &Peer, notification: Notification) {
        let (method, params) = (notification.method(), notification.raw_params());
        said("server", "tells", method, shown(params));
        if let ("textDocument/publishDiagnostics", Some(params)) = (method, params) {
            let found = params.get("diagnostics").unwrap_or(Json::NULL);
            // The client may have ended already.
            let _ = self.diagnostics.send(found.to_owned_json());
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        said("client", "notes", &report.to_string(), "");
    }
}

/// Prints one step of the conversation on a line.
fn said(who: &str, how: &str, what: &str, detail: impl Display) {
    let detail = detail.to_string();
    let short: String = detail.chars().take(160).collect();
    let more = if short.len() < detail.len() {
        " …"
    } else {
        ""
    };
    print(format_args!("{who} {how:<8} {what}  {short}{more}"));
}

/// The text of params, if there are any.
fn shown(params: Option<Json<'_>>) -> &str {
    params.map_or("", Json::as_str)
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        arguments = vec!["ruff".into(), "server".into()];
    }
    let mut command = Command::new(&arguments[0]);
    command.args(&arguments[1..]);
    let (diagnostics, found) = mpsc::channel();
    let child = match Child::spawn(command, Config::lsp(), Editor { diagnostics }) {
        Ok(child) => child,
        Err(error) => {
            log(format_args!(
                "lsp_client: {error}; `pip install ruff==0.17.5` installs the default server"
            ));
            return ExitCode::from(2);
        }
    };
    match converse(&child, &found) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log(format_args!("lsp_client: {error}"));
            let kept = child.stderr();
            let told = String::from_utf8_lossy(&kept);
            told.lines()
                .for_each(|line| log(format_args!("server's log: {line}")));
            ExitCode::FAILURE
        }
    }
}

fn converse(child: &Child, found: &Receiver<OwnedJson>) -> Result<(), Box<dyn std::error::Error>> {
    let peer = child.peer();
    let root = uri(&std::env::current_dir()?.to_string_lossy());
    let uri = format!("{root}/planted.py");

    let server = ask(peer, "initialize", &initialize(&root))?;
    let offers_hover = server
        .as_json()
        .get("capabilities")
        .and_then(|offers| offers.get("hoverProvider"));
    if offers_hover.is_none() {
        return Err("the server offers no hover".into());
    }
    tell(peer, "initialized", &json!({}))?;
    let opened = json!({"uri": uri, "languageId": "python", "version": 1, "text": DOCUMENT});
    tell(
        peer,
        "textDocument/didOpen",
        &json!({ "textDocument": opened }),
    )?;

    // Some servers first report that they have found nothing yet.
    while !found.recv_timeout(PATIENCE)?.as_str().contains("missing") {}

    let mut explained = false;
    for (line, character) in PLACES {
        let position = json!({"line": line, "character": character});
        let place = json!({"textDocument": {"uri": uri}, "position": position});
        let hover = ask(peer, "textDocument/hover", &place)?;
        let contents = hover.as_json().get("contents");
        explained = contents.is_some_and(|contents| !matches!(contents.as_str(), "\"\"" | "[]"));
        if explained {
            break;
        }
    }
    if !explained {
        return Err("the server has nothing to say to a hover".into());
    }

    said("client", "asks", "shutdown", "");
    let done = peer.call("shutdown", ()).timeout(PATIENCE).raw().wait()?;
    said("server", "answers", "shutdown", done);
    said("client", "tells", "exit", "");
    peer.notify("exit", ()).wait()?;
    match child.wait(PATIENCE)? {
        Some(status) if status.success() => {
            print(format_args!("server exits    with {status}"));
            Ok(())
        }
        Some(status) => Err(format!("the server ended with {status}").into()),
        None => Err("the server does not end".into()),
    }
}

fn ask(
    peer: &Peer,
    method: &str,
    params: &impl Serialize,
) -> Result<OwnedJson, Box<dyn std::error::Error>> {
    said("client", "asks", method, OwnedJson::from_value(params)?);
    let result = peer
        .call(method, params)
        .timeout(PATIENCE)
        .raw()
        .wait()
        .map_err(|error| format!("{method}: {error}"))?;
    said("server", "answers", method, &result);
    Ok(result)
}

fn tell(
    peer: &Peer,
    method: &str,
    params: &impl Serialize,
) -> Result<(), Box<dyn std::error::Error>> {
    said("client", "tells", method, OwnedJson::from_value(params)?);
    Ok(peer.notify(method, params).wait()?)
}

/// Returns the capabilities of this editor, chosen so that servers have something to ask.
fn initialize(root: &str) -> serde_json::Value {
    json!({
        "processId": std::process::id(),
        "clientInfo": {"name": "antiphon lsp_client"},
        "rootUri": root,
        "workspaceFolders": [{"uri": root, "name": "here"}],
        "capabilities": {
            "general": {"positionEncodings": ["utf-16"]},
            "textDocument": {
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "publishDiagnostics": {"relatedInformation": true},
            },
            "window": {"workDoneProgress": true},
            "workspace": {
                "configuration": true,
                "didChangeConfiguration": {"dynamicRegistration": true},
                "didChangeWatchedFiles": {"dynamicRegistration": true},
                "workspaceFolders": true,
            },
        },
    })
}

/// A directory as a URI.
fn uri(path: &str) -> String {
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Writes a line to standard output. If that is closed, only the line is lost.
fn print(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stdout(), "{line}");
}
