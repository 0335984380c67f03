//! Durable subscriptions: what is published to a topic is stored first, and each consumer gets every message at least
//! once, also after its connection, the server or the consumer was away (the methods `rpc.subscribe.persistent`,
//! `rpc.acknowledge.persistent`, `rpc.unsubscribe.persistent`, two batch forms, and the notification
//! `rpc.notification.persistent`).
//!
//! Everything here is plain data with `&mut self`: no lock, no task, no clock, no I/O. Messages and positions are in a
//! store, which is reached by commands and their completions, so a store that is slow, fails or never answers holds up
//! nothing else.
//!
//! ```text
//!   publish ─▶ Append ─▶ store ─▶ Appended ─┐                          ┌─ acknowledge ─▶ Save ─▶ store ─▶ Saved ─▶ answer
//!                                           ▼                          │
//!                                   in the window? ── poll_delivery ─▶ consumer
//!                                           ▲                          │
//!            behind: Read ─▶ store ─▶ Records                          └─ ack_timeout, or a new connection: again
//! ```
//!
//! A subscription has a name, one topic, and a position that only acknowledgements move. At most one connection is
//! attached to it. `subscription` has a picture of its life.
//!
//! | file | has |
//! |---|---|
//! | `machine` | what the owner calls |
//! | `completions` | what the store's completions change |
//! | `subscription`, `window` | one subscription: its consumer, what is sent and acknowledged |
//! | `log` | one topic: its bounds, and what retention removes |
//! | `request`, `answers` | the methods, and requests that wait for the store |
//! | `commands`, `store` | commands that wait for the store; what a store is asked and promises |
//! | `memory` | a store in memory |
//! | `events` | what the program is told besides answers |
//! | `clock`, `wall` | the two clocks, and what is done later |
//! | `delivery`, `topic` | messages as they are sent; names and values |
//! | `settings` | rules and limits |
//! | `reader` | the client: new messages and repeats |
//!
//! # What the owner does
//!
//! 1. [`handle_timeout`](DurableTopics::handle_timeout), before anything else and at
//!    [`poll_timeout`](DurableTopics::poll_timeout).
//! 2. A connection begins and ends: [`add_connection`](DurableTopics::add_connection),
//!    [`remove_connection`](DurableTopics::remove_connection).
//! 3. A method of [`DurableMethod`] is called: [`DurableRequest::parse`]; then the program's hook is asked about its
//!    entries, at once or later: a name is good for the whole server, so the hook decides who may use it; then
//!    [`handle_request`](DurableTopics::handle_request).
//! 4. The program publishes: [`publish`](DurableTopics::publish).
//! 5. After each of these: [`poll_command`](DurableTopics::poll_command), whose completions, in any order and from any
//!    thread, go to [`handle_completion`](DurableTopics::handle_completion);
//!    [`poll_answer`](DurableTopics::poll_answer), and [`release`](DurableTopics::release) when an answer is in the
//!    output; [`poll_published`](DurableTopics::poll_published), [`poll_event`](DurableTopics::poll_event),
//!    [`poll_ready`](DurableTopics::poll_ready).
//! 6. A connection has nothing to write: [`poll_delivery`](DurableTopics::poll_delivery).
//!
//! ```
//! use antiphon::durable::{
//!     DurableMethod, DurableRequest, DurableSettings, DurableTopic, DurableTopics, MemoryStore, MessageData, Wall,
//! };
//! use antiphon::{Instant, Json};
//!
//! let mut store = MemoryStore::new(1 << 20);
//! let mut topics = DurableTopics::new(DurableSettings::new());
//! topics.handle_timeout(Instant::ZERO, Wall::from_millis(1_709_210_096_789));
//! topics.add_connection(7);
//!
//! let params = Json::parse_str(r#"{"subscription_id":"mine","topic":"orders"}"#).ok();
//! let request = DurableRequest::parse(DurableMethod::Subscribe, params)?;
//! topics.handle_request(7, request, "the right to answer");
//! store.run(&mut topics);
//! let answer = topics.poll_answer().unwrap();
//! assert_eq!(
//!     answer.reply.unwrap().as_str(),
//!     r#"{"subscription_id":"mine","topic":"orders","resumed_from_sequence":0}"#
//! );
//! topics.release(answer.opens.unwrap());
//!
//! let orders = DurableTopic::parse("orders").unwrap();
//! topics.publish(&orders, MessageData::write(&["tea"]).unwrap(), None).unwrap();
//! assert!(topics.poll_delivery(7).is_none(), "it is not stored yet");
//! store.run(&mut topics);
//! assert_eq!(topics.poll_published().unwrap().result, Ok(1));
//! assert_eq!(topics.poll_ready(), Some(7));
//! assert_eq!(
//!     topics.poll_delivery(7).unwrap().params().as_str(),
//!     r#"{"subscription_id":"mine","topic":"orders","sequence_id":1,"#.to_string()
//!         + r#""timestamp":"2024-02-29T12:34:56.789Z","data":["tea"]}"#
//! );
//!
//! let params = Json::parse_str(r#"["mine",1]"#).ok();
//! let request = DurableRequest::parse(DurableMethod::Acknowledge, params)?;
//! topics.handle_request(7, request, "the right to answer");
//! assert!(topics.poll_answer().is_none(), "the position is not stored yet");
//! store.run(&mut topics);
//! let answer = topics.poll_answer().unwrap();
//! assert_eq!(answer.reply.unwrap().as_str(), r#"{"acknowledged":true}"#);
//! # Ok::<(), antiphon::OwnedError>(())
//! ```

mod answers;
mod clock;
mod commands;
mod completions;
mod delivery;
mod events;
mod log;
mod machine;
mod memory;
mod reader;
mod request;
mod routes;
mod settings;
mod store;
mod subscription;
mod topic;
mod wall;
mod window;

pub use answers::{DurableAnswer, DurableError, Opening};
pub use delivery::{Delivery, DurableMessage};
pub use events::{Detached, DurableEvent, Published};
pub use machine::DurableTopics;
pub use memory::MemoryStore;
pub use reader::{DurableReader, Received, Resumed};
pub use request::{DurableEntry, DurableMethod, DurableRequest};
pub use settings::{AckMode, DurableSettings, Retention, SecondConsumer, Start};
pub use store::{
    Command, CommandId, Completer, Completion, Cursor, Durability, Log, Observer, Record, Store,
    StoreError,
};
pub use topic::{DurableTopic, MessageData};
pub use wall::Wall;

#[cfg(test)]
mod tests;
