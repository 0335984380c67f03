//! Compares this library and serde_json on every JSON text of the cases: accepted or refused.
//!
//! Where the two differ, the difference is listed in [`DIFFERENCES`] with the clause and the reason. The
//! test fails if a difference is not listed, and if a listed one is shown by no text any more.

use std::collections::BTreeSet;

use antiphon::Json;
use serde_json::Value;

use crate::case::{Action, Case, Piece};

/// The least number of texts. It may only grow.
const TEXTS_MIN: usize = 2100;

/// Words of serde_json's error for a text, whether we accept the text, and who is right and why.
const DIFFERENCES: &[(&str, bool, &str)] = &[
    (
        "recursion limit exceeded",
        true,
        "both are right: RFC 8259 §9 lets a parser limit depth; ours is 128 levels, its is 127",
    ),
    (
        "number out of range",
        true,
        "ours is right: RFC 8259 §6 sets no range, and a number that is passed on needs none",
    ),
    (
        "unexpected end of hex escape",
        true,
        "ours is right: RFC 8259 §8.2 has lone surrogates in its grammar; it decodes, we pass on",
    ),
    (
        "lone leading surrogate in hex escape",
        true,
        "ours is right: RFC 8259 §8.2 has lone surrogates in its grammar; it decodes, we pass on",
    ),
    (
        "expected value at line 1 column 1",
        true,
        "both are right: RFC 8259 §8.1 lets a parser ignore a byte order mark; it does not",
    ),
];

/// The texts of a case: the messages that arrive (without raw bytes) and the messages that are sent.
fn texts(case: &Case) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for step in &case.steps {
        if let Action::Input(pieces) = &step.action {
            texts.extend(pieces.iter().filter_map(|piece| match piece {
                Piece::Body(body) => Some(body.clone()),
                Piece::Raw(_) => None,
            }));
        }
        texts.extend(
            step.expected
                .frames
                .iter()
                .map(|text| text.clone().into_bytes()),
        );
    }
    texts
}

/// Reports differences without an explanation, and explanations that no text shows any more.
pub(crate) fn missing(cases: &[Case]) -> Vec<String> {
    let texts: BTreeSet<Vec<u8>> = cases.iter().flat_map(texts).collect();
    let mut shown = BTreeSet::new();
    let (mut accepted, mut differing) = (0, 0);
    let mut missing = Vec::new();
    for text in &texts {
        let ours = Json::parse(text).is_ok();
        let theirs = serde_json::from_slice::<Value>(text);
        accepted += usize::from(ours);
        if ours == theirs.is_ok() {
            continue;
        }
        differing += 1;
        let said = theirs.map_or_else(|error| error.to_string(), |_| String::from("accepted"));
        let found = DIFFERENCES
            .iter()
            .position(|(words, verdict, _)| said.contains(words) && *verdict == ours);
        let start = String::from_utf8_lossy(&text[..text.len().min(100)]).into_owned();
        match found {
            Some(index) => {
                let (_, _, why) = DIFFERENCES[index];
                println!("{start}\n      serde_json: {said}; {why}");
                shown.insert(index);
            }
            None => missing.push(format!("not explained: {said}: {start}")),
        }
    }
    let count = texts.len();
    let refused = count - accepted;
    println!(
        "{count} JSON texts, {accepted} accepted, {refused} refused, {differing} judged otherwise by serde_json"
    );
    if shown.len() < DIFFERENCES.len() {
        missing.push(String::from(
            "a difference with serde_json is shown by no case any more",
        ));
    }
    if count < TEXTS_MIN {
        missing.push(format!("{count} texts of at least {TEXTS_MIN}"));
    }
    missing
}
