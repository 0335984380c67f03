use alloc::vec::Vec;

use super::{Member, Scheduler};

// SRV-23
#[test]
fn no_more_run_than_may_and_no_connection_takes_all_that_is_free() {
    let mut scheduler = Scheduler::new(64);
    let (mut one, mut other) = (scheduler.join(), scheduler.join());
    assert_eq!(scheduler.begin(&mut one, 1000, || ()), 32);
    assert_eq!(scheduler.begin(&mut other, 1000, || ()), 16);
    assert_eq!(scheduler.begin(&mut one, 3, || ()), 3);
    let mut running = 51;
    while running < 64 {
        running += scheduler.begin(&mut one, 1000, || ());
    }
    assert_eq!((running, scheduler.running()), (64, 64));
    assert_eq!(scheduler.begin(&mut one, 1, || ()), 0);
    assert!(one.is_in_line() && !other.is_in_line());
}

// SRV-23 SEC-14
#[test]
fn those_in_line_take_turns() {
    let mut scheduler = Scheduler::new(1);
    let mut members = [scheduler.join(), scheduler.join(), scheduler.join()];
    assert_eq!(scheduler.begin(&mut members[0], 9, || 0), 1);
    for (number, member) in members.iter_mut().enumerate() {
        assert_eq!(scheduler.begin(member, 9, || number), 0);
    }
    let mut order = Vec::new();
    for _ in 0..9 {
        let mut called = Vec::new();
        scheduler.end(1, &mut called);
        let [next] = called[..] else {
            panic!("{called:?}");
        };
        // A connection that was not called gets no permit, however often it asks.
        assert_eq!(scheduler.begin(&mut members[(next + 1) % 3], 9, || 9), 0);
        assert_eq!(scheduler.begin(&mut members[next], 9, || 9), 1);
        assert_eq!(scheduler.begin(&mut members[next], 9, || next), 0);
        order.push(next);
    }
    assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
}

// SRV-23
#[test]
fn a_permit_that_is_not_taken_goes_to_the_next() {
    let mut scheduler = Scheduler::new(1);
    let mut members: Vec<Member> = (0..4).map(|_| scheduler.join()).collect();
    for (number, member) in members.iter_mut().enumerate() {
        scheduler.begin(member, 1, || number);
    }
    let mut called = Vec::new();
    // Connection 0 has the permit, and the others are in line. Connection 1 leaves. Connection 2 is
    // called, and steps out instead of taking its permit, which then goes to connection 3.
    scheduler.step_out(&mut members.remove(1), &mut called);
    scheduler.end(1, &mut called);
    assert_eq!(called, [2]);
    scheduler.step_out(&mut members[1], &mut called);
    assert_eq!(called, [2, 3]);
    assert_eq!(scheduler.begin(&mut members[2], 1, || 3), 1);
    scheduler.end(1, &mut called);
    assert_eq!((scheduler.running(), called.len()), (0, 2));
    // A connection that has stepped out may begin again.
    assert_eq!(scheduler.begin(&mut members[1], 1, || 2), 1);
}

/// Simulates requests of two connections over 1000 steps; each request runs for ten steps. The second
/// connection has a new request every seven steps, the first always has `flood` that wait. Returns
/// how many steps each request of the second took from its arrival to its end, sorted.
fn durations(flood: usize) -> Vec<usize> {
    // How many steps a request runs.
    const RUNS: usize = 10;
    let mut scheduler = Scheduler::new(64);
    let mut members = [scheduler.join(), scheduler.join()];
    let mut waiting = [Vec::new(), Vec::new()];
    let mut running: Vec<(usize, usize, usize)> = Vec::new();
    let mut durations = Vec::new();
    for now in 0..1000 {
        let ended: Vec<_> = running
            .extract_if(.., |(_, _, ends)| *ends == now)
            .collect();
        for (side, began, _) in &ended {
            if *side == 1 {
                durations.push(now - began);
            }
        }
        scheduler.end(ended.len(), &mut Vec::new());
        while waiting[0].len() < flood {
            waiting[0].push(now);
        }
        if now % 7 == 0 {
            waiting[1].push(now);
        }
        // The flooding connection asks first, and again until neither connection gets a permit.
        let mut idle = 0;
        for side in [0, 1].into_iter().cycle() {
            let wanted = waiting[side].len();
            let permits = match wanted {
                0 => 0,
                _ => scheduler.begin(&mut members[side], wanted, || ()),
            };
            for came in waiting[side].drain(..permits) {
                running.push((side, came, now + RUNS));
            }
            idle = if permits == 0 { idle + 1 } else { 0 };
            if idle == 2 {
                break;
            }
        }
        assert!(running.len() <= 64);
    }
    durations.sort_unstable();
    durations
}

// TST-11 SEC-14
#[test]
fn a_flood_leaves_others_below_twice_their_quiet_time() {
    let p99 = |durations: Vec<usize>| durations[durations.len() * 99 / 100];
    let (quiet, flooded) = (p99(durations(0)), p99(durations(5000)));
    assert_eq!(quiet, 10);
    assert!(flooded < 2 * quiet, "{flooded}");
}

// SRV-23 USE-22
#[test]
fn what_goes_on_without_a_permit_counts_and_gives_none_away() {
    let mut scheduler = Scheduler::new(1);
    let (mut one, mut other) = (scheduler.join(), scheduler.join());
    assert_eq!(scheduler.begin(&mut one, 1, || 1), 1);
    // The request's permit will be given back while its handler goes on.
    scheduler.exceed();
    assert_eq!(scheduler.running(), 2);
    assert_eq!(scheduler.begin(&mut other, 1, || 2), 0);
    let mut called = Vec::new();
    scheduler.end(1, &mut called);
    assert_eq!((scheduler.running(), &called[..]), (1, &[][..]));
    scheduler.end(1, &mut called);
    assert_eq!((scheduler.running(), &called[..]), (1, &[2][..]));
    assert_eq!(scheduler.begin(&mut other, 1, || 2), 1);
}

// SRV-22
#[test]
fn permits_that_come_back_before_they_are_taken_are_counted_once() {
    let mut scheduler = Scheduler::new(1);
    let (mut one, mut other, mut called) = (scheduler.join(), scheduler.join(), Vec::new());
    assert_eq!(scheduler.begin(&mut one, 1, || 1), 1);
    // Its handler waits for its peer, and then its connection ends.
    scheduler.end(1, &mut called);
    scheduler.end(1, &mut called);
    assert_eq!((scheduler.running(), scheduler.is_ahead()), (0, true));
    assert_eq!(scheduler.begin(&mut other, 1, || 2), 1);
    // Its handler goes on, and its connection has given its permit back already.
    scheduler.exceed();
    assert_eq!((scheduler.running(), scheduler.is_ahead()), (1, false));
    scheduler.exceed();
    assert_eq!(scheduler.running(), 2);
}
