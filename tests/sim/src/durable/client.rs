//! A program that consumes, around the reader of the library, and the link to its hub.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use antiphon::durable::{
    DurableEntry, DurableMessage, DurableMethod, DurableReader, DurableTopic, Received, Resumed,
};
use antiphon::{Json, OwnedJson};

use super::book::Book;
use super::checks::{Broken, Check, Checked};
use super::plant::Plant;
use super::server::resumed;
use super::settings::NAMES;
use super::world::World;

/// A request on its way.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) number: u64,
    pub(super) method: DurableMethod,
    pub(super) params: OwnedJson,
}

/// What a hub sends.
#[derive(Clone, Debug)]
pub(super) enum Down {
    /// The answer to a request: the result, or the code of an error.
    Answer(u64, Result<OwnedJson, i64>),
    Message(OwnedJson),
}

/// What a request was made for.
#[derive(Debug)]
enum Asked {
    Subscribe(Vec<&'static str>),
    Acknowledge(Vec<(&'static str, u64)>),
    Other,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) reader: DurableReader,
    /// What the program has and has not finished.
    pub(super) program: BTreeSet<u64>,
    /// What it has finished, since the position was last set back.
    done: BTreeSet<u64>,
    /// What it has to acknowledge.
    to_ack: BTreeSet<u64>,
    is_asking: bool,
    /// The connection on which the answer to its subscribe has come.
    answered: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) hub: usize,
    pub(super) conn: Option<u64>,
    pub(super) up: VecDeque<Up>,
    pub(super) down: VecDeque<Down>,
    pub(super) is_stalled: bool,
    /// An answer that a planted fault lets go after the messages.
    pub(super) held_back: Option<Down>,
    asked: BTreeMap<u64, Asked>,
    consumers: BTreeMap<&'static str, Consumer>,
    last: u64,
}

impl Client {
    pub(super) fn new(max_open: usize) -> Self {
        let consumer = || Consumer {
            reader: DurableReader::new().with_max_open(max_open),
            program: BTreeSet::new(),
            done: BTreeSet::new(),
            to_ack: BTreeSet::new(),
            is_asking: false,
            answered: None,
        };
        Self {
            hub: 0,
            conn: None,
            up: VecDeque::new(),
            down: VecDeque::new(),
            is_stalled: false,
            held_back: None,
            asked: BTreeMap::new(),
            consumers: NAMES.iter().map(|(name, _)| (*name, consumer())).collect(),
            last: 0,
        }
    }

    pub(super) fn is_quiet(&self) -> bool {
        let is_done = |one: &Consumer| one.program.is_empty() && one.to_ack.is_empty();
        self.asked.is_empty() && self.down.is_empty() && self.consumers.values().all(is_done)
    }

    /// The program has space for all.
    pub(super) fn make_space(&mut self) {
        for consumer in self.consumers.values_mut() {
            consumer.reader = std::mem::take(&mut consumer.reader).with_max_open(1024);
        }
    }

    pub(super) fn is_attached(&self, name: &str) -> bool {
        let consumer = self.consumers.get(name);
        consumer.is_some_and(|consumer| consumer.reader.is_attached())
    }

    fn ask(&mut self, method: DurableMethod, params: OwnedJson, asked: Asked) {
        self.last += 1;
        let number = self.last;
        self.asked.insert(number, asked);
        self.up.push_back(Up {
            number,
            method,
            params,
        });
    }

