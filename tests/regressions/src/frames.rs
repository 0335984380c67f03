//! WebSocket frames as a plain peer writes and reads them (RFC 6455 clause 5.2), below 64 KiB.

use std::io::{self, Read};

/// The opening request of a client.
pub const OPENING: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The first byte of a frame that is a whole message of text.
pub const TEXT: u8 = 0x81;
/// The first byte of a close.
pub const CLOSE: u8 = 0x88;
/// The first byte of a ping.
pub const PING: u8 = 0x89;
/// The first byte of a pong.
pub const PONG: u8 = 0x8a;

/// The masking key of the examples in RFC 6455.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it.
///
/// # Panics
/// The payload is too long.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u16::try_from(payload.len()).expect("a short frame") {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend(long.to_be_bytes());
        }
    }
    frame.extend(MASK);
    let payload = payload.iter().zip(MASK.iter().cycle());
    frame.extend(payload.map(|(byte, key)| byte ^ key));
    frame
}

/// The next frame of a server: its first byte and its payload.
///
/// # Errors
/// The stream ends or fails before.
pub fn read(stream: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let len = match head[1] {
        126 => {
            let mut long = [0; 2];
            stream.read_exact(&mut long)?;
            u16::from_be_bytes(long).into()
        }
        short => usize::from(short),
    };
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload)?;
    Ok((head[0], payload))
}

/// Reads up to the blank line that ends a head.
///
/// # Errors
/// The stream ends or fails before.
pub fn read_head(stream: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
