use super::{Batches, Budget, OurBatch, OurBatches, Reply};
use crate::config::BatchOrder;
use alloc::vec::Vec;

fn at_most(max_bytes: usize) -> Budget {
    Budget {
        max_bytes,
        max_owed: 0,
    }
}

/// Adds an answer to a batch whose array of answers may have at most 11 bytes.
fn add(batches: &mut Batches, batch: u32, position: u32, text: &[u8]) -> bool {
    let write = |out: &mut Vec<u8>| {
        out.extend_from_slice(text);
        Ok::<(), ()>(())
    };
    batches
        .add(batch, position, 4, at_most(11), || 0, write)
        .unwrap()
}

// SRV-20 SRV-21
#[test]
fn answers_leave_in_request_order_or_as_they_came() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    for (position, text) in [(2, b"c"), (0, b"a"), (1, b"b")] {
        assert!(add(&mut batches, batch, position, text));
    }
    let mut out = Vec::new();
    batches.write(batch, BatchOrder::Request, &mut out);
    batches.write(batch, BatchOrder::Completion, &mut out);
    assert_eq!(out, b"[a,b,c][c,a,b]");
    assert_eq!((batches.gathered(), batches.reply_bytes(batch)), (3, 7));
    batches.end(batch, 64);
    assert_eq!(batches.gathered(), 0);
    assert_eq!(batches.begin(0), batch);
    assert!(!batches.has_replies(batch));
}

#[test]
fn an_answer_over_the_budget_leaves_no_trace() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    assert!(add(&mut batches, batch, 0, b"12345"));
    assert!(!add(&mut batches, batch, 1, b"1234"));
    assert!(add(&mut batches, batch, 1, b"123"));
    assert_eq!(batches.gathered(), 8);
}

#[test]
fn a_batch_is_over_after_its_last_release() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    batches.retain(batch, 1);
    assert!(!batches.release(batch));
    assert!(batches.release(batch));
}

#[test]
fn answers_that_came_in_the_opposite_order_are_turned_round() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    for (position, text) in [(2, b"c"), (1, b"b"), (0, b"a")] {
        assert!(add(&mut batches, batch, position, text));
    }
    let mut out = Vec::new();
    batches.write(batch, BatchOrder::Request, &mut out);
    assert_eq!(out, b"[a,b,c]");
}

/// Bytes of heap that the buffers of all batches hold.
fn held(batches: &Batches) -> usize {
    let buffers = batches.slots.iter();
    buffers
        .map(|batch| batch.text.capacity() + batch.replies.capacity() * size_of::<Reply>())
        .sum()
}

#[test]
fn batches_that_are_over_keep_no_more_than_they_may_and_lend_it_to_the_next() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    add(&mut batches, batch, 0, b"12345");
    let one = held(&batches);
    assert!(one > 0);
    for (may_keep, kept) in [
        (0, 0),
        (one - 1, 0),
        (one, one),
        (2 * one - 1, one),
        (2 * one, 2 * one),
    ] {
        let mut batches = Batches::default();
        for _ in 0..3 {
            let both = [batches.begin(0), batches.begin(0)];
            for batch in both {
                add(&mut batches, batch, 0, b"12345");
            }
            both.into_iter()
                .for_each(|batch| batches.end(batch, may_keep));
            assert_eq!(held(&batches), kept, "{may_keep}");
        }
    }
}

#[test]
fn an_answer_that_is_taken_back_gives_its_room_back() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    add(&mut batches, batch, 0, b"1234");
    let fail = |out: &mut Vec<u8>, bytes: usize| {
        out.resize(out.len() + bytes, b'x');
        Err::<(), ()>(())
    };
    // Half of the capacity is in use, so it is kept.
    assert!(
        batches
            .add(batch, 1, 4, at_most(100), || 0, |out| fail(out, 4))
            .is_err()
    );
    let room = batches.slots[0].text.capacity();
    assert_eq!(room, 10);
    assert!(
        batches
            .add(batch, 1, 4, at_most(100), || 0, |out| fail(out, 4096))
            .is_err()
    );
    assert!(batches.slots[0].text.capacity() <= room);
    assert_eq!((batches.gathered(), batches.reply_bytes(batch)), (4, 6));
}

#[test]
fn lists_of_answers_are_bounded_by_their_number_and_by_the_output() {
    let bound = |batches, items, output| Batches::max_heap_bytes(batches, items, output, 0);
    // If the output has space for ten of the shortest answers, more items do not matter.
    let lists = |output| bound(1000, 1000, output) - bound(1000, 1000, 0);
    assert_eq!(lists(320), 2 * 10 * size_of::<Reply>());
    assert_eq!(lists(640), 2 * lists(320));
    assert_eq!(bound(1000, 1000, 1 << 40), bound(1000, 1000, 1 << 41));
    assert_eq!(lists(1 << 40), 2 * 1_000_000 * size_of::<Reply>());
}

#[test]
fn a_call_is_found_in_the_batch_that_it_was_made_in() {
    let mut ours = OurBatches::default();
    ours.push(3, 5, 3);
    ours.push(8, 8, 1);
    let around: Vec<_> = (2..=9).map(|number| ours.around(number)).collect();
    let (first, alone) = ((3, 5, 3), |number| (number, number, 1));
    let expected = [
        alone(2),
        first,
        first,
        first,
        alone(6),
        alone(7),
        alone(8),
        alone(9),
    ];
    assert_eq!(around, expected);
    for (number, open) in [(4, 2), (8, 2), (3, 1), (7, 1), (5, 0)] {
        ours.end_call(number);
        assert_eq!(ours.around(5), (3, 5, open), "{number}");
    }
    assert_eq!(ours.around(8), (8, 8, 0));
}

#[test]
fn our_batches_stay_below_their_bound_and_come_near_it() {
    let max_open_calls = 100;
    let mut ours = OurBatches::default();
    for number in 0..max_open_calls as u64 {
        ours.push(number, number, 1);
    }
    // From now on an old batch ends before each new one; the first batch never ends.
    for number in max_open_calls as u64..10_000 {
        ours.end_call(number - max_open_calls as u64 + 1);
        ours.push(number, number, 1);
        assert_eq!(ours.around(0), (0, 0, 1));
        assert_eq!(ours.around(number), (number, number, 1));
    }
    let bytes = ours.batches.capacity() * size_of::<OurBatch>();
    let bound = OurBatches::max_heap_bytes(max_open_calls);
    assert!(bytes <= bound && bound <= 2 * bytes, "{bytes} of {bound}");
    // After all batches have ended, the list becomes short again.
    (0..10_000).for_each(|number| ours.end_call(number));
    (10_000..10_300).for_each(|number| {
        ours.push(number, number, 1);
        ours.end_call(number);
    });
    assert!(ours.batches.len() <= 2);
}

#[test]
fn room_is_made_for_what_is_added_and_doubled_up_to_the_most_there_may_be() {
    let mut batches = Batches::default();
    let batch = batches.begin(0);
    let mut add = |position, room: usize| {
        let write = |out: &mut Vec<u8>| {
            out.resize(out.len() + room, b'x');
            Ok::<(), ()>(())
        };
        assert_eq!(
            batches.add(batch, position, room, at_most(100), || 0, write),
            Ok(true)
        );
        batches.slots[0].text.capacity()
    };
    assert_eq!(add(0, 20), 21);
    assert_eq!(add(1, 5), 42);
    assert_eq!(add(2, 14), 42);
    assert_eq!(add(3, 1), 84);
    assert_eq!(add(4, 45), 100);
}
