//! Runs seeds from the command line.
//!
//!   antiphon-sim [--seeds N] [--first SEED] [--threads N]     many seeds, and what occurred in them
//!   antiphon-sim --seed SEED [--steps N] [--without BITS] [--plant NAME] [--trace]
//!   antiphon-sim --split Chance|Pieces|Whole|Bytes|Each …     how input is split; Each: Pieces, Whole and Bytes, compared
//!   antiphon-sim --sessions …                                 sessions instead of connections; no --split
//!   antiphon-sim --streams …                                  topics, subscriptions and flows; no --split
//!   antiphon-sim --durable …                                  durable subscriptions and their store; no --split
//!
//! Exit code 1: an invariant broke, or, with many seeds, too little occurred (the README says what is
//! enough). 2: wrong usage. 0: neither.

mod run_seeds;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antiphon_sim::counts::{Counts, SEEDS_ENFORCED};
use antiphon_sim::durable::DurableSubscriptions;
use antiphon_sim::healing::LIVENESS_NANOS;
use antiphon_sim::plant::Plant;
use antiphon_sim::run::{self, Failure, Report};
use antiphon_sim::runner::{Planted, Simulation};
use antiphon_sim::sessions::Sessions;
use antiphon_sim::streams::Streams;
use antiphon_sim::world::{ConnectionConfig, Split};

/// Fewer steps than this in the average seed prove too little.
const STEPS_AVERAGE_MIN: u64 = 300;

struct Arguments {
    seed: Option<u64>,
    seeds: u64,
    first: u64,
    threads: u64,
    options: ConnectionConfig,
}

fn arguments() -> Result<Arguments, String> {
    let mut read = Arguments {
        seed: None,
        seeds: 1000,
        first: 0,
        threads: 1,
        options: ConnectionConfig::default(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--trace" {
            read.options.trace = true;
            continue;
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} wants a value"))?;
        let number = || {
            let bits = value
                .strip_prefix("0x")
                .map(|bits| u64::from_str_radix(bits, 16));
            bits.unwrap_or_else(|| value.parse())
                .map_err(|_| format!("{word} wants a number, not {value}"))
        };
        match word.as_str() {
            "--seed" => read.seed = Some(number()?),
            "--seeds" => read.seeds = number()?,
            "--first" => read.first = number()?,
            "--threads" => read.threads = number()?.max(1),
            "--steps" => read.options.steps = Some(number()?),
            "--without" => read.options.without = number()?,
            "--split" => {
                let split = Split::named(&value);
                read.options.split = split.ok_or_else(|| format!("there is no split {value}"))?;
            }
            "--plant" => {
                let plant = Plant::named(&value);
                read.options.plant =
                    Some(plant.ok_or_else(|| format!("there is no plant {value}"))?);
            }
            _ => {
                return Err(format!(
                    "there is no {word}, but --seed, --seeds, --first, --threads, --steps, --without, --split, --plant and --trace"
                ));
            }
        }
    }
    Ok(read)
}

fn main() -> ExitCode {
    let is_asked_for = |flag: &str| std::env::args().any(|word| word == flag);
    if is_asked_for(Sessions::FLAG) {
        return run_seeds::main::<Sessions>();
    }
    if is_asked_for(Streams::FLAG) {
        return run_seeds::main::<Streams>();
    }
    if is_asked_for(DurableSubscriptions::FLAG) {
        return run_seeds::main::<DurableSubscriptions>();
    }
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("antiphon-sim: {why}");
            return ExitCode::from(2);
        }
    };
    match arguments.seed {
        Some(seed) => one(seed, arguments.options),
        None => many(&arguments),
    }
}

fn one(seed: u64, options: ConnectionConfig) -> ExitCode {
    match run::run(seed, options) {
        Ok(report) => {
            println!(
                "seed {seed}: {} steps, trace {:016x}, all invariants held",
                report.steps, report.hash
            );
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("seed {seed}: step {}: {}", failure.step, failure.broken);
            ExitCode::FAILURE
        }
    }
}

/// The results of all seeds together: sums, and of `liveness` the longest.
#[derive(Default)]
struct Total {
    seeds: u64,
    steps: u64,
    settled: u64,
    liveness: u64,
    counts: Counts,
    failures: Vec<Failure>,
}

impl Total {
    fn add(&mut self, result: Result<Report, Failure>) {
        self.seeds += 1;
        match result {
            Ok(report) => {
                self.steps += report.steps;
                self.settled += report.settled;
                self.liveness = self.liveness.max(report.liveness);
                self.counts.merge(&report.counts);
            }
            Err(failure) => self.failures.push(failure),
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.settled += other.settled;
        self.liveness = self.liveness.max(other.liveness);
        self.counts.merge(&other.counts);
        self.failures.extend(other.failures);
    }
}

fn many(arguments: &Arguments) -> ExitCode {
    let began = Instant::now();
    let next = AtomicU64::new(arguments.first);
    let end = arguments.first + arguments.seeds;
    let total = Mutex::new(Total::default());
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                let mut own = Total::default();
                let mut said = Instant::now();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // Five failures of one thread are enough to look at.
                    if seed >= end || own.failures.len() >= 5 {
                        break;
                    }
                    own.add(run::run(seed, arguments.options));
                    if said.elapsed() > Duration::from_secs(60) {
                        said = Instant::now();
                        eprintln!("seed {seed} after {} s", began.elapsed().as_secs());
                    }
                }
                total.lock().expect("no thread panics").merge(own);
            });
        }
    });
    let total = total.into_inner().expect("no thread panics");
    print(&total, arguments, began.elapsed())
}

fn print(total: &Total, arguments: &Arguments, took: Duration) -> ExitCode {
    let mut good = total.failures.is_empty();
    println!("how often each occurred:");
    total.counts.print(|line| println!("{line}"));
    let average = total.steps / total.seeds.max(1);
    println!(
        "{} seeds from {}, {} steps, {average} a seed, {} calls settled, in {:.1} s",
        total.seeds,
        arguments.first,
        total.steps,
        total.settled,
        took.as_secs_f64()
    );
    println!(
        "liveness: all settled within {} ms of virtual time after healing; the bound is {} ms",
        total.liveness / 1_000_000,
        LIVENESS_NANOS / 1_000_000
    );
    for failure in &total.failures {
        println!(
            "seed {}: step {}: {}",
            failure.seed, failure.step, failure.broken
        );
        println!("    {}", run::command(failure.seed, arguments.options));
    }
    if let Some(failure) = total.failures.first() {
        let (options, least) = run::shrink(failure, arguments.options);
        println!("smallest: step {}: {}", least.step, least.broken);
        println!("    {}", run::command(least.seed, options));
    }
    if average < STEPS_AVERAGE_MIN {
        println!("failed: fewer than {STEPS_AVERAGE_MIN} steps in the average seed");
        good = false;
    }
    let (zeros, unnamed) = (total.counts.zeros(), total.counts.unnamed());
    if !zeros.is_empty() {
        println!("never occurred: {}", zeros.join(", "));
        good &= total.seeds < SEEDS_ENFORCED;
    }
    if !unnamed.is_empty() {
        println!("failed: not in the catalogue: {}", unnamed.join(", "));
        good = false;
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
