//! HTTP by hand: a plain client whose every message is a request, and a plain server that answers
//! each with the message that fits.
//!
//! Rule: a reply without a body has status 202 or 204, and an answer goes to the exchange that asked
//! with its id; one that fits none goes to the oldest.

use std::collections::VecDeque;
use std::fmt;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::{Raw, Stream};

/// The head of a request or an answer.
#[derive(Debug)]
pub struct Head {
    /// Its first line.
    pub first: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The value of a header, named in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn length(&self) -> Result<usize, String> {
        match self.header("content-length") {
            None => Ok(0),
            Some(length) => length.parse().map_err(|_| format!("no length: {length:?}")),
        }
    }

    /// Whether the connection ends with this message.
    fn is_last(&self) -> bool {
        self.header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

/// Reads a head; none at the end of the stream.
///
/// # Errors
/// It makes no sense, or the stream broke.
pub fn read_head(reader: &mut impl Read) -> Result<Option<Head>, String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        match reader.read(&mut byte) {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err("the stream ended in a head".to_owned()),
            Ok(_) => bytes.push(byte[0]),
            Err(error) => return Err(error.to_string()),
        }
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut lines = text.trim_end().split("\r\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    Ok(Some(Head {
        first,
        headers: headers.collect(),
    }))
}

fn read_body(reader: &mut impl Read, head: &Head) -> Result<Vec<u8>, String> {
    let mut body = vec![0; head.length()?];
    let read = reader.read_exact(&mut body);
    read.map(|()| body).map_err(|error| error.to_string())
}

/// What both sides have in common: messages that came, and what is under way.
#[derive(Default)]
struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    came: VecDeque<Result<Vec<u8>, String>>,
    /// Exchanges for the client, connections for the server.
    under_way: usize,
    is_ended: bool,
    /// How each connection is cut.
    cuts: Vec<Box<dyn FnMut() + Send>>,
    /// The client's connections that nobody uses.
    idle: Vec<Stream>,
    /// The server's exchanges that wait for an answer: what was asked, and where it goes.
    waiting: Vec<(Value, Sender<Vec<u8>>)>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `find` finds something.
    fn wait<T>(
        &self,
        deadline: Instant,
        mut find: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, String> {
        let mut state = self.lock();
        loop {
            if let Some(found) = find(&mut state) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("nothing came in time".to_owned());
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next message; none once all has ended.
    fn receive(&self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        self.wait(deadline, |state| match state.came.pop_front() {
            Some(came) => Some(came.map(Some)),
            None if state.is_ended && state.under_way == 0 => Some(Ok(None)),
            None => None,
        })?
    }

    fn cut(&self) {
        let mut state = self.lock();
        state.idle.clear();
        state.cuts.iter_mut().for_each(|cut| cut());
        state.waiting.clear();
    }
}

/// Makes connections.
pub type Dial = Arc<dyn Fn() -> Result<Stream, String> + Send + Sync>;

/// A plain client.
pub struct HttpClient {
    dial: Dial,
    path: String,
    desk: Arc<Desk>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Posts to `path` on connections that `dial` makes.
    pub fn new(dial: Dial, path: &str) -> Self {
        Self {
            dial,
            path: path.to_owned(),
            desk: Arc::default(),
        }
    }
}

impl Raw for HttpClient {
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let idle = self.desk.lock().idle.pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => {
                let mut stream = (self.dial)()?;
                let cut = std::mem::replace(&mut stream.cut, Box::new(|| {}));
                self.desk.change(|state| state.cuts.push(cut));
                stream
            }
        };
        let path = &self.path;
        let length = message.len();
        let mut request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
        .into_bytes();
        request.extend_from_slice(message);
        self.desk.change(|state| state.under_way += 1);
        let desk = Arc::clone(&self.desk);
        thread::spawn(move || {
            let answered = exchange(&mut stream, &request);
            desk.change(|state| {
                match answered {
                    Ok((body, is_last)) => {
                        state.came.extend(body.map(Ok));
                        if !is_last && !state.is_ended {
                            state.idle.push(stream);
                        }
                    }
                    Err(why) => state.came.push_back(Err(why)),
                }
                state.under_way -= 1;
            });
        });
        Ok(())
    }

    fn send_raw(&mut self, _: &[u8]) -> Result<(), String> {
        Err("an exchange has no bytes of its own".to_owned())
    }

    fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        self.desk.receive(deadline)
    }

    fn end(&mut self) {
        self.desk.change(|state| {
            state.is_ended = true;
            state.idle.clear();
        });
    }

    fn cut(&mut self) {
        self.desk.cut();
    }

    fn hold(&mut self, _: bool) {}

    fn settle(&mut self, deadline: Instant) -> Result<(), String> {
        let settled = |state: &mut State| (state.under_way == 0).then_some(());
        self.desk.wait(deadline, settled)
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.desk.cut();
    }
}

