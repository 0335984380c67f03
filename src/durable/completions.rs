//! What the completions of the store change.
//!
//! A completion finds its command once. What it is about may have changed since: a read counts only if its
//! subscription still waits for it, and a fence tells an earlier consumer from the present one.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::answers::DurableError;
use super::clock::Timer;
use super::commands::{Open, Waiter};
use super::events::{Detached, DurableEvent, Published};
use super::log::TopicLog;
use super::machine::{Attaching, DurableTopics};
use super::store::{Command, CommandId, Completion, Cursor, Log, MAX_SEQUENCE, Record, StoreError};
use super::subscription::{Life, Subscription};
use super::window::Window;
use crate::shared::Arc;
use crate::time::Instant;

impl<R> DurableTopics<R> {
    /// Passes on what the store has made of a command. A second completion of a command changes nothing. One that
    /// comes after [`store_timeout`](super::DurableSettings::store_timeout) changes nothing that was answered, but
    /// a message that it has stored is delivered.
    pub fn handle_completion(&mut self, id: CommandId, result: Result<Completion, StoreError>) {
        if let Some(open) = self.commands.finish(id) {
            self.complete(id, open, result);
        } else if let Some(topic) = self.commands.finish_overdue(id) {
            if let Ok(Completion::Appended {
                sequence: sequence @ 1..=MAX_SEQUENCE,
            }) = result
            {
                self.grow(&topic, sequence, 0);
            }
        }
    }

    pub(super) fn complete(
        &mut self,
        id: CommandId,
        open: Open,
        result: Result<Completion, StoreError>,
    ) {
        let Open {
            command,
            waiters,
            reader,
            ..
        } = open;
        match &command {
            Command::Append { topic, .. } => self.appended(id, topic, &command, result),
            Command::Read {
                topic,
                after,
                max_records,
                ..
            } => {
                let found = records(result, *after, *max_records);
                match reader {
                    Some(name) => self.found(id, &name, found),
                    None => self.checked(topic, found),
                }
            }
            Command::Attach {
                subscription,
                topic,
                ..
            } => {
                let waiter = waiters.first().copied().unwrap_or_default();
                let result = self.attached(subscription, topic, waiter.0, result);
                self.settle(waiter, result);
            }
            Command::Save {
                subscription,
                fence,
                ..
            } => {
                let result = done(result, Completion::Saved);
                self.settle_all(waiters, result.map(|()| 1));
                self.saved(subscription, *fence, result);
            }
            Command::Delete {
                subscription,
                fence,
            } => {
                let result = done(result, Completion::Deleted);
                self.deleted(id, (subscription, *fence), &waiters, result);
                let result = match result {
                    Err(StoreError::Unknown) => Ok(0),
                    other => other.map(|()| 1),
                };
                self.settle_all(waiters, result);
            }
            Command::Trim { topic, up_to } => {
                let result = done(result, Completion::Trimmed);
                self.finish_check(topic, result.map(|()| *up_to));
            }
        }
    }

    fn appended(
        &mut self,
        command: CommandId,
        topic: &Arc<str>,
        append: &Command,
        result: Result<Completion, StoreError>,
    ) {
        let result = match result {
            Ok(Completion::Appended {
                sequence: sequence @ 1..=MAX_SEQUENCE,
            }) => Ok(sequence),
            Ok(_) => Err(StoreError::Failed),
            Err(error) => Err(error),
        };
        self.published.push_back(Published { command, result });
        let log = self.topic(topic);
        log.appending -= 1;
        let Command::Append {
            at, data, dedupe, ..
        } = append
        else {
            return;
        };
        match result {
            // With a name, it may be an earlier message that the hub does not know of.
            Ok(sequence) if dedupe.is_some() => self.grow(topic, sequence, 0),
            Ok(sequence) if sequence > log.log.last => {
                let bytes = data.bytes() as u64;
                let (at, data) = (*at, data.clone());
                let record = Record { sequence, at, data };
                for name in self.subscribers(topic) {
                    if let Some(own) = self.subscriptions.get_mut(&name) {
                        own.offer(&record, self.clock.now, &self.settings);
                    }
                }
                self.grow(topic, sequence, bytes);
            }
            Err(StoreError::Busy | StoreError::Full) => self.retain(topic),
            _ => {
                // It may have been stored, or the log has lost its end.
                for name in self.subscribers(topic) {
                    if let Some(own) = self.subscriptions.get_mut(&name) {
                        own.may_have_more = true;
                    }
                    self.wake(&name);
                }
                self.retain(topic);
            }
        }
    }

