//! The streams of topics and of durable subscriptions that the program reads on a connection.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use antiphon::pubsub::{Pattern, TopicStreams};
use antiphon::session::RouteId;

use super::incoming::Incoming;

/// Which streams get which publications.
pub(super) struct TopicReaders {
    /// By the numbers of their routes.
    pub(super) streams: TopicStreams<RandomState>,
    /// The routes whose subscribe is not answered, also of streams that nobody reads any more.
    pub(super) asking: BTreeMap<RouteId, Pattern>,
    /// What is to be unsubscribed, because the last stream has gone.
    pub(super) unsubscribed: VecDeque<Pattern>,
    /// By the names of their subscriptions.
    pub(super) durable: BTreeMap<Arc<str>, (RouteId, Arc<Incoming>)>,
}

impl TopicReaders {
    pub(super) fn new() -> Self {
        Self {
            streams: TopicStreams::new(RandomState::new()),
            asking: BTreeMap::new(),
            unsubscribed: VecDeque::new(),
            durable: BTreeMap::new(),
        }
    }
}
