//! Reads what arrives after the handshake: tungstenite reads frame headers, this module joins
//! payloads into messages.
//!
//! Every limit is checked when a header declares a length, before any payload is stored. Memory
//! grows with the bytes received, never with a declared length, and is freed with the message.
//!
//! ```text
//!   bytes ──▶ header ──▶ limits ──▶ unmasked ──▶ UTF-8 ──▶ message, ping, close
//!                          └──────────────────────┴──▶ fault: a close code, or oversize
//! ```

use std::io::Cursor;
use std::mem;
use std::str;

use antiphon::BinaryMessages;
use antiphon::websocket::CloseCode;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::write::apply_mask;

/// The longest header of a frame, in bytes (RFC 6455 clause 5.2).
const MAX_HEADER_BYTES: usize = 14;

/// The text of a frame that is still arriving is checked in steps of this many bytes.
const CHECKED_BYTES: usize = 2048;

/// The longest payload of a control frame, in bytes (RFC 6455 clause 5.5).
const MAX_CONTROL_BYTES: u64 = 125;

/// How many frames a message may have in any case, however small they are.
const FRAGMENTS_FREE: u64 = 1024;

/// How many bytes each further frame of a message must carry, on average over the message.
const FRAGMENT_BYTES_MIN: u64 = 16;

/// A received item.
pub(crate) enum Received {
    Text(String),
    Ping(Vec<u8>),
    Close(Option<CloseCode>, String),
    /// A pong, or a message that is ignored.
    Nothing,
}

/// Why no more is read.
pub(crate) enum Fault {
    /// A message is too large: its size as far as it is known.
    Oversize(u64),
    /// A rule of WebSocket was broken: the code to close with, and what was wrong.
    Broken(CloseCode, &'static str),
}

const BAD_TEXT: Fault = Fault::Broken(CloseCode::BAD_TEXT, "text that is not UTF-8");

/// Returns the fault for input that breaks the protocol.
const fn protocol(reason: &'static str) -> Fault {
    Fault::Broken(CloseCode::PROTOCOL_ERROR, reason)
}

/// The reading side of a WebSocket.
pub(crate) struct FrameReader {
    is_server: bool,
    binary: BinaryMessages,
    max_message_bytes: u64,
    /// A part of a header that is not complete.
    header: Vec<u8>,
    /// The frame that is being read, and how many bytes of its payload are missing.
    frame: Option<(FrameHeader, u64)>,
    message: Option<Message>,
    /// The payload of a control frame, which may come between the frames of a message.
    control: Vec<u8>,
}

/// The message that is being read.
#[derive(Default)]
struct Message {
    /// The bytes received; `None` for a message that is ignored.
    bytes: Option<Vec<u8>>,
    /// How many of the bytes are known to be UTF-8.
    valid: usize,
    /// The size of its frames that have begun.
    declared: u64,
    /// How many frames of it have begun.
    fragments: u64,
}

impl FrameReader {
    pub(crate) fn new(is_server: bool, max_message_bytes: usize, binary: BinaryMessages) -> Self {
        Self {
            is_server,
            binary,
            max_message_bytes: max_message_bytes as u64,
            header: Vec::new(),
            frame: None,
            message: None,
            control: Vec::new(),
        }
    }

    /// Takes the next item out of `input`. Returns `None` when all bytes have been taken and no
    /// item is complete.
    ///
    /// # Errors
    /// No more can be read.
    pub(crate) fn poll(&mut self, input: &mut &[u8]) -> Result<Option<Received>, Fault> {
        loop {
            if self.frame.is_none() {
                self.frame = self.take_header(input)?;
            }
            let Some(header) = self.take_payload(input)? else {
                return Ok(None);
            };
            match header.opcode {
                OpCode::Control(control) => return self.control(control).map(Some),
                OpCode::Data(_) if header.is_final => {
                    let message = self.message.take().unwrap_or_default();
                    return message.finish().map(Some);
                }
                OpCode::Data(_) => {}
            }
        }
    }

    /// Whether a frame or a message has begun and not ended.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.header.is_empty() || self.frame.is_some() || self.message.is_some()
    }

