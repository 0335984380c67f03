//! The tests of the simulator with sessions in CI: thousands of seeds, the same run for the same
//! seed, and every check seen failing.

use antiphon_sim::sessions::Sessions;

use crate::shared::{all_hold, every_check_is_seen_failing, same_runs};

#[test]
fn thousands_of_seeds_hold_every_invariant_of_sessions_and_meet_everything() {
    all_hold::<Sessions>(120);
}

#[test]
fn the_same_seed_gives_the_same_sessions() {
    same_runs::<Sessions>();
}

#[test]
fn every_check_of_sessions_is_seen_failing() {
    every_check_is_seen_failing::<Sessions>();
}
