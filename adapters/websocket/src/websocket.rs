//! The WebSocket itself: its phases, its deadlines and its own output.
//!
//! No messages are sent before the handshake has ended or after a close. However many pings arrive,
//! only one pong waits. Everything that is awaited has a deadline.
//!
//! ```text
//!   Handshake ──opened──▶ Open ──our close──▶ Closing ──their close, or too late──▶ Ended
//!    │  └their refusal     ├──a message too large──▶ Oversize ──our close──▶ Ended
//!    │     ▼               └──their close, a broken rule, no pong, end of input──▶ Ended
//!    │  Refused──▶ Ended
//!    └──refused, late, end of input──▶ Ended ──told──▶ Over
//! ```
//!
//! Not in the picture: the end of input ends every phase; our close ends `Handshake` and `Refused`
//! too; and input that breaks a rule ends `Closing`.

mod layer;

use std::fmt;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use antiphon::http::HttpAnswer;
use antiphon::session::{Handshake, LayerEvent, Session, SessionConfig, Wire};
use antiphon::websocket::CloseCode;
use antiphon::{Config, Instant, KeepAlive, KeepAliveAction};
use tungstenite::http::{HeaderMap, StatusCode};
use tungstenite::protocol::frame::coding::{Control, OpCode};

use crate::client;
use crate::end::WebSocketEnd;
use crate::handshake::gather;
use crate::options::WebSocketConfig;
use crate::read::{Fault, FrameReader, Received};
use crate::refused::Refused;
use crate::server;
use crate::write;

/// One side of a WebSocket, without the socket: a [`Layer`](antiphon::session::Layer), which a
/// session drives, or you do by hand.
///
/// ```
/// use antiphon::session::{Layer, LayerEvent};
/// use antiphon::{Config, Instant};
/// use antiphon_websocket::{WebSocket, WebSocketConfig};
///
/// let config = Config::new().for_websocket();
/// let options = WebSocketConfig::client("ws://localhost/rpc")?;
/// let mut client = WebSocket::new(options.into(), &config, Instant::ZERO)?;
/// let mut server = WebSocket::new(WebSocketConfig::server().into(), &config, Instant::ZERO)?;
///
/// // The request, and the answer.
/// let (mut wire, mut back) = (Vec::new(), Vec::new());
/// client.take_transmit(&mut wire);
/// assert!(matches!(server.poll_event(&mut &wire[..]), Some(LayerEvent::Opened(_))));
/// server.take_transmit(&mut back);
/// assert!(matches!(client.poll_event(&mut &back[..]), Some(LayerEvent::Opened(_))));
///
/// // A message.
/// let mut wire = Vec::new();
/// client.send(b"[]", &mut wire);
/// let Some(LayerEvent::Message(message)) = server.poll_event(&mut &wire[..]) else { panic!() };
/// assert_eq!(message, "[]");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WebSocket {
    options: Arc<WebSocketConfig>,
    reader: FrameReader,
    message_timeout: Option<Duration>,
    /// The latest time that was set.
    now: Instant,
    /// The latest time up to which deadlines may take effect.
    judged: Instant,
    phase: Phase,
    /// The data of a handshake that was answered elsewhere, until it is reported.
    accepted: Option<Box<Handshake>>,
    keep_alive: KeepAlive,
    /// The deadline of a message that has begun.
    message_due: Option<Instant>,
    /// When the next application heartbeat is due.
    heartbeat_due: Option<Instant>,
    /// Handshake and control frames that are to be written.
    output: Vec<u8>,
    /// The payload of the last ping that has not been answered.
    pong: Option<Vec<u8>>,
    /// How it ended.
    end: Option<Box<WebSocketEnd>>,
}

/// How far the WebSocket has come: see the picture above.
enum Phase {
    /// A server reads the head of the request, a client that of the answer, which must have this
    /// `Sec-WebSocket-Accept`.
    Handshake(Vec<u8>, Option<String>),
    /// The server's answer does not open the WebSocket, and the beginning of its body is awaited.
    Refused(Box<Refused>),
    Open,
    /// Our close was sent; theirs is awaited until this time.
    Closing(Instant),
    /// A message is too large: no more is read, and output is still to be written.
    Oversize,
    /// The end is to be reported.
    Ended,
    /// The end was reported.
    Over,
}

impl WebSocket {
    /// Begins a handshake, whose deadline counts from `now`. A client's request is in the output
    /// from then on. `config` has the limits on the size and the time of messages, and sets what
    /// happens to binary messages.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a client's request cannot be made; or the
    /// error of the source of the bearer token.
    pub fn new(options: Arc<WebSocketConfig>, config: &Config, now: Instant) -> io::Result<Self> {
        let mut websocket = Self::open(options, config, now);
        let (options, output) = (&websocket.options, &mut websocket.output);
        let request = options.request.as_ref();
        let accept = request.map(|request| client::ask(request, &options.rules, output));
        let invalid = |error| match error {
            tungstenite::Error::Io(error) => error,
            error => io::Error::new(io::ErrorKind::InvalidInput, error),
        };
        let accept = accept.transpose().map_err(invalid)?;
        websocket.phase = Phase::Handshake(Vec::new(), accept);
        Ok(websocket)
    }

