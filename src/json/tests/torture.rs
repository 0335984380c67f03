//! Small texts that a parser must accept, or refuse, like those of JSONTestSuite. Each is
//! tested with the scanner, `Json::parse`, and the naive scanner.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::twin;
use crate::json::{Json, scan};

/// Returns whether a text is accepted. Checks that all three agree, and that the scanner also
/// accepts or refuses it inside other text, where that can be compared.
fn verdict(text: &[u8]) -> bool {
    let mut envelopes = Vec::new();
    let scanned = scan(text, 128, &mut envelopes, 16).is_ok();
    let shown = || format!("{}", text.get(..80).unwrap_or(text).escape_ascii());
    assert_eq!(
        scanned,
        Json::parse(text).is_ok(),
        "scan and parse differ: {}",
        shown()
    );
    assert_eq!(
        scanned,
        twin::scan(text, 128, 16).is_ok(),
        "scan and twin differ: {}",
        shown()
    );
    for around in [
        (&b"["[..], &b"]"[..]),
        (b"{\"params\":", b"}"),
        (b" \n", b"\t "),
    ] {
        let inside: Vec<u8> = [around.0, text, around.1].concat();
        // A byte-order mark may only be at the beginning, and a blank text is valid inside
        // brackets.
        let differs = text.starts_with(b"\xef\xbb\xbf") || text.trim_ascii().is_empty();
        // A refused text with brackets or commas may be valid inside other containers.
        let unbalanced = !scanned && text.iter().any(|byte| b"[]{},".contains(byte));
        if !differs && !unbalanced {
            // A text that is 128 deep is too deep inside another. The scanner lowers 255 to 128.
            let result = scan(&inside, 255, &mut envelopes, 16);
            let deeper = matches!(&result, Err(error) if format!("{error}").contains("deeply"));
            assert!(deeper || result.is_ok() == scanned, "inside: {}", shown());
        }
    }
    scanned
}

#[rustfmt::skip]
const ACCEPT: &[&[u8]] = &[
    // Structures
    b"{}", b"[]", b"[[]]", b"[{}]", b"{\"a\":{}}", b"{\"a\":[]}", b"[[],[]]", b"[   ]", b"{   }",
    b" [] ", b"[] ", b" []", b"\t[\n]\r ", b"[1,2,3]", b"[1 , 2 , 3]", b"[null]", b"[false]",
    b"[true]", b"[null,1,\"1\",{}]", b"{\"a\":1}", b"{\"a\":1,\"b\":2}", b"{\"a\":1,\"a\":2}",
    b"{\"a\":1,\"a\":1}", b"{\"\":0}", b"{\"a\" : 1}", b"{\n\"a\"\n:\n1\n}", b"{\"a\":\"\"}",
    b"{\"min\":-1.0e+28,\"max\":1.0e+28}", b"{\"x\":[{\"id\":\"xxxx\"}],\"id\":\"xxxx\"}",
    b"{\"foo\\u0000bar\":42}", b"[[[[[[[[[[[[]]]]]]]]]]]]", b"{\"a\":{\"a\":{\"a\":{}}}}",
    // Scalars on their own
    b"null", b"true", b"false", b"0", b"-0", b"42", b"-1", b"\"\"", b"\"a\"", b" null", b"null ",
    b"\"\\n\"", b"3.14", b"1e1",
    // Numbers
    b"[-0]", b"[-0.0]", b"[0e1]", b"[0e+1]", b"[0E-1]", b"[1E22]", b"[1E-2]", b"[1E+2]", b"[1e-2]",
    b"[123e45]", b"[123.456e78]", b"[123.456789]", b"[-123]", b"[-1.5]", b"[20e1]", b"[0.0]",
    b"[1.000000000000000005]", b"[1e400]", b"[-1e400]", b"[1e-400]", b"[123e65536]",
    b"[0.4e00669999999999999999999999999999999999999999999999999999999969999999006]",
    b"[1.0e0000000000000000000000000000000000000001]",
    b"[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
    b"[100000000000000000000]", b"[18446744073709551615]", b"[18446744073709551616]",
    b"[-9223372036854775809]", b"[9007199254740993]", b"[-0e-0]", b"0.1", b"-0.1e-1",
    // Strings
    b"[\"\\u0060\\u012a\\u12AB\"]", b"[\"\\uD801\\udc37\"]", b"[\"\\ud83d\\ude39\\ud83d\\udc8d\"]",
    b"[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]", b"[\"\\\\u0000\"]", b"[\"\\\"\"]", b"[\"a/*b*/c/*d//e\"]",
    b"[\"\\\\a\"]", b"[\"\\\\n\"]", b"[\"\\u0012\"]", b"[\"\\uFFFF\"]", b"[\"\\uDBFF\\uDFFF\"]",
    b"[\"new\\u00A0line\"]", b"[\"\\u0000\"]", b"[\"\\u002c\"]", b"[\"\x7f\"]", b"[\"asd \"]",
    b"[\" \"]", b"[\"\\uDBFF\\uDFFE\"]", b"[\"\\u2028\"]", b"[\"\\u0821\"]",
    b"[\"\\u0061\\u30AF\"]", b"[\"\\uA66D\"]", b"[\"\\u005C\"]", b"[\"\\u0022\"]",
    b"[\"\\uabcd\\uABCD\"]", b"[\"''\"]",
    // Lone surrogates are escapes like any other to the grammar.
    b"[\"\\uDADA\"]", b"[\"\\uD888\\u1234\"]", b"[\"\\uDd1e\\uD834\"]", b"[\"\\uDFAA\"]",
    b"[\"\\uD800\\n\"]", b"[\"\\uD800abc\"]", b"[\"\\ud800\\ud800\"]", b"{\"\\udc00\":1}",
    // UTF-8
    b"[\"\xc2\x80\"]", b"[\"\xdf\xbf\"]", b"[\"\xe0\xa0\x80\"]", b"[\"\xef\xbf\xbf\"]",
    b"[\"\xed\x9f\xbf\"]", b"[\"\xee\x80\x80\"]", b"[\"\xf0\x90\x80\x80\"]",
    b"[\"\xf4\x8f\xbf\xbf\"]", b"[\"\xe2\x80\xa8\"]", b"[\"\xc2\xa0\"]", b"[\"\xef\xbb\xbf\"]",
    b"{\"\xc3\xa9\":\"\xe2\x82\xac\"}", b"[\"\xf0\x9f\x98\x80\"]",
    // One byte-order mark
    b"\xef\xbb\xbf{}", b"\xef\xbb\xbf 1", b"\xef\xbb\xbf\n[]\n",
];

