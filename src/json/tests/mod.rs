//! Tests of this folder. `twin` is a second, deliberately simple scanner with which the real one is
//! compared.

mod by_value;
mod decode;
mod differential;
mod encode;
mod scan;
mod text;
mod torture;
mod twin;
mod vector;

/// Random numbers, the same in every run.
struct Random(antiphon_test_support::random::Random);

impl Random {
    fn new(seed: u64) -> Self {
        Self(antiphon_test_support::random::Random::new(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.next()
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    fn pick<'p, P: ?Sized>(&mut self, from: &[&'p P]) -> &'p P {
        from[self.below(from.len())]
    }
}
