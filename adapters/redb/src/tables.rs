//! What is in the file, and what each command does.
//!
//! A topic keeps its row when all its messages are gone, so its numbers are not used again. All subscriptions share the
//! last fence, which only grows.

use std::sync::Arc;

use antiphon::durable::{
    Command, Completion, Cursor, Log, MessageData, Record, Start, StoreError, Wall,
};
use redb::{
    Database, Error, ReadableDatabase, ReadableTable, Table, TableDefinition, WriteTransaction,
};

/// How far a subscription is behind its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// The name of the subscription.
    pub subscription: String,
    /// How many messages it has not acknowledged.
    pub messages: u64,
}

/// The version of the format.
pub(crate) const FORMAT: u64 = 1;

/// `format`; `fence`, the last one; `commits`.
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("antiphon");
/// The topic's number, its first and last sequence, and the bytes of all data.
const TOPICS: TableDefinition<'_, &str, (u32, u64, u64, u64)> = TableDefinition::new("topics");
/// By topic and sequence: the time, the length of the name, the name, the data.
const MESSAGES: TableDefinition<'_, (u32, u64), &[u8]> = TableDefinition::new("messages");
/// By topic and the publisher's name for the message: the sequence.
const NAMES: TableDefinition<'_, (u32, &str), u64> = TableDefinition::new("names");
/// The topic, then the fence, the start, the floor, and what is acknowledged above it.
const SUBSCRIPTIONS: TableDefinition<'_, &str, (&str, &[u8])> =
    TableDefinition::new("subscriptions");

/// Writes an empty store.
pub(crate) fn initialize(database: &Database) -> Result<(), Error> {
    let write = database.begin_write()?;
    {
        let mut tables = Tables::open(&write)?;
        tables.meta.insert("format", FORMAT)?;
    }
    write.commit()?;
    Ok(())
}

pub(crate) fn format(database: &Database) -> Result<u64, Error> {
    meta(database, "format")
}

/// How many transactions were committed.
pub(crate) fn commits(database: &Database) -> Result<u64, Error> {
    meta(database, "commits")
}

fn meta(database: &Database, name: &str) -> Result<u64, Error> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(meta.get(name)?.map_or(0, |value| value.value()))
}

/// The tables in a transaction that writes.
pub(crate) struct Tables<'t> {
    meta: Table<'t, &'static str, u64>,
    topics: Table<'t, &'static str, (u32, u64, u64, u64)>,
    messages: Table<'t, (u32, u64), &'static [u8]>,
    names: Table<'t, (u32, &'static str), u64>,
    subscriptions: Table<'t, &'static str, (&'static str, &'static [u8])>,
}

/// What a command has brought; an error in place of it ends the transaction.
type Done = Result<Result<Completion, StoreError>, Error>;

impl<'t> Tables<'t> {
    pub(crate) fn open(write: &'t WriteTransaction) -> Result<Self, Error> {
        Ok(Self {
            meta: write.open_table(META)?,
            topics: write.open_table(TOPICS)?,
            messages: write.open_table(MESSAGES)?,
            names: write.open_table(NAMES)?,
            subscriptions: write.open_table(SUBSCRIPTIONS)?,
        })
    }