#[rustfmt::skip]
const REFUSE: &[&[u8]] = &[
    // Nothing
    b"", b" ", b"\n", b"\r\n\t ", b"\xef\xbb\xbf", b"\xef\xbb\xbf ",
    // Structures
    b"[", b"]", b"{", b"}", b"[1", b"[1,", b"[,", b"[,1]", b"[1,]", b"[1,,2]", b"[,]", b"[1 2]",
    b"[1:2]", b"[\"a\" \"b\"]", b"[\"\": 1]", b"[\"a\",\n4\n,1,", b"[][]", b"[]]", b"[[]", b"[}",
    b"{]", b"[\"x\"]]", b"[\"x\"", b"[3[4]]", b"[{}", b"[1,\n1\n,1", b"[*]", b"[{\"a\":1]",
    b"{\"a\":[1}", b"{\"a\"}", b"{\"a\":}", b"{\"a\":1,}", b"{\"a\":1,,}", b"{,\"a\":1}",
    b"{\"a\" 1}", b"{\"a\":1 \"b\":2}", b"{\"a\"::1}", b"{\"a\",1}", b"{:1}", b"{1:1}", b"{a:1}",
    b"{'a':1}", b"{null:null}", b"{[]:1}", b"{\"a\":1}}", b"{\"a\":1}#", b"{\"a\":1}//",
    b"{\"a\":1}/**/", b"{\"a\":/**/1}", b"{\"a\":1 x}", b"{\"a\":\"b\"}#{}", b"{\"a\":1:2}",
    b"{\"a\":a}", b"{\"a\":'b'}", b"{\"\\uD800:1}", b"{\"a", b"{\"a\"", b"{\"a\":", b"{\"a\":1",
    b"{\"a\":1,", b"{\"a\":1,\"", b"{{\"a\":1}}", b"{\"a\":1]", b"{}{}", b"{} []", b"1 2",
    b"null null", b"\"a\"\"b\"", b"1,2", b"1]", b"\"a\":1", b"<null>", b"<.>", b"[<null>]", b"(1)",
    // Literals
    b"nul", b"tru", b"fals", b"nulll", b"truee", b"True", b"NULL", b"[nul]", b"[tru]", b"[fals]",
    b"[True]", b"[nan]", b"[NaN]", b"[-NaN]", b"[Inf]", b"[Infinity]", b"[-Infinity]", b"[+Inf]",
    b"n", b"t", b"f", b"undefined", b"nu\\u006cl", b"trueFalse",
    // Numbers
    b"[01]", b"[-01]", b"[00]", b"[-00]", b"[1.]", b"[.1]", b"[-.1]", b"[0.]", b"[0.e1]", b"[1.e1]",
    b"[1e]", b"[1E]", b"[1e+]", b"[1e-]", b"[0e]", b"[0e+]", b"[1.0e]", b"[1.0e+]", b"[+1]",
    b"[++1]", b"[--1]", b"[-]", b"[- 1]", b"[-a]", b"[1a]", b"[1-2]", b"[1+2]", b"[1.2.3]",
    b"[1e2e3]", b"[1e2.3]", b"[1 000]", b"[1_000]", b"[0x1]", b"[0x42]", b"[0b1]", b"[1ea]",
    b"[0.3e]", b"[9.e+]", b"[1.2a-3]", b"[2.e3]", b"[2.e-3]", b"[.-1]", b"[.2e-3]", b"[012]",
    b"[-012]", b"[1e1.]", b"-", b"1.", b"1e", b"01", b".5", b"+5", b"1e+", b"[\xef\xbc\x91]",
    b"[0e1e]", b"1.5f", b"1L", b"[1\x00]",
    // Strings
    b"\"", b"\"a", b"[\"a]", b"[\"\\\"]", b"\"\\", b"[\"\\a\"]", b"[\"\\x00\"]", b"[\"\\0\"]",
    b"[\"\\'\"]", b"[\"\\ \"]", b"[\"\\\n\"]", b"[\"\\u\"]", b"[\"\\u1\"]", b"[\"\\u12\"]",
    b"[\"\\u123\"]", b"[\"\\u00A\"]", b"[\"\\uZZZZ\"]", b"[\"\\u 123\"]", b"[\"\\u+123\"]",
    b"[\"\\u-123\"]", b"[\"\\U0041\"]", b"[\"\\uD834\\uDd\"]", b"[\"\\uD800\\u\"]",
    b"[\"\\uD800\\u1\"]", b"[\"\\uD800\\u1x\"]", b"[\"\\uD800\\\"]", b"[\"\\\\\\\"]",
    b"[\"\\{[\"\\{[\"\\{[\"\\{", b"['a']", b"[`a`]", b"[a]", b"[\\u0020\"a\"]", b"[\"a\x00a\"]",
    b"[\"a\x01\"]", b"[\"\n\"]", b"[\"\r\"]", b"[\"\t\"]", b"[\"\x1f\"]", b"[\"new\nline\"]",
    b"\"\\u00", b"[\"\\e\"]", b"[\"\\v\"]", b"[\"\\\xe2\x82\xac\"]", b"[\"\\u00\xe2\x82\"]",
    b"\"\"x", b"\"a\" \"",
    // Characters that look like blanks, but are not blanks of JSON
    b"[\x0c]", b"[\x0b]", b"\x0c[]", b"[\xc2\xa0]", b"[\xe2\x81\xa0]", b"[\xe2\x80\xa8]", b"[]\x00",
    b"\x00[]", b"[\x00]", b"1\x00", b"{\x00}", b"\x1e{}", b"[]\x1a",
    // Invalid UTF-8: stray and missing continuation, overlong, surrogate, beyond the last plane
    b"[\"\x80\"]", b"[\"\xbf\"]", b"[\"\xc2\"]", b"[\"\xc2a\"]", b"[\"\xe0\xa0\"]",
    b"[\"\xe2\x82\"]", b"[\"\xf0\x9f\x98\"]", b"[\"\xc0\x80\"]", b"[\"\xc0\xaf\"]",
    b"[\"\xc1\xbf\"]", b"[\"\xe0\x80\xaf\"]", b"[\"\xe0\x9f\xbf\"]", b"[\"\xf0\x80\x80\xaf\"]",
    b"[\"\xf0\x8f\xbf\xbf\"]", b"[\"\xed\xa0\x80\"]", b"[\"\xed\xbf\xbf\"]",
    b"[\"\xed\xa0\xbd\xed\xb8\x80\"]", b"[\"\xf4\x90\x80\x80\"]", b"[\"\xf5\x80\x80\x80\"]",
    b"[\"\xf8\x88\x80\x80\x80\"]", b"[\"\xfe\"]", b"[\"\xff\"]", b"[\xff]", b"\xff",
    b"{\"\xff\":1}", b"{\"\xc1\xa9d\":1}", b"[\"a\xe9\"]", b"[\xe5]",
    b"[\"012345678901234567890123456789012345678901234567890123456789\xff0123456789\"]",
    // Other encodings, and marks at the wrong place
    b"\xff\xfe[\x00]\x00", b"\xfe\xff\x00[\x00]", b"[\x00\"\x00\xe9\x00\"\x00]\x00", b"\xef\xbb{}",
    b"\xbb\xbf{}", b"\xef\xbb\xbf\xef\xbb\xbf{}", b" \xef\xbb\xbf{}", b"[\xef\xbb\xbf]",
    b"{}\xef\xbb\xbf", b"\xef\xbf\xbe1",
];

