//! A client of HTTP and WebSocket that sends bytes, over a socket.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::call;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The first bytes of frames: a whole text, and a close.
pub(crate) const TEXT: u8 = 0x81;
pub(crate) const CLOSE: u8 = 0x88;

/// A client that sends bytes and reads answers and frames.
pub(crate) struct Wire(pub(crate) TcpStream);

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Wire {
    pub(crate) async fn to(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        let all = timeout(PATIENCE, self.0.read_exact(&mut read)).await;
        all.expect("in time").expect("as much as was announced");
        read
    }

    pub(crate) async fn reply(&mut self) -> Reply {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.read(1).await);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let of = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let status = head[9..12].parse().unwrap();
        let mut body = Vec::new();
        if let Some(length) = of("content-length: ") {
            body = self.read(length.parse().unwrap()).await;
        } else if of("transfer-encoding: chunked").is_some() {
            loop {
                let mut line = Vec::new();
                while !line.ends_with(b"\r\n") {
                    line.extend(self.read(1).await);
                }
                let line = String::from_utf8(line).unwrap();
                let length = usize::from_str_radix(line.trim(), 16).unwrap();
                body.extend(self.read(length).await);
                self.read(2).await;
                if length == 0 {
                    break;
                }
            }
        }
        Reply { status, head, body }
    }

    pub(crate) async fn ask(&mut self, request: &str) -> Reply {
        self.send(request).await;
        self.reply().await
    }

    pub(crate) async fn frame(&mut self) -> (u8, Vec<u8>) {
        let start = self.read(2).await;
        let length = match start[1] {
            126 => u16::from_be_bytes(self.read(2).await.try_into().unwrap()).into(),
            short => usize::from(short),
        };
        (start[0], self.read(length).await)
    }

    /// Calls over a WebSocket.
    pub(crate) async fn call(&mut self, method: &str) -> String {
        self.send_frame(TEXT, call(method, 1).as_bytes()).await;
        let (first, message) = self.frame().await;
        assert_eq!(first, TEXT);
        String::from_utf8(message).unwrap()
    }

    pub(crate) async fn send_frame(&mut self, first: u8, payload: &[u8]) {
        self.send(masked(first, payload)).await;
    }

    /// Whether the other side has ended the stream.
    pub(crate) async fn is_over(&mut self) -> bool {
        let read = timeout(PATIENCE, self.0.read(&mut [0])).await;
        matches!(read.expect("in time"), Ok(0) | Err(_))
    }
}

pub(crate) fn post(path: &str, lines: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\n{lines}content-length: {length}\r\n\r\n{body}"
    )
}

/// A short frame of a client. Its mask is zero.
pub(crate) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length < 126, "a short frame");
    [&[first, 0x80 | length, 0, 0, 0, 0][..], payload].concat()
}

pub(crate) fn get_of(path: &str, host: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")
}

pub(crate) fn upgrade(path: &str, lines: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

/// Opens a WebSocket.
pub(crate) async fn opened(address: SocketAddr, path: &str, lines: &str) -> Wire {
    let mut wire = Wire::to(address).await;
    let reply = wire.ask(&upgrade(path, lines)).await;
    assert_eq!(reply.status, 101, "{reply:?}");
    wire
}
