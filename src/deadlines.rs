//! Finds passed deadlines in a large table: a tree of lower bounds, 64 wide.
//!
//! The deadlines themselves are in the table. There is one bound per 64 slots of the table, one
//! bound per 64 bounds, and so on up to one root. A bound is never later than a deadline below it,
//! but it may be earlier: when a call ends, no bound is changed, and an outdated bound is corrected
//! when its time comes. So setting a deadline usually changes no bound, because deadlines that are
//! set later are usually later. The time of the next wake-up is the root.
//!
//! ```text
//!   root                     9
//!   bounds        9                    40
//!   bounds   9    12    …         40    ∞   …
//!   slots  9 ∞ 31 …  12 …       40 …
//! ```

use crate::target::rare;
use alloc::vec::Vec;

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;

/// The number of children of a bound.
const WIDTH: usize = 64;

/// The lower bounds of a table's deadlines.
#[derive(Debug)]
pub(crate) struct Deadlines {
    /// All levels, one after another, the root last.
    bounds: Vec<u64>,
    /// The number of blocks of 64 slots in the table: the width of the lowest level.
    blocks: usize,
}

impl Deadlines {
    pub(crate) const fn new() -> Self {
        Self {
            bounds: Vec::new(),
            blocks: 0,
        }
    }

    /// Resizes the tree for a table of `slots` slots, all without a deadline.
    pub(crate) fn resize(&mut self, slots: usize) {
        self.blocks = slots.div_ceil(WIDTH);
        let mut total = 0;
        let mut width = self.blocks;
        loop {
            total += width;
            if width <= 1 {
                break;
            }
            width = width.div_ceil(WIDTH);
        }
        self.bounds.clear();
        self.bounds.reserve_exact(total);
        self.bounds.resize(total, NEVER);
    }

    /// Notes the deadline of `slot`: lowers every bound above it that is later.
    pub(crate) fn note(&mut self, slot: usize, deadline: u64) {
        let (mut start, mut width, mut index) = (0, self.blocks, slot / WIDTH);
        while let Some(bound) = self.bounds.get_mut(start + index) {
            if *bound <= deadline {
                return;
            }
            rare();
            *bound = deadline;
            if width <= 1 {
                return;
            }
            start += width;
            width = width.div_ceil(WIDTH);
            index /= WIDTH;
        }
    }

    /// Returns a time that is not later than the earliest deadline.
    pub(crate) fn earliest(&self) -> u64 {
        self.bounds.last().copied().unwrap_or(NEVER)
    }

    /// Returns a block that may have a deadline up to `now`. If it does not, call
    /// [`raise`](Self::raise).
    pub(crate) fn due_block(&self, now: u64) -> Option<usize> {
        if self.earliest() > now || self.earliest() == NEVER {
            return None;
        }
        // The search goes down from the root. `levels` has the start and the width of each level;
        // with 2^64 slots there would be eleven.
        let mut levels = [(0usize, 0usize); 12];
        let mut depth = 0;
        let (mut start, mut width) = (0, self.blocks);
        loop {
            levels[depth] = (start, width);
            if width <= 1 || depth + 1 == levels.len() {
                break;
            }
            depth += 1;
            start += width;
            width = width.div_ceil(WIDTH);
        }
        let mut index = 0;
        for level in (0..depth).rev() {
            let (start, width) = levels[level];
            let first = index * WIDTH;
            let end = (first + WIDTH).min(width);
            // A bound above the lowest level is exactly the least of its children, so if its time
            // has come, the time of a child has come too.
            index = (first..end).min_by_key(|&child| self.bounds[start + child])?;
        }
        Some(index)
    }

    /// Sets the bound of `block` to its real earliest deadline, and every bound above it to the
    /// least of its children.
    pub(crate) fn raise(&mut self, block: usize, earliest: u64) {
        let (mut start, mut width, mut index) = (0, self.blocks, block);
        let mut bound = earliest;
        loop {
            let Some(slot) = self.bounds.get_mut(start + index) else {
                return;
            };
            *slot = bound;
            if width <= 1 {
                return;
            }
            let parent = index / WIDTH;
            let end = ((parent + 1) * WIDTH).min(width);
            let children = &self.bounds[start + parent * WIDTH..start + end];
            bound = children.iter().copied().min().unwrap_or(NEVER);
            start += width;
            width = width.div_ceil(WIDTH);
            index = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Deadlines, NEVER};
    use alloc::vec::Vec;

    /// Removes the passed deadlines from `table`, as the call table does, and returns them.
    fn fire(deadlines: &mut Deadlines, table: &mut [u64], now: u64) -> Vec<u64> {
        let mut fired = Vec::new();
        while let Some(block) = deadlines.due_block(now) {
            let slots = block * 64..((block + 1) * 64).min(table.len());
            match slots.clone().find(|&slot| table[slot] <= now) {
                Some(slot) => {
                    fired.push(table[slot]);
                    table[slot] = NEVER;
                }
                None => {
                    deadlines.raise(block, slots.map(|slot| table[slot]).min().unwrap_or(NEVER))
                }
            }
        }
        fired
    }

    #[test]
    fn everything_due_fires_once_and_the_next_wake_up_lies_ahead() {
        for slots in [8usize, 64, 128, 4096, 8192, 300_000] {
            let mut deadlines = Deadlines::new();
            deadlines.resize(slots);
            let mut table = alloc::vec![NEVER; slots];
            let mut random = antiphon_test_support::random::Random::new(7);
            let mut now = 0;
            for round in 0..200 {
                for _ in 0..20 {
                    let seed = random.next();
                    let slot = (seed >> 33) as usize % slots;
                    table[slot] = now + 1 + (seed >> 20) % 1000;
                    deadlines.note(slot, table[slot]);
                }
                now += 37;
                let least = table.iter().copied().min().unwrap();
                assert!(deadlines.earliest() <= least, "round {round}");
                let due = table.iter().filter(|&&at| at <= now).count();
                let fired = fire(&mut deadlines, &mut table, now);
                assert_eq!(fired.len(), due);
                assert!(fired.iter().all(|&at| at <= now));
                assert!(deadlines.earliest() > now);
            }
        }
    }

    #[test]
    fn an_empty_tree_never_comes_due() {
        let deadlines = Deadlines::new();
        assert_eq!(deadlines.earliest(), NEVER);
        assert_eq!(deadlines.due_block(NEVER - 1), None);
    }

    #[test]
    fn raising_a_bound_leaves_the_earliest_deadline_of_all_others() {
        let mut deadlines = Deadlines::new();
        deadlines.resize(3 * 4096);
        for (slot, deadline) in [(0, 5), (5000, 100), (9000, 200)] {
            deadlines.note(slot, deadline);
        }
        for (slot, earliest, of_all) in [(5000, 100, 5), (0, NEVER, 100), (5000, 300, 200)] {
            deadlines.raise(slot / 64, earliest);
            assert_eq!(deadlines.earliest(), of_all);
        }
        assert_eq!(deadlines.due_block(200), Some(9000 / 64));
        assert_eq!(deadlines.due_block(199), None);
    }
}
