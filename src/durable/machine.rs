//! Durable topics: what the owner of the machine calls.
//!
//! What the completions of the store change is in `completions`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;

use super::answers::{DurableAnswer, DurableError, Opening, Pending, Requests};
use super::clock::{Clock, Timer, Timers};
use super::commands::{Commands, Waiter};
use super::delivery::Delivery;
use super::events::{Detached, DurableEvent, Published};
use super::log::{SLICE, TopicLog};
use super::request::{DurableEntry, DurableMethod, DurableRequest};
use super::settings::{DurableSettings, Retention, SecondConsumer};
use super::store::{Command, CommandId, MAX_SEQUENCE, StoreError};
use super::subscription::{Life, MAX_RECORDS, Subscription};
use super::topic::{DurableTopic, MessageData};
use super::wall::Wall;
use super::window::MAX_WINDOW;
use crate::shared::Arc;
use crate::time::Instant;

/// The durable topics of a hub: subscriptions that survive their connections, with acknowledgements, redelivery and
/// retention. The messages and positions are in a store, which the owner drives.
///
/// `R` is the right to answer a request. Connections have numbers that the owner chooses, and never uses again.
/// After each call the owner takes what has come of it: [`poll_command`](Self::poll_command) for the store,
/// [`poll_answer`](Self::poll_answer), [`poll_published`](Self::poll_published), [`poll_event`](Self::poll_event), and
/// [`poll_ready`](Self::poll_ready) for the connections to wake. The page of the [module](super) has an example.
#[derive(Debug)]
pub struct DurableTopics<R> {
    pub(super) settings: DurableSettings,
    pub(super) clock: Clock,
    pub(super) timers: Timers,
    pub(super) connections: BTreeMap<u64, Conn>,
    /// Those to which a connection is attached.
    pub(super) subscriptions: BTreeMap<Arc<str>, Subscription>,
    /// Those to which connections attach now.
    pub(super) attaching: BTreeMap<Arc<str>, Attaching>,
    pub(super) topics: BTreeMap<Arc<str>, TopicLog>,
    retentions: BTreeMap<Arc<str>, Retention>,
    pub(super) commands: Commands,
    pub(super) requests: Requests<R>,
    pub(super) published: VecDeque<Published>,
    pub(super) events: VecDeque<DurableEvent>,
    /// Whether a failure of the store was reported, and nothing has succeeded since.
    pub(super) is_failing: bool,
    /// The connections that are to be woken.
    ready: BTreeSet<u64>,
}

/// The open attaches to a subscription.
#[derive(Debug, Default)]
pub(super) struct Attaching {
    pub(super) count: usize,
    /// The connection of the last.
    pub(super) by: u64,
    /// The highest fence that others have got meanwhile, also by another hub.
    pub(super) fence: u64,
}

#[derive(Debug, Default)]
pub(super) struct Conn {
    pub(super) subscriptions: BTreeSet<Arc<str>>,
    /// How many attaches are open for it.
    pub(super) attaching: usize,
    /// Subscriptions that may have something to send or to read, in turn.
    pub(super) active: VecDeque<Arc<str>>,
}

impl<R> DurableTopics<R> {
    /// Makes a hub without connections. Call [`handle_timeout`](Self::handle_timeout) before anything else.
    pub fn new(settings: DurableSettings) -> Self {
        let window = settings.window.clamp(1, MAX_WINDOW);
        Self {
            settings: DurableSettings { window, ..settings },
            clock: Clock::default(),
            timers: Timers::default(),
            connections: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            attaching: BTreeMap::new(),
            topics: BTreeMap::new(),
            retentions: BTreeMap::new(),
            commands: Commands::default(),
            requests: Requests::new(),
            published: VecDeque::new(),
            events: VecDeque::new(),
            is_failing: false,
            ready: BTreeSet::new(),
        }
    }

    /// Sets how long the messages of a topic are kept, instead of [`DurableSettings::retention`]. After a restart, old
    /// messages of a topic are removed when this was called, or when somebody publishes or subscribes to it.
    pub fn set_retention(&mut self, topic: &DurableTopic, retention: Retention) {
        self.retentions.insert(topic.0.clone(), retention);
        self.topic(&topic.0).check_at = Instant::ZERO;
        self.retain(&topic.0);
    }

