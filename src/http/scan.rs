//! Counts the `Content-Length` lines of each request in the bytes of a connection, as they arrive.
//!
//! Libraries that read HTTP drop a second `Content-Length`, or a `Content-Length` together with a
//! `Transfer-Encoding`, before their caller sees it. RFC 9112 clause 6.3 demands that a request with both headers is
//! handled as an error. Requests may come one behind the other, so the scan also finds where each of them ends:
//!
//! ```text
//!   Head ──no body──▶ Head      Head ──length──▶ Skip ──▶ Head
//!   Head ──chunked──▶ Size ──▶ Skip ──▶ Size ── … ──size 0──▶ Trailer ──▶ Head
//! ```
//!
//! Whether a request is valid is the library's matter: it ends the connection if not.

use alloc::collections::VecDeque;
use core::mem::take;

use crate::frame::line_feed;

/// What is known of a head: see the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Head {
    /// The number of `Content-Length` lines.
    lengths: u32,
    /// The value of the last one.
    length: u64,
    is_chunked: bool,
    /// Whether a line with text was seen: empty lines may stand before a request.
    has_line: bool,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    /// Bytes of a body, or of a chunk with its line end. A chunk follows if the body is chunked.
    Skip {
        left: u64,
        is_chunk: bool,
    },
    /// The line with the size of a chunk.
    Size {
        size: u64,
        is_read: bool,
    },
    /// So many bytes of CRLF CRLF were seen: nothing else ends trailers.
    Trailer {
        matched: u8,
    },
}

/// Where in a line of a head the scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many bytes match the names that are looked for.
    Name {
        at: usize,
        may_be_length: bool,
        may_be_coding: bool,
    },
    Length,
    Other,
}

/// See the module: feed it all bytes of a connection, and ask it for each head that the library has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestScan {
    part: Part,
    line: Line,
    /// Whether the line has only a line end so far.
    is_empty: bool,
    head: Head,
    /// The numbers of heads that are over, and were not asked for.
    over: VecDeque<u32>,
}

const LENGTH: &[u8] = b"content-length:";
const CODING: &[u8] = b"transfer-encoding:";

const NEW_LINE: Line = Line::Name {
    at: 0,
    may_be_length: true,
    may_be_coding: true,
};

impl RequestScan {
    /// Makes the scan of a connection.
    pub const fn new() -> Self {
        Self {
            part: Part::Head,
            line: NEW_LINE,
            is_empty: true,
            head: Head {
                lengths: 0,
                length: 0,
                is_chunked: false,
                has_line: false,
            },
            over: VecDeque::new(),
        }
    }

    /// Takes the next head that is over, and returns how many `Content-Length` lines it has; `None` if there is
    /// none: then the library has found another end than this scan.
    pub fn take_lengths(&mut self) -> Option<u32> {
        self.over.pop_front()
    }

    /// Takes bytes as they arrive.
    pub fn take(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = match self.part {
                Part::Skip { left, is_chunk } => {
                    let here = left.min(bytes.len() as u64);
                    self.skip(left - here, is_chunk);
                    bytes.get(here as usize..).unwrap_or_default()
                }
                Part::Size { size, is_read } => {
                    self.size(size, is_read, byte);
                    rest
                }
                Part::Trailer { matched } => {
                    self.part = trailer(matched, byte);
                    rest
                }
                Part::Head => self.line(byte, rest),
            };
        }
    }

    fn skip(&mut self, left: u64, is_chunk: bool) {
        self.part = match (left, is_chunk) {
            (1.., _) => Part::Skip { left, is_chunk },
            (0, true) => Part::Size {
                size: 0,
                is_read: false,
            },
            (0, false) => Part::Head,
        };
    }

    /// One byte of the size of a chunk; its extensions are skipped.
    fn size(&mut self, size: u64, is_read: bool, byte: u8) {
        let digit = char::from(byte).to_digit(16).filter(|_| !is_read);
        self.part = match (byte, digit) {
            (b'\n', _) if size == 0 => Part::Trailer { matched: 2 },
            // Two more bytes: the line end behind the chunk.
            (b'\n', _) => Part::Skip {
                left: size.saturating_add(2),
                is_chunk: true,
            },
            (_, Some(digit)) => Part::Size {
                size: size.saturating_mul(16).saturating_add(digit.into()),
                is_read,
            },
            (_, None) => Part::Size {
                size,
                is_read: true,
            },
        };
    }

    /// A byte of a line; returns what is left to be read.
    fn line<'a>(&mut self, byte: u8, rest: &'a [u8]) -> &'a [u8] {
        if byte == b'\n' {
            self.end_line();
            return rest;
        }
        self.is_empty &= byte == b'\r';
        match self.line {
            Line::Name {
                at,
                may_be_length,
                may_be_coding,
            } => {
                let byte = byte.to_ascii_lowercase();
                let may_be_length = may_be_length && LENGTH.get(at) == Some(&byte);
                let may_be_coding = may_be_coding && CODING.get(at) == Some(&byte);
                let at = at + 1;
                self.line = if may_be_length && at == LENGTH.len() {
                    self.head.lengths += 1;
                    self.head.length = 0;
                    Line::Length
                } else if may_be_coding && at == CODING.len() {
                    self.head.is_chunked = true;
                    Line::Other
                } else if may_be_length || may_be_coding {
                    Line::Name {
                        at,
                        may_be_length,
                        may_be_coding,
                    }
                } else {
                    Line::Other
                };
                rest
            }
            Line::Length => {
                if let Some(digit) = char::from(byte).to_digit(10) {
                    let tens = self.head.length.saturating_mul(10);
                    self.head.length = tens.saturating_add(digit.into());
                }
                rest
            }
            // The rest of the line is skipped, up to its end.
            Line::Other => {
                let end = line_feed(rest).unwrap_or(rest.len());
                rest.get(end..).unwrap_or_default()
            }
        }
    }

    fn end_line(&mut self) {
        let is_end = self.is_empty;
        (self.line, self.is_empty) = (NEW_LINE, true);
        if !is_end {
            self.head.has_line = true;
        } else if self.head.has_line {
            let head = take(&mut self.head);
            self.over.push_back(head.lengths);
            match head.is_chunked {
                // RFC 9112 clause 6.3: a transfer coding overrides a length.
                true => self.skip(0, true),
                false => self.skip(head.length, false),
            }
        }
    }
}

