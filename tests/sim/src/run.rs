//! Runs one seed, and makes a failing run smaller.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::checks::{Broken, Check};
use crate::counts::Counts;
use crate::plant::Plant;
use crate::world::{ConnectionConfig, Split, World};

/// What a run has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Steps taken in both phases.
    pub steps: u64,
    /// Calls that settled.
    pub settled: u64,
    /// What occurred.
    pub counts: Counts,
    /// A hash of everything that happened.
    pub hash: u64,
    /// How long settling took after healing, in nanoseconds of virtual time.
    pub liveness: u64,
}

/// A run that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The step at which it broke.
    pub step: u64,
    /// What broke.
    pub broken: Broken,
}

thread_local! {
    /// How often `Plant::Leftover` has run on this thread: that is what it lets a run depend on.
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static STEP: Cell<u64> = const { Cell::new(0) };
}

/// Notes how far the run of this thread is, so that a panic is reported with its step.
pub(crate) fn at_step(steps: u64) {
    STEP.with(|step| step.set(steps));
}

/// Runs one seed.
///
/// # Errors
/// The invariant that broke, and where.
pub fn run(seed: u64, options: ConnectionConfig) -> Result<Report, Failure> {
    if options.split == Split::Each {
        return run_each(seed, options);
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, options);
        if options.plant == Some(Plant::Leftover) {
            world.now += RUNS.with(|runs| runs.replace(runs.get() + 1));
        }
        let result = world.safety().and_then(|()| world.liveness());
        result.map(|liveness| Report {
            steps: world.steps,
            settled: world.settled,
            hash: world.trace.hash(),
            counts: world.counts,
            liveness,
        })
    }));
    let broken = match outcome {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            Check::NoPanic.broken(text.unwrap_or_else(|| "a panic without words".into()))
        }
    };
    let step = STEP.with(Cell::get);
    Err(Failure { seed, step, broken })
}

/// Runs a seed with its input in pieces, whole and byte by byte: the three runs must be the same.
fn run_each(seed: u64, options: ConnectionConfig) -> Result<Report, Failure> {
    let split = |split| run(seed, ConnectionConfig { split, ..options });
    let pieces = split(Split::Pieces)?;
    for other in [Split::Whole, Split::Bytes] {
        let report = split(other)?;
        let same = Check::SplitInvariance.that(report.hash == pieces.hash, || {
            format!("{other:?} is another run than {:?}", Split::Pieces)
        });
        same.map_err(|broken| Failure {
            seed,
            step: report.steps,
            broken,
        })?;
    }
    Ok(pieces)
}

/// Makes a failing run small: fewer steps, fewer kinds of action, the same check broken.
pub fn shrink(failure: &Failure, options: ConnectionConfig) -> (ConnectionConfig, Failure) {
    let (mut best, mut least) = (options, failure.clone());
    let attempt =
        |candidate: ConnectionConfig, best: &mut ConnectionConfig, least: &mut Failure| {
            if let Err(found) = run(failure.seed, candidate) {
                if found.broken.check == failure.broken.check {
                    (*best, *least) = (candidate, found);
                    return true;
                }
            }
            false
        };
    // One bit for each of the `ACTIONS` in `steps`.
    for bit in 0..24 {
        let mut candidate = best;
        candidate.without |= 1 << bit;
        attempt(candidate, &mut best, &mut least);
    }
    let (mut low, mut high) = (0, least.step);
    while low < high {
        let mut candidate = best;
        let middle = low + (high - low) / 2;
        candidate.steps = Some(middle);
        match attempt(candidate, &mut best, &mut least) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    (best, least)
}

/// The command that runs a seed again with these options.
pub fn command(seed: u64, options: ConnectionConfig) -> String {
    let mut command = format!("cargo run --release -p antiphon-sim -- --seed {seed}");
    if let Some(steps) = options.steps {
        command += &format!(" --steps {steps}");
    }
    if options.without != 0 {
        command += &format!(" --without {:#x}", options.without);
    }
    if options.split != Split::Chance {
        command += &format!(" --split {:?}", options.split);
    }
    if let Some(plant) = options.plant {
        command += &format!(" --plant {plant:?}");
    }
    command + " --trace"
}
