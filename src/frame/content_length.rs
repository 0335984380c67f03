//! Content-Length framing: the base protocol of LSP and DAP.
//!
//! This module reads header lines and counts the bytes of the body. Headers are written in `write`.
//!
//! Lengths are counted in bytes. A length that is missing, contradictory or not a plain number ends
//! the stream, because the next header could be anywhere. A body over the limit is skipped, and the
//! stream goes on. Memory is used for bytes received, never for bytes declared.
//!
//! ```text
//!  ␍ ␊ C o n t e n t - L e n g t h : ␠ 2 ␍ ␊ ␍ ␊ { }        ┌──────┐ empty line  ┌──────┐
//!  └─┬─┘└────────────── head ──────────────────┘└─┬─┘       │ Head │ ──────────▶ │ Body │ ─▶ frame
//!  taken   (≤ max_header_bytes)                 body        └──────┘             └──────┘
//!  silently                              (≤ max_frame_bytes)   │ too long  ┌──────┐
//!                                                              └─────────▶ │ Skip │ ─▶ Head
//!                                                                          └──────┘
//! ```
//!
//! Accepted: a bare LF or several CR in place of CR LF (text-mode pipes on Windows write CR CR LF),
//! blank lines before a block (a stray `println`), no blank or many around the colon, leading
//! zeros, a byte order mark before a block (some runtimes write one per writer). Refused, because
//! such lines come from misunderstandings and attacks: a line that is no header, such as `POST /
//! HTTP/1.1` from a browser, or `{` from a peer that frames by newlines.

use core::ops::Range;

use super::cut::{Cut, FrameLimits, FramingError, Unread};
use super::find;
use crate::target::rare;

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// How far the current frame has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum ContentLength {
    /// Between frames, or inside a header block.
    Head(Head),
    /// The header block had `head` bytes; a body of `length` bytes follows it.
    Body { head: usize, length: usize },
    /// The rest of an over-long body. Its header began at `began` in the stream.
    Skip { left: u64, began: u64 },
}

/// A header block whose empty line has not been seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// Bytes of the block, from its first that is not blank, that were searched for line ends.
    scanned: usize,
    /// Where the current line begins in the block.
    line: usize,
    /// The length that the lines so far declared.
    length: Option<u64>,
}

impl ContentLength {
    pub(super) const fn new() -> Self {
        Self::Head(Head {
            scanned: 0,
            line: 0,
            length: None,
        })
    }

    /// Returns the body whose header begins here, and the bytes taken with it, if both are complete
    /// and the header is [plain](plain_head).
    #[inline]
    pub(super) fn whole(
        &self,
        unread: &[u8],
        limits: FrameLimits,
    ) -> Option<(Range<usize>, usize)> {
        if self.is_mid_frame() {
            rare();
            return None;
        }
        let window = unread.get(..limits.max_header_bytes).unwrap_or(unread);
        let (head, length) = plain_head(window)?;
        let length = usize::try_from(length).ok()?;
        let is_there = unread.len() - head >= length && length <= limits.max_frame_bytes;
        is_there.then(|| (head..head + length, head + length))
    }

    /// See [`Cutter::goes_on`](super::Cutter::goes_on).
    #[inline]
    pub(super) fn goes_on(&mut self, unread: &[u8], limits: FrameLimits) -> bool {
        match self {
            Self::Head(head) => {
                let goes_on = head.scanned > 0
                    && unread.len() < limits.max_header_bytes
                    && find::few_new(unread, head.scanned)
                        .is_some_and(|new| !find::is_in(b'\n', new));
                if goes_on {
                    find::note_examined(unread.len() - head.scanned);
                    head.scanned = unread.len();
                }
                goes_on
            }
            Self::Body { head, length } => unread.len().saturating_sub(*head) < *length,
            Self::Skip { .. } => false,
        }
    }

