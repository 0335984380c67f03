//! A WebSocket below a session's messages: what comes in is taken out of frames before the
//! connection sees it, and what goes out is put into frames when it is written.
//!
//! The rules guarded here: the conversation's output waits until the handshake is done, and what
//! can no longer be sent counts as not sent; the close goes out after all that was said, and the
//! transport is let go only when the other side's has come, or was awaited long enough.

use std::io;
use std::sync::Arc;

use antiphon::websocket::{CloseCode, Heartbeat};
use antiphon::{CloseReason, Closed, Input, Instant};

use super::{Opened, WebSocket, WebSocketEnd, WebSocketEvent};
use crate::clock::Clock;
use crate::options::Options;
use crate::report::Report;
use crate::session::{Session, Signal, State};

/// How much output is put together before it is written.
const COALESCED_BYTES: usize = 64 * 1024;

/// The WebSocket of a session.
#[derive(Debug)]
pub(crate) struct Layer {
    websocket: WebSocket,
    is_open: bool,
    /// When the next application heartbeat is due.
    heartbeat_at: Option<Instant>,
    /// What to close with, where the end of the conversation does not tell.
    close: Option<(CloseCode, &'static str)>,
}

impl Layer {
    /// The layer that `options` ask for.
    pub(crate) fn of(options: &Options, clock: &dyn Clock) -> io::Result<Option<Box<Self>>> {
        let Some(websocket) = &options.websocket else {
            return Ok(None);
        };
        Ok(Some(Box::new(Self {
            websocket: WebSocket::new(Arc::clone(websocket), &options.config, clock.now())?,
            is_open: false,
            heartbeat_at: None,
            close: None,
        })))
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn is_over(&self) -> bool {
        self.websocket.is_over()
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let due = self.websocket.poll_timeout();
        due.into_iter().chain(self.heartbeat_at).min()
    }
}

impl State {
    /// Whether there is something to write, over a WebSocket.
    pub(crate) fn has_frames(&self, layer: &Layer) -> bool {
        let has_messages = self.conn.poll_transmit().is_some();
        layer.websocket.has_output() || (layer.websocket.may_send() && has_messages)
    }

    /// Takes what is to be written next, as frames.
    pub(crate) fn take_frames(&mut self, into: &mut Vec<u8>) -> bool {
        if let Some(layer) = &mut self.layer {
            layer.websocket.take_output(into);
            while into.len() < COALESCED_BYTES {
                let Some(message) = self.conn.poll_transmit() else {
                    break;
                };
                if !layer.websocket.send(message, into) {
                    break;
                }
                let len = message.len();
                self.conn.consume_transmit(len);
                // What could not be sent counts as taken there, but not here.
                self.taken = self.conn.transmit_done();
            }
        }
        !into.is_empty()
    }
}

impl Session {
    /// Has whatever the other side is given time for begin anew, where it was not listened to.
    pub(crate) fn restart_frames(&self, state: &mut State) {
        if let Some(layer) = &mut state.layer {
            layer.websocket.restart_times(self.now());
        }
    }

    /// Takes bytes that came in, and whatever time has done to the WebSocket.
    pub(crate) fn receive_frames(&self, state: &mut State, mut bytes: &[u8]) {
        // It comes back below; the messages are taken by the same state.
        let Some(mut layer) = state.layer.take() else {
            return;
        };
        if state.is_paused {
            layer.websocket.restart_times(self.now());
        }
        layer.websocket.handle_time(self.now());
        while let Some(event) = layer.websocket.poll_event(&mut bytes) {
            match event {
                WebSocketEvent::Opened(opened) => {
                    layer.is_open = true;
                    self.open(state, &mut layer, opened);
                }
                WebSocketEvent::Message(text) => {
                    self.pump(state, &mut Input::text(text.as_str()));
                }
                WebSocketEvent::Oversize(bytes) => {
                    self.pump(state, &mut Input::oversize(bytes));
                    layer.close = Some(CloseCode::after_oversize());
                    self.close_state(state, CloseReason::PeerMisbehaved);
                }
                WebSocketEvent::Closed(end) => {
                    layer.heartbeat_at = None;
                    self.end_of_frames(state, end);
                }
            }
        }
        state.layer = Some(layer);
    }

    fn open(&self, state: &mut State, layer: &mut Layer, opened: Opened) {
        let rules = &layer.websocket.options().rules;
        let is_server = layer.websocket.options().is_server();
        let heartbeat = rules.own_heartbeat(is_server);
        layer.heartbeat_at = heartbeat.map(|(_, span)| self.now() + span);
        self.learn(|context| {
            context.target = Some(opened.target);
            context.headers = opened.headers;
            context.subprotocol = opened.subprotocol;
        });
        for signal in [Signal::Work, Signal::Turn, Signal::Changed] {
            self.signal(state, signal);
        }
    }

