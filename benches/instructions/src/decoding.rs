//! Params and results decoded into a caller's type: `Json::decode` beside serde_json on the same text.
//!
//! The type reads everything and keeps nothing, which is the least that a type can cost, so that the cost of decoding shows most.

use std::hint::black_box;

use antiphon::{Json, OwnedJson};
use serde::de::IgnoredAny;

use crate::corpus::Item;
use crate::operations::{Named, Operation, PART, times};

/// The params and results of each item, by antiphon and by serde_json in turn.
pub fn all(corpus: &[Item]) -> Vec<Named> {
    let by = |item: &Item, by_serde| {
        let texts: Vec<OwnedJson> = item.messages.iter().flat_map(|text| bodies(text)).collect();
        let decode = Decode {
            texts,
            times: times(item),
            by_serde,
            next: 0,
        };
        let suffix = if by_serde { " by serde_json" } else { "" };
        Named {
            name: format!("decode {}{suffix}", item.name),
            operation: Box::new(decode) as Box<dyn Operation>,
        }
    };
    let has_bodies = |item: &&Item| item.messages.iter().any(|text| !bodies(text).is_empty());
    let items = corpus.iter().filter(has_bodies);
    items
        .flat_map(|item| [false, true].map(|by_serde| by(item, by_serde)))
        .collect()
}

/// The params or the result of a message, or of each in a batch.
fn bodies(message: &str) -> Vec<OwnedJson> {
    let json = Json::parse_str(message).expect("the corpus is valid");
    let body = |message: Json<'_>| {
        let found = message.get("params").or_else(|| message.get("result"));
        found.map(Json::to_owned_json)
    };
    body(json)
        .into_iter()
        .chain(json.elements().filter_map(body))
        .collect()
}

struct Decode {
    texts: Vec<OwnedJson>,
    times: usize,
    by_serde: bool,
    /// Where in the messages the next run begins: it decodes a part of the mix.
    next: usize,
}

impl Operation for Decode {
    fn run(&mut self) {
        let end = (self.next + PART).min(self.texts.len());
        for _ in 0..self.times {
            for text in &self.texts[self.next..end] {
                let read = if self.by_serde {
                    serde_json::from_str::<IgnoredAny>(black_box(text.as_str())).is_ok()
                } else {
                    black_box(text.as_json()).decode::<IgnoredAny>().is_ok()
                };
                assert!(black_box(read), "the corpus is valid");
            }
        }
    }

    fn between(&mut self) {
        self.next = (self.next + PART) % self.texts.len().max(PART);
    }

    fn count(&self) -> u64 {
        (self.times * self.texts.len().min(PART)) as u64
    }
}
