//! A WebSocket as the layer of a session: application heartbeats, and the close codes.

use std::io;
use std::mem;

use antiphon::session::{Layer, LayerEnd, LayerEvent};
use antiphon::websocket::{CloseCode, Heartbeat};
use antiphon::{Closed, Instant};
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::{Phase, WebSocket};
use crate::end::WebSocketEnd;
use crate::write;

impl Layer for WebSocket {
    fn handle_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_time(now);
        self.judged = self.judged.max(now);
    }

    fn restart_times(&mut self, now: Instant) {
        self.handle_time(now);
        self.keep_alive.handle_received(self.now);
        if self.message_due.is_some() {
            self.message_due = self.message_due_from_now();
        }
    }

    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        let accepted = self.accepted.take();
        if let Some(handshake) = accepted.filter(|_| matches!(self.phase, Phase::Open)) {
            return Some(LayerEvent::Opened(*handshake));
        }
        let is_due = self.heartbeat_due.is_some_and(|due| due <= self.judged);
        if is_due && matches!(self.phase, Phase::Open) {
            return self.next_heartbeat().map(LayerEvent::Notify);
        }
        if !input.is_empty() {
            self.keep_alive.handle_received(self.now);
        }
        let event = self.read(input);
        if event.is_some() {
            return event;
        }
        self.act_on_time();
        self.tell_end().map(LayerEvent::Ended)
    }

    fn handle_eof(&mut self) {
        match self.phase {
            Phase::Handshake(..) => self.finish(WebSocketEnd::Lost { was_open: false }),
            Phase::Refused(_) => self.finish_refused(),
            Phase::Open => self.finish(WebSocketEnd::Lost { was_open: true }),
            Phase::Closing(_) | Phase::Oversize => self.finish(WebSocketEnd::Local),
            Phase::Ended | Phase::Over => {}
        }
    }

    fn is_closed(&self) -> bool {
        // From a server that has refused, only the rest of its answer may still come.
        matches!(self.phase, Phase::Refused(_) | Phase::Ended | Phase::Over)
    }

    fn hear(&mut self, method: &str) -> Heartbeat {
        let is_server = self.options.is_server();
        self.options.rules.hear(is_server, method)
    }

    fn may_send(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Oversize)
    }

    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        let may_send = self.may_send();
        if may_send {
            write::frame(into, OpCode::Data(Data::Text), message, self.is_masked());
        }
        may_send
    }

    fn close(&mut self, why: Closed) {
        let (code, reason) = match self.phase {
            Phase::Oversize => CloseCode::after_oversize(),
            _ => CloseCode::of(why, self.options.is_server()),
        };
        self.close_with(code, reason);
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) {
        into.extend(mem::take(&mut self.output));
        if let Some(payload) = self.pong.take() {
            let pong = OpCode::Control(Control::Pong);
            write::frame(into, pong, &payload, self.is_masked());
        }
    }

    fn has_transmit(&self) -> bool {
        !self.output.is_empty() || self.pong.is_some()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let alive = self.keep_alive.poll_timeout();
        let dues = [alive, self.message_due, self.heartbeat_due];
        match self.phase {
            Phase::Handshake(..) | Phase::Refused(_) => alive,
            Phase::Open => dues.into_iter().flatten().min(),
            Phase::Closing(until) => Some(until),
            Phase::Oversize | Phase::Ended | Phase::Over => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended | Phase::Over) && !self.has_transmit()
    }
}

impl WebSocket {
    /// Returns the WebSocket's end as it is reported to the session, once.
    fn tell_end(&mut self) -> Option<LayerEnd> {
        if !matches!(self.phase, Phase::Ended) {
            return None;
        }
        self.phase = Phase::Over;
        let end = self.end.as_deref()?.clone();
        let kind = match &end {
            WebSocketEnd::Local => return Some(LayerEnd::Local),
            WebSocketEnd::Peer { code, .. } => {
                let is_failure = code.is_some_and(CloseCode::is_failure);
                return Some(LayerEnd::Peer(is_failure.then(|| end.into())));
            }
            WebSocketEnd::Refused { .. } if !self.options.is_server() => {
                io::ErrorKind::ConnectionRefused
            }
            WebSocketEnd::Broken { .. } | WebSocketEnd::Refused { .. } => {
                return Some(LayerEnd::Misbehaved(end.into()));
            }
            WebSocketEnd::Lost { .. } => io::ErrorKind::UnexpectedEof,
            WebSocketEnd::HandshakeTimedOut | WebSocketEnd::PingTimedOut => io::ErrorKind::TimedOut,
        };
        Some(LayerEnd::Lost(io::Error::new(kind, end).into()))
    }
}
