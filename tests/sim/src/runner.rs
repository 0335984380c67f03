//! What the simulators of sessions, streams and durable topics have in common: how a seed is run, what is reported of
//! it, and how a failing run is made smaller.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A simulator whose runs follow from seeds.
pub trait Simulation {
    /// The argument that selects it.
    const FLAG: &'static str;
    /// How many kinds of step there are.
    const KINDS: usize;
    /// How long settling may take, in nanoseconds of virtual time.
    const BOUND_NANOS: u64;
    /// The faults that can be planted.
    type Plant: Planted;
    /// What is counted besides the catalogue.
    type Tally: Tally;

    /// Plays a seed.
    ///
    /// # Errors
    /// The invariant that broke.
    fn play(
        seed: u64,
        options: Options<Self::Plant>,
    ) -> Result<Report<Self::Tally>, Broken<<Self::Plant as Planted>::Check>>;
}

/// A planted fault, as the macro `plants!` declares it.
pub trait Planted: Copy + Eq + fmt::Debug + Send + Sync + 'static {
    /// The invariants.
    type Check: Checking;
    /// All of them.
    const ALL: &'static [Self];
    /// The check that has to find it.
    fn check(self) -> Self::Check;

    /// The fault of that name.
    fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|plant| format!("{plant:?}") == name)
    }
}

/// An invariant, as the macro `checks!` declares it.
pub trait Checking: Copy + Ord + fmt::Debug + Send + 'static {
    /// All of them.
    const ALL: &'static [Self];
    /// A seed that is played twice gives two equal runs.
    const DETERMINISTIC: Self;
    /// Nothing panics.
    const NO_PANIC: Self;
}

/// Declares invariants.
macro_rules! checks {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One invariant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Check {
            $($(#[$doc])* $name,)*
            /// A seed that is played twice gives two equal runs.
            Deterministic,
            /// Nothing panics.
            NoPanic,
        }

        impl $crate::runner::Checking for Check {
            const ALL: &'static [Self] = &[$(Self::$name,)* Self::Deterministic, Self::NoPanic];
            const DETERMINISTIC: Self = Self::Deterministic;
            const NO_PANIC: Self = Self::NoPanic;
        }

        impl Check {
            pub(super) fn broken(self, why: impl Into<String>) -> Broken {
                let why = why.into();
                Broken { check: self, why }
            }

            pub(super) fn that(self, holds: bool, why: impl FnOnce() -> String) -> Checked {
                match holds {
                    true => Ok(()),
                    false => Err(self.broken(why())),
                }
            }
        }

        pub(super) type Broken = $crate::runner::Broken<Check>;
        pub(super) type Checked = Result<(), Broken>;
    };
}
pub(crate) use checks;

/// From this many seeds on, something that never occurred fails the run.
pub const SEEDS_ENFORCED: u64 = 2000;

/// How a seed is run.
#[derive(Clone, Copy, Debug)]
pub struct Options<P> {
    /// So many steps instead of as many as the seed says.
    pub steps: Option<u64>,
    /// Kinds of step that are left out: bit n is the n-th of the `KINDS` in `world`.
    pub without: u64,
    /// A planted fault.
    pub plant: Option<P>,
    /// Whether each step is printed.
    pub trace: bool,
}

impl<P> Default for Options<P> {
    fn default() -> Self {
        Self {
            steps: None,
            without: 0,
            plant: None,
            trace: false,
        }
    }
}

/// What a run has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report<T> {
    /// Steps before healing.
    pub steps: u64,
    /// What occurred.
    pub counts: Counts<T>,
    /// A hash of everything that happened.
    pub hash: u64,
    /// How long settling took, and then ending, if that is checked, in nanoseconds of virtual time.
    pub liveness: [u64; 2],
}

/// An invariant that did not hold.
#[derive(Clone, Debug)]
pub struct Broken<C> {
    /// Which.
    pub check: C,
    /// What was seen.
    pub why: String,
}

impl<C: fmt::Debug> fmt::Display for Broken<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.why)
    }
}

/// A run that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure<C> {
    /// The seed.
    pub seed: u64,
    /// The step at which it broke.
    pub step: u64,
    /// What broke.
    pub broken: Broken<C>,
}

