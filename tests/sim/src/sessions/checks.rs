//! The invariants of a session, each with its own name, and the report of a broken one.

use crate::runner::checks;

checks! {
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
}
