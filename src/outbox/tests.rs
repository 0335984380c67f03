//! The bytes that wait to be written, how they are taken, and how calls are joined into batches.

use super::{MESSAGE_BYTES_MIN, Outbox, Part};
use crate::config::Config;
use crate::frame::Framing;
use alloc::vec::Vec;
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

/// Queues a message with calls up to number `last_call`, or without calls.
fn put(outbox: &mut Outbox<Config>, body: &[u8], last_call: Option<u64>) {
    let frame = outbox.begin(body.len());
    outbox.body().extend_from_slice(body);
    outbox.commit(frame, last_call);
}

// TRN-07
#[test]
fn a_stream_shows_everything_and_takes_partial_writes() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    put(&mut outbox, b"one", Some(1));
    put(&mut outbox, b"two", None);
    assert_eq!(outbox.peek(), Some(&b"one\ntwo\n"[..]));
    assert_eq!(
        (outbox.queued(), outbox.done(), outbox.begun_call()),
        (8, 0, 0)
    );
    assert!(outbox.consume(1));
    assert_eq!(
        (outbox.queued(), outbox.done(), outbox.begun_call()),
        (8, 1, 1)
    );
    assert!(outbox.consume(100));
    assert_eq!((outbox.len(), outbox.done()), (0, 8));
    assert_eq!(outbox.peek(), None);
    assert!(!outbox.consume(1));
}

#[test]
fn whole_messages_are_shown_one_by_one() {
    let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
    put(&mut outbox, b"one", Some(1));
    put(&mut outbox, b"two", None);
    put(&mut outbox, b"three", Some(3));
    outbox.consume(3);
    assert_eq!(outbox.begun_call(), 1);
    assert_eq!(outbox.peek(), Some(&b"two"[..]));
    assert_eq!(outbox.fail(), None);
    assert_eq!(outbox.peek(), Some(&b"three"[..]));
    assert_eq!(outbox.fail(), Some((1, 3)));
    assert_eq!(outbox.fail(), None);
}

#[test]
fn calls_behind_a_frame_boundary_have_not_begun() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    put(&mut outbox, b"one", Some(1));
    put(&mut outbox, b"two", Some(2));
    outbox.consume(4);
    assert_eq!(outbox.begun_call(), 1);
    outbox.consume(1);
    assert_eq!(outbox.begun_call(), 2);
}

#[test]
fn taking_swaps_the_buffers_when_nothing_else_waits() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    let mut into = Vec::with_capacity(99);
    put(&mut outbox, b"one", Some(1));
    assert!(outbox.swap(&mut into));
    assert_eq!(into, b"one\n");
    assert_eq!(
        (outbox.len(), outbox.done(), outbox.begun_call()),
        (0, 4, 1)
    );
    assert!(outbox.buf.capacity() >= 99);
    assert!(!outbox.take(&mut into));
    put(&mut outbox, b"two", Some(2));
    assert!(!outbox.swap(&mut into), "`into` is not empty");
    assert!(outbox.take(&mut into));
    assert_eq!(into, b"one\ntwo\n");
}

#[test]
fn a_frame_not_completed_is_neither_shown_nor_kept() {
    let mut outbox = Outbox::<Config>::new(Framing::ContentLength, 1024);
    put(&mut outbox, b"one", Some(1));
    let before = outbox.peek().unwrap().to_vec();
    let _ = outbox.begin(10);
    outbox.body().extend_from_slice(b"half");
    assert_eq!(outbox.peek().unwrap(), before);
    outbox.rollback();
    put(&mut outbox, b"two", None);
    assert_eq!(
        outbox.peek().unwrap(),
        [&before[..], b"Content-Length: 3\r\n\r\ntwo"].concat()
    );
}

