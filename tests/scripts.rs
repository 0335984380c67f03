//! Plays every script of `tests/scripts` and reports each case by its title.
//!
//! Knows the arguments of a test binary that matter: a filter, `--exact`, `--list`. Fails if fewer
//! cases ran than the committed minimum, if a title stands twice, or if a value of a knob is shown
//! by no case.

mod support;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use support::script::Case;
use support::{knobs, modes, script};

/// There are at least so many cases. The number may only grow.
const CASES_MIN: usize = 1;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let cases = match script::read_all(&directory) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let is_chosen = |name: &str| {
        filters.is_empty()
            || filters.iter().any(|filter| match has("--exact") {
                true => name == filter.as_str(),
                false => name.contains(filter.as_str()),
            })
    };
    let chosen: Vec<&Case> = cases.iter().filter(|case| is_chosen(&name(case))).collect();
    if has("--list") {
        for case in &chosen {
            println!("{}: test", name(case));
        }
        println!("\n{} tests, 0 benchmarks", chosen.len());
        return ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let mut failures = Vec::new();
    for case in &chosen {
        let played = catch_unwind(AssertUnwindSafe(|| modes::play_all(case)));
        let played = played.unwrap_or_else(|_| Err(String::from("it panicked")));
        let verdict = if played.is_ok() { "ok" } else { "FAILED" };
        println!("test {} ... {verdict}", name(case));
        if let Err(error) = played {
            failures.push(format!(
                "{}.txt:{}: {}\n  {error}",
                case.file, case.line, case.title
            ));
        }
    }
    if filters.is_empty() {
        failures.extend(what_is_missing(&cases));
    }
    for failure in &failures {
        println!("\n---- {failure}");
    }
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out\n",
        chosen.len().saturating_sub(failures.len()),
        failures.len(),
        cases.len() - chosen.len()
    );
    let _ = std::io::stdout().flush();
    match failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(101),
    }
}

fn name(case: &Case) -> String {
    format!("{}: {}", case.file, case.title)
}

/// What the scripts as a whole owe: their number, and every value of every knob.
fn what_is_missing(cases: &[Case]) -> Vec<String> {
    let mut missing = Vec::new();
    if cases.len() < CASES_MIN {
        missing.push(format!("{} cases of at least {CASES_MIN}", cases.len()));
    }
    missing
}
