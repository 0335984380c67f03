//! The messages of a topic: a stream for each, whose sequences are those of the messages.
//!
//! A message is its time in 16 hexadecimal digits, and its JSON text. A message with a name has a subject of its own, on
//! which the server takes only one.

use std::sync::Arc;

use antiphon::durable::{Command, Completion, Log, MessageData, Record, StoreError, Wall};
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use crate::hub::{Hub, lock};
use crate::lanes::Job;
use crate::link::{PAUSE, TIME_BYTES, Trouble, unknown};

/// The most messages that are asked for at once.
const MAX_READS: usize = 64;

/// The subject and the text of a message, and the sequence of the last one that its subject may have.
type Outgoing = (String, Vec<u8>, Option<u64>);

impl Hub {
    /// Stores messages in their order. All are sent before the first is answered.
    pub(crate) async fn append(&self, topic: &Arc<str>, mut jobs: Vec<Job>) {
        while let Some(first) = jobs.first() {
            let deadline = first.deadline;
            if !self.make_log(topic, deadline).await {
                // Nothing was sent. Those that came later have more time.
                jobs.remove(0).finish(Err(StoreError::Failed));
                continue;
            }
            let messages = jobs
                .iter()
                .filter_map(|job| self.outgoing(&job.command))
                .collect();
            let results = self.send(topic, messages, deadline).await;
            // What nobody took is sent again, unless something behind it was stored.
            let again = results
                .iter()
                .rposition(|result| *result != Err(Trouble::NotDone));
            let is_over = Instant::now() + PAUSE >= deadline;
            let kept = match is_over {
                true => jobs.len(),
                false => again.map_or(0, |last| last + 1),
            };
            for (job, result) in jobs.drain(..kept).zip(results) {
                let stored = result.map(|sequence| {
                    self.heard(topic, sequence);
                    Completion::Appended { sequence }
                });
                job.finish(stored.map_err(StoreError::from));
            }
            if is_over {
                // The stream may have been removed.
                lock(&self.logs).remove(topic);
            } else if !jobs.is_empty() {
                sleep(PAUSE).await;
            }
        }
    }

    async fn make_log(&self, topic: &Arc<str>, deadline: Instant) -> bool {
        if lock(&self.logs).contains_key(topic) {
            return true;
        }
        let make = || self.link.make_log(topic);
        let made = self.link.persist(deadline, make).await;
        made.map(|()| self.heard(topic, 0)).is_ok()
    }

    /// Notes that a topic has had a sequence.
    pub(crate) fn heard(&self, topic: &Arc<str>, last: u64) {
        let mut logs = lock(&self.logs);
        let known = logs.entry(topic.clone()).or_default();
        *known = last.max(*known);
    }

    /// What a topic has, as far as it was heard of.
    pub(crate) async fn log(&self, topic: &Arc<str>, deadline: Instant) -> Result<Log, Trouble> {
        let known = lock(&self.logs).get(topic).copied().unwrap_or(0);
        let (ask, is_new) = (|| self.link.log(topic), |log: &Log| log.last >= known);
        let log = self.link.settle(deadline, ask, is_new).await?;
        match log.last < known || log == Log::EMPTY {
            // It is not there, or has lost its end.
            true => drop(lock(&self.logs).remove(topic)),
            false => self.heard(topic, log.last),
        }
        Ok(log)
    }

    fn outgoing(&self, command: &Command) -> Option<Outgoing> {
        let Command::Append {
            topic,
            at,
            data,
            dedupe,
        } = command
        else {
            return None;
        };
        let text = format!("{:016x}{}", at.as_millis(), data.as_json().as_str());
        let subject = self.link.names.message(topic, dedupe.as_deref());
        Some((subject, text.into(), dedupe.as_ref().map(|_| 0)))
    }

    async fn send(
        &self,
        topic: &str,
        messages: Vec<Outgoing>,
        deadline: Instant,
    ) -> Vec<Result<u64, Trouble>> {
        let Ok(up) = self.link.up(deadline).await else {
            return messages.iter().map(|_| Err(Trouble::NotDone)).collect();
        };
        let mut answers = Vec::with_capacity(messages.len());
        for (subject, text, expected) in messages {
            let sent = self.link.publish(subject.clone(), text, expected);
            let sent = self.link.over(up, deadline, sent).await;
            answers.push(async move {
                match self.link.over(up, deadline, async { sent?.await }).await {
                    Err(Trouble::Conflict) => self.earlier(topic, &subject, deadline).await,
                    done => done,
                }
            });
        }
        join_all(answers).await
    }

    /// The sequence of the message that has this name already.
    async fn earlier(&self, topic: &str, subject: &str, deadline: Instant) -> Result<u64, Trouble> {
        self.link
            .persist(deadline, || async {
                let stream = self.link.stream(topic).await?;
                let message = stream.get_last_raw_message_by_subject(subject).await;
                Ok(message.map_err(unknown)?.sequence)
            })
            .await
    }

    /// Reads messages, at most so many, and so many bytes.
    pub(crate) async fn read(
        &self,
        topic: &Arc<str>,
        after: u64,
        max_records: u32,
        max_bytes: u32,
        deadline: Instant,
    ) -> Result<Completion, Trouble> {
        let log = self.log(topic, deadline).await?;
        let (stream, mut records) = (self.link.stream(topic).await?, Vec::new());
        let mut next = log.first.max(after.saturating_add(1));
        let mut bytes = 0;
        while next <= log.last {
            // As many as there is room for, if they are as long as the others.
            let room = (max_bytes as usize).saturating_sub(bytes);
            let fitting = (room * records.len()).checked_div(bytes).unwrap_or(1);
            let count = fitting.clamp(1, MAX_READS) as u64;
            let last = log.last.min(next + count - 1);
            let found = join_all((next..=last).map(|sequence| get(&stream, sequence))).await;
            for record in found {
                let record = record?;
                bytes += record.data.bytes();
                let is_full = records.len() >= max_records as usize || bytes > max_bytes as usize;
                if is_full && !records.is_empty() {
                    return Ok(Completion::Records { log, records });
                }
                records.push(record);
            }
            next = last + 1;
        }
        Ok(Completion::Records { log, records })
    }

    /// Removes messages, but none that has not come yet.
    pub(crate) async fn trim(&self, topic: &str, up_to: u64) -> Result<Completion, Trouble> {
        let log = self.link.log(topic).await?;
        let up_to = up_to.min(log.last);
        if up_to >= log.first {
            let stream = self.link.stream(topic).await?;
            let purged = stream.purge().sequence(up_to + 1).await;
            purged.map_err(unknown)?;
        }
        Ok(Completion::Trimmed)
    }
}

async fn get(stream: &Stream<()>, sequence: u64) -> Result<Record, Trouble> {
    let message = stream.get_raw_message(sequence).await;
    let message = message.map_err(|error| match error.kind() {
        // It was removed meanwhile, so all is read again.
        RawMessageErrorKind::NoMessageFound => Trouble::NotDone,
        _ => Trouble::Unknown,
    })?;
    parse(sequence, &message.payload).ok_or(Trouble::Refused(StoreError::Failed))
}

fn parse(sequence: u64, payload: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(payload).ok()?;
    let (at, data) = text.split_at_checked(TIME_BYTES)?;
    let at = Wall::from_millis(u64::from_str_radix(at, 16).ok()?);
    let data = MessageData::parse(data).ok()?;
    Some(Record { sequence, at, data })
}
