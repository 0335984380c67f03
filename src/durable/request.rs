//! The methods that a consumer calls: their names, params and results.
//!
//! ```text
//!   params ── parse ──▶ DurableRequest ── the hook allows its entries ──▶ DurableTopics::handle_request
//!                │            └── the hook refuses: it is dropped, and the hook's error is the answer
//!                └── −32602: nothing was asked, nothing has changed
//! ```

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::topic::DurableTopic;
use crate::error_object::{ErrorObject, OwnedError};
use crate::json::{Decimal, Json, JsonKind, OwnedJson, to_u64, write_str, write_u64};
use crate::pubsub::InvalidTopic;
use crate::service::Arguments;
use crate::shared::Arc;

/// The most bytes of the name of a subscription.
const MAX_NAME_BYTES: usize = 256;
/// The most entries of a batch.
const MAX_ENTRIES: usize = 1024;

/// A method that a consumer calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableMethod {
    /// `rpc.subscribe.persistent`: the params `subscription_id` and `topic`; the result has both, and
    /// `resumed_from_sequence`.
    Subscribe,
    /// `rpc.acknowledge.persistent`: the params `subscription_id` and `sequence_id`; the result `acknowledged`,
    /// which is true.
    Acknowledge,
    /// `rpc.unsubscribe.persistent`: the param `subscription_id`; the result `unsubscribed` says whether there
    /// was such a subscription.
    Unsubscribe,
    /// `rpc.subscribe.persistent.batch`: the param `subscriptions`, an array of objects with the params of
    /// `Subscribe`; the result `subscriptions` has an entry for each, without the topic.
    SubscribeBatch,
    /// `rpc.acknowledge.persistent.batch`: the param `acknowledgments`, an array of objects with the params of
    /// `Acknowledge`; the result `acknowledged` has each of them with `success`.
    AcknowledgeBatch,
}

impl DurableMethod {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Subscribe,
        Self::Acknowledge,
        Self::Unsubscribe,
        Self::SubscribeBatch,
        Self::AcknowledgeBatch,
    ];

    /// The name of the method.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Subscribe => "rpc.subscribe.persistent",
            Self::Acknowledge => "rpc.acknowledge.persistent",
            Self::Unsubscribe => "rpc.unsubscribe.persistent",
            Self::SubscribeBatch => "rpc.subscribe.persistent.batch",
            Self::AcknowledgeBatch => "rpc.acknowledge.persistent.batch",
        }
    }

    /// The names of its params, in the order in which they are given by position.
    pub const fn params(self) -> &'static [&'static str] {
        match self {
            Self::Subscribe => &["subscription_id", "topic"],
            Self::Acknowledge => &["subscription_id", "sequence_id"],
            Self::Unsubscribe => &["subscription_id"],
            Self::SubscribeBatch => &["subscriptions"],
            Self::AcknowledgeBatch => &["acknowledgments"],
        }
    }

    /// The method for one entry of a batch.
    const fn single(self) -> Self {
        match self {
            Self::SubscribeBatch => Self::Subscribe,
            Self::AcknowledgeBatch => Self::Acknowledge,
            single => single,
        }
    }

    /// Whether it attaches the connection.
    pub(super) fn subscribes(self) -> bool {
        self.single() == Self::Subscribe
    }

    pub(super) fn is_batch(self) -> bool {
        self != self.single()
    }

    /// Writes the params of a call, for a client. A method for one subscription takes the first entry.
    ///
    /// ```
    /// use antiphon::durable::{DurableEntry, DurableMethod};
    /// let params = DurableMethod::Acknowledge.write(&[DurableEntry::acknowledge("mine", 7)]);
    /// assert_eq!(params.as_str(), r#"{"subscription_id":"mine","sequence_id":7}"#);
    /// ```
    pub fn write(self, entries: &[DurableEntry]) -> OwnedJson {
        let mut out = Vec::new();
        let single = self.single();
        if !self.is_batch() {
            if let Some(entry) = entries.first() {
                entry.write(single, &mut out);
            }
            return written(out);
        }
        list(&mut out, self.params()[0], entries, |out, entry| {
            entry.write(single, out);
        });
        written(out)
    }
}