#[test]
fn unsent_calls_can_be_dropped_from_between_answers() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    for (body, call) in [
        (b"a1", Some(1)),
        (b"r1", None),
        (b"r2", None),
        (b"a2", Some(2)),
        (b"r3", None),
    ] {
        put(&mut outbox, body, call);
    }
    outbox.consume(1);
    outbox.drop_unsent_calls();
    assert_eq!(outbox.peek(), Some(&b"1\nr1\nr2\nr3\n"[..]));
    assert_eq!(outbox.begun_call(), 1);
    outbox.consume(100);
    assert_eq!((outbox.len(), outbox.done()), (0, 12));
}

#[test]
fn dropped_calls_do_not_count_as_waiting_for_replies() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    let reply = |outbox: &mut Outbox<Config>| {
        let frame = outbox.begin(5);
        outbox.body().extend_from_slice(b"reply");
        outbox.commit_reply(frame);
    };
    put(&mut outbox, b"one", Some(1));
    reply(&mut outbox);
    put(&mut outbox, b"two", Some(2));
    reply(&mut outbox);
    put(&mut outbox, b"three", Some(3));
    outbox.consume(1);
    assert_eq!(outbox.waiting_for_replies(), 3 + 6 + 4 + 6);
    outbox.drop_unsent_calls();
    assert_eq!(outbox.peek(), Some(&b"ne\nreply\nreply\n"[..]));
    assert_eq!(outbox.waiting_for_replies(), 3 + 6 + 6);
    assert!(!outbox.ends_in_calls());
    outbox.consume(100);
    assert_eq!(outbox.waiting_for_replies(), 0);
}

#[test]
fn what_was_dropped_does_not_fail_with_a_later_frame() {
    let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
    put(&mut outbox, b"one", Some(1));
    put(&mut outbox, b"two", None);
    outbox.clear();
    assert_eq!((outbox.len(), outbox.begun_call()), (0, 0));
    put(&mut outbox, b"three", Some(2));
    assert_eq!(outbox.fail(), Some((1, 2)));
}

// ARC-11
#[test]
fn an_empty_buffer_is_kept_up_to_its_limit_and_given_back_beyond() {
    for (room, kept) in [(1000, 1000), (1024, 1024), (1025, 0), (5000, 0)] {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        outbox.buf = Vec::with_capacity(room);
        put(&mut outbox, b"one", None);
        outbox.consume(3);
        assert_eq!(outbox.buf.capacity(), room);
        outbox.consume(1);
        assert_eq!((outbox.buf.capacity(), outbox.buf.len()), (kept, 0));
        assert_eq!(outbox.head, 0);
    }
}

// ARC-11
#[test]
fn room_for_a_frame_that_was_taken_back_is_kept_up_to_twice_the_limit() {
    for (room, kept) in [(199, 199), (200, 200), (202, 100), (5000, 100)] {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 100);
        outbox.buf = Vec::with_capacity(room);
        let _ = outbox.begin(10);
        outbox.body().push(b'x');
        outbox.rollback();
        assert_eq!((outbox.buf.capacity(), outbox.buf.len()), (kept, 0));
    }
    // Bytes that wait keep the capacity that they need, also above the limit.
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 100);
    outbox.buf = Vec::with_capacity(5000);
    put(&mut outbox, &[b'x'; 999], None);
    let _ = outbox.begin(10);
    outbox.body().push(b'x');
    outbox.rollback();
    assert_eq!(outbox.buf.capacity(), 1000);
}

#[test]
fn what_waits_moves_up_once_more_than_half_has_left() {
    for (taken, head) in [(1, 1), (505, 505), (506, 0), (1009, 0)] {
        let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
        put(&mut outbox, &[b'x'; 1009], None);
        outbox.consume(taken);
        put(&mut outbox, b"behind", None);
        assert_eq!(outbox.head, head, "{taken}");
        assert_eq!(outbox.len(), 1010 - taken + 7);
        assert!(outbox.peek().unwrap().ends_with(b"x\nbehind\n") || taken == 1009);
    }
}

