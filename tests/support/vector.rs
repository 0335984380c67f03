//! Vectors to cases: a line of JSON as `tests/vectors/README.md` describes it becomes the case that
//! the player knows.
//!
//! Nothing here knows the connection. A member that the format does not have is an error with its
//! line, never skipped: a misspelt expectation must not pass.

use std::path::Path;

use serde::Deserialize;

use super::vector_event::{Event, event_line};
use crate::support::script::{Action, Case, Expected, Piece, Step};

/// One line of a vector file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) rule: String,
    pub(crate) clause: Vec<String>,
    pub(crate) ids: Vec<String>,
    pub(crate) note: String,
    pub(crate) kind: Kind,
    pub(crate) role: Role,
    preset: String,
    framing: String,
    exchange: Option<String>,
    #[serde(default)]
    settings: serde_json::Map<String, serde_json::Value>,
    reads: Option<String>,
    differs_from_strict: Option<usize>,
    steps: Vec<VectorStep>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Framing,
    Classification,
    Replies,
    Conversation,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Role {
    Server,
    Client,
    Both,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorStep {
    receive: Option<Vec<Received>>,
    #[serde(rename = "do")]
    command: Option<Command>,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    sends: Vec<Text>,
    sends_bytes: Option<Text>,
    #[serde(default)]
    state: serde_json::Map<String, serde_json::Value>,
    #[serde(default)]
    exchange: usize,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Received {
    Message(Text),
    Bytes(Text),
}

/// Bytes: text as it is, or parts one behind the other.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Text {
    Plain(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Part {
    Plain(String),
    Made(Made),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Made {
    hex: Option<String>,
    repeat: Option<String>,
    times: Option<usize>,
    #[serde(default)]
    numbered: bool,
}

impl Text {
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, String> {
        let parts = match self {
            Self::Plain(text) => return Ok(text.clone().into_bytes()),
            Self::Parts(parts) => parts,
        };
        let mut out = Vec::new();
        for part in parts {
            match part {
                Part::Plain(text) => out.extend_from_slice(text.as_bytes()),
                Part::Made(made) => made.write(&mut out)?,
            }
        }
        Ok(out)
    }

    pub(crate) fn text(&self) -> Result<String, String> {
        String::from_utf8(self.bytes()?).map_err(|_| String::from("text that is not UTF-8"))
    }
}

impl Made {
    fn write(&self, out: &mut Vec<u8>) -> Result<(), String> {
        match (&self.hex, &self.repeat, self.times) {
            (Some(hex), None, None) => {
                let digits: Option<Vec<u8>> = hex
                    .chars()
                    .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
                    .collect();
                let digits = digits.filter(|digits| digits.len() % 2 == 0);
                let digits = digits.ok_or_else(|| format!("not hexadecimal: {hex}"))?;
                out.extend(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
            }
            (None, Some(text), Some(times)) => {
                for count in 1..=times {
                    let written = match self.numbered {
                        true => text.replace('#', &count.to_string()),
                        false => text.clone(),
                    };
                    out.extend_from_slice(written.as_bytes());
                }
            }
            _ => return Err(String::from("a part is hex, or repeat and times")),
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    Call(Call),
    Notify(Notify),
    Batch(Batch),
    Cancel(OfCall),
    AskCancel(OfCall),
    SetDeadline(Deadline),
    Respond(Respond),
    RespondError(RespondError),
    RespondCode(RespondCode),
    RespondUnknown(RespondUnknown),
    RespondCancelled(OfRequest),
    Time(Time),
    EndOfInput(Nothing),
    Close(Close),
    Drain(Nothing),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    method: Text,
    params: Option<Text>,
    deadline_ms: Option<u64>,
    id: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Notify {
    method: Text,
    params: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    deadline_ms: Option<u64>,
    entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Entry {
    Call(Notify),
    Notify(Notify),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfCall {
    call: u64,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deadline {
    call: u64,
    deadline_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Respond {
    id: Text,
    result: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondError {
    id: Text,
    code: i64,
    message: Text,
    data: Option<Text>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondCode {
    id: Text,
    code: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RespondUnknown {
    id: Text,
    method: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRequest {
    id: Text,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    ms: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Close {
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Reads every `*.jsonl` of a directory, in order of name.
pub(crate) fn read_all(directory: &Path) -> Result<Vec<(Vector, Case)>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| error.to_string())?;
    let mut paths: Vec<_> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "jsonl"))
        .collect();
    paths.sort();
    let mut vectors: Vec<(Vector, Case)> = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let file = path
            .file_stem()
            .map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
        for (index, line) in text.lines().enumerate() {
            let place = |error: String| format!("{file}.jsonl:{}: {error}", index + 1);
            let vector: Vector =
                serde_json::from_str(line).map_err(|error| place(error.to_string()))?;
            let case = vector.case(&file, index + 1).map_err(place)?;
            vectors.push((vector, case));
        }
    }
    for (index, (_, case)) in vectors.iter().enumerate() {
        let same =
            |(_, other): &&(Vector, Case)| (&other.file, &other.title) == (&case.file, &case.title);
        if let Some((_, other)) = vectors[..index].iter().find(same) {
            let (file, line, other) = (&case.file, case.line, other.line);
            return Err(format!("{file}.jsonl:{line}: has the name of line {other}"));
        }
    }
    Ok(vectors)
}

impl Vector {
    fn case(&self, file: &str, line: usize) -> Result<Case, String> {
        let steps = self.steps.iter().map(|step| step.step(line));
        Ok(Case {
            file: file.to_owned(),
            title: self.name.clone(),
            line,
            ids: self.ids.clone(),
            config: self.config()?,
            whole_only: self.reads.as_deref() == Some("whole"),
            stream_only: self.reads.as_deref() == Some("stream"),
            differs_from_strict: self.differs_from_strict,
            steps: steps.collect::<Result<_, _>>()?,
        })
    }

    /// The words that the player's `config` line has for this.
    fn config(&self) -> Result<Vec<String>, String> {
        let mut words = vec![self.preset.clone()];
        match self.exchange.as_deref() {
            None => {}
            Some(side @ ("client" | "server")) => words.push(format!("{side}-exchange")),
            Some(other) => return Err(format!("no side of an exchange: {other}")),
        }
        match self.framing.as_str() {
            "any" => {}
            "newline" => words.push(String::from("framing=Newline")),
            "content-length" => words.push(String::from("framing=ContentLength")),
            "concatenated" => words.push(String::from("framing=Concatenated")),
            "messages" => words.push(String::from("framing=Messages")),
            "detect" => words.push(String::from("framing=Detect")),
            other => return Err(format!("no framing: {other}")),
        }
        for (name, value) in &self.settings {
            words.push(format!("{name}={}", bare(value)));
        }
        Ok(words)
    }
}

/// A string without its quotes, anything else as it is written.
fn bare(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

impl VectorStep {
    fn step(&self, line: usize) -> Result<Step, String> {
        let action = match (&self.receive, &self.command) {
            (Some(pieces), None) => {
                let pieces = pieces.iter().map(|piece| match piece {
                    Received::Message(text) => text.bytes().map(Piece::Body),
                    Received::Bytes(text) => text.bytes().map(Piece::Raw),
                });
                Action::Input(pieces.collect::<Result<_, _>>()?)
            }
            (None, Some(command)) => Action::Command(command.words()?),
            _ => return Err(String::from("a step either receives or does something")),
        };
        let events = self.events.iter().map(event_line);
        let sends = self.sends.iter().map(Text::text);
        let states = self.state.iter().map(state);
        Ok(Step {
            line,
            exchange: self.exchange,
            action,
            expected: Expected {
                events: events.collect::<Result<_, _>>()?,
                frames: sends.collect::<Result<_, _>>()?,
                raw: self.sends_bytes.as_ref().map(Text::bytes).transpose()?,
                states: states.collect::<Result<_, _>>()?,
            },
        })
    }
}

/// A getter by the player's name, and what it is to say.
fn state((name, value): (&String, &serde_json::Value)) -> Result<(String, String), String> {
    Ok(match name.as_str() {
        "calls_open" | "requests_open" => (name.clone(), value.to_string()),
        "closed" => {
            let is_closed = value.as_bool().ok_or("closed is true or false")?;
            let word = if is_closed { "yes" } else { "no" };
            (String::from("is_closed"), String::from(word))
        }
        "unsent_bytes" => (String::from("waiting"), value.to_string()),
        "wake_up_ms" if value.is_null() => (String::from("timeout"), String::from("never")),
        "wake_up_ms" => (String::from("timeout"), value.to_string()),
        _ => return Err(format!("no such state: {name}")),
    })
}

/// A method or message as one word of the player's commands.
fn word(text: &Text) -> Result<String, String> {
    let text = text.text()?;
    let is_plain = !text.starts_with('"');
    Ok(match is_plain {
        true => text,
        false => serde_json::Value::String(text).to_string(),
    })
}

impl Command {
    fn words(&self) -> Result<Vec<String>, String> {
        let mut words: Vec<String> = Vec::new();
        let mut push = |word: &str| words.push(word.to_owned());
        match self {
            Self::Call(call) => {
                push("call");
                push(&word(&call.method)?);
                if let Some(params) = &call.params {
                    push(&params.text()?);
                }
                if let Some(deadline) = call.deadline_ms {
                    push("deadline");
                    push(&deadline.to_string());
                }
                if let Some(id) = &call.id {
                    push("id");
                    push(&id.text()?);
                }
            }
            Self::Notify(notify) => {
                push("notify");
                push(&word(&notify.method)?);
                if let Some(params) = &notify.params {
                    push(&params.text()?);
                }
            }
            Self::Batch(batch) => {
                push("batch");
                if let Some(deadline) = batch.deadline_ms {
                    push("deadline");
                    push(&deadline.to_string());
                }
                for entry in &batch.entries {
                    let (kind, entry) = match entry {
                        Entry::Call(call) => ("call", call),
                        Entry::Notify(notify) => ("notify", notify),
                    };
                    push(kind);
                    push(&word(&entry.method)?);
                    if let Some(params) = &entry.params {
                        push(&params.text()?);
                    }
                }
            }
            Self::Cancel(of) => {
                push("cancel");
                push(&of.call.to_string());
            }
            Self::AskCancel(of) => {
                push("ask_cancel");
                push(&of.call.to_string());
                if let Some(reason) = &of.reason {
                    push(&word(&Text::Plain(reason.clone()))?);
                }
            }
            Self::SetDeadline(deadline) => {
                push("deadline");
                push(&deadline.call.to_string());
                match deadline.deadline_ms {
                    Some(millis) => push(&millis.to_string()),
                    None => push("never"),
                }
            }
            Self::Respond(respond) => {
                push("respond");
                push(&respond.id.text()?);
                push(&respond.result.text()?);
            }
            Self::RespondError(respond) => {
                push("respond_err");
                push(&respond.id.text()?);
                push(&respond.code.to_string());
                push(&word(&respond.message)?);
                if let Some(data) = &respond.data {
                    push(&data.text()?);
                }
            }
            Self::RespondCode(respond) => {
                push("respond_code");
                push(&respond.id.text()?);
                push(&respond.code.to_string());
            }
            Self::RespondUnknown(respond) => {
                push("respond_unknown");
                push(&respond.id.text()?);
                push(&word(&respond.method)?);
            }
            Self::RespondCancelled(of) => {
                push("respond_cancelled");
                push(&of.id.text()?);
            }
            Self::Time(time) => {
                push("time");
                push(&time.ms.to_string());
            }
            Self::EndOfInput(Nothing {}) => push("eof"),
            Self::Close(close) => {
                push("close");
                if let Some(reason) = &close.reason {
                    push(reason);
                }
            }
            Self::Drain(Nothing {}) => push("drain"),
        }
        Ok(words)
    }
}
