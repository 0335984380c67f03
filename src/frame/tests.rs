//! Scripts: a stream, and the frames that must be cut from it however it is split.
//!
//! This file has what the tests share (`Item`, `cut_in`, `script`), and tests of all framings:
//! detection, byte order marks, the cost of one-byte reads, the order of calls. Lines,
//! Content-Length and concatenated values have their own files; naive versions and random streams
//! are in `twins`.

use super::{Cut, Framer, Framing, FramingError, find};
use crate::ReadBuffer;
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

mod concatenated;
mod content_length;
mod lines;
mod twins;

/// A result of cutting, without the number of bytes to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Frame(Vec<u8>),
    Unterminated(Vec<u8>),
    Oversize(Option<u64>),
    End,
    Error(FramingError),
}

fn frame(body: impl AsRef<[u8]>) -> Item {
    Item::Frame(body.as_ref().to_vec())
}

/// A frame that the end of the stream has ended.
fn tail(body: impl AsRef<[u8]>) -> Item {
    Item::Unterminated(body.as_ref().to_vec())
}

/// A frame over the limit, with the length that its header declares, if it has one.
fn over(bytes: impl Into<Option<u64>>) -> Item {
    Item::Oversize(bytes.into())
}

/// Cuts all frames that are in `buf`, and checks what is promised about the numbers of bytes.
fn drain(framer: &mut Framer, buf: &mut Vec<u8>, at_end: bool, items: &mut Vec<Item>) {
    loop {
        let cut = framer.cut(buf, at_end);
        let taken = cut.as_ref().map_or(0, Cut::consumed);
        assert!(taken <= buf.len());
        match cut {
            Ok(Cut::Frame {
                body,
                taken,
                unterminated,
            }) => {
                assert!(taken > 0 && body.end <= taken && (at_end || !unterminated));
                let body = buf[body].to_vec();
                items.push(match unterminated {
                    true => Item::Unterminated(body),
                    false => Item::Frame(body),
                });
            }
            Ok(Cut::Oversize { bytes, taken }) => {
                assert!(taken > 0);
                items.push(Item::Oversize(bytes));
            }
            Ok(Cut::Incomplete { taken }) => {
                assert!(!at_end, "incomplete at the end");
                buf.drain(..taken);
                assert!(buf.len() < framer.max_input_bytes());
                assert!(buf.is_empty() || framer.is_mid_frame());
                // A call without input changes nothing, nor does passing the same bytes again.
                assert_eq!(framer.cut(b"", false), Ok(Cut::Incomplete { taken: 0 }));
                assert_eq!(framer.cut(buf, false), Ok(Cut::Incomplete { taken: 0 }));
                return;
            }
            Ok(Cut::End { taken }) => {
                assert_eq!(taken, buf.len());
                assert!(at_end);
                buf.clear();
                items.push(Item::End);
                assert_eq!(framer.cut(b"", true), Ok(Cut::End { taken: 0 }));
                return;
            }
            Err(error) => {
                assert_eq!(framer.cut(b"{}\n", at_end), Err(error), "an error is final");
                items.push(Item::Error(error));
                return;
            }
        }
        buf.drain(..taken);
    }
}

/// Whether the stream has ended, in order or with an error.
fn has_ended(items: &[Item]) -> bool {
    matches!(items.last(), Some(Item::End | Item::Error(_)))
}

/// Returns what `Cutter::goes_on` returns. If it is true, checks that `cut` finds no frame either.
fn goes_on(framer: &mut Framer, buf: &[u8]) -> bool {
    let mut long_way = framer.clone();
    let goes_on = framer.cutter.goes_on(None, framer.limits, buf);
    if goes_on {
        assert!(long_way.is_mid_frame() && framer.is_mid_frame());
        let cut = long_way.cut(buf, false);
        assert_eq!(cut, Ok(Cut::Incomplete { taken: 0 }));
    }
    goes_on
}

