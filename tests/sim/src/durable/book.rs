//! The oracle: what is stored, acknowledged and removed. It learns that from what the store commits, and from what hubs and
//! consumers say to each other; `owners` says which connections are attached. The machine is not asked. Only the store asks
//! it, before it takes a subscription from a hub, whether that one holds it: every store does.

use std::collections::{BTreeMap, BTreeSet};

use antiphon::durable::{AckMode, Command, Completion, Cursor, MessageData, Retention, Wall};

use super::checks::{Broken, Check, Checked};
use super::settings::Settings;

/// What is committed of a topic.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) last: u64,
    /// The last sequence that was removed.
    pub(super) trimmed: u64,
    /// All messages, also those that were removed.
    pub(super) messages: BTreeMap<u64, (Wall, MessageData)>,
    names: BTreeMap<String, u64>,
}

/// What is committed of a subscription, and what its consumers have done.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) topic: String,
    /// Which of those that had this name.
    pub(super) incarnation: u64,
    pub(super) cursor: Cursor,
    pub(super) delivered: BTreeSet<u64>,
    /// What the attached consumers have acknowledged, whatever they were told.
    pub(super) acked: BTreeSet<u64>,
    /// What they were told to be acknowledged.
    pub(super) confirmed: BTreeSet<u64>,
    /// What was told to be removed.
    pub(super) lost: BTreeSet<u64>,
}

/// A connection that was told to be attached.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) hub: usize,
    pub(super) conn: u64,
    pub(super) incarnation: u64,
    /// Which of all attachments.
    pub(super) serial: u64,
    /// Up to here all has come that is not acknowledged.
    pub(super) turn: u64,
    /// When each message was sent to it last.
    pub(super) sent: BTreeMap<u64, u64>,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) logs: BTreeMap<String, Log>,
    pub(super) subs: BTreeMap<String, Sub>,
    pub(super) holders: BTreeMap<String, Holder>,
    incarnations: u64,
}

impl Sub {
    /// Whether a message needs no delivery any more.
    pub(super) fn is_over(&self, log: &Log, sequence: u64) -> bool {
        sequence <= log.trimmed || self.acked.contains(&sequence)
    }

    fn has(cursor: &Cursor, sequence: u64) -> bool {
        sequence <= cursor.floor || cursor.above.contains(&sequence)
    }

    /// Whether the stored position has a message.
    pub(super) fn is_saved(&self, sequence: u64) -> bool {
        Self::has(&self.cursor, sequence)
    }

    /// Notes an acknowledgement that the attached consumer makes.
    pub(super) fn ack(&mut self, sequence: u64, mode: AckMode) {
        if self.delivered.contains(&sequence) {
            let first = match mode {
                AckMode::Cumulative => self.cursor.start + 1,
                _ => sequence,
            };
            self.acked.extend(first..=sequence);
        }
    }
}

impl Book {
    /// Notes what the store has committed.
    pub(super) fn commit(&mut self, command: &Command, done: &Completion) -> Checked {
        match (command, done) {
            (
                Command::Append {
                    topic,
                    at,
                    data,
                    dedupe,
                },
                Completion::Appended { sequence },
            ) => {
                let log = self.logs.entry(topic.to_string()).or_default();
                let named = dedupe.as_ref().and_then(|name| log.names.get(&**name));
                if let Some(named) = named {
                    return Check::SequenceOnce
                        .that(named == sequence, || format!("{sequence}, not {named}"));
                }
                let expected = log.last + 1;
                Check::SequenceOnce.that(*sequence == expected, || {
                    format!("{topic}: {sequence}, not {expected}")
                })?;
                log.last = *sequence;
                log.messages.insert(*sequence, (*at, data.clone()));
                if let Some(name) = dedupe {
                    log.names.insert(name.to_string(), *sequence);
                }
            }
            (Command::Trim { topic, up_to }, _) => {
                let log = self.logs.entry(topic.to_string()).or_default();
                log.trimmed = log.trimmed.max(*up_to);
                log.names.retain(|_, sequence| *sequence > *up_to);
            }
            (
                Command::Attach {
                    subscription,
                    topic,
                    ..
                },
                Completion::Attached { cursor, .. },
            ) => {
                let incarnations = &mut self.incarnations;
                self.subs
                    .entry(subscription.to_string())
                    .or_insert_with(|| {
                        *incarnations += 1;
                        Sub {
                            topic: topic.to_string(),
                            incarnation: *incarnations,
                            cursor: cursor.clone(),
                            delivered: BTreeSet::new(),
                            acked: BTreeSet::new(),
                            confirmed: BTreeSet::new(),
                            lost: BTreeSet::new(),
                        }
                    });
            }
            (
                Command::Save {
                    subscription,
                    cursor,
                    ..
                },
                _,
            ) => return self.save(subscription, cursor),
            (Command::Delete { subscription, .. }, _) => {
                self.subs.remove(&**subscription);
            }
            _ => {}
        }
        Ok(())
    }

    fn save(&mut self, name: &str, cursor: &Cursor) -> Checked {
        let Some(sub) = self.subs.get_mut(name) else {
            return Ok(());
        };
        let log = self.logs.entry(sub.topic.clone()).or_default();
        let saved = (sub.cursor.start + 1..=cursor.floor).chain(cursor.above.iter().copied());
        let wrong = saved.into_iter().find(|one| !sub.is_over(log, *one));
        Check::CursorTrue.that(wrong.is_none(), || {
            format!("{name}: {wrong:?} is acknowledged by no consumer in {cursor:?}")
        })?;
        let (before, floor) = (sub.cursor.clone(), sub.cursor.floor);
        let mut kept = before.above.iter().copied().chain([floor]);
        Check::CursorTrue.that(kept.all(|one| Sub::has(cursor, one)), || {
            format!("{name}: {cursor:?} after {before:?}")
        })?;
        sub.cursor = cursor.clone();
        Ok(())
    }