    /// Does what a command says that writes.
    pub(crate) fn execute(&mut self, command: &Command) -> Done {
        match command {
            Command::Append {
                topic,
                at,
                data,
                dedupe,
            } => self.append(topic, *at, data, dedupe.as_deref()),
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
                let (topic, held, _) = match self.owned(subscription, *fence)? {
                    Ok(owned) => owned,
                    Err(error) => return Ok(Err(error)),
                };
                self.put(subscription, &topic, held, cursor)?;
                Ok(Ok(Completion::Saved))
            }
            Command::Delete {
                subscription,
                fence,
            } => {
                if let Err(error) = self.owned(subscription, *fence)? {
                    return Ok(Err(error));
                }
                self.subscriptions.remove(&**subscription)?;
                Ok(Ok(Completion::Deleted))
            }
            Command::Trim { topic, up_to } => self.trim(topic, *up_to),
            // A later version of the core may have other commands.
            _ => Ok(Err(StoreError::Failed)),
        }
    }

    pub(crate) fn count_commit(&mut self) -> Result<(), Error> {
        let commits = self.meta.get("commits")?.map_or(0, |value| value.value());
        self.meta.insert("commits", commits + 1)?;
        Ok(())
    }

    /// A planted fault: a topic without messages begins again.
    #[cfg(test)]
    pub(crate) fn forget_if_empty(&mut self, topic: &str) -> Result<(), Error> {
        if let Some((number, log)) = log_of(&self.topics, topic)?
            && log.first > log.last
        {
            self.topics.insert(topic, (number, 1, 0, 0))?;
        }
        Ok(())
    }

    fn append(&mut self, topic: &str, at: Wall, data: &MessageData, name: Option<&str>) -> Done {
        let known = self.topics.get(topic)?.map(|known| known.value());
        let (number, first, last, bytes) = match known {
            Some(known) => known,
            None => {
                // Topics are never removed.
                let topics = redb::ReadableTableMetadata::len(&self.topics)?;
                let Ok(number) = u32::try_from(topics) else {
                    return Ok(Err(StoreError::Full));
                };
                (number, 1, 0, 0)
            }
        };
        let sequence = last + 1;
        if let Some(name) = name {
            if let Some(earlier) = self.names.get((number, name))? {
                let sequence = earlier.value();
                return Ok(Ok(Completion::Appended { sequence }));
            }
            self.names.insert((number, name), sequence)?;
        }
        let (name, text) = (name.unwrap_or_default(), data.as_json());
        let (name, text) = (name.as_bytes(), text.as_str().as_bytes());
        let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let (at, len) = (at.as_millis().to_le_bytes(), len.to_le_bytes());
        let value = [&at[..], &len[..], name, text].concat();
        self.messages.insert((number, sequence), &value[..])?;
        let bytes = bytes + text.len() as u64;
        self.topics
            .insert(topic, (number, first, sequence, bytes))?;
        Ok(Ok(Completion::Appended { sequence }))
    }

    fn attach(&mut self, name: &str, topic: &Arc<str>, start: Start) -> Done {
        let log = log_of(&self.topics, topic)?.map_or(Log::EMPTY, |(_, log)| log);
        let held = self.subscriptions.get(name)?;
        let held = held.map(|held| (String::from(held.value().0), cursor(held.value().1)));
        let cursor = match held {
            Some((held, _)) if held != **topic => return Ok(Err(StoreError::OtherTopic)),
            Some((_, (_, cursor))) => cursor,
            None => Cursor::at(match start {
                Start::EarliestRetained => log.first - 1,
                _ => log.last,
            }),
        };
        let fence = self.meta.get("fence")?.map_or(0, |fence| fence.value()) + 1;
        self.meta.insert("fence", fence)?;
        self.put(name, topic, fence, &cursor)?;
        Ok(Ok(Completion::Attached { fence, cursor, log }))
    }

    fn put(&mut self, name: &str, topic: &str, fence: u64, cursor: &Cursor) -> Result<(), Error> {
        let numbers = [fence, cursor.start, cursor.floor];
        let numbers = numbers.iter().chain(&cursor.above);
        let value: Vec<u8> = numbers.flat_map(|number| number.to_le_bytes()).collect();
        self.subscriptions.insert(name, (topic, &value[..]))?;
        Ok(())
    }

    /// A subscription of the owner with this fence, or of any if it is 0.
    #[allow(clippy::type_complexity)]
    fn owned(
        &self,
        name: &str,
        fence: u64,
    ) -> Result<Result<(String, u64, Cursor), StoreError>, Error> {
        let Some(held) = self.subscriptions.get(name)? else {
            return Ok(Err(StoreError::Unknown));
        };
        let (topic, value) = held.value();
        let (held, cursor) = cursor(value);
        Ok(match fence == 0 || fence == held {
            true => Ok((String::from(topic), held, cursor)),
            false => Err(StoreError::Fenced),
        })
    }

    fn trim(&mut self, topic: &str, up_to: u64) -> Done {
        let Some((number, mut log)) = log_of(&self.topics, topic)? else {
            return Ok(Ok(Completion::Trimmed));
        };
        while log.first <= up_to.min(log.last) {
            if let Some(value) = self.messages.remove((number, log.first))? {
                let (_, name, data) = parts(value.value());
                log.bytes = log.bytes.saturating_sub(data.len() as u64);
                if !name.is_empty() {
                    self.names.remove((number, name))?;
                }
            }
            log.first += 1;
        }
        self.topics
            .insert(topic, (number, log.first, log.last, log.bytes))?;
        Ok(Ok(Completion::Trimmed))
    }
}

