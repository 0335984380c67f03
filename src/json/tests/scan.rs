//! The envelope members that the scanner finds.

use alloc::vec::Vec;
use alloc::{format, vec};

use crate::json::envelope::{Envelope, Names, Span, Version};
use crate::json::scan::{Scanned, Shape, scan};
use crate::json::{JsonKind, SyntaxErrorKind, TextFlags};

/// Returns the envelope of a text that is not a batch.
fn one(text: &str) -> Envelope {
    let mut envelopes = Vec::new();
    let scanned = scan(text.as_bytes(), 128, &mut envelopes, 16).unwrap();
    assert_eq!(scanned.shape, Shape::Single);
    assert_eq!(envelopes.len(), 1);
    envelopes[0]
}

/// Returns the kind and the text of a member that was found in `text`.
fn cut(text: &str, member: Option<crate::json::Member>) -> Option<(JsonKind, &str)> {
    member.map(|member| (member.kind, &text[member.span.range()]))
}

#[test]
fn members_of_a_request_are_found() {
    let text = r#"{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":7}"#;
    let envelope = one(text);
    assert_eq!(envelope.version, Version::V2);
    assert_eq!(
        cut(text, envelope.method()),
        Some((JsonKind::String, r#""sum""#))
    );
    assert_eq!(
        cut(text, envelope.params()),
        Some((JsonKind::Array, "[1,2]"))
    );
    assert_eq!(cut(text, envelope.id()), Some((JsonKind::Number, "7")));
    assert_eq!((envelope.result(), envelope.error()), (None, None));
    assert!(envelope.is_plain());
    assert_eq!(&text[envelope.span.range()], text);
}

#[test]
fn null_members_are_present() {
    let text = r#"{"result":null,"id":null,"error":null}"#;
    let envelope = one(text);
    for member in [envelope.result(), envelope.id(), envelope.error()] {
        assert_eq!(cut(text, member), Some((JsonKind::Null, "null")));
    }
}

#[test]
fn members_of_inner_objects_do_not_belong_to_the_envelope() {
    let envelope = one(r#"{"params":{"id":1,"method":"m","jsonrpc":"2.0"},"x":{"error":1}}"#);
    assert_eq!(
        (envelope.id(), envelope.method(), envelope.error()),
        (None, None, None)
    );
    assert_eq!(envelope.version, Version::Absent);
}

// MSG-19
#[test]
fn each_repeated_name_is_noticed_and_the_first_kept() {
    let names = [
        ("id", Names::ID),
        ("method", Names::METHOD),
        ("params", Names::PARAMS),
        ("result", Names::RESULT),
        ("error", Names::ERROR),
        ("jsonrpc", Names::JSONRPC),
    ];
    for (name, bit) in names {
        let escaped = format!("\\u{:04X}{}", name.as_bytes()[0], &name[1..]);
        for second in [name, escaped.as_str()] {
            let text = format!(r#"{{"{name}":"2.0","{second}":"1.0"}}"#);
            let envelope = one(&text);
            assert_eq!(envelope.repeated(), bit, "{text}");
            assert!(envelope.repeated().contains(bit));
            let text = format!(r#"{{"{second}":"2.0","{name}":"1.0"}}"#);
            assert_eq!(one(&text).repeated(), bit, "{text}");
        }
    }
    let text = r#"{"id":1,"id":2,"id":3,"x":4,"x":5}"#;
    assert_eq!(cut(text, one(text).id()), Some((JsonKind::Number, "1")));
    let version = one(r#"{"jsonrpc":"2.0","jsonrpc":"1.0"}"#);
    assert_eq!(
        (version.version, version.repeated()),
        (Version::V2, Names::JSONRPC)
    );
}

#[test]
fn names_match_exactly() {
    let text = r#"{"Id":1,"ID":2,"id ":3,"i":4,"":5,"methods":6,"id\u0000":7,"jsonrpc ":"2.0"}"#;
    let envelope = one(text);
    assert_eq!((envelope.id(), envelope.method()), (None, None));
    assert_eq!(envelope.version, Version::Absent);
}

#[test]
fn versions_are_told_apart() {
    let cases = [
        (r#""2.0""#, Version::V2),
        (r#""\u0032.0""#, Version::V2),
        (r#""2\u002e\u0030""#, Version::V2),
        (r#""1.0""#, Version::V1),
        (r#""\u0031.0""#, Version::V1),
        (r#""2""#, Version::Other),
        (r#""2.0 ""#, Version::Other),
        ("2.0", Version::Other),
        ("null", Version::Other),
        (r#"["2.0"]"#, Version::Other),
    ];
    for (value, version) in cases {
        assert_eq!(
            one(&format!(r#"{{"jsonrpc":{value}}}"#)).version,
            version,
            "{value}"
        );
        assert_eq!(
            one(&format!(r#"{{ "jsonrpc" : {value} }}"#)).version,
            version,
            "{value}"
        );
    }
}

#[test]
fn escaped_methods_are_marked() {
    assert!(one(r#"{"method":"a\u0062c"}"#).has_escaped_method());
    assert!(!one(r#"{"method":"abc"}"#).has_escaped_method());
    assert!(!one(r#"{"method":"abc","method":"\u0061bc"}"#).has_escaped_method());
    assert!(!one(r#"{"method":["\n"]}"#).has_escaped_method());
}

// SER-04
#[test]
fn scalars_and_batches_keep_their_shape() {
    for (text, kind) in [
        ("1", JsonKind::Number),
        ("\"x\"", JsonKind::String),
        ("true", JsonKind::Bool),
        (" null ", JsonKind::Null),
    ] {
        let envelope = one(text);
        assert_eq!(envelope.kind, kind);
        assert_eq!(&text[envelope.span.range()], text.trim());
    }
    let text = br#"[ {"id":1}, 5 ,[{"id":2}],{}]"#;
    let mut envelopes = Vec::new();
    let scanned = scan(text, 128, &mut envelopes, 16).unwrap();
    assert_eq!(scanned.shape, Shape::Batch { items: 4 });
    let kinds: Vec<_> = envelopes.iter().map(|envelope| envelope.kind).collect();
    use JsonKind::{Array, Number, Object};
    assert_eq!(kinds, [Object, Number, Array, Object]);
    assert_eq!(envelopes[0].span.of(scanned.text), r#"{"id":1}"#);
    assert_eq!(envelopes[2].id(), None);
    assert_eq!(
        scan(b"[]", 128, &mut envelopes, 16),
        Ok(Scanned {
            text: "[]",
            shape: Shape::Batch { items: 0 },
            flags: TextFlags::NONE
        })
    );
    assert!(envelopes.is_empty());
}

// SEC-11
#[test]
fn items_beyond_the_limit_are_validated_and_counted_but_not_stored() {
    let items = 10_000;
    let mut text = vec![b'['];
    for _ in 0..items {
        text.extend_from_slice(b"{\"id\":1},");
    }
    text.extend_from_slice(b"{}]");
    let mut envelopes = Vec::new();
    let scanned = scan(&text, 128, &mut envelopes, 100).unwrap();
    assert_eq!(scanned.shape, Shape::Batch { items: items + 1 });
    assert_eq!((envelopes.len(), envelopes.capacity()), (100, 100));
    let len = text.len();
    text[len - 2] = b'x';
    assert_eq!(
        scan(&text, 128, &mut envelopes, 100).unwrap_err().offset(),
        len - 2
    );
    assert!(envelopes.is_empty());
}

// SER-06
#[test]
fn depth_is_capped_exactly() {
    let mut envelopes = Vec::new();
    let mut kind = |text: &str, max_depth| {
        scan(text.as_bytes(), max_depth, &mut envelopes, 16)
            .err()
            .map(|error| error.kind())
    };
    for depth in 1..=128usize {
        for (open, close) in [
            ("[", "]"),
            ("{\"a\":", "}"),
            ("{\"params\":", "}"),
            (" [ 1 , ", " ] "),
        ] {
            let text = |depth| format!("{}0{}", open.repeat(depth), close.repeat(depth));
            let limit = depth as u8;
            assert_eq!(kind(&text(depth), limit), None, "{open} {depth}");
            assert_eq!(
                kind(&text(depth + 1), limit),
                Some(SyntaxErrorKind::TooDeep)
            );
        }
    }
    assert_eq!(kind("[]", 0), None);
    assert_eq!(kind("[[]]", 0), Some(SyntaxErrorKind::TooDeep));
    assert_eq!(kind(&"[".repeat(129), 255), Some(SyntaxErrorKind::TooDeep));
    assert_eq!(
        kind(&"[".repeat(128), 255),
        Some(SyntaxErrorKind::UnexpectedEnd)
    );
    assert_eq!(kind("[{}]", 1), Some(SyntaxErrorKind::TooDeep));
    // The depth is the number of containers that are open, not of all containers.
    assert_eq!(kind(&format!("[{}[]]", "[],".repeat(1000)), 2), None);
}

// SEC-11: the time is not measured; if it grew with the square, the test would not end
#[test]
fn a_hundred_thousand_brackets_and_a_million_keys_are_quick() {
    let mut envelopes = Vec::new();
    for text in ["[", "{\"a\":", "[{\"a\":"] {
        let text = text.repeat(100_000);
        let error = scan(text.as_bytes(), 128, &mut envelopes, 16).unwrap_err();
        assert_eq!(error.kind(), SyntaxErrorKind::TooDeep);
    }
    let mut text = vec![b'{'];
    for _ in 0..1_000_000 {
        text.extend_from_slice(b"\"id\":1,");
    }
    text.extend_from_slice(b"\"\":0}");
    let scanned = scan(&text, 128, &mut envelopes, 16).unwrap();
    assert_eq!(scanned.shape, Shape::Single);
    assert_eq!(envelopes[0].repeated(), Names::ID);
}

// SER-09
#[test]
fn line_breaks_between_tokens_are_noticed() {
    let mut envelopes = Vec::new();
    let mut breaks = |text: &str| {
        scan(text.as_bytes(), 128, &mut envelopes, 16)
            .unwrap()
            .flags
            .has_line_breaks()
    };
    assert!(!breaks(r#"{"a": "\n\r", "b":	[1, 2] }"#));
    for text in [
        "[1,\n2]",
        "[1\r]",
        "{\n}",
        "{\"a\"\n:1}",
        "{\"a\":\r1}",
        "1\n",
        "\n1",
        "[\n]",
    ] {
        assert!(breaks(text), "{text:?}");
    }
}

// SER-02
#[test]
fn one_byte_order_mark_is_skipped_and_counted_in_offsets() {
    let text = "\u{feff}{\"id\":1}";
    let envelope = one(text);
    assert_eq!(envelope.span, Span { start: 3, end: 11 });
    assert_eq!(cut(text, envelope.id()), Some((JsonKind::Number, "1")));
    let mut envelopes = Vec::new();
    let mut error = |text: &str| scan(text.as_bytes(), 128, &mut envelopes, 16).unwrap_err();
    assert_eq!(error("\u{feff}").kind(), SyntaxErrorKind::Empty);
    assert_eq!(error("\u{feff}\u{feff}1").offset(), 3);
    assert_eq!(error(" \u{feff}1").offset(), 1);
}

#[test]
fn a_span_of_another_text_is_empty() {
    assert_eq!(Span { start: 2, end: 5 }.of("abc"), "");
    assert_eq!(Span { start: 5, end: 2 }.of("abcdefg"), "");
}

#[test]
fn errors_say_where_and_why() {
    use SyntaxErrorKind::*;
    let cases: &[(&[u8], SyntaxErrorKind, usize)] = &[
        (b"", Empty, 0),
        (b" \r\n\t", Empty, 4),
        (b"{", UnexpectedEnd, 1),
        (b"{\"a\"", UnexpectedEnd, 4),
        (b"{\"a\":", UnexpectedEnd, 5),
        (b"[1,", UnexpectedEnd, 3),
        (b"\"abc", UnexpectedEnd, 4),
        (b"\"abc\\", UnexpectedEnd, 5),
        (b"\"abc\\u00", UnexpectedEnd, 8),
        (b"-", UnexpectedEnd, 1),
        (b"1.", UnexpectedEnd, 2),
        (b"1e+", UnexpectedEnd, 3),
        (b"tru", UnexpectedEnd, 3),
        (b"trux", UnexpectedByte, 3),
        (b"{a:1}", UnexpectedByte, 1),
        (b"{\"a\" 1}", UnexpectedByte, 5),
        (b"[1 2]", UnexpectedByte, 3),
        (b"[1}", UnexpectedByte, 2),
        (b"\0", UnexpectedByte, 0),
        (b"[\0]", UnexpectedByte, 1),
        (b"01", BadNumber, 1),
        (b"-a", BadNumber, 1),
        (b"1.e1", BadNumber, 2),
        (b"\"\\x\"", BadEscape, 2),
        (b"\"\\u00g0\"", BadEscape, 5),
        (b"\"a\x01\"", ControlCharacter, 2),
        (b"\"a\0\"", ControlCharacter, 2),
        (b"\"a\nb\"", ControlCharacter, 2),
        (b"{} x", TrailingData, 3),
        (b"1 2", TrailingData, 2),
        (b"1\0", TrailingData, 1),
        (b"{\"jsonrpc\":\"2.0\"", UnexpectedEnd, 16),
        (b"{\"jsonrpc\":\"2.0\"]", UnexpectedByte, 16),
        (b"\"ab\xff\"", InvalidUtf8, 3),
        (
            b"[\"\xc3\xa9\",\"0123456789abcdef0123456789abcdef0123456789\xc3(\"]",
            InvalidUtf8,
            49,
        ),
    ];
    let mut envelopes = Vec::new();
    for (text, kind, offset) in cases {
        let error = scan(text, 128, &mut envelopes, 16).unwrap_err();
        assert_eq!(
            (error.kind(), error.offset()),
            (*kind, *offset),
            "{}",
            text.escape_ascii()
        );
        assert!(format!("{error}").ends_with(&format!("at byte {offset}")));
    }
}
