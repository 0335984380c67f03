//! Scripts: a stream, and what must be cut from it however it is split.
//!
//! Here: the stage (`Item`, `cut_in`, `script`), every framing trap as data, the cost of one-byte reads, the order of
//! calls. Naive twins and random streams are in `twins`.

use super::{Cut, Framer, Framing, FramingError, find};
use crate::ReadBuffer;
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};

#[path = "twins.rs"]
mod twins;

/// What a caller sees of a stream, apart from how many bytes to take when.
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

fn tail(body: impl AsRef<[u8]>) -> Item {
    Item::Unterminated(body.as_ref().to_vec())
}

fn over(bytes: impl Into<Option<u64>>) -> Item {
    Item::Oversize(bytes.into())
}

/// Takes all that can be cut from what is in `buf`, and keeps every promise about the numbers to account.
fn drain(framer: &mut Framer, buf: &mut Vec<u8>, at_end: bool, items: &mut Vec<Item>) {
    loop {
        let cut = framer.cut(buf, at_end);
        let taken = cut.as_ref().map_or(0, Cut::taken);
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
                assert!(buf.len() < framer.input_bytes_max());
                assert!(buf.is_empty() || framer.is_inside_frame());
                // A tick without input changes nothing, nor does presenting the same again.
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
                assert_eq!(framer.cut(b"{}\n", at_end), Err(error), "errors last");
                items.push(Item::Error(error));
                return;
            }
        }
        buf.drain(..taken);
    }
}

fn is_over(items: &[Item]) -> bool {
    matches!(items.last(), Some(Item::End | Item::Error(_)))
}

/// Cuts a stream that arrives in `pieces`; the end is told with the last one, or on its own.
pub(super) fn cut_in<'a>(
    mut framer: Framer,
    pieces: impl IntoIterator<Item = &'a [u8]>,
    end_with_last: bool,
) -> Vec<Item> {
    let mut items = vec![];
    let mut buf = vec![];
    let mut pieces = pieces.into_iter().peekable();
    while let Some(piece) = pieces.next() {
        buf.extend_from_slice(piece);
        let at_end = end_with_last && pieces.peek().is_none();
        drain(&mut framer, &mut buf, at_end, &mut items);
        if is_over(&items) {
            return items;
        }
    }
    drain(&mut framer, &mut buf, true, &mut items);
    items
}

/// Cuts a stream through a buffer of exactly the size the framer asks for.
pub(super) fn cut_through_buffer(mut framer: Framer, mut stream: &[u8]) -> Vec<Item> {
    let mut buf = ReadBuffer::new(framer.input_bytes_max());
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
        if is_over(&items) {
            return items;
        }
        buf.consume(buf.len() - unread.len());
    }
}

/// Holds every way of splitting a short stream to the same result.
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

fn script(framing: Framing, stream: impl AsRef<[u8]>, expected: &[Item]) {
    every_split(&Framer::new(framing, 40, 64), stream.as_ref(), expected);
}

fn lines(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::Newline, stream, expected);
}

fn sized(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::ContentLength, stream, expected);
}

fn values(stream: impl AsRef<[u8]>, expected: &[Item]) {
    script(Framing::Concatenated, stream, expected);
}

/// A stream that breaks; the error carries where.
fn sized_breaks(stream: impl AsRef<[u8]>, error: FramingError) {
    sized(stream, &[Item::Error(error)]);
}

// STD-05
#[test]
fn a_line_ends_with_lf_or_crlf() {
    lines("{}\n[]\r\n", &[frame("{}"), frame("[]"), Item::End]);
    lines("{\"a\":\r1}\n", &[frame("{\"a\":\r1}"), Item::End]);
    lines("1\r\r\n", &[frame("1\r"), Item::End]);
}

// STD-05
#[test]
fn blank_lines_and_indentation_are_skipped() {
    lines("", &[Item::End]);
    lines(
        "\n\r\n \t\r\n  {} \n\n\n1\n ",
        &[frame("{} "), frame("1"), Item::End],
    );
}

