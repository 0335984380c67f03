//! How often everything has happened that can happen to sessions. What has never happened was not
//! tested.

use std::collections::BTreeMap;

/// Everything that is counted.
pub const CATALOGUE: &[&str] = &[
    "wire: stream",
    "wire: messages",
    "wire: layered",
    "order: free",
    "order: notifications",
    "order: serial",
    "order: begun while a notification is served",
    "order: held by a request",
    "order: held by answers that wait",
    "link: pair",
    "link: star",
    "phase: opening",
    "phase: open",
    "phase: draining",
    "phase: input ended",
    "phase: last words",
    "phase: closing",
    "phase: over",
    "closed: end of input",
    "closed: drained",
    "closed: here",
    "closed: failed",
    "work: opened",
    "work: batch",
    "work: request",
    "server: no permit",
    "work: notification",
    "work: cancelled",
    "report: malformed",
    "report: refused",
    "report: unmatched, late",
    "report: unmatched, unknown",
    "report: unmatched, null id",
    "report: unmatched, cancel",
    "report: queue full",
    "report: no capacity",
    "report: unanswered",
    "report: panicked in a request",
    "report: panicked",
    "report: queue overflow",
    "report: dropped",
    "report: transport",
    "report: layer",
    "report: http request",
    "outcome: ok",
    "outcome: error",
    "outcome: timed out",
    "outcome: unsent",
    "outcome: aborted",
    "outcome: cancelled here",
    "call: refused",
    "call: in a batch",
    "call: deadline moved",
    "call: cancel asked twice",
    "handler: at once",
    "handler: late",
    "handler: never",
    "handler: error",
    "handler: unknown method",
    "handler: unserialisable",
    "handler: abandoned",
    "handler: panicked",
    "handler: refused for capacity",
    "handler: cancelled code",
    "handler: answers after a cancel",
    "handler: answers after the end",
    "handler: calls back",
    "handler: relays",
    "handler: postponed",
    "fault: partial write",
    "fault: pipe full",
    "fault: split read",
    "fault: stall",
    "fault: cut",
    "fault: cut loses bytes",
    "fault: half-close",
    "fault: half-close in a message",
    "fault: failed write",
    "fault: failed read",
    "fault: reading paused",
    "fault: clock stands still",
    "fault: clock steps back",
    "fault: clock jumps",
    "fault: garbage",
    "fault: broken layer",
    "fault: http",
    "end: drain",
    "end: close",
    "end: abort",
    "end: peer gone",
    "end: drain while stalled",
    "end: close while stalled",
    "end: half-close",
    "end: cut",
];

/// How often each has occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    pub(super) fn add(&mut self, name: &'static str) {
        debug_assert!(CATALOGUE.contains(&name), "{name} is not in the catalogue");
        *self.0.entry(name).or_default() += 1;
    }

    /// Adds what another run has counted.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    /// What never occurred.
    pub fn zeros(&self) -> Vec<&'static str> {
        let never = |name: &&&str| !self.0.contains_key(**name);
        CATALOGUE.iter().filter(never).copied().collect()
    }

    /// All of it, one line each.
    pub fn print(&self, mut line: impl FnMut(String)) {
        for name in CATALOGUE {
            let count = self.0.get(name).copied().unwrap_or_default();
            line(format!("{count:>12}  {name}"));
        }
    }
}
