//! The serializer writes what serde_json writes, byte for byte, or refuses what serde_json refuses.
//! It also refuses what would not be valid JSON, and keys that serde_json would misread.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use proptest::collection;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant,
    SerializeTuple, SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

use super::Random;
use crate::json::{
    EncodeErrorKind, Json, OwnedJson, write_i64, write_json, write_str, write_u64, write_value,
};

/// Returns what the serializer writes after other bytes, or why it refuses the value.
fn ours<S: Serialize + ?Sized>(value: &S) -> Result<String, EncodeErrorKind> {
    let mut out = b"before".to_vec();
    let result = write_value(&mut out, value);
    assert!(out.starts_with(b"before"));
    if let Err(error) = result {
        assert_eq!(out, b"before", "a refused value leaves no trace");
        return Err(error.kind());
    }
    Ok(String::from_utf8(out.split_off(6)).unwrap())
}

fn assert_same<S: Serialize + fmt::Debug + ?Sized>(value: &S) {
    assert_eq!(
        ours(value).ok(),
        serde_json::to_string(value).ok(),
        "{value:?}"
    );
}

/// A value of serde's data model. Each variant is written by its own method of the serializer;
/// `Failing` returns an error.
#[derive(Clone, Debug)]
enum Any {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    I128(i128),
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    Char(char),
    Str(String),
    Bytes(Vec<u8>),
    Displayed(String),
    None,
    Some(Box<Any>),
    Unit,
    UnitStruct,
    UnitVariant,
    NewtypeStruct(Box<Any>),
    NewtypeVariant(Box<Any>),
    Seq(Vec<Any>),
    Tuple(Vec<Any>),
    TupleStruct(Vec<Any>),
    TupleVariant(Vec<Any>),
    Map(Vec<(Any, Any)>),
    Struct(Vec<Any>),
    StructVariant(Vec<Any>),
    Failing,
}

impl Serialize for Any {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(v) => s.serialize_bool(*v),
            Self::I8(v) => s.serialize_i8(*v),
            Self::I16(v) => s.serialize_i16(*v),
            Self::I32(v) => s.serialize_i32(*v),
            Self::I64(v) => s.serialize_i64(*v),
            Self::I128(v) => s.serialize_i128(*v),
            Self::U8(v) => s.serialize_u8(*v),
            Self::U16(v) => s.serialize_u16(*v),
            Self::U32(v) => s.serialize_u32(*v),
            Self::U64(v) => s.serialize_u64(*v),
            Self::U128(v) => s.serialize_u128(*v),
            Self::F32(v) => s.serialize_f32(*v),
            Self::F64(v) => s.serialize_f64(*v),
            Self::Char(v) => s.serialize_char(*v),
            Self::Str(v) => s.serialize_str(v),
            Self::Bytes(v) => s.serialize_bytes(v),
            Self::Displayed(v) => s.collect_str(&format_args!("<{v}\n{v}>")),
            Self::None => s.serialize_none(),
            Self::Some(v) => s.serialize_some(v),
            Self::Unit => s.serialize_unit(),
            Self::UnitStruct => s.serialize_unit_struct("UnitStruct"),
            Self::UnitVariant => s.serialize_unit_variant("Enum", 1, "uni\"t"),
            Self::NewtypeStruct(v) => s.serialize_newtype_struct("Newtype", v),
            Self::NewtypeVariant(v) => s.serialize_newtype_variant("Enum", 2, "new\ntype", v),
            Self::Seq(items) => {
                let mut seq = s.serialize_seq(None)?;
                for item in items {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Tuple(items) => {
                let mut tuple = s.serialize_tuple(items.len())?;
                for item in items {
                    tuple.serialize_element(item)?;
                }
                tuple.end()
            }
            Self::TupleStruct(items) => {
                let mut tuple = s.serialize_tuple_struct("Tuple", items.len())?;
                for item in items {
                    tuple.serialize_field(item)?;
                }
                tuple.end()
            }
            Self::TupleVariant(items) => {
                let mut tuple = s.serialize_tuple_variant("Enum", 3, "tuple", items.len())?;
                for item in items {
                    tuple.serialize_field(item)?;
                }
                tuple.end()
            }
            Self::Map(items) => {
                let mut map = s.serialize_map(None)?;
                for (at, (key, value)) in items.iter().enumerate() {
                    if at % 2 == 0 {
                        map.serialize_entry(key, value)?;
                    } else {
                        map.serialize_key(key)?;
                        map.serialize_value(value)?;
                    }
                }
                map.end()
            }
            Self::Struct(items) => {
                let mut fields = s.serialize_struct("Struct", items.len())?;
                for item in items {
                    fields.serialize_field("fié\"ld", item)?;
                }
                fields.end()
            }
            Self::StructVariant(items) => {
                let mut fields = s.serialize_struct_variant("Enum", 4, "struct", items.len())?;
                for item in items {
                    fields.serialize_field("field", item)?;
                }
                fields.end()
            }
            Self::Failing => Err(S::Error::custom("it refused")),
        }
    }
}

