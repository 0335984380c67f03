//! Two ends over a wire with a delay, in virtual time.

use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::at;
use super::end::{End, Step};

/// How long a message takes to the other end: a round trip takes twice as long.
const ONE_WAY_MS: u64 = 10;
const ROUND_TRIP_MS: u64 = 2 * ONE_WAY_MS;

/// Two ends, and what is on its way between them: when it arrives, at which end, and its bytes.
struct Pair {
    ends: [End; 2],
    wire: VecDeque<(u64, usize, Vec<u8>)>,
    now: u64,
}

impl Pair {
    fn new() -> Self {
        Self {
            ends: [End::new(), End::new()],
            wire: VecDeque::new(),
            now: 0,
        }
    }

    fn send(&mut self) {
        for from in 0..2 {
            let bytes = self.ends[from].sent();
            if !bytes.is_empty() {
                let arrival = (self.now + ONE_WAY_MS, 1 - from, bytes);
                self.wire.push_back(arrival);
            }
        }
    }

    /// Runs until nothing is on its way any more. Returns how many round trips that took.
    fn run(&mut self) -> u64 {
        let start = self.now;
        self.send();
        while let Some((arrival, to, bytes)) = self.wire.pop_front() {
            self.now = arrival;
            self.ends[to].set_time(at(self.now));
            self.ends[to].receive(&bytes);
            self.send();
        }
        (self.now - start).div_ceil(ROUND_TRIP_MS)
    }
}

fn numbers(count: u64) -> impl Iterator<Item = Step> {
    (0..count).map(|number| Step::Item(number.to_string()))
}

/// How many round trips it takes to call for 1000 items and to read them to the end.
fn trips(window: usize) -> u64 {
    let mut pair = Pair::new();
    pair.ends[0].call_flow("count", 1000, window);
    let trips = pair.run();
    let reader = &pair.ends[0].readers[0];
    let expected: Vec<_> = (0..1000).map(|number: u32| number.to_string()).collect();
    assert_eq!(reader.items, expected);
    assert_eq!(reader.ended.as_deref(), Some("end"));
    for end in &pair.ends {
        assert_eq!((end.conn.calls_open(), end.conn.requests_open()), (0, 0));
        assert_eq!(
            (end.producers.flows_open(), end.consumers.flows_open()),
            (0, 0)
        );
    }
    trips
}

// FLO-10
#[test]
fn a_thousand_items_take_thirty_four_round_trips_with_a_window_of_thirty_two() {
    let trips = trips(32);
    assert!((33..=34).contains(&trips), "{trips} round trips");
}

// FLO-06 FLO-10
#[test]
fn a_thousand_items_take_a_round_trip_each_with_a_window_of_one() {
    assert_eq!(trips(1), 1002);
}

// FLO-12
#[test]
fn sixty_four_pulls_that_wait_hold_up_no_plain_call() {
    let mut pair = Pair::new();
    for _ in 0..64 {
        pair.ends[0].call_flow("silent", 0, 1);
    }
    pair.run();
    assert_eq!(pair.ends[1].conn.requests_open(), 64);
    pair.ends[0].call("ping");
    assert_eq!(pair.run(), 1);
    assert_eq!(pair.ends[0].outcomes, ["\"pong\""]);
    assert_eq!(pair.ends[1].conn.requests_open(), 64);
}

// FLO-09 FLO-12
#[test]
fn both_ends_at_their_limits_read_all_their_flows_to_the_end() {
    let mut pair = Pair::new();
    for end in &mut pair.ends {
        for _ in 0..64 {
            end.call_flow("count", 40, 32);
        }
        // One flow more than the peer may open.
        end.call_flow("count", 40, 32);
    }
    pair.run();
    for end in &pair.ends {
        assert_eq!(end.outcomes, ["the error Server busy (-32002)"]);
        assert_eq!(end.readers.len(), 64);
        for reader in &end.readers {
            assert_eq!(reader.items.len(), 40);
            assert_eq!(reader.ended.as_deref(), Some("end"));
        }
        assert_eq!((end.conn.calls_open(), end.conn.requests_open()), (0, 0));
        assert_eq!(
            (end.producers.flows_open(), end.consumers.flows_open()),
            (0, 0)
        );
    }
}

// FLO-03 FLO-09
#[test]
fn both_ends_produce_flow_one_and_each_reads_the_other_ones() {
    let mut pair = Pair::new();
    pair.ends[0].call_with_flow("sum", numbers(5));
    pair.ends[1].call_with_flow("sum", numbers(11));
    pair.ends[0].call_flow("nulls", 2, 1);
    pair.run();
    assert_eq!(pair.ends[0].outcomes, ["\"10 end\""]);
    assert_eq!(pair.ends[1].outcomes, ["\"55 end\""]);
    assert_eq!(pair.ends[0].readers[1].items, ["null", "null"]);
    for end in &pair.ends {
        assert_eq!(
            (end.producers.flows_open(), end.consumers.flows_open()),
            (0, 0)
        );
        assert!(end.sources.is_empty());
    }
}

// FLO-07 FLO-09
#[test]
fn a_failure_reaches_the_reader_behind_the_items_before_it() {
    let mut pair = Pair::new();
    pair.ends[0].call_flow("broken", 5, 3);
    pair.ends[1].call_with_flow("sum", numbers(3).chain([Step::Fail(-32001)]));
    pair.run();
    // The first reader of this end is the one that sums.
    let reader = &pair.ends[0].readers[1];
    assert_eq!(reader.items, ["0", "1", "2", "3", "4"]);
    let why = "the flow failed: broken (-32010)";
    assert_eq!(reader.ended.as_deref(), Some(why));
    // The code of an end in order is replaced, so the sum is not taken for a whole one.
    let sum = "\"3 the flow failed: broken (-32000)\"";
    assert_eq!(pair.ends[1].outcomes, [sum]);
}

// FLO-08
#[test]
fn a_reader_that_stops_in_mid_window_leaves_nothing_open_on_either_side() {
    for (method, wants, window) in [("count", 5, 4), ("silent", 2, 8), ("count", 0, 3)] {
        let mut pair = Pair::new();
        pair.ends[0].wants = wants;
        pair.ends[0].call_flow(method, 2 * wants, window);
        pair.run();
        let reader = &pair.ends[0].readers[0];
        assert_eq!(reader.items.len(), wants);
        assert_eq!(reader.ended.as_deref(), Some("stopped"));
        for end in &pair.ends {
            assert_eq!((end.conn.calls_open(), end.conn.requests_open()), (0, 0));
            assert_eq!(
                (end.producers.flows_open(), end.consumers.flows_open()),
                (0, 0)
            );
            assert_eq!(end.conn.unmatched_responses(), 0);
        }
        assert!(pair.ends[1].sources.is_empty());
    }
}

// FLO-13
#[test]
fn a_shutdown_ends_all_pulls_that_wait_at_once() {
    let mut pair = Pair::new();
    for _ in 0..64 {
        pair.ends[0].call_flow("silent", 0, 16);
    }
    pair.run();
    assert!(pair.ends[1].conn.requests_open() > 400);
    pair.ends[1].producers.close_all();
    pair.ends[1].turn();
    assert_eq!(pair.ends[1].conn.requests_open(), 0);
    pair.run();
    let why = "the flow failed: Flow closed (-32000)";
    for reader in &pair.ends[0].readers {
        assert_eq!(reader.ended.as_deref(), Some(why));
    }
    assert_eq!(pair.ends[0].conn.calls_open(), 0);
}
