//! The command `antiphon`: calls JSON-RPC servers, and tests whether they keep to the specification.
//!
//! All that others may rely on is the command line: `antiphon --help`, its exit codes and its output. This
//! library has one function, which the binary calls.

mod answer;
mod args;
mod bytes;
mod call;
mod cases;
mod catalogue;
mod client;
mod conform;
mod fault;
mod fuzz;
mod host;
mod http;
mod judge;
mod link;
mod oracle;
mod place;
mod plays;
mod pretty;
mod probes;
mod probes_http;
mod probes_websocket;
mod random;
mod report;
mod run;
mod stress;
mod talks;
mod target;
mod websocket;
mod wire;

use std::process::ExitCode;

use clap::Parser;

/// Reads the command line, and does what it says. Returns the exit code.
pub fn main() -> ExitCode {
    // Commands that were started get the signal too, or see the end of their input.
    let _ = ctrlc::set_handler(|| std::process::exit(130));
    let done = match args::Line::parse().command {
        args::Action::Call(line) => call::run(&line),
        args::Action::Conform(line) => conform::run(&line),
    };
    done.unwrap_or_else(|fault| fault.end())
}
