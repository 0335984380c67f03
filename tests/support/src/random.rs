//! Chance that follows from a seed: SplitMix64.
//!
//! The same seed gives the same numbers on every machine, for ever, so that a seed in a bug report stays good.

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for every pair of seed and purpose.
    pub fn for_purpose(seed: u64, purpose: u64) -> Self {
        let mut random = Self(seed ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        random.next();
        random
    }

    /// The next number, all 64 bits of it.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which counts as 1 if it is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end.max(1))) >> 64) as u64
    }

    /// A number from `from` up to and with `to`.
    pub fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// As [`within`](Self::within), for sizes.
    pub fn size(&mut self, from: usize, to: usize) -> usize {
        self.within(from as u64, to as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the choices.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<V: Copy>(&mut self, choices: &[V]) -> V {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// A single byte.
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_means_the_same_numbers_for_ever() {
        let mut random = Random::for_purpose(7, 3);
        let first: Vec<u64> = (0..3).map(|_| random.next()).collect();
        assert_eq!(
            first,
            [
                4_645_842_228_912_645_062,
                6_096_404_744_266_393_748,
                29_543_775_342_512_208
            ]
        );
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| (3..=9).contains(&random.within(3, 9))));
    }
}
