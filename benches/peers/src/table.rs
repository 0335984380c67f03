//! The tables, in Markdown.

use crate::corpus::Item;
use crate::{Cell, Row};

/// What the ratios are against: the best that serde_json can do by hand.
pub const YARDSTICK: &str = "serde_json typed";

/// What the targets speak of.
pub const OURS: &str = "antiphon";

/// A figure that spreads by more is marked.
const SPREAD_MAX: f64 = 0.10;

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// How far the middle half of the rounds lies apart, against the middle.
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
            let mark = if spread(&cell.nanos) > SPREAD_MAX {
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
    targets(corpus, rows, cells);
}

/// The targets that name other software: row, who it is, items, must and target.
const TARGETS: [(u32, &str, &[&str], f64, f64); 5] = [
    (
        3,
        "alloy-json-rpc",
        &["01", "02", "03", "04", "05"],
        0.35,
        0.25,
    ),
    (
        3,
        "jsonrpsee-types",
        &["01", "02", "03", "04", "05"],
        0.22,
        0.15,
    ),
    (3, "lsp-server", &["01", "02", "03", "04", "05"], 0.18, 0.12),
    (6, "sonic-rs typed", &["06"], 0.92, 0.70),
    (7, "sonic-rs typed", &["07"], 0.86, 0.60),
];

/// Ours against each of them, item by item; the worst decides.
fn targets(corpus: &[Item], rows: &[Row], cells: &[Vec<Option<Cell>>]) {
    let of = |name: &str| {
        rows.iter()
            .position(|row| row.name == name)
            .map(|at| &cells[at])
    };
    let Some(ours) = of(OURS) else { return };
    println!("\n### targets of benches/speed.md that name other software\n");
    println!("| # | against | items | must | target | measured |");
    println!("|---|---|---|--:|--:|--:|");
    for (number, name, items, must, target) in TARGETS {
        let Some(theirs) = of(name) else { continue };
        let mut worst = 0.0_f64;
        let mut shown = Vec::new();
        for item in items {
            let at = corpus.iter().position(|one| one.name.starts_with(item));
            let both = at.and_then(|at| ours[at].as_ref().zip(theirs[at].as_ref()));
            let Some((own, other)) = both else {
                shown.push("x".into());
                continue;
            };
            let ratios = own.nanos.iter().zip(&other.nanos);
            let ratio = middle(ratios.map(|(own, other)| own / other).collect());
            worst = worst.max(ratio);
            shown.push(format!("{ratio:.2}"));
        }
        let verdict = match worst {
            worst if worst <= target => "target",
            worst if worst <= must => "must",
            _ => "MISSED",
        };
        println!(
            "| {number} | {name} | {} | ≤ {must} | ≤ {target} | {} ({verdict}) |",
            items.join(", "),
            shown.join(", ")
        );
    }
}