fn log_of(
    topics: &impl ReadableTable<&'static str, (u32, u64, u64, u64)>,
    topic: &str,
) -> Result<Option<(u32, Log)>, Error> {
    let known = topics.get(topic)?.map(|known| known.value());
    Ok(known.map(|(number, first, last, bytes)| (number, Log { first, last, bytes })))
}

/// The fence and the cursor of a subscription.
fn cursor(value: &[u8]) -> (u64, Cursor) {
    let numbers = value.chunks_exact(8);
    let mut numbers = numbers.map(|number| {
        number
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    });
    let mut next = || numbers.next().unwrap_or_default();
    let (fence, start, floor) = (next(), next(), next());
    let above = numbers.collect();
    (
        fence,
        Cursor {
            start,
            floor,
            above,
        },
    )
}

/// The time, the name and the data of a message. redb checks what it reads, so nothing is missing.
fn parts(value: &[u8]) -> (Wall, &str, &str) {
    let number = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |all, byte| all << 8 | u64::from(*byte))
    };
    let (at, rest) = value.split_at_checked(8).unwrap_or_default();
    let (len, rest) = rest.split_at_checked(4).unwrap_or_default();
    let len = usize::try_from(number(len)).unwrap_or(usize::MAX);
    let (name, data) = rest.split_at_checked(len).unwrap_or_default();
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    (Wall::from_millis(number(at)), text(name), text(data))
}

/// Reads messages that are committed.
pub(crate) fn read(
    database: &Database,
    topic: &str,
    after: u64,
    max_records: u32,
    max_bytes: u32,
) -> Done {
    let read = database.begin_read()?;
    let Some((number, log)) = log_of(&read.open_table(TOPICS)?, topic)? else {
        let (log, records) = (Log::EMPTY, Vec::new());
        return Ok(Ok(Completion::Records { log, records }));
    };
    let (mut records, mut bytes) = (Vec::new(), 0);
    let first = log.first.max(after.saturating_add(1));
    let messages = read.open_table(MESSAGES)?;
    for entry in messages.range((number, first)..=(number, u64::MAX))? {
        let (key, value) = entry?;
        let (at, _, data) = parts(value.value());
        bytes += data.len();
        let is_full = records.len() >= max_records as usize || bytes > max_bytes as usize;
        if is_full && !records.is_empty() {
            break;
        }
        let Ok(data) = MessageData::parse(data) else {
            return Ok(Err(StoreError::Failed));
        };
        let sequence = key.value().1;
        records.push(Record { sequence, at, data });
    }
    Ok(Ok(Completion::Records { log, records }))
}

/// How far each subscription is behind.
pub(crate) fn lags(database: &Database) -> Result<Vec<Lag>, Error> {
    let read = database.begin_read()?;
    let topics = read.open_table(TOPICS)?;
    let mut lags = Vec::new();
    for entry in read.open_table(SUBSCRIPTIONS)?.iter()? {
        let (name, value) = entry?;
        let (topic, value) = value.value();
        let last = log_of(&topics, topic)?.map_or(0, |(_, log)| log.last);
        let (_, cursor) = cursor(value);
        let messages = last.saturating_sub(cursor.floor + cursor.above.len() as u64);
        let subscription = String::from(name.value());
        lags.push(Lag {
            subscription,
            messages,
        });
    }
    Ok(lags)
}
