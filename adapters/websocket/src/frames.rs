//! What comes in after the handshake: frames, put together to messages by tungstenite. A message that
//! is there as a whole, in one frame, needs no putting together.
//!
//! The rules guarded here: every limit is kept by what a frame's header declares, before any of
//! its payload is held; and memory grows with the bytes that came in, never with a length declared.
//! So each header is looked at here first, and a large frame is given to tungstenite as several
//! small fragments. Its buffer then stays at one fragment, whatever the size of the messages.
//!
//! ```text
//!   bytes ──▶ header ──▶ limits ──▶ pieces of 2 KiB ──▶ tungstenite ──▶ message, control frame
//!                          │    └ or one whole message ─────────────────▶ message
//!                          └──▶ fault: a close code
//! ```

use std::io::{self, Cursor, Read, Write};

use antiphon::BinaryMessages;
use antiphon::websocket::CloseCode;
use tungstenite::Bytes;
use tungstenite::error::{Error, ProtocolError};
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::{CloseFrame, Message, Role, WebSocketConfig, WebSocketContext};

use super::text::Text;
use super::write::apply;

/// The most payload that is given to tungstenite at once: its buffer for input, for as long as the
/// connection is open. A multiple of 4, so that the mask of a frame begins anew with each piece.
const PIECE_BYTES: usize = 2048;

/// The longest header of a frame (RFC 6455 clause 5.2).
const HEADER_BYTES_MAX: usize = 14;

/// The longest payload of a control frame (RFC 6455 clause 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// How many frames a message may consist of whatever their size.
const FRAGMENTS_FREE: u64 = 1024;

/// How many bytes each further frame of a message must carry, on average over the message.
const FRAGMENT_BYTES_MIN: u64 = 16;

/// What came in.
#[derive(Debug)]
pub(super) enum Received {
    Text(Text),
    /// A text message that would be too large, and its size as far as it is known.
    Oversize(u64),
    Ping(Bytes),
    Pong,
    Close(Option<CloseFrame>),
    Fault(Fault),
}

/// A rule of WebSocket that was broken, and the code to close with.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) code: CloseCode,
    pub(super) reason: &'static str,
}

const BAD_TEXT: Fault = Fault {
    code: CloseCode::BAD_TEXT,
    reason: "text that is not UTF-8",
};

const fn protocol(reason: &'static str) -> Fault {
    Fault {
        code: CloseCode::PROTOCOL_ERROR,
        reason,
    }
}

/// The reading side of an open WebSocket.
#[derive(Debug)]
pub(super) struct Frames {
    engine: WebSocketContext,
    is_server: bool,
    binary: BinaryMessages,
    message_bytes_max: u64,
    /// A header of which only a part has come in.
    begun: [u8; HEADER_BYTES_MAX],
    begun_bytes: u8,
    frame: Option<Frame>,
    message: Option<Unfinished>,
    /// How many frames outside of messages, and messages, have ended.
    ended: u64,
}

/// The frame that is being read.
#[derive(Debug)]
struct Frame {
    header: FrameHeader,
    /// Payload that has not been given to tungstenite as part of a piece.
    left: u64,
    /// Payload that is missing of the piece begun.
    piece_left: usize,
    /// A piece has been begun.
    is_begun: bool,
    is_ignored: bool,
}

/// The message that is being read.
#[derive(Debug)]
struct Unfinished {
    is_ignored: bool,
    bytes: u64,
    fragments: u64,
}

