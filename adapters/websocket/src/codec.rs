//! The WebSocket itself: its states, its deadlines and its own output.
//!
//! The rules guarded here: nothing of the conversation goes out before the handshake is done or
//! after a close; however much is pinged, one pong waits; whatever is awaited has a deadline.

use std::fmt;
use std::io;
use std::sync::Arc;

use antiphon::websocket::{CloseCode, Refusal, WebSocketRules};
use antiphon::{
    BinaryMessages, Closed, Config, ConnectionError, Instant, KeepAlive, KeepAliveAction,
};
use tungstenite::Bytes;
use tungstenite::http::HeaderMap;

use super::client;
use super::frames::{Fault, Frames, Received};
use super::head::{Gathered, Head};
use super::options::WebSocketOptions;
use super::refusal::Refusing;
use super::server;
use super::write;
use super::{WebSocketEnd, WebSocketEvent};

/// One side of a WebSocket, without the socket.
///
/// ```
/// use antiphon::{Config, Instant};
/// use antiphon_websocket::{WebSocket, WebSocketEvent, WebSocketOptions};
///
/// let config = Config::new().for_websocket();
/// let options = WebSocketOptions::client("ws://localhost/rpc")?;
/// let mut client = WebSocket::new(options.into(), &config, Instant::ZERO)?;
/// let mut server = WebSocket::new(WebSocketOptions::server().into(), &config, Instant::ZERO)?;
///
/// // The request, and the answer.
/// let (mut wire, mut back) = (Vec::new(), Vec::new());
/// client.take_output(&mut wire);
/// assert!(matches!(server.poll_event(&mut &wire[..]), Some(WebSocketEvent::Opened(_))));
/// server.take_output(&mut back);
/// assert!(matches!(client.poll_event(&mut &back[..]), Some(WebSocketEvent::Opened(_))));
///
/// // A message.
/// let mut wire = Vec::new();
/// client.send(b"[]", &mut wire);
/// let Some(WebSocketEvent::Message(message)) = server.poll_event(&mut &wire[..]) else { panic!() };
/// assert_eq!(message.as_str(), "[]");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WebSocket {
    options: Arc<WebSocketOptions>,
    message_bytes_max: usize,
    frame_time_max: Option<std::time::Duration>,
    binary: BinaryMessages,
    /// The latest time told.
    now: Instant,
    /// The latest time up to which deadlines may end something.
    judged: Instant,
    phase: Phase,
    keep_alive: KeepAlive,
    /// When a message that has begun must have ended.
    message_due: Option<Instant>,
    /// When the other side's close is no longer awaited.
    close_due: Option<Instant>,
    /// Handshake and control frames that wait.
    output: Vec<u8>,
    /// The last ping that has not been answered.
    pong: Option<Bytes>,
    /// An end that has not been told.
    end: Option<WebSocketEnd>,
}

enum Phase {
    /// The request is awaited.
    Server(Head),
    /// The answer is awaited, with this key.
    Client(Head, String),
    /// The server has refused, and the beginning of its answer's body is awaited.
    Refused(Box<Refusing>),
    Open(Box<Frames>),
    /// Our close is sent, theirs is awaited.
    Closing(Box<Frames>),
    /// Nothing more is read, but still written.
    Deaf,
    Closed,
}

impl WebSocket {
    /// Begins a handshake, whose time runs from `now` on. A client's request is output at once.
    /// `config` gives the limit on messages, on the time they may take, and what a binary message
    /// does.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a client's request cannot be made.
    pub fn new(options: Arc<WebSocketOptions>, config: &Config, now: Instant) -> io::Result<Self> {
        let mut output = Vec::new();
        let head = Head::new(options.rules.header_bytes_max);
        let phase = match &options.request {
            None => Phase::Server(head),
            Some(request) => {
                Phase::Client(head, client::ask(request, &options.rules, &mut output)?)
            }
        };
        Ok(Self {
            keep_alive: KeepAlive::new(options.rules.keep_alive, now),
            options,
            message_bytes_max: config.message_bytes_max,
            frame_time_max: config.frame_time_max,
            binary: config.binary,
            now,
            judged: now,
            phase,
            message_due: None,
            close_due: None,
            output,
            pong: None,
            end: None,
        })
    }

