//! What a session was told and what it said, kept apart from it: the oracle.
//!
//! Messages carry numbers that grow in the order in which a side hands them over, so a message that
//! begins out of order or twice shows by its number.

use std::collections::BTreeMap;

use antiphon::session::Phase;
use antiphon::{CallId, Instant, OwnedOutcome};

use super::checks::{Check, Checked};
use super::pipe::{Ears, WireKind};
use crate::observer::{Item, ItemKind};
use crate::skim;

/// A request or a notification that has arrived and has not begun.
#[derive(Debug)]
struct Arrived {
    /// The id of a request; `None` for a notification.
    id: Option<String>,
}

/// What became of a request that has arrived.
#[derive(Debug, Default)]
struct Asked {
    answers: usize,
    is_cancelled: bool,
}

/// A call that has not settled.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) call: Option<CallId>,
    pub(super) deadline: Option<Instant>,
    /// The peer was asked to give it up.
    pub(super) is_unwanted: bool,
}

/// How a call has settled: what the rest of the simulation needs of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Ok(Option<u64>),
    Err,
    TimedOut,
    Unsent,
    Aborted,
    Other,
}

impl From<&OwnedOutcome> for Ending {
    fn from(outcome: &OwnedOutcome) -> Self {
        match outcome {
            OwnedOutcome::Ok(result) => Self::Ok(skim::mark(result.as_str().as_bytes())),
            OwnedOutcome::Err(_) => Self::Err,
            OwnedOutcome::TimedOut => Self::TimedOut,
            OwnedOutcome::Unsent => Self::Unsent,
            OwnedOutcome::Aborted => Self::Aborted,
            _ => Self::Other,
        }
    }
}

/// The records of one session.
#[derive(Debug)]
pub(super) struct Book {
    /// Open calls by their number.
    pub(super) open: BTreeMap<u64, Open>,
    /// Reads what arrives.
    heard: Ears,
    /// Reads what leaves.
    said: Ears,
    /// What arrives is not known any more: something was put in that the other side did not say.
    pub(super) is_deaf: bool,
    /// The connection takes nothing new.
    pub(super) is_draining: bool,
    /// What has arrived and has not begun, by its number.
    arrived: BTreeMap<u64, Arrived>,
    /// Every request that has arrived, by its id.
    asked: BTreeMap<String, Asked>,
    /// The number of the work that began last.
    last_begun: u64,
    /// How many messages the session has reported as dropped.
    pub(super) dropped: u64,
    /// The session drops messages when its queue is full.
    pub(super) may_drop: bool,
    /// A cancelled request gets no answer.
    cancel_is_silent: bool,
}

impl Book {
    pub(super) fn new(wire: WireKind, may_drop: bool, cancel_is_silent: bool) -> Self {
        Self {
            open: BTreeMap::new(),
            heard: Ears::new(wire),
            said: Ears::new(wire),
            is_deaf: false,
            is_draining: false,
            arrived: BTreeMap::new(),
            asked: BTreeMap::new(),
            last_begun: 0,
            dropped: 0,
            may_drop,
            cancel_is_silent,
        }
    }

    /// A call has settled, when the session had been told this time.
    pub(super) fn settle(&mut self, number: u64, how: Ending, told: Instant) -> Checked {
        let Some(open) = self.open.remove(&number) else {
            return Err(Check::SettlesOnce.broken(format!("call {number} was not open: {how:?}")));
        };
        let is_own = !matches!(how, Ending::Ok(mark) if mark != Some(number));
        Check::RightAnswer.that(is_own, || format!("call {number} got {how:?}"))?;
        let is_late = open.deadline.is_some_and(|deadline| deadline <= told);
        Check::NotEarly.that(how != Ending::TimedOut || is_late, || {
            format!(
                "call {number}, due {:?}, timed out at {told:?}",
                open.deadline
            )
        })
    }

    /// Input that the session is about to take.
    pub(super) fn hear(&mut self, bytes: &[u8], phase: Phase) {
        if self.is_deaf {
            return;
        }
        match self.heard.hear(bytes) {
            Ok(items) => self.note(items, phase),
            Err(_) => self.is_deaf = true,
        }
    }

    pub(super) fn hear_end(&mut self, phase: Phase) {
        if !self.is_deaf {
            self.note(self.heard.hear_end(), phase);
        }
    }

