//! A typed client of a Model Context Protocol server, over its stdin and stdout: `mcp_client COMMAND ARGS…`.
//!
//! It leaves out what is optional, as servers demand that validate strictly: an argument that is `None`
//! is not sent as `null`. In the end it cancels a tool that runs, and ends the server, which has to exit by
//! itself. Prints `ok` and how many checks it made.

use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use antiphon::{Config, Json, McpRevision, NotificationOk, OwnedError, OwnedJson};
use antiphon_blocking::{CallError, Child, service};
use antiphon_peer::log::write_line;
use serde::{Deserialize, Serialize};

#[derive(Serialize)]
struct Nothing {}

#[derive(Serialize)]
struct Name {
    name: &'static str,
    version: &'static str,
}

#[derive(Deserialize)]
struct Tools {
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    name: String,
}

/// How long the server may take to exit after the end of its input.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the slow tool runs before it is cancelled.
const PATIENCE: Duration = Duration::from_millis(300);

/// The slow tools of the servers that are tried, with arguments. The first is of server-everything, which
/// runs it to its end although it is cancelled, and only then exits.
const SLOW: [(&str, &str); 2] = [
    (
        "trigger-long-running-operation",
        r#"{"duration":1,"steps":2}"#,
    ),
    ("wait", r#"{"seconds":20}"#),
];

#[service(server = false, rename_all = "camelCase")]
trait Mcp {
    fn initialize(
        &self,
        protocol_version: String,
        capabilities: Nothing,
        client_info: Name,
        #[rpc(name = "_meta")] meta: Option<OwnedJson>,
    ) -> Result<OwnedJson, OwnedError>;
    #[rpc(name = "notifications/initialized")]
    fn initialized(&self, #[rpc(name = "_meta")] meta: Option<OwnedJson>) -> NotificationOk;
    #[rpc(name = "tools/list")]
    fn tools(&self, cursor: Option<String>) -> Result<Tools, OwnedError>;
    #[rpc(name = "tools/call")]
    fn call(
        &self,
        name: String,
        arguments: Option<OwnedJson>,
        #[rpc(name = "_meta")] meta: Option<OwnedJson>,
    ) -> Result<OwnedJson, OwnedError>;
    fn ping(&self, #[rpc(name = "_meta")] meta: Option<OwnedJson>)
    -> Result<OwnedJson, OwnedError>;
}

fn main() -> ExitCode {
    match run() {
        Ok(checks) => {
            // Without a reader there is nobody to tell.
            let _ = writeln!(io::stdout(), "ok {checks}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            write_line(format_args!("mcp_client: {error}"));
            ExitCode::from(1)
        }
    }
}

fn run() -> Result<usize, Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next().ok_or("usage: mcp_client COMMAND ARGS…")?);
    command.args(words);
    let config = Config::mcp(McpRevision::V2025_11_25);
    let child = Child::spawn(command, config, ())?;
    let server = McpClient::new(child.peer().clone());
    let name = Name {
        name: "antiphon",
        version: "1",
    };
    let revision = String::from("2025-11-25");
    server.initialize(revision, Nothing {}, name, None).wait()?;
    server.initialized(None).wait()?;
    server.ping(None).wait()?;
    let tools = server.tools(None).wait()?.tools;
    if !has(&tools, "echo") {
        return Err("the server has no tool echo".into());
    }
    let hello = OwnedJson::from(Json::parse_str(r#"{"message":"hello"}"#)?);
    let said = server.call("echo".into(), Some(hello), None).wait()?;
    if !said.as_str().contains("hello") {
        return Err(format!("echo said {said}").into());
    }
    // Without arguments the server refuses the call, or answers that the tool failed; it understands it.
    let refused = server.call("echo".into(), None, None).wait();
    if refused.is_ok_and(|said| !said.as_str().contains(r#""isError":true"#)) {
        return Err("echo ran without arguments".into());
    }
    let slow = SLOW.into_iter().find(|(name, _)| has(&tools, name));
    let (name, arguments) = slow.ok_or("the server has no slow tool")?;
    let arguments = OwnedJson::from(Json::parse_str(arguments)?);
    // A call that times out is cancelled under MCP.
    let cancelled = server.call(name.into(), Some(arguments), None);
    match cancelled.timeout(PATIENCE).wait() {
        Err(CallError::TimedOut) => {}
        other => return Err(format!("{name} was not cancelled: {other:?}").into()),
    }
    server.ping(None).wait()?;
    let began = Instant::now();
    let status = child.close(END_TIMEOUT)?;
    if !status.success() {
        return Err(format!("the server was ended: {status}, {:?}", began.elapsed()).into());
    }
    Ok(9)
}

fn has(tools: &[Tool], name: &str) -> bool {
    tools.iter().any(|tool| tool.name == name)
}
