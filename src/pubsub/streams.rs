//! The client's side: which of its streams get a publication, and when the server is to be told.
//!
//! ```text
//!   first stream of a pattern opens ──▶ rpc.subscribe      one subscription at the server,
//!   last stream of a pattern closes ──▶ rpc.unsubscribe    however many streams have the pattern
//! ```

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use super::pattern::Pattern;
use super::tree::Tree;

/// The streams of one client. They have numbers that the caller chooses.
///
/// ```
/// use antiphon::pubsub::{Pattern, TopicStreams};
/// use std::collections::hash_map::RandomState;
/// let mut streams = TopicStreams::new(RandomState::new());
/// let news = Pattern::parse("news.*").unwrap();
/// assert!(streams.open(1, news.clone())); // rpc.subscribe is called
/// assert!(!streams.open(2, news.clone())); // the server knows already
/// assert_eq!(streams.receivers("news.sport"), [1, 2]);
/// assert_eq!(streams.close(1), None);
/// assert_eq!(streams.close(2), Some(news)); // rpc.unsubscribe is called
/// ```
#[derive(Debug)]
pub struct TopicStreams<S> {
    tree: Tree<S>,
    patterns: BTreeMap<u64, Pattern>,
}

impl<S: BuildHasher> TopicStreams<S> {
    /// Makes a client without streams. `hasher` is as for [`Topics`](super::Topics).
    pub fn new(hasher: S) -> Self {
        Self {
            tree: Tree::new(hasher),
            patterns: BTreeMap::new(),
        }
    }

    /// Opens a stream. Returns whether it is the first with this pattern, so that the server is to be
    /// called. A stream whose number is open already stays as it is.
    pub fn open(&mut self, stream: u64, pattern: Pattern) -> bool {
        let Entry::Vacant(entry) = self.patterns.entry(stream) else {
            return false;
        };
        let pattern = entry.insert(pattern);
        let is_first = self.tree.keys(pattern).next().is_none();
        self.tree.insert(pattern, stream);
        is_first
    }

    /// Closes a stream. Returns its pattern if it was the last one that had it, so that the server is to be
    /// called.
    pub fn close(&mut self, stream: u64) -> Option<Pattern> {
        let pattern = self.patterns.remove(&stream)?;
        self.tree.remove(&pattern, stream);
        let is_last = self.tree.keys(&pattern).next().is_none();
        is_last.then_some(pattern)
    }

    /// The pattern of an open stream.
    pub fn pattern_of(&self, stream: u64) -> Option<&Pattern> {
        self.patterns.get(&stream)
    }

    /// Returns the streams that get a publication, sorted. The topic is what the server sent.
    pub fn receivers(&mut self, topic: &str) -> &[u64] {
        self.tree.matching(topic, false)
    }

    /// The streams with a pattern, sorted: those that end if the server refuses it.
    pub fn streams_of(&self, pattern: &Pattern) -> impl Iterator<Item = u64> {
        self.tree.keys(pattern)
    }

    /// The patterns, sorted, each once: what is to be unsubscribed before a clean close, and subscribed
    /// again after a reconnect.
    pub fn patterns(&self) -> Vec<Pattern> {
        let mut patterns: Vec<Pattern> = self.patterns.values().cloned().collect();
        patterns.sort_unstable();
        patterns.dedup();
        patterns
    }

    /// How many streams are open.
    pub fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }
}
