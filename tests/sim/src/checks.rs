//! The invariants, each with its own name, and the report of a broken one.

use std::fmt;

/// One invariant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Every call settles exactly once.
    SettlesOnce,
    /// Every answer that leaves was owed to one request: none leaves twice, none for a notification,
    /// none for a response, none unasked.
    AnsweredOnce,
    /// Ids come back byte for byte.
    IdsVerbatim,
    /// A reply never settles a call that it was not for.
    RightCall,
    /// Every message that arrives whole is told by an event once, in the order of the stream.
    ToldOnce,
    /// What is said first leaves first, and nothing else leaves.
    OutputOrder,
    /// The simulator's own reader can read every frame that leaves.
    OutputValid,
    /// Memory stays within `memory_bytes_max_for`, plus a fixed slack for what that bound does not count.
    Memory,
    /// After all events have been taken, a read buffer of `max_input_bytes` is not full.
    InputProgress,
    /// No call times out before its deadline.
    NotEarly,
    /// After the time was told and all events were taken, nothing that is due is left, and the next
    /// wake-up lies in the future.
    DueYielded,
    /// The next wake-up is never later than the earliest deadline.
    WakeUp,
    /// The connection's getters agree with the oracle's records.
    Getters,
    /// A refused command changes nothing.
    NoTrace,
    /// Answers are never refused for want of room. Calls and notifications are so refused only while
    /// the output is above its soft limit, and never accepted then.
    ResponseLane,
    /// `Unsent` means that no byte of the call has left, and `Aborted` that one has.
    UnsentTrue,
    /// The event `Closed` comes once, after every call has settled.
    ClosedOnce,
    /// A token works once, and only where it came from.
    TokenSafety,
    /// Once all is healed every call settles within the bound, and then every link ends within it.
    Liveness,
    /// Once all is healed and every call has settled, nothing is open and nothing waits to be written.
    NothingHeld,
    /// However the input is split, events and output are the same.
    SplitInvariance,
    /// A seed that is played twice gives two equal runs.
    Deterministic,
    /// Nothing panics and nothing loops for ever.
    NoPanic,
}

impl crate::runner::Checking for Check {
    const ALL: &'static [Self] = &[
        Check::SettlesOnce,
        Check::AnsweredOnce,
        Check::IdsVerbatim,
        Check::RightCall,
        Check::ToldOnce,
        Check::OutputOrder,
        Check::OutputValid,
        Check::Memory,
        Check::InputProgress,
        Check::NotEarly,
        Check::DueYielded,
        Check::WakeUp,
        Check::Getters,
        Check::NoTrace,
        Check::ResponseLane,
        Check::UnsentTrue,
        Check::ClosedOnce,
        Check::TokenSafety,
        Check::Liveness,
        Check::NothingHeld,
        Check::SplitInvariance,
        Check::Deterministic,
        Check::NoPanic,
    ];
    const DETERMINISTIC: Self = Self::Deterministic;
    const NO_PANIC: Self = Self::NoPanic;
}

impl Check {
    /// The report that this check failed.
    pub fn broken(self, why: impl Into<String>) -> Broken {
        Broken {
            check: self,
            why: why.into(),
        }
    }

    /// Fails unless `holds`.
    ///
    /// # Errors
    /// The failed check, with what `why` returns.
    pub fn that(self, holds: bool, why: impl FnOnce() -> String) -> Checked {
        match holds {
            true => Ok(()),
            false => Err(self.broken(why())),
        }
    }
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub check: Check,
    /// What was seen and what was wanted.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.why)
    }
}

/// The result of a check, and of everything that checks.
pub type Checked = Result<(), Broken>;
