//! A value that was published under a topic.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that was published, with its topic: an event of [`Peer::topic`](crate::Peer::topic).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published<T> {
    /// The topic, without wildcards.
    pub topic: String,
    /// The value.
    pub data: T,
}

/// Reads the params of `rpc.notification`, by name or by position.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Published<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FIELDS: &[&str] = &["topic", "data"];
        deserializer.deserialize_struct("Published", FIELDS, Params(PhantomData))
    }
}

struct Params<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Params<T> {
    type Value = Published<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topic and its data")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Published<T>, A::Error> {
        let topic = seq.next_element()?;
        let data = seq.next_element()?;
        whole(topic, data)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Published<T>, A::Error> {
        let (mut topic, mut data) = (None, None);
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "topic" => topic = Some(map.next_value()?),
                "data" => data = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        whole(topic, data)
    }
}

fn whole<T, E: Error>(topic: Option<String>, data: Option<T>) -> Result<Published<T>, E> {
    Ok(Published {
        topic: topic.ok_or_else(|| E::missing_field("topic"))?,
        data: data.ok_or_else(|| E::missing_field("data"))?,
    })
}
