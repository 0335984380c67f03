//! The common parts of both sides of the handshake: reading a head up to its blank line, and
//! passing on its data.

use antiphon::session::Handshake;
use tungstenite::http::HeaderMap;

/// Takes the bytes of a head out of `input`, and returns whether the head is complete; bytes after
/// its blank line are left. If it is not complete and bytes are left, the head is over its limit.
pub(crate) fn gather(head: &mut Vec<u8>, max_bytes: usize, input: &mut &[u8]) -> bool {
    const BLANK: &[u8] = b"\r\n\r\n";
    let had = head.len();
    let from = had.saturating_sub(BLANK.len() - 1);
    let taken = input.len().min(max_bytes.saturating_sub(had));
    head.extend_from_slice(&input[..taken]);
    let mut windows = head[from..].windows(BLANK.len());
    let blank = windows.position(|window| window == BLANK);
    if let Some(at) = blank {
        head.truncate(from + at + BLANK.len());
    }
    *input = &input[head.len() - had..];
    blank.is_some()
}

/// Returns the data of a handshake. Names of headers are in lower case; headers of one name are
/// next to each other, in the order received.
pub(crate) fn told(target: &str, headers: &HeaderMap, subprotocol: Option<&str>) -> Handshake {
    let mut handshake = Handshake::new();
    handshake.target = Some(target.into());
    let headers = headers.iter();
    handshake.headers = headers
        .map(|(name, value)| (name.as_str().into(), value.as_bytes().into()))
        .collect();
    handshake.subprotocol = subprotocol.map(Into::into);
    handshake
}

#[cfg(test)]
mod tests {
    use super::gather;

    // WSK-15
    #[test]
    fn a_head_ends_at_its_blank_line_however_it_is_split() {
        let whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nframes";
        for split in 0..=whole.len() {
            let mut head = Vec::new();
            let (mut first, mut second) = whole.split_at(split);
            if !gather(&mut head, 100, &mut first) {
                assert!(first.is_empty());
                assert!(gather(&mut head, 100, &mut second), "{split}");
            }
            assert!(head.ends_with(b"x\r\n\r\n"));
            assert_eq!([first, second].concat(), b"frames", "{split}");
        }
    }

    // WSK-15
    #[test]
    fn a_head_beyond_its_limit_is_not_held() {
        for (max_bytes, is_whole) in [(27, true), (26, false)] {
            let (mut head, mut input) = (Vec::new(), &b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"[..]);
            assert_eq!(gather(&mut head, max_bytes, &mut input), is_whole);
            assert_eq!(input.is_empty(), is_whole);
            assert!(head.len() <= max_bytes);
        }
        let mut head = Vec::new();
        for n in 1..=9 {
            let mut input = &b"x"[..];
            assert!(!gather(&mut head, 8, &mut input));
            assert_eq!(input.is_empty(), n <= 8);
        }
        assert_eq!(head.len(), 8);
    }
}