/// A subscription that a request is about.
#[derive(Clone, Debug, PartialEq)]
pub struct DurableEntry {
    pub(super) subscription: Arc<str>,
    pub(super) topic: Option<DurableTopic>,
    pub(super) sequence: u64,
    /// The sequence as the peer has written it.
    pub(super) sequence_text: OwnedJson,
}

impl DurableEntry {
    fn new(subscription: &str, topic: Option<DurableTopic>, sequence: u64) -> Self {
        let mut text = Vec::new();
        write_u64(&mut text, sequence);
        Self {
            subscription: subscription.into(),
            topic,
            sequence,
            sequence_text: written(text),
        }
    }

    /// An entry that subscribes.
    pub fn subscribe(subscription: &str, topic: &DurableTopic) -> Self {
        Self::new(subscription, Some(topic.clone()), 0)
    }

    /// An entry that acknowledges.
    pub fn acknowledge(subscription: &str, sequence: u64) -> Self {
        Self::new(subscription, None, sequence)
    }

    /// An entry that unsubscribes.
    pub fn unsubscribe(subscription: &str) -> Self {
        Self::new(subscription, None, 0)
    }

    /// The name of the subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// The topic, if the request subscribes.
    pub fn topic(&self) -> Option<&str> {
        self.topic.as_ref().map(DurableTopic::as_str)
    }

    fn write(&self, method: DurableMethod, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"subscription_id\":");
        write_str(out, &self.subscription);
        match (method, &self.topic) {
            (DurableMethod::Subscribe, Some(topic)) => {
                out.extend_from_slice(b",\"topic\":");
                write_str(out, topic.as_str());
            }
            (DurableMethod::Acknowledge, _) => self.write_sequence(out),
            _ => {}
        }
        out.push(b'}');
    }

    fn write_sequence(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"sequence_id\":");
        out.extend_from_slice(self.sequence_text.as_str().as_bytes());
    }

    /// Reads the params of a method for one subscription.
    fn read(method: DurableMethod, params: Option<Json<'_>>) -> Result<Self, String> {
        let names = method.params();
        let arguments = Arguments::of(params, names);
        let raw = |index| {
            let found = arguments.as_ref().ok().and_then(|found| found.raw(index));
            found.ok_or_else(|| format!("the params are `{}`", names.join("` and `")))
        };
        let (name, second) = (raw(0)?, raw(names.len() - 1)?);
        let text = |json: Json<'_>| json.as_string()?.to_cow().map(|text| String::from(&*text));
        let name = text(name).filter(|name| (1..=MAX_NAME_BYTES).contains(&name.len()));
        let name = name.ok_or("`subscription_id` is a string of 1 to 256 bytes")?;
        let mut entry = Self::new(&name, None, 0);
        match method {
            DurableMethod::Subscribe => {
                let topic = text(second).ok_or(InvalidTopic::NotText);
                let topic = topic.and_then(|topic| DurableTopic::parse(&topic));
                entry.topic = Some(topic.map_err(|why| String::from(why.as_str()))?);
            }
            DurableMethod::Acknowledge => {
                let is_number = second.kind() == JsonKind::Number;
                let number = second.as_bytes();
                if !is_number || Decimal::read(number).whole().is_none() {
                    return Err(String::from("`sequence_id` is an integer"));
                }
                // What does not fit is the number of no message.
                entry.sequence = to_u64(number).unwrap_or_default();
                entry.sequence_text = second.to_owned_json();
            }
            _ => {}
        }
        Ok(entry)
    }
}

/// A call of one of the methods, with valid params. Nothing has changed yet: the owner asks its hook whether the
/// connection may do this, now or later, and then calls
/// [`handle_request`](super::DurableTopics::handle_request), or drops it.
///
/// ```
/// use antiphon::Json;
/// use antiphon::durable::{DurableMethod, DurableRequest};
/// let params = Json::parse_str(r#"{"subscription_id":"mine","topic":"orders"}"#).ok();
/// let request = DurableRequest::parse(DurableMethod::Subscribe, params)?;
/// assert_eq!(request.method(), DurableMethod::Subscribe);
/// assert_eq!(request.entries()[0].topic(), Some("orders"));
/// # Ok::<(), antiphon::OwnedError>(())
/// ```
#[derive(Debug)]
pub struct DurableRequest {
    pub(super) method: DurableMethod,
    pub(super) entries: Vec<DurableEntry>,
}

