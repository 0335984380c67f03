//! The feed of a connection from a hub.

use std::sync::Arc;

use antiphon::AnswerMark;

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

    /// Holds the publications back until the answer to a request is in the output.
    pub(crate) fn hold_feed(&self, feed: &Arc<ConnFeed>, mark: Option<AnswerMark>) {
        self.act(|state| match mark {
            Some(mark) => state.sinks.hold(mark, Arc::clone(feed)),
            None => {
                state.wakes.extend(feed.release());
                // The task may sleep without a waker in the feed.
                state.rouse();
            }
        });
    }
}
