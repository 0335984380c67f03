//! Plays every script of `tests/scripts` and reports each case by its title.
//!
//! Knows the arguments of a test binary that matter: a filter, `--exact`, `--list`; and `--ids`,
//! which lists the requirements that each case holds. Fails if there are fewer cases than the
//! committed minimum, if a title stands twice, if a case names no requirement, or if a value of a
//! knob is shown by no case.

mod support;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

use antiphon::Config;
use support::script::Case;
use support::{knobs, modes, script};

/// There are at least so many cases. The number may only grow.
const CASES_MIN: usize = 722;

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

/// What the scripts as a whole owe: their number; for every knob a case with its default, and one
/// for every other value that can be named. Such a case is titled `knob = value (default)…` or
/// `knob = value…`, and must run with that value.
fn what_is_missing(cases: &[Case]) -> Vec<String> {
    let mut missing = Vec::new();
    if cases.len() < CASES_MIN {
        missing.push(format!("{} cases of at least {CASES_MIN}", cases.len()));
    }
    let holds_nothing = cases.iter().filter(|case| case.ids.is_empty());
    missing.extend(holds_nothing.map(|case| format!("{} names no requirement", name(case))));
    let fields = format!("{:#?}", Config::strict());
    for field in fields.lines().filter_map(top_level_field) {
        if !knobs::KNOBS.iter().any(|knob| knob.name == field) {
            missing.push(format!("the player does not know the knob {field}"));
        }
    }
    for knob in knobs::KNOBS {
        let shown: Vec<Value<'_>> = cases
            .iter()
            .filter_map(|case| Value::of_title(case, knob.name))
            .collect();
        let default = (knob.get)(&Config::strict());
        if !shown.iter().any(|value| value.is_default) {
            missing.push(format!("no case shows {} = {default} (default)", knob.name));
        }
        for value in knob.values {
            if !shown.iter().any(|shown| shown.value == *value) {
                missing.push(format!("no case shows {} = {value}", knob.name));
            }
        }
        if knob.values.is_empty() && shown.iter().all(|value| value.is_default) {
            missing.push(format!("no case shows {} off its default", knob.name));
        }
        for shown in &shown {
            let wanted = knobs::setup(&shown.case.config)
                .map_or_else(|error| error, |setup| (knob.get)(&setup.config));
            let says_so = (shown.value == default) == shown.is_default;
            if wanted != shown.value || !says_so {
                missing.push(format!("{} runs with {wanted}", name(shown.case)));
            }
        }
    }
    missing
}

/// The field that a line of pretty debug text names, if it is one of the outermost.
fn top_level_field(line: &str) -> Option<&str> {
    let line = line
        .strip_prefix("    ")
        .filter(|line| !line.starts_with(' '))?;
    line.split_once(": ").map(|(name, _)| name)
}

/// The value of a knob that a case is titled for.
struct Value<'c> {
    case: &'c Case,
    value: &'c str,
    is_default: bool,
}

impl<'c> Value<'c> {
    fn of_title(case: &'c Case, knob: &str) -> Option<Self> {
        let rest = case.title.strip_prefix(knob)?.strip_prefix(" = ")?;
        let end = rest.find([' ', ':', ',']).unwrap_or(rest.len());
        let (value, rest) = rest.split_at(end);
        Some(Self {
            case,
            value,
            is_default: rest.starts_with(" (default)"),
        })
    }
}
