use super::{HashOfBytes, Id, IdScheme, OwnedId};
use crate::json::Json;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

fn id(text: &str) -> Id<'_> {
    Id::new(Json::parse_str(text).unwrap()).unwrap()
}

fn normal(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    id(text).normal_form(&mut out);
    out
}

#[test]
fn a_number_is_read_as_it_is_spelled_and_nothing_else_is_one() {
    let naive = |text: &str| {
        let is_plain = text.len() == 1 || !text.starts_with('0');
        let is_number = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten()
    };
    // The powers of ten, the numbers beside them, and for each one number of mixed digits.
    let powers = (0..16).map(|zeros| 10_u64.pow(zeros));
    for number in powers.flat_map(|power| [power - 1, power, power + 1, power * 9 + power / 7]) {
        let text = alloc::format!("{number}");
        if text.len() <= 16 {
            assert_eq!(super::read_canonical(text.as_bytes()), Some(number));
        }
        for at in 0..text.len() {
            for byte in 0..=0x7f {
                let mut other = text.clone().into_bytes();
                other[at] = byte;
                let other = alloc::string::String::from_utf8(other).unwrap();
                let expected = naive(&other).filter(|_| other.len() <= 16);
                assert_eq!(super::read_canonical(other.as_bytes()), expected, "{other}");
            }
            for byte in 0x80..=0xff {
                let mut other = text.clone().into_bytes();
                other[at] = byte;
                assert_eq!(super::read_canonical(&other), None);
            }
        }
    }
    assert_eq!(super::read_canonical(b""), None);
}

// MSG-06
#[test]
fn ids_compare_by_type_and_exact_value() {
    let classes: &[&[&str]] = &[
        &[
            "1", "1.0", "1e0", "10e-1", "0.1e1", "1.000", "1E+0", "0.01e2",
        ],
        &["-1", "-1.0", "-10e-1"],
        &[
            "0",
            "-0",
            "0.0",
            "0e5",
            "-0.00e-7",
            "0e999999999999999999999999999999999999999999",
        ],
        &["1.9"],
        &["1.1"],
        &["18446744073709551616", "18446744073709551616.0"],
        &["18446744073709551615"],
        &["1e400", "10e399"],
        &["1e999999999999", "0.1e1000000000000"],
        &["\"1\"", "\"\\u0031\""],
        &["\"1.0\""],
        &["\"\""],
        &["\"\\ud83d\\ude00\"", "\"😀\""],
        &["\"\\ud83d\"", "\"\\uD83D\""],
        &["null"],
        &["true"],
        &["false"],
    ];
    for (i, left) in classes.iter().enumerate() {
        for (j, right) in classes.iter().enumerate() {
            for a in *left {
                for b in *right {
                    assert_eq!(id(a) == id(b), i == j, "{a} and {b}");
                    assert_eq!(normal(a) == normal(b), i == j, "{a} and {b}");
                    if i == j {
                        assert_eq!(id(a).value_hash(), id(b).value_hash(), "{a} and {b}");
                    }
                }
            }
        }
    }
}

// MSG-06 SEC-11
#[test]
fn an_exponent_beyond_all_bounds_equals_its_own_spelling_only() {
    // As numbers the two are equal, but their exponents are too large to be compared.
    let huge = "1e99999999999999999999999999999999999999999999999999";
    let huger = "10e99999999999999999999999999999999999999999999999998";
    assert_eq!(id(huge), id(huge));
    assert_ne!(id(huge), id(huger));
}

// MSG-29
#[test]
fn ids_convert_and_print() {
    assert_eq!(OwnedId::from(7).as_id(), id("7.0"));
    assert_eq!(OwnedId::from("a\"b").as_id().text(), "\"a\\\"b\"");
    assert_eq!(alloc::format!("{}", Id::NULL), "null");
    assert_eq!(id("3e0").as_u64(), Some(3));
    assert_eq!(id("\"3\"").as_u64(), None);
    assert_eq!(id("18446744073709551616").as_u64(), None);
    assert_eq!(id("18446744073709551615").as_u64(), Some(u64::MAX));
}

