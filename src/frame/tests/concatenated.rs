//! Scripts for concatenated framing: where a value ends, and what becomes of noise.

use super::{Item, cut_in, frame, over, tail, values};
use crate::frame::{Framer, Framing, FramingError};
use alloc::format;
use alloc::vec::Vec;

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
