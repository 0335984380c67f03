//! What the core costs: counted under callgrind, or timed beside serde_json.
//!
//! ```text
//! antiphon-instructions count     every operation once, for callgrind; `run.py` reads what it prints
//! antiphon-instructions time      nanoseconds in every round, interleaved
//! antiphon-instructions memory    bytes that an open call holds
//! antiphon-instructions corpus    the items and their sizes
//! ```
//!
//! Further arguments choose the operations whose names contain one of them.

#[path = "../../clock/mod.rs"]
mod clock;
#[path = "../../corpus/mod.rs"]
mod corpus;
#[path = "../../counting/mod.rs"]
mod counting;
mod decoding;
mod operations;
mod serde_typed;
mod tables;
mod timing;
mod topics;
mod writing;

use std::hint::black_box;
use std::process::ExitCode;

use operations::{Named, Operation};

/// Runs an operation. Callgrind counts inside this function and nowhere else.
#[inline(never)]
fn measured_run(operation: &mut dyn Operation) {
    operation.run();
    // If nothing followed, the call would become a jump, and callgrind would not see it return.
    black_box(());
}

/// Ends the figures of one operation: callgrind writes them out when it leaves this function.
#[inline(never)]
fn measured_end(name: &str) {
    black_box(name);
}

/// Runs before anything is counted: tables have grown, branches are known.
const WARM: usize = 3;
/// Runs that are counted.
const RUNS: u64 = 8;

fn count(operations: &mut [Named]) {
    for named in operations {
        let operation = &mut *named.operation;
        for _ in 0..WARM {
            operation.run();
            operation.between();
        }
        let mut allocations = 0;
        for _ in 0..RUNS {
            let before = counting::allocations();
            measured_run(operation);
            allocations += counting::allocations() - before;
            operation.between();
        }
        measured_end(&named.name);
        println!(
            "{}\t{}\t{allocations}",
            named.name,
            RUNS * operation.count()
        );
    }
}

fn main() -> ExitCode {
    let mut corpus = corpus::corpus();
    corpus.push(corpus::recorded());
    let mode = std::env::args().nth(1);
    let wanted: Vec<String> = std::env::args().skip(2).collect();
    let is_wanted = |named: &Named| wanted.iter().any(|part| named.name.contains(part.as_str()));
    let chosen = || {
        let all = operations::all(&corpus).into_iter();
        all.filter(|named| wanted.is_empty() || is_wanted(named))
            .collect::<Vec<_>>()
    };
    match mode.as_deref() {
        Some("count") => count(&mut chosen()),
        Some("time") => timing::table(&mut chosen()),
        Some("memory") => {
            for open in [1000, 10_000, 100_000, 1_000_000] {
                let bytes = tables::held_by_a_call(open, counting::held);
                println!("bytes of a call, {open} open\t{bytes:.1}");
            }
        }
        Some("corpus") => {
            for item in &corpus {
                println!(
                    "{:20} {:8} bytes, {} messages",
                    item.name,
                    item.bytes() / item.messages.len(),
                    item.messages.len()
                );
            }
        }
        _ => {
            eprintln!("usage: antiphon-instructions count|time|memory|corpus [OPERATION…]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
