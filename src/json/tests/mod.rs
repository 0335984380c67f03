//! Tests of this folder. Each file here proves one room of it; `twin` is a second, deliberately
//! plain scanner that the real one is compared with.

mod decode;
mod differential;
mod encode;
mod scan;
mod text;
mod torture;
mod twin;
mod vector;

/// A small xorshift generator: the same inputs in every run, without a dependency.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }

    fn pick<'p, P: ?Sized>(&mut self, from: &[&'p P]) -> &'p P {
        from[self.below(from.len())]
    }
}
