//! A Model Context Protocol server over standard input and output, one message a line.
//!
//! ```sh
//! cargo run -q --example mcp_server
//! ```
//!
//! Two tools: `add`, and `wait`, which takes its time beside all others and stops when the client
//! cancels it. Batches and null ids are refused by the dialect, [`Config::mcp`]. What a server of tools
//! owes its users: arguments are checked before anything is done, and every call leaves a line in
//! the log, on standard error. To ask the user before a tool runs is the client's part; a server on
//! a network follows MCP's authorization rules (OAuth 2) first.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use antiphon::{Config, ErrorObject, Json, McpRevision, SendError, codes};
use antiphon_blocking::{Peer, Report, Request, Responder, Service, serve_stdio};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The revisions whose handshake is spoken here, the newest first.
const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

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
    fn request(&mut self, _: &Peer, request: Request, reply: Responder) {
        let answered = match request.method() {
            "initialize" => reply.ok(&initialize(request.params())),
            "ping" => reply.ok(&json!({})),
            "tools/list" => reply.ok(&tools()),
            "tools/call" => call(&request, reply),
            other => reply.unknown_method(other),
        };
        if let Err(error) = answered {
            log(format_args!(
                "mcp: {} was not answered: {error}",
                request.method()
            ));
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        log(format_args!("mcp: {report}"));
    }
}

/// The revision asked for, if it is spoken here; otherwise the newest that is.
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

fn call(request: &Request, reply: Responder) -> Result<(), SendError> {
    let params = request.params();
    let name = params.and_then(|params| params.get("name")?.as_string());
    let Some(name) = name.map(|name| name.to_cow_lossy().into_owned()) else {
        return reply.err(&ErrorObject::invalid_params());
    };
    let arguments = params.and_then(|params| params.get("arguments"));
    match &*name {
        "add" => match checked(&name, arguments, |add: &Add| (add.a + add.b).is_finite()) {
            Some(add) => say(reply, &(add.a + add.b).to_string(), false),
            None => say(reply, "add wants the numbers a and b", true),
        },
        "wait" => match checked(&name, arguments, |wait: &Wait| {
            wait.milliseconds <= MAX_WAIT
        }) {
            Some(wait) => {
                reply.spawn(move |reply| rest(&wait, reply));
                Ok(())
            }
            None => say(reply, "wait wants milliseconds, at most 60000", true),
        },
        other => {
            log(format_args!(
                "mcp: audit: {other:?} was called and is no tool"
            ));
            let text = format!("Unknown tool: {other}");
            reply.err(&ErrorObject::new(codes::INVALID_PARAMS, text))
        }
    }
}

/// Reads arguments and checks them; leaves a line for those who look after the server. What the
/// arguments say may be private, so only their size is told.
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

fn rest(wait: &Wait, reply: Responder) {
    let span = Duration::from_millis(wait.milliseconds);
    let answered = match reply.wait_cancelled(span) {
        // The dialect wants no answer; this lets the request go.
        true => reply.cancelled(),
        false => say(reply, "waited", false),
    };
    if let Err(error) = answered {
        log(format_args!("mcp: wait was not answered: {error}"));
    }
}

/// A tool's result. What goes wrong in a tool is told to the model, not to the protocol.
fn say(reply: Responder, text: &str, is_error: bool) -> Result<(), SendError> {
    reply.ok(&json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
}

fn main() -> Result<(), Box<dyn Error>> {
    serve_stdio(Config::mcp(McpRevision::V2025_11_25), Tools)?;
    Ok(())
}

/// Writes a line to standard error. If that is closed, the line is lost and nothing else.
fn log(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