    pub(super) fn cut(
        &mut self,
        unread: Unread<'_>,
        limits: FrameLimits,
    ) -> Result<Cut, FramingError> {
        let mut start = 0;
        if let Self::Skip { left, began } = *self {
            let there = unread.bytes.len();
            let taken = usize::try_from(left).map_or(there, |left| left.min(there));
            start = taken;
            *self = Self::Skip {
                left: left - taken as u64,
                began,
            };
            if left > taken as u64 {
                return match unread.at_end {
                    true => Err(FramingError::Truncated { offset: began }),
                    false => Ok(Cut::Incomplete { taken }),
                };
            }
            *self = Self::new();
        }
        if let Self::Head(mut head) = *self {
            if head.scanned == 0 {
                start += find::blanks(unread.bytes.get(start..).unwrap_or_default());
                if start == unread.bytes.len() {
                    return Ok(unread.exhausted());
                }
            }
            let length = head.read(start, unread, limits);
            *self = Self::Head(head);
            let Some(length) = length? else {
                return unread.incomplete(start);
            };
            // The current line begins after the empty line, so `line` is the length of the block.
            let head = head.line;
            match usize::try_from(length) {
                Ok(length) if length <= limits.max_frame_bytes => {
                    *self = Self::Body { head, length };
                }
                _ => return Ok(self.begin_skip(length, start, head, unread)),
            }
        }
        if let Self::Body { head, length } = *self {
            // The lengths are compared by subtraction, so that the sums below cannot overflow.
            let there = unread.bytes.len() - start;
            if there.checked_sub(head).is_some_and(|there| there >= length) {
                *self = Self::new();
                let body = start + head..start + head + length;
                return Ok(Cut::Frame {
                    taken: body.end,
                    body,
                    unterminated: false,
                });
            }
        }
        unread.incomplete(start)
    }

    pub(super) const fn is_mid_frame(&self) -> bool {
        match self {
            Self::Head(head) => head.scanned > 0,
            Self::Body { .. } | Self::Skip { .. } => true,
        }
    }

    /// Returns the size of the longest header block with the longest body.
    pub(super) const fn max_input_bytes(limits: FrameLimits) -> usize {
        limits
            .max_header_bytes
            .saturating_add(limits.max_frame_bytes)
    }

    /// Reports a body over the limit, and takes the part of it that has arrived.
    fn begin_skip(&mut self, length: u64, start: usize, head: usize, unread: Unread<'_>) -> Cut {
        let there = unread.bytes.len() - start - head;
        let skipped = usize::try_from(length).map_or(there, |length| length.min(there));
        let left = length - skipped as u64;
        *self = match left {
            0 => Self::new(),
            _ => Self::Skip {
                left,
                began: unread.offset(start),
            },
        };
        Cut::Oversize {
            bytes: Some(length),
            taken: start + head + skipped,
        }
    }
}

impl Head {
    /// Reads the lines of the block that begins at `start`. Returns the declared length when the
    /// block has ended with its empty line.
    fn read(
        &mut self,
        start: usize,
        unread: Unread<'_>,
        limits: FrameLimits,
    ) -> Result<Option<u64>, FramingError> {
        let block = unread.bytes.get(start..).unwrap_or_default();
        let window = block.len().min(limits.max_header_bytes);
        if self.scanned == 0 {
            if let Some((head, length)) = plain_head(block.get(..window).unwrap_or_default()) {
                self.line = head;
                return Ok(Some(length));
            }
        }
        // If fewer bytes were passed than before, the range is empty or reversed, and there is
        // nothing to search.
        while let Some(line_feed) =
            find::line_feed(block.get(self.scanned..window).unwrap_or_default())
        {
            let end = self.scanned + line_feed;
            let line = without_crs(block.get(self.line..end).unwrap_or_default());
            let offset = unread.offset(start + self.line);
            let is_first = self.line == 0;
            self.line = end + 1;
            self.scanned = end + 1;
            if line.is_empty() {
                let offset = unread.offset(start);
                return self
                    .length
                    .map(Some)
                    .ok_or(FramingError::LengthMissing { offset });
            }
            let line = if is_first {
                line.strip_prefix(MARK).unwrap_or(line)
            } else {
                line
            };
            self.read_line(line, offset)?;
        }
        self.scanned = self.scanned.max(window);
        if block.len() >= limits.max_header_bytes {
            let offset = unread.offset(start);
            return Err(FramingError::HeaderTooLong { offset });
        }
        Ok(None)
    }

