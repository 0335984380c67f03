//! An MCP server with three tools, on standard input and output.
//!
//! `add` and `count_words` answer at once. `wait` takes long, reports its progress to a client that
//! asks for it, and stops when it is cancelled. Each tool has a type for its arguments: the tool's
//! schema is made from it, and arguments are checked with it before they are used. Each call is
//! logged on standard error, with the tool's name, the size of its arguments and how it ended, but
//! never with their content.
//!
//! `cargo run -p antiphon-tokio --features openrpc --example mcp_tools`

use std::fmt::Display;
use std::io::{Write, stderr};
use std::time::Duration;

use antiphon_tokio::service::SchemaOf;
use antiphon_tokio::{
    Config, Internal, Json, McpRevision, OwnedError, OwnedJson, Params, Peer, Progress, Report,
    Router, serve_stdio,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The revisions of MCP that this server supports, the newest first. Only 2025-03-26 has batches.
const REVISIONS: [McpRevision; 3] = [
    McpRevision::V2025_11_25,
    McpRevision::V2025_06_18,
    McpRevision::V2025_03_26,
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Add {
    /// One number.
    a: f64,
    /// The other.
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// Words are separated by blanks.
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wait {
    /// How long.
    milliseconds: u64,
}

struct Tool {
    name: &'static str,
    description: &'static str,
    takes: SchemaOf,
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "add",
        description: "Adds two numbers",
        takes: SchemaOf::of::<Add>(),
    },
    Tool {
        name: "count_words",
        description: "Counts the words of a text",
        takes: SchemaOf::of::<CountWords>(),
    },
    Tool {
        name: "wait",
        description: "Waits",
        takes: SchemaOf::of::<Wait>(),
    },
];

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: String,
}

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    arguments: Option<OwnedJson>,
}

/// A progress value.
#[derive(Serialize)]
struct Done {
    progress: u64,
    total: u64,
    message: String,
}

fn initialize(Params(asked): Params<Initialize>, peer: Peer) -> Result<Value, OwnedError> {
    let known = McpRevision::of(&asked.protocol_version);
    let revision = known.filter(|known| REVISIONS.contains(known));
    let revision = revision.unwrap_or(REVISIONS[0]);
    peer.set_dialect(Config::mcp(revision).dialect);
    Ok(json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcp_tools", "version": "1.0.0"},
    }))
}

fn list() -> Result<Value, OwnedError> {
    let described = TOOLS.iter().map(|tool| {
        let schema = tool.takes.to_json().internal()?;
        Ok(json!({"name": tool.name, "description": tool.description, "inputSchema": schema}))
    });
    let tools: Vec<Value> = described.collect::<Result<_, OwnedError>>()?;
    Ok(json!({"tools": tools}))
}

async fn call(
    Params(call): Params<ToolCall>,
    progress: Progress<Done>,
) -> Result<Value, OwnedError> {
    let given = call
        .arguments
        .as_ref()
        .map_or(Json::NULL, OwnedJson::as_json);
    log(format_args!(
        "{:?} with {} bytes",
        call.name,
        given.as_str().len()
    ));
    let mut audit = Audit(&call.name, "was given up");
    let said = match &*call.name {
        "add" => add(given),
        "count_words" => count_words(given),
        "wait" => wait(given, &progress).await,
        _ => {
            audit.1 = "is unknown";
            return Err(OwnedError::new(-32602, "unknown tool"));
        }
    };
    let is_error = said.is_err();
    audit.1 = if is_error { "has failed" } else { "is done" };
    let text = said.unwrap_or_else(|why| why);
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
}

/// Logs how a call has ended, even if its future is dropped because it was cancelled.
struct Audit<'c>(&'c str, &'static str);

impl Drop for Audit<'_> {
    fn drop(&mut self) {
        log(format_args!("{:?} {}", self.0, self.1));
    }
}

/// Returns the arguments in a tool's own type, or why they do not fit.
fn arguments<'a, T: Deserialize<'a>>(given: Json<'a>) -> Result<T, String> {
    let wrong = |error: antiphon_tokio::DecodeError| format!("wrong arguments: {}", error.detail());
    given.decode().map_err(wrong)
}

fn add(given: Json<'_>) -> Result<String, String> {
    let Add { a, b } = arguments(given)?;
    Ok((a + b).to_string())
}

fn count_words(given: Json<'_>) -> Result<String, String> {
    let CountWords { text } = arguments(given)?;
    Ok(text.split_whitespace().count().to_string())
}

/// If the call is cancelled, this future is dropped.
async fn wait(given: Json<'_>, done: &Progress<Done>) -> Result<String, String> {
    let Wait { milliseconds } = arguments(given)?;
    for tenth in 0..10 {
        let message = format!("{} ms of {milliseconds}", milliseconds / 10 * tenth);
        // If the client does not read, the step is lost.
        drop(done.send(&Done {
            progress: tenth,
            total: 10,
            message,
        }));
        tokio::time::sleep(Duration::from_millis(milliseconds) / 10).await;
    }
    Ok(format!("waited {milliseconds} ms"))
}

fn log(line: impl Display) {
    // If the client has closed standard error, the line is lost.
    drop(writeln!(stderr(), "mcp_tools: {line}"));
}

#[tokio::main]
async fn main() {
    if std::env::args().len() > 1 {
        log("usage: mcp_tools (on standard input and output)");
        std::process::exit(2);
    }
    let router = Router::new()
        .method("initialize", [], initialize)
        .notification("notifications/initialized", [], || ())
        .method("ping", [], || Ok::<_, OwnedError>(json!({})))
        .method("tools/list", [], |Params(_): Params<Value>| list())
        .method("tools/call", [], call)
        .on_report(|_, report| match report {
            // An error of the transport is printed below.
            Report::Transport(_) => {}
            report => log(report),
        });
    if let Err(error) = serve_stdio(Config::mcp(McpRevision::V2025_11_25), router).await {
        log(error);
        std::process::exit(1);
    }
}
