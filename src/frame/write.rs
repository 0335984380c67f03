//! Writes frames into a stream: the header before a body, the delimiter after it.
//!
//! This module reserves space for a header, writes its number, and appends the delimiter. The
//! caller appends the body between `begin` and `finish`.
//!
//! The header has the shortest form of the number and is followed directly by the body. The header
//! cannot be padded to reserve space for an unknown length: clangd reads leading zeros as octal,
//! and lsp-server refuses extra blanks. So space is reserved for a guessed length. If the guess has
//! the wrong number of digits, the body is moved.
//!
//! ```text
//!  begin     … earlier frames │ Content-Length: ___␍␊␍␊ │
//!                             start                    body
//!  append    … earlier frames │ Content-Length: ___␍␊␍␊ │ {"jsonrpc":"2.0", … }
//!  finish    … earlier frames │ Content-Length: 41␍␊␍␊{"jsonrpc":"2.0", … }       moved by one
//! ```

use super::cut::Framing;
use crate::target::rare;
use alloc::vec::Vec;

const NAME: &[u8] = b"Content-Length: ";
const BLANK_LINE: &[u8] = b"\r\n\r\n";

/// The headers of nearly all messages, whose numbers are still to be written.
const TWO_DIGITS: &[u8; 22] = b"Content-Length: 00\r\n\r\n";
const THREE_DIGITS: &[u8; 23] = b"Content-Length: 000\r\n\r\n";

/// The most digits of a `usize`, at 64 bits.
const MAX_DIGITS: usize = 20;

/// A frame begun and not finished.
#[derive(Clone, Copy, Debug)]
#[must_use = "a frame that is begun must be finished or taken back"]
pub(crate) struct FrameStart {
    /// Where the frame begins in the output.
    start: usize,
    /// Where its body begins.
    body: usize,
}

impl FrameStart {
    /// Where the frame's body begins in the output.
    pub(crate) fn body(self) -> usize {
        self.body
    }
}

/// Reopens the finished frame that begins at `start` in `out`, and whose delimiter has been
/// removed, so that more can be appended to its body. [`finish`] ends it again.
pub(crate) fn reopen(framing: Framing, out: &[u8], start: usize) -> FrameStart {
    let header = match framing {
        Framing::ContentLength => {
            let frame = out.get(start..).unwrap_or_default();
            let mut lines = frame.windows(BLANK_LINE.len());
            let blank = lines.position(|bytes| bytes == BLANK_LINE);
            blank.map_or(0, |at| at + BLANK_LINE.len())
        }
        _ => 0,
    };
    FrameStart {
        start,
        body: start + header,
    }
}

/// Returns the length of the delimiter after a body, in bytes.
pub(crate) fn delimiter_bytes(framing: Framing) -> usize {
    match framing {
        Framing::ContentLength | Framing::Messages => 0,
        _ => 1,
    }
}

/// Begins a frame whose body will have about `body_len` bytes. The caller appends the body and
/// calls [`finish`], which moves the body only if the number of digits was wrong. To take a frame
/// back, truncate `out` to its former length.
#[inline(always)]
pub(crate) fn begin(framing: Framing, out: &mut Vec<u8>, body_len: usize) -> FrameStart {
    make_room(framing, out, body_len);
    let start = out.len();
    if framing == Framing::ContentLength {
        match body_len {
            10..100 => out.extend_from_slice(TWO_DIGITS),
            100..1000 => out.extend_from_slice(THREE_DIGITS),
            _ => {
                rare();
                leave_header(out, body_len);
            }
        }
    }
    FrameStart {
        start,
        body: out.len(),
    }
}

/// Reserves capacity for a frame whose body will have about `body_len` bytes.
#[inline]
fn make_room(framing: Framing, out: &mut Vec<u8>, body_len: usize) {
    let frame_bytes = match framing {
        Framing::ContentLength => NAME.len() + MAX_DIGITS + BLANK_LINE.len(),
        _ => 1,
    };
    let room = body_len.saturating_add(frame_bytes);
    if room > out.capacity() - out.len() {
        grow(out, room);
    }
}

/// Reserves space for a header with as many digits as `body_len` has.
#[inline(never)]
fn leave_header(out: &mut Vec<u8>, body_len: usize) {
    out.extend_from_slice(NAME);
    out.resize(out.len() + digits_of(body_len), b'0');
    out.extend_from_slice(BLANK_LINE);
}

/// Reserves capacity in the output. If the output is empty, the old memory is freed before the new
/// memory is allocated.
#[cold]
#[inline(never)]
fn grow(out: &mut Vec<u8>, room: usize) {
    if out.is_empty() {
        *out = Vec::new();
    }
    out.reserve(room);
}

/// Ends a frame: sets the header right, appends the delimiter.
///
/// Between `begin` and this, `out` may only have grown.
#[inline]
pub(crate) fn finish(start: FrameStart, framing: Framing, out: &mut Vec<u8>) {
    debug_assert!(start.body <= out.len(), "the output shrank under a frame");
    if framing == Framing::ContentLength {
        write_length(start, out);
    } else if delimiter_bytes(framing) > 0 {
        out.push(b'\n');
    }
}

/// Writes the true length into the header.
#[inline(always)]
fn write_length(start: FrameStart, out: &mut Vec<u8>) {
    let body_len = out.len().saturating_sub(start.body);
    let place = start.start + NAME.len()..start.body.saturating_sub(BLANK_LINE.len());
    // The remainder of a division by ten fits into a byte.
    let digit = |unit: usize| b'0' + (body_len / unit % 10) as u8;
    match (out.get_mut(place), body_len) {
        (Some(place @ [_, _]), 10..100) => place.copy_from_slice(&two_digits(body_len)),
        (Some([hundreds, tens, ones]), 100..1000) => {
            (*hundreds, *tens, *ones) = (digit(100), digit(10), digit(1));
        }
        (place, _) => {
            if !place.is_some_and(|place| fill(place, body_len)) {
                correct_header(start, out, body_len);
            }
        }
    }
}

