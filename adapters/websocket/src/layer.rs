//! A WebSocket as the layer of a session: its codec, application heartbeats, and what to close with.

use std::io;
use std::sync::Arc;

use antiphon::session::{self, Fault, Handshake, LayerEnd, LayerEvent};
use antiphon::websocket::{CloseCode, Heartbeat};
use antiphon::{Closed, Config, Instant};

use super::{WebSocket, WebSocketEnd, WebSocketEvent, WebSocketOptions};

/// The WebSocket of a session.
#[derive(Debug)]
pub struct WebSocketLayer {
    websocket: WebSocket,
    now: Instant,
    /// When the next application heartbeat is due.
    heartbeat_at: Option<Instant>,
    /// A heartbeat that is to be sent.
    heartbeat: Option<&'static str>,
    /// What to close with, where the end of the conversation does not tell.
    close: Option<(CloseCode, &'static str)>,
}

impl WebSocketLayer {
    /// Begins a handshake: see [`WebSocket::new`].
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if a client's request cannot be made.
    pub fn new(options: Arc<WebSocketOptions>, config: &Config, now: Instant) -> io::Result<Self> {
        Ok(Self {
            websocket: WebSocket::new(options, config, now)?,
            now,
            heartbeat_at: None,
            heartbeat: None,
            close: None,
        })
    }

    fn is_server(&self) -> bool {
        self.websocket.options().is_server()
    }

    /// The heartbeat of this side, and when the next is due.
    fn own_heartbeat(&self) -> Option<(&'static str, Instant)> {
        let rules = &self.websocket.options().rules;
        let heartbeat = rules.own_heartbeat(self.is_server());
        heartbeat.map(|(method, span)| (method, self.now + span))
    }

    fn open(&mut self, handshake: Handshake) -> LayerEvent {
        self.heartbeat_at = self.own_heartbeat().map(|(_, due)| due);
        LayerEvent::Opened(handshake)
    }

    /// What the end of the WebSocket is to the session.
    fn end(&self, end: WebSocketEnd) -> LayerEnd {
        let kind = match &end {
            WebSocketEnd::Local => return LayerEnd::Local,
            WebSocketEnd::Peer { code, .. } => {
                let is_failure = code.is_some_and(CloseCode::is_failure);
                return LayerEnd::Peer(is_failure.then(|| end.into()));
            }
            WebSocketEnd::Broken { .. } => return LayerEnd::Misbehaved(end.into()),
            WebSocketEnd::Refused { .. } if self.is_server() => {
                return LayerEnd::Misbehaved(end.into());
            }
            WebSocketEnd::Refused { .. } => io::ErrorKind::ConnectionRefused,
            WebSocketEnd::Lost { .. } => io::ErrorKind::UnexpectedEof,
            WebSocketEnd::HandshakeTimedOut | WebSocketEnd::PingTimedOut => io::ErrorKind::TimedOut,
        };
        LayerEnd::Lost(io::Error::new(kind, end).into())
    }
}

impl session::Layer for WebSocketLayer {
    fn handle_time(&mut self, now: Instant) {
        self.now = now;
        self.websocket.handle_time(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        self.websocket.handle_timeout(now);
        if self.heartbeat_at.is_some_and(|due| due <= now) {
            let heartbeat = self.own_heartbeat();
            self.heartbeat = heartbeat.map(|(method, _)| method);
            self.heartbeat_at = heartbeat.map(|(_, due)| due);
        }
    }

    fn restart_times(&mut self, now: Instant) {
        self.websocket.restart_times(now);
    }

    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        if let Some(method) = self.heartbeat.take() {
            return Some(LayerEvent::Notify(method));
        }
        Some(match self.websocket.poll_event(input)? {
            WebSocketEvent::Opened(opened) => self.open(opened),
            WebSocketEvent::Message(text) => LayerEvent::Message(text.as_str().into()),
            WebSocketEvent::Oversize(bytes) => {
                self.close = Some(CloseCode::after_oversize());
                LayerEvent::Oversize(bytes)
            }
            WebSocketEvent::Closed(end) => {
                self.heartbeat_at = None;
                LayerEvent::Ended(self.end(end))
            }
        })
    }

    fn handle_half_close(&mut self) -> Option<Fault> {
        if !self.websocket.handle_half_close() {
            return None;
        }
        self.heartbeat_at = None;
        let lost = WebSocketEnd::Lost { was_open: true };
        Some(io::Error::new(io::ErrorKind::UnexpectedEof, lost.to_string()).into())
    }

    fn handle_eof(&mut self) {
        self.websocket.handle_eof();
    }

    fn is_closed(&self) -> bool {
        self.websocket.is_closed() || self.websocket.is_refused()
    }

    fn hear(&mut self, method: &str) -> Heartbeat {
        self.websocket
            .options()
            .rules
            .hear(self.is_server(), method)
    }

    fn may_send(&self) -> bool {
        self.websocket.may_send()
    }

    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        self.websocket.send(message, into)
    }

    fn close(&mut self, why: Closed) {
        let close = self.close.unwrap_or(CloseCode::of(why, self.is_server()));
        self.websocket.close(close.0, close.1);
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) {
        self.websocket.take_output(into);
    }

    fn has_transmit(&self) -> bool {
        self.websocket.has_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.websocket.poll_timeout();
        due.into_iter().chain(self.heartbeat_at).min()
    }

    fn is_over(&self) -> bool {
        self.websocket.is_over()
    }
}
