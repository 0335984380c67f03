//! One side of an echo with nothing of JSON-RPC in it: what is wanted of a far side, and how it is made.
//!
//! The rule guarded: a bare side moves the same bytes in as few writes as it can, and looks at no more of them than it
//! must. To answer, which a client of ours needs, is to find the digits of each id and to write a line around them.

use memchr::memmem;

use crate::row::{BATCH, Mode, Outcome, WORD, lines, requests};

/// What a far side gives back.
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
}

fn answer_one(id: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"result\":\"");
    out.extend_from_slice(WORD.as_bytes());
    out.extend_from_slice(b"\",\"id\":");
    out.extend_from_slice(id);
    out.push(b'}');
}

/// Appends the answer to a request, or to a batch of them.
pub(crate) fn answer(message: &[u8], out: &mut Vec<u8>) {
    const KEY: &[u8] = b"\"id\":";
    let is_batch = message.first() == Some(&b'[');
    out.extend(is_batch.then_some(b'['));
    for at in memmem::find_iter(message, KEY) {
        let id = &message[at + KEY.len()..];
        let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
        answer_one(&id[..digits], out);
        out.extend(is_batch.then_some(b','));
    }
    if let (true, Some(last)) = (is_batch, out.last_mut()) {
        *last = b']';
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
        self.rest.extend_from_slice(came);
        let mut from = 0;
        while let Some(len) = memchr::memchr(b'\n', &self.rest[from..]) {
            answer(&self.rest[from..from + len], &mut self.out);
            self.out.push(b'\n');
            from += len + 1;
        }
        self.rest.drain(..from);
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

/// The same as the bytes of a stream.
pub(crate) fn reply_lines(far: Far, mode: Mode) -> Vec<u8> {
    match far {
        Far::Echo => lines(mode),
        Far::Answers => {
            let lines = replies(far, mode).into_iter().map(|line| line + "\n");
            lines.collect::<String>().into_bytes()
        }
    }
}

/// What came back is what was wanted; answers may come in any order.
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
