use super::{FRESH_MIN, ID_INLINE, NONE, Requests};
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
    // A second removal does nothing.
    requests.remove(slot);
    assert!(requests.get(slot, generation).is_none());
    let (again, next) = requests.insert(id("2"), Style::V2, NONE, 0);
    assert_eq!((again, next), (slot, generation + 1));
    assert!(requests.get(slot, generation).is_none());
    assert_eq!(requests.open(), 1);
}

// SEC-11
#[test]
fn every_open_id_is_found_whatever_came_and_went_beside_it() {
    let mut requests = Requests::new();
    let name = |n: u32| alloc::format!("{}", n % 700);
    // The number in the id, the slot, and whether the request is cancelled.
    let mut open: alloc::vec::Vec<(u32, u32, bool)> = alloc::vec::Vec::new();
    let mut chance = 7u32;
    for n in 0..4000u32 {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = (chance >> 8) as usize % open.len().max(1);
        match chance >> 30 {
            0 if !open.is_empty() => {
                let (_, slot, _) = open.swap_remove(at);
                requests.remove(slot);
            }
            1 if !open.is_empty() => {
                let (_, slot, cancelled) = &mut open[at];
                assert_eq!(requests.set_cancelled(*slot), !*cancelled);
                *cancelled = true;
            }
            _ => {
                let (slot, _) = requests.insert(id(&name(n)), Style::V2, NONE, 0);
                open.push((n % 700, slot, false));
            }
        }
        let text = name(chance >> 8);
        let same = |entry: &&(u32, u32, bool)| entry.0 == (chance >> 8) % 700;
        let found = requests.find(id(&text));
        assert_eq!(found.is_some(), open.iter().any(|entry| same(&entry)));
        let wanted = requests.find_wanted(id(&text));
        let mut all = open.iter().filter(same).filter(|entry| !entry.2);
        match wanted {
            Some(slot) => assert!(all.any(|entry| entry.1 == slot)),
            None => assert!(all.next().is_none()),
        }
    }
    assert_eq!(requests.open(), open.len());
}

#[test]
fn of_several_with_one_id_the_newest_is_given_up_first() {
    let mut requests = Requests::new();
    let slots = [(); 3].map(|()| requests.insert(id("1"), Style::V2, NONE, 0).0);
    for slot in slots.into_iter().rev() {
        assert_eq!(requests.find_wanted(id("1.0")), Some(slot));
        assert!(requests.set_cancelled(slot));
    }
    assert_eq!(requests.find_wanted(id("1")), None);
    assert!(requests.find(id("1")).is_some());
}

#[test]
fn more_buckets_leave_the_newest_of_one_id_first() {
    let mut requests = Requests::new();
    let (other, _) = requests.insert(id("2"), Style::V2, NONE, 0);
    let (older, _) = requests.insert(id("1"), Style::V2, NONE, 0);
    requests.remove(other);
    let (newer, _) = requests.insert(id("1"), Style::V2, NONE, 0);
    assert!(newer < older, "the newer one stands in a lower slot");
    assert_eq!(requests.find_wanted(id("1")), Some(newer));
    for n in 10..40u32 {
        requests.insert(id(&alloc::format!("{n}")), Style::V2, NONE, 0);
        assert_eq!(requests.find_wanted(id("1")), Some(newer));
    }
    assert!(requests.set_cancelled(newer));
    assert_eq!(requests.find_wanted(id("1")), Some(older));
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

#[test]
fn ids_cost_heap_beyond_what_stands_in_the_slot() {
    let bound =
        |max_open_requests, max_id_bytes| Requests::max_heap_bytes(max_open_requests, max_id_bytes);
    // A longer id takes a power of two, for each of ten requests and once more for a lookup.
    assert_eq!(bound(10, ID_INLINE), bound(10, 0));
    assert_eq!(bound(10, ID_INLINE + 1), bound(10, 0) + 11 * 64);
    assert_eq!(bound(10, 64), bound(10, 41));
    assert_eq!(bound(10, 65), bound(10, 0) + 11 * 128);
}

// `fresh` lists the slots that were opened since the last lookup. When its capacity is used up,
// entries of requests that have ended are removed.
#[test]
fn the_fresh_have_room_for_twice_as_many_and_what_is_over_is_left_out_when_it_is_used_up() {
    let mut requests = Requests::new();
    for n in 0..100u32 {
        requests.insert(id(&alloc::format!("{n}")), Style::V2, NONE, 0);
        let room = 2 * requests.slots.capacity() + FRESH_MIN;
        assert_eq!(requests.fresh.capacity(), room);
    }
    let mut requests = Requests::new();
    let (first, _) = requests.insert(id("0"), Style::V2, NONE, 0);
    let mut noted = 1;
    // Opens two requests and ends them; returns how many entries were added so far.
    let mut one_after_the_other = |requests: &mut Requests| {
        let slots = [(); 2].map(|()| requests.insert(id("1"), Style::V2, NONE, 0).0);
        slots
            .into_iter()
            .rev()
            .for_each(|slot| requests.remove(slot));
        noted += 2;
        noted
    };
    one_after_the_other(&mut requests);
    let room = requests.fresh.capacity();
    for _ in 0..5000 {
        let noted = one_after_the_other(&mut requests);
        if noted <= room {
            assert_eq!(requests.fresh.len(), noted);
        }
        assert_eq!(requests.fresh.capacity(), room);
    }
    assert_eq!(requests.find(id("0")), Some(first));
}

// ARC-11
#[test]
fn the_first_request_makes_room_for_one_and_more_make_room_for_twice_as_many() {
    let mut requests = Requests::new();
    let mut rooms = alloc::vec::Vec::new();
    for n in 0..100u32 {
        requests.insert(id(&alloc::format!("{n}")), Style::V2, NONE, 0);
        rooms.push(requests.slots.capacity());
    }
    assert_eq!(rooms[0], 1);
    rooms.dedup();
    // The sizes are powers of two, 128 at most.
    assert!(rooms.len() < 10, "{rooms:?}");
}

#[test]
fn one_request_at_a_time_is_noted_once() {
    let mut requests = Requests::new();
    for _ in 0..100 {
        let (slot, _) = requests.insert(id("1"), Style::V2, NONE, 0);
        assert_eq!((slot, requests.fresh.len()), (0, 1));
        requests.remove(slot);
    }
    let (slot, _) = requests.insert(id("7"), Style::V2, NONE, 0);
    assert_eq!(requests.find(id("7")), Some(slot));
    assert_eq!(requests.find(id("1")), None);
}

// SEC-11
#[test]
fn requests_are_spread_over_the_buckets() {
    let mut requests = Requests::new();
    for n in 0..64u32 {
        requests.insert(id(&alloc::format!("{n}")), Style::V2, NONE, 0);
    }
    requests.sort();
    let buckets = &requests.index.as_ref().unwrap().buckets;
    let used = buckets.iter().filter(|&&head| head != NONE);
    assert_eq!(buckets.len(), 64);
    // By chance 64 ids would be in about 40 buckets.
    assert!(used.count() > 30);
}
