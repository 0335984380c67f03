//! Our calls that wait for an answer.
//!
//! Call numbers are a sequence, so a call is found by `number & mask` in a ring of a power of two:
//! one index, one compare, no hashing. A slot still held by a slow call makes the sequence skip
//! that number. The ring begins with two slots, for peers that make one call at a time, then has
//! eight, and doubles whenever it is seven eighths full, up to its most slots, all of which can be
//! used. If a number below the next one has no slot, its call has ended, or the number was skipped.
//! So late answers are distinguished from unknown ones without a list of ended calls; an answer with
//! a skipped number, which was never sent, counts as late.
//!
//! ```text
//!   number   …  9  10  11  12  13  14  next = 15      mask = 7
//!   slot        1   2   3   4   5   6   7
//!   occupied    0   1   1   0   1   1   0             9 and 12 are over
//! ```
//!
//! A call is open until `take` frees its slot: because it was answered, cancelled or timed out, or
//! because the connection ended. `connection` decides which of these it was.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::deadlines::{Deadlines, NEVER};
use crate::id::{Id, MAX_SPELLED};
use crate::target::{KEPT, rare};

/// The slots of a ring for one call at a time, which is all that many peers make.
const SLOTS_FOR_ONE: usize = 2;

/// The fewest slots of a ring for more than one call at a time.
const SLOTS_MIN: usize = 8;

/// Up to this number a call needs no check for the last number. It leaves a margin of 64, which is
/// the number of slots in one word of `occupied`, below the last number that every scheme can
/// write.
const MAX_PLAIN: u64 = MAX_SPELLED - 64;

/// An open call. Its number is never zero, so a slot needs no room to say that it is free.
#[derive(Debug)]
struct Slot<T> {
    number: NonZeroU64,
    deadline: u64,
    tag: T,
}

impl<T> Slot<T> {
    fn number(&self) -> u64 {
        self.number.get()
    }

    fn is(&self, number: u64) -> bool {
        self.number() == number
    }
}

/// The table of open calls; `T` is the type of their tags.
#[derive(Debug)]
pub(crate) struct Calls<T> {
    slots: Vec<Option<Slot<T>>>,
    /// One bit per slot, so that open and free slots are found quickly. If a ring has fewer slots
    /// than a word has bits, the other bits of the word are set, so that they never look free.
    occupied: Vec<u64>,
    deadlines: Deadlines,
    open: usize,
    next: u64,
    /// The value of `next` at the last search of [`oldest`](Self::oldest), and how many slots, from
    /// the slot of `next` on, the search has passed: none of them is occupied.
    searched: (u64, usize),
    /// The ids that callers chose. `None`, without an allocation, until there is one.
    foreign: Option<Box<Foreign>>,
}

/// The most cancelled calls that are remembered.
const CANCELLED_MAX: usize = 4096;

/// The calls whose cancel was sent, so that each is cancelled once and a late answer to one is
/// expected. If there are more than [`CANCELLED_MAX`], the oldest are forgotten.
#[derive(Debug, Default)]
pub(crate) struct CancelledCalls {
    /// The numbers of those that are open, in order.
    open: Vec<u64>,
    /// The numbers of those that ended without an answer, in order.
    ended: Vec<u64>,
    /// The ids, as they were sent, of calls that ended without an answer and whose callers chose
    /// them; the newest first.
    names: VecDeque<Box<[u8]>>,
}

impl CancelledCalls {
    /// The most heap that the numbers of so many open calls need, while both lists grow too.
    pub(crate) const fn max_heap_bytes(max_open_calls: usize) -> usize {
        4 * (Self::most(max_open_calls) + 2) * size_of::<u64>()
    }

    /// How many calls are remembered, if so many may be open.
    const fn most(max_open_calls: usize) -> usize {
        match max_open_calls {
            0 => 1,
            1..CANCELLED_MAX => max_open_calls,
            _ => CANCELLED_MAX,
        }
    }