/// Asks, and gives the body of the answer, if it has one, and whether the connection ends with it.
fn exchange(stream: &mut Stream, request: &[u8]) -> Result<(Option<Vec<u8>>, bool), String> {
    let sent = stream.writer.write_all(request);
    let sent = sent.and_then(|()| stream.writer.flush());
    let head = match (sent, read_head(&mut stream.reader)) {
        // A server may answer before it has read everything.
        (_, Ok(Some(head))) => head,
        (Err(error), _) => return Err(format!("cannot send: {error}")),
        (Ok(()), Ok(None)) => return Err("the server ended instead of answering".to_owned()),
        (Ok(()), Err(why)) => return Err(why),
    };
    let body = read_body(&mut stream.reader, &head)?;
    let status = head.first.split(' ').nth(1).unwrap_or_default();
    let media_type = head.header("content-type");
    match (status, body.is_empty(), media_type) {
        ("204" | "202", true, None) => Ok((None, head.is_last())),
        (_, false, Some("application/json")) => Ok((Some(body), head.is_last())),
        _ => Err(format!("an answer of {} bytes: {head:?}", body.len())),
    }
}

/// A plain server.
pub struct HttpServer {
    desk: Arc<Desk>,
    address: SocketAddr,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Serves the connections of a listener, on a thread for each; `wrap` makes them streams.
    ///
    /// # Errors
    /// The listener has no address.
    pub fn start(
        listener: TcpListener,
        wrap: impl Fn(TcpStream) -> Result<Stream, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let desk = Arc::<Desk>::default();
        let (listening, wrap) = (Arc::clone(&desk), Arc::new(wrap));
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if listening.lock().is_ended {
                    return;
                }
                listening.change(|state| state.under_way += 1);
                let (desk, wrap) = (Arc::clone(&listening), Arc::clone(&wrap));
                thread::spawn(move || {
                    // Fails if the client ends the connection within a handshake or a request.
                    let _ = wrap(socket).and_then(|stream| serve(stream, &desk));
                    desk.change(|state| state.under_way -= 1);
                });
            }
        });
        Ok(Self { desk, address })
    }
}

fn serve(mut stream: Stream, desk: &Desk) -> Result<(), String> {
    let cut = std::mem::replace(&mut stream.cut, Box::new(|| {}));
    desk.change(|state| state.cuts.push(cut));
    while let Some(head) = read_head(&mut stream.reader)? {
        let body = read_body(&mut stream.reader, &head)?;
        let asked: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
        let is_owed = ids_of(&asked).next().is_some();
        let (answer, answered) = mpsc::channel();
        desk.change(|state| {
            state.came.push_back(Ok(body));
            if is_owed {
                state.waiting.push((asked, answer));
            }
        });
        let written = if is_owed {
            // Dropped unanswered when the connection is cut.
            let Ok(body) = answered.recv() else {
                return Ok(());
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
            );
            stream.writer.write_all(&[head.as_bytes(), &body].concat())
        } else {
            stream.writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
        };
        let written = written.and_then(|()| stream.writer.flush());
        written.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The ids in a message or a batch.
fn ids_of(message: &Value) -> impl Iterator<Item = &Value> {
    let single = std::slice::from_ref(message);
    let messages = message.as_array().map_or(single, Vec::as_slice);
    let ids = messages.iter().filter_map(|message| message.get("id"));
    ids.filter(|id| !id.is_null())
}

fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

impl Raw for HttpServer {
    /// Answers the exchange that asked with one of the message's ids, else the oldest.
    fn send(&mut self, message: &[u8]) -> Result<(), String> {
        let answer: Value = serde_json::from_slice(message).unwrap_or(Value::Null);
        let mut state = self.desk.lock();
        let asked = |(asked, _): &(Value, _)| {
            ids_of(&answer).any(|id| ids_of(asked).any(|other| is_same(id, other)))
        };
        let place = state.waiting.iter().position(asked).unwrap_or(0);
        if place >= state.waiting.len() {
            return Err("no exchange waits for an answer".to_owned());
        }
        let (_, exchange) = state.waiting.remove(place);
        let sent = exchange.send(message.to_vec());
        sent.map_err(|_| "the exchange is gone".to_owned())
    }

    fn send_raw(&mut self, _: &[u8]) -> Result<(), String> {
        Err("an exchange has no bytes of its own".to_owned())
    }

    fn receive(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        self.desk.receive(deadline)
    }

    fn end(&mut self) {
        self.desk.change(|state| state.is_ended = true);
    }

    fn cut(&mut self) {
        self.desk.cut();
    }

    fn hold(&mut self, _: bool) {}

    /// Waits until our client, which is closing, has ended all connections. Exchanges that still wait
    /// for an answer get none.
    fn receive_last(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
        self.desk.change(|state| {
            state.is_ended = true;
            state.waiting.clear();
        });
        self.desk.receive(deadline)
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.desk.change(|state| state.is_ended = true);
        self.desk.cut();
        // Wakes the listener, so that it sees the end.
        drop(TcpStream::connect(self.address));
    }
}