/// Cuts a stream that arrives in `pieces`. The end is reported with the last piece, or after it.
/// Checks that the results are the same if `goes_on` is called before each cut.
pub(super) fn cut_in<'a>(
    framer: Framer,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    end_with_last: bool,
) -> Vec<Item> {
    let pieces: Vec<&[u8]> = pieces.into_iter().collect();
    let items = cut_pieces(framer.clone(), &pieces, end_with_last, false);
    let glanced = cut_pieces(framer, &pieces, end_with_last, true);
    assert_eq!(glanced, items, "with a glance before each cut");
    items
}

/// Cuts a stream as [`cut_in`] does; with `glance`, calls `goes_on` before each cut and skips the
/// cut if it is true.
fn cut_pieces(
    mut framer: Framer,
    pieces: &[&[u8]],
    end_with_last: bool,
    glance: bool,
) -> Vec<Item> {
    let mut items = vec![];
    let mut buf = vec![];
    let mut pieces = pieces.iter().peekable();
    while let Some(piece) = pieces.next() {
        buf.extend_from_slice(piece);
        let at_end = end_with_last && pieces.peek().is_none();
        if glance && !at_end && goes_on(&mut framer, &buf) {
            continue;
        }
        drain(&mut framer, &mut buf, at_end, &mut items);
        if has_ended(&items) {
            return items;
        }
    }
    drain(&mut framer, &mut buf, true, &mut items);
    items
}

/// Cuts a stream through a buffer of exactly the size the framer asks for.
pub(super) fn cut_through_buffer(mut framer: Framer, mut stream: &[u8]) -> Vec<Item> {
    let mut buf = ReadBuffer::new(framer.max_input_bytes());
    let mut items = vec![];
    loop {
        let spare = buf.spare();
        assert!(!spare.is_empty(), "full without progress");
        let n = spare.len().min(stream.len());
        spare[..n].copy_from_slice(&stream[..n]);
        buf.advance(n);
        stream = &stream[n..];
        let mut unread = buf.filled().to_vec();
        drain(&mut framer, &mut unread, n == 0, &mut items);
        if has_ended(&items) {
            return items;
        }
        buf.consume(buf.len() - unread.len());
    }
}

/// Checks that every way of splitting a short stream gives the same results.
fn every_split(framer: &Framer, stream: &[u8], expected: &[Item]) {
    let show = stream.escape_ascii().to_string();
    for end_with_last in [true, false] {
        let cut = |pieces: &[&[u8]]| cut_in(framer.clone(), pieces.iter().copied(), end_with_last);
        assert_eq!(cut(&[stream]), expected, "whole: {show}");
        let bytes: Vec<_> = stream.chunks(1).collect();
        assert_eq!(cut(&bytes), expected, "byte by byte: {show}");
        if stream.len() < 300 {
            for at in 0..=stream.len() {
                let (front, back) = stream.split_at(at);
                assert_eq!(cut(&[front, back]), expected, "split at {at}: {show}");
            }
        }
    }
    assert_eq!(
        cut_through_buffer(framer.clone(), stream),
        expected,
        "{show}"
    );
}

/// Checks every split of a stream with limits of 40 bytes for a body and 64 for a header block.
fn script(framing: Framing, stream: impl AsRef<[u8]>, expected: &[Item]) {
    every_split(&Framer::new(framing, 40, 64), stream.as_ref(), expected);
}

/// Checks every split of a stream in newline framing.
fn lines(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::Newline, stream, expected);
}

/// Checks every split of a stream in Content-Length framing.
fn sized(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::ContentLength, stream, expected);
}

/// Checks every split of a stream in concatenated framing.
fn values(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::Concatenated, stream, expected);
}

// STD-08
#[test]
fn many_messages_in_one_read_come_out_one_by_one() {
    let stream = "Content-Length: 2\r\n\r\n{}".repeat(1000);
    let mut expected = vec![frame("{}"); 1000];
    expected.push(Item::End);
    sized(stream, &expected);
    lines("{}\n".repeat(1000), &expected);
    values("{}".repeat(1000), &expected);
}