// SER-01, SER-02, SER-05
#[test]
fn what_the_grammar_allows_is_accepted() {
    for text in ACCEPT {
        assert!(verdict(text), "{}", text.escape_ascii());
    }
}

// SER-01, SER-02, SER-05
#[test]
fn what_the_grammar_forbids_is_refused() {
    for text in REFUSE {
        assert!(!verdict(text), "{}", text.escape_ascii());
    }
}

// SER-05
#[test]
fn every_proper_prefix_of_a_container_is_refused() {
    for text in ACCEPT {
        let trimmed = text.trim_ascii();
        if trimmed.ends_with(b"]") || trimmed.ends_with(b"}") {
            for len in 0..trimmed.len() {
                assert!(
                    !verdict(&trimmed[..len]),
                    "{}",
                    trimmed[..len].escape_ascii()
                );
            }
        }
    }
}

// SER-02: each byte value, raw in a string, as an escape letter, and between tokens
#[test]
fn each_byte_is_judged_at_each_kind_of_place() {
    for byte in 0..=255u8 {
        for padding in [0, 1, 7, 8, 15, 16, 31, 32, 47, 100] {
            let padding = vec![b'x'; padding];
            let raw = [b"[\"", &padding[..], &[byte], &padding[..], b"\"]"].concat();
            // A quote ends the string too early; a backslash comes before an x or the last quote.
            let expected = matches!(byte, 0x20..=0x7f) && byte != b'"' && byte != b'\\';
            assert_eq!(verdict(&raw), expected, "{}", raw.escape_ascii());
            let escape = [b"[\"", &padding[..], &[b'\\', byte], &padding[..], b"\"]"].concat();
            let expected = b"\"\\/bfnrt".contains(&byte);
            assert_eq!(verdict(&escape), expected, "{}", escape.escape_ascii());
        }
        let between = [b'[', byte, b'1', byte, b']'];
        // Blanks are fine, and so are quotes, which make the 1 a string, and all digits but 0.
        let expected = b" \t\r\n\"".contains(&byte);
        let digit = byte.is_ascii_digit() && byte != b'0';
        assert_eq!(
            verdict(&between),
            expected || digit,
            "{}",
            between.escape_ascii()
        );
        let hex = [b'"', b'\\', b'u', b'0', byte, b'0', b'0', b'"'];
        assert_eq!(
            verdict(&hex),
            byte.is_ascii_hexdigit(),
            "{}",
            hex.escape_ascii()
        );
    }
}

// SER-07, MSG-05
#[test]
fn numbers_of_any_length_are_accepted() {
    let digits = "1234567890".repeat(40);
    for number in [
        digits.clone(),
        format!("-{digits}"),
        format!("0.{digits}"),
        format!("{digits}.{digits}e{digits}"),
        format!("1e-{digits}"),
    ] {
        assert!(verdict(number.as_bytes()));
        assert!(verdict(format!("{{\"id\":{number}}}").as_bytes()));
        assert!(!verdict(format!("0{number}").as_bytes()));
    }
}

// SER-06
#[test]
fn nesting_is_allowed_to_128_and_no_further() {
    let nest = |open: &str, close: &str, depth: usize| -> String {
        format!("{}{}", open.repeat(depth), close.repeat(depth))
    };
    assert!(verdict(nest("[", "]", 128).as_bytes()));
    assert!(!verdict(nest("[", "]", 129).as_bytes()));
    assert!(!verdict(nest("[", "]", 100_000).as_bytes()));
    assert!(!verdict("{\"a\":".repeat(100_000).as_bytes()));
}
