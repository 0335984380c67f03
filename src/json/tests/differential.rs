//! The scanner compared with a naive one and with serde_json, on randomly damaged inputs.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::de::IgnoredAny;

use super::{Random, twin};
use crate::json::envelope::Envelope;
use crate::json::plain::{skip_plain, skip_plain_naive};
use crate::json::{Json, JsonString, SyntaxErrorKind, TextFlags, scan};

const SEEDS: &[&str] = &[
    r#"{"jsonrpc":"2.0","method":"subtract","params":[42,23],"id":1}"#,
    r#"{"jsonrpc":"2.0","result":19,"id":1}"#,
    r#"{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}"#,
    r#"{"jsonrpc":"2.0","method":"update","params":{"a":[1,2.5e-3,{"b":null}],"c":"x\ny"}}"#,
    r#"[{"jsonrpc":"2.0","method":"sum","params":[1,2,4],"id":"1"},{"foo":"boo"},1,"x",[2],null]"#,
    "{\r\n  \"jsonrpc\": \"2.0\",\n\t\"id\": 18446744073709551616,\n  \"method\": \"m\"\n}\n",
    r#"{"id":1.0e2,"\u006dethod":"a\u0062c","\u0069d":null,"jsonrpc":"\u0032.0"}"#,
    r#"{"method":"textDocument/didChange","params":{"text":"fn main() {\n    println!(\"grüße 😀 \\ud83d\\ude00\");\n}"}}"#,
    r#"{"a":"\ud83d\ude00","b":"\ud800","c":"\udc00\ud800x","jsonrpc":"1.0"}"#,
    r#" [ [ ] , { } , [ [ [ 0 , -0 , 0.0 , -1E+2 ] ] ] , true , false , "" ] "#,
    "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"bom\"}",
    r#"{"params":{"id":7,"method":"inner","jsonrpc":"2.0"},"params":[],"id":2,"id":3,"result":1,"error":2}"#,
    r#"[[[[[[[[[[{"a":{"b":{"c":[{"d":[]}]}}}]]]]]]]]]]"#,
    r#"{"jsonrpc":"2.0""#,
    r#"{"jsonrpc":"2.0"}"#,
    r#""just a string of some length, longer than a block of the vector loop, and then some""#,
    "12345678901234567890.123e45",
];

#[rustfmt::skip]
const TOKENS: &[&[u8]] = &[
    b"{", b"}", b"[", b"]", b",", b":", b"\"", b"\\", b"\\u", b"\\u0069", b"\\ud83d", b"\\udc00",
    b" ", b"\n", b"\r", b"\t", b"0", b"-", b".", b"e", b"E+", b"1", b"null", b"true", b"false",
    b"\"id\":", b"\"method\":\"x\",", b"\"jsonrpc\":\"2.0\",", b"\"result\":", b"\"error\":{}",
    b"{\"jsonrpc\":\"2.0\"", b"\"\\u0069d\"", b"\x00", b"\x1f", b"\x7f", b"\x80", b"\xc3\xa9",
    b"\xc0\xaf", b"\xe2\x82\xac", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xf4\x90\x80\x80",
    b"\xff", b"\xef\xbb\xbf", b"[[[[[[[[", b"]]]]]]]]", b"\"2.0\"", b"\"1.0\"",
    b"$serde_json::private::Number",
];

/// Damages a text at a random place: changes, removes, replaces, repeats or inserts a few bytes, or
/// cuts the text off.
fn bend(text: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(text.len() + 1);
    let end = (at + 1 + random.below(8)).min(text.len());
    match random.below(8) {
        0 if at < text.len() => text[at] ^= 1 << random.below(8),
        1 if at < text.len() => text[at] = random.next() as u8,
        2 => drop(text.drain(at..end)),
        3 => text.truncate(at),
        4 => {
            let piece = text[at..end].to_owned();
            text.splice(at..at, piece);
        }
        5 => {
            let other = random.pick(SEEDS).as_bytes();
            let from = random.below(other.len());
            let to = (from + random.below(30)).min(other.len());
            text.splice(at..end, other[from..to].iter().copied());
        }
        _ => {
            let token = random.pick(TOKENS);
            text.splice(at..at, token.iter().copied());
        }
    }
}

