//! Invariant: the scanner accepts what an independent reader and serde_json accept, and finds the same spans, names and ids as they do.

use std::collections::BTreeMap;
use std::fmt::Write;

use antiphon::{Id, Json, JsonKind, JsonString, OwnedJson, SyntaxErrorKind};

use crate::naive::{self, Kind, Node};

/// How many brackets may be open at once in a text.
const MAX_DEPTH: usize = 128;

/// What the scanner says; the planted fault takes a lone leading surrogate in a name for a mistake.
fn read(data: &[u8]) -> Option<Json<'_>> {
    let read = Json::parse(data);
    if let Err(error) = &read {
        assert!(error.offset() <= data.len(), "{error}");
        let mut said = String::new();
        write!(said, "{error} {error:?}").expect("a string takes all");
        assert!(said.contains(error.kind().as_str()));
    }
    let json = read.ok()?;
    let is_half = |(name, _): (JsonString<'_>, Json<'_>)| {
        name.code_points()
            .any(|point| (0xD800..0xDC00).contains(&point))
    };
    (!(crate::PLANTED && json.members().any(is_half))).then_some(json)
}

pub fn run(data: &[u8]) {
    let ours = read(data);
    let reference = naive::parse(data, MAX_DEPTH);
    assert_eq!(
        ours.is_some(),
        reference.is_some(),
        "ours and the reference"
    );
    by_serde_json(data, ours.is_some());
    let (Some(json), Some(node)) = (ours, reference) else {
        return;
    };
    assert_eq!(json.as_bytes().as_ptr(), data[node.start..].as_ptr());
    same(json, &node, data);
    let mut scalars = Vec::new();
    collect(json, &node, &mut scalars);
    ids(&scalars, data);
    whole(json, &node, data);
}

/// Compares with serde_json, which in a value that it ignores checks neither UTF-8 nor the depth.
fn by_serde_json(data: &[u8], accepted: bool) {
    let text = data.strip_prefix("\u{feff}".as_bytes()).unwrap_or(data);
    let Ok(text) = std::str::from_utf8(text) else {
        assert!(!accepted, "text that is not UTF-8");
        return;
    };
    let theirs = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let is_deep = || Json::parse(data).is_err_and(|error| error.kind() == SyntaxErrorKind::TooDeep);
    assert!(
        crate::PLANTED || accepted == theirs || (theirs && is_deep()),
        "ours and serde_json"
    );
}

/// Every value stands where the reference has it, and is of its kind.
fn same(json: Json<'_>, node: &Node, text: &[u8]) {
    assert_eq!(json.as_bytes(), node.bytes(text));
    assert_eq!(json.len(), node.end - node.start);
    let kind = match &node.kind {
        Kind::Null => JsonKind::Null,
        Kind::Bool => JsonKind::Bool,
        Kind::Number => JsonKind::Number,
        Kind::Text(_) => JsonKind::String,
        Kind::Array(_) => JsonKind::Array,
        Kind::Object(_) => JsonKind::Object,
    };
    assert_eq!(json.kind(), kind);
    assert_eq!(json.is_null(), kind == JsonKind::Null);
    assert_eq!(json.as_string().is_some(), kind == JsonKind::String);
    if let Some(string) = json.as_string() {
        strings(string, node);
    }
    let (elements, members) = match &node.kind {
        Kind::Array(elements) => (&elements[..], &[][..]),
        Kind::Object(members) => (&[][..], &members[..]),
        _ => (&[][..], &[][..]),
    };
    assert_eq!(json.elements().count(), elements.len());
    for (ours, theirs) in json.elements().zip(elements) {
        same(ours, theirs, text);
    }
    assert_eq!(json.members().count(), members.len());
    for ((name, ours), (key, theirs)) in json.members().zip(members) {
        strings(name, key);
        same(ours, theirs, text);
        if let Some(name) = name.to_cow() {
            let first = node.member(&name).map(|first| first.bytes(text));
            assert_eq!(json.get(&name).map(Json::as_bytes), first);
        }
    }
}

