//! The subscriptions of all connections of a hub, and their limits.
//!
//! A subscription belongs to a connection. Nothing that one connection does changes those of another.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::hash::BuildHasher;

use super::feed::{Feed, Hold};
use super::pattern::{InvalidTopic, Pattern};
use super::publication::Publication;
use super::tree::Tree;
use crate::error_object::ErrorObject;
use crate::error_profile::ErrorProfile;

/// What connections of a hub may subscribe to, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicSettings {
    /// The most subscriptions of one connection. Default 256. A subscription needs about 70 bytes, and
    /// about 60 bytes and its text for each token of its topic that no other topic has at that place. One
    /// more is answered −32002.
    pub max_per_connection: usize,
    /// The most subscriptions of all connections. Default 100 000, which is about 20 MB; at most
    /// 2²⁸ − 1. One more is answered −32002.
    pub max_subscriptions: usize,
    /// Whether patterns may have `*` and `>`. Default yes; if not, such a pattern is answered −32602.
    pub wildcards: bool,
    /// Whether a connection gets a publication once for each of its subscriptions that match, and not
    /// just once. Default no.
    pub once_per_subscription: bool,
}

impl TopicSettings {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            max_per_connection: 256,
            max_subscriptions: 100_000,
            wildcards: true,
            once_per_subscription: false,
        }
    }

    /// Checks the rules of a pattern, and whether it may have wildcards.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(&self, text: &str) -> Result<Pattern, InvalidTopic> {
        let pattern = Pattern::parse(text)?;
        match pattern.has_wildcards() && !self.wildcards {
            true => Err(InvalidTopic::WildcardsOff),
            false => Ok(pattern),
        }
    }
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a connection could not subscribe. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The connection would have more than [`max_per_connection`](TopicSettings::max_per_connection).
    ConnectionLimit,
    /// All connections would have more than [`max_subscriptions`](TopicSettings::max_subscriptions).
    HubLimit,
    /// The connection has ended, or was not added.
    NotConnected,
}

impl SubscribeError {
    /// The error that the peer gets: −32002, or the code that stands for a busy server in its dialect.
    pub fn error(self, profile: ErrorProfile) -> ErrorObject<'static> {
        match self {
            Self::ConnectionLimit | Self::HubLimit => {
                ErrorObject::fixed(profile.busy().code(), "Too many subscriptions")
            }
            Self::NotConnected => ErrorObject::internal_error(),
        }
    }
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectionLimit => "the connection has too many subscriptions",
            Self::HubLimit => "the hub has too many subscriptions",
            Self::NotConnected => "the connection has ended",
        })
    }
}

impl core::error::Error for SubscribeError {}

/// Who has subscribed to what. Connections have numbers that the caller chooses.
///
/// `S` makes the hash of tokens, which come from peers: with the standard library
/// `std::collections::hash_map::RandomState`, elsewhere any hash with a secret key.
///
/// ```
/// use antiphon::pubsub::{Pattern, Publication, TopicSettings, Topics};
/// use std::collections::hash_map::RandomState;
/// let mut topics = Topics::new(TopicSettings::new(), RandomState::new());
/// topics.add_connection(1);
/// let patterns = ["news.*", "news.sport"].map(|text| Pattern::parse(text).unwrap());
/// topics.subscribe(1, &patterns, 0).unwrap();
/// let goal = Publication::new("news.sport", "1:0").unwrap();
/// assert_eq!(topics.receivers(&goal), [1]);
/// topics.remove_connection(1);
/// assert_eq!(topics.receivers(&goal), [0; 0]);
/// ```
#[derive(Debug)]
pub struct Topics<S> {
    settings: TopicSettings,
    tree: Tree<S>,
    /// How many subscriptions each connection has.
    connections: BTreeMap<u64, usize>,
}

impl<S: BuildHasher> Topics<S> {
    /// Makes a hub without connections.
    pub fn new(settings: TopicSettings, hasher: S) -> Self {
        let max = settings.max_subscriptions.min(Tree::<S>::MAX_PATTERNS);
        let settings = TopicSettings {
            max_subscriptions: max,
            ..settings
        };
        Self {
            settings,
            tree: Tree::new(hasher),
            connections: BTreeMap::new(),
        }
    }

