//! One side of an echo without a JSON-RPC library: what a far side is to send back, and how that is made.
//!
//! Rule: a bare side moves the same bytes in as few writes as it can, and looks at no more of them than it
//! must. A client of ours needs answers: for these a bare side finds each request by its head, and writes a line around its id.

use memchr::memmem;

use crate::row::{BATCH, Mode, Outcome, lines, requests, word};

/// What a far side sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Far {
    /// The bytes as they came.
    Echo,
    /// The answers of an echo service.
    Answers,
}

/// Which side is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ours {
    Both,
    Server,
    Client,
    /// The client, whose connection runs in a task of its own, where there are tasks.
    ClientInTask,
}

impl Ours {
    /// Whether the other side is a bare server.
    pub(crate) fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::ClientInTask)
    }
}

/// Appends the answers to whole messages, requests or batches of them: what stands between the requests stays as it is.
pub(crate) fn answer(messages: &[u8], out: &mut Vec<u8>) {
    // An answer is shorter than its request.
    out.reserve(messages.len());
    let mut rest = messages;
    while let Some(first) = rest.first() {
        // All requests are alike up to their id.
        let Some(id) = rest.strip_prefix(&ASKED) else {
            out.push(*first);
            rest = &rest[1..];
            continue;
        };
        out.extend_from_slice(&HEAD);
        // Mostly the id and its bracket are in the next few bytes, and to copy a fixed number of them takes no call.
        let few = id.first_chunk::<8>();
        let end = few.and_then(|few| Some((few, end_of(few)?)));
        rest = if let Some((few, end)) = end {
            out.extend_from_slice(few);
            out.truncate(out.len() - few.len() + end);
            &id[end..]
        } else {
            let end = end_of(id).unwrap_or(id.len());
            out.extend_from_slice(&id[..end]);
            &id[end..]
        };
    }
}

/// The number of bytes up to the first bracket and with it.
fn end_of(id: &[u8]) -> Option<usize> {
    id.iter().position(|byte| *byte == b'}').map(|at| at + 1)
}

/// What stands before the id of each request.
const ASKED: [u8; ASKED_TEXT.len()] = bytes(ASKED_TEXT);
const ASKED_TEXT: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"echo","params":[""#,
    word!(),
    r#""],"id":"#
);

/// What stands before the id of each answer.
const HEAD: [u8; HEAD_TEXT.len()] = bytes(HEAD_TEXT);
const HEAD_TEXT: &str = concat!(r#"{"jsonrpc":"2.0","result":""#, word!(), r#"","id":"#);

const fn bytes<const N: usize>(text: &str) -> [u8; N] {
    match text.as_bytes().first_chunk() {
        Some(bytes) => *bytes,
        None => panic!("the text is shorter"),
    }
}

/// A far side of a stream of lines.
pub(crate) struct Lines {
    far: Far,
    /// A line that has come in part.
    rest: Vec<u8>,
    out: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(far: Far) -> Self {
        Self {
            far,
            rest: Vec::new(),
            out: Vec::new(),
        }
    }

    /// What is to be written after these bytes.
    pub(crate) fn reply<'a>(&'a mut self, came: &'a [u8]) -> &'a [u8] {
        if self.far == Far::Echo {
            return came;
        }
        self.out.clear();
        if self.rest.is_empty() && came.ends_with(b"\n") {
            answer(came, &mut self.out);
            return &self.out;
        }
        self.rest.extend_from_slice(came);
        let whole = memchr::memrchr(b'\n', &self.rest).map_or(0, |at| at + 1);
        answer(&self.rest[..whole], &mut self.out);
        self.rest.drain(..whole);
        &self.out
    }
}

/// The messages that come back in one round.
pub(crate) fn replies(far: Far, mode: Mode) -> Vec<String> {
    let asked = requests(mode);
    if far == Far::Echo {
        return asked;
    }
    let reply = |request: String| {
        let mut out = Vec::new();
        answer(request.as_bytes(), &mut out);
        String::from_utf8(out).unwrap_or_default()
    };
    asked.into_iter().map(reply).collect()
}

/// The replies of one round as the bytes of a stream.
pub(crate) fn reply_lines(far: Far, mode: Mode) -> Vec<u8> {
    match far {
        Far::Echo => lines(mode),
        Far::Answers => {
            let lines = replies(far, mode).into_iter().map(|line| line + "\n");
            lines.collect::<String>().into_bytes()
        }
    }
}

/// An error unless the bytes that came back are those that were wanted; answers may come in any order.
pub(crate) fn same(far: Far, wanted: &[u8], back: &[u8]) -> Outcome<()> {
    let results = |bytes| memmem::find_iter(bytes, b"\"result\":\"").count();
    let is_other_order = || {
        let found = results(back);
        far == Far::Answers && found == results(wanted) && (1..=BATCH).contains(&found)
    };
    if wanted == back || (wanted.len() == back.len() && is_other_order()) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&back[..back.len().min(200)]);
    Err(format!("other bytes came back: {text}").into())
}
