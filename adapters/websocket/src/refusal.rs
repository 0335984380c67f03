//! What a server says instead of opening a WebSocket: the beginning of its answer's body.

use tungstenite::http::HeaderMap;
use tungstenite::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};

use super::WebSocketEnd;

/// How much of a body is told in a failure.
const TEXT_BYTES_MAX: usize = 512;

/// A refusal whose body may still be coming in.
#[derive(Debug)]
pub(super) struct Refusing {
    status: u16,
    reason: String,
    headers: HeaderMap,
    body: Vec<u8>,
    extent: Extent,
}

/// How far the body reaches (RFC 9112 clause 6.3).
#[derive(Clone, Copy, Debug)]
enum Extent {
    Bytes(usize),
    Chunks,
    End,
}

impl Refusing {
    pub(super) fn new(status: u16, reason: String, headers: HeaderMap) -> Self {
        let length = headers.get(CONTENT_LENGTH);
        let length = length
            .and_then(|length| length.to_str().ok())
            .map(str::trim);
        let extent = match length.and_then(|length| length.parse().ok()) {
            _ if headers.contains_key(TRANSFER_ENCODING) => Extent::Chunks,
            Some(bytes) => Extent::Bytes(bytes),
            None => Extent::End,
        };
        Self {
            status,
            reason,
            headers,
            body: Vec::new(),
            extent,
        }
    }

    /// Takes what came of the body, and no more than is told. Gives whether that is all.
    pub(super) fn gather(&mut self, input: &mut &[u8]) -> bool {
        let left = TEXT_BYTES_MAX.saturating_sub(self.body.len());
        let taken = input.len().min(left);
        self.body.extend_from_slice(&input[..taken]);
        *input = &[];
        self.body.len() >= TEXT_BYTES_MAX
            || match self.extent {
                Extent::Bytes(bytes) => self.body.len() >= bytes,
                Extent::Chunks => self.body.ends_with(b"0\r\n\r\n"),
                // Nobody knows when it ends: what came with the head is told.
                Extent::End => true,
            }
    }

    /// The end that it is, with what has come.
    pub(super) fn end(self) -> WebSocketEnd {
        let text = match self.extent {
            Extent::Bytes(bytes) => first_bytes(&self.body[..self.body.len().min(bytes)]),
            Extent::Chunks => first_bytes(&unchunk(&self.body)),
            Extent::End => first_bytes(&self.body),
        };
        WebSocketEnd::Refused {
            status: Some(self.status),
            reason: self.reason,
            headers: self.headers,
            text,
        }
    }
}

/// The data of the chunks that are there, whole or in part (RFC 9112 clause 7.1).
fn unchunk(mut chunked: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some(at) = chunked.windows(2).position(|pair| pair == b"\r\n") {
        let (line, rest) = chunked.split_at(at);
        let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size).map(str::trim).unwrap_or_default();
        let Ok(size @ 1..) = usize::from_str_radix(size, 16) else {
            break;
        };
        let rest = &rest[2..];
        data.extend_from_slice(&rest[..rest.len().min(size)]);
        // The chunk's own line break follows it.
        chunked = rest.get(size.saturating_add(2)..).unwrap_or_default();
    }
    data
}

/// The beginning of a body, as text for a log.
fn first_bytes(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
    let shown = text.trim().chars().flat_map(|letter| {
        let escaped = letter.is_control().then(|| letter.escape_debug());
        let plain = (!letter.is_control()).then_some(letter);
        escaped.into_iter().flatten().chain(plain)
    });
    shown.collect()
}
