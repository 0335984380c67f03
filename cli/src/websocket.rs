//! WebSocket frames. Ours have a mask of zeros, so that the bytes in a finding can be read.

use std::time::Instant;

use tungstenite::handshake::derive_accept_key;

use crate::http::{self, Reply};
use crate::target::Web;
use crate::wire::{Got, Wire};

pub(crate) const TEXT: u8 = 1;
pub(crate) const BINARY: u8 = 2;
pub(crate) const CLOSE: u8 = 8;
pub(crate) const PING: u8 = 9;
pub(crate) const PONG: u8 = 10;

/// A frame of the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) is_last: bool,
    pub(crate) opcode: u8,
    pub(crate) payload: Vec<u8>,
}

/// The request for a WebSocket.
pub(crate) fn handshake(web: &Web, extra: &[(String, String)]) -> Vec<u8> {
    let own = [
        ("Host", web.authority()),
        ("Upgrade", "websocket".to_owned()),
        ("Connection", "Upgrade".to_owned()),
        ("Sec-WebSocket-Key", "YW50aXBob24tY29uZm9ybQ==".to_owned()),
        ("Sec-WebSocket-Version", "13".to_owned()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    http::request("GET", web, own.into_iter().chain(extra.iter().cloned()))
}

/// Asks for a WebSocket, and reads the reply.
pub(crate) fn open(
    wire: &mut Wire,
    web: &Web,
    extra: &[(String, String)],
    deadline: Instant,
) -> Option<Reply> {
    wire.write(&handshake(web, extra)).ok()?;
    http::read_reply(wire, deadline)
}

/// A frame of a client, which has a mask.
pub(crate) fn frame(is_last: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = head(is_last, opcode, payload, 0x80);
    out.extend([0; 4]);
    out.extend_from_slice(payload);
    out
}

/// A frame of a server, which has none.
pub(crate) fn server_frame(is_last: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = head(is_last, opcode, payload, 0);
    out.extend_from_slice(payload);
    out
}

fn head(is_last: bool, opcode: u8, payload: &[u8], mask: u8) -> Vec<u8> {
    let mut out = vec![u8::from(is_last) << 7 | opcode];
    match payload.len() {
        n @ 0..=125 => out.push(mask | u8::try_from(n).unwrap_or(0)),
        n @ 126..=0xffff => {
            out.push(mask | 126);
            out.extend(u16::try_from(n).unwrap_or(0).to_be_bytes());
        }
        n => {
            out.push(mask | 127);
            out.extend((n as u64).to_be_bytes());
        }
    }
    out
}

/// Answers a client's handshake. `None`: it is no handshake, or did not come in time.
pub(crate) fn accept(wire: &mut Wire, deadline: Instant) -> Option<()> {
    let head = http::read_head(wire, deadline)?;
    let key = http::field(&head.fields, "sec-websocket-key")?;
    let mut reply = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n",
        derive_accept_key(key.as_bytes())
    );
    // Some clients insist on a protocol that they have offered.
    if let Some(offered) = http::field(&head.fields, "sec-websocket-protocol") {
        let first = offered.split(',').next().unwrap_or_default().trim();
        reply += &format!("Sec-WebSocket-Protocol: {first}\r\n");
    }
    wire.write((reply + "\r\n").as_bytes()).ok()
}

/// Reads one frame. `Err` says why there is none.
pub(crate) fn read_frame(wire: &mut Wire, deadline: Instant) -> Result<Frame, Got> {
    loop {
        if let Some((frame, taken)) = parse(&wire.buffer) {
            wire.buffer.drain(..taken);
            return Ok(frame);
        }
        match wire.read(deadline) {
            Got::Bytes => {}
            other => return Err(other),
        }
    }
}

fn parse(bytes: &[u8]) -> Option<(Frame, usize)> {
    let (first, second) = (*bytes.first()?, *bytes.get(1)?);
    let (length, mut at) = match second & 0x7f {
        126 => (
            usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)),
            4,
        ),
        127 => (
            usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?,
            10,
        ),
        n => (usize::from(n), 2),
    };
    let mut mask = [0; 4];
    if second & 0x80 != 0 {
        mask = bytes.get(at..at + 4)?.try_into().ok()?;
        at += 4;
    }
    let end = at.checked_add(length)?;
    let payload = bytes
        .get(at..end)?
        .iter()
        .zip(mask.iter().cycle())
        .map(|(byte, mask)| byte ^ mask);
    Some((
        Frame {
            is_last: first & 0x80 != 0,
            opcode: first & 0x0f,
            payload: payload.collect(),
        },
        end,
    ))
}
