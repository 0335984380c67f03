//! Messages to a server and back, whatever carries them; and the commands that do that without antiphon.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use antiphon::{Cut, Framer, Framing};

use crate::bytes::{printing, quoted};
use crate::http;
use crate::target::{Target, Web, command};
use crate::websocket::{self, CLOSE, PING, PONG, TEXT};
use crate::wire::{Dialler, Got, Wire};

/// The longest message of a server that is read.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;
const HEADER_MAX: usize = 64 * 1024;
/// How long a client may take for its handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(3);
/// The id of the request that a dialect begins with.
const HELLO_ID: &str = "\"antiphon-hello\"";

/// A server, and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) dialler: Dialler,
    pub(crate) framing: Framing,
    /// Fields of each HTTP request and WebSocket handshake.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) hello: Option<Hello>,
}

/// What a dialect begins with: a request, whose answer is awaited, and a notification.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) method: &'static str,
    pub(crate) params: &'static str,
    pub(crate) then: &'static str,
}

impl Hello {
    fn messages(&self) -> [String; 2] {
        let Self {
            method,
            params,
            then,
        } = self;
        [
            format!(r#"{{"jsonrpc":"2.0","id":{HELLO_ID},"method":"{method}","params":{params}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"{then}","params":{{}}}}"#),
        ]
    }
}

/// What is done to show a finding.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A whole message.
    Message(Vec<u8>),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// Waits.
    Pause(Duration),
    /// Waits for a message of the server, at most so long.
    Hear(Duration),
    /// Ends our direction.
    End,
}

/// What comes next from a server.
pub(crate) enum Next {
    Message(Message),
    /// The connection or the command has ended.
    Ended,
    /// Nothing until the deadline.
    Nothing,
}

/// A message of a server. Over HTTP it is a reply, whose body may be empty.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) status: Option<u16>,
    pub(crate) body: Vec<u8>,
}

type Frames = fn(bool, u8, &[u8]) -> Vec<u8>;

/// A connection of messages.
pub(crate) struct Link {
    kind: Kind,
}

enum Kind {
    Stream(Wire, Framer),
    /// The wire, and how our frames are written.
    WebSocket(Wire, Frames),
    /// A client's request over HTTP, which is replied to once.
    Served(Wire),
    /// Each message has a connection of its own.
    Http(Place, VecDeque<Wire>),
}

impl Place {
    pub(crate) fn is_http(&self) -> bool {
        matches!(self.dialler.target, Target::Http(_))
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.framing != Framing::Messages
    }

    pub(crate) fn is_command(&self) -> bool {
        matches!(self.dialler.target, Target::Command(_))
    }

    pub(crate) fn web(&self) -> Option<&Web> {
        match &self.dialler.target {
            Target::Http(web) | Target::WebSocket(web) => Some(web),
            _ => None,
        }
    }

    pub(crate) fn name(&self) -> String {
        self.dialler.target.name(self.framing)
    }

    /// Connects, and does what the dialect does first.
    pub(crate) fn open(&self) -> io::Result<Link> {
        let mut link = self.open_silent()?;
        if let Some([request, then]) = self.hello.as_ref().map(Hello::messages) {
            let deadline = Instant::now() + self.dialler.timeout;
            link.send(request.as_bytes())?;
            loop {
                match link.next(deadline) {
                    Next::Message(message) if is_hello(&message.body) => break,
                    Next::Message(_) => {}
                    Next::Ended => return Err(io::ErrorKind::ConnectionAborted.into()),
                    Next::Nothing => return Err(io::ErrorKind::TimedOut.into()),
                }
            }
            link.send(then.as_bytes())?;
        }
        Ok(link)
    }

    /// Connects, and says nothing.
    pub(crate) fn open_silent(&self) -> io::Result<Link> {
        let kind = match &self.dialler.target {
            Target::Http(_) => Kind::Http(self.clone(), VecDeque::new()),
            Target::WebSocket(web) => {
                let mut wire = self.dialler.dial()?;
                let deadline = Instant::now() + self.dialler.timeout;
                let reply = websocket::open(&mut wire, web, &self.headers, deadline);
                match reply.map(|reply| reply.status) {
                    Some(101) => Kind::WebSocket(wire, websocket::frame),
                    Some(status) => {
                        return Err(io::Error::other(format!(
                            "the handshake was answered with status {status}"
                        )));
                    }
                    None => return Err(io::Error::other("the handshake was not answered")),
                }
            }
            _ => Kind::Stream(
                self.dialler.dial()?,
                Framer::new(self.framing, MESSAGE_MAX, HEADER_MAX),
            ),
        };
        Ok(Link { kind })
    }

