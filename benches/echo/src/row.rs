//! A row of the table: something that can be asked for echoes.

use std::error::Error;
use std::time::{Duration, Instant};

/// Any error ends the program.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// How many requests are under way at once.
pub(crate) const MANY: usize = 64;

/// How many threads make the calls of a crowd, where those block.
pub(crate) const CROWD_THREADS: usize = 16;

/// How many requests a batch has.
pub(crate) const BATCH: usize = 100;

/// [`WORD`] as a literal, for texts that are made of it when the program is built.
macro_rules! word {
    () => {
        "hello"
    };
}
pub(crate) use word;

/// What the requests and the answers carry.
pub(crate) const WORD: &str = word!();

/// How the requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One at a time.
    One,
    /// [`MANY`] are begun, then all are awaited.
    Many,
    /// One message with [`BATCH`] requests at a time.
    Batch,
    /// [`MANY`] tasks, or [`CROWD_THREADS`] threads, each of which calls and awaits in a loop, over one connection, as in
    /// most programs. For the bare transports it is [`Many`](Self::Many).
    Crowd,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::One, Self::Many, Self::Batch, Self::Crowd];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Many => "many",
            Self::Batch => "batch",
            Self::Crowd => "crowd",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// How many requests one round has.
    pub(crate) fn requests(self) -> usize {
        match self {
            Self::One => 1,
            Self::Many | Self::Crowd => MANY,
            Self::Batch => BATCH,
        }
    }
}

/// A client and its server.
pub(crate) trait Lane {
    /// Does `rounds` rounds, and adds the time of each to `times`.
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()>;

    /// Whether it can do rounds of this mode.
    fn can(&self, mode: Mode) -> bool {
        let _ = mode;
        true
    }
}

/// A lane, and something that has to live as long.
pub(crate) struct With<K>(pub(crate) Box<dyn Lane>, pub(crate) K);

impl<K> Lane for With<K> {
    fn run(&mut self, mode: Mode, rounds: usize, times: &mut Vec<Duration>) -> Outcome<()> {
        self.0.run(mode, rounds, times)
    }

    fn can(&self, mode: Mode) -> bool {
        self.0.can(mode)
    }
}

/// A line of the table.
pub(crate) struct Row {
    pub(crate) name: String,
    /// The name of the bare row that moves the same bytes and does nothing else; a bare row has its own name here.
    pub(crate) floor: &'static str,
    pub(crate) lane: Box<dyn Lane>,
}

/// Adds a row if it is wanted: if its name begins with one of these, or if there are none.
pub(crate) fn add(
    rows: &mut Vec<Row>,
    wanted: &[String],
    name: &str,
    floor: &'static str,
    make: impl FnOnce() -> Outcome<Box<dyn Lane>>,
) -> Outcome<()> {
    let mut names = wanted.iter();
    if wanted.is_empty() || names.any(|wanted| name.starts_with(wanted.as_str())) {
        let lane = make().map_err(|error| format!("{name}: {error}"))?;
        let name = name.to_string();
        rows.push(Row { name, floor, lane });
    }
    Ok(())
}

/// A request as text.
pub(crate) fn request(id: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"echo","params":["{WORD}"],"id":{id}}}"#)
}

/// The requests of one round as text: lines, or one batch.
pub(crate) fn requests(mode: Mode) -> Vec<String> {
    let all: Vec<_> = (10..10 + mode.requests()).map(request).collect();
    match mode {
        Mode::One | Mode::Many | Mode::Crowd => all,
        Mode::Batch => vec![format!("[{}]", all.join(","))],
    }
}

/// The requests of one round as the bytes of one write.
pub(crate) fn lines(mode: Mode) -> Vec<u8> {
    let lines = requests(mode).into_iter().map(|line| line + "\n");
    lines.collect::<String>().into_bytes()
}

/// An error unless the answer is the one that was wanted.
pub(crate) fn check(found: &str) -> Outcome<()> {
    if found == WORD {
        return Ok(());
    }
    Err(format!("the echo was {found:?}").into())
}

/// Adds the time of each round of a crowd: the mean, for its rounds run together.
pub(crate) fn share(began: Instant, rounds: usize, times: &mut Vec<Duration>) {
    let each = began.elapsed() / u32::try_from(rounds.max(1)).unwrap_or(u32::MAX);
    times.extend(std::iter::repeat_n(each, rounds));
}
