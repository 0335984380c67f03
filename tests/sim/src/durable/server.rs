//! A hub: a simple shell around the machine, which checks what the machine lets out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use antiphon::durable::{
    Command, CommandId, Delivery, Detached, DurableAnswer, DurableError, DurableEvent,
    DurableMethod, DurableRequest, DurableSettings, DurableTopic, DurableTopics, MessageData,
    Opening, SecondConsumer, StoreError, Wall,
};
use antiphon::{ErrorProfile, Instant, Json};

use super::book::Holder;
use super::checks::{Broken, Check, Checked};
use super::client::{Down, Up};
use super::owners::{Open, Owner};
use super::plant::Plant;
use super::settings::{Settings, TOPICS};
use super::store::Job;
use super::world::World;

/// The right to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    client: usize,
    pub(super) conn: u64,
    number: u64,
}

/// What a request is about.
#[derive(Debug)]
pub(super) struct Asked {
    method: DurableMethod,
    names: Vec<String>,
    sequences: Vec<u64>,
    /// Which of those of its name each subscription was that the connection held then, and by which attachment.
    held: Vec<Option<(u64, u64)>>,
    topics: Vec<String>,
    /// The subscriptions that it was attached to, also those that it has lost since.
    pub(super) attached: Vec<String>,
}

/// A publication whose outcome is not known.
#[derive(Debug)]
pub(super) struct Publishing {
    topic: &'static str,
    data: MessageData,
    is_named: bool,
}

pub(super) struct Hub {
    pub(super) topics: DurableTopics<Ticket>,
    /// How often it was started.
    pub(super) life: u64,
    /// Who is attached, the highest fence that is known, and what may change that.
    pub(super) owners: BTreeMap<String, Owner>,
    pub(super) fences: BTreeMap<String, u64>,
    pub(super) open: BTreeMap<CommandId, Open>,
    pub(super) publishing: BTreeMap<CommandId, Publishing>,
    pub(super) asked: BTreeMap<Ticket, Asked>,
    /// The request that it works on.
    serving: Option<Ticket>,
    /// The connections that may have something to send.
    pub(super) ready: BTreeSet<u64>,
    /// The time that it was told last, and until when the time of day is not believed.
    pub(super) told: u64,
    wall: Option<u64>,
    distrusted_until: u64,
}

const HOUR: Duration = Duration::from_secs(3600);

impl Hub {
    pub(super) fn new(settings: &Settings, life: u64, plant: Option<Plant>) -> Self {
        let mut durable: DurableSettings = settings.durable;
        if plant == Some(Plant::WindowWider) {
            durable.window += 2;
        }
        Self {
            topics: DurableTopics::new(durable),
            life,
            owners: BTreeMap::new(),
            fences: BTreeMap::new(),
            open: BTreeMap::new(),
            publishing: BTreeMap::new(),
            asked: BTreeMap::new(),
            serving: None,
            ready: BTreeSet::new(),
            told: 0,
            wall: None,
            distrusted_until: 0,
        }
    }

