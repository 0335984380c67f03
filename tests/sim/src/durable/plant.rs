//! Faults planted in the store, the hubs' shell, the clients or the oracle, so that every check can be seen failing. None is
//! on unless asked for.

use super::checks::Check;
use crate::plant::plants;

plants! {
    /// The store tells of a message before it has committed it.
    ToldBeforeCommit => StoredFirst,
    /// A publisher is told the sequence of another message.
    SequencesSwapped => PublishTrue,
    /// The store gives a sequence again.
    SequenceAgain => SequenceOnce,
    /// A hub is not told that another one has its subscription now.
    BothAttached => OneConsumer,
    /// A hub lets messages go before the answer to the subscribe.
    ReleasedEarly => NotBeforeAnswer,
    /// Two messages leave in the wrong order.
    DeliveriesSwapped => InOrder,
    /// What is acknowledged is sent again.
    AcknowledgedAgain => RepeatsRight,
    /// A hub is told a time that is yet to come.
    ClockAhead => NotEarly,
    /// The window of a hub is larger than was asked for.
    WindowWider => WindowHeld,
    /// The store forgets positions.
    SaveForgotten => CursorStored,
    /// The store moves a position one message on.
    CursorAhead => CursorTrue,
    /// A hub refuses an acknowledgement for no reason.
    AckRefused => AckRight,
    /// The time of day runs ahead, in small steps.
    WallAhead => RetentionRight,
    /// The store does not remove anything.
    TrimForgotten => RetentionHolds,
    /// The program is not told of messages that were removed.
    TrimUntold => TrimTold,
    /// A client forgets what it has read when its connection is lost.
    ReaderForgets => ReaderOnce,
    /// The network loses a message.
    MessageLost => GapsTold,
    /// A request is answered twice.
    AnswerTwice => SettlesOnce,
    /// A hub is not told the time.
    ClockNotTold => NoBusyLoop,
    /// A connection is not woken.
    WakeLost => Settles,
    /// A run depends on how many were made before it.
    Leftover => Deterministic,
    /// A client panics, and nothing catches it.
    Panics => NoPanic,
}
