use super::Calls;
use crate::deadlines::NEVER;
use crate::id::MAX_CALL_NUMBER;
use alloc::vec::Vec;

/// Opens a call whose tag is ten times its number.
fn open(calls: &mut Calls<u64>, deadline: u64) -> u64 {
    let number = calls.reserve(1024, MAX_CALL_NUMBER).unwrap();
    calls.open_call(number, deadline, number * 10);
    number
}

// CLI-04
#[test]
fn numbers_are_a_sequence_that_skips_what_is_still_open() {
    let mut calls = Calls::new(1);
    let slow = open(&mut calls, NEVER);
    assert_eq!(slow, 1);
    // In a ring of eight slots the numbers 9 and 17 would need the slot of call 1.
    for expected in (2..=8).chain(10..=16).chain(18..=24) {
        let number = open(&mut calls, NEVER);
        assert_eq!(number, expected);
        assert_eq!(calls.take(number), Some(number * 10));
    }
    assert_eq!(calls.take(1), Some(10));
    assert_eq!(calls.take(1), None);
    assert!(calls.was_used(9, 1) && !calls.was_used(25, 1) && !calls.was_used(0, 1));
}

#[test]
fn the_ring_fills_to_the_last_slot_and_keeps_every_call() {
    let mut calls = Calls::new(1);
    let numbers: Vec<u64> = (0..1024).map(|_| open(&mut calls, NEVER)).collect();
    assert_eq!(calls.reserve(1024, MAX_CALL_NUMBER), None);
    assert_eq!(calls.oldest(), Some(1));
    assert_eq!(calls.take(500), Some(5000));
    let reused = open(&mut calls, NEVER);
    assert_eq!(reused & 1023, 500);
    assert!(
        numbers
            .iter()
            .all(|&number| number == 500 || calls.is_open(number))
    );
    assert_eq!(calls.open(), 1024);
}

#[test]
fn the_sequence_ends_at_its_last_number() {
    let mut calls: Calls<()> = Calls::new(MAX_CALL_NUMBER);
    let last = calls.reserve(8, MAX_CALL_NUMBER).unwrap();
    calls.open_call(last, NEVER, ());
    assert_eq!(calls.reserve(8, MAX_CALL_NUMBER), None);
}

#[test]
fn each_deadline_fires_once_and_can_be_moved() {
    let mut calls = Calls::new(1);
    let numbers: Vec<u64> = (0..100).map(|i| open(&mut calls, 1000 - i)).collect();
    assert!(calls.set_deadline(numbers[5], 1));
    assert!(calls.set_deadline(numbers[99], NEVER));
    assert_eq!(calls.due(0), None);
    assert_eq!(calls.due(1), Some(numbers[5]));
    calls.take(numbers[5]);
    assert_eq!(calls.due(1), None);
    assert!(calls.earliest_deadline() > 1);
    let mut fired = Vec::new();
    while let Some(number) = calls.due(1000) {
        calls.take(number);
        fired.push(number);
    }
    fired.sort_unstable();
    let all = numbers.iter().copied();
    let expected = all.filter(|number| ![numbers[5], numbers[99]].contains(number));
    assert_eq!(fired, expected.collect::<Vec<_>>());
    assert!(!calls.set_deadline(numbers[5], 7));
}

#[test]
fn taking_back_restores_the_sequence() {
    let mut calls = Calls::new(1);
    open(&mut calls, NEVER);
    let mark = calls.next();
    open(&mut calls, 5);
    open(&mut calls, 6);
    calls.rollback(mark);
    assert_eq!((calls.open(), calls.next()), (1, 2));
    assert_eq!(open(&mut calls, NEVER), 2);
}

