//! Reading into types: what is refused before serde_json sees it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::json::{DecodeErrorKind, Json, scan};
use crate::target::SMALL;

/// Returns why a text cannot be decoded, which is the same for two types; `None` if it can.
fn kind_of(text: &str) -> Option<DecodeErrorKind> {
    let json = Json::parse_str(text).unwrap();
    let ignored = json.decode::<IgnoredAny>().err().map(|error| error.kind());
    let tree = json.decode::<Value>().err().map(|error| error.kind());
    assert_eq!(ignored, tree, "{text}");
    tree
}

// SER-07, SEC-11: such keys can make serde_json read another document than was validated
#[test]
fn reserved_keys_are_refused_however_they_are_escaped_and_wherever_they_stand() {
    let keys = [
        r#"$serde_json::private::RawValue"#,
        r#"$serde_json::private::Number"#,
        r#"$serde_json::private::"#,
        r#"$serde_json::private::anything"#,
        r#"\u0024serde_json::private::RawValue"#,
        r#"$\u0073erde_json::private::Number"#,
        r#"$serde_json\u003a:private::RawValue"#,
        r#"\u0024\u0073\u0065\u0072\u0064\u0065\u005F\u006a\u0073\u006f\u006e\u003A\u003a\u0070\u0072\u0069\u0076\u0061\u0074\u0065\u003a\u003aNumber"#,
    ];
    let places = [
        r#"{KEY:"1e5"}"#,
        r#"{KEY : "[1,2]"}"#,
        "{KEY\n\t:\"1\"}",
        r#"{"a":1,KEY:"1"}"#,
        r#"[[{"a":[{KEY:"1"}]}]]"#,
        r#"{"a":"{\"","b":{"c":"\\",KEY:null}}"#,
    ];
    for key in keys {
        for place in places {
            let text = place.replace("KEY", &format!("\"{key}\""));
            assert_eq!(kind_of(&text), Some(DecodeErrorKind::ReservedKey), "{text}");
        }
    }
}

#[test]
fn the_same_words_elsewhere_are_harmless() {
    for text in [
        r#"["$serde_json::private::RawValue"]"#,
        r#"{"a":"$serde_json::private::Number"}"#,
        r#"{"a":"\u0024serde_json::private::Number","$":1,"$ref":"\u0024"}"#,
        r#"{"x$serde_json::private::Number":1}"#,
        r#"{"$serde_json::privat":1,"$serde_json:private::x":1}"#,
        r#"{"a":"{\"$serde_json::private::Number\":1}"}"#,
        r#"{"\\u0024serde_json::private::Number":1}"#,
        r#"{"$Serde_json::private::Number":1}"#,
    ] {
        assert_eq!(kind_of(text), None, "{text}");
    }
}

