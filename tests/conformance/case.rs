//! Reads cases from the notation: settings, steps, what each step must show, and the clause of the
//! specification.
//!
//! This module does not know the connection. A line that is not understood is an error with its
//! number, never skipped: a misspelt expectation must not pass.

use std::collections::BTreeMap;
use std::path::Path;

use antiphon_test_support::notation::{self, File, Line, fault, words};

/// One conversation, as written.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) line: usize,
    /// The requirement ids of the comment right above the title.
    pub(crate) ids: Vec<String>,
    /// The words of the `config` line.
    pub(crate) config: Vec<String>,
    /// Each input step arrives in one read only, because the case is about that.
    pub(crate) whole_only: bool,
    /// Never as whole messages, because the case is about the stream.
    pub(crate) stream_only: bool,
    /// How many exchanges at least must differ from what strict 2.0 does.
    pub(crate) differs_from_strict: Option<usize>,
    /// The rule it rests on; `None` for a case of this library alone.
    pub(crate) basis: Option<Basis>,
    pub(crate) steps: Vec<Step>,
}

/// What a case that any implementation can play rests on.
#[derive(Clone, Debug)]
pub(crate) struct Basis {
    pub(crate) rule: String,
    /// The rule in a sentence.
    pub(crate) note: String,
    /// Sections of the documents that say so.
    pub(crate) clause: String,
    pub(crate) kind: String,
    /// Whose side the case shows.
    pub(crate) role: String,
}

/// What a case shows, and whose side; reports count them in this order.
pub(crate) const KINDS: [&str; 4] = ["framing", "classification", "replies", "conversation"];
pub(crate) const ROLES: [&str; 3] = ["server", "client", "both"];

/// One thing done, and all that it is to lead to.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) line: usize,
    /// Steps between the same two blank lines belong to one exchange.
    pub(crate) exchange: usize,
    pub(crate) action: Action,
    pub(crate) expected: Expected,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Lines that arrive; they may be cut anywhere.
    Input(Vec<Piece>),
    /// A command, in words.
    Command(Vec<String>),
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// A message, to be put into the framing.
    Body(Vec<u8>),
    /// Bytes as they are.
    Raw(Vec<u8>),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    pub(crate) events: Vec<String>,
    pub(crate) frames: Vec<String>,
    /// The exact bytes written, framing included, instead of `frames`.
    pub(crate) raw: Option<Vec<u8>>,
    /// Getters by name, and what they are to say.
    pub(crate) states: Vec<(String, String)>,
}

/// Reads every `*.txt` of a directory, in order of name.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for file in notation::read_all(directory)? {
        cases.extend(read(&file)?);
    }
    Ok(cases)
}

/// Reads the cases of one file.
fn read(file: &File) -> Result<Vec<Case>, String> {
    let mut config = vec![String::from("strict")];
    for line in &file.header {
        match line.mark.as_str() {
            "config" => config = words(&line.rest),
            _ => return Err(fault(&file.name, line, "expected `config` or a title")),
        }
    }
    let mut rules = BTreeMap::new();
    let mut cases = Vec::new();
    for written in &file.cases {
        let mut case = Case {
            file: file.name.clone(),
            title: written.title.clone(),
            line: written.number,
            ids: written.ids.clone(),
            config: config.clone(),
            whole_only: false,
            stream_only: false,
            differs_from_strict: None,
            basis: None,
            steps: Vec::new(),
        };
        for line in &written.lines {
            add(&mut case, line, &rules).map_err(|what| fault(&file.name, line, &what))?;
        }
        if let Some(basis) = &case.basis {
            rules.insert(basis.rule.clone(), basis.clone());
        }
        cases.push(case);
    }
    Ok(cases)
}

/// Adds what one line says. A rule that an earlier case named keeps its note, clause, kind and role.
fn add(case: &mut Case, line: &Line, rules: &BTreeMap<String, Basis>) -> Result<(), String> {
    let (number, rest) = (line.number, line.rest.as_str());
    if line.only.is_some() {
        return Err(String::from("there are no transports here"));
    }
    match line.mark.as_str() {
        "config" => case.config = words(rest),
        "play" if rest == "whole" => case.whole_only = true,
        "play" if rest == "stream" => case.stream_only = true,
        "differs-from-strict" => {
            let least = rest.parse().map_err(|_| "expected a number")?;
            case.differs_from_strict = Some(least);
        }
        "rule" => {
            let (rule, note) = match rest.split_once(": ") {
                Some((rule, note)) => (rule, Some(note)),
                None => (rest, None),
            };
            let mut basis = rules.get(rule).cloned().unwrap_or_else(|| Basis {
                rule: rule.to_owned(),
                note: String::new(),
                clause: String::new(),
                kind: String::new(),
                role: String::new(),
            });
            if let Some(note) = note {
                basis.note = note.to_owned();
            }
            case.basis = Some(basis);
        }
        "clause" => rests_on(case)?.clause = rest.to_owned(),
        "kind" if KINDS.contains(&rest) => rests_on(case)?.kind = rest.to_owned(),
        "role" if ROLES.contains(&rest) => rests_on(case)?.role = rest.to_owned(),
        "<" => push_input(case, line, Piece::Body(line.text()?.into_bytes())),
        "<x" => push_input(case, line, Piece::Body(line.bytes()?)),
        "<<" => push_input(case, line, Piece::Raw(line.bytes()?)),
        "=" => case.steps.push(Step {
            line: number,
            exchange: line.block,
            action: Action::Command(words(&line.text()?)),
            expected: Expected::default(),
        }),
        "!" | ">" | ">>" | "?" => {
            let step = case.steps.last_mut().ok_or("nothing has been done yet")?;
            let expected = &mut step.expected;
            match line.mark.as_str() {
                "!" => expected.events.push(line.text()?),
                ">" => expected.frames.push(line.text()?),
                ">>" => expected.raw.get_or_insert_default().extend(line.bytes()?),
                _ => {
                    let state = rest.split_once(' ');
                    let (name, value) = state.ok_or("expected a getter and its value")?;
                    expected.states.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        _ => return Err(String::from("no such line")),
    }
    Ok(())
}

fn rests_on(case: &mut Case) -> Result<&mut Basis, &'static str> {
    case.basis.as_mut().ok_or("expected a rule before this")
}

/// Adds a piece to the input that is being collected. A blank line, or a line that is no input,
/// ends it: the next piece then begins another step.
fn push_input(case: &mut Case, line: &Line, piece: Piece) {
    if let Some(Step {
        action: Action::Input(pieces),
        expected,
        exchange: last,
        ..
    }) = case.steps.last_mut()
    {
        let is_bare = expected.events.is_empty()
            && expected.frames.is_empty()
            && expected.raw.is_none()
            && expected.states.is_empty();
        if is_bare && *last == line.block {
            pieces.push(piece);
            return;
        }
    }
    case.steps.push(Step {
        line: line.number,
        exchange: line.block,
        action: Action::Input(vec![piece]),
        expected: Expected::default(),
    });
}
