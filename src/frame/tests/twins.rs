//! Naive versions of the codecs: each cuts a whole stream at once, without regard for splits, and
//! is compared with the framer on random streams in random pieces.

use super::{Item, cut_in, cut_through_buffer};
use crate::frame::{Framer, Framing, FramingError};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use proptest::collection::vec as vec_of;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof, proptest};
use proptest::sample::select;

fn trim_start(bytes: &[u8]) -> &[u8] {
    let blanks = b" \t\r\n";
    let start = bytes.iter().position(|byte| !blanks.contains(byte));
    &bytes[start.unwrap_or(bytes.len())..]
}

fn lines(stream: &[u8], max_frame_bytes: usize) -> Vec<Item> {
    let mut items = vec![];
    let mut lines = stream.split(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let line = trim_start(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
        } else if line.len() > max_frame_bytes {
            items.push(Item::Oversize(None));
        } else if lines.peek().is_none() {
            items.push(Item::Unterminated(line.to_vec()));
        } else {
            items.push(Item::Frame(line.to_vec()));
        }
    }
    items.push(Item::End);
    items
}

fn content_length(stream: &[u8], max_frame_bytes: usize, max_header_bytes: usize) -> Vec<Item> {
    let mut items = vec![];
    let mut rest = stream;
    loop {
        rest = trim_start(rest);
        if rest.is_empty() {
            items.push(Item::End);
            return items;
        }
        let begin = stream.len() - rest.len();
        match head(rest, max_header_bytes, begin as u64) {
            Err(error) => {
                items.push(Item::Error(error));
                return items;
            }
            Ok((head, length)) => {
                rest = &rest[head..];
                let fits = length <= max_frame_bytes as u128;
                if !fits {
                    items.push(Item::Oversize(Some(length as u64)));
                }
                if length > rest.len() as u128 {
                    let offset = begin as u64;
                    items.push(Item::Error(FramingError::Truncated { offset }));
                    return items;
                }
                let (body, behind) = rest.split_at(length as usize);
                if fits {
                    items.push(Item::Frame(body.to_vec()));
                }
                rest = behind;
            }
        }
    }
}

/// Reads the header block at the beginning of `block`. Returns its length and that of the body.
fn head(block: &[u8], max_header_bytes: usize, begin: u64) -> Result<(usize, u128), FramingError> {
    let mut length = None;
    let mut at = 0;
    for line in block.split_inclusive(|&byte| byte == b'\n') {
        let offset = begin + at as u64;
        at += line.len();
        if at > max_header_bytes {
            return Err(FramingError::HeaderTooLong { offset: begin });
        }
        if !line.ends_with(b"\n") {
            break;
        }
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\n').trim_end_matches('\r');
        if line.is_empty() {
            let length = length.ok_or(FramingError::LengthMissing { offset: begin })?;
            return Ok((at, length));
        }
        let line = match offset == begin {
            true => line.strip_prefix('\u{FEFF}').unwrap_or(line),
            false => line,
        };
        let blanks: &[char] = &[' ', '\t', '\r', '\x0c'];
        let line = line.trim_matches(blanks);
        if line.is_empty() {
            continue;
        }
        let (name, value) = line
            .split_once(':')
            .ok_or(FramingError::NotAHeader { offset })?;
        let (name, value) = (
            name.trim_matches(blanks).to_lowercase(),
            value.trim_matches(blanks),
        );
        if name.is_empty()
            || name.contains(|c: char| !c.is_ascii_graphic() || "\"(),/:;<=>?@[\\]{}".contains(c))
        {
            return Err(FramingError::NotAHeader { offset });
        }
        if name == "content-length" {
            if value.is_empty() || value.contains(|c: char| !c.is_ascii_digit()) {
                return Err(FramingError::LengthInvalid { offset });
            }
            let value = value
                .parse::<u128>()
                .unwrap_or(u128::MAX)
                .min(u64::MAX.into());
            if *length.get_or_insert(value) != value {
                return Err(FramingError::LengthContradictory { offset });
            }
        }
        if name == "content-type" {
            let value = value.to_lowercase();
            let is_other = |parameter: &str| {
                let Some((name, value)) = parameter.split_once('=') else {
                    return false;
                };
                let value = value.trim_matches(blanks);
                let quoted = ["\"utf-8\"", "\"utf8\""].contains(&value);
                name.trim_matches(blanks) == "charset"
                    && !quoted
                    && !["utf-8", "utf8"].contains(&value)
            };
            if value.split(';').skip(1).any(is_other) {
                return Err(FramingError::CharsetUnsupported { offset });
            }
        }
    }
    Err(match block.len() < max_header_bytes {
        true => FramingError::Truncated { offset: begin },
        false => FramingError::HeaderTooLong { offset: begin },
    })
}

