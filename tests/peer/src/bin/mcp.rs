//! A tiny Model Context Protocol server on stdio, one message a line: enough that an agent's
//! client can be tried against the blocking adapter.
//!
//! Four tools: `echo`, `add`, `progress`, which reports its progress and can be cancelled, and
//! `ask`, which asks the client something back. Nothing but messages goes to stdout.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use antiphon::{Config, ErrorObject, Json, JsonKind, McpRevision, OwnedJson, OwnedOutcome, codes};
use antiphon_blocking::{Answer, Link, OwnedError, Peer, Report, Request, Service, serve};
use antiphon_peer::log::write_line;
use serde::{Deserialize, Serialize};

/// The revisions whose handshake is spoken here, the newest first.
const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// How long `ask` waits for the client, which may have to ask a person.
const ASK_TIMEOUT: Duration = Duration::from_secs(300);
/// Limits of the tool `progress`.
const MAX_STEPS: u64 = 10_000;
const MAX_DELAY: u64 = 60_000;

const TOOLS: &str = r#"{"tools":[
{"name":"echo","description":"Gives its text back.","inputSchema":{"type":"object",
"properties":{"text":{"type":"string"}},"required":["text"]}},
{"name":"add","description":"Adds two numbers.","inputSchema":{"type":"object",
"properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}},
{"name":"progress","description":"Takes its time and reports how far it is.","inputSchema":{
"type":"object","properties":{"steps":{"type":"integer","minimum":0,"maximum":10000},
"delayMs":{"type":"integer","minimum":0,"maximum":60000}}}},
{"name":"ask","description":"Asks the client something back.","inputSchema":{"type":"object",
"properties":{"question":{"type":"string"}}}}]}"#;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some() {
        write_line(format_args!(
            "usage: mcp (no arguments; an agent speaks to it over stdin and stdout)"
        ));
        return ExitCode::from(2);
    }
    let config = Config::mcp(McpRevision::V2025_11_25);
    let served = Link::stdio().and_then(|link| serve(link, config, Server::default()));
    match served {
        Ok(antiphon::Closed::Failed(error)) => {
            write_line(format_args!("mcp: {error}"));
            ExitCode::from(1)
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            write_line(format_args!("mcp: {error}"));
            ExitCode::from(2)
        }
    }
}

/// What the client says that it can be asked.
#[derive(Clone, Copy, Debug, Default)]
struct Abilities {
    roots: bool,
    elicitation: bool,
    sampling: bool,
}

#[derive(Default)]
struct Server {
    abilities: Arc<Mutex<Abilities>>,
}

impl Service for Server {
    fn request(&mut self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        match request.method() {
            "initialize" => self.initialize(request.raw_params()),
            "ping" => Ok(Empty {}.into()),
            "tools/list" => match Json::parse_str(TOOLS) {
                Ok(tools) => Ok(Answer::new(tools)),
                // Never: a test parses it.
                Err(_) => Err(ErrorObject::internal_error().into()),
            },
            "tools/call" => self.call_tool(peer, request),
            _ => Err(request.unknown_method()),
        }
    }

    fn report(&mut self, _: &Peer, report: Report) {
        write_line(format_args!("mcp: {report}"));
    }
}

impl Server {
    fn initialize(&self, params: Option<Json<'_>>) -> Result<Answer, OwnedError> {
        let asked = params.and_then(|params| params.get("protocolVersion")?.as_string());
        let asked = asked.ok_or(ErrorObject::invalid_params())?;
        let can = |name: &str| {
            params
                .and_then(|params| params.get("capabilities")?.get(name))
                .is_some_and(|ability| ability.kind() == JsonKind::Object)
        };
        *self.abilities() = Abilities {
            roots: can("roots"),
            elicitation: can("elicitation"),
            sampling: can("sampling"),
        };
        let known = REVISIONS
            .into_iter()
            .find(|revision| asked.eq_str(revision));
        Ok(Answer::from(Initialized {
            protocol_version: known.unwrap_or(REVISIONS[0]),
            capabilities: Capabilities {
                tools: Tools {
                    list_changed: false,
                },
            },
            server_info: ServerInfo {
                name: "antiphon-mcp",
                version: env!("CARGO_PKG_VERSION"),
            },
        }))
    }

    fn call_tool(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let params = request.raw_params();
        let params = params.ok_or(ErrorObject::invalid_params())?;
        let name = params.get("name").and_then(Json::as_string);
        let name = name.ok_or(ErrorObject::invalid_params())?.to_cow_lossy();
        let arguments = params.get("arguments");
        Ok(match &*name {
            "echo" => match read::<Echo>(arguments) {
                Some(echo) => done(&echo.text).into(),
                None => failed("echo needs a text").into(),
            },
            "add" => match read::<Add>(arguments) {
                Some(add) => done(&(add.a + add.b).to_string()).into(),
                None => failed("add needs the numbers a and b").into(),
            },
            "progress" => {
                let token = params
                    .get("_meta")
                    .and_then(|meta| meta.get("progressToken"))
                    // As the client wrote it: a token may be text or number.
                    .map(Json::to_owned_json);
                let wanted = read::<Progress>(arguments.or(Json::parse_str("{}").ok()));
                match wanted.filter(|p| p.steps <= MAX_STEPS && p.delay_ms <= MAX_DELAY) {
                    Some(wanted) => run_progress(wanted, token, request),
                    None => failed("steps and delayMs must be small numbers").into(),
                }
            }
            "ask" => {
                let question = arguments
                    .and_then(|arguments| arguments.get("question")?.as_string())
                    .map(|question| question.to_cow_lossy().into_owned());
                let question = question.unwrap_or("Shall I go on?".to_owned());
                self.ask(peer, &question, request)
            }
            other => {
                // MCP 2025-11-25, tools, error handling: an unknown tool is a protocol error.
                let message = format!("Unknown tool: {other}");
                return Err(ErrorObject::new(codes::INVALID_PARAMS, message).into());
            }
        })
    }