    /// Notes that a topic has messages up to a sequence; the last has so many bytes, 0 if that is not known.
    pub(super) fn grow(&mut self, topic: &Arc<str>, last: u64, bytes: u64) {
        let now = self.clock.now;
        let max_age = self.retention(topic).max_age_seconds;
        let log = self.topic(topic);
        if last > log.log.last {
            // A look at the oldest that is on its way may not know this message: what it says of bytes is lost then.
            log.has_unknown |= bytes == 0 || last > log.log.last + 1 || log.is_busy;
            log.log.bytes = log.log.bytes.saturating_add(bytes);
            log.log.last = last;
        }
        if let Some(max_age) = max_age {
            log.check_at = log.check_at.min(now + Duration::from_secs(max_age));
        }
        for name in self.subscribers(topic) {
            self.wake(&name);
        }
        self.retain(topic);
    }

    /// Takes messages that were read for a subscription.
    fn found(&mut self, id: CommandId, name: &Arc<str>, found: Found) {
        let Some(own) = self.subscriptions.get_mut(name) else {
            return;
        };
        let Some((_, sent)) = own.reading.take_if(|(open, _)| *open == id) else {
            return;
        };
        let topic = own.topic.clone();
        match found {
            Ok((log, _)) if log.last < sent => self.rewind(&topic, log),
            Ok((log, records)) => {
                records.into_iter().for_each(|record| own.add(record));
                own.may_have_more = false;
                self.is_failing = false;
                self.observe(&topic, log);
                self.wake(name);
            }
            Err(error) => {
                own.retry_at = self.clock.now + self.settings.retry_delay;
                let timer = Timer::Subscription(name.clone());
                self.timers.arm(&mut own.timer, timer, own.retry_at);
                self.report(error);
            }
        }
    }

    /// Takes the oldest messages of a topic, and removes those that its retention does not keep.
    fn checked(&mut self, topic: &Arc<str>, found: Found) {
        let (log, records) = match found {
            Ok(found) => found,
            Err(error) => return self.finish_check(topic, Err(error)),
        };
        self.observe(topic, log);
        let retention = self.retention(topic);
        let known = self
            .topics
            .entry(topic.clone())
            .or_insert_with(TopicLog::new);
        match known.check(retention, log, &records, &self.clock) {
            0 => self.finish_check(topic, Ok(0)),
            up_to => {
                let topic = topic.clone();
                self.submit(Command::Trim { topic, up_to }, Vec::new(), None);
            }
        }
    }

    /// Ends a look at the oldest messages of a topic, of which those up to a sequence were removed.
    fn finish_check(&mut self, topic: &Arc<str>, result: Result<u64, StoreError>) {
        let retry_at = self.clock.now + self.settings.retry_delay;
        let log = self.topic(topic);
        log.is_busy = false;
        match result {
            Ok(up_to) => {
                if log.log.first <= up_to {
                    log.log.bytes = log.log.bytes.saturating_sub(log.freed);
                }
                self.is_failing = false;
                self.trimmed(topic, up_to);
            }
            Err(error) => {
                (log.check_at, log.retry_at) = (Instant::ZERO, retry_at);
                self.report(error);
            }
        }
        self.retain(topic);
    }