// STD-05
#[test]
fn endless_blanks_take_no_room() {
    let stream = " \r\n".repeat(200) + "{}\n";
    lines(stream, &[frame("{}"), Item::End]);
}

// STD-05, SRV-15, D-14
#[test]
fn a_line_of_exactly_the_limit_passes_with_either_end() {
    let body = "é".repeat(20);
    assert_eq!(body.len(), 40);
    lines(
        format!("{body}\n{body}\r\n"),
        &[frame(&body), frame(&body), Item::End],
    );
    lines(format!("  {body}\r"), &[tail(&body), Item::End]);
}

// STD-05, SRV-15
#[test]
fn a_longer_line_is_reported_once_and_skipped_to_its_end() {
    let long = "x".repeat(41);
    let longer = "y".repeat(200);
    let expected = [over(None), frame("{}"), over(None), frame("[]"), Item::End];
    lines(format!("{long}\r\n{{}}\n{longer}\n[]\n"), &expected);
    // A CR that no LF follows counts.
    let body = "z".repeat(40);
    lines(
        format!("{body}\r\r\n1\n"),
        &[over(None), frame("1"), Item::End],
    );
    lines(
        format!("{body}\rz\n1\n"),
        &[over(None), frame("1"), Item::End],
    );
}

// STD-05, STD-09
#[test]
fn an_over_long_line_may_end_with_the_stream() {
    lines("x".repeat(100), &[over(None), Item::End]);
}

// STD-09
#[test]
fn a_last_line_without_its_end_is_delivered_and_marked() {
    lines("{}\n[1", &[frame("{}"), tail("[1"), Item::End]);
    lines("{}\n[1]\r", &[frame("{}"), tail("[1]"), Item::End]);
}

// STD-05, SEC-04
#[test]
fn lines_of_noise_are_frames_like_any_other() {
    lines(
        b"\0\n\xFF\xFE\n",
        &[frame(b"\0"), frame(b"\xFF\xFE"), Item::End],
    );
}

// STD-05
#[test]
fn a_limit_of_zero_refuses_every_line() {
    let framer = Framer::new(Framing::Newline, 0, 0);
    every_split(
        &framer,
        b"1\n\r\n22\r\n",
        &[over(None), over(None), Item::End],
    );
}

// STD-01
#[test]
fn a_body_has_as_many_bytes_as_its_header_says() {
    let stream = "Content-Length: 2\r\n\r\n{}Content-Length: 4\r\n\r\n\"é\"";
    sized(stream, &[frame("{}"), frame("\"é\""), Item::End]);
    sized(
        "Content-Length: 3\r\n\r\n\n\r\n\n",
        &[frame("\n\r\n"), Item::End],
    );
}

// STD-02, D-02
#[test]
fn headers_are_read_as_real_peers_write_them() {
    for header in [
        "Content-Length:2\r\n\r\n",
        "content-length: 2\r\n\r\n",
        "CONTENT-LENGTH \t:\t 2 \r\n\r\n",
        "Content-Length: 002\r\n\r\n",
        "Content-Length: 2\n\n",
        "Content-Length: 2\r\r\n\r\r\n",
        "\r\n\r\n \nContent-Length: 2\r\n\r\n",
        "\u{FEFF}Content-Length: 2\r\n\r\n",
        "\u{FEFF}\r\nContent-Length: 2\r\n\r\n",
        "X-Any_thing: a: b\r\nContent-Length: 2\r\n\r\n",
        "Empty:\r\nContent-Length: 2\r\n\r\n",
        "Content-Length: 2\r\nContent-Length: 02\r\n\r\n",
    ] {
        sized(format!("{header}{{}}"), &[frame("{}"), Item::End]);
        sized(
            format!("{header}[]{header}{{}}"),
            &[frame("[]"), frame("{}"), Item::End],
        );
    }
}