    /// Brings the conversation to its end when the WebSocket has come to its.
    fn end_of_frames(&self, state: &mut State, end: WebSocketEnd) {
        let reason = match &end {
            WebSocketEnd::Local => CloseReason::Done,
            WebSocketEnd::Peer { code, .. } => {
                if code.is_some_and(CloseCode::is_failure) {
                    self.report_in(state, Report::WebSocket(end));
                }
                // Nothing more can be said to the peer: what it asked is given up, below.
                state.conn.handle_eof();
                self.pump(state, &mut Input::none());
                CloseReason::Done
            }
            WebSocketEnd::Broken { .. } => {
                self.report_in(state, Report::WebSocket(end));
                CloseReason::PeerMisbehaved
            }
            WebSocketEnd::Refused { .. } if self.is_server() => {
                self.report_in(state, Report::WebSocket(end));
                CloseReason::PeerMisbehaved
            }
            WebSocketEnd::Refused { .. }
            | WebSocketEnd::HandshakeTimedOut
            | WebSocketEnd::PingTimedOut
            | WebSocketEnd::Lost { .. } => {
                let kind = match &end {
                    WebSocketEnd::Refused { .. } => io::ErrorKind::ConnectionRefused,
                    WebSocketEnd::Lost { .. } => io::ErrorKind::UnexpectedEof,
                    _ => io::ErrorKind::TimedOut,
                };
                self.note_fault(state, io::Error::new(kind, end));
                CloseReason::TransportFailed
            }
        };
        self.close_state(state, reason);
        while state.conn.poll_transmit().is_some() {
            state.conn.fail_transmit();
        }
        self.pump(state, &mut Input::none());
        self.signal(state, Signal::Turn);
    }

    /// Takes the end of the stream.
    pub(crate) fn end_frames_input(&self, state: &mut State, failed: Option<io::Error>) {
        let is_asked = state.is_asked();
        let Some(layer) = &mut state.layer else {
            return;
        };
        if failed.is_none() && is_asked && layer.websocket.handle_half_close() {
            // It ended without a close, but what it asked is answered: the rest is as on any stream.
            layer.heartbeat_at = None;
            let lost = WebSocketEnd::Lost { was_open: true };
            let error = io::Error::new(io::ErrorKind::UnexpectedEof, lost.to_string());
            return self.note_fault(state, error);
        }
        state.is_end_told = true;
        // After a close the stream may end as it likes.
        let is_closed = layer.websocket.is_closed() || layer.websocket.is_refused();
        layer.websocket.handle_eof();
        if let Some(error) = failed.filter(|_| !is_closed) {
            self.note_fault(state, error);
        }
        self.receive_frames(state, &[]);
    }

    /// Lets time do what it does to the WebSocket, up to `now`.
    pub(crate) fn turn_frames(&self, state: &mut State, now: Instant) {
        if let Some(layer) = state.layer.as_deref_mut() {
            layer.websocket.handle_timeout(now);
        }
        self.receive_frames(state, &[]);
        let Some(layer) = state.layer.as_deref_mut() else {
            return;
        };
        if layer.heartbeat_at.is_none_or(|due| due > now) {
            return;
        }
        let options = layer.websocket.options();
        let heartbeat = options.rules.own_heartbeat(options.is_server());
        layer.heartbeat_at = heartbeat.map(|(_, span)| now + span);
        if let Some((method, _)) = heartbeat {
            // Output that is full, or an end, shows by itself.
            let _ = state.conn.notify(method, ());
        }
    }

    /// Closes the WebSocket once all that was said has been taken to be written.
    pub(crate) fn close_frames(&self, state: &mut State, why: Closed) {
        let is_server = self.is_server();
        let is_all_taken = state.conn.is_closed();
        if let Some(layer) = state.layer.as_mut().filter(|_| is_all_taken) {
            let close = layer.close.unwrap_or(CloseCode::of(why, is_server));
            layer.websocket.close(close.0, close.1);
        }
    }

    /// Whether a notification is an application heartbeat. It is answered here.
    pub(crate) fn is_heartbeat(&self, state: &mut State, method: &str) -> bool {
        let Some(websocket) = self.options().websocket() else {
            return false;
        };
        match websocket.rules.hear(websocket.is_server(), method) {
            Heartbeat::Deliver => return false,
            Heartbeat::Heard => {}
            Heartbeat::Answer(method) => {
                // Output that is full, or an end, shows by itself.
                let _ = state.conn.notify(method, ());
            }
        }
        true
    }

    fn is_server(&self) -> bool {
        let websocket = self.options().websocket();
        websocket.is_some_and(super::WebSocketOptions::is_server)
    }

    fn report_in(&self, state: &mut State, report: Report) {
        state.queue.push_report(report, 0);
        self.signal(state, Signal::Work);
    }
}
