//! A store in memory, for tests and for programs that lose nothing by losing it.

use crate::shared::Arc;
use alloc::collections::{BTreeMap, VecDeque};

use super::machine::DurableTopics;
use super::settings::Start;
use super::store::{Command, Completion, Cursor, Log, Record, StoreError};

/// What a message costs beside its text, and what a topic or a subscription does beside its name.
const OVERHEAD: usize = 128;

/// A store in memory, of a bounded size, which does everything at once. Nothing survives the end of the program.
///
/// ```
/// use antiphon::durable::{Command, Completion, MemoryStore, MessageData, StoreError, Wall};
/// let mut store = MemoryStore::new(1000);
/// let append = |length| Command::Append {
///     topic: "orders".into(),
///     at: Wall::from_millis(0),
///     data: MessageData::write(&"x".repeat(length)).unwrap(),
///     dedupe: None,
/// };
/// assert_eq!(store.execute(&append(100)), Ok(Completion::Appended { sequence: 1 }));
/// assert_eq!(store.execute(&append(1000)), Err(StoreError::Full));
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    max_bytes: usize,
    bytes: usize,
    topics: BTreeMap<Arc<str>, Topic>,
    subscriptions: BTreeMap<Arc<str>, Subscription>,
    /// The last fence. All subscriptions share it, so none gets an earlier one again.
    fence: u64,
}

#[derive(Clone, Debug)]
struct Topic {
    log: Log,
    /// From `log.first` to `log.last`.
    messages: VecDeque<(Record, Option<Arc<str>>)>,
    names: BTreeMap<Arc<str>, u64>,
}

#[derive(Clone, Debug)]
struct Subscription {
    topic: Arc<str>,
    fence: u64,
    cursor: Cursor,
}

