//! The types of a framer: framings, limits, the input of one call, and what was found in it.

use core::fmt;
use core::ops::Range;

/// How a stream is split into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// One message per line. LF is written; LF and CR LF are read; blank lines are skipped. Used by
    /// MCP over stdio and most protocols over plain TCP.
    Newline,
    /// A header block with `Content-Length: n`, an empty line, then `n` bytes. LSP and DAP.
    ContentLength,
    /// JSON values one after another, with white space between them or none. Used by Kodi, jayson
    /// and Ethereum nodes over IPC. LF is written after each value.
    Concatenated,
    /// The transport delivers separate messages: each call passes exactly one. Used by WebSocket,
    /// HTTP bodies and queues.
    Messages,
    /// [`Newline`](Self::Newline) or [`ContentLength`](Self::ContentLength), chosen by the first
    /// bytes. White space and then a byte order mark are skipped; an ASCII letter means a header.
    /// Every other byte (`{` and `[`, but also digits, quotes and noise) means lines, because after
    /// noise the next line can still be read.
    Detect,
}

/// The result of [`Framer::cut`](super::Framer::cut) for the beginning of the unread bytes.
///
/// Every variant has `taken`: the number of bytes that the framer needs no more. The next call must
/// begin after them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cut {
    /// A complete frame.
    Frame {
        /// The position of the body in the bytes passed, without header or delimiter.
        body: Range<usize>,
        /// How many bytes to drop after the body has been used: all up to the end of the frame,
        /// including the delimiter.
        taken: usize,
        /// Whether the frame was ended by the end of the stream, not by a delimiter. A line, or a
        /// number or `true` alone, may then be incomplete: only its content can show that.
        unterminated: bool,
    },
    /// A frame longer than the limit. It is reported once, as soon as its length is known to be too
    /// large. Later calls skip the rest of it, in constant memory.
    Oversize {
        /// The length of the body in bytes, if the framing declares it; else `None`.
        bytes: Option<u64>,
        /// How many bytes to drop now.
        taken: usize,
    },
    /// No complete frame. Pass the bytes that remain again, followed by the bytes that arrive next.
    Incomplete {
        /// How many bytes to drop now: blanks between frames, parts of a frame that is being
        /// skipped.
        taken: usize,
    },
    /// The end of the input: no bytes are left, and no frame was cut short. Returned only if the
    /// caller said that the input has ended.
    End {
        /// How many bytes to drop: blanks, the rest of an over-long line.
        taken: usize,
    },
}

impl Cut {
    /// The number of bytes that the framer needs no more.
    #[must_use]
    pub const fn consumed(&self) -> usize {
        match *self {
            Self::Frame { taken, .. }
            | Self::Oversize { taken, .. }
            | Self::Incomplete { taken }
            | Self::End { taken } => taken,
        }
    }
}

/// Why the stream cannot be split any further. The peer, or something between the peer and this
/// side, is at fault.
///
/// Each variant has the offset of the fault, in bytes since the start of the stream. Only
/// [`Framing::ContentLength`], chosen or detected, can lose the beginning of the next frame; the
/// other framings only have `Truncated`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FramingError {
    /// A header line is not `name: value`: another framing, another protocol (HTTP), or text
    /// printed into the stream.
    NotAHeader {
        /// The offset of the line.
        offset: u64,
    },
    /// The header block does not end within its limit.
    HeaderTooLong {
        /// The offset of the block.
        offset: u64,
    },
    /// The header block has no `Content-Length`.
    LengthMissing {
        /// The offset of the block.
        offset: u64,
    },
    /// The value of `Content-Length` is not a plain decimal number.
    LengthInvalid {
        /// The offset of the line.
        offset: u64,
    },
    /// Two `Content-Length` headers differ.
    LengthContradictory {
        /// The offset of the second line.
        offset: u64,
    },
    /// `Content-Type` names a charset other than UTF-8.
    CharsetUnsupported {
        /// The offset of the line.
        offset: u64,
    },
    /// The stream ended inside a frame.
    Truncated {
        /// The offset of the frame.
        offset: u64,
    },
}

impl FramingError {
    /// The position of the fault, in bytes since the start of the stream.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match *self {
            Self::NotAHeader { offset }
            | Self::HeaderTooLong { offset }
            | Self::LengthMissing { offset }
            | Self::LengthInvalid { offset }
            | Self::LengthContradictory { offset }
            | Self::CharsetUnsupported { offset }
            | Self::Truncated { offset } => offset,
        }
    }
}

impl fmt::Display for FramingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::NotAHeader { .. } => "a header line is not `name: value`",
            Self::HeaderTooLong { .. } => "the header block is longer than its limit",
            Self::LengthMissing { .. } => "the header block has no Content-Length",
            Self::LengthInvalid { .. } => "Content-Length is not a decimal number",
            Self::LengthContradictory { .. } => "two Content-Length headers differ",
            Self::CharsetUnsupported { .. } => "Content-Type names a charset other than UTF-8",
            Self::Truncated { .. } => "the stream ended inside a frame",
        };
        write!(f, "{what} (byte {} of the stream)", self.offset())
    }
}

impl core::error::Error for FramingError {}

/// The sizes that a codec enforces, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    pub(crate) max_frame_bytes: usize,
    pub(crate) max_header_bytes: usize,
}

/// The input of one call to a codec.
#[derive(Clone, Copy)]
pub(super) struct Unread<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at_end: bool,
    /// Offset of `bytes` within the stream, for errors.
    pub(super) position: u64,
}

impl Unread<'_> {
    /// The offset within the stream of the byte at `index`.
    pub(super) fn offset(&self, index: usize) -> u64 {
        self.position.saturating_add(index as u64)
    }

    /// The result for a frame, begun at `start`, that is incomplete.
    pub(super) fn incomplete(&self, start: usize) -> Result<Cut, FramingError> {
        if self.at_end {
            let offset = self.offset(start);
            return Err(FramingError::Truncated { offset });
        }
        Ok(Cut::Incomplete { taken: start })
    }

    /// The result when all of the bytes are taken: as blanks, or as part of a frame that is
    /// skipped.
    pub(super) fn exhausted(&self) -> Cut {
        let taken = self.bytes.len();
        if self.at_end {
            Cut::End { taken }
        } else {
            Cut::Incomplete { taken }
        }
    }
}
