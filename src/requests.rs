//! The peer's open requests, which are not answered yet.
//!
//! A list of slots with generations, so that a token of an ended request never reaches the next
//! request in the same slot. Each slot has the id exactly as received.
//!
//! Ids are looked up by a hash first, in buckets, and by value second. A bucket is a ring of slots:
//! the newest request first, cancelled ones last. So each of a flood of cancels for one id finds at
//! the front a request that is not cancelled yet, or sees there that none is left. If a peer
//! chooses ids that share a bucket, a lookup passes over all of them, `max_open_requests` slots at
//! most. Most requests are answered before any lookup, so a new request is only noted as fresh; the
//! next lookup sorts it, once.

use alloc::boxed::Box;
use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::encode::Style;
use crate::id::Id;
use crate::json::{Json, TextFlags};
use crate::target::rare;

/// Stands for no batch and for no slot.
pub(crate) const NONE: u32 = u32::MAX;

/// How many entries the list of fresh slots has space for, besides two for each slot.
const FRESH_MIN: usize = 2;

/// Ids up to this many bytes, a quoted UUID among them, need no heap.
const ID_INLINE: usize = 38;

/// An open request of the peer, or a free slot for one.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    /// The id as received; `null` for a request that is answered with a null id.
    id: KeptId,
    /// The version to answer in.
    pub(crate) style: Style,
    /// The batch of the request and its position there, or [`NONE`].
    pub(crate) batch: u32,
    pub(crate) position: u32,
    /// Whether the peer has cancelled the request.
    pub(crate) cancelled: bool,
    generation: u32,
    is_open: bool,
    /// Whether the slot is in the ring of its bucket.
    is_sorted: bool,
    /// The next slot of the bucket's ring, or the next free one.
    next: u32,
    /// The slot before in the ring; for the first slot it is the last one.
    before: u32,
}

/// The bytes of an id. A slot that has had a long id keeps its allocation for the next one.
#[derive(Debug)]
enum KeptId {
    Short { len: u8, bytes: [u8; ID_INLINE] },
    Long(Vec<u8>),
}

impl KeptId {
    fn new(id: &[u8]) -> Self {
        let mut kept = Self::Short {
            len: 0,
            bytes: [0; ID_INLINE],
        };
        kept.set(id);
        kept
    }

    #[inline]
    fn set(&mut self, id: &[u8]) {
        match self {
            Self::Long(kept) => {
                rare();
                kept.clear();
                kept.reserve_exact(id.len());
                kept.extend_from_slice(id);
            }
            Self::Short { len, bytes } => match bytes.get_mut(..id.len()) {
                Some(place) => {
                    place.copy_from_slice(id);
                    // The length is at most `ID_INLINE`.
                    *len = id.len() as u8;
                }
                None => {
                    rare();
                    *self = Self::Long(id.to_vec());
                }
            },
        }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Long(bytes) => {
                rare();
                bytes
            }
        }
    }
}

impl OpenRequest {
    /// The id as received.
    pub(crate) fn id(&self) -> &[u8] {
        self.id.as_bytes()
    }

    /// Distinguishes this request from earlier ones in its slot.
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) fn as_id(&self) -> Id<'_> {
        // The bytes were copied from an `Id`.
        let text = core::str::from_utf8(self.id.as_bytes()).unwrap_or("null");
        Id::new(Json::from_scanned(text, TextFlags::NONE)).unwrap_or(Id::NULL)
    }
}

/// The table of the peer's open requests.
#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<OpenRequest>,
    /// The index for lookups by id; `None` before the first lookup.
    index: Option<Box<Index>>,
    /// The slots that were opened since the last lookup, the oldest first. A slot that was used
    /// again is in the list again. The entry of a request that has ended is outdated.
    fresh: Vec<u32>,
    free: u32,
    open: u32,
    /// No request is open in a slot before this one: [`any`](Self::any) has searched up to here.
    searched: u32,
}

