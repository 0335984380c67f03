//! rmcp, the Model Context Protocol's library for Rust, as a client or a server over stdio.
//!
//! ```text
//! rmcp_peer server                        the tools of antiphon's `mcp`
//! rmcp_peer client COMMAND ARGS…          a session with antiphon's `mcp`
//! ```

// The newest revision deprecates roots, which the older ones ask for.
#![expect(deprecated)]

use std::borrow::Cow;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use antiphon_interop_peers::{assert_unordered, long_text, seen};
use futures_util::future::join_all;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig,
    ClientRequest, ContentBlock, ErrorCode, Implementation, JsonObject, ListRootsResult,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, Request, Root,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService};
use rmcp::transport::{TokioChildProcess, stdio};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, RoleServer, ServerHandler, ServiceError, ServiceExt,
};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(25);

type Failure = Box<dyn std::error::Error>;
type Session = RunningService<RoleClient, Editor>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let work = async {
        match words.split_first() {
            Some((role, [])) if role == "server" => serve().await,
            Some((role, command)) if role == "client" => client(command).await,
            _ => Err("usage: rmcp_peer server | client COMMAND ARGS…".into()),
        }
    };
    tokio::time::timeout(TIMEOUT, work).await?
}

/// What the client answers and keeps.
#[derive(Default)]
struct Editor {
    progress: Mutex<Vec<(f64, Option<f64>)>>,
}

impl ClientHandler for Editor {
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new("file:///somewhere")]))
    }

    async fn on_progress(
        &self,
        told: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        // Nothing panics under the lock.
        let mut progress = self.progress.lock().expect("the lock is whole");
        progress.push((told.progress, told.total));
    }

    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::builder().enable_roots().build(),
            Implementation::new("interop", "1"),
        )
    }
}

fn child(words: &[String]) -> Result<TokioChildProcess, Failure> {
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(TokioChildProcess::new(tokio::process::Command::from(
        command,
    ))?)
}

// -- the client

async fn client(command: &[String]) -> Result<(), Failure> {
    let session: Session = Editor::default().serve(child(command)?).await?;
    let tools = session.list_all_tools().await?;
    let names: Vec<Cow<'_, str>> = tools.into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["echo", "add", "progress", "ask"]);
    let sum = tool(&session, "add", json!({"a": 2, "b": 40})).await?;
    assert_eq!(sum, "42");
    seen("name");
    let unknown = session.call_tool(CallToolRequestParams::new("nope")).await;
    match unknown {
        Err(ServiceError::McpError(error)) => assert_eq!(error.code, ErrorCode::INVALID_PARAMS),
        other => return Err(format!("no error came: {other:?}").into()),
    }
    progress(&session).await?;
    seen("notification");
    order(&session).await?;
    seen("order");
    let text = long_text();
    assert!(tool(&session, "echo", json!({"text": text})).await? == text);
    seen("text");
    cancel(&session).await?;
    seen("cancel");
    let asked = tool(&session, "ask", json!({})).await?;
    assert!(asked.contains("file:///somewhere"), "{asked}");
    seen("back");
    session.cancel().await?;
    println!("ok");
    Ok(())
}

async fn tool(session: &Session, name: &'static str, params: Value) -> Result<String, Failure> {
    let result: CallToolResult = session.call_tool(tool_call(name, params)?).await?;
    let text = result.content.first().and_then(|content| content.as_text());
    Ok(text.ok_or("no text")?.text.clone())
}

fn tool_call(name: &'static str, params: Value) -> Result<CallToolRequestParams, Failure> {
    let Value::Object(params) = params else {
        return Err("arguments are an object".into());
    };
    Ok(CallToolRequestParams::new(name).with_arguments(params))
}

/// The server's own notifications, which come before the result.
async fn progress(session: &Session) -> Result<(), Failure> {
    let params = json!({"steps": 3, "delayMs": 5});
    assert_eq!(tool(session, "progress", params).await?, "3 steps done");
    let wanted = [(1.0, Some(3.0)), (2.0, Some(3.0)), (3.0, Some(3.0))];
    // The whole run has a deadline.
    while *session
        .service()
        .progress
        .lock()
        .expect("the lock is whole")
        != wanted
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

async fn order(session: &Session) -> Result<(), Failure> {
    let ended = Mutex::new(Vec::new());
    let ended = &ended;
    let one = |place: usize| async move {
        let (name, params, wanted) = if place % 2 == 0 {
            let params = json!({"steps": 1, "delayMs": 400 - 4 * place});
            ("progress", params, "1 steps done".to_owned())
        } else {
            let params = json!({"a": place, "b": 1});
            ("add", params, (place + 1).to_string())
        };
        assert_eq!(tool(session, name, params).await?, wanted);
        ended.lock().expect("the lock is whole").push(place);
        Ok::<(), Failure>(())
    };
    for end in join_all((0..100).map(one)).await {
        end?;
    }
    assert_unordered(&ended.lock().expect("the lock is whole"));
    Ok(())
}

/// Its cancelled call has no answer; the server, and the next call, go on.
async fn cancel(session: &Session) -> Result<(), Failure> {
    let call = tool_call("progress", json!({"steps": 1000, "delayMs": 20}))?;
    let request = ClientRequest::CallToolRequest(Request::new(call));
    let handle = session
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    handle.cancel(Some("enough".to_owned())).await?;
    assert_eq!(tool(session, "add", json!({"a": 1, "b": 1})).await?, "2");
    let told = || {
        session
            .service()
            .progress
            .lock()
            .expect("the lock is whole")
            .len()
    };
    let mut before = told();
    // Waits until no more reports come. If they never end, the deadline of the run fails it.
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        if told() == before {
            return Ok(());
        }
        before = told();
    }
}

// -- the server

/// The tools of antiphon's `mcp`.
struct Tools;

async fn serve() -> Result<(), Failure> {
    Tools.serve(stdio()).await?.waiting().await?;
    Ok(())
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = ["echo", "add", "progress", "ask"].map(|name| {
            let mut schema = JsonObject::new();
            schema.insert("type".to_owned(), json!("object"));
            Tool::new(name, "For the checklist.", schema)
        });
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        call: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let params = Value::Object(call.arguments.unwrap_or_default());
        let number = |name: &str| {
            let number = params[name].as_u64();
            number.ok_or_else(|| ErrorData::invalid_params("Invalid params", Some(json!([name]))))
        };
        let text = match &*call.name {
            "echo" => params["text"].as_str().unwrap_or_default().to_owned(),
            "add" => (number("a")? + number("b")?).to_string(),
            "progress" => {
                let pause = Duration::from_millis(number("delayMs")?);
                report(number("steps")?, pause, &context).await
            }
            "ask" => {
                let roots = context.peer.list_roots().await;
                let roots =
                    roots.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
                roots.roots.into_iter().map(|root| root.uri).collect()
            }
            _ => return Err(ErrorData::invalid_params("Unknown tool", None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

async fn report(steps: u64, pause: Duration, context: &RequestContext<RoleServer>) -> String {
    for step in 1..=steps {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = context.ct.cancelled() => return "cancelled".to_owned(),
        }
        if let Some(token) = context.meta.get_progress_token() {
            let told = ProgressNotificationParam::new(token, step as f64).with_total(steps as f64);
            if context.peer.notify_progress(told).await.is_err() {
                break;
            }
        }
    }
    format!("{steps} steps done")
}
