//! Faults planted in the shell, the network or the oracle, so that every check can be seen failing.
//! None is on unless asked for.

use super::checks::Check;
use crate::plant::plants;

plants! {
    /// A server sends a publication twice.
    PublishedTwice => DeliveredOnce,
    /// A server sends two publications in the wrong order.
    PublicationsSwapped => HubOrder,
    /// A server does not wait for the answer to a subscribe before it lets publications go.
    ReleasedEarly => NotBeforeAnswer,
    /// A server sends an event of a subscription whose answer is not in the output.
    EventEarly => NotBeforeAnswer,
    /// A server sends events of a subscription that has ended.
    EventLate => NotAfterUnsubscribe,
    /// A server sends a publication that waited when its topic was unsubscribed.
    FeedKept => NotAfterUnsubscribe,
    /// The hub forgets a receiver.
    ReceiverMissed => RightReceivers,
    /// A reader gets the event of another stream.
    StreamsMixed => OwnStreamOnly,
    /// A reader is not told what was dropped.
    LossForgotten => LossTold,
    /// A server counts one publication less than it has dropped.
    LossMiscounted => LossTold,
    /// The limit is smaller than the hub was told.
    LimitLess => LimitsHeld,
    /// Items are read in the order of the answers.
    ItemsByAnswer => ItemOrder,
    /// A pull is answered with the item of another flow.
    FlowCrossed => FlowIsolated,
    /// A flow ends in order one item early.
    EndEarly => FlowEndsRightly,
    /// A stream ends although nothing has ended it.
    EndInvented => StreamEndsRightly,
    /// Another error is expected than the specification says.
    CodesConfused => HostileAnswered,
    /// Once all is healed, the hub passes a connection over.
    HubForgets => AllLater,
    /// A producer stops making items.
    ProducerStuck => FlowsEnd,
    /// A server never lets go what it has held back.
    HoldKept => FeedsDrain,
    /// A client does not unsubscribe.
    UnsubscribeUnsent => NothingLeft,
    /// The network does not heal.
    StaysStalled => Settles,
    /// A run depends on how many were made before it.
    Leftover => Deterministic,
    /// A producer panics, and nothing catches it.
    Panics => NoPanic,
}
