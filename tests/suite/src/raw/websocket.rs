//! The frames of a WebSocket by hand (RFC 6455 clause 5), and both sides of its handshake.

use std::io::{Read, Write};

use tungstenite::handshake::derive_accept_key;

use super::Stream;
use super::http::{Head, read_head};

/// The key of the example in RFC 6455 clause 1.3; any key is allowed.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// The mask of every frame: any four bytes are allowed.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Which side the plain peer is. A client masks what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It has asked for the WebSocket.
    Client,
    /// It was asked.
    Server,
}

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole message.
    Text(Vec<u8>),
    /// To be answered by a pong with the same bytes.
    Ping(Vec<u8>),
    /// An answer to a ping.
    Pong,
    /// The last frame, with its code; 1005 for none.
    Close(u16),
}

impl Side {
    /// A message as a frame.
    pub fn text(self, message: &[u8]) -> Vec<u8> {
        self.frame(0x81, message)
    }

    /// The answer to a ping.
    pub fn pong(self, data: &[u8]) -> Vec<u8> {
        self.frame(0x8a, data)
    }

    /// The last frame.
    pub fn close(self, code: u16) -> Vec<u8> {
        match code {
            // No code came, so none goes back.
            1005 => self.frame(0x88, &[]),
            code => self.frame(0x88, &code.to_be_bytes()),
        }
    }

    fn frame(self, first: u8, payload: &[u8]) -> Vec<u8> {
        let mask_bit = match self {
            Self::Client => 0x80,
            Self::Server => 0,
        };
        let mut frame = vec![first];
        match payload.len() {
            n @ 0..126 => frame.push(mask_bit | n as u8),
            n @ 126..0x1_0000 => {
                frame.push(mask_bit | 126);
                frame.extend_from_slice(&(n as u16).to_be_bytes());
            }
            n => {
                frame.push(mask_bit | 127);
                frame.extend_from_slice(&(n as u64).to_be_bytes());
            }
        }
        match self {
            Self::Client => {
                frame.extend_from_slice(&MASK);
                let masked = payload.iter().zip(MASK.iter().cycle());
                frame.extend(masked.map(|(byte, mask)| byte ^ mask));
            }
            Self::Server => frame.extend_from_slice(payload),
        }
        frame
    }

    /// Takes a whole frame of the other side's out of what has been received.
    ///
    /// # Errors
    /// It is a frame that the other side must not send here: masked by a server, unmasked by a
    /// client, fragmented, or binary.
    pub fn take(self, received: &mut Vec<u8>) -> Result<Option<Frame>, String> {
        let Some((head, length)) = head_of(received) else {
            return Ok(None);
        };
        let is_masked = received[1] & 0x80 != 0;
        if is_masked != (self == Self::Server) {
            return Err("a client masks its frames, and a server does not".to_owned());
        }
        let start = head + if is_masked { 4 } else { 0 };
        if received.len() < start + length {
            return Ok(None);
        }
        let frame: Vec<u8> = received.drain(..start + length).collect();
        let mut payload = frame[start..].to_vec();
        if is_masked {
            let mask = frame[head..start].iter().cycle();
            payload.iter_mut().zip(mask).for_each(|(b, m)| *b ^= m);
        }
        Ok(Some(match frame[0] {
            0x81 => Frame::Text(payload),
            0x89 => Frame::Ping(payload),
            0x8a => Frame::Pong,
            0x88 => Frame::Close(match *payload.as_slice() {
                [high, low, ..] => u16::from_be_bytes([high, low]),
                _ => 1005,
            }),
            first => return Err(format!("a frame that begins with {first:#04x}")),
        }))
    }
}

/// How long the head of a frame is without its mask, and how long its payload; none if there is
/// more to come.
fn head_of(received: &[u8]) -> Option<(usize, usize)> {
    match received.get(1)? & 0x7f {
        126 => {
            let length = received.get(2..4)?.try_into().ok()?;
            Some((4, u16::from_be_bytes(length).into()))
        }
        127 => {
            let length = received.get(2..10)?.try_into().ok()?;
            // A length beyond memory never becomes whole.
            Some((10, usize::try_from(u64::from_be_bytes(length)).ok()?))
        }
        n => Some((2, n.into())),
    }
}

/// Asks for the WebSocket at a path.
///
/// # Errors
/// The server did not agree.
pub fn ask(stream: &mut Stream, host: &str, path: &str) -> Result<(), String> {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    say(&mut stream.writer, &request)?;
    let head = head_from(&mut stream.reader)?;
    let accepted = head.header("sec-websocket-accept");
    match head.first.starts_with("HTTP/1.1 101 ")
        && accepted == Some(&derive_accept_key(KEY.as_bytes()))
    {
        true => Ok(()),
        false => Err(format!("no WebSocket: {head:?}")),
    }
}

/// Agrees to the WebSocket that our client asks for.
///
/// # Errors
/// It asks for none.
pub fn agree(stream: &mut Stream) -> Result<(), String> {
    let head = head_from(&mut stream.reader)?;
    let key = head.header("sec-websocket-key");
    let key = key.ok_or_else(|| format!("no WebSocket: {head:?}"))?;
    let accept = derive_accept_key(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    say(&mut stream.writer, &answer)
}

fn head_from(reader: &mut impl Read) -> Result<Head, String> {
    read_head(reader)?.ok_or_else(|| "the stream ended in the handshake".to_owned())
}

fn say(writer: &mut impl Write, text: &str) -> Result<(), String> {
    let said = writer.write_all(text.as_bytes());
    said.and_then(|()| writer.flush())
        .map_err(|error| format!("in the handshake: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{Frame, Side};

    #[test]
    fn what_one_side_says_the_other_takes_whatever_its_length() {
        for length in [0, 1, 125, 126, 0xffff, 0x1_0000] {
            let message = vec![b'x'; length];
            for (from, to) in [(Side::Client, Side::Server), (Side::Server, Side::Client)] {
                let mut wire = from.text(&message);
                let whole = wire.clone();
                for end in [0, 1, wire.len() - 1] {
                    let mut part = whole[..end].to_vec();
                    assert_eq!(to.take(&mut part), Ok(None), "{length} {end}");
                }
                assert_eq!(to.take(&mut wire), Ok(Some(Frame::Text(message.clone()))));
                assert!(wire.is_empty());
                assert!(from.take(&mut whole.clone()).is_err(), "its own frames");
            }
        }
        let mut wire = Side::Client.close(1001);
        assert_eq!(Side::Server.take(&mut wire), Ok(Some(Frame::Close(1001))));
    }
}
