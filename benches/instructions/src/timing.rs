//! Times by rounds: every operation once in each round, so that a slow second of the machine falls on all of them.

use std::time::Duration;

use crate::clock::Watch;
use crate::operations::Named;

/// Rounds, and how long an operation is run in each at least.
const ROUNDS: usize = 15;
const SLOT: Duration = Duration::from_micros(1500);

/// Prints for each operation its name and its nanoseconds in every round.
pub fn table(operations: &mut [Named]) {
    let mut watches: Vec<Watch> = operations.iter().map(|_| Watch::default()).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); operations.len()];
    for round in 0..=ROUNDS {
        for (at, named) in operations.iter_mut().enumerate() {
            let watch = &mut watches[at];
            while watch.total() < SLOT {
                watch.run(|| named.operation.run());
                named.operation.between();
            }
            let nanos = watch.round() / named.operation.count() as f64;
            // The first round only warms up.
            if round > 0 {
                times[at].push(nanos);
            }
        }
    }
    for (named, times) in operations.iter().zip(&times) {
        let times: Vec<String> = times.iter().map(|nanos| format!("{nanos:.2}")).collect();
        println!("{}\t{}", named.name, times.join("\t"));
    }
}
