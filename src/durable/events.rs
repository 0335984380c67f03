//! What the program is told besides answers.

use super::store::{CommandId, StoreError};
use crate::shared::Arc;

/// What has come of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// What [`publish`](super::DurableTopics::publish) has returned.
    pub command: CommandId,
    /// The sequence of the message. A publication that failed as [`StoreError::Failed`] may have been stored.
    pub result: Result<u64, StoreError>,
}

/// What the program should know, besides answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DurableEvent {
    /// A connection gets nothing more of a subscription.
    Detached {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// The connection that had it.
        connection: u64,
        /// Why.
        why: Detached,
    },
    /// Messages were removed from the topic, and the subscription has not acknowledged them. It goes on behind them.
    /// If no connection was attached when they were removed, this comes when one is.
    Trimmed {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// The sequence of the first of them.
        first: u64,
        /// The sequence of the last: it and all between were not acknowledged.
        last: u64,
    },
    /// A stored position was ahead of its topic: the store has lost messages that were acknowledged, and may use their
    /// sequences again. The subscription begins again with the oldest message that the topic has, and the answer to the
    /// consumer says so: `resumed_from_sequence` is before what it has acknowledged.
    AheadOfLog {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// The last sequence that was acknowledged.
        acknowledged: u64,
        /// The last message of the topic.
        last: u64,
    },
    /// The store has failed to read or to remove messages, for which nobody waits. It is tried again after
    /// [`retry_delay`](super::DurableSettings::retry_delay), and this is reported once until something succeeds.
    StoreFailed(StoreError),
}

/// Why a connection gets nothing more of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detached {
    /// Another connection or another hub has it now.
    TakenOver,
    /// Another connection has deleted it.
    Deleted,
    /// It has got messages that its topic no longer has, as with [`AheadOfLog`](DurableEvent::AheadOfLog). The owner
    /// closes the connection, so that the consumer attaches again.
    AheadOfLog,
}