    /// The subscription that a connection holds, if it was not deleted since.
    pub(super) fn held(&mut self, name: &str) -> Option<(&mut Holder, &mut Sub, &Log)> {
        let holder = self.holders.get_mut(name)?;
        let sub = self.subs.get_mut(name)?;
        let is_same = sub.incarnation == holder.incarnation;
        let log = self.logs.entry(sub.topic.clone()).or_default();
        is_same.then_some((holder, sub, log))
    }

    pub(super) fn is_holder(&self, name: &str, hub: usize, conn: u64) -> bool {
        let holder = self.holders.get(name);
        holder.is_some_and(|holder| (holder.hub, holder.conn) == (hub, conn))
    }

    /// Checks a message that leaves for a connection. Returns whether it was delivered before, and whether that was on
    /// this connection.
    pub(super) fn deliver(
        &mut self,
        (name, hub, conn): (&str, usize, u64),
        topic: &str,
        (sequence, at, data): (u64, Wall, &MessageData),
        now: u64,
        settings: &Settings,
    ) -> Result<(bool, bool), Broken> {
        let stored = self
            .logs
            .get(topic)
            .and_then(|log| log.messages.get(&sequence));
        let is_stored = stored.is_some_and(|(when, what)| *when == at && what == data);
        Check::StoredFirst.that(is_stored, || {
            format!("{topic} {sequence}, stored {stored:?}")
        })?;
        let is_holder = self.is_holder(name, hub, conn);
        Check::OneConsumer.that(is_holder, || {
            let holder = self
                .holders
                .get(name)
                .map(|holder| (holder.hub, holder.conn));
            format!("{name} {sequence} to {conn} of hub {hub}, not to {holder:?}")
        })?;
        let Some((holder, sub, log)) = self.held(name) else {
            // It is deleted, and its hub does not know yet.
            return Ok((false, false));
        };
        Check::RepeatsRight.that(!sub.confirmed.contains(&sequence), || {
            format!("{name} {sequence} comes again, and was acknowledged")
        })?;
        let before = holder.sent.insert(sequence, now);
        if let Some(before) = before {
            let wait = settings.durable.ack_timeout;
            let is_due = wait.is_some_and(|wait| now >= before + wait.as_nanos() as u64);
            Check::NotEarly.that(is_due, || {
                format!("{name} {sequence}: {before}, again {now}")
            })?;
        } else {
            let turn = holder.turn;
            let mut passed = turn + 1..sequence;
            let is_next = sequence > turn && passed.all(|one| sub.is_over(log, one));
            Check::InOrder.that(is_next, || format!("{name} {sequence} after {turn}"))?;
            holder.turn = sequence;
        }
        let first = sub.cursor.start + 1;
        let floor = (first..)
            .find(|one| !sub.is_over(log, *one))
            .unwrap_or(first)
            - 1;
        let end = floor + settings.durable.window as u64;
        Check::WindowHeld.that(sequence <= end, || {
            format!("{name} {sequence} beyond {end}")
        })?;
        Ok((!sub.delivered.insert(sequence), before.is_some()))
    }

    /// Checks that messages which are about to be removed are beyond a bound. Returns which.
    pub(super) fn retain(
        &self,
        topic: &str,
        up_to: u64,
        retention: Retention,
        wall: Option<Wall>,
    ) -> Result<&'static str, Broken> {
        let Some(log) = self.logs.get(topic) else {
            return Err(Check::RetentionRight.broken(format!("{topic} has nothing")));
        };
        let bytes: usize = log
            .messages
            .range(up_to..)
            .map(|(_, (_, data))| data.bytes())
            .sum();
        if retention
            .max_count
            .is_some_and(|max| log.last - up_to >= max)
        {
            return Ok("retention: removed by count");
        }
        let is_beyond = |max| bytes as u64 > max && up_to < log.last;
        if retention.max_bytes.is_some_and(is_beyond) {
            return Ok("retention: removed by bytes");
        }
        let at = log.messages.get(&up_to).map(|(at, _)| at.as_millis());
        let is_old = |(at, wall): (u64, Wall)| {
            let max = retention.max_age_seconds;
            max.is_some_and(|max| at + max * 1000 <= wall.as_millis())
        };
        match at.zip(wall).is_some_and(is_old) {
            true => Ok("retention: removed by age"),
            false => Err(Check::RetentionRight.broken(format!(
                "{topic} up to {up_to} of {}, {bytes} bytes, from {at:?} at {wall:?}, by {retention:?}",
                log.last
            ))),
        }
    }

    /// A subscription was told that messages are removed which it has not acknowledged.
    pub(super) fn lose(&mut self, name: &str, first: u64, last: u64) -> Checked {
        let Some(sub) = self.subs.get_mut(name) else {
            return Ok(());
        };
        let trimmed = self.logs.get(&sub.topic).map_or(0, |log| log.trimmed);
        let is_right = |one| one <= trimmed && !sub.confirmed.contains(&one);
        let wrong = (first..=last).find(|one| !is_right(*one));
        Check::TrimTold.that(wrong.is_none(), || {
            format!("{name}: {first} to {last} is told as removed; {wrong:?} is not, or was acknowledged")
        })?;
        sub.lost.extend(first..=last);
        Ok(())
    }

    /// What was removed of an attached subscription, is not acknowledged, and was not told.
    pub(super) fn untold(&mut self, name: &str) -> Option<u64> {
        let (_, sub, log) = self.held(name)?;
        let mut removed = sub.cursor.start + 1..=log.trimmed;
        removed.find(|one| !sub.acked.contains(one) && !sub.lost.contains(one))
    }
}