fn scalar() -> impl Strategy<Value = Any> {
    prop_oneof![
        any::<bool>().prop_map(Any::Bool),
        any::<i8>().prop_map(Any::I8),
        any::<i16>().prop_map(Any::I16),
        any::<i32>().prop_map(Any::I32),
        any::<i64>().prop_map(Any::I64),
        any::<i128>().prop_map(Any::I128),
        any::<u8>().prop_map(Any::U8),
        any::<u16>().prop_map(Any::U16),
        any::<u32>().prop_map(Any::U32),
        any::<u64>().prop_map(Any::U64),
        any::<u128>().prop_map(Any::U128),
        any::<u32>().prop_map(|bits| Any::F32(finite(f32::from_bits(bits), f32::is_finite))),
        any::<u64>().prop_map(|bits| Any::F64(finite(f64::from_bits(bits), f64::is_finite))),
        any::<i16>().prop_map(|n| Any::F64(f64::from(n) / 8.0)),
        any::<i16>().prop_map(|n| Any::F32(f32::from(n) / 10.0)),
        any::<char>().prop_map(Any::Char),
        any::<String>().prop_map(Any::Str),
        "[\\x00-\\x7f]{0,40}".prop_map(Any::Str),
        "[\\x00-\\x7f]{0,9}".prop_map(Any::Displayed),
        collection::vec(any::<u8>(), 0..5).prop_map(Any::Bytes),
        Just(Any::None),
        Just(Any::Unit),
        Just(Any::UnitStruct),
        Just(Any::UnitVariant),
    ]
}

/// Another number for one that has no JSON form, for which serde_json writes `null`.
fn finite<N: Copy + Default>(n: N, is_finite: fn(N) -> bool) -> N {
    if is_finite(n) { n } else { N::default() }
}

fn tree() -> impl Strategy<Value = Any> {
    scalar().prop_recursive(5, 60, 5, |inner| {
        let some = collection::vec(inner.clone(), 0..5);
        let boxed = inner.clone().prop_map(Box::new);
        // Most keys are allowed ones: a map with any other is refused, so its values are not
        // compared.
        let key = prop_oneof![
            6 => any::<String>().prop_map(Any::Str),
            1 => any::<i64>().prop_map(Any::I64),
            1 => any::<u128>().prop_map(Any::U128),
            1 => any::<i16>().prop_map(|n| Any::F64(f64::from(n) / 4.0)),
            1 => scalar(),
            1 => scalar().prop_map(|key| Any::NewtypeStruct(Box::new(Any::Some(Box::new(key))))),
        ];
        prop_oneof![
            some.clone().prop_map(Any::Seq),
            some.clone().prop_map(Any::Tuple),
            some.clone().prop_map(Any::TupleStruct),
            some.clone().prop_map(Any::TupleVariant),
            some.clone().prop_map(Any::Struct),
            some.prop_map(Any::StructVariant),
            collection::vec((key, inner), 0..4).prop_map(Any::Map),
            boxed.clone().prop_map(Any::Some),
            boxed.clone().prop_map(Any::NewtypeStruct),
            boxed.prop_map(Any::NewtypeVariant),
        ]
    })
}

