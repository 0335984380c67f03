//! The table, as Markdown.

use crate::measure::{Figures, Measured, Samples};
use crate::row::{Mode, Row};

pub(crate) fn print(rows: &[Row], measured: &[Measured]) {
    println!(
        "| what | 1 in flight: CPU µs (x bare) | p50 / p99 µs | 64: CPU µs (x bare) | requests/s | batch of 100: CPU µs (x bare) | crowd of 64 tasks: CPU µs (x bare) |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (row, [one, many, batch, crowd]) in rows.iter().zip(measured) {
        let is_floor = row.floor == row.name;
        let times = one.map_or("-".into(), |one| format!("{:.1} / {:.1}", one.p50, one.p99));
        let rate = many.map_or("-".into(), |many| format!("{:.1}k", many.rate / 1e3));
        println!(
            "| {} | {} | {times} | {} | {rate} | {} | {} |",
            row.name,
            cpu(*one, is_floor),
            cpu(*many, is_floor),
            cpu(*batch, is_floor),
            cpu(*crowd, is_floor),
        );
    }
}

/// What other software cost with 64 in flight, as a multiple of the bare transport, on the machine of the targets.
const ANCHORS: [(&str, f64); 3] = [
    ("jsonrpsee WebSocket", 35.0),
    ("async-lsp duplex", 24.0),
    ("karyon_jsonrpc TCP", 104.0),
];

/// How far a multiple may be from that and still count as the same.
const MAX_APART: f64 = 0.30;

/// Prints for each of `ANCHORS` whether it costs here what it cost there.
pub(crate) fn print_anchors(rows: &[Row], measured: &[Measured]) {
    for (name, anchor) in ANCHORS {
        let at = rows.iter().position(|row| row.name == name);
        let many = at.and_then(|at| measured[at][Mode::Many as usize]);
        let Some(ratio) = many.and_then(|many| many.ratio) else {
            continue;
        };
        let apart = ratio / anchor - 1.0;
        let verdict = if apart.abs() <= MAX_APART {
            "as it was"
        } else {
            "APART"
        };
        println!(
            "set-up: {name} {ratio:.1} times the bare transport, {anchor} where the targets come from ({:+.0} %): {verdict}",
            apart * 100.0
        );
    }
}

/// Row and mode, and the processor time of a request in every round, with tabs between.
pub(crate) fn print_raw(rows: &[Row], samples: &[Samples]) {
    for (row, modes) in rows.iter().zip(samples) {
        for mode in Mode::ALL {
            let rounds = modes[mode as usize].iter();
            let cpu: Vec<_> = rounds.map(|one| format!("{:.4}", one.cpu)).collect();
            if !cpu.is_empty() {
                println!("{}: {}\t{}", row.name, mode.name(), cpu.join("\t"));
            }
        }
    }
}

fn cpu(figures: Option<Figures>, is_floor: bool) -> String {
    match figures {
        None => "-".into(),
        Some(Figures {
            cpu,
            ratio: Some(ratio),
            ..
        }) if !is_floor => {
            format!("{cpu:.2} ({ratio:.2})")
        }
        Some(Figures { cpu, .. }) => format!("{cpu:.2}"),
    }
}
