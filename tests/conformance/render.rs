//! Writes events as the lines that scripts expect.
//!
//! Some have two forms: with and without the offset of a fault, or the size that was refused. A script
//! may leave these out.

use antiphon::{
    CloseReason, Closed, ConnectionError, ErrorObject, FramingError, Json, MalformedCause, Origin,
    Outcome, RefusedCause,
};

/// One event that was observed, as a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) line: String,
    /// `line` with the offset of the fault, or with the size or count that was refused, where
    /// there is one.
    pub(crate) with_offset: Option<String>,
}

impl Shown {
    /// Raw line breaks, which JSON may have between its tokens, show as `\n` and `\r`.
    pub(crate) fn keep_to_one_line(&mut self) {
        for line in [Some(&mut self.line), self.with_offset.as_mut()] {
            if let Some(line) = line.filter(|line| line.contains(['\n', '\r'])) {
                *line = line.replace('\n', "\\n").replace('\r', "\\r");
            }
        }
    }

    pub(crate) fn matches(&self, expected: &str) -> bool {
        self.line == expected || self.with_offset.as_deref() == Some(expected)
    }
}

impl From<String> for Shown {
    fn from(line: String) -> Self {
        Self {
            line,
            with_offset: None,
        }
    }
}

/// A method: bare where it can be told from the words around it, else as a JSON string.
pub(crate) fn method(name: &str) -> String {
    let is_bare = !name.is_empty()
        && name
            .chars()
            .all(|c| !c.is_whitespace() && !c.is_control() && !"\"[]{}".contains(c));
    if is_bare {
        name.to_owned()
    } else {
        quoted(name)
    }
}

pub(crate) fn quoted(text: &str) -> String {
    // A string has a JSON form.
    serde_json::to_string(text).unwrap()
}

/// ` [1,2]`, or nothing.
pub(crate) fn params(params: Option<Json<'_>>) -> String {
    params.map_or(String::new(), |params| format!(" {}", params.as_str()))
}

/// ` @2` for the third item of a batch.
pub(crate) fn place(origin: Origin) -> String {
    origin
        .batch_index
        .map_or(String::new(), |index| format!(" @{index}"))
}

pub(crate) fn error(error: &ErrorObject<'_>) -> String {
    let data = error
        .data()
        .map_or(String::new(), |data| format!(" data {}", data.as_str()));
    format!("err {} {}{data}", error.code(), quoted(error.message()))
}

pub(crate) fn outcome(outcome: &Outcome<'_>) -> String {
    match outcome {
        Outcome::Ok(result) => format!("ok {}", result.as_str()),
        Outcome::Err(object) => error(object),
        Outcome::Invalid(invalid) => format!("invalid {:?}", invalid.reason),
        Outcome::TimedOut => String::from("timed-out"),
        Outcome::Missing => String::from("missing"),
        Outcome::Unsent => String::from("unsent"),
        Outcome::Aborted => String::from("aborted"),
        other => format!("{other:?}"),
    }
}

pub(crate) fn malformed(cause: MalformedCause) -> String {
    match cause {
        MalformedCause::Syntax(error) => format!("syntax {:?}", error.kind()),
        MalformedCause::Call(reason) => format!("call {reason:?}"),
        MalformedCause::Response(reason) => format!("response {reason:?}"),
        other => format!("{other:?}"),
    }
}

/// The cause, and its size or count. `TooLarge` has none where the framing does not declare it.
pub(crate) fn refused(cause: RefusedCause) -> (String, Option<u64>) {
    match cause {
        RefusedCause::TooLarge { bytes, .. } => (String::from("TooLarge"), bytes),
        RefusedCause::BatchTooLong { items } => (String::from("BatchTooLong"), Some(items as u64)),
        other => (format!("{other:?}"), None),
    }
}

/// ` answered -32600`, or ` unanswered`.
pub(crate) fn answered(code: Option<i64>) -> String {
    match code {
        Some(code) => format!(" answered {code}"),
        None => String::from(" unanswered"),
    }
}

pub(crate) fn closed(closed: Closed) -> Shown {
    let line = match closed {
        Closed::EndOfInput => String::from("closed end-of-input"),
        Closed::Local(CloseReason::Other(words)) => format!("closed local {}", quoted(words)),
        Closed::Local(reason) => format!("closed local {reason:?}"),
        Closed::Drained => String::from("closed drained"),
        Closed::Failed(ConnectionError::Framing(error)) => {
            let kind = match error {
                FramingError::NotAHeader { .. } => "NotAHeader",
                FramingError::HeaderTooLong { .. } => "HeaderTooLong",
                FramingError::LengthMissing { .. } => "LengthMissing",
                FramingError::LengthInvalid { .. } => "LengthInvalid",
                FramingError::LengthContradictory { .. } => "LengthContradictory",
                FramingError::CharsetUnsupported { .. } => "CharsetUnsupported",
                _ => "Framing",
            };
            let line = format!("closed failed {kind}");
            let with_offset = Some(format!("{line} at {}", error.offset()));
            return Shown { line, with_offset };
        }
        Closed::Failed(error) => format!("closed failed {error:?}"),
        other => format!("closed {other:?}"),
    };
    line.into()
}