    fn attached(
        &mut self,
        name: &Arc<str>,
        topic: &Arc<str>,
        request: u64,
        result: Result<Completion, StoreError>,
    ) -> Result<u64, DurableError> {
        let by = self.requests.connection(request).unwrap_or_default();
        let fence = match &result {
            Ok(Completion::Attached { fence, .. }) => *fence,
            _ => 0,
        };
        let open = self.attaching.remove(name).unwrap_or_default();
        let highest = open.fence;
        if open.count > 1 {
            let (count, fence) = (open.count - 1, fence.max(highest));
            let left = Attaching {
                count,
                fence,
                ..open
            };
            self.attaching.insert(name.clone(), left);
        }
        let conn = self
            .connections
            .get_mut(&by)
            .ok_or(DurableError::NotConnected)?;
        conn.attaching -= 1;
        let Completion::Attached {
            fence,
            mut cursor,
            log,
        } = result?
        else {
            return Err(StoreError::Failed.into());
        };
        let held = self.subscriptions.get(name);
        if highest > fence || held.is_some_and(|held| held.fence >= fence) {
            // Another connection or another hub has attached later, and was answered before.
            return Err(DurableError::NotAttached);
        }
        let by_other = held.is_some_and(|held| held.connection != by);
        self.end(name, by_other.then_some(Detached::TakenOver));
        let log = log.bounded();
        let acknowledged = cursor.end();
        if acknowledged > log.last {
            cursor = Cursor::at(log.first - 1);
            self.events.push_back(DurableEvent::AheadOfLog {
                subscription: name.clone(),
                acknowledged,
                last: log.last,
            });
        }
        if let Some(conn) = self.connections.get_mut(&by) {
            conn.subscriptions.insert(name.clone());
        }
        let position = cursor.floor;
        let new = Subscription::new(topic.clone(), (by, request), fence, Window::of(&cursor));
        self.subscriptions.insert(name.clone(), new);
        self.topic(topic).subscribers.insert(name.clone());
        self.observe(topic, log);
        self.pass(name, log.first - 1);
        self.retain(topic);
        Ok(position)
    }

    fn saved(&mut self, name: &Arc<str>, fence: u64, result: Result<(), StoreError>) {
        let own = self.subscriptions.get_mut(name);
        let Some(own) = own.filter(|own| own.fence == fence) else {
            return;
        };
        own.is_saving = false;
        match result {
            Ok(()) => {}
            Err(StoreError::Fenced) => return self.end(name, Some(Detached::TakenOver)),
            Err(StoreError::Unknown) => return self.end(name, Some(Detached::Deleted)),
            Err(_) => {
                // The next acknowledgement saves this one, too.
                let has_waiters = !own.waiters.is_empty();
                own.is_dirty = true;
                if !has_waiters {
                    return;
                }
            }
        }
        self.save(name, false);
    }

    fn deleted(
        &mut self,
        id: CommandId,
        (name, fence): (&Arc<str>, u64),
        waiters: &[Waiter],
        result: Result<(), StoreError>,
    ) {
        let is_gone = matches!(result, Ok(()) | Err(StoreError::Unknown));
        // The store has done what it was asked before, so what attached then is gone, too.
        let before = is_gone.then_some(id);
        while let Some((id, open)) = before.and_then(|id| self.commands.finish_attach(name, id)) {
            self.complete(id, open, Err(StoreError::Unknown));
        }
        let (request, _) = waiters.first().copied().unwrap_or_default();
        let own = self.subscriptions.get_mut(name);
        let was_attaching = |own: &Subscription| is_gone && fence == 0 && own.request < request;
        let Some(own) = own.filter(|own| own.fence == fence || was_attaching(own)) else {
            return;
        };
        let by_other = self.requests.connection(request) != Some(own.connection);
        match result {
            Ok(()) | Err(StoreError::Unknown) => {
                self.end(name, by_other.then_some(Detached::Deleted));
            }
            Err(StoreError::Fenced) => self.end(name, Some(Detached::TakenOver)),
            Err(_) if own.life == Life::Deleting => {
                own.life = Life::Open;
                self.wake(name);
            }
            Err(_) => {}
        }
    }

    fn settle_all(&mut self, waiters: Vec<Waiter>, result: Result<u64, StoreError>) {
        for waiter in waiters {
            self.settle(waiter, result.map_err(DurableError::from));
        }
    }

