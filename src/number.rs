//! The number of a connection. The counter from which numbers are drawn is the only state that
//! connections share.
//!
//! A token carries the number of its connection, so that another connection refuses it. Two
//! connections of the same configuration are otherwise equal, and an address would not do: the next
//! connection may lie where an ended one has been, and would take its tokens. Nothing of the counter
//! is sent, and no behaviour depends on it but that refusal.

#[cfg(target_has_atomic = "ptr")]
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
#[cfg(not(target_has_atomic = "ptr"))]
use portable_atomic::{AtomicU32, Ordering::Relaxed};

use crate::target::rare;

/// The first number that is drawn. Programs use smaller ones to number connections themselves.
const FIRST: u32 = 1 << 31;

/// How many numbers were drawn. It begins with zero, because on bare metal nothing may copy other
/// initial values into memory.
static DRAWN: AtomicU32 = AtomicU32::new(0);

/// A number that was configured, or that is drawn when it is first asked for.
#[derive(Debug)]
pub(crate) struct Number(AtomicU32);

impl Number {
    /// Zero stands for a number that is still to be drawn.
    pub(crate) const fn new(configured: u32) -> Self {
        Self(AtomicU32::new(configured))
    }

    #[inline]
    pub(crate) fn get(&self) -> u32 {
        match self.0.load(Relaxed) {
            0 => {
                rare();
                self.draw()
            }
            number => number,
        }
    }

    #[cold]
    #[inline(never)]
    fn draw(&self) -> u32 {
        let drawn = next();
        // Another thread may have drawn a number for this connection meanwhile.
        let swapped = self.0.compare_exchange(0, drawn, Relaxed, Relaxed);
        swapped.map_or_else(|first| first, |_| drawn)
    }
}

/// Returns the next number. After 2^31 of them they begin anew.
fn next() -> u32 {
    DRAWN.fetch_add(1, Relaxed) | FIRST
}

#[cfg(test)]
mod tests {
    use super::{FIRST, Number};

    // USE-46
    #[test]
    fn numbers_differ_and_stay() {
        let (configured, one, other) = (Number::new(7), Number::new(0), Number::new(0));
        assert_eq!(configured.get(), 7);
        assert_ne!(one.get(), other.get());
        assert_eq!(one.get(), one.get());
        assert!(one.get() >= FIRST && other.get() >= FIRST);
    }
}