    /// Notes that the cancel of an open call was sent, where so many may be open.
    pub(crate) fn insert(&mut self, number: u64, max_open_calls: usize) {
        insert_newest(&mut self.open, number, Self::most(max_open_calls));
    }

    /// Whether the cancel of an open call was sent.
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.open.binary_search(&number).is_ok()
    }

    /// Whether the cancel of any open call was sent.
    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Forgets an open call, because it ends. Returns whether its cancel was sent.
    pub(crate) fn settle(&mut self, number: u64) -> bool {
        let at = self.open.binary_search(&number).ok();
        at.map(|at| self.open.remove(at)).is_some()
    }

    /// Remembers a cancelled call that ended without an answer, by its id if its caller chose it.
    pub(crate) fn expect_answer(
        &mut self,
        number: u64,
        name: Option<&[u8]>,
        max_open_calls: usize,
    ) {
        let most = Self::most(max_open_calls);
        match name {
            Some(name) => {
                self.names.push_front(name.into());
                self.names.truncate(most);
            }
            None => insert_newest(&mut self.ended, number, most),
        }
    }

    /// Forgets the ended call that an answer is for, by its id and by the number that the id
    /// spells. Returns false if the call was not cancelled, or was answered before.
    pub(crate) fn remove(&mut self, number: Option<u64>, id: &[u8]) -> bool {
        let at = number.and_then(|number| self.ended.binary_search(&number).ok());
        if let Some(at) = at {
            self.ended.remove(at);
            return true;
        }
        let at = self.names.iter().position(|name| **name == *id);
        at.and_then(|at| self.names.remove(at)).is_some()
    }
}

/// Inserts a number into a list in order. If there are more than `most`, the oldest goes, unless
/// that is the new one.
fn insert_newest(numbers: &mut Vec<u64>, number: u64, most: usize) {
    if let Err(at) = numbers.binary_search(&number) {
        numbers.insert(at, number);
        if numbers.len() > most {
            numbers.remove(usize::from(at == 0));
        }
    }
}

/// Ids that callers chose themselves: the call of each id, and the id of each call.
#[derive(Debug, Default)]
struct Foreign {
    numbers: BTreeMap<NameKey, u64>,
    names: BTreeMap<u64, Name>,
}

/// An id as it was sent, and as it is compared: the key in `numbers`.
#[derive(Debug)]
struct Name {
    text: Box<[u8]>,
    key: NameKey,
}

/// An id as it is compared. Usually two hashes differ, and the texts, which often begin with the
/// same bytes, need not be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NameKey {
    hash: u32,
    form: Vec<u8>,
}

impl NameKey {
    fn of(id: Id<'_>) -> Self {
        let mut form = Vec::new();
        let hash = id.normal_form(&mut form);
        Self { hash, form }
    }
}

impl<T> Calls<T> {
    /// Whether calls can exist at all. The tag is the value that a caller gives with a call. If the
    /// tag's type has no values, no call can be made, and the compiler leaves out all code that
    /// only calls need.
    pub(crate) const POSSIBLE: bool = size_of::<Option<T>>() > 0;

    pub(crate) const fn new(first: u64) -> Self {
        Self {
            slots: Vec::new(),
            occupied: Vec::new(),
            deadlines: Deadlines::new(),
            open: 0,
            next: if first == 0 { 1 } else { first },
            searched: (0, 0),
            foreign: None,
        }
    }

    /// The most bytes of heap that `max_open_calls` calls need, without ids that callers chose.
    pub(crate) const fn max_heap_bytes(max_open_calls: usize) -> usize {
        let slots = Self::max_slots(max_open_calls);
        // One bound for each 64 slots, and at most as many again above them.
        let bounds = slots / 32 + 2;
        let words = slots / 64 + 1;
        let table = slots.saturating_mul(size_of::<Option<Slot<T>>>());
        table.saturating_add((bounds + words) * size_of::<u64>())
    }