    /// Tells the present; [`poll_event`](Self::poll_event) acts on it. What has arrived is to be read before.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        self.judged = self.judged.max(now);
    }

    /// Tells the present without letting a deadline end anything.
    pub fn handle_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Tells that nothing has been read for a while, up to now: pongs and messages that have begun get
    /// their time anew.
    pub fn restart_times(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.keep_alive.handle_received(self.now);
        if self.message_due.is_some() {
            self.message_due = self.frame_time_max.map(|span| self.now + span);
        }
    }

    /// Takes the next event out of `input`, or tells what time has done. None once all of the
    /// input has been taken and nothing is due. Nothing is ever left over.
    pub fn poll_event(&mut self, input: &mut &[u8]) -> Option<WebSocketEvent> {
        if !input.is_empty() {
            self.keep_alive.handle_received(self.now);
        }
        if let Some(event) = self.read(input) {
            return Some(event);
        }
        self.act_on_time();
        self.end.take().map(WebSocketEvent::Closed)
    }

    /// Tells that nothing more comes in, but that something is still to be said: then it is [closed](Self::close) later.
    /// False if it is not open.
    pub fn handle_half_close(&mut self) -> bool {
        let is_open = matches!(self.phase, Phase::Open(_));
        if is_open {
            self.phase = Phase::Deaf;
        }
        is_open
    }

    /// Tells that the stream has ended.
    pub fn handle_eof(&mut self) {
        match self.phase {
            Phase::Server(_) | Phase::Client(..) => {
                self.finish(WebSocketEnd::Lost { was_open: false })
            }
            Phase::Refused(_) => self.finish_refused(),
            Phase::Open(_) => self.finish(WebSocketEnd::Lost { was_open: true }),
            Phase::Closing(_) | Phase::Deaf => self.finish(WebSocketEnd::Local),
            Phase::Closed => {}
        }
    }

    /// Appends a message as it is to be sent. False, and nothing appended, unless
    /// [`may_send`](Self::may_send).
    pub fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        let may_send = self.may_send();
        if may_send {
            write::text(into, message, self.is_masked());
        }
        may_send
    }

    /// Closes it: at once if nothing is awaited from the other side, else when its close has come
    /// or `close_time_max` has passed. Nothing may be sent any more.
    pub fn close(&mut self, code: CloseCode, reason: &str) {
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Open(frames) => {
                self.say_close(Some(code), reason);
                self.close_due = Some(self.now + self.rules().close_time_max);
                self.phase = Phase::Closing(frames);
            }
            Phase::Deaf => {
                self.say_close(Some(code), reason);
                self.finish(WebSocketEnd::Local);
            }
            Phase::Server(_) | Phase::Client(..) | Phase::Refused(_) => {
                self.output = Vec::new();
                self.finish(WebSocketEnd::Local);
            }
            phase @ (Phase::Closing(_) | Phase::Closed) => self.phase = phase,
        }
    }

    /// Appends the output of the WebSocket itself to `into`: handshake, pongs, close. It goes
    /// before whatever is sent later. False if there is none.
    pub fn take_output(&mut self, into: &mut Vec<u8>) -> bool {
        let had = into.len();
        if into.is_empty() {
            std::mem::swap(&mut self.output, into);
        } else {
            into.append(&mut self.output);
        }
        self.output = Vec::new();
        if let Some(payload) = self.pong.take() {
            write::pong(into, &payload, self.is_masked());
        }
        into.len() > had
    }

    /// Whether [`take_output`](Self::take_output) would give anything.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty() || self.pong.is_some()
    }

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Server(_) | Phase::Client(..) | Phase::Refused(_) => {
                self.keep_alive.poll_timeout()
            }
            Phase::Open(_) => {
                let due = self.keep_alive.poll_timeout();
                due.into_iter().chain(self.message_due).min()
            }
            Phase::Closing(_) => self.close_due,
            Phase::Deaf | Phase::Closed => None,
        }
    }

    /// Whether the handshake is over, one way or the other.
    pub fn is_decided(&self) -> bool {
        !matches!(
            self.phase,
            Phase::Server(_) | Phase::Client(..) | Phase::Refused(_)
        )
    }

    /// Whether the server has refused the handshake, and only its words may still come.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.phase, Phase::Refused(_))
    }

    /// Whether nothing more is read; the last event has been told, or is about to be.
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether messages may be sent.
    pub fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Open(_) | Phase::Deaf)
    }

    /// Whether it is over and all of its output taken.
    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed) && !self.has_output()
    }

    /// What it was told beforehand.
    pub fn options(&self) -> &WebSocketOptions {
        &self.options
    }

    fn rules(&self) -> &WebSocketRules {
        &self.options.rules
    }

    fn is_masked(&self) -> bool {
        !self.options.is_server()
    }

    fn read(&mut self, input: &mut &[u8]) -> Option<WebSocketEvent> {
        match &mut self.phase {
            Phase::Server(head) | Phase::Client(head, _) => match head.gather(input) {
                Gathered::Part => None,
                Gathered::Whole => self.shake().or_else(|| self.read(input)),
                Gathered::TooLong => {
                    self.refuse(431, "its head is too long");
                    None
                }
            },
            Phase::Refused(refusing) => {
                if refusing.gather(input) {
                    self.finish_refused();
                }
                None
            }
            Phase::Open(_) => self.read_open(input),
            Phase::Closing(frames) => {
                // What was on its way when the close was sent is not wanted any more.
                while let Some(received) = frames.poll(input) {
                    if let Received::Close(_) | Received::Fault(_) | Received::Oversize(_) =
                        received
                    {
                        self.finish(WebSocketEnd::Local);
                        break;
                    }
                }
                None
            }
            Phase::Deaf | Phase::Closed => {
                *input = &[];
                None
            }
        }
    }

    /// Judges the head that has been gathered. None if the body of a refusal comes after it.
    fn shake(&mut self) -> Option<WebSocketEvent> {
        let phase = std::mem::replace(&mut self.phase, Phase::Closed);
        let rules = &self.options.rules;
        let judged = match &phase {
            Phase::Client(head, key) => {
                let target = self
                    .options
                    .request
                    .as_ref()
                    .map(|request| request.url().target());
                client::judge(head.as_bytes(), key, target.unwrap_or("/"), rules)
                    .map_err(|mismatch| (mismatch.status, mismatch.reason, mismatch.headers))
            }
            Phase::Server(head) => server::answer(head.as_bytes(), rules, &mut self.output)
                .map_err(|refused| {
                    (
                        Some(refused.status),
                        refused.reason.into(),
                        HeaderMap::new(),
                    )
                }),
            _ => Err((None, String::new(), HeaderMap::new())),
        };
        match judged {
            Ok(opened) => {
                self.keep_alive.handle_open(self.now);
                self.phase = Phase::Open(Box::new(Frames::new(
                    self.options.is_server(),
                    self.message_bytes_max,
                    self.binary,
                )));
                Some(WebSocketEvent::Opened(opened))
            }
            Err((Some(status), reason, headers)) if !self.options.is_server() && status != 101 => {
                self.phase = Phase::Refused(Box::new(Refusing::new(status, reason, headers)));
                None
            }
            Err((status, reason, headers)) => Some(WebSocketEvent::Closed(WebSocketEnd::Refused {
                status,
                reason,
                headers,
                text: String::new(),
            })),
        }
    }

    fn read_open(&mut self, input: &mut &[u8]) -> Option<WebSocketEvent> {
        let Phase::Open(frames) = &mut self.phase else {
            return None;
        };
        loop {
            let ended = frames.ended();
            let received = frames.poll(input);
            if frames.ended() != ended {
                self.message_due = None;
            }
            match received {
                Some(Received::Text(text)) => return Some(WebSocketEvent::Message(text)),
                Some(Received::Ping(payload)) => self.pong = Some(payload),
                Some(Received::Pong) => {}
                Some(Received::Oversize(bytes)) => {
                    *input = &[];
                    self.phase = Phase::Deaf;
                    return Some(WebSocketEvent::Oversize(bytes));
                }
                Some(Received::Close(frame)) => {
                    let (code, reason) = write::closing(frame);
                    // Clause 5.5.1: the same code goes back.
                    self.say_close(code, "");
                    self.finish(WebSocketEnd::Peer { code, reason });
                    return None;
                }
                Some(Received::Fault(fault)) => {
                    self.fail(&fault);
                    return None;
                }
                None => break,
            }
        }
        if frames.is_unfinished() && self.message_due.is_none() {
            self.message_due = self.frame_time_max.map(|span| self.now + span);
        }
        None
    }

    fn act_on_time(&mut self) {
        match self.phase {
            Phase::Server(_) | Phase::Client(..) => {
                if self.keep_alive.poll_action(self.judged).is_some() {
                    self.refuse(408, "the request took too long");
                    self.end = Some(WebSocketEnd::HandshakeTimedOut);
                }
            }
            Phase::Refused(_) => {
                if self.keep_alive.poll_action(self.now).is_some() {
                    self.finish_refused();
                }
            }
            Phase::Open(_) => self.act_on_time_open(),
            Phase::Closing(_) => {
                if self.close_due.is_some_and(|due| due <= self.judged) {
                    self.finish(WebSocketEnd::Local);
                }
            }
            Phase::Deaf | Phase::Closed => {}
        }
    }

    fn act_on_time_open(&mut self) {
        if self.message_due.is_some_and(|due| due <= self.judged) {
            let (code, reason) = CloseCode::of(
                Closed::Failed(ConnectionError::FrameTimedOut),
                self.options.is_server(),
            );
            self.fail(&Fault { code, reason });
            return;
        }
        match self.keep_alive.poll_action(self.judged) {
            None => {}
            Some(KeepAliveAction::SendPing) => {
                let is_masked = self.is_masked();
                write::ping(&mut self.output, is_masked);
            }
            Some(KeepAliveAction::PeerDead | KeepAliveAction::ConnectTimedOut) => {
                let (code, reason) = CloseCode::after_silence();
                self.say_close(Some(code), reason);
                self.finish(WebSocketEnd::PingTimedOut);
            }
        }
    }

    /// Ends it because the other side broke a rule.
    fn fail(&mut self, fault: &Fault) {
        self.say_close(Some(fault.code), fault.reason);
        self.finish(WebSocketEnd::Broken {
            code: fault.code,
            reason: fault.reason,
        });
    }

    /// Ends a handshake.
    fn refuse(&mut self, status: u16, reason: &'static str) {
        if self.options.is_server() {
            server::refuse(Refusal { status, reason }, &mut self.output);
        }
        self.finish(WebSocketEnd::Refused {
            status: self.options.is_server().then_some(status),
            reason: reason.into(),
            headers: HeaderMap::new(),
            text: String::new(),
        });
    }

    /// Ends a handshake that the server has refused, with what has come of its answer.
    fn finish_refused(&mut self) {
        if let Phase::Refused(refusing) = std::mem::replace(&mut self.phase, Phase::Closed) {
            self.finish(refusing.end());
        }
    }

    fn say_close(&mut self, code: Option<CloseCode>, reason: &str) {
        self.pong = None;
        let is_masked = self.is_masked();
        write::close(&mut self.output, code, reason, is_masked);
    }

    fn finish(&mut self, end: WebSocketEnd) {
        self.phase = Phase::Closed;
        self.end = Some(end);
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("is_server", &self.options.is_server())
            .field(
                "phase",
                &match self.phase {
                    Phase::Server(_) | Phase::Client(..) | Phase::Refused(_) => "handshake",
                    Phase::Open(_) => "open",
                    Phase::Closing(_) => "closing",
                    Phase::Deaf => "deaf",
                    Phase::Closed => "closed",
                },
            )
            .field("output", &self.output.len())
            .finish_non_exhaustive()
    }
}
