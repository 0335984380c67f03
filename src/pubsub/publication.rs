//! A published value, written once for all who receive it.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

use super::pattern::{InvalidTopic, Pattern};
use crate::encode::{Encoded, Payload};
use crate::json::{EncodeError, Json, JsonKind, OwnedJson, write_str};

/// A topic and a value, as the params of the notification [`METHOD`](Self::METHOD). Put it into an `Arc`:
/// each [`Feed`](super::Feed) then has a pointer to it.
///
/// ```
/// use antiphon::Json;
/// use antiphon::pubsub::Publication;
/// let publication = Publication::new("stock.prices.ACME", &[99.5, 99.75]).unwrap();
/// let params = publication.params();
/// assert_eq!(params.as_str(), r#"{"topic":"stock.prices.ACME","data":[99.5,99.75]}"#);
/// let (topic, data) = Publication::read(params).unwrap();
/// assert_eq!((&*topic, data.as_str()), ("stock.prices.ACME", "[99.5,99.75]"));
/// ```
#[derive(Debug)]
pub struct Publication {
    topic: Pattern,
    /// A number that tells most topics apart.
    topic_hash: u64,
    params: OwnedJson,
}

/// Why a value could not be published.
#[derive(Debug)]
#[non_exhaustive]
pub enum PublishError {
    /// The topic breaks this rule.
    Topic(InvalidTopic),
    /// The value has no JSON form, or nests too deep.
    Encode(EncodeError),
}

impl Publication {
    /// The notification that carries publications.
    pub const METHOD: &str = "rpc.notification";

    /// Writes a value under one topic. `()` and `None` are sent as `null`.
    ///
    /// # Errors
    /// The topic breaks a rule or has wildcards, or the value has no JSON form.
    pub fn new(topic: &str, data: impl Payload) -> Result<Self, PublishError> {
        let topic = Pattern::parse(topic).map_err(PublishError::Topic)?;
        if topic.has_wildcards() {
            return Err(PublishError::Topic(InvalidTopic::NotOneTopic));
        }
        // Room for a short value.
        let mut text = Vec::with_capacity(topic.as_str().len() + 128);
        text.extend_from_slice(b"{\"topic\":");
        write_str(&mut text, topic.as_str());
        text.extend_from_slice(b",\"data\":");
        let data = Encoded::write(data, &mut text).map_err(PublishError::Encode)?;
        if data.is_empty() {
            text.extend_from_slice(b"null");
        }
        text.push(b'}');
        Ok(Self {
            topic_hash: hash(topic.as_str()),
            topic,
            params: OwnedJson::of_parts(text).map_err(PublishError::Encode)?,
        })
    }

    /// Returns topic and value from the params of a received notification; `None` if they are not of
    /// this form.
    pub fn read(params: Json<'_>) -> Option<(Cow<'_, str>, Json<'_>)> {
        let (topic, data) = match params.kind() {
            JsonKind::Object => (params.get("topic")?, params.get("data")?),
            _ => {
                let mut elements = params.elements();
                (elements.next()?, elements.next()?)
            }
        };
        Some((topic.as_string()?.to_cow()?, data))
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        self.topic.as_str()
    }

    /// The params of the notification, ready to be sent.
    pub fn params(&self) -> Json<'_> {
        self.params.as_json()
    }

    /// How many bytes the params have.
    pub fn bytes(&self) -> usize {
        self.params.as_str().len()
    }

    pub(super) const fn topic_hash(&self) -> u64 {
        self.topic_hash
    }
}

/// FNV-1a. Only the publishing program chooses topics, so nobody can make them collide.
fn hash(topic: &str) -> u64 {
    topic.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(_) => f.write_str("the topic is not valid"),
            Self::Encode(_) => f.write_str("the value has no JSON form"),
        }
    }
}

impl core::error::Error for PublishError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Topic(why) => Some(why),
            Self::Encode(why) => Some(why),
        }
    }
}
