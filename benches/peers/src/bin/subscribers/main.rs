//! What a server spends for each event that it sends to a hundred subscribers over WebSocket: antiphon beside jsonrpsee.
//!
//! ```text
//! subscribers [ROUNDS]
//! ```
//!
//! Prints the processor time of the server's process for an event that a subscriber gets, in nanoseconds (the middle of
//! the rounds), and its ratio to jsonrpsee's in the same round. The servers take turns. Each is a process of its own,
//! on tokio's threads, with default settings and the code that a user writes. One client reads from all of them: it
//! knows sockets and the headers of frames, and neither library. *bare writes* is what the system takes for the bytes.

mod bare;
mod reader;
mod servers;

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use reader::Reader;

const SUBSCRIBERS: usize = 100;

/// The servers, and the request that subscribes. The last one is what the others are compared with.
const SERVERS: [(&str, &str); 4] = [
    ("bare writes", r#""method":"subscribe","params":[]"#),
    ("antiphon, sinks", r#""method":"subscribe","params":[]"#),
    (
        "antiphon, hub",
        r#""method":"rpc.subscribe","params":{"topic":"quotes"}"#,
    ),
    ("jsonrpsee", r#""method":"subscribe","params":[]"#),
];

/// What is published: how many prices an event has beside its own, how many events at once, and how often.
const LOADS: [(&str, usize, u64, u64); 4] = [
    ("100 B, one at a time", 0, 1, 400),
    ("100 B, 50 at once", 0, 50, 20),
    ("1 KB, one at a time", 32, 1, 400),
    ("1 KB, 50 at once", 32, 50, 20),
];

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, name] = &words[..]
        && mode == "server"
    {
        return servers::serve(name);
    }
    let rounds = words
        .first()
        .map_or(Ok(5), |rounds| rounds.parse::<usize>())?;
    let mut taken = vec![[[0.0; LOADS.len()]; SERVERS.len()]; rounds];
    for (round, taken) in taken.iter_mut().enumerate() {
        for turn in 0..SERVERS.len() {
            let server = (round + turn) % SERVERS.len();
            taken[server] = measure(server)?;
        }
        eprintln!("round {} of {rounds}", round + 1);
    }
    println!(
        "| ns for an event that a subscriber gets | {} |",
        LOADS.map(|load| load.0).join(" | ")
    );
    println!("|---|{}", "--:|".repeat(LOADS.len()));
    let middle = |of: &dyn Fn(&[[f64; LOADS.len()]; SERVERS.len()]) -> f64| {
        let mut all: Vec<f64> = taken.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    for (at, (name, _)) in SERVERS.iter().enumerate() {
        let cells = std::array::from_fn::<_, { LOADS.len() }, _>(|load| {
            let nanos = middle(&|round| round[at][load]);
            let ratio = middle(&|round| round[at][load] / round[SERVERS.len() - 1][load]);
            format!("{nanos:.0} ({ratio:.2})")
        });
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(())
}

/// A server, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Nanoseconds of a server for each event that a subscriber gets, for each load.
fn measure(server: usize) -> Result<[f64; LOADS.len()], Box<dyn Error>> {
    let (name, subscribe) = SERVERS[server];
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["server", name]).stdout(Stdio::piped());
    let mut child = Server(command.spawn()?);
    let mut port = String::new();
    BufReader::new(child.0.stdout.take().ok_or("no output")?).read_line(&mut port)?;
    let mut control = Reader::connect(port.trim())?;
    let mut readers = Vec::new();
    for _ in 0..SUBSCRIBERS {
        let mut reader = Reader::connect(port.trim())?;
        reader.ask(subscribe)?;
        readers.push(reader);
    }
    let mut taken = [0.0; LOADS.len()];
    for (taken, (_, prices, at_once, times)) in taken.iter_mut().zip(LOADS) {
        let publish = format!(r#""method":"publish","params":[{prices},{at_once}]"#);
        let mut before = 0;
        // The first quarter only warms up.
        for time in 0..times + times / 4 {
            if time == times / 4 {
                before = control.spent()?;
            }
            control.ask(&publish)?;
            reader::read_all(&mut readers, at_once)?;
        }
        let spent = control.spent()? - before;
        *taken = spent as f64 / (times * at_once * SUBSCRIBERS as u64) as f64;
    }
    Ok(taken)
}
