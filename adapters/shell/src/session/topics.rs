//! What becomes of the topics that the program reads, in a turn.

use antiphon::pubsub::{Pattern, Publication, TopicMethod};
use antiphon::session::{Bound, RouteId};
use antiphon::{Instant, OwnedJson, SendError, Style};

use super::topic_readers::TopicReaders;
use super::{State, Tag};

/// How the events of topics are sent.
const STYLE: Style = Style::named("rpc.subscribe", Publication::METHOD, "rpc.unsubscribe");

impl State {
    /// Opens a route for the publications that a pattern matches.
    pub(crate) fn open_topic(
        &mut self,
        pattern: Pattern,
        bound: Bound,
    ) -> Result<(RouteId, Style), SendError> {
        let route = self.conn.open_fed_route(STYLE, bound)?;
        let topics = &mut **self
            .topics
            .get_or_insert_with(|| Box::new(TopicReaders::new()));
        topics.unsubscribed.retain(|other| *other != pattern);
        topics.streams.open(route.number(), pattern);
        Ok((route, STYLE))
    }

    /// Closes a route, if it is one of topics. The last one of a pattern unsubscribes.
    pub(crate) fn close_topic(&mut self, route: RouteId) {
        if let Some(topics) = &mut self.topics {
            let last = topics.streams.close(route.number());
            topics.unsubscribed.extend(last);
        }
    }

    /// Unsubscribes all topics, before a clean end.
    pub(super) fn unsubscribe_topics(&mut self, deadline: Option<Instant>) {
        if let Some(topics) = &mut self.topics {
            topics.unsubscribed.extend(topics.streams.patterns());
            self.turn_topics(deadline);
        }
    }

    /// Gives the publications that have come to their streams, and unsubscribes where nobody reads any more.
    #[cold]
    pub(super) fn turn_topics(&mut self, deadline: Option<Instant>) {
        let Some(mut topics) = self.topics.take() else {
            return;
        };
        while let Some(params) = self.conn.poll_diverted() {
            self.deliver(&mut topics, &params);
        }
        while let Some(pattern) = topics.unsubscribed.pop_front() {
            let method = TopicMethod::Unsubscribe;
            let params = method.params(std::slice::from_ref(&pattern));
            let params = params.as_json();
            let called = self
                .conn
                .call(method.name(), params, deadline, Tag::Unsubscribe);
            let error = called.err().map(|rejected| rejected.error);
            if let Some(SendError::Full | SendError::TooManyCalls) = error {
                topics.unsubscribed.push_front(pattern);
                break;
            }
        }
        self.topics = Some(topics);
    }

    fn deliver(&mut self, topics: &mut TopicReaders, params: &OwnedJson) {
        let Some((topic, _)) = Publication::read(params.as_json()) else {
            return;
        };
        for route in topics.streams.receivers(&topic) {
            self.conn.feed_route(RouteId::of(*route), params.clone());
        }
    }
}
