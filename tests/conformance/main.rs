//! Plays every case of this folder against the core, in every way its input can arrive: whole, byte by byte, cut at random
//! and at every point, under every framing that fits. `case` reads the notation, `knobs` turns `config` lines into a
//! `Config`, `player` runs a case in one mode, `command` carries out its `=` lines, `render` writes events as cases have
//! them, `modes` plays a case in all modes, and `harness` reports.
//!
//! Nothing that the connection says may go unmentioned: every event and every frame has its line, in order, or the case
//! fails. Prints how many cases each file has and how many rules they cover. Fails if there are fewer cases than a
//! committed minimum (for one of them at most three of a rule count), if a case names no requirement, if its rule has
//! no clause, note, kind or role, if no case shows some value of a setting, or if serde_json judges a JSON text
//! otherwise than the core and `verdicts` has no reason for it.

mod case;
mod command;
mod coverage;
mod harness;
mod knobs;
mod modes;
mod player;
mod render;
mod verdicts;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use case::{Basis, Case, KINDS, ROLES};

/// At least so many cases for any implementation, counting at most [`MAX_PER_RULE`] of each rule. The number may only grow.
const COUNTED_MIN: usize = 697;
/// At most so many cases of one rule count for [`COUNTED_MIN`].
const MAX_PER_RULE: usize = 3;
/// At least so many cases for any implementation, counting all of each rule. The number may only grow.
const OF_ALL_MIN: usize = 819;
/// At least so many cases of this library alone. The number may only grow.
const OF_OURS_MIN: usize = 73;

fn main() -> ExitCode {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let cases = match case::read_all(&directory) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    harness::run(&cases, || {
        let mut missing = what_is_missing(&cases);
        missing.extend(coverage::missing(&cases));
        missing.extend(verdicts::missing(&cases));
        missing
    })
}

/// Prints how many cases there are of each file, kind and role, and returns what they lack.
fn what_is_missing(cases: &[Case]) -> Vec<String> {
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    let mut rules: BTreeMap<&str, usize> = BTreeMap::new();
    for case in cases {
        *files.entry(&case.file).or_default() += 1;
    }
    for (file, count) in files {
        println!("{count:5} cases in {file}.txt");
    }
    let of_all: Vec<&Basis> = cases
        .iter()
        .filter_map(|case| case.basis.as_ref())
        .collect();
    for basis in &of_all {
        *rules.entry(&basis.rule).or_default() += 1;
    }
    for kind in KINDS {
        let count = of_all.iter().filter(|basis| basis.kind == kind).count();
        println!("{count:5} cases of kind {kind}");
    }
    for role in ROLES {
        let count = of_all.iter().filter(|basis| basis.role == role).count();
        println!("{count:5} cases of role {role}");
    }
    let counted: usize = rules.values().map(|&count| count.min(MAX_PER_RULE)).sum();
    let of_ours = cases.len() - of_all.len();
    println!(
        "{} cases for any implementation, {} rules, {counted} count at {MAX_PER_RULE} a rule; {of_ours} of this library alone",
        of_all.len(),
        rules.len()
    );
    let mut missing = Vec::new();
    for (what, count, least) in [
        ("cases for any implementation", of_all.len(), OF_ALL_MIN),
        ("of them that count", counted, COUNTED_MIN),
        ("cases of this library alone", of_ours, OF_OURS_MIN),
    ] {
        if count < least {
            missing.push(format!("{count} {what}, of at least {least}"));
        }
    }
    for case in cases {
        let name = harness::name(case);
        if case.ids.is_empty() {
            missing.push(format!("{name} names no requirement"));
        }
        if let Some(Basis {
            rule,
            note,
            clause,
            kind,
            role,
        }) = &case.basis
        {
            if [rule, note, clause, kind, role]
                .iter()
                .any(|said| said.is_empty())
            {
                missing.push(format!("{name} lacks rule, note, clause, kind or role"));
            }
        }
    }
    missing
}