    /// Asks the client the first thing that it can be asked: roots, elicitation or sampling.
    fn ask(&self, peer: &Peer, question: &str, request: &Request) -> Answer {
        let abilities = *self.abilities();
        let (method, params) = if abilities.roots {
            ("roots/list", None)
        } else if abilities.elicitation {
            let params = OwnedJson::from_value(&Elicitation::new(question));
            ("elicitation/create", params.ok())
        } else if abilities.sampling {
            let params = OwnedJson::from_value(&Sampling::new(question));
            ("sampling/createMessage", params.ok())
        } else {
            return failed("the client cannot be asked anything").into();
        };
        let params = params.as_ref().map(OwnedJson::as_json);
        let reply = request.defer();
        let called = peer
            .call(method, params)
            .timeout(ASK_TIMEOUT)
            .then(|outcome| {
                let answered = match outcome {
                    OwnedOutcome::Ok(result) => reply.ok(&done(result.as_str())),
                    OwnedOutcome::Err(error) => reply.ok(&failed(&error.to_string())),
                    other => reply.ok(&failed(&other.to_string())),
                };
                // A connection that has closed in the meantime awaits no answer.
                drop(answered);
            })
            .wait();
        // A refused call drops the responder, which answers with an error.
        if let Err(refused) = called {
            write_line(format_args!("mcp: {method} was not called: {refused}"));
        }
        Answer::deferred()
    }

    fn abilities(&self) -> std::sync::MutexGuard<'_, Abilities> {
        // Nothing that can panic runs under the lock.
        self.abilities
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn read<'a, D: Deserialize<'a>>(arguments: Option<Json<'a>>) -> Option<D> {
    arguments?.decode().ok()
}

fn run_progress(wanted: Progress, token: Option<OwnedJson>, request: &Request) -> Answer {
    request.defer().spawn(move |reply| {
        let peer = Peer::of(&reply);
        for step in 1..=wanted.steps {
            if let Some(token) = &token {
                let report = Advance {
                    progress_token: token,
                    progress: step,
                    total: wanted.steps,
                };
                if let Err(error) = peer.notify("notifications/progress", &report).wait() {
                    write_line(format_args!("mcp: progress was not sent: {error}"));
                }
            }
            // The pause follows the report: the TypeScript SDK loses progress that comes in one read
            // with the result, for it forgets the token at once and reads progress a moment later.
            if reply
                .cancellation()
                .wait(Duration::from_millis(wanted.delay_ms))
            {
                // The dialect wants no answer, so this only ends the request here.
                drop(reply.cancelled());
                return;
            }
        }
        let text = format!("{} steps done", wanted.steps);
        // A connection that has closed in the meantime awaits no answer.
        drop(reply.ok(&done(&text)));
    });
    Answer::deferred()
}

fn done(text: &str) -> ToolResult<'_> {
    ToolResult::new(text, false)
}

/// Tells the model, not the protocol, what went wrong.
fn failed(text: &str) -> ToolResult<'_> {
    ToolResult::new(text, true)
}

#[derive(Deserialize)]
struct Echo {
    text: String,
}

#[derive(Deserialize)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Progress {
    steps: u64,
    delay_ms: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            steps: 5,
            delay_ms: 10,
        }
    }
}

/// Written as `{}`.
#[derive(Serialize)]
struct Empty {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Initialized {
    protocol_version: &'static str,
    capabilities: Capabilities,
    server_info: ServerInfo,
}

#[derive(Serialize)]
struct Capabilities {
    tools: Tools,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools {
    list_changed: bool,
}

#[derive(Serialize)]
struct ServerInfo {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Advance<'a> {
    progress_token: &'a OwnedJson,
    progress: u64,
    total: u64,
}

#[derive(Serialize)]
struct Text<'t> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'t str,
}

impl<'t> Text<'t> {
    fn new(text: &'t str) -> Self {
        Self { kind: "text", text }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<'t> {
    content: [Text<'t>; 1],
    is_error: bool,
}

impl<'t> ToolResult<'t> {
    fn new(text: &'t str, is_error: bool) -> Self {
        Self {
            content: [Text::new(text)],
            is_error,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Elicitation<'q> {
    message: &'q str,
    requested_schema: Schema,
}

#[derive(Serialize)]
struct Schema {
    #[serde(rename = "type")]
    kind: &'static str,
    properties: Properties,
}

#[derive(Serialize)]
struct Properties {
    answer: StringSchema,
}

#[derive(Serialize)]
struct StringSchema {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'q> Elicitation<'q> {
    fn new(question: &'q str) -> Self {
        Self {
            message: question,
            requested_schema: Schema {
                kind: "object",
                properties: Properties {
                    answer: StringSchema { kind: "string" },
                },
            },
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sampling<'q> {
    messages: [SamplingMessage<'q>; 1],
    max_tokens: u32,
}

#[derive(Serialize)]
struct SamplingMessage<'q> {
    role: &'static str,
    content: Text<'q>,
}

impl<'q> Sampling<'q> {
    fn new(question: &'q str) -> Self {
        Self {
            messages: [SamplingMessage {
                role: "user",
                content: Text::new(question),
            }],
            max_tokens: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TOOLS;
    use antiphon::Json;

    #[test]
    fn the_list_of_tools_is_json() {
        let tools = Json::parse_str(TOOLS).unwrap().get("tools").unwrap();
        assert_eq!(tools.elements().count(), 4);
        assert!(
            tools
                .elements()
                .all(|tool| tool.get("inputSchema").is_some())
        );
    }
}