// STD-02
#[test]
fn a_content_type_of_utf8_is_welcome_in_any_spelling() {
    for content_type in [
        "application/vscode-jsonrpc; charset=utf-8",
        "application/vscode-jsonrpc; charset=utf8",
        "application/json;CharSet=UTF-8",
        "application/json; a=b; charset = \"utf-8\" ; c",
        "application/json",
        "",
    ] {
        let stream = format!("Content-Length: 2\r\nContent-Type: {content_type}\r\n\r\n{{}}");
        let framer = Framer::new(Framing::ContentLength, 40, 200);
        every_split(&framer, stream.as_bytes(), &[frame("{}"), Item::End]);
    }
}

// STD-02
#[test]
fn another_charset_ends_the_stream() {
    for charset in ["utf-16", "latin1", "\"\"", "", "utf8;charset=x", "\"utf-8"] {
        let stream = format!("Content-Length: 2\r\ncontent-type: a; charset={charset}\r\n\r\n{{}}");
        sized_breaks(stream, FramingError::CharsetUnsupported { offset: 19 });
    }
}

// STD-03
#[test]
fn a_missing_length_ends_the_stream() {
    sized_breaks(
        "\r\nX: y\r\n\r\n{}",
        FramingError::LengthMissing { offset: 2 },
    );
}

// STD-03
#[test]
fn a_length_that_is_no_plain_number_ends_the_stream() {
    for length in [
        "-1", "+5", "", "five", "0x5", "5 5", "5,5", "5.0", "\u{661}", "\"5\"",
    ] {
        let stream = format!("Content-Length: {length}\r\n\r\n12345");
        sized_breaks(stream, FramingError::LengthInvalid { offset: 0 });
    }
}

// STD-03
#[test]
fn lengths_that_differ_end_the_stream() {
    let stream = "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}";
    sized_breaks(stream, FramingError::LengthContradictory { offset: 19 });
}

// STD-03, SEC-04
#[test]
fn what_is_no_header_ends_the_stream_at_once() {
    let error = FramingError::NotAHeader { offset: 0 };
    sized_breaks("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", error);
    sized_breaks("{\"jsonrpc\":\"2.0\"}\n", error);
    sized_breaks("[info] started: yes\n", error);
    sized_breaks(": 5\r\n", error);
    let stream = "Content-Length: 1\r\n\r\n1x}Content-Length: 1\r\n\r\n1";
    let error = FramingError::NotAHeader { offset: 22 };
    sized(stream, &[frame("1"), Item::Error(error)]);
}

// STD-03
#[test]
fn a_header_block_over_its_limit_ends_the_stream_while_it_arrives() {
    let too_long = Item::Error(FramingError::HeaderTooLong { offset: 0 });
    sized("X".repeat(64), core::slice::from_ref(&too_long));
    sized("X: y\r\n".repeat(11), &[too_long]);
    // Exactly the limit passes, and one byte more does not.
    let mut framer = Framer::new(Framing::ContentLength, 40, 21);
    every_split(
        &framer,
        b"Content-Length: 2\r\n\r\n{}",
        &[frame("{}"), Item::End],
    );
    framer.limits.header_bytes_max = 20;
    let too_long = Item::Error(FramingError::HeaderTooLong { offset: 0 });
    every_split(&framer, b"Content-Length: 2\r\n\r\n{}", &[too_long]);
    // Before the limit it is merely incomplete.
    let mut framer = Framer::new(Framing::ContentLength, 40, 64);
    assert_eq!(
        framer.cut(&[b'X'; 63], false),
        Ok(Cut::Incomplete { taken: 0 })
    );
    assert!(framer.cut(&[b'X'; 64], false).is_err());
}

// STD-01, MSG-26
#[test]
fn a_length_of_zero_is_an_empty_frame() {
    let stream = "Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}";
    sized(stream, &[frame(""), frame("{}"), Item::End]);
}

// STD-04, SRV-15
#[test]
fn a_body_over_the_limit_is_counted_off_and_the_stream_goes_on() {
    let next = "Content-Length: 2\r\n\r\n{}";
    let exact = format!("Content-Length: 40\r\n\r\n{}{next}", "x".repeat(40));
    sized(exact, &[frame("x".repeat(40)), frame("{}"), Item::End]);
    for len in [41, 150] {
        let stream = format!("Content-Length: {len}\r\n\r\n{}{next}", "x".repeat(len));
        sized(stream, &[over(len as u64), frame("{}"), Item::End]);
    }
}