    /// Settles an entry of a request, and answers the request if it was the last.
    pub(super) fn settle(&mut self, waiter: Waiter, result: Result<u64, DurableError>) {
        let Some(pending) = self.requests.settle(waiter, result) else {
            return;
        };
        for (entry, _) in pending
            .entries
            .iter()
            .filter(|_| pending.failure().is_some())
        {
            // All or none: those that have begun are left again.
            let own = self.subscriptions.get(&entry.subscription);
            if own.is_some_and(|own| own.is_opened_by(waiter.0)) {
                self.end(&entry.subscription, None);
            }
        }
        self.requests.answers.push_back(pending.answer(waiter.0));
    }

    /// Takes what the store says about a topic; of what it says about the end only the newest counts.
    fn observe(&mut self, topic: &Arc<str>, log: Log) {
        let known = self.topic(topic);
        if log.last >= known.log.last {
            (known.log.last, known.log.bytes) = (log.last, log.bytes);
        }
        self.trimmed(topic, log.first - 1);
    }

    /// Notes that a topic begins behind a sequence.
    fn trimmed(&mut self, topic: &Arc<str>, up_to: u64) {
        let log = &mut self.topic(topic).log;
        if up_to >= log.first {
            (log.first, log.last) = (up_to + 1, log.last.max(up_to));
            for name in self.subscribers(topic) {
                self.pass(&name, up_to);
                self.wake(&name);
            }
        }
    }

    /// Passes messages that a topic no longer has, and reports those that a subscription has not acknowledged.
    fn pass(&mut self, name: &Arc<str>, up_to: u64) {
        let own = self.subscriptions.get_mut(name);
        for (first, last) in own.map(|own| own.window.pass(up_to)).unwrap_or_default() {
            let subscription = name.clone();
            let event = DurableEvent::Trimmed {
                subscription,
                first,
                last,
            };
            self.events.push_back(event);
        }
    }

    /// Detaches those subscriptions of a topic that have come further than its log.
    fn rewind(&mut self, topic: &Arc<str>, log: Log) {
        self.topic(topic).log = log;
        for name in self.subscribers(topic) {
            match self.subscriptions.get_mut(&name) {
                Some(own) if own.window.sent() <= log.last => own.clear(),
                _ => self.end(&name, Some(Detached::AheadOfLog)),
            }
            self.wake(&name);
        }
    }

    /// Reports a failure, unless one was reported and nothing has succeeded since.
    fn report(&mut self, error: StoreError) {
        if !mem::replace(&mut self.is_failing, true) {
            self.events.push_back(DurableEvent::StoreFailed(error));
        }
    }

    /// Forgets a subscription. What its consumer has acknowledged is given to the store, which refuses it if the
    /// subscription has another owner.
    pub(super) fn end(&mut self, name: &Arc<str>, why: Option<Detached>) {
        self.save(name, true);
        let Some(mut own) = self.subscriptions.remove(name) else {
            return;
        };
        let connection = own.connection;
        if let Some(conn) = self.connections.get_mut(&connection) {
            conn.subscriptions.remove(name);
            conn.active.retain(|active| active != name);
            #[cfg(test)]
            super::tests::plant::leave(conn, name, why);
        }
        self.timers
            .disarm(&mut own.timer, Timer::Subscription(name.clone()));
        self.topic(&own.topic).subscribers.remove(name);
        self.retain(&own.topic);
        if let Some(why) = why {
            let subscription = name.clone();
            let event = DurableEvent::Detached {
                subscription,
                connection,
                why,
            };
            self.events.push_back(event);
        }
    }
}

fn done(result: Result<Completion, StoreError>, expected: Completion) -> Result<(), StoreError> {
    match result? == expected {
        true => Ok(()),
        false => Err(StoreError::Failed),
    }
}

/// What a topic has, and messages without a hole.
type Found = Result<(Log, Vec<Record>), StoreError>;

fn records(result: Result<Completion, StoreError>, after: u64, max: u32) -> Found {
    let Completion::Records { log, mut records } = result? else {
        return Err(StoreError::Failed);
    };
    let log = log.bounded();
    let first = log.first.max(after + 1);
    let expected = (first..=log.last).zip(&records).take(max as usize);
    let count = expected
        .take_while(|(next, record)| *next == record.sequence)
        .count();
    records.truncate(count);
    // Something must be there.
    match records.is_empty() && log.last >= first {
        true => Err(StoreError::Failed),
        false => Ok((log, records)),
    }
}
