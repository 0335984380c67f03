//! Whether the first bytes of a connection begin an HTTP request.
//!
//! A web page can make a browser connect to any port and send an HTTP request there, with a body of
//! the page's choice. A listener of plain JSON-RPC that took the request line for a malformed
//! message would go on and run the body. This module recognises such a connection by its first
//! line; the listener has to end it.

/// The longest method that is recognised, in bytes. The longest in the registry of HTTP methods has
/// 17.
const MAX_METHOD_BYTES: usize = 32;

/// How many bytes of a request line are examined, if its target is not a path.
const MAX_LINE_BYTES: usize = 1024;

/// The kind of a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// An HTTP request.
    Http,
    /// Anything else.
    Other,
    /// There are too few bytes to decide. This many of them have the same meaning in either case,
    /// and end no message and no line of a header: they may be read as usual.
    Undecided(usize),
}

/// Returns the kind of a connection by its first bytes.
///
/// A request begins with a method, a blank and a target (RFC 9112 clause 3). If the target is a
/// path or `*`, the request is recognised by the target's first byte, which neither JSON nor a
/// header block can have there; otherwise by the version after the target. JSON and header blocks
/// are recognised by their first byte that a method cannot have: of JSON usually the very first.
///
/// ```
/// use antiphon::http::{Opening, opening};
/// assert_eq!(opening(b"POST /"), Opening::Http);
/// assert_eq!(opening(b"CONNECT a:1 HTTP/1.1"), Opening::Http);
/// assert_eq!(opening(b"PRI * HTTP/2.0"), Opening::Http);
/// assert_eq!(opening(b"POS"), Opening::Undecided(3));
/// assert_eq!(opening(b"{"), Opening::Other);
/// assert_eq!(opening(b"Content-Length: "), Opening::Other);
/// ```
pub fn opening(bytes: &[u8]) -> Opening {
    // RFC 9112 clause 2.2: a server ignores line ends before a request.
    let start = count(bytes, |byte| byte.is_ascii_whitespace());
    let begun = &bytes[start..];
    let method_len = count(begun, is_token);
    let undecided = Opening::Undecided(start + method_len);
    let (method, rest) = begun.split_at(method_len);
    if method_len > MAX_METHOD_BYTES {
        return Opening::Other;
    }
    if rest.is_empty() {
        return undecided;
    }
    if method.is_empty() || !is_blank(rest[0]) {
        return Opening::Other;
    }
    let target = &rest[count(rest, is_blank)..];
    match target.first() {
        None => return undecided,
        Some(b'/' | b'*') => return Opening::Http,
        // The word may be a JSON value, and no target follows, so these are JSON values in a row.
        Some(byte) if is_scalar(method) && !byte.is_ascii_alphanumeric() => return Opening::Other,
        Some(byte) if !byte.is_ascii_graphic() => return Opening::Other,
        Some(_) => {}
    }
    if begun.len() > MAX_LINE_BYTES {
        return Opening::Other;
    }
    let behind = &target[count(target, |byte| byte.is_ascii_graphic())..];
    if behind.first().is_some_and(|byte| !is_blank(*byte)) {
        return Opening::Other;
    }
    let version = &behind[count(behind, is_blank)..];
    const VERSION: &[u8] = b"HTTP/";
    if version.starts_with(VERSION) {
        Opening::Http
    } else if VERSION.starts_with(version) {
        undecided
    } else {
        Opening::Other
    }
}

/// Counts the bytes at the beginning of `bytes` for which `is_so` is true.
fn count(bytes: &[u8], is_so: impl Fn(u8) -> bool) -> usize {
    let end = bytes.iter().position(|byte| !is_so(*byte));
    end.unwrap_or(bytes.len())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Whether a method may contain the byte: a token (RFC 9110 clause 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether the word is `true`, `false` or `null`, or begins like a number.
fn is_scalar(word: &[u8]) -> bool {
    matches!(word, b"true" | b"false" | b"null")
        || word
            .first()
            .is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::{Opening, opening};

    // USE-06
    #[test]
    fn a_request_is_told_however_it_is_split_and_never_before_its_target() {
        for line in [
            "POST / HTTP/1.1\r\n",
            "GET /a?b HTTP/1.0\r\n",
            "OPTIONS * HTTP/1.1\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "M-SEARCH * HTTP/1.1\r\n",
            "CONNECT a.example:443 HTTP/1.1\r\n",
            "CONNECT [::1]:443 HTTP/1.1\r\n",
            "POST http://a.example/ HTTP/1.1\r\n",
            "\r\nPOST / HTTP/1.1\r\n",
            "POST  / HTTP/1.1\r\n",
        ] {
            let mut told = None;
            for end in 0..=line.len() {
                match opening(&line.as_bytes()[..end]) {
                    Opening::Http => told = told.or(Some(end)),
                    Opening::Undecided(safe) => {
                        assert_eq!(told, None, "{line:?}");
                        let read = &line[..safe];
                        assert!(!read.trim_start().contains(char::is_whitespace), "{read:?}");
                    }
                    Opening::Other => panic!("{:?}", &line[..end]),
                }
            }
            assert!(told.is_some(), "{line:?}");
        }
    }

    // USE-06
    #[test]
    fn what_json_rpc_begins_with_is_told_by_its_first_byte() {
        for first in [
            "{",
            "[",
            "\"",
            "\u{feff}",
            "\u{feff}{",
            " {",
            "\n[",
            "\r\n{",
        ] {
            assert_eq!(opening(first.as_bytes()), Opening::Other, "{first:?}");
        }
    }

    // USE-06
    #[test]
    fn what_is_no_request_line_is_left_to_the_framing() {
        for text in [
            "Content-Length: 2\r\n",
            "Content-Length : 2\r\n",
            "true {\"jsonrpc\"",
            "null [1",
            "1 {}",
            "-1 [",
            "POST\r\n",
            "POST \r\n",
            "POST is no JSON\n",
            "this is no JSON\n",
            "POST x\r\n",
            "\u{16}\u{3}\u{1}",
            "GET \u{e4}",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ",
        ] {
            assert_eq!(opening(text.as_bytes()), Opening::Other, "{text:?}");
        }
        let long = ["GET ", &"x".repeat(2000)].concat();
        assert_eq!(opening(long.as_bytes()), Opening::Other);
        for (text, safe) in [("", 0), (" \n", 2), ("tru", 3), ("12", 2), (" GET x", 4)] {
            assert_eq!(
                opening(text.as_bytes()),
                Opening::Undecided(safe),
                "{text:?}"
            );
        }
    }
}
