//! Runs seeds of streams from the command line, if `--streams` is among the arguments.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antiphon_sim::streams::{
    BOUND_NANOS, ConnectionConfig, Counts, Failure, Plant, Report, SEEDS_ENFORCED, command, run,
    shrink,
};

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
        match word.as_str() {
            "--streams" => continue,
            "--trace" => {
                read.options.trace = true;
                continue;
            }
            _ => {}
        }
        let value = words
            .next()
            .ok_or_else(|| format!("{word} wants a value"))?;
        let number = || {
            let bits = value.strip_prefix("0x");
            let bits = bits.map(|bits| u64::from_str_radix(bits, 16));
            let number = bits.unwrap_or_else(|| value.parse());
            number.map_err(|_| format!("{word} wants a number, not {value}"))
        };
        match word.as_str() {
            "--seed" => read.seed = Some(number()?),
            "--seeds" => read.seeds = number()?,
            "--first" => read.first = number()?,
            "--threads" => read.threads = number()?.max(1),
            "--steps" => read.options.steps = Some(number()?),
            "--without" => read.options.without = number()?,
            "--plant" => {
                let plant = Plant::named(&value);
                let plant = plant.ok_or_else(|| format!("there is no plant {value}"))?;
                read.options.plant = Some(plant);
            }
            _ => return Err(format!("there is no {word}")),
        }
    }
    Ok(read)
}

pub(crate) fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("antiphon-sim: {why}");
            return ExitCode::from(2);
        }
    };
    let Some(seed) = arguments.seed else {
        return many(&arguments);
    };
    match run(seed, arguments.options) {
        Ok(report) => {
            let (steps, hash) = (report.steps, report.hash);
            println!("seed {seed}: {steps} steps, trace {hash:016x}, all invariants held");
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
                self.counts.merge(&report.counts);
                self.liveness = self.liveness.max(report.liveness);
            }
            Err(failure) => self.failures.push(failure),
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.counts.merge(&other.counts);
        self.liveness = self.liveness.max(other.liveness);
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
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || own.failures.len() >= 5 {
                        break;
                    }
                    own.add(run(seed, arguments.options));
                }
                total.lock().expect("no thread panics").merge(own);
            });
        }
    });
    let total = total.into_inner().expect("no thread panics");
    print(&total, arguments, began.elapsed())
}

fn print(total: &Total, arguments: &Arguments, took: Duration) -> ExitCode {
    println!("how often each occurred:");
    total.counts.print(|line| println!("{line}"));
    println!(
        "{} seeds from {}, {} steps, in {:.1} s",
        total.seeds,
        arguments.first,
        total.steps,
        took.as_secs_f64()
    );
    println!(
        "liveness: all settled within {} ms of virtual time after healing; the bound is {} ms",
        total.liveness / 1_000_000,
        BOUND_NANOS / 1_000_000
    );
    for failure in &total.failures {
        let (seed, step) = (failure.seed, failure.step);
        println!("seed {seed}: step {step}: {}", failure.broken);
        println!("    {}", command(seed, arguments.options));
    }
    if let Some(failure) = total.failures.first() {
        let (options, least) = shrink(failure, arguments.options);
        println!("smallest: step {}: {}", least.step, least.broken);
        println!("    {}", command(least.seed, options));
    }
    let zeros = total.counts.zeros();
    if !zeros.is_empty() {
        println!("never occurred: {}", zeros.join(", "));
    }
    let is_met = zeros.is_empty() || total.seeds < SEEDS_ENFORCED;
    match total.failures.is_empty() && is_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
