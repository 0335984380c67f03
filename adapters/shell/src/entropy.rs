//! Random numbers, so that many clients do not do the same thing at the same time.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The step of Weyl's sequence in SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes random numbers, from a seed if they must be repeatable.
#[derive(Debug)]
pub(crate) struct Entropy(AtomicU64);

impl Entropy {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        // The standard library seeds its hashes with random numbers.
        let seed = seed.unwrap_or_else(|| RandomState::new().build_hasher().finish());
        Self(AtomicU64::new(seed))
    }

    /// The next number, by SplitMix64.
    pub(crate) fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
