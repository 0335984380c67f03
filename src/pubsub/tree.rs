//! The patterns of many subscribers as a tree of tokens, to find those that match a topic.
//!
//! ```text
//!   root ─ stock ─ prices ─┬─ ACME   keys 1, 2
//!                          ├─ *      key 3
//!                          └─ >      key 4
//! ```
//!
//! All nodes are in one list, and one hash table finds a child by its parent and its token. So the cost of
//! a look-up does not depend on how many other patterns there are, and a node with one child needs no table
//! of its own. Tokens come from peers: the hash has a secret key, which the owner of the tree gives.
//!
//! A topic of `n` tokens visits at most 2ⁿ nodes, if patterns with `*` and without it stand at each level.
//! With [`MAX_TOKENS`](super::Pattern::MAX_TOKENS) this is a bound, and it takes as many subscriptions.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use core::mem;
use core::str::Split;

use super::pattern::Pattern;

/// The number of the root, which stands for *none* where a child is named.
const ROOT: u32 = 0;

/// A set of pairs: a pattern, and the key of one who has it.
#[derive(Debug)]
pub(super) struct Tree<S> {
    nodes: Vec<Node>,
    /// Numbers of nodes that are not used.
    free: Vec<u32>,
    /// For each hash, modulo their number, which is a power of two, the first node that has it.
    buckets: Vec<u32>,
    hasher: S,
    /// The pairs, as the number of the node where the pattern ends, and the key.
    by_node: BTreeSet<(u32, u64)>,
    by_key: BTreeSet<(u64, u32)>,
    /// The keys that were found last; its memory is used again.
    found: Vec<u64>,
}

#[derive(Debug, Default)]
struct Node {
    token: Box<str>,
    parent: u32,
    hash: u32,
    /// The next node in the bucket.
    next: u32,
    /// How many nodes have this one as their parent, and how many keys have the pattern that ends here.
    uses: u32,
    /// The children `*` and `>`.
    any: u32,
    rest: u32,
}

impl<S: BuildHasher> Tree<S> {
    /// The most patterns, so that the nodes of the longest ones can be numbered.
    pub(super) const MAX_PATTERNS: usize = (u32::MAX as usize) / Pattern::MAX_TOKENS;