// USE-16: the scan notes such a key, wherever it is
#[test]
fn the_scan_knows_of_reserved_keys_without_a_search() {
    let long = "x".repeat(100);
    let key = r#""$serde_json::private::Number""#;
    let escaped = r#""\u0024serde_json::private::""#;
    for key in [key, escaped] {
        for text in [
            format!(r#"{{{key}:1}}"#),
            format!(r#"{{"method":"m","params":{{"a":[{{"b":1,{key}:1}}]}}}}"#),
            format!(r#"{{"a":"{long}","b":"{long}","c":"{long}","d":"{long}",{key}:1}}"#),
            format!(r#"{{"a":"{long}","b":"{long}","c":"{long}","d":{{{key}:1}}}}"#),
            format!(r#"[{{"id":1}},{{"params":["{long}",{{{key} : 1}}]}}]"#),
            format!(r#"{{"error":{{"code":1,"message":"m","data":{{{key}:1}}}}}}"#),
        ] {
            let scanned = scan(text.as_bytes(), 128, &mut Vec::new(), 16).unwrap();
            assert!(scanned.flags.has_reserved_key(), "{text}");
            assert!(
                Json::parse_str(&text).unwrap().flags().has_reserved_key(),
                "{text}"
            );
            let harmless = text.replace("serde", "Serde");
            let scanned = scan(harmless.as_bytes(), 128, &mut Vec::new(), 16).unwrap();
            assert!(!scanned.flags.has_reserved_key(), "{harmless}");
        }
    }
}

// SER-06: eight texts of 121 containers, each inside the one before; serde_json would read them as
// one document that is 968 deep
#[test]
fn nesting_hidden_in_reserved_keys_is_an_error_on_a_small_stack() {
    let mut text = String::from("1");
    for _ in 0..8 {
        let inner = serde_json::to_string(&text).unwrap();
        let open = "[".repeat(120);
        let close = "]".repeat(120);
        text = format!(r#"{open}{{"$serde_json::private::RawValue":{inner}}}{close}"#);
    }
    let small = std::thread::Builder::new().stack_size(64 * 1024);
    let thread = small.spawn(move || {
        Json::parse_str(&text)
            .unwrap()
            .decode::<Value>()
            .map(drop)
            .map_err(|error| error.kind())
    });
    assert_eq!(
        thread.unwrap().join().unwrap(),
        Err(DecodeErrorKind::ReservedKey)
    );
}

#[derive(Debug, Deserialize, PartialEq)]
struct Point<'a> {
    x: i64,
    y: Option<f64>,
    #[serde(borrow)]
    label: &'a str,
}

/// A type whose error message quotes the value that it refuses.
#[derive(Debug, Deserialize)]
#[serde(try_from = "&str")]
struct Colour;

impl TryFrom<&str> for Colour {
    type Error = alloc::string::String;

    fn try_from(name: &str) -> Result<Self, Self::Error> {
        Err(format!("{name} is no colour"))
    }
}

// SER-08, SER-12
#[test]
fn types_are_read_from_the_exact_slice() {
    let text = r#" {"x":-5,"label":"here","extra":[1]} "#;
    let point: Point<'_> = Json::parse_str(text).unwrap().decode().unwrap();
    assert_eq!(
        point,
        Point {
            x: -5,
            y: None,
            label: "here"
        }
    );
    assert!(
        text.as_bytes()
            .as_ptr_range()
            .contains(&point.label.as_ptr())
    );
    let map: BTreeMap<String, Vec<u8>> = Json::parse_str(r#"{"$a":[1],"\u0062":[]}"#)
        .unwrap()
        .decode()
        .unwrap();
    assert_eq!(map.len(), 2);
}

// SEC-15
#[test]
fn a_mismatch_keeps_its_detail_for_local_logs() {
    let error = Json::parse_str(r#"{"x":"secret"}"#)
        .unwrap()
        .decode::<Point<'_>>()
        .unwrap_err();
    assert_eq!(error.kind(), DecodeErrorKind::Mismatch);
    if SMALL {
        return assert_eq!(error.detail(), "");
    }
    assert_eq!(
        error.detail(),
        "invalid type: string, expected i64 at line 1 column 13"
    );
    // The message that a type has written itself is left out.
    let own = Json::parse_str(r#""secret""#).unwrap().decode::<Colour>();
    assert_eq!(
        format!("{:?}", own.unwrap_err()),
        r#"DecodeError { kind: Mismatch, detail: "refused by its type" }"#
    );
    assert_eq!(
        format!("{error}"),
        "the value does not have the expected form"
    );
    // A lone surrogate is grammatical, but no Rust string can hold it.
    let lone = Json::parse_str(r#""\ud800""#).unwrap();
    assert_eq!(
        lone.decode::<String>().unwrap_err().kind(),
        DecodeErrorKind::Mismatch
    );
    assert!(
        Json::parse_str("[1e400]")
            .unwrap()
            .decode::<IgnoredAny>()
            .is_ok()
    );
}