    /// Returns the most slots that the ring ever has.
    const fn max_slots(max_open_calls: usize) -> usize {
        match max_open_calls.checked_next_power_of_two() {
            Some(slots) if slots > SLOTS_MIN => slots,
            Some(_) => SLOTS_MIN,
            None => usize::MAX / 2 + 1,
        }
    }

    /// How many calls are open.
    pub(crate) fn open(&self) -> usize {
        if !Self::POSSIBLE {
            return 0;
        }
        self.open
    }

    /// The number that follows the last one given out.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the sequence that began with `first` has passed this number: a call of it was made,
    /// or it was skipped.
    pub(crate) fn was_used(&self, number: u64, first: u64) -> bool {
        if !Self::POSSIBLE {
            return false;
        }
        (first.max(1)..self.next).contains(&number)
    }

    /// Takes the memory of a ring that is used no longer, and in which no call is open.
    pub(crate) fn reuse(&mut self, old: Self) {
        if old.open == 0 && old.slots.len() <= KEPT {
            self.deadlines = old.deadlines;
            self.deadlines.resize(old.slots.len());
            (self.slots, self.occupied) = (old.slots, old.occupied);
        }
    }

    /// Returns the number for the next call, if that is simple: the limit is not reached, no caller
    /// has chosen an id, the ring need not grow, there is a free slot in the same word, and the
    /// numbers are far from their end. There is no branch on whether the very next slot is free,
    /// because the processor could not predict it if calls end in another order than they began.
    #[inline]
    pub(crate) fn reserve_next(&self, max_open_calls: usize) -> Option<u64> {
        let from = self.next as usize & self.mask();
        let free = !self.occupied.get(from / 64)? >> (from % 64);
        let has_room = self.open < max_open_calls && self.open < self.enough();
        let is_plain = free != 0 && has_room && self.foreign.is_none() && self.next <= MAX_PLAIN;
        let ahead = u64::from(free.trailing_zeros());
        is_plain.then(|| self.next + ahead)
    }

    /// Returns the number for the next call; `None` when every slot is occupied, or when the
    /// numbers up to `max_number` are used up.
    pub(crate) fn reserve(&mut self, max_open_calls: usize, max_number: u64) -> Option<u64> {
        if self.open >= self.enough() && self.slots.len() < Self::max_slots(max_open_calls) {
            self.grow();
        }
        let from = self.next as usize & self.mask();
        let skip = match self.slots.get(from)? {
            None => 0,
            Some(_) => self.free_distance(from)?,
        };
        let number = self.next.checked_add(skip as u64)?;
        (number <= max_number).then_some(number)
    }

    /// Opens the call with the number that [`reserve`](Self::reserve) gave.
    #[inline]
    pub(crate) fn open_call(&mut self, number: u64, deadline: u64, tag: T) {
        let index = number as usize & self.mask();
        let slot = self.slots.get_mut(index);
        let Some((slot, number)) = slot.zip(NonZeroU64::new(number)) else {
            return;
        };
        debug_assert!(slot.is_none(), "a reserved slot is free");
        *slot = Some(Slot {
            number,
            deadline,
            tag,
        });
        self.occupied[index / 64] |= 1 << (index % 64);
        self.open += 1;
        self.next = number.get() + 1;
        if deadline != NEVER {
            self.deadlines.note(index, deadline);
        }
    }

    /// Skips a reserved number.
    pub(crate) fn skip(&mut self, number: u64) {
        self.next = number + 1;
    }

    /// Stores an id that the caller chose for the call `number`.
    pub(crate) fn name(&mut self, number: u64, id: Id<'_>) {
        let key = NameKey::of(id);
        let foreign = self.foreign.get_or_insert_default();
        foreign.numbers.insert(key.clone(), number);
        let text = id.text().as_bytes().into();
        foreign.names.insert(number, Name { text, key });
    }