    /// Adds a connection, which may then subscribe.
    pub fn add_connection(&mut self, connection: u64) {
        self.connections.entry(connection).or_default();
    }

    /// Removes a connection that has ended. Its subscriptions and their positions stay in the store, and
    /// acknowledgements that it has sent are still stored.
    pub fn remove_connection(&mut self, connection: u64) {
        let removed = self.connections.remove(&connection);
        for name in removed
            .into_iter()
            .flat_map(|removed| removed.subscriptions)
        {
            self.end(&name, None);
        }
        self.ready.remove(&connection);
    }

    /// Publishes a message: it is delivered when it is stored, and [`poll_published`](Self::poll_published) then
    /// returns its sequence. If the topic still has a message of the name `dedupe`, nothing is stored, and the
    /// sequence is that of the earlier one.
    ///
    /// # Errors
    /// [`StoreError::Busy`], if as many publications wait as the settings allow. Nothing was done.
    pub fn publish(
        &mut self,
        topic: &DurableTopic,
        data: MessageData,
        dedupe: Option<&str>,
    ) -> Result<CommandId, StoreError> {
        self.commands.check(data.bytes(), &self.settings)?;
        self.topic(&topic.0).appending += 1;
        let command = Command::Append {
            topic: topic.0.clone(),
            at: self.clock.wall,
            data,
            dedupe: dedupe.map(Arc::from),
        };
        Ok(self.submit(command, Vec::new(), None))
    }

    /// Does what a request asks for, which the owner's hook has allowed. The answer comes from
    /// [`poll_answer`](Self::poll_answer), at once or when the store has done its part.
    pub fn handle_request(&mut self, connection: u64, request: DurableRequest, to: R) {
        let DurableRequest { method, entries } = request;
        let pending = Pending {
            to,
            connection,
            method,
            entries: entries.iter().map(|entry| (entry.clone(), None)).collect(),
        };
        if let Err(error) = self.check(connection, method, &entries) {
            let (to, reply, opens) = (pending.to, Err(error), None);
            return self
                .requests
                .answers
                .push_back(DurableAnswer { to, reply, opens });
        }
        if entries.is_empty() {
            return self.requests.answers.push_back(pending.answer(0));
        }
        let number = self.requests.add(pending);
        for (index, entry) in entries.iter().enumerate() {
            match &entry.topic {
                Some(topic) => self.attach(connection, entry, topic, (number, index)),
                None if method == DurableMethod::Unsubscribe => {
                    self.unsubscribe(connection, entry, (number, index));
                }
                None => self.acknowledge(connection, entry, (number, index)),
            }
        }
        // Entries of a batch for one subscription are saved together.
        for entry in &entries {
            self.save(&entry.subscription, false);
            self.wake(&entry.subscription);
        }
    }

    /// Notes that the answer to a subscribe is in the connection's output, or cannot be sent: its subscriptions
    /// begin.
    pub fn release(&mut self, opening: Opening) {
        for name in self.opened_by(opening) {
            if let Some(own) = self.subscriptions.get_mut(&name) {
                own.life = Life::Open;
            }
            self.wake(&name);
        }
    }

    /// Ends the subscriptions of an answer that was replaced by an error: the peer does not know of them.
    pub fn refuse(&mut self, opening: Opening) {
        for name in self.opened_by(opening) {
            self.end(&name, None);
        }
    }

    /// The subscriptions that wait for this answer.
    fn opened_by(&self, opening: Opening) -> Vec<Arc<str>> {
        let conn = self.connections.get(&opening.connection);
        let names = conn.into_iter().flat_map(|conn| &conn.subscriptions);
        let is_opened = |name: &&Arc<str>| {
            let own = self.subscriptions.get(*name);
            own.is_some_and(|own| own.is_opened_by(opening.request))
        };
        names.filter(is_opened).cloned().collect()
    }

