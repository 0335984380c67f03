//! `Json`, `OwnedJson` and `JsonString`: their content, and what `Debug` does not print.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use crate::json::{Json, JsonKind, OwnedJson, SyntaxErrorKind, TextFlags};

fn json(text: &str) -> Json<'_> {
    Json::parse_str(text).unwrap()
}

fn string(token: &str) -> crate::json::JsonString<'_> {
    json(token).as_string().unwrap()
}

#[test]
fn blanks_around_are_cut_off_and_nothing_inside_is_touched() {
    let value = json(" \r\n\t{ \"a\" : 1.0e2 ,\t\"a\":[ ] }\n");
    assert_eq!(value.as_str(), "{ \"a\" : 1.0e2 ,\t\"a\":[ ] }");
    assert_eq!(value.as_bytes().len(), value.len());
    assert!(!value.has_line_breaks());
    assert!(json("[1,\n2]").has_line_breaks());
    assert!(json("[1,\r2]").has_line_breaks());
    assert_eq!(json("\u{feff}[1]").as_str(), "[1]");
    assert_eq!(Json::NULL, json("null"));
    assert_ne!(json("1"), json("1.0"));
}

#[test]
fn kinds_are_told_by_the_value() {
    let cases = [
        ("null", JsonKind::Null),
        ("true", JsonKind::Bool),
        ("false", JsonKind::Bool),
        ("-1", JsonKind::Number),
        ("0", JsonKind::Number),
        ("\"\"", JsonKind::String),
        ("[]", JsonKind::Array),
        ("{}", JsonKind::Object),
    ];
    for (text, kind) in cases {
        assert_eq!(json(text).kind(), kind);
        assert_eq!(json(text).is_null(), kind == JsonKind::Null);
        assert_eq!(OwnedJson::from(json(text)).kind(), kind);
    }
}

#[test]
fn debug_shows_no_content() {
    let secret = r#"{"token":"hunter2"}"#;
    let shown = [
        format!("{:?}", json(secret)),
        format!("{:?}", json(secret).to_owned_json()),
        format!("{:?}", json(secret).members().next()),
        format!("{:?}", json(secret).decode::<u32>().unwrap_err()),
        format!("{}", json(secret).decode::<u32>().unwrap_err()),
        format!(
            "{:?}",
            Json::parse_str("{\"hunter2\":hunter2}").unwrap_err()
        ),
    ];
    for shown in shown {
        assert!(
            !shown.contains("hunter2") && !shown.contains("token"),
            "{shown}"
        );
    }
    assert_eq!(format!("{:?}", json(secret)), "Json(object, 19 bytes)");
    assert_eq!(json(secret).to_string(), secret);
}

