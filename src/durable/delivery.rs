//! A message on its way to a consumer.

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::request::written;
use super::store::Record;
use crate::json::{Json, OwnedJson, to_u64, write_str, write_u64};
use crate::shared::Arc;

/// A message for one subscription, as the params of the notification [`METHOD`](Self::METHOD).
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The name of the subscription.
    pub subscription: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// The message.
    pub record: Record,
}

impl Delivery {
    /// The notification that carries messages.
    pub const METHOD: &str = "rpc.notification.persistent";

    /// Writes the params.
    pub fn params(&self) -> OwnedJson {
        let mut out = Vec::with_capacity(self.record.data.bytes() + 256);
        out.extend_from_slice(b"{\"subscription_id\":");
        write_str(&mut out, &self.subscription);
        out.extend_from_slice(b",\"topic\":");
        write_str(&mut out, &self.topic);
        out.extend_from_slice(b",\"sequence_id\":");
        write_u64(&mut out, self.record.sequence);
        out.extend_from_slice(b",\"timestamp\":");
        write_str(&mut out, &self.record.at.to_string());
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(self.record.data.as_json().as_bytes());
        out.push(b'}');
        written(out)
    }
}

/// The params of a received notification.
#[derive(Clone, Debug)]
pub struct DurableMessage<'j> {
    /// The name of the subscription.
    pub subscription: Cow<'j, str>,
    /// The topic.
    pub topic: Cow<'j, str>,
    /// The number of the message in its topic.
    pub sequence: u64,
    /// When it was published, as the server has written it.
    pub timestamp: Cow<'j, str>,
    /// The value.
    pub data: Json<'j>,
}

impl<'j> DurableMessage<'j> {
    /// Reads params by name or by position; `None` if they are not of this form.
    pub fn read(params: Json<'j>) -> Option<Self> {
        let mut elements = params.elements();
        let mut next = |name: &str| params.get(name).or_else(|| elements.next());
        let text = |json: Json<'j>| json.as_string()?.to_cow();
        Some(Self {
            subscription: text(next("subscription_id")?)?,
            topic: text(next("topic")?)?,
            sequence: to_u64(next("sequence_id")?.as_bytes())?,
            timestamp: text(next("timestamp")?)?,
            data: next("data")?,
        })
    }
}
