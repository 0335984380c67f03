//! Everything in random order: publications, consumers that come, go and take over, acknowledgements, clocks that
//! jump, a store whose completions come in any order, late, twice, as failures or never, and a hub that is killed.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::plant::{Plant, plant};
use super::{Hub, Random, topic};
use crate::durable::{
    AckMode, Command, CommandId, Completion, DurableEvent, DurableTopics, MessageData,
    SecondConsumer, Start, StoreError,
};

const NAMES: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 1500;

/// What has happened in all runs together.
#[derive(Debug, Default)]
struct Counts {
    delivered: usize,
    repeats: usize,
    acknowledged: usize,
    refused: usize,
    taken_over: usize,
    unknown: usize,
    never: usize,
    twice: usize,
    killed: usize,
}

struct Run {
    hub: Hub,
    random: Random,
    counts: Counts,
    seed: u64,
    /// What the store has not done yet, and what it has done and not told.
    commands: VecDeque<(CommandId, Command)>,
    done: Vec<(CommandId, Result<Completion, StoreError>)>,
    /// The messages that are stored, by their sequences.
    stored: BTreeMap<u64, String>,
    published: BTreeMap<CommandId, String>,
    messages: usize,
    connections: Vec<u64>,
    last_connection: u64,
    /// Who was last told to be attached.
    holders: BTreeMap<String, u64>,
    asked: BTreeMap<u32, Asked>,
    /// Up to which sequence each subscription has got the messages.
    reached: BTreeMap<String, u64>,
    /// Up to which the connection that is attached now has got them.
    turns: BTreeMap<String, u64>,
    /// What a consumer has acknowledged, whatever it was told.
    sent: BTreeSet<(String, u64)>,
    /// What each consumer was told to be acknowledged.
    acknowledged: BTreeSet<(String, u64)>,
    /// What the checks have found first.
    wrong: Option<&'static str>,
}

#[derive(Clone, Debug)]
enum Asked {
    Subscribe(u64, &'static str),
    Acknowledge(String, u64),
}

impl Run {
    fn new(seed: u64, mode: AckMode, second: SecondConsumer) -> Self {
        let hub = Hub::with(|settings| {
            (settings.window, settings.start) = (8, Start::EarliestRetained);
            (settings.ack_mode, settings.second_consumer) = (mode, second);
            settings.max_read_bytes = 50;
        });
        Self {
            hub,
            random: Random(seed),
            counts: Counts::default(),
            seed,
            commands: VecDeque::new(),
            done: Vec::new(),
            stored: BTreeMap::new(),
            published: BTreeMap::new(),
            messages: 0,
            connections: [1, 2, 3].to_vec(),
            last_connection: 3,
            holders: BTreeMap::new(),
            asked: BTreeMap::new(),
            reached: BTreeMap::new(),
            turns: BTreeMap::new(),
            sent: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            wrong: None,
        }
    }

    fn check(&mut self, is_right: bool, wrong: &'static str) {
        if !is_right {
            self.wrong = self.wrong.or(Some(wrong));
        }
    }

    fn connection(&mut self) -> u64 {
        self.connections[self.random.below(self.connections.len())]
    }

    fn publish(&mut self) {
        self.messages += 1;
        let text = format!("\"m{}\"", self.messages);
        let data = MessageData::parse(&text).unwrap();
        if let Ok(id) = self.hub.topics.publish(&topic(), data, None) {
            self.published.insert(id, text);
        }
    }

