//! What consumers may do, how much, and how long messages are kept.

use core::time::Duration;

/// The rules and limits of durable topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableSettings {
    /// What an acknowledgement stands for. Default [`AckMode::Individual`].
    pub ack_mode: AckMode,
    /// After how long a message that is not acknowledged is sent again. Default 30 s; `None` for never on this
    /// connection.
    pub ack_timeout: Option<Duration>,
    /// How far delivery goes beyond the last message up to which everything is acknowledged. Default 256
    /// messages; 0 counts as 1, and more than 65 536 as that. One message that is never acknowledged lets so
    /// many others through. A window that is full takes 16 bytes for each message.
    pub window: usize,
    /// What happens if a second connection attaches to a subscription. Default [`SecondConsumer::TakeOver`].
    pub second_consumer: SecondConsumer,
    /// Where a new subscription begins. Default [`Start::Latest`].
    pub start: Start,
    /// Whether the position of a subscription is kept when its consumer unsubscribes. Default no.
    pub keep_position: bool,
    /// How long messages are kept, unless a topic has [its own rule](super::DurableTopics::set_retention). Default
    /// for ever.
    pub retention: Retention,
    /// The most subscriptions of one connection. Default 256. One more is answered −32002.
    pub max_per_connection: usize,
    /// The most subscriptions to which connections are attached. Default 100 000. One more is answered −32002. An
    /// idle one takes less than 1 KiB.
    pub max_subscriptions: usize,
    /// How many publications may wait for the store. Default 1024. One more fails as
    /// [`StoreError::Busy`](super::StoreError::Busy).
    pub max_publishes: usize,
    /// How many bytes their data may have. Default 16 MiB. One is always accepted while none waits.
    pub max_publish_bytes: usize,
    /// How many bytes of a subscription's messages are read ahead of its consumer. Default 64 KiB. A longer
    /// message is read alone.
    pub max_read_bytes: u32,
    /// After how long a command of the store counts as failed. Default 30 s; `None` for never.
    pub store_timeout: Option<Duration>,
    /// How long after a failure a read or a trim is tried again. Default 1 s.
    pub retry_delay: Duration,
}

impl DurableSettings {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            ack_mode: AckMode::Individual,
            ack_timeout: Some(Duration::from_secs(30)),
            window: 256,
            second_consumer: SecondConsumer::TakeOver,
            start: Start::Latest,
            keep_position: false,
            retention: Retention::FOREVER,
            max_per_connection: 256,
            max_subscriptions: 100_000,
            max_publishes: 1024,
            max_publish_bytes: 16 << 20,
            max_read_bytes: 64 << 10,
            store_timeout: Some(Duration::from_secs(30)),
            retry_delay: Duration::from_secs(1),
        }
    }
}

impl Default for DurableSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// What an acknowledgement stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AckMode {
    /// The one message.
    Individual,
    /// It and all messages before it.
    Cumulative,
}

/// What happens if a second connection attaches to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecondConsumer {
    /// The first one gets nothing more, and can no longer acknowledge.
    TakeOver,
    /// The second one is answered −32602.
    Reject,
}

/// Where a new subscription begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// With the first message that is stored after it was made.
    Latest,
    /// With the oldest message that the topic still has.
    EarliestRetained,
}

/// How long the messages of a topic are kept. What is beyond any of the bounds is removed, the oldest first,
/// whether it is acknowledged or not.
///
/// ```
/// use antiphon::durable::Retention;
/// let mut day = Retention::FOREVER;
/// day.max_age_seconds = Some(86_400);
/// day.max_count = Some(10_000);
/// day.max_bytes = Some(10_485_760);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// The most seconds by the clock on the wall.
    pub max_age_seconds: Option<u64>,
    /// The most messages.
    pub max_count: Option<u64>,
    /// The most bytes of data. The last message stays, however long it is.
    pub max_bytes: Option<u64>,
}

impl Retention {
    /// No bound.
    pub const FOREVER: Self = Self {
        max_age_seconds: None,
        max_count: None,
        max_bytes: None,
    };
}
