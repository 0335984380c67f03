//! Findings as text, as JSON and for JUnit.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use antiphon::Framing;
use serde::{Deserialize, Serialize};

use crate::bytes::{shown, shown_whole};
use crate::catalogue::{CHECKS, find};
use crate::run::Finding;
use crate::stress::Counts;

/// All that a run has to tell. Its JSON has the schema of `schema/report.json`.
#[derive(Serialize)]
pub(crate) struct Report {
    /// The version of this format.
    format: u32,
    tool: String,
    target: String,
    preset: String,
    framing: &'static str,
    /// How many cases of each check ran.
    ran: BTreeMap<&'static str, usize>,
    findings: Vec<Shown>,
    /// Findings that the baseline knows.
    known: usize,
    /// Why the run ended early.
    stopped: Option<String>,
    /// What `--stress` has done.
    stress: Option<Counts>,
}

#[derive(Serialize)]
struct Shown {
    check: &'static str,
    level: &'static str,
    clause: &'static str,
    expected: &'static str,
    found: String,
    sent: Data,
    received: Data,
    cases: usize,
    command: String,
    is_known: bool,
}

/// Bytes: as text where they are UTF-8, otherwise in hexadecimal digits.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Data {
    Text(String),
    Hex(String),
}

impl Data {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            })),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Hex(hex) => (0..hex.len() / 2)
                .filter_map(|at| u8::from_str_radix(hex.get(at * 2..at * 2 + 2)?, 16).ok())
                .collect(),
        }
    }
}

/// What of a report is read again, as a baseline.
#[derive(Deserialize)]
pub(crate) struct Baseline {
    findings: Vec<Known>,
}

#[derive(Deserialize)]
struct Known {
    check: String,
    level: String,
}

impl Baseline {
    /// Whether a finding is known: its check has one of its level.
    fn has(&self, finding: &Finding) -> bool {
        self.findings
            .iter()
            .any(|known| known.check == finding.check && known.level == finding.level.name())
    }
}

/// Where a run took place.
pub(crate) struct Where {
    pub(crate) target: String,
    pub(crate) preset: String,
    pub(crate) framing: Framing,
}

impl Report {
    pub(crate) fn new(
        there: Where,
        run: crate::run::Outcome,
        stress: Option<Counts>,
        baseline: Option<&Baseline>,
    ) -> Self {
        let mut findings: Vec<Shown> = run
            .findings
            .iter()
            .map(|finding| {
                let check = find(finding.check);
                Shown {
                    check: finding.check,
                    level: finding.level.name(),
                    clause: check.map_or("", |check| check.clause),
                    expected: check.map_or("", |check| check.right),
                    found: finding.what.clone(),
                    sent: Data::of(&finding.sent),
                    received: Data::of(&finding.received),
                    cases: finding.cases,
                    command: finding.command.clone(),
                    is_known: baseline.is_some_and(|baseline| baseline.has(finding)),
                }
            })
            .collect();
        let place = |id: &str| CHECKS.iter().position(|check| check.id == id);
        findings.sort_by_key(|finding| (finding.level == "should", place(finding.check)));
        Self {
            format: 1,
            tool: format!("antiphon {}", env!("CARGO_PKG_VERSION")),
            target: there.target,
            preset: there.preset,
            framing: match there.framing {
                Framing::Newline => "newline",
                Framing::ContentLength => "lsp",
                Framing::Concatenated => "json",
                _ => "messages",
            },
            ran: run.ran,
            known: findings.iter().filter(|finding| finding.is_known).count(),
            findings,
            stopped: run.stopped,
            stress,
        }
    }

