//! The invariants of durable subscriptions, each with its own name.

use crate::runner::checks;

checks! {
    /// Nothing is delivered, and no publisher gets a sequence, before the message is stored.
    StoredFirst,
    /// What a publisher is told is what was stored for it.
    PublishTrue,
    /// No sequence is used twice.
    SequenceOnce,
    /// At most one connection is attached to a subscription, and no other gets its messages.
    OneConsumer,
    /// Nothing is delivered before the answer to its subscribe.
    NotBeforeAnswer,
    /// To a consumer that attaches, all that is not acknowledged comes in its order, and nothing is left out.
    InOrder,
    /// What was told to be acknowledged never comes again.
    RepeatsRight,
    /// What was sent comes again on its connection only after the time for its acknowledgement.
    NotEarly,
    /// No message is sent further beyond the acknowledged ones than the window.
    WindowHeld,
    /// No acknowledgement is told before it is stored.
    CursorStored,
    /// A stored position has nothing that no consumer has acknowledged, and never goes back.
    CursorTrue,
    /// The acknowledgement of a message that its consumer has got is not refused, and no other is accepted.
    AckRight,
    /// Retention removes only what is beyond one of its bounds.
    RetentionRight,
    /// Once all is healed, a topic has no more than its retention keeps.
    RetentionHolds,
    /// Each message that is removed and not acknowledged makes an event, and no other does.
    TrimTold,
    /// A reader brings its program no message that it has finished.
    ReaderOnce,
    /// What a reader tells as missing was removed or acknowledged, and nothing else is missing.
    GapsTold,
    /// Each request and each publication has one outcome.
    SettlesOnce,
    /// After the time was told, nothing that is due is left.
    NoBusyLoop,
    /// Once all is healed, nothing waits, and every consumer gets and acknowledges all there is.
    Settles,
}
