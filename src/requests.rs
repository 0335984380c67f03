//! The peer's requests that are open: delivered or about to be, and not yet answered.
//!
//! A slab of slots with generations, so that a token for a request that is over never reaches its
//! successor in the slot. Each slot keeps the id exactly as received. Cancels look ids up by a
//! hash first and by value second; most requests are answered before anyone looks for one, so the
//! hash of an id is worked out at the first look-up, once.

use alloc::vec::Vec;

use smallvec::SmallVec;

use crate::encode::Style;
use crate::id::Id;
use crate::json::Json;

/// No batch; no next free slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Ids up to this many bytes, a quoted UUID among them, need no heap.
const ID_INLINE: usize = 40;

/// The hash of an id that nobody has asked for. No hash: their lowest bit is set.
const UNKNOWN: u32 = 2;

#[derive(Debug)]
pub(crate) struct OpenRequest {
    /// The id as received; `null` for a request that is answered with a null id.
    id: SmallVec<[u8; ID_INLINE]>,
    /// The version to answer in.
    pub(crate) style: Style,
    /// The batch it came in and its position there, or [`NONE`].
    pub(crate) batch: u32,
    pub(crate) position: u32,
    /// Whether the peer has given it up.
    pub(crate) cancelled: bool,
    generation: u32,
    is_open: bool,
    next_free: u32,
}

impl OpenRequest {
    /// The id as received.
    pub(crate) fn id(&self) -> &[u8] {
        &self.id
    }

    fn as_id(&self) -> Id<'_> {
        // The bytes were copied from an `Id`.
        let text = core::str::from_utf8(&self.id).unwrap_or("null");
        Id::new(Json::from_scanned(text, false)).unwrap_or(Id::NULL)
    }
}

#[derive(Debug)]
pub(crate) struct Requests {
    slots: Vec<OpenRequest>,
    /// A hash of each slot's id, its lowest bit set; [`UNKNOWN`] until it is asked for, 0 where no
    /// request is open.
    hashes: Vec<u32>,
    free: u32,
    open: usize,
    /// No request is open in a slot before this one: how far [`any`](Self::any) has searched.
    searched: usize,
}

