//! What an echo costs, in processor time and in latency: every adapter and transport of antiphon
//! beside the bare transport, with the same bytes in as many writes, and beside other software.
//!
//! ```text
//!   echo [--slot MS] [--rounds N] [--rows NAME]... [--raw yes]    the table, or with --raw the figures of every round
//!   echo --profile NAME --mode one|many|batch --count N           one row, N rounds, no clock
//! ```
//!
//! With `--one-thread yes` tokio and smol have only the calling thread.
//!
//! A NAME stands for every row whose name begins with it. In a row of antiphon both sides are ours, or the name says which
//! one is; the other is then bare.
//!
//! Rule: client and server are in one process, on one core, so that processor time
//! can be compared; rows take turns, so that what disturbs one disturbs its neighbours; and every
//! answer is checked.
#![forbid(unsafe_code)]

mod by_hand;
mod floors;
mod floors_ws;
mod http;
mod http_events;
mod measure;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod row;
#[cfg(feature = "peers")]
mod rpc;
mod runtime;
mod service;
mod side;
mod table;
mod typed;

use std::time::Duration;

use row::{Mode, Outcome, Row};

/// The program's arguments.
struct Arguments {
    slot: Duration,
    rounds: usize,
    rows: Vec<String>,
    is_raw: bool,
    has_worker: bool,
    mode: Option<Mode>,
    count: usize,
}

fn arguments() -> Outcome<Arguments> {
    let mut given = Arguments {
        slot: Duration::from_millis(120),
        rounds: 15,
        rows: Vec::new(),
        is_raw: false,
        has_worker: true,
        mode: None,
        count: 1000,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words
            .next()
            .ok_or_else(|| format!("{word} wants a value"))?;
        match word.as_str() {
            "--slot" => given.slot = Duration::from_millis(value.parse()?),
            "--rounds" => given.rounds = value.parse()?,
            "--rows" | "--profile" => given.rows.push(value),
            "--raw" => given.is_raw = true,
            "--one-thread" => given.has_worker = false,
            "--count" => given.count = value.parse()?,
            "--mode" => given.mode = Some(Mode::named(&value).ok_or("no such mode")?),
            _ => return Err(format!("{word}: there is no such option").into()),
        }
    }
    Ok(given)
}

/// Sets up the rows that are wanted, and no others.
fn rows(wanted: &[String]) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    floors::add(&mut rows, wanted)?;
    floors_ws::add(&mut rows, wanted)?;
    ours::add(&mut rows, wanted)?;
    http::add(&mut rows, wanted)?;
    http_events::add(&mut rows, wanted)?;
    by_hand::add(&mut rows, wanted)?;
    #[cfg(feature = "peers")]
    {
        peers::add(&mut rows, wanted)?;
        rpc::add(&mut rows, wanted)?;
    }
    Ok(rows)
}

fn main() -> Outcome<()> {
    let given = arguments()?;
    measure::pin()?;
    if given.has_worker {
        runtime::use_worker();
    }
    let mut rows = rows(&given.rows)?;
    if let Some(mode) = given.mode {
        rows.retain(|row| given.rows.contains(&row.name));
        let [row] = rows.as_mut_slice() else {
            return Err(format!("{} rows are named so, not one", rows.len()).into());
        };
        return row.lane.run(mode, given.count, &mut Vec::new());
    }
    let samples = measure::measure(&mut rows, given.rounds, given.slot)?;
    if given.is_raw {
        table::print_raw(&rows, &samples);
    } else {
        let medians = measure::medians(&samples);
        table::print(&rows, &medians);
        println!();
        table::print_anchors(&rows, &medians);
    }
    Ok(())
}
