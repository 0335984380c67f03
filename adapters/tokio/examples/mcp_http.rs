//! An MCP server over HTTP with one tool, which reports progress, without a crate for MCP: what its revisions demand of
//! statuses and headers are rules of the endpoint.
//!
//! `cargo run -p antiphon-tokio --features http --example mcp_http [ADDRESS]`

use std::env;
use std::io::{self, Write, stderr};

use antiphon_tokio::http::{Web, WebRules};
use antiphon_tokio::{Config, ErrorObject, McpRevision, OwnedError, Progress, Router, TcpServer};
use serde::Deserialize;
use serde_json::{Value, json};

const REVISION: McpRevision = McpRevision::V2025_11_25;

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

fn tools() -> Value {
    let number = json!({"type": "number"});
    let schema = json!({
        "type": "object", "required": ["a", "b"], "properties": {"a": number, "b": number},
    });
    json!([{"name": "add", "description": "Adds two numbers.", "inputSchema": schema}])
}

async fn add(name: String, arguments: Value, done: Progress<Value>) -> Result<Value, OwnedError> {
    if name != "add" {
        return Err(ErrorObject::invalid_params().into_owned());
    }
    // If the client asked for progress, the reply is a stream of events: this, and then the result.
    drop(done.send(&json!({"progress": 1, "total": 2})));
    // What is wrong with arguments is told to the model, which may call again.
    let (text, is_error) = match serde_json::from_value::<Add>(arguments) {
        Ok(Add { a, b }) => ((a + b).to_string(), false),
        Err(error) => (error.to_string(), true),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let router = Router::new()
        .method("initialize", [], || {
            let server = json!({"name": "antiphon-example", "version": "1.0.0"});
            let revision = REVISION.as_str();
            Ok::<_, OwnedError>(json!({
                "protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": server,
            }))
        })
        .method("ping", [], || Ok::<_, OwnedError>(json!({})))
        .method("tools/list", [], || {
            Ok::<_, OwnedError>(json!({"tools": tools()}))
        })
        .method("tools/call", ["name", "arguments"], add)
        .notification("notifications/initialized", [], || {});
    let mut rules = WebRules::mcp(REVISION);
    rules.paths.push("/mcp".into());
    let web = Web::new(Config::mcp(REVISION), router.into_make_service()).rules(rules);
    let address = env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    let server = TcpServer::bind(&address).await?;
    writeln!(stderr(), "listening http://{}/mcp", server.local_addr())?;
    server.start_web(web).wait().await;
    Ok(())
}
