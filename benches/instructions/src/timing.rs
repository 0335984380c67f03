//! Times by rounds, in which every operation has its turns beside all others, so that a slow moment of the machine falls on
//! all of them.

use std::time::Duration;

use crate::clock::{TURNS, Watch};
use crate::operations::Named;

/// Rounds, and how long a turn is at least. Before it the operation runs for as long unmeasured, until branch predictors and
/// caches are filled by it alone; one that goes over megabytes needs twenty runs for that. Rounds are few, for several
/// processes are measured: in one of sixteen, stack and heap lie so that an operation is a quarter slower.
const ROUNDS: usize = 3;
const SLOT: Duration = Duration::from_micros(1500);

/// Prints for each operation its name and its nanoseconds in every round.
pub fn table(operations: &mut [Named]) {
    let mut watches: Vec<Watch> = operations.iter().map(|_| Watch::default()).collect();
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); operations.len()];
    for round in 0..=ROUNDS {
        let mut nanos = vec![0.0; operations.len()];
        for _ in 0..TURNS {
            for ((named, watch), nanos) in operations.iter_mut().zip(&mut watches).zip(&mut nanos) {
                named.operation.turn();
                for is_measured in [false, true] {
                    while watch.total() < SLOT {
                        watch.run(|| named.operation.run());
                        named.operation.between();
                    }
                    if !is_measured {
                        watch.begin();
                    }
                }
                *nanos += watch.turn() / f64::from(TURNS) / named.operation.count() as f64;
            }
        }
        // The first round only warms up.
        if round > 0 {
            times
                .iter_mut()
                .zip(nanos)
                .for_each(|(times, nanos)| times.push(nanos));
        }
    }
    for (named, times) in operations.iter().zip(&times) {
        let times: Vec<String> = times.iter().map(|nanos| format!("{nanos:.2}")).collect();
        println!("{}\t{}", named.name, times.join("\t"));
    }
}