    pub(super) fn new(hasher: S) -> Self {
        Self {
            nodes: vec![Node::default()],
            free: Vec::new(),
            buckets: vec![ROOT; 8],
            hasher,
            by_node: BTreeSet::new(),
            by_key: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    /// Adds a pair. Returns whether it is new.
    pub(super) fn insert(&mut self, pattern: &Pattern, key: u64) -> bool {
        let mut node = ROOT;
        for token in pattern.tokens() {
            node = match self.child(node, token) {
                Some(child) => child,
                None => self.add_child(node, token),
            };
        }
        let is_new = self.by_node.insert((node, key));
        if is_new {
            self.by_key.insert((key, node));
            self.node_mut(node).uses += 1;
        }
        is_new
    }

    /// Removes a pair. Returns whether there was one.
    pub(super) fn remove(&mut self, pattern: &Pattern, key: u64) -> bool {
        let node = self.find(pattern);
        node.is_some_and(|node| self.remove_at(node, key))
    }

    /// Removes all pairs with this key. Returns how many there were.
    pub(super) fn remove_key(&mut self, key: u64) -> usize {
        let own = self.by_key.range((key, 0)..=(key, u32::MAX));
        let own: Vec<u32> = own.map(|&(_, node)| node).collect();
        for &node in &own {
            self.remove_at(node, key);
        }
        own.len()
    }

    /// Returns the keys of all patterns that match a topic, those of one pattern together. If `each` is
    /// not set, they are sorted, and each key is there once.
    pub(super) fn matching(&mut self, topic: &str, each: bool) -> &[u64] {
        let mut found = mem::take(&mut self.found);
        found.clear();
        let mut patterns = 0;
        self.visit(ROOT, topic.split('.'), &mut |node| {
            found.extend(self.keys_at(node));
            patterns += 1;
        });
        if patterns > 1 && !each {
            found.sort_unstable();
            found.dedup();
        }
        self.found = found;
        &self.found
    }

    /// The number of patterns with this key that match a topic.
    pub(super) fn count_matching(&self, topic: &str, key: u64) -> usize {
        let mut count = 0;
        self.visit(ROOT, topic.split('.'), &mut |node| {
            count += usize::from(self.by_node.contains(&(node, key)));
        });
        count
    }

    pub(super) fn contains(&self, pattern: &Pattern, key: u64) -> bool {
        let node = self.find(pattern);
        node.is_some_and(|node| self.by_node.contains(&(node, key)))
    }

    /// The keys that have this pattern, sorted.
    pub(super) fn keys(&self, pattern: &Pattern) -> impl Iterator<Item = u64> {
        let node = self.find(pattern).into_iter();
        node.flat_map(|node| self.keys_at(node))
    }

    /// The number of pairs.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    fn keys_at(&self, node: u32) -> impl Iterator<Item = u64> {
        let keys = self.by_node.range((node, 0)..=(node, u64::MAX));
        keys.map(|&(_, key)| key)
    }

    /// Calls `found` with each node that matches the rest of a topic, at which a pattern may end.
    fn visit(&self, node: u32, mut rest: Split<'_, char>, found: &mut impl FnMut(u32)) {
        let Some(token) = rest.next() else {
            return found(node);
        };
        let &Node { any, rest: all, .. } = self.node(node);
        if all != ROOT {
            found(all);
        }
        if any != ROOT {
            self.visit(any, rest.clone(), found);
        }
        // A server may send a topic with a wildcard in it; those nodes were visited just now.
        let child = self.child(node, token);
        if let Some(child) = child.filter(|&child| child != any && child != all) {
            self.visit(child, rest, found);
        }
    }

    /// Finds the node at which a pattern ends.
    fn find(&self, pattern: &Pattern) -> Option<u32> {
        let mut tokens = pattern.tokens();
        tokens.try_fold(ROOT, |node, token| self.child(node, token))
    }

    fn child(&self, parent: u32, token: &str) -> Option<u32> {
        let hash = self.hash(parent, token);
        let mut number = self.buckets[self.bucket(hash)];
        while number != ROOT {
            let node = self.node(number);
            if node.hash == hash && node.parent == parent && *node.token == *token {
                return Some(number);
            }
            number = node.next;
        }
        None
    }

    fn add_child(&mut self, parent: u32, token: &str) -> u32 {
        let node = Node {
            token: token.into(),
            parent,
            hash: self.hash(parent, token),
            ..Node::default()
        };
        let number = match self.free.pop() {
            Some(number) => {
                *self.node_mut(number) = node;
                number
            }
            None => {
                // Doubling would leave up to half of the memory unused.
                if self.nodes.len() == self.nodes.capacity() {
                    self.nodes.reserve_exact(self.nodes.len() / 8 + 8);
                }
                self.nodes.push(node);
                // `MAX_PATTERNS` bounds their number.
                (self.nodes.len() - 1) as u32
            }
        };
        let parent = self.node_mut(parent);
        parent.uses += 1;
        match token {
            "*" => parent.any = number,
            ">" => parent.rest = number,
            _ => {}
        }
        self.link(number);
        if self.nodes.len() > self.buckets.len() {
            self.grow();
        }
        number
    }

    /// Removes a pair, and the nodes that then are a part of no pattern.
    fn remove_at(&mut self, mut number: u32, key: u64) -> bool {
        if !self.by_node.remove(&(number, key)) {
            return false;
        }
        self.by_key.remove(&(key, number));
        self.node_mut(number).uses -= 1;
        while number != ROOT && self.node(number).uses == 0 {
            self.unlink(number);
            let removed = mem::take(self.node_mut(number));
            self.free.push(number);
            let parent = self.node_mut(removed.parent);
            parent.uses -= 1;
            match &*removed.token {
                "*" => parent.any = ROOT,
                ">" => parent.rest = ROOT,
                _ => {}
            }
            number = removed.parent;
        }
        true
    }

    /// Doubles the number of buckets.
    fn grow(&mut self) {
        let buckets = vec![ROOT; self.buckets.len() * 2];
        let old = mem::replace(&mut self.buckets, buckets);
        for mut number in old {
            while number != ROOT {
                let next = self.node(number).next;
                self.link(number);
                number = next;
            }
        }
    }

    /// Puts a node into its bucket.
    fn link(&mut self, number: u32) {
        let bucket = self.bucket(self.node(number).hash);
        self.node_mut(number).next = mem::replace(&mut self.buckets[bucket], number);
    }

    /// Takes a node out of its bucket.
    fn unlink(&mut self, number: u32) {
        let &Node { hash, next, .. } = self.node(number);
        let bucket = self.bucket(hash);
        let mut before = self.buckets[bucket];
        if before == number {
            self.buckets[bucket] = next;
            return;
        }
        while self.node(before).next != number {
            before = self.node(before).next;
        }
        self.node_mut(before).next = next;
    }

    fn hash(&self, parent: u32, token: &str) -> u32 {
        self.hasher.hash_one((parent, token)) as u32
    }

    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    fn node_mut(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize]
    }
}

#[cfg(test)]
mod tests;
