//! What reading a message costs with other software, beside antiphon: one corpus, one process, one allocator, by turns.
//!
//! ```text
//! antiphon-bench-peers [--rounds N] [--slot MICROSECONDS] [--rows TEXT]... [--items 01,02…] [--raw yes]
//! ```
//!
//! Prints for each reader and item the nanoseconds a message (the middle of the rounds), their ratio to serde_json typed
//! in the same round, and how often it allocates. `x` is an item that the reader refuses or takes for something else.
//! With `--raw` it prints the nanoseconds of every round instead, for `benches/table.py`.
//!
//! Rule: rows take turns in every round, so that what disturbs one disturbs its neighbours; a reader
//! is given the text as it would get it from a socket, and must say what kind of message it is; default features, default
//! limits and public API only; and a figure that spreads by more than a tenth is marked.

#[path = "../../clock/mod.rs"]
mod clock;
#[path = "../../corpus/mod.rs"]
mod corpus;
#[path = "../../counting/mod.rs"]
mod counting;
mod limits;
mod readers;
#[path = "../../instructions/src/serde_typed.rs"]
mod serde_typed;
mod table;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use clock::{TURNS, Watch};

/// What a message is. A reader that says something else has misread it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Notification,
    Response,
    Batch,
}

/// A message, and what it is.
pub struct Text {
    pub bytes: Vec<u8>,
    pub kind: Kind,
}

/// Reads messages.
pub trait Reader {
    /// Reads one. `None` if it is refused. A reader that has to be told the direction may look at `expected`.
    fn read(&mut self, text: &[u8], expected: Kind) -> Option<Kind>;

    /// Makes ready for the next messages, unmeasured.
    fn between(&mut self) {}
}

/// One row of the table.
pub struct Row {
    pub name: &'static str,
    pub reader: Box<dyn Reader>,
    /// It does not read JSON: a limit of the machine.
    pub is_limit: bool,
}

/// The figures of one row for one item.
#[derive(Default)]
pub struct Cell {
    watch: Watch,
    pub nanos: Vec<f64>,
    pub allocations: f64,
}

struct Arguments {
    rounds: usize,
    slot: Duration,
    rows: Vec<String>,
    items: Vec<String>,
    is_raw: bool,
}

fn arguments() -> Option<Arguments> {
    let mut given = Arguments {
        rounds: 11,
        slot: Duration::from_micros(1500),
        rows: Vec::new(),
        items: Vec::new(),
        is_raw: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--rounds" => given.rounds = value.parse().ok()?,
            "--slot" => given.slot = Duration::from_micros(value.parse().ok()?),
            "--rows" => given.rows.push(value),
            "--items" => given.items = value.split(',').map(String::from).collect(),
            "--raw" => given.is_raw = true,
            _ => return None,
        }
    }
    Some(given)
}

fn kind_of(text: &str) -> Kind {
    let value: serde_json::Value = serde_json::from_str(text).expect("the corpus is valid");
    match (value.is_array(), value.get("method"), value.get("id")) {
        (true, ..) => Kind::Batch,
        (_, Some(_), Some(_)) => Kind::Request,
        (_, Some(_), None) => Kind::Notification,
        (_, None, _) => Kind::Response,
    }
}

/// One pass over the texts of an item; false if one of them is refused or misread.
fn pass(reader: &mut dyn Reader, texts: &[Text]) -> bool {
    let mut all = true;
    for text in texts {
        all &= black_box(reader.read(black_box(&text.bytes), text.kind)) == Some(text.kind);
    }
    all
}

/// Nanoseconds a message in one turn, over passes that take the slot together.
fn sample(row: &mut Row, watch: &mut Watch, texts: &[Text], slot: Duration) -> f64 {
    // Small items many times over, so that the time for reading the clock does not show.
    let times = (4000 / texts.len() / (1 + texts[0].bytes.len() / 100)).clamp(1, 64);
    while watch.total() < slot {
        watch.run(|| {
            for _ in 0..times {
                black_box(pass(&mut *row.reader, texts));
            }
        });
        row.reader.between();
    }
    watch.turn() / (times * texts.len()) as f64
}

fn allocations(row: &mut Row, texts: &[Text]) -> f64 {
    let before = counting::allocations();
    pass(&mut *row.reader, texts);
    let count = counting::allocations() - before;
    row.reader.between();
    count as f64 / texts.len() as f64
}

fn main() -> ExitCode {
    let Some(given) = arguments() else {
        eprintln!(
            "usage: antiphon-bench-peers [--rounds N] [--slot MICROSECONDS] [--rows TEXT]... [--items 01,02…] [--raw yes]"
        );
        return ExitCode::from(2);
    };
    let mut corpus = corpus::corpus();
    corpus.retain(|item| {
        let mut wanted = given.items.iter();
        given.items.is_empty() || wanted.any(|wanted| item.name.starts_with(wanted.as_str()))
    });
    let items: Vec<Vec<Text>> = corpus
        .iter()
        .map(|item| {
            let texts = item.messages.iter().map(|message| Text {
                bytes: message.clone().into_bytes(),
                kind: kind_of(message),
            });
            texts.collect()
        })
        .collect();
    let mut rows = readers::all();
    rows.extend(limits::all());
    rows.retain(|row| {
        let mut wanted = given.rows.iter();
        given.rows.is_empty()
            || row.name == table::YARDSTICK
            || wanted.any(|wanted| row.name.contains(wanted.as_str()))
    });
    let of_row = || items.iter().map(|_| None::<Cell>).collect::<Vec<_>>();
    let mut cells: Vec<_> = rows.iter().map(|_| of_row()).collect();
    for (row, cells) in rows.iter_mut().zip(&mut cells) {
        for (texts, cell) in items.iter().zip(cells) {
            let is_read = pass(&mut *row.reader, texts) || row.is_limit;
            row.reader.between();
            if is_read {
                *cell = Some(Cell {
                    allocations: allocations(row, texts),
                    ..Cell::default()
                });
            }
        }
    }
    // The first round only warms up.
    for round in 0..=given.rounds {
        for (at, texts) in items.iter().enumerate() {
            let mut sums = vec![0.0; rows.len()];
            for _ in 0..TURNS {
                for ((row, cells), sum) in rows.iter_mut().zip(&mut cells).zip(&mut sums) {
                    if let Some(cell) = &mut cells[at] {
                        *sum += sample(row, &mut cell.watch, texts, given.slot);
                    }
                }
            }
            for (cells, sum) in cells.iter_mut().zip(sums) {
                if let Some(cell) = &mut cells[at] {
                    let nanos = sum / f64::from(TURNS);
                    cell.nanos.extend((round > 0).then_some(nanos));
                }
            }
        }
        eprintln!("round {round} of {}", given.rounds);
    }
    if given.is_raw {
        table::print_raw(&corpus, &rows, &cells);
    } else {
        table::print(&corpus, &rows, &cells);
    }
    ExitCode::SUCCESS
}
