//! The tree does what a list of patterns says, whatever is done to it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::hash::{BuildHasher, BuildHasherDefault, Hasher};

use super::Hash;
use crate::pubsub::{Pattern, Publication, TopicSettings, Topics};

const STEPS: usize = 10_000;
/// Few tokens, so that patterns often match and share nodes.
const TOKENS: [&str; 5] = ["a", "b", "cc", "*", ">"];

/// Every token has this hash, so all nodes are in one bucket.
#[derive(Default)]
struct Same;

impl Hasher for Same {
    fn write(&mut self, _: &[u8]) {}

    fn finish(&self) -> u64 {
        7
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) as usize) % bound
    }

    /// A topic, or a pattern if there are `tokens` for wildcards; one that is not valid is drawn again.
    fn pattern(&mut self, tokens: usize) -> Pattern {
        loop {
            let count = 1 + self.below(4);
            let text: Vec<&str> = (0..count).map(|_| TOKENS[self.below(tokens)]).collect();
            if let Ok(pattern) = Pattern::parse(&text.join(".")) {
                return pattern;
            }
        }
    }
}

/// A list of pairs, and the plain rule.
#[derive(Default)]
struct Model {
    pairs: BTreeSet<(Pattern, u64)>,
}

impl Model {
    fn receivers(&self, topic: &str, each: bool) -> Vec<u64> {
        let matching = self
            .pairs
            .iter()
            .filter(|(pattern, _)| pattern.matches(topic));
        let mut keys: Vec<u64> = matching.map(|&(_, key)| key).collect();
        keys.sort_unstable();
        if !each {
            keys.dedup();
        }
        keys
    }
}

/// Does the same at random to both. Returns how many publications had a receiver.
fn run<S: BuildHasher>(seed: u64, hasher: S, each: bool) -> usize {
    let mut settings = TopicSettings::new();
    settings.once_per_subscription = each;
    let mut topics = Topics::new(settings, hasher);
    let (mut model, mut random, mut received) = (Model::default(), Random(seed), 0);
    for key in 0..8 {
        topics.add_connection(key);
    }
    for step in 0..STEPS {
        let key = random.below(8) as u64;
        match random.below(16) {
            0..=5 => {
                let patterns: Vec<Pattern> =
                    (0..=random.below(3)).map(|_| random.pattern(5)).collect();
                topics.subscribe(key, &patterns, 0).unwrap();
                model
                    .pairs
                    .extend(patterns.into_iter().map(|pattern| (pattern, key)));
            }
            6..=9 => {
                let pattern = random.pattern(5);
                let was_there = topics.unsubscribe(key, &pattern);
                assert_eq!(
                    was_there,
                    model.pairs.remove(&(pattern, key)),
                    "{seed} {step}"
                );
            }
            10 if random.below(20) == 0 => {
                let before = model.pairs.len();
                model.pairs.retain(|&(_, other)| other != key);
                assert_eq!(topics.remove_connection(key), before - model.pairs.len());
                topics.add_connection(key);
            }
            _ => {
                let topic = random.pattern(3);
                let publication = Publication::new(topic.as_str(), ()).unwrap();
                let mut found = topics.receivers(&publication).to_vec();
                found.sort_unstable();
                assert_eq!(
                    found,
                    model.receivers(topic.as_str(), each),
                    "{seed} {step} {topic}"
                );
                let copies = found.iter().filter(|&&other| other == key).count();
                assert_eq!(
                    topics.copies(key, &publication),
                    copies,
                    "{seed} {step} {topic}"
                );
                received += usize::from(!found.is_empty());
            }
        }
        assert_eq!(topics.subscriptions(), model.pairs.len());
        let own = model
            .pairs
            .iter()
            .filter(|&&(_, other)| other == key)
            .count();
        assert_eq!(topics.subscriptions_of(key), own);
    }
    received
}

// PUB-03 PUB-05 PUB-07 PUB-10 SEC-14
#[test]
fn the_tree_finds_what_a_list_of_patterns_finds() {
    for (seed, each) in [(1, false), (2, true), (3, false)] {
        let received = run(seed, Hash::default(), each);
        assert!(received > STEPS / 10, "{received}");
    }
    assert!(run(4, BuildHasherDefault::<Same>::default(), false) > STEPS / 10);
}