#[test]
fn members_come_in_order_with_repetitions() {
    let text = r#" { "a" : 1 , "b":[{"c":"}"},"]"] ,"a":{"x\"}":null} , "" : "\\" } "#;
    let members: Vec<_> = json(text)
        .members()
        .map(|(key, value)| (key.raw(), value.as_str()))
        .collect();
    assert_eq!(
        members,
        [
            ("a", "1"),
            ("b", r#"[{"c":"}"},"]"]"#),
            ("a", r#"{"x\"}":null}"#),
            ("", r#""\\""#)
        ]
    );
    assert_eq!(json(text).elements().count(), 0);
    assert_eq!(json("{}").members().count(), 0);
    assert_eq!(json(r#""{\"a\":1}""#).members().count(), 0);
    let elements: Vec<_> = json(r#"[ 1 , -2.5e3,"a,b" ,[[]],{"k":[]} , null,true ]"#)
        .elements()
        .map(Json::as_str)
        .collect();
    assert_eq!(
        elements,
        [
            "1",
            "-2.5e3",
            "\"a,b\"",
            "[[]]",
            "{\"k\":[]}",
            "null",
            "true"
        ]
    );
    assert_eq!(json("[]").elements().count(), 0);
    assert_eq!(json("7").elements().count(), 0);
}

#[test]
fn get_finds_the_first_member_however_it_is_escaped() {
    let value = json(r#"{"x":0,"n\u0061me":1,"name":2,"\ud83d\ude00":3,"\ud800":4}"#);
    assert_eq!(value.get("name").unwrap().as_str(), "1");
    assert_eq!(value.get("😀").unwrap().as_str(), "3");
    assert_eq!(value.get("nam"), None);
    assert_eq!(value.get("names"), None);
    assert_eq!(value.get("\u{fffd}"), None);
    assert_eq!(json("[1]").get("0"), None);
}

#[test]
fn strings_are_unescaped() {
    let cases = [
        (r#""""#, ""),
        (r#""plain é 😀""#, "plain é 😀"),
        (r#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{c}\n\r\t"),
        (r#""\u0041\u00e9\u20AC\ud83D\uDe00""#, "Aé€😀"),
        (r#""a\\u0041""#, "a\\u0041"),
        (r#""é\n""#, "é\n"),
    ];
    for (token, expected) in cases {
        assert_eq!(string(token).to_cow().unwrap(), expected);
        assert_eq!(string(token).to_cow_lossy(), expected);
        assert!(string(token).eq_str(expected));
        assert!(!string(token).eq_str("something else"));
        assert_eq!(string(token).raw(), &token[1..token.len() - 1]);
        assert_eq!(string(token).has_escapes(), token.contains('\\'));
        let points: Vec<u32> = expected.chars().map(u32::from).collect();
        assert!(string(token).code_points().eq(points));
    }
    assert!(matches!(
        string(r#""abc""#).to_cow(),
        Some(Cow::Borrowed("abc"))
    ));
}

// MSG-06: ids are compared by code points, so a lone surrogate must stay itself
#[test]
fn lone_surrogates_stay_themselves() {
    let cases: [(&str, &[u32], &str); 6] = [
        (r#""\ud800""#, &[0xd800], "\u{fffd}"),
        (r#""\udc00\ud800""#, &[0xdc00, 0xd800], "\u{fffd}\u{fffd}"),
        (r#""\ud800\ud83d\ude00""#, &[0xd800, 0x1f600], "\u{fffd}😀"),
        (r#""\ud800\n""#, &[0xd800, 10], "\u{fffd}\n"),
        (r#""\ud800\u0041""#, &[0xd800, 0x41], "\u{fffd}A"),
        (
            r#""\ud800udc00""#,
            &[0xd800, 0x75, 0x64, 0x63, 0x30, 0x30],
            "\u{fffd}udc00",
        ),
    ];
    for (token, points, lossy) in cases {
        assert_eq!(
            string(token).code_points().collect::<Vec<_>>(),
            points,
            "{token}"
        );
        assert_eq!(string(token).to_cow(), None);
        assert_eq!(string(token).to_cow_lossy(), lossy);
        assert!(!string(token).eq_str(lossy));
    }
}

#[test]
fn owned_json_is_the_same_text() {
    let text = "{\"a\":\n[1.0,2]}";
    let owned = OwnedJson::parse(String::from(text)).unwrap();
    assert_eq!(owned.as_json(), json(text));
    assert!(owned.as_json().has_line_breaks());
    assert_eq!(owned.clone(), json(text).to_owned_json());
    assert_eq!(OwnedJson::parse(String::from(" 1 ")).unwrap().as_str(), "1");
    assert_eq!(
        OwnedJson::from_value(&vec![1, 2]).unwrap().as_str(),
        "[1,2]"
    );
    assert_eq!(
        OwnedJson::parse(String::from("1 2")).unwrap_err().kind(),
        SyntaxErrorKind::TrailingData
    );
    assert_eq!(OwnedJson::from_value("é").unwrap().into_string(), "\"é\"");
}

#[test]
fn slices_that_are_not_json_after_all_do_no_harm() {
    let texts: [&[u8]; 12] = [
        b"",
        b"{",
        b"[",
        b"\"",
        b"{\"a",
        b"{\"a\\",
        b"[[[",
        b"{\"a\":",
        b"\xff\xff",
        b"]",
        b"{:::",
        b"[}]",
    ];
    for text in texts {
        let lossy = String::from_utf8_lossy(text);
        let value = Json::from_scanned(&lossy, TextFlags::UNKNOWN);
        let _ = (
            value.kind(),
            value.as_str(),
            value.members().count(),
            value.elements().count(),
        );
        let _ = (
            value.get("a"),
            value.to_owned_json(),
            value.decode::<bool>().is_err(),
        );
        if let Some(string) = value.as_string() {
            let _ = (
                string.to_cow(),
                string.to_cow_lossy(),
                string.raw(),
                string.eq_str("a"),
            );
        }
    }
}
