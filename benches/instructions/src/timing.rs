//! Times by rounds: every operation once in each round, so that a slow second of the machine falls on all of them.

use std::time::Instant;

use crate::operations::Named;

/// Rounds, and how long an operation is run in each at least.
const ROUNDS: usize = 15;
const NANOS: u128 = 1_500_000;

/// Prints for each operation its name, the bytes it goes over, and its nanoseconds in every round.
pub fn table(operations: &mut [Named]) {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); operations.len()];
    for round in 0..=ROUNDS {
        for (named, times) in operations.iter_mut().zip(&mut times) {
            let (mut nanos, mut count) = (0, 0);
            while nanos < NANOS {
                let start = Instant::now();
                named.operation.run();
                nanos += start.elapsed().as_nanos();
                count += named.operation.count();
                named.operation.between();
            }
            // The first round only warms up.
            if round > 0 {
                times.push(nanos as f64 / count as f64);
            }
        }
    }
    for (named, times) in operations.iter().zip(&times) {
        let times: Vec<String> = times.iter().map(|nanos| format!("{nanos:.2}")).collect();
        println!("{}\t{}\t{}", named.name, named.bytes, times.join("\t"));
    }
}
