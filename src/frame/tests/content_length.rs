//! Scripts for Content-Length framing: what is tolerated, what ends the stream, what is skipped.

use super::{Item, cut_in, every_split, frame, over, sized};
use crate::frame::{Cut, Framer, Framing, FramingError};
use alloc::format;

/// Checks that a stream ends with `error`, which has the position of the fault.
fn sized_breaks(stream: impl AsRef<[u8]>, error: FramingError) {
    sized(stream, &[Item::Error(error)]);
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
    // A block of exactly the limit is accepted, and one byte more is not.
    let mut framer = Framer::new(Framing::ContentLength, 40, 21);
    every_split(
        &framer,
        b"Content-Length: 2\r\n\r\n{}",
        &[frame("{}"), Item::End],
    );
    framer.limits.max_header_bytes = 20;
    let too_long = Item::Error(FramingError::HeaderTooLong { offset: 0 });
    every_split(&framer, b"Content-Length: 2\r\n\r\n{}", &[too_long]);
    // Below the limit a block without an end is incomplete.
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
    assert!(framer.is_mid_frame());
    assert_eq!(
        framer.cut(&[0; 49], false),
        Ok(Cut::Incomplete { taken: 49 })
    );
    assert!(framer.is_mid_frame());
    assert_eq!(framer.cut(&[0; 1], false), Ok(Cut::Incomplete { taken: 1 }));
    assert!(!framer.is_mid_frame());
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
        // Without a limit the framer waits for the body, and allocates nothing for it.
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
