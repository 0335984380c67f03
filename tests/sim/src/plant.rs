//! Faults planted in the simulation itself, so that every check can be seen failing.
//!
//! Each fault looks as if a connection, driver, application or network were broken. A fault is only
//! active if it was selected by name.

use crate::checks::Check;

/// Declares planted faults, each with the check that has to find it: a variant of the `Check` that is
/// in scope where the macro is called.
macro_rules! plants {
    ($($(#[$doc:meta])* $name:ident => $check:ident,)*) => {
        /// A planted fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Plant { $($(#[$doc])* $name,)* }

        impl $crate::runner::Planted for Plant {
            type Check = Check;
            const ALL: &'static [Self] = &[$(Self::$name,)*];

            fn check(self) -> Check {
                match self { $(Self::$name => Check::$check,)* }
            }
        }
    };
}
pub(crate) use plants;

plants! {
    /// An application hears of a settled call twice.
    SettledTwice => SettlesOnce,
    /// A driver writes an answer twice.
    AnswerTwice => AnsweredOnce,
    /// An error leaves without its data, and the connection does not say so.
    DataLost => AnsweredOnce,
    /// The connection says of every error that it has lost its data.
    DataLostAtWill => Getters,
    /// An answer's id leaves with another spelling.
    IdRespelled => IdsVerbatim,
    /// The answers to two requests change places.
    AnswersSwapped => RightCall,
    /// The network loses a whole message.
    FrameLost => ToldOnce,
    /// The network loses one byte.
    ByteLost => ToldOnce,
    /// The network delivers an answer twice.
    AnswerDelivered => ToldOnce,
    /// A driver writes two messages in the wrong order.
    FramesSwapped => OutputOrder,
    /// A byte that leaves is damaged.
    OutputDamaged => OutputValid,
    /// The connection promises too little memory.
    MemoryClaim => Memory,
    /// The buffer is smaller than the connection asks for.
    BufferSmall => InputProgress,
    /// The connection is told a time that is yet to come.
    ClockAhead => NotEarly,
    /// The connection is not told the time.
    ClockNotTold => DueYielded,
    /// The driver wakes up late.
    WakeUpLate => WakeUp,
    /// A request gets lost between the connection and the oracle's records.
    GetterOff => Getters,
    /// A refused command says something after all.
    TraceLeft => NoTrace,
    /// Answers wait for room as calls do.
    LaneBlocked => ResponseLane,
    /// A driver reports a message as undelivered that it delivered.
    UnsentLie => UnsentTrue,
    /// The event `Closed` comes twice.
    ClosedTwice => ClosedOnce,
    /// A driver abandons another request than the one that was just answered.
    TokenForged => TokenSafety,
    /// The network does not heal.
    StaysStalled => Liveness,
    /// A handler goes on keeping a request when all others have answered.
    HandlerKeeps => NothingHeld,
    /// The application says more if its input comes byte by byte.
    SplitMinded => SplitInvariance,
    /// A run depends on how many were made before it.
    Leftover => Deterministic,
    /// A handler panics, and nothing catches it.
    Panics => NoPanic,
}
