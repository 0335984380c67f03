//! What becomes of the topics that the program reads, in a turn.

use std::sync::Arc;
use std::task::Waker;

use antiphon::durable::{Delivery, DurableMessage, DurableMethod, DurableReader};
use antiphon::pubsub::{Pattern, Publication, TopicMethod};
use antiphon::session::{Bound, Diverted, Extend, RouteId};
use antiphon::{CallId, Instant, OwnedJson, SendError, Style};

use super::incoming::Incoming;
use super::topic_readers::TopicReaders;
use super::{State, Tag};

/// How the events of topics are sent.
const STYLE: Style = Style::named("rpc.subscribe", Publication::METHOD, "rpc.unsubscribe");

/// How the messages of durable topics are sent.
const DURABLE: Style = Style::named(
    DurableMethod::Subscribe.name(),
    Delivery::METHOD,
    DurableMethod::Unsubscribe.name(),
);

impl State {
    /// Opens a route for the publications that a pattern matches.
    pub(crate) fn open_topic(
        &mut self,
        pattern: Pattern,
        bound: Bound,
    ) -> Result<(RouteId, Style), SendError> {
        let route = self.conn.open_fed_route(STYLE, bound)?;
        let topics = self.topic_readers();
        topics.unsubscribed.retain(|other| *other != pattern);
        topics.streams.open(route.number(), pattern);
        Ok((route, STYLE))
    }

    /// Opens a route for a durable subscription. Also returns the waker of the stream that had it on this connection.
    pub(crate) fn open_durable(
        &mut self,
        name: &Arc<str>,
        incoming: &Arc<Incoming>,
        bound: Bound,
    ) -> Result<(RouteId, Style, Option<Waker>), SendError> {
        let route = self.conn.open_fed_route(DURABLE, bound)?;
        let opened = (route, Arc::clone(incoming));
        let before = self
            .topic_readers()
            .durable
            .insert(Arc::clone(name), opened);
        let waker = before.and_then(|(_, before)| before.take_over());
        Ok((route, DURABLE, waker))
    }

    fn topic_readers(&mut self) -> &mut TopicReaders {
        self.topics
            .get_or_insert_with(|| Box::new(TopicReaders::new()))
    }

    /// Attaches a route to the call that asks for its events: see [`attach_route`](Conn::attach_route).
    pub(crate) fn attach(&mut self, route: RouteId, call: CallId, extend: Option<Extend>) {
        self.conn.attach_route(route, call, extend);
        if let Some(topics) = &mut self.topics {
            let pattern = topics.streams.pattern_of(route.number()).cloned();
            topics
                .asking
                .extend(pattern.map(|pattern| (route, pattern)));
        }
    }

    /// Closes a route, if it is one of topics. The last one of a pattern unsubscribes, once its own subscribe is
    /// answered: until then the peer may not have begun with that, and would find nothing to unsubscribe.
    pub(crate) fn close_topic(&mut self, route: RouteId) {
        if let Some(topics) = &mut self.topics {
            let last = topics.streams.close(route.number());
            let last = last.filter(|_| !topics.asking.contains_key(&route));
            topics.unsubscribed.extend(last);
            topics.durable.retain(|_, (open, _)| *open != route);
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
        while let Some(diverted) = self.conn.poll_diverted() {
            match diverted {
                Diverted::Event(Delivery::METHOD, params) => self.deliver_durable(&topics, params),
                Diverted::Event(_, params) => self.deliver(&mut topics, &params),
                Diverted::Answer(route, answer) => {
                    let asked = topics.asking.remove(&route);
                    let is_read = |pattern: &_| topics.streams.streams_of(pattern).next().is_some();
                    let unread = asked.filter(|pattern| !is_read(pattern));
                    topics.unsubscribed.extend(unread);
                    let mut attached = topics.durable.values();
                    let attached = attached.find(|(attached, _)| *attached == route);
                    let from =
                        answer.and_then(|answer| DurableReader::resumed_from(answer.as_json()));
                    if let Some(((_, incoming), from)) = attached.zip(from) {
                        incoming.attach(from);
                    }
                }
            }
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

    fn deliver_durable(&mut self, topics: &TopicReaders, params: OwnedJson) {
        let Some(message) = DurableMessage::read(params.as_json()) else {
            return;
        };
        let (found, sequence) = (topics.durable.get(&*message.subscription), message.sequence);
        if let Some((_, incoming)) = found {
            self.wakes.extend(incoming.deliver(sequence, params));
        }
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
