//! The client: what is new, what is a repeat, and what is missing.

use crate::durable::{DurableReader, Received, Resumed};

const NEW: Received = Received::New { missed: 0 };
const DONE: Received = Received::Repeat { acknowledge: true };
const BUSY: Received = Received::Repeat { acknowledge: false };

fn reader() -> DurableReader {
    let mut reader = DurableReader::new();
    assert_eq!(reader.handle_subscribed(0), Resumed::InOrder);
    reader
}

// PER-03
#[test]
fn each_message_is_new_once() {
    let mut reader = reader();
    assert_eq!(reader.handle_message(1), NEW);
    assert_eq!(reader.handle_message(1), BUSY, "the program has it");
    reader.finish(1);
    assert_eq!(reader.handle_message(1), DONE, "the answer was lost");
    assert!(reader.handle_acknowledged(1, true));
    assert_eq!(reader.open(), 0);
    assert_eq!(reader.handle_message(1), DONE);
    assert_eq!(reader.handle_message(2), NEW);
    // One that the program has dropped comes again.
    reader.give_back(2);
    assert_eq!(reader.handle_message(2), NEW);
    reader.finish(2);
    reader.give_back(2);
    assert_eq!(reader.handle_message(2), DONE);
    reader.finish(77);
    reader.give_back(77);
    assert_eq!(reader.position(), 2);
}

// PER-03
#[test]
fn a_new_connection_brings_repeats_of_what_was_not_acknowledged() {
    let mut reader = reader();
    for sequence in 1..=5 {
        assert_eq!(reader.handle_message(sequence), NEW);
    }
    for sequence in [1, 2, 3, 5] {
        reader.finish(sequence);
    }
    reader.handle_acknowledged(1, true);
    reader.handle_acknowledged(3, true);
    assert_eq!(reader.position(), 3);
    reader.handle_disconnected();
    assert!(!reader.is_attached());
    assert_eq!(reader.handle_subscribed(1), Resumed::InOrder);
    assert!(reader.is_attached());
    let received = [2, 4, 5, 6].map(|sequence| reader.handle_message(sequence));
    assert_eq!(received, [DONE, BUSY, DONE, NEW]);
    // What the server knew already is not listed any more.
    reader.handle_disconnected();
    assert_eq!(reader.handle_subscribed(5), Resumed::InOrder);
    assert_eq!((reader.open(), reader.position()), (2, 3));
    reader.finish(4);
    assert_eq!(reader.position(), 5);
}

// PER-03
#[test]
fn what_is_not_sent_again_was_acknowledged() {
    let mut reader = reader();
    for sequence in 1..=4 {
        reader.handle_message(sequence);
        reader.finish(sequence);
    }
    reader.handle_message(5);
    reader.give_back(5);
    // The answers were lost, and 2 and 3 were stored.
    reader.handle_subscribed(0);
    assert_eq!(reader.handle_message(1), DONE);
    assert_eq!(reader.handle_message(4), DONE);
    assert_eq!(reader.open(), 3);
    assert_eq!(reader.handle_message(6), NEW);
    assert_eq!(reader.open(), 3, "5 was removed from the topic");
}

// PER-03
#[test]
fn a_position_that_the_program_has_kept_discards_what_is_done() {
    let mut reader = DurableReader::at(3);
    assert_eq!(reader.position(), 3);
    assert_eq!(reader.handle_subscribed(0), Resumed::InOrder);
    let received = [1, 2].map(|sequence| reader.handle_message(sequence));
    assert_eq!(received, [DONE, DONE]);
    assert!(reader.handle_acknowledged(1, true));
    // The third is not certain yet, so this is no loss.
    assert_eq!(reader.handle_subscribed(1), Resumed::InOrder);
    let received = [2, 3, 4].map(|sequence| reader.handle_message(sequence));
    assert_eq!(received, [DONE, DONE, NEW]);
    // Elsewhere somebody has acknowledged more.
    assert_eq!(DurableReader::at(3).handle_subscribed(3), Resumed::InOrder);
    let skipped = Resumed::Skipped { missed: 4 };
    assert_eq!(DurableReader::at(3).handle_subscribed(7), skipped);
    // Without a position, it begins where the server does.
    let mut reader = DurableReader::default();
    assert_eq!((reader.position(), reader.is_attached()), (0, false));
    assert_eq!(reader.handle_subscribed(42), Resumed::InOrder);
    assert_eq!(reader.handle_message(43), NEW);
    assert_eq!(DurableReader::new().handle_message(9), NEW);
}

// PER-13
#[test]
fn gaps_are_noticed_at_their_place() {
    let mut reader = reader();
    reader.handle_message(1);
    let gap = |missed| Received::New { missed };
    assert_eq!(reader.handle_message(2), gap(0));
    assert_eq!(reader.handle_message(10), gap(7));
    assert_eq!(reader.handle_message(11), gap(0));
}