    /// Takes a frame's header, or a part of it, and checks it.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<Option<(FrameHeader, u64)>, Fault> {
        let had = self.header.len();
        let taken = input.len().min(MAX_HEADER_BYTES - had);
        self.header.extend_from_slice(&input[..taken]);
        let mut cursor = Cursor::new(&self.header);
        // Reading from memory cannot fail, so the only error is an unknown kind of frame.
        let parsed = FrameHeader::parse(&mut cursor);
        let parsed = parsed.map_err(|_| protocol("a frame of an unknown kind"))?;
        let Some((header, len)) = parsed else {
            *input = &input[taken..];
            return Ok(None);
        };
        // The header was incomplete before, so it ends within the bytes that were taken now.
        *input = &input[cursor.position() as usize - had..];
        self.header.clear();
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(protocol("reserved bits, and no extension was agreed on"));
        }
        if header.mask.is_some() != self.is_server {
            // Clause 5.1.
            return Err(protocol("a client masks every frame, a server none"));
        }
        match header.opcode {
            OpCode::Data(data) => self.begin(data, len)?,
            OpCode::Control(_) if header.is_final && len <= MAX_CONTROL_BYTES => {}
            OpCode::Control(_) => {
                return Err(protocol("a control frame in parts or over 125 bytes"));
            }
        }
        Ok(Some((header, len)))
    }

    /// Adds a data frame to its message.
    fn begin(&mut self, data: Data, len: u64) -> Result<(), Fault> {
        match (data, &self.message) {
            (Data::Continue, None) => return Err(protocol("a continuation of nothing")),
            (Data::Continue, Some(_)) => {}
            (_, Some(_)) => return Err(protocol("a message within a message")),
            (Data::Binary, None) if self.binary == BinaryMessages::Close => {
                let reason = "only text messages are understood";
                return Err(Fault::Broken(CloseCode::UNSUPPORTED, reason));
            }
            (_, None) => {}
        }
        let is_ignored = data == Data::Binary && self.binary == BinaryMessages::Ignore;
        let message = self.message.get_or_insert_with(|| Message {
            bytes: (!is_ignored).then(Vec::new),
            ..Message::default()
        });
        message.declared = message.declared.saturating_add(len);
        message.fragments += 1;
        if message.declared > self.max_message_bytes {
            return Err(Fault::Oversize(message.declared));
        }
        if message.fragments > FRAGMENTS_FREE + message.declared / FRAGMENT_BYTES_MIN {
            let reason = "a message in too many fragments";
            return Err(Fault::Broken(CloseCode::POLICY, reason));
        }
        Ok(())
    }

    /// Takes payload of the frame, if there is one. Returns its header when the payload is
    /// complete.
    fn take_payload(&mut self, input: &mut &[u8]) -> Result<Option<FrameHeader>, Fault> {
        let Some((header, left)) = &mut self.frame else {
            return Ok(None);
        };
        let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
        let (payload, rest) = input.split_at(len);
        *input = rest;
        *left -= len as u64;
        let is_whole = *left == 0;
        let into = match (header.opcode, &mut self.message) {
            (OpCode::Data(_), message) => message.as_mut().and_then(|it| it.bytes.as_mut()),
            (OpCode::Control(_), _) => Some(&mut self.control),
        };
        if let Some(into) = into {
            let at = into.len();
            into.extend_from_slice(payload);
            if let Some(mask) = &mut header.mask {
                apply_mask(*mask, &mut into[at..]);
                // The next byte uses the next byte of the key.
                mask.rotate_left(len % 4);
            }
        }
        // At the end of a message `finish` checks all of it.
        let is_last = is_whole && header.is_final;
        if let Some(message) = self.message.as_mut().filter(|_| !is_last) {
            message.check(if is_whole { 1 } else { CHECKED_BYTES })?;
        }
        Ok(self.frame.take_if(|_| is_whole).map(|(header, _)| header))
    }

    /// Reads a control frame.
    fn control(&mut self, control: Control) -> Result<Received, Fault> {
        let payload = mem::take(&mut self.control);
        match (control, &payload[..]) {
            (Control::Ping, _) => Ok(Received::Ping(payload)),
            (Control::Close, []) => Ok(Received::Close(None, String::new())),
            (Control::Close, [_]) => Err(protocol("a close frame with half a code")),
            (Control::Close, [high, low, reason @ ..]) => {
                let code = CloseCode(u16::from_be_bytes([*high, *low]));
                // A code that is not allowed in a frame breaks a rule, which our answer reports.
                let code = Some(code).filter(|code| code.is_sendable());
                let code = code.unwrap_or(CloseCode::PROTOCOL_ERROR);
                let reason = str::from_utf8(reason).map_err(|_| BAD_TEXT)?;
                Ok(Received::Close(Some(code), reason.into()))
            }
            (Control::Pong | Control::Reserved(_), _) => Ok(Received::Nothing),
        }
    }
}

impl Message {
    /// Checks the text received so far in steps of `step` bytes, except a character of which a part
    /// is missing. So text that is not UTF-8 is not stored far beyond its first invalid byte, and
    /// the result does not depend on how the input was split.
    fn check(&mut self, step: usize) -> Result<(), Fault> {
        let bytes = self.bytes.as_deref().unwrap_or_default();
        let bytes = bytes.get(self.valid..bytes.len() - bytes.len() % step);
        match str::from_utf8(bytes.unwrap_or_default()) {
            Ok(text) => self.valid += text.len(),
            Err(error) if error.error_len().is_none() => self.valid += error.valid_up_to(),
            Err(_) => return Err(BAD_TEXT),
        }
        Ok(())
    }

    fn finish(self) -> Result<Received, Fault> {
        match self.bytes.map(String::from_utf8) {
            None => Ok(Received::Nothing),
            Some(text) => text.map(Received::Text).map_err(|_| BAD_TEXT),
        }
    }
}
