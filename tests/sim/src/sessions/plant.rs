//! Faults planted in the shell, the application, the network or the oracle, so that every check can be
//! seen failing. To the checks, each looks like a broken session. None is on unless asked for.

use super::checks::Check;
use crate::plant::plants;

plants! {
    /// An application hears of a settled call twice.
    SettledTwice => SettlesOnce,
    /// A handler answers with the result of another request.
    ForeignResult => RightAnswer,
    /// The session is told a time that is yet to come.
    ClockAhead => NotEarly,
    /// An answer leaves twice.
    AnswerTwice => AnsweredOnce,
    /// A notification gets lost between the session and the service.
    WorkLost => NothingLost,
    /// Two pieces of work change places.
    WorkSwapped => OrderKept,
    /// A shell goes on while a notification is served.
    NotificationOvertaken => OrderKept,
    /// A session lets requests run side by side that are to run one after another.
    OrderLooser => OrderKept,
    /// A session has requests run one after another that may run side by side.
    OrderStricter => NothingHeld,
    /// The session is told that the shell has a place for a request when it has none.
    PlaceInvented => BegunWhenAllowed,
    /// A session begins requests although the peer has to read answers first.
    UnreadIgnored => BegunWhenAllowed,
    /// An application begins a request for which its server has no permit.
    PermitInvented => ServerBounded,
    /// The session is not told the time.
    TimeNotTold => NextWakeUp,
    /// The session is told that output is written before it is.
    WrittenEarly => OneWrite,
    /// A byte that was written is not counted.
    ByteUncounted => MarksTrue,
    /// A byte that leaves is damaged.
    OutputDamaged => OutputReadable,
    /// A session says that it is open after it has begun to end.
    LifeRegained => PhaseForward,
    /// A call is left over when the session is over.
    CallLeft => OverIsOver,
    /// Reading pauses although a call waits.
    PausedWaiting => PausesRightly,
    /// The bound to which memory is held is too small.
    LimitsLess => MemoryBounded,
    /// The network does not heal.
    StaysStalled => SettlesInTime,
    /// While links end, nothing is read, written or told to any session.
    EndUntold => EndsInTime,
    /// A run depends on how many were made before it.
    Leftover => Deterministic,
    /// A handler panics, and nothing catches it.
    Panics => NoPanic,
}