proptest! {
    // SER-01, SER-10, SER-11
    #[test]
    fn any_value_is_written_as_serde_json_writes_it(value in tree()) {
        assert_same(&value);
    }

    // SER-11
    #[test]
    fn any_map_key_is_written_or_refused_as_by_serde_json(key in tree()) {
        assert_same(&Any::Map([(key, Any::Unit)].into()));
    }

    #[test]
    fn what_is_written_is_valid_and_reads_back(value in tree()) {
        if let Ok(text) = ours(&value) {
            let read = Json::parse_str(&text).unwrap().decode::<serde_json::Value>();
            assert_eq!(read.unwrap(), serde_json::from_str::<serde_json::Value>(&text).unwrap());
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "type")]
enum Tagged {
    Plain,
    Fields { a: u8 },
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Untagged {
    Text(&'static str),
    Pair(i8, f32),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Derived {
    some_field: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u8>,
    #[serde(flatten)]
    flat: BTreeMap<&'static str, Untagged>,
    tagged: [Tagged; 2],
    unit: (),
    #[serde(rename = "ключ\n")]
    renamed: char,
}

// SER-11, SER-12
#[test]
fn derived_types_are_written_as_by_serde_json() {
    let flat = [("x", Untagged::Text("t")), ("y", Untagged::Pair(-1, 0.5))];
    let value = Derived {
        some_field: None,
        skipped: None,
        flat: flat.into(),
        tagged: [Tagged::Plain, Tagged::Fields { a: 1 }],
        unit: (),
        renamed: '\u{1}',
    };
    assert_same(&value);
    assert_same(&core::net::IpAddr::from([127, 0, 0, 1]));
    assert_same(
        &serde_json::json!({"a": [1, -2, 2.5, null, {"b": "\u{7f}\u{80}"}], "c": u64::MAX}),
    );
}

#[test]
fn each_character_is_escaped_as_by_serde_json() {
    for code_point in (0..0x300).chain(0xd700..0xe100).chain(0xfff0..0x1_0010) {
        let Some(character) = char::from_u32(code_point) else {
            continue;
        };
        for padding in ["", "x", "0123456789abcdef0123456789abcdef0123456"] {
            let text = format!("{padding}{character}{padding}{character}");
            let mut out = Vec::new();
            write_str(&mut out, &text);
            assert_eq!(out, serde_json::to_vec(&text).unwrap());
        }
    }
}

#[test]
fn a_string_of_any_length_is_escaped_wherever_it_has_to_be() {
    let check = |text: &str| {
        let mut out = Vec::new();
        write_str(&mut out, text);
        assert_eq!(out, serde_json::to_vec(text).unwrap());
    };
    for len in 0..150 {
        let plain = "~".repeat(len);
        check(&plain);
        for at in 0..len {
            for stop in ["\"", "\\", "\u{1f}"] {
                // If a mark carried over to the bytes after a stop, spaces there would be escaped.
                let rest = " ".repeat(len - at - 1);
                check(&format!("{}{stop}{rest}", &plain[..at]));
            }
        }
        check(&"!#[]\u{7f}".repeat(len / 4));
    }
}

#[test]
fn integers_are_written_in_decimal() {
    let check = |n: u64| {
        let mut out = Vec::new();
        write_u64(&mut out, n);
        assert_eq!(out, format!("{n}").into_bytes());
        out.clear();
        write_i64(&mut out, n as i64);
        assert_eq!(out, format!("{}", n as i64).into_bytes());
        for wide in [
            u128::from(n),
            u128::from(n) << 64 | u128::from(n),
            u128::from(n) * 10_u128.pow(19),
        ] {
            assert_eq!(ours(&wide).unwrap(), format!("{wide}"));
            assert_eq!(ours(&(wide as i128)).unwrap(), format!("{}", wide as i128));
        }
    };
    for power in 0..20 {
        let n = 10u64.pow(power);
        check(n - 1);
        check(n);
        check(n + 1);
    }
    for bits in 0..64 {
        check(u64::MAX >> bits);
        check(1 << bits);
    }
    (0..1000).for_each(check);
    check(0);
    assert_same(&[i128::MIN, i128::MAX]);
    assert_same(&[u128::MIN, u128::MAX, 10u128.pow(38), 10u128.pow(38) - 1]);
}

#[test]
fn floats_are_written_as_by_serde_json() {
    let same = |n: f64, out: &mut Vec<u8>| {
        let n = finite(n, f64::is_finite);
        out.clear();
        write_value(out, &n).unwrap();
        assert_eq!(*out, serde_json::to_vec(&n).unwrap(), "{n:e}");
        out.clear();
        let n = finite(n as f32, f32::is_finite);
        write_value(out, &n).unwrap();
        assert_eq!(*out, serde_json::to_vec(&n).unwrap(), "{n:e}");
    };
    let mut out = Vec::new();
    for exponent in -330..=310 {
        for digits in [
            "1",
            "9.999999999999999",
            "1.5",
            "1.2345678901234567",
            "1.2345678",
            "2.5",
            "-7",
        ] {
            same(format!("{digits}e{exponent}").parse().unwrap(), &mut out);
        }
    }
    let edges = [
        0.0,
        -0.0,
        f64::MIN_POSITIVE,
        f64::MAX,
        f64::MIN,
        f64::EPSILON,
        5e-324,
        9007199254740993.0,
    ];
    edges.into_iter().for_each(|n| same(n, &mut out));
    for bits in 0..2046u64 {
        // Powers of two: the gap below is half the gap above.
        same(f64::from_bits(bits << 52), &mut out);
    }
    for odd in (1..400).step_by(2) {
        // Halfway between two decimals, where there is a choice.
        for power in 1..80 {
            same(f64::from(odd) * 0.5f64.powi(power), &mut out);
        }
    }
    let mut random = Random::new(3);
    for _ in 0..60_000 {
        same(f64::from_bits(random.next()), &mut out);
        same((random.next() >> 20) as f64 / 1000.0, &mut out);
        let narrow = finite(f32::from_bits(random.next() as u32), f32::is_finite);
        assert_eq!(
            ours(&narrow).unwrap(),
            serde_json::to_string(&narrow).unwrap(),
            "{narrow:e}"
        );
    }
}

// SER-15
#[test]
fn non_finite_floats_have_no_json_form() {
    for n in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(ours(&[1.0, n]), Err(EncodeErrorKind::NotFinite));
        assert_eq!(ours(&(n as f32)), Err(EncodeErrorKind::NotFinite));
    }
    let map = Any::Map([(Any::F64(f64::NAN), Any::Unit)].into());
    assert_eq!(ours(&map), Err(EncodeErrorKind::KeyNotFinite));
}

// SER-14
#[test]
fn a_failure_deep_inside_leaves_no_trace() {
    let deep = Any::Seq(
        [
            Any::I8(1),
            Any::Struct([Any::Str("x".into()), Any::Failing].into()),
        ]
        .into(),
    );
    assert_eq!(ours(&deep), Err(EncodeErrorKind::Custom));
    let key = Any::Map([(Any::Seq(Vec::new()), Any::Unit)].into());
    assert_eq!(ours(&key), Err(EncodeErrorKind::KeyNotString));
    let error = write_value(&mut Vec::new(), &Any::Failing).unwrap_err();
    assert_eq!(
        (error.message(), format!("{error}").as_str()),
        ("it refused", "it refused")
    );
}

#[test]
fn a_panic_in_the_value_leaves_no_trace() {
    struct Panicking;
    impl Serialize for Panicking {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut seq = s.serialize_seq(None)?;
            seq.serialize_element(&1)?;
            std::panic::resume_unwind(Box::new(()))
        }
    }
    let mut out = b"before".to_vec();
    let attempt = || write_value(&mut out, &Panicking).is_ok();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(attempt));
    assert!(caught.is_err());
    assert_eq!(out, b"before");
}

/// Breaks serde's rules in one of several ways.
#[derive(Debug)]
struct Rude(u8);

impl Serialize for Rude {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        match self.0 {
            0 => map.serialize_key("lonely")?,
            1 => map.serialize_value(&1)?,
            2 => {
                map.serialize_key("a")?;
                let _ = map.serialize_key("b");
                let _ = map.serialize_value(&1);
            }
            3 => drop(map.serialize_entry("a", &Any::Seq([Any::Failing].into()))),
            _ => drop(map.serialize_entry(&Any::Unit, &1)),
        }
        map.end()
    }
}

