//! Counts how often everything has happened that can happen. What has never happened was not
//! tested.
//!
//! Rule: every variant of every public enum that a driver can meet is in the catalogue, and a run
//! of enough seeds in which one of them never occurred fails.

use std::collections::BTreeMap;

use antiphon::{
    CloseReason, Closed, ConnectionError, FramingError, InvalidReason, MalformedCause,
    RefusedCause, SendError, SyntaxErrorKind, UnmatchedKind,
};

/// From this many seeds on, something that never occurred fails the run.
pub const SEEDS_ENFORCED: u64 = 2000;

/// Everything that is counted, in groups.
pub const CATALOGUE: &[(&str, &[&str])] = &[
    (
        "fault",
        &[
            "fault: write split",
            "fault: read split",
            "fault: byte by byte",
            "fault: stall",
            "fault: window full",
            "fault: cut",
            "fault: cut loses bytes",
            "fault: half-close",
            "fault: message lost before it left",
            "fault: clock stands still",
            "fault: clock steps back",
            "fault: reading stops half way",
            "fault: reopened",
            "fault: overtaken",
            "fault: oversized for the transport",
            "fault: garbage",
            "fault: damaged message",
            "fault: unfinished message",
            "fault: flood",
            "fault: builder dropped",
            "fault: builder leaked",
        ],
    ),
    (
        "handler",
        &[
            "handler: at once",
            "handler: error",
            "handler: late",
            "handler: dropped the token",
            "handler: never",
            "handler: twice",
            "handler: unserialisable",
            "handler: calls back",
            "handler: forwards",
            "handler: floods",
            "handler: long answer",
            "handler: too large",
            "handler: unknown method",
            "handler: data dropped",
            "handler: after cancel",
            "handler: cancelled code",
            "handler: foreign connection",
            "handler: after close",
        ],
    ),
    (
        "event",
        &[
            "event: request",
            "event: notification",
            "event: response",
            "event: cancelled",
            "event: malformed",
            "event: refused",
            "event: unmatched",
            "event: closed",
            "event: request in a batch",
            "event: cancelled, answer owed",
            "event: cancelled, no answer owed",
        ],
    ),
    (
        "outcome",
        &[
            "outcome: ok",
            "outcome: error",
            "outcome: invalid",
            "outcome: timed out",
            "outcome: missing",
            "outcome: unsent",
            "outcome: aborted",
            "outcome: cancelled here",
        ],
    ),
    (
        "closed",
        &[
            "closed: end of input",
            "closed: done",
            "closed: going away",
            "closed: peer misbehaved",
            "closed: transport failed",
            "closed: other",
            "closed: drained",
            "closed: truncated",
            "closed: frame timed out",
            "closed: write timed out",
            "closed: drain timed out",
            "closed: outbox full",
            "closed: too many unmatched",
            "closed: too many malformed",
            "closed: not a header",
            "closed: header too long",
            "closed: length missing",
            "closed: length invalid",
            "closed: length contradictory",
            "closed: charset unsupported",
        ],
    ),
    (
        "malformed",
        &[
            "malformed: call",
            "malformed: response",
            "syntax: empty",
            "syntax: unexpected byte",
            "syntax: unexpected end",
            "syntax: invalid utf-8",
            "syntax: bad escape",
            "syntax: bad number",
            "syntax: control character",
            "syntax: too deep",
            "syntax: trailing data",
        ],
    ),
    (
        "invalid",
        &[
            "invalid: not an object",
            "invalid: empty batch",
            "invalid: batches off",
            "invalid: repeated member",
            "invalid: version",
            "invalid: unrecognisable",
            "invalid: method type",
            "invalid: method text",
            "invalid: params type",
            "invalid: params by name",
            "invalid: id type",
            "invalid: id missing",
            "invalid: v1 in batch",
            "invalid: no outcome",
            "invalid: both outcomes",
            "invalid: error shape",
        ],
    ),
    (
        "refused",
        &[
            "refused: busy",
            "refused: draining",
            "refused: too large",
            "refused: batch too long",
            "refused: id too long",
            "refused: method too long",
            "refused: repeated id",
            "refused: null id",
        ],
    ),
    (
        "unmatched",
        &[
            "unmatched: late",
            "unmatched: cancelled",
            "unmatched: unknown",
            "unmatched: null id",
            "unmatched: cancel",
        ],
    ),
    (
        "command error",
        &[
            "error: closed",
            "error: full",
            "error: too many calls",
            "error: too large",
            "error: ids used up",
            "error: id in use",
            "error: id not allowed",
            "error: blank method",
            "error: params scalar",
            "error: params by name",
            "error: encode",
            "error: not open",
            "error: no push",
            "error: batches off",
            "error: batch too long",
            "error: batch empty",
            "error: reserved code",
        ],
    ),
    (
        "code",
        &[
            "code: -32700",
            "code: -32600",
            "code: -32601",
            "code: -32602",
            "code: -32603",
            "code: -32000",
            "code: -32001",
            "code: -32002",
            "code: -32003",
            "code: -32004",
            "code: -32005",
            "code: -32007",
            "code: -32009",
            "code: -32800",
            "code: application",
        ],
    ),
];

