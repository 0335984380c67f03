//! Detects the framing of a peer by its first bytes.
//!
//! The decision is made once per stream. The framings themselves are in files of their own.
//!
//! White space, and a byte order mark after it, are skipped. A letter after them selects
//! Content-Length framing: header names begin with a letter, and no JSON-RPC message does. Any
//! other byte selects newline framing, which survives noise.
//!
//! ```text
//!  ␠ ␊  EF BB BF  {      → Newline            ␍ ␊  C o n t e n t …   → ContentLength
//!  └┬┘ └────┬───┘ └ decides
//!  taken   left in place
//! ```

use super::cut::{Cut, Framing, FramingError, Unread};
use super::find;

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// A byte order mark and the byte after it: the most bytes that are needed to decide.
pub(super) const MAX_INPUT_BYTES: usize = MARK.len() + 1;

/// How much of a possible byte order mark was seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detect {
    scanned: usize,
}

/// The decision, if one is possible.
pub(super) enum Detected {
    /// Not yet; with the result of the call.
    Not(Cut),
    /// The framing of the rest of the stream.
    Framing(Framing),
}

impl Detect {
    pub(super) const fn new() -> Self {
        Self { scanned: 0 }
    }

    pub(super) fn detect(&mut self, unread: Unread<'_>) -> Result<Detected, FramingError> {
        if unread.bytes.len() < self.scanned {
            // The caller passed fewer bytes than before.
            return unread.incomplete(0).map(Detected::Not);
        }
        let start = find::blanks(unread.bytes);
        let begun = unread.bytes.get(start..).unwrap_or_default();
        if begun.is_empty() {
            return Ok(Detected::Not(unread.exhausted()));
        }
        if begun.len() <= MARK.len() && MARK.starts_with(begun) && !unread.at_end {
            self.scanned = begun.len();
            return Ok(Detected::Not(Cut::Incomplete { taken: start }));
        }
        let telling = begun.strip_prefix(MARK).unwrap_or(begun).first();
        let is_header = telling.is_some_and(u8::is_ascii_alphabetic);
        Ok(Detected::Framing(if is_header {
            Framing::ContentLength
        } else {
            Framing::Newline
        }))
    }

    pub(super) const fn is_mid_frame(&self) -> bool {
        self.scanned > 0
    }
}
