//! Writes streams of server-sent events (WHATWG HTML, clause 9.2): events and comments as bytes.
//!
//! ```text
//!   SseEvent ──write──▶  id: 7⏎            each field on a line of its own;
//!                        data: first line⏎  data with line breaks has several,
//!                        data: second line⏎ which the reader joins by line feeds
//!                        ⏎                  the blank line ends the event
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::frame::line_break;

/// The media type of event streams.
pub const EVENT_STREAM: &str = "text/event-stream";

/// One event. A line break in the data, `\r\n`, `\n` or `\r`, comes to the reader as `\n`.
///
/// ```
/// use antiphon::http::{SseEvent, write_comment};
/// let mut stream = Vec::new();
/// SseEvent::new(b"{}").id("7")?.write(&mut stream);
/// write_comment("still here", &mut stream);
/// assert_eq!(stream, b"id: 7\ndata: {}\n\n: still here\n\n");
/// # Ok::<(), antiphon::http::FieldBreak>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    data: &'a [u8],
    id: Option<&'a str>,
    event: Option<&'a str>,
    retry: Option<Duration>,
}

impl<'a> SseEvent<'a> {
    /// Makes an event with this data, which must be UTF-8. The data may be empty.
    pub const fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            id: None,
            event: None,
            retry: None,
        }
    }

    /// Sets the id, which a client that connects again sends as `Last-Event-ID`. An empty one makes the
    /// client forget the last.
    ///
    /// # Errors
    /// The id has a line break or a NUL, with which readers ignore it.
    pub fn id(mut self, id: &'a str) -> Result<Self, FieldBreak> {
        self.id = Some(on_one_line(id)?);
        Ok(self)
    }

    /// Sets the name of the event. Without one, and with an empty one, it is `message`.
    ///
    /// # Errors
    /// The name has a line break or a NUL.
    pub fn event(mut self, event: &'a str) -> Result<Self, FieldBreak> {
        self.event = Some(on_one_line(event)?);
        Ok(self)
    }

    /// Sets how long the client is to wait before it connects again. It is written in milliseconds;
    /// fractions are dropped.
    #[must_use]
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Appends the event to `stream`. Needs the bytes of its fields, and about 8 for each line.
    pub fn write(&self, stream: &mut Vec<u8>) {
        stream.reserve(self.data.len() + 8);
        let mut field = |name: &str, value: &[u8]| {
            stream.extend_from_slice(name.as_bytes());
            stream.extend_from_slice(b": ");
            stream.extend_from_slice(value);
            stream.push(b'\n');
        };
        if let Some(id) = self.id {
            field("id", id.as_bytes());
        }
        if let Some(event) = self.event {
            field("event", event.as_bytes());
        }
        if let Some(retry) = self.retry {
            field("retry", alloc::format!("{}", retry.as_millis()).as_bytes());
        }
        let mut rest = Some(self.data);
        while let Some(data) = rest {
            let end = line_break(data);
            let (line, more) = data.split_at(end.unwrap_or(data.len()));
            field("data", line);
            rest = end.map(|_| match more {
                [b'\r', b'\n', after @ ..] => after,
                _ => &more[1..],
            });
        }
        stream.push(b'\n');
    }
}

/// Appends a comment, which readers ignore, to `stream`: it keeps the connection alive. Line breaks in the
/// text are written as blanks.
pub fn write_comment(text: &str, stream: &mut Vec<u8>) {
    stream.push(b':');
    if !text.is_empty() {
        stream.push(b' ');
    }
    let is_break = |byte: u8| matches!(byte, b'\n' | b'\r');
    let text = text.bytes();
    stream.extend(text.map(|byte| if is_break(byte) { b' ' } else { byte }));
    stream.extend_from_slice(b"\n\n");
}

/// An id, or the name of an event, that has a line break or a NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldBreak;

impl fmt::Display for FieldBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of an event has a line break or a NUL")
    }
}

impl core::error::Error for FieldBreak {}

fn on_one_line(text: &str) -> Result<&str, FieldBreak> {
    match text.contains(['\n', '\r', '\0']) {
        true => Err(FieldBreak),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use core::time::Duration;

    use super::{FieldBreak, SseEvent, write_comment};

    /// More than the search for a line break examines at once.
    const BLOCK_BYTES: usize = 64;

    /// The events of a stream as WHATWG HTML clause 9.2.6 reads them, one line after another: id, name and data.
    fn read(stream: &str) -> Vec<[String; 3]> {
        let (mut events, mut now, mut has_data) = (Vec::new(), <[String; 3]>::default(), false);
        for line in stream.replace("\r\n", "\n").split(['\n', '\r']) {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "" if line.is_empty() => {
                    if core::mem::take(&mut has_data) {
                        now[2].pop();
                        events.push(now.clone());
                    }
                    (now[1], now[2]) = Default::default();
                }
                "id" => now[0] = value.to_string(),
                "event" => now[1] = value.to_string(),
                "data" => {
                    now[2] = [&now[2], value, "\n"].concat();
                    has_data = true;
                }
                _ => {}
            }
        }
        events
    }

    fn written(events: &[SseEvent<'_>]) -> String {
        let mut stream = Vec::new();
        for event in events {
            event.write(&mut stream);
            write_comment("a\r\nb\nc", &mut stream);
        }
        String::from_utf8(stream).unwrap()
    }

    // USE-14
    #[test]
    fn any_data_is_read_as_it_was_but_for_its_line_breaks() {
        let mut texts = Vec::from([String::new()]);
        for _ in 0..5 {
            let longer = texts.iter().flat_map(|text| {
                ['\n', '\r', ':', ' ', 'a'].map(|last| [text, last.to_string().as_str()].concat())
            });
            texts = longer.chain([String::new()]).collect();
            for text in &texts {
                let events = [SseEvent::new(text.as_bytes()), SseEvent::new(b"next")];
                let wanted = text.replace("\r\n", "\n").replace('\r', "\n");
                let read = read(&written(&events));
                assert_eq!(read.len(), 2, "{text:?}: {read:?}");
                assert_eq!((&*read[0][2], &*read[1][2]), (&*wanted, "next"), "{text:?}");
            }
        }
    }

    // USE-14
    #[test]
    fn a_break_is_found_wherever_it_stands_in_a_long_text() {
        for at in 0..3 * BLOCK_BYTES {
            for line_break in ["\n", "\r", "\r\n"] {
                let text = ["x".repeat(at).as_str(), line_break, "y"].concat();
                let wanted = ["x".repeat(at).as_str(), "\ny"].concat();
                assert_eq!(
                    read(&written(&[SseEvent::new(text.as_bytes())]))[0][2],
                    wanted
                );
            }
        }
    }

    // USE-14
    #[test]
    fn fields_stand_before_the_data_and_keep_to_their_lines() {
        let event = SseEvent::new(b"{}").retry(Duration::from_micros(1_500_900));
        let event = event.id("7").and_then(|event| event.event("add")).unwrap();
        let mut stream = Vec::new();
        event.write(&mut stream);
        assert_eq!(stream, b"id: 7\nevent: add\nretry: 1500\ndata: {}\n\n");
        for broken in ["a\nb", "a\r", "\0"] {
            assert_eq!(SseEvent::new(b"").id(broken), Err(FieldBreak));
            assert_eq!(SseEvent::new(b"").event(broken), Err(FieldBreak));
        }
        let mut stream = Vec::new();
        write_comment("", &mut stream);
        assert_eq!(stream, b":\n\n");
    }
}
