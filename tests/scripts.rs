//! Plays every script of `tests/scripts` and reports each case by its title.
//!
//! What others can play too stands in `tests/vectors`; here is what is about this library alone: how
//! output is taken, what a transport may report, what getters say. Fails if there are fewer cases
//! than the committed minimum, if a title stands twice, or if a case names no requirement.

mod support;

use std::path::Path;
use std::process::ExitCode;

use support::{harness, script};

/// There are at least so many cases. The number may only grow.
const CASES_MIN: usize = 53;

fn main() -> ExitCode {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let cases = match script::read_all(&directory) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    harness::run(&cases, || {
        let mut missing = Vec::new();
        if cases.len() < CASES_MIN {
            missing.push(format!("{} cases of at least {CASES_MIN}", cases.len()));
        }
        let holds_nothing = cases.iter().filter(|case| case.ids.is_empty());
        let named =
            holds_nothing.map(|case| format!("{} names no requirement", harness::name(case)));
        missing.extend(named);
        missing
    })
}
