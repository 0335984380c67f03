//! The methods by which a peer subscribes to topics: their names, params and results.
//!
//! ```text
//!   params ── parse ──▶ TopicRequest ── the hook allows all topics ──▶ accept ──▶ result, or a limit
//!                │            └── the hook refuses: it is dropped, and the hook's error is the answer
//!                └── −32602: nothing was asked, nothing has changed
//! ```

use alloc::format;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use super::feed::{Feed, Hold};
use super::pattern::{InvalidTopic, Pattern};
use super::topics::{SubscribeError, TopicSettings, Topics};
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{Json, JsonKind, OwnedJson, write_str};
use crate::service::Arguments;

/// A method that a client calls about topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicMethod {
    /// `rpc.subscribe`: the param `topic`, the result `subscribed`, which is true.
    Subscribe,
    /// `rpc.unsubscribe`: the param `topic`; the result `unsubscribed` says whether there was such a
    /// subscription.
    Unsubscribe,
    /// `rpc.subscribe.batch`: the param `topics`; the result `subscribed` has the topics in the order of
    /// the request.
    SubscribeBatch,
    /// `rpc.unsubscribe.batch`: the param `topics`; the result `unsubscribed` has those to which there
    /// were subscriptions, in the order of the request.
    UnsubscribeBatch,
}

impl TopicMethod {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Subscribe,
        Self::Unsubscribe,
        Self::SubscribeBatch,
        Self::UnsubscribeBatch,
    ];

    /// The name of the method.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "rpc.subscribe",
            Self::Unsubscribe => "rpc.unsubscribe",
            Self::SubscribeBatch => "rpc.subscribe.batch",
            Self::UnsubscribeBatch => "rpc.unsubscribe.batch",
        }
    }

    /// The name of its only param.
    pub const fn param(self) -> &'static str {
        match self.is_batch() {
            true => "topics",
            false => "topic",
        }
    }

    /// Writes the params of a call, for a client. A method for one topic takes the first.
    ///
    /// ```
    /// use antiphon::pubsub::{Pattern, TopicMethod};
    /// let news = Pattern::parse("news.*").unwrap();
    /// assert_eq!(TopicMethod::Subscribe.params(&[news]).as_str(), r#"{"topic":"news.*"}"#);
    /// ```
    pub fn params(self, topics: &[Pattern]) -> OwnedJson {
        match (self.is_batch(), topics) {
            (false, [first, ..]) => object(self.param(), |out| write_str(out, first.as_str())),
            _ => object(self.param(), |out| write_topics(out, topics)),
        }
    }

    const fn is_batch(self) -> bool {
        matches!(self, Self::SubscribeBatch | Self::UnsubscribeBatch)
    }

    const fn is_subscribe(self) -> bool {
        matches!(self, Self::Subscribe | Self::SubscribeBatch)
    }
}

/// A call of one of the methods, with valid topics. Nothing has changed yet: the caller asks its hook whether
/// the connection may subscribe, now or later, and then calls [`accept`](Self::accept), or drops it.
///
/// ```
/// use antiphon::Json;
/// use antiphon::pubsub::{TopicMethod, TopicRequest, TopicSettings};
/// let parse = |params| {
///     let params = Json::parse_str(params).ok();
///     TopicRequest::parse(TopicMethod::SubscribeBatch, params, &TopicSettings::new())
/// };
/// assert_eq!(parse(r#"[["a.b","c.>"]]"#)?.topics().len(), 2);
/// let error = parse(r#"{"topics":["a.b","c..d"]}"#).unwrap_err();
/// assert_eq!(error.code(), -32602);
/// let data = error.as_error().data().unwrap();
/// assert_eq!(data.as_str(), r#""topics[1]: a token of the topic is empty""#);
/// # Ok::<(), antiphon::OwnedError>(())
/// ```
#[derive(Debug)]
pub struct TopicRequest {
    method: TopicMethod,
    topics: Vec<Pattern>,
}