#[test]
fn values_that_break_the_rules_never_become_invalid_text() {
    for way in 0..5 {
        let error = ours(&Rude(way)).unwrap_err();
        assert!(
            matches!(error, EncodeErrorKind::OutOfOrder | EncodeErrorKind::Custom),
            "{error:?}"
        );
        assert!(ours(&[Rude(way)]).is_err());
    }
}

/// A text as it is written by serde_json's private types: as the one field of a struct, where
/// struct and field have the same name.
struct Raw(&'static str, &'static str);

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut raw = s.serialize_struct(self.0, 1)?;
        raw.serialize_field(self.0, self.1)?;
        raw.end()
    }
}

const RAW: &str = "$serde_json::private::RawValue";
const NUMBER: &str = "$serde_json::private::Number";

// SER-07, SER-13: only line breaks become blanks, and blanks around a text are cut off
#[test]
fn text_that_is_json_already_is_inserted_verbatim() {
    let value = Json::parse_str("{\"a\": 1.0e2, \"b\":\"\\u0041\"}").unwrap();
    assert_eq!(
        ours(&[value]).unwrap(),
        "[{\"a\": 1.0e2, \"b\":\"\\u0041\"}]"
    );
    assert_eq!(ours(&Some(OwnedJson::from(value))).unwrap(), value.as_str());
    let broken = Json::parse_str("[1,\r\n\"\\n\"]").unwrap();
    assert_eq!(ours(&(0, broken)).unwrap(), "[0,[1,  \"\\n\"]]");
    assert_eq!(ours(&Raw(RAW, " [1] ")).unwrap(), "[1]");
    assert_eq!(ours(&Raw(NUMBER, "1e+400")).unwrap(), "1e+400");
}

