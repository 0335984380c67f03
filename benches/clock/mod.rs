//! How long something takes that keeps one thread busy.
//!
//! Rule: what else the machine does is not counted, and what cannot be left out falls on all alike. Short spans
//! are read from the ordinary clock, and the middle of many is taken, so that the few which were interrupted do not matter;
//! long ones, which would be interrupted more often than not on a busy machine, are processor time of this thread, and of
//! those the mean is taken. What is compared takes [`TURNS`] turns in a round, by turns, and a round is their mean: a core that
//! others use as well runs at half its speed for some thousandths of a second or for minutes, and then does so for all.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// From here on a span is long: reading the processor time costs about 0.3 µs.
const LONG: Duration = Duration::from_micros(50);

/// How many turns make a round.
pub const TURNS: u32 = 8;

/// Measures one thing many times.
#[derive(Default)]
pub struct Watch {
    /// Whether the spans of the last turn were long.
    is_long: bool,
    nanos: Vec<f64>,
    total: Duration,
}

fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Duration::from(now.expect("the thread has a clock"))
}

impl Watch {
    /// Runs it.
    pub fn run(&mut self, act: impl FnOnce()) {
        let (cpu, began) = (self.is_long.then(processor_time), Instant::now());
        act();
        let wall = began.elapsed();
        let span = cpu.map_or(wall, |cpu| processor_time() - cpu);
        self.nanos.push(span.as_nanos() as f64);
        self.total += span;
    }

    /// Begins the turn anew: what was run before was to warm up.
    pub fn begin(&mut self) {
        self.nanos.clear();
        self.total = Duration::ZERO;
    }

    /// How long all runs of this turn have taken together.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Ends a turn: the nanoseconds of one run.
    pub fn turn(&mut self) -> f64 {
        self.nanos.sort_by(f64::total_cmp);
        let mean = self.nanos.iter().sum::<f64>() / self.nanos.len() as f64;
        let middle = self.nanos.get(self.nanos.len() / 2).copied();
        let middle = middle.unwrap_or(f64::NAN);
        let nanos = if self.is_long { mean } else { middle };
        self.is_long = middle > LONG.as_nanos() as f64;
        self.begin();
        nanos
    }
}
