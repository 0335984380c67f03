//! The invariants of a session, each with its own name, and the report of a broken one.

use std::fmt;

/// One invariant of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Every call settles exactly once.
    SettlesOnce,
    /// A result settles the call that it answers, and no other.
    RightAnswer,
    /// No call times out before its deadline.
    NotEarly,
    /// No request is answered twice, and nothing is answered that was not asked.
    AnsweredOnce,
    /// While a session goes on, everything that has arrived is begun, refused with an answer,
    /// cancelled, or counted as dropped.
    NothingLost,
    /// Work is begun in the order in which it was sent, and not before what it has to wait for has
    /// ended.
    OrderKept,
    /// Work that has nothing to wait for is handed out.
    NothingHeld,
    /// A request is begun only if the shell allows it, and no notification while an earlier request
    /// is postponed.
    BegunWhenAllowed,
    /// No more requests of an application run at once than it may run, whatever their links.
    ServerBounded,
    /// Once the time has been told, the next wake-up lies in the future.
    NextWakeUp,
    /// No output is handed out before the session was told that the last was written.
    OneWrite,
    /// The session calls a message written exactly when all bytes up to its end are.
    MarksTrue,
    /// The simulator's own reader can read what leaves.
    OutputReadable,
    /// A session goes through its phases as the picture in `src/session/phase.rs` shows, and the
    /// reason and the time of its end do not change.
    PhaseForward,
    /// Nothing is open, written or waited for once a session is over, and it stays so.
    OverIsOver,
    /// Reading pauses only if the settings say so, and only while no call waits for an answer.
    PausesRightly,
    /// A session holds no more memory, and no more messages, than its limits allow.
    MemoryBounded,
    /// Once all is healed every call settles within the bound.
    SettlesInTime,
    /// A session that is drained, closed or cut is over within the bound, and one that drains ends
    /// as soon as nothing is open.
    EndsInTime,
    /// A seed that is played twice gives two equal runs.
    Deterministic,
    /// Nothing panics.
    NoPanic,
}

impl Check {
    /// All of them.
    pub const ALL: [Check; 21] = [
        Check::SettlesOnce,
        Check::RightAnswer,
        Check::NotEarly,
        Check::AnsweredOnce,
        Check::NothingLost,
        Check::OrderKept,
        Check::NothingHeld,
        Check::BegunWhenAllowed,
        Check::ServerBounded,
        Check::NextWakeUp,
        Check::OneWrite,
        Check::MarksTrue,
        Check::OutputReadable,
        Check::PhaseForward,
        Check::OverIsOver,
        Check::PausesRightly,
        Check::MemoryBounded,
        Check::SettlesInTime,
        Check::EndsInTime,
        Check::Deterministic,
        Check::NoPanic,
    ];

    pub(super) fn broken(self, why: impl Into<String>) -> Broken {
        let why = why.into();
        Broken { check: self, why }
    }

    pub(super) fn that(self, holds: bool, why: impl FnOnce() -> String) -> Checked {
        match holds {
            true => Ok(()),
            false => Err(self.broken(why())),
        }
    }
}

/// An invariant that did not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which.
    pub check: Check,
    /// What was seen.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.why)
    }
}

pub(super) type Checked = Result<(), Broken>;
