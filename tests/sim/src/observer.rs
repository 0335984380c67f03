//! Reads the output of a connection: cuts frames and reads messages with code of its own, not the
//! core's. Whatever a connection writes must be
//! readable here, so this also checks that output is well-formed.

use antiphon::Framing;

use crate::skim;

/// One message, or one entry of a batch, as it stands in the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its kind.
    pub kind: ItemKind,
    /// The id, byte for byte; none if there is no such member.
    pub id: Option<String>,
    /// The method, without quotes; empty for a response.
    pub method: String,
    /// The number by which the simulation tells payloads apart.
    pub mark: Option<u64>,
    /// How long it is, in bytes.
    pub bytes: usize,
}

/// The kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// It has a method and an id; in 1.0 one that is not null.
    Request,
    /// It has a method, and no id or, in 1.0, a null one.
    Notification,
    /// It has a result.
    Ok,
    /// It has an error with this code.
    Err(i64),
}

/// Everything in one frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The offset of its first byte among all bytes of the stream, header included.
    pub begin: u64,
    /// The offset at which a receiver can tell that it is whole.
    pub end: u64,
    /// How long the message is, in bytes, without framing.
    pub bytes: usize,
    /// Whether it is a batch.
    pub array: bool,
    /// Its messages.
    pub items: Vec<Item>,
}

/// Reads one direction of a conversation.
#[derive(Debug)]
pub struct Observer {
    framing: Framing,
    pending: Vec<u8>,
    /// Offset of the first pending byte.
    offset: u64,
    /// How far the pending bytes have been searched for the end of a line.
    searched: usize,
}

impl Observer {
    /// Observes a stream of this framing.
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            pending: Vec::new(),
            offset: 0,
            searched: 0,
        }
    }

    /// How many bytes have been seen.
    pub fn seen(&self) -> u64 {
        self.offset + self.pending.len() as u64
    }

    /// Offset of the first byte of the frame that is being written; `None` between frames.
    pub fn inside(&self) -> Option<u64> {
        (skim::blanks(&self.pending, 0) < self.pending.len()).then_some(self.offset)
    }

    /// What has been seen of the next frame, if it is a whole message: a last line without its line
    /// feed.
    pub fn unfinished(&self) -> Option<Frame> {
        let is_whole = skim::value_end(&self.pending, 0) == Some(self.pending.len());
        (is_whole && !self.pending.is_empty())
            .then(|| read_frame(&self.pending))
            .flatten()
    }

    /// Takes bytes and adds the frames that they complete to `frames`.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), String> {
        self.pending.extend_from_slice(bytes);
        if self.framing == Framing::Detect && !self.pending.is_empty() {
            self.framing = match self.pending[0].is_ascii_alphabetic() {
                true => Framing::ContentLength,
                false => Framing::Newline,
            };
        }
        while let Some((body, taken)) = self.cut()? {
            let text = &self.pending[body];
            let mut frame = read_frame(text)
                .ok_or_else(|| format!("unreadable output {:?}", String::from_utf8_lossy(text)))?;
            frame.begin = self.offset;
            frame.end = self.offset + taken as u64;
            frames.push(frame);
            self.pending.drain(..taken);
            self.offset += taken as u64;
            self.searched = 0;
        }
        Ok(())
    }

    /// The next frame: where its text is, and how many bytes go with it.
    fn cut(&mut self) -> Result<Option<(core::ops::Range<usize>, usize)>, String> {
        let pending = &self.pending;
        if pending.is_empty() {
            return Ok(None);
        }
        match self.framing {
            Framing::Newline => {
                let end = pending[self.searched..].iter().position(|&b| b == b'\n');
                let end = end.map(|end| self.searched + end);
                self.searched = pending.len();
                Ok(end.map(|end| (0..end, end + 1)))
            }
            Framing::ContentLength => {
                let Some(end) = pending.windows(4).position(|four| four == b"\r\n\r\n") else {
                    return Ok(None);
                };
                let header = String::from_utf8_lossy(&pending[..end]).into_owned();
                let len: usize = header
                    .strip_prefix("Content-Length: ")
                    .and_then(|len| len.parse().ok())
                    .ok_or_else(|| format!("odd header {header:?}"))?;
                let whole = end + 4 + len;
                Ok((pending.len() >= whole).then_some((end + 4..whole, whole)))
            }
            Framing::Concatenated => {
                // A line feed follows each value, and belongs to the next.
                let start = skim::blanks(pending, 0);
                Ok(skim::value_end(pending, start).map(|end| (start..end, end)))
            }
            // Whole messages are fed one at a time.
            _ => Ok(Some((0..pending.len(), pending.len()))),
        }
    }
}

/// Reads the text of one message.
pub fn read_frame(text: &[u8]) -> Option<Frame> {
    let (array, items) = match text.first()? {
        b'[' => {
            let items = skim::elements(text)?;
            (
                true,
                items.into_iter().map(read_item).collect::<Option<_>>()?,
            )
        }
        _ => (false, vec![read_item(text)?]),
    };
    Some(Frame {
        begin: 0,
        end: text.len() as u64,
        bytes: text.len(),
        array,
        items,
    })
}

fn read_item(text: &[u8]) -> Option<Item> {
    let members = skim::members(text)?;
    let find = |name: &str| {
        let is_it = |member: &&(&[u8], &[u8])| member.0 == format!("\"{name}\"").as_bytes();
        members.iter().find(is_it).map(|member| member.1)
    };
    let id = find("id").map(|id| String::from_utf8_lossy(id).into_owned());
    if let Some(method) = find("method") {
        let method = method.get(1..method.len() - 1)?;
        let is_request = id
            .as_ref()
            .is_some_and(|id| id != "null" || find("jsonrpc").is_some());
        return Some(Item {
            kind: match is_request {
                true => ItemKind::Request,
                false => ItemKind::Notification,
            },
            id,
            method: String::from_utf8_lossy(method).into_owned(),
            mark: find("params").and_then(skim::mark),
            bytes: text.len(),
        });
    }
    let error = find("error").filter(|error| *error != b"null");
    let (kind, mark) = match error {
        Some(error) => {
            let members = skim::members(error)?;
            let code = members.iter().find(|member| member.0 == b"\"code\"")?.1;
            let data = members.iter().find(|member| member.0 == b"\"data\"");
            // The core's own errors have sentences as their data.
            let mark = data
                .filter(|data| data.1.starts_with(b"["))
                .and_then(|data| skim::mark(data.1));
            (
                ItemKind::Err(String::from_utf8_lossy(code).parse().ok()?),
                mark,
            )
        }
        None => {
            let result = find("result")?;
            let mark = result
                .starts_with(b"[")
                .then(|| skim::mark(result))
                .flatten();
            (ItemKind::Ok, mark)
        }
    };
    Some(Item {
        kind,
        id,
        method: String::new(),
        mark,
        bytes: text.len(),
    })
}