// STD-04
#[test]
fn an_over_long_body_is_reported_before_it_arrives() {
    let mut framer = Framer::new(Framing::ContentLength, 40, 64);
    let head = b"Content-Length: 50\r\n\r\n";
    let cut = framer.cut(head, false);
    assert_eq!(
        cut,
        Ok(Cut::Oversize {
            bytes: Some(50),
            taken: head.len()
        })
    );
    assert!(framer.is_inside_frame());
    assert_eq!(
        framer.cut(&[0; 49], false),
        Ok(Cut::Incomplete { taken: 49 })
    );
    assert!(framer.is_inside_frame());
    assert_eq!(framer.cut(&[0; 1], false), Ok(Cut::Incomplete { taken: 1 }));
    assert!(!framer.is_inside_frame());
}

// STD-04
#[test]
fn absurd_lengths_are_skipped_without_overflow() {
    for (written, read) in [
        ("9223372036854775808", 1 << 63),
        ("18446744073709551615", u64::MAX),
        ("99999999999999999999999999", u64::MAX),
    ] {
        let stream = format!("Content-Length: {written}\r\n\r\n{}", "x".repeat(99));
        let truncated = Item::Error(FramingError::Truncated { offset: 0 });
        sized(&stream, &[over(read), truncated.clone()]);
        // Without any limit it is waited for, which costs nothing either.
        let framer = Framer::new(Framing::ContentLength, usize::MAX, usize::MAX);
        let items = cut_in(framer, [stream.as_bytes()], true);
        assert_eq!(items, [truncated]);
    }
}

