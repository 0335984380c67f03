//! Plays every vector of `tests/vectors` against the core, in every way its input can arrive: whole,
//! byte by byte, cut at random and at every point. Prints the cases of each file and how many rules
//! they cover.
//!
//! Fails if fewer vectors count than the committed minimum (at most three of a rule do), if one
//! names no clause, no rule or no note, if a value of a knob is shown by no case, or
//! if serde_json judges a JSON text otherwise and nobody has said why.

mod support;

#[path = "support/coverage.rs"]
mod coverage;
#[path = "support/vector.rs"]
mod vector;
#[path = "support/vector_event.rs"]
mod vector_event;
#[path = "support/verdicts.rs"]
mod verdicts;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use support::script::Case;
use support::{harness, script};
use vector::{Kind, Role, Vector};

/// So many vectors count at least. The number may only grow.
const COUNTED_MIN: usize = 697;
/// At most so many vectors of one rule count.
const MAX_PER_RULE: usize = 3;

fn main() -> ExitCode {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = vector::read_all(&tests.join("vectors"))
        .and_then(|vectors| Ok((vectors, script::read_all(&tests.join("scripts"))?)));
    let (vectors, scripts) = match read {
        Ok(read) => read,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let (vectors, cases): (Vec<Vector>, Vec<Case>) = vectors.into_iter().unzip();
    harness::run(&cases, || {
        let counted = summary(&vectors, &cases);
        let mut missing = what_is_missing(&vectors, counted);
        let everything: Vec<Case> = cases.iter().chain(&scripts).cloned().collect();
        missing.extend(coverage::missing(&everything));
        missing.extend(verdicts::missing(&everything));
        missing
    })
}

/// Says how many cases there are of each file and kind, and gives how many count.
fn summary(vectors: &[Vector], cases: &[Case]) -> usize {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    for (vector, case) in vectors.iter().zip(cases) {
        *files.entry(&case.file).or_default() += 1;
        *kinds.entry(vector.kind).or_default() += 1;
        *rules.entry(&vector.rule).or_default() += 1;
    }
    for (file, count) in files {
        println!("{count:5} vectors in {file}.jsonl");
    }
    for (kind, count) in kinds {
        println!("{count:5} vectors of kind {kind:?}");
    }
    for role in [Role::Server, Role::Client, Role::Both] {
        let count = vectors.iter().filter(|vector| vector.role == role).count();
        println!("{count:5} vectors of role {role:?}");
    }
    let counted = rules.values().map(|&count| count.min(MAX_PER_RULE)).sum();
    println!(
        "{} vectors, {} rules, {counted} count at {MAX_PER_RULE} a rule",
        vectors.len(),
        rules.len()
    );
    counted
}

fn what_is_missing(vectors: &[Vector], counted: usize) -> Vec<String> {
    let mut missing = Vec::new();
    if counted < COUNTED_MIN {
        missing.push(format!(
            "{counted} vectors count, of at least {COUNTED_MIN}"
        ));
    }
    for vector in vectors {
        let has_clause = vector.clause.iter().any(|clause| !clause.is_empty());
        if !has_clause || vector.rule.is_empty() || vector.note.is_empty() {
            missing.push(format!("{} lacks clause, rule or note", vector.name));
        }
        if vector.ids.is_empty() {
            missing.push(format!("{} names no requirement", vector.name));
        }
    }
    missing
}
