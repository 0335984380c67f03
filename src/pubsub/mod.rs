//! Topics: a server publishes values under names such as `stock.prices.ACME`, and each connection gets
//! those that it has subscribed to (the methods `rpc.subscribe`, `rpc.unsubscribe`, their batch forms, and
//! the notification `rpc.notification`).
//!
//! Everything here is plain data with `&mut self`: no lock, no task, no clock, no I/O. An adapter has one
//! [`Topics`] for each hub and one [`Feed`] for each connection, each behind a lock.
//!
//! ```text
//!   rpc.subscribe ─▶ TopicRequest ── allowed ──▶ accept ─▶ Topics (who has subscribed to what)
//!                                                             │
//!   publish ─▶ Publication ── written once ──▶ receivers ◀────┘
//!                                                  │ a pointer each
//!                                                  ▼
//!                                                Feed ── drain, when the connection can write ─▶ rpc.notification
//! ```
//!
//! | file | has |
//! |---|---|
//! | `pattern` | topics and patterns, and their rules |
//! | `tree` | which patterns match a topic |
//! | `topics` | the subscriptions of a hub, and their limits |
//! | `publication` | a value as it is sent |
//! | `feed` | what waits for one connection, and what happens if that is too much |
//! | `request` | the methods by which a peer subscribes |
//! | `routes` | these methods in a router |
//! | `streams` | the client: which of its streams get a publication |
//!
//! # What an adapter does
//!
//! 1. A connection begins: [`Topics::add_connection`]. It ends: [`Topics::remove_connection`] and
//!    [`Feed::close`].
//! 2. A method of [`TopicMethod`] is called: [`TopicRequest::parse`]; then the program's hook is asked for
//!    every topic, at once or later; then [`TopicRequest::accept`]; then the answer is sent; then
//!    [`Feed::release`], or [`Topics::refuse`] if another answer was sent. Where nothing can be pushed (HTTP, JSON-RPC 1.0) the adapter answers *method not
//!    found* instead, and calls nothing here.
//! 3. The program publishes: [`Publication::new`]; then, in one step that no other publish and no accept
//!    interrupts, [`Topics::receivers`] and [`Feed::push`] for each of them. So all connections of a hub get
//!    publications in one order.
//! 4. A connection has nothing to write: [`Feed::drain`], then [`Feed::poll_report`]. If the feed
//!    [has overflowed](Feed::has_overflowed), the connection is closed.
//!
//! ```
//! use antiphon::Json;
//! use antiphon::pubsub::{Feed, FeedLimits, Publication, TopicMethod, TopicRequest, TopicSettings, Topics};
//! use std::collections::hash_map::RandomState;
//! use std::sync::Arc;
//!
//! let mut topics = Topics::new(TopicSettings::new(), RandomState::new());
//! let mut feed = Feed::new(FeedLimits::new());
//! topics.add_connection(7);
//!
//! let params = Json::parse_str(r#"{"topic":"stock.prices.*"}"#).ok();
//! let request = TopicRequest::parse(TopicMethod::Subscribe, params, topics.settings())?;
//! let (answer, hold) = request.accept(&mut topics, 7, 0, &mut feed).unwrap();
//! assert_eq!(answer.as_str(), r#"{"subscribed":true}"#);
//! feed.release(hold.unwrap());
//!
//! let quote = Arc::new(Publication::new("stock.prices.ACME", &99.5).unwrap());
//! for &connection in topics.receivers(&quote) {
//!     assert_eq!(connection, 7);
//!     feed.push(&quote);
//! }
//! let mut sent = Vec::new();
//! feed.drain(64 << 10, |publication| {
//!     sent.push(publication.params().as_str().to_string());
//!     true
//! });
//! assert_eq!(sent, [r#"{"topic":"stock.prices.ACME","data":99.5}"#]);
//! # Ok::<(), antiphon::OwnedError>(())
//! ```

mod feed;
mod pattern;
mod publication;
mod request;
mod routes;
mod streams;
mod topics;
mod tree;

pub use feed::{Feed, FeedLimit, FeedLimits, FeedLoss, FeedOverflow, Hold};
pub use pattern::{InvalidTopic, Pattern};
pub use publication::{Publication, PublishError};
pub use request::{TopicMethod, TopicRequest};
pub use routes::TopicHub;
pub use streams::TopicStreams;
pub use topics::{SubscribeError, TopicSettings, Topics};

#[cfg(test)]
mod tests;