// STD-09
#[test]
fn the_end_inside_a_header_or_a_body_is_an_error() {
    let truncated = Item::Error(FramingError::Truncated { offset: 24 });
    let first = "\nContent-Length: 2\r\n\r\n{}";
    for rest in ["C", "Content-Length: 2\r\n", "Content-Length: 2\r\n\r\n{"] {
        sized(format!("{first}{rest}"), &[frame("{}"), truncated.clone()]);
    }
    sized(format!("{first}\r\n"), &[frame("{}"), Item::End]);
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

// TRN-10
#[test]
fn values_need_nothing_between_them() {
    values(
        "{}{}[][1][[]]",
        &["{}", "{}", "[]", "[1]", "[[]]"]
            .map(frame)
            .into_iter()
            .chain([Item::End])
            .collect::<Vec<_>>(),
    );
    values(
        "{\"a\":{}}\r\n\t {\"b\":[{}]}",
        &[frame("{\"a\":{}}"), frame("{\"b\":[{}]}"), Item::End],
    );
    values(
        "\"a\"\"b\"[]\"c\"1",
        &[
            frame("\"a\""),
            frame("\"b\""),
            frame("[]"),
            frame("\"c\""),
            tail("1"),
            Item::End,
        ],
    );
}

// TRN-10
#[test]
fn brackets_quotes_and_escapes_inside_strings_count_for_nothing() {
    for value in [
        r#"{"a":"}]{["}"#,
        r#"{"a":"\"}"}"#,
        r#"{"a\\":"\\"}"#,
        r#"["\\\"]"]"#,
        r#"["\u007d\\"]"#,
        "[\"\n\"]",
    ] {
        values(
            format!("{value}{value}"),
            &[frame(value), frame(value), Item::End],
        );
    }
}

// TRN-10
#[test]
fn words_end_at_white_space_at_an_opening_or_with_the_stream() {
    values(
        "1 2\n-3.5e1",
        &[frame("1"), frame("2"), tail("-3.5e1"), Item::End],
    );
    values(
        "true[]null{}1\"a\"",
        &[
            frame("true"),
            frame("[]"),
            frame("null"),
            frame("{}"),
            frame("1"),
            frame("\"a\""),
            Item::End,
        ],
    );
    values("12 ", &[frame("12"), Item::End]);
}

// TRN-10, SEC-04
#[test]
fn noise_costs_one_frame_and_the_next_value_is_read() {
    values("}}]{}", &[frame("}}]"), frame("{}"), Item::End]);
    values(",\n:{}", &[frame(","), frame(":"), frame("{}"), Item::End]);
    values(
        "Listening on port 1\n{}",
        &[frame("Listening on port 1"), frame("{}"), Item::End],
    );
    values("[}{}", &[frame("[}"), frame("{}"), Item::End]);
    values(b"\0 \xFF\n1 ", &[frame(b"\0 \xFF"), frame("1"), Item::End]);
    values("oops", &[tail("oops"), Item::End]);
}

// TRN-10, SRV-15
#[test]
fn a_value_over_the_limit_is_reported_once_and_skipped_to_its_end() {
    let fill = "x".repeat(38);
    values(
        format!("[{fill}]\"{fill}\""),
        &[
            frame(format!("[{fill}]")),
            frame(format!("\"{fill}\"")),
            Item::End,
        ],
    );
    let digits = "1".repeat(40);
    values(
        format!("{digits} {digits}"),
        &[frame(&digits), tail(&digits), Item::End],
    );
    for long in [
        format!("[{fill}x]"),
        format!("[{fill}[[\"{fill}]\\\"{fill}\"]]]"),
        format!("\"{fill}x\""),
        format!("{digits}1 "),
        format!("{digits}{digits}"),
        format!("?{digits}{digits}\n"),
    ] {
        values(format!("{long}{{}}"), &[over(None), frame("{}"), Item::End]);
    }
}

// TRN-10, SEC-11
#[test]
fn any_depth_is_counted_without_memory() {
    let stream = format!("{}{}{{}}", "[".repeat(100_000), "]".repeat(100_000));
    let framer = Framer::new(Framing::Concatenated, 10, 0);
    assert_eq!(
        cut_in(framer, [stream.as_bytes()], true),
        [over(None), frame("{}"), Item::End]
    );
}

// TRN-10, STD-09
#[test]
fn the_end_inside_a_value_is_an_error() {
    let truncated = Item::Error(FramingError::Truncated { offset: 3 });
    for rest in ["{", "[\"", "\"a\\", "[[]"] {
        values(format!("{{}} {rest}"), &[frame("{}"), truncated.clone()]);
    }
    values(
        format!("{{}} [{}", "1".repeat(100)),
        &[frame("{}"), over(None), truncated],
    );
    values("1".repeat(100), &[over(None), Item::End]);
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
    assert!(!framer.is_inside_frame());
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
        // Once within the limit, once skipped.
        for frame_bytes_max in [1 << 20, 100] {
            let mut framer = Framer::new(framing, frame_bytes_max, 1 << 20);
            let before = find::tests::EXAMINED.get();
            let (mut start, mut frames) = (0, 0);
            for end in 0..=stream.len() {
                let cut = framer.cut(&stream.as_bytes()[start..end], false).unwrap();
                start += cut.taken();
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

// STD-08: the rest of the stream is not searched for a line end again and again.
#[test]
fn many_frames_in_one_read_cost_a_constant_per_byte() {
    for framing in [Framing::Newline, Framing::Concatenated] {
        let stream = "{}\n".repeat(10_000);
        let mut framer = Framer::new(framing, 10, 0);
        let before = find::tests::EXAMINED.get();
        let mut unread = stream.as_bytes();
        while !unread.is_empty() {
            unread = &unread[framer.cut(unread, false).unwrap().taken()..];
        }
        assert!(find::tests::EXAMINED.get() - before <= 3 * stream.len() as u64);
    }
}

// Any order of calls is legal, a tick without input among them.
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
                assert!(framer.is_inside_frame());
                assert_eq!(framer.cut(&stream.as_bytes()[..back], false), nothing);
                assert!(framer.is_inside_frame());
                let cut = framer.cut(stream.as_bytes(), false);
                assert!(matches!(cut, Ok(Cut::Frame { taken, .. }) if taken == stream.len()));
                assert!(!framer.is_inside_frame());
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