/// Returns whether a text is accepted. Checks that the scanner, its twin and serde_json agree on
/// that, and that the first two find the same members.
fn agree(text: &[u8], max_depth: u8, max_envelopes: usize, envelopes: &mut Vec<Envelope>) -> bool {
    let shown = || String::from_utf8_lossy(text).into_owned();
    let ours = scan(text, max_depth, envelopes, max_envelopes);
    match (twin::scan(text, max_depth, max_envelopes), &ours) {
        (Ok((scanned, twins)), Ok(ours)) => {
            assert_eq!(*ours, scanned, "{}", shown());
            assert_eq!(*envelopes, twins, "{}", shown());
        }
        (Err(_), Err(error)) => {
            assert!(error.offset() <= text.len(), "{}", shown());
            assert!(envelopes.is_empty());
        }
        (_, ours) => panic!("only one refuses: {ours:?} {}", shown()),
    }
    // serde_json skips values of any depth.
    if matches!(&ours, Err(error) if error.kind() == SyntaxErrorKind::TooDeep) {
        return false;
    }
    // serde_json does not check whether ignored text is UTF-8, and accepts no byte-order mark.
    let theirs = core::str::from_utf8(text).is_ok()
        && serde_json::from_slice::<IgnoredAny>(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text))
            .is_ok();
    assert_eq!(ours.is_ok(), theirs, "{ours:?} {}", shown());
    ours.is_ok()
}

// SER-01, SER-02, SER-05, SER-06, MSG-19
#[test]
fn scanner_twin_and_serde_json_agree_on_mutated_texts() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut envelopes = Vec::new();
    let mut accepted = 0;
    const ROUNDS: usize = 120_000;
    for _ in 0..ROUNDS {
        let mut text = random.pick(SEEDS).as_bytes().to_owned();
        for _ in 0..random.below(4) {
            bend(&mut text, &mut random);
        }
        let max_depth = [0, 1, 2, 3, 5, 128, 128, 255][random.below(8)];
        let max_envelopes = [0, 1, 3, 100][random.below(4)];
        accepted += usize::from(agree(&text, max_depth, max_envelopes, &mut envelopes));
    }
    // Accepted and refused texts must both be common, or the comparison proves little.
    assert!(
        accepted > ROUNDS / 10 && accepted < ROUNDS * 9 / 10,
        "{accepted}"
    );
}

/// Appends the inside of a string: up to 199 characters, more than three blocks of the grid.
fn inside(random: &mut Random, text: &mut Vec<u8>) {
    let max_len = [4, 20, 70, 200][random.below(4)];
    for _ in 0..random.below(max_len) {
        match random.below(200) {
            0 => text.extend_from_slice(b"\\\""),
            1 => text.extend_from_slice(b"\\u00e9"),
            2 => text.extend_from_slice("😀".as_bytes()),
            byte => text.push(b'a' + byte as u8 % 26),
        }
    }
}

/// Appends blanks in one of eight calls.
fn blanks(random: &mut Random, text: &mut Vec<u8>) {
    if random.below(8) == 0 {
        text.extend_from_slice([" ", "\n  ", "\t", "            "][random.below(4)].as_bytes());
    }
}

fn string(random: &mut Random, text: &mut Vec<u8>) {
    text.push(b'"');
    inside(random, text);
    text.push(b'"');
}

/// Appends a value that has strings of any length, numbers, words and containers.
fn value(random: &mut Random, depth: usize, text: &mut Vec<u8>) {
    let is_object = match random.below(if depth < 5 { 9 } else { 7 }) {
        0..4 => return string(random, text),
        4 => return text.extend_from_slice(b"-12.5e3"),
        5 => return text.extend_from_slice(b"7"),
        6 => return text.extend_from_slice(random.pick(&["true", "false", "null"]).as_bytes()),
        kind => kind == 7,
    };
    // Some values are nested deeper than one stack of bits.
    let levels = if random.below(60) == 0 { 70 } else { 1 };
    let (open, close): (&[u8], u8) = if is_object {
        (b"{\"x\":", b'}')
    } else {
        (b"[", b']')
    };
    (1..levels).for_each(|_| text.extend_from_slice(open));
    text.push(open[0]);
    for member in 0..random.below(8) {
        if member > 0 {
            text.push(b',');
        }
        blanks(random, text);
        if is_object {
            string(random, text);
            blanks(random, text);
            text.push(b':');
            blanks(random, text);
        }
        value(random, depth + 1, text);
        blanks(random, text);
    }
    (0..levels).for_each(|_| text.push(close));
}

// SER-01, SER-02, SER-06, MSG-19
#[test]
fn texts_with_long_strings_are_judged_alike() {
    let mut random = Random::new(0x0005_deec_e66d_0001);
    let mut envelopes = Vec::new();
    let mut accepted = 0;
    const ROUNDS: usize = 20_000;
    for _ in 0..ROUNDS {
        let mut text = br#"{"jsonrpc":"2.0","id":1,"result":"#.to_vec();
        text.extend_from_slice([&b"["[..], b"{\"a\":["][random.below(2)]);
        for _ in 0..12 {
            value(&mut random, 0, &mut text);
            text.push(b',');
        }
        value(&mut random, 0, &mut text);
        // The result begins at byte 33.
        let is_object = text[33] == b'{';
        text.extend_from_slice(if is_object { b"]}}" } else { b"]}" });
        for _ in 0..random.below(3) {
            bend(&mut text, &mut random);
        }
        let max_depth = [5, 80, 128][random.below(3)];
        accepted += usize::from(agree(&text, max_depth, 1, &mut envelopes));
    }
    assert!(
        accepted > ROUNDS / 10 && accepted < ROUNDS * 9 / 10,
        "{accepted}"
    );
}