impl TopicRequest {
    /// Reads the params of a call, by name or by position.
    ///
    /// # Errors
    /// *Invalid params* (−32602), with the reason as data.
    pub fn parse(
        method: TopicMethod,
        params: Option<Json<'_>>,
        settings: &TopicSettings,
    ) -> Result<Self, OwnedError> {
        let names = [method.param()];
        let given = Arguments::of(params, &names).ok();
        let given = given.and_then(|arguments| arguments.raw(0));
        let given = given.ok_or_else(|| invalid(&format!("`{}` is the only param", names[0])))?;
        let parse = |json: Json<'_>| {
            let text = json.as_string().and_then(|text| text.to_cow());
            settings.parse(&text.ok_or(InvalidTopic::NotText)?)
        };
        let mut topics = Vec::new();
        if !method.is_batch() {
            topics.push(parse(given).map_err(|why| invalid(why.as_str()))?);
            return Ok(Self { method, topics });
        }
        if given.kind() != JsonKind::Array {
            return Err(invalid("`topics` is an array"));
        }
        for (index, json) in given.elements().enumerate() {
            let topic = parse(json).map_err(|why| invalid(&format!("topics[{index}]: {why}")))?;
            // One more than a connection may have is enough for `accept` to refuse them all.
            if topics.len() <= settings.max_per_connection {
                topics.push(topic);
            }
        }
        Ok(Self { method, topics })
    }

    /// The topics, in the order of the request.
    pub fn topics(&self) -> &[Pattern] {
        &self.topics
    }

    /// Whether it subscribes, so that a hook is to be asked first.
    pub const fn is_subscribe(&self) -> bool {
        self.method.is_subscribe()
    }

    /// Does what the request asks for, and returns its result. `others` counts against the connection's
    /// limit: its subscriptions of other kinds.
    ///
    /// If a subscribe has begun subscriptions, what they bring is held in the connection's feed, and a [`Hold`] is
    /// returned: call [`Feed::release`] when the answer is in the connection's output, or
    /// [`Topics::refuse`] if the peer gets another answer after all. After an unsubscribe what waits in the feed for the
    /// ended subscriptions is dropped, so nothing of them leaves behind the answer.
    ///
    /// # Errors
    /// A limit would be passed, or a batch has more topics than a connection may have, or the connection has
    /// ended. Nothing has changed, and nothing is held.
    pub fn accept<S: BuildHasher>(
        self,
        hub: &mut Topics<S>,
        connection: u64,
        others: usize,
        feed: &mut Feed,
    ) -> Result<(OwnedJson, Option<Hold>), SubscribeError> {
        let Self { method, mut topics } = self;
        let is_one = !method.is_batch();
        if topics.len() > hub.settings().max_per_connection {
            return Err(SubscribeError::ConnectionLimit);
        }
        if method.is_subscribe() {
            let new = hub.subscribe(connection, &topics, others)?;
            let hold = (!new.is_empty()).then(|| feed.hold(new));
            let answer = object("subscribed", |out| match is_one {
                true => out.extend_from_slice(b"true"),
                false => write_topics(out, &topics),
            });
            return Ok((answer, hold));
        }
        hub.end(connection, &mut topics, feed);
        let answer = object("unsubscribed", |out| match (is_one, topics.len()) {
            (true, 0) => out.extend_from_slice(b"false"),
            (true, _) => out.extend_from_slice(b"true"),
            (false, _) => write_topics(out, &topics),
        });
        Ok((answer, None))
    }
}

/// *Invalid params*, with the reason.
fn invalid(reason: &str) -> OwnedError {
    let reason = OwnedJson::of_str(reason);
    ErrorObject::invalid_params()
        .with_data(reason.as_json())
        .into_owned()
}

/// An object of one member, whose value `write` appends.
fn object(name: &str, write: impl FnOnce(&mut Vec<u8>)) -> OwnedJson {
    let mut out = b"{".to_vec();
    write_str(&mut out, name);
    out.push(b':');
    write(&mut out);
    out.push(b'}');
    // The text is JSON by its making, two levels deep.
    OwnedJson::of_parts(out).unwrap_or_else(|_| Json::NULL.to_owned_json())
}

fn write_topics(out: &mut Vec<u8>, topics: &[Pattern]) {
    out.push(b'[');
    for (index, topic) in topics.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_str(out, topic.as_str());
    }
    out.push(b']');
}
