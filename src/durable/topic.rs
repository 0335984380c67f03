//! The names of topics and subscriptions, and the values that are published.

use alloc::vec::Vec;
use core::fmt;

use crate::encode::{Encoded, Payload};
use crate::json::{EncodeError, Json, OwnedJson};
use crate::pubsub::{InvalidTopic, TopicSettings};
use crate::shared::Arc;

/// A topic whose messages are stored. The rules are those of [`Pattern`](crate::pubsub::Pattern), without
/// wildcards.
///
/// ```
/// use antiphon::durable::DurableTopic;
/// assert_eq!(DurableTopic::parse("orders.eu").unwrap().as_str(), "orders.eu");
/// assert!(DurableTopic::parse("orders.*").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurableTopic(pub(super) Arc<str>);

impl DurableTopic {
    /// Checks the rules.
    ///
    /// # Errors
    /// The rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidTopic> {
        let mut settings = TopicSettings::new();
        settings.wildcards = false;
        settings
            .parse(text)
            .map(|topic| Self(topic.as_str().into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DurableTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A published value: JSON text that nests at most 126 deep, so that it fits a notification. Clones share it.
///
/// ```
/// use antiphon::durable::MessageData;
/// let data = MessageData::write(&[1, 2]).unwrap();
/// assert_eq!(data.as_json().as_str(), "[1,2]");
/// assert_eq!(MessageData::parse("[1,2]").unwrap(), data);
/// assert!(MessageData::parse("[1,").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageData(Arc<OwnedJson>);

impl MessageData {
    /// Writes a value. `()` and `None` are sent as `null`.
    ///
    /// # Errors
    /// The value has no JSON form, or nests too deep.
    pub fn write(data: impl Payload) -> Result<Self, EncodeError> {
        let mut text = Vec::with_capacity(128);
        if Encoded::write(data, &mut text)?.is_empty() {
            text.extend_from_slice(b"null");
        }
        Self::of(text)
    }

    /// Reads a value that was stored.
    ///
    /// # Errors
    /// It is not JSON, or nests too deep.
    pub fn parse(text: &str) -> Result<Self, EncodeError> {
        Self::of(text.into())
    }

    fn of(text: Vec<u8>) -> Result<Self, EncodeError> {
        let data = OwnedJson::of_parts(text)?;
        // Params and the message around them are two levels.
        OwnedJson::of_parts([b"[[", data.as_str().as_bytes(), b"]]"].concat())?;
        Ok(Self(Arc::new(data)))
    }

    /// The value.
    pub fn as_json(&self) -> Json<'_> {
        self.0.as_json()
    }

    /// How many bytes its text has.
    pub fn bytes(&self) -> usize {
        self.0.as_str().len()
    }
}