/// Occurrences by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    seen: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// One more of `name`.
    pub fn add(&mut self, name: &'static str) {
        *self.seen.entry(name).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.seen {
            *self.seen.entry(name).or_default() += count;
        }
    }

    /// How often `name` occurred.
    pub fn of(&self, name: &str) -> u64 {
        self.seen.get(name).copied().unwrap_or_default()
    }

    /// What of the catalogue never occurred.
    pub fn zeros(&self) -> Vec<&'static str> {
        let all = CATALOGUE.iter().flat_map(|(_, names)| names.iter());
        all.copied().filter(|name| self.of(name) == 0).collect()
    }

    /// What occurred and is not in the catalogue.
    pub fn unnamed(&self) -> Vec<&'static str> {
        let known = |name: &&str| CATALOGUE.iter().any(|(_, names)| names.contains(name));
        self.seen
            .keys()
            .copied()
            .filter(|name| !known(name))
            .collect()
    }

    /// Prints all of the catalogue with its counts, line by line.
    pub fn print(&self, mut line: impl FnMut(&str)) {
        for (group, names) in CATALOGUE {
            line(&format!("  {group}"));
            for name in *names {
                line(&format!("    {:>12}  {name}", self.of(name)));
            }
        }
    }
}

/// The name of a code in an error that was sent or received.
pub fn code(code: i64) -> &'static str {
    match code {
        -32700 => "code: -32700",
        -32600 => "code: -32600",
        -32601 => "code: -32601",
        -32602 => "code: -32602",
        -32603 => "code: -32603",
        -32000 => "code: -32000",
        -32001 => "code: -32001",
        -32002 => "code: -32002",
        -32003 => "code: -32003",
        -32004 => "code: -32004",
        -32005 => "code: -32005",
        -32007 => "code: -32007",
        -32009 => "code: -32009",
        -32800 => "code: -32800",
        _ => "code: application",
    }
}

/// The name of the reason for an end.
pub fn closed(why: Closed) -> &'static str {
    match why {
        Closed::EndOfInput => "closed: end of input",
        Closed::Local(CloseReason::Done) => "closed: done",
        Closed::Local(CloseReason::GoingAway) => "closed: going away",
        Closed::Local(CloseReason::PeerMisbehaved) => "closed: peer misbehaved",
        Closed::Local(CloseReason::TransportFailed) => "closed: transport failed",
        Closed::Local(CloseReason::Other(_)) => "closed: other",
        Closed::Drained => "closed: drained",
        Closed::Failed(error) => match error {
            ConnectionError::Truncated => "closed: truncated",
            ConnectionError::MessageTimedOut => "closed: frame timed out",
            ConnectionError::WriteTimedOut => "closed: write timed out",
            ConnectionError::DrainTimedOut => "closed: drain timed out",
            ConnectionError::OutboxFull => "closed: outbox full",
            ConnectionError::TooManyUnmatched => "closed: too many unmatched",
            ConnectionError::TooManyMalformed => "closed: too many malformed",
            ConnectionError::Framing(error) => match error {
                FramingError::NotAHeader { .. } => "closed: not a header",
                FramingError::HeaderTooLong { .. } => "closed: header too long",
                FramingError::LengthMissing { .. } => "closed: length missing",
                FramingError::LengthInvalid { .. } => "closed: length invalid",
                FramingError::LengthContradictory { .. } => "closed: length contradictory",
                FramingError::CharsetUnsupported { .. } => "closed: charset unsupported",
                // `FramingError::Truncated` is told as `ConnectionError::Truncated`.
                _ => "closed: unnamed framing error",
            },
            _ => "closed: unnamed failure",
        },
        _ => "closed: unnamed",
    }
}

