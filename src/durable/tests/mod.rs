//! Conversations: calls of several connections, what each is sent, and a store that answers when it is told to.

mod consumers;
mod delivery;
mod model;
mod parts;
pub(super) mod plant;
mod reader;
mod requests;
mod retention;
mod small;
mod storing;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::{
    Command, CommandId, Completion, DurableEvent, DurableMethod, DurableRequest, DurableSettings,
    DurableTopic, DurableTopics, MemoryStore, MessageData, StoreError, Wall,
};
use crate::error_object::OwnedError;
use crate::error_profile::ErrorProfile;
use crate::json::Json;
use crate::time::Instant;

/// 2023-11-14T22:13:20Z.
const START: u64 = 1_700_000_000_000;

/// A generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
}

/// A hub with the connections 1 to 3 and a store in memory, as a program drives them.
struct Hub {
    topics: DurableTopics<u32>,
    store: MemoryStore,
    /// Milliseconds by both clocks.
    now: u64,
    wall: u64,
    /// The number of the last request.
    asked: u32,
}

impl Hub {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut DurableSettings)) -> Self {
        let mut settings = DurableSettings::new();
        change(&mut settings);
        let mut hub = Self {
            topics: DurableTopics::new(settings),
            store: MemoryStore::new(1 << 24),
            now: 0,
            wall: START,
            asked: 0,
        };
        hub.wait(0);
        (1..=3).for_each(|connection| hub.topics.add_connection(connection));
        hub
    }

    /// The hub is started again over its store.
    fn restart(self, change: impl FnOnce(&mut DurableSettings)) -> Self {
        let mut hub = Self::with(change);
        hub.store = self.store;
        hub
    }

    /// Lets time pass by both clocks.
    fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.wall += millis;
        self.tell_time();
    }

    fn tell_time(&mut self) {
        let now = Instant::from_millis(self.now);
        self.topics
            .handle_timeout(now, Wall::from_millis(self.wall));
    }

    fn run(&mut self) {
        self.store.run(&mut self.topics);
    }

    /// Makes a request, whose text is a method after `rpc.` and its params.
    fn ask(&mut self, connection: u64, call: &str) -> Result<u32, OwnedError> {
        let (name, params) = call.split_once(' ').unwrap_or((call, ""));
        let name = format!("rpc.{name}");
        let method = DurableMethod::ALL
            .into_iter()
            .find(|one| one.name() == name);
        let params = (!params.is_empty()).then(|| Json::parse_str(params).unwrap());
        let request = DurableRequest::parse(method.unwrap(), params)?;
        self.asked += 1;
        self.topics.handle_request(connection, request, self.asked);
        Ok(self.asked)
    }

    /// The answers that have come: a result, or an error as its code and data.
    fn answers(&mut self) -> Vec<(u32, String)> {
        let mut answers = Vec::new();
        while let Some(answer) = self.topics.poll_answer() {
            let text = match answer.reply {
                Ok(result) => result.into_string(),
                Err(error) => code_of(&error.error(ErrorProfile::Antiphon)),
            };
            answers.push((answer.to, text));
            if let Some(opens) = answer.opens {
                self.topics.release(opens);
            }
        }
        answers
    }

    /// Makes a request, lets the store do its part, and returns the answer.
    fn call(&mut self, connection: u64, call: &str) -> String {
        match self.ask(connection, call) {
            Ok(asked) => {
                self.run();
                let answers = self.answers();
                assert_eq!(answers.len(), 1, "{call}: {answers:?}");
                assert_eq!(answers[0].0, asked);
                answers[0].1.clone()
            }
            Err(error) => code_of(&error),
        }
    }

    fn subscribe(&mut self, connection: u64, name: &str) -> String {
        let call = format!(r#"subscribe.persistent ["{name}","t"]"#);
        let answer = self.call(connection, &call);
        match answer.strip_prefix(&format!(
            r#"{{"subscription_id":"{name}","topic":"t","resumed_from_sequence":"#
        )) {
            Some(rest) => rest.trim_end_matches('}').to_string(),
            None => answer,
        }
    }

    fn ack(&mut self, connection: u64, name: &str, sequence: u64) -> String {
        let call = format!(r#"acknowledge.persistent ["{name}",{sequence}]"#);
        let answer = self.call(connection, &call);
        answer.replace(r#"{"acknowledged":true}"#, "yes")
    }

    /// Publishes a message to the topic `t`, which the store is told of.
    fn publish(&mut self) -> CommandId {
        let data = MessageData::write("message").unwrap();
        self.topics.publish(&topic(), data, None).unwrap()
    }

    /// Publishes messages, and has them stored.
    fn publish_all(&mut self, count: usize) {
        for _ in 0..count {
            self.publish();
            self.run();
            assert!(self.topics.poll_published().unwrap().result.is_ok());
        }
    }

    /// What a connection is sent now: sequences, with blanks between them.
    fn drain(&mut self, connection: u64) -> String {
        let mut sent = Vec::new();
        loop {
            while let Some(delivery) = self.topics.poll_delivery(connection) {
                sent.push(delivery.record.sequence.to_string());
            }
            self.run();
            if self.topics.poll_ready().is_none() {
                return sent.join(" ");
            }
        }
    }

    /// What was reported.
    fn events(&mut self) -> Vec<String> {
        let mut events = Vec::new();
        while let Some(event) = self.topics.poll_event() {
            events.push(match event {
                DurableEvent::Detached {
                    subscription,
                    connection,
                    why,
                } => format!("{subscription} of {connection}: {why:?}"),
                DurableEvent::Trimmed {
                    subscription,
                    first,
                    last,
                } => format!("{subscription} lost {first}-{last}"),
                DurableEvent::AheadOfLog {
                    subscription,
                    acknowledged,
                    last,
                } => format!("{subscription} at {acknowledged}, topic at {last}"),
                DurableEvent::StoreFailed(error) => format!("{error:?}"),
            });
        }
        events
    }

    /// The next command, which the test completes.
    fn command(&mut self) -> (CommandId, Command) {
        self.topics.poll_command().unwrap()
    }

    /// Has the store do one command, but does not tell what has come of it.
    fn hold(&mut self) -> (CommandId, Result<Completion, StoreError>) {
        let (id, command) = self.command();
        (id, self.store.execute(&command))
    }

    /// Fails the next command.
    fn fail(&mut self, error: StoreError) {
        let (id, _) = self.command();
        self.topics.handle_completion(id, Err(error));
    }
}

fn topic() -> DurableTopic {
    DurableTopic::parse("t").unwrap()
}

fn code_of(error: &OwnedError) -> String {
    let error = error.as_error();
    let data = error.data().map_or("", |data| data.as_str());
    format!("{} {data}", error.code())
        .trim_end()
        .replace('"', "")
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

const NOT_ATTACHED: &str = "-32602 this connection is not attached to the subscription";
