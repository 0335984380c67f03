//! The tests of the simulator with durable subscriptions in CI: thousands of seeds, the same run for the same seed, and
//! every check seen failing.

use antiphon_sim::durable::DurableSubscriptions;

use crate::shared::{all_hold, every_check_is_seen_failing, same_runs};

// TST-12 TST-18 PER-03 PER-04 PER-05 PER-06 PER-08 PER-09 PER-11 PER-12 PER-17 PER-20
#[test]
fn thousands_of_seeds_hold_every_invariant_of_durable_subscriptions_and_meet_everything() {
    all_hold::<DurableSubscriptions>(200);
}

#[test]
fn the_same_seed_gives_the_same_durable_subscriptions() {
    same_runs::<DurableSubscriptions>();
}

// TST-18
#[test]
fn every_check_of_durable_subscriptions_is_seen_failing() {
    every_check_is_seen_failing::<DurableSubscriptions>();
}
