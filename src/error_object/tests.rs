use super::ErrorObject;
use crate::config::Config;
use crate::event::Outcome;
use crate::json::Json;
use crate::reader::{Message, Reader};
use alloc::string::String;
use alloc::vec::Vec;

fn read(text: &str) -> Option<ErrorObject<'_>> {
    ErrorObject::read(Json::parse_str(text).unwrap())
}

fn written(error: &ErrorObject<'_>) -> String {
    let mut out = Vec::new();
    error.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_code_is_read_as_any_integer_of_64_bits_is() {
    let edges = [i64::MAX, i64::MIN, -32700, 0, 9, 1_000_000_000];
    let mut texts: Vec<String> = edges.iter().map(|edge| alloc::format!("{edge}")).collect();
    texts.extend(
        [
            "9223372036854775808",
            "-9223372036854775809",
            "9999999999999999999",
            "-9999999999999999999",
            "10000000000000000000",
            "18446744073709551616",
            "-0",
            "123456789012345678901234567890",
        ]
        .map(String::from),
    );
    for text in texts {
        let json = Json::parse_str(&text).unwrap();
        assert_eq!(super::read_integer(json), text.parse().ok(), "{text}");
    }
}

// USE-25 MSG-16: such a code was refused once; it is read by its exact value
#[test]
fn a_code_with_a_fraction_of_zero_or_an_exponent_was_no_integer() {
    for (text, code) in [
        ("-32000.0", Some(-32000)),
        ("-3.2e4", Some(-32000)),
        ("-3200000E-2", Some(-32000)),
        ("1e2", Some(100)),
        ("0e999999999999999999999999999999999999999999", Some(0)),
        ("-0.0", Some(0)),
        ("9223372036854775807.0", Some(i64::MAX)),
        ("-9.223372036854775808e18", Some(i64::MIN)),
        // As floats of 64 bits these two numbers would equal the two before.
        ("9223372036854775808.0", None),
        ("-9.223372036854775809e18", None),
        ("-32000.5", None),
        ("-32000.00000000000000000001", None),
        ("1e-1", None),
        ("1e400", None),
        ("1e99999999999999999999999999999999999999999", None),
    ] {
        let json = Json::parse_str(text).unwrap();
        assert_eq!(super::read_integer(json), code, "{text}");
    }
}

// MSG-16
#[test]
fn a_code_is_the_same_wherever_its_point_is() {
    for code in [7, -10, 120, -32_700, 1_000_000_000, i64::MAX, i64::MIN] {
        let digits = alloc::format!("{}", code.unsigned_abs());
        let sign = if code < 0 { "-" } else { "" };
        for places in 0..=30 {
            // `places` digits and a zero follow the point, and the exponent takes the point back.
            // Or `places` zeros follow the digits, and the exponent takes them away.
            let padded = alloc::format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = padded.split_at(padded.len() - places);
            for text in [
                alloc::format!("{sign}{whole}.{fraction}0e{places}"),
                alloc::format!("{sign}{digits}{}E-{places}", "0".repeat(places)),
            ] {
                let json = Json::parse_str(&text).unwrap();
                assert_eq!(super::read_integer(json), Some(code), "{text}");
            }
        }
    }
}

// MSG-16
#[test]
fn absent_and_null_data_are_told_apart_both_ways() {
    let absent = read(r#"{"code":-32000,"message":"m"}"#).unwrap();
    let null = read(r#"{"code":-32000,"message":"m","data":null}"#).unwrap();
    assert!(absent.data().is_none());
    assert!(null.data().unwrap().is_null());
    assert_eq!(
        written(&ErrorObject::new(1, "m")),
        r#"{"code":1,"message":"m"}"#
    );
    let with_null = ErrorObject::new(1, "m").with_data(Json::NULL);
    assert_eq!(
        written(&with_null),
        r#"{"code":1,"message":"m","data":null}"#
    );
}

// MSG-16
#[test]
fn the_code_is_a_whole_number_of_64_bits() {
    for good in ["0", "-1", "9223372036854775807", "-9223372036854775808"] {
        let text = alloc::format!(r#"{{"code":{good},"message":""}}"#);
        assert_eq!(alloc::format!("{}", read(&text).unwrap().code()), good);
    }
    for bad in [
        "1.5",
        "1e-2",
        "9223372036854775808",
        "\"1\"",
        "null",
        "true",
    ] {
        let text = alloc::format!(r#"{{"code":{bad},"message":""}}"#);
        assert!(read(&text).is_none(), "{bad}");
    }
    assert!(read(r#"{"code":1}"#).is_none());
    assert!(read(r#"{"code":1,"message":2}"#).is_none());
    assert!(read(r#"[1]"#).is_none());
}

// MSG-16: the scan notes the parts of an error in its most common form, so that `ErrorObject::read`
// need not search for them
#[test]
fn the_short_way_and_the_long_one_read_the_same() {
    let codes = ["-32601", "7", "999999999", "1000000000", "-0"];
    let messages = ["", "Method not found", "\u{e9}", "a\\nb", "\\\"}"];
    let data = [
        "null",
        "{\"a\": \"}\"}",
        "[1, 2]",
        "\"x\"",
        "\"x\",\"more\":1",
        "",
    ];
    let mut reader = Reader::new(Config::new());
    let mut compared = 0;
    for [colon, comma] in [[":", ","], [": ", ", "], [":", ", "], [" : ", " ,"]] {
        for (code, message) in codes.iter().flat_map(|code| messages.map(|m| (code, m))) {
            for data in data {
                let data = match data {
                    "" => String::new(),
                    data => alloc::format!("{comma}\"data\"{colon}{data}"),
                };
                let error = alloc::format!(
                    "{{\"code\"{colon}{code}{comma}\"message\"{colon}\"{message}\"{data}}}"
                );
                let text = alloc::format!(r#"{{"jsonrpc":"2.0","error":{error},"id":1}}"#);
                let read = reader.read(text.as_bytes()).unwrap().next().unwrap();
                let Message::Response { outcome, .. } = read else {
                    panic!("{text}");
                };
                let Outcome::Err(short) = outcome else {
                    panic!("{text}");
                };
                let long = ErrorObject::read(Json::parse_str(&error).unwrap());
                assert_eq!(short, long.unwrap(), "{text}");
                compared += 1;
            }
        }
    }
    // Four ways of spacing, five codes, five messages, six kinds of data.
    assert_eq!(compared, 600);
}

#[test]
fn an_error_that_arrived_is_passed_on_as_it_stood() {
    let text = r#"{"stack":"x","message":"\u006d","code":-32000,"data":1.0}"#;
    let error = read(text).unwrap();
    assert_eq!(error.message(), "m");
    assert_eq!(written(&error), text);
    assert_eq!(error.into_owned().as_error().text().unwrap().as_str(), text);
}

// ONE-08
#[test]
fn any_value_but_null_is_a_v1_error() {
    let read = |text| ErrorObject::read_v1(Json::parse_str(text).unwrap());
    let string = read(r#""boom""#);
    assert_eq!((string.code(), string.message()), (-32000, "boom"));
    let object = read(r#"{"code":5,"message":"m","data":[1]}"#);
    assert_eq!((object.code(), object.message()), (5, "m"));
    assert_eq!(object.data().unwrap().as_str(), "[1]");
    let half = read(r#"{"message":"m","n":1}"#);
    assert_eq!((half.code(), half.message()), (-32000, "m"));
    assert_eq!(half.data().unwrap().as_str(), r#"{"message":"m","n":1}"#);
    let number = read("17");
    assert_eq!(
        (number.code(), number.data().unwrap().as_str()),
        (-32000, "17")
    );
}

#[test]
fn an_error_without_its_data_has_its_code_and_message_alone() {
    let data = Json::parse_str("[1]").unwrap();
    let made = ErrorObject::new(7, "no").with_data(data);
    let read = read(r#"{"code":7,"message":"no","data":[1]}"#).unwrap();
    for error in [made, read] {
        assert_eq!(
            written(&error.without_data()),
            r#"{"code":7,"message":"no"}"#
        );
    }
}