#[test]
fn text_that_only_claims_to_be_json_is_refused() {
    for text in ["", "1 2", "[", "\"\n\"", "nul", "1,2"] {
        assert_eq!(
            ours(&[Raw(RAW, text)]),
            Err(EncodeErrorKind::InvalidText),
            "{text}"
        );
        assert_eq!(
            ours(&[Raw(NUMBER, text)]),
            Err(EncodeErrorKind::InvalidText),
            "{text}"
        );
    }
    for text in ["\"1\"", "null", "[1]", "NaN", "0x1"] {
        assert_eq!(
            ours(&Raw(NUMBER, text)),
            Err(EncodeErrorKind::InvalidText),
            "{text}"
        );
    }
    struct Odd(bool);
    impl Serialize for Odd {
        fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
            let mut raw = s.serialize_struct(RAW, 1)?;
            if self.0 {
                raw.serialize_field(RAW, &17)?;
            }
            raw.end()
        }
    }
    assert_eq!(ours(&Odd(true)), Err(EncodeErrorKind::InvalidText));
    assert_eq!(ours(&Odd(false)), Err(EncodeErrorKind::OutOfOrder));
}

// USE-16
#[test]
fn keys_by_which_serde_json_would_read_another_document_are_not_written() {
    for key in [
        RAW,
        NUMBER,
        "$serde_json::private::",
        "$serde_json::private::x",
    ] {
        let map = BTreeMap::from([(key, 1)]);
        assert_eq!(ours(&map), Err(EncodeErrorKind::ReservedKey), "{key}");
        let tree = serde_json::Value::from_iter([(key, "1")]);
        assert_eq!(
            ours(&[(1, tree)]),
            Err(EncodeErrorKind::ReservedKey),
            "{key}"
        );
        let text = format!("[{{\"a\":1,\"\\u0024{}\":1}}]", &key[1..]);
        let raw = Json::parse_str(&text).unwrap();
        assert_eq!(ours(&[raw]), Err(EncodeErrorKind::ReservedKey), "{key}");
        // Anywhere but in a key, the text has no meaning.
        assert!(ours(&[key]).is_ok());
    }
    for harmless in [
        "$serde_json:private::",
        "$",
        "$ref",
        "x$serde_json::private::RawValue",
    ] {
        assert!(ours(&BTreeMap::from([(harmless, 1)])).is_ok(), "{harmless}");
    }
}

// SER-09
#[test]
fn written_json_fits_on_one_line() {
    let mut out = b"\n".to_vec();
    write_json(&mut out, Json::parse_str("{\n\"a\\n\":\r\n1}").unwrap());
    assert_eq!(out, b"\n{ \"a\\n\":  1}");
}