/// The kind and position of an error do not depend on long strings before it.
#[test]
fn mistakes_are_found_in_the_same_place_behind_long_strings() {
    let mut random = Random::new(0x0005_deec_e66d_0002);
    let mut envelopes = Vec::new();
    let mut refused = 0;
    let mut said = |text: &[u8], before: usize| match scan(text, 128, &mut envelopes, 1) {
        Ok(_) => None,
        Err(error) => Some((error.kind(), error.offset() - before)),
    };
    for round in 0..20_000 {
        let mut middle = Vec::new();
        value(&mut random, 3, &mut middle);
        for _ in 0..random.below(3) {
            bend(&mut middle, &mut random);
        }
        let head = br#"{"jsonrpc":"2.0","params":[{},"#;
        // The length varies. It counts four times, so the value begins at every fourth position of
        // a block of 64 bytes.
        let long = "x".repeat(40 + round % 64);
        let before = format!(r#""{long}","{long}","{long}","{long}","#);
        let alone = [head, &middle[..], b"]}"].concat();
        let behind = [head, before.as_bytes(), &middle, b"]}"].concat();
        let alone = said(&alone, 0);
        assert_eq!(said(&behind, before.len()), alone);
        refused += usize::from(alone.is_some());
    }
    assert!(refused > 5_000, "{refused}");
}

#[test]
fn walking_mutated_texts_finds_what_serde_json_finds() {
    let mut random = Random::new(42);
    for _ in 0..20_000 {
        let mut text = random.pick(SEEDS).as_bytes().to_owned();
        for _ in 0..random.below(3) {
            bend(&mut text, &mut random);
        }
        // The walk must not panic on any text, although it only gets valid text.
        let lossy = String::from_utf8_lossy(&text);
        let unchecked = Json::from_scanned(&lossy, TextFlags::UNKNOWN);
        let _ = unchecked.members().count() + unchecked.elements().count();
        let _ = JsonString::of_token(&lossy).code_points().count();
        let Ok(json) = Json::parse(&text) else {
            continue;
        };
        let Ok(tree) = serde_json::from_slice::<serde_json::Value>(json.as_bytes()) else {
            continue;
        };
        // `decode` refuses keys with which serde_json may read another document.
        if json.as_str().contains("serde_json::private") {
            continue;
        }
        match tree {
            serde_json::Value::Array(elements) => {
                let walked: Vec<_> = json.elements().collect();
                assert_eq!(walked.len(), elements.len());
                for (ours, theirs) in walked.iter().zip(&elements) {
                    assert_eq!(&ours.decode::<serde_json::Value>().unwrap(), theirs);
                }
            }
            serde_json::Value::Object(members) => {
                for (name, theirs) in &members {
                    // If a name is repeated, a serde_json tree has its last value.
                    let mut ours = json.members().filter(|(key, _)| key.eq_str(name));
                    let last = ours.by_ref().last().unwrap().1;
                    assert_eq!(&last.decode::<serde_json::Value>().unwrap(), theirs);
                }
            }
            _ => assert_eq!(json.elements().count() + json.members().count(), 0),
        }
    }
}

#[test]
fn skip_plain_stops_where_its_naive_twin_stops() {
    let mut random = Random::new(7);
    let mut text = Vec::new();
    for _ in 0..20_000 {
        text.clear();
        let len = random.below(100);
        for _ in 0..len {
            let byte = random.next() as u8;
            // Stops must be rare enough for the long loop to be entered: any byte at one place in
            // twelve, else one of the 56 from `"` on, of which only the quote is a stop.
            let rare = random.below(12) == 0;
            text.push(if rare { byte } else { b'!' + 1 + byte % 0x38 });
        }
        let pos = random.below(len + 2);
        let stop = skip_plain(&text, pos);
        assert_eq!(stop, skip_plain_naive(&text, pos), "{text:?} from {pos}");
    }
}

#[test]
fn strings_behind_one_with_an_escape_are_judged_as_before_it() {
    let letters = ["\\", "\"", "n", "u", "0", "\n", "é"];
    let mut good = 0;
    for number in 0..letters.len().pow(5) {
        let inside: String = (0..5)
            .map(|place| letters[number / letters.len().pow(place) % letters.len()])
            .collect();
        // Once with more text after the string than a window needs, once without.
        for behind in ["", ",12345678901234567890"] {
            let text = format!(r#"{{"a":["\n","{inside}"{behind}]}}"#);
            let is_good = Json::parse(text.as_bytes()).is_ok();
            assert_eq!(
                is_good,
                serde_json::from_str::<IgnoredAny>(&text).is_ok(),
                "{text}"
            );
            good += usize::from(is_good);
        }
    }
    assert!(good > 1000, "{good}");
}