    /// The open call that a caller gave this id.
    pub(crate) fn named(&self, id: Id<'_>) -> Option<u64> {
        if !Self::POSSIBLE {
            return None;
        }
        let foreign = self.foreign.as_ref()?;
        foreign.numbers.get(&NameKey::of(id)).copied()
    }

    /// The id that the caller gave the open call, as it was sent.
    pub(crate) fn name_of(&self, number: u64) -> Option<&[u8]> {
        let foreign = self.foreign.as_ref()?;
        foreign.names.get(&number).map(|name| &*name.text)
    }

    /// Whether any open call has an id that its caller chose.
    pub(crate) fn has_names(&self) -> bool {
        self.foreign.is_some()
    }

    /// Whether the call is open.
    pub(crate) fn is_open(&self, number: u64) -> bool {
        if !Self::POSSIBLE {
            return false;
        }
        self.slot(number).is_some()
    }

    /// Ends the call and gives back its tag.
    #[inline(always)]
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        if !Self::POSSIBLE {
            return None;
        }
        let index = number as usize & self.mask();
        let slot = self.slots.get_mut(index);
        let Some(slot) = slot.and_then(|slot| slot.take_if(|slot| slot.is(number))) else {
            rare();
            return None;
        };
        self.occupied[index / 64] &= !(1 << (index % 64));
        self.open -= 1;
        if self.has_names() {
            rare();
            self.forget_name(number);
        }
        Some(slot.tag)
    }

    #[cold]
    #[inline(never)]
    fn forget_name(&mut self, number: u64) {
        let Some(foreign) = &mut self.foreign else {
            return;
        };
        if let Some(name) = foreign.names.remove(&number) {
            foreign.numbers.remove(&name.key);
        }
        if foreign.numbers.is_empty() {
            self.foreign = None;
        }
    }

    /// Moves the deadline of an open call; false if it is not open.
    pub(crate) fn set_deadline(&mut self, number: u64, deadline: u64) -> bool {
        let index = number as usize & self.mask();
        match self.slots.get_mut(index) {
            Some(Some(slot)) if slot.is(number) => {
                slot.deadline = deadline;
                self.deadlines.note(index, deadline);
                true
            }
            _ => false,
        }
    }

    /// Returns a time that is not later than the earliest deadline.
    pub(crate) fn earliest_deadline(&self) -> u64 {
        // The bound may come from a call that has ended; without an open call there is no deadline.
        if self.open() == 0 {
            return NEVER;
        }
        self.deadlines.earliest()
    }

    /// Whether [`due`](Self::due) would find nothing and has no outdated bound to remove. Outdated
    /// bounds are removed also while no call is open, because they would hide the bound of the next
    /// call.
    #[inline]
    pub(crate) fn is_none_due(&self, now: u64) -> bool {
        self.deadlines.earliest() > now
    }

    /// An open call whose deadline is `now` or earlier.
    pub(crate) fn due(&mut self, now: u64) -> Option<u64> {
        if !Self::POSSIBLE {
            return None;
        }
        while let Some(block) = self.deadlines.due_block(now) {
            let start = block * 64;
            let end = (start + 64).min(self.slots.len());
            let open = self.slots[start..end].iter().flatten();
            let first = open.min_by_key(|slot| slot.deadline);
            if let Some(slot) = first.filter(|slot| slot.deadline <= now) {
                return Some(slot.number());
            }
            let earliest = first.map_or(NEVER, |slot| slot.deadline);
            self.deadlines.raise(block, earliest);
        }
        None
    }

    /// Returns the open call that comes first in the ring, from the slot of `next` on. It is the
    /// oldest, unless a call has stayed open for more than one round of the ring: then calls that
    /// were made later may come before it. Taking all calls in this way needs one pass over the
    /// ring.
    pub(crate) fn oldest(&mut self) -> Option<u64> {
        if self.open() == 0 {
            return None;
        }
        let (len, start) = (self.slots.len(), self.next as usize & self.mask());
        let from = if self.searched.0 == self.next {
            self.searched.1
        } else {
            0
        };
        // Searches from `start` to the end of the ring, then from its beginning to `start`, without
        // the first `from` slots, which are known to be free.
        let index = self.find_occupied((start + from).min(len), len);
        let index =
            index.or_else(|| self.find_occupied((start + from).saturating_sub(len), start))?;
        self.searched = (self.next, index.wrapping_sub(start) & self.mask());
        self.slots[index].as_ref().map(Slot::number)
    }

    /// An open call with a number above `low` and up to `high`.
    pub(crate) fn open_between(&mut self, low: u64, high: u64) -> Option<u64> {
        if !Self::POSSIBLE {
            return None;
        }
        let within = |number: &u64| low < *number && *number <= high;
        if high.saturating_sub(low) <= self.slots.len() as u64 {
            return (low + 1..=high).find(|&number| self.is_open(number));
        }
        let oldest = self.oldest();
        oldest.filter(within).or_else(|| {
            let open = self.slots.iter().flatten();
            open.map(Slot::number).filter(within).min()
        })
    }

    /// Removes every call from number `next` on, as if it had not been made.
    pub(crate) fn rollback(&mut self, next: u64) {
        self.searched = (0, 0);
        for number in next..self.next {
            self.take(number);
        }
        self.next = next;
    }

    /// Returns the slot of an open call.
    fn slot(&self, number: u64) -> Option<&Slot<T>> {
        let slot = self.slots.get(number as usize & self.mask())?.as_ref();
        slot.filter(|slot| slot.is(number))
    }

    /// At how many open calls the ring grows, unless it has the most slots already. So the search
    /// for a free slot is short, except in a ring of the most slots, which may be full.
    #[inline]
    fn enough(&self) -> usize {
        self.slots.len() * 7 / 8
    }

    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    /// Returns how far the next free slot is ahead of slot `from`; `None` when the ring is full.
    #[inline(never)]
    fn free_distance(&self, from: usize) -> Option<usize> {
        let len = self.slots.len();
        let after = self.find_bit(from, len, |word| !word);
        let index = after.or_else(|| self.find_bit(0, from, |word| !word))?;
        Some(index.wrapping_sub(from) & self.mask())
    }

    fn find_occupied(&self, from: usize, to: usize) -> Option<usize> {
        self.find_bit(from, to, |word| word)
    }

    /// Returns the first slot of `from..to` whose bit is set in the words of `occupied`, after
    /// `read` has changed them.
    fn find_bit(&self, from: usize, to: usize, read: impl Fn(u64) -> u64) -> Option<usize> {
        let mut index = from;
        while index < to {
            let word = read(*self.occupied.get(index / 64)?) >> (index % 64);
            if word != 0 {
                let found = index + word.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            index = (index / 64 + 1) * 64;
        }
        None
    }

    /// Grows the ring. Numbers that differed under the old mask differ under the new one.
    #[inline(never)]
    fn grow(&mut self) {
        let len = match self.slots.len() {
            0 => SLOTS_FOR_ONE,
            len => (len * 2).max(SLOTS_MIN),
        };
        let mut slots = Vec::with_capacity(len);
        slots.resize_with(len, || None);
        let old = core::mem::replace(&mut self.slots, slots);
        self.occupied.clear();
        self.occupied.reserve_exact(len.div_ceil(64));
        self.occupied.resize(len.div_ceil(64), 0);
        if len < 64 {
            self.occupied[0] = u64::MAX << len;
        }
        self.deadlines.resize(len);
        self.searched = (0, 0);
        let mask = self.mask();
        for slot in old.into_iter().flatten() {
            let index = slot.number() as usize & mask;
            self.occupied[index / 64] |= 1 << (index % 64);
            self.deadlines.note(index, slot.deadline);
            self.slots[index] = Some(slot);
        }
    }
}

#[cfg(test)]
mod tests;
