//! Progress of a request, byte for byte, as a language server and a server of tools tell it.

use std::time::Duration;

use antiphon_tokio::{
    Config, McpRevision, OwnedError, Params, Progress, Router, Running, SendError, TcpServer,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

/// What is told in both dialects, so that one handler serves them.
#[derive(Serialize)]
struct Step {
    progress: u32,
    total: u32,
}

#[derive(Deserialize)]
struct Count {
    to: u32,
    #[serde(rename = "_meta")]
    meta: Option<Value>,
}

fn tell(to: u32, progress: &Progress<Step>) -> Result<u32, OwnedError> {
    for step in 1..=to {
        progress
            .send(&Step {
                progress: step,
                total: to,
            })
            .unwrap();
    }
    Ok(to)
}

fn router() -> Router {
    Router::new()
        .method(
            "count",
            ["to"],
            async |to: u32, progress: Progress<Step>| {
                tokio::task::yield_now().await;
                tell(to, &progress)
            },
        )
        .method(
            "whole",
            [],
            |Params(count): Params<Count>, progress: Progress<Step>| {
                tell(count.to, &progress)?;
                Ok::<_, OwnedError>(count.meta)
            },
        )
        .method("nothing", [], |progress: Progress<Step>| tell(1, &progress))
        .method("wrong", [], |progress: Progress<u32>| {
            let refused = progress.send(&7);
            Ok::<_, OwnedError>(matches!(refused, Err(SendError::Encode(_))))
        })
        .method("token", [], |progress: Progress<()>| {
            Ok::<_, OwnedError>(progress.token().map(|token| token.to_owned_json()))
        })
}

/// A conversation with a server: what is said, and what it says, each one message.
struct Raw {
    stream: tokio::net::TcpStream,
    is_lsp: bool,
    _running: Running,
}

impl Raw {
    async fn to(config: Config) -> Self {
        let is_lsp = config == Config::lsp();
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(config, router().into_make_service());
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        Self {
            stream,
            is_lsp,
            _running: running,
        }
    }

    fn frame(&self, message: &str) -> String {
        match self.is_lsp {
            true => format!("Content-Length: {}\r\n\r\n{message}", message.len()),
            false => format!("{message}\n"),
        }
    }

    async fn say(&mut self, message: &str) {
        let message = self.frame(message);
        self.stream.write_all(message.as_bytes()).await.unwrap();
    }

    /// Reads as many bytes as are expected. A message more would begin the next reading.
    async fn hear(&mut self, messages: &[&str]) {
        let expected: String = messages.iter().map(|message| self.frame(message)).collect();
        let mut heard = vec![0; expected.len()];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut heard)).await;
        read.expect("all in time").unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), expected);
    }
}

fn mcp() -> Config {
    Config::mcp(McpRevision::V2025_11_25)
}

// USE-21
#[tokio::test]
async fn a_language_server_tells_progress_before_the_answer() {
    let mut raw = Raw::to(Config::lsp()).await;
    raw.say(
        r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"to":2,"workDoneToken":"t\u0031"}}"#,
    )
    .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t\u0031","value":{"progress":1,"total":2}}}"#,
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":"t\u0031","value":{"progress":2,"total":2}}}"#,
        r#"{"jsonrpc":"2.0","result":2,"id":1}"#,
    ])
    .await;
    // What carries the token is no parameter, and is not missed where there are none.
    raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"nothing","params":{"workDoneToken":12345678901234567890.0}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":12345678901234567890.0,"value":{"progress":1,"total":1}}}"#,
        r#"{"jsonrpc":"2.0","result":1,"id":2}"#,
    ])
    .await;
    // Anything may be a value here.
    raw.say(r#"{"jsonrpc":"2.0","id":3,"method":"wrong","params":{"workDoneToken":0}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"$/progress","params":{"token":0,"value":7}}"#,
        r#"{"jsonrpc":"2.0","result":false,"id":3}"#,
    ])
    .await;
}

// USE-21
#[tokio::test]
async fn a_server_of_tools_tells_progress_before_the_answer() {
    let mut raw = Raw::to(mcp()).await;
    raw.say(r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"_meta":{"progressToken":1.0},"to":2}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":1,"total":2}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":2,"total":2}}"#,
        r#"{"jsonrpc":"2.0","result":2,"id":1}"#,
    ])
    .await;
    // A handler that takes all params sees what stands in them.
    raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"whole","params":{"to":1,"_meta":{"progressToken":"a","x":1}}}"#)
        .await;
    raw.hear(&[
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"a","progress":1,"total":1}}"#,
        r#"{"jsonrpc":"2.0","result":{"progressToken":"a","x":1},"id":2}"#,
    ])
    .await;
    // The members of progress are the value's own, so it has to have some.
    raw.say(r#"{"jsonrpc":"2.0","id":3,"method":"wrong","params":{"_meta":{"progressToken":0}}}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","result":true,"id":3}"#])
        .await;
}

// USE-21
#[tokio::test]
async fn who_does_not_ask_for_progress_hears_none() {
    for (config, params) in [
        (Config::lsp(), r#"{"to":3}"#),
        (Config::lsp(), r#"[3]"#),
        (Config::lsp(), r#"{"to":3,"workDoneToken":null}"#),
        (mcp(), r#"{"to":3,"_meta":{}}"#),
        (mcp(), r#"{"to":3,"_meta":{"progressToken":[1]}}"#),
        (Config::new(), r#"{"to":3}"#),
    ] {
        let mut raw = Raw::to(config).await;
        raw.say(&format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"count","params":{params}}}"#
        ))
        .await;
        raw.hear(&[r#"{"jsonrpc":"2.0","result":3,"id":1}"#]).await;
        raw.say(r#"{"jsonrpc":"2.0","id":2,"method":"token"}"#)
            .await;
        raw.hear(&[r#"{"jsonrpc":"2.0","result":null,"id":2}"#])
            .await;
    }
    // Where the dialect has no progress, what would carry a token is a parameter like any other.
    let mut raw = Raw::to(Config::new()).await;
    raw.say(r#"{"jsonrpc":"2.0","id":1,"method":"count","params":{"to":1,"_meta":{"progressToken":1}}}"#)
        .await;
    raw.hear(&[r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"},"id":1}"#])
        .await;
}