    fn subscribe(&mut self) {
        let (connection, name) = (self.connection(), NAMES[self.random.below(3)]);
        let call = format!(r#"subscribe.persistent ["{name}","t"]"#);
        let asked = self.hub.ask(connection, &call).unwrap();
        self.asked.insert(asked, Asked::Subscribe(connection, name));
    }

    fn acknowledge(&mut self) {
        let name = NAMES[self.random.below(3)];
        let reached = self.reached.get(name).copied().unwrap_or_default() as usize;
        let sequence = (reached + 2).saturating_sub(self.random.below(10)) as u64;
        // Now and then one that is not the holder tries.
        let holder = self.holders.get(name).copied();
        let connection = match holder.filter(|_| self.random.below(10) > 0) {
            Some(holder) => holder,
            None => self.connection(),
        };
        let call = format!(r#"acknowledge.persistent ["{name}",{sequence}]"#);
        let asked = self.hub.ask(connection, &call).unwrap();
        let entry = Asked::Acknowledge(name.to_string(), sequence);
        self.asked.insert(asked, entry);
        self.sent.extend(self.acked(name, sequence));
    }

    /// What an acknowledgement is about.
    fn acked(&self, name: &str, sequence: u64) -> Vec<(String, u64)> {
        let first = match self.hub.topics.settings().ack_mode {
            AckMode::Individual => sequence,
            AckMode::Cumulative => 1,
        };
        let all = (first..=sequence).map(|sequence| (name.to_string(), sequence));
        all.collect()
    }

    /// The hub is killed, and begins again over its store, with new connections.
    fn kill(&mut self) {
        for _ in 0..self.random.below(4) {
            self.execute(true);
        }
        self.hub.topics = DurableTopics::new(*self.hub.topics.settings());
        self.hub.tell_time();
        (self.commands, self.done) = (VecDeque::new(), Vec::new());
        (self.holders, self.asked) = (BTreeMap::new(), BTreeMap::new());
        self.published.clear();
        for connection in &mut self.connections {
            self.last_connection += 1;
            *connection = self.last_connection;
            self.hub.topics.add_connection(self.last_connection);
        }
        self.counts.killed += 1;
    }

    fn disconnect(&mut self) {
        let index = self.random.below(self.connections.len());
        let connection = self.connections[index];
        self.hub.topics.remove_connection(connection);
        self.holders.retain(|_, holder| *holder != connection);
        self.last_connection += 1;
        self.connections[index] = self.last_connection;
        self.hub.topics.add_connection(self.last_connection);
    }

    /// The store does its next command, or refuses to.
    fn execute(&mut self, faults: bool) {
        self.commands.extend(self.hub.topics.poll_command());
        let Some((id, command)) = self.commands.pop_front() else {
            return;
        };
        let fault = if faults { self.random.below(14) } else { 99 };
        if fault < 2 {
            let error = [StoreError::Busy, StoreError::Full][fault];
            return self.done.push((id, Err(error)));
        }
        let result = self.hub.store.execute(&command);
        if let (Command::Append { data, .. }, Ok(Completion::Appended { sequence })) =
            (&command, &result)
        {
            let text = data.as_json().as_str().to_string();
            assert_eq!(self.stored.insert(*sequence, text), None);
        }
        match fault {
            2 => {
                self.counts.unknown += 1;
                self.done.push((id, Err(StoreError::Failed)));
            }
            3 => self.counts.never += 1,
            4 => {
                self.counts.twice += 1;
                self.done.push((id, result.clone()));
                self.done.push((id, result));
            }
            _ => self.done.push((id, result)),
        }
    }

    fn complete(&mut self) {
        if !self.done.is_empty() {
            let index = self.random.below(self.done.len());
            let (id, result) = self.done.swap_remove(index);
            self.hub.topics.handle_completion(id, result);
        }
    }

    fn pass_time(&mut self) {
        self.hub.now += self.random.below(8000) as u64;
        self.hub.wall = match self.random.below(6) {
            0 => self.hub.wall.saturating_sub(3_600_000),
            1 => self.hub.wall + 3_600_000,
            _ => self.hub.wall + 4000,
        };
        self.hub.tell_time();
    }

    fn deliver(&mut self, connection: u64) {
        let Some(delivery) = self.hub.topics.poll_delivery(connection) else {
            return;
        };
        let name = delivery.subscription.to_string();
        let record = &delivery.record;
        let sequence = record.sequence;
        let data = record.data.as_json().as_str();
        let stored = self.stored.get(&sequence).map(String::as_str);
        self.check(stored == Some(data), "a message is not stored");
        let is_holder = self.holders.get(&name) == Some(&connection);
        self.check(is_holder, "two connections are attached");
        let pair = (name.clone(), sequence);
        let is_over = self.acknowledged.contains(&pair);
        self.check(!is_over, "an acknowledged message comes again");
        // To this connection all come in their order, but those that are acknowledged.
        let turn = self.turns.get(&name).copied().unwrap_or_default();
        let passed = turn + 1..sequence;
        let mut passed = passed.map(|sequence| (name.clone(), sequence));
        let is_in_order = passed.all(|pair| self.sent.contains(&pair));
        self.check(is_in_order, "redelivery is out of order");
        let reached = self.reached.get(&name).copied().unwrap_or_default();
        self.check(sequence <= reached + 1, "a message is left out");
        self.counts.delivered += 1;
        self.counts.repeats += usize::from(sequence <= reached);
        self.turns.insert(name.clone(), turn.max(sequence));
        self.reached.insert(name, reached.max(sequence));
    }

    fn take_events(&mut self) {
        while let Some(event) = self.hub.topics.poll_event() {
            match event {
                DurableEvent::Detached {
                    subscription,
                    connection,
                    ..
                } => {
                    self.counts.taken_over += 1;
                    let holder = self.holders.get(&*subscription);
                    if holder == Some(&connection) {
                        self.holders.remove(&*subscription);
                    }
                }
                DurableEvent::StoreFailed(_) => {}
                other => panic!("seed {}: {other:?}", self.seed),
            }
        }
    }

    fn take_answers(&mut self) {
        while let Some(answer) = self.hub.topics.poll_answer() {
            let asked = self.asked.remove(&answer.to).expect("one answer");
            match (asked, answer.reply) {
                (Asked::Subscribe(connection, name), Ok(result)) => {
                    let resumed = result.as_json().get("resumed_from_sequence").unwrap();
                    let resumed: u64 = resumed.as_str().parse().unwrap();
                    self.check_resumed(name, resumed);
                    self.holders.insert(name.to_string(), connection);
                    self.turns.insert(name.to_string(), resumed);
                    self.hub.topics.release(answer.opens.unwrap());
                    if !self.connections.contains(&connection) {
                        self.holders.remove(name);
                    }
                }
                (Asked::Acknowledge(name, sequence), Ok(_)) => {
                    self.counts.acknowledged += 1;
                    let reached = self.reached.get(&name).copied().unwrap_or_default();
                    let was_delivered = (1..=reached).contains(&sequence);
                    self.check(was_delivered, "what was never delivered is acknowledged");
                    self.acknowledged.extend(self.acked(&name, sequence));
                }
                (_, Err(_)) => self.counts.refused += 1,
            }
        }
        while let Some(published) = self.hub.topics.poll_published() {
            let text = self
                .published
                .remove(&published.command)
                .expect("one result");
            if let Ok(sequence) = published.result {
                assert_eq!(
                    self.stored.get(&sequence),
                    Some(&text),
                    "seed {}",
                    self.seed
                );
            }
        }
    }

    /// Everything up to the position was got, and everything that was told to be acknowledged is in it.
    fn check_resumed(&mut self, name: &str, resumed: u64) {
        let reached = self.reached.get(name).copied().unwrap_or_default();
        let told = (1..).take_while(|n| self.acknowledged.contains(&(name.to_string(), *n)));
        let told = told.count() as u64;
        let is_known = (told..=reached).contains(&resumed);
        self.check(is_known, "the position is not what was acknowledged");
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0 | 1 => self.publish(),
            2 if self.random.below(2) == 0 => self.subscribe(),
            3..=6 => self.acknowledge(),
            7 if self.random.below(5) == 0 => self.disconnect(),
            7 if self.random.below(25) == 0 => self.kill(),
            8 => self.pass_time(),
            9..=11 => self.execute(true),
            12..=14 => self.complete(),
            _ => {
                let connection = self.connection();
                self.deliver(connection);
            }
        }
        // Events first: a takeover is told before the answer to it.
        self.take_events();
        self.take_answers();
    }

    /// No more faults: every consumer gets and acknowledges all that is stored.
    fn settle(&mut self) {
        let last = self.hub.store_last();
        for round in 0..200 {
            for name in NAMES {
                if !self.holders.contains_key(name) && self.asked.is_empty() {
                    let call = format!(r#"subscribe.persistent ["{name}","t"]"#);
                    let connection = self.connections[0];
                    let asked = self.hub.ask(connection, &call).unwrap();
                    self.asked.insert(asked, Asked::Subscribe(connection, name));
                }
            }
            for _ in 0..40 {
                self.execute(false);
                self.complete();
                self.take_events();
                self.take_answers();
                for connection in self.connections.clone() {
                    self.deliver(connection);
                }
            }
            for (name, connection) in self.holders.clone() {
                let reached = self.reached.get(&name).copied().unwrap_or_default();
                let unacked =
                    (1..=reached).filter(|n| !self.acknowledged.contains(&(name.clone(), *n)));
                for sequence in unacked.take(16).collect::<Vec<u64>>() {
                    let call = format!(r#"acknowledge.persistent ["{name}",{sequence}]"#);
                    let asked = self.hub.ask(connection, &call).unwrap();
                    let entry = Asked::Acknowledge(name.clone(), sequence);
                    self.asked.insert(asked, entry);
                    self.sent.extend(self.acked(&name, sequence));
                }
            }
            self.hub.wait(5000);
            self.take_events();
            self.take_answers();
            let all = NAMES.len() as u64 * last;
            if round > 10 && self.acknowledged.len() as u64 == all {
                return;
            }
        }
        let told: Vec<(&String, usize)> = NAMES
            .iter()
            .filter_map(|name| self.reached.get_key_value(*name))
            .map(|(name, _)| {
                let own = self.acknowledged.iter().filter(|(of, _)| of == name);
                (name, own.count())
            })
            .collect();
        panic!("seed {}: of {last} {told:?}, {:?}", self.seed, self.reached);
    }
}

impl Hub {
    fn store_last(&mut self) -> u64 {
        let topic: Arc<str> = "t".into();
        let read = Command::Read {
            topic,
            after: 0,
            max_records: 0,
            max_bytes: 0,
        };
        match self.store.execute(&read) {
            Ok(Completion::Records { log, .. }) => log.last,
            other => panic!("{other:?}"),
        }
    }
}

// PER-03 PER-04 PER-05 PER-06 PER-08 PER-09 PER-11 PER-12 PER-17 PER-20
#[test]
fn whatever_happens_nothing_is_lost_and_nothing_acknowledged_comes_again() {
    let mut all = Counts::default();
    for seed in 0..200 {
        let mode = [AckMode::Individual, AckMode::Cumulative][seed as usize % 2];
        let second = [SecondConsumer::TakeOver, SecondConsumer::Reject][seed as usize / 2 % 2];
        let mut run = Run::new(seed, mode, second);
        for _ in 0..STEPS {
            run.step();
        }
        // What is still on its way comes now, or never.
        while !run.commands.is_empty() || run.hub.topics.commands_open() > 0 {
            run.execute(false);
            run.complete();
            run.hub.wait(100);
            run.take_events();
            run.take_answers();
        }
        run.settle();
        assert_eq!(run.wrong, None, "seed {seed}");
        all.delivered += run.counts.delivered;
        all.repeats += run.counts.repeats;
        all.acknowledged += run.counts.acknowledged;
        all.refused += run.counts.refused;
        all.taken_over += run.counts.taken_over;
        all.unknown += run.counts.unknown;
        all.never += run.counts.never;
        all.twice += run.counts.twice;
        all.killed += run.counts.killed;
    }
    // A run in which little happens shows little.
    let least = [
        all.repeats,
        all.refused,
        all.taken_over,
        all.unknown,
        all.never,
        all.twice,
    ];
    assert!(least.iter().all(|count| *count > 500), "{all:?}");
    assert!(
        all.acknowledged > 10_000 && all.delivered > 20_000 && all.killed > 200,
        "{all:?}"
    );
}

// PER-09 PER-12 PER-20 TST-18
#[test]
fn the_model_catches_each_planted_fault_by_its_name() {
    for (fault, name) in [
        (
            Plant::TakeoverLeavesBothAttached,
            "two connections are attached",
        ),
        (Plant::RedeliveryOutOfOrder, "redelivery is out of order"),
    ] {
        plant(fault);
        let found = (0..20).filter_map(|seed| {
            let mut run = Run::new(seed, AckMode::Individual, SecondConsumer::TakeOver);
            (0..STEPS).find_map(|_| {
                run.step();
                run.wrong
            })
        });
        let found: BTreeSet<&str> = found.collect();
        plant(Plant::Nothing);
        assert!(found.contains(name), "{fault:?}: {found:?}");
    }
}