/// Finds a request by its id.
#[derive(Debug, Default)]
struct Index {
    /// A hash of the id of each sorted slot.
    hashes: Vec<u32>,
    /// The first slot of each bucket, or [`NONE`]. The number of buckets is a power of two, and was
    /// at least the number of slots when they were last sorted.
    buckets: Vec<u32>,
}

impl Index {
    /// Returns the index of the bucket of a hash, by its lower bits, which are the best mixed. If
    /// there are no buckets, the index is out of range.
    fn bucket(&self, hash: u32) -> usize {
        hash as usize & self.buckets.len().wrapping_sub(1)
    }

    fn hash(&self, slot: u32) -> u32 {
        self.hashes.get(slot as usize).copied().unwrap_or(0)
    }
}

impl Requests {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            index: None,
            fresh: Vec::new(),
            free: NONE,
            open: 0,
            searched: 0,
        }
    }

    /// The most heap that `max_open_requests` requests need: slots, hashes, buckets and twice as
    /// many fresh entries, all twice for growth by doubling, and the ids, with one more for the
    /// text of a lookup.
    pub(crate) const fn max_heap_bytes(max_open_requests: usize, max_id_bytes: usize) -> usize {
        let id = match max_id_bytes.checked_next_power_of_two() {
            Some(bytes) if max_id_bytes > ID_INLINE => bytes,
            Some(_) => 0,
            None => usize::MAX,
        };
        let slot = 2 * (size_of::<OpenRequest>() + 4 * size_of::<u32>());
        max_open_requests
            .saturating_mul(slot.saturating_add(id))
            .saturating_add(id)
            .saturating_add(FRESH_MIN * size_of::<u32>() + size_of::<Index>())
    }

    /// The number of open requests.
    pub(crate) fn open(&self) -> usize {
        self.open as usize
    }

    /// Returns the ids of a batch's open requests.
    pub(crate) fn ids_of_batch(&self, batch: u32) -> impl Iterator<Item = &[u8]> {
        let of_batch = move |slot: &&OpenRequest| slot.is_open && slot.batch == batch;
        self.slots.iter().filter(of_batch).map(OpenRequest::id)
    }

    /// Opens a request and returns its slot and generation.
    #[cfg_attr(not(any(target_os = "none", antiphon_small)), inline(always))]
    pub(crate) fn insert(
        &mut self,
        id: Id<'_>,
        style: Style,
        batch: u32,
        position: u32,
    ) -> (u32, u32) {
        self.open += 1;
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let index = self.free;
            self.free = slot.next;
            self.searched = self.searched.min(index);
            slot.id.set(id.json().as_bytes());
            (slot.style, slot.batch, slot.position) = (style, batch, position);
            (slot.cancelled, slot.is_open, slot.is_sorted) = (false, true, false);
            let generation = slot.generation;
            self.note_fresh(index);
            return (index, generation);
        }
        rare();
        self.insert_new(id, style, batch, position)
    }

    /// Opens a request in a new slot, and returns its slot and generation.
    #[inline(never)]
    fn insert_new(&mut self, id: Id<'_>, style: Style, batch: u32, position: u32) -> (u32, u32) {
        let index = self.slots.len() as u32;
        if index == 0 {
            // Many peers send one request at a time, and then one slot is enough.
            self.slots.reserve_exact(1);
        }
        self.slots.push(OpenRequest {
            id: KeptId::new(id.json().as_bytes()),
            style,
            batch,
            position,
            cancelled: false,
            generation: 0,
            is_open: true,
            is_sorted: false,
            next: NONE,
            before: NONE,
        });
        // The list has room for twice the slots, so it grows only when more requests are open than
        // ever before.
        let room = 2 * self.slots.capacity() + FRESH_MIN;
        self.fresh
            .reserve_exact(room.saturating_sub(self.fresh.len()));
        self.note_fresh(index);
        (index, 0)
    }

    /// Adds a slot to the fresh ones.
    #[inline]
    fn note_fresh(&mut self, index: u32) {
        if self.fresh.last() == Some(&index) {
            // A slot that was opened last, and has ended since, is the last of the list already.
            return;
        }
        if self.fresh.len() == self.fresh.capacity() {
            rare();
            self.forget_stale();
        }
        self.fresh.push(index);
    }

    /// Removes closed and sorted slots from the fresh ones. If a slot is in the list several times,
    /// only the last entry stays.
    #[inline(never)]
    fn forget_stale(&mut self) {
        // A slot that is kept is marked as sorted meanwhile, so its earlier entries are left out.
        let mut kept = self.fresh.len();
        for at in (0..self.fresh.len()).rev() {
            let index = self.fresh[at];
            let slot = &mut self.slots[index as usize];
            if slot.is_open && !slot.is_sorted {
                slot.is_sorted = true;
                kept -= 1;
                self.fresh[kept] = index;
            }
        }
        self.fresh.drain(..kept);
        for &index in &self.fresh {
            self.slots[index as usize].is_sorted = false;
        }
    }

    /// Puts the fresh slots into their buckets, the oldest first, before a lookup.
    fn sort(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.forget_stale();
        self.spread();
        for at in 0..self.fresh.len() {
            let slot = self.fresh[at];
            let request = &mut self.slots[slot as usize];
            request.is_sorted = true;
            let hash = request.as_id().value_hash();
            if let Some(index) = &mut self.index {
                index.hashes[slot as usize] = hash;
            }
            self.link(slot, true);
        }
        self.fresh.clear();
    }

    /// Makes room for the hashes of all slots, and more buckets if there are fewer than slots. Each
    /// old bucket is then divided among new ones, its last slot first, so that every ring keeps its
    /// order.
    fn spread(&mut self) {
        let slots = self.slots.len();
        let index = self.index.get_or_insert_default();
        // Slots without a hash are not sorted yet.
        while index.hashes.len() < slots {
            index.hashes.push(0);
        }
        if slots <= index.buckets.len() {
            return;
        }
        let buckets = alloc::vec![NONE; slots.next_power_of_two()];
        for mut head in core::mem::replace(&mut index.buckets, buckets) {
            while let Some(first) = self.slots.get(head as usize) {
                let last = first.before;
                let before = self.slots[last as usize].before;
                self.slots[before as usize].next = head;
                self.slots[head as usize].before = before;
                if last == head {
                    head = NONE;
                }
                self.link(last, true);
            }
        }
    }

    /// Returns the beginning of the ring of a sorted slot.
    fn head(&mut self, slot: u32) -> Option<&mut u32> {
        let index = self.index.as_mut()?;
        let bucket = index.bucket(index.hash(slot));
        index.buckets.get_mut(bucket)
    }

    /// Adds a slot to its ring, as the first or the last.
    fn link(&mut self, index: u32, first: bool) {
        let head = self.head(index).map_or(NONE, |head| *head);
        let (next, before) = match self.slots.get(head as usize) {
            Some(slot) => (head, slot.before),
            None => (index, index),
        };
        self.slots[before as usize].next = index;
        self.slots[next as usize].before = index;
        let slot = &mut self.slots[index as usize];
        (slot.next, slot.before) = (next, before);
        if first || head == NONE {
            self.set_head(index, index);
        }
    }

    /// Removes a slot from its ring.
    fn unlink(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (next, before) = (slot.next, slot.before);
        self.slots[before as usize].next = next;
        self.slots[next as usize].before = before;
        if self.head(index).is_some_and(|head| *head == index) {
            self.set_head(index, if next == index { NONE } else { next });
        }
    }

    /// Makes `first` the beginning of the ring of `slot`.
    fn set_head(&mut self, slot: u32, first: u32) {
        if let Some(head) = self.head(slot) {
            *head = first;
        }
    }

    /// Returns the open request of this slot and generation.
    pub(crate) fn get(&self, slot: u32, generation: u32) -> Option<&OpenRequest> {
        self.at(slot)
            .filter(|request| request.generation == generation)
    }

    /// Notes that the peer has cancelled the request. Returns false if it was cancelled before, or
    /// is not open.
    pub(crate) fn set_cancelled(&mut self, slot: u32) -> bool {
        self.sort();
        match self.slots.get_mut(slot as usize) {
            Some(request) if request.is_open && !request.cancelled => {
                request.cancelled = true;
                self.unlink(slot);
                self.link(slot, false);
                true
            }
            _ => false,
        }
    }

    /// The open request of this slot.
    pub(crate) fn at(&self, slot: u32) -> Option<&OpenRequest> {
        let request = self.slots.get(slot as usize)?;
        request.is_open.then_some(request)
    }

    /// Ends the request; its slot can be used again with the next generation.
    pub(crate) fn remove(&mut self, slot: u32) {
        match self.slots.get(slot as usize) {
            Some(request) if request.is_open && request.is_sorted => {
                rare();
                self.unlink(slot);
            }
            Some(request) if request.is_open => {}
            _ => return,
        }
        let request = &mut self.slots[slot as usize];
        request.is_open = false;
        request.generation = request.generation.wrapping_add(1);
        request.next = self.free;
        self.free = slot;
        self.open -= 1;
    }

    /// Returns the slot of an open request with an id of this type and value. The peer may have
    /// cancelled the request.
    pub(crate) fn find(&mut self, id: Id<'_>) -> Option<u32> {
        self.sort();
        let mut ring = self.ring(id.value_hash());
        ring.find(|&slot| self.slots[slot as usize].as_id() == id)
    }

    /// Returns the slot of the newest open request with an id of this type and value that the peer
    /// has not cancelled.
    pub(crate) fn find_wanted(&mut self, id: Id<'_>) -> Option<u32> {
        self.sort();
        let mut ring = self.wanted(id.value_hash());
        ring.find(|&slot| self.slots[slot as usize].as_id() == id)
    }

    /// Returns the slot of the one open request that the peer has not cancelled and whose id has
    /// this text without its quotes; `None` if there is none or several.
    pub(crate) fn find_text(&mut self, id: Id<'_>) -> Option<u32> {
        self.sort();
        let bare = id.bare();
        let mut quoted: SmallVec<[u8; ID_INLINE]> = SmallVec::new();
        quoted.push(b'"');
        quoted.extend_from_slice(bare);
        quoted.push(b'"');
        // With quotes the text is one id; without quotes it is another, if it is valid JSON.
        let forms = [Json::parse(&quoted), Json::parse(bare)];
        let mut found = None;
        for form in forms.into_iter().flatten().filter_map(Id::new) {
            let same = |slot: &u32| self.slots[*slot as usize].as_id().same_text(&form);
            for slot in self.wanted(form.value_hash()).filter(same) {
                if found.replace(slot).is_some() {
                    return None;
                }
            }
        }
        found
    }

    /// The open requests with this hash, once they have been sorted.
    fn ring(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let index = self.index.as_deref();
        let head = index.and_then(|index| index.buckets.get(index.bucket(hash)));
        let head = head.copied().unwrap_or(NONE);
        let mut next = head;
        let all = core::iter::from_fn(move || {
            let slot = self.slots.get(next as usize)?;
            let index = next;
            next = if slot.next == head { NONE } else { slot.next };
            Some(index)
        });
        all.filter(move |&slot| index.is_some_and(|index| index.hash(slot) == hash))
    }

    /// The open requests with this hash that the peer has not cancelled. Cancelled ones come after
    /// all others.
    fn wanted(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        self.ring(hash)
            .take_while(|&slot| !self.slots[slot as usize].cancelled)
    }

    /// Returns the first slot with an open request. Ending all requests in this way needs one pass
    /// over the slots.
    pub(crate) fn any(&mut self) -> Option<u32> {
        if self.open == 0 {
            return None;
        }
        let unsearched = self.slots.get(self.searched as usize..)?;
        self.searched += unsearched.iter().position(|request| request.is_open)? as u32;
        Some(self.searched)
    }
}

#[cfg(test)]
mod tests;
