//! Counts the scripts that ran in each cell, and checks that they are enough.
//!
//! Rule: in each cell a minimum of scripts ran, and every script that its transport does not exclude.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use antiphon_peer::runtime::Runtime;

use crate::cell::Transport;
use crate::script::Script;

/// How a script went in a cell.
#[derive(Clone, Debug)]
pub struct Played {
    /// The adapter's name.
    pub runtime: String,
    /// The transport.
    pub transport: Transport,
    /// The script's name.
    pub script: String,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// None if it passed; else what went wrong.
    pub failed: Option<String>,
}

impl Played {
    /// A line with all of it, for the process that counts.
    pub fn to_line(&self) -> String {
        let failed = self.failed.as_deref().unwrap_or_default();
        let failed = failed.replace('\\', "\\\\").replace('\n', "\\n");
        let (runtime, transport, script) = (&self.runtime, self.transport, &self.script);
        let millis = self.millis;
        format!("played\t{runtime}\t{transport}\t{script}\t{millis}\t{failed}")
    }

    /// Reads such a line; none for any other.
    pub fn of_line(line: &str) -> Option<Self> {
        let mut parts = line.strip_prefix("played\t")?.splitn(5, '\t');
        let (runtime, transport) = (parts.next()?, Transport::named(parts.next()?)?);
        let (script, millis) = (parts.next()?, parts.next()?.parse().ok()?);
        let failed = parts.next()?;
        Some(Self {
            runtime: runtime.to_owned(),
            transport,
            script: script.to_owned(),
            millis,
            failed: (!failed.is_empty()).then(|| failed.replace("\\n", "\n").replace("\\\\", "\\")),
        })
    }
}

/// Scripts passed, per adapter and transport.
pub fn table(played: &[Played]) -> String {
    let mut passed: BTreeMap<(&str, Transport), usize> = BTreeMap::new();
    for played in played.iter().filter(|played| played.failed.is_none()) {
        *passed
            .entry((&played.runtime, played.transport))
            .or_default() += 1;
    }
    let mut text = format!("{:<11}", "");
    for transport in Transport::ALL {
        text.push_str(&format!("{transport:>8}"));
    }
    for runtime in Runtime::ALL {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{:<11}", runtime.name());
        for transport in Transport::ALL {
            let cell = match passed.get(&(runtime.name(), transport)) {
                Some(count) => count.to_string(),
                None => "–".to_owned(),
            };
            let _ = write!(text, "{cell:>8}");
        }
    }
    text
}

/// Which scripts each transport excludes, grouped by their reason.
pub fn exclusions(scripts: &[Script]) -> String {
    let mut text = String::new();
    for transport in Transport::ALL {
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for script in scripts {
            if let Some(why) = script.excludes(transport) {
                reasons.entry(why).or_default().push(script.name());
            }
        }
        for (why, names) in reasons {
            let names = names.join("; ");
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{transport} excludes, because {why}: {names}");
        }
    }
    text
}

/// What is missing of a whole run: cells that did not play all of their scripts or played fewer than
/// `cell_min`, and passes below `total_min`.
pub fn missing(
    scripts: &[Script],
    played: &[Played],
    cell_min: usize,
    total_min: usize,
) -> Vec<String> {
    let mut missing = Vec::new();
    for runtime in Runtime::ALL {
        for transport in Transport::ALL {
            let in_cell: BTreeSet<&str> = played
                .iter()
                .filter(|p| p.runtime == runtime.name() && p.transport == transport)
                .map(|p| p.script.as_str())
                .collect();
            let unexplained = scripts.iter().filter(|script| {
                !in_cell.contains(script.name().as_str()) && script.excludes(transport).is_none()
            });
            let unexplained: Vec<String> = unexplained.map(Script::name).collect();
            if in_cell.len() < cell_min || !unexplained.is_empty() {
                missing.push(format!(
                    "{runtime} over {transport} played {} scripts of at least {cell_min}, and not: {}",
                    in_cell.len(),
                    unexplained.join("; ")
                ));
            }
        }
    }
    let passed = played
        .iter()
        .filter(|played| played.failed.is_none())
        .count();
    if passed < total_min {
        missing.push(format!("{passed} passed of at least {total_min}"));
    }
    missing
}

#[cfg(test)]
mod tests {
    use antiphon_test_support::notation;

    use super::{Played, missing};
    use crate::cell::Transport;
    use crate::script::read;

    #[test]
    fn a_line_gives_back_what_was_played() {
        let played = Played {
            runtime: "tokio".to_owned(),
            transport: Transport::Unix,
            script: "a: b".to_owned(),
            millis: 7,
            failed: Some("one\ntwo \\ three".to_owned()),
        };
        let read = Played::of_line(&played.to_line()).unwrap();
        assert_eq!(read.failed, played.failed);
        assert!(Played::of_line("anything else").is_none());
    }

    #[test]
    fn a_cell_that_played_nothing_is_missed_and_an_excluded_script_is_not() {
        let text =
            "role server\n== a\n> x\n== b\nnot tcp unix memory http https ws wss: why\n> x\n";
        let scripts = read(&notation::read("f", text).unwrap()).unwrap();
        let mut played = Vec::new();
        for runtime in ["blocking", "tokio", "smol"] {
            for transport in Transport::ALL {
                played.push(Played {
                    runtime: runtime.to_owned(),
                    transport,
                    script: "f: a".to_owned(),
                    millis: 0,
                    failed: None,
                });
            }
        }
        let lines = missing(&scripts, &played, 1, 25);
        let of = |runtime: &str| {
            lines
                .iter()
                .filter(|line| line.starts_with(runtime))
                .count()
        };
        // `f: b` was not played over stdio, which alone does not exclude it; async-std played nothing.
        assert_eq!((of("blocking"), of("tokio"), of("async-std")), (1, 1, 8));
        assert!(lines.iter().any(|line| line.contains("24 passed")));
        // With two scripts for each cell, every one of the 32 cells is short of one.
        let lines = missing(&scripts, &played, 2, 24);
        assert_eq!(lines.len(), 32);
    }
}
