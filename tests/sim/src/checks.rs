//! The invariants, each with its own name, and the report of a broken one.

use std::fmt;

/// One invariant. `architecture` in brackets means the number of the list that the core is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// Every call settles exactly once (2).
    SettlesOnce,
    /// Every answer that leaves pays one debt: none twice, none for a notification, none for a
    /// response, none unasked (2).
    AnsweredOnce,
    /// Ids come back byte for byte (3).
    IdsVerbatim,
    /// A reply never settles a call that it was not for (3).
    RightCall,
    /// Whatever arrives whole is told once, in the order of the stream.
    ToldOnce,
    /// What is said first leaves first, and nothing else leaves.
    OutputOrder,
    /// Every frame that leaves can be read by somebody else.
    OutputValid,
    /// Memory stays below `memory_bytes_max_for` (4).
    Memory,
    /// Nothing is taken from the stream beyond what `max_input_bytes` allows to stay (4).
    InputProgress,
    /// No call times out before its deadline (9).
    NotEarly,
    /// After the time was told and the input drained, nothing that is due is left, and the next
    /// wake-up lies in the future (9).
    DueYielded,
    /// The next wake-up is never later than the earliest deadline (9).
    WakeUp,
    /// The getters say what the books say.
    Getters,
    /// A refused command leaves no trace.
    NoTrace,
    /// Answers never wait for room; calls and notifications are refused exactly when the output is
    /// above its soft limit (8).
    ResponseLane,
    /// `Unsent` means that no byte of the call has left, and `Aborted` that one has.
    UnsentTrue,
    /// The end is told once, and after every call has settled.
    ClosedOnce,
    /// A token works once, and only where it came from.
    TokenSafety,
    /// Once all is healed every call settles within the bound (8).
    Liveness,
    /// After that nothing is open and nothing waits to be written.
    NothingHeld,
    /// However the input is split, events and output are the same (1).
    SplitInvariance,
    /// The same seed gives the same run (7).
    Deterministic,
    /// Nothing panics and nothing loops for ever (6).
    NoPanic,
}

impl Check {
    /// All of them.
    pub const ALL: [Check; 23] = [
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

    /// This check, broken.
    pub fn broken(self, why: impl Into<String>) -> Broken {
        Broken {
            check: self,
            why: why.into(),
        }
    }

    /// Breaks unless `holds`.
    ///
    /// # Errors
    /// What `why` says.
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

/// What every step gives.
pub type Checked = Result<(), Broken>;