// SER-02
#[test]
fn a_byte_order_mark_stays_in_the_body() {
    lines("\u{FEFF}{}\n", &[frame("\u{FEFF}{}"), Item::End]);
    values(
        "\u{FEFF}{}{}",
        &[frame("\u{FEFF}{}"), frame("{}"), Item::End],
    );
    values("\u{FEFF} \n[]", &[frame("\u{FEFF} \n[]"), Item::End]);
    values("\u{FEFF}1 ", &[frame("\u{FEFF}1"), Item::End]);
    values("\u{FEFF}", &[tail("\u{FEFF}"), Item::End]);
    values(
        "\u{FEFF}\u{FEFF}{}",
        &[frame("\u{FEFF}\u{FEFF}"), frame("{}"), Item::End],
    );
    values(
        b"\xEF{}\xEF\xBB[]",
        &[
            frame(b"\xEF"),
            frame("{}"),
            frame(b"\xEF\xBB"),
            frame("[]"),
            Item::End,
        ],
    );
}

// STD-06
#[test]
fn the_first_byte_that_tells_decides_the_framing() {
    for (stream, framing, first) in [
        ("{}\n", Framing::Newline, "{}"),
        (" \r\n\t[]\n", Framing::Newline, "[]"),
        ("\u{FEFF}{}\n", Framing::Newline, "\u{FEFF}{}"),
        ("\u{FEFF}\n", Framing::Newline, "\u{FEFF}"),
        ("\u{FEFE}\n", Framing::Newline, "\u{FEFE}"),
        ("1\n", Framing::Newline, "1"),
        ("}\n", Framing::Newline, "}"),
        ("Content-Length: 2\r\n\r\n{}", Framing::ContentLength, "{}"),
        ("\r\n content-length:2\n\n{}", Framing::ContentLength, "{}"),
        (
            "\u{FEFF}Content-Length: 2\r\n\r\n{}",
            Framing::ContentLength,
            "{}",
        ),
    ] {
        script(Framing::Detect, stream, &[frame(first), Item::End]);
        let mut framer = Framer::new(Framing::Detect, 40, 64);
        assert_eq!(framer.framing(), Framing::Detect);
        framer.cut(stream.as_bytes(), true).unwrap();
        assert_eq!(framer.framing(), framing, "{stream}");
        framer.reset();
        assert_eq!(framer.framing(), Framing::Detect);
    }
    script(Framing::Detect, "", &[Item::End]);
    script(Framing::Detect, " \n", &[Item::End]);
    script(
        Framing::Detect,
        b"\xEF\xBB",
        &[tail(b"\xEF\xBB"), Item::End],
    );
}

// STD-06
#[test]
fn detection_holds_for_the_rest_of_the_stream() {
    script(
        Framing::Detect,
        "{}\nContent-Length: 2\n",
        &[frame("{}"), frame("Content-Length: 2"), Item::End],
    );
}

// SRV-15
#[test]
fn a_message_is_a_frame_whatever_it_holds() {
    let mut framer = Framer::new(Framing::Messages, 4, 0);
    let whole = |len| Cut::Frame {
        body: 0..len,
        taken: len,
        unterminated: false,
    };
    assert_eq!(framer.cut(b"\n{}\n", false), Ok(whole(4)));
    assert_eq!(framer.cut(b"", false), Ok(Cut::Incomplete { taken: 0 }));
    assert_eq!(
        framer.cut(b"12345", false),
        Ok(Cut::Oversize {
            bytes: Some(5),
            taken: 5
        })
    );
    assert_eq!(framer.cut(b"1", true), Ok(whole(1)));
    assert_eq!(framer.cut(b"", true), Ok(Cut::End { taken: 0 }));
    assert!(!framer.is_mid_frame());
}

