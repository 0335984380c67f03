//! The simulator over streams: a server with a hub and its clients, each with a simple shell around
//! the machines for topics, subscriptions and flows, a seeded network between them, and virtual time.
//!
//! `end` is one end of a link: `server` and `client` are what it does with topics and subscriptions,
//! `flowing` and `producing` what both ends do with flows. `world` has the links and the steps,
//! `network` what happens on the links, `hostile` what is put in, `healing` the liveness phase. `hub`
//! and `wire_book` are the oracle, with parts of `client` and `flowing`; `checks` names what it checks,
//! `counts` says what has occurred, and `plant` has faults that the oracle has to find.

mod checks;
mod client;
mod counts;
mod end;
mod flowing;
mod healing;
mod hostile;
mod hub;
mod network;
mod plant;
mod producing;
mod server;
mod settings;
mod wire_book;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use checks::{Broken, Check};
pub use counts::{CATALOGUE, Counts, Tally};
pub use healing::BOUND_NANOS;
pub use plant::Plant;
use world::{KINDS, World};

/// From this many seeds on, something that never occurred fails the run.
pub const SEEDS_ENFORCED: u64 = 2000;

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionConfig {
    /// So many steps instead of as many as the seed says.
    pub steps: Option<u64>,
    /// Kinds of step that are left out: bit n is the n-th of the `KINDS` in `world`.
    pub without: u64,
    /// A planted fault.
    pub plant: Option<Plant>,
    /// Whether each step is printed.
    pub trace: bool,
}

/// What a run has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Steps before healing.
    pub steps: u64,
    /// What occurred.
    pub counts: Counts,
    /// A hash of everything that happened.
    pub hash: u64,
    /// How long it took until all had settled, in nanoseconds of virtual time.
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
    /// How late the next run of `Plant::Leftover` on this thread starts, in nanoseconds.
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static STEP: Cell<u64> = const { Cell::new(0) };
}

fn at_step(steps: u64) {
    STEP.with(|step| step.set(steps));
}

/// Runs one seed.
///
/// # Errors
/// The invariant that broke, and where.
pub fn run(seed: u64, options: ConnectionConfig) -> Result<Report, Failure> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, options);
        let result = world.safety().and_then(|()| world.liveness());
        result.map(|liveness| {
            world.trace.mix(world.now);
            Report {
                steps: world.steps,
                counts: world.counts,
                hash: world.trace.hash(),
                liveness,
            }
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

/// Makes a failing run small: fewer kinds of step, fewer steps, the same check broken.
pub fn shrink(failure: &Failure, options: ConnectionConfig) -> (ConnectionConfig, Failure) {
    let (mut best, mut least) = (options, failure.clone());
    let mut attempt = |candidate: ConnectionConfig, best: &mut ConnectionConfig| match run(
        failure.seed,
        candidate,
    ) {
        Err(found) if found.broken.check == failure.broken.check => {
            (*best, least) = (candidate, found);
            true
        }
        _ => false,
    };
    for bit in 0..KINDS.len() {
        let mut candidate = best;
        candidate.without |= 1 << bit;
        attempt(candidate, &mut best);
    }
    let (mut low, mut high) = (0, failure.step);
    while low < high {
        let middle = low + (high - low) / 2;
        let candidate = ConnectionConfig {
            steps: Some(middle),
            ..best
        };
        match attempt(candidate, &mut best) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    (best, least)
}

/// The command that runs a seed again with these options.
pub fn command(seed: u64, options: ConnectionConfig) -> String {
    let mut command = format!("cargo run --release -p antiphon-sim -- --streams --seed {seed}");
    if let Some(steps) = options.steps {
        command += &format!(" --steps {steps}");
    }
    if options.without != 0 {
        command += &format!(" --without {:#x}", options.without);
    }
    if let Some(plant) = options.plant {
        command += &format!(" --plant {plant:?}");
    }
    command + " --trace"
}
