//! A connection of a peer without any library of ours: lines of JSON, compared byte for byte.

use std::net::SocketAddr;
use std::time::Duration;

use antiphon_tokio::{ConnectionConfig, Router, Running, TcpServer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that reads and writes lines.
pub(crate) struct Lines {
    stream: TcpStream,
    /// `None` if the test has it.
    _running: Option<Running>,
}

impl Lines {
    pub(crate) async fn to(config: impl Into<ConnectionConfig>, router: Router) -> Self {
        let server = TcpServer::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr();
        let running = server.start(config.into(), router.into_make_service());
        let stream = TcpStream::connect(address).await.unwrap();
        Self {
            stream,
            _running: Some(running),
        }
    }

    /// A connection to a server that the test keeps.
    pub(crate) fn on(stream: TcpStream) -> Self {
        Self {
            stream,
            _running: None,
        }
    }

    /// Ends the connection as the crash of a machine does: without an orderly end.
    pub(crate) fn vanish(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// The address of the server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.peer_addr().unwrap()
    }

    /// Another connection to the same server.
    pub(crate) async fn another(&self) -> Self {
        Self::on(TcpStream::connect(self.address()).await.unwrap())
    }

    pub(crate) async fn say(&mut self, message: &str) {
        let line = format!("{message}\n");
        self.stream.write_all(line.as_bytes()).await.unwrap();
    }

    /// Reads as many bytes as these lines have, and compares.
    pub(crate) async fn hear(&mut self, lines: &[&str]) {
        let expected: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let mut heard = vec![0; expected.len()];
        let read = timeout(PATIENCE, self.stream.read_exact(&mut heard)).await;
        read.expect("all in time").unwrap();
        assert_eq!(String::from_utf8(heard).unwrap(), expected);
    }

    /// Reads one line.
    pub(crate) async fn hear_line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        loop {
            let read = timeout(PATIENCE, self.stream.read_exact(&mut byte)).await;
            read.expect("a line in time").unwrap();
            match byte[0] {
                b'\n' => return String::from_utf8(line).unwrap(),
                other => line.push(other),
            }
        }
    }

    /// Reads until the peer ends the stream.
    pub(crate) async fn hear_rest(&mut self) -> String {
        let mut rest = String::new();
        let read = timeout(PATIENCE, self.stream.read_to_string(&mut rest)).await;
        read.expect("the end in time").unwrap();
        rest
    }

    /// Nothing more has been sent: the answer to a call comes next.
    pub(crate) async fn hear_nothing(&mut self) {
        self.say(r#"{"jsonrpc":"2.0","method":"ping","id":"p"}"#)
            .await;
        self.hear(&[r#"{"jsonrpc":"2.0","result":"pong","id":"p"}"#])
            .await;
    }
}