/// Returns the end of the value at the beginning of `bytes`. If the value has no end there, returns
/// as the error whether the end of the stream may end it.
fn value_end(bytes: &[u8]) -> Result<usize, bool> {
    let mark = b"\xEF\xBB\xBF";
    let bare = bytes.strip_prefix(mark).map_or(bytes, trim_start);
    let skipped = bytes.len() - bare.len();
    if mark.starts_with(bytes) || bare.is_empty() {
        return Err(true);
    }
    let (ends, from): (&[u8], usize) = match bare[0] {
        b'{' | b'[' | b'"' => {
            let (mut depth, mut in_string, mut at) = (0, false, 0);
            while at < bare.len() {
                match bare[at] {
                    b'\\' if in_string => at += 1,
                    b'"' => in_string = !in_string,
                    b'{' | b'[' if !in_string => depth += 1,
                    b'}' | b']' if !in_string => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 && !in_string {
                    // The last byte is no escaped one, because no string is open.
                    return Ok(skipped + at);
                }
            }
            return Err(false);
        }
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => (b" \t\r\n{[\"", 1),
        _ => (b"\n{[", 1),
    };
    let end = bare[from..].iter().position(|byte| ends.contains(byte));
    end.map(|n| skipped + from + n).ok_or(true)
}

fn concatenated(stream: &[u8], max_frame_bytes: usize) -> Vec<Item> {
    let mut items = vec![];
    let mut rest = stream;
    loop {
        rest = trim_start(rest);
        if rest.is_empty() {
            items.push(Item::End);
            return items;
        }
        let end = value_end(rest);
        let value = &rest[..end.unwrap_or(rest.len())];
        if value.len() > max_frame_bytes {
            items.push(Item::Oversize(None));
        } else if end.is_ok() {
            items.push(Item::Frame(value.to_vec()));
        } else if end == Err(true) {
            items.push(Item::Unterminated(value.to_vec()));
        }
        if end == Err(false) {
            let offset = (stream.len() - rest.len()) as u64;
            items.push(Item::Error(FramingError::Truncated { offset }));
            return items;
        }
        rest = &rest[value.len()..];
    }
}

fn detect(stream: &[u8], max_frame_bytes: usize, max_header_bytes: usize) -> Vec<Item> {
    let begun = trim_start(stream);
    let begun = begun.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(begun);
    match begun.first() {
        Some(b'a'..=b'z' | b'A'..=b'Z') => {
            content_length(stream, max_frame_bytes, max_header_bytes)
        }
        _ => lines(stream, max_frame_bytes),
    }
}

/// Makes a piece of a stream. The pieces often have special cases of the framings.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&[u8]> = vec![
        b"{",
        b"}",
        b"[",
        b"]",
        b"\"",
        b"\\",
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b"1",
        b"-2.5",
        b"true",
        b"null",
        b"{}",
        b"[]",
        b"{\"a\":1}",
        b"\"x\"",
        b"\xEF\xBB\xBF",
        b"\xEF",
        b"\xBB",
        b"\xC3\xA9",
        b"\0",
        b"\xFF",
        b",",
        b":",
        b"x",
        b"Content-Length",
        b"Content-Length: ",
        b"content-length:",
        b"0",
        b"5",
        b"12",
        b"007",
        b"18446744073709551616",
        b"\r\n\r\n",
        b"\n\n",
        b"Content-Length: 2\r\n\r\n{}",
        b"Content-Length:1\n\n1",
        b"Content-Length: 0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n[]",
        b"Content-Length: 30\r\n\r\n123456789012345678901234567890",
        b"X: y\r\n",
        b"Content-Type: a; charset=",
        b"utf-8",
        b"utf8",
        b"latin1",
        b"\"utf-8\"",
    ];
    prop_oneof![
        8 => select(words).prop_map(<[u8]>::to_vec),
        1 => vec_of(any::<u8>(), 0..4),
        1 => (1..60_usize, any::<u8>()).prop_map(|(n, byte)| vec![byte; n]),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    vec_of(fragment(), 0..20).prop_map(|fragments| fragments.concat())
}