/// The name of a malformed message's cause and, if it is valid JSON, of the rule that it breaks.
pub fn malformed(cause: MalformedCause) -> (&'static str, Option<&'static str>) {
    match cause {
        MalformedCause::Call(reason) => ("malformed: call", Some(invalid(reason))),
        MalformedCause::Response(reason) => ("malformed: response", Some(invalid(reason))),
        MalformedCause::Syntax(error) => (
            match error.kind() {
                SyntaxErrorKind::Empty => "syntax: empty",
                SyntaxErrorKind::UnexpectedByte => "syntax: unexpected byte",
                SyntaxErrorKind::UnexpectedEnd => "syntax: unexpected end",
                SyntaxErrorKind::InvalidUtf8 => "syntax: invalid utf-8",
                SyntaxErrorKind::BadEscape => "syntax: bad escape",
                SyntaxErrorKind::BadNumber => "syntax: bad number",
                SyntaxErrorKind::ControlCharacter => "syntax: control character",
                SyntaxErrorKind::TooDeep => "syntax: too deep",
                SyntaxErrorKind::TrailingData => "syntax: trailing data",
                // `TooLong` is for texts of 4 GiB.
                _ => "syntax: unnamed",
            },
            None,
        ),
        _ => ("malformed: unnamed", None),
    }
}

/// The name of the rule that an invalid message breaks.
pub fn invalid(reason: InvalidReason) -> &'static str {
    match reason {
        InvalidReason::NotAnObject => "invalid: not an object",
        InvalidReason::EmptyBatch => "invalid: empty batch",
        InvalidReason::BatchesOff => "invalid: batches off",
        InvalidReason::RepeatedMember => "invalid: repeated member",
        InvalidReason::Version => "invalid: version",
        InvalidReason::Unrecognisable => "invalid: unrecognisable",
        InvalidReason::MethodType => "invalid: method type",
        InvalidReason::MethodText => "invalid: method text",
        InvalidReason::ParamsType => "invalid: params type",
        InvalidReason::ParamsByName => "invalid: params by name",
        InvalidReason::IdType => "invalid: id type",
        InvalidReason::IdMissing => "invalid: id missing",
        InvalidReason::V1InBatch => "invalid: v1 in batch",
        InvalidReason::NoOutcome => "invalid: no outcome",
        InvalidReason::BothOutcomes => "invalid: both outcomes",
        InvalidReason::ErrorShape => "invalid: error shape",
        _ => "invalid: unnamed",
    }
}

/// The name of the reason for a refusal.
pub fn refused(cause: RefusedCause) -> &'static str {
    match cause {
        RefusedCause::Busy => "refused: busy",
        RefusedCause::Draining => "refused: draining",
        RefusedCause::TooLarge { .. } => "refused: too large",
        RefusedCause::BatchTooLong { .. } => "refused: batch too long",
        RefusedCause::IdTooLong => "refused: id too long",
        RefusedCause::MethodTooLong => "refused: method too long",
        RefusedCause::RepeatedId => "refused: repeated id",
        RefusedCause::NullId => "refused: null id",
        _ => "refused: unnamed",
    }
}

/// The name of an unmatched response.
pub fn unmatched(kind: &UnmatchedKind<'_>) -> &'static str {
    match kind {
        UnmatchedKind::Late(_) => "unmatched: late",
        UnmatchedKind::Cancelled(_) => "unmatched: cancelled",
        UnmatchedKind::Unknown(_) => "unmatched: unknown",
        UnmatchedKind::NullId(_) => "unmatched: null id",
        UnmatchedKind::Cancel => "unmatched: cancel",
        _ => "unmatched: unnamed",
    }
}

/// The name of a refused command's reason.
pub fn command(error: &SendError) -> &'static str {
    match error {
        SendError::Closed => "error: closed",
        SendError::Full => "error: full",
        SendError::TooManyCalls => "error: too many calls",
        SendError::TooLarge => "error: too large",
        SendError::IdsUsedUp => "error: ids used up",
        SendError::IdInUse => "error: id in use",
        SendError::IdNotAllowed => "error: id not allowed",
        SendError::BlankMethod => "error: blank method",
        SendError::ParamsScalar => "error: params scalar",
        SendError::ParamsByName => "error: params by name",
        SendError::Encode(_) => "error: encode",
        SendError::NotOpen => "error: not open",
        SendError::NoPush => "error: no push",
        SendError::BatchesOff => "error: batches off",
        SendError::BatchTooLong => "error: batch too long",
        SendError::BatchEmpty => "error: batch empty",
        SendError::ReservedCode => "error: reserved code",
        SendError::Interceptor => "error: interceptor",
        _ => "error: unnamed",
    }
}
