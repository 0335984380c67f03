//! What is asked of a store, and what it answers, as plain data.

use crate::shared::Arc;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::settings::Start;
use super::topic::MessageData;
use super::wall::Wall;

/// Messages and positions. A store keeps these promises:
///
/// 1. Each command is carried out once or not at all, as a whole. `Ok` says that its effect has the
///    [durability](Self::durability) of the store.
/// 2. The sequence numbers of a topic count up from 1 without a hole, and none is used again, also after
///    [`Trim`](Command::Trim) has removed everything.
/// 3. The commands of one subscription are carried out in their order. The appends of a topic get their sequences in
///    that order.
/// 4. Each [`Attach`](Command::Attach) gets a fence that is higher than all fences of that subscription before, also of
///    one that was deleted. Commands with a lower fence fail as [`Fenced`](StoreError::Fenced).
/// 5. A message can be read as soon as its append is complete, and not before all earlier ones can be.
pub trait Store: Send + Sync + 'static {
    /// What `Ok` survives.
    fn durability(&self) -> Durability;

    /// Takes a command, whose completion may come at once or later, from any thread. It must not wait for the storage.
    /// It is called by one thread at a time, in the order of the commands.
    fn submit(&self, command: Command, done: Completer);

    /// Takes whom to tell what other hubs do. It is called once, before the first command. A store that only one hub
    /// can use has nothing to tell.
    fn observe(&self, observer: Box<dyn Observer>) {
        drop(observer);
    }
}

/// What a hub wants to know of the others that use its store. It may be called from any thread, but not in
/// [`submit`](Store::submit).
pub trait Observer: Send + Sync + 'static {
    /// Tells that a topic has messages up to `last`. It may be told late, and again.
    fn grown(&self, topic: &str, last: u64);

    /// Tells that another hub has attached to a subscription, and has got this fence. When it returns, no message of an
    /// earlier fence is delivered here any more.
    fn taken_over(&self, subscription: &str, fence: u64);

    /// Whether a connection is attached to a subscription, or about to be.
    fn holds(&self, subscription: &str) -> bool;
}

/// What a store's `Ok` survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the end of the program loses it.
    Memory,
    /// The sudden end of the program, not that of the machine.
    Process,
    /// The loss of power, if the drive does what a sync asks for.
    Disk,
    /// The loss of a minority of servers.
    Replicated,
}

/// Takes the completion of one command. If it is dropped, the command has failed, and whether it was done is not known.
pub struct Completer(Option<Box<Then>>);

type Then = dyn FnOnce(Result<Completion, StoreError>) + Send;

impl Completer {
    /// Makes one that calls `then` once.
    pub fn new(then: impl FnOnce(Result<Completion, StoreError>) + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    /// Passes the completion on.
    pub fn complete(mut self, result: Result<Completion, StoreError>) {
        if let Some(then) = self.0.take() {
            then(result);
        }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(StoreError::Failed));
        }
    }
}

impl fmt::Debug for Completer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completer")
    }
}

/// The number of a command. Numbers count up, and none is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub(super) u64);

/// What a store is asked to do.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Command {
    /// Stores a message at the end of a topic.
    Append {
        /// The topic.
        topic: Arc<str>,
        /// When it was published.
        at: Wall,
        /// The value.
        data: MessageData,
        /// A name that the publisher gives to the message. If the topic still has a message of that name,
        /// nothing is stored, and the answer is its sequence.
        dedupe: Option<Arc<str>>,
    },
    /// Reads the oldest messages behind a sequence: at least one, if there is any.
    Read {
        /// The topic.
        topic: Arc<str>,
        /// The sequence before the first that is wanted.
        after: u64,
        /// The most messages.
        max_records: u32,
        /// The most bytes of data, if that is more than one message.
        max_bytes: u32,
    },
    /// Makes this hub the owner of a subscription, which is created if there is none of this name.
    Attach {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// Its topic. [`OtherTopic`](StoreError::OtherTopic) if it has another.
        topic: Arc<str>,
        /// Where it begins if it is new.
        start: Start,
        /// Whether another hub that owns it loses it. If not, the answer then is [`Held`](StoreError::Held).
        takes_over: bool,
    },
    /// Stores the position of a subscription.
    Save {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// The fence of the owner.
        fence: u64,
        /// What is acknowledged.
        cursor: Cursor,
    },
    /// Removes a subscription and its position.
    Delete {
        /// The name of the subscription.
        subscription: Arc<str>,
        /// The fence of the owner. 0 if this hub does not own it: then it is removed unless another hub owns
        /// it.
        fence: u64,
    },
    /// Removes the messages of a topic up to a sequence, and with it. Those that are gone already are no error.
    Trim {
        /// The topic.
        topic: Arc<str>,
        /// The last sequence that is removed.
        up_to: u64,
    },
}

