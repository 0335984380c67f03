//! The nodes of the tree: none is left over, and none is visited without need.

use alloc::format;
use alloc::vec::Vec;
use core::cell::Cell;
use core::hash::{BuildHasher, BuildHasherDefault};
use std::hash::DefaultHasher;

use super::super::Pattern;
use super::{ROOT, Tree};

fn tree() -> Tree<BuildHasherDefault<DefaultHasher>> {
    Tree::new(BuildHasherDefault::default())
}

fn pattern(text: &str) -> Pattern {
    Pattern::parse(text).unwrap()
}

// PUB-07
#[test]
fn a_node_is_used_again_once_no_pattern_has_it() {
    let mut tree = tree();
    let texts = ["a.b.c", "a.b", "a.*.c", "a.>", "x"];
    for key in 0..100 {
        for text in texts {
            assert!(tree.insert(&pattern(text), key));
            assert!(!tree.insert(&pattern(text), key));
        }
        for text in &texts[..3] {
            assert!(tree.remove(&pattern(text), key));
            assert!(!tree.remove(&pattern(text), key));
        }
        assert_eq!(tree.remove_key(key), 2);
        // The root, and `a`, `a.b`, `a.b.c`, `a.*`, `a.*.c`, `a.>`, `x`.
        assert_eq!((tree.nodes.len(), tree.free.len()), (8, 7));
    }
    assert!(tree.buckets.iter().all(|&first| first == ROOT));
    let root = &tree.nodes[0];
    assert_eq!((root.uses, root.any, root.rest), (0, 0, 0));
}

// PUB-07
#[test]
fn what_another_has_stays() {
    let mut tree = tree();
    for (text, key) in [("a.*.c", 1), ("a.*.c", 2), ("a.*", 2), ("a.>", 1)] {
        tree.insert(&pattern(text), key);
    }
    assert_eq!(tree.remove_key(1), 2);
    assert_eq!(tree.matching("a.b.c", false), [2]);
    assert_eq!(tree.matching("a.b", false), [2]);
    assert!(tree.remove(&pattern("a.*.c"), 2));
    assert_eq!(tree.matching("a.b.c", false), [0; 0]);
    assert_eq!(tree.matching("a.b", false), [2]);
}

// PUB-03
#[test]
fn buckets_grow_with_the_nodes_so_that_chains_stay_short() {
    let mut tree = tree();
    for n in 0..10_000 {
        tree.insert(&pattern(&format!("t.{n}")), n);
    }
    assert!(tree.buckets.len() >= tree.nodes.len() / 2 && tree.buckets.len().is_power_of_two());
    let chain = |&first: &u32| {
        let next = |&number: &u32| Some(tree.nodes[number as usize].next);
        let numbers = core::iter::successors(Some(first), next);
        numbers.take_while(|&number| number != ROOT).count()
    };
    let chains: Vec<usize> = tree.buckets.iter().map(chain).collect();
    assert_eq!(chains.iter().sum::<usize>(), 10_001);
    assert!(chains.iter().max() < Some(&16));
    for n in [0, 17, 9_999] {
        assert_eq!(tree.matching(&format!("t.{n}"), false), [n]);
    }
}

/// Counts the hashes: each is one look-up of a node.
#[derive(Default)]
struct Counts(Cell<usize>);

impl BuildHasher for Counts {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.set(self.0.get() + 1);
        DefaultHasher::new()
    }
}

// PUB-03, STREAMS §5: a `HashMap` of patterns that is walked for each publication
#[test]
fn a_topic_looks_up_as_many_nodes_among_a_thousand_patterns_as_among_a_hundred_thousand() {
    let look_ups = [1_000, 100_000].map(|others| {
        let mut tree = Tree::new(Counts::default());
        for text in ["stock.prices.ACME", "stock.*.ACME", "stock.>"] {
            tree.insert(&pattern(text), 1);
        }
        for n in 0..others {
            tree.insert(&pattern(&format!("stock.prices.T{n}")), n);
            tree.insert(&pattern(&format!("stock.*.T{n}")), n);
        }
        let before = tree.hasher.0.get();
        assert_eq!(tree.matching("stock.prices.ACME", false), [1]);
        tree.hasher.0.get() - before
    });
    // `stock`, `prices`, and what follows `prices` and `*`.
    assert_eq!(look_ups, [4; 2]);
}
