//! A layer as small as one can be: a hello with a deadline, messages, a close, and a heartbeat at
//! fixed times.

use std::io;
use std::time::Duration;

use antiphon::session::{Handshake, Layer, LayerEnd, LayerEvent};
use antiphon::websocket::Heartbeat;
use antiphon::{Closed, Instant};

/// A frame is its kind, and the length of what follows in two bytes.
pub(super) const HEADER: usize = 3;
pub(super) const MESSAGE: u8 = b'M';
const HELLO: u8 = b'H';
const CLOSE: u8 = b'C';

const BEAT_TIME: Duration = Duration::from_millis(700);
const OPEN_TIME: Duration = Duration::from_secs(3);

/// The kind of the frame at the start, and how many bytes it has with its header; `None` if it is
/// not whole.
pub(super) fn cut(bytes: &[u8]) -> Option<(u8, usize)> {
    let (kind, rest) = bytes.split_first()?;
    let len = usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?]));
    (bytes.len() >= HEADER + len).then_some((*kind, HEADER + len))
}

pub(super) fn frame(kind: u8, text: &[u8], into: &mut Vec<u8>) {
    let len = u16::try_from(text.len()).expect("messages are small here");
    into.push(kind);
    into.extend_from_slice(&len.to_be_bytes());
    into.extend_from_slice(text);
}

#[derive(Debug)]
pub(super) struct Frames {
    pending: Vec<u8>,
    out: Vec<u8>,
    max_message_bytes: usize,
    now: Instant,
    due: Instant,
    is_due: bool,
    is_open: bool,
    /// This side closes.
    is_closing: bool,
    /// The peer has said that it closes.
    has_closed: bool,
    is_at_end: bool,
    is_ended: bool,
}

impl Frames {
    pub(super) fn new(max_message_bytes: usize, now: Instant) -> Self {
        let mut out = Vec::new();
        frame(HELLO, b"", &mut out);
        Self {
            pending: Vec::new(),
            out,
            max_message_bytes,
            now,
            due: now + OPEN_TIME,
            is_due: false,
            is_open: false,
            is_closing: false,
            has_closed: false,
            is_at_end: false,
            is_ended: false,
        }
    }

    fn end(&mut self, end: LayerEnd) -> Option<LayerEvent> {
        self.is_ended = true;
        self.due = Instant::FAR_FUTURE;
        Some(LayerEvent::Ended(end))
    }
}

fn fault(kind: io::ErrorKind) -> antiphon::session::Fault {
    io::Error::from(kind).into()
}

impl Layer for Frames {
    fn handle_time(&mut self, now: Instant) {
        self.now = now;
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.is_due |= self.due <= now;
    }

    fn restart_times(&mut self, now: Instant) {
        if !self.is_ended {
            let span = if self.is_open { BEAT_TIME } else { OPEN_TIME };
            self.due = now + span;
        }
    }

    fn poll_event(&mut self, input: &mut &[u8]) -> Option<LayerEvent> {
        self.pending.extend_from_slice(std::mem::take(input));
        if self.is_ended {
            self.pending.clear();
            return None;
        }
        if std::mem::take(&mut self.is_due) {
            if !self.is_open {
                return self.end(LayerEnd::Lost(fault(io::ErrorKind::TimedOut)));
            }
            self.due = self.now + BEAT_TIME;
            return Some(LayerEvent::Notify("ping"));
        }
        let Some((kind, len)) = cut(&self.pending) else {
            if self.is_at_end {
                return self.end(LayerEnd::Lost(fault(io::ErrorKind::UnexpectedEof)));
            }
            return None;
        };
        let frame: Vec<u8> = self.pending.drain(..len).collect();
        match kind {
            HELLO if !self.is_open => {
                self.is_open = true;
                self.due = self.now + BEAT_TIME;
                Some(LayerEvent::Opened(Handshake::new()))
            }
            MESSAGE if self.is_open && len > self.max_message_bytes => {
                Some(LayerEvent::Oversize(len as u64))
            }
            MESSAGE if self.is_open => {
                let text = String::from_utf8(frame[HEADER..].to_vec());
                Some(LayerEvent::Message(text.expect("messages are text here")))
            }
            CLOSE => {
                self.has_closed = true;
                self.end(match self.is_closing {
                    true => LayerEnd::Local,
                    false => LayerEnd::Peer(None),
                })
            }
            _ => {
                self.pending.clear();
                self.end(LayerEnd::Misbehaved(fault(io::ErrorKind::InvalidData)))
            }
        }
    }

    fn handle_eof(&mut self) {
        self.is_at_end = true;
    }

    fn is_closed(&self) -> bool {
        self.is_closing || self.has_closed
    }

    fn hear(&mut self, method: &str) -> Heartbeat {
        match method {
            "ping" => Heartbeat::Answer("pong"),
            "pong" => Heartbeat::Heard,
            _ => Heartbeat::Deliver,
        }
    }

    fn may_send(&self) -> bool {
        self.is_open && !self.is_closing
    }

    fn send(&mut self, message: &[u8], into: &mut Vec<u8>) -> bool {
        frame(MESSAGE, message, into);
        true
    }

    fn close(&mut self, _: Closed) {
        if !self.is_closing {
            self.is_closing = true;
            if !self.is_ended || self.has_closed {
                frame(CLOSE, b"", &mut self.out);
            }
        }
    }

    fn take_transmit(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.out);
    }

    fn has_transmit(&self) -> bool {
        !self.out.is_empty()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (self.due != Instant::FAR_FUTURE).then_some(self.due)
    }

    fn is_over(&self) -> bool {
        self.is_ended && self.out.is_empty()
    }
}