    /// The bytes of a message on a stream.
    pub(crate) fn framed(&self, message: &[u8]) -> Vec<u8> {
        framed(self.framing, message)
    }

    /// The bytes of a message on a stream, or in a WebSocket.
    pub(crate) fn on_wire(&self, message: &[u8]) -> Vec<u8> {
        match self.framing {
            Framing::Messages => websocket::frame(true, TEXT, message),
            framing => framed(framing, message),
        }
    }

    /// The bytes of messages one behind another.
    pub(crate) fn on_wires(&self, messages: &[Vec<u8>]) -> Vec<u8> {
        let bytes = messages.iter().flat_map(|message| self.on_wire(message));
        bytes.collect()
    }

    /// What a finding shows as sent.
    pub(crate) fn sent(&self, steps: &[Step]) -> Vec<u8> {
        let bytes = steps.iter().flat_map(|step| match step {
            Step::Message(message) => self.framed(message),
            Step::Bytes(bytes) => self.without_secrets(bytes),
            _ => Vec::new(),
        });
        bytes.collect()
    }

    /// A command that does these steps without antiphon, and prints what the server says.
    pub(crate) fn command(&self, steps: &[Step]) -> String {
        let has_messages_only = steps.iter().all(|step| matches!(step, Step::Message(_)));
        if let (Target::Http(web), true) = (&self.dialler.target, has_messages_only) {
            let posts = steps.iter().filter_map(|step| match step {
                Step::Message(message) => Some(self.curl(web, message)),
                _ => None,
            });
            return posts.collect::<Vec<_>>().join("; ");
        }
        let mut parts = Vec::new();
        if let Target::WebSocket(web) = &self.dialler.target {
            let has_handshake = steps
                .iter()
                .any(|step| matches!(step, Step::Bytes(bytes) if bytes.starts_with(b"GET ")));
            if !has_handshake {
                parts.push(printing(&websocket::handshake(web, &self.shown_headers())));
                parts.push("sleep 0.5".to_owned());
            }
        }
        for message in self.hello.iter().flat_map(Hello::messages) {
            parts.push(printing(&self.on_wire(message.as_bytes())));
            parts.push("sleep 1".to_owned());
        }
        for step in steps {
            parts.push(match step {
                Step::Message(message) => printing(&self.on_wire(message)),
                Step::Bytes(bytes) => printing(&self.without_secrets(bytes)),
                Step::Pause(pause) => format!("sleep {}", pause.as_secs_f64()),
                Step::Hear(_) => "sleep 1".to_owned(),
                Step::End => continue,
            });
        }
        if !steps.iter().any(|step| matches!(step, Step::End)) {
            parts.push("sleep 1".to_owned());
        }
        format!("{{ {}; }} | {}", parts.join("; "), self.pipe())
    }

    fn curl(&self, web: &Web, message: &[u8]) -> String {
        let mut words = "curl -si -m 5".to_owned();
        let mut headers = self.shown_headers();
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.insert(
                0,
                ("Content-Type".to_owned(), "application/json".to_owned()),
            );
        }
        for (name, value) in headers {
            words += &format!(" -H {}", double(&format!("{name}: {value}")));
        }
        let url = quoted(&web.url);
        match std::str::from_utf8(message) {
            Ok(text) if message.len() < 2000 && !text.contains('\0') && !text.starts_with('@') => {
                format!("{words} --data-binary {} {url}", quoted(text))
            }
            _ => format!(
                "{{ {}; }} | {words} --data-binary @- {url}",
                printing(message)
            ),
        }
    }

    /// Bytes without the secrets that stand in headers.
    fn without_secrets(&self, bytes: &[u8]) -> Vec<u8> {
        let secrets = self.headers.iter().filter(|(name, _)| is_secret(name));
        secrets.fold(bytes.to_vec(), |bytes, (_, value)| {
            let at = match value.is_empty() {
                true => None,
                false => http::find(&bytes, value.as_bytes()),
            };
            match at {
                Some(at) => [&bytes[..at], b"$SECRET", &bytes[at + value.len()..]].concat(),
                None => bytes,
            }
        })
    }

    /// Headers without secrets: the shell puts them in.
    pub(crate) fn shown_headers(&self) -> Vec<(String, String)> {
        let headers = self
            .headers
            .iter()
            .map(|(name, value)| match is_secret(name) {
                true => (name.clone(), "$SECRET".to_owned()),
                false => (name.clone(), value.clone()),
            });
        headers.collect()
    }

    /// The program that a pipe ends in.
    fn pipe(&self) -> String {
        let plain = |host: &str, port: u16| format!("curl -sN telnet://{host}:{port}");
        match &self.dialler.target {
            Target::Command(words) => command(words),
            Target::Unix(path) => format!("nc -U {}", quoted(path)),
            Target::Tcp { host, port } => plain(host, *port),
            Target::Http(web) | Target::WebSocket(web) => match web.is_tls {
                false => plain(&web.host, web.port),
                true => format!(
                    "openssl s_client -quiet -connect {}:{} -servername {}",
                    web.host, web.port, web.host
                ),
            },
        }
    }
}