impl Frames {
    pub(super) fn new(is_server: bool, message_bytes_max: usize, binary: BinaryMessages) -> Self {
        let role = if is_server {
            Role::Server
        } else {
            Role::Client
        };
        // The engine only reads: what it writes by itself is thrown away.
        let config = WebSocketConfig::default()
            .read_buffer_size(PIECE_BYTES)
            .write_buffer_size(0)
            .max_write_buffer_size(1024)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(PIECE_BYTES));
        Self {
            engine: WebSocketContext::new(role, Some(config)),
            is_server,
            binary,
            message_bytes_max: message_bytes_max as u64,
            begun: [0; HEADER_BYTES_MAX],
            begun_bytes: 0,
            frame: None,
            message: None,
            ended: 0,
        }
    }

    /// Whether a frame or a message has begun and not ended.
    pub(super) fn is_unfinished(&self) -> bool {
        self.begun_bytes > 0 || self.frame.is_some() || self.message.is_some()
    }

    /// How many frames outside of messages, and whole messages, there have been.
    pub(super) fn ended(&self) -> u64 {
        self.ended
    }

    /// Takes the next thing out of `input`; none once all of it has been taken. After a fault,
    /// an oversized message or a close nothing is to be asked any more.
    pub(super) fn poll(&mut self, input: &mut &[u8]) -> Option<Received> {
        loop {
            if self.frame.is_none() {
                let (header, len) = match self.take_header(input) {
                    Ok(header) => header?,
                    Err(fault) => return Some(Received::Fault(fault)),
                };
                let received = self.begin(header, len).or_else(|| self.take_whole(input));
                if received.is_some() {
                    return received;
                }
            }
            let (is_over, received) = self.take_payload(input)?;
            if is_over {
                self.finish_frame();
            }
            if received.is_some() {
                return received;
            }
            if !is_over && input.is_empty() {
                return None;
            }
        }
    }

    /// Takes a frame's header, or what has come in of it.
    fn take_header(&mut self, input: &mut &[u8]) -> Result<Option<(FrameHeader, u64)>, Fault> {
        if self.begun_bytes == 0 {
            let mut cursor = Cursor::new(*input);
            if let Some(header) = parse(&mut cursor)? {
                *input = &input[cursor.position() as usize..];
                return Ok(Some(header));
            }
        }
        while let Some((&byte, rest)) = input.split_first() {
            let at = usize::from(self.begun_bytes);
            // The longest header is a whole one.
            let Some(place) = self.begun.get_mut(at) else {
                return Err(protocol("a frame header without end"));
            };
            *place = byte;
            *input = rest;
            self.begun_bytes += 1;
            if let Some(header) = parse(&mut Cursor::new(&self.begun[..=at]))? {
                self.begun_bytes = 0;
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    /// Judges a frame by its header.
    fn begin(&mut self, mut header: FrameHeader, len: u64) -> Option<Received> {
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return fault("reserved bits are set and no extension was agreed on");
        }
        // Clause 5.1: a client masks every frame, a server none.
        if header.mask.is_some() != self.is_server {
            return fault(if self.is_server {
                "a frame of a client without a mask"
            } else {
                "a frame of a server with a mask"
            });
        }
        let is_ignored = match header.opcode {
            OpCode::Control(_) => {
                if !header.is_final || len > CONTROL_BYTES_MAX {
                    return fault("a control frame that is fragmented or over 125 bytes");
                }
                false
            }
            OpCode::Data(mut data) => {
                if data == Data::Binary && self.binary == BinaryMessages::AsText {
                    // From here on it is a text message, whose UTF-8 is checked like any other's.
                    data = Data::Text;
                    header.opcode = OpCode::Data(data);
                }
                match self.begin_data(data, len) {
                    Ok(is_ignored) => is_ignored,
                    Err(refused) => return Some(refused),
                }
            }
        };
        self.frame = Some(Frame {
            header,
            left: len,
            piece_left: 0,
            is_begun: false,
            is_ignored,
        });
        None
    }

    /// Counts a data frame towards its message. Says whether it is to be ignored.
    fn begin_data(&mut self, data: Data, len: u64) -> Result<bool, Received> {
        match (data, &self.message) {
            (Data::Continue, None) => {
                return Err(Received::Fault(protocol("a continuation of nothing")));
            }
            (Data::Continue, Some(_)) => {}
            (_, Some(_)) => {
                return Err(Received::Fault(protocol("a message within a message")));
            }
            (Data::Binary, None) if self.binary != BinaryMessages::Ignore => {
                return Err(Received::Fault(Fault {
                    code: CloseCode::UNSUPPORTED,
                    reason: "only text messages are understood",
                }));
            }
            (_, None) => {}
        }
        let message = self.message.get_or_insert(Unfinished {
            is_ignored: data == Data::Binary,
            bytes: 0,
            fragments: 0,
        });
        message.bytes = message.bytes.saturating_add(len);
        message.fragments += 1;
        if message.bytes > self.message_bytes_max {
            return Err(Received::Oversize(message.bytes));
        }
        if message.fragments > FRAGMENTS_FREE + message.bytes / FRAGMENT_BYTES_MIN {
            return Err(Received::Fault(Fault {
                code: CloseCode::POLICY,
                reason: "a message in too many fragments",
            }));
        }
        Ok(message.is_ignored)
    }

    /// Takes the frame just begun, if it is a whole message all of which has come in.
    fn take_whole(&mut self, input: &mut &[u8]) -> Option<Received> {
        let frame = self.frame.as_ref().filter(|frame| !frame.is_ignored)?;
        let header = &frame.header;
        let is_message = header.is_final && matches!(header.opcode, OpCode::Data(Data::Text));
        let len = usize::try_from(frame.left).ok()?;
        if !is_message || input.len() < len {
            return None;
        }
        let (payload, rest) = input.split_at(len);
        *input = rest;
        let mut payload = payload.to_vec();
        if let Some(mask) = header.mask {
            apply(mask, &mut payload);
        }
        self.finish_frame();
        let text = String::from_utf8(payload).map(Text::whole);
        Some(text.map_or(Received::Fault(BAD_TEXT), Received::Text))
    }

    /// Takes payload of the frame. Says whether the frame is over, and what came of it.
    fn take_payload(&mut self, input: &mut &[u8]) -> Option<(bool, Option<Received>)> {
        let frame = self.frame.as_mut()?;
        if frame.is_ignored {
            let taken = input
                .len()
                .min(usize::try_from(frame.left).unwrap_or(usize::MAX));
            *input = &input[taken..];
            frame.left -= taken as u64;
            return Some((frame.left == 0, None));
        }
        let mut header = [0; HEADER_BYTES_MAX];
        let header = frame.next_piece(&mut header);
        let taken = input.len().min(frame.piece_left);
        let (body, rest) = input.split_at(taken);
        *input = rest;
        frame.piece_left -= taken;
        let is_over = frame.left == 0 && frame.piece_left == 0;
        let read = self.engine.read(&mut Lent { header, body });
        Some((is_over, received(read)))
    }

    fn finish_frame(&mut self) {
        if let Some(frame) = self.frame.take() {
            if frame.header.is_final && matches!(frame.header.opcode, OpCode::Data(_)) {
                self.message = None;
            }
            if self.message.is_none() {
                self.ended += 1;
            }
        }
    }
}

impl Frame {
    /// The header of the next piece, if one is to begin: the frame's own where the frame is small.
    fn next_piece<'a>(&mut self, into: &'a mut [u8; HEADER_BYTES_MAX]) -> &'a [u8] {
        let is_due = self.piece_left == 0 && (self.left > 0 || !self.is_begun);
        if !is_due {
            return &[];
        }
        let bytes = self.left.min(PIECE_BYTES as u64);
        self.left -= bytes;
        self.piece_left = bytes as usize;
        let mut header = self.header.clone();
        header.is_final &= self.left == 0;
        if std::mem::replace(&mut self.is_begun, true) {
            header.opcode = OpCode::Data(Data::Continue);
        }
        let mut cursor = Cursor::new(&mut into[..]);
        // The longest header fits.
        let written = header.format(bytes, &mut cursor);
        debug_assert!(written.is_ok());
        let len = cursor.position() as usize;
        &into[..len]
    }
}

