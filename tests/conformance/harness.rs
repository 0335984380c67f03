//! A test program whose cases are data: it reports each by its name, as the usual test harness
//! does.
//!
//! It accepts the important arguments of a test program: a filter, `--exact`, `--list`; and
//! `--ids`, which lists the requirements that each case checks.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use super::case::Case;
use super::modes;

/// Plays the cases that the arguments choose. If they choose all, `what_is_missing` then says what
/// the cases lack together; that counts as failed too.
pub(crate) fn run(cases: &[Case], what_is_missing: impl FnOnce() -> Vec<String>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
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
    if has("--ids") {
        for case in &chosen {
            println!("{}\t{}", name(case), case.ids.join(" "));
        }
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
            failures.push(format!("{} (line {})\n  {error}", name(case), case.line));
        }
    }
    let failed = failures.len();
    if filters.is_empty() {
        failures.extend(what_is_missing());
    }
    for failure in &failures {
        println!("\n---- {failure}");
    }
    let verdict = if failures.is_empty() { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {verdict}. {} passed; {} failed; 0 ignored; 0 measured; {} filtered out\n",
        chosen.len() - failed,
        failures.len(),
        cases.len() - chosen.len()
    );
    // If standard output is closed, there is nobody to tell.
    let _ = std::io::stdout().flush();
    match failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(101),
    }
}

/// The file and the title, which together are a case's name.
pub(crate) fn name(case: &Case) -> String {
    format!("{}: {}", case.file, case.title)
}