// STD-08: at most three looks at each byte of a frame that comes one byte at a time.
#[test]
fn one_byte_at_a_time_costs_a_constant_per_byte() {
    let body = format!("[{}]", "{\"a\":\"\\\"é\"},".repeat(5_000));
    let len = body.len();
    assert!(len > 65_000);
    for (framing, stream) in [
        (Framing::Newline, format!("{body}\n")),
        (Framing::Detect, format!("{body}\n")),
        (
            Framing::ContentLength,
            format!("Content-Length: {len}\r\n\r\n{body}"),
        ),
        (
            Framing::ContentLength,
            format!(
                "{}Content-Length: {len}\r\n\r\n{body}",
                "A: b\r\n".repeat(10_000)
            ),
        ),
        (
            Framing::ContentLength,
            format!(
                "X: {}\r\nContent-Length: {len}\r\n\r\n{body}",
                "x".repeat(100_000)
            ),
        ),
        (Framing::Concatenated, body.clone()),
        (
            Framing::Concatenated,
            format!("{} {body}", "1".repeat(60_000)),
        ),
    ] {
        // With the first limit every body fits, with the second none; without and with `goes_on`.
        for (max_frame_bytes, glance) in
            [(1 << 20, false), (1 << 20, true), (100, false), (100, true)]
        {
            let mut framer = Framer::new(framing, max_frame_bytes, 1 << 20);
            let before = find::tests::EXAMINED.get();
            let (mut start, mut frames) = (0, 0);
            for end in 0..=stream.len() {
                let unread = &stream.as_bytes()[start..end];
                if glance && framer.cutter.goes_on(None, framer.limits, unread) {
                    continue;
                }
                let cut = framer.cut(unread, false).unwrap();
                start += cut.consumed();
                frames += usize::from(!matches!(cut, Cut::Incomplete { .. }));
            }
            let examined = find::tests::EXAMINED.get() - before;
            assert!(
                examined <= 3 * stream.len() as u64,
                "{framing:?}: {examined}"
            );
            assert!(frames >= 1 && start == stream.len());
        }
    }
}

/// Passes all but the last `n` bytes of `unread` to a framer, and returns whether `goes_on` is then
/// true for all of them.
fn glance(framing: Framing, unread: &str, n: usize) -> bool {
    let mut framer = Framer::new(framing, 30, 40);
    let unread = unread.as_bytes();
    let shown = &unread[..unread.len() - n];
    framer.cut(shown, false).unwrap();
    goes_on(&mut framer, unread)
}

#[test]
fn a_little_more_of_a_frame_is_seen_at_a_glance() {
    // `goes_on` is true for all bytes but the first of a frame, the last, and the ends of lines in
    // its header.
    for (framing, stream, expected) in [
        (Framing::Newline, "{\"a\":1}\n", 6),
        (
            Framing::ContentLength,
            "Content-Length: 7\r\n\r\n{\"a\":1}",
            24,
        ),
        (Framing::Concatenated, "{\"a\":1}", 5),
        (Framing::Detect, "{\"a\":1}\n", 6),
    ] {
        let glances = (1..=stream.len()).filter(|&end| glance(framing, &stream[..end], 1));
        assert_eq!(glances.count(), expected, "{framing:?}");
    }
}

#[test]
fn much_more_or_what_was_seen_before_takes_more_than_a_glance() {
    for framing in [Framing::Newline, Framing::Concatenated] {
        let frame = format!("[{}", "1".repeat(40));
        for len in 1..=frame.len() {
            for n in 0..len {
                let is_little = n <= 16 && len <= 30;
                assert_eq!(glance(framing, &frame[..len], n), is_little, "{n} of {len}");
            }
        }
        assert!(!glance(framing, "", 0));
    }
    let block = format!("Content-Length: 1\r\nX: {}", "x".repeat(18));
    for len in 1..block.len() {
        for n in 0..len {
            let is_line = !block[len - n..len].contains('\n');
            let is_little = n <= 16 && is_line;
            let glance = glance(Framing::ContentLength, &block[..len], n);
            assert_eq!(glance, is_little, "{n} of {len}");
        }
    }
    // Of a body only the length matters, so any number of new bytes is examined; a header at its
    // limit is left to `cut`.
    let body = format!("Content-Length: 30\r\n\r\n{}", "x".repeat(29));
    assert!(glance(Framing::ContentLength, &body, 29));
    let mut framer = Framer::new(Framing::ContentLength, 30, 40);
    framer.cut(&block.as_bytes()[..39], false).unwrap();
    assert!(!goes_on(&mut framer, &block.as_bytes()[..40]));
}