    fn note(&mut self, items: Vec<Item>, phase: Phase) {
        let is_taken = matches!(
            phase,
            Phase::Opening | Phase::Open | Phase::Draining | Phase::LastWords { .. }
        );
        for item in items {
            let is_cancel = item.method.contains("ancel");
            match (item.kind, item.mark) {
                (ItemKind::Notification, Some(mark)) if is_cancel => {
                    if let Some(asked) = self.asked.get_mut(&mark.to_string()) {
                        asked.is_cancelled = true;
                    }
                }
                (ItemKind::Request | ItemKind::Notification, Some(mark)) if is_taken => {
                    if let Some(id) = &item.id {
                        self.asked.insert(id.clone(), Asked::default());
                    }
                    if !self.is_draining {
                        self.arrived.insert(mark, Arrived { id: item.id });
                    }
                }
                _ => {}
            }
        }
    }

    /// How many notifications have arrived and were not handed out; 0 if that is not known.
    pub(super) fn waiting(&self) -> usize {
        let is_known = !self.is_deaf && !self.may_drop;
        let waiting = self.arrived.values().filter(|arrived| arrived.id.is_none());
        waiting.count() * usize::from(is_known)
    }

    /// A request or notification is handed out to be served.
    pub(super) fn begin(&mut self, number: u64) -> Checked {
        let last = std::mem::replace(&mut self.last_begun, number);
        self.arrived.remove(&number);
        Check::OrderKept.that(last < number, || format!("{number} began after {last}"))
    }

    /// Output that has left the session.
    pub(super) fn say(&mut self, bytes: &[u8]) -> Checked {
        let items = self.said.hear(bytes);
        for item in items.map_err(|why| Check::OutputReadable.broken(why))? {
            let (ItemKind::Ok | ItemKind::Err(_), Some(id)) = (item.kind, item.id) else {
                continue;
            };
            // Only what the network puts in has strings as ids.
            if self.is_deaf || id == "null" || id.starts_with('"') {
                continue;
            }
            let Some(asked) = self.asked.get_mut(&id) else {
                return Err(Check::AnsweredOnce.broken(format!("{id} was not asked")));
            };
            asked.answers += 1;
            let is_first = asked.answers == 1;
            Check::AnsweredOnce.that(is_first, || format!("{id} was answered twice"))?;
        }
        Ok(())
    }

    /// How many bytes of messages have left the session, as the connection counts them.
    pub(super) fn taken(&self) -> u64 {
        self.said.heard
    }

    /// Whether the next thing to begin may be a request: true, too, if that is not known.
    pub(super) fn may_be_request_next(&self) -> bool {
        let is_over = |arrived: &Arrived| {
            let asked = arrived.id.as_ref().and_then(|id| self.asked.get(id));
            asked.is_some_and(|asked| asked.answers > 0 || asked.is_cancelled)
        };
        let mut later = self.arrived.range(self.last_begun + 1..);
        let next = later.find(|(_, arrived)| !is_over(arrived));
        let is_request = next.is_some_and(|(_, arrived)| arrived.id.is_some());
        self.is_deaf || self.may_drop || is_request
    }

    /// Checks, when all is at rest and the session goes on, that everything that has arrived was
    /// answered, cancelled, begun or dropped.
    pub(super) fn nothing_is_lost(&self) -> Checked {
        if self.is_deaf {
            return Ok(());
        }
        let is_answered = |id: &String| {
            let asked = &self.asked[id];
            asked.answers == 1 || (asked.is_cancelled && self.cancel_is_silent)
        };
        if let Some(id) = self.asked.keys().find(|id| !is_answered(id)) {
            return Err(Check::NothingLost.broken(format!("request {id} has no answer")));
        }
        let is_notification = |(_, arrived): &(&u64, &Arrived)| arrived.id.is_none();
        let lost = self.arrived.iter().filter(is_notification);
        let lost: Vec<u64> = lost.map(|(number, _)| *number).collect();
        let is_counted = self.may_drop && lost.len() as u64 <= self.dropped;
        Check::NothingLost.that(lost.is_empty() || is_counted, || {
            format!("{lost:?} never began, and {} were dropped", self.dropped)
        })
    }
}