impl MemoryStore {
    /// Makes an empty store. `max_bytes` is for the text of messages and names, and 128 bytes for each message, topic
    /// and subscription. Beyond it messages and new subscriptions are refused as [`StoreError::Full`]; positions can
    /// always be saved.
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            topics: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            fence: 0,
        }
    }

    /// How many bytes are in use, as [`new`](Self::new) counts them.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Does all that a machine asks for, until it asks for nothing more.
    pub fn run<R>(&mut self, topics: &mut DurableTopics<R>) {
        while let Some((id, command)) = topics.poll_command() {
            let result = self.execute(&command);
            topics.handle_completion(id, result);
        }
    }

    /// Does what a command says.
    ///
    /// # Errors
    /// Why it is not done. Nothing has changed.
    pub fn execute(&mut self, command: &Command) -> Result<Completion, StoreError> {
        match command {
            Command::Append {
                topic,
                at,
                data,
                dedupe,
            } => {
                let record = Record {
                    sequence: 0,
                    at: *at,
                    data: data.clone(),
                };
                let sequence = self.append(topic, record, dedupe.as_ref())?;
                Ok(Completion::Appended { sequence })
            }
            Command::Read {
                topic,
                after,
                max_records,
                max_bytes,
            } => Ok(self.read(topic, *after, *max_records, *max_bytes)),
            Command::Attach {
                subscription,
                topic,
                start,
                ..
            } => self.attach(subscription, topic, *start),
            Command::Save {
                subscription,
                fence,
                cursor,
            } => {
                self.owned(subscription, *fence)?.cursor = cursor.clone();
                Ok(Completion::Saved)
            }
            Command::Delete {
                subscription,
                fence,
            } => {
                self.owned(subscription, *fence)?;
                if let Some(removed) = self.subscriptions.remove(subscription) {
                    self.bytes -= OVERHEAD + subscription.len() + removed.topic.len();
                }
                Ok(Completion::Deleted)
            }
            Command::Trim { topic, up_to } => {
                self.trim(topic, *up_to);
                Ok(Completion::Trimmed)
            }
        }
    }

    fn append(
        &mut self,
        topic: &Arc<str>,
        mut record: Record,
        dedupe: Option<&Arc<str>>,
    ) -> Result<u64, StoreError> {
        let known = self.topics.get(topic);
        let named = known
            .zip(dedupe)
            .and_then(|(known, name)| known.names.get(name));
        if let Some(sequence) = named {
            return Ok(*sequence);
        }
        let new_topic = known.map_or(OVERHEAD + topic.len(), |_| 0);
        self.reserve(new_topic + cost(&record, dedupe))?;
        let known = self.topics.entry(topic.clone()).or_insert_with(|| Topic {
            log: Log::EMPTY,
            messages: VecDeque::new(),
            names: BTreeMap::new(),
        });
        known.log.last += 1;
        known.log.bytes += record.data.bytes() as u64;
        record.sequence = known.log.last;
        if let Some(name) = dedupe {
            known.names.insert(name.clone(), record.sequence);
        }
        known.messages.push_back((record, dedupe.cloned()));
        Ok(known.log.last)
    }

    fn read(&self, topic: &str, after: u64, max_records: u32, max_bytes: u32) -> Completion {
        let Some(topic) = self.topics.get(topic) else {
            let (log, records) = (Log::EMPTY, [].into());
            return Completion::Records { log, records };
        };
        let skipped = (after + 1).saturating_sub(topic.log.first);
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let mut bytes = 0;
        let records = topic
            .messages
            .iter()
            .skip(skipped)
            .map(|(record, _)| record);
        let records = records.take(max_records as usize).take_while(|record| {
            let is_first = bytes == 0;
            bytes += record.data.bytes();
            is_first || bytes <= max_bytes as usize
        });
        Completion::Records {
            log: topic.log,
            records: records.cloned().collect(),
        }
    }

    fn attach(
        &mut self,
        name: &Arc<str>,
        topic: &Arc<str>,
        start: Start,
    ) -> Result<Completion, StoreError> {
        let log = self.topics.get(topic).map_or(Log::EMPTY, |topic| topic.log);
        match self.subscriptions.get(name) {
            Some(held) if held.topic != *topic => return Err(StoreError::OtherTopic),
            Some(_) => {}
            None => {
                self.reserve(OVERHEAD + name.len() + topic.len())?;
                let cursor = Cursor::at(match start {
                    Start::Latest => log.last,
                    Start::EarliestRetained => log.first - 1,
                });
                let new = Subscription {
                    topic: topic.clone(),
                    fence: 0,
                    cursor,
                };
                self.subscriptions.insert(name.clone(), new);
            }
        }
        self.fence += 1;
        let fence = self.fence;
        let held = self
            .subscriptions
            .get_mut(name)
            .ok_or(StoreError::Unknown)?;
        held.fence = fence;
        let cursor = held.cursor.clone();
        Ok(Completion::Attached { fence, cursor, log })
    }

    fn trim(&mut self, topic: &str, up_to: u64) {
        let Some(topic) = self.topics.get_mut(topic) else {
            return;
        };
        while topic.log.first <= up_to {
            let Some((record, name)) = topic.messages.pop_front() else {
                break;
            };
            self.bytes -= cost(&record, name.as_ref());
            topic.log.first += 1;
            topic.log.bytes -= record.data.bytes() as u64;
            if let Some(name) = name {
                topic.names.remove(&name);
            }
        }
    }

    /// A subscription of the owner with this fence, or of any if it is 0.
    fn owned(&mut self, name: &str, fence: u64) -> Result<&mut Subscription, StoreError> {
        let held = self
            .subscriptions
            .get_mut(name)
            .ok_or(StoreError::Unknown)?;
        match fence == 0 || fence == held.fence {
            true => Ok(held),
            false => Err(StoreError::Fenced),
        }
    }

    fn reserve(&mut self, bytes: usize) -> Result<(), StoreError> {
        if bytes > self.max_bytes.saturating_sub(self.bytes) {
            return Err(StoreError::Full);
        }
        self.bytes += bytes;
        Ok(())
    }
}

fn cost(record: &Record, name: Option<&Arc<str>>) -> usize {
    OVERHEAD + record.data.bytes() + name.map_or(0, |name| name.len())
}
