//! Reads server-sent events: bytes in, events out. It does no I/O, and does not look into what an event says.
//!
//! The format is that of the WHATWG's HTML standard, clause 9.2.6. However the bytes are split, the events are
//! the same.
//!
//! ```text
//!   bytes ──▶ line, up to CR, LF or CRLF ──▶ field ──▶ data, event, id, retry
//!                                             │ blank line
//!                                             ▼
//!                                           event
//! ```

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::exchange::ReplyError;
use super::sse_writer::EVENT_STREAM;
use crate::frame::line_break;

/// The longest name of a field, with colon, space and line feed: it does not count towards the limit.
const MAX_NAME_BYTES: usize = "event: \n".len();

/// One server-sent event. Its parts are bytes, because a stream may have bytes that are no UTF-8: what reads
/// the data as JSON refuses them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedSseEvent {
    /// The type; empty if none is named, which means `message`.
    pub event: Vec<u8>,
    /// The data: all lines of it, with LF between them.
    pub data: Vec<u8>,
    /// The id of the last event that named one; empty if there was none.
    pub id: Vec<u8>,
}

impl OwnedSseEvent {
    /// Whether it is a message: an event without a type, or of type `message`.
    pub fn is_message(&self) -> bool {
        self.event.is_empty() || self.event == b"message"
    }
}

/// Reads a stream of server-sent events.
///
/// ```
/// use antiphon::http::SseReader;
/// let mut reader = SseReader::new(1 << 20);
/// let mut input: &[u8] = b": hello\n\nid: 7\ndata: {\"a\":\ndata: 1}\n\ndata: cut o";
/// let event = reader.read(&mut input)?.unwrap();
/// assert_eq!((&event.data[..], &event.id[..]), (&b"{\"a\":\n1}"[..], &b"7"[..]));
/// assert_eq!(reader.read(&mut input)?, None);
/// assert!(input.is_empty());
/// # Ok::<(), antiphon::http::ReplyError>(())
/// ```
#[derive(Debug)]
pub struct SseReader {
    max_event_bytes: usize,
    /// The line whose end has not come yet. Of a comment only the colon is kept.
    line: Vec<u8>,
    /// The event whose blank line has not come yet, with an LF after each line of its data.
    event: OwnedSseEvent,
    retry: Option<Duration>,
    /// Whether no line has ended yet: a byte order mark may begin the first one.
    is_first: bool,
    /// Whether the last byte was CR, so that LF belongs to the line before.
    was_cr: bool,
}

impl SseReader {
    /// Makes a reader of one stream. The data and the type of an event may have `max_event_bytes` together. It
    /// buffers at most twice as much, with the last id. Comments are not limited, because nothing of them is kept.
    pub const fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            event: OwnedSseEvent {
                event: Vec::new(),
                data: Vec::new(),
                id: Vec::new(),
            },
            retry: None,
            is_first: true,
            was_cr: false,
        }
    }

    /// Whether a `Content-Type` names a stream of events.
    pub fn is_named_by(content_type: &str) -> bool {
        let mut parts = content_type.as_bytes().split(|byte| *byte == b';');
        let media_type = parts.next().unwrap_or_default().trim_ascii();
        media_type.eq_ignore_ascii_case(EVENT_STREAM.as_bytes())
    }

    /// Takes bytes from the front of `input` up to the end of the next event, and returns it. `None` if all
    /// bytes were taken and more are needed. At the end of the stream an event that is not complete is dropped,
    /// as the standard says.
    ///
    /// # Errors
    /// [`ReplyError::TooLarge`]: the event has more bytes than allowed. The stream cannot be read on.
    pub fn read(&mut self, input: &mut &[u8]) -> Result<Option<OwnedSseEvent>, ReplyError> {
        while let Some(&first) = input.first() {
            if mem::take(&mut self.was_cr) && first == b'\n' {
                *input = &input[1..];
                continue;
            }
            let end = line_break(input);
            self.add(&input[..end.unwrap_or(input.len())])?;
            let Some(end) = end else {
                *input = &[];
                break;
            };
            self.was_cr = input[end] == b'\r';
            *input = &input[end + 1..];
            if let Some(event) = self.end_line() {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }

    /// How long a client should wait before it connects again, if the stream has said so.
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Adds bytes to the line.
    fn add(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        let begin = self.line.first().or(bytes.first());
        if begin == Some(&b':') {
            // Nothing of a comment is kept but that it is one.
            self.line.clear();
            self.line.push(b':');
            return Ok(());
        }
        let held = self.line.len() + self.event.data.len() + self.event.event.len();
        if held + bytes.len() > self.max_event_bytes.saturating_add(MAX_NAME_BYTES) {
            let max_bytes = self.max_event_bytes;
            return Err(ReplyError::TooLarge { max_bytes });
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Ends the line, and returns the event that it ends, if it is blank.
    fn end_line(&mut self) -> Option<OwnedSseEvent> {
        let is_first = mem::take(&mut self.is_first);
        let line = mem::take(&mut self.line);
        let text = match line.strip_prefix(b"\xEF\xBB\xBF") {
            Some(text) if is_first => text,
            _ => &line,
        };
        let event = match text.is_empty() {
            true => self.end_event(),
            false => {
                self.take_field(text);
                None
            }
        };
        // Its memory is used again.
        self.line = line;
        self.line.clear();
        event
    }

    fn take_field(&mut self, line: &[u8]) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        // One space after the colon is no part of the value.
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.event.data.extend_from_slice(value);
                self.event.data.push(b'\n');
            }
            b"event" => self.event.event = value.to_vec(),
            b"id" if !value.contains(&0) => self.event.id = value.to_vec(),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                // An empty value, and a number that is too large, do not parse.
                let millis = core::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.parse().ok());
                self.retry = millis.map(Duration::from_millis).or(self.retry);
            }
            // Other fields, and comments, whose name is empty.
            _ => {}
        }
    }

    /// Ends the event. One without data is none; its id stays.
    fn end_event(&mut self) -> Option<OwnedSseEvent> {
        let id = self.event.id.clone();
        let mut event = mem::replace(
            &mut self.event,
            OwnedSseEvent {
                id,
                ..OwnedSseEvent::default()
            },
        );
        event.data.pop().map(|_| event)
    }
}

#[cfg(test)]
mod tests;
