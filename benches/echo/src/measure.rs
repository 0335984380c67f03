//! Clocks: the processor time of the whole process, and the time that a request takes.

use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::resource::{UsageWho, getrusage};
use nix::unistd::Pid;

use crate::row::{Mode, Outcome, Row};

/// The figures of one row and mode: of one round, or the medians of all.
#[derive(Clone, Copy, Default)]
pub(crate) struct Figures {
    /// Processor time of both sides for one request, in microseconds.
    pub(crate) cpu: f64,
    /// `cpu` as a multiple of the row's floor in the same round.
    pub(crate) ratio: Option<f64>,
    /// Requests in a second.
    pub(crate) rate: f64,
    /// How long a round took, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The figures of a row in every round, by mode.
pub(crate) type Samples = [Vec<Figures>; Mode::ALL.len()];

/// The figures of a row, by mode; none for a mode that it lacks.
pub(crate) type Measured = [Option<Figures>; Mode::ALL.len()];

/// Binds the process to one core, where processor time means the same for every row.
pub(crate) fn pin() -> Outcome<()> {
    let this = Pid::from_raw(0);
    let allowed = sched_getaffinity(this)?;
    let core = (0..CpuSet::count())
        .rev()
        .find(|core| allowed.is_set(*core).unwrap_or(false));
    let mut set = CpuSet::new();
    set.set(core.ok_or("there is no core to run on")?)?;
    Ok(sched_setaffinity(this, &set)?)
}

fn cpu() -> Outcome<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let [user, system] = [usage.user_time(), usage.system_time()];
    let micros = (user.tv_sec() + system.tv_sec()) * 1_000_000 + user.tv_usec() + system.tv_usec();
    Ok(Duration::from_micros(u64::try_from(micros)?))
}

/// How many turns a row has in a round. A machine that others use is slower for some hundredths of a second now and then;
/// with many short turns that falls on a row and its floor alike.
const TURNS: u32 = 8;

/// Gives every row its turns in every round, each next to one of its floor: what disturbs the machine then disturbs both.
pub(crate) fn measure(rows: &mut [Row], rounds: usize, slot: Duration) -> Outcome<Vec<Samples>> {
    let mut samples = vec![[const { Vec::new() }; Mode::ALL.len()]; rows.len()];
    let mut floors: Vec<_> = rows.iter().map(|row| row.floor).collect();
    floors.sort_unstable();
    floors.dedup();
    let turns: Vec<_> = floors
        .into_iter()
        .flat_map(|floor| Mode::ALL.map(|mode| (floor, mode)))
        .collect();
    for round in 0..rounds {
        for &(floor, mode) in &turns {
            let by_turns = rows.iter_mut().zip(&mut samples);
            let by_turns = by_turns.filter(|(row, _)| row.floor == floor && row.lane.can(mode));
            take_turns(by_turns.collect(), mode, slot)?;
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    for at in 0..rows.len() {
        let floor = rows.iter().position(|row| row.name == rows[at].floor);
        for mode in Mode::ALL {
            for round in 0..samples[at][mode as usize].len() {
                let bare =
                    floor.and_then(|floor| samples[floor][mode as usize].get(round).copied());
                let sample: &mut Figures = &mut samples[at][mode as usize][round];
                sample.ratio = bare.map(|bare: Figures| sample.cpu / bare.cpu);
            }
        }
    }
    Ok(samples)
}

/// Adds a sample to each of these rows: a floor and those that are compared with it.
fn take_turns(by_turns: Vec<(&mut Row, &mut Samples)>, mode: Mode, slot: Duration) -> Outcome<()> {
    let mut by_turns: Vec<_> = by_turns
        .into_iter()
        .map(|(row, samples)| (row, samples, Taken::default()))
        .collect();
    for _ in 0..TURNS {
        for (row, _, taken) in &mut by_turns {
            let turn = taken.turn(row, mode, slot / TURNS);
            turn.map_err(|error| format!("{}: {error}", row.name))?;
        }
    }
    for (_, samples, taken) in by_turns {
        samples[mode as usize].push(taken.figures(mode));
    }
    Ok(())
}

/// The middle of the rounds.
pub(crate) fn medians(samples: &[Samples]) -> Vec<Measured> {
    let of = |modes: &Samples| modes.each_ref().map(|all| median(all));
    samples.iter().map(of).collect()
}

/// What the turns of one row took in one round and mode.
#[derive(Default)]
struct Taken {
    times: Vec<Duration>,
    spent: Duration,
    took: Duration,
}

impl Taken {
    /// Runs as many rounds as fit into the slot.
    fn turn(&mut self, row: &mut Row, mode: Mode, slot: Duration) -> Outcome<()> {
        // These rounds warm up what has been idle, and tell how many fit.
        let mut warm = Vec::new();
        row.lane.run(mode, 2, &mut warm)?;
        warm.clear();
        row.lane.run(mode, 8, &mut warm)?;
        warm.sort();
        let fit = slot.as_nanos() / warm[warm.len() / 2].as_nanos().max(1);
        let fit = usize::try_from(fit)?.clamp(1, 1_000_000);
        self.times.reserve(fit);
        let (started, spent) = (Instant::now(), cpu()?);
        row.lane.run(mode, fit, &mut self.times)?;
        self.spent += cpu()? - spent;
        self.took += started.elapsed();
        Ok(())
    }

    fn figures(mut self, mode: Mode) -> Figures {
        self.times.sort();
        let requests = (self.times.len() * mode.requests()) as f64;
        Figures {
            cpu: micros(self.spent) / requests,
            ratio: None,
            rate: requests / self.took.as_secs_f64(),
            p50: micros(self.times[self.times.len() / 2]),
            p99: micros(self.times[self.times.len() * 99 / 100]),
        }
    }
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

fn median(samples: &[Figures]) -> Option<Figures> {
    let of = |value: fn(&Figures) -> f64| {
        let mut values: Vec<_> = samples.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let ratio = of(|figures| figures.ratio.unwrap_or(f64::NAN));
    Some(Figures {
        cpu: of(|figures| figures.cpu)?,
        ratio: ratio.filter(|ratio| !ratio.is_nan()),
        rate: of(|figures| figures.rate)?,
        p50: of(|figures| figures.p50)?,
        p99: of(|figures| figures.p99)?,
    })
}
