//! The feed of a connection from a hub.

use std::sync::Arc;

use antiphon::pubsub::Hold;
use antiphon::{AnswerMark, RequestKey};

use super::{ConnFeed, Session};

impl Session {
    /// What waits from a hub, if the connection has subscribed to one.
    pub(crate) fn feed(&self) -> Option<&Arc<ConnFeed>> {
        self.feed.get()
    }

    /// Returns what waits from a hub, which `make` makes for the first subscription.
    pub(crate) fn feed_or(&self, make: impl FnOnce() -> Arc<ConnFeed>) -> &Arc<ConnFeed> {
        self.feed.get_or_init(make)
    }

    /// Notes that subscriptions to topics begin with the answer of `mark`; what they bring is held back until then.
    pub(crate) fn begin_topics(
        &self,
        request: RequestKey,
        mark: AnswerMark,
        feed: &Arc<ConnFeed>,
        hold: Option<Hold>,
    ) {
        self.act(|state| match hold {
            Some(hold) => state.sinks.hold(request, mark, Arc::clone(feed), hold),
            // There may be states of topics to which the peer had subscribed before.
            None => drop(state.rouse()),
        });
    }
}