    /// Subscribes to some of `names`, unless that is asked for already.
    pub(super) fn subscribe(&mut self, names: &[&'static str], topic: Option<&str>) -> bool {
        if self.conn.is_none() {
            return false;
        }
        let mut entries = Vec::new();
        let mut asked = Vec::new();
        for (name, own) in NAMES.iter().filter(|one| names.contains(&one.0)) {
            let Some(consumer) = self.consumers.get_mut(name) else {
                continue;
            };
            if !consumer.is_asking {
                let topic = DurableTopic::parse(topic.unwrap_or(own));
                entries.extend(topic.map(|topic| DurableEntry::subscribe(name, &topic)));
                consumer.is_asking = true;
                asked.push(*name);
            }
        }
        let method = match entries.len() {
            0 => return false,
            1 => DurableMethod::Subscribe,
            _ => DurableMethod::SubscribeBatch,
        };
        self.ask(method, method.write(&entries), Asked::Subscribe(asked));
        true
    }

    pub(super) fn unsubscribe(&mut self, name: &'static str) {
        if self.conn.is_some() {
            let method = DurableMethod::Unsubscribe;
            let params = method.write(&[DurableEntry::unsubscribe(name)]);
            self.ask(method, params, Asked::Other);
        }
    }

    pub(super) fn acknowledge(&mut self, all: Vec<(&'static str, u64)>) {
        let entries: Vec<DurableEntry> = all
            .iter()
            .map(|(name, sequence)| DurableEntry::acknowledge(name, *sequence))
            .collect();
        let method = match entries.len() {
            0 => return,
            1 => DurableMethod::Acknowledge,
            _ => DurableMethod::AcknowledgeBatch,
        };
        if self.conn.is_some() {
            self.ask(method, method.write(&entries), Asked::Acknowledge(all));
        }
    }

    pub(super) fn ask_badly(&mut self) {
        if self.conn.is_some() {
            let params = Json::parse_str(r#"{"subscription_id":""}"#);
            let params = params.unwrap_or(Json::NULL).to_owned_json();
            self.ask(DurableMethod::Subscribe, params, Asked::Other);
        }
    }

    /// Sends the acknowledgements that are due, one by one or together.
    pub(super) fn send_acks(&mut self, together: bool) -> bool {
        let mut all = Vec::new();
        for (name, consumer) in &mut self.consumers {
            if consumer.reader.is_attached() && self.conn.is_some() {
                let due = std::mem::take(&mut consumer.to_ack);
                all.extend(due.into_iter().map(|sequence| (*name, sequence)));
            }
        }
        let has_some = !all.is_empty();
        match together {
            true => self.acknowledge(all),
            false => all.into_iter().for_each(|one| self.acknowledge(vec![one])),
        }
        has_some
    }

    /// The program finishes a message.
    pub(super) fn finish(&mut self, name: &'static str) -> bool {
        let Some(consumer) = self.consumers.get_mut(name) else {
            return false;
        };
        let Some(sequence) = consumer.program.pop_first() else {
            return false;
        };
        consumer.reader.finish(sequence);
        consumer.done.insert(sequence);
        if consumer.reader.is_attached() {
            consumer.to_ack.insert(sequence);
        }
        true
    }

    /// The program gives a message back.
    pub(super) fn give_back(&mut self, name: &'static str) -> bool {
        let given = self.consumers.get_mut(name).and_then(|consumer| {
            let sequence = consumer.program.pop_last()?;
            consumer.reader.give_back(sequence);
            Some(())
        });
        given.is_some()
    }

    /// The client's end of a connection is over.
    pub(super) fn disconnect(&mut self, plant: Option<Plant>, max_open: usize) {
        (self.conn, self.held_back, self.is_stalled) = (None, None, false);
        self.up.clear();
        self.down.clear();
        self.asked.clear();
        for consumer in self.consumers.values_mut() {
            consumer.reader.handle_disconnected();
            (consumer.is_asking, consumer.answered) = (false, None);
            consumer.to_ack.clear();
            if plant == Some(Plant::ReaderForgets) {
                consumer.reader = DurableReader::new().with_max_open(max_open);
            }
        }
    }
}

impl World {
    /// A client reads what comes next.
    pub(super) fn read(&mut self, client: usize) -> Result<bool, Broken> {
        let one = &mut self.clients[client];
        if one.is_stalled {
            return Ok(false);
        }
        let next = one.down.pop_front();
        let next = next.or_else(|| one.held_back.take());
        match next {
            None => return Ok(false),
            Some(Down::Message(params)) => self.take_message(client, params.as_json())?,
            Some(Down::Answer(number, result)) => self.take_answered(client, number, result)?,
        }
        Ok(true)
    }

    fn take_message(&mut self, client: usize, params: Json<'_>) -> Checked {
        let one = &mut self.clients[client];
        let conn = one.conn;
        let message = DurableMessage::read(params);
        let message = message.ok_or_else(|| Check::NoPanic.broken(params.as_str()))?;
        let sequence = message.sequence;
        let Some((name, consumer)) = one
            .consumers
            .iter_mut()
            .find(|one| *one.0 == message.subscription)
        else {
            return Err(Check::OneConsumer.broken(params.as_str()));
        };
        let is_answered = consumer.answered == conn;
        Check::NotBeforeAnswer.that(is_answered, || format!("{name} {sequence}"))?;
        if self.plant == Some(Plant::MessageLost) && self.rng.chance(20) {
            return Ok(());
        }
        if self.plant == Some(Plant::Panics) && sequence > 3 {
            panic!("planted");
        }
        let received = consumer.reader.handle_message(sequence);
        self.trace
            .say(|| format!("  client {client}: {name} {sequence}: {received:?}"));
        match received {
            Received::New { missed } => {
                let is_new =
                    !consumer.done.contains(&sequence) && consumer.program.insert(sequence);
                Check::ReaderOnce.that(is_new, || format!("{name} {sequence}"))?;
                if missed > 0 {
                    self.counts.add("message: told as missing");
                    Self::check_missed(&self.book, name, sequence - missed, sequence - 1)?;
                }
            }
            Received::Repeat { acknowledge } => {
                Check::ReaderOnce
                    .that(acknowledge != consumer.program.contains(&sequence), || {
                        format!("{name} {sequence}: {:?}", consumer.program)
                    })?;
                if acknowledge {
                    consumer.to_ack.insert(sequence);
                }
            }
            _ => self.counts.add("message: no space at the reader"),
        }
        Ok(())
    }

    /// What was told as missing is removed or acknowledged.
    fn check_missed(book: &Book, name: &str, first: u64, last: u64) -> Checked {
        let Some(sub) = book.subs.get(name) else {
            return Ok(());
        };
        let Some(log) = book.logs.get(&sub.topic) else {
            return Ok(());
        };
        // Below its start are those of an earlier one of its name.
        let mut missed = first.max(sub.cursor.start + 1)..=last;
        let wrong = missed.find(|one| !sub.is_over(log, *one));
        Check::GapsTold.that(wrong.is_none(), || {
            format!("{name}: {first} to {last}, but {wrong:?} is there")
        })
    }

    fn take_answered(
        &mut self,
        client: usize,
        number: u64,
        result: Result<OwnedJson, i64>,
    ) -> Checked {
        let one = &mut self.clients[client];
        let conn = one.conn;
        let Some(asked) = one.asked.remove(&number) else {
            return Err(Check::SettlesOnce.broken(format!("{number} is answered again")));
        };
        match (asked, result) {
            (Asked::Subscribe(names), result) => {
                for name in names {
                    let Some(consumer) = one.consumers.get_mut(name) else {
                        continue;
                    };
                    consumer.is_asking = false;
                    let Ok(result) = &result else {
                        continue;
                    };
                    consumer.answered = conn;
                    let from = resumed(result.as_json(), name).unwrap_or_default();
                    match consumer.reader.handle_subscribed(from) {
                        Resumed::Skipped { .. } => self.counts.add("consumer: skipped ahead"),
                        Resumed::Rewound => {
                            self.counts.add("consumer: rewound");
                            consumer.program.clear();
                            consumer.done.clear();
                        }
                        _ => {}
                    }
                }
            }
            (Asked::Acknowledge(all), result) => {
                let is_batch = all.len() > 1;
                let list = result
                    .as_ref()
                    .ok()
                    .and_then(|result| result.as_json().get("acknowledged"));
                let list = list.filter(|_| is_batch);
                let mut list = list.into_iter().flat_map(|list| list.elements());
                // A store that has failed is no reason to give up: without a time for acknowledgements nothing comes again.
                let is_store = matches!(result, Err(-32603 | -32002));
                let waits = self.settings.durable.ack_timeout.is_some();
                for (name, sequence) in all {
                    let own = list.next().and_then(|entry| entry.get("success"));
                    let success = match is_batch {
                        true => own.is_some_and(|own| own.as_bytes() == b"true"),
                        false => result.is_ok(),
                    };
                    let Some(consumer) = one.consumers.get_mut(name) else {
                        continue;
                    };
                    if is_store {
                        if !waits {
                            consumer.to_ack.insert(sequence);
                        }
                        continue;
                    }
                    consumer.reader.handle_acknowledged(sequence, success);
                }
            }
            (Asked::Other, _) => {}
        }
        Ok(())
    }
}