#[test]
fn what_is_skipped_is_no_frame_that_goes_on() {
    for (framing, frame) in [
        (Framing::Newline, format!("[{}", "1".repeat(40))),
        (Framing::Concatenated, format!("[{}", "1".repeat(40))),
        (Framing::ContentLength, "Content-Length: 99\r\n\r\n1".into()),
    ] {
        let mut framer = Framer::new(framing, 30, 40);
        let cut = framer.cut(frame.as_bytes(), false).unwrap();
        assert!(matches!(cut, Cut::Oversize { .. }), "{framing:?}");
        assert!(framer.is_mid_frame());
        assert!(!goes_on(&mut framer, b"1"));
    }
}

// STD-08: the rest of the stream is not searched for a line end again and again.
#[test]
fn many_frames_in_one_read_cost_a_constant_per_byte() {
    for framing in [Framing::Newline, Framing::Concatenated] {
        let stream = "{}\n".repeat(10_000);
        let mut framer = Framer::new(framing, 10, 0);
        let before = find::tests::EXAMINED.get();
        let mut unread = stream.as_bytes();
        while !unread.is_empty() {
            unread = &unread[framer.cut(unread, false).unwrap().consumed()..];
        }
        assert!(find::tests::EXAMINED.get() - before <= 3 * stream.len() as u64);
    }
}

// Any order of calls is legal, also a call without input.
#[test]
fn fewer_bytes_than_before_change_nothing() {
    for (framing, stream) in [
        (Framing::Newline, "{\"a\":1}\n"),
        (Framing::ContentLength, "Content-Length: 7\r\n\r\n{\"a\":1}"),
        (Framing::Concatenated, "{\"a\":1}"),
        (Framing::Detect, "\u{FEFF}{\"a\":1}\n"),
    ] {
        for shown in 1..stream.len() {
            for back in 0..shown {
                let mut framer = Framer::new(framing, 40, 64);
                let nothing = Ok(Cut::Incomplete { taken: 0 });
                assert_eq!(framer.cut(&stream.as_bytes()[..shown], false), nothing);
                assert!(framer.is_mid_frame());
                assert_eq!(framer.cut(&stream.as_bytes()[..back], false), nothing);
                assert!(framer.is_mid_frame());
                let cut = framer.cut(stream.as_bytes(), false);
                assert!(matches!(cut, Ok(Cut::Frame { taken, .. }) if taken == stream.len()));
                assert!(!framer.is_mid_frame());
            }
        }
    }
}

// STD-09
#[test]
fn bytes_that_were_seen_and_are_gone_at_the_end_were_cut_short() {
    for framing in [
        Framing::Newline,
        Framing::ContentLength,
        Framing::Concatenated,
        Framing::Detect,
    ] {
        let mut framer = Framer::new(framing, 40, 64);
        let shown: &[u8] = if framing == Framing::Detect {
            b"\xEF"
        } else {
            b"["
        };
        assert_eq!(framer.cut(shown, false), Ok(Cut::Incomplete { taken: 0 }));
        let error = FramingError::Truncated { offset: 0 };
        assert_eq!(framer.cut(b"", true), Err(error), "{framing:?}");
        framer.reset();
        assert_eq!(framer.cut(b"", true), Ok(Cut::End { taken: 0 }));
    }
}

#[test]
fn an_error_says_what_and_where() {
    let error = FramingError::LengthInvalid { offset: 7 };
    assert_eq!(
        error.to_string(),
        "Content-Length is not a decimal number (byte 7 of the stream)"
    );
    assert_eq!(error.offset(), 7);
}
