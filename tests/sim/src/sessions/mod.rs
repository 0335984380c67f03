//! The simulator over sessions: pairs and stars of [`Session`](antiphon::session::Session)s, each
//! with a shell around it, a seeded network between them, and virtual time.
//!
//! `side` is one session with its shell: `talking` is what it says, reads and writes, `serving` what
//! its handlers do. `world` has the links and what happens on them, `ending` the liveness phase.
//! `settings`, `pipe` and `layer` are what a link is made of. `book` and `checks` are the oracle,
//! `counts` says what has occurred, and `plant` has faults that the oracle has to find.

mod book;
mod checks;
mod counts;
mod ending;
mod layer;
pub(crate) mod pipe;
mod plant;
mod serving;
mod settings;
mod side;
mod talking;
mod world;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use checks::{Broken, Check};
pub use counts::{CATALOGUE, Counts};
pub use ending::BOUND_NANOS;
pub use plant::Plant;
use world::World;

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
    /// How long settling and ending took, in nanoseconds of virtual time.
    pub liveness: [u64; 2],
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
        if options.plant == Some(Plant::Leftover) {
            world.now += RUNS.with(|runs| runs.replace(runs.get() + 1_000_000));
        }
        let result = world.safety().and_then(|()| world.liveness());
        result.map(|liveness| {
            let mut counts = world.counts;
            let sides = world.links.iter().flat_map(|link| &link.sides);
            sides.for_each(|side| counts.merge(&side.counts));
            world.trace.mix(world.now);
            Report {
                steps: world.steps,
                counts,
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
    // One bit for each of the `KINDS` in `world`.
    for bit in 0..16 {
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
    let mut command = format!("cargo run --release -p antiphon-sim -- --sessions --seed {seed}");
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
