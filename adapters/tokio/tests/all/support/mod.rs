//! Shared by the tests: connections in memory, their other ends, which the test reads and writes
//! byte by byte, and a service.

#![allow(dead_code)] // Half of it is for the feature `http`.

pub(crate) mod lines;
pub(crate) mod raw;
pub(crate) mod wire;

use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

use antiphon::{Closed, ErrorObject};
use antiphon_net::{Io, Link, Listen, Server, duplex};
use antiphon_tokio::{Answer, Notification, OwnedError, Peer, Request, Running, Service, current};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A listener whose connections the test makes.
pub(crate) struct Memory(pub(crate) UnboundedReceiver<Link>);

impl Listen for Memory {
    fn poll_accept(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Link>> {
        match self.0.poll_recv(cx) {
            Poll::Ready(Some(link)) => Poll::Ready(Ok(link)),
            // Nobody connects any more; the server goes on.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

/// A server in memory.
pub(crate) struct Served {
    pub(crate) running: Running,
    links: UnboundedSender<Link>,
}

impl Served {
    pub(crate) fn new(protocol: impl antiphon_net::Protocol) -> Self {
        Self::with(protocol, |server| server)
    }

    pub(crate) fn with(
        protocol: impl antiphon_net::Protocol,
        change: impl FnOnce(Server) -> Server,
    ) -> Self {
        let (links, incoming) = unbounded_channel();
        let server = change(Server::new(Memory(incoming), current()));
        let running = server.start_protocol(protocol);
        Self { running, links }
    }

    /// Makes a connection of which each direction holds this many bytes.
    pub(crate) fn connect(&self, bytes: usize) -> Raw {
        let (near, far) = duplex(bytes);
        self.links.send(Link::new(far)).expect("the server runs");
        Raw::new(near)
    }
}

/// The other end of a connection, byte by byte.
pub(crate) struct Raw {
    io: Box<dyn Io>,
    rest: Vec<u8>,
}

/// A request or a reply as it was read.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) head: String,
    /// Of a reply; 0 for a request.
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Message {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Raw {
    pub(crate) fn new(io: Box<dyn Io>) -> Self {
        Self {
            io,
            rest: Vec::new(),
        }
    }

    /// Writes all of it. Fails if the other side takes no more.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let mut left = bytes.as_ref();
        while !left.is_empty() {
            let n = poll_fn(|cx| self.io.poll_write(cx, left)).await?;
            left = &left[n..];
        }
        Ok(())
    }

    /// Reads more. False at the end.
    async fn read(&mut self) -> bool {
        let mut buf = [0; 4096];
        let read = poll_fn(|cx| self.io.poll_read(cx, &mut buf)).await;
        let n = read.unwrap_or(0);
        self.rest.extend_from_slice(&buf[..n]);
        n > 0
    }

    /// Reads the next reply, if one comes before the end.
    pub(crate) async fn reply(&mut self) -> Option<Message> {
        let reply = self.message().await?;
        assert!(reply.status > 0, "{}", reply.head);
        Some(reply)
    }

    /// Reads the next request or reply, if one comes before the end.
    pub(crate) async fn message(&mut self) -> Option<Message> {
        let end = loop {
            match self.rest.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None if self.read().await => {}
                None => return None,
            }
        };
        let head = String::from_utf8(self.rest.drain(..end).collect()).expect("a head is text");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let mut message = Message {
            status: status.unwrap_or(0),
            head,
            body: String::new(),
        };
        let length = message
            .header("content-length")
            .map_or(0, |n| n.parse().expect("a length"));
        while self.rest.len() < length {
            assert!(self.read().await, "the body was cut short");
        }
        let body = self.rest.drain(..length).collect();
        message.body = String::from_utf8(body).expect("a body is text");
        Some(message)
    }

    /// Posts a body and reads the reply.
    pub(crate) async fn post(&mut self, body: &str) -> Message {
        self.send(post("/", "", body))
            .await
            .expect("the server reads");
        self.reply().await.expect("a reply")
    }

    /// Reads this many bytes and drops them.
    pub(crate) async fn io_read(&mut self, bytes: usize) {
        let mut left = bytes;
        while left > 0 {
            let mut buf = vec![0; left];
            let n = poll_fn(|cx| self.io.poll_read(cx, &mut buf))
                .await
                .unwrap_or(0);
            assert!(n > 0, "the server is there");
            left -= n;
        }
    }

    /// Reads to the end and drops what comes.
    pub(crate) async fn end(&mut self) {
        while self.read().await {}
    }
}

/// A whole POST. `headers` are further lines, each with its line end.
pub(crate) fn post(target: &str, headers: &str, body: &str) -> String {
    format!(
        "POST {target} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A call of `method` without params.
pub(crate) fn call(method: &str, id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","id":{id}}}"#)
}

/// Knows `echo`, which gives its params back; `wait`, which tells `waiting`, waits until it is
/// cancelled and then tells `given up`; `context`, which returns what the transport knows (the
/// connection's number, the target, the header `X-Key`, the cookie `session`, the address and the
/// certificate of the client); `push`, which tries to call the client; `large`, which answers with
/// 200 000 bytes; and `panic`. It tells notifications, and why a connection ended unless its input
/// ended.
#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) told: UnboundedSender<String>,
}

impl Echo {
    pub(crate) fn new() -> (Self, UnboundedReceiver<String>) {
        let (told, hears) = unbounded_channel();
        (Self { told }, hears)
    }

    fn tell(&self, what: impl Into<String>) {
        // The test may have dropped its receiver.
        let _ = self.told.send(what.into());
    }
}

/// Tells `given up` when the handler of `wait` ends: it was cancelled or dropped.
struct GivenUp(Echo);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.tell("given up");
    }
}

impl Service for Echo {
    async fn request(&self, peer: &Peer, request: &Request) -> Result<Answer, OwnedError> {
        let reply = request.defer();
        let answered = match request.method() {
            "echo" => match request.raw_params() {
                Some(params) => reply.ok(params),
                None => reply.ok("nothing"),
            },
            "wait" => {
                let _given_up = GivenUp(self.clone());
                self.tell("waiting");
                reply.cancellation().await;
                reply.cancelled()
            }
            "push" => {
                let refused = peer.notify("news", ()).await;
                let called = peer.call::<()>("news", ()).await;
                reply.ok(&format!("{refused:?} {called:?}"))
            }
            "context" => {
                let context = peer.context();
                reply.ok(&(
                    context.connection,
                    context.target.as_deref(),
                    context.header("X-Key"),
                    context.cookie("session"),
                    context.peer_addr.map(|address| address.ip().to_string()),
                    context.client_certificate.as_deref(),
                ))
            }
            "panic" => panic!("as asked"),
            "large" => reply.ok(&"x".repeat(200_000)),
            _ => reply.err(&ErrorObject::method_not_found()),
        };
        if let Err(error) = answered {
            self.tell(format!("not sent: {error}"));
        }
        Ok(Answer::deferred())
    }

    async fn notification(&self, _: &Peer, notification: Notification) {
        self.tell(notification.method());
    }

    fn closed(&self, _: &Peer, why: Closed) {
        if why != Closed::EndOfInput {
            self.tell(format!("{why:?}"));
        }
    }
}

/// The lines of a stream.
impl Raw {
    /// Reads the next line.
    pub(crate) async fn line(&mut self) -> String {
        self.line_or_end().await.expect("a line before the end")
    }

    /// Reads the next line, if one comes before the end.
    pub(crate) async fn line_or_end(&mut self) -> Option<String> {
        while !self.rest.contains(&b'\n') {
            if !self.read().await {
                return None;
            }
        }
        let end = self.rest.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<_> = self.rest.drain(..=end).collect();
        Some(String::from_utf8(line[..end].to_vec()).unwrap())
    }

    /// Whether more has come by the time that every other task waits.
    pub(crate) async fn has_line(&mut self) -> bool {
        let brief = std::time::Duration::from_millis(1);
        let _ = tokio::time::timeout(brief, self.read()).await;
        !self.rest.is_empty()
    }

    /// Waits for more. Returns true if the other side ends the stream instead, and all that it sent
    /// before was read.
    pub(crate) async fn ended(&mut self) -> bool {
        !self.read().await && self.rest.is_empty()
    }
}