#[test]
fn parts_are_bounded_by_their_bytes_and_in_a_stream_by_those_of_calls() {
    let parts = |framing, bytes, soft| {
        let (buffer, parts) = Outbox::<Config>::max_heap_bytes(framing, bytes, soft);
        assert_eq!(buffer, 2 * bytes);
        parts / (2 * size_of::<Part>())
    };
    // Under `Messages` every message is a part. In a stream only a message with calls is one, and
    // more of them are queued only up to the soft limit.
    assert_eq!(parts(Framing::Messages, 3000, 300), 102);
    assert_eq!(parts(Framing::Messages, 300, 3000), 12);
    for framing in [Framing::Newline, Framing::ContentLength, Framing::Detect] {
        assert_eq!(parts(framing, 3000, 300), 12);
        assert_eq!(parts(framing, 300, 3000), 102);
    }
    // No message is shorter than the bound says.
    let mut conn: crate::Connection =
        crate::Connection::new(Config::new().framing(Framing::Messages));
    conn.notify("m", ()).unwrap();
    assert_eq!(conn.poll_transmit().unwrap().len(), MESSAGE_BYTES_MIN);
}

/// Queues a call that may be joined to the frame before it. Returns what `join_last` returns.
fn join(
    outbox: &mut Outbox<Config>,
    body: &[u8],
    number: u64,
    max_calls: usize,
) -> Option<(u64, u16)> {
    let frame = outbox.begin(body.len());
    outbox.body().extend_from_slice(body);
    outbox.commit(frame, Some(number));
    outbox.join_last(max_calls)
}

fn shown(outbox: &Outbox<Config>) -> &str {
    core::str::from_utf8(outbox.peek().unwrap_or_default()).unwrap()
}

// CLI-25
#[test]
fn calls_that_wait_are_joined_in_every_framing() {
    for (framing, one, two, three) in [
        (Framing::Newline, "{1}\n", "[{1},{2}]\n", "[{1},{2},{3}]\n"),
        (
            Framing::Concatenated,
            "{1}\n",
            "[{1},{2}]\n",
            "[{1},{2},{3}]\n",
        ),
        (Framing::Messages, "{1}", "[{1},{2}]", "[{1},{2},{3}]"),
        (
            Framing::ContentLength,
            "Content-Length: 3\r\n\r\n{1}",
            "Content-Length: 9\r\n\r\n[{1},{2}]",
            "Content-Length: 13\r\n\r\n[{1},{2},{3}]",
        ),
    ] {
        let mut outbox = Outbox::<Config>::new(framing, 1024);
        assert_eq!(join(&mut outbox, b"{1}", 1, 9), None);
        assert_eq!(shown(&outbox), one);
        assert_eq!(join(&mut outbox, b"{2}", 2, 9), Some((1, 2)));
        assert_eq!(shown(&outbox), two);
        assert_eq!(join(&mut outbox, b"{3}", 5, 9), Some((2, 3)));
        assert_eq!(shown(&outbox), three);
        assert_eq!(outbox.queued(), three.len() as u64);
        assert!(outbox.ends_in_calls());
        outbox.consume(1);
        assert_eq!(outbox.begun_call(), 5, "they leave together");
        // A batch of which a byte was taken is not changed any more.
        assert_eq!(join(&mut outbox, b"{4}", 6, 9), None);
        assert_eq!(outbox.begun_call(), 5);
        outbox.consume(three.len() - 1);
        assert_eq!(shown(&outbox), one.replace('1', "4").replace(": 4", ": 3"));
    }
}