/// The bytes of a message on a stream.
pub(crate) fn framed(framing: Framing, message: &[u8]) -> Vec<u8> {
    match framing {
        Framing::ContentLength => {
            let mut out = format!("Content-Length: {}\r\n\r\n", message.len()).into_bytes();
            out.extend_from_slice(message);
            out
        }
        Framing::Newline => [message, b"\n"].concat(),
        _ => message.to_vec(),
    }
}

fn is_secret(name: &str) -> bool {
    ["authorization", "cookie", "x-api-key"].contains(&&*name.to_ascii_lowercase())
}

/// A word in which the shell replaces `$SECRET`, and nothing else.
fn double(word: &str) -> String {
    match word.ends_with(": $SECRET") {
        true => format!("\"{word}\""),
        false => quoted(word),
    }
}

fn is_hello(body: &[u8]) -> bool {
    let message = antiphon::Json::parse(body).ok();
    message
        .and_then(|message| message.get("id"))
        .is_some_and(|id| id.as_str() == HELLO_ID)
}

impl Link {
    /// A client, which speaks over this wire.
    pub(crate) fn of_client(
        mut wire: Wire,
        over: Option<&Target>,
        framing: Framing,
    ) -> Option<Self> {
        let kind = match over {
            Some(Target::Http(_)) => Kind::Served(wire),
            Some(Target::WebSocket(_)) => {
                websocket::accept(&mut wire, Instant::now() + HANDSHAKE_MAX)?;
                Kind::WebSocket(wire, websocket::server_frame)
            }
            _ => Kind::Stream(wire, Framer::new(framing, MESSAGE_MAX, HEADER_MAX)),
        };
        Some(Self { kind })
    }

    /// Whether there is something to read, or an end.
    pub(crate) fn has_input(&mut self) -> bool {
        match &mut self.kind {
            // A blank behind a message is no message.
            Kind::Stream(wire, _) if !wire.buffer.trim_ascii_start().is_empty() => true,
            Kind::WebSocket(wire, _) | Kind::Served(wire) if !wire.buffer.is_empty() => true,
            Kind::Stream(wire, _) | Kind::WebSocket(wire, _) | Kind::Served(wire) => {
                wire.read(Instant::now()) != Got::Nothing
            }
            Kind::Http(..) => false,
        }
    }

    /// The bytes of one message in pieces.
    pub(crate) fn pieces(&self, message: &[u8]) -> Vec<Vec<u8>> {
        let thirds = |bytes: &[u8]| {
            let half = bytes.len() / 2;
            [&bytes[..1], &bytes[1..half], &bytes[half..]].map(<[u8]>::to_vec)
        };
        match &self.kind {
            Kind::Stream(_, framer) => {
                let whole = framed(framer.framing(), message);
                let mut pieces = thirds(&whole).to_vec();
                let last = pieces.last_mut().and_then(Vec::pop);
                pieces.extend(last.map(|byte| vec![byte]));
                pieces
            }
            Kind::WebSocket(_, frame) => {
                let [first, second, third] = thirds(message);
                vec![
                    frame(false, TEXT, &first),
                    frame(false, 0, &second),
                    frame(true, 0, &third),
                ]
            }
            Kind::Served(_) | Kind::Http(..) => {
                http::chunked_reply(thirds(message).iter().map(Vec::as_slice))
            }
        }
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match &mut self.kind {
            Kind::Stream(wire, framer) => wire.write(&framed(framer.framing(), message)),
            Kind::WebSocket(wire, frame) => wire.write(&frame(true, TEXT, message)),
            Kind::Served(wire) => wire.write(&http::reply(message)),
            Kind::Http(place, replies) => {
                let mut wire = place.dialler.dial()?;
                if let Some(web) = place.web() {
                    // A server that refuses early still has a reply.
                    let _ = wire.write(&http::post(web, &place.headers, message, true));
                }
                replies.push_back(wire);
                Ok(())
            }
        }
    }

