//! The tables, in Markdown.

use crate::corpus::Item;
use crate::{Cell, Row};

/// The reader that the ratios are against: serde_json with types written by hand.
pub const YARDSTICK: &str = "serde_json typed";

/// A figure that spreads by more than this is marked.
const MAX_SPREAD: f64 = 0.10;

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The width of the middle half of the rounds, as a share of the median.
fn spread(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[values.len() / 4], values[values.len() * 3 / 4]);
    (high - low) / values[values.len() / 2]
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{:.0}k", value / 1e3),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

fn head(title: &str, corpus: &[Item]) {
    println!("\n### {title}\n");
    let names: Vec<_> = corpus.iter().map(|item| &item.name[..2]).collect();
    println!("| reader | {} |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(corpus.len()));
}

fn line(row: &Row, cells: &[Option<Cell>], show: impl Fn(usize, &Cell) -> String) {
    let shown = cells.iter().enumerate();
    let shown = shown.map(|(at, cell)| cell.as_ref().map_or("x".into(), |cell| show(at, cell)));
    println!(
        "| {} | {} |",
        row.name,
        shown.collect::<Vec<_>>().join(" | ")
    );
}

pub fn print(corpus: &[Item], rows: &[Row], cells: &[Vec<Option<Cell>>]) {
    println!(
        "Items: {}.",
        corpus
            .iter()
            .map(|item| format!("{} {}", item.name, item.bytes() / item.messages.len()))
            .collect::<Vec<_>>()
            .join(", ")
    );
    head(
        "ns per message (~: the rounds spread by more than a tenth)",
        corpus,
    );
    for (row, cells) in rows.iter().zip(cells) {
        line(row, cells, |_, cell| {
            let mark = if spread(&cell.nanos) > MAX_SPREAD {
                "~"
            } else {
                ""
            };
            format!("{mark}{}", short(middle(cell.nanos.clone())))
        });
    }
    let yardstick = rows.iter().position(|row| row.name == YARDSTICK);
    if let Some(yardstick) = yardstick.map(|at| &cells[at]) {
        head(
            &format!("ratio to {YARDSTICK}, middle of the rounds"),
            corpus,
        );
        for (row, cells) in rows.iter().zip(cells) {
            line(row, cells, |at, cell| {
                let Some(known) = &yardstick[at] else {
                    return "-".into();
                };
                let ratios = cell.nanos.iter().zip(&known.nanos);
                format!(
                    "{:.2}",
                    middle(ratios.map(|(own, known)| own / known).collect())
                )
            });
        }
    }
    head("allocations per message", corpus);
    for (row, cells) in rows.iter().zip(cells) {
        if !row.is_limit {
            line(row, cells, |_, cell| {
                format!("{:.1}", cell.allocations).replace(".0", "")
            });
        }
    }
}

/// Reader, item and the nanoseconds of every round, with tabs between. An item that a reader cannot read has no line.
pub fn print_raw(corpus: &[Item], rows: &[Row], cells: &[Vec<Option<Cell>>]) {
    for (row, cells) in rows.iter().zip(cells) {
        for (item, cell) in corpus.iter().zip(cells) {
            let Some(cell) = cell else { continue };
            let nanos: Vec<_> = cell
                .nanos
                .iter()
                .map(|nanos| format!("{nanos:.2}"))
                .collect();
            println!("{} {}\t{}", row.name, &item.name[..2], nanos.join("\t"));
        }
    }
}
