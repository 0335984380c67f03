//! The streams of topics that the program reads on a connection.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;

use antiphon::pubsub::{Pattern, TopicStreams};

/// Which streams get which publications.
pub(super) struct TopicReaders {
    /// By the numbers of their routes.
    pub(super) streams: TopicStreams<RandomState>,
    /// What is to be unsubscribed, because the last stream has gone.
    pub(super) unsubscribed: VecDeque<Pattern>,
}

impl TopicReaders {
    pub(super) fn new() -> Self {
        Self {
            streams: TopicStreams::new(RandomState::new()),
            unsubscribed: VecDeque::new(),
        }
    }
}
