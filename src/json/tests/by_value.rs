//! The reader of small programs reads every text as serde_json reads it, and refuses those that serde_json refuses.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

use proptest::prelude::*;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::json::by_value::ByValue;
use crate::json::fault::Misfit;
use crate::json::{Json, has_whole_float};

#[derive(Debug, PartialEq, PartialOrd, Eq, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kinds {
    Unit,
    New(i16),
    Tuple(u8, String),
    Struct { a: Option<bool>, b: char },
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(i64),
    Float(f64),
    Text(String),
    List(Vec<Either>),
    Nothing,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Tagged {
    Unit,
    New { a: u8 },
}

#[derive(Debug, PartialEq, Deserialize)]
struct Deep {
    #[serde(default)]
    kinds: Vec<Kinds>,
    #[serde(rename = "7")]
    by_number: BTreeMap<i32, f32>,
    #[serde(flatten)]
    rest: BTreeMap<String, Either>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain<'a> {
    a: Option<i8>,
    #[serde(borrow)]
    b: Option<&'a str>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Nothing;

#[derive(Debug, PartialEq, PartialOrd, Eq, Ord, Deserialize)]
struct Wrapped(u8);

#[derive(Debug, PartialEq, Deserialize)]
struct Pair(i64, Option<f64>);

#[derive(Debug, PartialEq)]
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.into()))
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                mut all: A,
            ) -> Result<Bytes, A::Error> {
                let mut bytes = Vec::new();
                while let Some(byte) = all.next_element()? {
                    bytes.push(byte);
                }
                Ok(Bytes(bytes))
            }
        }
        from.deserialize_bytes(Visitor)
    }
}

/// Compares with `Json::decode`, and with serde_json unless integers are floats for it; returns whether the type has read the text.
fn reads_alike<'t, T: Deserialize<'t> + PartialEq + Debug>(text: &'t str) -> bool {
    let json = Json::parse_str(text).unwrap();
    let ours = T::deserialize(&mut ByValue::<Misfit>::of(json)).ok();
    // `-0` and a number that is all of the text are integers here also where serde sets them aside.
    let is_noted = json.flags().has_whole_float() && text.starts_with(['[', '{']);
    let is_same = is_noted || !has_whole_float(json);
    if is_same {
        let other = json.decode::<T>().ok();
        assert_eq!(ours, other, "{text} as {}", core::any::type_name::<T>());
    }
    if !has_whole_float(json) {
        assert_eq!(ours, serde_json::from_str(text).ok(), "{text}");
    }
    ours.is_some()
}

/// How many types have read the text, with and without blanks wherever they may stand.
fn all_read_alike(text: &str) -> usize {
    let (mut spaced, mut is_string, mut is_escaped) = (String::new(), false, false);
    for letter in text.chars() {
        match !is_string && "{}[]:,".contains(letter) {
            true => spaced.extend([' ', letter, '\n']),
            false => spaced.push(letter),
        }
        is_string ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && !is_escaped;
    }
    let all = [text, &spaced].map(|text| {
        [
            reads_alike::<bool>(text),
            reads_alike::<i8>(text),
            reads_alike::<u8>(text),
            reads_alike::<i32>(text),
            reads_alike::<u64>(text),
            reads_alike::<i64>(text),
            reads_alike::<u128>(text),
            reads_alike::<i128>(text),
            reads_alike::<f32>(text),
            reads_alike::<f64>(text),
            reads_alike::<char>(text),
            reads_alike::<String>(text),
            reads_alike::<&str>(text),
            reads_alike::<()>(text),
            reads_alike::<Bytes>(text),
            reads_alike::<Option<u8>>(text),
            reads_alike::<Option<Option<i64>>>(text),
            reads_alike::<(u8, u8)>(text),
            reads_alike::<(u8, String)>(text),
            reads_alike::<(u128, i128)>(text),
            reads_alike::<Vec<i128>>(text),
            reads_alike::<[i64; 2]>(text),
            reads_alike::<Vec<u8>>(text),
            reads_alike::<Vec<Option<Vec<u8>>>>(text),
            reads_alike::<BTreeMap<String, u8>>(text),
            reads_alike::<BTreeMap<&str, IgnoredAny>>(text),
            reads_alike::<BTreeMap<u8, IgnoredAny>>(text),
            reads_alike::<BTreeMap<i64, Value>>(text),
            reads_alike::<BTreeMap<u128, IgnoredAny>>(text),
            reads_alike::<BTreeMap<bool, IgnoredAny>>(text),
            reads_alike::<BTreeMap<char, IgnoredAny>>(text),
            reads_alike::<BTreeMap<Option<Wrapped>, IgnoredAny>>(text),
            reads_alike::<BTreeMap<Kinds, IgnoredAny>>(text),
            reads_alike::<BTreeMap<(), IgnoredAny>>(text),
            reads_alike::<Kinds>(text),
            reads_alike::<Vec<Kinds>>(text),
            reads_alike::<Either>(text),
            reads_alike::<Tagged>(text),
            reads_alike::<Deep>(text),
            reads_alike::<Plain<'_>>(text),
            reads_alike::<Nothing>(text),
            reads_alike::<Wrapped>(text),
            reads_alike::<Pair>(text),
            reads_alike::<Value>(text),
            reads_alike::<IgnoredAny>(text),
        ]
    });
    all.as_flattened()
        .iter()
        .filter(|&&is_read| is_read)
        .count()
}

