//! What a service takes from a session: requests together, and references one after another.

use std::sync::Arc;

use antiphon::OwnedRequest;
use antiphon_session::{Spare, Taken};

use super::support::{Side, request};

fn batch(ids: impl IntoIterator<Item = u32>) -> String {
    let items: Vec<_> = ids.into_iter().map(request).collect();
    format!("[{}]", items.join(","))
}

/// The next requests whose answers are one batch, by their ids; none for anything else.
fn together(side: &Side, most: usize) -> Option<Vec<String>> {
    let mut state = side.session.lock();
    let mut taken = Taken::default();
    if !state.queue.pop_batch(&mut taken, most) {
        assert!(taken.is_empty());
        return state.queue.pop().map(|_| Vec::new());
    }
    let number = taken.len();
    let id = |request: OwnedRequest| String::from_utf8(request.id().json().as_bytes().to_vec());
    let ids: Vec<_> = std::iter::from_fn(|| taken.pop().map(id)).collect();
    assert_eq!((ids.len(), taken.is_empty()), (number, true));
    state.queue.take_room(&mut taken);
    Some(ids.into_iter().map(Result::unwrap).collect())
}

fn all_together(side: &Side, most: usize) -> Vec<String> {
    let groups = std::iter::from_fn(|| together(side, most));
    groups.map(|ids| ids.join(" ")).collect()
}

// SRV-20
#[test]
fn requests_right_behind_one_another_in_their_batch_are_taken_together() {
    let note = r#"{"jsonrpc":"2.0","method":"n"}"#;
    let mixed = format!("[{},{note},{}]", request(1), request(2));
    let broken = format!("[{},1,{}]", request(1), request(2));
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#;
    let cases: &[(&[&str], usize, &[&str])] = &[
        (&[&batch(1..=4)], 9, &["1 2 3 4"]),
        (&[&batch(1..=4)], 4, &["1 2 3 4"]),
        (&[&batch(1..=4)], 3, &["1 2 3", "4"]),
        (&[&batch(1..=4)], 1, &["1", "2", "3", "4"]),
        (&[&batch(1..=3), &request(4)], 9, &["1 2 3", "4"]),
        (&[&request(4), &batch(1..=3)], 9, &["4", "1 2 3"]),
        (&[&request(1), &request(2)], 9, &["1", "2"]),
        (&[&batch(1..=2), &batch(3..=5)], 9, &["1 2", "3 4 5"]),
        (
            &[&batch(1..=2), note, &batch(3..=4)],
            9,
            &["1 2", "", "3 4"],
        ),
        (&[&mixed], 9, &["1", "", "2"]),
        (&[&broken], 9, &["1", "", "2"]),
        (&[&batch(1..=4), cancel], 9, &["1", "3 4"]),
        (&[&batch(1..=4), &request(5)], 3, &["1 2 3", "4", "5"]),
    ];
    for (lines, most, wanted) in cases {
        let side = Side::default();
        // In the memory of what came before it goes the same way.
        for _ in 0..2 {
            for line in *lines {
                side.hear(line);
            }
            assert_eq!(all_together(&side, *most), *wanted, "{lines:?} {most}");
        }
    }
}

#[test]
fn a_request_leaves_its_reference_to_the_next_and_nothing_stays_behind() {
    let sides = [Side::default(), Side::default()];
    let counts = || {
        sides
            .each_ref()
            .map(|side| Arc::strong_count(&side.session))
    };
    let serve = |side: &Side| {
        side.hear(&request(1));
        let (_, reply) = side.request();
        reply.ok(&1).unwrap();
    };
    let before = counts();
    serve(&sides[0]);
    assert_eq!(counts(), before);
    let spare = Spare::keep(&sides[0].session);
    for _ in 0..2 {
        serve(&sides[0]);
        assert_eq!(counts(), [before[0] + 1, before[1]]);
    }
    // What another session has asked is answered here, too, and leaves nothing.
    serve(&sides[1]);
    assert_eq!(counts(), [before[0] + 1, before[1]]);
    {
        let _inner = Spare::keep(&sides[1].session);
        serve(&sides[0]);
        assert_eq!(counts(), [before[0] + 1, before[1]]);
        serve(&sides[1]);
        assert_eq!(counts(), [before[0] + 1, before[1] + 1]);
    }
    assert_eq!(counts(), [before[0] + 1, before[1]]);
    // A request that is answered elsewhere has its own.
    sides[0].hear(&request(1));
    let (_, reply) = sides[0].request();
    drop(spare);
    assert_eq!(counts(), [before[0] + 1, before[1]]);
    reply.ok(&1).unwrap();
    assert_eq!(counts(), before);
}