impl Requests {
    pub(crate) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            hashes: Vec::new(),
            free: NONE,
            open: 0,
            searched: 0,
        }
    }

    /// The most heap that `requests_max` requests keep: the slots, twice for growth by doubling, and
    /// the ids.
    pub(crate) const fn heap_bytes_max(requests_max: usize, id_bytes_max: usize) -> usize {
        let id = match id_bytes_max.checked_next_power_of_two() {
            Some(bytes) if id_bytes_max > ID_INLINE => bytes,
            Some(_) => 0,
            None => usize::MAX,
        };
        let slot = 2 * (size_of::<OpenRequest>() + size_of::<u32>());
        requests_max
            .saturating_mul(slot.saturating_add(id))
            .saturating_add(id)
    }

    /// How many requests are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Opens a request and gives its slot and generation.
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
            self.free = slot.next_free;
            self.searched = self.searched.min(index as usize);
            slot.id.extend_from_slice(id.json().as_bytes());
            (slot.style, slot.batch, slot.position) = (style, batch, position);
            (slot.cancelled, slot.is_open) = (false, true);
            self.hashes[index as usize] = UNKNOWN;
            return (index, slot.generation);
        }
        let index = self.slots.len() as u32;
        self.slots.push(OpenRequest {
            id: SmallVec::from_slice(id.json().as_bytes()),
            style,
            batch,
            position,
            cancelled: false,
            generation: 0,
            is_open: true,
            next_free: NONE,
        });
        self.hashes.push(UNKNOWN);
        (index, 0)
    }

    /// The open request of this slot and generation.
    pub(crate) fn get(&self, slot: u32, generation: u32) -> Option<&OpenRequest> {
        let request = self.slots.get(slot as usize)?;
        (request.is_open && request.generation == generation).then_some(request)
    }

    /// Notes that the peer has given the request up; false if it had before.
    pub(crate) fn set_cancelled(&mut self, slot: u32) -> bool {
        match self.slots.get_mut(slot as usize) {
            Some(request) if request.is_open => !core::mem::replace(&mut request.cancelled, true),
            _ => false,
        }
    }

    /// The generation of an open slot.
    pub(crate) fn generation(&self, slot: u32) -> u32 {
        self.slots
            .get(slot as usize)
            .map_or(0, |request| request.generation)
    }

    /// Ends the request; its slot may be used again under the next generation.
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(request) = self
            .slots
            .get_mut(slot as usize)
            .filter(|request| request.is_open)
        else {
            return;
        };
        request.is_open = false;
        request.generation = request.generation.wrapping_add(1);
        request.id.clear();
        request.next_free = self.free;
        self.free = slot;
        self.hashes[slot as usize] = 0;
        self.open -= 1;
    }

    /// The slot of an open request with an id of this type and value.
    pub(crate) fn find(&mut self, id: Id<'_>) -> Option<u32> {
        self.all_with(id).next().map(|(slot, _)| slot)
    }

    /// The same, passing over those that the peer has given up already.
    pub(crate) fn find_wanted(&mut self, id: Id<'_>) -> Option<u32> {
        self.all_with(id)
            .find(|(_, request)| !request.cancelled)
            .map(|(slot, _)| slot)
    }

    fn all_with<'s>(&'s mut self, id: Id<'s>) -> impl Iterator<Item = (u32, &'s OpenRequest)> {
        for (hash, request) in self.hashes.iter_mut().zip(&self.slots) {
            if *hash == UNKNOWN {
                *hash = request.as_id().value_hash() | 1;
            }
        }
        let hash = id.value_hash() | 1;
        let slots = &self.slots;
        let hashes = self.hashes.iter().enumerate();
        let same_hash = hashes.filter(move |(_, other)| **other == hash);
        let requests = same_hash.filter_map(|(slot, _)| Some((slot as u32, slots.get(slot)?)));
        requests.filter(move |(_, request)| request.as_id() == id)
    }

    /// The slot of the one open request whose id has this text, quotes left out; none if several
    /// have.
    pub(crate) fn find_text(&self, id: Id<'_>) -> Option<u32> {
        let open = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, r)| r.is_open && !r.cancelled);
        let mut found = open.filter(|(_, request)| request.as_id().same_text(&id));
        let (slot, _) = found.next()?;
        found.next().is_none().then_some(slot as u32)
    }

    /// The first slot of an open request. Ending one after another this way costs one pass.
    pub(crate) fn any(&mut self) -> Option<u32> {
        if self.open == 0 {
            return None;
        }
        let unsearched = self.slots.get(self.searched..)?;
        self.searched += unsearched.iter().position(|request| request.is_open)?;
        Some(self.searched as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::{NONE, Requests};
    use crate::encode::Style;
    use crate::id::Id;
    use crate::json::Json;

    fn id(text: &str) -> Id<'_> {
        Id::new(Json::parse_str(text).unwrap()).unwrap()
    }

    #[test]
    fn a_slot_used_again_does_not_answer_to_its_old_generation() {
        let mut requests = Requests::new();
        let (slot, generation) = requests.insert(id("1.0"), Style::V2, NONE, 0);
        assert_eq!(requests.get(slot, generation).unwrap().id(), b"1.0");
        requests.remove(slot);
        requests.remove(slot);
        assert!(requests.get(slot, generation).is_none());
        let (again, next) = requests.insert(id("2"), Style::V2, NONE, 0);
        assert_eq!((again, next), (slot, generation + 1));
        assert!(requests.get(slot, generation).is_none());
        assert_eq!(requests.open(), 1);
    }

    // CAN-06 CAN-07
    #[test]
    fn ids_are_found_by_value_and_by_text_only_where_asked() {
        let mut requests = Requests::new();
        let (one, _) = requests.insert(id("1.0"), Style::V2, NONE, 0);
        let (text, _) = requests.insert(id("\"a\""), Style::V2, NONE, 0);
        let (seven, _) = requests.insert(id("7"), Style::V2, NONE, 0);
        assert_eq!(requests.find(id("1")), Some(one));
        assert_eq!(requests.find(id("\"\\u0061\"")), Some(text));
        assert_eq!(requests.find(id("\"7\"")), None);
        assert_eq!(requests.find_text(id("\"7\"")), Some(seven));
        requests.insert(id("\"7\""), Style::V2, NONE, 0);
        assert_eq!(requests.find_text(id("7")), None);
        requests.remove(one);
        assert_eq!(requests.find(id("1")), None);
        assert_eq!(requests.any(), Some(text));
    }
}
