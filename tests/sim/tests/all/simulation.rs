//! The tests of the simulator in CI: thousands of seeds, the same run for the same seed, the same
//! run however its input is split, and every check seen failing.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_sim::checks::Check;
use antiphon_sim::counts::{Counts, SEEDS_ENFORCED};
use antiphon_sim::healing::LIVENESS_NANOS;
use antiphon_sim::plant::Plant;
use antiphon_sim::run::{Report, command, run};
use antiphon_sim::runner::{Checking, Planted};
use antiphon_sim::world::{ConnectionConfig, Split};

const SEEDS: u64 = 2 * SEEDS_ENFORCED;
/// So many seeds are run with their input in pieces, whole and byte by byte.
const SEEDS_SPLIT: u64 = 600;
/// So many seeds at most until a planted fault is found.
const SEEDS_PLANTED: u64 = 400;

// ARC-04 ARC-06 ARC-07 ARC-11 MSG-06 MSG-20 CLI-07 CLI-08 CLI-09 CLI-28 SRV-26 CAN-05 TST-05 TST-21
#[test]
fn thousands_of_seeds_hold_every_invariant_and_meet_everything() {
    let next = AtomicU64::new(0);
    let reports: Mutex<Vec<Report>> = Mutex::new(Vec::new());
    let failures: Mutex<Vec<String>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    match run(seed, ConnectionConfig::default()) {
                        Ok(report) => reports.lock().unwrap().push(report),
                        Err(failure) => failures.lock().unwrap().push(format!(
                            "seed {seed}, step {}: {}\n    {}",
                            failure.step,
                            failure.broken,
                            command(seed, ConnectionConfig::default())
                        )),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let reports = reports.into_inner().unwrap();
    let mut counts = Counts::default();
    reports
        .iter()
        .for_each(|report| counts.merge(&report.counts));
    counts.print(|line| println!("{line}"));
    let steps: u64 = reports.iter().map(|report| report.steps).sum();
    let slowest = reports.iter().map(|report| report.liveness).max().unwrap();
    let average = steps / SEEDS;
    println!("{SEEDS} seeds, {steps} steps, {average} a seed");
    println!(
        "liveness: within {} ms of virtual time; the bound is {} ms",
        slowest / 1_000_000,
        LIVENESS_NANOS / 1_000_000
    );
    assert!(average >= 300, "{average} steps in the average seed");
    assert_eq!(counts.zeros(), Vec::<&str>::new(), "never occurred");
    assert_eq!(counts.unnamed(), Vec::<&str>::new(), "not in the catalogue");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 0..100 {
        let first = run(seed, ConnectionConfig::default()).unwrap();
        let second = run(seed, ConnectionConfig::default()).unwrap();
        assert_eq!(first, second, "seed {seed}");
    }
}

// ARC-06 TST-05
#[test]
fn however_the_input_is_split_the_run_is_the_same() {
    let options = ConnectionConfig {
        split: Split::Each,
        ..ConnectionConfig::default()
    };
    for seed in 0..SEEDS_SPLIT {
        run(seed, options).unwrap_or_else(|failure| panic!("seed {seed}: {}", failure.broken));
    }
}

/// How many seeds it took until a planted fault broke its check, and what broke before.
fn find(plant: Plant) -> (Option<u64>, BTreeMap<Check, u64>) {
    let options = ConnectionConfig {
        plant: Some(plant),
        split: match plant {
            Plant::SplitMinded => Split::Each,
            _ => Split::Chance,
        },
        ..ConnectionConfig::default()
    };
    let mut others = BTreeMap::new();
    for seed in 0..SEEDS_PLANTED {
        let found = match plant {
            Plant::Leftover => {
                let twice = [run(seed, options), run(seed, options)];
                let [Ok(first), Ok(second)] = twice else {
                    continue;
                };
                (first != second).then_some(Check::Deterministic)
            }
            _ => run(seed, options).err().map(|failure| failure.broken.check),
        };
        match found {
            Some(check) if check == plant.check() => return (Some(seed + 1), others),
            Some(check) => *others.entry(check).or_default() += 1,
            None => {}
        }
    }
    (None, others)
}

#[test]
fn every_check_is_seen_failing() {
    let mut missed = Vec::new();
    for plant in Plant::ALL {
        let (seeds, others) = find(*plant);
        println!(
            "{plant:?}: {:?} after {seeds:?} seeds; before it {others:?}",
            plant.check()
        );
        if seeds.is_none() {
            missed.push(plant);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
    let all_planted = |check: &Check| Plant::ALL.iter().any(|plant| plant.check() == *check);
    assert!(
        Check::ALL.iter().all(all_planted),
        "a check without a plant"
    );
}