// CLI-04
#[test]
fn every_scheme_reads_back_what_it_writes_and_nothing_else() {
    let schemes = [
        IdScheme::Sequential,
        IdScheme::Prefixed("srv-"),
        IdScheme::Uuid([0xab; 10]),
    ];
    for scheme in schemes {
        for number in [0, 1, 9, 10, 99, 12_345, scheme.max_number()] {
            let mut text = Vec::new();
            scheme.write(number, &mut text);
            assert_eq!(scheme.read(Json::parse(&text).unwrap()), Some(number));
        }
    }
    let read = |scheme: IdScheme, text: &str| scheme.read(Json::parse_str(text).unwrap());
    assert_eq!(read(IdScheme::Sequential, "7.0"), Some(7));
    assert_eq!(read(IdScheme::Sequential, "\"7\""), None);
    assert_eq!(read(IdScheme::Sequential, "true"), None);
    assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-7\""), Some(7));
    assert_eq!(read(IdScheme::Prefixed("srv-"), "\"\\u0073rv-7\""), Some(7));
    assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-07\""), None);
    assert_eq!(read(IdScheme::Prefixed("srv-"), "\"srv-\""), None);
    assert_eq!(read(IdScheme::Prefixed("srv-"), "7"), None);
    let uuid = IdScheme::Uuid([0xab; 10]);
    assert_eq!(
        read(uuid, "\"abababab-abab-4bab-abab-00000000000f\""),
        Some(15)
    );
    assert_eq!(read(uuid, "\"ABABABAB-abab-4bab-abab-00000000000f\""), None);
    assert_eq!(read(uuid, "\"abababab-abab-4bab-abab-00000000000F\""), None);
}

/// Returns how many of 4096 buckets have one of these ids.
fn spread(ids: impl Iterator<Item = String>) -> usize {
    let mut buckets: Vec<u32> = ids.map(|text| id(&text).value_hash() % 4096).collect();
    buckets.sort_unstable();
    buckets.dedup();
    buckets.len()
}

// SEC-11
#[test]
fn ids_that_differ_little_are_spread_wherever_they_differ() {
    // 4096 random ids would be in about 2589 of the 4096 buckets; a few less are allowed.
    let (ids, least) = (0..4096u64, 2300);
    for distance in [1, 2, 1000, 4096, 1 << 31] {
        let spread = spread(ids.clone().map(|n| format!("{}", n * distance)));
        assert!(spread >= least, "{spread} of numbers {distance} apart");
    }
    for before in [
        "",
        "a",
        "req-",
        "call-",
        "client-0007/",
        "a/prefix/that/is/not/short/",
    ] {
        for behind in ["", "z", "/done", "-behind-it"] {
            let spread = spread(ids.clone().map(|n| format!("\"{before}{n}{behind}\"")));
            assert!(spread >= least, "{spread} of \"{before}N{behind}\"");
        }
    }
}

#[test]
fn a_hash_does_not_depend_on_how_the_bytes_were_handed_over() {
    let bytes: Vec<u8> = (1..=40).collect();
    for len in 0..bytes.len() {
        let hash_of = |parts: &[&[u8]]| {
            let mut hash = HashOfBytes::default();
            parts.iter().for_each(|part| hash.push(part));
            hash.finish()
        };
        let whole = &bytes[..len];
        let one_by_one: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(hash_of(&[whole]), hash_of(&one_by_one), "{len}");
        for at in 0..len {
            let (head, tail) = whole.split_at(at);
            assert_eq!(hash_of(&[whole]), hash_of(&[head, tail]), "{at} of {len}");
        }
    }
}

#[test]
fn every_byte_of_an_id_counts_in_its_hash() {
    let text: String = ('a'..='z').collect();
    let mut hashes: Vec<u32> = (0..=text.len())
        .map(|at| {
            let mut text = text.clone();
            if at < text.len() {
                text.replace_range(at..=at, "_");
            }
            id(&format!("\"{text}\"")).value_hash()
        })
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), text.len() + 1);
}

#[test]
fn a_lone_surrogate_stands_in_the_normal_form_as_its_three_bytes() {
    assert_eq!(normal("\"\\ud800\""), b"\xed\xa0\x80\"");
    assert_eq!(normal("\"a\\udbff.\""), b"a\xed\xaf\xbf.\"");
    assert_eq!(normal("\"\\udc05\""), b"\xed\xb0\x85\"");
    assert_eq!(normal("\"\\udfff\""), b"\xed\xbf\xbf\"");
}

// CAN-07
#[test]
fn a_string_and_a_number_have_the_same_text_or_not() {
    assert!(id("\"7\"").same_text(&id("7")));
    assert!(id("7").same_text(&id("7")));
    assert!(!id("\"7\"").same_text(&id("7.0")));
    assert!(!id("\"7\"").same_text(&id("8")));
}