    /// Returns the next message for a connection. `None` if there is none: the owner asks again when
    /// [`poll_ready`](Self::poll_ready) returns the connection. A message that is returned counts as sent. To be
    /// called while the connection can write, because it reads ahead.
    pub fn poll_delivery(&mut self, connection: u64) -> Option<Delivery> {
        let timeout = self.settings.ack_timeout;
        let due_at = timeout.map_or(Instant::FAR_FUTURE, |timeout| self.clock.now + timeout);
        loop {
            let active = &mut self.connections.get_mut(&connection)?.active;
            let name = active.pop_front()?;
            let own = self.subscriptions.get_mut(&name)?;
            let Some(record) = own.send(self.settings.window, due_at) else {
                own.is_active = false;
                self.read(&name);
                continue;
            };
            // The others have their turn first.
            active.push_back(name.clone());
            self.timers
                .arm(&mut own.timer, Timer::Subscription(name.clone()), due_at);
            return Some(Delivery {
                topic: own.topic.clone(),
                subscription: name,
                record,
            });
        }
    }

    /// Returns a connection for which [`poll_delivery`](Self::poll_delivery) is to be called again.
    pub fn poll_ready(&mut self) -> Option<u64> {
        self.ready.pop_first()
    }

    /// Returns the next command for the store, and its number, with which its completion is passed on.
    pub fn poll_command(&mut self) -> Option<(CommandId, Command)> {
        self.commands.poll()
    }

    /// Whether one of the functions that return what is to be done has something.
    pub fn has_output(&self) -> bool {
        let is_empty = self.requests.answers.is_empty()
            && self.published.is_empty()
            && self.events.is_empty()
            && self.ready.is_empty();
        self.commands.has_next() || !is_empty
    }

    /// Returns the next answer to send.
    pub fn poll_answer(&mut self) -> Option<DurableAnswer<R>> {
        self.requests.answers.pop_front()
    }

    /// Returns what has come of a publication.
    pub fn poll_published(&mut self) -> Option<Published> {
        self.published.pop_front()
    }

    /// Returns what the program should know.
    pub fn poll_event(&mut self) -> Option<DurableEvent> {
        self.events.pop_front()
    }

