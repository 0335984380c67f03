//! The client: which messages of one subscription are new to the program.
//!
//! ```text
//!              New                       the program            the answer says true
//!   message ──────────▶ at the program ── is done ──▶ Acknowledging ──▶ (forgotten)
//!      ▲ └─ Repeat             │ gives it back
//!      └── sent again ── Returned, or at once: New
//! ```
//!
//! A message at or below the highest that was seen is done, unless it is listed here. So what is held does not grow
//! with the number of messages, but with those that the program has not finished.

use alloc::collections::BTreeMap;

use crate::json::{Json, to_u64};

/// Tells the new messages of a subscription from repeats, and notices what is missing. So each message is processed
/// once, although it is delivered at least once.
///
/// If the program keeps [`position`](Self::position) with what it has made of the messages, this holds across a restart
/// of the program, too.
///
/// ```
/// use antiphon::durable::{DurableReader, Received};
/// let mut reader = DurableReader::new();
/// reader.handle_subscribed(0);
/// assert_eq!(reader.handle_message(1), Received::New { missed: 0 });
/// reader.finish(1); // And the program calls `rpc.acknowledge.persistent`, but the connection is lost.
/// reader.handle_subscribed(0);
/// assert_eq!(reader.handle_message(1), Received::Repeat { acknowledge: true });
/// ```
#[derive(Debug)]
pub struct DurableReader {
    /// The highest sequence that was seen or passed. `None` until the first answer.
    highest: Option<u64>,
    open: BTreeMap<u64, State>,
    max_open: usize,
    /// The first and the last sequence of a run of messages that were refused. What comes behind it is refused, too,
    /// until all of the run have come again: otherwise they would pass for messages that were seen.
    refused: Option<(u64, u64)>,
    /// The lowest behind the first of that run which has come since that one, and how many have come since then.
    passed: Option<(u64, u64)>,
    /// The highest sequence that came on this connection, or after which that has begun.
    seen: u64,
    /// Everything up to it is acknowledged for certain.
    confirmed: u64,
    is_attached: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    AtProgram,
    Returned,
    Acknowledging,
}

/// What a message is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// The program gets it. So many messages just before it are missing: they were removed from the topic, or another
    /// consumer has acknowledged them.
    New {
        /// How many.
        missed: u64,
    },
    /// It is to be dropped.
    Repeat {
        /// Whether to acknowledge it again: the program has finished it. If not, the program still has it.
        acknowledge: bool,
    },
    /// The program has as many unfinished messages as it may have. This one is to be dropped; it is sent again.
    Full,
}

/// What the answer to a subscribe shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resumed {
    /// Delivery goes on where it was.
    InOrder,
    /// It goes on further ahead: so many messages were acknowledged by another consumer.
    Skipped {
        /// How many.
        missed: u64,
    },
    /// It goes on before what was acknowledged: the server has lost messages or the position. Sequences may be used
    /// again, so what comes now counts as new.
    Rewound,
}

impl DurableReader {
    /// Begins wherever the server does, with at most 1024 unfinished messages, each of about 50 bytes here.
    pub const fn new() -> Self {
        Self {
            highest: None,
            open: BTreeMap::new(),
            max_open: 1024,
            refused: None,
            passed: None,
            seen: 0,
            confirmed: 0,
            is_attached: false,
        }
    }

    /// Begins behind a [position](Self::position) that the program has kept.
    pub fn at(position: u64) -> Self {
        Self {
            highest: Some(position),
            ..Self::new()
        }
    }

    /// Sets how many messages the program may have unfinished. Less than the window of the server makes no sense.
    #[must_use]
    pub fn with_max_open(self, max_open: usize) -> Self {
        Self { max_open, ..self }
    }

    /// Reads `resumed_from_sequence` from the result of `rpc.subscribe.persistent`.
    pub fn resumed_from(result: Json<'_>) -> Option<u64> {
        to_u64(result.get("resumed_from_sequence")?.as_bytes())
    }

    /// Takes the answer to a subscribe, the first or one after a reconnect.
    pub fn handle_subscribed(&mut self, resumed_from: u64) -> Resumed {
        (self.is_attached, self.seen) = (true, resumed_from);
        (self.refused, self.passed) = (None, None);
        let highest = self.highest.unwrap_or(resumed_from);
        if resumed_from < self.confirmed {
            self.open.clear();
            self.confirmed = resumed_from;
            self.highest = Some(resumed_from);
            return Resumed::Rewound;
        }
        self.pass(1, resumed_from);
        self.highest = Some(highest.max(resumed_from));
        self.confirm();
        match resumed_from.saturating_sub(highest) {
            0 => Resumed::InOrder,
            missed => Resumed::Skipped { missed },
        }
    }

    /// Takes a message.
    pub fn handle_message(&mut self, sequence: u64) -> Received {
        self.handle_limited(sequence, true)
    }