/// How much was checked, as numbers.
pub trait Tally: Copy + Default + Eq + fmt::Debug + Send {
    /// Everything that is counted by its name.
    const CATALOGUE: &'static [&'static str];
    /// Adds what another run has counted.
    fn add(&mut self, other: &Self);
    /// It as a line.
    fn line(&self) -> Option<String>;
}

/// How often each of a catalogue has occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts<T> {
    seen: BTreeMap<&'static str, u64>,
    /// How much was checked.
    pub tally: T,
}

impl<T: Tally> Counts<T> {
    pub(crate) fn add(&mut self, name: &'static str) {
        debug_assert!(
            T::CATALOGUE.contains(&name),
            "{name} is not in the catalogue"
        );
        *self.seen.entry(name).or_default() += 1;
    }

    /// Adds what another run has counted.
    pub fn merge(&mut self, other: &Self) {
        for (name, count) in &other.seen {
            *self.seen.entry(name).or_default() += count;
        }
        self.tally.add(&other.tally);
    }

    /// What never occurred.
    pub fn zeros(&self) -> Vec<&'static str> {
        let never = |name: &&&str| !self.seen.contains_key(**name);
        T::CATALOGUE.iter().filter(never).copied().collect()
    }

    /// All of it, one line each.
    pub fn print(&self, mut line: impl FnMut(String)) {
        for name in T::CATALOGUE {
            let count = self.seen.get(name).copied().unwrap_or_default();
            line(format!("{count:>12}  {name}"));
        }
        self.tally.line().into_iter().for_each(line);
    }
}

thread_local! {
    /// How late the next run with a planted dependence on earlier runs starts, in nanoseconds.
    static RUNS: Cell<u64> = const { Cell::new(0) };
    static STEP: Cell<u64> = const { Cell::new(0) };
}

/// Notes how far the run of this thread is, so that a panic is reported with its step.
pub(crate) fn at_step(steps: u64) {
    STEP.with(|step| step.set(steps));
}

/// What differs from one run to the next on a thread, for a planted fault: nanoseconds.
pub(crate) fn leftover() -> u64 {
    RUNS.with(|runs| runs.replace(runs.get() + 1_000_000))
}

/// Runs one seed.
///
/// # Errors
/// The invariant that broke, and where.
pub fn run<S: Simulation>(
    seed: u64,
    options: Options<S::Plant>,
) -> Result<Report<S::Tally>, Failure<<S::Plant as Planted>::Check>> {
    let broken = match catch_unwind(AssertUnwindSafe(|| S::play(seed, options))) {
        Ok(Ok(report)) => return Ok(report),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()));
            Broken {
                check: Checking::NO_PANIC,
                why: text.unwrap_or_else(|| "a panic without words".into()),
            }
        }
    };
    let step = STEP.with(Cell::get);
    Err(Failure { seed, step, broken })
}

/// Makes a failing run small: fewer kinds of step, fewer steps, the same check broken.
pub fn shrink<S: Simulation>(
    failure: &Failure<<S::Plant as Planted>::Check>,
    options: Options<S::Plant>,
) -> (Options<S::Plant>, Failure<<S::Plant as Planted>::Check>) {
    let (mut best, mut least) = (options, failure.clone());
    let mut attempt = |candidate: Options<S::Plant>, best: &mut Options<S::Plant>| {
        let found = run::<S>(failure.seed, candidate).err();
        let found = found.filter(|found| found.broken.check == failure.broken.check);
        let is_found = found.is_some();
        if let Some(found) = found {
            (*best, least) = (candidate, found);
        }
        is_found
    };
    for bit in 0..S::KINDS {
        let mut candidate = best;
        candidate.without |= 1 << bit;
        attempt(candidate, &mut best);
    }
    let (mut low, mut high) = (0, failure.step);
    while low < high {
        let middle = low + (high - low) / 2;
        let steps = Some(middle);
        match attempt(Options { steps, ..best }, &mut best) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    (best, least)
}

/// The command that runs a seed again with these options.
pub fn command<S: Simulation>(seed: u64, options: Options<S::Plant>) -> String {
    let mut command = format!(
        "cargo run --release -p antiphon-sim -- {} --seed {seed}",
        S::FLAG
    );
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