    /// Adds a connection, which may then subscribe. Its number must not be that of an earlier one of which
    /// a [`TopicRequest`](super::TopicRequest) is still waiting to be accepted.
    pub fn add_connection(&mut self, connection: u64) {
        self.connections.entry(connection).or_insert(0);
    }

    /// Removes a connection that has ended, with its subscriptions. Returns how many it had.
    pub fn remove_connection(&mut self, connection: u64) -> usize {
        self.connections.remove(&connection);
        self.tree.remove_key(connection)
    }

    /// Adds subscriptions, all of them or none. A pattern to which the connection has subscribed already
    /// changes nothing. `others` counts against the connection's limit: its subscriptions of other kinds.
    /// Returns the patterns that are new.
    ///
    /// # Errors
    /// A limit would be passed, or the connection has ended.
    pub fn subscribe(
        &mut self,
        connection: u64,
        patterns: &[Pattern],
        others: usize,
    ) -> Result<Vec<Pattern>, SubscribeError> {
        let held = self.connections.get_mut(&connection);
        let held = held.ok_or(SubscribeError::NotConnected)?;
        let is_new = |pattern: &&Pattern| !self.tree.contains(pattern, connection);
        let mut new: Vec<&Pattern> = patterns.iter().filter(is_new).collect();
        new.sort_unstable();
        new.dedup();
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let (max, all) = (self.settings.max_per_connection, self.tree.len());
        if new.len() > max.saturating_sub(*held).saturating_sub(others) {
            return Err(SubscribeError::ConnectionLimit);
        }
        if new.len() > self.settings.max_subscriptions.saturating_sub(all) {
            return Err(SubscribeError::HubLimit);
        }
        *held += new.len();
        for pattern in &new {
            self.tree.insert(pattern, connection);
        }
        Ok(new.into_iter().cloned().collect())
    }

    /// Removes a subscription. Returns whether there was one.
    pub fn unsubscribe(&mut self, connection: u64, pattern: &Pattern) -> bool {
        let was_there = self.tree.remove(pattern, connection);
        if let Some(held) = self.connections.get_mut(&connection).filter(|_| was_there) {
            *held -= 1;
        }
        was_there
    }

    /// Ends the subscriptions of a request after all, because its peer gets an error as the answer.
    pub fn refuse(&mut self, connection: u64, hold: Hold, feed: &mut Feed) {
        let mut topics = feed.take_hold(hold);
        self.end(connection, &mut topics, feed);
    }

    /// Ends subscriptions, and drops what waits for them. `topics` keeps those to which there were any.
    pub(super) fn end(&mut self, connection: u64, topics: &mut Vec<Pattern>, feed: &mut Feed) {
        topics.retain(|topic| self.unsubscribe(connection, topic));
        // Another pattern may match, but it would not have brought the states of these topics.
        for topic in &*topics {
            feed.remove_first(topic.as_str());
            feed.forget(topic);
        }
        // Only what an ended subscription has brought is looked for in the hub: it may be a long way.
        let is_ended = |topic: &str| topics.iter().any(|ended| ended.matches(topic));
        feed.retain(|publication| match is_ended(publication.topic()) {
            true => self.copies(connection, publication),
            false => usize::MAX,
        });
    }

    /// Returns the connections that get a publication, by their numbers. One that gets it several times is
    /// there several times. The cost depends on their number and on the topic, not on how many
    /// other subscriptions there are.
    pub fn receivers(&mut self, publication: &Publication) -> &[u64] {
        let each = self.settings.once_per_subscription;
        self.tree.matching(publication.topic(), each)
    }

    /// How many times a connection gets a publication.
    pub fn copies(&self, connection: u64, publication: &Publication) -> usize {
        let count = self.tree.count_matching(publication.topic(), connection);
        match self.settings.once_per_subscription {
            true => count,
            false => count.min(1),
        }
    }

    /// The settings.
    pub const fn settings(&self) -> &TopicSettings {
        &self.settings
    }

    /// How many subscriptions all connections have.
    pub fn subscriptions(&self) -> usize {
        self.tree.len()
    }

    /// How many subscriptions a connection has.
    pub fn subscriptions_of(&self, connection: u64) -> usize {
        self.connections.get(&connection).copied().unwrap_or(0)
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }
}