// CLI-25
#[test]
fn calls_are_joined_up_to_a_number_and_a_size_and_over_nothing() {
    let mut outbox = Outbox::<Config>::new(Framing::Newline, 1024);
    for number in 1..=5 {
        join(&mut outbox, b"{}", number, 2);
    }
    assert_eq!(shown(&outbox), "[{},{}]\n[{},{}]\n{}\n");
    // A batch that the caller made, and a notification: calls do not join either.
    put(&mut outbox, b"[{}]", Some(6));
    join(&mut outbox, b"{7}", 7, 9);
    put(&mut outbox, b"{n}", None);
    join(&mut outbox, b"{8}", 8, 9);
    assert!(shown(&outbox).ends_with("{}\n[{}]\n{7}\n{n}\n{8}\n"));
    outbox.clear();
    assert_eq!(join(&mut outbox, b"{9}", 9, 9), None);
    // With its line feed, and `{9}` with another, the call has exactly the most bytes that are
    // joined.
    let long = [b'x'; super::MAX_JOINED_BYTES as usize - 5];
    assert_eq!(join(&mut outbox, &long, 10, 9), Some((9, 2)));
    assert_eq!(join(&mut outbox, b"{11}", 11, 9), None);
    // Under `Messages` a notification is a part of its own.
    let mut outbox = Outbox::<Config>::new(Framing::Messages, 1024);
    put(&mut outbox, b"{n}", None);
    assert_eq!(join(&mut outbox, b"{1}", 1, 9), None);
    assert_eq!(join(&mut outbox, b"{2}", 2, 9), Some((1, 2)));
    assert_eq!(shown(&outbox), "{n}");
    outbox.consume(3);
    assert_eq!(shown(&outbox), "[{1},{2}]");
    assert_eq!(outbox.fail(), Some((0, 2)));
}

proptest! {
    // CLI-25
    #[test]
    fn whatever_is_joined_every_call_leaves_once_and_in_order(
        framing in 0..3_usize,
        steps in proptest::collection::vec((0..6_u8, 1..300_usize), 0..60),
    ) {
        let framing = [Framing::Newline, Framing::ContentLength, Framing::Messages][framing];
        let mut outbox = Outbox::<Config>::new(framing, 64);
        let (mut number, mut left, mut messages) = (0, Vec::new(), Vec::new());
        let mut expected = Vec::new();
        let mut take = |outbox: &mut Outbox<Config>, n: usize| {
            let bytes = outbox.peek().unwrap_or_default();
            let bytes = bytes[..n.min(bytes.len())].to_vec();
            outbox.consume(bytes.len());
            left.extend_from_slice(&bytes);
            if framing == Framing::Messages && !bytes.is_empty() {
                messages.push(bytes);
            }
        };
        for (step, n) in steps {
            let body = |n: usize, kind| alloc::format!("{{{kind}{}}}", "1".repeat(n)).into_bytes();
            match step {
                0..3 => {
                    number += 1;
                    join(&mut outbox, &body(n, 'c'), number, 4);
                    expected.push(body(n, 'c'));
                }
                3 => {
                    put(&mut outbox, &body(n, 'n'), None);
                    expected.push(body(n, 'n'));
                }
                // Under `Messages` only whole messages are taken.
                _ if framing == Framing::Messages => take(&mut outbox, usize::MAX),
                4 => take(&mut outbox, n),
                _ => take(&mut outbox, usize::MAX),
            }
        }
        while outbox.len() > 0 {
            take(&mut outbox, usize::MAX);
        }
        prop_assert_eq!(outbox.begun_call(), number);
        if framing != Framing::Messages {
            let mut framer = crate::frame::Framer::new(framing, 1 << 20, 100);
            let mut unread = left.as_slice();
            while let Ok(crate::frame::Cut::Frame { body, taken, .. }) = framer.cut(unread, false) {
                messages.push(unread[body].to_vec());
                unread = &unread[taken..];
            }
        }
        let mut found = Vec::new();
        for message in messages {
            let text = core::str::from_utf8(&message).unwrap();
            match text.strip_prefix('[') {
                None => found.push(message),
                Some(batch) => {
                    let entries = batch.strip_suffix(']').unwrap().split(',');
                    let entries: Vec<_> = entries.map(|entry| entry.as_bytes().to_vec()).collect();
                    prop_assert!((2..=4).contains(&entries.len()));
                    let are_calls = entries.iter().all(|entry| entry[1] == b'c');
                    prop_assert!(are_calls);
                    found.extend(entries);
                }
            }
        }
        prop_assert_eq!(found, expected);
    }
}
