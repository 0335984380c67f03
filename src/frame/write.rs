//! Putting frames into a stream: the header before a body, the line feed behind it.
//!
//! Here: room for a header, its number, the delimiter. Not here: the body, which the caller appends between `begin`
//! and `finish`.
//!
//! The rules guarded: the header stands directly before its body with the shortest number. Padding is no way out of
//! not knowing the length: clangd reads leading zeros as octal, lsp-server refuses extra blanks. So a length that is
//! known costs one copy; for one that is not, room for three digits is left and the body moved by the difference.
//!
//! ```text
//!  begin     … earlier frames │ Content-Length: ___␍␊␍␊ │
//!                             start                    body
//!  append    … earlier frames │ Content-Length: ___␍␊␍␊ │ {"jsonrpc":"2.0", … }
//!  finish    … earlier frames │ Content-Length: 41␍␊␍␊{"jsonrpc":"2.0", … }       moved by one
//! ```

use super::Framing;
use alloc::vec::Vec;

const NAME: &[u8] = b"Content-Length: ";
const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// The number assumed while the length is not known: most messages have 100 to 999 bytes.
const LENGTH_GUESSED: usize = 100;

/// The most digits of a `usize`, at 64 bits.
const DIGITS_MAX: usize = 20;

/// A frame begun and not finished.
#[derive(Clone, Copy, Debug)]
#[must_use = "a frame that is begun must be finished or abandoned"]
pub(crate) struct FrameStart {
    /// Where the frame begins in the output.
    start: usize,
    /// Where its body begins.
    body: usize,
    /// The body's length that the header in place tells.
    declared: usize,
}

/// Begins a frame whose length is not known yet; append the body, then [`finish`].
pub(crate) fn begin(framing: Framing, out: &mut Vec<u8>) -> FrameStart {
    begin_declared(framing, out, LENGTH_GUESSED)
}

/// Begins a frame whose body will have `body_len` bytes, so that [`finish`] has nothing to move.
///
/// A wrong length costs what [`begin`] costs, nothing more.
pub(crate) fn begin_sized(framing: Framing, out: &mut Vec<u8>, body_len: usize) -> FrameStart {
    let frame_bytes = NAME.len() + DIGITS_MAX + BLANK_LINE.len() + 1;
    out.reserve(body_len.saturating_add(frame_bytes));
    begin_declared(framing, out, body_len)
}

/// Ends a frame: sets the header right, appends the delimiter.
///
/// Between `begin` and this, `out` may only have grown.
pub(crate) fn finish(start: FrameStart, framing: Framing, out: &mut Vec<u8>) {
    debug_assert!(start.body <= out.len(), "the output shrank under a frame");
    match framing {
        Framing::ContentLength => correct_header(start, out),
        Framing::Newline | Framing::Concatenated | Framing::Detect => out.push(b'\n'),
        Framing::Messages => {}
    }
}

/// Takes a frame back as if it had never been begun.
pub(crate) fn abandon(start: FrameStart, out: &mut Vec<u8>) {
    out.truncate(start.start);
}

fn begin_declared(framing: Framing, out: &mut Vec<u8>, declared: usize) -> FrameStart {
    let start = out.len();
    if framing == Framing::ContentLength {
        let mut digits = [0; DIGITS_MAX];
        out.extend_from_slice(NAME);
        out.extend_from_slice(decimal(declared, &mut digits));
        out.extend_from_slice(BLANK_LINE);
    }
    FrameStart {
        start,
        body: out.len(),
        declared,
    }
}

/// Writes the true length into the header, moving the body if the number has more or fewer digits than assumed.
fn correct_header(start: FrameStart, out: &mut Vec<u8>) {
    let body_len = out.len().saturating_sub(start.body);
    if body_len == start.declared {
        return;
    }
    let mut digits = [0; DIGITS_MAX];
    let digits = decimal(body_len, &mut digits);
    let number = start.start + NAME.len();
    let body = number + digits.len() + BLANK_LINE.len();
    if body > start.body {
        out.resize(body + body_len, 0);
    }
    // Both ranges lie within `out`: it was at least `start.body + body_len` long before, and now is `body + body_len`.
    out.copy_within(start.body..start.body + body_len, body);
    out.truncate(body + body_len);
    let header = digits.iter().chain(BLANK_LINE);
    for (place, byte) in out.iter_mut().skip(number).zip(header) {
        *place = *byte;
    }
}

/// Writes `number` in its shortest decimal form to the end of `digits`.
fn decimal(mut number: usize, digits: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut first = DIGITS_MAX;
    for digit in digits.iter_mut().rev() {
        // A remainder of ten fits a byte.
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        first -= 1;
        if number == 0 {
            break;
        }
    }
    // `first` counted down once per digit, of which there is at least one.
    digits.get(first..).unwrap_or_default()
}
