//! A typed client of a Model Context Protocol server, over its stdin and stdout: `mcp_client COMMAND ARGS…`.
//!
//! It leaves out what is optional, as servers demand that validate strictly: an argument that is `None`
//! is not sent as `null`. Prints `ok` and how many checks it made.

use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::Duration;

use antiphon::{Config, Json, McpRevision, NotificationOk, OwnedError, OwnedJson};
use antiphon_blocking::{Child, service};
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
    if !tools.iter().any(|tool| tool.name == "echo") {
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
    child.close(Duration::from_secs(5))?;
    Ok(6)
}