impl DurableRequest {
    /// Reads the params of a call, by name or by position. A batch has at most 1024 entries; one that subscribes
    /// has no name twice.
    ///
    /// # Errors
    /// *Invalid params* (−32602), with the reason as data.
    pub fn parse(method: DurableMethod, params: Option<Json<'_>>) -> Result<Self, OwnedError> {
        let single = method.single();
        if !method.is_batch() {
            let entry = DurableEntry::read(single, params).map_err(|why| invalid(&why))?;
            let entries = [entry].into();
            return Ok(Self { method, entries });
        }
        let [list, ..] = method.params() else {
            return Err(invalid(""));
        };
        let given = Arguments::of(params, method.params());
        let given = given.ok().and_then(|given| given.raw(0));
        let given = given.filter(|given| given.kind() == JsonKind::Array);
        let given =
            given.ok_or_else(|| invalid(&format!("the only param is the array `{list}`")))?;
        let mut entries: Vec<DurableEntry> = Vec::new();
        for (index, json) in given.elements().enumerate() {
            if index == MAX_ENTRIES {
                return Err(invalid("a batch has at most 1024 entries"));
            }
            // An entry is an object, not an array.
            let json = Some(json).filter(|json| json.kind() == JsonKind::Object);
            let entry = DurableEntry::read(single, json);
            let entry = entry.map_err(|why| invalid(&format!("{list}[{index}]: {why}")))?;
            entries.push(entry);
        }
        if method == DurableMethod::SubscribeBatch {
            let mut names: Vec<&str> = entries.iter().map(|entry| &*entry.subscription).collect();
            names.sort_unstable();
            if names.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(invalid("a subscription is there twice"));
            }
        }
        Ok(Self { method, entries })
    }

    /// The method.
    pub const fn method(&self) -> DurableMethod {
        self.method
    }

    /// What it is about, in the order of the request.
    pub fn entries(&self) -> &[DurableEntry] {
        &self.entries
    }

    /// Writes the result. Each entry has its number: the sequence after which a subscription goes on, 1 for yes,
    /// 0 for no.
    pub(super) fn result(method: DurableMethod, entries: &[(DurableEntry, u64)]) -> OwnedJson {
        let mut out = Vec::new();
        let resumed = |out: &mut Vec<u8>, number: u64| {
            out.extend_from_slice(b",\"resumed_from_sequence\":");
            write_u64(out, number);
            out.push(b'}');
        };
        match (method, entries) {
            (DurableMethod::Subscribe, [(entry, number), ..]) => {
                entry.write(method, &mut out);
                out.pop();
                resumed(&mut out, *number);
            }
            (DurableMethod::Unsubscribe, [(_, 0), ..]) => {
                out.extend_from_slice(b"{\"unsubscribed\":false}");
            }
            (DurableMethod::Unsubscribe, _) => out.extend_from_slice(b"{\"unsubscribed\":true}"),
            (DurableMethod::SubscribeBatch, _) => {
                list(
                    &mut out,
                    "subscriptions",
                    entries,
                    |out, (entry, number)| {
                        entry.write(DurableMethod::Unsubscribe, out);
                        out.pop();
                        resumed(out, *number);
                    },
                );
            }
            (DurableMethod::AcknowledgeBatch, _) => {
                list(&mut out, "acknowledged", entries, |out, (entry, number)| {
                    entry.write(DurableMethod::Acknowledge, out);
                    out.pop();
                    out.extend_from_slice(b",\"success\":");
                    out.extend_from_slice(if *number == 1 { b"true}" } else { b"false}" });
                });
            }
            _ => out.extend_from_slice(b"{\"acknowledged\":true}"),
        }
        written(out)
    }
}

/// *Invalid params*, with the reason.
pub(super) fn invalid(reason: &str) -> OwnedError {
    let reason = OwnedJson::of_str(reason);
    ErrorObject::invalid_params()
        .with_data(reason.as_json())
        .into_owned()
}

/// Text that is JSON by its making, and nests no deeper than allowed.
pub(super) fn written(out: Vec<u8>) -> OwnedJson {
    OwnedJson::of_parts(out).unwrap_or_else(|_| Json::NULL.to_owned_json())
}

/// Writes an object with one member, an array.
fn list<T>(out: &mut Vec<u8>, name: &str, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'{');
    write_str(out, name);
    out.extend_from_slice(b":[");
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.extend_from_slice(b"]}");
}