/// A stream of one framing with few faults, so that long runs of frames are reached.
fn sound_stream() -> impl Strategy<Value = (Framing, Vec<u8>)> {
    let body = prop_oneof![
        Just(b"{}".to_vec()),
        Just(br#"{"a":"\"}\\","b":[1,{}]}"#.to_vec()),
        Just("[\"é\u{1F600}\"]".as_bytes().to_vec()),
        (0..50_usize).prop_map(|n| [b"[\"", vec![b'x'; n].as_slice(), b"\"]"].concat()),
    ];
    (any::<u8>(), vec_of(body, 0..12)).prop_map(|(kind, bodies)| {
        let mut stream = vec![];
        let framing = [
            Framing::Newline,
            Framing::ContentLength,
            Framing::Concatenated,
        ][usize::from(kind % 3)];
        for body in bodies {
            let start = crate::frame::write::begin(framing, &mut stream, 100);
            stream.extend_from_slice(&body);
            crate::frame::write::finish(start, framing, &mut stream);
            // Half of these streams have nothing between their values.
            if kind % 2 == 1 && framing == Framing::Concatenated {
                stream.pop();
            }
        }
        (framing, stream)
    })
}

/// Splits `stream` into pieces of these `widths`, which are repeated.
fn pieces<'a>(mut stream: &'a [u8], widths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = vec![];
    for &width in widths.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        let (piece, rest) = stream.split_at(width.min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}

fn agree(framing: Framing, stream: &[u8], widths: &[usize], limits: (usize, usize)) {
    let (max_frame_bytes, max_header_bytes) = limits;
    let expected = match framing {
        Framing::Newline => lines(stream, max_frame_bytes),
        Framing::ContentLength => content_length(stream, max_frame_bytes, max_header_bytes),
        Framing::Concatenated => concatenated(stream, max_frame_bytes),
        Framing::Detect => detect(stream, max_frame_bytes, max_header_bytes),
        Framing::Messages => unreachable!("messages are not a stream"),
    };
    let framer = Framer::new(framing, max_frame_bytes, max_header_bytes);
    assert_eq!(cut_in(framer.clone(), [stream], true), expected, "whole");
    assert_eq!(
        cut_in(framer.clone(), stream.chunks(1), false),
        expected,
        "byte by byte"
    );
    assert_eq!(
        cut_in(framer.clone(), stream.chunks(1), true),
        expected,
        "byte by byte, the end with the last"
    );
    let pieces = pieces(stream, widths);
    assert_eq!(cut_in(framer.clone(), pieces, true), expected, "{widths:?}");
    assert_eq!(
        cut_through_buffer(framer, stream),
        expected,
        "through a buffer"
    );
}

fn widths() -> impl Strategy<Value = Vec<usize>> {
    vec_of(1..9_usize, 1..6)
}

fn limits() -> impl Strategy<Value = (usize, usize)> {
    let frame = prop_oneof![0..4_usize, 0..40_usize, Just(usize::MAX)];
    let header = prop_oneof![0..4_usize, 20..80_usize, Just(usize::MAX)];
    (frame, header)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    // STD-05, STD-08
    #[test]
    fn lines_agree_with_their_twin(stream in stream(), widths in widths(), limits in limits()) {
        agree(Framing::Newline, &stream, &widths, limits);
    }

    // STD-01..04, STD-08
    #[test]
    fn content_length_agrees_with_its_twin(stream in stream(), widths in widths(), limits in limits()) {
        agree(Framing::ContentLength, &stream, &widths, limits);
    }

    // TRN-10, STD-08
    #[test]
    fn concatenated_agrees_with_its_twin(stream in stream(), widths in widths(), limits in limits()) {
        agree(Framing::Concatenated, &stream, &widths, limits);
    }

    // STD-06, STD-08
    #[test]
    fn detection_agrees_with_its_twin(stream in stream(), widths in widths(), limits in limits()) {
        agree(Framing::Detect, &stream, &widths, limits);
    }

    // STD-08
    #[test]
    fn sound_streams_agree_with_their_twins((framing, stream) in sound_stream(), widths in widths(), limits in limits()) {
        agree(framing, &stream, &widths, limits);
        if framing != Framing::Concatenated {
            agree(Framing::Detect, &stream, &widths, limits);
        }
    }

    // Any order of calls is legal: with unrelated bytes, with bytes after the end, with resets.
    #[test]
    fn no_order_of_calls_panics(
        framing in select(vec![Framing::Newline, Framing::ContentLength, Framing::Concatenated, Framing::Messages, Framing::Detect]),
        limits in limits(),
        calls in vec_of((stream(), any::<bool>(), 0..20_u8), 0..12),
    ) {
        let mut framer = Framer::new(framing, limits.0, limits.1);
        for (unread, at_end, reset) in calls {
            if let Ok(cut) = framer.cut(&unread, at_end) {
                assert!(cut.consumed() <= unread.len());
                if let crate::frame::Cut::Frame { body, taken, .. } = cut {
                    assert!(body.start <= body.end && body.end <= taken);
                }
            }
            let _ = framer.is_mid_frame();
            if reset == 0 {
                framer.reset();
            }
        }
    }
}