fn parse(cursor: &mut Cursor<&[u8]>) -> Result<Option<(FrameHeader, u64)>, Fault> {
    // Reading from memory fails for no other reason.
    FrameHeader::parse(cursor).map_err(|_| protocol("a frame of an unknown kind"))
}

fn fault(reason: &'static str) -> Option<Received> {
    Some(Received::Fault(protocol(reason)))
}

/// What tungstenite says, in our terms.
fn received(read: Result<Message, Error>) -> Option<Received> {
    Some(match read {
        Ok(Message::Text(text)) => Received::Text(Text::joined(text)),
        Ok(Message::Ping(payload)) => Received::Ping(payload),
        Ok(Message::Pong(_)) => Received::Pong,
        Ok(Message::Close(frame)) => Received::Close(frame),
        // Neither is ever given to it, or given back by it.
        Ok(Message::Binary(_) | Message::Frame(_)) => return None,
        Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => return None,
        Err(Error::Utf8(_)) => Received::Fault(BAD_TEXT),
        Err(Error::Protocol(ProtocolError::InvalidCloseSequence)) => {
            Received::Fault(protocol("a close frame with half a code"))
        }
        Err(_) => Received::Fault(protocol("the frames do not fit together")),
    })
}

/// A piece of input as a stream, for one call.
struct Lent<'a> {
    header: &'a [u8],
    body: &'a [u8],
}

impl Read for Lent<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let head = self.header.read(buf)?;
        match head + self.body.read(&mut buf[head..])? {
            // An end would be taken for that of the connection.
            0 => Err(io::ErrorKind::WouldBlock.into()),
            read => Ok(read),
        }
    }
}

/// The answers that tungstenite gives by itself go nowhere: the codec gives its own.
impl Write for Lent<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
