//! Runs seeds of sessions, streams or durable topics from the command line, if their flag is among the arguments.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use antiphon_sim::runner::{
    Counts, Failure, Options, Planted, Report, SEEDS_ENFORCED, Simulation, command, run, shrink,
};

struct Arguments<P> {
    seed: Option<u64>,
    seeds: u64,
    first: u64,
    threads: u64,
    options: Options<P>,
}

fn arguments<S: Simulation>() -> Result<Arguments<S::Plant>, String> {
    let mut read = Arguments {
        seed: None,
        seeds: 1000,
        first: 0,
        threads: 1,
        options: Options::<S::Plant>::default(),
    };
    let mut words = std::env::args().skip(1).filter(|word| word != S::FLAG);
    while let Some(word) = words.next() {
        if word == "--trace" {
            read.options.trace = true;
            continue;
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
                let plant = S::Plant::named(&value);
                let plant = plant.ok_or_else(|| format!("there is no plant {value}"))?;
                read.options.plant = Some(plant);
            }
            _ => return Err(format!("there is no {word}")),
        }
    }
    Ok(read)
}

pub(crate) fn main<S: Simulation>() -> ExitCode {
    let arguments = match arguments::<S>() {
        Ok(arguments) => arguments,
        Err(why) => {
            eprintln!("antiphon-sim: {why}");
            return ExitCode::from(2);
        }
    };
    let Some(seed) = arguments.seed else {
        return many::<S>(&arguments);
    };
    match run::<S>(seed, arguments.options) {
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
struct Total<S: Simulation> {
    seeds: u64,
    steps: u64,
    liveness: [u64; 2],
    counts: Counts<S::Tally>,
    failures: Vec<Failure<<S::Plant as Planted>::Check>>,
}

impl<S: Simulation> Total<S> {
    fn new() -> Self {
        Self {
            seeds: 0,
            steps: 0,
            liveness: [0; 2],
            counts: Counts::default(),
            failures: Vec::new(),
        }
    }

    fn add(&mut self, report: &Report<S::Tally>) {
        self.steps += report.steps;
        self.counts.merge(&report.counts);
        self.last(report.liveness);
    }

    fn last(&mut self, liveness: [u64; 2]) {
        for (most, one) in self.liveness.iter_mut().zip(liveness) {
            *most = one.max(*most);
        }
    }

    fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        self.counts.merge(&other.counts);
        self.last(other.liveness);
        self.failures.extend(other.failures);
    }
}

fn many<S: Simulation>(arguments: &Arguments<S::Plant>) -> ExitCode {
    let began = Instant::now();
    let next = AtomicU64::new(arguments.first);
    let end = arguments.first + arguments.seeds;
    let total = Mutex::new(Total::<S>::new());
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                let mut own = Total::<S>::new();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || own.failures.len() >= 5 {
                        break;
                    }
                    own.seeds += 1;
                    match run::<S>(seed, arguments.options) {
                        Ok(report) => own.add(&report),
                        Err(failure) => own.failures.push(failure),
                    }
                }
                total.lock().expect("no thread panics").merge(own);
            });
        }
    });
    let total = total.into_inner().expect("no thread panics");
    print(&total, arguments, began.elapsed())
}

fn print<S: Simulation>(
    total: &Total<S>,
    arguments: &Arguments<S::Plant>,
    took: Duration,
) -> ExitCode {
    println!("how often each occurred:");
    total.counts.print(|line| println!("{line}"));
    println!(
        "{} seeds from {}, {} steps, in {:.1} s",
        total.seeds,
        arguments.first,
        total.steps,
        took.as_secs_f64()
    );
    let [settled, ended] = total.liveness.map(|nanos| nanos / 1_000_000);
    let ended = match ended {
        0 => String::new(),
        ended => format!(", and ended within {ended} ms"),
    };
    println!(
        "liveness: all settled within {settled} ms of virtual time after healing{ended}; the bound is {} ms",
        S::BOUND_NANOS / 1_000_000
    );
    for failure in &total.failures {
        let (seed, step) = (failure.seed, failure.step);
        println!("seed {seed}: step {step}: {}", failure.broken);
        println!("    {}", command::<S>(seed, arguments.options));
    }
    if let Some(failure) = total.failures.first() {
        let (options, least) = shrink::<S>(failure, arguments.options);
        println!("smallest: step {}: {}", least.step, least.broken);
        println!("    {}", command::<S>(least.seed, options));
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