    /// Is told both times for the first time, and how long messages are kept.
    pub(super) fn begin(&mut self, now: u64, wall: u64, settings: &Settings) {
        (self.told, self.wall) = (now, Some(wall));
        let (now, wall) = (Instant::from_nanos(now), Wall::from_millis(wall));
        self.topics.handle_timeout(now, wall);
        for topic in TOPICS {
            if let Ok(parsed) = DurableTopic::parse(topic) {
                self.topics
                    .set_retention(&parsed, settings.retention_of(topic));
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.asked.is_empty() && self.publishing.is_empty() && self.topics.commands_open() == 0
    }

    pub(super) fn waits_for(&self) -> String {
        format!(
            "{:?}, {:?}, {} commands",
            self.asked.keys(),
            self.publishing.keys(),
            self.topics.commands_open()
        )
    }
}

impl World {
    /// Tells a hub both times.
    pub(super) fn tell_time(&mut self, at: usize) -> Checked {
        let mut now = self.now;
        if self.plant == Some(Plant::ClockAhead) {
            now += 30_000_000 * self.steps;
        }
        let drift = match self.plant {
            Some(Plant::WallAhead) => 500 * self.steps,
            _ => 0,
        };
        let wall = self.wall + drift;
        let hub = &mut self.hubs[at];
        let elapsed = now.saturating_sub(hub.told) / 1_000_000;
        let is_ahead = |before: u64| wall > before + elapsed + 60_000;
        if hub.wall.is_some_and(is_ahead) && drift == 0 {
            self.counts.add("clock: an hour without trust");
            hub.distrusted_until = now + HOUR.as_nanos() as u64;
        }
        // What is checked is the time that the hub should have been told.
        (hub.told, hub.wall) = (now, Some(self.wall));
        hub.open.retain(|_, open| open.until > now);
        if self.plant != Some(Plant::ClockNotTold) || !self.rng.chance(30) {
            let now = Instant::from_nanos(now);
            hub.topics.handle_timeout(now, Wall::from_millis(wall));
        }
        self.after(at)?;
        let due = self.hubs[at].topics.poll_timeout();
        let is_later = due.is_none_or(|due| due > Instant::from_nanos(now));
        Check::NoBusyLoop.that(is_later, || format!("hub {at}: due at {due:?}, now {now}"))
    }

    /// Publishes a message. One with a name may be published again.
    pub(super) fn publish(&mut self, at: usize, topic: &'static str, name: Option<&str>) {
        let data = match name {
            Some(name) => MessageData::write(name),
            None => {
                self.last_message += 1;
                let pad = self.rng.size(0, 30);
                MessageData::write(&(self.last_message, "x".repeat(pad)))
            }
        };
        let (Ok(data), Ok(parsed)) = (data, DurableTopic::parse(topic)) else {
            return;
        };
        let hub = &mut self.hubs[at];
        match hub.topics.publish(&parsed, data.clone(), name) {
            Ok(id) => {
                let is_named = name.is_some();
                let publishing = Publishing {
                    topic,
                    data,
                    is_named,
                };
                hub.publishing.insert(id, publishing);
            }
            Err(_) => self.counts.add("publish: refused, too many wait"),
        }
    }

    /// A hub takes the next request of a client.
    pub(super) fn serve(&mut self, client: usize) -> Result<bool, Broken> {
        let one = &mut self.clients[client];
        let (Some(conn), hub) = (one.conn, one.hub) else {
            return Ok(false);
        };
        if one.is_stalled {
            return Ok(false);
        }
        let Some(Up {
            number,
            method,
            params,
        }) = one.up.pop_front()
        else {
            return Ok(false);
        };
        let request = match DurableRequest::parse(method, Some(params.as_json())) {
            Ok(request) => request,
            Err(error) => {
                self.counts.add("hostile: broken params");
                let code = error.as_error().code();
                one.down.push_back(Down::Answer(number, Err(code)));
                return Ok(true);
            }
        };
        let names: Vec<String> = request
            .entries()
            .iter()
            .map(|one| one.subscription().to_string())
            .collect();
        let topics = request
            .entries()
            .iter()
            .map(|one| one.topic().unwrap_or_default().to_string());
        let topics = topics.collect();
        let held = names.iter().map(|name| {
            let owner = self.hubs[hub].owners.get(name)?;
            let incarnation = self.book.subs.get(name)?.incarnation;
            let is_own = (owner.by.conn, owner.incarnation) == (conn, incarnation);
            is_own.then_some((incarnation, owner.serial))
        });
        let held: Vec<Option<(u64, u64)>> = held.collect();
        let sequences = sequences_of(params.as_json());
        let mode = self.settings.durable.ack_mode;
        let acknowledges = matches!(
            method,
            DurableMethod::Acknowledge | DurableMethod::AcknowledgeBatch
        );
        for ((name, sequence), held) in names.iter().zip(&sequences).zip(&held) {
            if let Some(sub) = self
                .book
                .subs
                .get_mut(name)
                .filter(|_| held.is_some() && acknowledges)
            {
                sub.ack(*sequence, mode);
            }
        }
        if method == DurableMethod::Unsubscribe && self.settings.durable.keep_position {
            let is_own = |name: &str| names.iter().any(|own| own == name);
            self.leave(hub, |name, owner| is_own(name) && owner.by.conn == conn);
        }
        let asked = Asked {
            method,
            names,
            sequences,
            held,
            topics,
            attached: Vec::new(),
        };
        let ticket = Ticket {
            client,
            conn,
            number,
        };
        self.trace.say(|| {
            let names = asked.names.join(" ");
            format!("  {conn} asks hub {hub}: {number} {method:?} {names}")
        });
        self.hubs[hub].asked.insert(ticket, asked);
        self.hubs[hub].serving = Some(ticket);
        self.hubs[hub].topics.handle_request(conn, request, ticket);
        self.after(hub)?;
        self.hubs[hub].serving = None;
        Ok(true)
    }

    /// Takes everything that a machine wants done.
    pub(super) fn after(&mut self, at: usize) -> Checked {
        while let Some((id, command)) = self.hubs[at].topics.poll_command() {
            if let Command::Trim { topic, up_to } = &command {
                let retention = self.settings.retention_of(topic);
                let hub = &self.hubs[at];
                let is_trusted = hub.told >= hub.distrusted_until;
                let wall = hub.wall.filter(|_| is_trusted).map(Wall::from_millis);
                let why = self.book.retain(topic, *up_to, retention, wall)?;
                self.counts.add(why);
            }
            let (hub, life, since) = (at, self.hubs[at].life, self.hubs[at].told);
            let timeout = self.settings.durable.store_timeout;
            let until = timeout.map_or(u64::MAX, |timeout| since + timeout.as_nanos() as u64);
            let open = Open {
                command: command.clone(),
                by: self.hubs[at].serving,
                until,
            };
            self.hubs[at].open.insert(id, open);
            self.store.waiting.push_back(Job {
                hub,
                life,
                id,
                command,
                since,
            });
        }
        while let Some(event) = self.hubs[at].topics.poll_event() {
            self.take_event(at, event)?;
        }
        while let Some(answer) = self.hubs[at].topics.poll_answer() {
            self.take_answer(at, answer)?;
        }
        while let Some(published) = self.hubs[at].topics.poll_published() {
            let Some(own) = self.hubs[at].publishing.remove(&published.command) else {
                return Err(Check::SettlesOnce.broken(format!("{published:?}")));
            };
            let sequence = match published.result {
                Ok(sequence) => sequence,
                Err(_) => {
                    self.counts.add("publish: failed");
                    continue;
                }
            };
            let sequence = sequence - u64::from(self.plant == Some(Plant::SequencesSwapped));
            let log = self.book.logs.get(own.topic);
            let stored = log.and_then(|log| log.messages.get(&sequence));
            if self.plant != Some(Plant::SequencesSwapped) {
                Check::StoredFirst.that(stored.is_some(), || format!("{sequence} is told"))?;
            }
            let is_same = stored.is_some_and(|(_, data)| *data == own.data);
            Check::PublishTrue
                .that(is_same, || format!("{sequence} is {stored:?}, not {own:?}"))?;
            let is_again = own.is_named && log.is_some_and(|log| sequence < log.last);
            self.counts.add(match is_again {
                true => "publish: named, and stored before",
                false => "publish: stored",
            });
        }
        while let Some(conn) = self.hubs[at].topics.poll_ready() {
            if self.plant != Some(Plant::WakeLost) || !self.rng.chance(10) {
                self.hubs[at].ready.insert(conn);
            }
        }
        Ok(())
    }

    fn take_event(&mut self, at: usize, event: DurableEvent) -> Checked {
        self.trace.say(|| format!("  hub {at}: {event:?}"));
        match event {
            DurableEvent::Detached {
                subscription,
                connection,
                why,
            } => {
                self.counts.add(match why {
                    Detached::TakenOver => "consumer: taken over",
                    Detached::Deleted => "consumer: deleted by another",
                    _ => return Err(Check::CursorTrue.broken(format!("{subscription}: {why:?}"))),
                });
                self.check_detached(at, &subscription, connection)?;
            }
            DurableEvent::Trimmed {
                subscription,
                first,
                last,
            } => {
                if self.plant != Some(Plant::TrimUntold) {
                    self.counts.add("retention: unacknowledged message removed");
                    self.counts.tally.lost += last + 1 - first;
                    self.book.lose(&subscription, first, last)?;
                }
            }
            DurableEvent::StoreFailed(_) => {}
            other => return Err(Check::CursorTrue.broken(format!("{other:?}"))),
        }
        Ok(())
    }

    fn take_answer(&mut self, at: usize, answer: DurableAnswer<Ticket>) -> Checked {
        let DurableAnswer { to, reply, opens } = answer;
        let Some(asked) = self.hubs[at].asked.remove(&to) else {
            return Err(Check::SettlesOnce.broken(format!("{to:?}")));
        };
        let is_there = self.clients[to.client].conn == Some(to.conn);
        self.trace.say(|| {
            let (conn, number) = (to.conn, to.number);
            format!("  hub {at} answers {conn}: {number} {reply:?}")
        });
        let reply = match (self.plant, asked.method, reply) {
            (Some(Plant::AckRefused), DurableMethod::Acknowledge, Ok(_)) => {
                Err(DurableError::NeverDelivered)
            }
            (.., reply) => reply,
        };
        let down = match reply {
            Ok(result) => {
                self.check_result(at, to, &asked, result.as_json(), opens)?;
                Ok(result)
            }
            Err(error) => {
                self.check_refusal(at, to, &asked, error)?;
                Err(error.error(ErrorProfile::Antiphon).as_error().code())
            }
        };
        let one = &mut self.clients[to.client];
        let is_refused = opens.is_some() && !self.is_healed && self.rng.chance(3);
        let down = match is_refused {
            true => Err(-32603),
            false => down,
        };
        if is_there {
            if self.plant == Some(Plant::AnswerTwice) {
                one.down.push_back(Down::Answer(to.number, down.clone()));
            }
            let is_early = self.plant == Some(Plant::ReleasedEarly) && opens.is_some();
            match is_early {
                true => one.held_back = Some(Down::Answer(to.number, down)),
                false => one.down.push_back(Down::Answer(to.number, down)),
            }
        }
        let Some(opens) = opens else {
            return Ok(());
        };
        if is_refused {
            self.counts.add("consumer: answer replaced by an error");
            self.leave(at, |_, owner| owner.by == to);
            self.hubs[at].topics.refuse(opens);
        } else {
            self.hubs[at].topics.release(opens);
        }
        self.after(at)
    }

    fn check_result(
        &mut self,
        at: usize,
        to: Ticket,
        asked: &Asked,
        result: Json<'_>,
        opens: Option<Opening>,
    ) -> Checked {
        match asked.method {
            DurableMethod::Subscribe | DurableMethod::SubscribeBatch => {
                let is_one = asked.names.len() == 1;
                self.counts.add(match is_one {
                    true => "consumer: attached",
                    false => "consumer: attached to several at once",
                });
                Check::NotBeforeAnswer
                    .that(opens.is_some(), || "an answer that opens nothing".into())?;
                for name in &asked.names {
                    let was_attached = asked.attached.contains(name) || !self.has_conn(to, at);
                    Check::OneConsumer.that(was_attached, || {
                        format!("{name}: {} of hub {at} does not have it", to.conn)
                    })?;
                    let owner = self.hubs[at].owners.get(name);
                    let Some(owner) = owner.filter(|owner| owner.by == to).cloned() else {
                        // It has unsubscribed, or another has taken over, before all entries were attached.
                        continue;
                    };
                    let resumed = resumed(result, name).unwrap_or(u64::MAX);
                    let before = self.book.holders.get(name).map(|one| (one.hub, one.conn));
                    let is_free = before.is_none_or(|before| before == (at, to.conn));
                    Check::OneConsumer.that(is_free, || {
                        format!("{name}: {before:?} has it, and {} of hub {at}", to.conn)
                    })?;
                    let holder = Holder {
                        hub: at,
                        conn: to.conn,
                        incarnation: owner.incarnation,
                        serial: owner.serial,
                        turn: resumed,
                        sent: BTreeMap::new(),
                    };
                    self.book.holders.insert(name.clone(), holder);
                    if let Some((_, sub, log)) = self.book.held(name) {
                        let mut passed = sub.cursor.start + 1..=resumed.min(log.last + 1);
                        let wrong = passed.find(|one| !sub.is_over(log, *one));
                        Check::CursorTrue.that(wrong.is_none(), || {
                            format!("{name} goes on after {resumed}; {wrong:?} is not acknowledged")
                        })?;
                    }
                }
            }
            DurableMethod::Acknowledge | DurableMethod::AcknowledgeBatch => {
                let is_batch = asked.method == DurableMethod::AcknowledgeBatch;
                self.counts
                    .add(if is_batch { "ack: several" } else { "ack: one" });
                let entries: Vec<bool> = result.get("acknowledged").map_or(Vec::new(), |list| {
                    let entries = list.elements();
                    let is_true =
                        |one: Json<'_>| one.get("success").map(|one| one.as_bytes() == b"true");
                    entries.filter_map(is_true).collect()
                });
                let told = entries.into_iter().chain([true]).zip(&asked.names);
                for (((success, name), sequence), held) in
                    told.zip(&asked.sequences).zip(&asked.held)
                {
                    let error = DurableError::Store(StoreError::Failed);
                    match success {
                        true => self.check_acknowledged(name, *sequence, *held)?,
                        false if is_batch => {
                            self.check_ack_refused(at, to, name, (*sequence, *held), error)?
                        }
                        false => {}
                    }
                }
            }
            _ => {
                self.counts.add(match self.settings.durable.keep_position {
                    true => "consumer: unsubscribed, position kept",
                    false => "consumer: deleted",
                });
            }
        }
        Ok(())
    }

    /// Whether a connection has not ended for its hub.
    pub(super) fn has_conn(&self, to: Ticket, at: usize) -> bool {
        self.clients[to.client].conn == Some(to.conn) || self.ghosts.contains(&(at, to.conn))
    }

    fn check_acknowledged(
        &mut self,
        name: &str,
        sequence: u64,
        held: Option<(u64, u64)>,
    ) -> Checked {
        let sub = self.book.subs.get_mut(name);
        let Some(sub) = sub.filter(|sub| held.is_some_and(|held| held.0 == sub.incarnation)) else {
            return Ok(());
        };
        let log = self.book.logs.entry(sub.topic.clone()).or_default();
        let is_known = sub.delivered.contains(&sequence) || sequence <= log.trimmed;
        Check::AckRight.that(is_known, || {
            format!("{name} {sequence} was never delivered")
        })?;
        // What was removed cannot come again.
        let is_stored = sub.is_saved(sequence) || sequence <= log.trimmed;
        Check::CursorStored.that(is_stored, || {
            format!("{name} {sequence} is told, stored {:?}", sub.cursor)
        })?;
        self.counts.tally.acknowledged += 1;
        if sub.is_saved(sequence) && !sub.confirmed.insert(sequence) {
            self.counts.add("ack: repeated");
        }
        Ok(())
    }

    fn check_ack_refused(
        &mut self,
        at: usize,
        to: Ticket,
        name: &str,
        (sequence, held): (u64, Option<(u64, u64)>),
        error: DurableError,
    ) -> Checked {
        if let DurableError::Store(_) = error {
            self.counts.add("ack: failed by the store");
            return Ok(());
        }
        let is_holder = self.book.is_holder(name, at, to.conn);
        let Some((holder, ..)) = self.book.held(name).filter(|_| is_holder && held.is_some())
        else {
            self.counts.add("ack: without being attached");
            return Ok(());
        };
        let is_wrong = holder.sent.contains_key(&sequence)
            && held == Some((holder.incarnation, holder.serial));
        self.counts.add("ack: of what was never delivered");
        Check::AckRight.that(!is_wrong, || {
            format!("{name} {sequence} is refused: {error:?}")
        })
    }

    fn check_refusal(
        &mut self,
        at: usize,
        to: Ticket,
        asked: &Asked,
        error: DurableError,
    ) -> Checked {
        let method = asked.method;
        // All or none.
        self.leave(at, |_, owner| owner.by == to);
        let of_name = |name: &String| {
            super::settings::NAMES
                .iter()
                .find(|one| one.0 == name)
                .map(|one| one.1)
        };
        match error {
            DurableError::NotAttached | DurableError::NeverDelivered
                if method == DurableMethod::Acknowledge =>
            {
                let (name, sequence) = (&asked.names[0], asked.sequences[0]);
                self.check_ack_refused(at, to, name, (sequence, asked.held[0]), error)?;
            }
            DurableError::Store(_) if method == DurableMethod::Acknowledge => {
                self.counts.add("ack: failed by the store");
            }
            DurableError::Store(_) => self.counts.add("consumer: failed by the store"),
            DurableError::InUse => {
                self.counts.add("consumer: rejected");
                let is_right = self.settings.durable.second_consumer == SecondConsumer::Reject
                    || method == DurableMethod::Unsubscribe;
                Check::OneConsumer.that(is_right, || format!("{asked:?}: {error}"))?;
            }
            DurableError::TooMany => self.counts.add("consumer: limit"),
            DurableError::OtherTopic => {
                self.counts.add("consumer: wrong topic");
                let mut pairs = asked.names.iter().zip(&asked.topics);
                let is_right = pairs.any(|(name, topic)| of_name(name) != Some(topic))
                    || asked.names.iter().any(|name| {
                        let sub = self.book.subs.get(name);
                        sub.is_none_or(|sub| Some(&*sub.topic) != of_name(name))
                    });
                Check::AckRight.that(is_right, || format!("{asked:?}: {error}"))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// A connection is sent what it may get, up to `most` messages.
    pub(super) fn deliver(&mut self, client: usize, most: usize) -> Result<bool, Broken> {
        let one = &self.clients[client];
        let (Some(conn), hub) = (one.conn, one.hub) else {
            return Ok(false);
        };
        let mut has_sent = false;
        for _ in 0..most {
            if !self.hubs[hub].ready.contains(&conn) {
                break;
            }
            if self.clients[client].down.len() >= 12 {
                self.counts.add("link: output full");
                break;
            }
            let Some(mut delivery) = self.hubs[hub].topics.poll_delivery(conn) else {
                self.hubs[hub].ready.remove(&conn);
                break;
            };
            if self.plant == Some(Plant::DeliveriesSwapped) {
                if let Some(other) = self.hubs[hub].topics.poll_delivery(conn) {
                    delivery = other;
                }
            }
            has_sent = true;
            self.send(client, conn, delivery)?;
        }
        self.after(hub)?;
        Ok(has_sent)
    }

    fn send(&mut self, client: usize, conn: u64, mut delivery: Delivery) -> Checked {
        let hub = self.clients[client].hub;
        let name = delivery.subscription.to_string();
        if self.plant == Some(Plant::AcknowledgedAgain) {
            let held = self.book.held(&name);
            let again = held.and_then(|(_, sub, log)| {
                let sequence = *sub.confirmed.first()?;
                Some((sequence, log.messages.get(&sequence)?.clone()))
            });
            if let Some((sequence, (at, data))) = again {
                (delivery.record.sequence, delivery.record.at) = (sequence, at);
                delivery.record.data = data;
            }
        }
        let record = &delivery.record;
        let message = (record.sequence, record.at, &record.data);
        let now = match self.plant {
            // What the hub was told is not what the time is.
            Some(Plant::ClockAhead) => self.now,
            _ => self.hubs[hub].told,
        };
        let (is_repeat, is_here) = self.book.deliver(
            (&name, hub, conn),
            &delivery.topic,
            message,
            now,
            &self.settings,
        )?;
        self.counts.tally.delivered += 1;
        if is_repeat {
            self.counts.tally.repeats += 1;
            self.counts.add(match is_here {
                true => "message: again after its time",
                false => "message: again on a new connection",
            });
        }
        let open = self.book.held(&name).map_or(0, |(holder, sub, _)| {
            let open = holder.sent.keys().filter(|one| !sub.acked.contains(one));
            open.count()
        });
        if open >= self.settings.durable.window {
            self.counts.add("message: window full");
        }
        self.trace.mix(record.sequence);
        self.trace.say(|| {
            format!(
                "  {name} {} to {conn} of hub {hub}",
                delivery.record.sequence
            )
        });
        let params = delivery.params();
        self.clients[client].down.push_back(Down::Message(params));
        Ok(())
    }

    /// A hub has lost a connection, and knows it.
    pub(super) fn end_connection(&mut self, at: usize, conn: u64) -> Checked {
        self.leave(at, |_, owner| owner.by.conn == conn);
        self.hubs[at].ready.remove(&conn);
        self.hubs[at].topics.remove_connection(conn);
        self.after(at)
    }

    /// The first hub publishes to each topic.
    pub(super) fn publish_everywhere(&mut self) -> Checked {
        for topic in TOPICS {
            self.publish(0, topic, None);
            self.after(0)?;
        }
        Ok(())
    }
}

/// The sequences that a request has, in its order.
fn sequences_of(params: Json<'_>) -> Vec<u64> {
    let number = |json: Json<'_>| json.as_str().parse().unwrap_or_default();
    let one = params.get("sequence_id").map(number);
    let list = params.get("acknowledgments");
    let list = list.into_iter().flat_map(|list| list.elements());
    let list = list.map(|entry| entry.get("sequence_id").map_or(0, number));
    one.into_iter().chain(list).collect()
}

/// The position from which a subscription goes on.
pub(super) fn resumed(result: Json<'_>, name: &str) -> Option<u64> {
    let number = |json: Json<'_>| json.get("resumed_from_sequence")?.as_str().parse().ok();
    let list = result.get("subscriptions");
    let mut list = list.into_iter().flat_map(|list| list.elements());
    let own = list.find(|entry| {
        let own = entry.get("subscription_id");
        own.is_some_and(|own| own.as_str().trim_matches('"') == name)
    });
    number(own.unwrap_or(result))
}
