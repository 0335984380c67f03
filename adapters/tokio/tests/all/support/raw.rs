//! A raw connection to a server that serves a router, for tests of what is answered byte for byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use antiphon_tokio::{Config, Router, TcpServer};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) type Log = Arc<Mutex<Vec<String>>>;

/// A raw connection to a server.
pub(crate) struct Raw {
    stream: BufReader<TcpStream>,
    /// `None` if another connection keeps the server.
    _running: Option<antiphon_tokio::Running>,
}

impl Raw {
    pub(crate) async fn to<S: Send + Sync + 'static>(router: &Router<S>) -> Self {
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(Config::new(), router.clone().into_make_service());
        let stream = BufReader::new(TcpStream::connect(address).await.unwrap());
        Self {
            stream,
            _running: Some(running),
        }
    }

    /// Another connection to the same server.
    pub(crate) async fn another(&self) -> Self {
        let address = self.stream.get_ref().peer_addr().unwrap();
        Self {
            stream: BufReader::new(TcpStream::connect(address).await.unwrap()),
            _running: None,
        }
    }

    pub(crate) async fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.stream
            .get_mut()
            .write_all(line.as_bytes())
            .await
            .unwrap();
    }

    pub(crate) async fn hear(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.stream.read_line(&mut line)).await;
        read.expect("an answer in time").unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a request with id 1, and returns the answer without its version and id.
    pub(crate) async fn ask(&mut self, method: &str, params: &str) -> String {
        let params = match params {
            "" => String::new(),
            params => format!(r#","params":{params}"#),
        };
        self.say(&format!(
            r#"{{"jsonrpc":"2.0","method":"{method}"{params},"id":1}}"#
        ))
        .await;
        let answer = self.hear().await;
        let answer = answer
            .strip_prefix(r#"{"jsonrpc":"2.0","#)
            .and_then(|rest| rest.strip_suffix(r#","id":1}"#));
        answer.expect("an answer").to_owned()
    }
}

pub(crate) const INVALID_PARAMS: &str = r#""error":{"code":-32602,"message":"Invalid params"}"#;
pub(crate) const NOT_FOUND: &str = r#""error":{"code":-32601,"message":"Method not found"}"#;
pub(crate) const INTERNAL: &str = r#""error":{"code":-32603,"message":"Internal error"}"#;
