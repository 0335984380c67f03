//! The tests of the simulator with streams in CI: thousands of seeds, the same run for the same
//! seed, and every check seen failing.

use antiphon_sim::streams::Streams;

use crate::shared::{all_hold, every_check_is_seen_failing, same_runs};

// TST-10 TST-12 ARC-18 SEC-14
#[test]
fn thousands_of_seeds_hold_every_invariant_of_streams_and_meet_everything() {
    all_hold::<Streams>(150);
}

#[test]
fn the_same_seed_gives_the_same_streams() {
    same_runs::<Streams>();
}

#[test]
fn every_check_of_streams_is_seen_failing() {
    every_check_is_seen_failing::<Streams>();
}
