//! Scripts for newline framing.

use super::{Item, every_split, frame, lines, over, tail};
use crate::frame::{Framer, Framing};
use alloc::format;

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
    // A CR that is not followed by an LF counts as a byte of the body.
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
