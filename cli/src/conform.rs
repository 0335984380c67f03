//! `antiphon conform`: all checks against one server.

use std::process::ExitCode;

use antiphon::Framing;

use crate::args::{self, Format};
use crate::cases::{self, Case};
use crate::catalogue::{self, CHECKS, Check};
use crate::client;
use crate::fault::{FINDINGS, Fault, unreachable};
use crate::fuzz;
use crate::link::Place;
use crate::oracle::own_answer;
use crate::place;
use crate::probes;
use crate::report::{Baseline, Data, Report, Where};
use crate::run::{Outcome, Run, applies};
use crate::stress::{self, Counts};

pub(crate) fn run(line: &args::Conform) -> Result<ExitCode, Fault> {
    if let Some(only) = line.only.iter().find(|only| {
        !CHECKS
            .iter()
            .any(|check| check.id.starts_with(only.as_str()))
    }) {
        return Err(Fault::Usage(format!(
            "--only {only}: no check begins so; see --list"
        )));
    }
    let is_chosen = |id: &str| {
        line.only.is_empty() || line.only.iter().any(|only| id.starts_with(only.as_str()))
    };
    if line.list {
        return Ok(list(is_chosen));
    }
    if line.cases {
        return Ok(print_cases(line, is_chosen));
    }
    let baseline = line.baseline.as_deref().map(read_baseline).transpose()?;
    if let Some(listen) = &line.client {
        let (there, outcome) = client::test(listen, &line.there, &is_chosen)?;
        return Ok(tell(line, there, outcome, None, baseline.as_ref()));
    }
    let place = place::find(line.target.as_deref(), &line.there)?;
    let wants = |id: &str| {
        is_chosen(id)
            && catalogue::find(id).is_some_and(|check| applies(check, &place, line.there.preset))
    };
    let (outcome, stress) = test(line, &place, &wants)?;
    let there = Where {
        target: place.name(),
        preset: format!("{:?}", line.there.preset).to_ascii_lowercase(),
        framing: place.framing,
    };
    Ok(tell(line, there, outcome, stress, baseline.as_ref()))
}

/// Prints the report. Returns the exit code.
fn tell(
    line: &args::Conform,
    there: Where,
    outcome: Outcome,
    stress: Option<Counts>,
    baseline: Option<&Baseline>,
) -> ExitCode {
    let report = Report::new(there, outcome, stress, baseline);
    let text = match line.format {
        Format::Human => report.human(),
        Format::Json => report.json(),
        Format::Junit => report.junit(),
    };
    put(&text);
    match report.has_news() {
        true => FINDINGS.into(),
        false => ExitCode::SUCCESS,
    }
}

fn test(
    line: &args::Conform,
    place: &Place,
    wants: &dyn Fn(&str) -> bool,
) -> Result<(Outcome, Option<Counts>), Fault> {
    let mut run = Run::new(place, line.there.preset);
    run.first()
        .map_err(|error| unreachable(&place.name(), &error))?;
    run.cases(&cases::all(&line.method), wants);
    probes::run(&mut run, wants);
    if let Some(time) = line.fuzz {
        if place.framing == Framing::Concatenated {
            return Err(Fault::Usage(
                "--fuzz needs a framing that separates messages".to_owned(),
            ));
        }
        fuzz::run(&mut run, line.there.preset, time, line.seed);
    }
    let stress = line
        .stress
        .filter(|_| run.stopped.is_none())
        .map(|time| stress::run(&mut run, &line.method, time));
    let mut outcome = run.outcome();
    // The first request is always sent; what it shows counts only where it was asked for.
    // If it shows that nothing else can be tested, it counts always.
    if outcome.stopped.is_none() {
        outcome.findings.retain(|finding| wants(finding.check));
        outcome.ran.retain(|check, _| wants(check));
    }
    Ok((outcome, stress))
}

fn read_baseline(path: &std::path::Path) -> Result<Baseline, Fault> {
    let fault =
        |why: &dyn std::fmt::Display| Fault::Usage(format!("--baseline {}: {why}", path.display()));
    let text = std::fs::read(path).map_err(|error| fault(&error))?;
    serde_json::from_slice(&text).map_err(|error| fault(&error))
}

/// Prints to standard output. A reader that has gone is no fault of anybody.
pub(crate) fn put(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn list(is_chosen: impl Fn(&str) -> bool) -> ExitCode {
    for Check {
        id, clause, right, ..
    } in CHECKS.iter().filter(|check| is_chosen(check.id))
    {
        put(&format!("{id:28} {right} ({clause})\n"));
    }
    ExitCode::SUCCESS
}

/// A line of `--cases`, with the schema of `schema/case.json`.
#[derive(serde::Serialize)]
struct Line {
    check: &'static str,
    level: &'static str,
    clause: &'static str,
    expected: &'static str,
    /// A message, without framing.
    send: Data,
    /// What antiphon, which has no methods, answers; `null` for nothing.
    answer: Option<Data>,
}

fn print_cases(line: &args::Conform, is_chosen: impl Fn(&str) -> bool) -> ExitCode {
    let mut all = vec![cases::first(), cases::first_batch()];
    all.extend(cases::all(&[]));
    let of_preset = |case: &&Case| catalogue::is_of(case.check, line.there.preset);
    // The longest cases are made by their rule, not printed.
    let short = |case: &&Case| case.message.len() <= 100_000;
    for case in all
        .iter()
        .filter(|case| is_chosen(case.check))
        .filter(of_preset)
        .filter(short)
    {
        let check = catalogue::find(case.check);
        let answer = own_answer(&case.message, line.there.preset);
        let line = Line {
            check: case.check,
            level: case.level.name(),
            clause: check.map_or("", |check| check.clause),
            expected: check.map_or("", |check| check.right),
            send: Data::of(&case.message),
            answer: answer.as_deref().map(Data::of),
        };
        put(&(serde_json::to_string(&line).unwrap_or_default() + "\n"));
    }
    ExitCode::SUCCESS
}