    /// Does one step. Raw bytes are for streams.
    pub(crate) fn step(&mut self, step: &Step) -> io::Result<()> {
        match (step, &mut self.kind) {
            (Step::Message(message), _) => self.send(message),
            (
                Step::Bytes(bytes),
                Kind::Stream(wire, _) | Kind::WebSocket(wire, _) | Kind::Served(wire),
            ) => wire.write(bytes),
            (Step::End, Kind::Stream(wire, _) | Kind::WebSocket(wire, _) | Kind::Served(wire)) => {
                wire.end_output();
                Ok(())
            }
            (Step::Pause(pause), _) => {
                std::thread::sleep(*pause);
                Ok(())
            }
            (Step::Hear(wait), _) => {
                let _ = self.next(Instant::now() + *wait);
                Ok(())
            }
            (_, Kind::Http(..)) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// The next message.
    pub(crate) fn next(&mut self, deadline: Instant) -> Next {
        // What is in the buffer is given out past the deadline, but not without end.
        if Instant::now() > deadline + Duration::from_millis(500) {
            return Next::Nothing;
        }
        let (status, body) = match &mut self.kind {
            Kind::Stream(wire, framer) => match next_framed(wire, framer, deadline) {
                Ok(body) => (None, body),
                Err(Got::End) => return Next::Ended,
                Err(_) => return Next::Nothing,
            },
            Kind::WebSocket(wire, frame) => match next_frames(wire, *frame, deadline) {
                Ok(body) => (None, body),
                Err(Got::End) => return Next::Ended,
                Err(_) => return Next::Nothing,
            },
            Kind::Served(wire) => match http::read_request(wire, deadline) {
                Some(body) => (None, body),
                None => return Next::Ended,
            },
            Kind::Http(_, replies) => {
                let Some(wire) = replies.front_mut() else {
                    return Next::Nothing;
                };
                let reply = http::read_reply(wire, deadline);
                if reply.is_none() && !wire.is_ended() {
                    return Next::Nothing;
                }
                replies.pop_front();
                match reply {
                    Some(reply) => (Some(reply.status), reply.body),
                    None => return Next::Ended,
                }
            }
        };
        Next::Message(Message { status, body })
    }

    /// What the command has written to its standard error.
    pub(crate) fn stderr(&self) -> Vec<u8> {
        match &self.kind {
            Kind::Stream(wire, _) => wire.stderr(),
            _ => Vec::new(),
        }
    }
}

fn next_framed(wire: &mut Wire, framer: &mut Framer, deadline: Instant) -> Result<Vec<u8>, Got> {
    loop {
        let Ok(cut) = framer.cut(&wire.buffer, wire.is_ended()) else {
            // What has no frame is a message that is no JSON.
            let rest = std::mem::take(&mut wire.buffer);
            return if rest.is_empty() {
                Err(Got::End)
            } else {
                Ok(rest)
            };
        };
        let body = match &cut {
            Cut::Frame { body, .. } => Some(wire.buffer[body.clone()].to_vec()),
            _ => None,
        };
        wire.buffer.drain(..cut.consumed());
        match (body, cut) {
            (Some(body), _) => return Ok(body),
            (None, Cut::End { .. }) => return Err(Got::End),
            (None, Cut::Oversize { .. }) => continue,
            _ => {}
        }
        match wire.read(deadline) {
            Got::Bytes => {}
            Got::End if !wire.buffer.is_empty() => {}
            other => return Err(other),
        }
    }
}

fn next_frames(wire: &mut Wire, ours: Frames, deadline: Instant) -> Result<Vec<u8>, Got> {
    let mut message = Vec::new();
    loop {
        let frame = websocket::read_frame(wire, deadline)?;
        match frame.opcode {
            CLOSE => return Err(Got::End),
            PING => drop(wire.write(&ours(true, PONG, &frame.payload))),
            PONG => {}
            _ => {
                message.extend(frame.payload);
                if frame.is_last {
                    return Ok(message);
                }
            }
        }
    }
}
