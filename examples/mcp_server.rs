//! A Model Context Protocol server over standard input and output, one message per line.
//!
//! ```sh
//! cargo run -q --example mcp_server
//! ```
//!
//! It has two tools: `add`, and `wait`, which runs while other calls are served and stops when the
//! client cancels it. The dialect, [`Config::mcp`], refuses batches and null ids. As a server of
//! tools should, it checks arguments before it does anything, and logs every call on standard
//! error. To ask the user before a tool runs is the client's task; a server on a network also
//! follows MCP's authorization rules (OAuth 2).

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use antiphon::{Config, ErrorObject, Json, McpRevision, codes};
use antiphon_blocking::{Answer, OwnedError, Peer, Report, Request, Service, serve_stdio};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The supported revisions, the newest first. Revision 2025-03-26 has batches, so it is not one of them.
const REVISIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];

/// The longest wait, in milliseconds.
const MAX_WAIT: u64 = 60_000;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
struct Wait {
    milliseconds: u64,
}

fn tools() -> Value {
    let number = json!({"type": "number"});
    let span = json!({"type": "integer", "minimum": 0, "maximum": MAX_WAIT});
    json!({"tools": [
        {"name": "add", "description": "Adds two numbers.", "inputSchema": {"type": "object",
            "properties": {"a": number, "b": number}, "required": ["a", "b"]}},
        {"name": "wait", "description": "Waits, and says so.", "inputSchema": {"type": "object",
            "properties": {"milliseconds": span}, "required": ["milliseconds"]}},
    ]})
}

struct Tools;

impl Service for Tools {
    fn request(&mut self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "initialize" => Ok(initialize(request.raw_params()).into()),
            "ping" => Ok(json!({}).into()),
            "tools/list" => Ok(tools().into()),
            "tools/call" => call(request),
            _ => Err(request.unknown_method()),
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        log(format_args!("mcp: {report}"));
    }
}

/// Returns the requested revision, if it is supported; otherwise the newest supported one.
fn initialize(params: Option<Json<'_>>) -> Value {
    let asked = params.and_then(|params| params.get("protocolVersion")?.as_string());
    let is_asked = |known: &&str| asked.is_some_and(|asked| asked.eq_str(known));
    let known = REVISIONS.into_iter().find(is_asked);
    json!({
        "protocolVersion": known.unwrap_or(REVISIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "antiphon-example", "version": env!("CARGO_PKG_VERSION")},
    })
}

fn call(request: &Request) -> Result<Answer, OwnedError> {
    let params = request.raw_params();
    let name = params.and_then(|params| params.get("name")?.as_string());
    let name = name.ok_or_else(ErrorObject::invalid_params)?.to_cow_lossy();
    let arguments = params.and_then(|params| params.get("arguments"));
    match &*name {
        "add" => match checked(&name, arguments, |add: &Add| (add.a + add.b).is_finite()) {
            Some(add) => Ok(text(&(add.a + add.b).to_string()).into()),
            None => Ok(failure("add wants the numbers a and b")),
        },
        "wait" => match checked(&name, arguments, |wait: &Wait| {
            wait.milliseconds <= MAX_WAIT
        }) {
            Some(wait) => Ok(rest(&wait, request)),
            None => Ok(failure("wait wants milliseconds, at most 60000")),
        },
        other => {
            log(format_args!(
                "mcp: audit: {other:?} was called and is no tool"
            ));
            let text = format!("Unknown tool: {other}");
            Err(OwnedError::new(codes::INVALID_PARAMS, text))
        }
    }
}

/// Reads arguments and checks them, and logs the call. The arguments may be private, so only their
/// size is logged.
fn checked<A: DeserializeOwned>(
    tool: &str,
    arguments: Option<Json<'_>>,
    is_good: impl FnOnce(&A) -> bool,
) -> Option<A> {
    let bytes = arguments.map_or(0, |arguments| arguments.as_str().len());
    let good = arguments
        .and_then(|json| json.decode().ok())
        .filter(is_good);
    let verdict = if good.is_some() { "runs" } else { "is refused" };
    log(format_args!(
        "mcp: audit: {tool} with {bytes} bytes of arguments {verdict}"
    ));
    good
}

/// Waits on a thread of the pool, at most until the request is cancelled.
fn rest(wait: &Wait, request: &Request) -> Answer {
    let span = Duration::from_millis(wait.milliseconds);
    request.defer().spawn(move |reply| {
        // If the connection has ended meanwhile, no answer is awaited.
        let _ = match reply.cancellation().wait(span) {
            // The dialect wants no answer; this ends the request.
            true => reply.cancelled(),
            false => reply.ok(&text("waited")),
        };
    });
    Answer::deferred()
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": false})
}

/// An error of a tool is reported to the model as a result, and not as an error of the protocol.
fn failure(text: &str) -> Answer {
    json!({"content": [{"type": "text", "text": text}], "isError": true}).into()
}

fn main() -> Result<(), Box<dyn Error>> {
    serve_stdio(Config::mcp(McpRevision::V2025_11_25), Tools)?;
    Ok(())
}

/// Writes a line to standard error. If that is closed, only the line is lost.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