#[test]
fn the_ring_doubles_at_seven_eighths_and_is_never_larger_than_its_limit() {
    let mut calls = Calls::new(1);
    for opened in 1..=1024u64 {
        open(&mut calls, NEVER);
        let enough = [2, 8, 16, 32, 64, 128, 256, 512].into_iter();
        let enough = enough.filter(|len| opened <= len * 7 / 8).min();
        assert_eq!(calls.slots.len() as u64, enough.unwrap_or(1024), "{opened}");
    }
}

#[test]
fn a_table_that_is_full_stays_below_its_bound_and_comes_half_way() {
    for max_open_calls in [1, 7, 8, 9, 64, 65, 1024, 4096] {
        let mut calls = Calls::new(1);
        while let Some(number) = calls.reserve(max_open_calls, MAX_CALL_NUMBER) {
            calls.open_call(number, 5, number);
        }
        let slots = calls.slots.capacity() * size_of::<Option<super::Slot<u64>>>();
        let words = calls.occupied.capacity() * size_of::<u64>();
        let bound = Calls::<u64>::max_heap_bytes(max_open_calls);
        let held = slots + words;
        assert!(held <= bound && bound <= 2 * held, "{held} of {bound}");
    }
    // For a limit that no memory can hold, the bound is the largest number, and has not wrapped.
    assert_eq!(Calls::<u64>::max_heap_bytes(usize::MAX), usize::MAX);
}

#[test]
fn a_call_is_found_between_two_others_whether_they_lie_close_or_far_apart() {
    let mut calls = Calls::new(1);
    for _ in 0..64 {
        open(&mut calls, NEVER);
    }
    (1..=64)
        .filter(|number| ![20, 40].contains(number))
        .for_each(|number| {
            calls.take(number);
        });
    // Two numbers are far apart if there are more numbers between them than slots.
    for _ in 0..1000 {
        let number = open(&mut calls, NEVER);
        calls.take(number);
    }
    let last = open(&mut calls, NEVER);
    let far = u64::MAX;
    for (low, high, found) in [
        (0, 19, None),
        (0, 20, Some(20)),
        (19, 20, Some(20)),
        (20, 20, None),
        (20, 39, None),
        (20, 40, Some(40)),
        (40, last - 1, None),
        (40, last, Some(last)),
        (40, far, Some(last)),
        (last, far, None),
        (last - 1, far, Some(last)),
        (20, far, Some(40)),
        (0, far, Some(20)),
    ] {
        assert_eq!(calls.open_between(low, high), found, "{low} to {high}");
    }
}

#[test]
fn the_oldest_call_is_found_again_after_another_was_made() {
    let mut calls = Calls::new(1);
    for number in 1..=30 {
        open(&mut calls, NEVER);
        assert_eq!(calls.oldest(), Some(1), "{number}");
    }
    for number in 1..30 {
        calls.take(number);
        assert_eq!(calls.oldest(), Some(number + 1));
    }
}

#[test]
fn the_next_number_is_given_at_once_while_nothing_stands_in_its_way() {
    let mut calls = Calls::new(1);
    assert_eq!(calls.reserve_next(9), None);
    for number in 1..=7 {
        // Before the first call there is no ring, and before the second its two slots must become
        // eight.
        if number > 2 {
            assert_eq!(calls.reserve_next(number), Some(number as u64));
            assert_eq!(calls.reserve_next(number - 1), None);
        }
        open(&mut calls, NEVER);
    }
    // Now the ring of eight slots must grow.
    assert_eq!(calls.reserve_next(1024), None);
    calls.take(1);
    assert_eq!(calls.reserve_next(1024), Some(8));
    open(&mut calls, NEVER);
    calls.take(3);
    assert_eq!(calls.reserve_next(1024), Some(9));
    open(&mut calls, NEVER);
    calls.take(4);
    // Number 10 would need the slot of call 2, which is still open.
    assert_eq!(calls.reserve_next(1024), Some(11));
    calls.take(2);
    assert_eq!(calls.reserve_next(1024), Some(10));
    calls.name(9, crate::id::Id::NULL);
    assert_eq!(calls.reserve_next(1024), None);
}