/// What a command has brought.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Completion {
    /// Of [`Append`](Command::Append).
    Appended {
        /// The sequence of the message.
        sequence: u64,
    },
    /// Of [`Read`](Command::Read).
    Records {
        /// The topic as it was when it was read.
        log: Log,
        /// The messages in their order, without a hole.
        records: Vec<Record>,
    },
    /// Of [`Attach`](Command::Attach).
    Attached {
        /// The fence of this owner.
        fence: u64,
        /// What is acknowledged.
        cursor: Cursor,
        /// The topic as it was at that moment.
        log: Log,
    },
    /// Of [`Save`](Command::Save).
    Saved,
    /// Of [`Delete`](Command::Delete).
    Deleted,
    /// Of [`Trim`](Command::Trim).
    Trimmed,
}

/// Why a store did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreError {
    /// Too much waits for it. Nothing has changed.
    Busy,
    /// It has no space. Nothing has changed.
    Full,
    /// Another consumer owns the subscription. Nothing has changed.
    Fenced,
    /// The subscription has another topic. Nothing has changed.
    OtherTopic,
    /// Another hub owns the subscription. Nothing has changed.
    Held,
    /// There is no such subscription. Nothing has changed.
    Unknown,
    /// Anything else, also that no answer has come in time. Whether something has changed is not known: a message
    /// may have been stored.
    Failed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "too much waits for the store",
            Self::Full => "the store is full",
            Self::Fenced => "another consumer has the subscription",
            Self::OtherTopic => "the subscription has another topic",
            Self::Held => "another hub has the subscription",
            Self::Unknown => "the store has no such subscription",
            Self::Failed => "the store has failed; it may have done what was asked",
        })
    }
}

impl core::error::Error for StoreError {}

/// What is acknowledged of a subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The subscription began behind this sequence.
    pub start: u64,
    /// Everything up to this sequence is acknowledged.
    pub floor: u64,
    /// What is acknowledged above it, in ascending order. There are fewer than
    /// [`window`](super::DurableSettings::window), and all are at most so far above it.
    pub above: Vec<u64>,
}

impl Cursor {
    /// The position of a subscription that begins behind a sequence.
    pub const fn at(start: u64) -> Self {
        Self {
            start,
            floor: start,
            above: Vec::new(),
        }
    }

    /// The highest sequence that is acknowledged.
    pub(super) fn end(&self) -> u64 {
        let last = self.above.last().copied().unwrap_or_default();
        self.floor.max(last)
    }
}

/// What a topic has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// The sequence of its oldest message, or of the next one if it has none.
    pub first: u64,
    /// The sequence of its newest message, `first - 1` if it has none.
    pub last: u64,
    /// The bytes of all data.
    pub bytes: u64,
}

impl Log {
    /// A topic without messages.
    pub const EMPTY: Self = Self {
        first: 1,
        last: 0,
        bytes: 0,
    };

    /// With numbers that can be calculated with, whatever the store says.
    pub(super) fn bounded(self) -> Self {
        let first = self.first.clamp(1, MAX_SEQUENCE);
        let last = self.last.clamp(first - 1, MAX_SEQUENCE);
        Self {
            first,
            last,
            ..self
        }
    }
}

/// The last sequence that is used.
pub(super) const MAX_SEQUENCE: u64 = 1 << 62;

/// A message of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number in the topic.
    pub sequence: u64,
    /// When it was published.
    pub at: Wall,
    /// The value.
    pub data: MessageData,
}
