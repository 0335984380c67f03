//! The invariants of streams, each with its own name, and the report of a broken one.

use crate::runner::checks;

checks! {
    /// A publication and an event leave once, or once for each subscription if the hub says so.
    DeliveredOnce,
    /// Publications and events leave in the order in which they were made.
    HubOrder,
    /// No event leaves before the answer to its subscribe.
    NotBeforeAnswer,
    /// No event leaves after the answer to its unsubscribe.
    NotAfterUnsubscribe,
    /// A publication goes to the connections that have subscribed to it, and to no others.
    RightReceivers,
    /// A reader gets the events of its own stream and connection, in the order in which they arrived.
    OwnStreamOnly,
    /// What was dropped is told, with its exact number and, to a reader, at its place.
    LossTold,
    /// No limit is passed, and nothing is refused below a limit.
    LimitsHeld,
    /// The items of a flow are read in the order of the pulls, each once.
    ItemOrder,
    /// An item, a pull and a cancel touch no flow but their own.
    FlowIsolated,
    /// A flow ends in order only after all its items, and otherwise for a reason that there was.
    FlowEndsRightly,
    /// A stream ends only with its connection, by its reader, or because the server has given it up.
    StreamEndsRightly,
    /// Unknown ids, invalid topics and broken params get the errors that the specification says.
    HostileAnswered,
    /// Once all is healed, every stream that was not told of an end gets all that is published.
    AllLater,
    /// Once all is healed, every flow ends, and no pull stays open.
    FlowsEnd,
    /// Once all is healed, nothing waits in a feed.
    FeedsDrain,
    /// Once all is healed, the server has no subscription without a reader.
    NothingLeft,
    /// Once all is healed, every call settles and all output is written within the bound.
    Settles,
}
