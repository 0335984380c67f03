//! Scripts for concatenated framing: where a value ends, and what becomes of noise.

use super::{Item, cut_in, frame, over, tail, values};
#[cfg(not(any(target_os = "none", antiphon_small)))]
use crate::frame::{Cut, Cutter, FrameLimits, concatenated::MAX_GUESS_BYTES};
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

// TRN-10, SEC-11
#[cfg(not(any(target_os = "none", antiphon_small)))]
#[test]
fn an_object_is_guessed_to_end_where_a_line_does() {
    const LIMITS: FrameLimits = FrameLimits {
        max_frame_bytes: MAX_GUESS_BYTES,
        max_header_bytes: 0,
    };
    let guess = |unread: &str| {
        let cutter = Cutter::new(Framing::Concatenated);
        cutter.guess(LIMITS, unread.as_bytes())
    };
    for (unread, guessed) in [
        ("{}\n", Some(0..2)),
        ("\n{}\n{}\n", Some(1..3)),
        ("{\"a\":1}", Some(0..7)),
        // These two guesses are wrong: a validator finds that they are not one value.
        ("{}{}\n", Some(0..4)),
        ("{\"a\":{}\n}", Some(0..7)),
        ("", None),
        ("\n", None),
        ("[]\n", None),
        (" {}\n", None),
        ("{} \n", None),
        ("{\n}", None),
        ("{\"a\":", None),
    ] {
        assert_eq!(guess(unread), guessed, "{unread:?}");
    }
    let near = format!("{{{}}}", "x".repeat(MAX_GUESS_BYTES - 2));
    for behind in ["", "\n", "\n{}"] {
        assert_eq!(guess(&format!("{near}{behind}")), Some(0..MAX_GUESS_BYTES));
        assert_eq!(guess(&format!("{{{near}{behind}")), None);
    }
    let mut tight = LIMITS;
    for limit in [1, 2] {
        tight.max_frame_bytes = limit;
        let guessed = Cutter::new(Framing::Concatenated).guess(tight, b"{}\n");
        assert_eq!(guessed.is_some(), limit == 2);
    }
}

// TRN-10, SEC-11
#[cfg(not(any(target_os = "none", antiphon_small)))]
#[test]
fn nothing_is_guessed_of_a_value_that_has_been_looked_at() {
    let limits = FrameLimits {
        max_frame_bytes: 9,
        max_header_bytes: 0,
    };
    let guesses =
        |cutter: &Cutter, only| cutter.may_guess(only) && cutter.guess(limits, b"{}").is_some();
    let mut cutter = Cutter::new(Framing::Concatenated);
    assert!(guesses(&cutter, None));
    assert!(guesses(&cutter, Some(Framing::Concatenated)));
    assert!(!guesses(&cutter, Some(Framing::Newline)));
    assert!(!guesses(&Cutter::new(Framing::Newline), None));
    let incomplete = Ok(Cut::Incomplete { taken: 0 });
    assert_eq!(cutter.cut(None, limits, b"{\"a\":{}", false), incomplete);
    assert!(!guesses(&cutter, None));
    let cut = cutter.cut(None, limits, b"{\"a\":{}}{\"b\":[[[]]]}", false);
    assert_eq!(cut.map(|cut| cut.consumed()), Ok(8));
    assert!(guesses(&cutter, None));
    // Nor is there a guess while a value that is too long is skipped.
    let cut = cutter.cut(None, limits, b"{\"b\":[[[[[", false);
    let bytes = None;
    assert_eq!(cut, Ok(Cut::Oversize { bytes, taken: 10 }));
    assert!(!guesses(&cutter, None));
}