const SCALARS: [&str; 54] = [
    "null",
    "true",
    "false",
    "0",
    "7",
    "-7",
    "255",
    "256",
    "-129",
    "65536",
    "4294967296",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "170141183460469231731687303715884105728",
    "-170141183460469231731687303715884105729",
    "340282366920938463463374607431768211456",
    "0.5",
    "-1.25e-3",
    "3.4028236e38",
    "1e-400",
    "123456789012345678901234567890.5",
    "1.0",
    "-0",
    "-0.0",
    "2e2",
    "1e400",
    "1.0e0",
    "20e-1",
    r#""""#,
    r#""a""#,
    r#""b""#,
    r#""\u00e9\n""#,
    r#""\ud83d\ude00""#,
    r#""\ud800""#,
    r#""unit""#,
    r#""u\u006eit""#,
    r#""new""#,
    r#""tuple""#,
    r#""struct""#,
    r#""7""#,
    r#""-7""#,
    r#""-0""#,
    r#""07""#,
    r#""7 ""#,
    r#"" 7""#,
    r#""1.5""#,
    r#""1.0""#,
    r#""1e400""#,
    r#""true""#,
    r#""null""#,
];

const KEYS: [&str; 26] = [
    r#""a""#,
    r#""b""#,
    r#""c""#,
    r#""7""#,
    r#""7 ""#,
    r#""07""#,
    r#""-7""#,
    r#""-0""#,
    r#""0""#,
    r#""256""#,
    r#""1.0""#,
    r#""1.5""#,
    r#""1e2""#,
    r#""-""#,
    r#""\u0037""#,
    r#""true""#,
    r#""false""#,
    r#""null""#,
    r#""unit""#,
    r#""new""#,
    r#""tuple""#,
    r#""struct""#,
    r#""kind""#,
    r#""kinds""#,
    r#""\ud800""#,
    r#""340282366920938463463374607431768211455""#,
];

// SER-07
#[test]
fn values_are_read_as_serde_json_reads_them() {
    let mut read = 0;
    for scalar in SCALARS {
        for text in [
            scalar.into(),
            format!("[{scalar}]"),
            format!("[1,{scalar}]"),
        ] {
            read += all_read_alike(&text);
        }
        for key in KEYS {
            read += all_read_alike(&format!("{{{key}:{scalar}}}"));
        }
    }
    for text in [
        "[]",
        "{}",
        "[[],[null]]",
        "[1,2,3]",
        r#"{"tuple":[1,"t"]}"#,
        r#"{"tuple":[1,"t",2]}"#,
        r#"{"tuple":{"0":1}}"#,
        r#"{"struct":{"a":null,"b":"c"}}"#,
        r#"{"struct":{"b":"\u00e9"}}"#,
        r#"{"struct":{"b":"long"}}"#,
        r#"{"struct":[true,"b"]}"#,
        r#"{"new":3,"unit":null}"#,
        r#"{"7":{"1":0.5,"-2":1.5}}"#,
        r#"{"7":{"x":0.5}}"#,
        r#"{"7":{},"more":[1,"a",null]}"#,
        r#"{"kinds":["unit",{"new":1}],"7":{},"x":-5,"y":18446744073709551616}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":{"b":{"c":[]}}}"#,
        r#"{"kind":"new","a":1}"#,
        r#"{"a":1,"kind":"new","c":[{}]}"#,
        r#"["new",1]"#,
    ] {
        read += all_read_alike(text);
    }
    assert!(read >= 5000, "{read}");
    // A reader that stops at the point reads no number.
    let cut = Json::parse_str("[1.5,1.0]").unwrap();
    assert!(cut.decode::<(i128, f64)>().is_err());
}

fn texts() -> impl Strategy<Value = String> {
    let scalars = prop::sample::select(&SCALARS[..]).prop_map(String::from);
    scalars.prop_recursive(4, 24, 4, |inner| {
        let member = (prop::sample::select(&KEYS[..]), inner.clone());
        let members = prop::collection::vec(member, 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
            members.prop_map(|all| {
                let all = all.iter().map(|(key, value)| format!("{key}:{value}"));
                format!("{{{}}}", all.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

proptest! {
    // SER-07
    #[test]
    fn texts_of_any_shape_are_read_as_serde_json_reads_them(text in texts()) {
        all_read_alike(&text);
    }
}

// USE-49
#[test]
fn the_reader_knows_where_a_value_did_not_fit() {
    for (text, offset) in [
        (r#"{"b":"x", "a":300}"#, 17),
        (r#"{"c":1}"#, 4),
        ("[1]", 2),
        ("true", 0),
    ] {
        let mut reader = ByValue::<Misfit>::of(Json::parse_str(text).unwrap());
        Plain::deserialize(&mut reader).unwrap_err();
        assert_eq!(reader.offset(), offset, "{text}");
    }
}