/// One byte of trailers, or of the empty line that ends them.
fn trailer(matched: u8, byte: u8) -> Part {
    let matched = match (matched, byte) {
        (3, b'\n') => return Part::Head,
        (1, b'\n') => 2,
        (2, b'\r') => 3,
        (_, b'\r') => 1,
        _ => 0,
    };
    Part::Trailer { matched }
}

impl Default for RequestScan {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::RequestScan;

    // USE-08
    #[test]
    fn lengths_are_counted_in_the_bytes_however_they_are_split() {
        for (bytes, lengths) in [
            (
                "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 2\r\n\r\n{}",
                &[1][..],
            ),
            (
                "\r\n\r\nPOST / HTTP/1.1\ncontent-length: 2\ncontent-length: 2\n\n{}",
                &[2],
            ),
            (
                "POST / HTTP/1.1\r\nx: content-length: 2\r\nxcontent-length: 1\r\ncontent-lengthy: 7\r\n\r\n",
                &[0],
            ),
            (
                "GET / HTTP/1.1\r\na: b\r\n\r\n\ncontent-length: 2\r\n",
                &[0],
            ),
            // One behind the other, with bodies of each kind.
            (
                "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 30\r\n\r\n\
                 \r\n\r\nContent-Length: 5\r\n\r\nabcdePOST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\
                 CONTENT-LENGTH: 2\r\n\r\n3;x=1\r\na\r\n\r\n1A \r\n\r\n\r\nContent-Length: 5\r\n\r\nx\r\n0\r\n\
                 Content-Length: 9\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\
                 GET / HTTP/1.1\r\ncontent-length: 0\r\n\r\nGET /",
                &[0, 1, 1, 0, 1],
            ),
            // Trailers end at CRLF CRLF, wherever a LF stands before.
            (
                "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: a\n\nGET / HTTP/1.1\r\n\r\n\
                 POST / HTTP/1.1\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\
                 \n\r\r\n\r\nGET / HTTP/1.1\r\ncontent-length: 0\r\ncontent-length: 0\r\n\r\n",
                &[0, 1, 2],
            ),
        ] {
            for split in 0..=bytes.len() {
                let mut scan = RequestScan::new();
                scan.take(&bytes.as_bytes()[..split]);
                scan.take(&bytes.as_bytes()[split..]);
                let seen: Vec<u32> = core::iter::from_fn(|| scan.take_lengths()).collect();
                assert_eq!(seen, lengths, "{bytes:?} {split}");
            }
        }
    }

    // USE-08
    #[test]
    fn no_size_is_too_large() {
        let mut scan = RequestScan::new();
        scan.take(b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        assert_eq!((scan.take_lengths(), scan.take_lengths()), (Some(1), None));
        let mut scan = RequestScan::new();
        scan.take(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nGET / HTTP/1.1\r\n\r\n");
        assert_eq!((scan.take_lengths(), scan.take_lengths()), (Some(0), None));
    }
}