fn strings(ours: JsonString<'_>, theirs: &Node) {
    let points = theirs.points();
    assert!(ours.code_points().eq(points.iter().copied()));
    let text: Option<String> = points.iter().map(|&point| char::from_u32(point)).collect();
    assert_eq!(ours.to_cow().as_deref(), text.as_deref());
    let lossy: String = points
        .iter()
        .map(|&point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    assert_eq!(ours.to_cow_lossy(), lossy);
    assert_eq!(ours.eq_str(&lossy), text.is_some());
    assert!(!ours.eq_str(&format!("{lossy}x")));
    assert!(format!("{ours:?} {:?}", ours.code_points()).contains("bytes"));
}

/// The first few scalars at any depth.
fn collect<'n, 't>(json: Json<'t>, node: &'n Node, into: &mut Vec<(Json<'t>, &'n Node)>) {
    if into.len() >= 6 {
        return;
    }
    match &node.kind {
        Kind::Array(nodes) => {
            for (json, node) in json.elements().zip(nodes) {
                collect(json, node, into);
            }
        }
        Kind::Object(nodes) => {
            for ((_, json), (_, node)) in json.members().zip(nodes) {
                collect(json, node, into);
            }
        }
        _ => into.push((json, node)),
    }
}

/// Two scalars are one id exactly when the reference finds type and value the same.
fn ids(scalars: &[(Json<'_>, &Node)], text: &[u8]) {
    for (json, node) in scalars {
        let id = Id::new(*json).expect("a scalar is an id");
        assert_eq!(id.text().as_bytes(), node.bytes(text));
        let owned = id.into_owned();
        assert_eq!(owned.as_id(), id);
        assert_eq!(owned.as_id().text(), id.text());
        assert_eq!(
            id.as_text().as_deref(),
            json.as_string().and_then(JsonString::to_cow).as_deref()
        );
        if matches!(node.kind, Kind::Number) {
            let whole = naive::number(id.text()).and_then(whole_number);
            assert_eq!(id.as_u64(), whole, "{}", id.text());
        } else {
            assert_eq!(id.as_u64(), None);
        }
        for (other, other_node) in scalars {
            let other = Id::new(*other).expect("a scalar is an id");
            let equal = match (&node.kind, &other_node.kind) {
                (Kind::Number, Kind::Number) => {
                    match (naive::number(id.text()), naive::number(other.text())) {
                        (Some(one), Some(two)) => one == two,
                        _ => continue,
                    }
                }
                (Kind::Text(one), Kind::Text(two)) => one == two,
                _ => id.text() == other.text(),
            };
            assert_eq!(id == other, equal, "{} and {}", id.text(), other.text());
        }
    }
}

fn whole_number((negative, digits, exponent): (bool, String, i128)) -> Option<u64> {
    if negative || !(0..=20).contains(&exponent) {
        return None;
    }
    format!("0{digits}{}", "0".repeat(exponent as usize))
        .parse()
        .ok()
}

/// What is read and written of the whole value.
fn whole(json: Json<'_>, node: &Node, text: &[u8]) {
    let inside = node.bytes(text);
    if !json.has_line_breaks() {
        let outside_strings = !serde_json::from_slice::<serde_json::Value>(inside)
            .is_ok_and(|value| value.is_string())
            && inside.iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        assert!(!outside_strings, "a line break that is not told");
    }
    let owned = json.to_owned_json();
    assert_eq!(owned.as_json(), json);
    assert_eq!(owned.as_str(), json.as_str());
    match OwnedJson::from_value(&json) {
        Ok(copied) => {
            let again = naive::parse(copied.as_str().as_bytes(), MAX_DEPTH);
            assert!(again.is_some_and(|again| again.end == copied.as_str().len()));
            assert!(!copied.as_str().contains(['\n', '\r']));
        }
        // A reserved key is the one thing that is JSON and is neither written nor read.
        Err(error) => {
            assert_eq!(error.kind(), antiphon::EncodeErrorKind::ReservedKey);
            let refused = json
                .decode::<serde::de::IgnoredAny>()
                .expect_err("nor read");
            assert_eq!(refused.kind(), antiphon::DecodeErrorKind::ReservedKey);
        }
    }
    // Decoded as any value, with serde_json as the judge; and below as a type that refuses most texts.
    let decoded = json.decode::<serde_json::Value>();
    let theirs = serde_json::from_slice::<serde_json::Value>(inside);
    match (decoded, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Err(error), theirs) => {
            let reserved = error.kind() == antiphon::DecodeErrorKind::ReservedKey;
            assert!(
                reserved || theirs.is_err(),
                "{error} {error:?} {}",
                error.detail()
            );
        }
        (Ok(_), Err(error)) => panic!("serde_json: {error}"),
    }
    typed::<(i64, Option<String>)>(json);
    typed::<(i128, Option<u128>, f32)>(json);
    typed::<Vec<Option<char>>>(json);
    typed::<Vec<Result<u8, String>>>(json);
    typed::<Option<BTreeMap<i32, bool>>>(json);
    typed::<BTreeMap<u64, [i8; 2]>>(json);
    typed::<BTreeMap<char, ()>>(json);
    typed::<BTreeMap<Option<bool>, serde::de::IgnoredAny>>(json);
    let narrow = json.decode::<BTreeMap<String, Option<f64>>>();
    assert!(narrow.is_err() || json.kind() == JsonKind::Object);
    assert_eq!(format!("{json}").as_bytes(), inside);
}

/// A type is read as serde_json reads it, which has another reader where flash is scarce (`--cfg antiphon_small`). Only here integers may
/// be spelled as floats.
fn typed<T: serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(json: Json<'_>) {
    let (ours, theirs) = (json.decode::<T>(), serde_json::from_str::<T>(json.as_str()));
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs),
        (Ok(_), Err(error)) => {
            let may_be_whole = |part: &&str| json.as_str().contains(*part);
            assert!(
                [".", "e", "E", "-0"].iter().any(may_be_whole),
                "serde_json: {error}"
            );
        }
        (Err(error), Ok(_)) => assert_eq!(error.kind(), antiphon::DecodeErrorKind::ReservedKey),
        (Err(_), Err(_)) => {}
    }
}