    /// Tells the current time by both clocks, before the other methods are called: `now` runs evenly, `wall` may
    /// jump. What is due is done: messages that were not acknowledged become due, commands that were not completed
    /// count as failed, old messages are removed.
    ///
    /// If `wall` runs more than a minute ahead of `now` between two calls, no message is too old for an hour:
    /// a clock that is corrected in that time has cost nothing.
    pub fn handle_timeout(&mut self, now: Instant, wall: Wall) {
        let topics = match self.clock.set(now, wall) {
            true => self.topics.keys().cloned().collect(),
            false => Vec::new(),
        };
        for topic in topics {
            // Its time was reckoned by the other time of day.
            self.topic(&topic).check_at = Instant::ZERO;
            self.retain(&topic);
        }
        let now = self.clock.now;
        // Not those that are made meanwhile: at the end of time they are due at once.
        for _ in 0..self.commands.len() {
            if let Some((id, open)) = self.commands.expire(now, self.settings.max_publishes) {
                self.complete(id, open, Err(StoreError::Failed));
            }
        }
        while let Some(timer) = self.timers.expire(now) {
            match timer {
                Timer::Topic(topic) => {
                    self.topic(&topic).timer = None;
                    self.retain(&topic);
                }
                Timer::Subscription(name) => {
                    let Some(own) = self.subscriptions.get_mut(&name) else {
                        continue;
                    };
                    own.timer = None;
                    let next = own.window.expire(now).unwrap_or(Instant::FAR_FUTURE);
                    let next = if own.retry_at > now {
                        next.min(own.retry_at)
                    } else {
                        next
                    };
                    self.timers
                        .arm(&mut own.timer, Timer::Subscription(name.clone()), next);
                    self.wake(&name);
                }
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is next to be called; `None` for never, unless something
    /// happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = [self.commands.deadline(), self.timers.next()];
        deadlines.into_iter().flatten().min()
    }

    /// Tells that a topic has messages up to `last`, which were not published here but by another hub.
    pub fn handle_grown(&mut self, topic: &DurableTopic, last: u64) {
        self.grow(&topic.0, last.min(MAX_SEQUENCE), 0);
    }

    /// Tells that another hub has attached to a subscription, and has got this fence.
    pub fn handle_takeover(&mut self, subscription: &str, fence: u64) {
        let own = self.subscriptions.get_key_value(subscription);
        if let Some((name, _)) = own.filter(|(_, own)| own.fence < fence) {
            self.end(&name.clone(), Some(Detached::TakenOver));
        }
        if let Some(open) = self.attaching.get_mut(subscription) {
            open.fence = fence.max(open.fence);
        }
    }

    /// Whether a connection is attached to a subscription, or about to be.
    pub fn holds(&self, subscription: &str) -> bool {
        self.subscriptions.contains_key(subscription) || self.attaching.contains_key(subscription)
    }

    /// The settings.
    pub const fn settings(&self) -> &DurableSettings {
        &self.settings
    }

    /// How many messages of its topic a subscription has not acknowledged; `None` if no connection is attached.
    pub fn lag(&self, subscription: &str) -> Option<u64> {
        let own = self.subscriptions.get(subscription)?;
        let last = self.last(&own.topic).max(own.window.sent());
        Some(last - own.window.floor() - own.window.cursor().above.len() as u64)
    }

    /// How many subscriptions have a connection.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// How many commands have no completion yet.
    pub fn commands_open(&self) -> usize {
        self.commands.len()
    }

    /// Checks a request as far as the store is not needed.
    fn check(
        &self,
        connection: u64,
        method: DurableMethod,
        entries: &[DurableEntry],
    ) -> Result<(), DurableError> {
        let conn = self.connections.get(&connection);
        let conn = conn.ok_or(DurableError::NotConnected)?;
        let rejects = self.settings.second_consumer == SecondConsumer::Reject;
        let mut new = 0;
        for entry in entries.iter().filter(|_| method.subscribes()) {
            let own = self.subscriptions.get(&entry.subscription);
            if own.is_some_and(|own| entry.topic() != Some(&own.topic)) {
                return Err(DurableError::OtherTopic);
            }
            let by = own.map(|own| own.connection);
            let attaching = self.attaching.get(&entry.subscription).map(|open| open.by);
            let mut others = by.into_iter().chain(attaching);
            if rejects && others.any(|other| other != connection) {
                return Err(DurableError::InUse);
            }
            new += usize::from(by != Some(connection));
        }
        let (held, all) = (conn.subscriptions.len(), self.subscriptions.len());
        let free = self
            .settings
            .max_per_connection
            .saturating_sub(held + conn.attaching);
        let all = self
            .settings
            .max_subscriptions
            .saturating_sub(all + self.attaching.len());
        match new > free.min(all) {
            true => Err(DurableError::TooMany),
            false => Ok(()),
        }
    }

    fn attach(
        &mut self,
        connection: u64,
        entry: &DurableEntry,
        topic: &DurableTopic,
        waiter: Waiter,
    ) {
        let command = Command::Attach {
            subscription: entry.subscription.clone(),
            topic: topic.0.clone(),
            start: self.settings.start,
            takes_over: self.settings.second_consumer == SecondConsumer::TakeOver,
        };
        self.submit(command, [waiter].into(), None);
        let open = self.attaching.entry(entry.subscription.clone());
        let open = open.or_default();
        (open.by, open.count) = (connection, open.count + 1);
        if let Some(conn) = self.connections.get_mut(&connection) {
            conn.attaching += 1;
        }
    }

    fn acknowledge(&mut self, connection: u64, entry: &DurableEntry, waiter: Waiter) {
        let own = self.subscriptions.get_mut(&entry.subscription);
        let Some(own) = own.filter(|own| own.connection == connection) else {
            return self.settle(waiter, Err(DurableError::NotAttached));
        };
        match own.window.ack(entry.sequence, self.settings.ack_mode) {
            None => self.settle(waiter, Err(DurableError::NeverDelivered)),
            Some(false) if !own.is_saving && !own.is_dirty => self.settle(waiter, Ok(1)),
            Some(_) => {
                own.is_dirty = true;
                own.waiters.push(waiter);
            }
        }
    }

    fn unsubscribe(&mut self, connection: u64, entry: &DurableEntry, waiter: Waiter) {
        let name = &entry.subscription;
        let own = self.subscriptions.get_mut(name);
        if self.settings.keep_position {
            let is_own = own.is_some_and(|own| own.connection == connection);
            if is_own {
                self.end(name, None);
            }
            return self.settle(waiter, Ok(u64::from(is_own)));
        }
        let fence = own.map_or(0, |own| {
            if own.life == Life::Open {
                own.life = Life::Deleting;
            }
            own.fence
        });
        let subscription = name.clone();
        let command = Command::Delete {
            subscription,
            fence,
        };
        self.submit(command, [waiter].into(), None);
    }

    pub(super) fn submit(
        &mut self,
        command: Command,
        waiters: Vec<Waiter>,
        reader: Option<Arc<str>>,
    ) -> CommandId {
        let timeout = self.settings.store_timeout;
        let deadline = timeout.map(|timeout| self.clock.now + timeout);
        self.commands.submit(command, waiters, reader, deadline)
    }

    /// The log of a topic.
    pub(super) fn topic(&mut self, topic: &Arc<str>) -> &mut TopicLog {
        self.topics
            .entry(topic.clone())
            .or_insert_with(TopicLog::new)
    }

    pub(super) fn subscribers(&self, topic: &Arc<str>) -> Vec<Arc<str>> {
        let log = self.topics.get(topic);
        log.map(|log| log.subscribers.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The last message that a topic has.
    fn last(&self, topic: &str) -> u64 {
        self.topics.get(topic).map_or(0, |topic| topic.log.last)
    }

    pub(super) fn retention(&self, topic: &str) -> Retention {
        *self
            .retentions
            .get(topic)
            .unwrap_or(&self.settings.retention)
    }

    /// Wakes the connection of a subscription, if there is something to do for it.
    pub(super) fn wake(&mut self, name: &Arc<str>) {
        let Some(own) = self.subscriptions.get_mut(name) else {
            return;
        };
        let last = self
            .topics
            .get(&own.topic)
            .map_or(0, |topic| topic.log.last);
        let has_work = own.has_work(last, self.clock.now, self.settings.window);
        if has_work && !mem::replace(&mut own.is_active, true) {
            if let Some(conn) = self.connections.get_mut(&own.connection) {
                conn.active.push_back(name.clone());
                self.ready.insert(own.connection);
            }
            #[cfg(test)]
            super::tests::plant::wake(&mut self.connections, name);
        }
    }

    /// Reads on for a subscription, if it has nothing to send.
    fn read(&mut self, name: &Arc<str>) {
        let Some(own) = self.subscriptions.get(name) else {
            return;
        };
        let (last, size) = (self.last(&own.topic), self.settings.window);
        let Some(next) = own.to_read(last, self.clock.now, size) else {
            return;
        };
        let left = (own.window.floor() + size as u64).saturating_sub(next - 1);
        let sent = own.window.sent();
        let command = Command::Read {
            topic: own.topic.clone(),
            after: next - 1,
            max_records: left.clamp(1, MAX_RECORDS as u64) as u32,
            max_bytes: self.settings.max_read_bytes,
        };
        let id = self.submit(command, Vec::new(), Some(name.clone()));
        if let Some(own) = self.subscriptions.get_mut(name) {
            own.reading = Some((id, sent));
        }
    }

    /// Stores the position of a subscription, if it has changed. Unless it is `now` to be done, it waits until an
    /// earlier one is stored: so many acknowledgements are stored together.
    pub(super) fn save(&mut self, name: &Arc<str>, now: bool) {
        let own = self.subscriptions.get_mut(name);
        let Some(own) = own.filter(|own| own.is_dirty && (now || !own.is_saving)) else {
            return;
        };
        (own.is_dirty, own.is_saving) = (false, true);
        let command = Command::Save {
            subscription: name.clone(),
            fence: own.fence,
            cursor: own.window.cursor(),
        };
        let waiters = mem::take(&mut own.waiters);
        self.submit(command, waiters, None);
    }

    /// Looks at the oldest messages of a topic, if some may have to be removed, and forgets a topic that nobody
    /// needs.
    pub(super) fn retain(&mut self, topic: &Arc<str>) {
        let retention = self.retention(topic);
        let Some(log) = self.topics.get_mut(topic) else {
            return;
        };
        if retention == Retention::FOREVER {
            if log.subscribers.is_empty() && log.appending == 0 {
                self.topics.remove(topic);
            }
            return;
        }
        if log.is_busy {
            return;
        }
        let check_at = log.check_at(retention);
        if check_at > self.clock.now {
            let timer = Timer::Topic(topic.clone());
            return self.timers.arm(&mut log.timer, timer, check_at);
        }
        (log.is_busy, log.has_unknown) = (true, false);
        let command = Command::Read {
            topic: topic.clone(),
            after: log.log.first - 1,
            max_records: SLICE,
            max_bytes: self.settings.max_read_bytes,
        };
        self.submit(command, Vec::new(), None);
    }
}
