//! A server's answer that does not open a WebSocket, for its client: the beginning of its body.

use httparse::Status;
use tungstenite::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use tungstenite::http::{HeaderMap, StatusCode};

use crate::end::WebSocketEnd;

/// How much of the body is kept.
const MAX_TEXT_BYTES: usize = 512;

/// An answer that refuses the WebSocket, whose body may still be arriving.
pub(crate) struct Refused {
    status: Option<u16>,
    reason: String,
    headers: HeaderMap,
    body: Vec<u8>,
    /// How the length of the body is given (RFC 9112 clause 6.3). If it is not given, only the
    /// bytes that came with the head are kept.
    is_chunked: bool,
    length: Option<usize>,
}

impl Refused {
    /// Makes an answer of this status; `None` if it is not HTTP.
    pub(crate) fn new(status: Option<StatusCode>, reason: &str, mut headers: HeaderMap) -> Self {
        // Headers may be secrets, so debug output must not show their values.
        for value in headers.values_mut() {
            value.set_sensitive(true);
        }
        let has_body = status.is_some_and(|status| status != StatusCode::SWITCHING_PROTOCOLS);
        let length = headers.get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        Self {
            status: status.map(|status| status.as_u16()),
            reason: reason.into(),
            is_chunked: has_body && headers.contains_key(TRANSFER_ENCODING),
            length: if has_body { length } else { Some(0) },
            headers,
            body: Vec::new(),
        }
    }

    /// Takes all of `input`, and keeps the first [`MAX_TEXT_BYTES`] of the body. Returns true when
    /// the body is complete, or no more of it is kept.
    pub(crate) fn gather(&mut self, input: &mut &[u8]) -> bool {
        let left = MAX_TEXT_BYTES.saturating_sub(self.body.len());
        self.body.extend_from_slice(&input[..input.len().min(left)]);
        *input = &[];
        let is_whole = if self.is_chunked {
            self.body.ends_with(b"0\r\n\r\n")
        } else {
            self.body.len() >= self.length.unwrap_or(0)
        };
        is_whole || self.body.len() >= MAX_TEXT_BYTES
    }

    /// Returns the end of the WebSocket, with the received part of the answer.
    pub(crate) fn end(mut self) -> WebSocketEnd {
        if self.is_chunked {
            self.body = unchunk(&self.body);
        } else {
            self.body.truncate(self.length.unwrap_or(usize::MAX));
        }
        WebSocketEnd::Refused {
            status: self.status,
            reason: self.reason,
            headers: self.headers,
            text: text(&self.body),
        }
    }
}

/// Returns the data of the chunks received so far (RFC 9112 clause 7.1).
fn unchunk(mut chunked: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Ok(Status::Complete((at, size @ 1..))) = httparse::parse_chunk_size(chunked) {
        let rest = &chunked[at..];
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        data.extend_from_slice(&rest[..rest.len().min(size)]);
        // The chunk's own line break follows it.
        chunked = rest.get(size.saturating_add(2)..).unwrap_or_default();
    }
    data
}

/// Returns a body for a log: control characters are escaped.
fn text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let mut shown = String::new();
    for letter in text.trim().chars() {
        match letter.is_control() {
            true => shown.extend(letter.escape_debug()),
            false => shown.push(letter),
        }
    }
    shown
}
