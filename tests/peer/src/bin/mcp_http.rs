//! A client of a Model Context Protocol server over HTTP: `mcp_http RUNTIME URL TOOL ARGUMENTS`, where the tool
//! reports its progress before its answer. Prints `ok` and how many steps it has heard before the answer.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use antiphon::{Config, Json, McpRevision, OwnedJson};
use antiphon_blocking::{Client, ClientConfig, ConnectError};
use antiphon_peer::log::say;
use antiphon_peer::on_tasks::Executor;
use antiphon_peer::runtime::Runtime;
use serde::Deserialize;

const INITIALIZE: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"interop","version":"1"}}"#;

#[derive(Deserialize)]
struct Step {
    progress: f64,
}

/// How long a step takes at least: two of them cannot come in one read.
const STEP: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    let printed = run().and_then(|line| Ok(writeln!(io::stdout(), "{line}")?));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, url, tool, arguments] = &words[..] else {
        return Err("mcp_http RUNTIME URL TOOL ARGUMENTS".into());
    };
    let runtime = Runtime::named(runtime).ok_or("there is no such runtime")?;
    let executor = runtime.start()?;
    let _entered = match &executor {
        Some(Executor::Tokio(runtime)) => Some(runtime.enter()),
        _ => None,
    };
    let open = |options: ClientConfig| -> Result<Client, ConnectError> {
        match &executor {
            None => antiphon_blocking::connect(url, options, ()),
            Some(executor) => executor.block_on(async {
                match runtime {
                    Runtime::Tokio => antiphon_tokio::connect(url.as_str(), options, ()).await,
                    _ => antiphon_async_std::connect(url.as_str(), options, ()).await,
                }
            }),
        }
    };
    let options = || ClientConfig::from(Config::mcp(McpRevision::V2025_11_25));
    let session = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&session);
    let hello = open(options().with_on_reply(move |reply| {
        let id = reply.headers.get("mcp-session-id").map(str::to_owned);
        *seen.lock().expect("nobody panics under it") = id;
    }))?;
    let _: OwnedJson = hello
        .call("initialize", Json::parse_str(INITIALIZE)?)
        .wait()?;
    let mut options = options().with_header("mcp-protocol-version", "2025-11-25");
    options.max_http_connections = 1;
    if let Some(id) = session.lock().expect("nobody panics under it").take() {
        options = options.with_header("mcp-session-id", id);
    }
    let client = open(options)?;
    client.notify("notifications/initialized", ()).wait()?;
    let tools: OwnedJson = client.call("tools/list", ()).wait()?;
    if !tools.as_str().contains(tool.as_str()) {
        return Err(format!("it has no tool {tool}: {tools:?}").into());
    }
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    let mut heard = Vec::new();
    let call = client.call::<OwnedJson>("tools/call", Json::parse_str(&params)?);
    let call = call.progress(|step: Step| heard.push((step.progress, Instant::now())));
    let result = call.wait()?;
    let answered = Instant::now();
    if !result.as_str().contains("content") {
        return Err(format!("no result of a tool: {result:?}").into());
    }
    let first = heard.first().ok_or("no progress was heard")?;
    if answered - first.1 < STEP || !heard.is_sorted_by(|a, b| a.0 < b.0) {
        return Err("the steps came with the answer, or out of order".into());
    }
    Ok(format!("ok {}", heard.len()))
}