    /// Takes a message, for which the owner has no space if `has_space` is false: then it is not new to the program.
    pub fn handle_limited(&mut self, sequence: u64, has_space: bool) -> Received {
        let has_space = has_space && self.open.len() < self.max_open;
        if sequence > self.seen {
            // The server sends in order, so it does not send what is between any more.
            self.pass(self.seen + 1, sequence - 1);
            self.seen = sequence;
        }
        let highest = self.highest.unwrap_or(sequence.saturating_sub(1));
        let is_new = sequence > highest;
        match self.open.get(&sequence) {
            Some(State::AtProgram) => return Received::Repeat { acknowledge: false },
            Some(State::Acknowledging) => return Received::Repeat { acknowledge: true },
            None if !is_new => {
                if self.open.len() < self.max_open {
                    self.open.insert(sequence, State::Acknowledging);
                }
                return Received::Repeat { acknowledge: true };
            }
            _ => {}
        }
        let beyond = self.refused.filter(|(first, _)| sequence > *first);
        if let Some((first, last)) = beyond {
            let is_next = self.shows_end(sequence, last - first);
            if !is_next || !has_space {
                self.refused = Some((first, last.max(sequence)));
                return Received::Full;
            }
        } else if !has_space {
            if is_new {
                let (first, last) = self.refused.unwrap_or((sequence, sequence));
                (self.refused, self.passed) = (Some((first.min(sequence), last)), None);
            }
            // If it is not new, the program gave it back, which is remembered.
            return Received::Full;
        }
        if is_new {
            let behind = |(first, last)| (sequence.saturating_add(1).max(first), last);
            let left = self.refused.map(behind);
            (self.refused, self.passed) = (left.filter(|(first, last)| first <= last), None);
        }
        self.accept(sequence, highest)
    }

    /// Whether a message behind the first of a refused run shows that all before it are gone: between two times that
    /// it comes, all before it would have come once. The lowest that has come since the first is watched, until more have
    /// come than there are.
    fn shows_end(&mut self, sequence: u64, others: u64) -> bool {
        let (lowest, count) = self.passed.unwrap_or((u64::MAX, 0));
        let is_new_lowest = sequence < lowest || sequence > lowest && count >= others;
        self.passed = Some(match is_new_lowest {
            true => (sequence, 1),
            false => (lowest, count + 1),
        });
        sequence == lowest
    }

    fn accept(&mut self, sequence: u64, highest: u64) -> Received {
        self.open.insert(sequence, State::AtProgram);
        self.highest = Some(highest.max(sequence));
        let missed = sequence.saturating_sub(highest).saturating_sub(1);
        Received::New { missed }
    }

    /// Notes that the program has finished a message, which it then acknowledges.
    pub fn finish(&mut self, sequence: u64) {
        if let Some(state) = self.open.get_mut(&sequence) {
            *state = State::Acknowledging;
        }
    }

    /// Notes that the program has dropped a message unfinished: it is new again when the server sends it again.
    pub fn give_back(&mut self, sequence: u64) {
        let state = self.open.get_mut(&sequence);
        if let Some(state) = state.filter(|state| **state == State::AtProgram) {
            *state = State::Returned;
        }
    }

    /// Takes the answer to an acknowledgement. Returns false if another consumer has the subscription: it was
    /// refused (−32602, or `success` is false) although the message came on this connection. Then nothing more comes,
    /// until the program subscribes again.
    pub fn handle_acknowledged(&mut self, sequence: u64, success: bool) -> bool {
        if success {
            self.open.remove(&sequence);
            self.confirm();
        }
        // One that came on an earlier connection may be refused until it is sent again.
        self.is_attached &= success || sequence > self.seen;
        self.is_attached
    }

    /// Notes that the connection is lost. What the program has, it may finish; it is acknowledged when the server
    /// sends it again.
    pub fn handle_disconnected(&mut self) {
        self.is_attached = false;
    }

    /// Whether messages come.
    pub const fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// The sequence up to which the program has finished everything.
    pub fn position(&self) -> u64 {
        let unfinished = |(_, state): &(&u64, &State)| **state != State::Acknowledging;
        let first = self.open.iter().find(unfinished).map(|(first, _)| *first);
        self.before(first)
    }

    /// How many messages are not finished or not acknowledged.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Forgets what is acknowledged or lost. What the program has, it finishes.
    fn pass(&mut self, first: u64, last: u64) {
        self.open.retain(|sequence, state| {
            !(first..=last).contains(sequence) || *state == State::AtProgram
        });
    }

    fn confirm(&mut self) {
        let first = self.open.first_key_value().map(|(first, _)| *first);
        let confirmed = self.before(first).min(self.seen);
        self.confirmed = self.confirmed.max(confirmed);
    }

    fn before(&self, first: Option<u64>) -> u64 {
        let highest = self.highest.unwrap_or_default();
        first.map_or(highest, |first| first.saturating_sub(1).min(highest))
    }
}

impl Default for DurableReader {
    fn default() -> Self {
        Self::new()
    }
}