// PER-06
#[test]
fn a_server_that_has_lost_messages_is_noticed() {
    let mut reader = reader();
    for sequence in 1..=3 {
        reader.handle_message(sequence);
        reader.finish(sequence);
        reader.handle_acknowledged(sequence, sequence < 3);
    }
    assert_eq!(reader.handle_subscribed(2), Resumed::InOrder);
    assert_eq!(reader.handle_message(3), DONE);
    assert_eq!(reader.handle_subscribed(1), Resumed::Rewound);
    assert_eq!((reader.open(), reader.position()), (0, 1));
    let received = [2, 3].map(|sequence| reader.handle_message(sequence));
    assert_eq!(received, [NEW, NEW]);
}

// PER-12 PER-20
#[test]
fn a_refused_acknowledgement_tells_of_a_takeover() {
    let mut reader = reader();
    reader.handle_message(1);
    reader.finish(1);
    assert!(!reader.handle_acknowledged(1, false));
    assert!(!reader.is_attached());
    assert!(!reader.handle_acknowledged(1, true), "it stays so");
    reader.handle_subscribed(0);
    reader.handle_message(2);
    // What came on an earlier connection may be refused until it has come on this one.
    reader.handle_subscribed(1);
    reader.finish(2);
    assert!(reader.handle_acknowledged(2, false));
    assert_eq!(reader.handle_message(2), DONE);
    assert!(!reader.handle_acknowledged(2, false));
}

// PER-03
#[test]
fn what_is_held_is_bounded() {
    let mut reader = reader().with_max_open(3);
    let received = [1, 2, 3, 4].map(|sequence| reader.handle_message(sequence));
    assert_eq!(received, [NEW, NEW, NEW, Received::Full]);
    reader.finish(1);
    reader.handle_acknowledged(1, true);
    assert_eq!(reader.handle_message(4), NEW);
    assert_eq!((reader.handle_message(1), reader.open()), (DONE, 3));
    // A hundred thousand messages leave nothing behind.
    let mut reader = super::reader::reader();
    for sequence in 1..=100_000 {
        assert_eq!(reader.handle_message(sequence), NEW);
        reader.finish(sequence);
        reader.handle_acknowledged(sequence, true);
    }
    assert_eq!((reader.open(), reader.position()), (0, 100_000));
    for sequence in [u64::MAX, 0] {
        reader.handle_message(sequence);
    }
}

// PER-06
#[test]
fn the_answer_to_a_subscribe_is_read() {
    let read = |text| DurableReader::resumed_from(crate::Json::parse_str(text).unwrap());
    assert_eq!(read(r#"{"resumed_from_sequence":42}"#), Some(42));
    assert_eq!(read(r#"{"resumed_from_sequence":-1}"#), None);
    assert_eq!(read("[42]"), None);
}

// PER-03
#[test]
fn what_was_refused_does_not_pass_for_seen_when_later_messages_are_taken() {
    let mut reader = reader();
    assert_eq!(reader.handle_message(1), NEW);
    assert_eq!(reader.handle_limited(2, false), Received::Full);
    // There is space again, but 2 and 3 come first; 4 is new, and comes before 3 does.
    assert_eq!(reader.handle_message(3), Received::Full);
    assert_eq!(reader.handle_message(2), NEW);
    assert_eq!(reader.handle_message(4), Received::Full);
    assert_eq!(reader.handle_limited(1, false), BUSY);
    assert_eq!(reader.handle_message(3), NEW);
    assert_eq!(reader.handle_message(4), NEW);
    assert_eq!(reader.handle_message(5), NEW);
    // The topic has lost 6; the next connection begins afresh.
    assert_eq!(reader.handle_limited(6, false), Received::Full);
    assert_eq!(reader.handle_limited(7, false), Received::Full);
    assert_eq!(reader.handle_message(7), Received::New { missed: 1 });
    assert_eq!(reader.handle_limited(8, false), Received::Full);
    assert_eq!(reader.handle_subscribed(8), Resumed::Skipped { missed: 1 });
    assert_eq!(reader.handle_message(9), NEW);
}

// PER-03
#[test]
fn what_comes_again_out_of_turn_waits_for_what_was_refused_before_it() {
    let refuse = |reader: &mut DurableReader, sequence| {
        assert_eq!(reader.handle_limited(sequence, false), Received::Full);
    };
    let mut reader = reader();
    assert_eq!(reader.handle_message(1), NEW);
    (2..=4).for_each(|sequence| refuse(&mut reader, sequence));
    assert_eq!(reader.handle_message(2), NEW);
    // There is no space for 3 when it comes again; 4 comes again later.
    refuse(&mut reader, 3);
    assert_eq!(reader.handle_message(4), Received::Full);
    assert_eq!(reader.handle_message(3), NEW);
    assert_eq!(reader.handle_message(4), NEW);
    // Now the topic loses 5 and 6, and then 7, which was watched: 8 has come twice without them.
    (5..=9).for_each(|sequence| refuse(&mut reader, sequence));
    refuse(&mut reader, 5);
    let left = [7, 8, 9, 8, 9, 8, 9].map(|sequence| reader.handle_message(sequence));
    assert_eq!(left, [Received::Full; 7]);
    assert_eq!(reader.handle_message(8), Received::New { missed: 3 });
    assert_eq!(reader.handle_message(9), NEW);
}