    /// Reads one line, without its end. The case of header names does not matter; unknown headers
    /// are ignored.
    fn read_line(&mut self, line: &[u8], offset: u64) -> Result<(), FramingError> {
        find::note_examined(line.len());
        let line = line.trim_ascii();
        if line.is_empty() {
            // A byte order mark or blanks alone on a line.
            return Ok(());
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let Some((name, value)) = colon.and_then(|at| line.split_at_checked(at)) else {
            return Err(FramingError::NotAHeader { offset });
        };
        let name = name.trim_ascii_end();
        // The value still begins with its colon.
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if name.is_empty() || !name.iter().all(|&byte| is_token(byte)) {
            return Err(FramingError::NotAHeader { offset });
        }
        if name.eq_ignore_ascii_case(b"Content-Length") {
            let length = decimal(value).ok_or(FramingError::LengthInvalid { offset })?;
            if self.length.is_some_and(|before| before != length) {
                return Err(FramingError::LengthContradictory { offset });
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case(b"Content-Type") && !is_utf8(value) {
            return Err(FramingError::CharsetUnsupported { offset });
        }
        Ok(())
    }
}

/// Reads a header block of the most common form: one line, written as in the specification of LSP.
/// Returns the lengths of block and body.
///
/// A fast path: the general code reads the same block in the same way.
fn plain_head(block: &[u8]) -> Option<(usize, u64)> {
    let mut rest = block.strip_prefix(b"Content-Length: ")?;
    let mut number = 0_u64;
    // Nine digits cannot overflow, and longer numbers are rare.
    for _ in 0..9 {
        let Some((&digit @ b'0'..=b'9', tail)) = rest.split_first() else {
            break;
        };
        number = number * 10 + u64::from(digit - b'0');
        rest = tail;
    }
    // This finds no line end if there is anything but digits, or one digit too many.
    let body = rest.strip_prefix(b"\r\n\r\n")?;
    let head = block.len() - body.len();
    find::note_examined(head);
    (head > b"Content-Length: \r\n\r\n".len()).then_some((head, number))
}

/// Returns a line without the CRs before its LF.
fn without_crs(mut line: &[u8]) -> &[u8] {
    while let [rest @ .., b'\r'] = line {
        line = rest;
    }
    line
}

/// Whether a header name may contain the byte: RFC 9110 clause 5.6.2, `token`.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Reads a number of decimal digits; leading zeros do not make it octal. A number beyond `u64`
/// counts as the largest: no stream is so long that the difference matters.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, &digit| {
        let digit = digit.is_ascii_digit().then(|| digit - b'0')?;
        Some(number.saturating_mul(10).saturating_add(digit.into()))
    })
}

/// Whether a `Content-Type` names no charset, or UTF-8. The specification of LSP demands that
/// `utf8` be read as `utf-8`.
fn is_utf8(content_type: &[u8]) -> bool {
    let parameters = content_type.split(|&byte| byte == b';').skip(1);
    parameters
        .filter_map(|parameter| {
            let equals = parameter.iter().position(|&byte| byte == b'=')?;
            let (name, value) = parameter.split_at_checked(equals)?;
            name.trim_ascii()
                .eq_ignore_ascii_case(b"charset")
                .then(|| unquoted(value.get(1..).unwrap_or_default().trim_ascii()))
        })
        .all(|charset| {
            charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"utf8")
        })
}

/// Returns a parameter's value without its quotes, if it has quotes.
fn unquoted(value: &[u8]) -> &[u8] {
    value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
        .trim_ascii()
}