    /// Whether there is a finding that the baseline does not know, or none although the run ended early.
    pub(crate) fn has_news(&self) -> bool {
        self.known < self.findings.len() || self.stopped.is_some() && self.findings.is_empty()
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub(crate) fn human(&self) -> String {
        let mut out = String::new();
        for finding in &self.findings {
            let known = if finding.is_known { ", known" } else { "" };
            let also = match finding.cases {
                1 => String::new(),
                n => format!(" ({n} cases)"),
            };
            let _ = writeln!(
                out,
                "{} {}{known}: {}{also}",
                finding.level,
                finding.check,
                shown(finding.found.as_bytes())
            );
            let _ = writeln!(out, "    clause    {}", finding.clause);
            let _ = writeln!(out, "    expected  {}", finding.expected);
            let _ = writeln!(out, "    sent      {}", or_nothing(&finding.sent));
            let _ = writeln!(out, "    received  {}", or_nothing(&finding.received));
            let _ = writeln!(
                out,
                "    command   {}\n",
                shown_whole(finding.command.as_bytes())
            );
        }
        if let Some(why) = &self.stopped {
            let _ = writeln!(out, "stopped: {}\n", shown(why.as_bytes()));
        }
        if let Some(counts) = &self.stress {
            let _ = writeln!(out, "stress: {counts}");
        }
        let count = |level: &str| {
            self.findings
                .iter()
                .filter(|finding| finding.level == level)
                .count()
        };
        let known = match self.known {
            0 => String::new(),
            n => format!(", {n} of them known"),
        };
        let _ = writeln!(
            out,
            "{}: {} cases of {} checks, {} must, {} should{known}",
            shown(self.target.as_bytes()),
            self.ran.values().sum::<usize>(),
            self.ran.len(),
            count("must"),
            count("should")
        );
        out
    }

    /// A test case for each check; a check with a finding that is not known has failed.
    pub(crate) fn junit(&self) -> String {
        let failed = self.findings.iter().filter(|finding| !finding.is_known);
        let failed: std::collections::BTreeSet<&str> =
            failed.map(|finding| finding.check).collect();
        let ids = CHECKS
            .iter()
            .map(|check| check.id)
            .filter(|id| self.ran.contains_key(id) || failed.contains(id));
        let ids: Vec<&str> = ids.collect();
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let counts = format!(
            "tests=\"{}\" failures=\"{}\" errors=\"0\"",
            ids.len(),
            failed.len()
        );
        let _ = writeln!(out, "<testsuites {counts}>");
        let _ = writeln!(
            out,
            "  <testsuite name=\"{}\" {counts} skipped=\"0\" time=\"0\">",
            xml(&self.target)
        );
        for id in ids {
            let _ = write!(
                out,
                "    <testcase classname=\"antiphon.conform\" name=\"{id}\" time=\"0\""
            );
            if !failed.contains(id) {
                out.push_str("/>\n");
                continue;
            }
            out.push_str(">\n");
            // A test case has one failure.
            let mut text = String::new();
            let mut first = None;
            for finding in self
                .findings
                .iter()
                .filter(|finding| finding.check == id && !finding.is_known)
            {
                first.get_or_insert(finding);
                let _ = writeln!(
                    text,
                    "{} {}: {}",
                    finding.level, finding.clause, finding.found
                );
                let _ = writeln!(text, "expected: {}", finding.expected);
                let _ = writeln!(text, "sent: {}", or_nothing(&finding.sent));
                let _ = writeln!(text, "received: {}", or_nothing(&finding.received));
                let _ = writeln!(text, "command: {}", shown_whole(finding.command.as_bytes()));
            }
            let (kind, found) = first.map_or(("", ""), |finding| (finding.level, &*finding.found));
            let _ = writeln!(
                out,
                "      <failure type=\"{kind}\" message=\"{}\">{}</failure>",
                xml(found),
                xml(&text)
            );
            out.push_str("    </testcase>\n");
        }
        out + "  </testsuite>\n</testsuites>\n"
    }
}

fn or_nothing(data: &Data) -> String {
    match data.bytes() {
        bytes if bytes.is_empty() => "nothing".to_owned(),
        bytes => shown(&bytes),
    }
}

/// Text of XML. What XML cannot have is escaped as in [`shown`].
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push('\n'),
            c => out.push_str(&shown(c.encode_utf8(&mut [0; 4]).as_bytes())),
        }
    }
    out
}
