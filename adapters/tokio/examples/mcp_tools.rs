//! An MCP server with three tools, on standard input and output.
//!
//! `add` and `count_words` answer at once, `wait` takes its time and stops when it is cancelled.
//! Arguments are checked before they are used. Each call is logged on standard error, with the
//! tool's name and the size of its arguments.
//!
//! `cargo run -p antiphon-tokio --example mcp_tools`

use std::io::{Write, stderr};
use std::time::Duration;

use antiphon_tokio::{
    Answer, Config, McpRevision, OwnedError, Peer, Report, Request, Service, serve_stdio,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

#[derive(Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountWords {
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    milliseconds: u64,
}

struct Tools;

impl Service for Tools {
    async fn request(&self, _: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "initialize" => {
                let asked: Value = request.params()?;
                let known = REVISIONS
                    .into_iter()
                    .find(|known| asked["protocolVersion"] == *known);
                Ok(json!({
                    "protocolVersion": known.unwrap_or(REVISIONS[0]),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "mcp_tools", "version": "1.0.0"},
                })
                .into())
            }
            "ping" => Ok(json!({}).into()),
            "tools/list" => Ok(json!({"tools": list()}).into()),
            "tools/call" => {
                let call: ToolCall = request.params()?;
                let (name, size) = (&call.name, call.arguments.to_string().len());
                drop(writeln!(stderr(), "mcp_tools: {name:?} with {size} bytes"));
                let said = match &*call.name {
                    "add" => add(call.arguments),
                    "count_words" => count_words(call.arguments),
                    "wait" => wait(call.arguments).await,
                    _ => return Err(OwnedError::new(-32602, "unknown tool")),
                };
                let is_error = said.is_err();
                let text = said.unwrap_or_else(|why| why);
                let content = json!([{"type": "text", "text": text}]);
                Ok(json!({"content": content, "isError": is_error}).into())
            }
            _ => Err(request.unknown_method()),
        }
    }

    fn report(&self, _: &Peer, report: Report) {
        // A transport that fails is told by `main`.
        if !matches!(report, Report::Transport(_)) {
            drop(writeln!(stderr(), "mcp_tools: {report}"));
        }
    }
}

fn list() -> Value {
    let tool = |name: &str, description: &str, properties: Value| {
        let required: Vec<_> = properties
            .as_object()
            .into_iter()
            .flat_map(|map| map.keys())
            .collect();
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        });
        json!({"name": name, "description": description, "inputSchema": schema})
    };
    let number = json!({"type": "number"});
    json!([
        tool("add", "Adds two numbers", json!({"a": number, "b": number})),
        tool(
            "count_words",
            "Counts the words of a text",
            json!({"text": {"type": "string"}})
        ),
        tool(
            "wait",
            "Waits",
            json!({"milliseconds": {"type": "integer", "minimum": 0}})
        ),
    ])
}

/// The arguments in a tool's own type, or why they are not that.
fn arguments<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
    serde_json::from_value(arguments).map_err(|error| format!("wrong arguments: {error}"))
}

fn add(given: Value) -> Result<String, String> {
    let Add { a, b } = arguments(given)?;
    Ok((a + b).to_string())
}

fn count_words(given: Value) -> Result<String, String> {
    let CountWords { text } = arguments(given)?;
    Ok(text.split_whitespace().count().to_string())
}

/// A cancelled call drops this future where it waits.
async fn wait(given: Value) -> Result<String, String> {
    let Wait { milliseconds } = arguments(given)?;
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    Ok(format!("waited {milliseconds} ms"))
}

#[tokio::main]
async fn main() {
    if std::env::args().len() > 1 {
        drop(writeln!(stderr(), "usage: mcp_tools (on stdin and stdout)"));
        std::process::exit(2);
    }
    if let Err(error) = serve_stdio(Config::mcp(McpRevision::V2025_11_25), Tools).await {
        drop(writeln!(stderr(), "mcp_tools: {error}"));
        std::process::exit(1);
    }
}
