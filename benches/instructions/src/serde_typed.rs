//! What one would write by hand over serde_json: one visitor, the method as `Cow`, everything else left as text, or decoded
//! at once.
//!
//! It is the yardstick of the tables. Of the other software in `benches/peers`, jiter reads most items faster, sonic-rs and
//! simd-json some.

use std::borrow::Cow;
use std::fmt;
use std::hint::black_box;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

#[derive(Debug)]
#[allow(dead_code, reason = "what a dispatcher would look at")]
pub enum Message<'a, B> {
    Request {
        id: &'a RawValue,
        method: Cow<'a, str>,
        params: Option<B>,
    },
    Notification {
        method: Cow<'a, str>,
        params: Option<B>,
    },
    Result {
        id: &'a RawValue,
        result: B,
    },
    Error {
        id: &'a RawValue,
        error: &'a RawValue,
    },
}

/// A message, or the number of messages in a batch.
#[derive(Debug)]
#[allow(dead_code, reason = "it is handed to a black box")]
pub enum Frame<'a, B> {
    One(Message<'a, B>),
    Batch(usize),
}

/// Reads a frame; the messages of a batch are read and dropped.
pub fn parse<'a, B: Deserialize<'a>>(text: &'a [u8]) -> Frame<'a, B> {
    serde_json::from_slice(text).expect("the corpus is valid")
}

impl<'de, B: Deserialize<'de>> Deserialize<'de> for Frame<'de, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FrameVisitor(PhantomData))
    }
}

impl<'de, B: Deserialize<'de>> Deserialize<'de> for Message<'de, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessageVisitor(PhantomData))
    }
}

struct FrameVisitor<B>(PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for FrameVisitor<B> {
    type Value = Frame<'de, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message or a batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        MessageVisitor(PhantomData).visit_map(map).map(Frame::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut count = 0;
        while let Some(message) = seq.next_element::<Message<'de, B>>()? {
            black_box(message);
            count += 1;
        }
        Ok(Frame::Batch(count))
    }
}

struct MessageVisitor<B>(PhantomData<B>);

impl<'de, B: Deserialize<'de>> Visitor<'de> for MessageVisitor<B> {
    type Value = Message<'de, B>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut version, mut id, mut method, mut params) = (false, None, None, None);
        let (mut result, mut error) = (None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Jsonrpc => version = map.next_value::<Text<'de>>()?.0 == "2.0",
                Key::Id => id = Some(map.next_value()?),
                Key::Method => method = Some(map.next_value::<Text<'de>>()?.0),
                Key::Params => params = Some(map.next_value()?),
                Key::Result => result = Some(map.next_value()?),
                Key::Error => error = Some(map.next_value()?),
                Key::Other => drop(map.next_value::<serde::de::IgnoredAny>()?),
            }
        }
        if !version {
            return Err(A::Error::custom("the version is missing"));
        }
        match (method, id, result, error) {
            (Some(method), Some(id), None, None) => Ok(Message::Request { id, method, params }),
            (Some(method), None, None, None) => Ok(Message::Notification { method, params }),
            (None, Some(id), Some(result), None) => Ok(Message::Result { id, result }),
            (None, Some(id), None, Some(error)) => Ok(Message::Error { id, error }),
            _ => Err(A::Error::custom("it is no message")),
        }
    }
}

/// A string, borrowed where it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

enum Key {
    Jsonrpc,
    Id,
    Method,
    Params,
    Result,
    Error,
    Other,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeyVisitor;
        impl Visitor<'_> for KeyVisitor {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member's name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(match name {
                    "jsonrpc" => Key::Jsonrpc,
                    "id" => Key::Id,
                    "method" => Key::Method,
                    "params" => Key::Params,
                    "result" => Key::Result,
                    "error" => Key::Error,
                    _ => Key::Other,
                })
            }
        }
        deserializer.deserialize_identifier(KeyVisitor)
    }
}