    /// Begins after a handshake that was read and [answered](WebSocketConfig::answer) elsewhere: frames follow. Its
    /// first event has the data of the handshake.
    pub fn accepted(
        options: Arc<WebSocketConfig>,
        config: &Config,
        now: Instant,
        handshake: Handshake,
    ) -> Self {
        let mut websocket = Self::open(options, config, now);
        websocket.accepted = Some(Box::new(handshake));
        websocket.become_open();
        websocket
    }

    /// Makes a WebSocket that is open.
    fn open(options: Arc<WebSocketConfig>, config: &Config, now: Instant) -> Self {
        Self {
            reader: FrameReader::new(
                options.is_server(),
                config.limits.max_message_bytes,
                config.dialect.binary,
            ),
            message_timeout: config.timeouts.message_timeout,
            now,
            judged: now,
            phase: Phase::Open,
            accepted: None,
            keep_alive: KeepAlive::new(options.rules.keep_alive, now),
            options,
            message_due: None,
            heartbeat_due: None,
            output: Vec::new(),
            pong: None,
            end: None,
        }
    }

    /// Begins a session over a WebSocket: a client's or a server's, as `options` say. `config` need not be
    /// made [for WebSockets](Config::for_websocket).
    ///
    /// ```
    /// use antiphon::session::Session;
    /// use antiphon::{Config, Instant};
    /// use antiphon_websocket::{WebSocket, WebSocketConfig};
    ///
    /// let options = WebSocketConfig::client("ws://localhost/rpc")?;
    /// let mut client: Session<()> = WebSocket::session(options, Config::new(), Instant::ZERO)?;
    /// // The handshake is the first output.
    /// let mut output = Vec::new();
    /// assert!(client.take_transmit(&mut output));
    /// assert!(output.starts_with(b"GET /rpc HTTP/1.1\r\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn session<W>(
        options: impl Into<Arc<WebSocketConfig>>,
        config: impl Into<SessionConfig>,
        now: Instant,
    ) -> io::Result<Session<W>> {
        let mut config = config.into();
        config.config = config.config.for_websocket();
        let layer = Self::new(options.into(), &config.config, now)?;
        Ok(Session::new(config, Wire::Layered(Box::new(layer)), now))
    }

    /// Closes the WebSocket; no message can be sent any more. While it is open, a close frame is
    /// sent, and the WebSocket ends when the other side's close frame has arrived or
    /// `close_timeout` has passed. A second close changes nothing. In any other phase the WebSocket
    /// ends without waiting; during the handshake no close frame is sent.
    pub fn close_with(&mut self, code: CloseCode, reason: &str) {
        match self.phase {
            Phase::Open => {
                self.say_close(Some(code), reason);
                let until = self.now + self.options.rules.close_timeout;
                self.phase = Phase::Closing(until);
            }
            Phase::Oversize => {
                self.say_close(Some(code), reason);
                self.finish(WebSocketEnd::Local);
            }
            Phase::Handshake(..) | Phase::Refused(_) => {
                self.output = Vec::new();
                self.finish(WebSocketEnd::Local);
            }
            Phase::Closing(_) | Phase::Ended | Phase::Over => {}
        }
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<&WebSocketEnd> {
        self.end.as_deref()
    }

    fn is_masked(&self) -> bool {
        !self.options.is_server()
    }

    /// Takes the next event of the current phase out of `input`.
    fn read(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        match &mut self.phase {
            Phase::Handshake(head, _) => {
                if gather(head, self.options.rules.max_header_bytes, input) {
                    return self.finish_handshake().or_else(|| self.read(input));
                }
                if !input.is_empty() {
                    self.refuse(HttpAnswer::text(431, "its head is too long\n"));
                }
            }
            Phase::Refused(refused) => {
                if refused.gather(input) {
                    self.finish_refused();
                }
            }
            Phase::Open => return self.read_open(input),
            // Messages that were sent before our close arrived are ignored.
            Phase::Closing(_) => {
                while let Some(received) = self.reader.poll(input).transpose() {
                    if matches!(received, Ok(Received::Close(..)) | Err(_)) {
                        self.finish(WebSocketEnd::Local);
                        break;
                    }
                }
            }
            Phase::Oversize | Phase::Ended | Phase::Over => *input = &[],
        }
        None
    }

    /// Checks the head that was read. Returns `None` if it does not open the WebSocket.
    fn finish_handshake(&mut self) -> Option<LayerEvent> {
        let Phase::Handshake(head, accept) = self.take_phase() else {
            return None;
        };
        let rules = &self.options.rules;
        let judged = match (accept, &self.options.request) {
            (Some(accept), Some(request)) => {
                client::judge(&head, &accept, request.url.target(), rules)
                    .map_err(|refused| self.phase = Phase::Refused(refused))
            }
            _ => server::answer(&head, &self.options, &mut self.output)
                .map_err(|answer| self.refuse(answer)),
        };
        let handshake = judged.ok()?;
        self.become_open();
        Some(LayerEvent::Opened(handshake))
    }

    fn become_open(&mut self) {
        self.phase = Phase::Open;
        self.keep_alive.handle_open(self.now);
        self.next_heartbeat();
    }

    /// Reads frames up to the next event, while the WebSocket is open.
    fn read_open(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        loop {
            let received = self.reader.poll(input);
            let due = self.message_due.or_else(|| self.message_due_from_now());
            self.message_due = due.filter(|_| self.reader.is_unfinished());
            match received {
                Ok(None) => return None,
                Ok(Some(Received::Text(text))) => return Some(LayerEvent::Message(text)),
                Ok(Some(Received::Ping(payload))) => self.pong = Some(payload),
                Ok(Some(Received::Nothing)) => {}
                Ok(Some(Received::Close(code, reason))) => {
                    // Clause 5.5.1: the same code is sent back.
                    self.say_close(code, "");
                    self.finish(WebSocketEnd::Peer { code, reason });
                    return None;
                }
                Err(Fault::Oversize(bytes)) => {
                    *input = &[];
                    self.phase = Phase::Oversize;
                    return Some(LayerEvent::Oversize(bytes));
                }
                Err(Fault::Broken(code, reason)) => {
                    self.fail(code, reason);
                    return None;
                }
            }
        }
    }

    /// Sets when the next application heartbeat is due: one interval from now. Returns the method
    /// of the heartbeat, or `None` if this side sends none.
    fn next_heartbeat(&mut self) -> Option<&'static str> {
        let own = self.options.rules.own_heartbeat(self.options.is_server());
        // With an interval of zero the next heartbeat would always be due.
        let due = |span: Duration| self.now + span.max(Duration::from_millis(1));
        self.heartbeat_due = own.map(|(_, span)| due(span));
        own.map(|(method, _)| method)
    }

    /// Returns the deadline of a message that begins now; `None` without `message_timeout`.
    fn message_due_from_now(&self) -> Option<Instant> {
        self.message_timeout.map(|span| self.now + span)
    }

    /// Does what is due: sends a ping, or ends the WebSocket because a deadline has passed.
    fn act_on_time(&mut self) {
        match self.phase {
            Phase::Handshake(..) if self.keep_alive.poll_action(self.judged).is_some() => {
                self.refuse(HttpAnswer::text(408, "the request took too long\n"));
                self.finish(WebSocketEnd::HandshakeTimedOut);
            }
            Phase::Refused(_) if self.keep_alive.poll_action(self.judged).is_some() => {
                self.finish_refused();
            }
            Phase::Open if self.message_due.is_some_and(|due| due <= self.judged) => {
                self.fail(CloseCode::POLICY, "a message took too long");
            }
            Phase::Open => match self.keep_alive.poll_action(self.judged) {
                None => {}
                // The ping has no payload to be compared with a pong's, because any input after it
                // counts as its answer.
                Some(KeepAliveAction::SendPing) => self.say(Control::Ping, &[]),
                Some(KeepAliveAction::PeerDead | KeepAliveAction::ConnectTimedOut) => {
                    let (code, reason) = CloseCode::after_silence();
                    self.say_close(Some(code), reason);
                    self.finish(WebSocketEnd::PingTimedOut);
                }
            },
            Phase::Closing(until) if until <= self.judged => self.finish(WebSocketEnd::Local),
            // In the other phases there is no deadline, or it has not passed.
            _ => {}
        }
    }

    /// Ends the WebSocket because the other side broke a rule.
    fn fail(&mut self, code: CloseCode, reason: &'static str) {
        self.say_close(Some(code), reason);
        self.finish(WebSocketEnd::Broken { code, reason });
    }

    /// Ends a handshake. A server answers the request so.
    fn refuse(&mut self, answer: HttpAnswer) {
        let is_server = self.options.is_server();
        let status = StatusCode::from_u16(answer.status).ok();
        let why = answer.body_text().unwrap_or_default();
        let status = status.filter(|_| is_server);
        let refused = Refused::new(status, why.trim_end(), HeaderMap::new());
        if is_server {
            server::refuse(answer, &mut self.output);
        }
        self.finish(refused.end());
    }

    /// Ends a handshake that the server has refused, with the received part of its answer.
    fn finish_refused(&mut self) {
        if let Phase::Refused(refused) = self.take_phase() {
            self.finish(refused.end());
        }
    }

    /// Takes the phase, for its content; the next one must be set.
    fn take_phase(&mut self) -> Phase {
        mem::replace(&mut self.phase, Phase::Ended)
    }

    /// Puts a control frame into the output.
    fn say(&mut self, what: Control, payload: &[u8]) {
        let is_masked = self.is_masked();
        write::frame(&mut self.output, OpCode::Control(what), payload, is_masked);
    }

    /// Puts a close frame into the output, in place of a pong that waits.
    fn say_close(&mut self, code: Option<CloseCode>, reason: &str) {
        self.pong = None;
        self.say(Control::Close, &write::close_payload(code, reason));
    }

    fn finish(&mut self, end: WebSocketEnd) {
        self.phase = Phase::Ended;
        self.end = Some(Box::new(end));
    }
}

impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("is_server", &self.options.is_server())
            .finish_non_exhaustive()
    }
}
