//! Conversations: calls of several connections to a hub, and what each is then sent.

mod feeds;
mod model;
mod patterns;
mod requests;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::BuildHasherDefault;
use std::hash::DefaultHasher;

use super::{Feed, FeedLimits, Publication, TopicMethod, TopicRequest, TopicSettings, Topics};
use crate::error_object::OwnedError;
use crate::error_profile::ErrorProfile;
use crate::json::Json;

/// A hash that is the same in every run.
type Hash = BuildHasherDefault<DefaultHasher>;

/// A hub with two connections, 1 and 2, as an adapter drives it.
struct Hub {
    topics: Topics<Hash>,
    feeds: BTreeMap<u64, Feed>,
}

impl Hub {
    fn new() -> Self {
        Self::with(TopicSettings::new(), FeedLimits::new())
    }

    fn with(settings: TopicSettings, limits: FeedLimits) -> Self {
        let mut topics = Topics::new(settings, Hash::default());
        for connection in [1, 2] {
            topics.add_connection(connection);
        }
        let feeds = [(1, Feed::new(limits)), (2, Feed::new(limits))].into();
        Self { topics, feeds }
    }

    /// Parses a call, whose text is a method and its params.
    fn parse(&self, call: &str) -> Result<TopicRequest, OwnedError> {
        let (name, params) = call.split_once(' ').unwrap_or((call, ""));
        let method = TopicMethod::ALL.into_iter().find(|one| one.name() == name);
        let params = (!params.is_empty()).then(|| Json::parse_str(params).unwrap());
        TopicRequest::parse(method.unwrap(), params, self.topics.settings())
    }

    /// Does what a request asks for, and returns its answer.
    fn accept(&mut self, connection: u64, request: TopicRequest) -> Result<String, OwnedError> {
        let feed = self.feeds.get_mut(&connection).unwrap();
        let answer = request.accept(&mut self.topics, connection, 0, feed);
        if let Ok((_, Some(hold))) = answer {
            feed.release(hold);
        }
        answer
            .map(|(answer, _)| answer.into_string())
            .map_err(|error| error.error(ErrorProfile::Antiphon).into_owned())
    }

    /// Calls a method, and returns the result, or the error as its code and data.
    fn call(&mut self, connection: u64, call: &str) -> String {
        let request = self.parse(call);
        let answer = request.and_then(|request| self.accept(connection, request));
        answer.unwrap_or_else(|error| {
            let error = error.as_error();
            let data = error.data().map_or("", |data| data.as_str());
            format!("{} {data}", error.code()).trim_end().to_string()
        })
    }

    /// Publishes a topic with itself as the value, and returns how many times it was pushed.
    fn publish(&mut self, topic: &str) -> usize {
        let publication = Arc::new(Publication::new(topic, topic).unwrap());
        let receivers = self.topics.receivers(&publication);
        for receiver in receivers {
            self.feeds.get_mut(receiver).unwrap().push(&publication);
        }
        receivers.len()
    }

    /// What a connection is sent now: the topics, with a blank between them.
    fn drain(&mut self, connection: u64) -> String {
        topics(self.feeds.get_mut(&connection).unwrap(), usize::MAX)
    }
}

/// Drains a feed, and returns the topics.
fn topics(feed: &mut Feed, max_bytes: usize) -> String {
    let mut topics = Vec::new();
    feed.drain(max_bytes, |publication| {
        let params = publication.params();
        let (topic, data) = Publication::read(params).unwrap();
        assert_eq!(data.as_str(), format!("\"{topic}\""));
        topics.push(topic.into_owned());
        true
    });
    topics.join(" ")
}
