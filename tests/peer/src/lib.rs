//! The core behind a fixed contract: a server with known methods and a client that is told what to
//! do, on every adapter. README.md beside this package has the contract; the program
//! `antiphon-peer` is made of this, and so is the suite that plays the same conversations over all
//! adapters.
//!
//! ```text
//!   contract ── the methods, once        desk, operations ── the client, once
//!       │                                        │
//!   on_threads, on_tasks ── how one waits    caller ── a few ways to call
//!       └──────────────── transports ────────────┘
//! ```
#![forbid(unsafe_code)]

pub mod caller;
mod client;
pub mod contract;
pub mod desk;
pub mod dialect;
pub mod items;
pub mod layers;
pub mod log;
pub mod on_tasks;
pub mod on_threads;
pub mod operations;
pub mod over_http;
mod pipes;
mod proxy;
pub mod runtime;
mod server;
pub mod streams;
mod target;
pub mod tls;
pub mod transports;
mod usage;

use std::io::{self, Write};

use usage::{Failure, Task};

/// The program `antiphon-peer` with these arguments: does what they ask, and gives the code to
/// exit with. Nothing but frames (server, proxy), answers (client) or the help goes to stdout;
/// everything else goes to stderr.
pub fn run(arguments: impl Iterator<Item = String>) -> u8 {
    match obey(arguments) {
        Ok(code) => code,
        Err(failure) => {
            log::write_line(format_args!("antiphon-peer: {failure}"));
            2
        }
    }
}

fn obey(arguments: impl Iterator<Item = String>) -> Result<u8, Failure> {
    match usage::parse(arguments)? {
        Task::Help => {
            // If stdout is closed, nobody needs the help.
            let _ = writeln!(io::stdout(), "{}", usage::help());
            Ok(0)
        }
        Task::Serve(endpoint) => server::run(&endpoint),
        Task::Drive(endpoint) => client::run(&endpoint),
        Task::Relay(options) => proxy::run(options),
    }
}
