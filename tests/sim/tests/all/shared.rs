//! What the tests of sessions, streams and durable subscriptions have in common.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use antiphon_sim::runner::{
    Checking, Counts, Options, Planted, Report, SEEDS_ENFORCED, Simulation, command, run,
};

/// So many seeds at most until a planted fault is found.
const SEEDS_PLANTED: u64 = 400;

type CheckOf<S> = <<S as Simulation>::Plant as Planted>::Check;

/// Thousands of seeds hold every invariant, and everything of the catalogue occurs. Fewer steps than `steps_min` in the
/// average seed prove too little.
pub(crate) fn all_hold<S: Simulation>(steps_min: u64) {
    let next = AtomicU64::new(0);
    let reports: Mutex<Vec<Report<S::Tally>>> = Mutex::new(Vec::new());
    let failures: Mutex<Vec<String>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS_ENFORCED {
                        return;
                    }
                    match run::<S>(seed, Options::default()) {
                        Ok(report) => reports.lock().unwrap().push(report),
                        Err(failure) => failures.lock().unwrap().push(format!(
                            "seed {seed}, step {}: {}\n    {}",
                            failure.step,
                            failure.broken,
                            command::<S>(seed, Options::default())
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
    let slowest = |which: usize| reports.iter().map(|report| report.liveness[which]).max();
    let [settled, ended] = [0, 1].map(|which| slowest(which).unwrap() / 1_000_000);
    println!(
        "{SEEDS_ENFORCED} seeds, {steps} steps; all settled within {settled} ms of virtual time, and ended \
         within {ended} ms; the bound is {} ms",
        S::BOUND_NANOS / 1_000_000
    );
    assert!(steps / SEEDS_ENFORCED >= steps_min, "{steps} steps");
    assert_eq!(counts.zeros(), Vec::<&str>::new(), "never occurred");
}

/// A seed gives equal runs.
pub(crate) fn same_runs<S: Simulation>() {
    for seed in 0..100 {
        let [first, second] = [(); 2].map(|()| run::<S>(seed, Options::default()).unwrap());
        assert_eq!(first, second, "seed {seed}");
    }
}

/// How many seeds it took until a planted fault broke its check, and what broke before.
fn find<S: Simulation>(plant: S::Plant) -> (Option<u64>, BTreeMap<CheckOf<S>, u64>) {
    let options = Options {
        plant: Some(plant),
        ..Options::default()
    };
    let mut others = BTreeMap::new();
    for seed in 0..SEEDS_PLANTED {
        let found = if plant.check() == Checking::DETERMINISTIC {
            let twice = [run::<S>(seed, options), run::<S>(seed, options)];
            let [Ok(first), Ok(second)] = twice else {
                continue;
            };
            (first != second).then_some(plant.check())
        } else {
            let failure = run::<S>(seed, options).err();
            failure.map(|failure| failure.broken.check)
        };
        match found {
            Some(check) if check == plant.check() => return (Some(seed + 1), others),
            Some(check) => *others.entry(check).or_default() += 1,
            None => {}
        }
    }
    (None, others)
}

/// Each planted fault breaks its check, and each check has one.
pub(crate) fn every_check_is_seen_failing<S: Simulation>() {
    let mut missed = Vec::new();
    let all = S::Plant::ALL;
    for plant in all {
        let (seeds, others) = find::<S>(*plant);
        println!(
            "{plant:?}: {:?} after {seeds:?} seeds; before it {others:?}",
            plant.check()
        );
        if seeds.is_none() {
            missed.push(plant);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
    let is_planted = |check: &CheckOf<S>| all.iter().any(|plant| plant.check() == *check);
    let mut checks = <CheckOf<S> as Checking>::ALL.iter();
    assert!(checks.all(is_planted), "a check without a plant");
}