/// Returns the two digits of a number below 100, computed in one word.
#[inline]
fn two_digits(number: usize) -> [u8; 2] {
    let number = number as u16;
    let tens = number / 10;
    (tens + ((number - 10 * tens) << 8) + u16::from_le_bytes(*b"00")).to_le_bytes()
}

/// Writes `number` into `place`, filled up with leading zeros. Returns whether `place` has exactly
/// as many digits as `number`.
#[inline(never)]
fn fill(place: &mut [u8], mut number: usize) -> bool {
    for digit in place.iter_mut().rev() {
        // The remainder of a division by ten fits into a byte.
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    number == 0 && (place.len() == 1 || place.first().is_some_and(|&digit| digit != b'0'))
}

/// Writes the header again when the number has more or fewer digits than assumed, and moves the
/// body to fit.
#[cold]
#[inline(never)]
fn correct_header(start: FrameStart, out: &mut Vec<u8>, body_len: usize) {
    let mut digits = [0; MAX_DIGITS];
    let digits = decimal(body_len, &mut digits);
    let number = start.start + NAME.len();
    let body = number + digits.len() + BLANK_LINE.len();
    if body > start.body {
        out.resize(body + body_len, 0);
    }
    // Both ranges lie within `out`: it has at least `start.body + body_len` bytes, and at least
    // `body + body_len`.
    out.copy_within(start.body..start.body + body_len, body);
    out.truncate(body + body_len);
    let header = digits.iter().chain(BLANK_LINE);
    for (place, byte) in out.iter_mut().skip(number).zip(header) {
        *place = *byte;
    }
}

/// Writes `number` to the end of `digits`, and returns its shortest decimal form.
fn decimal(number: usize, digits: &mut [u8; MAX_DIGITS]) -> &[u8] {
    fill(digits, number);
    digits
        .get(MAX_DIGITS - digits_of(number)..)
        .unwrap_or_default()
}

/// How many digits the shortest decimal form of `number` has: one at least.
fn digits_of(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::{Framing, begin, decimal, finish};
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::{any, proptest};

    const LENGTHS: [usize; 12] = [
        0, 1, 9, 10, 99, 100, 101, 999, 1000, 9_999, 99_999, 1_000_000,
    ];

    /// Bytes that show when a move is off by one.
    fn body(len: usize) -> Vec<u8> {
        (0..len).map(|n| b'a' + (n % 26) as u8).collect()
    }

    // STD-01
    #[test]
    fn the_header_has_the_shortest_number_and_stands_directly_before_its_body() {
        for len in LENGTHS {
            let body = body(len);
            let mut expected = format!("kept\nContent-Length: {len}\r\n\r\n").into_bytes();
            expected.extend_from_slice(&body);
            let framing = Framing::ContentLength;

            let mut out = b"kept\n".to_vec();
            let start = begin(framing, &mut out, len);
            let room = out.capacity();
            out.extend_from_slice(&body);
            finish(start, framing, &mut out);
            assert!(out == expected, "sized, {len} bytes");
            assert_eq!(out.capacity(), room, "one allocation");
        }
    }

    // STD-01
    #[test]
    fn a_wrong_size_is_corrected() {
        for promised in LENGTHS {
            for len in [0, 9, 100, 1000] {
                let mut out = vec![];
                let start = begin(Framing::ContentLength, &mut out, promised);
                out.extend_from_slice(&body(len));
                finish(start, Framing::ContentLength, &mut out);
                let mut expected = format!("Content-Length: {len}\r\n\r\n").into_bytes();
                expected.extend_from_slice(&body(len));
                assert!(out == expected, "{promised} promised, {len} written");
            }
        }
    }

    // STD-05, STD-06, TRN-10
    #[test]
    fn other_framings_have_a_line_feed_behind_or_nothing() {
        for (framing, expected) in [
            (Framing::Newline, "{}\n{}\n"),
            (Framing::Detect, "{}\n{}\n"),
            (Framing::Concatenated, "{}\n{}\n"),
            (Framing::Messages, "{}{}"),
        ] {
            let mut out = vec![];
            let start = begin(framing, &mut out, 100);
            out.extend_from_slice(b"{}");
            finish(start, framing, &mut out);
            let start = begin(framing, &mut out, 2);
            out.extend_from_slice(b"{}");
            finish(start, framing, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn numbers_are_written_as_the_standard_library_does(number: usize, shift in 0..usize::BITS) {
            let number = number >> shift;
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }

        // STD-01, STD-08
        #[test]
        fn what_is_written_is_read_back(bodies in proptest::collection::vec((0..2000_usize, any::<bool>()), 0..8)) {
            let framing = Framing::ContentLength;
            let mut out = vec![];
            for (len, sized) in &bodies {
                let start = begin(framing, &mut out, if *sized { *len } else { 100 });
                out.extend_from_slice(&body(*len));
                finish(start, framing, &mut out);
            }
            let mut framer = crate::frame::Framer::new(framing, 2000, 100);
            let mut unread = out.as_slice();
            for (len, _) in &bodies {
                let Ok(crate::frame::Cut::Frame { body: range, taken, .. }) = framer.cut(unread, true) else {
                    panic!("a frame is there");
                };
                assert_eq!(unread[range], body(*len));
                unread = &unread[taken..];
            }
            assert_eq!(framer.cut(unread, true), Ok(crate::frame::Cut::End { taken: 0 }));
        }
    }
}
